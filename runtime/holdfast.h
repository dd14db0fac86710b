/* holdfast: runs jobs that are kept in a table of your own PostgreSQL, MySQL, MariaDB or SQLite database, on a pool of
 * threads, and accounts for every database connection that this costs.
 *
 * Conventions. Every call returns an hf_status unless it cannot fail; a caller who wants words passes an hf_error (NULL is
 * allowed). Strings that the library keeps are copied. Structs that may grow start with `size`: start them with their _INIT
 * macro. Opaque types are freed by the call that their comment names. Times are microseconds since 1970 UTC (_us), spans are
 * in the unit of their name; every wait runs on the monotonic clock. The library never prints, exits or installs signal
 * handlers; it tells what happens through the log callback. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast_status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
HF_API const char *hf_version(void); /* of the library that runs: "0.1.0" */

typedef struct hf_table hf_table;               /* a table description */
typedef struct hf_runtime hf_runtime;           /* a database, its connection pool and the subscriptions that read from it */
typedef struct hf_subscription hf_subscription; /* a table being worked on by some workers */
typedef struct hf_delivery hf_delivery;         /* one claimed row on its way through a handler */
typedef struct hf_stats hf_stats;               /* a snapshot of counters */
typedef struct hf_findings hf_findings;         /* what a check found */

/* ---- the table description ------------------------------------------------------------------------------------------- */

typedef enum hf_strategy { HF_ROW_LOCK, HF_LEASE, HF_ADVISORY_LOCK } hf_strategy;

/* Parses a table description (JSON, section "The table description" of the README). Unknown keys, wrong types and
 * contradictions are HF_INVALID with a message that names the table, the key and the way out.
 * Returns an owned table: hf_table_free. Never blocks. Any thread; a table is immutable and may be shared by threads. */
HF_API HF_CHECKED hf_status hf_table_parse(const char *json, size_t len, hf_table **out, hf_error *err);
/* The same from a file, which it blocks for. HF_SYSTEM if it cannot be read. */
HF_API HF_CHECKED hf_status hf_table_load(const char *path, hf_table **out, hf_error *err);
HF_API void hf_table_free(hf_table *table); /* NULL is allowed. Subscriptions keep a copy of their own. */
HF_API hf_strategy hf_table_strategy(const hf_table *table);
HF_API const char *hf_table_name(const hf_table *table);   /* as described, without the schema; lives as long as the table */
HF_API const char *hf_strategy_name(hf_strategy strategy); /* "row_lock", "lease", "advisory" */

/* ---- the runtime ----------------------------------------------------------------------------------------------------- */

typedef enum hf_log_level { HF_LOG_ERROR, HF_LOG_WARNING, HF_LOG_INFO } hf_log_level;

/* Called from the library's threads and from callers' threads, without any lock held; must not call into the runtime. The message
 * lives until it returns. */
typedef void (*hf_log_fn)(void *ctx, hf_log_level level, const char *message);

typedef struct hf_runtime_options {
    size_t size;
    /* 0: the sum of what the subscriptions need (the cost model). Without a subscription that is 1, and before hf_runtime_start it is 4:
     * set it where several threads only enqueue. */
    size_t pool_size;
    int64_t connect_timeout_ms;   /* 0: 5,000 */
    int64_t statement_timeout_ms; /* the limit of every database call; 0: 10,000 */
    int64_t max_lifetime_ms;      /* of a connection; 0: 30 minutes */
    int64_t keepalive_ms;         /* ping of pinned connections; 0: 10,000. They are looked at every tenth of it. */
    const char *application_name; /* NULL: "holdfast" */
    hf_log_fn log;                /* NULL: silent */
    void *log_ctx;
    void (*thread_start)(void *ctx); /* in every thread of the library, first and last thing; may be NULL */
    void (*thread_stop)(void *ctx);
    void *thread_ctx;
} hf_runtime_options;
#define HF_RUNTIME_OPTIONS_INIT                                                       \
    {                                                                                 \
        sizeof(hf_runtime_options), 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL \
    }

