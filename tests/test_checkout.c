/* ctest: timeout=600 labels=e2e
 * hf_checkout: accounted for, bounded in time, reset when it comes back, and never the end of a pool. */
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/native.h"

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open(&jobs, hf_test_kinds[i], 30);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static void on(struct hf_test_kind kind, void (*test)(struct hf_test_jobs *jobs))
{
    struct hf_test_jobs jobs;
    hf_test_jobs_open(&jobs, kind, 30);
    test(&jobs);
    hf_test_jobs_close(&jobs);
}

static const struct hf_test_kind row_lock = {HF__POSTGRES, HF_ROW_LOCK}, lease = {HF__POSTGRES, HF_LEASE};

static hf_runtime *runtime_with(struct hf_test_jobs *jobs, size_t pool)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.pool_size = pool;
    return hf_test_jobs_runtime(jobs, &options);
}

static hf_runtime *started(struct hf_test_jobs *jobs, size_t pool, size_t workers, size_t declared, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.handler_connections = declared;
    options.poll_ms = 50;
    hf_runtime *runtime = runtime_with(jobs, pool);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void close_runtime(hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static double lent(hf_runtime *runtime)
{
    return hf_test_stat(runtime, "pool.purposes.handler.in_use");
}

/* ---- without handlers ---- */

static void is_accounted_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connection = NULL;
    hf_runtime *runtime = runtime_with(jobs, 0);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    CU_ASSERT_EQUAL(lent(runtime), 1);
    void *native = hf_test_connection_native(connection, jobs->kind.database);
    CU_ASSERT_PTR_NOT_NULL_FATAL(native);
    CU_ASSERT_EQUAL(hf_test_native_int(jobs->kind.database, native, "SELECT 41 + 1"), 42);
    for (int d = 0; d < 3; d++)
        if ((enum hf__database)d != jobs->kind.database)
            CU_ASSERT_PTR_NULL(hf_test_connection_native(connection, (enum hf__database)d));
    hf_connection_return(connection);
    CU_ASSERT_EQUAL(lent(runtime), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.purposes.handler.count"), 1);
    hf_connection_return(NULL);
    close_runtime(runtime);
}

static void is_accounted(void)
{
    on_all(is_accounted_on);
}

/* The next user finds no transaction, no setting and no temporary table of the one before. */
static void is_reset_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    enum hf__database database = jobs->kind.database;
    hf_connection *connection = NULL;
    hf_runtime *runtime = runtime_with(jobs, 1);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    void *native = hf_test_connection_native(connection, database);
    CU_ASSERT_EQUAL(hf_test_native_run(database, native, "CREATE TEMPORARY TABLE of_mine (x int)"), 0);
    CU_ASSERT_EQUAL(hf_test_native_run(database, native, "BEGIN"), 0);
    CU_ASSERT_EQUAL(hf_test_native_run(database, native, hf_test_format("INSERT INTO %s (id, payload) VALUES (99, 'x')", jobs->name)), 0);
    hf_connection_return(connection);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    native = hf_test_connection_native(connection, database);
    CU_ASSERT_NOT_EQUAL(hf_test_native_run(database, native, "SELECT x FROM of_mine"), 0);
    hf_connection_return(connection);
    hf_test_jobs_add(jobs, runtime, 1); /* and it serves the library as before */
    close_runtime(runtime);
}

static void is_reset(void)
{
    on_all(is_reset_on);
}

struct borrower {
    hf_runtime *runtime;
    int64_t timeout_ms, took_ms;
    hf_status status;
    hf_connection *connection;
    atomic_bool asks;
};

static void *borrow(void *arg)
{
    struct borrower *borrower = arg;
    int64_t since = hf_test_now_ms();
    atomic_store(&borrower->asks, true);
    borrower->status = hf_checkout(borrower->runtime, borrower->timeout_ms, &borrower->connection, NULL);
    borrower->took_ms = hf_test_now_ms() - since;
    return NULL;
}

static void in_a_thread(struct borrower *borrower, pthread_t *thread)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(thread, NULL, borrow, borrower), 0);
    while (!atomic_load(&borrower->asks))
        hf_test_sleep_ms(2);
}

