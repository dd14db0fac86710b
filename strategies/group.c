#include "strategies/group.h"

#include <stdlib.h>
#include <string.h>

#include "strategies/array.h"

struct group {
    struct hf__plan *plan;
    struct hf__conn *conn;
    struct hf__row *const *rows;
    size_t n;
    bool *matched;
    struct hf__args args;
    struct hf__deadline deadline;
};

bool hf__group_is_one_statement(const struct hf__plan *plan)
{
    return plan->dialect->ack_set != NULL;
}

static struct hf__value nth_id(const void *ctx, size_t i)
{
    return ((const struct group *)ctx)->rows[i]->id;
}

static struct hf__value nth_token(const void *ctx, size_t i)
{
    return hf__time_us(((const struct group *)ctx)->rows[i]->token_us);
}

static struct hf__value nth_stored(const void *ctx, size_t i)
{
    const struct group *group = ctx;
    return hf__int(hf__stored_attempt(group->plan, group->rows[i]));
}

/* One statement: what it returns is the places, from 1, of those that matched. */
static hf_status apply_set(struct group *group, const struct hf__rendered *statement, hf_error *err)
{
    struct hf__rows found;
    char *ids = hf__array_text(group->n, nth_id, group);
    char *tokens = hf__array_text(group->n, nth_token, group);
    char *storeds = hf__array_text(group->n, nth_stored, group);
    hf_status status = ids && tokens && storeds ? HF_OK : hf__fail_memory(err);
    hf__rows_init(&found);
    if (status == HF_OK) {
        group->args.one[HF__P_IDS] = hf__text(ids);
        group->args.one[HF__P_TOKENS] = hf__text(tokens);
        group->args.one[HF__P_STOREDS] = hf__text(storeds);
        status = hf__sql_run(group->conn, statement, &group->args, &found, group->deadline, err);
    }
    for (size_t i = 0; status == HF_OK && i < found.count; i++) {
        int64_t place;
        if (hf__value_int(hf__cell(&found, i, 0), &place) && place >= 1 && (size_t)place <= group->n)
            group->matched[place - 1] = true;
    }
    hf__rows_free(&found);
    free(ids);
    free(tokens);
    free(storeds);
    return status;
}

/* Does the row that was read and locked say what we believe of it? */
static bool is_believed(const struct group *group, const struct hf__row *row, const struct hf__rows *found, size_t i)
{
    int64_t token_us = 0, stored = 0;
    if (!hf__value_time(hf__cell(found, i, 1), &token_us) || token_us != row->token_us)
        return false;
    if (!HF__HAS(group->plan, ATTEMPT))
        return true;
    return hf__value_int(hf__cell(found, i, 2), &stored) && stored == hf__stored_attempt(group->plan, row);
}

static int compare_id(const void *key, const void *element)
{
    return hf__value_compare(key, &(*(struct hf__row *const *)element)->id);
}

/* The place in the group of the row that was read, or NULL. A row that we lost and claimed again may be there twice; the database
 * has the one that is believed. */
static struct hf__row *const *find_believed(const struct group *group, const struct hf__rows *found, size_t i)
{
    const struct hf__value *id = hf__cell(found, i, 0);
    struct hf__row *const *row = bsearch(id, group->rows, group->n, sizeof *group->rows, compare_id), *const *end = group->rows + group->n;
    while (row && row > group->rows && compare_id(id, row - 1) == 0)
        row--;
    for (; row && row < end && compare_id(id, row) == 0; row++)
        if (is_believed(group, *row, found, i))
            return row;
    return NULL;
}

static void list_ids(struct group *group, const struct hf__value *ids, size_t n)
{
    group->args.many[HF__P_ID] = ids;
    group->args.n_many[HF__P_ID] = n;
}

/* Where there is no change of many: the rows are locked by us, so each by its id waits for nobody. */
static hf_status change_matched(struct group *group, const struct hf__rendered *change, struct hf__rows *found, hf_error *err)
{
    hf_status status = HF_OK;
    uint64_t matched = 0;
    for (size_t i = 0; i < group->n && status == HF_OK; i++) {
        if (!group->matched[i])
            continue;
        list_ids(group, &group->rows[i]->id, 1);
        status = hf__sql_run(group->conn, change, &group->args, found, group->deadline, err);
        matched += found->matched;
    }
    found->matched = matched;
    return status;
}

/* A locking read of all, compared here, then one change of those that are ours. */
static hf_status apply_list(struct group *group, const struct hf__rendered *change, hf_error *err)
{
    const struct hf__rendered *lock = group->plan->sql.lock_list;
    struct hf__value ids[HF__LIST_MAX];
    struct hf__rows found;
    hf__rows_init(&found);
    for (size_t i = 0; i < group->n; i++)
        ids[i] = group->rows[i]->id;
    list_ids(group, ids, group->n);
    hf_status status = hf__sql_run(group->conn, &lock[hf__list_for(group->n)], &group->args, &found, group->deadline, err);
    size_t ours = 0;
    for (size_t i = 0; status == HF_OK && i < found.count; i++) {
        struct hf__row *const *row = find_believed(group, &found, i);
        if (!row)
            continue;
        group->matched[row - group->rows] = true;
        ids[ours++] = (*row)->id;
    }
    if (status == HF_OK && ours > 0) {
        list_ids(group, ids, ours);
        const struct hf__rendered *many = &change[hf__list_for(ours)];
        status = many->text ? hf__sql_run(group->conn, many, &group->args, &found, group->deadline, err)
                            : change_matched(group, &change[0], &found, err);
        if (status == HF_OK && found.matched != ours)
            status = hf__fail(err, HF_DATABASE, "table %s: %zu locked rows were to change and %zu did; is the id column unique?",
                              group->plan->table->display, ours, (size_t)found.matched);
    }
    list_ids(group, NULL, 0);
    hf__rows_free(&found);
    return status;
}

static hf_status apply_each(struct group *group, const struct hf__rendered *change, hf_error *err)
{
    struct hf__rows found;
    hf_status status = HF_OK;
    hf__rows_init(&found);
    for (size_t i = 0; i < group->n && status == HF_OK; i++) {
        hf__args_row(group->plan, &group->args, group->rows[i]);
        status = hf__sql_run(group->conn, change, &group->args, &found, group->deadline, err);
        group->matched[i] = status == HF_OK && found.matched == 1;
    }
    hf__rows_free(&found);
    return status;
}

hf_status hf__group_apply(struct hf__plan *plan, struct hf__conn *conn, enum hf__group_change what, struct hf__row *const *rows, size_t n,
                          int64_t expiry_us, bool *matched, struct hf__deadline deadline, hf_error *err)
{
    const struct hf__statements *s = &plan->sql;
    bool ack = what == HF__GROUP_ACK;
    struct group group = {.plan = plan, .conn = conn, .rows = rows, .n = n, .matched = matched, .deadline = deadline};
    memset(matched, 0, n * sizeof *matched);
    hf__plan_args(plan, &group.args, hf__clock_now_us(plan->clock));
    group.args.one[HF__P_EXPIRY] = hf__time_us(expiry_us);
    if (hf__group_is_one_statement(plan))
        return apply_set(&group, ack ? &s->ack_set : &s->renew_set, err);
    if (plan->dialect->locking_read)
        return apply_list(&group, ack ? s->ack_list : s->renew_list, err);
    return apply_each(&group, ack ? &s->ack : &s->renew, err);
}
