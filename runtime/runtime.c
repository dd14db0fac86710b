/* The runtime: opened, given subscriptions, closed. Starting is in start.c, stopping in stop.c; the states are in runtime.h. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/subscription.h"

/* The pool of a runtime that has not been started: for enqueue, check and the like. */
#define UNSTARTED_POOL 4
#define WORKERS_MOST 10000
#define BATCH_MOST 1000
#define HANDLER_CONNECTIONS_MOST 1000

/* ---- open ---- */

hf_status hf__copy_options(void *into, size_t size, const void *from, const char *what, hf_error *err)
{
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return hf__fail(err, HF_INVALID, "%s.size is %zu: start the struct with its _INIT macro", what, given);
    memcpy(into, from, given < size ? given : size);
    memcpy(into, &size, sizeof size);
    return HF_OK;
}

static void default_ms(int64_t *ms, int64_t value)
{
    if (*ms == 0)
        *ms = value;
}

static hf_status take_options(struct hf_runtime *runtime, const hf_runtime_options *from, hf_error *err)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_status status = from ? hf__copy_options(&options, sizeof options, from, "hf_runtime_options", err) : HF_OK;
    if (status != HF_OK)
        return status;
    if (options.connect_timeout_ms < 0 || options.statement_timeout_ms < 0 || options.max_lifetime_ms < 0 || options.keepalive_ms < 0)
        return hf__fail(err, HF_INVALID, "a time limit in hf_runtime_options is negative");
    default_ms(&options.connect_timeout_ms, 5000);
    default_ms(&options.statement_timeout_ms, 10000);
    const char *name = options.application_name ? options.application_name : "holdfast";
    options.application_name = runtime->application_name = strdup(name);
    runtime->options = options;
    atomic_init(&runtime->call_limit_ms, options.statement_timeout_ms);
    return options.application_name ? HF_OK : hf__fail_memory(err);
}

static void free_runtime(struct hf_runtime *runtime)
{
    struct hf_subscription *subscription;
    hf__pool_close(runtime->pool); /* first: its connections have the plans' statements prepared */
    while ((subscription = TAILQ_FIRST(&runtime->subscriptions))) {
        TAILQ_REMOVE(&runtime->subscriptions, subscription, entry);
        hf__subscription_free(subscription);
    }
    hf__lending_destroy(&runtime->lending);
    hf__clock_free(runtime->clock);
    hf__url_free(runtime->url);
    free(runtime->application_name);
    pthread_mutex_destroy(&runtime->lock);
    free(runtime);
}

static hf_status prepare(struct hf_runtime *runtime, const char *url, const hf_runtime_options *options, hf_error *err)
{
    hf_status status = take_options(runtime, options, err);
    if (status == HF_OK)
        status = hf__url_parse(url, &runtime->url, err);
    if (status == HF_OK)
        status = hf__clock_new(&runtime->clock, err);
    return status;
}

hf_status hf_runtime_open(const char *url, const hf_runtime_options *options, hf_runtime **out, hf_error *err)
{
    if (!url || !out)
        return hf__fail(err, HF_INVALID, "hf_runtime_open needs a URL and a place for the runtime");
    struct hf_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return hf__fail_memory(err);
    hf_status status = hf__lending_init(&runtime->lending, err);
    if (status != HF_OK) {
        free(runtime);
        return status;
    }
    int failed = pthread_mutex_init(&runtime->lock, NULL);
    if (failed) {
        hf__lending_destroy(&runtime->lending);
        free(runtime);
        return hf__fail(err, HF_SYSTEM, "cannot make a mutex: %s", strerror(failed));
    }
    runtime->owner = getpid();
    TAILQ_INIT(&runtime->subscriptions);
    hf__gate_init(&runtime->changed);
    status = prepare(runtime, url, options, err);
    if (status == HF_OK)
        *out = runtime;
    else
        free_runtime(runtime);
    return status;
}

hf_status hf__runtime_usable(const struct hf_runtime *runtime, hf_error *err)
{
    if (!runtime)
        return hf__fail(err, HF_INVALID, "the runtime is NULL");
    if (getpid() != runtime->owner)
        return hf__fail(err, HF_MISUSE, "a forked child cannot use its parent's runtime: open one of its own");
    return HF_OK;
}

/* ---- subscribe ---- */

