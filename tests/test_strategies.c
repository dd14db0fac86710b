/* The three strategies straight on connections, without a runtime, on every database that offers them. */
#include <stdlib.h>
#include <string.h>

#include "pool/driver.h"
#include "strategies/strategy.h"
#include "tests/session.h"
#include "tests/support.h"

/* ---- a table of the test's own, a plan on it, two connections ---- */

struct bed {
    enum hf__database database;
    const char *url, *table_name;
    struct hf_table *table;
    struct hf__clock *clock;
    struct hf__plan *plan;
    const struct hf__strategy *strategy;
    struct hf__conn *conn, *other;
    hf_error err;
};

static const enum hf__database databases[] = {HF__POSTGRES, HF__MYSQL, HF__SQLITE};
#define FOR_EACH_DATABASE(d) for (size_t d = 0; d < sizeof databases / sizeof databases[0]; d++)

static struct hf__deadline soon(void)
{
    return hf__after_ms(30000);
}

static void create_table(struct bed *bed)
{
    char **statements;
    size_t n;
    HF_TEST_OK(hf__ddl(bed->table, bed->database, &statements, &n, &bed->err), &bed->err);
    for (size_t i = 0; i < n; i++) {
        hf_test_sql(bed->url, statements[i]);
        free(statements[i]);
    }
    free(statements);
}

/* rest: what the description says beside the table's name, from its first comma on. */
static void open_bed_with(struct bed *bed, enum hf__database database, const char *rest, bool create)
{
    memset(bed, 0, sizeof *bed);
    bed->database = database;
    bed->url = hf_test_url(database);
    bed->table_name = hf_test_scratch("strategies");
    const char *json = hf_test_format("{ \"table\": \"%s\"%s }", bed->table_name, rest);
    HF_TEST_OK(hf__table_parse(json, strlen(json), &bed->table, &bed->err), &bed->err);
    if (create)
        create_table(bed);
    bed->conn = hf_test_session(bed->url);
    bed->other = hf_test_session(bed->url);
    HF_TEST_OK(hf__clock_new(&bed->clock, &bed->err), &bed->err);
    HF_TEST_OK(hf__clock_measure(bed->clock, bed->conn, soon(), &bed->err), &bed->err);
}

static void open_plan_of(struct bed *bed, const char *const *groups, size_t n_groups)
{
    struct hf__plan_options options = {.clock = bed->clock, .groups = groups, .n_groups = n_groups};
    HF_TEST_OK(hf__plan_open(bed->conn, bed->table, &options, soon(), &bed->plan, &bed->err), &bed->err);
    bed->strategy = hf__plan_strategy(bed->plan);
}

static void open_plan(struct bed *bed)
{
    open_plan_of(bed, NULL, 0);
}

static void open_bed(struct bed *bed, enum hf__database database, const char *rest)
{
    open_bed_with(bed, database, rest, true);
    open_plan(bed);
}

static void close_bed(struct bed *bed)
{
    hf__plan_close(bed->plan);
    hf__conn_close(bed->conn);
    hf__conn_close(bed->other);
    hf__clock_free(bed->clock);
    hf__table_free(bed->table);
    hf_test_sql(bed->url, hf_test_format("DROP TABLE %s", bed->table_name));
}

static void put(struct bed *bed, const char *payload, const char *account)
{
    struct hf__value bytes = hf__bytes(payload, strlen(payload));
    struct hf__field field = {.column = "account", .value = hf__text(account)};
    struct hf__job job = {.payload = &bytes, .fields = &field, .n_fields = account ? 1 : 0};
    HF_TEST_OK(hf__insert_jobs(bed->other, bed->table, &job, 1, hf__clock_now_us(bed->clock), NULL, soon(), &bed->err), &bed->err);
}

static size_t claim(struct bed *bed, struct hf__conn *conn, size_t limit, struct hf__row **rows)
{
    size_t n = 0;
    struct hf__claim ask = {.limit = limit};
    HF_TEST_OK(bed->strategy->claim(bed->plan, conn, &ask, soon(), rows, &n, &bed->err), &bed->err);
    return n;
}

static hf_status settle(struct bed *bed, struct hf__conn *conn, struct hf__row *row, enum hf__action action, int64_t delay_us,
                        const char *reason)
{
    struct hf__change change = {
        .row = row, .action = action, .delay_us = delay_us, .reason = reason, .reason_len = reason ? strlen(reason) : 0};
    hf_status status = bed->strategy->settle(bed->plan, conn, &change, 1, soon(), &bed->err);
    return status != HF_OK ? status : change.status;
}

static int64_t count_rows(struct bed *bed)
{
    return hf_test_query_int(bed->url, hf_test_format("SELECT COUNT(*) FROM %s", bed->table_name));
}

static int64_t stored_attempt(struct bed *bed)
{
    return hf_test_query_int(bed->url, hf_test_format("SELECT attempt FROM %s", bed->table_name));
}

#define ROLES \
    "\"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\", \"last_error\": \"last_error\""
static const char lease[] = ", \"columns\": { " ROLES ", \"locked_until\": \"locked_until\" }";
static const char row_lock[] = ", \"columns\": { " ROLES " }";
static const char advisory[] = ", \"columns\": { " ROLES " }, \"advisory_lock\": \"accounts-{account}\"";

static const char *const described[] = {row_lock, lease, advisory};

static bool offered(enum hf__database database, size_t kind)
{
    return kind == HF__ADVISORY_LOCK ? hf_test_has_keys(database) : kind == HF__LEASE || database != HF__SQLITE;
}

