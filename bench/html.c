/* A comparison as one page. Well-formed as XML too, so that any checker of markup can read it. */
#include "bench/html.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/number.h"

/* ---- style ---- */

static const char style_colours[] =
    ":root{color-scheme:light dark;--page:#fbfaf8;--card:#fff;--ink:#1d2126;--soft:#5b636d;--rule:#e3e0da;--grid:#eceae5;--hatch:#fff;"
    "--c0:#2a6bb8;--c1:#c9600c;--c2:#16805f;--c3:#8e4a94;--c4:#a17a00;--c5:#b53c42;--c6:#20819a;--c7:#646c78}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#14171b;--card:#1b1f24;--ink:#e8eaed;--soft:#a2abb6;--rule:#30363d;--grid:#2a3037;"
    "--hatch:#1b1f24;--c0:#6cabf0;--c1:#f09a4d;--c2:#4cc49c;--c3:#cf94d4;--c4:#dcb93f;--c5:#f08585;--c6:#62c4dc;--c7:#a7b0bc}}\n"
    ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}"
    ".c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}\n";

static const char style_charts[] =
    "svg{display:block;width:100%;height:auto;overflow:hidden}\n"
    "svg text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;fill:var(--ink)}\n"
    "svg .tick{fill:var(--soft);font-variant-numeric:tabular-nums}svg .label{fill:var(--soft)}\n"
    ".axis{stroke:var(--soft);stroke-width:1}.grid{stroke:var(--grid);stroke-width:1}\n"
    ".area{fill:currentColor;stroke:currentColor;stroke-width:.4}.hatch{fill:none;stroke:var(--hatch);stroke-width:1.3;opacity:.6}\n"
    ".line{fill:none;stroke:currentColor;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}\n"
    ".dot{fill:currentColor;stroke:var(--card);stroke-width:1.2}\n";

static const char style_page[] =
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,"
    "\"DejaVu Sans\",sans-serif;-webkit-text-size-adjust:100%}\n"
    "main{max-width:70rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\n"
    "h1{font-size:clamp(1.6rem,4.5vw,2.3rem);line-height:1.15;letter-spacing:-.02em;margin:0 0 .6rem}\n"
    "h2{font-size:1.25rem;letter-spacing:-.01em;margin:3rem 0 .4rem}p{margin:.3rem 0 1rem;max-width:46rem}.soft{color:var(--soft)}\n"
    ".cards,.panels,.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr))}\n"
    ".charts{grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}\n"
    ".card,figure,.scroll{background:var(--card);border:1px solid var(--rule);border-radius:10px}\n"
    ".card{padding:1rem 1.15rem 1.1rem;border-top:4px solid currentColor}.card>*{color:var(--ink)}\n"
    ".card h3{margin:0;font-size:1rem}.card .big{font-size:2.3rem;font-weight:650;line-height:1.2;letter-spacing:-.03em;margin:.3rem 0 0}\n"
    ".card p{margin:0}.card p+p+p{margin-top:.7rem}.card .soft{color:var(--soft);font-size:.9rem}\n"
    "figure{margin:0;padding:.9rem .9rem .6rem;min-width:0}figcaption{font-weight:600;margin:0 0 .5rem .2rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.42rem 1.1rem;text-align:right;border-top:1px solid var(--grid);font-weight:400;width:19%}\n"
    "thead th{border-top:0;font-weight:600;padding-top:.7rem;padding-bottom:.6rem}tbody tr:last-child>*{padding-bottom:.7rem}\n"
    "th:first-child{text-align:left;width:auto}tr.part th:first-child{padding-left:2.2rem}\n"
    "tr.part>*{color:var(--soft);font-size:.92rem;border-top:0;padding-top:.1rem;padding-bottom:.2rem}\n"
    "td b{font-weight:700}small{color:var(--soft);font-size:.82em}\n"
    "dl{display:grid;grid-template-columns:minmax(7rem,max-content) minmax(0,1fr);gap:.35rem 1.2rem;margin:.6rem 0}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}code{font:.92em ui-monospace,\"DejaVu Sans Mono\",monospace}\n"
    "@media(max-width:34rem){main{padding:1.5rem .9rem 3rem}table{font-size:.88rem}th,td{padding-left:.3rem;padding-right:.6rem}"
    "th:first-child{padding-left:.7rem}tr.part "
    "th:first-child{padding-left:1.2rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}figure{padding:.8rem .5rem .5rem}}\n"
    "@media print{body{background:#fff}figure,.card,tr{break-inside:avoid}}\n";

/* ---- parts ---- */