/* Opens a runtime on a database URL. Parses the URL; connects to nothing yet (hf_runtime_start, hf_enqueue and hf_check do).
 * options may be NULL. Returns an owned runtime: hf_runtime_close. Errors: HF_INVALID, HF_UNSUPPORTED (a database that this
 * build lacks). */
HF_API HF_CHECKED hf_status hf_runtime_open(const char *url, const hf_runtime_options *options, hf_runtime **out, hf_error *err);

typedef enum hf_outcome {
    HF_ACK,         /* done: the row is deleted, or marked in processed_at */
    HF_RETRY,       /* again, at once */
    HF_RETRY_AFTER, /* again, after hf_delivery_set_delay (or the subscription's backoff) counted from the settle */
    HF_REJECT,      /* never again: to the dead letter, or without one as ack; the reason goes to last_error where a row stays */
    HF_DEFER        /* settled later with hf_delivery_settle, from any thread; the worker waits for that */
} hf_outcome;

/* Runs one delivery; blocks as long as it likes. The delivery is valid until it returns (after HF_DEFER: until it is settled).
 * Called from the subscription's worker threads, several at once. */
typedef hf_outcome (*hf_handler)(hf_delivery *delivery, void *ctx);
/* Runs up to `batch` deliveries of one claim, in claim order, and sets an outcome on each (hf_delivery_set_outcome); one that is left
 * without counts as HF_RETRY_AFTER. The deliveries are valid until it returns, and settled together after it. */
typedef void (*hf_batch_handler)(hf_delivery *const *deliveries, size_t n, void *ctx);

typedef struct hf_subscription_options {
    size_t size;
    size_t workers;  /* threads, and so deliveries in work at once; 0: 4 */
    int64_t poll_ms; /* how long an idle subscription sleeps, plus or minus a quarter at random; 0: 1,000 */
    size_t prefetch; /* lease: rows that may be claimed beyond the free workers. SIZE_MAX: none, 0: a small number; never more than a
                        quarter lease of work */
    const char *const *groups; /* the groups to read; NULL with n_groups 0: all */
    size_t n_groups;
    int64_t handler_timeout_ms; /* flags a handler that runs longer; 0: off */
    bool abandon;               /* and no longer renews its lease */
    int64_t retry_base_ms;      /* HF_RETRY_AFTER without a delay of its own: base * factor^(attempt-1), at most cap, */
    double retry_factor;        /* minus up to half at random; 0: 1,000 ms, 2.0, 300,000 ms */
    int64_t retry_cap_ms;
    size_t batch; /* hf_subscribe_batch: the most rows that a handler gets at once; 0: 16. Row lock: one connection and one transaction
                     for the batch; lease: none; advisory lock: one for each row, as many as are free at once */
    bool transactional;         /* the handler writes through its delivery's own transaction, see hf_postgres_delivery and the like */
    size_t handler_connections; /* how many connections each handler takes with hf_checkout at once: the pool is sized for them */
    /* Called once for each row when it is known what became of it: HF_OK, settled as `outcome` says (a row that was given back, or never
     * began, reads HF_RETRY), or the status that hf_delivery_settle would answer. For metrics: ctx is the handler's; from the thread that
     * settles, without any lock held, before that thread settles more; it must not settle nor stop. May be NULL. */
    void (*on_settled)(hf_delivery *delivery, hf_outcome outcome, hf_status status, void *ctx);
} hf_subscription_options;
#define HF_SUBSCRIPTION_OPTIONS_INIT                                                            \
    {                                                                                           \
        sizeof(hf_subscription_options), 0, 0, 0, NULL, 0, 0, false, 0, 0, 0, 0, false, 0, NULL \
    }

/* Adds a subscription; only before hf_runtime_start (HF_MISUSE after). The runtime owns *out (which may be NULL): a name of the
 * subscription, only to be compared with hf_delivery_subscription. The statistics number subscriptions from 0 in the order of these calls.
 * Errors: HF_INVALID, HF_UNSUPPORTED (a strategy that the database does not offer: the message says why and the ways out). */
HF_API HF_CHECKED hf_status hf_subscribe(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options,
                                         hf_handler handler, void *ctx, hf_subscription **out, hf_error *err);

