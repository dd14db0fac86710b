/* FIFO groups straight on connections, without a runtime: lease and row lock on every database that offers them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/driver.h"
#include "strategies/strategy.h"
#include "tests/session.h"
#include "tests/support.h"

/* ---- a table of the test's own, a plan on it, two connections ---- */

enum { LEASE = 1, PRIORITY = 2, PROCESSED = 4, DEAD = 8 };

struct bed {
    enum hf__database database;
    unsigned has;
    const char *url, *name;
    struct hf_table *table;
    struct hf__clock *clock;
    struct hf__plan *plan;
    const struct hf__strategy *strategy;
    struct hf__conn *conn, *other;
    hf_error err;
};

struct kind {
    enum hf__database database;
    unsigned has;
};
static const struct kind kinds[] = {{HF__SQLITE, LEASE}, {HF__POSTGRES, 0}, {HF__POSTGRES, LEASE}, {HF__MYSQL, 0}, {HF__MYSQL, LEASE}};
#define FOR_EACH_KIND(kind) for (const struct kind *kind = kinds; kind < kinds + sizeof kinds / sizeof kinds[0]; kind++)

static struct hf__deadline soon(void)
{
    return hf__after_ms(20000);
}

static const char *description(const struct bed *bed)
{
    return hf_test_format("{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", "
                          "\"retry_after\": \"retry_after\", \"group\": \"grp\"%s%s%s }, \"fifo\": true%s%s }",
                          bed->name, bed->has & LEASE ? ", \"locked_until\": \"locked_until\"" : "",
                          bed->has & PRIORITY ? ", \"priority\": \"priority\"" : "",
                          bed->has & PROCESSED ? ", \"processed_at\": \"processed_at\"" : "",
                          bed->has & LEASE ? ", \"lease_seconds\": 1" : "",
                          bed->has & DEAD ? ", \"dead_letter\": { \"group\": \"dead\" }" : "");
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

static void open_bed(struct bed *bed, enum hf__database database, unsigned has)
{
    memset(bed, 0, sizeof *bed);
    bed->database = database;
    bed->has = has;
    bed->url = hf_test_url(database);
    bed->name = hf_test_scratch("fifo");
    const char *json = description(bed);
    HF_TEST_OK(hf__table_parse(json, strlen(json), &bed->table, &bed->err), &bed->err);
    create_table(bed);
    bed->conn = hf_test_session(bed->url);
    bed->other = hf_test_session(bed->url);
    HF_TEST_OK(hf__clock_new(&bed->clock, &bed->err), &bed->err);
    HF_TEST_OK(hf__clock_measure(bed->clock, bed->conn, soon(), &bed->err), &bed->err);
}

static void open_plan(struct bed *bed, const char *const *groups, size_t n_groups)
{
    struct hf__plan_options options = {.groups = groups, .n_groups = n_groups, .clock = bed->clock};
    hf__plan_close(bed->plan);
    HF_TEST_OK(hf__plan_open(bed->conn, bed->table, &options, soon(), &bed->plan, &bed->err), &bed->err);
    bed->strategy = hf__plan_strategy(bed->plan);
}

static void open_all(struct bed *bed, enum hf__database database, unsigned has)
{
    open_bed(bed, database, has);
    open_plan(bed, NULL, 0);
}

static void close_bed(struct bed *bed)
{
    hf__plan_close(bed->plan);
    hf__conn_close(bed->conn);
    hf__conn_close(bed->other);
    hf__clock_free(bed->clock);
    hf__table_free(bed->table);
    hf_test_sql(bed->url, hf_test_format("DROP TABLE %s", bed->name));
}

static const char *moment(enum hf__database database, int seconds)
{
    if (database == HF__POSTGRES)
        return hf_test_format("now() + interval '%d seconds'", seconds);
    if (database == HF__MYSQL)
        return hf_test_format("UTC_TIMESTAMP(6) + INTERVAL %d SECOND", seconds);
    return hf_test_format("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%d seconds')", seconds);
}

/* A row with this id, of this group (NULL: none), due in so many seconds. */
static void put(const struct bed *bed, int id, const char *group, int due)
{
    const char *quoted = group ? hf_test_format("'%s'", group) : "NULL";
    hf_test_sql(bed->url, hf_test_format("INSERT INTO %s (id, grp, payload, retry_after) VALUES (%d, %s, 'x', %s)", bed->name, id, quoted,
                                         moment(bed->database, due)));
}

static size_t claim(struct bed *bed, struct hf__conn *conn, size_t limit, struct hf__row **rows)
{
    size_t n = 0;
    struct hf__claim ask = {.limit = limit};
    HF_TEST_OK(bed->strategy->claim(bed->plan, conn, &ask, soon(), rows, &n, &bed->err), &bed->err);
    return n;
}

static hf_status settle(struct bed *bed, struct hf__conn *conn, struct hf__row *row, enum hf__action action, int64_t delay_us)
{
    struct hf__change change = {.row = row, .action = action, .delay_us = delay_us};
    hf_status status = bed->strategy->settle(bed->plan, conn, &change, 1, soon(), &bed->err);
    hf__row_free(row);
    return status != HF_OK ? status : change.status;
}

/* The claim must find exactly this row; 0: nothing. */
static struct hf__row *expect(struct bed *bed, struct hf__conn *conn, int id)
{
    struct hf__row *rows[1] = {NULL};
    size_t n = claim(bed, conn, 1, rows);
    int64_t found = 0;
    if (n > 0)
        (void)hf__value_int(&rows[0]->id, &found);
    if (found != id)
        hf_test_fail("database %d, roles %u: the claim found row %lld instead of row %d", (int)bed->database, bed->has, (long long)found, id);
    return rows[0];
}

static void expect_acked(struct bed *bed, struct hf__conn *conn, int id)
{
    struct hf__row *row = expect(bed, conn, id);
    CU_ASSERT_EQUAL_FATAL(settle(bed, conn, row, HF__ACK, 0), HF_OK);
}

/* ---- order ---- */

static void check_order(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    expect(&bed, bed.conn, 0);
    put(&bed, 1, "a", -30);
    put(&bed, 2, "a", -30);
    put(&bed, 3, "b", -20);
    put(&bed, 4, "a", -40);

    struct hf__row *first = expect(&bed, bed.conn, 4);
    struct hf__row *second = expect(&bed, bed.other, 3); /* nothing more of a */
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, first, HF__RETRY, 0), HF_OK); /* stays the head */
    first = expect(&bed, bed.conn, 4);
    CU_ASSERT_EQUAL(first->attempt, 2);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, first, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.conn, 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.other, second, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.conn, 2);
    expect(&bed, bed.conn, 0);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
    CU_ASSERT_FALSE(bed.conn->retire || bed.conn->lost || bed.other->retire || bed.other->lost);
    close_bed(&bed);
}

static void test_order(void)
{
    FOR_EACH_KIND (kind) {
        check_order(kind->database, kind->has);
        check_order(kind->database, kind->has | PROCESSED);
        check_order(kind->database, kind->has | PRIORITY | PROCESSED);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a group is run in claim order, one row at a time", test_order},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "fifo", tests);
}
