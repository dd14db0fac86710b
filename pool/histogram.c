/* Buckets: values below 64 have one each; from there on every power of two is cut into 64 steps of equal width. */
#include "histogram.h"

#include <stddef.h>

#define STEPS 64
#define STEP_BITS 6
#define LAST (HF__HISTOGRAM_BUCKETS - 1)

static size_t bucket_of(int64_t us)
{
    if (us < STEPS) {
        return us < 0 ? 0 : (size_t)us;
    }
    unsigned power = 63U - (unsigned)__builtin_clzll((unsigned long long)us);
    unsigned shift = power - STEP_BITS;
    size_t index = STEPS * ((size_t)shift + 1) + ((size_t)(us >> shift) - STEPS);
    return index < LAST ? index : LAST;
}

/* The largest value that falls into the bucket. */
static int64_t upper_edge(size_t bucket)
{
    if (bucket < STEPS) {
        return (int64_t)bucket;
    }
    size_t shift = bucket / STEPS - 1;
    int64_t step = (int64_t)(bucket % STEPS) + STEPS + 1;
    return step * ((int64_t)1 << shift) - 1;
}

static void add_saturating(uint32_t *bucket, uint32_t more)
{
    *bucket = *bucket > UINT32_MAX - more ? UINT32_MAX : *bucket + more;
}

void hf__histogram_record(struct hf__histogram *histogram, int64_t us)
{
    int64_t value = us < 0 ? 0 : us;
    add_saturating(&histogram->bucket[bucket_of(value)], 1);
    histogram->count++;
    histogram->sum_us += (double)value;
    if (value > histogram->max_us) {
        histogram->max_us = value;
    }
}

int64_t hf__histogram_quantile(const struct hf__histogram *histogram, double p)
{
    double wanted = p * (double)histogram->count * (1 - 1e-12); /* a share like 7/2000 must not round to one value more */
    uint64_t seen = 0;
    for (size_t i = 0; i < LAST && seen < histogram->count; i++) {
        seen += histogram->bucket[i];
        if (seen > 0 && (double)seen >= wanted) {
            int64_t edge = upper_edge(i);
            return edge < histogram->max_us ? edge : histogram->max_us;
        }
    }
    return histogram->max_us; /* the last bucket has no upper edge */
}

void hf__histogram_merge(struct hf__histogram *into, const struct hf__histogram *from)
{
    for (size_t i = 0; i < HF__HISTOGRAM_BUCKETS; i++) {
        add_saturating(&into->bucket[i], from->bucket[i]);
    }
    into->count += from->count;
    into->sum_us += from->sum_us;
    if (from->max_us > into->max_us) {
        into->max_us = from->max_us;
    }
}