/* The same for a handler that takes several rows at once. HF_INVALID with `transactional` and a batch above 1. */
HF_API HF_CHECKED hf_status hf_subscribe_batch(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options,
                                               hf_batch_handler handler, void *ctx, hf_subscription **out, hf_error *err);

/* Connects, checks server, tables and cost, then starts the threads and claims. Blocks for the checks (each database call
 * within statement_timeout_ms). On an error nothing runs, and it may be called again. Errors: HF_UNREACHABLE, HF_DENIED,
 * HF_SERVER_TOO_OLD, HF_INVALID (the table lacks a column, ...), HF_UNSUPPORTED, HF_MISUSE (started already). */
HF_API HF_CHECKED hf_status hf_runtime_start(hf_runtime *runtime, hf_error *err);

typedef struct hf_stop_report {
    size_t size;
    size_t settled;    /* deliveries that were in work when the stop began and settled during it */
    size_t given_back; /* rows given back: handlers that had not begun, or that returned after the limit */
    size_t running;    /* handlers that still run; their rows go back when they return */
    size_t failed;     /* settles that failed during the stop: those rows run again */
} hf_stop_report;
#define HF_STOP_REPORT_INIT                \
    {                                      \
        sizeof(hf_stop_report), 0, 0, 0, 0 \
    }

/* Stops, and blocks for that, up to drain_ms (negative: 0) and a moment: nothing is claimed once it has begun; until drain_ms handlers
 * finish and settle; at the limit rows whose handlers have not begun go back and running handlers are flagged. HF_OK: nothing is in work
 * and no connection is open. HF_TIMEOUT: handlers still run (report->running); call it again to wait for them. Any thread but a handler's
 * (HF_MISUSE). report may be NULL.
 *
 * A stop is for good: hf_subscribe and hf_runtime_start then answer HF_MISUSE, and hf_runtime_wait_empty HF_STOPPED. Once the stop has
 * ended with HF_OK every call that needs a connection (hf_enqueue, hf_checkout, hf_count, hf_requeue, hf_check, hf_table_create) answers
 * HF_STOPPED too. Statistics, hf_cost_for and hf_table_ddl still answer. To work again open another runtime. */
HF_API HF_CHECKED hf_status hf_runtime_stop(hf_runtime *runtime, int64_t drain_ms, hf_stop_report *report, hf_error *err);

/* Stops with a limit of 0 if that has not been done, and frees everything. HF_BUSY while a handler still runs, and frees
 * nothing. HF_MISUSE from a handler. NULL is HF_OK. Not checked, so that it can stand in a clean-up path. */
HF_API hf_status hf_runtime_close(hf_runtime *runtime);

/* Waits until no subscription has anything in work and a plain read of the tables finds nothing due and nothing leased (rows that are
 * due later are not waited for, nor those of a FIFO group that stand behind such a row), or
 * until timeout_ms (HF_TIMEOUT; negative: no limit), or until the runtime stops (HF_STOPPED). For tools and tests. */
HF_API HF_CHECKED hf_status hf_runtime_wait_empty(hf_runtime *runtime, int64_t timeout_ms, hf_error *err);

/* ---- deliveries: calls for handlers ---------------------------------------------------------------------------------- */

/* Strings and bytes of a delivery live as long as it does. */
HF_API const char *hf_delivery_id(const hf_delivery *d);            /* as text; bytes of a binary id in hexadecimal */
HF_API bool hf_delivery_id_int(const hf_delivery *d, int64_t *out); /* false if the id is no integer of 64 signed bits */
HF_API int64_t hf_delivery_attempt(const hf_delivery *d);           /* the first delivery reads 1; 0: unknown, the table counts none */
HF_API const void *
hf_delivery_payload(const hf_delivery *d,
                    size_t *len); /* exact bytes, and a NUL behind them; NULL if NULL or no such column; len may be NULL */
