/* ctest: timeout=240 labels=e2e
 * A run of holdfast-bench: everything is done once, the accounting adds up, what the server saw is what the ledger says, and nothing is
 * left behind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_table.h"
#include "bench/collect.h"
#include "bench/compare.h"
#include "bench/ledger_read.h"
#include "bench/offered.h"
#include "bench/run.h"
#include "tests/bench_tables.h"

enum { WORKERS = 4, AT_ONCE = 2 };

static struct bench_options options_of(const char *url, hf_strategy strategy, const char *handler)
{
    struct bench_options options = {.url = url, .has_strategy = true, .strategy = strategy, .workers = WORKERS, .jobs = 200, .batch = 1};
    char *why = NULL;
    options.processes = 1;
    options.lease_seconds = 30;
    CU_ASSERT_TRUE_FATAL(bench_distribution_parse(handler, &options.handler, &why));
    return options;
}

static struct bench_result run(struct bench_options *options)
{
    struct bench_result result;
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(bench_run(options, &result, &err), &err);
    bench_distribution_free(&options->handler);
    CU_ASSERT(bench_result_right(&result));
    CU_ASSERT_EQUAL(result.jobs, options->jobs);
    CU_ASSERT_EQUAL(result.done, options->jobs);
    CU_ASSERT_EQUAL(result.left, 0);
    CU_ASSERT_EQUAL(result.latency.count, result.done);
    CU_ASSERT_EQUAL(result.delivery.count, result.done);
    CU_ASSERT_DOUBLE_EQUAL(result.jobs_per_second, (double)result.done / result.seconds, 1e-6 * result.jobs_per_second);
    CU_ASSERT_EQUAL(hf_test_bench_tables(options->url, getpid()), 0);
    return result;
}

static bool holds(const struct bench_result *result)
{
    return result->strategy != HF_LEASE && strcmp(result->database, "SQLite") != 0;
}

/* Connection seconds: samples are means since the one before. */
static double area_of(const struct bench_series *series)
{
    double area = 0, before = 0;
    for (size_t i = 0; i < series->n; i++) {
        for (size_t k = 0; k < series->n_names; k++)
            area += series->samples[i].in_use[k] * (series->samples[i].seconds - before);
        before = series->samples[i].seconds;
    }
    return area;
}

