/* Advisory lock: a session lock on a key rendered from the row, no transaction open. The connection that holds the lock stays with the
 * delivery; on SQLite the process holds the key instead. Attempts are counted by the take. (spec.md, section 4) */
#include <stdlib.h>
#include <string.h>

#include "strategies/dead_letter.h"

extern const struct hf__strategy hf__advisory_lock;

#define CANDIDATES 16 /* looked at in one round */
#define ROUNDS 256    /* each leaves out the keys that the last one found held, or goes on behind them */

struct search {
    struct hf__plan *plan;
    struct hf__conn *conn;
    struct hf__deadline deadline;
    char *excluded[HF__LIST_MAX]; /* keys known to be held, by us or elsewhere */
    size_t n_excluded;
    size_t passed; /* candidates behind which to go on, once no more keys can be left out */
    size_t buried; /* candidates that went to the dead letter */
    struct hf__row *found;
    struct hf__claim *ask;
    hf_error *err;
};

static struct hf__value key_value(const struct hf__plan *plan, const char *key)
{
    return plan->dialect->key_is_bytes ? hf__bytes(key, strlen(key)) : hf__text(key);
}

static bool is_one(const struct hf__rows *rows)
{
    int64_t answer;
    return rows->count == 1 && hf__value_int(hf__cell(rows, 0, 0), &answer) && answer == 1;
}

/* Runs the lock or the unlock of one literal key; *yes is its answer. */
static hf_status ask_lock(struct hf__plan *plan, struct hf__conn *conn, const struct hf__rendered *statement, const char *key, bool *yes,
                          struct hf__deadline deadline, hf_error *err)
{
    struct hf__args args;
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf__plan_args(plan, &args, 0);
    args.one[HF__P_KEY] = hf__text(key);
    hf_status status = hf__sql_run(conn, statement, &args, &rows, deadline, err);
    *yes = status == HF_OK && is_one(&rows);
    hf__rows_free(&rows);
    return status;
}

/* A lock that the database does not confirm as released goes with its session. */
static void release_lock(struct hf__plan *plan, struct hf__conn *conn, const char *key, struct hf__deadline deadline)
{
    bool yes = true;
    if (!plan->sql.unlock.text || conn->lost)
        return;
    hf_status status = ask_lock(plan, conn, &plan->sql.unlock, key, &yes, deadline, NULL);
    if (status != HF_OK || !yes)
        conn->retire = true;
}

void hf__advisory_unlock(struct hf__plan *plan, struct hf__conn *conn, const char *key, struct hf__deadline deadline)
{
    release_lock(plan, conn, key, deadline);
    hf__keys_drop(plan->keys, key);
}

/* Gets the key for this process and for this session. *yes: it is ours now. */
static hf_status lock(struct search *search, const char *key, bool *yes)
{
    *yes = false;
    int taken = hf__keys_take(search->plan->keys, key);
    if (taken < 0)
        return hf__fail_memory(search->err);
    if (taken == 0)
        return HF_OK;
    *yes = true;
    if (!search->plan->sql.try_lock.text)
        return HF_OK;
    hf_status status = ask_lock(search->plan, search->conn, &search->plan->sql.try_lock, key, yes, search->deadline, search->err);
    if (status != HF_OK)
        search->conn->retire = true; /* it may hold the lock all the same */
    if (!*yes)
        hf__keys_drop(search->plan->keys, key);
    return status;
}

static void exclude(struct search *search, const char *key)
{
    if (search->n_excluded == HF__LIST_MAX)
        return;
    char *copy = strdup(key);
    if (copy)
        search->excluded[search->n_excluded++] = copy;
}

/* ---- one change ---- */

/* In a transaction of its own where it must be all or nothing. *unknown: it may have taken effect although it failed. */
static hf_status try_change(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, bool *unknown,
                            struct hf__deadline deadline, hf_error *err)
{
    bool transaction = hf__move_needs_transaction(plan, change);
    enum hf__isolation level = plan->dialect->one_writer ? HF__ISOLATION_DEFAULT : HF__READ_COMMITTED;
    hf_status status = transaction ? hf__conn_begin(conn, level, plan->table->mode, deadline, err) : HF_OK;
    if (status == HF_OK)
        status = hf__change_one(plan, conn, change, HF_LOST, deadline, err);
    *unknown = !transaction;
    if (status == HF_OK && transaction) {
        *unknown = true;
        status = hf__conn_commit(conn, deadline, err);
    }
    hf__conn_end(conn, deadline);
    return status;
}

/* HF_UNKNOWN when its answer never came. */
static hf_status write_change(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                              hf_error *err)
{
    unsigned attempt = 0;
    bool unknown;
    /* The take has counted, so a retry, and a row given back, say nothing to the database but the reason. */
    if (change->action == HF__RETRY && !change->reason && !hf__goes_dead(plan, change))
        return HF_OK;
    hf_status status;
    do {
        status = try_change(plan, conn, change, &unknown, deadline, err);
    } while (status == HF_TRANSIENT && !conn->lost && attempt < 8 && hf__backoff(attempt++, deadline));
    bool no_answer = (status == HF_LOST || status == HF_TIMEOUT) && conn->lost;
    return no_answer && unknown ? HF_UNKNOWN : status;
}

