/* Logging in, with a deadline. libpq's own time limit for each host works in PQconnectdb only, which cannot be given a deadline. So each
 * host of a list gets its share of the time, and whoever does not answer in it goes to the end of the list. libpq passes over hosts that
 * refuse. Looking up a host's name blocks inside libpq, bounded by the system's resolver alone. */
#include "driver_postgres.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SQLSTATE_LENGTH 5

struct hosts {
    const char *host, *hostaddr, *port; /* NULL: not in the URL */
    size_t n;
    int64_t timeout_ms; /* of the URL, for each host; 0: none */
};

static size_t list_length(const char *list)
{
    size_t n = 1;
    for (; list != NULL && *list != '\0'; list++) {
        n += *list == ',';
    }
    return n;
}

static struct hosts find_hosts(const PQconninfoOption *options)
{
    struct hosts hosts = {.n = 1};
    for (; options->keyword != NULL; options++) {
        if (options->val == NULL) {
            continue;
        }
        if (strcmp(options->keyword, "host") == 0) {
            hosts.host = options->val;
        } else if (strcmp(options->keyword, "hostaddr") == 0) {
            hosts.hostaddr = options->val;
        } else if (strcmp(options->keyword, "port") == 0) {
            hosts.port = options->val;
        } else if (strcmp(options->keyword, "connect_timeout") == 0) {
            long seconds = strtol(options->val, NULL, 10);
            hosts.timeout_ms = seconds > 0 ? (int64_t)seconds * 1000 : 0;
        }
    }
    hosts.n = list_length(hosts.hostaddr != NULL ? hosts.hostaddr : hosts.host);
    return hosts;
}

/* "a,b,c" from 1 is "b,c,a". NULL for NULL and when memory is out. */
static char *rotated(const char *list, size_t from)
{
    const char *cut = list;
    for (; cut != NULL && from > 0 && strchr(cut, ',') != NULL; from--) {
        cut = strchr(cut, ',') + 1;
    }
    if (cut == list) {
        return list != NULL ? strdup(list) : NULL;
    }
    char *out = NULL;
    return asprintf(&out, "%s,%.*s", cut, (int)(cut - list - 1), list) < 0 ? NULL : out;
}

/* What stands before the URL gives way to it; what stands after it does not. A NULL value leaves the setting as it is. */
static PGconn *start_login(const struct hf__url *url, const char *application_name, const struct hosts *hosts)
{
    const char *const settings[][2] = {
        {"fallback_application_name", application_name},
        {"keepalives", "1"},
        {"keepalives_idle", "30"},
        {"keepalives_interval", "10"},
        {"keepalives_count", "3"},
        {"tcp_user_timeout", "30000"},
        {"dbname", url->text},
        {"client_encoding", "UTF8"},
        {"host", hosts->host},
        {"hostaddr", hosts->hostaddr},
        {"port", hosts->port},
    };
    const size_t n = sizeof settings / sizeof settings[0];
    const char *names[sizeof settings / sizeof settings[0] + 1];
    const char *values[sizeof settings / sizeof settings[0] + 1];
    for (size_t i = 0; i < n; i++) {
        names[i] = settings[i][0];
        values[i] = settings[i][1];
    }
    names[n] = values[n] = NULL;
    return PQconnectStartParams(names, values, 1);
}

static PGconn *start_login_from(const struct hf__url *url, const char *application_name, const struct hosts *hosts, size_t first)
{
    if (first == 0) {
        return start_login(url, application_name, hosts);
    }
    char *host = rotated(hosts->host, first);
    char *hostaddr = rotated(hosts->hostaddr, first);
    char *port = rotated(hosts->port, first);
    struct hosts turned = {.host = host, .hostaddr = hostaddr, .port = port};
    bool complete = !host == !hosts->host && !hostaddr == !hosts->hostaddr && !port == !hosts->port;
    PGconn *pg = complete ? start_login(url, application_name, &turned) : NULL;
    free(host);
    free(hostaddr);
    free(port);
    return pg;
}

/* libpq does not hand out the SQLSTATE of a refused login, except in its verbose form of the message, "FATAL:  28P01: text", where
 * it stands in the same way in every language. */
