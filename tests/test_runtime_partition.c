/* ctest: timeout=300 labels=e2e
 * Partition keys: rows of one key in claim order on one worker at a time, other keys go on; under every strategy of every database. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/session.h"

static void on_each(const struct hf_test_kind *kinds, size_t n, int lease_seconds, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < n; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open_shape(&jobs, kinds[i], lease_seconds, (struct hf_test_shape){.columns = ", \"partition_key\": \"pk\""});
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    on_each(hf_test_kinds, hf_test_n_kinds, 30, test);
}

/* ---- rows and their keys ---- */

/* The key of the i-th row, from 0; NULL: none. */
typedef const char *key_fn(size_t i);

static const char **keys; /* of the rows, by id - 1 */
static size_t n_keys;

static void forget_keys(void)
{
    free(keys);
    keys = NULL;
    n_keys = 0;
}

static void add(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t n, key_fn *key_of)
{
    hf_error err = {.status = HF_OK};
    hf_job *list = calloc(n, sizeof *list);
    const char **all = realloc(keys, (n_keys + n) * sizeof *all);
    CU_ASSERT_FATAL(list && all);
    keys = all;
    for (size_t i = 0; i < n; i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].partition_key = keys[n_keys++] = key_of(i);
    }
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, n, NULL, &err), &err);
    free(list);
}

static const char *key_of_run(const struct hf_test_run *run)
{
    return run->id >= 1 && (size_t)run->id <= n_keys ? keys[run->id - 1] : NULL;
}

static int by_key_and_time(const void *left, const void *right)
{
    const struct hf_test_run *a = left, *b = right;
    const char *a_key = key_of_run(a), *b_key = key_of_run(b);
    int order = strcmp(a_key ? a_key : "", b_key ? b_key : "");
    if (order != 0)
        return order;
    return a->begin_us != b->begin_us ? (a->begin_us < b->begin_us ? -1 : 1) : a->id < b->id ? -1 : a->id > b->id;
}

/* Of each key: no two runs overlap (unless they were in one batch), and first attempts are in order. */
static void check_keys(struct hf_test_jobs *jobs, bool batches)
{
    int64_t latest = 0;
    qsort(jobs->runs, jobs->n_runs, sizeof *jobs->runs, by_key_and_time);
    for (size_t i = 0; i < jobs->n_runs; i++) {
        const struct hf_test_run *run = &jobs->runs[i], *before = i > 0 ? run - 1 : NULL;
        bool same = before && key_of_run(run) && key_of_run(before) && strcmp(key_of_run(run), key_of_run(before)) == 0;
        if (!key_of_run(run))
            continue;
        latest = same ? latest : 0;
        if (same && !batches && (before->end_us == 0 || before->end_us > run->begin_us))
            hf_test_fail("%d/%d: rows %lld and %lld of key %s ran at the same time", jobs->kind.database, jobs->kind.strategy,
                         (long long)before->id, (long long)run->id, key_of_run(run));
        if (run->attempt == 1 && run->id < latest)
            hf_test_fail("%d/%d: row %lld of key %s ran after row %lld", jobs->kind.database, jobs->kind.strategy, (long long)run->id,
                         key_of_run(run), (long long)latest);
        if (run->attempt == 1)
            latest = run->id;
    }
}

/* ---- runtimes ---- */

static hf_runtime *open_runtime(struct hf_test_jobs *jobs, hf_subscription_options options, hf_handler handler, hf_batch_handler batch)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    forget_keys();
    if (handler)
        HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
    else
        HF_TEST_OK(hf_subscribe_batch(runtime, jobs->table, &options, batch, jobs, NULL, &err), &err);
    return runtime;
}

static hf_subscription_options with_workers(size_t workers)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    return options;
}

static void start(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
}

static void wait_empty(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 60000, &err), &err);
}

