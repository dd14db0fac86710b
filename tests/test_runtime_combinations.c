/* ctest: timeout=300 labels=e2e
 * Roles that meet: transactional handlers on tables with fifo, with partition keys and with attempts that are used up; batches whose rows
 * die, and batches of FIFO groups. */
#include <stdatomic.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/native.h"

enum { MOST_RUNS = 64, MOST_ATTEMPTS = 2 };

static struct hf_test_jobs jobs;
static struct hf_test_gate gate = HF_TEST_GATE_INIT;
static atomic_long seen[MOST_RUNS]; /* by run: what its handler read */

/* ---- a table of jobs, one for the handlers' writes, and a runtime ---- */

static const char *written_table(void)
{
    return hf_test_format("%s_done", jobs.name);
}

static int64_t written(const char *where)
{
    return hf_test_query_int(jobs.url, hf_test_format("SELECT count(*) FROM %s WHERE %s", written_table(), where));
}

static void on_each(bool keys, struct hf_test_shape shape, void (*test)(void))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (!keys && hf_test_kinds[i].strategy == HF_ADVISORY_LOCK)
            continue;
        hf_test_jobs_open_shape(&jobs, hf_test_kinds[i], 30, shape);
        hf_test_sql(jobs.url, hf_test_format("CREATE TABLE %s (job bigint, attempt bigint)", written_table()));
        test();
        hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s", written_table()));
        hf_test_jobs_close(&jobs);
    }
}

static hf_runtime *started(size_t workers, hf_handler handler, hf_batch_handler batch)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = !batch && jobs.kind.database == HF__SQLITE ? 1 : workers;
    options.poll_ms = 50;
    options.transactional = !batch;
    options.batch = batch ? 8 : 0;
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, NULL);
    hf_status status = batch ? hf_subscribe_batch(runtime, jobs.table, &options, batch, NULL, NULL, &err)
                             : hf_subscribe(runtime, jobs.table, &options, handler, NULL, NULL, &err);
    HF_TEST_OK(status, &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

/* What has been put off is not waited for: the runs are. */
static void stop_after(hf_runtime *runtime, size_t runs)
{
    hf_error err = {.status = HF_OK};
    hf_test_wait_for_runs(&jobs, runs);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    hf_test_jobs_stop(&jobs, runtime);
    hf_test_sort_runs(&jobs);
    if (jobs.n_runs != runs)
        hf_test_fail("%s: %zu runs, not %zu", hf_test_jobs_place(&jobs), jobs.n_runs, runs);
}

static int64_t id_of(const hf_delivery *delivery)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    return id;
}

/* For handlers: writes down this run through its transaction, and reads what others have written of the same group or key. */
static void write_down(hf_delivery *delivery, size_t run)
{
    enum hf__database database = jobs.kind.database;
    void *native = hf_test_delivery_native(delivery, database);
    long long id = (long long)id_of(delivery);
    const char *insert =
        hf_test_format("INSERT INTO %s VALUES (%lld, %lld)", written_table(), id, (long long)hf_delivery_attempt(delivery));
    const char *others = hf_test_format("SELECT count(*) FROM %s WHERE job <> %lld AND job %% 2 = %lld", written_table(), id, id % 2);
    bool done = native && hf_test_native_run(database, native, insert) == 0;
    if (run < MOST_RUNS)
        atomic_store(&seen[run], done ? hf_test_native_int(database, native, others) : -1);
}

/* ---- transactional and fifo ---- */

/* Row 3 is retried, which leaves it the head of its group, and row 4 is put off, which makes it the last one of its group. */
static hf_outcome in_group(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(&jobs, delivery);
    int64_t id = id_of(delivery);
    bool first = hf_delivery_attempt(delivery) == 1;
    write_down(delivery, run);
    if (id == 3 && !first)
        hf_test_gate_pass(&gate);
    hf_delivery_set_delay(delivery, 200);
    hf_test_run_end(&jobs, run);
    return first && id == 3 ? HF_RETRY : first && id == 4 ? HF_RETRY_AFTER : HF_ACK;
}

/* The runs of one group, and how many acks of the group each of them found committed. */
static void check_group(const int64_t order[5], const long found[5])
{
    size_t n = 0;
    int64_t ended_us = 0;
    for (size_t i = 0; i < jobs.n_runs; i++) {
        const struct hf_test_run *run = &jobs.runs[i];
        if (run->id % 2 != order[0] % 2)
            continue;
        if (n == 5 || run->id != order[n] || atomic_load(&seen[run->place]) != found[n] || run->begin_us < ended_us)
            hf_test_fail("%s: run %zu of its group is of row %lld, not %lld, and found %ld written, not %ld", hf_test_jobs_place(&jobs), n,
                         (long long)run->id, (long long)order[n % 5], atomic_load(&seen[run->place]), found[n % 5]);
        ended_us = run->end_us;
        n++;
    }
    CU_ASSERT_EQUAL(n, 5);
}