static const char *find_sqlstate(const char *line, const char *end)
{
    static const char code[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *at = strstr(line, ":  ");
    while (at != NULL && !(strspn(at + 3, code) == SQLSTATE_LENGTH && strncmp(at + 3 + SQLSTATE_LENGTH, ": ", 2) == 0)) {
        at = strstr(at + 1, ":  ");
    }
    return at != NULL && at < end ? at + 3 : NULL;
}

/* The verbose form also names a place in the server's source code: "LOCATION:  auth_failed, auth.c:330". */
static bool is_location(const char *line, const char *end)
{
    const char *at = end;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    if (at == end || at == line || at[-1] != ':') {
        return false;
    }
    const char *space = memrchr(line, ' ', (size_t)(at - line));
    return space != NULL && space > line && space[-1] == ',';
}

/* The message as it is without being verbose, malloc'd, and the last SQLSTATE in it: libpq may have tried several times. */
static char *plain_message(const char *message, char sqlstate[SQLSTATE_LENGTH + 1])
{
    char *plain = malloc(strlen(message) + 2);
    char *out = plain;
    while (plain != NULL && *message != '\0') {
        const char *end = message + strcspn(message, "\n");
        const char *code = find_sqlstate(message, end);
        if (code != NULL) {
            memcpy(sqlstate, code, SQLSTATE_LENGTH);
            out = mempcpy(out, message, (size_t)(code - message));
            message = code + SQLSTATE_LENGTH + strlen(": ");
        }
        if (code != NULL || sqlstate[0] == '\0' || !is_location(message, end)) {
            out = mempcpy(out, message, (size_t)(end - message));
            *out++ = '\n';
        }
        message = *end == '\n' ? end + 1 : end;
    }
    if (plain != NULL) {
        *out = '\0';
    }
    return plain;
}

static hf_status login_class(const char *sqlstate, PGconn *pg)
{
    if (sqlstate[0] == '\0') {
        return PQconnectionNeedsPassword(pg) != 0 ? HF_DENIED : HF_UNREACHABLE;
    }
    hf_status status = hf__pg_class(sqlstate);
    if (status != HF_LOST) {
        return status;
    }
    return strncmp(sqlstate, "08", 2) == 0 ? HF_UNREACHABLE : HF_TRANSIENT; /* else starting up or shutting down */
}

static hf_status refused_login(PGconn *pg, const struct hf__url *url, hf_error *err)
{
    char sqlstate[SQLSTATE_LENGTH + 1] = "";
    char text[HF__PG_LINE];
    char *plain = plain_message(PQerrorMessage(pg), sqlstate);
    if (plain == NULL) {
        return hf__fail_memory(err);
    }
    hf__pg_one_line(plain, text);
    free(plain);
    return hf__fail_native(err, login_class(sqlstate, pg), 0, sqlstate, "%s: %s", url->safe, text);
}

static hf_status await_login(PGconn *pg, const struct hf__url *url, struct hf__deadline deadline, hf_error *err)
{
    PostgresPollingStatusType state = PQstatus(pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING) {
        int ready = hf__pg_wait_socket(pg, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
        if (ready == 0) {
            return hf__fail(err, HF_TIMEOUT, "%s: the server did not answer in time", url->safe);
        }
        state = ready < 0 ? PGRES_POLLING_FAILED : PQconnectPoll(pg);
    }
    return state == PGRES_POLLING_OK ? HF_OK : refused_login(pg, url, err);
}

static hf_status try_login(struct hf__pg *self, const struct hf__url *url, const char *application_name, const struct hosts *hosts,
                           size_t first, struct hf__deadline deadline, hf_error *err)
{
    self->pg = start_login_from(url, application_name, hosts, first);
    if (self->pg == NULL) {
        return hf__fail_memory(err);
    }
    (void)PQsetNoticeReceiver(self->pg, hf__pg_notice, self);
    (void)PQsetErrorVerbosity(self->pg, PQERRORS_VERBOSE);
    hf_status status = await_login(self->pg, url, deadline, err);
    (void)PQsetErrorVerbosity(self->pg, PQERRORS_DEFAULT);
    if (status != HF_OK) {
        PQfinish(self->pg);
        self->pg = NULL;
    }
    return status;
}

static struct hf__deadline share_of(struct hf__deadline deadline, size_t parts)
{
    int64_t left = hf__left_ns(deadline);
    return left == INT64_MAX ? deadline : hf__at_ns(hf__monotonic_ns() + left / (int64_t)parts);
}

static hf_status log_in_to(struct hf__pg *self, const struct hf__url *url, const struct hf__session_options *options,
                           const struct hosts *hosts, struct hf__deadline deadline, hf_error *err)
{
    int64_t limit_ms = hosts->timeout_ms > 0 ? hosts->timeout_ms * (int64_t)hosts->n : options->connect_timeout_ms;
    struct hf__deadline limit = limit_ms > 0 ? hf__sooner(deadline, hf__after_ms(limit_ms)) : deadline;
    hf_status status = HF_TIMEOUT;
    for (size_t i = 0; status == HF_TIMEOUT && i < hosts->n; i++) {
        status = try_login(self, url, options->application_name, hosts, i, share_of(limit, hosts->n - i), err);
    }
    if (status == HF_TIMEOUT && !hf__passed(deadline) && err != NULL) {
        err->status = HF_UNREACHABLE; /* only the limit of a connect has passed, not that of the caller */
    }
    return status == HF_TIMEOUT && !hf__passed(deadline) ? HF_UNREACHABLE : status;
}

hf_status hf__pg_log_in(struct hf__pg *self, const struct hf__url *url, const struct hf__session_options *options,
                        struct hf__deadline deadline, hf_error *err)
{
    char *reason = NULL;
    PQconninfoOption *settings = PQconninfoParse(url->text, &reason);
    if (settings == NULL) {
        /* libpq may quote the whole URL in its reason */
        bool secret = reason == NULL || strstr(url->safe, "***") != NULL;
        (void)hf__fail(err, HF_INVALID, "%s is not a URL that libpq accepts%s%s", url->safe,
                       secret ? "; check its options and the escapes in it" : ": ", secret ? "" : reason);
        PQfreemem(reason);
        return HF_INVALID;
    }
    struct hosts hosts = find_hosts(settings);
    hf_status status = log_in_to(self, url, options, &hosts, deadline, err);
    PQconninfoFree(settings);
    return status;
}