static void stop(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.in_work"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.ready"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

/* ---- order under load ---- */

static const char *forty_keys(size_t i)
{
    return i % 13 == 0 ? NULL : hf_test_format("key %zu", i * 7919 % 40);
}

static hf_outcome now_and_then_again(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_sleep_ms(id % 3);
    hf_test_run_end(ctx, run);
    return id % 17 == 0 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void load_on(struct hf_test_jobs *jobs)
{
    enum { N = 400 };
    hf_runtime *runtime = open_runtime(jobs, with_workers(8), now_and_then_again, NULL);
    add(jobs, runtime, N, forty_keys);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.given_back"), 0);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, N + N / 17);
    check_keys(jobs, false);
}

static void order_under_load(void)
{
    on_all(load_on);
}

/* ---- batches ---- */

enum { BATCH = 6 };

enum { IN_BATCHES = 150 };

static atomic_int mixed; /* batches that had several rows of one key */
static atomic_int n_batches;
static int batch_of[IN_BATCHES + 1]; /* by id; each row runs once */

static bool same_key(const hf_delivery *a, const hf_delivery *b)
{
    const char *left = hf_delivery_partition_key(a), *right = hf_delivery_partition_key(b);
    return left && right && strcmp(left, right) == 0;
}

static void ack_batch(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[BATCH];
    bool twice = false;
    int batch = atomic_fetch_add(&n_batches, 1);
    for (size_t i = 0; i < n; i++) {
        int64_t id = 0;
        (void)hf_delivery_id_int(deliveries[i], &id);
        runs[i] = hf_test_run_begin(ctx, deliveries[i]);
        batch_of[id] = batch;
        for (size_t j = 0; j < i; j++)
            twice = twice || same_key(deliveries[i], deliveries[j]);
        (void)hf_delivery_set_outcome(deliveries[i], HF_ACK);
    }
    atomic_fetch_add(&mixed, twice);
    hf_test_sleep_ms(2);
    for (size_t i = 0; i < n; i++)
        hf_test_run_end(ctx, runs[i]);
}

static const char *three_keys(size_t i)
{
    return hf_test_format("key %zu", i % 3);
}

/* Of one key, no two batches at once. */
static void check_batches_apart(struct hf_test_jobs *jobs)
{
    qsort(jobs->runs, jobs->n_runs, sizeof *jobs->runs, by_key_and_time);
    for (size_t i = 0; i < jobs->n_runs; i++)
        for (size_t j = i + 1; j < jobs->n_runs; j++) {
            const struct hf_test_run *a = &jobs->runs[i], *b = &jobs->runs[j];
            if (strcmp(key_of_run(a), key_of_run(b)) != 0 || b->begin_us >= a->end_us)
                break;
            if (batch_of[a->id] != batch_of[b->id])
                hf_test_fail("%d/%d: rows %lld and %lld of key %s ran in two batches at once", jobs->kind.database, jobs->kind.strategy,
                             (long long)a->id, (long long)b->id, key_of_run(a));
        }
}

static void batches_on(struct hf_test_jobs *jobs)
{
    enum { N = IN_BATCHES };
    hf_subscription_options options = with_workers(4);
    options.batch = BATCH;
    atomic_store(&mixed, 0);
    hf_runtime *runtime = open_runtime(jobs, options, NULL, ack_batch);
    add(jobs, runtime, N, three_keys);
    start(runtime);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), N);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    CU_ASSERT(atomic_load(&mixed) > 0);
    check_keys(jobs, true);
    check_batches_apart(jobs);
}

static void batches(void)
{
    on_all(batches_on);
}

/* ---- one busy key in front ---- */

enum { HOT = 2000, OTHERS = 200 };

static struct hf_test_gate gate = HF_TEST_GATE_INIT;

static const char *hot_first(size_t i)
{
    return i < HOT ? "hot" : hf_test_format("key %zu", i - HOT);
}

static hf_outcome hot_waits(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    if (strcmp(hf_delivery_partition_key(delivery), "hot") == 0)
        hf_test_gate_pass(&gate);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool others_done(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.acked") >= OTHERS;
}

static bool hundred_more(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.acked") >= OTHERS + 100;
}

static void hot_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), hot_waits, NULL);
    add(jobs, runtime, HOT + OTHERS, hot_first);
    start(runtime);
    if (!hf_test_wait_until(others_done, runtime, 30000)) {
        hf_test_gate_open(&gate);
        hf_test_fail("%d/%d: a busy key held up the others: %g done", jobs->kind.database, jobs->kind.strategy,
                     hf_test_stat(runtime, "subscription.0.acked"));
    }
    CU_ASSERT_EQUAL(hf_test_gate_waiting(&gate), 1);
    hf_test_gate_open(&gate);
    CU_ASSERT(hf_test_wait_until(hundred_more, runtime, 30000));
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    stop(runtime);
    check_keys(jobs, false);
}

