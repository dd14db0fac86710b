#include "bench/figures.h"

#include <math.h>

double bench_figure_error(const struct bench_figure *figure)
{
    double difference = fabs(figure->measured - figure->predicted);
    if (figure->meaningless || difference <= figure->slack || (figure->bound && figure->measured <= figure->predicted))
        return 0;
    return figure->predicted > 0 ? difference / figure->predicted : INFINITY;
}

double bench_figures_limit(const struct bench_result *result)
{
    return result->handler_ms > 0 ? 0.10 : 0.25;
}

void bench_figures_list(const struct bench_plan *plan, const struct bench_result *result, struct bench_figure out[BENCH_FIGURES])
{
    bool idle = result->handler_ms <= 0, arrive = plan->model.batch_mean < (double)result->batch;
    out[0] = (struct bench_figure){.name = "jobs/s",
                                   .key = "jobs_per_second",
                                   .predicted = plan->model.jobs_per_second * (double)plan->processes,
                                   .measured = result->steady.jobs_per_second};
    out[1] = (struct bench_figure){.name = "connections held by a delivery in work",
                                   .key = "held_per_delivery",
                                   .predicted = plan->held_per_delivery,
                                   .measured = result->held_per_delivery,
                                   .slack = 0.05,
                                   .meaningless = idle,
                                   /* how many of the jobs that arrive share a batch, and so a connection, is a matter of who wakes first */
                                   .unjudged = arrive && plan->strategy == HF_ROW_LOCK};
    out[2] = (struct bench_figure){.name = "connections held, mean",
                                   .key = "held_mean",
                                   .predicted = plan->held_mean,
                                   .measured = result->steady.held_mean,
                                   .slack = 0.1,
                                   .meaningless = idle};
    out[3] = (struct bench_figure){.name = "connections held, p99",
                                   .key = "held_p99",
                                   .predicted = (double)plan->held_p99,
                                   .measured = (double)result->held_p99,
                                   .slack = 1,
                                   .meaningless = idle};
    out[4] = (struct bench_figure){.name = "connections in use, at most",
                                   .key = "peak_in_use",
                                   .predicted = (double)plan->peak_in_use,
                                   .measured = (double)result->peak_in_use,
                                   .bound = true};
    out[5] = (struct bench_figure){.name = "wait for a connection, p99, ms", /* a tail, with the time to open a connection in it */
                                   .key = "pool_wait_p99_ms",
                                   .predicted = plan->pool_wait_p99_ms,
                                   .measured = result->connection_wait_p99_ms,
                                   .unjudged = true};
}

bool bench_figures_within(const struct bench_figure figures[BENCH_FIGURES], double limit)
{
    bool within = true;
    for (size_t i = 0; i < BENCH_FIGURES; i++)
        within = within && (figures[i].unjudged || bench_figure_error(&figures[i]) <= limit);
    return within;
}
