/* ctest: timeout=300 labels=e2e
 * FIFO groups straight on connections, without a runtime: lease and row lock on every database that offers them. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/driver.h"
#include "strategies/strategy.h"
#include "tests/session.h"
#include "tests/support.h"

/* ---- a table of the test's own, a plan on it, two connections, and one that fills the table ---- */

enum { LEASE = 1, PRIORITY = 2, PROCESSED = 4, DEAD = 8, KEYS = 16 };

struct bed {
    enum hf__database database;
    unsigned has;
    const char *url, *name;
    struct hf_table *table;
    struct hf__clock *clock;
    struct hf__plan *plan;
    const struct hf__strategy *strategy;
    struct hf__conn *conn, *other, *writer;
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
    return hf_test_format(
        "{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", "
        "\"retry_after\": \"retry_after\", \"group\": \"grp\"%s%s%s%s }, \"fifo\": true%s%s }",
        bed->name, bed->has & LEASE ? ", \"locked_until\": \"locked_until\"" : "",
        bed->has & PRIORITY ? ", \"priority\": \"priority\"" : "", bed->has & KEYS ? ", \"partition_key\": \"customer\"" : "",
        bed->has & PROCESSED ? ", \"processed_at\": \"processed_at\"" : "", bed->has & LEASE ? ", \"lease_seconds\": 60" : "",
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
    if (database == HF__SQLITE)
        bed->url = hf_test_format("%s&synchronous=off", bed->url); /* nobody cuts the power in this test */
    bed->name = hf_test_scratch("fifo");
    const char *json = description(bed);
    HF_TEST_OK(hf__table_parse(json, strlen(json), &bed->table, &bed->err), &bed->err);
    create_table(bed);
    bed->conn = hf_test_session(bed->url);
    bed->other = hf_test_session(bed->url);
    bed->writer = hf_test_session(bed->url);
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
    hf__conn_close(bed->writer);
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
    hf_test_session_run(bed->writer, hf_test_format("INSERT INTO %s (id, grp, payload, retry_after) VALUES (%d, %s, 'x', %s)", bed->name,
                                                    id, quoted, moment(bed->database, due)));
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
        hf_test_fail("database %d, roles %u: the claim found row %lld instead of row %d", (int)bed->database, bed->has, (long long)found,
                     id);
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
    struct hf__row *second = expect(&bed, bed.other, 3);                 /* nothing more of a */
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
    FOR_EACH_KIND(kind)
    {
        check_order(kind->database, kind->has);
        check_order(kind->database, kind->has | PROCESSED);
        check_order(kind->database, kind->has | PRIORITY | PROCESSED);
    }
}

/* ---- a head that is not due (case 54) ---- */

static void check_retried_later(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    for (int id = 1; id <= 3; id++)
        put(&bed, id, "g", -30);
    struct hf__row *row = expect(&bed, bed.conn, 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__RETRY_AFTER, 60000000), HF_OK);
    expect_acked(&bed, bed.conn, 2); /* the first has the last place now */
    expect_acked(&bed, bed.conn, 3);
    expect(&bed, bed.conn, 0);
    close_bed(&bed);
}

static bool is_pending(struct bed *bed)
{
    bool pending = false;
    HF_TEST_OK(hf__plan_pending(bed->plan, bed->conn, soon(), &pending, &bed->err), &bed->err);
    return pending;
}

static void check_delayed_head(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    CU_ASSERT_FALSE(is_pending(&bed));
    put(&bed, 1, "h", 3600);
    put(&bed, 2, "h", -30);
    put(&bed, 3, "i", -20);
    CU_ASSERT_TRUE(is_pending(&bed));
    if (has & PRIORITY) { /* then the first row stays the head, and holds its group */
        hf_test_sql(bed.url, hf_test_format("UPDATE %s SET priority = 1 WHERE id <> 1", bed.name));
        expect_acked(&bed, bed.conn, 3);
    } else {
        expect_acked(&bed, bed.conn, 2);
        expect_acked(&bed, bed.conn, 3);
    }
    expect(&bed, bed.conn, 0);
    CU_ASSERT_FALSE(is_pending(&bed));
    if (has & LEASE) { /* someone works on a row behind that head */
        hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = %s WHERE grp = 'h'", bed.name, moment(database, 60)));
        CU_ASSERT_TRUE(is_pending(&bed));
    }
    close_bed(&bed);
}

static void test_delayed_head(void)
{
    FOR_EACH_KIND(kind)
    {
        check_retried_later(kind->database, kind->has);
        check_retried_later(kind->database, kind->has | PRIORITY);
        check_delayed_head(kind->database, kind->has);
        check_delayed_head(kind->database, kind->has | PRIORITY | PROCESSED);
    }
}

/* ---- rows without a group (case 61), many groups ---- */

static size_t count_of_group(struct hf__row **rows, size_t n, const char *group)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool none = rows[i]->group.type == HF__NULL;
        count += group ? !none && strcmp(rows[i]->group.s.data, group) == 0 : none;
    }
    return count;
}

static void settle_all(struct bed *bed, struct hf__conn *conn, struct hf__row **rows, size_t n, enum hf__action action)
{
    struct hf__change changes[64] = {0};
    for (size_t i = 0; i < n; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = action};
    HF_TEST_OK(bed->strategy->settle(bed->plan, conn, changes, n, soon(), &bed->err), &bed->err);
    for (size_t i = 0; i < n; i++) {
        CU_ASSERT_EQUAL(changes[i].status, HF_OK);
        hf__row_free(rows[i]);
    }
}

