/* The speed of the database, measured in runs of their own.
 *
 * A database that is asked without a break answers faster than one that is asked now and then: commits share a flush, and nothing falls
 * asleep. So where handlers take time, those of these runs pause as well, though not for long. What is measured with W workers is their
 * throughput X, of the steady part. They go round in W / X (Little's law); what is not a pause of that is R, the time in the database, and
 * a delivery finds n = 1 + (W - 1) R X / W of them there, itself included (the arrival theorem). The speed at that number is about n / R;
 * but the number changes all the time, so it is taken such that the model, with all these speeds, has just the throughput that was
 * measured. A lease's workers wait neither for a claim nor for a settle, so there it is the throughput with W of them and without pauses.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/ledger_read.h"
#include "bench/plan.h"
#include "bench/run.h"
#include "bench/speed_curve.h"
#include "pool/error.h"

#define SECONDS_EACH 1.0
#define SECONDS_LAST 3.0 /* with all workers: closest to the run that is planned */
#define PAUSE_MOST_MS 5
enum { FIRST_JOBS = 100, MOST_JOBS = 50000, JOBS_EACH = 8, START_EACH = 32, ROUNDS = 3 };

/* Jobs for so many seconds, as fast as they went last time. */
static size_t jobs_at(double jobs_per_second, size_t workers, bool last)
{
    double jobs = jobs_per_second * (last ? SECONDS_LAST : SECONDS_EACH), least = (double)workers * JOBS_EACH;
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

/* Milliseconds that a connection was out for a claim or for a settle. */
static double hold_ms(const struct bench_result *result)
{
    double seconds = 0, count = 0;
    for (size_t i = 0; i < result->n_purposes; i++)
        if (bench_purpose_is_asked_for(result->purposes[i].name)) {
            seconds += result->purposes[i].seconds;
            count += result->purposes[i].count;
        }
    return count > 0 ? 1000 * seconds / count : 0;
}

/* What was seen with so many workers, and what it says of the speed. */
struct seen {
    double throughput; /* jobs a second */
    double tail;       /* p99 of the workers in handlers, less their mean */
    struct bench_speed speed;
};

static struct seen seen_of(const struct bench_options *options, const struct bench_result *result)
{
    double workers = (double)result->workers, batch = bench_jobs_in_one(options), throughput = result->steady.jobs_per_second;
    struct seen seen = {.throughput = throughput, .speed = {.n = workers, .jobs_per_second = throughput, .hold_ms = hold_ms(result)}};
    if (options->strategy == HF_LEASE)
        return seen;
    double late = late_ms(options, result), cycle = workers * batch * 1000 / throughput;
    double inside = fmax(cycle - (pause_of(options) + late) * batch, cycle / 1000);
    seen.speed.n = 1 + (workers - 1) * inside / cycle;
    seen.speed.jobs_per_second = 1000 * seen.speed.n * batch / inside;
    seen.speed.late_ms = late;
    seen.tail = ((double)result->held_p99 - result->steady.held_mean) / connections_each(options);
    return seen;
}

size_t bench_workers_measured(const struct bench_options *options, const struct bench_sizes *sizes)
{
    size_t workers = sizes->workers_at_once, all = workers * bench_processes(options);
    return all <= BENCH_MOST_MEASURED ? all : workers > BENCH_MOST_MEASURED ? workers : BENCH_MOST_MEASURED;
}

/* Like this run, but of so many workers, whose handlers pause, on a full table. */
static struct bench_options pausing(const struct bench_options *options, size_t workers)
{
    static char text[] = "pause";
    struct bench_options these = *options;
    these.workers = workers;
    these.pool = options->processes > 1 ? 0 : options->pool;
    these.processes = 1;
    these.rate = 0;
    these.fail = 0;
    these.raw = false;
    these.handler = (struct bench_distribution){.law = law_of(options), .a_ms = pause_of(options), .text = text};
    return these;
}

/* A number of workers. */
struct size {
    size_t workers;
    bool last;              /* all workers */
    double jobs_per_second; /* of its last run; 0: none yet */
    struct seen rounds[ROUNDS];
    struct seen middle; /* the round that counts */
    double spread;      /* its tail over the law's */
};

static hf_status measure(const struct bench_options *options, struct size *size, struct seen *seen, hf_error *err)
{
    struct bench_options these = pausing(options, size->workers);
    struct bench_result result = {.crash_ms = -1};
    these.jobs = bench_rows_at_once(&these) * START_EACH + jobs_at(size->jobs_per_second, size->workers, size->last);
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK && result.steady.jobs_per_second <= 0)
        status = hf__fail(err, HF_DATABASE, "the speed of the database could not be measured: no job was done");
    if (status == HF_OK)
        *seen = seen_of(options, &result);
    size->jobs_per_second = result.steady.jobs_per_second;
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
    struct seen seen;
    struct size one = {.workers = 1};
    hf_status status = measure(options, &one, &seen, err);
    sizes[0].jobs_per_second = one.jobs_per_second;
    return status;
}

