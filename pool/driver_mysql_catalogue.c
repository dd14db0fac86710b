/* What information_schema says of one relation. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver_mysql.h"

/* One question, asked once: the statement is not kept prepared. Its parameters are the schema, which may be NULL, and the table. */
struct question {
    struct hf__my *self;
    const char *schema;
    const char *table; /* as the catalogue writes it, once that is known */
    struct hf__deadline deadline;
};

static hf_status ask(const struct question *question, const char *sql, struct hf__rows *rows, hf_error *err)
{
    const struct hf__statement statement = {.sql = sql};
    const struct hf__value values[] = {hf__text(question->schema), hf__text(question->table)};
    hf__rows_clear(rows);
    return hf__my_run(&question->self->base, &statement, values, 2, rows, question->deadline, err);
}

static const char *text_of(const struct hf__rows *rows, size_t row, size_t column)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    return cell->type == HF__TEXT || cell->type == HF__BYTES ? cell->s.data : "";
}

static uint64_t number_of(const struct hf__rows *rows, size_t row, size_t column)
{
    const struct hf__value *cell = hf__cell(rows, row, column);
    return cell->type == HF__INT || cell->type == HF__UINT ? cell->u : 0;
}

static bool is_null(const struct hf__rows *rows, size_t row, size_t column)
{
    return hf__cell(rows, row, column)->type == HF__NULL;
}

static bool is_yes(const struct hf__rows *rows, size_t row, size_t column)
{
    return strcasecmp(text_of(rows, row, column), "YES") == 0;
}

/* ---- the relation ---- */

#define TABLES_SQL                                                                                                    \
    "SELECT TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_OPTIONS, @@lower_case_table_names FROM information_schema.TABLES " \
    "WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?"

/* The catalogue's own comparison takes 'Jobs' for 'jobs', and 'naive' for 'naïve'. The row of the very table, or rows->count. */
static size_t find_table(const struct hf__rows *rows, const char *table)
{
    size_t other_case = rows->count;
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(text_of(rows, i, 0), table) == 0) {
            return i;
        }
        if (number_of(rows, i, 4) != 0 && strcasecmp(text_of(rows, i, 0), table) == 0) {
            other_case = i;
        }
    }
    return other_case;
}

static enum hf__relation_kind relation_kind(const struct hf__rows *rows, size_t row)
{
    const char *type = text_of(rows, row, 1);
    if (strcmp(type, "BASE TABLE") == 0 || strcmp(type, "SYSTEM VERSIONED") == 0) {
        return strcasestr(text_of(rows, row, 3), "partitioned") != NULL ? HF__RELATION_PARTITIONED : HF__RELATION_TABLE;
    }
    return strstr(type, "VIEW") != NULL ? HF__RELATION_VIEW : HF__RELATION_OTHER;
}

static bool copy_text(char **to, const char *text)
{
    *to = strdup(text);
    return *to != NULL;
}

/* *name is the table's name as the catalogue writes it; NULL when there is no such relation. */
static hf_status read_relation(const struct question *question, struct hf__rows *rows, struct hf__relation *out, char **name, hf_error *err)
{
    hf_status status = ask(question, TABLES_SQL, rows, err);
    if (status != HF_OK) {
        return status;
    }
    size_t row = find_table(rows, question->table);
    if (row == rows->count) {
        return HF_OK;
    }
    out->kind = relation_kind(rows, row);
    if (!copy_text(name, text_of(rows, row, 0)) || (!is_null(rows, row, 2) && !copy_text(&out->engine, text_of(rows, row, 2)))) {
        return hf__fail_memory(err);
    }
    return HF_OK;
}

/* ---- columns ---- */

#define COLUMNS_SQL                                                                                              \
    "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, " \
    "DATETIME_PRECISION, IS_NULLABLE, COLUMN_DEFAULT, EXTRA FROM information_schema.COLUMNS "                    \
    "WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION"

