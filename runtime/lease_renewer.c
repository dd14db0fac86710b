/* The renewer: every lease in work is renewed when half of it is over, many in one statement, on the pool's reserved connection.
 *
 * It sleeps until the first is due. One that fails, or is passed over, is due again after an eighth of the lease, until the time
 * since it was last *sent* passes the lease: then the delivery is flagged, because someone else may have the row. */
#include "runtime/delivery.h"

#define GROUP 256
#define SHUT_OUT_NS INT64_C(250000000) /* an ack waits for a renewal that waits for it */

struct group {
    struct hf_delivery *deliveries[GROUP];
    struct hf__row *rows[GROUP];
    hf_status statuses[GROUP];
    size_t n;
    bool shut_out; /* by the transaction of one of them, perhaps: no news */
    int64_t sent_ns;
    struct hf__deadline deadline;
};

/* Again soon, or at the moment at which the lease has run out. */
static void put_off(struct hf_delivery *delivery)
{
    int64_t lease_ns = delivery->subscription->lease_ns, soon = hf__monotonic_ns() + lease_ns / 8, end = delivery->held_ns + lease_ns;
    hf__lease_watch(delivery, soon < end || hf__transaction_shuts_out(delivery) ? soon : end);
}

/* A row that has not begun and whose lease is over goes back. Where it went to somebody else the settle will say so. */
static void give_back_ready(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf__lease_unready(delivery);
    hf__delivery_decide(delivery, HF__UNBEGUN);
    hf__lease_made_room(subscription);
}

/* Under the lock: the lease has run out as far as this process can know. The outcome is still sent: the token in it decides. */
static void run_out(struct hf_delivery *delivery)
{
    hf__lease_unwatch(delivery);
    if (delivery->state == HF__DELIVERY_READY)
        give_back_ready(delivery);
    else if (delivery->handling)
        hf__delivery_cancel(delivery, HF_CANCEL_LOST);
}

/* Under the lock: takes it for renewal, off the settle list on which it waits. */
static void take(struct group *group, struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf__lease_unwatch(delivery);
    if (delivery->state == HF__DELIVERY_SETTLING)
        TAILQ_REMOVE(delivery->retrying ? &subscription->again : &subscription->settling, delivery, queue);
    delivery->renewing = true;
    group->deliveries[group->n] = delivery;
    group->rows[group->n++] = delivery->row;
    if (hf__transaction_shuts_out(delivery))
        group->deadline = hf__sooner(group->deadline, hf__at_ns(group->sent_ns + SHUT_OUT_NS));
    else
        group->deadline = hf__sooner(group->deadline, hf__at_ns(delivery->held_ns + subscription->lease_ns));
    group->shut_out = group->shut_out || hf__transaction_shuts_out(delivery);
}

/* Under the lock: collects what is due, and what is due soon after, so that neighbours share a statement. */
static void collect(struct hf_subscription *subscription, struct group *group)
{
    int64_t now_ns = hf__monotonic_ns(), lease_ns = subscription->lease_ns;
    struct hf_delivery *first;
    group->n = 0;
    group->shut_out = false;
    group->sent_ns = now_ns;
    group->deadline = hf__at_ns(now_ns + lease_ns / 4);
    while (group->n < GROUP && (first = TAILQ_FIRST(&subscription->leases))) {
        if (first->renew_ns > now_ns + (group->n > 0 ? lease_ns / 8 : 0))
            break;
        if (now_ns - first->held_ns >= lease_ns && !hf__transaction_shuts_out(first))
            run_out(first); /* may unlock: what is in the group stays, being marked as renewing */
        else
            take(group, first);
    }
}

/* Waits until leases are to be renewed. False: there will be none any more. */
static bool wait_for_group(struct hf__worker *renewer, struct group *group)
{
    struct hf_subscription *subscription = renewer->subscription;
    pthread_mutex_lock(&subscription->lock);
    for (;;) {
        collect(subscription, group);
        if (group->n > 0 || hf__nothing_more(subscription))
            break;
        const struct hf_delivery *first = TAILQ_FIRST(&subscription->leases);
        (void)hf__sleep(&renewer->sleeper, &subscription->lock, first ? hf__at_ns(first->renew_ns) : hf__never());
    }
    pthread_mutex_unlock(&subscription->lock);
    return group->n > 0;
}

static hf_status renew(struct hf_subscription *subscription, struct group *group, hf_error *err)
{
    struct hf__checkout *checkout;
    for (size_t i = 0; i < group->n; i++)
        group->statuses[i] = HF_BUSY;
    hf_status status = hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_RENEW, group->deadline, &checkout, err);
    if (status != HF_OK)
        return status;
    group->sent_ns = hf__monotonic_ns();
    status = subscription->strategy->renew(subscription->plan, hf__checkout_conn(checkout), group->rows, group->n, group->statuses,
                                           group->deadline, err);
    hf__pool_release(checkout);
    return status;
}

/* Under the lock: lost for certain; or it was our own settle, whose answer never came, that took the row away: it is looked at. */
static void lease_lost(struct hf_delivery *delivery)
{
    if (delivery->uncertain) {
        delivery->unseen = true;
        delivery->again_ns = hf__monotonic_ns();
    } else {
        delivery->lost = true;
        delivery->retrying = false;
    }
    if (delivery->state == HF__DELIVERY_SETTLING)
        hf__lease_settle(delivery);
    else if (delivery->state == HF__DELIVERY_READY)
        give_back_ready(delivery);
    if (delivery->handling)
        hf__delivery_cancel(delivery, HF_CANCEL_LOST);
}

/* Under the lock: the renewal is answered; what waited for that goes on. */
static void answered(struct hf_delivery *delivery, hf_status status, int64_t sent_ns)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->renewing = false;
    if (delivery->in_transaction)
        hf__gate_wake(&delivery->changed); /* its end may wait for this */
    if (status == HF_OK) {
        delivery->held_ns = sent_ns;
        atomic_store(&delivery->lease_until_us, delivery->row->token_us);
        subscription->count.renewals++;
    } else {
        subscription->count.renewal_errors++;
    }
    if (status == HF_LEASE_LOST) {
        lease_lost(delivery);
        return;
    }
    if (delivery->state == HF__DELIVERY_SETTLING)
        hf__lease_settle(delivery);
    if (delivery->abandoned || delivery->paused)
        return;
    if (status == HF_OK)
        hf__lease_watch(delivery, sent_ns + subscription->lease_ns / 2);
    else
        put_off(delivery);
    if (delivery->state == HF__DELIVERY_READY)
        hf__lease_offer(subscription);
}

static void answer_all(struct hf_subscription *subscription, struct group *group)
{
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; i < group->n; i++)
        answered(group->deliveries[i], group->statuses[i], group->sent_ns);
    pthread_mutex_unlock(&subscription->lock);
}

void hf__lease_renewer(struct hf__worker *renewer)
{
    struct hf_subscription *subscription = renewer->subscription;
    struct group group;
    while (wait_for_group(renewer, &group)) {
        hf_error err = {.status = HF_OK};
        hf_status status = renew(subscription, &group, &err);
        answer_all(subscription, &group);
        if (status != HF_OK && !group.shut_out)
            hf__log_noise(subscription, &subscription->renew_noise, HF_LOG_WARNING,
                          "%s: %zu leases could not be renewed and are tried again: %s", subscription->table->display, group.n,
                          err.message);
    }
}