static void begin_page(FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<meta name=\"color-scheme\" content=\"light dark\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n"
          "<title>holdfast-bench: what each strategy costs in connections</title>\n<style>\n",
          out);
    fputs(style_colours, out);
    fputs(style_charts, out);
    fputs(style_page, out);
    fputs("</style>\n</head>\n<body>\n<main>\n", out);
}

static void write_workload(FILE *out, const struct bench_comparison *comparison)
{
    char text[BENCH_NUMBER_TEXT];
    const struct bench_result *result = &comparison->of[0].result;
    fputs("<header>\n<h1>What each strategy costs in connections</h1>\n<p class=\"soft\">", out);
    bench_markup_text(out, result->database);
    fputc(' ', out);
    bench_markup_text(out, result->server_version);
    fprintf(out, ", %s jobs, ", bench_number((double)result->jobs, 0, text));
    fprintf(out, "%zu %s", result->workers, result->workers == 1 ? "worker" : "workers");
    if (result->processes > 1) {
        fprintf(out, " in each of %zu processes", result->processes);
    }
    if (result->batch > 1) {
        fprintf(out, ", batches of up to %zu", result->batch);
    }
    fputs(", handlers of ", out);
    bench_markup_text(out, result->handler ? result->handler : "0");
    fputs(" ms, ", out);
    if (comparison->rate > 0) {
        fprintf(out, "%s jobs arriving a second.", bench_number_short(comparison->rate, text));
    } else {
        fputs("a filled table.", out);
    }
    fputs("</p>\n</header>\n", out);
}

static void write_card(FILE *out, const struct bench_result *result)
{
    char text[BENCH_NUMBER_TEXT];
    int look = result->strategy == HF_ROW_LOCK ? 1 : result->strategy == HF_LEASE ? 0 : 2;
    fprintf(out, "<section class=\"card c%d\">\n<h3>%s</h3>\n<p class=\"big\">%s</p>\n", look, bench_strategy_words(result->strategy),
            bench_number(result->held_per_delivery, 2, text));
    fputs("<p class=\"soft\">connections held by each delivery while its handler runs</p>\n", out);
    fprintf(out, "<p>%s jobs/s with at most ", bench_number_short(result->jobs_per_second, text));
    fprintf(out, "%zu %s in use", result->peak_in_use, result->peak_in_use == 1 ? "connection" : "connections");
    if (result->crash_ms >= 0) {
        fprintf(out, "; the row of a killed worker runs again after %s s", bench_number_short(result->crash_ms / 1000, text));
    }
    fputs(".</p>\n</section>\n", out);
}

static void write_row(FILE *out, const struct bench_measure *measure, size_t n)
{
    fputs(measure->part ? "<tr class=\"part\"><th scope=\"row\">" : "<tr><th scope=\"row\">", out);
    bench_markup_text(out, measure->name);
    if (*measure->unit) {
        fprintf(out, " <small>%s</small>", measure->unit);
    }
    fputs("</th>", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, measure->best[i] ? "<td><b>%s</b></td>" : "<td>%s</td>", measure->text[i]);
    }
    fputs("</tr>\n", out);
}

