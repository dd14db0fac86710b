/* Connections of the pool that are lent to handlers, and to other threads of the host program.
 *
 * Nobody may wait for a connection while he has one, unless it is certain that he will get it; so lending never deadlocks the pool:
 *  - All that is lent together leaves the engines what they need to claim, renew and settle (lending.most).
 *  - A handler that has declared as many (handler_connections) gets them in any case: they are kept for it (lending.kept), so it may wait
 *    while it holds some. On a pool that is too small nothing is kept.
 *  - Everybody else shares the rest, in order of asking. A thread that has none may wait for it. One that has some, or that runs a
 *    handler, holds what others wait for: it takes what is free, and does not wait.
 *
 * Who has what is known by thread: a connection may be given back by another one. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/subscription.h"

struct hf_connection {
    struct hf_runtime *runtime;
    struct hf__checkout *checkout;
    uint64_t thread; /* that took it */
    bool declared;   /* one of those that are kept */
    TAILQ_ENTRY(hf_connection) entry;
};

/* A thread that waits for its turn. */
struct hf__borrower {
    TAILQ_ENTRY(hf__borrower) entry;
    struct hf__sleeper sleeper;
    bool granted; /* and counted */
};

/* Never the same for two threads, unlike pthread_self() once a thread has ended. */
static uint64_t this_thread(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t mine;
    if (mine == 0)
        mine = atomic_fetch_add(&last, 1) + 1;
    return mine;
}

/* ---- the counts; "locked": under lending.lock ---- */

hf_status hf__lending_init(struct hf__lending *lending, hf_error *err)
{
    int failed = pthread_mutex_init(&lending->lock, NULL);
    if (failed)
        return hf__fail(err, HF_SYSTEM, "cannot make a mutex: %s", strerror(failed));
    lending->most = SIZE_MAX;
    TAILQ_INIT(&lending->lent);
    TAILQ_INIT(&lending->queue);
    hf__gate_init(&lending->changed);
    return HF_OK;
}

void hf__lending_destroy(struct hf__lending *lending)
{
    pthread_mutex_destroy(&lending->lock);
}

/* Locked. */
static size_t for_others(const struct hf__lending *lending)
{
    return lending->most - lending->kept;
}

/* Locked: those whose turn it is have one of the rest. */
static void grant(struct hf__lending *lending)
{
    struct hf__borrower *first;
    while ((first = TAILQ_FIRST(&lending->queue)) && lending->n_others < for_others(lending)) {
        TAILQ_REMOVE(&lending->queue, first, entry);
        first->granted = true;
        lending->n_others++;
        hf__rouse(&first->sleeper);
    }
}

hf_status hf__lending_limit(struct hf__lending *lending, size_t most, size_t kept, hf_error *err)
{
    pthread_mutex_lock(&lending->lock);
    size_t out = lending->n_declared + lending->n_others;
    bool fits = out <= most - kept;
    if (fits) {
        lending->most = most;
        lending->kept = kept;
        grant(lending);
    }
    pthread_mutex_unlock(&lending->lock);
    return fits ? HF_OK
                : hf__fail(err, HF_BUSY,
                           "%zu connections of hf_checkout are out, and beside its subscriptions the pool has %zu for them: give them back "
                           "before hf_runtime_start, or raise pool_size",
                           out, most - kept);
}

size_t hf__lending_shut(struct hf__lending *lending, struct hf__deadline deadline)
{
    struct hf__borrower *waiting;
    pthread_mutex_lock(&lending->lock);
    lending->shut = true;
    TAILQ_FOREACH (waiting, &lending->queue, entry)
        hf__rouse(&waiting->sleeper);
    while (lending->n_declared + lending->n_others > 0 && !hf__passed(deadline))
        (void)hf__gate_wait(&lending->changed, &lending->lock, deadline);
    size_t out = lending->n_declared + lending->n_others;
    pthread_mutex_unlock(&lending->lock);
    return out;
}

/* Locked. */
static void put_back(struct hf__lending *lending, bool declared)
{
    if (declared)
        lending->n_declared--;
    else
        lending->n_others--;
    grant(lending);
    if (lending->shut)
        hf__gate_wake(&lending->changed);
}

/* ---- may it be lent? ---- */

struct request {
    struct hf__lending *lending;
    const struct hf_subscription *handler; /* of this runtime, that the thread runs; NULL: none */
    size_t has;
    bool declared, waits; /* one of those that are kept; may it wait? */
    bool counted;
    struct hf__deadline deadline;
};

/* Locked. */
static size_t held_by(const struct hf__lending *lending, uint64_t thread)
{
    const struct hf_connection *connection;
    size_t n = 0;
    TAILQ_FOREACH (connection, &lending->lent, entry)
        n += connection->thread == thread;
    return n;
}

/* Locked: what this thread may ask for. */
static void judge(struct request *request)
{
    const struct hf__lending *lending = request->lending;
    request->has = held_by(lending, this_thread());
    bool within = request->handler && request->has < request->handler->options.handler_connections;
    request->declared = within && lending->n_declared < lending->kept;
    request->waits = request->declared || (!request->handler && request->has == 0 && for_others(lending) > 0);
}

static hf_status fail_busy(const struct request *request, const struct hf_runtime *runtime, hf_error *err)
{
    const struct hf_subscription *handler = request->handler;
    if (!handler && request->has > 0)
        return hf__fail(err, HF_BUSY,
                        "no connection is free for hf_checkout, and it does not wait, because this thread has %zu already: give those back "
                        "first, or raise pool_size",
                        request->has);
    if (!handler)
        return hf__fail(err, HF_BUSY,
                        "hf_checkout never gets a connection here: the pool has none beside what the subscriptions and their "
                        "handler_connections need; raise pool_size");
    return hf__fail(
        err, HF_BUSY,
        "%s: no connection is free for this handler, which has %zu, and hf_checkout does not wait: the subscription declares "
        "handler_connections %zu on a pool_size of %zu; declare as many as a handler takes, and raise pool_size or leave it out",
        handler->table->display, request->has, handler->options.handler_connections, runtime->pool_size);
}

