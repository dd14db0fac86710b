/* The start checks: each fault is found, with the table, the column and the way out; and a table of our own has none. */
#include <stdlib.h>
#include <string.h>

#include "strategies/strategy.h"
#include "tests/session.h"
#include "tests/support.h"

static const enum hf__database databases[] = {HF__POSTGRES, HF__MYSQL, HF__SQLITE};
#define FOR_EACH_DATABASE(d) for (size_t d = 0; d < sizeof databases / sizeof databases[0]; d++)

static const char *url, *name;
static struct hf__conn *conn;

static struct hf__deadline soon(void)
{
    return hf__after_ms(20000);
}

static void on(enum hf__database database)
{
    url = hf_test_url(database);
    name = hf_test_scratch("inspect");
    conn = hf_test_session(url);
}

static void off(void)
{
    hf__conn_close(conn);
}

static struct hf_table *describe(const char *rest)
{
    struct hf_table *table;
    hf_error err;
    const char *json = hf_test_format("{ \"table\": \"%s\"%s }", name, rest);
    HF_TEST_OK(hf__table_parse(json, strlen(json), &table, &err), &err);
    return table;
}

static struct hf__findings inspect(const char *rest)
{
    struct hf__findings findings = {0};
    hf_error err;
    struct hf_table *table = describe(rest);
    HF_TEST_OK(hf__inspect(conn, table, soon(), &findings, &err), &err);
    hf__table_free(table);
    return findings;
}

/* Fails unless a finding of this level contains both texts. */
static void expect(const char *rest, enum hf__finding_level level, const char *one, const char *other)
{
    struct hf__findings findings = inspect(rest);
    bool found = false;
    for (size_t i = 0; i < findings.n; i++)
        found = found || (findings.list[i].level == level && strstr(findings.list[i].message, one) &&
                          strstr(findings.list[i].message, other) && strstr(findings.list[i].message, name));
    for (size_t i = 0; i < findings.n && !found; i++)
        fprintf(stderr, "found: %s\n", findings.list[i].message);
    if (!found)
        hf_test_fail("no finding names \"%s\" and \"%s\" on %s", one, other, url);
    hf__findings_free(&findings);
}

static void expect_nothing(const char *rest)
{
    struct hf__findings findings = inspect(rest);
    for (size_t i = 0; i < findings.n; i++)
        if (findings.list[i].level != HF__FINDING_INFO)
            hf_test_fail("found on %s: %s", url, findings.list[i].message);
    hf__findings_free(&findings);
}

#define LEASE \
    ", \"columns\": { \"id\": \"id\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\", \"locked_until\": \"locked_until\" }"
#define ROW ", \"columns\": { \"id\": \"id\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\" }"
#define EVERY                                                                                                                       \
    "\"id\": \"id\", \"payload\": \"payload\", \"headers\": \"headers\", \"attempt\": \"attempt\", \"last_error\": \"last_error\"," \
    " \"group\": \"queue\", \"priority\": \"urgency\", \"retry_after\": \"retry_after\", \"processed_at\": \"processed_at\""

static void test_own_tables(void)
{
    static const char *const rests[] = {", \"columns\": { " EVERY ", \"locked_until\": \"locked_until\" }", ", \"columns\": { " EVERY " }",
                                        ", \"columns\": { " EVERY " }, \"advisory_lock\": \"{queue}/{account}\"",
                                        ", \"columns\": { \"id\": \"id\", \"locked_until\": \"until\" }"};
    FOR_EACH_DATABASE(d)
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        if (databases[d] == HF__SQLITE && i == 1)
            continue; /* refused: no row locks */
        if (i == 2 && !hf_test_has_keys(databases[d]))
            continue; /* refused: too old */
        on(databases[d]);
        struct hf_table *table = describe(rests[i]);
        char **statements;
        size_t n;
        hf_error err;
        HF_TEST_OK(hf__ddl(table, databases[d], &statements, &n, &err), &err);
        for (size_t s = 0; s < n; s++) {
            hf_test_sql(url, statements[s]);
            free(statements[s]);
        }
        free(statements);
        expect_nothing(rests[i]);
        hf__table_free(table);
        off();
    }
}

