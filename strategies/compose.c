/* The clauses that all statements are composed of, each from the roles that the table has. */
#include "strategies/plan.h"

/* A table that inherits is a table of its own: its rows have the same places (ctid), and perhaps the same ids, as the parent's. */
void hf__put_table(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (plan->server.database == HF__POSTGRES && plan->relation.kind == HF__RELATION_TABLE)
        hf__sql_put(sql, "ONLY ");
    hf__sql_table(sql, plan->table);
}

void hf__put_and(struct hf__sql *sql, bool *any)
{
    hf__sql_put(sql, *any ? " AND " : " WHERE ");
    *any = true;
}

void hf__put_set(struct hf__sql *sql, bool *any, const char *column)
{
    if (*any)
        hf__sql_put(sql, ", ");
    *any = true;
    hf__sql_name(sql, column);
    hf__sql_put(sql, " = ");
}

void hf__put_unfinished(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (!HF__HAS(plan, PROCESSED_AT))
        return;
    hf__put_and(sql, any);
    hf__sql_name(sql, HF__COLUMN(plan, PROCESSED_AT));
    hf__sql_put(sql, " IS NULL");
}

/* All groups but the dead letters'. A row without a group is in none of them. */
static void put_not_dead(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    bool nullable = plan->role[HF__ROLE_GROUP]->nullable;
    hf__put_and(sql, any);
    if (nullable) {
        hf__sql_put(sql, "(");
        hf__sql_name(sql, HF__COLUMN(plan, GROUP));
        hf__sql_put(sql, " IS NULL OR ");
    }
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, " <> ");
    hf__sql_bind(sql, HF__P_DEAD);
    if (nullable)
        hf__sql_put(sql, ")");
}

void hf__put_groups(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (plan->n_groups == 0) {
        if (plan->table->dead_group)
            put_not_dead(sql, plan, any);
        return;
    }
    hf__put_and(sql, any);
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    if (plan->n_groups == 1) {
        hf__sql_put(sql, " = ");
        hf__sql_bind_nth(sql, HF__P_GROUP, 0);
    } else {
        hf__sql_put(sql, " IN ");
        hf__sql_list(sql, HF__P_GROUP, plan->n_groups);
    }
}

void hf__put_is_dead(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (!plan->table->dead_group) {
        hf__sql_put(sql, "NULL");
        return;
    }
    hf__sql_put(sql, "CASE WHEN ");
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_DEAD);
    hf__sql_put(sql, " THEN 1 ELSE 0 END");
}

void hf__put_now(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (plan->table->database_clock)
        hf__sql_put(sql, plan->dialect->now);
    else
        hf__sql_bind(sql, HF__P_NOW);
}

void hf__put_later(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (!plan->table->database_clock) {
        hf__sql_bind(sql, HF__P_DUE);
        return;
    }
    hf__sql_put(sql, plan->dialect->later_open);
    hf__sql_bind(sql, HF__P_DELAY);
    hf__sql_put(sql, plan->dialect->later_close);
}

void hf__put_is_time(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role)
{
    if (!plan->dialect->is_time)
        return;
    hf__sql_put(sql, " AND ");
    hf__sql_name(sql, plan->table->column[role]);
    hf__sql_put(sql, plan->dialect->is_time);
}

/* A column that cannot be NULL gets the bare comparison, which is a range of the index. */
static void put_passed(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role, bool *any)
{
    const struct hf__column *column = plan->role[role];
    const char *name = plan->table->column[role];
    hf__put_and(sql, any);
    if (column->nullable) {
        hf__sql_put(sql, "(");
        hf__sql_name(sql, name);
        hf__sql_put(sql, " IS NULL OR ");
    }
    hf__sql_name(sql, name);
    hf__sql_put(sql, " <= ");
    hf__put_now(sql, plan);
    hf__put_is_time(sql, plan, role);
    if (column->nullable)
        hf__sql_put(sql, ")");
}

void hf__put_due(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (HF__HAS(plan, RETRY_AFTER))
        put_passed(sql, plan, HF__ROLE_RETRY_AFTER, any);
}

void hf__put_unleased(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (HF__HAS(plan, LOCKED_UNTIL))
        put_passed(sql, plan, HF__ROLE_LOCKED_UNTIL, any);
}

void hf__put_claimed_groups(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (!plan->table->fifo) {
        hf__put_groups(sql, plan, any);
        return;
    }
    hf__put_and(sql, any);
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    hf__sql_put(sql, " IS NULL");
}

void hf__put_claimable(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    hf__put_unfinished(sql, plan, any);
    hf__put_claimed_groups(sql, plan, any);
    hf__put_due(sql, plan, any);
    hf__put_unleased(sql, plan, any);
    if (plan->table->n_key > 0) {
        hf__put_and(sql, any);
        hf__sql_put(sql, "LENGTH(");
        hf__put_key(sql, plan);
        hf__sql_put(sql, ") > 0");
    }
    hf__put_free_keys(sql, plan, any);
    hf__put_passed_over(sql, plan, any);
}

void hf__put_keyless(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    hf__put_unfinished(sql, plan, any);
    hf__put_groups(sql, plan, any);
    hf__put_due(sql, plan, any);
    hf__put_and(sql, any);
    hf__sql_put(sql, "COALESCE(LENGTH(");
    hf__put_key(sql, plan);
    hf__sql_put(sql, "), 0) = 0");
}

