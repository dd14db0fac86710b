/* The three ways to hold a row, behind one table of methods; and the plan: everything a subscription knows of its table on its
 * database (the facts of the catalogue, the rendered statements, the clock). A strategy is one file and one row in hf__strategy_of(). */
#ifndef HF_STRATEGIES_STRATEGY_H
#define HF_STRATEGIES_STRATEGY_H

#include "pool/ledger.h"
#include "strategies/clock.h"
#include "strategies/findings.h"
#include "strategies/table.h"

struct hf__plan;

/* One claimed row. Owns its memory: hf__row_free. */
struct hf__row {
    struct hf__value id;
    char *id_text;          /* for people; bytes in hexadecimal */
    int64_t attempt;        /* the number of this delivery; 0: the table counts none */
    int64_t token_us;       /* lease: the expiry that this delivery holds */
    int64_t other_token_us; /* lease: a renewal was sent with this expiry and its answer never came; 0: none */
    struct hf__value payload, headers, group, partition;
    char *key;                 /* advisory lock: the rendered key */
    struct hf__value order[2]; /* priority and retry_after as read, for the claim order */
    bool is_dead;              /* it stands in the dead letters' group, which the subscription names */
    void *memory;
};
void hf__row_free(struct hf__row *row); /* NULL is allowed */

enum hf__action {
    HF__ACK,
    HF__RETRY,
    HF__RETRY_AFTER, /* delay_us counts from the settle */
    HF__REJECT,
    HF__GIVE_BACK, /* dropped unsettled, or back at the drain limit: free at once; an attempt that was counted stays counted */
    HF__UNBEGUN    /* its handler never began: free at once, and the count goes back */
};

/* One row's outcome on its way to the database, and the answer for that row. */
struct hf__change {
    struct hf__row *row;
    enum hf__action action;
    int64_t delay_us;
    const char *reason; /* may be NULL; any bytes: cleaned and cut to the column */
    size_t reason_len;
    bool uncertain;   /* in: an earlier try may have taken effect (its answer never came) */
    bool dead;        /* out, with HF_OK: the row went to the dead letter */
    hf_status status; /* out: HF_OK done; HF_LEASE_LOST, HF_LOST not ours any more, nothing changed; HF_UNKNOWN: ask resolve;
                         HF_TRANSIENT: not done, may be tried again while it is held; HF_DATABASE: this row's change was refused */
};

/* What a claim asks for, and what it says beside its rows. */
struct hf__claim {
    size_t limit;
    const struct hf__value *busy; /* partition keys that are in work in this process: rows of them are left out */
    size_t n_busy;                /* at most HF__BUSY_MOST */
    bool *contended;              /* may be NULL; out: set where a FIFO head was there and could not be had at that moment */
    size_t buried;                /* out: rows that had used up max_attempts and went to the dead letter unrun */
    hf_error *refused;            /* may be NULL; out: why such a row could not go there (it comes again later); else untouched */
};
#define HF__BUSY_MOST ((size_t)1024)

struct hf__strategy {
    size_t size;
    enum hf__strategy_kind kind;
    enum hf__purpose holds; /* the purpose of a connection while it holds a row (meaningless where the cost is 0) */

    /* Claims up to ask->limit due rows in claim order; rows[0..*n) are owned by the caller. *n = 0 with HF_OK: nothing is due (or all
     * of it is held). Of a FIFO group the head alone, and nothing while a row of it is in work. A row past max_attempts goes to the
     * dead letter instead.
     * Row lock: the transaction stays open on conn when *n > 0, and is ended when 0. Lease: committed on return.
     * Advisory: at most one row; its key is locked on conn's session (SQLite: in the process), no transaction is open.
     * An error never leaves anything claimed on the connection (what cannot be undone sets conn->retire, or ends with the lease),
     * and is never "no rows". HF_TRANSIENT: try again after a backoff. */
    hf_status (*claim)(struct hf__plan *plan, struct hf__conn *conn, struct hf__claim *ask, struct hf__deadline deadline,
                       struct hf__row **rows, size_t *n, hf_error *err);

    /* Applies the outcomes. A reject, and a retry of a row that has used up max_attempts, go to the dead letter where there is one. Each
     * change gets its own status. Returns HF_OK when every change has a final answer (even if some are HF_LEASE_LOST), else the first
     * failure, with err. Row lock: commits (all of the rows that one claim took, together). Advisory (one row): settles, then unlocks; an
     * unlock that is not confirmed sets conn->retire. Lease: any rows of the plan, many in one statement and one commit; one bad row never
     * fails its neighbours. On HF_LOST and HF_TIMEOUT of the connection itself changes whose effect is not known read HF_UNKNOWN. Tries
     * transient failures again by itself where the row is surely still held (within the deadline). */
    hf_status (*settle)(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *changes, size_t n, struct hf__deadline deadline,
                        hf_error *err);

