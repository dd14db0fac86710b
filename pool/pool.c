/* The pool: bounded, first come first served, and it always knows why each connection is out.
 *
 * Three layers. pool_core.c is a state machine without threads: the invariants and edges below are its. acquire.c, keeper.c and this file
 * put threads and I/O around it. Whoever acquires connects and checks; whoever releases cleans and closes; the keeper does what nobody
 * else is there for. A slot that is CHECKING, OPENING, PINGING or CLOSING belongs to the thread that put it there, which works on its
 * connection without the mutex; no other thread touches it or moves it.
 *
 * Invariants, true whenever the mutex is free (the model test checks them after every step):
 *   1. Every slot is in exactly one list, the one that its state names. Counts are lengths of lists.
 *   2. Slots that are not EMPTY never become more while they are as many as the size or more: what is being opened and what is
 *      being closed counts. (After a resize to less they may be more, and only shrink.)
 *   3. Connections acquired for anything but renew, those being opened and checked for it included, never become more while they are
 *      size - reserved or more.
 *   4. A waiter is in a queue exactly while it is WAITING. A queue is in the order of tickets, that is, of asking, also for a
 *      waiter that came back after a failure.
 *   5. No wake-up is lost: if the first waiter (renewals before the others) could be served, it has been. If only the backoff keeps
 *      it waiting, it watches the clock for the end of the backoff.
 *   6. What is granted was granted to the first waiter.
 *   7. A slot has a connection exactly when it is IDLE, CHECKING, OUT, PINNED or PINGING, or CLOSING and not yet closed.
 *   8. While the pool is backing off nothing is being opened that began after the failure; after it, one connect at a time until one
 * succeeds.
 *   9. opened - closed is the number of slots that have a connection.
 *  10. After shut nobody waits, and nothing becomes IDLE or OUT.
 *  11. An idle connection is handed over without a check only if it was known to live after any was last found dead, and sat no longer
 *      than idle_check_ms.
 *
 *        ask, dispatch                       opened                  pin
 *   EMPTY ----------> OPENING ----------------------------> OUT <---------> PINNED
 *    ^ ^                 |                                 ^ | ^     unpin   ^  |
 *    | |   open_failed,  |          checked                | | |     watched |  | watch
 *    | | open_abandoned  |    CHECKING --------------------+ | |             |  v
 *    | +-----------------+     |    ^                        | |            PINGING
 *    |                         |    | ask, dispatch          | | ask, dispatch
 *    |            check_failed |   IDLE <--------------------+-+ release
 *    | closed,                 v    | reap                   |
 *    | ask_again             CLOSING <-----------------------+ release (lost, unfit, too old, over size, shut)
 *    +---------------------- CLOSING       also from OPENING and CHECKING when the pool was shut meanwhile (opened, checked)
 *
 * (Each name is a function hf__core_NAME. "dispatch" runs at the end of every one of them.)
 *
 * Idle connections are used last in, first out, so that those that are not needed age and are closed. Each carries the generation at
 * which it was known to live; a connection found dead starts a new generation, and idle ones of an older one are checked before use,
 * however short they sat: after a restart of the server nobody is handed one that is dead.
 *
 * Lock order: pool->mutex is the only lock of this directory and a leaf. hf__pool_options.event, the lost callback of a pin and every
 * method of a driver are called without it. The lost callback runs while unpin of the same checkout waits for it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool_inner.h"

#define CLEAN_MS 1000
#define NS_PER_MS INT64_C(1000000)
#define LONGEST_MS (INT64_C(366) * 24 * 3600 * 1000)

struct hf__checkout *hf__checkout_of(struct hf__slot *slot)
{
    return slot->user;
}

void hf__pool_tell(const struct hf__pool *pool, const char *format, ...)
{
    char message[1200];
    if (pool->event == NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (n > 0) {
        pool->event(pool->event_ctx, message);
    }
}

static bool is_drained(const struct hf__pool *pool)
{
    return pool->callers == 0 && hf__core_occupied(&pool->core) == pool->core.slots[HF__SLOT_IDLE].count;
}

void hf__pool_changed(struct hf__pool *pool)
{
    if (is_drained(pool)) {
        pthread_cond_broadcast(&pool->drained);
    }
}

void hf__pool_keep_by(struct hf__pool *pool, int64_t at_ns)
{
    if (at_ns < pool->keeper_wakes_ns) {
        pool->keeper_wakes_ns = at_ns;
        pthread_cond_signal(&pool->keep);
    }
}

void hf__pool_close_slot(struct hf__pool *pool, struct hf__slot *slot)
{
    struct hf__conn *conn = slot->conn;
    slot->conn = NULL;
    pthread_mutex_unlock(&pool->mutex);
    hf__conn_close(conn);
    pthread_mutex_lock(&pool->mutex);
    hf__core_closed(&pool->core, slot, hf__monotonic_ns());
    hf__pool_changed(pool);
}

void hf__pool_reap(struct hf__pool *pool)
{
    struct hf__slot *slot = hf__core_reap(&pool->core, hf__monotonic_ns());
    while (slot != NULL) {
        hf__pool_close_slot(pool, slot);
        slot = hf__core_reap(&pool->core, hf__monotonic_ns());
    }
}

/* Opening and closing the pool. */

