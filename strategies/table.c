#include "strategies/table.h"

#include <stdlib.h>
#include <string.h>

const char *hf__role_key(enum hf__role role)
{
    static const char *const keys[HF__ROLES] = {
#define ROLE_KEY(name, key) [HF__ROLE_##name] = (key),
        HF__ROLE_MAP(ROLE_KEY)
#undef ROLE_KEY
    };
    return keys[role];
}

const char *hf__strategy_kind_name(enum hf__strategy_kind kind)
{
    switch (kind) {
    case HF__ROW_LOCK:
        return "row_lock";
    case HF__LEASE:
        return "lease";
    case HF__ADVISORY_LOCK:
        return "advisory";
    }
    return "?";
}

static void free_key(struct hf__key_part *key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(key[i].text);
    }
    free(key);
}

void hf__table_free(struct hf_table *table)
{
    if (table == NULL) {
        return;
    }
    free(table->schema);
    free(table->name);
    free(table->display);
    free(table->dead_group);
    free(table->dead_table);
    free(table->dead_schema);
    free(table->dead_display);
    for (size_t i = 0; i < HF__ROLES; i++) {
        free(table->column[i]);
    }
    free_key(table->key, table->n_key);
    free(table);
}

/* A NULL text is copied as NULL. */
static bool copy_text(const char *text, char **out)
{
    *out = text == NULL ? NULL : strdup(text);
    return text == NULL || *out != NULL;
}

static bool copy_key(const struct hf_table *from, struct hf_table *to)
{
    if (from->n_key == 0) {
        return true;
    }
    to->key = calloc(from->n_key, sizeof *to->key);
    if (to->key == NULL) {
        return false;
    }
    for (to->n_key = 0; to->n_key < from->n_key; to->n_key++) {
        struct hf__key_part *part = &to->key[to->n_key];
        part->is_column = from->key[to->n_key].is_column;
        if (!copy_text(from->key[to->n_key].text, &part->text)) {
            return false;
        }
    }
    return true;
}

static bool copy_texts(const struct hf_table *from, struct hf_table *to)
{
    bool copied = copy_text(from->schema, &to->schema) && copy_text(from->name, &to->name) && copy_text(from->display, &to->display) &&
                  copy_text(from->dead_group, &to->dead_group) && copy_text(from->dead_table, &to->dead_table) &&
                  copy_text(from->dead_schema, &to->dead_schema) && copy_text(from->dead_display, &to->dead_display);
    for (size_t i = 0; copied && i < HF__ROLES; i++) {
        copied = copy_text(from->column[i], &to->column[i]);
    }
    return copied;
}

struct hf_table *hf__table_copy(const struct hf_table *table)
{
    struct hf_table *copy = calloc(1, sizeof *copy);
    if (copy == NULL) {
        return NULL;
    }
    copy->lease_us = table->lease_us;
    copy->isolation = table->isolation;
    copy->mode = table->mode;
    copy->mode_named = table->mode_named;
    copy->no_key_update = table->no_key_update;
    copy->fifo = table->fifo;
    copy->database_clock = table->database_clock;
    copy->max_attempts = table->max_attempts;
    if (!copy_texts(table, copy) || !copy_key(table, copy)) {
        hf__table_free(copy);
        return NULL;
    }
    return copy;
}

bool hf__table_has_dead_letter(const struct hf_table *table)
{
    return table->dead_group != NULL || table->dead_table != NULL;
}

bool hf__table_has(const struct hf_table *table, enum hf__role role)
{
    return table->column[role] != NULL;
}

enum hf__strategy_kind hf__table_kind(const struct hf_table *table)
{
    if (hf__table_has(table, HF__ROLE_LOCKED_UNTIL)) {
        return HF__LEASE;
    }
    return table->n_key > 0 ? HF__ADVISORY_LOCK : HF__ROW_LOCK;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool hf__table_same(const struct hf_table *a, const struct hf_table *b)
{
    return same_text(a->schema, b->schema) && same_text(a->name, b->name);
}
