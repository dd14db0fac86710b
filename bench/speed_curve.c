#include "bench/speed_curve.h"

#include <math.h>

double bench_between(double low, double high, double share)
{
    return low + share * (high - low);
}

struct bench_speed bench_speed_at(const struct bench_speed *speed, size_t n_speed, double n)
{
    size_t i = 0;
    while (i < n_speed && speed[i].n < n)
        i++;
    if (i == 0 || i == n_speed)
        return speed[i == 0 ? 0 : i - 1];
    const struct bench_speed *low = &speed[i - 1], *high = &speed[i];
    double share = (n - low->n) / (high->n - low->n);
    return (struct bench_speed){.n = n,
                                .jobs_per_second = bench_between(low->jobs_per_second, high->jobs_per_second, share),
                                .late_ms = bench_between(low->late_ms, high->late_ms, share),
                                .spread = bench_between(low->spread, high->spread, share),
                                .hold_ms = bench_between(low->hold_ms, high->hold_ms, share),
                                .single = bench_between(low->single, high->single, share)};
}

static double processes_of(const struct bench_model_input *input)
{
    return fmax(input->processes, 1);
}

struct bench_speed bench_curve_at(const struct bench_model_input *input, double n)
{
    struct bench_speed at = bench_speed_at(input->speed, input->n_speed, n * processes_of(input));
    at.jobs_per_second /= processes_of(input);
    return at;
}

double bench_curve_batch(const struct bench_model_input *input)
{
    return fmax(input->batch, 1);
}

/* It grows evenly from that of a single one. */
double bench_curve_share(const struct bench_model_input *input, double n, double jobs)
{
    double most = bench_curve_batch(input), single = bench_curve_at(input, n).single;
    return most > 1 && single > 0 ? bench_between(single, 1, (jobs - 1) / (most - 1)) : 1;
}

double bench_curve_speed(const struct bench_model_input *input, double n, double jobs)
{
    static const double least = 1e-6; /* of what is never 0 */
    double full = fmax(bench_curve_at(input, n).jobs_per_second, least) / bench_curve_batch(input) / 1000;
    return full / bench_curve_share(input, n, jobs) * fmin(n * processes_of(input) / input->speed[0].n, 1);
}

double bench_curve_best(const struct bench_model_input *input, double jobs)
{
    double most = (double)(input->workers + input->ahead), processes = processes_of(input);
    double best = fmax(bench_curve_speed(input, 1, jobs), bench_curve_speed(input, most, jobs));
    for (size_t i = 0; i < input->n_speed && input->speed[i].n < most * processes; i++)
        best = fmax(best, bench_curve_speed(input, input->speed[i].n / processes, jobs));
    return best;
}

double bench_curve_handler_ms(const struct bench_model_input *input, double n)
{
    return input->handler_ms + bench_curve_at(input, n).late_ms;
}

size_t bench_curve_grows_from(const struct bench_model_input *input)
{
    size_t from = 0;
    for (size_t i = 0; i + 1 < input->n_speed; i++) {
        const struct bench_speed *low = &input->speed[i], *high = &input->speed[i + 1];
        if (high->jobs_per_second < low->jobs_per_second || high->late_ms < low->late_ms || high->single > low->single)
            from = (size_t)ceil(high->n / processes_of(input));
    }
    return from;
}
