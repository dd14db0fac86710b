/* The speed of the database, measured in runs of their own.
 *
 * A database that is asked without a break answers faster than one that is asked now and then: commits share a flush, and nothing falls
 * asleep. So where handlers take time, those of these runs pause as well, though not for long. W workers that do X jobs a second
 * go round in W / X (Little's law); what is not a pause of that is R, the time in the database. A delivery finds 1 + (W - 1) R X / W of
 * them there, itself included (the arrival theorem), and the speed at that number n is n / R. Counted is the steady part.
 * A lease's workers wait neither for a claim nor for a settle, so there it is the throughput with W of them and without pauses. */
#include <math.h>
#include <stdlib.h>

#include "bench/plan.h"
#include "bench/run.h"
#include "pool/error.h"

#define SECONDS_EACH 1.0
#define PAUSE_MOST_MS 5
enum { FIRST_JOBS = 100, MOST_JOBS = 50000, JOBS_EACH = 8, START_EACH = 32, ROUNDS = 3 };

/* Jobs for so many seconds, as fast as they went last time. */
static size_t jobs_at(double jobs_per_second, size_t workers)
{
    double jobs = jobs_per_second * SECONDS_EACH, least = (double)workers * JOBS_EACH;
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

/* Milliseconds for each job that a connection was held while the handler ran. */
static double held_ms(const struct bench_result *result)
{
    return result->steady.jobs_per_second > 0 ? 1000 * result->steady.held_mean / result->steady.jobs_per_second : 0;
}

/* Under advisory lock each row of a batch has its own connection, for as long as the batch is handled. */
static double connections_each(const struct bench_options *options)
{
    return options->strategy == HF_ADVISORY_LOCK ? bench_jobs_in_one(options) : 1;
}

/* A busy machine wakes a handler that sleeps late. Only where a connection is held meanwhile does that matter, and is seen. */
static double late_ms(const struct bench_options *options, const struct bench_result *result)
{
    double held = held_ms(result) / connections_each(options), pause = pause_of(options);
    return pause > 0 ? fmax(held - pause, 0) : 0;
}

static struct bench_speed speed_of(const struct bench_options *options, const struct bench_result *result)
{
    double workers = (double)result->workers, batch = bench_jobs_in_one(options);
    if (options->strategy == HF_LEASE)
        return (struct bench_speed){.n = workers, .jobs_per_second = result->steady.jobs_per_second};
    double late = late_ms(options, result), cycle = workers * batch * 1000 / result->steady.jobs_per_second;
    double inside = fmax(cycle - (pause_of(options) + late) * batch, cycle / 1000), n = 1 + (workers - 1) * inside / cycle;
    return (struct bench_speed){.n = n, .jobs_per_second = 1000 * n * batch / inside, .late_ms = late};
}

/* Like this run, but of so many workers, whose handlers pause, on a full table. Where jobs arrive one by one they do not come in batches,
 * and so they do not here. */
static struct bench_options pausing(const struct bench_options *options, size_t workers)
{
    static char text[] = "pause";
    struct bench_options these = *options;
    these.workers = workers;
    these.processes = 1;
    these.batch = options->rate > 0 ? 1 : options->batch;
    these.rate = 0;
    these.fail = 0;
    these.raw = false;
    these.handler = (struct bench_distribution){.law = law_of(options), .a_ms = pause_of(options), .text = text};
    return these;
}

/* A number of workers. */
struct size {
    size_t workers;
    double jobs_per_second; /* of its last run; 0: none yet */
    double variance;        /* of the number of workers in handlers, mean of the rounds */
    struct bench_speed rounds[ROUNDS];
};

static hf_status measure(const struct bench_options *options, struct size *size, struct bench_speed *speed, hf_error *err)
{
    struct bench_options these = pausing(options, size->workers);
    struct bench_result result = {.crash_ms = -1};
    these.jobs = bench_rows_at_once(&these) * START_EACH + jobs_at(size->jobs_per_second, size->workers);
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK && result.steady.jobs_per_second <= 0)
        status = hf__fail(err, HF_DATABASE, "the speed of the database could not be measured: no job was done");
    if (status == HF_OK)
        *speed = speed_of(options, &result);
    size->jobs_per_second = result.steady.jobs_per_second;
    size->variance += result.steady.held_variance / (connections_each(options) * connections_each(options)) / ROUNDS;
    bench_result_free(&result);
    return status;
}

