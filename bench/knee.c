#include "bench/knee.h"

static size_t best_of(const struct bench_point *points, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (points[i].jobs_per_second > points[best].jobs_per_second)
            best = i;
    return best;
}

static size_t furthest_above_line(const struct bench_point *points, size_t n, size_t best, size_t otherwise)
{
    double width = (double)points[n - 1].x - (double)points[0].x, most = 0;
    double height = points[best].jobs_per_second - points[0].jobs_per_second;
    size_t furthest = otherwise;
    for (size_t i = 0; width > 0 && height > 0 && i < n; i++) {
        double x = ((double)points[i].x - (double)points[0].x) / width;
        double y = (points[i].jobs_per_second - points[0].jobs_per_second) / height;
        if (y - x > most) {
            most = y - x;
            furthest = i;
        }
    }
    return furthest;
}

struct bench_knee bench_knee_of(const struct bench_point *points, size_t n)
{
    struct bench_knee knee = {.best = best_of(points, n)};
    while (points[knee.enough].jobs_per_second < 0.95 * points[knee.best].jobs_per_second)
        knee.enough++;
    knee.knee = furthest_above_line(points, n, knee.best, knee.enough);
    return knee;
}