static void has_a_deadline_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connection = NULL, *second = NULL;
    pthread_t thread;
    hf_runtime *runtime = runtime_with(jobs, 1);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    int64_t since = hf_test_now_ms();
    HF_TEST_STATUS(hf_checkout(runtime, 60000, &second, &err), HF_BUSY, &err); /* it would wait for itself */
    CU_ASSERT(hf_test_now_ms() - since < 30000);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "this thread has 1 already"));
    const int64_t limits[] = {0, -5, 300};
    for (size_t i = 0; i < 3; i++) {
        struct borrower late = {.runtime = runtime, .timeout_ms = limits[i]};
        in_a_thread(&late, &thread);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(late.status, HF_TIMEOUT);
        CU_ASSERT(late.took_ms >= limits[i] && late.took_ms < limits[i] + 20000);
    }
    struct borrower patient = {.runtime = runtime, .timeout_ms = 60000};
    in_a_thread(&patient, &thread);
    hf_test_sleep_ms(100);
    hf_connection_return(connection);
    pthread_join(thread, NULL);
    HF_TEST_OK(patient.status, NULL);
    hf_connection_return(patient.connection); /* by another thread than took it */
    CU_ASSERT_EQUAL(lent(runtime), 0);
    close_runtime(runtime);
}

static void has_a_deadline(void)
{
    on(row_lock, has_a_deadline_on);
}

/* ---- the stop ---- */

static hf_outcome acks(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

static bool is_empty(void *arg)
{
    return hf_test_jobs_count(arg, "1 = 1") == 0;
}

static void outlives_a_stop_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connection = NULL;
    pthread_t threads[2];
    hf_runtime *runtime = started(jobs, 0, 2, 0, acks);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    /* Those who wait when it stops are told. With the default pool some may be lent: enough of them are asked for. */
    struct borrower waiting[2] = {{.runtime = runtime, .timeout_ms = 60000}, {.runtime = runtime, .timeout_ms = 60000}};
    for (size_t i = 0; i < 2; i++)
        in_a_thread(&waiting[i], &threads[i]);
    int64_t since = hf_test_now_ms();
    HF_TEST_STATUS(hf_runtime_stop(runtime, 300, NULL, &err), HF_TIMEOUT, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "hf_connection_return"));
    CU_ASSERT(hf_test_now_ms() - since < 30000);
    CU_ASSERT_EQUAL(hf_runtime_close(runtime), HF_BUSY);
    bool stopped = false;
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT(waiting[i].status == HF_OK || waiting[i].status == HF_STOPPED);
        stopped = stopped || waiting[i].status == HF_STOPPED;
        hf_connection_return(waiting[i].connection);
    }
    CU_ASSERT(stopped);
    void *native = hf_test_connection_native(connection, jobs->kind.database);
    CU_ASSERT_EQUAL(hf_test_native_int(jobs->kind.database, native, "SELECT 7"), 7); /* nothing was taken from under its user */
    hf_connection_return(connection);
    HF_TEST_OK(hf_runtime_stop(runtime, 0, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "pool.open"), 0);
    HF_TEST_STATUS(hf_checkout(runtime, 0, &connection, &err), HF_STOPPED, &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void outlives_a_stop(void)
{
    on(row_lock, outlives_a_stop_on);
    on((struct hf_test_kind){HF__SQLITE, HF_LEASE}, outlives_a_stop_on);
}

/* ---- before the start, and in a child ---- */

static void too_many_before_the_start_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connections[2] = {NULL, NULL};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = 2;
    hf_runtime *runtime = runtime_with(jobs, 3);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, acks, jobs, NULL, &err), &err);
    for (size_t i = 0; i < 2; i++)
        HF_TEST_OK(hf_checkout(runtime, 5000, &connections[i], &err), &err);
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_BUSY, &err);
    hf_connection_return(connections[0]);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    hf_test_jobs_add(jobs, runtime, 4);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 10000, &err), &err);
    hf_connection_return(connections[1]);
    close_runtime(runtime);
}