HF_API const char *hf_delivery_headers(const hf_delivery *d);       /* NULL if NULL or no such column */
HF_API const char *hf_delivery_group(const hf_delivery *d);         /* likewise */
HF_API const char *hf_delivery_partition_key(const hf_delivery *d); /* likewise */
HF_API const char *hf_delivery_key(const hf_delivery *d);           /* the rendered key under advisory lock, else NULL */
HF_API int64_t hf_delivery_lease_until_us(const hf_delivery *d);    /* the expiry that it holds now; 0 if there is no lease */
/* What hf_subscribe gave out, to be compared with it. */
HF_API hf_subscription *hf_delivery_subscription(const hf_delivery *d);

/* The delay of HF_RETRY_AFTER (ms, >= 0; longer than a thousand years counts as that), and the reason that retry, retry_after and
 * reject write to last_error (copied, any length: it is cut to the column and to 65,535 bytes; NUL and bytes that are no UTF-8 become "?";
 * NULL clears). Before the settle, by the thread that runs the handler. */
HF_API void hf_delivery_set_delay(hf_delivery *d, int64_t delay_ms);
HF_API HF_CHECKED hf_status hf_delivery_set_reason(hf_delivery *d, const char *reason, size_t len);

/* What becomes of a row of a batch; the last call before the batch handler returns counts. After the drain limit (HF_CANCEL_DRAIN) a call
 * changes nothing: the row goes back, unless its outcome had been set before. HF_DEFER is not for batches (HF_MISUSE), nor
 * is this call for single deliveries (HF_MISUSE). */
HF_API hf_status hf_delivery_set_outcome(hf_delivery *d, hf_outcome outcome);

/* Settles now and says how it went; what the handler returns afterwards is ignored. Blocks for the database.
 * HF_LEASE_LOST, HF_LOST: the row is not ours any more and nothing was changed. HF_UNKNOWN: a commit's answer never came.
 * HF_MISUSE: settled already, HF_DEFER, a delivery of a batch, or called from the delivery's on_cancel callback. Within the handler, or
 * after HF_DEFER from any thread, once. */
HF_API hf_status hf_delivery_settle(hf_delivery *d, hf_outcome outcome, hf_error *err);

typedef enum hf_cancel {
    HF_NOT_CANCELLED = 0,
    HF_CANCEL_DRAIN,  /* the drain limit is over: the row goes back when the handler returns */
    HF_CANCEL_LOST,   /* the connection or the lease is lost: someone else may run the row now */
    HF_CANCEL_TIMEOUT /* handler_timeout_ms has passed */
} hf_cancel;
HF_API hf_cancel hf_delivery_cancelled(const hf_delivery *d); /* never blocks; any thread */
/* Sleeps for ms or until the delivery is cancelled; returns what hf_delivery_cancelled does. */
HF_API hf_cancel hf_delivery_wait(hf_delivery *d, int64_t ms);
/* Calls fn once when the delivery is cancelled (at once if it is already), from another thread, without any lock held; fn must
 * not block, nor settle the delivery. Set before the handler returns; NULL removes it and waits for a call in progress. */
HF_API void hf_delivery_on_cancel(hf_delivery *d, void (*fn)(hf_delivery *d, hf_cancel why, void *ctx), void *ctx);

/* ---- connections for handlers ------------------------------------------------------------------------------------------ */

/* A connection of the pool, lent to its user (holdfast_postgres.h and the like give the native handle). The ledger accounts for it as
 * `handler`. */
typedef struct hf_connection hf_connection;

/* Waits for a connection, at most timeout_ms (0: takes what is free). Give it back with hf_connection_return, on any thread, before the
 * handler returns. Never deadlocks the pool: a handler that takes more than its subscription's handler_connections, or runs on a pool that
 * is too small for them, does not wait (HF_BUSY, at once), and the last connections, with which rows are claimed, renewed and settled, are
 * never lent. HF_TIMEOUT: none came free; HF_STOPPED after the stop. Any thread. */
HF_API HF_CHECKED hf_status hf_checkout(hf_runtime *runtime, int64_t timeout_ms, hf_connection **out, hf_error *err);
/* The session is reset (an open transaction rolled back) before anyone else gets it. NULL is allowed. */
HF_API void hf_connection_return(hf_connection *connection);

/* ---- enqueue --------------------------------------------------------------------------------------------------------- */

