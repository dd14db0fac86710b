/* Scales: from values to places, and where the ticks go. */
#include <math.h>

#include "bench/svg.h"

/* The largest of 1, 2, 5 times a power of ten that is not above the wish, by a hair's breadth. */
static double round_step(double wish)
{
    double power = pow(10, floor(log10(wish)));
    double rest = wish / power;
    return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

static int decimals_of(double step)
{
    int decimals = (int)ceil(-log10(step) - 1e-9);
    return decimals < 0 ? 0 : decimals > 6 ? 6 : decimals;
}

struct bench_axis bench_axis_linear(double low, double high, size_t about)
{
    low = isfinite(low) ? low : 0;
    high = isfinite(high) ? high : low;
    if (high - low < 1e-6) {
        high = low + 1;
    }
    double step = round_step((high - low) / (about > 0 ? (double)about : 1));
    return (struct bench_axis){
        .low = floor(low / step + 1e-9) * step, .high = ceil(high / step - 1e-9) * step, .step = step, .decimals = decimals_of(step)};
}

struct bench_axis bench_axis_doubling(double low, double high)
{
    low = isfinite(low) && low >= 1 ? low : 1;
    high = isfinite(high) && high > low ? high : low;
    struct bench_axis axis = {.low = exp2(floor(log2(low) + 1e-9)), .high = exp2(ceil(log2(high) - 1e-9)), .doubling = true};
    if (axis.high <= axis.low) {
        axis.high = axis.low * 2;
    }
    return axis;
}

double bench_axis_place(const struct bench_axis *axis, double value)
{
    if (isnan(value)) {
        return NAN;
    }
    double place = 0;
    if (!axis->doubling) {
        place = (value - axis->low) / (axis->high - axis->low);
    } else if (value > axis->low) {
        place = log2(value / axis->low) / log2(axis->high / axis->low);
    }
    return place < 0 ? 0 : place > 1 ? 1 : place;
}

size_t bench_axis_ticks(const struct bench_axis *axis, double *out, size_t most)
{
    double between = axis->doubling ? log2(axis->high / axis->low) : (axis->high - axis->low) / axis->step;
    size_t n = 0;
    for (; n < most && (double)n <= between + 1e-6; n++) {
        out[n] = axis->doubling ? axis->low * exp2((double)n) : axis->low + (double)n * axis->step;
    }
    return n;
}
