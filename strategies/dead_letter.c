#include "strategies/dead_letter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "strategies/reason.h"

/* A row that cannot be moved is tried again after this. */
#define ASIDE_US (60 * INT64_C(1000000))

/* ---- which outcomes are a move ---- */

bool hf__goes_dead(const struct hf__plan *plan, const struct hf__change *change)
{
    const struct hf_table *table = plan->table;
    if (!hf__table_has_dead_letter(table) || change->row->is_dead)
        return false;
    if (change->action == HF__REJECT)
        return true;
    bool retries = change->action == HF__RETRY || change->action == HF__RETRY_AFTER;
    return retries && table->max_attempts > 0 && change->row->attempt >= table->max_attempts;
}

bool hf__is_ack(const struct hf__plan *plan, const struct hf__change *change)
{
    return change->action == HF__ACK || (change->action == HF__REJECT && !hf__goes_dead(plan, change));
}

bool hf__used_up(const struct hf__plan *plan, const struct hf__row *row)
{
    return plan->table->max_attempts > 0 && row->attempt > plan->table->max_attempts && !row->is_dead;
}

struct hf__change hf__used_up_change(const struct hf__plan *plan, struct hf__row *row, char say[HF__USED_UP_TEXT])
{
    int len = snprintf(say, HF__USED_UP_TEXT, "its last run ended without an outcome; max_attempts %" PRId64 " is used up",
                       plan->table->max_attempts);
    return (struct hf__change){.row = row, .action = HF__REJECT, .reason = say, .reason_len = (size_t)len};
}

/* ---- the move ---- */

static bool to_table(const struct hf__plan *plan)
{
    return plan->table->dead_table != NULL;
}

/* A trigger may keep a row out of the dead letters' table without an error: only a transaction can take the removal back. */
bool hf__move_needs_transaction(const struct hf__plan *plan, const struct hf__change *change)
{
    return to_table(plan) && hf__goes_dead(plan, change) && (plan->sql.dead.leave.text || plan->dead.has_triggers);
}

static const struct hf__column *reason_column(const struct hf__plan *plan)
{
    const char *name = HF__COLUMN(plan, LAST_ERROR);
    if (!name || !to_table(plan))
        return plan->role[HF__ROLE_LAST_ERROR];
    return hf__relation_column(&plan->dead, name, plan->dialect->any_case);
}

/* How many rows the statement took from the table, and how many of them reached the place of dead letters. */
static void count_moved(const struct hf__plan *plan, const struct hf__rows *rows, int64_t *taken, int64_t *kept)
{
    *taken = *kept = (int64_t)rows->matched;
    if (!to_table(plan) || plan->sql.dead.leave.text)
        return;
    if (rows->count != 1 || !hf__value_int(hf__cell(rows, 0, 0), taken) || !hf__value_int(hf__cell(rows, 0, 1), kept))
        *taken = *kept = 0;
}

static hf_status run_move(struct hf__plan *plan, struct hf__conn *conn, const struct hf__move *move, const char *id,
                          const struct hf__args *args, hf_status gone, struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    int64_t taken, kept;
    hf_status status = hf__sql_run(conn, &move->bury, args, rows, deadline, err);
    if (status != HF_OK)
        return status;
    count_moved(plan, rows, &taken, &kept);
    if (taken == 0 && kept == 0)
        return hf__fail(err, gone, "table %s: row %s is no longer ours, nothing was changed", plan->table->display, id);
    if (move->leave.text) {
        status = hf__sql_run(conn, &move->leave, args, rows, deadline, err);
        taken = (int64_t)rows->matched;
    }
    if (status == HF_OK && (taken != 1 || kept != 1))
        status =
            hf__fail(err, HF_DATABASE,
                     "table %s: row %s was not moved to the dead letters: %" PRId64 " rows left the table and %" PRId64 " arrived in %s",
                     plan->table->display, id, taken, kept, to_table(plan) ? plan->table->dead_display : plan->table->dead_group);
    return status;
}

