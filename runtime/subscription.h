/* A subscription: a table being worked on. Two engines run it:
 *   held   (worker.c)   row lock and advisory lock: each worker claims, runs and settles on one connection one row, or a batch
 *   lease  (lease_*.c)  one claimer, one settler and one renewer serve all workers; no connection is held while a handler runs
 *
 * One mutex guards all of it, deliveries included. It is never held over a call of the user's or of the database's. */
#ifndef HF_RUNTIME_SUBSCRIPTION_H
#define HF_RUNTIME_SUBSCRIPTION_H

#include "runtime/partition.h"
#include "strategies/cost.h"

/* What a subscription counts: name, unit, description. */
#define HF__COUNTER_MAP(X)                                                                                   \
    X(claims, "statements", "claims sent")                                                                   \
    X(empty_claims, "statements", "claims that found nothing")                                               \
    X(claim_errors, "statements", "claims that failed")                                                      \
    X(claim_retries, "statements", "claims that the database asked to try again")                            \
    X(claimed, "rows", "rows claimed")                                                                       \
    X(acked, "rows", "rows done")                                                                            \
    X(retried, "rows", "rows put back at once by their handler")                                             \
    X(retried_later, "rows", "rows put back with a delay by their handler")                                  \
    X(rejected, "rows", "rows rejected by their handler")                                                    \
    X(dead, "rows", "rows moved to the dead letter: rejected, or with all their attempts used up")           \
    X(dead_refused, "claims", "claims that found rows past max_attempts which the dead letter refused")      \
    X(given_back, "rows", "rows given back at the stop, or because their handler never began")               \
    X(lease_lost, "rows", "rows whose lease was taken by someone else before they were settled")             \
    X(lost, "rows", "rows whose connection was lost, and with it the row")                                   \
    X(unknown, "rows", "rows whose settle was never answered and that cannot tell")                          \
    X(settle_errors, "rows", "rows whose settle failed; they run again")                                     \
    X(settle_retries, "rows", "settles tried again after a passing failure")                                 \
    X(renewals, "rows", "leases renewed")                                                                    \
    X(renewal_errors, "rows", "renewals that failed or were passed over; tried again while the lease holds") \
    X(handler_timeouts, "rows", "handlers that ran longer than handler_timeout_ms")                          \
    X(cancelled, "rows", "deliveries flagged while their handler ran")

struct hf__counters {
#define HF__COUNTER_MEMBER(name, unit, text) uint64_t name;
    HF__COUNTER_MAP(HF__COUNTER_MEMBER)
#undef HF__COUNTER_MEMBER
};

/* One kind of message that an outage would repeat for ever: the first at once, then one every ten seconds with the number left out. */
struct hf__noise {
    int64_t next_ns;
    uint64_t suppressed;
};

/* A thread of a subscription. */
struct hf__worker {
    struct hf_subscription *subscription;
    void (*run)(struct hf__worker *worker);
    pthread_t thread;
    bool started; /* constant while threads run */
    struct hf__sleeper sleeper;
    bool is_idle;   /* lease: on the idle list */
    bool called;    /* held: by a worker that found a row: claim at once */
    bool contended; /* held: the last claim found heads, and got none */
    bool in_burst;  /* held: its turn came because another had found a row */
    TAILQ_ENTRY(hf__worker) idle;
    TAILQ_ENTRY(hf__worker) turn; /* held, partition keys: waits to claim; the first one claims */
    struct hf__busy busy;         /* of a worker that claims: the keys that its claim leaves out */
    /* Of a worker that runs handlers: room for one batch, made before any thread runs. */
    struct hf_delivery **list;  /* lease: the n that it runs; held: the n that it has claimed, and blank ones behind them */
    struct hf_delivery **begun; /* held: those of the list whose handler runs */
    struct hf__row **rows;
    struct hf__change *changes;
    size_t n;
};

TAILQ_HEAD(hf__deliveries, hf_delivery);
TAILQ_HEAD(hf__workers, hf__worker);

