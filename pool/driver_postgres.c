/* PostgreSQL through libpq: setting a session up and back, transactions, and the table of methods. */
#include "driver_postgres.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern const struct hf__driver hf__postgres_driver;

/* ---- the session ---- */

/* What a text looks like, how long a dead client's locks live and how long a held session may be idle: none of it may depend on
 * how the server or the role is configured. */
static const struct {
    int since;     /* as PQserverVersion counts */
    bool optional; /* some platforms refuse it */
    const char *setting;
} session_settings[] = {
    {0, false, "TimeZone = 'UTC'"},
    {0, false, "DateStyle = 'ISO'"},
    {0, false, "IntervalStyle = 'postgres'"},
    {0, false, "bytea_output = 'hex'"},
    {0, false, "extra_float_digits = 3"},
    {0, false, "standard_conforming_strings = on"},
    {0, false, "default_transaction_isolation = 'read committed'"},
    {0, false, "tcp_keepalives_idle = 30"},
    {0, false, "tcp_keepalives_interval = 10"},
    {0, false, "tcp_keepalives_count = 3"},
    {90600, false, "idle_in_transaction_session_timeout = 0"},
    {120000, true, "tcp_user_timeout = 30000"},
    {140000, false, "idle_session_timeout = 0"},
    {140000, true, "client_connection_check_interval = 1000"},
    {170000, false, "transaction_timeout = 0"},
};

/* One text of several statements: one round trip, and all of it or nothing. malloc'd; NULL when memory is out. */
static char *session_sql(int version, bool optional)
{
    char *sql = NULL;
    size_t size;
    FILE *out = open_memstream(&sql, &size);
    if (out == NULL) {
        return NULL;
    }
    bool ok = true;
    for (size_t i = 0; i < sizeof session_settings / sizeof session_settings[0]; i++) {
        if (version >= session_settings[i].since && (optional || !session_settings[i].optional)) {
            ok = fprintf(out, "SET %s;", session_settings[i].setting) > 0 && ok;
        }
    }
    if (fclose(out) != 0 || !ok) {
        free(sql);
        return NULL;
    }
    return sql;
}

static hf_status send_settings(struct hf__pg *self, bool optional, struct hf__deadline deadline, hf_error *err)
{
    char *sql = session_sql(PQserverVersion(self->pg), optional);
    if (sql == NULL) {
        return hf__fail_memory(err);
    }
    hf_status status = hf__pg_simple(self, sql, deadline, NULL, err);
    free(sql);
    return status;
}

static hf_status set_up_session(struct hf__pg *self, struct hf__deadline deadline, hf_error *err)
{
    if (self->base.pooler) {
        return HF_OK;
    }
    hf_status status = send_settings(self, true, deadline, err);
    if (status == HF_DATABASE) {
        status = send_settings(self, false, deadline, err);
    }
    return status != HF_OK ? hf__fail_context(err, "setting up the session") : HF_OK;
}

