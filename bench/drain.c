#include "bench/drain.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/ledger_read.h"
#include "bench/workload.h"
#include "pool/deadline.h"
#include "pool/error.h"
#include "runtime/command_common.h"

enum { SAMPLE_MS = 10, STOP_STEP_MS = 1000, LONG_HANDLER_MS = 100, WARM_EACH = 8 };

struct work {
    const struct bench_drain *drain;
    hf_runtime *runtime;
    atomic_llong begin_ns; /* the first claim possible; 0: not yet */
    pthread_mutex_t lock;  /* of the part's histograms */
    int64_t sample_ms;
    struct bench_moment sampled; /* last */
    struct bench_moment opened;  /* when the last connection so far was opened */
    atomic_llong handled_ns;     /* in handlers */
};

/* ---- handlers ---- */

static void note_begin(struct work *work, int64_t now_ns)
{
    long long before = 0;
    atomic_compare_exchange_strong(&work->begin_ns, &before, now_ns);
}

static void spend(hf_delivery *delivery, int64_t until_ns)
{
    int64_t left_ns = until_ns - hf__monotonic_ns();
    if (left_ns > LONG_HANDLER_MS * INT64_C(1000000) && hf_delivery_wait(delivery, left_ns / 1000000) != HF_NOT_CANCELLED)
        return;
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static bool job_of(const struct work *work, const hf_delivery *delivery, size_t *seq, struct bench_job *job)
{
    return bench_payload_read(hf_delivery_payload(delivery, NULL), seq, job) && *seq < work->drain->tally->n_jobs;
}

static hf_outcome handle(struct work *work, hf_delivery *delivery, int64_t called_ns)
{
    struct bench_tally *tally = work->drain->tally;
    struct bench_job job;
    size_t seq;
    if (!job_of(work, delivery, &seq, &job))
        return HF_REJECT;
    int64_t now_ns = hf__monotonic_ns();
    note_begin(work, now_ns);
    unsigned run = bench_tally_begun(tally, seq, now_ns);
    atomic_store(&tally->jobs[seq].called_ns, called_ns);
    if (job.handler_ns > 0)
        spend(delivery, now_ns + job.handler_ns);
    atomic_fetch_add(&work->handled_ns, hf__monotonic_ns() - now_ns);
    if (hf_delivery_cancelled(delivery) != HF_NOT_CANCELLED)
        return HF_RETRY;
    if (run > job.fail)
        return HF_ACK;
    atomic_fetch_add(&tally->failed, 1);
    return HF_RETRY;
}

static hf_outcome handle_one(hf_delivery *delivery, void *ctx)
{
    return handle(ctx, delivery, hf__monotonic_ns());
}

static void handle_batch(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    int64_t called_ns = hf__monotonic_ns();
    for (size_t i = 0; i < n; i++)
        (void)hf_delivery_set_outcome(deliveries[i], handle(ctx, deliveries[i], called_ns));
}

static void on_settled(hf_delivery *delivery, hf_outcome outcome, hf_status status, void *ctx)
{
    struct work *work = ctx;
    struct bench_part *part = work->drain->part;
    struct bench_job job;
    size_t seq;
    if (!job_of(work, delivery, &seq, &job))
        return;
    int64_t now_ns = hf__monotonic_ns();
    if (status == HF_OK && outcome == HF_ACK) {
        int64_t due_ns = job.due_ns > 0 ? job.due_ns : atomic_load(&work->begin_ns);
        int64_t begun_ns = atomic_load(&work->drain->tally->jobs[seq].begun_ns),
                called_ns = atomic_load(&work->drain->tally->jobs[seq].called_ns);
        pthread_mutex_lock(&work->lock);
        hf__histogram_record(&part->start, (called_ns - due_ns) / 1000);
        hf__histogram_record(&part->latency, (now_ns - due_ns) / 1000);
        hf__histogram_record(&part->delivery, (now_ns - begun_ns) / 1000);
        pthread_mutex_unlock(&work->lock);
    }
    bench_tally_settled(work->drain->tally, seq, outcome, status);
}

/* ---- the runtime ---- */

static void log_line(void *ctx, hf_log_level level, const char *message)
{
    if (level != HF_LOG_INFO)
        hf__command_log(ctx, level, message);
}

static void log_error_line(void *ctx, hf_log_level level, const char *message)
{
    if (level == HF_LOG_ERROR)
        hf__command_log(ctx, level, message);
}

static hf_status subscribe(struct work *work, hf_error *err)
{
    const struct bench_options *options = work->drain->options;
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    subscription.workers = options->workers;
    subscription.batch = options->batch;
    subscription.on_settled = on_settled;
    work->drain->part->cost = (hf_cost)HF_COST_INIT;
    hf_status status = hf_cost_for(work->runtime, work->drain->table, &subscription, &work->drain->part->cost, err);
    if (status != HF_OK)
        return status;
    return options->batch > 1 ? hf_subscribe_batch(work->runtime, work->drain->table, &subscription, handle_batch, work, NULL, err)
                              : hf_subscribe(work->runtime, work->drain->table, &subscription, handle_one, work, NULL, err);
}

static hf_status open_runtime(struct work *work, hf_error *err)
{
    hf_runtime_options runtime = HF_RUNTIME_OPTIONS_INIT;
    runtime.pool_size = work->drain->options->pool;
    runtime.application_name = work->drain->name;
    runtime.log = work->drain->options->quiet ? log_error_line : log_line;
    hf_status status = hf_runtime_open(work->drain->options->url, &runtime, &work->runtime, err);
    if (status == HF_OK)
        status = subscribe(work, err);
    if (status == HF_OK)
        status = hf_runtime_start(work->runtime, err);
    note_begin(work, hf__monotonic_ns());
    return status;
}

/* ---- waiting, with an eye on the ledger ---- */

/* A connection is slow at first: the server loads its catalog, and PostgreSQL plans a prepared statement anew for the first five times. At
 * the end nothing is steady once there is no row for each worker and, under a lease, one ahead of it. */
static void mark_steady(struct work *work, const struct bench_moment *now)
{
    struct bench_part *part = work->drain->part;
    const struct bench_tally *tally = work->drain->tally;
    size_t batch = work->drain->options->batch, at_once = part->cost.workers * tally->n_parts * (batch > 1 ? batch : 1);
    if (now->open > work->opened.open)
        work->opened = *now;
    if (part->steady_from.at_ns == 0 && now->done - work->opened.done >= at_once * WARM_EACH)
        part->steady_from = *now;
    else if (part->steady_from.at_ns != 0 && now->done + 2 * at_once <= tally->n_jobs)
        part->steady_to = *now;
}

static struct bench_moment moment_of(struct work *work)
{
    return (struct bench_moment){.at_ns = hf__monotonic_ns(),
                                 .done = atomic_load(&work->drain->tally->done),
                                 .handled_seconds = (double)atomic_load(&work->handled_ns) / 1e9};
}

static int64_t next_sample_ns(const struct work *work)
{
    return work->sampled.at_ns + work->sample_ms * 1000000;
}

/* Where it is full one is made of two. */
static struct bench_sample *next_sample(struct work *work)
{
    struct bench_part *part = work->drain->part;
    if (part->n_samples == BENCH_PART_SAMPLES) {
        part->n_samples = bench_samples_halve(part->samples, part->n_samples);
        work->sample_ms *= 2;
    }
    return &part->samples[part->n_samples++];
}

static void sample(struct work *work)
{
    struct bench_moment now = moment_of(work);
    unsigned held = 0;
    if (now.at_ns < next_sample_ns(work))
        return;
    if (!bench_ledger_sample(work->runtime, &held, &now)) {
        work->sampled.at_ns = now.at_ns; /* out of memory: perhaps not the next time */
        return;
    }
    struct bench_sample *next = next_sample(work);
    *next = (struct bench_sample){.seconds = (double)(now.at_ns - atomic_load(&work->begin_ns)) / 1e9, .held = held};
    for (size_t i = 0; i < BENCH_SERIES_PURPOSES; i++)
        next->in_use[i] = (now.seconds[i] - work->sampled.seconds[i]) * 1e9 / (double)(now.at_ns - work->sampled.at_ns);
    work->sampled = now;
    mark_steady(work, &now);
}

static void pass_wake(struct work *work)
{
    uint64_t times;
    if (read(work->drain->part->wake_fd, &times, sizeof times) == sizeof times)
        hf_wake(work->runtime, work->drain->table);
}

/* True: all done. */
static bool wait_for_end(struct work *work)
{
    const struct bench_drain *drain = work->drain;
    struct pollfd fds[] = {{.fd = drain->tally->done_fd, .events = POLLIN},
                           {.fd = drain->tally->stop_fd, .events = POLLIN},
                           {.fd = drain->watched_fd, .events = POLLIN},
                           {.fd = drain->part->wake_fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, sizeof fds / sizeof *fds, hf__left_poll_ms(hf__at_ns(next_sample_ns(work))));
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0 && fds[0].revents)
            return true;
        if (ready > 0 && (fds[1].revents || fds[2].revents))
            return false;
        if (ready > 0 && fds[3].revents)
            pass_wake(work);
        sample(work);
        if (drain->tick)
            drain->tick(drain->ctx);
    }
}

