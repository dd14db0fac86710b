/* ctest: timeout=240 labels=e2e
 * What users hand in: wrong databases, wrong tables, odd names, odd payloads, odd ids. A clear message, or the right result. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/jobs.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void must_contain(const char *text, const char *part)
{
    if (!text || !strstr(text, part)) {
        hf_test_fail("\"%s\" does not contain \"%s\"", text ? text : "", part);
    }
}

static void must_not_contain(const char *text, const char *part)
{
    if (text && strstr(text, part)) {
        hf_test_fail("\"%s\" contains \"%s\"", text, part);
    }
}

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

static void on_all(void (*test)(struct hf_test_jobs *jobs))
{
    static struct hf_test_jobs jobs; /* outlives a failed test, whose handlers still run */
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        hf_test_jobs_open(&jobs, hf_test_kinds[i], 30);
        test(&jobs);
        hf_test_jobs_close(&jobs);
    }
}

/* Without a table of its own there. */
static void describe(struct hf_test_jobs *jobs, const char *json)
{
    hf_error err = {.status = HF_OK};
    hf_table_free(jobs->table);
    jobs->json = json;
    HF_TEST_OK(hf_table_parse(json, strlen(json), &jobs->table, &err), &err);
}

static hf_runtime *subscribed(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    options.poll_ms = 50;
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, handler, ctx, NULL, &err), &err);
    return runtime;
}

static hf_runtime *start(struct hf_test_jobs *jobs, size_t workers, hf_handler handler, void *ctx)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = subscribed(jobs, workers, handler, ctx);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    return runtime;
}

static void drain(struct hf_test_jobs *jobs, hf_runtime *runtime, double acked)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_wait_empty(runtime, 30000, &err), &err);
    HF_TEST_OK(hf_runtime_stop(runtime, 10000, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.acked"), acked);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    if (jobs->log) {
        hf_test_fail("there should be no log: %s", jobs->log);
    }
}

/* ---- databases that are not there, or do not let us in ---- */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 && getsockname(fd, (struct sockaddr *)&address, &len) == 0;
    close(fd);
    return found ? ntohs(address.sin_port) : 0;
}