/* major * 10000 + minor * 100 + patch: 15.18 is 151800 and 9.5.3 is 90503, while libpq says 150018 and 90503. */
static void read_version(struct hf__pg *self)
{
    struct hf__server *server = &self->base.server;
    int version = PQserverVersion(self->pg);
    server->database = HF__POSTGRES;
    if (version >= 100000) {
        server->version = version / 10000 * 10000 + version % 10000 * 100;
        (void)snprintf(server->text, sizeof server->text, "PostgreSQL %d.%d", version / 10000, version % 10000);
    } else {
        server->version = version;
        (void)snprintf(server->text, sizeof server->text, "PostgreSQL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    }
}

static struct hf__pg *new_pg(void)
{
    struct hf__pg *self = calloc(1, sizeof *self);
    if (self != NULL) {
        self->base.driver = &hf__postgres_driver;
        self->base.owner = getpid();
    }
    return self;
}

/* The child of a fork puts an unconnected socket in the place of its copy, so that libpq's farewell reaches nobody. */
static bool disarm(PGconn *pg)
{
    int fd = PQsocket(pg);
    if (fd < 0) {
        return true;
    }
    int dummy = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (dummy < 0) {
        (void)close(fd);
        return false;
    }
    bool done = dup3(dummy, fd, O_CLOEXEC) == fd;
    (void)close(dummy);
    return done;
}

static void finish(struct hf__pg *self)
{
    if (self->pg == NULL || self->base.borrowed) {
        return;
    }
    if (self->base.owner != getpid() && !disarm(self->pg)) {
        return; /* the child keeps the memory: better than speaking on its parent's session */
    }
    (void)PQsetnonblocking(self->pg, 1); /* then the farewell does not wait for a peer that reads nothing */
    PQfinish(self->pg);
}

static void pg_close(struct hf__conn *conn)
{
    struct hf__pg *self = hf__pg_of(conn);
    finish(self);
    hf__pg_forget_plans(self);
    free(self->plans);
    free(self->discarded);
    free(self);
}

static hf_status open_session(struct hf__pg *self, const struct hf__url *url, const struct hf__session_options *options,
                              struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__pg_log_in(self, url, options, deadline, err);
    if (status != HF_OK) {
        return status;
    }
    read_version(self);
    status = hf__pg_enter(self, deadline, err);
    if (status == HF_OK) {
        status = set_up_session(self, deadline, err);
        hf__pg_leave(self);
    }
    return status == HF_OK ? HF_OK : hf__fail_context(err, "%s", url->safe);
}

static hf_status pg_connect(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                            struct hf__conn **out, hf_error *err)
{
    hf_error own = {.status = HF_OK};
    err = err != NULL ? err : &own; /* hf__fail_context needs one */
    *out = NULL;
    struct hf__pg *self = new_pg();
    if (self == NULL) {
        return hf__fail_memory(err);
    }
    self->base.pooler = url->pooler;
    hf_status status = open_session(self, url, options, deadline, err);
    if (status != HF_OK) {
        pg_close(&self->base);
        return status;
    }
    *out = &self->base;
    return HF_OK;
}

static hf_status check_borrowed(PGconn *pg, hf_error *err)
{
    if (pg == NULL) {
        return hf__fail(err, HF_INVALID, "the PGconn is NULL");
    }
    if (PQstatus(pg) != CONNECTION_OK) {
        return hf__fail(err, HF_LOST, "the PGconn has no connection to a server");
    }
    const char *encoding = PQparameterStatus(pg, "client_encoding");
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        return hf__fail(err, HF_INVALID,
                        "the PGconn's client_encoding is %s and holdfast speaks UTF-8; call PQsetClientEncoding(conn, \"UTF8\")",
                        encoding != NULL ? encoding : "unknown");
    }
    return HF_OK;
}

static hf_status pg_borrow(void *native, struct hf__conn **out, hf_error *err)
{
    *out = NULL;
    hf_status status = check_borrowed(native, err);
    if (status != HF_OK) {
        return status;
    }
    struct hf__pg *self = new_pg();
    if (self == NULL) {
        return hf__fail_memory(err);
    }
    self->pg = native;
    self->base.borrowed = true;
    read_version(self);
    *out = &self->base;
    return HF_OK;
}

static void *pg_native(struct hf__conn *conn)
{
    return hf__pg_of(conn)->pg;
}

/* ---- transactions ---- */

/* The level is always named: behind a pooler the session's default is not ours. */
static const char *begin_sql(enum hf__isolation isolation)
{
    switch (isolation) {
    case HF__REPEATABLE_READ:
        return "BEGIN ISOLATION LEVEL REPEATABLE READ";
    case HF__SERIALIZABLE:
        return "BEGIN ISOLATION LEVEL SERIALIZABLE";
    case HF__ISOLATION_DEFAULT:
    case HF__READ_COMMITTED:
        break;
    }
    return "BEGIN ISOLATION LEVEL READ COMMITTED";
}

static hf_status pg_begin(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode, struct hf__deadline deadline,
                          hf_error *err)
{
    (void)mode;
    struct hf__pg *self = hf__pg_of(conn);
    hf_status status = hf__pg_enter(self, deadline, err);
    if (status != HF_OK) {
        return status;
    }
    status = hf__pg_sweep(self, deadline, err);
    if (status == HF_OK) {
        status = hf__pg_simple(self, begin_sql(isolation), deadline, NULL, err);
    }
    hf__pg_leave(self);
    return status;
}

static hf_status pg_commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__pg *self = hf__pg_of(conn);
    PGresult *result = NULL;
    hf_status status = hf__pg_enter(self, deadline, err);
    if (status != HF_OK) {
        return status;
    }
    status = hf__pg_simple(self, "COMMIT", deadline, &result, err);
    hf__pg_leave(self);
    if (status == HF_OK && strcmp(PQcmdStatus(result), "ROLLBACK") == 0) {
        status =
            hf__fail(err, HF_DATABASE, "the server rolled the transaction back instead of committing it: an earlier statement had failed");
    }
    PQclear(result);
    return status;
}

