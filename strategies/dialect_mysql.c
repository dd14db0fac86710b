#include <strings.h>

#include "strategies/fifo.h"

static void key_column(struct hf__sql *sql, const char *column)
{
    hf__sql_put(sql, "CAST(");
    hf__sql_name(sql, column);
    hf__sql_put(sql, " AS CHAR CHARACTER SET utf8mb4)");
}

static void key_literal(struct hf__sql *sql, unsigned index)
{
    hf__sql_put(sql, "CAST(");
    hf__sql_bind_nth(sql, HF__P_LITERAL, index);
    hf__sql_put(sql, " AS CHAR CHARACTER SET utf8mb4)");
}

/* ---- FIFO ---- */

static bool begins_with(const struct hf__index *index, const char *const *columns, size_t n)
{
    if (index->n_columns < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!index->columns[i] || strcasecmp(index->columns[i], columns[i]) != 0)
            return false;
    return true;
}

/* A locking read must look at its own rows only, which a small table's optimizer may see otherwise. */
static void put_forced_index(struct hf__sql *sql, const struct hf__plan *plan, const char *const *columns, size_t n)
{
    for (size_t i = 0; i < plan->relation.n_indexes; i++) {
        const struct hf__index *index = &plan->relation.indexes[i];
        if (!begins_with(index, columns, n))
            continue;
        hf__sql_put(sql, " FORCE INDEX (");
        hf__sql_name(sql, index->name);
        hf__sql_put(sql, ")");
        return;
    }
}

/* Row lock: all unfinished rows of the group, since one in work is locked and may stand anywhere. Lease: those that have a lease, and the
 * head as it is now. */
static void fifo_guard(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = true, lease = HF__HAS(plan, LOCKED_UNTIL), marks = HF__HAS(plan, PROCESSED_AT);
    const char *columns[2] = {HF__COLUMN(plan, GROUP), lease ? HF__COLUMN(plan, LOCKED_UNTIL) : HF__COLUMN(plan, PROCESSED_AT)};
    hf__sql_put(sql, "SELECT COUNT(*)");
    if (lease) {
        hf__sql_put(sql, ", (");
        hf__put_head(sql, plan, hf__put_bound_group, false);
        hf__sql_put(sql, ")");
    }
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    put_forced_index(sql, plan, columns, lease || marks ? 2 : 1);
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, " = ");
    hf__put_bound_group(sql, plan);
    if (lease) {
        hf__sql_put(sql, " AND ");
        hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(sql, " IS NOT NULL");
    } else {
        hf__put_unfinished(sql, plan, &any);
    }
    hf__sql_put(sql, " FOR UPDATE NOWAIT");
}

static void fifo_take(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "SELECT ");
    hf__put_columns(sql, plan);
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__put_takeable_head(sql, plan);
    hf__sql_put(sql, " FOR UPDATE SKIP LOCKED");
}

/* NOWAIT met a lock; a deadlock's victim is no better off. */
static bool guard_refused(const hf_error *err)
{
    enum { MARIADB_LOCK_WAIT_TIMEOUT = 1205, DEADLOCK = 1213, MYSQL_LOCK_NOWAIT = 3572 };
    return err->native_code == MARIADB_LOCK_WAIT_TIMEOUT || err->native_code == DEADLOCK || err->native_code == MYSQL_LOCK_NOWAIT;
}

