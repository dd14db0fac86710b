/* SQLite's catalogue, through the pragma functions, so that names are bound and never quoted by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver_sqlite.h"

/* One description in the making. */
struct reading {
    struct hf__conn *conn;
    struct hf__value schema;
    struct hf__value table;
    struct hf__deadline deadline;
    struct hf__relation *out;
    hf_error *err;
};

static hf_status query(const struct reading *r, const char *sql, struct hf__value first, struct hf__value second, struct hf__rows *rows)
{
    const struct hf__value values[] = {first, second};
    const struct hf__statement statement = {.sql = sql, .serial = 0};
    return hf__sqlite_run(r->conn, &statement, values, 2, rows, r->deadline, r->err);
}

static bool is_true(const struct hf__value *cell)
{
    return cell->type == HF__INT && cell->i != 0;
}

/* False when memory is out; NULL stays NULL. */
static bool copy_text(const struct hf__value *cell, char **out)
{
    *out = NULL;
    if (cell->type != HF__TEXT) {
        return true;
    }
    *out = strndup(cell->s.data, cell->s.len);
    return *out != NULL;
}

/* ---- what kind of relation ---- */

static hf_status schema_exists(const struct reading *r, bool *exists)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status =
        query(r, "SELECT 1 FROM pragma_database_list WHERE name = ?1 COLLATE NOCASE AND ?2 IS NULL", r->schema, hf__null(), &rows);
    *exists = status == HF_OK && rows.count > 0;
    hf__rows_free(&rows);
    return status;
}

/* A virtual table is a 'table' without a root page. */
static enum hf__relation_kind kind_of(const char *type, bool has_root)
{
    if (strcmp(type, "view") == 0) {
        return HF__RELATION_VIEW;
    }
    return strcmp(type, "table") == 0 && has_root ? HF__RELATION_TABLE : HF__RELATION_OTHER;
}

/* The schema's name cannot be bound here. */
static char *quoted_schema_sql(const struct reading *r, const char *format)
{
    return sqlite3_mprintf(format, r->schema.s.data);
}

static hf_status read_kind(const struct reading *r)
{
    char *sql = quoted_schema_sql(r, "SELECT type, rootpage <> 0 FROM \"%w\".sqlite_schema"
                                     " WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view') AND ?2 IS NULL");
    if (sql == NULL) {
        return hf__fail_memory(r->err);
    }
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = query(r, sql, r->table, hf__null(), &rows);
    if (status == HF_OK && rows.count > 0) {
        r->out->kind = kind_of(hf__cell(&rows, 0, 0)->s.data, is_true(hf__cell(&rows, 0, 1)));
    }
    hf__rows_free(&rows);
    sqlite3_free(sql);
    return status;
}

/* ---- columns ---- */

static enum hf__column_kind column_kind(const char *type)
{
    static const struct {
        const char *word;
        enum hf__column_kind kind;
    } words[] = {
        /* SQLite's own affinity rules first, in their order */
        {"INT", HF__COLUMN_INTEGER}, {"CHAR", HF__COLUMN_TEXT},  {"CLOB", HF__COLUMN_TEXT},
        {"TEXT", HF__COLUMN_TEXT},   {"BLOB", HF__COLUMN_BYTES}, {"UUID", HF__COLUMN_UUID},
        {"JSON", HF__COLUMN_JSON},   {"DATE", HF__COLUMN_TIME},  {"TIME", HF__COLUMN_TIME},
    };
    if (*type == '\0') {
        return HF__COLUMN_BYTES;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasestr(type, words[i].word) != NULL) {
            return words[i].kind;
        }
    }
    return HF__COLUMN_OTHER;
}

/* Cells: name, type, notnull, has default, hidden. */
static bool fill_column(struct hf__column *column, const struct hf__value *cells)
{
    if (!copy_text(&cells[0], &column->name) || !copy_text(&cells[1], &column->type)) {
        return false;
    }
    column->kind = column_kind(column->type);
    column->bits = column->kind == HF__COLUMN_INTEGER ? 64 : 0;
    column->precision = column->kind == HF__COLUMN_TIME ? 6 : 0;
    column->nullable = !is_true(&cells[2]);
    column->has_default = is_true(&cells[3]);
    column->computed = is_true(&cells[4]);
    column->generated = column->computed;
    return true;
}