static const struct {
    const char *name;
    enum hf__column_kind kind;
    unsigned bits;
} types[] = {
    {"tinyint", HF__COLUMN_INTEGER, 8}, {"smallint", HF__COLUMN_INTEGER, 16},    {"mediumint", HF__COLUMN_INTEGER, 24},
    {"int", HF__COLUMN_INTEGER, 32},    {"bigint", HF__COLUMN_INTEGER, 64},      {"char", HF__COLUMN_TEXT, 0},
    {"varchar", HF__COLUMN_TEXT, 0},    {"tinytext", HF__COLUMN_TEXT, 0},        {"text", HF__COLUMN_TEXT, 0},
    {"mediumtext", HF__COLUMN_TEXT, 0}, {"longtext", HF__COLUMN_TEXT, 0},        {"enum", HF__COLUMN_TEXT, 0},
    {"binary", HF__COLUMN_BYTES, 0},    {"varbinary", HF__COLUMN_BYTES, 0},      {"tinyblob", HF__COLUMN_BYTES, 0},
    {"blob", HF__COLUMN_BYTES, 0},      {"mediumblob", HF__COLUMN_BYTES, 0},     {"longblob", HF__COLUMN_BYTES, 0},
    {"datetime", HF__COLUMN_TIME, 0},   {"timestamp", HF__COLUMN_TIME_ZONED, 0}, {"uuid", HF__COLUMN_UUID, 0},
    {"json", HF__COLUMN_JSON, 0},
};

static void set_kind(struct hf__column *column, const char *type)
{
    column->kind = HF__COLUMN_OTHER;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(type, types[i].name) == 0) {
            column->kind = types[i].kind;
            column->bits = types[i].bits;
        }
    }
}

/* MySQL writes DEFAULT_GENERATED where a default is an expression: the column is an ordinary one. */
static bool is_computed(const char *extra)
{
    return strcasestr(extra, "VIRTUAL") != NULL || strcasestr(extra, "STORED") != NULL || strcasestr(extra, "PERSISTENT") != NULL;
}

/* MariaDB writes the word NULL where a column may be NULL and has no other default. */
static bool has_default(const struct question *question, const struct hf__rows *rows, size_t row)
{
    return !is_null(rows, row, 8) && !(question->self->base.server.mariadb && strcmp(text_of(rows, row, 8), "NULL") == 0);
}

static bool read_column(const struct question *question, const struct hf__rows *rows, size_t row, struct hf__column *column)
{
    set_kind(column, text_of(rows, row, 2));
    column->is_unsigned = strcasestr(text_of(rows, row, 3), "unsigned") != NULL;
    column->max_chars = column->kind == HF__COLUMN_TEXT ? number_of(rows, row, 4) : 0;
    column->max_bytes = column->kind == HF__COLUMN_TEXT || column->kind == HF__COLUMN_BYTES ? number_of(rows, row, 5) : 0;
    column->precision = (unsigned)number_of(rows, row, 6);
    column->nullable = is_yes(rows, row, 7);
    column->has_default = has_default(question, rows, row);
    column->local_default = column->kind == HF__COLUMN_TIME && strncasecmp(text_of(rows, row, 8), "current_timestamp", 17) == 0;
    column->computed = is_computed(text_of(rows, row, 9));
    column->generated = column->computed || strcasestr(text_of(rows, row, 9), "auto_increment") != NULL;
    return copy_text(&column->name, text_of(rows, row, 1)) && copy_text(&column->type, text_of(rows, row, 3));
}

static hf_status read_columns(const struct question *question, struct hf__rows *rows, struct hf__relation *out, hf_error *err)
{
    hf_status status = ask(question, COLUMNS_SQL, rows, err);
    if (status != HF_OK) {
        return status;
    }
    out->columns = calloc(rows->count + 1, sizeof *out->columns);
    if (out->columns == NULL) {
        return hf__fail_memory(err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(text_of(rows, i, 0), question->table) == 0 && !read_column(question, rows, i, &out->columns[out->n_columns++])) {
            return hf__fail_memory(err);
        }
    }
    return HF_OK;
}

