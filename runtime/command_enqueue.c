/* holdfast enqueue: adds jobs, up to 1,000 in one call, each call all or nothing; prints their ids. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/command_enqueue.h"
#include "runtime/command_signals.h"

enum {
    KEY_PAYLOAD = HF__KEY_OWN,
    KEY_PAYLOAD_FILE,
    KEY_SET,
    KEY_GROUP,
    KEY_PRIORITY,
    KEY_HEADERS,
    KEY_PARTITION_KEY,
    KEY_COUNT,
    KEY_DELAY,
    KEY_AT,
    KEY_STDIN,
    KEY_QUIET
};

struct enqueue {
    struct hf__target target;
    const char *payload, *payload_file;
    char *file_bytes;
    hf_job job;
    hf_field *fields;
    size_t n_fields;
    size_t count; /* 0: not given */
    bool from_stdin, quiet;
    const char *of_a_job; /* the last option that describes a job */
};

static const struct argp_option options[] = {
    {"payload", KEY_PAYLOAD, "TEXT", 0, "What the job's handler reads", 2},
    {"payload-file", KEY_PAYLOAD_FILE, "FILE", 0, "The same from a file, byte by byte", 0},
    {"group", KEY_GROUP, "GROUP", 0, "The job's group", 0},
    {"priority", KEY_PRIORITY, "N", 0, "Its priority: a smaller number runs first", 0},
    {"partition-key", KEY_PARTITION_KEY, "KEY", 0, "Its partition key", 0},
    {"headers", KEY_HEADERS, "JSON", 0, "Its headers, a JSON object", 0},
    {"delay", KEY_DELAY, "SECONDS", 0, "Due so much later; a fraction is allowed", 0},
    {"at", KEY_AT, "TIME", 0, "Due at this time, ISO 8601, UTC unless it names an offset: 2031-12-31T23:59:59Z", 0},
    {"set", KEY_SET, "COLUMN=VALUE", 0, "A further column of the row; may be repeated", 0},
    {"count", KEY_COUNT, "N", 0, "N equal jobs (default 1). Up to 1000 are added in one step, all of them or none", 0},
    {"stdin", KEY_STDIN, NULL, 0,
     "A job for each line of standard input, a JSON object with payload, group, priority, partition_key, delay_seconds, at, headers "
     "and set, each as far as the job has it. Lines are added in steps of what is there, at most 1000",
     3},
    {"quiet", KEY_QUIET, NULL, 0, "Print how many jobs were added instead of their ids", 4},
    {0},
};

static void add_field(struct enqueue *enqueue, const char *arg, struct argp_state *state)
{
    const char *equals = strchr(arg, '=');
    if (!equals || equals == arg) {
        argp_error(state, "--set takes COLUMN=VALUE, not \"%s\"", arg);
        return;
    }
    hf_field *grown = realloc(enqueue->fields, (enqueue->n_fields + 1) * sizeof *grown);
    char *column = strndup(arg, (size_t)(equals - arg));
    if (grown) {
        enqueue->fields = grown;
    }
    if (!grown || !column) {
        free(column);
        argp_failure(state, HF__EXIT_FAILED, ENOMEM, "--set %s", arg);
        return;
    }
    grown[enqueue->n_fields++] = (hf_field){.column = column, .value = equals + 1, .len = strlen(equals + 1)};
}

static const char *headers_of(const char *arg, const struct argp_state *state)
{
    json_error_t error;
    json_t *json = json_loads(arg, JSON_DECODE_INT_AS_REAL, &error);
    if (!json_is_object(json)) {
        argp_error(state, "--headers takes a JSON object, not \"%s\"", arg);
    }
    json_decref(json);
    return arg;
}

static int64_t time_of(const char *arg, const struct argp_state *state)
{
    int64_t us = 0;
    if (!hf__time_from_text(arg, &us)) {
        argp_error(state, "--at takes " HF__TIME_WANTED ", not \"%s\"", arg);
    }
    return us;
}

