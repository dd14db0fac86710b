/* Sending and reading with a deadline. libpq is in non-blocking mode between enter and leave, so the only place where a thread
 * sleeps is poll(2); outside the handle is as a user of it expects it. A deadline that passes costs the connection: whatever
 * the server still has to say would otherwise be read by the next user. */
#include "driver_postgres.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_GRACE_MS 1000
#define ENCRYPTED_LOOK_MS 100

static const struct {
    const char *sqlstate; /* all of it, or the beginning */
    hf_status status;
} classes[] = {
    {"08", HF_LOST},         /* connection exception */
    {"25006", HF_TRANSIENT}, /* read only: a failover is going on */
    {"25P03", HF_LOST},      /* idle in transaction */
    {"25P04", HF_LOST},      /* transaction_timeout */
    {"28", HF_DENIED},       /* no such role, wrong password */
    {"40", HF_TRANSIENT},    /* serialization, deadlock */
    {"42501", HF_DENIED},    /* insufficient privilege */
    {"53", HF_TRANSIENT},    /* too many connections, out of memory, disk full */
    {"55P03", HF_TRANSIENT}, /* lock not available */
    {"57014", HF_TRANSIENT}, /* cancelled by someone else, or by statement_timeout */
    {"57P", HF_LOST},        /* shutting down, crash, starting up, database dropped, idle session */
};

hf_status hf__pg_class(const char *sqlstate)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strncmp(sqlstate, classes[i].sqlstate, strlen(classes[i].sqlstate)) == 0) {
            return classes[i].status;
        }
    }
    return HF_DATABASE;
}

static bool is_fatal(const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED); /* 9.6 and later */
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0)) ||
           (sqlstate != NULL && hf__pg_class(sqlstate) == HF_LOST);
}

/* Between statements the server's last words arrive as a notice. */
void hf__pg_notice(void *self, const PGresult *notice)
{
    if (is_fatal(notice)) {
        ((struct hf__pg *)self)->ended = true;
    }
}

void hf__pg_one_line(const char *text, char out[HF__PG_LINE])
{
    size_t n = 0;
    while (*text != '\0' && n + 3 < HF__PG_LINE) {
        if (*text == '\n') {
            text += strspn(text, "\n\t ");
            if (*text != '\0') {
                out[n++] = ';';
                out[n++] = ' ';
            }
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = '\0';
}

static hf_status lost(struct hf__pg *self, hf_error *err)
{
    char text[HF__PG_LINE];
    hf__pg_one_line(PQerrorMessage(self->pg), text);
    self->base.lost = true;
    return hf__fail(err, HF_LOST, "the connection to PostgreSQL is gone%s%s", text[0] != '\0' ? ": " : "", text);
}

hf_status hf__pg_unsent(struct hf__pg *self, hf_error *err)
{
    if (PQstatus(self->pg) != CONNECTION_OK) {
        return lost(self, err);
    }
    char text[HF__PG_LINE];
    hf__pg_one_line(PQerrorMessage(self->pg), text);
    self->base.retire = true;
    return hf__fail(err, HF_DATABASE, "the statement could not be sent to PostgreSQL: %s", text);
}

hf_status hf__pg_result_error(struct hf__pg *self, const PGresult *result, hf_error *err)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    char text[HF__PG_LINE];
    hf__pg_one_line(primary != NULL ? primary : PQresultErrorMessage(result), text);
    hf_status status = sqlstate != NULL ? hf__pg_class(sqlstate) : HF_DATABASE;
    if (is_fatal(result) || PQstatus(self->pg) != CONNECTION_OK) {
        status = HF_LOST;
    }
    self->base.lost = self->base.lost || status == HF_LOST;
    self->base.retire = self->base.retire || (sqlstate != NULL && strcmp(sqlstate, "25006") == 0);
    return hf__fail_native(err, status, 0, sqlstate, "%s%s%s%s%s", text, detail != NULL ? "; " : "", detail != NULL ? detail : "",
                           hint != NULL ? "; hint: " : "", hint != NULL ? hint : "");
}

/* A request to stop the statement goes over a connection of its own, and libpq knows no time limit for it: a helper thread
 * makes it, and goes on alone if the server does not answer within the grace. */
struct cancel {
    pthread_mutex_t mutex; /* guards done and abandoned */
    pthread_cond_t changed;
    bool done, abandoned;
    PGcancel *request;
};

static void cancel_free(struct cancel *cancel)
{
    (void)pthread_cond_destroy(&cancel->changed);
    (void)pthread_mutex_destroy(&cancel->mutex);
    PQfreeCancel(cancel->request);
    free(cancel);
}

static void *cancel_thread(void *arg)
{
    struct cancel *cancel = arg;
    char reason[256];
    (void)PQcancel(cancel->request, reason, sizeof reason); /* a failure leaves the server to notice that we hang up */
    (void)pthread_mutex_lock(&cancel->mutex);
    bool abandoned = cancel->abandoned;
    cancel->done = true;
    (void)pthread_cond_signal(&cancel->changed);
    (void)pthread_mutex_unlock(&cancel->mutex);
    if (abandoned) {
        cancel_free(cancel);
    }
    return NULL;
}

/* The host program's signals are not ours to take; SIGPIPE from libpq's socket stays in the thread. */
static bool start_quiet_thread(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attr) != 0) {
        return false;
    }
    (void)sigfillset(&all);
    bool started = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 && pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    if (started) {
        started = pthread_create(&thread, &attr, run, arg) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attr);
    return started;
}

