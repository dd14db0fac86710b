/* Requeue: dead letters go back to be run again, in pieces of one transaction each. A piece reads its ids plainly; then each row is locked
 * (a row that somebody works on is passed over) and moved by its id while it still is what was looked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/column.h"
#include "strategies/dead_letter.h"

#define PIECE 256

struct requeue {
    struct hf__plan *plan;
    struct hf__conn *conn;
    const struct hf__requeue *what;
    struct hf__args args;
    struct hf__rendered list, see, lock, move, leave; /* leave: where a move to the table takes two statements */
    const char **named;                               /* the ids that were named, each once */
    size_t n_named;
    struct hf__value ids[PIECE];
    size_t n;
    struct hf__rows rows[2]; /* which the ids borrow from: in turn, because the last id of a piece is needed for the next */
    unsigned turn;
    unsigned waited;  /* how often this piece has waited for a row that somebody has locked */
    int64_t piece_ns; /* the time that each piece has */
    size_t *moved;
    hf_status first; /* what the first row was refused with, */
    hf_error refusal;
    hf_error *err;
};

static const char *table_of(const struct requeue *r)
{
    return r->plan->table->display;
}

/* ---- what may be asked ---- */

static hf_status check_groups(struct requeue *r)
{
    const struct hf_table *table = r->plan->table;
    const struct hf__requeue *what = r->what;
    if (table->dead_group && what->group)
        return hf__fail(r->err, HF_INVALID,
                        "table %s: its dead letters stand in group \"%s\" and do not keep the group that they came from: leave group out",
                        table->display, table->dead_group);
    if (table->dead_group && !what->to_group)
        return hf__fail(r->err, HF_INVALID,
                        "table %s: its dead letters stand in group \"%s\" and do not keep the group that they came from: say with to_group"
                        " where they go",
                        table->display, table->dead_group);
    if (table->dead_group && strcmp(what->to_group, table->dead_group) == 0)
        return hf__fail(r->err, HF_INVALID, "table %s: to_group \"%s\" is the dead letters' own group: name another", table->display,
                        what->to_group);
    const struct hf__column *column = r->plan->role[HF__ROLE_GROUP];
    if ((what->group || what->to_group) && !column)
        return hf__fail(r->err, HF_INVALID, "table %s: the description has no \"group\" column: leave group and to_group out",
                        table->display);
    if (what->to_group && !hf__column_holds(column, what->to_group))
        return hf__fail(r->err, HF_INVALID, "table %s: column \"%s\" of type %s cannot hold the group \"%s\"", table->display, column->name,
                        column->type, what->to_group);
    if (what->group && !hf__column_holds(column, what->group))
        return hf__fail(r->err, HF_INVALID, "table %s: column \"%s\" of type %s cannot hold the group \"%s\"", table->display, column->name,
                        column->type, what->group);
    return HF_OK;
}

static hf_status check(struct requeue *r)
{
    if (!hf__table_has_dead_letter(r->plan->table))
        return hf__fail(r->err, HF_INVALID, "table %s: the description has no \"dead_letter\", so there is nothing to bring back",
                        table_of(r));
    return check_groups(r);
}

/* ---- the statements ---- */

static bool from_group(const struct hf__plan *plan)
{
    return plan->table->dead_group != NULL;
}

static void put_from(struct hf__sql *sql, const struct hf__plan *plan)
{
    if (from_group(plan))
        hf__put_table(sql, plan);
    else
        hf__sql_dead_table(sql, plan->table);
}

/* A dead letter that nobody works on. */
static void put_dead(struct hf__sql *sql, const struct requeue *r, bool *any)
{
    hf__put_unfinished(sql, r->plan, any);
    hf__put_unleased(sql, r->plan, any);
    if (!from_group(r->plan) && !r->what->group)
        return;
    hf__put_and(sql, any);
    hf__sql_name(sql, HF__COLUMN(r->plan, GROUP));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, from_group(r->plan) ? HF__P_DEAD : HF__P_GROUP);
}

