/* Charts as SVG. Layout, from the top: the unit of the y axis, the plot, ticks and label of the x axis, the legend. */
#include "bench/svg.h"

#include <math.h>
#include <string.h>

#include "bench/number.h"

enum { MOST_TICKS = 24, LOOKS = 8 };

#define MARGIN_LEFT 14.0 /* and the widest label of the y axis */
#define MARGIN_RIGHT 18.0
#define MARGIN_TOP 26.0
#define TICKS_HEIGHT 20.0
#define LABEL_HEIGHT 20.0
#define LEGEND_ROW 19.0
#define LEGEND_SWATCH 24.0
#define LEGEND_GAP 16.0
#define LETTER 6.4 /* the mean width of a letter of the 12 px sans-serif faces, on the generous side */
#define DOT 4.5

/* ---- text ---- */

void bench_markup_text(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            if (*c >= ' ' || *c == '\n' || *c == '\t') {
                fputc(*c, out);
            }
        }
    }
}

static void coordinate(FILE *out, const char *name, double value)
{
    char text[BENCH_NUMBER_TEXT];
    fprintf(out, " %s=\"%s\"", name, bench_number_plain(value, 1, text));
}

static void position(FILE *out, char command, double x, double y)
{
    char a[BENCH_NUMBER_TEXT], b[BENCH_NUMBER_TEXT];
    fprintf(out, "%c%s %s", command, bench_number_plain(x, 1, a), bench_number_plain(y, 1, b));
}

static void write_text(FILE *out, double x, double y, const char *attributes, const char *text)
{
    fputs("<text", out);
    coordinate(out, "x", x);
    coordinate(out, "y", y);
    fprintf(out, " %s>", attributes);
    bench_markup_text(out, text);
    fputs("</text>\n", out);
}

static void write_line(FILE *out, const char *attributes, double x1, double y1, double x2, double y2)
{
    fprintf(out, "<line %s", attributes);
    coordinate(out, "x1", x1);
    coordinate(out, "y1", y1);
    coordinate(out, "x2", x2);
    coordinate(out, "y2", y2);
    fputs("/>\n", out);
}

/* ---- places ---- */

static double place_x(const struct bench_chart *chart, double value)
{
    return chart->left + bench_axis_place(&chart->x, value) * (chart->right - chart->left);
}

static double place_y(const struct bench_chart *chart, double value)
{
    return chart->bottom - bench_axis_place(&chart->y, value) * (chart->bottom - chart->top);
}

/* ---- marks ---- */

static int look_of(int look)
{
    return look < 0 ? 0 : look % LOOKS;
}

/* Looks 0 to 7: disc, square, triangle, diamond, and again. */
static void write_dot(FILE *out, double x, double y, int look, double size)
{
    switch (look_of(look) % 4) {
    case 0:
        fputs("<circle", out);
        coordinate(out, "cx", x);
        coordinate(out, "cy", y);
        coordinate(out, "r", size);
        break;
    case 1:
        fputs("<rect", out);
        coordinate(out, "x", x - size + 0.5);
        coordinate(out, "y", y - size + 0.5);
        coordinate(out, "width", 2 * size - 1);
        coordinate(out, "height", 2 * size - 1);
        break;
    default:
        fputs("<path d=\"", out);
        position(out, 'M', x, y - size - 0.5);
        position(out, 'L', x + size + 0.5, look_of(look) % 4 == 2 ? y + size - 0.5 : y);
        if (look_of(look) % 4 == 3) {
            position(out, 'L', x, y + size + 0.5);
        }
        position(out, 'L', x - size - 0.5, look_of(look) % 4 == 2 ? y + size - 0.5 : y);
        fputs("Z\"", out);
    }
    fprintf(out, " class=\"dot c%d\"", look_of(look));
}

/* Lines over an area's colour: none, rising, falling, level, upright, dots. The colours alone would not tell areas apart for everyone. */
static void write_hatching(const struct bench_chart *chart)
{
    static const char *const lines[LOOKS] = {NULL,       "M0 7L7 0",         "M0 0L7 7", "M0 3.5H7",
                                             "M3.5 0V7", "M0 7L7 0M0 0L7 7", "M2 3.5H5", "M3.5 2V5"};
    fputs("<defs>\n", chart->out);
    for (size_t i = 0; i < chart->n_legend; i++) {
        int look = look_of(chart->legend[i].look);
        if (chart->legend[i].mark == BENCH_MARK_AREA && lines[look]) {
            fprintf(chart->out,
                    "<pattern id=\"%s-h%d\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">"
                    "<path d=\"%s\" class=\"hatch\"/></pattern>\n",
                    chart->id, look, lines[look]);
        }
    }
    fputs("</defs>\n", chart->out);
}

static bool has_hatching(const struct bench_chart *chart, int look)
{
    for (size_t i = 0; look_of(look) != 0 && i < chart->n_legend; i++) {
        if (chart->legend[i].mark == BENCH_MARK_AREA && look_of(chart->legend[i].look) == look_of(look)) {
            return true;
        }
    }
    return false;
}

