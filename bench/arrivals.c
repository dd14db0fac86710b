#include "bench/arrivals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/deadline.h"
#include "pool/error.h"

enum { MOST_AT_ONCE = 1000 };

struct bench_arrivals {
    hf_runtime *runtime;
    const hf_table *table;
    const struct bench_workload *workload;
    struct bench_tally *tally;
    int64_t origin_ns;
    pthread_t thread;
    hf_status status; /* the thread's, until it has ended, as those below */
    hf_error err;
    size_t added;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop; /* under lock */
};

/* Waits until the next job is due. False: stop. */
static bool wait_for_job(struct bench_arrivals *arrivals)
{
    struct hf__deadline due = hf__at_ns(arrivals->origin_ns + arrivals->workload->jobs[arrivals->added].due_ns);
    pthread_mutex_lock(&arrivals->lock);
    while (!arrivals->stop && hf__cond_wait(&arrivals->changed, &arrivals->lock, due))
        ;
    bool stop = arrivals->stop;
    pthread_mutex_unlock(&arrivals->lock);
    return !stop;
}

static size_t due_now(const struct bench_arrivals *arrivals)
{
    int64_t now_ns = hf__monotonic_ns() - arrivals->origin_ns;
    size_t n = 0;
    while (n < MOST_AT_ONCE && arrivals->added + n < arrivals->workload->n &&
           arrivals->workload->jobs[arrivals->added + n].due_ns <= now_ns)
        n++;
    return n;
}

static bool add_due(struct bench_arrivals *arrivals)
{
    size_t n = due_now(arrivals);
    if (n == 0)
        return true;
    arrivals->status =
        bench_table_add(arrivals->runtime, arrivals->table, arrivals->workload, arrivals->added, n, arrivals->origin_ns, &arrivals->err);
    if (arrivals->status != HF_OK)
        return false;
    arrivals->added += n;
    for (size_t i = 0; i < arrivals->tally->n_parts; i++)
        bench_event(arrivals->tally->parts[i].wake_fd);
    return true;
}

static void *arrive(void *arg)
{
    struct bench_arrivals *arrivals = arg;
    while (arrivals->added < arrivals->workload->n && wait_for_job(arrivals))
        if (!add_due(arrivals)) {
            bench_tally_stop(arrivals->tally);
            break;
        }
    return NULL;
}

static void destroy(struct bench_arrivals *arrivals)
{
    pthread_cond_destroy(&arrivals->changed);
    pthread_mutex_destroy(&arrivals->lock);
    free(arrivals);
}

hf_status bench_arrivals_begin(hf_runtime *runtime, const hf_table *table, const struct bench_workload *workload, struct bench_tally *tally,
                               struct bench_arrivals **out, hf_error *err)
{
    struct bench_arrivals *arrivals = calloc(1, sizeof *arrivals);
    if (!arrivals)
        return hf__fail_memory(err);
    arrivals->runtime = runtime;
    arrivals->table = table;
    arrivals->workload = workload;
    arrivals->tally = tally;
    arrivals->origin_ns = hf__monotonic_ns();
    pthread_mutex_init(&arrivals->lock, NULL);
    hf__cond_init(&arrivals->changed);
    int failed = pthread_create(&arrivals->thread, NULL, arrive, arrivals);
    if (failed) {
        destroy(arrivals);
        return hf__fail(err, HF_SYSTEM, "cannot start a thread: %s", strerror(failed));
    }
    *out = arrivals;
    return HF_OK;
}

hf_status bench_arrivals_end(struct bench_arrivals *arrivals, size_t *added, hf_error *err)
{
    if (!arrivals)
        return HF_OK;
    pthread_mutex_lock(&arrivals->lock);
    arrivals->stop = true;
    pthread_cond_signal(&arrivals->changed);
    pthread_mutex_unlock(&arrivals->lock);
    pthread_join(arrivals->thread, NULL);
    hf_status status = arrivals->status;
    if (status != HF_OK && err)
        *err = arrivals->err;
    *added = arrivals->added;
    destroy(arrivals);
    return status;
}
