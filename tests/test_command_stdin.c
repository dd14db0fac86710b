/* ctest: timeout=300 labels=e2e
 * holdfast enqueue --stdin: a job for each line, on all three databases. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/command.h"
#include "tests/terminal.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void on_all(void (*test)(const struct hf_test_place *place))
{
    static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};
    for (size_t i = 0; i < LENGTH(databases); i++) {
        struct hf_test_place place = hf_test_place_with(databases[i], "lease", HF_TEST_EVERY_COLUMN, "");
        test(&place);
        hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
    }
}

static int64_t rows(const struct hf_test_place *place, const char *where)
{
    return hf_test_query_int(place->url, hf_test_format("SELECT count(*) FROM %s WHERE %s", place->table, where));
}

static const char *text_of(const struct hf_test_place *place, const char *column, const char *where)
{
    return hf_test_query_text(place->url, hf_test_format("SELECT %s FROM %s WHERE %s", column, place->table, where));
}

static struct hf_test_child *feed(const struct hf_test_place *place, const char *lines)
{
    return hf_test_command_input(place, "enqueue", lines, strlen(lines), "--stdin", NULL);
}

/* So many lines, and in place of some others; owned. */
struct line {
    size_t number;
    const char *text;
};

static char *make_lines(size_t n, const struct line *others, size_t n_others)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    for (size_t i = 1; stream && i <= n; i++) {
        const char *other = NULL;
        for (size_t k = 0; k < n_others; k++) {
            other = others[k].number == i ? others[k].text : other;
        }
        if (other) {
            fprintf(stream, "%s\n", other);
        } else {
            fprintf(stream, "{\"payload\": \"line %zu\", \"priority\": %zu}\n", i, i);
        }
    }
    if (!stream || fclose(stream) != 0) {
        hf_test_fail("out of memory");
    }
    return text;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

/* ---- what a line says ---- */

