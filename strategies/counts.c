/* Counting, for tools: one pass over the table, so that every row is counted once, in the state that it is in at that moment. */
#include <stdlib.h>

#include "strategies/plan.h"

enum { COLUMN_GROUP, COLUMN_DUE, COLUMN_OLDEST, COLUMN_DELAYED, COLUMN_LEASED, COLUMN_PROCESSED, COLUMN_DEAD };

/* ---- the statements ---- */

static void put_group(struct hf__sql *sql, const struct hf__plan *plan, bool by_group)
{
    if (by_group)
        hf__sql_name(sql, HF__COLUMN(plan, GROUP));
    else
        hf__sql_put(sql, "NULL");
}

static void put_living(struct hf__sql *sql, const struct hf__plan *plan, bool dead)
{
    bool any = true;
    hf__put_unfinished(sql, plan, &any);
    if (!plan->table->dead_group) {
        hf__sql_put(sql, dead ? " AND 1 = 0" : "");
        return;
    }
    hf__sql_put(sql, " AND ");
    hf__put_is_dead(sql, plan);
    hf__sql_put(sql, dead ? " = 1" : " = 0");
}

static void put_due(struct hf__sql *sql, const struct hf__plan *plan)
{
    bool any = true;
    hf__sql_put(sql, "CASE WHEN 1 = 1");
    put_living(sql, plan, false);
    hf__put_due(sql, plan, &any);
    hf__put_unleased(sql, plan, &any);
    hf__sql_put(sql, " THEN ");
}

/* A time that lies ahead: a row that waits, or a lease that runs. */
static void put_ahead(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role, bool unleased)
{
    bool any = true;
    const char *column = plan->table->column[role];
    hf__sql_put(sql, ", COUNT(CASE WHEN 1 = 1");
    put_living(sql, plan, false);
    hf__put_and(sql, &any);
    if (column) {
        hf__sql_name(sql, column);
        hf__sql_put(sql, " > ");
        hf__put_now(sql, plan);
    } else {
        hf__sql_put(sql, "1 = 0");
    }
    if (unleased)
        hf__put_unleased(sql, plan, &any);
    hf__sql_put(sql, " THEN 1 END)");
}

static void put_states(struct hf__sql *sql, const struct hf__plan *plan)
{
    hf__sql_put(sql, ", COUNT(");
    put_due(sql, plan);
    hf__sql_put(sql, "1 END), ");
    if (HF__HAS(plan, RETRY_AFTER)) {
        hf__sql_put(sql, "MIN(");
        put_due(sql, plan);
        hf__sql_name(sql, HF__COLUMN(plan, RETRY_AFTER));
        hf__sql_put(sql, " END)");
    } else {
        hf__sql_put(sql, "NULL");
    }
    put_ahead(sql, plan, HF__ROLE_RETRY_AFTER, true);
    put_ahead(sql, plan, HF__ROLE_LOCKED_UNTIL, false);
    hf__sql_put(sql, ", COUNT(");
    if (HF__HAS(plan, PROCESSED_AT))
        hf__sql_name(sql, HF__COLUMN(plan, PROCESSED_AT));
    else
        hf__sql_put(sql, "NULL");
    hf__sql_put(sql, "), COUNT(CASE WHEN 1 = 1");
    put_living(sql, plan, true);
    hf__sql_put(sql, " THEN 1 END) FROM ");
}

/* Of the groups that the plan names; without names of all, that of the dead letters too. */
static void put_wanted(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    if (plan->n_groups > 0)
        hf__put_groups(sql, plan, any);
}

static hf_status render(const struct hf__plan *plan, bool dead_table, bool by_group, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    bool any = false;
    hf__sql_begin(&sql, plan->dialect->database);
    hf__sql_put(&sql, "SELECT ");
    put_group(&sql, plan, by_group);
    if (dead_table) {
        hf__sql_put(&sql, ", 0, NULL, 0, 0, 0, COUNT(*) FROM ");
        hf__sql_dead_table(&sql, plan->table);
        hf__put_unfinished(&sql, plan, &any);
    } else {
        put_states(&sql, plan);
        hf__put_table(&sql, plan);
    }
    put_wanted(&sql, plan, &any);
    if (by_group) {
        hf__sql_put(&sql, " GROUP BY ");
        put_group(&sql, plan, true);
    }
    return hf__sql_finish(&sql, false, out, err);
}

static hf_status read(struct hf__plan *plan, struct hf__conn *conn, bool dead_table, bool by_group, int64_t now_us, struct hf__rows *rows,
                      struct hf__deadline deadline, hf_error *err)
{
    struct hf__rendered statement;
    struct hf__args args;
    if (dead_table && !plan->table->dead_table)
        return HF_OK;
    hf_status status = render(plan, dead_table, by_group, &statement, err);
    if (status != HF_OK)
        return status;
    hf__plan_args(plan, &args, now_us);
    status = hf__sql_run(conn, &statement, &args, rows, deadline, err);
    hf__rendered_free(&statement);
    return status;
}

