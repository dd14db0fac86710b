#include "strategies/fifo.h"

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

/* ---- FIFO ---- */

static void put_given_groups(struct hf__sql *sql)
{
    hf__sql_put(sql, "unnest(");
    hf__sql_bind(sql, HF__P_HEADS);
    hf__sql_put(sql, "::text[])");
}

/* Each guard is tried in turn, without waiting, until there are enough. Equal groups have equal texts: that is checked at the start. */
static void fifo_guard(struct hf__sql *sql, const struct hf__plan *plan)
{
    (void)plan;
    hf__sql_put(sql, "SELECT hf_g.place FROM ");
    put_given_groups(sql);
    hf__sql_put(sql, " WITH ORDINALITY AS hf_g(hf_group, place)"
                     " WHERE pg_try_advisory_xact_lock(hashtextextended(hf_g.hf_group COLLATE \"C\", (SELECT ");
    hf__sql_bind(sql, HF__P_TABLE);
    hf__sql_put(sql, "::text::regclass::oid::bigint))) LIMIT ");
    hf__sql_bind(sql, HF__P_LIMIT);
}

static void put_given_group(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "hf_g.hf_group::");
    hf__sql_put(sql, plan->role[HF__ROLE_GROUP]->type);
}

static void put_in_given_groups(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, " = ANY (");
    hf__sql_bind(sql, HF__P_HEADS);
    hf__sql_put(sql, "::text[]::");
    hf__sql_put(sql, plan->role[HF__ROLE_GROUP]->type);
    hf__sql_put(sql, "[])");
}

/* The heads' ids are a constant of the plan, read once; then exactly those rows are locked, so that a locked head is not taken, and nothing
 * of its group instead. What the lock waited for to be settled is looked at again. */
static void put_locked_heads(struct hf__sql *sql, const struct hf__plan *plan, const char *strength)
{
    bool any = true;
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ANY (ARRAY(SELECT hf_h.");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " FROM ");
    put_given_groups(sql);
    hf__sql_put(sql, " AS hf_g(hf_group) CROSS JOIN LATERAL (");
    hf__put_head(sql, plan, put_given_group, false);
    hf__sql_put(sql, ") AS hf_h WHERE TRUE");
    hf__put_none_leased(sql, plan, put_given_group);
    hf__sql_put(sql, ")) AND ");
    put_in_given_groups(sql, plan);
    hf__put_unfinished(sql, plan, &any);
    hf__put_due(sql, plan, &any);
    hf__put_free_keys(sql, plan, &any);
    hf__put_passed_over(sql, plan, &any);
    hf__put_free_head(sql, plan);
    hf__sql_put(sql, strength);
}

static void put_taken_columns(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__put_columns(sql, plan);
    hf__sql_put(sql, ", ");
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, "::text");
}

static void fifo_take(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (!HF__HAS(plan, LOCKED_UNTIL)) {
        hf__sql_put(sql, "SELECT ");
        put_taken_columns(sql, plan);
        put_locked_heads(sql, plan, plan->table->no_key_update ? " FOR NO KEY UPDATE SKIP LOCKED" : " FOR UPDATE SKIP LOCKED");
        return;
    }
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_lease(sql, plan);
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ANY (ARRAY(SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    put_locked_heads(sql, plan, " FOR NO KEY UPDATE SKIP LOCKED");
    hf__sql_put(sql, ")) RETURNING ");
    put_taken_columns(sql, plan);
}

/* A lease that someone has locked, to renew or to settle it, stays, and its group is not taken. */
static void fifo_stale(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ANY (ARRAY(SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    put_in_given_groups(sql, plan);
    hf__sql_put(sql, " AND ");
    hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(sql, " <= ");
    hf__put_now(sql, plan);
    hf__sql_put(sql, " FOR NO KEY UPDATE SKIP LOCKED))");
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
    .now = "statement_timestamp()",
    .later_open = "(statement_timestamp() + ",
    .later_close = "::bigint * interval '1 microsecond')",
    .nulls_last = true,
    .null_order = true,
    .key_column = key_column,
    .key_literal = key_literal,
    .key_open = "(",
    .key_comma = " || ",
    .key_close = ")",
    .bytes_open = "(",
    .bytes_close = " COLLATE \"C\")",
    .exact_open = "(format('%s', ", /* as its type writes it: a cast to text would strip the blanks of a character(n) */
    .exact_close = ") COLLATE \"C\")",
    .try_lock = "SELECT pg_try_advisory_lock(hashtextextended($1::text COLLATE \"C\", 0))",
    .unlock = "SELECT pg_advisory_unlock(hashtextextended($1::text COLLATE \"C\", 0))",
    .lease_claim = lease_claim,
    .ack_set = ack_set,
    .renew_set = renew_set,
    .returning = true,
    .savepoint_saves_locks = true,
    .fifo_guard = fifo_guard,
    .fifo_take = fifo_take,
    .fifo_stale = fifo_stale,
    .fifo_many = true,
    .walks_groups = true,
    .looks_again = true,
    .lateral = true,
    .group_text = "::text",
    .fifo_floor = 110000,
    .column_type = column_type,
    .key_column_type = "text NOT NULL",
    .dead_id_type = "bigint PRIMARY KEY",
    .table_options = table_options,
    .dead_table_options = "",
    .partial_index = true,
    .arrays = true,
};
