/* ctest: timeout=900 labels=e2e
 * The holdfast command, end to end, on all three databases. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast.h"
#include "tests/command.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const struct {
    enum hf__database database;
    const char *strategy;
} everywhere[] = {
    {HF__SQLITE, "lease"},      {HF__SQLITE, "advisory"}, {HF__POSTGRES, "row_lock"}, {HF__POSTGRES, "lease"},
    {HF__POSTGRES, "advisory"}, {HF__MYSQL, "row_lock"},  {HF__MYSQL, "lease"},       {HF__MYSQL, "advisory"},
};

static void on_all(void (*test)(const struct hf_test_place *place))
{
    for (size_t i = 0; i < LENGTH(everywhere); i++) {
        struct hf_test_place place = hf_test_place(everywhere[i].database, everywhere[i].strategy);
        test(&place);
        hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
    }
}

static int64_t rows(const struct hf_test_place *place, const char *where)
{
    return hf_test_query_int(place->url, hf_test_format("SELECT count(*) FROM %s WHERE %s", place->table, where));
}

static const char *only_text(const struct hf_test_place *place, const char *column)
{
    return hf_test_query_text(place->url, hf_test_format("SELECT %s FROM %s", column, place->table));
}

static void enqueue(const struct hf_test_place *place, const char *payload)
{
    hf_test_expect(hf_test_command(place, "enqueue", "--payload", payload, NULL), 0);
}

static struct hf_test_child *work(const struct hf_test_place *place, const char *exec)
{
    return hf_test_command(place, "work", "--exec", exec, "--until-empty", "--poll-ms", "50", NULL);
}

static const char *file_in(const struct hf_test_place *place, const char *name)
{
    return hf_test_format("%s/%s", place->dir, name);
}

static bool file_exists(void *path)
{
    FILE *file = fopen(path, "re");
    if (file) {
        fclose(file);
    }
    return file != NULL;
}

static void wait_for_file(const char *path)
{
    if (!hf_test_wait_until(file_exists, (void *)path, 20000)) {
        hf_test_fail("%s did not appear", path);
    }
}

/* ---- usage ---- */

static struct hf_test_child *bare(const char *a, const char *b)
{
    const char *const argv[] = {hf_test_program("holdfast"), a, b, NULL};
    const char *const env[] = {"HOLDFAST_URL", NULL};
    return hf_test_start(argv, env);
}

static void test_help(void)
{
    static const char *const commands[] = {"ddl", "check", "enqueue", "work", "stats", "requeue"};
    const char *help = hf_test_expect(bare("--help", NULL), 0);
    const char *version = hf_test_format("holdfast %s\n", hf_version());
    hf_test_must_contain(hf_test_expect(bare("--version", NULL), 0), version);
    for (size_t i = 0; i < LENGTH(commands); i++) {
        hf_test_must_contain(help, commands[i]);
        hf_test_must_contain(hf_test_expect(bare(commands[i], "--help"), 0), hf_test_format("Usage: holdfast %s", commands[i]));
        hf_test_must_contain(hf_test_expect(bare(commands[i], "--version"), 0), version);
    }
}

static void test_wrong_usage(void)
{
    hf_test_must_contain(hf_test_expect_error(bare(NULL, NULL), 2), "Usage: holdfast");
    hf_test_must_contain(hf_test_expect_error(bare("dance", NULL), 2), "there is no command \"dance\"");
    hf_test_must_contain(hf_test_expect_error(bare("stats", NULL), 2), "HOLDFAST_URL");
    hf_test_must_contain(hf_test_expect_error(bare("stats", "--db=sqlite:/x"), 2), "--table");
    hf_test_must_contain(hf_test_expect_error(bare("stats", "extra"), 2), "\"extra\" belongs to no option");

    struct hf_test_place place = {.url = "sqlite:/nowhere/x", .description = "/nowhere/y"};
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "work", NULL), 2), "--exec");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "work", "--exec", "true", "--workers", "many", NULL), 2),
                         "--workers");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "work", "--exec", "true", "--batch", "0", NULL), 2), "--batch");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "work", "--exec", "true", "--timeout", "0", NULL), 2), "--timeout");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "enqueue", "--count", "-1", NULL), 2), "--count");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "enqueue", "--set", "x", NULL), 2), "COLUMN=VALUE");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "enqueue", "--delay", "nan", NULL), 2), "--delay");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "stats", NULL), 1), "/nowhere/y");

    static const struct {
        const char *command, *option, *value, *message;
    } wrong[] = {
        {"enqueue", "--priority", "1.5", "--priority takes a whole number"},
        {"enqueue", "--priority", "9223372036854775808", "--priority takes a whole number"},
        {"enqueue", "--headers", "[1]", "--headers takes a JSON object"},
        {"enqueue", "--headers", "{", "--headers takes a JSON object"},
        {"enqueue", "--at", "2031-01-01", "--at takes a time"},
        {"enqueue", "--at", "2031-01-01T25:00Z", "--at takes a time"},
        {"enqueue", "--at", "2031-01-01T00:00:00+99:00", "--at takes a time"},
        {"enqueue", "--at", "1969-12-31T23:59:59Z", "--at takes a time"},
        {"requeue", "--json", NULL, "which dead letters?"},
        {"requeue", "--to-group", "g", "which dead letters?"},
        {"requeue", "--all", "--id=1", "exclude each other"},
        {"requeue", "--all", "--group=1", "exclude each other"},
        {"work", "--retry-base-ms", "0", "--retry-base-ms takes a whole number"},
        {"work", "--retry-factor", "0.5", "--retry-factor takes a number from 1 to 1000"},
        {"work", "--retry-cap-ms", "x", "--retry-cap-ms takes a whole number"},
    };
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        struct hf_test_child *child = hf_test_command(&place, wrong[i].command, wrong[i].option, wrong[i].value, NULL);
        hf_test_must_contain(hf_test_expect_error(child, 2), wrong[i].message);
    }
    struct hf_test_child *both = hf_test_command(&place, "enqueue", "--at", "2031-01-01T00:00Z", "--delay", "1", NULL);
    hf_test_must_contain(hf_test_expect_error(both, 2), "--delay and --at exclude each other");
}

