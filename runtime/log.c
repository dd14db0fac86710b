#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/subscription.h"

#define QUIET_NS (10 * INT64_C(1000000000))

static void __attribute__((format(printf, 3, 0))) say(struct hf_runtime *runtime, hf_log_level level, const char *format, va_list args)
{
    char *message = NULL;
    if (vasprintf(&message, format, args) < 0)
        runtime->options.log(runtime->options.log_ctx, level, "a message could not be written: out of memory");
    else
        runtime->options.log(runtime->options.log_ctx, level, message);
    free(message);
}

void hf__log(struct hf_runtime *runtime, hf_log_level level, const char *format, ...)
{
    if (!runtime->options.log)
        return;
    va_list args;
    va_start(args, format);
    say(runtime, level, format, args);
    va_end(args);
}

/* May this message be said now? *missed is how many of its kind were left out before it. */
static bool may_say(struct hf_subscription *subscription, struct hf__noise *noise, uint64_t *missed)
{
    int64_t now = hf__monotonic_ns();
    pthread_mutex_lock(&subscription->lock);
    bool may = now >= noise->next_ns;
    *missed = noise->suppressed;
    if (may) {
        noise->next_ns = now + QUIET_NS;
        noise->suppressed = 0;
    } else {
        noise->suppressed++;
    }
    pthread_mutex_unlock(&subscription->lock);
    return may;
}

void hf__log_noise(struct hf_subscription *subscription, struct hf__noise *noise, hf_log_level level, const char *format, ...)
{
    uint64_t missed;
    if (!subscription->runtime->options.log || !may_say(subscription, noise, &missed))
        return;
    va_list args;
    va_start(args, format);
    say(subscription->runtime, level, format, args);
    va_end(args);
    if (missed)
        hf__log(subscription->runtime, level, "%s: %llu more messages of this kind were left out before this one",
                subscription->table->display, (unsigned long long)missed);
}