static void put_by_id(struct hf__sql *sql, const struct requeue *r, bool *any)
{
    hf__put_and(sql, any);
    hf__sql_name(sql, HF__COLUMN(r->plan, ID));
    hf__sql_put(sql, " = ");
    hf__sql_bind(sql, HF__P_ID);
}

/* after: behind the last id of the piece before. */
static hf_status render_list(const struct requeue *r, bool after, struct hf__rendered *out)
{
    struct hf__sql sql;
    bool any = false;
    hf__sql_begin(&sql, r->plan->dialect->database);
    hf__sql_put(&sql, "SELECT ");
    hf__sql_name(&sql, HF__COLUMN(r->plan, ID));
    hf__sql_put(&sql, " FROM ");
    put_from(&sql, r->plan);
    put_dead(&sql, r, &any);
    if (after) {
        hf__put_and(&sql, &any);
        hf__sql_name(&sql, HF__COLUMN(r->plan, ID));
        hf__sql_put(&sql, " > ");
        hf__sql_bind(&sql, HF__P_ID);
    }
    hf__sql_put(&sql, " ORDER BY ");
    hf__sql_name(&sql, HF__COLUMN(r->plan, ID));
    hf__sql_put(&sql, " LIMIT ");
    hf__sql_number(&sql, PIECE);
    return hf__sql_finish(&sql, false, out, r->err);
}

static hf_status render_one(struct requeue *r, bool lock, struct hf__rendered *out)
{
    struct hf__sql sql;
    bool any = false;
    hf__sql_begin(&sql, r->plan->dialect->database);
    hf__sql_put(&sql, "SELECT 1 FROM ");
    put_from(&sql, r->plan);
    put_dead(&sql, r, &any);
    put_by_id(&sql, r, &any);
    if (lock && !r->plan->dialect->one_writer)
        hf__sql_put(&sql, " FOR UPDATE SKIP LOCKED");
    return hf__sql_finish(&sql, false, out, r->err);
}

/* What a row is set to on its way back: its role's new value, or false: it keeps what it has. */
static bool put_renewed(struct hf__sql *sql, const struct requeue *r, const struct hf__column *column)
{
    const struct hf__plan *plan = r->plan;
    if (column == plan->role[HF__ROLE_ATTEMPT])
        hf__sql_put(sql, "1");
    else if (column == plan->role[HF__ROLE_LOCKED_UNTIL] || column == plan->role[HF__ROLE_PROCESSED_AT])
        hf__sql_put(sql, "NULL");
    else if (column == plan->role[HF__ROLE_RETRY_AFTER])
        hf__put_now(sql, plan);
    else if (column == plan->role[HF__ROLE_GROUP] && r->what->to_group)
        hf__sql_bind(sql, HF__P_TO_GROUP);
    else
        return false;
    return true;
}

static void put_cast(struct hf__sql *sql, const struct requeue *r, const struct hf__column *column)
{
    bool bound = column == r->plan->role[HF__ROLE_GROUP] || column == r->plan->role[HF__ROLE_RETRY_AFTER];
    if (r->plan->server.database != HF__POSTGRES || !bound)
        return;
    hf__sql_put(sql, "::");
    hf__sql_put(sql, column->type);
}

static void put_values(struct hf__sql *sql, const struct requeue *r)
{
    bool any = false;
    for (size_t i = 0; i < r->plan->relation.n_columns; i++) {
        const struct hf__column *column = &r->plan->relation.columns[i];
        if (column->computed)
            continue;
        hf__sql_put(sql, any ? ", " : "");
        any = true;
        if (put_renewed(sql, r, column))
            put_cast(sql, r, column);
        else
            hf__sql_name(sql, column->name);
    }
}

static void put_insert(struct hf__sql *sql, const struct requeue *r)
{
    hf__sql_put(sql, "INSERT INTO ");
    hf__sql_table(sql, r->plan->table);
    hf__put_copied(sql, r->plan);
    put_values(sql, r);
    hf__sql_put(sql, " FROM ");
}

