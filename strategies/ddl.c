/* A table that is right for the database and the description's strategy, with the index that its claims read in order. */
#include <stdlib.h>
#include <string.h>

#include "strategies/dialect.h"
#include "strategies/strategy.h"

/* The order in which a person reads a table. */
static const enum hf__role role_order[] = {HF__ROLE_ID,           HF__ROLE_GROUP,        HF__ROLE_PARTITION_KEY, HF__ROLE_PRIORITY,
                                           HF__ROLE_PAYLOAD,      HF__ROLE_HEADERS,      HF__ROLE_ATTEMPT,       HF__ROLE_RETRY_AFTER,
                                           HF__ROLE_LOCKED_UNTIL, HF__ROLE_PROCESSED_AT, HF__ROLE_LAST_ERROR};

static void put_column(struct hf__sql *sql, const char *name, bool *any)
{
    hf__sql_put(sql, *any ? ",\n    " : "\n    ");
    *any = true;
    hf__sql_name(sql, name);
    hf__sql_put(sql, " ");
}

static bool is_role_column(const struct hf_table *table, const char *name)
{
    for (size_t role = 0; role < HF__ROLES; role++)
        if (table->column[role] && strcmp(table->column[role], name) == 0)
            return true;
    return false;
}

static bool named_before(const struct hf_table *table, size_t part)
{
    for (size_t i = 0; i < part; i++)
        if (table->key[i].is_column && strcmp(table->key[i].text, table->key[part].text) == 0)
            return true;
    return false;
}

/* dead: of the dead letters' table, which is given every id and makes none. */
static void put_columns(struct hf__sql *sql, const struct hf_table *table, const struct hf__dialect *dialect, bool dead)
{
    bool any = false;
    hf__sql_put(sql, " (");
    for (size_t i = 0; i < sizeof role_order / sizeof role_order[0]; i++) {
        if (!table->column[role_order[i]])
            continue;
        put_column(sql, table->column[role_order[i]], &any);
        if (dead && role_order[i] == HF__ROLE_ID)
            hf__sql_put(sql, dialect->dead_id_type);
        else
            dialect->column_type(sql, role_order[i]);
    }
    for (size_t i = 0; i < table->n_key; i++) {
        if (!table->key[i].is_column || is_role_column(table, table->key[i].text) || named_before(table, i))
            continue;
        put_column(sql, table->key[i].text, &any);
        hf__sql_put(sql, dialect->key_column_type);
    }
    hf__sql_put(sql, "\n)");
}

static hf_status put_table(const struct hf_table *table, const struct hf__dialect *dialect, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    hf__sql_begin(&sql, dialect->database);
    hf__sql_put(&sql, "CREATE TABLE ");
    hf__sql_table(&sql, table);
    put_columns(&sql, table, dialect, false);
    hf__sql_put(&sql, dialect->table_options(table));
    return hf__sql_finish(&sql, false, out, err);
}

static hf_status put_dead_table(const struct hf_table *table, const struct hf__dialect *dialect, struct hf__rendered *out, hf_error *err)
{
    struct hf__sql sql;
    hf__sql_begin(&sql, dialect->database);
    hf__sql_put(&sql, "CREATE TABLE ");
    hf__sql_dead_table(&sql, table);
    put_columns(&sql, table, dialect, true);
    hf__sql_put(&sql, dialect->dead_table_options);
    return hf__sql_finish(&sql, false, out, err);
}

enum index { CLAIM_ORDER, GROUP_ORDER, GROUP_LEASES };

static void put_order_columns(struct hf__sql *sql, const struct hf_table *table, const struct hf__dialect *dialect)
{
    static const enum hf__role order[] = {HF__ROLE_PRIORITY, HF__ROLE_RETRY_AFTER};
    if (table->column[HF__ROLE_PROCESSED_AT] && !dialect->partial_index) {
        hf__sql_name(sql, table->column[HF__ROLE_PROCESSED_AT]);
        hf__sql_put(sql, ", ");
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (!table->column[order[i]])
            continue;
        hf__sql_name(sql, table->column[order[i]]);
        hf__sql_put(sql, ", ");
    }
    hf__sql_name(sql, table->column[HF__ROLE_ID]);
}

static void put_condition(struct hf__sql *sql, bool *any, const char *column, const char *is)
{
    hf__sql_put(sql, *any ? " AND " : " WHERE ");
    *any = true;
    hf__sql_name(sql, column);
    hf__sql_put(sql, is);
}

