/* Calls with a deadline, stopping a statement on the server, and the classes of errors. */
#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "driver_mysql.h"

#define STOP_MS 2000    /* to log in beside a statement that ran out of time, and stop it */
#define REFRESH_MS 1000 /* to ask whether an error ended the transaction */
#define CLOSE_MS 100    /* to say goodbye when the socket's buffer is full */

/* ---- the calls ---- */

/* One call of libmariadb: its two non-blocking parts, its blocking form, and what it returns when it fails. */
#define CALL(name, function, member, failure, object, ...)      \
    static int name##_start(struct hf__my_step *step)           \
    {                                                           \
        return function##_start(&step->member, __VA_ARGS__);    \
    }                                                           \
    static int name##_cont(struct hf__my_step *step, int ready) \
    {                                                           \
        return function##_cont(&step->member, object, ready);   \
    }                                                           \
    static void name##_block(struct hf__my_step *step)          \
    {                                                           \
        step->member = function(__VA_ARGS__);                   \
    }                                                           \
    static bool name##_failed(const struct hf__my_step *step)   \
    {                                                           \
        return failure;                                         \
    }                                                           \
    const struct hf__my_call hf__my_call_##name = {name##_start, name##_cont, name##_block, name##_failed}

CALL(query, mysql_real_query, code, step->code != 0, step->mysql, step->mysql, step->text, step->len);
CALL(store, mysql_store_result, result, step->result == NULL && mysql_errno(step->mysql) != 0, step->mysql, step->mysql);
CALL(next, mysql_next_result, code, step->code > 0, step->mysql, step->mysql); /* -1: there is no further result */
CALL(ping, mysql_ping, code, step->code != 0, step->mysql, step->mysql);
CALL(reset, mysql_reset_connection, code, step->code != 0, step->mysql, step->mysql);
CALL(use, mysql_select_db, code, step->code != 0, step->mysql, step->mysql, step->text);
CALL(prepare, mysql_stmt_prepare, code, step->code != 0, step->stmt, step->stmt, step->text, step->len);
CALL(execute, mysql_stmt_execute, code, step->code != 0, step->stmt, step->stmt);
CALL(stmt_store, mysql_stmt_store_result, code, step->code != 0, step->stmt, step->stmt);
CALL(stmt_next, mysql_stmt_next_result, code, step->code > 0, step->stmt, step->stmt);
CALL(stmt_close, mysql_stmt_close, flag, step->flag != 0, step->stmt, step->stmt);

static int quit_start(struct hf__my_step *step)
{
    return mysql_close_start(step->mysql);
}

static int quit_cont(struct hf__my_step *step, int ready)
{
    return mysql_close_cont(step->mysql, ready);
}

static const struct hf__my_call call_quit = {.start = quit_start, .cont = quit_cont};

/* ---- waiting ---- */

/* OpenSSL writes without MSG_NOSIGNAL. The signal of a write to a dead socket must not reach the program. */
struct sigpipe {
    bool was_pending;
    sigset_t old;
};

static void hold_sigpipe(struct sigpipe *held)
{
    sigset_t set;
    (void)sigemptyset(&set);
    held->was_pending = sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 1;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &set, &held->old);
}

static void drop_sigpipe(const struct sigpipe *held)
{
    sigset_t set;
    const struct timespec at_once = {0, 0};
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    if (!held->was_pending) {
        while (sigtimedwait(&set, NULL, &at_once) == -1 && errno == EINTR) {
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &held->old, NULL);
}

static const struct {
    int wait;
    short poll;
} events[] = {{MYSQL_WAIT_READ, POLLIN}, {MYSQL_WAIT_WRITE, POLLOUT}, {MYSQL_WAIT_EXCEPT, POLLPRI}};

#define N_EVENTS (sizeof events / sizeof events[0])

static short poll_events(int wanted)
{
    int result = 0;
    for (size_t i = 0; i < N_EVENTS; i++) {
        result |= (wanted & events[i].wait) != 0 ? events[i].poll : 0;
    }
    return (short)result;
}

/* Of an error or a hang-up the call itself finds out: it is told that all it waits for has come. */
static int wait_events(int wanted, short came)
{
    int waited = 0;
    int ready = 0;
    for (size_t i = 0; i < N_EVENTS; i++) {
        waited |= wanted & events[i].wait;
        ready |= (came & events[i].poll) != 0 ? wanted & events[i].wait : 0;
    }
    return ready != 0 ? ready : waited;
}

/* The events that came, or 0 when the deadline passed first. libmariadb's own time limit is not looked at. */
static int wait_ready(MYSQL *mysql, int wanted, struct hf__deadline deadline)
{
    struct pollfd socket = {.fd = mysql_get_socket(mysql), .events = poll_events(wanted)};
    int n;
    do {
        n = poll(&socket, 1, hf__left_poll_ms(deadline));
    } while ((n < 0 && errno == EINTR) || (n == 0 && !hf__passed(deadline)));
    return n == 0 ? 0 : wait_events(wanted, socket.revents);
}

static void shut_down(MYSQL *mysql)
{
    int fd = mysql_get_socket(mysql);
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR); /* it may be gone already */
    }
}