static void check_no_group(enum hf__database database, unsigned has)
{
    struct bed bed;
    struct hf__row *rows[32], *more[32];
    open_all(&bed, database, has);
    for (int id = 1; id <= 20; id++)
        put(&bed, id, NULL, -30);
    for (int id = 21; id <= 23; id++)
        put(&bed, id, "g", -20);
    size_t n = claim(&bed, bed.conn, 32, rows), m = claim(&bed, bed.other, 32, more);
    size_t none = count_of_group(rows, n, NULL) + count_of_group(more, m, NULL);
    CU_ASSERT_EQUAL(none, 20);
    CU_ASSERT_EQUAL(count_of_group(rows, n, "g") + count_of_group(more, m, "g"), 1);
    CU_ASSERT_EQUAL(n + m, 21);
    CU_ASSERT_TRUE(is_pending(&bed));
    if (n > 0)
        settle_all(&bed, bed.conn, rows, n, HF__ACK);
    if (m > 0)
        settle_all(&bed, bed.other, more, m, HF__ACK);
    expect_acked(&bed, bed.conn, 22);
    close_bed(&bed);
}

static void test_no_group(void)
{
    FOR_EACH_KIND(kind)
    check_no_group(kind->database, kind->has);
}

/* Rows without a group and heads take turns: neither starves the other. */
static void check_turns(enum hf__database database, unsigned has)
{
    struct bed bed;
    size_t heads = 0;
    open_all(&bed, database, has);
    for (int id = 1; id <= 8; id++) {
        put(&bed, id, NULL, -30);
        put(&bed, id + 10, hf_test_format("g%d", id), -30);
    }
    for (int i = 0; i < 4; i++) {
        struct hf__row *row;
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 1, &row), 1);
        heads += row->group.type != HF__NULL;
        CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0), HF_OK);
    }
    CU_ASSERT_EQUAL(heads, 2);
    close_bed(&bed);
}

static void test_turns(void)
{
    FOR_EACH_KIND(kind)
    check_turns(kind->database, kind->has);
}

static void check_many_groups(enum hf__database database, unsigned has)
{
    struct bed bed;
    struct hf__row *rows[16];
    open_all(&bed, database, has);
    for (int id = 1; id <= 30; id++)
        put(&bed, id, hf_test_format("g%d", id % 10), -100 + id);
    size_t n = claim(&bed, bed.conn, 7, rows);
    CU_ASSERT_EQUAL(n, database == HF__MYSQL && !(has & LEASE) ? 1 : 7);
    for (size_t i = 0; i < n; i++) {
        int64_t id = 0;
        (void)hf__value_int(&rows[i]->id, &id);
        CU_ASSERT_EQUAL(id, (int64_t)i + 1);
    }
    settle_all(&bed, bed.conn, rows, n, HF__GIVE_BACK);
    for (size_t taken = 0; taken < 30; taken += n) { /* from what one claim saw, for a moment, and what another sees */
        n = claim(&bed, bed.conn, 4, rows);
        CU_ASSERT_FATAL(n > 0);
        settle_all(&bed, bed.conn, rows, n, HF__ACK);
    }
    expect(&bed, bed.conn, 0);
    close_bed(&bed);
}

static void test_many_groups(void)
{
    FOR_EACH_KIND(kind)
    check_many_groups(kind->database, kind->has);
}

static const char *numbers(enum hf__database database, int n)
{
    if (database == HF__POSTGRES)
        return hf_test_format("SELECT i FROM generate_series(1, %d) AS i", n);
    return hf_test_format("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n", n);
}

/* n rows, a multiple of 100, with ids from first on. */
static void fill(const struct bed *bed, const char *group, int first, int n, int due)
{
    hf_test_sql(bed->url, hf_test_format("INSERT INTO %s (id, grp, payload, retry_after) SELECT %d + n.i, '%s', 'x', %s FROM "
                                         "(SELECT a.i + 100 * b.i AS i FROM (%s) AS a, (%s) AS b) AS n",
                                         bed->name, first - 101, group, moment(bed->database, due), numbers(bed->database, 100),
                                         numbers(bed->database, n / 100)));
}

/* ---- what a claim over many groups locks: what it takes, whatever the number of groups ---- */

enum { MANY_GROUPS = 1000, HEADS = 7 };

/* Three rows of each group. */
static void fill_groups(const struct bed *bed)
{
    fill(bed, "x", 1, 3 * MANY_GROUPS, -60);
    const char *group = bed->database == HF__MYSQL ? "CONCAT('g', id % 1000)" : "'g' || id % 1000";
    hf_test_sql(bed->url, hf_test_format("UPDATE %s SET grp = %s", bed->name, group));
    CU_ASSERT_EQUAL_FATAL(hf_test_query_int(bed->url, hf_test_format("SELECT count(DISTINCT grp) FROM %s", bed->name)), MANY_GROUPS);
    hf_test_sql(bed->url, hf_test_format("ANALYZE %s %s", bed->database == HF__MYSQL ? "TABLE" : "", bed->name));
}

/* Guards that the session holds. */
static int64_t guards_of(const struct bed *bed, int64_t pid)
{
    return hf_test_session_int(bed->writer,
                               hf_test_format("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %lld", (long long)pid));
}

