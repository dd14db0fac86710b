/* ctest: timeout=240 labels=e2e
 * What goes wrong in the field: pools too small, other isolation levels, long reasons, full servers, deadlocks, claims that fail. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define APPLICATION "e2e_faults"

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    static struct hf_test_jobs jobs; /* outlives a failed test, whose handlers still run */
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        hf_test_jobs_open(&jobs, hf_test_kinds[i], 30);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static void on_servers(void (*test)(struct hf_test_jobs *jobs))
{
    static struct hf_test_jobs jobs;
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].database != HF__SQLITE) {
            hf_test_jobs_open(&jobs, hf_test_kinds[i], 30);
            test(&jobs);
            hf_test_jobs_close(&jobs);
        }
    }
}

static const char *place(const struct hf_test_jobs *jobs)
{
    return hf_test_format("%s, %s", hf__database_name(jobs->kind.database), hf_strategy_name(jobs->kind.strategy));
}

static hf_runtime *subscribed(struct hf_test_jobs *jobs, size_t workers, hf_runtime_options options, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.application_name = APPLICATION;
    subscription.workers = workers;
    subscription.poll_ms = 30;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &subscription, handler, ctx, NULL, &err), &err);
    return runtime;
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = subscribed(jobs, workers, (hf_runtime_options)HF_RUNTIME_OPTIONS_INIT, handler, ctx);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void must_count(const struct hf_test_jobs *jobs, hf_runtime *runtime, const char *name, double expected)
{
    double found = hf_test_stat(runtime, name);
    if (found != expected) {
        hf_test_fail("%s: %s is %g, not %g", place(jobs), name, found, expected);
    }
}

static void wait_empty(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_status status = hf_runtime_wait_empty(runtime, 60000, &err);
    if (status != HF_OK) {
        hf_test_fail("%s: not empty: %s; log: %s", place(jobs), hf_status_name(status), jobs->log);
    }
}

