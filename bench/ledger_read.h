/* What the bench reads of a runtime's statistics. */
#ifndef HF_BENCH_LEDGER_READ_H
#define HF_BENCH_LEDGER_READ_H

#include "bench/tally.h"

/* Connections held right now, and in *now what there was so far; its time and jobs are the caller's. False: out of memory. */
bool bench_ledger_sample(hf_runtime *runtime, unsigned *held, struct bench_moment *now);
/* The pool's figures and those of each purpose. */
hf_status bench_ledger_read(hf_runtime *runtime, struct bench_part *out, hf_error *err);
/* Takes what had been counted before out of what is counted. */
void bench_ledger_subtract(struct bench_part *part, const struct bench_part *before);
/* Deliveries in work hold their connections for this purpose. */
bool bench_purpose_holds(const char *name);
/* Claims and settles: what jobs wait for. What is asked for once or now and then, like the connection that listens, waits for little but to
 * be opened. */
bool bench_purpose_is_asked_for(const char *name);

/* The purposes of a sample, in its order. */
size_t bench_ledger_purposes(const char *names[BENCH_SERIES_PURPOSES]);
/* Makes one sample of two, returns how many. */
size_t bench_samples_halve(struct bench_sample *samples, size_t n);

#endif
