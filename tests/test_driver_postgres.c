/* The PostgreSQL driver on a real server. ctest: timeout=180 */
#include <errno.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/driver.h"
#include "tests/support.h"

#define LIMIT_MS 20000

static struct hf__deadline limit(void)
{
    return hf__after_ms(LIMIT_MS);
}

static hf_status try_open(const char *text, int64_t connect_timeout_ms, struct hf__conn **out, hf_error *err)
{
    struct hf__url *url = NULL;
    *out = NULL;
    hf_status status = hf__url_parse(text, &url, err);
    if (status == HF_OK) {
        struct hf__session_options options = {.connect_timeout_ms = connect_timeout_ms, .application_name = "holdfast test"};
        status = hf__conn_open(url, &options, limit(), out, err);
    }
    hf__url_free(url);
    return status;
}

static struct hf__conn *open_text(const char *text)
{
    struct hf__conn *conn;
    hf_error err = {0};
    HF_TEST_OK(try_open(text, LIMIT_MS, &conn, &err), &err);
    return conn;
}

static struct hf__conn *open_conn(void)
{
    return open_text(hf_test_postgres_url());
}

static const char *with_option(const char *option)
{
    return hf_test_format("%s?%s", hf_test_postgres_url(), option);
}

/* The test server's URL with other parts; NULL keeps one. */
static const char *url_with(const char *hosts, const char *password, const char *name)
{
    char *port = strrchr(hf_test_format("%s", hf_test_postgres_url()), ':') + 1;
    const char *own = hf_test_format("127.0.0.1:%ld", strtol(port, NULL, 10));
    return hf_test_format("postgresql://holdfast:%s@%s/%s", password != NULL ? password : "hold%3Af%40st", hosts != NULL ? hosts : own,
                          name != NULL ? name : "holdfast");
}

static const char *own_port(void)
{
    char *port = strrchr(hf_test_format("%s", hf_test_postgres_url()), ':') + 1;
    return hf_test_format("%ld", strtol(port, NULL, 10));
}

static void exec(struct hf__conn *conn, const char *sql)
{
    hf_error err = {0};
    hf_status status = hf__conn_exec(conn, sql, limit(), &err);
    if (status != HF_OK) {
        hf_test_fail("%s: %s", sql, err.message);
    }
}

static hf_status try_run(struct hf__conn *conn, struct hf__statement statement, const struct hf__value *values, size_t n,
                         struct hf__rows *rows, hf_error *err)
{
    return hf__conn_run(conn, &statement, values, n, rows, limit(), err);
}

static void run(struct hf__conn *conn, const char *sql, const struct hf__value *values, size_t n, struct hf__rows *rows)
{
    hf_error err = {0};
    hf_status status = try_run(conn, (struct hf__statement){.sql = sql}, values, n, rows, &err);
    if (status != HF_OK) {
        hf_test_fail("%s: %s: %s", sql, hf_status_name(status), err.message);
    }
}

/* The first cell as an integer. */
static int64_t ask_int(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    run(conn, sql, NULL, 0, &rows);
    int64_t number = 0;
    bool found = rows.count > 0 && hf__value_int(hf__cell(&rows, 0, 0), &number);
    hf__rows_free(&rows);
    if (!found) {
        hf_test_fail("%s: the answer is no integer", sql);
    }
    return number;
}

static const char *ask_text(struct hf__conn *conn, const char *sql)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    run(conn, sql, NULL, 0, &rows);
    const char *text = rows.count > 0 && hf__cell(&rows, 0, 0)->type == HF__TEXT ? hf_test_format("%s", hf__cell(&rows, 0, 0)->s.data) : "";
    hf__rows_free(&rows);
    return text;
}

static bool is_text(const struct hf__rows *rows, size_t row, size_t column, const char *expected)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    struct hf__value value = hf__text(expected);
    return hf__value_equal(cell, &value);
}

static bool is_int(const struct hf__rows *rows, size_t row, size_t column, int64_t expected)
{
    struct hf__value value = hf__int(expected);
    return hf__value_equal(hf__cell(rows, row, column), &value);
}

/* ---- a listener that answers nothing, and a relay that can stop answering ---- */

static int listen_somewhere(int *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        hf_test_fail("a listening socket: %s", strerror(errno));
    }
    *port = ntohs(address.sin_port);
    return fd;
}

struct relay {
    int listener, port;
    int client, server; /* one connection is enough */
    int wake[2];
    atomic_bool frozen;
    pthread_t thread;
};

static bool pass_on(int from, int to)
{
    char buffer[65536];
    ssize_t n = recv(from, buffer, sizeof buffer, 0);
    return n > 0 && send(to, buffer, (size_t)n, MSG_NOSIGNAL) == n;
}

/* Ends when woken; frozen, it only waits for that. */
static void *relay_thread(void *arg)
{
    struct relay *relay = arg;
    relay->client = accept(relay->listener, NULL, NULL);
    for (bool open = true; open;) {
        bool frozen = atomic_load(&relay->frozen);
        struct pollfd fds[] = {
            {.fd = relay->wake[0], .events = POLLIN},
            {.fd = frozen ? -1 : relay->client, .events = POLLIN},
            {.fd = frozen ? -1 : relay->server, .events = POLLIN},
        };
        open = poll(fds, 3, -1) > 0 && fds[0].revents == 0;
        if (open && fds[1].revents != 0) {
            open = pass_on(relay->client, relay->server);
        }
        if (open && fds[2].revents != 0) {
            open = pass_on(relay->server, relay->client);
        }
    }
    return NULL;
}

static void relay_start(struct relay *relay)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)strtol(own_port(), NULL, 10))};
    relay->listener = listen_somewhere(&relay->port);
    relay->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    relay->client = -1;
    atomic_store(&relay->frozen, false);
    if (pipe(relay->wake) != 0 || connect(relay->server, (struct sockaddr *)&address, sizeof address) != 0 ||
        pthread_create(&relay->thread, NULL, relay_thread, relay) != 0) {
        hf_test_fail("the relay: %s", strerror(errno));
    }
}

/* Stops forwarding, both ways, with everything left open. */
static void relay_freeze(struct relay *relay)
{
    atomic_store(&relay->frozen, true);
    if (write(relay->wake[1], "x", 1) != 1) {
        hf_test_fail("the relay: %s", strerror(errno));
    }
    pthread_join(relay->thread, NULL);
}

static void relay_end(struct relay *relay)
{
    close(relay->listener);
    close(relay->client);
    close(relay->server);
    close(relay->wake[0]);
    close(relay->wake[1]);
}

/* ---- logging in ---- */

static void test_login_reads_the_version(void)
{
    struct hf__conn *conn = open_conn();
    int64_t number = ask_int(conn, "SELECT current_setting('server_version_num')::int");
    CU_ASSERT_EQUAL(conn->server.version, number / 10000 * 10000 + number % 10000 * 100);
    CU_ASSERT_EQUAL(conn->server.database, HF__POSTGRES);
    CU_ASSERT_STRING_EQUAL(conn->server.text, hf_test_format("PostgreSQL %d.%d", (int)(number / 10000), (int)(number % 10000)));
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW application_name"), "holdfast test");
    CU_ASSERT_PTR_NOT_NULL(hf__conn_native(conn));
    hf__conn_close(conn);
    conn = open_text(with_option("application_name=mine"));
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW application_name"), "mine");
    hf__conn_close(conn);
}

