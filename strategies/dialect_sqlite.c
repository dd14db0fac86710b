#include "strategies/fifo.h"

static void key_column(struct hf__sql *sql, const char *column)
{
    hf__sql_put(sql, "CAST(");
    hf__sql_name(sql, column);
    hf__sql_put(sql, " AS TEXT)");
}

static void key_literal(struct hf__sql *sql, unsigned index)
{
    hf__sql_bind_nth(sql, HF__P_LITERAL, index);
}

static void lease_claim(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_lease(sql, plan);
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " IN (SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__put_claimable(sql, plan, &any);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT ");
    hf__sql_bind(sql, HF__P_LIMIT);
    hf__sql_put(sql, ") RETURNING ");
    hf__put_columns(sql, plan);
}

static void fifo_take(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_lease(sql, plan);
    hf__put_takeable_head(sql, plan);
    hf__sql_put(sql, " RETURNING ");
    hf__put_columns(sql, plan);
}

static void column_type(struct hf__sql *sql, enum hf__role role)
{
    static const char *const types[HF__ROLES] = {
        /* AUTOINCREMENT: an id is never used again, so a late settle cannot meet a new row under an old id. */
        [HF__ROLE_ID] = "INTEGER PRIMARY KEY AUTOINCREMENT",
        [HF__ROLE_PAYLOAD] = "BLOB",
        [HF__ROLE_HEADERS] = "TEXT",
        [HF__ROLE_ATTEMPT] = "INTEGER NOT NULL DEFAULT 1",
        [HF__ROLE_LAST_ERROR] = "TEXT",
        [HF__ROLE_GROUP] = "TEXT",
        [HF__ROLE_PRIORITY] = "INTEGER NOT NULL DEFAULT 0",
        [HF__ROLE_PARTITION_KEY] = "TEXT",
        [HF__ROLE_RETRY_AFTER] = "TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))",
        [HF__ROLE_PROCESSED_AT] = "TEXT",
        [HF__ROLE_LOCKED_UNTIL] = "TEXT",
    };
    hf__sql_put(sql, types[role]);
}

static const char *table_options(const struct hf_table *table)
{
    (void)table;
    return "";
}

const struct hf__dialect hf__dialect_sqlite = {
    .size = sizeof(struct hf__dialect),
    .database = HF__SQLITE,
    .floor = {[HF__ROW_LOCK] = 0, [HF__LEASE] = 33500, [HF__ADVISORY_LOCK] = 33500},
    .greatest = "MAX",
    .least = "MIN",
    .now = "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')",
    .later_open = "(strftime('%Y-%m-%d %H:%M:%f', 'now', printf('%+.3f seconds', ",
    .later_close = " / 1000000.0)) || '000')",
    .is_time = " GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] *'",
    .null_order = true,
    .any_case = true,
    .key_column = key_column,
    .key_literal = key_literal,
    .key_open = "(",
    .key_comma = " || ",
    .key_close = ")",
    .bytes_open = "(",
    .bytes_close = " COLLATE BINARY)",
    .exact_open = "(",
    .exact_close = " COLLATE BINARY)",
    .lease_claim = lease_claim,
    .returning = true,
    .one_writer = true,
    .fifo_take = fifo_take,
    .walks_groups = true,
    .head_join = " CROSS JOIN ",
    .head_is = " IN (", /* for = an analyzed table is read whole, for a Bloom filter of all its ids */
    .group_text = "",
    .column_type = column_type,
    .key_column_type = "TEXT NOT NULL",
    .dead_id_type = "INTEGER PRIMARY KEY",
    .table_options = table_options,
    .dead_table_options = "",
    .partial_index = true,
};
