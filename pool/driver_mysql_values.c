/* Values as libmariadb binds them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_mysql.h"

#define BINARY_CHARSET 63u

/* ---- parameters ---- */

struct slot {
    long long number;
    unsigned long len;
    MYSQL_TIME time;
};

/* The number that the decimal digits at text[0..len) are. */
static unsigned digits(const char *text, int len)
{
    unsigned number = 0;
    for (int i = 0; i < len; i++) {
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    return number;
}

static void split_time(int64_t us, MYSQL_TIME *time)
{
    char text[HF__TIME_TEXT];
    hf__time_format(us, text);
    time->year = digits(text, 4);
    time->month = digits(text + 5, 2);
    time->day = digits(text + 8, 2);
    time->hour = digits(text + 11, 2);
    time->minute = digits(text + 14, 2);
    time->second = digits(text + 17, 2);
    time->second_part = digits(text + 20, 6);
    time->time_type = MYSQL_TIMESTAMP_DATETIME;
}

/* A JSON column of MySQL refuses binary strings, and a text column takes them without converting: bytes that are UTF-8 are bound as
 * text, which a binary column stores as it is. Others are bound as binary, or they would be ill-formed text in a binary log. */
static void bind_string(MYSQL_BIND *bind, struct slot *slot, const struct hf__value *value)
{
    static char nothing[] = "";
    bool text = value->type == HF__TEXT || hf__utf8_valid(value->s.data, value->s.len);
    bind->buffer_type = text ? MYSQL_TYPE_STRING : MYSQL_TYPE_BLOB;
    bind->buffer = value->s.len > 0 ? (void *)value->s.data : nothing; /* it is only read */
    slot->len = (unsigned long)value->s.len;
    bind->buffer_length = slot->len;
    bind->length = &slot->len;
}

static void bind_number(MYSQL_BIND *bind, struct slot *slot, const struct hf__value *value)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = &slot->number;
    bind->is_unsigned = value->type == HF__UINT;
    memcpy(&slot->number, &value->u, sizeof slot->number);
}

static void bind_one(MYSQL_BIND *bind, struct slot *slot, const struct hf__value *value)
{
    switch (value->type) {
    case HF__NULL:
        bind->buffer_type = MYSQL_TYPE_NULL;
        return;
    case HF__INT:
    case HF__UINT:
        bind_number(bind, slot, value);
        return;
    case HF__TEXT:
    case HF__BYTES:
        bind_string(bind, slot, value);
        return;
    case HF__TIME:
        bind->buffer_type = MYSQL_TYPE_DATETIME;
        bind->buffer = &slot->time;
        split_time(value->i, &slot->time);
        return;
    }
}

/* A length in the protocol takes 1, 3, 4 or 9 bytes. */
static uint64_t carried_bytes(const struct hf__value *value)
{
    switch (value->type) {
    case HF__NULL:
        return 0;
    case HF__INT:
    case HF__UINT:
        return sizeof(long long);
    case HF__TIME:
        return 12;
    case HF__TEXT:
    case HF__BYTES:
        break;
    }
    uint64_t len = value->s.len;
    return len + (len < 251 ? 1 : len < 65536 ? 3 : len < 16777216 ? 4 : 9);
}

hf_status hf__my_bind(const struct hf__value *values, size_t n, struct hf__my_parameters *out, hf_error *err)
{
    out->bytes = 10 + (n + 7) / 8 + 1 + 2 * (uint64_t)n;
    out->binds = n > 0 ? calloc(n, sizeof(MYSQL_BIND) + sizeof(struct slot)) : NULL;
    if (n > 0 && out->binds == NULL) {
        return hf__fail_memory(err);
    }
    struct slot *slots = (struct slot *)(void *)(out->binds + n);
    for (size_t i = 0; i < n; i++) {
        bind_one(&out->binds[i], &slots[i], &values[i]);
        out->bytes += carried_bytes(&values[i]);
    }
    return HF_OK;
}

/* ---- results ---- */

enum form { FORM_INT, FORM_UINT, FORM_REAL, FORM_TIME, FORM_TEXT, FORM_BYTES };

/* Where one column of the current row is put, or, for strings, how long it is. */
struct column {
    enum form form;
    long long number;
    double real;
    MYSQL_TIME time;
    unsigned long len;
    my_bool is_null;
    my_bool error;
};

static enum form form_of(const MYSQL_FIELD *field)
{
    switch (field->type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_YEAR:
        return (field->flags & UNSIGNED_FLAG) != 0 ? FORM_UINT : FORM_INT;
    case MYSQL_TYPE_FLOAT:
    case MYSQL_TYPE_DOUBLE:
        return FORM_REAL;
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_TIMESTAMP:
        return FORM_TIME;
    case MYSQL_TYPE_DECIMAL: /* the rest of these come with the binary character set, and are text all the same */
    case MYSQL_TYPE_NEWDECIMAL:
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_TIME:
    case MYSQL_TYPE_JSON:
    case MYSQL_TYPE_NULL:
        return FORM_TEXT;
    default:
        return field->charsetnr == BINARY_CHARSET ? FORM_BYTES : FORM_TEXT;
    }
}

