/* ctest: timeout=240 labels=e2e
 * The hand-written loop: every row is done once, on every strategy of every database, and what goes wrong is told. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench/bench_table.h"
#include "bench/offered.h"
#include "bench/raw.h"
#include "bench/run.h"
#include "bench/tally.h"
#include "tests/session.h"
#include "tests/support.h"

enum { JOBS = 200, THREADS = 4, WAIT_MS = 30000 };

struct bed {
    char name[BENCH_TABLE_NAME];
    struct bench_options options;
    struct bench_workload workload;
    struct bench_raw_input input;
    struct bench_raw_output output;
    hf_runtime *side;
    hf_table *table;
    hf_status status;
    hf_error err;
    pthread_t thread;
};

static void set_up(struct bed *bed, const char *url, hf_strategy strategy, const char *handler)
{
    char *why = NULL;
    *bed = (struct bed){.options = {.url = url, .strategy = strategy, .workers = THREADS, .jobs = JOBS, .lease_seconds = 30}};
    CU_ASSERT_TRUE_FATAL(bench_distribution_parse(handler, &bed->options.handler, &why));
    HF_TEST_OK(bench_workload_make(&bed->options, &bed->workload, &bed->err), &bed->err);
    bench_table_name(bed->name);
    HF_TEST_OK(hf_runtime_open(url, NULL, &bed->side, &bed->err), &bed->err);
    HF_TEST_OK(bench_table_describe(&bed->options, bed->name, &bed->table, &bed->err), &bed->err);
    HF_TEST_OK(bench_table_make(bed->side, bed->table, &bed->err), &bed->err);
    bed->input = (struct bench_raw_input){&bed->options, bed->name, &bed->workload, THREADS, -1};
}

static void fill(struct bed *bed)
{
    HF_TEST_OK(bench_table_add(bed->side, bed->table, &bed->workload, 0, bed->workload.n, 0, &bed->err), &bed->err);
}

static int64_t left(const struct bed *bed)
{
    return hf_test_query_int(bed->options.url, hf_test_format("SELECT count(*) FROM %s", bed->name));
}

static void run(struct bed *bed)
{
    bed->status = bench_raw_run(&bed->input, &bed->output, &bed->err);
}

static void *run_beside(void *arg)
{
    run(arg);
    return NULL;
}

static void tear_down(struct bed *bed)
{
    hf_test_sql(bed->options.url, hf_test_format("DROP TABLE IF EXISTS %s", bed->name));
    hf_runtime_close(bed->side);
    hf_table_free(bed->table);
    bench_workload_free(&bed->workload);
    bench_distribution_free(&bed->options.handler);
}

static void expect_all_done(struct bed *bed, size_t failed)
{
    HF_TEST_OK(bed->status, &bed->err);
    CU_ASSERT_EQUAL(bed->output.done, JOBS);
    CU_ASSERT_EQUAL(bed->output.lost, 0);
    CU_ASSERT_EQUAL(bed->output.duplicates, 0);
    CU_ASSERT_EQUAL(bed->output.errors, 0);
    CU_ASSERT_EQUAL(bed->output.failed, failed);
    CU_ASSERT(bed->output.seconds > 0);
    CU_ASSERT_DOUBLE_EQUAL(bed->output.jobs_per_second, JOBS / bed->output.seconds, 1e-6 * bed->output.jobs_per_second);
    CU_ASSERT_EQUAL(left(bed), 0);
}

/* Each fifth job fails, up to three times. */
static size_t make_failures(struct bed *bed)
{
    size_t sum = 0;
    for (size_t i = 0; i < bed->workload.n; i += 5)
        sum += bed->workload.jobs[i].fail = 1 + (unsigned)(i / 5 % 3);
    return sum;
}

/* What a commit to the disk costs is not what is tested. */
static const char *url_of(enum hf__database database)
{
    return database == HF__SQLITE ? hf_test_format("%s&synchronous=off", hf_test_sqlite_url()) : hf_test_url(database);
}

static void drain(const char *url, hf_strategy strategy, const char *handler, size_t connections, bool failures)
{
    struct bed bed;
    set_up(&bed, url, strategy, handler);
    size_t failed = failures ? make_failures(&bed) : 0;
    bed.input.connections = connections;
    fill(&bed);
    run(&bed);
    expect_all_done(&bed, failed);
    tear_down(&bed);
}

