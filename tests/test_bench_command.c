/* ctest: timeout=300 labels=e2e
 * holdfast-bench as a program: what it prints, how it exits, what a Ctrl-C and the death of a process leave behind. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench_tables.h"
#include "tests/command.h"
#include "tests/proxy.h"
#include "tests/terminal.h"

#define BENCH(...) bench((const char *const[]){hf_test_program("holdfast-bench"), __VA_ARGS__, NULL})

static struct hf_test_child *bench(const char *const *argv)
{
    return hf_test_start(argv, (const char *const[]){"HOLDFAST_URL", NULL});
}

static int64_t rows_of(pid_t pid)
{
    const char *name = hf_test_bench_table(hf_test_postgres_url(), pid);
    return name ? hf_test_query_int(hf_test_postgres_url(), hf_test_format("SELECT count(*) FROM %s", name)) : 0;
}

static bool table_has_rows(void *ctx)
{
    return rows_of(*(const pid_t *)ctx) > 0;
}

struct watched {
    pid_t pid;
    int64_t most; /* rows that were there */
};

/* All rows were there, and some have gone. */
static bool is_under_way(void *ctx)
{
    struct watched *watched = ctx;
    int64_t rows = rows_of(watched->pid);
    watched->most = rows > watched->most ? rows : watched->most;
    return rows > 0 && rows < watched->most;
}

static void has_keys(const json_t *object, const char *const *keys)
{
    for (; *keys; keys++)
        if (!json_object_get(object, *keys))
            hf_test_fail("the JSON has no key %s", *keys);
}

static void check_keys(const json_t *object)
{
    static const char *const top[] = {"database", "server_version",  "strategy",    "workers", "jobs",       "handler_ms", "batch",
                                      "seconds",  "jobs_per_second", "connections", "model",   "latency_ms", "duplicates", "lost",
                                      NULL};
    static const char *const connections[] = {
        "pool_size",  "peak_open", "peak_in_use", "server_peak", "held_per_delivery", "seconds_per_job", "jobs_per_second_per_connection",
        "by_purpose", NULL};
    has_keys(object, top);
    const json_t *its = json_object_get(object, "connections");
    has_keys(its, connections);
    has_keys(json_object_get(json_object_get(its, "by_purpose"), "row_lock"), (const char *const[]){"peak", "count", "seconds", NULL});
    has_keys(json_object_get(object, "model"), (const char *const[]){"pool_size", "peak_in_use", "held_per_delivery", "holds", NULL});
    has_keys(json_object_get(object, "latency_ms"), (const char *const[]){"p50", "p95", "p99", "max", NULL});
    CU_ASSERT(json_is_true(json_object_get(json_object_get(object, "model"), "holds")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(object, "jobs")), 200);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(object, "lost")), 0);
    CU_ASSERT(json_integer_value(json_object_get(its, "server_peak")) > 0);
}

static void json_and_no_progress(void)
{
    struct hf_test_child *child =
        BENCH("run", "--db", hf_test_postgres_url(), "--strategy", "row_lock", "--jobs", "200", "--handler-ms", "5", "--json");
    pid_t pid = hf_test_pid(child);
    if (hf_test_wait(child, 60000) != 0)
        hf_test_fail("%s", hf_test_stderr(child));
    CU_ASSERT_STRING_EQUAL(hf_test_stderr(child), ""); /* no progress in a pipe, no warning */
    json_error_t error;
    json_t *object = json_loads(hf_test_stdout(child), 0, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    check_keys(object);
    json_decref(object);
    hf_test_free(child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), pid), 0);
}

static void for_people(void)
{
    const char *text =
        hf_test_expect(BENCH("run", "--db", hf_test_postgres_url(), "--strategy", "lease", "--jobs", "200", "--processes", "2"), 0);
    hf_test_must_contain(text, "200 of 200 jobs");
    hf_test_must_contain(text, "in each of 2 processes");
    hf_test_must_contain(text, "lost, run twice");
}

