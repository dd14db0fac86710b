/* The lease engine's workers and the lists between its threads:
 *
 *   claimer --> ready --> worker (handler) --> settling --> settler
 *                 |          |                    |
 *                 +----------+------- leases -----+  (all that is not being sent)
 *                                        |
 *                                     renewer
 *
 * A worker never touches the database. */
#include "runtime/delivery.h"

/* Prefetched rows should be begun within this time: what is here, other processes cannot have. */
#define PREFETCH_US 20000.0
#define PREFETCH_MOST 256
#define PREFETCH_LEAST 16
/* Rows in flight between claim and settle beyond which nothing more is claimed: the settler has fallen behind. */
#define FLIGHT_MOST 1024

/* ---- how much to claim ---- */

/* What the user allows, and in any case no more than the workers get through in a quarter of the lease. None before a handler's time is
 * known. */
static size_t prefetch(const struct hf_subscription *subscription)
{
    double mean_us = subscription->mean_handler_us, workers = (double)subscription->n_workers;
    size_t asked = subscription->options.prefetch;
    if (asked == SIZE_MAX || mean_us <= 0)
        return 0;
    double each = (double)subscription->lease_ns / 4000.0 / mean_us; /* rows that one worker gets through */
    if (each < 1)
        return 0;
    double most = each * workers;
    if (asked == 0) {
        double least = workers < PREFETCH_LEAST ? workers : PREFETCH_LEAST, quick = PREFETCH_US / mean_us * workers;
        asked = (size_t)(quick < least ? least : quick > PREFETCH_MOST ? PREFETCH_MOST : quick);
    }
    return (double)asked < most ? asked : (size_t)most;
}

size_t hf__lease_room(const struct hf_subscription *subscription)
{
    size_t ahead = prefetch(subscription), ready = subscription->n_ready;
    size_t most = FLIGHT_MOST + 2 * (subscription->n_workers + ahead);
    if (ready > ahead / 2 || subscription->n_work >= most)
        return 0;
    size_t want = subscription->n_workers - subscription->running + ahead;
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
    if (delivery->renewing)
        return; /* the renewer passes it on */
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

static struct hf_delivery *take_ready(struct hf_subscription *subscription)
{
    struct hf_delivery *delivery;
    int64_t now_ns = hf__monotonic_ns();
    TAILQ_FOREACH (delivery, &subscription->ready, queue)
        if (fresh(delivery, now_ns))
            break;
    if (!delivery)
        return NULL;
    TAILQ_REMOVE(&subscription->ready, delivery, queue);
    subscription->n_ready--;
    subscription->running++;
    hf__delivery_begin(delivery);
    return delivery;
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

/* Under the lock: the next row to run; NULL at the end. */
static struct hf_delivery *next_ready(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    for (;;) {
        struct hf_delivery *delivery = take_ready(subscription);
        hf__lease_made_room(subscription);
        if (delivery || (subscription->stopping && subscription->n_ready == 0))
            return delivery;
        sleep_idle(worker);
    }
}

void hf__lease_worker(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    struct hf_delivery *delivery;
    pthread_mutex_lock(&subscription->lock);
    while ((delivery = next_ready(worker))) {
        pthread_mutex_unlock(&subscription->lock);
        (void)hf__delivery_run(delivery); /* whoever decided has passed it on to the settler */
        pthread_mutex_lock(&subscription->lock);
        subscription->running--;
        struct hf_delivery *last = hf__delivery_unref(delivery);
        if (!last)
            continue;
        pthread_mutex_unlock(&subscription->lock);
        hf__delivery_free(last);
        pthread_mutex_lock(&subscription->lock);
    }
    pthread_mutex_unlock(&subscription->lock);
}
