/* Rows whose advisory key renders to NULL or to nothing are never run: a lock on nothing would exclude nothing. They go to the dead letter
 * if there is one. They are looked for, at growing intervals, when a claim found nothing else; counted, and said in the log with a way out.
 */
#include <stdlib.h>

#include "runtime/subscription.h"

#define FIRST_NS INT64_C(1000000000)
#define LONGEST_NS (600 * FIRST_NS)

/* Is it time to look? Then the next time is put off. */
static bool due(struct hf_subscription *subscription)
{
    int64_t now_ns = hf__monotonic_ns();
    pthread_mutex_lock(&subscription->lock);
    bool look = now_ns >= subscription->keyless_next_ns;
    if (look) {
        int64_t wait_ns = 2 * subscription->keyless_wait_ns;
        subscription->keyless_wait_ns = wait_ns < FIRST_NS ? FIRST_NS : wait_ns > LONGEST_NS ? LONGEST_NS : wait_ns;
        subscription->keyless_next_ns = now_ns + hf__jittered(subscription->keyless_wait_ns);
    }
    pthread_mutex_unlock(&subscription->lock);
    return look;
}

static void note(struct hf_subscription *subscription, size_t count, const char *example)
{
    pthread_mutex_lock(&subscription->lock);
    bool news = count != subscription->keyless;
    subscription->keyless = count;
    pthread_mutex_unlock(&subscription->lock);
    if (news && count > 0)
        hf__log(subscription->runtime, HF_LOG_WARNING,
                "%s: %zu due rows render no advisory key (row %s for one): they are not run; fill the columns that \"advisory_lock\" names",
                subscription->table->display, count, example);
}

/* Where there is a dead letter they go there; what cannot is found again by the look that follows. */
static void bury(struct hf_subscription *subscription, struct hf__conn *conn)
{
    size_t moved = 0;
    hf_error err = {.status = HF_OK};
    const char *table = subscription->table->display;
    hf_status status = hf__plan_bury_keyless(subscription->plan, conn, hf__call_deadline(subscription), &moved, &err);
    pthread_mutex_lock(&subscription->lock);
    subscription->count.dead += moved;
    pthread_mutex_unlock(&subscription->lock);
    if (moved > 0)
        hf__log_noise(subscription, &subscription->dead_noise, HF_LOG_WARNING,
                      "%s: %zu rows went to the dead letter: they render no advisory key; fill the columns that \"advisory_lock\" names",
                      table, moved);
    if (status != HF_OK)
        hf__log_noise(subscription, &subscription->settle_noise, HF_LOG_ERROR,
                      "%s: a row that renders no advisory key cannot go to the dead letter: %s", table, err.message);
}

hf_status hf__look_for_keyless(struct hf_subscription *subscription, struct hf__conn *conn, hf_error *err)
{
    size_t count = 0;
    char *example = NULL;
    if (subscription->strategy->kind != HF__ADVISORY_LOCK || !due(subscription))
        return HF_OK;
    if (hf__table_has_dead_letter(subscription->table))
        bury(subscription, conn);
    hf_status status = hf__plan_keyless(subscription->plan, conn, hf__call_deadline(subscription), &count, &example, err);
    if (status == HF_OK)
        note(subscription, count, example);
    free(example);
    return status;
}
