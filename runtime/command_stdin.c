/* holdfast enqueue --stdin: a job for each line, in batches of what is there, each of them all or nothing.
 *
 * At every moment the lines up to one of them are in, and none after it: so a bad line, a signal or a failure ends with the number of
 * that line, and whoever mends the input knows where to go on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/error.h"
#include "runtime/command_enqueue.h"
#include "runtime/command_line_job.h"
#include "runtime/command_lines.h"
#include "runtime/command_signals.h"
#include "runtime/runtime.h"

#define BYTES_MOST ((size_t)1024 * 1024) /* of a batch's lines: one statement must fit into what every server takes */
#define TRIES 6                          /* of a batch that the database asks to try again */
#define FIRST_PAUSE_MS 50                /* before the second of them, then twice as long each time */
#define PROGRESS_NS INT64_C(200000000)

struct feed {
    hf_runtime *runtime;
    const hf_table *table;
    bool quiet, numeric_booleans;
    struct hf__lines lines;
    size_t in;   /* the last line that is in: all before it are, too */
    size_t jobs; /* how many that were: some lines are empty */
    struct hf__line_job *batch;
    hf_job *list;    /* of the batch, as hf_enqueue takes it */
    size_t *numbers; /* the batch's lines */
    size_t n, bytes;
    bool progress;
    struct timespec start;
    int64_t shown_ns; /* after the start */
};

/* ---- what is said ---- */

static int64_t since_start_ns(const struct feed *feed)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - feed->start.tv_sec) * INT64_C(1000000000) + (now.tv_nsec - feed->start.tv_nsec);
}

static void show_progress(struct feed *feed)
{
    char lines[HF__NUMBER_TEXT];
    char rate[HF__NUMBER_TEXT];
    int64_t now_ns = since_start_ns(feed);
    if (!feed->progress || (feed->shown_ns > 0 && now_ns - feed->shown_ns < PROGRESS_NS)) {
        return;
    }
    feed->shown_ns = now_ns;
    double seconds = (double)now_ns / 1e9;
    fprintf(stderr, "\r\033[K%s lines, %s a second", hf__number_text(feed->in, lines),
            hf__number_text(seconds > 0 ? (uint64_t)((double)feed->in / seconds) : 0, rate));
}

static void clear_progress(struct feed *feed)
{
    if (feed->shown_ns > 0) {
        fputs("\r\033[K", stderr);
        feed->shown_ns = 0;
    }
}

/* "lines 1 to 1,417 are enqueued". */
#define IN_TEXT (HF__NUMBER_TEXT + sizeof "lines 1 to  are enqueued")
static const char *what_is_in(const struct feed *feed, char out[IN_TEXT])
{
    char number[HF__NUMBER_TEXT];
    const char *before = feed->in == 1 ? "line " : "lines 1 to ";
    if (feed->in == 0) {
        return "nothing is enqueued";
    }
    snprintf(out, IN_TEXT, "%s%s %s enqueued", before, hf__number_text(feed->in, number), feed->in == 1 ? "is" : "are");
    return out;
}

static int fail_at(struct feed *feed, size_t line, const hf_error *err)
{
    char in[IN_TEXT];
    char number[HF__NUMBER_TEXT];
    clear_progress(feed);
    return hf__command_fail_text("%s; line %s: %s", what_is_in(feed, in), hf__number_text(line, number), err->message);
}

static int fail(struct feed *feed, const char *why)
{
    char in[IN_TEXT];
    clear_progress(feed);
    return hf__command_fail_text("%s; %s", what_is_in(feed, in), why);
}

/* No line is to blame; whether the batch is in may not be known. */
static int fail_batch(struct feed *feed, size_t from, size_t n, const hf_error *err)
{
    bool known = err->status != HF_LOST && err->status != HF_TIMEOUT && err->status != HF_UNKNOWN;
    if (known) {
        return fail(feed, err->message[0] ? err->message : hf_status_text(err->status));
    }
    char in[IN_TEXT];
    char first[HF__NUMBER_TEXT];
    char last[HF__NUMBER_TEXT];
    clear_progress(feed);
    return hf__command_fail_text("%s; whether lines %s to %s are is not known, look into the table: %s", what_is_in(feed, in),
                                 hf__number_text(feed->numbers[from], first), hf__number_text(feed->numbers[from + n - 1], last),
                                 err->message);
}

/* ---- a batch ---- */

static void empty_batch(struct feed *feed)
{
    for (size_t i = 0; i < feed->n; i++) {
        hf__line_job_free(&feed->batch[i]);
    }
    feed->n = feed->bytes = 0;
}

/* A deadlock, a server that is starting up, and the like; nothing was enqueued then. A signal ends the waiting. */
static hf_status enqueue(struct feed *feed, size_t from, size_t n, hf_error *err)
{
    hf_status status = HF_TRANSIENT;
    int pause_ms = FIRST_PAUSE_MS;
    for (size_t tried = 0; status == HF_TRANSIENT && tried < TRIES; tried++) {
        if (tried > 0 && hf__readable(feed->lines.signal_fd, pause_ms)) {
            break;
        }
        pause_ms *= tried > 0 ? 2 : 1;
        status = hf__enqueue_and_print(feed->runtime, feed->table, feed->list + from, n, feed->quiet, err);
    }
    return status;
}

