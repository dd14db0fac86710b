/* The tables that runs of holdfast-bench make. The name says whose one is: other suites are at work on the same server. */
#ifndef HF_TESTS_BENCH_TABLES_H
#define HF_TESTS_BENCH_TABLES_H

#include <sys/types.h>

#include "tests/support.h"

/* How many there are of that process. */
int64_t hf_test_bench_tables(const char *url, pid_t pid);
/* The name of one of them; NULL if there is none. */
const char *hf_test_bench_table(const char *url, pid_t pid);

#endif
