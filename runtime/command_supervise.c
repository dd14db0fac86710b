/* holdfast work, the process: waits for signals and for the table to be empty, and stops the runtime.
 *
 * Three threads. The main one reads signals and the other two's news. One waits until the table is empty (--until-empty). One
 * stops the runtime, which takes as long as the drain does; meanwhile the main one can read a second signal and stop it at once. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/command_signals.h"
#include "runtime/command_work.h"

#define AGAIN_MS 10000     /* how often a stop that waits for handlers says so */
#define LOOK_AGAIN_MS 1000 /* between looks at the table while it cannot be read */

/* A thread of ours, and what it tells the main one by making its descriptor readable. */
struct helper {
    pthread_t thread;
    bool running;
    int done_fd;
};

struct supervisor {
    hf_runtime *runtime;
    int64_t drain_ms;
    int signal_fd;
    bool signalled;
    int stopping_fd; /* readable once a stop has begun */
    struct helper empty, stop;
    hf_status stop_status; /* the stop helper's, read after it is joined */
    hf_error stop_error;
    hf_stop_report report;
};

/* ---- the helpers ---- */

static void *wait_empty(void *arg)
{
    struct supervisor *supervisor = arg;
    hf_error err = {0};
    hf_status status = hf_runtime_wait_empty(supervisor->runtime, -1, &err);
    while (status != HF_OK && status != HF_STOPPED) {
        hf__command_logf(HF_LOG_WARNING, "cannot tell whether the table is empty: %s", err.message);
        if (hf__readable(supervisor->stopping_fd, LOOK_AGAIN_MS)) {
            break;
        }
        status = hf_runtime_wait_empty(supervisor->runtime, -1, &err);
    }
    eventfd_write(supervisor->empty.done_fd, 1);
    return NULL;
}

/* Handlers end for certain once their commands are killed, so a stop that timed out is waited for. */
static void *stop(void *arg)
{
    struct supervisor *supervisor = arg;
    int64_t limit_ms = supervisor->drain_ms;
    do {
        supervisor->report = (hf_stop_report)HF_STOP_REPORT_INIT;
        supervisor->stop_status = hf_runtime_stop(supervisor->runtime, limit_ms, &supervisor->report, &supervisor->stop_error);
        if (supervisor->stop_status == HF_TIMEOUT) {
            hf__command_logf(HF_LOG_WARNING, "%zu command%s did not end in time; waiting for them to be stopped",
                             supervisor->report.running, supervisor->report.running == 1 ? "" : "s");
        }
        limit_ms = AGAIN_MS;
    } while (supervisor->stop_status == HF_TIMEOUT);
    eventfd_write(supervisor->stop.done_fd, 1);
    return NULL;
}

static bool start_helper(struct helper *helper, void *(*run)(void *), struct supervisor *supervisor)
{
    int error = pthread_create(&helper->thread, NULL, run, supervisor);
    helper->running = error == 0;
    if (error) {
        hf__command_fail_text("a thread could not be started: %s", strerror(error));
    }
    return helper->running;
}

static void join_helper(struct helper *helper)
{
    if (helper->running) {
        pthread_join(helper->thread, NULL);
        helper->running = false;
    }
}

/* ---- the main thread ---- */

static void begin_stop(struct supervisor *supervisor)
{
    eventfd_write(supervisor->stopping_fd, 1);
    if (!start_helper(&supervisor->stop, stop, supervisor)) {
        stop(supervisor); /* without a thread for it a second signal is not heard, but everything stops */
    }
}

static void read_signal(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    if (read(supervisor->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    const char *name = sigabbrev_np((int)info.ssi_signo);
    supervisor->signalled = true;
    if (!hf__readable(supervisor->stopping_fd, 0)) {
        hf__command_logf(HF_LOG_INFO, "SIG%s: no more claims; commands have %g s to end", name ? name : "?",
                         (double)supervisor->drain_ms / 1000);
        begin_stop(supervisor);
        return;
    }
    hf__command_logf(HF_LOG_INFO, "SIG%s again: stopping the commands", name ? name : "?");
    hf_error err = {0};
    hf_status status = hf_runtime_stop(supervisor->runtime, 0, NULL, &err);
    if (status != HF_OK && status != HF_TIMEOUT) {
        hf__command_logf(HF_LOG_WARNING, "%s", err.message);
    }
}

static void watch(struct supervisor *supervisor)
{
    while (!hf__readable(supervisor->stop.done_fd, 0)) {
        bool stopping = hf__readable(supervisor->stopping_fd, 0);
        struct pollfd fds[] = {
            {.fd = supervisor->signal_fd, .events = POLLIN},
            {.fd = supervisor->stop.done_fd, .events = POLLIN},
            {.fd = stopping ? -1 : supervisor->empty.done_fd, .events = POLLIN},
        };
        if (poll(fds, sizeof fds / sizeof *fds, -1) < 0) {
            continue; /* interrupted */
        }
        if (fds[0].revents) {
            read_signal(supervisor);
        }
        if (fds[2].revents && !hf__readable(supervisor->stopping_fd, 0)) {
            begin_stop(supervisor);
        }
    }
}

static void log_report(const struct supervisor *supervisor)
{
    const hf_stop_report *report = &supervisor->report;
    hf__command_logf(HF_LOG_INFO, "stopped: %zu settled while stopping, %zu given back, %zu could not be settled", report->settled,
                     report->given_back, report->failed);
}

static int supervise(const struct hf__work *work, struct supervisor *supervisor)
{
    if (work->until_empty && !start_helper(&supervisor->empty, wait_empty, supervisor)) {
        return HF__EXIT_FAILED;
    }
    watch(supervisor);
    join_helper(&supervisor->stop);
    join_helper(&supervisor->empty);
    if (supervisor->stop_status != HF_OK) {
        return hf__command_fail(&supervisor->stop_error);
    }
    if (supervisor->signalled) {
        log_report(supervisor);
    }
    return HF__EXIT_DONE;
}

static bool open_descriptors(struct supervisor *supervisor)
{
    supervisor->signal_fd = hf__signals_open();
    supervisor->stopping_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->empty.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->stop.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return supervisor->signal_fd >= 0 && supervisor->stopping_fd >= 0 && supervisor->empty.done_fd >= 0 && supervisor->stop.done_fd >= 0;
}

static void close_descriptors(const struct supervisor *supervisor)
{
    const int fds[] = {supervisor->signal_fd, supervisor->stopping_fd, supervisor->empty.done_fd, supervisor->stop.done_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int hf__work_supervise(const struct hf__work *work, hf_runtime *runtime)
{
    struct supervisor supervisor = {.runtime = runtime, .drain_ms = work->drain_ms, .report = HF_STOP_REPORT_INIT};
    int code = HF__EXIT_FAILED;
    if (open_descriptors(&supervisor)) {
        code = supervise(work, &supervisor);
    } else {
        hf__command_fail_text("signals cannot be watched: %s", strerror(errno));
    }
    close_descriptors(&supervisor);
    return code;
}
