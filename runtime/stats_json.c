#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/delivery.h"
#include "runtime/stats.h"

/* The statistics of one subscription, copied under its lock and written after it. */
struct copy {
    struct hf__counters count;
    struct hf__histogram handler_time;
    size_t n_workers, n_work, peak_work, ready;
    double in_work_seconds;
    size_t keyless;
};

/* ---- writing: a failure to add shows in `failed`, so that the tree is whole or absent ---- */

struct writer {
    bool failed;
};

static void put(struct writer *writer, json_t *into, const char *name, json_t *value)
{
    if (json_object_set_new(into, name, value) != 0)
        writer->failed = true;
}

static void put_count(struct writer *writer, json_t *into, const char *name, uint64_t value)
{
    put(writer, into, name, json_integer((json_int_t)value));
}

static void put_real(struct writer *writer, json_t *into, const char *name, double value)
{
    put(writer, into, name, json_real(isfinite(value) ? value : 0.0));
}

/* A new object within an object. On failure it is a stray NULL, which jansson's calls refuse, and the writer remembers. */
static json_t *put_object(struct writer *writer, json_t *into, const char *name)
{
    json_t *object = json_object();
    put(writer, into, name, object);
    return object;
}

static void put_times(struct writer *writer, json_t *into, const char *name, const struct hf__histogram *times)
{
    json_t *object = put_object(writer, into, name);
    put_real(writer, object, "p50", (double)hf__histogram_quantile(times, 0.50) / 1000.0);
    put_real(writer, object, "p95", (double)hf__histogram_quantile(times, 0.95) / 1000.0);
    put_real(writer, object, "p99", (double)hf__histogram_quantile(times, 0.99) / 1000.0);
    put_real(writer, object, "max", (double)times->max_us / 1000.0);
}

/* ---- the pool ---- */

static void put_purpose(struct writer *writer, json_t *into, enum hf__purpose purpose, const struct hf__ledger_line *line)
{
    json_t *object = put_object(writer, into, hf__purpose_name(purpose));
    put_count(writer, object, "in_use", line->in_use);
    put_count(writer, object, "peak", line->peak);
    put_count(writer, object, "count", line->count);
    put_real(writer, object, "seconds", line->seconds);
    put_count(writer, object, "timeouts", line->timeouts);
    put_times(writer, object, "wait_ms", &line->wait);
}

static void put_pool(struct writer *writer, json_t *into, const struct hf__pool_snapshot *pool)
{
    json_t *object = put_object(writer, into, "pool");
    put_count(writer, object, "size", pool->size);
    put_count(writer, object, "reserved", pool->reserved);
    put_count(writer, object, "open", pool->open);
    put_count(writer, object, "idle", pool->idle);
    put_count(writer, object, "in_use", pool->in_use);
    put_count(writer, object, "waiting", pool->waiting);
    put_count(writer, object, "peak_open", pool->peak_open);
    put_count(writer, object, "peak_in_use", pool->peak_in_use);
    put_count(writer, object, "opened", pool->opened);
    put_count(writer, object, "closed", pool->closed);
    put_count(writer, object, "broken", pool->broken);
    put_count(writer, object, "connect_failures", pool->connect_failures);
    put_count(writer, object, "round_trips", pool->round_trips);
    put_count(writer, object, "commits", pool->commits);
    json_t *purposes = put_object(writer, object, "purposes");
    for (enum hf__purpose purpose = 0; purpose < HF__PURPOSES; purpose++)
        put_purpose(writer, purposes, purpose, &pool->ledger.line[purpose]);
}

/* ---- a subscription ---- */

static void copy_subscription(struct hf_subscription *subscription, struct copy *copy)
{
    const struct hf_delivery *delivery;
    int64_t now_ns = hf__monotonic_ns();
    pthread_mutex_lock(&subscription->lock);
    copy->count = subscription->count;
    copy->handler_time = subscription->handler_time;
    copy->n_workers = subscription->n_workers ? subscription->n_workers : subscription->options.workers;
    copy->n_work = subscription->n_work;
    copy->peak_work = subscription->peak_work;
    copy->ready = subscription->n_ready;
    copy->in_work_seconds = (double)subscription->in_work_us / 1e6;
    copy->keyless = subscription->keyless;
    TAILQ_FOREACH (delivery, &subscription->work, work)
        if (!delivery->work_ended)
            copy->in_work_seconds += (double)(now_ns - delivery->claimed_ns) / 1e9;
    pthread_mutex_unlock(&subscription->lock);
}

