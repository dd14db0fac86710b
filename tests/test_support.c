/* ctest: timeout=30 labels=unit */
#include <signal.h>
#include <string.h>

#include "tests/support.h"

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static bool third_time(void *count)
{
    return ++*(int *)count == 3;
}

static void waiting_ends_at_its_limit(void)
{
    int64_t begin = hf_test_now_ms();
    CU_ASSERT_FALSE(hf_test_wait_until(never, NULL, 100));
    CU_ASSERT(hf_test_now_ms() - begin >= 100);
}

static void waiting_ends_when_true(void)
{
    int count = 0;
    CU_ASSERT_TRUE(hf_test_wait_until(third_time, &count, 10000));
    CU_ASSERT_EQUAL(count, 3);
}

static void child_gives_output_and_code(void)
{
    const char *const argv[] = {"sh", "-c", "cat; echo \"$WORD-$HOME\"; echo wrong >&2; exit 7", NULL};
    const char *const env[] = {"WORD=set", "HOME", NULL};
    struct hf_test_child *child = hf_test_start_with_input(argv, env, "in\n", 3);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), 7);
    CU_ASSERT_STRING_EQUAL(hf_test_stdout(child), "in\nset-\n");
    CU_ASSERT_STRING_EQUAL(hf_test_stderr(child), "wrong\n");
    hf_test_free(child);
}

static void child_is_waited_for_by_its_output(void)
{
    const char *const argv[] = {"sh", "-c", "echo ready; exec sleep 1000", NULL};
    struct hf_test_child *child = hf_test_start(argv, NULL);
    CU_ASSERT_TRUE(hf_test_wait_stdout(child, "ready", 20000));
    CU_ASSERT_TRUE(hf_test_running(child));
    hf_test_kill(child, SIGTERM);
    CU_ASSERT_EQUAL(hf_test_wait(child, 20000), HF_TEST_SIGNALLED + SIGTERM);
    CU_ASSERT_FALSE(hf_test_wait_stdout(child, "never said", 20000));
    hf_test_free(child);
}

static void child_is_killed_at_its_limit(void)
{
    const char *const argv[] = {"sleep", "1000", NULL};
    struct hf_test_child *child = hf_test_start(argv, NULL);
    CU_ASSERT_EQUAL(hf_test_wait(child, 50), HF_TEST_TIMED_OUT);
    CU_ASSERT_FALSE(hf_test_running(child));
    hf_test_free(child);
}

static void scratch_names_differ(void)
{
    CU_ASSERT_STRING_NOT_EQUAL(hf_test_scratch("a"), hf_test_scratch("a"));
    CU_ASSERT_EQUAL(strncmp(hf_test_scratch("jobs"), "jobs_", 5), 0);
}

int main(int argc, char **argv)
{
    static CU_TestInfo tests[] = {{"waiting_ends_at_its_limit", waiting_ends_at_its_limit},
                                  {"waiting_ends_when_true", waiting_ends_when_true},
                                  {"child_gives_output_and_code", child_gives_output_and_code},
                                  {"child_is_waited_for_by_its_output", child_is_waited_for_by_its_output},
                                  {"child_is_killed_at_its_limit", child_is_killed_at_its_limit},
                                  {"scratch_names_differ", scratch_names_differ},
                                  CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "support", tests);
}
