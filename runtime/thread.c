#include "runtime/thread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/subscription.h"

struct hf__gate_waiter {
    TAILQ_ENTRY(hf__gate_waiter) entry;
    struct hf__sleeper sleeper;
};

struct start {
    struct hf_runtime *runtime;
    void (*run)(void *arg);
    void *arg;
};

static _Thread_local const struct hf_subscription *handler_of;

hf_status hf__sleeper_init(struct hf__sleeper *sleeper, hf_error *err)
{
    int failed = hf__cond_init(&sleeper->cond);
    sleeper->woken = false;
    return failed ? hf__fail(err, HF_SYSTEM, "cannot make a condition variable: %s", strerror(failed)) : HF_OK;
}

void hf__sleeper_destroy(struct hf__sleeper *sleeper)
{
    pthread_cond_destroy(&sleeper->cond);
}

bool hf__sleep(struct hf__sleeper *sleeper, pthread_mutex_t *mutex, struct hf__deadline deadline)
{
    bool in_time = true;
    while (!sleeper->woken && in_time)
        in_time = hf__cond_wait(&sleeper->cond, mutex, deadline);
    bool woken = sleeper->woken;
    sleeper->woken = false;
    return woken;
}

void hf__rouse(struct hf__sleeper *sleeper)
{
    sleeper->woken = true;
    pthread_cond_signal(&sleeper->cond);
}

void hf__gate_init(struct hf__gate *gate)
{
    TAILQ_INIT(&gate->waiters);
}

bool hf__gate_wait(struct hf__gate *gate, pthread_mutex_t *mutex, struct hf__deadline deadline)
{
    struct hf__gate_waiter waiter;
    if (hf__sleeper_init(&waiter.sleeper, NULL) != HF_OK)
        return false;
    TAILQ_INSERT_TAIL(&gate->waiters, &waiter, entry);
    bool woken = hf__sleep(&waiter.sleeper, mutex, deadline);
    TAILQ_REMOVE(&gate->waiters, &waiter, entry);
    hf__sleeper_destroy(&waiter.sleeper);
    return woken;
}

void hf__gate_wake(struct hf__gate *gate)
{
    struct hf__gate_waiter *waiter;
    TAILQ_FOREACH (waiter, &gate->waiters, entry)
        hf__rouse(&waiter->sleeper);
}

/* Signals are the host program's: its own threads take them. The faults must stay open, or the kernel kills without a word. */
static void only_faults(sigset_t *set)
{
    sigfillset(set);
    sigdelset(set, SIGSEGV);
    sigdelset(set, SIGBUS);
    sigdelset(set, SIGFPE);
    sigdelset(set, SIGILL);
    sigdelset(set, SIGTRAP);
    sigdelset(set, SIGABRT);
    sigdelset(set, SIGSYS);
}

static void *thread_main(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    const struct hf_runtime_options *options = &start.runtime->options;
    enum hf__database database = start.runtime->url->database;
    if (options->thread_start)
        options->thread_start(options->thread_ctx);
    hf__driver_thread_begin(database);
    start.run(start.arg);
    hf__driver_thread_end(database);
    if (options->thread_stop)
        options->thread_stop(options->thread_ctx);
    return NULL;
}

hf_status hf__thread_start(struct hf_runtime *runtime, pthread_t *out, void (*run)(void *arg), void *arg, hf_error *err)
{
    struct start *start = malloc(sizeof *start);
    if (!start)
        return hf__fail_memory(err);
    *start = (struct start){runtime, run, arg};
    sigset_t blocked, before;
    only_faults(&blocked);
    int failed = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (!failed) {
        failed = pthread_create(out, NULL, thread_main, start);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!failed)
        return HF_OK;
    free(start);
    return hf__fail(err, HF_SYSTEM, "cannot start a thread: %s", strerror(failed));
}

bool hf__in_handler(const struct hf_runtime *runtime)
{
    return handler_of && handler_of->runtime == runtime;
}

const struct hf_subscription *hf__handler_of(void)
{
    return handler_of;
}

const struct hf_subscription *hf__mark_handler(const struct hf_subscription *subscription)
{
    const struct hf_subscription *before = handler_of;
    handler_of = subscription;
    return before;
}
