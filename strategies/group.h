/* Many leased rows changed together, each with its own answer: the two changes that come in groups are the ack and the renewal.
 * In the shape that the database has: one statement that returns what it matched; a locking read and a change by a list of ids;
 * or row by row. */
#ifndef HF_STRATEGIES_GROUP_H
#define HF_STRATEGIES_GROUP_H

#include "strategies/plan.h"

enum hf__group_change { HF__GROUP_ACK, HF__GROUP_RENEW };

/* Applies the change to rows[0..n), n <= HF__LIST_MAX, which are sorted by id. matched[i] tells whether the row was still what we
 * believe it to be, and is changed now; a row that someone has locked is passed over, and reads as not matched. Runs inside the transaction
 * that is open on conn, or (PostgreSQL, where it is one statement) without one. */
HF_CHECKED hf_status hf__group_apply(struct hf__plan *plan, struct hf__conn *conn, enum hf__group_change what, struct hf__row *const *rows,
                                     size_t n, int64_t expiry_us, bool *matched, struct hf__deadline deadline, hf_error *err);
/* Is the whole group one statement here, which needs no transaction around it? */
bool hf__group_is_one_statement(const struct hf__plan *plan);

#endif