static void stop(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
    must_count(jobs, runtime, "pool.open", 0);
    must_count(jobs, runtime, "model_exceeded", 0);
    must_count(jobs, runtime, "subscription.0.in_work", 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static size_t times_logged(struct hf_test_jobs *jobs, const char *text)
{
    size_t n = 0;
    pthread_mutex_lock(&jobs->lock);
    for (const char *at = jobs->log; at && (at = strstr(at, text)); at++) {
        n++;
    }
    pthread_mutex_unlock(&jobs->lock);
    return n;
}

static void forget_log(struct hf_test_jobs *jobs)
{
    free(jobs->log);
    jobs->log = NULL;
}

static void all_at_the_first(struct hf_test_jobs *jobs, size_t from)
{
    for (size_t i = from; i < jobs->n_runs; i++) {
        CU_ASSERT_EQUAL(jobs->runs[i].attempt, 1);
    }
}

/* ---- a pool smaller than the workers ---- */

static hf_outcome a_moment(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(4);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

/* The most handlers that ran at one moment. */
static size_t most_at_once(const struct hf_test_jobs *jobs, size_t from)
{
    size_t most = 0;
    for (size_t i = from; i < jobs->n_runs; i++) {
        size_t n = 0;
        for (size_t j = from; j < jobs->n_runs; j++) {
            n += jobs->runs[j].begin_us <= jobs->runs[i].begin_us && jobs->runs[j].end_us > jobs->runs[i].begin_us;
        }
        most = n > most ? n : most;
    }
    return most;
}

static bool holds(const struct hf_test_jobs *jobs)
{
    return jobs->kind.strategy == HF_ROW_LOCK || (jobs->kind.strategy == HF_ADVISORY_LOCK && jobs->kind.database != HF__SQLITE);
}

static void run_in_pool(struct hf_test_jobs *jobs, size_t workers, size_t pool)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    size_t rows = workers * 2 + 4, from = jobs->n_runs, most = pool > 1 ? pool - 1 : 1; /* one is spare, if there are two */
    size_t expected = holds(jobs) && most < workers ? most : workers;
    options.pool_size = pool;
    hf_runtime *runtime = subscribed(jobs, workers, options, a_moment, jobs);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    hf_test_jobs_add(jobs, runtime, rows);
    wait_empty(jobs, runtime);
    must_count(jobs, runtime, "subscription.0.acked", (double)rows);
    must_count(jobs, runtime, "subscription.0.claimed", (double)rows);
    CU_ASSERT(hf_test_stat(runtime, "pool.peak_open") <= (double)pool);
    stop(jobs, runtime);
    CU_ASSERT_EQUAL(jobs->n_runs - from, rows);
    CU_ASSERT(most_at_once(jobs, from) <= expected);
    if (times_logged(jobs, "is too small for") != (expected < workers)) {
        hf_test_fail("%s, %zu workers, a pool of %zu: %s", place(jobs), workers, pool, jobs->log);
    }
    forget_log(jobs);
}

static void small_pool_on(struct hf_test_jobs *jobs)
{
    static const size_t workers[] = {1, 4, 16}, pools[] = {1, 2, 4};
    for (size_t w = 0; w < LENGTH(workers); w++) {
        for (size_t p = 0; p < LENGTH(pools); p++) {
            run_in_pool(jobs, workers[w], pools[p]);
        }
    }
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
}

static void small_pool(void)
{
    on_all(small_pool_on);
}

/* ---- handlers that want one connection more ---- */

struct parents {
    struct hf_test_jobs *jobs;
    hf_runtime *runtime;
    atomic_int enqueued, timed_out, others;
};

static hf_outcome enqueues_a_child(hf_delivery *delivery, void *ctx)
{
    struct parents *parents = ctx;
    size_t run = hf_test_run_begin(parents->jobs, delivery);
    if (hf_delivery_payload(delivery, &(size_t){0})) { /* a child has none */
        hf_job child = HF_JOB_INIT;
        hf_status status = hf_enqueue(parents->runtime, parents->jobs->table, &child, 1, NULL, NULL);
        atomic_fetch_add(status == HF_OK ? &parents->enqueued : status == HF_TIMEOUT ? &parents->timed_out : &parents->others, 1);
    }
    hf_test_run_end(parents->jobs, run);
    return HF_ACK;
}

static void greedy_in(struct hf_test_jobs *jobs, size_t workers, size_t pool)
{
    static struct parents parents;
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    size_t rows = 2 * workers;
    options.pool_size = pool;
    options.statement_timeout_ms = 1500;
    parents = (struct parents){.jobs = jobs};
    parents.runtime = subscribed(jobs, workers, options, enqueues_a_child, &parents);
    hf_test_jobs_add(jobs, parents.runtime, rows);
    HF_TEST_OK(hf_runtime_start(parents.runtime, &err), &err);
    wait_empty(jobs, parents.runtime);
    int enqueued = atomic_load(&parents.enqueued), timed_out = atomic_load(&parents.timed_out);
    CU_ASSERT_EQUAL(enqueued + timed_out, (int)rows);
    CU_ASSERT_EQUAL(atomic_load(&parents.others), 0);
    if (pool == 1 && holds(jobs)) {
        CU_ASSERT_EQUAL(enqueued, 0); /* its own delivery has the only connection: told so in time, and no deadlock */
    } else {
        CU_ASSERT(enqueued > 0);
    }
    must_count(jobs, parents.runtime, "subscription.0.acked", (double)rows + enqueued);
    stop(jobs, parents.runtime);
    forget_log(jobs);
}

static void greedy_on(struct hf_test_jobs *jobs)
{
    greedy_in(jobs, 1, 1);
    greedy_in(jobs, 4, 2);
}

static void greedy_handlers(void)
{
    on_all(greedy_on);
}

/* ---- a server whose default is another isolation level ---- */

enum { ISOLATED = 240 };

static void isolated(struct hf_test_kind kind, const char *url)
{
    static struct hf_test_jobs jobs;
    hf_error err = {.status = HF_OK};
    hf_test_jobs_open(&jobs, kind, 30);
    const char *own = jobs.url;
    jobs.url = url;
    hf_runtime *maker = hf_test_jobs_runtime(&jobs, NULL);
    HF_TEST_OK(hf_table_create(maker, jobs.table, &err), &err);
    HF_TEST_OK(hf_runtime_close(maker), NULL);
    hf_runtime *one = start(&jobs, 8, a_moment, &jobs), *two = start(&jobs, 8, a_moment, &jobs);
    hf_test_jobs_add(&jobs, one, ISOLATED);
    wait_empty(&jobs, one);
    wait_empty(&jobs, two);
    hf_runtime *const both[] = {one, two};
    double acked = 0;
    for (size_t i = 0; i < LENGTH(both); i++) {
        acked += hf_test_stat(both[i], "subscription.0.acked");
        must_count(&jobs, both[i], "subscription.0.claim_errors", 0);
        must_count(&jobs, both[i], "subscription.0.claim_retries", 0);
        must_count(&jobs, both[i], "subscription.0.settle_errors", 0);
        stop(&jobs, both[i]);
    }
    CU_ASSERT_EQUAL(acked, ISOLATED);
    CU_ASSERT_EQUAL(jobs.n_runs, ISOLATED);
    all_at_the_first(&jobs, 0);
    hf_test_no_overlap(&jobs);
    CU_ASSERT_PTR_NULL(jobs.log);
    jobs.url = own;
    hf_test_jobs_close(&jobs);
}

static void isolation_on_postgres(void)
{
    static const char *const levels[] = {"repeatable read", "serializable"};
    const char *database = hf_test_scratch("e2e_isolation"), *url = hf_test_postgres_url();
    const char *there = hf_test_format("%.*s/%s", (int)(strrchr(url, '/') - url), url, database);
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("CREATE DATABASE %s OWNER holdfast", database));
    for (size_t i = 0; i < LENGTH(levels); i++) {
        hf_test_sql(hf_test_postgres_admin_url(),
                    hf_test_format("ALTER DATABASE %s SET default_transaction_isolation = '%s'", database, levels[i]));
        for (int strategy = HF_ROW_LOCK; strategy <= HF_ADVISORY_LOCK; strategy++) {
            isolated((struct hf_test_kind){HF__POSTGRES, (hf_strategy)strategy}, there);
        }
    }
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("DROP DATABASE %s WITH (FORCE)", database));
}