/* Every call that connects says the same; the password stands in nothing. */
static void refused(struct hf_test_jobs *jobs, const char *url, hf_status status, const char *part, const char *password)
{
    hf_error err = {.status = HF_OK};
    hf_job job = HF_JOB_INIT;
    hf_counts counts = HF_COUNTS_INIT;
    jobs->url = url;
    hf_runtime *runtime = subscribed(jobs, 2, ack, jobs);
    for (int call = 0; call < 3; call++) {
        int64_t begin = hf_test_now_ms();
        hf_status found = call == 0   ? hf_runtime_start(runtime, &err)
                          : call == 1 ? hf_enqueue(runtime, jobs->table, &job, 1, NULL, &err)
                                      : hf_count(runtime, jobs->table, &counts, &err);
        HF_TEST_STATUS(found, status, &err);
        CU_ASSERT(hf_test_now_ms() - begin < 25000);
        must_contain(err.message, part);
        must_not_contain(err.message, password);
    }
    char *stats = hf_stats_json(runtime);
    must_not_contain(stats, password);
    must_not_contain(jobs->log, password);
    hf_free(stats);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void on_every_server(void (*test)(struct hf_test_jobs *jobs))
{
    static const enum hf__database databases[] = {HF__POSTGRES, HF__MYSQL};
    static struct hf_test_jobs jobs;
    for (size_t i = 0; i < LENGTH(databases); i++) {
        hf_test_jobs_open(&jobs, (struct hf_test_kind){databases[i], HF_LEASE}, 30);
        const char *url = jobs.url;
        test(&jobs);
        jobs.url = url;
        hf_test_jobs_close(&jobs);
    }
}

static const char *scheme(const struct hf_test_jobs *jobs)
{
    return jobs->kind.database == HF__POSTGRES ? "postgresql" : "mysql";
}

static void unreachable_on(struct hf_test_jobs *jobs)
{
    int port = free_port();
    CU_ASSERT_FATAL(port > 0);
    refused(jobs, hf_test_format("%s://someone:s3cr%%40t-w0rd@127.0.0.1:%d/holdfast", scheme(jobs), port), HF_UNREACHABLE,
            hf_test_format("%d", port), "s3cr@t-w0rd");
    refused(jobs, hf_test_format("%s://someone:s3cr%%40t-w0rd@no-such-host.invalid/holdfast", scheme(jobs)), HF_UNREACHABLE,
            "no-such-host.invalid", "s3cr");
}

static void unreachable(void)
{
    on_every_server(unreachable_on);
    static struct hf_test_jobs jobs;
    hf_test_jobs_open(&jobs, (struct hf_test_kind){HF__SQLITE, HF_LEASE}, 30);
    const char *url = jobs.url;
    refused(&jobs, "sqlite:/no/such/directory/x.db", HF_UNREACHABLE, "/no/such/directory/x.db", "s3cr");
    jobs.url = url;
    hf_test_jobs_close(&jobs);
}

/* Everything of the server's URL but the password. */
static void wrong_password_on(struct hf_test_jobs *jobs)
{
    const char *url = jobs->url, *at = strrchr(url, '@');
    refused(jobs, hf_test_format("%s://holdfast:s3cr%%40t-w0rd%s", scheme(jobs), at), HF_DENIED, "holdfast", "s3cr");
    const char *query = hf_test_format("%s://%s?user=holdfast&password=s3cr%%40t-w0rd", scheme(jobs), at + 1);
    if (jobs->kind.database == HF__POSTGRES) {
        refused(jobs, query, HF_DENIED, "holdfast", "s3cr");
    }
    refused(jobs, hf_test_format("%.*s/no_such_database", (int)(strrchr(url, '/') - url), url),
            jobs->kind.database == HF__POSTGRES ? HF_DATABASE : HF_DENIED, "no_such_database", "f@st");
}

static void wrong_password(void)
{
    on_every_server(wrong_password_on);
}

/* ---- tables that are not there, or not as described ---- */

static void not_as_described(struct hf_test_jobs *jobs, const char *part)
{
    hf_error err = {.status = HF_OK};
    hf_findings *findings = NULL;
    hf_runtime *runtime = subscribed(jobs, 2, ack, jobs);
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_INVALID, &err);
    must_contain(err.message, jobs->name);
    must_contain(err.message, part);
    HF_TEST_OK(hf_check(runtime, jobs->table, 2, &findings, &err), &err);
    CU_ASSERT_EQUAL(hf_findings_status(findings), HF_INVALID);
    hf_findings_free(findings);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static void missing_on(struct hf_test_jobs *jobs)
{
    const char *name = jobs->name, *json = jobs->json;
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s RENAME COLUMN last_error TO was_last_error", name));
    not_as_described(jobs, "last_error");
    hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s RENAME COLUMN was_last_error TO last_error", name));
    jobs->name = hf_test_format("%s_none", name);
    describe(jobs, hf_test_format("{ \"table\": \"%s\", %s", jobs->name, strstr(json, "\"columns\"")));
    not_as_described(jobs, "no");
    jobs->name = name;
    describe(jobs, json);
}

static void missing_table_or_column(void)
{
    on_all(missing_on);
}

static void wrong_json(void)
{
    static const char *const texts[][2] = {
        {"", "JSON"},
        {"{", "JSON"},
        {"[]", "object"},
        {"{ \"table\": \"t\" }", "columns"},
        {"{ \"columns\": { \"id\": \"id\" } }", "table"},
        {"{ \"table\": \"t\", \"columns\": {} }", "id"},
        {"{ \"table\": 7, \"columns\": { \"id\": \"id\" } }", "table"},
        {"{ \"table\": \"t\", \"columns\": { \"id\": \"id\", \"payloda\": \"x\" } }", "payloda"},
        {"{ \"table\": \"t\", \"columns\": { \"id\": \"id\" }, \"leese_seconds\": 5 }", "leese_seconds"},
        {"{ \"table\": \"t\", \"columns\": { \"id\": \"id\", \"locked_until\": \"u\" }, \"lease_seconds\": \"soon\" }", "lease_seconds"},
        {"{ \"table\": \"t\", \"columns\": { \"id\": \"id\", \"locked_until\": \"u\" }, \"advisory_lock\": \"{id}\" }", "advisory_lock"},
    };
    for (size_t i = 0; i < LENGTH(texts); i++) {
        hf_error err = {.status = HF_OK};
        hf_table *table = NULL;
        HF_TEST_STATUS(hf_table_parse(texts[i][0], strlen(texts[i][0]), &table, &err), HF_INVALID, &err);
        must_contain(err.message, texts[i][1]);
    }
    hf_error err = {.status = HF_OK};
    hf_table *table = NULL;
    HF_TEST_STATUS(hf_table_load("/no/such/file.json", &table, &err), HF_SYSTEM, &err);
    must_contain(err.message, "/no/such/file.json");
}

/* ---- payloads ---- */

struct payload {
    const char *data; /* NULL: NULL */
    size_t len;
};

struct payloads {
    struct hf_test_jobs *jobs;
    struct payload list[6];
    atomic_int right;
};

static hf_outcome compare(hf_delivery *delivery, void *ctx)
{
    struct payloads *payloads = ctx;
    size_t run = hf_test_run_begin(payloads->jobs, delivery), len = 77;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    const struct payload *sent = &payloads->list[id - 1];
    const char *got = hf_delivery_payload(delivery, &len);
    bool same = sent->data ? got && len == sent->len && memcmp(got, sent->data, len) == 0 && got[len] == '\0' : !got && len == 0;
    atomic_fetch_add(&payloads->right, same);
    hf_test_run_end(payloads->jobs, run);
    return HF_ACK;
}

/* Bytes that no cut, no encoding and no collation leaves as they are. */
static char *big_payload(size_t len)
{
    char *bytes = malloc(len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 2654435761u >> 13);
    }
    return bytes;
}