static void bind_column(MYSQL_BIND *bind, struct column *column, const MYSQL_FIELD *field)
{
    column->form = form_of(field);
    bind->length = &column->len;
    bind->is_null = &column->is_null;
    bind->error = &column->error;
    switch (column->form) {
    case FORM_INT:
    case FORM_UINT:
        bind->buffer_type = MYSQL_TYPE_LONGLONG;
        bind->buffer = &column->number;
        bind->is_unsigned = column->form == FORM_UINT;
        return;
    case FORM_REAL:
        bind->buffer_type = MYSQL_TYPE_DOUBLE;
        bind->buffer = &column->real;
        return;
    case FORM_TIME:
        bind->buffer_type = MYSQL_TYPE_DATETIME;
        bind->buffer = &column->time;
        return;
    case FORM_TEXT:
        bind->buffer_type = MYSQL_TYPE_STRING; /* without a buffer: first the length, then the column by itself */
        return;
    case FORM_BYTES:
        bind->buffer_type = MYSQL_TYPE_BLOB;
        return;
    }
}

static bool read_text(struct hf__rows *rows, struct hf__value *cell, const char *text, size_t len)
{
    const char *copy = hf__rows_copy(rows, text, len);
    *cell = hf__text_n(copy, len);
    return copy != NULL;
}

/* libmariadb writes it as the server would, whatever the program's locale. */
static bool read_real(MYSQL_STMT *stmt, unsigned index, struct hf__rows *rows, struct hf__value *cell)
{
    char text[512]; /* the library itself stops at 300 */
    unsigned long len = 0;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING, .buffer = text, .buffer_length = sizeof text, .length = &len};
    return mysql_stmt_fetch_column(stmt, &bind, index, 0) == 0 && len < sizeof text && read_text(rows, cell, text, len);
}

/* What is not a point in time, like '0000-00-00 00:00:00', stays text: it is never misread. */
static bool read_time(struct hf__rows *rows, struct hf__value *cell, const MYSQL_TIME *time)
{
    char text[64];
    int64_t us;
    int len = snprintf(text, sizeof text, "%04u-%02u-%02u %02u:%02u:%02u.%06lu", time->year, time->month, time->day, time->hour,
                       time->minute, time->second, time->second_part);
    if (len > 0 && hf__time_parse(text, (size_t)len, &us)) {
        *cell = hf__time_us(us);
        return true;
    }
    return read_text(rows, cell, text, strlen(text) - (time->second_part == 0 ? strlen(".000000") : 0));
}

static bool read_string(MYSQL_STMT *stmt, unsigned index, const struct column *column, struct hf__rows *rows, struct hf__value *cell)
{
    unsigned long len = column->len;
    char *data = hf__rows_alloc(rows, len);
    if (data == NULL) {
        return false;
    }
    cell->type = column->form == FORM_TEXT ? HF__TEXT : HF__BYTES;
    cell->s.data = data;
    cell->s.len = len;
    MYSQL_BIND bind = {
        .buffer_type = column->form == FORM_TEXT ? MYSQL_TYPE_STRING : MYSQL_TYPE_BLOB, .buffer = data, .buffer_length = len};
    return len == 0 || mysql_stmt_fetch_column(stmt, &bind, index, 0) == 0;
}

static bool read_cell(MYSQL_STMT *stmt, unsigned index, const struct column *column, struct hf__rows *rows, struct hf__value *cell)
{
    if (column->is_null) {
        return true; /* the cells of a new row are NULL */
    }
    switch (column->form) {
    case FORM_INT:
        *cell = hf__int(column->number);
        return true;
    case FORM_UINT:
        *cell = hf__uint((uint64_t)column->number);
        return true;
    case FORM_REAL:
        return read_real(stmt, index, rows, cell);
    case FORM_TIME:
        return read_time(rows, cell, &column->time);
    case FORM_TEXT:
    case FORM_BYTES:
        break;
    }
    return read_string(stmt, index, column, rows, cell);
}

static hf_status read_rows(MYSQL_STMT *stmt, const struct column *columns, unsigned n, struct hf__rows *rows, hf_error *err)
{
    int rc;
    while ((rc = mysql_stmt_fetch(stmt)) == 0 || rc == MYSQL_DATA_TRUNCATED) {
        struct hf__value *row = hf__rows_add(rows);
        if (row == NULL) {
            return hf__fail_memory(err);
        }
        for (unsigned i = 0; i < n; i++) {
            if (!read_cell(stmt, i, &columns[i], rows, &row[i])) {
                return hf__fail_memory(err);
            }
        }
    }
    return rc == MYSQL_NO_DATA ? HF_OK : hf__fail(err, HF_DATABASE, "%s", mysql_stmt_error(stmt));
}

hf_status hf__my_fetch(MYSQL_STMT *stmt, struct hf__rows *rows, hf_error *err)
{
    unsigned n = mysql_stmt_field_count(stmt);
    const MYSQL_FIELD *fields = mariadb_stmt_fetch_fields(stmt);
    MYSQL_BIND *binds = calloc(n, sizeof(MYSQL_BIND) + sizeof(struct column));
    if (binds == NULL) {
        return hf__fail_memory(err);
    }
    struct column *columns = (struct column *)(void *)(binds + n);
    for (unsigned i = 0; i < n; i++) {
        bind_column(&binds[i], &columns[i], &fields[i]);
    }
    rows->columns = n;
    hf_status status = mysql_stmt_bind_result(stmt, binds) == 0 ? read_rows(stmt, columns, n, rows, err)
                                                                : hf__fail(err, HF_DATABASE, "%s", mysql_stmt_error(stmt));
    free(binds);
    return status;
}
