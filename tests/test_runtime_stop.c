/* ctest: timeout=240 labels=e2e
 * Starting, stopping, closing; what a stop does to rows that run, wait or have not begun. */
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/jobs.h"
#include "tests/session.h"

#define SHORT_LEASE 3 /* seconds */

static void on_all(int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, hf_test_kinds[i], lease_seconds);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, size_t prefetch, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    options.prefetch = prefetch;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

/* ---- drained in time ---- */

static atomic_int stop_in_handler, close_in_handler;

/* Longer than the short lease. */
static hf_outcome takes_its_time(hf_delivery *delivery, void *ctx)
{
    const struct hf_test_jobs *jobs = ctx;
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(jobs->kind.strategy == HF_LEASE ? SHORT_LEASE * 1000 + 1000 : 1500);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void drained_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_runtime *runtime = start(jobs, 4, SIZE_MAX, takes_its_time);
    hf_test_jobs_add(jobs, runtime, 10);
    hf_test_wait_for_runs(jobs, 4);
    int64_t begin = hf_test_now_ms();
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, &report, &err), &err);
    CU_ASSERT(hf_test_now_ms() - begin < 40000);
    CU_ASSERT_EQUAL(report.settled, 4);
    CU_ASSERT_EQUAL(report.running, 0);
    CU_ASSERT_EQUAL(report.failed, 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, 4); /* nothing begins after the stop: the lease was renewed, and no row ran twice */
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 6);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 1"), 6);
}

static void drained(void)
{
    on_all(SHORT_LEASE, drained_on);
}

/* ---- the limit passes ---- */

static atomic_int flagged;

static hf_outcome until_cancelled(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    if (hf_delivery_wait(delivery, 60000) == HF_CANCEL_DRAIN)
        atomic_fetch_add(&flagged, 1);
    hf_test_run_end(ctx, run);
    return HF_ACK; /* goes back all the same */
}

static void flagged_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    atomic_store(&flagged, 0);
    hf_runtime *runtime = start(jobs, 3, 4, until_cancelled);
    hf_test_jobs_add(jobs, runtime, 8);
    hf_test_wait_for_runs(jobs, 3);
    int64_t begin = hf_test_now_ms();
    HF_TEST_OK(hf_runtime_stop(runtime, 300, &report, &err), &err);
    int64_t took = hf_test_now_ms() - begin;
    CU_ASSERT(took >= 300 && took < 30000);
    CU_ASSERT_EQUAL(atomic_load(&flagged), 3);
    CU_ASSERT_EQUAL(report.settled, 0);
    CU_ASSERT(report.given_back >= 3);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, 3);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 8);
    /* A row that was given back by its handler has used up an attempt, except under row lock; one that never began has not. */
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt > 1"), jobs->kind.strategy == HF_ROW_LOCK ? 0 : 3);
    if (jobs->kind.strategy == HF_LEASE)
        CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "locked_until IS NOT NULL AND locked_until > '2000-01-01'"), 0);
}

static void rows_go_back_at_the_limit(void)
{
    on_all(30, flagged_on);
}

/* ---- rows that cannot be given back at the first try ---- */

struct locker {
    struct hf__conn *session;
    hf_runtime *runtime;
};

static bool tried_again(void *arg)
{
    return hf_test_stat(arg, "subscription.0.settle_retries") > 0;
}

static void *unlock_in_a_moment(void *arg)
{
    struct locker *locker = arg;
    (void)hf_test_wait_until(tried_again, locker->runtime, 30000);
    (void)!hf__conn_rollback(locker->session, hf__after_ms(30000), NULL);
    return NULL;
}

static void locked_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    pthread_t thread;
    if (jobs->kind.strategy != HF_LEASE || jobs->kind.database == HF__SQLITE) /* where a lock is the whole file's, and waited for */
        return;
    hf_runtime *runtime = start(jobs, 3, SIZE_MAX, until_cancelled);
    struct locker locker = {hf_test_session(jobs->url), runtime};
    hf_test_jobs_add(jobs, runtime, 3);
    hf_test_wait_for_runs(jobs, 3);
    hf_test_session_run(locker.session, "BEGIN");
    (void)hf_test_session_text(locker.session, hf_test_format("SELECT id FROM %s FOR UPDATE", jobs->name));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, unlock_in_a_moment, &locker), 0);
    HF_TEST_OK(hf_runtime_stop(runtime, 0, &report, &err), &err);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(report.given_back, 3);
    CU_ASSERT_EQUAL(report.failed, 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf__conn_close(locker.session);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "locked_until IS NOT NULL AND locked_until > '2000-01-01'"), 0);
}

static void locked_at_the_limit(void)
{
    on_all(30, locked_on);
}

/* ---- rows that were fetched ahead ---- */

