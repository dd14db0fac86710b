/* Lease: an expiry in the row, committed before the handler runs; no connection while it runs. The expiry is the delivery's token: a
 * settle names it (and the attempt) and takes effect only while the row still has it. (spec.md, section 3) */
#include <stdlib.h>
#include <string.h>

#include "strategies/dead_letter.h"
#include "strategies/fifo.h"
#include "strategies/group.h"
#include "strategies/plan.h"

extern const struct hf__strategy hf__lease;

/* Where no attempt tells two claims of one row apart the expiry itself must: this process never gives the same one twice, and up to
 * a quarter second of it is random, against the expiries of other processes. */
#define RANDOM_TAIL_US 250000

static int64_t unique_expiry(struct hf__plan *plan, int64_t expiry_us)
{
    int64_t last_us = atomic_load(&plan->last_token_us), token_us;
    do {
        token_us = expiry_us > last_us ? expiry_us : last_us + plan->token_unit_us;
    } while (!atomic_compare_exchange_weak(&plan->last_token_us, &last_us, token_us));
    return token_us;
}

static int64_t expiry_from(struct hf__plan *plan, int64_t now_us)
{
    int64_t expiry_us = now_us + plan->table->lease_us;
    if (HF__HAS(plan, ATTEMPT))
        return hf__round_up(expiry_us, plan->token_unit_us);
    expiry_us += (int64_t)hf__random_below(RANDOM_TAIL_US);
    return unique_expiry(plan, hf__round_up(expiry_us, plan->token_unit_us));
}

static enum hf__isolation level_of(const struct hf__plan *plan)
{
    return plan->dialect->one_writer ? HF__ISOLATION_DEFAULT : HF__READ_COMMITTED;
}

static hf_status begin(const struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    return hf__conn_begin(conn, level_of(plan), plan->table->mode, deadline, err);
}

/* ---- claim ---- */

hf_status hf__lease_rows(struct hf__plan *plan, struct hf__conn *conn, struct hf__args *args, const struct hf__value *ids, size_t n,
                         struct hf__deadline deadline, hf_error *err)
{
    struct hf__rows answer;
    hf__rows_init(&answer);
    args->many[HF__P_ID] = ids;
    args->n_many[HF__P_ID] = n;
    hf_status status = hf__sql_run(conn, &plan->sql.lease_list[hf__list_for(n)], args, &answer, deadline, err);
    if (status == HF_OK && answer.matched != n)
        status = hf__fail(err, HF_DATABASE, "table %s: %zu locked rows were to be leased and %zu were; is the id column unique?",
                          plan->table->display, n, (size_t)answer.matched);
    args->many[HF__P_ID] = NULL;
    args->n_many[HF__P_ID] = 0;
    hf__rows_free(&answer);
    return status;
}

/* The rows that a locking read found get their lease in the same transaction. */
static hf_status write_leases(struct hf__plan *plan, struct hf__conn *conn, struct hf__args *args, const struct hf__rows *found,
                              struct hf__deadline deadline, hf_error *err)
{
    struct hf__value ids[HF__LIST_MAX];
    hf_status status = HF_OK;
    for (size_t done = 0; done < found->count && status == HF_OK;) {
        size_t n = found->count - done < HF__LIST_MAX ? found->count - done : HF__LIST_MAX;
        for (size_t i = 0; i < n; i++)
            ids[i] = *hf__cell(found, done + i, 0);
        status = hf__lease_rows(plan, conn, args, ids, n, deadline, err);
        done += n;
    }
    return status;
}

static hf_status run_claim(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__args *args,
                           struct hf__rows *found, struct hf__deadline deadline, hf_error *err)
{
    const struct hf__rendered *statement = hf__busy_variant(plan, ask, &plan->sql.claim, plan->sql.claim_busy, 1);
    return hf__run_claim(plan, conn, ask, statement, args, found, deadline, err);
}

static hf_status claim_in_two(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__args *args,
                              struct hf__rows *found, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = begin(plan, conn, deadline, err);
    if (status == HF_OK)
        status = run_claim(plan, conn, ask, args, found, deadline, err);
    if (status == HF_OK && found->count > 0)
        status = write_leases(plan, conn, args, found, deadline, err);
    if (status == HF_OK && found->count > 0)
        return hf__conn_commit(conn, deadline, err);
    hf__conn_end(conn, deadline);
    return status;
}

