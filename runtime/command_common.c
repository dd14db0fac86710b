/* What the subcommands share: the database and the table that they are pointed at, numbers, messages, exit statuses. */
#include "runtime/command_common.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- messages ---- */

const char *hf__program = "holdfast";

int hf__command_fail(const hf_error *err)
{
    return hf__command_fail_text("%s", err->message[0] ? err->message : hf_status_text(err->status));
}

int hf__command_fail_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    flockfile(stderr);
    fprintf(stderr, "%s: ", hf__program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(args);
    return HF__EXIT_FAILED;
}

int hf__command_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return HF__EXIT_DONE;
    }
    return hf__command_fail_text("standard output could not be written: %s", strerror(errno));
}

int hf__command_print_json(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    if (!text) {
        return hf__command_fail_text("the result cannot be written as JSON: out of memory");
    }
    puts(text);
    free(text);
    return HF__EXIT_DONE;
}

const char *hf__level_name(hf_log_level level)
{
    switch (level) {
    case HF_LOG_ERROR:
        return "error";
    case HF_LOG_WARNING:
        return "warning";
    case HF_LOG_INFO:
        return "info";
    }
    return "info";
}

void hf__command_log(void *ctx, hf_log_level level, const char *message)
{
    (void)ctx;
    struct timespec now = {0};
    struct tm parts = {0};
    char date[sizeof "2025-01-01T00:00:00"] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(stderr, "%s.%03ldZ %s: %s\n", date, now.tv_nsec / 1000000, hf__level_name(level), message);
}

void hf__command_logf(hf_log_level level, const char *format, ...)
{
    char *message = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&message, format, args);
    va_end(args);
    hf__command_log(NULL, level, len < 0 ? "out of memory" : message);
    if (len >= 0) {
        free(message);
    }
}

/* ---- the target ---- */

static const struct argp_option target_options[] = {
    {"db", HF__KEY_DB, "URL", 0, "The database: postgresql://..., mysql://..., mariadb://... or sqlite:PATH", 1},
    {"db-file", HF__KEY_DB_FILE, "FILE", 0,
     "The database's URL is the first line of FILE. Without --db and --db-file it is read from the environment: HOLDFAST_URL", 0},
    {"table", HF__KEY_TABLE, "FILE", 0, "The table description (JSON)", 0},
    {0},
};

static void check_target(const struct hf__target *target, const struct argp_state *state)
{
    const char *url = getenv("HOLDFAST_URL");
    if (!target->url && !target->url_file && (!url || !*url)) {
        argp_error(state, "which database? Give --db URL or --db-file FILE, or set HOLDFAST_URL");
    }
    if (!target->table) {
        argp_error(state, "which table? Give its description with --table FILE");
    }
}

static error_t parse_target(int key, char *arg, struct argp_state *state)
{
    struct hf__target *target = state->input;
    switch (key) {
    case HF__KEY_DB:
        target->url = hf__argument(arg);
        return 0;
    case HF__KEY_DB_FILE:
        target->url_file = hf__argument(arg);
        return 0;
    case HF__KEY_TABLE:
        target->table = hf__argument(arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" belongs to no option", arg);
        return EINVAL;
    case ARGP_KEY_END:
        check_target(target, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp hf__target_argp = {.options = target_options, .parser = parse_target};

char *hf__first_line(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        hf__command_fail_text("--db-file %s: %s", path, strerror(errno));
        return NULL;
    }
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len = getline(&line, &capacity, file);
    if (len >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
    }
    if (len < 0 || !*line) {
        hf__command_fail_text("--db-file %s: %s", path,
                              ferror(file) ? strerror(errno) : "its first line is empty, it should be the database's URL");
        free(line);
        line = NULL;
    }
    fclose(file);
    return line;
}

static hf_status open_runtime(const struct hf__target *target, const hf_runtime_options *options, hf_runtime **runtime, hf_error *err)
{
    if (target->url) {
        return hf_runtime_open(target->url, options, runtime, err);
    }
    if (!target->url_file) {
        return hf_runtime_open(getenv("HOLDFAST_URL"), options, runtime, err);
    }
    char *line = hf__first_line(target->url_file);
    if (!line) {
        return HF_SYSTEM;
    }
    hf_status status = hf_runtime_open(line, options, runtime, err);
    explicit_bzero(line, strlen(line));
    free(line);
    return status;
}

int hf__target_run(const struct hf__target *target, const hf_runtime_options *options,
                   int (*run)(hf_runtime *runtime, const hf_table *table, void *ctx), void *ctx)
{
    hf_error err = {0};
    hf_table *table = NULL;
    hf_runtime *runtime = NULL;
    int code = HF__EXIT_FAILED;
    hf_status status = hf_table_load(target->table, &table, &err);
    if (status == HF_OK) {
        status = open_runtime(target, options, &runtime, &err);
    }
    if (status == HF_OK) {
        code = run(runtime, table, ctx);
    } else if (err.status != HF_OK) { /* else the message has been written */
        hf__command_fail(&err);
    }
    hf_runtime_close(runtime);
    hf_table_free(table);
    return code;
}

/* ---- options ---- */

void hf__command_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input)
{
    static char title[32]; /* argv keeps pointing at it */
    snprintf(title, sizeof title, "%s %s", hf__program, name);
    argv[0] = title;
    error_t error = argp_parse(argp, argc, argv, 0, NULL, input);
    if (error) {
        exit(hf__command_fail_text("%s", strerror(error)));
    }
}

size_t hf__option_size(const struct argp_state *state, const char *option, const char *arg, size_t min, size_t max)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(arg, &end, 10);
    bool is_number = *arg >= '0' && *arg <= '9' && !*end && errno == 0;
    if (!is_number || value < min || value > max) {
        argp_error(state, "%s takes a whole number from %zu to %zu, not \"%s\"", option, min, max, arg);
    }
    return (size_t)value;
}

int64_t hf__option_int(const struct argp_state *state, const char *option, const char *arg)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(arg, &end, 10);
    if (end == arg || *end || isspace((unsigned char)*arg) || errno != 0) {
        argp_error(state, "%s takes a whole number of 64 bits, not \"%s\"", option, arg);
    }
    return value;
}

int64_t hf__option_seconds_ms(const struct argp_state *state, const char *option, const char *arg, bool zero_allowed)
{
    char *end = NULL;
    int64_t ms = 0;
    double seconds = strtod(arg, &end);
    bool is_number = end != arg && !*end && hf__seconds_ms(seconds, &ms);
    if (!is_number || (ms == 0 && !zero_allowed)) {
        argp_error(state, "%s takes seconds from 0 to 1000000000 (a fraction is allowed%s), not \"%s\"", option,
                   zero_allowed ? "" : ", 0 is not", arg);
    }
    return ms;
}

char *hf__number_text(uint64_t number, char out[HF__NUMBER_TEXT])
{
    char plain[HF__NUMBER_TEXT];
    size_t n = (size_t)snprintf(plain, sizeof plain, "%llu", (unsigned long long)number);
    char *at = out;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            *at++ = ',';
        }
        *at++ = plain[i];
    }
    *at = '\0';
    return out;
}
