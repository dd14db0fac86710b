/* Sessions: their set-up, transactions, reset, and the table of methods. */
#include "driver_mysql.h"

#include <fcntl.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct hf__driver hf__mysql_driver;

/* ---- the session ---- */

/* wait_timeout bounds how long the locks of a host that died live on. Longer than a year is not to be had. */
#define MAX_WAIT_SECONDS INT64_C(31536000)

/* NO_AUTO_VALUE_ON_ZERO: a row that is copied keeps its id, though it be 0. */
#define SQL_MODE                                                                                          \
    "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION," \
    "NO_AUTO_VALUE_ON_ZERO"

static bool has_transaction_isolation(const struct hf__server *server)
{
    return server->version >= (server->mariadb ? 110101 : 50720);
}

static const char *idle_limits(const struct hf__server *server)
{
    return !server->mariadb || server->version < 100300
               ? ""
               : ", idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0";
}

/* All in one statement: one round trip. */
static hf_status set_up(struct hf__my *self, struct hf__deadline deadline, hf_error *err)
{
    char sql[768];
    char wait[48] = "";
    int64_t ms = self->idle_limit_ms;
    if (ms > 0) {
        int64_t seconds = ms / 1000 + (ms % 1000 != 0);
        (void)snprintf(wait, sizeof wait, ", wait_timeout = %lld", (long long)(seconds < MAX_WAIT_SECONDS ? seconds : MAX_WAIT_SECONDS));
    }
    (void)snprintf(sql, sizeof sql,
                   "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = '" SQL_MODE "', autocommit = 1, SESSION %s = 'READ-COMMITTED'%s%s",
                   has_transaction_isolation(&self->base.server) ? "transaction_isolation" : "tx_isolation", wait,
                   idle_limits(&self->base.server));
    return hf__my_text(self, sql, deadline, NULL, err);
}

static hf_status read_instance(struct hf__my *self, struct hf__deadline deadline, hf_error *err)
{
    MYSQL_RES *result = NULL;
    hf_status status = hf__my_text(self, HF__MY_INSTANCE, deadline, &result, err);
    if (status != HF_OK) {
        return status;
    }
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    if (row != NULL && row[0] != NULL && row[1] != NULL) {
        self->instance = strdup(row[0]);
        self->max_packet = strtoull(row[1], NULL, 10);
    }
    mysql_free_result(result);
    return self->instance != NULL ? HF_OK : hf__fail_memory(err);
}

/* Through a pooler a session is not ours to set up, and its number may be somebody else's. */
static hf_status open_session(struct hf__my *self, const char *program, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__my_login(self, program, deadline, err);
    if (status != HF_OK || self->base.pooler) {
        return status;
    }
    status = set_up(self, deadline, err);
    return status != HF_OK ? status : read_instance(self, deadline, err);
}

static void free_session(struct hf__my *self)
{
    hf__my_forget_plans(self); /* the session is gone: nothing is sent */
    hf__url_free(self->url);
    free(self->instance);
    free(self);
}

/* The sooner of the URL's limit and the options', counted from now. */
static struct hf__deadline attempt_limit(const struct hf__url *url, const struct hf__session_options *options)
{
    const char *seconds = hf__url_option(url, "connect_timeout");
    struct hf__deadline limit = options->connect_timeout_ms > 0 ? hf__after_ms(options->connect_timeout_ms) : hf__never();
    return seconds == NULL ? limit : hf__sooner(limit, hf__after_ms(strtoll(seconds, NULL, 10) * 1000));
}

/* An attempt that took too long says that the server does not answer; only the caller's own deadline is a timeout. */
static hf_status describe_failure(const struct hf__url *url, hf_status status, struct hf__deadline deadline, hf_error *err)
{
    if (status == HF_LOST || (status == HF_TIMEOUT && !hf__passed(deadline))) {
        status = HF_UNREACHABLE;
        if (err != NULL) {
            err->status = status;
        }
    }
    (void)hf__fail_context(err, "cannot connect to %s", url->safe);
    return status;
}

