/* One row's outcome as one statement, and what a row says of itself. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "strategies/dead_letter.h"
#include "strategies/reason.h"

bool hf__backoff(unsigned attempt, struct hf__deadline deadline)
{
    int64_t most_ms = (int64_t)10 << (attempt < 5 ? attempt : 5);
    int64_t wait_ns = (most_ms / 2) * 1000000 + (int64_t)hf__random_below((uint64_t)most_ms * 500000);
    if (hf__left_ns(deadline) <= wait_ns)
        return false;
    struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, &wait) != 0)
        continue; /* EINTR: the rest of it */
    return true;
}

static const struct hf__rendered *statement_for(const struct hf__plan *plan, enum hf__action action)
{
    switch (action) {
    case HF__ACK:
        return &plan->sql.ack;
    case HF__REJECT:
        return &plan->sql.reject;
    case HF__RETRY:
        return &plan->sql.retry;
    case HF__RETRY_AFTER:
        return &plan->sql.retry_after;
    case HF__GIVE_BACK:
        return &plan->sql.give_back;
    case HF__UNBEGUN:
        return &plan->sql.unbegun;
    }
    return NULL;
}

static hf_status change_here(struct hf__plan *plan, struct hf__conn *conn, const struct hf__change *change,
                             const struct hf__rendered *statement, struct hf__args *args, hf_status gone, struct hf__deadline deadline,
                             hf_error *err)
{
    struct hf__rows rows;
    char *reason = NULL;
    hf_status status = hf__reason_for(plan->role[HF__ROLE_LAST_ERROR], change->reason, change->reason_len, &reason, err);
    if (status != HF_OK)
        return status;
    args->one[HF__P_REASON] = hf__text(reason);
    hf__rows_init(&rows);
    status = hf__sql_run(conn, statement, args, &rows, deadline, err);
    if (status == HF_OK && rows.matched != 1)
        status = hf__fail(err, gone, "table %s: row %s is no longer ours, nothing was changed", plan->table->display, change->row->id_text);
    hf__rows_free(&rows);
    free(reason);
    return status;
}

hf_status hf__change_one(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, hf_status gone,
                         struct hf__deadline deadline, hf_error *err)
{
    const struct hf__rendered *statement = statement_for(plan, change->action);
    struct hf__args args;
    int64_t now_us = hf__clock_now_us(plan->clock);
    change->dead = hf__goes_dead(plan, change);
    if (!change->dead && !statement->text)
        return HF_OK; /* nothing to write: letting go of the row is all */
    hf__plan_args(plan, &args, now_us);
    hf__args_row(plan, &args, change->row);
    hf__args_delay(plan, &args, now_us, change->delay_us);
    if (change->dead)
        return hf__bury(plan, conn, change, &args, gone, deadline, err);
    return change_here(plan, conn, change, statement, &args, gone, deadline, err);
}

hf_status hf__read_row(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                       struct hf__seen *seen, hf_error *err)
{
    return hf__read_row_with(plan, conn, &plan->sql.read, row, deadline, seen, err);
}

hf_status hf__read_row_with(struct hf__plan *plan, struct hf__conn *conn, const struct hf__rendered *read, const struct hf__row *row,
                            struct hf__deadline deadline, struct hf__seen *seen, hf_error *err)
{
    struct hf__args args;
    struct hf__rows rows;
    memset(seen, 0, sizeof *seen);
    hf__rows_init(&rows);
    hf__plan_args(plan, &args, 0);
    hf__args_row(plan, &args, row);
    hf_status status = hf__sql_run(conn, read, &args, &rows, deadline, err);
    if (status == HF_OK && rows.count > 0) {
        seen->found = true;
        seen->processed = hf__cell(&rows, 0, 0)->type != HF__NULL;
        (void)hf__value_time(hf__cell(&rows, 0, 1), &seen->token_us);
        (void)hf__value_int(hf__cell(&rows, 0, 2), &seen->stored);
        int64_t dead;
        seen->dead = hf__value_int(hf__cell(&rows, 0, 3), &dead) && dead == 1;
    }
    hf__rows_free(&rows);
    return status;
}
