#include "strategies/fifo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/array.h"

/* Reading which heads are due costs a look at every group, so what one claim does not need of it serves the next ones for a moment, and
 * at least for as long as the reading took. Each head is read again under its guard; what a stale hint can do is ask in vain, or let a head
 * that came since wait for that moment. */
#define HINT_NS (50 * INT64_C(1000000))
#define PAGE ((size_t)256)
#define PAGE_MOST ((size_t)4096)

/* A group whose head was seen to be due. */
struct candidate {
    struct hf__value group;
    bool stale; /* leases that are over stand in it */
    bool moved; /* its head was another one when its guard was had: tried once more */
    char text[];
};

struct hf__fifo {
    char *table_name; /* quoted, as the guard takes it */
    pthread_mutex_t lock;
    struct candidate **hints; /* in claim order; those before next are taken */
    size_t next, n_hints;
    int64_t until_ns;
    bool loose_first; /* whose turn it is */
};

/* One claim. */
struct search {
    struct hf__plan *plan;
    struct hf__conn *conn;
    const struct hf__fifo_hold *hold;
    const struct hf__claim *ask;
    struct hf__args args;
    struct hf__rows answer;
    struct hf__deadline deadline;
    struct hf__row **rows;
    size_t n, limit;
    bool open; /* a transaction is begun */
    bool any;  /* heads were found */
    hf_error *err;
};

/* Candidates that are tried together. */
struct slice {
    struct candidate *each[HF__LIST_MAX];
    size_t n, tried; /* of those behind tried the guard was not asked */
};

/* ---- what is remembered between claims ---- */

static hf_status name_table(const struct hf__plan *plan, char **out, hf_error *err)
{
    struct hf__sql sql;
    struct hf__rendered rendered;
    hf__sql_begin(&sql, plan->dialect->database);
    hf__sql_table(&sql, plan->table);
    hf_status status = hf__sql_finish(&sql, false, &rendered, err);
    if (status == HF_OK)
        *out = rendered.text;
    return status;
}

hf_status hf__fifo_open(struct hf__plan *plan, hf_error *err)
{
    if (!plan->table->fifo)
        return HF_OK;
    struct hf__fifo *fifo = calloc(1, sizeof *fifo);
    if (!fifo)
        return hf__fail_memory(err);
    int failed = pthread_mutex_init(&fifo->lock, NULL);
    if (failed) {
        free(fifo);
        return hf__fail(err, HF_SYSTEM, "cannot make a mutex: %s", strerror(failed));
    }
    plan->fifo = fifo;
    return name_table(plan, &fifo->table_name, err);
}

static void free_candidates(struct candidate **each, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(each[i]);
}

static void drop_hints(struct hf__fifo *fifo)
{
    free_candidates(fifo->hints + fifo->next, fifo->n_hints - fifo->next);
    free(fifo->hints);
    fifo->hints = NULL;
    fifo->next = fifo->n_hints = 0;
}

void hf__fifo_close(struct hf__fifo *fifo)
{
    if (!fifo)
        return;
    if (fifo->hints)
        drop_hints(fifo);
    pthread_mutex_destroy(&fifo->lock);
    free(fifo->table_name);
    free(fifo);
}

static size_t take_hints(struct hf__fifo *fifo, struct candidate **out, size_t want)
{
    size_t n = 0;
    pthread_mutex_lock(&fifo->lock);
    if (fifo->hints && hf__monotonic_ns() > fifo->until_ns)
        drop_hints(fifo);
    while (fifo->hints && n < want && fifo->next < fifo->n_hints)
        out[n++] = fifo->hints[fifo->next++];
    pthread_mutex_unlock(&fifo->lock);
    return n;
}

/* Takes over all of each, of which those before next are used. */
static void keep_hints(struct hf__fifo *fifo, struct candidate **each, size_t next, size_t n, int64_t until_ns)
{
    pthread_mutex_lock(&fifo->lock);
    if (fifo->hints)
        drop_hints(fifo);
    fifo->hints = each;
    fifo->next = next;
    fifo->n_hints = n;
    fifo->until_ns = until_ns;
    pthread_mutex_unlock(&fifo->lock);
}

/* ---- the transaction ---- */

static hf_status open_transaction(struct search *search)
{
    if (search->open)
        return HF_OK;
    hf_status status = hf__conn_begin(search->conn, search->hold->level, search->hold->mode, search->deadline, search->err);
    search->open = status == HF_OK;
    return status;
}