static int64_t or_default(int64_t ms, int64_t default_ms)
{
    return ms == 0 ? default_ms : ms;
}

static int64_t in_ns(int64_t ms)
{
    return ms < 0 ? INT64_MAX : ms * NS_PER_MS;
}

/* A server that ends idle sessions by itself must not come first. */
static int64_t idle_close_ms(const struct hf__pool_options *o, const struct hf__pool *pool)
{
    int64_t ms = or_default(o->idle_close_ms, 600000);
    int64_t most = pool->session.idle_limit_ms / 4 * 3;
    return pool->driver->database == HF__MYSQL && (ms < 0 || ms > most) ? most : ms;
}

static void set_core(struct hf__pool *pool, const struct hf__pool_options *o)
{
    int64_t keepalive_ns = in_ns(or_default(o->keepalive_ms, 10000));
    struct hf__core_options options = {
        .size = o->size,
        .reserved = o->reserved,
        .idle_check_ns = in_ns(or_default(o->idle_check_ms, 5000)),
        .idle_close_ns = in_ns(idle_close_ms(o, pool)),
        .max_lifetime_ns = in_ns(or_default(o->max_lifetime_ms, 1800000)),
        .look_ns = keepalive_ns / 10,
        .keepalive_ns = keepalive_ns,
        .backoff_min_ns = in_ns(or_default(o->backoff_min_ms, 100)),
        .backoff_max_ns = in_ns(or_default(o->backoff_max_ms, 10000)),
        .random_below = hf__random_below,
        .wake = hf__caller_wake,
    };
    hf__core_init(&pool->core, &options);
}

static hf_status set_options(struct hf__pool *pool, const struct hf__pool_options *o, hf_error *err)
{
    pool->driver = o->driver != NULL ? o->driver : hf__driver_for(o->url->database);
    if (pool->driver == NULL) {
        return hf__fail(err, HF_UNSUPPORTED, "this build of holdfast was made without %s; use one that was built with it",
                        hf__database_name(o->url->database));
    }
    if (o->application_name != NULL) {
        pool->application_name = strdup(o->application_name);
        if (pool->application_name == NULL) {
            return hf__fail_memory(err);
        }
    }
    pool->url = o->url;
    pool->event = o->event;
    pool->event_ctx = o->event_ctx;
    pool->owner = getpid();
    pool->keeper_wakes_ns = INT64_MIN;
    pool->session.connect_timeout_ms = or_default(o->connect_timeout_ms, 5000);
    pool->session.idle_limit_ms = or_default(o->idle_limit_ms, 12 * or_default(o->keepalive_ms, 10000));
    pool->session.application_name = pool->application_name;
    set_core(pool, o);
    return HF_OK;
}

/* New EMPTY slots until there are `size`. False when memory is out; those that were made stay. */
static bool grow(struct hf__pool *pool, size_t size)
{
    while (hf__core_slots(&pool->core) < size) {
        struct hf__checkout *checkout = calloc(1, sizeof *checkout);
        if (checkout == NULL || hf__cond_init(&checkout->watched) != 0) {
            free(checkout);
            return false;
        }
        checkout->pool = pool;
        checkout->slot.user = checkout;
        hf__core_add(&pool->core, &checkout->slot);
    }
    return true;
}

static void free_slots(struct hf__pool *pool)
{
    struct hf__slot *slot = TAILQ_FIRST(&pool->core.slots[HF__SLOT_EMPTY].head);
    while (slot != NULL) {
        struct hf__slot *next = TAILQ_NEXT(slot, link);
        struct hf__checkout *checkout = hf__checkout_of(slot);
        (void)pthread_cond_destroy(&checkout->watched);
        free(checkout);
        slot = next;
    }
}

static int init_locks(struct hf__pool *pool)
{
    int rc = pthread_mutex_init(&pool->mutex, NULL);
    if (rc != 0) {
        return rc;
    }
    rc = hf__cond_init(&pool->drained);
    if (rc == 0) {
        rc = hf__cond_init(&pool->keep);
        if (rc == 0) {
            return 0;
        }
        (void)pthread_cond_destroy(&pool->drained);
    }
    (void)pthread_mutex_destroy(&pool->mutex);
    return rc;
}

