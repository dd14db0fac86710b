/* ctest: timeout=300 labels=e2e
 * A prediction beside what was measured: when it is called off, and that a verify's plan comes before its run and its exit status says
 * how it ended. How good the predictions are is no test but a measurement: tests/bench_verify.sh. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "bench/figures.h"
#include "tests/bench_tables.h"
#include "tests/command.h"

/* ---- the judgement ---- */

static struct bench_plan plan_of(double jobs_per_second, double held_mean, size_t held_p99, size_t peak)
{
    return (struct bench_plan){.processes = 2,
                               .model = {.jobs_per_second = jobs_per_second / 2, .worker_utilisation = 0.8},
                               .held_per_delivery = 1,
                               .held_mean = held_mean,
                               .held_p99 = held_p99,
                               .peak_in_use = peak};
}

static bool within(double jobs_per_second, double held_per_delivery, double held_mean, size_t held_p99, size_t peak, double handler_ms)
{
    struct bench_plan plan = plan_of(1000, 8, 10, 12);
    struct bench_result result = {.steady = {.jobs_per_second = jobs_per_second, .held_mean = held_mean, .worker_utilisation = 0.8},
                                  .jobs_per_second = 1, /* the whole run, which begins and ends slowly, is not what is judged */
                                  .held_mean = 1,
                                  .held_per_delivery = held_per_delivery,
                                  .held_p99 = held_p99,
                                  .peak_in_use = peak,
                                  .connection_wait_p99_ms = 1000,
                                  .handler_ms = handler_ms};
    struct bench_figures figures = bench_figures_of(&plan, &result);
    return bench_figures_within(&figures, bench_figures_limit(&result));
}

static void ten_percent(void)
{
    CU_ASSERT_TRUE(within(1000, 1, 8, 10, 12, 5));
    CU_ASSERT_TRUE(within(901, 1, 7.3, 9, 12, 5));
    CU_ASSERT_TRUE(within(1099, 1.04, 8.7, 11, 12, 5));
    CU_ASSERT_FALSE(within(890, 1, 8, 10, 12, 5));
    CU_ASSERT_FALSE(within(1110, 1, 8, 10, 12, 5));
    CU_ASSERT_FALSE(within(1000, 1.2, 8, 10, 12, 5));
    CU_ASSERT_FALSE(within(1000, 1, 6.9, 10, 12, 5));
    CU_ASSERT_FALSE(within(1000, 1, 8, 8, 12, 5));
}

/* The most that are in use is a bound: fewer is right, and more by a quarter is not. */
static void most_in_use(void)
{
    CU_ASSERT_TRUE(within(1000, 1, 8, 10, 3, 5));
    CU_ASSERT_FALSE(within(1000, 1, 8, 10, 14, 5));
    CU_ASSERT_FALSE(within(1000, 1, 8, 10, 16, 0));
}

/* Which of the jobs that arrive share a batch is chance, and under row lock a batch shares its connection; else each has its own. */
static void shared_connections(void)
{
    struct bench_plan plan = plan_of(1000, 8, 10, 12);
    struct bench_result result = {.steady = {.jobs_per_second = 1000, .held_mean = 8, .worker_utilisation = 0.8},
                                  .held_per_delivery = 0.5,
                                  .held_p99 = 10,
                                  .peak_in_use = 12,
                                  .handler_ms = 5,
                                  .batch = 4};
    for (size_t i = 0; i < 4; i++) {
        plan.strategy = i < 2 ? HF_ROW_LOCK : HF_ADVISORY_LOCK;
        plan.model.batch_mean = i % 2 ? 4 : 1.5;
        struct bench_figures figures = bench_figures_of(&plan, &result);
        CU_ASSERT_EQUAL(bench_figures_within(&figures, bench_figures_limit(&result)), i == 0);
    }
}

/* Handlers that do nothing: the database sets the pace, and no connection is held for any time that could be told. */
static void idle_handlers(void)
{
    CU_ASSERT_TRUE(within(760, 0.2, 0.9, 40, 12, 0));
    CU_ASSERT_TRUE(within(1240, 7, 0, 0, 12, 0));
    CU_ASSERT_FALSE(within(740, 1, 8, 10, 12, 0));
}

