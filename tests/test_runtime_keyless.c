/* ctest: timeout=60 labels=e2e
 * Rows whose advisory key renders to nothing are never run; they are counted and said, and hide nobody. */
#include <pthread.h>
#include <string.h>

#include "holdfast.h"
#include "tests/support.h"

struct heard {
    pthread_mutex_t lock;
    int warnings, runs;
};

static void hear(void *ctx, hf_log_level level, const char *message)
{
    struct heard *heard = ctx;
    pthread_mutex_lock(&heard->lock);
    heard->warnings += level == HF_LOG_WARNING && strstr(message, "2 due rows render no advisory key") != NULL;
    pthread_mutex_unlock(&heard->lock);
}

static hf_outcome note(hf_delivery *delivery, void *ctx)
{
    struct heard *heard = ctx;
    pthread_mutex_lock(&heard->lock);
    heard->runs += strcmp(hf_delivery_key(delivery), "k") == 0 ? 1 : 1000;
    pthread_mutex_unlock(&heard->lock);
    return HF_ACK;
}

static bool said(void *arg)
{
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    bool yes = heard->warnings > 0 && heard->runs > 0;
    pthread_mutex_unlock(&heard->lock);
    return yes;
}

static void keyless_on(enum hf__database database)
{
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const char *url = hf_test_url(database), *name = hf_test_scratch("keyless");
    const char *json = hf_test_format("{ \"table\": \"%s\", \"columns\": { \"id\": \"id\" }, \"advisory_lock\": \"{account}\" }", name);
    hf_test_sql(url, hf_test_format("CREATE TABLE %s (id INTEGER NOT NULL PRIMARY KEY, account VARCHAR(20))", name));
    hf_test_sql(url, hf_test_format("INSERT INTO %s VALUES (1, NULL), (2, ''), (3, 'k')", name));
    hf_error err = {.status = HF_OK};
    hf_table *table;
    hf_runtime *runtime;
    hf_stats *stats;
    double keyless = -1;
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    hf_subscription_options how = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.log = hear;
    options.log_ctx = &heard;
    how.poll_ms = 20;
    HF_TEST_OK(hf_table_parse(json, strlen(json), &table, &err), &err);
    HF_TEST_OK(hf_runtime_open(url, &options, &runtime, &err), &err);
    HF_TEST_OK(hf_subscribe(runtime, table, &how, note, &heard, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    CU_ASSERT_TRUE(hf_test_wait_until(said, &heard, 10000));
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 5000, &err), &err); /* they are nobody's work */
    HF_TEST_OK(hf_stats_snapshot(runtime, &stats, &err), &err);
    CU_ASSERT_TRUE(hf_stats_find(stats, "subscription.0.keyless", &keyless));
    CU_ASSERT_EQUAL(keyless, 2);
    hf_stats_free(stats);
    HF_TEST_OK(hf_runtime_stop(runtime, 5000, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_table_free(table);
    CU_ASSERT_EQUAL(heard.runs, 1);
    CU_ASSERT_EQUAL(heard.warnings, 1);
    CU_ASSERT_EQUAL(hf_test_query_int(url, hf_test_format("SELECT COUNT(*) FROM %s", name)), 2);
}

static void test_keyless(void)
{
    keyless_on(HF__POSTGRES);
    keyless_on(HF__MYSQL);
    keyless_on(HF__SQLITE);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"rows without a key", test_keyless}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "runtime_keyless", tests);
}
