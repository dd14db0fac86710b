#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plan.h"
#include "tests/support.h"

#define EACH_MS 1.0
static const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000 / EACH_MS}, {.n = 1e6, .jobs_per_second = 1e9 / EACH_MS}};

/* "postgresql://localhost" is never connected to. */
static struct bench_options options_of(hf_strategy strategy, size_t workers, double handler_ms)
{
    return (struct bench_options){
        .url = "postgresql://localhost/none",
        .has_strategy = true,
        .strategy = strategy,
        .workers = workers,
        .batch = 1,
        .processes = 1,
        .lease_seconds = 30,
        .handler = {.law = BENCH_CONSTANT, .a_ms = handler_ms},
        .claim_ms = -1,
        .settle_ms = -1,
        .handler_p99_ms = -1,
        .reserve = 3,
    };
}

static struct bench_plan plan_with(const struct bench_options *options, const struct bench_speed *of, size_t n)
{
    struct bench_plan plan;
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(bench_plan_of(options, of, n, &plan, &err), &err);
    return plan;
}

static struct bench_plan planned(const struct bench_options *options)
{
    return plan_with(options, speed, 2);
}

static void says(const char *advice, const char *words)
{
    if (!strstr(advice, words))
        hf_test_fail("the advice does not say \"%s\":\n%s", words, advice);
}

static void says_not(const char *advice, const char *words)
{
    if (strstr(advice, words))
        hf_test_fail("the advice says \"%s\":\n%s", words, advice);
}

static void advises(const struct bench_options *options, const char *words)
{
    struct bench_plan plan = planned(options);
    says(plan.advice, words);
    bench_plan_free(&plan);
}

/* Nine of ten milliseconds are the handler's: of ten workers nine are in one, and each holds what its strategy says. */
static void held(void)
{
    static const double per_delivery[] = {[HF_ROW_LOCK] = 1, [HF_LEASE] = 0, [HF_ADVISORY_LOCK] = 1};
    static const hf_strategy strategies[] = {HF_ROW_LOCK, HF_LEASE, HF_ADVISORY_LOCK};
    for (size_t i = 0; i < 3; i++) {
        struct bench_options options = options_of(strategies[i], 10, 9);
        struct bench_plan plan = planned(&options);
        bool lease = strategies[i] == HF_LEASE;
        CU_ASSERT_DOUBLE_EQUAL(plan.held_per_delivery, per_delivery[strategies[i]], 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(plan.held_mean, lease ? 0 : 9, 1e-6);
        CU_ASSERT_EQUAL(plan.held_p99, lease ? 0 : 10);
        CU_ASSERT_EQUAL(plan.sizes.pool_recommended, lease ? 4 : 11);
        CU_ASSERT_EQUAL(plan.peak_in_use, lease ? 3 : 10);
        CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, lease ? 10 / 9.0 * 1000 : 1000, 15);
        bench_plan_free(&plan);
    }
}

static void small_pool(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 10, 9);
    options.pool = 5;
    struct bench_plan plan = planned(&options);
    CU_ASSERT_EQUAL(plan.workers, 10);
    CU_ASSERT_EQUAL(plan.sizes.workers_at_once, 4);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, 400, 1e-3);
    says(plan.advice, "only 4 of the 10 workers");
    bench_plan_free(&plan);
}

static void batches(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 4, 9);
    options.batch = 5;
    struct bench_plan plan = planned(&options);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_per_delivery, 0.2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_mean, 4 * 0.9, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, 400, 1e-3);
    bench_plan_free(&plan);
}

/* 420 jobs a second of 9 ms, with 1 ms more for each batch: four workers cannot do them one by one, but in twos and threes they can. Under
 * row lock a worker's batch holds one connection, under advisory lock one for each row of it. */
