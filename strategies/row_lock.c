/* Row lock: the claim's transaction stays open while the handler runs, and the settle commits it. What gives the row back if this
 * process dies is the database itself: it rolls back. Attempts are counted by the settle that puts the row back, so a crash counts
 * none. (spec.md, section 2) */
#include "strategies/dead_letter.h"
#include "strategies/fifo.h"

extern const struct hf__strategy hf__row_lock;

static enum hf__isolation level_of(const struct hf__plan *plan)
{
    return plan->table->isolation == HF__ISOLATION_DEFAULT ? HF__READ_COMMITTED : plan->table->isolation;
}

static hf_status find(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, const struct hf__rendered *plain,
                      const struct hf__rendered *busy, struct hf__rows *found, struct hf__deadline deadline, hf_error *err)
{
    struct hf__args args;
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    args.one[HF__P_LIMIT] = hf__int((int64_t)ask->limit);
    return hf__run_claim(plan, conn, ask, hf__busy_variant(plan, ask, plain, busy, 1), &args, found, deadline, err);
}

/* Of the first page, and of all where that has nothing free. */
static hf_status find_any(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__rows *found,
                          struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__conn_begin(conn, level_of(plan), HF__IMMEDIATE, deadline, err);
    if (status == HF_OK && plan->sql.first.statement.sql)
        status = find(plan, conn, ask, &plan->sql.first, plan->sql.first_busy, found, deadline, err);
    if (status == HF_OK && found->count == 0)
        status = find(plan, conn, ask, &plan->sql.claim, plan->sql.claim_busy, found, deadline, err);
    return status;
}

/* Did each of them stay claimable until it was locked? */
static bool still_claimable(const struct hf__rows *found)
{
    int64_t still;
    for (size_t r = 0; r < found->count && found->columns > HF__ROW_COLUMNS; r++)
        if (!hf__value_int(hf__cell(found, r, HF__ROW_COLUMNS), &still) || still == 0)
            return false;
    return true;
}

enum { FIND_TRIES = 8 }; /* each that fails is another session's settle that succeeded */

static hf_status take_any(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                          struct hf__row **rows, size_t *n, hf_error *err)
{
    struct hf__rows found;
    *n = 0;
    hf__rows_init(&found);
    hf_status status = find_any(plan, conn, ask, &found, deadline, err);
    for (unsigned i = 1; status == HF_OK && !still_claimable(&found); i++) {
        hf__conn_end(conn, deadline); /* that lock is not wanted, and only the end of the transaction gives it back */
        status = i < FIND_TRIES ? find_any(plan, conn, ask, &found, deadline, err)
                                : hf__fail(err, HF_TRANSIENT, "the rows in front of table %s change too fast", plan->table->display);
    }
    if (status == HF_OK)
        status = hf__rows_read(plan, &found, 0, rows, err);
    if (status == HF_OK)
        *n = found.count;
    hf__rows_free(&found);
    if (status != HF_OK || *n == 0)
        hf__conn_end(conn, deadline);
    return status;
}

static hf_status take_heads(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                            struct hf__row **rows, size_t *n, hf_error *err)
{
    struct hf__fifo_hold hold = {.level = level_of(plan), .mode = HF__IMMEDIATE, .stays = true, .now_us = hf__clock_now_us(plan->clock)};
    return hf__fifo_heads(plan, conn, &hold, ask, deadline, rows, n, err);
}

static hf_status take(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                      struct hf__row **rows, size_t *n, hf_error *err)
{
    if (plan->table->fifo)
        return hf__fifo_in_turn(plan, conn, take_heads, take_any, ask, deadline, rows, n, err);
    return take_any(plan, conn, ask, deadline, rows, n, err);
}

/* ---- one change, guarded ---- */

static bool writes(const struct hf__change *change)
{
    return change->action != HF__GIVE_BACK && change->action != HF__UNBEGUN;
}

/* May its failure be undone alone? PostgreSQL needs a savepoint for that, and changing a locked row below one costs it a multixact. A plain
 * table's settle, by id of a row that is locked, has nothing to fail of in passing: only triggers and foreign keys need it, and, where
 * other rows are settled in the same transaction, what the database may refuse. Elsewhere an error undoes its own statement, which is not
 * enough where a change has two. */
