#include "bench/distribution.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_MS 1e12 /* thirty years: a longer handler is a slip of the pen */

/* ---- parsing ---- */

static bool fail(char **why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char **why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vasprintf(why, format, args) < 0)
        *why = NULL;
    va_end(args);
    return false;
}

/* A time at the beginning of the text; NULL if there is none, else what follows it. */
static const char *read_ms(const char *text, double *ms)
{
    char *end = NULL;
    *ms = strtod(text, &end);
    bool plain = (*text >= '0' && *text <= '9') || *text == '.';
    return plain && end != text && isfinite(*ms) && *ms <= MOST_MS ? end : NULL;
}

static bool parse_single(const char *number, const char *text, struct bench_distribution *out, char **why)
{
    const char *end = read_ms(number, &out->a_ms);
    if (end && !*end)
        return true;
    return fail(why, "\"%s\" is no time in milliseconds: a constant (5), exp:MEAN, uniform:FROM-TO or file:PATH", text);
}

static bool parse_uniform(const char *range, const char *text, struct bench_distribution *out, char **why)
{
    const char *dash = read_ms(range, &out->a_ms);
    const char *end = dash && *dash == '-' ? read_ms(dash + 1, &out->b_ms) : NULL;
    if (!end || *end)
        return fail(why, "\"%s\" is no range in milliseconds: uniform:FROM-TO, as in uniform:1-9", text);
    if (out->b_ms < out->a_ms)
        return fail(why, "\"%s\" ends before it begins: uniform:FROM-TO takes the shorter time first", text);
    return true;
}

static bool add_sample(struct bench_distribution *out, size_t *capacity, double ms)
{
    if (out->n_samples == *capacity) {
        size_t grown = *capacity ? *capacity * 2 : 256;
        double *samples = reallocarray(out->samples_ms, grown, sizeof *samples);
        if (!samples)
            return false;
        out->samples_ms = samples;
        *capacity = grown;
    }
    out->samples_ms[out->n_samples++] = ms;
    return true;
}

/* One line of the file; true also for one that says nothing. */
static bool read_line(const char *line, double *ms, bool *has)
{
    line += strspn(line, " \t");
    *has = *line && !strchr("#\r\n", *line);
    const char *end = *has ? read_ms(line, ms) : line;
    return !*has || (end && !end[strspn(end, " \t\r\n")]);
}

static bool read_lines(FILE *file, const char *path, struct bench_distribution *out, char **why)
{
    char *line = NULL;
    size_t room = 0, capacity = 0, number = 0;
    bool good = true;
    while (good && getline(&line, &room, file) >= 0) {
        double ms = 0;
        bool has = false;
        number++;
        if (!read_line(line, &ms, &has))
            good = fail(why, "%s, line %zu: one time in milliseconds a line, 0 or more", path, number);
        else if (has && !add_sample(out, &capacity, ms))
            good = fail(why, "%s: out of memory", path);
    }
    free(line);
    if (good && ferror(file))
        good = fail(why, "%s cannot be read: %s", path, strerror(errno));
    return good;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static bool parse_file(const char *path, struct bench_distribution *out, char **why)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return fail(why, "%s cannot be read: %s", path, strerror(errno));
    bool good = read_lines(file, path, out, why);
    fclose(file);
    if (good && out->n_samples == 0)
        good = fail(why, "%s holds no time: one time in milliseconds a line", path);
    if (good)
        qsort(out->samples_ms, out->n_samples, sizeof *out->samples_ms, by_size);
    return good;
}

static bool parse(const char *text, struct bench_distribution *out, char **why)
{
    static const struct {
        const char *prefix;
        enum bench_law law;
        bool (*parse)(const char *rest, const char *text, struct bench_distribution *out, char **why);
    } laws[] = {{"exp:", BENCH_EXPONENTIAL, parse_single}, {"uniform:", BENCH_UNIFORM, parse_uniform}};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        size_t len = strlen(laws[i].prefix);
        if (strncmp(text, laws[i].prefix, len) == 0) {
            out->law = laws[i].law;
            return laws[i].parse(text + len, text, out, why);
        }
    }
    if (strncmp(text, "file:", 5) == 0) {
        out->law = BENCH_SAMPLES;
        return parse_file(text + 5, out, why);
    }
    return parse_single(text, text, out, why);
}

