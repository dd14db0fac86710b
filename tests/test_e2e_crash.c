/* ctest: timeout=240 labels=e2e
 * kill -9 while a handler runs. Under row lock and advisory lock the row runs again at once, under a lease when that is over. The
 * next delivery reads the attempt that the strategy's rule gives it. */
#include <signal.h>

#include "pool/deadline.h"
#include "tests/fleet.h"

#define LEASE_SECONDS 5
#define LIMIT_MS 60000
/* "At once" is milliseconds; on a busy machine it is more. */
#define AT_ONCE_MS 30000

static struct hf_test_child *start_heir(const struct hf_test_fleet *fleet)
{
    struct hf_test_child *heir =
        hf_test_fleet_start(fleet, "--workers", "2", "--poll-ms", "50", "--handler", "ms:1", "--until-empty", NULL);
    hf_test_fleet_ready(heir);
    return heir;
}

/* How long the lease of row 1 still lasts, by the database's clock. */
static int64_t lease_left_ns(const struct hf_test_fleet *fleet)
{
    static const char *const left_us[] = {
        [HF__POSTGRES] = "(extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint",
        [HF__MYSQL] = "timestampdiff(MICROSECOND, utc_timestamp(6), locked_until)",
        [HF__SQLITE] = "CAST((julianday(locked_until) - julianday('now')) * 86400000000 AS INTEGER)",
    };
    const char *sql = hf_test_format("SELECT %s FROM %s WHERE id = 1", left_us[fleet->jobs.kind.database], fleet->jobs.name);
    return hf_test_query_int(fleet->jobs.url, sql) * 1000;
}

/* When row 1 may run again at the earliest, and by when it must. */
struct when {
    int64_t earliest_ns, latest_ns;
};

static struct when kill_now(const struct hf_test_fleet *fleet, struct hf_test_child *victim)
{
    bool leased = fleet->jobs.kind.strategy == HF_LEASE;
    int64_t lease_ns = leased ? LEASE_SECONDS * 1000000000LL : 0;
    int64_t asked_ns = hf__monotonic_ns();
    int64_t left_ns = leased ? lease_left_ns(fleet) : 0;
    int64_t killed_ns = hf__monotonic_ns();
    hf_test_kill(victim, SIGKILL);
    CU_ASSERT_EQUAL(hf_test_wait(victim, LIMIT_MS), HF_TEST_SIGNALLED + SIGKILL);
    CU_ASSERT(!leased || left_ns > 0);
    return (struct when){leased ? asked_ns + left_ns : killed_ns, killed_ns + lease_ns + AT_ONCE_MS * 1000000LL};
}

/* The heir passes over the row while its handler runs: it does another one. */
static struct hf_test_child *start_beside(struct hf_test_fleet *fleet)
{
    struct hf_test_child *heir = start_heir(fleet);
    hf_test_fleet_add(fleet, 1);
    hf_test_fleet_wait_ended(fleet, 1, LIMIT_MS);
    return heir;
}

static void check(const struct hf_test_fleet *fleet, pid_t victim, struct when when)
{
    int64_t attempt = fleet->jobs.kind.strategy == HF_ROW_LOCK ? 1 : 2;
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    const struct hf_test_entry *first = hf_test_ledger_run_of(&ledger, 1, 0);
    const struct hf_test_entry *second = hf_test_ledger_run_of(&ledger, 1, 1);
    CU_ASSERT_FATAL(first && second);
    CU_ASSERT_EQUAL(first->pid, victim);
    CU_ASSERT_EQUAL(first->attempt, 1);
    CU_ASSERT(second->pid != victim);
    CU_ASSERT_EQUAL(second->attempt, attempt);
    if (second->begin_ns < when.earliest_ns || second->begin_ns > when.latest_ns) {
        hf_test_fail("the row ran again %lld ms after it might, and had to within %lld ms",
                     (long long)(second->begin_ns - when.earliest_ns) / 1000000, (long long)(when.latest_ns - when.earliest_ns) / 1000000);
    }
    CU_ASSERT_PTR_NULL(hf_test_ledger_run_of(&ledger, 1, 2));
    hf_test_ledger_free(&ledger);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet->jobs, "1 = 1"), 0);
}

static void crash_on(struct hf_test_kind kind)
{
    /* There one process serves a file, so the heir comes when the victim is gone: its keys are free. */
    bool alone = kind.database == HF__SQLITE && kind.strategy == HF_ADVISORY_LOCK;
    struct hf_test_fleet fleet;
    hf_test_fleet_open(&fleet, kind, LEASE_SECONDS, (struct hf_test_shape){.n_keys = 0});
    hf_test_fleet_add(&fleet, 1);
    struct hf_test_child *victim = hf_test_fleet_start(&fleet, "--workers", "1", "--handler", "hang", NULL);
    hf_test_fleet_wait_begun(&fleet, 1, LIMIT_MS);
    struct hf_test_child *heir = alone ? NULL : start_beside(&fleet);
    struct when when = kill_now(&fleet, victim);
    pid_t pid = hf_test_pid(victim);
    hf_test_free(victim);
    hf_test_fleet_end(alone ? start_heir(&fleet) : heir, LIMIT_MS);
    check(&fleet, pid, when);
    hf_test_fleet_close(&fleet);
}

static void on(hf_strategy strategy)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].strategy == strategy) {
            crash_on(hf_test_kinds[i]);
        }
    }
}

static void row_lock(void)
{
    on(HF_ROW_LOCK);
}

static void lease(void)
{
    on(HF_LEASE);
}

static void advisory_lock(void)
{
    on(HF_ADVISORY_LOCK);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"row lock", row_lock},
        {"lease", lease},
        {"advisory lock", advisory_lock},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_crash", tests);
}