static hf_outcome a_moment(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(ctx, delivery);
    if (id > 20)
        (void)hf_delivery_wait(delivery, 60000);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool some_ready(void *arg)
{
    return hf_test_stat(arg, "subscription.0.ready") > 0;
}

static void prefetched_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    if (jobs->kind.strategy != HF_LEASE)
        return;
    hf_runtime *runtime = start(jobs, 2, 6, a_moment); /* quick ones first, so that the time of a handler is known */
    hf_test_jobs_add(jobs, runtime, 40);
    CU_ASSERT_FATAL(hf_test_wait_until(some_ready, runtime, 30000));
    hf_test_wait_for_runs(jobs, 22);
    HF_TEST_OK(hf_runtime_stop(runtime, 0, &report, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, 22);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 20);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 1"), 18);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "locked_until IS NOT NULL AND locked_until > '2000-01-01'"), 0);
}

static void fetched_ahead(void)
{
    on_all(30, prefetched_on);
}

/* ---- a handler that does not listen ---- */

static atomic_int release;

static hf_outcome deaf(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_runtime *runtime = NULL;
    (void)runtime;
    while (!atomic_load(&release))
        hf_test_sleep_ms(10);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void deaf_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    atomic_store(&release, 0);
    hf_runtime *runtime = start(jobs, 2, SIZE_MAX, deaf);
    hf_test_jobs_add(jobs, runtime, 2);
    hf_test_wait_for_runs(jobs, 2);
    HF_TEST_STATUS(hf_runtime_stop(runtime, 100, &report, &err), HF_TIMEOUT, &err);
    CU_ASSERT_EQUAL(report.running, 2);
    CU_ASSERT_EQUAL(hf_runtime_close(runtime), HF_BUSY);
    hf_test_sleep_ms(jobs->kind.strategy == HF_LEASE ? SHORT_LEASE * 1000 + 500 : 0); /* longer than the lease: renewals go on */
    atomic_store(&release, 1);
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, &report, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.given_back"), 2);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 2);
}

static void a_handler_that_does_not_listen(void)
{
    on_all(SHORT_LEASE, deaf_on);
}

/* ---- misuse ---- */

static hf_runtime *the_runtime;

static hf_outcome stops_itself(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    atomic_store(&stop_in_handler, (int)hf_runtime_stop(the_runtime, 0, NULL, NULL));
    atomic_store(&close_in_handler, (int)hf_runtime_close(the_runtime));
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void misuse_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    the_runtime = start(jobs, 1, 0, stops_itself);
    hf_test_jobs_add(jobs, the_runtime, 1);
    HF_TEST_OK(hf_runtime_wait_empty(the_runtime, 60000, &err), &err);
    CU_ASSERT_EQUAL(atomic_load(&stop_in_handler), HF_MISUSE);
    CU_ASSERT_EQUAL(atomic_load(&close_in_handler), HF_MISUSE);
    HF_TEST_STATUS(hf_runtime_start(the_runtime, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(hf_subscribe(the_runtime, jobs->table, NULL, stops_itself, NULL, NULL, &err), HF_MISUSE, &err);
    HF_TEST_OK(hf_runtime_stop(the_runtime, 60000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_stop(the_runtime, 60000, NULL, &err), &err); /* again is harmless */
    HF_TEST_STATUS(hf_runtime_start(the_runtime, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(hf_runtime_wait_empty(the_runtime, 1000, &err), HF_STOPPED, &err);
    HF_TEST_OK(hf_runtime_close(the_runtime), NULL);
}

static void misuse(void)
{
    on_all(30, misuse_on);
}

static void forked_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = start(jobs, 1, 0, takes_its_time);
    hf_test_jobs_add(jobs, runtime, 1);
    hf_test_wait_for_runs(jobs, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(hf_runtime_stop(runtime, 0, NULL, NULL) == HF_MISUSE && hf_runtime_close(runtime) == HF_MISUSE ? 0 : 1);
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void forked(void)
{
    on_all(30, forked_on);
}

/* ---- starting ---- */

static void start_again_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, NULL, takes_its_time, jobs, NULL, &err), &err);
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s RENAME TO %s_away", jobs->name, jobs->name));
    hf_status status = hf_runtime_start(runtime, &err);
    CU_ASSERT(status == HF_INVALID || status == HF_DATABASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, jobs->name));
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s_away RENAME TO %s", jobs->name, jobs->name));
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void a_failed_start_can_be_repeated(void)
{
    on_all(30, start_again_on);
}

static void never_started(void)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = NULL;
    HF_TEST_STATUS(hf_runtime_open("nonsense://x", NULL, &runtime, &err), HF_INVALID, &err);
    HF_TEST_OK(hf_runtime_close(NULL), NULL);
    HF_TEST_OK(hf_runtime_open(hf_test_sqlite_url(), NULL, &runtime, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"drained", drained},
        {"rows go back at the limit", rows_go_back_at_the_limit},
        {"locked at the limit", locked_at_the_limit},
        {"fetched ahead", fetched_ahead},
        {"a handler that does not listen", a_handler_that_does_not_listen},
        {"misuse", misuse},
        {"forked", forked},
        {"a failed start can be repeated", a_failed_start_can_be_repeated},
        {"never started", never_started},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_stop", tests);
}