static hf_status claim_any(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                           struct hf__row **rows, size_t *n, hf_error *err)
{
    struct hf__args args;
    struct hf__rows found;
    bool one = plan->dialect->lease_claim != NULL;
    int64_t now_us = hf__clock_now_us(plan->clock), expiry_us = expiry_from(plan, now_us);
    *n = 0;
    hf__rows_init(&found);
    hf__plan_args(plan, &args, now_us);
    args.one[HF__P_LIMIT] = hf__int((int64_t)ask->limit);
    args.one[HF__P_EXPIRY] = hf__time_us(expiry_us);
    hf_status status =
        one ? run_claim(plan, conn, ask, &args, &found, deadline, err) : claim_in_two(plan, conn, ask, &args, &found, deadline, err);
    if (status == HF_OK && found.count > ask->limit)
        status = hf__fail(err, HF_DATABASE, "table %s: %zu rows were to be claimed and %zu were; the id column is not unique",
                          plan->table->display, ask->limit, found.count);
    if (status == HF_OK)
        status = hf__rows_read(plan, &found, one ? 1 : 0, rows, err);
    if (status == HF_OK) {
        *n = found.count;
        for (size_t i = 0; i < *n; i++)
            rows[i]->token_us = expiry_us;
        hf__rows_sort(rows, *n);
    }
    hf__rows_free(&found);
    return status;
}

static hf_status claim_heads(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                             struct hf__row **rows, size_t *n, hf_error *err)
{
    int64_t now_us = hf__clock_now_us(plan->clock);
    struct hf__fifo_hold hold = {.level = level_of(plan), .mode = plan->table->mode, .now_us = now_us};
    hold.expiry_us = expiry_from(plan, now_us);
    return hf__fifo_heads(plan, conn, &hold, ask, deadline, rows, n, err);
}

static hf_status claim_rows(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                            struct hf__row **rows, size_t *n, hf_error *err)
{
    if (plan->table->fifo)
        return hf__fifo_in_turn(plan, conn, claim_heads, claim_any, ask, deadline, rows, n, err);
    return claim_any(plan, conn, ask, deadline, rows, n, err);
}

/* ---- renew ---- */

/* After a renewal whose answer was lost the row holds one of two tokens: reads which. As long as it shows the old one the renewal may
 * still take effect, so the other is not forgotten before it is seen, or before another renewal of the old one has. */
static hf_status learn_token(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *row, struct hf__deadline deadline, hf_error *err)
{
    struct hf__seen seen;
    if (row->other_token_us == 0)
        return HF_OK;
    hf_status status = hf__read_row(plan, conn, row, deadline, &seen, err);
    if (status != HF_OK)
        return status;
    if (seen.found && seen.token_us == row->other_token_us) {
        row->token_us = row->other_token_us;
        row->other_token_us = 0;
    }
    return HF_OK;
}

bool hf__lease_still_ours(const struct hf__plan *plan, const struct hf__row *row, const struct hf__seen *seen)
{
    bool token = seen->token_us == row->token_us || (row->other_token_us != 0 && seen->token_us == row->other_token_us);
    if (!seen->found || seen->processed || !token)
        return false;
    return !HF__HAS(plan, ATTEMPT) || seen->stored == hf__stored_attempt(plan, row);
}