/* Needs no database. */
static void plans(void)
{
    const char *text = hf_test_expect(BENCH("plan", "--workers", "8", "--handler-ms", "250", "--strategy", "lease"), 0);
    hf_test_must_contain(text, "wait for a worker, mean            - (no --rate: the table is always full)\n");
    hf_test_must_contain(text, "wait for a worker, p99             - (no --rate: the table is always full)\n");
    hf_test_must_contain(text, "As asked, lease: ");
    hf_test_must_contain(text, "--claim-ms and --settle-ms, or name a database");
    text = hf_test_expect(BENCH("plan", "--workers", "2", "--handler-ms", "250", "--rate", "100"), 0);
    hf_test_must_contain(text, "wait for a worker, p99             - (jobs arrive faster than they can be done)\n");
    text = hf_test_expect(BENCH("plan", "--rate", "10", "--handler-ms", "250", "--claim-ms", "1", "--settle-ms", "2"), 0);
    hf_test_must_contain(text, "The speed of the database was given.");
    hf_test_must_not_contain(text, " - (");
}

static double planned(const char *const *more, const char *key)
{
    const char *argv[24] = {hf_test_program("holdfast-bench"), "plan", "--json"};
    for (size_t n = 3; *more; more++)
        argv[n++] = *more;
    json_t *object = json_loads(hf_test_expect(bench(argv), 0), 0, NULL);
    double value = json_number_value(json_object_get(object, key));
    json_decref(object);
    return value;
}

#define PLANNED(key, ...) planned((const char *const[]){__VA_ARGS__, NULL}, key)

/* A claim and a settle take as long for a batch as for a row. Of jobs that arrive a worker takes as many as there are. */
static void plans_batches(void)
{
    static const char *const strategies[] = {"row_lock", "advisory", "lease"};
    for (size_t i = 0; i < 3; i++) {
        double each = i < 2 ? 10 : (40 + 256.0) / (4 + 256); /* a lease's claims take what four workers want, and 256 rows ahead */
        double single = PLANNED("jobs_per_second", "--strategy", strategies[i], "--workers", "4", "--claim-ms", "1", "--settle-ms", "1");
        CU_ASSERT_DOUBLE_EQUAL(PLANNED("jobs_per_second", "--strategy", strategies[i], "--workers", "4", "--claim-ms", "1", "--settle-ms",
                                       "1", "--batch", "10"),
                               each * single, 1e-6 * each * single);
        CU_ASSERT_DOUBLE_EQUAL(PLANNED("jobs_per_second", "--strategy", strategies[i], "--workers", "4", "--batch", "10"), each * single,
                               1e-6 * each * single); /* the assumed times are the same */
    }
    CU_ASSERT_EQUAL(PLANNED("jobs_per_second", "--strategy", "row_lock", "--workers", "1", "--rate", "900"), 500);
    CU_ASSERT_EQUAL(PLANNED("jobs_per_second", "--strategy", "row_lock", "--workers", "1", "--rate", "900", "--batch", "10"), 900);
}

/* The options that only plan has. */
static void plans_with(void)
{
    double even = PLANNED("workers", "--strategy", "row_lock", "--rate", "100", "--handler-ms", "20");
    double uneven = PLANNED("workers", "--strategy", "row_lock", "--rate", "100", "--handler-ms", "20", "--handler-p99-ms", "400");
    CU_ASSERT(even > 2 && uneven >= even);
    CU_ASSERT(PLANNED("workers_enough", "--strategy", "row_lock", "--rate", "100", "--handler-ms", "20", "--workers", "1") == even);
    CU_ASSERT_EQUAL(PLANNED("fleet_connections", "--strategy", "row_lock", "--workers", "4", "--processes", "3", "--overlap"), 30);
    CU_ASSERT_EQUAL(PLANNED("fleet_connections", "--strategy", "row_lock", "--workers", "4", "--processes", "3", "--overlap=1"), 20);
    CU_ASSERT_EQUAL(PLANNED("reserve", "--workers", "4", "--reserve", "7"), 7);
    const char *text = hf_test_expect(BENCH("plan", "--strategy", "row_lock", "--workers", "4", "--processes", "3", "--max-connections",
                                            "20", "--reserve", "6", "--handler-ms", "50"),
                                      0);
    hf_test_must_contain(text, "The fleet wants 15 connections of the 14 that the server has beside its reserve of 6: it does not fit.");
    hf_test_must_contain(text, "15: more than the server has\n");
    hf_test_must_contain(text, "The answer changes to row_lock with"); /* 15 are more than a quarter of 20 */
}

