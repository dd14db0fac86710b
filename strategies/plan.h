/* Inside strategies/: the plan's members, and the clauses that all statements are composed of. */
#ifndef HF_STRATEGIES_PLAN_H
#define HF_STRATEGIES_PLAN_H

#include <stdatomic.h>

#include "strategies/dialect.h"
#include "strategies/keys.h"
#include "strategies/strategy.h"

struct hf__fifo;

/* Lists of ids come in powers of two, filled up by repeating the last one: few statements serve every length. */
#define HF__LISTS 9
#define HF__LIST_MAX ((size_t)1 << (HF__LISTS - 1))
size_t hf__list_for(size_t n); /* the smallest list that holds n, n <= HF__LIST_MAX */

/* A claim on a table with partition keys comes in variants that leave out those in work: for lists of up to so many lengths. */
#define HF__BUSY_LISTS 4

/* To the dead letter: one statement, or where that takes two the copy and the removal. */
struct hf__move {
    struct hf__rendered bury, leave;
};

struct hf__statements {
    struct hf__rendered claim; /* row lock and lease */
    struct hf__rendered claim_busy[HF__BUSY_LISTS];
    struct hf__rendered first, first_busy[HF__BUSY_LISTS]; /* a row lock's, tried before claim: of a page, see put_first_claim */
    struct hf__rendered candidates[HF__LISTS + 1]; /* advisory: [0] nothing excluded, [k + 1] a list of 2^k keys */
    struct hf__rendered candidates_busy[HF__BUSY_LISTS * (HF__LISTS + 1)];
    struct hf__rendered take, taken; /* advisory: count the attempt; read the row */
    struct hf__rendered try_lock, unlock;
    struct hf__rendered keyless;
    struct hf__rendered ack, reject, retry, retry_after, give_back, unbegun; /* one row each */
    struct hf__rendered read;                                                /* one row: what is believed of it */
    struct hf__rendered read_free;                                           /* the same, if nobody has it locked; not advisory, SQLite */
    struct hf__move dead, dead_keyless;                                      /* one row that is held; one that renders no advisory key */
    struct hf__rendered aside;                /* one row whose outcome was refused: due later. Not of a lease, which holds it still */
    struct hf__rendered renew;                /* one row */
    struct hf__rendered ack_set, renew_set;   /* PostgreSQL */
    struct hf__rendered lock_list[HF__LISTS]; /* locking reads that pass over rows which someone has locked */
    struct hf__rendered ack_list[HF__LISTS], lease_list[HF__LISTS], renew_list[HF__LISTS];
    struct hf__rendered heads, guard, clear, take_head; /* FIFO: candidates; of one group, or of many at once */
    struct hf__rendered take_head_busy[HF__BUSY_LISTS], pending_heads;
    struct hf__rendered pending;
};

struct hf__plan {
    struct hf_table *table;
    const struct hf__strategy *strategy;
    const struct hf__dialect *dialect;
    struct hf__server server;
    struct hf__clock *clock;
    struct hf__relation relation;
    struct hf__relation dead; /* the dead letters' table, if they go to one */
    const struct hf__column *role[HF__ROLES];
    char **group_names;
    struct hf__value *groups, *literals; /* groups borrow their names */
    size_t n_groups, n_literals;
    int64_t token_unit_us, due_unit_us; /* the precision of locked_until and retry_after */
    int64_t stored_max;                 /* the largest number that the attempt column holds */
    _Atomic int64_t last_token_us;      /* lease without attempts: the latest expiry that this process gave */
    struct hf__keys *keys;              /* advisory: the keys that this process holds */
    _Atomic int64_t sweep_ns;           /* row lock: until then rows past max_attempts are passed over; 0: they are not */
    struct hf__fifo *fifo;              /* FIFO: what is remembered between claims */
    struct hf__statements sql;
};

#define HF__HAS(plan, role) ((plan)->table->column[HF__ROLE_##role] != NULL)
#define HF__COLUMN(plan, role) ((plan)->table->column[HF__ROLE_##role])