static void transactional_groups_on(void)
{
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = started(3, in_group, NULL);
    hf_test_jobs_add_groups(&jobs, runtime, 8, 2);
    hf_test_gate_await(&gate, 1);
    CU_ASSERT_EQUAL(written("job = 1"), 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "id = 1"), 0);
    CU_ASSERT_EQUAL(written("job = 3"), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "id IN (3, 5, 7)"), 3);
    CU_ASSERT_EQUAL(hf_test_runs_of(&jobs, 5) + hf_test_runs_of(&jobs, 7), 0);
    hf_test_gate_open(&gate);
    stop_after(runtime, 10);
    check_group((const int64_t[]){1, 3, 3, 5, 7}, (const long[]){0, 1, 1, 2, 3});
    check_group((const int64_t[]){2, 4, 6, 8, 4}, (const long[]){0, 1, 1, 2, 3});
    CU_ASSERT_EQUAL(written("1 = 1"), 8);
    CU_ASSERT_EQUAL(written("(job IN (3, 4) AND attempt = 2) OR (job NOT IN (3, 4) AND attempt = 1)"), 8);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "1 = 1"), 0);
}

static void transactional_groups(void)
{
    on_each(false, (struct hf_test_shape){.columns = ", \"group\": \"grp\"", .settings = ", \"fifo\": true"}, transactional_groups_on);
}

/* ---- transactional and partition_key ---- */

/* Row 3 is retried, for which its key does not wait. */
static hf_outcome of_key(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(&jobs, delivery);
    write_down(delivery, run);
    hf_test_gate_pass(&gate);
    hf_test_run_end(&jobs, run);
    return id_of(delivery) == 3 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

static void add_keys(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_job list[8];
    for (size_t i = 0; i < 8; i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].partition_key = i % 2 ? "even" : "odd";
    }
    HF_TEST_OK(hf_enqueue(runtime, jobs.table, list, 8, NULL, &err), &err);
}

/* First attempts in the order of the ids, one run at a time, and each finds what the acks of its key before it have written. */
static void check_key(int64_t parity)
{
    int64_t latest = 0, ended_us = 0;
    long acked = 0;
    for (size_t i = 0; i < jobs.n_runs; i++) {
        const struct hf_test_run *run = &jobs.runs[i];
        bool first = run->attempt == 1;
        if (run->id % 2 != parity)
            continue;
        if ((first && run->id <= latest) || run->begin_us < ended_us || atomic_load(&seen[run->place]) != acked)
            hf_test_fail("%s: row %lld ran after row %lld of its key, and found %ld written, not %ld", hf_test_jobs_place(&jobs),
                         (long long)run->id, (long long)latest, atomic_load(&seen[run->place]), acked);
        latest = first ? run->id : latest;
        ended_us = run->end_us;
        acked += !(run->id == 3 && first);
    }
    CU_ASSERT_EQUAL(acked, 4);
}

static void transactional_keys_on(void)
{
    size_t at_once = jobs.kind.database == HF__SQLITE ? 1 : 2; /* a worker for each key, and the third has none */
    hf_test_gate_shut(&gate);
    hf_runtime *runtime = started(3, of_key, NULL);
    add_keys(runtime);
    hf_test_gate_await(&gate, at_once);
    CU_ASSERT_EQUAL(written("1 = 1"), 0);
    CU_ASSERT_EQUAL(hf_test_n_runs(&jobs), at_once);
    hf_test_gate_open(&gate);
    stop_after(runtime, 9);
    check_key(0);
    check_key(1);
    CU_ASSERT_EQUAL(written("1 = 1"), 8);
    CU_ASSERT_EQUAL(written("job = 3 AND attempt = 2"), 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "1 = 1"), 0);
}

static void transactional_keys(void)
{
    on_each(true, (struct hf_test_shape){.columns = ", \"partition_key\": \"pk\""}, transactional_keys_on);
}

/* ---- where dead letters go ---- */

static void on_each_place(void (*test)(void))
{
    static const char *const settings[] = {", \"max_attempts\": 2, \"dead_letter\": { \"group\": \"dead\" }", ", \"max_attempts\": 2"};
    for (size_t i = 0; i < 2; i++)
        on_each(true, (struct hf_test_shape){.columns = ", \"group\": \"grp\"", .settings = settings[i], .dead_table = i == 1}, test);
}

