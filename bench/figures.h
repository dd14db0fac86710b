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

struct bench_figures {
    struct bench_figure list[10];
    size_t n;
};

/* Waits for a worker are among them where jobs arrive at a rate that can be done. */
struct bench_figures bench_figures_of(const struct bench_plan *plan, const struct bench_result *result);
/* How far off the prediction was, as a share of it; of a bound, how far beyond. INFINITY where nothing was predicted. */
double bench_figure_error(const struct bench_figure *figure);
/* The error that is allowed: 10 %, or 25 % where the handler does nothing and the database alone sets the pace. */
double bench_figures_limit(const struct bench_result *result);
bool bench_figure_within(const struct bench_figure *figure, double limit);
bool bench_figures_within(const struct bench_figures *figures, double limit);

#endif
