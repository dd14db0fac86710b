/* What a crash costs. The killed worker is a child process, which opens its runtime itself: a connection never crosses a fork. */
#include "bench/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_table.h"
#include "bench/interrupt.h"
#include "pool/deadline.h"
#include "pool/error.h"

/* Short, because the question is when the row is free, not how often an idle worker looks. */
enum { POLL_MS = 10, BEGIN_LIMIT_MS = 30000, MARGIN_MS = 30000 };

struct victim {
    pid_t pid;
    int report; /* reads a byte when the handler runs, or the sentence that says why it does not */
    int life;   /* open as long as we live: the child ends with us */
};

static hf_runtime_options runtime_options(void)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.application_name = "holdfast-bench";
    return options;
}

static hf_status open_and_start(const struct bench_options *options, const hf_table *table, hf_handler handler, void *ctx,
                                hf_runtime **runtime, hf_error *err)
{
    hf_runtime_options how = runtime_options();
    hf_subscription_options subscription = HF_SUBSCRIPTION_OPTIONS_INIT;
    subscription.workers = 1;
    subscription.poll_ms = POLL_MS;
    hf_status status = hf_runtime_open(options->url, &how, runtime, err);
    if (status == HF_OK)
        status = hf_subscribe(*runtime, table, &subscription, handler, ctx, NULL, err);
    return status == HF_OK ? hf_runtime_start(*runtime, err) : status;
}

/* ---- the child ---- */

struct ends {
    int report, life;
};

static void say(int fd, const char *text, size_t len)
{
    ssize_t written = write(fd, text, len);
    if (written < 0)
        _exit(1);
}