static int64_t dead(const char *where)
{
    const char *from =
        jobs.dead_table ? hf_test_format("%s_dead WHERE", jobs.name) : hf_test_format("%s WHERE grp = 'dead' AND", jobs.name);
    return hf_test_query_int(jobs.url, hf_test_format("SELECT count(*) FROM %s (%s)", from, where));
}

/* These are dead, each of them once and in one place, and nothing else is left. */
static void check_dead(int64_t n, const char *where)
{
    CU_ASSERT_EQUAL(dead("1 = 1"), n);
    CU_ASSERT_EQUAL(dead(where), n);
    CU_ASSERT_EQUAL(dead("attempt = 1"), n);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "1 = 1"), jobs.dead_table ? 0 : n);
    if (jobs.kind.strategy == HF_LEASE)
        CU_ASSERT_EQUAL(dead("locked_until IS NULL"), n);
}

/* ---- transactional, and the attempts are used up ---- */

static atomic_int settled_by_call;

/* Row 4 settles by call. */
static hf_outcome fails(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    size_t run = hf_test_run_begin(&jobs, delivery);
    bool last = hf_delivery_attempt(delivery) == MOST_ATTEMPTS;
    int64_t id = id_of(delivery);
    hf_outcome outcome = last && id == 1 ? HF_REJECT : last && id == 2 ? HF_RETRY_AFTER : last && id == 5 ? HF_ACK : HF_RETRY;
    hf_error err;
    write_down(delivery, run);
    (void)!hf_delivery_set_reason(delivery, last ? "last" : "first", last ? 4 : 5);
    hf_test_run_end(&jobs, run);
    if (id == 4 && hf_delivery_settle(delivery, outcome, &err) == HF_OK)
        atomic_fetch_add(&settled_by_call, 1);
    return outcome;
}

static void transactional_deaths_on(void)
{
    atomic_store(&settled_by_call, 0);
    hf_runtime *runtime = started(2, fails, NULL);
    hf_test_jobs_add(&jobs, runtime, 5);
    hf_test_wait_for_runs(&jobs, 10);
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.dead"), 4);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 1);
    stop_after(runtime, 10);
    CU_ASSERT_EQUAL(atomic_load(&settled_by_call), 2);
    for (size_t i = 0; i < jobs.n_runs; i++)
        CU_ASSERT(atomic_load(&seen[i]) >= 0); /* it had written */
    CU_ASSERT_EQUAL(written("1 = 1"), 1);
    CU_ASSERT_EQUAL(written("job = 5 AND attempt = 2"), 1);
    check_dead(4, "id IN (1, 2, 3, 4) AND last_error = 'last'");
}

static void transactional_deaths(void)
{
    on_each_place(transactional_deaths_on);
}

/* ---- batches whose rows die ---- */

static atomic_int calls, most_rows, twice_in_group, unordered;

static void note_batch(hf_delivery *const *deliveries, size_t n)
{
    int most = atomic_load(&most_rows);
    atomic_fetch_add(&calls, 1);
    while ((int)n > most && !atomic_compare_exchange_weak(&most_rows, &most, (int)n))
        continue;
    for (size_t i = 1; i < n; i++) {
        atomic_fetch_add(&unordered, id_of(deliveries[i - 1]) >= id_of(deliveries[i]));
        for (size_t j = 0; j < i; j++) {
            const char *a = hf_delivery_group(deliveries[i]), *b = hf_delivery_group(deliveries[j]);
            atomic_fetch_add(&twice_in_group, a && b && strcmp(a, b) == 0);
        }
    }
}

static void reset_batches(void)
{
    atomic_store(&calls, 0);
    atomic_store(&most_rows, 0);
    atomic_store(&twice_in_group, 0);
    atomic_store(&unordered, 0);
}

/* Of four rows one is acked, one is acked by its second run, one is used up, one is rejected. */
static hf_outcome fate(const hf_delivery *delivery)
{
    switch (id_of(delivery) % 4) {
    case 0:
        return HF_REJECT;
    case 1:
        return HF_ACK;
    case 2:
        return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
    default:
        return HF_RETRY;
    }
}

static void some_die(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    (void)ctx;
    note_batch(deliveries, n);
    for (size_t i = 0; i < n; i++) {
        size_t run = hf_test_run_begin(&jobs, deliveries[i]);
        const char *reason = hf_test_format("row %lld", (long long)id_of(deliveries[i]));
        (void)!hf_delivery_set_reason(deliveries[i], reason, strlen(reason));
        (void)hf_delivery_set_outcome(deliveries[i], fate(deliveries[i]));
        hf_test_run_end(&jobs, run);
    }
}

