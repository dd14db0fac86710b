/* ctest: timeout=60
 * The page and its charts: numbers, axes, markup, and what becomes of empty, odd and hostile data. */
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/html.h"
#include "bench/number.h"
#include "bench/svg.h"
#include "tests/bench_sample.h"
#include "tests/markup.h"
#include "tests/support.h"

/* ---- numbers ---- */

static void numbers_are_rounded_and_grouped(void)
{
    char text[BENCH_NUMBER_TEXT];
    CU_ASSERT_STRING_EQUAL(bench_number(1234567.891, 2, text), "1,234,567.89");
    CU_ASSERT_STRING_EQUAL(bench_number(999.999, 2, text), "1,000.00");
    CU_ASSERT_STRING_EQUAL(bench_number(-1234.5, 1, text), "-1,234.5");
    CU_ASSERT_STRING_EQUAL(bench_number(-0.001, 2, text), "0.00");
    CU_ASSERT_STRING_EQUAL(bench_number(0.05, 1, text), "0.1");
    CU_ASSERT_STRING_EQUAL(bench_number(7, 0, text), "7");
    CU_ASSERT_STRING_EQUAL(bench_number(999999999999.0, 2, text), "999,999,999,999.00");
    CU_ASSERT_STRING_EQUAL(bench_number((double)NAN, 2, text), "\xe2\x80\x93");
    CU_ASSERT_STRING_EQUAL(bench_number((double)INFINITY, 2, text), "\xe2\x80\x93");
    CU_ASSERT_STRING_EQUAL(bench_number(1e300, 2, text), "\xe2\x80\x93");
    CU_ASSERT_STRING_EQUAL(bench_number_plain(1234.56, 1, text), "1234.6");
    CU_ASSERT_STRING_EQUAL(bench_number_plain((double)NAN, 1, text), "0.0");
    CU_ASSERT_STRING_EQUAL(bench_number_short(1234.5, text), "1,235");
    CU_ASSERT_STRING_EQUAL(bench_number_short(99.96, text), "100");
    CU_ASSERT_STRING_EQUAL(bench_number_short(56.78, text), "56.8");
    CU_ASSERT_STRING_EQUAL(bench_number_short(9.996, text), "10.0");
    CU_ASSERT_STRING_EQUAL(bench_number_short(0.8914, text), "0.891");
    CU_ASSERT_STRING_EQUAL(bench_number_short(0, text), "0");
}

/* ---- axes ---- */

