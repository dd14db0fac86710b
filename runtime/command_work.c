/* holdfast work: runs a shell command for each job. The options, the runtime, and the stats file at the end. */
#include "runtime/command_work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command_child.h"
#include "runtime/command_environment.h"
#include "runtime/command_guard.h"
#include "runtime/command_signals.h"

enum {
    KEY_EXEC = HF__KEY_OWN,
    KEY_GROUP,
    KEY_WORKERS,
    KEY_POOL,
    KEY_BATCH,
    KEY_POLL_MS,
    KEY_DRAIN_SECONDS,
    KEY_TIMEOUT,
    KEY_RETRY_BASE_MS,
    KEY_RETRY_FACTOR,
    KEY_RETRY_CAP_MS,
    KEY_UNTIL_EMPTY,
    KEY_STATS_JSON
};

#define LONGEST_RETRY_MS 1000000000000 /* about thirty years */

static void add_group(struct hf__work *work, const char *group, struct argp_state *state)
{
    const char **grown = realloc(work->groups, (work->n_groups + 1) * sizeof *grown);
    if (!grown) {
        argp_failure(state, HF__EXIT_FAILED, ENOMEM, "--group %s", group);
        return;
    }
    work->groups = grown;
    work->groups[work->n_groups++] = group;
}

static double factor_of(const char *arg, const struct argp_state *state)
{
    char *end = NULL;
    double factor = strtod(arg, &end);
    if (end == arg || *end || !(factor >= 1 && factor <= 1000)) {
        argp_error(state, "--retry-factor takes a number from 1 to 1000, not \"%s\"", arg);
    }
    return factor;
}

static error_t parse_number(int key, const char *arg, struct argp_state *state)
{
    struct hf__work *work = state->input;
    switch (key) {
    case KEY_WORKERS:
        work->workers = hf__option_size(state, "--workers", arg, 1, 10000);
        return 0;
    case KEY_POOL:
        work->pool = hf__option_size(state, "--pool", arg, 1, 100000);
        return 0;
    case KEY_BATCH:
        work->batch = hf__option_size(state, "--batch", arg, 1, 1000);
        return 0;
    case KEY_POLL_MS:
        work->poll_ms = (int64_t)hf__option_size(state, "--poll-ms", arg, 1, 86400000);
        return 0;
    case KEY_DRAIN_SECONDS:
        work->drain_ms = hf__option_seconds_ms(state, "--drain-seconds", arg, true);
        return 0;
    case KEY_TIMEOUT:
        work->timeout_ms = hf__option_seconds_ms(state, "--timeout", arg, false);
        return 0;
    case KEY_RETRY_BASE_MS:
        work->retry_base_ms = (int64_t)hf__option_size(state, "--retry-base-ms", arg, 1, LONGEST_RETRY_MS);
        return 0;
    case KEY_RETRY_FACTOR:
        work->retry_factor = factor_of(arg, state);
        return 0;
    case KEY_RETRY_CAP_MS:
        work->retry_cap_ms = (int64_t)hf__option_size(state, "--retry-cap-ms", arg, 1, LONGEST_RETRY_MS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct hf__work *work = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &work->target;
        return 0;
    case KEY_EXEC:
        work->command = hf__argument(arg);
        return 0;
    case KEY_GROUP:
        add_group(work, hf__argument(arg), state);
        return 0;
    case KEY_UNTIL_EMPTY:
        work->until_empty = true;
        return 0;
    case KEY_STATS_JSON:
        work->stats_file = hf__argument(arg);
        return 0;
    case ARGP_KEY_END:
        if (!work->command) {
            argp_error(state, "which command? Give it with --exec COMMAND");
        }
        return 0;
    default:
        return parse_number(key, arg, state);
    }
}

/* ---- the stats file ---- */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        return false;
    }
    bool written = fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    return fclose(file) == 0 && written;
}

/* Whole or not at all: under another name first. With text NULL only whether that could be done. */
static int replace_file(const char *path, const char *text)
{
    char *fresh = NULL;
    if (asprintf(&fresh, "%s.%ld", path, (long)getpid()) < 0) {
        return hf__command_fail_text("--stats-json %s: out of memory", path);
    }
    bool done = write_file(fresh, text ? text : "") && (!text || rename(fresh, path) == 0);
    int code = done ? HF__EXIT_DONE : hf__command_fail_text("--stats-json %s: %s", path, strerror(errno));
    if (!done || !text) {
        unlink(fresh);
    }
    free(fresh);
    return code;
}

static int write_stats(const struct hf__work *work, hf_runtime *runtime)
{
    if (!work->stats_file) {
        return HF__EXIT_DONE;
    }
    char *text = hf_stats_json(runtime);
    int code = text ? replace_file(work->stats_file, text) : hf__command_fail_text("--stats-json %s: out of memory", work->stats_file);
    hf_free(text);
    return code;
}

