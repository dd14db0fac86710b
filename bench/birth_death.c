#include "bench/birth_death.h"

#include <math.h>

/* e^-80 of the mode's weight: beyond it even a hundred thousand numbers, and a last state that stands for a long queue, are nothing. */
#define FAR 80

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
    double high = fmax(a, b), low = fmin(a, b);
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

static size_t mode_of(const struct bench_law *law, size_t most, size_t falls_from)
{
    size_t low = falls_from < most ? falls_from : most, high = most;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (law->ratio(middle, law->ctx) > 1)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

/* All weights are over the mode's. */
struct bench_law bench_law_of(size_t most, size_t falls_from, double (*ratio)(size_t n, const void *ctx), const void *ctx)
{
    struct bench_law law = {.ratio = ratio, .ctx = ctx};
    size_t mode = mode_of(&law, most, falls_from);
    double total = 0, log_up = 0, log_down = 0;
    for (law.last = mode; law.last < most && log_up > -FAR; law.last++) {
        log_up += log(ratio(law.last, ctx));
        total = log_add(total, log_up);
    }
    for (law.first = mode; law.first > 0 && (log_down > -FAR || falls_from > 0); law.first--) {
        log_down -= log(ratio(law.first - 1, ctx));
        total = log_add(total, log_down);
    }
    law.log_first = log_down - total;
    return law;
}

struct bench_law_place bench_law_first(const struct bench_law *law)
{
    return (struct bench_law_place){law->first, law->log_first};
}

bool bench_law_next(const struct bench_law *law, struct bench_law_place *at)
{
    if (at->n >= law->last)
        return false;
    at->log_p += log(law->ratio(at->n, law->ctx));
    at->n++;
    return true;
}
