/* ctest: timeout=600 labels=e2e
 * Transactional mode: what the handler writes through its delivery's transaction stays with its ack, and with nothing else. */
#include <stdatomic.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/native.h"
#include "tests/proxy.h"
#include "tests/session.h"

/* ---- a table of jobs, and one for the handlers' writes ---- */

/* What the handler of the running test does on each attempt. */
struct script {
    struct hf_test_jobs *jobs;
    struct hf_test_gate *gate; /* after the write; NULL: none */
    const char *first;         /* run on the first attempt, after the write; NULL: nothing */
    hf_outcome outcome;        /* of the first attempt; later ones ack */
    bool settles;              /* the first attempt settles by call */
    bool waits;                /* the first attempt waits until it is cancelled, before it writes */
    int64_t holds_ms;          /* every attempt takes so long, after the write */
    atomic_int settled;        /* what hf_delivery_settle said; -1: not called */
    atomic_int written, first_error, cancelled;
    hf_error err;
};

static struct script script;

static const char *written_table(const struct hf_test_jobs *jobs)
{
    return hf_test_format("%s_done", jobs->name);
}

static int64_t written(const struct hf_test_jobs *jobs)
{
    return hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s", written_table(jobs)));
}

static void on_kind(struct hf_test_kind kind, int lease_seconds, struct hf_test_shape shape, void (*test)(struct hf_test_jobs *jobs))
{
    struct hf_test_jobs jobs;
    hf_test_jobs_open_shape(&jobs, kind, lease_seconds, shape);
    hf_test_sql(jobs.url, hf_test_format("CREATE TABLE %s (job bigint, attempt bigint)", written_table(&jobs)));
    test(&jobs);
    hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s", written_table(&jobs)));
    hf_test_jobs_close(&jobs);
}

static void on_all(int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        on_kind(hf_test_kinds[i], lease_seconds, (struct hf_test_shape){.columns = NULL}, test);
}

static void on_database(enum hf__database database, int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        if (hf_test_kinds[i].database == database)
            on_kind(hf_test_kinds[i], lease_seconds, (struct hf_test_shape){.columns = NULL}, test);
}

static void act(hf_delivery *delivery, void *native, bool first)
{
    enum hf__database database = script.jobs->kind.database;
    const char *sql = hf_test_format("INSERT INTO %s VALUES (%s, %lld)", written_table(script.jobs), hf_delivery_id(delivery),
                                     (long long)hf_delivery_attempt(delivery));
    if (first && script.waits)
        atomic_store(&script.cancelled, (int)hf_delivery_wait(delivery, 10000));
    atomic_fetch_add(&script.written, hf_test_native_run(database, native, sql) == 0);
    if (script.gate)
        hf_test_gate_pass(script.gate);
    if (script.holds_ms > 0)
        atomic_store(&script.cancelled, (int)hf_delivery_wait(delivery, script.holds_ms));
    if (first && script.first)
        atomic_store(&script.first_error, hf_test_native_run(database, native, script.first));
}

static hf_outcome handle(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(script.jobs, delivery);
    bool first = run == 0;
    void *native = hf_test_delivery_native(delivery, script.jobs->kind.database);
    if (native)
        act(delivery, native, first);
    hf_outcome outcome = first ? script.outcome : HF_ACK;
    if (first && script.settles) {
        atomic_store(&script.settled, (int)hf_delivery_settle(delivery, outcome, &script.err));
        if (hf_test_delivery_native(delivery, script.jobs->kind.database))
            atomic_store(&script.settled, HF_MISUSE);
    }
    hf_test_run_end(script.jobs, run);
    return outcome;
}

struct setup {
    size_t workers, pool;
    const char *name;  /* of the sessions */
    const char *group; /* NULL: all */
    hf_handler handler;
};

static hf_runtime *started(struct hf_test_jobs *jobs, struct setup setup)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    runtime_options.pool_size = setup.pool;
    runtime_options.keepalive_ms = 500;
    runtime_options.application_name = setup.name;
    options.workers = jobs->kind.database == HF__SQLITE ? 1 : setup.workers;
    options.poll_ms = 50;
    options.retry_base_ms = 200;
    options.prefetch = SIZE_MAX; /* what waits for a worker holds nothing */
    options.transactional = true;
    options.groups = &setup.group;
    options.n_groups = setup.group != NULL;
    script.jobs = jobs;
    atomic_store(&script.settled, -1);
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &runtime_options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, setup.handler ? setup.handler : handle, &script, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void reset_script(void)
{
    memset(&script, 0, sizeof script);
    script.outcome = HF_ACK;
}

static void wait_empty(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
}

/* Stops it, and looks whether all added up. */
static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

/* ---- ack ---- */

static const char *purpose_of(struct hf_test_kind kind)
{
    if (kind.strategy == HF_LEASE || kind.database == HF__SQLITE)
        return "pool.purposes.handler.in_use";
    return kind.strategy == HF_ROW_LOCK ? "pool.purposes.row_lock.in_use" : "pool.purposes.advisory_lock.in_use";
}

