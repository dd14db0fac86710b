/* Transactional mode: the handler writes through a transaction of its delivery's own, and the ack commits those writes and the settle
 * together, or neither.
 *
 *                 open                         ack                                      any other outcome (undo)
 *   row lock      SAVEPOINT in the claim's     RELEASE, the settle, COMMIT              ROLLBACK TO, and then the usual settle
 *   lease,        BEGIN, SAVEPOINT             RELEASE, the settle (WHERE it is         ROLLBACK TO, ROLLBACK, and then the usual
 *   advisory                                   still ours), COMMIT                      settle
 *
 * The savepoint is how we notice that the transaction is no longer the one that we began: a COMMIT or ROLLBACK of the handler's, a
 * statement that commits by itself (DDL on MySQL) and an error that undoes all of it (a deadlock on MySQL) take it away. Then the
 * handler's writes and the settle cannot be one any more, and nothing is settled. */
#include "strategies/plan.h"

#define TRIES 8 /* of an ack that fails in passing */
#define TO_SAVEPOINT "ROLLBACK TO SAVEPOINT hf_handler"

static bool is_row_lock(const struct hf__plan *plan)
{
    return plan->strategy->kind == HF__ROW_LOCK;
}

static hf_status begin(const struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    enum hf__isolation level = plan->table->isolation;
    if (level == HF__ISOLATION_DEFAULT && !plan->dialect->one_writer)
        level = HF__READ_COMMITTED;
    return hf__conn_begin(conn, level, plan->table->mode, deadline, err);
}

/* Ends the whole transaction. A connection that cannot even do that is not handed on. */
static hf_status roll_back(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    if (conn->lost)
        return hf__fail(err, HF_LOST, "the connection is gone, and the transaction with it");
    hf_status status = hf__conn_transaction(conn) == HF__TX_NONE ? HF_OK : hf__conn_rollback(conn, deadline, err);
    conn->retire = conn->retire || status != HF_OK;
    return status;
}

bool hf__transaction_locks_row(const struct hf__plan *plan)
{
    enum hf__isolation level = plan->table->isolation;
    return plan->strategy->kind == HF__LEASE && !plan->dialect->one_writer && level != HF__ISOLATION_DEFAULT && level != HF__READ_COMMITTED;
}

static hf_status lock_row(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                          hf_error *err)
{
    struct hf__seen seen;
    hf_status status = hf__read_row_with(plan, conn, &plan->sql.read_free, row, deadline, &seen, err);
    if (status != HF_OK || hf__lease_still_ours(plan, row, &seen))
        return status;
    return hf__fail(err, HF_TRANSIENT, "table %s: row %s cannot be locked: somebody else has it locked, or its lease is lost",
                    plan->table->display, row->id_text);
}

hf_status hf__transaction_open(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                               hf_error *err)
{
    hf_status status = is_row_lock(plan) ? HF_OK : begin(plan, conn, deadline, err);
    if (status != HF_OK)
        return status;
    if (hf__transaction_locks_row(plan))
        status = lock_row(plan, conn, row, deadline, err);
    if (status == HF_OK)
        status = hf__conn_exec(conn, "SAVEPOINT hf_handler", deadline, err);
    if (status != HF_OK && !is_row_lock(plan))
        (void)roll_back(conn, deadline, NULL); /* it says for itself when the connection is of no more use */
    return status;
}

/* ---- undo ---- */

static hf_status gone(const struct hf__plan *plan, struct hf__conn *conn, const hf_error *why, struct hf__deadline deadline, hf_error *err)
{
    if (conn->lost)
        return hf__fail(err, HF_LOST, "table %s: the connection of the delivery's transaction was lost: %s", plan->table->display,
                        why->message);
    (void)roll_back(conn, deadline, NULL);
    conn->retire = true;
    return hf__fail(
        err, HF_LOST,
        "table %s: the delivery's transaction had ended before its settle, and nothing was settled; a handler must not COMMIT or "
        "ROLLBACK it, nor go on after a deadlock, nor run DDL on MySQL (%s)",
        plan->table->display, why->message);
}