static void every_key(const struct hf_test_place *place)
{
    const char *lines =
        "{\"payload\": \"caf\xC3\xA9 \\u00e9\\n\", \"group\": \"mail\", \"priority\": -7, \"partition_key\": \"c 1\"}\r\n"
        "\r\n"
        " \t\n"
        "{\"headers\": {\"a\": [1, \"}\"], \"b\": {}}, \"delay_seconds\": 600.5, \"payload\": {\"n\": 1.10, \"t\": \"],}\\\"\"}}\n"
        "{\"set\": {\"last_error\": \"told\", \"attempt\": 12, \"locked_until\": null}, \"at\": \"2031-12-31T23:59:59.25Z\"}\n"
        "{\"group\": null, \"priority\": null, \"headers\": null, \"set\": null, \"at\": null, \"delay_seconds\": null, "
        "\"partition_key\": 12, \"payload\": null}\n"
        "{}\n"
        "  {\"payload\" : 123456789012345678901234567890 , \"priority\" :9 } ";
    const char *ids = hf_test_expect(feed(place, lines), 0);
    long last = 0;
    CU_ASSERT_EQUAL_FATAL(count_lines(ids), 6);
    for (const char *at = ids; *at; at = strchr(at, '\n') + 1) {
        CU_ASSERT_TRUE_FATAL(strtol(at, NULL, 10) > last);
        last = strtol(at, NULL, 10);
    }
    bool postgres = place->database == HF__POSTGRES;
    const char *payload = postgres ? "convert_from(payload, 'UTF8')" : "payload";
    hf_test_must_be(text_of(place, payload, "queue = 'mail' AND urgency = -7 AND customer = 'c 1'"), "caf\xC3\xA9 \xC3\xA9\n");
    hf_test_must_be(text_of(place, payload, "headers IS NOT NULL"), "{\"n\": 1.10, \"t\": \"],}\\\"\"}");
    hf_test_must_contain(text_of(place, "headers", "headers IS NOT NULL"), "[1, \"}\"]");
    CU_ASSERT_EQUAL_FATAL(rows(place, "last_error = 'told' AND attempt = 12 AND locked_until IS NULL"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 12 AND retry_after > '2031-12-31 23:59:59' AND retry_after < '2032-01-01 01:00:00'"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "customer = '12' AND payload IS NULL AND queue IS NULL AND headers IS NULL AND urgency = 0"), 1);
    hf_test_must_be(text_of(place, payload, "urgency = 9"), "123456789012345678901234567890");
    const char *stats = hf_test_expect(hf_test_command(place, "stats", NULL), 0);
    hf_test_must_contain(stats, "due         4\n");
    hf_test_must_contain(stats, "delayed     2\n");
}

static void test_every_key(void)
{
    on_all(every_key);
}

static void many_lines(const struct hf_test_place *place)
{
    char *lines = make_lines(2500, NULL, 0);
    const char *ids = hf_test_expect(feed(place, lines), 0);
    CU_ASSERT_EQUAL_FATAL(count_lines(ids), 2500);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 1"), 2500);
    size_t number = 0;
    for (const char *at = ids; *at; at = strchr(at, '\n') + 1) {
        if (++number % 499 == 0) {
            const char *id = hf_test_format("id = %.*s", (int)strcspn(at, "\n"), at);
            hf_test_must_be(text_of(place, "urgency", id), hf_test_format("%zu", number));
        }
    }
    const char *count = hf_test_expect(hf_test_command_input(place, "enqueue", lines, strlen(lines), "--stdin", "--quiet", NULL), 0);
    hf_test_must_be(count, "2500\n");
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 1"), 5000);
    free(lines);
}

static void test_many_lines(void)
{
    on_all(many_lines);
}

/* Longer than any buffer, and longer together than one batch takes. */
static void long_lines(const struct hf_test_place *place)
{
    enum { LONG = 3000000 };
    char *payload = malloc(LONG + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(payload);
    memset(payload, 'x', LONG);
    payload[LONG] = '\0';
    const char *line = hf_test_format("{\"payload\":\"%s\"}", payload);
    free(payload);
    const struct line others[] = {{2, line}, {4, line}, {5, line}};
    char *lines = make_lines(5, others, LENGTH(others));
    hf_test_expect(feed(place, lines), 0);
    free(lines);
    CU_ASSERT_EQUAL_FATAL(rows(place, "length(payload) = 3000000"), 3);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 5);
}

static void test_long_lines(void)
{
    on_all(long_lines);
}

/* ---- bad lines ---- */

static const struct {
    const char *line, *message;
} bad_lines[] = {
    {"{\"payload\": \"x\"", "line 2: '}' expected"},
    {"[1]", "line 2: it is not a JSON object"},
    {"7", "line 2: it is not a JSON object"},
    {"{\"payload\": \"\xFF\"}", "line 2: it is not UTF-8"},
    {"{\"payload\": \"\\u0000\"}", "line 2: it holds a NUL character"},
    {"{\"payload\": 1, \"payload\": 2}", "line 2: duplicate object key"},
    {"{\"prio\": 1}", "line 2: there is no \"prio\"; a job takes payload, group, priority"},
    {"{\"priority\": 1.5}", "line 2: \"priority\" takes a whole number of 64 bits, not 1.5"},
    {"{\"priority\": 9223372036854775808}", "line 2: \"priority\" takes a whole number"},
    {"{\"priority\": \"1\"}", "line 2: \"priority\" takes a whole number of 64 bits, not \"1\""},
    {"{\"group\": [\"a\"]}", "line 2: \"group\" takes a string or a number, not [\"a\"]"},
    {"{\"delay_seconds\": -1}", "line 2: \"delay_seconds\" takes seconds"},
    {"{\"delay_seconds\": \"1\"}", "line 2: \"delay_seconds\" takes seconds"},
    {"{\"at\": \"2031-02-30T00:00:00Z\"}", "line 2: \"at\" takes a time"},
    {"{\"at\": \"1970-01-01T00:00:00Z\"}", "line 2: \"at\" takes a time after 1970"},
    {"{\"at\": 1924992245}", "line 2: \"at\" takes a time"},
    {"{\"at\": \"2031-01-01T00:00:00Z\", \"delay_seconds\": 1}", "line 2: \"delay_seconds\" and \"at\" exclude each other"},
    {"{\"headers\": \"a\"}", "line 2: \"headers\" takes an object"},
    {"{\"set\": [1]}", "line 2: \"set\" takes an object"},
    {"{\"group\": \"g\", \"set\": {\"queue\": \"h\"}}", "line 2: table "},
    {"{\"set\": {\"nonsense\": 1}}", "line 2: "},
};

static void test_bad_lines(void)
{
    struct hf_test_place place = hf_test_place_with(HF__SQLITE, "lease", HF_TEST_EVERY_COLUMN, "");
    for (size_t i = 0; i < LENGTH(bad_lines); i++) {
        const char *lines = hf_test_format("{\"payload\": \"a\"}\n%s\n{\"payload\": \"b\"}\n", bad_lines[i].line);
        hf_test_must_contain(hf_test_expect_error(feed(&place, lines), 1),
                             hf_test_format("holdfast: line 1 is enqueued; %s", bad_lines[i].message));
        CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), (int64_t)i + 1);
    }
    static const char nul[] = "{\"payload\": \"a\"}\n{\"payload\": \"\0\"}\n";
    struct hf_test_child *child = hf_test_command_input(&place, "enqueue", nul, sizeof nul - 1, "--stdin", NULL);
    hf_test_must_contain(hf_test_expect_error(child, 1), "line 2: it holds a NUL byte");
    hf_test_must_contain(hf_test_expect_error(feed(&place, "nonsense\n"), 1), "holdfast: nothing is enqueued; line 1: ");
    hf_test_must_be(hf_test_expect(feed(&place, "\n\n"), 0), "");
    hf_test_must_be(hf_test_expect(feed(&place, ""), 0), "");
    const char *marked = hf_test_expect(feed(&place, "\xEF\xBB\xBF{\"payload\": \"first\"}"), 0);
    CU_ASSERT_EQUAL_FATAL(count_lines(marked), 1);
}

