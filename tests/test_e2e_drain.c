/* ctest: timeout=300 labels=e2e
 * Two processes drain one table: every row runs once, and no connection is held beyond the cost model. */
#include <signal.h>
#include <string.h>

#include "tests/fleet.h"

#define ROWS 2000
#define LIMIT_MS 60000

static struct hf_test_child *start(const struct hf_test_fleet *fleet, const char *workers)
{
    return hf_test_fleet_start(fleet, "--workers", workers, "--poll-ms", "50", "--handler", "uniform:0-3", NULL);
}

/* The keys of a SQLite file belong to one process, and another is told so. */
static void refused(const struct hf_test_fleet *fleet)
{
    struct hf_test_child *second = start(fleet, "1");
    int code = hf_test_wait(second, LIMIT_MS);
    const char *reason = hf_test_format("%s", hf_test_stderr(second));
    hf_test_free(second);
    CU_ASSERT_EQUAL(code, 1);
    if (!strstr(reason, "another process")) {
        hf_test_fail("the second process is not told why it is refused: %s", reason);
    }
}

/* All are there before the first row, or the first of them would take most. */
static void drain(struct hf_test_fleet *fleet, size_t processes)
{
    struct hf_test_child *workers[2];
    for (size_t i = 0; i < processes; i++) {
        workers[i] = start(fleet, processes == 1 ? "16" : "8");
    }
    for (size_t i = 0; i < processes; i++) {
        hf_test_fleet_ready(workers[i]);
    }
    hf_test_fleet_add(fleet, ROWS);
    if (processes == 1) {
        refused(fleet);
    }
    hf_test_fleet_wait_ended(fleet, ROWS, LIMIT_MS);
    for (size_t i = 0; i < processes; i++) {
        hf_test_kill(workers[i], SIGTERM);
        hf_test_fleet_end(workers[i], LIMIT_MS);
    }
}

static size_t processes_in(const struct hf_test_ledger *ledger)
{
    size_t n = ledger->n > 0;
    for (size_t i = 1; i < ledger->n && n == 1; i++) {
        n += ledger->runs[i].pid != ledger->runs[0].pid;
    }
    return n;
}

static void check(struct hf_test_fleet *fleet, size_t processes)
{
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    hf_test_ledger_rows_apart(&ledger);
    hf_test_ledger_all_ran_once(&ledger, ROWS);
    CU_ASSERT_EQUAL(processes_in(&ledger), processes);
    if (fleet->jobs.kind.strategy == HF_ADVISORY_LOCK) {
        hf_test_ledger_keys_apart(&ledger);
    }
    hf_test_ledger_free(&ledger);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet->jobs, "1 = 1"), 0);
}

static void drain_on(struct hf_test_kind kind, size_t n_keys)
{
    size_t processes = kind.database == HF__SQLITE && kind.strategy == HF_ADVISORY_LOCK ? 1 : 2;
    struct hf_test_fleet fleet;
    hf_test_fleet_open(&fleet, kind, 30, (struct hf_test_shape){.n_keys = n_keys});
    drain(&fleet, processes);
    check(&fleet, processes);
    hf_test_fleet_close(&fleet);
}

static void each_row_once_on(struct hf_test_kind kind)
{
    drain_on(kind, 0);
}

static void each_row_runs_once(void)
{
    hf_test_on_all(each_row_once_on);
}

static void shared_keys_on(struct hf_test_kind kind)
{
    if (kind.strategy == HF_ADVISORY_LOCK) {
        drain_on(kind, 100);
    }
}

static void rows_of_one_key_run_one_by_one(void)
{
    hf_test_on_all(shared_keys_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"each row runs once", each_row_runs_once},
        {"rows of one key run one by one", rows_of_one_key_run_one_by_one},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_drain", tests);
}
