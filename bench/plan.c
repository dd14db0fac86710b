/* What is predicted: how many connections a subscription will hold, and how fast it will be. The connections that a strategy needs are the
 * library's own cost model (hf_cost_for), the same that its start check uses; the numbers at work are model.c's.
 *
 * held_mean counts a connection from the moment that its claim has found a row, when the ledger begins to call it row_lock or
 * advisory_lock, until the settle is sent, when it calls it settle: that is the handler's time. So it is what a worker holds times the
 * workers that are in a handler. The connection is out of the pool for the claim and the settle as well, but then as `claim` and `settle`.
 */
#include "bench/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench_table.h"
#include "bench/number.h"
#include "bench/offered.h"
#include "pool/error.h"
#include "runtime/command_common.h"
#include "runtime/prefetch.h"

enum { MOST_WORKERS = 100000, DEFAULT_WORKERS = 4 };
#define LATE 0.01 /* with --rate alone: so many workers that no more than this share of the jobs waits for one, if any number does that */

/* ---- what the library says ---- */

/* Without a database the cost of the first one that this build has: the strategies cost the same on every server. */
static hf_status open_runtime(const struct bench_options *options, hf_runtime **out, hf_error *err)
{
    static const char *const urls[] = {"postgresql://localhost/plan", "mysql://localhost/plan", "sqlite:plan"};
    hf_runtime_options runtime_options = HF_RUNTIME_OPTIONS_INIT;
    runtime_options.pool_size = options->pool;
    if (options->url)
        return hf_runtime_open(options->url, &runtime_options, out, err);
    hf_status status = HF_UNSUPPORTED;
    for (size_t i = 0; i < sizeof urls / sizeof *urls && status == HF_UNSUPPORTED; i++)
        status = hf_runtime_open(urls[i], &runtime_options, out, err);
    return status;
}

static hf_status cost_of(const struct bench_options *options, size_t workers, hf_cost *cost, hf_error *err)
{
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_runtime *runtime = NULL;
    hf_table *table = NULL;
    subscription.workers = workers;
    subscription.batch = options->batch;
    hf_status status = bench_offered(options, err);
    if (status == HF_OK)
        status = open_runtime(options, &runtime, err);
    if (status == HF_OK)
        status = bench_table_describe(options, "plan", &table, err);
    if (status == HF_OK)
        status = hf_cost_for(runtime, table, &subscription, cost, err);
    hf_table_free(table);
    hf_runtime_close(runtime);
    return status;
}

static void put_sizes(const hf_cost *cost, struct bench_sizes *out)
{
    *out = (struct bench_sizes){.workers_at_once = cost->workers, .pool_minimum = cost->minimum, .pool_recommended = cost->pool_size};
}

hf_status bench_plan_sizes(const struct bench_options *options, size_t workers, struct bench_sizes *out, hf_error *err)
{
    hf_cost cost = HF_COST_INIT;
    hf_status status = cost_of(options, workers, &cost, err);
    put_sizes(&cost, out);
    return status;
}

static size_t others(const hf_cost *cost)
{
    return cost->claim + cost->settle + cost->renew + cost->listen + cost->handler;
}

/* ---- what the model is asked ---- */

double bench_jobs_in_one(const struct bench_options *options)
{
    return options->strategy != HF_LEASE && options->batch > 1 ? (double)options->batch : 1;
}

static double handler_scv(const struct bench_options *options)
{
    if (options->handler_p99_ms > 0)
        return bench_distribution_scv_of_p99(bench_distribution_mean(&options->handler), options->handler_p99_ms);
    return bench_distribution_scv(&options->handler);
}

/* Under a lease a worker's next rows, and the rest of its batch, are there before it asks for them. */
static size_t ahead(const struct bench_options *options, size_t workers)
{
    static const double least_us = 1; /* of a handler that does nothing */
    double mean_us = fmax(1000 * bench_distribution_mean(&options->handler), least_us);
    size_t others_of_batch = options->batch > 1 ? options->batch - 1 : 0;
    if (options->strategy != HF_LEASE)
        return 0;
    return workers * others_of_batch + hf__prefetch(0, workers, mean_us, (int64_t)(options->lease_seconds * 1e9));
}

