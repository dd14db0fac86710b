/* ctest: timeout=300 labels=e2e
 * holdfast-bench compare on each database: the table, the JSON, the page, what is left behind, and what a password becomes. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench_tables.h"
#include "tests/command.h"
#include "tests/markup.h"

#define LIMIT_MS 120000
#define LEASE_MS 1000

static const char *const words[] = {"row lock", "lease", "advisory lock"}, *const names[] = {"row_lock", "lease", "advisory"};

static pid_t last; /* process that compared */

static bool offers(enum hf__database database, size_t strategy)
{
    return strategy > 0 || database != HF__SQLITE;
}

/* Its output, and what it complained of; both live until the process ends. */
static const char *compare_with(const char *url, const char *strategy, const char *option, const char *value, const char **complaints)
{
    const char *argv[] = {hf_test_program("holdfast-bench"),
                          "compare",
                          "--db",
                          url,
                          "--workers",
                          "2",
                          "--jobs",
                          "100",
                          "--handler-ms",
                          "uniform:10-30",
                          "--lease-seconds",
                          "1",
                          option,
                          value,
                          strategy ? "--strategy" : NULL,
                          strategy,
                          NULL};
    struct hf_test_child *child = hf_test_start(argv, NULL);
    last = hf_test_pid(child);
    int code = hf_test_wait(child, LIMIT_MS);
    if (code != 0) {
        hf_test_fail("compare ended with %d: %s", code, hf_test_stderr(child));
    }
    const char *output = hf_test_format("%s", hf_test_stdout(child));
    *complaints = hf_test_format("%s", hf_test_stderr(child));
    hf_test_free(child);
    return output;
}

static const char *compare(const char *url, const char *strategy, const char *option, const char *value)
{
    const char *complaints = NULL, *output = compare_with(url, strategy, option, value, &complaints);
    CU_ASSERT_STRING_EQUAL(complaints, ""); /* no progress in a pipe, and no warning */
    return output;
}

/* ---- the table ---- */

/* The table of the README is one that this command prints: the same lines, in the same order. */
static void check_readme(const char *table)
{
    const char *readme = hf_test_read_file(HF_TEST_SOURCE_DIR "/README.md"), *line = strstr(readme, "\n| jobs per second |");
    CU_ASSERT_PTR_NOT_NULL_FATAL(line);
    size_t n = 0;
    for (line++; *line == '|'; line += strcspn(line, "\n") + 1, n++) {
        static const char part[] = "| \xc2\xb7 "; /* a middle dot for what is indented here */
        bool indented = strncmp(line, part, sizeof part - 1) == 0;
        const char *name = line + (indented ? sizeof part - 1 : 2);
        const char *wanted = hf_test_format("\n%s%.*s ", indented ? "  " : "", (int)(strstr(name, " |") - name), name);
        const char *found = strstr(table, wanted);
        if (!found)
            hf_test_fail("the README has a line \"%s\" that is not in order in:\n%s", wanted + 1, table);
        table = found;
    }
    CU_ASSERT(n >= 16);
    const char *plot = hf_test_read_file(HF_TEST_SOURCE_DIR "/bench/held.svg"), *fault = hf_test_markup_fault(plot);
    CU_ASSERT_PTR_NOT_NULL(strstr(readme, "](bench/held.svg)"));
    if (fault)
        hf_test_fail("bench/held.svg: %s", fault);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(plot, words[i]));
    CU_ASSERT(hf_test_occurrences(plot, "class=\"dot ") >= 3 && hf_test_occurrences(plot, "class=\"line") >= 3);
}

static void check_table(const char *table, enum hf__database database)
{
    const char *head = strchr(table, '\n');
    CU_ASSERT_PTR_NOT_NULL_FATAL(head);
    char *heading = strndup(head + 2, strcspn(head + 2, "\n"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(heading);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(strstr(heading, words[i]) != NULL, offers(database, i));
    }
    free(heading);
    static const char *const lines[] = {"\njobs per second ",
                                        "\njobs per second per connection ",
                                        "\nconnections held per delivery ",
                                        "\nmost connections in use ",
                                        "\nconnection time per job, ms ",
                                        "\n  claim, ms ",
                                        "\nround trips per job ",
                                        "\ncommits per job ",
                                        "\nbegun to settled, p50, ms ",
                                        "\nbegun to settled, p99, ms ",
                                        "\nkilled worker's row runs again after, s "};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!strstr(table, lines[i])) {
            hf_test_fail("no line \"%s\" in:\n%s", lines[i] + 1, table);
        }
    }
    CU_ASSERT_PTR_NULL(strstr(table, "\xe2\x80\x93")); /* all was measured */
    for (const char *line = table; *line; line += strcspn(line, "\n") + 1) {
        CU_ASSERT(strcspn(line, "\n") <= 100);
    }
}

/* ---- the JSON ---- */

static double real_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) {
        hf_test_fail("\"%s\" is no number", name);
    }
    return json_number_value(value);
}

static void check_result(const json_t *result, size_t strategy, enum hf__database database)
{
    const json_t *connections = json_object_get(result, "connections");
    bool held = strategy == 0 || (strategy == 2 && database != HF__SQLITE);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(result, "strategy")), names[strategy]);
    CU_ASSERT(real_of(result, "jobs_per_second") > 0);
    CU_ASSERT_EQUAL(real_of(result, "lost"), 0);
    CU_ASSERT_EQUAL(real_of(result, "duplicates"), 0);
    CU_ASSERT_DOUBLE_EQUAL(real_of(connections, "held_per_delivery"), held ? 1 : 0, 0.1);
    double crash_ms = real_of(result, "crash_ms");
    CU_ASSERT(crash_ms > 0);
    CU_ASSERT(strategy != 1 || crash_ms > 0.6 * LEASE_MS); /* it began a little before the kill */
}

