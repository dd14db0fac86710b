/* Row lock: the claim's transaction stays open while the handler runs, and the settle commits it. What gives the row back if this
 * process dies is the database itself: it rolls back. Attempts are counted by the settle that puts the row back, so a crash counts
 * none. (spec.md, section 2) */
#include "strategies/plan.h"

extern const struct hf__strategy hf__row_lock;

static enum hf__isolation level_of(const struct hf__plan *plan)
{
    return plan->table->isolation == HF__ISOLATION_DEFAULT ? HF__READ_COMMITTED : plan->table->isolation;
}

/* Ends a transaction that is of no more use. A connection that cannot even do that is not handed on. */
static void end(struct hf__conn *conn, struct hf__deadline deadline)
{
    if (conn->lost || hf__conn_transaction(conn) == HF__TX_NONE)
        return;
    if (hf__conn_rollback(conn, deadline, NULL) != HF_OK)
        conn->retire = true;
}

static hf_status claim(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline,
                       struct hf__row **rows, size_t *n, hf_error *err)
{
    struct hf__args args;
    struct hf__rows found;
    *n = 0;
    hf__rows_init(&found);
    hf_status status = hf__conn_begin(conn, level_of(plan), HF__IMMEDIATE, deadline, err);
    if (status == HF_OK) {
        hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
        args.one[HF__P_LIMIT] = hf__int((int64_t)ask->limit);
        status = hf__sql_run(conn, &plan->sql.claim, &args, &found, deadline, err);
    }
    if (status == HF_OK)
        status = hf__rows_read(plan, &found, 0, rows, err);
    if (status == HF_OK)
        *n = found.count;
    hf__rows_free(&found);
    if (status != HF_OK || *n == 0)
        end(conn, deadline);
    return status;
}

static void answer_all(struct hf__change *changes, size_t n, hf_status status)
{
    for (size_t i = 0; i < n; i++)
        changes[i].status = status;
}

static bool writes(const struct hf__change *change)
{
    return change->action != HF__GIVE_BACK && change->action != HF__UNBEGUN;
}

/* A savepoint keeps the row's lock when the settle fails in passing. A plain table's settle, by id of a row that is locked, has nothing
 * to fail of in passing, and changing a locked row below a savepoint costs PostgreSQL a multixact: only triggers and foreign keys need it.
 */
static bool needs_savepoint(const struct hf__plan *plan)
{
    return plan->dialect->savepoint_saves_locks && plan->relation.has_triggers;
}

/* Undoes the failed try alone, if the row's lock survives that. */
static bool may_try_again(struct hf__plan *plan, struct hf__conn *conn, hf_status status, unsigned attempt, struct hf__deadline deadline)
{
    if (status != HF_TRANSIENT || conn->lost || attempt >= 8)
        return false;
    if (needs_savepoint(plan)) {
        if (hf__conn_exec(conn, "ROLLBACK TO SAVEPOINT hf_settle", deadline, NULL) != HF_OK)
            return false;
    } else if (hf__conn_transaction(conn) != HF__TX_OPEN) {
        return false; /* a deadlock: the database has given the row to someone else already */
    }
    return hf__backoff(attempt, deadline);
}

static hf_status write_changes(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n,
                               struct hf__deadline deadline, hf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        hf_status status = HF_OK;
        if (needs_savepoint(plan))
            status = hf__conn_exec(conn, "SAVEPOINT hf_settle", deadline, err);
        if (status != HF_OK)
            return status;
        unsigned attempt = 0;
        do {
            status = writes(&changes[i]) ? hf__change_one(plan, conn, &changes[i], HF_LOST, deadline, err) : HF_OK;
        } while (may_try_again(plan, conn, status, attempt++, deadline));
        changes[i].status = status;
        if (status != HF_OK && !(status == HF_LOST && !conn->lost))
            return status;
    }
    return HF_OK;
}

/* What a failure before the commit means for the rows: the transaction is undone, so they are free again. */
static hf_status lost_by(hf_status status)
{
    return status == HF_DATABASE || status == HF_DENIED || status == HF_NO_MEMORY ? status : HF_LOST;
}

static hf_status settle(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, struct hf__deadline deadline,
                        hf_error *err)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any = any || writes(&changes[i]);
    if (!any) {
        end(conn, deadline);
        answer_all(changes, n, HF_OK);
        return HF_OK;
    }
    hf_status status = write_changes(plan, conn, changes, n, deadline, err);
    if (status != HF_OK) {
        end(conn, deadline);
        answer_all(changes, n, lost_by(status));
        (void)hf__fail_context(err, "table %s: the settle failed and the row is free again", plan->table->display);
        return lost_by(status);
    }
    status = hf__conn_commit(conn, deadline, err);
    if (status == HF_OK)
        return HF_OK;
    hf_status answer = status == HF_LOST || status == HF_TIMEOUT ? HF_UNKNOWN : lost_by(status);
    end(conn, deadline);
    answer_all(changes, n, answer);
    return answer;
}

/* Looks at the row when nobody has it locked: while the old transaction lives, its commit may still take effect. *told: seen is what
 * the row has become, or that it is gone. */
static hf_status look(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__seen *seen, bool *told,
                      struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__conn_begin(conn, HF__READ_COMMITTED, HF__IMMEDIATE, deadline, err);
    if (status == HF_OK)
        status = hf__read_row_with(plan, conn, &plan->sql.read_free, row, deadline, seen, err);
    end(conn, deadline);
    *told = status == HF_OK && seen->found;
    if (status != HF_OK || *told)
        return status;
    status = hf__read_row(plan, conn, row, deadline, seen, err);
    *told = status == HF_OK && !seen->found;
    return status;
}

static hf_status resolve(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                         hf_error *err)
{
    struct hf__seen seen;
    bool told = false;
    unsigned attempt = 0;
    hf_status status;
    do {
        status = look(plan, conn, change->row, &seen, &told, deadline, err);
    } while (status == HF_OK && !told && hf__backoff(attempt++, deadline));
    change->status = HF_UNKNOWN;
    if (status != HF_OK || !told)
        return status;
    bool acks = change->action == HF__ACK || change->action == HF__REJECT;
    if (!seen.found || seen.processed)
        change->status = acks ? HF_OK : HF_UNKNOWN;
    else if (acks)
        change->status = HF_LOST;
    else if (seen.stored == 0)
        change->status = HF_UNKNOWN;
    else
        change->status = seen.stored > change->row->attempt ? HF_OK : HF_LOST;
    return HF_OK;
}

const struct hf__strategy hf__row_lock = {
    .size = sizeof(struct hf__strategy),
    .kind = HF__ROW_LOCK,
    .holds = HF__PURPOSE_ROW_LOCK,
    .claim = claim,
    .settle = settle,
    .resolve = resolve,
};
