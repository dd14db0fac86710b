/* ctest: timeout=240 labels=e2e
 * Leases end to end: kept while a handler runs, lost when someone takes the row, never lost in a race with our own renewal. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RACE_ROWS = 240, RACE_WORKERS = 24 };
#else
enum { RACE_ROWS = 960, RACE_WORKERS = 64 };
#endif

static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};

/* Where a lease is to be renewed while its handler runs: not so short that a busy machine does not come to it. */
enum { SHORT_LEASE = 3 };

static void open_lease(struct hf_test_jobs *jobs, enum hf__database database, int lease_seconds)
{
    hf_test_jobs_open(jobs, (struct hf_test_kind){database, HF_LEASE}, lease_seconds);
}

static void on_all(void (*test)(struct hf_test_jobs *jobs), int lease_seconds)
{
    for (size_t i = 0; i < LENGTH(databases); i++) {
        struct hf_test_jobs jobs;
        open_lease(&jobs, databases[i], lease_seconds);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 30;
    options.prefetch = SIZE_MAX;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, ctx, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void wait_empty(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 120000, &err), &err);
}

static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
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

/* Nothing was logged, but that a renewal is tried again: on a busy machine one may be late, and no row is in doubt for it. */
static void must_be_quiet(const struct hf_test_jobs *jobs)
{
    const char *line = jobs->log ? jobs->log : "";
    for (; *line; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n");
        if (!memmem(line, len, "could not be renewed and are tried again", 40)) {
            hf_test_fail("%s: there should be no log: %s", hf__database_name(jobs->kind.database), jobs->log);
        }
    }
}

/* ---- a handler of several leases ---- */

static hf_outcome several_leases(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    (void)hf_delivery_wait(delivery, 3300 * SHORT_LEASE);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static const char *now_in(enum hf__database database)
{
    switch (database) {
    case HF__POSTGRES:
        return "clock_timestamp()";
    case HF__MYSQL:
        return "UTC_TIMESTAMP(6)";
    case HF__SQLITE:
        return "strftime('%Y-%m-%d %H:%M:%f', 'now')";
    }
    return NULL;
}

/* Looks at the row until it is gone; the number of expiries that were seen, each later than the one before and none in the past. */
static size_t watch_expiry(const struct hf_test_jobs *jobs)
{
    struct hf__conn *session = hf_test_session(jobs->url);
    const char *held = hf_test_format("SELECT locked_until FROM %s WHERE locked_until IS NOT NULL", jobs->name);
    const char *over = hf_test_format("SELECT count(*) FROM %s WHERE locked_until <= %s", jobs->name, now_in(jobs->kind.database));
    const char *seen = NULL, *text;
    size_t expiries = 0;
    while ((text = hf_test_session_text(session, held))) {
        CU_ASSERT_EQUAL(hf_test_session_int(session, over), 0);
        if (seen && strcmp(text, seen) < 0) {
            hf_test_fail("locked_until went back from %s to %s", seen, text);
        }
        expiries += !seen || strcmp(text, seen) != 0;
        seen = text;
        hf_test_sleep_ms(25);
    }
    hf__conn_close(session);
    return expiries;
}

static bool has_begun(void *arg)
{
    return hf_test_n_runs(arg) > 0;
}

static void kept_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = start(jobs, 2, several_leases, jobs);
    hf_runtime *rival = start(jobs, 2, several_leases, jobs);
    hf_test_jobs_add(jobs, runtime, 1);
    CU_ASSERT_FATAL(hf_test_wait_until(has_begun, jobs, 30000));
    size_t expiries = watch_expiry(jobs);
    wait_empty(runtime);
    double renewals = hf_test_stat(runtime, "subscription.0.renewals") + hf_test_stat(rival, "subscription.0.renewals");
    double leases = (double)(jobs->runs[0].end_us - jobs->runs[0].begin_us) / 1e6 / SHORT_LEASE;
    if (renewals < 4 || renewals > 2 * leases + 1) { /* one every half lease; a busy machine comes to it later */
        hf_test_fail("%s: %g renewals in %g leases", hf__database_name(jobs->kind.database), renewals, leases);
    }
    CU_ASSERT(expiries > 2 && (double)expiries <= renewals + 1); /* the claim's is one; who looks late misses some */
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lease_lost") + hf_test_stat(rival, "subscription.0.lease_lost"), 0);
    stop(runtime);
    stop(rival);
    CU_ASSERT_EQUAL(jobs->n_runs, 1);
    must_be_quiet(jobs);
}