static hf_status bury(struct hf__plan *plan, struct hf__conn *conn, const struct hf__move *move, const struct hf__change *change,
                      struct hf__args *args, hf_status gone, struct hf__deadline deadline, hf_error *err)
{
    struct hf__rows rows;
    char *reason = NULL;
    hf_status status = hf__reason_for(reason_column(plan), change->reason, change->reason_len, &reason, err);
    if (status != HF_OK)
        return status;
    args->one[HF__P_REASON] = hf__text(reason);
    hf__rows_init(&rows);
    status = run_move(plan, conn, move, change->row->id_text, args, gone, &rows, deadline, err);
    hf__rows_free(&rows);
    free(reason);
    return status;
}

hf_status hf__bury(struct hf__plan *plan, struct hf__conn *conn, const struct hf__change *change, struct hf__args *args, hf_status gone,
                   struct hf__deadline deadline, hf_error *err)
{
    return bury(plan, conn, &plan->sql.dead, change, args, gone, deadline, err);
}

/* ---- rows that render no advisory key ---- */

/* Nobody holds such a row: it is moved if it is still due and still renders no key. *moved counts it. */
static hf_status bury_keyless(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *row, size_t *moved,
                              struct hf__deadline deadline, hf_error *err)
{
    static const char reason[] = "its advisory key renders to nothing";
    struct hf__change change = {.row = row, .action = HF__REJECT, .reason = reason, .reason_len = sizeof reason - 1};
    struct hf__args args;
    bool transaction = hf__move_needs_transaction(plan, &change);
    enum hf__isolation level = plan->dialect->one_writer ? HF__ISOLATION_DEFAULT : HF__READ_COMMITTED;
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    args.one[HF__P_ID] = row->id;
    hf_status status = transaction ? hf__conn_begin(conn, level, plan->table->mode, deadline, err) : HF_OK;
    if (status == HF_OK)
        status = bury(plan, conn, &plan->sql.dead_keyless, &change, &args, HF_BUSY, deadline, err);
    if (status == HF_OK && transaction)
        status = hf__conn_commit(conn, deadline, err);
    hf__conn_end(conn, deadline);
    *moved += status == HF_OK;
    return status == HF_BUSY ? HF_OK : status; /* it renders a key by now */
}

hf_status hf__plan_bury_keyless(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, size_t *moved, hf_error *err)
{
    struct hf__args args;
    struct hf__rows rows;
    *moved = 0;
    if (!plan->sql.keyless.text || !plan->sql.dead_keyless.bury.text)
        return HF_OK;
    hf__rows_init(&rows);
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    hf_status status = hf__sql_run(conn, &plan->sql.keyless, &args, &rows, deadline, err);
    for (size_t i = 0; i < rows.count && status == HF_OK; i++) {
        struct hf__row row = {.id = *hf__cell(&rows, i, 0)};
        row.id_text = hf__id_text(&row.id);
        status = row.id_text ? bury_keyless(plan, conn, &row, moved, deadline, err) : hf__fail_memory(err);
        free(row.id_text);
    }
    hf__rows_free(&rows);
    return status;
}

/* ---- rows that a claim finds past max_attempts ---- */

void hf__note_refused(struct hf__claim *ask, const hf_error *err)
{
    if (ask->refused)
        *ask->refused = *err;
}

enum { BURIED_AT_ONCE = 64 };

struct burial {
    struct hf__change changes[BURIED_AT_ONCE];
    size_t n;
    char say[HF__USED_UP_TEXT];
};

static hf_status bury_together(struct hf__plan *plan, struct hf__conn *conn, hf__settle_fn *settle, struct hf__claim *ask,
                               struct burial *burial, struct hf__deadline deadline, hf_error *err)
{
    hf_error why = {.status = HF_OK};
    hf_status first = HF_OK;
    if (burial->n > 0)
        first = settle(plan, conn, burial->changes, burial->n, deadline, &why);
    for (size_t i = 0; i < burial->n; i++) {
        ask->buried += burial->changes[i].status == HF_OK;
        hf__row_free(burial->changes[i].row);
    }
    burial->n = 0;
    if (first != HF_OK && err)
        *err = why;
    if (first != HF_OK)
        hf__note_refused(ask, &why);
    return first;
}