static void test_url_sources(void)
{
    struct hf_test_place place = hf_test_place(HF__SQLITE, "lease");
    const char *line = hf_test_format("%s\nsqlite:/nowhere/second-line\n", place.url);
    const char *file = hf_test_write_file(place.dir, "url", line, strlen(line));
    const char *good = hf_test_format("HOLDFAST_URL=%s", place.url);
    const char *holdfast = hf_test_program("holdfast");
    const char *const from_environment[] = {holdfast, "stats", "--table", place.description, NULL};
    const char *const from_file[] = {holdfast, "stats", "--table", place.description, "--db-file", file, NULL};
    const char *const from_both[] = {holdfast, "stats", "--table", place.description, "--db-file", "/nowhere", "--db", place.url, NULL};
    const char *const good_env[] = {good, NULL};
    const char *const bad_env[] = {"HOLDFAST_URL=sqlite:/nowhere/x", NULL};
    hf_test_expect(hf_test_start(from_environment, good_env), 0);
    hf_test_expect(hf_test_start(from_environment, bad_env), 1);
    hf_test_expect(hf_test_start(from_file, bad_env), 0);
    hf_test_expect(hf_test_start(from_both, bad_env), 0);
    const char *const no_file[] = {holdfast, "stats", "--table", place.description, "--db-file", "/nowhere", NULL};
    hf_test_must_contain(hf_test_expect_error(hf_test_start(no_file, good_env), 1), "--db-file /nowhere: No such file");
    const char *empty = hf_test_write_file(place.dir, "empty", "\n", 1);
    const char *const empty_file[] = {holdfast, "stats", "--table", place.description, "--db-file", empty, NULL};
    hf_test_must_contain(hf_test_expect_error(hf_test_start(empty_file, good_env), 1), "first line is empty");
}

static const char *command_line(struct hf_test_child *child)
{
    const char *path = hf_test_format("/proc/%ld/cmdline", (long)hf_test_pid(child));
    FILE *file = fopen(path, "re");
    char text[4096] = "";
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    for (size_t i = 0; i < n; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
    return hf_test_format("%s", text);
}

/* hold:f@st is the servers' password; in the URL it is hold%3Af%40st. */
static void test_password_is_hidden(void)
{
    static const char password[] = "hold%3Af%40st";
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "row_lock");
    hf_test_must_contain(place.url, password);
    const char *started = file_in(&place, "started");
    enqueue(&place, "postgresql://u:hold%3Af%40st@h/x");
    struct hf_test_child *child = hf_test_command(
        &place, "work", "--exec", hf_test_format("cat >%s; mv %s %s; sleep 30", file_in(&place, "s"), file_in(&place, "s"), started),
        "--drain-seconds", "0", NULL);
    wait_for_file(started);
    const char *line = command_line(child);
    hf_test_must_contain(line, "***@");
    hf_test_must_contain(line, "--drain-seconds 0");
    hf_test_must_not_contain(line, password);
    hf_test_must_be(hf_test_read_file(started), "postgresql://u:hold%3Af%40st@h/x");
    hf_test_kill(child, SIGTERM);
    hf_test_must_not_contain(hf_test_expect_error(child, 0), password);

    const char *wrong = hf_test_format("--dbase=%s", place.url);
    hf_test_must_not_contain(hf_test_expect_error(bare("stats", wrong), 2), password);
    hf_test_must_not_contain(hf_test_expect_error(bare("stats", place.url), 2), password);
    hf_test_must_not_contain(hf_test_expect_error(bare(place.url, NULL), 2), password);
    struct hf_test_place closed = place;
    closed.url = "postgresql://u:hold%3Af%40st@127.0.0.1:1/x";
    const char *message = hf_test_expect_error(hf_test_command(&closed, "stats", NULL), 1);
    hf_test_must_not_contain(message, password);
    hf_test_must_not_contain(message, "hold:f@st");
}

/* ---- ddl, check, stats ---- */

/* libmariadb runs one statement at a time. */
static void run_each(const struct hf_test_place *place, const char *sql)
{
    const char *end;
    for (; (end = strstr(sql, ";\n")) != NULL; sql = end + 2) {
        hf_test_sql(place->url, hf_test_format("%.*s", (int)(end - sql), sql));
    }
}

static void ddl_prints_and_applies(const struct hf_test_place *place)
{
    const char *sql = hf_test_expect(hf_test_command(place, "ddl", NULL), 0);
    hf_test_must_contain(sql, "CREATE TABLE");
    hf_test_must_contain(sql, "CREATE ");
    hf_test_must_contain(sql, ";\n");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(place, "ddl", "--apply", NULL), 1), "holdfast: ");
    hf_test_sql(place->url, hf_test_format("DROP TABLE %s", place->table));
    run_each(place, sql);
    hf_test_must_be(hf_test_format("%lld", (long long)rows(place, "1 = 1")), "0");
}