static void check_connections(const struct bench_result *result)
{
    if (!result->model_holds)
        hf_test_fail("%s %s: the model does not hold: %g held by a delivery, %zu in use at most, of %zu", result->database,
                     hf_strategy_name(result->strategy), result->held_per_delivery, result->peak_in_use, result->model_peak_in_use);
    CU_ASSERT_DOUBLE_EQUAL(result->held_per_delivery, holds(result) ? 1 : 0, 0.1);
    /* Four workers at most, each 20 ms in the handler for a job. */
    double least = 0.020 * (double)result->done / result->seconds;
    CU_ASSERT(holds(result) ? result->held_mean > 0.95 * least && result->held_mean <= 4.01 : result->held_mean < 0.001);
    CU_ASSERT(holds(result) ? result->held_p99 > 0 && result->held_p99 <= 4 : result->held_p99 == 0);
    CU_ASSERT(result->series.n > 10);
    CU_ASSERT_DOUBLE_EQUAL(result->steady.worker_utilisation, 0.020 * result->steady.jobs_per_second / WORKERS, 0.1);
    CU_ASSERT(result->round_trips_per_job > 0);
    double all_seconds = 0, row_lock_seconds = 0;
    for (size_t i = 0; i < result->n_purposes; i++) {
        all_seconds += result->purposes[i].seconds;
        row_lock_seconds += strcmp(result->purposes[i].name, "row_lock") == 0 ? result->purposes[i].seconds : 0;
    }
    CU_ASSERT_DOUBLE_EQUAL(result->seconds_per_job, all_seconds / (double)result->done, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(area_of(&result->series), all_seconds, 0.2 * all_seconds);
    if (result->strategy == HF_ROW_LOCK) { /* one transaction for each delivery, open for as long as its handler runs */
        CU_ASSERT(row_lock_seconds >= 0.020 * (double)result->done);
        CU_ASSERT(result->commits_per_job >= 1 && result->commits_per_job < 1.2);
    }
    CU_ASSERT_EQUAL(result->server_sampled, strcmp(result->database, "SQLite") != 0);
    if (result->server_sampled)
        CU_ASSERT_EQUAL(result->server_peak, result->peak_open);
}

static void strategies(enum hf__database database)
{
    hf_strategy offered[3];
    const char *url = hf_test_url(database);
    size_t n = bench_strategies(url, offered);
    CU_ASSERT_EQUAL(n, database == HF__SQLITE ? 2 : 3);
    for (size_t i = 0; i < n; i++) {
        struct bench_options options = options_of(url, offered[i], "20");
        struct bench_result result = run(&options);
        check_connections(&result);
        CU_ASSERT(hf__histogram_quantile(&result.delivery, 0.01) >= 20000);
        bench_result_free(&result);
    }
}

static void on_postgres(void)
{
    strategies(HF__POSTGRES);
}

static void on_mysql(void)
{
    strategies(HF__MYSQL);
}

static void on_sqlite(void)
{
    strategies(HF__SQLITE);
}

static void failures_and_batches(void)
{
    struct bench_options options = options_of(hf_test_postgres_url(), HF_ROW_LOCK, "exp:1");
    options.fail = 0.3;
    options.batch = 8;
    struct bench_result result = run(&options);
    CU_ASSERT(result.failed > 40 && result.failed < 160);
    CU_ASSERT_EQUAL(result.duplicates, 0);
    CU_ASSERT(result.held_per_delivery < 1);
    CU_ASSERT(result.model_holds);
    bench_result_free(&result);
}

/* The rows of a batch are decided at once and settled one after the other: each is in work, and has its connection, until its turn. */
static void batches_of_keys(void)
{
    const char *urls[] = {hf_test_postgres_url(), hf_test_mysql_url()};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct bench_options options = options_of(urls[i], HF_ADVISORY_LOCK, "1");
        options.workers = 2;
        options.batch = 4;
        struct bench_result result = run(&options);
        CU_ASSERT_DOUBLE_EQUAL(result.held_per_delivery, 1, 0.02);
        CU_ASSERT(result.model_holds);
        bench_result_free(&result);
    }
}

/* The schedule waits for nobody: one worker of 20 ms at 100 jobs a second falls behind, and that shows in the latency. */
static void arrivals(void)
{
    struct bench_options options = options_of(hf_test_postgres_url(), HF_LEASE, "20");
    options.jobs = 60;
    options.rate = 100;
    options.workers = 1;
    struct bench_result late = run(&options);
    CU_ASSERT(hf__histogram_quantile(&late.latency, 0.95) > 300000);
    int64_t late_p50 = hf__histogram_quantile(&late.latency, 0.5);
    bench_result_free(&late);
    options = options_of(hf_test_postgres_url(), HF_LEASE, "1");
    options.jobs = 60;
    options.rate = 100;
    struct bench_result swift = run(&options);
    CU_ASSERT(hf__histogram_quantile(&swift.latency, 0.5) < late_p50);
    CU_ASSERT(swift.seconds > 0.3);
    bench_result_free(&swift);
}

static void processes(void)
{
    struct bench_options options = options_of(hf_test_postgres_url(), HF_ROW_LOCK, "40");
    options.processes = 3;
    struct bench_result result = run(&options);
    CU_ASSERT_EQUAL(result.processes, 3);
    CU_ASSERT(result.peak_open <= 5);
    CU_ASSERT(result.server_peak > result.peak_open && result.server_peak <= 15);
    bench_result_free(&result);
}

