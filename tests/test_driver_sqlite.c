/* The SQLite driver through the wrappers of driver.h. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/driver.h"
#include "support.h"

static struct hf__deadline soon(void)
{
    return hf__after_ms(60000);
}

static const char *scratch_dir(void)
{
    const char *dir = getenv("HF_TEST_SQLITE_DIR");
    if (dir == NULL) {
        hf_test_fail("HF_TEST_SQLITE_DIR is not set: run the tests through tests/run.sh");
    }
    return dir;
}

static const char *new_url(const char *options)
{
    return hf_test_format("sqlite:%s/%s.db?create=1%s", scratch_dir(), hf_test_scratch("driver"), options);
}

static hf_status try_open(const char *text, struct hf__conn **out, hf_error *err)
{
    struct hf__url *url;
    HF_TEST_OK(hf__url_parse(text, &url, err), err);
    hf_status status = hf__conn_open(url, NULL, soon(), out, err);
    hf__url_free(url);
    return status;
}

static struct hf__conn *open_conn(const char *text)
{
    struct hf__conn *conn;
    hf_error err;
    HF_TEST_OK(try_open(text, &conn, &err), &err);
    return conn;
}

static void exec(struct hf__conn *conn, const char *sql)
{
    hf_error err;
    HF_TEST_OK(hf__conn_exec(conn, sql, soon(), &err), &err);
}

static hf_status try_run(struct hf__conn *conn, const char *sql, const struct hf__value *values, size_t n, struct hf__rows *rows,
                         hf_error *err)
{
    const struct hf__statement statement = {.sql = sql, .serial = 0};
    return hf__conn_run(conn, &statement, values, n, rows, soon(), err);
}

static int64_t count_of(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    hf_error err;
    int64_t number = -1;
    hf__rows_init(&rows);
    HF_TEST_OK(try_run(conn, sql, NULL, 0, &rows, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows.count, 1);
    CU_ASSERT(hf__value_int(hf__cell(&rows, 0, 0), &number));
    hf__rows_free(&rows);
    return number;
}

static void begin(struct hf__conn *conn, enum hf__sqlite_mode mode)
{
    hf_error err;
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, mode, soon(), &err), &err);
}

static void rollback(struct hf__conn *conn)
{
    hf_error err;
    HF_TEST_OK(hf__conn_rollback(conn, soon(), &err), &err);
}

/* ---- connecting ---- */

static void a_missing_file_is_not_made(void)
{
    struct hf__conn *conn;
    hf_error err;
    const char *path = hf_test_format("%s/%s.db", scratch_dir(), hf_test_scratch("missing"));
    HF_TEST_STATUS(try_open(hf_test_format("sqlite:%s", path), &conn, &err), HF_UNREACHABLE, &err);
    CU_ASSERT_PTR_NULL(conn);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, path));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "create=1"));
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    HF_TEST_STATUS(try_open(hf_test_format("sqlite:%s/no/such/dir?create=1", path), &conn, &err), HF_UNREACHABLE, &err);
    HF_TEST_STATUS(try_open(hf_test_format("sqlite:%s", scratch_dir()), &conn, &err), HF_UNREACHABLE, &err);
}

static void a_file_that_is_no_database(void)
{
    struct hf__conn *conn;
    hf_error err;
    const char *path = hf_test_format("%s/%s.txt", scratch_dir(), hf_test_scratch("text"));
    FILE *file = fopen(path, "we");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    for (int i = 0; i < 200; i++) {
        (void)fputs("this is not a database\n", file);
    }
    CU_ASSERT_EQUAL(fclose(file), 0);
    HF_TEST_STATUS(try_open(hf_test_format("sqlite:%s", path), &conn, &err), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(err.native_code, SQLITE_NOTADB);
}

static void a_session_is_set_up(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    CU_ASSERT_EQUAL(conn->server.database, HF__SQLITE);
    CU_ASSERT(conn->server.version >= 33500);
    CU_ASSERT_STRING_EQUAL(conn->server.text, hf_test_format("SQLite %s", sqlite3_libversion()));
    CU_ASSERT_EQUAL(count_of(conn, "PRAGMA synchronous"), 2);
    CU_ASSERT_PTR_NOT_NULL(hf__conn_native(conn));
    hf__conn_close(conn);
    conn = open_conn(new_url("&synchronous=normal"));
    CU_ASSERT_EQUAL(count_of(conn, "PRAGMA synchronous"), 1);
    hf__conn_close(conn);
}

static void the_journal_mode_is_left_alone(void)
{
    const char *url = new_url("");
    struct hf__conn *conn = open_conn(url);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1);
    exec(conn, "PRAGMA journal_mode = wal");
    hf__conn_close(conn);
    conn = open_conn(url);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    hf__conn_close(conn);
}