struct gated {
    struct hf_test_jobs *jobs;
    struct hf_test_gate gate;
};

static hf_outcome wait_at_gate(hf_delivery *delivery, void *ctx)
{
    struct gated *gated = ctx;
    size_t run = hf_test_run_begin(gated->jobs, delivery);
    hf_test_gate_pass(&gated->gate);
    hf_test_run_end(gated->jobs, run);
    return HF_ACK;
}

/* InnoDB looks anew only when nobody has asked for a tenth of a second. */
static bool is_read_committed(void *arg)
{
    const struct hf_test_jobs *jobs = arg;
    hf_test_sleep_ms(150);
    return hf_test_query_int(jobs->url,
                             "SELECT count(*) > 0 AND min(trx_isolation_level = 'READ COMMITTED') FROM information_schema.innodb_trx "
                             "WHERE trx_mysql_thread_id IN (SELECT processlist_id FROM performance_schema.session_connect_attrs "
                             "WHERE attr_name = 'program_name' AND attr_value = '" APPLICATION "')") == 1;
}

/* There the default is REPEATABLE READ as it comes; a claim at that level would lock the gaps between rows too. */
static void isolation_on_mysql(void)
{
    static struct hf_test_jobs jobs;
    static struct gated gated;
    hf_test_jobs_open(&jobs, (struct hf_test_kind){HF__MYSQL, HF_ROW_LOCK}, 30);
    gated = (struct gated){&jobs, HF_TEST_GATE_INIT};
    const char *level = hf_test_is_mariadb() ? "SELECT @@global.tx_isolation" : "SELECT @@global.transaction_isolation";
    CU_ASSERT_STRING_EQUAL(hf_test_query_text(jobs.url, level), "REPEATABLE-READ");
    hf_runtime *runtime = start(&jobs, 1, wait_at_gate, &gated);
    hf_test_jobs_add(&jobs, runtime, 2);
    hf_test_gate_await(&gated.gate, 1);
    CU_ASSERT(hf_test_wait_until(is_read_committed, &jobs, 30000));
    struct hf__conn *outside = hf_test_session(jobs.url);
    hf_test_session_run(outside, "SET innodb_lock_wait_timeout = 1");
    hf_test_session_run(outside, hf_test_format("INSERT INTO %s (id, retry_after) VALUES (-5, '2000-01-01')", jobs.name));
    hf__conn_close(outside);
    hf_test_gate_open(&gated.gate);
    wait_empty(&jobs, runtime);
    stop(&jobs, runtime);
    hf_test_jobs_close(&jobs);
}

