/* ctest: timeout=180 labels=server serial */
#include <fcntl.h>
#include <mysql.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/driver_mysql.h"
#include "tests/support.h"

#define LIMIT_MS 20000

static const struct hf__session_options options = {
    .connect_timeout_ms = LIMIT_MS, .idle_limit_ms = 3600500, .application_name = "holdfast test"};

static hf_error err;

static struct hf__deadline soon(void)
{
    return hf__after_ms(LIMIT_MS);
}

static hf_status try_open(const char *text, struct hf__conn **out, hf_error *error)
{
    struct hf__url *url = NULL;
    hf_status status = hf__url_parse(text, &url, error);
    if (status == HF_OK) {
        status = hf__conn_open(url, &options, soon(), out, error);
    }
    hf__url_free(url);
    return status;
}

static struct hf__conn *open_url(const char *url)
{
    struct hf__conn *conn = NULL;
    HF_TEST_OK(try_open(url, &conn, &err), &err);
    return conn;
}

static struct hf__conn *open_conn(void)
{
    return open_url(hf_test_mysql_url());
}

static hf_status run(struct hf__conn *conn, const char *sql, const struct hf__value *values, size_t n, struct hf__rows *rows)
{
    const struct hf__statement statement = {.sql = sql};
    return hf__conn_run(conn, &statement, values, n, rows, soon(), &err);
}

static void exec(struct hf__conn *conn, const char *sql)
{
    HF_TEST_OK(hf__conn_exec(conn, sql, soon(), &err), &err);
}

static const char *cell_text(const struct hf__rows *rows, size_t row, size_t column)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    return cell->type == HF__TEXT || cell->type == HF__BYTES ? cell->s.data : "(no text)";
}

static const char *query_text(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, sql, NULL, 0, &rows), &err);
    const char *text = rows.count == 0 ? NULL : hf_test_format("%s", cell_text(&rows, 0, 0));
    hf__rows_free(&rows);
    return text;
}

static int64_t query_int(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    int64_t number = -1;
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, sql, NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL_FATAL(rows.count, 1);
    CU_ASSERT_TRUE(hf__value_int(hf__cell(&rows, 0, 0), &number));
    hf__rows_free(&rows);
    return number;
}

static unsigned long session_of(struct hf__conn *conn)
{
    return mysql_thread_id(hf__conn_native(conn));
}

/* MySQL knows no CREATE OR REPLACE TABLE. */
static void make_named_table(struct hf__conn *conn, const char *name, const char *definition)
{
    exec(conn, hf_test_format("DROP TABLE IF EXISTS %s", name));
    exec(conn, hf_test_format("CREATE TABLE %s %s", name, definition));
}

/* A table of the test's own, dropped by the next caller or with the server. */
static const char *make_table(struct hf__conn *conn, const char *columns)
{
    const char *name = hf_test_scratch("my");
    exec(conn, hf_test_format("CREATE TABLE %s (%s) ENGINE=InnoDB", name, columns));
    return name;
}

static void drop_table(struct hf__conn *conn, const char *name)
{
    exec(conn, hf_test_format("DROP TABLE %s", name));
    hf__conn_close(conn);
}

/* ---- values ---- */

/* What goes in comes out of a column of that type, alone in its row. */
static void check_round_trip(struct hf__conn *conn, const char *type, struct hf__value value, struct hf__value expected)
{
    struct hf__rows rows;
    const char *table = make_table(conn, hf_test_format("v %s", type));
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, hf_test_format("INSERT INTO %s VALUES (?)", table), &value, 1, &rows), &err);
    CU_ASSERT_EQUAL(rows.matched, 1);
    HF_TEST_OK(run(conn, hf_test_format("SELECT v FROM %s WHERE v <=> ?", table), &value, 1, &rows), &err);
    if (rows.count != 1 || hf__cell(&rows, 0, 0)->type != expected.type || !hf__value_equal(hf__cell(&rows, 0, 0), &expected)) {
        hf_test_fail("%s: %zu rows, type %d instead of %d, \"%s\"", type, rows.count, rows.count ? (int)hf__cell(&rows, 0, 0)->type : -1,
                     (int)expected.type, rows.count ? cell_text(&rows, 0, 0) : "");
    }
    hf__rows_free(&rows);
    exec(conn, hf_test_format("DROP TABLE %s", table));
}

static void check_same(struct hf__conn *conn, const char *type, struct hf__value value)
{
    check_round_trip(conn, type, value, value);
}

static void numbers_come_back(void)
{
    struct hf__conn *conn = open_conn();
    check_same(conn, "BIGINT", hf__int(INT64_MIN));
    check_same(conn, "BIGINT", hf__int(INT64_MAX));
    check_same(conn, "BIGINT UNSIGNED", hf__uint(UINT64_MAX));
    check_round_trip(conn, "BIGINT UNSIGNED", hf__int(INT64_MAX), hf__uint(INT64_MAX));
    check_same(conn, "TINYINT", hf__int(-128));
    check_round_trip(conn, "SMALLINT UNSIGNED", hf__int(65535), hf__uint(65535));
    check_same(conn, "MEDIUMINT", hf__int(-8388608));
    check_same(conn, "INT", hf__int(INT32_MIN));
    check_round_trip(conn, "INT UNSIGNED", hf__uint(UINT32_MAX), hf__uint(UINT32_MAX));
    check_round_trip(conn, "INT ZEROFILL", hf__int(7), hf__uint(7));
    check_round_trip(conn, "YEAR", hf__int(2155), hf__uint(2155));
    check_round_trip(conn, "DECIMAL(30,5)", hf__text("1234567890123456789012345.12345"), hf__text("1234567890123456789012345.12345"));
    check_round_trip(conn, "DOUBLE", hf__text("-1.5e100"), hf__text("-1.5e100"));
    check_round_trip(conn, "FLOAT", hf__text("0.5"), hf__text("0.5"));
    check_same(conn, "INT", hf__null());
    hf__conn_close(conn);
}

static void strings_come_back(void)
{
    unsigned char all[256];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (unsigned char)i;
    }
    struct hf__conn *conn = open_conn();
    check_same(conn, "BLOB", hf__bytes(all, sizeof all));
    check_same(conn, "VARBINARY(256)", hf__bytes(all, sizeof all));
    check_same(conn, "BLOB", hf__bytes("", 0));
    check_same(conn, "BLOB", hf__bytes("\0\0", 2));
    check_same(conn, "BINARY(16)", hf__bytes(all + 128, 16));
    check_same(conn, "BLOB", hf__null());
    check_same(conn, "VARCHAR(20) CHARACTER SET utf8mb4", hf__text("na\xC3\xAFve \xF0\x9F\x90\x8C"));
    check_round_trip(conn, "VARCHAR(20) CHARACTER SET latin1", hf__text("na\xC3\xAFve"), hf__text("na\xC3\xAFve"));
    check_round_trip(conn, "VARCHAR(20) CHARACTER SET latin1", hf__bytes("na\xC3\xAFve", 6), hf__text("na\xC3\xAFve"));
    check_round_trip(conn, "TEXT CHARACTER SET utf8mb4", hf__bytes("na\xC3\xAFve", 6), hf__text("na\xC3\xAFve"));
    check_round_trip(conn, "BLOB", hf__text("text"), hf__bytes("text", 4));
    check_same(conn, "TEXT", hf__text(""));
    check_same(conn, "TEXT", hf__text_n("a\0b", 3));
    check_same(conn, "ENUM('a','b')", hf__text("b"));
    check_round_trip(conn, "BIT(16)", hf__int(0x0102), hf__bytes("\1\2", 2));
    hf__conn_close(conn);
}

