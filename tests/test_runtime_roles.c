/* ctest: timeout=180 labels=e2e
 * What the roles of a table mean to a handler and to a subscription, under every strategy of every database. */
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs.h"
#include "tests/session.h"

static void on_all(struct hf_test_shape shape, void (*test)(struct hf_test_jobs *jobs))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct hf_test_jobs jobs;
        hf_test_jobs_open_shape(&jobs, hf_test_kinds[i], 30, shape);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

static hf_outcome done(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

/* ---- a table with all of them ---- */

static atomic_int right, wrong;

static bool is(const char *text, const char *expected)
{
    return text && strcmp(text, expected) == 0;
}

/* A JSON column may be written anew by the database. */
static bool has_headers(const char *headers)
{
    return headers && strstr(headers, "\"trace\"") && strstr(headers, "4711");
}

static hf_outcome look(hf_delivery *delivery, void *ctx)
{
    size_t len = 0;
    const char *payload = hf_delivery_payload(delivery, &len);
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    bool all = has_headers(hf_delivery_headers(delivery)) && is(hf_delivery_group(delivery), "mail") &&
               is(hf_delivery_partition_key(delivery), "ada") && hf_delivery_attempt(delivery) == 1 && len == 4 && is(payload, "body");
    atomic_fetch_add(all ? &right : &wrong, 1);
    return HF_ACK;
}

static void handed_over(struct hf_test_jobs *jobs)
{
    hf_job job = HF_JOB_INIT;
    job.payload = "body";
    job.payload_len = 4;
    job.headers = "{\"trace\": \"4711\"}";
    job.group = "mail";
    job.partition_key = "ada";
    atomic_store(&right, 0);
    atomic_store(&wrong, 0);
    hf_test_jobs_put(jobs, job, 3);
    hf_test_jobs_finish(jobs, hf_test_jobs_start(jobs, 2, look, jobs));
    if (atomic_load(&right) != 3 || atomic_load(&wrong) != 0)
        hf_test_fail("%s: %d deliveries were whole, %d were not", hf_test_jobs_place(jobs), atomic_load(&right), atomic_load(&wrong));
}

static void test_handed_over(void)
{
    on_all((struct hf_test_shape){.columns = ", \"headers\": \"headers\", \"group\": \"grp\", \"partition_key\": \"customer\""},
           handed_over);
}

/* ---- a table with none of them ---- */

/* First with a delay, which no column can keep. */
static hf_outcome twice(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    size_t len = 1;
    bool bare = hf_delivery_id_int(delivery, &id) && !hf_delivery_payload(delivery, &len) && len == 0 && !hf_delivery_headers(delivery) &&
                !hf_delivery_group(delivery) && !hf_delivery_partition_key(delivery) && hf_delivery_attempt(delivery) == 0;
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    atomic_fetch_add(bare ? &right : &wrong, 1);
    hf_delivery_set_delay(delivery, 600000);
    return hf_test_runs_of(ctx, id) > 1 ? HF_ACK : HF_RETRY_AFTER;
}

static void bare(struct hf_test_jobs *jobs)
{
    const char *values = jobs->kind.database == HF__MYSQL ? "() VALUES ()" : "DEFAULT VALUES";
    atomic_store(&right, 0);
    atomic_store(&wrong, 0);
    for (int i = 0; i < 3; i++)
        hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s %s", jobs->name, values));
    hf_test_jobs_finish(jobs, hf_test_jobs_start(jobs, 2, twice, jobs));
    if (atomic_load(&right) != 6 || atomic_load(&wrong) != 0)
        hf_test_fail("%s: %d deliveries were bare, %d were not", hf_test_jobs_place(jobs), atomic_load(&right), atomic_load(&wrong));
    CU_ASSERT(hf_test_logged(jobs, "asked for a delay, but the table has no retry_after column: it is due again at once"));
}

static void test_bare(void)
{
    on_all((struct hf_test_shape){.bare = true}, bare);
}

/* ---- which groups ---- */

static void put_groups(struct hf_test_jobs *jobs)
{
    static const char *const groups[] = {"a", "b", "c", NULL};
    for (size_t i = 0; i < 4; i++) {
        hf_job job = HF_JOB_INIT;
        job.group = groups[i];
        hf_test_jobs_put(jobs, job, 2);
    }
}

static void read_groups(struct hf_test_jobs *jobs, const char *const *groups, size_t n, const char *left, int64_t n_left)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    options.workers = 2;
    options.groups = groups;
    options.n_groups = n;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, done, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    hf_test_jobs_stop(jobs, runtime);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), n_left);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, left), n_left);
}

static void in_groups(struct hf_test_jobs *jobs)
{
    static const char *const one[] = {"b"}, *const some[] = {"c", "a", "nobody's"};
    put_groups(jobs);
    read_groups(jobs, one, 1, "grp IN ('a', 'c') OR grp IS NULL", 6);
    read_groups(jobs, some, 3, "grp IS NULL", 2);
    read_groups(jobs, NULL, 0, "1 = 1", 0);
    CU_ASSERT_EQUAL(jobs->n_runs, 8);
}

static void test_groups(void)
{
    on_all((struct hf_test_shape){.columns = ", \"group\": \"grp\""}, in_groups);
}

/* ---- lock: no_key_update ---- */

static atomic_bool may_end;

static hf_outcome until_told(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    while (!atomic_load(&may_end) && hf_delivery_wait(delivery, 5) == HF_NOT_CANCELLED)
        continue;
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

/* While a row runs, others may be inserted that reference it. */
static void test_no_key_update(void)
{
    struct hf_test_jobs jobs;
    struct hf_test_kind kind = {HF__POSTGRES, HF_ROW_LOCK};
    hf_test_jobs_open_shape(&jobs, kind, 30, (struct hf_test_shape){.settings = ", \"lock\": \"no_key_update\""});
    hf_test_sql(jobs.url, hf_test_format("CREATE TABLE %s_child (job BIGINT REFERENCES %s (id))", jobs.name, jobs.name));
    atomic_store(&may_end, false);
    hf_runtime *runtime = hf_test_jobs_start(&jobs, 1, until_told, &jobs);
    hf_test_jobs_add(&jobs, runtime, 1);
    hf_test_wait_for_runs(&jobs, 1);
    struct hf__conn *session = hf_test_session(jobs.url);
    hf_test_session_run(session, "SET lock_timeout = '5s'");
    hf_test_session_run(session, hf_test_format("INSERT INTO %s_child VALUES (1)", jobs.name));
    CU_ASSERT_EQUAL(
        hf_test_session_int(session,
                            hf_test_format("SELECT count(*) FROM (SELECT 1 FROM %s FOR NO KEY UPDATE SKIP LOCKED) AS free", jobs.name)),
        0);
    hf_test_session_run(session, hf_test_format("DELETE FROM %s_child", jobs.name));
    hf__conn_close(session);
    atomic_store(&may_end, true);
    hf_test_jobs_finish(&jobs, runtime);
    hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s_child", jobs.name));
    hf_test_jobs_close(&jobs);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"handed over", test_handed_over},     {"bare", test_bare}, {"groups", test_groups},
        {"no_key_update", test_no_key_update}, CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "runtime_roles", tests);
}