/* ---- indexes ---- */

#define INDEXES_SQL(usable)                                                                                \
    "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, COLLATION, INDEX_TYPE, " usable     \
    " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? " \
    "AND COMMENT NOT LIKE 'disabled%' ORDER BY INDEX_NAME, SEQ_IN_INDEX"

static const char *indexes_sql(const struct hf__server *server)
{
    if (server->mariadb) {
        return server->version >= 100600 ? INDEXES_SQL("IF(IGNORED = 'NO', 'YES', 'NO')") : INDEXES_SQL("'YES'");
    }
    return server->version >= 80000 ? INDEXES_SQL("IS_VISIBLE") : INDEXES_SQL("'YES'");
}

static bool is_plain_part(const struct hf__rows *rows, size_t row)
{
    return !is_null(rows, row, 3) && is_null(rows, row, 4) && strcmp(text_of(rows, row, 5), "A") == 0 &&
           strcasecmp(text_of(rows, row, 6), "BTREE") == 0;
}

static bool begin_index(const struct hf__rows *rows, size_t row, struct hf__relation *out)
{
    struct hf__index *index = &out->indexes[out->n_indexes++];
    index->unique = number_of(rows, row, 2) == 0;
    index->primary = strcmp(text_of(rows, row, 1), "PRIMARY") == 0;
    index->plain = true;
    index->columns = calloc(rows->count, sizeof *index->columns);
    return index->columns != NULL && copy_text(&index->name, text_of(rows, row, 1));
}

static bool is_named(const struct hf__index *index, const char *name)
{
    return index->name != NULL && strcmp(index->name, name) == 0;
}

static bool add_part(const struct hf__rows *rows, size_t row, struct hf__relation *out)
{
    bool more = out->n_indexes > 0 && is_named(&out->indexes[out->n_indexes - 1], text_of(rows, row, 1));
    if (!more && !begin_index(rows, row, out)) {
        return false;
    }
    struct hf__index *index = &out->indexes[out->n_indexes - 1];
    index->plain = index->plain && is_plain_part(rows, row);
    char **name = &index->columns[index->n_columns++];
    return is_null(rows, row, 3) || copy_text(name, text_of(rows, row, 3));
}

static hf_status read_indexes(const struct question *question, struct hf__rows *rows, struct hf__relation *out, hf_error *err)
{
    hf_status status = ask(question, indexes_sql(&question->self->base.server), rows, err);
    if (status != HF_OK) {
        return status;
    }
    out->indexes = calloc(rows->count + 1, sizeof *out->indexes);
    if (out->indexes == NULL) {
        return hf__fail_memory(err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(text_of(rows, i, 0), question->table) == 0 && is_yes(rows, i, 7) && !add_part(rows, i, out)) {
            return hf__fail_memory(err);
        }
    }
    return HF_OK;
}

hf_status hf__my_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                          struct hf__relation *out, hf_error *err)
{
    struct hf__rows rows;
    char *name = NULL;
    struct question question = {.self = hf__my_of(conn), .schema = schema, .table = table, .deadline = deadline};
    *out = (struct hf__relation){.kind = HF__RELATION_NONE};
    hf__rows_init(&rows);
    hf_status status = read_relation(&question, &rows, out, &name, err);
    if (status == HF_OK && name != NULL) {
        question.table = name;
        status = read_columns(&question, &rows, out, err);
        if (status == HF_OK) {
            status = read_indexes(&question, &rows, out, err);
        }
    }
    if (status != HF_OK) {
        hf__relation_free(out);
        *out = (struct hf__relation){.kind = HF__RELATION_NONE};
    }
    free(name);
    hf__rows_free(&rows);
    return status;
}