static void test_login_through_a_unix_socket(void)
{
    const char *servers = getenv("HF_TEST_SERVERS");
    CU_ASSERT_PTR_NOT_NULL_FATAL(servers);
    struct hf__conn *conn = open_text(hf_test_format("postgresql:///holdfast?host=%s/pg&port=%s&user=postgres", servers, own_port()));
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW TimeZone"), "UTC");
    hf__conn_close(conn);
}

static void refused(const char *url, hf_status expected, const char *sqlstate, const char *words)
{
    struct hf__conn *conn;
    hf_error err = {0};
    HF_TEST_STATUS(try_open(url, 1000, &conn, &err), expected, &err);
    CU_ASSERT_PTR_NULL(conn);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, sqlstate);
    if (strstr(err.message, words) == NULL || strstr(err.message, "LOCATION") != NULL || strchr(err.message, '\n') != NULL ||
        strstr(err.message, "s3cret") != NULL) {
        hf_test_fail("message: %s", err.message);
    }
}

static void test_login_is_refused(void)
{
    refused(url_with(NULL, "s3cret", NULL), HF_DENIED, "28P01", "password authentication failed for user \"holdfast\"");
    refused(url_with(NULL, "", NULL), HF_DENIED, "", "no password supplied");
    refused(url_with(NULL, NULL, "nowhere"), HF_DATABASE, "3D000", "database \"nowhere\" does not exist");
    refused(url_with("127.0.0.1:1", "s3cret", NULL), HF_UNREACHABLE, "", "refused");
    refused(hf_test_format("%s?sslmode=sometimes", url_with(NULL, "s3cret", NULL)), HF_UNREACHABLE, "", "sslmode");
    refused(hf_test_format("%s?colour=green", url_with(NULL, "s3cret", NULL)), HF_INVALID, "", "***");
}

static void test_login_too_many(void)
{
    const char *role = hf_test_scratch("full");
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("CREATE ROLE %s LOGIN CONNECTION LIMIT 0", role));
    struct hf__conn *conn;
    hf_error err = {0};
    hf_status status = try_open(hf_test_format("postgresql://%s@127.0.0.1:%s/holdfast", role, own_port()), 5000, &conn, &err);
    hf_test_sql(hf_test_postgres_admin_url(), hf_test_format("DROP ROLE %s", role));
    HF_TEST_STATUS(status, HF_TRANSIENT, &err);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "53300");
}

static void test_login_on_a_silent_server(void)
{
    int port;
    int fd = listen_somewhere(&port);
    int64_t start = hf_test_now_ms();
    refused(url_with(hf_test_format("127.0.0.1:%d", port), NULL, NULL), HF_UNREACHABLE, "", "did not answer in time");
    int64_t took = hf_test_now_ms() - start;
    CU_ASSERT_TRUE(took >= 990 && took < 15000);
    close(fd);
}

static void test_login_passes_over_a_silent_host(void)
{
    int port;
    int fd = listen_somewhere(&port);
    struct hf__conn *conn;
    hf_error err = {0};
    const char *hosts = hf_test_format("127.0.0.1:%d,127.0.0.1:%s", port, own_port());
    HF_TEST_OK(try_open(url_with(hosts, NULL, NULL), 2000, &conn, &err), &err);
    CU_ASSERT_EQUAL(ask_int(conn, "SELECT 1"), 1);
    hf__conn_close(conn);
    close(fd);
}

static void shows(struct hf__conn *conn, const char *setting, const char *expected)
{
    const char *value = ask_text(conn, hf_test_format("SHOW %s", setting));
    if (strcmp(value, expected) != 0) {
        hf_test_fail("%s is %s, not %s", setting, value, expected);
    }
}

static void test_session_settings(void)
{
    static const char *const expected[][2] = {
        {"TimeZone", "UTC"},
        {"DateStyle", "ISO, MDY"},
        {"IntervalStyle", "postgres"},
        {"bytea_output", "hex"},
        {"standard_conforming_strings", "on"},
        {"default_transaction_isolation", "read committed"},
        {"client_encoding", "UTF8"},
        {"idle_in_transaction_session_timeout", "0"},
        {"tcp_keepalives_idle", "30"},
        {"tcp_keepalives_interval", "10"},
        {"tcp_keepalives_count", "3"},
        {"statement_timeout", "7s"}, /* the user's own */
    };
    static const struct {
        int since;
        const char *name, *value;
    } later[] = {
        {120000, "tcp_user_timeout", "30000"},
        {140000, "idle_session_timeout", "0"},
        {140000, "client_connection_check_interval", "1s"},
        {170000, "transaction_timeout", "0"},
    };
    struct hf__conn *conn =
        open_text(with_option("client_encoding=LATIN1&options=-c%20statement_timeout%3D7s%20-c%20TimeZone%3DAsia%2FTokyo"
                              "%20-c%20idle_in_transaction_session_timeout%3D9s%20-c%20bytea_output%3Descape"
                              "%20-c%20default_transaction_isolation%3Dserializable"));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        shows(conn, expected[i][0], expected[i][1]);
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (conn->server.version >= later[i].since) {
            shows(conn, later[i].name, later[i].value);
        }
    }
    hf__conn_close(conn);
}

/* ---- values ---- */

static void test_integers(void)
{
    static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN, 4294967296};
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct hf__value values[] = {hf__int(numbers[i]), hf__int(i % 2), hf__int(-7)};
        run(conn, "SELECT $1::int8, $1::int8::text, $2::bool, $3::int2, NULL::int4, (-1)::int8", values, 3, &rows);
        CU_ASSERT_TRUE(is_int(&rows, 0, 0, numbers[i]));
        CU_ASSERT_TRUE(is_text(&rows, 0, 1, hf_test_format("%lld", (long long)numbers[i])));
        CU_ASSERT_TRUE(is_int(&rows, 0, 2, (int64_t)(i % 2)));
        CU_ASSERT_TRUE(is_int(&rows, 0, 3, -7));
        CU_ASSERT_EQUAL(hf__cell(&rows, 0, 4)->type, HF__NULL);
        CU_ASSERT_TRUE(is_int(&rows, 0, 5, -1));
    }
    struct hf__value large[] = {hf__uint(UINT64_MAX)};
    run(conn, "SELECT $1::numeric, 4294967295::oid", large, 1, &rows);
    CU_ASSERT_TRUE(is_text(&rows, 0, 0, "18446744073709551615"));
    CU_ASSERT_TRUE(is_int(&rows, 0, 1, 4294967295));
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_texts(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    const char *uuid = "6f1c2d3e-0000-4000-8000-00000000abcd";
    struct hf__value values[] = {hf__text("na\xc3\xafve \\x41 'q'"),
                                 hf__text(uuid),
                                 hf__bytes("{\"a\": [1]}", 10),
                                 hf__text_n("abcdef", 3),
                                 hf__null(),
                                 hf__text_n(NULL, 0)};
    run(conn, "SELECT $1::text, $2::uuid, $3::jsonb, $4::varchar, $5::text, $6::text", values, 6, &rows);
    CU_ASSERT_TRUE(is_text(&rows, 0, 0, values[0].s.data));
    CU_ASSERT_TRUE(is_text(&rows, 0, 1, uuid));
    CU_ASSERT_TRUE(is_text(&rows, 0, 2, "{\"a\": [1]}"));
    CU_ASSERT_TRUE(is_text(&rows, 0, 3, "abc"));
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 4)->type, HF__NULL);
    CU_ASSERT_TRUE(is_text(&rows, 0, 5, ""));
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static bool same_bytes(const struct hf__value *cell, const void *data, size_t len)
{
    return cell->type == HF__BYTES && cell->s.len == len && memcmp(cell->s.data, data, len) == 0 && cell->s.data[len] == '\0';
}