/* ---- the take ---- */

static void take_args(struct search *search, const struct hf__row *candidate, struct hf__args *args)
{
    hf__plan_args(search->plan, args, hf__clock_now_us(search->plan->clock));
    hf__args_row(search->plan, args, candidate);
    args->one[HF__P_KEY] = key_value(search->plan, candidate->key);
}

/* The row under its lock, if it is still what the candidate showed: counts the attempt and reads it. */
static hf_status take(struct search *search, const struct hf__row *candidate)
{
    struct hf__plan *plan = search->plan;
    struct hf__args args;
    struct hf__rows rows;
    hf__rows_init(&rows);
    take_args(search, candidate, &args);
    bool counts = plan->sql.take.text != NULL;
    const struct hf__rendered *first = counts ? &plan->sql.take : &plan->sql.taken;
    hf_status status = hf__sql_run(search->conn, first, &args, &rows, search->deadline, search->err);
    bool ours = status == HF_OK && (counts ? rows.matched == 1 : rows.count == 1);
    if (ours && rows.count == 0)
        status = hf__sql_run(search->conn, &plan->sql.taken, &args, &rows, search->deadline, search->err);
    if (status == HF_OK && ours && rows.count == 1) {
        search->found = hf__row_read(plan, &rows, 0, 0);
        if (!search->found)
            status = hf__fail_memory(search->err);
        if (search->found)
            search->found->attempt = candidate->attempt;
    }
    hf__rows_free(&rows);
    return status;
}

/* The row is under its lock and its last run ended without an outcome: it goes to the dead letter and the search goes on. One that cannot
 * be moved is put out of the way of the others of its key. */
static void bury_found(struct search *search)
{
    struct hf__plan *plan = search->plan;
    struct hf__row *row = search->found;
    hf_error why = {.status = HF_OK};
    char say[HF__USED_UP_TEXT];
    struct hf__change change = hf__used_up_change(plan, row, say);
    hf_status status = write_change(plan, search->conn, &change, search->deadline, &why);
    if (status == HF_OK) {
        search->ask->buried++;
        search->buried++;
    } else {
        hf__note_refused(search->ask, &why);
        if (!search->conn->lost && hf__set_aside(plan, search->conn, row, search->deadline, NULL) != HF_OK)
            search->conn->retire = true;
        exclude(search, row->key);
    }
    hf__advisory_unlock(plan, search->conn, row->key, search->deadline);
    hf__row_free(row);
    search->found = NULL;
}

static hf_status try_candidate(struct search *search, const struct hf__row *candidate)
{
    bool ours;
    hf_status status = lock(search, candidate->key, &ours);
    if (status != HF_OK)
        return status;
    if (!ours) {
        exclude(search, candidate->key);
        return HF_OK;
    }
    status = take(search, candidate);
    if (!search->found)
        hf__advisory_unlock(search->plan, search->conn, candidate->key, search->deadline);
    else if (hf__used_up(search->plan, search->found))
        bury_found(search);
    return status;
}

/* ---- the search ---- */

static bool seen_before(const struct search *search, const struct hf__row *candidate)
{
    for (size_t i = 0; i < search->n_excluded; i++)
        if (strcmp(search->excluded[i], candidate->key) == 0)
            return true;
    return false;
}

static struct hf__row *candidate_of(const struct hf__plan *plan, const struct hf__rows *rows, size_t r)
{
    struct hf__row *row = calloc(1, sizeof *row);
    const struct hf__value *key = hf__cell(rows, r, 1);
    if (!row || (key->type != HF__TEXT && key->type != HF__BYTES)) {
        free(row);
        return NULL;
    }
    row->id = *hf__cell(rows, r, 0);
    row->key = (char *)(uintptr_t)key->s.data; /* both borrow from rows */
    row->id_text = row->key;
    if (HF__HAS(plan, ATTEMPT))
        (void)hf__value_int(hf__cell(rows, r, 2), &row->attempt);
    return row;
}

static hf_status read_candidates(struct search *search, struct hf__rows *rows)
{
    struct hf__plan *plan = search->plan;
    struct hf__args args;
    struct hf__value excluded[HF__LIST_MAX];
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    args.one[HF__P_LIMIT] = hf__int(CANDIDATES);
    args.one[HF__P_OFFSET] = hf__int((int64_t)search->passed);
    for (size_t i = 0; i < search->n_excluded; i++)
        excluded[i] = key_value(plan, search->excluded[i]);
    args.many[HF__P_EXCLUDED] = excluded;
    args.n_many[HF__P_EXCLUDED] = search->n_excluded;
    size_t list = search->n_excluded ? hf__list_for(search->n_excluded) + 1 : 0;
    const struct hf__rendered *statement =
        hf__busy_variant(plan, search->ask, &plan->sql.candidates[list], &plan->sql.candidates_busy[list], HF__LISTS + 1);
    return hf__run_claim(plan, search->conn, search->ask, statement, &args, rows, search->deadline, search->err);
}

