/* The counts of a table, and of each of its groups. */
#include <stdlib.h>

#include "runtime/admin.h"

static hf_counts public_counts(const struct hf__counts *counts)
{
    return (hf_counts){
        .size = sizeof(hf_counts),
        .due = counts->due,
        .delayed = counts->delayed,
        .in_work = counts->in_work,
        .processed = counts->processed,
        .dead = counts->dead,
        .oldest_due_seconds = counts->oldest_due_seconds,
    };
}

static hf_status count(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, void *ctx, hf_error *err)
{
    return hf__plan_count(plan, conn, deadline, ctx, err);
}

hf_status hf_count(hf_runtime *runtime, const hf_table *table, hf_counts *out, hf_error *err)
{
    struct hf__counts counts = {0};
    hf_status status = hf__with_plan(runtime, table, count, &counts, err);
    if (status != HF_OK) {
        return status;
    }
    hf_counts answer = public_counts(&counts);
    return hf__write_out(out, &answer, sizeof answer, "hf_count", err);
}

struct hf_group_counts {
    struct hf__group_counts *list;
    size_t n;
};

static hf_status count_groups(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, void *ctx, hf_error *err)
{
    struct hf_group_counts *counts = ctx;
    return hf__plan_count_groups(plan, conn, deadline, &counts->list, &counts->n, err);
}

hf_status hf_count_groups(hf_runtime *runtime, const hf_table *table, hf_group_counts **out, hf_error *err)
{
    struct hf_group_counts *counts = calloc(1, sizeof *counts);
    if (!counts) {
        return hf__fail_memory(err);
    }
    hf_status status = hf__with_plan(runtime, table, count_groups, counts, err);
    if (status == HF_OK) {
        *out = counts;
    } else {
        free(counts);
    }
    return status;
}

size_t hf_group_counts_count(const hf_group_counts *counts)
{
    return counts ? counts->n : 0;
}

bool hf_group_counts_at(const hf_group_counts *counts, size_t i, const char **group, hf_counts *out)
{
    if (i >= hf_group_counts_count(counts)) {
        return false;
    }
    hf_counts answer = public_counts(&counts->list[i].counts);
    *group = counts->list[i].group;
    return hf__write_out(out, &answer, sizeof answer, "hf_group_counts_at", NULL) == HF_OK;
}

void hf_group_counts_free(hf_group_counts *counts)
{
    if (counts) {
        hf__group_counts_free(counts->list, counts->n);
    }
    free(counts);
}
