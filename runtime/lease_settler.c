/* The settler: sends every outcome that waits, many in one statement and one commit, and never waits for more of them.
 *
 * What fails in passing is sent again while the lease holds. What was sent and not answered is first looked at (resolve). */
#include "runtime/delivery.h"

#define GROUP 256

struct group {
    struct hf_delivery *deliveries[GROUP];
    struct hf__change changes[GROUP];
    size_t n;
    hf_error err;
};

/* ---- finishing ---- */

/* Reports and finishes some deliveries, and frees them. */
static void finish(struct hf_subscription *subscription, struct group *group)
{
    struct hf_delivery *last[GROUP];
    size_t n = 0;
    for (size_t i = 0; i < group->n; i++)
        hf__delivery_report(group->deliveries[i], group->changes[i].status, &group->err);
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; i < group->n; i++) {
        struct hf_delivery *delivery = group->deliveries[i];
        hf__delivery_finish(delivery, group->changes[i].status, &group->err);
        if ((delivery = hf__delivery_unref(delivery)))
            last[n++] = delivery;
    }
    hf__lease_made_room(subscription);
    pthread_mutex_unlock(&subscription->lock);
    for (size_t i = 0; i < n; i++)
        hf__delivery_free(last[i]);
}

static bool passing(hf_status status)
{
    return status == HF_TRANSIENT || status == HF_UNKNOWN;
}

/* Under the lock: is another try worth it? */
static bool holds_on(const struct hf_delivery *delivery)
{
    const struct hf_subscription *subscription = delivery->subscription;
    return !subscription->over && hf__monotonic_ns() - delivery->held_ns < subscription->lease_ns;
}

static void put_off(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    /* What is to be looked at for the first time is looked at at once. */
    int64_t wait_ns = delivery->uncertain && delivery->tries == 0 ? 0 : hf__backoff_ns(delivery->tries, true);
    delivery->tries++;
    delivery->again_ns = hf__monotonic_ns() + wait_ns;
    subscription->count.settle_retries++;
    TAILQ_INSERT_TAIL(&subscription->again, delivery, queue);
}

/* Takes out of the group what will be tried again; the rest is final. */
static void keep_passing(struct hf_subscription *subscription, struct group *group)
{
    size_t final = 0;
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; i < group->n; i++) {
        struct hf_delivery *delivery = group->deliveries[i];
        hf_status status = group->changes[i].status;
        bool first = status == HF_UNKNOWN && !delivery->uncertain; /* looked at once in any case, even at the end of a stop */
        delivery->uncertain = delivery->uncertain || status == HF_UNKNOWN;
        if (passing(status) && (first || holds_on(delivery))) {
            put_off(delivery);
            continue;
        }
        group->deliveries[final] = delivery;
        group->changes[final++] = group->changes[i];
    }
    group->n = final;
    pthread_mutex_unlock(&subscription->lock);
}

/* ---- taking ---- */

/* Under the lock: the first that is to be tried again now; NULL, and *next_ns is when one will be. */
static struct hf_delivery *due_again(struct hf_subscription *subscription, int64_t *next_ns)
{
    struct hf_delivery *delivery;
    int64_t now_ns = hf__monotonic_ns();
    *next_ns = INT64_MAX;
    TAILQ_FOREACH (delivery, &subscription->again, queue) {
        if (delivery->again_ns <= now_ns || subscription->over)
            return delivery;
        if (delivery->again_ns < *next_ns)
            *next_ns = delivery->again_ns;
    }
    return NULL;
}

static void add(struct group *group, struct hf_delivery *delivery)
{
    hf__lease_unwatch(delivery);
    delivery->sent = true;
    group->deliveries[group->n] = delivery;
    group->changes[group->n++] = hf__delivery_change(delivery);
}

/* Under the lock: rows that are known to be lost are answered, not sent. */
static void take_lost(struct hf_subscription *subscription, struct group *group)
{
    struct hf_delivery *delivery, *next;
    for (delivery = TAILQ_FIRST(&subscription->settling); delivery && group->n < GROUP; delivery = next) {
        next = TAILQ_NEXT(delivery, queue);
        if (!delivery->lost)
            continue;
        TAILQ_REMOVE(&subscription->settling, delivery, queue);
        add(group, delivery);
        group->changes[group->n - 1].status = HF_LEASE_LOST;
    }
}

/* Under the lock: everything that waits; what is uncertain goes alone, to be looked at. */
static void take(struct hf_subscription *subscription, struct group *group)
{
    struct hf_delivery *delivery;
    int64_t next_ns;
    while (group->n < GROUP && (delivery = due_again(subscription, &next_ns))) {
        if (delivery->uncertain && group->n > 0)
            return;
        TAILQ_REMOVE(&subscription->again, delivery, queue);
        add(group, delivery);
        if (delivery->uncertain)
            return;
    }
    while (group->n < GROUP && (delivery = TAILQ_FIRST(&subscription->settling))) {
        TAILQ_REMOVE(&subscription->settling, delivery, queue);
        add(group, delivery);
    }
}