static void json_takes_bytes(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v JSON");
    const struct hf__value value = hf__bytes("{\"a\": 1}", 8);
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, hf_test_format("INSERT INTO %s VALUES (?)", table), &value, 1, NULL), &err);
    HF_TEST_OK(run(conn, hf_test_format("SELECT v FROM %s", table), NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 0)->type, HF__TEXT);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 0), "{\"a\": 1}");
    hf__rows_free(&rows);
    drop_table(conn, table);
}

static void times_come_back(void)
{
    const int64_t second = 1000000;
    const int64_t at = INT64_C(1700000000) * second + 123456;
    struct hf__conn *conn = open_conn();
    check_same(conn, "DATETIME(6)", hf__time_us(at));
    check_same(conn, "TIMESTAMP(6) NULL", hf__time_us(at));
    check_same(conn, "DATETIME(3)", hf__time_us(at - 456));
    check_same(conn, "DATETIME", hf__time_us(at - 123456));
    check_same(conn, "DATETIME(6)", hf__time_us(-1));
    check_same(conn, "DATETIME(6)", hf__time_us(0));
    check_same(conn, "DATETIME(6)", hf__time_us(INT64_C(253402300799) * second + 999999));
    check_round_trip(conn, "DATETIME(6)", hf__time_us(INT64_MAX), hf__time_us(INT64_C(253402300799) * second + 999999));
    check_round_trip(conn, "DATE", hf__text("2024-02-29"), hf__text("2024-02-29"));
    check_round_trip(conn, "TIME(2)", hf__text("-101:02:03.45"), hf__text("-101:02:03.45"));
    hf__conn_close(conn);
}

static void zero_dates_are_text(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "a DATETIME NULL, b DATETIME(3) NULL");
    hf__rows_init(&rows);
    exec(conn, "SET sql_mode = ''");
    exec(conn, hf_test_format("INSERT INTO %s VALUES ('0000-00-00', '2024-00-01 10:00:00.5')", table));
    HF_TEST_OK(run(conn, hf_test_format("SELECT * FROM %s", table), NULL, 0, &rows), &err);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 0), "0000-00-00 00:00:00");
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 1), "2024-00-01 10:00:00.500000");
    hf__rows_free(&rows);
    drop_table(conn, table);
}

#define BIG ((size_t)5 * 1024 * 1024)

static void five_megabytes_come_back(void)
{
    struct hf__rows rows;
    char *big = malloc(BIG);
    if (big == NULL) {
        hf_test_fail("out of memory");
        return;
    }
    for (size_t i = 0; i < BIG; i++) {
        big[i] = (char)(i * 31 + (i >> 12));
    }
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v LONGBLOB");
    const struct hf__value value = hf__bytes(big, BIG);
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, hf_test_format("INSERT INTO %s VALUES (?), ('small')", table), &value, 1, NULL), &err);
    HF_TEST_OK(run(conn, hf_test_format("SELECT v, 1 FROM %s ORDER BY LENGTH(v)", table), NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL_FATAL(rows.count, 2);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 0), "small");
    CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 1, 0), &value));
    CU_ASSERT_EQUAL(hf__cell(&rows, 1, 1)->i, 1);
    hf__rows_free(&rows);
    free(big);
    drop_table(conn, table);
}

static void types_may_change_between_runs(void)
{
    const struct hf__statement statement = {.sql = "SELECT CONCAT(?, '')", .serial = hf__statement_serial()};
    const struct hf__value values[] = {hf__int(-7), hf__text("seven"), hf__null(), hf__uint(UINT64_MAX), hf__text(""), hf__time_us(1)};
    const char *const expected[] = {"-7", "seven", "(no text)", "18446744073709551615", "", "1970-01-01 00:00:00.000001"};
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    hf__rows_init(&rows);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        HF_TEST_OK(hf__conn_run(conn, &statement, &values[i], 1, &rows, soon(), &err), &err);
        CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 0), expected[i]);
    }
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void the_count_is_of_matched_rows(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v INT");
    exec(conn, hf_test_format("INSERT INTO %s VALUES (1), (1), (2)", table));
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, hf_test_format("UPDATE %s SET v = 1 WHERE v = 1", table), NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL(rows.matched, 2);
    CU_ASSERT_EQUAL(rows.count, 0);
    HF_TEST_OK(run(conn, hf_test_format("DELETE FROM %s", table), NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL(rows.matched, 3);
    hf__rows_free(&rows);
    drop_table(conn, table);
}

static void a_wrong_number_of_values_is_refused(void)
{
    struct hf__conn *conn = open_conn();
    HF_TEST_STATUS(run(conn, "SELECT ?", NULL, 0, NULL), HF_INVALID, &err);
    CU_ASSERT_EQUAL(query_int(conn, "SELECT 1"), 1);
    hf__conn_close(conn);
}

/* ---- prepared statements ---- */

static int64_t prepared_count(struct hf__conn *conn)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    HF_TEST_OK(run(conn, "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'", NULL, 0, &rows), &err);
    int64_t count = strtoll(cell_text(&rows, 0, 1), NULL, 10);
    hf__rows_free(&rows);
    return count;
}

static void statements_stay_prepared(void)
{
    enum { KINDS = 40 };
    struct hf__statement statements[KINDS];
    struct hf__conn *conn = open_conn();
    for (size_t i = 0; i < KINDS; i++) {
        statements[i] = (struct hf__statement){.sql = hf_test_format("SELECT %zu", i), .serial = hf__statement_serial()};
    }
    int64_t before = prepared_count(conn);
    for (size_t i = 0; i < (size_t)3 * KINDS; i++) { /* not in the order of their serials */
        struct hf__rows rows;
        hf__rows_init(&rows);
        HF_TEST_OK(hf__conn_run(conn, &statements[i * 7 % KINDS], NULL, 0, &rows, soon(), &err), &err);
        CU_ASSERT_EQUAL(hf__cell(&rows, 0, 0)->i, (int64_t)(i * 7 % KINDS));
        hf__rows_free(&rows);
    }
    CU_ASSERT_EQUAL(prepared_count(conn) - before, KINDS + 1); /* and the question itself */
    hf__conn_close(conn);
}

static void a_changed_table_is_read_anew(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "a INT");
    const struct hf__statement named = {.sql = hf_test_format("SELECT a FROM %s", table), .serial = hf__statement_serial()};
    const struct hf__statement all = {.sql = hf_test_format("SELECT * FROM %s", table), .serial = hf__statement_serial()};
    hf__rows_init(&rows);
    exec(conn, hf_test_format("INSERT INTO %s VALUES (1)", table));
    HF_TEST_OK(hf__conn_run(conn, &named, NULL, 0, &rows, soon(), &err), &err);
    HF_TEST_OK(hf__conn_run(conn, &all, NULL, 0, &rows, soon(), &err), &err);
    CU_ASSERT_EQUAL(rows.columns, 1);
    exec(conn, hf_test_format("ALTER TABLE %s ADD b VARCHAR(10) DEFAULT 'new', MODIFY a VARCHAR(10)", table));
    HF_TEST_OK(hf__conn_run(conn, &named, NULL, 0, &rows, soon(), &err), &err);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 0), "1");
    HF_TEST_STATUS(hf__conn_run(conn, &all, NULL, 0, &rows, soon(), &err), HF_TRANSIENT, &err); /* libmariadb cannot read it */
    CU_ASSERT_FALSE(conn->lost);
    HF_TEST_OK(hf__conn_run(conn, &all, NULL, 0, &rows, soon(), &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows.columns, 2);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 1), "new");
    hf__rows_free(&rows);
    drop_table(conn, table);
}