/* By id; a row that we lost and claimed again may be there twice. */
static int compare_rows(const void *left, const void *right)
{
    const struct hf__row *a = *(struct hf__row *const *)left, *b = *(struct hf__row *const *)right;
    int order = hf__value_compare(&a->id, &b->id);
    return order != 0 ? order : ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

static int64_t renewed_expiry(struct hf__plan *plan, struct hf__row *const *rows, size_t n)
{
    int64_t expiry_us = expiry_from(plan, hf__clock_now_us(plan->clock));
    for (size_t i = 0; i < n; i++) /* forward, never back */
        if (expiry_us <= rows[i]->token_us)
            expiry_us = rows[i]->token_us + plan->token_unit_us;
    return expiry_us;
}

static hf_status send_renewals(struct hf__plan *plan, struct hf__conn *conn, struct hf__row **rows, size_t n, int64_t expiry_us,
                               bool *matched, struct hf__deadline deadline, hf_error *err)
{
    bool transaction = !hf__group_is_one_statement(plan);
    hf_status status = transaction ? begin(plan, conn, deadline, err) : HF_OK;
    if (status == HF_OK)
        status = hf__group_apply(plan, conn, HF__GROUP_RENEW, rows, n, expiry_us, matched, deadline, err);
    if (status == HF_OK && transaction)
        status = hf__conn_commit(conn, deadline, err);
    if (status != HF_OK)
        hf__conn_end(conn, deadline);
    return status;
}

/* A row that the renewal passed over is either locked by someone, and still ours, or not ours any more: a plain read tells. */
static hf_status judge_missed(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                              hf_status *answer, hf_error *err)
{
    struct hf__seen seen;
    hf_status status = hf__read_row(plan, conn, row, deadline, &seen, err);
    *answer = status != HF_OK || hf__lease_still_ours(plan, row, &seen) ? HF_BUSY : HF_LEASE_LOST;
    return status;
}

/* Renews rows that share an expiry; statuses as renew's. */
static hf_status renew_to(struct hf__plan *plan, struct hf__conn *conn, struct hf__row **rows, size_t n, int64_t expiry_us,
                          hf_status *statuses, struct hf__deadline deadline, hf_error *err)
{
    bool matched[HF__LIST_MAX];
    hf_status status = send_renewals(plan, conn, rows, n, expiry_us, matched, deadline, err);
    bool unknown = status == HF_LOST || status == HF_TIMEOUT;
    for (size_t i = 0; i < n; i++)
        statuses[i] = unknown ? HF_UNKNOWN : HF_TRANSIENT;
    for (size_t i = 0; i < n && unknown; i++)
        rows[i]->other_token_us = expiry_us;
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        statuses[i] = matched[i] ? HF_OK : HF_BUSY;
        if (!matched[i])
            continue;
        rows[i]->token_us = expiry_us;
        rows[i]->other_token_us = 0;
    }
    for (size_t i = 0; i < n && status == HF_OK; i++)
        if (!matched[i])
            status = judge_missed(plan, conn, rows[i], deadline, &statuses[i], err);
    return status;
}

/* A row whose last renewal was never answered, and has not been seen, is renewed to that same expiry, alone: so it holds one of two
 * tokens, never of three. The others go together. */
static hf_status renew_slice(struct hf__plan *plan, struct hf__conn *conn, struct hf__row **rows, size_t n, hf_status *statuses,
                             struct hf__deadline deadline, hf_error *err)
{
    struct hf__row *together[HF__LIST_MAX];
    size_t place[HF__LIST_MAX], count = 0;
    hf_status answers[HF__LIST_MAX], status = HF_OK;
    for (size_t i = 0; i < n; i++)
        statuses[i] = HF_TRANSIENT; /* not sent */
    for (size_t i = 0; i < n && status == HF_OK; i++) {
        status = learn_token(plan, conn, rows[i], deadline, err);
        if (status == HF_OK && rows[i]->other_token_us != 0) {
            status = renew_to(plan, conn, &rows[i], 1, rows[i]->other_token_us, &statuses[i], deadline, err);
            continue;
        }
        place[count] = i;
        together[count++] = rows[i];
    }
    if (status != HF_OK || count == 0)
        return status;
    status = renew_to(plan, conn, together, count, renewed_expiry(plan, together, count), answers, deadline, err);
    for (size_t i = 0; i < count; i++)
        statuses[place[i]] = answers[i];
    return status;
}

/* Rows are always locked in id order, whatever the caller's order is. */
static hf_status renew_sorted(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *const *rows, size_t n, hf_status *statuses,
                              struct hf__deadline deadline, hf_error *err)
{
    struct hf__row *sorted[HF__LIST_MAX];
    hf_status answers[HF__LIST_MAX];
    memcpy(sorted, rows, n * sizeof *rows);
    qsort(sorted, n, sizeof *sorted, compare_rows);
    hf_status status = renew_slice(plan, conn, sorted, n, answers, deadline, err);
    for (size_t i = 0; i < n; i++) {
        struct hf__row **at = bsearch(&rows[i], sorted, n, sizeof *sorted, compare_rows);
        statuses[i] = at ? answers[at - sorted] : HF_TRANSIENT;
    }
    return status;
}

static hf_status renew(struct hf__plan *plan, struct hf__conn *conn, struct hf__row **rows, size_t n, hf_status *statuses,
                       struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < n; i++)
        statuses[i] = HF_TRANSIENT; /* not sent */
    for (size_t done = 0; done < n && status == HF_OK;) {
        size_t slice = n - done < HF__LIST_MAX ? n - done : HF__LIST_MAX;
        status = renew_sorted(plan, conn, rows + done, slice, statuses + done, deadline, err);
        done += slice;
    }
    return status;
}

