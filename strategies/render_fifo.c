/* The statements of a FIFO table: which groups have a head to take, the guard of a group, the take of its head. */
#include "strategies/fifo.h"

static void begin(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_begin(sql, plan->dialect->database);
}

static hf_status keep(struct hf__sql *sql, struct hf__rendered *out, hf_error *err)
{
    return hf__sql_finish(sql, true, out, err);
}

/* Where the groups are read by a DISTINCT its plan is to be made anew each time: it passes over the rows behind each head only if the
 * statistics say so, and MariaDB looks at those again when a statement is prepared, not when it is run again. */
static hf_status keep_heads(struct hf__sql *sql, const struct hf__plan *plan, struct hf__rendered *out, hf_error *err)
{
    return hf__sql_finish(sql, plan->dialect->walks_groups, out, err);
}

static void put_group_column(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_name(sql, HF__COLUMN(plan, GROUP));
}

static void put_scanned_group(struct hf__sql *sql, const struct hf__plan *plan)
{
    (void)plan;
    hf__sql_put(sql, "hf_g.hf_group");
}

void hf__put_bound_group(struct hf__sql *sql, const struct hf__plan *plan)
{
    (void)plan;
    hf__sql_bind(sql, HF__P_HEADS);
}

static void put_from_group(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group)
{
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " = ");
    group(sql, plan);
}

void hf__put_head(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group, bool with_order)
{
    static const enum hf__role order[] = {HF__ROLE_PRIORITY, HF__ROLE_RETRY_AFTER};
    bool any = true;
    hf__sql_put(sql, "SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    for (size_t i = 0; with_order && i < sizeof order / sizeof order[0]; i++) {
        if (!plan->table->column[order[i]])
            continue;
        hf__sql_put(sql, ", ");
        hf__sql_name(sql, plan->table->column[order[i]]);
    }
    put_from_group(sql, plan, group);
    hf__put_unfinished(sql, plan, &any);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT 1");
}

/* The end of the group's longest lease, NULL if no row has one. Written so that it is one step in an index on (group, locked_until), also
 * where NULLs stand in it. A row that someone marked processed while it was in work counts: its handler runs. */