static void in_a_child_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connection = NULL;
    int status = -1;
    hf_runtime *runtime = runtime_with(jobs, 2);
    HF_TEST_OK(hf_checkout(runtime, 5000, &connection, &err), &err);
    pid_t child = fork();
    if (child == 0) {
        hf_connection *other = NULL;
        bool refused = hf_checkout(runtime, 0, &other, NULL) == HF_MISUSE && !hf_test_connection_native(connection, jobs->kind.database);
        hf_connection_return(connection);
        _exit(refused ? 0 : 1);
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT_EQUAL(hf_test_native_int(jobs->kind.database, hf_test_connection_native(connection, jobs->kind.database), "SELECT 3"), 3);
    hf_connection_return(connection);
    close_runtime(runtime);
}

static void before_the_start_and_in_a_child(void)
{
    on(row_lock, too_many_before_the_start_on);
    on_all(in_a_child_on);
}

/* ---- in handlers ---- */

static hf_runtime *runtime_of_handlers;
static struct hf_test_gate gate;
static atomic_int got, busy, timed_out, other, told_why, cancelled;

static void reset_counts(hf_runtime *runtime)
{
    runtime_of_handlers = runtime;
    gate = (struct hf_test_gate)HF_TEST_GATE_INIT;
    atomic_store(&got, 0);
    atomic_store(&busy, 0);
    atomic_store(&timed_out, 0);
    atomic_store(&other, 0);
    atomic_store(&told_why, 0);
    atomic_store(&cancelled, 0);
}

static hf_connection *take(int64_t timeout_ms)
{
    hf_error err = {.status = HF_OK};
    hf_connection *connection = NULL;
    hf_status status = hf_checkout(runtime_of_handlers, timeout_ms, &connection, &err);
    atomic_fetch_add(status == HF_OK ? &got : status == HF_BUSY ? &busy : status == HF_TIMEOUT ? &timed_out : &other, 1);
    if (status == HF_BUSY && strstr(err.message, "handler_connections") && strstr(err.message, "pool_size"))
        atomic_fetch_add(&told_why, 1);
    return connection;
}

/* Takes two, one after the other, holds both for a while, and enqueues nothing. */
static hf_outcome takes_two(hf_delivery *delivery, void *ctx)
{
    struct hf_test_jobs *jobs = ctx;
    size_t run = hf_test_run_begin(jobs, delivery);
    hf_test_gate_pass(&gate);
    hf_connection *first = take(30000);
    hf_test_sleep_ms(5);
    hf_connection *second = take(30000);
    if (first && hf_test_native_int(jobs->kind.database, hf_test_connection_native(first, jobs->kind.database), "SELECT 1") != 1)
        atomic_fetch_add(&other, 1);
    hf_test_sleep_ms(5);
    hf_connection_return(second);
    hf_connection_return(first);
    hf_test_run_end(jobs, run);
    return HF_ACK;
}