static void kept(void)
{
    on_all(kept_on, SHORT_LEASE);
}

/* ---- a lease that is taken away, in every way, before every outcome ---- */

struct theft {
    const char *set, *where; /* what the thief does, and how the row must look afterwards, for ever */
};

static const struct theft thefts[] = {
    {"locked_until = '2099-01-01 00:00:00', attempt = attempt + 1", "locked_until = '2099-01-01 00:00:00' AND attempt = 3"},
    {"locked_until = '2099-01-01 00:00:00'", "locked_until = '2099-01-01 00:00:00' AND attempt = 2"},
    {"attempt = attempt + 1", "locked_until IS NOT NULL AND attempt = 3"},
    {"locked_until = NULL, retry_after = '2098-01-01 00:00:00'",
     "locked_until IS NULL AND attempt = 2 AND retry_after = '2098-01-01 00:00:00'"},
};
static const hf_outcome outcomes[] = {HF_ACK, HF_RETRY, HF_RETRY_AFTER, HF_REJECT};
enum { N_OUTCOMES = 4, N_STOLEN = 16 };

struct victims {
    struct hf_test_jobs *jobs;
    struct hf_test_gate gate;
    hf_status statuses[N_STOLEN];
};

static hf_outcome settles_what_is_stolen(hf_delivery *delivery, void *ctx)
{
    struct victims *victims = ctx;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_gate_pass(&victims->gate);
    hf_delivery_set_delay(delivery, 1000);
    (void)!hf_delivery_set_reason(delivery, "it failed", 9);
    victims->statuses[id - 1] = hf_delivery_settle(delivery, outcomes[(id - 1) % N_OUTCOMES], NULL);
    return HF_ACK; /* ignored */
}

static void stolen_on(struct hf_test_jobs *jobs)
{
    struct victims victims = {.jobs = jobs, .gate = HF_TEST_GATE_INIT};
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(jobs, N_STOLEN, settles_what_is_stolen, &victims);
    hf_test_jobs_add(jobs, runtime, N_STOLEN);
    hf_test_gate_await(&victims.gate, N_STOLEN);
    for (size_t i = 0; i < LENGTH(thefts); i++) {
        hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET %s WHERE (id - 1) / 4 >= %zu AND (id - 1) / 4 < %zu", jobs->name,
                                              thefts[i].set, i, i + 1));
    }
    hf_test_gate_open(&victims.gate);
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
    for (size_t i = 0; i < N_STOLEN; i++) {
        if (victims.statuses[i] != HF_LEASE_LOST) {
            hf_test_fail("theft %zu, outcome %zu: %s", i / N_OUTCOMES, i % N_OUTCOMES, hf_status_name(victims.statuses[i]));
        }
    }
    must_count(runtime, "subscription.0.lease_lost", N_STOLEN);
    must_count(runtime, "subscription.0.settle_errors", 0);
    must_count(runtime, "subscription.0.acked", 0);
    CU_ASSERT(hf_test_logged(jobs, "HF_LEASE_LOST"));
    stop(runtime);
    for (size_t i = 0; i < LENGTH(thefts); i++) {
        CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, hf_test_format("last_error IS NULL AND (id - 1) / 4 >= %zu AND (id - 1) / 4 < %zu AND %s",
                                                                i, i + 1, thefts[i].where)),
                        N_OUTCOMES);
    }
}

