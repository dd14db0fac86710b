/* The lease engine's workers and the lists between its threads:
 *
 *   claimer --> ready --> worker (handler) --> settling --> settler
 *                 |          |                    |
 *                 +----------+------- leases -----+  (all that is not being sent)
 *                                        |
 *                                     renewer
 *
 * A worker never touches the database, except in transactional mode, where its handler has a transaction (transaction.c). */
#include "runtime/delivery.h"
#include "runtime/prefetch.h"

/* Rows in flight between claim and settle beyond which nothing more is claimed: the settler has fallen behind. */
#define FLIGHT_MOST 1024

/* ---- how much to claim ---- */

static size_t prefetch(const struct hf_subscription *subscription)
{
    return hf__prefetch(subscription->options.prefetch, subscription->n_workers, subscription->mean_handler_us, subscription->lease_ns);
}

size_t hf__lease_room(const struct hf_subscription *subscription)
{
    size_t ahead = prefetch(subscription), ready = subscription->n_ready - subscription->n_blocked;
    size_t most = FLIGHT_MOST + 2 * (subscription->n_workers * subscription->batch + ahead);
    if (ready > ahead / 2 || subscription->n_work >= most || hf__partitions_full(subscription))
        return 0;
    size_t want = (subscription->n_workers - subscription->running) * subscription->batch + ahead;
    want = want > ready ? want - ready : 0;
    return want < most - subscription->n_work ? want : most - subscription->n_work;
}

void hf__lease_made_room(struct hf_subscription *subscription)
{
    if (subscription->wants_room && hf__lease_room(subscription) > 0)
        hf__rouse(&subscription->claimer->sleeper);
}

/* ---- the list of renewals ---- */

void hf__lease_watch(struct hf_delivery *delivery, int64_t renew_ns)
{
    struct hf_subscription *subscription = delivery->subscription;
    struct hf_delivery *before = TAILQ_LAST(&subscription->leases, hf__deliveries);
    delivery->renew_ns = renew_ns;
    while (before && before->renew_ns > renew_ns)
        before = TAILQ_PREV(before, hf__deliveries, lease);
    if (before)
        TAILQ_INSERT_AFTER(&subscription->leases, before, delivery, lease);
    else
        TAILQ_INSERT_HEAD(&subscription->leases, delivery, lease);
    delivery->leased = true;
    if (TAILQ_FIRST(&subscription->leases) == delivery)
        hf__rouse(&subscription->renewer->sleeper);
}

void hf__lease_unwatch(struct hf_delivery *delivery)
{
    if (delivery->leased)
        TAILQ_REMOVE(&delivery->subscription->leases, delivery, lease);
    delivery->leased = false;
}

/* ---- to the settler ---- */

void hf__lease_settle(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (delivery->renewing || delivery->in_transaction)
        return; /* the renewer, or whoever ends the transaction, passes it on */
    TAILQ_INSERT_TAIL(delivery->retrying ? &subscription->again : &subscription->settling, delivery, queue);
    hf__rouse(&subscription->settler->sleeper);
}

/* ---- workers ---- */

void hf__lease_offer(struct hf_subscription *subscription)
{
    struct hf__worker *worker = TAILQ_FIRST(&subscription->idle);
    if (!worker)
        return;
    TAILQ_REMOVE(&subscription->idle, worker, idle);
    worker->is_idle = false;
    hf__rouse(&worker->sleeper);
}

/* A row that waited until its lease is nearly over must not begin: it waits for its renewal, or goes back. */
static bool fresh(const struct hf_delivery *delivery, int64_t now_ns)
{
    return now_ns - delivery->held_ns < delivery->subscription->lease_ns / 4 * 3;
}

void hf__lease_unready(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    TAILQ_REMOVE(&subscription->ready, delivery, queue);
    subscription->n_ready--;
    subscription->n_blocked -= delivery->blocked;
    delivery->blocked = false;
    if (subscription->stopping && subscription->n_ready == 0)
        while (!TAILQ_EMPTY(&subscription->idle)) /* nothing else will come */
            hf__lease_offer(subscription);
}

static void begin(struct hf__worker *worker, struct hf_delivery *delivery)
{
    hf__lease_unready(delivery);
    delivery->holder = worker;
    hf__delivery_begin(delivery);
    delivery->leads = worker->n == 0;
    delivery->in_transaction = delivery->subscription->options.transactional;
    worker->list[worker->n++] = delivery;
}

/* Takes what is ready, up to a batch. */
static void take_ready(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    struct hf_delivery *delivery, *next;
    int64_t now_ns = hf__monotonic_ns();
    worker->n = 0;
    for (delivery = TAILQ_FIRST(&subscription->ready); delivery && worker->n < subscription->batch; delivery = next) {
        next = TAILQ_NEXT(delivery, queue);
        /* One that is blocked goes with those before it, in a batch that has them all. */
        bool may = !delivery->blocked || (worker->n > 0 && hf__partition_free(delivery, worker));
        if (may && fresh(delivery, now_ns))
            begin(worker, delivery);
    }
    subscription->running += worker->n > 0;
}

static void sleep_idle(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    TAILQ_INSERT_TAIL(&subscription->idle, worker, idle);
    worker->is_idle = true;
    (void)hf__sleep(&worker->sleeper, &subscription->lock, hf__never());
    if (worker->is_idle)
        TAILQ_REMOVE(&subscription->idle, worker, idle);
    worker->is_idle = false;
}

/* Under the lock: waits for rows to run. False: there will be none any more. */
static bool next_ready(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    for (;;) {
        take_ready(worker);
        hf__lease_made_room(subscription);
        if (worker->n > 0 || (subscription->stopping && subscription->n_ready == 0))
            return worker->n > 0;
        sleep_idle(worker);
    }
}

/* Its connection comes back before the next row is run. */
static void run_transaction(struct hf_delivery *delivery)
{
    if (!hf__lease_begin(delivery) || hf__delivery_run(delivery))
        hf__lease_end(delivery);
    else
        hf__lease_await_end(delivery);
}

/* Whoever decided has passed it on to the settler. */
static void run(struct hf__worker *worker)
{
    if (worker->subscription->batch > 1)
        hf__batch_run(worker->list, worker->n);
    else if (worker->subscription->options.transactional)
        run_transaction(worker->list[0]);
    else
        (void)hf__delivery_run(worker->list[0]);
}

/* Under the lock, which is let go meanwhile: drops the worker's references. */
static void drop(struct hf__worker *worker)
{
    size_t last = 0;
    for (size_t i = 0; i < worker->n; i++) {
        struct hf_delivery *delivery = hf__delivery_unref(worker->list[i]);
        worker->list[i] = NULL;
        if (delivery)
            worker->list[last++] = delivery;
    }
    if (last == 0)
        return;
    pthread_mutex_unlock(&worker->subscription->lock);
    while (last > 0) {
        hf__delivery_free(worker->list[--last]);
        worker->list[last] = NULL;
    }
    pthread_mutex_lock(&worker->subscription->lock);
}

void hf__lease_worker(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (next_ready(worker)) {
        pthread_mutex_unlock(&subscription->lock);
        run(worker);
        pthread_mutex_lock(&subscription->lock);
        subscription->running--;
        drop(worker);
    }
    pthread_mutex_unlock(&subscription->lock);
}