/* A database that is named is asked what it allows, and measured. */
static void plans_for(const char *url, bool has_limit)
{
    const char *file = hf_test_write_file(hf_test_place(HF__SQLITE, "lease").dir, "url", url, strlen(url));
    struct hf_test_child *child = BENCH("plan", "--db-file", file, "--strategy", "lease", "--workers", "2", "--handler-ms", "20", "--json");
    pid_t pid = hf_test_pid(child);
    if (hf_test_wait(child, 120000) != 0)
        hf_test_fail("%s", hf_test_stderr(child));
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(object, "speed")), "measured");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(object, "max_connections")) > 0, has_limit);
    double jobs_per_second = json_number_value(json_object_get(object, "jobs_per_second"));
    CU_ASSERT(jobs_per_second > 10 && jobs_per_second <= 100);
    json_decref(object);
    hf_test_free(child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(url, pid), 0);
}

static void plans_measured(void)
{
    plans_for(hf_test_postgres_url(), true);
    plans_for(hf_test_mysql_url(), true);
    plans_for(hf_test_sqlite_url(), false);
}

static void wrong_usage(void)
{
    hf_test_expect_error(BENCH("run", "--strategy", "lease"), 2);
    hf_test_expect_error(BENCH("run", "--db", "sqlite:x", "--strategy", "both"), 2);
    hf_test_must_contain(hf_test_expect_error(BENCH("dance"), 2), "there is no command \"dance\"");
    hf_test_must_contain(hf_test_expect(BENCH("--version"), 0), "holdfast-bench ");
    hf_test_must_contain(hf_test_expect(BENCH("--help"), 0), "compare");
    const char *text = hf_test_expect_error(BENCH("run", "--db", "postgresql://me:secret@127.0.0.1:1/x", "--strategy", "lease"), 1);
    hf_test_must_not_contain(text, "secret");
    const char *const raw[][2] = {{"--processes", "2"}, {"--fail", "0.1"}, {"--batch", "2"}, {"--rate", "9"}};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        hf_test_must_contain(
            hf_test_expect_error(BENCH("run", "--db", "sqlite:x", "--strategy", "lease", "--raw", raw[i][0], raw[i][1]), 2), raw[i][0]);
    hf_test_must_contain(hf_test_expect_error(BENCH("run", "--db", "sqlite:x", "--strategy", "lease", "--rounds", "2"), 2), "--raw");
    hf_test_must_contain(hf_test_expect_error(BENCH("plan", "--rate", "1e-300"), 2), "--rate takes 0 or a number from");
    hf_test_must_contain(hf_test_expect_error(BENCH("sweep", "--db", "sqlite:x", "--rate", "1e-9"), 2), "--rate takes 0 or");
}

static void is_refused(const char *const *argv, const char *words)
{
    struct hf_test_child *child = bench(argv);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 1);
    hf_test_must_contain(hf_test_stderr(child), words);
    CU_ASSERT_STRING_EQUAL(hf_test_stdout(child), "");
    hf_test_free(child);
}

/* It is known before anything runs, and a comparison goes on without. */
static void not_offered(void)
{
    static const char *const commands[] = {"run", "plan", "verify", "sweep"};
    const char *program = hf_test_program("holdfast-bench"), *url = hf_test_sqlite_url();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        is_refused((const char *const[]){program, commands[i], "--db", url, "--workers", "2", "--strategy", "row_lock", NULL},
                   "SQLite has no row locks");
        is_refused(
            (const char *const[]){program, commands[i], "--db", url, "--workers", "2", "--strategy", "advisory", "--processes", "2", NULL},
            "leave --processes 2 out");
    }
    struct hf_test_child *child =
        BENCH("compare", "--db", url, "--workers", "1", "--processes", "2", "--jobs", "20", "--lease-seconds", "1");
    CU_ASSERT_EQUAL(hf_test_wait(child, 60000), 0);
    hf_test_must_contain(hf_test_stderr(child), "advisory lock is left out");
    hf_test_must_contain(hf_test_stdout(child), "1 workers in each of 2 processes");
    hf_test_free(child);
    child = BENCH("sweep", "--db", url, "--workers", "1", "--processes", "2", "--jobs", "20");
    CU_ASSERT_EQUAL(hf_test_wait(child, 60000), 0);
    hf_test_must_contain(hf_test_stderr(child), "advisory is left out");
    hf_test_must_contain(hf_test_stdout(child), "lease\n");
    hf_test_free(child);
}