static void batches_at_a_rate(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 4, 9);
    options.rate = 420;
    struct bench_plan single = planned(&options);
    CU_ASSERT_FALSE(single.model.stable);
    options.batch = 5;
    const struct bench_speed full[] = {{.n = 1, .jobs_per_second = 5 * 1000 / EACH_MS}, {.n = 1e6, .jobs_per_second = 5 * 1e9 / EACH_MS}};
    struct bench_plan plan = plan_with(&options, full, 2);
    CU_ASSERT_TRUE(plan.model.stable);
    CU_ASSERT(plan.model.batch_mean > 2 && plan.model.batch_mean < 5);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_per_delivery, 1 / plan.model.batch_mean, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_mean, 0.42 * 9, 0.05);
    CU_ASSERT_EQUAL(plan.peak_in_use, 4);
    double rows = plan.model.batch_mean;
    bench_plan_free(&plan);
    options.strategy = HF_ADVISORY_LOCK;
    plan = plan_with(&options, full, 2);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_per_delivery, 1, 1e-9);
    CU_ASSERT(plan.held_mean > 1.1 * 0.42 * 9 * rows); /* the large batches are held for longer */
    CU_ASSERT(plan.held_p99 > 16 && plan.held_p99 <= 20);
    CU_ASSERT_EQUAL(plan.peak_in_use, 20);
    bench_plan_free(&plan);
    bench_plan_free(&single);
}

/* Under advisory lock each row of a batch is claimed by itself, so one of eight takes much less time than all of them. */
static void measured_in_batches(void)
{
    struct bench_options options = options_of(HF_ADVISORY_LOCK, 1, 1);
    struct bench_speed *found = NULL;
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    options.url = hf_test_postgres_url();
    options.rate = 50;
    options.batch = 8;
    HF_TEST_OK(bench_speed_measure(&options, 1, &found, &n, &err), &err);
    CU_ASSERT_EQUAL_FATAL(n, 1);
    if (!(found[0].single > 0.05 && found[0].single < 0.7))
        hf_test_fail("a single one takes %g of a full batch's time", found[0].single);
    free(found);
}

/* Of a lease a batch makes the claims larger: with handlers of no time, four workers' rows and the 256 that are claimed ahead. */
static void lease_batches(void)
{
    struct bench_options options = options_of(HF_LEASE, 4, 0);
    struct bench_plan plan = planned(&options);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, (4 + 256) / EACH_MS * 1000, 1e-3);
    bench_plan_free(&plan);
    options.batch = 10;
    plan = planned(&options);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, (40 + 256) / EACH_MS * 1000, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_per_delivery, 0, 1e-9);
    bench_plan_free(&plan);
}

static void fleet(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 10, 9);
    options.processes = 8;
    options.max_connections = 100;
    struct bench_plan plan = planned(&options);
    CU_ASSERT_EQUAL(plan.fleet_connections, 88);
    CU_ASSERT_TRUE(plan.fits);
    says(plan.advice, "Up to 8 processes of this pool fit, with no room kept");
    bench_plan_free(&plan);
    options.overlap = 1;
    plan = planned(&options);
    CU_ASSERT_EQUAL(plan.fleet_connections, 99);
    CU_ASSERT_FALSE(plan.fits);
    says(plan.advice, "Up to 7 processes of this pool fit beside 1 of the old release");
    bench_plan_free(&plan);
    options.overlap = 7;
    advises(&options, "One process of this pool fits beside 7 of the old release");
    options.overlap = 9;
    advises(&options, "No process of this pool fits beside 9 of the old release");
    options.overlap = SIZE_MAX;
    plan = planned(&options);
    CU_ASSERT_EQUAL(plan.fleet_connections, 176);
    says(plan.advice, "Up to 4 processes of this pool fit beside as many of the old release");
    bench_plan_free(&plan);
}

