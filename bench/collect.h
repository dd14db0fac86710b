/* From what the processes found to the result of the run. */
#ifndef HF_BENCH_COLLECT_H
#define HF_BENCH_COLLECT_H

#include "bench/observer.h"
#include "bench/options.h"
#include "bench/result.h"
#include "bench/tally.h"

void bench_collect_place(struct bench_result *out, enum bench_database database, const char *version);
/* out->left must be known. added: the jobs that were enqueued. */
void bench_collect(const struct bench_options *options, const struct bench_tally *tally, size_t added, struct bench_result *out);
void bench_collect_server(struct bench_result *out, const struct bench_tally *tally, bool sampled, size_t peak,
                          const struct bench_seen *seen, size_t n_seen);
/* Medians, ratio and spread from the rounds. */
void bench_collect_raw(struct bench_raw *raw);

#endif