/* In the middle of the second batch. */
static void bad_line_named(const struct hf_test_place *place)
{
    static const struct line bad[] = {{1418, "{\"payload\": }"}};
    char *lines = make_lines(3000, bad, LENGTH(bad));
    struct hf_test_child *child = hf_test_command_input(place, "enqueue", lines, strlen(lines), "--stdin", "--quiet", NULL);
    hf_test_must_contain(hf_test_expect_error(child, 1),
                         "holdfast: lines 1 to 1,417 are enqueued; line 1,418: unexpected token near '}'\n");
    free(lines);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1417);
    CU_ASSERT_EQUAL_FATAL(hf_test_query_int(place->url, hf_test_format("SELECT count(DISTINCT urgency) FROM %s", place->table)), 1417);
    CU_ASSERT_EQUAL_FATAL(hf_test_query_int(place->url, hf_test_format("SELECT max(urgency) FROM %s", place->table)), 1417);
}

static void test_bad_line_named(void)
{
    on_all(bad_line_named);
}

/* A line that only the database can refuse: its id stands in an earlier line, of the same batch or not. */
static void refused_line_named(const struct hf_test_place *place, size_t first, size_t second)
{
    const char *same = "{\"payload\": \"same\", \"set\": {\"id\": 1000000000}}";
    const struct line others[] = {{first, same}, {second, same}};
    char *lines = make_lines(2500, others, LENGTH(others));
    struct hf_test_child *child = feed(place, lines);
    CU_ASSERT_EQUAL_FATAL(hf_test_wait(child, 60000), 1);
    const char *message = hf_test_format("%s", hf_test_stderr(child));
    CU_ASSERT_EQUAL_FATAL(count_lines(hf_test_stdout(child)), second - 1);
    hf_test_free(child);
    free(lines);
    hf_test_must_contain(message,
                         second == 2 ? "holdfast: line 1 is enqueued; line 2: " : "holdfast: lines 1 to 1,234 are enqueued; line 1,235: ");
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), (int64_t)second - 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "urgency > 0"), (int64_t)second - 2);
    CU_ASSERT_EQUAL_FATAL(rows(place, hf_test_format("urgency >= %zu", second)), 0);
    hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->table));
}