/* While the handlers wait each of them holds one connection, and nobody else sees what they wrote. */
static void writes_stay_with_the_ack_on(struct hf_test_jobs *jobs)
{
    struct hf_test_gate gate = HF_TEST_GATE_INIT;
    size_t workers = jobs->kind.database == HF__SQLITE ? 1 : 3;
    reset_script();
    script.gate = &gate;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 3});
    hf_test_jobs_add(jobs, runtime, 9);
    hf_test_gate_await(&gate, workers);
    CU_ASSERT_EQUAL(written(jobs), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, purpose_of(jobs->kind)), (double)workers);
    hf_test_sleep_ms(600);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(written(jobs), 9);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 9);
    double held = hf_test_stat(runtime, "subscription.0.held_per_delivery");
    if (held < 0.5 || held > 1.05) /* a lease's row is in work before its worker has a connection */
        hf_test_fail("%s on database %d held %g for a delivery", hf_strategy_name(jobs->kind.strategy), (int)jobs->kind.database, held);
    stop(runtime);
}

static void writes_stay_with_the_ack(void)
{
    on_all(30, writes_stay_with_the_ack_on);
}

/* ---- every other outcome ---- */

static void nothing_stays_on(struct hf_test_jobs *jobs, hf_outcome outcome, bool settles)
{
    reset_script();
    script.outcome = outcome;
    script.settles = settles;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, outcome == HF_REJECT ? 1 : 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.written), outcome == HF_REJECT ? 1 : 2);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), settles ? HF_OK : -1);
    CU_ASSERT_EQUAL(written(jobs), outcome == HF_REJECT ? 0 : 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), outcome == HF_REJECT ? 0 : 1);
    stop(runtime);
    if (outcome != HF_REJECT)
        CU_ASSERT_EQUAL(jobs->runs[1].attempt, 2);
}

static void retry_on(struct hf_test_jobs *jobs)
{
    nothing_stays_on(jobs, HF_RETRY, false);
}

static void retry_after_on(struct hf_test_jobs *jobs)
{
    nothing_stays_on(jobs, HF_RETRY_AFTER, true);
}

static void reject_on(struct hf_test_jobs *jobs)
{
    nothing_stays_on(jobs, HF_REJECT, true);
}

static void nothing_stays_with_other_outcomes(void)
{
    on_all(30, retry_on);
    on_all(30, retry_after_on);
    on_all(30, reject_on);
}

static void dead_letter_on(struct hf_test_jobs *jobs)
{
    reset_script();
    script.outcome = HF_REJECT;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    wait_empty(runtime);
    stop(runtime);
    CU_ASSERT_EQUAL(written(jobs), 0);
    CU_ASSERT_EQUAL(hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s_dead", jobs->name)), 1);
}

static void dead_letters_after_the_rollback(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        on_kind(hf_test_kinds[i], 30, (struct hf_test_shape){.dead_table = true}, dead_letter_on);
}

/* The stop's limit passes while the handler runs: what it wrote goes, although it acks in the end, and its row goes back. */
static void drained_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    reset_script();
    script.holds_ms = 20000; /* or until it is cancelled */
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    HF_TEST_OK(hf_runtime_stop(runtime, 100, &report, &err), &err);
    CU_ASSERT_EQUAL(report.given_back, 1);
    CU_ASSERT_EQUAL(atomic_load(&script.cancelled), HF_CANCEL_DRAIN);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(written(jobs), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 1);
    if (jobs->kind.strategy == HF_LEASE)
        CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "locked_until IS NULL"), 1);
}

static void nothing_stays_after_the_drain_limit(void)
{
    on_all(30, drained_on);
}

struct logged {
    struct hf_test_jobs *jobs;
    const char *text;
};

static bool has_logged(void *arg)
{
    const struct logged *logged = arg;
    return hf_test_logged(logged->jobs, logged->text);
}

/* A claim then takes a moment before it commits. */
static void slow_claims(const struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    if (jobs->kind.database == HF__MYSQL) {
        hf_test_sql(jobs->url,
                    hf_test_format("CREATE TRIGGER %s_slow AFTER UPDATE ON %s FOR EACH ROW SET @slow = IF(NEW.locked_until IS NULL,"
                                   " 0, SLEEP(0.5))",
                                   name, name));
        return;
    }
    hf_test_sql(jobs->url, hf_test_format("CREATE FUNCTION %s_slow() RETURNS trigger LANGUAGE plpgsql AS"
                                          " 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END'",
                                          name));
    hf_test_sql(jobs->url, hf_test_format("CREATE TRIGGER %s_slow AFTER UPDATE ON %s FOR EACH ROW WHEN (NEW.locked_until IS NOT NULL)"
                                          " EXECUTE PROCEDURE %s_slow()",
                                          name, name, name));
}

static bool is_being_claimed(void *arg)
{
    const struct hf_test_jobs *jobs = arg;
    const char *free = hf_test_format("SELECT COUNT(*) FROM (SELECT id FROM %s WHERE id = 1 FOR UPDATE SKIP LOCKED) AS f", jobs->name);
    return hf_test_query_int(jobs->url, free) == 0;
}

/* At this level the transaction locks the row first. Somebody else has waited for the row and gets it between the claim and that: it goes
 * back, as if it had never been claimed. */