static void a_procedure_leaves_nothing_behind(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_conn();
    const char *name = hf_test_scratch("proc");
    hf__rows_init(&rows);
    exec(conn, hf_test_format("CREATE PROCEDURE %s() BEGIN SELECT 1; SELECT 2, 3; END", name));
    HF_TEST_OK(run(conn, hf_test_format("CALL %s()", name), NULL, 0, &rows), &err);
    CU_ASSERT_EQUAL(rows.count, 1);
    exec(conn, hf_test_format("CALL %s()", name));
    CU_ASSERT_EQUAL(query_int(conn, "SELECT 5"), 5);
    exec(conn, hf_test_format("DROP PROCEDURE %s", name));
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

/* ---- the session ---- */

static void check_settings(struct hf__conn *conn)
{
    CU_ASSERT_STRING_EQUAL(query_text(conn, "SELECT @@session.time_zone"), "+00:00");
    CU_ASSERT_STRING_EQUAL(
        query_text(conn, conn->server.mariadb ? "SELECT @@session.tx_isolation" : "SELECT @@session.transaction_isolation"),
        "READ-COMMITTED");
    CU_ASSERT_STRING_EQUAL(query_text(conn, "SELECT @@session.sql_mode"),
                           "NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
                           "NO_ENGINE_SUBSTITUTION");
    CU_ASSERT_EQUAL(query_int(conn, "SELECT @@character_set_client = 'utf8mb4' AND @@character_set_connection = 'utf8mb4' "
                                    "AND @@character_set_results = 'utf8mb4'"),
                    1);
    CU_ASSERT_EQUAL(query_int(conn, "SELECT @@session.autocommit"), 1);
    CU_ASSERT_EQUAL(query_int(conn, "SELECT @@session.wait_timeout"), 3601);
    if (conn->server.mariadb) {
        CU_ASSERT_EQUAL(query_int(conn, "SELECT @@session.idle_transaction_timeout + @@session.idle_write_transaction_timeout"
                                        " + @@session.idle_readonly_transaction_timeout"),
                        0);
    }
    CU_ASSERT_STRING_EQUAL(query_text(conn, "SELECT DATABASE()"), "holdfast");
    CU_ASSERT_EQUAL(query_int(conn, "SELECT ABS(TIMESTAMPDIFF(SECOND, NOW(), UTC_TIMESTAMP())) < 2"), 1);
}

static void the_session_is_set_up(void)
{
    struct hf__conn *conn = open_conn();
    check_settings(conn);
    CU_ASSERT_EQUAL(conn->server.mariadb, hf_test_is_mariadb());
    CU_ASSERT(conn->server.version >= (conn->server.mariadb ? 100500 : 80000));
    CU_ASSERT_EQUAL(strncmp(conn->server.text, conn->server.mariadb ? "MariaDB 1" : "MySQL ", conn->server.mariadb ? 9 : 6), 0);
    CU_ASSERT_EQUAL(conn->owner, getpid());
    CU_ASSERT_TRUE(fcntl(mysql_get_socket(hf__conn_native(conn)), F_GETFD) & FD_CLOEXEC);
    HF_TEST_STATUS(hf__conn_exec(conn, "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE no_table", soon(), &err), HF_DATABASE, &err);
    hf__conn_close(conn);
}

static void servers_that_end_idle_transactions_spare_ours(void)
{
    if (!hf_test_is_mariadb()) {
        return; /* MySQL ends none */
    }
    hf_test_sql(hf_test_mysql_admin_url(), "SET GLOBAL idle_transaction_timeout = 1");
    struct hf__conn *conn = open_conn();
    hf_test_sql(hf_test_mysql_admin_url(), "SET GLOBAL idle_transaction_timeout = 0");
    CU_ASSERT_EQUAL(query_int(conn, "SELECT @@global.idle_transaction_timeout + @@session.idle_transaction_timeout"), 0);
    hf__conn_close(conn);
}

static void reset_takes_everything_back(void)
{
    const struct hf__statement statement = {.sql = "SELECT 42", .serial = hf__statement_serial()};
    struct hf__conn *conn = open_conn();
    HF_TEST_OK(hf__conn_run(conn, &statement, NULL, 0, NULL, soon(), &err), &err);
    HF_TEST_OK(hf__conn_begin(conn, HF__SERIALIZABLE, HF__IMMEDIATE, soon(), &err), &err);
    exec(conn, "SET SESSION wait_timeout = 5, sql_mode = '', time_zone = '+05:00', @mine = 1, NAMES latin1");
    exec(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    CU_ASSERT_EQUAL(query_int(conn, "SELECT GET_LOCK('test_driver_mysql', 0)"), 1);
    exec(conn, "USE information_schema");
    HF_TEST_OK(hf__conn_reset(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    check_settings(conn);
    CU_ASSERT_EQUAL(query_int(conn, "SELECT @mine IS NULL AND IS_FREE_LOCK('test_driver_mysql')"), 1);
    HF_TEST_OK(hf__conn_run(conn, &statement, NULL, 0, NULL, soon(), &err), &err);
    hf__conn_close(conn);
}

static void an_unread_result_ends_the_connection(void)
{
    struct hf__conn *conn = open_conn();
    CU_ASSERT_EQUAL(mysql_query(hf__conn_native(conn), "SELECT 1"), 0);
    HF_TEST_STATUS(hf__conn_reset(conn, soon(), &err), HF_LOST, &err);
    CU_ASSERT_TRUE(conn->lost);
    hf__conn_close(conn);
}

static void a_user_may_reset_the_session(void)
{
    const struct hf__statement statement = {.sql = "SELECT 42", .serial = hf__statement_serial()};
    struct hf__conn *conn = open_conn();
    HF_TEST_OK(hf__conn_run(conn, &statement, NULL, 0, NULL, soon(), &err), &err);
    CU_ASSERT_EQUAL(mysql_reset_connection(hf__conn_native(conn)), 0);
    HF_TEST_OK(hf__conn_run(conn, &statement, NULL, 0, NULL, soon(), &err), &err);
    hf__conn_close(conn);
}

static void a_pooler_is_left_alone(void)
{
    struct hf__rows rows;
    struct hf__conn *conn = open_url(hf_test_format("%s?pooler=transaction", hf_test_mysql_url()));
    const struct hf__statement statement = {.sql = "SELECT @@session.wait_timeout <> 3601", .serial = hf__statement_serial()};
    hf__rows_init(&rows);
    CU_ASSERT_TRUE(conn->pooler);
    for (int i = 0; i < 2; i++) {
        HF_TEST_OK(hf__conn_run(conn, &statement, NULL, 0, &rows, soon(), &err), &err);
        CU_ASSERT_EQUAL(hf__cell(&rows, 0, 0)->i, 1);
    }
    CU_ASSERT_EQUAL(prepared_count(conn), 3);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

/* ---- transactions ---- */

/* InnoDB brings its views up to date only when nobody has read them for a tenth of a second. */
static bool wait_for_innodb(bool (*check)(void *arg), void *arg)
{
    bool seen = false;
    for (int64_t end = hf_test_now_ms() + LIMIT_MS; !seen && hf_test_now_ms() < end;) {
        (void)poll(NULL, 0, 120);
        seen = check(arg);
    }
    return seen;
}

struct level {
    unsigned long session;
    const char *name;
};

static bool has_level(void *arg)
{
    const struct level *level = arg;
    static const char sql[] = "SELECT trx_isolation_level FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = %lu";
    const char *found = hf_test_query_text(hf_test_mysql_admin_url(), hf_test_format(sql, level->session));
    return found != NULL && strcmp(found, level->name) == 0;
}

static void check_level(struct hf__conn *conn, enum hf__isolation isolation, const char *name)
{
    struct level level = {.session = session_of(conn), .name = name};
    HF_TEST_OK(hf__conn_begin(conn, isolation, HF__IMMEDIATE, soon(), &err), &err);
    exec(conn, "SELECT * FROM level_probe FOR UPDATE");
    CU_ASSERT_TRUE(wait_for_innodb(has_level, &level));
    HF_TEST_OK(hf__conn_rollback(conn, soon(), &err), &err);
}

static void levels_are_those_asked_for(void)
{
    struct hf__conn *conn = open_conn();
    make_named_table(conn, "level_probe", "(id INT PRIMARY KEY) ENGINE=InnoDB");
    check_level(conn, HF__ISOLATION_DEFAULT, "READ COMMITTED");
    check_level(conn, HF__SERIALIZABLE, "SERIALIZABLE");
    check_level(conn, HF__READ_COMMITTED, "READ COMMITTED");
    check_level(conn, HF__REPEATABLE_READ, "REPEATABLE READ");
    drop_table(conn, "level_probe");
}

static void the_transaction_is_followed(void)
{
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v INT");
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_STATUS(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), HF_MISUSE, &err);
    HF_TEST_OK(run(conn, hf_test_format("INSERT INTO %s VALUES (1)", table), NULL, 0, NULL), &err);
    HF_TEST_STATUS(run(conn, "SELECT nothing", NULL, 0, NULL), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_OK(hf__conn_commit(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    HF_TEST_OK(run(conn, hf_test_format("INSERT INTO %s VALUES (2)", table), NULL, 0, NULL), &err);
    HF_TEST_OK(hf__conn_ping(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_OK(hf__conn_rollback(conn, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    CU_ASSERT_EQUAL(query_int(conn, hf_test_format("SELECT SUM(v) FROM %s", table)), 1);
    drop_table(conn, table);
}

static void nothing_to_commit_is_an_error(void)
{
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v INT");
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    exec(conn, hf_test_format("ALTER TABLE %s ADD w INT", table)); /* commits by itself */
    HF_TEST_STATUS(hf__conn_commit(conn, soon(), &err), HF_DATABASE, &err);
    drop_table(conn, table);
}

struct victim {
    struct hf__conn *conn;
    const char *sql;
    hf_status status;
    hf_error err;
};

static void *run_victim(void *arg)
{
    struct victim *victim = arg;
    const struct hf__statement statement = {.sql = victim->sql};
    hf__driver_thread_begin(HF__MYSQL);
    victim->status = hf__conn_run(victim->conn, &statement, NULL, 0, NULL, soon(), &victim->err);
    hf__driver_thread_end(HF__MYSQL);
    return NULL;
}

static bool waits_for_lock(void *id)
{
    static const char sql[] =
        "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = %lu";
    return hf_test_query_int(hf_test_mysql_admin_url(), hf_test_format(sql, *(unsigned long *)id)) == 1;
}

static void begin_and_update(struct hf__conn *conn, const char *table, int id)
{
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    HF_TEST_OK(run(conn, hf_test_format("UPDATE %s SET v = v + 1 WHERE id = %d", table, id), NULL, 0, NULL), &err);
}

static void a_deadlock_ends_the_transaction(void)
{
    struct hf__conn *one = open_conn();
    struct victim two = {.conn = open_conn()};
    unsigned long waiting = session_of(two.conn);
    const char *table = make_table(one, "id INT PRIMARY KEY, v INT");
    pthread_t thread;
    exec(one, hf_test_format("INSERT INTO %s VALUES (1, 0), (2, 0), (3, 0), (4, 0)", table));
    begin_and_update(one, table, 1);
    exec(one, hf_test_format("UPDATE %s SET v = 9 WHERE id > 2", table)); /* the heavier one survives */
    begin_and_update(two.conn, table, 2);
    two.sql = hf_test_format("UPDATE %s SET v = 5 WHERE id = 1", table);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_victim, &two), 0);
    CU_ASSERT_TRUE(wait_for_innodb(waits_for_lock, &waiting));
    HF_TEST_OK(run(one, hf_test_format("UPDATE %s SET v = 5 WHERE id = 2", table), NULL, 0, NULL), &err);
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, NULL), 0);
    CU_ASSERT_EQUAL(two.status, HF_TRANSIENT);
    CU_ASSERT_EQUAL(two.err.native_code, 1213);
    CU_ASSERT_STRING_EQUAL(two.err.sqlstate, "40001");
    CU_ASSERT_EQUAL(hf__conn_transaction(two.conn), HF__TX_FAILED);
    HF_TEST_STATUS(run(two.conn, "SELECT 1", NULL, 0, NULL), HF_DATABASE, &err);
    HF_TEST_STATUS(hf__conn_commit(two.conn, soon(), &err), HF_DATABASE, &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(two.conn), HF__TX_NONE);
    CU_ASSERT_EQUAL(query_int(two.conn, "SELECT 1"), 1);
    CU_ASSERT_FALSE(two.conn->lost || two.conn->retire);
    HF_TEST_OK(hf__conn_commit(one, soon(), &err), &err);
    hf__conn_close(two.conn);
    drop_table(one, table);
}

static void a_lock_timeout_keeps_the_transaction(void)
{
    struct hf__conn *holder = open_conn();
    struct hf__conn *conn = open_conn();
    const char *table = make_table(holder, "id INT PRIMARY KEY, v INT");
    exec(holder, hf_test_format("INSERT INTO %s VALUES (1, 0), (2, 0)", table));
    begin_and_update(holder, table, 1);
    exec(conn, "SET innodb_lock_wait_timeout = 1");
    begin_and_update(conn, table, 2);
    HF_TEST_STATUS(run(conn, hf_test_format("UPDATE %s SET v = 7 WHERE id = 1", table), NULL, 0, NULL), HF_TRANSIENT, &err);
    CU_ASSERT_EQUAL(err.native_code, 1205);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_STATUS(run(conn, hf_test_format("SELECT * FROM %s WHERE id = 1 FOR UPDATE NOWAIT", table), NULL, 0, NULL), HF_TRANSIENT, &err);
    HF_TEST_OK(hf__conn_commit(conn, soon(), &err), &err);
    HF_TEST_OK(hf__conn_rollback(holder, soon(), &err), &err);
    CU_ASSERT_EQUAL(query_int(conn, hf_test_format("SELECT SUM(v) FROM %s", table)), 1);
    hf__conn_close(conn);
    drop_table(holder, table);
}

/* ---- deadlines ---- */

static bool session_is_gone(void *id)
{
    static const char sql[] = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %lu";
    return hf_test_query_int(hf_test_mysql_admin_url(), hf_test_format(sql, *(unsigned long *)id)) == 0;
}

/* Whether the statement was under way when the time was over, and so was killed. */
static bool is_killed(const char *sql, int64_t ms)
{
    struct hf__conn *conn = open_conn();
    const struct hf__statement statement = {.sql = sql};
    unsigned long id = session_of(conn);
    int64_t begin = hf_test_now_ms();
    HF_TEST_STATUS(hf__conn_run(conn, &statement, NULL, 0, NULL, hf__after_ms(ms), &err), HF_TIMEOUT, &err);
    int64_t took = hf_test_now_ms() - begin;
    CU_ASSERT(took >= ms - 10 && took < ms + 20000);
    bool killed = strstr(err.message, "was killed") != NULL;
    CU_ASSERT_TRUE(conn->lost);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_UNKNOWN);
    CU_ASSERT_TRUE(!killed || hf_test_wait_until(session_is_gone, &id, LIMIT_MS));
    HF_TEST_STATUS(hf__conn_ping(conn, soon(), &err), HF_LOST, &err);
    hf__conn_close(conn);
    return killed;
}

/* With more time where not even the statement is sent before it has passed. */
static void check_stopped(const char *sql)
{
    CU_ASSERT(is_killed(sql, 1000) || is_killed(sql, 4000) || is_killed(sql, 16000));
}

static void a_slow_statement_is_stopped(void)
{
    check_stopped("SELECT SLEEP(100)");
}

static void a_blocked_statement_is_stopped(void)
{
    struct hf__conn *holder = open_conn();
    const char *table = make_table(holder, "id INT PRIMARY KEY, v INT");
    exec(holder, hf_test_format("INSERT INTO %s VALUES (1, 0)", table));
    begin_and_update(holder, table, 1);
    check_stopped(hf_test_format("UPDATE %s SET v = 5 WHERE id = 1", table));
    HF_TEST_OK(hf__conn_rollback(holder, soon(), &err), &err);
    drop_table(holder, table);
}

static void a_deadline_in_the_past_sends_nothing(void)
{
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v INT");
    const struct hf__statement statement = {.sql = hf_test_format("INSERT INTO %s VALUES (1)", table)};
    HF_TEST_STATUS(hf__conn_run(conn, &statement, NULL, 0, NULL, hf__after_ms(0), &err), HF_TIMEOUT, &err);
    CU_ASSERT_TRUE(conn->lost);
    hf__conn_close(conn);
    conn = open_conn();
    CU_ASSERT_EQUAL(query_int(conn, hf_test_format("SELECT COUNT(*) FROM %s", table)), 0);
    drop_table(conn, table);
}

/* ---- lost connections ---- */

static void kill_session(unsigned long id)
{
    hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("KILL %lu", id));
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(session_is_gone, &id, LIMIT_MS));
}

static void a_killed_session_is_seen(void)
{
    struct hf__conn *conn = open_conn();
    CU_ASSERT_TRUE(hf__conn_alive(conn));
    kill_session(session_of(conn));
    CU_ASSERT_FALSE(hf__conn_alive(conn));
    CU_ASSERT_TRUE(conn->lost);
    hf__conn_close(conn);
}

static void a_killed_session_is_lost(void)
{
    struct hf__conn *conn = open_conn();
    struct sigaction pipe_action;
    CU_ASSERT_EQUAL(sigaction(SIGPIPE, NULL, &pipe_action), 0);
    CU_ASSERT_TRUE(pipe_action.sa_handler == SIG_DFL); /* or writing to a dead socket would prove nothing */
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    kill_session(session_of(conn));
    HF_TEST_STATUS(run(conn, "SELECT 1", NULL, 0, NULL), HF_LOST, &err);
    CU_ASSERT_TRUE(conn->lost);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_UNKNOWN);
    HF_TEST_STATUS(hf__conn_commit(conn, soon(), &err), HF_LOST, &err);
    hf__conn_close(conn);
}

static void a_query_that_is_killed_is_transient(void)
{
    struct hf__conn *holder = open_conn();
    struct victim victim = {.conn = open_conn()};
    unsigned long id = session_of(victim.conn);
    const char *table = make_table(holder, "id INT PRIMARY KEY, v INT");
    pthread_t thread;
    exec(holder, hf_test_format("INSERT INTO %s VALUES (1, 0)", table));
    begin_and_update(holder, table, 1);
    victim.sql = hf_test_format("UPDATE %s SET v = 5 WHERE id = 1", table);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_victim, &victim), 0);
    CU_ASSERT_TRUE(wait_for_innodb(waits_for_lock, &id));
    hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("KILL QUERY %lu", id));
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, NULL), 0);
    CU_ASSERT_EQUAL(victim.status, HF_TRANSIENT);
    CU_ASSERT_EQUAL(victim.err.native_code, 1317);
    CU_ASSERT_FALSE(victim.conn->lost);
    HF_TEST_OK(hf__conn_rollback(holder, soon(), &err), &err);
    hf__conn_close(victim.conn);
    drop_table(holder, table);
}

