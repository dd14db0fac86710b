/* Every strategy that the database offers, side by side. */
#include "bench/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/crash.h"
#include "bench/html.h"
#include "bench/interrupt.h"
#include "bench/offered.h"
#include "bench/run.h"
#include "bench/scan.h"
#include "pool/deadline.h"
#include "runtime/command_common.h"

/* ---- how it was made ---- */

static void write_argument(FILE *out, const char *argument)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_*";
    if (*argument && argument[strspn(argument, plain)] == '\0') {
        fprintf(out, " %s", argument);
        return;
    }
    fputs(" '", out);
    for (; *argument; argument++) {
        if (*argument == '\'')
            fputs("'\\''", out);
        else
            fputc(*argument, out);
    }
    fputc('\'', out);
}

/* As it can be typed again. Passwords have been blanked out of argv when the program began. */
static char *command_line(int argc, char **argv)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "%s compare", hf__program);
    for (int i = 1; i < argc; i++)
        write_argument(out, argv[i]);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static char *machine(void)
{
    struct utsname name = {0};
    char *text = NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double gib = (double)pages * (double)page / (1024.0 * 1024 * 1024);
    if (uname(&name) != 0)
        return strdup("unknown");
    int len = asprintf(&text, "%ld %s, %.0f GiB of memory, %s %s on %s", cores, cores == 1 ? "core" : "cores", gib, name.sysname,
                       name.release, name.machine);
    return len < 0 ? NULL : text;
}

static char *date(void)
{
    struct tm parts = {0};
    time_t now = time(NULL);
    char text[64] = "";
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
    return strdup(text);
}

static bool describe(struct bench_comparison *comparison, const struct bench_options *options, int argc, char **argv)
{
    comparison->rate = options->rate;
    comparison->lease_seconds = options->lease_seconds;
    comparison->command_line = command_line(argc, argv);
    comparison->machine = machine();
    comparison->date = date();
    return comparison->command_line && comparison->machine && comparison->date;
}

/* ---- what it does, for those who wait ---- */

static void tell(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "%s: %s\n", hf__program, what);
}

/* ---- runs ---- */

static bool left_out(const struct bench_options *options, hf_status status, const hf_error *err)
{
    return bench_left_out(options, bench_strategy_words(options->strategy), status, err);
}

/* The runs of all strategies; a strategy whose run was interrupted still counts. */
static hf_status run_all(struct bench_options *options, struct bench_comparison *comparison, hf_error *err)
{
    hf_strategy strategies[BENCH_STRATEGIES] = {options->strategy};
    size_t n = options->has_strategy ? 1 : bench_strategies(options->url, strategies);
    hf_status status = HF_OK;
    for (size_t i = 0; i < n && (status == HF_OK || left_out(options, status, err)); i++) {
        struct bench_result *result = &comparison->of[comparison->n].result;
        options->strategy = strategies[i];
        tell(bench_strategy_words(strategies[i]));
        status = bench_run(options, result, err);
        if (status == HF_UNSUPPORTED)
            bench_result_free(result); /* its place is the next one's */
        result->crash_ms = -1;
        comparison->n += status == HF_OK || (status == HF_STOPPED && result->done > 0);
    }
    return comparison->n > 0 && left_out(options, status, err) ? HF_OK : status;
}

static hf_status crash_all(struct bench_options *options, struct bench_comparison *comparison, hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < comparison->n && status == HF_OK; i++) {
        options->strategy = comparison->of[i].result.strategy;
        status = bench_crash(options, &comparison->of[i].result.crash_ms, err);
    }
    return status;
}

static hf_status measure(struct bench_options *options, struct bench_comparison *comparison, hf_error *err)
{
    int64_t begun_ns = hf__monotonic_ns();
    hf_status status = bench_interrupt_begin(err);
    if (status != HF_OK)
        return status;
    if (options->html)
        tell("with --jobs as it is by default, a page takes between two and three minutes");
    status = run_all(options, comparison, err);
    if (status == HF_OK) {
        tell("what a crash costs: killing a worker of each strategy");
        status = crash_all(options, comparison, err);
    }
    if (status == HF_OK && options->html) {
        tell("for the plots: short runs with pools of other sizes");
        status = bench_scan_pools(options, comparison, err);
    }
    if (status == HF_OK && options->html) {
        tell("for the plots: the database's speed, then short runs with handlers of other times");
        status = bench_scan_handlers(options, comparison, err);
    }
    bench_interrupt_end();
    comparison->seconds = (double)(hf__monotonic_ns() - begun_ns) / 1e9;
    return status;
}

/* ---- what came of it ---- */

static json_t *to_json(const struct bench_comparison *comparison)
{
    json_t *list = json_array();
    for (size_t i = 0; i < comparison->n; i++) {
        const struct bench_result *result = &comparison->of[i].result;
        json_t *object = bench_result_json(result);
        json_t *crash = result->crash_ms < 0 ? json_null() : json_real(result->crash_ms);
        if (json_object_set_new(object, "crash_ms", crash) != 0 || json_array_append(list, object) != 0) {
            json_decref(object);
            json_decref(list);
            return NULL;
        }
        json_decref(object);
    }
    return list;
}

static int show(const struct bench_options *options, const struct bench_comparison *comparison)
{
    int code = HF__EXIT_DONE;
    if (options->json)
        code = hf__command_print_json(to_json(comparison));
    else
        bench_comparison_print(stdout, comparison);
    char *why = NULL;
    if (options->html && comparison->n > 0 && !bench_html_write(options->html, comparison, &why))
        code = hf__command_fail_text("%s", why ? why : "out of memory");
    free(why);
    return code;
}

static bool all_right(const struct bench_comparison *comparison)
{
    bool right = true;
    for (size_t i = 0; i < comparison->n; i++)
        right = right && bench_result_right(&comparison->of[i].result);
    return right;
}

static int compare(struct bench_options *options, struct bench_comparison *comparison)
{
    hf_error err = {.status = HF_OK};
    char *why = NULL;
    if (options->html && !bench_html_writable(options->html, &why)) {
        int failed = hf__command_fail_text("%s", why ? why : "out of memory");
        free(why);
        return failed;
    }
    hf_status status = measure(options, comparison, &err);
    int code = show(options, comparison);
    if (status != HF_OK)
        code = hf__command_fail(&err);
    else if (!all_right(comparison))
        code = hf__command_fail_text("jobs were lost, run twice or not settled");
    return code;
}

int bench_command_compare(int argc, char **argv)
{
    struct bench_options options = {.url = NULL};
    struct bench_comparison *comparison = calloc(1, sizeof *comparison);
    bench_options_parse(BENCH_OPTIONS_COMPARE, "compare", argc, argv, &options);
    if (options.workers == 0)
        options.workers = 4;
    int code =
        comparison && describe(comparison, &options, argc, argv) ? compare(&options, comparison) : hf__command_fail_text("out of memory");
    if (comparison)
        bench_comparison_free(comparison);
    free(comparison);
    bench_options_free(&options);
    int flushed = hf__command_flush();
    return code != HF__EXIT_DONE ? code : flushed;
}
