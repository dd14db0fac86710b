/* Partition keys that are in work in this process, and whose rows a claim therefore leaves out. PostgreSQL takes them as one array;
 * elsewhere a claim comes in variants for lists of a few lengths, which are filled up by repeating the last key.
 *
 * The runtime tells keys apart by their bytes, as they are read, and so does the clause: one by the column's collation would hold up the
 * rows of other keys (A while a is in work), or if it were narrower let rows of keys in work through. */
#include <stdlib.h>

#include "strategies/array.h"
#include "strategies/plan.h"

static const size_t lengths[HF__BUSY_LISTS] = {8, 64, 256, HF__BUSY_MOST};

size_t hf__busy_room(const struct hf__plan *plan, size_t list)
{
    if (!HF__HAS(plan, PARTITION_KEY) || list >= HF__BUSY_LISTS)
        return 0;
    if (plan->dialect->arrays)
        return list == 0 ? 1 : 0;
    return lengths[list];
}

const struct hf__rendered *hf__busy_variant(const struct hf__plan *plan, const struct hf__claim *ask, const struct hf__rendered *plain,
                                            const struct hf__rendered *variants, size_t step)
{
    if (ask->n_busy == 0 || hf__busy_room(plan, 0) == 0)
        return plain;
    size_t list = 0;
    while (hf__busy_room(plan, list) < ask->n_busy && hf__busy_room(plan, list + 1) > 0)
        list++;
    return &variants[list * step];
}

void hf__put_free_keys(struct hf__sql *sql, const struct hf__plan *plan, bool *any)
{
    const char *name = HF__COLUMN(plan, PARTITION_KEY);
    if (sql->busy == 0 || !name)
        return;
    hf__put_and(sql, any);
    const struct hf__column *column = plan->role[HF__ROLE_PARTITION_KEY];
    bool text = column->kind == HF__COLUMN_TEXT;
    hf__sql_put(sql, "(");
    hf__sql_name(sql, name);
    hf__sql_put(sql, " IS NULL OR ");
    hf__sql_put(sql, text ? plan->dialect->exact_open : "");
    hf__sql_name(sql, name);
    hf__sql_put(sql, text ? plan->dialect->exact_close : "");
    if (plan->dialect->arrays) {
        hf__sql_put(sql, " <> ALL (");
        hf__sql_bind(sql, HF__P_BUSY);
        hf__sql_put(sql, "::");
        hf__sql_put(sql, text ? "text" : column->type);
        hf__sql_put(sql, "[])");
    } else {
        hf__sql_put(sql, " NOT IN ");
        hf__sql_list(sql, HF__P_BUSY, sql->busy);
    }
    hf__sql_put(sql, ")");
}

static struct hf__value nth_busy(const void *ctx, size_t i)
{
    return ((const struct hf__claim *)ctx)->busy[i];
}

static bool has_pages(const struct hf__rendered *variant)
{
    for (size_t i = 0; i < variant->n_bound; i++)
        if (variant->bound[i].param == HF__P_PAGE)
            return true;
    return false;
}

/* Where the claim chooses from a page of rows all of them may be in work elsewhere: then it looks further. */
static hf_status run_pages(struct hf__conn *conn, const struct hf__rendered *variant, struct hf__args *args, struct hf__rows *rows,
                           struct hf__deadline deadline, hf_error *err)
{
    enum { FIRST = 64, STEP = 16, PAGES = 3 };
    int64_t offset = 0, page = args->one[HF__P_LIMIT].i + FIRST;
    if (!has_pages(variant))
        return hf__sql_run(conn, variant, args, rows, deadline, err);
    hf_status status = HF_OK;
    for (int i = 0; i < PAGES && status == HF_OK && (i == 0 || rows->count == 0); i++) {
        args->one[HF__P_OFFSET] = hf__int(offset);
        args->one[HF__P_PAGE] = hf__int(page);
        status = hf__sql_run(conn, variant, args, rows, deadline, err);
        offset += page;
        page *= STEP;
    }
    return status;
}

hf_status hf__run_claim(const struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, const struct hf__rendered *variant,
                        struct hf__args *args, struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    size_t n = ask->n_busy < HF__BUSY_MOST ? ask->n_busy : HF__BUSY_MOST;
    struct hf__claim first = {.busy = ask->busy, .n_busy = n};
    if (n == 0 || hf__busy_room(plan, 0) == 0)
        return hf__sql_run(conn, variant, args, rows, deadline, err);
    args->many[HF__P_BUSY] = ask->busy;
    args->n_many[HF__P_BUSY] = n;
    if (!plan->dialect->arrays)
        return run_pages(conn, variant, args, rows, deadline, err);
    char *keys = hf__array_text(n, nth_busy, &first);
    if (!keys)
        return hf__fail_memory(err);
    struct hf__value array = hf__text(keys);
    args->many[HF__P_BUSY] = &array;
    args->n_many[HF__P_BUSY] = 1;
    hf_status status = hf__sql_run(conn, variant, args, rows, deadline, err);
    args->n_many[HF__P_BUSY] = 0;
    free(keys);
    return status;
}
