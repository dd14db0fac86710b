/* A delivery: one claimed row on its way through a handler.
 *
 *   READY     claimed; its handler has not begun
 *   RUNNING   its handler runs
 *   DEFERRED  its handler returned HF_DEFER; its worker waits until hf_delivery_settle has settled it
 *   SETTLING  its outcome is decided and on its way to the database
 *   DONE      the database has answered, or the row is known not to be ours any more
 *
 *   READY --hf__delivery_begin--> RUNNING --hf__delivery_run--> DEFERRED
 *     |                              |                             |
 *     +------hf__delivery_decide-----+-----------------------------+---> SETTLING --hf__delivery_finish--> DONE
 *
 * Invariants, all under the subscription's lock:
 *  - The outcome is decided once: by the handler's return, by hf_delivery_settle, or for a row that goes back unrun.
 *  - Lease engine: one that is SETTLING is on `settling`, or when it waits for another try (`retrying`) on `again`, unless it is
 *    being renewed or sent.
 *  - Transactional mode: while `in_transaction` is set, a decided delivery belongs to the thread that decided, which ends the
 *    transaction; in the lease engine it is not renewed meanwhile, and is on no settle list.
 *  - While `renewing` is set the renewer owns the row's token: nobody sends a settle, and the delivery is on no settle list.
 *    The renewer passes it on when the renewal is answered. While it is being sent it is not renewed; nor is it while
 *    `unseen` is set, because its token may be gone by our own settle.
 *  - The thread that moves it to SETTLING owns the checkout (held engine); in the lease engine the settler owns the row from then on.
 *  - `lost` means that the database said so, or the connection that held the row is gone: nothing is sent, nothing is reported as done.
 *  - A batch is begun and ended together: its handler's return decides all of it. The rows of a row lock's batch have one checkout,
 *    and are settled, or lost, together.
 *  - A delivery is freed with its last reference. One belongs to the row until DONE, one to the worker while the handler runs,
 *    one to each caller of hf_delivery_settle and to a callback in progress. */
#ifndef HF_RUNTIME_DELIVERY_H
#define HF_RUNTIME_DELIVERY_H

#include "runtime/subscription.h"

enum hf__delivery_state { HF__DELIVERY_READY, HF__DELIVERY_RUNNING, HF__DELIVERY_DEFERRED, HF__DELIVERY_SETTLING, HF__DELIVERY_DONE };

/* A caller of hf_delivery_settle that waits for the answer. */
struct hf__answer {
    hf_status status;
    hf_error error;
};

struct hf_delivery {
    struct hf_subscription *subscription;
    struct hf__row *row;                     /* its values are constant; its tokens belong to claimer, renewer and settler in turn */
    char group_text[24], partition_text[24]; /* of a group, and of a partition key, that is a number */

    /* Set by the handler's thread before the settle; read by whoever settles, after it. */
    int64_t delay_ms; /* negative: the subscription's backoff */
    char *reason;
    size_t reason_len;

    /* Written by the worker that runs it, before it runs. */
    struct hf__worker *holder; /* NULL: it waits for a worker (lease) */
    struct hf_delivery *mate;  /* row lock: the next one of the batch; the first has the checkout that holds them all */

    atomic_int cancel;  /* an hf_cancel; written under the lock */
    atomic_int outcome; /* of a batch: the hf_outcome that was set; -1: none yet */
    _Atomic int64_t lease_until_us;

