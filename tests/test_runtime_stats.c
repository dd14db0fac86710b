/* ctest: timeout=60 labels=e2e
 * The numbers: as a tree and as a list, in any locale; and what is refused before anything runs. */
#include <jansson.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tests/command.h"
#include "tests/jobs.h"

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(5);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static void open_jobs(struct hf_test_jobs *jobs)
{
    hf_test_jobs_open(jobs, (struct hf_test_kind){HF__SQLITE, HF_LEASE}, 30);
}

static hf_runtime *run_some(struct hf_test_jobs *jobs, size_t n)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, NULL, ack, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    hf_test_jobs_add(jobs, runtime, n);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 20000, &err), &err);
    return runtime;
}

static json_t *parsed(hf_runtime *runtime)
{
    json_error_t error;
    char *text = hf_stats_json(runtime);
    if (!text)
        hf_test_fail("there is no JSON");
    json_t *tree = json_loads(text, 0, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
    if (text && strstr(text, "hold:f@st"))
        hf_test_fail("a password is in the JSON");
    hf_free(text);
    return tree;
}

static void tree_and_list(void)
{
    struct hf_test_jobs jobs;
    open_jobs(&jobs);
    hf_runtime *runtime = run_some(&jobs, 20);
    double claims_before = hf_test_stat(runtime, "pool.purposes.claim.count");
    json_t *tree = parsed(runtime);
    json_t *pool = json_object_get(tree, "pool"), *subscription = json_array_get(json_object_get(tree, "subscriptions"), 0);
    json_t *purposes = json_object_get(pool, "purposes");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(tree, "version")), hf_version());
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(tree, "database")), "SQLite");
    CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(tree, "server_version")), "SQLite 3."));
    CU_ASSERT_EQUAL(json_object_size(purposes), 9);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(subscription, "strategy")), "lease");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(subscription, "acked")), 20);
    CU_ASSERT(json_number_value(json_object_get(json_object_get(subscription, "handler_ms"), "p50")) >= 5);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 20);
    double claims = (double)json_integer_value(json_object_get(json_object_get(purposes, "claim"), "count"));
    CU_ASSERT(claims >= claims_before && claims <= hf_test_stat(runtime, "pool.purposes.claim.count")); /* it goes on polling */
    json_decref(tree);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(&jobs);
}

static void described(void)
{
    struct hf_test_jobs jobs;
    hf_stats *stats = NULL;
    hf_stat stat;
    hf_error err = {.status = HF_OK};
    open_jobs(&jobs);
    hf_runtime *runtime = run_some(&jobs, 1);
    HF_TEST_OK(hf_stats_snapshot(runtime, &stats, &err), &err);
    CU_ASSERT(hf_stats_count(stats) > 100);
    const char *manual = hf_test_read_file(HF_TEST_SOURCE_DIR "/runtime/holdfast.7");
    for (size_t i = 0; hf_stats_at(stats, i, &stat); i++) {
        const char *dot = strrchr(stat.name, '.');
        if (!*stat.description || !*stat.unit)
            hf_test_fail("%s is not described", stat.name);
        if (!strstr(manual, hf_test_format("\n%s\t%s\t", dot ? dot + 1 : stat.name, stat.unit)))
            hf_test_fail("%s is not in the statistics of holdfast.7", stat.name);
    }
    CU_ASSERT_FALSE(hf_stats_at(stats, hf_stats_count(stats), &stat));
    CU_ASSERT_FALSE(hf_stats_find(stats, "no.such.number", &(double){0}));
    hf_stats_free(stats);
    hf_stats_free(NULL);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(&jobs);
}

/* A decimal comma must not get into the JSON. */
static void other_locale(void)
{
    struct hf_test_jobs jobs;
    open_jobs(&jobs);
    hf_runtime *runtime = run_some(&jobs, 3);
    const char *before = setlocale(LC_NUMERIC, NULL);
    char *kept = strdup(before ? before : "C");
    (void)(setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8"));
    json_t *tree = parsed(runtime);
    json_decref(tree);
    (void)setlocale(LC_NUMERIC, kept ? kept : "C");
    free(kept);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(&jobs);
}

static void refuse(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, const char *part)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_STATUS(hf_subscribe(runtime, table, options, ack, NULL, NULL, &err), HF_INVALID, &err);
    if (!strstr(err.message, part))
        hf_test_fail("\"%s\" does not contain \"%s\"", err.message, part);
}

static void refused_options(void)
{
    struct hf_test_jobs jobs;
    open_jobs(&jobs);
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, NULL);
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *group = "a";
    options.poll_ms = -1;
    refuse(runtime, jobs.table, &options, "negative");
    options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    options.retry_factor = 0.5;
    refuse(runtime, jobs.table, &options, "retry_factor");
    options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = 1000000;
    refuse(runtime, jobs.table, &options, "workers");
    options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    options.groups = &group;
    options.n_groups = 1;
    refuse(runtime, jobs.table, &options, "no group column");
    options = (hf_subscription_options)HF_SUBSCRIPTION_OPTIONS_INIT;
    options.size = 0;
    refuse(runtime, jobs.table, &options, "_INIT");
    refuse(runtime, NULL, NULL, "needs a table");
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(&jobs);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"tree and list", tree_and_list},     {"described", described}, {"other locale", other_locale},
        {"refused options", refused_options}, CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_stats", tests);
}
