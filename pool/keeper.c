/* The keeper: one thread for each pool, which watches the pinned connections and closes idle ones that are too old. It sleeps until
 * something is due, for ever when nothing is pinned and nothing is idle. */
#include <signal.h>

#include "pool_inner.h"

#define PING_MS 2000

/* The slot is PINGING, so nobody else touches its connection, and unpin waits until we are done, the call of lost included. */
static void watch(struct hf__pool *pool, struct hf__slot *slot, bool ping)
{
    struct hf__checkout *checkout = hf__checkout_of(slot);
    pthread_mutex_unlock(&pool->mutex);
    bool alive = hf__conn_alive(slot->conn);
    if (alive && ping) {
        hf_status status = hf__conn_ping(slot->conn, hf__after_ms(PING_MS), NULL);
        alive = status == HF_OK || !slot->conn->lost; /* a refused ping is an answer too */
    }
    if (!alive && checkout->lost != NULL) {
        checkout->lost(checkout->lost_ctx);
    }
    pthread_mutex_lock(&pool->mutex);
    hf__core_watched(&pool->core, slot, alive, ping, hf__monotonic_ns());
    pthread_cond_signal(&checkout->watched);
}

static bool work(struct hf__pool *pool)
{
    bool ping;
    int64_t now = hf__monotonic_ns();
    struct hf__slot *slot = hf__core_watch(&pool->core, &ping, now);
    if (slot != NULL) {
        watch(pool, slot, ping);
        return true;
    }
    slot = hf__core_reap(&pool->core, now);
    if (slot != NULL) {
        hf__pool_close_slot(pool, slot);
        return true;
    }
    return false;
}

static void *keep(void *arg)
{
    struct hf__pool *pool = arg;
    if (pool->driver->thread_begin != NULL) {
        pool->driver->thread_begin();
    }
    pthread_mutex_lock(&pool->mutex);
    while (!pool->keeper_stops) {
        if (!work(pool)) {
            pool->keeper_wakes_ns = hf__core_due(&pool->core);
            (void)hf__cond_wait(&pool->keep, &pool->mutex, hf__at_ns(pool->keeper_wakes_ns)); /* work() looks at the time itself */
            pool->keeper_wakes_ns = INT64_MIN;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    if (pool->driver->thread_end != NULL) {
        pool->driver->thread_end();
    }
    return NULL;
}

/* The signals of the host program are its own threads' business; only the faults of this thread are this thread's. */
static void all_but_faults(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)sigdelset(set, faults[i]);
    }
}

int hf__keeper_start(struct hf__pool *pool)
{
    sigset_t blocked;
    sigset_t before;
    all_but_faults(&blocked);
    int rc = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (rc != 0) {
        return rc;
    }
    rc = pthread_create(&pool->keeper, NULL, keep, pool);
    int restored = pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0 && restored != 0) {
        hf__keeper_stop(pool);
    }
    return rc != 0 ? rc : restored;
}

void hf__keeper_stop(struct hf__pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->keeper_stops = true;
    pthread_cond_signal(&pool->keep);
    pthread_mutex_unlock(&pool->mutex);
    (void)pthread_join(pool->keeper, NULL);
}