    /* Lease only, else NULL: moves the token of each row forward. statuses[i]: HF_OK (row->token_us is the new one), HF_LEASE_LOST,
     * HF_BUSY (someone has the row locked: passed over, comes again), HF_UNKNOWN (answer lost: row->other_token_us is set). */
    hf_status (*renew)(struct hf__plan *plan, struct hf__conn *conn, struct hf__row **rows, size_t n, hf_status *statuses,
                       struct hf__deadline deadline, hf_error *err);

    /* After a settle whose answer never came (HF_UNKNOWN), on another connection, the old one being closed: reads the row again.
     * Sets change->status to HF_OK (it took effect), HF_LOST / HF_LEASE_LOST (it did not, and the row is not ours), HF_TRANSIENT
     * (lease: it did not, and the row is still ours: settle again), or HF_UNKNOWN (it cannot tell). */
    hf_status (*resolve)(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, struct hf__deadline deadline,
                         hf_error *err);

    /* Advisory only, else NULL: lets go of the key in the process when the row is dropped without a settle, because its connection is
     * lost. Exactly one of settle and forget is called for each claimed row. */
    void (*forget)(struct hf__plan *plan, struct hf__row *row);
};
const struct hf__strategy *hf__strategy_of(enum hf__strategy_kind kind);

struct hf__plan_options {
    const char *const *groups; /* the groups to read; n_groups 0: all */
    size_t n_groups;
    struct hf__clock *clock;       /* borrowed; outlives the plan */
    struct hf__findings *findings; /* receives what hf__inspect found, for the log; may be NULL */
};

/* Reads the catalogue, refuses what spec.md refuses (the first fault, see hf__inspect), renders the statements. Blocks. */
HF_CHECKED hf_status hf__plan_open(struct hf__conn *conn, const struct hf_table *table, const struct hf__plan_options *options,
                                   struct hf__deadline deadline, struct hf__plan **out, hf_error *err);
void hf__plan_close(struct hf__plan *plan);
const struct hf_table *hf__plan_table(const struct hf__plan *plan);
const struct hf__strategy *hf__plan_strategy(const struct hf__plan *plan);
const struct hf__server *hf__plan_server(const struct hf__plan *plan);
struct hf__clock *hf__plan_clock(const struct hf__plan *plan);

/* Refused already when a subscription is made, before anything is connected: a strategy that the database never offers (row lock on
 * SQLite), a mode or level that it does not have. HF_UNSUPPORTED or HF_INVALID, with the reason and the ways out. */
HF_CHECKED hf_status hf__table_fits(const struct hf_table *table, enum hf__database database, hf_error *err);

/* Every fault of server, table and indexes, and what is worth saying. */
HF_CHECKED hf_status hf__inspect(struct hf__conn *conn, const struct hf_table *table, struct hf__deadline deadline,
                                 struct hf__findings *findings, hf_error *err);

/* ---- transactional mode (strategies/transaction.c) ---- */
/* Opens the delivery's own transaction for its handler. Row lock: a savepoint in the claim's transaction. Lease and advisory lock: a
 * transaction on conn (advisory: the connection that holds the key), at the description's isolation or mode. */
HF_CHECKED hf_status hf__transaction_open(struct hf__plan *plan, struct hf__conn *conn, const struct hf__row *row,
                                          struct hf__deadline deadline, hf_error *err);
/* Does it lock a lease's row? At repeatable_read and serializable, where the ack, by the handler's snapshot, would take a row that was
 * renewed meanwhile for somebody else's. Nobody can renew it then, nor claim it, as long as the transaction lives. */
bool hf__transaction_locks_row(const struct hf__plan *plan);
/* Takes back what the handler wrote; the row is held as before, and may be settled as without the mode. HF_LOST: the savepoint is gone
 * (a deadlock, DDL, a COMMIT of the handler's): nothing may be settled, and conn->retire is set. */
