/* Lease: how many rows are claimed beyond the free workers. */
#ifndef HF_RUNTIME_PREFETCH_H
#define HF_RUNTIME_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* What the user allows (as in hf_subscription_options), and in any case no more than the workers get through in a quarter of the lease.
 * None before a handler's time is known (0). */
size_t hf__prefetch(size_t asked, size_t workers, double mean_handler_us, int64_t lease_ns);

#endif
