/* A bounded pool of connections whose ledger knows at every moment why each one is out. Knows nothing of jobs. */
#ifndef HF_POOL_POOL_H
#define HF_POOL_POOL_H

#include "driver.h"
#include "ledger.h"

struct hf__pool;
struct hf__checkout;

struct hf__pool_options {
    const struct hf__url *url;              /* copied by reference: must outlive the pool */
    size_t size;                            /* the bound: connections open, being opened and being closed never exceed it; >= 1 */
    size_t reserved;                        /* of them, for those acquired for HF__PURPOSE_RENEW alone; < size */
    int64_t connect_timeout_ms;             /* 0: 5,000 */
    int64_t max_lifetime_ms;                /* 0: 30 min; each connection's own is shortened by up to a fifth, at random */
    int64_t idle_check_ms;                  /* 0: 5,000: a connection idle for longer is pinged before it is handed out */
    int64_t idle_close_ms;                  /* 0: 10 min: a connection idle for longer is closed; -1: never */
    int64_t keepalive_ms;                   /* 0: 10,000: a pinned connection is pinged this often, and looked at every tenth of it */
    int64_t backoff_min_ms, backoff_max_ms; /* between failed connects: 0: 100 and 10,000; doubled, with jitter */
    int64_t idle_limit_ms;           /* of a session, see hf__session_options; 0: 12 keepalives. MySQL: idle_close_ms stays below it */
    const char *application_name;    /* copied */
    const struct hf__driver *driver; /* NULL: the one of url->database. Tests put theirs here; then url is only passed on to it */
    /* What happened, for the log: connect failures and recoveries; called without any lock held. May be NULL. */
    void (*event)(void *ctx, const char *message);
    void *event_ctx;
};

/* Opens nothing yet: connections are made when they are asked for. Starts the keeper thread. */
HF_CHECKED hf_status hf__pool_open(const struct hf__pool_options *options, struct hf__pool **out, hf_error *err);
/* Refuses further acquisitions (HF_STOPPED), wakes all waiters with it, closes what is idle, and closes the rest as it comes back. */
void hf__pool_shut(struct hf__pool *pool);
/* Waits until nothing is out any more. False if the deadline passed first. */
bool hf__pool_drained(struct hf__pool *pool, struct hf__deadline deadline);
/* Shuts it, joins the keeper and frees it. Everything must be back (hf__pool_drained); a pool of which something is still out is not freed,
 * so that a late release finds it. In a forked child it does nothing. NULL is allowed. */
void hf__pool_close(struct hf__pool *pool);
/* Changes the bound and the reservation. Shrinking closes idle connections at once and others as they come back. */
void hf__pool_resize(struct hf__pool *pool, size_t size, size_t reserved);

/* Gets a connection for a purpose; waits in order behind those who asked before (renew goes first), until the deadline.
 * HF_TIMEOUT: none came free (the message names the pool's size and what its connections are out for).
 * A failed connect is the caller's answer (its status and message) when no connection is open at all; otherwise the caller
 * waits on for one that is. HF_STOPPED after hf__pool_shut. */
HF_CHECKED hf_status hf__pool_acquire(struct hf__pool *pool, enum hf__purpose purpose, struct hf__deadline deadline,
                                      struct hf__checkout **out, hf_error *err);
/* As acquire, but takes only what needs no waiting and passes nobody who waits: *out is NULL (and HF_OK) when there is none. May connect,
 * until the deadline. */
HF_CHECKED hf_status hf__pool_try_acquire(struct hf__pool *pool, enum hf__purpose purpose, struct hf__deadline deadline,
                                          struct hf__checkout **out, hf_error *err);
/* Gives it back. It returns to idle only if it is alive, in no transaction and not marked retire or touched-and-not-reset;
 * otherwise it is rolled back or reset within a second, or closed. Never fails. May block for that second. */
void hf__pool_release(struct hf__checkout *checkout);

struct hf__conn *hf__checkout_conn(struct hf__checkout *checkout);
/* Changes why it is out: the ledger's seconds are split at this moment. Any thread that owns the checkout. */
void hf__checkout_purpose(struct hf__checkout *checkout, enum hf__purpose purpose);
/* From now until unpin the owner does not touch the connection, and the keeper pings it and watches it. If the keeper finds it
 * lost it calls lost(ctx) once, from the keeper thread, without any lock held; after unpin returns it is never called (so unpin waits for a
 * call that runs: never unpin from within lost, nor while holding a lock that lost takes). lost may be NULL. */
void hf__checkout_pin(struct hf__checkout *checkout, void (*lost)(void *ctx), void *ctx);
/* Waits for a ping in flight (bounded by two seconds), then the connection is the owner's again. False if it is lost. */
bool hf__checkout_unpin(struct hf__checkout *checkout);
/* The native handle was shown to a user: on return the session is reset (or closed), never handed on as it is. */
void hf__checkout_touched(struct hf__checkout *checkout);

struct hf__pool_snapshot {
    size_t size, reserved;
    size_t open, idle, in_use, opening, closing, waiting; /* derived from the lists; open = idle + in_use + being checked */
    size_t peak_open, peak_in_use;
    uint64_t opened, closed, broken, connect_failures;
    uint64_t round_trips, commits; /* see struct hf__traffic */
    struct hf__ledger ledger;
};
/* Never blocks a worker for longer than a copy takes. The snapshot is large: not for small stacks. */
void hf__pool_snapshot(struct hf__pool *pool, struct hf__pool_snapshot *out);
size_t hf__pool_in_use(struct hf__pool *pool, enum hf__purpose purpose);

#endif
