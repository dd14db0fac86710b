/* ctest: timeout=240 labels=e2e
 * What goes wrong around a delivery: rows that somebody else holds locked, delays without a bound, calls at the wrong moment. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs.h"
#include "tests/session.h"

static const struct hf_test_kind leases[] = {{HF__POSTGRES, HF_LEASE}, {HF__MYSQL, HF_LEASE}};

static void on(const struct hf_test_kind *kinds, size_t n, int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < n; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, kinds[i], lease_seconds);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_subscription_options quick(size_t workers)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    return options;
}

static hf_runtime *subscribed(struct hf_test_jobs *jobs, const hf_subscription_options *options, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, options, handler, jobs, NULL, &err), &err);
    return runtime;
}

static void start(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
}

static void finish(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 60000, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
}

static size_t wanted_runs;

static bool so_many_runs(void *arg)
{
    return hf_test_n_runs(arg) >= wanted_runs;
}

static void await_runs(struct hf_test_jobs *jobs, size_t n)
{
    wanted_runs = n;
    CU_ASSERT_FATAL(hf_test_wait_until(so_many_runs, jobs, 60000));
}

static struct hf__conn *lock_rows(struct hf_test_jobs *jobs, const char *where)
{
    struct hf__conn *session = hf_test_session(jobs->url);
    hf_test_session_run(session, "BEGIN");
    (void)hf_test_session_text(session, hf_test_format("SELECT id FROM %s WHERE %s FOR UPDATE", jobs->name, where));
    return session;
}

static void unlock_rows(struct hf__conn *session)
{
    hf_test_session_run(session, "COMMIT");
    hf__conn_close(session);
}

/* ---- one locked row among the settles ---- */

enum { ROWS = 20, LOCKED = 5, SHORT = 4, LONG = 30 /* seconds of a lease */ };

static hf_outcome one_second(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(1000);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool only_locked_left(void *jobs)
{
    return hf_test_jobs_count(jobs, "1 = 1") == 1;
}

/* While it waits for the locked row the settler gets to the outcomes that come after it. */
static void another_meanwhile(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    CU_ASSERT(hf_test_wait_until(only_locked_left, jobs, 30000));
    hf_test_jobs_add(jobs, runtime, 1);
    await_runs(jobs, ROWS + 1);
    CU_ASSERT(hf_test_wait_until(only_locked_left, jobs, 30000));
}

/* Returns how often the locked row ran. */
static size_t hold_one(struct hf_test_jobs *jobs, int64_t ms, bool longer)
{
    hf_subscription_options options = quick(ROWS);
    hf_runtime *runtime = subscribed(jobs, &options, one_second);
    hf_test_jobs_add(jobs, runtime, ROWS);
    start(runtime);
    await_runs(jobs, ROWS);
    hf_test_sleep_ms(500);
    struct hf__conn *session = lock_rows(jobs, hf_test_format("id = %d", LOCKED));
    int64_t until_ms = hf_test_now_ms() + ms;
    if (longer)
        another_meanwhile(jobs, runtime);
    hf_test_sleep_ms(until_ms > hf_test_now_ms() ? until_ms - hf_test_now_ms() : 0);
    unlock_rows(session);
    finish(runtime);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_no_overlap(jobs);
    for (int64_t id = 1; id <= (longer ? ROWS + 1 : ROWS); id++)
        if (id != LOCKED && hf_test_runs_of(jobs, id) != 1)
            hf_test_fail("row %d was locked, and row %d ran %zu times; log:\n%s", LOCKED, (int)id, hf_test_runs_of(jobs, id), jobs->log);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    return hf_test_runs_of(jobs, LOCKED);
}

static void held_for_less_than_a_lease(struct hf_test_jobs *jobs)
{
    CU_ASSERT_EQUAL(hold_one(jobs, 2500, false), 1);
}

/* Nobody can renew a row that is locked: when it is free again its lease is over, and it may run once more. */
static void held_for_more_than_a_lease(struct hf_test_jobs *jobs)
{
    CU_ASSERT(hold_one(jobs, 6000, true) <= 2);
}

static void locked_row_costs_the_others_nothing(void)
{
    on(leases, 2, LONG, held_for_less_than_a_lease);
    on(leases, 2, SHORT, held_for_more_than_a_lease);
}

/* ---- a stop while leases run out ---- */

static hf_outcome first_quick_then_slow(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(run == 0 ? 10 : 3500);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool eight_ready(void *runtime)
{
    return (int)hf_test_stat(runtime, "subscription.0.ready") == 8;
}

static void stop_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = quick(4);
    options.prefetch = 8;
    hf_runtime *runtime = subscribed(jobs, &options, first_quick_then_slow);
    start(runtime);
    hf_test_jobs_add(jobs, runtime, 1);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 10000, &err), &err);
    hf_test_jobs_add(jobs, runtime, 12);
    await_runs(jobs, 5);
    CU_ASSERT_FATAL(hf_test_wait_until(eight_ready, runtime, 30000));
    struct hf__conn *session = lock_rows(jobs, "id > 5"); /* those that are ready */
    int64_t begun_ms = hf_test_now_ms();
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
    CU_ASSERT(hf_test_now_ms() - begun_ms < 40000);
    unlock_rows(session);
    CU_ASSERT_EQUAL(hf_test_n_runs(jobs), 5);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 8);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void stop_while_leases_run_out(void)
{
    on(leases, 2, 4, stop_on);
}

