/* For suites of the runtime: a table of jobs on one database under one strategy, and a record of every run that the product does
 * not touch. The handlers report into the record; assertions are the main thread's. */
#ifndef HF_TESTS_JOBS_H
#define HF_TESTS_JOBS_H

#include <pthread.h>

#include "holdfast.h"
#include "tests/support.h"

struct hf_test_kind {
    enum hf__database database;
    hf_strategy strategy;
};
/* Every strategy of every database. */
extern const struct hf_test_kind hf_test_kinds[];
extern const size_t hf_test_n_kinds;

struct hf_test_run {
    int64_t id, attempt, begin_us, end_us; /* end_us 0: it still runs */
    size_t place;                          /* in the order in which they began */
};

/* What a table has beside what every table of these tests has. NULL: nothing. */
struct hf_test_shape {
    const char *columns;  /* more of "columns", each with a comma in front: ", \"group\": \"grp\"" */
    const char *settings; /* more settings likewise: ", \"fifo\": true" */
    size_t n_keys;        /* advisory lock: so many keys share the rows; 0: each row has its own */
    bool dead_table;      /* dead letters go to a table of their own, NAME_dead */
    bool bare;            /* of what every table has only the id, and what the strategy needs */
};

struct hf_test_jobs {
    struct hf_test_kind kind;
    const char *url, *name, *json; /* the description's text */
    hf_table *table;
    size_t n_keys; /* of the shape; 0 unless it is an advisory lock */
    bool dead_table;
    char *log; /* everything that the runtimes logged, a line each; guarded by lock */
    pthread_mutex_t lock;
    struct hf_test_run *runs;
    size_t n_runs;
};

/* Makes the table: id, payload, attempt, retry_after, last_error; locked_until (lease_seconds), or an advisory lock on the id. */
void hf_test_jobs_open(struct hf_test_jobs *jobs, struct hf_test_kind kind, int lease_seconds);
/* The same with more to it. */
void hf_test_jobs_open_shape(struct hf_test_jobs *jobs, struct hf_test_kind kind, int lease_seconds, struct hf_test_shape shape);
void hf_test_jobs_close(struct hf_test_jobs *jobs);
/* A runtime that logs into jobs->log. options may be NULL. */
hf_runtime *hf_test_jobs_runtime(struct hf_test_jobs *jobs, const hf_runtime_options *options);
const char *hf_test_jobs_place(const struct hf_test_jobs *jobs); /* "PostgreSQL, lease": for messages */
/* n rows with ids 1 to n (on an empty table), payload "job ID". */
void hf_test_jobs_add(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t n);
/* n rows more, in turn of the groups g1, g2, ..: with so many groups. */
void hf_test_jobs_add_groups(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t n, size_t groups);
/* n rows more that are all like this one. */
void hf_test_jobs_put(struct hf_test_jobs *jobs, hf_job like, size_t n);
int64_t hf_test_jobs_count(const struct hf_test_jobs *jobs, const char *where);

/* For handlers: notes that a delivery begins, and that it ends. */
size_t hf_test_run_begin(struct hf_test_jobs *jobs, const hf_delivery *delivery);
void hf_test_run_end(struct hf_test_jobs *jobs, size_t run);

/* A runtime with one subscription, started. */
hf_runtime *hf_test_jobs_start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx);
/* Stops and closes it: no connection is left, nor was there ever one beyond the cost model, and no two runs of one row overlap. */
void hf_test_jobs_stop(struct hf_test_jobs *jobs, hf_runtime *runtime);
/* Waits until nothing is left to do, stops it, and fails if the table is not empty. */
void hf_test_jobs_finish(struct hf_test_jobs *jobs, hf_runtime *runtime);

/* After the runs: no two runs of one row overlap. */
void hf_test_no_overlap(struct hf_test_jobs *jobs);
/* The runs in the order of their beginnings. */
void hf_test_sort_runs(struct hf_test_jobs *jobs);
size_t hf_test_runs_of(struct hf_test_jobs *jobs, int64_t id);
size_t hf_test_n_runs(struct hf_test_jobs *jobs);
void hf_test_wait_for_runs(struct hf_test_jobs *jobs, size_t n); /* that began; fails after a minute */
/* The value of a number of hf_stats; fails when there is none. */
double hf_test_stat(hf_runtime *runtime, const char *name);
bool hf_test_logged(struct hf_test_jobs *jobs, const char *text);

#endif