/* Connections held by deliveries in work over deliveries in work, held for the same: from the ledger, not from the model. */
static double held_per_delivery(const struct hf_subscription *subscription, const struct hf__pool_snapshot *pool, double in_work_seconds)
{
    if (!subscription->holds || in_work_seconds <= 0)
        return 0;
    return pool->ledger.line[subscription->held_as].seconds / in_work_seconds;
}

static json_t *subscription_tree(struct writer *writer, struct hf_subscription *subscription, const struct copy *copy,
                                 const struct hf__pool_snapshot *pool, double kind_seconds)
{
    json_t *object = json_object();
    put(writer, object, "table", json_string(subscription->table->display));
    put(writer, object, "strategy", json_string(hf__strategy_kind_name(hf__table_kind(subscription->table))));
    put_count(writer, object, "workers", copy->n_workers);
#define PUT_COUNTER(name, unit, text) put_count(writer, object, #name, copy->count.name);
    HF__COUNTER_MAP(PUT_COUNTER)
#undef PUT_COUNTER
    put_count(writer, object, "in_work", copy->n_work);
    put_count(writer, object, "peak_in_work", copy->peak_work);
    put_count(writer, object, "ready", copy->ready);
    put_count(writer, object, "keyless", copy->keyless);
    put_real(writer, object, "in_work_seconds", copy->in_work_seconds);
    put_real(writer, object, "held_per_delivery", held_per_delivery(subscription, pool, kind_seconds));
    put_times(writer, object, "handler_ms", &copy->handler_time);
    return object;
}

/* The ledger knows purposes, not subscriptions: those that hold for the same purpose share its number. */
static double seconds_held_as(struct hf_runtime *runtime, const struct copy *copies, const struct hf_subscription *like)
{
    const struct hf_subscription *subscription;
    double seconds = 0;
    size_t i = 0;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        if (subscription->holds && subscription->held_as == like->held_as)
            seconds += copies[i].in_work_seconds;
        i++;
    }
    return seconds;
}

static void put_subscriptions(struct writer *writer, json_t *into, struct hf_runtime *runtime, struct copy *copies,
                              const struct hf__pool_snapshot *pool)
{
    struct hf_subscription *subscription;
    json_t *list = json_array();
    put(writer, into, "subscriptions", list);
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry) {
        double seconds = seconds_held_as(runtime, copies, subscription);
        json_t *tree = subscription_tree(writer, subscription, &copies[subscription->index], pool, seconds);
        if (json_array_append_new(list, tree) != 0)
            writer->failed = true;
    }
}

/* ---- the tree ---- */

/* Subscriptions first: a row claimed in between then shows as a held connection too many, never as one too few; and the copies are short.
 */
static bool collect(struct hf_runtime *runtime, struct copy **copies, struct hf__pool_snapshot **pool)
{
    struct hf_subscription *subscription;
    *copies = calloc(runtime->n_subscriptions + 1, sizeof **copies);
    *pool = calloc(1, sizeof **pool);
    if (!*copies || !*pool)
        return false;
    TAILQ_FOREACH (subscription, &runtime->subscriptions, entry)
        copy_subscription(subscription, &(*copies)[subscription->index]);
    if (runtime->pool)
        hf__pool_snapshot(runtime->pool, *pool);
    return true;
}

json_t *hf__stats_tree(struct hf_runtime *runtime)
{
    struct writer writer = {false};
    struct copy *copies = NULL;
    struct hf__pool_snapshot *pool = NULL;
    json_t *root = json_object();
    pthread_mutex_lock(&runtime->lock);
    if (root && collect(runtime, &copies, &pool)) {
        put(&writer, root, "version", json_string(hf_version()));
        put(&writer, root, "database", json_string(hf__database_name(runtime->url->database)));
        put(&writer, root, "server_version", json_string(runtime->server.text));
        put_pool(&writer, root, pool);
        put_subscriptions(&writer, root, runtime, copies, pool);
        put_count(&writer, root, "model_exceeded", atomic_load(&runtime->model_exceeded));
    } else {
        writer.failed = true;
    }
    pthread_mutex_unlock(&runtime->lock);
    free(copies);
    free(pool);
    if (!writer.failed)
        return root;
    json_decref(root);
    return NULL;
}

char *hf_stats_json(hf_runtime *runtime)
{
    if (hf__runtime_usable(runtime, NULL) != HF_OK)
        return NULL;
    json_t *tree = hf__stats_tree(runtime);
    char *text = tree ? json_dumps(tree, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(tree);
    return text;
}

void hf_free(void *memory)
{
    free(memory);
}
