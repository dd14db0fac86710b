/* A plan: what a subscription will need and do, before it runs. */
#ifndef HF_BENCH_PLAN_H
#define HF_BENCH_PLAN_H

#include <holdfast.h>
#include <jansson.h>

#include "bench/model.h"
#include "bench/options.h"

#define BENCH_ASSUMED_MS 1.0 /* a claim, or a settle, where nothing is known */

/* What can be said before the speed of the database is known. */
struct bench_sizes {
    size_t workers_at_once; /* that fit the pool */
    size_t pool_minimum, pool_recommended;
};

struct bench_plan {
    hf_strategy strategy;
    size_t workers;        /* wanted (or found from the rate) */
    size_t workers_enough; /* where jobs arrive faster than they can be done: as many as would do; 0: no number would */
    bool saturated;        /* the database did no more with the most that its speed is known for than with fewer */
    struct bench_sizes sizes;
    size_t pool;
    double held_per_delivery;
    double held_mean; /* connections held by deliveries in work */
    size_t held_p99, peak_in_use;
    struct bench_model model; /* of one process; without --rate its waits for a worker are -1: there are none to tell */
    double pool_wait_p99_ms;
    size_t processes, fleet_connections, max_connections, reserve; /* max_connections 0: not known */
    bool fits;                                                     /* true where max_connections is not known */
    char *advice;                                                  /* sentences, one a line; owned */
};

/* From the options and the speed of the database (n_speed > 0). Opens a runtime for its cost model, connects to nothing. Free *out. */
hf_status bench_plan_of(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed, struct bench_plan *out,
                        hf_error *err);
void bench_plan_free(struct bench_plan *plan);
json_t *bench_plan_json(const struct bench_plan *plan);
void bench_plan_print(const struct bench_plan *plan);
/* The sentences of plan->advice: which strategy fits, what it costs, what a crash costs, when the answer would change. Owned; NULL: out of
 * memory. */
char *bench_advice(const struct bench_options *options, const struct bench_plan *plan);

/* The workers of each process: as asked, or as many as the rate needs with this speed; 0: more than there can be. */
size_t bench_plan_workers(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed);
/* Whether this many workers of each process keep up with the rate. */
bool bench_plan_keeps_up(const struct bench_options *options, size_t workers, const struct bench_speed *speed, size_t n_speed);
/* Of one process with so many workers at once, and a table that is always full, whatever the rate. */
struct bench_model bench_plan_full_table(const struct bench_options *options, size_t workers, const struct bench_speed *speed,
                                         size_t n_speed);
/* For `workers` in each process. Opens a runtime for its cost model, connects to nothing. */
hf_status bench_plan_sizes(const struct bench_options *options, size_t workers, struct bench_sizes *out, hf_error *err);
/* The most jobs that are claimed, handled and settled as one: those of a batch under row lock and advisory lock. Under a lease the workers
 * take what has been claimed, ahead of them. */
double bench_jobs_in_one(const struct bench_options *options);

/* The speed of a database whose claims and settles do not hinder each other, and take as long for a batch as for a row. */
void bench_speed_given(const struct bench_options *options, double claim_ms, double settle_ms, struct bench_speed out[2]);

/* The strategy that fits: row_lock where its connections are affordable and its transactions are neither very long nor most of the work,
 * else lease. */
hf_strategy bench_advised(const struct bench_options *options);

enum { BENCH_MOST_MEASURED = 64 }; /* workers, in one process, where more would take minutes, or stand for those of several processes */
/* How many of them tell something of the database: those that the pools of all processes let run, but of several no more than that. */
size_t bench_workers_measured(const struct bench_options *options, const struct bench_sizes *sizes);
/* Measures the database's speed with this strategy, pool and batch with 1, 2, 4, ... up to `workers` workers, in one process, whose pool is
 * then as large as they want unless there is but one; their handlers do nothing or pause for a few milliseconds (speed.c says why). Jobs
 * that arrive at a rate come in batches of any size up to the largest: then it is measured with both, full batches and single jobs. *out is
 * owned (free). */
hf_status bench_speed_measure(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err);
/* A step of it: the speeds with which the model has measured[i] in place i. One on which no throughput depends stays as it is. */
struct bench_throughput {
    size_t workers;
    double jobs_per_second;
    double taken; /* for the speed, before: what is found is within a factor of two of it */
};
void bench_speed_fit(const struct bench_options *options, const struct bench_throughput *measured, struct bench_speed *speed, size_t n);

#endif