static void check_guards(unsigned has)
{
    struct bed bed;
    struct hf__row *rows[HEADS];
    open_all(&bed, HF__POSTGRES, has);
    fill_groups(&bed);
    int64_t pid = hf_test_session_int(bed.conn, "SELECT pg_backend_pid()");
    for (int round = 0; round < 2; round++) { /* heads that are read anew, and those remembered */
        CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, HEADS, rows), HEADS);
        int64_t guards = guards_of(&bed, pid);
        if (guards != (has & LEASE ? 0 : HEADS)) {
            hf_test_fail("%d heads of %d groups are claimed, and %lld guards are held", HEADS, MANY_GROUPS, (long long)guards);
        }
        settle_all(&bed, bed.conn, rows, HEADS, HF__ACK);
        CU_ASSERT_EQUAL(guards_of(&bed, pid), 0);
    }
    close_bed(&bed);
}

/* InnoDB's own count of the locks of the session's transaction; 0: it has none open. */
static int64_t locks_of(int64_t id)
{
    return hf_test_query_int(hf_test_mysql_admin_url(),
                             hf_test_format("SELECT coalesce(sum(trx_rows_locked), 0) FROM information_schema.innodb_trx "
                                            "WHERE trx_mysql_thread_id = %lld",
                                            (long long)id));
}

static bool has_locks(void *id)
{
    hf_test_sleep_ms(150); /* InnoDB looks anew only when nobody has asked for a tenth of a second */
    return locks_of(*(int64_t *)id) > 0;
}

/* A group's rows, in the index and in the table, and a few beside them. */
static void check_innodb_locks(unsigned has)
{
    struct bed bed;
    struct hf__row *rows[HEADS];
    open_all(&bed, HF__MYSQL, has);
    fill_groups(&bed);
    int64_t id = hf_test_session_int(bed.conn, "SELECT CONNECTION_ID()");
    size_t n = claim(&bed, bed.conn, HEADS, rows);
    CU_ASSERT_EQUAL_FATAL(n, has & LEASE ? HEADS : 1);
    bool open = hf__conn_transaction(bed.conn) != HF__TX_NONE;
    CU_ASSERT_EQUAL(open, !(has & LEASE));
    if (open) {
        CU_ASSERT(hf_test_wait_until(has_locks, &id, 30000));
        int64_t locks = locks_of(id);
        if (locks > 20) {
            hf_test_fail("the claim of a head of %d groups locks %lld rows", MANY_GROUPS, (long long)locks);
        }
    }
    CU_ASSERT_EQUAL(hf_test_session_int(bed.conn, "SELECT RELEASE_ALL_LOCKS()"), 0); /* no GET_LOCK */
    settle_all(&bed, bed.conn, rows, n, HF__ACK);
    close_bed(&bed);
}

static void test_locks(void)
{
    check_guards(0);
    check_guards(LEASE);
    check_innodb_locks(0);
    check_innodb_locks(LEASE);
}

/* ---- a blocked group hides no other, however many rows it has (case 52) ---- */

static void check_blocked(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    fill(&bed, "a", 1, 10000, -3600);
    for (int id = 0; id < 25; id++)
        put(&bed, 20000 + id, hf_test_format("b%02d", id), -60 + id);
    struct hf__row *blocked = expect(&bed, bed.other, 1);
    int64_t begun_ms = hf_test_now_ms();
    for (int id = 0; id < 25; id++)
        expect_acked(&bed, bed.conn, 20000 + id);
    expect(&bed, bed.conn, 0);
    CU_ASSERT_TRUE(hf_test_now_ms() - begun_ms < 20000);
    CU_ASSERT_EQUAL(settle(&bed, bed.other, blocked, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.conn, 2);
    close_bed(&bed);
}

static void test_blocked(void)
{
    FOR_EACH_KIND(kind)
    check_blocked(kind->database, kind->has);
}

/* More blocked groups in front than a page of candidates has. */
static void check_blocked_groups(enum hf__database database)
{
    struct bed bed;
    open_all(&bed, database, LEASE);
    hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (grp, payload, retry_after, locked_until) SELECT 'x', 'x', %s, NULL FROM (%s) AS n",
                                        bed.name, moment(database, -60), numbers(database, 900)));
    const char *name = database == HF__MYSQL ? "CONCAT('g', id)" : "'g' || id";
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET grp = %s", bed.name, name));
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = %s WHERE id < 800", bed.name, moment(database, 60)));
    struct hf__row *rows[300];
    CU_ASSERT_EQUAL_FATAL(claim(&bed, bed.conn, 300, rows), 101);
    for (size_t i = 0; i < 101; i++)
        hf__row_free(rows[i]);
    close_bed(&bed);
}

static void test_blocked_groups(void)
{
    check_blocked_groups(HF__SQLITE);
    check_blocked_groups(HF__POSTGRES);
    check_blocked_groups(HF__MYSQL);
}