typedef struct hf_field {
    const char *column; /* any column of the table, by name */
    const char *value;  /* as text, NULL for NULL (len does not matter then); the database converts it to the column's type */
    size_t len;         /* of value, in bytes */
} hf_field;

/* Start each element of an array: jobs[i] = (hf_job)HF_JOB_INIT; */
typedef struct hf_job {
    size_t size;
    const void *payload; /* NULL: the column's default, unless null_payload says that NULL itself is meant */
    size_t payload_len;
    int64_t delay_ms;    /* due so long after now; 0: at once (the column's default) */
    const char *group;   /* NULL: the column's default */
    const char *headers; /* likewise */
    int64_t priority;
    const hf_field *fields; /* further columns */
    size_t n_fields;
    bool has_priority; /* false: the column's default */
    bool null_payload;
    const char *partition_key; /* NULL: the column's default */
    int64_t due_us;            /* due at this time (microseconds since 1970 UTC), instead of a delay; 0: no such time */
} hf_job;
#define HF_JOB_INIT                                                               \
    {                                                                             \
        sizeof(hf_job), NULL, 0, 0, NULL, NULL, 0, NULL, 0, false, false, NULL, 0 \
    }

/* The ids of what was enqueued, as text, in the order of the jobs; hf_enqueued_free. */
typedef struct hf_enqueued hf_enqueued;
HF_API size_t hf_enqueued_count(const hf_enqueued *enqueued);
HF_API const char *hf_enqueued_id(const hf_enqueued *enqueued, size_t i); /* NULL past the end */
HF_API void hf_enqueued_free(hf_enqueued *enqueued);

/* Inserts n jobs, all or none (committed when it returns), and wakes the runtime's own subscriptions of that table. jobs is an
 * array of structs that are jobs[0].size bytes apart. out may be NULL; it receives an owned list of ids. Blocks for the pool and
 * the database. Any thread, handlers included; before or after start. Errors: HF_INVALID (a role that the table lacks), HF_UNSUPPORTED
 * (ids wanted that the database cannot tell), and what the database says. */
HF_API HF_CHECKED hf_status hf_enqueue(hf_runtime *runtime, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                                       hf_error *err);
/* Wakes the subscriptions of a table after a commit of the caller's own. Never blocks. */
HF_API void hf_wake(hf_runtime *runtime, const hf_table *table);

/* ---- looking -------------------------------------------------------------------------------------------------------- */

/* A number that the runtime counts. name is a path: "pool.open", "pool.purposes.row_lock.seconds", "subscription.0.acked", where 0 is the
 * first subscription in the order of hf_subscribe. holdfast(7) lists all names. */
typedef struct hf_stat {
    const char *name, *description, *unit;
    double value;
} hf_stat;

/* Takes a snapshot: owned, hf_stats_free. Never blocks a worker for longer than a copy. */
HF_API HF_CHECKED hf_status hf_stats_snapshot(hf_runtime *runtime, hf_stats **out, hf_error *err);
HF_API size_t hf_stats_count(const hf_stats *stats);
HF_API bool hf_stats_at(const hf_stats *stats, size_t i, hf_stat *out);            /* strings live as long as the snapshot */
HF_API bool hf_stats_find(const hf_stats *stats, const char *name, double *value); /* false if there is no such name */
HF_API void hf_stats_free(hf_stats *stats);
/* The snapshot as one JSON object; owned text: hf_free. NULL when memory is out. */
HF_API char *hf_stats_json(hf_runtime *runtime);
HF_API void hf_free(void *memory);

/* Reads the table: how many rows are due, and so on. A count that cannot be known from outside is -1. Blocks for the database. */
typedef struct hf_counts {
    size_t size;
    int64_t due, delayed, in_work, processed, dead; /* in_work: -1 under row lock and advisory lock */
    double oldest_due_seconds;                      /* age of the oldest due row; 0 if there is none */
} hf_counts;
#define HF_COUNTS_INIT                        \
    {                                         \
        sizeof(hf_counts), 0, 0, 0, 0, 0, 0.0 \
    }
HF_API HF_CHECKED hf_status hf_count(hf_runtime *runtime, const hf_table *table, hf_counts *out, hf_error *err);