static void put_delete(struct hf__sql *sql, const struct requeue *r)
{
    bool any = false;
    hf__sql_put(sql, "DELETE FROM ");
    put_from(sql, r->plan);
    put_dead(sql, r, &any);
    put_by_id(sql, r, &any);
}

static void put_update(struct hf__sql *sql, const struct requeue *r)
{
    static const enum hf__role set[] = {HF__ROLE_GROUP, HF__ROLE_ATTEMPT, HF__ROLE_LOCKED_UNTIL, HF__ROLE_RETRY_AFTER};
    bool any = false, where = false;
    hf__sql_put(sql, "UPDATE ");
    put_from(sql, r->plan);
    hf__sql_put(sql, " SET ");
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        const struct hf__column *column = r->plan->role[set[i]];
        if (!column)
            continue;
        hf__put_set(sql, &any, column->name);
        (void)put_renewed(sql, r, column);
    }
    put_dead(sql, r, &where);
    put_by_id(sql, r, &where);
}

static void put_copy(struct hf__sql *sql, const struct requeue *r)
{
    bool any = false;
    put_insert(sql, r);
    put_from(sql, r->plan);
    put_dead(sql, r, &any);
    put_by_id(sql, r, &any);
}

static void put_move_in_one(struct hf__sql *sql, const struct requeue *r)
{
    hf__sql_put(sql, "WITH taken AS (");
    put_delete(sql, r);
    hf__sql_put(sql, " RETURNING *) ");
    put_insert(sql, r);
    hf__sql_put(sql, "taken");
}

static hf_status render(struct requeue *r, void (*put)(struct hf__sql *, const struct requeue *), struct hf__rendered *out)
{
    struct hf__sql sql;
    hf__sql_begin(&sql, r->plan->dialect->database);
    put(&sql, r);
    return hf__sql_finish(&sql, false, out, r->err);
}

static hf_status render_all(struct requeue *r)
{
    bool one = r->plan->server.database == HF__POSTGRES;
    hf_status status = render_one(r, true, &r->lock);
    if (status == HF_OK)
        status = render_one(r, false, &r->see);
    if (status == HF_OK)
        status = render(r, from_group(r->plan) ? put_update : one ? put_move_in_one : put_copy, &r->move);
    if (status == HF_OK && !from_group(r->plan) && !one)
        status = render(r, put_delete, &r->leave);
    return status;
}

/* ---- a row ---- */

static hf_status run(struct requeue *r, const struct hf__rendered *statement, uint64_t *matched, struct hf__deadline deadline)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = hf__sql_run(r->conn, statement, &r->args, &rows, deadline, r->err);
    *matched = statement == &r->lock || statement == &r->see ? rows.count : rows.matched;
    hf__rows_free(&rows);
    return status;
}

/* A claim that passes by has a row locked for a moment (MySQL, MariaDB), a worker for as long as its handler runs: it is waited for a
 * little, and then left alone. */
static hf_status lock_row(struct requeue *r, uint64_t *found, struct hf__deadline deadline)
{
    enum { WAITS = 8 };
    for (;;) {
        uint64_t seen;
        hf_status status = run(r, &r->lock, found, deadline);
        if (status != HF_OK || *found > 0)
            return status;
        status = run(r, &r->see, &seen, deadline);
        if (status != HF_OK || seen == 0 || r->waited >= WAITS || !hf__backoff(r->waited++, deadline))
            return status;
    }
}

/* *there: it was a dead letter that nobody works on, and is back now. */
static hf_status move_row(struct requeue *r, const struct hf__value *id, bool *there, struct hf__deadline deadline)
{
    uint64_t found, arrived = 0, left = 1;
    r->args.one[HF__P_ID] = *id;
    hf_status status = lock_row(r, &found, deadline);
    *there = status == HF_OK && found > 0;
    if (!*there)
        return status;
    status = run(r, &r->move, &arrived, deadline);
    if (status == HF_OK && r->leave.text)
        status = run(r, &r->leave, &left, deadline);
    if (status == HF_OK && (arrived != 1 || left != 1))
        status = hf__fail(r->err, HF_DATABASE, "table %s: %" PRIu64 " rows of one dead letter arrived in the table; is the id unique?",
                          table_of(r), arrived);
    return status;
}

