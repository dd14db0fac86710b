#include "bench/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/deadline.h"
#include "runtime/command_common.h"

enum { WIDTH = 30, REDRAW_MS = 200 };

void bench_progress_begin(struct bench_progress *progress, const char *what, size_t total)
{
    const char *term = getenv("TERM");
    bool can = isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0);
    *progress = (struct bench_progress){.shown = can, .what = what, .total = total, .begin_ns = hf__monotonic_ns()};
}

static void draw(const struct bench_progress *progress, size_t done, double seconds)
{
    char bar[WIDTH + 1], count[HF__NUMBER_TEXT], total[HF__NUMBER_TEXT], rate[HF__NUMBER_TEXT];
    double share = progress->total > 0 ? (double)done / (double)progress->total : 1;
    double per_second = seconds > 0 ? (double)done / seconds : 0;
    size_t full = (size_t)(share * WIDTH);
    memset(bar, '.', WIDTH);
    memset(bar, '#', full < WIDTH ? full : WIDTH);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r\033[K%s [%s] %s of %s, %s/s", progress->what, bar, hf__number_text(done, count),
            hf__number_text(progress->total, total), hf__number_text((uint64_t)per_second, rate));
    if (per_second > 0)
        fprintf(stderr, ", %.0f s left", (double)(progress->total - done) / per_second);
    fflush(stderr);
}

void bench_progress_at(struct bench_progress *progress, size_t done)
{
    int64_t now_ns = hf__monotonic_ns();
    if (!progress->shown || now_ns < progress->drawn_ns + REDRAW_MS * INT64_C(1000000))
        return;
    progress->drawn_ns = now_ns;
    draw(progress, done < progress->total ? done : progress->total, (double)(now_ns - progress->begin_ns) / 1e9);
}

void bench_progress_end(struct bench_progress *progress)
{
    if (progress->shown && progress->drawn_ns > 0)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
