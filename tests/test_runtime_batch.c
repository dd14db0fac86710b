/* ctest: timeout=240 labels=e2e
 * Batches: several rows to one call of the handler, each with an outcome of its own, under every strategy of every database. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"

enum { BATCH = 8 };

static void on_each(const struct hf_test_kind *kinds, size_t n, int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < n; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, kinds[i], lease_seconds);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    on_each(hf_test_kinds, hf_test_n_kinds, 30, test);
}

struct setup {
    size_t workers, pool, prefetch;
    int64_t timeout_ms;
    const char *name; /* of the sessions */
    bool single;      /* batches of one row */
};

static hf_runtime *subscribed(struct hf_test_jobs *jobs, struct setup setup, hf_batch_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    runtime_options.pool_size = setup.pool;
    runtime_options.keepalive_ms = 500;
    runtime_options.application_name = setup.name;
    options.workers = setup.workers;
    options.poll_ms = 50;
    options.batch = setup.single ? 1 : BATCH;
    options.prefetch = setup.prefetch;
    options.handler_timeout_ms = setup.timeout_ms;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, &runtime_options);
    HF_TEST_OK(hf_subscribe_batch(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
    return runtime;
}

static void start(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
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

static bool holds(const struct hf_test_jobs *jobs)
{
    return jobs->kind.strategy == HF_ROW_LOCK || (jobs->kind.strategy == HF_ADVISORY_LOCK && jobs->kind.database != HF__SQLITE);
}

static int64_t id_of(const hf_delivery *delivery)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    return id;
}

/* For handlers: all of them begin, and end. */
static void begin_runs(hf_delivery *const *deliveries, size_t n, struct hf_test_jobs *jobs, size_t *runs)
{
    for (size_t i = 0; i < n && i < BATCH; i++)
        runs[i] = hf_test_run_begin(jobs, deliveries[i]);
}

static void end_runs(size_t n, struct hf_test_jobs *jobs, const size_t *runs)
{
    for (size_t i = 0; i < n && i < BATCH; i++)
        hf_test_run_end(jobs, runs[i]);
}

static void set_all(hf_delivery *const *deliveries, size_t n, hf_outcome outcome)
{
    for (size_t i = 0; i < n; i++)
        (void)hf_delivery_set_outcome(deliveries[i], outcome);
}

/* ---- every row once ---- */

static atomic_int calls, largest, out_of_order;

static void note_call(hf_delivery *const *deliveries, size_t n)
{
    atomic_fetch_add(&calls, 1);
    for (int most = atomic_load(&largest); (int)n > most && !atomic_compare_exchange_weak(&largest, &most, (int)n);)
        continue;
    for (size_t i = 1; i < n; i++)
        if (id_of(deliveries[i - 1]) >= id_of(deliveries[i]))
            atomic_fetch_add(&out_of_order, 1);
}

static void reset_calls(void)
{
    atomic_store(&calls, 0);
    atomic_store(&largest, 0);
    atomic_store(&out_of_order, 0);
}

static void ack_all(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    note_call(deliveries, n);
    set_all(deliveries, n, HF_REJECT);
    set_all(deliveries, n, HF_ACK); /* the last one counts */
    end_runs(n, ctx, runs);
}

static void every_row_on(struct hf_test_jobs *jobs)
{
    enum { N = 200 };
    reset_calls();
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 3}, ack_all);
    hf_test_jobs_add(jobs, runtime, N);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.claimed"), N);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    for (int64_t id = 1; id <= N; id++)
        CU_ASSERT_EQUAL(hf_test_runs_of(jobs, id), 1);
    CU_ASSERT_EQUAL(atomic_load(&largest), BATCH);
    CU_ASSERT(atomic_load(&calls) < N / 2);
    CU_ASSERT_EQUAL(atomic_load(&out_of_order), 0);
    CU_ASSERT_PTR_NULL(jobs->log);
}

static void every_row_runs_once(void)
{
    on_all(every_row_on);
}

/* ---- outcomes ---- */

static void by_id(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    note_call(deliveries, n);
    for (size_t i = 0; i < n; i++) {
        int64_t id = id_of(deliveries[i]);
        bool first = hf_delivery_attempt(deliveries[i]) == 1;
        hf_outcome outcome = first && id == 1 ? HF_RETRY : first && id == 2 ? HF_RETRY_AFTER : id == 3 ? HF_REJECT : HF_ACK;
        hf_delivery_set_delay(deliveries[i], 300);
        if (!first || id != 4) /* it is left without */
            (void)hf_delivery_set_outcome(deliveries[i], outcome);
    }
    end_runs(n, ctx, runs);
}

