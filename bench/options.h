/* The command line of holdfast-bench. */
#ifndef HF_BENCH_OPTIONS_H
#define HF_BENCH_OPTIONS_H

#include <holdfast.h>

#include "bench/distribution.h"

/* Which options a subcommand takes. */
enum bench_option_set {
    BENCH_OPTIONS_RUN = 1 << 0,
    BENCH_OPTIONS_COMPARE = 1 << 1,
    BENCH_OPTIONS_SWEEP = 1 << 2,
    BENCH_OPTIONS_PLAN = 1 << 3,
    BENCH_OPTIONS_VERIFY = 1 << 4
};

struct bench_options {
    const char *url;   /* --db, --db-file or HOLDFAST_URL; NULL: none (plan) */
    char *url_owned;   /* what --db-file held */
    bool has_strategy; /* compare and sweep: all without it; plan: the one that fits */
    hf_strategy strategy;
    size_t workers;   /* --workers; 0: not given (4, but plan --rate finds it) */
    size_t jobs;      /* --jobs; 0: about ten seconds of work, see bench_jobs() */
    size_t pool;      /* --pool; 0: what the cost model says */
    size_t batch;     /* --batch; 1 */
    size_t processes; /* --processes; 1 */
    unsigned lease_seconds;
    struct bench_distribution handler; /* --handler-ms; constant 0 */
    double rate;                       /* --rate, jobs a second; 0: a filled table */
    double fail;                       /* --fail: the share of runs that are answered with HF_RETRY */
    bool over_workers;                 /* sweep --over workers: else over the pool's sizes */
    bool raw, json;
    bool quiet;       /* no warnings: a pool that is too small is meant to be */
    size_t rounds;    /* --rounds, with --raw: pairs of runs, ours and the hand-written loop's; 3 */
    const char *html; /* --html FILE */
    /* plan */
    double claim_ms, settle_ms;      /* < 0: not given */
    double handler_p99_ms;           /* < 0: not given; fits a law of that mean and p99 */
    size_t max_connections, reserve; /* max_connections 0: not known (asked of --db) */
    size_t overlap;                  /* --overlap[=N]: processes of the old release that still run; SIZE_MAX: as many again */
};

/* Parses argv of `holdfast-bench NAME`; wrong usage ends the process with exit status 2, --help with 0. */
void bench_options_parse(enum bench_option_set set, const char *name, int argc, char **argv, struct bench_options *out);
void bench_options_free(struct bench_options *options);

/* The number of jobs of a run: --jobs, or as many as the workers do in about ten seconds (0.1 ms for the database), 100 to 100,000;
 * with --rate ten seconds of arrivals. */
size_t bench_jobs(const struct bench_options *options);
/* Ten seconds of them. */
size_t bench_jobs_at(double jobs_per_second);
/* 1 unless set. */
size_t bench_processes(const struct bench_options *options);
/* That the workers of all processes have in work at once. */
size_t bench_rows_at_once(const struct bench_options *options);

#endif
