/* What has no closed form: jobs that arrive, and that a worker takes as many of as wait, up to a batch, whose time depends on its size. */
#ifndef HF_BENCH_SIMULATION_H
#define HF_BENCH_SIMULATION_H

#include "bench/model.h"

/* Of a rate with which full batches would keep up. It begins with as many jobs in each batch as do just keep up (`steady`). Fills what is
 * counted: the mean of a batch, what is in handlers and in the database, the waits; the same each time for the same input. In the last
 * percents below what can be done the figures are rough: there they take longer to settle than anyone would wait.
 * Takes memory for each worker, and fails only where that is not to be had. */
hf_status bench_simulate_batches(const struct bench_model_input *input, double steady, struct bench_model *out, hf_error *err);

#endif