static void one_busy_key_in_front(void)
{
    on_all(hot_on);
}

/* ---- a row that is put back ---- */

static const char *one_key(size_t i)
{
    (void)i;
    return "one";
}

static hf_outcome first_again_later(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    bool later = strcmp(hf_delivery_id(delivery), "1") == 0 && hf_delivery_attempt(delivery) == 1;
    hf_delivery_set_delay(delivery, 1000);
    hf_test_run_end(ctx, run);
    return later ? HF_RETRY_AFTER : HF_ACK;
}

static bool five_acked(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.acked") >= 5;
}

static void put_back_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = open_runtime(jobs, with_workers(3), first_again_later, NULL);
    add(jobs, runtime, 5, one_key);
    start(runtime);
    CU_ASSERT(hf_test_wait_until(five_acked, runtime, 10000));
    stop(runtime);
    CU_ASSERT_EQUAL_FATAL(jobs->n_runs, 6);
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(jobs->runs[i].id, (int64_t)i + 1);
    CU_ASSERT_EQUAL(jobs->runs[5].id, 1);
}

static void retry_does_not_hold_back(void)
{
    on_all(put_back_on);
}

/* ---- settled, and still running ---- */

static hf_outcome settle_and_run_on(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_status status = hf_delivery_settle(delivery, HF_ACK, NULL);
    hf_test_sleep_ms(30);
    hf_test_run_end(ctx, run);
    return status == HF_OK ? HF_ACK : HF_REJECT;
}

static void settled_on(struct hf_test_jobs *jobs)
{
    hf_runtime *runtime = open_runtime(jobs, with_workers(3), settle_and_run_on, NULL);
    add(jobs, runtime, 6, one_key);
    start(runtime);
    wait_empty(runtime);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 6);
    check_keys(jobs, false);
}

static void settled_and_still_running(void)
{
    on_all(settled_on);
}

/* ---- rows without a key ---- */

static hf_outcome at_the_gate(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_gate_pass(&gate);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static const char *no_key(size_t i)
{
    (void)i;
    return NULL;
}

static void keyless_on(struct hf_test_jobs *jobs)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), at_the_gate, NULL);
    add(jobs, runtime, 4, no_key);
    start(runtime);
    hf_test_gate_await(&gate, 4);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    stop(runtime);
}

static void rows_without_a_key(void)
{
    on_all(keyless_on);
}

/* ---- all kinds of keys ---- */

static const char *const odd_keys[] = {"",           "NULL", "null",        "{}",      "a,b",
                                       "\"quoted\"", "it's", "back\\slash", " blank ", "\xc3\xa4 \xe2\x82\xac"};
enum { ODD = sizeof odd_keys / sizeof odd_keys[0] };

static const char *odd_key(size_t i)
{
    return odd_keys[i % ODD];
}

static hf_outcome check_key(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    const char *key = hf_delivery_partition_key(delivery);
    (void)hf_delivery_id_int(delivery, &id);
    if (!key || strcmp(key, keys[id - 1]) != 0)
        return HF_REJECT;
    return at_the_gate(delivery, ctx);
}

/* All of them side by side, and the second row of each after its first, whatever the workers that are free. */
static void side_by_side(struct hf_test_jobs *jobs, size_t n, key_fn *key_of)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(n + 4), check_key, NULL);
    add(jobs, runtime, 2 * n, key_of);
    start(runtime);
    hf_test_gate_await(&gate, n);
    hf_test_sleep_ms(200);
    CU_ASSERT_EQUAL(hf_test_gate_waiting(&gate), n);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 2 * (double)n);
    stop(runtime);
    check_keys(jobs, false);
}

