/* Starting: checks everything, sizes the pool by the cost model, then starts the threads. On an error all is undone. */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/subscription.h"

/* ---- the checks ---- */

struct hf__cost_input hf__cost_input_for(const struct hf_runtime *runtime, const struct hf_table *table,
                                         const struct hf_subscription_options *options)
{
    return (struct hf__cost_input){
        .kind = hf__table_kind(table),
        .database = runtime->url->database,
        .workers = options->workers,
        .batch = options->batch,
        .handler_connections = options->handler_connections,
        .transactional = options->transactional,
    };
}

static struct hf__cost_input cost_input(const struct hf_subscription *subscription)
{
    return hf__cost_input_for(subscription->runtime, subscription->table, &subscription->options);
}

/* What a delivery in work holds its connection for. */
static enum hf__purpose held_as(const struct hf_subscription *subscription)
{
    bool process_holds = subscription->lease || subscription->runtime->url->database == HF__SQLITE;
    return process_holds ? HF__PURPOSE_HANDLER : subscription->strategy->holds;
}

static void log_findings(struct hf_runtime *runtime, const struct hf__findings *findings)
{
    for (size_t i = 0; i < findings->n; i++)
        if (findings->list[i].level == HF__FINDING_WARNING)
            hf__log(runtime, HF_LOG_WARNING, "%s", findings->list[i].message);
}

static void log_offset(struct hf_subscription *subscription)
{
    int64_t offset_us = hf__clock_host_offset_us(subscription->runtime->clock);
    if (subscription->lease && llabs(offset_us) > subscription->table->lease_us / 4)
        hf__log(subscription->runtime, HF_LOG_WARNING,
                "%s: this host's clock and the database's are %" PRId64 " ms apart, more than a quarter of the lease: "
                "holdfast corrects for it, but keep the clocks in step",
                subscription->table->display, offset_us / 1000);
}

static hf_status open_subscription(struct hf_subscription *subscription, struct hf__conn *conn, hf_error *err)
{
    struct hf_runtime *runtime = subscription->runtime;
    struct hf__findings findings = {NULL, 0, 0};
    struct hf__plan_options options = {subscription->options.groups, subscription->options.n_groups, runtime->clock, &findings};
    hf_status status = hf__plan_open(conn, subscription->table, &options, hf__runtime_deadline(runtime), &subscription->plan, err);
    if (status == HF_OK)
        log_findings(runtime, &findings);
    hf__findings_free(&findings);
    if (status != HF_OK)
        return status;
    subscription->strategy = hf__plan_strategy(subscription->plan);
    subscription->lease_ns = subscription->lease ? subscription->table->lease_us * 1000 : 0;
    log_offset(subscription);
    return HF_OK;
}

static hf_status check_all(struct hf_runtime *runtime, struct hf__conn *conn, hf_error *err)
{
    struct hf_subscription *subscription;
    hf_status status = hf__clock_measure(runtime->clock, conn, hf__runtime_deadline(runtime), err);
    pthread_mutex_lock(&runtime->lock);
    runtime->server = conn->server;
    pthread_mutex_unlock(&runtime->lock);
    /* The list does not change any more: hf_subscribe is refused from STARTING on. */
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        if (status == HF_OK)
            status = open_subscription(subscription, conn, err);
    if (status != HF_OK)
        conn->retire = true; /* it may know statements of a plan that is about to go */
    return status;
}

static hf_status check(struct hf_runtime *runtime, hf_error *err)
{
    struct hf__checkout *checkout;
    hf_status status = hf__runtime_acquire(runtime, HF__PURPOSE_ADMIN, &checkout, err);
    if (status != HF_OK)
        return status;
    status = check_all(runtime, hf__checkout_conn(checkout), err);
    hf__pool_release(checkout);
    return status;
}

/* ---- the pool's size ---- */

/* What an advisory lock's batches may hold beyond each worker's first row: what is left of the share. Where nothing is held nothing is
 * short. */
static void share_extra(struct hf_subscription *subscription, const struct hf__cost_input *input, size_t share)
{
    size_t extra = hf__cost_extra_within(input, share);
    subscription->extra_most = subscription->holds ? extra : subscription->n_workers * (subscription->batch - 1);
    subscription->runtime->held_allowed += subscription->cost.held_per_delivery * subscription->n_workers + extra;
}

/* How many workers of a subscription run when the pool is smaller than the sum: each gets its share of it. */
static void share_pool(struct hf_subscription *subscription, size_t sum)
{
    struct hf_runtime *runtime = subscription->runtime;
    struct hf__cost_input input = cost_input(subscription);
    struct hf__cost full = hf__cost_of(&input);
    size_t share = runtime->pool_size < sum ? runtime->pool_size * full.pool_size / sum : full.pool_size;
    if (share < full.minimum)
        share = full.minimum;
    input.workers = hf__cost_workers_within(&input, share);
    pthread_mutex_lock(&subscription->lock); /* the statistics may be asked for already */
    subscription->n_workers = input.workers;
    subscription->holds = full.held_per_delivery > 0;
    subscription->held_as = held_as(subscription);
    pthread_mutex_unlock(&subscription->lock);
    subscription->cost = hf__cost_of(&input);
    share_extra(subscription, &input, share);
    if (subscription->n_workers < subscription->options.workers)
        hf__log(runtime, HF_LOG_WARNING,
                "%s: pool_size %zu is too small for %zu workers, which hold a connection each (%s): %zu run at once; set pool_size to %zu, "
                "or leave it out",
                subscription->table->display, runtime->pool_size, subscription->options.workers,
                hf__strategy_kind_name(hf__table_kind(subscription->table)), subscription->n_workers, sum);
}

