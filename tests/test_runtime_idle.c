/* ctest: timeout=120 labels=e2e
 * What idle workers cost, how fast a burst reaches all of them, and what a pool that is too small does. */
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs.h"

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, hf_test_kinds[i], 30);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t pool_size, size_t workers, int64_t poll_ms, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    runtime_options.pool_size = pool_size;
    options.workers = workers;
    options.poll_ms = poll_ms;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &runtime_options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static atomic_int together, most_together;

static hf_outcome a_second(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    int now = atomic_fetch_add(&together, 1) + 1, most = atomic_load(&most_together);
    while (now > most && !atomic_compare_exchange_weak(&most_together, &most, now))
        continue;
    hf_test_sleep_ms(1000);
    atomic_fetch_sub(&together, 1);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

/* 16 idle workers ask once in an interval; then one enqueue wakes them all, without waiting for the interval. */
static void burst_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    atomic_store(&most_together, 0);
    hf_runtime *runtime = start(jobs, 0, 16, 500, a_second);
    hf_test_sleep_ms(2100);
    double claims = hf_test_stat(runtime, "subscription.0.claims");
    CU_ASSERT(claims >= 3 && claims <= 8);
    hf_runtime *slow = start(jobs, 0, 16, 60000, a_second);
    stop(runtime);
    hf_test_sleep_ms(200); /* its first poll is over */
    hf_test_jobs_add(jobs, slow, 16);
    HF_TEST_OK(hf_runtime_wait_empty(slow, 10000, &err), &err);
    stop(slow);
    CU_ASSERT_EQUAL(jobs->n_runs, 16);
    CU_ASSERT(atomic_load(&most_together) >= 4); /* connecting takes its time on a busy machine */
}

static void burst(void)
{
    on_all(burst_on);
}

/* More workers than the pool can hold rows for: fewer run at once, it is said, and nothing hangs. */
static void small_pool_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    bool holds = jobs->kind.strategy == HF_ROW_LOCK || (jobs->kind.strategy == HF_ADVISORY_LOCK && jobs->kind.database != HF__SQLITE);
    for (size_t pool_size = 1; pool_size <= 4; pool_size += 3) {
        atomic_store(&most_together, 0);
        hf_runtime *runtime = start(jobs, pool_size, 12, 50, a_second);
        hf_test_jobs_add(jobs, runtime, 6);
        HF_TEST_OK(hf_runtime_wait_empty(runtime, 20000, &err), &err);
        CU_ASSERT(hf_test_stat(runtime, "pool.peak_open") <= (double)pool_size);
        stop(runtime);
        CU_ASSERT_EQUAL(hf_test_logged(jobs, "is too small for 12 workers"), holds);
        if (holds)
            CU_ASSERT_EQUAL(atomic_load(&most_together), pool_size == 1 ? 1 : 3);
    }
    if (jobs->n_runs != 12)
        hf_test_fail("%zu runs instead of 12 on %s; the log: %s", jobs->n_runs, jobs->url, jobs->log ? jobs->log : "");
    hf_test_no_overlap(jobs);
}

static void small_pool(void)
{
    on_all(small_pool_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"burst", burst},
        {"small pool", small_pool},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_idle", tests);
}