static void odd_on(struct hf_test_jobs *jobs)
{
    side_by_side(jobs, ODD, odd_key);
}

static const char *number(size_t i)
{
    static const char *const numbers[] = {"-9000000000000000000", "0", "7", "123456789012"};
    return numbers[i % 4];
}

static void numbers_on(struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url,
                hf_test_format(jobs->kind.database == HF__POSTGRES ? "ALTER TABLE %s ALTER COLUMN pk TYPE bigint USING pk::bigint"
                                                                   : "ALTER TABLE %s MODIFY COLUMN pk BIGINT",
                               jobs->name));
    side_by_side(jobs, 4, number);
}

static const char *uuid(size_t i)
{
    return hf_test_format("0f0e0d0c-0b0a-4908-8706-05040302010%zu", i % 3);
}

static void uuids_on(struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format(jobs->kind.database == HF__POSTGRES ? "ALTER TABLE %s ALTER COLUMN pk TYPE uuid USING pk::uuid"
                                                                              : "ALTER TABLE %s MODIFY COLUMN pk UUID",
                                          jobs->name));
    side_by_side(jobs, 3, uuid);
}

/* On SQLite no connections are held for them. */
enum { MANY = 260 };

static const char *many_keys(size_t i)
{
    return hf_test_format("key %zu", i % MANY);
}

static void many_on(struct hf_test_jobs *jobs)
{
    side_by_side(jobs, MANY, many_keys);
}

static void all_kinds_of_keys(void)
{
    const struct hf_test_kind servers[] = {{HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__POSTGRES, HF_ADVISORY_LOCK},
                                           {HF__MYSQL, HF_ROW_LOCK},    {HF__MYSQL, HF_LEASE},    {HF__MYSQL, HF_ADVISORY_LOCK}};
    on_all(odd_on);
    on_each(servers, 6, 30, numbers_on);
    on_each(servers, 6, 30, uuids_on);
    on_each(hf_test_kinds, 2, 30, many_on);
}

/* ---- leases that wait for their turn ---- */

static hf_outcome longer_than_its_lease(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(1200);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static bool three_ready(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.ready") >= 3;
}

/* Four rows of one key in one claim, on leases of three seconds: those that wait are renewed, and a stop drains them. */
static void waiting_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), longer_than_its_lease, NULL);
    add(jobs, runtime, 4, one_key);
    start(runtime);
    CU_ASSERT(hf_test_wait_until(three_ready, runtime, 30000));
    int64_t begun_ms = hf_test_now_ms();
    HF_TEST_OK(hf_runtime_stop(runtime, 60000, &report, &err), &err);
    CU_ASSERT(hf_test_now_ms() - begun_ms < 40000);
    CU_ASSERT_EQUAL(report.settled, 4);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 4);
    check_keys(jobs, false);
}

/* At the limit they go back, uncounted. */
static void waiting_at_the_limit_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), at_the_gate, NULL);
    add(jobs, runtime, 4, one_key);
    start(runtime);
    CU_ASSERT(hf_test_wait_until(three_ready, runtime, 30000));
    HF_TEST_STATUS(hf_runtime_stop(runtime, 50, NULL, &err), HF_TIMEOUT, &err);
    hf_test_gate_open(&gate);
    stop(runtime);
    CU_ASSERT_EQUAL(jobs->n_runs, 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "attempt = 1"), 3);
}

/* Rows of one key that wait take no room from others. */
static const char *then_others(size_t i)
{
    return i < 20 ? "one" : hf_test_format("key %zu", i);
}

static void room_on(struct hf_test_jobs *jobs)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), at_the_gate, NULL);
    add(jobs, runtime, 23, then_others);
    start(runtime);
    hf_test_gate_await(&gate, 4);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    stop(runtime);
    check_keys(jobs, false);
}

static bool second_row_lost(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.lease_lost") >= 1;
}

