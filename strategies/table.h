/* The table description, parsed. Immutable after parsing; may be shared by threads. */
#ifndef HF_STRATEGIES_TABLE_H
#define HF_STRATEGIES_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"

/* Every role a column may have: name, key in "columns". */
#define HF__ROLE_MAP(X)               \
    X(ID, "id")                       \
    X(PAYLOAD, "payload")             \
    X(HEADERS, "headers")             \
    X(ATTEMPT, "attempt")             \
    X(LAST_ERROR, "last_error")       \
    X(GROUP, "group")                 \
    X(PRIORITY, "priority")           \
    X(PARTITION_KEY, "partition_key") \
    X(RETRY_AFTER, "retry_after")     \
    X(PROCESSED_AT, "processed_at")   \
    X(LOCKED_UNTIL, "locked_until")

enum hf__role {
#define HF__ROLE_ENUM(name, key) HF__ROLE_##name,
    HF__ROLE_MAP(HF__ROLE_ENUM)
#undef HF__ROLE_ENUM
        HF__ROLES
};
const char *hf__role_key(enum hf__role role);

enum hf__strategy_kind { HF__ROW_LOCK, HF__LEASE, HF__ADVISORY_LOCK };

/* One piece of an advisory_lock template: literal text, or a column. */
struct hf__key_part {
    bool is_column;
    char *text; /* the literal, or the column's name */
};

struct hf_table {
    char *schema; /* NULL: the connection's own */
    char *name;
    char *display;            /* for messages: app.report_jobs */
    char *column[HF__ROLES];  /* NULL: the table does not have the role */
    struct hf__key_part *key; /* the advisory_lock template; n_key 0: none */
    size_t n_key;
    int64_t lease_us;
    enum hf__isolation isolation; /* DEFAULT: not named */
    enum hf__sqlite_mode mode;
    bool mode_named;
    bool no_key_update; /* "lock": "no_key_update" */
    bool fifo;
    bool database_clock;  /* "clock": "database" */
    int64_t max_attempts; /* 0: no limit */
    char *dead_group;     /* where dead letters go: this group, */
    char *dead_table;     /* or this table, in this schema; all NULL: there is no dead letter */
    char *dead_schema;    /* NULL: the connection's own */
    char *dead_display;   /* for messages: app.dead_jobs */
};

/* What hf_table_parse does (the public call in runtime/ forwards to it). */
HF_CHECKED hf_status hf__table_parse(const char *json, size_t len, struct hf_table **out, hf_error *err);
HF_CHECKED hf_status hf__table_load(const char *path, struct hf_table **out, hf_error *err);
struct hf_table *hf__table_copy(const struct hf_table *table); /* NULL when memory is out */
void hf__table_free(struct hf_table *table);
enum hf__strategy_kind hf__table_kind(const struct hf_table *table);
bool hf__table_has_dead_letter(const struct hf_table *table);
bool hf__table_has(const struct hf_table *table, enum hf__role role);
/* Same schema (as written) and name: a commit to one wakes the subscriptions of the other. */
bool hf__table_same(const struct hf_table *a, const struct hf_table *b);
const char *hf__strategy_kind_name(enum hf__strategy_kind kind); /* "row_lock", "lease", "advisory" */

#endif
