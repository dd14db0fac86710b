/* The loop that a careful expert would write by hand over the same statements, threads, connections and rows. */
#ifndef HF_BENCH_RAW_H
#define HF_BENCH_RAW_H

#include "bench/workload.h"

struct bench_raw_input {
    const struct bench_options *options;
    const char *table;                     /* filled, as for a run of ours; bench_payload_read reads its payloads */
    const struct bench_workload *workload; /* what it was filled with */
    size_t connections;                    /* that our pool had */
    int stop_fd;                           /* readable: stop, answer HF_STOPPED; -1: none */
};

/* Drains the table. *jobs_per_second: jobs acked over the time from the first claim to the last settle. */
hf_status bench_raw_run(const struct bench_raw_input *input, double *jobs_per_second, hf_error *err);

#endif