/* 1,000 jobs a second of 10 ms are ten workers' work; some more keep the wait rare. */
static void from_rate(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 0, 9);
    options.rate = 1000;
    options.handler.law = BENCH_EXPONENTIAL;
    struct bench_plan plan = planned(&options);
    CU_ASSERT(plan.workers > 15 && plan.workers < 25);
    CU_ASSERT_DOUBLE_EQUAL(plan.held_mean, 9, 1e-6);
    CU_ASSERT_EQUAL(plan.model.start_wait_p99_ms, 0);
    bench_plan_free(&plan);
    options.workers = 5;
    plan = planned(&options);
    CU_ASSERT_FALSE(plan.model.stable);
    says(plan.advice, "faster than they can be done");
    CU_ASSERT(plan.workers_enough > 15 && plan.workers_enough < 25);
    says(plan.advice, hf_test_format("%zu workers at once would be enough.", plan.workers_enough));
    bench_plan_free(&plan);
    static const struct bench_speed slow[] = {{.n = 1, .jobs_per_second = 500},
                                              {.n = 32, .jobs_per_second = 890},
                                              {.n = 64, .jobs_per_second = 900}}; /* a database that does no more */
    plan = plan_with(&options, slow, 3);
    CU_ASSERT_EQUAL(plan.workers_enough, 0);
    says(plan.advice, "More workers would not keep up either");
    bench_plan_free(&plan);
    plan = plan_with(&options, slow, 2);
    CU_ASSERT_EQUAL(plan.workers_enough, 0);
    says(plan.advice, "Whether more workers would is not known");
    bench_plan_free(&plan);
}

static void advised(void)
{
    struct bench_options options = options_of(HF_LEASE, 8, 50);
    CU_ASSERT_EQUAL(bench_advised(&options), HF_ROW_LOCK);
    options.processes = 10;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.processes = 1;
    options.workers = 0; /* one process needs ten for this rate, three need six each */
    options.rate = 80;
    options.max_connections = 48;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_ROW_LOCK);
    options.processes = 3;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.processes = 1;
    options.workers = 8; /* those who are asked for would not keep up, and those who would are too many */
    options.rate = 8000;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.rate = 8; /* nor do fewer suffice because few would do */
    CU_ASSERT_EQUAL(bench_advised(&options), HF_ROW_LOCK);
    options.workers = 12;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.rate = 200; /* eleven keep up, if busy; they are affordable, and those with whom hardly a job waits would not be */
    options.workers = 11;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_ROW_LOCK);
    options.workers = 10;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.workers = 8;
    options.rate = 0;
    options.max_connections = 0;
    options.handler.a_ms = 60000;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.handler.a_ms = 1;
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
    options.handler.a_ms = 50;
    options.url = "sqlite:jobs.db";
    CU_ASSERT_EQUAL(bench_advised(&options), HF_LEASE);
}

/* What is said of the strategy that was asked for is marked as such, where another one fits better. */
static void asked(void)
{
    struct bench_options options = options_of(HF_LEASE, 8, 50);
    struct bench_plan plan = planned(&options);
    says(plan.advice, "row_lock fits this workload better");
    says(plan.advice, "\nAs asked, lease: it wants a pool of 4 connections");
    says(plan.advice, "\nUnder lease a crash");
    bench_plan_free(&plan);
    options.strategy = HF_ROW_LOCK;
    plan = planned(&options);
    says(plan.advice, "row_lock fits this workload: ");
    says(plan.advice, "\nIt wants a pool of 9 connections");
    says_not(plan.advice, "As asked");
    bench_plan_free(&plan);
}

/* Every strategy has transactional handlers; SQLite has no row locks, so nothing there speaks of them as a way. */
static void transactional_advice(void)
{
    static const char *const urls[] = {"postgresql://localhost/none", "mysql://localhost/none", "sqlite:none.db"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        bool sqlite = i == 2;
        struct bench_options options = options_of(HF_LEASE, 8, 50);
        options.url = urls[i];
        hf_runtime *runtime = NULL;
        hf_error err = {.status = HF_OK};
        if (hf_runtime_open(urls[i], NULL, &runtime, &err) == HF_UNSUPPORTED)
            continue; /* built without this database */
        hf_runtime_close(runtime);
        struct bench_plan plan = planned(&options);
        says(plan.advice, "subscribe `transactional`: that holds a connection for each delivery in every strategy");
        if (sqlite) {
            says(plan.advice, "lease fits this workload: SQLite has no row locks");
            says(plan.advice, "SQLite sets no limit");
            says(plan.advice, "On SQLite the answer does not change");
            says_not(plan.advice, "row_lock");
        }
        bench_plan_free(&plan);
    }
}

