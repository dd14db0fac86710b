/* ctest: timeout=180 labels=e2e
 * The page in headless Chromium: the charts are there and have a size, nothing sticks out of them, nothing overflows a phone's screen,
 * nothing is loaded and nothing complains. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/html.h"
#include "tests/bench_sample.h"
#include "tests/support.h"

enum { PHONE = 390, DESK = 1180 }; /* pixels; as in the wrapper */

/* Measures the page in two frames, one as wide as a phone, and writes what it found into its own document. */
static const char wrapper[] =
    "<!DOCTYPE html><html><head><title>wrapper</title></head><body>"
    "<iframe id=\"phone\" width=\"390\" height=\"800\" src=\"page.html\"></iframe>"
    "<iframe id=\"desk\" width=\"1180\" height=\"800\" src=\"page.html\"></iframe><pre id=\"report\"></pre>\n"
    "<script>addEventListener('load',()=>{const all={};for(const f of document.querySelectorAll('iframe')){"
    "const w=f.contentWindow,d=f.contentDocument;all[f.id]={inner:w.innerWidth,scroll:d.documentElement.scrollWidth,"
    "requests:w.performance.getEntriesByType('resource').length,background:w.getComputedStyle(d.body).backgroundColor,"
    "ink:w.getComputedStyle(d.querySelector('svg text')).fill,"
    "charts:[...d.querySelectorAll('svg')].map(s=>{const "
    "b=s.getBoundingClientRect(),g=s.getBBox(),v=s.viewBox.baseVal;return{"
    "title:s.querySelector('title').textContent,width:b.width,height:b.height,"
    "inside:g.x>=0&&g.y>=0&&g.x+g.width<=v.width+.5&&g.y+g.height<=v.height+.5,"
    "box:[g.x,g.y,g.x+g.width-v.width,g.y+g.height-v.height].map(Math.round).join(' '),"
    "marks:[...s.querySelectorAll('.area,.line,.dot')].filter(m=>{const k=m.getBBox();return "
    "k.width+k.height>0}).length}})}}"
    "document.getElementById('report').textContent='BEGIN'+JSON.stringify(all)+'END'})</script></body></html>\n";

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT(fputs(text, out) >= 0);
    CU_ASSERT_EQUAL_FATAL(fclose(out), 0);
}

static const char *folder(void)
{
    const char *dir = getenv("HF_TEST_SQLITE_DIR");
    if (!dir) {
        hf_test_fail("HF_TEST_SQLITE_DIR is not set: run tests/run.sh");
    }
    const char *path = hf_test_format("%s/%s", dir, hf_test_scratch("browser"));
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    write_file(hf_test_format("%s/wrapper.html", path), wrapper);
    return path;
}

static json_t *report_of(const char *document)
{
    const char *begin = strstr(document, ">BEGIN{"), *end = begin ? strstr(begin, "}END<") : NULL;
    json_t *report = end ? json_loadb(begin + 6, (size_t)(end - begin) - 5, 0, NULL) : NULL;
    if (!report) {
        hf_test_fail("the browser gave no report: %.2000s", document);
    }
    return report;
}

/* Opens DIR/page.html in the colours wanted; the report is owned. */
static json_t *look(const char *dir, bool dark)
{
    const char *argv[] = {"chromium",
                          "--headless=new",
                          "--no-sandbox",
                          "--disable-gpu",
                          "--no-first-run",
                          "--disable-extensions",
                          "--disable-background-networking",
                          "--disable-dev-shm-usage",
                          "--allow-file-access-from-files",
                          "--enable-logging=stderr",
                          "--window-size=1700,1200",
                          "--virtual-time-budget=5000",
                          dark ? "--blink-settings=preferredColorScheme=0" : "--blink-settings=preferredColorScheme=1",
                          hf_test_format("--user-data-dir=%s/profile", dir),
                          "--dump-dom",
                          hf_test_format("file://%s/wrapper.html", dir),
                          NULL};
    struct hf_test_child *browser = hf_test_start(argv, NULL);
    int code = hf_test_wait(browser, 60000);
    if (code != 0) {
        hf_test_fail("chromium, of the Debian package of that name, ended with %d: %.2000s", code, hf_test_stderr(browser));
    }
    const char *complaint = strstr(hf_test_stderr(browser), "CONSOLE");
    if (complaint) {
        hf_test_fail("the console says: %.500s", complaint);
    }
    json_t *report = report_of(hf_test_stdout(browser));
    hf_test_free(browser);
    return report;
}

