/* ctest: timeout=240 labels=e2e
 * Where more connections stop helping: read from points made up, and from a sweep of the command. */
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "bench/knee.h"
#include "tests/bench_tables.h"
#include "tests/command.h"

/* ---- reading ---- */

static struct bench_knee read_knee(const double *jobs_per_second, const size_t *x, size_t n)
{
    struct bench_point points[8];
    CU_ASSERT_FATAL(n > 0 && n <= sizeof points / sizeof *points);
    for (size_t i = 0; i < n; i++)
        points[i] = (struct bench_point){.x = x[i], .jobs_per_second = jobs_per_second[i]};
    return bench_knee_of(points, n);
}

/* Throughput grows in proportion up to 4, and no more from there on. */
static void corner(void)
{
    struct bench_knee knee = read_knee((const double[]){100, 200, 300, 400, 402, 404}, (const size_t[]){1, 2, 3, 4, 6, 8}, 6);
    CU_ASSERT_EQUAL(knee.knee, 3);
    CU_ASSERT_EQUAL(knee.enough, 3);
    CU_ASSERT_EQUAL(knee.best, 5);
}

/* It falls again: the best is in the middle, and the smallest with 95 % of it before that. */
static void falls_again(void)
{
    struct bench_knee knee = read_knee((const double[]){100, 250, 390, 400, 300, 150}, (const size_t[]){1, 2, 4, 6, 8, 12}, 6);
    CU_ASSERT_EQUAL(knee.best, 3);
    CU_ASSERT_EQUAL(knee.enough, 2);
    CU_ASSERT_EQUAL(knee.knee, 2);
}

static void straight(void)
{
    struct bench_knee knee = read_knee((const double[]){100, 200, 400, 800}, (const size_t[]){1, 2, 4, 8}, 4);
    CU_ASSERT_EQUAL(knee.best, 3);
    CU_ASSERT_EQUAL(knee.enough, 3);
    CU_ASSERT_EQUAL(knee.knee, 3); /* none before the end */
    knee = read_knee((const double[]){500, 498, 499, 500}, (const size_t[]){1, 2, 4, 8}, 4);
    CU_ASSERT_EQUAL(knee.enough, 0);
    CU_ASSERT_EQUAL(knee.knee, 0); /* flat: one is enough */
    knee = read_knee((const double[]){7}, (const size_t[]){3}, 1);
    CU_ASSERT_EQUAL(knee.best + knee.enough + knee.knee, 0);
    knee = read_knee((const double[]){0, 0}, (const size_t[]){1, 2}, 2);
    CU_ASSERT_EQUAL(knee.best + knee.enough + knee.knee, 0);
}

/* ---- the command ---- */

static struct hf_test_child *sweep(enum hf__database database, const char *const *more)
{
    const char *argv[24] = {hf_test_program("holdfast-bench"), "sweep", "--db", hf_test_url(database)};
    size_t n = 4;
    for (; *more; more++)
        argv[n++] = *more;
    return hf_test_start(argv, NULL);
}

#define SWEEP(database, ...) sweep(database, (const char *const[]){__VA_ARGS__, NULL})

static json_int_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Of one strategy: the sizes, ascending from the least that works to the most that was asked for. */
static void check_points(const json_t *one, const char *axis, json_int_t first, json_int_t last)
{
    const json_t *points = json_object_get(one, "points");
    size_t n = json_array_size(points);
    CU_ASSERT_FATAL(n > 1);
    CU_ASSERT_EQUAL(integer(json_array_get(points, 0), axis), first);
    CU_ASSERT_EQUAL(integer(json_array_get(points, n - 1), axis), last);
    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(points, i);
        CU_ASSERT(json_number_value(json_object_get(point, "jobs_per_second")) > 0);
        CU_ASSERT(json_is_number(json_object_get(point, "wait_p99_ms")) && integer(point, "peak_in_use") > 0);
        CU_ASSERT(i == 0 || integer(json_array_get(points, i - 1), axis) < integer(point, axis));
        if (strcmp(axis, "pool") == 0)
            CU_ASSERT(integer(point, "peak_in_use") <= integer(point, "pool"));
    }
    CU_ASSERT(json_is_true(json_object_get(one, "complete")));
    CU_ASSERT(integer(one, "smallest_with_95_percent") <= integer(one, "best"));
    CU_ASSERT(integer(one, "knee") >= first && integer(one, "knee") <= last);
}

