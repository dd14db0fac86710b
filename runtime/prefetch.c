#include "runtime/prefetch.h"

/* Prefetched rows should be begun within this time: what is here, other processes cannot have. */
#define PREFETCH_US 20000.0
#define PREFETCH_MOST 256
#define PREFETCH_LEAST 16

size_t hf__prefetch(size_t asked, size_t workers, double mean_handler_us, int64_t lease_ns)
{
    if (asked == SIZE_MAX || mean_handler_us <= 0)
        return 0;
    double each = (double)lease_ns / 4000.0 / mean_handler_us; /* rows that one worker gets through */
    if (each < 1)
        return 0;
    double most = each * (double)workers;
    if (asked == 0) {
        double least = workers < PREFETCH_LEAST ? (double)workers : PREFETCH_LEAST, quick = PREFETCH_US / mean_handler_us * (double)workers;
        asked = (size_t)(quick < least ? least : quick > PREFETCH_MOST ? PREFETCH_MOST : quick);
    }
    return (double)asked < most ? asked : (size_t)most;
}
