/* Stopping, and waiting until nothing is left to do. */
#include "runtime/subscription.h"

/* At the drain limit flagged handlers get this long to return before stop says that they still run. */
#define GRACE_MS 500
/* How often wait_empty reads the tables. */
#define LOOK_MS 20

/* ---- stop ---- */

static hf_status check_caller(const struct hf_runtime *runtime, const char *call, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status == HF_OK && hf__in_handler(runtime))
        status = hf__fail(err, HF_MISUSE, "%s cannot be called from a handler: it would wait for itself", call);
    return status;
}

/* Begins to stop, unless somebody did. */
static void enter(struct hf_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    while (runtime->state == HF__RUNTIME_STARTING)
        (void)hf__gate_wait(&runtime->changed, &runtime->lock, hf__never());
    if (runtime->state == HF__RUNTIME_OPEN || runtime->state == HF__RUNTIME_RUNNING)
        runtime->state = HF__RUNTIME_STOPPING;
    pthread_mutex_unlock(&runtime->lock);
}

static void each(struct hf_runtime *runtime, void (*call)(struct hf_subscription *subscription))
{
    struct hf_subscription *subscription; /* the list does not change after the start */
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        call(subscription);
}

static size_t running(struct hf_runtime *runtime)
{
    size_t n = 0;
    struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        n += hf__subscription_running(subscription);
    return n;
}

static bool ended(struct hf_runtime *runtime)
{
    struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        if (!hf__subscription_ended(subscription))
            return false;
    return true;
}

/* Waits until all threads have ended; once the deadline has passed only as long as no handler runs: what then still has to end
 * are database calls, and each of them has a limit of its own. */
static bool wait_ended(struct hf_runtime *runtime, struct hf__deadline deadline)
{
    bool done;
    pthread_mutex_lock(&runtime->lock);
    while (!(done = ended(runtime))) {
        bool late = hf__passed(deadline);
        if (late && running(runtime) > 0)
            break;
        (void)hf__gate_wait(&runtime->changed, &runtime->lock, late ? hf__after_ms(GRACE_MS) : deadline);
    }
    pthread_mutex_unlock(&runtime->lock);
    return done;
}

/* Waits for the threads until the limit, no longer. */
static bool drain(struct hf_runtime *runtime, struct hf__deadline limit)
{
    bool done;
    pthread_mutex_lock(&runtime->lock);
    while (!(done = ended(runtime)) && !hf__passed(limit))
        (void)hf__gate_wait(&runtime->changed, &runtime->lock, limit);
    pthread_mutex_unlock(&runtime->lock);
    return done;
}

static void fill_report(struct hf_runtime *runtime, hf_stop_report *report)
{
    struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        pthread_mutex_lock(&subscription->lock);
        const struct hf__counters *now = &subscription->count, *then = &subscription->at_stop;
        report->settled += now->acked - then->acked + now->retried - then->retried + now->retried_later - then->retried_later +
                           now->rejected - then->rejected;
        report->given_back += now->given_back - then->given_back;
        report->failed += now->settle_errors - then->settle_errors + now->lease_lost - then->lease_lost + now->lost - then->lost +
                          now->unknown - then->unknown;
        pthread_mutex_unlock(&subscription->lock);
        report->running += hf__subscription_running(subscription);
    }
}

static hf_status write_report(struct hf_runtime *runtime, hf_stop_report *into, hf_error *err)
{
    hf_stop_report report = HF_STOP_REPORT_INIT;
    if (!into)
        return HF_OK;
    size_t size = into->size;
    if (size < sizeof size)
        return hf__fail(err, HF_INVALID, "hf_stop_report.size is %zu: start the struct with its _INIT macro", size);
    fill_report(runtime, &report);
    __builtin_memcpy(into, &report, size < sizeof report ? size : sizeof report);
    into->size = size;
    return HF_OK;
}

/* False: it is stopped already. */
static bool become_joiner(struct hf_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    while (runtime->state == HF__RUNTIME_JOINING)
        (void)hf__gate_wait(&runtime->changed, &runtime->lock, hf__never());
    bool mine = runtime->state == HF__RUNTIME_STOPPING;
    if (mine)
        runtime->state = HF__RUNTIME_JOINING;
    pthread_mutex_unlock(&runtime->lock);
    return mine;
}

