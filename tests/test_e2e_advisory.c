/* ctest: timeout=240 labels=e2e
 * Advisory locks end to end: one key at a time, no lock left behind, no row run under a key that it has no longer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};

/* ---- a table, its handlers and their record ---- */

struct work {
    struct hf_test_jobs jobs;
    struct hf_test_gate gate;
    const char *name;     /* under which the server knows our sessions */
    const char *keys[64]; /* by run */
};

static void open_work(struct work *work, enum hf__database database, size_t n_keys)
{
    *work = (struct work){.gate = HF_TEST_GATE_INIT, .name = hf_test_scratch("e2e_advisory")};
    hf_test_jobs_open_shape(&work->jobs, (struct hf_test_kind){database, HF_ADVISORY_LOCK}, 30, (struct hf_test_shape){.n_keys = n_keys});
}

/* Another description in place of the usual one. */
static void describe(struct work *work, const char *json)
{
    hf_error err = {.status = HF_OK};
    hf_table_free(work->jobs.table);
    work->jobs.json = json;
    HF_TEST_OK(hf_table_parse(json, strlen(json), &work->jobs.table, &err), &err);
}

static void on_all(void (*test)(struct work *work), size_t n_keys)
{
    static struct work work; /* outlives a failed test, whose handlers still run */
    for (size_t i = 0; i < LENGTH(databases); i++) {
        open_work(&work, databases[i], n_keys);
        test(&work);
        hf_test_jobs_close(&work.jobs);
    }
}