/* The table, quoted; its own rows alone, where other tables may inherit from it (PostgreSQL). */
void hf__put_table(struct hf__sql *sql, const struct hf__plan *plan);
/* " WHERE " the first time, " AND " after it. */
void hf__put_and(struct hf__sql *sql, bool *any);
/* The conditions that make a row claimable now: unfinished, of our groups, due, its lease ended, its key rendering, its partition key
 * not in work (where sql->busy says so). */
void hf__put_claimable(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
/* Those that it lacks nothing of but a key (advisory lock). */
void hf__put_keyless(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
void hf__put_unfinished(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
void hf__put_groups(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
/* The same; on a FIFO table rows without a group, because those with one are claimed by their heads (fifo.h). */
void hf__put_claimed_groups(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
void hf__put_due(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
/* And it is a time at all, where the column's type does not say so: of other shapes some compare as long past. */
void hf__put_is_time(struct hf__sql *sql, const struct hf__plan *plan, enum hf__role role);
void hf__put_unleased(struct hf__sql *sql, const struct hf__plan *plan, bool *any); /* no lease, or one that has ended */
/* The time of every comparison, by the clock that the description names; and that of a row that is put back with a delay. */
void hf__put_now(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_later(struct hf__sql *sql, const struct hf__plan *plan);
/* 1 for a row that stands in the dead letters' group, else 0; NULL where that cannot be. */
void hf__put_is_dead(struct hf__sql *sql, const struct hf__plan *plan);
/* " WHERE " the row is what we believe it to be: id, token, attempt. */
void hf__put_believed(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_order(struct hf__sql *sql, const struct hf__plan *plan); /* " ORDER BY ..." */
/* The columns of a claimed row, in the order that hf__row_read expects. */
void hf__put_columns(struct hf__sql *sql, const struct hf__plan *plan);
/* The attempt as it counts: NULL and anything below 1 are 1. And one more, never past what the column holds. */
void hf__put_attempt(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_counted(struct hf__sql *sql, const struct hf__plan *plan);
/* The key as text, and as bytes that compare. */
void hf__put_key(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_key_bytes(struct hf__sql *sql, const struct hf__plan *plan);
/* ", column = value" and so on; the first without the comma. */
void hf__put_set(struct hf__sql *sql, bool *any, const char *column);
/* What a claim writes into a lease's row: the expiry and the count. */
void hf__put_lease(struct hf__sql *sql, const struct hf__plan *plan);
void hf__put_ack_set(struct hf__sql *sql, const struct hf__plan *plan); /* " SET processed_at = ..." */
/* What an ack does to a row, up to its WHERE: DELETE FROM .. or UPDATE .. SET .. ; alias may be NULL. */
void hf__put_ack(struct hf__sql *sql, const struct hf__plan *plan, const char *alias);

/* ---- partition keys in work (busy.c) ---- */
/* How many keys the variant for the list has room for (one array counts as 1); 0: there is no such variant. */
size_t hf__busy_room(const struct hf__plan *plan, size_t list);
/* " AND (the row has no partition key OR its key is none of those)", if sql->busy. */
void hf__put_free_keys(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
/* " AND (it is not one of those past max_attempts that are passed over now)", where that can be (dead_letter.c). */
void hf__put_passed_over(struct hf__sql *sql, const struct hf__plan *plan, bool *any);
/* The statement for what is asked: the plain one, or one of the variants, which are step apart. */
const struct hf__rendered *hf__busy_variant(const struct hf__plan *plan, const struct hf__claim *ask, const struct hf__rendered *plain,
                                            const struct hf__rendered *variants, size_t step);
/* Runs the variant, with the keys added to the arguments. */
HF_CHECKED hf_status hf__run_claim(const struct hf__plan *plan, struct hf__conn *conn, const struct hf__claim *ask,
                                   const struct hf__rendered *variant, struct hf__args *args, struct hf__rows *rows,
                                   struct hf__deadline deadline, hf_error *err);

HF_CHECKED hf_status hf__render_all(struct hf__plan *plan, hf_error *err);
void hf__statements_free(struct hf__statements *statements);

/* The values that every statement of the plan may ask for: groups, literals, now. */
void hf__plan_args(const struct hf__plan *plan, struct hf__args *args, int64_t now_us);
/* Adds when a row that is put back now is due again, by either clock. */
void hf__args_delay(const struct hf__plan *plan, struct hf__args *args, int64_t now_us, int64_t delay_us);
/* Adds what a row is believed to be: id, token, attempt. */
void hf__args_row(const struct hf__plan *plan, struct hf__args *args, const struct hf__row *row);
int64_t hf__stored_attempt(const struct hf__plan *plan, const struct hf__row *row);

/* A claimed row from the answer of a claim. attempt: how far the column read is ahead of the delivery (0 or 1). */
#define HF__ROW_COLUMNS 10
struct hf__row *hf__row_read(const struct hf__plan *plan, const struct hf__rows *rows, size_t r, int64_t ahead);
/* Reads all of them; on failure frees those that were made. */
HF_CHECKED hf_status hf__rows_read(const struct hf__plan *plan, const struct hf__rows *rows, int64_t ahead, struct hf__row **out,
                                   hf_error *err);
/* Puts rows in claim order. */
void hf__rows_sort(struct hf__row **rows, size_t n);

/* Up to the unit, never down: a lease is never shorter, and a row never due earlier, than was asked. */
int64_t hf__round_up(int64_t us, int64_t unit_us);
/* What to add to the database's own now, for a column of this precision. */
int64_t hf__database_delay_us(const struct hf__server *server, int64_t delay_us, int64_t unit_us);
/* The precision of a column that holds times. NULL: 1. */
int64_t hf__time_unit_us(const struct hf__column *column);

/* Runs one row's change and says whether it matched: HF_OK, or gone (what the strategy calls a row that is not ours). */
HF_CHECKED hf_status hf__change_one(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, hf_status gone,
                                    struct hf__deadline deadline, hf_error *err);
/* Sleeps a little longer each time (try 0, 1, ..), with jitter. False if the deadline would pass, without sleeping. */
bool hf__backoff(unsigned attempt, struct hf__deadline deadline);

/* Advisory lock: unlocks the key on its session, and lets go of it in the process. A session that does not confirm it is retired. */
void hf__advisory_unlock(struct hf__plan *plan, struct hf__conn *conn, const char *key, struct hf__deadline deadline);

/* What the row says now, on any connection. */
struct hf__seen {
    bool found, processed;
    bool dead;        /* in the dead letters' group */
    int64_t token_us; /* 0: no lease */
    int64_t stored;   /* the attempt as it counts; 0 without the column */
};
HF_CHECKED hf_status hf__read_row_with(struct hf__plan *plan, struct hf__conn *conn, const struct hf__rendered *read,
                                       const struct hf__row *row, struct hf__deadline deadline, struct hf__seen *seen, hf_error *err);
HF_CHECKED hf_status hf__read_row(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__deadline deadline,
                                  struct hf__seen *seen, hf_error *err);
/* The same when nobody has the row locked (row_lock.c): while an old transaction lives, its commit may still take effect. *told: seen is
 * what the row has become, or that it is gone. */
HF_CHECKED hf_status hf__look_free(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row, struct hf__seen *seen,
                                   bool *told, struct hf__deadline deadline, hf_error *err);
/* Writes the lease into rows that this transaction has locked, n <= HF__LIST_MAX (lease.c). */
HF_CHECKED hf_status hf__lease_rows(struct hf__plan *plan, struct hf__conn *conn, struct hf__args *args, const struct hf__value *ids,
                                    size_t n, struct hf__deadline deadline, hf_error *err);
/* Does the row still hold the lease that we believe in, under either token? (lease.c) */
bool hf__lease_still_ours(const struct hf__plan *plan, const struct hf__row *row, const struct hf__seen *seen);

#endif