static void test_ddl(void)
{
    on_all(ddl_prints_and_applies);
}

static json_t *parse_json(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (!json) {
        hf_test_fail("%s: %s", error.text, text);
    }
    return json;
}

static void check_finds(const struct hf_test_place *place)
{
    const char *text = hf_test_expect(hf_test_command(place, "check", "--workers", "8", NULL), 0);
    hf_test_must_contain(text, hf_test_format("strategy: %s\n", place->strategy));
    hf_test_must_contain(text, "cost: a delivery in work holds ");
    hf_test_must_not_contain(text, "error: ");
    json_t *json = parse_json(hf_test_expect(hf_test_command(place, "check", "--workers", "8", "--json", NULL), 0));
    CU_ASSERT_TRUE_FATAL(json_is_true(json_object_get(json, "ok")));
    hf_test_must_be(json_string_value(json_object_get(json, "strategy")), place->strategy);
    bool held = strcmp(place->strategy, "lease") != 0 && place->database != HF__SQLITE;
    CU_ASSERT_EQUAL_FATAL(json_integer_value(json_object_get(json_object_get(json, "cost"), "held")), held ? 8 : 0);
    json_decref(json);

    hf_test_sql(place->url, hf_test_format("ALTER TABLE %s DROP COLUMN last_error", place->table));
    hf_test_must_contain(hf_test_expect(hf_test_command(place, "check", NULL), 1), "last_error");
    json = parse_json(hf_test_expect(hf_test_command(place, "check", "--json", NULL), 1));
    CU_ASSERT_TRUE_FATAL(json_is_false(json_object_get(json, "ok")));
    hf_test_must_be(json_string_value(json_object_get(json_array_get(json_object_get(json, "findings"), 0), "level")), "error");
    json_decref(json);
}

static void test_check(void)
{
    on_all(check_finds);
}

/* A dead letters' table and a FIFO index that are not there, a level that does not go with FIFO. */
static void check_finds_roles(enum hf__database database)
{
    const char *dead = hf_test_scratch("dead");
    const char *settings = hf_test_format(", \"fifo\": true, \"max_attempts\": 3, \"dead_letter\": { \"table\": \"%s\" }", dead);
    struct hf_test_place place = hf_test_place_with(database, "lease", ", \"group\": \"queue\"", settings);
    hf_test_must_not_contain(hf_test_expect(hf_test_command(&place, "check", NULL), 0), "no index matches");
    hf_test_sql(place.url,
                hf_test_format(database == HF__MYSQL ? "ALTER TABLE %s DROP INDEX %s_group_order" : "DROP INDEX %.0s%s_group_order",
                               place.table, place.table));
    hf_test_must_contain(hf_test_expect(hf_test_command(&place, "check", NULL), 0), "no index matches the claim order");
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", dead));
    const char *text = hf_test_expect(hf_test_command(&place, "check", NULL), 1);
    hf_test_must_contain(text, "error: ");
    hf_test_must_contain(text, dead);
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
}

static void test_check_roles(void)
{
    check_finds_roles(HF__SQLITE);
    check_finds_roles(HF__POSTGRES);
    check_finds_roles(HF__MYSQL);
}

static void stats_count(const struct hf_test_place *place)
{
    hf_test_expect(hf_test_command(place, "enqueue", "--count", "3", NULL), 0);
    hf_test_expect(hf_test_command(place, "enqueue", "--delay", "600.5", NULL), 0);
    bool known = strcmp(place->strategy, "lease") == 0;
    const char *text = hf_test_expect(hf_test_command(place, "stats", NULL), 0);
    hf_test_must_contain(text, "due         3\n");
    hf_test_must_contain(text, "delayed     1\n");
    hf_test_must_contain(text, known ? "in work     0\n" : "in work     unknown\n");
    json_t *json = parse_json(hf_test_expect(hf_test_command(place, "stats", "--json", NULL), 0));
    CU_ASSERT_EQUAL_FATAL(json_integer_value(json_object_get(json, "due")), 3);
    CU_ASSERT_EQUAL_FATAL(json_integer_value(json_object_get(json, "delayed")), 1);
    CU_ASSERT_EQUAL_FATAL(json_is_null(json_object_get(json, "in_work")), !known);
    CU_ASSERT_TRUE_FATAL(json_is_number(json_object_get(json, "oldest_due")));
    CU_ASSERT_TRUE_FATAL(json_number_value(json_object_get(json, "oldest_due")) < 60);
    json_decref(json);
}

static void test_stats(void)
{
    on_all(stats_count);
}

static const char *number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? hf_test_format("%lld", (long long)json_integer_value(value)) : json_is_null(value) ? "null" : "missing";
}

/* Every count, in the order of the keys' description. */
static const char *counts_of(const json_t *object)
{
    return hf_test_format("%s %s %s %s %s", number_of(object, "due"), number_of(object, "delayed"), number_of(object, "in_work"),
                          number_of(object, "processed"), number_of(object, "dead"));
}

static void fill_groups(const struct hf_test_place *place)
{
    hf_test_expect(hf_test_command(place, "enqueue", "--group", "a", "--count", "3", NULL), 0);
    hf_test_expect(hf_test_command(place, "enqueue", "--group", "b c", "--delay", "600", NULL), 0);
    hf_test_expect(hf_test_command(place, "enqueue", "--group", "dead", "--count", "2", NULL), 0);
    hf_test_expect(hf_test_command(place, "enqueue", NULL), 0);
}