static void same_jobs_each_time(void)
{
    struct bench_options options = options_of("sqlite:none", HF_LEASE, "exp:5");
    struct bench_workload a, b;
    char text[BENCH_PAYLOAD];
    struct bench_job job;
    size_t seq;
    options.fail = 0.2;
    options.rate = 50;
    HF_TEST_OK(bench_workload_make(&options, &a, NULL), NULL);
    HF_TEST_OK(bench_workload_make(&options, &b, NULL), NULL);
    CU_ASSERT_EQUAL_FATAL(a.n, b.n);
    CU_ASSERT_EQUAL(memcmp(a.jobs, b.jobs, a.n * sizeof *a.jobs), 0);
    CU_ASSERT_DOUBLE_EQUAL((double)a.jobs[a.n - 1].due_ns / 1e9, (double)a.n / 50, 1);
    CU_ASSERT(bench_payload_write(&a, 7, 1000, text) == strlen(text));
    CU_ASSERT(bench_payload_read(text, &seq, &job) && seq == 7 && job.due_ns == a.jobs[7].due_ns + 1000);
    CU_ASSERT(job.handler_ns == a.jobs[7].handler_ns && job.fail == a.jobs[7].fail);
    CU_ASSERT_FALSE(bench_payload_read("x", &seq, &job));
    bench_workload_free(&a);
    bench_workload_free(&b);
    bench_distribution_free(&options.handler);
}

/* A table of the name that we would take, with somebody's row in it. */
static void refuses_a_table(const char *url)
{
    struct bench_options options = options_of(url, HF_LEASE, "0");
    const char *name = hf_test_scratch("bench_refused");
    hf_runtime *runtime = NULL;
    hf_table *table = NULL;
    hf_error err = {.status = HF_OK};
    hf_test_sql(url, hf_test_format("CREATE TABLE %s (id INTEGER)", name));
    hf_test_sql(url, hf_test_format("INSERT INTO %s VALUES (1)", name));
    HF_TEST_OK(hf_runtime_open(url, NULL, &runtime, &err), &err);
    HF_TEST_OK(bench_table_describe(&options, name, &table, &err), &err);
    HF_TEST_STATUS(bench_table_make(runtime, table, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, name));
    hf_runtime_close(runtime);
    hf_table_free(table);
    CU_ASSERT_EQUAL(hf_test_query_int(url, hf_test_format("SELECT count(*) FROM %s", name)), 1);
    hf_test_sql(url, hf_test_format("DROP TABLE %s", name));
    bench_distribution_free(&options.handler);
}

static void refused(void)
{
    refuses_a_table(hf_test_postgres_url());
    refuses_a_table(hf_test_mysql_url());
    refuses_a_table(hf_test_sqlite_url());
}

/* What was done, failed, was lost, ran twice and is left, of what was told to the tally. */
static void accounting(void)
{
    struct bench_options options = options_of("sqlite:none", HF_LEASE, "0");
    struct bench_result result = {.left = 2};
    struct bench_tally *tally = NULL;
    HF_TEST_OK(bench_tally_make(8, 1, &tally, NULL), NULL);
    for (size_t seq = 0; seq < 6; seq++)
        bench_tally_begun(tally, seq, 1);
    bench_tally_settled(tally, 0, HF_ACK, HF_OK); /* done */
    bench_tally_settled(tally, 1, HF_RETRY, HF_OK);
    bench_tally_begun(tally, 1, 1);
    bench_tally_settled(tally, 1, HF_ACK, HF_OK); /* failed once, done */
    bench_tally_begun(tally, 2, 1);
    bench_tally_settled(tally, 2, HF_ACK, HF_OK); /* run twice */
    bench_tally_settled(tally, 3, HF_ACK, HF_OK);
    bench_tally_settled(tally, 3, HF_ACK, HF_OK);         /* acked twice */
    bench_tally_settled(tally, 4, HF_ACK, HF_UNKNOWN);    /* gone, but perhaps done */
    bench_tally_settled(tally, 5, HF_ACK, HF_LEASE_LOST); /* gone: lost */
    bench_collect(&options, tally, 8, &result);
    CU_ASSERT_EQUAL(result.done, 4);
    CU_ASSERT_EQUAL(result.duplicates, 2);
    CU_ASSERT_EQUAL(result.errors, 2);
    CU_ASSERT_EQUAL(result.lost, 1);
    CU_ASSERT_EQUAL(result.left, 2);
    CU_ASSERT_FALSE(bench_result_right(&result));
    bench_tally_free(tally);
    bench_result_free(&result);
    bench_distribution_free(&options.handler);
}

