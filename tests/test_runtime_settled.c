/* ctest: timeout=120 labels=e2e
 * What on_settled tells, and what the pool's traffic counts. */
#include <stdatomic.h>

#include "tests/jobs.h"

enum { ROWS = 40 };

struct record {
    struct hf_test_jobs jobs;
    atomic_size_t settled[HF_DEFER], failed;
    atomic_size_t of_row[ROWS + 1];
};

/* A quarter each: acked; retried, then acked; rejected; retried later, then acked. */
static hf_outcome by_id(hf_delivery *delivery, void *ctx)
{
    static const hf_outcome first[] = {HF_ACK, HF_RETRY, HF_REJECT, HF_RETRY_AFTER};
    struct record *record = ctx;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(&record->jobs, delivery);
    bool again = hf_test_runs_of(&record->jobs, id) > 1;
    hf_test_run_end(&record->jobs, run);
    hf_delivery_set_delay(delivery, 0);
    return again ? HF_ACK : first[id % 4];
}

static void settled(hf_delivery *delivery, hf_outcome outcome, hf_status status, void *ctx)
{
    struct record *record = ctx;
    int64_t id = 0;
    if (status != HF_OK || outcome >= HF_DEFER || !hf_delivery_id_int(delivery, &id) || id < 1 || id > ROWS) {
        atomic_fetch_add(&record->failed, 1);
        return;
    }
    atomic_fetch_add(&record->settled[outcome], 1);
    atomic_fetch_add(&record->of_row[id], 1);
}

static void told(struct hf_test_kind kind)
{
    struct record record = {.failed = 0};
    struct hf_test_jobs *jobs = &record.jobs;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_error err = {.status = HF_OK};
    hf_test_jobs_open(jobs, kind, 30);
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    options.workers = 4;
    options.on_settled = settled;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, by_id, &record, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    double before = hf_test_stat(runtime, "pool.commits");
    hf_test_jobs_add(jobs, runtime, ROWS);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    double commits = hf_test_stat(runtime, "pool.commits"), trips = hf_test_stat(runtime, "pool.round_trips");
    hf_test_jobs_finish(jobs, runtime);
    CU_ASSERT_EQUAL(record.failed, 0);
    CU_ASSERT_EQUAL(record.settled[HF_ACK], ROWS / 4 * 3);
    CU_ASSERT_EQUAL(record.settled[HF_RETRY], ROWS / 4);
    CU_ASSERT_EQUAL(record.settled[HF_REJECT], ROWS / 4);
    CU_ASSERT_EQUAL(record.settled[HF_RETRY_AFTER], ROWS / 4);
    for (size_t id = 1; id <= ROWS; id++)
        CU_ASSERT_EQUAL(record.of_row[id], id % 4 == 1 || id % 4 == 3 ? 2 : 1);
    /* Each row's run ends with a commit of its own, but leases share theirs. */
    if (commits - before < (kind.strategy == HF_LEASE ? 3 : ROWS / 2 * 3) || trips < commits)
        hf_test_fail("%s: %g round trips and %g commits", hf_test_jobs_place(jobs), trips, commits);
    hf_test_jobs_close(jobs);
}

static void on_settled(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        told(hf_test_kinds[i]);
}

/* ---- the cost model's word on a pool that is given ---- */

static size_t workers_on(const char *url, const hf_table *table, size_t pool_size)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_runtime *runtime = NULL;
    hf_cost cost = HF_COST_INIT;
    options.pool_size = pool_size;
    HF_TEST_OK(hf_runtime_open(url, &options, &runtime, NULL), NULL);
    HF_TEST_OK(hf_cost_of(runtime, table, 10, &cost, NULL), NULL);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    return cost.workers;
}

static void workers_within(void)
{
    static const char row_lock[] = "{ \"table\": \"t\", \"columns\": { \"id\": \"id\" } }";
    static const char lease[] = "{ \"table\": \"t\", \"columns\": { \"id\": \"id\", \"locked_until\": \"locked_until\" } }";
    static const char nowhere[] = "postgresql://127.0.0.1:1/none";
    hf_table *held = NULL, *leased = NULL;
    HF_TEST_OK(hf_table_parse(row_lock, sizeof row_lock - 1, &held, NULL), NULL);
    HF_TEST_OK(hf_table_parse(lease, sizeof lease - 1, &leased, NULL), NULL);
    CU_ASSERT_EQUAL(workers_on(nowhere, held, 0), 10);
    CU_ASSERT_EQUAL(workers_on(nowhere, held, 11), 10);
    CU_ASSERT_EQUAL(workers_on(nowhere, held, 5), 4);
    CU_ASSERT_EQUAL(workers_on(nowhere, held, 1), 1);
    CU_ASSERT_EQUAL(workers_on(nowhere, leased, 1), 10);
    hf_table_free(held);
    hf_table_free(leased);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"on_settled", on_settled},
        {"workers within a pool", workers_within},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_settled", tests);
}