/* Gives the guards back. */
static void undo(struct search *search)
{
    search->open = false;
    hf__conn_end(search->conn, search->deadline);
}

static hf_status run(struct search *search, const struct hf__rendered *statement)
{
    return hf__sql_run(search->conn, statement, &search->args, &search->answer, search->deadline, search->err);
}

/* Leaves out heads whose partition key is in work. */
static hf_status run_take(struct search *search)
{
    struct hf__plan *plan = search->plan;
    const struct hf__rendered *take = hf__busy_variant(plan, search->ask, &plan->sql.take_head, plan->sql.take_head_busy, 1);
    return hf__run_claim(plan, search->conn, search->ask, take, &search->args, &search->answer, search->deadline, search->err);
}

/* ---- rows ---- */

static void drop_rows(struct search *search, size_t from)
{
    while (search->n > from)
        hf__row_free(search->rows[--search->n]);
}

/* The rows of the last answer, of which there is one a group. */
static hf_status add_rows(struct search *search)
{
    const struct hf__plan *plan = search->plan;
    bool lease = !search->hold->stays;
    if (search->answer.count > search->limit - search->n)
        return hf__fail(search->err, HF_DATABASE, "table %s: %zu heads were to be claimed and %zu were; the id column is not unique",
                        plan->table->display, search->limit, search->n + search->answer.count);
    int64_t ahead = lease && plan->dialect->lease_claim ? 1 : 0;
    hf_status status = hf__rows_read(plan, &search->answer, ahead, search->rows + search->n, search->err);
    for (size_t i = 0; status == HF_OK && i < search->answer.count; i++)
        search->rows[search->n++]->token_us = lease ? search->hold->expiry_us : 0;
    return status;
}

static void leave_out(struct slice *slice, size_t i)
{
    free(slice->each[i]);
    slice->n--;
    memmove(&slice->each[i], &slice->each[i + 1], (slice->n - i) * sizeof *slice->each);
}

/* ---- many groups in one statement (PostgreSQL) ---- */

static struct hf__value nth_group(const void *ctx, size_t i)
{
    return ((const struct slice *)ctx)->each[i]->group;
}

/* statement NULL: the take. */
static hf_status run_on_all(struct search *search, const struct hf__rendered *statement, const struct slice *slice)
{
    char *groups = hf__array_text(slice->n, nth_group, slice);
    if (!groups)
        return hf__fail_memory(search->err);
    search->args.one[HF__P_HEADS] = hf__text(groups);
    search->args.one[HF__P_TABLE] = hf__text(search->plan->fifo->table_name);
    search->args.one[HF__P_LIMIT] = hf__int((int64_t)(search->limit - search->n));
    hf_status status = statement ? run(search, statement) : run_take(search);
    free(groups);
    return status;
}

/* Keeps those of the slice that the answer names by their places, from 1. The guards were tried in order until there were enough. */
static void keep_guarded(struct search *search, struct slice *slice)
{
    bool there[HF__LIST_MAX] = {false};
    size_t last = 0;
    for (size_t r = 0; r < search->answer.count; r++) {
        int64_t place;
        if (!hf__value_int(hf__cell(&search->answer, r, 0), &place) || place < 1 || (size_t)place > slice->n)
            continue;
        there[place - 1] = true;
        last = (size_t)place > last ? (size_t)place : last;
    }
    if (search->answer.count == search->limit - search->n && last < slice->n)
        slice->n = slice->tried = last;
    for (size_t i = slice->n; i-- > 0;)
        if (!there[i])
            leave_out(slice, i);
}

/* Keeps those whose heads were taken. */
static void keep_taken(struct search *search, struct slice *slice)
{
    for (size_t i = slice->n; i-- > 0;) {
        bool taken = false;
        for (size_t r = 0; r < search->answer.count && !taken; r++)
            taken = hf__value_equal(hf__cell(&search->answer, r, HF__ROW_COLUMNS), &slice->each[i]->group);
        if (!taken)
            leave_out(slice, i);
    }
}

static bool any_stale(const struct slice *slice)
{
    for (size_t i = 0; i < slice->n; i++)
        if (slice->each[i]->stale)
            return true;
    return false;
}