/* A row that waits behind another of its key loses its lease: those behind it do not overtake it. */
static void lost_on(struct hf_test_jobs *jobs)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(4), at_the_gate, NULL);
    add(jobs, runtime, 4, one_key);
    start(runtime);
    hf_test_gate_await(&gate, 1);
    CU_ASSERT(hf_test_wait_until(three_ready, runtime, 30000));
    hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET locked_until = '2099-01-01 00:00:00.000000' WHERE id = 2", jobs->name));
    CU_ASSERT(hf_test_wait_until(second_row_lost, runtime, 30000));
    hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET locked_until = NULL WHERE id = 2", jobs->name));
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    stop(runtime);
    hf_test_sort_runs(jobs);
    CU_ASSERT_EQUAL_FATAL(jobs->n_runs, 4);
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(jobs->runs[i].id, (int64_t)i + 1);
        CU_ASSERT_EQUAL(jobs->runs[i].attempt, i == 1 ? 2 : 1);
    }
    check_keys(jobs, false);
}

static void leases_that_wait(void)
{
    const struct hf_test_kind leases[] = {{HF__SQLITE, HF_LEASE}, {HF__POSTGRES, HF_LEASE}, {HF__MYSQL, HF_LEASE}};
    on_each(leases, 3, 3, waiting_on);
    on_each(leases, 3, 30, waiting_at_the_limit_on);
    on_each(leases, 3, 30, room_on);
    on_each(leases, 3, 4, lost_on);
}

/* ---- a key that is free again is claimed at once ---- */

static hf_outcome quick(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void at_once_on(struct hf_test_jobs *jobs)
{
    hf_subscription_options options = with_workers(3);
    options.poll_ms = 3600000;
    options.prefetch = SIZE_MAX;
    hf_runtime *runtime = open_runtime(jobs, options, quick, NULL);
    add(jobs, runtime, 60, three_keys);
    start(runtime);
    int64_t begun_ms = hf_test_now_ms();
    wait_empty(runtime);
    CU_ASSERT(hf_test_now_ms() - begun_ms < 50000);
    stop(runtime);
    check_keys(jobs, false);
}

static void free_keys_are_claimed_at_once(void)
{
    on_all(at_once_on);
}

/* ---- a column whose collation takes different keys for one ---- */

/* The first of them alone, so that the claims of the others have it to leave out. */
static const char *first_key;

static const char *only_first(size_t i)
{
    (void)i;
    return first_key;
}

/* Two rows of a key, and behind them two of each other key, which run beside it, in order. */
static void apart_on(struct hf_test_jobs *jobs, size_t n, key_fn *others)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, with_workers(n + 3), check_key, NULL);
    start(runtime);
    add(jobs, runtime, 2, only_first);
    hf_test_gate_await(&gate, 1);
    add(jobs, runtime, 2 * n, others);
    hf_test_gate_await(&gate, 1 + n);
    hf_test_sleep_ms(200);
    CU_ASSERT_EQUAL(hf_test_gate_waiting(&gate), 1 + n);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.given_back"), 0);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 2 * (double)n + 2);
    stop(runtime);
    check_keys(jobs, false);
}

static const char *in_other_case(size_t i)
{
    static const char *const alike[] = {"KEY", "Key"};
    return alike[i % 2];
}

static void collation_on(struct hf_test_jobs *jobs, const char *change, key_fn *others)
{
    if (jobs->kind.database == HF__SQLITE)
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s DROP COLUMN pk", jobs->name));
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s %s", jobs->name, change));
    first_key = "key";
    apart_on(jobs, 2, others);
}

static void case_on(struct hf_test_jobs *jobs)
{
    static const char *const changes[] = {
        [HF__POSTGRES] = "ALTER COLUMN pk TYPE text COLLATE holdfast_no_case",
        [HF__MYSQL] = "MODIFY COLUMN pk VARCHAR(255) COLLATE utf8mb4_general_ci",
        [HF__SQLITE] = "ADD COLUMN pk TEXT COLLATE NOCASE",
    };
    if (jobs->kind.database == HF__POSTGRES)
        hf_test_sql(jobs->url, "CREATE COLLATION IF NOT EXISTS holdfast_no_case (provider = icu, locale = 'und-u-ks-level2', "
                               "deterministic = false)");
    collation_on(jobs, changes[jobs->kind.database], in_other_case);
}