static void stats_by_group(enum hf__database database)
{
    struct hf_test_place place =
        hf_test_place_with(database, "lease", ", \"group\": \"queue\"", ", \"dead_letter\": { \"group\": \"dead\" }");
    fill_groups(&place);
    json_t *json = parse_json(hf_test_expect(hf_test_command(&place, "stats", "--json", NULL), 0));
    hf_test_must_be(counts_of(json), "4 1 0 0 2");
    const json_t *groups = json_object_get(json, "groups");
    static const struct {
        const char *group, *counts;
    } wanted[] = {{"a", "3 0 0 0 0"}, {"b c", "0 1 0 0 0"}, {"dead", "0 0 0 0 2"}, {NULL, "1 0 0 0 0"}};
    CU_ASSERT_EQUAL_FATAL(json_array_size(groups), LENGTH(wanted));
    for (size_t i = 0; i < LENGTH(wanted); i++) {
        const json_t *entry = NULL;
        for (size_t k = 0; k < LENGTH(wanted) && !entry; k++) {
            const json_t *group = json_object_get(json_array_get(groups, k), "group");
            bool is_it =
                wanted[i].group ? json_is_string(group) && strcmp(json_string_value(group), wanted[i].group) == 0 : json_is_null(group);
            entry = is_it ? json_array_get(groups, k) : NULL;
        }
        hf_test_must_be(counts_of(entry), wanted[i].counts);
        CU_ASSERT_TRUE_FATAL(json_is_number(json_object_get(entry, "oldest_due")));
    }
    json_decref(json);
    const char *text = hf_test_expect(hf_test_command(&place, "stats", NULL), 0);
    hf_test_must_contain(text, "due         4\n");
    hf_test_must_contain(text, "oldest due  group\n");
    hf_test_must_contain(text, "  b c\n");
    hf_test_must_contain(text, "  (no group)\n");
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
}

static void test_stats_by_group(void)
{
    stats_by_group(HF__SQLITE);
    stats_by_group(HF__POSTGRES);
    stats_by_group(HF__MYSQL);
}

/* A row of each state in each group. */
static void stats_in_every_state(enum hf__database database)
{
    struct hf_test_place place = hf_test_place_with(database, "lease", ", \"group\": \"queue\", \"processed_at\": \"done_at\"",
                                                    ", \"dead_letter\": { \"group\": \"dead\" }");
    for (int group = 0; group < 2; group++) {
        hf_test_expect(hf_test_command(&place, "enqueue", "--group", group ? "b" : "a", "--count", "6", NULL), 0);
    }
    const char *later = "'2098-01-01 00:00:00'", *before = "'2020-01-01 00:00:00'";
    hf_test_sql(place.url, hf_test_format("UPDATE %s SET locked_until = %s WHERE id IN (1, 2, 7)", place.table, later));
    hf_test_sql(place.url, hf_test_format("UPDATE %s SET locked_until = %s WHERE id = 3", place.table, before)); /* that lease is over */
    hf_test_sql(place.url, hf_test_format("UPDATE %s SET done_at = %s WHERE id IN (4, 8, 9)", place.table, before));
    hf_test_sql(place.url, hf_test_format("UPDATE %s SET retry_after = %s WHERE id IN (5, 10, 11)", place.table, later));
    json_t *json = parse_json(hf_test_expect(hf_test_command(&place, "stats", "--json", NULL), 0));
    hf_test_must_be(counts_of(json), "3 3 3 3 0");
    const json_t *groups = json_object_get(json, "groups");
    CU_ASSERT_EQUAL_FATAL(json_array_size(groups), 2);
    hf_test_must_be(counts_of(json_array_get(groups, 0)), "2 1 2 1 0");
    hf_test_must_be(counts_of(json_array_get(groups, 1)), "1 2 1 2 0");
    json_decref(json);
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
}

static void test_stats_in_every_state(void)
{
    stats_in_every_state(HF__SQLITE);
    stats_in_every_state(HF__POSTGRES);
    stats_in_every_state(HF__MYSQL);
}

/* Strict priority: who waits behind it is seen by the age of the oldest due row. */
static void test_oldest_due(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "lease");
    hf_test_expect(hf_test_command(&place, "enqueue", "--count", "2", NULL), 0);
    hf_test_sql(place.url, hf_test_format("UPDATE %s SET retry_after = retry_after - interval '90 s' WHERE id = 1", place.table));
    json_t *json = parse_json(hf_test_expect(hf_test_command(&place, "stats", "--json", NULL), 0));
    double age = json_number_value(json_object_get(json, "oldest_due"));
    CU_ASSERT_TRUE_FATAL(age > 89 && age < 150);
    json_decref(json);
}

/* ---- requeue ---- */

static struct hf_test_child *exec_all(const struct hf_test_place *place, const char *exec, const char *group)
{
    return hf_test_command(place, "work", "--exec", exec, "--until-empty", "--poll-ms", "50", "--group", group, NULL);
}

static void requeue_from_group(enum hf__database database)
{
    struct hf_test_place place =
        hf_test_place_with(database, "lease", ", \"group\": \"queue\"", ", \"dead_letter\": { \"group\": \"dead\" }");
    hf_test_expect(hf_test_command(&place, "enqueue", "--group", "a", "--count", "5", NULL), 0);
    hf_test_expect(exec_all(&place, "exit 65", "a"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'dead'"), 5);
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "requeue", "--all", NULL), 1), "to_group");
    const char *id = hf_test_query_text(place.url, hf_test_format("SELECT max(id) FROM %s", place.table));
    struct hf_test_child *child = hf_test_command(&place, "requeue", "--id", id, "--to-group", "a", NULL);
    hf_test_must_be(hf_test_expect(child, 0), "1\n");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'a' AND attempt = 1"), 1);
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "requeue", "--id", "987654", "--to-group", "a", NULL), 1), "987654");
    json_t *json = parse_json(hf_test_expect(hf_test_command(&place, "requeue", "--all", "--to-group", "b", "--json", NULL), 0));
    hf_test_must_be(number_of(json, "moved"), "4");
    json_decref(json);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'b' AND attempt = 1"), 4);
    hf_test_must_be(hf_test_expect(hf_test_command(&place, "requeue", "--all", "--to-group", "b", NULL), 0), "0\n");
    hf_test_expect(exec_all(&place, "true", "b"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), 1);
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
}