static void a_packet_that_is_too_large_is_refused(void)
{
    enum { SIZE = 1536 * 1024 };
    const char *admin = hf_test_mysql_admin_url();
    int64_t usual = hf_test_query_int(admin, "SELECT @@global.max_allowed_packet");
    hf_test_sql(admin, "SET GLOBAL max_allowed_packet = 1048576");
    struct hf__conn *conn = open_conn();
    hf_test_sql(admin, hf_test_format("SET GLOBAL max_allowed_packet = %lld", (long long)usual));
    char *large = calloc(1, SIZE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    const struct hf__value value = hf__bytes(large, SIZE);
    HF_TEST_STATUS(run(conn, "SELECT LENGTH(?)", &value, 1, NULL), HF_DATABASE, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "max_allowed_packet"));
    CU_ASSERT_EQUAL(err.native_code, 1153);
    CU_ASSERT_FALSE(conn->lost);
    const struct hf__value fits = hf__bytes(large, 1048576 - 32); /* a few bytes below the limit are no reason to refuse */
    HF_TEST_OK(run(conn, "SELECT LENGTH(?)", &fits, 1, NULL), &err);
    CU_ASSERT_EQUAL(query_int(conn, "SELECT 1"), 1);
    free(large);
    hf__conn_close(conn);
}