static void strategies(enum hf__database database)
{
    hf_strategy offered[3];
    size_t n = bench_strategies(hf_test_url(database), offered);
    for (size_t i = 0; i < n; i++) {
        if (offered[i] == HF_ADVISORY_LOCK && !hf_test_has_keys(database))
            continue;
        drain(url_of(database), offered[i], "0", THREADS, false);
        drain(url_of(database), offered[i], "exp:2", THREADS, true);
        drain(url_of(database), offered[i], "1", 2, true);
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

/* Many more threads than candidates in one look. */
static void many_threads(void)
{
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        set_up(&bed, i == 0 ? hf_test_postgres_url() : hf_test_mysql_url(), HF_ADVISORY_LOCK, "1");
        bed.options.workers = bed.input.connections = 40;
        fill(&bed);
        run(&bed);
        expect_all_done(&bed, 0);
        tear_down(&bed);
    }
}

/* At this level the claims of several threads refuse each other: each refusal is a try that is made again. */
static void serialization_failures(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_LEASE, "0");
    bed.options.url = hf_test_format("%s?options=-c%%20default_transaction_isolation%%3Drepeatable%%5C%%20read", bed.options.url);
    fill(&bed);
    run(&bed);
    expect_all_done(&bed, 0);
    CU_ASSERT(bed.output.repeated > 0);
    tear_down(&bed);
}

/* ---- what goes wrong ---- */

static bool is_begun(void *arg)
{
    return left(arg) < JOBS;
}

/* Sessions with this name are of this run alone. */
static void name_sessions(struct bed *bed)
{
    bed->options.url = hf_test_format("%s?application_name=%s", bed->options.url, bed->name);
}

static bool all_hold_a_row(void *arg)
{
    const struct bed *bed = arg;
    const char *sql = hf_test_format("SELECT count(*) FROM %s WHERE attempt > 1", bed->name);
    if (bed->options.strategy == HF_ROW_LOCK)
        sql = hf_test_format("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND state = 'idle in transaction'",
                             bed->name);
    return hf_test_query_int(hf_test_postgres_url(), sql) == THREADS;
}

static bool one_is_left(void *arg)
{
    return left(arg) == 1;
}

static void expect_error(struct bed *bed, hf_status expected)
{
    CU_ASSERT_EQUAL(bed->status, expected);
    CU_ASSERT_EQUAL(bed->err.status, bed->status);
    CU_ASSERT_NOT_EQUAL(bed->err.message[0], '\0');
    CU_ASSERT_EQUAL(bed->output.lost, JOBS - bed->output.done);
}

static void no_table(enum hf__database database)
{
    struct bed bed;
    set_up(&bed, url_of(database), HF_LEASE, "0");
    bed.input.table = "holdfast_bench_none";
    run(&bed);
    expect_error(&bed, HF_DATABASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "holdfast_bench_none"));
    tear_down(&bed);
}

static void table_goes(enum hf__database database)
{
    struct bed bed;
    set_up(&bed, url_of(database), HF_LEASE, "10");
    fill(&bed);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&bed.thread, NULL, run_beside, &bed), 0);
    bool begun = hf_test_wait_until(is_begun, &bed, WAIT_MS);
    hf_status dropped = hf_test_try_sql(bed.options.url, hf_test_format("DROP TABLE %s", bed.name), NULL);
    pthread_join(bed.thread, NULL);
    CU_ASSERT(begun && dropped == HF_OK);
    expect_error(&bed, HF_DATABASE);
    CU_ASSERT(bed.output.errors > 0);
    tear_down(&bed);
}

static void server_errors(void)
{
    static const enum hf__database all[] = {HF__POSTGRES, HF__MYSQL, HF__SQLITE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        no_table(all[i]);
        table_goes(all[i]);
    }
}

/* The rows that a thread holds go away under its handler. */
static void row_is_taken(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_LEASE, "50");
    fill(&bed);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&bed.thread, NULL, run_beside, &bed), 0);
    bool begun = hf_test_wait_until(is_begun, &bed, WAIT_MS);
    hf_status taken = hf_test_try_sql(bed.options.url, hf_test_format("UPDATE %s SET locked_until = now()", bed.name), NULL);
    pthread_join(bed.thread, NULL);
    CU_ASSERT(begun && taken == HF_OK);
    expect_error(&bed, HF_LEASE_LOST);
    tear_down(&bed);
}

