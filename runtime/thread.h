/* Threads of the library, and how they wait: every waiting thread has a condition of its own, so a wake-up can neither be
 * taken by another thread nor get lost among several (glibc issue 25847), and whoever waited longest is woken first. */
#ifndef HF_RUNTIME_THREAD_H
#define HF_RUNTIME_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "pool/deadline.h"
#include "pool/error.h"

struct hf_runtime;
struct hf_subscription;

/* One thread's place to sleep. Guarded by the mutex that it is used with. */
struct hf__sleeper {
    pthread_cond_t cond;
    bool woken; /* set by wake, cleared by sleep: a wake-up before the sleep is not lost */
};
HF_CHECKED hf_status hf__sleeper_init(struct hf__sleeper *sleeper, hf_error *err);
void hf__sleeper_destroy(struct hf__sleeper *sleeper);
/* Sleeps until woken or the deadline. False once the deadline has passed without a wake-up. */
bool hf__sleep(struct hf__sleeper *sleeper, pthread_mutex_t *mutex, struct hf__deadline deadline);
void hf__rouse(struct hf__sleeper *sleeper); /* under the mutex */

/* A place where any number of threads wait for "something changed". Guarded by one mutex. */
struct hf__gate_waiter;
struct hf__gate {
    TAILQ_HEAD(hf__gate_waiters, hf__gate_waiter) waiters;
};
void hf__gate_init(struct hf__gate *gate);
/* Waits for the next wake-up or the deadline (false; so too where no condition can be made). */
bool hf__gate_wait(struct hf__gate *gate, pthread_mutex_t *mutex, struct hf__deadline deadline);
void hf__gate_wake(struct hf__gate *gate); /* under the mutex */

/* Starts run(arg) in a thread that blocks all signals but the faults and calls the user's thread_start and thread_stop. */
HF_CHECKED hf_status hf__thread_start(struct hf_runtime *runtime, pthread_t *out, void (*run)(void *arg), void *arg, hf_error *err);

/* True in a thread that is running a handler (or a callback of a delivery) of the runtime. */
bool hf__in_handler(const struct hf_runtime *runtime);
/* The subscription whose handler (or callback) this thread runs; NULL: none. */
const struct hf_subscription *hf__handler_of(void);
/* Marks this thread; returns the mark before, to be set again afterwards. */
const struct hf_subscription *hf__mark_handler(const struct hf_subscription *subscription);

#endif