static const char *with_accents(size_t i)
{
    static const char *const alike[] = {"k\xc3\xa9y", "k\xc3\xa8y "};
    return alike[i % 2];
}

/* Keys of another character set than the connection's, with accents and blanks. */
static void latin_on(struct hf_test_jobs *jobs)
{
    collation_on(jobs, "MODIFY COLUMN pk VARCHAR(255) CHARACTER SET latin1", with_accents);
}

static const char *padded(size_t i)
{
    static const char *const alike[] = {"KEY  ", "Key  "};
    return alike[i % 2];
}

/* Keys that are read with blanks that a cast to text would strip. */
static void padded_on(struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s ALTER COLUMN pk TYPE character(5)", jobs->name));
    first_key = "key  ";
    apart_on(jobs, 2, padded);
}

static void keys_that_are_alike(void)
{
    const struct hf_test_kind mysql[] = {{HF__MYSQL, HF_ROW_LOCK}, {HF__MYSQL, HF_LEASE}, {HF__MYSQL, HF_ADVISORY_LOCK}};
    const struct hf_test_kind postgres[] = {{HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__POSTGRES, HF_ADVISORY_LOCK}};
    on_all(case_on);
    on_each(mysql, 3, 30, latin_on);
    on_each(postgres, 3, 30, padded_on);
}

/* ---- more keys in work than a claim can leave out ---- */

enum { MOST = 1024, WIDE = 200, WIDE_KEYS = 2400 };

static const char *wide_keys(size_t i)
{
    return hf_test_format("key %zu", i % WIDE_KEYS);
}

static void batch_at_the_gate(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    (void)ctx;
    hf_test_gate_pass(&gate);
    for (size_t i = 0; i < n; i++)
        (void)hf_delivery_set_outcome(deliveries[i], HF_ACK);
}

static bool more_than_most(void *runtime)
{
    return hf_test_stat(runtime, "subscription.0.in_work") > MOST;
}

/* Nothing is claimed, and no row goes to and fro, until some of them are free; then at once. */
static void full_on(struct hf_test_jobs *jobs)
{
    hf_subscription_options options = with_workers(12);
    options.batch = WIDE;
    options.poll_ms = 3600000;
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = open_runtime(jobs, options, NULL, batch_at_the_gate);
    add(jobs, runtime, 2 * WIDE_KEYS, wide_keys);
    start(runtime);
    CU_ASSERT(hf_test_wait_until(more_than_most, runtime, 20000));
    hf_test_sleep_ms(200);
    double claims = hf_test_stat(runtime, "subscription.0.claims"), claimed = hf_test_stat(runtime, "subscription.0.claimed");
    hf_test_sleep_ms(500);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.claims"), claims);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.claimed"), claimed);
    CU_ASSERT(claimed < 2 * MOST);
    hf_test_gate_open(&gate);
    wait_empty(runtime);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 2 * WIDE_KEYS);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.given_back"), 0);
    stop(runtime);
}

static void more_keys_than_a_claim_names(void)
{
    const struct hf_test_kind kinds[] = {
        {HF__POSTGRES, HF_ROW_LOCK}, {HF__MYSQL, HF_ROW_LOCK}, {HF__SQLITE, HF_LEASE}, {HF__POSTGRES, HF_LEASE}, {HF__MYSQL, HF_LEASE}};
    on_each(kinds, 5, 30, full_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"order under load", order_under_load},
        {"batches", batches},
        {"one busy key in front", one_busy_key_in_front},
        {"retry does not hold back", retry_does_not_hold_back},
        {"settled and still running", settled_and_still_running},
        {"rows without a key", rows_without_a_key},
        {"all kinds of keys", all_kinds_of_keys},
        {"leases that wait", leases_that_wait},
        {"free keys are claimed at once", free_keys_are_claimed_at_once},
        {"keys that are alike", keys_that_are_alike},
        {"more keys than a claim names", more_keys_than_a_claim_names},
        CU_TEST_INFO_NULL,
    };
    int status = hf_test_main(argc, argv, "runtime_partition", tests);
    forget_keys();
    return status;
}
