/* Dead letters: which outcomes are a move there, and the move. To a group it is one UPDATE. To a table it is one statement where the
 * database can delete and insert in one (PostgreSQL), else a copy and a removal, which need a transaction around them; the row is in
 * exactly one place at every moment. */
#ifndef HF_STRATEGIES_DEAD_LETTER_H
#define HF_STRATEGIES_DEAD_LETTER_H

#include "strategies/plan.h"

/* A reject, or a retry of a row that has used up max_attempts, of a row that is no dead letter yet. */
bool hf__goes_dead(const struct hf__plan *plan, const struct hf__change *change);
/* Does this change delete the row, or mark it processed, where it stands? */
bool hf__is_ack(const struct hf__plan *plan, const struct hf__change *change);
/* A claimed row that is past max_attempts: its last run ended without an outcome. It is not to run again. */
bool hf__used_up(const struct hf__plan *plan, const struct hf__row *row);
/* The change that moves such a row; say is memory for its reason. */
#define HF__USED_UP_TEXT 128
struct hf__change hf__used_up_change(const struct hf__plan *plan, struct hf__row *row, char say[HF__USED_UP_TEXT]);

/* Must this change run in a transaction, to be all or nothing? */
bool hf__move_needs_transaction(const struct hf__plan *plan, const struct hf__change *change);

/* Runs the move with the values that name the row (the reason is added here). HF_OK, or gone for a row that is not ours, or an error: then
 * the transaction, or a savepoint in it, must be undone where hf__move_needs_transaction says so. */
HF_CHECKED hf_status hf__bury(struct hf__plan *plan, struct hf__conn *conn, const struct hf__change *change, struct hf__args *args,
                              hf_status gone, struct hf__deadline deadline, hf_error *err);

/* Takes the rows that are past max_attempts out of a claim whose leases are committed and moves them, by `settle`. The other rows stay,
 * *n of them. HF_OK, or the first failure. */
typedef hf_status hf__settle_fn(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n,
                                struct hf__deadline deadline, hf_error *err);
HF_CHECKED hf_status hf__bury_used_up(struct hf__plan *plan, struct hf__conn *conn, hf__settle_fn *settle, struct hf__claim *ask,
                                      struct hf__row **rows, size_t *n, struct hf__deadline deadline, hf_error *err);
/* A row lock without retry_after cannot put a row that the dead letter refuses out of the way. There claims pass over all rows that are past
 * max_attempts, for a while; then they are tried again, many together. */
bool hf__passes_over(const struct hf__plan *plan);
void hf__pass_over(struct hf__plan *plan);      /* from now on */
bool hf__takes_sweep(struct hf__plan *plan);    /* is it time to try them again? Then they are passed over no longer */
int64_t hf__most_attempts(const struct hf__plan *plan); /* that a row may have now to be claimed */
/* Notes for the claim's caller why a row could not be moved. */
void hf__note_refused(struct hf__claim *ask, const hf_error *err);

/* Gives a row that cannot be moved a later place, so that it does not stand in the way of others. */
HF_CHECKED hf_status hf__set_aside(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                                   hf_error *err);

/* " (columns) SELECT ", of an INSERT that copies a row from one of the two tables to the other: all columns that can be written. */
void hf__put_copied(struct hf__sql *sql, const struct hf__plan *plan);
HF_CHECKED hf_status hf__render_dead_letter(struct hf__plan *plan, hf_error *err);

#endif