static hf_status check_numbers(const hf_subscription_options *options, hf_error *err)
{
    if (options->workers > WORKERS_MOST)
        return hf__fail(err, HF_INVALID, "workers is %zu: at most %d", options->workers, WORKERS_MOST);
    if (options->batch > BATCH_MOST)
        return hf__fail(err, HF_INVALID, "batch is %zu: at most %d", options->batch, BATCH_MOST);
    if (options->handler_connections > HANDLER_CONNECTIONS_MOST)
        return hf__fail(err, HF_INVALID, "handler_connections is %zu: at most %d", options->handler_connections, HANDLER_CONNECTIONS_MOST);
    if (options->poll_ms < 0 || options->handler_timeout_ms < 0 || options->retry_base_ms < 0 || options->retry_cap_ms < 0)
        return hf__fail(err, HF_INVALID, "a time in hf_subscription_options is negative");
    if (!(options->retry_factor >= 1.0 && options->retry_factor <= 1000.0))
        return hf__fail(err, HF_INVALID, "retry_factor is %g: it must be between 1 and 1000", options->retry_factor);
    return HF_OK;
}

static hf_status check_groups(const struct hf_table *table, const hf_subscription_options *options, hf_error *err)
{
    if (options->n_groups == 0)
        return HF_OK;
    if (!hf__table_has(table, HF__ROLE_GROUP))
        return hf__fail(err, HF_INVALID,
                        "table %s has no group column: name it in \"columns\": {\"group\": ...}, or subscribe without groups",
                        table->display);
    for (size_t i = 0; i < options->n_groups; i++)
        if (!options->groups || !options->groups[i])
            return hf__fail(err, HF_INVALID, "group %zu of the subscription to table %s is NULL", i, table->display);
    return HF_OK;
}

static hf_status subscription_options(const struct hf_runtime *runtime, const struct hf_table *table, const hf_subscription_options *from,
                                      hf_subscription_options *options, hf_error *err)
{
    *options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_status status = from ? hf__copy_options(options, sizeof *options, from, "hf_subscription_options", err) : HF_OK;
    if (status != HF_OK)
        return status;
    if (options->workers == 0)
        options->workers = options->transactional && runtime->url->database == HF__SQLITE ? 1 : 4;
    default_ms(&options->poll_ms, 1000);
    default_ms(&options->retry_base_ms, 1000);
    default_ms(&options->retry_cap_ms, 300000);
    if (options->retry_factor <= 0.0 && options->retry_factor >= 0.0)
        options->retry_factor = 2.0;
    status = check_numbers(options, err);
    return status == HF_OK ? check_groups(table, options, err) : status;
}

static hf_status add(struct hf_runtime *runtime, struct hf_subscription *subscription, hf_error *err)
{
    pthread_mutex_lock(&runtime->lock);
    bool open = runtime->state == HF__RUNTIME_OPEN;
    if (open) {
        subscription->index = runtime->n_subscriptions++;
        TAILQ_INSERT_TAIL(&runtime->subscriptions, subscription, entry);
    }
    pthread_mutex_unlock(&runtime->lock);
    return open ? HF_OK : hf__fail(err, HF_MISUSE, "hf_subscribe comes before hf_runtime_start");
}

/* A batch is for handlers that take one. */
static hf_status set_batch(const struct hf_table *table, hf_subscription_options *options, bool batches, hf_error *err)
{
    enum { BATCH = 16 };
    if (!batches)
        options->batch = 1;
    else if (options->batch == 0)
        options->batch = BATCH;
    if (options->transactional && options->batch > 1)
        return hf__fail(err, HF_INVALID,
                        "the subscription to table %s is transactional, and each row has a transaction of its own there: set batch to 1, "
                        "or subscribe with hf_subscribe",
                        table->display); /* NOLINT(clang-analyzer-core.NullDereference): a table that is NULL was refused before */
    return HF_OK;
}

/* SQLite has one writer: a second transaction that writes would wait for the first one's handler. */
static hf_status check_one_writer(struct hf_runtime *runtime, const struct hf_table *table, hf_subscription_options *options, hf_error *err)
{
    const struct hf_subscription *other;
    if (options->workers > 1)
        return hf__fail(
            err, HF_INVALID,
            "the subscription to table %s is transactional with %zu workers, and SQLite has one writer at a time: set workers to "
            "1, or leave transactional out",
            table->display, options->workers);
    pthread_mutex_lock(&runtime->lock);
    TAILQ_FOREACH (other, &runtime->subscriptions, entry)
        if (other->options.transactional)
            break;
    pthread_mutex_unlock(&runtime->lock);
    if (other)
        return hf__fail(err, HF_INVALID,
                        "the subscriptions to tables %s and %s are transactional, and SQLite has one writer at a time: leave transactional "
                        "out of one of them",
                        other->table->display, table->display);
    options->prefetch = SIZE_MAX; /* while a handler runs no claim can get through */
    return HF_OK;
}

static hf_status check_transactional(struct hf_runtime *runtime, const struct hf_table *table, hf_subscription_options *options,
                                     hf_error *err)
{
    bool sqlite = runtime->url->database == HF__SQLITE, named = table->isolation != HF__ISOLATION_DEFAULT;
    if (!options->transactional && named && hf__table_kind(table) != HF__ROW_LOCK)
        return hf__fail(err, HF_INVALID,
                        "table %s: \"isolation\" is the level of a row lock's transaction, or of a transactional subscription's, and there "
                        "is none here: take it out, or set transactional",
                        table->display);
    if (named && sqlite && table->isolation != HF__SERIALIZABLE)
        return hf__fail(err, HF_INVALID, "table %s: SQLite's transactions are always serializable: take \"isolation\" out", table->display);
    return options->transactional && sqlite ? check_one_writer(runtime, table, options, err) : HF_OK;
}

