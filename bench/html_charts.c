/* The charts of the page: which data, which scales, which words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/html.h"
#include "bench/number.h"

enum { BINS = 96, MOST_LEGEND = BENCH_SERIES_PURPOSES + 2, LOOK_SERVER = 7 };

#define PANEL_WIDTH 360.0
#define PANEL_HEIGHT 180.0
#define CHART_WIDTH 440.0
#define CHART_HEIGHT 250.0

/* ---- looks: a strategy and the purpose that holds its rows have the same ---- */

static int strategy_look(hf_strategy strategy)
{
    return strategy == HF_ROW_LOCK ? 1 : strategy == HF_ADVISORY_LOCK ? 2 : 0;
}

/* In the order in which they are stacked: what holds rows is at the bottom. */
static const struct {
    const char *name;
    const char *words;
    int look;
} purposes[] = {{"row_lock", "holding a row lock", 1},
                {"advisory_lock", "holding an advisory lock", 2},
                {"handler", "taken by a handler", 6},
                {"claim", "claiming", 0},
                {"settle", "settling", 3},
                {"renew", "renewing leases", 4},
                {"listen", "listening", 5},
                {"enqueue", "enqueueing", 7},
                {"admin", "looking after tables", 7}};
enum { PURPOSES = sizeof purposes / sizeof purposes[0] };

/* ---- connections over time ---- */

/* The samples of one strategy as means over equal pieces of time. */
struct timeline {
    double x[BINS], stacked[PURPOSES + 1][BINS];
    struct bench_xy server[BINS];
    size_t n;
    bool used[PURPOSES], has_server;
    double peak;
};

static size_t place_of(const struct bench_series *series, const char *purpose)
{
    for (size_t i = 0; i < series->n_names; i++) {
        if (strcmp(series->names[i], purpose) == 0) {
            return i;
        }
    }
    return BENCH_SERIES_PURPOSES;
}

/* Adds up the samples [from, to) and stacks their means. */
static void stack(struct timeline *timeline, const struct bench_series *series, size_t from, size_t to, double seconds)
{
    size_t at = timeline->n++;
    double server = 0, height = 0;
    size_t servers = 0;
    timeline->x[at] = seconds;
    timeline->stacked[0][at] = 0;
    for (size_t k = 0; k < PURPOSES; k++) {
        size_t place = place_of(series, purposes[k].name);
        double sum = 0;
        for (size_t i = from; place < BENCH_SERIES_PURPOSES && i < to; i++) {
            sum += series->samples[i].in_use[place];
        }
        timeline->used[k] = timeline->used[k] || sum > 0;
        height += sum / (double)(to - from);
        timeline->stacked[k + 1][at] = height;
    }
    for (size_t i = from; i < to; i++) {
        server += series->samples[i].server;
        servers += series->samples[i].server > 0;
    }
    timeline->server[at] = (struct bench_xy){seconds, servers > 0 ? server / (double)servers : (double)NAN};
    timeline->has_server = timeline->has_server || servers > 0;
    timeline->peak = fmax(timeline->peak, fmax(height, servers > 0 ? timeline->server[at].y : 0));
}

static void fill_timeline(struct timeline *timeline, const struct bench_series *series, double seconds)
{
    size_t from = 0;
    for (size_t bin = 0; bin < BINS && from < series->n; bin++) {
        double end = seconds * (double)(bin + 1) / BINS;
        size_t to = from;
        while (to < series->n && (series->samples[to].seconds <= end || bin == BINS - 1)) {
            to++;
        }
        if (to > from) {
            stack(timeline, series, from, to, end - seconds / BINS / 2);
        }
        from = to;
    }
}

static double last_second(const struct bench_series *series)
{
    return series->n > 0 ? series->samples[series->n - 1].seconds : 0;
}

static size_t timeline_legend(const struct timeline *timeline, struct bench_legend *legend)
{
    size_t n = 0;
    for (size_t k = 0; k < PURPOSES; k++) {
        if (timeline->used[k]) {
            legend[n++] = (struct bench_legend){purposes[k].words, BENCH_MARK_AREA, purposes[k].look};
        }
    }
    if (timeline->has_server) {
        legend[n++] = (struct bench_legend){"open, as the server saw", BENCH_MARK_DASHES, LOOK_SERVER};
    }
    return n;
}