hf_status hf__bury_used_up(struct hf__plan *plan, struct hf__conn *conn, hf__settle_fn *settle, struct hf__claim *ask,
                           struct hf__row **rows, size_t *n, struct hf__deadline deadline, hf_error *err)
{
    struct burial burial = {.n = 0};
    size_t kept = 0;
    hf_status first = HF_OK, status = HF_OK;
    for (size_t i = 0; i < *n; i++) {
        if (!hf__used_up(plan, rows[i])) {
            rows[kept++] = rows[i];
            continue;
        }
        burial.changes[burial.n++] = hf__used_up_change(plan, rows[i], burial.say);
        if (burial.n == BURIED_AT_ONCE)
            status = bury_together(plan, conn, settle, ask, &burial, deadline, first == HF_OK ? err : NULL);
        first = first == HF_OK ? status : first;
    }
    *n = kept;
    status = bury_together(plan, conn, settle, ask, &burial, deadline, first == HF_OK ? err : NULL);
    return first == HF_OK ? status : first;
}

hf_status hf__set_aside(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                        hf_error *err)
{
    struct hf__args args;
    int64_t now_us = hf__clock_now_us(plan->clock);
    if (!plan->sql.aside.text)
        return HF_OK;
    hf__plan_args(plan, &args, now_us);
    hf__args_row(plan, &args, row);
    hf__args_delay(plan, &args, now_us, ASIDE_US);
    return hf__sql_run(conn, &plan->sql.aside, &args, NULL, deadline, err);
}

/* ---- rows that are passed over ---- */

bool hf__passes_over(const struct hf__plan *plan)
{
    return plan->strategy->kind == HF__ROW_LOCK && plan->table->max_attempts > 0 && !HF__HAS(plan, RETRY_AFTER);
}

void hf__pass_over(struct hf__plan *plan)
{
    atomic_store(&plan->sweep_ns, hf__monotonic_ns() + ASIDE_US * 1000);
}

bool hf__takes_sweep(struct hf__plan *plan)
{
    int64_t sweep_ns = atomic_load(&plan->sweep_ns);
    return sweep_ns != 0 && hf__monotonic_ns() >= sweep_ns && atomic_compare_exchange_strong(&plan->sweep_ns, &sweep_ns, 0);
}

int64_t hf__most_attempts(const struct hf__plan *plan)
{
    bool now = atomic_load(&plan->sweep_ns) != 0 && plan->table->max_attempts < plan->stored_max;
    return now ? plan->table->max_attempts : plan->stored_max;
}

void hf__put_passed_over(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (!hf__passes_over(plan))
        return;
    hf__put_and(sql, any);
    hf__sql_put(sql, "(");
    hf__put_attempt(sql, plan);
    hf__sql_put(sql, " <= ");
    hf__sql_bind(sql, HF__P_MOST);
    if (plan->n_groups > 0 && plan->table->dead_group) { /* there no attempts are used up */
        hf__sql_put(sql, " OR ");
        hf__sql_name(sql, HF__COLUMN(plan, GROUP));
        hf__sql_put(sql, " = ");
        hf__sql_bind(sql, HF__P_DEAD);
    }
    hf__sql_put(sql, ")");
}

/* ---- the statements ---- */

void hf__put_copied(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    for (size_t i = 0; i < plan->relation.n_columns; i++) {
        if (plan->relation.columns[i].computed)
            continue;
        hf__sql_put(sql, any ? ", " : " (");
        hf__sql_name(sql, plan->relation.columns[i].name);
        any = true;
    }
    hf__sql_put(sql, ")");
    if (plan->server.database == HF__POSTGRES && plan->server.version >= 100000)
        hf__sql_put(sql, " OVERRIDING SYSTEM VALUE"); /* an identity column keeps the row's own id */
    hf__sql_put(sql, " SELECT ");
}

static void put_reason(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_bind(sql, HF__P_REASON);
    if (plan->server.database != HF__POSTGRES)
        return;
    hf__sql_put(sql, "::"); /* in a list of columns nothing else tells its type */
    hf__sql_put(sql, reason_column(plan)->type);
}

/* The values of the copied columns, in their order. */
static void put_moved_values(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    for (size_t i = 0; i < plan->relation.n_columns; i++) {
        const struct hf__column *column = &plan->relation.columns[i];
        if (column->computed)
            continue;
        hf__sql_put(sql, any ? ", " : "");
        any = true;
        if (column == plan->role[HF__ROLE_ATTEMPT])
            hf__sql_put(sql, "1");
        else if (column == plan->role[HF__ROLE_LOCKED_UNTIL] || column == plan->role[HF__ROLE_PROCESSED_AT])
            hf__sql_put(sql, "NULL");
        else if (column == plan->role[HF__ROLE_LAST_ERROR])
            put_reason(sql, plan);
        else
            hf__sql_name(sql, column->name);
    }
}

