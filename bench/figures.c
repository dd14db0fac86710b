#include "bench/figures.h"

#include <math.h>

double bench_figure_error(const struct bench_figure *figure)
{
    double difference = figure->measured - figure->predicted;
    if (figure->bound ? difference <= 0 : fabs(difference) <= 0)
        return 0;
    return figure->predicted > 0 ? fabs(difference) / figure->predicted : INFINITY;
}

double bench_figures_limit(const struct bench_result *result)
{
    return result->handler_ms > 0 ? 0.10 : 0.25;
}

bool bench_figure_within(const struct bench_figure *figure, double limit)
{
    bool same = figure->meaningless || fabs(figure->measured - figure->predicted) <= figure->slack;
    return same || bench_figure_error(figure) <= limit;
}

bool bench_figures_within(const struct bench_figures *figures, double limit)
{
    bool within = true;
    for (size_t i = 0; i < figures->n; i++)
        within = within && (figures->list[i].unjudged || bench_figure_within(&figures->list[i], limit));
    return within;
}

static void add(struct bench_figures *figures, struct bench_figure figure)
{
    figures->list[figures->n++] = figure;
}

static void add_held(struct bench_figures *figures, const struct bench_plan *plan, const struct bench_result *result)
{
    bool idle = result->handler_ms <= 0, shared = result->batch > 1 && plan->model.batch_mean < (double)result->batch;
    add(figures,
        (struct bench_figure){.name = "connections held by a delivery in work",
                              .key = "held_per_delivery",
                              .predicted = plan->held_per_delivery,
                              .measured = result->held_per_delivery,
                              .slack = 0.05,
                              .meaningless = idle,
                              /* how many of the jobs that arrive share a batch, and so a connection, is a matter of who wakes first */
                              .unjudged = shared && plan->strategy == HF_ROW_LOCK});
    add(figures, (struct bench_figure){.name = "connections held, mean",
                                       .key = "held_mean",
                                       .predicted = plan->held_mean,
                                       .measured = result->steady.held_mean,
                                       .slack = 0.1,
                                       .meaningless = idle});
    add(figures, (struct bench_figure){.name = "connections held, p99",
                                       .key = "held_p99",
                                       .predicted = (double)plan->held_p99,
                                       .measured = (double)result->held_p99,
                                       .slack = 1,
                                       .meaningless = idle});
}

static void add_peaks(struct bench_figures *figures, const struct bench_plan *plan, const struct bench_result *result)
{
    add(figures, (struct bench_figure){.name = "connections in use, at most",
                                       .key = "peak_in_use",
                                       .predicted = (double)plan->peak_in_use,
                                       .measured = (double)result->peak_in_use,
                                       .bound = true});
    add(figures, (struct bench_figure){.name = "connections open, all processes",
                                       .key = "open",
                                       .predicted = (double)(plan->processes * plan->pool),
                                       .measured = (double)result->server_peak,
                                       .bound = true,
                                       .unjudged = true}); /* a server that keeps no names counts other sessions as well */
}

/* From due to begun the claim passes as well. */
static void add_waits(struct bench_figures *figures, const struct bench_plan *plan, const struct bench_result *result)
{
    const struct bench_model *model = &plan->model;
    add(figures, (struct bench_figure){.name = "wait for a connection, p99, ms", /* a tail, with the time to open a connection in it */
                                       .key = "pool_wait_p99_ms",
                                       .predicted = plan->pool_wait_p99_ms,
                                       .measured = result->connection_wait_p99_ms,
                                       .unjudged = true});
    if (model->start_wait_mean_ms < 0 || !model->stable || result->start.count == 0)
        return;
    add(figures, (struct bench_figure){.name = "wait for a worker and the claim, mean, ms",
                                       .key = "start_wait_mean_ms",
                                       .predicted = model->start_wait_mean_ms + model->hold_ms,
                                       .measured = result->start.sum_us / 1000 / (double)result->start.count,
                                       .unjudged = true});
    add(figures, (struct bench_figure){.name = "wait for a worker and the claim, p99, ms",
                                       .key = "start_wait_p99_ms",
                                       .predicted = model->start_wait_p99_ms + model->hold_ms,
                                       .measured = (double)hf__histogram_quantile(&result->start, 0.99) / 1000,
                                       .unjudged = true});
}

struct bench_figures bench_figures_of(const struct bench_plan *plan, const struct bench_result *result)
{
    struct bench_figures figures = {.n = 0};
    add(&figures, (struct bench_figure){.name = "jobs/s",
                                        .key = "jobs_per_second",
                                        .predicted = plan->model.jobs_per_second * (double)plan->processes,
                                        .measured = result->steady.jobs_per_second});
    add(&figures, (struct bench_figure){.name = "share of the workers' time in handlers",
                                        .key = "worker_utilisation",
                                        .predicted = plan->model.worker_utilisation,
                                        .measured = result->steady.worker_utilisation,
                                        .slack = 0.02,
                                        .meaningless = result->handler_ms <= 0});
    add_held(&figures, plan, result);
    add_peaks(&figures, plan, result);
    add_waits(&figures, plan, result);
    return figures;
}