/* ---- reasons longer than their column ---- */

static char long_reason[70 * 1024];

static hf_outcome fails_at_length(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    if (hf_delivery_attempt(delivery) > 1) {
        return HF_ACK;
    }
    hf_delivery_set_delay(delivery, 3600000);
    const char *reason = id == 2 ? "a\0b\xffz" : long_reason;
    size_t len = id == 2 ? 5 : id == 3 ? 49 : sizeof long_reason;
    return hf_delivery_set_reason(delivery, reason, len) != HF_OK ? HF_ACK : id == 1 ? HF_RETRY : HF_RETRY_AFTER;
}

static bool all_failed(void *arg)
{
    return hf_test_stat(arg, "subscription.0.retried_later") == 3 && hf_test_stat(arg, "subscription.0.acked") == 1;
}

static void long_reason_on(struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    long_reason[0] = 'x';
    for (size_t i = 1; i + 1 < sizeof long_reason; i += 2) { /* so that 50 bytes end within a character */
        memcpy(&long_reason[i], "\xc3\xa9", 2);
    }
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s DROP COLUMN last_error", name));
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s ADD COLUMN last_error VARCHAR(50)", name));
    hf_runtime *runtime = start(jobs, 2, fails_at_length, jobs);
    hf_test_jobs_add(jobs, runtime, 4);
    CU_ASSERT(hf_test_wait_until(all_failed, runtime, 30000));
    must_count(jobs, runtime, "subscription.0.settle_errors", 0);
    must_count(jobs, runtime, "subscription.0.retried", 1);
    stop(jobs, runtime);
    bool any_length = jobs->kind.database == HF__SQLITE; /* whatever a column's type says */
    const char *of = any_length ? "length(CAST(last_error AS BLOB))" : "octet_length(last_error)";
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, hf_test_format("id = 3 AND %s = 49 AND last_error LIKE 'x\xc3\xa9\xc3\xa9%%'", of)), 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(
                        jobs, hf_test_format("id = 4 AND %s = %d AND last_error LIKE 'x\xc3\xa9\xc3\xa9%%'", of, any_length ? 65535 : 49)),
                    1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "id = 2 AND last_error = 'a?b?z'"), 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 2"), 3);
}

static void long_reasons(void)
{
    on_all(long_reason_on);
}

/* ---- a server without a free place ---- */

enum { LIMIT = 4, FREE = 2, WANTED = 8, CROWD = 40 };

static const char *limited_user(const struct hf_test_jobs *jobs, const char *user)
{
    const char *url = jobs->url, *at = strrchr(url, '@');
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("CREATE ROLE %s LOGIN CONNECTION LIMIT %d", user, LIMIT));
        hf_test_sql(url, hf_test_format("GRANT ALL ON %s TO %s", jobs->name, user));
        hf_test_sql(url, hf_test_format("GRANT ALL ON SEQUENCE %s_id_seq TO %s", jobs->name, user));
        return hf_test_format("postgresql://%s%s", user, at);
    }
    hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("CREATE USER %s@'127.0.0.1' WITH MAX_USER_CONNECTIONS %d", user, LIMIT));
    hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("GRANT ALL ON holdfast.%s TO %s@'127.0.0.1'", jobs->name, user));
    return hf_test_format("mysql://%s%s", user, at);
}