/* Waits until something is to be sent. False: there will be nothing any more. */
static bool wait_for_outcomes(struct hf__worker *settler)
{
    struct hf_subscription *subscription = settler->subscription;
    bool any;
    pthread_mutex_lock(&subscription->lock);
    for (;;) {
        int64_t next_ns;
        any = due_again(subscription, &next_ns) || !TAILQ_EMPTY(&subscription->settling);
        if (any || hf__nothing_more(subscription))
            break;
        (void)hf__sleep(&settler->sleeper, &subscription->lock, hf__at_ns(next_ns));
    }
    pthread_mutex_unlock(&subscription->lock);
    return any;
}

/* ---- sending ---- */

static void look(struct hf_subscription *subscription, struct hf__conn *conn, struct group *group)
{
    struct hf__change *change = &group->changes[0];
    hf_status status = subscription->strategy->resolve(subscription->plan, conn, change, hf__call_deadline(subscription), &group->err);
    if (status != HF_OK)
        change->status = HF_UNKNOWN;
    if (change->status == HF_TRANSIENT) /* it did not take effect and the row is ours: once more */
        (void)subscription->strategy->settle(subscription->plan, conn, change, 1, hf__call_deadline(subscription), &group->err);
}

static void send(struct hf_subscription *subscription, struct hf__checkout *checkout)
{
    struct group group = {.n = 0, .err = {.status = HF_OK}};
    struct hf__conn *conn = hf__checkout_conn(checkout);
    pthread_mutex_lock(&subscription->lock);
    take(subscription, &group);
    pthread_mutex_unlock(&subscription->lock);
    if (group.n == 0)
        return;
    if (group.deliveries[0]->uncertain)
        look(subscription, conn, &group);
    else
        (void)subscription->strategy->settle(subscription->plan, conn, group.changes, group.n, hf__call_deadline(subscription), &group.err);
    keep_passing(subscription, &group);
    finish(subscription, &group);
}

static void answer_lost(struct hf_subscription *subscription)
{
    struct group group = {.n = 0, .err = {.status = HF_OK}};
    pthread_mutex_lock(&subscription->lock);
    take_lost(subscription, &group);
    pthread_mutex_unlock(&subscription->lock);
    if (group.n > 0)
        finish(subscription, &group);
}

/* Under the lock: moves those whose lease is over from a list to the group. */
static void take_over(struct hf__deliveries *list, struct group *group, hf_status status)
{
    struct hf_delivery *delivery, *next;
    for (delivery = TAILQ_FIRST(list); delivery && group->n < GROUP; delivery = next) {
        next = TAILQ_NEXT(delivery, queue);
        if (holds_on(delivery))
            continue;
        TAILQ_REMOVE(list, delivery, queue);
        add(group, delivery);
        group->changes[group->n - 1].status = delivery->uncertain ? HF_UNKNOWN : status;
    }
}

/* No connection: what can no longer be settled is given up, and the rest waits. */
static void no_connection(struct hf__worker *settler, hf_status status, const hf_error *err, unsigned failures)
{
    struct hf_subscription *subscription = settler->subscription;
    struct group group = {.n = 0, .err = *err};
    pthread_mutex_lock(&subscription->lock);
    take_over(&subscription->settling, &group, status);
    take_over(&subscription->again, &group, status);
    pthread_mutex_unlock(&subscription->lock);
    finish(subscription, &group);
    struct hf__deadline deadline = hf__at_ns(hf__monotonic_ns() + hf__backoff_ns(failures, false));
    pthread_mutex_lock(&subscription->lock);
    while (!subscription->over && !hf__passed(deadline))
        (void)hf__sleep(&settler->sleeper, &subscription->lock, deadline);
    pthread_mutex_unlock(&subscription->lock);
}

void hf__lease_settler(struct hf__worker *settler)
{
    struct hf_subscription *subscription = settler->subscription;
    unsigned failures = 0;
    while (wait_for_outcomes(settler)) {
        hf_error err = {.status = HF_OK};
        struct hf__checkout *checkout;
        answer_lost(subscription);
        hf_status status =
            hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_SETTLE, hf__call_deadline(subscription), &checkout, &err);
        if (status != HF_OK) {
            no_connection(settler, status, &err, ++failures);
            continue;
        }
        failures = 0;
        send(subscription, checkout);
        hf__pool_release(checkout);
    }
}