static bool needs_savepoint(const struct hf__plan *plan, const struct hf__change *change, size_t n)
{
    if (!plan->dialect->savepoint_saves_locks)
        return hf__move_needs_transaction(plan, change);
    bool triggers = plan->relation.has_triggers || (hf__goes_dead(plan, change) && plan->dead.has_triggers);
    return triggers || (n > 1 && change->action != HF__ACK && writes(change));
}

/* Undoes the failed try alone. False: the rows' locks are gone with it, or may be. */
static bool undo_alone(struct hf__conn *conn, bool savepoint, struct hf__deadline deadline)
{
    if (conn->lost)
        return false;
    if (savepoint && hf__conn_exec(conn, "ROLLBACK TO SAVEPOINT hf_settle", deadline, NULL) != HF_OK)
        return false;
    return hf__conn_transaction(conn) == HF__TX_OPEN; /* else a deadlock: the database has given the rows to someone else already */
}

enum { ONE_OF_SEVERAL = 2 }; /* whose failure is to leave the others */

/* Writes one of n changes of this transaction. *held: the transaction, and with it the rows' locks, are as before if it failed. */
static hf_status write_guarded(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, size_t n, bool *held,
                               struct hf__deadline deadline, hf_error *err)
{
    bool savepoint = needs_savepoint(plan, change, n);
    unsigned attempt = 0;
    *held = false;
    hf_status status = savepoint ? hf__conn_exec(conn, "SAVEPOINT hf_settle", deadline, err) : HF_OK;
    if (status != HF_OK)
        return status;
    do {
        status = hf__change_one(plan, conn, change, HF_LOST, deadline, err);
        *held = status == HF_OK || undo_alone(conn, savepoint, deadline);
    } while (status == HF_TRANSIENT && *held && attempt < 8 && hf__backoff(attempt++, deadline));
    return status;
}

/* ---- rows that a claim finds past max_attempts ---- */

/* Is the transaction that the rows were claimed in still open? A deadlock ends it (MySQL), and what is run after that commits by itself. */
static bool lives(struct hf__conn *conn)
{
    return !conn->lost && hf__conn_transaction(conn) == HF__TX_OPEN;
}

/* Moves one; a row that cannot be moved is put out of the way of the others. *wrote: something is to be committed. */
static hf_status bury_one(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *row, bool *wrote, size_t *moved,
                          struct hf__deadline deadline, hf_error *err)
{
    char say[HF__USED_UP_TEXT];
    bool held;
    struct hf__change change = hf__used_up_change(plan, row, say);
    hf_status status = write_guarded(plan, conn, &change, ONE_OF_SEVERAL, &held, deadline, err);
    bool aside = status != HF_OK && held && HF__HAS(plan, RETRY_AFTER) && hf__set_aside(plan, conn, row, deadline, NULL) == HF_OK;
    *moved += status == HF_OK;
    *wrote = *wrote || status == HF_OK || aside;
    return status;
}

static void drop_rows(struct hf__row **rows, size_t *n)
{
    while (*n > 0)
        hf__row_free(rows[--*n]);
}

/* Moves those that are past max_attempts and commits: the others are free again then, and *again tells to claim once more. */
static hf_status bury(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__row **rows, size_t *n, bool *again,
                      struct hf__deadline deadline, hf_error *err)
{
    hf_error why;
    hf_status status = HF_OK;
    size_t moved = 0, kept = 0;
    bool passed = false;
    for (size_t i = 0; i < *n; i++) {
        if (!hf__used_up(plan, rows[i])) {
            rows[kept++] = rows[i];
            continue;
        }
        hf_status answer = lives(conn) ? bury_one(plan, conn, rows[i], again, &moved, deadline, &why) : status;
        hf__row_free(rows[i]);
        if (answer != HF_OK) {
            status = answer;
            hf__note_refused(ask, &why);
            passed = passed || (lives(conn) && hf__passes_over(plan));
        }
    }
    if (passed)
        hf__pass_over(plan);
    *again = *again || (passed && kept == 0);
    *n = kept;
    bool open = lives(conn);
    if (open && !*again && kept > 0)
        return HF_OK;
    drop_rows(rows, n);
    if (open && *again) {
        status = hf__conn_commit(conn, deadline, err);
        ask->buried += status == HF_OK ? moved : 0;
    } else if (status != HF_OK && err) {
        *err = why;
    }
    hf__conn_end(conn, deadline);
    return status;
}