/* The error is told as it is, also where it means nothing. */
static void errors(void)
{
    struct bench_figure figure = {.predicted = 0, .measured = 0.05, .slack = 0.1};
    CU_ASSERT_TRUE(isinf(bench_figure_error(&figure)));
    CU_ASSERT_TRUE(bench_figure_within(&figure, 0.1));
    figure.measured = 0.2;
    CU_ASSERT_FALSE(bench_figure_within(&figure, 0.1));
    figure.measured = 0;
    CU_ASSERT_EQUAL(bench_figure_error(&figure), 0);
    figure = (struct bench_figure){.predicted = 50, .measured = 40};
    CU_ASSERT_DOUBLE_EQUAL(bench_figure_error(&figure), 0.2, 1e-9);
    CU_ASSERT_FALSE(bench_figure_within(&figure, 0.1));
    figure.slack = 20;
    CU_ASSERT_DOUBLE_EQUAL(bench_figure_error(&figure), 0.2, 1e-9);
    CU_ASSERT_TRUE(bench_figure_within(&figure, 0.1));
}

static bool has(const struct bench_figures *figures, const char *key)
{
    bool has = false;
    for (size_t i = 0; i < figures->n; i++)
        has = has || strcmp(figures->list[i].key, key) == 0;
    return has;
}

/* A table that is always full has no wait for a worker, and a rate that cannot be done has none that ends. */
static void waits_for_workers(void)
{
    struct bench_plan plan = plan_of(1000, 8, 10, 12);
    struct bench_result result = {.handler_ms = 5, .start = {.count = 1, .sum_us = 3000}};
    for (int i = 0; i < 4; i++) {
        plan.model.start_wait_mean_ms = i % 2 ? 2 : -1;
        plan.model.stable = i >= 2;
        struct bench_figures figures = bench_figures_of(&plan, &result);
        CU_ASSERT_EQUAL(has(&figures, "start_wait_mean_ms"), i == 3);
        CU_ASSERT_EQUAL(has(&figures, "start_wait_p99_ms"), i == 3);
        CU_ASSERT_TRUE(has(&figures, "worker_utilisation") && has(&figures, "open"));
    }
}

/* ---- the command ---- */

