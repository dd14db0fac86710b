/* Throughput and waiting against the size of the pool, or the number of workers: where more stops helping. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/knee.h"
#include "bench/offered.h"
#include "bench/plan.h"
#include "bench/run.h"
#include "runtime/command_common.h"

struct sweep {
    struct bench_point *points; /* owned */
    size_t n, done;             /* sizes; less than all were run where it was interrupted */
    struct bench_knee at;       /* of those that were run: told where all were */
};

static bool complete(const struct sweep *sweep)
{
    return sweep->done == sweep->n;
}

/* ---- which sizes ---- */

/* 1, 2, 3, 4, 6, 8, 12, 16, ...: twice as much in two steps. */
static size_t next_size(size_t x)
{
    bool power = (x & (x - 1)) == 0;
    return x < 4 ? x + 1 : power ? x + x / 2 : x / 3 * 4;
}

static size_t sizes_between(size_t least, size_t most, struct bench_point *out)
{
    size_t n = 0;
    for (size_t x = 1; x < most; x = next_size(x))
        if (x >= least) {
            if (out)
                out[n] = (struct bench_point){.x = x};
            n++;
        }
    if (out)
        out[n] = (struct bench_point){.x = most};
    return n + 1;
}

static hf_status list_sizes(const struct bench_options *options, struct sweep *sweep, hf_error *err)
{
    struct bench_sizes sizes;
    hf_status status = bench_plan_sizes(options, options->workers, &sizes, err);
    if (status != HF_OK)
        return status;
    size_t least = 1, most = options->workers;
    if (!options->over_workers) {
        least = sizes.pool_minimum;
        most = options->pool ? options->pool : sizes.pool_recommended;
        most = most > least ? most : least;
    }
    sweep->points = calloc(sizes_between(least, most, NULL), sizeof *sweep->points);
    if (!sweep->points) {
        *err = (hf_error){.status = HF_NO_MEMORY, .message = "out of memory"};
        return HF_NO_MEMORY;
    }
    sweep->n = sizes_between(least, most, sweep->points);
    return HF_OK;
}

/* ---- running ---- */

static hf_status run_point(const struct bench_options *options, struct bench_point *point, bool *right, hf_error *err)
{
    struct bench_options these = *options;
    struct bench_result result = {.crash_ms = -1};
    these.quiet = true; /* a pool that is too small is meant to be */
    if (options->over_workers)
        these.workers = point->x;
    else
        these.pool = point->x;
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK) {
        point->jobs_per_second = result.steady.jobs_per_second;
        point->wait_p99_ms = result.connection_wait_p99_ms;
        point->start_p99_ms = (double)hf__histogram_quantile(&result.start, 0.99) / 1000;
        point->peak_in_use = result.peak_in_use;
        *right = *right && bench_result_right(&result);
    }
    bench_result_free(&result);
    return status;
}

/* ---- telling ---- */

static const char *axis_of(const struct bench_options *options)
{
    return options->over_workers ? "workers" : "pool";
}

/* What part of a sweep cannot tell: more, larger sizes might do better. */
static void print_found(const struct bench_options *options, const struct sweep *sweep)
{
    if (!complete(sweep))
        printf("%zu of %zu sizes were run: too few to say where more stops helping.\n\n", sweep->done, sweep->n);
    else if (options->over_workers)
        printf("%zu workers do 95 %% of the best throughput.\n\n", sweep->points[sweep->at.enough].x);
    else
        printf("A pool of %zu does 95 %% of the best throughput.\n\n", sweep->points[sweep->at.enough].x);
}

static const char *mark_of(const struct sweep *sweep, size_t i)
{
    bool enough = complete(sweep) && i == sweep->at.enough, knee = complete(sweep) && i == sweep->at.knee;
    return enough && knee ? "  smallest with 95 %, knee" : enough ? "  smallest with 95 %" : knee ? "  knee" : "";
}

