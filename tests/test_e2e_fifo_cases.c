/* ctest: timeout=240 labels=e2e
 * FIFO groups, one situation at a time: a group that is blocked, a head that is not due, a head whose process is killed, rows without a
 * group, rows that an operator touches while they are in work. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/deadline.h"
#include "tests/fleet.h"
#include "tests/gate.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LIMIT_MS 30000

static const struct hf_test_kind kinds[] = {
    {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__MYSQL, HF_ROW_LOCK}, {HF__MYSQL, HF_LEASE}, {HF__SQLITE, HF_LEASE},
};

#define GROUP ", \"group\": \"grp\""
#define PRIORITY ", \"priority\": \"pri\""
#define FIFO ", \"fifo\": true"

struct scene {
    struct hf_test_jobs jobs;
    hf_runtime *runtime;
    struct hf_test_gate gate;
    const char *gated;        /* handlers of this group wait at the gate; NULL: handlers of rows without a group */
    atomic_int in_work, most; /* of rows without a group */
};

static struct scene scene; /* outlives a failed test, whose handlers still run */

static const char *place(void)
{
    return hf_test_format("%s, %s", hf__database_name(scene.jobs.kind.database), hf_strategy_name(scene.jobs.kind.strategy));
}

static void open_scene(struct hf_test_kind kind, const char *columns, const char *settings)
{
    scene = (struct scene){.gate = HF_TEST_GATE_INIT};
    hf_test_jobs_open_shape(&scene.jobs, kind, 30, (struct hf_test_shape){.columns = columns, .settings = settings});
}

static void start(size_t workers, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    scene.runtime = hf_test_jobs_runtime(&scene.jobs, NULL);
    HF_TEST_OK(hf_subscribe(scene.runtime, scene.jobs.table, &options, handler, NULL, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(scene.runtime, &err), &err);
}

/* n rows more of a group, at this priority if the table has one, due after this delay. */
static void add(const char *group, size_t n, int64_t priority, int64_t delay_ms)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(&scene.jobs, NULL);
    hf_job *list = calloc(n, sizeof *list);
    CU_ASSERT_FATAL(list != NULL);
    for (size_t i = 0; i < n; i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].group = group;
        list[i].delay_ms = delay_ms;
        list[i].priority = priority;
        list[i].has_priority = strstr(scene.jobs.json, PRIORITY) != NULL;
    }
    HF_TEST_OK(hf_enqueue(runtime, scene.jobs.table, list, n, NULL, &err), &err);
    free(list);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

struct expected_runs {
    size_t n;
};

static bool have_run(void *arg)
{
    const struct expected_runs *expected = arg;
    return hf_test_n_runs(&scene.jobs) >= expected->n;
}

static void wait_runs(size_t n)
{
    struct expected_runs expected = {n};
    if (!hf_test_wait_until(have_run, &expected, LIMIT_MS)) {
        hf_test_gate_open(&scene.gate);
        hf_test_fail("%s: %zu runs, not %zu; log: %s", place(), hf_test_n_runs(&scene.jobs), n, scene.jobs.log ? scene.jobs.log : "");
    }
}

static void stop(void)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(scene.runtime, LIMIT_MS, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(scene.runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(scene.runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(scene.runtime), NULL);
    hf_test_no_overlap(&scene.jobs);
}

static void finish(void)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(scene.runtime, LIMIT_MS, &err), &err);
    stop();
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene.jobs, "1 = 1"), 0);
    hf_test_jobs_close(&scene.jobs);
}

static hf_outcome through_the_gate(hf_delivery *delivery, void *ctx)
{
    const char *group = hf_delivery_group(delivery);
    size_t run = hf_test_run_begin(&scene.jobs, delivery);
    (void)ctx;
    if (scene.gated ? group && strcmp(group, scene.gated) == 0 : !group) {
        hf_test_gate_pass(&scene.gate);
    }
    hf_test_run_end(&scene.jobs, run);
    return HF_ACK;
}

/* ---- case 52: a blocked group of ten thousand rows, older than all others ---- */

#define BLOCKED 10000
#define OTHERS 25
#define EACH 10

static void add_others(void)
{
    for (int i = 0; i < OTHERS; i++) {
        add(hf_test_format("%c", 'B' + i), EACH, 1, 0);
    }
}

static void remove_blocked(void)
{
    hf_test_sql(scene.jobs.url, hf_test_format("DELETE FROM %s WHERE grp = 'A' AND id > 1", scene.jobs.name));
}

