#include "bench/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/error.h"

/* A run that fails this often in a row is not drawn but made. */
enum { MOST_FAILURES = 1000 };

struct draws {
    unsigned short times[3], arrivals[3], failures[3];
};

/* One from each n-th of the law, in an order by chance: so few jobs have the law's mean, too, and a run is what its plan was for. */
static void draw_times(const struct bench_options *options, struct draws *draws, struct bench_workload *out)
{
    for (size_t i = 0; i < out->n; i++) {
        double share = ((double)i + erand48(draws->times)) / (double)out->n;
        int64_t ns = (int64_t)(bench_distribution_quantile(&options->handler, share) * 1e6);
        size_t at = (size_t)(erand48(draws->times) * (double)(i + 1));
        out->jobs[i].handler_ns = out->jobs[at].handler_ns;
        out->jobs[at].handler_ns = ns;
        if (ns > out->longest_ns)
            out->longest_ns = ns;
    }
}

static struct bench_job draw(const struct bench_options *options, struct draws *draws, double *clock_seconds)
{
    struct bench_job job = {0};
    if (options->rate > 0) {
        *clock_seconds -= log1p(-erand48(draws->arrivals)) / options->rate;
        job.due_ns = (int64_t)fmin(*clock_seconds * 1e9, 4e18); /* a clock is added to it */
    }
    while (job.fail < MOST_FAILURES && erand48(draws->failures) < options->fail)
        job.fail++;
    return job;
}

hf_status bench_workload_make(const struct bench_options *options, struct bench_workload *out, hf_error *err)
{
    struct draws draws = {{0x330e, 1, 7}, {0x330e, 2, 7}, {0x330e, 3, 7}};
    double clock_seconds = 0;
    *out = (struct bench_workload){.n = bench_jobs(options)};
    out->jobs = calloc(out->n + 1, sizeof *out->jobs);
    if (!out->jobs)
        return hf__fail_memory(err);
    for (size_t i = 0; i < out->n; i++)
        out->jobs[i] = draw(options, &draws, &clock_seconds);
    draw_times(options, &draws, out);
    return HF_OK;
}

void bench_workload_free(struct bench_workload *workload)
{
    free(workload->jobs);
    *workload = (struct bench_workload){0};
}

size_t bench_payload_write(const struct bench_workload *workload, size_t seq, int64_t origin_ns, char out[BENCH_PAYLOAD])
{
    const struct bench_job *job = &workload->jobs[seq];
    int64_t due_ns = job->due_ns > 0 ? origin_ns + job->due_ns : 0;
    int len = snprintf(out, BENCH_PAYLOAD, "%zu %" PRId64 " %" PRId64 " %u", seq, due_ns, job->handler_ns, job->fail);
    return len > 0 ? (size_t)len : 0;
}

bool bench_payload_read(const char *payload, size_t *seq, struct bench_job *out)
{
    char *end = NULL;
    if (!payload)
        return false;
    *seq = strtoull(payload, &end, 10);
    if (end == payload)
        return false;
    out->due_ns = strtoll(end, &end, 10);
    out->handler_ns = strtoll(end, &end, 10);
    out->fail = (unsigned)strtoul(end, &end, 10);
    return *end == '\0';
}