static void run_all(struct hf_test_jobs *jobs, size_t pool, size_t workers, size_t declared)
{
    hf_error err = {.status = HF_OK};
    size_t rows = workers * 3;
    reset_counts(NULL);
    hf_runtime *runtime = started(jobs, pool, workers, declared, takes_two);
    runtime_of_handlers = runtime;
    hf_test_jobs_add(jobs, runtime, rows);
    hf_test_gate_open(&gate);
    int64_t since = hf_test_now_ms();
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 60000, &err), &err);
    if (hf_test_now_ms() - since > 40000 || atomic_load(&timed_out) > 0 || atomic_load(&other) > 0)
        hf_test_fail("pool %zu, workers %zu, declared %zu: %lld ms, %d timed out, %d other errors", pool, workers, declared,
                     (long long)(hf_test_now_ms() - since), atomic_load(&timed_out), atomic_load(&other));
    CU_ASSERT_EQUAL(atomic_load(&got) + atomic_load(&busy), (int)rows * 2);
    CU_ASSERT_EQUAL(atomic_load(&told_why), atomic_load(&busy));
    if (pool == 0 && declared == 2)
        CU_ASSERT_EQUAL(atomic_load(&busy), 0);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), (double)rows);
    close_runtime(runtime);
    hf_test_sql(jobs->url, hf_test_format("DELETE FROM %s", jobs->name));
}

static void never_deadlocks_on(struct hf_test_jobs *jobs)
{
    static const size_t pools[] = {1, 2, 4, 0}, workers[] = {1, 4, 16};
    for (size_t p = 0; p < 4; p++)
        for (size_t w = 0; w < 3; w++)
            for (size_t declared = 0; declared <= 2; declared++)
                run_all(jobs, pools[p], workers[w], declared);
}

static void never_deadlocks(void)
{
    on(row_lock, never_deadlocks_on);
    on(lease, never_deadlocks_on);
    on((struct hf_test_kind){HF__MYSQL, HF_ADVISORY_LOCK}, never_deadlocks_on);
    on((struct hf_test_kind){HF__SQLITE, HF_LEASE}, never_deadlocks_on);
}

/* What handlers have declared is theirs: others who take all that they can get, and keep it, do not take that. */
static void declared_are_kept_on(struct hf_test_jobs *jobs)
{
    enum { WORKERS = 4, OTHERS = 6 };
    hf_error err = {.status = HF_OK};
    hf_connection *others[OTHERS] = {NULL};
    size_t n = 0;
    reset_counts(NULL);
    hf_runtime *runtime = started(jobs, 0, WORKERS, 2, takes_two);
    runtime_of_handlers = runtime;
    while (n < OTHERS && hf_checkout(runtime, 0, &others[n], NULL) == HF_OK)
        n++;
    CU_ASSERT(n >= 1 && n < OTHERS);
    hf_test_jobs_add(jobs, runtime, WORKERS * 4);
    hf_test_gate_await(&gate, WORKERS);
    hf_test_gate_open(&gate);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 15000, &err), &err);
    CU_ASSERT_EQUAL(atomic_load(&got), WORKERS * 4 * 2);
    while (n > 0)
        hf_connection_return(others[--n]);
    close_runtime(runtime);
}

static void declared_are_kept(void)
{
    on_all(declared_are_kept_on);
}

/* ---- the cost ---- */

static void cost_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_cost all = HF_COST_INIT, same = HF_COST_INIT, more = HF_COST_INIT;
    hf_runtime *runtime = runtime_with(jobs, 0);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    bool sqlite = jobs->kind.database == HF__SQLITE;
    size_t kept = jobs->kind.strategy == HF_LEASE || (sqlite && jobs->kind.strategy == HF_ADVISORY_LOCK) ? 0 : 1;
    HF_TEST_OK(hf_cost_of(runtime, jobs->table, 4, &all, &err), &err);
    HF_TEST_OK(hf_cost_for(runtime, jobs->table, NULL, &same, &err), &err);
    CU_ASSERT_EQUAL(all.pool_size, same.pool_size);
    CU_ASSERT_EQUAL(all.held_per_delivery, (double)kept);
    options.workers = 4;
    options.transactional = true;
    options.handler_connections = 3;
    HF_TEST_OK(hf_cost_for(runtime, jobs->table, &options, &more, &err), &err);
    CU_ASSERT_EQUAL(more.held_per_delivery, 1);
    CU_ASSERT_EQUAL(more.held, 4);
    CU_ASSERT_EQUAL(more.handler, 12);
    CU_ASSERT_EQUAL(more.pool_size, all.pool_size + 12 + (1 - kept) * 4);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void the_cost_is_told(void)
{
    on_all(cost_on);
}