enum { SWEEP = 64 };

/* Tries rows past max_attempts that were passed over again, many at once, so that one in front does not keep the others. */
static hf_status sweep(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline, hf_error *err)
{
    struct hf__row *rows[SWEEP];
    struct hf__claim wide = *ask;
    bool again = false;
    size_t n;
    wide.limit = SWEEP;
    hf_status status = take(plan, conn, &wide, deadline, rows, &n, err);
    if (status == HF_OK && n > 0)
        status = bury(plan, conn, &wide, rows, &n, &again, deadline, err);
    ask->buried = wide.buried;
    if (status != HF_OK)
        return status;
    drop_rows(rows, &n);
    hf__conn_end(conn, deadline);
    return HF_OK;
}

static hf_status claim(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline,
                       struct hf__row **rows, size_t *n, hf_error *err)
{
    bool again;
    *n = 0;
    hf_status status = hf__takes_sweep(plan) ? sweep(plan, conn, ask, deadline, err) : HF_OK;
    if (status != HF_OK)
        return status;
    do {
        again = false;
        status = take(plan, conn, ask, deadline, rows, n, err);
        if (status == HF_OK && *n > 0 && plan->table->max_attempts > 0)
            status = bury(plan, conn, ask, rows, n, &again, deadline, err);
    } while (status == HF_OK && again && !hf__passed(deadline));
    return status;
}

/* ---- settle ---- */

static void answer_all(struct hf__change *changes, size_t n, hf_status status)
{
    for (size_t i = 0; i < n; i++)
        changes[i].status = status;
}

/* What a failure before the commit means for the rows: the transaction is undone, so they are free again. */
static hf_status lost_by(hf_status status)
{
    return status == HF_DATABASE || status == HF_DENIED || status == HF_NO_MEMORY ? status : HF_LOST;
}

/* A row whose retry or reject the database refuses is put back all the same, so that its attempt counts and it does not run again at once.
 * (A refused ack is no failure of the handler's.) */
static bool is_put_back(const struct hf__change *refused)
{
    return refused->action != HF__ACK && refused->status == HF_DATABASE;
}

/* In the transaction that has the row locked. True: it is, if that commits. */
static bool put_back_refused(struct hf__plan *plan, struct hf__conn *conn, const struct hf__change *refused, struct hf__deadline deadline)
{
    if (!is_put_back(refused))
        return false;
    bool savepoint = plan->dialect->savepoint_saves_locks;
    hf_status status = savepoint ? hf__conn_exec(conn, "SAVEPOINT hf_settle", deadline, NULL) : HF_OK;
    bool done = status == HF_OK && hf__set_aside(plan, conn, refused->row, deadline, NULL) == HF_OK;
    if (status == HF_OK && !done && savepoint)
        status = hf__conn_exec(conn, "ROLLBACK TO SAVEPOINT hf_settle", deadline, NULL);
    if (status != HF_OK)
        conn->retire = true;
    return done;
}

/* The refusal has undone the transaction, and the row is free: it is put back in another, unless somebody was quicker. */
static bool put_back_anew(struct hf__plan *plan, struct hf__conn *conn, const struct hf__change *refused, struct hf__deadline deadline)
{
    struct hf__seen seen;
    if (!is_put_back(refused) || conn->lost || hf__conn_begin(conn, HF__READ_COMMITTED, HF__IMMEDIATE, deadline, NULL) != HF_OK)
        return false;
    hf_status status = hf__read_row_with(plan, conn, &plan->sql.read_free, refused->row, deadline, &seen, NULL);
    bool same = status == HF_OK && seen.found && !seen.processed && (seen.stored == 0 || seen.stored == refused->row->attempt);
    bool done = same && hf__set_aside(plan, conn, refused->row, deadline, NULL) == HF_OK && hf__conn_commit(conn, deadline, NULL) == HF_OK;
    hf__conn_end(conn, deadline);
    return done;
}

