/* One process of a run: a runtime with the measured pool, the handlers, and what they cost. */
#ifndef HF_BENCH_DRAIN_H
#define HF_BENCH_DRAIN_H

#include "bench/options.h"
#include "bench/tally.h"

struct bench_drain {
    const struct bench_options *options;
    const hf_table *table;
    const char *name; /* application name of the runtime */
    struct bench_tally *tally;
    struct bench_part *part; /* of this process */
    int watched_fd;          /* readable: stop; -1: none */
    void (*begun)(void *ctx);
    void (*tick)(void *ctx); /* a few times a second or more, between the two; either may be NULL */
    void *ctx;
};

/* Works until all jobs are done, or somebody stops it; everything it found is in drain->part. HF_STOPPED: stopped before the end. */
hf_status bench_drain_run(const struct bench_drain *drain);

#endif