static void timeline_panel(struct bench_chart *chart, const struct timeline *timeline, hf_strategy strategy)
{
    struct bench_legend legend[MOST_LEGEND];
    chart->legend = legend;
    chart->n_legend = timeline_legend(timeline, legend);
    fprintf(chart->out, "<figure>\n<figcaption>%s</figcaption>\n", bench_strategy_words(strategy));
    bench_chart_begin(chart);
    for (size_t k = 0; k < PURPOSES; k++) {
        if (timeline->used[k]) {
            bench_chart_area(chart, timeline->x, timeline->stacked[k], timeline->stacked[k + 1], timeline->n, purposes[k].look);
        }
    }
    bench_chart_line(chart, timeline->server, timeline->n, LOOK_SERVER, 1.6, true);
    if (timeline->n == 0) {
        bench_chart_note(chart, "no samples: the run was too short");
    }
    bench_chart_end(chart);
    fputs("</figure>\n", chart->out);
}

static bool panels(FILE *out, const struct bench_comparison *comparison, struct timeline *timelines)
{
    double seconds = 0, peak = 0;
    for (size_t i = 0; i < comparison->n; i++) {
        seconds = fmax(seconds, last_second(&comparison->of[i].result.series));
    }
    for (size_t i = 0; i < comparison->n; i++) {
        fill_timeline(&timelines[i], &comparison->of[i].result.series, seconds);
        peak = fmax(peak, timelines[i].peak);
    }
    for (size_t i = 0; i < comparison->n; i++) {
        const struct bench_result *result = &comparison->of[i].result;
        char id[32], *title = NULL, *description = NULL;
        snprintf(id, sizeof id, "time%zu", i);
        if (asprintf(&title, "Connections in use over time by purpose: %s", bench_strategy_words(result->strategy)) < 0) {
            return false;
        }
        if (asprintf(&description, "At most %zu of a pool of %zu connections were in use at once.", result->peak_in_use,
                     result->pool_size) < 0) {
            free(title);
            return false;
        }
        struct bench_chart chart = {.out = out,
                                    .id = id,
                                    .title = title,
                                    .description = description,
                                    .x_label = "seconds",
                                    .y_label = "connections",
                                    .x = bench_axis_linear(0, seconds, 5),
                                    .y = bench_axis_linear(0, peak, 5),
                                    .width = PANEL_WIDTH,
                                    .plot_height = PANEL_HEIGHT};
        timeline_panel(&chart, &timelines[i], result->strategy);
        free(title);
        free(description);
    }
    return true;
}

bool bench_html_timelines(FILE *out, const struct bench_comparison *comparison)
{
    struct timeline *timelines = calloc(BENCH_STRATEGIES, sizeof *timelines);
    bool done = timelines && panels(out, comparison, timelines);
    free(timelines);
    return done;
}

/* ---- charts with a line for each strategy ---- */

typedef const struct bench_xy *(*points_of)(const struct bench_compared *compared, size_t *n);

static const struct bench_xy *by_pool(const struct bench_compared *compared, size_t *n)
{
    *n = compared->n_by_pool;
    return compared->by_pool;
}

static const struct bench_xy *held(const struct bench_compared *compared, size_t *n)
{
    *n = compared->n_held;
    return compared->held;
}

static const struct bench_xy *held_model(const struct bench_compared *compared, size_t *n)
{
    *n = compared->n_held_model;
    return compared->held_model;
}

struct extent {
    double low_x, high_x, high_y;
    size_t n;
};

static void extend(struct extent *extent, const struct bench_comparison *comparison, points_of of)
{
    for (size_t i = 0; i < comparison->n; i++) {
        size_t n = 0;
        const struct bench_xy *points = of(&comparison->of[i], &n);
        for (size_t k = 0; k < n; k++) {
            extent->low_x = extent->n == 0 ? points[k].x : fmin(extent->low_x, points[k].x);
            extent->high_x = fmax(extent->high_x, points[k].x);
            extent->high_y = fmax(extent->high_y, points[k].y);
            extent->n++;
        }
    }
}

