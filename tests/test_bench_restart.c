/* ctest: timeout=240 labels=e2e serial
 * A run of holdfast-bench whose handlers fail, whose leases are taken away and whose server is killed: it counts what was done and not
 * what was tried (case 121). Serial, because other suites share the server. */
#include <jansson.h>
#include <string.h>

#include "tests/bench_tables.h"
#include "tests/command.h"

enum { JOBS = 600, LIMIT_MS = 120000 };

struct watched {
    enum hf__database database;
    struct hf_test_child *child;
    const char *table; /* NULL: not yet found */
    int64_t most;      /* rows that were there */
};

static bool find_table(void *ctx)
{
    struct watched *watched = ctx;
    watched->table = hf_test_bench_table(hf_test_url(watched->database), hf_test_pid(watched->child));
    return watched->table != NULL;
}

/* Or over already, with its table gone, on a machine that let us stand for seconds. */
static bool is_under_way(void *ctx)
{
    struct watched *watched = ctx;
    if (!find_table(ctx))
        return true;
    int64_t rows = hf_test_query_int(hf_test_url(watched->database), hf_test_format("SELECT count(*) FROM %s", watched->table));
    watched->most = rows > watched->most ? rows : watched->most;
    return watched->most == JOBS && rows < JOBS * 9 / 10;
}

static void take_leases_away(const struct watched *watched)
{
    const char *past = watched->database == HF__POSTGRES ? "now()" : "utc_timestamp(6)";
    hf_test_sql(hf_test_url(watched->database),
                hf_test_format("UPDATE %s SET locked_until = %s WHERE locked_until > %s", watched->table, past, past));
}

static json_int_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    CU_ASSERT(json_is_integer(value));
    return json_integer_value(value);
}

static void check_result(struct hf_test_child *child, int code, bool lease)
{
    json_t *object = json_loads(hf_test_stdout(child), 0, NULL);
    if (!object) {
        hf_test_fail("the run ended with %d and no result: %s", code, hf_test_stderr(child));
        return;
    }
    json_int_t done = integer(object, "done"), left = integer(object, "left"), lost = integer(object, "lost");
    json_int_t twice = integer(object, "duplicates"), errors = integer(object, "errors");
    if (done + left + lost != JOBS)
        hf_test_fail("%lld done, %lld left, %lld lost, of %d: %s", (long long)done, (long long)left, (long long)lost, JOBS,
                     hf_test_stderr(child));
    CU_ASSERT(done > 0 && done <= JOBS);
    CU_ASSERT(integer(object, "failed") > JOBS / 10);
    double seconds = json_number_value(json_object_get(object, "seconds"));
    double rate = json_number_value(json_object_get(object, "jobs_per_second"));
    CU_ASSERT_DOUBLE_EQUAL(rate * seconds, (double)done, 0.01 * (double)done);
    CU_ASSERT(!lease || twice + errors > 0);
    CU_ASSERT_EQUAL(code, left + lost + twice + errors > 0 ? 1 : 0);
    json_decref(object);
}

static struct watched begun(enum hf__database database, const char *strategy)
{
    struct watched watched = {.database = database};
    watched.child = hf_test_start((const char *const[]){hf_test_program("holdfast-bench"), "run", "--db", hf_test_url(database),
                                                        "--strategy", strategy, "--workers", "4", "--jobs", "600", "--handler-ms",
                                                        "uniform:10-30", "--fail", "0.3", "--lease-seconds", "3", "--json", NULL},
                                  NULL);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(find_table, &watched, LIMIT_MS));
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(is_under_way, &watched, LIMIT_MS));
    return watched;
}

/* A run that was over before it was seen in its midst says nothing: then another one. */
static struct watched under_way(enum hf__database database, const char *strategy)
{
    enum { MOST_RUNS = 5 };
    struct watched watched = begun(database, strategy);
    for (int i = 1; i < MOST_RUNS && !watched.table; i++) {
        CU_ASSERT_EQUAL(hf_test_wait(watched.child, LIMIT_MS), 0);
        hf_test_free(watched.child);
        watched = begun(database, strategy);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(watched.table);
    return watched;
}

static void killed_under(enum hf__database database, const char *strategy)
{
    bool lease = strcmp(strategy, "lease") == 0;
    const char *server = database == HF__POSTGRES ? "postgres" : "mariadb";
    struct watched watched = under_way(database, strategy);
    if (lease)
        take_leases_away(&watched);
    hf_test_server("kill", server);
    hf_test_server("start", server);
    int code = hf_test_wait(watched.child, LIMIT_MS);
    check_result(watched.child, code, lease);
    pid_t pid = hf_test_pid(watched.child);
    hf_test_free(watched.child);
    CU_ASSERT_EQUAL(hf_test_bench_tables(hf_test_url(database), pid), 0);
}

static void on_postgres(void)
{
    killed_under(HF__POSTGRES, "row_lock");
    killed_under(HF__POSTGRES, "lease");
    killed_under(HF__POSTGRES, "advisory");
}

static void on_mysql(void)
{
    killed_under(HF__MYSQL, "row_lock");
    killed_under(HF__MYSQL, "lease");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"PostgreSQL is killed", on_postgres}, {"MariaDB is killed", on_mysql}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_restart", tests);
}
