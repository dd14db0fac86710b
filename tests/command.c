#include "tests/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIMIT_MS 60000
#define MAX_ARGUMENTS 40

static const char *scratch_dir(void)
{
    const char *base = getenv("HF_TEST_SQLITE_DIR");
    if (!base || !*base) {
        hf_test_fail("HF_TEST_SQLITE_DIR is not set: run this test with `sh tests/run.sh`");
        return "";
    }
    const char *dir = hf_test_format("%s/%s", base, hf_test_scratch("command"));
    if (mkdir(dir, 0700) != 0) {
        hf_test_fail("%s: %s", dir, strerror(errno));
    }
    return dir;
}

const char *hf_test_write_file(const char *dir, const char *name, const void *bytes, size_t len)
{
    const char *path = hf_test_format("%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
        hf_test_fail("%s: %s", path, strerror(errno));
    }
    return path;
}

const char *hf_test_read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    FILE *copy = open_memstream(&text, &len);
    for (int c = file && copy ? fgetc(file) : EOF; c != EOF; c = fgetc(file)) {
        fputc(c, copy);
    }
    if (file) {
        fclose(file);
    }
    if (!copy || fclose(copy) != 0) {
        hf_test_fail("%s: out of memory", path);
    }
    const char *kept = hf_test_format("%s", text);
    free(text);
    return kept;
}

static const char *special(const char *strategy)
{
    if (strcmp(strategy, "lease") == 0) {
        return ", \"locked_until\": \"locked_until\" }, \"lease_seconds\": 5";
    }
    if (strcmp(strategy, "advisory") == 0) {
        return " }, \"advisory_lock\": \"key-{id}\"";
    }
    return " }";
}

struct hf_test_place hf_test_place_with(enum hf__database database, const char *strategy, const char *columns, const char *settings)
{
    struct hf_test_place place = {
        .database = database, .url = hf_test_url(database), .table = hf_test_scratch("jobs"), .strategy = strategy, .dir = scratch_dir()};
    const char *json =
        hf_test_format("{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", "
                       "\"retry_after\": \"retry_after\", \"last_error\": \"last_error\"%s%s%s }",
                       place.table, columns, special(strategy), settings);
    place.description = hf_test_write_file(place.dir, "table.json", json, strlen(json));
    hf_test_expect(hf_test_command(&place, "ddl", "--apply", NULL), 0);
    return place;
}

struct hf_test_place hf_test_place(enum hf__database database, const char *strategy)
{
    return hf_test_place_with(database, strategy, "", "");
}

static void fill(const struct hf_test_place *place, const char *name, const char *const *arguments, const char *argv[MAX_ARGUMENTS + 1])
{
    const char *const first[] = {hf_test_program("holdfast"), name, "--db", place->url, "--table", place->description};
    size_t n = sizeof first / sizeof *first;
    memcpy(argv, first, sizeof first);
    for (; *arguments; arguments++) {
        if (n == MAX_ARGUMENTS) {
            hf_test_fail("more than %d arguments", MAX_ARGUMENTS);
            break;
        }
        argv[n++] = *arguments;
    }
    argv[n] = NULL;
}

struct hf_test_child *hf_test_command_list(const struct hf_test_place *place, const char *name, const char *const *env,
                                           const char *const *arguments)
{
    const char *argv[MAX_ARGUMENTS + 1];
    fill(place, name, arguments, argv);
    return hf_test_start(argv, env);
}

struct hf_test_child *hf_test_command_input_list(const struct hf_test_place *place, const char *name, const void *input, size_t len,
                                                 const char *const *arguments)
{
    const char *argv[MAX_ARGUMENTS + 1];
    fill(place, name, arguments, argv);
    return hf_test_start_with_input(argv, NULL, input, len);
}

static const char *expect(struct hf_test_child *child, int code, const char *(*which)(struct hf_test_child *))
{
    int found = hf_test_wait(child, LIMIT_MS);
    const char *all = hf_test_format("%s%s", hf_test_stdout(child), hf_test_stderr(child));
    const char *text = hf_test_format("%s", which(child));
    hf_test_free(child);
    if (found != code) {
        hf_test_fail("the command ended with %d, not %d: %s", found, code, all);
    }
    return text;
}

const char *hf_test_expect(struct hf_test_child *child, int code)
{
    return expect(child, code, hf_test_stdout);
}

const char *hf_test_expect_error(struct hf_test_child *child, int code)
{
    return expect(child, code, hf_test_stderr);
}

void hf_test_must_contain(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        hf_test_fail("\"%s\" does not contain \"%s\"", text, part);
    }
}

void hf_test_must_not_contain(const char *text, const char *part)
{
    if (strstr(text, part)) {
        hf_test_fail("\"%s\" contains \"%s\"", text, part);
    }
}

void hf_test_must_be(const char *text, const char *wanted)
{
    if (!text || strcmp(text, wanted) != 0) {
        hf_test_fail("\"%s\", not \"%s\"", text ? text : "(null)", wanted);
    }
}