/* The dead letters' table keeps the groups, and one of them may be asked for. */
static void requeue_from_table(enum hf__database database)
{
    const char *dead = hf_test_scratch("dead");
    struct hf_test_place place = hf_test_place_with(database, "lease", ", \"group\": \"queue\"",
                                                    hf_test_format(", \"max_attempts\": 1, \"dead_letter\": { \"table\": \"%s\" }", dead));
    hf_test_expect(hf_test_command(&place, "enqueue", "--group", "a", "--count", "2", NULL), 0);
    hf_test_expect(hf_test_command(&place, "enqueue", "--group", "b", "--count", "3", NULL), 0);
    hf_test_expect(work(&place, "exit 7"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), 0);
    hf_test_must_contain(hf_test_expect(hf_test_command(&place, "stats", NULL), 0), "dead        5\n");
    hf_test_must_be(hf_test_expect(hf_test_command(&place, "requeue", "--group", "b", NULL), 0), "3\n");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'b' AND attempt = 1"), 3);
    CU_ASSERT_EQUAL_FATAL(hf_test_query_int(place.url, hf_test_format("SELECT count(*) FROM %s", dead)), 2);
    hf_test_must_be(hf_test_expect(hf_test_command(&place, "requeue", "--all", NULL), 0), "2\n");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'a'"), 2);
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", dead));
}

static void test_requeue(void)
{
    static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};
    for (size_t i = 0; i < LENGTH(databases); i++) {
        requeue_from_group(databases[i]);
        requeue_from_table(databases[i]);
    }
}

static void test_requeue_nothing(void)
{
    struct hf_test_place place = hf_test_place(HF__SQLITE, "lease");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(&place, "requeue", "--all", NULL), 1), "\"dead_letter\"");
}

/* ---- enqueue ---- */

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

static void enqueue_prints_ids(const struct hf_test_place *place)
{
    const char *ids = hf_test_expect(hf_test_command(place, "enqueue", "--payload", "x", "--count", "2500", NULL), 0);
    CU_ASSERT_EQUAL_FATAL(count_lines(ids), 2500);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 1"), 2500);
    const char *last =
        hf_test_format("%lld\n", (long long)hf_test_query_int(place->url, hf_test_format("SELECT max(id) FROM %s", place->table)));
    hf_test_must_be(ids + strlen(ids) - strlen(last), last);
}

static void test_enqueue(void)
{
    on_all(enqueue_prints_ids);
}

static void enqueue_refuses(const struct hf_test_place *place)
{
    hf_test_must_contain(hf_test_expect_error(hf_test_command(place, "enqueue", "--group", "g", NULL), 1), "\"group\"");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(place, "enqueue", "--set", "nonsense=1", NULL), 1), "nonsense");
    hf_test_must_contain(hf_test_expect_error(hf_test_command(place, "enqueue", "--payload-file", "/nowhere", NULL), 1),
                         "/nowhere: No such file");
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    hf_test_expect(hf_test_command(place, "enqueue", "--set", "attempt=7", "--set", "last_error=a=b", NULL), 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 7 AND last_error = 'a=b'"), 1);
}

static void test_enqueue_refuses(void)
{
    on_all(enqueue_refuses);
}

static void enqueue_every_role(enum hf__database database)
{
    struct hf_test_place place = hf_test_place_with(database, "lease", HF_TEST_EVERY_COLUMN, "");
    const char *ids =
        hf_test_expect(hf_test_command(&place, "enqueue", "--group", "g", "--priority", "-3", "--headers", "{\"a\": 12345678901234567890}",
                                       "--partition-key", "k", "--at", "2031-12-31T23:59:59.5+02:00", "--payload", "p", NULL),
                       0);
    CU_ASSERT_EQUAL_FATAL(count_lines(ids), 1);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "queue = 'g' AND urgency = -3 AND customer = 'k' AND headers IS NOT NULL"), 1);
    CU_ASSERT_EQUAL_FATAL(
        rows(&place, database == HF__POSTGRES ? "retry_after = '2031-12-31 21:59:59.5+00'" : "retry_after LIKE '2031-12-31 21:59:59.5%'"),
        1);
    hf_test_must_be(hf_test_expect(hf_test_command(&place, "enqueue", "--count", "1500", "--quiet", NULL), 0), "1500\n");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), 1501);
    struct hf_test_child *twice = hf_test_command(&place, "enqueue", "--group", "g", "--set", "queue=h", NULL);
    hf_test_must_contain(hf_test_expect_error(twice, 1), ": the job sets a group, and a field for its column \"queue\" as well");
    hf_test_sql(place.url, hf_test_format("DROP TABLE %s", place.table));
}

static void test_enqueue_every_role(void)
{
    enqueue_every_role(HF__SQLITE);
    enqueue_every_role(HF__POSTGRES);
    enqueue_every_role(HF__MYSQL);
}

/* ---- work ---- */