static void tell_refused(const struct hf__plan *plan, bool put_back, hf_error *err)
{
    const char *then = !put_back                    ? "failed and the row is free again"
                       : HF__HAS(plan, RETRY_AFTER) ? "was refused and the row is put off for 60 seconds"
                       : HF__HAS(plan, ATTEMPT)     ? "was refused and the row is free again, its attempt counted"
                                                    : "was refused and the row is free again";
    (void)hf__fail_context(err, "table %s: the settle %s", plan->table->display, then);
}

/* One bad row does not fail its neighbours as long as the transaction lives; *first is its answer, and *put_back what became of it. */
static hf_status write_changes(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, hf_status *first,
                               bool *put_back, struct hf__deadline deadline, hf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool is_first = false;
        bool held = true;
        hf_error why = {.status = HF_OK};
        hf_status status = writes(&changes[i]) ? write_guarded(plan, conn, &changes[i], n, &held, deadline, &why) : HF_OK;
        changes[i].status = status == HF_OK ? HF_OK : lost_by(status);
        bool refused = status != HF_OK && (status != HF_LOST || conn->lost);
        if (refused && *first == HF_OK) {
            *first = changes[i].status;
            is_first = true;
            if (err)
                *err = why;
        }
        if (!held)
            return changes[i].status;
        bool back = refused && put_back_refused(plan, conn, &changes[i], deadline);
        *put_back = is_first ? back : *put_back;
        if (!lives(conn))
            return changes[i].status == HF_OK ? HF_LOST : changes[i].status;
    }
    return HF_OK;
}

static hf_status settle(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, struct hf__deadline deadline,
                        hf_error *err)
{
    bool any = false, put_back = false;
    hf_status first = HF_OK;
    for (size_t i = 0; i < n; i++)
        any = any || writes(&changes[i]);
    if (!any) {
        hf__conn_end(conn, deadline);
        answer_all(changes, n, HF_OK);
        return HF_OK;
    }
    hf_status status = write_changes(plan, conn, changes, n, &first, &put_back, deadline, err);
    if (status != HF_OK) {
        hf__conn_end(conn, deadline);
        answer_all(changes, n, status);
        tell_refused(plan, n == 1 && put_back_anew(plan, conn, changes, deadline), err);
        return status;
    }
    if (first != HF_OK)
        tell_refused(plan, put_back, err);
    status = hf__conn_commit(conn, deadline, first == HF_OK ? err : NULL);
    if (status == HF_OK)
        return first;
    hf_status answer = status == HF_LOST || status == HF_TIMEOUT ? HF_UNKNOWN : lost_by(status);
    hf__conn_end(conn, deadline);
    answer_all(changes, n, answer);
    return answer;
}

hf_status hf__look_free(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__seen *seen, bool *told,
                        struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__conn_begin(conn, HF__READ_COMMITTED, HF__IMMEDIATE, deadline, err);
    if (status == HF_OK)
        status = hf__read_row_with(plan, conn, &plan->sql.read_free, row, deadline, seen, err);
    hf__conn_end(conn, deadline);
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
        status = hf__look_free(plan, conn, change->row, &seen, &told, deadline, err);
    } while (status == HF_OK && !told && hf__backoff(attempt++, deadline));
    change->status = HF_UNKNOWN;
    if (status != HF_OK || !told)
        return status;
    bool dead = hf__goes_dead(plan, change), acks = hf__is_ack(plan, change) || (dead && plan->table->dead_table);
    change->dead = dead;
    if (!seen.found || seen.processed)
        change->status = acks ? HF_OK : HF_UNKNOWN;
    else if (dead && seen.dead)
        change->status = HF_OK;
    else if (acks || dead)
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
