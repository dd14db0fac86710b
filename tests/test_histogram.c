/* Properties that hold for every set of values: an answer is never below the true quantile and at most 1/64 above it. */
#include <stdlib.h>
#include <string.h>

#include "pool/deadline.h"
#include "pool/histogram.h"
#include "tests/support.h"

#define COVERED INT64_C(4294967296) /* 2^32 us: from here on there is one bucket */

static struct hf__histogram histogram;

static void start(void)
{
    memset(&histogram, 0, sizeof histogram);
}

static void test_empty(void)
{
    start();
    CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 0.5), 0);
    CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 1), 0);
}

static void test_small_values_are_exact(void)
{
    start();
    for (int64_t us = 0; us < 64; us++) {
        hf__histogram_record(&histogram, us);
    }
    for (int64_t us = 0; us < 64; us++) {
        CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, (double)(us + 1) / 64), us);
    }
}

/* Whatever one value is, alone it is answered exactly: an upper edge is cut at the maximum. */
static void test_one_value(void)
{
    for (int64_t us = 1; us < INT64_MAX / 4; us = us * 3 + 1) {
        start();
        hf__histogram_record(&histogram, us);
        CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 0.5), us);
        CU_ASSERT_EQUAL(histogram.max_us, us);
    }
}

/* Around every power of two, where an edge that is off by one would show. */
static void test_relative_error(void)
{
    for (int power = 0; power < 32; power++) {
        for (int64_t off = -2; off <= 2; off++) {
            int64_t us = (INT64_C(1) << power) + off;
            if (us < 0 || us >= COVERED) {
                continue;
            }
            start();
            hf__histogram_record(&histogram, us);
            hf__histogram_record(&histogram, COVERED * 2);
            int64_t answer = hf__histogram_quantile(&histogram, 0.5);
            CU_ASSERT(answer >= us && (double)answer <= (double)us * (1 + 1.0 / 64));
        }
    }
}

static void test_outside_the_range(void)
{
    start();
    hf__histogram_record(&histogram, -5);
    hf__histogram_record(&histogram, COVERED * 1000);
    CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 0.5), 0);
    CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 1), COVERED * 1000);
    CU_ASSERT_EQUAL(histogram.max_us, COVERED * 1000);
    CU_ASSERT_EQUAL(histogram.count, 2);
    CU_ASSERT_DOUBLE_EQUAL(histogram.sum_us, (double)COVERED * 1000, 1);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

#define VALUES 2000

static void fill(int64_t values[VALUES])
{
    start();
    for (size_t i = 0; i < VALUES; i++) {
        int64_t scale = INT64_C(1) << hf__random_below(32);
        values[i] = (int64_t)hf__random_below((uint64_t)scale);
        hf__histogram_record(&histogram, values[i]);
    }
    qsort(values, VALUES, sizeof *values, compare);
}

static void test_random_sets(void)
{
    static int64_t values[VALUES];
    for (int round = 0; round < 20; round++) {
        fill(values);
        int64_t last = 0;
        for (size_t rank = 1; rank <= VALUES; rank += 7) {
            int64_t truth = values[rank - 1];
            int64_t answer = hf__histogram_quantile(&histogram, (double)rank / VALUES);
            CU_ASSERT_FATAL(answer >= truth && (double)answer <= (double)truth * (1 + 1.0 / 64) + 0.5);
            CU_ASSERT_FATAL(answer >= last);
            last = answer;
        }
        CU_ASSERT_EQUAL(hf__histogram_quantile(&histogram, 1), values[VALUES - 1]);
    }
}

/* Merging two is the same as recording everything in one. */
static void test_merge(void)
{
    static struct hf__histogram parts[2];
    memset(parts, 0, sizeof parts);
    start();
    for (size_t i = 0; i < 5000; i++) {
        int64_t us = (int64_t)hf__random_below(1000000);
        hf__histogram_record(&histogram, us);
        hf__histogram_record(&parts[i % 2], us);
    }
    hf__histogram_merge(&parts[0], &parts[1]);
    CU_ASSERT_EQUAL(parts[0].count, histogram.count);
    CU_ASSERT_EQUAL(parts[0].max_us, histogram.max_us);
    CU_ASSERT_DOUBLE_EQUAL(parts[0].sum_us, histogram.sum_us, 1);
    CU_ASSERT_EQUAL(memcmp(parts[0].bucket, histogram.bucket, sizeof histogram.bucket), 0);
}

static void test_buckets_saturate(void)
{
    static struct hf__histogram other;
    memset(&other, 0, sizeof other);
    start();
    histogram.bucket[3] = UINT32_MAX - 1;
    other.bucket[3] = 5;
    hf__histogram_merge(&histogram, &other);
    CU_ASSERT_EQUAL(histogram.bucket[3], UINT32_MAX);
    hf__histogram_record(&histogram, 3);
    CU_ASSERT_EQUAL(histogram.bucket[3], UINT32_MAX);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"empty", test_empty},
                           {"small values are exact", test_small_values_are_exact},
                           {"one value", test_one_value},
                           {"relative error", test_relative_error},
                           {"outside the range", test_outside_the_range},
                           {"random sets", test_random_sets},
                           {"merge", test_merge},
                           {"buckets saturate", test_buckets_saturate},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "histogram", tests);
}