static bool all_done(void *arg)
{
    return hf_test_stat(arg, "subscription.0.acked") + hf_test_stat(arg, "subscription.0.rejected") >= BATCH;
}

static void check_attempts(struct hf_test_jobs *jobs)
{
    hf_test_no_overlap(jobs); /* sorts by row and time */
    for (size_t i = 1; i < jobs->n_runs; i++) {
        const struct hf_test_run *run = &jobs->runs[i], *before = run - 1;
        if (run->id != before->id)
            continue;
        CU_ASSERT_EQUAL(run->attempt, before->attempt + 1);
        if (run->id == 2 || run->id == 4)
            CU_ASSERT(run->begin_us - before->end_us >= 299000);
    }
}

static void outcomes_on(struct hf_test_jobs *jobs)
{
    reset_calls();
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1}, by_id);
    hf_test_jobs_add(jobs, runtime, BATCH);
    start(runtime);
    CU_ASSERT_FATAL(hf_test_wait_until(all_done, runtime, 20000));
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried_later"), 2);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.rejected"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), BATCH - 1);
    stop(runtime);
    CU_ASSERT_EQUAL(atomic_load(&largest), BATCH);
    for (int64_t id = 1; id <= BATCH; id++)
        CU_ASSERT_EQUAL(hf_test_runs_of(jobs, id), id == 1 || id == 2 || id == 4 ? 2 : 1);
    check_attempts(jobs);
}

static void outcomes(void)
{
    on_all(outcomes_on);
}

/* ---- misuse ---- */

static atomic_int answers[5];

static void misuse_batch(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    hf_error err;
    (void)ctx;
    (void)n;
    atomic_store(&answers[0], (int)hf_delivery_set_outcome(deliveries[0], HF_DEFER));
    atomic_store(&answers[1], (int)hf_delivery_set_outcome(deliveries[0], (hf_outcome)99));
    atomic_store(&answers[2], (int)hf_delivery_settle(deliveries[0], HF_ACK, &err));
    atomic_store(&answers[3], (int)hf_delivery_set_outcome(deliveries[0], HF_ACK));
}

static hf_outcome misuse_single(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    atomic_store(&answers[4], (int)hf_delivery_set_outcome(delivery, HF_REJECT));
    return HF_ACK;
}

static void refused_subscriptions(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    HF_TEST_STATUS(hf_subscribe_batch(runtime, jobs->table, &options, NULL, NULL, NULL, &err), HF_INVALID, &err);
    options.batch = 1001;
    HF_TEST_STATUS(hf_subscribe_batch(runtime, jobs->table, &options, misuse_batch, NULL, NULL, &err), HF_INVALID, &err);
    options.batch = 0; /* 16 */
    options.transactional = true;
    HF_TEST_STATUS(hf_subscribe_batch(runtime, jobs->table, &options, misuse_batch, NULL, NULL, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, jobs->name));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void run_once(struct hf_test_jobs *jobs, hf_handler handler, hf_batch_handler batch_handler)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = 1;
    options.batch = 1; /* a batch of one is a batch */
    if (handler)
        HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, NULL, NULL, &err), &err);
    else
        HF_TEST_OK(hf_subscribe_batch(runtime, jobs->table, &options, batch_handler, NULL, NULL, &err), &err);
    hf_test_jobs_add(jobs, runtime, 1);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop(runtime);
}

static void misuse_on(struct hf_test_jobs *jobs)
{
    refused_subscriptions(jobs);
    run_once(jobs, NULL, misuse_batch);
    run_once(jobs, misuse_single, NULL);
    const hf_status expected[] = {HF_MISUSE, HF_INVALID, HF_MISUSE, HF_OK, HF_MISUSE};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        CU_ASSERT_EQUAL(atomic_load(&answers[i]), expected[i]);
}

static void misuse(void)
{
    on_all(misuse_on);
}

/* ---- what a batch costs ---- */

static struct hf_test_gate gate = HF_TEST_GATE_INIT;

static void at_the_gate(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    hf_test_gate_pass(&gate);
    set_all(deliveries, n, HF_ACK);
    end_runs(n, ctx, runs);
}

enum { COST_WORKERS = 2, COST_ROWS = COST_WORKERS * BATCH };

static void check_in_use(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    double rows = hf_test_stat(runtime, "pool.purposes.row_lock.in_use"),
           keys = hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use");
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), COST_ROWS);
    CU_ASSERT_EQUAL(rows, jobs->kind.strategy == HF_ROW_LOCK ? COST_WORKERS : 0);
    CU_ASSERT_EQUAL(keys, holds(jobs) && jobs->kind.strategy == HF_ADVISORY_LOCK ? COST_ROWS : 0);
    CU_ASSERT(hf_test_stat(runtime, "pool.in_use") <= rows + keys + 1);
}

