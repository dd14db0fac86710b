/* The law of a number that goes up and down by one: deliveries in the database, workers that are busy, threads that wait. It is walked, not
 * stored, and its weights are logarithms, so that a hundred thousand workers neither overflow nor vanish. */
#ifndef HF_BENCH_BIRTH_DEATH_H
#define HF_BENCH_BIRTH_DEATH_H

#include <stdbool.h>
#include <stddef.h>

/* ratio(n) is p(n + 1) / p(n): the rate up from n over the rate down from n + 1. Detailed balance gives the product form (Kleinrock,
 * Queueing Systems, vol. 1, 3.2). */
struct bench_law {
    size_t first, last; /* outside of these is as good as nothing */
    double (*ratio)(size_t n, const void *ctx);
    const void *ctx;
    double log_first; /* of p(first) */
};

struct bench_law_place {
    size_t n;
    double log_p;
};

/* Of the numbers 0 to `most`. From `falls_from` on the ratio falls, so there a number has but one mode, from which the walk goes as far as
 * anything is to be found. */
struct bench_law bench_law_of(size_t most, size_t falls_from, double (*ratio)(size_t n, const void *ctx), const void *ctx);

struct bench_law_place bench_law_first(const struct bench_law *law);
/* False past the end. */
bool bench_law_next(const struct bench_law *law, struct bench_law_place *at);

#endif
