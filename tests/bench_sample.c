/* A comparison made up for the suites of the bench. */
#include "tests/bench_sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

enum { WORKERS = 8, SAMPLES = 400 };

static const char *const names[] = {"claim", "row_lock", "advisory_lock", "settle", "renew"};
enum { CLAIM, ROW_LOCK, ADVISORY_LOCK, SETTLE, RENEW };

static char *copy(const char *text)
{
    char *copied = strdup(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copied);
    return copied;
}

static void add_samples(struct bench_result *result)
{
    struct bench_series *series = &result->series;
    series->n_names = sizeof names / sizeof names[0];
    memcpy(series->names, names, sizeof names);
    series->samples = calloc(SAMPLES, sizeof *series->samples);
    CU_ASSERT_PTR_NOT_NULL_FATAL(series->samples);
    series->n = series->capacity = SAMPLES;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct bench_sample *sample = &series->samples[i];
        sample->seconds = result->seconds * (double)i / SAMPLES;
        sample->server = (unsigned)result->pool_size;
        if (result->strategy == HF_LEASE) {
            sample->in_use[CLAIM] = i % 3 == 0;
            sample->in_use[SETTLE] = i % 2 == 0;
            sample->in_use[RENEW] = i % 40 == 0;
        } else {
            unsigned busy = i < 20 ? (unsigned)(i / 3) : WORKERS - (unsigned)(i % 3);
            sample->in_use[result->strategy == HF_ROW_LOCK ? ROW_LOCK : ADVISORY_LOCK] = busy;
            sample->in_use[CLAIM] = WORKERS - busy;
            sample->held = busy;
        }
    }
}

static void add_purposes(struct bench_result *result)
{
    const double held = result->held_per_delivery * 0.0213 * (double)result->done;
    result->n_purposes = sizeof names / sizeof names[0];
    for (size_t i = 0; i < result->n_purposes; i++) {
        snprintf(result->purposes[i].name, sizeof result->purposes[i].name, "%s", names[i]);
    }
    result->purposes[CLAIM].seconds = 0.0009 * (double)result->done;
    result->purposes[SETTLE].seconds = result->strategy == HF_LEASE ? 0.0006 * (double)result->done : 0;
    result->purposes[RENEW].seconds = result->strategy == HF_LEASE ? 0.00001 * (double)result->done : 0;
    result->purposes[ROW_LOCK].seconds = result->strategy == HF_ROW_LOCK ? held : 0;
    result->purposes[ADVISORY_LOCK].seconds = result->strategy == HF_ADVISORY_LOCK ? held : 0;
    for (size_t i = 0; i < result->n_purposes; i++) {
        result->seconds_per_job += result->purposes[i].seconds / (double)result->done;
    }
}

static void add_times(struct bench_result *result)
{
    for (int64_t i = 0; i < 1000; i++) {
        hf__histogram_record(&result->delivery, 20000 + i * i / 300);
        hf__histogram_record(&result->latency, 100000 + i * 1000);
    }
}

static void fill(struct bench_compared *compared, hf_strategy strategy, double jobs_per_second)
{
    struct bench_result *result = &compared->result;
    bool lease = strategy == HF_LEASE;
    snprintf(result->database, sizeof result->database, "PostgreSQL");
    snprintf(result->server_version, sizeof result->server_version, "15.14");
    result->strategy = strategy;
    result->handler = copy("exp:20");
    result->handler_ms = 20;
    result->workers = WORKERS;
    result->jobs = result->done = 4000;
    result->batch = result->processes = 1;
    result->jobs_per_second = jobs_per_second;
    result->seconds = (double)result->done / jobs_per_second;
    result->pool_size = lease ? 4 : WORKERS + 1;
    result->peak_in_use = result->peak_open = result->server_peak = lease ? 3 : WORKERS;
    result->server_sampled = true;
    result->held_per_delivery = lease ? 0 : 1;
    result->round_trips_per_job = lease ? 1.31 : strategy == HF_ROW_LOCK ? 4.01 : 5.02;
    result->commits_per_job = lease ? 0.42 : 1;
    result->crash_ms = lease ? 30041 : strategy == HF_ROW_LOCK ? 47.2 : 61.8;
    add_purposes(result);
    add_samples(result);
    add_times(result);
}

static void scan(struct bench_compared *compared, double rate)
{
    static const double handlers[] = {2, 10, 20, 40, 60};
    bool lease = compared->result.strategy == HF_LEASE;
    for (size_t i = 0; i < 5; i++) {
        double pool = exp2((double)i), most = lease ? 3 : WORKERS;
        compared->by_pool[compared->n_by_pool++] = (struct bench_xy){pool, compared->result.jobs_per_second * fmin(1, pool / most)};
        double held = lease ? 0 : fmin(WORKERS, rate * (handlers[i] + 1.7) / 1000);
        compared->held[compared->n_held++] = (struct bench_xy){handlers[i], held * (i % 2 == 0 ? 1.02 : 0.985)};
    }
    for (size_t i = 0; i < BENCH_LINE; i++) {
        double ms = 1.5 * (double)i;
        compared->held_model[compared->n_held_model++] = (struct bench_xy){ms, lease ? 0 : fmin(WORKERS, rate * (ms + 1.6) / 1000)};
    }
}

void hf_test_comparison(struct bench_comparison *out)
{
    *out = (struct bench_comparison){.n = 3, .scan_rate = 180, .lease_seconds = 30, .seconds = 108.4};
    fill(&out->of[0], HF_ROW_LOCK, 361.7);
    fill(&out->of[1], HF_LEASE, 381.2);
    fill(&out->of[2], HF_ADVISORY_LOCK, 352.9);
    for (size_t i = 0; i < out->n; i++) {
        scan(&out->of[i], out->scan_rate);
    }
    out->command_line = copy("holdfast-bench compare --db postgresql://app:***@db.example/jobs --workers 8 --html report.html");
    out->machine = copy("2 cores, 4 GB, Linux 6.1.0");
    out->date = copy("2031-05-04 12:30 UTC");
}

void hf_test_comparison_free(struct bench_comparison *comparison)
{
    for (size_t i = 0; i < BENCH_STRATEGIES; i++) {
        free(comparison->of[i].result.handler);
        free(comparison->of[i].result.series.samples);
    }
    free(comparison->command_line);
    free(comparison->machine);
    free(comparison->date);
}

char *hf_test_page_of(bool (*write)(FILE *out, const struct bench_comparison *comparison), const struct bench_comparison *comparison)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_TRUE(write(out, comparison));
    CU_ASSERT_EQUAL_FATAL(fclose(out), 0);
    return text;
}
