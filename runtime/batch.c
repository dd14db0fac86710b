/* Batches: one call of the handler for several deliveries, each with an outcome of its own. */
#include "runtime/delivery.h"

/* One that was left without an outcome is tried again later: nothing says that it is done. */
hf_outcome hf__batch_outcome(const struct hf_delivery *delivery)
{
    int outcome = atomic_load(&delivery->outcome);
    return outcome < 0 ? HF_RETRY_AFTER : (hf_outcome)outcome;
}

/* Under the lock: the handler has returned. */
static void decide(struct hf_delivery *delivery)
{
    delivery->handling = false;
    delivery->on_cancel = NULL;
    hf__delivery_decide(delivery, hf__delivery_goes_back(delivery) ? HF__GIVE_BACK : hf__action_of(hf__batch_outcome(delivery)));
}

void hf__batch_run(struct hf_delivery *const *deliveries, size_t n)
{
    struct hf_subscription *subscription = deliveries[0]->subscription;
    const struct hf_subscription *before = hf__mark_handler(subscription);
    subscription->batch_handler(deliveries, n, subscription->ctx);
    (void)hf__mark_handler(before);
    pthread_mutex_lock(&subscription->lock);
    hf__note_handler(subscription, hf__monotonic_ns() - deliveries[0]->begun_ns, n);
    for (size_t i = 0; i < n; i++)
        decide(deliveries[i]);
    for (size_t i = 0; i < n; i++)
        while (deliveries[i]->calling)
            (void)hf__gate_wait(&deliveries[i]->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
}

hf_status hf_delivery_set_outcome(hf_delivery *d, hf_outcome outcome)
{
    struct hf_subscription *subscription = d->subscription;
    if (!subscription->batch_handler || outcome == HF_DEFER)
        return HF_MISUSE;
    if (outcome > HF_DEFER)
        return HF_INVALID;
    pthread_mutex_lock(&subscription->lock);
    bool runs = d->state == HF__DELIVERY_RUNNING;
    if (runs && !d->drained) /* else it goes back, whatever became of it */
        atomic_store(&d->outcome, (int)outcome);
    pthread_mutex_unlock(&subscription->lock);
    return runs ? HF_OK : HF_MISUSE;
}