static struct cancel *cancel_new(PGconn *pg)
{
    struct cancel *cancel = calloc(1, sizeof *cancel);
    if (cancel == NULL) {
        return NULL;
    }
    if (hf__cond_init(&cancel->changed) != 0) {
        free(cancel);
        return NULL;
    }
    if (pthread_mutex_init(&cancel->mutex, NULL) != 0) {
        (void)pthread_cond_destroy(&cancel->changed);
        free(cancel);
        return NULL;
    }
    cancel->request = PQgetCancel(pg);
    return cancel;
}

static void stop_statement(PGconn *pg)
{
    struct cancel *cancel = cancel_new(pg);
    if (cancel == NULL) {
        return;
    }
    if (cancel->request == NULL || !start_quiet_thread(cancel_thread, cancel)) {
        cancel_free(cancel);
        return;
    }
    struct hf__deadline grace = hf__after_ms(CANCEL_GRACE_MS);
    (void)pthread_mutex_lock(&cancel->mutex);
    while (!cancel->done && hf__cond_wait(&cancel->changed, &cancel->mutex, grace)) {
    }
    cancel->abandoned = !cancel->done;
    bool done = cancel->done;
    (void)pthread_mutex_unlock(&cancel->mutex);
    if (done) {
        cancel_free(cancel);
    }
}

int hf__pg_wait_socket(PGconn *pg, short events, struct hf__deadline deadline)
{
    struct pollfd fd = {.fd = PQsocket(pg), .events = events};
    if (fd.fd < 0) {
        return -1;
    }
    int ready;
    do {
        ready = poll(&fd, 1, hf__left_poll_ms(deadline));
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && !hf__passed(deadline)));
    return ready;
}

enum progress { READY, EXPIRED, BROKEN };

/* Decrypted bytes may lie inside libpq where poll(2) does not see them, and libpq does not tell: it is asked now and then. */
static struct hf__deadline next_look(PGconn *pg, struct hf__deadline deadline)
{
    bool encrypted = PQsslInUse(pg) != 0 || PQgssEncInUse(pg) != 0;
    return encrypted ? hf__sooner(deadline, hf__after_ms(ENCRYPTED_LOOK_MS)) : deadline;
}

/* Until the next result can be had without waiting. Reads while it still sends: the server may have stopped reading. */
static enum progress await_result(PGconn *pg, struct hf__deadline deadline)
{
    for (;;) {
        int unsent = PQflush(pg);
        if (unsent < 0) {
            return BROKEN;
        }
        if (unsent == 0 && !PQisBusy(pg)) {
            return READY;
        }
        int ready = hf__pg_wait_socket(pg, (short)(unsent != 0 ? POLLIN | POLLOUT : POLLIN), next_look(pg, deadline));
        if (ready == 0 && hf__passed(deadline)) {
            return EXPIRED;
        }
        if (ready < 0 || PQconsumeInput(pg) == 0) {
            return BROKEN;
        }
    }
}

/* A user's handle is left able to go on: the rest of the cancelled statement is read, if it comes within the grace.
 * One NULL ends a command, two in a row mean that nothing is left, in pipeline mode as well. */