/* Its head is in work, and stays there. */
static void blocked_by_work_on(struct hf_test_kind kind)
{
    open_scene(kind, GROUP, FIFO);
    scene.gated = "A";
    add("A", 1 + BLOCKED, 0, 0);
    start(4, through_the_gate);
    hf_test_gate_await(&scene.gate, 1);
    add_others();
    wait_runs(1 + OTHERS * EACH);
    CU_ASSERT_EQUAL(hf_test_runs_of(&scene.jobs, 1), 1);
    remove_blocked();
    hf_test_gate_open(&scene.gate);
    finish();
    CU_ASSERT_EQUAL(scene.jobs.n_runs, 1 + OTHERS * EACH);
}

/* Its head is not due yet: smaller in priority, so it holds the group. */
static void blocked_by_time_on(struct hf_test_kind kind)
{
    open_scene(kind, GROUP PRIORITY, FIFO);
    add("A", 1, 0, 3600000);
    add("A", BLOCKED, 1, 0);
    start(4, through_the_gate);
    add_others();
    wait_runs(OTHERS * EACH);
    hf_test_sleep_ms(200);
    stop();
    CU_ASSERT_EQUAL(scene.jobs.n_runs, OTHERS * EACH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene.jobs, "grp = 'A'"), 1 + BLOCKED);
    hf_test_jobs_close(&scene.jobs);
}

static void a_blocked_group_hides_nobody(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        blocked_by_work_on(kinds[i]);
        blocked_by_time_on(kinds[i]);
    }
}

/* ---- case 54: a head that waits for its time ---- */

#define DELAY_MS 1500

/* Row 1 asks for a delay in its first run. */
static hf_outcome first_later(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)ctx;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(&scene.jobs, hf_test_run_begin(&scene.jobs, delivery));
    hf_delivery_set_delay(delivery, DELAY_MS);
    return id == 1 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY_AFTER : HF_ACK;
}

static int64_t begin_of(size_t run)
{
    return scene.jobs.runs[run].begin_us;
}

/* The runs of these rows, in this order; the place of the first in the record. */
static void check_runs(const int64_t *ids, size_t n)
{
    size_t next = 0;
    for (size_t i = 0; i < scene.jobs.n_runs; i++) {
        bool ours = false;
        for (size_t k = 0; k < n; k++) {
            ours = ours || ids[k] == scene.jobs.runs[i].id;
        }
        if (ours && (next == n || ids[next++] != scene.jobs.runs[i].id)) {
            hf_test_fail("%s, %s: row %lld ran out of its order", place(), scene.jobs.json, (long long)scene.jobs.runs[i].id);
        }
    }
    CU_ASSERT_EQUAL(next, n);
}

static size_t last_run_of(int64_t id)
{
    size_t last = 0;
    for (size_t i = 0; i < scene.jobs.n_runs; i++) {
        last = scene.jobs.runs[i].id == id ? i : last;
    }
    return last;
}

/* Rows 1, 2, 3 of g, rows 4, 5 of h, rows 6 to 15 of k; with or without the priorities that make a later row come behind. */
static void later_on(struct hf_test_kind kind, bool holds)
{
    static const int64_t g_passed[] = {1, 2, 3, 1}, h_passed[] = {5, 4}, g_held[] = {1, 1, 2, 3}, h_held[] = {4, 5};
    open_scene(kind, holds ? GROUP PRIORITY : GROUP, FIFO);
    add("g", 1, 0, 0);
    add("g", 2, 1, 0);
    add("h", 1, 0, DELAY_MS);
    int64_t due_us = hf__monotonic_ns() / 1000 + (DELAY_MS - 1000) * 1000;
    add("h", 1, 1, 0);
    add("k", 10, 0, 0);
    start(4, first_later);
    wait_runs(1 + 15);
    int64_t settled_us = begin_of(0) + DELAY_MS * 1000;
    finish();
    CU_ASSERT_EQUAL(scene.jobs.n_runs, 1 + 15);
    check_runs(holds ? g_held : g_passed, 4);
    check_runs(holds ? h_held : h_passed, 2);
    CU_ASSERT(begin_of(last_run_of(1)) >= settled_us);
    CU_ASSERT(begin_of(last_run_of(4)) >= due_us);
    for (int64_t id = 6; id <= 15; id++) {
        CU_ASSERT(begin_of(last_run_of(id)) < settled_us);
    }
}

static void a_head_that_is_not_due(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        later_on(kinds[i], false);
        later_on(kinds[i], true);
    }
}

/* ---- case 56: kill -9 in the first row of a group ---- */

#define LEASE_SECONDS 2