/* ---- the run ---- */

static hf_status start(const struct hf__work *work, hf_runtime *runtime, const hf_table *table, hf_error *err)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = work->workers;
    options.poll_ms = work->poll_ms;
    options.groups = work->groups;
    options.n_groups = work->n_groups;
    options.handler_timeout_ms = work->limit_ms ? 0 : work->timeout_ms;
    options.retry_base_ms = work->retry_base_ms;
    options.retry_factor = work->retry_factor;
    options.retry_cap_ms = work->retry_cap_ms;
    options.batch = work->batch;
    hf_status status = work->batch > 1 ? hf_subscribe_batch(runtime, table, &options, hf__work_handle_batch, (void *)work, NULL, err)
                                       : hf_subscribe(runtime, table, &options, hf__work_handle, (void *)work, NULL, err);
    return status == HF_OK ? hf_runtime_start(runtime, err) : status;
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct hf__work *work = ctx;
    hf_error err = {0};
    if (work->stats_file && replace_file(work->stats_file, NULL) != HF__EXIT_DONE) {
        return HF__EXIT_FAILED; /* now, and not after a day's work */
    }
    if (start(work, runtime, table, &err) != HF_OK) {
        return hf__command_fail(&err);
    }
    int code = hf__work_supervise(work, runtime);
    int stats = write_stats(work, runtime);
    return code == HF__EXIT_DONE ? stats : code;
}

static int prepare_and_run(struct hf__work *work)
{
    int code = hf__signals_block();
    if (code != HF__EXIT_DONE) {
        return code;
    }
    int error = hf__guard_start();
    error = error ? error : hf__child_reaper_start();
    if (error) {
        return hf__command_fail_text("commands cannot be watched: %s", strerror(error));
    }
    work->environment = hf__environment_base(environ);
    if (!work->environment) {
        return hf__command_fail_text("out of memory");
    }
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.pool_size = work->pool;
    options.log = hf__command_log;
    return hf__target_run(&work->target, &options, run, work);
}

int hf__command_work(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"exec", KEY_EXEC, "COMMAND", 0,
         "The shell command that runs for each job: payload on standard input, and HOLDFAST_ID, "
         "HOLDFAST_ATTEMPT, HOLDFAST_GROUP, HOLDFAST_KEY, HOLDFAST_PARTITION_KEY, HOLDFAST_HEADERS in the environment. It ends with 0: "
         "done; 65: never again; "
         "75: again at once; anything else: again later, after a growing delay",
         2},
        {"group", KEY_GROUP, "GROUP", 0, "Only jobs of this group; may be repeated", 0},
        {"workers", KEY_WORKERS, "N", 0, "Commands that run side by side (default 4)", 0},
        {"pool", KEY_POOL, "N", 0, "At most N database connections (default: what the workers need)", 0},
        {"batch", KEY_BATCH, "N", 0,
         "A worker claims up to N jobs at once, runs the command once for each of them in claim order, and settles them together (default "
         "1)",
         0},
        {"poll-ms", KEY_POLL_MS, "N", 0, "How often an idle worker looks for jobs (default 1000)", 0},
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "Stop a command that runs longer, and run its job again later", 0},
        {"retry-base-ms", KEY_RETRY_BASE_MS, "N", 0, "The delay after the first failure (default 1000)", 0},
        {"retry-factor", KEY_RETRY_FACTOR, "X", 0, "Each further failure multiplies the delay by X (default 2)", 0},
        {"retry-cap-ms", KEY_RETRY_CAP_MS, "N", 0,
         "The longest delay (default 300000). Up to half of a delay is taken off at random, so that jobs which failed together do not come "
         "back together",
         0},
        {"drain-seconds", KEY_DRAIN_SECONDS, "SECONDS", 0,
         "How long commands may go on after SIGTERM, SIGINT or SIGHUP (default 30); then, or on a second signal, they get SIGTERM, and 5 s "
         "later SIGKILL",
         0},
        {"until-empty", KEY_UNTIL_EMPTY, NULL, 0, "End when nothing is due, leased or in work any more", 0},
        {"stats-json", KEY_STATS_JSON, "FILE", 0, "At the end, write what was counted to FILE", 0},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options, .parser = parse, .doc = "Runs a shell command for each job of a table.", .children = children};
    struct hf__work work = {.drain_ms = 30000};
    hf__command_parse(&argp, "work", argc, argv, &work);
    work.limit_ms = work.batch > 1 ? work.timeout_ms : 0;
    int code = prepare_and_run(&work);
    free(work.groups);
    free(work.environment);
    return code;
}