static hf_status stop(struct work *work, bool all_done, hf_error *err)
{
    hf_status status = hf_runtime_stop(work->runtime, all_done ? STOP_STEP_MS : 0, NULL, err);
    while (status == HF_TIMEOUT)
        status = hf_runtime_stop(work->runtime, STOP_STEP_MS, NULL, err);
    return status;
}

/* What the ledger says is read when the last job is done; in a run that is broken off, when its last handler has ended. */
static hf_status work_off(struct work *work, hf_error *err)
{
    struct bench_part before = {.n_purposes = 0};
    unsigned held = 0;
    hf_status status = bench_ledger_read(work->runtime, &before, err);
    if (status != HF_OK)
        return status;
    if (work->drain->begun)
        work->drain->begun(work->drain->ctx);
    work->sampled = moment_of(work);
    (void)bench_ledger_sample(work->runtime, &held, &work->sampled);
    bool all_done = wait_for_end(work);
    if (all_done)
        status = bench_ledger_read(work->runtime, work->drain->part, err);
    hf_status stopped = stop(work, all_done, status == HF_OK ? err : NULL);
    if (status == HF_OK)
        status = stopped;
    if (!all_done && status == HF_OK)
        status = bench_ledger_read(work->runtime, work->drain->part, err);
    bench_ledger_subtract(work->drain->part, &before);
    work->drain->part->handled_seconds = (double)atomic_load(&work->handled_ns) / 1e9;
    if (status == HF_OK && !all_done)
        return hf__fail(err, HF_STOPPED, "the run was broken off");
    return status;
}

hf_status bench_drain_run(const struct bench_drain *drain)
{
    struct bench_part *part = drain->part;
    struct work work = {.drain = drain, .sample_ms = SAMPLE_MS};
    pthread_mutex_init(&work.lock, NULL);
    part->status = open_runtime(&work, &part->err);
    if (part->status == HF_OK)
        part->status = work_off(&work, &part->err);
    part->begin_ns = atomic_load(&work.begin_ns);
    hf_runtime_close(work.runtime);
    pthread_mutex_destroy(&work.lock);
    return part->status;
}