static void refused_lines_named(const struct hf_test_place *place)
{
    refused_line_named(place, 1, 2);
    refused_line_named(place, 700, 1235);
    refused_line_named(place, 1100, 1235);
}

static void test_refused_line_named(void)
{
    on_all(refused_lines_named);
}

static void test_no_database(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "lease");
    place.url = "postgresql://u:secret@127.0.0.1:1/x";
    const char *message = hf_test_expect_error(feed(&place, "{}\n{}\n"), 1);
    hf_test_must_contain(message, "holdfast: nothing is enqueued; ");
    hf_test_must_not_contain(message, "line 1");
    hf_test_must_not_contain(message, "secret");
}

/* ---- time ---- */

/* A named pipe that the test writes to while the command reads. */
struct producer {
    int fd;
    struct hf_test_child *child;
};

static struct producer start_producer(const struct hf_test_place *place, const char *more)
{
    const char *path = hf_test_format("%s/pipe", place->dir);
    const char *command = hf_test_format("exec '%s' enqueue --db '%s' --table '%s' --stdin %s <'%s'", hf_test_program("holdfast"),
                                         place->url, place->description, more, path);
    const char *const argv[] = {"sh", "-c", command, NULL};
    unlink(path);
    if (mkfifo(path, 0600) != 0) {
        hf_test_fail("a named pipe could not be made");
    }
    struct producer producer = {.fd = open(path, O_RDWR | O_CLOEXEC), .child = hf_test_start(argv, NULL)};
    CU_ASSERT_TRUE_FATAL(producer.fd >= 0);
    return producer;
}

static void produce(const struct producer *producer, const char *text)
{
    CU_ASSERT_EQUAL_FATAL(write(producer->fd, text, strlen(text)), (ssize_t)strlen(text));
}

struct wanted {
    const struct hf_test_place *place;
    int64_t rows;
};

static bool has_rows(void *arg)
{
    const struct wanted *wanted = arg;
    return rows(wanted->place, "1 = 1") == wanted->rows;
}

static void wait_for_rows(const struct hf_test_place *place, int64_t n)
{
    struct wanted wanted = {.place = place, .rows = n};
    if (!hf_test_wait_until(has_rows, &wanted, 20000)) {
        hf_test_fail("%lld rows, not %lld", (long long)rows(place, "1 = 1"), (long long)n);
    }
}

/* What is there is enqueued while the producer thinks about the rest; half a line waits for its other half. */
static void slow_producer(const struct hf_test_place *place)
{
    struct producer producer = start_producer(place, "");
    produce(&producer, "{\"payload\": \"one\"}\n");
    wait_for_rows(place, 1);
    produce(&producer, "{\"payload\": \"two\"}\n{\"payload\": \"three\"}\n{\"payload\": \"fo");
    wait_for_rows(place, 3);
    CU_ASSERT_TRUE_FATAL(hf_test_running(producer.child));
    produce(&producer, "ur\"}");
    close(producer.fd);
    CU_ASSERT_EQUAL_FATAL(count_lines(hf_test_expect(producer.child, 0)), 4);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 4);
}

static void test_slow_producer(void)
{
    on_all(slow_producer);
}

static void stopped_by_signal(const struct hf_test_place *place)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < LENGTH(signals); i++) {
        struct producer producer = start_producer(place, "--quiet");
        produce(&producer, "{\"payload\": \"a\"}\n{\"payload\": \"b\"}\n{\"payload\": \"half");
        wait_for_rows(place, 2 * ((int64_t)i + 1));
        hf_test_kill(producer.child, signals[i]);
        CU_ASSERT_EQUAL_FATAL(hf_test_wait(producer.child, 20000), 1);
        hf_test_must_be(hf_test_stderr(producer.child), "holdfast: lines 1 to 2 are enqueued; stopped by a signal\n");
        hf_test_must_be(hf_test_stdout(producer.child), "2\n");
        hf_test_free(producer.child);
        close(producer.fd);
    }
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 2 * (int64_t)LENGTH(signals));
}

static void test_signals(void)
{
    on_all(stopped_by_signal);
}