static void payload_is_exact(const struct hf_test_place *place)
{
    unsigned char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)i;
    }
    const char *payload = hf_test_write_file(place->dir, "payload", bytes, sizeof bytes);
    hf_test_expect(hf_test_command(place, "enqueue", "--payload-file", payload, NULL), 0);
    hf_test_expect(work(place, hf_test_format("cat >%s", file_in(place, "seen"))), 0);
    const char *const compare[] = {"cmp", payload, file_in(place, "seen"), NULL};
    hf_test_run(compare, NULL, 10000);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
}

static void test_payload(void)
{
    on_all(payload_is_exact);
}

/* A payload that no pipe would hold, and a command that reads none of it. */
static void test_payload_unread(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "lease");
    static char bytes[5000000];
    memset(bytes, 'x', sizeof bytes);
    const char *payload = hf_test_write_file(place.dir, "payload", bytes, sizeof bytes);
    hf_test_expect(hf_test_command(&place, "enqueue", "--payload-file", payload, "--count", "3", NULL), 0);
    hf_test_expect(work(&place, "true"), 0);
    enqueue(&place, "");
    hf_test_expect(hf_test_command(&place, "enqueue", NULL), 0);
    hf_test_expect(work(&place, hf_test_format("wc -c >>%s", file_in(&place, "sizes"))), 0);
    hf_test_must_be(hf_test_read_file(file_in(&place, "sizes")), "0\n0\n");
}

static void outcomes(const struct hf_test_place *place)
{
    enqueue(place, "exit 0");
    enqueue(place, "exit 65");
    enqueue(place, "[ $HOLDFAST_ATTEMPT = 2 ] || exit 75");
    hf_test_expect(work(place, "sh -s"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);

    enqueue(place, "exit 3");
    hf_test_expect(work(place, "sh -s"), 0);
    hf_test_must_be(only_text(place, "last_error"), "exit status 3");
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 2"), 1);
    hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->table));

    enqueue(place, "kill -9 $PPID");
    hf_test_expect(work(place, "sh -s; exit 0"), 0);
    hf_test_must_be(only_text(place, "last_error"), "killed by signal 9 (Killed)");
}

static void test_outcomes(void)
{
    on_all(outcomes);
}

static void test_environment(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "advisory");
    const char *seen = file_in(&place, "seen");
    const char *const env[] = {"PGPASSWORD=a",   "PGPASSFILE=b", "PGHOST=127.0.0.1", "MYSQL_PWD=c",
                               "HOLDFAST_URL=d", "KEPT=e",       "HOLDFAST_GROUP=f", NULL};
    const char *const arguments[] = {"--exec", hf_test_format("env >%s", seen), "--until-empty", NULL};
    enqueue(&place, "x");
    const char *id = only_text(&place, "id");
    hf_test_expect(hf_test_command_list(&place, "work", env, arguments), 0);
    const char *text = hf_test_format("\n%s", hf_test_read_file(seen));
    hf_test_must_contain(text, hf_test_format("\nHOLDFAST_ID=%s\n", id));
    hf_test_must_contain(text, "\nHOLDFAST_ATTEMPT=1\n");
    hf_test_must_contain(text, hf_test_format("\nHOLDFAST_KEY=key-%s\n", id));
    hf_test_must_contain(text, "\nKEPT=e\n");
    static const char *const absent[] = {"\nPG", "\nMYSQL", "\nHOLDFAST_URL", "\nHOLDFAST_GROUP", "\nHOLDFAST_HEADERS"};
    for (size_t i = 0; i < LENGTH(absent); i++) {
        hf_test_must_not_contain(text, absent[i]);
    }
}

/* Its own process group, no descriptor but the first three, no signal blocked or ignored (the C library keeps two for itself). */
static void test_child_is_clean(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "row_lock");
    const char *seen = file_in(&place, "seen");
    enqueue(&place, "x");
    hf_test_expect(work(&place, hf_test_format("exec >%s; ls /proc/$$/fd; grep -E '^Sig(Blk|Ign)' /proc/$$/status; "
                                               "ps -o pgid= -p $$ | grep -qw $$ && echo own",
                                               seen)),
                   0);
    const char *text = hf_test_read_file(seen);
    hf_test_must_contain(text, "0\n1\n2\nSigBlk:\t0000000000000000\n");
    hf_test_must_contain(text, "own\n");
    hf_test_must_contain(text, "\nSigIgn:\t");
    CU_ASSERT_EQUAL_FATAL(strtoull(strstr(text, "\nSigIgn:\t") + 9, NULL, 16) & 0x7fffffff, 0);
}

static void until_empty_writes_stats(const struct hf_test_place *place)
{
    const char *file = file_in(place, "stats.json");
    hf_test_expect(hf_test_command(place, "enqueue", "--count", "40", NULL), 0);
    hf_test_expect(hf_test_command(place, "work", "--exec", "true", "--until-empty", "--workers", "4", "--stats-json", file, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    json_t *json = parse_json(hf_test_read_file(file));
    CU_ASSERT_TRUE_FATAL(json_is_object(json));
    json_decref(json);
}

static void test_until_empty(void)
{
    on_all(until_empty_writes_stats);
}

/* What cannot be written at the end is said at the start. */
static void test_stats_file_refused(void)
{
    struct hf_test_place place = hf_test_place(HF__SQLITE, "lease");
    enqueue(&place, "x");
    struct hf_test_child *child =
        hf_test_command(&place, "work", "--exec", "true", "--until-empty", "--stats-json", "/nowhere/stats.json", NULL);
    hf_test_must_contain(hf_test_expect_error(child, 1), "--stats-json /nowhere/stats.json: No such file");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "attempt = 1"), 1);
}