struct hf_subscription {
    /* Constant once made. */
    struct hf_runtime *runtime;
    size_t index;
    struct hf_table *table;
    struct hf_subscription_options options; /* defaults filled in */
    char **groups;                          /* what options.groups points to */
    hf_handler handler;                     /* of single deliveries, */
    hf_batch_handler batch_handler;         /* or of several; one of the two is NULL */
    size_t batch;                           /* rows that a call of the handler gets at most: options.batch, or 1 */
    void *ctx;
    TAILQ_ENTRY(hf_subscription) entry; /* guarded by the runtime's lock */

    /* Written by start before any thread runs, constant while threads run. */
    struct hf__plan *plan;
    const struct hf__strategy *strategy;
    struct hf__cost cost;     /* of the workers that run */
    bool lease;               /* which engine */
    bool holds;               /* a delivery in work holds a connection, */
    enum hf__purpose held_as; /* for this */
    int64_t lease_ns;
    size_t n_workers;           /* that run: fewer than asked when the pool is too small */
    size_t extra_most;          /* advisory batches: connections for rows beyond each worker's first, all workers together */
    struct hf__worker *workers; /* the n_workers, then the helpers: claimer, settler, renewer, watchdog */
    size_t n_threads;
    struct hf__worker *claimer, *settler, *renewer, *watchdog; /* NULL: this subscription has none */

    pthread_mutex_t lock; /* guards what follows */
    bool go;              /* all threads exist: they may begin */
    bool stopping;        /* nothing is claimed any more */
    bool over;            /* the drain limit is over: no handler begins, nothing is tried again for long */
    size_t live;          /* threads that have not ended */
    size_t live_workers;  /* of them, workers and the claimer: those who make new work for settler and renewer */

    /* When the next claim is due: of the scout (held) or the claimer (lease). */
    int64_t next_poll_ns;
    unsigned contended;       /* claims in a row that got none of the heads that they found */
    int64_t put_back_ns;      /* when the first row that was put back with a delay is due; past: none is known */
    bool woken;               /* an enqueue: claim now. Stays set until a claim begins, so that none is missed */
    unsigned failures;        /* claims that failed in a row */
    unsigned openings_failed; /* transactions for handlers that could not be opened, in a row */
    bool wants_room;          /* lease: the claimer sleeps until there is room */
    bool watchdog_idle;       /* the watchdog sleeps until a handler begins */
    struct hf__worker *scout; /* held: the one idle worker that polls, or that is claiming for it */
    struct hf__workers idle;  /* held: all that wait; lease: workers that have nothing to run */

    struct hf__deliveries work; /* every delivery that exists */
    size_t n_work, peak_work;
    size_t extra;                   /* connections in use of extra_most */
    struct hf__deliveries ready;    /* lease: claimed, not begun, in claim order */
    size_t n_ready, n_blocked;      /* blocked ones wait for a row of their partition key */
    size_t running;                 /* lease: workers that run a handler */
    struct hf__deliveries leases;   /* lease: to be renewed, soonest first */
    struct hf__deliveries settling; /* lease: outcomes on their way, oldest first */
    struct hf__deliveries again;    /* lease: outcomes to be tried or looked at again at their time */

    struct hf__deliveries *keys; /* rows in work that have a partition key (partition.c); NULL: the table has none */
    struct hf__workers turns;    /* held: who claims, and who waits for it */
    size_t n_keys;               /* different ones in work */
    bool left_out;               /* lease: the last claim came short, and keys in work were left out */
    uint64_t keys_freed;         /* how often a key was no longer in work */

    struct hf__counters count;
    struct hf__counters at_stop; /* copied when the stop began */
    int64_t in_work_us;          /* of rows whose outcome is on its way to the database, or there */
    double mean_handler_us;      /* moving mean; 0: none has ended yet */
    struct hf__histogram handler_time;
    size_t keyless; /* advisory: due rows that render no key, as last seen */
    int64_t keyless_next_ns, keyless_wait_ns;
    struct hf__noise claim_noise, dead_noise, settle_noise, renew_noise, handler_noise;
};