static bool has_a_batch(void *place)
{
    return rows(place, "1 = 1") >= 1000;
}

/* A stream that never pauses. */
static void test_signal_in_a_flood(void)
{
    struct hf_test_place place = hf_test_place(HF__SQLITE, "lease");
    struct producer producer = start_producer(&place, "--quiet");
    const char *flood = hf_test_format("exec yes '{\"payload\": \"x\"}' >'%s/pipe'", place.dir);
    const char *const argv[] = {"sh", "-c", flood, NULL};
    struct hf_test_child *yes = hf_test_start(argv, NULL);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(has_a_batch, &place, 20000));
    hf_test_kill(producer.child, SIGINT);
    CU_ASSERT_EQUAL_FATAL(hf_test_wait(producer.child, 20000), 1);
    hf_test_must_contain(hf_test_stderr(producer.child), " are enqueued; stopped by a signal\n");
    hf_test_must_be(hf_test_stdout(producer.child), hf_test_format("%lld\n", (long long)rows(&place, "1 = 1")));
    hf_test_free(producer.child);
    hf_test_free(yes);
    close(producer.fd);
}

/* ---- on a terminal ---- */

static const char *on_terminal(const struct hf_test_place *place, const char *redirections)
{
    const char *command = hf_test_format("'%s' enqueue --db '%s' --table '%s' --stdin %s", hf_test_program("holdfast"), place->url,
                                         place->description, redirections);
    const char *const argv[] = {"sh", "-c", command, NULL};
    int code = -1;
    const char *shown = hf_test_on_terminal(argv, &code);
    CU_ASSERT_EQUAL(code, 0);
    return shown;
}

static void test_progress(void)
{
    struct hf_test_place place = hf_test_place_with(HF__SQLITE, "lease", HF_TEST_EVERY_COLUMN, "");
    char *lines = make_lines(1500, NULL, 0);
    const char *input = hf_test_write_file(place.dir, "lines", lines, strlen(lines));
    struct hf_test_child *child = feed(&place, lines);
    hf_test_must_be(hf_test_expect_error(child, 0), "");
    free(lines);
    const char *shown = on_terminal(&place, hf_test_format("--quiet <%s", input));
    hf_test_must_contain(shown, "1,000 lines, ");
    hf_test_must_contain(shown, " a second");
    hf_test_must_not_contain(on_terminal(&place, hf_test_format("<%s", input)), " a second"); /* the ids would write over it */
    hf_test_must_contain(on_terminal(&place, hf_test_format("<%s >/dev/null", input)), " a second");
}

/* ---- usage ---- */

static void test_usage(void)
{
    static const char *const of_a_job[][2] = {
        {"--payload", "x"}, {"--payload-file", "x"}, {"--group", "x"}, {"--priority", "1"},      {"--headers", "{}"},
        {"--delay", "1"},   {"--count", "2"},        {"--set", "a=b"}, {"--partition-key", "x"}, {"--at", "2031-01-01T00:00Z"}};
    struct hf_test_place place = {.url = "sqlite:/nowhere/x", .description = "/nowhere/y"};
    for (size_t i = 0; i < LENGTH(of_a_job); i++) {
        struct hf_test_child *child = hf_test_command(&place, "enqueue", "--stdin", of_a_job[i][0], of_a_job[i][1], NULL);
        hf_test_must_contain(hf_test_expect_error(child, 2), hf_test_format(": %s does not go with it", of_a_job[i][0]));
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"every key of a line", test_every_key},
        {"thousands of lines", test_many_lines},
        {"lines of megabytes", test_long_lines},
        {"what is wrong with a line is said", test_bad_lines},
        {"a bad line is named, what stands before it is in", test_bad_line_named},
        {"a line that the database refuses is named", test_refused_line_named},
        {"no database", test_no_database},
        {"a slow producer is not waited for", test_slow_producer},
        {"a signal ends it between two batches", test_signals},
        {"a signal in a flood of lines", test_signal_in_a_flood},
        {"progress on a terminal alone", test_progress},
        {"what does not go with --stdin", test_usage},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "command_stdin", tests);
}