static void unopened_on(struct hf_test_jobs *jobs)
{
    reset_script();
    slow_claims(jobs);
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1});
    hf_test_jobs_add(jobs, runtime, 1);
    struct hf__conn *session = hf_test_session(jobs->url);
    CU_ASSERT_TRUE(hf_test_wait_until(is_being_claimed, jobs, 20000));
    hf_test_session_run(session, "START TRANSACTION");
    hf_test_session_run(session, hf_test_format("UPDATE %s SET last_error = 'seen' WHERE id = 1", jobs->name));
    struct logged logged = {jobs, "a transaction for its handler cannot be opened"};
    CU_ASSERT_TRUE(hf_test_wait_until(has_logged, &logged, 20000));
    hf_test_session_run(session, "ROLLBACK");
    hf__conn_close(session);
    hf_test_wait_for_runs(jobs, 1);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lost"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    CU_ASSERT_EQUAL(jobs->n_runs, 1);
    CU_ASSERT_EQUAL(jobs->runs[0].attempt, 1);
    CU_ASSERT_EQUAL(written(jobs), 1);
    stop(runtime);
    if (jobs->kind.database == HF__POSTGRES)
        hf_test_sql(jobs->url, hf_test_format("DROP FUNCTION %s_slow() CASCADE", jobs->name));
}

static void a_transaction_that_cannot_be_opened(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        if (hf_test_kinds[i].strategy == HF_LEASE && hf_test_kinds[i].database != HF__SQLITE)
            on_kind(hf_test_kinds[i], 30, (struct hf_test_shape){.settings = ", \"isolation\": \"repeatable_read\""}, unopened_on);
}

/* ---- the lease is lost ---- */

struct awaited {
    hf_runtime *runtime;
    const char *stat;
    double value;
};

static bool has_value(void *arg)
{
    const struct awaited *awaited = arg;
    return hf_test_stat(awaited->runtime, awaited->stat) >= awaited->value;
}

static void await_stat(hf_runtime *runtime, const char *stat, double value)
{
    struct awaited awaited = {runtime, stat, value};
    if (!hf_test_wait_until(has_value, &awaited, 15000))
        hf_test_fail("%s is %g, not %g", stat, hf_test_stat(runtime, stat), value);
}

static void take_lease(const struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET locked_until = '2100-01-01 00:00:00'", jobs->name));
}

/* Its renewal finds out, and its handler hears of it. */
static void flagged_lost_on(struct hf_test_jobs *jobs)
{
    if (jobs->kind.strategy != HF_LEASE)
        return;
    reset_script();
    script.waits = script.settles = true;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    take_lease(jobs);
    await_stat(runtime, "subscription.0.lease_lost", 1);
    CU_ASSERT_EQUAL(atomic_load(&script.cancelled), HF_CANCEL_LOST);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LEASE_LOST);
    CU_ASSERT_EQUAL(atomic_load(&script.written), 1);
    stop(runtime);
    CU_ASSERT_EQUAL(written(jobs), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 1);
}

/* Nobody knows before the ack. */
static void found_lost_on(struct hf_test_jobs *jobs)
{
    struct hf_test_gate gate = HF_TEST_GATE_INIT;
    if (jobs->kind.strategy != HF_LEASE)
        return;
    reset_script();
    script.settles = true;
    script.gate = &gate;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_gate_await(&gate, 1);
    take_lease(jobs);
    hf_test_gate_open(&gate);
    await_stat(runtime, "subscription.0.lease_lost", 1);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LEASE_LOST);
    stop(runtime);
    CU_ASSERT_EQUAL(written(jobs), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 1);
}

static void nothing_stays_with_a_lost_lease(void)
{
    on_database(HF__POSTGRES, 3, flagged_lost_on);
    on_database(HF__MYSQL, 3, flagged_lost_on);
    on_kind((struct hf_test_kind){HF__SQLITE, HF_LEASE}, 3, (struct hf_test_shape){.settings = ", \"mode\": \"deferred\""},
            flagged_lost_on);
    on_database(HF__POSTGRES, 30, found_lost_on);
    on_database(HF__MYSQL, 30, found_lost_on);
}

/* ---- the handler ends the transaction ---- */

/* The ack is refused, the row runs again, and is acked by a handler that behaves. */
static void ended_on(struct hf_test_jobs *jobs, const char *end, int64_t kept)
{
    reset_script();
    script.settles = true;
    script.first = end;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.first_error), 0);
    if (atomic_load(&script.settled) != HF_LOST)
        hf_test_fail("%s under %s: %s", end, hf_strategy_name(jobs->kind.strategy),
                     hf_status_name((hf_status)atomic_load(&script.settled)));
    CU_ASSERT_PTR_NOT_NULL(strstr(script.err.message, "must not COMMIT"));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lost"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    CU_ASSERT_EQUAL(written(jobs), kept + 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    stop(runtime);
}

static void commit_on(struct hf_test_jobs *jobs)
{
    ended_on(jobs, "COMMIT", 1); /* what it committed by itself stays, which is why it must not */
}

static void roll_back_on(struct hf_test_jobs *jobs)
{
    ended_on(jobs, "ROLLBACK", 0);
}

static void ddl_on(struct hf_test_jobs *jobs)
{
    ended_on(jobs, hf_test_format("CREATE TABLE %s_ddl (id int)", jobs->name), 1);
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s_ddl", jobs->name));
}

static void a_handler_that_ends_its_transaction(void)
{
    on_all(600, commit_on);
    on_all(600, roll_back_on);
    on_database(HF__MYSQL, 600, ddl_on);
}