static void payloads_on(struct hf_test_jobs *jobs)
{
    enum { BIG = 5 * 1024 * 1024 };
    static struct payloads payloads;
    hf_error err = {.status = HF_OK};
    char every[256], *big = big_payload(BIG);
    for (size_t i = 0; i < sizeof every; i++) {
        every[i] = (char)i;
    }
    payloads = (struct payloads){.jobs = jobs,
                                 .list = {{every, sizeof every}, {big, BIG}, {"", 0}, {NULL, 0}, {"\0", 1}, {"'\\x00\\\"%s$1?", 13}}};
    hf_job list[LENGTH(payloads.list)];
    for (size_t i = 0; i < LENGTH(list); i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].payload = payloads.list[i].data;
        list[i].payload_len = payloads.list[i].len;
        list[i].null_payload = !payloads.list[i].data;
    }
    hf_runtime *runtime = start(jobs, 3, compare, &payloads);
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, LENGTH(list), NULL, &err), &err);
    drain(jobs, runtime, LENGTH(list));
    CU_ASSERT_EQUAL(atomic_load(&payloads.right), LENGTH(list));
    CU_ASSERT_EQUAL(jobs->n_runs, LENGTH(list));
    free(big);
}

static void exact_payloads(void)
{
    on_all(payloads_on);
}

/* ---- ids ---- */

static const int64_t ids[] = {INT64_MAX, INT64_MIN, 4294967296, 2147483648, 2147483647, -2147483649, -1, 1, 0};

