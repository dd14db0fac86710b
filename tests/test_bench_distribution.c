#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/distribution.h"
#include "tests/support.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static struct bench_distribution parsed(const char *text)
{
    struct bench_distribution law;
    char *why = NULL;
    if (!bench_distribution_parse(text, &law, &why))
        hf_test_fail("%s: %s", text, why);
    return law;
}

static void laws(void)
{
    static const struct {
        const char *text;
        double mean, scv, median;
    } cases[] = {
        {"5", 5, 0, 5}, {"0", 0, 0, 0}, {"2.5", 2.5, 0, 2.5}, {"exp:5", 5, 1, 3.465735902799727}, {"uniform:1-9", 5, 16.0 / 75, 5},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct bench_distribution law = parsed(cases[i].text);
        CU_ASSERT_DOUBLE_EQUAL(bench_distribution_mean(&law), cases[i].mean, 1e-12);
        CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv(&law), cases[i].scv, 1e-12);
        CU_ASSERT_DOUBLE_EQUAL(bench_distribution_quantile(&law, 0.5), cases[i].median, 1e-9);
        CU_ASSERT_STRING_EQUAL(law.text, cases[i].text);
        bench_distribution_free(&law);
    }
}

static const char *file_of(const char *content)
{
    const char *path = hf_test_format("/tmp/%s", hf_test_scratch("times"));
    FILE *file = fopen(path, "we");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(content, file);
    fclose(file);
    return path;
}

static void samples(void)
{
    const char *path = file_of("# times\n3\n\n  1 \n8\r\n4");
    struct bench_distribution law = parsed(hf_test_format("file:%s", path));
    CU_ASSERT_EQUAL(law.n_samples, 4);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_mean(&law), 4, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv(&law), 26.0 / 4 / 16, 1e-12);
    CU_ASSERT_EQUAL(bench_distribution_quantile(&law, 0), 1);
    CU_ASSERT_EQUAL(bench_distribution_quantile(&law, 0.5), 4);
    CU_ASSERT_EQUAL(bench_distribution_quantile(&law, 0.999999), 8);
    bench_distribution_free(&law);
    unlink(path);
}

static void refused(void)
{
    const char *bad = file_of("1\nsoon\n"), *empty = file_of("# nothing\n");
    const char *cases[] = {"",
                           "soon",
                           "-1",
                           "5ms",
                           "inf",
                           "nan",
                           "exp:",
                           "exp:-1",
                           "uniform:1",
                           "uniform:9-1",
                           "uniform:1-9x",
                           " 5",
                           "file:/nowhere/at/all",
                           "1e300",
                           hf_test_format("file:%s", bad),
                           hf_test_format("file:%s", empty)};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct bench_distribution law;
        char *why = NULL;
        if (bench_distribution_parse(cases[i], &law, &why))
            hf_test_fail("\"%s\" was taken", cases[i]);
        CU_ASSERT_PTR_NOT_NULL(why);
        free(why);
    }
    unlink(bad);
    unlink(empty);
}

/* The 99th percentile over the mean: exponential ln 100; gamma of shape 2 (Erlang) 6.6384 / 2, of shape 1/2 (chi square) 6.6349. */
static void fitted(void)
{
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv_of_p99(10, 46.0517018599), 1, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv_of_p99(10, 33.1917603), 0.5, 1e-4);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv_of_p99(10, 66.3489660), 2, 1e-4);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv_of_p99(10, 10), 0, 1e-12);
    CU_ASSERT(bench_distribution_scv_of_p99(10, 10.5) < 0.001);
    CU_ASSERT_DOUBLE_EQUAL(bench_distribution_scv_of_p99(1, 1000), BENCH_SCV_MOST, 1e-6);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"laws", laws}, {"samples", samples}, {"refused", refused}, {"fitted", fitted}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_distribution", tests);
}