static void raise_limit(const struct hf_test_jobs *jobs, const char *user)
{
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("ALTER ROLE %s CONNECTION LIMIT 50", user));
    } else {
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("ALTER USER %s@'127.0.0.1' WITH MAX_USER_CONNECTIONS 50", user));
    }
}

static void drop_user(const struct hf_test_jobs *jobs, const char *user)
{
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("DROP OWNED BY %s; DROP ROLE %s", user, user));
    } else {
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("DROP USER %s@'127.0.0.1'", user));
    }
}

static void occupy(const char *url, struct hf__conn **sessions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sessions[i] = hf_test_session(url);
    }
}

static void leave(struct hf__conn **sessions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hf__conn_close(sessions[i]);
    }
}

static hf_outcome longer_moment(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(40);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool can_start(void *arg)
{
    return hf_runtime_start(arg, NULL) == HF_OK;
}

static void full_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    struct hf__conn *sessions[LIMIT];
    const char *own = jobs->url, *user = hf_test_scratch("e2e_full"), *url = limited_user(jobs, user);
    jobs->url = url;
    hf_runtime *runtime = subscribed(jobs, WANTED, (hf_runtime_options)HF_RUNTIME_OPTIONS_INIT, longer_moment, jobs);
    occupy(url, sessions, LIMIT);
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_TRANSIENT, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, user));
    leave(sessions, LIMIT);
    CU_ASSERT_FATAL(hf_test_wait_until(can_start, runtime, 30000)); /* a session ends on the server a moment later */
    occupy(url, sessions, LIMIT - FREE);
    jobs->url = own;
    hf_runtime *producer = hf_test_jobs_runtime(jobs, NULL);
    hf_test_jobs_add(jobs, producer, CROWD);
    wait_empty(jobs, runtime);
    must_count(jobs, runtime, "subscription.0.acked", CROWD);
    CU_ASSERT(hf_test_stat(runtime, "pool.peak_open") <= FREE);
    if (holds(jobs)) {
        CU_ASSERT(hf_test_stat(runtime, "pool.connect_failures") > 0);
    }
    leave(sessions, LIMIT - FREE);
    raise_limit(jobs, user);
    int64_t limit_ms = hf_test_now_ms() + 60000;
    double rows = CROWD;
    while (hf_test_stat(runtime, "subscription.0.peak_in_work") < WANTED && hf_test_now_ms() < limit_ms) {
        hf_test_jobs_add(jobs, producer, CROWD);
        rows += CROWD;
        wait_empty(jobs, runtime);
    }
    CU_ASSERT(hf_test_stat(runtime, "subscription.0.peak_in_work") >= WANTED);
    must_count(jobs, runtime, "subscription.0.acked", rows);
    HF_TEST_OK(hf_runtime_close(producer), NULL);
    stop(jobs, runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, (size_t)rows);
    all_at_the_first(jobs, 0);
    CU_ASSERT(times_logged(jobs, "\n") < 20);
    drop_user(jobs, user);
}

static void full_server(void)
{
    on_servers(full_on);
}

/* ---- a deadlock under the settle ---- */

static const char *admin(const struct hf_test_jobs *jobs)
{
    return jobs->kind.database == HF__POSTGRES ? hf_test_postgres_admin_url() : hf_test_mysql_admin_url();
}

/* Deleting a job writes to a second table: so a settle needs what someone else can hold. */
static void add_side_table(const struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    hf_test_sql(jobs->url, hf_test_format("CREATE TABLE %s_side (id INT PRIMARY KEY, n INT)", name));
    hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s_side VALUES (1, 0)", name));
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(jobs->url, hf_test_format("CREATE FUNCTION %s_count() RETURNS trigger LANGUAGE plpgsql AS "
                                              "'BEGIN UPDATE %s_side SET n = n + 1; RETURN NULL; END'",
                                              name, name));
        hf_test_sql(jobs->url,
                    hf_test_format("CREATE TRIGGER counts AFTER DELETE ON %s FOR EACH ROW EXECUTE PROCEDURE %s_count()", name, name));
    } else {
        hf_test_sql(jobs->url, hf_test_format("CREATE TRIGGER %s_counts AFTER DELETE ON %s FOR EACH ROW UPDATE %s_side SET n = n + 1", name,
                                              name, name));
    }
}