static bool blames_a_line(hf_status status)
{
    return status == HF_INVALID || status == HF_DATABASE;
}

/* What the database refuses is halved until one line is left; the halves before it go in on the way. */
static int enqueue_batch(struct feed *feed)
{
    hf_error err = {0};
    size_t refused = 0; /* the end of the smallest run that was refused */
    for (size_t from = 0, n = feed->n; from < feed->n;) {
        hf_status status = enqueue(feed, from, n, &err);
        if (status == HF_OK) {
            from += n;
            feed->jobs += n;
            feed->in = feed->numbers[from - 1];
            n = refused > from ? (refused - from + 1) / 2 : feed->n - from;
        } else if (!blames_a_line(status)) {
            return fail_batch(feed, from, n, &err);
        } else if (n == 1) {
            return fail_at(feed, feed->numbers[from], &err);
        } else {
            refused = from + n;
            n /= 2;
        }
    }
    return HF__EXIT_DONE;
}

static int commit(struct feed *feed)
{
    int code = enqueue_batch(feed);
    empty_batch(feed);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fail(feed, "the ids could not be written to standard output");
    }
    if (code == HF__EXIT_DONE) {
        show_progress(feed);
    }
    return code;
}

/* ---- the lines ---- */

static bool is_blank(const char *text, size_t len)
{
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    return len == 0;
}

static hf_status add(struct feed *feed, const char *text, size_t len, hf_error *err)
{
    if (is_blank(text, len)) {
        return HF_OK;
    }
    struct hf__line_job *job = &feed->batch[feed->n];
    hf_status status = hf__line_job_make(job, text, len, feed->numeric_booleans, err);
    if (status != HF_OK) {
        hf__line_job_free(job);
        return status;
    }
    feed->list[feed->n] = job->job;
    feed->numbers[feed->n++] = feed->lines.number;
    feed->bytes += len;
    return HF_OK;
}

/* Lines until the batch is full or no more are there. HF__LINE: to be enqueued, and on. With err filled the last one is bad. */
static enum hf__line fill(struct feed *feed, hf_error *err)
{
    char *text = NULL;
    size_t len = 0;
    while (feed->n < HF__ENQUEUE_MOST && feed->bytes < BYTES_MOST) {
        enum hf__line line = hf__lines_next(&feed->lines, feed->n == 0, &text, &len);
        if (line != HF__LINE) {
            return line == HF__LINE_PAUSE ? HF__LINE : line;
        }
        if (add(feed, text, len, err) != HF_OK) {
            break;
        }
    }
    return HF__LINE;
}

static int end(struct feed *feed, enum hf__line why)
{
    char text[256];
    switch (why) {
    case HF__LINE_SIGNAL:
        return fail(feed, "stopped by a signal");
    case HF__LINE_ERROR:
        snprintf(text, sizeof text, "standard input: %s", strerror(feed->lines.error));
        return fail(feed, text);
    default:
        return HF__EXIT_DONE;
    }
}

static int enqueue_all(struct feed *feed)
{
    for (;;) {
        hf_error bad = {0};
        enum hf__line line = fill(feed, &bad);
        int code = line == HF__LINE_SIGNAL ? HF__EXIT_DONE : commit(feed);
        if (code != HF__EXIT_DONE) {
            return code;
        }
        if (bad.status != HF_OK) {
            return fail_at(feed, feed->lines.number, &bad);
        }
        if (line != HF__LINE) {
            return end(feed, line);
        }
    }
}

static int run(struct feed *feed)
{
    feed->batch = calloc(HF__ENQUEUE_MOST, sizeof *feed->batch);
    feed->list = calloc(HF__ENQUEUE_MOST, sizeof *feed->list);
    feed->numbers = calloc(HF__ENQUEUE_MOST, sizeof *feed->numbers);
    int code = feed->batch && feed->list && feed->numbers ? enqueue_all(feed) : hf__command_fail_text("out of memory");
    clear_progress(feed);
    if (feed->batch) {
        empty_batch(feed);
    }
    free(feed->batch);
    free(feed->list);
    free(feed->numbers);
    return code;
}

/* The ids of a terminal would write over it. */
static bool wants_progress(bool quiet)
{
    return isatty(STDERR_FILENO) && (quiet || !isatty(STDOUT_FILENO));
}

int hf__enqueue_lines(hf_runtime *runtime, const hf_table *table, bool quiet)
{
    struct feed feed = {.runtime = runtime,
                        .table = table,
                        .quiet = quiet,
                        .numeric_booleans = runtime->url->database != HF__POSTGRES,
                        .progress = wants_progress(quiet),
                        .lines = {.fd = STDIN_FILENO, .signal_fd = hf__signals_open()}};
    if (feed.lines.signal_fd < 0) {
        return hf__command_fail_text("signals cannot be watched: %s", strerror(errno));
    }
    clock_gettime(CLOCK_MONOTONIC, &feed.start);
    int code = run(&feed);
    hf__lines_free(&feed.lines);
    close(feed.lines.signal_fd);
    if (quiet) {
        printf("%zu\n", feed.jobs);
    }
    return code == HF__EXIT_DONE ? hf__command_flush() : code;
}
