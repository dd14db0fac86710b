/* The handler timeout: flags, counts and logs a handler that runs too long. Nobody can end its thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/delivery.h"

/* Under the lock: flags the first that is over time, and names it in *id (owned). False: none; *next_ns is when one may be. */
static bool flag_one(struct hf_subscription *subscription, char **id, int64_t *next_ns)
{
    int64_t now_ns = hf__monotonic_ns(), limit_ns = subscription->options.handler_timeout_ms * INT64_C(1000000);
    struct hf_delivery *delivery;
    *next_ns = INT64_MAX;
    TAILQ_FOREACH (delivery, &subscription->work, work) {
        if (!delivery->handling || delivery->timed_out)
            continue;
        int64_t end_ns = delivery->begun_ns + limit_ns;
        if (end_ns <= now_ns)
            break;
        if (end_ns < *next_ns)
            *next_ns = end_ns;
    }
    if (!delivery)
        return false;
    delivery->timed_out = true;
    subscription->count.handler_timeouts++;
    *id = strdup(delivery->row->id_text);
    if (subscription->options.abandon && subscription->lease) {
        delivery->abandoned = true;
        hf__lease_unwatch(delivery);
    }
    hf__delivery_cancel(delivery, HF_CANCEL_TIMEOUT);
    return true;
}

void hf__watchdog(struct hf__worker *watchdog)
{
    struct hf_subscription *subscription = watchdog->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (!hf__nothing_more(subscription)) {
        char *id = NULL;
        int64_t next_ns;
        if (!flag_one(subscription, &id, &next_ns)) {
            subscription->watchdog_idle = next_ns == INT64_MAX;
            (void)hf__sleep(&watchdog->sleeper, &subscription->lock, hf__at_ns(next_ns));
            subscription->watchdog_idle = false;
            continue;
        }
        pthread_mutex_unlock(&subscription->lock);
        hf__log_noise(subscription, &subscription->handler_noise, HF_LOG_WARNING,
                      "%s: the handler of row %s has run for more than %" PRId64 " ms", subscription->table->display, id ? id : "?",
                      subscription->options.handler_timeout_ms);
        free(id);
        pthread_mutex_lock(&subscription->lock);
    }
    pthread_mutex_unlock(&subscription->lock);
}