/* One round; *more tells whether another, with more keys left out, may find something. */
static hf_status search_round(struct search *search, bool *more)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = read_candidates(search, &rows);
    *more = status == HF_OK && rows.count == CANDIDATES;
    size_t excluded = search->n_excluded, buried = search->buried;
    for (size_t r = 0; status == HF_OK && r < rows.count && !search->found; r++) {
        struct hf__row *candidate = candidate_of(search->plan, &rows, r);
        if (!candidate)
            status = hf__fail_memory(search->err);
        else if (!seen_before(search, candidate))
            status = try_candidate(search, candidate);
        free(candidate);
    }
    buried = search->buried - buried;
    if (search->n_excluded == excluded)
        search->passed += rows.count - buried;
    hf__rows_free(&rows);
    return status;
}

static hf_status claim(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline,
                       struct hf__row **rows, size_t *n, hf_error *err)
{
    struct search search = {.plan = plan, .conn = conn, .deadline = deadline, .ask = ask, .err = err}; /* a session holds one key */
    *n = 0;
    long held = hf__keys_list(plan->keys, search.excluded, HF__LIST_MAX);
    if (held < 0)
        return hf__fail_memory(err);
    search.n_excluded = (size_t)held;
    bool more = true;
    hf_status status = HF_OK;
    for (unsigned round = 0; round < ROUNDS && more && !search.found && status == HF_OK; round++)
        status = search_round(&search, &more);
    for (size_t i = 0; i < search.n_excluded; i++)
        free(search.excluded[i]);
    if (!search.found)
        return status;
    rows[0] = search.found;
    *n = 1;
    return HF_OK;
}

/* ---- settle ---- */

static hf_status settle(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, struct hf__deadline deadline,
                        hf_error *err)
{
    hf_status first = HF_OK;
    for (size_t i = 0; i < n; i++) {
        struct hf__change *change = &changes[i];
        change->status = write_change(plan, conn, change, deadline, err);
        if (change->status == HF_DATABASE && change->action != HF__ACK && hf__set_aside(plan, conn, change->row, deadline, NULL) != HF_OK)
            conn->retire = true; /* not done, but not to be run again at once either */
        hf__advisory_unlock(plan, conn, change->row->key, deadline);
        if (change->status != HF_OK && (change->status != HF_LOST || conn->lost) && first == HF_OK)
            first = change->status;
    }
    return first;
}

/* While the old session lives, its statement may still take effect: it has ended when its key can be had. (SQLite's statement ended with
 * its call.) Whoever else has the key by now has the row, too, and then nothing can be told. */
static hf_status wait_for_end(struct hf__plan *plan, struct hf__conn *conn, const char *key, bool *ended, struct hf__deadline deadline,
                              hf_error *err)
{
    unsigned attempt = 0;
    hf_status status = HF_OK;
    *ended = plan->sql.try_lock.text == NULL;
    while (!*ended && status == HF_OK) {
        status = ask_lock(plan, conn, &plan->sql.try_lock, key, ended, deadline, err);
        if (status != HF_OK)
            conn->retire = true; /* it may hold the key */
        else if (*ended)
            release_lock(plan, conn, key, deadline);
        else if (!hf__backoff(attempt++, deadline))
            break;
    }
    return status;
}

static hf_status resolve(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                         hf_error *err)
{
    struct hf__seen seen;
    bool ended = false;
    change->status = HF_UNKNOWN;
    hf_status status = wait_for_end(plan, conn, change->row->key, &ended, deadline, err);
    if (status == HF_OK && ended)
        status = hf__read_row(plan, conn, change->row, deadline, &seen, err);
    if (status != HF_OK || !ended)
        return status;
    bool dead = hf__goes_dead(plan, change), leaves = dead || hf__is_ack(plan, change);
    change->dead = dead;
    bool same = seen.found && !seen.processed && (seen.stored == 0 || seen.stored == hf__stored_attempt(plan, change->row));
    if (leaves)
        change->status = !seen.found || seen.processed || (dead && seen.dead) ? HF_OK : HF_LOST;
    else if (change->action == HF__RETRY_AFTER)
        change->status = same ? HF_LOST : HF_UNKNOWN;
    else
        change->status = HF_OK; /* the row is free again, as it was to be */
    return HF_OK;
}

static void forget(struct hf__plan *plan, struct hf__row *row)
{
    hf__keys_drop(plan->keys, row->key);
}

const struct hf__strategy hf__advisory_lock = {
    .size = sizeof(struct hf__strategy),
    .kind = HF__ADVISORY_LOCK,
    .holds = HF__PURPOSE_ADVISORY_LOCK,
    .claim = claim,
    .settle = settle,
    .resolve = resolve,
    .forget = forget,
};