HF_CHECKED hf_status hf__transaction_undo(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
/* Then, of a lease: ends it on the same connection, so that the row need not wait until it runs out. Nobody renews it meanwhile. */
HF_CHECKED hf_status hf__transaction_free(struct hf__plan *plan, struct hf__conn *conn, struct hf__row *row, struct hf__deadline deadline);
/* Ack: commits the handler's writes and the settle together, or neither. The change's status as of settle; HF_LEASE_LOST and HF_LOST have
 * rolled all back. Advisory: unlocks after it. An error with *undone set (HF_DATABASE: the handler left its transaction failed; lease and
 * advisory also HF_TRANSIENT and what the database refused, lease HF_LOST of the connection): all was undone as by
 * hf__transaction_undo, and the row is still held: to be settled as a retry_after. */
HF_CHECKED hf_status hf__transaction_ack(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change, bool *undone,
                                         struct hf__deadline deadline, hf_error *err);
/* After an ack whose answer never came (HF_UNKNOWN): as the strategy's resolve. HF_TRANSIENT (lease): it did not take effect, for certain,
 * and the row is still ours: to be settled as a retry_after. */
HF_CHECKED hf_status hf__transaction_resolve(struct hf__plan *plan, struct hf__conn *conn, struct hf__change *change,
                                             struct hf__deadline deadline, hf_error *err);

/* Counts, for tools. -1: cannot be known from outside. */
struct hf__counts {
    int64_t due, delayed, in_work, processed, dead;
    double oldest_due_seconds;
};
HF_CHECKED hf_status hf__plan_count(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, struct hf__counts *out,
                                    hf_error *err);
/* The same for each group that has rows, in the order of the groups; group NULL: rows without one. Without the group role: one entry. */
struct hf__group_counts {
    char *group;
    struct hf__counts counts;
};
HF_CHECKED hf_status hf__plan_count_groups(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline,
                                           struct hf__group_counts **out, size_t *n, hf_error *err);
void hf__group_counts_free(struct hf__group_counts *counts, size_t n);

/* Moves dead letters back: attempt 1, due now, no lease. All that are given must match; what is NULL or 0 does not matter. Commits in
 * pieces of a few hundred rows; *moved tells how many are back, also on an error. A dead-letter group does not keep the old group:
 * to_group is needed there (HF_INVALID without), and group is HF_INVALID. An id that is no dead letter: HF_INVALID, naming it. */
struct hf__requeue {
    const char *const *ids;
    size_t n_ids;
    const char *group;    /* of a dead-letter table: only rows of this group */
    const char *to_group; /* NULL: the group that the row has */
};
HF_CHECKED hf_status hf__plan_requeue(struct hf__plan *plan, struct hf__conn *conn, const struct hf__requeue *what,
                                      struct hf__deadline deadline, size_t *moved, hf_error *err);

/* A plain read: is any row of the subscription unfinished and due, or under a lease? */
HF_CHECKED hf_status hf__plan_pending(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, bool *pending,
                                      hf_error *err);

/* Advisory lock: how many due rows render no key, and the id of one (malloc'd, NULL if there is none). They are never run, because a
 * lock on nothing would exclude nothing; they must be reported. At most 1,000 are counted. Other strategies: 0. */
/* With a dead letter they go there instead; *moved of them, also on an error. */
HF_CHECKED hf_status hf__plan_bury_keyless(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, size_t *moved,
                                           hf_error *err);
HF_CHECKED hf_status hf__plan_keyless(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, size_t *count,
                                      char **example, hf_error *err);

/* An id for people, malloc'd: bytes in hexadecimal. NULL when memory is out. */
char *hf__id_text(const struct hf__value *id);

/* ---- enqueue (strategies/insert.c) ---- */
struct hf__field {
    const char *column;
    struct hf__value value; /* TEXT, BYTES or NULL */
};
struct hf__job {
    const struct hf__value *payload;             /* NULL: the column's default */
    int64_t delay_us;                            /* 0: the column's default */
    int64_t due_us;                              /* instead of a delay: due at this time; 0: none */
    const char *group, *headers, *partition_key; /* NULL: the column's default */
    const int64_t *priority;                     /* NULL: the column's default */
    const struct hf__field *fields;
    size_t n_fields;
};
/* Inserts all or none. On a borrowed connection, or with a transaction open, it takes part in that transaction (all or none by a
 * savepoint) and commits nothing; otherwise it commits. ids (n of them, malloc'd each, to be freed by the caller) may be NULL. now_us: what
 * delays count from; 0: the host's wall clock. */
HF_CHECKED hf_status hf__insert_jobs(struct hf__conn *conn, const struct hf_table *table, const struct hf__job *jobs, size_t n,
                                     int64_t now_us, char **ids, struct hf__deadline deadline, hf_error *err);

/* ---- ddl (strategies/ddl.c) ---- */
/* The statements for this table, one C string each; *out is a malloc'd array of *n malloc'd strings. */
HF_CHECKED hf_status hf__ddl(const struct hf_table *table, enum hf__database database, char ***out, size_t *n, hf_error *err);

#endif
