/* ctest: timeout=240 labels=e2e
 * What the pool's ledger says is held while handlers run is what the server says: sessions, open transactions, locks; and nothing
 * is left when the run is over. */
#include <pthread.h>
#include <string.h>

#include "tests/jobs.h"

#define WORKERS 8
#define ROWS 12 /* some wait, so that nothing shows because the table is empty */

struct gate {
    struct hf_test_jobs jobs;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
    const char *name; /* under which the server knows our sessions */
};

static hf_outcome wait_at_gate(hf_delivery *delivery, void *ctx)
{
    struct gate *gate = ctx;
    size_t mine = hf_test_run_begin(&gate->jobs, delivery);
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) {
        pthread_cond_wait(&gate->opened, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
    hf_test_run_end(&gate->jobs, mine);
    return HF_ACK;
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

/* ---- what the server sees ---- */

static const char *sessions_of(const struct gate *gate)
{
    if (gate->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT pid FROM pg_stat_activity WHERE application_name = '%s'", gate->name);
    }
    return hf_test_format("SELECT processlist_id FROM performance_schema.session_connect_attrs "
                          "WHERE attr_name = 'program_name' AND attr_value = '%s'",
                          gate->name);
}

static const char *open_transactions(const struct gate *gate)
{
    if (gate->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND state = 'idle in transaction'",
                              gate->name);
    }
    return hf_test_format("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN (%s)", sessions_of(gate));
}

static const char *session_locks(const struct gate *gate)
{
    if (gate->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid IN (%s)", sessions_of(gate));
    }
    return hf_test_format("SELECT count(*) FROM performance_schema.metadata_locks l JOIN performance_schema.threads t "
                          "ON t.thread_id = l.owner_thread_id WHERE l.object_type = 'USER LEVEL LOCK' AND l.lock_status = 'GRANTED' "
                          "AND t.processlist_id IN (%s)",
                          sessions_of(gate));
}

static const char *sessions(const struct gate *gate)
{
    return hf_test_format("SELECT count(*) FROM (%s) s", sessions_of(gate));
}

struct expected_count {
    const struct gate *gate;
    const char *sql;
    int64_t n;
};

/* InnoDB renews what it tells of its transactions only when nobody has asked for a tenth of a second. */
static bool counts(void *arg)
{
    const struct expected_count *expected = arg;
    if (expected->gate->jobs.kind.database == HF__MYSQL) {
        hf_test_sleep_ms(150);
    }
    return hf_test_query_int(expected->gate->jobs.url, expected->sql) == expected->n;
}

/* A server tells its state a moment late; it must get there, and stay. */
static void server_counts(const struct gate *gate, const char *sql, int64_t n)
{
    struct expected_count expected = {gate, sql, n};
    if (!hf_test_wait_until(counts, &expected, 5000) || !counts(&expected)) {
        hf_test_fail("the server counts %lld, not %lld: %s", (long long)hf_test_query_int(gate->jobs.url, sql), (long long)n, sql);
    }
}

/* ---- the test ---- */

static int held_by(const struct gate *gate, hf_strategy strategy)
{
    return gate->jobs.kind.strategy == strategy && gate->jobs.kind.database != HF__SQLITE ? WORKERS : 0;
}

/* At any one moment a lease subscription may be claiming or renewing, so that is asked until it is not. */
static bool nothing_else_in_use(void *arg)
{
    return hf_test_stat(arg, "pool.in_use") <=
           hf_test_stat(arg, "pool.purposes.row_lock.in_use") + hf_test_stat(arg, "pool.purposes.advisory_lock.in_use");
}

static void check_in_work(const struct gate *gate, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), WORKERS);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.in_use"), held_by(gate, HF_ROW_LOCK));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use"), held_by(gate, HF_ADVISORY_LOCK));
    CU_ASSERT(hf_test_wait_until(nothing_else_in_use, runtime, 5000));
    if (gate->jobs.kind.database == HF__SQLITE) {
        return;
    }
    server_counts(gate, open_transactions(gate), held_by(gate, HF_ROW_LOCK));
    server_counts(gate, session_locks(gate), held_by(gate, HF_ADVISORY_LOCK));
    server_counts(gate, sessions(gate), (int64_t)hf_test_stat(runtime, "pool.open"));
}

static void check_idle(const struct gate *gate, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT(hf_test_wait_until(nothing_else_in_use, runtime, 5000));
    if (gate->jobs.kind.database == HF__SQLITE) {
        return;
    }
    server_counts(gate, open_transactions(gate), 0);
    server_counts(gate, session_locks(gate), 0);
}

static void check_stopped(const struct gate *gate, hf_runtime *runtime)
{
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.in_use"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.row_lock.peak"), held_by(gate, HF_ROW_LOCK));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.peak"), held_by(gate, HF_ADVISORY_LOCK));
    if (gate->jobs.kind.database != HF__SQLITE) {
        server_counts(gate, sessions(gate), 0);
    }
}

static hf_runtime *start(struct gate *gate)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.application_name = gate->name;
    subscription.workers = WORKERS;
    subscription.poll_ms = 50;
    hf_runtime *runtime = hf_test_jobs_runtime(&gate->jobs, &options);
    HF_TEST_OK(hf_subscribe(runtime, gate->jobs.table, &subscription, wait_at_gate, gate, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static bool all_in_work(void *arg)
{
    return hf_test_n_runs(arg) >= WORKERS;
}

static void run(struct gate *gate)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(gate);
    hf_test_jobs_add(&gate->jobs, runtime, ROWS);
    CU_ASSERT_FATAL(hf_test_wait_until(all_in_work, &gate->jobs, 10000));
    check_in_work(gate, runtime);
    open_gate(gate);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 20000, &err), &err);
    check_idle(gate, runtime);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    check_stopped(gate, runtime);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void ledger_on(enum hf__database database)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].database != database) {
            continue;
        }
        struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .name = hf_test_scratch("e2e_ledger")};
        hf_test_jobs_open(&gate.jobs, hf_test_kinds[i], 5);
        run(&gate);
        CU_ASSERT_EQUAL(gate.jobs.n_runs, ROWS);
        hf_test_jobs_close(&gate.jobs);
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
