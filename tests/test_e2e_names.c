/* ctest: timeout=240 labels=e2e
 * Case 76: names that need quotes, as those of tables, of dead letters' tables, of columns and of groups, and a schema that is on no
 * path. Every strategy drains ten rows; half of them go to the dead letter, and come back from there. */
#include <stdlib.h>

#include "pool/driver.h"
#include "tests/fleet.h"
#include "tests/own_server.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define ROWS 10
#define SCHEMA "S 1"

static const char *const names[] = {"Order", "select", "my-jobs", "a b", "na\xc3\xafve", "\"q\"\"t\"", "`b`t", "x.y"};

/* A name within these quotes. */
static const char *quoted(const char *name, char quote, const char *escaped)
{
    const char *text = hf_test_format("%c", quote);
    for (; *name; name++) {
        text = *name == quote ? hf_test_format("%s%s", text, escaped) : hf_test_format("%s%c", text, *name);
    }
    return hf_test_format("%s%c", text, quote);
}

static const char *in_json(const char *name)
{
    return quoted(name, '"', "\\\"");
}

static const char *in_sql(enum hf__database database, const char *schema, const char *name)
{
    const char *escaped = database == HF__MYSQL ? quoted(name, '`', "``") : quoted(name, '"', "\"\"");
    return schema ? hf_test_format("%s.%s", in_sql(database, NULL, schema), escaped) : escaped;
}

struct place {
    struct hf_test_kind kind;
    const char *url, *schema, *name, *dead; /* a schema of NULL: the connection's own */
};

/* Dead letters go to another table with such a name, or, without one, to a group with this name. */
static const char *description(const struct place *place, const char *name, const char *dead_table)
{
    const char *lease = place->kind.strategy == HF_LEASE ? ", \"locked_until\": \"Interval\"" : "";
    const char *key = place->kind.strategy == HF_ADVISORY_LOCK ? ", \"advisory_lock\": \"{{x}}-{key}\"" : ", \"fifo\": true";
    const char *in = place->schema ? hf_test_format("\"schema\": %s, ", in_json(place->schema)) : "";
    const char *dead = hf_test_format("\"%s\": %s", dead_table ? "table" : "group", in_json(dead_table ? dead_table : name));
    return hf_test_format("{ %s\"table\": %s, \"columns\": { \"id\": \"key\", \"payload\": \"order\", \"attempt\": \"Attempt \\\"n\\\"\", "
                          "\"group\": \"group\", \"priority\": \"desc\", \"retry_after\": \"due at\", \"last_error\": \"wh\\\"y`\"%s }%s, "
                          "\"max_attempts\": 1, \"dead_letter\": { %s } }",
                          in, in_json(name), lease, key, dead);
}

static hf_outcome odd_ones_fail(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    (void)!hf_delivery_set_reason(delivery, "odd", 3);
    return id % 2 ? HF_RETRY : HF_ACK;
}

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

/* The groups' names are as odd as the table's. */
static void add(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_job list[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].group = i < ROWS / 2 ? "it's \"one\"" : "two\\";
    }
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, ROWS, NULL, &err), &err);
}

static void drain(struct hf_test_jobs *jobs, hf_runtime *runtime, hf_handler handler)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, NULL, handler, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    hf_test_jobs_stop(jobs, runtime);
}

static void must_be_dead(struct hf_test_jobs *jobs, hf_runtime *runtime, int64_t expected)
{
    hf_error err = {.status = HF_OK};
    hf_counts counts = HF_COUNTS_INIT;
    HF_TEST_OK(hf_count(runtime, jobs->table, &counts, &err), &err);
    if (counts.dead != expected || counts.due != 0) {
        hf_test_fail("%s: %lld dead letters, and %lld rows due: %s", hf_test_jobs_place(jobs), (long long)counts.dead,
                     (long long)counts.due, jobs->json);
    }
}