/* Others who take all that they can get, and keep it, do not take what rows are claimed and settled with. */
static void rows_go_on_beside_it_on(struct hf_test_jobs *jobs)
{
    enum { OTHERS = 8 };
    for (size_t pool = 1; pool <= 5; pool++) {
        hf_error err = {.status = HF_OK};
        hf_connection *others[OTHERS] = {NULL};
        size_t n = 0;
        hf_runtime *runtime = started(jobs, pool, 2, 0, acks);
        while (n < OTHERS && hf_checkout(runtime, 0, &others[n], NULL) == HF_OK)
            n++;
        hf_runtime *feeder = runtime_with(jobs, 1); /* an enqueue may wait, for it is no part of what the pool is kept for */
        hf_test_jobs_add(jobs, feeder, 5);
        HF_TEST_OK(hf_runtime_close(feeder), NULL);
        hf_wake(runtime, jobs->table);
        if (!hf_test_wait_until(is_empty, jobs, 30000))
            hf_test_fail("pool %zu with %zu lent: rows stay; it said: %s", pool, n, jobs->log ? jobs->log : "nothing");
        CU_ASSERT(n < OTHERS && (pool < 5 || n > 0));
        while (n > 0)
            hf_connection_return(others[--n]);
        HF_TEST_OK(hf_runtime_wait_empty(runtime, 10000, &err), &err);
        close_runtime(runtime);
    }
}

static void rows_go_on_beside_it(void)
{
    on_all(rows_go_on_beside_it_on);
}

/* However many are lent, leases are renewed. */
static hf_outcome outlasts_its_lease(hf_delivery *delivery, void *ctx)
{
    struct hf_test_jobs *jobs = ctx;
    size_t run = hf_test_run_begin(jobs, delivery);
    hf_connection *mine[8];
    for (size_t i = 0; i < 8; i++)
        mine[i] = take(0);
    atomic_fetch_add(&cancelled, hf_delivery_wait(delivery, 4500) != HF_NOT_CANCELLED);
    for (size_t i = 0; i < 8; i++)
        hf_connection_return(mine[i]);
    hf_test_run_end(jobs, run);
    return HF_ACK;
}

static void leases_are_renewed_beside_it(void)
{
    static const size_t pools[] = {1, 2, 4, 0};
    for (size_t p = 0; p < 4; p++) {
        struct hf_test_jobs jobs;
        hf_error err = {.status = HF_OK};
        hf_test_jobs_open(&jobs, lease, 3);
        reset_counts(NULL);
        hf_runtime *runtime = started(&jobs, pools[p], 2, 0, outlasts_its_lease);
        runtime_of_handlers = runtime;
        hf_test_jobs_add(&jobs, runtime, 2);
        HF_TEST_OK(hf_runtime_wait_empty(runtime, 15000, &err), &err);
        if (atomic_load(&other) + atomic_load(&cancelled) > 0 || jobs.n_runs != 2)
            hf_test_fail("pool %zu: %d errors, %d cancelled, %zu runs; it said: %s", pools[p], atomic_load(&other), atomic_load(&cancelled),
                         jobs.n_runs, jobs.log ? jobs.log : "nothing");
        close_runtime(runtime);
        hf_test_jobs_close(&jobs);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"is accounted", is_accounted},
        {"is reset", is_reset},
        {"has a deadline", has_a_deadline},
        {"outlives a stop", outlives_a_stop},
        {"before the start and in a child", before_the_start_and_in_a_child},
        {"never deadlocks", never_deadlocks},
        {"declared are kept", declared_are_kept},
        {"rows go on beside it", rows_go_on_beside_it},
        {"leases are renewed beside it", leases_are_renewed_beside_it},
        {"the cost is told", the_cost_is_told},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "checkout", tests);
}