static hf_status guard_and_take_all(struct search *search, struct slice *slice)
{
    const struct hf__statements *s = &search->plan->sql;
    hf_status status = open_transaction(search);
    if (status == HF_OK)
        status = run_on_all(search, &s->guard, slice);
    if (status != HF_OK)
        return status;
    keep_guarded(search, slice);
    if (slice->n > 0 && s->clear.text && any_stale(slice))
        status = run_on_all(search, &s->clear, slice);
    if (status == HF_OK && slice->n > 0)
        status = run_on_all(search, NULL, slice);
    return status;
}

/* A guard whose head was not taken must not stay for as long as the rows do: all is undone, and only the others are tried again. */
static hf_status try_all(struct search *search, struct slice *slice)
{
    while (slice->n > 0) {
        hf_status status = guard_and_take_all(search, slice);
        if (status != HF_OK || slice->n == 0)
            return status;
        size_t guarded = slice->n;
        keep_taken(search, slice);
        if (slice->n == guarded || (slice->n > 0 && !search->hold->stays))
            return add_rows(search);
        undo(search);
    }
    return HF_OK;
}

/* ---- one group after the other (MySQL, SQLite) ---- */

static hf_status run_on_one(struct search *search, const struct hf__rendered *statement, const struct candidate *candidate)
{
    search->args.one[HF__P_HEADS] = candidate->group;
    return run(search, statement);
}

/* Runs a guard, which waits for nobody; *count is of the rows that it locked. *refused: someone works on that group, and this transaction
 * may be undone already. */
static hf_status guard_one(struct search *search, const struct candidate *candidate, int64_t *count, bool *refused)
{
    hf_error own, *err = search->err;
    *count = 0;
    search->err = &own;
    hf_status status = run_on_one(search, &search->plan->sql.guard, candidate);
    search->err = err;
    *refused = status == HF_TRANSIENT && search->plan->dialect->guard_refused(&own);
    if (status == HF_OK && search->answer.count == 1)
        (void)hf__value_int(hf__cell(&search->answer, 0, 0), count);
    if (status == HF_OK || *refused)
        return HF_OK;
    if (err)
        *err = own;
    return status;
}

/* Before the head is read: locks the group's rows (row lock; rows that come in later are no guard, so there must be some), or its leases
 * that are over, which lose their tokens. */
static hf_status prepare_one(struct search *search, const struct candidate *candidate, bool *refused, bool *ready)
{
    const struct hf__plan *plan = search->plan;
    bool stays = search->hold->stays, clears = plan->sql.clear.text && candidate->stale, guards = plan->sql.guard.text && (clears || stays);
    int64_t count = 0;
    *ready = true;
    if (!guards && !clears)
        return HF_OK;
    hf_status status = guards ? guard_one(search, candidate, &count, refused) : HF_OK;
    *ready = status == HF_OK && !*refused && (!stays || count > 0);
    if (*ready && clears)
        status = run_on_one(search, &plan->sql.clear, candidate);
    return status;
}

/* After the leases are written: another claim may have written one into the same group, for a head that came in since; or the row that
 * was taken was settled and given another place between the look for the head and its lock. */
static hf_status check_one(struct search *search, struct candidate *candidate, const struct hf__row *row, bool *refused, bool *again)
{
    int64_t count;
    *again = false;
    hf_status status = guard_one(search, candidate, &count, refused);
    if (status != HF_OK || *refused)
        return status;
    bool is_head = hf__value_equal(hf__cell(&search->answer, 0, 1), &row->id);
    *refused = count != 1 || !is_head;
    *again = count == 1 && !is_head && !candidate->moved;
    candidate->moved = true;
    return HF_OK;
}

static hf_status take_one(struct search *search, const struct candidate *candidate)
{
    search->args.one[HF__P_HEADS] = candidate->group;
    hf_status status = run_take(search);
    return status == HF_OK ? add_rows(search) : status;
}

static hf_status take_each(struct search *search, struct slice *slice, bool *refused)
{
    hf_status status = open_transaction(search);
    for (size_t i = 0; i < slice->n && status == HF_OK && !*refused;) {
        size_t before = search->n;
        bool ready;
        status = prepare_one(search, slice->each[i], refused, &ready);
        if (status == HF_OK && ready)
            status = take_one(search, slice->each[i]);
        if (*refused || (status == HF_OK && search->n == before))
            leave_out(slice, i);
        else
            i++;
    }
    return status;
}

