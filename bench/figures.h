/* What was predicted beside what was measured. */
#ifndef HF_BENCH_FIGURES_H
#define HF_BENCH_FIGURES_H

#include <stdbool.h>

#include "bench/plan.h"
#include "bench/result.h"

struct bench_figure {
    const char *name, *key;
    double predicted, measured;
    double slack;     /* a difference of no meaning */
    bool bound;       /* less than predicted is right */
    bool meaningless; /* handlers that take no time hold nothing for any time */
    bool unjudged;    /* shown, and no reason to call the plan wrong */
};

enum { BENCH_FIGURES = 6 };

void bench_figures_list(const struct bench_plan *plan, const struct bench_result *result, struct bench_figure out[BENCH_FIGURES]);
/* How far off the prediction was, as a share of it; 0 where the difference means nothing, INFINITY where nothing was predicted. */
double bench_figure_error(const struct bench_figure *figure);
/* The error that is allowed: 10 %, or 25 % where the handler does nothing and the database alone sets the pace. */
double bench_figures_limit(const struct bench_result *result);
bool bench_figures_within(const struct bench_figure figures[BENCH_FIGURES], double limit);

#endif