static hf_status connect_to(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                            struct hf__conn **out, hf_error *err)
{
    struct hf__my *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return hf__fail_memory(err);
    }
    self->base = (struct hf__conn){.driver = &hf__mysql_driver, .owner = getpid(), .pooler = url->pooler};
    self->idle_limit_ms = options->idle_limit_ms;
    hf_status status = hf__url_parse(url->text, &self->url, err);
    if (status == HF_OK) {
        status = open_session(self, options->application_name, hf__sooner(deadline, attempt_limit(url, options)), err);
        if (status != HF_OK) {
            status = describe_failure(url, status, deadline, err);
        }
    }
    if (status != HF_OK) {
        hf__my_hang_up(self);
        free_session(self);
        return status;
    }
    *out = &self->base;
    return HF_OK;
}

static bool is_utf8(MYSQL *mysql)
{
    const char *charset = mysql_character_set_name(mysql);
    return strcmp(charset, "utf8mb4") == 0 || strcmp(charset, "utf8mb3") == 0 || strcmp(charset, "utf8") == 0;
}

static hf_status borrow(void *native, struct hf__conn **out, hf_error *err)
{
    MYSQL *mysql = native;
    if (mysql == NULL || mysql_get_socket(mysql) < 0) {
        return hf__fail(err, HF_INVALID, "the MYSQL handle is not connected");
    }
    if (!is_utf8(mysql)) {
        return hf__fail(err, HF_INVALID,
                        "the MYSQL handle uses the character set %s and holdfast sends UTF-8; first call "
                        "mysql_set_character_set(mysql, \"utf8mb4\")",
                        mysql_character_set_name(mysql));
    }
    struct hf__my *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return hf__fail_memory(err);
    }
    self->base = (struct hf__conn){.driver = &hf__mysql_driver, .owner = getpid(), .borrowed = true};
    self->mysql = mysql;
    hf__my_read_server(self);
    *out = &self->base;
    return HF_OK;
}

/* A byte sent from a forked child would end its parent's session: the library says its goodbye to /dev/null instead. */
static void close_in_child(struct hf__my *self)
{
    int fd = mysql_get_socket(self->mysql);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && (fd < 0 || dup2(null, fd) == fd)) {
        mysql_close(self->mysql);
    } else {
        self->n_plans = 0; /* nothing may be closed: it is left behind */
    }
    if (null >= 0) {
        (void)close(null);
    }
}

static void close_conn(struct hf__conn *conn)
{
    struct hf__my *self = hf__my_of(conn);
    if (conn->borrowed) {
        self->mysql = NULL;
    } else if (conn->owner != getpid()) {
        close_in_child(self);
    } else {
        hf__my_hang_up(self);
    }
    free_session(self);
}

/* ---- transactions ---- */

enum hf__transaction hf__my_transaction(struct hf__conn *conn)
{
    unsigned status = 0;
    if (conn->lost || mariadb_get_infov(hf__my_of(conn)->mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) != 0) {
        return HF__TX_UNKNOWN;
    }
    if ((status & SERVER_STATUS_IN_TRANS) == 0) {
        return HF__TX_NONE;
    }
    return hf__my_of(conn)->rolled_back ? HF__TX_FAILED : HF__TX_OPEN;
}

/* The server would run it in a transaction of its own, and a row that was locked before may be somebody else's by now. */
hf_status hf__my_check_transaction(struct hf__my *self, hf_error *err)
{
    return hf__my_transaction(&self->base) != HF__TX_FAILED
               ? HF_OK
               : hf__fail(err, HF_DATABASE, "the server has rolled the transaction back; nothing but a rollback is run in it");
}

static hf_status command(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    return hf__my_text(hf__my_of(conn), sql, deadline, NULL, err);
}

static hf_status exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__my_check_transaction(hf__my_of(conn), err);
    return status != HF_OK ? status : command(conn, sql, deadline, err);
}

/* NULL when the session's own level is the one that is asked for. */
static const char *level_sql(const struct hf__conn *conn, enum hf__isolation isolation)
{
    switch (isolation) {
    case HF__REPEATABLE_READ:
        return "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    case HF__SERIALIZABLE:
        return "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    case HF__READ_COMMITTED:
    case HF__ISOLATION_DEFAULT:
        break;
    }
    return conn->pooler || conn->borrowed ? "SET TRANSACTION ISOLATION LEVEL READ COMMITTED" : NULL;
}