/* The same with another outcome: what the handler wrote cannot be undone any more, so nothing is settled, and that is said. */
static void other_outcome_on(struct hf_test_jobs *jobs, const char *end, hf_outcome outcome, int64_t kept)
{
    reset_script();
    script.settles = true;
    script.outcome = outcome;
    script.first = end;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.first_error), 0);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.err.message, "must not COMMIT"));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lost"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    CU_ASSERT_EQUAL(written(jobs), kept + 1);
    stop(runtime);
}

static void retry_after_rollback_on(struct hf_test_jobs *jobs)
{
    other_outcome_on(jobs, "ROLLBACK", HF_RETRY, 0);
}

static void reject_after_commit_on(struct hf_test_jobs *jobs)
{
    other_outcome_on(jobs, "COMMIT", HF_REJECT, 1);
}

static void retry_after_ddl_on(struct hf_test_jobs *jobs)
{
    other_outcome_on(jobs, hf_test_format("CREATE TABLE %s_ddl (id int)", jobs->name), HF_RETRY_AFTER, 1);
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s_ddl", jobs->name));
}

static void another_outcome_without_a_transaction(void)
{
    on_all(600, retry_after_rollback_on);
    on_all(600, reject_after_commit_on);
    on_database(HF__MYSQL, 600, retry_after_ddl_on);
}

/* ---- MySQL: deadlock, lock wait ---- */

/* The other one has written more, so the server chooses the handler as the victim. */
static hf_outcome deadlocks(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    struct hf_test_jobs *jobs = script.jobs;
    size_t run = hf_test_run_begin(jobs, delivery);
    void *native = hf_test_delivery_native(delivery, HF__MYSQL);
    bool first = run == 0;
    if (native)
        (void)hf_test_native_run(HF__MYSQL, native, hf_test_format("INSERT INTO %s VALUES (77, 1)", written_table(jobs)));
    if (native && first) {
        (void)hf_test_native_run(HF__MYSQL, native, hf_test_format("UPDATE %s SET attempt = 0 WHERE job = 1001", written_table(jobs)));
        hf_test_gate_pass(script.gate);
        atomic_store(
            &script.first_error,
            hf_test_native_run(HF__MYSQL, native, hf_test_format("UPDATE %s SET attempt = 0 WHERE job = 1002", written_table(jobs))));
    }
    hf_outcome outcome = first ? script.outcome : HF_ACK;
    if (first)
        atomic_store(&script.settled, (int)hf_delivery_settle(delivery, outcome, &script.err));
    hf_test_run_end(jobs, run);
    return outcome;
}

static void weigh(struct hf__conn *session, const struct hf_test_jobs *jobs)
{
    hf_test_session_run(session, "START TRANSACTION");
    for (int i = 0; i < 20; i++)
        hf_test_session_run(session, hf_test_format("INSERT INTO %s VALUES (%d, 0)", written_table(jobs), 2000 + i));
    hf_test_session_run(session, hf_test_format("UPDATE %s SET attempt = 0 WHERE job = 1002", written_table(jobs)));
}

static void deadlock_on(struct hf_test_jobs *jobs, hf_outcome outcome)
{
    struct hf_test_gate gate = HF_TEST_GATE_INIT;
    reset_script();
    script.gate = &gate;
    script.outcome = outcome;
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s ADD INDEX (job)", written_table(jobs)));
    hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s VALUES (1001, 9), (1002, 9)", written_table(jobs)));
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1, .handler = deadlocks});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_gate_await(&gate, 1);
    struct hf__conn *session = hf_test_session(jobs->url);
    weigh(session, jobs);
    hf_test_gate_open(&gate);
    hf_test_session_run(session, hf_test_format("UPDATE %s SET attempt = 0 WHERE job = 1001", written_table(jobs)));
    hf_test_session_run(session, "COMMIT");
    hf__conn_close(session);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.first_error), 1213);
    CU_ASSERT_EQUAL(hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s WHERE job = 77", written_table(jobs))), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop(runtime);
}

static void acked_deadlock_on(struct hf_test_jobs *jobs)
{
    deadlock_on(jobs, HF_ACK);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LOST);
}

static void retried_deadlock_on(struct hf_test_jobs *jobs)
{
    deadlock_on(jobs, HF_RETRY);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LOST);
}

static void lock_wait_on(struct hf_test_jobs *jobs)
{
    reset_script();
    hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s VALUES (1001, 9)", written_table(jobs)));
    struct hf__conn *session = hf_test_session(jobs->url);
    hf_test_session_run(session, "START TRANSACTION");
    hf_test_session_run(session, hf_test_format("UPDATE %s SET attempt = 0 WHERE job = 1001", written_table(jobs)));
    script.settles = true;
    script.first =
        hf_test_format("SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE %s SET attempt = 0 WHERE job = 1001", written_table(jobs));
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1});
    hf_test_jobs_add(jobs, runtime, 1);
    wait_empty(runtime);
    hf__conn_close(session);
    CU_ASSERT_EQUAL(atomic_load(&script.first_error), 1205);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_OK);
    CU_ASSERT_EQUAL(written(jobs), 2);
    stop(runtime);
}

static void deadlocks_and_lock_waits(void)
{
    on_database(HF__MYSQL, 600, acked_deadlock_on); /* the row does not wait for its lease to run out */
    on_database(HF__MYSQL, 600, retried_deadlock_on);
    on_database(HF__MYSQL, 30, lock_wait_on);
}