static void test_bytes(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    char every[256];
    for (size_t i = 0; i < sizeof every; i++) {
        every[i] = (char)i;
    }
    const char *const outputs[] = {"hex", "escape"};
    for (size_t i = 0; i < 2; i++) {
        exec(conn, hf_test_format("SET bytea_output = %s", outputs[i]));
        struct hf__value values[] = {hf__bytes(every, sizeof every), hf__bytes(NULL, 0), hf__null(), hf__text("\\x41"),
                                     hf__text_n("a\0b", 3)};
        run(conn, "SELECT $1::bytea, $2::bytea, $3::bytea, $4::bytea, $5::bytea, length($1)", values, 5, &rows);
        CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 0), every, sizeof every));
        CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 1), "", 0));
        CU_ASSERT_EQUAL(hf__cell(&rows, 0, 2)->type, HF__NULL);
        CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 3), "\\x41", 4));
        CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 4), "a\0b", 3));
        CU_ASSERT_TRUE(is_int(&rows, 0, 5, 256));
    }
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_domains(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    exec(conn, "CREATE DOMAIN pg_temp.blob AS bytea; CREATE DOMAIN pg_temp.blob2 AS pg_temp.blob; CREATE DOMAIN pg_temp.big AS int8;"
               "CREATE DOMAIN pg_temp.moment AS timestamptz; CREATE TYPE pg_temp.mood AS ENUM ('sad', 'glad');"
               "CREATE TEMP TABLE t (b pg_temp.blob2, i pg_temp.big, z pg_temp.moment, m pg_temp.mood)");
    struct hf__value values[] = {hf__bytes("\\x41\0", 5), hf__int(INT64_MIN), hf__time_us(-5), hf__bytes("glad", 4)};
    for (int keep = 0; keep < 2; keep++) {
        hf_error err = {0};
        struct hf__statement statement = {.sql = "INSERT INTO t VALUES ($1, $2, $3, $4) RETURNING *",
                                          .serial = keep != 0 ? hf__statement_serial() : 0};
        HF_TEST_OK(try_run(conn, statement, values, 4, &rows, &err), &err);
        CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 0), "\\x41\0", 5));
        CU_ASSERT_TRUE(is_int(&rows, 0, 1, INT64_MIN));
        CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, 2), &values[2]));
        CU_ASSERT_TRUE(is_text(&rows, 0, 3, "glad"));
    }
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_large_bytes(void)
{
    const size_t size = (size_t)5 * 1024 * 1024;
    char *data = malloc(size);
    if (data == NULL) {
        hf_test_fail("out of memory");
        return;
    }
    for (size_t i = 0; i < size; i++) {
        data[i] = (char)(i * 2654435761u >> 13);
    }
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    struct hf__value value = hf__bytes(data, size);
    run(conn, "SELECT $1::bytea, repeat('x', 3000000)", &value, 1, &rows);
    CU_ASSERT_TRUE(same_bytes(hf__cell(&rows, 0, 0), data, size));
    CU_ASSERT_EQUAL(hf__cell(&rows, 0, 1)->s.len, 3000000);
    hf__rows_free(&rows);
    hf__conn_close(conn);
    free(data);
}