static bool write_table(FILE *out, const struct bench_comparison *comparison)
{
    size_t n = 0;
    struct bench_measure *measures = bench_measures(comparison, &n);
    if (!measures) {
        return false;
    }
    fputs("<h2 id=\"side\">Side by side</h2>\n<p class=\"soft\">Bold: the best of a line, where they differ. A connection's time for each "
          "job says how many jobs a pool carries; it is split by what the connection was out for.</p>\n"
          "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"side\">\n<table>\n<thead><tr><th "
          "scope=\"col\">measured</th>",
          out);
    for (size_t i = 0; i < comparison->n; i++) {
        fprintf(out, "<th scope=\"col\">%s</th>", bench_strategy_words(comparison->of[i].result.strategy));
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < n; i++) {
        write_row(out, &measures[i], comparison->n);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
    free(measures);
    return true;
}

static bool write_charts(FILE *out, const struct bench_comparison *comparison)
{
    char text[BENCH_NUMBER_TEXT];
    fputs(
        "<h2>Connections in use over time</h2>\n<p class=\"soft\">What the ledger says each connection was out for, on the same scales. "
        "Each step is a mean: over about a hundredth of the longest run, but over ten milliseconds at least.</p>\n<div class=\"panels\">\n",
        out);
    bool done = bench_html_timelines(out, comparison);
    fputs("</div>\n<h2>What a pool buys, and what handlers hold</h2>\n<p class=\"soft\">Throughput: the same work on pools of other sizes, "
          "without the first and the last moments of each run. "
          "Held connections: ",
          out);
    if (comparison->scan_rate > 0) {
        fprintf(out, "%s jobs a second arrive, whatever their handlers take; ", bench_number_short(comparison->scan_rate, text));
    }
    fputs("the lines are what the capacity model says, the dots what was measured.</p>\n<div class=\"charts\">\n", out);
    done = done && bench_html_throughput(out, comparison) && bench_html_held(out, comparison);
    fputs("</div>\n", out);
    return done;
}

static void write_fact(FILE *out, const char *name, const char *value, bool code)
{
    if (value && *value) {
        fprintf(out, "<dt>%s</dt><dd>%s", name, code ? "<code>" : "");
        bench_markup_text(out, value);
        fprintf(out, "%s</dd>\n", code ? "</code>" : "");
    }
}

static void write_making(FILE *out, const struct bench_comparison *comparison)
{
    char text[BENCH_NUMBER_TEXT];
    fputs("<h2>How it was made</h2>\n<dl>\n", out);
    write_fact(out, "command", comparison->command_line, true);
    fputs("<dt>server</dt><dd>", out);
    bench_markup_text(out, comparison->of[0].result.database);
    fputc(' ', out);
    bench_markup_text(out, comparison->of[0].result.server_version);
    fputs("</dd>\n", out);
    write_fact(out, "machine", comparison->machine, false);
    write_fact(out, "date", comparison->date, false);
    fprintf(out, "<dt>took</dt><dd>%s s</dd>\n", bench_number_short(comparison->seconds, text));
    fputs("<dt>crash</dt><dd>A worker process is killed (SIGKILL) while its handler runs; the time is that until another worker, started "
          "at once, runs the row",
          out);
    fprintf(out, ". Leases last %u s here.</dd>\n", comparison->lease_seconds);
    fprintf(out, "<dt>program</dt><dd>holdfast-bench %s</dd>\n</dl>\n</main>\n</body>\n</html>\n", hf_version());
}

bool bench_html_page(FILE *out, const struct bench_comparison *comparison)
{
    begin_page(out);
    write_workload(out, comparison);
    fputs("<div class=\"cards\">\n", out);
    for (size_t i = 0; i < comparison->n; i++) {
        write_card(out, &comparison->of[i].result);
    }
    fputs("</div>\n", out);
    bool done = write_table(out, comparison) && write_charts(out, comparison);
    write_making(out, comparison);
    return done;
}

/* ---- the file ---- */

/* mkstemp makes files that nobody else reads; a report is an ordinary file. */
static FILE *open_beside(const char *path, char **name)
{
    *name = NULL;
    if (asprintf(name, "%s.XXXXXX", path) < 0) {
        *name = NULL;
        errno = ENOMEM;
        return NULL;
    }
    int fd = mkostemp(*name, O_CLOEXEC);
    if (fd < 0) {
        free(*name);
        *name = NULL;
        return NULL;
    }
    mode_t mask = umask(0);
    umask(mask);
    FILE *out = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return out;
}

static bool write_and_close(FILE *out, const struct bench_comparison *comparison)
{
    errno = 0;
    bool written = bench_html_page(out, comparison);
    if (!written) {
        errno = ENOMEM;
    }
    written = written && fflush(out) == 0 && !ferror(out);
    int error = errno;
    if (fclose(out) != 0 && written) {
        return false;
    }
    errno = error;
    return written;
}

/* Returns false. */
static bool refuse_for(const char *path, const char *reason, char **why)
{
    if (asprintf(why, "the page cannot be written to %s: %s", path, reason) < 0) {
        *why = NULL;
    }
    return false;
}

/* errno says why. Returns false. */
static bool refuse(const char *path, char **why)
{
    return refuse_for(path, strerror(errno), why);
}

/* The page takes the place of what is there: of a page of before, but not of a device, a pipe, or a link to somewhere else. */
static bool may_replace(const char *path, char **why)
{
    struct stat there;
    if (lstat(path, &there) != 0 || S_ISREG(there.st_mode)) {
        return true;
    }
    return refuse_for(path, S_ISDIR(there.st_mode) ? strerror(EISDIR) : "it is no regular file", why);
}

bool bench_html_writable(const char *path, char **why)
{
    char *name = NULL;
    *why = NULL;
    if (!may_replace(path, why)) {
        return false;
    }
    FILE *out = open_beside(path, &name);
    bool writable = out || refuse(path, why);
    if (out) {
        fclose(out);
    }
    if (name) {
        unlink(name);
    }
    free(name);
    return writable;
}

bool bench_html_write(const char *path, const struct bench_comparison *comparison, char **why)
{
    char *name = NULL;
    *why = NULL;
    if (!may_replace(path, why)) {
        return false;
    }
    FILE *out = open_beside(path, &name);
    bool written = out && write_and_close(out, comparison) && rename(name, path) == 0;
    if (!written) {
        refuse(path, why);
        if (name) {
            unlink(name);
        }
    }
    free(name);
    return written;
}
