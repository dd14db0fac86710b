/* describe: what pg_catalog says of one relation, from 9.5 on. Names are bound as text, never cut to 63 bytes as a cast would. */
#include "driver_postgres.h"

#include <stdlib.h>
#include <string.h>

#define TYPMOD_HEADER 4 /* varchar(n) and char(n) keep n + 4 */

/* One read: its answer goes to rows. */
struct reading {
    struct hf__conn *conn;
    struct hf__deadline deadline;
    struct hf__rows *rows;
};

static hf_status read_rows(const struct reading *reading, const char *sql, const struct hf__value *values, size_t n, hf_error *err)
{
    const struct hf__statement statement = {.sql = sql, .serial = 0};
    return hf__pg_run(reading->conn, &statement, values, n, reading->rows, reading->deadline, err);
}

static int64_t number_at(const struct hf__rows *rows, size_t row, size_t column)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    return cell->type == HF__INT ? cell->i : 0;
}

static bool true_at(const struct hf__rows *rows, size_t row, size_t column)
{
    return number_at(rows, row, column) != 0;
}

/* "" for NULL; cells are NUL-terminated */
static const char *text_at(const struct hf__rows *rows, size_t row, size_t column)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    return cell->type == HF__TEXT ? cell->s.data : "";
}

/* ---- the relation ---- */

static const char relation_sql[] =
    "SELECT c.oid, c.relkind::text, c.relhastriggers OR c.relkind = 'p'" /* a partition may have triggers of its own */
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname::text = $1::text AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    " AND CASE WHEN $2::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname::text = $2::text END";

static enum hf__relation_kind relation_kind(char relkind)
{
    switch (relkind) {
    case 'r':
        return HF__RELATION_TABLE;
    case 'p':
        return HF__RELATION_PARTITIONED;
    case 'v':
        return HF__RELATION_VIEW;
    default:
        return HF__RELATION_OTHER;
    }
}

static hf_status read_relation(const struct reading *reading, const char *schema, const char *table, int64_t *oid, struct hf__relation *out,
                               hf_error *err)
{
    const struct hf__value names[] = {hf__text(table), hf__text(schema)};
    hf_status status = read_rows(reading, relation_sql, names, 2, err);
    if (status == HF_OK && reading->rows->count > 0) {
        *oid = number_at(reading->rows, 0, 0);
        out->kind = relation_kind(text_at(reading->rows, 0, 1)[0]);
        out->has_triggers = true_at(reading->rows, 0, 2);
    }
    return status;
}

/* ---- its columns ----
 * A domain is followed to its base type; it may add NOT NULL, a default and the length on the way. */

#define DEFAULT_SQL                                                                            \
    "coalesce((SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d" \
    " WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum), c.typdefault)"
/* A timestamp that is given any of these takes the session's local time. */
#define LOCAL_SQL                                                                                            \
    "coalesce(" DEFAULT_SQL " ~* '(now|_timestamp)[(][)]|current_timestamp|localtimestamp' AND " DEFAULT_SQL \
    " !~* 'at time zone|timezone[(]', false)"
#define COLUMNS_SQL(identity, computed)                                                                                              \
    "WITH RECURSIVE chain AS ("                                                                                                      \
    " SELECT a.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod AS typmod, t.typnotnull, t.typdefault"              \
    " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"                                                \
    " WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped"                                                    \
    " UNION ALL"                                                                                                                     \
    " SELECT c.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod, c.typtypmod, c.typnotnull OR t.typnotnull,"                     \
    " coalesce(c.typdefault, t.typdefault)"                                                                                          \
    " FROM chain c JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd')"                                        \
    " SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), t.typname::text, t.typcategory::text, c.typmod,"      \
    " a.attnotnull OR c.typnotnull, a.atthasdef OR c.typdefault IS NOT NULL, " identity " OR " computed ", " computed ", " LOCAL_SQL \
    " FROM chain c JOIN pg_catalog.pg_attribute a ON a.attrelid = $1::bigint::oid AND a.attnum = c.attnum"                           \
    " JOIN pg_catalog.pg_type t ON t.oid = c.oid WHERE c.typtype <> 'd' ORDER BY a.attnum"