static void drop_side_table(const struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s_side", jobs->name));
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(jobs->url, hf_test_format("DROP FUNCTION %s_count() CASCADE", jobs->name));
    }
}

/* An outside session that holds the side row, and that the database prefers to ours when it must choose a victim: PostgreSQL takes
 * whose patience ends first, MySQL who has written less. */
static struct hf__conn *rival(const struct hf_test_jobs *jobs)
{
    struct hf__conn *session = hf_test_session(admin(jobs));
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_session_run(session, "SET deadlock_timeout = '60s'");
        hf_test_session_run(session, "SET lock_timeout = '6s'");
    }
    hf_test_session_run(session, "BEGIN");
    hf_test_session_run(session, hf_test_format("UPDATE %s_side SET n = 0 WHERE id = 1", jobs->name));
    if (jobs->kind.database == HF__MYSQL) {
        hf_test_session_run(session,
                            hf_test_format("INSERT INTO %s_side WITH RECURSIVE s AS (SELECT 2 AS n UNION ALL SELECT n + 1 FROM s WHERE "
                                           "n < 500) SELECT n, 0 FROM s",
                                           jobs->name));
    }
    return session;
}

static bool settle_waits(void *arg)
{
    const struct hf_test_jobs *jobs = arg;
    if (jobs->kind.database == HF__POSTGRES) {
        return hf_test_query_int(jobs->url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                                            "AND query LIKE '%DELETE%' AND application_name = '" APPLICATION "'") > 0;
    }
    return hf_test_query_int(jobs->url,
                             "SELECT count(*) FROM information_schema.processlist WHERE (info LIKE 'DELETE%' OR info LIKE '%_side SET n%') "
                             "AND time >= 1 AND id IN (SELECT processlist_id FROM performance_schema.session_connect_attrs "
                             "WHERE attr_name = 'program_name' AND attr_value = '" APPLICATION "')") > 0;
}

/* What both sides wait for closes the circle. With row lock on PostgreSQL our transaction keeps the row through every try, until the
 * rival gives up; elsewhere the deadlock gives the row to the rival. */
static void close_the_circle(const struct hf_test_jobs *jobs, struct hf__conn *session)
{
    hf_error err = {.status = HF_OK};
    hf_status status =
        hf__conn_exec(session, hf_test_format("UPDATE %s SET payload = 'x' WHERE id = 1", jobs->name), hf__after_ms(60000), &err);
    bool keeps = jobs->kind.database == HF__POSTGRES && jobs->kind.strategy == HF_ROW_LOCK;
    if (keeps) {
        CU_ASSERT_STRING_EQUAL(err.sqlstate, "55P03");
    } else {
        HF_TEST_OK(status, &err);
    }
    hf_test_session_run(session, "ROLLBACK");
}

static void deadlock_on(struct hf_test_jobs *jobs)
{
    static struct gated gated;
    bool given_away = jobs->kind.database == HF__MYSQL && jobs->kind.strategy == HF_ROW_LOCK;
    gated = (struct gated){jobs, HF_TEST_GATE_INIT};
    add_side_table(jobs);
    hf_runtime *runtime = start(jobs, 1, wait_at_gate, &gated);
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_gate_await(&gated.gate, 1);
    struct hf__conn *session = rival(jobs);
    hf_test_gate_open(&gated.gate);
    CU_ASSERT(hf_test_wait_until(settle_waits, jobs, 30000));
    close_the_circle(jobs, session);
    hf__conn_close(session);
    wait_empty(jobs, runtime);
    must_count(jobs, runtime, "subscription.0.acked", 1);
    must_count(jobs, runtime, "subscription.0.lost", given_away);
    must_count(jobs, runtime, "subscription.0.lease_lost", 0);
    must_count(jobs, runtime, "subscription.0.settle_errors", 0);
    must_count(jobs, runtime, "subscription.0.retried", 0);
    must_count(jobs, runtime, "subscription.0.retried_later", 0);
    stop(jobs, runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, given_away ? 2 : 1);
    all_at_the_first(jobs, 0);
    CU_ASSERT_EQUAL(hf_test_query_int(jobs->url, hf_test_format("SELECT sum(n) FROM %s_side", jobs->name)), 1);
    drop_side_table(jobs);
}

