/* The same system as the model's: the workers, who take what waits and are in the database and then in the handler with it, and the
 * database, whose speed depends on how many are in it (each gets an even share of that: processor sharing). */
#include "bench/simulation.h"

#include <math.h>
#include <stdlib.h>

#include "bench/speed_curve.h"
#include "pool/error.h"
#include "pool/histogram.h"

enum { JOBS = 500000, JOBS_EACH = 5, WARM_UP = 4 /* a quarter as many come before, and are not counted */ };
#define MOST_JOBS 2e7
#define GRAIN 1e-4 /* of a handler's time, or of a millisecond: in which waits are told */

/* ---- by chance ---- */

struct chance {
    unsigned short seed[3];
};

static double exponential(struct chance *chance)
{
    return -log1p(-erand48(chance->seed));
}

/* Of two, one is thrown away. */
static double normal(struct chance *chance)
{
    static const double turn = 6.283185307179586;
    double radius = sqrt(2 * exponential(chance));
    return radius * cos(turn * erand48(chance->seed));
}

/* A gamma of mean `shape` (Marsaglia, Tsang: A simple method for generating gamma variables, ACM TOMS 26, 2000). */
static double gamma_of(struct chance *chance, double shape)
{
    if (shape < 1)
        return gamma_of(chance, shape + 1) * exp(-exponential(chance) / shape);
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d), x, v;
    do {
        do {
            x = normal(chance);
            v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        } while (v <= 0);
    } while (exponential(chance) <= d * (v - 1 - log(v)) - x * x / 2);
    return d * v;
}

/* ---- who comes out next ---- */

struct ticket {
    double at;
    size_t jobs;
};

/* The soonest first. Room for one of each worker. */
struct heap {
    struct ticket *tickets;
    size_t n;
};

static void put(struct heap *heap, double at, size_t jobs)
{
    size_t i = heap->n++;
    for (; i > 0 && heap->tickets[(i - 1) / 2].at > at; i = (i - 1) / 2)
        heap->tickets[i] = heap->tickets[(i - 1) / 2];
    heap->tickets[i] = (struct ticket){at, jobs};
}

static struct ticket take(struct heap *heap)
{
    struct ticket first = heap->tickets[0], last = heap->tickets[--heap->n];
    size_t i = 0, next = 1;
    for (; next < heap->n; i = next, next = 2 * i + 1) {
        if (next + 1 < heap->n && heap->tickets[next + 1].at < heap->tickets[next].at)
            next++;
        if (heap->tickets[next].at >= last.at)
            break;
        heap->tickets[i] = heap->tickets[next];
    }
    heap->tickets[i] = last;
    return first;
}

/* ---- the system ---- */

/* The times at which jobs come, one after the other. */
struct arrivals {
    struct chance chance;
    double at;
};

struct counts {
    double since_ms, batches, jobs, wait_ms;
    double in_handler, rows_in_handler, in_database; /* times milliseconds */
    struct hf__histogram waits, handlers, rows;
};

struct simulation {
    const struct bench_model_input *input;
    struct chance chance;
    struct arrivals coming, taken; /* the same ones: as they come, and as a worker takes them */
    double now;
    double work;       /* what each has been given that was in the database all the time */
    double work_speed; /* of a full batch's, a millisecond, for each of those who are there */
    double grain_ms;
    struct heap in_database, in_handler;
    size_t idle, waiting, rows; /* workers; jobs; jobs of the batches in handlers */
    struct counts counts;
};

static double next_arrival(struct arrivals *arrivals, const struct bench_model_input *input)
{
    double at = arrivals->at;
    arrivals->at += exponential(&arrivals->chance) * 1000 / input->arrivals_per_second;
    return at;
}

static void pass(struct simulation *sim, double until)
{
    double ms = until - sim->now;
    sim->counts.in_handler += ms * (double)sim->in_handler.n;
    sim->counts.rows_in_handler += ms * (double)sim->rows;
    sim->counts.in_database += ms * (double)sim->in_database.n;
    sim->work += ms * sim->work_speed;
    sim->now = until;
}

static void share_database(struct simulation *sim)
{
    double n = (double)sim->in_database.n;
    sim->work_speed = n > 0 ? bench_curve_speed(sim->input, n, bench_curve_batch(sim->input)) / n : 0;
}

/* Two exponential times there, for the claim and for the settle; on average they are that of a batch of its size. */
static void enter_database(struct simulation *sim, size_t jobs)
{
    double share = bench_curve_share(sim->input, (double)sim->in_database.n + 1, (double)jobs);
    put(&sim->in_database, sim->work + share * (exponential(&sim->chance) + exponential(&sim->chance)) / 2, jobs);
    share_database(sim);
}

