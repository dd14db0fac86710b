/* test_worker: a process that works on a table, through the public header alone, and keeps a ledger of its runs.
 *
 * The ledger is a text file that any number of workers append to, one write(2) a line:
 *
 *     B id attempt pid key monotonic_ns     a handler begins; without a key the group stands there ("-": neither)
 *     E id attempt pid key monotonic_ns     it is about to return
 *
 * It says "ready" on standard output once it claims, and prints the runtime's numbers there as one line of JSON after the stop.
 * Exit 0: it stopped in order; 1: it did not, and standard error says why; 2: wrong usage. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holdfast.h"

#define LOOK_MS 100 /* how often --until-empty looks for a signal */

struct work {
    const char *db, *table, *ledger;
    hf_subscription_options subscription;
    hf_runtime_options runtime;
    int64_t drain_ms;
    bool hang, until_empty;
    const char *hang_at; /* the id of the row whose handler does not return */
    hf_outcome outcome;
    unsigned share;      /* in so many of a hundred runs; the others ack */
    long from_us, to_us; /* how long a handler runs: something between the two */
    int ledger_fd;
    sigset_t signals;
};

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("test_worker: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 1;
}

/* ---- the handler ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A ledger with a hole proves nothing, so a process that cannot write it ends at once. */
static void note(const struct work *work, char event, const hf_delivery *delivery)
{
    const char *key = hf_delivery_key(delivery) ? hf_delivery_key(delivery) : hf_delivery_group(delivery);
    char *line = NULL;
    int len = asprintf(&line, "%c %s %lld %ld %s %lld\n", event, hf_delivery_id(delivery), (long long)hf_delivery_attempt(delivery),
                       (long)getpid(), key ? key : "-", (long long)now_ns());
    if (len < 0 || write(work->ledger_fd, line, (size_t)len) != len) {
        complain("%s: %s", work->ledger, strerror(errno));
        abort();
    }
    free(line);
}

static void sleep_us(long us)
{
    struct timespec span = {us / 1000000, us % 1000000 * 1000};
    int interrupted;
    do {
        interrupted = nanosleep(&span, &span);
    } while (interrupted);
}

static hf_outcome handle(hf_delivery *delivery, void *ctx)
{
    static _Thread_local unsigned seed;
    const struct work *work = ctx;
    note(work, 'B', delivery);
    while (work->hang || (work->hang_at && strcmp(hf_delivery_id(delivery), work->hang_at) == 0)) {
        pause();
    }
    if (!seed) {
        seed = (unsigned)now_ns() | 1;
    }
    sleep_us(work->from_us + rand_r(&seed) % (work->to_us - work->from_us + 1));
    note(work, 'E', delivery);
    return (unsigned)rand_r(&seed) % 100 < work->share ? work->outcome : HF_ACK;
}

/* ---- options ---- */

enum {
    KEY_DB = 256,
    KEY_TABLE,
    KEY_LEDGER,
    KEY_WORKERS,
    KEY_POLL_MS,
    KEY_POOL,
    KEY_HANDLER,
    KEY_HANG_AT,
    KEY_OUTCOME,
    KEY_UNTIL_EMPTY,
    KEY_DRAIN_MS
};

static size_t number(struct argp_state *state, const char *option, const char *arg)
{
    char *end;
    long value = strtol(arg, &end, 10);
    if (end == arg || *end || value < 0 || value > 1000000) {
        argp_error(state, "%s takes a whole number up to 1000000, not %s", option, arg);
    }
    return (size_t)value;
}

/* A number of milliseconds at *text, which is moved behind it; -1 if there is none. */
static long milliseconds(char **text)
{
    char *begin = *text;
    long ms = strtol(begin, text, 10);
    return *text == begin || ms > 1000000 ? -1 : ms;
}

static void handler_spec(struct argp_state *state, struct work *work, char *arg)
{
    bool uniform = strncmp(arg, "uniform:", 8) == 0;
    char *rest = strchr(arg, ':');
    work->hang = strcmp(arg, "hang") == 0;
    if (work->hang) {
        return;
    }
    if (!rest || (!uniform && strncmp(arg, "ms:", 3) != 0)) {
        argp_error(state, "--handler takes ms:N, uniform:A-B or hang, not %s", arg);
        return;
    }
    rest++;
    long from = milliseconds(&rest);
    long to = from;
    if (uniform && *rest == '-') {
        rest++;
        to = milliseconds(&rest);
    }
    if (*rest || from < 0 || to < from) {
        argp_error(state, "--handler %s: milliseconds from 0 to 1000000, the smaller first", arg);
    }
    work->from_us = from * 1000;
    work->to_us = to * 1000;
}

