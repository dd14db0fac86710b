/* A database named by URL: postgresql://..., postgres://..., mysql://..., mariadb://..., sqlite:PATH */
#ifndef HF_POOL_URL_H
#define HF_POOL_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum hf__database { HF__POSTGRES, HF__MYSQL, HF__SQLITE };

struct hf__url_option {
    char *name;
    char *value;
};

struct hf__url {
    enum hf__database database;
    char *text; /* PostgreSQL: the URI for libpq, without holdfast's own options; else the URL. Holds the password: never print it */
    char *safe; /* the URL with its password as "***", for messages */
    char *user, *password, *host, *name; /* MySQL: percent-decoded, NULL if absent; name is the database */
    unsigned port;                       /* MySQL: 0 if absent */
    char *path;                          /* SQLite: absolute */
    struct hf__url_option *options;      /* the decoded ?a=b&c=d; PostgreSQL: only ours */
    size_t n_options;
    bool pooler; /* ?pooler=transaction: no session state, no named prepared statements */
};

/* Parses and validates: unknown scheme, bad port, unknown option, bad escape are HF_INVALID; a database that this build was
 * made without is HF_UNSUPPORTED. No message quotes more of a URL than hf__url_blank leaves of it. The caller owns *out
 * (hf__url_free).
 *   PostgreSQL: pooler is ours and taken out, everything else is passed to libpq.
 *   MySQL options: socket, ssl_mode (disabled, preferred, required, verify_ca, verify_identity), ssl_ca, ssl_cert, ssl_key,
 *     connect_timeout (seconds), pooler.
 *   SQLite: PATH is percent-decoded. Options: synchronous (full, normal, extra, off), create (1: make a missing file,
 *     0: refuse; default 0, so that a mistyped path is no empty database); pooler is refused. */
HF_CHECKED hf_status hf__url_parse(const char *url, struct hf__url **out, hf_error *err);
void hf__url_free(struct hf__url *url);                                  /* wipes the password; NULL is allowed */
const char *hf__url_option(const struct hf__url *url, const char *name); /* NULL if absent */

/* The URL with its password blanked, for anything that must print one before it is parsed. malloc'd, NULL when out of memory. */
char *hf__url_blank(const char *url);

#endif