/* More groups than two pages, whose heads are seen and cannot be had: those behind them can. */
static void check_refused_groups(enum hf__database database)
{
    struct bed bed;
    open_all(&bed, database, 0);
    hf_test_sql(bed.url, hf_test_format("INSERT INTO %s (grp, payload, retry_after) SELECT 'x', 'x', %s FROM (%s) AS n", bed.name,
                                        moment(database, -60), numbers(database, 700)));
    const char *name = database == HF__MYSQL ? "CONCAT('g', id)" : "'g' || id";
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET grp = %s", bed.name, name));
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    const char *by_id = database == HF__MYSQL ? "FORCE INDEX (PRIMARY)" : ""; /* by another index MySQL locks them all */
    const char *lock = hf_test_format("SELECT id FROM %s %s WHERE id < 690 FOR UPDATE", bed.name, by_id);
    struct hf__statement statement = {.sql = lock};
    HF_TEST_OK(hf__conn_run(bed.other, &statement, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    expect_acked(&bed, bed.conn, 690);
    HF_TEST_OK(hf__conn_rollback(bed.other, soon(), &bed.err), &bed.err);
    close_bed(&bed);
}

static void test_refused_groups(void)
{
    check_refused_groups(HF__POSTGRES);
    check_refused_groups(HF__MYSQL);
}

/* ---- a row in work holds its group, also when it is not the head any more ---- */

static void check_overtaken(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    put(&bed, 5, "g", -30);
    put(&bed, 6, "h", -20);
    struct hf__row *row = expect(&bed, bed.conn, 5);
    put(&bed, 1, "g", -60);
    expect_acked(&bed, bed.other, 6);
    expect(&bed, bed.other, 0);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__GIVE_BACK, 0), HF_OK);
    expect_acked(&bed, bed.other, 1);
    expect_acked(&bed, bed.conn, 5);
    close_bed(&bed);
}

static void test_overtaken(void)
{
    FOR_EACH_KIND(kind)
    {
        check_overtaken(kind->database, kind->has);
        check_overtaken(kind->database, kind->has | PROCESSED);
    }
}

/* A claim of a rival has written its lease and not committed it; a new head comes in meanwhile. */
static void check_uncommitted(enum hf__database database)
{
    struct bed bed;
    open_all(&bed, database, LEASE);
    put(&bed, 5, "g", -30);
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    struct hf__statement write = {.sql = hf_test_format("UPDATE %s SET locked_until = %s WHERE id = 5", bed.name, moment(database, 60))};
    HF_TEST_OK(hf__conn_run(bed.other, &write, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    put(&bed, 1, "g", -60);
    expect(&bed, bed.conn, 0);
    HF_TEST_OK(hf__conn_commit(bed.other, soon(), &bed.err), &bed.err);
    expect(&bed, bed.conn, 0);
    close_bed(&bed);
}

static void test_uncommitted(void)
{
    check_uncommitted(HF__MYSQL);
}

/* ---- leases that are over ---- */

static void check_over(enum hf__database database, unsigned has)
{
    struct bed bed;
    hf_status renewed;
    open_all(&bed, database, has);
    put(&bed, 5, "g", -30);
    struct hf__row *late = expect(&bed, bed.conn, 5);
    put(&bed, 1, "g", -60); /* comes in with a better place */
    expect(&bed, bed.other, 0);
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = %s", bed.name, moment(database, -10)));
    late->token_us = 0;
    struct hf__rows rows;
    hf__rows_init(&rows);
    struct hf__statement read = {.sql = hf_test_format("SELECT locked_until FROM %s WHERE id = 5", bed.name)};
    HF_TEST_OK(hf__conn_run(bed.conn, &read, NULL, 0, &rows, soon(), &bed.err), &bed.err);
    CU_ASSERT_TRUE(hf__value_time(hf__cell(&rows, 0, 0), &late->token_us)); /* its owner believes in this token */
    hf__rows_free(&rows);

    struct hf__row *head = expect(&bed, bed.other, 1);
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, &late, 1, &renewed, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(renewed, HF_LEASE_LOST);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, late, HF__ACK, 0), HF_LEASE_LOST);
    CU_ASSERT_EQUAL(settle(&bed, bed.other, head, HF__ACK, 0), HF_OK);
    struct hf__row *again = expect(&bed, bed.conn, 5);
    CU_ASSERT_EQUAL(again->attempt, 2);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, again, HF__ACK, 0), HF_OK);
    close_bed(&bed);
}

