/* What became of each job, and what each process found: in memory that all processes of a run share. */
#ifndef HF_BENCH_TALLY_H
#define HF_BENCH_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>

#include <holdfast.h>

#include "bench/series.h"
#include "pool/histogram.h"

enum { BENCH_PURPOSES = 16, BENCH_PURPOSE_NAME = 32, BENCH_PART_SAMPLES = 2048 };

struct bench_job_tally {
    atomic_llong called_ns, begun_ns;        /* of its last run: the handler's call, and in a batch its own turn */
    atomic_uint begun, acked, back, unknown; /* back: returned to the table; unknown: an ack whose answer never came */
};

struct bench_part_purpose {
    char name[BENCH_PURPOSE_NAME];
    size_t peak;
    double count, seconds, wait_p99_ms;
};

/* How things stood at a moment of a run. */
struct bench_moment {
    int64_t at_ns;                         /* 0: that has not come */
    size_t done;                           /* by all processes */
    size_t open;                           /* the most connections at once so far */
    double held_seconds;                   /* that connections had been held by deliveries in work */
    double seconds[BENCH_SERIES_PURPOSES]; /* that they had been out, by purpose */
    double handled_seconds;                /* that this process had spent in handlers */
};

/* What one process found. Written by it alone, read when it is done. */
struct bench_part {
    int wake_fd; /* an eventfd: rows have arrived */
    hf_status status;
    hf_error err;
    int64_t begin_ns; /* the first claim possible */
    size_t pool_size, peak_open, peak_in_use;
    double handled_seconds, in_work_seconds, round_trips, commits, model_exceeded;
    hf_cost cost;
    /* The steady part: from when all connections were open and had done their first jobs, which are slow, until the workers run out of
     * jobs. */
    struct bench_moment steady_from, steady_to;
    struct bench_part_purpose purposes[BENCH_PURPOSES];
    size_t n_purposes;
    struct hf__histogram start, latency, delivery;
    struct bench_sample samples[BENCH_PART_SAMPLES];
    size_t n_samples;
};

struct bench_tally {
    size_t bytes;
    int done_fd, stop_fd; /* eventfds that are only ever written: all jobs are done; all processes are to stop */
    size_t n_jobs, n_parts;
    atomic_size_t done, failed, errors;
    atomic_llong last_ns; /* the last settle */
    struct bench_part *parts;
    struct bench_job_tally *jobs;
};

hf_status bench_tally_make(size_t n_jobs, size_t n_parts, struct bench_tally **out, hf_error *err);
void bench_tally_free(struct bench_tally *tally); /* NULL is allowed */

/* A run of this job begins, at the time that its handler counts from. Returns how many have begun, this one included. */
unsigned bench_tally_begun(struct bench_tally *tally, size_t seq, int64_t now_ns);
void bench_tally_settled(struct bench_tally *tally, size_t seq, hf_outcome outcome, hf_status status);
/* All processes are to stop. */
void bench_tally_stop(struct bench_tally *tally);
bool bench_tally_complete(const struct bench_tally *tally);

/* Runs beyond those that a job's failures account for, and acks beyond the first. */
size_t bench_tally_duplicates(const struct bench_tally *tally);
/* Jobs that were not acked, though an ack was sent. */
size_t bench_tally_unknown(const struct bench_tally *tally);

/* An eventfd becomes readable. */
void bench_event(int fd);

#endif