/* ---- delays without a bound ---- */

static hf_outcome for_ever(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    if (strcmp(hf_delivery_id(delivery), "1") == 0)
        hf_delivery_set_delay(delivery, INT64_MAX);
    hf_test_run_end(ctx, run);
    return HF_RETRY_AFTER;
}

static void delays_on(struct hf_test_jobs *jobs)
{
    hf_subscription_options options = quick(2);
    options.retry_base_ms = options.retry_cap_ms = INT64_MAX;
    hf_runtime *runtime = subscribed(jobs, &options, for_ever);
    start(runtime);
    hf_test_jobs_add(jobs, runtime, 2);
    await_runs(jobs, 2);
    hf_test_sleep_ms(300);
    finish(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried_later"), 2);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(hf_test_n_runs(jobs), 2);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "retry_after > '2500-01-01 00:00:00'"), 2);
}

static void delays_without_bound(void)
{
    on(hf_test_kinds, hf_test_n_kinds, 30, delays_on);
}

/* ---- a settle from the callback ---- */

static atomic_int status_in_callback, status_after;

static void settle_in_callback(hf_delivery *delivery, hf_cancel why, void *ctx)
{
    (void)why;
    (void)ctx;
    atomic_store(&status_in_callback, (int)hf_delivery_settle(delivery, HF_ACK, NULL));
}

static hf_outcome wait_for_timeout(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_delivery_on_cancel(delivery, settle_in_callback, NULL);
    (void)hf_delivery_wait(delivery, 10000);
    hf_delivery_on_cancel(delivery, NULL, NULL);
    atomic_store(&status_after, (int)hf_delivery_settle(delivery, HF_ACK, NULL));
    hf_test_run_end(ctx, run);
    return HF_RETRY;
}

static void callback_on(struct hf_test_jobs *jobs)
{
    hf_subscription_options options = quick(1);
    options.handler_timeout_ms = 100;
    atomic_store(&status_in_callback, HF_OK);
    hf_runtime *runtime = subscribed(jobs, &options, wait_for_timeout);
    start(runtime);
    hf_test_jobs_add(jobs, runtime, 1);
    await_runs(jobs, 1);
    finish(runtime);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(atomic_load(&status_in_callback), HF_MISUSE);
    CU_ASSERT_EQUAL(atomic_load(&status_after), HF_OK);
    CU_ASSERT_EQUAL(hf_test_n_runs(jobs), 1);
}

static void settle_from_the_callback(void)
{
    on(hf_test_kinds, hf_test_n_kinds, 30, callback_on);
}

/* ---- the runtime goes away behind a settle (what this finds, AddressSanitizer shows) ---- */

static _Atomic(hf_delivery *) deferred;

static hf_outcome defer(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    atomic_store(&deferred, delivery);
    return HF_DEFER;
}

static void *settle_deferred(void *status)
{
    *(hf_status *)status = hf_delivery_settle(atomic_load(&deferred), HF_ACK, NULL);
    return NULL;
}

static bool is_deferred(void *arg)
{
    (void)arg;
    return atomic_load(&deferred) != NULL;
}

static void defer_once(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = quick(1);
    pthread_t thread;
    hf_status settled = HF_BUSY;
    atomic_store(&deferred, NULL);
    hf_runtime *runtime = subscribed(jobs, &options, defer);
    start(runtime);
    hf_test_jobs_add(jobs, runtime, 1);
    CU_ASSERT_FATAL(hf_test_wait_until(is_deferred, NULL, 10000));
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, settle_deferred, &settled) == 0);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_FATAL(pthread_join(thread, NULL) == 0);
    CU_ASSERT_EQUAL(settled, HF_OK);
}

