/* Ctrl-C and SIGTERM as something to wait for, so that a run can end in order. */
#ifndef HF_BENCH_INTERRUPT_H
#define HF_BENCH_INTERRUPT_H

#include <holdfast.h>

/* From now on the first SIGINT, SIGTERM or SIGHUP only makes the descriptor readable; the second of a kind does what it did before.
 * Counted: each call that succeeds wants its end. Threads: by the first thread, while it is the only one. */
hf_status bench_interrupt_begin(hf_error *err);
void bench_interrupt_end(void);
int bench_interrupt_fd(void);    /* never read; -1 outside of begin and end */
bool bench_interrupt_came(void); /* since the first begin; stays */

#endif