static void test_times(void)
{
    static const struct {
        int64_t us;
        const char *text; /* as extract(epoch) or the server writes it in UTC */
    } times[] = {
        {0, "1970-01-01 00:00:00+00"},
        {-1, "1969-12-31 23:59:59.999999+00"},
        {INT64_C(1704067200123456), "2024-01-01 00:00:00.123456+00"},
        {INT64_C(951782400000000), "2000-02-29 00:00:00+00"},
        {INT64_C(253402300800000000), "10000-01-01 00:00:00+00"},
        {INT64_C(-62135596800000001), "0001-12-31 23:59:59.999999+00 BC"},
        {INT64_C(-62198755200000000), "0002-01-01 00:00:00+00 BC"},
        {INT64_C(-210866803200000000), "4714-11-24 00:00:00+00 BC"},
        {INT64_MAX - 1, "294247-01-10 04:00:54.775806+00"},
        {INT64_MAX, "infinity"},
        {INT64_MIN, "-infinity"},
    };
    static const char *const zones[] = {"UTC", "Asia/Kolkata", "America/St_Johns"};
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    for (size_t zone = 0; zone < 3; zone++) {
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
            struct hf__value values[] = {hf__time_us(times[i].us), hf__text(times[i].text)};
            struct hf__value second = hf__time_us(times[i].us); /* without a zone: UTC's own digits */
            exec(conn, hf_test_format("SET TimeZone = '%s'", zones[zone]));
            run(conn, "SELECT $1::timestamptz, $2::text::timestamptz, $1::timestamptz AT TIME ZONE 'UTC'", values, 2, &rows);
            for (size_t column = 0; column < 3; column++) {
                if (!hf__value_equal(hf__cell(&rows, 0, column), &values[0])) {
                    hf_test_fail("%s in %s, column %zu: %lld", times[i].text, zones[zone], column,
                                 (long long)hf__cell(&rows, 0, column)->i);
                }
            }
            run(conn, "SELECT $1::timestamp", &second, 1, &rows);
            CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, 0), &second));
        }
    }
    struct hf__value fine = hf__time_us(1234567);
    struct hf__value coarse = hf__time_us(1235000);
    run(conn, "SELECT $1::timestamptz::timestamptz(3)", &fine, 1, &rows);
    CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, 0), &coarse));
    exec(conn, "SET DateStyle = 'German'");
    hf_error err = {0};
    HF_TEST_STATUS(try_run(conn, (struct hf__statement){.sql = "SELECT now()"}, NULL, 0, &rows, &err), HF_UNSUPPORTED, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "DateStyle"));
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_values_refused(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    struct hf__statement statement = {.sql = "SELECT $1::text, $2::jsonb", .serial = hf__statement_serial()};
    struct hf__value nul[] = {hf__bytes("a\0b", 3), hf__null()};
    HF_TEST_STATUS(try_run(conn, statement, nul, 2, &rows, &err), HF_DATABASE, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "bytea"));
    HF_TEST_STATUS(try_run(conn, statement, nul, 1, &rows, &err), HF_INVALID, &err);
    struct hf__value latin[] = {hf__text("\xe9"), hf__null()};
    HF_TEST_STATUS(try_run(conn, statement, latin, 2, &rows, &err), HF_DATABASE, &err);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "22021");
    HF_TEST_STATUS(try_run(conn, statement, nul, 70000, &rows, &err), HF_INVALID, &err);
    HF_TEST_STATUS(hf__conn_exec(conn, "COPY (SELECT 1) TO STDOUT", limit(), &err), HF_UNSUPPORTED, &err);
    CU_ASSERT_TRUE(conn->lost);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_matched_rows(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    exec(conn, "CREATE TEMP TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (0, 0)");
    run(conn, "INSERT INTO t SELECT g, g FROM generate_series(1, 9) g", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.matched, 9);
    run(conn, "UPDATE t SET n = n WHERE id > 4 RETURNING id", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.matched, 5);
    CU_ASSERT_EQUAL(rows.count, 5);
    run(conn, "DELETE FROM t WHERE id > 100", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.matched, 0);
    run(conn, "SELECT * FROM t", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.matched, 0);
    CU_ASSERT_EQUAL(rows.count, 10);
    CU_ASSERT_EQUAL(rows.columns, 2);
    run(conn, "", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.count, 0);
    run(conn, "SELECT FROM t", NULL, 0, &rows);
    CU_ASSERT_EQUAL(rows.count, 10);
    run(conn, "SELECT 1", NULL, 0, NULL);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

/* ---- deadlines ---- */

static int64_t running(const char *marker)
{
    const char *sql = hf_test_format("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
                                     " AND query LIKE '%%' || '%s' || '%%'",
                                     marker);
    return hf_test_query_int(hf_test_postgres_admin_url(), sql);
}

static bool is_stopped(void *marker)
{
    return running(marker) == 0;
}

static void times_out(struct hf__conn *conn, struct hf__statement statement, int64_t at_most_ms)
{
    hf_error err = {0};
    int64_t start = hf_test_now_ms();
    HF_TEST_STATUS(hf__conn_run(conn, &statement, NULL, 0, NULL, hf__after_ms(300), &err), HF_TIMEOUT, &err);
    int64_t took = hf_test_now_ms() - start;
    if (took < 299 || took > at_most_ms) {
        hf_test_fail("%s: took %lld ms", statement.sql, (long long)took);
    }
    CU_ASSERT_TRUE(conn->lost);
    HF_TEST_STATUS(hf__conn_ping(conn, limit(), &err), HF_LOST, &err);
}

static void test_deadline_stops_the_statement(void)
{
    char marker[64];
    for (int named = 0; named < 2; named++) {
        (void)snprintf(marker, sizeof marker, "%s", hf_test_scratch("sleep"));
        struct hf__conn *conn = open_conn();
        struct hf__statement statement = {.sql = hf_test_format("/* %s */ SELECT pg_sleep(120)", marker),
                                          .serial = named != 0 ? hf__statement_serial() : 0};
        times_out(conn, statement, 20000);
        CU_ASSERT_TRUE(hf_test_wait_until(is_stopped, marker, 20000));
        hf__conn_close(conn);
    }
}

static void test_deadline_behind_a_lock(void)
{
    const char *table = hf_test_scratch("locked");
    struct hf__conn *holder = open_conn();
    exec(holder, hf_test_format("CREATE TABLE %s (id int)", table));
    exec(holder, hf_test_format("BEGIN; LOCK TABLE %s", table));
    struct hf__conn *conn = open_conn();
    times_out(conn, (struct hf__statement){.sql = hf_test_format("SELECT * FROM %s", table), .serial = hf__statement_serial()}, 20000);
    hf__conn_close(conn);
    exec(holder, hf_test_format("DROP TABLE %s; COMMIT", table));
    hf__conn_close(holder);
}

static void test_deadline_on_a_frozen_server(void)
{
    static struct relay relay; /* its thread outlives a failing assertion */
    relay_start(&relay);
    struct hf__conn *conn = open_text(url_with(hf_test_format("127.0.0.1:%d", relay.port), NULL, NULL));
    CU_ASSERT_EQUAL(ask_int(conn, "SELECT 1"), 1);
    relay_freeze(&relay);
    times_out(conn, (struct hf__statement){.sql = "SELECT 1"}, 20000); /* the request to cancel gets no answer either */
    int64_t start = hf_test_now_ms();
    hf__conn_close(conn);
    CU_ASSERT_TRUE(hf_test_now_ms() - start < 3000);
    relay_end(&relay);
}

static void test_deadline_while_sending(void)
{
    static struct relay relay; /* its thread outlives a failing assertion */
    relay_start(&relay);
    struct hf__conn *conn = open_text(url_with(hf_test_format("127.0.0.1:%d", relay.port), NULL, NULL));
    struct hf__statement statement = {.sql = "SELECT length($1::bytea)", .serial = hf__statement_serial()};
    const size_t size = (size_t)16 * 1024 * 1024; /* more than the sockets hold */
    char *data = calloc(1, size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    struct hf__value value = hf__bytes("", 0);
    hf_error err = {0};
    HF_TEST_OK(try_run(conn, statement, &value, 1, NULL, &err), &err);
    relay_freeze(&relay);
    value = hf__bytes(data, size);
    int64_t start = hf_test_now_ms();
    HF_TEST_STATUS(hf__conn_run(conn, &statement, &value, 1, NULL, hf__after_ms(300), &err), HF_TIMEOUT, &err);
    hf__conn_close(conn);
    int64_t took = hf_test_now_ms() - start;
    if (took >= 10000) { /* without the limit: for ever, or as tcp_user_timeout says */
        hf_test_fail("took %lld ms", (long long)took);
    }
    relay_end(&relay);
    free(data);
}

static void test_deadline_already_passed(void)
{
    struct hf__conn *conn = open_conn();
    hf_error err = {0};
    HF_TEST_STATUS(hf__conn_exec(conn, "SELECT 1", hf__after_ms(-1), &err), HF_TIMEOUT, &err);
    CU_ASSERT_TRUE(conn->lost);
    hf__conn_close(conn);
}

/* ---- transactions ---- */

static void test_transactions(void)
{
    struct hf__conn *conn = open_conn();
    hf_error err = {0};
    const char *const levels[] = {"read committed", "read committed", "repeatable read", "serializable"};
    for (int i = HF__ISOLATION_DEFAULT; i <= HF__SERIALIZABLE; i++) {
        CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
        HF_TEST_OK(hf__conn_begin(conn, (enum hf__isolation)i, HF__DEFERRED, limit(), &err), &err);
        CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_OPEN);
        CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW transaction_isolation"), levels[i]);
        HF_TEST_OK(hf__conn_ping(conn, limit(), &err), &err);
        HF_TEST_OK(hf__conn_commit(conn, limit(), &err), &err);
    }
    HF_TEST_OK(hf__conn_rollback(conn, limit(), &err), &err); /* none open */
    hf__conn_close(conn);
}

static void test_commit_answered_by_rollback(void)
{
    struct hf__conn *conn = open_conn();
    hf_error err = {0};
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__DEFERRED, limit(), &err), &err);
    HF_TEST_STATUS(hf__conn_exec(conn, "SELECT 1/0", limit(), &err), HF_DATABASE, &err);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "22012");
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_FAILED);
    HF_TEST_OK(hf__conn_ping(conn, limit(), &err), &err);
    HF_TEST_STATUS(hf__conn_commit(conn, limit(), &err), HF_DATABASE, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "rolled the transaction back"));
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    CU_ASSERT_FALSE(conn->lost);
    hf__conn_close(conn);
}

/* ---- classes of errors ---- */

static void fails(struct hf__conn *conn, const char *sql, hf_status expected, const char *sqlstate)
{
    hf_error err = {0};
    hf_status status = hf__conn_exec(conn, sql, limit(), &err);
    if (status != expected || strcmp(err.sqlstate, sqlstate) != 0) {
        hf_test_fail("%s: %s %s: %s", sql, hf_status_name(status), err.sqlstate, err.message);
    }
}

