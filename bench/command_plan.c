/* holdfast-bench plan */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/offered.h"
#include "bench/plan.h"
#include "bench/run.h"
#include "pool/error.h"
#include "runtime/command_common.h"

/* ---- the speed of the database ---- */

static hf_status given_speed(const struct bench_options *options, double claim_ms, double settle_ms, struct bench_speed **out, size_t *n,
                             hf_error *err)
{
    *n = 2;
    *out = calloc(*n, sizeof **out);
    if (!*out)
        return hf__fail_memory(err);
    bench_speed_given(options, claim_ms, settle_ms, *out);
    return HF_OK;
}

static bool measures(const struct bench_options *options)
{
    return options->claim_ms < 0 && options->url;
}

/* With --rate alone: about as many as will be at work. */
static size_t workers_wanted(const struct bench_options *options)
{
    if (options->workers > 0)
        return options->workers;
    double load = options->rate / 1000 * (bench_distribution_mean(&options->handler) + 2 * BENCH_ASSUMED_MS) * 1.5 + 1;
    return load < BENCH_MOST_MEASURED ? (size_t)load : BENCH_MOST_MEASURED;
}

/* No more than the pool lets run, and not so many that it takes minutes: what is measured with the most of them stands for more. */
static hf_status measured_speed(const struct bench_options *options, struct bench_speed **out, size_t *n, hf_error *err)
{
    struct bench_sizes sizes;
    hf_status status = bench_plan_sizes(options, workers_wanted(options), &sizes, err);
    if (status != HF_OK)
        return status;
    size_t workers = bench_workers_measured(options, &sizes);
    return bench_speed_measure(options, workers < BENCH_MOST_MEASURED ? workers : BENCH_MOST_MEASURED, out, n, err);
}

static hf_status speed_of(const struct bench_options *options, struct bench_speed **out, size_t *n, hf_error *err)
{
    if (measures(options))
        return measured_speed(options, out, n, err);
    bool given = options->claim_ms >= 0;
    return given_speed(options, given ? options->claim_ms : BENCH_ASSUMED_MS, given ? options->settle_ms : BENCH_ASSUMED_MS, out, n, err);
}

/* ---- the command ---- */

static int show(const struct bench_options *options, const struct bench_plan *plan)
{
    const char *source = measures(options) ? "measured"
                         : options->claim_ms >= 0
                             ? "given"
                             : "assumed: 1 ms for a claim and 1 ms for a settle; give --claim-ms and --settle-ms, or name a database";
    if (options->json) {
        json_t *json = bench_plan_json(plan);
        if (json && json_object_set_new(json, "speed", json_string(source)) != 0) {
            json_decref(json);
            json = NULL;
        }
        return hf__command_print_json(json);
    }
    bench_plan_print(plan);
    printf("The speed of the database was %s.\n", source);
    return HF__EXIT_DONE;
}

static int plan(struct bench_options *options)
{
    struct bench_speed *speed = NULL;
    struct bench_plan made = {.advice = NULL};
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    hf_status status = bench_ask_limit(options, &err);
    if (!options->has_strategy)
        options->strategy = bench_advised(options);
    if (status == HF_OK)
        status = speed_of(options, &speed, &n, &err);
    if (status == HF_OK)
        status = bench_plan_of(options, speed, n, &made, &err);
    int exit_status = status == HF_OK ? show(options, &made) : hf__command_fail(&err);
    bench_plan_free(&made);
    free(speed);
    return exit_status;
}

int bench_command_plan(int argc, char **argv)
{
    struct bench_options options = {.url = NULL};
    bench_options_parse(BENCH_OPTIONS_PLAN, "plan", argc, argv, &options);
    int exit_status = plan(&options);
    bench_options_free(&options);
    int flushed = hf__command_flush();
    return exit_status != HF__EXIT_DONE ? exit_status : flushed;
}