/* ---- what every strategy does ---- */

static void check_outcomes(enum hf__database database, size_t kind)
{
    struct bed bed;
    struct hf__row *rows[4];
    open_bed(&bed, database, described[kind]);
    bool counts_at_claim = kind != HF__ROW_LOCK;
    const char *account = kind == HF__ADVISORY_LOCK ? "a" : NULL;

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 0);
    put(&bed, "one", account);

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
    CU_ASSERT_EQUAL(rows[0]->attempt, 1);
    CU_ASSERT_EQUAL(rows[0]->payload.s.len, 3);
    CU_ASSERT_STRING_EQUAL(rows[0]->payload.s.data, "one");
    struct hf__row *none[1];
    CU_ASSERT_EQUAL(claim(&bed, bed.other, 1, none), 0);
    CU_ASSERT_EQUAL(stored_attempt(&bed), counts_at_claim ? 2 : 1);

    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__UNBEGUN, 0, NULL), HF_OK);
    hf__row_free(rows[0]);
    CU_ASSERT_EQUAL(stored_attempt(&bed), 1);

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
    CU_ASSERT_EQUAL(rows[0]->attempt, 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__RETRY, 0, "no luck"), HF_OK);
    hf__row_free(rows[0]);
    CU_ASSERT_STRING_EQUAL(hf_test_query_text(bed.url, hf_test_format("SELECT last_error FROM %s", bed.table_name)), "no luck");

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
    CU_ASSERT_EQUAL(rows[0]->attempt, 2);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__GIVE_BACK, 0, NULL), HF_OK);
    hf__row_free(rows[0]);
    CU_ASSERT_EQUAL(stored_attempt(&bed), counts_at_claim ? 3 : 2);

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__RETRY_AFTER, 60000000, NULL), HF_OK);
    hf__row_free(rows[0]);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, rows), 0);
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET retry_after = '2020-01-01 00:00:00'", bed.table_name));

    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__ACK, 0, NULL), HF_OK);
    hf__row_free(rows[0]);
    CU_ASSERT_EQUAL(count_rows(&bed), 0);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
    CU_ASSERT_FALSE(bed.conn->retire || bed.conn->lost);
    close_bed(&bed);
}

static void test_outcomes(void)
{
    FOR_EACH_DATABASE(d)
    for (size_t kind = 0; kind < 3; kind++)
        if (offered(databases[d], kind))
            check_outcomes(databases[d], kind);
}

/* ---- row lock ---- */

/* A claim locks what it takes and no more, however small the table is. */
static void check_small_table(enum hf__database database, const char *const *groups, size_t n_groups)
{
    enum { N = 24, FEW = 3 };
    struct bed bed;
    struct hf__row *rows[N];
    open_bed_with(&bed, database, ", \"columns\": { " ROLES ", \"group\": \"queue\" }", true);
    for (int i = 0; i < N; i++)
        hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (queue, retry_after) VALUES ('%s', '2020-01-01 00:00:00')", bed.table_name,
                                            i % 2 ? "a" : "b"));
    (void)hf_test_query_text(bed.url, hf_test_format("ANALYZE %s %s", database == HF__MYSQL ? "TABLE" : "", bed.table_name));
    open_plan_of(&bed, groups, n_groups);
    size_t ours = n_groups == 1 ? N / 2 : N;
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, FEW, rows), FEW);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.other, N, rows + FEW), ours - FEW);
    for (size_t i = 0; i < ours; i++)
        hf__row_free(rows[i]);
    HF_TEST_OK(hf__conn_rollback(bed.other, soon(), &bed.err), &bed.err);
    HF_TEST_OK(hf__conn_rollback(bed.conn, soon(), &bed.err), &bed.err);
    close_bed(&bed);
}

static void test_small_tables(void)
{
    static const char *const groups[] = {"a", "b"};
    FOR_EACH_DATABASE(d)
    for (size_t n = 0; n <= 2; n++)
        if (offered(databases[d], HF__ROW_LOCK))
            check_small_table(databases[d], groups, n);
}

/* ---- lease ---- */