static void interrupted(int signal_number, const char *processes)
{
    struct hf_test_child *child = BENCH("run", "--db", hf_test_postgres_url(), "--strategy", "row_lock", "--jobs", "500", "--handler-ms",
                                        "uniform:30-300", "--processes", processes, "--json");
    pid_t pid = hf_test_pid(child);
    struct watched watched = {.pid = pid};
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(is_under_way, &watched, 20000));
    hf_test_kill(child, signal_number);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 1);
    hf_test_must_contain(hf_test_stderr(child), "interrupted");
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    json_int_t done = json_integer_value(json_object_get(object, "done")), left = json_integer_value(json_object_get(object, "left"));
    CU_ASSERT_EQUAL(done + left, json_integer_value(json_object_get(object, "jobs")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(object, "lost")), 0);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(object, "duplicates")), 0);
    json_decref(object);
    hf_test_free(child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), pid), 0);
}

static void interrupts(void)
{
    interrupted(SIGINT, "1");
    interrupted(SIGTERM, "3");
}

/* Before a job was done there is nothing to print. */
static void interrupted_at_once(void)
{
    struct hf_test_child *child =
        BENCH("run", "--db", hf_test_postgres_url(), "--strategy", "lease", "--jobs", "20", "--handler-ms", "600000");
    pid_t pid = hf_test_pid(child);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(table_has_rows, &pid, 20000));
    hf_test_kill(child, SIGINT);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 1);
    hf_test_must_contain(hf_test_stderr(child), "interrupted");
    CU_ASSERT_STRING_EQUAL(hf_test_stdout(child), "");
    hf_test_free(child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), pid), 0);
}

/* A child of the process, whichever comes first. 0: there is none. */
static pid_t child_of(pid_t pid)
{
    const char *children = hf_test_read_file(hf_test_format("/proc/%ld/task/%ld/children", (long)pid, (long)pid));
    return (pid_t)strtol(children, NULL, 10);
}

/* SIGINT means again what it meant before. */
static bool has_noticed(void *arg)
{
    const char *status = hf_test_read_file(hf_test_format("/proc/%ld/status", (long)*(const pid_t *)arg));
    const char *caught = strstr(status, "SigCgt:");
    return caught && (strtoull(caught + 7, NULL, 16) & (UINT64_C(1) << (SIGINT - 1))) == 0;
}

/* Or dead, and not yet waited for by whoever has inherited it. */
static bool is_gone(void *arg)
{
    const char *status = hf_test_read_file(hf_test_format("/proc/%ld/status", (long)*(const pid_t *)arg));
    return *status == '\0' || strstr(status, "State:\tZ") != NULL;
}

/* A worker of each process, in its handler. */
static bool all_hold(void *arg)
{
    const char *name = hf_test_bench_table(hf_test_postgres_url(), *(const pid_t *)arg);
    return name &&
           hf_test_query_int(hf_test_postgres_url(), hf_test_format("SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity "
                                                                    "USING (pid) WHERE relation = '%s'::regclass AND state = "
                                                                    "'idle in transaction'",
                                                                    name)) == 2;
}

/* The server does not answer any more: who interrupts twice does not wait for it. A process that ends in order would, to give its row back,
 * for longer than is waited for here. */
static void interrupted_twice(const char *workers, const char *processes)
{
    struct hf_test_proxy *proxy = hf_test_proxy_open(HF__POSTGRES);
    struct hf_test_child *child = BENCH("run", "--db", hf_test_proxy_url(proxy), "--strategy", "row_lock", "--jobs", "20", "--handler-ms",
                                        "600000", "--workers", workers, "--processes", processes);
    pid_t pid = hf_test_pid(child);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(all_hold, &pid, 20000));
    hf_test_proxy_hold(proxy, true);
    hf_test_kill(child, SIGINT);
    CU_ASSERT_TRUE(hf_test_wait_until(has_noticed, &pid, 20000));
    pid_t worker = child_of(pid);
    CU_ASSERT_EQUAL(worker > 0, strcmp(processes, "1") != 0);
    hf_test_kill(child, SIGINT);
    CU_ASSERT_EQUAL(hf_test_wait(child, 5000), HF_TEST_SIGNALLED + SIGINT);
    CU_ASSERT(worker <= 0 || hf_test_wait_until(is_gone, &worker, 2500));
    hf_test_proxy_hold(proxy, false);
    hf_test_proxy_close(proxy);
    hf_test_free(child);
    hf_test_sql(hf_test_postgres_url(), hf_test_format("DROP TABLE %s", hf_test_bench_table(hf_test_postgres_url(), pid)));
}

