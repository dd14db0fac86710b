/* Strategies side by side: what was measured, and how it is shown. */
#ifndef HF_BENCH_COMPARE_H
#define HF_BENCH_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "bench/options.h"
#include "bench/result.h"
#include "bench/svg.h"

enum { BENCH_STRATEGIES = 3, BENCH_SCAN = 12, BENCH_LINE = 41, BENCH_MEASURE_TEXT = 48 };

/* One strategy. */
struct bench_compared {
    struct bench_result result;
    struct bench_xy by_pool[BENCH_SCAN]; /* pool size, jobs/s */
    size_t n_by_pool;
    struct bench_xy held[BENCH_SCAN]; /* handler's time in ms, connections held by deliveries in work: as measured */
    size_t n_held;
    struct bench_xy held_model[BENCH_LINE]; /* and as the model has it */
    size_t n_held_model;
};

struct bench_comparison {
    struct bench_compared of[BENCH_STRATEGIES];
    size_t n;
    double rate;      /* of the runs; 0: a filled table */
    double scan_rate; /* jobs/s that arrived in the runs behind `held` */
    unsigned lease_seconds;
    char *command_line; /* owned, without a password */
    char *machine;      /* owned: cores, processor, operating system */
    char *date;         /* owned */
    double seconds;     /* that all of it took */
};

void bench_comparison_free(struct bench_comparison *comparison);

/* "row lock", "lease", "advisory lock" */
const char *bench_strategy_words(hf_strategy strategy);

/* A line of the table: one figure of each strategy. */
struct bench_measure {
    char name[64];
    const char *unit; /* "" if there is none */
    bool part;        /* of the measure above */
    char text[BENCH_STRATEGIES][BENCH_MEASURE_TEXT];
    bool best[BENCH_STRATEGIES]; /* where one is better than another */
};

/* All lines, owned (free). NULL: out of memory. */
struct bench_measure *bench_measures(const struct bench_comparison *comparison, size_t *n);

/* The table for people, at most 100 characters wide. */
void bench_comparison_print(FILE *out, const struct bench_comparison *comparison);

#endif
