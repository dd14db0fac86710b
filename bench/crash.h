/* What a crash costs: a worker process is killed while its handler runs; how long until its row runs again? */
#ifndef HF_BENCH_CRASH_H
#define HF_BENCH_CRASH_H

#include "bench/options.h"

/* Makes a table of the bench's own with one row, lets a child process begin it, kills the child, starts a worker here at once, and measures
 * the time from the kill until the row's handler runs again; drops the table. options->strategy must be set. Must be called from the only
 * thread of the process (it forks). HF_TIMEOUT: the row did not run again within its lease and half a minute more. */
hf_status bench_crash(const struct bench_options *options, double *crash_ms, hf_error *err);

#endif