    /* Guarded by the subscription's lock. */
    TAILQ_ENTRY(hf_delivery) work, queue, lease, key; /* queue: ready, settling or again; key: a bucket of keys */
    enum hf__delivery_state state;
    unsigned refs;
    bool handling;  /* the handler has begun and not ended, a deferred one included */
    bool timed_out; /* the watchdog has seen it */
    bool abandoned; /* no longer renewed */
    bool keyed;     /* in a bucket of keys */
    bool blocked;   /* lease, ready: an earlier row of its partition key has not ended */
    bool drained;   /* flagged at the drain limit: goes back when the handler returns */
    bool leads;     /* the first of those that its handler's call was given */
    bool lost;
    bool leased; /* on the leases list */
    bool renewing;
    bool dead;          /* settled with HF_OK: it went to the dead letter */
    bool paused;        /* lease: off the leases list for now */
    bool sent;          /* held: a settle was sent */
    bool work_ended;    /* its time in work is in the sum */
    bool uncertain;     /* a settle was sent and its answer never came */
    bool unseen;        /* lease: and the row has not been looked at since */
    bool retrying;      /* lease: its place is on `again`, not on `settling` */
    unsigned tries;     /* of the settle */
    unsigned end_tries; /* those of them that failed when the drain limit was over */
    enum hf__action action;
    int64_t delay_us;
    int64_t claimed_ns, begun_ns;
    int64_t held_ns;         /* lease: when the claim or the last renewal that succeeded was sent */
    int64_t renew_ns;        /* lease: when to renew it */
    int64_t again_ns;        /* when to try the settle again */
    struct hf__gate changed; /* cancelled, settled, callback ended */
    void (*on_cancel)(hf_delivery *delivery, hf_cancel why, void *ctx);
    void *on_cancel_ctx;
    bool calling; /* on_cancel is being called, by caller */
    pthread_t caller;
    struct hf__answer *answer; /* of the caller of hf_delivery_settle, if one waits */

    /* Transactional mode. */
    bool in_transaction; /* whoever decides ends it. Lease engine: from the moment that the worker has taken the row */
    bool exposed;        /* its native handle was shown to the handler */

    /* Held engine: what holds the row. Transactional: the connection of its transaction. Owned by the worker, then by the thread that
     * settles. */
    struct hf__checkout *checkout;
};

/* A blank one, to be filled when a row has been claimed: memory runs out before a claim, not after it. NULL when it does. */
struct hf_delivery *hf__delivery_new(struct hf_subscription *subscription);
void hf__delivery_free(struct hf_delivery *delivery); /* NULL is allowed */

/* "Locked": the caller holds the subscription's lock. */

/* Locked: takes the row over; the delivery joins `work` as READY with the row's reference. */
void hf__delivery_fill(struct hf_delivery *delivery, struct hf__row *row);
/* Locked: READY -> RUNNING, with the worker's reference. */
void hf__delivery_begin(struct hf_delivery *delivery);
/* Locked: its handler is called now: with the begin, or in transactional mode when its transaction is open. */
void hf__delivery_runs(struct hf_delivery *delivery);
/* Runs the handler, and what it deferred. True: the handler's return has decided the outcome, and the caller must settle.
 * False: hf_delivery_settle has. Not locked. */
bool hf__delivery_run(struct hf_delivery *delivery);
/* Locked: the drain limit came before its outcome. What a batch handler had set before the limit stands: that row has had its run. */
bool hf__delivery_goes_back(const struct hf_delivery *delivery);
/* The same for a batch: the handler's return has decided each. Not locked. */
void hf__batch_run(struct hf_delivery *const *deliveries, size_t n);
/* What became of a row of a batch, to be taken when the handler has returned. */
hf_outcome hf__batch_outcome(const struct hf_delivery *delivery);
/* Locked: a handler's call has ended. */
void hf__note_handler(struct hf_subscription *subscription, int64_t ns, size_t rows);
/* Locked: its outcome is on its way. Lease engine: with the decision; held engine: when its settle is sent, until which a row of a batch
 * keeps its connection. */
