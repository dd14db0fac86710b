/* The plan against a run: the plan is made and printed first, and nothing in it comes from the run that it is held against. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/figures.h"
#include "bench/offered.h"
#include "bench/plan.h"
#include "bench/run.h"
#include "runtime/command_common.h"

static void print_figure(const struct bench_figure *figure, double limit)
{
    double error = bench_figure_error(figure);
    printf("%-42s %12.2f %12.2f ", figure->name, figure->predicted, figure->measured);
    if (figure->bound && error <= 0)
        printf("%8s", "within");
    else if (figure->meaningless || !isfinite(error))
        printf("%8s", "-");
    else
        printf("%7.1f%%", 100 * error);
    puts(figure->unjudged ? "  not judged" : !bench_figure_within(figure, limit) ? "  too far off" : "");
}

static void print_figures(const struct bench_figures *figures, double limit)
{
    printf("\n%-42s %12s %12s %8s\n", "", "predicted", "measured", "error");
    for (size_t i = 0; i < figures->n; i++)
        print_figure(&figures->list[i], limit);
}

static json_t *figure_json(const struct bench_figure *figure, double limit)
{
    double error = bench_figure_error(figure);
    return json_pack("{s:f, s:f, s:o, s:o}", "predicted", figure->predicted, "measured", figure->measured, "error",
                     figure->meaningless || !isfinite(error) ? json_null() : json_real(error), "within",
                     figure->unjudged ? json_null() : json_boolean(bench_figure_within(figure, limit)));
}

static int print_json(const struct bench_plan *plan, const struct bench_result *result, const struct bench_figures *figures, double limit,
                      bool holds)
{
    json_t *list = json_object();
    for (size_t i = 0; i < figures->n; i++)
        if (json_object_set_new(list, figures->list[i].key, figure_json(&figures->list[i], limit)) != 0)
            break; /* out of memory: then the next does not work either */
    return hf__command_print_json(json_pack("{s:o, s:o, s:o, s:f, s:b}", "plan", bench_plan_json(plan), "run", bench_result_json(result),
                                            "figures", list, "limit", limit, "holds", holds));
}

/* Of a run that was broken off, too: `err` says so then. Returns the exit status. */
static int judge(const struct bench_options *options, const struct bench_plan *plan, const struct bench_result *result, const hf_error *err)
{
    struct bench_figures figures = bench_figures_of(plan, result);
    double limit = bench_figures_limit(result);
    bool holds = err->status == HF_OK && bench_figures_within(&figures, limit);
    int exit_status = HF__EXIT_DONE;
    if (options->json)
        exit_status = print_json(plan, result, &figures, limit, holds);
    else
        print_figures(&figures, limit);
    fflush(stdout); /* the words below come last, also where both go to one file */
    if (err->status != HF_OK)
        return hf__command_fail(err);
    if (!holds)
        exit_status = hf__command_fail_text("the plan was off by more than %.0f %%", 100 * limit);
    if (!bench_result_right(result))
        exit_status =
            hf__command_fail_text("%zu jobs were lost, %zu run twice, %zu not settled", result->lost, result->duplicates, result->errors);
    return exit_status;
}

/* As many jobs as it should do in ten seconds: the less time passes after the speed was measured, the less the machine has changed. */
static hf_status run_planned(const struct bench_options *options, const struct bench_plan *plan, struct bench_result *out, hf_error *err)
{
    struct bench_options these = *options;
    if (these.jobs == 0 && these.rate <= 0)
        these.jobs = bench_jobs_at(plan->model.jobs_per_second * (double)plan->processes);
    return bench_run(&these, out, err);
}

static int hold_against(const struct bench_options *options, const struct bench_plan *plan)
{
    struct bench_result result = {.crash_ms = -1};
    hf_error err = {.status = HF_OK};
    hf_status status = run_planned(options, plan, &result, &err);
    bool some = status == HF_OK || result.done > 0; /* what there is, also of a run that was broken off */
    int exit_status = some ? judge(options, plan, &result, &err) : hf__command_fail(&err);
    bench_result_free(&result);
    return exit_status;
}

static int verify(struct bench_options *options)
{
    struct bench_sizes sizes = {0};
    struct bench_speed *speed = NULL;
    struct bench_plan plan = {.advice = NULL};
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    int exit_status = HF__EXIT_FAILED;
    hf_status status = bench_plan_sizes(options, options->workers, &sizes, &err);
    if (status == HF_OK)
        status = bench_ask_limit(options, &err);
    if (status == HF_OK)
        status = bench_speed_measure(options, bench_workers_measured(options, &sizes), &speed, &n, &err);
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
