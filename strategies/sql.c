#include "strategies/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hf__sql_begin(struct hf__sql *sql, enum hf__database database)
{
    memset(sql, 0, sizeof *sql);
    sql->database = database;
}

void hf__sql_put_n(struct hf__sql *sql, const char *constant, size_t len)
{
    if (sql->failed)
        return;
    if (sql->len + len + 1 > sql->capacity) {
        size_t capacity = 2 * (sql->len + len + 1);
        char *text = realloc(sql->text, capacity);
        if (!text) {
            sql->failed = true;
            return;
        }
        sql->text = text;
        sql->capacity = capacity;
    }
    memcpy(sql->text + sql->len, constant, len);
    sql->len += len;
    sql->text[sql->len] = '\0';
}

void hf__sql_put(struct hf__sql *sql, const char *constant)
{
    hf__sql_put_n(sql, constant, strlen(constant));
}

void hf__sql_number(struct hf__sql *sql, int64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);
    hf__sql_put_n(sql, digits, (size_t)len);
}

void hf__sql_name(struct hf__sql *sql, const char *identifier)
{
    const char *quote = sql->database == HF__MYSQL ? "`" : "\"";
    hf__sql_put(sql, quote);
    for (const char *at = identifier; *at;) {
        size_t plain = strcspn(at, quote);
        hf__sql_put_n(sql, at, plain);
        at += plain;
        if (*at) {
            hf__sql_put(sql, quote);
            hf__sql_put(sql, quote);
            at++;
        }
    }
    hf__sql_put(sql, quote);
}

static void put_qualified(struct hf__sql *sql, const char *schema, const char *name)
{
    if (schema) {
        hf__sql_name(sql, schema);
        hf__sql_put(sql, ".");
    }
    hf__sql_name(sql, name);
}

void hf__sql_table(struct hf__sql *sql, const struct hf_table *table)
{
    put_qualified(sql, table->schema, table->name);
}

void hf__sql_dead_table(struct hf__sql *sql, const struct hf_table *table)
{
    put_qualified(sql, table->dead_schema, table->dead_table);
}

/* The place of a value that PostgreSQL's statement already names: $n may be used again, ? may not. */
static size_t place_of(const struct hf__sql *sql, enum hf__param param, unsigned index)
{
    if (sql->database == HF__POSTGRES)
        for (size_t i = 0; i < sql->n_bound; i++)
            if (sql->bound[i].param == param && sql->bound[i].index == index)
                return i;
    return sql->n_bound;
}

static bool add_bound(struct hf__sql *sql, enum hf__param param, unsigned index)
{
    if (sql->n_bound == sql->bound_capacity) {
        size_t capacity = sql->bound_capacity ? 2 * sql->bound_capacity : 8;
        struct hf__bound *bound = realloc(sql->bound, capacity * sizeof *bound);
        if (!bound)
            return false;
        sql->bound = bound;
        sql->bound_capacity = capacity;
    }
    sql->bound[sql->n_bound++] = (struct hf__bound){.param = param, .index = index};
    return true;
}

void hf__sql_bind_nth(struct hf__sql *sql, enum hf__param param, unsigned index)
{
    if (sql->failed)
        return;
    size_t place = place_of(sql, param, index);
    if (place == sql->n_bound && !add_bound(sql, param, index)) {
        sql->failed = true;
        return;
    }
    if (sql->database == HF__POSTGRES) {
        hf__sql_put(sql, "$");
        hf__sql_number(sql, (int64_t)place + 1);
    } else {
        hf__sql_put(sql, "?");
    }
}

void hf__sql_bind(struct hf__sql *sql, enum hf__param param)
{
    hf__sql_bind_nth(sql, param, 0);
}

void hf__sql_list(struct hf__sql *sql, enum hf__param param, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hf__sql_put(sql, i ? ", " : "(");
        hf__sql_bind_nth(sql, param, (unsigned)i);
    }
    hf__sql_put(sql, ")");
}

hf_status hf__sql_finish(struct hf__sql *sql, bool keep, struct hf__rendered *out, hf_error *err)
{
    memset(out, 0, sizeof *out);
    if (sql->failed || !sql->text) {
        free(sql->text);
        free(sql->bound);
        return hf__fail_memory(err);
    }
    out->text = sql->text;
    out->bound = sql->bound;
    out->n_bound = sql->n_bound;
    out->statement.sql = sql->text;
    out->statement.serial = keep ? hf__statement_serial() : 0;
    memset(sql, 0, sizeof *sql);
    return HF_OK;
}

void hf__rendered_free(struct hf__rendered *rendered)
{
    free(rendered->text);
    free(rendered->bound);
    memset(rendered, 0, sizeof *rendered);
}

static struct hf__value value_of(const struct hf__args *args, const struct hf__bound *bound)
{
    size_t n = args->n_many[bound->param];
    if (n == 0)
        return args->one[bound->param];
    size_t index = bound->index < n ? bound->index : n - 1;
    return args->many[bound->param][index];
}

hf_status hf__sql_run(struct hf__conn *conn, const struct hf__rendered *rendered, const struct hf__args *args, struct hf__rows *rows,
                      struct hf__deadline deadline, hf_error *err)
{
    struct hf__value few[16] = {{.type = HF__NULL}};
    struct hf__value *values = few;
    if (rendered->n_bound > sizeof few / sizeof few[0]) {
        values = malloc(rendered->n_bound * sizeof *values);
        if (!values)
            return hf__fail_memory(err);
    }
    for (size_t i = 0; i < rendered->n_bound; i++)
        values[i] = value_of(args, &rendered->bound[i]);
    hf_status status = hf__conn_run(conn, &rendered->statement, values, rendered->n_bound, rows, deadline, err);
    if (values != few)
        free(values);
    return status;
}