/* One worker, two rows: the first is in work when the signal comes, the second must stay. */
static void drain(const struct hf_test_place *place)
{
    const char *started = file_in(place, "started");
    hf_test_expect(hf_test_command(place, "enqueue", "--count", "2", NULL), 0);
    struct hf_test_child *child =
        hf_test_command(place, "work", "--exec", hf_test_format("touch %s; sleep 1; touch %s", started, file_in(place, "ended")),
                        "--workers", "1", "--poll-ms", "50", NULL);
    wait_for_file(started);
    hf_test_kill(child, SIGTERM);
    hf_test_expect(child, 0);
    CU_ASSERT_TRUE_FATAL(file_exists((void *)file_in(place, "ended")));
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 1"), 1);
}

static void test_drain(void)
{
    on_all(drain);
}

/* The first worker has ended: another can have the row, and no lease has to run out first. */
static void row_is_free(const struct hf_test_place *place)
{
    if (strcmp(place->strategy, "lease") == 0) {
        CU_ASSERT_EQUAL_FATAL(rows(place, "locked_until IS NOT NULL AND locked_until > '2000-01-01 00:00:00'"), 0);
    }
    hf_test_expect(work(place, "true"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
}

/* The command traps SIGTERM and needs half a second to end: the row goes back after that, and no process is left. */
static void stopped_commands(const struct hf_test_place *place, bool second_signal)
{
    const char *started = file_in(place, "started");
    const char *ended = file_in(place, "ended");
    enqueue(place, "x");
    struct hf_test_child *child = hf_test_command(
        place, "work", "--exec",
        hf_test_format("sh -c 'trap \"sleep 0.5; touch %s; exit 0\" TERM; touch %s; while :; do sleep 0.05; done' & wait", ended, started),
        "--drain-seconds", second_signal ? "60" : "0.2", NULL);
    wait_for_file(started);
    hf_test_kill(child, SIGTERM);
    if (second_signal) {
        hf_test_kill(child, SIGINT);
    }
    hf_test_expect(child, 0);
    CU_ASSERT_TRUE_FATAL(file_exists((void *)ended));
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1);
    row_is_free(place);
}

static void drain_limit(const struct hf_test_place *place)
{
    stopped_commands(place, false);
}

static void test_drain_limit(void)
{
    on_all(drain_limit);
}

static void second_signal(const struct hf_test_place *place)
{
    stopped_commands(place, true);
}

static void test_second_signal(void)
{
    on_all(second_signal);
}

static void time_limit(const struct hf_test_place *place)
{
    enqueue(place, "x");
    int64_t start = hf_test_now_ms();
    hf_test_expect(hf_test_command(place, "work", "--exec", "sleep 60", "--until-empty", "--timeout", "0.5", NULL), 0);
    CU_ASSERT_TRUE_FATAL(hf_test_now_ms() - start < 45000);
    hf_test_must_be(only_text(place, "last_error"), "stopped after 0.5 s");
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 2"), 1);
}

static void test_time_limit(void)
{
    on_all(time_limit);
}

/* ---- batches ---- */

static struct hf_test_child *work_batch(const struct hf_test_place *place, const char *exec, const char *option, const char *value)
{
    return hf_test_command(place, "work", "--exec", exec, "--poll-ms", "50", "--workers", "1", "--batch", "3", "--retry-base-ms", "600000",
                           option, value, NULL);
}

/* The command runs once for each row, in order, and each row has an outcome of its own. */
static void batch(const struct hf_test_place *place)
{
    const char *seen = file_in(place, "seen");
    static const char *const jobs[] = {"0", "65", "3", "0", "75", "0", "0"};
    for (size_t i = 0; i < LENGTH(jobs); i++) {
        enqueue(place, hf_test_format("%s", jobs[i]));
    }
    const char *exec = hf_test_format(
        "read -r code; echo $HOLDFAST_ID.$HOLDFAST_ATTEMPT >>%s; [ $code != 75 ] || [ $HOLDFAST_ATTEMPT = 1 ] || exit 0; exit $code", seen);
    hf_test_expect(work_batch(place, exec, "--until-empty", NULL), 0);
    const char *first = hf_test_format("%.*s", 6 * 4, hf_test_read_file(seen));
    hf_test_must_be(first, "1.1\n2.1\n3.1\n4.1\n5.1\n6.1\n");
    hf_test_must_contain(hf_test_read_file(seen), "\n7.1\n");
    hf_test_must_contain(hf_test_read_file(seen), "\n5.2\n");
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 2 AND last_error = 'exit status 3'"), 1);
}

static void test_batch(void)
{
    on_all(batch);
}

/* The time limit is each command's own, not the batch's. */
static void test_batch_time_limit(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "row_lock");
    enqueue(&place, "sleep 0.7");
    enqueue(&place, "sleep 60");
    enqueue(&place, "sleep 0.7");
    hf_test_expect(
        hf_test_command(&place, "work", "--exec", "sh -s", "--workers", "1", "--batch", "3", "--timeout", "1.2", "--until-empty", NULL), 0);
    hf_test_must_be(only_text(&place, "last_error"), "stopped after 1.2 s");
    CU_ASSERT_EQUAL_FATAL(rows(&place, "id = 2 AND attempt = 2"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), 1);
}

