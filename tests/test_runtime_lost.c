/* ctest: timeout=240 labels=e2e
 * Connections that die: under a handler, under a claim, all at once. */
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs.h"

/* Those whose deliveries hold a connection on a server. */
static const struct hf_test_kind holding[] = {
    {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_ADVISORY_LOCK}, {HF__MYSQL, HF_ROW_LOCK}, {HF__MYSQL, HF_ADVISORY_LOCK}};
static const struct hf_test_kind serving[] = {
    {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__POSTGRES, HF_ADVISORY_LOCK},
    {HF__MYSQL, HF_ROW_LOCK},    {HF__MYSQL, HF_LEASE},    {HF__MYSQL, HF_ADVISORY_LOCK},
};

static void on(const struct hf_test_kind *kinds, size_t n, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < n; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, kinds[i], 2);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.keepalive_ms = 500;
    options.application_name = "hf-lost";
    subscription.workers = workers;
    subscription.poll_ms = 50;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &subscription, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

/* Ends every session of the runtime on the server. */
static void kill_sessions(const struct hf_test_jobs *jobs)
{
    if (jobs->kind.database == HF__POSTGRES) {
        (void)hf_test_query_int(hf_test_postgres_admin_url(),
                                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'hf-lost'");
        return;
    }
    const char *admin = hf_test_mysql_admin_url(), *last = "0", *id;
    while ((id = hf_test_query_text(admin,
                                    hf_test_format("SELECT CAST(MIN(processlist_id) AS CHAR) FROM performance_schema.session_connect_attrs "
                                                   "WHERE attr_name = 'program_name' AND attr_value = 'hf-lost' AND processlist_id > %s",
                                                   last)))) {
        hf_error err;
        (void)hf_test_try_sql(admin, hf_test_format("KILL %s", id), &err); /* it may have ended by itself */
        last = id;
    }
}

/* ---- under a handler ---- */

static atomic_int cancelled, settled;

static hf_outcome first_waits(hf_delivery *delivery, void *ctx)
{
    bool first = hf_test_n_runs(ctx) == 0;
    size_t run = hf_test_run_begin(ctx, delivery);
    if (first) {
        atomic_store(&cancelled, (int)hf_delivery_wait(delivery, 60000));
        hf_test_run_end(ctx, run);
        atomic_store(&settled, (int)hf_delivery_settle(delivery, HF_ACK, NULL));
        return HF_ACK;
    }
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void lost_under_a_handler_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    atomic_store(&cancelled, 0);
    hf_runtime *runtime = start(jobs, 2, first_waits);
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    kill_sessions(jobs);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 90000, &err), &err);
    CU_ASSERT_EQUAL(atomic_load(&cancelled), HF_CANCEL_LOST);
    CU_ASSERT_EQUAL(atomic_load(&settled), HF_LOST);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lost"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, 2);
}

static void lost_under_a_handler(void)
{
    on(holding, sizeof holding / sizeof holding[0], lost_under_a_handler_on);
}

/* ---- again and again ---- */

static hf_outcome quick(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(20);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void storm_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(jobs, 4, quick);
    hf_test_jobs_add(jobs, runtime, 150);
    for (int i = 0; i < 6; i++) {
        hf_test_sleep_ms(150);
        kill_sessions(jobs);
    }
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 60000, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), 0);
    double ends = hf_test_stat(runtime, "subscription.0.acked") + hf_test_stat(runtime, "subscription.0.lost") +
                  hf_test_stat(runtime, "subscription.0.lease_lost") + hf_test_stat(runtime, "subscription.0.unknown") +
                  hf_test_stat(runtime, "subscription.0.settle_errors") + hf_test_stat(runtime, "subscription.0.given_back");
    CU_ASSERT_EQUAL(ends, hf_test_stat(runtime, "subscription.0.claimed")); /* each delivery ends once, in a defined way */
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    for (int64_t id = 1; id <= 150; id++)
        CU_ASSERT(hf_test_runs_of(jobs, id) >= 1);
}

static void connections_die_again_and_again(void)
{
    on(serving, sizeof serving / sizeof serving[0], storm_on);
}

/* ---- the table is away for a while ---- */

static bool has_failed_twice(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.claim_errors") >= 2;
}

static void away_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(jobs, 2, quick);
    hf_test_jobs_add(jobs, runtime, 1);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 10000, &err), &err);
    int64_t begun_ms = hf_test_now_ms();
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s RENAME TO %s_away", jobs->name, jobs->name));
    hf_test_sleep_ms(1500);
    CU_ASSERT(hf_test_wait_until(has_failed_twice, runtime, 30000));
    double errors = hf_test_stat(runtime, "subscription.0.claim_errors");
    CU_ASSERT(errors <= 10 * (double)(hf_test_now_ms() - begun_ms) / 1500); /* backs off */
    CU_ASSERT(hf_test_logged(jobs, "a claim failed"));
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s_away RENAME TO %s", jobs->name, jobs->name));
    hf_test_jobs_add(jobs, runtime, 1);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 10000, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 2);
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void the_table_is_away(void)
{
    on(serving, sizeof serving / sizeof serving[0], away_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"lost under a handler", lost_under_a_handler},
        {"connections die again and again", connections_die_again_and_again},
        {"the table is away", the_table_is_away},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_lost", tests);
}