/* ---- a failed transaction ---- */

static void failed_on(struct hf_test_jobs *jobs, const char *statement, const char *reason)
{
    reset_script();
    script.settles = true;
    script.first = statement;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2});
    hf_test_jobs_add(jobs, runtime, 1);
    await_stat(runtime, "subscription.0.retried_later", 1);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_DATABASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.err.message, reason));
    CU_ASSERT(jobs->runs[1].begin_us - jobs->runs[0].begin_us > 90000); /* the backoff, less up to a half at random */
    CU_ASSERT_EQUAL(jobs->runs[1].attempt, 2);
    CU_ASSERT_EQUAL(written(jobs), 1);
    stop(runtime);
}

static void failed_statement_on(struct hf_test_jobs *jobs)
{
    failed_on(jobs, "SELECT 1 / 0", "left its transaction failed");
    CU_ASSERT_NOT_EQUAL(atomic_load(&script.first_error), 0);
    CU_ASSERT(hf_test_logged(jobs, "runs again later"));
}

/* What would fail at the COMMIT is found while the row can still be put back. */
static void deferred_constraint_on(struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("CREATE TABLE %s_parent (id int PRIMARY KEY)", jobs->name));
    hf_test_sql(jobs->url, hf_test_format("CREATE TABLE %s_child (parent int REFERENCES %s_parent DEFERRABLE INITIALLY DEFERRED)",
                                          jobs->name, jobs->name));
    failed_on(jobs, hf_test_format("INSERT INTO %s_child VALUES (5)", jobs->name), "foreign key");
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s_child, %s_parent", jobs->name, jobs->name));
}

static void an_ack_of_a_failed_transaction(void)
{
    on_database(HF__POSTGRES, 30, failed_statement_on);
    on_database(HF__POSTGRES, 30, deferred_constraint_on);
}

/* ---- settled by another thread ---- */

static hf_delivery *volatile deferred;
static hf_status deferred_status;

static void *settle_later(void *arg)
{
    (void)arg;
    hf_test_sleep_ms(100);
    void *native = hf_test_delivery_native(deferred, script.jobs->kind.database);
    if (native && hf_test_native_run(script.jobs->kind.database, native,
                                     hf_test_format("INSERT INTO %s VALUES (2, 2)", written_table(script.jobs))) == 0)
        atomic_fetch_add(&script.written, 1);
    deferred_status = hf_delivery_settle(deferred, script.outcome, &script.err);
    return NULL;
}

static hf_outcome defers(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(script.jobs, delivery);
    void *native = hf_test_delivery_native(delivery, script.jobs->kind.database);
    if (native)
        (void)hf_test_native_run(script.jobs->kind.database, native,
                                 hf_test_format("INSERT INTO %s VALUES (1, 1)", written_table(script.jobs)));
    hf_test_run_end(script.jobs, run);
    deferred = delivery;
    hf_test_gate_pass(script.gate);
    return HF_DEFER;
}

static void deferred_on(struct hf_test_jobs *jobs, hf_outcome outcome)
{
    struct hf_test_gate gate = HF_TEST_GATE_INIT;
    pthread_t thread;
    reset_script();
    script.gate = &gate;
    script.outcome = outcome;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2, .handler = defers});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_gate_await(&gate, 1);
    hf_test_gate_open(&gate);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, settle_later, NULL), 0);
    pthread_join(thread, NULL);
    HF_TEST_OK(deferred_status, &script.err);
    CU_ASSERT_EQUAL(atomic_load(&script.written), 1);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(written(jobs), outcome == HF_ACK ? 2 : 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    stop(runtime);
}

static void deferred_ack_on(struct hf_test_jobs *jobs)
{
    deferred_on(jobs, HF_ACK);
}

static void deferred_reject_on(struct hf_test_jobs *jobs)
{
    deferred_on(jobs, HF_REJECT);
}

static void settled_by_another_thread(void)
{
    on_all(30, deferred_ack_on);
    on_all(30, deferred_reject_on);
}

/* ---- the session is killed ---- */

static void kill_sessions(const struct hf_test_jobs *jobs)
{
    if (jobs->kind.database == HF__POSTGRES) {
        (void)hf_test_query_int(hf_test_postgres_admin_url(),
                                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'hf-transaction'");
        return;
    }
    const char *admin = hf_test_mysql_admin_url(), *last = "0", *id;
    while ((id = hf_test_query_text(admin,
                                    hf_test_format("SELECT CAST(MIN(processlist_id) AS CHAR) FROM performance_schema.session_connect_attrs "
                                                   "WHERE attr_name = 'program_name' AND attr_value = 'hf-transaction' AND "
                                                   "processlist_id > %s",
                                                   last)))) {
        hf_error err;
        (void)hf_test_try_sql(admin, hf_test_format("KILL %s", id), &err); /* it may have ended by itself */
        last = id;
    }
}

static void killed_on(struct hf_test_jobs *jobs)
{
    struct hf_test_gate gate = HF_TEST_GATE_INIT;
    reset_script();
    script.settles = true;
    script.gate = &gate;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2, .name = "hf-transaction"});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_gate_await(&gate, 1);
    kill_sessions(jobs);
    hf_test_gate_open(&gate);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_LOST);
    CU_ASSERT_EQUAL(atomic_load(&script.written), 2);
    CU_ASSERT_EQUAL(written(jobs), 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    stop(runtime);
}