static const char *time_type(enum hf__database database)
{
    return database == HF__POSTGRES ? "timestamptz" : database == HF__MYSQL ? "DATETIME(6)" : "TEXT";
}

/* id, attempt, retry_after, locked_until, as the arguments say. */
static void make(enum hf__database database, const char *id, const char *attempt, const char *locked)
{
    hf_test_sql(url, hf_test_format("CREATE TABLE %s (id %s, attempt %s, retry_after %s NOT NULL, locked_until %s)", name, id, attempt,
                                    time_type(database), locked ? locked : time_type(database)));
}

static void test_table_faults(void)
{
    FOR_EACH_DATABASE(d)
    {
        on(databases[d]);
        expect(LEASE, HF__FINDING_ERROR, "no such table", "holdfast ddl");
        hf_test_sql(url, hf_test_format("CREATE VIEW %s AS SELECT 1 AS id", name));
        expect(LEASE, HF__FINDING_ERROR, "not a table", "view");
        hf_test_sql(url, hf_test_format("DROP VIEW %s", name));
        off();
    }
}

static void test_column_faults(void)
{
    FOR_EACH_DATABASE(d)
    {
        on(databases[d]);
        const char *integer = databases[d] == HF__SQLITE ? "INTEGER PRIMARY KEY" : "BIGINT NOT NULL PRIMARY KEY";
        make(databases[d], integer, "INTEGER", NULL);
        expect(", \"columns\": { \"id\": \"nid\", \"locked_until\": \"locked_until\" }", HF__FINDING_ERROR, "no column \"nid\"", "\"id\"");
        expect(", \"columns\": { \"id\": \"id\", \"attempt\": \"retry_after\", \"locked_until\": \"locked_until\" }", HF__FINDING_ERROR,
               "\"retry_after\" is", "\"attempt\" needs an integer");
        expect(", \"columns\": { \"id\": \"id\", \"locked_until\": \"attempt\" }", HF__FINDING_ERROR, "\"attempt\" is", "timestamp");
        expect(", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{nothing}\"", HF__FINDING_ERROR, "\"nothing\"", "advisory_lock");
        /* all faults, not the first */
        struct hf__findings all =
            inspect(", \"columns\": { \"id\": \"id\", \"payload\": \"p\", \"headers\": \"h\", \"locked_until\": \"l\" }");
        CU_ASSERT_TRUE(all.n >= 3);
        hf__findings_free(&all);
        off();
    }
}

static void test_constraint_faults(void)
{
    FOR_EACH_DATABASE(d)
    {
        on(databases[d]);
        make(databases[d], "BIGINT NOT NULL", "INTEGER", hf_test_format("%s NOT NULL", time_type(databases[d])));
        expect(LEASE, HF__FINDING_ERROR, "no primary key or unique index", "\"id\"");
        expect(LEASE, HF__FINDING_ERROR, "NOT NULL", "locked_until");
        off();
    }
}

/* A row without an id cannot be named in a settle. SQLite allows NULL in most primary keys: there such a row is what is wrong. */
static void test_id_faults(void)
{
    FOR_EACH_DATABASE(d)
    {
        on(databases[d]);
        bool sqlite = databases[d] == HF__SQLITE;
        make(databases[d], sqlite ? "TEXT PRIMARY KEY" : "BIGINT UNIQUE", "INTEGER", NULL);
        hf_test_sql(url, hf_test_format("CREATE INDEX %s_o ON %s (retry_after, id)", name, name));
        if (sqlite) {
            expect_nothing(LEASE);
            hf_test_sql(url, hf_test_format("INSERT INTO %s (retry_after) VALUES (CURRENT_TIMESTAMP)", name));
        }
        expect(LEASE, HF__FINDING_ERROR, sqlite ? "a row has no id" : "allows NULL", "NOT NULL");
        off();
    }
}

