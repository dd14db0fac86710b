#include "bench/series.h"

#include <stdlib.h>

void bench_series_free(struct bench_series *series)
{
    free(series->samples);
    *series = (struct bench_series){.n = 0};
}