/* Locked: waits for one of the rest. */
static hf_status wait_for_turn(struct request *request, hf_error *err)
{
    struct hf__lending *lending = request->lending;
    struct hf__borrower me = {.granted = false};
    hf_status status = hf__sleeper_init(&me.sleeper, err);
    if (status != HF_OK)
        return status;
    TAILQ_INSERT_TAIL(&lending->queue, &me, entry);
    while (!me.granted && !lending->shut && hf__sleep(&me.sleeper, &lending->lock, request->deadline))
        continue;
    if (!me.granted)
        TAILQ_REMOVE(&lending->queue, &me, entry);
    hf__sleeper_destroy(&me.sleeper);
    request->counted = me.granted;
    if (me.granted || lending->shut)
        return HF_OK;
    return hf__fail(err, HF_TIMEOUT, "no connection came free in time: all %zu that the pool can lend are out; raise pool_size",
                    for_others(lending));
}

/* Locked: counts it, if it may be lent. */
static hf_status count(struct request *request, const struct hf_runtime *runtime, hf_error *err)
{
    struct hf__lending *lending = request->lending;
    bool free_one = TAILQ_EMPTY(&lending->queue) && lending->n_others < for_others(lending);
    if (request->declared)
        lending->n_declared++;
    else if (free_one)
        lending->n_others++;
    else if (request->waits)
        return wait_for_turn(request, err);
    else
        return fail_busy(request, runtime, err);
    request->counted = true;
    return HF_OK;
}

static hf_status admit(struct request *request, const struct hf_runtime *runtime, hf_error *err)
{
    struct hf__lending *lending = request->lending;
    pthread_mutex_lock(&lending->lock);
    judge(request);
    hf_status status = lending->shut ? HF_OK : count(request, runtime, err);
    if (status == HF_OK && lending->shut) {
        status = hf__fail(err, HF_STOPPED, "the runtime has been stopped");
        if (request->counted)
            put_back(lending, request->declared);
    }
    pthread_mutex_unlock(&lending->lock);
    return status;
}

/* ---- the calls ---- */

/* Gets it from the pool: waits there too, or takes what is free. */
static hf_status acquire(const struct request *request, struct hf_runtime *runtime, struct hf__checkout **out, hf_error *err)
{
    struct hf__pool *pool;
    hf_status status = hf__runtime_connect_pool(runtime, &pool, err);
    if (status != HF_OK)
        return status;
    if (request->waits && !hf__passed(request->deadline))
        return hf__pool_acquire(pool, HF__PURPOSE_HANDLER, request->deadline, out, err);
    status = hf__pool_try_acquire(pool, HF__PURPOSE_HANDLER, hf__runtime_deadline(runtime), out, err);
    if (status != HF_OK || *out)
        return status;
    if (request->waits)
        return hf__fail(err, HF_TIMEOUT, "no connection is free now, and the time limit is 0");
    return fail_busy(request, runtime, err);
}

static void lend(const struct request *request, struct hf_connection *connection)
{
    connection->thread = this_thread();
    connection->declared = request->declared;
    hf__checkout_touched(connection->checkout);
    pthread_mutex_lock(&request->lending->lock);
    TAILQ_INSERT_TAIL(&request->lending->lent, connection, entry);
    pthread_mutex_unlock(&request->lending->lock);
}

static hf_status check_out(struct hf_runtime *runtime, int64_t timeout_ms, struct hf_connection *connection, hf_error *err)
{
    const struct hf_subscription *handler = hf__in_handler(runtime) ? hf__handler_of() : NULL;
    struct request request = {.lending = &runtime->lending, .handler = handler, .deadline = hf__after_ms(timeout_ms)};
    hf_status status = admit(&request, runtime, err);
    if (status != HF_OK)
        return status;
    status = acquire(&request, runtime, &connection->checkout, err);
    if (status == HF_OK) {
        lend(&request, connection);
        return HF_OK;
    }
    pthread_mutex_lock(&runtime->lending.lock);
    put_back(&runtime->lending, request.declared);
    pthread_mutex_unlock(&runtime->lending.lock);
    return status;
}

hf_status hf_checkout(hf_runtime *runtime, int64_t timeout_ms, hf_connection **out, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status != HF_OK)
        return status;
    if (!out)
        return hf__fail(err, HF_INVALID, "hf_checkout needs a place for the connection");
    struct hf_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return hf__fail_memory(err);
    connection->runtime = runtime;
    status = check_out(runtime, timeout_ms, connection, err);
    if (status == HF_OK)
        *out = connection;
    else
        free(connection);
    return status;
}

/* The counts come last: when all is back the runtime may be freed. */
void hf_connection_return(hf_connection *connection)
{
    if (!connection || hf__runtime_usable(connection->runtime, NULL) != HF_OK)
        return;
    struct hf__lending *lending = &connection->runtime->lending;
    hf__pool_release(connection->checkout);
    pthread_mutex_lock(&lending->lock);
    TAILQ_REMOVE(&lending->lent, connection, entry);
    put_back(lending, connection->declared);
    pthread_mutex_unlock(&lending->lock);
    free(connection);
}

void *hf__connection_native(hf_connection *connection, enum hf__database database)
{
    if (!connection || connection->runtime->url->database != database || hf__runtime_usable(connection->runtime, NULL) != HF_OK)
        return NULL;
    return hf__conn_native(hf__checkout_conn(connection->checkout));
}