static void check_linear(double low, double high, double first, double last, size_t n_ticks)
{
    double ticks[32];
    struct bench_axis axis = bench_axis_linear(low, high, 5);
    size_t n = bench_axis_ticks(&axis, ticks, 32);
    CU_ASSERT_EQUAL(n, n_ticks);
    CU_ASSERT_DOUBLE_EQUAL(ticks[0], first, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(ticks[n - 1], last, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(bench_axis_place(&axis, axis.low), 0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(bench_axis_place(&axis, axis.high), 1, 1e-9);
}

static void ticks_are_at_round_numbers(void)
{
    check_linear(0, 8, 0, 8, 5);
    check_linear(0, 381.2, 0, 400, 5);
    check_linear(0, 0.93, 0, 1, 6);
    check_linear(-3, 12, -4, 12, 9);
    check_linear(0, 0, 0, 1, 6);
    check_linear(0, (double)NAN, 0, 1, 6);
    check_linear((double)INFINITY, (double)-INFINITY, 0, 1, 6);
}

static void a_doubling_axis_has_powers_of_two(void)
{
    double ticks[32];
    struct bench_axis axis = bench_axis_doubling(1, 9);
    CU_ASSERT_EQUAL_FATAL(bench_axis_ticks(&axis, ticks, 32), 5);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(ticks[i], exp2((double)i));
    }
    CU_ASSERT_DOUBLE_EQUAL(bench_axis_place(&axis, 4), 0.5, 1e-9);
    CU_ASSERT_EQUAL(bench_axis_place(&axis, 0), 0);
    CU_ASSERT_EQUAL(bench_axis_place(&axis, 1e9), 1);
    axis = bench_axis_doubling(0, (double)NAN);
    CU_ASSERT(axis.high > axis.low && axis.low == 1);
    CU_ASSERT_EQUAL(bench_axis_ticks(&axis, ticks, 1), 1);
}

/* ---- one chart ---- */

enum { N = 5 };

static char *chart_of(const double *x, const struct bench_xy *points, size_t n)
{
    static const struct bench_legend legend[] = {
        {"areas & more", BENCH_MARK_AREA, 1}, {"dots", BENCH_MARK_POINT, 2}, {"a longer word for a line", BENCH_MARK_DASHES, 3}};
    double low[N] = {0}, high[N];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    struct bench_chart chart = {.out = out,
                                .id = "c",
                                .title = "<Title>",
                                .description = "a \"description\"",
                                .x_label = "x",
                                .y_label = "y",
                                .x = bench_axis_linear(0, 4, 4),
                                .y = bench_axis_linear(0, 10, 5),
                                .width = 300,
                                .plot_height = 150,
                                .legend = legend,
                                .n_legend = 3};
    for (size_t i = 0; i < n; i++) {
        high[i] = points[i].y;
    }
    bench_chart_begin(&chart);
    bench_chart_area(&chart, x, low, high, n, 1);
    bench_chart_line(&chart, points, n, 3, 2, true);
    bench_chart_points(&chart, points, n, 2, 1, "it's");
    bench_chart_end(&chart);
    CU_ASSERT_EQUAL_FATAL(fclose(out), 0);
    return text;
}

static void within(const char *at, double limit, const char *text)
{
    char *end = NULL;
    double value = strtod(at, &end);
    if (end == at || value < 0 || value > limit) {
        hf_test_fail("\"%.20s\" lies outside of 0 to %g in:\n%s", at, limit, text);
    }
}

static void attributes_within(const char *text, const char *const *names, double limit)
{
    for (size_t i = 0; names[i]; i++) {
        for (const char *at = strstr(text, names[i]); at; at = strstr(at + 1, names[i])) {
            within(at + strlen(names[i]), limit, text);
        }
    }
}

/* Of a path that is made of M, L and Z alone. */
static void path_within(const char *d, double width, double height, const char *text)
{
    while (*d == 'M' || *d == 'L') {
        within(d + 1, width, text);
        d = strchr(d, ' ') + 1;
        within(d, height, text);
        d += strspn(d, "0123456789.-");
    }
    CU_ASSERT(*d == 'Z' || *d == '"');
}

static void all_within(const char *text)
{
    static const char *const xs[] = {" x=\"", " x1=\"", " x2=\"", " cx=\"", NULL}, *const ys[] = {" y=\"", " y1=\"", " y2=\"", " cy=\"",
                                                                                                  NULL};
    double width = 0, height = 0;
    char *end = NULL;
    const char *box = strstr(text, "viewBox=\"0 0 ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(box);
    width = strtod(box + strlen("viewBox=\"0 0 "), &end);
    height = strtod(end, &end);
    CU_ASSERT_FATAL(width > 0 && height > 0 && *end == '"');
    attributes_within(text, xs, width);
    attributes_within(text, ys, height);
    const char *after = strstr(text, "</defs>");
    CU_ASSERT_PTR_NOT_NULL_FATAL(after);
    for (const char *d = strstr(after, " d=\""); d; d = strstr(d + 1, " d=\"")) {
        path_within(d + 4, width, height, text);
    }
}

static void check_chart(const double *x, const double *y, size_t n, size_t dots, size_t areas, size_t lines)
{
    struct bench_xy points[N];
    for (size_t i = 0; i < n; i++) {
        points[i] = (struct bench_xy){x[i], y[i]};
    }
    char *text = chart_of(x, points, n);
    const char *fault = hf_test_markup_fault(text);
    if (fault) {
        hf_test_fail("%s", fault);
    }
    all_within(text);
    CU_ASSERT_EQUAL(hf_test_occurrences(text, "<g><title>it&#39;s: y "), dots);
    CU_ASSERT_EQUAL(hf_test_occurrences(text, "class=\"area c1\""), areas + 1); /* and the legend's */
    CU_ASSERT_EQUAL(hf_test_occurrences(text, "<path class=\"line c3 dashed\""), lines);
    CU_ASSERT_PTR_NULL(strstr(text, "nan"));
    CU_ASSERT_PTR_NULL(strstr(text, "inf"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ">&lt;Title&gt;</title>"));
    free(text);
}

static void a_chart_takes_any_numbers(void)
{
    const double nan = (double)NAN, inf = (double)INFINITY;
    check_chart((double[]){0, 1, 2, 3, 4}, (double[]){1, 5, 10, 2, 0}, 5, 5, 1, 1);
    check_chart((double[]){0}, (double[]){0}, 0, 0, 0, 0);
    check_chart((double[]){2}, (double[]){3}, 1, 1, 1, 1);
    check_chart((double[]){0, 1, nan, 3, 4}, (double[]){1, nan, 2, inf, 3}, 5, 2, 1, 1);
    check_chart((double[]){nan, nan}, (double[]){1, 1}, 2, 0, 0, 0);
    check_chart((double[]){-100, 1e300, 2}, (double[]){-5, 1e9, 1e300}, 3, 3, 1, 1);
}

static void a_gap_breaks_the_line(void)
{
    const struct bench_xy points[] = {{0, 1}, {1, 2}, {2, (double)NAN}, {3, 3}, {4, 4}};
    char *text = chart_of((double[]){0, 1, 2, 3, 4}, points, 5);
    const char *line = strstr(text, "<path class=\"line c3 dashed\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    char *path = strndup(line, strcspn(line, ">"));
    CU_ASSERT_EQUAL(hf_test_occurrences(path, "M"), 2);
    CU_ASSERT_EQUAL(hf_test_occurrences(path, "L"), 2);
    free(path);
    free(text);
}

/* ---- the page ---- */

static char *sample_page(const struct bench_comparison *comparison)
{
    char *page = hf_test_page_of(bench_html_page, comparison);
    const char *fault = hf_test_markup_fault(page);
    if (fault) {
        hf_test_fail("%s", fault);
    }
    return page;
}

static void needs_nothing_else(const char *page)
{
    CU_ASSERT_PTR_NULL(strstr(page, "<script"));
    CU_ASSERT_PTR_NULL(strstr(page, " src="));
    CU_ASSERT_PTR_NULL(strstr(page, "@import"));
    CU_ASSERT_PTR_NULL(strstr(page, "url(http"));
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "http"), 1 + hf_test_occurrences(page, "<svg xmlns=\"http")); /* names of namespaces */
    CU_ASSERT_EQUAL(hf_test_occurrences(page, " href="), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "href=\"data:,\"")); /* else browsers ask for an icon */
}

static void the_page_is_whole(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    char *page = sample_page(&comparison);
    needs_nothing_else(page);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<svg "), 5);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<figcaption>"), 5);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<title id="), 5);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<desc id="), 5);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<section class=\"card "), 3);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, "<h1>"), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "name=\"viewport\" content=\"width=device-width"));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "name=\"color-scheme\" content=\"light dark\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "prefers-color-scheme:dark"));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "<code>holdfast-bench compare --db postgresql://app:***@db.example/jobs"));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "2 cores, 4 GB, Linux 6.1.0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "PostgreSQL 15.14"));
    free(page);
    hf_test_comparison_free(&comparison);
}

