/* The held engine: row lock and advisory lock. Each worker claims, runs and settles one row at a time, on one connection that
 * stays with the row while its handler runs (SQLite advisory: the process holds the key, and no connection is held).
 *
 * Of the idle workers one, the scout, polls. When its claim finds a row it makes another idle worker the scout, which claims at
 * once, before it runs its handler; and a worker whose turn came in this way calls a second one. So a burst of rows wakes all
 * workers in a few rounds, one row wakes one worker too many, and idle workers cost one query per interval.
 * Invariant: while a worker is on the idle list there is a scout, or that worker is about to become it. */
#include <stdlib.h>

#include "runtime/delivery.h"

#define KEEP_NS INT64_C(1000000000)                /* how long a worker goes on with one connection */
#define SETTLE_LIMIT_NS (60 * INT64_C(1000000000)) /* how long a connection to settle on is asked for */

struct claim {
    struct hf__checkout *checkout; /* kept from row to row; NULL: none */
    int64_t since_ns;
};

/* ---- whose turn it is ---- */

/* Under the lock: may this idle worker claim now? */
static bool may_go(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    bool due = subscription->scout == worker && (subscription->woken || hf__monotonic_ns() >= subscription->next_poll_ns);
    if (!due && !worker->called)
        return false;
    worker->in_burst = worker->called || subscription->next_poll_ns == 0;
    worker->called = false;
    if (due)
        subscription->woken = false;
    return true;
}

/* Waits until it is this worker's turn to claim. False: the subscription stops. */
static bool wait_for_turn(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    bool go = false;
    pthread_mutex_lock(&subscription->lock);
    TAILQ_INSERT_TAIL(&subscription->idle, worker, idle);
    while (!go && !subscription->stopping) {
        if (!subscription->scout)
            subscription->scout = worker;
        go = may_go(worker);
        if (!go)
            (void)hf__sleep(&worker->sleeper, &subscription->lock,
                            subscription->scout == worker ? hf__at_ns(subscription->next_poll_ns) : hf__never());
    }
    TAILQ_REMOVE(&subscription->idle, worker, idle);
    pthread_mutex_unlock(&subscription->lock);
    return go;
}

static void call_one(struct hf_subscription *subscription)
{
    struct hf__worker *other;
    TAILQ_FOREACH (other, &subscription->idle, idle)
        if (other != subscription->scout && !other->called) {
            other->called = true;
            hf__rouse(&other->sleeper);
            return;
        }
}

/* Under the lock, by a worker that found a row: where one is there may be more, so another claims at once. */
static void pass_scout(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    hf__claim_due_now(subscription);
    if (!subscription->scout || subscription->scout == worker)
        subscription->scout = TAILQ_FIRST(&subscription->idle);
    if (subscription->scout)
        hf__rouse(&subscription->scout->sleeper);
    if (worker->in_burst)
        call_one(subscription);
}

static void found_nothing(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    subscription->count.empty_claims++;
    if (!subscription->scout || subscription->scout == worker)
        hf__claim_came_short(subscription, true);
    pthread_mutex_unlock(&subscription->lock);
}

/* ---- connections ---- */

static void let_go(struct claim *claim)
{
    if (claim->checkout)
        hf__pool_release(claim->checkout);
    claim->checkout = NULL;
}

/* May the connection be used for the next claim without going through the pool? */
static bool reusable(const struct hf_subscription *subscription, const struct claim *claim)
{
    const struct hf__conn *conn = hf__checkout_conn(claim->checkout);
    return subscription->runtime->pool_ample && !conn->lost && !conn->retire && hf__monotonic_ns() - claim->since_ns < KEEP_NS;
}

static hf_status connect_claim(struct hf_subscription *subscription, struct claim *claim, hf_error *err)
{
    if (claim->checkout && reusable(subscription, claim)) {
        hf__checkout_purpose(claim->checkout, HF__PURPOSE_CLAIM);
        return HF_OK;
    }
    let_go(claim);
    claim->since_ns = hf__monotonic_ns();
    return hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_CLAIM, hf__call_deadline(subscription), &claim->checkout, err);
}

/* ---- the settle ---- */

/* Sleeps before the next try; false when there should be none. */
static bool try_again(struct hf_delivery *delivery, int64_t since_ns)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    delivery->tries++;
    struct hf__deadline deadline = hf__at_ns(hf__monotonic_ns() + hf__backoff_ns(delivery->tries, true));
    bool again = !subscription->over && hf__monotonic_ns() - since_ns < SETTLE_LIMIT_NS;
    while (again && !subscription->over && !hf__passed(deadline))
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, deadline);
    subscription->count.settle_retries += again;
    pthread_mutex_unlock(&subscription->lock);
    return again;
}

