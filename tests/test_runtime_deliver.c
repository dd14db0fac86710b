/* ctest: timeout=240 labels=e2e
 * Deliveries from claim to settle, under every strategy of every database. */
#include <stdatomic.h>
#include <stdlib.h>
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

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 200;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, ctx, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, &report, &err), &err);
    CU_ASSERT_EQUAL(report.running, 0);
    CU_ASSERT_EQUAL(report.failed, 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void wait_empty(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
}

/* ---- every row once ---- */

static atomic_int wrong_payloads;

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery), len;
    char expected[64];
    snprintf(expected, sizeof expected, "job %s", hf_delivery_id(delivery));
    const char *payload = hf_delivery_payload(delivery, &len);
    if (!payload || len != strlen(expected) || strcmp(payload, expected) != 0)
        atomic_fetch_add(&wrong_payloads, 1);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void every_row_runs_once_on(struct hf_test_jobs *jobs)
{
    enum { N = 200 };
    hf_runtime *runtime = start(jobs, 6, ack, jobs);
    hf_test_jobs_add(jobs, runtime, N);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.claimed"), N);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    for (size_t i = 0; i < jobs->n_runs; i++)
        CU_ASSERT_EQUAL(jobs->runs[i].attempt, 1);
    hf_test_no_overlap(jobs);
    CU_ASSERT_EQUAL(atomic_load(&wrong_payloads), 0);
    CU_ASSERT_PTR_NULL(jobs->log);
    if (jobs->log)
        fprintf(stderr, "log: %s\n", jobs->log);
}

static void every_row_runs_once(void)
{
    on_all(every_row_runs_once_on);
}

/* ---- outcomes ---- */

static hf_outcome by_id(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    bool first = hf_delivery_attempt(delivery) == 1;
    hf_outcome outcome = HF_ACK;
    if (first && id == 1)
        outcome = HF_RETRY;
    if (first && id == 2) {
        hf_delivery_set_delay(delivery, 300);
        outcome = HF_RETRY_AFTER;
    }
    if (id == 3)
        outcome = HF_REJECT;
    if (first && id == 4)
        outcome = (hf_outcome)99; /* no outcome at all */
    hf_test_run_end(ctx, run);
    return outcome;
}

static void outcomes_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = start(jobs, 3, by_id, jobs);
    hf_test_jobs_add(jobs, runtime, 5);
    int64_t limit = hf_test_now_ms() + 20000;
    while ((hf_test_jobs_count(jobs, "1 = 1") > 0 || hf_test_stat(runtime, "subscription.0.in_work") > 0) && hf_test_now_ms() < limit)
        hf_test_sleep_ms(20);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried_later"), 2);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.rejected"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 4);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_runs_of(jobs, 1), 2);
    CU_ASSERT_EQUAL(hf_test_runs_of(jobs, 2), 2);
    CU_ASSERT_EQUAL(hf_test_runs_of(jobs, 3), 1);
    CU_ASSERT_EQUAL(hf_test_runs_of(jobs, 4), 2);
    CU_ASSERT_EQUAL(hf_test_runs_of(jobs, 5), 1);
    hf_test_no_overlap(jobs); /* sorts by row and time */
    for (size_t i = 1; i < jobs->n_runs; i++) {
        const struct hf_test_run *run = &jobs->runs[i], *before = run - 1;
        if (run->id == before->id)
            CU_ASSERT_EQUAL(run->attempt, before->attempt + 1);
        if (run->id == 2 && before->id == 2)
            CU_ASSERT(run->begin_us - before->end_us >= 299000);
    }
}

static void outcomes(void)
{
    on_all(outcomes_on);
}

/* ---- what a delivery costs ---- */

static hf_outcome slow(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(50);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void cost_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = start(jobs, 4, slow, jobs);
    hf_test_jobs_add(jobs, runtime, 40);
    wait_empty(runtime);
    bool holds = jobs->kind.strategy == HF_ROW_LOCK || (jobs->kind.strategy == HF_ADVISORY_LOCK && jobs->kind.database != HF__SQLITE);
    double held = hf_test_stat(runtime, "subscription.0.held_per_delivery"), expected = holds ? 1 : 0;
    if (held < expected * 0.95 || held > expected * 1.05)
        hf_test_fail("%s holds %g connections for each delivery, not %g", hf_strategy_name(jobs->kind.strategy), held, expected);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.peak_in_work") >= 4, true);
    const char *purpose = jobs->kind.strategy == HF_ROW_LOCK ? "pool.purposes.row_lock.peak" : "pool.purposes.advisory_lock.peak";
    CU_ASSERT_EQUAL(hf_test_stat(runtime, purpose), holds ? 4 : 0);
    stop(runtime);
    hf_test_no_overlap(jobs);
}

static void cost(void)
{
    on_all(cost_on);
}

/* ---- settling by call, and later ---- */

static atomic_int statuses[4];

static hf_outcome settle_in_handler(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_error err;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    atomic_fetch_add(&statuses[0], hf_delivery_settle(delivery, HF_DEFER, &err) == HF_MISUSE);
    atomic_fetch_add(&statuses[1], hf_delivery_settle(delivery, HF_ACK, &err) == HF_OK);
    atomic_fetch_add(&statuses[2], hf_delivery_settle(delivery, HF_ACK, &err) == HF_MISUSE);
    hf_test_run_end(ctx, run);
    return HF_RETRY; /* ignored */
}

static void settle_in_handler_on(struct hf_test_jobs *jobs)
{
    memset(statuses, 0, sizeof statuses);
    hf_runtime *runtime = start(jobs, 2, settle_in_handler, jobs);
    hf_test_jobs_add(jobs, runtime, 10);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 10);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 0);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 10);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(atomic_load(&statuses[i]), 10);
}

static void settling_in_the_handler(void)
{
    on_all(settle_in_handler_on);
}

static void *settle_later(void *arg)
{
    hf_delivery *delivery = arg;
    hf_test_sleep_ms(30);
    atomic_fetch_add(&statuses[0], hf_delivery_settle(delivery, HF_ACK, NULL) == HF_OK);
    return NULL;
}

/* The other thread may well settle before this handler has returned. */
static hf_outcome defer(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    int64_t id = 0;
    pthread_t thread;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(ctx, run);
    if (pthread_create(&thread, NULL, settle_later, delivery) != 0)
        return HF_REJECT;
    pthread_detach(thread);
    if (id % 2)
        hf_test_sleep_ms(60);
    return HF_DEFER;
}

static void deferred_on(struct hf_test_jobs *jobs)
{
    memset(statuses, 0, sizeof statuses);
    hf_runtime *runtime = start(jobs, 2, defer, jobs);
    hf_test_jobs_add(jobs, runtime, 10);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 10);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 10);
    CU_ASSERT_EQUAL(atomic_load(&statuses[0]), 10);
}

static void deferred(void)
{
    on_all(deferred_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"every row runs once", every_row_runs_once},         {"outcomes", outcomes}, {"what a delivery costs", cost},
        {"settling in the handler", settling_in_the_handler}, {"deferred", deferred}, CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_deliver", tests);
}