/* The same for each group, in the order of the groups. Owned: hf_group_counts_free. Without the group role: one entry, NULL. */
typedef struct hf_group_counts hf_group_counts;
HF_API HF_CHECKED hf_status hf_count_groups(hf_runtime *runtime, const hf_table *table, hf_group_counts **out, hf_error *err);
HF_API size_t hf_group_counts_count(const hf_group_counts *counts);
/* The group's name (NULL: rows without a group; lives as long as counts) and its counts. False past the end. */
HF_API bool hf_group_counts_at(const hf_group_counts *counts, size_t i, const char **group, hf_counts *out);
HF_API void hf_group_counts_free(hf_group_counts *counts);

/* Which dead letters go back. All that is given must match; what is NULL or 0 does not matter. */
typedef struct hf_requeue_options {
    size_t size;
    const char *const *ids; /* only these rows */
    size_t n_ids;
    const char *group;    /* dead_letter.table: only rows of this group */
    const char *to_group; /* the group that they go back to. dead_letter.group needs it, because there the old group is not kept */
} hf_requeue_options;
#define HF_REQUEUE_OPTIONS_INIT                         \
    {                                                   \
        sizeof(hf_requeue_options), NULL, 0, NULL, NULL \
    }
/* Moves dead letters back to be run again: attempt 1, due now; each row is in exactly one place at every moment. Commits in pieces;
 * *moved (may be NULL) is how many went back, also on an error. Wakes the table's subscriptions. Blocks for the database. HF_INVALID: the
 * table has no dead letter, an id is not among them, or to_group is missing. */
HF_API HF_CHECKED hf_status hf_requeue(hf_runtime *runtime, const hf_table *table, const hf_requeue_options *options, size_t *moved,
                                       hf_error *err);

/* Checks server, table, claim-order index, strategy and pool size, and finds all faults, not the first. Returns HF_OK if the check
 * could be made, whatever it found. workers 0: 4. Owned: hf_findings_free. */
HF_API HF_CHECKED hf_status hf_check(hf_runtime *runtime, const hf_table *table, size_t workers, hf_findings **out, hf_error *err);
HF_API size_t hf_findings_count(const hf_findings *findings);
HF_API hf_log_level hf_findings_level(const hf_findings *findings, size_t i);  /* an HF_LOG_ERROR keeps a subscription from starting */
HF_API const char *hf_findings_message(const hf_findings *findings, size_t i); /* NULL past the end */
HF_API hf_status hf_findings_status(const hf_findings *findings);              /* of the first error; HF_OK if there is none */
HF_API void hf_findings_free(hf_findings *findings);

/* What a subscription of this table costs on this database: the cost model. */
typedef struct hf_cost {
    size_t size;
    double held_per_delivery; /* connections held by a delivery in work; under row lock by a whole batch */
    size_t held;              /* by all workers together, at most */
    size_t claim, settle, renew, listen, handler, spare;
    size_t minimum;   /* the smallest pool that runs at all */
    size_t pool_size; /* the pool that lets every worker run: the sum */
    size_t workers;   /* that run at once on this runtime's pool (its pool_size; 0: all), were the subscription alone on it */
} hf_cost;
#define HF_COST_INIT                                       \
    {                                                      \
        sizeof(hf_cost), 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
HF_API HF_CHECKED hf_status hf_cost_of(hf_runtime *runtime, const hf_table *table, size_t workers, hf_cost *out, hf_error *err);
/* The same of a subscription with these options (NULL: all defaults). batch: 0 and 1 are a handler of single rows; a batch under row lock
 * holds one connection together. Never connects. */
HF_API HF_CHECKED hf_status hf_cost_for(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, hf_cost *out,
                                        hf_error *err);

/* The statements that make a table that is right for the database and the description's strategy, with its index, one below
 * the other, each ended by a semicolon. Owned text: hf_free. Never connects. */
HF_API HF_CHECKED hf_status hf_table_ddl(hf_runtime *runtime, const hf_table *table, char **out, hf_error *err);
/* Runs them. Blocks for the database. */
HF_API HF_CHECKED hf_status hf_table_create(hf_runtime *runtime, const hf_table *table, hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