static void run_table(struct hf_test_jobs *jobs, bool to_group)
{
    hf_error err = {.status = HF_OK};
    hf_findings *findings = NULL;
    hf_requeue_options back = HF_REQUEUE_OPTIONS_INIT;
    size_t moved = 0;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_table_create(runtime, jobs->table, &err), &err);
    HF_TEST_OK(hf_check(runtime, jobs->table, 3, &findings, &err), &err);
    HF_TEST_STATUS(hf_findings_status(findings), HF_OK, NULL);
    hf_findings_free(findings);
    add(jobs, runtime);
    drain(jobs, runtime, odd_ones_fail);
    runtime = hf_test_jobs_runtime(jobs, NULL);
    must_be_dead(jobs, runtime, ROWS / 2);
    back.to_group = to_group ? "it's \"one\"" : NULL;
    HF_TEST_OK(hf_requeue(runtime, jobs->table, &back, &moved, &err), &err);
    CU_ASSERT_EQUAL(moved, ROWS / 2);
    drain(jobs, runtime, ack);
    CU_ASSERT_EQUAL(jobs->n_runs, ROWS + ROWS / 2);
}

static void odd_table(const struct place *place)
{
    struct hf_test_jobs jobs = {.kind = place->kind, .url = place->url, .name = place->name};
    hf_error err = {.status = HF_OK};
    pthread_mutex_init(&jobs.lock, NULL);
    jobs.json = description(place, place->name, place->dead);
    HF_TEST_OK(hf_table_parse(jobs.json, strlen(jobs.json), &jobs.table, &err), &err);
    run_table(&jobs, !place->dead);
    enum hf__database database = place->kind.database;
    CU_ASSERT_EQUAL(hf_test_query_int(jobs.url, hf_test_format("SELECT count(*) FROM %s", in_sql(database, place->schema, place->name))),
                    0);
    hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s", in_sql(database, place->schema, place->name)));
    if (place->dead) {
        hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s", in_sql(database, place->schema, place->dead)));
    }
    hf_table_free(jobs.table);
    free(jobs.log);
    free(jobs.runs);
    pthread_mutex_destroy(&jobs.lock);
}

/* ---- without a schema ---- */

static void names_on(struct hf_test_kind kind)
{
    const char *url = hf_test_url(kind.database);
    for (size_t i = 0; i < LENGTH(names); i++) {
        struct place place = {kind, url, NULL, names[i], i % 2 ? NULL : names[(i + 1) % LENGTH(names)]};
        odd_table(&place);
    }
}

static void odd_names(void)
{
    hf_test_on_all(names_on);
}

/* ---- in a schema that is on no search path; on MariaDB that is another database, on SQLite there is none to make ---- */

static void in_schema_on(struct hf_test_kind kind)
{
    const char *schema = hf_test_format("%s %s", SCHEMA, hf_test_scratch("x")), *name = in_sql(kind.database, NULL, schema);
    const char *admin = kind.database == HF__MYSQL ? hf_test_mysql_admin_url() : hf_test_url(kind.database);
    struct place to_table = {kind, hf_test_url(kind.database), schema, "a b", "x.y"}, to_group = to_table;
    to_group.dead = NULL;
    if (kind.database == HF__SQLITE) {
        return;
    }
    hf_test_sql(admin, hf_test_format("CREATE SCHEMA %s", name));
    if (kind.database == HF__MYSQL) {
        hf_test_sql(admin, hf_test_format("GRANT ALL ON %s.* TO holdfast@'127.0.0.1'", name));
    }
    odd_table(&to_table);
    odd_table(&to_group);
    if (kind.database == HF__MYSQL) {
        hf_test_sql(admin, hf_test_format("REVOKE ALL ON %s.* FROM holdfast@'127.0.0.1'", name));
    }
    hf_test_sql(admin, hf_test_format("DROP SCHEMA %s", name));
}

static void odd_schemas(void)
{
    hf_test_on_all(in_schema_on);
}

/* ---- where the server folds the names of tables to lower case ---- */

#define FOLDING "folding"

static void folded_names(void)
{
    if (!hf_test_is_mariadb()) {
        return; /* MySQL takes it for a fault of the data that is there */
    }
    hf_test_own_server_start(FOLDING, "--lower-case-table-names=1");
    CU_ASSERT_EQUAL_FATAL(hf_test_query_int(hf_test_mysql_url(), "SELECT @@lower_case_table_names"), 1);
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        if (hf_test_kinds[i].database == HF__MYSQL) {
            names_on(hf_test_kinds[i]);
        }
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"odd names", odd_names},
        {"odd schemas", odd_schemas},
        {"names that are folded", folded_names}, /* the last: from there on the server is another */
        CU_TEST_INFO_NULL,
    };
    int status = hf_test_main(argc, argv, "e2e_names", tests);
    return hf_test_own_server_stop(FOLDING) == 0 ? status : 1;
}