/* A handler that has not asked for the handle yet is told. */
static hf_outcome waits_for_the_end(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(script.jobs, delivery);
    if (run == 0)
        atomic_store(&script.cancelled, (int)hf_delivery_wait(delivery, 15000));
    hf_test_run_end(script.jobs, run);
    return HF_ACK;
}

static void killed_unseen_on(struct hf_test_jobs *jobs)
{
    reset_script();
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 2, .name = "hf-transaction", .handler = waits_for_the_end});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    hf_test_sleep_ms(200);
    kill_sessions(jobs);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.cancelled), HF_CANCEL_LOST);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop(runtime);
}

static void the_session_is_killed(void)
{
    on_database(HF__POSTGRES, 30, killed_on);
    on_database(HF__MYSQL, 30, killed_on);
    on_database(HF__POSTGRES, 30, killed_unseen_on);
    on_database(HF__MYSQL, 30, killed_unseen_on);
}

/* ---- the connection is cut while the ack is sent ---- */

static struct hf_test_proxy *proxy;
static enum hf_test_cut cut;
static size_t position;

/* Its first run is cut at one of the messages that its ack is. */
static hf_outcome is_cut(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    struct hf_test_jobs *jobs = script.jobs;
    bool first = hf_test_run_begin(jobs, delivery) == 0;
    void *native = hf_test_delivery_native(delivery, jobs->kind.database);
    if (native)
        (void)hf_test_native_run(jobs->kind.database, native, hf_test_format("INSERT INTO %s VALUES (1, 1)", written_table(jobs)));
    if (first)
        hf_test_proxy_arm(proxy, cut, position);
    hf_status status = hf_delivery_settle(delivery, HF_ACK, first ? &script.err : NULL);
    if (first)
        atomic_store(&script.settled, (int)status);
    return HF_ACK;
}

/* However it was cut, the row is gone in the end and the writes of the one run that acked it are there, once; and nobody was told that a
 * commit was lost which took effect. */
static void check_cut(struct hf_test_jobs *jobs)
{
    hf_status told = (hf_status)atomic_load(&script.settled);
    bool ran_once = hf_test_n_runs(jobs) == 1, all_there = written(jobs) == 1 && hf_test_jobs_count(jobs, "1 = 1") == 0;
    if (!all_there || (told == HF_OK) != ran_once)
        hf_test_fail("%s, %s: %s %zu (%s): told %s (%s), %zu runs, %d written", hf__database_name(jobs->kind.database),
                     hf_strategy_name(jobs->kind.strategy), cut == HF_TEST_CUT_REQUEST ? "message" : "answer", position,
                     hf_test_proxy_cut_at(proxy), hf_status_name(told), script.err.message, hf_test_n_runs(jobs), (int)written(jobs));
}

static bool is_empty(void *arg)
{
    return hf_test_jobs_count(arg, "1 = 1") == 0;
}

static void cut_on(struct hf_test_jobs *jobs)
{
    const char *direct = jobs->url;
    bool has_cut = true;
    reset_script();
    proxy = hf_test_proxy_open(jobs->kind.database);
    jobs->url = hf_test_proxy_url(proxy);
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1, .handler = is_cut});
    jobs->url = direct;
    for (position = 1; has_cut && position <= 8; position++) {
        jobs->n_runs = 0;
        hf_test_jobs_add(jobs, runtime, 1);
        hf_test_wait_for_runs(jobs, 1);
        CU_ASSERT_FATAL(hf_test_wait_until(is_empty, jobs, 15000)); /* one that was put back is due later, for which nothing waits */
        wait_empty(runtime);
        has_cut = hf_test_proxy_has_cut(proxy);
        hf_test_proxy_disarm(proxy);
        check_cut(jobs);
        hf_test_sql(jobs->url, hf_test_format("DELETE FROM %s", written_table(jobs)));
    }
    stop(runtime);
    hf_test_proxy_close(proxy);
}

static void the_connection_is_cut(void)
{
    static const enum hf_test_cut cuts[] = {HF_TEST_CUT_REQUEST, HF_TEST_CUT_ANSWER};
    for (size_t i = 0; i < 2; i++) {
        cut = cuts[i];
        on_database(HF__POSTGRES, 1, cut_on);
        on_database(HF__MYSQL, 1, cut_on);
    }
}

/* ---- SQLite: one writer ---- */

/* The handler runs for three leases; its renewals cannot get through while it writes. */
static void longer_than_the_lease_on(struct hf_test_jobs *jobs)
{
    reset_script();
    script.settles = true;
    script.holds_ms = 3000;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1});
    hf_test_jobs_add(jobs, runtime, 1);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.cancelled), HF_NOT_CANCELLED);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_OK);
    CU_ASSERT_EQUAL(written(jobs), 1);
    CU_ASSERT_FALSE(hf_test_logged(jobs, "could not be renewed"));
    stop(runtime);
}

/* Another outcome, long after the lease's time: the row is still ours. */
static void retried_after_the_lease_on(struct hf_test_jobs *jobs)
{
    reset_script();
    script.settles = true;
    script.outcome = HF_RETRY;
    script.holds_ms = 1500;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1});
    hf_test_jobs_add(jobs, runtime, 1);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.settled), HF_OK);
    CU_ASSERT_EQUAL(written(jobs), 1);
    stop(runtime);
}

