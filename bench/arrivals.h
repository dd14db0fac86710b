/* Jobs that arrive at a rate: enqueued when their time has come, however far the workers have got. */
#ifndef HF_BENCH_ARRIVALS_H
#define HF_BENCH_ARRIVALS_H

#include "bench/bench_table.h"
#include "bench/tally.h"

struct bench_arrivals;

/* The schedule begins now, in a thread of its own; everything is borrowed until bench_arrivals_end. */
hf_status bench_arrivals_begin(hf_runtime *runtime, const hf_table *table, const struct bench_workload *workload, struct bench_tally *tally,
                               struct bench_arrivals **out, hf_error *err);
/* Stops it where it is. *added is how many jobs it has enqueued. NULL is HF_OK. Frees it. */
hf_status bench_arrivals_end(struct bench_arrivals *arrivals, size_t *added, hf_error *err);

#endif
