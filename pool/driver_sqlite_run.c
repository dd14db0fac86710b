/* Running prepared statements on SQLite: keeping them, binding values, reading rows. */
#include <stdlib.h>
#include <string.h>

#include "driver_sqlite.h"

void hf__sqlite_forget_prepared(struct hf__sqlite *s)
{
    for (size_t i = 0; i < s->n_prepared; i++) {
        (void)sqlite3_finalize(s->prepared[i].handle); /* repeats the error of the statement's last run, which was reported */
    }
    free(s->prepared);
    s->prepared = NULL;
    s->n_prepared = 0;
    s->prepared_capacity = 0;
}

/* Where this serial stands, or would stand. */
static size_t find_prepared(const struct hf__sqlite *s, uint64_t serial)
{
    size_t low = 0;
    size_t high = s->n_prepared;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->prepared[middle].serial < serial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool keep_prepared(struct hf__sqlite *s, uint64_t serial, sqlite3_stmt *handle)
{
    if (s->n_prepared == s->prepared_capacity) {
        size_t capacity = s->prepared_capacity == 0 ? 16 : s->prepared_capacity * 2;
        struct hf__sqlite_prepared *grown = realloc(s->prepared, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        s->prepared = grown;
        s->prepared_capacity = capacity;
    }
    size_t at = find_prepared(s, serial);
    memmove(&s->prepared[at + 1], &s->prepared[at], (s->n_prepared - at) * sizeof *s->prepared);
    s->prepared[at] = (struct hf__sqlite_prepared){serial, handle};
    s->n_prepared++;
    return true;
}

static hf_status prepare(struct hf__sqlite *s, const struct hf__statement *statement, sqlite3_stmt **out, hf_error *err)
{
    const char *tail;
    unsigned flags = statement->serial != 0 ? SQLITE_PREPARE_PERSISTENT : 0;
    int rc = sqlite3_prepare_v3(s->db, statement->sql, -1, flags, out, &tail);
    if (rc != SQLITE_OK) {
        return hf__sqlite_fail(s, rc, err);
    }
    if (*out == NULL || tail[strspn(tail, "; \t\r\n")] != '\0') {
        (void)sqlite3_finalize(*out);
        return hf__fail(err, HF_MISUSE, "one statement was expected: %s", statement->sql);
    }
    if (statement->serial != 0 && !keep_prepared(s, statement->serial, *out)) {
        (void)sqlite3_finalize(*out);
        return hf__fail_memory(err);
    }
    return HF_OK;
}

static hf_status get_prepared(struct hf__sqlite *s, const struct hf__statement *statement, sqlite3_stmt **out, hf_error *err)
{
    size_t at = find_prepared(s, statement->serial);
    if (at < s->n_prepared && s->prepared[at].serial == statement->serial) {
        *out = s->prepared[at].handle;
        return HF_OK;
    }
    return prepare(s, statement, out, err);
}

/* Also after an error: a statement left half-way would keep its lock, and its bindings point to the caller's memory. */
static void put_back(const struct hf__statement *statement, sqlite3_stmt *handle)
{
    if (statement->serial == 0) {
        (void)sqlite3_finalize(handle); /* repeats the error of the run, which was reported */
        return;
    }
    (void)sqlite3_reset(handle);
    (void)sqlite3_clear_bindings(handle);
}

static int bind_time(sqlite3_stmt *handle, int index, int64_t us)
{
    char text[HF__TIME_TEXT];
    hf__time_format(us, text);
    return sqlite3_bind_text(handle, index, text, HF__TIME_TEXT - 1, SQLITE_TRANSIENT);
}

/* A NULL pointer would bind NULL, even where an empty value is meant. */
static const char *data_of(const struct hf__value *value)
{
    return value->s.data != NULL ? value->s.data : "";
}

static int bind_value(sqlite3_stmt *handle, int index, const struct hf__value *value)
{
    switch (value->type) {
    case HF__NULL:
        return sqlite3_bind_null(handle, index);
    case HF__INT:
        return sqlite3_bind_int64(handle, index, value->i);
    case HF__UINT:
        return sqlite3_bind_int64(handle, index, (sqlite3_int64)value->u);
    case HF__TEXT:
        return sqlite3_bind_text64(handle, index, data_of(value), value->s.len, SQLITE_STATIC, SQLITE_UTF8);
    case HF__BYTES:
        return sqlite3_bind_blob64(handle, index, data_of(value), value->s.len, SQLITE_STATIC);
    case HF__TIME:
        break;
    }
    return bind_time(handle, index, value->i);
}

static hf_status bind_values(struct hf__sqlite *s, sqlite3_stmt *handle, const struct hf__value *values, size_t n, hf_error *err)
{
    int expected = sqlite3_bind_parameter_count(handle);
    if (n != (size_t)expected) {
        return hf__fail(err, HF_MISUSE, "%zu values for the %d parameters of: %s", n, expected, sqlite3_sql(handle));
    }
    for (int i = 0; i < expected; i++) {
        if (values[i].type == HF__UINT && values[i].u > (uint64_t)INT64_MAX) {
            return hf__fail(err, HF_INVALID, "SQLite stores integers up to 9223372036854775807; %llu does not fit",
                            (unsigned long long)values[i].u);
        }
        int rc = bind_value(handle, i + 1, &values[i]);
        if (rc != SQLITE_OK) {
            return hf__sqlite_fail(s, rc, err);
        }
    }
    return HF_OK;
}

/* As text with enough digits to tell any two numbers apart: nothing here computes with them. */
static bool read_real(sqlite3_stmt *handle, int column, struct hf__rows *rows, struct hf__value *out)
{
    char text[64];
    (void)sqlite3_snprintf((int)sizeof text, text, "%!.17g", sqlite3_column_double(handle, column));
    size_t len = strlen(text);
    *out = hf__text_n(hf__rows_copy(rows, text, len), len);
    return out->s.data != NULL;
}

/* data before len: sqlite3_column_bytes is right only after the conversion that sqlite3_column_text may make. */
static bool read_string(sqlite3_stmt *handle, int column, struct hf__rows *rows, struct hf__value *out)
{
    bool is_text = sqlite3_column_type(handle, column) == SQLITE_TEXT;
    const void *data = is_text ? sqlite3_column_text(handle, column) : sqlite3_column_blob(handle, column);
    size_t len = (size_t)sqlite3_column_bytes(handle, column);
    if (data == NULL && (is_text || len > 0)) {
        return false;
    }
    const char *copy = hf__rows_copy(rows, data, len);
    *out = is_text ? hf__text_n(copy, len) : hf__bytes(copy, len);
    return copy != NULL;
}

/* False when memory is out. */
static bool read_value(sqlite3_stmt *handle, int column, struct hf__rows *rows, struct hf__value *out)
{
    switch (sqlite3_column_type(handle, column)) {
    case SQLITE_NULL:
        return true;
    case SQLITE_INTEGER:
        *out = hf__int(sqlite3_column_int64(handle, column));
        return true;
    case SQLITE_FLOAT:
        return read_real(handle, column, rows, out);
    default:
        return read_string(handle, column, rows, out);
    }
}

static bool read_row(sqlite3_stmt *handle, struct hf__rows *rows)
{
    struct hf__value *row = hf__rows_add(rows);
    if (row == NULL) {
        return false;
    }
    for (size_t i = 0; i < rows->columns; i++) {
        if (!read_value(handle, (int)i, rows, &row[i])) {
            return false;
        }
    }
    return true;
}

static hf_status step_through(struct hf__sqlite *s, sqlite3_stmt *handle, struct hf__rows *rows, hf_error *err)
{
    int rc = sqlite3_step(handle);
    while (rc == SQLITE_ROW) {
        if (rows != NULL && !read_row(handle, rows)) {
            return hf__fail_memory(err);
        }
        rc = sqlite3_step(handle);
    }
    return rc == SQLITE_DONE ? HF_OK : hf__sqlite_fail(s, rc, err);
}

static uint64_t changed_rows(sqlite3 *db)
{
#if SQLITE_VERSION_NUMBER >= 3037000
    return (uint64_t)sqlite3_changes64(db);
#else
    return (uint64_t)sqlite3_changes(db);
#endif
}

/* sqlite3_changes keeps the count of the last INSERT, UPDATE or DELETE across every other statement; the total tells whether
 * this one was of them. */
static hf_status step_and_count(struct hf__sqlite *s, sqlite3_stmt *handle, struct hf__rows *rows, hf_error *err)
{
    int total = sqlite3_total_changes(s->db);
    if (rows != NULL) {
        rows->columns = (size_t)sqlite3_column_count(handle);
    }
    hf_status status = step_through(s, handle, rows, err);
    if (status == HF_OK && rows != NULL && sqlite3_total_changes(s->db) != total) {
        rows->matched = changed_rows(s->db);
    }
    return status;
}

static hf_status run_in_call(struct hf__sqlite *s, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                             struct hf__rows *rows, hf_error *err)
{
    sqlite3_stmt *handle = NULL;
    hf_status status = get_prepared(s, statement, &handle, err);
    if (status != HF_OK) {
        return status;
    }
    status = bind_values(s, handle, values, n, err);
    if (status == HF_OK && !sqlite3_stmt_readonly(handle)) {
        status = hf__sqlite_begin_turn(s, s->deadline, err);
    }
    if (status == HF_OK) {
        status = step_and_count(s, handle, rows, err);
    }
    put_back(statement, handle);
    hf__sqlite_end_turn(s);
    return status;
}

hf_status hf__sqlite_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                         struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    if (rows != NULL) {
        hf__rows_clear(rows);
    }
    if (s->begun && sqlite3_get_autocommit(s->db)) {
        return hf__fail(err, HF_DATABASE, "SQLite database %s: the transaction was rolled back by an earlier error; end it first", s->path);
    }
    hf__sqlite_enter(s, deadline);
    hf_status status = run_in_call(s, statement, values, n, rows, err);
    hf__sqlite_leave(s);
    if (status != HF_OK && rows != NULL) {
        hf__rows_clear(rows);
    }
    return status;
}
