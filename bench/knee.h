/* Where more connections, or more workers, stop helping. */
#ifndef HF_BENCH_KNEE_H
#define HF_BENCH_KNEE_H

#include <stddef.h>

struct bench_point {
    size_t x; /* connections of the pool, or workers */
    double jobs_per_second;
    double wait_p99_ms;  /* for a connection */
    double start_p99_ms; /* from due to begun */
    size_t peak_in_use;
};

struct bench_knee {
    size_t best;   /* index of the point with the best throughput */
    size_t enough; /* of the first with 95 % of that */
    size_t knee;   /* of the one furthest above the straight line from the first to the last, both axes from 0 to 1 (Satopaa, Albrecht,
                      Irwin, Raghavan, "Finding a Kneedle in a Haystack", 2011); where none is above it, `enough` */
};

/* n > 0 points, x ascending. */
struct bench_knee bench_knee_of(const struct bench_point *points, size_t n);

#endif