static hf_status fill_columns(const struct reading *r, const struct hf__rows *rows)
{
    r->out->columns = calloc(rows->count + 1, sizeof *r->out->columns);
    if (r->out->columns == NULL) {
        return hf__fail_memory(r->err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        r->out->n_columns = i + 1;
        if (!fill_column(&r->out->columns[i], hf__cell(rows, i, 0))) {
            return hf__fail_memory(r->err);
        }
    }
    return HF_OK;
}

static hf_status read_columns(const struct reading *r)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = query(r,
                             "SELECT name, coalesce(type, ''), \"notnull\", dflt_value IS NOT NULL, hidden IN (2, 3)"
                             " FROM pragma_table_xinfo(?1, ?2) ORDER BY cid",
                             r->table, r->schema, &rows);
    if (status == HF_OK) {
        status = fill_columns(r, &rows);
    }
    hf__rows_free(&rows);
    return status;
}

/* ---- the rowid's name ---- */

/* A lone primary key declared INTEGER, exactly, names the rowid, unless SQLite made an index for it (WITHOUT ROWID, DESC). */
static hf_status read_rowid_alias(const struct reading *r, struct hf__column **out)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    *out = NULL;
    hf_status status = query(r,
                             "SELECT cid, type FROM pragma_table_xinfo(?1, ?2) WHERE pk > 0"
                             " AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1, ?2) WHERE origin = 'pk')",
                             r->table, r->schema, &rows);
    if (status == HF_OK && rows.count == 1 && strcasecmp(hf__cell(&rows, 0, 1)->s.data, "INTEGER") == 0) {
        *out = &r->out->columns[hf__cell(&rows, 0, 0)->i];
        (*out)->generated = true;
        (*out)->nullable = false;
    }
    hf__rows_free(&rows);
    return status;
}

/* The table itself is the index. */
static hf_status add_rowid_index(const struct reading *r, const struct hf__column *alias)
{
    struct hf__index *index = &r->out->indexes[r->out->n_indexes++];
    *index = (struct hf__index){.name = strdup("rowid"), .unique = true, .primary = true, .plain = true};
    index->columns = calloc(1, sizeof *index->columns);
    if (index->name == NULL || index->columns == NULL) {
        return hf__fail_memory(r->err);
    }
    index->n_columns = 1;
    index->columns[0] = strdup(alias->name);
    return index->columns[0] == NULL ? hf__fail_memory(r->err) : HF_OK;
}

/* ---- indexes ---- */

/* Steps over a quoted name or string, or one character. A doubled quote inside is two quoted parts in a row. */
static const char *next_in_sql(const char *at)
{
    static const char opening[] = "'\"`[";
    static const char closing[] = "'\"`]";
    const char *quote = strchr(opening, *at);
    const char *end = quote != NULL ? strchr(at + 1, closing[quote - opening]) : NULL;
    return end != NULL ? end + 1 : at + 1;
}

static bool is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || (unsigned char)c > 127;
}

/* What follows WHERE behind the column list of a CREATE INDEX; NULL if there is none. */
static const char *find_predicate(const char *sql)
{
    int depth = 0;
    bool in_word = false;
    for (const char *at = sql; *at != '\0'; at = next_in_sql(at)) {
        if (depth == 0 && !in_word && strncasecmp(at, "WHERE", 5) == 0 && !is_word_character(at[5])) {
            return at + 5 + strspn(at + 5, " \t\r\n");
        }
        depth += (*at == '(') - (*at == ')');
        in_word = is_word_character(*at);
    }
    return NULL;
}

static hf_status read_predicate(const struct reading *r, struct hf__index *index)
{
    char *sql = quoted_schema_sql(r, "SELECT sql FROM \"%w\".sqlite_schema WHERE type = 'index' AND name = ?1 AND ?2 IS NULL");
    if (sql == NULL) {
        return hf__fail_memory(r->err);
    }
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = query(r, sql, hf__text(index->name), hf__null(), &rows);
    const char *text = status == HF_OK && rows.count > 0 ? hf__cell(&rows, 0, 0)->s.data : NULL;
    const char *predicate = text != NULL ? find_predicate(text) : NULL;
    if (predicate != NULL) {
        index->predicate = strdup(predicate);
        status = index->predicate == NULL ? hf__fail_memory(r->err) : HF_OK;
    }
    hf__rows_free(&rows);
    sqlite3_free(sql);
    return status;
}

static bool has_column(const struct hf__index *index, const struct hf__value *name)
{
    for (size_t i = 0; i < index->n_columns; i++) {
        if (index->columns[i] != NULL && strcmp(index->columns[i], name->s.data) == 0) {
            return true;
        }
    }
    return false;
}