/* The late owner renews before the claim looks: the group is its. */
static void check_renewed_late(enum hf__database database)
{
    struct bed bed;
    open_all(&bed, database, LEASE);
    put(&bed, 5, "g", -30);
    struct hf__row *late = expect(&bed, bed.conn, 5);
    put(&bed, 1, "g", -60);
    hf_status renewed;
    HF_TEST_OK(bed.strategy->renew(bed.plan, bed.conn, &late, 1, &renewed, soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(renewed, HF_OK);
    expect(&bed, bed.other, 0);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, late, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.other, 1);
    close_bed(&bed);
}

/* One that its owner, or anyone, has locked just now: the group is passed over, without waiting. */
static void check_over_locked(enum hf__database database)
{
    struct bed bed;
    open_all(&bed, database, LEASE);
    put(&bed, 5, "g", -30);
    put(&bed, 6, "h", -10);
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET locked_until = %s WHERE id = 5", bed.name, moment(database, -10)));
    put(&bed, 1, "g", -60);
    HF_TEST_OK(hf__conn_begin(bed.other, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    struct hf__statement lock = {.sql = hf_test_format("SELECT id FROM %s WHERE id = 5 FOR UPDATE", bed.name)};
    HF_TEST_OK(hf__conn_run(bed.other, &lock, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    int64_t begun_ms = hf_test_now_ms();
    expect_acked(&bed, bed.conn, 6);
    expect(&bed, bed.conn, 0);
    CU_ASSERT_TRUE(hf_test_now_ms() - begun_ms < 15000);
    HF_TEST_OK(hf__conn_rollback(bed.other, soon(), &bed.err), &bed.err);
    expect_acked(&bed, bed.conn, 1);
    expect_acked(&bed, bed.conn, 5);
    close_bed(&bed);
}

static void test_over(void)
{
    FOR_EACH_KIND(kind)
    if (kind->has & LEASE) {
        check_over(kind->database, kind->has);
        check_over(kind->database, kind->has | PROCESSED);
        check_renewed_late(kind->database);
    }
    check_over_locked(HF__POSTGRES);
    check_over_locked(HF__MYSQL);
}

/* ---- a locked head is not passed over (case 58), and its guard comes back ---- */

static void check_locked_head(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    put(&bed, 1, "g", -30);
    put(&bed, 2, "g", -20);
    put(&bed, 3, "h", -10);
    struct hf__conn *outside = hf_test_session(bed.url);
    HF_TEST_OK(hf__conn_begin(outside, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    struct hf__statement lock = {.sql = hf_test_format("SELECT id FROM %s WHERE id = 1 FOR UPDATE", bed.name)};
    HF_TEST_OK(hf__conn_run(outside, &lock, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    struct hf__row *held = expect(&bed, bed.conn, 3); /* its connection tried the guard of g first, and keeps none but h's */
    expect(&bed, bed.other, 0);
    HF_TEST_OK(hf__conn_rollback(outside, soon(), &bed.err), &bed.err);
    expect_acked(&bed, bed.other, 1);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, held, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.conn, 2);
    hf__conn_close(outside);
    close_bed(&bed);
}

/* Of a batch, too, only guards whose rows were taken are kept. */
static void check_batch_guards(unsigned has)
{
    struct bed bed;
    struct hf__row *rows[8];
    open_all(&bed, HF__POSTGRES, has);
    for (int id = 1; id <= 6; id++)
        put(&bed, id, hf_test_format("g%d", id), -30);
    struct hf__conn *outside = hf_test_session(bed.url);
    HF_TEST_OK(hf__conn_begin(outside, HF__READ_COMMITTED, HF__IMMEDIATE, soon(), &bed.err), &bed.err);
    struct hf__statement lock = {.sql = hf_test_format("SELECT id FROM %s WHERE id IN (2, 5) FOR UPDATE", bed.name)};
    HF_TEST_OK(hf__conn_run(outside, &lock, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    size_t n = claim(&bed, bed.conn, 8, rows);
    CU_ASSERT_EQUAL(n, 4);
    HF_TEST_OK(hf__conn_rollback(outside, soon(), &bed.err), &bed.err);
    expect_acked(&bed, bed.other, 2);
    expect_acked(&bed, bed.other, 5);
    settle_all(&bed, bed.conn, rows, n, HF__ACK);
    hf__conn_close(outside);
    close_bed(&bed);
}

/* A head that was due when it was looked for, and is not when its guard is had: not taken, and the guard does not stay. */
static void check_changed_since(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_all(&bed, database, has);
    for (int id = 1; id <= 3; id++)
        put(&bed, id, hf_test_format("g%d", id), -40 + id);
    struct hf__conn *third = hf_test_session(bed.url);
    const char *later = hf_test_format("UPDATE %s SET retry_after = %s WHERE id = 2", bed.name, moment(database, 3600));
    const char *earlier = hf_test_format("UPDATE %s SET retry_after = %s WHERE id = 2", bed.name, moment(database, -60));
    struct hf__statement put_off = {.sql = later};
    struct hf__row *first = expect(&bed, bed.conn, 1); /* and what it has seen of the others serves the next claim */
    HF_TEST_OK(hf__conn_run(third, &put_off, NULL, 0, NULL, soon(), &bed.err), &bed.err);
    struct hf__row *last = expect(&bed, bed.other, 3);
    hf_test_sql(bed.url, earlier);
    expect_acked(&bed, third, 2);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, first, HF__ACK, 0), HF_OK);
    CU_ASSERT_EQUAL(settle(&bed, bed.other, last, HF__ACK, 0), HF_OK);
    hf__conn_close(third);
    close_bed(&bed);
}

static void test_changed_since(void)
{
    FOR_EACH_KIND(kind)
    check_changed_since(kind->database, kind->has);
}

static void test_locked_head(void)
{
    FOR_EACH_KIND(kind)
    if (kind->database != HF__SQLITE)
        check_locked_head(kind->database, kind->has);
    check_batch_guards(0);
    check_batch_guards(LEASE);
}

/* ---- which groups ---- */

static void check_groups(enum hf__database database, unsigned has)
{
    static const char *const some[] = {"b", "d", "none", "b"}, *const dead[] = {"dead"};
    struct bed bed;
    struct hf__row *rows[8];
    open_bed(&bed, database, has | DEAD);
    put(&bed, 1, "a", -60);
    put(&bed, 2, "b", -50);
    put(&bed, 3, "c", -40);
    put(&bed, 4, "d", -30);
    put(&bed, 5, NULL, -20);
    put(&bed, 6, "dead", -70);
    open_plan(&bed, some, 4);
    expect_acked(&bed, bed.conn, 2);
    expect_acked(&bed, bed.conn, 4);
    expect(&bed, bed.conn, 0);
    CU_ASSERT_FALSE(is_pending(&bed));
    open_plan(&bed, dead, 1);
    CU_ASSERT_TRUE(is_pending(&bed));
    struct hf__row *row = expect(&bed, bed.conn, 6);
    CU_ASSERT_TRUE(row->is_dead);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__RETRY, 0), HF_OK);
    open_plan(&bed, NULL, 0);
    size_t n = 0, found = 0;
    while (found < 3 && (n = claim(&bed, bed.conn, 8, rows)) > 0) {
        for (size_t i = 0; i < n; i++)
            CU_ASSERT_EQUAL(count_of_group(&rows[i], 1, "dead"), 0);
        found += n;
        settle_all(&bed, bed.conn, rows, n, HF__ACK);
    }
    CU_ASSERT_EQUAL(found, 3); /* 1, 3, 5 */
    expect(&bed, bed.conn, 0);
    CU_ASSERT_FALSE(is_pending(&bed));
    close_bed(&bed);
}

static void test_groups(void)
{
    FOR_EACH_KIND(kind)
    check_groups(kind->database, kind->has);
}

/* ---- what the database calls equal is one group (case 78) ---- */

static void check_collation(unsigned has, const char *collation)
{
    static const char *const names[] = {"A", "a", "\u00e1", "\u00df", "ss"};
    struct bed bed;
    struct hf__row *rows[8];
    open_bed(&bed, HF__MYSQL, has);
    hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s MODIFY grp VARCHAR(255) CHARACTER SET utf8mb4 COLLATE %s", bed.name, collation));
    open_plan(&bed, NULL, 0);
    for (int id = 1; id <= 10; id++)
        put(&bed, id, names[id % 5], -100 + id);
    int64_t groups = hf_test_query_int(bed.url, hf_test_format("SELECT COUNT(DISTINCT grp) FROM %s", bed.name));
    struct hf__conn *conns[8];
    size_t n = 0, m;
    for (; n < 8; n += m) {
        conns[n] = hf_test_session(bed.url);
        m = claim(&bed, conns[n], 1, rows + n);
        if (m == 0)
            break;
    }
    CU_ASSERT_EQUAL((int64_t)n, groups);
    for (size_t i = 0; i < n; i++) {
        CU_ASSERT_EQUAL(settle(&bed, conns[i], rows[i], HF__ACK, 0), HF_OK);
        hf__conn_close(conns[i]);
    }
    hf__conn_close(conns[n]);
    const char *spelled[] = {"a", "A"}; /* named twice */
    open_plan(&bed, spelled, 2);
    m = claim(&bed, bed.conn, 8, rows);
    bool folds =
        hf_test_query_int(bed.url, hf_test_format("SELECT COUNT(*) FROM %s WHERE grp = 'a' AND CAST(grp AS BINARY) <> 'a'", bed.name)) > 0;
    CU_ASSERT_EQUAL(m, folds || !(has & LEASE) ? 1 : 2);
    settle_all(&bed, bed.conn, rows, m, HF__ACK);
    close_bed(&bed);
}

static void test_collation(void)
{
    static const char *const collations[] = {"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci"};
    for (size_t i = 0; i < 3; i++) {
        check_collation(0, collations[i]);
        check_collation(LEASE, collations[i]);
    }
}

/* Groups need not be texts. */
static void check_type(enum hf__database database, unsigned has, const char *type, const char *const values[2])
{
    struct bed bed;
    open_bed(&bed, database, has);
    if (database == HF__POSTGRES)
        hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s ALTER grp TYPE %s USING grp::%s", bed.name, type, type));
    else if (database == HF__MYSQL)
        hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s MODIFY grp %s", bed.name, type));
    open_plan(&bed, NULL, 0);
    put(&bed, 1, values[0], -60);
    put(&bed, 2, values[0], -50);
    put(&bed, 3, values[1], -40);
    struct hf__row *row = expect(&bed, bed.conn, 1);
    expect_acked(&bed, bed.other, 3);
    expect(&bed, bed.other, 0);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0), HF_OK);
    open_plan(&bed, values, 2);
    expect_acked(&bed, bed.other, 2);
    close_bed(&bed);
}

static void test_types(void)
{
    static const char *const numbers_[] = {"-7", "2147483647"};
    static const char *const uuids[] = {"0A0B0C0D-1111-4222-8333-444455556666", "0a0b0c0d-1111-4222-8333-444455556667"};
    static const char *const texts[] = {"it, \\\"{}\\\\", "NULL"};
    for (unsigned has = 0; has <= LEASE; has++) {
        check_type(HF__POSTGRES, has, "integer", numbers_);
        check_type(HF__POSTGRES, has, "uuid", uuids);
        check_type(HF__POSTGRES, has, "character varying(40)", texts);
        check_type(HF__POSTGRES, has, "character(40)", texts);
        check_type(HF__MYSQL, has, "INT", numbers_);
    }
    check_type(HF__SQLITE, LEASE, "", numbers_);
}

/* ---- partition keys in work ---- */

static void check_busy(enum hf__database database, unsigned has)
{
    struct bed bed;
    struct hf__row *rows[8];
    struct hf__value busy[] = {hf__text("y"), hf__text("x")};
    struct hf__claim ask = {.limit = 8, .busy = busy, .n_busy = 2};
    size_t found = 0;
    open_all(&bed, database, has | KEYS);
    put(&bed, 1, "g", -30);
    put(&bed, 2, "g", -20);
    put(&bed, 3, "h", -10);
    put(&bed, 4, "i", -5);
    hf_test_sql(bed.url, hf_test_format("UPDATE %s SET customer = CASE id WHEN 1 THEN 'x' WHEN 2 THEN 'a' WHEN 3 THEN 'b' END", bed.name));
    for (size_t n = 1; n > 0; found += n) {
        HF_TEST_OK(bed.strategy->claim(bed.plan, bed.conn, &ask, soon(), rows, &n, &bed.err), &bed.err);
        CU_ASSERT_EQUAL(count_of_group(rows, n, "g"), 0);
        if (n > 0)
            settle_all(&bed, bed.conn, rows, n, HF__ACK);
    }
    CU_ASSERT_EQUAL(found, 2);
    expect_acked(&bed, bed.conn, 1);
    close_bed(&bed);
}

static void test_busy(void)
{
    FOR_EACH_KIND(kind)
    check_busy(kind->database, kind->has);
}

/* ---- two claims at once never hold two rows of a group ---- */

enum { GROUPS = 2, PLAYERS = 4, ROWS_OF_GROUP = 30, INTRUDERS = 20 };

/* What the players do, kept apart from the table. */
struct game {
    struct bed bed;
    struct hf__plan *plans[2]; /* as two processes have one each */
    bool ordered;              /* nothing comes in before the others: ids never go back */
    atomic_int in_work[GROUPS], last[GROUPS], done, together, backwards, failed;
    atomic_bool stop;
    char why[256];
};

struct player {
    struct game *game;
    struct hf__plan *plan;
    struct hf__conn *conn;
    unsigned seed;
    pthread_t thread;
};

static int group_of(const struct hf__row *row)
{
    return row->group.s.data[1] - '0';
}

static void begin_row(struct game *game, const struct hf__row *row)
{
    int g = group_of(row);
    int64_t id = 0;
    (void)hf__value_int(&row->id, &id);
    if (atomic_exchange(&game->in_work[g], 1) != 0)
        atomic_fetch_add(&game->together, 1);
    if (atomic_exchange(&game->last[g], (int)id) > id)
        atomic_fetch_add(&game->backwards, 1);
}

/* A row that is not settled yet is ours still: its group is nobody else's. */
static void keep_row(struct game *game, const struct hf__row *row)
{
    if (atomic_exchange(&game->in_work[group_of(row)], 1) != 0)
        atomic_fetch_add(&game->together, 1);
}

static void end_row(struct game *game, const struct hf__change *change, const hf_error *err)
{
    if (change->status == HF_OK && change->action == HF__ACK)
        atomic_fetch_add(&game->done, 1);
    if (change->status != HF_OK && atomic_fetch_add(&game->failed, 1) == 0)
        snprintf(game->why, sizeof game->why, "settle: %s: %.200s", hf_status_name(change->status), err->message);
    hf__row_free(change->row);
}

/* Settles once. Returns how many are left, in front: those that somebody had locked at that moment. */
static size_t settle_once(struct player *player, struct hf__change *changes, size_t n, bool last)
{
    struct game *game = player->game;
    hf_error err = {.status = HF_OK};
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        atomic_store(&game->in_work[group_of(changes[i].row)], 0);
    (void)game->bed.strategy->settle(player->plan, player->conn, changes, n, soon(), &err);
    for (size_t i = 0; i < n; i++) {
        if (changes[i].status == HF_TRANSIENT && !last) {
            keep_row(game, changes[i].row);
            changes[left++] = changes[i];
        } else {
            end_row(game, &changes[i], &err);
        }
    }
    return left;
}

static void play_settle(struct player *player, struct hf__row **rows, size_t n)
{
    static const enum hf__action actions[] = {HF__ACK, HF__ACK, HF__ACK, HF__RETRY, HF__GIVE_BACK, HF__UNBEGUN};
    struct hf__change changes[8] = {0};
    struct hf__deadline limit = soon();
    for (size_t i = 0; i < n; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = actions[(unsigned)rand_r(&player->seed) % 6]};
    while ((n = settle_once(player, changes, n, hf__passed(limit))) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void *play(void *arg)
{
    struct player *player = arg;
    struct game *game = player->game;
    while (!atomic_load(&game->stop)) {
        struct hf__row *rows[8];
        size_t n = 0;
        hf_error err = {.status = HF_OK};
        struct hf__claim ask = {.limit = 1 + (size_t)rand_r(&player->seed) % 3};
        hf_status status = game->bed.strategy->claim(player->plan, player->conn, &ask, soon(), rows, &n, &err);
        if (status != HF_OK && status != HF_TRANSIENT && atomic_fetch_add(&game->failed, 1) == 0)
            snprintf(game->why, sizeof game->why, "claim: %s: %.200s", hf_status_name(status), err.message);
        for (size_t i = 0; status == HF_OK && i < n; i++)
            begin_row(game, rows[i]);
        sched_yield();
        if (status == HF_OK && n > 0)
            play_settle(player, rows, n);
        else
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return NULL;
}

static bool all_done(void *arg)
{
    struct game *game = arg;
    return atomic_load(&game->done) == GROUPS * ROWS_OF_GROUP + (game->ordered ? 0 : INTRUDERS);
}

/* Rows that come in before the others. */
static void intrude(struct game *game)
{
    for (int i = 0; i < INTRUDERS && !game->ordered; i++)
        put(&game->bed, 10000 - i, hf_test_format("g%d", i % GROUPS), -1000 - i);
}

static void run_players(struct game *game)
{
    struct player players[PLAYERS];
    for (unsigned i = 0; i < PLAYERS; i++) {
        players[i] = (struct player){.game = game, .plan = game->plans[i % 2], .conn = hf_test_session(game->bed.url), .seed = i + 1};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    intrude(game);
    bool done = hf_test_wait_until(all_done, game, 60000);
    atomic_store(&game->stop, true);
    for (unsigned i = 0; i < PLAYERS; i++) {
        pthread_join(players[i].thread, NULL);
        CU_ASSERT_EQUAL(hf__conn_transaction(players[i].conn), HF__TX_NONE);
        hf__conn_close(players[i].conn);
    }
    CU_ASSERT_TRUE(done);
}

static void check_together(enum hf__database database, unsigned has, bool ordered)
{
    static struct game game;
    memset(&game, 0, sizeof game);
    game.ordered = ordered;
    open_bed(&game.bed, database, has);
    for (int i = 0; i < 2; i++) {
        game.bed.plan = NULL;
        open_plan(&game.bed, NULL, 0);
        game.plans[i] = game.bed.plan;
    }
    for (int id = 0; id < GROUPS * ROWS_OF_GROUP; id++)
        put(&game.bed, id + 1, hf_test_format("g%d", id % GROUPS), -60);
    run_players(&game);
    CU_ASSERT_EQUAL(game.together, 0);
    if (ordered)
        CU_ASSERT_EQUAL(game.backwards, 0);
    if (game.failed)
        hf_test_fail("database %d, roles %u: %s", (int)database, has, game.why);
    hf__plan_close(game.plans[0]);
    close_bed(&game.bed);
}

static void test_together(void)
{
    FOR_EACH_KIND(kind)
    {
        check_together(kind->database, kind->has, true);
        check_together(kind->database, kind->has | PROCESSED, false);
    }
}

/* ---- start checks ---- */

static bool finds(struct bed *bed, enum hf__finding_level level, const char *text)
{
    struct hf__findings findings = {0};
    HF_TEST_OK(hf__inspect(bed->conn, bed->table, soon(), &findings, &bed->err), &bed->err);
    bool found = false;
    for (size_t i = 0; i < findings.n; i++)
        found = found || (findings.list[i].level == level && strstr(findings.list[i].message, text));
    hf__findings_free(&findings);
    return found;
}

static void drop_index(const struct bed *bed, const char *word)
{
    const char *on = bed->database == HF__MYSQL ? hf_test_format(" ON %s", bed->name) : "";
    hf_test_sql(bed->url, hf_test_format("DROP INDEX %s%s%s", bed->name, word, on));
}

static void check_indexes(enum hf__database database, unsigned has)
{
    struct bed bed;
    open_bed(&bed, database, has);
    CU_ASSERT_FALSE(finds(&bed, HF__FINDING_WARNING, ""));
    CU_ASSERT_FALSE(finds(&bed, HF__FINDING_ERROR, ""));
    drop_index(&bed, "_group_order");
    CU_ASSERT_TRUE(finds(&bed, HF__FINDING_WARNING, "create one on (grp, "));
    if (has & LEASE) {
        drop_index(&bed, "_group_leases");
        CU_ASSERT_TRUE(finds(&bed, HF__FINDING_WARNING, "create one on (grp, locked_until)"));
    }
    open_plan(&bed, NULL, 0); /* slower, and as right */
    put(&bed, 1, "g", -30);
    put(&bed, 2, "g", -20);
    struct hf__row *row = expect(&bed, bed.conn, 1);
    expect(&bed, bed.other, 0);
    CU_ASSERT_EQUAL(settle(&bed, bed.conn, row, HF__ACK, 0), HF_OK);
    expect_acked(&bed, bed.other, 2);
    close_bed(&bed);
}

static void test_indexes(void)
{
    FOR_EACH_KIND(kind)
    {
        check_indexes(kind->database, kind->has);
        check_indexes(kind->database, kind->has | PRIORITY | PROCESSED);
    }
}

static void test_refused_at_start(void)
{
    struct bed bed;
    open_bed(&bed, HF__POSTGRES, LEASE);
    hf_test_sql(bed.url,
                hf_test_format("CREATE COLLATION %s_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)", bed.name));
    hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s ALTER grp TYPE text COLLATE %s_ci", bed.name, bed.name));
    CU_ASSERT_TRUE(finds(&bed, HF__FINDING_ERROR, "nondeterministic collation"));
    hf_test_sql(bed.url, hf_test_format("ALTER TABLE %s ALTER grp TYPE text COLLATE \"C\"", bed.name));
    CU_ASSERT_FALSE(finds(&bed, HF__FINDING_ERROR, ""));
    hf_test_sql(bed.url, hf_test_format("DROP COLLATION %s_ci", bed.name));
    bed.conn->server.version = 100023;
    CU_ASSERT_TRUE(finds(&bed, HF__FINDING_ERROR, "\"fifo\" needs PostgreSQL 11.0 or newer"));
    close_bed(&bed);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a group is run in claim order, one row at a time", test_order},
        {"a head that is not due", test_delayed_head},
        {"rows without a group run side by side", test_no_group},
        {"rows without a group and heads take turns", test_turns},
        {"heads of many groups come in claim order", test_many_groups},
        {"a claim over many groups locks what it takes", test_locks},
        {"a blocked group of 10,000 rows hides no other", test_blocked},
        {"blocked groups in front hide none behind", test_blocked_groups},
        {"groups that refuse hide none behind", test_refused_groups},
        {"a row in work that is not the head holds its group", test_overtaken},
        {"a lease that is not committed yet, and a head before it", test_uncommitted},
        {"a lease that is over loses its token, head or not", test_over},
        {"a locked head is not passed over and its guard comes back", test_locked_head},
        {"a head that has changed since it was looked for", test_changed_since},
        {"groups that are named, all, and the dead letters'", test_groups},
        {"groups are equal as the database says", test_collation},
        {"groups of other types", test_types},
        {"a head whose partition key is in work is left", test_busy},
        {"claims at once never hold two rows of a group", test_together},
        {"what is said of missing indexes", test_indexes},
        {"what is refused at the start", test_refused_at_start},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "fifo", tests);
}
