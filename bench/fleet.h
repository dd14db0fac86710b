/* The processes of a run, beside the one that watches them. */
#ifndef HF_BENCH_FLEET_H
#define HF_BENCH_FLEET_H

#include "bench/drain.h"

struct bench_fleet;

/* Forks tally->n_parts processes, which wait. Only while this process has no other thread. drain: what each of them runs, but for its part
 * and watched_fd; begun and tick are called here, not in the children. Borrowed until bench_fleet_free. */
hf_status bench_fleet_fork(const struct bench_drain *drain, struct bench_fleet **out, hf_error *err);
/* Lets them go, and waits until all have ended. HF_STOPPED: they were stopped; HF_SYSTEM: one of them died. */
hf_status bench_fleet_run(struct bench_fleet *fleet, hf_error *err);
void bench_fleet_free(struct bench_fleet *fleet); /* ends those that still wait, or run; NULL is allowed */

#endif