static const char *columns_sql(int version)
{
    if (version >= 120000) {
        return COLUMNS_SQL("a.attidentity <> ''", "a.attgenerated <> ''");
    }
    return version >= 100000 ? COLUMNS_SQL("a.attidentity <> ''", "false") : COLUMNS_SQL("false", "false");
}

static const struct {
    const char *name;
    enum hf__column_kind kind;
    unsigned bits;
} types[] = {
    {"int2", HF__COLUMN_INTEGER, 16}, {"int4", HF__COLUMN_INTEGER, 32},  {"int8", HF__COLUMN_INTEGER, 64},
    {"bytea", HF__COLUMN_BYTES, 0},   {"timestamp", HF__COLUMN_TIME, 0}, {"timestamptz", HF__COLUMN_TIME_ZONED, 0},
    {"uuid", HF__COLUMN_UUID, 0},     {"json", HF__COLUMN_JSON, 0},      {"jsonb", HF__COLUMN_JSON, 0},
};

static void set_type(struct hf__column *column, const char *name, char category, int64_t typmod)
{
    column->kind = category == 'S' ? HF__COLUMN_TEXT : HF__COLUMN_OTHER; /* text, varchar, char, name, citext */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            column->kind = types[i].kind;
            column->bits = types[i].bits;
        }
    }
    if (column->kind == HF__COLUMN_TIME || column->kind == HF__COLUMN_TIME_ZONED) {
        column->precision = typmod >= 0 ? (unsigned)typmod : 6;
    } else if (strcmp(name, "name") == 0) {
        column->max_bytes = 63;
    } else if (column->kind == HF__COLUMN_TEXT && typmod > TYPMOD_HEADER) {
        column->max_chars = (uint64_t)(typmod - TYPMOD_HEADER);
    }
}

static hf_status keep_column(const struct hf__rows *rows, size_t row, struct hf__column *column, hf_error *err)
{
    column->name = strdup(text_at(rows, row, 0));
    column->type = strdup(text_at(rows, row, 1));
    if (column->name == NULL || column->type == NULL) {
        return hf__fail_memory(err);
    }
    set_type(column, text_at(rows, row, 2), text_at(rows, row, 3)[0], number_at(rows, row, 4));
    column->nullable = !true_at(rows, row, 5);
    column->generated = true_at(rows, row, 7);
    column->computed = true_at(rows, row, 8);
    column->has_default = true_at(rows, row, 6) && !column->generated;
    column->local_default = column->kind == HF__COLUMN_TIME && true_at(rows, row, 9);
    return HF_OK;
}

static hf_status read_columns(const struct reading *reading, int64_t oid, struct hf__relation *out, hf_error *err)
{
    const struct hf__value key = hf__int(oid);
    const struct hf__rows *rows = reading->rows;
    hf_status status = read_rows(reading, columns_sql(PQserverVersion(hf__pg_of(reading->conn)->pg)), &key, 1, err);
    if (status != HF_OK || rows->count == 0) {
        return status;
    }
    out->columns = calloc(rows->count, sizeof *out->columns);
    if (out->columns == NULL) {
        return hf__fail_memory(err);
    }
    for (size_t row = 0; status == HF_OK && row < rows->count; row++) {
        out->n_columns++;
        status = keep_column(rows, row, &out->columns[row], err);
    }
    return status;
}

/* ---- its indexes: a row for each key part, in order ----
 * A part is plain if ORDER BY column can use it: a btree over the column itself, with the type's own order and the column's own
 * collation, ascending, NULLs last (indoption 0; NULLS FIRST is 2, DESC is 1). */