static void drain(struct hf__pg *self)
{
    struct hf__deadline grace = hf__after_ms(CANCEL_GRACE_MS);
    int ends = 0;
    while (ends < 2 && await_result(self->pg, grace) == READY) {
        PGresult *result = PQgetResult(self->pg);
        ends = result == NULL ? ends + 1 : 0;
        PQclear(result);
    }
    if (PQexitPipelineMode(self->pg) == 0) {
        self->base.retire = true;
    }
}

static hf_status timed_out(struct hf__pg *self, hf_error *err)
{
    self->base.lost = true;
    stop_statement(self->pg);
    if (self->base.borrowed) {
        drain(self);
    }
    return hf__fail(err, HF_TIMEOUT,
                    "the time limit passed before PostgreSQL answered; the statement was cancelled and its connection given up");
}

hf_status hf__pg_next(struct hf__pg *self, struct hf__deadline deadline, PGresult **out, hf_error *err)
{
    *out = NULL;
    switch (await_result(self->pg, deadline)) {
    case READY:
        *out = PQgetResult(self->pg);
        return HF_OK;
    case EXPIRED:
        return timed_out(self, err);
    case BROKEN:
        break;
    }
    return lost(self, err);
}

bool hf__pg_is_error(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE || status == PGRES_PIPELINE_ABORTED;
}

static bool is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* Of several results the last one counts: after an error the server skips the rest. */
static hf_status read_results(struct hf__pg *self, struct hf__deadline deadline, PGresult **last, hf_error *err)
{
    for (;;) {
        PGresult *result;
        hf_status status = hf__pg_next(self, deadline, &result, err);
        if (status != HF_OK || result == NULL) {
            return status;
        }
        if (is_copy(result)) {
            PQclear(result);
            self->base.lost = true;
            return hf__fail(err, HF_UNSUPPORTED, "COPY cannot be run through holdfast; its connection is given up");
        }
        PQclear(*last);
        *last = result;
    }
}

hf_status hf__pg_finish(struct hf__pg *self, struct hf__deadline deadline, PGresult **out, hf_error *err)
{
    PGresult *last = NULL;
    hf_status status = read_results(self, deadline, &last, err);
    if (status == HF_OK && last == NULL) {
        status = lost(self, err);
    } else if ((status == HF_OK || status == HF_LOST) && last != NULL && hf__pg_is_error(last)) {
        status = hf__pg_result_error(self, last, err); /* the server's last words say more than the closed socket */
    }
    if (status != HF_OK || out == NULL) {
        PQclear(last);
        return status;
    }
    *out = last;
    return HF_OK;
}

hf_status hf__pg_simple(struct hf__pg *self, const char *sql, struct hf__deadline deadline, PGresult **out, hf_error *err)
{
    if (PQsendQuery(self->pg, sql) == 0) {
        return hf__pg_unsent(self, err);
    }
    return hf__pg_finish(self, deadline, out, err);
}

static hf_status check_usable(struct hf__pg *self, struct hf__deadline deadline, hf_error *err)
{
    if (self->ended || PQstatus(self->pg) != CONNECTION_OK) {
        return lost(self, err);
    }
    if (PQpipelineStatus(self->pg) != PQ_PIPELINE_OFF || PQtransactionStatus(self->pg) == PQTRANS_ACTIVE) {
        self->base.retire = true;
        return hf__fail(err, HF_MISUSE,
                        "this PGconn is in pipeline mode or has a statement in progress; finish that before holdfast uses it");
    }
    if (hf__passed(deadline)) {
        self->base.lost = true;
        return hf__fail(err, HF_TIMEOUT, "the time limit passed before the statement was sent to PostgreSQL");
    }
    return HF_OK;
}

hf_status hf__pg_enter(struct hf__pg *self, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check_usable(self, deadline, err);
    if (status != HF_OK) {
        return status;
    }
    self->was_blocking = PQisnonblocking(self->pg) == 0;
    return PQsetnonblocking(self->pg, 1) == 0 ? HF_OK : lost(self, err);
}

void hf__pg_leave(struct hf__pg *self)
{
    if (self->was_blocking && PQsetnonblocking(self->pg, 0) != 0) {
        self->base.retire = true; /* something is still unsent; the connection is broken or already given up */
    }
}

hf_status hf__pg_exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    struct hf__pg *self = hf__pg_of(conn);
    hf_status status = hf__pg_enter(self, deadline, err);
    if (status == HF_OK) {
        status = hf__pg_simple(self, sql, deadline, NULL, err);
        hf__pg_leave(self);
    }
    return status;
}