static void destroy_locks(struct hf__pool *pool)
{
    (void)pthread_cond_destroy(&pool->keep);
    (void)pthread_cond_destroy(&pool->drained);
    (void)pthread_mutex_destroy(&pool->mutex);
}

static void free_pool(struct hf__pool *pool)
{
    free_slots(pool);
    free(pool->application_name);
    free(pool);
}

static hf_status start(struct hf__pool *pool, size_t size, hf_error *err)
{
    if (!grow(pool, size)) {
        return hf__fail_memory(err);
    }
    int rc = init_locks(pool);
    if (rc == 0) {
        rc = hf__keeper_start(pool);
        if (rc != 0) {
            destroy_locks(pool);
        }
    }
    return rc == 0 ? HF_OK : hf__fail(err, HF_SYSTEM, "the pool's keeper thread cannot be started: error %d", rc);
}

static hf_status check_times(const struct hf__pool_options *o, hf_error *err)
{
    const struct {
        const char *name;
        int64_t ms;
    } times[] = {{"connect_timeout_ms", o->connect_timeout_ms}, {"max_lifetime_ms", o->max_lifetime_ms},
                 {"idle_check_ms", o->idle_check_ms},           {"keepalive_ms", o->keepalive_ms},
                 {"backoff_min_ms", o->backoff_min_ms},         {"backoff_max_ms", o->backoff_max_ms},
                 {"idle_limit_ms", o->idle_limit_ms},           {"idle_close_ms", o->idle_close_ms == -1 ? 0 : o->idle_close_ms}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].ms < 0 || times[i].ms > LONGEST_MS) {
            return hf__fail(err, HF_INVALID, "the pool's %s is %lld; it must be between 0 and %lld (a year)", times[i].name,
                            (long long)times[i].ms, (long long)LONGEST_MS);
        }
    }
    return HF_OK;
}

static hf_status check_options(const struct hf__pool_options *o, hf_error *err)
{
    if (o->url == NULL && o->driver == NULL) {
        return hf__fail(err, HF_INVALID, "a pool needs the URL of a database");
    }
    if (o->size < 1 || o->reserved >= o->size) {
        return hf__fail(err, HF_INVALID, "a pool of %zu connections cannot reserve %zu of them; its size must be larger than that", o->size,
                        o->reserved);
    }
    return check_times(o, err);
}

hf_status hf__pool_open(const struct hf__pool_options *options, struct hf__pool **out, hf_error *err)
{
    *out = NULL;
    hf_status status = check_options(options, err);
    if (status != HF_OK) {
        return status;
    }
    struct hf__pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return hf__fail_memory(err);
    }
    status = set_options(pool, options, err);
    if (status == HF_OK) {
        status = start(pool, options->size, err);
    }
    if (status == HF_OK) {
        *out = pool;
    } else {
        free_pool(pool);
    }
    return status;
}

static bool is_ours(const struct hf__pool *pool)
{
    return pool->owner == getpid();
}

void hf__pool_shut(struct hf__pool *pool)
{
    if (!is_ours(pool)) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    hf__core_shut(&pool->core, hf__monotonic_ns());
    hf__pool_reap(pool);
    hf__pool_changed(pool);
    pthread_mutex_unlock(&pool->mutex);
}

bool hf__pool_drained(struct hf__pool *pool, struct hf__deadline deadline)
{
    pthread_mutex_lock(&pool->mutex);
    bool in_time = true;
    while (!is_drained(pool) && in_time) {
        in_time = hf__cond_wait(&pool->drained, &pool->mutex, deadline);
    }
    bool drained = is_drained(pool);
    pthread_mutex_unlock(&pool->mutex);
    return drained;
}

void hf__pool_close(struct hf__pool *pool)
{
    if (pool == NULL || !is_ours(pool)) {
        return;
    }
    hf__pool_shut(pool);
    hf__keeper_stop(pool);
    if (hf__pool_drained(pool, hf__after_ms(0))) {
        destroy_locks(pool);
        free_pool(pool);
    }
}

void hf__pool_resize(struct hf__pool *pool, size_t size, size_t reserved)
{
    pthread_mutex_lock(&pool->mutex);
    size_t wanted = size > 0 ? size : 1;
    bool grown = grow(pool, wanted);
    size_t possible = grown ? wanted : pool->core.options.size;
    hf__core_resize(&pool->core, possible, reserved < possible ? reserved : possible - 1, hf__monotonic_ns());
    hf__pool_reap(pool);
    pthread_mutex_unlock(&pool->mutex);
    if (!grown) {
        hf__pool_tell(pool, "the pool stays at %zu connections instead of %zu: out of memory", possible, wanted);
    }
}

