/* A log-linear histogram of durations: 64 linear steps in each power of two, so a value is kept to within 1/64 (1.6 %).
 * From one microsecond to about an hour; longer ones count in the last bucket, and max is kept exact. Not thread-safe. */
#ifndef HF_POOL_HISTOGRAM_H
#define HF_POOL_HISTOGRAM_H

#include <stdint.h>

#define HF__HISTOGRAM_BUCKETS 1728 /* 64 * 27 */

struct hf__histogram {
    uint64_t count;
    int64_t max_us;
    double sum_us;
    uint32_t bucket[HF__HISTOGRAM_BUCKETS];
};

void hf__histogram_record(struct hf__histogram *histogram, int64_t us);
/* The smallest recorded value (upper edge of its bucket, at most max) that at least the share p of all values does not exceed.
 * 0 if empty. */
int64_t hf__histogram_quantile(const struct hf__histogram *histogram, double p);
void hf__histogram_merge(struct hf__histogram *into, const struct hf__histogram *from);

#endif
