/* What the database's catalogue says of one relation. */
#ifndef HF_POOL_CATALOGUE_H
#define HF_POOL_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hf__column_kind {
    HF__COLUMN_INTEGER,
    HF__COLUMN_TEXT,
    HF__COLUMN_BYTES,
    HF__COLUMN_TIME,       /* without zone: PostgreSQL timestamp, MySQL DATETIME; SQLite: declared as text, or DATETIME, TIMESTAMP */
    HF__COLUMN_TIME_ZONED, /* PostgreSQL timestamptz, MySQL TIMESTAMP */
    HF__COLUMN_UUID,
    HF__COLUMN_JSON,
    HF__COLUMN_OTHER
};

struct hf__column {
    char *name;
    char *type; /* as the database writes it, usable in a cast: "timestamp(3) with time zone", "bigint unsigned" */
    enum hf__column_kind kind;
    unsigned bits; /* integers: 8 to 64 */
    bool is_unsigned;
    unsigned precision; /* times: digits of the fraction of a second, 0 to 6 */
    uint64_t max_bytes; /* text and bytes: 0 = no limit known */
    uint64_t max_chars; /* text: 0 = no limit known */
    bool nullable;
    bool has_default;
    bool local_default; /* times: the default is the session's local time */
    bool generated;     /* identity, auto-increment, rowid or a generated column: the database fills it */
    bool computed;      /* a generated column: no value can be written to it */
};

struct hf__index {
    char *name;
    bool unique;
    bool primary;
    bool partial;
    bool plain;     /* every part is a whole column, ascending, in the default NULL order: usable for a claim order */
    char **columns; /* n_columns names in order; NULL where a part is an expression */
    size_t n_columns;
    char *predicate; /* of a partial index, as the database writes it, else NULL */
};

enum hf__relation_kind { HF__RELATION_NONE, HF__RELATION_TABLE, HF__RELATION_PARTITIONED, HF__RELATION_VIEW, HF__RELATION_OTHER };

struct hf__relation {
    enum hf__relation_kind kind; /* NONE: there is no such relation */
    char *engine;                /* MySQL: "InnoDB"; else NULL */
    bool has_triggers;           /* PostgreSQL: a trigger or a foreign key, either way, may make a change fail; else false */
    struct hf__column *columns;
    size_t n_columns;
    struct hf__index *indexes; /* usable ones only: valid, ready, visible */
    size_t n_indexes;
};

void hf__relation_free(struct hf__relation *relation); /* frees the members, not the struct; safe on a zeroed one */
/* Exact name first; SQLite and MySQL, where column names are case-insensitive, then without regard to ASCII case. NULL if absent. */
const struct hf__column *hf__relation_column(const struct hf__relation *relation, const char *name, bool any_case);

#endif
