/* What the files of `holdfast work` share. */
#ifndef HF_RUNTIME_COMMAND_WORK_H
#define HF_RUNTIME_COMMAND_WORK_H

#include "runtime/command_common.h"

struct hf__work {
    struct hf__target target;
    const char *command; /* --exec */
    const char **groups;
    size_t n_groups, workers, pool, batch;
    int64_t poll_ms, drain_ms, timeout_ms, retry_base_ms, retry_cap_ms;
    int64_t limit_ms; /* the time limit, where the runtime's does not serve: that one is for a whole batch */
    double retry_factor;
    bool until_empty;
    const char *stats_file;
    char **environment; /* what every command's environment begins with */
};

/* The handler: runs the command for one delivery. ctx is a struct hf__work. */
hf_outcome hf__work_handle(hf_delivery *delivery, void *ctx);
/* The same for the deliveries of a batch, one after the other. */
void hf__work_handle_batch(hf_delivery *const *deliveries, size_t n, void *ctx);

/* Runs a started runtime until a signal, or until the table is empty, and stops it. Returns the exit status. */
int hf__work_supervise(const struct hf__work *work, hf_runtime *runtime);

#endif