static struct hf_test_child *verify(enum hf__database database, const char *strategy, const char *more, const char *value)
{
    return hf_test_start((const char *const[]){hf_test_program("holdfast-bench"), "verify", "--db", hf_test_url(database), "--strategy",
                                               strategy, "--workers", "2", "--handler-ms", "5", "--jobs", "300", more, value, NULL},
                         NULL);
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void check_figure(const json_t *figures, const char *key)
{
    const json_t *figure = json_object_get(figures, key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(figure);
    CU_ASSERT(json_is_number(json_object_get(figure, "predicted")) && json_is_number(json_object_get(figure, "measured")));
    const json_t *error = json_object_get(figure, "error");
    if (json_is_number(error) && json_number_value(error) <= 0.10)
        CU_ASSERT(json_is_true(json_object_get(figure, "within")));
}

/* Whether the plan held is the machine's affair; that the exit status says so is ours. */
static json_t *check_json(struct hf_test_child *child, int code)
{
    static const char *const keys[] = {"jobs_per_second", "worker_utilisation", "held_per_delivery",
                                       "held_mean",       "held_p99",           "peak_in_use"};
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    const json_t *figures = json_object_get(object, "figures"), *run = json_object_get(object, "run");
    const json_t *wait = json_object_get(figures, "pool_wait_p99_ms"); /* shown, not judged */
    CU_ASSERT(json_is_null(json_object_get(wait, "within")) && json_is_number(json_object_get(wait, "measured")));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_figure(figures, keys[i]);
    CU_ASSERT_EQUAL(code, json_is_true(json_object_get(object, "holds")) ? 0 : 1);
    CU_ASSERT_EQUAL(number(object, "limit"), 0.10);
    const json_t *jobs = json_object_get(figures, "jobs_per_second");
    CU_ASSERT_EQUAL(number(jobs, "predicted"), number(json_object_get(object, "plan"), "jobs_per_second"));
    CU_ASSERT(number(jobs, "measured") > 0.5 * number(run, "jobs_per_second"));
    CU_ASSERT_EQUAL(number(run, "jobs"), 300);
    CU_ASSERT_EQUAL(number(run, "lost"), 0);
    return object;
}

/* What it printed; owned. */
static json_t *verified(enum hf__database database, const char *strategy, const char *more, const char *value)
{
    struct hf_test_child *child = verify(database, strategy, more, value);
    int code = hf_test_wait(child, 120000);
    if (code != 0 && !strstr(hf_test_stderr(child), "the plan was off by more than 10 %"))
        hf_test_fail("verify ended with %d: %s", code, hf_test_stderr(child));
    json_t *object = check_json(child, code);
    hf_test_free(child);
    return object;
}

static void plans_and_runs(void)
{
    static const struct {
        enum hf__database database;
        const char *strategy;
    } all[] = {{HF__POSTGRES, "row_lock"}, {HF__POSTGRES, "lease"}, {HF__MYSQL, "advisory"}, {HF__SQLITE, "lease"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        json_t *object = verified(all[i].database, all[i].strategy, "--json", NULL);
        const json_t *most = json_object_get(json_object_get(object, "plan"), "max_connections");
        CU_ASSERT(all[i].database == HF__SQLITE ? json_is_null(most) : json_integer_value(most) > 0); /* which was asked of the server */
        json_decref(object);
    }
}

/* A pool too small for the workers; jobs that arrive; two processes: the plan is for that, and so is the run. */
static void other_shapes(void)
{
    json_t *small = verified(HF__POSTGRES, "row_lock", "--json", "--pool=2"), *plan = json_object_get(small, "plan");
    CU_ASSERT_EQUAL(number(plan, "workers_at_once"), 1);
    CU_ASSERT(number(plan, "jobs_per_second") < 200); /* one after the other, each 5 ms and more */
    CU_ASSERT_EQUAL(number(json_object_get(json_object_get(small, "run"), "connections"), "pool_size"), 2);
    CU_ASSERT(number(json_object_get(json_object_get(small, "figures"), "worker_utilisation"), "measured") > 0.5); /* of the one at once */
    json_decref(small);
    json_t *arriving = verified(HF__POSTGRES, "lease", "--json", "--rate=150");
    CU_ASSERT_EQUAL(number(json_object_get(arriving, "plan"), "jobs_per_second"), 150);
    json_decref(arriving);
    json_t *fleet = verified(HF__MYSQL, "row_lock", "--json", "--processes=2");
    CU_ASSERT_EQUAL(number(json_object_get(fleet, "plan"), "fleet_connections"), 6);
    CU_ASSERT_EQUAL(number(json_object_get(fleet, "run"), "processes"), 2);
    json_decref(fleet);
}

/* Ctrl-C while the database's speed is measured: no table stays, and nothing is said of a plan that was not made. */
static bool has_a_table(void *arg)
{
    struct hf_test_child *child = arg;
    return hf_test_bench_tables(hf_test_postgres_url(), hf_test_pid(child)) > 0;
}

static void interrupted(void)
{
    struct hf_test_child *child = verify(HF__POSTGRES, "row_lock", NULL, NULL);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(has_a_table, child, 20000));
    hf_test_kill(child, SIGINT);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 1);
    hf_test_must_contain(hf_test_stderr(child), "interrupted");
    CU_ASSERT_STRING_EQUAL(hf_test_stdout(child), "");
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), hf_test_pid(child)), 0);
    hf_test_free(child);
}

static void plan_comes_first(void)
{
    struct hf_test_child *child = verify(HF__SQLITE, "lease", NULL, NULL);
    int code = hf_test_wait(child, 120000);
    CU_ASSERT(code == 0 || code == 1);
    const char *text = hf_test_stdout(child), *plan = strstr(text, "strategy "), *figures = strstr(text, "predicted");
    CU_ASSERT(plan && figures && plan < figures);
    CU_ASSERT_EQUAL(code == 1, strstr(text, "too far off") != NULL);
    hf_test_must_contain(text, "  within\n"); /* the most in use is a bound */
    hf_test_free(child);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"ten percent", ten_percent},
                           {"shared connections", shared_connections},
                           {"the most in use", most_in_use},
                           {"handlers that do nothing", idle_handlers},
                           {"errors", errors},
                           {"waits for workers", waits_for_workers},
                           {"plans and runs", plans_and_runs},
                           {"other shapes", other_shapes},
                           {"interrupted", interrupted},
                           {"the plan comes first", plan_comes_first},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_verify", tests);
}