/* The rows from first on are those of the slice, in its order. */
static hf_status check_each(struct search *search, struct slice *slice, size_t first, bool *refused)
{
    hf_status status = HF_OK;
    bool again;
    if (!search->plan->sql.guard.text || search->hold->stays)
        return HF_OK;
    for (size_t i = 0; i < slice->n && status == HF_OK && !*refused; i++) {
        status = check_one(search, slice->each[i], search->rows[first + i], refused, &again);
        if (*refused && !again)
            leave_out(slice, i);
    }
    return status;
}

static hf_status write_leases(struct search *search, size_t from)
{
    struct hf__value ids[HF__LIST_MAX];
    if (search->hold->stays || search->plan->dialect->lease_claim || search->n == from)
        return HF_OK;
    for (size_t i = from; i < search->n; i++)
        ids[i - from] = search->rows[i]->id;
    return hf__lease_rows(search->plan, search->conn, &search->args, ids, search->n - from, search->deadline, search->err);
}

/* A refusal undoes the transaction, with all that was taken in it; then the others are tried again. */
static hf_status try_each(struct search *search, struct slice *slice)
{
    size_t before = search->n;
    bool refused = true;
    hf_status status = HF_OK;
    while (slice->n > 0 && refused && status == HF_OK) {
        refused = false;
        status = take_each(search, slice, &refused);
        if (status == HF_OK && !refused)
            status = write_leases(search, before);
        if (status == HF_OK && !refused)
            status = check_each(search, slice, before, &refused);
        if (refused || status != HF_OK)
            drop_rows(search, before);
        if (refused || search->n == before)
            undo(search);
    }
    return status;
}

/* ---- candidates ---- */

/* Tries these, and frees those that were tried. Rows that it takes are leased and committed, or stay in the open transaction. */
static hf_status try_slice(struct search *search, struct slice *slice)
{
    size_t before = search->n;
    slice->tried = slice->n;
    hf_status status = search->plan->dialect->fifo_many ? try_all(search, slice) : try_each(search, slice);
    free_candidates(slice->each, slice->n);
    bool took = search->n > before;
    if (status == HF_OK && took && !search->hold->stays) {
        status = hf__conn_commit(search->conn, search->deadline, search->err);
        search->open = false;
    }
    if (status == HF_OK)
        return HF_OK;
    drop_rows(search, before);
    undo(search);
    return status;
}

static bool has_enough(const struct search *search)
{
    return search->n == search->limit || (search->n > 0 && search->hold->stays);
}

/* How many candidates go together: as many as are wanted; where a guard's refusal costs nothing, more to choose from. */
static size_t slice_for(const struct search *search, bool hints)
{
    const struct hf__dialect *dialect = search->plan->dialect;
    size_t want = search->limit - search->n;
    if (search->hold->stays && !dialect->fifo_many)
        return 1;
    if (dialect->fifo_many && !hints)
        return HF__LIST_MAX;
    return want < HF__LIST_MAX ? want : HF__LIST_MAX;
}

static hf_status try_hints(struct search *search)
{
    struct slice slice;
    hf_status status = HF_OK;
    while (status == HF_OK && !has_enough(search)) {
        slice.n = take_hints(search->plan->fifo, slice.each, slice_for(search, true));
        if (slice.n == 0)
            return HF_OK;
        status = try_slice(search, &slice);
    }
    return status;
}

static struct candidate *candidate_of(const struct hf__rows *rows, size_t r)
{
    const struct hf__value *group = hf__cell(rows, r, 0);
    bool text = group->type == HF__TEXT || group->type == HF__BYTES;
    size_t len = text ? group->s.len : 0;
    struct candidate *candidate = malloc(sizeof *candidate + len + 1);
    if (!candidate)
        return NULL;
    int64_t stale = 0;
    (void)hf__value_int(hf__cell(rows, r, 1), &stale);
    candidate->group = *group;
    candidate->stale = stale != 0;
    candidate->moved = false;
    if (text) {
        memcpy(candidate->text, group->s.data, len);
        candidate->group.s.data = candidate->text;
    }
    candidate->text[len] = '\0';
    return candidate;
}

static hf_status read_page(struct search *search, size_t offset, size_t size, struct candidate ***out, size_t *n)
{
    search->args.one[HF__P_LIMIT] = hf__int((int64_t)size);
    search->args.one[HF__P_OFFSET] = hf__int((int64_t)offset);
    hf_status status = run(search, &search->plan->sql.heads);
    *n = 0;
    *out = NULL;
    if (status != HF_OK || search->answer.count == 0)
        return status;
    *out = calloc(search->answer.count, sizeof **out);
    if (!*out)
        return hf__fail_memory(search->err);
    while (*n < search->answer.count && ((*out)[*n] = candidate_of(&search->answer, *n)))
        ++*n;
    if (*n == search->answer.count)
        return HF_OK;
    free_candidates(*out, *n);
    free(*out);
    *out = NULL;
    *n = 0;
    return hf__fail_memory(search->err);
}