bool bench_distribution_parse(const char *text, struct bench_distribution *out, char **why)
{
    *out = (struct bench_distribution){.law = BENCH_CONSTANT, .text = strdup(text)};
    *why = NULL;
    bool good = out->text ? parse(text, out, why) : fail(why, "out of memory");
    if (!good)
        bench_distribution_free(out);
    return good;
}

void bench_distribution_free(struct bench_distribution *distribution)
{
    free(distribution->samples_ms);
    free(distribution->text);
    *distribution = (struct bench_distribution){.law = BENCH_CONSTANT};
}

/* ---- what is known of a law ---- */

static double mean_of(const struct bench_distribution *d, double (*of)(double ms, double mean), double mean)
{
    double sum = 0;
    for (size_t i = 0; i < d->n_samples; i++)
        sum += of(d->samples_ms[i], mean);
    return d->n_samples ? sum / (double)d->n_samples : 0;
}

static double itself(double ms, double mean)
{
    (void)mean;
    return ms;
}

static double squared_distance(double ms, double mean)
{
    return (ms - mean) * (ms - mean);
}

double bench_distribution_mean(const struct bench_distribution *d)
{
    switch (d->law) {
    case BENCH_CONSTANT:
    case BENCH_EXPONENTIAL:
        return d->a_ms;
    case BENCH_UNIFORM:
        return (d->a_ms + d->b_ms) / 2;
    case BENCH_SAMPLES:
        return mean_of(d, itself, 0);
    }
    return 0;
}

double bench_distribution_scv(const struct bench_distribution *d)
{
    double mean = bench_distribution_mean(d);
    if (mean <= 0)
        return 0;
    switch (d->law) {
    case BENCH_CONSTANT:
        return 0;
    case BENCH_EXPONENTIAL:
        return 1;
    case BENCH_UNIFORM:
        return (d->b_ms - d->a_ms) * (d->b_ms - d->a_ms) / 12 / (mean * mean);
    case BENCH_SAMPLES:
        return mean_of(d, squared_distance, mean) / (mean * mean);
    }
    return 0;
}

double bench_distribution_quantile(const struct bench_distribution *d, double p)
{
    switch (d->law) {
    case BENCH_CONSTANT:
        return d->a_ms;
    case BENCH_EXPONENTIAL:
        return -d->a_ms * log1p(-p);
    case BENCH_UNIFORM:
        return d->a_ms + p * (d->b_ms - d->a_ms);
    case BENCH_SAMPLES: {
        size_t i = (size_t)(p * (double)d->n_samples);
        return d->samples_ms[i < d->n_samples ? i : d->n_samples - 1];
    }
    }
    return 0;
}

/* ---- a law from its mean and its 99th percentile ---- */

/* The share of a gamma law of this shape and scale 1 that lies above x: the regularised incomplete gamma function, by its series below
 * shape + 1 and by Lentz's continued fraction above (Abramowitz and Stegun, 6.5.29 and 6.5.31). */
static double gamma_tail(double shape, double x)
{
    enum { MOST = 100000 };
    double front = exp(shape * log(x) - x - lgamma(shape));
    if (x < shape + 1) {
        double term = 1 / shape, sum = term;
        for (int i = 1; i < MOST && term > sum * 1e-15; i++)
            sum += term *= x / (shape + i);
        return 1 - sum * front;
    }
    double b = x + 1 - shape, c = 1e300, d = 1 / b, value = d, change = 0;
    for (int i = 1; i < MOST && fabs(change - 1) > 1e-14; i++) {
        double a = -i * (i - shape);
        b += 2;
        d = 1 / (a * d + b);
        c = b + a / c;
        change = d * c;
        value *= change;
    }
    return value * front;
}

double bench_distribution_scv_of_p99(double mean_ms, double p99_ms)
{
    double low = 1e-6, high = BENCH_SCV_MOST, ratio = mean_ms > 0 ? p99_ms / mean_ms : 1;
    for (int i = 0; i < 100; i++) {
        double scv = sqrt(low * high);
        bool too_wide = gamma_tail(1 / scv, ratio / scv) > 0.01;
        *(too_wide ? &high : &low) = scv;
    }
    return ratio <= 1 ? 0 : sqrt(low * high);
}
