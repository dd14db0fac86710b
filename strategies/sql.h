/* Builds one SQL statement: constant text of ours, quoted identifiers, and parameters that are named once and bound by name.
 * A statement remembers which values it needs and in which order, so that no caller counts question marks. */
#ifndef HF_STRATEGIES_SQL_H
#define HF_STRATEGIES_SQL_H

#include "pool/driver.h"
#include "strategies/table.h"

enum hf__param {
    HF__P_NOW,
    HF__P_LIMIT,
    HF__P_OFFSET,
    HF__P_PAGE,
    HF__P_EXPIRY, /* a lease's new end */
    HF__P_ID,     /* many */
    HF__P_TOKEN,
    HF__P_ATTEMPT, /* the number of the delivery */
    HF__P_STORED,  /* the number of the next one, as the row holds it after a claim that counted */
    HF__P_DUE,
    HF__P_REASON,
    HF__P_KEY,
    HF__P_LITERAL,  /* many: the literal parts of the key's template */
    HF__P_GROUP,    /* many */
    HF__P_EXCLUDED, /* many: keys that are known to be held */
    HF__P_IDS,      /* PostgreSQL: arrays, one element a row */
    HF__P_TOKENS,
    HF__P_STOREDS,
    HF__P_FIELD,    /* many: the cells of an INSERT */
    HF__P_DELAY,    /* of a row that is put back, in microseconds, where the database's clock counts */
    HF__P_BUSY,     /* many (PostgreSQL: one array): partition keys that are in work here */
    HF__P_HEADS,    /* FIFO: the group, or on PostgreSQL an array of groups, whose guard or head is meant */
    HF__P_TABLE,    /* PostgreSQL: the table's quoted name, as a value */
    HF__P_DEAD,     /* the dead letters' group */
    HF__P_MOST,     /* row lock: the attempt beyond which rows are passed over */
    HF__P_TO_GROUP, /* where dead letters go back to */
    HF__PARAMS
};

struct hf__bound {
    enum hf__param param;
    unsigned index;
};

struct hf__sql {
    enum hf__database database;
    char *text;
    size_t len, capacity;
    struct hf__bound *bound;
    size_t n_bound, bound_capacity;
    bool failed; /* memory ran out: finish says so */
    size_t busy; /* set after begin: leave room for so many partition keys in work (hf__busy_room); 0: none are left out */
};

/* A finished statement. */
struct hf__rendered {
    struct hf__statement statement;
    char *text;
    struct hf__bound *bound;
    size_t n_bound;
};

void hf__sql_begin(struct hf__sql *sql, enum hf__database database);
void hf__sql_put(struct hf__sql *sql, const char *constant); /* our own text only */
void hf__sql_put_n(struct hf__sql *sql, const char *constant, size_t len);
void hf__sql_number(struct hf__sql *sql, int64_t number);
void hf__sql_name(struct hf__sql *sql, const char *identifier);             /* quoted */
void hf__sql_table(struct hf__sql *sql, const struct hf_table *table);      /* schema and name, quoted */
void hf__sql_dead_table(struct hf__sql *sql, const struct hf_table *table); /* the dead letters' */
void hf__sql_bind(struct hf__sql *sql, enum hf__param param);
void hf__sql_bind_nth(struct hf__sql *sql, enum hf__param param, unsigned index);
void hf__sql_list(struct hf__sql *sql, enum hf__param param, size_t n); /* (?, ?, ...) */
/* Moves what was built into *out and leaves sql empty. HF_NO_MEMORY if any step failed. Frees with hf__rendered_free.
 * keep: prepare it once for each connection. */
HF_CHECKED hf_status hf__sql_finish(struct hf__sql *sql, bool keep, struct hf__rendered *out, hf_error *err);
void hf__rendered_free(struct hf__rendered *rendered);

/* The values of a run, by name. A param with several values has a list; an index past its end takes the last value, so that a
 * statement for a longer list can be filled up. */
struct hf__args {
    struct hf__value one[HF__PARAMS];
    const struct hf__value *many[HF__PARAMS];
    size_t n_many[HF__PARAMS];
};
HF_CHECKED hf_status hf__sql_run(struct hf__conn *conn, const struct hf__rendered *rendered, const struct hf__args *args,
                                 struct hf__rows *rows, struct hf__deadline deadline, hf_error *err);

#endif