/* Tries a page's candidates until there are enough rows; the rest are the next claims' hints. */
static hf_status try_page(struct search *search, struct candidate **each, size_t n, int64_t begun_ns)
{
    struct slice slice;
    int64_t now_ns = hf__monotonic_ns(), took_ns = now_ns - begun_ns, until_ns = now_ns + (took_ns > HINT_NS ? took_ns : HINT_NS);
    hf_status status = HF_OK;
    size_t next = 0;
    while (status == HF_OK && next < n && !has_enough(search)) {
        size_t most = slice_for(search, false);
        slice.n = n - next < most ? n - next : most;
        memcpy(slice.each, each + next, slice.n * sizeof *each);
        status = try_slice(search, &slice);
        next += slice.tried;
    }
    keep_hints(search->plan->fifo, each, next, n, until_ns);
    return status;
}

/* Groups that were taken have left the list, so the next page begins that much earlier. */
static hf_status try_pages(struct search *search)
{
    size_t offset = 0, size = PAGE, n;
    hf_status status;
    do {
        struct candidate **each;
        size_t before = search->n;
        int64_t begun_ns = hf__monotonic_ns();
        status = read_page(search, offset, size, &each, &n);
        if (status != HF_OK || n == 0)
            return status;
        search->any = true;
        status = try_page(search, each, n, begun_ns);
        offset += n - (search->n - before);
        if (n < size)
            break;
        size = size < PAGE_MOST ? 4 * size : size;
    } while (status == HF_OK && !has_enough(search));
    return status;
}

hf_status hf__fifo_heads(struct hf__plan *plan, struct hf__conn *conn, const struct hf__fifo_hold *hold, const struct hf__claim *ask,
                         struct hf__deadline deadline, struct hf__row **rows, size_t *n, hf_error *err)
{
    struct search search = {
        .plan = plan, .conn = conn, .hold = hold, .ask = ask, .deadline = deadline, .rows = rows, .limit = ask->limit, .err = err};
    hf__rows_init(&search.answer);
    hf__plan_args(plan, &search.args, hold->now_us);
    search.args.one[HF__P_EXPIRY] = hf__time_us(hold->expiry_us);
    hf_status status = try_hints(&search);
    if (status == HF_OK && !has_enough(&search))
        status = try_pages(&search);
    if (search.open && (search.n == 0 || !hold->stays))
        undo(&search);
    if (ask->contended && search.any && search.n == 0)
        *ask->contended = true;
    hf__rows_free(&search.answer);
    hf__rows_sort(rows, search.n);
    *n = search.n;
    /* Rows that are leased and committed are ours, whatever came after them. */
    return search.n > 0 ? HF_OK : status;
}

/* ---- heads, and rows without a group ---- */

static bool loose_turn(struct hf__fifo *fifo)
{
    pthread_mutex_lock(&fifo->lock);
    bool loose = fifo->loose_first;
    fifo->loose_first = !loose;
    pthread_mutex_unlock(&fifo->lock);
    return loose;
}

hf_status hf__fifo_in_turn(struct hf__plan *plan, struct hf__conn *conn, hf__claim_fn *heads, hf__claim_fn *loose,
                           const struct hf__claim *ask, struct hf__deadline deadline, struct hf__row **rows, size_t *n, hf_error *err)
{
    if (plan->n_groups > 0)
        return heads(plan, conn, ask, deadline, rows, n, err);
    bool loose_first = loose_turn(plan->fifo), stays = plan->strategy->kind == HF__ROW_LOCK;
    struct hf__claim rest = *ask;
    size_t more = 0;
    hf_status status = (loose_first ? loose : heads)(plan, conn, ask, deadline, rows, n, err);
    if (status != HF_OK || *n == ask->limit || (*n > 0 && stays))
        return status;
    rest.limit -= *n;
    status = (loose_first ? heads : loose)(plan, conn, &rest, deadline, rows + *n, &more, err);
    *n += more;
    return *n > 0 ? HF_OK : status;
}
