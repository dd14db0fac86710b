/* ctest: timeout=1800 labels=e2e,slow serial
 * FIFO groups under load: four processes on fifty groups. No two rows of a group run at once, and they begin in order (cases 56, 58). */
#include <signal.h>
#include <stdlib.h>

#include "pool/deadline.h"
#include "pool/driver.h"
#include "tests/fleet.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define PROCESSES 4
#define TIMES 3
#define LIMIT_MS 240000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROUPS = 50, EACH = 20 };
#else
enum { GROUPS = 50, EACH = 200 };
#endif
enum { ROWS = GROUPS * EACH };

static const struct hf_test_shape fifo = {.columns = ", \"group\": \"grp\"", .settings = ", \"fifo\": true"};

static struct hf_test_child *start(const struct hf_test_fleet *fleet, const char *outcome)
{
    return hf_test_fleet_start(fleet, "--workers", "8", "--poll-ms", "100", "--handler", "uniform:0-5", "--outcome", outcome, NULL);
}

/* All are there before the first row, or the first of them would take most. */
static void start_all(struct hf_test_fleet *fleet, struct hf_test_child **workers, const char *outcome, size_t rows)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        workers[i] = start(fleet, outcome);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        hf_test_fleet_ready(workers[i]);
    }
    hf_test_fleet_add_groups(fleet, rows, GROUPS);
}

static bool is_empty(void *arg)
{
    hf_test_sleep_ms(100);
    return hf_test_jobs_count(arg, "1 = 1") == 0;
}

static void end_all(struct hf_test_fleet *fleet, struct hf_test_child **workers)
{
    if (!hf_test_wait_until(is_empty, &fleet->jobs, LIMIT_MS)) {
        hf_test_fail("%s, %s: %lld rows are left", hf__database_name(fleet->jobs.kind.database),
                     hf_strategy_name(fleet->jobs.kind.strategy), (long long)hf_test_jobs_count(&fleet->jobs, "1 = 1"));
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        hf_test_kill(workers[i], SIGTERM);
        hf_test_fleet_end(workers[i], LIMIT_MS);
    }
}

static size_t processes_in(const struct hf_test_ledger *ledger)
{
    size_t n = 0;
    for (size_t i = 0; i < ledger->n; i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++) {
            known = ledger->runs[k].pid == ledger->runs[i].pid;
        }
        n += !known;
    }
    return n;
}

static void check_order(const struct hf_test_ledger *ledger)
{
    hf_test_ledger_rows_apart(ledger);
    hf_test_ledger_keys_apart(ledger);
    hf_test_ledger_in_order(ledger);
    hf_test_ledger_all_ran(ledger, ROWS);
    CU_ASSERT_EQUAL(processes_in(ledger), PROCESSES);
}

/* ---- in order, three times in a row ---- */

static void drain_once(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    struct hf_test_child *workers[PROCESSES];
    hf_test_fleet_open(&fleet, kind, 30, fifo);
    start_all(&fleet, workers, "ack", ROWS);
    end_all(&fleet, workers);
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet.ledger);
    check_order(&ledger);
    hf_test_ledger_all_ran_once(&ledger, ROWS);
    hf_test_ledger_free(&ledger);
    hf_test_fleet_close(&fleet);
}

static void drain(enum hf__database database, hf_strategy strategy)
{
    for (int time = 0; time < TIMES; time++) {
        drain_once((struct hf_test_kind){database, strategy});
    }
}

static void row_lock_on_postgres(void)
{
    drain(HF__POSTGRES, HF_ROW_LOCK);
}

static void lease_on_postgres(void)
{
    drain(HF__POSTGRES, HF_LEASE);
}

static void row_lock_on_mariadb(void)
{
    drain(HF__MYSQL, HF_ROW_LOCK);
}

static void lease_on_mariadb(void)
{
    drain(HF__MYSQL, HF_LEASE);
}

static void lease_on_sqlite(void)
{
    drain(HF__SQLITE, HF_LEASE);
}

/* ---- what may disturb the order ---- */

static const struct hf_test_kind kinds[] = {
    {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE}, {HF__MYSQL, HF_ROW_LOCK}, {HF__MYSQL, HF_LEASE}, {HF__SQLITE, HF_LEASE},
};

/* The runs of a row read 1, 2, .. in a line, and the last of them acked it. */
static void check_attempts(const struct hf_test_ledger *ledger)
{
    int64_t next[ROWS + 1];
    for (size_t id = 0; id <= ROWS; id++) {
        next[id] = 1;
    }
    for (size_t i = 0; i < ledger->n; i++) {
        const struct hf_test_entry *run = &ledger->runs[i];
        int64_t *expected = &next[strtoll(run->id, NULL, 10)];
        if (run->attempt != (*expected)++) {
            hf_test_fail("row %s reads attempt %lld, not %lld", run->id, (long long)run->attempt, (long long)*expected - 1);
        }
    }
}

/* Every third run asks for another: the row stays at the head of its group. */
static void retries_on(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    struct hf_test_child *workers[PROCESSES];
    hf_test_fleet_open(&fleet, kind, 30, fifo);
    start_all(&fleet, workers, "retry:33", ROWS / 2);
    end_all(&fleet, workers);
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet.ledger);
    hf_test_ledger_keys_apart(&ledger);
    hf_test_ledger_in_order(&ledger);
    hf_test_ledger_all_ran(&ledger, ROWS / 2);
    check_attempts(&ledger);
    CU_ASSERT(ledger.n > ROWS / 2 + ROWS / 10);
    hf_test_ledger_free(&ledger);
    hf_test_fleet_close(&fleet);
}

static void retries(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        retries_on(kinds[i]);
    }
}

/* kill -9 of a process in the middle of its groups, and two in its place (case 56). */
static void killed_on(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    struct hf_test_child *workers[PROCESSES];
    hf_test_fleet_open(&fleet, kind, 2, fifo);
    start_all(&fleet, workers, "ack", ROWS / 2);
    hf_test_fleet_wait_ended(&fleet, ROWS / 10, LIMIT_MS);
    pid_t victim = hf_test_pid(workers[0]);
    int64_t dead_ns = hf__monotonic_ns();
    hf_test_kill(workers[0], SIGKILL);
    CU_ASSERT_EQUAL(hf_test_wait(workers[0], LIMIT_MS), HF_TEST_SIGNALLED + SIGKILL);
    hf_test_free(workers[0]);
    workers[0] = start(&fleet, "ack");
    struct hf_test_child *another = start(&fleet, "ack");
    hf_test_fleet_ready(workers[0]); /* before that a SIGTERM kills it */
    hf_test_fleet_ready(another);
    end_all(&fleet, workers);
    hf_test_kill(another, SIGTERM);
    hf_test_fleet_end(another, LIMIT_MS);
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet.ledger);
    hf_test_ledger_died(&ledger, victim, dead_ns);
    hf_test_ledger_keys_apart(&ledger);
    hf_test_ledger_in_order(&ledger);
    hf_test_ledger_all_ran(&ledger, ROWS / 2);
    hf_test_ledger_free(&ledger);
    hf_test_fleet_close(&fleet);
}

static void killed(void)
{
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        killed_on(kinds[i]);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"row lock on PostgreSQL", row_lock_on_postgres},
        {"lease on PostgreSQL", lease_on_postgres},
        {"row lock on MariaDB", row_lock_on_mariadb},
        {"lease on MariaDB", lease_on_mariadb},
        {"lease on SQLite", lease_on_sqlite},
        {"retries", retries},
        {"killed", killed},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_fifo", tests);
}
