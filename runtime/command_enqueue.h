/* What the files of `holdfast enqueue` share. */
#ifndef HF_RUNTIME_COMMAND_ENQUEUE_H
#define HF_RUNTIME_COMMAND_ENQUEUE_H

#include "runtime/command_common.h"

#define HF__ENQUEUE_MOST 1000 /* jobs in one hf_enqueue: bounds the memory, and the transaction */

/* Enqueues jobs in one call, and prints their ids unless it is told to be quiet. Where the database cannot tell ids there are none to
 * print, which is said once. */
HF_CHECKED hf_status hf__enqueue_and_print(hf_runtime *runtime, const hf_table *table, const hf_job *jobs, size_t n, bool quiet,
                                           hf_error *err);
/* A job for each line of standard input. Call hf__signals_block before the runtime opens. Returns the exit status. */
int hf__enqueue_lines(hf_runtime *runtime, const hf_table *table, bool quiet);

#endif
