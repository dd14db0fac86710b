/* ctest: timeout=240 labels=e2e
 * FIFO groups, one situation at a time: a group that is blocked, a head that is not due, a head whose process is killed, rows without a
 * group. */
#include <signal.h>
#include <stdlib.h>

#include "pool/deadline.h"
#include "tests/fleet.h"
#include "tests/gate.h"

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
    struct hf_test_gate gate;
    const char *gated; /* handlers of this group wait at the gate; NULL: those of rows without a group */
};

/* On the heap, and never freed after a failure: handlers may still run then. */
static struct scene *open_scene(struct hf_test_kind kind, const char *columns, const char *settings)
{
    struct scene *scene = malloc(sizeof *scene);
    CU_ASSERT_PTR_NOT_NULL_FATAL(scene);
    *scene = (struct scene){.gate = HF_TEST_GATE_INIT};
    hf_test_jobs_open_shape(&scene->jobs, kind, 30, (struct hf_test_shape){.columns = columns, .settings = settings});
    return scene;
}

static void close_scene(struct scene *scene)
{
    hf_test_jobs_close(&scene->jobs);
    free(scene);
}

/* n rows more of a group, at this priority if the table has one, due after this delay. */
static void add(struct scene *scene, const char *group, size_t n, int64_t priority, int64_t delay_ms)
{
    hf_job job = HF_JOB_INIT;
    job.group = group;
    job.delay_ms = delay_ms;
    job.priority = priority;
    job.has_priority = strstr(scene->jobs.json, PRIORITY) != NULL;
    hf_test_jobs_put(&scene->jobs, job, n);
}

static hf_outcome through_the_gate(hf_delivery *delivery, void *ctx)
{
    struct scene *scene = ctx;
    const char *group = hf_delivery_group(delivery);
    size_t run = hf_test_run_begin(&scene->jobs, delivery);
    if (scene->gated ? group && strcmp(group, scene->gated) == 0 : !group) {
        hf_test_gate_pass(&scene->gate);
    }
    hf_test_run_end(&scene->jobs, run);
    return HF_ACK;
}

/* ---- case 52: a blocked group of ten thousand rows, older than all others ---- */

#define BLOCKED 10000
#define OTHERS 25
#define EACH 10

static void add_others(struct scene *scene)
{
    for (int i = 0; i < OTHERS; i++) {
        add(scene, hf_test_format("%c", 'B' + i), EACH, 1, 0);
    }
}

/* Its head is in work, and stays there. */
static void blocked_by_work_on(struct hf_test_kind kind)
{
    struct scene *scene = open_scene(kind, GROUP, FIFO);
    scene->gated = "A";
    add(scene, "A", 1 + BLOCKED, 0, 0);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, 4, through_the_gate, scene);
    hf_test_gate_await(&scene->gate, 1);
    add_others(scene);
    hf_test_wait_for_runs(&scene->jobs, 1 + OTHERS * EACH);
    CU_ASSERT_EQUAL(hf_test_runs_of(&scene->jobs, 1), 1);
    /* The stop begins before the head goes back, so that none of the ten thousand runs. */
    HF_TEST_STATUS(hf_runtime_stop(runtime, 0, NULL, NULL), HF_TIMEOUT, NULL);
    hf_test_gate_open(&scene->gate);
    hf_test_jobs_stop(&scene->jobs, runtime);
    CU_ASSERT_EQUAL(scene->jobs.n_runs, 1 + OTHERS * EACH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene->jobs, "1 = 1"), hf_test_jobs_count(&scene->jobs, "grp = 'A'"));
    close_scene(scene);
}

/* Its head is not due yet: smaller in priority, so it holds the group. */
static void blocked_by_time_on(struct hf_test_kind kind)
{
    struct scene *scene = open_scene(kind, GROUP PRIORITY, FIFO);
    add(scene, "A", 1, 0, 3600000);
    add(scene, "A", BLOCKED, 1, 0);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, 4, through_the_gate, scene);
    add_others(scene);
    hf_test_wait_for_runs(&scene->jobs, OTHERS * EACH);
    hf_test_sleep_ms(200); /* time to do wrong */
    hf_test_jobs_stop(&scene->jobs, runtime);
    CU_ASSERT_EQUAL(scene->jobs.n_runs, OTHERS * EACH);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene->jobs, "grp = 'A'"), 1 + BLOCKED);
    close_scene(scene);
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
    struct scene *scene = ctx;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(&scene->jobs, hf_test_run_begin(&scene->jobs, delivery));
    hf_delivery_set_delay(delivery, DELAY_MS);
    return id == 1 && hf_delivery_attempt(delivery) == 1 ? HF_RETRY_AFTER : HF_ACK;
}

/* These rows ran in this order, which names each of their runs. */
static void check_order(const struct hf_test_jobs *jobs, const int64_t *ids, size_t n)
{
    size_t next = 0;
    for (size_t i = 0; i < jobs->n_runs; i++) {
        bool ours = false;
        for (size_t k = 0; k < n; k++) {
            ours = ours || ids[k] == jobs->runs[i].id;
        }
        if (ours && (next == n || ids[next++] != jobs->runs[i].id)) {
            hf_test_fail("%s: row %lld ran out of its order: %s", hf_test_jobs_place(jobs), (long long)jobs->runs[i].id, jobs->json);
        }
    }
    CU_ASSERT_EQUAL(next, n);
}

