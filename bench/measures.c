/* The lines of the comparison's table, the same on a terminal and on a page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"
#include "bench/number.h"

enum { MOST_MEASURES = 48 };
enum better { NEITHER, HIGHER, LOWER };

struct lines {
    const struct bench_comparison *comparison;
    struct bench_measure *measures;
    size_t n;
};

typedef double (*figure)(const struct bench_result *result);

const char *bench_strategy_words(hf_strategy strategy)
{
    switch (strategy) {
    case HF_ROW_LOCK:
        return "row lock";
    case HF_LEASE:
        return "lease";
    case HF_ADVISORY_LOCK:
        return "advisory lock";
    }
    return "";
}

/* ---- figures; NaN: not measured ---- */

static double per_job(const struct bench_result *result, double total)
{
    return result->done > 0 ? total / (double)result->done : (double)NAN;
}

static double jobs_per_second(const struct bench_result *result)
{
    return result->jobs_per_second;
}

static double loop_jobs_per_second(const struct bench_result *result)
{
    return result->raw.measured ? result->raw.jobs_per_second : (double)NAN;
}

static double over_loop(const struct bench_result *result)
{
    return result->raw.measured ? result->raw.ratio : (double)NAN;
}

static double jobs_per_connection(const struct bench_result *result)
{
    return result->seconds_per_job > 0 ? 1 / result->seconds_per_job : (double)NAN;
}

static double held_per_delivery(const struct bench_result *result)
{
    return result->held_per_delivery;
}

static double peak_in_use(const struct bench_result *result)
{
    return (double)result->peak_in_use;
}

static double pool_size(const struct bench_result *result)
{
    return (double)result->pool_size;
}

static double open_peak(const struct bench_result *result)
{
    return (double)result->server_peak;
}

static double server_peak(const struct bench_result *result)
{
    return result->server_sampled ? (double)result->server_peak : (double)NAN;
}

static bool any_sampled(const struct bench_comparison *comparison)
{
    bool any = false;
    for (size_t i = 0; i < comparison->n; i++) {
        any = any || comparison->of[i].result.server_sampled;
    }
    return any;
}

static double connection_ms(const struct bench_result *result)
{
    return result->seconds_per_job * 1000;
}

static double round_trips(const struct bench_result *result)
{
    return result->round_trips_per_job;
}

static double commits(const struct bench_result *result)
{
    return result->commits_per_job;
}

static double quantile_ms(const struct hf__histogram *histogram, double p)
{
    return histogram->count > 0 ? (double)hf__histogram_quantile(histogram, p) / 1000 : (double)NAN;
}

static double crash_seconds(const struct bench_result *result)
{
    return result->crash_ms < 0 ? (double)NAN : result->crash_ms / 1000;
}

static double lost(const struct bench_result *result)
{
    return (double)result->lost;
}

static double duplicates(const struct bench_result *result)
{
    return (double)result->duplicates;
}

static double errors(const struct bench_result *result)
{
    return (double)result->errors;
}

/* ---- lines ---- */

/* Bold is what no other beats, if any is worse by more than rounding. */
static void mark_best(struct bench_measure *measure, const double *values, size_t n, enum better better)
{
    double best = NAN, worst = NAN;
    for (size_t i = 0; i < n; i++) {
        best = better == HIGHER ? fmax(best, values[i]) : fmin(best, values[i]);
        worst = better == HIGHER ? fmin(worst, values[i]) : fmax(worst, values[i]);
    }
    if (better == NEITHER || isnan(best) || fabs(best - worst) <= 0.05 * fmax(fabs(best), fabs(worst))) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        measure->best[i] = fabs(values[i] - best) <= 0.05 * fabs(best);
    }
}

static struct bench_measure *add(struct lines *lines, const char *name, const char *unit, const double *values, enum better better)
{
    if (lines->n == MOST_MEASURES) {
        return &lines->measures[MOST_MEASURES - 1];
    }
    struct bench_measure *measure = &lines->measures[lines->n++];
    snprintf(measure->name, sizeof measure->name, "%s", name);
    measure->unit = unit;
    for (size_t i = 0; i < lines->comparison->n; i++) {
        bench_number_short(values[i], measure->text[i]);
    }
    mark_best(measure, values, lines->comparison->n, better);
    return measure;
}

static struct bench_measure *add_figure(struct lines *lines, const char *name, const char *unit, figure of, enum better better)
{
    double values[BENCH_STRATEGIES] = {0};
    for (size_t i = 0; i < lines->comparison->n; i++) {
        values[i] = of(&lines->comparison->of[i].result);
    }
    return add(lines, name, unit, values, better);
}

static void add_count(struct lines *lines, const char *name, figure of)
{
    struct bench_measure *measure = add_figure(lines, name, "", of, LOWER);
    for (size_t i = 0; i < lines->comparison->n; i++) {
        bench_number(of(&lines->comparison->of[i].result), 0, measure->text[i]);
    }
}

/* Only when something went wrong. */
static void add_fault(struct lines *lines, const char *name, figure of)
{
    for (size_t i = 0; i < lines->comparison->n; i++) {
        if (of(&lines->comparison->of[i].result) > 0) {
            add_count(lines, name, of);
            return;
        }
    }
}

static double purpose_seconds(const struct bench_result *result, const char *name)
{
    for (size_t i = 0; i < result->n_purposes; i++) {
        if (strcmp(result->purposes[i].name, name) == 0) {
            return result->purposes[i].seconds;
        }
    }
    return 0;
}