static void defer_on(struct hf_test_jobs *jobs)
{
    enum { TIMES = 100 };
    for (int i = 0; i < TIMES; i++)
        defer_once(jobs);
}

static void close_behind_a_settle(void)
{
    const struct hf_test_kind kinds[] = {{HF__SQLITE, HF_ADVISORY_LOCK}, {HF__SQLITE, HF_LEASE}};
    on(kinds, 2, 30, defer_on);
}

/* ---- wakes against the start (what this finds, ThreadSanitizer shows) ---- */

struct waker {
    hf_runtime *runtime;
    const hf_table *table;
    atomic_bool end;
    atomic_int wakes;
};

static void *wake_on_and_on(void *arg)
{
    struct waker *waker = arg;
    while (!atomic_load(&waker->end)) {
        hf_wake(waker->runtime, waker->table);
        atomic_fetch_add(&waker->wakes, 1);
    }
    return NULL;
}

static bool has_woken(void *arg)
{
    struct waker *waker = arg;
    return atomic_load(&waker->wakes) > 0;
}

static void wake_on(struct hf_test_jobs *jobs)
{
    for (int i = 0; i < 10; i++) {
        hf_error err = {.status = HF_OK};
        hf_subscription_options options = quick(4);
        pthread_t thread;
        struct waker waker = {.runtime = subscribed(jobs, &options, one_second), .table = jobs->table};
        CU_ASSERT_FATAL(pthread_create(&thread, NULL, wake_on_and_on, &waker) == 0);
        (void)hf_test_wait_until(has_woken, &waker, 5000);
        hf_status status = hf_runtime_start(waker.runtime, &err);
        atomic_store(&waker.end, true);
        CU_ASSERT_FATAL(pthread_join(thread, NULL) == 0);
        HF_TEST_OK(status, &err);
        HF_TEST_OK(hf_runtime_close(waker.runtime), NULL);
    }
}

static void wakes_against_the_start(void)
{
    const struct hf_test_kind kinds[] = {{HF__SQLITE, HF_ADVISORY_LOCK}, {HF__SQLITE, HF_LEASE}};
    on(kinds, 2, 30, wake_on);
}

/* ---- a pool of one ---- */

/* An enqueue that cannot go on lets go of the one connection in time for the renewals. */
static void enqueue_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = quick(1);
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    runtime_options.pool_size = 1;
    runtime_options.statement_timeout_ms = 60000;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &runtime_options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, one_second, jobs, NULL, &err), &err);
    start(runtime);
    struct hf__conn *session = hf_test_session(jobs->url);
    hf_test_session_run(session, "BEGIN");
    hf_test_session_run(session, hf_test_format("LOCK TABLE %s IN EXCLUSIVE MODE", jobs->name));
    hf_job job = HF_JOB_INIT;
    int64_t begun_ms = hf_test_now_ms();
    CU_ASSERT_NOT_EQUAL(hf_enqueue(runtime, jobs->table, &job, 1, NULL, &err), HF_OK);
    CU_ASSERT(hf_test_now_ms() - begun_ms < 30000); /* two calls of a quarter lease, where the statement limit is a minute */
    unlock_rows(session);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void pool_of_one(void)
{
    on(leases, 1, 4, enqueue_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a locked row costs the others nothing", locked_row_costs_the_others_nothing},
        {"stop while leases run out", stop_while_leases_run_out},
        {"delays without bound", delays_without_bound},
        {"settle from the callback", settle_from_the_callback},
        {"close behind a settle", close_behind_a_settle},
        {"wakes against the start", wakes_against_the_start},
        {"pool of one", pool_of_one},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_faults", tests);
}
