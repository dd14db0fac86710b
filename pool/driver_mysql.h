/* What the files of the MySQL and MariaDB driver share.
 *   driver_mysql.c            sessions: set-up, transactions, reset, the table of methods
 *   driver_mysql_login.c      connecting: options from the URL, the login, its errors
 *   driver_mysql_wire.c       calls with a deadline, stopping a statement on the server, classes of errors
 *   driver_mysql_run.c        prepared statements
 *   driver_mysql_values.c     values as libmariadb binds them
 *   driver_mysql_catalogue.c  describe
 *
 * Every call that may wait goes through libmariadb's non-blocking API and poll(2), so that each has an absolute deadline. At a
 * deadline the socket is shut down and the suspended call is driven to its end: it finds the socket closed, frees what it holds
 * and reports an error. Two kinds of call block inside libmariadb: resolving a host name, and the TLS handshake of a login
 * (each of its reads waits for at most the login's limit, in whole seconds). A borrowed handle is used with the blocking calls:
 * there the time limits that its owner set are the only ones. */
#ifndef HF_POOL_DRIVER_MYSQL_H
#define HF_POOL_DRIVER_MYSQL_H

#include <mysql.h>

#include "driver.h"

struct hf__my_plan {
    uint64_t serial;
    MYSQL_STMT *stmt;
};

struct hf__my {
    struct hf__conn base; /* first: the pool holds a pointer to it */
    MYSQL *mysql;
    struct hf__url *url; /* our copy, for the connection that stops a statement; NULL when borrowed */
    bool tls;
    bool rolled_back;    /* the server has undone the transaction that it still calls open */
    unsigned long id;    /* the server's name for this session */
    char *instance;      /* the server's name for itself; NULL: not known, and no statement of ours can be stopped on it */
    uint64_t max_packet; /* max_allowed_packet of the session; 0: not known */
    int64_t idle_limit_ms;
    struct hf__my_plan *plans; /* prepared statements, by serial */
    size_t n_plans, plans_capacity;
};

static inline struct hf__my *hf__my_of(struct hf__conn *conn)
{
    return (struct hf__my *)(void *)conn;
}

/* Which server this is, and its limit for us. The first value is compared before anything is killed there. */
#define HF__MY_INSTANCE "SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir), @@max_allowed_packet"

/* wire: one call of libmariadb, with what it takes and what it returned. */
struct hf__my_step;
struct hf__my_call {
    int (*start)(struct hf__my_step *step); /* each of these two: 0, or the events that the call waits for */
    int (*cont)(struct hf__my_step *step, int ready);
    void (*block)(struct hf__my_step *step); /* NULL for what is never done to a borrowed handle */
    bool (*failed)(const struct hf__my_step *step);
};
struct hf__my_step {
    const struct hf__my_call *call;
    MYSQL *mysql; /* filled in by hf__my_drive */
    MYSQL_STMT *stmt;
    const char *text;
    unsigned long len;
    const struct hf__url *url;
    int code;
    my_bool flag;
    MYSQL *session;
    MYSQL_RES *result;
};
extern const struct hf__my_call hf__my_call_query, hf__my_call_store, hf__my_call_next, hf__my_call_ping, hf__my_call_reset,
    hf__my_call_use, hf__my_call_prepare, hf__my_call_execute, hf__my_call_stmt_store, hf__my_call_stmt_next, hf__my_call_stmt_close;

/* Drives a call to its end. False when the deadline passed before: then its socket has been shut down. */
bool hf__my_drive(struct hf__my *self, struct hf__my_step *step, struct hf__deadline deadline);
/* The same, and what it means: at the deadline the statement is stopped on the server, an error is read and classed. */
hf_status hf__my_step(struct hf__my *self, struct hf__my_step *step, struct hf__deadline deadline, hf_error *err);
/* Runs text; *out, which may be NULL, is its first result, in memory: the caller frees it. Further results are read and dropped. */
hf_status hf__my_text(struct hf__my *self, const char *sql, struct hf__deadline deadline, MYSQL_RES **out, hf_error *err);
/* Closes what is left of a session or of a login that failed; waits for next to nothing. */
void hf__my_hang_up(struct hf__my *self);
void hf__my_close_stmt(struct hf__my *self, MYSQL_STMT *stmt);
/* HF_DATABASE when a command of that many bytes is more than the server takes: it would hang up without a word. */
hf_status hf__my_check_packet(const struct hf__my *self, uint64_t bytes, hf_error *err);
struct hf__my_class {
    unsigned number;
    hf_status status;
    bool retire;      /* the server will go on refusing: the next attempt should meet another connection */
    bool rolled_back; /* with all that the transaction had done */
};
struct hf__my_class hf__my_class(unsigned number, bool mariadb);
enum hf__transaction hf__my_transaction(struct hf__conn *conn);
hf_status hf__my_check_transaction(struct hf__my *self, hf_error *err);

/* login: connects with self->url and fills mysql, id, tls and base.server. */
hf_status hf__my_login(struct hf__my *self, const char *program, struct hf__deadline deadline, hf_error *err);
void hf__my_read_server(struct hf__my *self);

/* run */
hf_status hf__my_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                     struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);
void hf__my_forget_plans(struct hf__my *self);

/* values: parameters as libmariadb wants them, in one block of memory that must outlive the execution. */
struct hf__my_parameters {
    MYSQL_BIND *binds;
    uint64_t bytes; /* of the command that carries them */
};
hf_status hf__my_bind(const struct hf__value *values, size_t n, struct hf__my_parameters *out, hf_error *err);
/* Copies a stored result into rows. */
hf_status hf__my_fetch(MYSQL_STMT *stmt, struct hf__rows *rows, hf_error *err);

/* catalogue */
hf_status hf__my_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                          struct hf__relation *out, hf_error *err);

#endif