/* ---- legend ---- */

/* In letters, not bytes. */
static double text_width(const char *text)
{
    size_t letters = 0;
    for (; *text; text++) {
        letters += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return (double)letters * LETTER;
}

static double legend_width(const struct bench_legend *entry)
{
    return LEGEND_SWATCH + text_width(entry->text);
}

static void write_swatch(const struct bench_chart *chart, const struct bench_legend *entry, double x, double y)
{
    char attributes[64];
    switch (entry->mark) {
    case BENCH_MARK_AREA:
        for (int hatching = 0; hatching <= (has_hatching(chart, entry->look) ? 1 : 0); hatching++) {
            fputs("<rect", chart->out);
            coordinate(chart->out, "x", x);
            coordinate(chart->out, "y", y - 9.5);
            fputs(" width=\"18\" height=\"11\" rx=\"2\"", chart->out);
            if (hatching) {
                fprintf(chart->out, " fill=\"url(#%s-h%d)\"/>\n", chart->id, look_of(entry->look));
            } else {
                fprintf(chart->out, " class=\"area c%d\"/>\n", look_of(entry->look));
            }
        }
        return;
    case BENCH_MARK_POINT:
        write_dot(chart->out, x + 9, y - 4, entry->look, DOT);
        fputs("/>\n", chart->out);
        return;
    case BENCH_MARK_LINE:
    case BENCH_MARK_DASHES:
        snprintf(attributes, sizeof attributes, "class=\"line c%d%s\" stroke-width=\"2\"", look_of(entry->look),
                 entry->mark == BENCH_MARK_DASHES ? " dashed" : "");
        write_line(chart->out, attributes, x, y - 4, x + 18, y - 4);
        return;
    }
}

/* Lays the entries out in rows and writes them unless `measure` is set. Returns the height. */
static double legend(const struct bench_chart *chart, bool measure)
{
    double x = 4, y = 0;
    for (size_t i = 0; i < chart->n_legend; i++) {
        const struct bench_legend *entry = &chart->legend[i];
        if (i > 0 && x + legend_width(entry) > chart->width - 4) {
            x = 4;
            y += LEGEND_ROW;
        }
        if (!measure) {
            double base = chart->height - 6 - legend(chart, true) + LEGEND_ROW + y;
            write_swatch(chart, entry, x, base);
            write_text(chart->out, x + LEGEND_SWATCH, base, "class=\"legend\"", entry->text);
        }
        x += legend_width(entry) + LEGEND_GAP;
    }
    return chart->n_legend > 0 ? y + LEGEND_ROW : 0;
}

/* ---- axes ---- */

static void write_axes(const struct bench_chart *chart)
{
    double ticks[MOST_TICKS];
    char text[BENCH_NUMBER_TEXT];
    size_t n = bench_axis_ticks(&chart->y, ticks, MOST_TICKS);
    for (size_t i = 0; i < n; i++) {
        double y = place_y(chart, ticks[i]);
        write_line(chart->out, i == 0 ? "class=\"axis\"" : "class=\"grid\"", chart->left, y, chart->right, y);
        write_text(chart->out, chart->left - 7, y + 4, "class=\"tick\" text-anchor=\"end\"",
                   bench_number(ticks[i], chart->y.decimals, text));
    }
    n = bench_axis_ticks(&chart->x, ticks, MOST_TICKS);
    for (size_t i = 0; i < n; i++) {
        double x = place_x(chart, ticks[i]);
        write_line(chart->out, "class=\"axis\"", x, chart->bottom, x, chart->bottom + 4);
        write_text(chart->out, x, chart->bottom + 17, "class=\"tick\" text-anchor=\"middle\"",
                   bench_number(ticks[i], chart->x.decimals, text));
    }
    write_text(chart->out, 4, 14, "class=\"label\"", chart->y_label);
    write_text(chart->out, (chart->left + chart->right) / 2, chart->bottom + TICKS_HEIGHT + 15, "class=\"label\" text-anchor=\"middle\"",
               chart->x_label);
}

static double tick_width(const struct bench_axis *axis)
{
    char low[BENCH_NUMBER_TEXT], high[BENCH_NUMBER_TEXT];
    return fmax(text_width(bench_number(axis->low, axis->decimals, low)), text_width(bench_number(axis->high, axis->decimals, high)));
}

/* ---- the chart ---- */

void bench_chart_begin(struct bench_chart *chart)
{
    char width[BENCH_NUMBER_TEXT], height[BENCH_NUMBER_TEXT];
    chart->left = MARGIN_LEFT + tick_width(&chart->y);
    chart->right = chart->width - MARGIN_RIGHT;
    chart->top = MARGIN_TOP;
    chart->bottom = chart->top + chart->plot_height;
    chart->height = chart->bottom + TICKS_HEIGHT + LABEL_HEIGHT + 12 + legend(chart, true);
    fprintf(chart->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" viewBox=\"0 0 %s %s\" role=\"img\" "
            "aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">",
            chart->id, bench_number_plain(chart->width, 1, width), bench_number_plain(chart->height, 1, height), chart->id, chart->id,
            chart->id);
    bench_markup_text(chart->out, chart->title);
    fprintf(chart->out, "</title>\n<desc id=\"%s-d\">", chart->id);
    bench_markup_text(chart->out, chart->description);
    fputs("</desc>\n", chart->out);
    write_hatching(chart);
    write_axes(chart);
    legend(chart, false);
}

void bench_chart_end(const struct bench_chart *chart)
{
    fputs("</svg>\n", chart->out);
}

void bench_chart_note(const struct bench_chart *chart, const char *text)
{
    write_text(chart->out, (chart->left + chart->right) / 2, (chart->top + chart->bottom) / 2, "class=\"label\" text-anchor=\"middle\"",
               text);
}

static bool drawable(double x, double y)
{
    return isfinite(x) && isfinite(y);
}

void bench_chart_line(const struct bench_chart *chart, const struct bench_xy *points, size_t n, int look, double weight, bool dashed)
{
    bool begun = false, drawn = false;
    for (size_t i = 0; i < n; i++) {
        if (!drawable(points[i].x, points[i].y)) {
            begun = false;
            continue;
        }
        if (!drawn) {
            char text[BENCH_NUMBER_TEXT];
            fprintf(chart->out, "<path class=\"line c%d%s\" stroke-width=\"%s\" d=\"", look_of(look), dashed ? " dashed" : "",
                    bench_number_plain(weight, 1, text));
        }
        position(chart->out, begun ? 'L' : 'M', place_x(chart, points[i].x), place_y(chart, points[i].y));
        begun = drawn = true;
    }
    if (drawn) {
        fputs("\"/>\n", chart->out);
    }
}

static void write_tip(const struct bench_chart *chart, const struct bench_xy *point, const char *name)
{
    char x[BENCH_NUMBER_TEXT], y[BENCH_NUMBER_TEXT];
    fputs("<title>", chart->out);
    if (name) {
        bench_markup_text(chart->out, name);
        fputs(": ", chart->out);
    }
    bench_markup_text(chart->out, chart->y_label);
    fprintf(chart->out, " %s; ", bench_number_short(point->y, y));
    bench_markup_text(chart->out, chart->x_label);
    fprintf(chart->out, " %s</title>", bench_number_short(point->x, x));
}

void bench_chart_points(const struct bench_chart *chart, const struct bench_xy *points, size_t n, int look, double weight, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (!drawable(points[i].x, points[i].y)) {
            continue;
        }
        fputs("<g>", chart->out);
        write_tip(chart, &points[i], name);
        write_dot(chart->out, place_x(chart, points[i].x), place_y(chart, points[i].y), look, weight * DOT);
        fputs("/></g>\n", chart->out);
    }
}

