/* ctest: timeout=240 labels=e2e
 * What the pool's ledger says is held while handlers run is what the server says: sessions, open transactions, locks; and nothing
 * is left when the run is over. */
#include "tests/gate.h"
#include "tests/jobs.h"

#define WORKERS 8
#define ROWS 12 /* some wait, so that nothing shows because the table is empty */

struct scene {
    struct hf_test_jobs jobs;
    struct hf_test_gate gate;
    const char *name; /* under which the server knows our sessions */
};

static hf_outcome wait_at_gate(hf_delivery *delivery, void *ctx)
{
    struct scene *scene = ctx;
    size_t mine = hf_test_run_begin(&scene->jobs, delivery);
    hf_test_gate_pass(&scene->gate);
    hf_test_run_end(&scene->jobs, mine);
    return HF_ACK;
}

/* ---- what the server sees ---- */

static const char *sessions_of(const struct scene *scene)
{
    if (scene->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT pid FROM pg_stat_activity WHERE application_name = '%s'", scene->name);
    }
    return hf_test_format("SELECT processlist_id FROM performance_schema.session_connect_attrs "
                          "WHERE attr_name = 'program_name' AND attr_value = '%s'",
                          scene->name);
}

static const char *open_transactions(const struct scene *scene)
{
    if (scene->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND state = 'idle in transaction'",
                              scene->name);
    }
    return hf_test_format("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN (%s)", sessions_of(scene));
}

static const char *session_locks(const struct scene *scene)
{
    if (scene->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid IN (%s)", sessions_of(scene));
    }
    return hf_test_format("SELECT count(*) FROM performance_schema.metadata_locks l JOIN performance_schema.threads t "
                          "ON t.thread_id = l.owner_thread_id WHERE l.object_type = 'USER LEVEL LOCK' AND l.lock_status = 'GRANTED' "
                          "AND t.processlist_id IN (%s)",
                          sessions_of(scene));
}

static const char *sessions(const struct scene *scene)
{
    return hf_test_format("SELECT count(*) FROM (%s) s", sessions_of(scene));
}

struct expected_count {
    const struct scene *scene;
    const char *sql;
    int64_t n;
};

/* InnoDB renews what it tells of its transactions only when nobody has asked for a tenth of a second. */
static bool counts(void *arg)
{
    const struct expected_count *expected = arg;
    if (expected->scene->jobs.kind.database == HF__MYSQL) {
        hf_test_sleep_ms(150);
    }
    return hf_test_query_int(expected->scene->jobs.url, expected->sql) == expected->n;
}

/* A server tells its state a moment late, and an idle worker looks for rows now and then, so it is asked until it agrees. */
static void server_counts(const struct scene *scene, const char *sql, int64_t n)
{
    struct expected_count expected = {scene, sql, n};
    if (!hf_test_wait_until(counts, &expected, 30000)) {
        hf_test_fail("the server counts %lld, not %lld: %s", (long long)hf_test_query_int(scene->jobs.url, sql), (long long)n, sql);
    }
}

/* ---- the test ---- */

static int held_by(const struct scene *scene, hf_strategy strategy)
{
    return scene->jobs.kind.strategy == strategy && scene->jobs.kind.database != HF__SQLITE ? WORKERS : 0;
}

/* At any one moment a lease subscription may be claiming or renewing, so that is asked until it is not. */
static bool nothing_else_in_use(void *arg)
{
    return hf_test_stat(arg, "pool.in_use") <=
           hf_test_stat(arg, "pool.purposes.row_lock.in_use") + hf_test_stat(arg, "pool.purposes.advisory_lock.in_use");
}

static void check_in_work(const struct scene *scene, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), WORKERS);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.in_use"), held_by(scene, HF_ROW_LOCK));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use"), held_by(scene, HF_ADVISORY_LOCK));
    CU_ASSERT(hf_test_wait_until(nothing_else_in_use, runtime, 30000));
    if (scene->jobs.kind.database == HF__SQLITE) {
        return;
    }
    server_counts(scene, open_transactions(scene), held_by(scene, HF_ROW_LOCK));
    server_counts(scene, session_locks(scene), held_by(scene, HF_ADVISORY_LOCK));
    server_counts(scene, sessions(scene), (int64_t)hf_test_stat(runtime, "pool.open"));
}

static void check_idle(const struct scene *scene, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT(hf_test_wait_until(nothing_else_in_use, runtime, 30000));
    if (scene->jobs.kind.database == HF__SQLITE) {
        return;
    }
    server_counts(scene, open_transactions(scene), 0);
    server_counts(scene, session_locks(scene), 0);
}

static void check_stopped(const struct scene *scene, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.peak"), held_by(scene, HF_ROW_LOCK));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.peak"), held_by(scene, HF_ADVISORY_LOCK));
    if (scene->jobs.kind.database != HF__SQLITE) {
        server_counts(scene, sessions(scene), 0);
    }
}

static hf_runtime *start(struct scene *scene)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.application_name = scene->name;
    subscription.workers = WORKERS;
    subscription.poll_ms = 50;
    hf_runtime *runtime = hf_test_jobs_runtime(&scene->jobs, &options);
    HF_TEST_OK(hf_subscribe(runtime, scene->jobs.table, &subscription, wait_at_gate, scene, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void run(struct scene *scene)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(scene);
    hf_test_jobs_add(&scene->jobs, runtime, ROWS);
    hf_test_gate_await(&scene->gate, WORKERS);
    check_in_work(scene, runtime);
    hf_test_gate_open(&scene->gate);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 20000, &err), &err);
    check_idle(scene, runtime);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    check_stopped(scene, runtime);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void ledger_on(enum hf__database database)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].database != database) {
            continue;
        }
        struct scene scene = {.gate = HF_TEST_GATE_INIT, .name = hf_test_scratch("e2e_ledger")};
        hf_test_jobs_open(&scene.jobs, hf_test_kinds[i], 5);
        run(&scene);
        CU_ASSERT_EQUAL(scene.jobs.n_runs, ROWS);
        hf_test_jobs_close(&scene.jobs);
    }
}

static void on_postgres(void)
{
    ledger_on(HF__POSTGRES);
}

static void on_mariadb(void)
{
    ledger_on(HF__MYSQL);
}

static void on_sqlite(void)
{
    ledger_on(HF__SQLITE);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"postgres", on_postgres},
        {"mariadb", on_mariadb},
        {"sqlite", on_sqlite},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_ledger", tests);
}