static void check_tokens(enum hf__database database)
{
    struct bed bed;
    struct hf__row *rows[8];
    hf_status statuses[8];
    open_bed(&bed, database, lease);
    for (int i = 0; i < 8; i++)
        put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 8, rows), 8);
    for (size_t i = 1; i < 8; i++)
        CU_ASSERT_TRUE(hf__value_compare(&rows[i - 1]->id, &rows[i]->id) < 0);

    int64_t first = rows[0]->token_us;
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 8, statuses, soon(), &bed.err), &bed.err);
    for (size_t i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL(statuses[i], HF_OK);
        CU_ASSERT_TRUE(rows[i]->token_us > first);
    }

    /* row 0 is taken away from outside: its renewal and its settle say so, and its neighbours do not notice */
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = NULL WHERE id = %s", bed.table_name, rows[0]->id_text));
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 8, statuses, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(statuses[0], HF_LEASE_LOST);
    for (size_t i = 1; i < 8; i++)
        CU_ASSERT_EQUAL(statuses[i], HF_OK);

    struct hf__change changes[8] = {0};
    for (size_t i = 0; i < 8; i++)
        changes[i] = (struct hf__change){.row = rows[7 - i], .action = HF__ACK};
    changes[3].action = HF__RETRY; /* row 4 */
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, changes, 8, soon(), &bed.err), &bed.err);
    for (size_t i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(changes[i].status, i == 7 ? HF_LEASE_LOST : HF_OK);
    CU_ASSERT_EQUAL(count_rows(&bed), 2);

    /* what was settled is not ours any more: a second settle of any of them changes nothing */
    for (size_t i = 0; i < 8; i++)
        changes[i].action = HF__ACK;
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, changes, 8, soon(), &bed.err), &bed.err);
    for (size_t i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(changes[i].status, HF_LEASE_LOST);
    CU_ASSERT_EQUAL(count_rows(&bed), 2);
    for (size_t i = 0; i < 8; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_tokens(void)
{
    FOR_EACH_DATABASE(d) check_tokens(databases[d]);
}

/* A row that we lost and claimed again is in one group twice: the later claim alone is renewed and settled. */
static void check_twice_in_a_group(enum hf__database database)
{
    struct bed bed;
    struct hf__row *lost, *now, *neighbour;
    hf_status statuses[3];
    open_bed(&bed, database, lease);
    put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &lost), 1);
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = NULL", bed.table_name));
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &now), 1);
    put(&bed, "y", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &neighbour), 1);
    for (size_t first = 0; first < 2; first++) {
        struct hf__row *rows[3] = {first ? now : lost, first ? lost : now, neighbour};
        HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 3, statuses, soon(), &bed.err), &bed.err);
        CU_ASSERT_EQUAL(statuses[first], HF_LEASE_LOST);
        CU_ASSERT_EQUAL(statuses[!first], HF_OK);
        CU_ASSERT_EQUAL(statuses[2], HF_OK);
    }
    struct hf__change changes[3] = {
        {.row = lost, .action = HF__ACK}, {.row = now, .action = HF__ACK}, {.row = neighbour, .action = HF__ACK}};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, changes, 3, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(changes[0].status, HF_LEASE_LOST);
    CU_ASSERT_EQUAL(changes[1].status, HF_OK);
    CU_ASSERT_EQUAL(changes[2].status, HF_OK);
    CU_ASSERT_EQUAL(count_rows(&bed), 0);
    hf__row_free(lost);
    hf__row_free(now);
    hf__row_free(neighbour);
    close_bed(&bed);
}

static void test_twice_in_a_group(void)
{
    FOR_EACH_DATABASE(d) check_twice_in_a_group(databases[d]);
}

