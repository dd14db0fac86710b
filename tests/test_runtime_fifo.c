/* ctest: timeout=300 labels=e2e
 * FIFO groups under a runtime: the next row of a group follows at once, and what is waited for. */
#include <stdlib.h>
#include <string.h>

#include "tests/jobs.h"
#include "tests/session.h"

enum { WORKERS = 3, LONG_POLL_MS = 600000, ENOUGH_MS = 60000 };

static void on_all(const char *columns, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct hf_test_jobs jobs;
        struct hf_test_shape shape = {.columns = columns, .settings = ", \"fifo\": true"};
        if (hf_test_kinds[i].strategy == HF_ADVISORY_LOCK)
            continue;
        hf_test_jobs_open_shape(&jobs, hf_test_kinds[i], 30, shape);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static void subscribe(struct hf_test_jobs *jobs, hf_runtime *runtime, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = WORKERS;
    options.poll_ms = LONG_POLL_MS;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
}

static void start(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
}

static void wait_and_close(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, ENOUGH_MS, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, ENOUGH_MS, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

/* ---- the next row of a group is claimed when the last has been settled, not at the next poll ---- */

static hf_outcome in_order(hf_delivery *delivery, void *ctx)
{
    struct hf_test_jobs *jobs = ctx;
    int64_t id = 0;
    size_t run = hf_test_run_begin(jobs, delivery);
    (void)hf_delivery_id_int(delivery, &id);
    bool again = hf_delivery_attempt(delivery) == 1;
    hf_test_run_end(jobs, run);
    if (again && id == 4)
        return HF_RETRY;
    hf_delivery_set_delay(delivery, 300);
    return again && id == 7 ? HF_RETRY_AFTER : HF_ACK;
}

static void check_follows(struct hf_test_jobs *jobs)
{
    static const int64_t order[] = {1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    subscribe(jobs, runtime, in_order);
    hf_test_jobs_add_groups(jobs, runtime, 12, 1);
    start(runtime);
    hf_test_wait_for_runs(jobs, 14); /* the seventh comes last, once its delay is over, which is long before the next poll */
    wait_and_close(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    CU_ASSERT_EQUAL_FATAL(jobs->n_runs, 14);
    for (size_t i = 0; i < 13; i++)
        if (jobs->runs[i].id != order[i])
            hf_test_fail("%s: run %zu was of row %lld instead of %lld", hf_test_jobs_place(jobs), i, (long long)jobs->runs[i].id,
                         (long long)order[i]);
    CU_ASSERT_EQUAL(jobs->runs[13].id, 7);
    for (size_t i = 1; i < 14; i++)
        CU_ASSERT_TRUE(jobs->runs[i - 1].end_us <= jobs->runs[i].begin_us);
}

static void test_follows(void)
{
    on_all(", \"group\": \"grp\"", check_follows);
}

/* ---- rows behind a head that is not due are not waited for ---- */

static hf_outcome done(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

static void check_wait(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_job head = HF_JOB_INIT, behind = HF_JOB_INIT;
    head.group = behind.group = "g";
    head.has_priority = true;
    head.priority = -1;
    head.delay_ms = 3600000;
    subscribe(jobs, runtime, done);
    hf_test_jobs_put(jobs, head, 1);
    hf_test_jobs_put(jobs, behind, 2);
    behind.group = "h";
    hf_test_jobs_put(jobs, behind, 2);
    start(runtime);
    wait_and_close(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "grp = 'g'"), 3);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "grp = 'h'"), 0);
}

static void test_wait(void)
{
    on_all(", \"group\": \"grp\", \"priority\": \"priority\"", check_wait);
}

/* ---- a head that somebody had locked when it was claimed is claimed again before the next poll ---- */

static bool came_again(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.empty_claims") >= 3;
}

static void check_contended(struct hf_test_jobs *jobs)
{
    if (jobs->kind.database == HF__SQLITE) /* where a lock is the whole file's, and waited for */
        return;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    struct hf__conn *session = hf_test_session(jobs->url);
    subscribe(jobs, runtime, done);
    hf_test_jobs_add_groups(jobs, runtime, 4, 2);
    hf_test_session_run(session, "BEGIN");
    (void)hf_test_session_text(session, hf_test_format("SELECT id FROM %s FOR UPDATE", jobs->name));
    start(runtime);
    if (!hf_test_wait_until(came_again, runtime, ENOUGH_MS))
        hf_test_fail("%s: it was not tried again", hf_test_jobs_place(jobs));
    CU_ASSERT_EQUAL(hf_test_n_runs(jobs), 0);
    HF_TEST_OK(hf__conn_rollback(session, hf__after_ms(5000), NULL), NULL);
    hf_test_wait_for_runs(jobs, 4);
    hf__conn_close(session);
    wait_and_close(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
}

static void test_contended(void)
{
    on_all(", \"group\": \"grp\"", check_contended);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"the next row of a group follows at once", test_follows},
        {"rows behind a head that is not due are not waited for", test_wait},
        {"contended", test_contended},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_fifo", tests);
}
