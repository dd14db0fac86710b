/* ctest: timeout=60 labels=e2e
 * PostgreSQL's locking reads: a row that changes between the moment a claim saw it and the moment the claim locked it. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/bed.h"

enum { GATE = 471100 }; /* the lock that a claim stops at when it has read the first row */

struct claim {
    struct hf_test_bed *bed;
    struct hf__row *rows[4];
    size_t limit, n;
    hf_status status;
    hf_error err;
    pthread_t thread;
};

static void *run_claim(void *arg)
{
    struct claim *claim = arg;
    struct hf__claim ask = {.limit = claim->limit};
    claim->status =
        claim->bed->strategy->claim(claim->bed->plan, claim->bed->conn, &ask, hf_bed_soon(), claim->rows, &claim->n, &claim->err);
    return NULL;
}

static bool at_the_gate(void *admin)
{
    return hf_test_session_int(
               admin, hf_test_format("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %d AND NOT granted", GATE)) > 0;
}

/* A policy on the rows, which the table's owner is subject to and the administrator is not: whoever reads one passes the gate. */
static void put_up_gate(struct hf_test_bed *bed, struct hf__conn *admin)
{
    hf_bed_sql(bed,
               hf_test_format("CREATE FUNCTION @_gate() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_lock_shared(%d); "
                              "PERFORM pg_advisory_unlock_shared(%d); RETURN true; END'",
                              GATE, GATE));
    hf_bed_sql(bed, "CREATE POLICY gate ON @ USING (@_gate())");
    hf_bed_sql(bed, "ALTER TABLE @ ENABLE ROW LEVEL SECURITY");
    hf_bed_sql(bed, "ALTER TABLE @ FORCE ROW LEVEL SECURITY");
    hf_test_session_run(admin, hf_test_format("SELECT pg_advisory_lock(%d)", GATE));
}

static void free_rows(struct claim *claim)
{
    for (size_t i = 0; i < claim->n; i++)
        hf__row_free(claim->rows[i]);
}

/* Row 1 changes so in the moment; expected is what the claim then gets. */
static void in_the_moment(const char *change, size_t limit, size_t n_expected, int64_t first_id, bool one_is_free)
{
    struct hf_test_bed bed;
    hf_bed_open(&bed, HF__POSTGRES,
                ", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\" }");
    hf_bed_sql(&bed, "INSERT INTO @ (id, retry_after) SELECT n, now() - interval '1 hour' FROM generate_series(1, 3) AS n");
    const char *url = getenv("HF_TEST_POSTGRES_ADMIN_URL");
    if (!url)
        hf_test_fail("HF_TEST_POSTGRES_ADMIN_URL is not set: sh tests/run.sh sets it");
    struct hf__conn *admin = hf_test_session(url), *watch = hf_test_session(url);
    put_up_gate(&bed, admin);
    struct claim claim = {.bed = &bed, .limit = limit};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&claim.thread, NULL, run_claim, &claim), 0);
    if (!hf_test_wait_until(at_the_gate, watch, 10000))
        hf_test_fail("the claim does not come to the gate");
    hf_test_session_run(watch, hf_bed_text(&bed, change));
    hf_test_session_run(admin, hf_test_format("SELECT pg_advisory_unlock(%d)", GATE));
    pthread_join(claim.thread, NULL);
    HF_TEST_OK(claim.status, &claim.err);
    CU_ASSERT_EQUAL(claim.n, n_expected);
    if (claim.n > 0)
        CU_ASSERT_EQUAL(claim.rows[0]->id.i, first_id);
    const char *lock = hf_bed_text(&bed, "SELECT count(*) FROM (SELECT 1 FROM @ WHERE id = 1 FOR UPDATE SKIP LOCKED) AS free");
    CU_ASSERT_EQUAL(hf_test_session_int(watch, lock), one_is_free ? 1 : 0);
    free_rows(&claim);
    HF_TEST_OK(hf__conn_rollback(bed.conn, hf_bed_soon(), NULL), NULL);
    hf__conn_close(admin);
    hf__conn_close(watch);
    hf_bed_sql(&bed, "DROP POLICY gate ON @");
    hf_bed_sql(&bed, "DROP FUNCTION @_gate()");
    hf_bed_close(&bed);
}

static void put_back_later(void)
{
    in_the_moment("UPDATE @ SET retry_after = now() + interval '1 hour' WHERE id = 1", 1, 1, 2, true);
    in_the_moment("UPDATE @ SET retry_after = now() + interval '1 hour' WHERE id = 1", 4, 2, 2, true);
}

static void put_back_at_once(void)
{
    in_the_moment("UPDATE @ SET attempt = 2 WHERE id = 1", 1, 1, 1, false);
}

static void gone(void)
{
    in_the_moment("DELETE FROM @ WHERE id = 1", 1, 1, 2, false);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"put back later", put_back_later},
        {"put back at once", put_back_at_once},
        {"gone", gone},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "row_lock", tests);
}