/* Rows 9 and 10 have been used up by runs that crashed: they take no place in a batch. */
static void batch_deaths_on(void)
{
    hf_error err = {.status = HF_OK};
    reset_batches();
    hf_runtime *filler = hf_test_jobs_runtime(&jobs, NULL);
    hf_test_jobs_add(&jobs, filler, 10);
    HF_TEST_OK(hf_runtime_close(filler), NULL);
    hf_test_sql(jobs.url, hf_test_format("UPDATE %s SET attempt = 3 WHERE id IN (9, 10)", jobs.name));
    hf_runtime *runtime = started(1, NULL, some_die);
    hf_test_wait_for_runs(&jobs, 12);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 4);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 4);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.rejected"), 2);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.dead"), 6);
    stop_after(runtime, 12);
    for (int64_t id = 1; id <= 10; id++)
        CU_ASSERT_EQUAL(hf_test_runs_of(&jobs, id), id > 8 ? 0 : id % 4 >= 2 ? 2 : 1);
    CU_ASSERT_EQUAL(atomic_load(&most_rows), 8);
    CU_ASSERT_EQUAL(atomic_load(&unordered), 0);
    check_dead(6, "id IN (3, 4, 7, 8, 9, 10)");
    CU_ASSERT_EQUAL(dead("(id = 3 AND last_error = 'row 3') OR (id = 4 AND last_error = 'row 4') OR (id = 7 AND last_error = 'row 7') OR "
                         "(id = 8 AND last_error = 'row 8')"),
                    4);
}

static void batch_deaths(void)
{
    on_each_place(batch_deaths_on);
}

/* ---- batches of FIFO groups ---- */

/* Rows 4 and 5 are retried, which leaves them the heads of their groups. */
static void heads(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    size_t runs[8];
    (void)ctx;
    note_batch(deliveries, n);
    for (size_t i = 0; i < n && i < 8; i++) {
        int64_t id = id_of(deliveries[i]);
        bool again = hf_delivery_attempt(deliveries[i]) == 1 && (id == 4 || id == 5);
        runs[i] = hf_test_run_begin(&jobs, deliveries[i]);
        (void)hf_delivery_set_outcome(deliveries[i], again ? HF_RETRY : HF_ACK);
    }
    for (size_t i = 0; i < n && i < 8; i++)
        hf_test_run_end(&jobs, runs[i]);
}

/* Rows 1 to 12 in three groups: each group's in the order of its rows, the retried one twice in its turn, and no two at a time. */
static void check_order(void)
{
    for (int64_t group = 0; group < 3; group++) {
        int64_t latest = 0, ended_us = 0;
        size_t n = 0;
        for (size_t i = 0; i < jobs.n_runs; i++) {
            const struct hf_test_run *run = &jobs.runs[i];
            if (run->id > 12 || run->id % 3 != group)
                continue;
            if ((latest && run->id != latest + (run->attempt == 1 ? 3 : 0)) || run->begin_us < ended_us)
                hf_test_fail("%s: row %lld ran after row %lld of its group", hf_test_jobs_place(&jobs), (long long)run->id,
                             (long long)latest);
            latest = run->id;
            ended_us = run->end_us;
            n++;
        }
        CU_ASSERT_EQUAL(n, group == 0 ? 4 : 5);
    }
}

/* On MySQL and MariaDB a row lock's transaction guards one group. */
static void batch_groups_on(void)
{
    bool one_group = jobs.kind.database == HF__MYSQL && jobs.kind.strategy == HF_ROW_LOCK;
    reset_batches();
    hf_runtime *filler = hf_test_jobs_runtime(&jobs, NULL);
    hf_test_jobs_add_groups(&jobs, filler, 12, 3);
    hf_test_jobs_add(&jobs, filler, 4); /* of no group: side by side */
    HF_TEST_OK(hf_runtime_close(filler), NULL);
    hf_runtime *runtime = started(2, NULL, heads);
    stop_after(runtime, 18);
    check_order();
    CU_ASSERT_EQUAL(atomic_load(&twice_in_group), 0);
    CU_ASSERT_EQUAL(atomic_load(&unordered), 0);
    if (!one_group)
        CU_ASSERT(atomic_load(&most_rows) >= 3);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "1 = 1"), 0);
}

static void batch_groups(void)
{
    on_each(false, (struct hf_test_shape){.columns = ", \"group\": \"grp\"", .settings = ", \"fifo\": true"}, batch_groups_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"transactional and fifo", transactional_groups},
        {"transactional and partition keys", transactional_keys},
        {"transactional, and the attempts are used up", transactional_deaths},
        {"batches whose rows die", batch_deaths},
        {"batches of FIFO groups", batch_groups},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_combinations", tests);
}