/* First retried, then delayed, then given back by the stop, then done. */
static hf_outcome all_paths(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    hf_delivery_set_delay(delivery, 1);
    (void)!hf_delivery_set_reason(delivery, "once more", 9);
    int64_t attempt = hf_delivery_attempt(delivery);
    if (attempt > 2) {
        while (hf_delivery_wait(delivery, 20000) == HF_NOT_CANCELLED) {
        }
    }
    return attempt == 1 ? HF_RETRY : HF_RETRY_AFTER;
}

static bool at_the_third(void *arg)
{
    return hf_test_n_runs(arg) >= 3 * LENGTH(ids);
}

static const char *id_text(size_t i)
{
    return hf_test_format("%lld", (long long)ids[i]);
}

static void ids_on(struct hf_test_jobs *jobs)
{
    hf_error err = {.status = HF_OK};
    hf_job list[LENGTH(ids)];
    hf_field fields[LENGTH(ids)];
    if (jobs->kind.database == HF__MYSQL) { /* where an id that counts by itself takes 0 for "the next" */
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s MODIFY id BIGINT NOT NULL", jobs->name));
    }
    for (size_t i = 0; i < LENGTH(ids); i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        fields[i] = (hf_field){"id", id_text(i), strlen(id_text(i))};
        list[i].fields = &fields[i];
        list[i].n_fields = 1;
    }
    hf_runtime *runtime = start(jobs, LENGTH(ids), all_paths, jobs);
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, LENGTH(list), NULL, &err), &err);
    CU_ASSERT(hf_test_wait_until(at_the_third, jobs, 20000));
    HF_TEST_OK(hf_runtime_stop(runtime, 0, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(runtime, "subscription.0.given_back"), LENGTH(ids));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    for (size_t i = 0; i < LENGTH(ids); i++) {
        CU_ASSERT_EQUAL(hf_test_runs_of(jobs, ids[i]), 3);
        CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, hf_test_format("id = %s AND last_error = 'once more'",
                                                                ids[i] == INT64_MIN ? "(-9223372036854775807 - 1)" : id_text(i))),
                        1);
    }
    drain(jobs, start(jobs, LENGTH(ids), ack, jobs), LENGTH(ids));
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), 0);
    for (size_t i = 0; i < LENGTH(ids); i++) {
        CU_ASSERT_EQUAL(hf_test_runs_of(jobs, ids[i]), 4);
    }
}

static void ids_at_the_limits(void)
{
    on_all(ids_on);
}

/* ---- names ---- */

enum { ROWS = 10 };

/* A name within double quotes, of SQL or of JSON. */
static const char *quoted(const char *name, char quote, const char *escaped)
{
    const char *text = hf_test_format("%c", quote);
    for (; *name; name++) {
        text = *name == quote ? hf_test_format("%s%s", text, escaped) : hf_test_format("%s%c", text, *name);
    }
    return hf_test_format("%s%c", text, quote);
}

static const char *sql_name(enum hf__database database, const char *name)
{
    return database == HF__MYSQL ? quoted(name, '`', "``") : quoted(name, '"', "\"\"");
}

static const char *odd_description(hf_strategy strategy, const char *schema, const char *table)
{
    const char *lease = strategy == HF_LEASE ? ", \"locked_until\": \"Interval\"" : "";
    const char *key = strategy == HF_ADVISORY_LOCK ? ", \"advisory_lock\": \"{{x}}-{key}\"" : "";
    const char *in = schema ? hf_test_format("\"schema\": %s, ", quoted(schema, '"', "\\\"")) : "";
    return hf_test_format(
        "{ %s\"table\": %s, \"columns\": { \"id\": \"key\", \"payload\": \"order\", \"attempt\": \"group\", \"retry_after\": \"due at\", "
        "\"last_error\": \"wh\\\"y`\"%s }%s }",
        in, quoted(table, '"', "\\\""), lease, key);
}

