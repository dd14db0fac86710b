/* ctest: timeout=120 labels=e2e
 * Dead letters in another schema than the table's (on MySQL and MariaDB another database), in a table of the same name; and the way back
 * through the command. */
#include <stdlib.h>
#include <string.h>

#include "tests/command.h"
#include "tests/jobs.h"

enum { ROWS = 4, DEAD = 3 };

static struct hf_test_jobs jobs;
static const char *schema, *dead_table; /* the dead letters' */
static struct hf_test_place place;      /* for the command */

/* ---- the two schemas ---- */

static const char *admin_url(void)
{
    return jobs.kind.database == HF__MYSQL ? hf_test_mysql_admin_url() : jobs.url;
}

static void make_schema(void)
{
    if (jobs.kind.database != HF__SQLITE)
        hf_test_sql(admin_url(), hf_test_format("CREATE SCHEMA %s", schema));
}

static void drop_schema(void)
{
    if (jobs.kind.database == HF__SQLITE)
        hf_test_sql(jobs.url, hf_test_format("DROP TABLE %s.%s", schema, dead_table));
    else
        hf_test_sql(admin_url(), hf_test_format("DROP SCHEMA %s%s", schema, jobs.kind.database == HF__POSTGRES ? " CASCADE" : ""));
}

static void grant(bool given)
{
    if (jobs.kind.database == HF__MYSQL)
        hf_test_sql(admin_url(),
                    hf_test_format("%s ALL ON %s.* %s holdfast@'127.0.0.1'", given ? "GRANT" : "REVOKE", schema, given ? "TO" : "FROM"));
}

static const char *description(bool with_dead_letters)
{
    const char *dead = "";
    const char *hold = " }";
    if (jobs.kind.strategy == HF_LEASE)
        hold = ", \"locked_until\": \"locked_until\" }";
    else if (jobs.kind.strategy == HF_ADVISORY_LOCK)
        hold = hf_test_format(" }, \"advisory_lock\": \"%s-{id}\"", jobs.name);
    if (with_dead_letters)
        dead = hf_test_format(", \"max_attempts\": 2, \"dead_letter\": { \"schema\": \"%s\", \"table\": \"%s\" }", schema, dead_table);
    return hf_test_format("{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", "
                          "\"retry_after\": \"retry_after\", \"last_error\": \"last_error\", \"group\": \"grp\"%s%s }",
                          jobs.name, hold, dead);
}

static void open_jobs(struct hf_test_kind kind, const char *in_schema)
{
    hf_error err = {.status = HF_OK};
    const char *dir = getenv("HF_TEST_SQLITE_DIR");
    jobs = (struct hf_test_jobs){.kind = kind, .url = hf_test_url(kind.database), .name = hf_test_scratch("jobs")};
    pthread_mutex_init(&jobs.lock, NULL);
    schema = in_schema;
    dead_table = kind.database == HF__SQLITE ? hf_test_format("%s_dead", jobs.name) : jobs.name;
    jobs.json = description(true);
    HF_TEST_OK(hf_table_parse(jobs.json, strlen(jobs.json), &jobs.table, &err), &err);
    place = (struct hf_test_place){.database = kind.database, .url = jobs.url, .table = jobs.name, .dir = dir};
    place.description = hf_test_write_file(dir, hf_test_format("%s.json", jobs.name), jobs.json, strlen(jobs.json));
}

/* ---- a subscription ---- */

static hf_outcome two_die(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)ctx;
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(&jobs, hf_test_run_begin(&jobs, delivery));
    (void)!hf_delivery_set_reason(delivery, "no luck", 7);
    return id <= 2 ? HF_RETRY : id == 3 ? HF_REJECT : HF_ACK;
}

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    (void)ctx;
    hf_test_run_end(&jobs, hf_test_run_begin(&jobs, delivery));
    return HF_ACK;
}

/* The first of what keeps a subscription from starting; "" when nothing does. */
static const char *first_error(const hf_findings *findings)
{
    for (size_t i = 0; i < hf_findings_count(findings); i++)
        if (hf_findings_level(findings, i) == HF_LOG_ERROR)
            return hf_test_format("%s", hf_findings_message(findings, i));
    return "";
}

