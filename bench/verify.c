/* The plan against a run: the plan is made and printed first, and nothing in it comes from the run that it is held against. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/plan.h"
#include "bench/run.h"
#include "runtime/command_common.h"

struct figure {
    const char *name, *key;
    double predicted, measured;
    double slack; /* a difference of no meaning */
    bool bound;   /* less than predicted is right */
};

enum { FIGURES = 5 };

/* A share of the prediction; 0 where the difference means nothing. */
static double error_of(const struct figure *figure)
{
    double difference = fabs(figure->measured - figure->predicted);
    if (difference <= figure->slack || (figure->bound && figure->measured <= figure->predicted))
        return 0;
    return figure->predicted > 0 ? difference / figure->predicted : INFINITY;
}

/* Handlers that do nothing leave the database alone to set the pace, and that is never twice the same. */
static double limit_of(const struct bench_options *options)
{
    return bench_distribution_mean(&options->handler) > 0 ? 0.10 : 0.25;
}

static void list_figures(const struct bench_plan *plan, const struct bench_result *result, struct figure out[FIGURES])
{
    double processes = (double)plan->processes;
    out[0] = (struct figure){"jobs/s", "jobs_per_second", plan->model.jobs_per_second * processes, result->jobs_per_second, 0, false};
    out[1] = (struct figure){
        "connections held by a delivery in work", "held_per_delivery", plan->held_per_delivery, result->held_per_delivery, 0.05, false};
    out[2] = (struct figure){"connections held, mean", "held_mean", plan->held_mean, result->held_mean, 0.1, false};
    out[3] = (struct figure){"connections held, p99", "held_p99", (double)plan->held_p99, (double)result->held_p99, 1, false};
    out[4] = (struct figure){"connections in use, at most", "peak_in_use", (double)plan->peak_in_use, (double)result->peak_in_use, 0, true};
}

static void print_figures(const struct figure figures[FIGURES], double limit)
{
    printf("\n%-40s %12s %12s %8s\n", "", "predicted", "measured", "error");
    for (size_t i = 0; i < FIGURES; i++) {
        double error = error_of(&figures[i]);
        printf("%-40s %12.2f %12.2f %7.1f%%%s\n", figures[i].name, figures[i].predicted, figures[i].measured, 100 * error,
               error <= limit ? "" : "  too far off");
    }
}

static json_t *figure_json(const struct figure *figure, double limit)
{
    double error = error_of(figure);
    return json_pack("{s:f, s:f, s:o, s:b}", "predicted", figure->predicted, "measured", figure->measured, "error",
                     isfinite(error) ? json_real(error) : json_null(), "within", error <= limit);
}

static int print_json(const struct bench_plan *plan, const struct bench_result *result, const struct figure figures[FIGURES], double limit,
                      bool holds)
{
    json_t *list = json_object();
    for (size_t i = 0; i < FIGURES; i++)
        if (json_object_set_new(list, figures[i].key, figure_json(&figures[i], limit)) != 0)
            break; /* out of memory: then the next does not work either */
    return hf__command_print_json(json_pack("{s:o, s:o, s:o, s:f, s:b}", "plan", bench_plan_json(plan), "run", bench_result_json(result),
                                            "figures", list, "limit", limit, "holds", holds));
}

static bool all_within(const struct figure figures[FIGURES], double limit)
{
    bool holds = true;
    for (size_t i = 0; i < FIGURES; i++)
        holds = holds && error_of(&figures[i]) <= limit;
    return holds;
}

/* Returns the exit status. */
static int judge(const struct bench_options *options, const struct bench_plan *plan, const struct bench_result *result)
{
    struct figure figures[FIGURES];
    double limit = limit_of(options);
    list_figures(plan, result, figures);
    bool holds = all_within(figures, limit);
    int exit_status = HF__EXIT_DONE;
    if (options->json)
        exit_status = print_json(plan, result, figures, limit, holds);
    else
        print_figures(figures, limit);
    fflush(stdout); /* the words below come last, also where both go to one file */
    if (!holds)
        exit_status = hf__command_fail_text("the plan was off by more than %.0f %%", 100 * limit);
    if (!bench_result_right(result))
        exit_status =
            hf__command_fail_text("%zu jobs were lost, %zu run twice, %zu not settled", result->lost, result->duplicates, result->errors);
    return exit_status;
}

static int hold_against(const struct bench_options *options, const struct bench_plan *plan)
{
    struct bench_result result = {.crash_ms = -1};
    hf_error err = {.status = HF_OK};
    hf_status status = bench_run(options, &result, &err);
    int exit_status = status == HF_OK ? judge(options, plan, &result) : hf__command_fail(&err);
    bench_result_free(&result);
    return exit_status;
}

/* The workers that the pool lets run at once: what more there are tells nothing of the database. */
static hf_status count_workers(const struct bench_options *options, size_t *out, hf_error *err)
{
    struct bench_speed any = {1, 1};
    struct bench_plan plan = {.advice = NULL};
    hf_status status = bench_plan_of(options, &any, 1, &plan, err);
    *out = plan.workers_at_once;
    bench_plan_free(&plan);
    return status;
}

static int verify(const struct bench_options *options)
{
    size_t workers = 0;
    struct bench_speed *speed = NULL;
    struct bench_plan plan = {.advice = NULL};
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    int exit_status = HF__EXIT_FAILED;
    hf_status status = count_workers(options, &workers, &err);
    if (status == HF_OK)
        status = bench_speed_measure(options, workers, &speed, &n, &err);
    if (status == HF_OK)
        status = bench_plan_of(options, speed, n, &plan, &err);
    if (status != HF_OK) {
        (void)hf__command_fail(&err);
    } else {
        if (!options->json) {
            bench_plan_print(&plan);
            fflush(stdout);
        }
        exit_status = hold_against(options, &plan);
    }
    bench_plan_free(&plan);
    free(speed);
    return exit_status;
}

int bench_command_verify(int argc, char **argv)
{
    struct bench_options options = {.url = NULL};
    bench_options_parse(BENCH_OPTIONS_VERIFY, "verify", argc, argv, &options);
    if (options.workers == 0)
        options.workers = 4;
    int exit_status = verify(&options);
    bench_options_free(&options);
    int flushed = hf__command_flush();
    return exit_status != HF__EXIT_DONE ? exit_status : flushed;
}