static struct bench_model_input input_of(const struct bench_options *options, size_t workers, const struct bench_speed *speed,
                                         size_t n_speed)
{
    double processes = (double)bench_processes(options);
    return (struct bench_model_input){
        .workers = workers,
        .ahead = ahead(options, workers),
        .batch = bench_jobs_in_one(options),
        .handler_ms = bench_distribution_mean(&options->handler),
        .handler_scv = handler_scv(options),
        .arrivals_per_second = options->rate / processes,
        .processes = processes,
        .speed = speed,
        .n_speed = n_speed,
    };
}

static bool are_enough(const struct bench_options *options, size_t workers, double late, const struct bench_speed *speed, size_t n_speed)
{
    struct bench_model_input input = input_of(options, workers, speed, n_speed);
    return bench_model_enough(&input, late);
}

bool bench_plan_keeps_up(const struct bench_options *options, size_t workers, const struct bench_speed *speed, size_t n_speed)
{
    return are_enough(options, workers, 1, speed, n_speed);
}

/* More workers never make it worse, so the least is found by halves, after doubling up to one that is enough. 0: none is. */
static size_t least_enough(const struct bench_options *options, double late, const struct bench_speed *speed, size_t n_speed)
{
    size_t low = 1, high = 1;
    while (high < MOST_WORKERS && !are_enough(options, high, late, speed, n_speed)) {
        low = high + 1;
        high = high > MOST_WORKERS / 2 ? MOST_WORKERS : high * 2;
    }
    if (low > high || !are_enough(options, high, late, speed, n_speed))
        return 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (are_enough(options, middle, late, speed, n_speed))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

static size_t enough_workers(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed)
{
    size_t enough = least_enough(options, LATE, speed, n_speed);
    return enough ? enough : least_enough(options, 1, speed, n_speed);
}

size_t bench_plan_workers(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed)
{
    if (options->workers > 0 || options->rate <= 0)
        return options->workers ? options->workers : DEFAULT_WORKERS;
    return enough_workers(options, speed, n_speed);
}

/* ---- the plan ---- */

/* By a worker whose batch is full: under advisory lock each row has its own connection, and a pool that is too small makes the batches
 * smaller. */
static double most_by_worker(const hf_cost *cost, const struct bench_plan *plan)
{
    double full = (double)cost->held / (double)plan->workers;
    size_t apart = others(cost) + cost->spare;
    double room = plan->pool > apart ? (double)(plan->pool - apart) / (double)plan->sizes.workers_at_once : 1;
    return fmin(full, fmax(room, 1));
}

static void put_held(const struct bench_options *options, const hf_cost *cost, struct bench_plan *plan)
{
    const struct bench_model *model = &plan->model;
    double most = most_by_worker(cost, plan);
    bool each = options->strategy == HF_ADVISORY_LOCK;
    size_t peak = (size_t)ceil(most * (double)plan->sizes.workers_at_once) + others(cost);
    if (each && cost->held_per_delivery <= 0) /* SQLite: each worker claims and settles by itself, and takes a connection for that */
        peak = plan->sizes.workers_at_once + others(cost);
    plan->held_per_delivery = each ? cost->held_per_delivery : cost->held_per_delivery / plan->model.batch_mean;
    plan->held_mean = fmin(most * model->in_handler_mean, model->rows_in_handler_mean);
    plan->held_p99 = (size_t)ceil(fmin(most * (double)model->in_handler_p99, (double)model->rows_in_handler_p99));
    plan->peak_in_use = peak < plan->pool ? peak : plan->pool;
}

/* For how long an asker does without a connection. Each job asks twice, for its claim and for its settle: under a lease two threads ask for
 * all, the less often the larger their groups, so that this is the least; else it is the worker, with its handler between the two. */
static double apart_ms(const struct bench_options *options, const struct bench_plan *plan, size_t askers)
{
    double each = plan->model.batch_mean, asks_per_ms = 2 * plan->model.jobs_per_second / each / 1000;
    if (options->strategy != HF_LEASE && options->rate <= 0)
        return bench_distribution_mean(&options->handler) * each / 2;
    return asks_per_ms > 0 ? fmax((double)askers / asks_per_ms - plan->model.hold_ms, 0) : INFINITY;
}

/* Where a connection is held, each worker that runs has one. Where none is, those who ask are the claimer and the settler of a lease
 * (renewals have a connection of their own where there are two), or on SQLite the workers of an advisory lock. */
static double pool_wait(const struct bench_options *options, const hf_cost *cost, const struct bench_plan *plan)
{
    bool lease = options->strategy == HF_LEASE;
    size_t askers = lease ? cost->claim + cost->settle : plan->sizes.workers_at_once;
    size_t connections = lease && plan->pool > 1 ? plan->pool - cost->renew : plan->pool;
    double apart = apart_ms(options, plan, askers);
    if (cost->held_per_delivery > 0 || plan->model.hold_ms <= 0 || isinf(apart))
        return 0;
    return bench_model_connection_wait_p99_ms(askers, connections, plan->model.hold_ms, apart);
}

static void put_fleet(const struct bench_options *options, struct bench_plan *plan)
{
    size_t overlap = options->overlap == SIZE_MAX ? plan->processes : options->overlap;
    plan->fleet_connections = (plan->processes + overlap) * plan->pool;
    plan->max_connections = options->max_connections;
    plan->reserve = options->reserve;
    plan->fits = plan->max_connections == 0 || plan->fleet_connections + plan->reserve <= plan->max_connections;
}

struct bench_model bench_plan_full_table(const struct bench_options *options, size_t workers, const struct bench_speed *speed,
                                         size_t n_speed)
{
    struct bench_model_input input = input_of(options, workers, speed, n_speed);
    return bench_model_full_table(&input);
}

static hf_status model_of(const struct bench_options *options, size_t workers, const struct bench_speed *speed, size_t n_speed,
                          struct bench_model *out, hf_error *err)
{
    struct bench_model_input input = input_of(options, workers, speed, n_speed);
    hf_status status = bench_model_of(&input, out, err);
    if (options->rate <= 0)
        out->start_wait_mean_ms = out->start_wait_p99_ms = -1;
    return status;
}

static bool is_saturated(const struct bench_speed *speed, size_t n_speed)
{
    static const double more = 1.05;
    double before = 0;
    for (size_t i = 0; i + 1 < n_speed; i++)
        before = fmax(before, speed[i].jobs_per_second);
    return n_speed > 1 && speed[n_speed - 1].jobs_per_second <= more * before;
}

static hf_status fail_rate(const struct bench_options *options, hf_error *err)
{
    double rate = options->rate / (double)bench_processes(options);
    double in_handlers = rate / 1000 * bench_distribution_mean(&options->handler); /* by Little's law */
    bool batches = options->strategy != HF_LEASE && in_handlers < MOST_WORKERS;
    return hf__fail(err, HF_INVALID,
                    "%g jobs a second are more than %d workers can do in one process with this database: give more processes "
                    "(--processes)%s, or fewer jobs",
                    rate, MOST_WORKERS, batches ? ", larger batches (--batch)" : "");
}

static hf_status fill(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed, struct bench_plan *plan,
                      hf_error *err)
{
    hf_cost cost = HF_COST_INIT;
    plan->workers = bench_plan_workers(options, speed, n_speed);
    if (plan->workers == 0)
        return fail_rate(options, err);
    hf_status status = cost_of(options, plan->workers, &cost, err);
    if (status != HF_OK)
        return status;
    put_sizes(&cost, &plan->sizes);
    plan->pool = options->pool ? options->pool : cost.pool_size;
    status = model_of(options, plan->sizes.workers_at_once, speed, n_speed, &plan->model, err);
    if (status != HF_OK)
        return status;
    plan->saturated = is_saturated(speed, n_speed);
    if (!plan->model.stable)
        plan->workers_enough = enough_workers(options, speed, n_speed);
    put_held(options, &cost, plan);
    plan->pool_wait_p99_ms = pool_wait(options, &cost, plan);
    put_fleet(options, plan);
    plan->advice = bench_advice(options, plan);
    return plan->advice ? HF_OK : hf__fail_memory(err);
}

hf_status bench_plan_of(const struct bench_options *options, const struct bench_speed *speed, size_t n_speed, struct bench_plan *out,
                        hf_error *err)
{
    *out = (struct bench_plan){.strategy = options->strategy, .processes = bench_processes(options)};
    if (n_speed == 0)
        return hf__fail(err, HF_INVALID, "a plan needs the speed of the database");
    return fill(options, speed, n_speed, out, err);
}

void bench_plan_free(struct bench_plan *plan)
{
    free(plan->advice);
    plan->advice = NULL;
}

/* ---- showing it ---- */

static json_t *wait_json(const struct bench_model *model, double ms)
{
    return model->stable ? json_real(fmax(ms, 0)) : json_null();
}

json_t *bench_plan_json(const struct bench_plan *plan)
{
    const struct bench_model *model = &plan->model;
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:{s:I, s:I, s:I}, s:f, s:I, s:f, s:f, s:I, s:b, s:{s:f, s:f}, s:f, s:I, s:I, s:b, s:s}", "strategy",
        hf_strategy_name(plan->strategy), "workers", (json_int_t)plan->workers, "workers_at_once", (json_int_t)plan->sizes.workers_at_once,
        "pool", "minimum", (json_int_t)plan->sizes.pool_minimum, "recommended", (json_int_t)plan->sizes.pool_recommended, "size",
        (json_int_t)plan->pool, "held_mean", plan->held_mean, "held_p99", (json_int_t)plan->held_p99, "held_per_delivery",
        plan->held_per_delivery, "jobs_per_second", model->jobs_per_second * (double)plan->processes, "fleet_connections",
        (json_int_t)plan->fleet_connections, "fits", plan->fits, "utilisation", "workers", model->worker_utilisation, "database",
        model->database_utilisation, "pool_wait_p99_ms", plan->pool_wait_p99_ms, "peak_in_use", (json_int_t)plan->peak_in_use, "reserve",
        (json_int_t)plan->reserve, "stable", model->stable, "advice", plan->advice);
    json_t *most = plan->max_connections ? json_integer((json_int_t)plan->max_connections) : json_null();
    bool good = json && json_object_set_new(json, "max_connections", most) == 0;
    json_t *enough = model->stable || plan->workers_enough == 0 ? json_null() : json_integer((json_int_t)plan->workers_enough);
    good = good && json_object_set_new(json, "workers_enough", enough) == 0;
    good = good && json_object_set_new(json, "processes", json_integer((json_int_t)plan->processes)) == 0;
    good = good && json_object_set_new(json, "start_wait_ms",
                                       json_pack("{s:o, s:o}", "mean", wait_json(model, model->start_wait_mean_ms), "p99",
                                                 wait_json(model, model->start_wait_p99_ms))) == 0;
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

