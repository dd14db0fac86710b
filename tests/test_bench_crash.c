/* ctest: timeout=240 labels=e2e
 * What a crash costs, measured on each database: at once where a lock holds the row, the lease's length where a lease does; nothing stays
 * behind. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/crash.h"
#include "tests/bench_tables.h"

enum { LEASE_SECONDS = 3 };
/* "At once" is some milliseconds; on a busy machine it is more. */
#define AT_ONCE_MS (LEASE_SECONDS * 1000 - 1000)
#define LATE_MS 20000

static double crash(const char *url, hf_strategy strategy)
{
    struct bench_options options = {.url = url,
                                    .strategy = strategy,
                                    .has_strategy = true,
                                    .workers = 4,
                                    .batch = 1,
                                    .processes = 1,
                                    .lease_seconds = LEASE_SECONDS,
                                    .rate = 100,
                                    .fail = 0.5};
    hf_error err = {.status = HF_OK};
    double ms = -1;
    HF_TEST_OK(bench_crash(&options, &ms, &err), &err);
    CU_ASSERT(ms > 0);
    CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    return ms;
}

static void check_lease(const char *url)
{
    double ms = crash(url, HF_LEASE);
    if (ms < AT_ONCE_MS || ms > LEASE_SECONDS * 1000 + LATE_MS) {
        hf_test_fail("a row leased for %d s ran again after %.0f ms", LEASE_SECONDS, ms);
    }
}

static void check_lock(const char *url, hf_strategy strategy)
{
    double ms = crash(url, strategy);
    if (ms > AT_ONCE_MS) {
        hf_test_fail("under %s the row ran again only after %.0f ms", hf_strategy_name(strategy), ms);
    }
}

static void check_database(enum hf__database database)
{
    const char *url = hf_test_url(database);
    check_lease(url);
    if (hf_test_has_keys(database)) {
        check_lock(url, HF_ADVISORY_LOCK);
    }
    if (database != HF__SQLITE) {
        check_lock(url, HF_ROW_LOCK);
    }
    CU_ASSERT_EQUAL(hf_test_bench_tables(url, getpid()), 0);
}

static void on_postgres(void)
{
    check_database(HF__POSTGRES);
}

static void on_mysql(void)
{
    check_database(HF__MYSQL);
}

static void on_sqlite(void)
{
    check_database(HF__SQLITE);
}

static void what_fails_is_said(void)
{
    struct bench_options options = {.url = hf_test_sqlite_url(), .strategy = HF_ROW_LOCK, .workers = 1, .lease_seconds = LEASE_SECONDS};
    hf_error err = {.status = HF_OK};
    double ms = -1;
    CU_ASSERT_NOT_EQUAL(bench_crash(&options, &ms, &err), HF_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "row"));
    CU_ASSERT_EQUAL(ms, -1);
    CU_ASSERT_EQUAL(hf_test_bench_tables(options.url, getpid()), 0);
    options = (struct bench_options){.url = "sqlite:/nowhere/at/all.db", .strategy = HF_LEASE, .workers = 1, .lease_seconds = 1};
    CU_ASSERT_NOT_EQUAL(bench_crash(&options, &ms, &err), HF_OK);
    CU_ASSERT_EQUAL(ms, -1);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"a crash on PostgreSQL", on_postgres},
                           {"a crash on MariaDB", on_mysql},
                           {"a crash on SQLite", on_sqlite},
                           {"what fails is said", what_fails_is_said},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_crash", tests);
}
