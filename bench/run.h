/* One measured run of holdfast on a table of the bench's own, through the public API. */
#ifndef HF_BENCH_RUN_H
#define HF_BENCH_RUN_H

#include "bench/options.h"
#include "bench/result.h"

/* Makes the table, fills it (or lets jobs arrive at options->rate), drains it with options->processes processes, reads what it cost, drops
 * the table. options->strategy must be set. An interrupted run (Ctrl-C) is HF_STOPPED, with what was measured in *out. Threads: must be
 * called from the only thread of the process (it forks for --processes). Free *out in every case. */
hf_status bench_run(const struct bench_options *options, struct bench_result *out, hf_error *err);

int bench_command_run(int argc, char **argv);
int bench_command_compare(int argc, char **argv);
int bench_command_sweep(int argc, char **argv);
int bench_command_plan(int argc, char **argv);
int bench_command_verify(int argc, char **argv);

#endif