static void outcome_spec(struct argp_state *state, struct work *work, const char *arg)
{
    static const char *const names[] = {[HF_ACK] = "ack", [HF_RETRY] = "retry", [HF_RETRY_AFTER] = "retry_after", [HF_REJECT] = "reject"};
    size_t len = strcspn(arg, ":");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && strncmp(arg, names[i], len) == 0) {
            work->outcome = (hf_outcome)i;
            work->share = arg[len] ? (unsigned)number(state, "--outcome", arg + len + 1) : 100;
            return;
        }
    }
    argp_error(state, "--outcome takes ack, retry, retry_after or reject, and :PERCENT behind it, not %s", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct work *work = state->input;
    switch (key) {
    case KEY_DB:
        work->db = arg;
        return 0;
    case KEY_TABLE:
        work->table = arg;
        return 0;
    case KEY_LEDGER:
        work->ledger = arg;
        return 0;
    case KEY_WORKERS:
        work->subscription.workers = number(state, "--workers", arg);
        return 0;
    case KEY_POLL_MS:
        work->subscription.poll_ms = (int64_t)number(state, "--poll-ms", arg);
        return 0;
    case KEY_POOL:
        work->runtime.pool_size = number(state, "--pool", arg);
        return 0;
    case KEY_HANDLER:
        handler_spec(state, work, arg);
        return 0;
    case KEY_HANG_AT:
        work->hang_at = arg;
        return 0;
    case KEY_OUTCOME:
        outcome_spec(state, work, arg);
        return 0;
    case KEY_UNTIL_EMPTY:
        work->until_empty = true;
        return 0;
    case KEY_DRAIN_MS:
        work->drain_ms = (int64_t)number(state, "--drain-ms", arg);
        return 0;
    case ARGP_KEY_END:
        if (!work->db || !work->table || !work->ledger) {
            argp_error(state, "--db, --table and --ledger are needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"db", KEY_DB, "URL", 0, "The database", 0},
    {"table", KEY_TABLE, "FILE", 0, "The table's description", 0},
    {"ledger", KEY_LEDGER, "FILE", 0, "Where the runs are noted", 0},
    {"workers", KEY_WORKERS, "N", 0, NULL, 0},
    {"poll-ms", KEY_POLL_MS, "N", 0, NULL, 0},
    {"pool", KEY_POOL, "N", 0, "Connections at most", 0},
    {"handler", KEY_HANDLER, "SPEC", 0, "ms:N, uniform:A-B (milliseconds) or hang: it does not return", 0},
    {"hang-at", KEY_HANG_AT, "ID", 0, "The handler of this row does not return", 0},
    {"outcome", KEY_OUTCOME, "SPEC", 0, "ack, retry, retry_after or reject; retry:30: in 30 of a hundred runs, the others ack", 0},
    {"until-empty", KEY_UNTIL_EMPTY, NULL, 0, "Stop when nothing is left to do", 0},
    {"drain-ms", KEY_DRAIN_MS, "N", 0, "The limit of the stop (default 10000)", 0},
    {0},
};

/* ---- the run ---- */

static void log_line(void *ctx, hf_log_level level, const char *message)
{
    static const char *const names[] = {"error", "warning", "info"};
    (void)ctx;
    fprintf(stderr, "test_worker: %s: %s\n", names[level], message);
}

static hf_status start(struct work *work, hf_runtime **runtime, hf_error *err)
{
    hf_table *table = NULL;
    work->runtime.log = log_line;
    hf_status status = hf_table_load(work->table, &table, err);
    if (status == HF_OK) {
        status = hf_runtime_open(work->db, &work->runtime, runtime, err);
    }
    if (status == HF_OK) {
        status = hf_subscribe(*runtime, table, &work->subscription, handle, work, NULL, err);
    }
    if (status == HF_OK) {
        status = hf_runtime_start(*runtime, err);
    }
    hf_table_free(table);
    return status;
}

static bool signalled(const struct work *work)
{
    return sigtimedwait(&work->signals, NULL, &(struct timespec){0}) > 0;
}

/* Until a signal, or until nothing is left. */
static hf_status wait_for_end(const struct work *work, hf_runtime *runtime, hf_error *err)
{
    hf_status status = HF_TIMEOUT;
    if (!work->until_empty) {
        int signal_number;
        return sigwait(&work->signals, &signal_number) == 0 ? HF_OK : HF_SYSTEM;
    }
    while (status == HF_TIMEOUT && !signalled(work)) {
        status = hf_runtime_wait_empty(runtime, LOOK_MS, err);
    }
    return status == HF_TIMEOUT ? HF_OK : status;
}

static int print_stats(hf_runtime *runtime)
{
    char *json = hf_stats_json(runtime);
    int code = json && printf("%s\n", json) > 0 && fflush(stdout) == 0 ? 0 : complain("the numbers cannot be printed");
    hf_free(json);
    return code;
}

static int run(struct work *work, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_stop_report report = HF_STOP_REPORT_INIT;
    puts("ready");
    fflush(stdout);
    hf_status waited = wait_for_end(work, runtime, &err);
    if (waited != HF_OK) {
        complain("waiting: %s", err.message);
    }
    hf_status stopped = hf_runtime_stop(runtime, work->drain_ms, &report, &err);
    if (stopped != HF_OK) {
        complain("stopping: %s", err.message);
    }
    int code = print_stats(runtime);
    return waited == HF_OK && stopped == HF_OK ? code : 1;
}

static int work_on(struct work *work)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = NULL;
    int code = start(work, &runtime, &err) == HF_OK ? run(work, runtime) : complain("%s", err.message);
    hf_status closed = hf_runtime_close(runtime);
    return closed == HF_OK ? code : complain("closing: %s", hf_status_text(closed));
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.options = options, .parser = parse, .doc = "Works on a table and keeps a ledger of its runs."};
    struct work work = {.subscription = HF_SUBSCRIPTION_OPTIONS_INIT, .runtime = HF_RUNTIME_OPTIONS_INIT, .drain_ms = 10000};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &work) != 0) {
        return 2;
    }
    /* Before the first thread: they inherit it, so that a signal is for the main thread alone. */
    sigemptyset(&work.signals);
    sigaddset(&work.signals, SIGTERM);
    sigaddset(&work.signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &work.signals, NULL);
    work.ledger_fd = open(work.ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (work.ledger_fd < 0) {
        return complain("%s: %s", work.ledger, strerror(errno));
    }
    int code = work_on(&work);
    close(work.ledger_fd);
    return code;
}