static void leave(struct hf_runtime *runtime, enum hf__runtime_state state)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->state = state;
    hf__gate_wake(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

/* All threads have ended: no connection is left open. Returns how many are lent still at the limit: they must come back first. */
static size_t shut(struct hf_runtime *runtime, struct hf__deadline limit)
{
    if (!become_joiner(runtime))
        return 0;
    each(runtime, hf__subscription_join);
    size_t lent = hf__lending_shut(&runtime->lending, hf__passed(limit) ? hf__after_ms(GRACE_MS) : limit);
    if (lent > 0) {
        leave(runtime, HF__RUNTIME_STOPPING);
        return lent;
    }
    if (runtime->pool) {
        hf__pool_shut(runtime->pool);
        /* Others may still have connections out, for an enqueue: each has a limit. */
        while (!hf__pool_drained(runtime->pool, hf__runtime_deadline(runtime)))
            hf__log(runtime, HF_LOG_WARNING, "the stop waits for connections that are still in use");
    }
    leave(runtime, HF__RUNTIME_STOPPED);
    return 0;
}

hf_status hf_runtime_stop(hf_runtime *runtime, int64_t drain_ms, hf_stop_report *report, hf_error *err)
{
    struct hf__deadline limit = hf__after_ms(drain_ms);
    hf_status status = check_caller(runtime, "hf_runtime_stop", err);
    if (status != HF_OK)
        return status;
    enter(runtime);
    each(runtime, hf__subscription_stop);
    bool done = drain(runtime, limit);
    if (!done) {
        each(runtime, hf__subscription_give_up);
        done = wait_ended(runtime, hf__after_ms(GRACE_MS));
    }
    size_t lent = done ? shut(runtime, limit) : 0;
    status = write_report(runtime, report, err);
    if (status == HF_OK && lent > 0)
        status =
            hf__fail(err, HF_TIMEOUT,
                     "%zu connections of hf_checkout are not back yet: hf_connection_return them, and call hf_runtime_stop again", lent);
    if (status == HF_OK && !done)
        status = hf__fail(err, HF_TIMEOUT,
                          "%zu handlers still run after the drain limit of %lld ms; call hf_runtime_stop again to wait for them",
                          running(runtime), (long long)drain_ms);
    return status;
}

/* ---- wait_empty ---- */

static bool nothing_in_work(struct hf_runtime *runtime)
{
    bool nothing = true;
    struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        pthread_mutex_lock(&subscription->lock);
        nothing = nothing && TAILQ_EMPTY(&subscription->work);
        pthread_mutex_unlock(&subscription->lock);
    }
    return nothing;
}

static hf_status read_pending(struct hf_runtime *runtime, bool *pending, hf_error *err)
{
    struct hf__checkout *checkout;
    struct hf_subscription *subscription;
    hf_status status = hf__runtime_acquire(runtime, HF__PURPOSE_ADMIN, &checkout, err);
    if (status != HF_OK)
        return status;
    *pending = false;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        if (status == HF_OK && !*pending)
            status = hf__plan_pending(subscription->plan, hf__checkout_conn(checkout), hf__runtime_deadline(runtime), pending, err);
    hf__pool_release(checkout);
    return status;
}

/* A failure of the moment is no answer: it is asked again. */
static bool passing(hf_status status)
{
    return status == HF_TRANSIENT || status == HF_LOST || status == HF_TIMEOUT || status == HF_UNREACHABLE;
}

/* Waits a moment, then says whether to look again. */
static hf_status pause_looking(struct hf_runtime *runtime, struct hf__deadline deadline, hf_error *err)
{
    struct hf__deadline next = hf__sooner(deadline, hf__after_ms(LOOK_MS));
    pthread_mutex_lock(&runtime->lock);
    while (runtime->state == HF__RUNTIME_RUNNING && !hf__passed(next))
        (void)hf__gate_wait(&runtime->changed, &runtime->lock, next);
    pthread_mutex_unlock(&runtime->lock);
    return hf__passed(deadline) ? hf__fail(err, HF_TIMEOUT, "the tables are not empty yet") : HF_OK;
}

static hf_status check_running(struct hf_runtime *runtime, hf_error *err)
{
    pthread_mutex_lock(&runtime->lock);
    bool runs = runtime->state == HF__RUNTIME_RUNNING;
    pthread_mutex_unlock(&runtime->lock);
    return runs ? HF_OK : hf__fail(err, HF_STOPPED, "the runtime does not run");
}

/* HF_OK and *empty: nothing is left. A failure that passes is no answer. */
static hf_status look(struct hf_runtime *runtime, bool *empty, hf_error *err)
{
    bool pending = true;
    hf_status status = check_running(runtime, err);
    if (status != HF_OK || !nothing_in_work(runtime))
        return status;
    status = read_pending(runtime, &pending, err);
    *empty = status == HF_OK && !pending && nothing_in_work(runtime);
    return passing(status) ? HF_OK : status;
}

hf_status hf_runtime_wait_empty(hf_runtime *runtime, int64_t timeout_ms, hf_error *err)
{
    struct hf__deadline deadline = timeout_ms < 0 ? hf__never() : hf__after_ms(timeout_ms);
    hf_status status = check_caller(runtime, "hf_runtime_wait_empty", err);
    bool empty = false;
    while (status == HF_OK && !empty) {
        status = look(runtime, &empty, err);
        if (status == HF_OK && !empty)
            status = pause_looking(runtime, deadline, err);
    }
    return status;
}
