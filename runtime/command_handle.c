/* holdfast work, one delivery: the command runs, and its end becomes an outcome. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "runtime/command_child.h"
#include "runtime/command_environment.h"
#include "runtime/command_work.h"

#define GRACE_MS 5000 /* between SIGTERM and SIGKILL */

static void cancelled(hf_delivery *delivery, hf_cancel why, void *ctx)
{
    (void)delivery;
    (void)why;
    hf__child_stop(ctx);
}

static void set_reason(hf_delivery *delivery, const char *reason)
{
    if (hf_delivery_set_reason(delivery, reason, strlen(reason)) != HF_OK) {
        hf__command_logf(HF_LOG_WARNING, "job %s: out of memory for the reason: %s", hf_delivery_id(delivery), reason);
    }
}

/* The same command may do better later: the machine was short of something, or the command was not there yet. */
static hf_outcome not_started(hf_delivery *delivery, const char *what, int error)
{
    char reason[256];
    snprintf(reason, sizeof reason, "%s: %s", what, strerror(error));
    hf__command_logf(HF_LOG_ERROR, "job %s: %s", hf_delivery_id(delivery), reason);
    set_reason(delivery, reason);
    return HF_RETRY_AFTER;
}

/* A command that was told to stop may end with 0 for that alone, so its status says nothing. */
static hf_outcome outcome_of_stopped(hf_delivery *delivery, const struct hf__work *work, bool timed_out)
{
    char reason[HF__CHILD_TEXT];
    if (timed_out || hf_delivery_cancelled(delivery) == HF_CANCEL_TIMEOUT) {
        snprintf(reason, sizeof reason, "stopped after %g s", (double)work->timeout_ms / 1000);
        set_reason(delivery, reason);
        return HF_RETRY_AFTER;
    }
    set_reason(delivery, "stopped with its worker");
    return HF_RETRY;
}

static hf_outcome outcome_of(hf_delivery *delivery, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == EX_OK) {
        return HF_ACK;
    }
    char reason[HF__CHILD_TEXT];
    hf__child_status_text(status, reason);
    set_reason(delivery, reason);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EX_DATAERR) {
        return HF_REJECT;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL ? HF_RETRY : HF_RETRY_AFTER;
}

static hf_outcome run_command(hf_delivery *delivery, const struct hf__work *work, struct hf__child *child)
{
    struct hf__child_request request = {.command = work->command, .grace_ms = GRACE_MS, .limit_ms = work->limit_ms};
    char **environment = hf__environment_make(work->environment, delivery);
    if (!environment) {
        return not_started(delivery, "the command's environment could not be made", ENOMEM);
    }
    request.environment = environment;
    request.input = hf_delivery_payload(delivery, &request.input_len);
    int error = hf__child_run(child, &request);
    hf__environment_free(work->environment, environment);
    if (error) {
        return not_started(delivery, "the command could not be started", error);
    }
    return child->stopped ? outcome_of_stopped(delivery, work, child->timed_out) : outcome_of(delivery, child->status);
}

hf_outcome hf__work_handle(hf_delivery *delivery, void *ctx)
{
    struct hf__child child;
    int error = hf__child_init(&child);
    if (error) {
        return not_started(delivery, "the command could not be watched", error);
    }
    hf_delivery_on_cancel(delivery, cancelled, &child);
    hf_outcome outcome = run_command(delivery, ctx, &child);
    hf_delivery_on_cancel(delivery, NULL, NULL);
    hf__child_destroy(&child);
    return outcome;
}

/* One command after the other. One that is cancelled before its turn is not started, and at the drain limit its row goes back, as that of
 * the command which was stopped does: the runtime sees to that. */
void hf__work_handle_batch(hf_delivery *const *deliveries, size_t n, void *ctx)
{
    for (size_t i = 0; i < n; i++) {
        if (hf_delivery_set_outcome(deliveries[i], hf__work_handle(deliveries[i], ctx)) != HF_OK) {
            hf__command_logf(HF_LOG_ERROR, "job %s: its outcome could not be set; it runs again", hf_delivery_id(deliveries[i]));
        }
    }
}