static void sqlite_outlives_its_lease(void)
{
    struct hf_test_kind lease = {HF__SQLITE, HF_LEASE};
    static const char *const modes[] = {"deferred", "immediate", "exclusive"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct hf_test_shape shape = {.settings = hf_test_format(", \"mode\": \"%s\"", modes[i])};
        on_kind(lease, 1, shape, longer_than_the_lease_on);
        on_kind(lease, 1, shape, retried_after_the_lease_on);
    }
}

/* Elsewhere a lease is renewed beside its handler's transaction. */
static void renewed_on(struct hf_test_jobs *jobs)
{
    if (jobs->kind.strategy != HF_LEASE)
        return;
    longer_than_the_lease_on(jobs);
}

static void a_lease_is_renewed_beside_its_transaction(void)
{
    on_database(HF__POSTGRES, 1, renewed_on);
    on_database(HF__MYSQL, 1, renewed_on);
}

/* ---- the session of the next delivery ---- */

static hf_outcome changes_its_session(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    enum hf__database database = script.jobs->kind.database;
    size_t run = hf_test_run_begin(script.jobs, delivery);
    void *native = hf_test_delivery_native(delivery, database);
    bool mysql = database == HF__MYSQL;
    const char *change = mysql ? "SET @mine = 5" : "SET work_mem = '5MB'";
    const char *look = mysql ? "SELECT COALESCE(@mine, 4)" : "SELECT replace(current_setting('work_mem'), 'MB', '')";
    atomic_fetch_add(&script.written, hf_test_native_int(database, native, look) == 5); /* somebody before left it */
    (void)hf_test_native_run(database, native, change);
    hf_test_run_end(script.jobs, run);
    return HF_ACK;
}

static void session_on(struct hf_test_jobs *jobs)
{
    reset_script();
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1, .handler = changes_its_session});
    hf_test_jobs_add(jobs, runtime, 5);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 5);
    CU_ASSERT_EQUAL(atomic_load(&script.written), 0);
    stop(runtime);
}

static void the_next_delivery_has_a_fresh_session(void)
{
    on_database(HF__POSTGRES, 30, session_on);
    on_database(HF__MYSQL, 30, session_on);
}

/* ---- the key is free after the ack ---- */

/* Its session goes on as it is, since nobody saw the handle: the unlock alone gives the key back. */
static hf_outcome acks(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    hf_test_run_end(script.jobs, hf_test_run_begin(script.jobs, delivery));
    return HF_ACK;
}

static void key_on(struct hf_test_jobs *jobs)
{
    hf_field account = {"account", "7", 1};
    hf_job job = HF_JOB_INIT;
    reset_script();
    hf_runtime *one = started(jobs, (struct setup){.workers = 1, .group = "one", .handler = acks});
    hf_runtime *other = started(jobs, (struct setup){.workers = 1, .group = "other", .handler = acks});
    job.fields = &account;
    job.n_fields = 1;
    job.group = "one";
    hf_test_jobs_put(jobs, job, 1);
    wait_empty(one);
    job.group = "other";
    hf_test_jobs_put(jobs, job, 1);
    hf_test_wait_for_runs(jobs, 2);
    wait_empty(other);
    stop(other);
    stop(one);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
}

static void the_key_is_free_after_the_ack(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        if (hf_test_kinds[i].strategy == HF_ADVISORY_LOCK)
            on_kind(hf_test_kinds[i], 30, (struct hf_test_shape){.columns = ", \"group\": \"grp\"", .n_keys = 1}, key_on);
}

/* ---- the native handle ---- */

static atomic_int handles;

static hf_outcome asks(hf_delivery *delivery, void *ctx)
{
    struct hf_test_jobs *jobs = ctx;
    size_t run = hf_test_run_begin(jobs, delivery);
    int mask = 0;
    for (int d = 0; d < 3; d++)
        mask |= hf_test_delivery_native(delivery, (enum hf__database)d) ? 1 << d : 0;
    atomic_store(&handles, mask);
    hf_test_run_end(jobs, run);
    return HF_ACK;
}

static void handle_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    for (int transactional = 0; transactional < 2; transactional++) {
        hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
        options.workers = 1;
        options.poll_ms = 50;
        options.transactional = transactional;
        hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
        HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, asks, jobs, NULL, &err), &err);
        HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
        hf_test_jobs_add(jobs, runtime, 1);
        wait_empty(runtime);
        CU_ASSERT_EQUAL(atomic_load(&handles), transactional ? 1 << jobs->kind.database : 0);
        stop(runtime);
    }
}

static void the_handle_is_shown_to_whom_it_belongs(void)
{
    on_all(30, handle_on);
}

/* ---- refused ---- */

static void batch(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    (void)deliveries;
    (void)n;
    (void)ctx;
}

static hf_status subscribe(hf_runtime *runtime, const hf_table *table, hf_subscription_options options, hf_error *err)
{
    return options.batch ? hf_subscribe_batch(runtime, table, &options, batch, NULL, NULL, err)
                         : hf_subscribe(runtime, table, &options, handle, NULL, NULL, err);
}