static double number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    CU_ASSERT_FATAL(json_is_number(value));
    return json_number_value(value);
}

static void check_chart(const json_t *chart, double frame_width, const char *title)
{
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(chart, "title")), title);
    CU_ASSERT(number_of(chart, "width") >= 200 && number_of(chart, "width") < frame_width);
    CU_ASSERT(number_of(chart, "height") >= 150);
    CU_ASSERT(number_of(chart, "marks") >= 2);
    if (!json_is_true(json_object_get(chart, "inside"))) {
        hf_test_fail("something sticks out of \"%s\": left, top, right, bottom: %s", title,
                     json_string_value(json_object_get(chart, "box")));
    }
}

static void check_frame(const json_t *report, const char *name, double width, const char *const *strategies)
{
    const json_t *frame = json_object_get(report, name), *charts = json_object_get(frame, "charts");
    size_t n = 0;
    CU_ASSERT_EQUAL(number_of(frame, "requests"), 0);
    CU_ASSERT(number_of(frame, "inner") <= width);
    if (number_of(frame, "scroll") > number_of(frame, "inner")) {
        hf_test_fail("%s: the page is %g wide on a screen of %g", name, number_of(frame, "scroll"), number_of(frame, "inner"));
    }
    for (; strategies[n]; n++) {
        check_chart(json_array_get(charts, n), width, hf_test_format("Connections in use over time by purpose: %s", strategies[n]));
    }
    check_chart(json_array_get(charts, n), width, "Throughput against pool size");
    check_chart(json_array_get(charts, n + 1), width, "Connections held against handler time: measured, and as the model has it");
    CU_ASSERT_EQUAL(json_array_size(charts), n + 2);
}

static void check_page(const char *dir, const char *const *strategies)
{
    json_t *light = look(dir, false), *dark = look(dir, true);
    check_frame(light, "phone", PHONE, strategies);
    check_frame(light, "desk", DESK, strategies);
    static const char *const colours[] = {"background", "ink"};
    for (size_t i = 0; i < 2; i++) {
        const char *by_day = json_string_value(json_object_get(json_object_get(light, "phone"), colours[i]));
        const char *by_night = json_string_value(json_object_get(json_object_get(dark, "phone"), colours[i]));
        CU_ASSERT_FATAL(by_day && by_night);
        CU_ASSERT_STRING_NOT_EQUAL(by_day, by_night);
    }
    json_decref(light);
    json_decref(dark);
}

static void a_page_of_three_strategies(void)
{
    struct bench_comparison comparison;
    char *why = NULL;
    const char *dir = folder();
    hf_test_comparison(&comparison);
    CU_ASSERT_TRUE_FATAL(bench_html_write(hf_test_format("%s/page.html", dir), &comparison, &why));
    check_page(dir, (const char *const[]){"row lock", "lease", "advisory lock", NULL});
    hf_test_comparison_free(&comparison);
}

static void a_page_of_a_real_run(void)
{
    const char *dir = folder(), *page = hf_test_format("%s/page.html", dir);
    const char *argv[] = {hf_test_program("holdfast-bench"),
                          "compare",
                          "--db",
                          hf_test_sqlite_url(),
                          "--workers",
                          "2",
                          "--jobs",
                          "60",
                          "--handler-ms",
                          "5",
                          "--lease-seconds",
                          "1",
                          "--html",
                          page,
                          NULL};
    hf_test_run(argv, NULL, 90000);
    check_page(dir, (const char *const[]){"lease", "advisory lock", NULL});
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a page of three strategies", a_page_of_three_strategies}, {"a page of a real run", a_page_of_a_real_run}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_browser", tests);
}