static hf_runtime *start_on(struct work *work, size_t workers, hf_handler handler, hf_runtime_options options)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.application_name = work->name;
    subscription.workers = workers;
    subscription.poll_ms = 30;
    hf_runtime *runtime = hf_test_jobs_runtime(&work->jobs, &options);
    HF_TEST_OK(hf_subscribe(runtime, work->jobs.table, &subscription, handler, work, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static hf_runtime *start(struct work *work, size_t workers, hf_handler handler)
{
    return start_on(work, workers, handler, (hf_runtime_options)HF_RUNTIME_OPTIONS_INIT);
}

static void wait_empty(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
}

static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void must_count(hf_runtime *runtime, const char *name, double expected)
{
    double found = hf_test_stat(runtime, name);
    if (found != expected) {
        hf_test_fail("%s is %g, not %g", name, found, expected);
    }
}

static void must_be_quiet(const struct work *work)
{
    if (work->jobs.log) {
        hf_test_fail("there should be no log: %s", work->jobs.log);
    }
}

/* Puts a row there; the key's column is account. */
static void add(struct work *work, const char *id, const char *account)
{
    hf_error err = {.status = HF_OK};
    hf_job job = HF_JOB_INIT;
    hf_field fields[] = {{"account", account, strlen(account)}, {"id", id, id ? strlen(id) : 0}};
    job.fields = fields;
    job.n_fields = id ? 2 : 1;
    hf_runtime *runtime = hf_test_jobs_runtime(&work->jobs, NULL);
    HF_TEST_OK(hf_enqueue(runtime, work->jobs.table, &job, 1, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static hf_outcome wait_at_gate(hf_delivery *delivery, void *ctx)
{
    struct work *work = ctx;
    size_t run = hf_test_run_begin(&work->jobs, delivery);
    if (run < LENGTH(work->keys)) {
        work->keys[run] = hf_test_format("%s", hf_delivery_key(delivery));
    }
    hf_test_gate_pass(&work->gate);
    hf_test_run_end(&work->jobs, run);
    return HF_ACK;
}

/* ---- the locks that the server knows ---- */

/* The sessions of our runtimes. */
static const char *our_sessions(const struct work *work)
{
    if (work->jobs.kind.database == HF__POSTGRES) {
        return hf_test_format("SELECT pid FROM pg_stat_activity WHERE application_name = '%s'", work->name);
    }
    return hf_test_format("SELECT processlist_id FROM performance_schema.session_connect_attrs "
                          "WHERE attr_name = 'program_name' AND attr_value = '%s'",
                          work->name);
}

/* MariaDB's performance schema does not know the names of these locks, and MySQL has no such plugin. */
#define MARIADB_LOCKS                                                                                                  \
    "(SELECT table_schema AS name, thread_id AS session FROM information_schema.metadata_lock_info WHERE lock_type = " \
    "'User lock') AS locks WHERE session"
#define MYSQL_LOCKS                                                                                                                     \
    "(SELECT object_name AS name, t.processlist_id AS session FROM performance_schema.metadata_locks l JOIN performance_schema.threads" \
    " t ON t.thread_id = l.owner_thread_id WHERE l.object_type = 'USER LEVEL LOCK' AND l.lock_status = 'GRANTED') AS locks WHERE session"

/* How many session locks our runtimes hold, of those that the condition names. */
static const char *locks_where(const struct work *work, const char *condition)
{
    const char *locks = work->jobs.kind.database == HF__POSTGRES ? "pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid"
                        : hf_test_is_mariadb()                   ? MARIADB_LOCKS
                                                                 : MYSQL_LOCKS;
    return hf_test_format("SELECT count(*) FROM %s IN (%s) AND %s", locks, our_sessions(work), condition);
}

static int64_t locks_held(const struct work *work)
{
    return hf_test_query_int(work->jobs.url, locks_where(work, "1 = 1"));
}

static const char *lock_name(const struct work *work, const char *key)
{
    return work->jobs.kind.database == HF__POSTGRES ? hf_test_format("hashtextextended('%s' COLLATE \"C\", 0)", key)
                                                    : hf_test_format("CONCAT(DATABASE(), '.%s')", key);
}

/* Could this session, which is none of ours, have the key now? It has it then. */
static bool can_have(const struct work *work, struct hf__conn *session, const char *key)
{
    const char *name = lock_name(work, key);
    const char *try = work->jobs.kind.database == HF__POSTGRES
                          ? hf_test_format("SELECT CASE WHEN pg_try_advisory_lock(%s) THEN 1 ELSE 0 END", name)
                          : hf_test_format("SELECT GET_LOCK(%s, 0)", name);
    return hf_test_session_int(session, try) == 1;
}

static bool is_free(const struct work *work, const char *key)
{
    struct hf__conn *session = hf_test_session(work->jobs.url);
    bool yes = can_have(work, session, key);
    hf__conn_close(session);
    return yes;
}

/* After a run: the sessions that are still open hold nothing, and every key can be had by another. */
static void nothing_left(const struct work *work, const char *const *keys, size_t n)
{
    if (work->jobs.kind.database == HF__SQLITE) {
        return; /* its keys live in the process: the next run shows whether one is left */
    }
    CU_ASSERT_EQUAL(locks_held(work), 0);
    struct hf__conn *session = hf_test_session(work->jobs.url);
    const char *kept = NULL;
    for (size_t i = 0; i < n && !kept; i++) {
        kept = can_have(work, session, keys[i]) ? NULL : keys[i];
    }
    hf__conn_close(session);
    if (kept) {
        hf_test_fail("the key %s is not free after the run", kept);
    }
}

/* ---- one at a time, and the others meanwhile ---- */

enum { SHARED = 12, KEYS = 3 };

static hf_outcome first_key_waits(hf_delivery *delivery, void *ctx)
{
    const char *key = hf_delivery_key(delivery);
    if (key[strlen(key) - 1] == '0') {
        return wait_at_gate(delivery, ctx);
    }
    struct work *work = ctx;
    hf_test_run_end(&work->jobs, hf_test_run_begin(&work->jobs, delivery));
    return HF_ACK;
}

struct two_runtimes {
    hf_runtime *a, *b;
    double rows;
};

static bool acked_by_both(void *arg)
{
    const struct two_runtimes *two = arg;
    return hf_test_stat(two->a, "subscription.0.acked") + hf_test_stat(two->b, "subscription.0.acked") >= two->rows;
}

static void keys_apart(struct hf_test_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n_runs; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct hf_test_run *a = &jobs->runs[i], *b = &jobs->runs[j];
            bool apart = a->begin_us >= b->end_us || b->begin_us >= a->end_us;
            CU_ASSERT(apart || a->id % KEYS != b->id % KEYS);
        }
    }
}

static void one_at_a_time_on(struct work *work)
{
    struct two_runtimes two = {start(work, 4, first_key_waits), start(work, 4, first_key_waits), SHARED - SHARED / KEYS};
    const char *keys[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = hf_test_format("%s-%zu", work->jobs.name, i);
    }
    hf_test_jobs_add(&work->jobs, two.a, SHARED);
    hf_test_gate_await(&work->gate, 1);
    CU_ASSERT(hf_test_wait_until(acked_by_both, &two, 10000)); /* the rows of the other keys */
    hf_test_sleep_ms(200);                                     /* several polls, each of which sees rows of the key that is held */
    CU_ASSERT_EQUAL(hf_test_gate_waiting(&work->gate), 1);
    CU_ASSERT_EQUAL(hf_test_n_runs(&work->jobs), SHARED - SHARED / KEYS + 1);
    if (work->jobs.kind.database != HF__SQLITE) {
        CU_ASSERT_FALSE(is_free(work, keys[0]));
        CU_ASSERT_EQUAL(locks_held(work), 1);
    }
    hf_test_gate_open(&work->gate);
    wait_empty(two.a);
    wait_empty(two.b);
    nothing_left(work, keys, KEYS);
    stop(two.a);
    stop(two.b);
    nothing_left(work, keys, KEYS);
    CU_ASSERT_EQUAL(work->jobs.n_runs, SHARED);
    keys_apart(&work->jobs);
    must_be_quiet(work);
}

static void one_at_a_time(void)
{
    on_all(one_at_a_time_on, KEYS);
}

/* ---- retries, and plans that would call a lock function twice ---- */

enum { RETRIED = 60 };

static hf_outcome three_times(hf_delivery *delivery, void *ctx)
{
    struct work *work = ctx;
    hf_test_run_end(&work->jobs, hf_test_run_begin(&work->jobs, delivery));
    hf_delivery_set_delay(delivery, 0);
    int64_t attempt = hf_delivery_attempt(delivery);
    return attempt == 1 ? HF_RETRY : attempt == 2 ? HF_RETRY_AFTER : HF_ACK;
}

static void each_key(const struct work *work, const char **keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        keys[i] = hf_test_format("%s-%zu", work->jobs.name, i + 1);
    }
}

/* What the server complained about to our sessions; its log names them. */
static void server_did_not_complain(const struct work *work)
{
    const char *path = hf_test_format("%s/pg/server.log", getenv("HF_TEST_SERVERS"));
    FILE *log = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    if (!log) {
        hf_test_fail("%s cannot be read", path);
        return;
    }
    while (getline(&line, &size, log) >= 0) {
        if (strstr(line, work->name) && strstr(line, "WARNING")) {
            hf_test_fail("%s", line);
        }
    }
    free(line);
    fclose(log);
}

static void retried_on(struct work *work)
{
    static const char *keys[RETRIED];
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.pool_size = 8;
    each_key(work, keys, RETRIED);
    hf_runtime *runtime = start_on(work, 4, three_times, options);
    hf_test_jobs_add(&work->jobs, runtime, RETRIED);
    wait_empty(runtime);
    must_count(runtime, "subscription.0.acked", RETRIED);
    must_count(runtime, "subscription.0.retried", RETRIED);
    must_count(runtime, "subscription.0.retried_later", RETRIED);
    must_count(runtime, "pool.broken", 0);
    CU_ASSERT(hf_test_stat(runtime, "pool.opened") <= 8); /* a lock that was not released would have closed its session */
    nothing_left(work, keys, RETRIED);
    stop(runtime);
    CU_ASSERT_EQUAL(work->jobs.n_runs, 3 * RETRIED);
    hf_test_no_overlap(&work->jobs);
    if (work->jobs.kind.database == HF__POSTGRES) {
        server_did_not_complain(work);
    }
    must_be_quiet(work);
}

static void retried(void)
{
    on_all(retried_on, 0);
}

static void plans(void)
{
    static const char *const settings[] = {"enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_nestloop", "enable_sort"};
    static struct work work;
    for (size_t i = 0; i < LENGTH(settings); i++) {
        open_work(&work, HF__POSTGRES, 0);
        work.jobs.url = hf_test_format("%s?options=-c%%20%s%%3Doff", hf_test_postgres_url(), settings[i]);
        CU_ASSERT_STRING_EQUAL(hf_test_query_text(work.jobs.url, hf_test_format("SHOW %s", settings[i])), "off");
        retried_on(&work);
        hf_test_jobs_close(&work.jobs);
    }
}

/* ---- keys that are easily taken for each other ---- */

static void all_at_once(struct work *work, size_t n)
{
    hf_runtime *runtime = start(work, n, wait_at_gate);
    hf_test_gate_await(&work->gate, n);
    hf_test_gate_open(&work->gate);
    wait_empty(runtime);
    must_count(runtime, "subscription.0.acked", (double)n);
    nothing_left(work, NULL, 0);
    stop(runtime);
    must_be_quiet(work);
}

static void similar_on(struct work *work)
{
    static const char *const accounts[] = {"A",  "a", "\xc3\xa1", "a\xcc\x81",        "\xc3\x9f",        "ss",
                                           "a ", "1", "01",       "\xf0\x9f\x90\x98", "\xf0\x9f\x90\x99"};
    if (work->jobs.kind.database == HF__MYSQL) { /* a collation that takes most of them for equal */
        hf_test_sql(work->jobs.url,
                    hf_test_format("ALTER TABLE %s MODIFY account VARCHAR(255) COLLATE utf8mb4_general_ci NOT NULL", work->jobs.name));
    }
    for (size_t i = 0; i < LENGTH(accounts); i++) {
        add(work, NULL, accounts[i]);
    }
    all_at_once(work, LENGTH(accounts));
}

static void similar_keys(void)
{
    on_all(similar_on, 1);
}

/* A table name of 64 characters, ids of 255 characters of four bytes, equal up to the last. */
static void long_keys(void)
{
    static struct work work;
    open_work(&work, HF__MYSQL, 0);
    const char *name = hf_test_format("%s_%0*d", work.jobs.name, 63 - (int)strlen(work.jobs.name), 0);
    CU_ASSERT_EQUAL_FATAL(strlen(name), 64);
    hf_test_sql(work.jobs.url, hf_test_format("DROP TABLE %s", work.jobs.name));
    hf_test_sql(
        work.jobs.url,
        hf_test_format("CREATE TABLE %s (id VARCHAR(255) PRIMARY KEY, attempt INT NOT NULL DEFAULT 1) CHARACTER SET utf8mb4", name));
    for (int i = 0; i < 4; i++) {
        hf_test_sql(work.jobs.url, hf_test_format("INSERT INTO %s (id) VALUES (CONCAT(REPEAT('\xf0\x9f\x90\x98', 254), '%d'))", name, i));
    }
    work.jobs.name = name;
    describe(&work, hf_test_format(
                        "{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"attempt\": \"attempt\" }, \"advisory_lock\": \"%s-{id}\" }",
                        name, name));
    all_at_once(&work, 4);
    CU_ASSERT_EQUAL(strlen(work.keys[0]), 64 + 1 + 254 * 4 + 1);
    hf_test_jobs_close(&work.jobs);
}

/* ---- rows that change between the look at the candidates and the lock ---- */

struct change {
    const char *statement[2]; /* before and after the table's name */
    size_t runs;              /* that it leaves to the row */
    int64_t left;             /* rows afterwards */
};

static const struct change changes[] = {
    {{"UPDATE", "SET account = 'new'"}, 1, 0},
    {{"DELETE FROM", ""}, 0, 0},
    {{"UPDATE", "SET processed_at = '2020-01-01 00:00:00'"}, 0, 1},
    {{"UPDATE", "SET retry_after = '2098-01-01 00:00:00'"}, 0, 1},
};

/* The table again, with a processed_at column. */
static void with_processed_at(struct work *work)
{
    hf_error err = {.status = HF_OK};
    const char *name = work->jobs.name;
    hf_test_sql(work->jobs.url, hf_test_format("DROP TABLE %s", name));
    describe(work, hf_test_format(
                       "{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\", "
                       "\"processed_at\": \"processed_at\" }, \"advisory_lock\": \"%s-{account}\" }",
                       name, name));
    hf_runtime *runtime = hf_test_jobs_runtime(&work->jobs, NULL);
    HF_TEST_OK(hf_table_create(runtime, work->jobs.table, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

struct waiting {
    const struct work *work;
    hf_runtime *runtime;
    int64_t since_ms; /* SQLite */
};

/* Has the take sent its statement, which now waits for the row? Where the database tells nobody: has it run for long? */
static bool take_waits(void *arg)
{
    struct waiting *waiting = arg;
    const struct work *work = waiting->work;
    switch (work->jobs.kind.database) {
    case HF__POSTGRES:
        return hf_test_query_int(
                   work->jobs.url,
                   hf_test_format("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '%s'",
                                  work->name)) > 0;
    case HF__MYSQL:
        return hf_test_query_int(work->jobs.url,
                                 hf_test_format("SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE%%' "
                                                "AND time >= 1 AND id IN (%s)",
                                                our_sessions(work))) > 0;
    case HF__SQLITE:
        if (hf_test_stat(waiting->runtime, "pool.purposes.claim.in_use") == 0) {
            waiting->since_ms = hf_test_now_ms();
        }
        return hf_test_now_ms() - waiting->since_ms > 500;
    }
    return false;
}

static void lock_the_row(const struct work *work, struct hf__conn *outside)
{
    hf_test_session_run(outside, work->jobs.kind.database == HF__SQLITE ? "BEGIN IMMEDIATE" : "BEGIN");
    if (work->jobs.kind.database != HF__SQLITE) {
        CU_ASSERT_EQUAL(
            hf_test_session_int(outside, hf_test_format("SELECT count(*) FROM (SELECT id FROM %s FOR UPDATE) AS t", work->jobs.name)), 1);
    }
}

static bool claimed_again(void *arg)
{
    const struct waiting *waiting = arg;
    return hf_test_stat(waiting->runtime, "subscription.0.claims") >= (double)waiting->since_ms;
}

/* Several claims more, all of which could have run the row. */
static void let_it_claim(struct waiting *waiting)
{
    waiting->since_ms = (int64_t)hf_test_stat(waiting->runtime, "subscription.0.claims") + 4;
    CU_ASSERT(hf_test_wait_until(claimed_again, waiting, 30000));
}

/* The key that the row has now is the one that is locked. */
static void under_the_new_key(const struct work *work, const char *const keys[2])
{
    if (work->jobs.kind.database != HF__SQLITE) {
        CU_ASSERT(is_free(work, keys[0]));
        CU_ASSERT_FALSE(is_free(work, keys[1]));
        CU_ASSERT_EQUAL(locks_held(work), 1);
    }
}

static void changed_in_between(struct work *work, const struct change *change)
{
    const char *keys[] = {hf_test_format("%s-old", work->jobs.name), hf_test_format("%s-new", work->jobs.name)};
    add(work, NULL, "old");
    size_t before = hf_test_n_runs(&work->jobs);
    struct hf__conn *outside = hf_test_session(work->jobs.url);
    lock_the_row(work, outside);
    struct waiting waiting = {work, start(work, 1, wait_at_gate), hf_test_now_ms()};
    CU_ASSERT(hf_test_wait_until(take_waits, &waiting, 30000));
    if (work->jobs.kind.database != HF__SQLITE) {
        CU_ASSERT_FALSE(is_free(work, keys[0]));
    }
    hf_test_session_run(outside, hf_test_format("%s %s %s", change->statement[0], work->jobs.name, change->statement[1]));
    hf_test_session_run(outside, "COMMIT");
    hf__conn_close(outside);
    if (change->runs > 0) {
        hf_test_gate_await(&work->gate, change->runs);
        under_the_new_key(work, keys);
    }
    hf_test_gate_open(&work->gate);
    let_it_claim(&waiting);
    wait_empty(waiting.runtime);
    hf_test_gate_shut(&work->gate);
    nothing_left(work, keys, LENGTH(keys));
    stop(waiting.runtime);
    CU_ASSERT_EQUAL(work->jobs.n_runs - before, change->runs);
    for (size_t i = before; i < work->jobs.n_runs; i++) {
        CU_ASSERT_STRING_EQUAL(work->keys[i], keys[1]);
    }
    CU_ASSERT_EQUAL(hf_test_jobs_count(&work->jobs, "attempt = 1 AND (retry_after > '2050-01-01' OR processed_at < '2021-01-01')"),
                    change->left);
}

static void in_between_on(struct work *work)
{
    with_processed_at(work);
    for (size_t i = 0; i < LENGTH(changes); i++) {
        changed_in_between(work, &changes[i]);
        hf_test_sql(work->jobs.url, hf_test_format("DELETE FROM %s", work->jobs.name));
    }
    must_be_quiet(work);
}

static void changed_before_the_lock(void)
{
    on_all(in_between_on, 1);
}

/* ---- rows deleted while their handlers run ---- */

enum { CROWD = 32, QUARTER = CROWD / 4 };

static bool all_ended(void *arg)
{
    return hf_test_stat(arg, "subscription.0.acked") + hf_test_stat(arg, "subscription.0.lost") >= CROWD + QUARTER;
}

static void deleted_on(struct work *work)
{
    const char *keys[CROWD];
    hf_runtime *runtime = start(work, CROWD, wait_at_gate);
    each_key(work, keys, CROWD);
    hf_test_jobs_add(&work->jobs, runtime, CROWD);
    hf_test_gate_await(&work->gate, CROWD);
    hf_test_sql(work->jobs.url, hf_test_format("DELETE FROM %s WHERE id %% 4 IN (1, 2)", work->jobs.name));
    struct hf__conn *outside = hf_test_session(work->jobs.url);
    for (int id = 2; id <= CROWD; id += 4) { /* a new row of the same id, and so of the same key */
        hf_test_session_run(outside, hf_test_format("INSERT INTO %s (id) VALUES (%d)", work->jobs.name, id));
    }
    hf__conn_close(outside);
    hf_test_gate_open(&work->gate);
    CU_ASSERT(hf_test_wait_until(all_ended, runtime, 20000));
    wait_empty(runtime);
    must_count(runtime, "subscription.0.lost", 2 * QUARTER);  /* deleted, replaced */
    must_count(runtime, "subscription.0.acked", 3 * QUARTER); /* the others, and what came in place of the replaced */
    must_count(runtime, "subscription.0.settle_errors", 0);
    nothing_left(work, keys, CROWD);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&work->jobs, "1 = 1"), 0);
    hf_test_no_overlap(&work->jobs);
}

static void deleted_under_the_handler(void)
{
    on_all(deleted_on, 0);
}

/* ---- the derivation of the lock from the key: a wire protocol between versions ---- */

#define TWENTY_TIMES(text) text text text text text text text text text text text text text text text text text text text text
#define ELEPHANT "\xf0\x9f\x90\x98"

static const struct {
    const char *key;
    int64_t postgres;   /* hashtextextended(key COLLATE "C", 0) */
    const char *mysql;  /* database in lower case, dot, key; its SHA-256 where that is no lock name */
    const char *folded; /* and on MySQL, which takes capitals for small letters, where that differs */
} vectors[] = {
    {"accounts-42", 6605618745965273815, "hf_vectors.accounts-42", NULL},
    {"a", 3591986179850072241, "hf_vectors.a", NULL},
    {"A", -6263114432574939154, "hf_vectors.A", "a752e21d9196a2de2ea017b46d519cac177765cda6080ed25acc4e9a47e97946"},
    {"accounts-\xc3\x89", -5657532253611000751, "hf_vectors.accounts-\xc3\x89",
     "c85dc220425e9edc2f3781b1f405b918626f64ff425b1ab4314468ab8d273351"},
    {"accounts-\xc3\xa9", 7302914816655124299, "hf_vectors.accounts-\xc3\xa9", NULL},
    {"{\"x\", y}", -4037242327481834311, "hf_vectors.{\"x\", y}", NULL},
    {"-9223372036854775808", 4639412831496126047, "hf_vectors.-9223372036854775808", NULL},
    {TWENTY_TIMES("0123456789"), 5008910198805481877, "20173a7f8420ddc7f140de8339f070aa94a77748f9aa59c1a06ad382a5f8af5a", NULL},
    {ELEPHANT, -2321601135681841783, "7bbc2dc8bde7db60eb4d4afb60f2c2e4ec67b6454d4f1ab89a0f6dc10f5cec8d", NULL},
};

static const char *lock_of(const struct work *work, size_t i)
{
    if (work->jobs.kind.database == HF__POSTGRES) {
        return locks_where(work, hf_test_format("(classid::bigint << 32 | objid::bigint) = %lld", (long long)vectors[i].postgres));
    }
    bool folded = vectors[i].folded && !hf_test_is_mariadb();
    return locks_where(work, hf_test_format("CAST(name AS BINARY) = '%s'", folded ? vectors[i].folded : vectors[i].mysql));
}

/* While handlers run, the server holds exactly these locks. */
static void check_vectors(struct work *work)
{
    hf_error err = {.status = HF_OK};
    const char *name = work->jobs.name;
    describe(work, hf_test_format("{ \"table\": \"%s\", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{account}\" }", name));
    hf_runtime *maker = hf_test_jobs_runtime(&work->jobs, NULL);
    HF_TEST_OK(hf_table_create(maker, work->jobs.table, &err), &err);
    HF_TEST_OK(hf_runtime_close(maker), NULL);
    for (size_t i = 0; i < LENGTH(vectors); i++) {
        add(work, NULL, vectors[i].key);
    }
    hf_runtime *runtime = start(work, LENGTH(vectors), wait_at_gate);
    hf_test_gate_await(&work->gate, LENGTH(vectors));
    CU_ASSERT_EQUAL(locks_held(work), LENGTH(vectors));
    for (size_t i = 0; i < LENGTH(vectors); i++) {
        if (hf_test_query_int(work->jobs.url, lock_of(work, i)) != 1) {
            hf_test_gate_open(&work->gate);
            hf_test_fail("the key %s is not locked as it was in all versions", vectors[i].key);
        }
    }
    hf_test_gate_open(&work->gate);
    wait_empty(runtime);
    stop(runtime);
}

static void vectors_on_postgres(void)
{
    static struct work work;
    open_work(&work, HF__POSTGRES, 0);
    hf_test_sql(work.jobs.url, hf_test_format("DROP TABLE %s", work.jobs.name));
    check_vectors(&work);
    hf_test_jobs_close(&work.jobs);
}

static void vectors_on_mysql(void)
{
    static struct work work;
    const char *url = hf_test_mysql_admin_url();
    open_work(&work, HF__MYSQL, 0);
    hf_test_sql(work.jobs.url, hf_test_format("DROP TABLE %s", work.jobs.name));
    hf_test_sql(url, "DROP DATABASE IF EXISTS HF_Vectors");
    hf_test_sql(url, "CREATE DATABASE HF_Vectors CHARACTER SET utf8mb4");
    work.jobs.url = hf_test_format("%.*s/HF_Vectors", (int)(strrchr(url, '/') - url), url);
    check_vectors(&work);
    hf_test_jobs_close(&work.jobs);
    hf_test_sql(url, "DROP DATABASE HF_Vectors");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"one at a time", one_at_a_time},
        {"retried", retried},
        {"plans", plans},
        {"similar keys", similar_keys},
        {"long keys", long_keys},
        {"changed before the lock", changed_before_the_lock},
        {"deleted under the handler", deleted_under_the_handler},
        {"vectors on PostgreSQL", vectors_on_postgres},
        {"vectors on MySQL", vectors_on_mysql},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_advisory", tests);
}