void hf__delivery_end_work(struct hf_delivery *delivery);
/* Locked: decides; in the lease engine the outcome is on its way to the settler with that, unless a transaction is to be ended first. */
void hf__delivery_decide(struct hf_delivery *delivery, enum hf__action action);
/* Locked: its handler does not begin after all: it goes back unbegun. It is not claimed again before the delay. */
void hf__delivery_turn_back(struct hf_delivery *delivery, int64_t wait_us);
/* Locked: a decided ack was undone: tells who waits for it, and makes it a retry_after with the subscription's backoff. */
void hf__delivery_undone(struct hf_delivery *delivery, hf_status status, const hf_error *err);
/* What an outcome means for the row. */
enum hf__action hf__action_of(hf_outcome outcome);
/* What goes to the database. */
struct hf__change hf__delivery_change(struct hf_delivery *delivery);
/* Locked: SETTLING -> DONE: counts, answers who waits. */
void hf__delivery_finish(struct hf_delivery *delivery, hf_status status, const hf_error *err);
/* Says in the log what is worth saying about an outcome that has its final status. Not locked, before _finish. */
void hf__delivery_report(struct hf_delivery *delivery, hf_status status, const hf_error *err);
/* Locked: drops a reference. Returns the delivery when it was the last: the caller frees it once unlocked. */
struct hf_delivery *hf__delivery_unref(struct hf_delivery *delivery) __attribute__((warn_unused_result));
/* Locked; unlocks while it calls the user's callback, so lists may have changed when it returns. The delivery still exists. */
void hf__delivery_cancel(struct hf_delivery *delivery, hf_cancel why);

/* Held engine: settles, on the delivery's connection, it and its mates. Called by the thread that decided. */
void hf__held_settle(struct hf_delivery *delivery);
/* After a settle whose answer never came: looks at the row on another connection, which takes the place of the delivery's. */
HF_CHECKED hf_status hf__resolve(struct hf_delivery *delivery, struct hf__change *change, hf_error *err);
/* More connections that hold rows than the cost model allows would be a bug of ours: it is counted, and said with the purposes. */
void hf__check_model(struct hf_subscription *subscription);

/* Transactional mode (transaction.c). Not locked. */
/* Opens the transaction on the delivery's connection, which is not pinned. False: it has been decided that the row goes back unbegun, and
 * the caller settles it. */
bool hf__transaction_begin(struct hf_delivery *delivery);
/* Ends the transaction of a decided delivery. True: it is settled, or lost, with the change's status. False: it is to be settled with the
 * outcome that the delivery has now. */
bool hf__transaction_end(struct hf_delivery *delivery, struct hf__change *change, hf_error *err);
/* The lease engine's: the same with the connection, and what has to go on to the settler. _begin false: the caller calls _end. */
bool hf__lease_begin(struct hf_delivery *delivery);
void hf__lease_end(struct hf_delivery *delivery);
/* Waits until whoever decided has ended the transaction. */
void hf__lease_await_end(struct hf_delivery *delivery);
/* May the delivery's own transaction keep its renewal out? (SQLite) */
bool hf__transaction_shuts_out(const struct hf_delivery *delivery);
/* What hf_postgres_delivery and its kind answer. */
void *hf__delivery_native(struct hf_delivery *delivery, enum hf__database database);

/* Lease engine, locked: a decided delivery goes on to the settler; while it is being renewed the renewer passes it on. */
void hf__lease_settle(struct hf_delivery *delivery);
/* Lease engine, locked: to the renewals, sorted by renew_ns; and out of them. */
void hf__lease_watch(struct hf_delivery *delivery, int64_t renew_ns);
void hf__lease_unwatch(struct hf_delivery *delivery);
/* Lease engine, locked: a row that waits may be begun: wakes an idle worker for it. */
void hf__lease_offer(struct hf_subscription *subscription);
/* Lease engine, locked: takes a row off the ready list. */
void hf__lease_unready(struct hf_delivery *delivery);
/* Lease engine, locked: how many rows a claim may ask for now; 0: it would be too many or too early. */
size_t hf__lease_room(const struct hf_subscription *subscription);
/* Lease engine, locked: wakes the claimer if it waits for room and there is some. */
void hf__lease_made_room(struct hf_subscription *subscription);
/* Locked: no handler runs and nothing will be claimed any more: the helpers may end. */
bool hf__nothing_more(const struct hf_subscription *subscription);

#endif
