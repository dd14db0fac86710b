#include "bench/ledger_read.h"

#include <stdio.h>
#include <string.h>

#include "pool/error.h"

#define PREFIX "pool.purposes."

/* In the order of the plots: what holds rows comes first. */
static const char *const known[] = {"row_lock", "advisory_lock", "claim", "settle", "renew", "listen", "handler", "enqueue", "admin"};
enum { KNOWN = sizeof known / sizeof *known };

size_t bench_ledger_purposes(const char *names[BENCH_SERIES_PURPOSES])
{
    memcpy(names, known, sizeof known);
    return KNOWN;
}

bool bench_purpose_holds(const char *name)
{
    return strcmp(name, "row_lock") == 0 || strcmp(name, "advisory_lock") == 0;
}

bool bench_purpose_is_asked_for(const char *name)
{
    return strcmp(name, "claim") == 0 || strcmp(name, "settle") == 0;
}

size_t bench_samples_halve(struct bench_sample *samples, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        struct bench_sample one = samples[2 * i + 1];
        for (size_t k = 0; k < KNOWN; k++)
            one.in_use[k] = (samples[2 * i].in_use[k] + one.in_use[k]) / 2;
        samples[i] = one;
    }
    return n / 2;
}

/* The purpose of "pool.purposes.PURPOSE.FIGURE", and the figure. */
static const char *split(const char *path, char purpose[BENCH_PURPOSE_NAME])
{
    if (strncmp(path, PREFIX, sizeof PREFIX - 1) != 0)
        return NULL;
    const char *name = path + sizeof PREFIX - 1, *dot = strchr(name, '.');
    if (!dot || dot - name >= BENCH_PURPOSE_NAME)
        return NULL;
    snprintf(purpose, BENCH_PURPOSE_NAME, "%.*s", (int)(dot - name), name);
    return dot + 1;
}

static double number(const hf_stats *stats, const char *name)
{
    double value = 0;
    return hf_stats_find(stats, name, &value) ? value : 0;
}

static void add_seconds(const char *purpose, double value, struct bench_moment *now)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(purpose, known[i]) == 0)
            now->seconds[i] = value;
    now->held_seconds += bench_purpose_holds(purpose) ? value : 0;
}

bool bench_ledger_sample(hf_runtime *runtime, unsigned *held, struct bench_moment *now)
{
    char purpose[BENCH_PURPOSE_NAME];
    hf_stats *stats = NULL;
    hf_stat stat;
    if (hf_stats_snapshot(runtime, &stats, NULL) != HF_OK)
        return false;
    for (size_t i = 0; hf_stats_at(stats, i, &stat); i++) {
        const char *figure = split(stat.name, purpose);
        if (figure && strcmp(figure, "in_use") == 0)
            *held += bench_purpose_holds(purpose) ? (unsigned)stat.value : 0;
        else if (figure && strcmp(figure, "seconds") == 0)
            add_seconds(purpose, stat.value, now);
    }
    now->open = (size_t)number(stats, "pool.peak_open");
    hf_stats_free(stats);
    return true;
}

static struct bench_part_purpose *purpose_of(struct bench_part *part, const char *name)
{
    for (size_t i = 0; i < part->n_purposes; i++)
        if (strcmp(part->purposes[i].name, name) == 0)
            return &part->purposes[i];
    if (part->n_purposes == BENCH_PURPOSES)
        return NULL;
    struct bench_part_purpose *purpose = &part->purposes[part->n_purposes++];
    *purpose = (struct bench_part_purpose){.count = 0};
    snprintf(purpose->name, sizeof purpose->name, "%s", name);
    return purpose;
}

static void read_figure(const hf_stat *stat, struct bench_part *out)
{
    char name[BENCH_PURPOSE_NAME];
    const char *figure = split(stat->name, name);
    struct bench_part_purpose *purpose = figure ? purpose_of(out, name) : NULL;
    if (!purpose)
        return;
    if (strcmp(figure, "peak") == 0)
        purpose->peak = (size_t)stat->value;
    else if (strcmp(figure, "count") == 0)
        purpose->count = stat->value;
    else if (strcmp(figure, "seconds") == 0)
        purpose->seconds = stat->value;
    else if (strcmp(figure, "wait_ms.p99") == 0)
        purpose->wait_p99_ms = stat->value;
}

hf_status bench_ledger_read(hf_runtime *runtime, struct bench_part *out, hf_error *err)
{
    hf_stats *stats = NULL;
    hf_stat stat;
    hf_status status = hf_stats_snapshot(runtime, &stats, err);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; hf_stats_at(stats, i, &stat); i++)
        read_figure(&stat, out);
    out->pool_size = (size_t)number(stats, "pool.size");
    out->peak_open = (size_t)number(stats, "pool.peak_open");
    out->peak_in_use = (size_t)number(stats, "pool.peak_in_use");
    out->round_trips = number(stats, "pool.round_trips");
    out->commits = number(stats, "pool.commits");
    out->in_work_seconds = number(stats, "subscription.0.in_work_seconds");
    out->model_exceeded = number(stats, "model_exceeded");
    hf_stats_free(stats);
    return HF_OK;
}

void bench_ledger_subtract(struct bench_part *part, const struct bench_part *before)
{
    part->round_trips -= before->round_trips;
    part->commits -= before->commits;
    part->in_work_seconds -= before->in_work_seconds;
    for (size_t i = 0; i < part->n_purposes && i < before->n_purposes; i++) {
        part->purposes[i].count -= before->purposes[i].count;
        part->purposes[i].seconds -= before->purposes[i].seconds;
    }
}