static void put_last_lease(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group)
{
    hf__sql_put(sql, "(SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
    put_from_group(sql, plan, group);
    if (plan->dialect->partial_index) {
        hf__sql_put(sql, " AND ");
        hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(sql, " IS NOT NULL");
    }
    hf__sql_put(sql, " ORDER BY ");
    hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(sql, " DESC LIMIT 1)");
}

void hf__put_none_leased(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group)
{
    if (!HF__HAS(plan, LOCKED_UNTIL))
        return;
    hf__sql_put(sql, " AND NOT EXISTS (SELECT 1");
    put_from_group(sql, plan, group);
    hf__sql_put(sql, " AND ");
    hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(sql, " IS NOT NULL)");
}

void hf__put_free_head(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (!HF__HAS(plan, LOCKED_UNTIL))
        return;
    hf__sql_put(sql, " AND ");
    hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(sql, " IS NULL");
}

void hf__put_takeable_head(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = true;
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = (");
    hf__put_head(sql, plan, hf__put_bound_group, false);
    hf__sql_put(sql, ") AND ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " = ");
    hf__put_bound_group(sql, plan);
    hf__put_unfinished(sql, plan, &any);
    hf__put_due(sql, plan, &any);
    hf__put_free_keys(sql, plan, &any);
    hf__put_passed_over(sql, plan, &any);
    hf__put_free_head(sql, plan);
    hf__put_none_leased(sql, plan, hf__put_bound_group);
}

/* ---- the groups, each once ---- */

/* As a table's row has it, whatever the client's spelling or type, and none that has no row. */
static void put_named_group(struct hf__sql *sql, const struct hf__plan *plan, unsigned index)
{
    hf__sql_put(sql, "SELECT * FROM (SELECT ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " AS hf_group FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " = ");
    hf__sql_bind_nth(sql, HF__P_GROUP, index);
    hf__sql_put(sql, " LIMIT 1) AS hf_");
    hf__sql_number(sql, index);
}

/* One step of the walk from group to group, each a look-up in an index that begins with the group. */
static void put_next_group(struct hf__sql *sql, const struct hf__plan *plan, const char *after)
{
    bool any = true;
    hf__sql_put(sql, "(SELECT ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    put_group_column(sql, plan);
    hf__sql_put(sql, after);
    hf__put_unfinished(sql, plan, &any);
    hf__sql_put(sql, " ORDER BY ");
    put_group_column(sql, plan);
    hf__sql_put(sql, " LIMIT 1)");
}

/* What must stand before the SELECT. */
static void put_walk(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (plan->n_groups > 0 || !plan->dialect->walks_groups)
        return;
    hf__sql_put(sql, "WITH RECURSIVE hf_groups(hf_group) AS (SELECT ");
    put_next_group(sql, plan, " IS NOT NULL");
    hf__sql_put(sql, " UNION ALL SELECT ");
    put_next_group(sql, plan, " > hf_groups.hf_group");
    hf__sql_put(sql, " FROM hf_groups WHERE hf_group IS NOT NULL) ");
}

static void put_groups(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = true;
    if (plan->n_groups > 0) {
        for (unsigned i = 0; i < plan->n_groups; i++) {
            hf__sql_put(sql, i ? " UNION " : "(");
            put_named_group(sql, plan, i);
        }
        hf__sql_put(sql, ")");
    } else if (plan->dialect->walks_groups) {
        hf__sql_put(sql, "hf_groups");
    } else {
        hf__sql_put(sql, "(SELECT DISTINCT ");
        put_group_column(sql, plan);
        hf__sql_put(sql, " AS hf_group FROM ");
        hf__put_table(sql, plan);
        hf__sql_put(sql, " WHERE ");
        put_group_column(sql, plan);
        hf__sql_put(sql, " IS NOT NULL");
        hf__put_unfinished(sql, plan, &any);
        hf__sql_put(sql, ")");
    }
    hf__sql_put(sql, " AS hf_g");
}

/* FROM the groups and their heads, up to further conditions. Columns of the table are named bare: only the head has them. */
static void put_heads(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, " FROM ");
    put_groups(sql, plan);
    if (plan->dialect->lateral) {
        hf__sql_put(sql, " CROSS JOIN LATERAL (");
        hf__put_head(sql, plan, put_scanned_group, true);
        hf__sql_put(sql, ") AS hf_h");
    } else {
        hf__sql_put(sql, plan->dialect->head_join);
        hf__put_table(sql, plan);
        hf__sql_put(sql, " AS hf_h ON hf_h.");
        hf__sql_name(sql, HF__COLUMN(plan, ID));
        hf__sql_put(sql, plan->dialect->head_is);
        hf__put_head(sql, plan, put_scanned_group, false);
        hf__sql_put(sql, ")");
    }
    hf__sql_put(sql, " WHERE hf_g.hf_group IS NOT NULL");
    if (plan->n_groups == 0 && plan->table->dead_group) {
        hf__sql_put(sql, " AND hf_g.hf_group <> ");
        hf__sql_bind(sql, HF__P_DEAD);
    }
}

/* The group's longest lease compared with now; what holds where there is none. */
static void put_lease_is(struct hf__sql *sql, const struct hf__plan *plan, const char *compared, const char *none)
{
    hf__sql_put(sql, "COALESCE(");
    put_last_lease(sql, plan, put_scanned_group);
    hf__sql_put(sql, compared);
    hf__put_now(sql, plan);
    hf__sql_put(sql, none);
}

/* Candidates: the group, and whether leases that are over stand in it. */
static hf_status render_heads(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = true, lease = HF__HAS(plan, LOCKED_UNTIL);
    begin(&sql, plan);
    put_walk(&sql, plan);
    hf__sql_put(&sql, "SELECT hf_g.hf_group");
    hf__sql_put(&sql, plan->dialect->group_text);
    hf__sql_put(&sql, ", ");
    if (lease) {
        hf__sql_put(&sql, "CASE WHEN ");
        put_last_lease(&sql, plan, put_scanned_group);
        hf__sql_put(&sql, " IS NULL THEN 0 ELSE 1 END");
    } else {
        hf__sql_put(&sql, "0");
    }
    put_heads(&sql, plan);
    hf__put_due(&sql, plan, &any);
    if (lease) {
        hf__sql_put(&sql, " AND ");
        put_lease_is(&sql, plan, " <= ", ", TRUE)");
    }
    hf__put_order(&sql, plan);
    hf__sql_put(&sql, " LIMIT ");
    hf__sql_bind(&sql, HF__P_LIMIT);
    hf__sql_put(&sql, " OFFSET ");
    hf__sql_bind(&sql, HF__P_OFFSET);
    return keep_heads(&sql, plan, &plan->sql.heads, err);
}

/* Is any head due, or a row of its group under a lease? A row behind a head that is not due is not pending, however due it is itself. */
static hf_status render_pending_heads(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = true;
    begin(&sql, plan);
    put_walk(&sql, plan);
    hf__sql_put(&sql, "SELECT 1");
    put_heads(&sql, plan);
    hf__sql_put(&sql, " AND (");
    if (HF__HAS(plan, LOCKED_UNTIL)) {
        put_lease_is(&sql, plan, " > ", ", FALSE)");
        hf__sql_put(&sql, " OR ");
    }
    hf__sql_put(&sql, "(TRUE");
    hf__put_due(&sql, plan, &any);
    hf__sql_put(&sql, ")) LIMIT 1");
    return keep_heads(&sql, plan, &plan->sql.pending_heads, err);
}

/* ---- guard and take ---- */

static hf_status render_by(struct hf__plan *plan, void (*put)(struct hf__sql *, const struct hf__plan *), size_t busy,
                           struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    if (!put)
        return HF_OK;
    begin(&sql, plan);
    sql.busy = busy;
    put(&sql, plan);
    return keep(&sql, out, err);
}

/* Takes the token from leases that are over: else the late owner of a row that is not the head could renew it after the head was taken. */
static hf_status render_clear(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    begin(&sql, plan);
    hf__sql_put(&sql, "UPDATE ");
    hf__put_table(&sql, plan);
    hf__sql_put(&sql, " SET ");
    hf__put_set(&sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(&sql, "NULL WHERE ");
    if (plan->dialect->fifo_stale) {
        plan->dialect->fifo_stale(&sql, plan);
    } else {
        put_group_column(&sql, plan);
        hf__sql_put(&sql, " = ");
        hf__put_bound_group(&sql, plan);
        hf__sql_put(&sql, " AND ");
        hf__sql_name(&sql, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(&sql, " <= ");
        hf__put_now(&sql, plan);
        hf__put_is_time(&sql, plan, HF__ROLE_LOCKED_UNTIL);
    }
    return keep(&sql, &plan->sql.clear, err);
}

hf_status hf__render_fifo(struct hf__plan *plan, hf_error *err)
{
    const struct hf__dialect *dialect = plan->dialect;
    struct hf__statements *s = &plan->sql;
    if (!plan->table->fifo)
        return HF_OK;
    hf_status status = render_heads(plan, err);
    if (status == HF_OK)
        status = render_pending_heads(plan, err);
    if (status == HF_OK)
        status = render_by(plan, dialect->fifo_guard, 0, &s->guard, err);
    if (status == HF_OK)
        status = render_by(plan, dialect->fifo_take, 0, &s->take_head, err);
    for (size_t i = 0; status == HF_OK && hf__busy_room(plan, i) > 0; i++)
        status = render_by(plan, dialect->fifo_take, hf__busy_room(plan, i), &s->take_head_busy[i], err);
    if (status == HF_OK && HF__HAS(plan, LOCKED_UNTIL))
        status = render_clear(plan, err);
    return status;
}
