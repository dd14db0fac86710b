/* ctest: labels=server
 * "clock": "database": every now is the database's own, whatever the host's clock says. */
#include <stdio.h>
#include <string.h>

#include "tests/bed.h"
#include "tests/jobs.h"

#define COLUMNS "\"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\""
static const char *const described[] = {
    [HF__ROW_LOCK] = ", \"columns\": { " COLUMNS ", \"processed_at\": \"processed_at\" }",
    [HF__LEASE] = NULL,
    [HF__ADVISORY_LOCK] = ", \"columns\": { " COLUMNS ", \"processed_at\": \"processed_at\" }, \"advisory_lock\": \"@-{id}\"",
};

#define SECOND INT64_C(1000000)
#define HOUR (3600 * SECOND)

static void for_each(void (*check)(enum hf__database database, enum hf__strategy_kind kind))
{
    static const enum hf__strategy_kind kinds[] = {HF__ROW_LOCK, HF__ADVISORY_LOCK};
    for (size_t d = 0; d < hf_bed_n_databases; d++)
        for (size_t k = 0; k < 2; k++)
            if (hf_bed_offers(hf_bed_databases[d], kinds[k]))
                check(hf_bed_databases[d], kinds[k]);
}

static const char *rest_of(enum hf__strategy_kind kind)
{
    return hf_test_format("%s, \"clock\": \"database\"", described[kind]);
}

/* Makes our own clock wrong by so much. */
static void skew(struct hf_test_bed *bed, int64_t by_us)
{
    int64_t now_us = hf__clock_now_us(bed->clock), now_ns = hf__monotonic_ns();
    hf__clock_free(bed->clock);
    HF_TEST_OK(hf__clock_new(&bed->clock, &bed->err), &bed->err);
    hf__clock_sample(bed->clock, now_ns, now_ns, now_us + by_us);
    hf_bed_plan(bed, NULL, 0);
}

/* Microseconds from the database's now until the time in a column of the only row. */
static int64_t ahead_us(const struct hf_test_bed *bed, const char *column)
{
    static const char *const asked[] = {
        [HF__POSTGRES] = "SELECT (extract(epoch FROM %s - statement_timestamp()) * 1000000)::bigint FROM @",
        [HF__MYSQL] = "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), %s) FROM @",
        [HF__SQLITE] = "SELECT CAST((julianday(%s) - julianday('now')) * 86400000000 AS INTEGER) FROM @",
    };
    char sql[200];
    const char *at = strstr(asked[bed->database], "%s");
    (void)snprintf(sql, sizeof sql, "%.*s%s%s", (int)(at - asked[bed->database]), asked[bed->database], column, at + 2);
    return hf_bed_int(bed, sql);
}

static void enqueue(struct hf_test_bed *bed, const struct hf__job *job)
{
    HF_TEST_OK(hf__insert_jobs(bed->other, bed->table, job, 1, hf__clock_now_us(bed->clock), NULL, hf_bed_soon(), &bed->err), &bed->err);
}

/* With our clock an hour fast nothing runs early, and with one an hour slow nothing late. */
static void check_due(enum hf__database database, enum hf__strategy_kind kind)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    struct hf__counts counts;
    hf_bed_open(&bed, database, rest_of(kind));
    skew(&bed, HOUR);
    enqueue(&bed, &(struct hf__job){.delay_us = 600 * SECOND});
    int64_t ahead = ahead_us(&bed, "retry_after");
    CU_ASSERT_TRUE(ahead > 590 * SECOND && ahead <= 601 * SECOND);
    CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, &row), 0);
    HF_TEST_OK(hf__plan_count(bed.plan, bed.other, hf_bed_soon(), &counts, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(counts.delayed, 1);
    hf_bed_sql(&bed, "DELETE FROM @");
    skew(&bed, -2 * HOUR);
    enqueue(&bed, &(struct hf__job){.delay_us = 0});
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__ACK, NULL), HF_OK);
    ahead = ahead_us(&bed, "processed_at");
    CU_ASSERT_TRUE(ahead > -10 * SECOND && ahead <= 0);
    hf_bed_close(&bed);
}

static void test_due(void)
{
    for_each(check_due);
}

/* A delay counts from the settle by the database's clock, though a row lock's transaction began before. */
static void check_delay(enum hf__database database, enum hf__strategy_kind kind)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    hf_bed_open(&bed, database, rest_of(kind));
    skew(&bed, HOUR);
    enqueue(&bed, &(struct hf__job){.delay_us = 0});
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    hf_test_sleep_ms(1500);
    struct hf__change change = {.row = row, .action = HF__RETRY_AFTER, .delay_us = 20 * SECOND};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, hf_bed_soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    hf__row_free(row);
    int64_t ahead = ahead_us(&bed, "retry_after");
    CU_ASSERT_TRUE(ahead > 19 * SECOND && ahead <= 20 * SECOND + 2000);
    CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, &row), 0);
    hf_bed_close(&bed);
}

static void test_delay(void)
{
    for_each(check_delay);
}

/* A column that keeps no microseconds gets the time rounded up: never due before what was asked. */
static void check_precision(enum hf__database database, unsigned digits)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    hf_bed_describe(&bed, database, ", \"columns\": { \"id\": \"id\", \"retry_after\": \"due\" }, \"clock\": \"database\"", false);
    hf_bed_sql(&bed,
               hf_test_format("CREATE TABLE @ (id INTEGER NOT NULL PRIMARY KEY, due %s(%u) NULL, asked %s(6) NULL)",
                              database == HF__MYSQL ? "DATETIME" : "timestamp", digits, database == HF__MYSQL ? "DATETIME" : "timestamp"));
    hf_bed_plan(&bed, NULL, 0);
    const char *now = database == HF__MYSQL ? "UTC_TIMESTAMP(6)" : "clock_timestamp() AT TIME ZONE 'UTC'";
    for (int i = 0; i < 30; i++) {
        hf_bed_sql(&bed, "DELETE FROM @");
        hf_bed_sql(&bed, "INSERT INTO @ (id) VALUES (1)");
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        const char *before = hf_test_session_text(bed.other, hf_test_format("SELECT CAST(%s AS CHAR(26))", now));
        struct hf__change change = {.row = row, .action = HF__RETRY_AFTER, .delay_us = SECOND};
        HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, hf_bed_soon(), &bed.err), &bed.err);
        hf__row_free(row);
        hf_bed_sql(&bed, hf_test_format("UPDATE @ SET asked = %s'%s' + INTERVAL %s", database == HF__MYSQL ? "" : "TIMESTAMP ", before,
                                        database == HF__MYSQL ? "1 SECOND" : "'1 second'"));
        CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE due >= asked"), 1);
    }
    hf_bed_close(&bed);
}

static void test_precision(void)
{
    static const unsigned digits[] = {0, 1, 3, 5};
    for (size_t i = 0; i < sizeof digits / sizeof digits[0]; i++) {
        check_precision(HF__POSTGRES, digits[i]);
        check_precision(HF__MYSQL, digits[i]);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"due and processed", test_due},
        {"delays count from the settle", test_delay},
        {"delays are rounded up", test_precision},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "clock_database", tests);
}