static hf_outcome retry_once(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    (void)!hf_delivery_set_reason(delivery, "x", 1);
    return hf_delivery_attempt(delivery) == 1 ? HF_RETRY : HF_ACK;
}

/* Made by our own ddl, checked, filled, emptied. */
static void odd_table(struct hf_test_jobs *jobs, const char *schema, const char *table)
{
    hf_error err = {.status = HF_OK};
    hf_findings *findings = NULL;
    const char *json = jobs->json, *name = jobs->name;
    describe(jobs, odd_description(jobs->kind.strategy, schema, table));
    CU_ASSERT_STRING_EQUAL(hf_table_name(jobs->table), table);
    hf_runtime *runtime = subscribed(jobs, 3, retry_once, jobs);
    HF_TEST_OK(hf_table_create(runtime, jobs->table, &err), &err);
    HF_TEST_OK(hf_check(runtime, jobs->table, 3, &findings, &err), &err);
    CU_ASSERT_EQUAL(hf_findings_status(findings), HF_OK);
    hf_findings_free(findings);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    size_t before = hf_test_n_runs(jobs);
    hf_test_jobs_add(jobs, runtime, ROWS);
    drain(jobs, runtime, ROWS);
    CU_ASSERT_EQUAL(jobs->n_runs - before, 2 * ROWS);
    enum hf__database database = jobs->kind.database;
    const char *full = schema ? hf_test_format("%s.%s", sql_name(database, schema), sql_name(database, table)) : sql_name(database, table);
    CU_ASSERT_EQUAL(hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s", full)), 0);
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s", full));
    jobs->name = name;
    describe(jobs, json);
}

static void odd_names_on(struct hf_test_jobs *jobs)
{
    static const char *const names[] = {"order", "Order x", "\"q\"\"t\"", "na\xc3\xafve",
                                        "x.y",   "`b`t",    "it's",       "\xe8\xa1\xa8\xf0\x9f\x90\x98"};
    for (size_t i = 0; i < LENGTH(names); i++) {
        bool outside_the_bmp = strstr(names[i], "\xf0\x9f\x90\x98") != NULL; /* MySQL and MariaDB have no such names */
        if (jobs->kind.database != HF__MYSQL || !outside_the_bmp) {
            odd_table(jobs, NULL, names[i]);
        }
    }
}

static void odd_names(void)
{
    on_all(odd_names_on);
}

/* A schema that is on no search path; on MariaDB that is another database. */
static void odd_schemas_on(struct hf_test_jobs *jobs)
{
    const char *schema = hf_test_format("S 1.%s", jobs->name), *name = sql_name(jobs->kind.database, schema);
    switch (jobs->kind.database) {
    case HF__POSTGRES:
        hf_test_sql(jobs->url, hf_test_format("CREATE SCHEMA %s", name));
        odd_table(jobs, schema, "a b");
        hf_test_sql(jobs->url, hf_test_format("DROP SCHEMA %s", name));
        break;
    case HF__MYSQL:
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("CREATE DATABASE %s", name));
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("GRANT ALL ON %s.* TO holdfast@'127.0.0.1'", name));
        odd_table(jobs, schema, "a b");
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("REVOKE ALL ON %s.* FROM holdfast@'127.0.0.1'", name));
        hf_test_sql(hf_test_mysql_admin_url(), hf_test_format("DROP DATABASE %s", name));
        break;
    case HF__SQLITE:
        odd_table(jobs, "main", "a b");
        break;
    }
}

static void odd_schemas(void)
{
    on_all(odd_schemas_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"unreachable", unreachable}, {"wrong password", wrong_password}, {"missing table or column", missing_table_or_column},
        {"wrong JSON", wrong_json},   {"exact payloads", exact_payloads}, {"ids at the limits", ids_at_the_limits},
        {"odd names", odd_names},     {"odd schemas", odd_schemas},       CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_input", tests);
}