static void test_error_classes(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__conn *other = open_conn();
    exec(conn, "CREATE TEMP TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    fails(conn, "INSERT INTO t VALUES (1)", HF_DATABASE, "23505");
    fails(conn, "SELECT * FROM pg_authid", HF_DENIED, "42501");
    fails(conn, "SELECT nothing", HF_DATABASE, "42703");
    fails(conn, "SELECT 1; SELECT nothing; SELECT 2", HF_DATABASE, "42703");
    exec(conn, "SET statement_timeout = 50");
    fails(conn, "SELECT pg_sleep(9)", HF_TRANSIENT, "57014");
    exec(conn, "SET statement_timeout = 0");
    exec(other, "SELECT pg_advisory_lock(4711)");
    fails(conn, "SET lock_timeout = 50; SELECT pg_advisory_lock(4711)", HF_TRANSIENT, "55P03");
    CU_ASSERT_FALSE(conn->retire || conn->lost);
    fails(conn, "SET transaction_read_only = on; CREATE TABLE no (id int)", HF_TRANSIENT, "25006");
    CU_ASSERT_TRUE(conn->retire);
    CU_ASSERT_FALSE(conn->lost);
    hf__conn_close(conn);
    hf__conn_close(other);
}

struct blocked {
    struct hf__conn *conn;
    const char *sql;
    hf_status status;
    hf_error err;
};

static void *run_blocked(void *arg)
{
    struct blocked *blocked = arg;
    blocked->status = hf__conn_exec(blocked->conn, blocked->sql, limit(), &blocked->err);
    return NULL;
}

static void test_deadlock(void)
{
    const char *table = hf_test_scratch("dead");
    struct hf__conn *a = open_conn();
    struct hf__conn *b = open_conn();
    exec(a, hf_test_format("CREATE TABLE %s (id int); INSERT INTO %s VALUES (1), (2)", table, table));
    exec(a, hf_test_format("BEGIN; UPDATE %s SET id = 1 WHERE id = 1", table));
    exec(b, hf_test_format("BEGIN; UPDATE %s SET id = 2 WHERE id = 2", table));
    struct blocked first = {.conn = a, .sql = hf_test_format("UPDATE %s SET id = 2 WHERE id = 2", table)};
    struct blocked second = {.conn = b, .sql = hf_test_format("UPDATE %s SET id = 1 WHERE id = 1", table)};
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_blocked, &first), 0);
    run_blocked(&second);
    pthread_join(thread, NULL);
    const struct blocked *victim = first.status != HF_OK ? &first : &second;
    CU_ASSERT_EQUAL(victim->status, HF_TRANSIENT);
    CU_ASSERT_STRING_EQUAL(victim->err.sqlstate, "40P01");
    CU_ASSERT_EQUAL(first.status == HF_OK, second.status != HF_OK);
    hf__conn_close(a);
    hf__conn_close(b);
    hf_test_sql(hf_test_postgres_url(), hf_test_format("DROP TABLE %s", table));
}

static bool seen_dead(void *conn)
{
    return !hf__conn_alive(conn);
}

static const char *terminating(struct hf__conn *conn)
{
    return hf_test_format("SELECT pg_terminate_backend(%lld)", (long long)ask_int(conn, "SELECT pg_backend_pid()"));
}

static void test_terminated_backend(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__conn *other = open_conn();
    struct hf__conn *third = open_conn();
    CU_ASSERT_TRUE(hf__conn_alive(conn));
    exec(other, terminating(conn));
    CU_ASSERT_TRUE(hf_test_wait_until(seen_dead, conn, 30000));
    CU_ASSERT_TRUE(conn->lost);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_UNKNOWN);
    exec(other, terminating(third)); /* and one that is not looked at first */
    hf_error err = {0};
    struct pollfd fd = {.fd = PQsocket(hf__conn_native(third)), .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&fd, 1, 30000), 1);
    HF_TEST_STATUS(hf__conn_exec(third, "SELECT 1", limit(), &err), HF_LOST, &err);
    CU_ASSERT_TRUE(third->lost);
    fails(other, terminating(other), HF_LOST, "57P01");
    CU_ASSERT_TRUE(other->lost);
    hf__conn_close(conn);
    hf__conn_close(other);
    hf__conn_close(third);
}

/* The end of the stream never arrives: the server's last words alone tell. */
static void test_last_words(void)
{
    static struct relay relay; /* its thread outlives a failing assertion */
    relay_start(&relay);
    struct hf__conn *conn = open_text(url_with(hf_test_format("127.0.0.1:%d", relay.port), NULL, NULL));
    hf_test_sql(hf_test_postgres_admin_url(), terminating(conn));
    CU_ASSERT_TRUE(hf_test_wait_until(seen_dead, conn, 30000));
    pthread_join(relay.thread, NULL); /* it ends with the server's side */
    hf__conn_close(conn);
    relay_end(&relay);
}

static void test_idle_in_transaction_timeout(void)
{
    struct hf__conn *conn = open_conn();
    exec(conn, "SET idle_in_transaction_session_timeout = 50; BEGIN");
    CU_ASSERT_TRUE(hf_test_wait_until(seen_dead, conn, 30000));
    hf__conn_close(conn);
}

static void test_alive_amid_notifications(void)
{
    struct hf__conn *conn = open_conn();
    const char *channel = hf_test_scratch("channel");
    exec(conn, hf_test_format("LISTEN %s", channel));
    hf_test_sql(hf_test_postgres_url(), hf_test_format("NOTIFY %s", channel));
    struct pollfd fd = {.fd = PQsocket(hf__conn_native(conn)), .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&fd, 1, 30000), 1);
    CU_ASSERT_TRUE(hf__conn_alive(conn));
    PGnotify *notify = PQnotifies(hf__conn_native(conn));
    if (notify == NULL) {
        hf_test_fail("the notification has not been read");
        return;
    }
    CU_ASSERT_STRING_EQUAL(notify->relname, channel);
    PQfreemem(notify);
    hf__conn_close(conn);
}

/* ---- prepared statements ---- */