/* ---- the answers ---- */

static struct hf__counts none(const struct hf__plan *plan)
{
    return (struct hf__counts){.in_work = HF__HAS(plan, LOCKED_UNTIL) ? 0 : -1, .oldest_due_seconds = HF__HAS(plan, RETRY_AFTER) ? 0 : -1};
}

static void add(const struct hf__value *cell, int64_t *to)
{
    int64_t number;
    if (hf__value_int(cell, &number))
        *to += number;
}

static void add_row(struct hf__counts *counts, const struct hf__value *cell, int64_t now_us)
{
    int64_t oldest_us;
    add(&cell[COLUMN_DUE], &counts->due);
    add(&cell[COLUMN_DELAYED], &counts->delayed);
    if (counts->in_work >= 0)
        add(&cell[COLUMN_LEASED], &counts->in_work);
    add(&cell[COLUMN_PROCESSED], &counts->processed);
    add(&cell[COLUMN_DEAD], &counts->dead);
    if (hf__value_time(&cell[COLUMN_OLDEST], &oldest_us) && oldest_us < now_us)
        counts->oldest_due_seconds = (double)(now_us - oldest_us) / 1e6;
}

hf_status hf__plan_count(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, struct hf__counts *out, hf_error *err)
{
    struct hf__rows rows;
    int64_t now_us = hf__clock_now_us(plan->clock);
    hf_status status = HF_OK;
    hf__rows_init(&rows);
    *out = none(plan);
    int tables = plan->table->dead_table ? 2 : 1;
    for (int i = 0; i < tables && status == HF_OK; i++) {
        status = read(plan, conn, i == 1, false, now_us, &rows, deadline, err);
        if (status == HF_OK && rows.count == 1)
            add_row(out, hf__cell(&rows, 0, 0), now_us);
    }
    hf__rows_free(&rows);
    return status;
}

/* ---- by group ---- */

static int compare_groups(const void *left, const void *right)
{
    const struct hf__value *const *a = left, *const *b = right;
    return hf__value_compare(*a, *b);
}

/* The groups of both answers in order, one entry each. cells are the first of each row. */
static hf_status merge(const struct hf__plan *plan, const struct hf__value **cells, size_t n_cells, int64_t now_us,
                       struct hf__group_counts *out, size_t *n, hf_error *err)
{
    if (n_cells > 0)
        qsort(cells, n_cells, sizeof *cells, compare_groups);
    for (size_t i = 0; i < n_cells; i++) {
        if (i == 0 || hf__value_compare(cells[i - 1], cells[i]) != 0) {
            struct hf__group_counts *entry = &out[(*n)++];
            entry->counts = none(plan);
            if (cells[i]->type != HF__NULL && !(entry->group = hf__id_text(cells[i])))
                return hf__fail_memory(err);
        }
        add_row(&out[*n - 1].counts, cells[i], now_us);
    }
    return HF_OK;
}

static hf_status read_groups(struct hf__plan *plan, struct hf__conn *conn, struct hf__rows rows[2], struct hf__deadline deadline,
                             struct hf__group_counts **out, size_t *n, hf_error *err)
{
    int64_t now_us = hf__clock_now_us(plan->clock);
    hf_status status = read(plan, conn, false, true, now_us, &rows[0], deadline, err);
    if (status == HF_OK)
        status = read(plan, conn, true, true, now_us, &rows[1], deadline, err);
    if (status != HF_OK)
        return status;
    size_t n_cells = rows[0].count + rows[1].count;
    const struct hf__value **cells = calloc(n_cells + 1, sizeof *cells);
    *out = calloc(n_cells + 1, sizeof **out);
    for (size_t i = 0; cells && i < n_cells; i++)
        cells[i] = i < rows[0].count ? hf__cell(&rows[0], i, 0) : hf__cell(&rows[1], i - rows[0].count, 0);
    status = cells && *out ? merge(plan, cells, n_cells, now_us, *out, n, err) : hf__fail_memory(err);
    free(cells);
    return status;
}

hf_status hf__plan_count_groups(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, struct hf__group_counts **out,
                                size_t *n, hf_error *err)
{
    struct hf__rows rows[2];
    hf_status status;
    *out = NULL;
    *n = 0;
    hf__rows_init(&rows[0]);
    hf__rows_init(&rows[1]);
    if (HF__HAS(plan, GROUP)) {
        status = read_groups(plan, conn, rows, deadline, out, n, err);
    } else if (!(*out = calloc(1, sizeof **out))) {
        status = hf__fail_memory(err);
    } else {
        *n = 1;
        status = hf__plan_count(plan, conn, deadline, &(*out)->counts, err);
    }
    hf__rows_free(&rows[0]);
    hf__rows_free(&rows[1]);
    if (status != HF_OK) {
        hf__group_counts_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return status;
}

void hf__group_counts_free(struct hf__group_counts *counts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(counts[i].group);
    free(counts);
}