/* Cells: name, key, ascending in the default collation, names the rowid. Behind its key an index holds the rowid or the primary
 * key, in order too, so a claim order may end in it. Not in a unique one, where it would hide what is unique. */
static hf_status fill_index_columns(const struct reading *r, struct hf__index *index, const struct hf__rows *rows,
                                    const struct hf__column *alias)
{
    index->plain = true;
    index->columns = calloc(rows->count + 1, sizeof *index->columns);
    if (index->columns == NULL) {
        return hf__fail_memory(r->err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const struct hf__value *cells = hf__cell(rows, i, 0);
        bool is_key = is_true(&cells[1]);
        struct hf__value name = is_true(&cells[3]) && alias != NULL ? hf__text(alias->name) : cells[0];
        if (!is_key && (index->unique || name.type == HF__NULL || has_column(index, &name))) {
            break;
        }
        if (!copy_text(&name, &index->columns[index->n_columns++])) {
            return hf__fail_memory(r->err);
        }
        index->plain = index->plain && name.type != HF__NULL && is_true(&cells[2]);
    }
    return HF_OK;
}

static hf_status read_index_columns(const struct reading *r, struct hf__index *index, const struct hf__column *alias)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = query(r,
                             "SELECT name, \"key\", \"desc\" = 0 AND (\"key\" = 0 OR coll = 'BINARY'), cid = -1"
                             " FROM pragma_index_xinfo(?1, ?2) ORDER BY seqno",
                             hf__text(index->name), r->schema, &rows);
    if (status == HF_OK) {
        status = fill_index_columns(r, index, &rows, alias);
    }
    hf__rows_free(&rows);
    return status;
}

/* Cells: name, unique, origin is the primary key, partial. */
static hf_status add_index(const struct reading *r, const struct hf__value *cells, const struct hf__column *alias)
{
    struct hf__index *index = &r->out->indexes[r->out->n_indexes++];
    if (!copy_text(&cells[0], &index->name)) {
        return hf__fail_memory(r->err);
    }
    index->unique = is_true(&cells[1]);
    index->primary = is_true(&cells[2]);
    index->partial = is_true(&cells[3]);
    hf_status status = read_index_columns(r, index, alias);
    return status == HF_OK && index->partial ? read_predicate(r, index) : status;
}

static hf_status add_indexes(const struct reading *r, const struct hf__rows *rows, const struct hf__column *alias)
{
    r->out->indexes = calloc(rows->count + 1, sizeof *r->out->indexes);
    if (r->out->indexes == NULL) {
        return hf__fail_memory(r->err);
    }
    hf_status status = alias != NULL ? add_rowid_index(r, alias) : HF_OK;
    for (size_t i = 0; status == HF_OK && i < rows->count; i++) {
        status = add_index(r, hf__cell(rows, i, 0), alias);
    }
    return status;
}

static hf_status read_indexes(const struct reading *r)
{
    struct hf__column *alias;
    hf_status status = read_rowid_alias(r, &alias);
    if (status != HF_OK) {
        return status;
    }
    struct hf__rows rows;
    hf__rows_init(&rows);
    status =
        query(r, "SELECT name, \"unique\", origin = 'pk', partial FROM pragma_index_list(?1, ?2) ORDER BY seq", r->table, r->schema, &rows);
    if (status == HF_OK) {
        status = add_indexes(r, &rows, alias);
    }
    hf__rows_free(&rows);
    return status;
}

/* ---- all of it ---- */

static hf_status read_relation(const struct reading *r)
{
    bool exists;
    hf_status status = schema_exists(r, &exists);
    if (status != HF_OK || !exists) {
        return status;
    }
    status = read_kind(r);
    if (status != HF_OK || r->out->kind == HF__RELATION_NONE) {
        return status;
    }
    status = read_columns(r);
    return status == HF_OK && r->out->kind == HF__RELATION_TABLE ? read_indexes(r) : status;
}

hf_status hf__sqlite_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                              struct hf__relation *out, hf_error *err)
{
    const struct reading r = {.conn = conn,
                              .schema = hf__text(schema != NULL ? schema : "main"),
                              .table = hf__text(table),
                              .deadline = deadline,
                              .out = out,
                              .err = err};
    *out = (struct hf__relation){.kind = HF__RELATION_NONE};
    hf_status status = read_relation(&r);
    if (status != HF_OK) {
        hf__relation_free(out);
    }
    return status;
}