static void interrupts_twice(void)
{
    interrupted_twice("2", "1");
    interrupted_twice("1", "2");
}

/* On a terminal a bar shows how far it is, how fast and how long it will take, and goes when the run ends. */
static void progress_on_a_terminal(void)
{
    const char *const argv[] = {hf_test_program("holdfast-bench"),
                                "run",
                                "--db",
                                hf_test_postgres_url(),
                                "--strategy",
                                "lease",
                                "--workers",
                                "2",
                                "--handler-ms",
                                "30",
                                "--jobs",
                                "100",
                                NULL};
    int code = -1;
    const char *text = hf_test_on_terminal(argv, &code);
    CU_ASSERT_EQUAL(code, 0);
    hf_test_must_contain(text, "\r\033[K");
    hf_test_must_contain(text, "###");
    hf_test_must_contain(text, " of 100, ");
    hf_test_must_contain(text, "/s, ");
    hf_test_must_contain(text, " s left");
    const char *cleared = strstr(text, "\r\033[K"), *report = strstr(text, "100 of 100 jobs");
    CU_ASSERT_PTR_NOT_NULL_FATAL(report);
    for (const char *next = cleared; next; next = strstr(next + 1, "\r\033[K"))
        cleared = next;
    CU_ASSERT(cleared && cleared < report); /* nothing of the bar stays */
    CU_ASSERT_PTR_NULL(strstr(report, "##"));
}

static bool is_under_way_in_children(void *ctx)
{
    return child_of(((const struct watched *)ctx)->pid) > 0 && is_under_way(ctx);
}

/* One of the processes is killed: the others end, what became of each job is told, and the exit status says that it went wrong. */
static void killed_process(const char *strategy)
{
    struct hf_test_child *child = BENCH("run", "--db", hf_test_postgres_url(), "--strategy", strategy, "--jobs", "400", "--handler-ms",
                                        "50", "--workers", "2", "--processes", "3", "--json");
    pid_t pid = hf_test_pid(child);
    struct watched watched = {.pid = pid};
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(is_under_way_in_children, &watched, 20000));
    pid_t victim = child_of(pid);
    CU_ASSERT_FATAL(victim > 0);
    kill(victim, SIGKILL);
    CU_ASSERT_EQUAL(hf_test_wait(child, 60000), 1);
    hf_test_must_contain(hf_test_stderr(child), hf_test_format("process %ld of the run was killed by signal 9", (long)victim));
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    json_int_t done = json_integer_value(json_object_get(object, "done")), left = json_integer_value(json_object_get(object, "left"));
    json_int_t lost = json_integer_value(json_object_get(object, "lost"));
    CU_ASSERT(done > 0 && done < 400);
    CU_ASSERT_EQUAL(done + left + lost, 400);
    json_decref(object);
    hf_test_free(child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_postgres_url(), pid), 0);
}

static void killed_processes(void)
{
    killed_process("row_lock");
    killed_process("lease");
    killed_process("advisory");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"JSON, and no progress in a pipe", json_and_no_progress},
                           {"for people", for_people},
                           {"plans", plans},
                           {"plans of batches", plans_batches},
                           {"plans with its own options", plans_with},
                           {"plans that measure", plans_measured},
                           {"wrong usage", wrong_usage},
                           {"what is not offered", not_offered},
                           {"interrupts", interrupts},
                           {"interrupted at once", interrupted_at_once},
                           {"interrupted twice", interrupts_twice},
                           {"progress on a terminal", progress_on_a_terminal},
                           {"a process is killed", killed_processes},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_command", tests);
}