/* What a subscription with these options, defaults filled in, costs. */
struct hf__cost_input hf__cost_input_for(const struct hf_runtime *runtime, const struct hf_table *table,
                                         const struct hf_subscription_options *options);

/* The public hf_subscribe makes one of checked options. */
HF_CHECKED hf_status hf__subscription_new(struct hf_runtime *runtime, const struct hf_table *table,
                                          const struct hf_subscription_options *options, hf_handler handler, hf_batch_handler batch_handler,
                                          void *ctx, struct hf_subscription **out, hf_error *err);
void hf__subscription_free(struct hf_subscription *subscription); /* NULL is allowed; no thread of it runs */

/* Makes the threads, which wait for _go. On an error those that exist have ended. */
HF_CHECKED hf_status hf__subscription_spawn(struct hf_subscription *subscription, hf_error *err);
void hf__subscription_go(struct hf_subscription *subscription);
/* Nothing is claimed from now on. */
void hf__subscription_stop(struct hf_subscription *subscription);
/* The drain limit is over: what has not begun goes back, what runs is flagged. */
void hf__subscription_give_up(struct hf_subscription *subscription);
bool hf__subscription_ended(struct hf_subscription *subscription);     /* all threads have */
size_t hf__subscription_running(struct hf_subscription *subscription); /* handlers that run */
void hf__subscription_join(struct hf_subscription *subscription);      /* waits for the threads, which are ending */
/* Forgets threads and plan, as before start. */
void hf__subscription_reset(struct hf_subscription *subscription);
void hf__subscription_wake(struct hf_subscription *subscription);

/* ---- for the engines. "Locked": the caller holds the lock. ---- */

/* The deadline of a database call that starts now. */
struct hf__deadline hf__call_deadline(const struct hf_subscription *subscription);
/* Locked: what a claim's result means for the next one. */
void hf__claim_due_now(struct hf_subscription *subscription);
void hf__claim_came_short(struct hf_subscription *subscription, bool empty);
/* Locked, after a claim that found heads of FIFO groups and got none: whoever is busy with them may be so for a moment only, as another
 * claim that is going to take something else. Claims again after a while that grows, until rows are found or settled. */
void hf__claim_contended(struct hf_subscription *subscription);
/* Locked: a row will be due again after the delay: the next claim is no later. */
void hf__claim_due_in(struct hf_subscription *subscription, int64_t delay_us);
/* Counts and logs a failed claim and puts the next one off. Not locked. */
void hf__claim_failed(struct hf_subscription *subscription, hf_status status, const hf_error *err);
/* Counts and logs what a claim did with rows that had used up max_attempts. refused: why one of them could not be moved. Not locked. */
void hf__claim_buried(struct hf_subscription *subscription, size_t buried, const hf_error *refused);
/* Measures the clock again when that is due, on the connection of a claim. */
HF_CHECKED hf_status hf__claim_clock(struct hf_subscription *subscription, struct hf__conn *conn, hf_error *err);
/* Advisory, after a claim that found nothing: looks for rows that render no key, at growing intervals. Not locked. */
HF_CHECKED hf_status hf__look_for_keyless(struct hf_subscription *subscription, struct hf__conn *conn, hf_error *err);
/* Logs, rate-limited by noise. Not locked. */
void hf__log_noise(struct hf_subscription *subscription, struct hf__noise *noise, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int64_t hf__jittered(int64_t span); /* plus or minus a quarter at random */
/* 100 ms, doubled with each failure, at most 5 s, with jitter; a passing failure begins at 10 ms. */
int64_t hf__backoff_ns(unsigned failures, bool passing);

/* What the threads run. */
void hf__held_worker(struct hf__worker *worker);
void hf__lease_worker(struct hf__worker *worker);
void hf__lease_claimer(struct hf__worker *claimer);
void hf__lease_settler(struct hf__worker *settler);
void hf__lease_renewer(struct hf__worker *renewer);
void hf__watchdog(struct hf__worker *watchdog);

#endif