/* More rows than one list holds, of which one is gone. */
static void check_large_group(enum hf__database database)
{
    enum { N = 600 };
    struct bed bed;
    static struct hf__row *rows[N];
    static struct hf__change changes[N];
    static struct hf__job jobs[N];
    open_bed(&bed, database, lease);
    struct hf__value payload = hf__bytes("p", 1);
    for (size_t i = 0; i < N; i++)
        jobs[i] = (struct hf__job){.payload = &payload};
    HF_TEST_OK(hf__insert_jobs(bed.other, bed.table, jobs, N, hf__clock_now_us(bed.clock), NULL, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, N, rows), N);
    hf_test_sql(bed.url, hf_test_format("DELETE FROM %s WHERE id = %s", bed.table_name, rows[300]->id_text));
    for (size_t i = 0; i < N; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = HF__ACK};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, changes, N, soon(), &bed.err), &bed.err);
    for (size_t i = 0; i < N; i++)
        CU_ASSERT_EQUAL(changes[i].status, i == 300 ? HF_LEASE_LOST : HF_OK);
    CU_ASSERT_EQUAL(count_rows(&bed), 0);
    for (size_t i = 0; i < N; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_large_group(void)
{
    FOR_EACH_DATABASE(d) check_large_group(databases[d]);
}

/* A row that the database refuses to change does not keep the others from settling. */
static void check_bad_neighbour(enum hf__database database)
{
    struct bed bed;
    struct hf__row *rows[4];
    if (database == HF__SQLITE)
        return; /* its columns refuse nothing */
    open_bed(&bed, database, lease);
    for (int i = 0; i < 4; i++)
        put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 4, rows), 4);
    hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s ADD CONSTRAINT fear CHECK (last_error <> 'bad')", bed.table_name));
    struct hf__change changes[4] = {0};
    for (size_t i = 0; i < 4; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = HF__ACK};
    changes[2] = (struct hf__change){.row = rows[2], .action = HF__RETRY, .reason = "bad", .reason_len = 3};
    CU_ASSERT_EQUAL(bed.strategy->settle(bed.plan, bed.conn, changes, 4, soon(), &bed.err), HF_DATABASE);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(changes[i].status, i == 2 ? HF_DATABASE : HF_OK);
    CU_ASSERT_EQUAL(count_rows(&bed), 1);
    for (size_t i = 0; i < 4; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_bad_neighbour(void)
{
    FOR_EACH_DATABASE(d) check_bad_neighbour(databases[d]);
}

/* A renewal passes over a row that someone has locked, and the row stays ours. */
static void check_renewal_passes_over(enum hf__database database)
{
    struct bed bed;
    struct hf__row *rows[2];
    hf_status statuses[2];
    if (database == HF__SQLITE)
        return; /* no row locks */
    open_bed(&bed, database, lease);
    put(&bed, "x", NULL);
    put(&bed, "y", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 2, rows), 2);
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    HF_TEST_OK(hf__conn_exec(bed.other, hf_test_format("UPDATE %s SET payload = 'z' WHERE id = %s", bed.table_name, rows[0]->id_text),
                             soon(), &bed.err),
               &bed.err);
    int64_t before = hf_test_now_ms();
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 2, statuses, soon(), &bed.err), &bed.err);
    CU_ASSERT_TRUE(hf_test_now_ms() - before < 20000);
    CU_ASSERT_EQUAL(statuses[0], HF_BUSY);
    CU_ASSERT_EQUAL(statuses[1], HF_OK);
    HF_TEST_OK(hf__conn_rollback(bed.other, soon(), &bed.err), &bed.err);
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 2, statuses, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(statuses[0], HF_OK);
    for (size_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[i], HF__ACK, 0, NULL), HF_OK);
    for (size_t i = 0; i < 2; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_renewal_passes_over(void)
{
    FOR_EACH_DATABASE(d) check_renewal_passes_over(databases[d]);
}

/* After a renewal or a settle whose answer never came the row is read again. */
static void check_lost_answers(enum hf__database database)
{
    struct bed bed;
    struct hf__row *rows[3];
    open_bed(&bed, database, lease);
    for (int i = 0; i < 3; i++)
        put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 3, rows), 3);

    /* the renewal took effect, and we do not know: the other token settles */
    hf_status status;
    int64_t old = rows[0]->token_us;
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, rows, 1, &status, soon(), &bed.err), &bed.err);
    rows[0]->other_token_us = rows[0]->token_us;
    rows[0]->token_us = old;
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__ACK, 0, NULL), HF_OK);
    /* it did not: ours does */
    rows[1]->other_token_us = rows[1]->token_us + 12345678;
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[1], HF__ACK, 0, NULL), HF_OK);

    /* a settle that may have taken effect: it had */
    struct hf__change change = {.row = rows[1], .action = HF__ACK, .uncertain = true};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    HF_TEST_OK(bed.strategy->resolve(bed.plan, bed.other, &change, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    /* it had not: still ours */
    change = (struct hf__change){.row = rows[2], .action = HF__ACK};
    HF_TEST_OK(bed.strategy->resolve(bed.plan, bed.other, &change, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_TRANSIENT);
    for (size_t i = 0; i < 3; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_lost_answers(void)
{
    FOR_EACH_DATABASE(d) check_lost_answers(databases[d]);
}

/* Every precision of the column, with and without an attempt: no false loss, and no two claims of a row share a token. */
static void check_precision(const char *type, bool with_attempt, enum hf__database database)
{
    struct bed bed;
    const char *rest = with_attempt ? ", \"columns\": { \"id\": \"id\", \"attempt\": \"attempt\", \"locked_until\": \"locked_until\" }"
                                    : ", \"columns\": { \"id\": \"id\", \"locked_until\": \"locked_until\" }";
    open_bed_with(&bed, database, rest, false);
    hf_test_sql(bed.url, hf_test_format(
                             "CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY, attempt SMALLINT NOT NULL DEFAULT 1, locked_until %s NULL)",
                             bed.table_name, type));
    hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (id) VALUES (7)", bed.table_name));
    open_plan(&bed);
    for (int round = 0; round < 3; round++) {
        struct hf__row *first, *second;
        hf_status status;
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &first), 1);
        HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, &first, 1, &status, soon(), &bed.err), &bed.err);
        CU_ASSERT_EQUAL(status, HF_OK);
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, first, HF__RETRY, 0, NULL), HF_OK);
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &second), 1);
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, first, HF__ACK, 0, NULL), HF_LEASE_LOST); /* within the same second */
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, second, HF__RETRY, 0, NULL), HF_OK);
        hf__row_free(first);
        hf__row_free(second);
    }
    close_bed(&bed);
}

static void test_precision(void)
{
    static const char *const postgres[] = {"timestamp(0)", "timestamptz(0)", "timestamp(3)", "timestamptz(3)", "timestamp", "timestamptz"};
    static const char *const mysql[] = {"DATETIME",     "DATETIME(1)",  "DATETIME(3)", "DATETIME(6)",
                                        "TIMESTAMP(0)", "TIMESTAMP(2)", "TIMESTAMP(6)"};
    for (size_t i = 0; i < sizeof postgres / sizeof postgres[0]; i++)
        check_precision(postgres[i], true, HF__POSTGRES);
    for (size_t i = 0; i < sizeof mysql / sizeof mysql[0]; i++)
        check_precision(mysql[i], true, HF__MYSQL);
    for (size_t i = 2; i < sizeof postgres / sizeof postgres[0]; i++)
        check_precision(postgres[i], false, HF__POSTGRES);
    check_precision("DATETIME(3)", false, HF__MYSQL);
    check_precision("DATETIME(6)", false, HF__MYSQL);
    check_precision("TEXT", true, HF__SQLITE);
    check_precision("TEXT", false, HF__SQLITE);
}

/* ---- advisory lock ---- */

