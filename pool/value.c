#include "value.h"

#include <stdlib.h>
#include <string.h>

struct hf__value hf__null(void)
{
    return (struct hf__value){.type = HF__NULL};
}

struct hf__value hf__int(int64_t i)
{
    return (struct hf__value){.type = HF__INT, .i = i};
}

struct hf__value hf__uint(uint64_t u)
{
    return (struct hf__value){.type = HF__UINT, .u = u};
}

struct hf__value hf__text_n(const char *text, size_t len)
{
    return (struct hf__value){.type = HF__TEXT, .s = {.data = text, .len = len}};
}

struct hf__value hf__text(const char *text)
{
    return text == NULL ? hf__null() : hf__text_n(text, strlen(text));
}

struct hf__value hf__bytes(const void *data, size_t len)
{
    return (struct hf__value){.type = HF__BYTES, .s = {.data = data, .len = len}};
}

struct hf__value hf__time_us(int64_t us)
{
    return (struct hf__value){.type = HF__TIME, .i = us};
}

/* The order between types: NULL, numbers, times, text, bytes. */
static int type_rank(enum hf__value_type type)
{
    switch (type) {
    case HF__NULL:
        return 0;
    case HF__INT:
    case HF__UINT:
        return 1;
    case HF__TIME:
        return 2;
    case HF__TEXT:
        return 3;
    case HF__BYTES:
        break;
    }
    return 4;
}

static bool is_negative(const struct hf__value *v)
{
    return v->type != HF__UINT && v->i < 0;
}

static uint64_t magnitude(const struct hf__value *v)
{
    return v->type == HF__UINT ? v->u : (uint64_t)v->i;
}

/* Two's complement keeps the order within the negative numbers, so only the signs need a look. */
static int compare_numbers(const struct hf__value *a, const struct hf__value *b)
{
    if (is_negative(a) != is_negative(b)) {
        return is_negative(a) ? -1 : 1;
    }
    return (magnitude(a) > magnitude(b)) - (magnitude(a) < magnitude(b));
}

static int compare_bytes(const struct hf__value *a, const struct hf__value *b)
{
    size_t shorter = a->s.len < b->s.len ? a->s.len : b->s.len;
    int order = shorter == 0 ? 0 : memcmp(a->s.data, b->s.data, shorter);
    return order != 0 ? order : (a->s.len > b->s.len) - (a->s.len < b->s.len);
}

int hf__value_compare(const struct hf__value *a, const struct hf__value *b)
{
    int rank = type_rank(a->type);
    if (rank != type_rank(b->type)) {
        return rank < type_rank(b->type) ? -1 : 1;
    }
    switch (a->type) {
    case HF__NULL:
        return 0;
    case HF__INT:
    case HF__UINT:
    case HF__TIME:
        return compare_numbers(a, b);
    case HF__TEXT:
    case HF__BYTES:
        break;
    }
    return compare_bytes(a, b);
}

bool hf__value_has_bytes(const struct hf__value *value)
{
    return value->type == HF__TEXT || value->type == HF__BYTES;
}

bool hf__value_equal(const struct hf__value *a, const struct hf__value *b)
{
    return hf__value_compare(a, b) == 0;
}