static hf_status missing(struct requeue *r, const struct hf__value *id)
{
    char *text = hf__id_text(id);
    hf_status status = hf__fail(r->err, HF_INVALID, "table %s: row %s is not among the dead letters that %s, or is in work", table_of(r),
                                text ? text : "?", r->what->group ? "match" : "can go back");
    free(text);
    return status;
}

/* ---- a piece ---- */

static struct hf__deadline piece_deadline(const struct requeue *r)
{
    return r->piece_ns == INT64_MAX ? hf__never() : hf__at_ns(hf__monotonic_ns() + r->piece_ns);
}

/* Moves ids[first..first + n) in one transaction. */
static hf_status move_together(struct requeue *r, size_t first, size_t n)
{
    struct hf__deadline deadline = piece_deadline(r);
    enum hf__isolation level = r->plan->dialect->one_writer ? HF__ISOLATION_DEFAULT : HF__READ_COMMITTED;
    size_t moved = 0;
    r->waited = 0;
    hf_status status = hf__conn_begin(r->conn, level, r->plan->table->mode, deadline, r->err);
    for (size_t i = first; i < first + n && status == HF_OK; i++) {
        bool there;
        status = move_row(r, &r->ids[i], &there, deadline);
        moved += there;
        if (status == HF_OK && !there && r->what->n_ids > 0)
            status = missing(r, &r->ids[i]);
    }
    if (status == HF_OK)
        status = hf__conn_commit(r->conn, deadline, r->err);
    if (status == HF_OK)
        *r->moved += moved;
    else
        hf__conn_end(r->conn, deadline);
    return status;
}

static hf_status try_together(struct requeue *r, size_t first, size_t n)
{
    unsigned attempt = 0;
    hf_status status;
    do
        status = move_together(r, first, n);
    while (status == HF_TRANSIENT && !r->conn->lost && attempt < 8 && hf__backoff(attempt++, piece_deadline(r)));
    return status;
}

/* One row that the database refuses does not keep the others from going back: they go one by one then. */
static hf_status move_piece(struct requeue *r)
{
    hf_status status = try_together(r, 0, r->n);
    if (status != HF_DATABASE)
        return status;
    for (size_t i = 0; i < r->n; i++) {
        status = try_together(r, i, 1);
        if (status == HF_DATABASE && r->first == HF_OK) {
            r->first = status;
            r->refusal = *r->err;
        }
        if (status != HF_OK && status != HF_DATABASE)
            return status;
    }
    return HF_OK;
}

/* ---- which rows ---- */

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A binary id is written in hexadecimal. */
static bool read_bytes(struct requeue *r, const char *text, struct hf__value *id)
{
    size_t len = strlen(text);
    char *bytes = len % 2 == 0 ? hf__rows_alloc(&r->rows[0], len / 2) : NULL;
    for (size_t i = 0; bytes && i < len; i += 2) {
        int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i / 2] = (char)(high * 16 + low);
    }
    *id = hf__bytes(bytes, len / 2);
    return bytes != NULL;
}

/* An id as its column keeps it. SQLite's columns without a type keep what was put there. */
static bool read_id(struct requeue *r, const char *text, struct hf__value *id)
{
    const struct hf__column *column = r->plan->role[HF__ROLE_ID];
    static const struct hf__column any_integer = {.kind = HF__COLUMN_INTEGER, .bits = 64};
    *id = hf__text(text);
    if (column->kind == HF__COLUMN_INTEGER)
        return hf__column_integer(column, text, id);
    if (r->plan->server.database == HF__SQLITE && column->kind != HF__COLUMN_BYTES) {
        if (*column->type || !hf__column_integer(&any_integer, text, id))
            *id = hf__text(text);
        return true;
    }
    if (column->kind == HF__COLUMN_BYTES)
        return read_bytes(r, text, id);
    return hf__column_holds(column, text);
}

