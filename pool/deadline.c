#include "deadline.h"

#include <limits.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t hf__monotonic_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock and a valid pointer */
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

struct hf__deadline hf__at_ns(int64_t monotonic_ns)
{
    return (struct hf__deadline){.at_ns = monotonic_ns};
}

struct hf__deadline hf__never(void)
{
    return hf__at_ns(INT64_MAX);
}

struct hf__deadline hf__after_ms(int64_t ms)
{
    int64_t now = hf__monotonic_ns();
    if (ms <= 0) {
        return hf__at_ns(now);
    }
    return ms > (INT64_MAX - now) / NS_PER_MS ? hf__never() : hf__at_ns(now + ms * NS_PER_MS);
}

struct hf__deadline hf__sooner(struct hf__deadline a, struct hf__deadline b)
{
    return a.at_ns <= b.at_ns ? a : b;
}

bool hf__passed(struct hf__deadline deadline)
{
    return hf__left_ns(deadline) == 0;
}

int64_t hf__left_ns(struct hf__deadline deadline)
{
    if (deadline.at_ns == INT64_MAX) {
        return INT64_MAX;
    }
    int64_t now = hf__monotonic_ns();
    return deadline.at_ns > now ? deadline.at_ns - now : 0;
}

int hf__left_poll_ms(struct hf__deadline deadline)
{
    int64_t left = hf__left_ns(deadline);
    if (left == INT64_MAX) {
        return -1;
    }
    int64_t ms = left / NS_PER_MS + (left % NS_PER_MS != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int hf__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0) {
        return rc;
    }
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0) {
        rc = pthread_cond_init(cond, &attr);
    }
    (void)pthread_condattr_destroy(&attr);
    return rc;
}

bool hf__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, struct hf__deadline deadline)
{
    if (deadline.at_ns == INT64_MAX) {
        return pthread_cond_wait(cond, mutex) == 0;
    }
    int64_t at = deadline.at_ns > 0 ? deadline.at_ns : 0;
    struct timespec until = {.tv_sec = (time_t)(at / NS_PER_SECOND), .tv_nsec = (long)(at % NS_PER_SECOND)};
    return pthread_cond_timedwait(cond, mutex, &until) == 0;
}

/* One for each thread. The pid is kept so that a forked child does not repeat its parent's numbers. */
struct random_source {
    uint64_t state;
    pid_t pid;
};

static void seed_random(struct random_source *source, pid_t pid)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        seed = (uint64_t)hf__monotonic_ns() ^ (uint64_t)(uintptr_t)source ^ ((uint64_t)pid << 40);
    }
    *source = (struct random_source){.state = seed, .pid = pid};
}

static struct random_source *random_source(void)
{
    static _Thread_local struct random_source source;
    pid_t pid = getpid();
    if (source.pid != pid) {
        seed_random(&source, pid);
    }
    return &source;
}

/* splitmix64 */
static uint64_t random_next(void)
{
    struct random_source *source = random_source();
    uint64_t z = (source->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t hf__random_below(uint64_t bound)
{
    if (bound <= 1) {
        return 0;
    }
    uint64_t uneven = (UINT64_MAX % bound + 1) % bound; /* so many of the lowest numbers would come up once too often */
    uint64_t number = random_next();
    while (number < uneven) {
        number = random_next();
    }
    return number % bound;
}