/* Optional minus, then digits and nothing else: no blanks, no plus, no overflow. */
static bool parse_decimal(const char *text, size_t len, int64_t *out)
{
    bool negative = len > 0 && text[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t number = 0;
    size_t i = negative ? 1 : 0;
    if (i == len) {
        return false;
    }
    for (; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || number > (limit - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - number : number);
    return true;
}

bool hf__value_int(const struct hf__value *v, int64_t *out)
{
    switch (v->type) {
    case HF__INT:
        *out = v->i;
        return true;
    case HF__UINT:
        *out = (int64_t)v->u;
        return v->u <= (uint64_t)INT64_MAX;
    case HF__TEXT:
        return parse_decimal(v->s.data, v->s.len, out);
    case HF__NULL:
    case HF__BYTES:
    case HF__TIME:
        break;
    }
    return false;
}

bool hf__value_time(const struct hf__value *v, int64_t *us)
{
    if (v->type == HF__TIME) {
        *us = v->i;
        return true;
    }
    return v->type == HF__TEXT && hf__time_parse(v->s.data, v->s.len, us);
}

#define US_PER_SECOND INT64_C(1000000)
#define US_PER_DAY (INT64_C(86400) * US_PER_SECOND)
#define FIRST_DAY INT64_C(-719162) /* 0001-01-01 */
#define LAST_DAY INT64_C(2932896)  /* 9999-12-31 */

struct date {
    int64_t year;
    int64_t month; /* 1 to 12 */
    int64_t day;   /* 1 to 31 */
};

/* Days since 1970-01-01 in the proleptic Gregorian calendar, counted in 400-year eras that begin on the first of March
 * (Howard Hinnant's days_from_civil); right for the years 1 to 9999, the only ones used here. */
static int64_t days_from_date(struct date date)
{
    int64_t year = date.month <= 2 ? date.year - 1 : date.year;
    int64_t era = year / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (date.month > 2 ? date.month - 3 : date.month + 9) + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static struct date date_from_days(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = shifted / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    struct date date = {.year = year_of_era + era * 400, .day = day_of_year - (153 * month + 2) / 5 + 1};
    date.month = month < 10 ? month + 3 : month - 9;
    date.year += date.month <= 2;
    return date;
}

/* Writes a number of exactly `digits` digits and returns what follows it. */
static char *put_digits(char *out, int64_t number, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        out[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return out + digits;
}

void hf__time_format(int64_t us, char out[HF__TIME_TEXT])
{
    if (us < FIRST_DAY * US_PER_DAY) {
        us = FIRST_DAY * US_PER_DAY;
    } else if (us >= (LAST_DAY + 1) * US_PER_DAY) {
        us = (LAST_DAY + 1) * US_PER_DAY - 1;
    }
    int64_t days = us / US_PER_DAY - (us % US_PER_DAY < 0);
    int64_t rest = us - days * US_PER_DAY;
    int64_t seconds = rest / US_PER_SECOND;
    struct date date = date_from_days(days);
    const struct {
        int64_t number;
        int digits;
        char after;
    } parts[] = {
        {date.year, 4, '-'},    {date.month, 2, '-'},           {date.day, 2, ' '}, {seconds / 3600, 2, ':'}, {seconds / 60 % 60, 2, ':'},
        {seconds % 60, 2, '.'}, {rest % US_PER_SECOND, 6, '\0'}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        out = put_digits(out, parts[i].number, parts[i].digits);
        *out++ = parts[i].after;
    }
}

struct reader {
    const char *at;
    const char *end;
    bool ok;
};

static void expect(struct reader *reader, char c)
{
    if (reader->at == reader->end || *reader->at != c) {
        reader->ok = false;
        return;
    }
    reader->at++;
}

/* A number of exactly `digits` digits between min and max. */
static int64_t read_number(struct reader *reader, int digits, int64_t min, int64_t max)
{
    int64_t number = 0;
    for (int i = 0; i < digits; i++) {
        if (reader->at == reader->end || *reader->at < '0' || *reader->at > '9') {
            reader->ok = false;
            return min;
        }
        number = number * 10 + (*reader->at++ - '0');
    }
    if (number < min || number > max) {
        reader->ok = false;
        return min;
    }
    return number;
}

/* A point and one to six digits, or nothing. */
static int64_t read_fraction(struct reader *reader)
{
    if (reader->at == reader->end || *reader->at != '.') {
        return 0;
    }
    reader->at++;
    int64_t us = 0;
    int64_t unit = US_PER_SECOND;
    while (unit > 1 && reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        unit /= 10;
        us += (*reader->at++ - '0') * unit;
    }
    if (unit == US_PER_SECOND) {
        reader->ok = false;
    }
    return us;
}

static void read_zone(struct reader *reader)
{
    if (reader->at == reader->end) {
        return;
    }
    expect(reader, '+');
    (void)read_number(reader, 2, 0, 0);
}

bool hf__time_parse(const char *text, size_t len, int64_t *us)
{
    struct reader reader = {.at = text, .end = text + len, .ok = true};
    struct date date;
    date.year = read_number(&reader, 4, 1, 9999);
    expect(&reader, '-');
    date.month = read_number(&reader, 2, 1, 12);
    expect(&reader, '-');
    date.day = read_number(&reader, 2, 1, 31);
    expect(&reader, ' ');
    int64_t hours = read_number(&reader, 2, 0, 23);
    expect(&reader, ':');
    int64_t minutes = read_number(&reader, 2, 0, 59);
    expect(&reader, ':');
    int64_t seconds = read_number(&reader, 2, 0, 59);
    int64_t fraction = read_fraction(&reader);
    read_zone(&reader);
    int64_t days = days_from_date(date);
    /* 31 February would come back as a day in March. */
    if (!reader.ok || reader.at != reader.end || date_from_days(days).day != date.day) {
        return false;
    }
    *us = days * US_PER_DAY + ((hours * 60 + minutes) * 60 + seconds) * US_PER_SECOND + fraction;
    return true;
}

/* Memory for the rows' strings: a list of blocks, the newest first. */
struct hf__chunk {
    struct hf__chunk *next;
    size_t size;
    size_t used;
    char data[];
};

#define CHUNK_SIZE ((size_t)8 * 1024)
#define KEPT_CHUNK ((size_t)256 * 1024)
#define KEPT_CELLS ((size_t)16 * 1024)

void hf__rows_init(struct hf__rows *rows)
{
    *rows = (struct hf__rows){.count = 0};
}

static void free_chunks(struct hf__chunk *chunk)
{
    while (chunk != NULL) {
        struct hf__chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void hf__rows_clear(struct hf__rows *rows)
{
    rows->count = 0;
    rows->columns = 0;
    rows->matched = 0;
    if (rows->capacity > KEPT_CELLS) {
        free(rows->cells);
        rows->cells = NULL;
        rows->capacity = 0;
    }
    if (rows->memory != NULL && rows->memory->size <= KEPT_CHUNK) {
        free_chunks(rows->memory->next);
        rows->memory->next = NULL;
        rows->memory->used = 0;
    } else {
        free_chunks(rows->memory);
        rows->memory = NULL;
    }
}

void hf__rows_free(struct hf__rows *rows)
{
    free_chunks(rows->memory);
    free(rows->cells);
    hf__rows_init(rows);
}

const struct hf__value *hf__cell(const struct hf__rows *rows, size_t row, size_t column)
{
    return &rows->cells[row * rows->columns + column];
}

static bool grow_cells(struct hf__rows *rows, size_t needed)
{
    size_t capacity = rows->capacity < 32 ? 32 : rows->capacity;
    while (capacity < needed) {
        if (capacity > SIZE_MAX / sizeof *rows->cells / 2) {
            return false;
        }
        capacity *= 2;
    }
    struct hf__value *cells = realloc(rows->cells, capacity * sizeof *cells);
    if (cells == NULL) {
        return false;
    }
    rows->cells = cells;
    rows->capacity = capacity;
    return true;
}

struct hf__value *hf__rows_add(struct hf__rows *rows)
{
    size_t used = rows->count * rows->columns;
    size_t needed = used + rows->columns + (rows->columns == 0); /* never a NULL pointer for a row without columns */
    if (needed > rows->capacity && !grow_cells(rows, needed)) {
        return NULL;
    }
    struct hf__value *row = rows->cells + used;
    for (size_t i = 0; i < rows->columns; i++) {
        row[i] = hf__null();
    }
    rows->count++;
    return row;
}

static bool add_chunk(struct hf__rows *rows, size_t needed)
{
    size_t size = rows->memory == NULL ? CHUNK_SIZE : rows->memory->size;
    size = size < KEPT_CHUNK / 2 ? size * 2 : KEPT_CHUNK;
    if (size < needed) {
        size = needed;
    }
    if (size > SIZE_MAX - sizeof(struct hf__chunk)) {
        return false;
    }
    struct hf__chunk *chunk = malloc(sizeof *chunk + size);
    if (chunk == NULL) {
        return false;
    }
    *chunk = (struct hf__chunk){.next = rows->memory, .size = size};
    rows->memory = chunk;
    return true;
}

char *hf__rows_alloc(struct hf__rows *rows, size_t len)
{
    if (len == SIZE_MAX) {
        return NULL;
    }
    bool fits = rows->memory != NULL && rows->memory->size - rows->memory->used > len;
    if (!fits && !add_chunk(rows, len + 1)) {
        return NULL;
    }
    char *start = rows->memory->data + rows->memory->used;
    rows->memory->used += len + 1;
    start[len] = '\0';
    return start;
}

const char *hf__rows_copy(struct hf__rows *rows, const void *data, size_t len)
{
    char *copy = hf__rows_alloc(rows, len);
    if (copy != NULL && len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}
