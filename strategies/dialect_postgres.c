#include "strategies/plan.h"

static void key_column(struct hf__sql *sql, const char *column)
{
    hf__sql_name(sql, column);
    hf__sql_put(sql, "::text");
}

static void key_literal(struct hf__sql *sql, unsigned index)
{
    hf__sql_bind_nth(sql, HF__P_LITERAL, index);
    hf__sql_put(sql, "::text");
}

/* The locked rows' places, then their update: one statement, and the subselect cannot run twice, because an ARRAY is a constant
 * of the plan. A place is unique within one table only, so the parts of a partitioned table are named by id. */
static void lease_claim(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false, parts = plan->relation.kind == HF__RELATION_PARTITIONED;
    const char *id = HF__COLUMN(plan, ID);
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_lease(sql, plan);
    hf__sql_put(sql, " WHERE ");
    if (parts)
        hf__sql_name(sql, id);
    else
        hf__sql_put(sql, "ctid");
    hf__sql_put(sql, " = ANY (ARRAY(SELECT ");
    if (parts)
        hf__sql_name(sql, id);
    else
        hf__sql_put(sql, "ctid");
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__put_claimable(sql, plan, &any);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT ");
    hf__sql_bind(sql, HF__P_LIMIT);
    hf__sql_put(sql, " FOR NO KEY UPDATE SKIP LOCKED))");
    bool where = true;
    if (parts) /* should an id be there twice after all, no lease is taken over */
        hf__put_claimable(sql, plan, &where);
    hf__sql_put(sql, " RETURNING ");
    hf__put_columns(sql, plan);
}

static void put_array(struct hf__sql *sql, enum hf__param param, const struct hf__column *column)
{
    hf__sql_bind(sql, param);
    hf__sql_put(sql, "::");
    hf__sql_put(sql, column->type);
    hf__sql_put(sql, "[]");
}

/* unnest(...) AS i(...): what is believed of each row, and its place in the group, which tells apart a row that is there twice. */
static void put_believed_rows(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "unnest(");
    put_array(sql, HF__P_IDS, plan->role[HF__ROLE_ID]);
    hf__sql_put(sql, ", ");
    put_array(sql, HF__P_TOKENS, plan->role[HF__ROLE_LOCKED_UNTIL]);
    if (HF__HAS(plan, ATTEMPT)) {
        hf__sql_put(sql, ", ");
        put_array(sql, HF__P_STOREDS, plan->role[HF__ROLE_ATTEMPT]);
    }
    hf__sql_put(sql, ") WITH ORDINALITY AS i(id, token, ");
    hf__sql_put(sql, HF__HAS(plan, ATTEMPT) ? "stored, place)" : "place)");
}

static void put_same(struct hf__sql *sql, const char *column, const char *believed)
{
    hf__sql_put(sql, "t.");
    hf__sql_name(sql, column);
    hf__sql_put(sql, " = i.");
    hf__sql_put(sql, believed);
}

static void put_matches(struct hf__sql *sql, const struct hf__plan *plan)
{
    put_same(sql, HF__COLUMN(plan, ID), "id");
    hf__sql_put(sql, " AND ");
    put_same(sql, HF__COLUMN(plan, LOCKED_UNTIL), "token");
    if (!HF__HAS(plan, ATTEMPT))
        return;
    hf__sql_put(sql, " AND ");
    put_same(sql, HF__COLUMN(plan, ATTEMPT), "stored");
}

/* The rows that are still ours and that nobody has locked: a group never waits behind one row that someone holds. */
static void put_mine(struct hf__sql *sql, const struct hf__plan *plan, const char *strength)
{
    hf__sql_put(sql, "WITH mine AS (SELECT t.");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " AS id, i.place FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " AS t JOIN ");
    put_believed_rows(sql, plan);
    hf__sql_put(sql, " ON ");
    put_matches(sql, plan);
    hf__sql_put(sql, strength);
    hf__sql_put(sql, " OF t SKIP LOCKED) ");
}

static void put_of_mine(struct hf__sql *sql, const struct hf__plan *plan, const char *from)
{
    hf__sql_put(sql, from);
    hf__sql_put(sql, "mine WHERE u.");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = mine.id RETURNING mine.place");
}

static void ack_set(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool marks = HF__HAS(plan, PROCESSED_AT);
    put_mine(sql, plan, marks ? " FOR NO KEY UPDATE" : " FOR UPDATE");
    hf__put_ack(sql, plan, "u");
    put_of_mine(sql, plan, marks ? " FROM " : " USING ");
}

static void renew_set(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    put_mine(sql, plan, " FOR NO KEY UPDATE");
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " AS u SET ");
    hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_bind(sql, HF__P_EXPIRY);
    put_of_mine(sql, plan, " FROM ");
}

static void column_type(struct hf__sql *sql, enum hf__role role)
{
    static const char *const types[HF__ROLES] = {
        [HF__ROLE_ID] = "bigserial PRIMARY KEY",
        [HF__ROLE_PAYLOAD] = "bytea",
        [HF__ROLE_HEADERS] = "jsonb",
        [HF__ROLE_ATTEMPT] = "integer NOT NULL DEFAULT 1",
        [HF__ROLE_LAST_ERROR] = "text",
        [HF__ROLE_GROUP] = "text",
        [HF__ROLE_PRIORITY] = "integer NOT NULL DEFAULT 0",
        [HF__ROLE_PARTITION_KEY] = "text",
        [HF__ROLE_RETRY_AFTER] = "timestamp with time zone NOT NULL DEFAULT now()",
        [HF__ROLE_PROCESSED_AT] = "timestamp with time zone",
        [HF__ROLE_LOCKED_UNTIL] = "timestamp with time zone",
    };
    hf__sql_put(sql, types[role]);
}

/* Room in each page for the row's next versions: with it the updates of claims and renewals stay HOT and touch no index. */
static const char *table_options(const struct hf_table *table)
{
    return hf__table_kind(table) == HF__ROW_LOCK ? "" : " WITH (fillfactor = 45)";
}

const struct hf__dialect hf__dialect_postgres = {
    .size = sizeof(struct hf__dialect),
    .database = HF__POSTGRES,
    .floor = {[HF__ROW_LOCK] = 90500, [HF__LEASE] = 90500, [HF__ADVISORY_LOCK] = 110000},
    .greatest = "GREATEST",
    .least = "LEAST",
    .nulls_last = true,
    .null_order = true,
    .key_column = key_column,
    .key_literal = key_literal,
    .key_open = "(",
    .key_comma = " || ",
    .key_close = ")",
    .bytes_open = "(",
    .bytes_close = " COLLATE \"C\")",
    .try_lock = "SELECT pg_try_advisory_lock(hashtextextended($1::text COLLATE \"C\", 0))",
    .unlock = "SELECT pg_advisory_unlock(hashtextextended($1::text COLLATE \"C\", 0))",
    .lease_claim = lease_claim,
    .ack_set = ack_set,
    .renew_set = renew_set,
    .returning = true,
    .savepoint_saves_locks = true,
    .column_type = column_type,
    .key_column_type = "text NOT NULL",
    .table_options = table_options,
    .partial_index = true,
};
