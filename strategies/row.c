/* Claimed rows: from a claim's answer into memory of their own, in claim order. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/plan.h"

enum {
    COLUMN_ID,
    COLUMN_ATTEMPT,
    COLUMN_PRIORITY,
    COLUMN_DUE,
    COLUMN_GROUP,
    COLUMN_HEADERS,
    COLUMN_PAYLOAD,
    COLUMN_PARTITION,
    COLUMN_KEY,
    COLUMN_DEAD
};

/* Copies a value's bytes to *at, NUL-terminated, and moves on. */
static struct hf__value keep(const struct hf__value *value, char **at)
{
    struct hf__value kept = *value;
    if (!hf__value_has_bytes(value))
        return kept;
    memcpy(*at, value->s.data, value->s.len);
    (*at)[value->s.len] = '\0';
    kept.s.data = *at;
    *at += value->s.len + 1;
    return kept;
}

static size_t id_text_size(const struct hf__value *id)
{
    if (id->type == HF__TEXT)
        return id->s.len + 1;
    if (id->type == HF__BYTES)
        return 2 * id->s.len + 1;
    return 24;
}

static void write_id_text(const struct hf__value *id, char *out, size_t size)
{
    if (id->type == HF__TEXT) {
        memcpy(out, id->s.data, id->s.len);
        out[id->s.len] = '\0';
    } else if (id->type == HF__BYTES) {
        out[0] = '\0';
        for (size_t i = 0; i < id->s.len; i++)
            snprintf(out + 2 * i, size - 2 * i, "%02x", (unsigned char)id->s.data[i]);
    } else if (id->type == HF__UINT) {
        snprintf(out, size, "%" PRIu64, id->u);
    } else {
        snprintf(out, size, "%" PRId64, id->i);
    }
}

char *hf__id_text(const struct hf__value *id)
{
    size_t size = id_text_size(id);
    char *text = malloc(size);
    if (text)
        write_id_text(id, text, size);
    return text;
}

struct hf__row *hf__row_read(const struct hf__plan *plan, const struct hf__rows *rows, size_t r, int64_t ahead)
{
    size_t size = 0;
    const struct hf__value *cell = hf__cell(rows, r, 0);
    for (size_t c = 0; c < HF__ROW_COLUMNS; c++)
        if (hf__value_has_bytes(&cell[c]))
            size += cell[c].s.len + 1;
    size += id_text_size(&cell[COLUMN_ID]);
    struct hf__row *row = calloc(1, sizeof *row);
    char *at = malloc(size);
    if (!row || !at) {
        free(row);
        free(at);
        return NULL;
    }
    row->memory = at;
    row->id_text = at;
    write_id_text(&cell[COLUMN_ID], at, id_text_size(&cell[COLUMN_ID]));
    at += id_text_size(&cell[COLUMN_ID]);
    row->id = keep(&cell[COLUMN_ID], &at);
    row->order[0] = keep(&cell[COLUMN_PRIORITY], &at);
    row->order[1] = keep(&cell[COLUMN_DUE], &at);
    row->group = keep(&cell[COLUMN_GROUP], &at);
    row->headers = keep(&cell[COLUMN_HEADERS], &at);
    row->payload = keep(&cell[COLUMN_PAYLOAD], &at);
    row->partition = keep(&cell[COLUMN_PARTITION], &at);
    struct hf__value key = keep(&cell[COLUMN_KEY], &at);
    if (hf__value_has_bytes(&key))
        row->key = (char *)(uintptr_t)key.s.data;
    if (HF__HAS(plan, ATTEMPT) && hf__value_int(&cell[COLUMN_ATTEMPT], &row->attempt))
        row->attempt -= ahead;
    int64_t dead;
    row->is_dead = hf__value_int(&cell[COLUMN_DEAD], &dead) && dead == 1;
    return row;
}

void hf__row_free(struct hf__row *row)
{
    if (!row)
        return;
    free(row->memory);
    free(row);
}

hf_status hf__rows_read(const struct hf__plan *plan, const struct hf__rows *rows, int64_t ahead, struct hf__row **out, hf_error *err)
{
    for (size_t r = 0; r < rows->count; r++) {
        out[r] = hf__row_read(plan, rows, r, ahead);
        if (out[r])
            continue;
        while (r > 0)
            hf__row_free(out[--r]);
        return hf__fail_memory(err);
    }
    return HF_OK;
}

/* NULL priority is last and NULL retry_after first, as in the statements' order. */
static int compare_rows(const void *left, const void *right)
{
    const struct hf__row *a = *(struct hf__row *const *)left, *b = *(struct hf__row *const *)right;
    bool a_null = a->order[0].type == HF__NULL, b_null = b->order[0].type == HF__NULL;
    if (a_null != b_null)
        return a_null ? 1 : -1;
    int order = hf__value_compare(&a->order[0], &b->order[0]);
    if (order == 0)
        order = hf__value_compare(&a->order[1], &b->order[1]);
    return order != 0 ? order : hf__value_compare(&a->id, &b->id);
}

void hf__rows_sort(struct hf__row **rows, size_t n)
{
    qsort(rows, n, sizeof *rows, compare_rows);
}
