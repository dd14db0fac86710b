/* How far a run is, on a terminal; nothing at all anywhere else. */
#ifndef HF_BENCH_PROGRESS_H
#define HF_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_progress {
    bool shown;       /* stderr is a terminal */
    const char *what; /* "filling", "draining" */
    size_t total;
    int64_t begin_ns, drawn_ns;
};

void bench_progress_begin(struct bench_progress *progress, const char *what, size_t total);
/* Draws when the last time is a moment ago. */
void bench_progress_at(struct bench_progress *progress, size_t done);
void bench_progress_end(struct bench_progress *progress); /* the line is empty again */

#endif