static void lost_connections(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_ROW_LOCK, "20");
    name_sessions(&bed);
    fill(&bed);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&bed.thread, NULL, run_beside, &bed), 0);
    bool begun = hf_test_wait_until(is_begun, &bed, WAIT_MS);
    const char *sql = hf_test_format("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '%s'", bed.name);
    hf_status cut = hf_test_try_sql(hf_test_postgres_admin_url(), sql, NULL);
    pthread_join(bed.thread, NULL);
    CU_ASSERT(begun && cut == HF_OK);
    CU_ASSERT(bed.status != HF_OK && bed.status != HF_TRANSIENT);
    CU_ASSERT(left(&bed) + (int64_t)bed.output.done >= JOBS - THREADS && left(&bed) + (int64_t)bed.output.done <= JOBS);
    tear_down(&bed);
}

static void not_our_row(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_ROW_LOCK, "0");
    hf_test_sql(bed.options.url, hf_test_format("INSERT INTO %s (payload) VALUES ('mine')", bed.name));
    run(&bed);
    expect_error(&bed, HF_DATABASE);
    CU_ASSERT_EQUAL(left(&bed), 1);
    tear_down(&bed);
}

/* ---- waiting ---- */

/* The last row is somebody else's for a while. */
static void row_comes_late(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_ROW_LOCK, "0");
    fill(&bed);
    struct hf__conn *other = hf_test_session(bed.options.url);
    hf_test_session_run(other, "BEGIN");
    hf_test_session_run(other, hf_test_format("SELECT 1 FROM %s WHERE id = 100 FOR UPDATE", bed.name));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&bed.thread, NULL, run_beside, &bed), 0);
    bool waits = hf_test_wait_until(one_is_left, &bed, WAIT_MS);
    hf__conn_close(other);
    pthread_join(bed.thread, NULL);
    CU_ASSERT(waits);
    expect_all_done(&bed, 0);
    tear_down(&bed);
}

static void stops(hf_strategy strategy)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), strategy, "20000");
    name_sessions(&bed);
    fill(&bed);
    bed.input.stop_fd = eventfd(0, EFD_CLOEXEC);
    int64_t begin_ms = hf_test_now_ms();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&bed.thread, NULL, run_beside, &bed), 0);
    bool begun = hf_test_wait_until(all_hold_a_row, &bed, WAIT_MS);
    bench_event(bed.input.stop_fd);
    pthread_join(bed.thread, NULL);
    CU_ASSERT(begun && hf_test_now_ms() - begin_ms < 15000);
    expect_error(&bed, HF_STOPPED);
    CU_ASSERT_EQUAL(bed.output.errors, 0);
    CU_ASSERT_EQUAL(left(&bed), JOBS); /* none was settled, and none is held */
    close(bed.input.stop_fd);
    tear_down(&bed);
}

static void interrupted(void)
{
    stops(HF_ROW_LOCK);
    stops(HF_LEASE);
    stops(HF_ADVISORY_LOCK);
}

static void refused(void)
{
    struct bed bed;
    set_up(&bed, hf_test_postgres_url(), HF_LEASE, "2000");
    bed.options.lease_seconds = 2;
    run(&bed);
    expect_error(&bed, HF_INVALID);
    bed.options.lease_seconds = 3;
    bed.options.url = hf_test_format("%s?pooler=transaction", hf_test_postgres_url());
    run(&bed);
    expect_error(&bed, HF_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(strstr(bed.err.message, "f@st"));
    CU_ASSERT_PTR_NULL(strstr(bed.err.message, "f%40st"));
    bed.options.url = hf_test_sqlite_url();
    bed.options.strategy = HF_ROW_LOCK;
    run(&bed);
    expect_error(&bed, HF_UNSUPPORTED);
    bed.options.url = hf_test_postgres_url();
    tear_down(&bed);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"every strategy on PostgreSQL", on_postgres},
                           {"every strategy on MariaDB", on_mysql},
                           {"every strategy on SQLite", on_sqlite},
                           {"more threads than candidates", many_threads},
                           {"serialization failures", serialization_failures},
                           {"the server's errors", server_errors},
                           {"a row that is taken away", row_is_taken},
                           {"connections that are lost", lost_connections},
                           {"a row that the bench did not make", not_our_row},
                           {"a row that comes free late", row_comes_late},
                           {"an interrupt", interrupted},
                           {"what is refused", refused},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_raw", tests);
}