/* Back to the savepoint, if it is there. Settling is not done below it: PostgreSQL would pay a multixact for that. */
static hf_status back_to_savepoint(struct hf__conn *conn, struct hf__deadline deadline, hf_error *why)
{
    hf_status status = hf__conn_exec(conn, TO_SAVEPOINT, deadline, why);
    return status == HF_OK ? hf__conn_exec(conn, "RELEASE SAVEPOINT hf_handler", deadline, why) : status;
}

/* What a settle writes on this connection commits by itself, whatever the handler made of its session. */
static hf_status commit_by_itself(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    return conn->server.database == HF__MYSQL ? hf__conn_exec(conn, "SET autocommit = 1", deadline, err) : HF_OK;
}

static hf_status undo_whole(const struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = roll_back(conn, deadline, err);
    if (status == HF_OK && plan->strategy->kind == HF__ADVISORY_LOCK) /* which settles on this connection */
        status = commit_by_itself(conn, deadline, err);
    if (status == HF_OK)
        return HF_OK;
    conn->retire = true;
    (void)hf__fail_context(err, "table %s: the handler's writes could not be undone on its connection", plan->table->display);
    return HF_LOST;
}

hf_status hf__transaction_undo(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_error why = {.status = HF_OK};
    hf_status status = is_row_lock(plan) ? back_to_savepoint(conn, deadline, &why) : hf__conn_exec(conn, TO_SAVEPOINT, deadline, &why);
    if (status != HF_OK)
        return gone(plan, conn, &why, deadline, err);
    return is_row_lock(plan) ? HF_OK : undo_whole(plan, conn, deadline, err);
}

hf_status hf__transaction_free(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *row, struct hf__deadline deadline)
{
    struct hf__change back = {.row = row, .action = HF__GIVE_BACK};
    hf_status status = commit_by_itself(conn, deadline, NULL);
    if (status == HF_OK)
        status = plan->strategy->settle(plan, conn, &back, 1, deadline, NULL);
    return status != HF_OK ? status : back.status;
}

/* ---- ack ---- */

/* Everything is undone and the row is held as before, for a settle with another outcome: with row lock since the savepoint was gone back
 * to. A lease holds it without the connection. */
static hf_status undone(const struct hf__plan *plan, struct hf__conn *conn, hf_status status, bool *is_undone, struct hf__deadline deadline)
{
    if (is_row_lock(plan))
        *is_undone = !conn->lost;
    else
        *is_undone = undo_whole(plan, conn, deadline, NULL) == HF_OK || plan->strategy->kind == HF__LEASE;
    return *is_undone ? status : HF_LOST;
}

/* The savepoint could not be released: the handler left its transaction failed, or it is not the one that we began. */
static hf_status not_released(const struct hf__plan *plan, struct hf__conn *conn, const hf_error *why, bool *is_undone,
                              struct hf__deadline deadline, hf_error *err)
{
    bool back = !conn->lost && back_to_savepoint(conn, deadline, NULL) == HF_OK;
    if (!back && !conn->lost)
        return gone(plan, conn, why, deadline, err);
    hf_status status = back ? HF_DATABASE : HF_LOST;
    const char *what = back ? "the handler left its transaction failed, so nothing of it is kept"
                            : "the connection of the delivery's transaction was lost, and nothing of it is kept";
    (void)hf__fail(err, status, "table %s: %s: %s", plan->table->display, what, why->message);
    return undone(plan, conn, status, is_undone, deadline);
}

/* What a failure after the release means: with row lock the row goes with the transaction. */
static hf_status refused(const struct hf__plan *plan, struct hf__conn *conn, hf_status status, bool *is_undone,
                         struct hf__deadline deadline, hf_error *err)
{
    bool lasting = status == HF_DATABASE || status == HF_DENIED || status == HF_NO_MEMORY;
    (void)hf__fail_context(err, "table %s: nothing of the delivery's transaction was committed", plan->table->display);
    if (!is_row_lock(plan))
        return undone(plan, conn, conn->lost ? HF_LOST : status, is_undone, deadline);
    (void)roll_back(conn, deadline, NULL);
    return lasting ? status : HF_LOST;
}