static hf_status begin(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode, struct hf__deadline deadline,
                       hf_error *err)
{
    (void)mode;
    enum hf__transaction transaction = hf__my_transaction(conn);
    if (transaction == HF__TX_OPEN || transaction == HF__TX_FAILED) { /* START TRANSACTION would commit it */
        return hf__fail(err, HF_MISUSE, "a transaction is open already on this connection");
    }
    hf__my_of(conn)->rolled_back = false;
    const char *level = level_sql(conn, isolation);
    hf_status status = level != NULL ? command(conn, level, deadline, err) : HF_OK;
    return status != HF_OK ? status : command(conn, "START TRANSACTION", deadline, err);
}

static hf_status rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    return command(conn, "ROLLBACK", deadline, err);
}

/* The server accepts a COMMIT without a transaction, also when it has just rolled one back. */
static hf_status commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    enum hf__transaction transaction = hf__my_transaction(conn);
    if (transaction == HF__TX_OPEN || transaction == HF__TX_UNKNOWN) {
        return command(conn, "COMMIT", deadline, err);
    }
    hf_status status = transaction == HF__TX_FAILED ? rollback(conn, deadline, err) : HF_OK;
    if (status != HF_OK) {
        return status;
    }
    return hf__fail(err, HF_DATABASE, "nothing was committed: %s",
                    transaction == HF__TX_FAILED ? "the server had rolled the transaction back"
                                                 : "the transaction had ended before, by a statement that commits by itself");
}

/* ---- health ---- */

/* While nothing runs, the server has nothing to say: whatever comes is its goodbye. */
static bool alive(struct hf__conn *conn)
{
    struct pollfd socket = {.fd = mysql_get_socket(hf__my_of(conn)->mysql), .events = POLLIN | POLLRDHUP};
    if (socket.fd < 0 || poll(&socket, 1, 0) > 0) {
        conn->lost = true;
    }
    return !conn->lost;
}

static hf_status ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__my_step step = {.call = &hf__my_call_ping};
    return hf__my_step(hf__my_of(conn), &step, deadline, err);
}

/* The library reads on for ever when it resets a session with results left in it. */
static bool has_unread(const struct hf__my *self)
{
    return self->mysql->status != MYSQL_STATUS_READY || mysql_more_results(self->mysql);
}

static hf_status use_database(struct hf__my *self, struct hf__deadline deadline, hf_error *err)
{
    struct hf__my_step step = {.call = &hf__my_call_use, .text = self->url->name};
    return self->url->name == NULL ? HF_OK : hf__my_step(self, &step, deadline, err);
}

/* The server drops the prepared statements with the rest of the session, but keeps the database that was chosen last. */
static hf_status reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__my *self = hf__my_of(conn);
    if (conn->borrowed || conn->pooler) {
        return hf__fail(err, HF_MISUSE, "a session that is borrowed, or reached through a pooler, is not reset");
    }
    if (has_unread(self)) {
        conn->lost = true;
        return hf__fail(err, HF_LOST, "the connection came back with a result that was not read to its end, and is closed");
    }
    struct hf__my_step step = {.call = &hf__my_call_reset};
    hf_status status = hf__my_step(self, &step, deadline, err);
    self->rolled_back = false;
    hf__my_forget_plans(self);
    if (status == HF_OK) {
        status = set_up(self, deadline, err);
    }
    if (status == HF_OK) {
        status = use_database(self, deadline, err);
    }
    conn->retire = conn->retire || status != HF_OK;
    return status;
}

static void *native(struct hf__conn *conn)
{
    return hf__my_of(conn)->mysql;
}

/* ---- threads ---- */

static void thread_begin(void)
{
    (void)mysql_thread_init(); /* libmariadb keeps nothing for a thread: it cannot fail */
}

static void thread_end(void)
{
    mysql_thread_end();
}

const struct hf__driver hf__mysql_driver = {
    .size = sizeof(struct hf__driver),
    .database = HF__MYSQL,
    .name = "MySQL",
    .capabilities = HF__DRIVER_NOTICES_CLOSE,
    .connect = connect_to,
    .borrow = borrow,
    .close = close_conn,
    .run = hf__my_run,
    .exec = exec,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .transaction = hf__my_transaction,
    .alive = alive,
    .ping = ping,
    .reset = reset,
    .describe = hf__my_describe,
    .native = native,
    .thread_begin = thread_begin,
    .thread_end = thread_end,
};