/* Giving back. */

static bool needs_cleaning(const struct hf__checkout *checkout)
{
    return checkout->touched || hf__conn_transaction(checkout->slot.conn) != HF__TX_NONE;
}

static bool is_cleaned(const struct hf__checkout *checkout)
{
    struct hf__conn *conn = checkout->slot.conn;
    struct hf__deadline deadline = hf__after_ms(CLEAN_MS);
    hf_status status = checkout->touched ? hf__conn_reset(conn, deadline, NULL) : hf__conn_rollback(conn, deadline, NULL);
    return status == HF_OK && !conn->retire && hf__conn_transaction(conn) == HF__TX_NONE;
}

/* An idle connection is in no transaction and as connect left it; one that cannot be brought there within a second is closed. */
static enum hf__returned clean(const struct hf__checkout *checkout)
{
    const struct hf__conn *conn = checkout->slot.conn;
    bool fit = !conn->lost && !conn->retire && (!needs_cleaning(checkout) || is_cleaned(checkout));
    if (conn->lost) {
        return HF__RETURNED_LOST;
    }
    return fit ? HF__RETURNED_CLEAN : HF__RETURNED_UNFIT;
}

void hf__pool_release(struct hf__checkout *checkout)
{
    struct hf__pool *pool = checkout->pool;
    if (!is_ours(pool)) {
        return;
    }
    if (checkout->pinned) {
        (void)hf__checkout_unpin(checkout); /* whether it is lost is asked next */
    }
    enum hf__returned returned = clean(checkout);
    checkout->touched = false;
    pthread_mutex_lock(&pool->mutex);
    if (hf__core_release(&pool->core, &checkout->slot, returned, hf__monotonic_ns())) {
        hf__pool_close_slot(pool, &checkout->slot);
    } else {
        hf__pool_keep_by(pool, hf__core_slot_due(&pool->core, &checkout->slot));
        hf__pool_changed(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* Holding. */

struct hf__conn *hf__checkout_conn(struct hf__checkout *checkout)
{
    return checkout->slot.conn;
}

void hf__checkout_touched(struct hf__checkout *checkout)
{
    checkout->touched = true;
}

void hf__checkout_purpose(struct hf__checkout *checkout, enum hf__purpose purpose)
{
    struct hf__pool *pool = checkout->pool;
    if (!is_ours(pool)) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    hf__core_purpose(&pool->core, &checkout->slot, purpose, hf__monotonic_ns());
    pthread_mutex_unlock(&pool->mutex);
}

void hf__checkout_pin(struct hf__checkout *checkout, void (*lost)(void *ctx), void *ctx)
{
    struct hf__pool *pool = checkout->pool;
    if (!is_ours(pool)) {
        return;
    }
    checkout->pinned = true;
    pthread_mutex_lock(&pool->mutex);
    checkout->lost = lost;
    checkout->lost_ctx = ctx;
    hf__core_pin(&pool->core, &checkout->slot, hf__monotonic_ns());
    hf__pool_keep_by(pool, hf__core_slot_due(&pool->core, &checkout->slot));
    pthread_mutex_unlock(&pool->mutex);
}

bool hf__checkout_unpin(struct hf__checkout *checkout)
{
    struct hf__pool *pool = checkout->pool;
    struct hf__slot *slot = &checkout->slot;
    if (!is_ours(pool)) {
        return false;
    }
    checkout->pinned = false;
    pthread_mutex_lock(&pool->mutex);
    while (slot->state == HF__SLOT_PINGING) {
        (void)hf__cond_wait(&checkout->watched, &pool->mutex, hf__never()); /* the ping has a deadline of its own */
    }
    if (slot->state == HF__SLOT_PINNED) {
        hf__core_unpin(&pool->core, slot);
    }
    pthread_mutex_unlock(&pool->mutex);
    return !slot->conn->lost;
}

/* Reading. */

void hf__pool_snapshot(struct hf__pool *pool, struct hf__pool_snapshot *out)
{
    pthread_mutex_lock(&pool->mutex);
    hf__core_snapshot(&pool->core, out, hf__monotonic_ns());
    pthread_mutex_unlock(&pool->mutex);
    /* In this order, and each commit is counted after its round trip: never more commits than round trips. */
    out->commits = atomic_load(&pool->traffic.commits);
    out->round_trips = atomic_load(&pool->traffic.round_trips);
}

size_t hf__pool_in_use(struct hf__pool *pool, enum hf__purpose purpose)
{
    pthread_mutex_lock(&pool->mutex);
    size_t n = hf__core_used_for(&pool->core, purpose);
    pthread_mutex_unlock(&pool->mutex);
    return n;
}
