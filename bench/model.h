/* The capacity model: throughput, and how many connections are held, from the handler's time and the database's speed. Pure functions, the
 * same answer each time; all times in milliseconds. How many connections a strategy holds and how large a pool it wants is not here but in
 * the library's cost model (hf_cost_for), which the runtime's start check uses too. */
#ifndef HF_BENCH_MODEL_H
#define HF_BENCH_MODEL_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>

/* Jobs that the database claims and settles in a second while n deliveries are in its hands (and not in a handler's). */
struct bench_speed {
    double n, jobs_per_second;
    double late_ms; /* that a handler takes longer meanwhile: a busy machine wakes it late */
    double spread;  /* how much farther the p99 of the number in handlers is from its mean than by the model's law: commits that share a
                       flush end together, and handlers of one length keep it so. Less than 1 counts as 1 */
    double hold_ms; /* that a connection is out of the pool for a claim or for a settle; 0: not known */
    double single;  /* where jobs come in batches: how long a batch of one job is in the database, over a full one; 0 counts as 1 */
};

struct bench_model_input {
    size_t workers; /* that run at once: those that fit the pool */
    size_t ahead;   /* rows that have been claimed ahead of them, so that they need not wait for a claim or a settle (lease); 0: none */
    double batch;   /* jobs that are claimed, handled and settled as one, where so many are due. 0 counts as 1 */
    double handler_ms, handler_scv;  /* of a job: mean, and variance over its square */
    double arrivals_per_second;      /* 0: there is always a due row */
    double processes;                /* like this one, that share the database. 0 counts as 1 */
    const struct bench_speed *speed; /* of all processes; n ascending, from 1 on; read by straight lines between, by the last beyond */
    size_t n_speed;                  /* at least 1 */
};

struct bench_model {
    bool stable; /* false: jobs arrive faster than they can be done; then the figures are those of a full table */
    double jobs_per_second;
    double batch_mean;           /* jobs in a batch; what follows is of batches */
    double in_handler_mean;      /* deliveries whose handler runs: Little's law */
    size_t in_handler_p99;       /* the number that is not exceeded for 99 % of the time */
    double rows_in_handler_mean; /* jobs of these deliveries */
    size_t rows_in_handler_p99;
    double in_database_mean;     /* deliveries between claim and settle, outside the handler */
    double worker_utilisation;   /* share of the workers' time spent in handlers */
    double database_utilisation; /* throughput over the best that the database can do with so many workers */
    double hold_ms;              /* as in bench_speed */
    double start_wait_mean_ms;   /* from due until a worker takes it; 0 for a full table, where it means nothing */
    double start_wait_p99_ms;
};

/* Of a table that is always full, whatever the rate. */
struct bench_model bench_model_full_table(const struct bench_model_input *input);
/* Fails only where memory runs out, which jobs that arrive in batches take. */
hf_status bench_model_of(const struct bench_model_input *input, struct bench_model *out, hf_error *err);

/* Whether at most the share `late` of the jobs that arrive at this rate waits for a worker; 1: whether they are done at all. */
bool bench_model_enough(const struct bench_model_input *input, double late);

/* The p99 of the wait for one of `connections` by `askers` threads, each of which holds it for hold_ms and then does without it for
 * apart_ms on average (finite-source queue). 0 when there is one for each. */
double bench_model_connection_wait_p99_ms(size_t askers, size_t connections, double hold_ms, double apart_ms);

#endif
