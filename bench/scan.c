/* The further runs of a comparison. Each is short, because there are many. */
#include "bench/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/number.h"
#include "bench/plan.h"
#include "bench/run.h"
#include "pool/error.h"

/* Of work, and of arrivals. */
#define POOL_SECONDS 1.5
#define ARRIVAL_SECONDS 2.0

enum { LEAST_JOBS = 20, MOST_POOLS = 10, HANDLERS = 4, LEAST_SAMPLES = 12 };

static size_t between(double jobs, size_t most)
{
    double capped = fmin(fmax(jobs, LEAST_JOBS), (double)(most > LEAST_JOBS ? most : LEAST_JOBS));
    return (size_t)llround(capped);
}

/* One strategy, one process's worth of options without what belongs to the main run. */
static struct bench_options scan_options(const struct bench_options *options, hf_strategy strategy)
{
    struct bench_options these = *options;
    these.strategy = strategy;
    these.has_strategy = true;
    these.raw = false;
    these.quiet = true;
    return these;
}

static void add_point(struct bench_xy *points, size_t *n, double x, double y)
{
    if (*n < BENCH_SCAN)
        points[(*n)++] = (struct bench_xy){x, y};
}

static int compare_x(const void *a, const void *b)
{
    const struct bench_xy *left = a, *right = b;
    return (left->x > right->x) - (left->x < right->x);
}

/* ---- pools ---- */

static hf_status run_pool(const struct bench_options *options, struct bench_compared *compared, size_t pool, hf_error *err)
{
    const struct bench_result *main_run = &compared->result;
    struct bench_options these = scan_options(options, main_run->strategy);
    struct bench_result result = {.crash_ms = -1};
    double share = fmin(1, (double)pool / (double)(main_run->pool_size > 0 ? main_run->pool_size : 1));
    these.pool = pool;
    these.rate = 0;
    these.jobs = between(main_run->jobs_per_second * share * POOL_SECONDS, main_run->jobs);
    hf_status status = bench_run(&these, &result, err);
    if (status == HF_OK)
        add_point(compared->by_pool, &compared->n_by_pool, (double)pool, result.steady.jobs_per_second);
    bench_result_free(&result);
    return status;
}

/* The powers of two up to the first that is enough for every strategy. */
static hf_status scan_pools_of(const struct bench_options *options, struct bench_compared *compared, size_t enough, hf_error *err)
{
    struct bench_options these = scan_options(options, compared->result.strategy);
    struct bench_sizes sizes = {0};
    size_t last = 1;
    hf_status status = bench_plan_sizes(&these, these.workers, &sizes, err);
    while (last < enough)
        last *= 2;
    bool has_main = options->rate <= 0;
    if (has_main)
        add_point(compared->by_pool, &compared->n_by_pool, (double)compared->result.pool_size, compared->result.steady.jobs_per_second);
    size_t from = last;
    for (size_t i = 1; i < MOST_POOLS && from > 1; i++)
        from /= 2;
    for (size_t pool = from; pool <= last && status == HF_OK; pool *= 2) {
        if (pool >= sizes.pool_minimum && !(has_main && pool == compared->result.pool_size))
            status = run_pool(options, compared, pool, err);
    }
    qsort(compared->by_pool, compared->n_by_pool, sizeof *compared->by_pool, compare_x);
    return status;
}

hf_status bench_scan_pools(const struct bench_options *options, struct bench_comparison *comparison, hf_error *err)
{
    size_t enough = 1;
    hf_status status = HF_OK;
    for (size_t i = 0; i < comparison->n; i++) {
        size_t pool = comparison->of[i].result.pool_size;
        enough = pool > enough ? pool : enough;
    }
    for (size_t i = 0; i < comparison->n && status == HF_OK; i++)
        status = scan_pools_of(options, &comparison->of[i], enough, err);
    return status;
}

/* ---- handlers ---- */

/* The database's speed with each strategy. */
struct speeds {
    struct bench_speed *of[BENCH_STRATEGIES]; /* owned */
    size_t n[BENCH_STRATEGIES];
    double slowest; /* jobs/s with all workers, of the slowest strategy */
};

static hf_status measure_speeds(const struct bench_options *options, const struct bench_comparison *comparison, struct speeds *speeds,
                                hf_error *err)
{
    hf_status status = HF_OK;
    speeds->slowest = INFINITY;
    for (size_t i = 0; i < comparison->n && status == HF_OK; i++) {
        struct bench_options these = scan_options(options, comparison->of[i].result.strategy);
        status = bench_speed_measure(&these, these.workers, &speeds->of[i], &speeds->n[i], err);
        if (status == HF_OK && speeds->n[i] == 0)
            status = hf__fail(err, HF_DATABASE, "the speed of the database could not be measured");
        if (status == HF_OK)
            speeds->slowest = fmin(speeds->slowest, speeds->of[i][speeds->n[i] - 1].jobs_per_second);
    }
    return status;
}

