/* ctest: timeout=240 labels=e2e
 * MySQL and MariaDB with a binary log of statements, on a server of this suite's own: what would fail at the first claim is refused when
 * the subscription starts, and what can be written to such a log runs. */
#include <string.h>

#include "tests/command.h"
#include "tests/jobs.h"
#include "tests/own_server.h"
#include "tests/session.h"

/* ---- the server ---- */

#define SERVER "binlog"

static void start_server(void)
{
    hf_test_own_server_start(SERVER, "--log-bin --binlog-format=STATEMENT --sync-binlog=0 --server-id=1");
    CU_ASSERT_STRING_EQUAL_FATAL(hf_test_query_text(hf_test_mysql_url(), "SELECT @@global.binlog_format"), "STATEMENT");
}

/* ---- subscriptions ---- */

static const char repeatable_read[] = ", \"isolation\": \"repeatable_read\"";
static const struct {
    hf_strategy strategy;
    const char *settings;
    bool transactional, refused;
} cases[] = {
    {HF_ROW_LOCK, NULL, false, true},
    {HF_ROW_LOCK, ", \"isolation\": \"read_committed\"", true, true},
    {HF_LEASE, NULL, false, true},
    {HF_LEASE, repeatable_read, true, true}, /* its claims are not of that level */
    {HF_ADVISORY_LOCK, NULL, false, true},
    {HF_ADVISORY_LOCK, repeatable_read, true, true},
    {HF_ROW_LOCK, repeatable_read, false, false},
    {HF_ROW_LOCK, repeatable_read, true, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static hf_outcome by_id(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    hf_delivery_set_delay(delivery, 0);
    return id == 1 ? HF_ACK : id == 2 ? HF_RETRY : id == 3 ? HF_REJECT : hf_delivery_attempt(delivery) == 1 ? HF_RETRY_AFTER : HF_ACK;
}

static hf_runtime *subscribed(struct hf_test_jobs *jobs, size_t i)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    struct hf_test_shape shape = {.settings = hf_test_format("%s, \"max_attempts\": 2", cases[i].settings ? cases[i].settings : ""),
                                  .dead_table = true};
    hf_test_jobs_open_shape(jobs, (struct hf_test_kind){HF__MYSQL, cases[i].strategy}, 30, shape);
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    subscription.transactional = cases[i].transactional;
    subscription.workers = 2;
    subscription.poll_ms = 50;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &subscription, by_id, jobs, NULL, &err), &err);
    return runtime;
}

static void refused(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_UNSUPPORTED, &err);
    hf_test_must_contain(err.message, jobs->name);
    hf_test_must_contain(err.message, "binlog_format is STATEMENT");
    hf_test_must_contain(err.message, "set binlog_format to ROW or MIXED");
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

/* Two rows are acked, one of them by its second run, one is used up and one rejected. */
static void runs(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    struct hf__conn *session = hf_test_session(jobs->url);
    hf_test_session_run(session, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    hf_test_session_run(session, hf_test_format("INSERT INTO %s (id) VALUES (1), (2), (3), (4)", jobs->name));
    hf__conn_close(session);
    hf_test_wait_for_runs(jobs, 6);
    hf_test_jobs_finish(jobs, runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 6);
    CU_ASSERT_EQUAL(hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s_dead WHERE id IN (2, 3)", jobs->name)), 2);
}

static void test_statements(void)
{
    start_server();
    for (size_t i = 0; i < CASES; i++) {
        struct hf_test_jobs jobs;
        hf_runtime *runtime = subscribed(&jobs, i);
        (cases[i].refused ? refused : runs)(&jobs, runtime);
        hf_test_jobs_close(&jobs);
    }
}

static void test_other_formats(void)
{
    static const char *const formats[] = {"MIXED", "ROW"};
    start_server();
    for (size_t f = 0; f < 2; f++) {
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("SET GLOBAL binlog_format = '%s'", formats[f]));
        for (size_t i = 0; i < CASES; i++) {
            struct hf_test_jobs jobs;
            hf_runtime *runtime = subscribed(&jobs, i);
            runs(&jobs, runtime);
            hf_test_jobs_close(&jobs);
        }
    }
    hf_test_sql(hf_test_mysql_admin_url(), "SET GLOBAL binlog_format = 'STATEMENT'");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"a log of statements", test_statements}, {"other logs", test_other_formats}, CU_TEST_INFO_NULL};
    int status = hf_test_main(argc, argv, "binlog", tests);
    return hf_test_own_server_stop(SERVER) == 0 ? status : 1;
}
