/* The servers of tests/servers.sh, and SQL on the side. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/session.h"

#define SQL_TIMEOUT_MS 30000

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    if (!value || !*value) {
        hf_test_fail("%s is not set: run this test with `sh tests/run.sh`, or after "
                     "`sh tests/servers.sh start DIR` and `eval \"$(sh tests/servers.sh env DIR)\"`",
                     name);
        return "";
    }
    return value;
}

const char *hf_test_postgres_url(void)
{
    return variable("HF_TEST_POSTGRES_URL");
}

const char *hf_test_postgres_admin_url(void)
{
    return variable("HF_TEST_POSTGRES_ADMIN_URL");
}

const char *hf_test_mysql_url(void)
{
    return variable("HF_TEST_MYSQL_URL");
}

const char *hf_test_mysql_admin_url(void)
{
    return variable("HF_TEST_MYSQL_ADMIN_URL");
}

bool hf_test_is_mariadb(void)
{
    return hf_test_query_int(hf_test_mysql_url(), "SELECT VERSION() LIKE '%MariaDB%'") == 1;
}

const char *hf_test_sqlite_url(void)
{
    return hf_test_format("sqlite:%s/%s.db?create=1", variable("HF_TEST_SQLITE_DIR"), hf_test_scratch("t"));
}

const char *hf_test_url(enum hf__database database)
{
    switch (database) {
    case HF__POSTGRES:
        return hf_test_postgres_url();
    case HF__MYSQL:
        return hf_test_mysql_url();
    case HF__SQLITE:
        return hf_test_sqlite_url();
    }
    hf_test_fail("there is no database %d", (int)database);
    return "";
}

bool hf_test_has_keys(enum hf__database database)
{
    return database != HF__POSTGRES ||
           hf_test_query_int(hf_test_postgres_url(), "SELECT current_setting('server_version_num')::integer") >= 110000;
}

bool hf_test_built_with(enum hf__database database)
{
    return hf__driver_for(database) != NULL;
}

void hf_test_server(const char *action, const char *server)
{
    const char *const argv[] = {"sh", HF_TEST_SOURCE_DIR "/tests/servers.sh", action, variable("HF_TEST_SERVERS"), server, NULL};
    hf_test_run(argv, NULL, 120000);
}

static hf_status open_conn(const char *text, struct hf__conn **out, hf_error *err)
{
    struct hf__url *url = NULL;
    hf_status status = hf__url_parse(text, &url, err);
    if (status == HF_OK) {
        struct hf__session_options options = {
            .connect_timeout_ms = SQL_TIMEOUT_MS, .idle_limit_ms = 3600000, .application_name = "holdfast tests"};
        status = hf__conn_open(url, &options, hf__after_ms(SQL_TIMEOUT_MS), out, err);
    }
    hf__url_free(url);
    return status;
}

hf_status hf_test_try_sql(const char *url, const char *sql, hf_error *err)
{
    struct hf__conn *conn = NULL;
    hf_status status = open_conn(url, &conn, err);
    if (status == HF_OK) {
        status = hf__conn_exec(conn, sql, hf__after_ms(SQL_TIMEOUT_MS), err);
    }
    hf__conn_close(conn);
    return status;
}

void hf_test_sql(const char *url, const char *sql)
{
    hf_error err = {0};
    if (hf_test_try_sql(url, sql, &err) != HF_OK) {
        hf_test_fail("%s: %s", sql, err.message);
    }
}

const char *hf_test_query_text(const char *url, const char *sql)
{
    struct hf__conn *session = hf_test_session(url);
    const char *text = hf_test_session_text(session, sql);
    hf__conn_close(session);
    return text;
}

int64_t hf_test_query_int(const char *url, const char *sql)
{
    struct hf__conn *session = hf_test_session(url);
    int64_t number = hf_test_session_int(session, sql);
    hf__conn_close(session);
    return number;
}