static void check_keys(enum hf__database database)
{
    struct bed bed;
    struct hf__row *a, *b, *c;
    if (!hf_test_has_keys(database))
        return;
    open_bed(&bed, database, advisory);
    put(&bed, "a1", "A");
    put(&bed, "a2", "A");
    put(&bed, "b1", "a"); /* another key, though a collation may not think so */
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &a), 1);
    CU_ASSERT_STRING_EQUAL(a->payload.s.data, "a1");
    CU_ASSERT_STRING_EQUAL(a->key, "accounts-A");
    struct hf__conn *third = hf_test_session(bed.url);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.other, 1, &b), 1);
    CU_ASSERT_STRING_EQUAL(b->payload.s.data, "b1");
    CU_ASSERT_EQUAL(claim(&bed, third, 1, &c), 0);
    CU_ASSERT_EQUAL(settle(&bed, bed.other, b, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(b);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, a, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(a);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, third, 1, &c), 1);
    CU_ASSERT_STRING_EQUAL(c->payload.s.data, "a2");
    CU_ASSERT_EQUAL(settle(&bed, third, c, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(c);
    hf__conn_close(third);
    close_bed(&bed);
}

static void test_keys(void)
{
    FOR_EACH_DATABASE(d) check_keys(databases[d]);
}

/* A busy key with many rows in front hides nobody. */
static void check_busy_key(enum hf__database database)
{
    enum { N = 500 };
    struct bed bed;
    struct hf__row *a, *b;
    static struct hf__job jobs[N];
    struct hf__field busy = {.column = "account", .value = hf__text("busy")};
    if (!hf_test_has_keys(database))
        return;
    open_bed(&bed, database, advisory);
    for (size_t i = 0; i < N; i++)
        jobs[i] = (struct hf__job){.fields = &busy, .n_fields = 1};
    HF_TEST_OK(hf__insert_jobs(bed.other, bed.table, jobs, N, hf__clock_now_us(bed.clock), NULL, soon(), &bed.err), &bed.err);
    put(&bed, "free", "free");
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &a), 1);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.other, 1, &b), 1);
    CU_ASSERT_STRING_EQUAL(b->key, "accounts-free");
    CU_ASSERT_EQUAL(settle(&bed, bed.other, b, HF__ACK, 0, NULL), HF_OK);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, a, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(a);
    hf__row_free(b);
    close_bed(&bed);
}

static void test_busy_key(void)
{
    FOR_EACH_DATABASE(d) check_busy_key(databases[d]);
}

/* Held by another process: simulated by a session of our own that locks what the derivation says. */
static void test_key_vector_on_postgres(void)
{
    struct bed bed;
    struct hf__row *row;
    if (!hf_test_has_keys(HF__POSTGRES))
        return;
    open_bed(&bed, HF__POSTGRES, advisory);
    put(&bed, "x", "42");
    hf_error err;
    HF_TEST_OK(hf__conn_exec(bed.other, "SELECT pg_advisory_lock(hashtextextended('accounts-42', 0))", soon(), &err), &err);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
    HF_TEST_OK(hf__conn_exec(bed.other, "SELECT pg_advisory_unlock_all()", soon(), &err), &err);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    close_bed(&bed);
    CU_ASSERT_EQUAL(hf_test_query_int(hf_test_postgres_url(), "SELECT hashtextextended('accounts-42' COLLATE \"C\", 0)"),
                    6605618745965273815);
}

