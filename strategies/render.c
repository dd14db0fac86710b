/* Renders every statement of a plan, once, when its subscription opens. */
#include <stdlib.h>
#include <strings.h>

#include "strategies/dead_letter.h"
#include "strategies/fifo.h"
#include "strategies/order_index.h"
#include "strategies/plan.h"

size_t hf__list_for(size_t n)
{
    size_t list = 0;
    while (((size_t)1 << list) < n)
        list++;
    return list;
}

static void begin(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_begin(sql, plan->dialect->database);
}

static hf_status keep(struct hf__sql *sql, struct hf__rendered *out, hf_error *err)
{
    return hf__sql_finish(sql, true, out, err);
}

/* A row lock's row still has the attempt that the claim read. */
void hf__put_believed(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_ID);
    if (plan->strategy->kind == HF__LEASE) {
        hf__sql_put(sql, " AND ");
        hf__sql_name(sql, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(sql, " = ");
        hf__sql_bind(sql, HF__P_TOKEN);
    }
    if (!HF__HAS(plan, ATTEMPT))
        return;
    hf__sql_put(sql, " AND ");
    hf__put_attempt(sql, plan);
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, plan->strategy->kind == HF__ROW_LOCK ? HF__P_ATTEMPT : HF__P_STORED);
}

static void put_update(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
}