/* At the drain limit: what was done is done, what runs is stopped, and goes back with what had not begun. */
static void batch_drain_limit(const struct hf_test_place *place)
{
    const char *started = file_in(place, "started");
    hf_test_expect(hf_test_command(place, "enqueue", "--count", "3", NULL), 0);
    const char *exec = hf_test_format("[ $HOLDFAST_ID != 1 ] || exit 0; touch %s; exec sleep 60", started);
    struct hf_test_child *child = work_batch(place, exec, "--drain-seconds", "0.2");
    wait_for_file(started);
    hf_test_kill(child, SIGTERM);
    hf_test_expect(child, 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "id = 1"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(place, "id IN (2, 3)"), 2);
    row_is_free(place);
}

static void test_batch_drain_limit(void)
{
    on_all(batch_drain_limit);
}

/* ---- the retry policy ---- */

/* How long the only row still waits, in seconds by the database's clock. */
static double waits_seconds(const struct hf_test_place *place)
{
    static const char *const left[] = {
        [HF__POSTGRES] = "EXTRACT(EPOCH FROM retry_after - clock_timestamp())::float8",
        [HF__MYSQL] = "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), retry_after) / 1000000",
        [HF__SQLITE] = "(julianday(retry_after) - julianday('now')) * 86400",
    };
    const char *text = only_text(place, left[place->database]);
    return text ? strtod(text, NULL) : -1;
}

/* The options' delays, and without options the defaults: 1 s, doubled, at most 300 s. */
static void retry_policy(const struct hf_test_place *place)
{
    static const struct {
        const char *attempt;
        bool by_default;
        double most;
    } wanted[] = {{"2", false, 1000}, {"3", false, 2000}, {"10", true, 300}};
    for (size_t i = 0; i < LENGTH(wanted); i++) {
        hf_test_expect(hf_test_command(place, "enqueue", "--set", hf_test_format("attempt=%s", wanted[i].attempt), NULL), 0);
        int64_t begun_ms = hf_test_now_ms();
        hf_test_expect(wanted[i].by_default ? work(place, "exit 1")
                                            : hf_test_command(place, "work", "--exec", "exit 1", "--until-empty", "--retry-base-ms",
                                                              "100000", "--retry-factor", "10", "--retry-cap-ms", "2000000", NULL),
                       0);
        double waits = waits_seconds(place), passed = (double)(hf_test_now_ms() - begun_ms) / 1000;
        if (waits < wanted[i].most / 2 - passed - 1 || waits > wanted[i].most + 1) {
            hf_test_fail("%s %s, attempt %s: %g s, not %g to %g", place->url, place->strategy, wanted[i].attempt, waits, wanted[i].most / 2,
                         wanted[i].most);
        }
        hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->table));
    }
}

static void test_retry_policy(void)
{
    on_all(retry_policy);
}

/* Gone, or only waiting for whoever inherited it to take notice. */
static bool has_died(void *pid)
{
    const char *stat = hf_test_read_file(hf_test_format("/proc/%s/stat", (const char *)pid));
    const char *state = strrchr(stat, ')');
    return !state || state[2] == 'Z';
}

/* The row is free once its worker is dead, and someone else runs it: so the command must not go on. */
static void test_sudden_death(void)
{
    struct hf_test_place place = hf_test_place(HF__POSTGRES, "row_lock");
    const char *pids = file_in(&place, "pids");
    enqueue(&place, "x");
    struct hf_test_child *child =
        hf_test_command(&place, "work", "--exec",
                        hf_test_format("sleep 60 & echo $! >%s.0; mv %s.0 %s; trap '' TERM; wait; sleep 60", pids, pids, pids), NULL);
    wait_for_file(pids);
    hf_test_kill(child, SIGKILL);
    hf_test_expect(child, HF_TEST_SIGNALLED + SIGKILL);
    const char *pid = hf_test_read_file(pids);
    pid = hf_test_format("%.*s", (int)strcspn(pid, "\n"), pid);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(has_died, (void *)pid, 10000));
    hf_test_expect(work(&place, "true"), 0);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "1 = 1"), 0);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"help and version", test_help},
        {"wrong usage ends with 2", test_wrong_usage},
        {"where the URL comes from", test_url_sources},
        {"the password is hidden", test_password_is_hidden},
        {"ddl prints and applies", test_ddl},
        {"check finds faults", test_check},
        {"check finds faults of the roles", test_check_roles},
        {"stats counts", test_stats},
        {"stats by group", test_stats_by_group},
        {"stats by group in every state", test_stats_in_every_state},
        {"the age of the oldest due row", test_oldest_due},
        {"requeue brings dead letters back", test_requeue},
        {"requeue without a dead letter", test_requeue_nothing},
        {"enqueue prints ids", test_enqueue},
        {"enqueue knows every role", test_enqueue_every_role},
        {"enqueue refuses", test_enqueue_refuses},
        {"a payload is exact", test_payload},
        {"a payload that is not read", test_payload_unread},
        {"exit statuses are outcomes", test_outcomes},
        {"the environment of a command", test_environment},
        {"a command starts clean", test_child_is_clean},
        {"until empty, and the stats file", test_until_empty},
        {"a stats file that cannot be written", test_stats_file_refused},
        {"SIGTERM drains", test_drain},
        {"the drain limit stops commands", test_drain_limit},
        {"a second signal stops commands", test_second_signal},
        {"a killed worker takes its commands along", test_sudden_death},
        {"a time limit stops a command", test_time_limit},
        {"a batch runs the command for each row", test_batch},
        {"a batch's time limit", test_batch_time_limit},
        {"a batch at the drain limit", test_batch_drain_limit},
        {"the retry policy", test_retry_policy},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "command", tests);
}