/* A pool of one is shared by renewals and everything else, which therefore must not block it for long. */
static void bound_calls(struct hf_runtime *runtime)
{
    const struct hf_subscription *subscription;
    int64_t limit_ms = runtime->options.statement_timeout_ms;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        int64_t quarter_ms = subscription->lease_ns / 4000000;
        if (subscription->lease && runtime->pool_size == 1 && quarter_ms < limit_ms)
            limit_ms = quarter_ms;
    }
    atomic_store(&runtime->call_limit_ms, limit_ms);
}

/* What is lent to handlers leaves the engines what they need: the held ones, the renewers' and, where claims and settles are made on no
 * held one, another. Handlers that have declared theirs have them for certain, so they may wait while they hold some: nobody else
 * gets those. */
static hf_status limit_lending(struct hf_runtime *runtime, size_t reserved, hf_error *err)
{
    const struct hf_subscription *subscription;
    size_t needed = reserved, apart = 0, declared = 0;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        needed += subscription->holds ? subscription->n_workers + subscription->extra_most : 0;
        apart = subscription->cost.claim > 0 ? 1 : apart;
        declared += subscription->n_workers * subscription->options.handler_connections;
    }
    needed += apart;
    size_t most = runtime->pool_size > needed ? runtime->pool_size - needed : 0;
    runtime->lending_allowed = most;
    return hf__lending_limit(&runtime->lending, most, declared <= most ? declared : 0, err);
}

/* A delivery that holds a connection must leave one for its renewal. */
static hf_status check_pool(const struct hf_runtime *runtime, hf_error *err)
{
    const struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        struct hf__cost_input input = cost_input(subscription);
        input.handler_connections = 0;
        struct hf__cost cost = hf__cost_of(&input);
        if (runtime->pool_size < cost.minimum)
            return hf__fail(
                err, HF_INVALID,
                "table %s: the pool of %zu is too small: a transactional delivery holds a connection and its lease is renewed on "
                "another, so set pool_size to %zu at least, or to 0",
                subscription->table->display, runtime->pool_size, cost.minimum);
    }
    return HF_OK;
}

static hf_status size_pool(struct hf_runtime *runtime, hf_error *err)
{
    struct hf_subscription *subscription;
    size_t sum = 0, reserved = 0;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        struct hf__cost_input input = cost_input(subscription);
        struct hf__cost cost = hf__cost_of(&input);
        sum += cost.pool_size;
        reserved += cost.reserved;
    }
    if (sum == 0)
        sum = 1;
    runtime->pool_size = runtime->options.pool_size ? runtime->options.pool_size : sum;
    runtime->pool_ample = runtime->pool_size >= sum;
    runtime->held_allowed = 0;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        share_pool(subscription, sum);
    bound_calls(runtime);
    reserved = reserved < runtime->pool_size ? reserved : runtime->pool_size - 1;
    hf__pool_resize(runtime->pool, runtime->pool_size, reserved);
    hf_status status = check_pool(runtime, err);
    return status == HF_OK ? limit_lending(runtime, reserved, err) : status;
}

/* ---- start ---- */

static hf_status spawn_all(struct hf_runtime *runtime, hf_error *err)
{
    struct hf_subscription *subscription;
    hf_status status = HF_OK;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        if (status == HF_OK)
            status = hf__subscription_spawn(subscription, err);
    return status;
}

static void undo(struct hf_runtime *runtime)
{
    struct hf_subscription *subscription;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        hf__subscription_stop(subscription);
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        hf__subscription_join(subscription);
        hf__subscription_reset(subscription);
    }
    atomic_store(&runtime->call_limit_ms, runtime->options.statement_timeout_ms);
    (void)hf__lending_limit(&runtime->lending, SIZE_MAX, 0, NULL); /* as many as are out are never too many */
}

static hf_status enter(struct hf_runtime *runtime, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&runtime->lock);
    if (runtime->state == HF__RUNTIME_OPEN)
        runtime->state = HF__RUNTIME_STARTING;
    else
        status = hf__fail(err, HF_MISUSE, "the runtime has been started, or stopped, already: open another one");
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

static void leave(struct hf_runtime *runtime, enum hf__runtime_state state)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->state = state;
    hf__gate_wake(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

hf_status hf_runtime_start(hf_runtime *runtime, hf_error *err)
{
    struct hf_subscription *subscription;
    hf_status status = enter(runtime, err);
    if (status != HF_OK)
        return status;
    status = check(runtime, err);
    if (status == HF_OK) {
        status = size_pool(runtime, err);
    }
    if (status == HF_OK) {
        status = spawn_all(runtime, err);
    }
    if (status != HF_OK) {
        undo(runtime);
        leave(runtime, HF__RUNTIME_OPEN);
        return status;
    }
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        hf__subscription_go(subscription);
    leave(runtime, HF__RUNTIME_RUNNING);
    return HF_OK;
}