/* What a change that gives the row back writes. Nothing to write: no statement is rendered, and none will be run. */
static hf_status render_return(struct hf__plan *plan, bool due, bool reason, enum hf__param attempt, struct hf__rendered *out,
                               hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    begin(&sql, plan);
    put_update(&sql, plan);
    if (HF__HAS(plan, LOCKED_UNTIL)) {
        hf__put_set(&sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(&sql, "NULL");
    }
    if (due && HF__HAS(plan, RETRY_AFTER)) {
        hf__put_set(&sql, &any, HF__COLUMN(plan, RETRY_AFTER));
        hf__put_later(&sql, plan);
    }
    if (reason && HF__HAS(plan, LAST_ERROR)) {
        hf__put_set(&sql, &any, HF__COLUMN(plan, LAST_ERROR));
        hf__sql_bind(&sql, HF__P_REASON);
    }
    if (attempt != HF__PARAMS && HF__HAS(plan, ATTEMPT)) {
        hf__put_set(&sql, &any, HF__COLUMN(plan, ATTEMPT));
        hf__sql_bind(&sql, attempt);
    }
    hf__put_believed(&sql, plan);
    hf_status status = keep(&sql, out, err);
    if (status == HF_OK && !any)
        hf__rendered_free(out);
    return status;
}

static hf_status render_ack(struct hf__plan *plan, bool reason, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    bool any = true;
    begin(&sql, plan);
    hf__put_ack(&sql, plan, NULL);
    if (reason && HF__HAS(plan, PROCESSED_AT) && HF__HAS(plan, LAST_ERROR)) {
        hf__put_set(&sql, &any, HF__COLUMN(plan, LAST_ERROR));
        hf__sql_bind(&sql, HF__P_REASON);
    }
    hf__put_believed(&sql, plan);
    return keep(&sql, out, err);
}

static hf_status render_read(struct hf__plan *plan, bool free_only, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    hf__sql_put(&sql, "SELECT ");
    hf__sql_put(&sql, HF__HAS(plan, PROCESSED_AT) ? "" : "NULL");
    if (HF__HAS(plan, PROCESSED_AT))
        hf__sql_name(&sql, HF__COLUMN(plan, PROCESSED_AT));
    hf__sql_put(&sql, ", ");
    if (HF__HAS(plan, LOCKED_UNTIL))
        hf__sql_name(&sql, HF__COLUMN(plan, LOCKED_UNTIL));
    else
        hf__sql_put(&sql, "NULL");
    hf__sql_put(&sql, ", ");
    if (HF__HAS(plan, ATTEMPT))
        hf__put_attempt(&sql, plan);
    else
        hf__sql_put(&sql, "NULL");
    hf__sql_put(&sql, ", ");
    hf__put_is_dead(&sql, plan);
    hf__sql_put(&sql, " FROM ");
    hf__put_table(&sql, plan);
    hf__sql_put(&sql, " WHERE ");
    hf__sql_name(&sql, HF__COLUMN(plan, ID));
    hf__sql_put(&sql, " = ");
    hf__sql_bind(&sql, HF__P_ID);
    if (free_only)
        hf__sql_put(&sql, " FOR UPDATE SKIP LOCKED");
    return keep(&sql, out, err);
}

static hf_status render_changes(struct hf__plan *plan, hf_error *err)
{
    struct hf__statements *s = &plan->sql;
    bool row_lock = plan->strategy->kind == HF__ROW_LOCK;
    enum hf__param counts = row_lock ? HF__P_STORED : HF__PARAMS;
    enum hf__param uncounts = row_lock ? HF__PARAMS : HF__P_ATTEMPT;
    hf_status status = render_ack(plan, false, &s->ack, err);
    if (status == HF_OK)
        status = render_ack(plan, true, &s->reject, err);
    if (status == HF_OK)
        status = render_return(plan, false, true, counts, &s->retry, err);
    if (status == HF_OK)
        status = render_return(plan, true, true, counts, &s->retry_after, err);
    if (status == HF_OK)
        status = render_return(plan, false, false, HF__PARAMS, &s->give_back, err);
    if (status == HF_OK)
        status = render_return(plan, false, false, uncounts, &s->unbegun, err);
    if (status == HF_OK)
        status = render_read(plan, false, &s->read, err);
    if (status == HF_OK && plan->strategy->kind != HF__ADVISORY_LOCK && !plan->dialect->one_writer)
        status = render_read(plan, true, &s->read_free, err);
    if (status == HF_OK && plan->strategy->kind != HF__LEASE)
        status = render_return(plan, true, false, counts, &s->aside, err);
    if (status == HF_OK && hf__table_has_dead_letter(plan->table))
        status = hf__render_dead_letter(plan, err);
    return status;
}

static void put_index(struct hf__sql *sql, const struct hf__index *index)
{
    hf__sql_put(sql, " FORCE INDEX (");
    hf__sql_name(sql, index->name);
    hf__sql_put(sql, ")");
}

/* A locking read that sorts locks every row that it sorts, and in a small table the optimizer would rather sort. Where only some groups
 * are read, rows of others may stand in front in the order of all; a lease's claim, whose locks last a moment, need not walk over them. */
static void put_in_order(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool one_group = plan->n_groups == 1 || plan->table->fifo;
    if (!plan->dialect->locking_read)
        return;
    const struct hf__index *index = one_group ? hf__order_index(plan->table, plan->dialect, &plan->relation, true) : NULL;
    if (!index && (plan->n_groups == 0 || plan->strategy->kind == HF__ROW_LOCK))
        index = hf__order_index(plan->table, plan->dialect, &plan->relation, false);
    if (index)
        put_index(sql, index);
}

static void put_row_lock(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, plan->table->no_key_update ? " FOR NO KEY UPDATE SKIP LOCKED" : " FOR UPDATE SKIP LOCKED");
}

/* The claim of a row lock, and of a lease where the database cannot update and return in one statement. */
static void put_locking_claim(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__sql_put(sql, "SELECT ");
    hf__put_columns(sql, plan);
    hf__sql_put(sql, " FROM ");
    hf__put_table(sql, plan);
    put_in_order(sql, plan);
    hf__put_claimable(sql, plan, &any);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT ");
    hf__sql_bind(sql, HF__P_LIMIT);
    put_row_lock(sql, plan);
}

/* A change by a list of ids goes by their index: in a small table the optimizer would rather read all rows, and so wait for those that
 * others have locked. */
static void put_by_id(struct hf__sql *sql, const struct hf__plan *plan)
{
    for (size_t i = 0; i < plan->relation.n_indexes; i++) {
        const struct hf__index *index = &plan->relation.indexes[i];
        if (!index->unique || index->n_columns != 1 || !index->columns[0] || strcasecmp(index->columns[0], HF__COLUMN(plan, ID)) != 0)
            continue;
        put_index(sql, index);
        return;
    }
}