static void points_and_lines_are_all_there(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    char *throughput = hf_test_page_of(bench_html_throughput, &comparison), *held = hf_test_page_of(bench_html_held, &comparison);
    CU_ASSERT_EQUAL(hf_test_occurrences(throughput, "<g><title>"), 15);
    CU_ASSERT_EQUAL(hf_test_occurrences(throughput, "<path class=\"line "), 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(throughput, "<title>lease: jobs per second 381; pool size, connections 4.00</title>"));
    CU_ASSERT_EQUAL(hf_test_occurrences(held, "<g><title>"), 15);
    CU_ASSERT_EQUAL(hf_test_occurrences(held, "<path class=\"line "), 3);
    free(throughput);
    free(held);
    hf_test_comparison_free(&comparison);
}

static void panels_have_the_same_scales(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    char *panels = hf_test_page_of(bench_html_timelines, &comparison);
    CU_ASSERT_EQUAL(hf_test_occurrences(panels, ">10</text>"), 6); /* seconds and connections, of three */
    CU_ASSERT_EQUAL(hf_test_occurrences(panels, ">holding a row lock</text>"), 1);
    CU_ASSERT_EQUAL(hf_test_occurrences(panels, ">holding an advisory lock</text>"), 1);
    CU_ASSERT_EQUAL(hf_test_occurrences(panels, ">claiming</text>"), 3);
    CU_ASSERT_EQUAL(hf_test_occurrences(panels, ">renewing leases</text>"), 1);
    free(panels);
    hf_test_comparison_free(&comparison);
}

