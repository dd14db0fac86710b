/* How many sessions of a run the server itself sees, on a connection of its own that is not counted. */
#ifndef HF_BENCH_OBSERVER_H
#define HF_BENCH_OBSERVER_H

#include "bench/session.h"

#define BENCH_OBSERVER_NAME "holdfast-bench observer" /* application name of its runtime */

struct bench_observer;

struct bench_seen {
    int64_t at_ns;
    unsigned sessions;
};

/* Takes one connection of the runtime. run_name: the application name of the runtimes that are watched. Owned: bench_observer_close. */
hf_status bench_observer_open(hf_runtime *runtime, const char *run_name, struct bench_observer **out, hf_error *err);
enum bench_database bench_observer_database(const struct bench_observer *observer);
const char *bench_observer_version(const struct bench_observer *observer);

/* From now on it looks; what is there now does not count. */
hf_status bench_observer_start(struct bench_observer *observer, hf_error *err);
/* The most sessions at one moment; *sampled is false when the database has no server, or it could not be asked. *seen is the observer's. */
size_t bench_observer_stop(struct bench_observer *observer, bool *sampled, const struct bench_seen **seen, size_t *n);
void bench_observer_close(struct bench_observer *observer); /* NULL is allowed */

#endif