static void add_purpose(struct lines *lines, const char *name)
{
    double values[BENCH_STRATEGIES] = {0}, sum = 0;
    for (size_t i = 0; i < lines->comparison->n; i++) {
        const struct bench_result *result = &lines->comparison->of[i].result;
        values[i] = per_job(result, purpose_seconds(result, name) * 1000);
        sum += values[i] > 0 ? values[i] : 0;
    }
    if (sum >= 0.0005) {
        add(lines, name, "ms", values, NEITHER)->part = true;
    }
}

static bool named_before(const struct bench_comparison *comparison, size_t strategy, const char *name)
{
    for (size_t i = 0; i < strategy; i++) {
        const struct bench_result *result = &comparison->of[i].result;
        for (size_t k = 0; k < result->n_purposes; k++) {
            if (strcmp(result->purposes[k].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void add_purposes(struct lines *lines)
{
    for (size_t i = 0; i < lines->comparison->n; i++) {
        const struct bench_result *result = &lines->comparison->of[i].result;
        for (size_t k = 0; k < result->n_purposes; k++) {
            if (!named_before(lines->comparison, i, result->purposes[k].name)) {
                add_purpose(lines, result->purposes[k].name);
            }
        }
    }
}

/* In a filled table all rows are due from the start: the time since then says how long the table was, so there the delivery's own time
 * stands instead. */
static void add_latency(struct lines *lines, double p, const char *rank)
{
    bool open = lines->comparison->rate > 0;
    char name[64];
    snprintf(name, sizeof name, open ? "due to settled, %s" : "begun to settled, %s", rank);
    double values[BENCH_STRATEGIES] = {0};
    for (size_t i = 0; i < lines->comparison->n; i++) {
        const struct bench_result *result = &lines->comparison->of[i].result;
        values[i] = quantile_ms(open ? &result->latency : &result->delivery, p);
    }
    add(lines, name, "ms", values, LOWER);
}

static void add_raw(struct lines *lines)
{
    bool measured = false;
    for (size_t i = 0; i < lines->comparison->n; i++) {
        measured = measured || lines->comparison->of[i].result.raw.measured;
    }
    if (measured) {
        add_figure(lines, "hand-written loop, median", "", loop_jobs_per_second, NEITHER)->part = true;
        add_figure(lines, "holdfast over it, median", "", over_loop, NEITHER)->part = true;
    }
}

struct bench_measure *bench_measures(const struct bench_comparison *comparison, size_t *n)
{
    struct lines lines = {.comparison = comparison, .measures = calloc(MOST_MEASURES, sizeof *lines.measures)};
    if (!lines.measures) {
        return NULL;
    }
    add_figure(&lines, "jobs per second", "", jobs_per_second, HIGHER);
    add_raw(&lines);
    add_figure(&lines, "jobs per second per connection", "", jobs_per_connection, HIGHER);
    add_figure(&lines, "connections held per delivery", "", held_per_delivery, LOWER);
    add_count(&lines, "most connections in use", peak_in_use);
    if (any_sampled(comparison)) {
        add_count(&lines, "most open, as the server saw", server_peak);
    } else {
        add_count(&lines, "most open", open_peak);
    }
    add_count(&lines, "pool size", pool_size);
    add_figure(&lines, "connection time per job", "ms", connection_ms, LOWER);
    add_purposes(&lines);
    add_figure(&lines, "round trips per job", "", round_trips, LOWER);
    add_figure(&lines, "commits per job", "", commits, LOWER);
    add_latency(&lines, 0.50, "p50");
    add_latency(&lines, 0.95, "p95");
    add_latency(&lines, 0.99, "p99");
    add_figure(&lines, "killed worker's row runs again after", "s", crash_seconds, LOWER);
    add_fault(&lines, "jobs lost", lost);
    add_fault(&lines, "jobs run twice", duplicates);
    add_fault(&lines, "settles that failed", errors);
    *n = lines.n;
    return lines.measures;
}

/* ---- on a terminal ---- */

/* Columns of the terminal, not bytes: the dash of what is not known has three bytes. */
static int padding(const char *text, int width)
{
    int columns = 0;
    for (; *text; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns < width ? width - columns : 0;
}

static void print_line(FILE *out, const struct bench_measure *measure, size_t n)
{
    char label[BENCH_MEASURE_TEXT + sizeof measure->name];
    snprintf(label, sizeof label, "%s%s%s%s", measure->part ? "  " : "", measure->name, *measure->unit ? ", " : "", measure->unit);
    fprintf(out, "%s%*s", label, padding(label, 42), "");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%*s%s", padding(measure->text[i], 18), "", measure->text[i]);
    }
    fputc('\n', out);
}

void bench_comparison_print(FILE *out, const struct bench_comparison *comparison)
{
    size_t n = 0;
    struct bench_measure *measures = bench_measures(comparison, &n);
    if (!measures || comparison->n == 0) {
        free(measures);
        return;
    }
    const struct bench_result *first = &comparison->of[0].result;
    fprintf(out, "%s %s, %zu workers", first->database, first->server_version, first->workers);
    bench_result_print_shape(out, first);
    fprintf(out, ", handlers of %s ms\n\n%-42s", first->handler ? first->handler : "0", "");
    for (size_t i = 0; i < comparison->n; i++) {
        fprintf(out, "%18s", bench_strategy_words(comparison->of[i].result.strategy));
    }
    fputc('\n', out);
    for (size_t i = 0; i < n; i++) {
        print_line(out, &measures[i], comparison->n);
    }
    free(measures);
}

void bench_comparison_free(struct bench_comparison *comparison)
{
    for (size_t i = 0; i < BENCH_STRATEGIES; i++) {
        bench_result_free(&comparison->of[i].result);
    }
    free(comparison->command_line);
    free(comparison->machine);
    free(comparison->date);
}