/* ---- connecting ---- */

static void check_refused(const char *url, hf_status expected, int number)
{
    struct hf__conn *conn = NULL;
    HF_TEST_STATUS(try_open(url, &conn, &err), expected, &err);
    CU_ASSERT_PTR_NULL(conn);
    CU_ASSERT_EQUAL(err.native_code, number);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "cannot connect to mysql://"));
    CU_ASSERT_PTR_NULL(strstr(err.message, "s3cret"));
}

static unsigned port_of_server(void)
{
    struct hf__url *url = NULL;
    HF_TEST_OK(hf__url_parse(hf_test_mysql_url(), &url, &err), &err);
    unsigned port = url->port;
    hf__url_free(url);
    return port;
}

static void logins_are_refused_by_number(void)
{
    unsigned port = port_of_server();
    check_refused(hf_test_format("mysql://holdfast:s3cret@127.0.0.1:%u/holdfast", port), HF_DENIED, 1045);
    check_refused(hf_test_format("mysql://root@127.0.0.1:%u/no_such_database", port), HF_DATABASE, 1049);
    check_refused("mysql://root:s3cret@127.0.0.1:1/x", HF_UNREACHABLE, 2002);
    check_refused("mysql://root:s3cret@/x?socket=/no/such/socket", HF_UNREACHABLE, 2002);
    check_refused(hf_test_format("mysql://root@127.0.0.1:%u/x?ssl_mode=verify_ca", port), HF_INVALID, 0);
}

