#include "bench/collect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ledger_read.h"

#define MIDDLE_FROM 0.1 /* of a run that was over too soon for a steady part: before and after, workers come and go */
#define MIDDLE_TO 0.9
#define AGREES 0.05
enum { LEAST_LOOKS = 4 };    /* at the server, before it counts as asked: in fewer the connections may not have been there yet */
#define GRAIN_SECONDS 0.0001 /* of a delivery: what it costs to note that it begins, and that it ends, in two places */

void bench_collect_place(struct bench_result *out, enum bench_database database, const char *version)
{
    snprintf(out->database, sizeof out->database, "%s", bench_database_name(database));
    snprintf(out->server_version, sizeof out->server_version, "%s", version);
}

/* ---- jobs ---- */

static void count_jobs(const struct bench_tally *tally, size_t added, struct bench_result *out)
{
    out->jobs = added;
    out->done = atomic_load(&tally->done);
    out->failed = atomic_load(&tally->failed);
    out->errors = atomic_load(&tally->errors);
    out->duplicates = bench_tally_duplicates(tally);
    size_t known = out->done + out->left + bench_tally_unknown(tally);
    out->lost = added > known ? added - known : 0;
    if (out->done + out->left > added) /* acked, and still there */
        out->errors += out->done + out->left - added;
}

static void time_jobs(const struct bench_tally *tally, struct bench_result *out)
{
    int64_t begin_ns = INT64_MAX, end_ns = atomic_load(&tally->last_ns);
    for (size_t i = 0; i < tally->n_parts; i++) {
        const struct bench_part *part = &tally->parts[i];
        if (part->begin_ns > 0 && part->begin_ns < begin_ns)
            begin_ns = part->begin_ns;
        hf__histogram_merge(&out->start, &part->start);
        hf__histogram_merge(&out->latency, &part->latency);
        hf__histogram_merge(&out->delivery, &part->delivery);
    }
    out->seconds = end_ns > begin_ns ? (double)(end_ns - begin_ns) / 1e9 : 0;
    out->jobs_per_second = out->seconds > 0 ? (double)out->done / out->seconds : 0;
}

/* ---- connections ---- */