/* A connection to settle on. The one that holds the row; without one (SQLite advisory, resolving) any, tried for a while. */
static hf_status settle_connection(struct hf_delivery *delivery, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    int64_t since = hf__monotonic_ns();
    hf_status status;
    do
        status =
            hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_SETTLE, hf__call_deadline(subscription), &delivery->checkout, err);
    while (status != HF_OK && status != HF_STOPPED && try_again(delivery, since));
    return status;
}

static void drop_connection(struct hf_delivery *delivery)
{
    if (delivery->checkout)
        hf__pool_release(delivery->checkout);
    delivery->checkout = NULL;
}

/* The settle was sent and not answered: reads the row again on another connection. */
static hf_status resolve(struct hf_delivery *delivery, struct hf__change *change, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    int64_t since = hf__monotonic_ns();
    hf_status status;
    do {
        drop_connection(delivery);
        status = settle_connection(delivery, err);
        if (status != HF_OK)
            break;
        status = subscription->strategy->resolve(subscription->plan, hf__checkout_conn(delivery->checkout), change,
                                                 hf__call_deadline(subscription), err);
    } while (status != HF_OK && try_again(delivery, since));
    return status == HF_OK ? change->status : HF_UNKNOWN;
}

/* Sends the settle. The strategy tries passing failures again by itself; after it has answered the row, or the key, is let go in any case.
 */
static hf_status send(struct hf_delivery *delivery, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    struct hf__change change = hf__delivery_change(delivery);
    delivery->sent = true;
    hf__checkout_purpose(delivery->checkout, HF__PURPOSE_SETTLE);
    (void)subscription->strategy->settle(subscription->plan, hf__checkout_conn(delivery->checkout), &change, 1,
                                         hf__call_deadline(subscription), err);
    return change.status == HF_UNKNOWN ? resolve(delivery, &change, err) : change.status;
}

static bool is_lost(struct hf_delivery *delivery)
{
    pthread_mutex_lock(&delivery->subscription->lock);
    bool lost = delivery->lost;
    pthread_mutex_unlock(&delivery->subscription->lock);
    return lost;
}

static hf_status settle(struct hf_delivery *delivery, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    const char *id = delivery->row->id_text, *table = subscription->table->display;
    if (!delivery->checkout)
        return settle_connection(delivery, err) == HF_OK ? send(delivery, err) : err->status;
    bool held = hf__checkout_unpin(delivery->checkout);
    if (!held || is_lost(delivery))
        return hf__fail(err, HF_LOST,
                        "the connection that held row %s of table %s was lost while its handler ran; the database gave the row back", id,
                        table);
    return send(delivery, err);
}

void hf__held_settle(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_error err = {.status = HF_OK};
    hf_status status = settle(delivery, &err);
    if (status != HF_OK) {
        /* What still stands on this connection, a lock or a transaction, must not reach its next user. */
        if (delivery->checkout)
            hf__checkout_conn(delivery->checkout)->retire = true;
        drop_connection(delivery);
        if (subscription->strategy->forget && !delivery->sent)
            subscription->strategy->forget(subscription->plan, delivery->row);
    }
    hf__delivery_report(delivery, status, &err);
    pthread_mutex_lock(&subscription->lock);
    hf__delivery_finish(delivery, status, &err);
    pthread_mutex_unlock(&subscription->lock);
}

/* ---- one delivery ---- */

static void on_lost(void *ctx)
{
    struct hf_delivery *delivery = ctx;
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    delivery->lost = true;
    hf__delivery_cancel(delivery, HF_CANCEL_LOST);
    pthread_mutex_unlock(&subscription->lock);
}

/* More connections that hold rows than the cost model allows would be a bug of ours: it is counted, and said with the purposes. */
static void check_model(struct hf_subscription *subscription)
{
    struct hf_runtime *runtime = subscription->runtime;
    size_t rows = hf__pool_in_use(runtime->pool, HF__PURPOSE_ROW_LOCK), keys = hf__pool_in_use(runtime->pool, HF__PURPOSE_ADVISORY_LOCK);
    if (rows + keys <= runtime->held_allowed)
        return;
    atomic_fetch_add(&runtime->model_exceeded, 1);
    hf__log_noise(
        subscription, &subscription->claim_noise, HF_LOG_ERROR,
        "the cost model allows %zu connections to hold rows, but the ledger shows row_lock %zu and advisory_lock %zu: please report this",
        runtime->held_allowed, rows, keys);
}