static void a_full_server_is_transient(void)
{
    const char *admin = hf_test_mysql_admin_url();
    hf_test_sql(admin, "DROP USER IF EXISTS narrow@'%'");
    hf_test_sql(admin, "CREATE USER narrow@'%' IDENTIFIED BY 'narrow' WITH MAX_USER_CONNECTIONS 1");
    const char *url = hf_test_format("mysql://narrow:narrow@127.0.0.1:%u", port_of_server());
    struct hf__conn *conn = open_url(url);
    check_refused(url, HF_TRANSIENT, 1226);
    hf__conn_close(conn);
    hf_test_sql(admin, "DROP USER narrow@'%'");
}

/* A socket that accepts and says nothing. */
static int silent_listener(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_FATAL(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 8) == 0);
    CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void a_silent_server_is_given_up(void)
{
    unsigned port;
    int listener = silent_listener(&port);
    int64_t begin = hf_test_now_ms();
    check_refused(hf_test_format("mysql://root:s3cret@127.0.0.1:%u/x?connect_timeout=1", port), HF_UNREACHABLE, 0);
    CU_ASSERT(hf_test_now_ms() - begin < LIMIT_MS); /* which is the limit without the URL's */
    struct hf__url *url = NULL;
    struct hf__conn *conn = NULL;
    HF_TEST_OK(hf__url_parse(hf_test_format("mysql://root:s3cret@127.0.0.1:%u/x", port), &url, &err), &err);
    begin = hf_test_now_ms();
    HF_TEST_STATUS(hf__conn_open(url, &options, hf__after_ms(200), &conn, &err), HF_TIMEOUT, &err);
    CU_ASSERT(hf_test_now_ms() - begin < LIMIT_MS);
    hf__url_free(url);
    CU_ASSERT_EQUAL(close(listener), 0);
}

static void a_missing_right_is_denied(void)
{
    const char *admin = hf_test_mysql_admin_url();
    hf_test_sql(admin, "DROP USER IF EXISTS weak@'%'");
    hf_test_sql(admin, "CREATE USER weak@'%' IDENTIFIED BY 'weak'");
    struct hf__conn *conn = open_url(hf_test_format("mysql://weak:weak@127.0.0.1:%u", port_of_server()));
    HF_TEST_STATUS(run(conn, "SELECT * FROM mysql.user", NULL, 0, NULL), HF_DENIED, &err);
    HF_TEST_STATUS(hf__conn_exec(conn, "USE mysql", soon(), &err), HF_DENIED, &err);
    CU_ASSERT_FALSE(conn->lost || conn->retire);
    hf__conn_close(conn);
    hf_test_sql(admin, "DROP USER weak@'%'");
}

static void a_read_only_server_retires_the_connection(void)
{
    struct hf__conn *conn = open_conn();
    const char *table = make_table(conn, "v INT");
    /* on MySQL a user who may end other sessions may write all the same */
    hf_test_sql(hf_test_mysql_admin_url(), conn->server.mariadb ? "SET GLOBAL read_only = 1" : "SET GLOBAL super_read_only = 1");
    hf_status status = run(conn, hf_test_format("INSERT INTO %s VALUES (1)", table), NULL, 0, NULL);
    hf_test_sql(hf_test_mysql_admin_url(), "SET GLOBAL read_only = 0");
    CU_ASSERT_EQUAL(status, HF_TRANSIENT);
    CU_ASSERT_EQUAL(err.native_code, 1290);
    CU_ASSERT_TRUE(conn->retire);
    drop_table(conn, table);
}