/* Eight jobs, all done, of so many processes. */
static struct bench_tally *eight_done(size_t n_parts)
{
    struct bench_tally *tally = NULL;
    HF_TEST_OK(bench_tally_make(8, n_parts, &tally, NULL), NULL);
    for (size_t seq = 0; seq < 8; seq++) {
        bench_tally_begun(tally, seq, 1);
        bench_tally_settled(tally, seq, HF_ACK, HF_OK);
    }
    return tally;
}

static struct bench_part_purpose purpose(const char *name, size_t peak, double count, double seconds, double wait_p99_ms)
{
    struct bench_part_purpose its = {.peak = peak, .count = count, .seconds = seconds, .wait_p99_ms = wait_p99_ms};
    snprintf(its.name, sizeof its.name, "%s", name);
    return its;
}

/* Of two processes: what is counted is added, a peak is the larger one's. */
static void ledgers(void)
{
    struct bench_options options = options_of("sqlite:none", HF_ROW_LOCK, "0");
    struct bench_result result = {.left = 0};
    struct bench_tally *tally = eight_done(2);
    for (size_t i = 0; i < 2; i++) {
        struct bench_part *part = &tally->parts[i];
        part->begin_ns = INT64_C(1000000000);
        part->n_purposes = 4;
        part->purposes[0] = purpose("claim", 1 + i, 4, 0.25, 3);
        part->purposes[1] = purpose("row_lock", 2 - i, 0, 0.5, 0);
        part->purposes[2] = purpose("settle", 1, 4, 0.25, 2 + 3 * (double)i);
        part->purposes[3] = purpose("admin", 1, 1, 1, 50); /* what it waited for was to be opened */
        part->round_trips = 12;
        part->commits = 6;
        part->in_work_seconds = 0.5;
    }
    atomic_store(&tally->last_ns, INT64_C(3000000000));
    bench_collect(&options, tally, 8, &result);
    CU_ASSERT_EQUAL_FATAL(result.n_purposes, 4);
    CU_ASSERT_EQUAL(result.purposes[0].peak, 2);
    CU_ASSERT_EQUAL(result.purposes[0].count, 8);
    CU_ASSERT_EQUAL(result.purposes[0].seconds, 0.5);
    CU_ASSERT_EQUAL(result.purposes[1].peak, 2);
    CU_ASSERT_EQUAL(result.purposes[1].seconds, 1);
    CU_ASSERT_EQUAL(result.connection_wait_p99_ms, 5);
    CU_ASSERT_EQUAL(result.seconds_per_job, 4 / 8.0);
    CU_ASSERT_EQUAL(result.round_trips_per_job, 3);
    CU_ASSERT_EQUAL(result.commits_per_job, 1.5);
    CU_ASSERT_EQUAL(result.held_per_delivery, 1);
    CU_ASSERT_EQUAL(result.held_mean, 0.25); /* one process, in two seconds */
    json_t *json = bench_result_json(&result), *connections = json_object_get(json, "connections");
    const json_t *settle = json_object_get(json_object_get(connections, "by_purpose"), "settle");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(settle, "count")), 8);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(settle, "seconds")), 0.5);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(connections, "wait_p99_ms")), 5);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(connections, "jobs_per_second_per_connection")), 2);
    json_decref(json);
    bench_tally_free(tally);
    bench_result_free(&result);
    bench_distribution_free(&options.handler);
}