static void put_insert(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, "INSERT INTO ");
    hf__sql_dead_table(sql, plan->table);
    hf__put_copied(sql, plan);
    put_moved_values(sql, plan);
    hf__sql_put(sql, " FROM ");
}

/* Which row a move is of. */
typedef void put_where(struct hf__sql *sql, const struct hf__plan *plan);

static void put_delete(struct hf__sql *sql, const struct hf__plan *plan, put_where *where)
{
    hf__sql_put(sql, "DELETE FROM ");
    hf__put_table(sql, plan);
    where(sql, plan);
}

static void put_move_in_one(struct hf__sql *sql, const struct hf__plan *plan, put_where *where)
{
    hf__sql_put(sql, "WITH taken AS (");
    put_delete(sql, plan, where);
    hf__sql_put(sql, " RETURNING *), kept AS (");
    put_insert(sql, plan);
    hf__sql_put(sql, "taken RETURNING 1) SELECT (SELECT COUNT(*) FROM taken), (SELECT COUNT(*) FROM kept)");
}

/* The copy locks the row that it reads, so that nobody changes it before it is removed. */
static void put_copy(struct hf__sql *sql, const struct hf__plan *plan, put_where *where)
{
    put_insert(sql, plan);
    hf__put_table(sql, plan);
    where(sql, plan);
    if (plan->server.database == HF__MYSQL)
        hf__sql_put(sql, " FOR UPDATE");
}

static void put_to_group(struct hf__sql *sql, const struct hf__plan *plan, put_where *where)
{
    bool any = false;
    hf__sql_put(sql, "UPDATE ");
    hf__put_table(sql, plan);
    hf__sql_put(sql, " SET ");
    hf__put_set(sql, &any, HF__COLUMN(plan, GROUP));
    hf__sql_bind(sql, HF__P_DEAD);
    if (HF__HAS(plan, ATTEMPT)) {
        hf__put_set(sql, &any, HF__COLUMN(plan, ATTEMPT));
        hf__sql_put(sql, "1");
    }
    if (HF__HAS(plan, LOCKED_UNTIL)) {
        hf__put_set(sql, &any, HF__COLUMN(plan, LOCKED_UNTIL));
        hf__sql_put(sql, "NULL");
    }
    if (HF__HAS(plan, LAST_ERROR)) {
        hf__put_set(sql, &any, HF__COLUMN(plan, LAST_ERROR));
        hf__sql_bind(sql, HF__P_REASON);
    }
    where(sql, plan);
}

static void put_keyless(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = false;
    hf__put_keyless(sql, plan, &any);
    if (plan->n_groups > 0 && plan->table->dead_group) { /* one that is there already stays as it is */
        hf__put_and(sql, &any);
        hf__sql_name(sql, HF__COLUMN(plan, GROUP));
        hf__sql_put(sql, " <> ");
        hf__sql_bind(sql, HF__P_DEAD);
    }
    hf__put_and(sql, &any);
    hf__sql_name(sql, HF__COLUMN(plan, ID));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_ID);
}

static hf_status render(const struct hf__plan *plan, void (*put)(struct hf__sql *, const struct hf__plan *, put_where *), put_where *where,
                        struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    hf__sql_begin(&sql, plan->dialect->database);
    put(&sql, plan, where);
    return hf__sql_finish(&sql, true, out, err);
}

static hf_status render_move(const struct hf__plan *plan, put_where *where, struct hf__move *out, hf_error *err)
{
    bool two = to_table(plan) && plan->server.database != HF__POSTGRES;
    hf_status status = render(plan, !to_table(plan) ? put_to_group : two ? put_copy : put_move_in_one, where, &out->bury, err);
    if (status == HF_OK && two)
        status = render(plan, put_delete, where, &out->leave, err);
    return status;
}

hf_status hf__render_dead_letter(struct hf__plan *plan, hf_error *err)
{
    hf_status status = render_move(plan, hf__put_believed, &plan->sql.dead, err);
    if (status == HF_OK && plan->table->n_key > 0)
        status = render_move(plan, put_keyless, &plan->sql.dead_keyless, err);
    return status;
}
