/* ctest: timeout=120 labels=e2e
 * What a FIFO claim costs, statement by statement, with few and with many rows behind the heads: the databases' own counts of the pages
 * (PostgreSQL), index entries (MySQL) and steps (SQLite) of each statement as it is rendered. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/plan.h"
#include "tests/bed.h"

#if HOLDFAST_SQLITE
#include <sqlite3.h>
#endif

/* Groups, and rows of each: at first, and in the end; and those of one more group that stands in front and is blocked. */
enum { GROUPS = 50, FEW = 5, MANY = 120, BLOCKED = 1000 };

enum { HEADS, PENDING, GUARD, CLEAR, TAKE, STATEMENTS };
static const char *const names[STATEMENTS] = {
    [HEADS] = "the heads", [PENDING] = "is any head pending", [GUARD] = "the guard", [CLEAR] = "the end of leases", [TAKE] = "the take"};

struct kind {
    enum hf__database database;
    bool lease, full; /* full: with a priority, and with processed rows left in the table */
};

/* ---- rows ---- */

static const char *moment(enum hf__database database, const char *seconds)
{
    if (database == HF__POSTGRES)
        return hf_test_format("now() - interval '1 day' + (%s) * interval '1 second'", seconds);
    if (database == HF__MYSQL)
        return hf_test_format("UTC_TIMESTAMP(6) - INTERVAL 1 DAY + INTERVAL (%s) SECOND", seconds);
    return hf_test_format("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-1 day', (%s) || ' seconds')", seconds);
}

/* Rows with numbers from one to another in each of so many groups, whose names are made of prefix and number. */
static void fill(const struct hf_test_bed *bed, const char *prefix, int groups, int from, int to, bool processed)
{
    const char *due = moment(bed->database, "r.n");
    const char *group = hf_test_format(bed->database == HF__MYSQL ? "CONCAT('%s', g.n)" : "'%s' || g.n", prefix);
    hf_bed_sql(
        bed, hf_test_format("INSERT INTO @ (grp, payload, retry_after%s) WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g "
                            "WHERE n < %d), a(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM a WHERE n < 99), r(n) AS (SELECT 100 * a.n + "
                            "b.n FROM a CROSS JOIN a AS b) SELECT %s, 'x', %s%s FROM r CROSS JOIN g WHERE r.n >= %d AND r.n < %d",
                            processed ? ", processed_at" : "", groups, group, due, processed ? hf_test_format(", %s", due) : "", from, to));
}

static void fill_all(const struct hf_test_bed *bed, const struct kind *kind, int from, int to)
{
    fill(bed, "g", GROUPS, from, to, false);
    if (kind->full)
        fill(bed, "g", GROUPS, from, to, true);
}

static void analyze(const struct hf_test_bed *bed)
{
    if (bed->database == HF__MYSQL)
        (void)hf_bed_query(bed, "ANALYZE TABLE @");
    else
        hf_bed_sql(bed, "ANALYZE @");
}

/* A lease in a group's second row, over or not. */
static void lease(const struct hf_test_bed *bed, const char *group, const char *until)
{
    hf_bed_sql(bed, hf_test_format("UPDATE @ SET locked_until = %s WHERE id = (SELECT id FROM (SELECT id FROM @ WHERE grp = '%s' ORDER BY "
                                   "retry_after, id LIMIT 1 OFFSET 1) AS second)",
                                   moment(bed->database, until), group));
}

/* ---- what a statement costs ---- */

#if HOLDFAST_POSTGRES
static const char *literal(const struct hf__value *value)
{
    char time[HF__TIME_TEXT];
    if (value->type == HF__INT)
        return hf_test_format("%" PRId64, value->i);
    if (value->type == HF__TEXT)
        return hf_test_format("'%.*s'", (int)value->s.len, value->s.data);
    CU_ASSERT_EQUAL_FATAL(value->type, HF__TIME);
    hf__time_format(value->i, time);
    return hf_test_format("'%s+00'", time);
}

static int64_t pages_in(const char *explained)
{
    json_int_t hit = 0, read = 0;
    json_t *json = json_loads(explained, 0, NULL);
    CU_ASSERT_EQUAL_FATAL(json_unpack(json, "[{s:{s:I, s:I}}]", "Plan", "Shared Hit Blocks", &hit, "Shared Read Blocks", &read), 0);
    json_decref(json);
    return hit + read;
}