/* Both workers with a full batch, for a while: the connections that each delivery held. */
static double held_for(struct hf_test_jobs *jobs, int64_t ms)
{
    size_t before = hf_test_n_runs(jobs);
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = COST_WORKERS}, at_the_gate);
    hf_test_jobs_add(jobs, runtime, COST_ROWS);
    start(runtime);
    hf_test_wait_for_runs(jobs, before + COST_ROWS);
    check_in_use(jobs, runtime);
    hf_test_sleep_ms(ms);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    double held = hf_test_stat(runtime, "subscription.0.held_per_delivery");
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, before + COST_ROWS);
    return held;
}

/* A claim or a settle that a busy machine draws out is held too: what counts is the share of it, so the while gets longer. */
static void cost_on(struct hf_test_jobs *jobs)
{
    double expected = !holds(jobs) ? 0 : jobs->kind.strategy == HF_ROW_LOCK ? 1.0 / BATCH : 1, held = -1;
    for (int64_t ms = 500; ms <= 8000 && (held < expected * 0.9 || held > expected * 1.1); ms *= 4)
        held = held_for(jobs, ms);
    if (held < expected * 0.9 || held > expected * 1.1)
        hf_test_fail("%s holds %g connections for each delivery of a batch, not %g", hf_strategy_name(jobs->kind.strategy), held, expected);
}

static void cost(void)
{
    on_all(cost_on);
}

/* ---- a small pool ---- */

/* An advisory lock's batches take what is free, and leave one connection for others. */
static void small_pool_on(struct hf_test_jobs *jobs)
{
    enum { WORKERS = 2, POOL = 6, N = 3 * BATCH };
    hf_error err = {.status = HF_OK};
    hf_job job = HF_JOB_INIT;
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = WORKERS, .pool = POOL}, at_the_gate);
    hf_test_jobs_add(jobs, runtime, N);
    start(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.workers"), WORKERS);
    hf_test_gate_await(&gate, WORKERS);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.advisory_lock.in_use"), POOL - 1);
    CU_ASSERT_EQUAL(hf_test_n_runs(jobs), POOL - 1);
    int64_t begun_ms = hf_test_now_ms();
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, &job, 1, NULL, &err), &err);
    CU_ASSERT(hf_test_now_ms() - begun_ms < 9000);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N + 1);
    CU_ASSERT(hf_test_stat(runtime, "pool.purposes.advisory_lock.peak") <= POOL - 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.claim.timeouts"), 0);
    stop(runtime);
}

/* With one connection alone a batch is one row. */
static void smallest_pool_on(struct hf_test_jobs *jobs)
{
    reset_calls();
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 2, .pool = 1}, ack_all);
    hf_test_jobs_add(jobs, runtime, 20);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 20);
    CU_ASSERT_EQUAL(atomic_load(&largest), jobs->kind.strategy == HF_ROW_LOCK ? BATCH : 1);
    stop(runtime);
}

static void small_pools(void)
{
    const struct hf_test_kind kinds[] = {
        {HF__POSTGRES, HF_ADVISORY_LOCK}, {HF__MYSQL, HF_ADVISORY_LOCK}, {HF__POSTGRES, HF_ROW_LOCK}, {HF__MYSQL, HF_ROW_LOCK}};
    on_each(kinds, 2, 30, small_pool_on);
    on_each(kinds, 4, 30, smallest_pool_on);
}

/* ---- stops ---- */

static void for_two_seconds(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    hf_test_sleep_ms(2000);
    set_all(deliveries, n, HF_ACK);
    end_runs(n, ctx, runs);
}

/* Leases of one second, which are renewed meanwhile. */
static void drained_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .prefetch = SIZE_MAX}, for_two_seconds);
    hf_test_jobs_add(jobs, runtime, 2 * BATCH);
    start(runtime);
    hf_test_wait_for_runs(jobs, BATCH);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, &report, &err), &err);
    CU_ASSERT_EQUAL(report.settled, BATCH);
    CU_ASSERT_EQUAL(report.failed, 0);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, BATCH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 1"), BATCH);
}

static atomic_int flagged, called_back;

static void note_cancel(hf_delivery *delivery, hf_cancel why, void *ctx)
{
    (void)delivery;
    (void)ctx;
    atomic_fetch_add(&called_back, why == HF_CANCEL_DRAIN);
}