/* Filled by the session's own time in a column without a zone, rows are due hours early or late. */
static void test_local_default(void)
{
    static const struct {
        enum hf__database database;
        const char *due;
        bool local;
    } columns[] = {
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT now()", true},
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP", true},
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT clock_timestamp() + interval '1 second'", true},
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'utc')", false},
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT timezone('UTC', now())", false},
        {HF__POSTGRES, "timestamp NOT NULL DEFAULT '2000-01-01'", false},
        {HF__POSTGRES, "timestamptz NOT NULL DEFAULT now()", false},
        {HF__MYSQL, "DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", true},
        {HF__MYSQL, "DATETIME(6) NOT NULL DEFAULT NOW(6)", true},
        {HF__MYSQL, "DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))", false},
        {HF__MYSQL, "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", false},
        {HF__SQLITE, "TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP", false},
    };
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        on(columns[i].database);
        hf_test_sql(url,
                    hf_test_format("CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY, attempt INTEGER, retry_after %s, locked_until %s)",
                                   name, columns[i].due, time_type(columns[i].database)));
        hf_test_sql(url, hf_test_format("CREATE INDEX %s_o ON %s (retry_after, id)", name, name));
        if (columns[i].local)
            expect(LEASE, HF__FINDING_WARNING, "session's local time", "UTC");
        else
            expect_nothing(LEASE);
        off();
    }
}

static void test_index_advice(void)
{
    FOR_EACH_DATABASE(d)
    {
        const char *rest = databases[d] == HF__SQLITE ? LEASE : ROW;
        on(databases[d]);
        make(databases[d], "BIGINT NOT NULL PRIMARY KEY", "INTEGER", NULL);
        expect(rest, HF__FINDING_WARNING, "claim order", "(retry_after, id)");
        if (databases[d] == HF__MYSQL)
            expect(rest, HF__FINDING_WARNING, "second worker gets nothing", "index");
        hf_test_sql(url, hf_test_format("CREATE INDEX %s_wrong ON %s (id, retry_after)", name, name));
        expect(rest, HF__FINDING_WARNING, "claim order", "(retry_after, id)");
        hf_test_sql(url, hf_test_format("CREATE INDEX %s_right ON %s (retry_after, id)", name, name));
        expect_nothing(rest);
        off();
    }
    on(HF__POSTGRES);
    make(HF__POSTGRES, "BIGINT NOT NULL PRIMARY KEY", "INTEGER", NULL);
    hf_test_sql(
        url, hf_test_format("CREATE INDEX %s_o ON %s (retry_after, id); CREATE INDEX %s_l ON %s (locked_until)", name, name, name, name));
    expect(LEASE, HF__FINDING_WARNING, "HOT", "locked_until");
    off();
}

static void test_coarse_token(void)
{
    on(HF__MYSQL);
    make(HF__MYSQL, "BIGINT NOT NULL PRIMARY KEY", "INTEGER", "DATETIME");
    expect(", \"columns\": { \"id\": \"id\", \"locked_until\": \"locked_until\" }", HF__FINDING_ERROR, "locked_until", "three digits");
    expect(
        ", \"columns\": { \"id\": \"id\", \"retry_after\": \"retry_after\", \"attempt\": \"attempt\", \"locked_until\": \"locked_until\" }",
        HF__FINDING_WARNING, "claim order", "retry_after");
    off();
}

static void test_engine(void)
{
    on(HF__MYSQL);
    hf_test_sql(url, hf_test_format("CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY) ENGINE = MyISAM", name));
    expect(", \"columns\": { \"id\": \"id\" }", HF__FINDING_ERROR, "MyISAM", "InnoDB");
    off();
}

