#include "catalogue.h"

#include <stdlib.h>
#include <string.h>

static void free_index(struct hf__index *index)
{
    for (size_t i = 0; index->columns != NULL && i < index->n_columns; i++) {
        free(index->columns[i]);
    }
    free(index->columns);
    free(index->name);
    free(index->predicate);
}

void hf__relation_free(struct hf__relation *relation)
{
    for (size_t i = 0; relation->columns != NULL && i < relation->n_columns; i++) {
        free(relation->columns[i].name);
        free(relation->columns[i].type);
    }
    for (size_t i = 0; relation->indexes != NULL && i < relation->n_indexes; i++) {
        free_index(&relation->indexes[i]);
    }
    free(relation->columns);
    free(relation->indexes);
    free(relation->engine);
    *relation = (struct hf__relation){.kind = HF__RELATION_NONE};
}

static char ascii_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

/* Not strcasecmp: that one follows the process's locale, and the databases do not. */
static bool same_in_any_case(const char *a, const char *b)
{
    while (*a != '\0' && ascii_lower(*a) == ascii_lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool same_exactly(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const struct hf__column *find_column(const struct hf__relation *relation, const char *name, bool (*same)(const char *, const char *))
{
    for (size_t i = 0; i < relation->n_columns; i++) {
        if (same(relation->columns[i].name, name)) {
            return &relation->columns[i];
        }
    }
    return NULL;
}

const struct hf__column *hf__relation_column(const struct hf__relation *relation, const char *name, bool any_case)
{
    const struct hf__column *column = find_column(relation, name, same_exactly);
    if (column == NULL && any_case) {
        column = find_column(relation, name, same_in_any_case);
    }
    return column;
}
