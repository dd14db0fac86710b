/* What the files of the PostgreSQL driver share.
 *   driver_postgres.c            sessions: set-up, transactions, the table of methods
 *   driver_postgres_login.c      from a URL to a PGconn
 *   driver_postgres_wire.c       sending and reading with a deadline, cancelling, classes of errors
 *   driver_postgres_run.c        prepared statements
 *   driver_postgres_values.c     values as the protocol carries them
 *   driver_postgres_catalogue.c  describe */
#ifndef HF_POOL_DRIVER_POSTGRES_H
#define HF_POOL_DRIVER_POSTGRES_H

#include <libpq-fe.h>

#include "driver.h"

/* A statement that the server has described to us, and keeps prepared if `named`. */
struct hf__pg_plan {
    uint64_t serial;
    uint64_t used;       /* when, in runs of this connection */
    uint32_t generation; /* part of the name, so that a stale plan's successor does not meet it */
    bool named;
    size_t n_types;
    Oid *types; /* of the parameters: n_types as declared, then n_types that they are made of */
};

struct hf__pg {
    struct hf__conn base; /* first: the pool holds a pointer to it */
    PGconn *pg;
    bool ended;        /* the server has said that it ends this session */
    bool was_blocking; /* between hf__pg_enter and hf__pg_leave */

    struct hf__pg_plan *plans; /* by serial */
    size_t n_plans, plans_capacity;
    uint64_t runs;
    uint32_t generation;
    struct hf__pg_plan *discarded; /* still prepared on the server, to be deallocated outside a transaction */
    size_t n_discarded, discarded_capacity;
};

static inline struct hf__pg *hf__pg_of(struct hf__conn *conn)
{
    return (struct hf__pg *)(void *)conn;
}

/* login: self->pg is set on HF_OK only */
hf_status hf__pg_log_in(struct hf__pg *self, const struct hf__url *url, const struct hf__session_options *options,
                        struct hf__deadline deadline, hf_error *err);

/* wire: every exchange with the server stands between enter and leave; the rest is allowed only there. */
hf_status hf__pg_enter(struct hf__pg *self, struct hf__deadline deadline, hf_error *err);
void hf__pg_leave(struct hf__pg *self);
/* Waits for the next result of what was sent; *out is NULL at the end of a command. */
hf_status hf__pg_next(struct hf__pg *self, struct hf__deadline deadline, PGresult **out, hf_error *err);
/* Reads to the end of a command. *out (which may be NULL) is its last result, on HF_OK only; the caller clears it. */
hf_status hf__pg_finish(struct hf__pg *self, struct hf__deadline deadline, PGresult **out, hf_error *err);
/* Sends a simple query and finishes it. */
hf_status hf__pg_simple(struct hf__pg *self, const char *sql, struct hf__deadline deadline, PGresult **out, hf_error *err);
/* The same as a whole exchange, for SQL whose answer does not matter. */
hf_status hf__pg_exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err);
/* What libpq says when it cannot even send. */
hf_status hf__pg_unsent(struct hf__pg *self, hf_error *err);
hf_status hf__pg_result_error(struct hf__pg *self, const PGresult *result, hf_error *err);
bool hf__pg_is_error(const PGresult *result);
hf_status hf__pg_class(const char *sqlstate);
/* A notice receiver: prints nothing, and learns from it that the server ends the session. */
void hf__pg_notice(void *self, const PGresult *notice);
/* As poll(2) on the connection's socket, until the deadline. */
int hf__pg_wait_socket(PGconn *pg, short events, struct hf__deadline deadline);
/* libpq's messages without their line ends, cut where an hf_error would cut them. */
#define HF__PG_LINE (sizeof((hf_error *)NULL)->message + 4)
void hf__pg_one_line(const char *text, char out[HF__PG_LINE]);

/* run */
hf_status hf__pg_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                     struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);
/* Deallocates what is stale, if no transaction is open. Between enter and leave. */
hf_status hf__pg_sweep(struct hf__pg *self, struct hf__deadline deadline, hf_error *err);
void hf__pg_forget_plans(struct hf__pg *self); /* the server no longer has any */

/* values: parameters as libpq wants them, in one block of memory. The types are the statement's own. */
struct hf__pg_parameters {
    int n;
    const char **values;
    int *lengths;
    int *formats;
    char *text;
};
hf_status hf__pg_bind(const struct hf__value *values, size_t n, const Oid *types, struct hf__pg_parameters *out, hf_error *err);
void hf__pg_unbind(struct hf__pg_parameters *parameters);
hf_status hf__pg_decode(const struct hf__pg *self, PGresult *result, struct hf__rows *rows, hf_error *err);

/* catalogue */
hf_status hf__pg_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                          struct hf__relation *out, hf_error *err);

#endif
