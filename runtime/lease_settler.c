/* The settler: sends every outcome that waits, many in one statement and one commit, and never waits for more of them.
 *
 * What fails in passing is sent again while the lease holds, and is renewed meanwhile. What was sent and not answered is first looked
 * at (resolve). */
#include "runtime/delivery.h"

#define GROUP 256
#define END_TRIES 6                      /* of a settle that fails in passing when the drain limit is over */
#define CALL_LEAST_NS INT64_C(250000000) /* what a call gets however late it is */

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
    for (size_t i = 0; i < group->n; i++) {
        group->deliveries[i]->dead = group->changes[i].dead;
        hf__delivery_report(group->deliveries[i], group->changes[i].status, &group->err);
    }
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

/* To be tried again, soon enough that the lease holds. Until then it is renewed as before, unless its row may be gone. */
static void put_off(struct hf_delivery *delivery, bool at_once)
{
    struct hf_subscription *subscription = delivery->subscription;
    int64_t wait_ns = at_once ? 0 : hf__backoff_ns(delivery->tries, true), most_ns = subscription->lease_ns / 8;
    delivery->tries++;
    delivery->again_ns = hf__monotonic_ns() + (wait_ns < most_ns ? wait_ns : most_ns);
    subscription->count.settle_retries++;
    delivery->retrying = true;
    if (!delivery->unseen && !delivery->abandoned)
        hf__lease_watch(delivery, delivery->renew_ns);
    hf__lease_settle(delivery);
}

/* Under the lock: takes note of an answer that is not final. True: the delivery is tried, or looked at, again. */
static bool passes(struct hf_delivery *delivery, hf_status status)
{
    bool unanswered = status == HF_UNKNOWN && !delivery->unseen, found = status == HF_TRANSIENT && delivery->unseen;
    bool over = delivery->subscription->over && status == HF_TRANSIENT;
    delivery->end_tries += over;
    /* Looked at once, and when it was found to be ours tried once more, in any case, even at the end of a stop; and a deadlock with the
     * claims and renewals that end there as well is no reason to run the row twice. */
    bool again = (unanswered && !delivery->uncertain) || found || holds_on(delivery) || (over && delivery->end_tries <= END_TRIES);
    delivery->uncertain = delivery->uncertain || status == HF_UNKNOWN;
    delivery->unseen = status == HF_UNKNOWN;
    if (again)
        put_off(delivery, unanswered);
    return again;
}

/* Takes out of the group what will be tried again; the rest is final. */
static void keep_passing(struct hf_subscription *subscription, struct group *group)
{
    size_t final = 0;
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; i < group->n; i++) {
        struct hf_delivery *delivery = group->deliveries[i];
        hf_status status = group->changes[i].status;
        if (passing(status) && passes(delivery, status))
            continue;
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
        if (delivery->again_ns <= now_ns || (subscription->over && delivery->end_tries == 0))
            return delivery;
        if (delivery->again_ns < *next_ns)
            *next_ns = delivery->again_ns;
    }
    return NULL;
}

static void add(struct group *group, struct hf_delivery *delivery)
{
    hf__lease_unwatch(delivery);
    delivery->retrying = false;
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

/* Under the lock: everything that waits; what is to be looked at goes alone. */
static void take(struct hf_subscription *subscription, struct group *group)
{
    struct hf_delivery *delivery;
    int64_t next_ns;
    while (group->n < GROUP && (delivery = due_again(subscription, &next_ns))) {
        if (delivery->unseen && group->n > 0)
            return;
        TAILQ_REMOVE(&subscription->again, delivery, queue);
        add(group, delivery);
        if (delivery->unseen)
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

/* A call for the group is given up while there is still time to renew its leases, so that one row that somebody holds locked does not
 * cost the others theirs. */
static struct hf__deadline group_deadline(const struct hf_subscription *subscription, const struct group *group)
{
    int64_t now_ns = hf__monotonic_ns(), end_ns = now_ns + subscription->lease_ns / 4;
    for (size_t i = 0; i < group->n; i++) {
        int64_t lease_end_ns = group->deliveries[i]->held_ns + subscription->lease_ns;
        end_ns = lease_end_ns < end_ns ? lease_end_ns : end_ns;
    }
    int64_t least_ns = now_ns + CALL_LEAST_NS;
    return hf__sooner(hf__call_deadline(subscription), hf__at_ns(end_ns > least_ns ? end_ns : least_ns));
}

/* HF_TRANSIENT: it did not take effect and the row is ours. */
static void look(struct hf_subscription *subscription, struct hf__conn *conn, struct group *group)
{
    struct hf__change *change = &group->changes[0];
    hf_status status = subscription->strategy->resolve(subscription->plan, conn, change, group_deadline(subscription, group), &group->err);
    if (status != HF_OK)
        change->status = HF_UNKNOWN;
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
    if (group.deliveries[0]->unseen)
        look(subscription, conn, &group);
    else
        (void)subscription->strategy->settle(subscription->plan, conn, group.changes, group.n, group_deadline(subscription, &group),
                                             &group.err);
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