static void check_json(const char *text, enum hf__database database)
{
    json_error_t error;
    json_t *list = json_loads(text, 0, &error);
    if (!json_is_array(list)) {
        hf_test_fail("no array: %s in %s", error.text, text);
    }
    size_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        if (offers(database, i)) {
            check_result(json_array_get(list, at++), i, database);
        }
    }
    CU_ASSERT_EQUAL(json_array_size(list), at);
    json_decref(list);
}

static void check_database(enum hf__database database)
{
    const char *url = hf_test_url(database);
    const char *table = compare(url, NULL, NULL, NULL);
    check_table(table, database);
    if (database == HF__POSTGRES)
        check_readme(table);
    check_json(compare(url, NULL, "--json", NULL), database);
    CU_ASSERT_EQUAL(hf_test_bench_tables(url, last), 0);
}

static void on_postgres(void)
{
    check_database(HF__POSTGRES);
}

static void on_mysql(void)
{
    check_database(HF__MYSQL);
}

static void on_sqlite(void)
{
    check_database(HF__SQLITE);
}

/* ---- the page ---- */

static char *read_file(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *in = fopen(path, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(in);
    CU_ASSERT_FATAL(getdelim(&text, &size, '\0', in) > 0);
    CU_ASSERT_EQUAL(fclose(in), 0);
    return text;
}

/* Behind a pooler in transaction mode no session can keep a lock: the others are compared, and that is said. */
static void what_is_not_offered(void)
{
    const char *complaints = NULL, *url = hf_test_format("%s?pooler=transaction", hf_test_postgres_url());
    json_t *list = json_loads(compare_with(url, NULL, "--json", NULL, &complaints), 0, NULL);
    CU_ASSERT_EQUAL(json_array_size(list), 2);
    json_decref(list);
    CU_ASSERT_PTR_NOT_NULL(strstr(complaints, "advisory lock is left out: "));
}

static void the_page_tells_no_password(void)
{
    const char *url = hf_test_postgres_url(), *path = hf_test_format("/tmp/%s.html", hf_test_scratch("hf_compare"));
    const char *secret = strchr(strstr(url, "://") + 3, ':') + 1;
    char *password = strndup(secret, strcspn(secret, "@"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(password);
    (void)compare(url, "advisory", "--html", path);
    char *page = read_file(path);
    CU_ASSERT_PTR_NULL(strstr(page, password));
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "holdfast-bench compare --db postgresql://"));
    CU_ASSERT_PTR_NULL(strstr(page, ">not measured<"));
    CU_ASSERT_PTR_NULL(strstr(page, ">no samples"));
    CU_ASSERT_EQUAL(unlink(path), 0);
    free(page);
    free(password);
}

/* ---- interrupted ---- */

struct watched {
    const char *url;
    struct hf_test_child *child;
};

/* In the run, or while the killed worker's lease lasts: both end in the same way. */
static bool has_a_table(void *arg)
{
    const struct watched *watched = arg;
    return !hf_test_running(watched->child) || hf_test_bench_tables(watched->url, last) > 0;
}

static void ctrl_c_ends_in_order(void)
{
    struct watched watched = {.url = hf_test_sqlite_url()};
    const char *argv[] = {hf_test_program("holdfast-bench"),
                          "compare",
                          "--db",
                          watched.url,
                          "--workers",
                          "1",
                          "--jobs",
                          "20",
                          "--strategy",
                          "lease",
                          "--lease-seconds",
                          "60",
                          NULL};
    watched.child = hf_test_start(argv, NULL);
    last = hf_test_pid(watched.child);
    CU_ASSERT_TRUE(hf_test_wait_until(has_a_table, &watched, LIMIT_MS));
    hf_test_kill(watched.child, SIGINT);
    CU_ASSERT_EQUAL(hf_test_wait(watched.child, 30000), 1); /* and not after the minute of the lease */
    CU_ASSERT_PTR_NOT_NULL(strstr(hf_test_stderr(watched.child), "interrupted"));
    CU_ASSERT_EQUAL(hf_test_bench_tables(watched.url, last), 0);
    hf_test_free(watched.child);
}

static void a_page_that_cannot_be_written(void)
{
    const char *argv[] = {hf_test_program("holdfast-bench"),
                          "compare",
                          "--db",
                          hf_test_sqlite_url(),
                          "--strategy",
                          "advisory",
                          "--workers",
                          "1",
                          "--jobs",
                          "10",
                          "--html",
                          "/nowhere/page.html",
                          NULL};
    struct hf_test_child *child = hf_test_start(argv, NULL);
    CU_ASSERT_EQUAL(hf_test_wait(child, LIMIT_MS), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(hf_test_stderr(child), "/nowhere/page.html"));
    CU_ASSERT_STRING_EQUAL(hf_test_stdout(child), ""); /* it is known before anything is measured */
    hf_test_free(child);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"on PostgreSQL", on_postgres},
                           {"on MariaDB", on_mysql},
                           {"on SQLite", on_sqlite},
                           {"what the server does not offer", what_is_not_offered},
                           {"the page tells no password", the_page_tells_no_password},
                           {"Ctrl-C ends in order", ctrl_c_ends_in_order},
                           {"a page that cannot be written", a_page_that_cannot_be_written},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_compare", tests);
}