/* What needs no speed: the plan's own sizes. */
static void sizes(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 10, 9);
    struct bench_sizes its;
    hf_error err = {.status = HF_OK};
    options.pool = 5;
    HF_TEST_OK(bench_plan_sizes(&options, 10, &its, &err), &err);
    struct bench_plan plan = planned(&options);
    CU_ASSERT_EQUAL(its.workers_at_once, 4);
    CU_ASSERT_EQUAL(its.pool_recommended, 11);
    CU_ASSERT_EQUAL(its.pool_minimum, plan.sizes.pool_minimum);
    CU_ASSERT_EQUAL(its.workers_at_once, plan.sizes.workers_at_once);
    bench_plan_free(&plan);
}

/* When the answer would be another one. */
static void changes(void)
{
    struct bench_options options = options_of(HF_ROW_LOCK, 8, 50);
    advises(&options,
            "The answer changes to lease with more than 25 connections in all processes, handlers beyond 30 s, or handlers below");
    options.max_connections = 400;
    advises(&options, "The answer changes to lease with more than 100 connections in all processes");
    options = options_of(HF_LEASE, 200, 50);
    advises(&options, "a connection for each delivery would be more than 25, a quarter of the 100 that servers commonly allow");
    advises(&options, "The answer changes to row_lock with handlers between");
    options.max_connections = 400;
    advises(&options, "would be more than a quarter of the server's");
    options = options_of(HF_LEASE, 8, 0.1);
    struct bench_plan plan = planned(&options);
    says_not(plan.advice, "The database sets the pace");
    bench_plan_free(&plan);
    static const struct bench_speed full[] = {
        {.n = 1, .jobs_per_second = 500}, {.n = 4, .jobs_per_second = 890}, {.n = 8, .jobs_per_second = 900}};
    plan = plan_with(&options, full, 3);
    says(plan.advice, "The database sets the pace: more workers would do no more.");
    bench_plan_free(&plan);
}

