/* The speed of the database, measured: runs whose handlers do nothing, so that all deliveries are in its hands all the time. */
#include <stdlib.h>

#include "bench/plan.h"
#include "bench/run.h"
#include "pool/error.h"

#define SECONDS_EACH 0.5
enum { FIRST_JOBS = 200, MOST_JOBS = 20000 };

/* Jobs of about half a second, as fast as they went last time. */
static size_t jobs_at(double jobs_per_second, size_t workers)
{
    double jobs = jobs_per_second * SECONDS_EACH, least = (double)workers * 4;
    jobs = jobs < FIRST_JOBS ? FIRST_JOBS : jobs > MOST_JOBS ? MOST_JOBS : jobs;
    return (size_t)(jobs < least ? least : jobs);
}

static hf_status measure(const struct bench_options *options, size_t workers, double *jobs_per_second, hf_error *err)
{
    char nothing[] = "0";
    struct bench_options these = *options;
    struct bench_result result = {.crash_ms = -1};
    these.workers = workers;
    these.jobs = jobs_at(*jobs_per_second, workers);
    these.processes = 1;
    these.rate = 0;
    these.fail = 0;
    these.raw = false;
    these.handler = (struct bench_distribution){.law = BENCH_CONSTANT, .text = nothing};
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK && result.jobs_per_second <= 0)
        status = hf__fail(err, HF_DATABASE, "the speed of the database could not be measured: no job was done");
    *jobs_per_second = result.jobs_per_second;
    bench_result_free(&result);
    return status;
}

hf_status bench_speed_measure(const struct bench_options *options, size_t workers, struct bench_speed **out, size_t *n, hf_error *err)
{
    enum { DOUBLINGS = 66 }; /* of a size_t, and the number itself */
    struct bench_speed *speed = calloc(DOUBLINGS, sizeof *speed);
    double last = 0;
    *out = NULL;
    *n = 0;
    if (!speed)
        return hf__fail_memory(err);
    workers = workers ? workers : 1;
    hf_status status = measure(options, 1, &last, err); /* warms up, and says how many jobs half a second holds */
    for (size_t at = 1; status == HF_OK; at = at > workers / 2 ? workers : at * 2) {
        status = measure(options, at, &last, err);
        speed[(*n)++] = (struct bench_speed){(double)at, last};
        if (at == workers)
            break;
    }
    if (status == HF_OK)
        *out = speed;
    else
        free(speed);
    return status;
}
