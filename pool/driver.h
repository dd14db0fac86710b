/* One connection to one database, behind a table of methods. A driver is one file and one row in hf__driver_for().
 *
 * Rules for every method: it may block, but never past its deadline (plus a grace of about one second to stop the
 * statement on the server); it is called by one thread at a time for a connection; the pool's lock is never held.
 * Errors are told apart by SQLSTATE or number, never by message text, and come back as a status:
 *   HF_TRANSIENT  try again: deadlock, serialization, lock timeout, read-only, too many connections, shutting down
 *   HF_LOST       the connection is gone (conn->lost is set)
 *   HF_TIMEOUT    the deadline passed: the statement was stopped on the server as far as it can be reached, and
 *                 conn->lost is set, so that no answer of it can reach a later user
 *                 (SQLite: a statement outside a transaction was undone for certain, and conn->lost stays false; a lock that
 *                 was not free until the deadline is HF_TRANSIENT)
 *   HF_DENIED, HF_DATABASE   permanent
 * A transient error after which the connection should not be used by others (read-only server, shutting down) sets conn->retire. */
#ifndef HF_POOL_DRIVER_H
#define HF_POOL_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "catalogue.h"
#include "deadline.h"
#include "error.h"
#include "url.h"
#include "value.h"

struct hf__server {
    enum hf__database database;
    bool mariadb;
    int version;   /* major * 10000 + minor * 100 + patch: PostgreSQL 15.18 is 151800 and 9.5.3 is 90503, MariaDB 10.11.6 is 101106 */
    char text[64]; /* "PostgreSQL 15.18", "MariaDB 10.11.6", "MySQL 9.7.0", "SQLite 3.40.1" */
};

enum hf__isolation { HF__ISOLATION_DEFAULT, HF__READ_COMMITTED, HF__REPEATABLE_READ, HF__SERIALIZABLE };
enum hf__sqlite_mode { HF__DEFERRED, HF__IMMEDIATE, HF__EXCLUSIVE };

enum hf__transaction {
    HF__TX_NONE,
    HF__TX_OPEN,
    HF__TX_FAILED, /* only a rollback helps: PostgreSQL after an error, MySQL and SQLite after one that rolled all of it back */
    HF__TX_UNKNOWN
};

/* SQL text that is prepared once for each connection. It must outlive every connection that ran it, or be forgotten first. */
struct hf__statement {
    const char *sql; /* one statement; parameters $1.. on PostgreSQL, ? on MySQL, ?1.. or ? on SQLite */
    uint64_t serial; /* from hf__statement_serial(): unique in the process; 0: do not keep it prepared */
};
uint64_t hf__statement_serial(void);

/* How a session is set up after the login. Every session: UTC; READ COMMITTED as the session's default (PostgreSQL, MySQL);
 * a SQL mode without surprises (MySQL: strict, no ANSI quotes changes to rely on); client encoding UTF-8 (utf8mb4);
 * the server's idle and lock timeouts that would break a held connection raised for our session. */
struct hf__session_options {
    int64_t connect_timeout_ms;   /* of one attempt */
    int64_t idle_limit_ms;        /* MySQL: wait_timeout of the session, rounded up to seconds: bounds how long a dead host's locks live */
    const char *application_name; /* PostgreSQL: application_name; MySQL: connection attribute program_name; may be NULL */
};

/* What a pool's connections have cost their server, summed up. */
struct hf__traffic {
    atomic_uint_fast64_t round_trips; /* calls that waited for an answer; connecting is not among them */
    atomic_uint_fast64_t commits;     /* transactions committed, those of single statements included */
};

struct hf__conn {
    const struct hf__driver *driver;
    struct hf__traffic *traffic; /* NULL, or where it is counted: its pool's */
    struct hf__server server;
    pid_t owner;   /* a forked child never speaks on its parent's connection: every wrapper checks it */
    bool lost;     /* set once, by the driver: nothing but close helps */
    bool retire;   /* set by the driver or its user: close on return */
    bool borrowed; /* the native handle belongs to the caller: close leaves it alone, the session is not set up */
    bool pooler;   /* no session state, no named prepared statements */
};