static void errors_are_classed_by_number(void)
{
    static const struct {
        unsigned number;
        hf_status status;
        bool mariadb;
        bool retire;
    } cases[] = {
        {1040, HF_TRANSIENT, true, false},  {1203, HF_TRANSIENT, true, false}, {1053, HF_TRANSIENT, true, true},
        {1792, HF_TRANSIENT, true, true},   {1836, HF_TRANSIENT, false, true}, {3572, HF_TRANSIENT, false, false},
        {3024, HF_TRANSIENT, false, false}, {1969, HF_TRANSIENT, true, false}, {1927, HF_LOST, true, false},
        {4031, HF_LOST, false, false},      {4031, HF_DATABASE, true, false},  {2006, HF_LOST, true, false},
        {2013, HF_LOST, true, false},       {2055, HF_LOST, true, false},      {2014, HF_LOST, true, false},
        {2020, HF_DATABASE, true, true},    {1153, HF_DATABASE, true, true},   {2008, HF_NO_MEMORY, true, true},
        {1044, HF_DENIED, true, false},     {1143, HF_DENIED, true, false},    {1227, HF_DENIED, true, false},
        {1062, HF_DATABASE, true, false},   {1146, HF_DATABASE, true, false},  {1020, HF_TRANSIENT, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf__my_class class = hf__my_class(cases[i].number, cases[i].mariadb);
        CU_ASSERT_EQUAL(class.status, cases[i].status);
        CU_ASSERT_EQUAL(class.retire, cases[i].retire);
    }
}

/* ---- the catalogue ---- */

static struct hf__relation describe(struct hf__conn *conn, const char *schema, const char *table)
{
    struct hf__relation relation;
    HF_TEST_OK(hf__conn_describe(conn, schema, table, soon(), &relation, &err), &err);
    return relation;
}

static const struct hf__column *column_of(const struct hf__relation *relation, const char *name)
{
    const struct hf__column *column = hf__relation_column(relation, name, false);
    if (column == NULL) {
        hf_test_fail("there is no column %s", name);
    }
    return column;
}

static const struct hf__index *index_of(const struct hf__relation *relation, const char *name)
{
    for (size_t i = 0; i < relation->n_indexes; i++) {
        if (strcmp(relation->indexes[i].name, name) == 0) {
            return &relation->indexes[i];
        }
    }
    return NULL;
}

static void check_columns(const struct hf__relation *relation)
{
    const struct hf__column *id = column_of(relation, "id");
    CU_ASSERT(id->kind == HF__COLUMN_INTEGER && id->bits == 64 && id->is_unsigned && id->generated && !id->nullable && !id->has_default);
    CU_ASSERT_PTR_NOT_NULL(strstr(id->type, "bigint"));
    const struct hf__column *small = column_of(relation, "q\"t");
    CU_ASSERT(small->kind == HF__COLUMN_INTEGER && small->bits == 16 && !small->is_unsigned && small->nullable && !small->has_default);
    const struct hf__column *text = column_of(relation, "na\xC3\xAFve");
    CU_ASSERT(text->kind == HF__COLUMN_TEXT && text->max_chars == 20 && text->max_bytes == 80 && text->has_default && !text->nullable);
    const struct hf__column *coarse = column_of(relation, "coarse");
    CU_ASSERT(coarse->kind == HF__COLUMN_TIME && coarse->precision == 0);
    const struct hf__column *fine = column_of(relation, "fine");
    CU_ASSERT(fine->kind == HF__COLUMN_TIME && fine->precision == 6 && fine->has_default && !fine->generated);
    CU_ASSERT_STRING_EQUAL(fine->type, "datetime(6)");
    CU_ASSERT(column_of(relation, "zoned")->kind == HF__COLUMN_TIME_ZONED && column_of(relation, "zoned")->precision == 3);
    CU_ASSERT(column_of(relation, "raw")->kind == HF__COLUMN_BYTES && column_of(relation, "raw")->max_bytes == 16);
    CU_ASSERT(column_of(relation, "body")->kind == HF__COLUMN_BYTES && column_of(relation, "body")->max_bytes == 4294967295);
    CU_ASSERT(column_of(relation, "made")->generated);
    CU_ASSERT_EQUAL(column_of(relation, "uid")->kind, hf_test_is_mariadb() ? HF__COLUMN_UUID : HF__COLUMN_BYTES);
    CU_ASSERT_EQUAL(column_of(relation, "price")->kind, HF__COLUMN_OTHER);
    CU_ASSERT_PTR_NULL(hf__relation_column(relation, "naive", false));
    CU_ASSERT_PTR_NOT_NULL(hf__relation_column(relation, "FINE", true));
}

static void check_indexes(const struct hf__relation *relation)
{
    const struct hf__index *primary = index_of(relation, "PRIMARY");
    CU_ASSERT_FATAL(primary != NULL && primary->n_columns == 1);
    CU_ASSERT(primary->primary && primary->unique && primary->plain && !primary->partial && strcmp(primary->columns[0], "id") == 0);
    const struct hf__index *order = index_of(relation, "claim order");
    CU_ASSERT_FATAL(order != NULL && order->n_columns == 3);
    CU_ASSERT(order->plain && !order->unique && strcmp(order->columns[0], "fine") == 0 && strcmp(order->columns[1], "q\"t") == 0);
    const struct hf__index *prefix = index_of(relation, "prefix");
    CU_ASSERT(prefix != NULL && !prefix->plain);
    CU_ASSERT_PTR_NULL(index_of(relation, "unseen"));
    CU_ASSERT_EQUAL(relation->n_indexes, 3);
}

static void a_table_is_described(void)
{
    struct hf__conn *conn = open_conn();
    exec(conn, "DROP TABLE IF EXISTS `a b`, `na\xC3\xAFve`");
    exec(conn, "CREATE TABLE `a b` (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, `q\"t` SMALLINT, "
               "`na\xC3\xAFve` VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x', coarse DATETIME, "
               "fine DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), zoned TIMESTAMP(3) NULL, raw BINARY(16), body LONGBLOB, "
               "made INT AS (`q\"t` + 1) STORED, price DECIMAL(9,2), KEY `claim order` (fine, `q\"t`, id), "
               "KEY prefix (`na\xC3\xAFve`(5)), KEY unseen (coarse)) ENGINE=InnoDB");
    exec(conn, conn->server.mariadb ? "ALTER TABLE `a b` ADD uid UUID, ALTER INDEX unseen IGNORED"
                                    : "ALTER TABLE `a b` ADD uid BINARY(16), ALTER INDEX unseen INVISIBLE");
    struct hf__relation relation = describe(conn, NULL, "a b");
    CU_ASSERT_EQUAL(relation.kind, HF__RELATION_TABLE);
    CU_ASSERT_STRING_EQUAL(relation.engine, "InnoDB");
    CU_ASSERT_EQUAL(relation.n_columns, 11);
    check_columns(&relation);
    check_indexes(&relation);
    hf__relation_free(&relation);
    drop_table(conn, "`a b`");
}

static void names_are_exact(void)
{
    struct hf__conn *conn = open_conn();
    make_named_table(conn, "`na\xC3\xAFve`", "(one INT) ENGINE=InnoDB");
    struct hf__relation relation = describe(conn, "holdfast", "na\xC3\xAFve");
    CU_ASSERT_EQUAL(relation.n_columns, 1);
    hf__relation_free(&relation);
    const char *const absent[] = {"naive", "NA\xC3\xAFVE", "na\xC3\xAFve ", "", "no'such`table"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        relation = describe(conn, NULL, absent[i]);
        CU_ASSERT_EQUAL(relation.kind, HF__RELATION_NONE);
        hf__relation_free(&relation);
    }
    relation = describe(conn, "mysql", "na\xC3\xAFve");
    CU_ASSERT_EQUAL(relation.kind, HF__RELATION_NONE);
    hf__relation_free(&relation);
    drop_table(conn, "`na\xC3\xAFve`");
}

static void other_relations_are_told_apart(void)
{
    struct hf__conn *conn = open_conn();
    exec(conn, "CREATE OR REPLACE VIEW seen AS SELECT 1 AS one");
    make_named_table(conn, "cut", "(id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2");
    make_named_table(conn, "mem", "(id INT PRIMARY KEY) ENGINE=MEMORY");
    const struct {
        const char *name;
        enum hf__relation_kind kind;
    } cases[] = {{"seen", HF__RELATION_VIEW}, {"cut", HF__RELATION_PARTITIONED}, {"mem", HF__RELATION_TABLE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf__relation relation = describe(conn, NULL, cases[i].name);
        CU_ASSERT_EQUAL(relation.kind, cases[i].kind);
        CU_ASSERT(i != 2 || (strcmp(relation.engine, "MEMORY") == 0 && !relation.indexes[0].plain));
        hf__relation_free(&relation);
    }
    exec(conn, "DROP VIEW seen");
    exec(conn, "DROP TABLE cut");
    drop_table(conn, "mem");
}

/* ---- processes, threads, handles of others ---- */

static void a_child_leaves_its_parents_session_alone(void)
{
    struct hf__conn *conn = open_conn();
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, soon(), &err), &err);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        bool refused = hf__conn_exec(conn, "SELECT 1", soon(), &err) == HF_MISUSE && !hf__conn_alive(conn);
        hf__conn_close(conn);
        _exit(refused ? 0 : 1);
    }
    int code = -1;
    CU_ASSERT_EQUAL(waitpid(child, &code, 0), child);
    CU_ASSERT_EQUAL(code, 0);
    CU_ASSERT_TRUE(hf__conn_alive(conn));
    CU_ASSERT_EQUAL(query_int(conn, "SELECT 1"), 1);
    HF_TEST_OK(hf__conn_commit(conn, soon(), &err), &err);
    hf__conn_close(conn);
}