static void deadlock_in_a_settle(void)
{
    on_servers(deadlock_on);
}

/* ---- a settle that the database never takes ---- */

static bool settle_has_failed(void *arg)
{
    return hf_test_stat(arg, "subscription.0.settle_errors") >= 1;
}

static void refuse_deletes(const struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(
            jobs->url,
            hf_test_format("CREATE FUNCTION %s_no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'", name));
        hf_test_sql(jobs->url,
                    hf_test_format("CREATE TRIGGER refuses BEFORE DELETE ON %s FOR EACH ROW EXECUTE PROCEDURE %s_no()", name, name));
    } else if (jobs->kind.database == HF__MYSQL) {
        hf_test_sql(jobs->url, hf_test_format("CREATE TRIGGER %s_no BEFORE DELETE ON %s FOR EACH ROW SIGNAL SQLSTATE '45000'", name, name));
    } else {
        hf_test_sql(jobs->url, hf_test_format("CREATE TRIGGER refuses BEFORE DELETE ON %s BEGIN SELECT RAISE(ABORT, 'no'); END", name));
    }
}

static void refused_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    refuse_deletes(jobs);
    hf_runtime *runtime = start(jobs, 1, a_moment, jobs);
    hf_test_jobs_add(jobs, runtime, 1);
    CU_ASSERT(hf_test_wait_until(settle_has_failed, runtime, 30000));
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    must_count(jobs, runtime, "subscription.0.acked", 0);
    must_count(jobs, runtime, "subscription.0.retried", 0);
    must_count(jobs, runtime, "subscription.0.retried_later", 0);
    CU_ASSERT(hf_test_logged(jobs, "was not settled"));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "last_error IS NULL"), 1);
    if (jobs->kind.strategy == HF_ROW_LOCK) {
        CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 1"), 1);
    }
    if (jobs->kind.database == HF__POSTGRES) {
        hf_test_sql(jobs->url, hf_test_format("DROP FUNCTION %s_no() CASCADE", jobs->name));
    }
}

static void refused_settles(void)
{
    on_all(refused_on);
}

/* ---- claims that fail ---- */

static void refuse_updates(const struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    if (jobs->kind.database == HF__MYSQL) { /* as if each were killed */
        hf_test_sql(jobs->url, hf_test_format("CREATE TRIGGER %s_stop BEFORE UPDATE ON %s FOR EACH ROW "
                                              "SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317",
                                              name, name));
    } else {
        hf_test_sql(jobs->url,
                    hf_test_format("CREATE TRIGGER %s_stop BEFORE UPDATE ON %s BEGIN SELECT RAISE(ABORT, 'stop'); END", name, name));
    }
}

static void allow_updates(const struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("DROP TRIGGER %s_stop", jobs->name));
}

static void revoke(const struct hf_test_jobs *jobs)
{
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("REVOKE UPDATE ON %s FROM holdfast", jobs->name));
}

static void grant(const struct hf_test_jobs *jobs)
{
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("GRANT UPDATE ON %s TO holdfast", jobs->name));
}

/* A policy that ends every look at a row as statement_timeout does. */
static void cancel_all(const struct hf_test_jobs *jobs)
{
    const char *name = jobs->name;
    hf_test_sql(jobs->url, hf_test_format("CREATE FUNCTION %s_cancel() RETURNS boolean LANGUAGE plpgsql AS "
                                          "'BEGIN RAISE EXCEPTION ''cancelled'' USING ERRCODE = ''57014''; END'",
                                          name));
    hf_test_sql(jobs->url, hf_test_format("CREATE POLICY cancels ON %s USING (%s_cancel())", name, name));
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY", name));
}