static int by_throughput(const void *a, const void *b)
{
    const struct seen *left = a, *right = b;
    return (left->throughput > right->throughput) - (left->throughput < right->throughput);
}

/* The middle one of each size's rounds. Where by chance a size has fewer in the database than smaller ones, the larger is believed, and
 * the smaller ones are left out of `sizes`, too. */
static size_t gather(struct size *sizes, size_t n_sizes, struct bench_speed *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_sizes; i++) {
        qsort(sizes[i].rounds, ROUNDS, sizeof *sizes[i].rounds, by_throughput);
        sizes[i].middle = sizes[i].rounds[ROUNDS / 2];
        while (n > 0 && sizes[i].middle.speed.n <= out[n - 1].n)
            n--;
        out[n] = sizes[i].middle.speed;
        sizes[n++] = sizes[i];
    }
    return n;
}

/* What the model says of such a run. */
static struct bench_model model_of(const struct bench_options *options, size_t workers, const struct bench_speed *speed, size_t n)
{
    struct bench_options these = pausing(options, workers);
    return bench_plan_full_table(&these, workers, speed, n);
}

static double throughput_with(const struct bench_options *options, size_t workers, struct bench_speed *speed, size_t n, size_t at,
                              double jobs_per_second)
{
    speed[at].jobs_per_second = jobs_per_second;
    return model_of(options, workers, speed, n).jobs_per_second;
}

/* The model's throughput grows with each speed, so that is found by halves (of the ratio), not far from what was taken for it. The model
 * reads the speed with whole numbers in the database: what was measured between two of them may have no effect. */
static void fit_one(const struct bench_options *options, const struct bench_throughput *measured, struct bench_speed *speed, size_t n,
                    size_t at)
{
    enum { STEPS = 30 };
    static const double far = 2, same = 1e-6;
    double low = measured->taken / far, high = measured->taken * far;
    double least = throughput_with(options, measured->workers, speed, n, at, low);
    double most = throughput_with(options, measured->workers, speed, n, at, high);
    for (int i = 0; i < STEPS && most - least > same * most; i++) {
        double middle = sqrt(low * high);
        bool is_low = throughput_with(options, measured->workers, speed, n, at, middle) < measured->jobs_per_second;
        *(is_low ? &low : &high) = middle;
    }
    speed[at].jobs_per_second = most - least > same * most ? sqrt(low * high) : measured->taken;
}

/* Each depends on the others, if little. Without a pause all are in the database, always, and there is nothing to find. */
void bench_speed_fit(const struct bench_options *options, const struct bench_throughput *measured, struct bench_speed *speed, size_t n)
{
    enum { PASSES = 20 };
    for (int pass = 0; pass < PASSES && pause_of(options) > 0; pass++)
        for (size_t i = 0; i < n; i++)
            fit_one(options, &measured[i], speed, n, i);
}