static void free_speeds(struct speeds *speeds)
{
    for (size_t i = 0; i < BENCH_STRATEGIES; i++)
        free(speeds->of[i]);
}

static hf_status set_handler(struct bench_options *options, double ms, hf_error *err)
{
    char text[BENCH_NUMBER_TEXT], *why = NULL;
    bool parsed = bench_distribution_parse(bench_number_plain(ms, 3, text), &options->handler, &why);
    hf_status status = parsed ? HF_OK : hf__fail(err, HF_NO_MEMORY, "%s", why ? why : "out of memory");
    free(why);
    return status;
}

/* The mean while jobs arrive, without the first of them, which find no other in work, and the last, after which no more come. A run that
 * is too short for that: over all of it. */
static double held_while_arriving(const struct bench_result *result, double arrival_seconds)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < result->series.n; i++) {
        const struct bench_sample *sample = &result->series.samples[i];
        if (sample->seconds > 0.2 * arrival_seconds && sample->seconds < 0.95 * arrival_seconds) {
            sum += sample->held;
            n++;
        }
    }
    return n >= LEAST_SAMPLES ? sum / n : result->held_mean;
}

static hf_status run_handler(const struct bench_options *options, struct bench_compared *compared, double ms, hf_error *err)
{
    struct bench_options these = *options;
    struct bench_result result = {.crash_ms = -1};
    hf_status status = set_handler(&these, ms, err);
    if (status != HF_OK)
        return status;
    status = bench_run(&these, &result, err);
    if (status == HF_OK)
        add_point(compared->held, &compared->n_held, ms, held_while_arriving(&result, (double)these.jobs / these.rate));
    bench_result_free(&result);
    bench_distribution_free(&these.handler);
    return status;
}

static hf_status model_handler(const struct bench_options *options, const struct speeds *speeds, size_t i, double ms, double *held,
                               hf_error *err)
{
    struct bench_options these = *options;
    struct bench_plan plan = {.advice = NULL};
    hf_status status = set_handler(&these, ms, err);
    if (status != HF_OK)
        return status;
    status = bench_plan_of(&these, speeds->of[i], speeds->n[i], &plan, err);
    *held = plan.held_mean;
    bench_plan_free(&plan);
    bench_distribution_free(&these.handler);
    return status;
}

/* Jobs arrive at one rate, and the handlers' time goes up past where all workers are busy: the curve rises by Little's law and then is
 * level. */
struct sweep {
    double rate, most_ms;
};

/* 1, 2 or 5 times a power of ten, at least ms. */
static double round_up(double ms)
{
    double power = pow(10, floor(log10(ms)));
    double rest = ms / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static struct sweep choose(const struct bench_options *options, double slowest)
{
    const double full = 0.7; /* of the longest time: there all workers are busy */
    double workers = (double)options->workers;
    double rate = options->rate > 0 ? options->rate : 0.4 * slowest;
    double most = round_up(fmax(fmax(20, 2 * bench_distribution_mean(&options->handler)), workers / (full * rate) * 1000));
    return (struct sweep){.rate = options->rate > 0 ? rate : fmin(rate, workers / (full * most) * 1000), .most_ms = most};
}

static hf_status scan_handlers_of(const struct bench_options *options, struct bench_comparison *comparison, const struct speeds *speeds,
                                  size_t i, const struct sweep *sweep, hf_error *err)
{
    static const double shares[HANDLERS] = {0.1, 0.3, 0.6, 1.0};
    struct bench_compared *compared = &comparison->of[i];
    struct bench_options these = scan_options(options, compared->result.strategy);
    these.processes = 1;
    these.fail = 0;
    these.rate = sweep->rate;
    these.jobs = between(sweep->rate * ARRIVAL_SECONDS, comparison->of[0].result.jobs);
    hf_status status = HF_OK;
    for (size_t k = 0; k < BENCH_LINE && status == HF_OK; k++) {
        double ms = sweep->most_ms * (double)k / (BENCH_LINE - 1), held = 0;
        status = model_handler(&these, speeds, i, ms, &held, err);
        if (status == HF_OK)
            compared->held_model[compared->n_held_model++] = (struct bench_xy){ms, held};
    }
    for (size_t k = 0; k < HANDLERS && status == HF_OK; k++)
        status = run_handler(&these, compared, sweep->most_ms * shares[k], err);
    return status;
}

hf_status bench_scan_handlers(const struct bench_options *options, struct bench_comparison *comparison, hf_error *err)
{
    struct speeds speeds = {.slowest = 0};
    hf_status status = measure_speeds(options, comparison, &speeds, err);
    if (status == HF_OK) {
        struct sweep sweep = choose(options, fmax(speeds.slowest, 1));
        comparison->scan_rate = sweep.rate;
        for (size_t i = 0; i < comparison->n && status == HF_OK; i++)
            status = scan_handlers_of(options, comparison, &speeds, i, &sweep, err);
    }
    free_speeds(&speeds);
    return status;
}