static void print_sweep(const struct bench_options *options, const struct sweep *sweep)
{
    double best = sweep->points[sweep->at.best].jobs_per_second;
    printf("%s\n%8s %12s %8s %14s", hf_strategy_name(options->strategy), axis_of(options), "jobs/s", "of best", "p99 wait, ms");
    if (options->rate > 0) /* rows of a filled table begin when their turn comes: that says how long it was */
        printf(" %22s", "p99 due to begun, ms");
    printf(" %12s\n", "peak in use");
    for (size_t i = 0; i < sweep->done; i++) {
        const struct bench_point *point = &sweep->points[i];
        printf("%8zu %12.1f %7.0f%% %14.2f", point->x, point->jobs_per_second, 100 * point->jobs_per_second / best, point->wait_p99_ms);
        if (options->rate > 0)
            printf(" %22.2f", point->start_p99_ms);
        printf(" %12zu%s\n", point->peak_in_use, mark_of(sweep, i));
    }
    print_found(options, sweep);
}

static json_t *x_json(const struct sweep *sweep, size_t i)
{
    return complete(sweep) ? json_integer((json_int_t)sweep->points[i].x) : json_null();
}

static json_t *sweep_json(const struct bench_options *options, const struct sweep *sweep)
{
    json_t *points = json_array();
    for (size_t i = 0; i < sweep->done; i++) {
        const struct bench_point *point = &sweep->points[i];
        if (json_array_append_new(points, json_pack("{s:I, s:f, s:f, s:f, s:I}", axis_of(options), (json_int_t)point->x, "jobs_per_second",
                                                    point->jobs_per_second, "wait_p99_ms", point->wait_p99_ms, "start_p99_ms",
                                                    point->start_p99_ms, "peak_in_use", (json_int_t)point->peak_in_use)) != 0)
            break; /* out of memory: then the next does not work either */
    }
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "strategy", hf_strategy_name(options->strategy), "complete", complete(sweep),
                     "points", points, "best", x_json(sweep, sweep->at.best), "smallest_with_95_percent", x_json(sweep, sweep->at.enough),
                     "knee", x_json(sweep, sweep->at.knee));
}

/* One strategy. What was run before an interruption is printed. */
static hf_status sweep_one(const struct bench_options *options, json_t *list, bool *right, hf_error *err)
{
    struct sweep sweep = {.points = NULL};
    hf_status status = list_sizes(options, &sweep, err);
    while (status == HF_OK && sweep.done < sweep.n) {
        status = run_point(options, &sweep.points[sweep.done], right, err);
        sweep.done += status == HF_OK;
    }
    if (sweep.done > 0) {
        sweep.at = bench_knee_of(sweep.points, sweep.done);
        if (options->json)
            (void)json_array_append_new(list, sweep_json(options, &sweep)); /* its failure shows as out of memory at the end */
        else
            print_sweep(options, &sweep);
    }
    free(sweep.points);
    return status;
}

static int sweep_all(struct bench_options *options)
{
    hf_strategy strategies[3] = {options->strategy};
    size_t n = options->has_strategy ? 1 : bench_strategies(options->url, strategies);
    json_t *list = json_array();
    hf_error err = {.status = HF_OK};
    hf_status status = HF_OK;
    bool right = true;
    for (size_t i = 0; i < n && status == HF_OK; i++) {
        options->strategy = strategies[i];
        status = sweep_one(options, list, &right, &err);
        if (bench_left_out(options, hf_strategy_name(strategies[i]), status, &err))
            status = HF_OK;
    }
    int exit_status = HF__EXIT_DONE;
    if (options->json)
        exit_status = hf__command_print_json(list);
    else
        json_decref(list);
    if (status != HF_OK)
        exit_status = hf__command_fail(&err);
    if (!right)
        exit_status = hf__command_fail_text("jobs were lost, run twice or not settled");
    return exit_status;
}

int bench_command_sweep(int argc, char **argv)
{
    struct bench_options options = {.url = NULL};
    bench_options_parse(BENCH_OPTIONS_SWEEP, "sweep", argc, argv, &options);
    if (options.workers == 0)
        options.workers = options.over_workers ? 16 : 4;
    int exit_status = sweep_all(&options);
    bench_options_free(&options);
    int flushed = hf__command_flush();
    return exit_status != HF__EXIT_DONE ? exit_status : flushed;
}