static void stolen(void)
{
    on_all(stolen_on, 30);
}

/* ---- two claims with one and the same expiry ---- */

struct twins {
    struct hf_test_jobs *jobs;
    struct hf_test_gate first, second;
    atomic_int statuses[2];
};

static hf_outcome as_its_attempt(hf_delivery *delivery, void *ctx)
{
    struct twins *twins = ctx;
    bool first = hf_delivery_attempt(delivery) == 1;
    hf_test_gate_pass(first ? &twins->first : &twins->second);
    atomic_store(&twins->statuses[!first], (int)hf_delivery_settle(delivery, HF_ACK, NULL));
    return HF_ACK;
}

static void sleep_until_second_begins(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    hf_test_sleep_ms(1000 - now.tv_nsec / 1000000 + 5);
}

static const char *expiry(const struct hf_test_jobs *jobs)
{
    return hf_test_query_text(jobs->url, hf_test_format("SELECT locked_until FROM %s", jobs->name));
}

static bool first_is_settled(void *arg)
{
    return atomic_load(&((struct twins *)arg)->statuses[0]) >= 0;
}

/* A process claims the row, loses it, and another claims it: false if that took more than the second. */
static bool claim_twice(struct twins *twins)
{
    struct hf_test_jobs *jobs = twins->jobs;
    hf_runtime *one = start(jobs, 1, as_its_attempt, twins);
    sleep_until_second_begins();
    hf_test_jobs_add(jobs, one, 1);
    hf_test_gate_await(&twins->first, 1);
    const char *before = expiry(jobs);
    hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET locked_until = NULL", jobs->name));
    hf_runtime *two = start(jobs, 1, as_its_attempt, twins);
    hf_test_gate_await(&twins->second, 1);
    bool same = strcmp(before, expiry(jobs)) == 0;
    hf_test_gate_open(&twins->first);
    CU_ASSERT(hf_test_wait_until(first_is_settled, twins, 30000));
    CU_ASSERT_EQUAL(atomic_load(&twins->statuses[0]), HF_LEASE_LOST);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "locked_until IS NOT NULL AND attempt = 3"), 1);
    hf_test_gate_open(&twins->second);
    wait_empty(two);
    CU_ASSERT_EQUAL(atomic_load(&twins->statuses[1]), HF_OK);
    stop(one);
    stop(two);
    return same;
}

static void twice_within_a_second(void)
{
    bool same = false;
    for (int i = 0; i < 5 && !same; i++) {
        struct hf_test_jobs jobs;
        struct twins twins = {.jobs = &jobs, .first = HF_TEST_GATE_INIT, .second = HF_TEST_GATE_INIT, .statuses = {-1, -1}};
        open_lease(&jobs, HF__MYSQL, 30);
        hf_test_sql(jobs.url, hf_test_format("ALTER TABLE %s MODIFY locked_until DATETIME NULL", jobs.name));
        same = claim_twice(&twins);
        hf_test_jobs_close(&jobs);
    }
    CU_ASSERT(same); /* else it was never put to the test */
}

/* ---- columns of every precision ---- */

static const struct {
    enum hf__database database;
    const char *change;
} precisions[] = {
    {HF__MYSQL, "MODIFY locked_until DATETIME NULL"},       {HF__MYSQL, "MODIFY locked_until DATETIME(3) NULL"},
    {HF__MYSQL, "MODIFY locked_until TIMESTAMP NULL"},      {HF__MYSQL, "MODIFY locked_until TIMESTAMP(4) NULL"},
    {HF__POSTGRES, "ALTER locked_until TYPE timestamp(0)"}, {HF__POSTGRES, "ALTER locked_until TYPE timestamptz(0)"},
    {HF__POSTGRES, "ALTER locked_until TYPE timestamp(3)"},
};
enum { PRECISE_ROWS = 20 };

