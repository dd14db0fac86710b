#include "strategies/inspect_dead_letter.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "strategies/column.h"
#include "strategies/dialect.h"

struct inspection {
    struct hf__conn *conn;
    const struct hf_table *table;
    const struct hf__relation *from;
    struct hf__relation to; /* the dead letters' table */
    bool any_case;
    struct hf__deadline deadline;
    struct hf__findings *findings;
    hf_error *err;
};

#define FAULT(in, ...) hf__find((in)->findings, HF__FINDING_ERROR, HF_INVALID, __VA_ARGS__)

/* ---- a group ---- */

static hf_status check_group(struct inspection *in)
{
    const char *name = in->table->column[HF__ROLE_GROUP], *group = in->table->dead_group;
    const struct hf__column *column = hf__relation_column(in->from, name, in->any_case);
    if (!column || hf__column_holds(column, group))
        return HF_OK; /* a missing column is reported elsewhere */
    return FAULT(in,
                 "table %s: \"dead_letter.group\" is \"%s\", which column \"%s\" (\"group\") of type %s cannot hold; name another group",
                 in->table->display, group, name, column->type);
}

/* ---- a table ---- */

/* The schema that a table without one is found in; malloc'd, NULL when there is none. */
static hf_status own_schema(struct inspection *in, const char *name, char **schema)
{
    static const char *const asked[] = {
        [HF__POSTGRES] = "SELECT n.nspname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
                         " WHERE c.relname = $1 AND pg_catalog.pg_table_is_visible(c.oid)",
        [HF__MYSQL] = "SELECT DATABASE() FROM DUAL WHERE ? IS NOT NULL",
        [HF__SQLITE] = "SELECT 'main' WHERE ?1 IS NOT NULL",
    };
    struct hf__statement statement = {.sql = asked[in->conn->server.database], .serial = 0};
    struct hf__value value = hf__text(name);
    struct hf__rows rows;
    hf__rows_init(&rows);
    *schema = NULL;
    hf_status status = hf__conn_run(in->conn, &statement, &value, 1, &rows, in->deadline, in->err);
    if (status == HF_OK && rows.count > 0 && hf__cell(&rows, 0, 0)->type == HF__TEXT) {
        *schema = strdup(hf__cell(&rows, 0, 0)->s.data);
        if (!*schema)
            status = hf__fail_memory(in->err);
    }
    hf__rows_free(&rows);
    return status;
}

static bool same_name(const struct inspection *in, const char *a, const char *b)
{
    return in->any_case ? strcasecmp(a, b) == 0 : strcmp(a, b) == 0;
}

static hf_status is_itself(struct inspection *in, bool *itself)
{
    const struct hf_table *table = in->table;
    char *own = NULL;
    *itself = false;
    if (!same_name(in, table->name, table->dead_table))
        return HF_OK;
    hf_status status = !table->schema || !table->dead_schema ? own_schema(in, table->name, &own) : HF_OK;
    const char *a = table->schema ? table->schema : own, *b = table->dead_schema ? table->dead_schema : own;
    *itself = status == HF_OK && a && b && same_name(in, a, b);
    free(own);
    return status;
}

static hf_status check_there(struct inspection *in, bool *there)
{
    const char *table = in->table->display, *dead = in->table->dead_display;
    bool itself;
    hf_status status = is_itself(in, &itself);
    *there = false;
    if (status != HF_OK)
        return status;
    if (itself)
        return FAULT(in, "table %s: \"dead_letter.table\" names the table itself; name another table, or a \"group\"", table);
    if (in->to.kind == HF__RELATION_NONE)
        return FAULT(in,
                     "table %s: there is no table %s for its dead letters; create it (`holdfast ddl` prints how) or mend \"dead_letter\"",
                     table, dead);
    if (in->to.kind != HF__RELATION_TABLE && in->to.kind != HF__RELATION_PARTITIONED)
        return FAULT(in, "table %s: %s, where its dead letters go, is not a table but a view or the like; name the table behind it", table,
                     dead);
    if (in->to.engine && strcasecmp(in->to.engine, "InnoDB") != 0)
        return FAULT(
            in, "table %s: the engine of %s, where its dead letters go, is %s, which has no transactions; ALTER TABLE ... ENGINE = InnoDB",
            table, dead, in->to.engine);
    *there = true;
    return HF_OK;
}

static bool has_role(const struct inspection *in, enum hf__role role, const char *name)
{
    return in->table->column[role] && same_name(in, in->table->column[role], name);
}

static bool narrower(uint64_t limit, uint64_t than)
{
    return limit != 0 && (than == 0 || limit < than);
}

static bool same_kind(const struct hf__column *from, const struct hf__column *to)
{
    if (from->kind != to->kind)
        return false;
    return from->kind != HF__COLUMN_INTEGER || (from->is_unsigned == to->is_unsigned && to->bits >= from->bits);
}

