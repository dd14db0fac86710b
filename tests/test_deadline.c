/* Deadlines, waiting for one, and numbers for jitter. */
#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/deadline.h"
#include "support.h"

#define MS INT64_C(1000000)

static void arithmetic_saturates(void)
{
    CU_ASSERT_EQUAL(hf__after_ms(INT64_MAX).at_ns, INT64_MAX);
    CU_ASSERT_EQUAL(hf__after_ms(INT64_MAX / MS).at_ns, INT64_MAX);
    CU_ASSERT(hf__passed(hf__after_ms(0)));
    CU_ASSERT(hf__passed(hf__after_ms(-1)));
    CU_ASSERT(hf__passed(hf__after_ms(INT64_MIN)));
    CU_ASSERT_FALSE(hf__passed(hf__never()));
    CU_ASSERT_FALSE(hf__passed(hf__after_ms(60000)));
    CU_ASSERT_EQUAL(hf__sooner(hf__at_ns(5), hf__at_ns(7)).at_ns, 5);
    CU_ASSERT_EQUAL(hf__sooner(hf__never(), hf__at_ns(7)).at_ns, 7);
}

static void what_is_left(void)
{
    CU_ASSERT_EQUAL(hf__left_ns(hf__never()), INT64_MAX);
    CU_ASSERT_EQUAL(hf__left_ns(hf__at_ns(0)), 0);
    int64_t before = hf__monotonic_ns();
    int64_t left = hf__left_ns(hf__after_ms(60000));
    int64_t passed = hf__monotonic_ns() - before;
    CU_ASSERT(left >= 60000 * MS - passed && left <= 60000 * MS);
    CU_ASSERT_EQUAL(hf__left_poll_ms(hf__never()), -1);
    CU_ASSERT_EQUAL(hf__left_poll_ms(hf__at_ns(1)), 0);
    CU_ASSERT_EQUAL(hf__left_poll_ms(hf__at_ns(INT64_MAX - 1)), INT_MAX);
    int poll_ms = hf__left_poll_ms(hf__at_ns(hf__monotonic_ns() + 50000 * MS + 1));
    CU_ASSERT(poll_ms > 0 && poll_ms <= 50001);
    /* Rounded down, poll(2) would return before the deadline, and the caller would spin through the last millisecond. */
    struct hf__deadline soon = hf__at_ns(hf__monotonic_ns() + 900000);
    CU_ASSERT(hf__left_poll_ms(soon) == 1 || hf__passed(soon));
}

struct waiting {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool signalled;
};

static void *signal_it(void *arg)
{
    struct waiting *w = arg;
    (void)pthread_mutex_lock(&w->mutex);
    w->signalled = true;
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static bool wait_for_it(struct waiting *w, struct hf__deadline deadline)
{
    bool in_time = true;
    while (!w->signalled && in_time) {
        in_time = hf__cond_wait(&w->cond, &w->mutex, deadline);
    }
    return w->signalled;
}

static void waiting_ends_at_the_deadline(void)
{
    struct waiting w = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    CU_ASSERT_EQUAL_FATAL(hf__cond_init(&w.cond), 0);
    (void)pthread_mutex_lock(&w.mutex);
    int64_t start = hf__monotonic_ns();
    CU_ASSERT_FALSE(wait_for_it(&w, hf__after_ms(80)));
    int64_t took = hf__monotonic_ns() - start;
    CU_ASSERT(took >= 80 * MS && took < 30000 * MS);
    CU_ASSERT_FALSE(wait_for_it(&w, hf__at_ns(0)));
    CU_ASSERT_FALSE(wait_for_it(&w, hf__at_ns(-5)));
    (void)pthread_mutex_unlock(&w.mutex);
    (void)pthread_cond_destroy(&w.cond);
}

static void waiting_ends_at_the_signal(void)
{
    const struct hf__deadline limits[] = {hf__never(), hf__after_ms(30000)};
    for (size_t i = 0; i < 2; i++) {
        struct waiting w = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        pthread_t thread;
        CU_ASSERT_EQUAL_FATAL(hf__cond_init(&w.cond), 0);
        (void)pthread_mutex_lock(&w.mutex);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, signal_it, &w), 0);
        CU_ASSERT(wait_for_it(&w, limits[i]));
        (void)pthread_mutex_unlock(&w.mutex);
        (void)pthread_join(thread, NULL);
        (void)pthread_cond_destroy(&w.cond);
    }
}

static void random_is_below_and_spread(void)
{
    enum { BOUND = 7, DRAWS = 70000 };
    unsigned seen[BOUND] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint64_t number = hf__random_below(BOUND);
        CU_ASSERT_FATAL(number < BOUND);
        seen[number]++;
    }
    for (int i = 0; i < BOUND; i++) {
        CU_ASSERT(seen[i] > DRAWS / BOUND * 9 / 10 && seen[i] < DRAWS / BOUND * 11 / 10);
    }
    CU_ASSERT_EQUAL(hf__random_below(1), 0);
    CU_ASSERT(hf__random_below(UINT64_MAX) < UINT64_MAX);
    CU_ASSERT_NOT_EQUAL(hf__random_below(UINT64_MAX), hf__random_below(UINT64_MAX));
}

/* Lease expiries draw their last digits here: a child that repeats its parent's numbers would share its tokens. */
static void a_child_draws_other_numbers(void)
{
    int ends[2];
    (void)hf__random_below(2); /* seeded before the fork */
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        uint64_t number = hf__random_below(UINT64_MAX);
        _exit(write(ends[1], &number, sizeof number) == (ssize_t)sizeof number ? 0 : 1);
    }
    CU_ASSERT_FATAL(pid > 0);
    uint64_t theirs = 0;
    CU_ASSERT_EQUAL(read(ends[0], &theirs, sizeof theirs), (ssize_t)sizeof theirs);
    CU_ASSERT_NOT_EQUAL(theirs, hf__random_below(UINT64_MAX));
    CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"arithmetic saturates", arithmetic_saturates},
        {"what is left", what_is_left},
        {"waiting ends at the deadline", waiting_ends_at_the_deadline},
        {"waiting ends at the signal", waiting_ends_at_the_signal},
        {"random is below and spread", random_is_below_and_spread},
        {"a child draws other numbers", a_child_draws_other_numbers},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "deadline", tests);
}
