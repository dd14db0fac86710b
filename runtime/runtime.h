/* The runtime: a database, its pool, and the subscriptions that read from it. What the files of runtime/ share.
 *
 * Locks, in this order; none is held over a call of the user's or of the database's:
 *   1. hf_runtime.lock        state, pool, server, the list of subscriptions
 *   2. hf_subscription.lock   everything of a subscription that changes, its deliveries included (subscription.h)
 *   3. hf_runtime.lending.lock  what hf_checkout has lent
 *   4. the pool's and the clock's own, inside their calls */
#ifndef HF_RUNTIME_RUNTIME_H
#define HF_RUNTIME_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "holdfast.h"
#include "pool/pool.h"
#include "runtime/thread.h"
#include "strategies/strategy.h"

/* A thousand years: of a job, or of a row that is put back. */
#define HF__LONGEST_DELAY_MS (INT64_C(1000) * 366 * 86400 * 1000)

enum hf__runtime_state {
    HF__RUNTIME_OPEN,     /* -> STARTING (start), STOPPED (stop) */
    HF__RUNTIME_STARTING, /* -> RUNNING, or back to OPEN on an error */
    HF__RUNTIME_RUNNING,  /* -> STOPPING (stop) */
    HF__RUNTIME_STOPPING, /* -> JOINING, by the stop that sees the last thread end */
    HF__RUNTIME_JOINING,  /* -> STOPPED */
    HF__RUNTIME_STOPPED
};

struct hf_connection;
struct hf__borrower;

/* What hf_checkout has lent, and to whom it may lend more (checkout.c). */
struct hf__lending {
    pthread_mutex_t lock; /* guards what follows */
    size_t most;          /* lent at once; SIZE_MAX before the start */
    size_t kept;          /* of them, for handlers that have declared theirs */
    bool shut;            /* the runtime has stopped */
    TAILQ_HEAD(hf__lent, hf_connection) lent;
    size_t n_declared, n_others;                   /* the list's length, by who has it */
    TAILQ_HEAD(hf__borrowers, hf__borrower) queue; /* who waits, oldest first */
    struct hf__gate changed;                       /* the stop waits here until all is back */
};

struct hf_runtime {
    /* Constant once the runtime is open. */
    pid_t owner; /* a forked child gets HF_MISUSE and touches nothing */
    struct hf__url *url;
    struct hf_runtime_options options; /* defaults filled in */
    char *application_name;            /* what options.application_name points to */
    struct hf__clock *clock;

    /* Written by start before any thread runs, constant while threads run. */
    size_t pool_size;       /* 0: not started */
    size_t held_allowed;    /* connections that hold rows, by the cost model, all subscriptions together */
    size_t lending_allowed; /* lending.most */
    bool pool_ample;        /* nobody need wait for a connection: a worker may keep its own between rows */

    /* The longest database call or wait for a connection, renewals excepted. Lowered by start, while others may enqueue. */
    _Atomic int64_t call_limit_ms;

    pthread_mutex_t lock; /* guards what follows */
    enum hf__runtime_state state;
    struct hf__pool *pool;    /* NULL until somebody needs it; then it stays until close */
    struct hf__server server; /* of the last admin connection; text is "" before that */
    TAILQ_HEAD(hf__subscriptions, hf_subscription) subscriptions;
    size_t n_subscriptions;
    struct hf__gate changed; /* stop and wait_empty wait here: a thread ended, the state moved */

    struct hf__lending lending;

    atomic_uint_fast64_t model_exceeded; /* how often more connections held rows than the cost model allows: a bug */
};

/* HF_MISUSE in a forked child or for NULL. Every public call starts with it. */
HF_CHECKED hf_status hf__runtime_usable(const struct hf_runtime *runtime, hf_error *err);

/* The pool, opened if nobody needed it before (nothing connects yet). Borrowed: lives until hf_runtime_close. HF_STOPPED after stop. */
HF_CHECKED hf_status hf__runtime_connect_pool(struct hf_runtime *runtime, struct hf__pool **out, hf_error *err);
/* Opens the pool if need be and gets a connection for the purpose within the statement limit: hf__pool_release it. */
HF_CHECKED hf_status hf__runtime_acquire(struct hf_runtime *runtime, enum hf__purpose purpose, struct hf__checkout **out, hf_error *err);
/* The deadline of a database call that starts now. */
struct hf__deadline hf__runtime_deadline(const struct hf_runtime *runtime);

/* Before the runtime is used; and when everything is back. */
HF_CHECKED hf_status hf__lending_init(struct hf__lending *lending, hf_error *err);
void hf__lending_destroy(struct hf__lending *lending);
/* From now on so many may be lent, `kept` of them to handlers that have declared theirs. HF_BUSY: more are out already. */
hf_status hf__lending_limit(struct hf__lending *lending, size_t most, size_t kept, hf_error *err);
/* Lends nothing any more (HF_STOPPED), and waits until all is back. Returns how many are not at the deadline. */
size_t hf__lending_shut(struct hf__lending *lending, struct hf__deadline deadline);

/* What hf_postgres_connection and its kind answer. */
void *hf__connection_native(struct hf_connection *connection, enum hf__database database);

/* Wakes the subscriptions of the table. Never blocks for longer than a lock. */
void hf__runtime_wake(struct hf_runtime *runtime, const struct hf_table *table);
/* Wakes whoever waits in stop or wait_empty. */
void hf__runtime_changed(struct hf_runtime *runtime);

/* To the user's log callback. Call it without any lock held. */
void hf__log(struct hf_runtime *runtime, hf_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What every caller's struct goes through: copies as much as both know, so that an older caller's struct is read rightly. */
HF_CHECKED hf_status hf__copy_options(void *into, size_t size, const void *from, const char *what, hf_error *err);

#endif