static void column_type(struct hf__sql *sql, enum hf__role role)
{
    static const char *const types[HF__ROLES] = {
        [HF__ROLE_ID] = "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        [HF__ROLE_PAYLOAD] = "LONGBLOB",
        [HF__ROLE_HEADERS] = "JSON",
        [HF__ROLE_ATTEMPT] = "INT NOT NULL DEFAULT 1",
        [HF__ROLE_LAST_ERROR] = "TEXT",
        [HF__ROLE_GROUP] = "VARCHAR(255)",
        [HF__ROLE_PRIORITY] = "INT NOT NULL DEFAULT 0",
        [HF__ROLE_PARTITION_KEY] = "VARCHAR(255)",
        /* UTC whatever the session's zone is, and past 2038: neither is true of a TIMESTAMP or of CURRENT_TIMESTAMP. */
        [HF__ROLE_RETRY_AFTER] = "DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))",
        [HF__ROLE_PROCESSED_AT] = "DATETIME(6) NULL",
        [HF__ROLE_LOCKED_UNTIL] = "DATETIME(6) NULL",
    };
    hf__sql_put(sql, types[role]);
}

#define TABLE_OPTIONS " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

static const char *table_options(const struct hf_table *table)
{
    (void)table;
    return TABLE_OPTIONS;
}

/* A lock's name is database, dot, key; its SHA-256 where that is longer than a name may be, or holds a character that a name
 * (utf8mb3) cannot. MySQL puts names in lower case, so there a key with capitals cannot be one, either. It is computed in a table of one
 * row, so that the lock function stands outside and runs once. */
#define LOCK_NAME_IF(as_a_name)                                                                  \
    "(CASE WHEN CHAR_LENGTH(k.n) <= 64 AND CAST(CONVERT(" as_a_name " USING utf8mb4) AS BINARY)" \
    " = CAST(k.n AS BINARY) THEN k.n ELSE SHA2(k.n, 256) END"
#define LOCK_NAME LOCK_NAME_IF("CONVERT(k.n USING utf8mb3)")
#define FOLDED_LOCK_NAME LOCK_NAME_IF("LOWER(CONVERT(k.n USING utf8mb3))")
#define LOCK_FROM ") FROM (SELECT CONCAT(LOWER(DATABASE()), '.', CAST(? AS CHAR CHARACTER SET utf8mb4)) AS n) AS k"

const struct hf__dialect hf__dialect_mysql = {
    .size = sizeof(struct hf__dialect),
    .database = HF__MYSQL,
    .floor = {[HF__ROW_LOCK] = 80001, [HF__LEASE] = 80001, [HF__ADVISORY_LOCK] = 80001},
    .mariadb_floor = {[HF__ROW_LOCK] = 100600, [HF__LEASE] = 100600, [HF__ADVISORY_LOCK] = 100600},
    .greatest = "GREATEST",
    .least = "LEAST",
    .now = "UTC_TIMESTAMP(6)",
    .later_open = "TIMESTAMPADD(MICROSECOND, ",
    .later_close = ", UTC_TIMESTAMP(6))",
    .any_case = true,
    .key_column = key_column,
    .key_literal = key_literal,
    .key_open = "CONCAT(",
    .key_comma = ", ",
    .key_close = ")",
    .bytes_open = "CAST(",
    .bytes_close = " AS BINARY)",
    .exact_open = "CAST(CONVERT(",
    .exact_close = " USING utf8mb4) AS BINARY)",
    .key_is_bytes = true,
    .try_lock = "SELECT GET_LOCK" LOCK_NAME ", 0" LOCK_FROM,
    .unlock = "SELECT RELEASE_LOCK" LOCK_NAME LOCK_FROM,
    .folded_try_lock = "SELECT GET_LOCK" FOLDED_LOCK_NAME ", 0" LOCK_FROM,
    .folded_unlock = "SELECT RELEASE_LOCK" FOLDED_LOCK_NAME LOCK_FROM,
    .locking_read = true,
    .fifo_guard = fifo_guard,
    .fifo_take = fifo_take,
    .guard_refused = guard_refused,
    .head_join = " STRAIGHT_JOIN ",
    .head_is = " = (",
    .group_text = "",
    .column_type = column_type,
    .key_column_type = "VARCHAR(255) NOT NULL",
    .dead_id_type = "BIGINT NOT NULL PRIMARY KEY",
    .table_options = table_options,
    .dead_table_options = TABLE_OPTIONS,
};