/* Every point in words, for those who cannot see the chart. Owned; NULL: out of memory. */
static char *describe(const struct bench_comparison *comparison, points_of of, const char *x_unit, const char *y_unit)
{
    char *text = NULL, x[BENCH_NUMBER_TEXT], y[BENCH_NUMBER_TEXT];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return NULL;
    }
    for (size_t i = 0; i < comparison->n; i++) {
        size_t n = 0;
        const struct bench_xy *points = of(&comparison->of[i], &n);
        fprintf(out, "%s%s:", i > 0 ? " " : "", bench_strategy_words(comparison->of[i].result.strategy));
        for (size_t k = 0; k < n; k++) {
            fprintf(out, "%s %s %s at %s %s", k > 0 ? "," : "", bench_number_short(points[k].y, y), y_unit,
                    bench_number_short(points[k].x, x), x_unit);
        }
        fputs(n > 0 ? "." : " nothing measured.", out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static size_t strategy_legend(const struct bench_comparison *comparison, struct bench_legend *legend)
{
    for (size_t i = 0; i < comparison->n; i++) {
        hf_strategy strategy = comparison->of[i].result.strategy;
        legend[i] = (struct bench_legend){bench_strategy_words(strategy), BENCH_MARK_POINT, strategy_look(strategy)};
    }
    return comparison->n;
}

/* Lines through `line`, dots at `dots`. */
static void strategies_chart(struct bench_chart *chart, const struct bench_comparison *comparison, points_of line, points_of dots,
                             bool dashed)
{
    bench_chart_begin(chart);
    size_t n = 0, drawn = 0;
    for (size_t i = 0; i < comparison->n; i++) {
        const struct bench_xy *points = line(&comparison->of[i], &n);
        bench_chart_line(chart, points, n, strategy_look(comparison->of[i].result.strategy), dashed ? 2 : 4.2 - 1.2 * (double)i, dashed);
    }
    for (size_t i = 0; i < comparison->n; i++) {
        hf_strategy strategy = comparison->of[i].result.strategy;
        const struct bench_xy *points = dots(&comparison->of[i], &n);
        bench_chart_points(chart, points, n, strategy_look(strategy), 1.5 - 0.35 * (double)i, bench_strategy_words(strategy));
        drawn += n;
    }
    if (drawn == 0) {
        bench_chart_note(chart, "not measured");
    }
    bench_chart_end(chart);
}

bool bench_html_throughput(FILE *out, const struct bench_comparison *comparison)
{
    struct extent extent = {0};
    struct bench_legend legend[BENCH_STRATEGIES];
    extend(&extent, comparison, by_pool);
    char *description = describe(comparison, by_pool, "connections", "jobs/s");
    if (!description) {
        return false;
    }
    struct bench_chart chart = {.out = out,
                                .id = "throughput",
                                .title = "Throughput against pool size",
                                .description = description,
                                .x_label = "pool size, connections",
                                .y_label = "jobs per second",
                                .x = bench_axis_doubling(extent.low_x, extent.high_x),
                                .y = bench_axis_linear(0, extent.high_y, 5),
                                .width = CHART_WIDTH,
                                .plot_height = CHART_HEIGHT,
                                .legend = legend,
                                .n_legend = strategy_legend(comparison, legend)};
    fputs("<figure>\n<figcaption>Throughput against pool size</figcaption>\n", out);
    strategies_chart(&chart, comparison, by_pool, by_pool, false);
    fputs("</figure>\n", out);
    free(description);
    return true;
}

bool bench_html_held(FILE *out, const struct bench_comparison *comparison)
{
    struct extent extent = {0};
    struct bench_legend legend[BENCH_STRATEGIES + 1];
    extend(&extent, comparison, held);
    extend(&extent, comparison, held_model);
    char *description = describe(comparison, held, "ms", "connections");
    if (!description) {
        return false;
    }
    struct bench_chart chart = {.out = out,
                                .id = "held",
                                .title = "Connections held against handler time: measured, and as the model has it",
                                .description = description,
                                .x_label = "mean time of a handler, ms",
                                .y_label = "connections held by deliveries, mean",
                                .x = bench_axis_linear(0, extent.high_x, 6),
                                .y = bench_axis_linear(0, extent.high_y, 5),
                                .width = CHART_WIDTH,
                                .plot_height = CHART_HEIGHT,
                                .legend = legend,
                                .n_legend = strategy_legend(comparison, legend)};
    legend[chart.n_legend++] = (struct bench_legend){"lines: the model", BENCH_MARK_DASHES, LOOK_SERVER};
    fputs("<figure>\n<figcaption>Connections held against handler time</figcaption>\n", out);
    strategies_chart(&chart, comparison, held_model, held, true);
    fputs("</figure>\n", out);
    free(description);
    return true;
}