static hf_status pg_rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    if (PQtransactionStatus(hf__pg_of(conn)->pg) == PQTRANS_IDLE) {
        return HF_OK;
    }
    return hf__pg_exec(conn, "ROLLBACK", deadline, err);
}

static enum hf__transaction pg_transaction(struct hf__conn *conn)
{
    switch (PQtransactionStatus(hf__pg_of(conn)->pg)) {
    case PQTRANS_IDLE:
        return HF__TX_NONE;
    case PQTRANS_INTRANS:
        return HF__TX_OPEN;
    case PQTRANS_INERROR:
        return HF__TX_FAILED;
    case PQTRANS_ACTIVE:
    case PQTRANS_UNKNOWN:
        break;
    }
    return HF__TX_UNKNOWN;
}

/* ---- health ---- */

#define READS_AT_ONCE 4 /* last words and the end of the stream may lie behind a few notifications */

static bool pg_alive(struct hf__conn *conn)
{
    struct hf__pg *self = hf__pg_of(conn);
    for (int i = 0; i < READS_AT_ONCE && !conn->lost; i++) {
        int readable = hf__pg_wait_socket(self->pg, POLLIN, hf__after_ms(0));
        if (readable == 0) {
            break;
        }
        conn->lost = readable < 0 || PQconsumeInput(self->pg) == 0;
        (void)PQisBusy(self->pg); /* hands what has been read to hf__pg_notice */
        conn->lost = conn->lost || self->ended || PQstatus(self->pg) != CONNECTION_OK;
    }
    return !conn->lost;
}

static hf_status pg_ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    return hf__pg_exec(conn, "", deadline, err);
}

/* What a user of the native handle may have set on the client's side. */
static hf_status restore_handle(struct hf__pg *self, hf_error *err)
{
    (void)PQsetNoticeReceiver(self->pg, hf__pg_notice, self);
    (void)PQsetErrorVerbosity(self->pg, PQERRORS_DEFAULT);
    PQuntrace(self->pg);
    bool idle = PQexitPipelineMode(self->pg) != 0 && PQtransactionStatus(self->pg) != PQTRANS_ACTIVE;
    if (!idle || PQsetnonblocking(self->pg, 0) != 0) {
        self->base.lost = true;
        return hf__fail(err, HF_LOST, "the PGconn was left with a statement in progress; its connection is given up");
    }
    return HF_OK;
}

static hf_status reset_session(struct hf__pg *self, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    if (PQtransactionStatus(self->pg) != PQTRANS_IDLE) {
        status = hf__pg_simple(self, "ROLLBACK", deadline, NULL, err);
    }
    if (status != HF_OK || self->base.pooler) {
        return status;
    }
    status = hf__pg_simple(self, "DISCARD ALL", deadline, NULL, err);
    if (status != HF_OK) {
        return status;
    }
    hf__pg_forget_plans(self);
    return set_up_session(self, deadline, err);
}

static hf_status pg_reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__pg *self = hf__pg_of(conn);
    hf_error own = {.status = HF_OK};
    err = err != NULL ? err : &own;
    if (conn->borrowed) {
        return hf__fail(err, HF_MISUSE, "this PGconn belongs to the caller; its session is not holdfast's to reset");
    }
    hf_status status = restore_handle(self, err);
    if (status == HF_OK) {
        status = hf__pg_enter(self, deadline, err);
    }
    if (status == HF_OK) {
        status = reset_session(self, deadline, err);
        hf__pg_leave(self);
    }
    return status;
}

const struct hf__driver hf__postgres_driver = {
    .size = sizeof(struct hf__driver),
    .database = HF__POSTGRES,
    .name = "PostgreSQL",
    .capabilities = HF__DRIVER_NOTICES_CLOSE,
    .connect = pg_connect,
    .borrow = pg_borrow,
    .close = pg_close,
    .run = hf__pg_run,
    .exec = hf__pg_exec,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .transaction = pg_transaction,
    .alive = pg_alive,
    .ping = pg_ping,
    .reset = pg_reset,
    .describe = hf__pg_describe,
    .native = pg_native,
};