static void not_offered(void)
{
    static const struct {
        hf_strategy strategy;
        size_t processes;
        const char *words;
    } cases[] = {{HF_ROW_LOCK, 1, "SQLite has no row locks"}, {HF_ADVISORY_LOCK, 2, "leave --processes 2 out"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_options options = options_of(cases[i].strategy, 4, 5);
        struct bench_plan plan;
        hf_error err = {.status = HF_OK};
        options.url = "sqlite:none.db";
        options.processes = cases[i].processes;
        HF_TEST_STATUS(bench_plan_of(&options, speed, 2, &plan, &err), HF_UNSUPPORTED, &err);
        says(err.message, cases[i].words);
        bench_plan_free(&plan);
    }
}

/* Where nothing is held, who asks may find all connections out: on SQLite the workers of an advisory lock, with their handlers between
 * claim and settle; under a lease the claimer and the settler. */
static void waits_for_connections(void)
{
    static const struct bench_speed slow[] = {{.n = 1, .jobs_per_second = 400, .hold_ms = 3},
                                              {.n = 2, .jobs_per_second = 450, .hold_ms = 3}};
    struct bench_plan plan;
    hf_error err = {.status = HF_OK};
    struct bench_options options = options_of(HF_ADVISORY_LOCK, 16, 5);
    options.url = "sqlite:none.db";
    if (bench_plan_of(&options, slow, 2, &plan, &err) == HF_OK) { /* built with this database */
        CU_ASSERT_EQUAL(plan.pool, 3);
        CU_ASSERT_DOUBLE_EQUAL(plan.pool_wait_p99_ms, bench_model_connection_wait_p99_ms(16, 3, 3, 2.5), 1e-9);
        CU_ASSERT(plan.pool_wait_p99_ms > 10 && plan.pool_wait_p99_ms < 40);
        bench_plan_free(&plan);
    }
    options = options_of(HF_LEASE, 16, 50);
    options.pool = 1; /* both ask for the same one, at most twice for each of 320 jobs a second */
    plan = plan_with(&options, slow, 2);
    CU_ASSERT_DOUBLE_EQUAL(plan.pool_wait_p99_ms, bench_model_connection_wait_p99_ms(2, 1, 3, 1000 / 320.0 - 3), 0.1);
    bench_plan_free(&plan);
    options.pool = 4;
    plan = plan_with(&options, slow, 2);
    CU_ASSERT_EQUAL(plan.pool_wait_p99_ms, 0);
    bench_plan_free(&plan);
}

/* From the throughputs that a database of known speed would show, and a guess, back to its speed. */
static void fitted(void)
{
    static const struct bench_speed known[] = {{.n = 1, .jobs_per_second = 800},
                                               {.n = 1.6, .jobs_per_second = 1400, .late_ms = 0.1},
                                               {.n = 2.4, .jobs_per_second = 1900, .late_ms = 0.2},
                                               {.n = 4.5, .jobs_per_second = 2600, .late_ms = 0.5}};
    static const size_t workers[] = {1, 2, 4, 8};
    enum { SIZES = sizeof known / sizeof *known };
    for (size_t batch = 1; batch <= 5; batch += 4) {
        struct bench_options options = options_of(HF_ROW_LOCK, 8, 2);
        struct bench_speed found[SIZES];
        struct bench_throughput measured[SIZES];
        options.batch = batch;
        for (size_t i = 0; i < SIZES; i++) {
            found[i] = known[i];
            found[i].jobs_per_second *= i % 2 ? 1.3 : 0.8;
            measured[i] = (struct bench_throughput){workers[i], bench_plan_full_table(&options, workers[i], known, SIZES).jobs_per_second,
                                                    found[i].jobs_per_second};
        }
        bench_speed_fit(&options, measured, found, SIZES);
        for (size_t i = 0; i < SIZES; i++)
            CU_ASSERT_DOUBLE_EQUAL(bench_plan_full_table(&options, workers[i], found, SIZES).jobs_per_second, measured[i].jobs_per_second,
                                   0.002 * measured[i].jobs_per_second);
        CU_ASSERT_DOUBLE_EQUAL(found[0].jobs_per_second, known[0].jobs_per_second, 0.002 * known[0].jobs_per_second);
        CU_ASSERT_DOUBLE_EQUAL(found[3].jobs_per_second, known[3].jobs_per_second, 0.05 * known[3].jobs_per_second);
    }
    struct bench_options idle = options_of(HF_ROW_LOCK, 2, 0); /* the throughput is the speed */
    struct bench_speed same[] = {{.n = 1, .jobs_per_second = 190}, {.n = 2, .jobs_per_second = 600}};
    bench_speed_fit(&idle, (const struct bench_throughput[]){{1, 190, 190}, {2, 600, 600}}, same, 2);
    CU_ASSERT_EQUAL(same[1].jobs_per_second, 600);
}

/* With long handlers the first workers hardly meet in the database: speeds between one and two there have no effect, and what they were
 * taken for stays. No speed runs away from a throughput that it cannot bring about. */
static void fits_nearby(void)
{
    static const size_t workers[] = {1, 2, 4, 8};
    static const struct bench_speed taken[] = {{.n = 1, .jobs_per_second = 2000},
                                               {.n = 1.09, .jobs_per_second = 2180},
                                               {.n = 1.27, .jobs_per_second = 2540},
                                               {.n = 1.64, .jobs_per_second = 3280}};
    enum { SIZES = sizeof taken / sizeof *taken };
    struct bench_options options = options_of(HF_ROW_LOCK, 8, 5);
    struct bench_throughput measured[SIZES];
    struct bench_speed found[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        found[i] = taken[i];
        measured[i] =
            (struct bench_throughput){workers[i], (double)workers[i] * 1000 / 5.5 * (i % 2 ? 1.2 : 0.98), taken[i].jobs_per_second};
    }
    bench_speed_fit(&options, measured, found, SIZES);
    CU_ASSERT_EQUAL(found[1].jobs_per_second, taken[1].jobs_per_second);
    CU_ASSERT_EQUAL(found[2].jobs_per_second, taken[2].jobs_per_second);
    CU_ASSERT_DOUBLE_EQUAL(found[3].jobs_per_second, 2 * taken[3].jobs_per_second, 1); /* more than it can do was measured */
}

/* Processes share the database: where that sets the pace they have together what it can do. */
static void processes_share(void)
{
    static const struct bench_speed shared[] = {{.n = 1, .jobs_per_second = 1000}, {.n = 4, .jobs_per_second = 5000}};
    struct bench_options options = options_of(HF_ROW_LOCK, 8, 1);
    options.processes = 10;
    options.rate = 4000;
    struct bench_plan plan = plan_with(&options, shared, 2);
    CU_ASSERT_TRUE(plan.model.stable);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.database_utilisation, 0.8, 1e-9);
    bench_plan_free(&plan);
    options.rate = 6000;
    plan = plan_with(&options, shared, 2);
    CU_ASSERT_FALSE(plan.model.stable);
    CU_ASSERT_EQUAL(plan.workers_enough, 0);
    bench_plan_free(&plan);
    options.rate = 0;
    plan = plan_with(&options, shared, 2);
    CU_ASSERT_DOUBLE_EQUAL(plan.model.jobs_per_second, 500, 1);
    bench_plan_free(&plan);
}

