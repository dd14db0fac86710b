/* How long a handler takes: a constant, an exponential or uniform law, or the times of a file. */
#ifndef HF_BENCH_DISTRIBUTION_H
#define HF_BENCH_DISTRIBUTION_H

#include <stdbool.h>
#include <stddef.h>

enum bench_law { BENCH_CONSTANT, BENCH_EXPONENTIAL, BENCH_UNIFORM, BENCH_SAMPLES };

struct bench_distribution {
    enum bench_law law;
    double a_ms, b_ms;  /* constant: a; exponential: mean a; uniform: a to b */
    double *samples_ms; /* sorted, owned */
    size_t n_samples;
    char *text; /* as it was given, owned */
};

/* "5", "exp:5", "uniform:1-9" or "file:PATH" (one time in ms a line; blank lines and lines that begin with # are passed over). False, with
 * an owned message in *why (free), when it is none of them, a time is negative or not finite, or a file cannot be read. */
bool bench_distribution_parse(const char *text, struct bench_distribution *out, char **why);
void bench_distribution_free(struct bench_distribution *distribution);

double bench_distribution_mean(const struct bench_distribution *distribution);
/* Variance over the square of the mean: constant 0, exponential 1. 0 when the mean is 0. */
double bench_distribution_scv(const struct bench_distribution *distribution);
/* The time that the share p (0 <= p < 1) of all handlers does not exceed. With p drawn evenly it is a random time of this law. */
double bench_distribution_quantile(const struct bench_distribution *distribution, double p);

/* The variance over the squared mean of the gamma law with this mean and this 99th percentile: both are matched, so it is exact for an
 * exponential law (p99 = 4.61 times the mean gives 1) and for a nearly constant one (p99 = mean gives 0). A p99 of more than 28 times the
 * mean is beyond every gamma law; there it is BENCH_SCV_MOST, which comes nearest. */
#define BENCH_SCV_MOST 50.0
double bench_distribution_scv_of_p99(double mean_ms, double p99_ms);

#endif