static void hostile_text_stays_text(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    snprintf(comparison.of[0].result.server_version, sizeof comparison.of[0].result.server_version, "<script>alert(1)</script>&\x01'\"");
    free(comparison.command_line);
    comparison.command_line = strdup("holdfast-bench compare --db 'sqlite:</code><img alt=x>'");
    char *page = sample_page(&comparison);
    needs_nothing_else(page);
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&#39;&quot;"));
    free(page);
    hf_test_comparison_free(&comparison);
}

static void a_page_without_data_says_so(void)
{
    static struct bench_comparison comparison; /* large */
    comparison = (struct bench_comparison){.n = 2};
    comparison.of[0].result.crash_ms = comparison.of[1].result.crash_ms = -1;
    comparison.of[1].result.strategy = HF_LEASE;
    comparison.of[1].result.seconds_per_job = (double)NAN;
    char *page = sample_page(&comparison);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, ">no samples: the run was too short<"), 2);
    CU_ASSERT_EQUAL(hf_test_occurrences(page, ">not measured<"), 2);
    CU_ASSERT_PTR_NULL(strstr(page, "nan"));
    free(page);
}

/* ---- the file ---- */

static const char *folder(void)
{
    const char *path = hf_test_format("/tmp/%s", hf_test_scratch("hf_html"));
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    return path;
}

static size_t entries(const char *path)
{
    glob_t found;
    int code = glob(hf_test_format("%s/*", path), 0, NULL, &found);
    CU_ASSERT_FATAL(code == 0 || code == GLOB_NOMATCH);
    size_t n = code == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static void the_file_is_replaced_whole(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    const char *dir = folder(), *path = hf_test_format("%s/page.html", dir);
    char *why = NULL;
    struct stat before, after;
    CU_ASSERT_TRUE_FATAL(bench_html_write(path, &comparison, &why));
    CU_ASSERT_EQUAL_FATAL(stat(path, &before), 0);
    CU_ASSERT_TRUE_FATAL(bench_html_write(path, &comparison, &why));
    CU_ASSERT_EQUAL_FATAL(stat(path, &after), 0);
    CU_ASSERT_NOT_EQUAL(before.st_ino, after.st_ino);
    CU_ASSERT_EQUAL(before.st_size, after.st_size);
    mode_t mask = umask(0);
    umask(mask);
    CU_ASSERT_EQUAL(after.st_mode & 0777, 0666 & ~mask);
    CU_ASSERT_EQUAL(entries(dir), 1);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
    hf_test_comparison_free(&comparison);
}

static void a_failure_leaves_nothing_behind(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    const char *dir = folder(), *taken = hf_test_format("%s/taken", dir);
    char *why = NULL;
    CU_ASSERT_EQUAL_FATAL(mkdir(taken, 0700), 0);
    CU_ASSERT_FALSE(bench_html_write(taken, &comparison, &why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(why);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, taken));
    CU_ASSERT_EQUAL(entries(dir), 1);
    free(why);
    CU_ASSERT_FALSE(bench_html_writable(taken, &why));
    free(why);
    CU_ASSERT_FALSE(bench_html_writable(hf_test_format("%s/missing/page.html", dir), &why));
    free(why);
    CU_ASSERT_TRUE(bench_html_writable(hf_test_format("%s/page.html", dir), &why));
    CU_ASSERT_EQUAL(entries(dir), 1);
    CU_ASSERT_FALSE(bench_html_write(hf_test_format("%s/missing/page.html", dir), &comparison, &why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(why);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "No such file"));
    free(why);
    CU_ASSERT_EQUAL(rmdir(taken), 0);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
    hf_test_comparison_free(&comparison);
}

static void refuses(const char *path, const struct bench_comparison *comparison, mode_t kind)
{
    char *why = NULL;
    struct stat there;
    CU_ASSERT_FALSE(bench_html_writable(path, &why));
    CU_ASSERT(why && strstr(why, "no regular file"));
    free(why);
    CU_ASSERT_FALSE(bench_html_write(path, comparison, &why));
    CU_ASSERT(why && strstr(why, "no regular file"));
    free(why);
    CU_ASSERT(lstat(path, &there) == 0 && (there.st_mode & S_IFMT) == kind);
}

/* A pipe, a link, and for root a device, would be gone, and a file in its place. */
static void only_a_file_is_replaced(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    const char *dir = folder(), *pipe = hf_test_format("%s/pipe", dir), *link = hf_test_format("%s/link", dir);
    CU_ASSERT_EQUAL_FATAL(mkfifo(pipe, 0600), 0);
    CU_ASSERT_EQUAL_FATAL(symlink("elsewhere.html", link), 0);
    refuses(pipe, &comparison, S_IFIFO);
    refuses(link, &comparison, S_IFLNK);
    CU_ASSERT_EQUAL(entries(dir), 2);
    CU_ASSERT_EQUAL(unlink(pipe), 0);
    CU_ASSERT_EQUAL(unlink(link), 0);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
    hf_test_comparison_free(&comparison);
}

/* ---- the table ---- */

static char *table_of(const struct bench_comparison *comparison)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    bench_comparison_print(out, comparison);
    CU_ASSERT_EQUAL_FATAL(fclose(out), 0);
    return text;
}