#define THREADS 64

struct crowd {
    pthread_barrier_t barrier;
    const char *url;
};

/* NULL, or what went wrong. */
static void *connect_at_once(void *arg)
{
    struct crowd *crowd = arg;
    struct hf__conn *conn = NULL;
    hf_error error = {.status = HF_OK};
    struct hf__statement statement = {.sql = "SELECT ?", .serial = hf__statement_serial()};
    hf__driver_thread_begin(HF__MYSQL);
    (void)pthread_barrier_wait(&crowd->barrier);
    hf_status status = try_open(crowd->url, &conn, &error);
    for (int i = 0; status == HF_OK && i < 5; i++) {
        const struct hf__value value = hf__int(i);
        struct hf__rows rows;
        hf__rows_init(&rows);
        status = hf__conn_run(conn, &statement, &value, 1, &rows, soon(), &error);
        hf__rows_free(&rows);
    }
    hf__conn_close(conn);
    hf__driver_thread_end(HF__MYSQL);
    return status == HF_OK ? NULL : strdup(error.message);
}

static void many_threads_connect_at_once(void)
{
    pthread_t threads[THREADS];
    struct crowd crowd = {.url = hf_test_mysql_url()};
    CU_ASSERT_EQUAL_FATAL(pthread_barrier_init(&crowd.barrier, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, connect_at_once, &crowd), 0);
    }
    char *fault = NULL;
    for (size_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        CU_ASSERT_EQUAL_FATAL(pthread_join(threads[i], &result), 0);
        free(fault);
        fault = result;
    }
    CU_ASSERT_EQUAL(pthread_barrier_destroy(&crowd.barrier), 0);
    if (fault != NULL) {
        hf_test_fail("%s", fault);
    }
}

static MYSQL *own_handle(const char *charset)
{
    struct hf__url *url = NULL;
    MYSQL *mysql = mysql_init(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mysql);
    HF_TEST_OK(hf__url_parse(hf_test_mysql_url(), &url, &err), &err);
    CU_ASSERT_EQUAL_FATAL(mysql_options(mysql, MYSQL_SET_CHARSET_NAME, charset), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mysql_real_connect(mysql, url->host, url->user, url->password, url->name, url->port, NULL, 0));
    hf__url_free(url);
    return mysql;
}

static void a_borrowed_handle_stays_its_owners(void)
{
    struct hf__conn *conn = NULL;
    struct hf__rows rows;
    MYSQL *mysql = own_handle("utf8mb4");
    const struct hf__statement statement = {.sql = "SELECT @@session.wait_timeout <> 3601, ?", .serial = hf__statement_serial()};
    const struct hf__value value = hf__text("na\xC3\xAFve");
    hf__rows_init(&rows);
    CU_ASSERT_EQUAL(mysql_query(mysql, "START TRANSACTION"), 0);
    HF_TEST_OK(hf__conn_borrow(HF__MYSQL, mysql, &conn, &err), &err);
    CU_ASSERT_EQUAL(conn->server.mariadb, hf_test_is_mariadb());
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
    HF_TEST_OK(hf__conn_run(conn, &statement, &value, 1, &rows, soon(), &err), &err);
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 0)->i, 1);
    CU_ASSERT_STRING_EQUAL(cell_text(&rows, 0, 1), "na\xC3\xAFve");
    HF_TEST_STATUS(run(conn, "SELECT nothing", NULL, 0, NULL), HF_DATABASE, &err);
    hf__conn_close(conn);
    CU_ASSERT_EQUAL(mysql_query(mysql, "ROLLBACK"), 0);
    CU_ASSERT_PTR_NULL(mysql->stmts);
    hf__rows_free(&rows);
    mysql_close(mysql);
}

static void a_borrowed_handle_must_speak_utf8(void)
{
    struct hf__conn *conn = NULL;
    MYSQL *mysql = own_handle("latin1");
    HF_TEST_STATUS(hf__conn_borrow(HF__MYSQL, mysql, &conn, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "latin1"));
    mysql_close(mysql);
    HF_TEST_STATUS(hf__conn_borrow(HF__MYSQL, NULL, &conn, &err), HF_INVALID, &err);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
    CU_TestInfo tests[] = {
        TEST(many_threads_connect_at_once), /* first: the library is set up by whoever comes first */
        TEST(numbers_come_back),
        TEST(strings_come_back),
        TEST(json_takes_bytes),
        TEST(times_come_back),
        TEST(zero_dates_are_text),
        TEST(five_megabytes_come_back),
        TEST(types_may_change_between_runs),
        TEST(the_count_is_of_matched_rows),
        TEST(a_wrong_number_of_values_is_refused),
        TEST(statements_stay_prepared),
        TEST(a_changed_table_is_read_anew),
        TEST(a_procedure_leaves_nothing_behind),
        TEST(the_session_is_set_up),
        TEST(servers_that_end_idle_transactions_spare_ours),
        TEST(reset_takes_everything_back),
        TEST(an_unread_result_ends_the_connection),
        TEST(a_user_may_reset_the_session),
        TEST(a_pooler_is_left_alone),
        TEST(levels_are_those_asked_for),
        TEST(the_transaction_is_followed),
        TEST(nothing_to_commit_is_an_error),
        TEST(a_deadlock_ends_the_transaction),
        TEST(a_lock_timeout_keeps_the_transaction),
        TEST(a_slow_statement_is_stopped),
        TEST(a_blocked_statement_is_stopped),
        TEST(a_deadline_in_the_past_sends_nothing),
        TEST(a_killed_session_is_seen),
        TEST(a_killed_session_is_lost),
        TEST(a_query_that_is_killed_is_transient),
        TEST(a_packet_that_is_too_large_is_refused),
        TEST(logins_are_refused_by_number),
        TEST(a_full_server_is_transient),
        TEST(a_silent_server_is_given_up),
        TEST(a_missing_right_is_denied),
        TEST(a_read_only_server_retires_the_connection),
        TEST(errors_are_classed_by_number),
        TEST(a_table_is_described),
        TEST(names_are_exact),
        TEST(other_relations_are_told_apart),
        TEST(a_child_leaves_its_parents_session_alone),
        TEST(a_borrowed_handle_stays_its_owners),
        TEST(a_borrowed_handle_must_speak_utf8),
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "driver_mysql", tests);
}