static void line(const char *name, double value, const char *unit)
{
    char text[BENCH_NUMBER_TEXT];
    printf("%-34s %s%s\n", name, bench_number_short(value, text), unit);
}

static void count_line(const char *name, size_t value, const char *unit)
{
    char text[BENCH_NUMBER_TEXT];
    printf("%-34s %s%s\n", name, bench_number((double)value, 0, text), unit);
}

static void wait_line(const char *name, double value, const struct bench_model *model)
{
    if (model->stable && value >= 0)
        line(name, value, " ms");
    else
        printf("%-34s - (%s)\n", name, model->stable ? "no --rate: the table is always full" : "jobs arrive faster than they can be done");
}

void bench_plan_print(const struct bench_plan *plan)
{
    const struct bench_model *model = &plan->model;
    printf("%-34s %s\n", "strategy", hf_strategy_name(plan->strategy));
    count_line("workers", plan->workers, "");
    count_line("  that run at once", plan->sizes.workers_at_once, "");
    count_line("pool", plan->pool, "");
    count_line("  at least", plan->sizes.pool_minimum, "");
    count_line("  recommended", plan->sizes.pool_recommended, "");
    line("connections held, mean", plan->held_mean, "");
    count_line("connections held, p99", plan->held_p99, "");
    count_line("connections in use, at most", plan->peak_in_use, "");
    line("jobs a second, all processes", model->jobs_per_second * (double)plan->processes, "");
    line("workers busy", 100 * model->worker_utilisation, model->start_wait_mean_ms < 0 ? " %, of a table that is always full" : " %");
    line("database busy", 100 * model->database_utilisation, " %");
    line("wait for a connection, p99", plan->pool_wait_p99_ms, " ms");
    wait_line("wait for a worker, mean", model->start_wait_mean_ms, model);
    wait_line("wait for a worker, p99", model->start_wait_p99_ms, model);
    count_line("connections of the fleet", plan->fleet_connections, plan->fits ? "" : ": more than the server has");
    printf("\n%s\n", plan->advice);
}