/* ---- values ---- */

static void values_come_back_exactly(void)
{
    const struct hf__value values[] = {
        hf__null(),
        hf__int(INT64_MIN),
        hf__uint((uint64_t)INT64_MAX),
        hf__text("n\xC3\xA4hme"),
        hf__text_n("a\0b", 3),
        hf__bytes("\0\xFF", 2),
        hf__bytes(NULL, 0),
        hf__text(""),
        hf__bytes("abc", 3),
    };
    enum { N = sizeof values / sizeof values[0] };
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__rows rows;
    hf_error err;
    hf__rows_init(&rows);
    HF_TEST_OK(try_run(conn, "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9", values, N, &rows, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows.count, 1);
    CU_ASSERT_EQUAL_FATAL(rows.columns, N);
    for (size_t i = 0; i < N; i++) {
        CU_ASSERT(hf__value_equal(&values[i], hf__cell(&rows, 0, i)));
    }
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void times_are_text_that_sorts(void)
{
    const struct hf__value values[] = {hf__time_us(INT64_C(1752340000000001)), hf__time_us(-1), hf__time_us(INT64_MAX)};
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__rows rows;
    hf_error err;
    hf__rows_init(&rows);
    HF_TEST_OK(try_run(conn, "SELECT ?1, typeof(?1), ?2 < CURRENT_TIMESTAMP, ?3", values, 3, &rows, &err), &err);
    int64_t us = 0;
    CU_ASSERT(hf__value_time(hf__cell(&rows, 0, 0), &us) && us == values[0].i);
    CU_ASSERT_STRING_EQUAL(hf__cell(&rows, 0, 1)->s.data, "text");
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 2)->i, 1);
    CU_ASSERT_STRING_EQUAL(hf__cell(&rows, 0, 3)->s.data, "9999-12-31 23:59:59.999999");
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void real_numbers_are_exact_text(void)
{
    static const double numbers[] = {0.1, 1.0 / 3.0, -2.5e300, 2460000.123456789};
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__rows rows;
    hf_error err;
    hf__rows_init(&rows);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        HF_TEST_OK(try_run(conn, hf_test_format("SELECT %.17g", numbers[i]), NULL, 0, &rows, &err), &err);
        CU_ASSERT_EQUAL_FATAL(hf__cell(&rows, 0, 0)->type, HF__TEXT);
        CU_ASSERT_EQUAL(strtod(hf__cell(&rows, 0, 0)->s.data, NULL), numbers[i]);
    }
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void what_cannot_be_stored_is_refused(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__value values[] = {hf__uint((uint64_t)INT64_MAX + 1), hf__int(1)};
    hf_error err;
    HF_TEST_STATUS(try_run(conn, "SELECT ?1", values, 1, NULL, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "9223372036854775808"));
    HF_TEST_STATUS(try_run(conn, "SELECT ?1", values, 2, NULL, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(try_run(conn, "SELECT ?1, ?2", values + 1, 1, NULL, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(try_run(conn, "SELECT 1; SELECT 2", NULL, 0, NULL, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(try_run(conn, " ", NULL, 0, NULL, &err), HF_MISUSE, &err);
    HF_TEST_STATUS(try_run(conn, "SELECT nonsense", NULL, 0, NULL, &err), HF_DATABASE, &err);
    CU_ASSERT_FALSE(conn->lost);
    hf__conn_close(conn);
}

static uint64_t matched_by(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    hf_error err;
    hf__rows_init(&rows);
    HF_TEST_OK(try_run(conn, sql, NULL, 0, &rows, &err), &err);
    uint64_t matched = rows.matched;
    hf__rows_free(&rows);
    return matched;
}

static void matched_rows_are_counted(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    exec(conn, "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT); CREATE TABLE log (x);"
               "CREATE TRIGGER g AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (1), (2); END");
    CU_ASSERT_EQUAL(matched_by(conn, "INSERT INTO t (a) VALUES (1), (2), (3)"), 3);
    CU_ASSERT_EQUAL(matched_by(conn, "SELECT * FROM t"), 0);
    CU_ASSERT_EQUAL(matched_by(conn, "CREATE TABLE u (x)"), 0);
    CU_ASSERT_EQUAL(matched_by(conn, "UPDATE t SET a = a"), 3);
    CU_ASSERT_EQUAL(matched_by(conn, "UPDATE t SET a = 1 WHERE id = 1 RETURNING id"), 1);
    CU_ASSERT_EQUAL(matched_by(conn, "UPDATE t SET a = 1 WHERE id = 99"), 0);
    CU_ASSERT_EQUAL(matched_by(conn, "DELETE FROM t"), 3);
    hf__conn_close(conn);
}

/* ---- prepared statements ---- */

static void statements_are_kept(void)
{
    enum { N = 100 };
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__statement statements[N];
    struct hf__rows rows;
    hf_error err;
    hf__rows_init(&rows);
    for (int i = 0; i < N; i++) {
        statements[i] = (struct hf__statement){.sql = hf_test_format("SELECT ?1 + %d", i), .serial = hf__statement_serial()};
    }
    for (int round = 0; round < 3; round++) {
        for (int i = N - 1; i >= 0; i--) { /* backwards: each is put in front of those there */
            struct hf__value value = hf__int(round);
            HF_TEST_OK(hf__conn_run(conn, &statements[i], &value, 1, &rows, soon(), &err), &err);
            CU_ASSERT_EQUAL_FATAL(hf__cell(&rows, 0, 0)->i, round + i);
        }
    }
    int kept = 0;
    for (sqlite3_stmt *s = sqlite3_next_stmt(hf__conn_native(conn), NULL); s != NULL; s = sqlite3_next_stmt(hf__conn_native(conn), s)) {
        kept++;
    }
    CU_ASSERT_EQUAL(kept, N);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void a_failed_statement_leaves_nothing_behind(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    const struct hf__statement insert = {.sql = "INSERT INTO t VALUES (?1)", .serial = hf__statement_serial()};
    struct hf__value one = hf__int(1);
    struct hf__value two = hf__int(2);
    hf_error err;
    exec(conn, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    HF_TEST_OK(hf__conn_run(conn, &insert, &one, 1, NULL, soon(), &err), &err);
    HF_TEST_STATUS(hf__conn_run(conn, &insert, &one, 1, NULL, soon(), &err), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(err.native_code, SQLITE_CONSTRAINT_PRIMARYKEY);
    CU_ASSERT_EQUAL(sqlite3_stmt_busy(sqlite3_next_stmt(hf__conn_native(conn), NULL)), 0);
    HF_TEST_OK(hf__conn_run(conn, &insert, &two, 1, NULL, soon(), &err), &err);
    exec(conn, "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, b DEFAULT 5)"); /* refused while a statement is under way */
    HF_TEST_STATUS(hf__conn_run(conn, &insert, &one, 1, NULL, soon(), &err), HF_DATABASE, &err);
    exec(conn, "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY)");
    HF_TEST_OK(hf__conn_run(conn, &insert, &one, 1, NULL, soon(), &err), &err);
    hf__conn_close(conn);
}

/* ---- transactions ---- */

static void transactions_are_known(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    hf_error err;
    exec(conn, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    HF_TEST_STATUS(hf__conn_commit(conn, soon(), &err), HF_MISUSE, &err);
    rollback(conn);
    static const enum hf__sqlite_mode modes[] = {HF__DEFERRED, HF__IMMEDIATE, HF__EXCLUSIVE};
    for (size_t i = 0; i < 3; i++) {
        begin(conn, modes[i]);
        CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
        HF_TEST_STATUS(hf__conn_begin(conn, HF__SERIALIZABLE, HF__DEFERRED, soon(), &err), HF_MISUSE, &err);
        exec(conn, "INSERT INTO t DEFAULT VALUES");
        if (i == 2) {
            rollback(conn);
        } else {
            HF_TEST_OK(hf__conn_commit(conn, soon(), &err), &err);
        }
        CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    }
    CU_ASSERT_EQUAL(count_of(conn, "SELECT count(*) FROM t"), 2);
    HF_TEST_STATUS(hf__conn_begin(conn, HF__READ_COMMITTED, HF__DEFERRED, soon(), &err), HF_UNSUPPORTED, &err);
    hf__conn_close(conn);
}

/* SQLite rolls back by itself on some errors; what follows must not run, and be committed, statement by statement. */
static void a_transaction_that_sqlite_ended_has_failed(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    hf_error err;
    exec(conn, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    begin(conn, HF__IMMEDIATE);
    HF_TEST_OK(try_run(conn, "INSERT INTO t VALUES (1)", NULL, 0, NULL, &err), &err);
    HF_TEST_STATUS(try_run(conn, "INSERT OR ROLLBACK INTO t VALUES (1)", NULL, 0, NULL, &err), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_FAILED);
    HF_TEST_STATUS(try_run(conn, "INSERT INTO t VALUES (2)", NULL, 0, NULL, &err), HF_DATABASE, &err);
    HF_TEST_STATUS(hf__conn_exec(conn, "INSERT INTO t VALUES (2)", soon(), &err), HF_DATABASE, &err);
    HF_TEST_STATUS(hf__conn_commit(conn, soon(), &err), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT count(*) FROM t"), 0);
    hf__conn_close(conn);
}

/* ---- waiting ---- */

static void a_held_lock_is_transient_at_the_deadline(void)
{
    const char *url = new_url("");
    struct hf__conn *holder = open_conn(url);
    struct hf__conn *waiter = open_conn(url);
    hf_error err;
    exec(holder, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    begin(holder, HF__IMMEDIATE);
    int64_t start = hf_test_now_ms();
    HF_TEST_STATUS(hf__conn_begin(waiter, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, hf__after_ms(300), &err), HF_TRANSIENT, &err);
    int64_t took = hf_test_now_ms() - start;
    CU_ASSERT(took >= 300 && took < 30000);
    CU_ASSERT_EQUAL(err.native_code, SQLITE_BUSY);
    CU_ASSERT_FALSE(waiter->lost);
    CU_ASSERT_EQUAL(hf__conn_transaction(waiter), HF__TX_NONE);
    rollback(holder);
    begin(waiter, HF__IMMEDIATE);
    hf__conn_close(waiter);
    hf__conn_close(holder);
}

struct delayed_rollback {
    struct hf__conn *conn;
    hf_status status;
};

static void *roll_back_later(void *arg)
{
    struct delayed_rollback *d = arg;
    (void)usleep(150000);
    d->status = hf__conn_rollback(d->conn, hf__after_ms(60000), NULL);
    return NULL;
}

static void a_lock_is_waited_for(void)
{
    const char *url = new_url("");
    struct delayed_rollback d = {.conn = open_conn(url)};
    struct hf__conn *waiter = open_conn(url);
    pthread_t thread;
    begin(d.conn, HF__IMMEDIATE);
    int64_t start = hf_test_now_ms();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, roll_back_later, &d), 0);
    hf_error err;
    hf_status status = hf__conn_begin(waiter, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err);
    int64_t took = hf_test_now_ms() - start;
    (void)pthread_join(thread, NULL);
    HF_TEST_OK(status, &err);
    CU_ASSERT_EQUAL(d.status, HF_OK);
    CU_ASSERT(took >= 100 && took < 30000);
    hf__conn_close(waiter);
    hf__conn_close(d.conn);
}

/* A reader that another connection's commit has overtaken can never write: waiting would not help. */
static void an_overtaken_reader_is_told_at_once(void)
{
    const char *url = new_url("");
    struct hf__conn *a = open_conn(url);
    struct hf__conn *b = open_conn(url);
    hf_error err;
    exec(a, "PRAGMA journal_mode = wal; CREATE TABLE t (x)");
    begin(a, HF__DEFERRED);
    CU_ASSERT_EQUAL(count_of(a, "SELECT count(*) FROM t"), 0);
    exec(b, "INSERT INTO t VALUES (1)");
    int64_t start = hf_test_now_ms();
    HF_TEST_STATUS(try_run(a, "INSERT INTO t VALUES (2)", NULL, 0, NULL, &err), HF_TRANSIENT, &err);
    CU_ASSERT(hf_test_now_ms() - start < 30000);
    CU_ASSERT_EQUAL(err.native_code, SQLITE_BUSY_SNAPSHOT);
    rollback(a);
    hf__conn_close(a);
    hf__conn_close(b);
}

#define ENDLESS "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"

static hf_status run_endlessly(struct hf__conn *conn, const char *sql, hf_error *err)
{
    const struct hf__statement statement = {.sql = sql, .serial = hf__statement_serial()};
    int64_t start = hf_test_now_ms();
    hf_status status = hf__conn_run(conn, &statement, NULL, 0, NULL, hf__after_ms(200), err);
    int64_t took = hf_test_now_ms() - start;
    CU_ASSERT(took >= 200 && took < 30000);
    return status;
}

static void a_long_statement_is_stopped(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    hf_error err;
    exec(conn, "CREATE TABLE t (x)");
    HF_TEST_STATUS(run_endlessly(conn, ENDLESS, &err), HF_TIMEOUT, &err);
    HF_TEST_STATUS(run_endlessly(conn, "INSERT INTO t " ENDLESS, &err), HF_TIMEOUT, &err);
    CU_ASSERT_FALSE(conn->lost);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT count(*) FROM t"), 0);
    begin(conn, HF__IMMEDIATE);
    HF_TEST_STATUS(run_endlessly(conn, "INSERT INTO t " ENDLESS, &err), HF_TIMEOUT, &err);
    CU_ASSERT(conn->lost);
    HF_TEST_STATUS(hf__conn_commit(conn, soon(), &err), HF_LOST, &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_UNKNOWN);
    hf__conn_close(conn);
}

/* Between calls the handle may be in a user's hands, whose statements have no deadline of ours. */
static void nothing_is_stopped_between_calls(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    hf_error err;
    HF_TEST_OK(hf__conn_exec(conn, "SELECT 1", hf__after_ms(0), &err), &err);
    CU_ASSERT_EQUAL(sqlite3_exec(hf__conn_native(conn),
                                 "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000) SELECT count(*) FROM c", NULL,
                                 NULL, NULL),
                    SQLITE_OK);
    hf__conn_close(conn);
}

/* ---- the connection's life ---- */

static void a_replaced_file_is_noticed(void)
{
    const char *url = new_url("");
    struct hf__conn *conn = open_conn(url);
    hf_error err;
    exec(conn, "CREATE TABLE t (x)");
    CU_ASSERT(hf__conn_alive(conn));
    HF_TEST_OK(hf__conn_ping(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(unlink(sqlite3_db_filename(hf__conn_native(conn), "main")), 0);
    HF_TEST_STATUS(hf__conn_ping(conn, soon(), &err), HF_LOST, &err);
    CU_ASSERT(conn->lost);
    CU_ASSERT_FALSE(hf__conn_alive(conn));
    hf__conn_close(conn);
}

static void reset_undoes_what_a_user_did(void)
{
    const char *url = new_url("");
    struct hf__conn *conn = open_conn(url);
    struct hf__conn *other = open_conn(url);
    hf_error err;
    sqlite3 *native = hf__conn_native(conn);
    sqlite3_stmt *left = NULL;
    exec(conn, "CREATE TABLE t (x); INSERT INTO t VALUES (1), (2); PRAGMA synchronous = off;"
               "CREATE TEMP TABLE own (x); ATTACH ':memory:' AS extra");
    CU_ASSERT_EQUAL(sqlite3_busy_timeout(native, 1), SQLITE_OK);
    exec(conn, "BEGIN; INSERT INTO t VALUES (3); PRAGMA query_only = 1");
    CU_ASSERT_EQUAL(sqlite3_prepare_v2(native, "SELECT * FROM t", -1, &left, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL(sqlite3_step(left), SQLITE_ROW);
    HF_TEST_OK(hf__conn_reset(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    CU_ASSERT_EQUAL(count_of(conn, "PRAGMA synchronous"), 2);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT count(*) FROM pragma_database_list"), 1);
    exec(conn, "INSERT INTO t VALUES (4)");
    CU_ASSERT_EQUAL(count_of(conn, "SELECT sum(x) FROM t"), 7);
    exec(other, "DELETE FROM t WHERE x = 1; DROP TABLE t"); /* nothing of the old handle holds a lock */
    (void)sqlite3_finalize(left);
    hf__conn_close(other);
    hf__conn_close(conn);
}

static int exit_status(pid_t pid)
{
    int status = -1;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_child_keeps_its_hands_off(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    const char *path = sqlite3_db_filename(hf__conn_native(conn), "main");
    exec(conn, "CREATE TABLE t (x)");
    begin(conn, HF__IMMEDIATE);
    exec(conn, "INSERT INTO t VALUES (1)");
    pid_t pid = fork();
    if (pid == 0) {
        hf_error err;
        bool right = hf__conn_exec(conn, "DELETE FROM t", soon(), &err) == HF_MISUSE && !hf__conn_alive(conn) &&
                     hf__conn_transaction(conn) == HF__TX_UNKNOWN && hf__conn_native(conn) == NULL;
        hf__conn_close(conn);
        _exit(right ? 0 : 1);
    }
    CU_ASSERT_EQUAL(exit_status(pid), 0);
    /* A fork would inherit SQLite's list of open files; only another program sees whether the lock is still there. */
    const char *const shell[] = {"sqlite3", path, "BEGIN IMMEDIATE", NULL};
    struct hf_test_child *child = hf_test_start(shell, NULL);
    CU_ASSERT_NOT_EQUAL(hf_test_wait(child, 10000), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(hf_test_stderr(child), "locked"));
    hf_test_free(child);
    hf_error err;
    HF_TEST_OK(hf__conn_commit(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(count_of(conn, "SELECT count(*) FROM t"), 1);
    hf__conn_close(conn);
}

static int count_calls(void *ctx, int tries)
{
    (void)tries;
    ++*(int *)ctx;
    return 0;
}

static void a_borrowed_handle_is_left_as_it_was(void)
{
    const char *url = new_url("");
    struct hf__conn *holder = open_conn(url);
    exec(holder, "CREATE TABLE t (x)");
    sqlite3 *db = NULL;
    struct hf__conn *conn;
    struct hf__rows rows;
    hf_error err;
    int calls = 0;
    const struct hf__statement insert = {.sql = "INSERT INTO t VALUES (7) RETURNING x", .serial = hf__statement_serial()};
    hf__rows_init(&rows);
    CU_ASSERT_EQUAL_FATAL(sqlite3_open(sqlite3_db_filename(hf__conn_native(holder), "main"), &db), SQLITE_OK);
    CU_ASSERT_EQUAL(sqlite3_busy_handler(db, count_calls, &calls), SQLITE_OK);
    HF_TEST_OK(hf__conn_borrow(HF__SQLITE, db, &conn, &err), &err);
    CU_ASSERT_EQUAL(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_OK(hf__conn_run(conn, &insert, NULL, 0, &rows, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 0)->i, 7);
    HF_TEST_STATUS(hf__conn_reset(conn, soon(), &err), HF_MISUSE, &err);
    hf__conn_close(conn);
    CU_ASSERT_EQUAL(sqlite3_get_autocommit(db), 0);
    CU_ASSERT_EQUAL(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    begin(holder, HF__IMMEDIATE);
    CU_ASSERT_EQUAL(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_BUSY);
    CU_ASSERT_EQUAL(calls, 1);
    CU_ASSERT_EQUAL(sqlite3_close(db), SQLITE_OK); /* refused while one of our statements were left */
    hf__rows_free(&rows);
    hf__conn_close(holder);
}

/* ---- the catalogue ---- */

static void describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__relation *out)
{
    hf_error err;
    HF_TEST_OK(hf__conn_describe(conn, schema, table, soon(), out, &err), &err);
}

static enum hf__column_kind kind_of(const struct hf__relation *relation, const char *name)
{
    const struct hf__column *column = hf__relation_column(relation, name, false);
    CU_ASSERT_PTR_NOT_NULL_FATAL(column);
    return column != NULL ? column->kind : HF__COLUMN_OTHER;
}

static void columns_are_described(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__relation r;
    exec(conn, "CREATE TABLE \"my \"\" jobs\" (id INTEGER PRIMARY KEY, a BIGINT UNSIGNED NOT NULL DEFAULT 3, b VARCHAR(20), c BLOB, d,"
               " e DATETIME, f TIMESTAMP, g UUID, h JSON, i REAL, j NUMERIC, \"K\" TEXT, l INT AS (a + 1) STORED, m AS (a) VIRTUAL)");
    describe(conn, NULL, "my \" jobs", &r);
    CU_ASSERT_EQUAL(r.kind, HF__RELATION_TABLE);
    CU_ASSERT_EQUAL_FATAL(r.n_columns, 14);
    static const enum hf__column_kind kinds[] = {
        HF__COLUMN_INTEGER, HF__COLUMN_INTEGER, HF__COLUMN_TEXT,  HF__COLUMN_BYTES, HF__COLUMN_BYTES, HF__COLUMN_TIME,   HF__COLUMN_TIME,
        HF__COLUMN_UUID,    HF__COLUMN_JSON,    HF__COLUMN_OTHER, HF__COLUMN_OTHER, HF__COLUMN_TEXT,  HF__COLUMN_INTEGER};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        CU_ASSERT_EQUAL(r.columns[i].kind, kinds[i]);
    }
    const struct hf__column *id = hf__relation_column(&r, "id", false);
    const struct hf__column *a = hf__relation_column(&r, "a", false);
    CU_ASSERT(id->generated && !id->nullable && !id->has_default && id->bits == 64);
    CU_ASSERT(!a->generated && !a->nullable && a->has_default && a->bits == 64);
    CU_ASSERT_STRING_EQUAL(a->type, "BIGINT UNSIGNED");
    CU_ASSERT(hf__relation_column(&r, "b", false)->nullable);
    CU_ASSERT_EQUAL(hf__relation_column(&r, "e", false)->precision, 6);
    CU_ASSERT(hf__relation_column(&r, "l", false)->generated && hf__relation_column(&r, "m", false)->generated);
    CU_ASSERT_EQUAL(kind_of(&r, "K"), HF__COLUMN_TEXT);
    CU_ASSERT_PTR_NULL(hf__relation_column(&r, "k", false));
    CU_ASSERT_PTR_NOT_NULL(hf__relation_column(&r, "k", true));
    CU_ASSERT_PTR_NULL(hf__relation_column(&r, "kk", true));
    hf__relation_free(&r);
    CU_ASSERT_EQUAL(r.n_columns, 0);
    hf__relation_free(&r);
    hf__conn_close(conn);
}

static void relations_are_told_apart(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__relation r;
    exec(conn, "CREATE TABLE t (x); CREATE VIEW v AS SELECT 1 AS one; CREATE VIRTUAL TABLE f USING fts5(body); CREATE INDEX ti ON t (x);"
               "ATTACH ':memory:' AS \"odd \"\" name\"; CREATE TABLE \"odd \"\" name\".t (y)");
    static const struct {
        const char *schema, *table;
        enum hf__relation_kind kind;
        size_t columns;
    } cases[] = {
        {NULL, "t", HF__RELATION_TABLE, 1},          {NULL, "T", HF__RELATION_TABLE, 1},   {"main", "t", HF__RELATION_TABLE, 1},
        {NULL, "v", HF__RELATION_VIEW, 1},           {NULL, "none", HF__RELATION_NONE, 0}, {"nowhere", "t", HF__RELATION_NONE, 0},
        {"odd \" name", "t", HF__RELATION_TABLE, 1}, {NULL, "ti", HF__RELATION_NONE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        describe(conn, cases[i].schema, cases[i].table, &r);
        if (r.kind != cases[i].kind || r.n_columns != cases[i].columns) {
            hf_test_fail("%s: kind %d, %zu columns", cases[i].table, (int)r.kind, r.n_columns);
        }
        hf__relation_free(&r);
    }
    describe(conn, NULL, "f", &r);
    CU_ASSERT_EQUAL(r.kind, HF__RELATION_OTHER);
    hf__relation_free(&r);
    hf__conn_close(conn);
}

static const struct hf__index *index_named(const struct hf__relation *r, const char *name)
{
    for (size_t i = 0; i < r->n_indexes; i++) {
        if (strcmp(r->indexes[i].name, name) == 0) {
            return &r->indexes[i];
        }
    }
    hf_test_fail("there is no index %s", name);
    return NULL;
}

/* The columns joined by commas, "?" for an expression. */
static const char *columns_of(const struct hf__index *index)
{
    const char *text = "";
    for (size_t i = 0; i < index->n_columns; i++) {
        text = hf_test_format("%s%s%s", text, i > 0 ? "," : "", index->columns[i] != NULL ? index->columns[i] : "?");
    }
    return text;
}

static void indexes_are_described(void)
{
    struct hf__conn *conn = open_conn(new_url(""));
    struct hf__relation r;
    exec(conn, "CREATE TABLE t (id INTEGER PRIMARY KEY, p INT, \"due at\" TEXT, g TEXT, done TEXT, UNIQUE (g, p));"
               "CREATE INDEX claim ON t (p, \"due at\");"
               "CREATE INDEX open ON t (\"due at\", id) WHERE done IS NULL AND g <> 'where (';"
               "CREATE INDEX \"a where b\" ON t (p DESC);"
               "CREATE INDEX \"c) where \"\" d\" ON t (p) where\n p > 1;"
               "CREATE INDEX expr ON t (lower(g), p);"
               "CREATE INDEX nocase ON t (g COLLATE NOCASE)");
    describe(conn, NULL, "t", &r);
    const struct hf__index *index = index_named(&r, "rowid");
    CU_ASSERT(index->primary && index->unique && index->plain && !index->partial);
    CU_ASSERT_STRING_EQUAL(columns_of(index), "id");
    index = index_named(&r, "claim");
    CU_ASSERT(!index->primary && !index->unique && index->plain && !index->partial);
    CU_ASSERT_STRING_EQUAL(columns_of(index), "p,due at,id");
    index = index_named(&r, "open");
    CU_ASSERT(index->plain && index->partial);
    CU_ASSERT_STRING_EQUAL(columns_of(index), "due at,id");
    CU_ASSERT_STRING_EQUAL(index->predicate, "done IS NULL AND g <> 'where ('");
    index = index_named(&r, "a where b");
    CU_ASSERT(!index->plain && !index->partial && index->predicate == NULL);
    CU_ASSERT_STRING_EQUAL(index_named(&r, "c) where \" d")->predicate, "p > 1");
    index = index_named(&r, "expr");
    CU_ASSERT(!index->plain);
    CU_ASSERT_STRING_EQUAL(columns_of(index), "?,p,id");
    CU_ASSERT_FALSE(index_named(&r, "nocase")->plain);
    index = index_named(&r, "sqlite_autoindex_t_1");
    CU_ASSERT(index->unique && index->plain);
    CU_ASSERT_STRING_EQUAL(columns_of(index), "g,p");
    CU_ASSERT_EQUAL(r.n_indexes, 8);
    hf__relation_free(&r);
    hf__conn_close(conn);
}

static void primary_keys_that_are_no_rowid(void)
{
    static const struct {
        const char *sql, *primary, *other;
    } cases[] = {
        {"CREATE TABLE t (id INTEGER PRIMARY KEY, a) WITHOUT ROWID; CREATE INDEX o ON t (a)", "id", "a,id"},
        {"CREATE TABLE t (id INT PRIMARY KEY, a); CREATE INDEX o ON t (a)", "id", "a"},
        {"CREATE TABLE t (id TEXT, b, a, PRIMARY KEY (b, id)); CREATE INDEX o ON t (a)", "b,id", "a"},
        {"CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a); CREATE INDEX o ON t (a)", "id", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf__conn *conn = open_conn(new_url(""));
        struct hf__relation r;
        exec(conn, cases[i].sql);
        describe(conn, NULL, "t", &r);
        CU_ASSERT_EQUAL(r.n_indexes, 2);
        CU_ASSERT_STRING_EQUAL(columns_of(index_named(&r, "o")), cases[i].other);
        const struct hf__index *primary = index_named(&r, "sqlite_autoindex_t_1");
        CU_ASSERT(primary->primary && primary->unique);
        CU_ASSERT_STRING_EQUAL(columns_of(primary), cases[i].primary);
        CU_ASSERT_FALSE(hf__relation_column(&r, "id", false)->generated);
        hf__relation_free(&r);
        hf__conn_close(conn);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a missing file is not made", a_missing_file_is_not_made},
        {"a file that is no database", a_file_that_is_no_database},
        {"a session is set up", a_session_is_set_up},
        {"the journal mode is left alone", the_journal_mode_is_left_alone},
        {"values come back exactly", values_come_back_exactly},
        {"times are text that sorts", times_are_text_that_sorts},
        {"real numbers are exact text", real_numbers_are_exact_text},
        {"what cannot be stored is refused", what_cannot_be_stored_is_refused},
        {"matched rows are counted", matched_rows_are_counted},
        {"statements are kept", statements_are_kept},
        {"a failed statement leaves nothing behind", a_failed_statement_leaves_nothing_behind},
        {"transactions are known", transactions_are_known},
        {"a transaction that SQLite ended has failed", a_transaction_that_sqlite_ended_has_failed},
        {"a held lock is transient at the deadline", a_held_lock_is_transient_at_the_deadline},
        {"a lock is waited for", a_lock_is_waited_for},
        {"an overtaken reader is told at once", an_overtaken_reader_is_told_at_once},
        {"a long statement is stopped", a_long_statement_is_stopped},
        {"nothing is stopped between calls", nothing_is_stopped_between_calls},
        {"a replaced file is noticed", a_replaced_file_is_noticed},
        {"reset undoes what a user did", reset_undoes_what_a_user_did},
        {"a child keeps its hands off", a_child_keeps_its_hands_off},
        {"a borrowed handle is left as it was", a_borrowed_handle_is_left_as_it_was},
        {"columns are described", columns_are_described},
        {"relations are told apart", relations_are_told_apart},
        {"indexes are described", indexes_are_described},
        {"primary keys that are no rowid", primary_keys_that_are_no_rowid},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "driver_sqlite", tests);
}
