/* Cancelling: a flag, a wake-up, a callback. The handler decides what it does with it; nobody ends its thread. */
#include "runtime/delivery.h"

static void call_back(struct hf_delivery *delivery, hf_cancel why)
{
    struct hf_subscription *subscription = delivery->subscription;
    void (*fn)(hf_delivery *, hf_cancel, void *) = delivery->on_cancel;
    void *ctx = delivery->on_cancel_ctx;
    delivery->on_cancel = NULL; /* once */
    delivery->calling = true;
    delivery->caller = pthread_self();
    pthread_mutex_unlock(&subscription->lock);
    const struct hf_subscription *before = hf__mark_handler(subscription);
    fn(delivery, why, ctx);
    (void)hf__mark_handler(before);
    pthread_mutex_lock(&subscription->lock);
    delivery->calling = false;
    hf__gate_wake(&delivery->changed);
}

/* The first reason stays; only the loss of the row, after which someone else may run it, outweighs it. */
void hf__delivery_cancel(struct hf_delivery *delivery, hf_cancel why)
{
    int before = atomic_load(&delivery->cancel);
    if (before != HF_NOT_CANCELLED && (why != HF_CANCEL_LOST || before == HF_CANCEL_LOST))
        return;
    atomic_store(&delivery->cancel, (int)why);
    if (before == HF_NOT_CANCELLED && delivery->handling)
        delivery->subscription->count.cancelled++;
    hf__gate_wake(&delivery->changed);
    if (delivery->on_cancel)
        call_back(delivery, why);
}

hf_cancel hf_delivery_cancelled(const hf_delivery *d)
{
    return (hf_cancel)atomic_load(&d->cancel);
}

hf_cancel hf_delivery_wait(hf_delivery *d, int64_t ms)
{
    struct hf_subscription *subscription = d->subscription;
    struct hf__deadline deadline = hf__after_ms(ms);
    pthread_mutex_lock(&subscription->lock);
    while (atomic_load(&d->cancel) == HF_NOT_CANCELLED && !hf__passed(deadline))
        if (!hf__gate_wait(&d->changed, &subscription->lock, deadline))
            break;
    pthread_mutex_unlock(&subscription->lock);
    return hf_delivery_cancelled(d);
}

static void wait_for_call(struct hf_delivery *delivery)
{
    while (delivery->calling && !pthread_equal(delivery->caller, pthread_self()))
        (void)hf__gate_wait(&delivery->changed, &delivery->subscription->lock, hf__never());
}

void hf_delivery_on_cancel(hf_delivery *d, void (*fn)(hf_delivery *d, hf_cancel why, void *ctx), void *ctx)
{
    struct hf_subscription *subscription = d->subscription;
    pthread_mutex_lock(&subscription->lock);
    wait_for_call(d);
    d->on_cancel = fn;
    d->on_cancel_ctx = ctx;
    int why = atomic_load(&d->cancel);
    if (fn && why != HF_NOT_CANCELLED)
        call_back(d, (hf_cancel)why);
    pthread_mutex_unlock(&subscription->lock);
}