static void check_after_kill(const struct hf_test_fleet *fleet, pid_t victim, int64_t killed_ns, size_t rows)
{
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    hf_test_ledger_died(&ledger, victim, killed_ns);
    hf_test_ledger_keys_apart(&ledger);
    hf_test_ledger_in_order(&ledger);
    hf_test_ledger_all_ran(&ledger, rows);
    const struct hf_test_entry *again = hf_test_ledger_run_of(&ledger, 1, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    CU_ASSERT_EQUAL(again->attempt, fleet->jobs.kind.strategy == HF_ROW_LOCK ? 1 : 2);
    CU_ASSERT_EQUAL(ledger.n, rows + 1);
    hf_test_ledger_free(&ledger);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet->jobs, "1 = 1"), 0);
}

static void killed_in_a_head_on(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    hf_test_fleet_open(&fleet, kind, LEASE_SECONDS, (struct hf_test_shape){.columns = GROUP, .settings = FIFO});
    hf_test_fleet_add_groups(&fleet, 20, 1);
    struct hf_test_child *victim = hf_test_fleet_start(&fleet, "--workers", "4", "--poll-ms", "20", "--hang-at", "1", NULL);
    hf_test_fleet_wait_begun(&fleet, 1, LIMIT_MS);
    hf_test_sleep_ms(200); /* time to do wrong: none of the others may begin */
    int64_t killed_ns = hf__monotonic_ns();
    hf_test_kill(victim, SIGKILL);
    CU_ASSERT_EQUAL(hf_test_wait(victim, LIMIT_MS), HF_TEST_SIGNALLED + SIGKILL);
    pid_t pid = hf_test_pid(victim);
    hf_test_free(victim);
    struct hf_test_child *heirs[2];
    for (size_t i = 0; i < 2; i++) {
        heirs[i] = hf_test_fleet_start(&fleet, "--workers", "4", "--poll-ms", "20", "--handler", "ms:2", "--until-empty", NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        hf_test_fleet_end(heirs[i], LIMIT_MS);
    }
    check_after_kill(&fleet, pid, killed_ns, 20);
    hf_test_fleet_close(&fleet);
}

static void killed_in_a_head(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        killed_in_a_head_on(kinds[i]);
    }
}

/* ---- case 61: rows without a group ---- */

/* Eight at a time, beside a group of which one at a time runs. */
static void no_group_on(struct hf_test_kind kind)
{
    open_scene(kind, GROUP, FIFO);
    add(NULL, 20, 0, 0);
    add("g", 3, 0, 0);
    start(8, through_the_gate);
    hf_test_gate_await(&scene.gate, 8);
    CU_ASSERT(hf_test_n_runs(&scene.jobs) <= 11);
    hf_test_gate_open(&scene.gate);
    finish();
    CU_ASSERT_EQUAL(scene.jobs.n_runs, 23);
}

/* A subscription of all groups leaves the dead letters' group out, and nothing else. */
static void none_is_not_dead_on(struct hf_test_kind kind)
{
    open_scene(kind, GROUP, ", \"dead_letter\": { \"group\": \"dead\" }");
    add("dead", 2, 0, 0);
    add(NULL, 20, 0, 0);
    add("g", 3, 0, 0);
    hf_test_gate_open(&scene.gate);
    start(8, through_the_gate);
    wait_runs(23);
    hf_test_sleep_ms(100);
    stop();
    CU_ASSERT_EQUAL(scene.jobs.n_runs, 23);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene.jobs, "grp = 'dead'"), 2);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene.jobs, "grp IS NULL OR grp <> 'dead'"), 0);
    hf_test_jobs_close(&scene.jobs);
}

static void rows_without_a_group(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        no_group_on(kinds[i]);
    }
    hf_test_on_all(none_is_not_dead_on);
}

/* ---- case 64: an operator touches rows in work ---- */

#define NEXT_YEARS "retry_after = '2098-01-01 00:00:00'"

struct touch {
    const char *verb, *change; /* of row id */
    bool lost;                 /* the row that the handler had is not there any more */
};

static const struct touch touches[] = {
    {"DELETE FROM", "", true},
    {"UPDATE", "SET " NEXT_YEARS, false},
    {"UPDATE", "SET pri = 99, grp = 'elsewhere', payload = 'other'", false},
    {"UPDATE", "SET locked_until = NULL, " NEXT_YEARS, true}, /* lease alone */
    {NULL, NULL, true},                                       /* deleted, and another with its id */
};
#define ROWS (2 * LENGTH(touches)) /* one acks, one retries later */

static atomic_int statuses[ROWS + 1];

