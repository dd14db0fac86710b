/* ctest: timeout=300 labels=e2e
 * A prediction beside what was measured: when it is called off, and that a verify's plan comes before its run and its exit status says
 * how it ended. How good the predictions are is no test but a measurement: tests/bench_verify.sh. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bench/figures.h"
#include "tests/command.h"

/* ---- the judgement ---- */

static struct bench_plan plan_of(double jobs_per_second, double held_mean, size_t held_p99, size_t peak)
{
    return (struct bench_plan){.processes = 2,
                               .model = {.jobs_per_second = jobs_per_second / 2},
                               .held_per_delivery = 1,
                               .held_mean = held_mean,
                               .held_p99 = held_p99,
                               .peak_in_use = peak};
}

static bool within(double jobs_per_second, double held_per_delivery, double held_mean, size_t held_p99, size_t peak, double handler_ms)
{
    struct bench_figure figures[BENCH_FIGURES];
    struct bench_plan plan = plan_of(1000, 8, 10, 12);
    struct bench_result result = {.steady = {.jobs_per_second = jobs_per_second, .held_mean = held_mean},
                                  .jobs_per_second = 1, /* the whole run, which begins and ends slowly, is not what is judged */
                                  .held_mean = 1,
                                  .held_per_delivery = held_per_delivery,
                                  .held_p99 = held_p99,
                                  .peak_in_use = peak,
                                  .handler_ms = handler_ms};
    bench_figures_list(&plan, &result, figures);
    return bench_figures_within(figures, bench_figures_limit(&result));
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

/* Handlers that do nothing: the database sets the pace, and no connection is held for any time that could be told. */
static void idle_handlers(void)
{
    CU_ASSERT_TRUE(within(760, 0.2, 0.9, 40, 12, 0));
    CU_ASSERT_TRUE(within(1240, 7, 0, 0, 12, 0));
    CU_ASSERT_FALSE(within(740, 1, 8, 10, 12, 0));
}

static void nothing_was_predicted(void)
{
    struct bench_figure figure = {.predicted = 0, .measured = 0.05, .slack = 0.1};
    CU_ASSERT_EQUAL(bench_figure_error(&figure), 0);
    figure.measured = 0.2;
    CU_ASSERT_TRUE(isinf(bench_figure_error(&figure)));
    figure = (struct bench_figure){.predicted = 50, .measured = 40};
    CU_ASSERT_DOUBLE_EQUAL(bench_figure_error(&figure), 0.2, 1e-9);
}

/* ---- the command ---- */

static struct hf_test_child *verify(enum hf__database database, const char *strategy, const char *more)
{
    return hf_test_start((const char *const[]){hf_test_program("holdfast-bench"), "verify", "--db", hf_test_url(database), "--strategy",
                                               strategy, "--workers", "2", "--handler-ms", "5", "--jobs", "300", more, NULL},
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
    CU_ASSERT_EQUAL(json_is_true(json_object_get(figure, "within")), json_is_number(error) && json_number_value(error) <= 0.10);
}

/* Whether the plan held is the machine's affair; that the exit status says so is ours. */
static void check_json(struct hf_test_child *child, int code)
{
    static const char *const keys[] = {"jobs_per_second", "held_per_delivery", "held_mean", "held_p99", "peak_in_use"};
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    const json_t *figures = json_object_get(object, "figures"), *run = json_object_get(object, "run");
    CU_ASSERT_EQUAL(json_object_size(figures), BENCH_FIGURES);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_figure(figures, keys[i]);
    CU_ASSERT_EQUAL(code, json_is_true(json_object_get(object, "holds")) ? 0 : 1);
    CU_ASSERT_EQUAL(number(object, "limit"), 0.10);
    const json_t *jobs = json_object_get(figures, "jobs_per_second");
    CU_ASSERT_EQUAL(number(jobs, "predicted"), number(json_object_get(object, "plan"), "jobs_per_second"));
    CU_ASSERT(number(jobs, "measured") > 0.5 * number(run, "jobs_per_second"));
    CU_ASSERT_EQUAL(number(run, "jobs"), 300);
    CU_ASSERT_EQUAL(number(run, "lost"), 0);
    json_decref(object);
}

static void plans_and_runs(void)
{
    static const struct {
        enum hf__database database;
        const char *strategy;
    } all[] = {{HF__POSTGRES, "row_lock"}, {HF__POSTGRES, "lease"}, {HF__MYSQL, "advisory"}, {HF__SQLITE, "lease"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct hf_test_child *child = verify(all[i].database, all[i].strategy, "--json");
        int code = hf_test_wait(child, 120000);
        if (code != 0 && !strstr(hf_test_stderr(child), "the plan was off by more than 10 %"))
            hf_test_fail("verify ended with %d: %s", code, hf_test_stderr(child));
        check_json(child, code);
        hf_test_free(child);
    }
}

static void plan_comes_first(void)
{
    struct hf_test_child *child = verify(HF__SQLITE, "lease", NULL);
    int code = hf_test_wait(child, 120000);
    CU_ASSERT(code == 0 || code == 1);
    const char *text = hf_test_stdout(child), *plan = strstr(text, "strategy "), *figures = strstr(text, "predicted");
    CU_ASSERT(plan && figures && plan < figures);
    CU_ASSERT_EQUAL(code == 1, strstr(text, "too far off") != NULL);
    hf_test_free(child);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"ten percent", ten_percent},
                           {"the most in use", most_in_use},
                           {"handlers that do nothing", idle_handlers},
                           {"nothing was predicted", nothing_was_predicted},
                           {"plans and runs", plans_and_runs},
                           {"the plan comes first", plan_comes_first},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_verify", tests);
}