/* The last part of the call may free the step's MYSQL. */
static bool drive_call(struct hf__my_step *step, struct hf__deadline deadline)
{
    bool in_time = true;
    int wanted = step->call->start(step);
    while (wanted != 0) {
        int ready = in_time ? wait_ready(step->mysql, wanted, deadline) : 0;
        if (ready == 0) {
            in_time = false;
            shut_down(step->mysql);
            ready = wanted | MYSQL_WAIT_TIMEOUT;
        }
        wanted = step->call->cont(step, ready);
    }
    return in_time;
}

/* After the handshake, and after a user's blocking call, a TLS socket blocks: SSL_read would wait without a limit. */
static void unblock(MYSQL *mysql)
{
    int fd = mysql_get_socket(mysql);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags != -1 && (flags & O_NONBLOCK) == 0) {
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* a valid descriptor takes it */
    }
}

bool hf__my_drive(struct hf__my *self, struct hf__my_step *step, struct hf__deadline deadline)
{
    step->mysql = self->mysql;
    if (self->base.borrowed && step->call->block != NULL) {
        step->call->block(step);
        return true;
    }
    if (!self->tls) {
        return drive_call(step, deadline);
    }
    struct sigpipe held;
    hold_sigpipe(&held);
    unblock(self->mysql);
    bool in_time = drive_call(step, deadline);
    drop_sigpipe(&held);
    return in_time;
}

/* ---- stopping a statement ---- */

/* Several servers may stand behind one name, and each counts its sessions from one. */
static bool is_same_instance(struct hf__my *beside, const char *instance, struct hf__deadline deadline)
{
    MYSQL_RES *result = NULL;
    if (hf__my_text(beside, HF__MY_INSTANCE, deadline, &result, NULL) != HF_OK || result == NULL) {
        return false;
    }
    MYSQL_ROW row = mysql_fetch_row(result);
    bool same = row != NULL && row[0] != NULL && strcmp(row[0], instance) == 0;
    mysql_free_result(result);
    return same;
}

static bool kill_session(const struct hf__my *self)
{
    if (self->instance == NULL || self->url == NULL) {
        return false;
    }
    char kill[64];
    struct hf__deadline deadline = hf__after_ms(STOP_MS);
    struct hf__my beside = {.base = {.driver = self->base.driver, .owner = self->base.owner}, .url = self->url};
    (void)snprintf(kill, sizeof kill, "KILL %lu", self->id);
    bool killed = hf__my_login(&beside, NULL, deadline, NULL) == HF_OK && is_same_instance(&beside, self->instance, deadline) &&
                  hf__my_text(&beside, kill, deadline, NULL, NULL) == HF_OK;
    hf__my_hang_up(&beside);
    return killed;
}

static hf_status out_of_time(struct hf__my *self, bool sent, hf_error *err)
{
    self->base.lost = true;
    if (!sent) {
        shut_down(self->mysql);
        return hf__fail(err, HF_TIMEOUT, "the time limit had passed before the statement was sent; its connection is closed");
    }
    if (kill_session(self)) {
        return hf__fail(err, HF_TIMEOUT, "the time limit passed before the server answered; session %lu was killed", self->id);
    }
    return hf__fail(err, HF_TIMEOUT,
                    "the time limit passed before the server answered; the connection is closed, but the server "
                    "could not be told to stop session %lu",
                    self->id);
}

/* ---- classes of errors ---- */

/* From MySQL, MariaDB does not define them. */
#define MYSQL_SERVER_OFFLINE 3032
#define MYSQL_QUERY_TIMEOUT 3024
#define MYSQL_GROUP_HOOK 3100
#define MYSQL_GROUP_ROLLBACK 3101
#define MYSQL_LOCK_NOWAIT 3572
#define MYSQL_INTERACTION_TIMEOUT 4031

