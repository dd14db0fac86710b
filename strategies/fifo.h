/* FIFO: of a group one row at a time, in claim order. A claim takes heads: of many groups the first unfinished row each, if it is due and
 * nothing of its group is in work. What keeps two claims from one group is its guard (spec.md, section 5):
 *
 *   PostgreSQL       a transaction's advisory lock on table and group, tried before the head is read
 *   MySQL, row lock  a locking read of the group's unfinished rows, before the head is read: a row in work is locked, wherever it stands
 *   MySQL, lease     a locking read of the group's leases, after the head's own was written: of two claims one at least sees the other's
 *   SQLite           none: there is one writer
 *
 * Rows without a group belong to none and are claimed as of any other table. */
#ifndef HF_STRATEGIES_FIFO_H
#define HF_STRATEGIES_FIFO_H

#include "strategies/plan.h"

/* How the strategy holds what it takes. */
struct hf__fifo_hold {
    enum hf__isolation level;
    enum hf__sqlite_mode mode;
    bool stays;        /* row lock: the transaction stays open with the rows, and with their guards */
    int64_t now_us;    /* lease: the claim reads now once, */
    int64_t expiry_us; /* and writes this */
};

/* Claims up to ask->limit heads; as a strategy's claim. */
HF_CHECKED hf_status hf__fifo_heads(struct hf__plan *plan, struct hf__conn *conn, const struct hf__fifo_hold *hold,
                                    const struct hf__claim *ask, struct hf__deadline deadline, struct hf__row **rows, size_t *n,
                                    hf_error *err);

/* Heads and rows without a group take turns in who is asked first. The second fills what is left, unless the rows stay in an open
 * transaction, of which there is one. */
typedef hf_status hf__claim_fn(struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask, struct hf__deadline deadline,
                               struct hf__row **rows, size_t *n, hf_error *err);
HF_CHECKED hf_status hf__fifo_in_turn(struct hf__plan *plan, struct hf__conn *conn, hf__claim_fn *heads, hf__claim_fn *loose,
                                      const struct hf__claim *ask, struct hf__deadline deadline, struct hf__row **rows, size_t *n,
                                      hf_error *err);

/* What a plan on a FIFO table remembers between claims. */
HF_CHECKED hf_status hf__fifo_open(struct hf__plan *plan, hf_error *err);
void hf__fifo_close(struct hf__fifo *fifo); /* NULL is allowed */

/* ---- for the dialects ---- */
/* A group, as a statement names it. */
typedef void hf__put_group_fn(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_bound_group(struct hf__sql *sql, const struct hf__plan *plan);
/* A SELECT of the first unfinished row of this group in claim order: its id alone, or with the columns that order it. */
void hf__put_head(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group, bool with_order);
/* " AND NOT EXISTS (any row of this group that has a lease, over or not)", on a lease table. */
void hf__put_none_leased(struct hf__sql *sql, const struct hf__plan *plan, hf__put_group_fn *group);
/* " AND " the row itself has no lease: it may have got one since the look at its group, and that look is not repeated when it is locked. */
void hf__put_free_head(struct hf__sql *sql, const struct hf__plan *plan);
/* " WHERE " the row is the head of the group that is bound, and may be taken. */
void hf__put_takeable_head(struct hf__sql *sql, const struct hf__plan *plan);

HF_CHECKED hf_status hf__render_fifo(struct hf__plan *plan, hf_error *err);

#endif
