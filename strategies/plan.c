#include "strategies/dead_letter.h"
#include "strategies/fifo.h"

#include <stdlib.h>
#include <string.h>

const struct hf_table *hf__plan_table(const struct hf__plan *plan)
{
    return plan->table;
}

const struct hf__strategy *hf__plan_strategy(const struct hf__plan *plan)
{
    return plan->strategy;
}

const struct hf__server *hf__plan_server(const struct hf__plan *plan)
{
    return &plan->server;
}

struct hf__clock *hf__plan_clock(const struct hf__plan *plan)
{
    return plan->clock;
}

int64_t hf__round_up(int64_t us, int64_t unit_us)
{
    int64_t over = us % unit_us;
    return over > 0 ? us + unit_us - over : us - over;
}

/* Times kept as text (SQLite) have the six digits that we write. */
int64_t hf__time_unit_us(const struct hf__column *column)
{
    int64_t unit = 1;
    if (!column || column->kind == HF__COLUMN_TEXT)
        return 1;
    for (unsigned digits = column->precision; digits < 6; digits++)
        unit *= 10;
    return unit;
}

static int64_t stored_max_of(const struct hf__column *column)
{
    unsigned bits = column && column->bits > 0 && column->bits < 64 ? column->bits : 63;
    if (column && column->bits < 64 && !column->is_unsigned && bits > 1)
        bits--;
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static void find_columns(struct hf__plan *plan)
{
    for (size_t role = 0; role < HF__ROLES; role++)
        if (plan->table->column[role])
            plan->role[role] = hf__relation_column(&plan->relation, plan->table->column[role], plan->dialect->any_case);
    plan->token_unit_us = hf__time_unit_us(plan->role[HF__ROLE_LOCKED_UNTIL]);
    plan->due_unit_us = hf__time_unit_us(plan->role[HF__ROLE_RETRY_AFTER]);
    plan->stored_max = stored_max_of(plan->role[HF__ROLE_ATTEMPT]);
}

static hf_status copy_groups(struct hf__plan *plan, const struct hf__plan_options *options, hf_error *err)
{
    if (options->n_groups == 0)
        return HF_OK;
    if (!HF__HAS(plan, GROUP))
        return hf__fail(
            err, HF_INVALID,
            "table %s: the subscription names groups, but the table description has no \"group\" column; add one or read the whole table",
            plan->table->display);
    plan->groups = calloc(options->n_groups, sizeof *plan->groups);
    plan->group_names = calloc(options->n_groups, sizeof *plan->group_names);
    if (!plan->groups || !plan->group_names)
        return hf__fail_memory(err);
    for (size_t i = 0; i < options->n_groups; i++) {
        plan->group_names[i] = strdup(options->groups[i]);
        if (!plan->group_names[i])
            return hf__fail_memory(err);
        plan->groups[i] = hf__text(plan->group_names[i]);
        plan->n_groups++;
    }
    return HF_OK;
}

static hf_status list_literals(struct hf__plan *plan, hf_error *err)
{
    if (plan->table->n_key == 0)
        return HF_OK;
    plan->literals = calloc(plan->table->n_key, sizeof *plan->literals);
    if (!plan->literals)
        return hf__fail_memory(err);
    for (size_t i = 0; i < plan->table->n_key; i++)
        if (!plan->table->key[i].is_column)
            plan->literals[plan->n_literals++] = hf__text(plan->table->key[i].text);
    return HF_OK;
}

/* Where the database keeps no locks the process does, one set for each database file. */
static hf_status open_keys(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    if (plan->strategy->kind != HF__ADVISORY_LOCK)
        return HF_OK;
    if (plan->dialect->try_lock)
        return hf__keys_private(&plan->keys, err);
    static const struct hf__statement file_of = {.sql = "SELECT file FROM pragma_database_list WHERE name = ?1", .serial = 0};
    struct hf__value name = hf__text(plan->table->schema ? plan->table->schema : "main");
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = hf__conn_run(conn, &file_of, &name, 1, &rows, deadline, err);
    if (status == HF_OK) {
        const struct hf__value *file = rows.count == 1 ? hf__cell(&rows, 0, 0) : NULL;
        status = file && file->type == HF__TEXT && file->s.len > 0
                     ? hf__keys_of_file(file->s.data, &plan->keys, err)
                     : hf__fail(err, HF_UNSUPPORTED, "table %s: advisory keys need a database in a file", plan->table->display);
    }
    hf__rows_free(&rows);
    return status;
}

static hf_status refuse_faults(struct hf__plan *plan, struct hf__conn *conn, struct hf__findings *wanted, struct hf__deadline deadline,
                               hf_error *err)
{
    struct hf__findings own = {0}, *findings = wanted ? wanted : &own;
    hf_status status = hf__inspect(conn, plan->table, deadline, findings, err);
    if (status == HF_OK)
        status = hf__findings_first_error(findings, err);
    hf__findings_free(&own);
    return status;
}

static hf_status fill(struct hf__plan *plan, struct hf__conn *conn, const struct hf__plan_options *options, struct hf__deadline deadline,
                      hf_error *err)
{
    hf_status status = refuse_faults(plan, conn, options->findings, deadline, err);
    if (status == HF_OK)
        status = hf__conn_describe(conn, plan->table->schema, plan->table->name, deadline, &plan->relation, err);
    if (status != HF_OK)
        return status;
    find_columns(plan);
    if (plan->table->dead_table)
        status = hf__conn_describe(conn, plan->table->dead_schema, plan->table->dead_table, deadline, &plan->dead, err);
    if (status == HF_OK)
        status = copy_groups(plan, options, err);
    if (status == HF_OK)
        status = list_literals(plan, err);
    if (status == HF_OK)
        status = open_keys(plan, conn, deadline, err);
    if (status == HF_OK)
        status = hf__fifo_open(plan, err);
    if (status == HF_OK)
        status = hf__render_all(plan, err);
    return status;
}

hf_status hf__plan_open(struct hf__conn *conn, const struct hf_table *table, const struct hf__plan_options *options,
                        struct hf__deadline deadline, struct hf__plan **out, hf_error *err)
{
    *out = NULL;
    struct hf__plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return hf__fail_memory(err);
    plan->table = hf__table_copy(table);
    plan->strategy = hf__strategy_of(hf__table_kind(table));
    plan->dialect = hf__dialect_of(conn->server.database);
    plan->server = conn->server;
    plan->clock = options->clock;
    hf_status status = plan->table ? fill(plan, conn, options, deadline, err) : hf__fail_memory(err);
    if (status == HF_OK)
        *out = plan;
    else
        hf__plan_close(plan);
    return status;
}

void hf__plan_close(struct hf__plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->n_groups; i++)
        free(plan->group_names[i]);
    free(plan->group_names);
    free(plan->groups);
    free(plan->literals);
    hf__keys_close(plan->keys);
    hf__fifo_close(plan->fifo);
    hf__statements_free(&plan->sql);
    hf__relation_free(&plan->relation);
    hf__relation_free(&plan->dead);
    hf__table_free(plan->table);
    free(plan);
}