/* With 1, 2, 4, ... workers, and with all. */
static size_t next_workers(size_t at, size_t most)
{
    return at > most / 2 ? most : at * 2;
}

static size_t count_sizes(size_t most)
{
    size_t n = 1;
    for (size_t at = 1; at < most; at = next_workers(at, most))
        n++;
    return n;
}

/* Rounds over all sizes, so that a disturbance of some seconds does not meet all that is measured of one. */
static hf_status measure_all(const struct bench_options *options, struct size *sizes, size_t n, hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n && status == HF_OK; i++) {
            if (sizes[i].jobs_per_second <= 0 && i > 0)
                sizes[i].jobs_per_second = sizes[i - 1].jobs_per_second;
            status = measure(options, &sizes[i], &sizes[i].rounds[round], err);
        }
    return status;
}

/* How many jobs such a run has: as fast as the first one went. */
static hf_status warm_up(const struct bench_options *options, struct size *sizes, hf_error *err)
{
    struct bench_speed speed;
    struct size one = {.workers = 1};
    hf_status status = measure(options, &one, &speed, err);
    sizes[0].jobs_per_second = one.jobs_per_second;
    return status;
}

static int by_speed(const void *a, const void *b)
{
    const struct bench_speed *left = a, *right = b;
    return (left->jobs_per_second > right->jobs_per_second) - (left->jobs_per_second < right->jobs_per_second);
}

/* The middle one of each size's rounds. Where by chance a size has fewer in the database than smaller ones, the larger is believed, and
 * the smaller ones are left out of `sizes`, too. */
static size_t gather(struct size *sizes, size_t n_sizes, struct bench_speed *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_sizes; i++) {
        qsort(sizes[i].rounds, ROUNDS, sizeof *sizes[i].rounds, by_speed);
        const struct bench_speed *middle = &sizes[i].rounds[ROUNDS / 2];
        while (n > 0 && middle->n <= out[n - 1].n)
            n--;
        out[n] = *middle;
        sizes[n++] = sizes[i];
    }
    return n;
}

/* What was measured of each size over what the law says of it, now that the law knows the speed. */
static hf_status put_spread(const struct bench_options *options, const struct size *sizes, struct bench_speed *speed, size_t n,
                            hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < n && status == HF_OK && pause_of(options) > 0; i++) {
        struct bench_options these = pausing(options, sizes[i].workers);
        struct bench_plan plan = {.advice = NULL};
        status = bench_plan_of(&these, speed, n, &plan, err);
        double by_law = plan.model.in_handler_variance;
        speed[i].spread = by_law > 0 ? sqrt(sizes[i].variance / by_law) : 1;
        bench_plan_free(&plan);
    }
    return status;
}

static hf_status measure_speed(const struct bench_options *options, struct size *sizes, size_t n_sizes, struct bench_speed *out, size_t *n,
                               hf_error *err)
{
    hf_status status = warm_up(options, sizes, err);
    if (status == HF_OK)
        status = measure_all(options, sizes, n_sizes, err);
    if (status != HF_OK)
        return status;
    *n = gather(sizes, n_sizes, out);
    return put_spread(options, sizes, out, *n, err);
}

hf_status bench_speed_measure(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err)
{
    size_t most = workers ? workers : 1, n_sizes = count_sizes(most);
    struct size *sizes = calloc(n_sizes, sizeof *sizes);
    struct bench_speed *speed = calloc(n_sizes, sizeof *speed);
    hf_status status = HF_OK;
    *n = 0;
    for (size_t i = 0, at = 1; sizes && i < n_sizes; i++, at = next_workers(at, most))
        sizes[i].workers = at;
    if (sizes && speed)
        status = measure_speed(options, sizes, n_sizes, speed, n, err);
    else
        status = hf__fail_memory(err);
    if (status != HF_OK)
        free(speed);
    *out = status == HF_OK ? speed : NULL;
    free(sizes);
    return status;
}