static hf_outcome settles_at_the_gate(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)ctx;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(&scene.jobs, delivery);
    hf_test_gate_pass(&scene.gate);
    hf_delivery_set_delay(delivery, 3600000);
    atomic_store(&statuses[id], (int)hf_delivery_settle(delivery, id % 2 ? HF_ACK : HF_RETRY_AFTER, NULL));
    hf_test_run_end(&scene.jobs, run);
    return HF_ACK; /* ignored */
}

static bool has(const struct touch *touch)
{
    return scene.jobs.kind.strategy == HF_LEASE || !touch->change || !strstr(touch->change, "locked_until");
}

static hf_status try_touch(const struct touch *touch, size_t id)
{
    static const char *const impatient[] = {
        [HF__POSTGRES] = "SET lock_timeout = '100ms'", [HF__MYSQL] = "SET innodb_lock_wait_timeout = 1", [HF__SQLITE] = "SELECT 1"};
    const char *name = scene.jobs.name;
    struct hf__conn *outside = hf_test_session(scene.jobs.url);
    hf_test_session_run(outside, impatient[scene.jobs.kind.database]);
    const char *sql = touch->verb ? hf_test_format("%s %s %s WHERE id = %zu", touch->verb, name, touch->change, id)
                                  : hf_test_format("DELETE FROM %s WHERE id = %zu", name, id);
    hf_status status = hf__conn_exec(outside, sql, hf__after_ms(LIMIT_MS), NULL);
    if (status == HF_OK && !touch->verb) {
        hf_test_session_run(outside, hf_test_format("INSERT INTO %s (id, grp, pri, attempt, retry_after) VALUES (%zu, 'g%zu', 0, 1, "
                                                    "'2098-01-01 00:00:00')",
                                                    name, id, id));
    }
    hf__conn_close(outside);
    return status;
}

static void touch_all(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        hf_status status = has(&touches[i / 2]) ? try_touch(&touches[i / 2], i + 1) : HF_OK;
        bool refused = scene.jobs.kind.strategy == HF_ROW_LOCK && has(&touches[i / 2]);
        if ((status != HF_OK) != refused) {
            hf_test_gate_open(&scene.gate);
            hf_test_fail("%s: touch %zu: %s", place(), i / 2, hf_status_name(status));
        }
    }
}

/* What the settle answered, and what is left of the row: acked and gone, put off by us, or as the operator left it. */
static void check_touched(size_t i)
{
    size_t id = i + 1;
    const struct touch *touch = &touches[i / 2];
    bool lost = touch->lost && has(touch) && scene.jobs.kind.strategy != HF_ROW_LOCK, acked = id % 2;
    hf_status gone = scene.jobs.kind.strategy == HF_LEASE ? HF_LEASE_LOST : HF_LOST;
    int64_t left = hf_test_jobs_count(&scene.jobs, hf_test_format("id = %zu", id));
    int64_t ours = hf_test_jobs_count(&scene.jobs, hf_test_format("id = %zu AND attempt = 2 AND retry_after < '2097-01-01 00:00:00'", id));
    int64_t expected = lost ? touch->change == NULL || *touch->change : !acked;
    if (atomic_load(&statuses[id]) != (int)(lost ? gone : HF_OK) || left != expected || ours != (!lost && !acked)) {
        hf_test_fail("%s: touch %zu, row %zu: the settle says %s, and %lld rows are left, %lld of them put off", place(), i / 2, id,
                     hf_status_name((hf_status)atomic_load(&statuses[id])), (long long)left, (long long)ours);
    }
}

static void touched_on(struct hf_test_kind kind)
{
    open_scene(kind, GROUP PRIORITY, kind.strategy == HF_ADVISORY_LOCK ? "" : FIFO);
    for (size_t i = 1; i <= ROWS; i++) {
        add(hf_test_format("g%zu", i), 1, 0, 0);
    }
    start(ROWS, settles_at_the_gate);
    hf_test_gate_await(&scene.gate, ROWS);
    touch_all();
    hf_test_gate_open(&scene.gate);
    stop();
    for (size_t i = 0; i < ROWS; i++) {
        check_touched(i);
    }
    CU_ASSERT_EQUAL(scene.jobs.n_runs, ROWS);
    hf_test_jobs_close(&scene.jobs);
}

static void touched_while_in_work(void)
{
    hf_test_on_all(touched_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a blocked group hides nobody", a_blocked_group_hides_nobody},
        {"a head that is not due", a_head_that_is_not_due},
        {"killed in a head", killed_in_a_head},
        {"rows without a group", rows_without_a_group},
        {"touched while in work", touched_while_in_work},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_fifo_cases", tests);
}