static void the_table_fits_a_terminal(void)
{
    struct bench_comparison comparison;
    hf_test_comparison(&comparison);
    char *table = table_of(&comparison);
    for (const char *line = table; *line; line += strcspn(line, "\n") + 1) {
        CU_ASSERT(strcspn(line, "\n") <= 100);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(table, "row lock             lease     advisory lock\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(table, "connections held per delivery                           1.00                 0              1.00\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(table, "most connections in use                                    8                 3                 8\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(table, "\n  row_lock, ms                                          21.3                 0                 0\n"));
    CU_ASSERT_PTR_NULL(strstr(table, "lost"));
    CU_ASSERT_PTR_NULL(strstr(table, "processes"));
    comparison.of[0].result.processes = 3;
    comparison.of[0].result.batch = 5;
    char *fleet = table_of(&comparison);
    CU_ASSERT_PTR_NOT_NULL(strstr(fleet, " workers in each of 3 processes, batches of up to 5, handlers of "));
    free(fleet);
    comparison.of[1].result.lost = 2;
    comparison.of[0].result.crash_ms = -1;
    char *faulty = table_of(&comparison);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(faulty, "jobs lost                                                  0                 2                 0\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(faulty, "runs again after, s                    \xe2\x80\x93              30.0"));
    free(faulty);
    free(table);
    hf_test_comparison_free(&comparison);
}

static void the_best_is_marked_where_they_differ(void)
{
    struct bench_comparison comparison;
    size_t n = 0;
    hf_test_comparison(&comparison);
    struct bench_measure *measures = bench_measures(&comparison, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(measures);
    CU_ASSERT_STRING_EQUAL(measures[0].name, "jobs per second");
    CU_ASSERT(!measures[0].best[0] && measures[0].best[1] && !measures[0].best[2]);
    CU_ASSERT_STRING_EQUAL(measures[2].name, "connections held per delivery");
    CU_ASSERT(!measures[2].best[0] && measures[2].best[1] && !measures[2].best[2]);
    for (size_t i = 0; i < n; i++) {
        bool settled = strncmp(measures[i].name, "begun", 5) == 0;
        CU_ASSERT(!settled || (!measures[i].best[0] && !measures[i].best[1]));
    }
    free(measures);
    hf_test_comparison_free(&comparison);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"numbers are rounded and grouped", numbers_are_rounded_and_grouped},
                           {"ticks are at round numbers", ticks_are_at_round_numbers},
                           {"a doubling axis has powers of two", a_doubling_axis_has_powers_of_two},
                           {"a chart takes any numbers", a_chart_takes_any_numbers},
                           {"a gap breaks the line", a_gap_breaks_the_line},
                           {"the page is whole", the_page_is_whole},
                           {"points and lines are all there", points_and_lines_are_all_there},
                           {"panels have the same scales", panels_have_the_same_scales},
                           {"hostile text stays text", hostile_text_stays_text},
                           {"a page without data says so", a_page_without_data_says_so},
                           {"the file is replaced whole", the_file_is_replaced_whole},
                           {"a failure leaves nothing behind", a_failure_leaves_nothing_behind},
                           {"only a file is replaced", only_a_file_is_replaced},
                           {"the table fits a terminal", the_table_fits_a_terminal},
                           {"the best is marked where they differ", the_best_is_marked_where_they_differ},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_html", tests);
}