/* What the check says names the dead letters' table, or it has nothing to say against it. */
static void check(bool fails)
{
    hf_error err = {.status = HF_OK};
    hf_findings *findings = NULL;
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, NULL);
    HF_TEST_OK(hf_check(runtime, jobs.table, 2, &findings, &err), &err);
    const char *error = first_error(findings), *named = hf_test_format("there is no table %s.%s", schema, dead_table);
    if (fails ? !strstr(error, named) : *error != '\0')
        hf_test_fail("%s: %s", hf_test_jobs_place(&jobs), error);
    hf_findings_free(findings);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static int64_t dead(const char *where)
{
    return hf_test_query_int(jobs.url, hf_test_format("SELECT count(*) FROM %s.%s WHERE %s", schema, dead_table, where));
}

/* ---- their life ---- */

static void die(void)
{
    hf_error err = {.status = HF_OK};
    hf_runtime *runtime = hf_test_jobs_start(&jobs, 2, two_die, NULL);
    hf_counts counts = HF_COUNTS_INIT;
    hf_test_jobs_add(&jobs, runtime, ROWS);
    hf_test_wait_for_runs(&jobs, ROWS + 2);
    hf_test_jobs_finish(&jobs, runtime);
    CU_ASSERT_EQUAL(dead("id IN (1, 2, 3) AND attempt = 1 AND last_error = 'no luck'"), DEAD);
    CU_ASSERT_EQUAL(dead("1 = 1"), DEAD);
    runtime = hf_test_jobs_runtime(&jobs, NULL);
    HF_TEST_OK(hf_count(runtime, jobs.table, &counts, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    CU_ASSERT_EQUAL(counts.dead, DEAD);
    CU_ASSERT_EQUAL(counts.due, 0);
}

static void come_back(void)
{
    hf_test_must_contain(hf_test_expect(hf_test_command(&place, "requeue", "--id", "2", NULL), 0), "1");
    CU_ASSERT_EQUAL(dead("id IN (1, 3)"), DEAD - 1);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "id = 2 AND attempt = 1"), 1);
    hf_test_must_contain(hf_test_expect(hf_test_command(&place, "requeue", "--all", NULL), 0), "2");
    CU_ASSERT_EQUAL(dead("1 = 1"), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&jobs, "id IN (1, 2, 3) AND attempt = 1"), DEAD);
    hf_test_jobs_finish(&jobs, hf_test_jobs_start(&jobs, 2, ack, NULL));
    CU_ASSERT_EQUAL(jobs.n_runs, ROWS + 2 + DEAD);
}

static void create(const char *json)
{
    hf_error err = {.status = HF_OK};
    hf_table *table = NULL;
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, NULL);
    HF_TEST_OK(hf_table_parse(json, strlen(json), &table, &err), &err);
    HF_TEST_OK(hf_table_create(runtime, table, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_table_free(table);
}

static void life(struct hf_test_kind kind)
{
    open_jobs(kind, kind.database == HF__SQLITE ? "main" : hf_test_scratch("aside"));
    make_schema();
    grant(true);
    create(jobs.json);
    check(false);
    die();
    come_back();
    grant(false);
    if (kind.database == HF__MYSQL)
        check(true);
    drop_schema();
    hf_test_jobs_close(&jobs);
}

static void test_life(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        life(hf_test_kinds[i]);
}

/* ---- a schema that is not there ---- */

static void missing(struct hf_test_kind kind)
{
    hf_error err = {.status = HF_OK};
    open_jobs(kind, hf_test_scratch("nowhere"));
    create(description(false));
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs.table, NULL, ack, NULL, NULL, &err), &err);
    HF_TEST_STATUS(hf_runtime_start(runtime, &err), HF_INVALID, &err);
    hf_test_must_contain(err.message, hf_test_format("%s.%s", schema, dead_table));
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    check(true);
    hf_test_jobs_close(&jobs);
}

static void test_missing(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        missing(hf_test_kinds[i]);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"a life in two schemas", test_life}, {"a schema that is not there", test_missing}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "dead_letter_schema", tests);
}