/* NULL retry_after is due at once and comes first, NULL priority comes last, on every database. The words are left out for a
 * column without NULLs, so that the order is the index's own. */
static void put_order_column(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role, bool nulls_last)
{
    const char *name = plan->table->column[role];
    bool tell = plan->role[role]->nullable && nulls_last != plan->dialect->nulls_last;
    if (tell && !plan->dialect->null_order) {
        hf__sql_name(sql, name);
        hf__sql_put(sql, nulls_last ? " IS NULL, " : " IS NOT NULL, ");
    }
    hf__sql_name(sql, name);
    if (tell && plan->dialect->null_order)
        hf__sql_put(sql, nulls_last ? " NULLS LAST" : " NULLS FIRST");
    hf__sql_put(sql, ", ");
}

void hf__put_order(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, " ORDER BY ");
    if (HF__HAS(plan, PRIORITY))
        put_order_column(sql, plan, HF__ROLE_PRIORITY, true);
    if (HF__HAS(plan, RETRY_AFTER))
        put_order_column(sql, plan, HF__ROLE_RETRY_AFTER, false);
    hf__sql_name(sql, HF__COLUMN(plan, ID));
}

static void put_column_or_null(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role)
{
    hf__sql_put(sql, ", ");
    if (plan->table->column[role])
        hf__sql_name(sql, plan->table->column[role]);
    else
        hf__sql_put(sql, "NULL");
}

/* What is computed has a name of its own: PostgreSQL would call a key by its only column, or a CASE "case", and then not know which of
 * the two an ORDER BY means. */
void hf__put_columns(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, ", ");
    if (HF__HAS(plan, ATTEMPT))
        hf__put_attempt(sql, plan);
    else
        hf__sql_put(sql, "NULL");
    hf__sql_put(sql, " AS hf_attempt");
    put_column_or_null(sql, plan, HF__ROLE_PRIORITY);
    put_column_or_null(sql, plan, HF__ROLE_RETRY_AFTER);
    put_column_or_null(sql, plan, HF__ROLE_GROUP);
    put_column_or_null(sql, plan, HF__ROLE_HEADERS);
    put_column_or_null(sql, plan, HF__ROLE_PAYLOAD);
    put_column_or_null(sql, plan, HF__ROLE_PARTITION_KEY);
    hf__sql_put(sql, ", ");
    if (plan->table->n_key > 0)
        hf__put_key(sql, plan);
    else
        hf__sql_put(sql, "NULL");
    hf__sql_put(sql, " AS hf_key, ");
    if (plan->n_groups > 0)
        hf__put_is_dead(sql, plan);
    else
        hf__sql_put(sql, "NULL"); /* no row of that group is claimed */
    hf__sql_put(sql, " AS hf_dead");
}

void hf__put_attempt(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, plan->dialect->greatest);
    hf__sql_put(sql, "(COALESCE(");
    hf__sql_name(sql, HF__COLUMN(plan, ATTEMPT));
    hf__sql_put(sql, ", 1), 1)");
}

/* A row that failed 32,767 times in a smallint must not make every later claim fail with an overflow. */
void hf__put_counted(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, plan->dialect->least);
    hf__sql_put(sql, "(");
    hf__put_attempt(sql, plan);
    hf__sql_put(sql, ", ");
    hf__sql_number(sql, plan->stored_max - 1);
    hf__sql_put(sql, ") + 1");
}

void hf__put_key(struct hf__sql *sql, const struct hf__plan *plan)
{
    unsigned literal = 0;
    hf__sql_put(sql, plan->dialect->key_open);
    for (size_t i = 0; i < plan->table->n_key; i++) {
        const struct hf__key_part *part = &plan->table->key[i];
        if (i)
            hf__sql_put(sql, plan->dialect->key_comma);
        if (part->is_column)
            plan->dialect->key_column(sql, part->text);
        else
            plan->dialect->key_literal(sql, literal++);
    }
    hf__sql_put(sql, plan->dialect->key_close);
}

void hf__put_key_bytes(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, plan->dialect->bytes_open);
    hf__put_key(sql, plan);
    hf__sql_put(sql, plan->dialect->bytes_close);
}

void hf__put_lease(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_bind(sql, HF__P_EXPIRY);
    if (HF__HAS(plan, ATTEMPT)) {
        hf__put_set(sql, &any, HF__COLUMN(plan, ATTEMPT));
        hf__put_counted(sql, plan);
    }
}

void hf__put_ack_set(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__sql_put(sql, " SET ");
    hf__put_set(sql, &any, HF__COLUMN(plan, PROCESSED_AT));
    hf__put_now(sql, plan);
    if (!HF__HAS(plan, LOCKED_UNTIL))
        return;
    hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(sql, "NULL");
}

void hf__put_ack(struct hf__sql *sql, const struct hf__plan *plan, const char *alias)
{
    bool marks = HF__HAS(plan, PROCESSED_AT);
    hf__sql_put(sql, marks ? "UPDATE " : "DELETE FROM ");
    hf__put_table(sql, plan);
    if (alias) {
        hf__sql_put(sql, " AS ");
        hf__sql_put(sql, alias);
    }
    if (marks)
        hf__put_ack_set(sql, plan);
}
