/* Values bound to statements and read from rows, the same for every database. */
#ifndef HF_POOL_VALUE_H
#define HF_POOL_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum hf__value_type {
    HF__NULL,
    HF__INT,   /* i */
    HF__UINT,  /* u: only values above INT64_MAX need it, but every unsigned column may use it */
    HF__TEXT,  /* s, UTF-8; as read it may hold what the column holds */
    HF__BYTES, /* s, any content, NUL included */
    HF__TIME   /* i: microseconds since 1970-01-01 00:00:00 UTC; INT64_MIN and INT64_MAX are PostgreSQL's infinities */
};

struct hf__value {
    enum hf__value_type type;
    union {
        int64_t i;
        uint64_t u;
        struct {
            const char *data; /* in rows: NUL-terminated behind its len bytes, for convenience */
            size_t len;
        } s;
    };
};

struct hf__value hf__null(void);
struct hf__value hf__int(int64_t i);
struct hf__value hf__uint(uint64_t u);
struct hf__value hf__text(const char *text);               /* NULL gives NULL; borrows */
struct hf__value hf__text_n(const char *text, size_t len); /* borrows */
struct hf__value hf__bytes(const void *data, size_t len);  /* borrows */
struct hf__value hf__time_us(int64_t us);

/* Exact identity: same type class (INT and UINT compare by number) and same content. NULL equals NULL. */
bool hf__value_has_bytes(const struct hf__value *value); /* TEXT or BYTES: its value is s */
bool hf__value_equal(const struct hf__value *a, const struct hf__value *b);
/* A total order for sorting: NULL first, then numbers and times by value, text and bytes bytewise. */
int hf__value_compare(const struct hf__value *a, const struct hf__value *b);
/* Reads an INT, a UINT that fits, or decimal TEXT. False if it is something else. */
bool hf__value_int(const struct hf__value *v, int64_t *out);
/* Reads a TIME, or TEXT in the shape that hf__time_format writes (fraction of 0 to 6 digits). False otherwise. */
bool hf__value_time(const struct hf__value *v, int64_t *us);

/* Writes "YYYY-MM-DD HH:MM:SS.ffffff" (26 characters and the NUL) in UTC; years 0001 to 9999, clamped. */
#define HF__TIME_TEXT 27
void hf__time_format(int64_t us, char out[HF__TIME_TEXT]);
/* Parses that shape, with a fraction of 0 to 6 digits, a trailing "+00" allowed. False if it is anything else. */
bool hf__time_parse(const char *text, size_t len, int64_t *us);

/* All rows of one answer, in memory that the rows own. Reusable: a run clears them first. One thread at a time. */
struct hf__rows {
    size_t count;
    size_t columns;
    uint64_t matched; /* rows that the statement matched (not: changed), for INSERT, UPDATE and DELETE */
    struct hf__value *cells;
    size_t capacity; /* of cells */
    struct hf__chunk *memory;
};

void hf__rows_init(struct hf__rows *rows);
void hf__rows_clear(struct hf__rows *rows); /* keeps some memory for the next use */
void hf__rows_free(struct hf__rows *rows);
const struct hf__value *hf__cell(const struct hf__rows *rows, size_t row, size_t column);

/* For drivers. Each returns NULL when memory is out. */
struct hf__value *hf__rows_add(struct hf__rows *rows);   /* `columns` cells, all NULL */
char *hf__rows_alloc(struct hf__rows *rows, size_t len); /* len + 1 bytes, the last 0 */
const char *hf__rows_copy(struct hf__rows *rows, const void *data, size_t len);

#endif