/* ---- settle ---- */

/* Reads what became of a change that may have taken effect. While our lease lasts nobody else can have claimed the row, so if it does
 * not hold our token any more, then by our own change. */
static hf_status resolve(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                         hf_error *err)
{
    struct hf__seen seen;
    hf_status status = learn_token(plan, conn, change->row, deadline, err);
    if (status == HF_OK)
        status = hf__read_row(plan, conn, change->row, deadline, &seen, err);
    if (status != HF_OK)
        return status;
    bool lasts = hf__clock_now_us(plan->clock) < change->row->token_us, dead = hf__goes_dead(plan, change);
    bool leaves = dead || hf__is_ack(plan, change); /* its place among the unfinished rows */
    change->dead = dead;
    if (hf__lease_still_ours(plan, change->row, &seen))
        change->status = HF_TRANSIENT;
    else if (dead && seen.dead)
        change->status = HF_OK;
    else if (leaves && seen.found && !seen.processed)
        change->status = HF_LEASE_LOST;
    else
        change->status = lasts ? HF_OK : HF_UNKNOWN;
    return HF_OK;
}

/* Is it an ack, as the group's change makes it? */
static bool in_group(const struct hf__plan *plan, const struct hf__change *change)
{
    if (change->action == HF__ACK)
        return true;
    return hf__is_ack(plan, change) && !(HF__HAS(plan, PROCESSED_AT) && HF__HAS(plan, LAST_ERROR));
}

/* Does it go with the group of acks? A single row does only where the group is one statement, which never waits for a lock. */
static bool goes_together(const struct hf__plan *plan, const struct hf__change *change, size_t n)
{
    return (n > 1 || hf__group_is_one_statement(plan)) && in_group(plan, change);
}

static int compare_changes(const void *left, const void *right)
{
    const struct hf__change *const *a = left, *const *b = right;
    return hf__value_compare(&(*a)->row->id, &(*b)->row->id);
}

/* A change that matched nothing: the row is ours still, and locked by someone or under its other token (again later); or it is not. */
static hf_status judge_change(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                              hf_error *err)
{
    hf_status status = judge_missed(plan, conn, change->row, deadline, &change->status, err);
    if (change->status == HF_BUSY)
        change->status = HF_TRANSIENT;
    return status;
}

static hf_status ack_group(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                           struct hf__deadline deadline, hf_error *err)
{
    struct hf__row *rows[HF__LIST_MAX];
    struct hf__change *acks[HF__LIST_MAX];
    bool matched[HF__LIST_MAX];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!goes_together(plan, changes[i], n))
            continue;
        rows[count] = changes[i]->row;
        acks[count++] = changes[i];
    }
    if (count == 0)
        return HF_OK;
    hf_status status = hf__group_apply(plan, conn, HF__GROUP_ACK, rows, count, 0, matched, deadline, err);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        acks[i]->status = HF_OK;
        if (!matched[i])
            status = judge_change(plan, conn, acks[i], deadline, err);
    }
    return status;
}

static hf_status write_slice(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                             struct hf__deadline deadline, hf_error *err)
{
    hf_status status = ack_group(plan, conn, changes, n, deadline, err);
    for (size_t i = 0; i < n && status == HF_OK; i++) {
        if (goes_together(plan, changes[i], n))
            continue;
        status = hf__change_one(plan, conn, changes[i], HF_LEASE_LOST, deadline, err);
        changes[i]->status = status;
        if (status == HF_LEASE_LOST)
            status = changes[i]->row->other_token_us != 0 ? judge_change(plan, conn, changes[i], deadline, err) : HF_OK;
    }
    return status;
}

static bool needs_transaction(const struct hf__plan *plan, struct hf__change **changes, size_t n)
{
    if (n == 1)
        return hf__move_needs_transaction(plan, changes[0]);
    if (!hf__group_is_one_statement(plan))
        return true;
    for (size_t i = 0; i < n; i++)
        if (!in_group(plan, changes[i]))
            return true;
    return false;
}

/* *sent tells whether what failed may have taken effect all the same. */
static hf_status apply_slice(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n, bool *sent,
                             struct hf__deadline deadline, hf_error *err)
{
    bool transaction = needs_transaction(plan, changes, n);
    *sent = !transaction;
    hf_status status = HF_OK;
    for (size_t i = 0; i < n && status == HF_OK; i++)
        status = learn_token(plan, conn, changes[i]->row, deadline, err);
    if (status == HF_OK && transaction)
        status = begin(plan, conn, deadline, err);
    if (status == HF_OK)
        status = write_slice(plan, conn, changes, n, deadline, err);
    if (status == HF_OK && transaction) {
        *sent = true;
        status = hf__conn_commit(conn, deadline, err);
    }
    if (status != HF_OK)
        hf__conn_end(conn, deadline);
    return status;
}