#define INDEXES_SQL(key_parts)                                                                                                  \
    "SELECT i.indexrelid, c.relname::text, i.indisunique, i.indisprimary, pg_catalog.pg_get_expr(i.indpred, i.indrelid),"       \
    " a.attname::text,"                                                                                                         \
    " coalesce(m.amname = 'btree' AND i.indoption[k] = 0 AND o.opcdefault AND i.indcollation[k] = a.attcollation, false)"       \
    " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam" \
    " CROSS JOIN LATERAL pg_catalog.generate_series(0, " key_parts " - 1) k"                                                    \
    " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k] AND i.indkey[k] <> 0"           \
    " LEFT JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[k]"                                                               \
    " WHERE i.indrelid = $1::bigint::oid AND i.indisvalid AND i.indisready AND i.indislive"                                     \
    " ORDER BY c.relname, i.indexrelid, k"

static char *copy_if_any(const struct hf__rows *rows, size_t row, size_t column, bool *ok)
{
    if (hf__cell(rows, row, column)->type != HF__TEXT) {
        return NULL;
    }
    char *copy = strdup(text_at(rows, row, column));
    *ok = *ok && copy != NULL;
    return copy;
}

static bool keep_index(const struct hf__rows *rows, size_t first, size_t parts, struct hf__index *index)
{
    bool ok = true;
    index->name = copy_if_any(rows, first, 1, &ok);
    index->unique = true_at(rows, first, 2);
    index->primary = true_at(rows, first, 3);
    index->predicate = copy_if_any(rows, first, 4, &ok);
    index->partial = index->predicate != NULL;
    index->plain = true;
    index->columns = calloc(parts, sizeof *index->columns);
    if (index->columns == NULL) {
        return false;
    }
    index->n_columns = parts;
    for (size_t i = 0; i < parts; i++) {
        index->columns[i] = copy_if_any(rows, first + i, 5, &ok);
        index->plain = index->plain && index->columns[i] != NULL && true_at(rows, first + i, 6);
    }
    return ok;
}

/* How many rows from this one on belong to the same index. */
static size_t parts_from(const struct hf__rows *rows, size_t first)
{
    size_t n = 1;
    while (first + n < rows->count && number_at(rows, first + n, 0) == number_at(rows, first, 0)) {
        n++;
    }
    return n;
}

static hf_status read_indexes(const struct reading *reading, int64_t oid, struct hf__relation *out, hf_error *err)
{
    const struct hf__value key = hf__int(oid);
    const struct hf__rows *rows = reading->rows;
    bool counts_included = PQserverVersion(hf__pg_of(reading->conn)->pg) >= 110000; /* INCLUDE columns are not key parts */
    hf_status status = read_rows(reading, counts_included ? INDEXES_SQL("i.indnkeyatts") : INDEXES_SQL("i.indnatts"), &key, 1, err);
    if (status != HF_OK || rows->count == 0) {
        return status;
    }
    out->indexes = calloc(rows->count, sizeof *out->indexes);
    if (out->indexes == NULL) {
        return hf__fail_memory(err);
    }
    size_t parts;
    for (size_t row = 0; row < rows->count; row += parts) {
        parts = parts_from(rows, row);
        if (!keep_index(rows, row, parts, &out->indexes[out->n_indexes++])) {
            return hf__fail_memory(err);
        }
    }
    return HF_OK;
}

hf_status hf__pg_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                          struct hf__relation *out, hf_error *err)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    const struct reading reading = {.conn = conn, .deadline = deadline, .rows = &rows};
    int64_t oid = 0;
    hf_status status = read_relation(&reading, schema, table, &oid, out, err);
    if (status == HF_OK && out->kind != HF__RELATION_NONE) {
        status = read_columns(&reading, oid, out, err);
        if (status == HF_OK) {
            status = read_indexes(&reading, oid, out, err);
        }
    }
    hf__rows_free(&rows);
    return status;
}