static void until_cancelled(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    for (size_t i = 0; i < n; i++)
        hf_delivery_on_cancel(deliveries[i], note_cancel, NULL);
    for (size_t i = 0; i < n; i++)
        if (hf_delivery_wait(deliveries[i], 20000) == HF_CANCEL_DRAIN)
            atomic_fetch_add(&flagged, 1);
    set_all(deliveries, n, HF_ACK); /* they go back all the same */
    end_runs(n, ctx, runs);
}

static void at_the_limit_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    atomic_store(&flagged, 0);
    atomic_store(&called_back, 0);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 2, .prefetch = SIZE_MAX}, until_cancelled);
    hf_test_jobs_add(jobs, runtime, 3 * BATCH);
    start(runtime);
    hf_test_wait_for_runs(jobs, 2 * BATCH);
    HF_TEST_OK(hf_runtime_stop(runtime, 300, &report, &err), &err);
    CU_ASSERT_EQUAL(atomic_load(&flagged), 2 * BATCH);
    CU_ASSERT_EQUAL(atomic_load(&called_back), 2 * BATCH);
    CU_ASSERT_EQUAL(report.settled, 0);
    CU_ASSERT(report.given_back >= 2 * BATCH);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 2 * BATCH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 3 * BATCH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt > 1"), jobs->kind.strategy == HF_ROW_LOCK ? 0 : 2 * BATCH);
}

static void half_before_the_limit(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    set_all(deliveries, n / 2, HF_ACK);
    begin_runs(deliveries, n, ctx, runs);
    (void)hf_delivery_wait(deliveries[n - 1], 20000);
    set_all(deliveries, n, HF_REJECT);
    end_runs(n, ctx, runs);
}

/* What was set before the limit stands, and nothing that is set after it counts. */
static void half_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .prefetch = SIZE_MAX}, half_before_the_limit);
    hf_test_jobs_add(jobs, runtime, BATCH);
    start(runtime);
    hf_test_wait_for_runs(jobs, BATCH);
    HF_TEST_OK(hf_runtime_stop(runtime, 50, &report, &err), &err);
    CU_ASSERT_EQUAL(report.settled, BATCH / 2);
    CU_ASSERT_EQUAL(report.given_back, BATCH / 2);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), BATCH / 2);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "id > 4"), BATCH / 2);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), BATCH / 2);
}

static void one_before_the_limit(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    set_all(deliveries, n, HF_ACK);
    (void)hf_delivery_wait(deliveries[0], 20000);
    set_all(deliveries, n, HF_REJECT);
    end_runs(n, ctx, runs);
}

/* The same where a batch is of one row. */
static void single_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .prefetch = SIZE_MAX, .single = true}, one_before_the_limit);
    hf_test_jobs_add(jobs, runtime, 1);
    start(runtime);
    hf_test_wait_for_runs(jobs, 1);
    hf_test_sleep_ms(50);
    HF_TEST_OK(hf_runtime_stop(runtime, 50, &report, &err), &err);
    CU_ASSERT_EQUAL(report.settled, 1);
    CU_ASSERT_EQUAL(report.given_back, 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
}

static void deaf_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .prefetch = SIZE_MAX}, at_the_gate);
    hf_test_jobs_add(jobs, runtime, BATCH);
    start(runtime);
    hf_test_wait_for_runs(jobs, BATCH);
    HF_TEST_STATUS(hf_runtime_stop(runtime, 50, &report, &err), HF_TIMEOUT, &err);
    CU_ASSERT_EQUAL(report.running, 1); /* handlers, not rows */
    hf_test_gate_open(&gate);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), BATCH);
}

static void stops(void)
{
    on_each(hf_test_kinds, hf_test_n_kinds, 1, drained_on);
    on_each(hf_test_kinds, hf_test_n_kinds, 1, at_the_limit_on);
    on_each(hf_test_kinds, hf_test_n_kinds, 1, half_on);
    on_each(hf_test_kinds, hf_test_n_kinds, 1, single_on);
    on_each(hf_test_kinds, hf_test_n_kinds, 1, deaf_on);
}

/* ---- too long ---- */

static atomic_int timed_out;

static void too_long(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add(&timed_out, hf_delivery_wait(deliveries[i], 20000) == HF_CANCEL_TIMEOUT);
    set_all(deliveries, n, HF_ACK);
    end_runs(n, ctx, runs);
}

static void timeout_on(struct hf_test_jobs *jobs)
{
    atomic_store(&timed_out, 0);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .timeout_ms = 100}, too_long);
    hf_test_jobs_add(jobs, runtime, BATCH);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&timed_out), BATCH);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.handler_timeouts"), BATCH);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), BATCH);
    stop(runtime);
}