static void test_key_vector_on_mysql(void)
{
    struct bed bed;
    struct hf__row *row;
    open_bed(&bed, HF__MYSQL, advisory);
    put(&bed, "x", "42");
    HF_TEST_OK(hf__conn_exec(bed.other, "DO GET_LOCK('holdfast.accounts-42', 0)", soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
    HF_TEST_OK(hf__conn_exec(bed.other, "DO RELEASE_LOCK('holdfast.accounts-42')", soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    close_bed(&bed);
}

static void test_long_keys(void)
{
    static const char *const tails[] = {"", "x", "\xf0\x9f\x90\x98"};
    struct bed bed;
    struct hf__row *rows[3];
    struct hf__conn *conns[3];
    open_bed(&bed, HF__MYSQL, advisory);
    for (size_t i = 0; i < 3; i++) { /* they differ only past character 64 */
        put(&bed, "x", hf_test_format("%0100d%s", 7, tails[i]));
        conns[i] = hf_test_session(bed.url);
    }
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(claim(&bed, conns[i], 1, &rows[i]), 1);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(settle(&bed, conns[i], rows[i], HF__ACK, 0, NULL), HF_OK);
        CU_ASSERT_FALSE(conns[i]->retire);
        hf__row_free(rows[i]);
        hf__conn_close(conns[i]);
    }
    close_bed(&bed);
}

/* A key that renders to NULL or to nothing is never a lock on nothing: the row is left out and can be counted. */
static void check_keyless(enum hf__database database)
{
    struct bed bed;
    struct hf__row *row;
    size_t count;
    char *example;
    if (!hf_test_has_keys(database))
        return;
    open_bed_with(&bed, database, ", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{account}\"", false);
    hf_test_sql(bed.url, hf_test_format("CREATE TABLE %s (id INTEGER NOT NULL PRIMARY KEY, account VARCHAR(20))", bed.table_name));
    hf_test_sql(bed.url, hf_test_format("INSERT INTO %s VALUES (1, NULL), (2, ''), (3, 'k')", bed.table_name));
    open_plan(&bed);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_STRING_EQUAL(row->id_text, "3");
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
    HF_TEST_OK(hf__plan_keyless(bed.plan, bed.conn, soon(), &count, &example, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(count, 2);
    CU_ASSERT_PTR_NOT_NULL(example);
    free(example);
    close_bed(&bed);
}

static void test_keyless(void)
{
    FOR_EACH_DATABASE(d) check_keyless(databases[d]);
}

/* ---- ids, names, reasons ---- */

static void check_ids(enum hf__database database, const char *type, const char *const *ids, size_t n)
{
    for (size_t kind = 0; kind < 2; kind++) {
        struct bed bed;
        struct hf__row *row;
        if (!offered(database, kind))
            continue;
        open_bed_with(&bed, database, described[kind], false);
        hf_test_sql(bed.url,
                    hf_test_format("CREATE TABLE %s (id %s NOT NULL PRIMARY KEY, payload VARCHAR(10), attempt INTEGER NOT NULL DEFAULT 1,"
                                   " retry_after %s, locked_until %s NULL, last_error VARCHAR(50))",
                                   bed.table_name, type,
                                   database == HF__SQLITE  ? "TEXT"
                                   : database == HF__MYSQL ? "DATETIME(6)"
                                                           : "timestamptz",
                                   database == HF__SQLITE  ? "TEXT"
                                   : database == HF__MYSQL ? "DATETIME(6)"
                                                           : "timestamptz"));
        for (size_t i = 0; i < n; i++)
            hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (id) VALUES (%s)", bed.table_name, ids[i]));
        open_plan(&bed);
        for (size_t i = 0; i < 3 * n; i++) { /* every row: retried twice, then done */
            CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
            CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, row->attempt < 3 ? HF__RETRY : HF__ACK, 0, "no"), HF_OK);
            hf__row_free(row);
        }
        CU_ASSERT_EQUAL(count_rows(&bed), 0);
        close_bed(&bed);
    }
}

static void test_ids(void)
{
    static const char *const whole[] = {"2147483647", "2147483648", "4294967296", "9223372036854775807", "0", "-1", "-9223372036854775808"};
    static const char *const whole_unsigned[] = {"1", "9223372036854775808", "18446744073709551615"};
    static const char *const text[] = {"'a'", "'O''Brien'", "'back\\slash'", "'{\"x\",y}'", "'naive'"};
    static const char *const uuid[] = {"'5f0c1c1e-0f5c-4a5e-9d6c-2f1f0a9b7c11'", "'00000000-0000-0000-0000-000000000000'"};
    FOR_EACH_DATABASE(d) check_ids(databases[d], "BIGINT", whole, 7);
    check_ids(HF__MYSQL, "BIGINT UNSIGNED", whole_unsigned, 3);
    check_ids(HF__POSTGRES, "text", text, 5);
    check_ids(HF__MYSQL, "VARCHAR(40)", text, 5);
    check_ids(HF__SQLITE, "TEXT", text, 5);
    check_ids(HF__POSTGRES, "uuid", uuid, 2);
    check_ids(HF__MYSQL, hf_test_is_mariadb() ? "UUID" : "CHAR(36)", uuid, 2);
    check_ids(HF__POSTGRES, "smallint", whole + 4, 2);
    check_ids(HF__POSTGRES, "bytea", (const char *const[]){"'\\x00ff5c22'"}, 1);
    check_ids(HF__MYSQL, "BINARY(4)", (const char *const[]){"x'00ff5c22'"}, 1);
}

/* An attempt column at its end neither overflows nor stops the claims. */
static void test_attempt_full(void)
{
    for (size_t kind = 0; kind < 2; kind++) {
        struct bed bed;
        struct hf__row *row;
        open_bed(&bed, HF__POSTGRES, described[kind]);
        hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s ALTER attempt TYPE smallint", bed.table_name));
        hf__plan_close(bed.plan);
        open_plan(&bed);
        put(&bed, "x", NULL);
        hf_test_sql(bed.url, hf_test_format("UPDATE %s SET attempt = 32767", bed.table_name));
        for (int i = 0; i < 3; i++) {
            CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
            CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__RETRY, 0, NULL), HF_OK);
            hf__row_free(row);
        }
        close_bed(&bed);
    }
}

static void check_reasons(enum hf__database database)
{
    struct bed bed;
    struct hf__row *row;
    open_bed(&bed, database, lease);
    put(&bed, "x", NULL);
    size_t huge = 20 * 1024 * 1024;
    char *reason = malloc(huge);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reason);
    memset(reason, 'e', huge);
    memcpy(reason, "a\0b\xff\xc3\xa9", 6);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    struct hf__change change = {.row = row, .action = HF__RETRY, .reason = reason, .reason_len = huge};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    const char *stored = hf_test_query_text(bed.url, hf_test_format("SELECT last_error FROM %s", bed.table_name));
    CU_ASSERT_EQUAL(strlen(stored), 65535);
    CU_ASSERT_EQUAL(strncmp(stored,
                            "a?b?\xc3\xa9"
                            "e",
                            7),
                    0);
    free(reason);
    hf__row_free(row);
    close_bed(&bed);
}

static void test_reasons(void)
{
    FOR_EACH_DATABASE(d) check_reasons(databases[d]);
}

/* processed_at: an ack marks the row, a marked row is never claimed, and counts know it. */
static void check_processed(enum hf__database database, size_t kind)
{
    static const char *const rests[] = {
        ", \"columns\": { " ROLES ", \"processed_at\": \"processed_at\" }",
        ", \"columns\": { " ROLES ", \"locked_until\": \"locked_until\", \"processed_at\": \"processed_at\" }",
        ", \"columns\": { " ROLES ", \"processed_at\": \"processed_at\" }, \"advisory_lock\": \"{account}\""};
    struct bed bed;
    struct hf__row *row;
    struct hf__counts counts;
    bool pending;
    const char *account = kind == HF__ADVISORY_LOCK ? "a" : NULL;
    open_bed(&bed, database, rests[kind]);
    put(&bed, "x", account);
    put(&bed, "y", account);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    HF_TEST_OK(hf__plan_count(bed.plan, bed.other, soon(), &counts, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(counts.processed, 1);
    CU_ASSERT_EQUAL(counts.in_work, kind == HF__LEASE ? 1 : -1);
    HF_TEST_OK(hf__plan_pending(bed.plan, bed.other, soon(), &pending, &bed.err), &bed.err);
    CU_ASSERT_TRUE(pending);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__REJECT, 0, "never"), HF_OK);
    hf__row_free(row);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
    HF_TEST_OK(hf__plan_pending(bed.plan, bed.other, soon(), &pending, &bed.err), &bed.err);
    CU_ASSERT_FALSE(pending);
    CU_ASSERT_EQUAL(count_rows(&bed), 2);
    CU_ASSERT_EQUAL(hf_test_query_int(bed.url, hf_test_format("SELECT COUNT(*) FROM %s WHERE last_error = 'never'", bed.table_name)), 1);
    close_bed(&bed);
}

