/* What the databases say differently. A dialect is one file and one row in hf__dialect_of(). */
#ifndef HF_STRATEGIES_DIALECT_H
#define HF_STRATEGIES_DIALECT_H

#include "strategies/sql.h"

struct hf__plan;

struct hf__dialect {
    size_t size;
    enum hf__database database;
    int floor[3];         /* the version that each strategy needs, by enum hf__strategy_kind; 0: not offered */
    int mariadb_floor[3]; /* the same where the server is MariaDB */
    const char *greatest, *least;
    const char *now;                      /* the database's own clock, as the columns keep times, */
    const char *later_open, *later_close; /* and so many microseconds after it */
    const char *is_time;                  /* behind a column: what it holds is a time at all. NULL: its type says so */
    bool nulls_last;                      /* an ascending order puts NULL last unless told otherwise */
    bool null_order;                      /* NULLS FIRST and NULLS LAST may be written */
    bool any_case;                        /* column names are compared without case */

    /* A key's pieces as text, and the concatenation of them. */
    void (*key_column)(struct hf__sql *sql, const char *column);
    void (*key_literal)(struct hf__sql *sql, unsigned index);
    const char *key_open, *key_comma, *key_close;
    /* Around a key so that comparing it is comparing its bytes. */
    const char *bytes_open, *bytes_close;
    /* Around a text column so that comparing it is comparing its bytes as they are read. */
    const char *exact_open, *exact_close;
    bool key_is_bytes; /* bind keys that are compared as BYTES, not as TEXT */

    /* Session locks on the parameter $1 or ?, answering 1 when it was got or given back. NULL: keys are kept in the process. */
    const char *try_lock, *unlock;
    /* The same where the server takes A and a for one lock name (MySQL, not MariaDB). NULL: as above. */
    const char *folded_try_lock, *folded_unlock;

    /* A lease's claim in one statement that returns the rows. NULL: a locking read, then a change of the rows that it found. */
    void (*lease_claim)(struct hf__sql *sql, const struct hf__plan *plan);
    /* Many rows in one statement that answers with the ids that matched; rows come as arrays. NULL: not so. */
    void (*ack_set)(struct hf__sql *sql, const struct hf__plan *plan);
    void (*renew_set)(struct hf__sql *sql, const struct hf__plan *plan);
    /* Changes of many rows are a locking read by id, then one change by a list of ids. (Neither: row by row in one transaction.) */
    bool locking_read;

    /* FIFO (fifo.h). The guard, NULL: none is needed; the take of a head; leases that are over, NULL: the group's that is bound. */
    void (*fifo_guard)(struct hf__sql *sql, const struct hf__plan *plan);
    void (*fifo_take)(struct hf__sql *sql, const struct hf__plan *plan);
    void (*fifo_stale)(struct hf__sql *sql, const struct hf__plan *plan);
    bool (*guard_refused)(const hf_error *err); /* the guard's error says that someone works on the group */
    bool fifo_many;                             /* they take an array of groups; the guard answers with the places of those it got */
    bool walks_groups;                          /* groups are found by a walk over the index, a recursive query; else by DISTINCT */
    bool looks_again;                           /* a locking read judges a row that was changed meanwhile anew, and keeps its lock in any case */
    bool lateral;                               /* heads are read by LATERAL; else this joins the table by the head's id: */
    const char *head_join, *head_is;
    const char *group_text; /* behind a group that is read to be bound again */
    int fifo_floor;         /* the version that the guard needs; 0: as the strategy */

    bool returning;             /* UPDATE .. RETURNING on a single row */
    bool one_writer;            /* a transaction that will write begins as a writer */
    bool savepoint_saves_locks; /* an error of the settle can be undone alone, keeping the row's lock */

    /* The column's type, default and constraints in a table of ours. */
    void (*column_type)(struct hf__sql *sql, enum hf__role role);
    const char *key_column_type; /* for a column that only the key names */
    const char *dead_id_type;    /* of the id where dead letters go: it is always given */
    const char *(*table_options)(const struct hf_table *table);
    const char *dead_table_options;
    bool partial_index;
    bool arrays; /* many values as one parameter */
};

extern const struct hf__dialect hf__dialect_postgres, hf__dialect_mysql, hf__dialect_sqlite;
/* Are both names of one column (or table)? NULL is none. */
bool hf__same_name(const struct hf__dialect *dialect, const char *a, const char *b);
const struct hf__dialect *hf__dialect_of(enum hf__database database);

#endif
