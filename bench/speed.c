/* The speed of the database, measured in runs of their own.
 *
 * A database that is asked without a break answers faster than one that is asked now and then: commits share a flush, and nothing falls
 * asleep. So where handlers take time, those of these runs pause as well, though not for long. The ledger says how long a connection
 * claimed and settled for each job: R, the time in the database, connecting left out. A delivery finds 1 + (W - 1) R / (P + R) of them
 * there, itself included (the arrival theorem; W workers, pauses of P), and the speed at that number n is n / R.
 * A lease's workers wait neither for a claim nor for a settle, so there it is the throughput with W of them and without pauses. */
#include <math.h>
#include <stdlib.h>

#include "bench/plan.h"
#include "bench/run.h"
#include "pool/error.h"

#define SECONDS_EACH 0.7
#define PAUSE_MOST_MS 5
enum { FIRST_JOBS = 200, MOST_JOBS = 20000 };

/* Jobs of less than a second, as fast as they went last time. */
static size_t jobs_at(double jobs_per_second, size_t workers)
{
    double jobs = jobs_per_second * SECONDS_EACH, least = (double)workers * 4;
    jobs = jobs < FIRST_JOBS ? FIRST_JOBS : jobs > MOST_JOBS ? MOST_JOBS : jobs;
    return (size_t)(jobs < least ? least : jobs);
}

static double pause_of(const struct bench_options *options)
{
    return options->strategy == HF_LEASE ? 0 : fmin(bench_distribution_mean(&options->handler), PAUSE_MOST_MS);
}

/* Pauses of one length make the workers walk in step, and ask the database for more at once than workers who do not. */
static enum bench_law law_of(const struct bench_options *options)
{
    return bench_distribution_scv(&options->handler) > 0 ? BENCH_EXPONENTIAL : BENCH_CONSTANT;
}

/* Under row lock and advisory lock a batch is claimed, handled and settled as one. */
static double jobs_in_one(const struct bench_options *options)
{
    return options->batch > 1 && options->strategy != HF_LEASE ? (double)options->batch : 1;
}

/* Milliseconds that a connection was out for each job; less those of the handler, where it was held meanwhile. */
static double inside_of(const struct bench_options *options, const struct bench_result *result)
{
    double held = result->held_mean > 0 ? pause_of(options) : 0, out = 1000 * result->seconds_per_job;
    return fmax(out - held, out / 1000) * jobs_in_one(options);
}

static struct bench_speed speed_of(const struct bench_options *options, const struct bench_result *result)
{
    double workers = (double)result->workers, batch = jobs_in_one(options);
    if (options->strategy == HF_LEASE)
        return (struct bench_speed){workers, result->jobs_per_second};
    double inside = inside_of(options, result), n = 1 + (workers - 1) * inside / (inside + pause_of(options) * batch);
    return (struct bench_speed){n, 1000 * n * batch / inside};
}

/* *jobs_per_second: how fast it went last time, and how fast this time. */
static hf_status measure(const struct bench_options *options, size_t workers, double *jobs_per_second, struct bench_speed *speed,
                         hf_error *err)
{
    char pause[] = "pause";
    struct bench_options these = *options;
    struct bench_result result = {.crash_ms = -1};
    these.workers = workers;
    these.jobs = jobs_at(*jobs_per_second, workers);
    these.processes = 1;
    these.rate = 0;
    these.fail = 0;
    these.raw = false;
    these.handler = (struct bench_distribution){.law = law_of(options), .a_ms = pause_of(options), .text = pause};
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK && (result.jobs_per_second <= 0 || result.seconds_per_job <= 0))
        status = hf__fail(err, HF_DATABASE, "the speed of the database could not be measured: no job was done");
    if (status == HF_OK)
        *speed = speed_of(options, &result);
    *jobs_per_second = result.jobs_per_second;
    bench_result_free(&result);
    return status;
}

hf_status bench_speed_measure(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err)
{
    enum { DOUBLINGS = 66 }; /* of a size_t, and the number itself */
    struct bench_speed *speed = calloc(DOUBLINGS, sizeof *speed);
    double last = 0;
    *out = NULL;
    *n = 0;
    if (!speed)
        return hf__fail_memory(err);
    workers = workers ? workers : 1;
    struct bench_speed next = {0, 0};
    hf_status status = measure(options, 1, &last, &next, err); /* warms up, and says how many jobs such a run has */
    for (size_t at = 1; status == HF_OK; at = at > workers / 2 ? workers : at * 2) {
        status = measure(options, at, &last, &next, err);
        if (status != HF_OK)
            break;
        *n -= *n > 0 && next.n <= speed[*n - 1].n; /* by chance: then the later, larger run is believed */
        speed[(*n)++] = next;
        if (at == workers)
            break;
    }
    if (status == HF_OK)
        *out = speed;
    else
        free(speed);
    return status;
}