/* Does everything that one column holds fit the other? The reason is cut to its column. SQLite's columns take anything; only an id must not
 * be turned into something else. */
static bool fits(const struct inspection *in, const struct hf__column *from, const struct hf__column *to)
{
    bool id = has_role(in, HF__ROLE_ID, from->name);
    if (in->conn->server.database == HF__SQLITE)
        return !id || from->kind == to->kind;
    if (!same_kind(from, to))
        return false;
    if (has_role(in, HF__ROLE_LAST_ERROR, from->name))
        return true;
    return !narrower(to->max_bytes, from->max_bytes) && !narrower(to->max_chars, from->max_chars);
}

/* May a dead letter have NULL there? */
static bool may_be_null(const struct inspection *in, const struct hf__column *column)
{
    return column->nullable || has_role(in, HF__ROLE_LOCKED_UNTIL, column->name) || has_role(in, HF__ROLE_PROCESSED_AT, column->name) ||
           has_role(in, HF__ROLE_LAST_ERROR, column->name);
}

static hf_status check_copied(struct inspection *in, const struct hf__column *from)
{
    const char *table = in->table->display, *dead = in->table->dead_display;
    const struct hf__column *to = hf__relation_column(&in->to, from->name, in->any_case);
    if (from->computed)
        return HF_OK;
    if (!to)
        return FAULT(in,
                     "table %s: %s, where its dead letters go, has no column \"%s\", so what stands there would be lost; add the column",
                     table, dead, from->name);
    if (to->computed)
        return FAULT(in,
                     "table %s: column \"%s\" of %s, where its dead letters go, is a generated one and takes no value; make it a plain one",
                     table, from->name, dead);
    if (!fits(in, from, to))
        return FAULT(in, "table %s: column \"%s\" is %s, and %s in %s, where its dead letters go; give it the same type", table, from->name,
                     from->type, to->type, dead);
    if (!to->nullable && may_be_null(in, from))
        return FAULT(
            in, "table %s: column \"%s\" of %s, where its dead letters go, is NOT NULL, and a row may have NULL there; drop the constraint",
            table, from->name, dead);
    return HF_OK;
}

/* A column that only the dead letters have must fill itself. */
static hf_status check_further(struct inspection *in, const struct hf__column *to)
{
    const struct hf__column *from = hf__relation_column(in->from, to->name, in->any_case);
    bool fills_itself = to->nullable || to->has_default || to->generated;
    if ((from && !from->computed) || fills_itself)
        return HF_OK;
    return FAULT(
        in, "table %s: column \"%s\" of %s, where its dead letters go, is NOT NULL without a default, and no row has it; give it a default",
        in->table->display, to->name, in->table->dead_display);
}

static hf_status check_unique_id(struct inspection *in)
{
    for (size_t i = 0; i < in->to.n_indexes; i++) {
        const struct hf__index *index = &in->to.indexes[i];
        if (index->n_columns == 1 && !index->partial && index->columns[0] && has_role(in, HF__ROLE_ID, index->columns[0]))
            return HF_OK;
    }
    return hf__find(
        in->findings, HF__FINDING_WARNING, HF_OK,
        "table %s: no index of %s, where its dead letters go, is on \"%s\": going back from there would read all of it each time",
        in->table->display, in->table->dead_display, in->table->column[HF__ROLE_ID]);
}

static hf_status check_table(struct inspection *in)
{
    bool there;
    hf_status status = check_there(in, &there);
    if (status != HF_OK || !there)
        return status;
    for (size_t i = 0; i < in->from->n_columns && status == HF_OK; i++)
        status = check_copied(in, &in->from->columns[i]);
    for (size_t i = 0; i < in->to.n_columns && status == HF_OK; i++)
        status = check_further(in, &in->to.columns[i]);
    return status == HF_OK ? check_unique_id(in) : status;
}

hf_status hf__inspect_dead_letter(struct hf__conn *conn, const struct hf_table *table, const struct hf__relation *relation,
                                  struct hf__deadline deadline, struct hf__findings *findings, hf_error *err)
{
    struct inspection in = {.conn = conn,
                            .table = table,
                            .from = relation,
                            .any_case = hf__dialect_of(conn->server.database)->any_case,
                            .deadline = deadline,
                            .findings = findings,
                            .err = err};
    if (table->dead_group)
        return check_group(&in);
    if (!table->dead_table)
        return HF_OK;
    hf_status status = hf__conn_describe(conn, table->dead_schema, table->dead_table, deadline, &in.to, err);
    if (status == HF_OK)
        status = check_table(&in);
    hf__relation_free(&in.to);
    return status;
}
