/* Charts as SVG: axes with ticks at round numbers, lines, points, stacked areas, a legend. Pure functions onto a FILE. They set
 * classes, not colours: the page's style sheet gives cN its colour (`color`), for light and dark.
 * Whatever the numbers are, the output is well-formed and lies within the viewBox: values beyond an axis are drawn on its edge, and what
 * is not finite is left out. */
#ifndef HF_BENCH_SVG_H
#define HF_BENCH_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct bench_xy {
    double x, y;
};

struct bench_axis {
    double low, high;
    double step;   /* between ticks; on a doubling axis unused */
    int decimals;  /* of the ticks' labels */
    bool doubling; /* logarithmic, a tick at each power of two */
};

/* The axis that holds low to high and begins and ends at a round number (1, 2 or 5 times a power of ten), with about so many ticks. */
struct bench_axis bench_axis_linear(double low, double high, size_t about);
/* From the power of two at or below low (at least 1) to the one at or above high. */
struct bench_axis bench_axis_doubling(double low, double high);
/* 0 at the low end, 1 at the high one; a value beyond an end counts as that end. NaN for NaN. */
double bench_axis_place(const struct bench_axis *axis, double value);
/* Writes the ticks, at most `most` of them; returns how many. */
size_t bench_axis_ticks(const struct bench_axis *axis, double *out, size_t most);

enum bench_mark { BENCH_MARK_AREA, BENCH_MARK_LINE, BENCH_MARK_DASHES, BENCH_MARK_POINT };

/* look: the class cN, and with it the dot's shape and the area's hatching, so that nothing hangs on colour alone. */
struct bench_legend {
    const char *text;
    enum bench_mark mark;
    int look;
};

struct bench_chart {
    FILE *out;
    const char *id; /* a word, unique on its page */
    const char *title;
    const char *description; /* what is to be seen, for those who cannot see it */
    const char *x_label, *y_label;
    struct bench_axis x, y;
    double width, plot_height; /* of the viewBox; of the part between the axes */
    const struct bench_legend *legend;
    size_t n_legend;
    /* set by bench_chart_begin */
    double left, right, top, bottom; /* of the part between the axes */
    double height;
};

/* Begins the svg element: title, description, axes, legend. */
void bench_chart_begin(struct bench_chart *chart);
/* Between low and high, over x; one sample is a thin column. */
void bench_chart_area(const struct bench_chart *chart, const double *x, const double *low, const double *high, size_t n, int look);
/* A point that is not finite leaves a gap. weight: of the stroke; one series that hides another is drawn finer than it. */
void bench_chart_line(const struct bench_chart *chart, const struct bench_xy *points, size_t n, int look, double weight, bool dashed);
/* Each with its numbers as a tooltip, after `name` (may be NULL). weight: 1 is the legend's dot. */
void bench_chart_points(const struct bench_chart *chart, const struct bench_xy *points, size_t n, int look, double weight,
                        const char *name);
/* In the middle, instead of data. */
void bench_chart_note(const struct bench_chart *chart, const char *text);
void bench_chart_end(const struct bench_chart *chart);

/* With &, <, >, " and ' escaped, and control characters, which XML does not allow, left out. */
void bench_markup_text(FILE *out, const char *text);

#endif
