/* Getting a connection: what the acquiring thread does in each state that the core leaves it in. It waits on a condition of its own,
 * and it connects and checks without the mutex, while its slot keeps everybody else away from the connection. */
#include <stdio.h>
#include <unistd.h>

#include "pool_inner.h"

#define CHECK_MS 2000
#define CHECK_AT_LEAST_MS 250 /* a caller in a hurry must not get a good connection closed because its answer was on its way */

struct caller {
    struct hf__waiter waiter;
    struct hf__deadline deadline;
    pthread_cond_t granted;
    hf_error failure; /* of its own last connect; HF_OK if there was none */
};

/* Who has what, for the message of a timeout; copied under the mutex, written without it. */
struct census {
    size_t size, reserved, opening, closing, open;
    size_t in_use[HF__PURPOSES];
    hf_error down; /* the last failed connect if nothing is open */
    int64_t waited_ns;
};

static void wait_turn(struct hf__pool *pool, struct caller *caller)
{
    struct hf__waiter *waiter = &caller->waiter;
    struct hf__deadline until = hf__sooner(caller->deadline, hf__at_ns(waiter->watch_ns));
    (void)hf__cond_wait(&caller->granted, &pool->mutex, until); /* why it ended is read from the waiter and the clock */
    int64_t now = hf__monotonic_ns();
    if (waiter->state != HF__WAITING) {
        return;
    }
    if (now >= caller->deadline.at_ns) {
        hf__core_give_up(&pool->core, waiter, now);
    } else if (now >= waiter->watch_ns) {
        hf__core_tick(&pool->core, waiter, now);
    }
}

static bool is_good(struct hf__conn *conn, struct hf__deadline deadline)
{
    struct hf__deadline least = hf__after_ms(CHECK_AT_LEAST_MS);
    struct hf__deadline most = hf__sooner(deadline, hf__after_ms(CHECK_MS));
    return hf__conn_alive(conn) && hf__conn_ping(conn, most.at_ns > least.at_ns ? most : least, NULL) == HF_OK && !conn->retire;
}

static void check_idle(struct hf__pool *pool, struct caller *caller)
{
    struct hf__slot *slot = caller->waiter.slot;
    struct hf__conn *conn = slot->conn;
    pthread_mutex_unlock(&pool->mutex);
    bool good = is_good(conn, caller->deadline);
    pthread_mutex_lock(&pool->mutex);
    if (good) {
        hf__core_checked(&pool->core, &caller->waiter, hf__monotonic_ns());
        return;
    }
    hf__core_check_failed(&pool->core, &caller->waiter, conn->lost, hf__monotonic_ns());
    slot->conn = NULL;
    pthread_mutex_unlock(&pool->mutex);
    hf__conn_close(conn);
    pthread_mutex_lock(&pool->mutex);
    hf__core_ask_again(&pool->core, &caller->waiter, hf__monotonic_ns());
}

static void opened(struct hf__pool *pool, struct caller *caller, struct hf__conn *conn)
{
    unsigned failures = pool->core.failures;
    caller->waiter.slot->conn = conn;
    hf__core_opened(&pool->core, &caller->waiter, hf__monotonic_ns());
    if (failures > 0) {
        pthread_mutex_unlock(&pool->mutex);
        hf__pool_tell(pool, "the database can be reached again, after %u failed attempts", failures);
        pthread_mutex_lock(&pool->mutex);
    }
}

static void open_failed(struct hf__pool *pool, struct caller *caller)
{
    int64_t now = hf__monotonic_ns();
    bool new_round = hf__core_open_failed(&pool->core, &caller->waiter, now);
    pool->last_failure = caller->failure;
    if (new_round) {
        int64_t wait_ms = (pool->core.retry_ns - now) / 1000000;
        unsigned failures = pool->core.failures;
        pthread_mutex_unlock(&pool->mutex);
        hf__pool_tell(pool, "connecting failed (attempt %u, the next one in %lld ms): %s", failures, (long long)wait_ms,
                      caller->failure.message);
        pthread_mutex_lock(&pool->mutex);
    }
}

static void open_slot(struct hf__pool *pool, struct caller *caller)
{
    struct hf__conn *conn = NULL;
    pthread_mutex_unlock(&pool->mutex);
    struct hf__deadline deadline = hf__sooner(caller->deadline, hf__after_ms(pool->session.connect_timeout_ms));
    hf_status status = pool->driver->connect(pool->url, &pool->session, deadline, &conn, &caller->failure);
    bool cut_short = status == HF_TIMEOUT && hf__passed(caller->deadline);
    pthread_mutex_lock(&pool->mutex);
    caller->failure.status = status;
    if (status == HF_OK) {
        conn->traffic = &pool->traffic;
        opened(pool, caller, conn);
    } else if (cut_short) {
        hf__core_open_abandoned(&pool->core, &caller->waiter, hf__monotonic_ns());
    } else {
        open_failed(pool, caller);
    }
}

/* Goes from state to state until it is a final one. The mutex is held when this begins and ends. */
static void pursue(struct hf__pool *pool, struct caller *caller)
{
    while (caller->waiter.state < HF__HAVE) {
        switch (caller->waiter.state) {
        case HF__CHECK:
            check_idle(pool, caller);
            break;
        case HF__OPEN:
            open_slot(pool, caller);
            break;
        default:
            wait_turn(pool, caller);
            break;
        }
    }
}

