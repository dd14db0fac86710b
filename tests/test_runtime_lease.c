/* ctest: timeout=240 labels=e2e
 * Leases while handlers run: renewed, lost, abandoned; renewal and settle never meet. */
#include <stdatomic.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"

enum { LEASE_SECONDS = 4 }; /* not so short that a busy machine does not come to renew it */

static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < sizeof databases / sizeof databases[0]; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, (struct hf_test_kind){databases[i], HF_LEASE}, LEASE_SECONDS);
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

static hf_runtime *start(struct hf_test_jobs *jobs, const hf_runtime_options *runtime_options, const hf_subscription_options *options,
                         hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, runtime_options);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, options, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void wait_and_stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 60000, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
}

/* ---- a handler outlives its lease ---- */

/* One and a half. */
static hf_outcome longer_than_a_lease(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(1500 * LEASE_SECONDS);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void outlive(struct hf_test_jobs *jobs, const hf_runtime_options *runtime_options)
{
    hf_subscription_options options = quick(8);
    hf_runtime *first = start(jobs, runtime_options, &options, longer_than_a_lease);
    hf_runtime *second = start(jobs, runtime_options, &options, longer_than_a_lease);
    hf_test_jobs_add(jobs, first, 12);
    wait_and_stop(first);
    wait_and_stop(second);
    CU_ASSERT_EQUAL(hf_test_stat(first, "subscription.0.lease_lost") + hf_test_stat(second, "subscription.0.lease_lost"), 0);
    CU_ASSERT(hf_test_stat(first, "subscription.0.renewals") + hf_test_stat(second, "subscription.0.renewals") >=
              12 * 2); /* every half lease */
    HF_TEST_OK(hf_runtime_close(first), NULL);
    HF_TEST_OK(hf_runtime_close(second), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, 12);
    hf_test_no_overlap(jobs);
}

static void outlive_ample(struct hf_test_jobs *jobs)
{
    outlive(jobs, NULL);
}

static void handlers_outlive_their_lease(void)
{
    on_all(outlive_ample);
}

/* The same on a pool of one connection, which claims, renewals and settles share. */
static void outlive_on_one(struct hf_test_jobs *jobs)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.pool_size = 1;
    outlive(jobs, &options);
}

static void pool_of_one(void)
{
    on_all(outlive_on_one);
}

/* ---- renewals and settles at the same moment ---- */

static hf_outcome half_a_lease(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(500 * LEASE_SECONDS - 20 + id % 40);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void race_on(struct hf_test_jobs *jobs)
{
    enum { N = 96 };
    hf_subscription_options options = quick(32);
    hf_runtime *runtime = start(jobs, NULL, &options, half_a_lease);
    hf_test_jobs_add(jobs, runtime, N);
    wait_and_stop(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lease_lost"), 0);
    CU_ASSERT(hf_test_stat(runtime, "subscription.0.renewals") > 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    /* A renewal may be passed over, or too slow on a busy machine, and then comes again; no row is ever in doubt for it. */
    CU_ASSERT_FALSE(hf_test_logged(jobs, "was not settled"));
}

static void renewal_against_settle(void)
{
    on_all(race_on);
}

/* ---- a lease that someone else has taken ---- */

static atomic_int seen_cancel, seen_status, callbacks;

static void on_cancel(hf_delivery *delivery, hf_cancel why, void *ctx)
{
    (void)delivery;
    (void)ctx;
    atomic_fetch_add(&callbacks, why == HF_CANCEL_LOST ? 1 : 100);
}

static hf_outcome wait_for_cancel(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_delivery_on_cancel(delivery, on_cancel, NULL);
    atomic_store(&seen_cancel, (int)hf_delivery_wait(delivery, 60000));
    atomic_store(&seen_status, (int)hf_delivery_settle(delivery, HF_ACK, NULL));
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool has_run(void *arg)
{
    return hf_test_n_runs(arg) > 0;
}

static void stolen_on(struct hf_test_jobs *jobs)
{
    atomic_store(&callbacks, 0);
    hf_subscription_options options = quick(1);
    hf_runtime *runtime = start(jobs, NULL, &options, wait_for_cancel);
    hf_test_jobs_add(jobs, runtime, 1);
    CU_ASSERT_FATAL(hf_test_wait_until(has_run, jobs, 30000));
    hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET locked_until = '2099-01-01 00:00:00', attempt = attempt + 1", jobs->name));
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, &report, &err), &err);
    CU_ASSERT_EQUAL(report.failed, 1);
    CU_ASSERT_EQUAL(atomic_load(&seen_cancel), HF_CANCEL_LOST);
    CU_ASSERT_EQUAL(atomic_load(&seen_status), HF_LEASE_LOST);
    CU_ASSERT_EQUAL(atomic_load(&callbacks), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lease_lost"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 1);
}

static void stolen(void)
{
    on_all(stolen_on);
}

/* ---- a handler that runs too long, abandoned ---- */

static struct hf_test_gate gate = HF_TEST_GATE_INIT;

static hf_outcome stuck_at_first(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    if (hf_delivery_attempt(delivery) == 1) {
        atomic_store(&seen_cancel, (int)hf_delivery_wait(delivery, 60000));
        hf_test_gate_pass(&gate);
    }
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool is_empty(void *arg)
{
    return hf_test_jobs_count(arg, "1 = 1") == 0;
}

static void abandoned_on(struct hf_test_jobs *jobs)
{
    hf_test_gate_shut(&gate);
    hf_subscription_options options = quick(2);
    options.handler_timeout_ms = 300;
    options.abandon = true;
    hf_runtime *runtime = start(jobs, NULL, &options, stuck_at_first);
    hf_test_jobs_add(jobs, runtime, 1);
    CU_ASSERT(hf_test_wait_until(is_empty, jobs, 60000)); /* the second run has acked it, while the first still runs */
    hf_test_gate_open(&gate);
    wait_and_stop(runtime);
    CU_ASSERT_EQUAL(atomic_load(&seen_cancel), HF_CANCEL_TIMEOUT);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.handler_timeouts"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lease_lost"), 1);
    CU_ASSERT(hf_test_logged(jobs, "has run for more than 300 ms"));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void abandoned(void)
{
    on_all(abandoned_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"handlers outlive their lease", handlers_outlive_their_lease},
        {"pool of one", pool_of_one},
        {"renewal against settle", renewal_against_settle},
        {"stolen", stolen},
        {"abandoned", abandoned},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_lease", tests);
}