static json_t *read_json(struct hf_test_child *child)
{
    json_t *list = json_loads(hf_test_expect(child, 0), 0, NULL);
    CU_ASSERT_FATAL(json_is_array(list));
    return list;
}

/* Handlers of 20 ms under row lock: four connections are four times as fast as one, and the sweep says so. */
static void pool_sizes(void)
{
    json_t *list = read_json(
        SWEEP(HF__POSTGRES, "--strategy", "row_lock", "--workers", "4", "--handler-ms", "20", "--jobs", "80", "--pool", "5", "--json"));
    CU_ASSERT_EQUAL(json_array_size(list), 1);
    const json_t *one = json_array_get(list, 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "strategy")), "row_lock");
    check_points(one, "pool", 1, 5);
    CU_ASSERT(integer(one, "smallest_with_95_percent") > 1);
    json_decref(list);
}

static void every_strategy(void)
{
    json_t *list = read_json(SWEEP(HF__SQLITE, "--workers", "3", "--handler-ms", "5", "--jobs", "40", "--json"));
    CU_ASSERT_EQUAL(json_array_size(list), 2);
    json_decref(list);
}

/* A second table: the first size was run. */
struct watched {
    pid_t pid;
    const char *first;
};

static bool has_a_second_table(void *arg)
{
    struct watched *watched = arg;
    const char *name = hf_test_bench_table(hf_test_postgres_url(), watched->pid);
    if (!watched->first)
        watched->first = name;
    return name && strcmp(name, watched->first) != 0;
}

/* Ctrl-C: what was run is told, and nothing of where more stops helping. */
static void interrupted(const char *format)
{
    struct hf_test_child *child =
        SWEEP(HF__POSTGRES, "--strategy", "row_lock", "--workers", "4", "--handler-ms", "40", "--jobs", "60", format);
    struct watched watched = {.pid = hf_test_pid(child)};
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(has_a_second_table, &watched, 60000));
    hf_test_kill(child, SIGINT);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 1);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), watched.pid), 0);
    hf_test_must_contain(hf_test_stderr(child), "interrupted");
    hf_test_must_not_contain(hf_test_stderr(child), "pool_size"); /* a pool that is too small is meant to be */
    if (!format) {
        hf_test_must_contain(hf_test_stdout(child), "1 of 5 sizes were run: too few to say where more stops helping.");
        hf_test_must_not_contain(hf_test_stdout(child), "knee");
        hf_test_free(child);
        return;
    }
    json_t *list = json_loads(hf_test_stdout(child), 0, NULL);
    const json_t *one = json_array_get(list, 0);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(one, "points")), 1);
    CU_ASSERT(json_is_false(json_object_get(one, "complete")));
    CU_ASSERT(json_is_null(json_object_get(one, "knee")) && json_is_null(json_object_get(one, "best")));
    CU_ASSERT(json_is_null(json_object_get(one, "smallest_with_95_percent")));
    json_decref(list);
    hf_test_free(child);
}

static void interrupts(void)
{
    interrupted("--json");
    interrupted(NULL);
}

static void workers(void)
{
    json_t *list = read_json(
        SWEEP(HF__MYSQL, "--strategy", "lease", "--workers", "4", "--over", "workers", "--handler-ms", "10", "--jobs", "60", "--json"));
    check_points(json_array_get(list, 0), "workers", 1, 4);
    json_decref(list);
}

static void for_people(void)
{
    const char *text = hf_test_expect(SWEEP(HF__POSTGRES, "--strategy", "lease", "--workers", "2", "--handler-ms", "5", "--jobs", "60"), 0);
    hf_test_must_contain(text, "smallest with 95 %");
    hf_test_must_contain(text, "knee");
    hf_test_must_contain(text, "does 95 % of the best throughput");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"a corner", corner},
                           {"it falls again", falls_again},
                           {"a straight line", straight},
                           {"sizes of the pool", pool_sizes},
                           {"every strategy", every_strategy},
                           {"numbers of workers", workers},
                           {"for people", for_people},
                           {"interrupts", interrupts},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_sweep", tests);
}
