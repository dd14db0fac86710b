/* The loop that a careful expert would write by hand over the same statements, threads, connections and rows. */
#ifndef HF_BENCH_RAW_H
#define HF_BENCH_RAW_H

#include "bench/workload.h"

struct bench_raw_input {
    const struct bench_options *options;   /* url, strategy, workers (threads) and lease_seconds count */
    const char *table;                     /* filled, as for a run of ours; bench_payload_read reads its payloads */
    const struct bench_workload *workload; /* what it was filled with */
    size_t connections;                    /* that our pool had; no more than one a thread are opened */
    int stop_fd;                           /* readable: stop, answer HF_STOPPED; -1: none */
};

struct bench_raw_output {
    double seconds, jobs_per_second;       /* from the first claim to the last settle; done over seconds */
    size_t done, failed, lost, duplicates; /* failed: runs that were to fail, and put their row back; lost: jobs that were not done */
    size_t repeated;                       /* claims and settles that failed in passing (a deadlock, say) and were made again */
    size_t errors;                         /* threads that ended with an error; then the status is the first one's */
};

/* Drains the table; blocks until it is empty, an error, or stop_fd. *out is filled in whatever the status is. A server's error is an error,
 * and so are a settle that finds its row no longer ours and a minute without a settle. */
hf_status bench_raw_run(const struct bench_raw_input *input, struct bench_raw_output *out, hf_error *err);

#endif
