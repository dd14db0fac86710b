/* The bench's own table: never one that it did not make. */
#ifndef HF_BENCH_BENCH_TABLE_H
#define HF_BENCH_BENCH_TABLE_H

#include "bench/workload.h"

enum { BENCH_TABLE_NAME = 64 };

/* holdfast_bench_PID_RANDOM */
void bench_table_name(char out[BENCH_TABLE_NAME]);
/* The description that a user of this strategy would have. Owned: hf_table_free. */
hf_status bench_table_describe(const struct bench_options *options, const char *name, hf_table **out, hf_error *err);

/* Makes it; HF_INVALID if there is a table of this name. */
hf_status bench_table_make(hf_runtime *runtime, const hf_table *table, hf_error *err);
hf_status bench_table_drop(hf_runtime *runtime, const hf_table *table, hf_error *err);

/* Enqueues jobs `from` to `from + n - 1` in one call. */
hf_status bench_table_add(hf_runtime *runtime, const hf_table *table, const struct bench_workload *workload, size_t from, size_t n,
                          int64_t origin_ns, hf_error *err);
/* Rows that are there. */
hf_status bench_table_left(hf_runtime *runtime, const hf_table *table, size_t *out, hf_error *err);

#endif