static void refused_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    bool sqlite = jobs->kind.database == HF__SQLITE;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    options.transactional = true;
    options.batch = 2;
    options.workers = 1;
    HF_TEST_STATUS(subscribe(runtime, jobs->table, options, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "set batch to 1"));
    options.batch = 0;
    options.workers = 2;
    HF_TEST_STATUS(subscribe(runtime, jobs->table, options, &err), sqlite ? HF_INVALID : HF_OK, &err);
    if (sqlite)
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "set workers to 1"));
    options.workers = 0;
    HF_TEST_OK(subscribe(runtime, jobs->table, options, &err), &err);
    HF_TEST_STATUS(subscribe(runtime, jobs->table, options, &err), sqlite ? HF_INVALID : HF_OK, &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void isolation_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    bool sqlite = jobs->kind.database == HF__SQLITE, row_lock = jobs->kind.strategy == HF_ROW_LOCK;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_STATUS(subscribe(runtime, jobs->table, options, &err), row_lock ? HF_OK : HF_INVALID, &err);
    if (!row_lock)
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "set transactional"));
    options.transactional = true;
    HF_TEST_STATUS(subscribe(runtime, jobs->table, options, &err), sqlite ? HF_INVALID : HF_OK, &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

/* The level of the description is that of the handler's transaction. */
static hf_outcome reads_its_level(hf_delivery *delivery, void *ctx)
{
    struct hf_test_jobs *jobs = ((struct script *)ctx)->jobs;
    size_t run = hf_test_run_begin(jobs, delivery);
    void *native = hf_test_delivery_native(delivery, HF__POSTGRES);
    long is = native
                  ? hf_test_native_int(HF__POSTGRES, native, "SELECT (current_setting('transaction_isolation') = 'repeatable read')::int")
                  : -1;
    atomic_store(&handles, (int)is);
    hf_test_run_end(jobs, run);
    return HF_ACK;
}

static void level_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1, .handler = reads_its_level});
    hf_test_jobs_add(jobs, runtime, 1);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 1);
}

static void refused(void)
{
    hf_error err = {.status = HF_OK};
    struct hf_test_jobs jobs;
    struct hf_test_shape shape = {.settings = ", \"isolation\": \"repeatable_read\""};
    on_all(30, refused_on);
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        on_kind(hf_test_kinds[i], 30, shape, isolation_on);
    hf_test_jobs_open(&jobs, (struct hf_test_kind){HF__POSTGRES, HF_LEASE}, 30);
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    runtime_options.pool_size = 1;
    options.transactional = true;
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, &runtime_options);
    HF_TEST_OK(subscribe(runtime, jobs.table, options, &err), &err);
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "set pool_size to 2"));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(&jobs);
}

/* A renewal that its snapshot does not show must not look like the loss of the lease. */
static void snapshot_on(struct hf_test_jobs *jobs)
{
    if (jobs->kind.strategy != HF_LEASE)
        return;
    reset_script();
    script.holds_ms = 2500;
    hf_runtime *runtime = started(jobs, (struct setup){.workers = 1});
    hf_runtime *rival = started(jobs, (struct setup){.workers = 1});
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    hf_test_sleep_ms(2000); /* its lease is over */
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&script.cancelled), HF_NOT_CANCELLED);
    CU_ASSERT_EQUAL(written(jobs), 1);
    stop(rival);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
}

static void isolation_level(void)
{
    struct hf_test_shape shape = {.settings = ", \"isolation\": \"repeatable_read\""};
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        if (hf_test_kinds[i].database == HF__POSTGRES) {
            reset_script();
            atomic_store(&handles, 0);
            on_kind(hf_test_kinds[i], 30, shape, level_on);
            CU_ASSERT_EQUAL(atomic_load(&handles), 1);
        }
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        if (hf_test_kinds[i].database != HF__SQLITE)
            on_kind(hf_test_kinds[i], 1, shape, snapshot_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"writes stay with the ack", writes_stay_with_the_ack},
        {"nothing stays with other outcomes", nothing_stays_with_other_outcomes},
        {"dead letters after the rollback", dead_letters_after_the_rollback},
        {"nothing stays after the drain limit", nothing_stays_after_the_drain_limit},
        {"nothing stays with a lost lease", nothing_stays_with_a_lost_lease},
        {"a transaction that cannot be opened", a_transaction_that_cannot_be_opened},
        {"a handler that ends its transaction", a_handler_that_ends_its_transaction},
        {"another outcome without a transaction", another_outcome_without_a_transaction},
        {"deadlocks and lock waits", deadlocks_and_lock_waits},
        {"an ack of a failed transaction", an_ack_of_a_failed_transaction},
        {"settled by another thread", settled_by_another_thread},
        {"the session is killed", the_session_is_killed},
        {"the connection is cut", the_connection_is_cut},
        {"SQLite outlives its lease", sqlite_outlives_its_lease},
        {"a lease is renewed beside its transaction", a_lease_is_renewed_beside_its_transaction},
        {"the next delivery has a fresh session", the_next_delivery_has_a_fresh_session},
        {"the key is free after the ack", the_key_is_free_after_the_ack},
        {"the handle is shown to whom it belongs", the_handle_is_shown_to_whom_it_belongs},
        {"refused", refused},
        {"isolation level", isolation_level},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_transaction", tests);
}
