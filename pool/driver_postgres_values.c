/* Values as the protocol carries them. Parameters go as text, except bytes and text for columns whose binary form is the same
 * bytes: those need no copy and no escape. Answers come as text. Times are converted here, because PostgreSQL's reach from
 * 4713 BC to 294276 AD and are written with the offset of the session's time zone. */
#include "driver_postgres.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* from the server's pg_type.dat; they never change */
       OID_BOOL = 16,
       OID_BYTEA = 17,
       OID_INT8 = 20,
       OID_INT2 = 21,
       OID_INT4 = 23,
       OID_TEXT = 25,
       OID_OID = 26,
       OID_JSON = 114,
       OID_BPCHAR = 1042,
       OID_VARCHAR = 1043,
       OID_TIMESTAMP = 1114,
       OID_TIMESTAMPTZ = 1184
};

#define US_PER_SECOND INT64_C(1000000)
#define SECONDS_PER_DAY INT64_C(86400)
#define NUMBER_TEXT 24 /* 64 bits in decimal, a sign, a NUL */
#define TIME_TEXT 64   /* "294247-01-10 04:00:54.775807+00 BC", and what a compiler believes possible */

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar, year 0 being 1 BC; years are counted from March. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_of(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
    *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

static void write_time(int64_t us, char *out)
{
    if (us == INT64_MAX || us == INT64_MIN) {
        (void)snprintf(out, TIME_TEXT, "%sinfinity", us == INT64_MIN ? "-" : "");
        return;
    }
    int64_t seconds = us / US_PER_SECOND - (us % US_PER_SECOND < 0);
    int64_t days = seconds / SECONDS_PER_DAY - (seconds % SECONDS_PER_DAY < 0);
    int second_of_day = (int)(seconds - days * SECONDS_PER_DAY);
    int64_t year;
    int month;
    int day;
    date_of(days, &year, &month, &day);
    (void)snprintf(out, TIME_TEXT, "%04" PRId64 "-%02d-%02d %02d:%02d:%02d.%06d+00%s", year > 0 ? year : 1 - year, month, day,
                   second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60,
                   (int)((us % US_PER_SECOND + US_PER_SECOND) % US_PER_SECOND), year > 0 ? "" : " BC");
}

/* Digits after an optional `before`; false, and nothing read, if they are not there. */
static bool read_number(const char **at, char before, int64_t *out)
{
    const char *p = *at;
    if (before != '\0' && *p++ != before) {
        return false;
    }
    const char *first = p;
    *out = 0;
    while (*p >= '0' && *p <= '9' && p - first < 9) {
        *out = *out * 10 + (*p++ - '0');
    }
    if (p == first) {
        return false;
    }
    *at = p;
    return true;
}

static int64_t read_fraction(const char **at)
{
    int64_t us = 0;
    const char *first = *at + 1;
    if (!read_number(at, '.', &us)) {
        return 0;
    }
    for (ptrdiff_t digits = *at - first; digits < 6; digits++) {
        us *= 10;
    }
    return us;
}

/* "+05:30", "-03", "+00:00:17": seconds east of Greenwich. */
static int64_t read_offset(const char **at)
{
    char sign = **at;
    int64_t hours;
    int64_t minutes = 0;
    int64_t seconds = 0;
    if ((sign != '+' && sign != '-') || !read_number(at, sign, &hours)) {
        return 0;
    }
    if (read_number(at, ':', &minutes)) {
        (void)read_number(at, ':', &seconds);
    }
    seconds += (hours * 60 + minutes) * 60;
    return sign == '-' ? -seconds : seconds;
}

/* What timestamp and timestamptz look like with DateStyle ISO. */
static bool read_time(const char *text, int64_t *us)
{
    if (strcmp(text, "infinity") == 0 || strcmp(text, "-infinity") == 0) {
        *us = text[0] == '-' ? INT64_MIN : INT64_MAX;
        return true;
    }
    int64_t year;
    int64_t month;
    int64_t day;
    int64_t hour;
    int64_t minute;
    int64_t second;
    if (!read_number(&text, '\0', &year) || !read_number(&text, '-', &month) || !read_number(&text, '-', &day) ||
        !read_number(&text, ' ', &hour) || !read_number(&text, ':', &minute) || !read_number(&text, ':', &second)) {
        return false;
    }
    int64_t fraction = read_fraction(&text);
    second += (hour * 60 + minute) * 60 - read_offset(&text);
    bool bc = strcmp(text, " BC") == 0;
    if (*text != '\0' && !bc) {
        return false;
    }
    int64_t seconds = days_of(bc ? 1 - year : year, month, day) * SECONDS_PER_DAY + second;
    if (seconds >= INT64_MAX / US_PER_SECOND) {
        *us = INT64_MAX - 1; /* the years 294247 to 294276: beyond 64 bits of microseconds, yet not infinite */
    } else {
        *us = seconds * US_PER_SECOND + fraction;
    }
    return true;
}

/* ---- parameters ---- */

static bool is_string(const struct hf__value *value)
{
    return value->type == HF__TEXT || value->type == HF__BYTES;
}

/* Their binary form is the text itself. */
static bool takes_bytes(Oid type)
{
    return type == OID_BYTEA || type == OID_TEXT || type == OID_VARCHAR || type == OID_BPCHAR || type == OID_JSON;
}

static size_t text_size(const struct hf__value *value, Oid type)
{
    switch (value->type) {
    case HF__NULL:
        return 0;
    case HF__INT:
    case HF__UINT:
        return NUMBER_TEXT;
    case HF__TIME:
        return TIME_TEXT;
    case HF__TEXT:
    case HF__BYTES:
        break;
    }
    return takes_bytes(type) ? 0 : value->s.len + 1;
}

static hf_status check_value(const struct hf__value *value, size_t number, Oid type, hf_error *err)
{
    if (!is_string(value)) {
        return HF_OK;
    }
    if (value->s.len > INT_MAX / 2) {
        return hf__fail(err, HF_INVALID, "parameter %zu has %zu bytes; PostgreSQL takes at most 1 GB in one value", number, value->s.len);
    }
    if (type != OID_BYTEA && value->s.len > 0 && memchr(value->s.data, '\0', value->s.len) != NULL) {
        return hf__fail(err, HF_DATABASE, "parameter %zu holds a NUL byte, which no text in PostgreSQL can hold; use a bytea column for it",
                        number);
    }
    return HF_OK;
}

static hf_status check_values(const struct hf__value *values, size_t n, const Oid *types, size_t *text, hf_error *err)
{
    *text = 0;
    for (size_t i = 0; i < n; i++) {
        hf_status status = check_value(&values[i], i + 1, types[i], err);
        if (status != HF_OK) {
            return status;
        }
        *text += text_size(&values[i], types[i]);
    }
    return HF_OK;
}

static void bind_string(const struct hf__value *value, size_t i, Oid type, struct hf__pg_parameters *out)
{
    if (takes_bytes(type)) {
        out->values[i] = value->s.len > 0 ? value->s.data : "";
        out->lengths[i] = (int)value->s.len;
        out->formats[i] = 1;
        return;
    }
    if (value->s.len > 0) {
        memcpy(out->text, value->s.data, value->s.len);
    }
    out->text[value->s.len] = '\0';
    out->values[i] = out->text;
}

static void bind_value(const struct hf__value *value, size_t i, Oid type, struct hf__pg_parameters *out)
{
    out->values[i] = value->type == HF__NULL ? NULL : out->text;
    out->lengths[i] = 0;
    out->formats[i] = 0;
    switch (value->type) {
    case HF__NULL:
        return;
    case HF__INT:
        (void)snprintf(out->text, NUMBER_TEXT, "%" PRId64, value->i);
        break;
    case HF__UINT:
        (void)snprintf(out->text, NUMBER_TEXT, "%" PRIu64, value->u);
        break;
    case HF__TIME:
        write_time(value->i, out->text);
        break;
    case HF__TEXT:
    case HF__BYTES:
        bind_string(value, i, type, out);
        break;
    }
    out->text += text_size(value, type);
}

hf_status hf__pg_bind(const struct hf__value *values, size_t n, const Oid *types, struct hf__pg_parameters *out, hf_error *err)
{
    size_t text;
    *out = (struct hf__pg_parameters){.n = (int)n};
    hf_status status = check_values(values, n, types, &text, err);
    if (status != HF_OK || n == 0) {
        return status;
    }
    char *block = malloc(n * (sizeof *out->values + sizeof *out->lengths + sizeof *out->formats) + text);
    if (block == NULL) {
        return hf__fail_memory(err);
    }
    out->values = (const char **)(void *)block;
    out->lengths = (int *)(void *)(block + n * sizeof *out->values);
    out->formats = out->lengths + n;
    out->text = (char *)(out->formats + n);
    for (size_t i = 0; i < n; i++) {
        bind_value(&values[i], i, types[i], out);
    }
    return HF_OK;
}

void hf__pg_unbind(struct hf__pg_parameters *parameters)
{
    free((void *)parameters->values);
    *parameters = (struct hf__pg_parameters){.n = 0};
}

/* ---- answers ---- */

static hf_status keep_string(struct hf__rows *rows, const void *data, size_t len, enum hf__value_type type, struct hf__value *cell,
                             hf_error *err)
{
    const char *copy = hf__rows_copy(rows, data, len);
    if (copy == NULL) {
        return hf__fail_memory(err);
    }
    *cell = type == HF__BYTES ? hf__bytes(copy, len) : hf__text_n(copy, len);
    return HF_OK;
}

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* bytea_output = escape: a session that is not ours to set up. */
static hf_status decode_escaped(const char *text, struct hf__rows *rows, struct hf__value *cell, hf_error *err)
{
    size_t len;
    unsigned char *data = PQunescapeBytea((const unsigned char *)text, &len);
    if (data == NULL) {
        return hf__fail_memory(err);
    }
    hf_status status = keep_string(rows, data, len, HF__BYTES, cell, err);
    PQfreemem(data);
    return status;
}

static hf_status decode_bytes(const char *text, size_t len, struct hf__rows *rows, struct hf__value *cell, hf_error *err)
{
    if (text[0] != '\\' || text[1] != 'x') {
        return decode_escaped(text, rows, cell, err);
    }
    size_t n = (len - 2) / 2;
    char *data = hf__rows_alloc(rows, n);
    if (data == NULL) {
        return hf__fail_memory(err);
    }
    for (size_t i = 0; i < n; i++) {
        data[i] = (char)(hex_digit(text[2 + 2 * i]) << 4 | hex_digit(text[3 + 2 * i]));
    }
    *cell = hf__bytes(data, n);
    return HF_OK;
}

static hf_status decode_time(const struct hf__pg *self, const char *text, struct hf__value *cell, hf_error *err)
{
    int64_t us;
    if (!read_time(text, &us)) {
        const char *style = PQparameterStatus(self->pg, "DateStyle");
        return hf__fail(err, HF_UNSUPPORTED, "the time \"%s\" cannot be read with DateStyle %s; set DateStyle to ISO on this connection",
                        text, style != NULL ? style : "(unknown)");
    }
    *cell = hf__time_us(us);
    return HF_OK;
}

static hf_status decode_cell(const struct hf__pg *self, const PGresult *result, int row, int column, struct hf__rows *rows,
                             struct hf__value *cell, hf_error *err)
{
    const char *text = PQgetvalue(result, row, column);
    size_t len = (size_t)PQgetlength(result, row, column);
    switch (PQftype(result, column)) {
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_OID:
        *cell = hf__int(strtoll(text, NULL, 10));
        return HF_OK;
    case OID_BOOL:
        *cell = hf__int(text[0] == 't');
        return HF_OK;
    case OID_BYTEA:
        return decode_bytes(text, len, rows, cell, err);
    case OID_TIMESTAMP:
    case OID_TIMESTAMPTZ:
        return decode_time(self, text, cell, err);
    default:
        return keep_string(rows, text, len, HF__TEXT, cell, err);
    }
}

static hf_status decode_row(const struct hf__pg *self, const PGresult *result, int row, struct hf__rows *rows, hf_error *err)
{
    struct hf__value *cells = hf__rows_add(rows);
    if (cells == NULL) {
        return hf__fail_memory(err);
    }
    int columns = PQnfields(result);
    for (int column = 0; column < columns; column++) {
        if (!PQgetisnull(result, row, column)) {
            hf_status status = decode_cell(self, result, row, column, rows, &cells[column], err);
            if (status != HF_OK) {
                return status;
            }
        }
    }
    return HF_OK;
}

/* PQcmdTuples counts the rows of a SELECT too. */
static uint64_t matched_rows(PGresult *result)
{
    const char *tag = PQcmdStatus(result);
    bool changes =
        strncmp(tag, "INSERT", 6) == 0 || strncmp(tag, "UPDATE", 6) == 0 || strncmp(tag, "DELETE", 6) == 0 || strncmp(tag, "MERGE", 5) == 0;
    return changes ? strtoull(PQcmdTuples(result), NULL, 10) : 0;
}

hf_status hf__pg_decode(const struct hf__pg *self, PGresult *result, struct hf__rows *rows, hf_error *err)
{
    hf__rows_clear(rows);
    rows->columns = (size_t)PQnfields(result);
    rows->matched = matched_rows(result);
    int n = PQntuples(result);
    for (int row = 0; row < n; row++) {
        hf_status status = decode_row(self, result, row, rows, err);
        if (status != HF_OK) {
            hf__rows_clear(rows);
            return status;
        }
    }
    return HF_OK;
}