static void handler_timeout(void)
{
    on_all(timeout_on);
}

/* ---- a lost connection ---- */

static void kill_sessions(const struct hf_test_jobs *jobs)
{
    if (jobs->kind.database == HF__POSTGRES) {
        (void)hf_test_query_int(hf_test_postgres_admin_url(),
                                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'hf-batch'");
        return;
    }
    const char *admin = hf_test_mysql_admin_url(), *last = "0", *id;
    while ((id = hf_test_query_text(admin,
                                    hf_test_format("SELECT CAST(MIN(processlist_id) AS CHAR) FROM performance_schema.session_connect_attrs "
                                                   "WHERE attr_name = 'program_name' AND attr_value = 'hf-batch' AND processlist_id > %s",
                                                   last)))) {
        hf_error err;
        (void)hf_test_try_sql(admin, hf_test_format("KILL %s", id), &err); /* it may have ended by itself */
        last = id;
    }
}

static atomic_int lost;

static void first_waits(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    bool first = hf_delivery_attempt(deliveries[0]) == 1 && hf_test_runs_of(ctx, id_of(deliveries[0])) == 0;
    begin_runs(deliveries, n, ctx, runs);
    for (size_t i = 0; i < n && first; i++)
        atomic_fetch_add(&lost, hf_delivery_wait(deliveries[i], 10000) == HF_CANCEL_LOST);
    set_all(deliveries, n, HF_ACK);
    end_runs(n, ctx, runs);
}

static void lost_on(struct hf_test_jobs *jobs)
{
    atomic_store(&lost, 0);
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1, .name = "hf-batch"}, first_waits);
    hf_test_jobs_add(jobs, runtime, BATCH);
    start(runtime);
    hf_test_wait_for_runs(jobs, BATCH);
    kill_sessions(jobs);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(atomic_load(&lost), BATCH);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.lost"), BATCH);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), BATCH);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 2 * BATCH);
}

static void lost_connection(void)
{
    const struct hf_test_kind kinds[] = {
        {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_ADVISORY_LOCK}, {HF__MYSQL, HF_ROW_LOCK}, {HF__MYSQL, HF_ADVISORY_LOCK}};
    on_each(kinds, 4, 30, lost_on);
}

/* ---- a row that the database does not let go ---- */

static void one_is_refused(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    begin_runs(deliveries, n, ctx, runs);
    set_all(deliveries, n, HF_ACK);
    for (size_t i = 0; i < n; i++)
        if (id_of(deliveries[i]) == 3) {
            hf_delivery_set_delay(deliveries[i], 100);
            if (hf_delivery_set_reason(deliveries[i], "poison", 6) == HF_OK)
                (void)hf_delivery_set_outcome(deliveries[i], HF_RETRY_AFTER);
        }
    end_runs(n, ctx, runs);
}

static bool seven_acked(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.acked") >= BATCH - 1;
}

/* Its neighbours are settled all the same, and do not run again with it. */
static void refused_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = subscribed(jobs, (struct setup){.workers = 1}, one_is_refused);
    hf_test_jobs_add(jobs, runtime, BATCH);
    hf_test_sql(jobs->url,
                hf_test_format("ALTER TABLE %s ADD CONSTRAINT no_poison CHECK (last_error IS NULL OR last_error <> 'poison')", jobs->name));
    start(runtime);
    CU_ASSERT(hf_test_wait_until(seven_acked, runtime, 10000));
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    CU_ASSERT(hf_test_stat(runtime, "subscription.0.settle_errors") >= 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), BATCH - 1);
    stop(runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 1);
    for (int64_t id = 1; id <= BATCH; id++)
        CU_ASSERT(id == 3 || hf_test_runs_of(jobs, id) == 1);
}

static void refused_row(void)
{
    const struct hf_test_kind kinds[] = {{HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__POSTGRES, HF_ADVISORY_LOCK},
                                         {HF__MYSQL, HF_ROW_LOCK},    {HF__MYSQL, HF_LEASE},    {HF__MYSQL, HF_ADVISORY_LOCK}};
    on_each(kinds, 6, 2, refused_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"every row runs once", every_row_runs_once},
        {"outcomes", outcomes},
        {"misuse", misuse},
        {"what a batch costs", cost},
        {"small pools", small_pools},
        {"stops", stops},
        {"handler timeout", handler_timeout},
        {"lost connection", lost_connection},
        {"a row that is refused", refused_row},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_batch", tests);
}