/* The same where rows of keys that are in work stand in front. A locking read along the order's index keeps the rows that it passed over
 * locked, against the next claim; so they are passed over in a plain read of a page, and locked by their ids, in order, until there are
 * enough. */
static void put_chosen_claim(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool chosen = false, any = false;
    hf__sql_put(sql, "SELECT ");
    hf__put_columns(sql, plan);
    hf__sql_put(sql, " FROM (SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " AS hf_chosen FROM ");
    hf__put_table(sql, plan);
    put_in_order(sql, plan);
    hf__put_claimable(sql, plan, &chosen);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT ");
    hf__sql_bind(sql, HF__P_PAGE);
    hf__sql_put(sql, " OFFSET ");
    hf__sql_bind(sql, HF__P_OFFSET);
    hf__sql_put(sql, ") AS hf_page STRAIGHT_JOIN ");
    hf__put_table(sql, plan);
    put_by_id(sql, plan);
    hf__sql_put(sql, " ON ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = hf_chosen");
    hf__put_claimable(sql, plan, &any);
    hf__sql_put(sql, " LIMIT ");
    hf__sql_bind(sql, HF__P_LIMIT);
    hf__sql_put(sql, " FOR UPDATE SKIP LOCKED");
}

static hf_status render_claim(struct hf__plan *plan, size_t busy, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    bool lease = plan->strategy->kind == HF__LEASE && plan->dialect->lease_claim;
    begin(&sql, plan);
    sql.busy = busy;
    if (lease)
        plan->dialect->lease_claim(&sql, plan);
    else if (busy > 0 && plan->dialect->locking_read)
        put_chosen_claim(&sql, plan);
    else
        put_locking_claim(&sql, plan);
    return keep(&sql, out, err);
}

/* The claim of a row lock where a locking read looks at its conditions again once it has the lock, and keeps the lock where they fail
 * then (PostgreSQL): a row that was put back with a delay in that moment would stay locked, due and hidden, for as long as the handler of
 * another row runs. So rows are found by a plain read in order, and each is locked by its id alone, one after the other until there are
 * enough; hf_still says whether it may be claimed now that it is locked. */
static void put_first_claim(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool chosen = false, still = true;
    hf__sql_put(sql, "SELECT ");
    hf__put_columns(sql, plan);
    hf__sql_put(sql, ", CASE WHEN TRUE");
    hf__put_claimable(sql, plan, &still);
    hf__sql_put(sql, " THEN 1 ELSE 0 END AS hf_still FROM (SELECT ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " AS hf_chosen FROM ");
    hf__put_table(sql, plan);
    hf__put_claimable(sql, plan, &chosen);
    hf__put_order(sql, plan);
    hf__sql_put(sql, " LIMIT 128) AS hf_page, LATERAL (SELECT * FROM "); /* a number, so that it is planned for few rows */
    hf__put_table(sql, plan);
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = hf_chosen");
    put_row_lock(sql, plan);
    hf__sql_put(sql, ") AS hf_locked LIMIT (SELECT "); /* of a bare parameter it would be planned anew each time */
    hf__sql_bind(sql, HF__P_LIMIT);
    hf__sql_put(sql, "::bigint)");
}

/* An id may stand in several parts of a partitioned table. */
static bool has_first_claim(const struct hf__plan *plan)
{
    return plan->strategy->kind == HF__ROW_LOCK && plan->dialect->looks_again && plan->relation.kind == HF__RELATION_TABLE;
}

static hf_status render_first_claim(struct hf__plan *plan, size_t busy, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    sql.busy = busy;
    put_first_claim(&sql, plan);
    return keep(&sql, out, err);
}

static hf_status render_claims(struct hf__plan *plan, hf_error *err)
{
    bool first = has_first_claim(plan);
    hf_status status = render_claim(plan, 0, &plan->sql.claim, err);
    if (status == HF_OK && first)
        status = render_first_claim(plan, 0, &plan->sql.first, err);
    for (size_t i = 0; status == HF_OK && hf__busy_room(plan, i) > 0; i++) {
        status = render_claim(plan, hf__busy_room(plan, i), &plan->sql.claim_busy[i], err);
        if (status == HF_OK && first)
            status = render_first_claim(plan, hf__busy_room(plan, i), &plan->sql.first_busy[i], err);
    }
    return status;
}

static void put_id_list(struct hf__sql *sql, const struct hf__plan *plan, size_t n)
{
    hf__sql_put(sql, " WHERE ");
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " IN ");
    hf__sql_list(sql, HF__P_ID, n);
}

/* A locking read of rows by id, with what is believed of them beside it. */
static hf_status render_lock_list(struct hf__plan *plan, size_t n, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    hf__sql_put(&sql, "SELECT ");
    hf__sql_name(&sql, HF__COLUMN(plan, ID));
    hf__sql_put(&sql, ", ");
    hf__sql_name(&sql, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_put(&sql, ", ");
    if (HF__HAS(plan, ATTEMPT))
        hf__put_attempt(&sql, plan);
    else
        hf__sql_put(&sql, "NULL");
    hf__sql_put(&sql, " FROM ");
    hf__put_table(&sql, plan);
    put_by_id(&sql, plan);
    put_id_list(&sql, plan, n);
    hf__sql_put(&sql, " FOR UPDATE SKIP LOCKED");
    return keep(&sql, out, err);
}

static hf_status render_list_change(struct hf__plan *plan, size_t n, void (*put)(struct hf__sql *, const struct hf__plan *),
                                    struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    put(&sql, plan);
    put_id_list(&sql, plan, n);
    return keep(&sql, out, err);
}

static void put_update_by_id(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    put_by_id(sql, plan);
}

/* A DELETE takes no index hint. The ids as a table that is read first make each row a look-up; that needs a type, so only integers go
 * together, and other ids one by one. */
static hf_status render_delete_list(struct hf__plan *plan, size_t n, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    const struct hf__column *id = plan->role[HF__ROLE_ID];
    if (n > 1 && id->kind != HF__COLUMN_INTEGER)
        return HF_OK;
    begin(&sql, plan);
    if (n == 1) {
        hf__put_ack(&sql, plan, NULL);
        put_id_list(&sql, plan, 1);
        return keep(&sql, out, err);
    }
    hf__sql_put(&sql, "DELETE t FROM (");
    for (size_t i = 0; i < n; i++) {
        hf__sql_put(&sql, i ? " UNION ALL SELECT CAST(" : "SELECT CAST(");
        hf__sql_bind_nth(&sql, HF__P_ID, (unsigned)i);
        hf__sql_put(&sql, id->is_unsigned ? " AS UNSIGNED)" : " AS SIGNED)");
        if (i == 0)
            hf__sql_put(&sql, " AS id");
    }
    hf__sql_put(&sql, ") AS i STRAIGHT_JOIN ");
    hf__put_table(&sql, plan);
    hf__sql_put(&sql, " AS t ON t.");
    hf__sql_name(&sql, HF__COLUMN(plan, ID));
    hf__sql_put(&sql, " = i.id");
    return keep(&sql, out, err);
}

static void put_mark(struct hf__sql *sql, const struct hf__plan *plan)
{
    put_update_by_id(sql, plan);
    hf__put_ack_set(sql, plan);
}

static void put_lease(struct hf__sql *sql, const struct hf__plan *plan)
{
    put_update_by_id(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_lease(sql, plan);
}

static void put_renewal_by_id(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    put_update_by_id(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_bind(sql, HF__P_EXPIRY);
}

static void put_renewal(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    put_update(sql, plan);
    hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
    hf__sql_bind(sql, HF__P_EXPIRY);
}

static hf_status render_lists(struct hf__plan *plan, hf_error *err)
{
    struct hf__statements *s = &plan->sql;
    for (size_t k = 0; k < HF__LISTS; k++) {
        size_t n = (size_t)1 << k;
        hf_status status = render_lock_list(plan, n, &s->lock_list[k], err);
        if (status == HF_OK)
            status = HF__HAS(plan, PROCESSED_AT) ? render_list_change(plan, n, put_mark, &s->ack_list[k], err)
                                                 : render_delete_list(plan, n, &s->ack_list[k], err);
        if (status == HF_OK)
            status = render_list_change(plan, n, put_lease, &s->lease_list[k], err);
        if (status == HF_OK)
            status = render_list_change(plan, n, put_renewal_by_id, &s->renew_list[k], err);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

static hf_status render_renew_one(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    put_renewal(&sql, plan);
    hf__put_believed(&sql, plan);
    return keep(&sql, &plan->sql.renew, err);
}

static hf_status render_by(struct hf__plan *plan, void (*put)(struct hf__sql *, const struct hf__plan *), struct hf__rendered *out,
                           hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    put(&sql, plan);
    return keep(&sql, out, err);
}

static hf_status render_lease(struct hf__plan *plan, hf_error *err)
{
    const struct hf__dialect *dialect = plan->dialect;
    hf_status status = render_claims(plan, err);
    if (status == HF_OK)
        status = render_renew_one(plan, err);
    if (status == HF_OK && dialect->ack_set)
        status = render_by(plan, dialect->ack_set, &plan->sql.ack_set, err);
    if (status == HF_OK && dialect->renew_set)
        status = render_by(plan, dialect->renew_set, &plan->sql.renew_set, err);
    if (status == HF_OK && dialect->locking_read)
        status = render_lists(plan, err);
    return status;
}

static hf_status render_candidates(struct hf__plan *plan, size_t excluded, size_t busy, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    begin(&sql, plan);
    sql.busy = busy;
    hf__sql_put(&sql, "SELECT ");
    hf__sql_name(&sql, HF__COLUMN(plan, ID));
    hf__sql_put(&sql, ", ");
    hf__put_key(&sql, plan);
    hf__sql_put(&sql, " AS hf_key, ");
    if (HF__HAS(plan, ATTEMPT))
        hf__put_attempt(&sql, plan);
    else
        hf__sql_put(&sql, "NULL");
    hf__sql_put(&sql, " AS hf_attempt FROM ");
    hf__put_table(&sql, plan);
    hf__put_claimable(&sql, plan, &any);
    if (excluded) {
        hf__put_and(&sql, &any);
        hf__put_key_bytes(&sql, plan);
        hf__sql_put(&sql, " NOT IN ");
        hf__sql_list(&sql, HF__P_EXCLUDED, excluded);
    }
    hf__put_order(&sql, plan);
    hf__sql_put(&sql, " LIMIT ");
    hf__sql_bind(&sql, HF__P_LIMIT);
    hf__sql_put(&sql, " OFFSET ");
    hf__sql_bind(&sql, HF__P_OFFSET);
    return keep(&sql, out, err);
}

static hf_status render_candidate_lists(struct hf__plan *plan, size_t busy, struct hf__rendered *out, hf_error *err)
{
    hf_status status = render_candidates(plan, 0, busy, &out[0], err);
    for (size_t k = 0; status == HF_OK && k < HF__LISTS; k++)
        status = render_candidates(plan, (size_t)1 << k, busy, &out[k + 1], err);
    return status;
}

/* The row with this id, if it is still claimable, still renders this key and still has the attempt that the candidate showed. */
static void put_takeable(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__put_claimable(sql, plan, &any);
    hf__put_and(sql, &any);
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_ID);
    hf__put_and(sql, &any);
    hf__put_key_bytes(sql, plan);
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_KEY);
    if (!HF__HAS(plan, ATTEMPT))
        return;
    hf__put_and(sql, &any);
    hf__put_attempt(sql, plan);
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_ATTEMPT);
}

static hf_status render_take(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    if (!HF__HAS(plan, ATTEMPT))
        return HF_OK;
    begin(&sql, plan);
    put_update(&sql, plan);
    hf__put_set(&sql, &any, HF__COLUMN(plan, ATTEMPT));
    hf__sql_bind(&sql, HF__P_STORED);
    put_takeable(&sql, plan);
    if (plan->dialect->returning) {
        hf__sql_put(&sql, " RETURNING ");
        hf__put_columns(&sql, plan);
    }
    return keep(&sql, &plan->sql.take, err);
}

/* Reads the row that was taken; in a table that counts no attempts this is the take itself. */
static hf_status render_taken(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    begin(&sql, plan);
    hf__sql_put(&sql, "SELECT ");
    hf__put_columns(&sql, plan);
    hf__sql_put(&sql, " FROM ");
    hf__put_table(&sql, plan);
    if (HF__HAS(plan, ATTEMPT))
        hf__put_believed(&sql, plan);
    else
        put_takeable(&sql, plan);
    return keep(&sql, &plan->sql.taken, err);
}

static hf_status render_constant(struct hf__plan *plan, const char *constant, struct hf__rendered *out, hf_error *err)
{
    if (!constant)
        return HF_OK;
    hf_status status;
    struct hf__sql sql;
    begin(&sql, plan);
    hf__sql_put(&sql, constant);
    status = keep(&sql, out, err);
    if (status != HF_OK)
        return status;
    out->bound = malloc(sizeof *out->bound);
    if (!out->bound)
        return hf__fail_memory(err);
    out->bound[0] = (struct hf__bound){.param = HF__P_KEY, .index = 0};
    out->n_bound = 1;
    return HF_OK;
}

static hf_status render_keyless(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    begin(&sql, plan);
    hf__sql_put(&sql, "SELECT ");
    hf__sql_name(&sql, HF__COLUMN(plan, ID));
    hf__sql_put(&sql, " FROM ");
    hf__put_table(&sql, plan);
    hf__put_keyless(&sql, plan, &any);
    hf__sql_put(&sql, " LIMIT 1000");
    return keep(&sql, &plan->sql.keyless, err);
}

static hf_status render_advisory(struct hf__plan *plan, hf_error *err)
{
    const struct hf__dialect *dialect = plan->dialect;
    bool folded = dialect->folded_try_lock && !plan->server.mariadb;
    hf_status status = render_candidate_lists(plan, 0, plan->sql.candidates, err);
    for (size_t i = 0; status == HF_OK && hf__busy_room(plan, i) > 0; i++)
        status = render_candidate_lists(plan, hf__busy_room(plan, i), &plan->sql.candidates_busy[i * (HF__LISTS + 1)], err);
    if (status == HF_OK)
        status = render_take(plan, err);
    if (status == HF_OK)
        status = render_taken(plan, err);
    if (status == HF_OK)
        status = render_constant(plan, folded ? dialect->folded_try_lock : dialect->try_lock, &plan->sql.try_lock, err);
    if (status == HF_OK)
        status = render_constant(plan, folded ? dialect->folded_unlock : dialect->unlock, &plan->sql.unlock, err);
    if (status == HF_OK)
        status = render_keyless(plan, err);
    return status;
}

/* Is anything due, or held by a lease that may yet end? On a FIFO table: of the rows without a group; the heads have their own. */
static hf_status render_pending(struct hf__plan *plan, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    begin(&sql, plan);
    hf__sql_put(&sql, "SELECT 1 FROM ");
    hf__put_table(&sql, plan);
    hf__put_unfinished(&sql, plan, &any);
    hf__put_claimed_groups(&sql, plan, &any);
    hf__put_due(&sql, plan, &any);
    if (plan->table->n_key > 0) {
        hf__put_and(&sql, &any);
        hf__sql_put(&sql, "LENGTH(");
        hf__put_key(&sql, plan);
        hf__sql_put(&sql, ") > 0");
    }
    hf__sql_put(&sql, " LIMIT 1");
    return keep(&sql, &plan->sql.pending, err);
}

hf_status hf__render_all(struct hf__plan *plan, hf_error *err)
{
    static hf_status (*const own[])(struct hf__plan *, hf_error *) = {
        [HF__ROW_LOCK] = render_claims, [HF__LEASE] = render_lease, [HF__ADVISORY_LOCK] = render_advisory};
    hf_status status = own[plan->strategy->kind](plan, err);
    if (status == HF_OK)
        status = render_changes(plan, err);
    if (status == HF_OK)
        status = hf__render_fifo(plan, err);
    if (status == HF_OK)
        status = render_pending(plan, err);
    return status;
}

/* The struct holds nothing but rendered statements, so it is read as an array of them. */
void hf__statements_free(struct hf__statements *statements)
{
    struct hf__rendered *each = (struct hf__rendered *)statements;
    for (size_t i = 0; i < sizeof *statements / sizeof *each; i++)
        hf__rendered_free(&each[i]);
}