static bool sample_drawable(const double *x, const double *low, const double *high, size_t i)
{
    return drawable(x[i], low[i]) && isfinite(high[i]);
}

/* There along the upper edge, back along the lower one; `nudge` widens the only sample to a column. */
static void write_outline(const struct bench_chart *chart, const double *x, const double *low, const double *high, size_t n, double nudge)
{
    char command = 'M';
    for (size_t i = 0; i < n; i++) {
        if (sample_drawable(x, low, high, i)) {
            position(chart->out, command, place_x(chart, x[i]) - nudge, place_y(chart, high[i]));
            command = 'L';
        }
    }
    for (size_t i = n; i-- > 0;) {
        if (sample_drawable(x, low, high, i)) {
            if (nudge > 0) {
                position(chart->out, 'L', place_x(chart, x[i]) + nudge, place_y(chart, high[i]));
                position(chart->out, 'L', place_x(chart, x[i]) + nudge, place_y(chart, low[i]));
            }
            position(chart->out, 'L', place_x(chart, x[i]) - nudge, place_y(chart, low[i]));
        }
    }
    fputc('Z', chart->out);
}

void bench_chart_area(const struct bench_chart *chart, const double *x, const double *low, const double *high, size_t n, int look)
{
    size_t drawn = 0;
    for (size_t i = 0; i < n; i++) {
        drawn += sample_drawable(x, low, high, i);
    }
    int layers = drawn == 0 ? 0 : has_hatching(chart, look) ? 2 : 1;
    for (int layer = 0; layer < layers; layer++) {
        fputs("<path d=\"", chart->out);
        write_outline(chart, x, low, high, n, drawn == 1 ? 1 : 0);
        if (layer > 0) {
            fprintf(chart->out, "\" fill=\"url(#%s-h%d)\"/>\n", chart->id, look_of(look));
        } else {
            fprintf(chart->out, "\" class=\"area c%d\"/>\n", look_of(look));
        }
    }
}