static hf_status subscribe(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, hf_handler handler,
                           hf_batch_handler batch_handler, void *ctx, hf_subscription **out, hf_error *err)
{
    struct hf_subscription *subscription = NULL;
    hf_subscription_options filled;
    hf_status status = hf__runtime_usable(runtime, err);
    if (status == HF_OK && (!table || (!handler && !batch_handler)))
        status = hf__fail(err, HF_INVALID, "hf_subscribe needs a table and a handler");
    if (status == HF_OK)
        status = subscription_options(runtime, table, options, &filled, err);
    if (status == HF_OK)
        status = set_batch(table, &filled, batch_handler != NULL, err);
    if (status == HF_OK)
        status = hf__table_fits(table, runtime->url->database, err);
    if (status == HF_OK)
        status = check_transactional(runtime, table, &filled, err);
    if (status == HF_OK)
        status = hf__subscription_new(runtime, table, &filled, handler, batch_handler, ctx, &subscription, err);
    if (status == HF_OK)
        status = add(runtime, subscription, err);
    if (status != HF_OK)
        hf__subscription_free(subscription);
    else if (out)
        *out = subscription;
    return status;
}

hf_status hf_subscribe(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, hf_handler handler, void *ctx,
                       hf_subscription **out, hf_error *err)
{
    return subscribe(runtime, table, options, handler, NULL, ctx, out, err);
}

hf_status hf_subscribe_batch(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, hf_batch_handler handler,
                             void *ctx, hf_subscription **out, hf_error *err)
{
    return subscribe(runtime, table, options, NULL, handler, ctx, out, err);
}

/* ---- the pool ---- */

static void pool_event(void *ctx, const char *message)
{
    hf__log(ctx, HF_LOG_WARNING, "%s", message);
}

static hf_status open_pool(struct hf_runtime *runtime, hf_error *err)
{
    const hf_runtime_options *options = &runtime->options;
    struct hf__pool_options pool = {
        .url = runtime->url,
        .size = options->pool_size ? options->pool_size : UNSTARTED_POOL,
        .connect_timeout_ms = options->connect_timeout_ms,
        .max_lifetime_ms = options->max_lifetime_ms,
        .keepalive_ms = options->keepalive_ms,
        .application_name = options->application_name,
        .event = pool_event,
        .event_ctx = runtime,
    };
    return hf__pool_open(&pool, &runtime->pool, err);
}

hf_status hf__runtime_connect_pool(struct hf_runtime *runtime, struct hf__pool **out, hf_error *err)
{
    hf_status status = HF_OK;
    pthread_mutex_lock(&runtime->lock);
    if (!runtime->pool && runtime->state == HF__RUNTIME_STOPPED)
        status = hf__fail(err, HF_STOPPED, "the runtime has been stopped");
    else if (!runtime->pool)
        status = open_pool(runtime, err);
    *out = runtime->pool;
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

hf_status hf__runtime_acquire(struct hf_runtime *runtime, enum hf__purpose purpose, struct hf__checkout **out, hf_error *err)
{
    struct hf__pool *pool;
    hf_status status = hf__runtime_connect_pool(runtime, &pool, err);
    return status == HF_OK ? hf__pool_acquire(pool, purpose, hf__runtime_deadline(runtime), out, err) : status;
}

struct hf__deadline hf__runtime_deadline(const struct hf_runtime *runtime)
{
    return hf__after_ms(atomic_load(&runtime->call_limit_ms));
}

/* ---- waking ---- */

void hf__runtime_wake(struct hf_runtime *runtime, const struct hf_table *table)
{
    struct hf_subscription *subscription;
    pthread_mutex_lock(&runtime->lock);
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        if (hf__table_same(subscription->table, table))
            hf__subscription_wake(subscription);
    pthread_mutex_unlock(&runtime->lock);
}

void hf__runtime_changed(struct hf_runtime *runtime)
{
    pthread_mutex_lock(&runtime->lock);
    hf__gate_wake(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

/* ---- close ---- */

hf_status hf_runtime_close(hf_runtime *runtime)
{
    if (!runtime)
        return HF_OK;
    hf_status status = hf__runtime_usable(runtime, NULL);
    if (status == HF_OK)
        status = hf_runtime_stop(runtime, 0, NULL, NULL);
    if (status == HF_TIMEOUT)
        return HF_BUSY;
    if (status == HF_OK)
        free_runtime(runtime);
    return status;
}