void hf__plan_args(const struct hf__plan *plan, struct hf__args *args, int64_t now_us)
{
    memset(args, 0, sizeof *args); /* every value NULL, every list empty */
    args->one[HF__P_NOW] = hf__time_us(now_us);
    args->many[HF__P_GROUP] = plan->groups;
    args->n_many[HF__P_GROUP] = plan->n_groups;
    args->many[HF__P_LITERAL] = plan->literals;
    args->n_many[HF__P_LITERAL] = plan->n_literals;
    args->one[HF__P_DEAD] = hf__text(plan->table->dead_group);
    args->one[HF__P_MOST] = hf__int(hf__most_attempts(plan));
}

/* What the database adds to its own now it rounds to the column's precision, or cuts: MariaDB cuts, and SQLite knows milliseconds only,
 * and cuts its now to them. Either way the sum is not to be earlier than was asked. */
int64_t hf__database_delay_us(const struct hf__server *server, int64_t delay_us, int64_t unit_us)
{
    if (server->database == HF__SQLITE)
        return hf__round_up(delay_us, 1000) + 1000;
    if (unit_us == 1)
        return delay_us;
    return delay_us + (server->mariadb ? unit_us - 1 : unit_us / 2 - 1);
}

void hf__args_delay(const struct hf__plan *plan, struct hf__args *args, int64_t now_us, int64_t delay_us)
{
    args->one[HF__P_DUE] = hf__time_us(hf__round_up(now_us + delay_us, plan->due_unit_us));
    args->one[HF__P_DELAY] = hf__int(hf__database_delay_us(&plan->server, delay_us, plan->due_unit_us));
}

int64_t hf__stored_attempt(const struct hf__plan *plan, const struct hf__row *row)
{
    return row->attempt < plan->stored_max ? row->attempt + 1 : plan->stored_max;
}

void hf__args_row(const struct hf__plan *plan, struct hf__args *args, const struct hf__row *row)
{
    args->one[HF__P_ID] = row->id;
    args->one[HF__P_TOKEN] = hf__time_us(row->token_us);
    args->one[HF__P_ATTEMPT] = hf__int(row->attempt);
    args->one[HF__P_STORED] = hf__int(hf__stored_attempt(plan, row));
}

/* ---- looking ---- */

hf_status hf__plan_pending(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, bool *pending, hf_error *err)
{
    struct hf__args args;
    struct hf__rows rows;
    bool heads = plan->sql.pending_heads.text != NULL;
    hf__rows_init(&rows);
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    hf_status status = heads ? hf__sql_run(conn, &plan->sql.pending_heads, &args, &rows, deadline, err) : HF_OK;
    if (status == HF_OK && rows.count == 0 && !(heads && plan->n_groups > 0))
        status = hf__sql_run(conn, &plan->sql.pending, &args, &rows, deadline, err);
    *pending = rows.count > 0;
    hf__rows_free(&rows);
    return status;
}

hf_status hf__plan_keyless(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, size_t *count, char **example,
                           hf_error *err)
{
    *count = 0;
    *example = NULL;
    if (!plan->sql.keyless.text)
        return HF_OK;
    struct hf__args args;
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf__plan_args(plan, &args, hf__clock_now_us(plan->clock));
    hf_status status = hf__sql_run(conn, &plan->sql.keyless, &args, &rows, deadline, err);
    if (status == HF_OK && rows.count > 0) {
        *count = rows.count;
        *example = hf__id_text(hf__cell(&rows, 0, 0));
        if (!*example)
            status = hf__fail_memory(err);
    }
    hf__rows_free(&rows);
    return status;
}
