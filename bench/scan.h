/* The further runs of a comparison, for its plots: pools of several sizes, handlers of several times. */
#ifndef HF_BENCH_SCAN_H
#define HF_BENCH_SCAN_H

#include "bench/compare.h"

/* For each strategy of the comparison, whose results are there. Adds to by_pool; one that fails or is interrupted ends it. */
hf_status bench_scan_pools(const struct bench_options *options, struct bench_comparison *comparison, hf_error *err);
/* Adds to held and held_model, and sets scan_rate. */
hf_status bench_scan_handlers(const struct bench_options *options, struct bench_comparison *comparison, hf_error *err);

#endif
