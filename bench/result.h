/* What a run measured. */
#ifndef HF_BENCH_RESULT_H
#define HF_BENCH_RESULT_H

#include <holdfast.h>
#include <jansson.h>
#include <stdio.h>

#include "bench/series.h"
#include "pool/histogram.h"

struct bench_purpose {
    char name[32]; /* as the ledger names it */
    size_t peak;
    double count, seconds;
};

enum { BENCH_RAW_ROUNDS = 64 };

struct bench_raw {
    bool measured;
    size_t rounds;
    double ours[BENCH_RAW_ROUNDS], theirs[BENCH_RAW_ROUNDS]; /* jobs/s of each round */
    double jobs_per_second;                                  /* theirs, median */
    double ours_per_second;                                  /* median */
    double ratio;                                            /* median of ours over theirs */
    double spread;                                           /* of the ratio: half of its largest less its smallest */
    bool indistinguishable;                                  /* not all rounds say the same of which is faster */
};

/* Of the steady part (struct bench_part); of the whole run where that was over too soon. */
struct bench_steady {
    double jobs_per_second, held_mean, worker_utilisation; /* as in bench_result */
};

struct bench_result {
    char database[32], server_version[64];
    hf_strategy strategy;
    size_t workers, jobs, batch, processes;
    char *handler; /* --handler-ms as given, owned */
    double handler_ms;
    double seconds;         /* from the first claim possible to the last settle */
    double jobs_per_second; /* jobs acked over seconds */
    /* counts over all processes; failed: runs answered HF_RETRY; left: rows still there; errors: settles that failed */
    size_t done, failed, lost, duplicates, left, errors;
    /* connections */
    size_t pool_size, peak_open, peak_in_use; /* of one process; the largest of them */
    size_t server_peak;                       /* of all processes, as the server saw them */
    bool server_sampled; /* else server_peak is the ledger's: SQLite has no server, and a run may be over before one was asked often */
    double held_per_delivery, seconds_per_job;
    struct bench_steady steady;
    double held_mean; /* connections held by deliveries in work, over the time of the run, one process */
    size_t held_p99;
    double worker_utilisation; /* share in handlers of the time of the workers that fit the pool */
    struct bench_purpose purposes[16];
    size_t n_purposes;
    double round_trips_per_job, commits_per_job;
    double connection_wait_p99_ms; /* for a claim or for a settle, the worse of the two; opening one is part of it */
    /* the cost model's word */
    size_t model_pool_size, model_peak_in_use;
    double model_held_per_delivery;
    bool model_holds;              /* no more were ever held than it allows, and held_per_delivery agrees within 5 % */
    struct hf__histogram start;    /* due to the handler's call, which is that of a whole batch */
    struct hf__histogram latency;  /* due (or, in a filled table, the start of the run) to settled */
    struct hf__histogram delivery; /* handler begun to settled */
    struct bench_raw raw;
    double crash_ms;            /* compare: from the kill of a worker process until its row ran again; < 0: not measured */
    struct bench_series series; /* connections in use by purpose, over time */
};

void bench_result_free(struct bench_result *result);
/* The object of `run --json`, see the man page. New reference; NULL: out of memory. */
json_t *bench_result_json(const struct bench_result *result);
/* For people, on stdout. */
void bench_result_print(const struct bench_result *result);
/* " in each of 3 processes, batches of up to 5", what of it there is. */
void bench_result_print_shape(FILE *out, const struct bench_result *result);
/* Nothing lost, nothing run twice, no settle failed: the exit status of a run hangs on it. */
bool bench_result_right(const struct bench_result *result);

#endif
