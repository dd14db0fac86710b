/* The flat list of numbers: the tree, one entry for each number in it, named by its path. */
#include "runtime/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/subscription.h"

struct hf_stats {
    struct entry {
        char *path; /* what stat.name points to */
        struct hf_stat stat;
    } * list;
    size_t n, capacity;
};

static const struct hf__stat_text texts[] = {
#define COUNTER_TEXT(name, unit, text) {#name, unit, text},
    HF__COUNTER_MAP(COUNTER_TEXT)
#undef COUNTER_TEXT
        {"size", "connections", "the bound of the pool"},
    {"reserved", "connections", "of the pool, for renewals alone"},
    {"open", "connections", "open now"},
    {"idle", "connections", "open and not in use"},
    {"in_use", "connections", "in use now"},
    {"waiting", "callers", "waiting for a connection"},
    {"peak_open", "connections", "the most open at one moment"},
    {"peak_in_use", "connections", "the most in use at one moment"},
    {"opened", "connections", "opened so far"},
    {"closed", "connections", "closed so far"},
    {"broken", "connections", "lost, or closed after an error"},
    {"connect_failures", "attempts", "to connect that failed"},
    {"round_trips", "calls", "that waited for an answer of the database, connecting apart"},
    {"commits", "transactions", "committed, those of single statements included"},
    {"peak", "connections", "the most in use for this purpose at one moment"},
    {"count", "checkouts", "how often a connection began to serve this purpose"},
    {"seconds", "seconds", "that connections served this purpose, in total"},
    {"timeouts", "callers", "that gave up waiting for a connection"},
    {"p50", "milliseconds", "the median"},
    {"p95", "milliseconds", "95 of 100 are not longer"},
    {"p99", "milliseconds", "99 of 100 are not longer"},
    {"max", "milliseconds", "the longest"},
    {"workers", "threads", "that run handlers"},
    {"in_work", "rows", "claimed and not settled"},
    {"peak_in_work", "rows", "the most in work at one moment"},
    {"ready", "rows", "claimed, waiting for a worker"},
    {"keyless", "rows", "due, and never run because they render no advisory key, as last seen"},
    {"in_work_seconds", "seconds", "that rows were in work, summed over the rows"},
    {"held_per_delivery", "connections", "held for each delivery in work, on average, by the ledger"},
    {"model_exceeded", "times", "that more connections held rows than the cost model allows"},
};

const struct hf__stat_text *hf__stat_text(const char *name)
{
    static const struct hf__stat_text unknown = {"", "", ""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].name, name) == 0)
            return &texts[i];
    return &unknown;
}

static bool add(struct hf_stats *stats, char *path, const char *name, double value)
{
    if (stats->n == stats->capacity) {
        size_t capacity = stats->capacity ? 2 * stats->capacity : 256;
        struct entry *list = realloc(stats->list, capacity * sizeof *list);
        if (!list)
            return false;
        stats->list = list;
        stats->capacity = capacity;
    }
    const struct hf__stat_text *text = hf__stat_text(name);
    struct entry *entry = &stats->list[stats->n++];
    entry->path = path;
    entry->stat = (struct hf_stat){path, text->description, text->unit, value};
    return true;
}

static char *join(const char *path, const char *name)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", path, *path ? "." : "", name) < 0)
        return NULL;
    return joined;
}

static bool walk(struct hf_stats *stats, const char *path, const char *name, json_t *value);

static bool walk_object(struct hf_stats *stats, const char *path, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) if (!walk(stats, path, key, value)) return false;
    return true;
}

/* "subscriptions": [..] is found under "subscription.0". */
static bool walk_array(struct hf_stats *stats, const char *path, json_t *array)
{
    bool done = true;
    char *singular = strndup(path, strlen(path) - 1);
    for (size_t i = 0; singular && done && i < json_array_size(array); i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        done = walk(stats, singular, index, json_array_get(array, i));
    }
    free(singular);
    return singular && done;
}

static bool walk(struct hf_stats *stats, const char *path, const char *name, json_t *value)
{
    char *joined = join(path, name);
    if (!joined)
        return false;
    if (json_is_number(value)) {
        if (add(stats, joined, name, json_number_value(value)))
            return true;
        free(joined);
        return false;
    }
    bool done = json_is_object(value) ? walk_object(stats, joined, value) : json_is_array(value) ? walk_array(stats, joined, value) : true;
    free(joined);
    return done;
}

hf_status hf_stats_snapshot(hf_runtime *runtime, hf_stats **out, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status != HF_OK)
        return status;
    struct hf_stats *stats = calloc(1, sizeof *stats);
    json_t *tree = stats ? hf__stats_tree(runtime) : NULL;
    bool done = tree && walk_object(stats, "", tree);
    json_decref(tree);
    if (done) {
        *out = stats;
        return HF_OK;
    }
    hf_stats_free(stats);
    return hf__fail_memory(err);
}

size_t hf_stats_count(const hf_stats *stats)
{
    return stats ? stats->n : 0;
}

bool hf_stats_at(const hf_stats *stats, size_t i, hf_stat *out)
{
    if (i >= hf_stats_count(stats))
        return false;
    *out = stats->list[i].stat;
    return true;
}

bool hf_stats_find(const hf_stats *stats, const char *name, double *value)
{
    for (size_t i = 0; i < hf_stats_count(stats); i++)
        if (strcmp(stats->list[i].path, name) == 0) {
            *value = stats->list[i].stat.value;
            return true;
        }
    return false;
}

void hf_stats_free(hf_stats *stats)
{
    if (!stats)
        return;
    for (size_t i = 0; i < stats->n; i++)
        free(stats->list[i].path);
    free(stats->list);
    free(stats);
}
