#include "url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "url_span.h"

struct scheme {
    const char *prefix;
    enum hf__database database;
    bool built_in;
};

static const struct scheme schemes[] = {
    {"postgresql://", HF__POSTGRES, HOLDFAST_POSTGRES},
    {"postgres://", HF__POSTGRES, HOLDFAST_POSTGRES},
    {"mysql://", HF__MYSQL, HOLDFAST_MYSQL},
    {"mariadb://", HF__MYSQL, HOLDFAST_MYSQL},
    {"sqlite:", HF__SQLITE, HOLDFAST_SQLITE},
};

static const struct scheme *find_scheme(const char *url)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncmp(url, schemes[i].prefix, strlen(schemes[i].prefix)) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

static void wipe(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

void hf__url_free(struct hf__url *url)
{
    if (url == NULL) {
        return;
    }
    for (size_t i = 0; i < url->n_options; i++) {
        free(url->options[i].name);
        free(url->options[i].value);
    }
    wipe(url->text);
    wipe(url->password);
    free(url->safe);
    free(url->user);
    free(url->host);
    free(url->name);
    free(url->path);
    free(url->options);
    free(url);
}

const char *hf__url_option(const struct hf__url *url, const char *name)
{
    for (size_t i = 0; i < url->n_options; i++) {
        if (strcmp(url->options[i].name, name) == 0) {
            return url->options[i].value;
        }
    }
    return NULL;
}

struct known_option {
    enum hf__database database;
    const char *name;
    const char *values; /* separated by ", "; NULL: any text but the empty one */
};

static const struct known_option known_options[] = {
    {HF__MYSQL, "socket", NULL},
    {HF__MYSQL, "ssl_mode", "disabled, preferred, required, verify_ca, verify_identity"},
    {HF__MYSQL, "ssl_ca", NULL},
    {HF__MYSQL, "ssl_cert", NULL},
    {HF__MYSQL, "ssl_key", NULL},
    {HF__MYSQL, "connect_timeout", NULL},
    {HF__MYSQL, "pooler", "transaction, session"},
    {HF__SQLITE, "synchronous", "full, normal, extra, off"},
    {HF__SQLITE, "create", "0, 1"},
    {HF__POSTGRES, "pooler", "transaction, session"},
};

static const struct known_option *find_known(enum hf__database database, const char *name)
{
    for (size_t i = 0; i < sizeof known_options / sizeof known_options[0]; i++) {
        if (known_options[i].database == database && strcmp(known_options[i].name, name) == 0) {
            return &known_options[i];
        }
    }
    return NULL;
}

static bool is_listed(const char *list, const char *value)
{
    size_t len = strlen(value);
    while (list != NULL) {
        const char *comma = strstr(list, ", ");
        size_t word = comma != NULL ? (size_t)(comma - list) : strlen(list);
        if (word == len && strncmp(list, value, len) == 0) {
            return true;
        }
        list = comma != NULL ? comma + 2 : NULL;
    }
    return false;
}

/* Decimal digits only; 0 if it is anything else or above max. */
static unsigned parse_number(struct hf__span span, unsigned max)
{
    unsigned number = 0;
    for (; span.at < span.end; span.at++) {
        if (*span.at < '0' || *span.at > '9') {
            return 0;
        }
        number = number * 10 + (unsigned)(*span.at - '0');
        if (number > max) {
            return 0;
        }
    }
    return number;
}

/* No value is quoted: one with a misplaced '&' or '?' may be a piece of a password. */
static hf_status check_value(const struct known_option *known, const char *value, hf_error *err)
{
    if (known->values != NULL && !is_listed(known->values, value)) {
        return hf__fail(err, HF_INVALID, "the option %s takes one of: %s", known->name, known->values);
    }
    if (*value == '\0') {
        return hf__fail(err, HF_INVALID, "the option %s is empty; leave it out or give it a value", known->name);
    }
    if (strcmp(known->name, "connect_timeout") == 0 && parse_number((struct hf__span){value, value + strlen(value)}, 86400) == 0) {
        return hf__fail(err, HF_INVALID, "the option connect_timeout takes seconds from 1 to 86400");
    }
    return HF_OK;
}

static hf_status unknown_option(enum hf__database database, const char *name, hf_error *err)
{
    if (database == HF__SQLITE && strcmp(name, "pooler") == 0) {
        return hf__fail(err, HF_INVALID, "the option pooler has no meaning for SQLite: leave it out");
    }
    return hf__fail(err, HF_INVALID, "unknown option '%.64s'; known are %s", name,
                    database == HF__SQLITE ? "synchronous and create"
                                           : "socket, ssl_mode, ssl_ca, ssl_cert, ssl_key, connect_timeout and pooler");
}

/* Takes ownership of name and value, also on failure. */
static hf_status add_option(struct hf__url *url, char *name, char *value, hf_error *err)
{
    struct hf__url_option *options = realloc(url->options, (url->n_options + 1) * sizeof *options);
    if (options == NULL) {
        free(name);
        free(value);
        return hf__fail_memory(err);
    }
    url->options = options;
    url->options[url->n_options++] = (struct hf__url_option){name, value};
    return HF_OK;
}

static hf_status check_option(const struct hf__url *url, const char *name, const char *value, hf_error *err)
{
    const struct known_option *known = find_known(url->database, name);
    if (known == NULL) {
        return unknown_option(url->database, name, err);
    }
    if (hf__url_option(url, name) != NULL) {
        return hf__fail(err, HF_INVALID, "the option %s stands twice", known->name);
    }
    return check_value(known, value, err);
}

static hf_status parse_option(struct hf__url *url, struct hf__span part, hf_error *err)
{
    const char *equals = hf__span_first(part, "=");
    if (equals == part.end) {
        return hf__fail(err, HF_INVALID, "an option without '='; options are written ?name=value&name=value");
    }
    char *name = hf__span_decode((struct hf__span){part.at, equals});
    char *value = hf__span_decode((struct hf__span){equals + 1, part.end});
    hf_status status = name == NULL || value == NULL ? hf__fail_memory(err) : check_option(url, name, value, err);
    if (status != HF_OK) {
        free(name);
        free(value);
        return status;
    }
    return add_option(url, name, value, err);
}

/* rest begins at the '?' or is empty. */
static hf_status parse_options(struct hf__url *url, struct hf__span rest, hf_error *err)
{
    hf_status status = HF_OK;
    if (rest.at < rest.end) {
        rest.at++;
    }
    while (status == HF_OK && rest.at < rest.end) {
        status = parse_option(url, hf__span_take(&rest, '&'), err);
    }
    return status;
}

/* ---- PostgreSQL: libpq reads the URI itself ---- */

struct libpq_query {
    char *at;       /* where the next option is written */
    char separator; /* before it */
};

static hf_status parse_libpq_option(struct hf__url *url, struct hf__span part, struct libpq_query *query, hf_error *err)
{
    const char *equals = hf__span_first(part, "=");
    if (equals == part.end || hf__span_first((struct hf__span){equals + 1, part.end}, "=") != part.end) {
        return hf__fail(err, HF_INVALID, "each option is written name=value with one '=' (%%3D stands for one in the value)");
    }
    char *name = hf__span_decode((struct hf__span){part.at, equals});
    if (name == NULL) {
        return hf__fail_memory(err);
    }
    bool ours = find_known(HF__POSTGRES, name) != NULL;
    free(name);
    if (ours) {
        return parse_option(url, part, err);
    }
    *query->at++ = query->separator;
    query->at = mempcpy(query->at, part.at, hf__span_len(part));
    query->separator = '&';
    return HF_OK;
}

/* The faults that libpq would answer by quoting the whole URI are found here. */
static hf_status parse_libpq(struct hf__url *url, struct hf__span rest, hf_error *err)
{
    rest.at = hf__span_first(rest, "?");
    struct libpq_query query = {.at = url->text + strlen(url->text) - hf__span_len(rest), .separator = '?'};
    hf_status status = HF_OK;
    if (rest.at < rest.end) {
        rest.at++;
    }
    while (status == HF_OK && rest.at < rest.end) {
        status = parse_libpq_option(url, hf__span_take(&rest, '&'), &query, err);
    }
    *query.at = '\0';
    return status;
}

/* ---- MySQL ---- */

/* NULL in *out when the part is empty. */
static hf_status decode_part(struct hf__span span, char **out, hf_error *err)
{
    if (span.at == span.end) {
        return HF_OK;
    }
    *out = hf__span_decode(span);
    return *out == NULL ? hf__fail_memory(err) : HF_OK;
}

static hf_status parse_user(struct hf__url *url, struct hf__span userinfo, hf_error *err)
{
    struct hf__span user = {userinfo.at, hf__span_first(userinfo, ":")};
    if (user.end < userinfo.end) {
        url->password = hf__span_decode((struct hf__span){user.end + 1, userinfo.end});
        if (url->password == NULL) {
            return hf__fail_memory(err);
        }
    }
    return decode_part(user, &url->user, err);
}

static hf_status parse_port(struct hf__url *url, struct hf__span port, hf_error *err)
{
    if (port.at == port.end) {
        return HF_OK;
    }
    url->port = parse_number(port, 65535);
    return url->port == 0 ? hf__fail(err, HF_INVALID, "the port is not a number from 1 to 65535") : HF_OK;
}

static hf_status parse_host(struct hf__url *url, struct hf__span host, hf_error *err)
{
    const char *after = hf__span_first(host, ":");
    struct hf__span name = {host.at, after};
    if (host.at < host.end && *host.at == '[') {
        name = (struct hf__span){host.at + 1, hf__span_first(host, "]")};
        after = name.end < host.end ? name.end + 1 : name.end;
        if (name.at == name.end || after == name.end || (after < host.end && *after != ':')) {
            return hf__fail(err, HF_INVALID, "an IPv6 address is written in brackets: mysql://[::1]:3306/database");
        }
    } else if (hf__span_first(host, ",") != host.end) {
        return hf__fail(err, HF_INVALID, "MySQL takes one host");
    }
    hf_status status = decode_part(name, &url->host, err);
    return status != HF_OK ? status : parse_port(url, (struct hf__span){after < host.end ? after + 1 : after, host.end}, err);
}

static hf_status check_socket(const struct hf__url *url, hf_error *err)
{
    const char *socket = hf__url_option(url, "socket");
    if (socket != NULL && url->host != NULL && strcmp(url->host, "localhost") != 0) {
        return hf__fail(err, HF_INVALID, "it names both a host and a socket; leave one out");
    }
    return HF_OK;
}

static hf_status parse_mysql(struct hf__url *url, struct hf__span rest, hf_error *err)
{
    struct hf__span authority = {rest.at, hf__span_first(rest, "/?")};
    struct hf__span path = {authority.end, rest.end};
    path.end = hf__span_first(path, "?");
    const char *at_sign = hf__span_last(authority, '@');
    if (hf__span_last((struct hf__span){authority.end, rest.end}, '@') != NULL) {
        return hf__fail(err, HF_INVALID, "there is an '@' behind the host; inside a password write '/' as %%2F, '?' as %%3F, '@' as %%40");
    }
    hf_status status = HF_OK;
    if (at_sign != NULL) {
        status = parse_user(url, (struct hf__span){authority.at, at_sign}, err);
        authority.at = at_sign + 1;
    }
    if (status == HF_OK) {
        status = parse_host(url, authority, err);
    }
    if (path.at < path.end) {
        path.at++;
    }
    if (status == HF_OK && hf__span_first(path, "/") != path.end) {
        status = hf__fail(err, HF_INVALID, "behind the host stands one database name; write '/' as %%2F");
    }
    if (status == HF_OK) {
        status = decode_part(path, &url->name, err);
    }
    if (status == HF_OK) {
        status = parse_options(url, (struct hf__span){path.end, rest.end}, err);
    }
    return status != HF_OK ? status : check_socket(url, err);
}

/* ---- SQLite ---- */

static hf_status check_path(const char *path, hf_error *err)
{
    if (*path == '\0' || strcmp(path, ":memory:") == 0) {
        return hf__fail(err, HF_INVALID, "SQLite needs a file, because each connection would have an in-memory database of its own");
    }
    if (strncmp(path, "file:", 5) == 0) {
        return hf__fail(err, HF_INVALID, "write the path alone (sqlite:/var/lib/jobs.db), without 'file:'; a file of that name is ./file:");
    }
    if (strncmp(path, "//", 2) == 0 && path[2] != '/') {
        return hf__fail(err, HF_INVALID, "SQLite has no host: write sqlite:relative.db or sqlite:/absolute.db");
    }
    return HF_OK;
}

/* Connections are opened at any time, and the process may change its directory in between. */
static hf_status make_absolute(char **path, hf_error *err)
{
    if (**path == '/') {
        return HF_OK;
    }
    char *directory = getcwd(NULL, 0);
    if (directory == NULL) {
        return hf__fail(err, HF_SYSTEM, "the current directory cannot be found: %s", strerror(errno));
    }
    char *joined = NULL;
    int written = asprintf(&joined, "%s/%s", directory, *path);
    free(directory);
    if (written < 0) {
        return hf__fail_memory(err);
    }
    free(*path);
    *path = joined;
    return HF_OK;
}

static hf_status parse_sqlite(struct hf__url *url, struct hf__span rest, hf_error *err)
{
    struct hf__span path = {rest.at, hf__span_first(rest, "?")};
    url->path = hf__span_decode(path);
    if (url->path == NULL) {
        return hf__fail_memory(err);
    }
    hf_status status = check_path(url->path, err);
    if (status == HF_OK) {
        status = make_absolute(&url->path, err);
    }
    return status != HF_OK ? status : parse_options(url, (struct hf__span){path.end, rest.end}, err);
}

/* ---- all of them ---- */

static hf_status check_scheme(const struct scheme *scheme, hf_error *err)
{
    if (scheme == NULL) {
        return hf__fail(err, HF_INVALID,
                        "a database is named by a URL that begins with postgresql://, postgres://, mysql://, mariadb:// or sqlite:");
    }
    if (!scheme->built_in) {
        return hf__fail(err, HF_UNSUPPORTED, "this build of holdfast was made without support for %s URLs", scheme->prefix);
    }
    return HF_OK;
}

static hf_status parse_rest(struct hf__url *url, struct hf__span rest, hf_error *err)
{
    if (hf__span_bad_escape(rest)) {
        return hf__fail(err, HF_INVALID, "a '%%' that is not followed by two hexadecimal digits, or %%00; write '%%' as %%25");
    }
    switch (url->database) {
    case HF__POSTGRES:
        return parse_libpq(url, rest, err);
    case HF__MYSQL:
        return parse_mysql(url, rest, err);
    case HF__SQLITE:
        break;
    }
    return parse_sqlite(url, rest, err);
}

hf_status hf__url_parse(const char *text, struct hf__url **out, hf_error *err)
{
    *out = NULL;
    const struct scheme *scheme = find_scheme(text);
    hf_status status = check_scheme(scheme, err);
    if (status != HF_OK) {
        return status;
    }
    struct hf__url *url = calloc(1, sizeof *url);
    if (url == NULL) {
        return hf__fail_memory(err);
    }
    url->database = scheme->database;
    url->text = strdup(text);
    url->safe = hf__url_blank(text);
    if (url->text == NULL || url->safe == NULL) {
        hf__url_free(url);
        return hf__fail_memory(err);
    }
    const char *rest = text + strlen(scheme->prefix);
    status = parse_rest(url, (struct hf__span){rest, rest + strlen(rest)}, err);
    if (status != HF_OK) {
        (void)hf__fail_context(err, "database URL %s", url->safe);
        hf__url_free(url);
        return status;
    }
    const char *pooler = hf__url_option(url, "pooler");
    url->pooler = pooler != NULL && strcmp(pooler, "transaction") == 0;
    *out = url;
    return HF_OK;
}