static void cancel_none(const struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s DISABLE ROW LEVEL SECURITY", jobs->name));
    hf_test_sql(jobs->url, hf_test_format("DROP FUNCTION %s_cancel() CASCADE", jobs->name));
}

struct obstacle {
    enum hf__database database;
    bool stops_row_lock; /* whose claims change nothing */
    void (*set)(const struct hf_test_jobs *jobs), (*clear)(const struct hf_test_jobs *jobs);
};

static const struct obstacle obstacles[] = {
    {HF__POSTGRES, true, revoke, grant},
    {HF__POSTGRES, true, cancel_all, cancel_none},
    {HF__MYSQL, false, refuse_updates, allow_updates},
    {HF__SQLITE, false, refuse_updates, allow_updates},
};

static double failed_claims(hf_runtime *runtime)
{
    return hf_test_stat(runtime, "subscription.0.claim_errors") + hf_test_stat(runtime, "subscription.0.claim_retries");
}

/* No claim is under way that began before the obstacle was there. */
static bool only_fails(void *arg)
{
    return failed_claims(arg) > 0 && hf_test_stat(arg, "pool.purposes.claim.in_use") == 0;
}

static bool has_failed_often(void *arg)
{
    /* passing failures come faster, and are news from the sixth in a row on */
    return hf_test_stat(arg, "subscription.0.claim_errors") >= 3 || hf_test_stat(arg, "subscription.0.claim_retries") >= 7;
}

static void meets(struct hf_test_jobs *jobs, const struct obstacle *obstacle)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(jobs, 2, a_moment, jobs);
    hf_test_jobs_add(jobs, runtime, 1);
    wait_empty(jobs, runtime);
    int64_t begin_ms = hf_test_now_ms();
    obstacle->set(jobs);
    hf_test_sql(jobs->kind.database == HF__SQLITE ? jobs->url : admin(jobs),
                hf_test_format("INSERT INTO %s (payload) VALUES ('x')", jobs->name));
    CU_ASSERT(hf_test_wait_until(only_fails, runtime, 30000));
    hf_test_sleep_ms(100);
    double empty = hf_test_stat(runtime, "subscription.0.empty_claims");
    CU_ASSERT(hf_test_wait_until(has_failed_often, runtime, 60000));
    CU_ASSERT(hf_runtime_wait_empty(runtime, 300, &err) != HF_OK);
    double failed = failed_claims(runtime);
    double seconds = (double)(hf_test_now_ms() - begin_ms) / 1000;
    CU_ASSERT(failed < 20 + 20 * seconds); /* it backs off */
    must_count(jobs, runtime, "subscription.0.empty_claims", empty);
    CU_ASSERT(hf_test_logged(jobs, "a claim failed"));
    size_t logged = times_logged(jobs, "a claim failed");
    CU_ASSERT(logged <= 1 + (size_t)(hf_test_now_ms() - begin_ms) / 5000);
    obstacle->clear(jobs);
    wait_empty(jobs, runtime);
    must_count(jobs, runtime, "subscription.0.acked", 2);
    must_count(jobs, runtime, "subscription.0.workers", 2);
    stop(jobs, runtime);
    all_at_the_first(jobs, jobs->n_runs - 1);
}

static void failing_claims_on(struct hf_test_jobs *jobs)
{
    for (size_t i = 0; i < LENGTH(obstacles); i++) {
        if (obstacles[i].database == jobs->kind.database && (obstacles[i].stops_row_lock || jobs->kind.strategy != HF_ROW_LOCK)) {
            meets(jobs, &obstacles[i]);
            forget_log(jobs);
        }
    }
}

static void failing_claims(void)
{
    on_all(failing_claims_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a small pool", small_pool},
        {"greedy handlers", greedy_handlers},
        {"isolation on PostgreSQL", isolation_on_postgres},
        {"isolation on MySQL", isolation_on_mysql},
        {"long reasons", long_reasons},
        {"full server", full_server},
        {"deadlock in a settle", deadlock_in_a_settle},
        {"refused settles", refused_settles},
        {"failing claims", failing_claims},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_faults", tests);
}
