/* A comparison as one page: no script, nothing from the network, for wide screens and phones, light and dark. */
#ifndef HF_BENCH_HTML_H
#define HF_BENCH_HTML_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/compare.h"

/* The page, onto out. False: out of memory. Errors of out are the caller's to see. */
bool bench_html_page(FILE *out, const struct bench_comparison *comparison);

/* The page in a file, which is put in the place of an older one only when it is whole. False, with an owned sentence in *why (free; NULL:
 * out of memory). */
bool bench_html_write(const char *path, const struct bench_comparison *comparison, char **why);

/* Whether it could be written, to be asked before minutes of measuring. False as above. */
bool bench_html_writable(const char *path, char **why);

/* The charts, one figure element each. */
bool bench_html_timelines(FILE *out, const struct bench_comparison *comparison);
bool bench_html_throughput(FILE *out, const struct bench_comparison *comparison);
bool bench_html_held(FILE *out, const struct bench_comparison *comparison);

#endif