/* A full table has no wait for a worker: the JSON, whose keys scripts read, says 0 all the same. */
static void full_table(void)
{
    struct bench_options options = options_of(HF_LEASE, 8, 50);
    struct bench_plan plan = planned(&options);
    json_t *tree = bench_plan_json(&plan);
    const json_t *wait = json_object_get(tree, "start_wait_ms");
    CU_ASSERT(plan.model.start_wait_mean_ms < 0 && plan.model.start_wait_p99_ms < 0);
    CU_ASSERT_EQUAL(json_number_value(json_object_get(wait, "mean")), 0);
    CU_ASSERT_EQUAL(json_number_value(json_object_get(wait, "p99")), 0);
    json_decref(tree);
    bench_plan_free(&plan);
    options.rate = 1e6; /* and where it grows for ever there is none to tell */
    plan = planned(&options);
    tree = bench_plan_json(&plan);
    CU_ASSERT_TRUE(json_is_null(json_object_get(json_object_get(tree, "start_wait_ms"), "mean")));
    json_decref(tree);
    bench_plan_free(&plan);
}

static void json(void)
{
    static const char *const keys[] = {"strategy",        "workers",           "pool",          "held_mean",       "held_p99",
                                       "jobs_per_second", "fleet_connections", "fits",          "advice",          "workers_at_once",
                                       "utilisation",     "pool_wait_p99_ms",  "start_wait_ms", "max_connections", "reserve",
                                       "peak_in_use"};
    struct bench_options options = options_of(HF_ADVISORY_LOCK, 10, 9);
    struct bench_plan plan = planned(&options);
    json_t *tree = bench_plan_json(&plan);
    CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(tree, keys[i]))
            hf_test_fail("no %s in the plan", keys[i]);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(tree, "strategy")), "advisory");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_object_get(tree, "pool"), "recommended")), 11);
    json_decref(tree);
    bench_plan_free(&plan);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"held", held},
                           {"small pool", small_pool},
                           {"batches", batches},
                           {"batches at a rate", batches_at_a_rate},
                           {"measured in batches", measured_in_batches},
                           {"batches of a lease", lease_batches},
                           {"fleet", fleet},
                           {"from rate", from_rate},
                           {"advised", advised},
                           {"asked", asked},
                           {"transactional", transactional_advice},
                           {"sizes", sizes},
                           {"changes", changes},
                           {"not offered", not_offered},
                           {"waits for connections", waits_for_connections},
                           {"fitted", fitted},
                           {"full table", full_table},
                           {"fits nearby", fits_nearby},
                           {"processes share the database", processes_share},
                           {"json", json},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_plan", tests);
}