static void test_processed(void)
{
    FOR_EACH_DATABASE(d)
    for (size_t kind = 0; kind < 3; kind++)
        if (offered(databases[d], kind))
            check_processed(databases[d], kind);
}

/* ---- what a breaker proved ---- */

/* One row that someone has locked does not hold up, nor lose, the others of its group; it is settled when it is free. */
static void check_locked_in_group(enum hf__database database)
{
    enum { N = 6 };
    struct bed bed;
    struct hf__row *rows[N];
    struct hf__change changes[N] = {{0}};
    if (database == HF__SQLITE)
        return; /* no row locks */
    open_bed(&bed, database, lease);
    for (int i = 0; i < N; i++)
        put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, N, rows), N);
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    HF_TEST_OK(hf__conn_exec(bed.other, hf_test_format("UPDATE %s SET payload = 'z' WHERE id = %s", bed.table_name, rows[2]->id_text),
                             soon(), &bed.err),
               &bed.err);
    for (size_t i = 0; i < N; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = HF__ACK};
    int64_t before = hf_test_now_ms();
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, changes, N, soon(), &bed.err), &bed.err);
    CU_ASSERT_TRUE(hf_test_now_ms() - before < 20000);
    for (size_t i = 0; i < N; i++)
        CU_ASSERT_EQUAL(changes[i].status, i == 2 ? HF_TRANSIENT : HF_OK);
    HF_TEST_OK(hf__conn_rollback(bed.other, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[2], HF__ACK, 0, NULL), HF_OK);
    CU_ASSERT_EQUAL(hf_test_query_int(bed.url, hf_test_format("SELECT COUNT(*) FROM %s WHERE locked_until IS NOT NULL", bed.table_name)),
                    0);
    for (size_t i = 0; i < N; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_locked_in_group(void)
{
    FOR_EACH_DATABASE(d) check_locked_in_group(databases[d]);
}

/* A renewal that was sent and not answered may take effect late: neither token is forgotten before that is known. */
static void check_late_renewal(enum hf__database database)
{
    struct bed bed;
    struct hf__row *row;
    hf_status status;
    if (database == HF__SQLITE)
        return; /* a statement there has ended when its call has */
    open_bed(&bed, database, lease);
    put(&bed, "x", NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    /* another session plays the renewal whose commit is slow */
    char late[HF__TIME_TEXT];
    row->other_token_us = row->token_us + 5000000;
    hf__time_format(row->other_token_us, late);
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    HF_TEST_OK(hf__conn_exec(bed.other, hf_test_format("UPDATE %s SET locked_until = '%s'", bed.table_name, late), soon(), &bed.err),
               &bed.err);
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, &row, 1, &status, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(status, HF_BUSY);
    HF_TEST_OK(hf__conn_commit(bed.other, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__RETRY, 0, NULL), HF_OK);
    hf__row_free(row);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    close_bed(&bed);
}

static void test_late_renewal(void)
{
    FOR_EACH_DATABASE(d) check_late_renewal(databases[d]);
}

/* With a time limit that the answer cannot come within; longer where not even the statement is sent before it has passed. */
static void resolve_briefly(struct bed *bed, struct hf__change *change)
{
    hf_status status = HF_TIMEOUT;
    for (int64_t ms = 400; status == HF_TIMEOUT && ms <= 30000; ms *= 2)
        status = bed->strategy->resolve(bed->plan, bed->other, change, hf__after_ms(ms), &bed->err);
    HF_TEST_OK(status, &bed->err);
}

/* While the old session lives, its commit may still come: only then is it known what became of the row. */
static void check_late_commit(enum hf__database database, size_t kind)
{
    struct bed bed;
    struct hf__row *row;
    if (!offered(database, kind) || kind == HF__LEASE || database == HF__SQLITE)
        return;
    open_bed(&bed, database, described[kind]);
    put(&bed, "x", kind == HF__ADVISORY_LOCK ? "a" : NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    struct hf__change change = {.row = row, .action = HF__ACK};
    /* the row, or the key, is still held on bed.conn, as by a session whose commit is on its way */
    resolve_briefly(&bed, &change);
    CU_ASSERT_EQUAL(change.status, HF_UNKNOWN);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    HF_TEST_OK(bed.strategy->resolve(bed.plan, bed.other, &change, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    CU_ASSERT_FALSE(bed.other->retire);
    hf__row_free(row);
    /* and when the old session is gone without having settled, that is known, too */
    put(&bed, "y", kind == HF__ADVISORY_LOCK ? "a" : NULL);
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__GIVE_BACK, 0, NULL), HF_OK);
    change = (struct hf__change){.row = row, .action = HF__ACK};
    HF_TEST_OK(bed.strategy->resolve(bed.plan, bed.other, &change, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_LOST);
    hf__row_free(row);
    close_bed(&bed);
}

static void test_late_commit(void)
{
    FOR_EACH_DATABASE(d)
    for (size_t kind = 0; kind < 3; kind++)
        check_late_commit(databases[d], kind);
}

/* However many keys are held elsewhere, what is free is found. */
static void check_many_keys_held(enum hf__database database, size_t n)
{
    struct bed bed;
    struct hf__row *row;
    open_bed(&bed, database, advisory);
    struct hf__conn *holder = hf_test_session(bed.url);
    for (size_t i = 0; i < n; i++) {
        put(&bed, "held", hf_test_format("k%zu", i));
        hf_test_session_run(holder, database == HF__POSTGRES
                                        ? hf_test_format("SELECT pg_advisory_lock(hashtextextended('accounts-k%zu', 0))", i)
                                        : hf_test_format("DO GET_LOCK('holdfast.accounts-k%zu', 0)", i));
    }
    put(&bed, "free", "free");
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_STRING_EQUAL(row->key, "accounts-free");
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
    hf__row_free(row);
    CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
    hf__conn_close(holder);
    close_bed(&bed);
}

static void test_many_keys_held(void)
{
    if (hf_test_has_keys(HF__POSTGRES))
        check_many_keys_held(HF__POSTGRES, 300);
    check_many_keys_held(HF__MYSQL, 300);
}

/* A table that inherits has rows in the same places, and with the same ids: they are not ours. */
static void test_inheritance(void)
{
    for (size_t kind = 0; kind < 3; kind++) {
        struct bed bed;
        struct hf__row *row;
        if (!offered(HF__POSTGRES, kind))
            continue;
        open_bed(&bed, HF__POSTGRES, described[kind]);
        const char *child = hf_test_format("%s_child", bed.table_name);
        hf_test_sql(bed.url, hf_test_format("CREATE TABLE %s () INHERITS (%s)", child, bed.table_name));
        put(&bed, "parent's", kind == HF__ADVISORY_LOCK ? "a" : NULL);
        hf_test_sql(bed.url, hf_test_format("INSERT INTO %s SELECT * FROM ONLY %s", child, bed.table_name));
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_EQUAL(hf_test_query_int(bed.url, hf_test_format("SELECT attempt FROM %s", child)), 1);
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0, NULL), HF_OK);
        hf__row_free(row);
        CU_ASSERT_EQUAL(claim(&bed, bed.conn, 1, &row), 0);
        CU_ASSERT_EQUAL(hf_test_query_int(bed.url, hf_test_format("SELECT COUNT(*) FROM ONLY %s", child)), 1);
        hf_test_sql(bed.url, hf_test_format("DROP TABLE %s", child));
        close_bed(&bed);
    }
}

/* Ids that partitions share: refused aloud, never more rows than were asked for. */
static void test_shared_ids(void)
{
    struct bed bed;
    struct hf__row *rows[2];
    size_t n = 0;
    if (!hf_test_has_keys(HF__POSTGRES))
        return; /* nor had partitioned tables a primary key then */
    open_bed_with(&bed, HF__POSTGRES, lease, false);
    hf_test_sql(bed.url,
                hf_test_format(
                    "CREATE TABLE %s (id bigint, part integer, payload bytea, attempt integer NOT NULL DEFAULT 1, retry_after timestamptz"
                    " NOT NULL DEFAULT now(), locked_until timestamptz, last_error text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
                    bed.table_name));
    for (int part = 0; part < 3; part++) {
        hf_test_sql(bed.url,
                    hf_test_format("CREATE TABLE %s_%d PARTITION OF %s FOR VALUES IN (%d)", bed.table_name, part, bed.table_name, part));
        hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (id, part) VALUES (1, %d), (%d, %d)", bed.table_name, part, 10 + part, part));
    }
    open_plan(&bed);
    struct hf__claim ask = {.limit = 1};
    CU_ASSERT_EQUAL(bed.strategy->claim(bed.plan, bed.conn, &ask, soon(), rows, &n, &bed.err), HF_DATABASE);
    CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "not unique"));
    hf_test_sql(bed.url, hf_test_format("DELETE FROM %s WHERE id = 1", bed.table_name));
    for (int i = 0; i < 3; i++) { /* ids that are unique work */
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, rows), 1);
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, rows[0], HF__ACK, 0, NULL), HF_OK);
        hf__row_free(rows[0]);
    }
    CU_ASSERT_EQUAL(count_rows(&bed), 0);
    close_bed(&bed);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"outcomes", test_outcomes},
                           {"small tables", test_small_tables},
                           {"tokens", test_tokens},
                           {"twice in a group", test_twice_in_a_group},
                           {"large group", test_large_group},
                           {"bad neighbour", test_bad_neighbour},
                           {"renewal passes over locked rows", test_renewal_passes_over},
                           {"lost answers", test_lost_answers},
                           {"precision of locked_until", test_precision},
                           {"keys", test_keys},
                           {"busy key", test_busy_key},
                           {"key vector on PostgreSQL", test_key_vector_on_postgres},
                           {"key vector on MySQL", test_key_vector_on_mysql},
                           {"long keys", test_long_keys},
                           {"rows without a key", test_keyless},
                           {"ids of every kind", test_ids},
                           {"attempt at its limit", test_attempt_full},
                           {"reasons", test_reasons},
                           {"processed_at", test_processed},
                           {"a locked row in a group", test_locked_in_group},
                           {"a renewal that comes late", test_late_renewal},
                           {"a commit that comes late", test_late_commit},
                           {"many keys held elsewhere", test_many_keys_held},
                           {"tables that inherit", test_inheritance},
                           {"partitions that share ids", test_shared_ids},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "strategies", tests);
}
