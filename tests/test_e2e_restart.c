/* ctest: timeout=300 labels=e2e,slow serial
 * The server is restarted, and then killed and started again, while two processes work: they go on by themselves, nothing is lost,
 * and no row is run by two at once while a session or a lease holds it. Serial, because other suites share the server. */
#include "pool/deadline.h"
#include "tests/fleet.h"

#define ROWS 1500
#define STRETCH 200 /* rows between two blows */
#define LIMIT_MS 60000

static size_t ended(const struct hf_test_fleet *fleet)
{
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    size_t n = hf_test_ledger_ended(&ledger);
    hf_test_ledger_free(&ledger);
    return n;
}

struct blow {
    int64_t from_ns, to_ns;
};

/* Waits for some work, takes the server away in mid-run, and brings it back. */
static struct blow strike(const struct hf_test_fleet *fleet, const char *action)
{
    const char *server = fleet->jobs.kind.database == HF__POSTGRES ? "postgres" : "mariadb";
    hf_test_fleet_wait_ended(fleet, ended(fleet) + STRETCH, LIMIT_MS);
    struct blow blow = {.from_ns = hf__monotonic_ns()};
    hf_test_server(action, server);
    blow.to_ns = hf__monotonic_ns();
    bool in_mid_run = ended(fleet) < ROWS;
    hf_test_server("start", server);
    CU_ASSERT(in_mid_run);
    return blow;
}

static void check(const struct hf_test_fleet *fleet, const struct blow blows[2])
{
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    hf_test_ledger_all_ran(&ledger, ROWS);
    for (size_t i = 0; i < 2 && fleet->jobs.kind.strategy != HF_LEASE; i++) {
        hf_test_ledger_cut(&ledger, blows[i].from_ns, blows[i].to_ns);
    }
    hf_test_ledger_rows_apart(&ledger);
    hf_test_ledger_free(&ledger);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet->jobs, "1 = 1"), 0);
}

static void restart_under(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    struct hf_test_child *workers[2];
    hf_test_fleet_open(&fleet, kind, 3, (struct hf_test_shape){.n_keys = 0});
    hf_test_fleet_add(&fleet, ROWS);
    for (size_t i = 0; i < 2; i++) {
        workers[i] = hf_test_fleet_start(&fleet, "--workers", "2", "--poll-ms", "50", "--handler", "uniform:2-5", "--until-empty", NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        hf_test_fleet_ready(workers[i]);
    }
    struct blow blows[2];
    blows[0] = strike(&fleet, "stop");
    blows[1] = strike(&fleet, "kill");
    for (size_t i = 0; i < 2; i++) {
        hf_test_fleet_end(workers[i], LIMIT_MS);
    }
    check(&fleet, blows);
    hf_test_fleet_close(&fleet);
}

static void on(enum hf__database database)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].database == database) {
            restart_under(hf_test_kinds[i]);
        }
    }
}

static void postgres(void)
{
    on(HF__POSTGRES);
}

static void mariadb(void)
{
    on(HF__MYSQL);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"postgres", postgres},
        {"mariadb", mariadb},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_restart", tests);
}
