/* The common course of a test on a table of jobs: rows, a runtime that works on them, its end. */
#include <stdlib.h>

#include "pool/driver.h"
#include "tests/jobs.h"

#define LIMIT_MS 60000
#define AT_ONCE ((size_t)1000)

const char *hf_test_jobs_place(const struct hf_test_jobs *jobs)
{
    return hf_test_format("%s, %s", hf__database_name(jobs->kind.database), hf_strategy_name(jobs->kind.strategy));
}

void hf_test_jobs_put(struct hf_test_jobs *jobs, hf_job like, size_t n)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_job *list = calloc(n, sizeof *list);
    CU_ASSERT_FATAL(list != NULL);
    for (size_t i = 0; i < n; i++) {
        list[i] = like;
    }
    hf_status status = HF_OK;
    for (size_t i = 0; i < n && status == HF_OK; i += AT_ONCE) { /* workers may wait for what it locks */
        status = hf_enqueue(runtime, jobs->table, list + i, n - i < AT_ONCE ? n - i : AT_ONCE, NULL, &err);
    }
    free(list);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    HF_TEST_OK(status, &err);
}

hf_runtime *hf_test_jobs_start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, ctx, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

void hf_test_jobs_stop(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, LIMIT_MS, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_no_overlap(jobs);
}

void hf_test_jobs_finish(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_status status = hf_runtime_wait_empty(runtime, LIMIT_MS, &err);
    if (status != HF_OK) {
        hf_test_fail("%s: %s; log: %s", hf_test_jobs_place(jobs), hf_status_name(status), jobs->log ? jobs->log : "");
    }
    hf_test_jobs_stop(jobs, runtime);
    int64_t left = hf_test_jobs_count(jobs, "1 = 1");
    if (left != 0) {
        hf_test_fail("%s: %lld rows are left", hf_test_jobs_place(jobs), (long long)left);
    }
}

static int by_begin(const void *left, const void *right)
{
    const struct hf_test_run *a = left, *b = right;
    return a->place < b->place ? -1 : a->place > b->place;
}

void hf_test_sort_runs(struct hf_test_jobs *jobs)
{
    if (jobs->n_runs > 0) {
        qsort(jobs->runs, jobs->n_runs, sizeof *jobs->runs, by_begin);
    }
}