static const struct hf__my_class classes[] = {
    {ER_LOCK_DEADLOCK, HF_TRANSIENT, false, true},
    {ER_LOCK_WAIT_TIMEOUT, HF_TRANSIENT, false, false},
    {MYSQL_LOCK_NOWAIT, HF_TRANSIENT, false, false},
    {ER_CHECKREAD, HF_TRANSIENT, false, true}, /* MariaDB with innodb_snapshot_isolation */
    {ER_LOCK_TABLE_FULL, HF_TRANSIENT, false, true},
    {ER_LOCK_ABORTED, HF_TRANSIENT, false, false},
    {ER_TOO_MANY_CONCURRENT_TRXS, HF_TRANSIENT, false, false},
    {ER_TABLE_DEF_CHANGED, HF_TRANSIENT, false, false},
    {ER_NEED_REPREPARE, HF_TRANSIENT, false, false},
    {ER_QUERY_INTERRUPTED, HF_TRANSIENT, false, false},
    {ER_STATEMENT_TIMEOUT, HF_TRANSIENT, false, false},
    {MYSQL_QUERY_TIMEOUT, HF_TRANSIENT, false, false},
    {MYSQL_GROUP_ROLLBACK, HF_TRANSIENT, false, true},
    {ER_CON_COUNT_ERROR, HF_TRANSIENT, false, false},
    {ER_TOO_MANY_USER_CONNECTIONS, HF_TRANSIENT, false, false},
    {ER_USER_LIMIT_REACHED, HF_TRANSIENT, false, false},
    {ER_SERVER_SHUTDOWN, HF_TRANSIENT, true, false},
    {ER_NORMAL_SHUTDOWN, HF_TRANSIENT, true, false},
    {ER_SHUTDOWN_COMPLETE, HF_TRANSIENT, true, false},
    {MYSQL_SERVER_OFFLINE, HF_TRANSIENT, true, false},
    {ER_UNKNOWN_COM_ERROR, HF_TRANSIENT, true, false},         /* Galera: a node that is not ready */
    {ER_OPTION_PREVENTS_STATEMENT, HF_TRANSIENT, true, false}, /* read_only, super_read_only */
    {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, HF_TRANSIENT, true, false},
    {ER_READ_ONLY_MODE, HF_TRANSIENT, true, false},
    {MYSQL_GROUP_HOOK, HF_TRANSIENT, true, false},
    {ER_CONNECTION_KILLED, HF_LOST, false, false},
    {ER_NEW_ABORTING_CONNECTION, HF_LOST, false, false},
    {ER_DBACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {ER_ACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {ER_TABLEACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {ER_COLUMNACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {ER_PROCACCESS_DENIED_ERROR, HF_DENIED, false, false},
    {CR_NEW_STMT_METADATA, HF_TRANSIENT, false, false},
    {CR_OUT_OF_MEMORY, HF_NO_MEMORY, true, false},
    {CR_NET_PACKET_TOO_LARGE, HF_DATABASE, true, false},
    {ER_NET_PACKET_TOO_LARGE, HF_DATABASE, true, false},
    {CR_UNSUPPORTED_PARAM_TYPE, HF_DATABASE, false, false},
};

/* libmariadb's own numbers. Nearly all of them say that the protocol was left at an unknown place. */
static bool is_client_error(unsigned number)
{
    return (number >= CR_MIN_ERROR && number < 3000) || (number >= 5000 && number < 6000);
}

struct hf__my_class hf__my_class(unsigned number, bool mariadb)
{
    if (number == MYSQL_INTERACTION_TIMEOUT && !mariadb) {
        return (struct hf__my_class){.number = number, .status = HF_LOST};
    }
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i].number == number) {
            return classes[i];
        }
    }
    return (struct hf__my_class){.number = number, .status = is_client_error(number) ? HF_LOST : HF_DATABASE};
}

static const char *advice(unsigned number)
{
    switch (number) {
    case ER_NET_PACKET_TOO_LARGE:
    case CR_NET_PACKET_TOO_LARGE:
        return "; raise max_allowed_packet on the server, or store less in one row";
    case ER_MAX_PREPARED_STMT_COUNT_REACHED:
        return "; raise max_prepared_stmt_count on the server, or open fewer connections";
    default:
        return "";
    }
}

/* The servers roll the whole transaction back for some errors and go on as if the next statement began another: they still call
 * it open, so it is remembered here. innodb_rollback_on_timeout makes a lock timeout such an error. */
static bool is_rolled_back(struct hf__my *self, const struct hf__my_class *class)
{
    if (class->number != ER_LOCK_WAIT_TIMEOUT) {
        return class->rolled_back;
    }
    MYSQL_RES *result = NULL;
    (void)hf__my_text(self, "SELECT @@innodb_rollback_on_timeout", hf__after_ms(REFRESH_MS), &result, NULL);
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    bool kept = row != NULL && row[0] != NULL && strcmp(row[0], "0") == 0;
    mysql_free_result(result);
    return !kept;
}

/* An error's packet does not say whether the transaction is still open: the server is asked. */
static void refresh_transaction(struct hf__my *self, const struct hf__my_class *class)
{
    if (hf__my_transaction(&self->base) != HF__TX_OPEN || self->mysql->status != MYSQL_STATUS_READY) {
        return;
    }
    struct hf__my_step step = {.call = &hf__my_call_ping};
    self->rolled_back = is_rolled_back(self, class);
    if (!self->base.lost && (!hf__my_drive(self, &step, hf__after_ms(REFRESH_MS)) || step.code != 0)) {
        self->base.lost = true;
    }
}

static hf_status failed(struct hf__my *self, MYSQL_STMT *stmt, hf_error *err)
{
    bool of_stmt = stmt != NULL && mysql_stmt_errno(stmt) != 0;
    unsigned number = of_stmt ? mysql_stmt_errno(stmt) : mysql_errno(self->mysql);
    struct hf__my_class class = hf__my_class(number, self->base.server.mariadb);
    const char *sqlstate = of_stmt ? mysql_stmt_sqlstate(stmt) : mysql_sqlstate(self->mysql);
    const char *text = of_stmt ? mysql_stmt_error(stmt) : mysql_error(self->mysql);
    (void)hf__fail_native(err, class.status, (int)number, sqlstate, "%s (error %u)%s", text, number, advice(number));
    self->base.retire = self->base.retire || class.retire;
    if (class.status == HF_LOST || mysql_get_socket(self->mysql) < 0) {
        self->base.lost = true;
    } else {
        refresh_transaction(self, &class);
    }
    return class.status;
}

hf_status hf__my_step(struct hf__my *self, struct hf__my_step *step, struct hf__deadline deadline, hf_error *err)
{
    if (hf__passed(deadline)) {
        return out_of_time(self, false, err);
    }
    if (!hf__my_drive(self, step, deadline)) {
        return out_of_time(self, true, err);
    }
    return step->call->failed(step) ? failed(self, step->stmt, err) : HF_OK;
}

hf_status hf__my_check_packet(const struct hf__my *self, uint64_t bytes, hf_error *err)
{
    if (self->max_packet == 0 || bytes < self->max_packet) {
        return HF_OK;
    }
    return hf__fail_native(err, HF_DATABASE, ER_NET_PACKET_TOO_LARGE, "08S01",
                           "the statement and its values are %llu bytes, and the server's max_allowed_packet is %llu; raise it on the "
                           "server, or store less in one row",
                           (unsigned long long)bytes, (unsigned long long)self->max_packet);
}

/* ---- text, and closing ---- */

static hf_status take_result(struct hf__my *self, struct hf__deadline deadline, MYSQL_RES **out, hf_error *err)
{
    struct hf__my_step store = {.call = &hf__my_call_store};
    hf_status status = hf__my_step(self, &store, deadline, err);
    if (status == HF_OK && out != NULL && *out == NULL) {
        *out = store.result;
    } else {
        mysql_free_result(store.result);
    }
    return status;
}

hf_status hf__my_text(struct hf__my *self, const char *sql, struct hf__deadline deadline, MYSQL_RES **out, hf_error *err)
{
    struct hf__my_step query = {.call = &hf__my_call_query, .text = sql, .len = strlen(sql)};
    hf_status status = hf__my_check_packet(self, query.len + 1, err);
    if (status == HF_OK) {
        status = hf__my_step(self, &query, deadline, err);
    }
    if (status == HF_OK) {
        status = take_result(self, deadline, out, err);
    }
    while (status == HF_OK && mysql_more_results(self->mysql)) {
        struct hf__my_step next = {.call = &hf__my_call_next};
        status = hf__my_step(self, &next, deadline, err);
        if (status == HF_OK) {
            status = take_result(self, deadline, out, err);
        }
    }
    if (status != HF_OK && out != NULL) {
        mysql_free_result(*out);
        *out = NULL;
    }
    return status;
}

void hf__my_close_stmt(struct hf__my *self, MYSQL_STMT *stmt)
{
    struct hf__my_step step = {.call = &hf__my_call_stmt_close, .stmt = stmt};
    if (stmt->mysql == NULL) { /* its session was closed or reset */
        (void)mysql_stmt_close(stmt);
    } else if (!hf__my_drive(self, &step, hf__after_ms(CLOSE_MS))) {
        self->base.lost = true;
    }
}

void hf__my_hang_up(struct hf__my *self)
{
    if (self->mysql != NULL) {
        struct hf__my_step step = {.call = &call_quit};
        (void)hf__my_drive(self, &step, hf__after_ms(CLOSE_MS));
        self->mysql = NULL;
    }
}