static int64_t prepared(struct hf__conn *conn)
{
    return ask_int(conn, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'hf!_%' ESCAPE '!'");
}

static void test_prepared_once(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    struct hf__statement statement = {.sql = "SELECT $1::int8 + 1", .serial = hf__statement_serial()};
    for (int i = 0; i < 5; i++) {
        struct hf__value value = hf__int(i);
        HF_TEST_OK(try_run(conn, statement, &value, 1, &rows, &err), &err);
        CU_ASSERT_TRUE(is_int(&rows, 0, 0, i + 1));
    }
    CU_ASSERT_EQUAL(prepared(conn), 1);
    CU_ASSERT_EQUAL(ask_int(conn, hf_test_format("SELECT count(*) FROM pg_prepared_statements WHERE name = 'hf_%llu'",
                                                 (unsigned long long)statement.serial)),
                    1);
    for (int i = 0; i < 300; i++) {
        struct hf__statement one = {.sql = "SELECT 1", .serial = hf__statement_serial()};
        HF_TEST_OK(try_run(conn, one, NULL, 0, &rows, &err), &err);
    }
    CU_ASSERT_EQUAL(prepared(conn), 256);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_cached_plan_changes(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    exec(conn, "CREATE TEMP TABLE t (id int4); INSERT INTO t VALUES (1)");
    struct hf__statement all = {.sql = "SELECT * FROM t", .serial = hf__statement_serial()};
    struct hf__statement some = {.sql = "SELECT id FROM t WHERE id = $1", .serial = hf__statement_serial()};
    struct hf__value value = hf__int(1);
    HF_TEST_OK(try_run(conn, all, NULL, 0, &rows, &err), &err);
    HF_TEST_OK(try_run(conn, some, &value, 1, &rows, &err), &err);
    exec(conn, "ALTER TABLE t ADD n text DEFAULT 'new'");
    HF_TEST_OK(try_run(conn, all, NULL, 0, &rows, &err), &err);
    CU_ASSERT_EQUAL(rows.columns, 2);
    exec(conn, "ALTER TABLE t ALTER id TYPE int8; INSERT INTO t VALUES (5000000000)");
    value = hf__int(5000000000);
    HF_TEST_OK(try_run(conn, some, &value, 1, &rows, &err), &err);
    CU_ASSERT_EQUAL(rows.count, 1);
    exec(conn, "ALTER TABLE t ALTER id TYPE text USING id::text");
    HF_TEST_OK(try_run(conn, some, &value, 1, &rows, &err), &err);
    CU_ASSERT_TRUE(is_text(&rows, 0, 0, "5000000000"));
    exec(conn, "ALTER TABLE t RENAME TO away");
    HF_TEST_STATUS(try_run(conn, some, &value, 1, &rows, &err), HF_DATABASE, &err);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "42P01");
    exec(conn, "ALTER TABLE away RENAME TO t");
    HF_TEST_OK(try_run(conn, some, &value, 1, &rows, &err), &err);
    CU_ASSERT_EQUAL(prepared(conn), 2);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_cached_plan_changes_in_a_transaction(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    exec(conn, "CREATE TEMP TABLE t (id int4); INSERT INTO t VALUES (1)");
    struct hf__statement all = {.sql = "SELECT * FROM t", .serial = hf__statement_serial()};
    HF_TEST_OK(try_run(conn, all, NULL, 0, &rows, &err), &err);
    exec(conn, "ALTER TABLE t ADD n int4");
    const hf_status expected[] = {HF_TRANSIENT, HF_OK};
    for (int i = 0; i < 2; i++) {
        HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__DEFERRED, limit(), &err), &err);
        HF_TEST_STATUS(try_run(conn, all, NULL, 0, &rows, &err), expected[i], &err);
        HF_TEST_OK(hf__conn_rollback(conn, limit(), &err), &err);
    }
    CU_ASSERT_EQUAL(prepared(conn), 1);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_discarded_statements(void)
{
    struct hf__conn *conn = open_conn();
    hf_error err = {0};
    struct hf__statement statement = {.sql = "SELECT 1", .serial = hf__statement_serial()};
    HF_TEST_OK(try_run(conn, statement, NULL, 0, NULL, &err), &err);
    exec(conn, "DISCARD ALL");
    HF_TEST_OK(try_run(conn, statement, NULL, 0, NULL, &err), &err);
    exec(conn, "DEALLOCATE ALL");
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__DEFERRED, limit(), &err), &err);
    HF_TEST_STATUS(try_run(conn, statement, NULL, 0, NULL, &err), HF_TRANSIENT, &err);
    HF_TEST_OK(hf__conn_rollback(conn, limit(), &err), &err);
    HF_TEST_OK(try_run(conn, statement, NULL, 0, NULL, &err), &err);
    struct hf__statement taken = {.sql = "SELECT 2", .serial = hf__statement_serial()};
    exec(conn, hf_test_format("PREPARE hf_%llu AS SELECT 3", (unsigned long long)taken.serial));
    exec(conn, "DISCARD PLANS");
    HF_TEST_OK(try_run(conn, taken, NULL, 0, NULL, &err), &err);
    hf__conn_close(conn);
}

