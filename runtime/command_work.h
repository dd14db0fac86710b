/* What the files of `holdfast work` share. */
#ifndef HF_RUNTIME_COMMAND_WORK_H
#define HF_RUNTIME_COMMAND_WORK_H

#include "runtime/command_common.h"

struct hf__work {
    struct hf__target target;
    const char *command; /* --exec */
    const char **groups;
    size_t n_groups, workers, pool;
    int64_t poll_ms, drain_ms, timeout_ms;
    bool until_empty;
    const char *stats_file;
    char **environment; /* what every command's environment begins with */
};

/* The handler: runs the command for one delivery. ctx is a struct hf__work. */
hf_outcome hf__work_handle(hf_delivery *delivery, void *ctx);

/* Blocks the signals that stop the command, before any thread runs: every thread inherits the mask, and only the supervisor reads
 * them. A pipe that nobody reads is an error of the write, not the end of the process. Returns the exit status. */
int hf__work_block_signals(void);
/* Runs a started runtime until a signal, or until the table is empty, and stops it. Returns the exit status. */
int hf__work_supervise(const struct hf__work *work, hf_runtime *runtime);

#endif