static hf_status fit(const struct bench_options *options, const struct size *sizes, struct bench_speed *speed, size_t n, hf_error *err)
{
    struct bench_throughput *measured = calloc(n, sizeof *measured);
    if (!measured)
        return hf__fail_memory(err);
    for (size_t i = 0; i < n; i++)
        measured[i] = (struct bench_throughput){sizes[i].workers, sizes[i].middle.throughput, speed[i].jobs_per_second};
    bench_speed_fit(options, measured, speed, n);
    free(measured);
    return HF_OK;
}

/* What was measured of each size over what the law says of it, now that the law knows the speed. Numbers are whole: a tail of less than
 * one tells nothing. */
static void put_spread(const struct bench_options *options, struct size *sizes, struct bench_speed *speed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct bench_model by_law = model_of(options, sizes[i].workers, speed, n);
        double tail = (double)by_law.in_handler_p99 - by_law.in_handler_mean;
        sizes[i].spread = tail >= 1 ? fmax(sizes[i].middle.tail / tail, 1) : 1;
    }
    for (size_t i = 0; i < n; i++) /* the law is not to know it yet */
        speed[i].spread = sizes[i].spread;
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
    status = fit(options, sizes, out, *n, err);
    if (status == HF_OK)
        put_spread(options, sizes, out, *n);
    return status;
}

static hf_status measure_batches(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err)
{
    size_t most = workers ? workers : 1, n_sizes = count_sizes(most);
    struct size *sizes = calloc(n_sizes, sizeof *sizes);
    struct bench_speed *speed = calloc(n_sizes, sizeof *speed);
    *n = 0;
    for (size_t i = 0, at = 1; sizes && i < n_sizes; i++, at = next_workers(at, most))
        sizes[i] = (struct size){.workers = at, .last = at == most};
    hf_status status = sizes && speed ? measure_speed(options, sizes, n_sizes, speed, n, err) : hf__fail_memory(err);
    if (status != HF_OK)
        free(speed);
    *out = status == HF_OK ? speed : NULL;
    free(sizes);
    return status;
}

/* mu(n) = n b / (claim + settle). */
void bench_speed_given(const struct bench_options *options, double claim_ms, double settle_ms, struct bench_speed out[2])
{
    static const double most = 1e6;
    double each = 1000 * bench_jobs_in_one(options) / fmax(claim_ms + settle_ms, 1e-6);
    out[0] = (struct bench_speed){.n = 1, .jobs_per_second = each, .hold_ms = (claim_ms + settle_ms) / 2};
    out[1] = (struct bench_speed){.n = most, .jobs_per_second = each * most, .hold_ms = (claim_ms + settle_ms) / 2};
}

/* How long a batch of one job is in the database, over a full one, with as many there. */
static void put_single(const struct bench_options *options, const struct bench_speed *single, size_t n_single, struct bench_speed *speed,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        speed[i].single =
            speed[i].jobs_per_second / bench_jobs_in_one(options) / bench_speed_at(single, n_single, speed[i].n).jobs_per_second;
}

static hf_status measure_single(const struct bench_options *options, size_t workers, struct bench_speed *speed, size_t n, hf_error *err)
{
    struct bench_options these = *options;
    struct bench_speed *single = NULL;
    size_t n_single = 0;
    these.batch = 1;
    hf_status status = measure_batches(&these, workers, &single, &n_single, err);
    if (status == HF_OK)
        put_single(options, single, n_single, speed, n);
    free(single);
    return status;
}

hf_status bench_speed_measure(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err)
{
    hf_status status = measure_batches(options, workers, out, n, err);
    if (status == HF_OK && options->rate > 0 && bench_jobs_in_one(options) > 1)
        status = measure_single(options, workers, *out, *n, err);
    if (status == HF_OK)
        return HF_OK;
    free(*out);
    *out = NULL;
    return status;
}