static void test_name_taken(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    struct hf__statement taken = {.sql = "SELECT 2", .serial = hf__statement_serial()};
    exec(conn, hf_test_format("PREPARE hf_%llu AS SELECT 3", (unsigned long long)taken.serial));
    HF_TEST_OK(try_run(conn, taken, NULL, 0, &rows, &err), &err);
    CU_ASSERT_TRUE(is_int(&rows, 0, 0, 2));
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

static void test_pooler(void)
{
    struct hf__conn *conn = open_text(with_option("pooler=transaction"));
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    CU_ASSERT_TRUE(conn->pooler);
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW TimeZone"), "America/St_Johns");
    struct hf__statement statement = {.sql = "SELECT $1::timestamptz, $2::bytea", .serial = hf__statement_serial()};
    struct hf__value values[] = {hf__time_us(1234567), hf__bytes("\0\\", 2)};
    for (int i = 0; i < 2; i++) {
        HF_TEST_OK(try_run(conn, statement, values, 2, &rows, &err), &err);
        CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, 0), &values[0]));
        CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, 1), &values[1]));
    }
    CU_ASSERT_EQUAL(prepared(conn), 0);
    exec(conn, "SET default_transaction_isolation = serializable");
    HF_TEST_OK(hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__DEFERRED, limit(), &err), &err);
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW transaction_isolation"), "read committed");
    HF_TEST_OK(hf__conn_reset(conn, limit(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    hf__rows_free(&rows);
    hf__conn_close(conn);
}

/* ---- reset, borrow, fork ---- */

static void test_reset(void)
{
    struct hf__conn *conn = open_conn();
    hf_error err = {0};
    struct hf__statement statement = {.sql = "SELECT 1", .serial = hf__statement_serial()};
    HF_TEST_OK(try_run(conn, statement, NULL, 0, NULL, &err), &err);
    exec(conn,
         "SET TimeZone = 'Asia/Tokyo'; SET bytea_output = escape; SELECT pg_advisory_lock(4712); BEGIN; CREATE TEMP TABLE t (id int)");
    PQsetnonblocking(hf__conn_native(conn), 1);
    HF_TEST_OK(hf__conn_reset(conn, limit(), &err), &err);
    CU_ASSERT_EQUAL(hf__conn_transaction(conn), HF__TX_NONE);
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW TimeZone"), "UTC");
    CU_ASSERT_STRING_EQUAL(ask_text(conn, "SHOW bytea_output"), "hex");
    CU_ASSERT_EQUAL(ask_int(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), 0);
    HF_TEST_OK(try_run(conn, statement, NULL, 0, NULL, &err), &err);
    CU_ASSERT_EQUAL(prepared(conn), 1);
    CU_ASSERT_EQUAL(PQisnonblocking(hf__conn_native(conn)), 0);
    CU_ASSERT_EQUAL_FATAL(PQsendQuery(hf__conn_native(conn), "SELECT pg_sleep(9)"), 1);
    HF_TEST_STATUS(hf__conn_reset(conn, limit(), &err), HF_LOST, &err);
    hf__conn_close(conn);
}

static void answers_count(PGconn *pg, const char *sql, const char *expected)
{
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || strcmp(PQgetvalue(result, 0, 0), expected) != 0) {
        hf_test_fail("%s: %s%s", sql, PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "", PQerrorMessage(pg));
    }
    PQclear(result);
}

static void do_native(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        hf_test_fail("%s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
}

static void test_borrow(void)
{
    PGconn *pg = PQconnectdb(hf_test_postgres_url());
    struct hf__conn *conn;
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_error err = {0};
    do_native(pg, "SET TimeZone = 'Asia/Tokyo'");
    do_native(pg, "CREATE TEMP TABLE t (id int, payload bytea, at timestamptz)");
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        do_native(pg, "BEGIN");
        PQsetnonblocking(pg, nonblocking);
        HF_TEST_OK(hf__conn_borrow(HF__POSTGRES, pg, &conn, &err), &err);
        struct hf__statement statement = {.sql = "INSERT INTO t VALUES ($1, $2, $3) RETURNING *", .serial = hf__statement_serial()};
        struct hf__value values[] = {hf__int(1), hf__bytes("\0\xff", 2), hf__time_us(1)};
        HF_TEST_OK(try_run(conn, statement, values, 3, &rows, &err), &err);
        for (size_t i = 0; i < 3; i++) {
            CU_ASSERT_TRUE(hf__value_equal(hf__cell(&rows, 0, i), &values[i]));
        }
        CU_ASSERT_EQUAL(PQisnonblocking(pg), nonblocking);
        HF_TEST_STATUS(hf__conn_reset(conn, limit(), &err), HF_MISUSE, &err);
        hf__conn_close(conn);
        PQsetnonblocking(pg, 0);
        answers_count(pg, "SELECT count(*) FROM t", "1");
        answers_count(pg, "SELECT count(*) FROM pg_prepared_statements", "0");
        answers_count(pg, "SHOW TimeZone", "Asia/Tokyo");
        do_native(pg, "ROLLBACK");
        answers_count(pg, "SELECT count(*) FROM t", "0");
    }
    hf__rows_free(&rows);
    PQfinish(pg);
}

static void test_borrow_deadline_leaves_the_handle_usable(void)
{
    PGconn *pg = PQconnectdb(hf_test_postgres_url());
    struct hf__conn *conn;
    hf_error err = {0};
    do_native(pg, "BEGIN");
    HF_TEST_OK(hf__conn_borrow(HF__POSTGRES, pg, &conn, &err), &err);
    times_out(conn, (struct hf__statement){.sql = "SELECT pg_sleep(30)"}, 1000);
    hf__conn_close(conn);
    CU_ASSERT_EQUAL(PQtransactionStatus(pg), PQTRANS_INERROR);
    do_native(pg, "ROLLBACK");
    answers_count(pg, "SELECT 1", "1");
    PQfinish(pg);
}

static void test_borrow_refuses(void)
{
    PGconn *pg = PQconnectdb(hf_test_postgres_url());
    struct hf__conn *conn;
    hf_error err = {0};
    HF_TEST_STATUS(hf__conn_borrow(HF__POSTGRES, NULL, &conn, &err), HF_INVALID, &err);
    CU_ASSERT_EQUAL_FATAL(PQsetClientEncoding(pg, "LATIN1"), 0);
    HF_TEST_STATUS(hf__conn_borrow(HF__POSTGRES, pg, &conn, &err), HF_INVALID, &err);
    CU_ASSERT_EQUAL_FATAL(PQsetClientEncoding(pg, "UTF8"), 0);
    HF_TEST_OK(hf__conn_borrow(HF__POSTGRES, pg, &conn, &err), &err);
    CU_ASSERT_EQUAL_FATAL(PQenterPipelineMode(pg), 1);
    HF_TEST_STATUS(hf__conn_exec(conn, "SELECT 1", limit(), &err), HF_MISUSE, &err);
    CU_ASSERT_EQUAL(PQexitPipelineMode(pg), 1);
    HF_TEST_OK(hf__conn_exec(conn, "SELECT 1", limit(), &err), &err);
    hf__conn_close(conn);
    PQfinish(pg);
    pg = PQconnectdb("host=127.0.0.1 port=1");
    HF_TEST_STATUS(hf__conn_borrow(HF__POSTGRES, pg, &conn, &err), HF_LOST, &err);
    PQfinish(pg);
}

static void test_fork(void)
{
    struct hf__conn *conn = open_conn();
    exec(conn, "SELECT pg_advisory_lock(4713)");
    pid_t pid = fork();
    if (pid == 0) {
        hf_error err = {0};
        hf_status status = hf__conn_exec(conn, "SELECT 1", limit(), &err);
        bool alive = hf__conn_alive(conn);
        hf__conn_close(conn);
        _exit(status == HF_MISUSE && !alive ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(ask_int(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), 1);
    CU_ASSERT_TRUE(hf__conn_alive(conn));
    hf__conn_close(conn);
}

/* ---- describe ---- */

static void describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__relation *out)
{
    hf_error err = {0};
    HF_TEST_OK(hf__conn_describe(conn, schema, table, limit(), out, &err), &err);
}

static const struct hf__column *column_of(const struct hf__relation *relation, const char *name)
{
    const struct hf__column *found = hf__relation_column(relation, name, false);
    if (found == NULL) {
        hf_test_fail("there is no column %s", name);
    }
    return found;
}

static void test_describe_columns(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__relation r;
    const char *computed = conn->server.version >= 120000 ? "GENERATED ALWAYS AS (7 * 2) STORED" : "GENERATED BY DEFAULT AS IDENTITY";
    exec(conn,
         hf_test_format("CREATE DOMAIN pg_temp.short AS varchar(7) NOT NULL DEFAULT 'x'; CREATE DOMAIN pg_temp.shorter AS pg_temp.short;"
                        "CREATE TEMP TABLE \"q\"\"t\" (id int8 GENERATED ALWAYS AS IDENTITY, s serial, \"na\xc3\xafve\" text NOT NULL,"
                        " \"Order\" pg_temp.shorter, v varchar(255), c char(3), b bytea, j jsonb, u uuid, t timestamp, z timestamptz(3),"
                        " twice int4 %s, n numeric, a int4[], i2 int2 DEFAULT 1, nm name, gone int);"
                        "ALTER TABLE \"q\"\"t\" DROP gone",
                        computed));
    describe(conn, NULL, "q\"t", &r);
    CU_ASSERT_EQUAL_FATAL(r.kind, HF__RELATION_TABLE);
    CU_ASSERT_EQUAL(r.n_columns, 16);
    const struct hf__column *c = column_of(&r, "id");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_INTEGER && c->bits == 64 && c->generated && !c->nullable && !c->is_unsigned);
    CU_ASSERT_STRING_EQUAL(c->type, "bigint");
    c = column_of(&r, "s");
    CU_ASSERT_TRUE(c->bits == 32 && c->has_default && !c->generated);
    c = column_of(&r, "na\xc3\xafve");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_TEXT && !c->nullable && !c->has_default && c->max_chars == 0);
    c = column_of(&r, "Order");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_TEXT && !c->nullable && c->has_default && c->max_chars == 7);
    c = column_of(&r, "v");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_TEXT && c->nullable && c->max_chars == 255);
    CU_ASSERT_STRING_EQUAL(c->type, "character varying(255)");
    CU_ASSERT_EQUAL(column_of(&r, "c")->max_chars, 3);
    CU_ASSERT_EQUAL(column_of(&r, "b")->kind, HF__COLUMN_BYTES);
    CU_ASSERT_EQUAL(column_of(&r, "j")->kind, HF__COLUMN_JSON);
    CU_ASSERT_EQUAL(column_of(&r, "u")->kind, HF__COLUMN_UUID);
    c = column_of(&r, "t");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_TIME && c->precision == 6);
    c = column_of(&r, "z");
    CU_ASSERT_TRUE(c->kind == HF__COLUMN_TIME_ZONED && c->precision == 3);
    CU_ASSERT_STRING_EQUAL(c->type, "timestamp(3) with time zone");
    c = column_of(&r, "twice");
    CU_ASSERT_TRUE(c->generated && !c->has_default);
    CU_ASSERT_EQUAL(column_of(&r, "n")->kind, HF__COLUMN_OTHER);
    CU_ASSERT_EQUAL(column_of(&r, "a")->kind, HF__COLUMN_OTHER);
    c = column_of(&r, "i2");
    CU_ASSERT_TRUE(c->bits == 16 && c->has_default);
    CU_ASSERT_EQUAL(column_of(&r, "nm")->max_bytes, 63);
    hf__relation_free(&r);
    hf__conn_close(conn);
}