/* By a plan for any values, which is what a prepared statement may end with, and knows least. */
static int64_t postgres_pages(const struct hf_test_bed *bed, const struct hf__rendered *statement, const struct hf__args *args)
{
    const char *values = "", *name = hf_test_scratch("plan");
    for (size_t i = 0; i < statement->n_bound; i++)
        values = hf_test_format("%s%s%s", values, i ? ", " : "", literal(&args->one[statement->bound[i].param]));
    if (bed->conn->server.version >= 120000)
        hf_test_session_run(bed->conn, "SET LOCAL plan_cache_mode = force_generic_plan");
    hf_test_session_run(bed->conn, hf_test_format("PREPARE %s AS %s", name, statement->text));
    int64_t pages =
        pages_in(hf_test_session_text(bed->conn, hf_test_format("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE %s(%s)", name, values)));
    hf_test_session_run(bed->conn, hf_test_format("DEALLOCATE %s", name));
    return pages;
}
#endif

static void run(struct hf_test_bed *bed, const struct hf__rendered *statement, const struct hf__args *args)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = hf__sql_run(bed->conn, statement, args, &rows, hf_bed_soon(), &bed->err);
    hf__rows_free(&rows);
    HF_TEST_OK(status, &bed->err);
}

static int64_t mysql_reads_so_far(struct hf_test_bed *bed)
{
    struct hf__statement show = {.sql = "SHOW SESSION STATUS LIKE 'Handler_read%'"};
    struct hf__rows rows;
    int64_t sum = 0, one;
    hf__rows_init(&rows);
    hf_status status = hf__conn_run(bed->conn, &show, NULL, 0, &rows, hf_bed_soon(), &bed->err);
    for (size_t r = 0; r < rows.count; r++)
        sum += hf__value_int(hf__cell(&rows, r, 1), &one) ? one : 0;
    hf__rows_free(&rows);
    HF_TEST_OK(status, &bed->err);
    return sum;
}

/* Asking for the counts counts as well. */
static int64_t mysql_reads(struct hf_test_bed *bed, const struct hf__rendered *statement, const struct hf__args *args)
{
    int64_t before = mysql_reads_so_far(bed), begun = mysql_reads_so_far(bed);
    run(bed, statement, args);
    return mysql_reads_so_far(bed) - begun - (begun - before);
}

#if HOLDFAST_SQLITE
static int64_t sqlite_steps(struct hf_test_bed *bed, const struct hf__rendered *statement, const struct hf__args *args)
{
    sqlite3 *native = hf__conn_native(bed->conn);
    int64_t steps = 0;
    run(bed, statement, args);
    for (sqlite3_stmt *each = sqlite3_next_stmt(native, NULL); each; each = sqlite3_next_stmt(native, each)) {
        int own = sqlite3_stmt_status(each, SQLITE_STMTSTATUS_VM_STEP, 1);
        if (strcmp(sqlite3_sql(each), statement->text) == 0)
            steps += own;
    }
    return steps;
}
#endif

static int64_t cost_of(struct hf_test_bed *bed, const struct hf__rendered *statement, const struct hf__args *args)
{
    switch (bed->database) {
    case HF__POSTGRES:
#if HOLDFAST_POSTGRES
        return postgres_pages(bed, statement, args);
#endif
        break;
    case HF__MYSQL:
        return mysql_reads(bed, statement, args);
    case HF__SQLITE:
#if HOLDFAST_SQLITE
        return sqlite_steps(bed, statement, args);
#endif
        break;
    }
    return 0;
}

static struct hf__args arguments(const struct hf_test_bed *bed)
{
    struct hf__args args;
    int64_t now_us = hf__clock_now_us(bed->clock);
    hf__plan_args(bed->plan, &args, now_us);
    args.one[HF__P_EXPIRY] = hf__time_us(now_us + 60000000);
    args.one[HF__P_LIMIT] = hf__int(GROUPS);
    args.one[HF__P_OFFSET] = hf__int(0);
    args.one[HF__P_TABLE] = hf__text(bed->name);
    args.one[HF__P_HEADS] = hf__text(bed->database == HF__POSTGRES ? "{g1,g2,g3,g4,g5,g6,g7,g8}" : "g1");
    return args;
}

