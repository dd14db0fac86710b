/* The one kind of absolute deadline: a point on CLOCK_MONOTONIC. Wall-clock time never decides how long anything waits. */
#ifndef HF_POOL_DEADLINE_H
#define HF_POOL_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hf__deadline {
    int64_t at_ns; /* INT64_MAX = never */
};

int64_t hf__monotonic_ns(void);
struct hf__deadline hf__never(void);
struct hf__deadline hf__after_ms(int64_t ms); /* saturates; a negative ms is now */
struct hf__deadline hf__at_ns(int64_t monotonic_ns);
struct hf__deadline hf__sooner(struct hf__deadline a, struct hf__deadline b);
bool hf__passed(struct hf__deadline deadline);
int64_t hf__left_ns(struct hf__deadline deadline);  /* 0 once passed, INT64_MAX for never */
int hf__left_poll_ms(struct hf__deadline deadline); /* for poll(2): rounded up, -1 for never */

/* A condition on CLOCK_MONOTONIC. Returns 0 or an errno value. */
int hf__cond_init(pthread_cond_t *cond);
/* Waits for a signal or the deadline; may wake spuriously. Returns false once the deadline has passed. */
bool hf__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, struct hf__deadline deadline);

/* A pseudo-random number in [0, bound), bound > 0; for jitter, not for secrets. Any thread. */
uint64_t hf__random_below(uint64_t bound);

#endif