static const struct hf__index *find_index(const struct hf__relation *relation, const char *name)
{
    for (size_t i = 0; i < relation->n_indexes; i++) {
        if (strcmp(relation->indexes[i].name, name) == 0) {
            return &relation->indexes[i];
        }
    }
    hf_test_fail("there is no index %s", name);
    return NULL;
}

static void test_describe_indexes(void)
{
    struct hf__conn *conn = open_conn();
    struct hf__relation r;
    exec(conn, "CREATE TEMP TABLE t (id int PRIMARY KEY, a int, b text COLLATE \"C\", done timestamptz);"
               "CREATE INDEX plain ON t (a, b, id);"
               "CREATE INDEX descending ON t (a DESC); CREATE INDEX first ON t (a NULLS FIRST);"
               "CREATE INDEX expression ON t (a, (lower(b))); CREATE INDEX part ON t (a) WHERE done IS NULL;"
               "CREATE INDEX pattern ON t (b text_pattern_ops); CREATE INDEX collated ON t (b COLLATE \"POSIX\");"
               "CREATE INDEX hashed ON t USING hash (a)");
    exec(conn, hf_test_format("CREATE UNIQUE INDEX included ON t (a)%s", conn->server.version >= 110000 ? " INCLUDE (b)" : ""));
    describe(conn, NULL, "t", &r);
    CU_ASSERT_EQUAL_FATAL(r.n_indexes, 10);
    const struct hf__index *i = find_index(&r, "t_pkey");
    CU_ASSERT_TRUE(i->primary && i->unique && i->plain && !i->partial && i->n_columns == 1);
    CU_ASSERT_STRING_EQUAL(i->columns[0], "id");
    i = find_index(&r, "plain");
    CU_ASSERT_TRUE(!i->primary && !i->unique && i->plain && i->n_columns == 3 && i->predicate == NULL);
    CU_ASSERT_STRING_EQUAL(i->columns[1], "b");
    i = find_index(&r, "included");
    CU_ASSERT_TRUE(i->unique && i->plain && i->n_columns == 1);
    CU_ASSERT_FALSE(find_index(&r, "descending")->plain);
    CU_ASSERT_FALSE(find_index(&r, "first")->plain);
    i = find_index(&r, "expression");
    CU_ASSERT_TRUE(!i->plain && i->n_columns == 2 && i->columns[1] == NULL);
    i = find_index(&r, "part");
    CU_ASSERT_TRUE(i->plain && i->partial);
    CU_ASSERT_STRING_EQUAL(i->predicate, "(done IS NULL)");
    CU_ASSERT_FALSE(find_index(&r, "pattern")->plain);
    CU_ASSERT_FALSE(find_index(&r, "collated")->plain);
    CU_ASSERT_FALSE(find_index(&r, "hashed")->plain);
    hf__relation_free(&r);
    hf__conn_close(conn);
}

static void kind_is(struct hf__conn *conn, const char *schema, const char *name, enum hf__relation_kind kind)
{
    struct hf__relation r;
    describe(conn, schema, name, &r);
    if (r.kind != kind) {
        hf_test_fail("%s: kind %d", name, (int)r.kind);
    }
    hf__relation_free(&r);
}

static void test_describe_kinds(void)
{
    struct hf__conn *conn = open_conn();
    const char *schema = hf_test_scratch("Odd schema");
    const char *table = hf_test_scratch("parts");
    exec(conn, hf_test_format("CREATE SCHEMA \"%s\"; CREATE TABLE \"%s\".%s (id int) PARTITION BY RANGE (id);"
                              "CREATE MATERIALIZED VIEW \"%s\".mat AS SELECT 1 AS one;"
                              "CREATE TEMP VIEW seen AS SELECT 1 AS one; CREATE TEMP SEQUENCE counter",
                              schema, schema, table, schema));
    kind_is(conn, schema, table, HF__RELATION_PARTITIONED);
    kind_is(conn, schema, "mat", HF__RELATION_OTHER);
    kind_is(conn, NULL, table, HF__RELATION_NONE);
    kind_is(conn, NULL, "seen", HF__RELATION_VIEW);
    kind_is(conn, NULL, "counter", HF__RELATION_NONE);
    kind_is(conn, "nowhere", "seen", HF__RELATION_NONE);
    kind_is(conn, NULL, hf_test_format("%s\"; DROP TABLE x", table), HF__RELATION_NONE);
    exec(conn, hf_test_format("SET search_path = \"%s\"", schema));
    kind_is(conn, NULL, table, HF__RELATION_PARTITIONED);
    char longest[100];
    memset(longest, 'n', 63);
    longest[63] = '\0';
    exec(conn, hf_test_format("CREATE TABLE %s ()", longest));
    kind_is(conn, NULL, longest, HF__RELATION_TABLE);
    kind_is(conn, NULL, hf_test_format("%sn", longest), HF__RELATION_NONE);
    exec(conn, hf_test_format("DROP SCHEMA \"%s\" CASCADE", schema));
    hf__conn_close(conn);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"login reads the version", test_login_reads_the_version},
        {"login through a Unix socket", test_login_through_a_unix_socket},
        {"login is refused", test_login_is_refused},
        {"login finds too many connections", test_login_too_many},
        {"login on a silent server", test_login_on_a_silent_server},
        {"login passes over a silent host", test_login_passes_over_a_silent_host},
        {"session settings", test_session_settings},
        {"integers", test_integers},
        {"texts", test_texts},
        {"bytes", test_bytes},
        {"domains", test_domains},
        {"large bytes", test_large_bytes},
        {"times", test_times},
        {"values refused", test_values_refused},
        {"matched rows", test_matched_rows},
        {"deadline stops the statement", test_deadline_stops_the_statement},
        {"deadline behind a lock", test_deadline_behind_a_lock},
        {"deadline on a frozen server", test_deadline_on_a_frozen_server},
        {"deadline while sending", test_deadline_while_sending},
        {"deadline already passed", test_deadline_already_passed},
        {"transactions", test_transactions},
        {"commit answered by rollback", test_commit_answered_by_rollback},
        {"error classes", test_error_classes},
        {"deadlock", test_deadlock},
        {"terminated backend", test_terminated_backend},
        {"last words", test_last_words},
        {"idle in transaction timeout", test_idle_in_transaction_timeout},
        {"alive amid notifications", test_alive_amid_notifications},
        {"prepared once", test_prepared_once},
        {"cached plan changes", test_cached_plan_changes},
        {"cached plan changes in a transaction", test_cached_plan_changes_in_a_transaction},
        {"discarded statements", test_discarded_statements},
        {"name taken", test_name_taken},
        {"pooler", test_pooler},
        {"reset", test_reset},
        {"borrow", test_borrow},
        {"borrow: deadline leaves the handle usable", test_borrow_deadline_leaves_the_handle_usable},
        {"borrow refuses", test_borrow_refuses},
        {"fork", test_fork},
        {"describe columns", test_describe_columns},
        {"describe indexes", test_describe_indexes},
        {"describe kinds", test_describe_kinds},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "driver_postgres", tests);
}