static void test_sqlite_faults(void)
{
    on(HF__SQLITE);
    make(HF__SQLITE, "INTEGER PRIMARY KEY", "INTEGER", NULL);
    expect(LEASE, HF__FINDING_INFO, "journal mode is delete", "WAL");
    expect(ROW, HF__FINDING_ERROR, "no row locks", "advisory_lock");
    static const char *const shapes[] = {"'2026-07-12T17:15:00.000Z'", "1784000000", "'yesterday'"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        hf_test_sql(url, hf_test_format("INSERT INTO %s (retry_after) VALUES (%s)", name, shapes[i]));
        expect(LEASE, HF__FINDING_ERROR, "YYYY-MM-DD HH:MM:SS", "retry_after");
        hf_test_sql(url, hf_test_format("DELETE FROM %s", name));
    }
    hf_test_sql(url, hf_test_format("INSERT INTO %s (retry_after) VALUES (CURRENT_TIMESTAMP)", name));
    struct hf__findings findings = inspect(LEASE);
    for (size_t i = 0; i < findings.n; i++)
        CU_ASSERT_NOT_EQUAL(findings.list[i].level, HF__FINDING_ERROR);
    hf__findings_free(&findings);
    off();
}

/* A server below a strategy's floor is named, with what is needed. */
static void test_floors(void)
{
    static const struct {
        enum hf__database database;
        bool mariadb;
        int version, below;
        const char *rest, *needed;
    } floors[] = {
        {HF__POSTGRES, false, 110000, 100023, ", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{id}\"", "PostgreSQL 11.0"},
        {HF__POSTGRES, false, 90500, 90426, LEASE, "PostgreSQL 9.5"},
        {HF__MYSQL, true, 100600, 100528, ROW, "MariaDB 10.6"},
        {HF__MYSQL, false, 80001, 50651, ROW, "MySQL 8.0"},
        {HF__SQLITE, false, 33500, 33402, LEASE, "SQLite 3.35"}};
    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
        on(floors[i].database);
        make(floors[i].database, "BIGINT NOT NULL PRIMARY KEY", "INTEGER", NULL);
        struct hf__server real = conn->server;
        conn->server.mariadb = floors[i].mariadb;
        conn->server.version = floors[i].below;
        expect(floors[i].rest, HF__FINDING_ERROR, "needs", floors[i].needed);
        struct hf__findings findings = inspect(floors[i].rest);
        CU_ASSERT_EQUAL(findings.list[0].status, HF_SERVER_TOO_OLD);
        hf__findings_free(&findings);
        conn->server.version = floors[i].version;
        bool itself = real.mariadb == floors[i].mariadb; /* (the other's catalogue differs: only the refusal is looked at) */
        findings = itself ? inspect(floors[i].rest) : (struct hf__findings){0};
        for (size_t f = 0; f < findings.n; f++)
            CU_ASSERT_NOT_EQUAL(findings.list[f].status, HF_SERVER_TOO_OLD);
        hf__findings_free(&findings);
        conn->server = real;
        off();
    }
}

static void test_pooler(void)
{
    on(HF__POSTGRES);
    make(HF__POSTGRES, "BIGINT NOT NULL PRIMARY KEY", "INTEGER", NULL);
    conn->pooler = true;
    expect(", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{id}\"", HF__FINDING_ERROR, "pooler", "lease");
    conn->pooler = false;
    off();
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"tables of our own", test_own_tables},
                           {"table faults", test_table_faults},
                           {"column faults", test_column_faults},
                           {"constraint faults", test_constraint_faults},
                           {"ids that may be NULL", test_id_faults},
                           {"a default in local time", test_local_default},
                           {"index advice", test_index_advice},
                           {"coarse token", test_coarse_token},
                           {"engine", test_engine},
                           {"SQLite", test_sqlite_faults},
                           {"floors", test_floors},
                           {"pooler", test_pooler},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "inspect", tests);
}