static struct bench_purpose *purpose_of(struct bench_result *out, const char *name)
{
    for (size_t i = 0; i < out->n_purposes; i++)
        if (strcmp(out->purposes[i].name, name) == 0)
            return &out->purposes[i];
    struct bench_purpose *purpose = &out->purposes[out->n_purposes++];
    snprintf(purpose->name, sizeof purpose->name, "%s", name);
    return purpose;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct sums {
    double handled_seconds, held_seconds, in_work_seconds, all_seconds, round_trips, commits, exceeded;
    size_t held_peak;
};

static void add_part(struct bench_result *out, const struct bench_part *part, struct sums *sums)
{
    size_t held_peak = 0;
    for (size_t i = 0; i < part->n_purposes; i++) {
        const struct bench_part_purpose *from = &part->purposes[i];
        struct bench_purpose *into = purpose_of(out, from->name);
        into->peak = larger(into->peak, from->peak);
        into->count += from->count;
        into->seconds += from->seconds;
        sums->all_seconds += from->seconds;
        sums->held_seconds += bench_purpose_holds(from->name) ? from->seconds : 0;
        held_peak += bench_purpose_holds(from->name) ? from->peak : 0;
        if (bench_purpose_is_asked_for(from->name))
            out->connection_wait_p99_ms = fmax(out->connection_wait_p99_ms, from->wait_p99_ms);
    }
    out->pool_size = larger(out->pool_size, part->pool_size);
    out->peak_open = larger(out->peak_open, part->peak_open);
    out->peak_in_use = larger(out->peak_in_use, part->peak_in_use);
    sums->handled_seconds += part->handled_seconds;
    sums->in_work_seconds += part->in_work_seconds;
    sums->round_trips += part->round_trips;
    sums->commits += part->commits;
    sums->exceeded += part->model_exceeded;
    sums->held_peak = larger(sums->held_peak, held_peak);
}

/* Workers of a process that fit its pool. */
static double at_once(const struct bench_tally *tally)
{
    size_t workers = tally->parts[0].cost.workers;
    return workers > 0 ? (double)workers : 1;
}

static void count_connections(const struct bench_tally *tally, struct bench_result *out, struct sums *sums)
{
    for (size_t i = 0; i < tally->n_parts; i++)
        add_part(out, &tally->parts[i], sums);
    double jobs = out->done > 0 ? (double)out->done : 1;
    out->held_per_delivery = sums->in_work_seconds > 0 ? sums->held_seconds / sums->in_work_seconds : 0;
    out->seconds_per_job = sums->all_seconds / jobs;
    out->round_trips_per_job = sums->round_trips / jobs;
    out->commits_per_job = sums->commits / jobs;
    double seconds = out->seconds * (double)tally->n_parts;
    out->held_mean = seconds > 0 ? sums->held_seconds / seconds : 0;
    out->worker_utilisation = seconds > 0 ? sums->handled_seconds / seconds / at_once(tally) : 0;
}

static int64_t sample_ns(const struct bench_part *part, const struct bench_sample *sample)
{
    return part->begin_ns + (int64_t)(sample->seconds * 1e9);
}

static bool is_between(const struct bench_part *part, const struct bench_sample *sample, int64_t from_ns, int64_t to_ns)
{
    int64_t at_ns = sample_ns(part, sample);
    return at_ns >= from_ns && at_ns <= to_ns;
}

static bool is_steady(const struct bench_part *part)
{
    const struct bench_moment *from = &part->steady_from, *to = &part->steady_to;
    return from->at_ns > 0 && to->at_ns > from->at_ns && to->done > from->done;
}

/* Of the first process: the others do the same. */
static void measure_steady(const struct bench_tally *tally, struct bench_result *out)
{
    const struct bench_moment *from = &tally->parts[0].steady_from, *to = &tally->parts[0].steady_to;
    out->steady = (struct bench_steady){out->jobs_per_second, out->held_mean, out->worker_utilisation};
    if (!is_steady(tally->parts))
        return;
    double jobs = (double)(to->done - from->done), seconds = (double)(to->at_ns - from->at_ns) / 1e9;
    out->steady.jobs_per_second = jobs / seconds;
    out->steady.held_mean = (to->held_seconds - from->held_seconds) / seconds;
    out->steady.worker_utilisation = (to->handled_seconds - from->handled_seconds) / seconds / at_once(tally);
}

/* ---- the series ---- */

static int by_size(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static size_t held_p99(const struct bench_part *part, double seconds)
{
    bool steady = is_steady(part);
    int64_t from_ns = steady ? part->steady_from.at_ns : part->begin_ns + (int64_t)(MIDDLE_FROM * seconds * 1e9);
    int64_t to_ns = steady ? part->steady_to.at_ns : part->begin_ns + (int64_t)(MIDDLE_TO * seconds * 1e9);
    unsigned *held = calloc(part->n_samples + 1, sizeof *held);
    size_t n = 0;
    for (size_t i = 0; held && i < part->n_samples; i++)
        if (is_between(part, &part->samples[i], from_ns, to_ns))
            held[n++] = part->samples[i].held;
    size_t p99 = 0;
    if (n > 0) {
        qsort(held, n, sizeof *held, by_size);
        p99 = held[(size_t)ceil(0.99 * (double)n) - 1];
    }
    free(held);
    return p99;
}

/* Of the first process: the others do the same. */
static void take_series(const struct bench_tally *tally, struct bench_result *out)
{
    const struct bench_part *part = tally->parts;
    struct bench_series *series = &out->series;
    series->n_names = bench_ledger_purposes(series->names);
    series->samples = calloc(part->n_samples + 1, sizeof *series->samples);
    if (!series->samples)
        return;
    series->n = series->capacity = part->n_samples;
    memcpy(series->samples, part->samples, part->n_samples * sizeof *series->samples);
    out->held_p99 = held_p99(part, out->seconds);
}

/* ---- the cost model ---- */

/* Handlers that do nothing leave so little time to compare that the grain decides. The model's word is for a batch, of which each row
 * holds a part: there it is a bound. */
static bool agrees(const struct bench_result *out, const struct sums *sums)
{
    double over_seconds = sums->held_seconds - out->model_held_per_delivery * sums->in_work_seconds;
    double allowed =
        AGREES * sums->in_work_seconds * fmax(1, out->model_held_per_delivery) + GRAIN_SECONDS * (double)(out->done + out->failed);
    return over_seconds <= allowed && (out->batch > 1 || over_seconds >= -allowed);
}

/* Where nothing is held, and no one claims for the others, each worker claims and settles by itself, spare connections included. */
static size_t model_peak(const hf_cost *cost, size_t held, size_t workers)
{
    bool each_claims = cost->held == 0 && cost->renew == 0;
    return each_claims ? workers : held + cost->claim + cost->settle + cost->renew + cost->listen + cost->handler;
}

static void hold_against_model(const struct bench_tally *tally, const struct sums *sums, struct bench_result *out)
{
    const hf_cost *cost = &tally->parts[0].cost;
    size_t held = cost->workers < out->workers ? (size_t)ceil((double)cost->workers * cost->held_per_delivery) : cost->held;
    size_t peak = model_peak(cost, held, out->workers);
    out->model_pool_size = cost->pool_size;
    out->model_held_per_delivery = cost->held_per_delivery;
    out->model_peak_in_use = peak < out->pool_size || out->pool_size == 0 ? peak : out->pool_size;
    bool within = sums->exceeded == 0 && sums->held_peak <= held && out->peak_in_use <= out->model_peak_in_use + cost->spare;
    out->model_holds = out->done > 0 && within && agrees(out, sums);
}

void bench_collect(const struct bench_options *options, const struct bench_tally *tally, size_t added, struct bench_result *out)
{
    struct sums sums = {0};
    out->strategy = options->strategy;
    out->workers = options->workers;
    out->batch = options->batch > 1 ? options->batch : 1;
    out->processes = tally->n_parts;
    out->handler = strdup(options->handler.text ? options->handler.text : "0");
    out->handler_ms = bench_distribution_mean(&options->handler);
    out->crash_ms = -1;
    count_jobs(tally, added, out);
    time_jobs(tally, out);
    count_connections(tally, out, &sums);
    measure_steady(tally, out);
    take_series(tally, out);
    hold_against_model(tally, &sums, out);
}

void bench_collect_server(struct bench_result *out, const struct bench_tally *tally, bool sampled, size_t peak,
                          const struct bench_seen *seen, size_t n_seen)
{
    size_t next = 0;
    unsigned last = 0;
    out->server_sampled = sampled && n_seen >= LEAST_LOOKS;
    out->server_peak = out->server_sampled ? peak : out->peak_open * tally->n_parts;
    for (size_t i = 0; i < out->series.n; i++) {
        struct bench_sample *sample = &out->series.samples[i];
        int64_t at_ns = sample_ns(tally->parts, sample);
        while (next < n_seen && seen[next].at_ns <= at_ns)
            last = seen[next++].sessions;
        sample->server = last;
    }
}

/* ---- the hand-written loop ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sort_for_median(double values[], size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double median(const double values[], size_t n)
{
    double sorted[BENCH_RAW_ROUNDS];
    memcpy(sorted, values, n * sizeof *values);
    return sort_for_median(sorted, n);
}

void bench_collect_raw(struct bench_raw *raw)
{
    double ratios[BENCH_RAW_ROUNDS];
    if (raw->rounds == 0)
        return;
    for (size_t i = 0; i < raw->rounds; i++)
        ratios[i] = raw->theirs[i] > 0 ? raw->ours[i] / raw->theirs[i] : 0;
    raw->jobs_per_second = median(raw->theirs, raw->rounds);
    raw->ours_per_second = median(raw->ours, raw->rounds);
    raw->ratio = sort_for_median(ratios, raw->rounds);
    raw->spread = (ratios[raw->rounds - 1] - ratios[0]) / 2;
    raw->indistinguishable = ratios[0] <= 1 && ratios[raw->rounds - 1] >= 1;
}