static void answer_all(struct hf__change **changes, size_t n, hf_status status)
{
    for (size_t i = 0; i < n; i++)
        changes[i]->status = status;
}

/* What was found gone after a try without an answer may have gone by that try. */
static hf_status judge_uncertain(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                                 struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < n && status == HF_OK; i++) {
        if (!changes[i]->uncertain || changes[i]->status != HF_LEASE_LOST)
            continue;
        status = resolve(plan, conn, changes[i], deadline, err);
        if (status != HF_OK)
            changes[i]->status = HF_UNKNOWN;
    }
    return status;
}

static hf_status settle_slice(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                              struct hf__deadline deadline, hf_error *err);

/* One bad row, or one that is locked, never fails its neighbours: each for itself. */
static hf_status settle_each(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                             struct hf__deadline deadline, hf_error *err)
{
    hf_status first = HF_OK;
    for (size_t i = 0; i < n; i++) {
        hf_error ignored;
        hf_status status = settle_slice(plan, conn, &changes[i], 1, deadline, first == HF_OK ? err : &ignored);
        if (first == HF_OK)
            first = status;
    }
    return first;
}

static hf_status settle_slice(struct hf__plan *plan, struct hf__conn *conn, struct hf__change **changes, size_t n,
                              struct hf__deadline deadline, hf_error *err)
{
    bool sent;
    unsigned attempt = 0;
    hf_status status;
    do {
        status = apply_slice(plan, conn, changes, n, &sent, deadline, err);
    } while (status == HF_TRANSIENT && !conn->lost && attempt < (n > 1 ? 2U : 8U) && hf__backoff(attempt++, deadline));
    if (status == HF_OK)
        return judge_uncertain(plan, conn, changes, n, deadline, err);
    if (status == HF_LOST || status == HF_TIMEOUT)
        answer_all(changes, n, sent ? HF_UNKNOWN : HF_TRANSIENT);
    else if (n == 1 || conn->lost)
        answer_all(changes, n, status);
    else
        return settle_each(plan, conn, changes, n, deadline, err);
    return status;
}

static hf_status settle(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, struct hf__deadline deadline,
                        hf_error *err)
{
    struct hf__change **sorted = malloc(n * sizeof *sorted);
    if (!sorted) {
        for (size_t i = 0; i < n; i++)
            changes[i].status = HF_TRANSIENT;
        return hf__fail_memory(err);
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &changes[i];
        changes[i].status = HF_TRANSIENT; /* not tried yet */
    }
    qsort(sorted, n, sizeof *sorted, compare_changes);
    hf_status first = HF_OK;
    for (size_t done = 0; done < n && !conn->lost;) {
        hf_error ignored;
        size_t slice = n - done < HF__LIST_MAX ? n - done : HF__LIST_MAX;
        hf_status status = settle_slice(plan, conn, sorted + done, slice, deadline, first == HF_OK ? err : &ignored);
        if (first == HF_OK)
            first = status;
        done += slice;
    }
    free(sorted);
    return first;
}

/* Rows past max_attempts come leased like the others, and are settled into the dead letter. One that cannot be moved stays leased, and
 * comes again when that ends. */
static hf_status claim(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline,
                       struct hf__row **rows, size_t *n, hf_error *err)
{
    hf_status status;
    bool more;
    do {
        size_t buried = ask->buried;
        status = claim_rows(plan, conn, ask, deadline, rows, n, err);
        if (status == HF_OK && plan->table->max_attempts > 0)
            status = hf__bury_used_up(plan, conn, settle, ask, rows, n, deadline, err);
        more = *n == 0 && ask->buried > buried && !conn->lost && !hf__passed(deadline);
    } while (more);
    return *n > 0 ? HF_OK : status;
}

const struct hf__strategy hf__lease = {
    .size = sizeof(struct hf__strategy),
    .kind = HF__LEASE,
    .holds = HF__PURPOSE_CLAIM, /* holds no connection: its cost is 0 */
    .claim = claim,
    .settle = settle,
    .renew = renew,
    .resolve = resolve,
};