/* What a line of standard input says for itself. */
static error_t parse_job(int key, char *arg, struct argp_state *state)
{
    struct enqueue *enqueue = state->input;
    switch (key) {
    case KEY_PAYLOAD:
        enqueue->payload = hf__argument(arg);
        return 0;
    case KEY_PAYLOAD_FILE:
        enqueue->payload_file = hf__argument(arg);
        return 0;
    case KEY_SET:
        add_field(enqueue, hf__argument(arg), state);
        return 0;
    case KEY_GROUP:
        enqueue->job.group = hf__argument(arg);
        return 0;
    case KEY_COUNT:
        enqueue->count = hf__option_size(state, "--count", arg, 1, 1000000000);
        return 0;
    case KEY_PRIORITY:
        enqueue->job.priority = hf__option_int(state, "--priority", arg);
        enqueue->job.has_priority = true;
        return 0;
    case KEY_HEADERS:
        enqueue->job.headers = headers_of(hf__argument(arg), state);
        return 0;
    case KEY_PARTITION_KEY:
        enqueue->job.partition_key = hf__argument(arg);
        return 0;
    case KEY_DELAY:
        enqueue->job.delay_ms = hf__option_seconds_ms(state, "--delay", arg, true);
        return 0;
    case KEY_AT:
        enqueue->job.due_us = time_of(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const struct enqueue *enqueue, const struct argp_state *state)
{
    if (enqueue->payload && enqueue->payload_file) {
        argp_error(state, "--payload and --payload-file exclude each other");
    }
    if (enqueue->job.delay_ms != 0 && enqueue->job.due_us != 0) {
        argp_error(state, "--delay and --at exclude each other");
    }
    if (enqueue->from_stdin && enqueue->of_a_job) {
        argp_error(state, "--stdin takes its jobs from the lines: --%s does not go with it", enqueue->of_a_job);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct enqueue *enqueue = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &enqueue->target;
        return 0;
    case KEY_STDIN:
        enqueue->from_stdin = true;
        return 0;
    case KEY_QUIET:
        enqueue->quiet = true;
        return 0;
    case ARGP_KEY_END:
        check(enqueue, state);
        return 0;
    default:
        break;
    }
    error_t error = parse_job(key, arg, state);
    for (const struct argp_option *option = options; error == 0 && option->name; option++) {
        enqueue->of_a_job = option->key == key ? option->name : enqueue->of_a_job;
    }
    return error;
}

/* The whole of a stream; owned. NULL with errno set. */
static char *read_stream(FILE *stream, size_t *len)
{
    char *bytes = NULL;
    size_t capacity = 0;
    *len = 0;
    do {
        if (*len == capacity) {
            capacity = capacity ? capacity * 2 : 65536;
            char *grown = realloc(bytes, capacity);
            if (!grown) {
                free(bytes);
                return NULL;
            }
            bytes = grown;
        }
        *len += fread(bytes + *len, 1, capacity - *len, stream);
    } while (!feof(stream) && !ferror(stream));
    if (ferror(stream)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static int read_payload(struct enqueue *enqueue)
{
    if (enqueue->payload) {
        enqueue->job.payload = enqueue->payload;
        enqueue->job.payload_len = strlen(enqueue->payload);
    }
    if (!enqueue->payload_file) {
        return HF__EXIT_DONE;
    }
    FILE *file = fopen(enqueue->payload_file, "re");
    enqueue->file_bytes = file ? read_stream(file, &enqueue->job.payload_len) : NULL;
    int code = enqueue->file_bytes ? HF__EXIT_DONE : hf__command_fail_text("--payload-file %s: %s", enqueue->payload_file, strerror(errno));
    enqueue->job.payload = enqueue->file_bytes;
    if (file) {
        fclose(file);
    }
    return code;
}

hf_status hf__enqueue_and_print(hf_runtime *runtime, const hf_table *table, const hf_job *jobs, size_t n, bool quiet, hf_error *err)
{
    static bool no_ids;
    hf_enqueued *ids = NULL;
    if (quiet || no_ids) {
        return hf_enqueue(runtime, table, jobs, n, NULL, err);
    }
    hf_status status = hf_enqueue(runtime, table, jobs, n, &ids, err);
    if (status == HF_UNSUPPORTED) {
        hf__command_logf(HF_LOG_WARNING, "the ids are not printed: %s", err->message);
        no_ids = true;
        return hf_enqueue(runtime, table, jobs, n, NULL, err);
    }
    for (size_t i = 0; i < hf_enqueued_count(ids); i++) {
        puts(hf_enqueued_id(ids, i));
    }
    hf_enqueued_free(ids);
    return status;
}

static int add_all(const struct enqueue *enqueue, hf_runtime *runtime, const hf_table *table, const hf_job *jobs)
{
    hf_error err = {0};
    hf_status status = HF_OK;
    size_t done = 0;
    while (status == HF_OK && done < enqueue->count) {
        size_t left = enqueue->count - done;
        size_t n = left < HF__ENQUEUE_MOST ? left : HF__ENQUEUE_MOST;
        status = hf__enqueue_and_print(runtime, table, jobs, n, enqueue->quiet, &err);
        done += status == HF_OK ? n : 0;
    }
    if (enqueue->quiet) {
        printf("%zu\n", done);
    }
    int code = hf__command_flush();
    if (status != HF_OK) {
        code = hf__command_fail(&err);
    }
    if (status != HF_OK && done > 0) {
        code = hf__command_fail_text("%zu of %zu jobs had been enqueued before that", done, enqueue->count);
    }
    return code;
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    struct enqueue *enqueue = ctx;
    if (enqueue->from_stdin) {
        return hf__enqueue_lines(runtime, table, enqueue->quiet);
    }
    int code = read_payload(enqueue);
    if (code != HF__EXIT_DONE) {
        return code;
    }
    enqueue->count = enqueue->count ? enqueue->count : 1;
    size_t n = enqueue->count < HF__ENQUEUE_MOST ? enqueue->count : HF__ENQUEUE_MOST;
    hf_job *jobs = calloc(n, sizeof *jobs);
    if (!jobs) {
        return hf__command_fail_text("out of memory");
    }
    enqueue->job.fields = enqueue->fields;
    enqueue->job.n_fields = enqueue->n_fields;
    for (size_t i = 0; i < n; i++) {
        jobs[i] = enqueue->job;
    }
    code = add_all(enqueue, runtime, table, jobs);
    free(jobs);
    return code;
}

static void free_enqueue(struct enqueue *enqueue)
{
    for (size_t i = 0; i < enqueue->n_fields; i++) {
        free((char *)enqueue->fields[i].column);
    }
    free(enqueue->fields);
    free(enqueue->file_bytes);
}

int hf__command_enqueue(int argc, char **argv)
{
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options, .parser = parse, .doc = "Adds jobs and prints their ids, one on a line.", .children = children};
    struct enqueue enqueue = {.job = HF_JOB_INIT};
    hf__command_parse(&argp, "enqueue", argc, argv, &enqueue);
    int code = enqueue.from_stdin ? hf__signals_block() : HF__EXIT_DONE;
    if (code == HF__EXIT_DONE) {
        code = hf__target_run(&enqueue.target, NULL, run, &enqueue);
    }
    free_enqueue(&enqueue);
    return code;
}