#define HF__DRIVER_NOTICES_CLOSE 1u /* alive() sees a session that the server ended */

struct hf__driver {
    size_t size; /* of this struct: slots are only ever appended (pipelining will be) */
    enum hf__database database;
    const char *name;
    unsigned capabilities;

    /* Connects, logs in, sets up the session, reads the version. On success *out is owned by the caller (close). */
    hf_status (*connect)(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                         struct hf__conn **out, hf_error *err);
    /* Wraps a handle of the user's (PGconn *, MYSQL *, sqlite3 *) for enqueue; changes nothing of its session. */
    hf_status (*borrow)(void *native, struct hf__conn **out, hf_error *err);
    void (*close)(struct hf__conn *conn); /* does not wait for the server; in a forked child: frees, sends nothing */

    /* Runs one prepared statement. rows may be NULL when no row and no count is wanted; else it is cleared and filled:
     * all rows, exact bytes, and the count of matched rows. A BYTES or TEXT value goes to bytes, text and JSON columns alike. */
    hf_status (*run)(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                     struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);
    /* Runs constant SQL without parameters and without an answer of interest (SAVEPOINT, DDL, several statements at once; MySQL:
     * one statement). */
    hf_status (*exec)(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err);

    hf_status (*begin)(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode, struct hf__deadline deadline,
                       hf_error *err);
    /* A commit that the server answers with ROLLBACK is HF_DATABASE. HF_LOST and HF_TIMEOUT: the outcome is not known. */
    hf_status (*commit)(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
    hf_status (*rollback)(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
    enum hf__transaction (*transaction)(struct hf__conn *conn); /* what the protocol knows; no round trip */

    bool (*alive)(struct hf__conn *conn); /* no round trip: false (and conn->lost) if the server is seen to have closed it */
    hf_status (*ping)(struct hf__conn *conn, struct hf__deadline deadline,
                      hf_error *err); /* one round trip; allowed inside a transaction */
    /* Back to how connect left it: rolls back, resets what a user of the native handle may have changed, sets up the session again. */
    hf_status (*reset)(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);

    /* Reads the catalogue. schema NULL: the connection's own (search_path, current database, main). No such relation:
     * HF_OK with kind NONE. Free with hf__relation_free. */
    hf_status (*describe)(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                          struct hf__relation *out, hf_error *err);

    void *(*native)(struct hf__conn *conn);
    void (*thread_begin)(void); /* once in each thread that will call the driver; may be NULL */
    void (*thread_end)(void);
};

/* NULL when this build was made without it. */
const struct hf__driver *hf__driver_for(enum hf__database database);
const char *hf__database_name(enum hf__database database); /* "PostgreSQL", "MySQL", "SQLite" */

/* The wrappers that everything above the drivers calls. They check the process and conn->lost first. */
HF_CHECKED hf_status hf__conn_open(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                                   struct hf__conn **out, hf_error *err);
HF_CHECKED hf_status hf__conn_borrow(enum hf__database database, void *native, struct hf__conn **out, hf_error *err);
void hf__conn_close(struct hf__conn *conn); /* NULL is allowed */
HF_CHECKED hf_status hf__conn_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                                  struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_begin(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode,
                                    struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
/* Ends what transaction is open, keeping nothing of it. A connection that cannot even do that is set to retire. */
void hf__conn_end(struct hf__conn *conn, struct hf__deadline deadline);
enum hf__transaction hf__conn_transaction(struct hf__conn *conn);
bool hf__conn_alive(struct hf__conn *conn);
HF_CHECKED hf_status hf__conn_ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__conn_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                                       struct hf__relation *out, hf_error *err);
void *hf__conn_native(struct hf__conn *conn);
void hf__driver_thread_begin(enum hf__database database);
void hf__driver_thread_end(enum hf__database database);

#endif
