/* The threaded pool's own structures, shared by pool.c, acquire.c and keeper.c. */
#ifndef HF_POOL_INNER_H
#define HF_POOL_INNER_H

#include <pthread.h>

#include "pool_core.h"

struct hf__checkout {
    struct hf__slot slot;
    struct hf__pool *pool;
    bool touched, pinned;   /* the owner's */
    pthread_cond_t watched; /* the keeper is done with it; at most one thread waits, in unpin */
    void (*lost)(void *ctx);
    void *lost_ctx;
};

struct hf__pool {
    /* Never changes after hf__pool_open. */
    const struct hf__driver *driver;
    const struct hf__url *url;
    struct hf__session_options session;
    char *application_name;
    void (*event)(void *ctx, const char *message);
    void *event_ctx;
    pid_t owner; /* a forked child has no keeper, and connections that are not its own */
    pthread_t keeper;

    struct hf__traffic traffic; /* its connections count into it, without the mutex */

    pthread_mutex_t mutex; /* guards all below, and every slot. A leaf: nothing is called and no lock is taken under it */
    struct hf__core core;
    size_t callers;          /* threads inside acquire, which may still use the pool after their waiter has its answer */
    hf_error last_failure;   /* of a connect; what those who waited for its end are told */
    pthread_cond_t drained;  /* broadcast when nothing is out */
    pthread_cond_t keep;     /* wakes the keeper, who alone waits on it */
    int64_t keeper_wakes_ns; /* when it wakes by itself; INT64_MIN while it is awake */
    bool keeper_stops;
};

/* All of these are called with the mutex held. */
struct hf__checkout *hf__checkout_of(struct hf__slot *slot);
void hf__pool_close_slot(struct hf__pool *pool, struct hf__slot *slot); /* a CLOSING one; drops the mutex meanwhile */
void hf__pool_changed(struct hf__pool *pool);                           /* something came back, or a caller left */
void hf__pool_keep_by(struct hf__pool *pool, int64_t at_ns);            /* the keeper must be awake at this time */
void hf__pool_reap(struct hf__pool *pool);                              /* closes every idle connection that must go; drops the mutex */

void hf__caller_wake(struct hf__waiter *waiter); /* the core calls it for a waiter of acquire.c */

void hf__pool_tell(const struct hf__pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3))); /* without the mutex */

/* Returns 0 or an errno value. */
int hf__keeper_start(struct hf__pool *pool);
void hf__keeper_stop(struct hf__pool *pool);

#endif