static int64_t first_begin_of(const struct hf_test_jobs *jobs, int64_t id)
{
    for (size_t i = 0; i < jobs->n_runs; i++) {
        if (jobs->runs[i].id == id) {
            return jobs->runs[i].begin_us;
        }
    }
    return 0;
}

static int64_t last_begin_of(const struct hf_test_jobs *jobs, int64_t id)
{
    int64_t begin_us = 0;
    for (size_t i = 0; i < jobs->n_runs; i++) {
        begin_us = jobs->runs[i].id == id ? jobs->runs[i].begin_us : begin_us;
    }
    return begin_us;
}

static void check_times(const struct hf_test_jobs *jobs, int64_t h_due_us)
{
    int64_t g_due_us = first_begin_of(jobs, 1) + DELAY_MS * 1000;
    CU_ASSERT(last_begin_of(jobs, 1) >= g_due_us);
    CU_ASSERT(last_begin_of(jobs, 4) >= h_due_us);
    for (int64_t id = 6; id <= 15; id++) {
        CU_ASSERT(last_begin_of(jobs, id) < g_due_us);
    }
}

/* Rows 1, 2, 3 of g; 4, 5 of h; 6 to 15 of k; with or without the priorities that put a later row behind. */
static void later_on(struct hf_test_kind kind, bool holds)
{
    static const int64_t g_passed[] = {1, 2, 3, 1}, h_passed[] = {5, 4}, g_held[] = {1, 1, 2, 3}, h_held[] = {4, 5};
    struct scene *scene = open_scene(kind, holds ? GROUP PRIORITY : GROUP, FIFO);
    add(scene, "g", 1, 0, 0);
    add(scene, "g", 2, 1, 0);
    int64_t h_due_us = hf__monotonic_ns() / 1000 + DELAY_MS * 1000;
    add(scene, "h", 1, 0, DELAY_MS);
    add(scene, "h", 1, 1, 0);
    add(scene, "k", 10, 0, 0);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, 4, first_later, scene);
    hf_test_wait_for_runs(&scene->jobs, 1 + 15);
    hf_test_jobs_finish(&scene->jobs, runtime);
    CU_ASSERT_EQUAL(scene->jobs.n_runs, 1 + 15);
    hf_test_sort_runs(&scene->jobs);
    check_order(&scene->jobs, holds ? g_held : g_passed, 4);
    check_order(&scene->jobs, holds ? h_held : h_passed, 2);
    check_times(&scene->jobs, h_due_us);
    close_scene(scene);
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
    int64_t waited_ms = (again->begin_ns - killed_ns) / 1000000,
            lease_ms = fleet->jobs.kind.strategy == HF_LEASE ? LEASE_SECONDS * 1000 : 0;
    if (waited_ms > lease_ms + 10000) { /* at once, or when the lease has ended; starting the heirs takes a while on a busy machine */
        hf_test_fail("%s: the head runs again %lld ms after its process died", hf_test_jobs_place(&fleet->jobs), (long long)waited_ms);
    }
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
    struct scene *scene = open_scene(kind, GROUP, FIFO);
    add(scene, NULL, 20, 0, 0);
    add(scene, "g", 3, 0, 0);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, 8, through_the_gate, scene);
    hf_test_gate_await(&scene->gate, 8);
    CU_ASSERT(hf_test_n_runs(&scene->jobs) <= 8 + 3);
    hf_test_gate_open(&scene->gate);
    hf_test_jobs_finish(&scene->jobs, runtime);
    CU_ASSERT_EQUAL(scene->jobs.n_runs, 23);
    close_scene(scene);
}

/* A subscription of all groups leaves the dead letters' group out, and nothing else. */
static void none_is_not_dead_on(struct hf_test_kind kind)
{
    struct scene *scene = open_scene(kind, GROUP, ", \"dead_letter\": { \"group\": \"dead\" }");
    add(scene, "dead", 2, 0, 0);
    add(scene, NULL, 20, 0, 0);
    add(scene, "g", 3, 0, 0);
    hf_test_gate_open(&scene->gate);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, 8, through_the_gate, scene);
    hf_test_wait_for_runs(&scene->jobs, 23);
    hf_test_sleep_ms(100); /* time to do wrong */
    hf_test_jobs_stop(&scene->jobs, runtime);
    CU_ASSERT_EQUAL(scene->jobs.n_runs, 23);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene->jobs, "grp = 'dead'"), 2);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&scene->jobs, "1 = 1"), 2);
    close_scene(scene);
}

static void rows_without_a_group(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        no_group_on(kinds[i]);
    }
    hf_test_on_all(none_is_not_dead_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a blocked group hides nobody", a_blocked_group_hides_nobody},
        {"a head that is not due", a_head_that_is_not_due},
        {"killed in a head", killed_in_a_head},
        {"rows without a group", rows_without_a_group},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_fifo_cases", tests);
}