/* After a renewal whose answer never came the row holds one of two tokens. */
static hf_status write_once(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                            hf_error *err)
{
    struct hf__row *row = change->row;
    hf_status not_ours = plan->strategy->kind == HF__LEASE ? HF_LEASE_LOST : HF_LOST;
    hf_status status = hf__change_one(plan, conn, change, not_ours, deadline, err);
    if (status != HF_LEASE_LOST || row->other_token_us == 0)
        return status;
    row->token_us = row->other_token_us;
    row->other_token_us = 0;
    return hf__change_one(plan, conn, change, not_ours, deadline, err);
}

/* A statement that failed in passing is tried again where it was undone alone. */
static hf_status write_ack(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                           hf_error *err)
{
    unsigned attempt = 0;
    hf_status status;
    do {
        status = write_once(plan, conn, change, deadline, err);
    } while (status == HF_TRANSIENT && !conn->lost && hf__conn_transaction(conn) == HF__TX_OPEN && attempt < TRIES &&
             hf__backoff(attempt++, deadline));
    return status;
}

static bool is_not_ours(hf_status status, const struct hf__conn *conn)
{
    return status == HF_LEASE_LOST || (status == HF_LOST && !conn->lost);
}

static hf_status ack(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, bool *is_undone, struct hf__deadline deadline,
                     hf_error *err)
{
    hf_error why = {.status = HF_OK};
    /* Constraints that PostgreSQL would check at the COMMIT, which cannot be undone alone, it checks here, where that can. */
    const char *release = conn->server.database == HF__POSTGRES ? "SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT hf_handler"
                                                                : "RELEASE SAVEPOINT hf_handler";
    if (hf__conn_exec(conn, release, deadline, &why) != HF_OK)
        return not_released(plan, conn, &why, is_undone, deadline, err);
    hf_status status = write_ack(plan, conn, change, deadline, err);
    if (is_not_ours(status, conn)) {
        (void)roll_back(conn, deadline, NULL);
        return status;
    }
    if (status == HF_OK) {
        status = hf__conn_commit(conn, deadline, err);
        if (status == HF_OK)
            return HF_OK;
        if (conn->lost && (status == HF_LOST || status == HF_TIMEOUT))
            return HF_UNKNOWN;
    }
    return refused(plan, conn, status, is_undone, deadline, err);
}

hf_status hf__transaction_ack(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, bool *is_undone,
                              struct hf__deadline deadline, hf_error *err)
{
    *is_undone = false;
    change->status = ack(plan, conn, change, is_undone, deadline, err);
    if (plan->strategy->kind == HF__ADVISORY_LOCK && !*is_undone)
        hf__advisory_unlock(plan, conn, change->row->key, deadline);
    return change->status;
}

/* ---- resolve ---- */

static hf_status look(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__seen *seen, bool *told,
                      struct hf__deadline deadline, hf_error *err)
{
    if (!plan->dialect->one_writer)
        return hf__look_free(plan, conn, row, seen, told, deadline, err);
    hf_status status = hf__read_row(plan, conn, row, deadline, seen, err); /* the transaction has ended with its connection */
    *told = status == HF_OK;
    return status;
}

/* The usual way would take a commit that is still under way for one that never came, and settle the row without the handler's writes. */
static hf_status resolve_lease(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
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
    if (hf__lease_still_ours(plan, change->row, &seen))
        change->status = HF_TRANSIENT;
    else if (seen.found && !seen.processed)
        change->status = HF_LEASE_LOST;
    else
        change->status = hf__clock_now_us(plan->clock) < change->row->token_us ? HF_OK : HF_UNKNOWN;
    return HF_OK;
}

hf_status hf__transaction_resolve(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                                  hf_error *err)
{
    if (plan->strategy->kind == HF__LEASE)
        return resolve_lease(plan, conn, change, deadline, err);
    return plan->strategy->resolve(plan, conn, change, deadline, err);
}