/* Eight jobs in four seconds, for which connections were held for one. */
static void check_steady(struct bench_moment from, struct bench_moment to, struct bench_steady expected, size_t held_p99)
{
    struct bench_options options = options_of("sqlite:none", HF_LEASE, "0");
    struct bench_result result = {.left = 0};
    struct bench_tally *tally = eight_done(1);
    tally->parts[0].begin_ns = INT64_C(1000000000);
    tally->parts[0].steady_from = from;
    tally->parts[0].steady_to = to;
    tally->parts[0].n_samples = 4; /* two of them in the steady part */
    static const unsigned held[] = {0, 4, 0, 7};
    for (size_t i = 0; i < 4; i++)
        tally->parts[0].samples[i] = (struct bench_sample){.seconds = 0.5 + (double)i, .held = held[i]};
    tally->parts[0].n_purposes = 1;
    tally->parts[0].purposes[0] = (struct bench_part_purpose){.name = "row_lock", .seconds = 1};
    tally->parts[0].handled_seconds = 2;
    tally->parts[0].cost.workers = AT_ONCE;
    atomic_store(&tally->last_ns, INT64_C(5000000000));
    bench_collect(&options, tally, 8, &result);
    CU_ASSERT_DOUBLE_EQUAL(result.steady.jobs_per_second, expected.jobs_per_second, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(result.steady.held_mean, expected.held_mean, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(result.steady.worker_utilisation, expected.worker_utilisation, 1e-9);
    CU_ASSERT_EQUAL(result.held_p99, held_p99);
    bench_tally_free(tally);
    bench_result_free(&result);
    bench_distribution_free(&options.handler);
}

/* A run that is over before the server was asked four times has only the ledger's word. */
static void asked_seldom(void)
{
    struct bench_options options = options_of("sqlite:none", HF_LEASE, "0");
    static const struct bench_seen seen[4] = {{.at_ns = 1, .sessions = 2}, {.at_ns = 2, .sessions = 3}};
    struct bench_tally *tally = eight_done(2);
    for (size_t n = 0; n <= 4; n++) {
        struct bench_result result = {.left = 0};
        tally->parts[0].peak_open = 5;
        bench_collect(&options, tally, 8, &result);
        bench_collect_server(&result, tally, true, 3, seen, n);
        CU_ASSERT_EQUAL(result.server_sampled, n == 4);
        CU_ASSERT_EQUAL(result.server_peak, n == 4 ? 3 : 10);
        bench_result_free(&result);
    }
    bench_tally_free(tally);
    bench_distribution_free(&options.handler);
}

static void half_the_samples(void)
{
    struct bench_sample samples[4] = {{.seconds = 1, .in_use = {1, 5}},
                                      {.seconds = 2, .in_use = {2, 6}, .held = 3},
                                      {.seconds = 3, .in_use = {0, 1}},
                                      {.seconds = 4, .in_use = {1, 1}, .held = 1}};
    CU_ASSERT_EQUAL(bench_samples_halve(samples, 4), 2);
    CU_ASSERT(samples[0].seconds == 2 && samples[0].in_use[0] == 1.5 && samples[0].in_use[1] == 5.5 && samples[0].held == 3);
    CU_ASSERT(samples[1].seconds == 4 && samples[1].in_use[0] == 0.5 && samples[1].in_use[1] == 1 && samples[1].held == 1);
}

/* What is measured between the first jobs and the last ones; of a run that was over too soon, the whole. */
static void steady(void)
{
    struct bench_moment none = {.at_ns = 0}, from = {.at_ns = INT64_C(2000000000), .done = 2, .held_seconds = 0.2, .handled_seconds = 0.4};
    struct bench_moment to = {.at_ns = INT64_C(4000000000), .done = 7, .held_seconds = 0.8, .handled_seconds = 1.6};
    struct bench_steady whole = {8 / 4.0, 1 / 4.0, 2 / 4.0 / AT_ONCE};
    check_steady(none, none, whole, 7);
    check_steady(from, none, whole, 7);
    check_steady(from, from, whole, 7);
    check_steady(from, to, (struct bench_steady){5 / 2.0, 0.6 / 2, 1.2 / 2 / AT_ONCE}, 4);
    struct bench_options options = options_of(hf_test_postgres_url(), HF_ROW_LOCK, "10");
    struct bench_result result = run(&options);
    CU_ASSERT(result.steady.jobs_per_second > 0 && result.steady.held_mean > 0);
    CU_ASSERT(result.steady.jobs_per_second != result.jobs_per_second);
    bench_result_free(&result);
}

/* Medians; and which is faster only where all rounds agree on it, however far apart they are. */
static void rounds(void)
{
    struct bench_raw raw = {.rounds = 3, .ours = {700, 300, 550}, .theirs = {140, 30, 25}};
    bench_collect_raw(&raw);
    CU_ASSERT_EQUAL(raw.ours_per_second, 550);
    CU_ASSERT_EQUAL(raw.jobs_per_second, 30);
    CU_ASSERT_EQUAL(raw.ratio, 10);
    CU_ASSERT_DOUBLE_EQUAL(raw.spread, (22 - 5) / 2.0, 1e-9);
    CU_ASSERT_FALSE(raw.indistinguishable);
    raw = (struct bench_raw){.rounds = 2, .ours = {100, 95}, .theirs = {90, 100}};
    bench_collect_raw(&raw);
    CU_ASSERT_TRUE(raw.indistinguishable);
    raw = (struct bench_raw){.rounds = 2, .ours = {80, 95}, .theirs = {90, 100}};
    bench_collect_raw(&raw);
    CU_ASSERT_FALSE(raw.indistinguishable);
}

/* In turns with the hand-written loop; the JSON and the comparison's table say what it did. */
static void beside_the_loop(void)
{
    struct bench_options options = options_of(hf_test_sqlite_url(), HF_LEASE, "0");
    options.raw = true;
    options.rounds = 2;
    struct bench_comparison comparison = {.n = 1};
    comparison.of[0].result = run(&options);
    struct bench_raw *raw = &comparison.of[0].result.raw;
    CU_ASSERT(raw->measured && raw->rounds == 2 && raw->ratio > 0 && raw->jobs_per_second > 0 && raw->ours_per_second > 0);
    json_t *json = bench_result_json(&comparison.of[0].result), *loop = json_object_get(json, "raw");
    CU_ASSERT_EQUAL(json_real_value(json_object_get(loop, "ratio")), raw->ratio);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(loop, "jobs_per_second")), raw->jobs_per_second);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(loop, "ours_per_second")), raw->ours_per_second);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(loop, "rounds_raw")), 2);
    size_t n = 0;
    struct bench_measure *measures = bench_measures(&comparison, &n);
    CU_ASSERT(n > 2 && strcmp(measures[2].name, "holdfast over it, median") == 0 && strtod(measures[2].text[0], NULL) > 0);
    free(measures);
    json_decref(json);
    bench_comparison_free(&comparison);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"every strategy on PostgreSQL", on_postgres},
                           {"every strategy on MariaDB", on_mysql},
                           {"every strategy on SQLite", on_sqlite},
                           {"failures and batches", failures_and_batches},
                           {"batches of keys", batches_of_keys},
                           {"jobs that arrive at a rate", arrivals},
                           {"several processes", processes},
                           {"the same jobs each time", same_jobs_each_time},
                           {"a table that is not ours", refused},
                           {"accounting", accounting},
                           {"the ledgers of two processes", ledgers},
                           {"the steady part", steady},
                           {"asked seldom", asked_seldom},
                           {"half the samples", half_the_samples},
                           {"rounds", rounds},
                           {"beside the hand-written loop", beside_the_loop},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_run", tests);
}