/* Of a FIFO table's rows only those without a group are claimed by the order of all. */
static void put_conditions(struct hf__sql *sql, const struct hf_table *table, enum index index)
{
    bool any = false;
    if (index == GROUP_LEASES) {
        put_condition(sql, &any, table->column[HF__ROLE_LOCKED_UNTIL], " IS NOT NULL");
        return;
    }
    if (index == CLAIM_ORDER && table->fifo)
        put_condition(sql, &any, table->column[HF__ROLE_GROUP], " IS NULL");
    if (table->column[HF__ROLE_PROCESSED_AT])
        put_condition(sql, &any, table->column[HF__ROLE_PROCESSED_AT], " IS NULL");
}

static void put_index_columns(struct hf__sql *sql, const struct hf_table *table, const struct hf__dialect *dialect, enum index index)
{
    hf__sql_put(sql, " (");
    if (index != CLAIM_ORDER) {
        hf__sql_name(sql, table->column[HF__ROLE_GROUP]);
        hf__sql_put(sql, ", ");
    }
    if (index == GROUP_LEASES)
        hf__sql_name(sql, table->column[HF__ROLE_LOCKED_UNTIL]);
    else
        put_order_columns(sql, table, dialect);
    hf__sql_put(sql, ")");
    if (dialect->partial_index)
        put_conditions(sql, table, index);
}

/* An index's name is the table's with a word behind it, cut to what every database takes (63 bytes) at a character boundary. */
static void put_index_name(struct hf__sql *sql, const struct hf_table *table, const char *word)
{
    size_t room = 63 - strlen(word), len = hf__utf8_cut(table->name, strlen(table->name), room);
    char name[64];
    memcpy(name, table->name, len);
    memcpy(name + len, word, strlen(word) + 1);
    hf__sql_name(sql, name);
}

static hf_status put_index(const struct hf_table *table, const struct hf__dialect *dialect, enum index index, struct hf__rendered *out,
                           hf_error *err)
{
    static const char *const words[] = {[CLAIM_ORDER] = "_claim_order", [GROUP_ORDER] = "_group_order", [GROUP_LEASES] = "_group_leases"};
    struct hf__sql sql;
    hf__sql_begin(&sql, dialect->database);
    hf__sql_put(&sql, "CREATE INDEX ");
    if (dialect->database == HF__SQLITE && table->schema) { /* there the index's name is qualified, and the table's is not */
        hf__sql_name(&sql, table->schema);
        hf__sql_put(&sql, ".");
    }
    put_index_name(&sql, table, words[index]);
    hf__sql_put(&sql, " ON ");
    if (dialect->database == HF__SQLITE)
        hf__sql_name(&sql, table->name);
    else
        hf__sql_table(&sql, table);
    put_index_columns(&sql, table, dialect, index);
    return hf__sql_finish(&sql, false, out, err);
}

/* The primary key alone gives the order of a table that is claimed by id; rows without a group stand together in a FIFO table's index by
 * group, which PostgreSQL does not read in order. */
static bool needs_order_index(const struct hf_table *table, const struct hf__dialect *dialect)
{
    if (table->fifo)
        return dialect->partial_index;
    return table->column[HF__ROLE_PRIORITY] || table->column[HF__ROLE_RETRY_AFTER] || table->column[HF__ROLE_PROCESSED_AT];
}

hf_status hf__ddl(const struct hf_table *table, enum hf__database database, char ***out, size_t *n, hf_error *err)
{
    const struct hf__dialect *dialect = hf__dialect_of(database);
    struct hf__rendered statement[6] = {0};
    size_t count = 0;
    *out = NULL;
    *n = 0;
    hf_status status = hf__table_fits(table, database, err);
    if (status != HF_OK)
        return status;
    status = put_table(table, dialect, &statement[count++], err);
    if (status == HF_OK && needs_order_index(table, dialect))
        status = put_index(table, dialect, CLAIM_ORDER, &statement[count++], err);
    if (status == HF_OK && table->column[HF__ROLE_GROUP])
        status = put_index(table, dialect, GROUP_ORDER, &statement[count++], err);
    if (status == HF_OK && table->fifo && table->column[HF__ROLE_LOCKED_UNTIL])
        status = put_index(table, dialect, GROUP_LEASES, &statement[count++], err);
    if (status == HF_OK && table->dead_table)
        status = put_dead_table(table, dialect, &statement[count++], err);
    char **texts = status == HF_OK ? calloc(count, sizeof *texts) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (texts) {
            texts[i] = statement[i].text;
            statement[i].text = NULL;
        }
        hf__rendered_free(&statement[i]);
    }
    if (!texts)
        return status != HF_OK ? status : hf__fail_memory(err);
    *out = texts;
    *n = count;
    return HF_OK;
}