/* Of each statement that there is, in the order of a claim, all undone at the end. */
static void measure(struct hf_test_bed *bed, int64_t cost[STATEMENTS])
{
    const struct hf__statements *s = &bed->plan->sql;
    const struct hf__rendered *each[STATEMENTS] = {
        [HEADS] = &s->heads, [PENDING] = &s->pending_heads, [GUARD] = &s->guard, [CLEAR] = &s->clear, [TAKE] = &s->take_head};
    struct hf__args args = arguments(bed);
    HF_TEST_OK(hf__conn_begin(bed->conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, hf_bed_soon(), &bed->err), &bed->err);
    for (size_t i = 0; i < STATEMENTS; i++)
        cost[i] = each[i]->text ? cost_of(bed, each[i], &args) : 0;
    HF_TEST_OK(hf__conn_rollback(bed->conn, hf_bed_soon(), &bed->err), &bed->err);
}

/* ---- with few rows, and with many ---- */

/* An index grows by a level or two, which is nothing beside 24 times the rows. A row lock's guard on MySQL reads its own group. The groups
 * are found there by a DISTINCT, which needs true statistics; measured of MariaDB alone. */
static int64_t most_of(const struct hf_test_bed *bed, const struct kind *kind, size_t statement, int64_t few, bool analyzed)
{
    bool in_mysql = kind->database == HF__MYSQL;
    if (in_mysql && (statement == HEADS || statement == PENDING) && !(analyzed && bed->conn->server.mariadb))
        return INT64_MAX;
    if (in_mysql && statement == GUARD && !kind->lease)
        return MANY + 20;
    return 3 * few + 20;
}

static void compare(struct hf_test_bed *bed, const struct kind *kind, const int64_t few[STATEMENTS], const char *when, bool analyzed)
{
    int64_t many[STATEMENTS];
    measure(bed, many);
    for (size_t i = 0; i < STATEMENTS; i++)
        if (many[i] > most_of(bed, kind, i, few[i], analyzed))
            hf_test_fail("%s, %s%s, %s: %s cost %" PRId64 " with %d rows in each group, and %" PRId64 " with %d",
                         hf__database_name(kind->database), kind->lease ? "lease" : "row lock",
                         kind->full ? ", priority and processed rows" : "", when, names[i], few[i], FEW, many[i], MANY);
}

static void open_kind(struct hf_test_bed *bed, const struct kind *kind)
{
    hf_bed_open(bed, kind->database,
                hf_test_format(", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": "
                               "\"retry_after\", \"group\": \"grp\"%s%s }, \"fifo\": true%s",
                               kind->lease ? ", \"locked_until\": \"locked_until\"" : "",
                               kind->full ? ", \"priority\": \"priority\", \"processed_at\": \"processed_at\"" : "",
                               kind->lease ? ", \"lease_seconds\": 60" : ""));
    if (kind->database == HF__MYSQL) /* statistics change when the test says so */
        hf_bed_sql(bed, "ALTER TABLE @ STATS_AUTO_RECALC = 0");
}

static void rows_behind(const struct kind *kind)
{
    struct hf_test_bed bed;
    int64_t few[STATEMENTS];
    open_kind(&bed, kind);
    fill_all(&bed, kind, 1, 1 + FEW);
    if (kind->lease)
        lease(&bed, "g1", "0");
    analyze(&bed);
    measure(&bed, few);
    CU_ASSERT(few[HEADS] >= GROUPS);
    fill_all(&bed, kind, 1 + FEW, 1 + MANY);
    compare(&bed, kind, few, "statistics of before", false);
    analyze(&bed);
    compare(&bed, kind, few, "analyzed", true);
    fill(&bed, "blocked", 1, 0, BLOCKED, false);
    if (kind->lease)
        lease(&bed, "blocked1", "2 * 86400");
    analyze(&bed);
    compare(&bed, kind, few, "a blocked group in front", true);
    hf_bed_close(&bed);
}

static void postgres(void)
{
    rows_behind(&(struct kind){HF__POSTGRES, false, false});
    rows_behind(&(struct kind){HF__POSTGRES, true, false});
    rows_behind(&(struct kind){HF__POSTGRES, false, true});
    rows_behind(&(struct kind){HF__POSTGRES, true, true});
}

static void mysql(void)
{
    rows_behind(&(struct kind){HF__MYSQL, false, false});
    rows_behind(&(struct kind){HF__MYSQL, true, false});
    rows_behind(&(struct kind){HF__MYSQL, false, true});
    rows_behind(&(struct kind){HF__MYSQL, true, true});
}

static void sqlite(void)
{
    rows_behind(&(struct kind){HF__SQLITE, true, false});
    rows_behind(&(struct kind){HF__SQLITE, true, true});
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"rows behind the heads, PostgreSQL", postgres},
        {"rows behind the heads, MySQL or MariaDB", mysql},
        {"rows behind the heads, SQLite", sqlite},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "fifo_plans", tests);
}
