#include "strategies/order_index.h"

size_t hf__order_columns(const struct hf_table *table, const struct hf__dialect *dialect, bool by_group,
                         const char *columns[HF__ORDER_COLUMNS])
{
    size_t n = 0;
    if (by_group)
        columns[n++] = table->column[HF__ROLE_GROUP];
    if (!dialect->partial_index && table->column[HF__ROLE_PROCESSED_AT])
        columns[n++] = table->column[HF__ROLE_PROCESSED_AT];
    if (table->column[HF__ROLE_PRIORITY])
        columns[n++] = table->column[HF__ROLE_PRIORITY];
    if (table->column[HF__ROLE_RETRY_AFTER])
        columns[n++] = table->column[HF__ROLE_RETRY_AFTER];
    columns[n++] = table->column[HF__ROLE_ID];
    return n;
}

/* InnoDB's and SQLite's indexes end with the primary key, written or not. */
static bool implied(const struct hf__dialect *dialect, const struct hf__relation *relation, const char *column)
{
    if (dialect->database == HF__POSTGRES)
        return false;
    for (size_t i = 0; i < relation->n_indexes; i++) {
        const struct hf__index *index = &relation->indexes[i];
        if (index->primary && index->n_columns == 1 && hf__same_name(dialect, index->columns[0], column))
            return true;
    }
    return false;
}

static bool begins_with(const struct hf__dialect *dialect, const struct hf__relation *relation, const struct hf__index *index,
                        const char *const *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool there = i < index->n_columns;
        if (!there && i + 1 == n && implied(dialect, relation, columns[i]))
            return true;
        if (!there || !hf__same_name(dialect, index->columns[i], columns[i]))
            return false;
    }
    return true;
}

const struct hf__index *hf__order_index(const struct hf_table *table, const struct hf__dialect *dialect,
                                        const struct hf__relation *relation, bool by_group)
{
    const char *columns[HF__ORDER_COLUMNS];
    if (by_group && !table->column[HF__ROLE_GROUP])
        return NULL;
    size_t n = hf__order_columns(table, dialect, by_group, columns);
    for (size_t i = 0; i < relation->n_indexes; i++) {
        const struct hf__index *index = &relation->indexes[i];
        if (index->plain && (!index->partial || table->column[HF__ROLE_PROCESSED_AT]) && begins_with(dialect, relation, index, columns, n))
            return index;
    }
    return NULL;
}
