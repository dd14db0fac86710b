/* ctest: timeout=120 labels=e2e
 * Dead letters through the runtime: runs counted, counters, counts by group, the way back. */
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs.h"

struct scene {
    struct hf_test_jobs jobs;
    atomic_int failing; /* while it is 1 every run fails */
};

static hf_outcome fail_or_ack(hf_delivery *delivery, void *ctx)
{
    struct scene *scene = ctx;
    size_t len;
    hf_test_run_end(&scene->jobs, hf_test_run_begin(&scene->jobs, delivery));
    if (!atomic_load(&scene->failing))
        return HF_ACK;
    (void)!hf_delivery_set_reason(delivery, "no luck", 7);
    return strcmp(hf_delivery_payload(delivery, &len), "bad") == 0 ? HF_REJECT : HF_RETRY;
}

static void put(struct scene *scene, const char *group, const char *payload, size_t n)
{
    hf_job job = HF_JOB_INIT;
    job.group = group;
    job.payload = payload;
    job.payload_len = strlen(payload);
    hf_test_jobs_put(&scene->jobs, job, n);
}

/* Three rows' worth of a table whose dead letters go to a group or to a table. */
static void open_scene(struct scene *scene, struct hf_test_kind kind, bool group)
{
    struct hf_test_shape shape = {.columns = ", \"group\": \"grp\"",
                                  .settings =
                                      group ? ", \"max_attempts\": 3, \"dead_letter\": { \"group\": \"dead\" }" : ", \"max_attempts\": 3",
                                  .dead_table = !group};
    hf_test_jobs_open_shape(&scene->jobs, kind, 30, shape);
    atomic_init(&scene->failing, 0);
}

static void check_groups(struct scene *scene, hf_runtime *runtime, bool group)
{
    hf_error err;
    hf_group_counts *groups;
    const char *name;
    hf_counts counts = HF_COUNTS_INIT;
    HF_TEST_OK(hf_count_groups(runtime, scene->jobs.table, &groups, &err), &err);
    CU_ASSERT_EQUAL(hf_group_counts_count(groups), group ? 1 : 2);
    CU_ASSERT_TRUE_FATAL(hf_group_counts_at(groups, 0, &name, &counts));
    CU_ASSERT_STRING_EQUAL(name, group ? "dead" : "g1");
    CU_ASSERT_EQUAL(counts.dead, group ? 3 : 2);
    CU_ASSERT_EQUAL(counts.due, 0);
    CU_ASSERT_FALSE(hf_group_counts_at(groups, 2, &name, &counts));
    hf_group_counts_free(groups);
}

static void live(struct hf_test_kind kind, bool group)
{
    struct scene scene;
    hf_error err;
    size_t moved = 0;
    hf_requeue_options all = HF_REQUEUE_OPTIONS_INIT;
    open_scene(&scene, kind, group);
    put(&scene, "g1", "fails", 2);
    put(&scene, "g2", "bad", 1);
    atomic_store(&scene.failing, 1);
    hf_runtime *runtime = hf_test_jobs_start(&scene.jobs, 2, fail_or_ack, &scene);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    CU_ASSERT_EQUAL(hf_test_n_runs(&scene.jobs), 7); /* three each, and one that was rejected */
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.dead"), 3);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.rejected"), 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.retried"), 4);
    check_groups(&scene, runtime, group);

    atomic_store(&scene.failing, 0);
    all.to_group = group ? "g3" : NULL;
    HF_TEST_OK(hf_requeue(runtime, scene.jobs.table, &all, &moved, &err), &err);
    CU_ASSERT_EQUAL(moved, 3);
    hf_test_wait_for_runs(&scene.jobs, 10);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    CU_ASSERT_EQUAL(scene.jobs.runs[9].attempt, 1);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), 3);
    hf_test_jobs_finish(&scene.jobs, runtime);
    hf_test_jobs_close(&scene.jobs);
}

static void test_life(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        for (int group = 0; group <= 1; group++)
            live(hf_test_kinds[i], group != 0);
}

/* Rows that a crash left past max_attempts are counted and said, and not run. */
static void test_buried(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        struct scene scene;
        hf_error err;
        open_scene(&scene, hf_test_kinds[i], false);
        put(&scene, "g1", "crashed", 2);
        hf_test_sql(scene.jobs.url, hf_test_format("UPDATE %s SET attempt = 4", scene.jobs.name));
        put(&scene, "g1", "fine", 1);
        hf_runtime *runtime = hf_test_jobs_start(&scene.jobs, 2, fail_or_ack, &scene);
        HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
        CU_ASSERT_EQUAL(hf_test_n_runs(&scene.jobs), 1);
        CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.dead"), 2);
        CU_ASSERT_TRUE(hf_test_logged(&scene.jobs, "went to the dead letter unrun"));
        hf_test_jobs_stop(&scene.jobs, runtime);
        hf_test_jobs_close(&scene.jobs);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"a row's death and way back", test_life}, {"rows past max_attempts", test_buried}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "runtime_dead", tests);
}