static hf_status list_named(struct requeue *r, size_t done)
{
    hf__rows_clear(&r->rows[0]);
    for (r->n = 0; r->n < PIECE && done + r->n < r->n_named; r->n++)
        if (!read_id(r, r->named[done + r->n], &r->ids[r->n]))
            return hf__fail(r->err, HF_INVALID, "table %s: \"%s\" is no id of a row: column \"%s\" is %s", table_of(r),
                            r->named[done + r->n], HF__COLUMN(r->plan, ID), r->plan->role[HF__ROLE_ID]->type);
    return HF_OK;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* An id that is named twice goes back once. */
static void sort_out(struct requeue *r)
{
    size_t n = r->what->n_ids;
    memcpy(r->named, r->what->ids, n * sizeof *r->named);
    qsort(r->named, n, sizeof *r->named, by_text);
    for (size_t i = 0; i < n; i++)
        if (r->n_named == 0 || strcmp(r->named[r->n_named - 1], r->named[i]) != 0)
            r->named[r->n_named++] = r->named[i];
}

static hf_status move_named(struct requeue *r)
{
    r->named = calloc(r->what->n_ids, sizeof *r->named);
    if (!r->named)
        return hf__fail_memory(r->err);
    sort_out(r);
    hf_status status = HF_OK;
    for (size_t done = 0; done < r->n_named && status == HF_OK; done += r->n) {
        status = list_named(r, done);
        if (status == HF_OK)
            status = move_piece(r);
    }
    return status;
}

/* The next ids, in their order: those that could not be moved are behind then. */
static hf_status list_next(struct requeue *r)
{
    struct hf__rows *rows = &r->rows[r->turn++ % 2];
    hf__rendered_free(&r->list);
    if (r->n > 0)
        r->args.one[HF__P_ID] = r->ids[r->n - 1];
    hf_status status = render_list(r, r->n > 0, &r->list);
    if (status == HF_OK)
        status = hf__sql_run(r->conn, &r->list, &r->args, rows, piece_deadline(r), r->err);
    r->n = status == HF_OK ? rows->count : 0;
    for (size_t i = 0; i < r->n; i++)
        r->ids[i] = *hf__cell(rows, i, 0);
    return status;
}

static hf_status move_all(struct requeue *r)
{
    hf_status status;
    do {
        status = list_next(r);
        if (status == HF_OK && r->n > 0)
            status = move_piece(r);
    } while (status == HF_OK && r->n == PIECE);
    return status;
}

static void release(struct requeue *r)
{
    free(r->named);
    hf__rows_free(&r->rows[0]);
    hf__rows_free(&r->rows[1]);
    hf__rendered_free(&r->list);
    hf__rendered_free(&r->see);
    hf__rendered_free(&r->lock);
    hf__rendered_free(&r->move);
    hf__rendered_free(&r->leave);
}

hf_status hf__plan_requeue(struct hf__plan *plan, struct hf__conn *conn, const struct hf__requeue *what, struct hf__deadline deadline,
                           size_t *moved, hf_error *err)
{
    hf_error said = {.status = HF_OK};
    struct requeue r = {.plan = plan, .conn = conn, .what = what, .piece_ns = hf__left_ns(deadline), .moved = moved, .err = &said};
    *moved = 0;
    hf__rows_init(&r.rows[0]);
    hf__rows_init(&r.rows[1]);
    hf_status status = check(&r);
    if (status == HF_OK)
        status = render_all(&r);
    if (status == HF_OK) {
        hf__plan_args(plan, &r.args, hf__clock_now_us(plan->clock));
        r.args.one[HF__P_TO_GROUP] = hf__text(what->to_group);
        r.args.one[HF__P_GROUP] = hf__text(what->group);
        r.args.n_many[HF__P_GROUP] = 0; /* the plan's own groups do not matter here */
        status = what->n_ids > 0 ? move_named(&r) : move_all(&r);
    }
    release(&r);
    if (status == HF_OK && r.first != HF_OK) {
        status = r.first;
        said = r.refusal;
    }
    if (status != HF_OK && err)
        *err = said;
    return status;
}