static hf_outcome longer_than_a_lease(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(1300 * SHORT_LEASE);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

/* All of them at the same time, because they mostly sleep. */
static void every_precision(void)
{
    static struct hf_test_jobs jobs[LENGTH(precisions)];
    hf_runtime *runtimes[LENGTH(precisions)];
    for (size_t i = 0; i < LENGTH(precisions); i++) {
        open_lease(&jobs[i], precisions[i].database, SHORT_LEASE);
        hf_test_sql(jobs[i].url, hf_test_format("ALTER TABLE %s %s", jobs[i].name, precisions[i].change));
        runtimes[i] = start(&jobs[i], PRECISE_ROWS, longer_than_a_lease, &jobs[i]);
        hf_test_jobs_add(&jobs[i], runtimes[i], PRECISE_ROWS);
    }
    for (size_t i = 0; i < LENGTH(precisions); i++) {
        wait_empty(runtimes[i]);
        must_count(runtimes[i], "subscription.0.lease_lost", 0);
        must_count(runtimes[i], "subscription.0.acked", PRECISE_ROWS);
        CU_ASSERT(hf_test_stat(runtimes[i], "subscription.0.renewals") >= PRECISE_ROWS);
        stop(runtimes[i]);
        CU_ASSERT_EQUAL(jobs[i].n_runs, PRECISE_ROWS);
        hf_test_jobs_close(&jobs[i]);
    }
}

/* ---- renewal against settle ---- */

static hf_outcome half_a_lease(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(500 * SHORT_LEASE - 5 + id % 11);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void check_race(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t rows)
{
    must_count(runtime, "subscription.0.acked", (double)rows);
    must_count(runtime, "subscription.0.claimed", (double)rows);
    must_count(runtime, "subscription.0.lease_lost", 0);
    must_count(runtime, "subscription.0.settle_errors", 0);
    must_count(runtime, "subscription.0.unknown", 0);
    CU_ASSERT(hf_test_stat(runtime, "subscription.0.renewals") > (double)rows / 20); /* or there was no race */
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, rows);
    for (size_t i = 0; i < jobs->n_runs; i++) {
        CU_ASSERT_EQUAL(jobs->runs[i].attempt, 1);
    }
    hf_test_no_overlap(jobs);
    must_be_quiet(jobs);
}

static void renewal_against_settle(void)
{
    static struct hf_test_jobs jobs[LENGTH(databases)];
    hf_runtime *runtimes[LENGTH(databases)];
    for (size_t i = 0; i < LENGTH(databases); i++) {
        open_lease(&jobs[i], databases[i], SHORT_LEASE);
        runtimes[i] = start(&jobs[i], RACE_WORKERS, half_a_lease, &jobs[i]);
        hf_test_jobs_add(&jobs[i], runtimes[i], RACE_ROWS);
    }
    for (size_t i = 0; i < LENGTH(databases); i++) {
        wait_empty(runtimes[i]);
        check_race(&jobs[i], runtimes[i], RACE_ROWS);
        hf_test_jobs_close(&jobs[i]);
    }
}

/* Claims and renewals that take 100 ms, so that handlers end while the answer to a renewal is on its way. */
static void slow_renewal_against_settle(void)
{
    enum { ROWS = 8 * RACE_WORKERS / 2, WORKERS = RACE_WORKERS / 2 };
    static struct hf_test_jobs jobs;
    open_lease(&jobs, HF__POSTGRES, SHORT_LEASE);
    hf_test_sql(jobs.url, hf_test_format("CREATE FUNCTION %s_slow() RETURNS trigger LANGUAGE plpgsql AS "
                                         "'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END'",
                                         jobs.name));
    hf_test_sql(jobs.url, hf_test_format("CREATE TRIGGER slow AFTER UPDATE ON %s EXECUTE PROCEDURE %s_slow()", jobs.name, jobs.name));
    hf_runtime *runtime = start(&jobs, WORKERS, half_a_lease, &jobs);
    hf_test_jobs_add(&jobs, runtime, ROWS);
    wait_empty(runtime);
    check_race(&jobs, runtime, ROWS);
    hf_test_sql(jobs.url, hf_test_format("DROP FUNCTION %s_slow() CASCADE", jobs.name));
    hf_test_jobs_close(&jobs);
}

/* ---- rows that someone deletes or changes while their handlers run ---- */

enum { CHANGED_ROWS = 48, EIGHTH = CHANGED_ROWS / 8 };

struct crowd {
    struct hf_test_jobs *jobs;
    struct hf_test_gate gate;
};

static hf_outcome retries_one_in_eight(hf_delivery *delivery, void *ctx)
{
    struct crowd *crowd = ctx;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(crowd->jobs, delivery);
    hf_test_gate_pass(&crowd->gate);
    hf_test_run_end(crowd->jobs, run);
    return id % 8 == 6 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void change_rows(const struct hf_test_jobs *jobs)
{
    static const char *const changes[][2] = {
        {"DELETE FROM", "WHERE id % 8 = 1"},
        {"UPDATE", "SET retry_after = '2098-01-01 00:00:00' WHERE id % 8 = 3"},
        {"UPDATE", "SET payload = 'changed' WHERE id % 8 = 4"},
        {"UPDATE", "SET locked_until = NULL, retry_after = '2098-01-01 00:00:00' WHERE id % 8 = 5"},
    };
    for (size_t i = 0; i < LENGTH(changes); i++) {
        hf_test_sql(jobs->url, hf_test_format("%s %s %s", changes[i][0], jobs->name, changes[i][1]));
    }
    for (int id = 2; id <= CHANGED_ROWS; id += 8) { /* gone, and a new row of the same id is there */
        hf_test_sql(jobs->url, hf_test_format("DELETE FROM %s WHERE id = %d", jobs->name, id));
        hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s (id, payload) VALUES (%d, 'new')", jobs->name, id));
    }
}

static bool settled(void *arg)
{
    return hf_test_stat(arg, "subscription.0.acked") + hf_test_stat(arg, "subscription.0.lease_lost") >= CHANGED_ROWS + EIGHTH;
}

static void changed_on(struct hf_test_jobs *jobs)
{
    struct crowd crowd = {jobs, HF_TEST_GATE_INIT};
    hf_runtime *runtime = start(jobs, CHANGED_ROWS, retries_one_in_eight, &crowd);
    hf_test_jobs_add(jobs, runtime, CHANGED_ROWS);
    hf_test_gate_await(&crowd.gate, CHANGED_ROWS);
    change_rows(jobs);
    hf_test_gate_open(&crowd.gate);
    CU_ASSERT(hf_test_wait_until(settled, runtime, 60000));
    must_count(runtime, "subscription.0.lease_lost", 3 * EIGHTH); /* deleted, replaced, reset */
    must_count(runtime, "subscription.0.acked", 6 * EIGHTH);      /* the others, and what came in place of the replaced */
    must_count(runtime, "subscription.0.retried", EIGHTH);
    must_count(runtime, "subscription.0.claimed", 10 * EIGHTH);
    must_count(runtime, "subscription.0.settle_errors", 0);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), EIGHTH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "id % 8 = 5 AND locked_until IS NULL AND attempt = 2"), EIGHTH);
}

static void changed_under_the_handler(void)
{
    on_all(changed_on, 30);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a handler of several leases keeps its row", kept},
        {"a lease taken away", stolen},
        {"two claims within one second", twice_within_a_second},
        {"columns of every precision", every_precision},
        {"renewal against settle", renewal_against_settle},
        {"slow renewal against settle", slow_renewal_against_settle},
        {"rows changed while their handlers run", changed_under_the_handler},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_lease", tests);
}