/* The row's connection stays with the row, or goes back at once where the process holds it. */
static void hold(struct hf_delivery *delivery, struct claim *claim)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (!subscription->holds) {
        let_go(claim);
        return;
    }
    hf__checkout_purpose(claim->checkout, subscription->strategy->holds);
    delivery->checkout = claim->checkout;
    claim->checkout = NULL;
    hf__checkout_pin(delivery->checkout, on_lost, delivery);
    check_model(subscription);
}

/* Under the lock: begins, or when the stop came first decides that the row goes back unrun. */
static bool begin(struct hf__worker *worker, struct hf_delivery *delivery, struct hf__row *row)
{
    struct hf_subscription *subscription = worker->subscription;
    hf__delivery_fill(delivery, row);
    pass_scout(worker);
    if (!subscription->stopping)
        hf__delivery_begin(delivery);
    else
        hf__delivery_decide(delivery, HF__UNBEGUN);
    return delivery->state == HF__DELIVERY_RUNNING;
}

/* And until who settled it has let go of it: once its worker has ended nothing keeps the subscription for that thread. */
static void wait_until_settled(struct hf_delivery *delivery)
{
    enum { ROW_AND_WORKER = 2 };
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (delivery->state != HF__DELIVERY_DONE || delivery->refs > ROW_AND_WORKER)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
}

/* Drops the row's reference and the worker's. */
static void finish(struct hf_delivery *delivery, bool begun)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    struct hf_delivery *last = hf__delivery_unref(delivery);
    if (begun && !last)
        last = hf__delivery_unref(delivery);
    pthread_mutex_unlock(&subscription->lock);
    hf__delivery_free(last);
}

static void deliver(struct hf__worker *worker, struct claim *claim, struct hf_delivery *delivery, struct hf__row *row)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    bool begun = begin(worker, delivery, row);
    pthread_mutex_unlock(&subscription->lock);
    hold(delivery, claim);
    if (!begun || hf__delivery_run(delivery))
        hf__held_settle(delivery);
    else
        wait_until_settled(delivery);
    claim->checkout = delivery->checkout; /* NULL unless it is fit for the next claim */
    finish(delivery, begun);
}

/* ---- claiming ---- */

static hf_status claim_row(struct hf_subscription *subscription, struct claim *claim, struct hf__row **row, hf_error *err)
{
    struct hf__row *rows[1] = {NULL};
    struct hf__claim ask = {.limit = 1};
    size_t n = 0;
    struct hf__conn *conn = hf__checkout_conn(claim->checkout);
    hf_status status = hf__claim_clock(subscription, conn, err);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&subscription->lock);
    bool stopping = subscription->stopping;
    subscription->count.claims += !stopping;
    pthread_mutex_unlock(&subscription->lock);
    if (!stopping)
        status = subscription->strategy->claim(subscription->plan, conn, &ask, hf__call_deadline(subscription), rows, &n, err);
    *row = status == HF_OK && n > 0 ? rows[0] : NULL;
    if (status == HF_OK && n == 0 && !stopping)
        status = hf__look_for_keyless(subscription, conn, err);
    return status;
}

/* Claims, and runs what it finds. False: there is nothing, or it failed. */
static bool claim_and_run(struct hf__worker *worker, struct claim *claim)
{
    struct hf_subscription *subscription = worker->subscription;
    hf_error err = {.status = HF_OK};
    struct hf__row *row = NULL;
    struct hf_delivery *delivery = hf__delivery_new(subscription);
    hf_status status = delivery ? connect_claim(subscription, claim, &err) : hf__fail_memory(&err);
    if (status == HF_OK)
        status = claim_row(subscription, claim, &row, &err);
    if (delivery && row) {
        deliver(worker, claim, delivery, row);
        return true;
    }
    hf__delivery_free(delivery);
    if (status == HF_OK)
        found_nothing(worker);
    else
        hf__claim_failed(subscription, status, &err);
    return false;
}

static bool goes_on(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    bool stopping = subscription->stopping;
    pthread_mutex_unlock(&subscription->lock);
    return !stopping;
}

void hf__held_worker(struct hf__worker *worker)
{
    struct claim claim = {NULL, 0};
    while (wait_for_turn(worker)) {
        while (claim_and_run(worker, &claim) && goes_on(worker->subscription))
            continue;
        let_go(&claim);
    }
}
