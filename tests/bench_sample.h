/* A comparison made up for the suites of the bench: three strategies, with numbers that no run gave. */
#ifndef HF_TESTS_BENCH_SAMPLE_H
#define HF_TESTS_BENCH_SAMPLE_H

#include "bench/compare.h"

/* Everything is owned by *out. */
void hf_test_comparison(struct bench_comparison *out);
/* The same memory, without bench_result_free, so that a suite links no bench. */
void hf_test_comparison_free(struct bench_comparison *comparison);
/* The comparison as a page, owned. */
char *hf_test_page_of(bool (*write)(FILE *out, const struct bench_comparison *comparison), const struct bench_comparison *comparison);

#endif
