/* What the files of the SQLite driver share. */
#ifndef HF_POOL_DRIVER_SQLITE_H
#define HF_POOL_DRIVER_SQLITE_H

#include <sqlite3.h>

#include "driver.h"
#include "driver_sqlite_turn.h"

struct hf__sqlite_prepared {
    uint64_t serial;
    sqlite3_stmt *handle;
};

struct hf__sqlite {
    struct hf__conn base; /* first: a struct hf__conn * of this driver is one of these */
    sqlite3 *db;
    char *path;        /* for messages, and for opening again */
    char *synchronous; /* as in the URL */
    bool create;
    bool begun; /* begin() succeeded and nothing has ended it since: SQLite may roll back by itself without our asking */

    struct hf__sqlite_turns *turns; /* NULL on a borrowed handle */
    bool has_turn;                  /* from before a write begins until no transaction is open */

    /* The call that is running; without one, the handle is in the hands of its user and nothing interrupts it. */
    bool in_call;
    bool timed_out;
    struct hf__deadline deadline;
    struct hf__deadline busy_until;

    struct hf__sqlite_prepared *prepared; /* sorted by serial */
    size_t n_prepared, prepared_capacity;
};

struct hf__sqlite *hf__sqlite(struct hf__conn *conn);
void hf__sqlite_enter(struct hf__sqlite *s, struct hf__deadline deadline);
void hf__sqlite_leave(struct hf__sqlite *s);
/* Before a write that begins outside a transaction: waits for this connection's turn. HF_TRANSIENT when it did not come in time. */
hf_status hf__sqlite_begin_turn(struct hf__sqlite *s, struct hf__deadline deadline, hf_error *err);
/* After every call: the turn ends with the transaction. */
void hf__sqlite_end_turn(struct hf__sqlite *s);
/* Turns SQLite's last error into a status and a sentence, and marks the connection. */
hf_status hf__sqlite_fail(struct hf__sqlite *s, int rc, hf_error *err);

/* driver_sqlite_run.c */
hf_status hf__sqlite_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                         struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);
void hf__sqlite_forget_prepared(struct hf__sqlite *s);

/* driver_sqlite_describe.c */
hf_status hf__sqlite_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                              struct hf__relation *out, hf_error *err);

#endif