static void take_census(struct hf__pool *pool, const struct caller *caller, struct census *out)
{
    const struct hf__core *core = &pool->core;
    *out = (struct census){.size = core->options.size, .reserved = core->options.reserved, .open = hf__core_open(core)};
    out->opening = core->slots[HF__SLOT_OPENING].count;
    out->closing = core->slots[HF__SLOT_CLOSING].count;
    out->waited_ns = hf__monotonic_ns() - caller->waiter.asked_ns;
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        out->in_use[i] = hf__core_used_for(core, (enum hf__purpose)i);
    }
    if (caller->failure.status != HF_OK) {
        out->down = caller->failure;
    } else if (out->open == 0 && core->failures > 0) {
        out->down = pool->last_failure;
    }
}

static void aside(char *text, size_t size, size_t n, const char *what)
{
    text[0] = '\0';
    if (n > 0) {
        (void)snprintf(text, size, ", %zu %s", n, what); /* cannot be longer than what the callers make room for */
    }
}

static hf_status fail_timeout(const struct census *census, hf_error *err)
{
    long long waited_ms = (long long)(census->waited_ns / 1000000);
    if (census->down.status != HF_OK) {
        if (err != NULL) {
            *err = census->down;
        }
        (void)hf__fail_context(err, "no connection within %lld ms", waited_ms);
        return census->down.status;
    }
    char out_for[256];
    char opening[64];
    char closing[64];
    char reserved[64];
    hf__ledger_describe(census->in_use, out_for, sizeof out_for);
    aside(opening, sizeof opening, census->opening, "being opened");
    aside(closing, sizeof closing, census->closing, "being closed");
    aside(reserved, sizeof reserved, census->reserved, "reserved for renew");
    return hf__fail(err, HF_TIMEOUT,
                    "no connection came free within %lld ms: the pool's %zu connection%s out for %s%s%s%s; raise the pool's size or "
                    "lower the workers",
                    waited_ms, census->size, census->size == 1 ? " is" : "s are", out_for, opening, closing, reserved);
}

static hf_status answer(const struct caller *caller, const struct census *census, struct hf__checkout **out, hf_error *err)
{
    switch (caller->waiter.state) {
    case HF__HAVE:
        *out = hf__checkout_of(caller->waiter.slot);
        return HF_OK;
    case HF__NONE:
        return HF_OK;
    case HF__FAILED:
        if (err != NULL) {
            *err = caller->failure;
        }
        return caller->failure.status;
    case HF__STOPPED:
        return hf__fail(err, HF_STOPPED, "the pool is shut: its runtime is stopping");
    default:
        return fail_timeout(census, err);
    }
}

static void finish(struct hf__pool *pool, struct caller *caller)
{
    if (caller->waiter.state == HF__STOPPED && caller->waiter.slot != NULL) {
        hf__pool_close_slot(pool, caller->waiter.slot);
    }
    pool->callers--;
    hf__pool_changed(pool);
}

static hf_status acquire(struct hf__pool *pool, struct caller *caller, struct hf__checkout **out, hf_error *err)
{
    struct census census = {0};
    int rc = hf__cond_init(&caller->granted);
    if (rc != 0) {
        return hf__fail(err, HF_SYSTEM, "no condition to wait for a connection on: error %d", rc);
    }
    caller->waiter.user = caller;
    pthread_mutex_lock(&pool->mutex);
    pool->callers++;
    hf__core_ask(&pool->core, &caller->waiter, hf__monotonic_ns());
    pursue(pool, caller);
    if (caller->waiter.state == HF__GAVE_UP) {
        take_census(pool, caller, &census);
    }
    finish(pool, caller);
    pthread_mutex_unlock(&pool->mutex);
    (void)pthread_cond_destroy(&caller->granted);
    return answer(caller, &census, out, err);
}

void hf__caller_wake(struct hf__waiter *waiter)
{
    struct caller *caller = waiter->user;
    pthread_cond_signal(&caller->granted);
}

static hf_status begin(struct hf__pool *pool, struct caller *caller, struct hf__checkout **out, hf_error *err)
{
    *out = NULL;
    if (pool->owner != getpid()) {
        return hf__fail(err, HF_MISUSE,
                        "the pool belongs to process %ld, the parent of this one; a child process has to open its own runtime",
                        (long)pool->owner);
    }
    return acquire(pool, caller, out, err);
}

hf_status hf__pool_acquire(struct hf__pool *pool, enum hf__purpose purpose, struct hf__deadline deadline, struct hf__checkout **out,
                           hf_error *err)
{
    struct caller caller = {.waiter = {.purpose = purpose, .may_wait = true}, .deadline = deadline};
    return begin(pool, &caller, out, err);
}

hf_status hf__pool_try_acquire(struct hf__pool *pool, enum hf__purpose purpose, struct hf__deadline deadline, struct hf__checkout **out,
                               hf_error *err)
{
    struct caller caller = {.waiter = {.purpose = purpose, .may_wait = false}, .deadline = deadline};
    return begin(pool, &caller, out, err);
}
