/* The jobs of a run, drawn before it begins: the same for every strategy, and for the hand-written loop. */
#ifndef HF_BENCH_WORKLOAD_H
#define HF_BENCH_WORKLOAD_H

#include "bench/options.h"

struct bench_job {
    int64_t due_ns; /* after the first moment of the run; 0 in a filled table */
    int64_t handler_ns;
    unsigned fail; /* so many of its first runs answer HF_RETRY */
};

struct bench_workload {
    size_t n;
    struct bench_job *jobs; /* owned; in the order of their numbers */
    int64_t longest_ns;     /* of the handlers */
};

hf_status bench_workload_make(const struct bench_options *options, struct bench_workload *out, hf_error *err);
void bench_workload_free(struct bench_workload *workload);

/* A job's payload: "SEQ DUE_NS HANDLER_NS FAIL", the due time on CLOCK_MONOTONIC, 0 in a filled table. */
enum { BENCH_PAYLOAD = 96 };
size_t bench_payload_write(const struct bench_workload *workload, size_t seq, int64_t origin_ns, char out[BENCH_PAYLOAD]);
/* False if it is none. */
bool bench_payload_read(const char *payload, size_t *seq, struct bench_job *out);

#endif
