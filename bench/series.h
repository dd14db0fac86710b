/* Connections in use by purpose, sampled while a run goes on. */
#ifndef HF_BENCH_SERIES_H
#define HF_BENCH_SERIES_H

#include <stddef.h>

enum { BENCH_SERIES_PURPOSES = 16 };

struct bench_sample {
    double seconds;                       /* since the run began */
    double in_use[BENCH_SERIES_PURPOSES]; /* in the order of names; the mean since the sample before */
    unsigned held;                        /* by deliveries in work, at this moment */
    unsigned server;                      /* as the server saw them; 0: not sampled */
};

/* Grows to a bound, then makes one sample of two and doubles the interval: any length of run fits. */
struct bench_series {
    const char *names[BENCH_SERIES_PURPOSES]; /* as the ledger names them; static strings or owned by the caller */
    size_t n_names;
    struct bench_sample *samples; /* owned */
    size_t n, capacity;
};

void bench_series_free(struct bench_series *series);

#endif