/* Idle workers take what waits. */
static void take_jobs(struct simulation *sim)
{
    size_t most = (size_t)bench_curve_batch(sim->input);
    while (sim->idle > 0 && sim->waiting > 0) {
        size_t jobs = sim->waiting < most ? sim->waiting : most;
        sim->idle--;
        sim->waiting -= jobs;
        sim->counts.batches++;
        sim->counts.jobs += (double)jobs;
        for (size_t i = 0; i < jobs; i++) {
            double wait = sim->now - next_arrival(&sim->taken, sim->input);
            sim->counts.wait_ms += wait;
            hf__histogram_record(&sim->counts.waits, (int64_t)(wait / sim->grain_ms));
        }
        enter_database(sim, jobs);
    }
}

/* Who comes at random sees what there is on average over time (Wolff, Oper. Res. 30, 1982). */
static void arrive(struct simulation *sim)
{
    (void)next_arrival(&sim->coming, sim->input);
    hf__histogram_record(&sim->counts.handlers, (int64_t)sim->in_handler.n);
    hf__histogram_record(&sim->counts.rows, (int64_t)sim->rows);
    sim->waiting++;
}

/* The handlers of a batch run one after the other: their sum is a gamma, as each is. */
static void leave_database(struct simulation *sim)
{
    size_t jobs = take(&sim->in_database).jobs;
    double mean = bench_curve_handler_ms(sim->input, (double)sim->in_database.n) * (double)jobs, scv = sim->input->handler_scv;
    double shape = scv > 0 ? (double)jobs / scv : 0;
    put(&sim->in_handler, sim->now + (scv > 0 ? mean * gamma_of(&sim->chance, shape) / shape : mean), jobs);
    sim->rows += jobs;
    share_database(sim);
}

static void leave_handler(struct simulation *sim)
{
    sim->rows -= take(&sim->in_handler).jobs;
    sim->idle++;
}

static void next(struct simulation *sim)
{
    double handled = sim->in_handler.n > 0 ? sim->in_handler.tickets[0].at : INFINITY;
    double claimed = sim->in_database.n > 0 ? sim->now + (sim->in_database.tickets[0].at - sim->work) / sim->work_speed : INFINITY;
    double comes = sim->coming.at;
    pass(sim, fmin(comes, fmin(handled, claimed)));
    if (comes <= fmin(handled, claimed))
        arrive(sim);
    else if (handled <= claimed)
        leave_handler(sim);
    else
        leave_database(sim);
    take_jobs(sim);
}

static void run(struct simulation *sim, double jobs)
{
    sim->counts = (struct counts){.since_ms = sim->now};
    while (sim->counts.jobs < jobs)
        next(sim);
}

/* Where batches form by themselves the workers begin late, when that many wait. */
static void begin(struct simulation *sim, double steady)
{
    double backlog = steady > 1 ? fmin(steady * (double)sim->input->workers, MOST_JOBS) : 0;
    while ((double)sim->waiting < backlog) {
        pass(sim, sim->coming.at);
        arrive(sim);
    }
    sim->idle = sim->input->workers;
}

static void put_counts(const struct simulation *sim, struct bench_model *out)
{
    const struct counts *counts = &sim->counts;
    double ms = sim->now - counts->since_ms;
    *out = (struct bench_model){
        .stable = true,
        .jobs_per_second = sim->input->arrivals_per_second,
        .batch_mean = counts->jobs / counts->batches,
        .in_handler_mean = counts->in_handler / ms,
        .in_handler_p99 = (size_t)hf__histogram_quantile(&counts->handlers, 0.99),
        .rows_in_handler_mean = counts->rows_in_handler / ms,
        .rows_in_handler_p99 = (size_t)hf__histogram_quantile(&counts->rows, 0.99),
        .in_database_mean = counts->in_database / ms,
        .worker_utilisation = counts->in_handler / ms / (double)sim->input->workers,
        .hold_ms = bench_curve_at(sim->input, counts->in_database / ms).hold_ms,
        .start_wait_mean_ms = counts->wait_ms / counts->jobs,
        .start_wait_p99_ms = (double)hf__histogram_quantile(&counts->waits, 0.99) * sim->grain_ms,
    };
}

static void simulate(struct simulation *sim, double steady)
{
    double jobs = fmin(JOBS + JOBS_EACH * (double)sim->input->workers * steady, MOST_JOBS);
    begin(sim, steady);
    run(sim, jobs / WARM_UP);
    run(sim, jobs);
}

hf_status bench_simulate_batches(const struct bench_model_input *input, double steady, struct bench_model *out, hf_error *err)
{
    struct simulation *sim = calloc(1, sizeof *sim);
    struct ticket *tickets = calloc(2 * input->workers, sizeof *tickets);
    if (!sim || !tickets) {
        free(tickets);
        free(sim);
        return hf__fail_memory(err);
    }
    *sim = (struct simulation){.input = input,
                               .chance = {{1, 2, 3}},
                               .coming = {.chance = {{4, 5, 6}}},
                               .taken = {.chance = {{4, 5, 6}}},
                               .grain_ms = GRAIN * fmax(input->handler_ms, 1),
                               .in_database = {.tickets = tickets},
                               .in_handler = {.tickets = tickets + input->workers}};
    simulate(sim, steady);
    put_counts(sim, out);
    free(tickets);
    free(sim);
    return HF_OK;
}