/* Runs until we are killed, or until the process that would kill us is gone. */
static void wait_for_end(int life)
{
    char byte = 0;
    while (read(life, &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(1);
}

static hf_outcome begin_and_stay(hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    const struct ends *ends = ctx;
    say(ends->report, "b", 1);
    wait_for_end(ends->life);
    return HF_RETRY;
}

__attribute__((noreturn)) static void be_victim(const struct bench_options *options, const hf_table *table, struct ends ends)
{
    hf_runtime *runtime = NULL;
    hf_error err = {.status = HF_OK};
    if (open_and_start(options, table, begin_and_stay, &ends, &runtime, &err) != HF_OK) {
        say(ends.report, err.message, strlen(err.message));
        _exit(1);
    }
    wait_for_end(ends.life);
    _exit(1);
}

/* ---- its parent ---- */

static hf_status system_error(hf_error *err, const char *what)
{
    return hf__fail(err, HF_SYSTEM, "a worker process to kill: %s: %s", what, strerror(errno));
}

static hf_status start_victim(const struct bench_options *options, const hf_table *table, struct victim *victim, hf_error *err)
{
    int report[2], life[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return system_error(err, "pipe");
    if (pipe2(life, O_CLOEXEC) != 0) {
        hf_status status = system_error(err, "pipe");
        close(report[0]);
        close(report[1]);
        return status;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(report[0]);
        close(life[1]);
        be_victim(options, table, (struct ends){report[1], life[0]});
    }
    hf_status status = pid < 0 ? system_error(err, "fork") : HF_OK;
    close(report[1]);
    close(life[0]);
    *victim = (struct victim){.pid = pid, .report = report[0], .life = life[1]};
    return status;
}

/* Until fd can be read. */
static hf_status await(int fd, int64_t limit_ms, const char *what, hf_error *err)
{
    struct pollfd ready[] = {{.fd = fd, .events = POLLIN}, {.fd = bench_interrupt_fd(), .events = POLLIN}};
    struct hf__deadline deadline = hf__after_ms(limit_ms);
    int n = 0;
    do
        n = poll(ready, 2, hf__left_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return system_error(err, "poll");
    if (ready[1].revents)
        return hf__fail(err, HF_STOPPED, "interrupted while the cost of a crash was measured");
    return n > 0 ? HF_OK : hf__fail(err, HF_TIMEOUT, "%s within %lld s", what, (long long)(limit_ms / 1000));
}

static hf_status await_begin(const struct victim *victim, hf_error *err)
{
    char text[sizeof err->message] = "";
    hf_status status = await(victim->report, BEGIN_LIMIT_MS, "a worker process did not begin the only row of its table", err);
    if (status != HF_OK)
        return status;
    ssize_t len = read(victim->report, text, sizeof text - 1);
    if (len == 1 && text[0] == 'b')
        return HF_OK;
    return hf__fail(err, HF_SYSTEM, "a worker process did not begin the only row of its table: %s", len > 0 ? text : "it ended");
}

/* Nothing if there is none. */
static void end_victim(struct victim *victim)
{
    if (victim->pid > 0) {
        kill(victim->pid, SIGKILL);
        while (waitpid(victim->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (victim->report >= 0) {
        close(victim->report);
        close(victim->life);
    }
    *victim = (struct victim){.pid = -1, .report = -1, .life = -1};
}

/* ---- the heir ---- */

/* Says when it began. */
static hf_outcome run_again(hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    const int *report = ctx;
    int64_t now_ns = hf__monotonic_ns();
    return write(*report, &now_ns, sizeof now_ns) == (ssize_t)sizeof now_ns ? HF_ACK : HF_RETRY;
}

static hf_status await_heir(int report, int64_t limit_ms, int64_t *ran_ns, hf_error *err)
{
    hf_status status = await(report, limit_ms, "the row of a killed worker did not run again", err);
    if (status == HF_OK && read(report, ran_ns, sizeof *ran_ns) != (ssize_t)sizeof *ran_ns)
        status = system_error(err, "read");
    return status;
}

static void tell(const struct bench_options *options)
{
    if (isatty(STDERR_FILENO) && options->strategy == HF_LEASE)
        fprintf(stderr, "holdfast-bench: a worker is killed; its row runs again when its lease of %u s is over: waiting\n",
                options->lease_seconds);
}

static hf_status run_heir(const struct bench_options *options, const hf_table *table, int ends[2], int64_t *ran_ns, hf_error *err)
{
    hf_runtime *runtime = NULL;
    hf_stop_report report = HF_STOP_REPORT_INIT;
    hf_status status = open_and_start(options, table, run_again, &ends[1], &runtime, err);
    if (status == HF_OK)
        status = await_heir(ends[0], (int64_t)options->lease_seconds * 1000 + MARGIN_MS, ran_ns, err);
    if (status == HF_OK)
        status = hf_runtime_stop(runtime, MARGIN_MS, &report, err);
    (void)hf_runtime_close(runtime);
    return status;
}

static hf_status kill_and_measure(const struct bench_options *options, const hf_table *table, struct victim *victim, double *crash_ms,
                                  hf_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return system_error(err, "pipe");
    tell(options);
    int64_t killed_ns = hf__monotonic_ns(), ran_ns = 0;
    end_victim(victim);
    hf_status status = run_heir(options, table, ends, &ran_ns, err);
    if (status == HF_OK)
        *crash_ms = (double)(ran_ns - killed_ns) / 1e6;
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* ---- the table ---- */

typedef hf_status (*table_step)(hf_runtime *runtime, const hf_table *table, hf_error *err);

static hf_status make_with_one_row(hf_runtime *runtime, const hf_table *table, hf_error *err)
{
    hf_job job = HF_JOB_INIT;
    job.payload = "0 0 0 0";
    job.payload_len = strlen(job.payload);
    hf_status status = bench_table_make(runtime, table, err);
    if (status != HF_OK)
        return status;
    status = hf_enqueue(runtime, table, &job, 1, NULL, err);
    if (status != HF_OK && bench_table_drop(runtime, table, NULL) != HF_OK)
        (void)hf__fail_context(err, "table %s could not be dropped either", hf_table_name(table));
    return status;
}

/* On a runtime that is closed again, so that no thread and no connection is left when we fork. */
static hf_status with_runtime(const struct bench_options *options, const hf_table *table, table_step step, hf_error *err)
{
    hf_runtime_options how = runtime_options();
    hf_runtime *runtime = NULL;
    hf_status status = hf_runtime_open(options->url, &how, &runtime, err);
    if (status == HF_OK)
        status = step(runtime, table, err);
    (void)hf_runtime_close(runtime);
    return status;
}

static hf_status crash_on(const struct bench_options *options, const hf_table *table, double *crash_ms, hf_error *err)
{
    struct victim victim = {.pid = -1, .report = -1, .life = -1};
    hf_status status = start_victim(options, table, &victim, err);
    if (status == HF_OK)
        status = await_begin(&victim, err);
    if (status == HF_OK)
        status = kill_and_measure(options, table, &victim, crash_ms, err);
    end_victim(&victim);
    return status;
}

/* The table is dropped in any case, and an earlier error is the one that counts. */
static hf_status with_table(const struct bench_options *options, const hf_table *table, double *crash_ms, hf_error *err)
{
    hf_status status = with_runtime(options, table, make_with_one_row, err);
    if (status != HF_OK)
        return status;
    status = crash_on(options, table, crash_ms, err);
    hf_status dropped = with_runtime(options, table, bench_table_drop, status == HF_OK ? err : NULL);
    return status != HF_OK ? status : dropped;
}

hf_status bench_crash(const struct bench_options *options, double *crash_ms, hf_error *err)
{
    struct bench_options these = *options;
    these.rate = 0;
    these.fail = 0;
    char name[BENCH_TABLE_NAME];
    hf_table *table = NULL;
    hf_status status = bench_interrupt_begin(err);
    if (status != HF_OK)
        return status;
    bench_table_name(name);
    status = bench_table_describe(&these, name, &table, err);
    if (status == HF_OK)
        status = with_table(&these, table, crash_ms, err);
    hf_table_free(table);
    bench_interrupt_end();
    return status;
}
