/* ctest: timeout=120 labels=e2e
 * Enqueue through the runtime, and through the caller's own connection and transaction. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast.h"
#include "pool/driver.h"
#include "tests/command.h"
#if HOLDFAST_POSTGRES
#include "holdfast_postgres.h"
#endif
#if HOLDFAST_MYSQL
#include "holdfast_mysql.h"
#endif
#if HOLDFAST_SQLITE
#include "holdfast_sqlite.h"
#endif

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* A lease table. */
struct place {
    enum hf__database database;
    const char *url, *name;
    hf_table *table;
    hf_runtime *runtime;
};

static struct place open_place_with(enum hf__database database, const char *columns)
{
    hf_error err = {0};
    struct place place = {.database = database, .url = hf_test_url(database), .name = hf_test_scratch("enqueue")};
    const char *json = hf_test_format(
        "{ \"table\": \"%s\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": "
        "\"retry_after\", \"last_error\": \"last_error\", \"locked_until\": \"locked_until\"%s } }",
        place.name, columns);
    HF_TEST_OK(hf_table_parse(json, strlen(json), &place.table, &err), &err);
    HF_TEST_OK(hf_runtime_open(place.url, NULL, &place.runtime, &err), &err);
    HF_TEST_OK(hf_table_create(place.runtime, place.table, &err), &err);
    return place;
}

/* With every column that a job may set but those of roles that sort and name it. */
static struct place open_place(enum hf__database database)
{
    return open_place_with(database, "");
}

static const char every_role[] =
    ", \"headers\": \"headers\", \"group\": \"queue\", \"priority\": \"urgency\", \"partition_key\": \"customer\"";

static void close_place(struct place *place)
{
    HF_TEST_OK(hf_runtime_close(place->runtime), NULL);
    hf_table_free(place->table);
    hf_test_sql(place->url, hf_test_format("DROP TABLE %s", place->name));
}

static void on_all_with(const char *columns, void (*test)(struct place *place))
{
    static const enum hf__database databases[] = {HF__SQLITE, HF__POSTGRES, HF__MYSQL};
    for (size_t i = 0; i < LENGTH(databases); i++) {
        struct place place = open_place_with(databases[i], columns);
        test(&place);
        close_place(&place);
    }
}

static void on_all(void (*test)(struct place *place))
{
    on_all_with("", test);
}

static int64_t rows(const struct place *place, const char *where)
{
    return hf_test_query_int(place->url, hf_test_format("SELECT count(*) FROM %s WHERE %s", place->name, where));
}

static const char *stored(const struct place *place, const char *column, const char *where)
{
    return hf_test_query_text(place->url, hf_test_format("SELECT %s FROM %s WHERE %s", column, place->name, where));
}

static hf_job job(const char *payload)
{
    hf_job made = HF_JOB_INIT;
    made.payload = payload;
    made.payload_len = payload ? strlen(payload) : 0;
    return made;
}

/* ---- ids and payloads ---- */

static void ids_in_order(struct place *place)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_job jobs[3];
    for (size_t i = 0; i < LENGTH(jobs); i++) {
        jobs[i] = job(hf_test_format("payload %zu", i));
    }
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), &ids, &err), &err);
    CU_ASSERT_EQUAL_FATAL(hf_enqueued_count(ids), LENGTH(jobs));
    CU_ASSERT_PTR_NULL_FATAL(hf_enqueued_id(ids, LENGTH(jobs)));
    for (size_t i = 0; i < LENGTH(jobs); i++) {
        const char *payload =
            hf_test_query_text(place->url, hf_test_format("SELECT payload FROM %s WHERE id = %s", place->name, hf_enqueued_id(ids, i)));
        CU_ASSERT_STRING_EQUAL_FATAL(payload, jobs[i].payload);
    }
    hf_enqueued_free(ids);
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, 1, NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(place, "attempt = 1 AND locked_until IS NULL"), 4);
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, NULL, 0, &ids, &err), &err);
    CU_ASSERT_EQUAL_FATAL(hf_enqueued_count(ids), 0);
    hf_enqueued_free(ids);
}

static void test_ids(void)
{
    on_all(ids_in_order);
}

static void payload_kinds(struct place *place)
{
    hf_error err = {0};
    hf_job jobs[] = {job(""), job(NULL), job(NULL)};
    jobs[2].null_payload = true;
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(place, "length(payload) = 0"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "payload IS NULL"), 2);
}

static void test_payload_kinds(void)
{
    on_all(payload_kinds);
}

static void many(struct place *place)
{
    enum { N = 5000 };
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_job *jobs = calloc(N, sizeof *jobs);
    if (!jobs) {
        hf_test_fail("out of memory");
        return;
    }
    for (size_t i = 0; i < N; i++) {
        jobs[i] = job(hf_test_format("%zu", i));
    }
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, N, &ids, &err), &err);
    free(jobs);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), N);
    for (size_t i = 0; i < N; i += 1250) {
        const char *payload =
            hf_test_query_text(place->url, hf_test_format("SELECT payload FROM %s WHERE id = %s", place->name, hf_enqueued_id(ids, i)));
        CU_ASSERT_STRING_EQUAL_FATAL(payload, hf_test_format("%zu", i));
    }
    hf_enqueued_free(ids);
}

static void test_many(void)
{
    on_all(many);
}

/* ---- ids of 32 bits ---- */

static atomic_llong sum_of_ids;

static hf_outcome adds_its_id(hf_delivery *delivery, void *ctx)
{
    int64_t id = 0;
    (void)ctx;
    if (hf_delivery_id_int(delivery, &id) && strcmp(hf_delivery_id(delivery), hf_test_format("%lld", (long long)id)) == 0)
        atomic_fetch_add(&sum_of_ids, (long long)id);
    return HF_ACK;
}

/* What is enqueued is told, delivered and gone by its id. */
static void run_the_last(struct place *place, const hf_enqueued *ids, int64_t first)
{
    hf_error err = {0};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = 1;
    atomic_store(&sum_of_ids, 0);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(hf_enqueued_id(ids, (size_t)i), hf_test_format("%lld", (long long)first + i));
    CU_ASSERT_EQUAL(rows(place, hf_test_format("id BETWEEN %lld AND %lld", (long long)first, (long long)first + 2)), 3);
    HF_TEST_OK(hf_subscribe(place->runtime, place->table, &options, adds_its_id, NULL, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(place->runtime, &err), &err);
    HF_TEST_OK(hf_runtime_wait_empty(place->runtime, 30000, &err), &err);
    CU_ASSERT_EQUAL(rows(place, "1 = 1"), 0);
    CU_ASSERT_EQUAL(atomic_load(&sum_of_ids), 3 * first + 3);
}

/* Makes the ids so narrow, and first the next one. */
static const char *narrow(const struct place *place, const char *type, int64_t first)
{
    switch (place->database) {
    case HF__POSTGRES:
        return hf_test_format("ALTER TABLE %s ALTER COLUMN id TYPE %s; ALTER SEQUENCE %s_id_seq RESTART WITH %lld", place->name, type,
                              place->name, (long long)first);
    case HF__MYSQL:
        return hf_test_format("ALTER TABLE %s MODIFY id %s NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = %lld", place->name, type,
                              (long long)first);
    default: /* it keeps no limit of 32 bits */
        return hf_test_format("INSERT INTO %s (id) VALUES (%lld); DELETE FROM %s", place->name, (long long)first - 1, place->name);
    }
}

/* The last three ids, and then there is none left. */
static void last_ids(enum hf__database database, const char *type, int64_t last)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_job jobs[3] = {job("a"), job("b"), job("c")};
    struct place place = open_place(database);
    hf_test_sql(place.url, narrow(&place, type, last - 2));
    HF_TEST_OK(hf_enqueue(place.runtime, place.table, jobs, 3, &ids, &err), &err);
    run_the_last(&place, ids, last - 2);
    hf_enqueued_free(ids);
    if (database != HF__SQLITE) {
        HF_TEST_STATUS(hf_enqueue(place.runtime, place.table, jobs, 2, NULL, &err), HF_DATABASE, &err);
        CU_ASSERT_EQUAL(rows(&place, "1 = 1"), 0);
    }
    close_place(&place);
}

static void test_last_ids(void)
{
    last_ids(HF__POSTGRES, "integer", INT32_MAX);
    last_ids(HF__MYSQL, "INT", INT32_MAX);
    last_ids(HF__MYSQL, "INT UNSIGNED", UINT32_MAX);
    last_ids(HF__SQLITE, "INTEGER", INT32_MAX);
}

/* ---- what it costs ---- */

static double number_of(const struct place *place, const char *name)
{
    hf_error err = {0};
    hf_stats *stats = NULL;
    double value = -1;
    HF_TEST_OK(hf_stats_snapshot(place->runtime, &stats, &err), &err);
    CU_ASSERT_TRUE(hf_stats_find(stats, name, &value));
    hf_stats_free(stats);
    return value;
}

enum { MANY = 100 };

/* Round trips, and commits, of one call with n jobs. */
static void cost_of(struct place *place, size_t n, bool ids_wanted, double *trips, double *commits)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_job jobs[MANY];
    for (size_t i = 0; i < n; i++) {
        jobs[i] = job(hf_test_format("job %zu", i));
    }
    double trips_before = number_of(place, "pool.round_trips"), commits_before = number_of(place, "pool.commits");
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, n, ids_wanted ? &ids : NULL, &err), &err);
    *trips = number_of(place, "pool.round_trips") - trips_before;
    *commits = number_of(place, "pool.commits") - commits_before;
    CU_ASSERT_EQUAL(hf_enqueued_count(ids), ids_wanted ? n : 0);
    hf_enqueued_free(ids);
}

/* A hundred jobs go in as one does. Only SQLite, which tells the ids of several rows in no promised order, is asked for each id on its
 * own, in one transaction; no wire is between. */
static void one_statement(struct place *place)
{
    double trips, commits, one_trips, one_commits;
    cost_of(place, 1, true, &trips, &commits); /* connects, and reads the columns */
    for (int ids_wanted = 0; ids_wanted < 2; ids_wanted++) {
        bool each = ids_wanted && place->database == HF__SQLITE;
        cost_of(place, 1, ids_wanted, &one_trips, &one_commits);
        cost_of(place, MANY, ids_wanted, &trips, &commits);
        if (trips != (each ? MANY + 2 : one_trips) || one_trips > (ids_wanted ? 4 : 1) || commits != 1 || one_commits != 1) {
            hf_test_fail("%s, ids %s: 1 job costs %g round trips and %g commits, %d jobs %g and %g", hf__database_name(place->database),
                         ids_wanted ? "wanted" : "not wanted", one_trips, one_commits, MANY, trips, commits);
        }
    }
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1 + 2 * (1 + MANY));
}

static void test_one_statement(void)
{
    on_all(one_statement);
}

/* An id of the job's own is told as it is stored; where its field is NULL the database gives one. */
static void own_ids(struct place *place)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_field null = {"id", NULL, 0}, seventy = {"id", "0070", 4};
    hf_job jobs[] = {job("none"), job("null"), job("seventy"), job("null too")};
    bool gives = place->database != HF__POSTGRES; /* which takes NULL for a value, and refuses it */
    jobs[1].fields = jobs[3].fields = gives ? &null : NULL;
    jobs[2].fields = &seventy;
    jobs[1].n_fields = jobs[3].n_fields = gives;
    jobs[2].n_fields = 1;
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), &ids, &err), &err);
    CU_ASSERT_STRING_EQUAL(hf_enqueued_id(ids, 2), "70");
    for (size_t i = 0; i < LENGTH(jobs); i++)
        CU_ASSERT_STRING_EQUAL(stored(place, "payload", hf_test_format("id = %s", hf_enqueued_id(ids, i))), jobs[i].payload);
    hf_enqueued_free(ids);
}

static void test_own_ids(void)
{
    on_all(own_ids);
}

/* ---- roles ---- */

/* Jobs that fill different columns, mixed, in one call. */
static void roles(struct place *place)
{
    hf_error err = {0};
    hf_field error = {"last_error", "told", 4};
    hf_job jobs[] = {job("all"), job("few"), job("none"), job("all too")};
    for (size_t i = 0; i < LENGTH(jobs); i += 3) {
        jobs[i].group = "mail";
        jobs[i].headers = "{\"a\": 1}";
        jobs[i].priority = i == 0 ? INT32_MIN : INT32_MAX;
        jobs[i].has_priority = true;
        jobs[i].partition_key = "customer 7";
        jobs[i].fields = &error;
        jobs[i].n_fields = 1;
    }
    jobs[1].partition_key = "";
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(place, "queue = 'mail' AND customer = 'customer 7' AND last_error = 'told'"), 2);
    CU_ASSERT_EQUAL_FATAL(rows(place, "queue = 'mail' AND urgency = -2147483648"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "queue = 'mail' AND urgency = 2147483647 AND headers IS NOT NULL"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "customer = '' AND queue IS NULL AND headers IS NULL"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "customer IS NULL AND queue IS NULL AND urgency = 0"), 1);
}

/* What a job leaves out is the column's default, also where its neighbours differ from it in that alone. */
static void one_role_apart(struct place *place)
{
    static const char *const with[] = {"queue = 'q'",      "headers IS NOT NULL", "urgency = 5", "customer = 'c'",
                                       "last_error = 'e'", "payload IS NULL",     NULL};
    hf_error err = {0};
    hf_field error = {"last_error", "e", 1};
    for (size_t role = 0; with[role]; role++) {
        hf_job jobs[] = {job("p"), job("p"), job("p")};
        hf_job *odd = &jobs[1];
        odd->group = role == 0 ? "q" : NULL;
        odd->headers = role == 1 ? "{}" : NULL;
        odd->priority = 5;
        odd->has_priority = role == 2;
        odd->partition_key = role == 3 ? "c" : NULL;
        odd->fields = role == 4 ? &error : NULL;
        odd->n_fields = role == 4;
        odd->payload = role == 5 ? NULL : "p";
        odd->payload_len = role == 5 ? 0 : 1;
        hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->name));
        HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), NULL, &err), &err);
        CU_ASSERT_EQUAL(rows(place, with[role]), 1);
        CU_ASSERT_EQUAL(rows(place, "1 = 1"), LENGTH(jobs));
        CU_ASSERT_EQUAL(
            rows(place,
                 "payload IS NOT NULL AND queue IS NULL AND headers IS NULL AND urgency = 0 AND customer IS NULL AND last_error IS NULL"),
            2);
    }
}

static void test_roles(void)
{
    on_all_with(every_role, roles);
    on_all_with(every_role, one_role_apart);
}

/* A value for a role's column, given as a field: then nothing of ours stands in its way, the due time included. */
static void fields_for_roles(struct place *place)
{
    hf_error err = {0};
    hf_field fields[] = {{"queue", "g", 1}, {"urgency", "-5", 2}, {"retry_after", "2031-01-02 03:04:05.5", 21}};
    hf_job one = job("x");
    one.fields = fields;
    one.n_fields = LENGTH(fields);
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, &one, 1, NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(place, "queue = 'g' AND urgency = -5"), 1);
    CU_ASSERT_EQUAL_FATAL(rows(place, "retry_after > '2031-01-02 03:04:05' AND retry_after < '2031-01-02 03:04:06'"), 1);
}

static void test_fields_for_roles(void)
{
    on_all_with(every_role, fields_for_roles);
}

/* ---- times ---- */

#define DUE_US INT64_C(1924992245000001) /* 2031-01-01 00:04:05.000001 UTC */

/* A column that keeps fewer digits of a second than we do. */
static void make_coarse(const struct place *place, unsigned digits)
{
    if (place->database == HF__POSTGRES) {
        hf_test_sql(place->url, hf_test_format("ALTER TABLE %s ALTER COLUMN retry_after TYPE timestamptz(%u)", place->name, digits));
    } else if (place->database == HF__MYSQL) {
        hf_test_sql(place->url, hf_test_format("ALTER TABLE %s MODIFY retry_after DATETIME(%u) NULL", place->name, digits));
    }
}

static const char *due_text(const struct place *place)
{
    const char *column = place->database == HF__POSTGRES ? "to_char(retry_after AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
                         : place->database == HF__MYSQL  ? "date_format(retry_after, '%Y-%m-%d %H:%i:%s.%f')"
                                                         : "retry_after";
    return stored(place, column, "1 = 1");
}

static void must_be_due(struct place *place, const hf_job *one, const char *wanted)
{
    hf_error err = {0};
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, one, 1, NULL, &err), &err);
    const char *found = due_text(place);
    if (strcmp(found, wanted) != 0) {
        hf_test_fail("due at %s, not %s", found, wanted);
    }
    hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->name));
}

/* Rounded up to what the column keeps: never early. */
static void due_times(struct place *place)
{
    bool sqlite = place->database == HF__SQLITE;
    hf_job one = job("x");
    one.due_us = DUE_US;
    must_be_due(place, &one, "2031-01-01 00:04:05.000001");
    make_coarse(place, 3);
    must_be_due(place, &one, sqlite ? "2031-01-01 00:04:05.000001" : "2031-01-01 00:04:05.001000");
    make_coarse(place, 0);
    must_be_due(place, &one, sqlite ? "2031-01-01 00:04:05.000001" : "2031-01-01 00:04:06.000000");
    one.due_us = DUE_US - 1;
    must_be_due(place, &one, "2031-01-01 00:04:05.000000");
    one.due_us = INT64_C(253402300799000000);
    must_be_due(place, &one, "9999-12-31 23:59:59.000000");
}

static void test_due_times(void)
{
    on_all(due_times);
}

/* A delay of a millisecond and more, in a column of whole seconds: not due before it is over. */
static void coarse_delays(struct place *place)
{
    if (place->database == HF__SQLITE) {
        return;
    }
    hf_error err = {0};
    make_coarse(place, 0);
    const char *now = place->database == HF__POSTGRES ? "EXTRACT(EPOCH FROM clock_timestamp())" : "UNIX_TIMESTAMP(UTC_TIMESTAMP(6))";
    const char *due = place->database == HF__POSTGRES ? "EXTRACT(EPOCH FROM retry_after)" : "UNIX_TIMESTAMP(retry_after)";
    for (size_t i = 0; i < 20; i++) {
        hf_job one = job("x");
        one.delay_ms = 2000 + (int64_t)i * 47;
        int64_t before_ms = hf_test_query_int(place->url, hf_test_format("SELECT CAST(%s * 1000 AS DECIMAL(20, 0))", now));
        HF_TEST_OK(hf_enqueue(place->runtime, place->table, &one, 1, NULL, &err), &err);
        int64_t after_ms = hf_test_query_int(place->url, hf_test_format("SELECT CAST(%s * 1000 AS DECIMAL(20, 0))", now));
        int64_t due_ms =
            hf_test_query_int(place->url, hf_test_format("SELECT CAST(%s * 1000 AS DECIMAL(20, 0)) FROM %s", due, place->name));
        CU_ASSERT_TRUE_FATAL(due_ms + 50 >= before_ms + one.delay_ms); /* the two clocks' difference is estimated */
        CU_ASSERT_TRUE_FATAL(due_ms <= after_ms + one.delay_ms + 2000);
        hf_test_sql(place->url, hf_test_format("DELETE FROM %s", place->name));
    }
}

static void test_coarse_delays(void)
{
    on_all(coarse_delays);
}

/* ---- all or nothing, and what is refused ---- */

static void all_or_nothing(struct place *place)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_field id = {"id", "77", 2};
    hf_job jobs[] = {job("a"), job("b"), job("c")};
    jobs[0].fields = jobs[2].fields = &id;
    jobs[0].n_fields = jobs[2].n_fields = 1;
    HF_TEST_STATUS(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), &ids, &err), HF_DATABASE, &err);
    CU_ASSERT_PTR_NULL_FATAL(ids);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, 2, &ids, &err), &err);
    CU_ASSERT_STRING_EQUAL_FATAL(hf_enqueued_id(ids, 0), "77");
    hf_enqueued_free(ids);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 2);
}

static void test_all_or_nothing(void)
{
    on_all(all_or_nothing);
}

static void refused(struct place *place, const hf_job *bad, const char *message)
{
    hf_error err = {0};
    hf_job jobs[] = {job("good"), *bad};
    HF_TEST_STATUS(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), NULL, &err), HF_INVALID, &err);
    hf_test_must_contain(err.message, message);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
}

static void test_refused(void)
{
    struct place place = open_place(HF__SQLITE);
    hf_job group = HF_JOB_INIT;
    hf_job headers = HF_JOB_INIT;
    hf_job priority = HF_JOB_INIT;
    hf_job delay = HF_JOB_INIT;
    hf_job too_long = HF_JOB_INIT;
    hf_job payload = job("x");
    hf_job field = HF_JOB_INIT;
    hf_field nameless = {"", "x", 1};
    group.group = "g";
    headers.headers = "{}";
    priority.has_priority = true;
    delay.delay_ms = -1;
    too_long.delay_ms = INT64_MAX;
    hf_job partition = HF_JOB_INIT;
    hf_job early = HF_JOB_INIT;
    hf_job late = HF_JOB_INIT;
    partition.partition_key = "k";
    early.due_us = -1;
    late.due_us = INT64_MAX;
    payload.null_payload = true;
    field.fields = &nameless;
    field.n_fields = 1;
    refused(&place, &group, "\"group\"");
    refused(&place, &headers, "\"headers\"");
    refused(&place, &priority, "\"priority\"");
    refused(&place, &partition, "\"partition_key\"");
    refused(&place, &early, "-1 us");
    refused(&place, &late, "the year 9999");
    refused(&place, &delay, "-1 ms");
    refused(&place, &too_long, "a thousand years");
    refused(&place, &payload, "null_payload");
    refused(&place, &field, "names no column");
    field.fields = NULL;
    refused(&place, &field, "fields is NULL");

    hf_error err = {0};
    hf_job unset = {0};
    HF_TEST_STATUS(hf_enqueue(place.runtime, place.table, &unset, 1, NULL, &err), HF_INVALID, &err);
    hf_test_must_contain(err.message, "HF_JOB_INIT");
    HF_TEST_STATUS(hf_enqueue(NULL, place.table, &group, 1, NULL, &err), HF_INVALID, &err);
    HF_TEST_STATUS(hf_enqueue(place.runtime, NULL, &group, 1, NULL, &err), HF_INVALID, &err);
    HF_TEST_STATUS(hf_enqueue(place.runtime, place.table, NULL, 1, NULL, &err), HF_INVALID, &err);
    close_place(&place);
}

/* One thing said twice, in two ways. */
static void contradictions(struct place *place)
{
    static const char *const columns[] = {"payload", "headers", "queue", "urgency", "customer", "retry_after"};
    for (size_t i = 0; i < LENGTH(columns) + 1; i++) {
        hf_field field = {i < LENGTH(columns) ? columns[i] : "retry_after", "1", 1};
        hf_job one = HF_JOB_INIT;
        one.payload = i == 0 ? "x" : NULL;
        one.payload_len = i == 0;
        one.headers = i == 1 ? "{}" : NULL;
        one.group = i == 2 ? "g" : NULL;
        one.has_priority = i == 3;
        one.partition_key = i == 4 ? "k" : NULL;
        one.delay_ms = i == 5;
        one.due_us = i == 6;
        one.fields = &field;
        one.n_fields = 1;
        refused(place, &one, hf_test_format("a field for its column \"%s\" as well: leave one of them out", field.column));
        if (place->database != HF__POSTGRES) {
            field.column = hf_test_format("%c%s", field.column[0] - 'a' + 'A', field.column + 1);
            refused(place, &one, "as well: leave one of them out");
        }
    }
    hf_field twice[] = {{"last_error", "a", 1}, {"attempt", "1", 1}, {"last_error", "b", 1}};
    hf_job one = HF_JOB_INIT;
    one.fields = twice;
    one.n_fields = LENGTH(twice);
    refused(place, &one, "two fields for the column \"last_error\"");
    one.n_fields = 0;
    one.delay_ms = 1;
    one.due_us = 1;
    refused(place, &one, "a delay and a time (delay_ms and due_us): leave one of them out");
    refused(place, &one, "job 1 ");
    hf_error err = {0};
    HF_TEST_STATUS(hf_enqueue(place->runtime, place->table, &one, 1, NULL, &err), HF_INVALID, &err);
    hf_test_must_contain(err.message, ": the job has a delay and a time");
}

static void test_contradictions(void)
{
    on_all_with(every_role, contradictions);
}

/* A caller compiled with an older header has smaller structs, one with a newer header larger ones. */
static void test_sizes(void)
{
    struct place place = open_place(HF__SQLITE);
    struct newer {
        hf_job job;
        void *more[3];
    } newer[2] = {{.job = job("newer 0")}, {.job = job("newer 1")}};
    newer[0].job.size = newer[1].job.size = sizeof newer[0];
    newer[0].more[0] = newer;
    struct older {
        size_t size;
        const void *payload;
        size_t payload_len;
        int64_t delay_ms;
    } older[2] = {{sizeof older[0], "older 0", 7, 0}, {sizeof older[0], "older 1", 7, 0}};
    hf_error err = {0};
    HF_TEST_OK(hf_enqueue(place.runtime, place.table, &newer[0].job, 2, NULL, &err), &err);
    HF_TEST_OK(hf_enqueue(place.runtime, place.table, (const hf_job *)(const void *)older, 2, NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "payload IN (CAST('newer 0' AS BLOB), CAST('newer 1' AS BLOB))"), 2);
    CU_ASSERT_EQUAL_FATAL(rows(&place, "payload IN (CAST('older 0' AS BLOB), CAST('older 1' AS BLOB))"), 2);
    close_place(&place);
}

static void delays(struct place *place)
{
    hf_error err = {0};
    hf_counts counts = HF_COUNTS_INIT;
    hf_job jobs[] = {job("now"), job("soon"), job("much later")};
    jobs[1].delay_ms = 1500;
    jobs[2].delay_ms = INT64_C(10) * 366 * 86400 * 1000;
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, jobs, LENGTH(jobs), NULL, &err), &err);
    HF_TEST_OK(hf_count(place->runtime, place->table, &counts, &err), &err);
    CU_ASSERT_EQUAL_FATAL(counts.due, 1);
    CU_ASSERT_EQUAL_FATAL(counts.delayed, 2);
}

static void test_delays(void)
{
    on_all(delays);
}

/* ---- the wake-up ---- */

static hf_outcome count_one(hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    atomic_fetch_add((atomic_int *)ctx, 1);
    return HF_ACK;
}

static bool has_run(void *count)
{
    return atomic_load((atomic_int *)count) > 0;
}

static void enqueue_wakes(struct place *place)
{
    atomic_int count = 0;
    hf_error err = {0};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = 1;
    options.poll_ms = 60000;
    HF_TEST_OK(hf_subscribe(place->runtime, place->table, &options, count_one, &count, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(place->runtime, &err), &err);
    HF_TEST_OK(hf_runtime_wait_empty(place->runtime, 10000, &err), &err); /* it has polled, and sleeps */
    hf_job one = job("x");
    HF_TEST_OK(hf_enqueue(place->runtime, place->table, &one, 1, NULL, &err), &err);
    CU_ASSERT_TRUE_FATAL(hf_test_wait_until(has_run, &count, 10000));
    HF_TEST_OK(hf_runtime_stop(place->runtime, 10000, NULL, &err), &err);
}

static void test_wake(void)
{
    on_all(enqueue_wakes);
}

/* ---- the caller's own connection ---- */

/* A native handle of the database, in a connection that the test may also use in our terms. */
struct native {
    struct hf__url *url;
    struct hf__conn *conn;
    void *handle;
};

static struct native connect_natively(const struct place *place)
{
    hf_error err = {0};
    struct native native = {0};
    struct hf__session_options options = {.connect_timeout_ms = 10000, .idle_limit_ms = 600000};
    HF_TEST_OK(hf__url_parse(place->url, &native.url, &err), &err);
    HF_TEST_OK(hf__conn_open(native.url, &options, hf__after_ms(10000), &native.conn, &err), &err);
    native.handle = hf__conn_native(native.conn);
    return native;
}

static void disconnect(struct native *native)
{
    hf__conn_close(native->conn);
    hf__url_free(native->url);
}

static void run(const struct native *native, const char *sql)
{
    hf_error err = {0};
    HF_TEST_OK(hf__conn_exec(native->conn, sql, hf__after_ms(10000), &err), &err);
}

static hf_status enqueue_natively(const struct place *place, void *handle, const hf_job *jobs, size_t n, hf_enqueued **out, hf_error *err)
{
    switch (place->database) {
#if HOLDFAST_POSTGRES
    case HF__POSTGRES:
        return hf_enqueue_postgres(handle, place->table, jobs, n, out, err);
#endif
#if HOLDFAST_MYSQL
    case HF__MYSQL:
        return hf_enqueue_mysql(handle, place->table, jobs, n, out, err);
#endif
#if HOLDFAST_SQLITE
    case HF__SQLITE:
        return hf_enqueue_sqlite(handle, place->table, jobs, n, out, err);
#endif
    default:
        return hf__fail(err, HF_UNSUPPORTED, "this build has no such database");
    }
}

static void in_the_callers_transaction(struct place *place)
{
    hf_error err = {0};
    hf_enqueued *ids = NULL;
    hf_job jobs[] = {job("a"), job("b")};
    struct native native = connect_natively(place);
    run(&native, "BEGIN");
    HF_TEST_OK(enqueue_natively(place, native.handle, jobs, LENGTH(jobs), &ids, &err), &err);
    CU_ASSERT_EQUAL_FATAL(hf_enqueued_count(ids), 2);
    hf_enqueued_free(ids);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    run(&native, "ROLLBACK");
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    run(&native, "BEGIN");
    HF_TEST_OK(enqueue_natively(place, native.handle, jobs, LENGTH(jobs), NULL, &err), &err);
    run(&native, "COMMIT");
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 2);
    HF_TEST_OK(enqueue_natively(place, native.handle, jobs, LENGTH(jobs), NULL, &err), &err);
    CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 4);
    disconnect(&native);
    HF_TEST_STATUS(enqueue_natively(place, NULL, jobs, LENGTH(jobs), NULL, &err), HF_INVALID, &err);
}

static void test_callers_transaction(void)
{
    on_all(in_the_callers_transaction);
}

/* Whatever zone the caller's session has. */
static void time_in_the_callers_session(struct place *place)
{
    static const char *const zones[HF__SQLITE + 1] = {[HF__POSTGRES] = "SET TIME ZONE '+05:00'", [HF__MYSQL] = "SET time_zone = '+05:00'"};
    hf_error err = {0};
    hf_job one = job("x");
    one.due_us = DUE_US;
    struct native native = connect_natively(place);
    if (zones[place->database]) {
        run(&native, zones[place->database]);
    }
    HF_TEST_OK(enqueue_natively(place, native.handle, &one, 1, NULL, &err), &err);
    disconnect(&native);
    CU_ASSERT_STRING_EQUAL(due_text(place), "2031-01-01 00:04:05.000001");
}

static void test_callers_zone(void)
{
    on_all(time_in_the_callers_session);
}

/* A failed enqueue is undone alone; on PostgreSQL an error aborts the transaction, as any error does. */
static void failure_in_the_callers_transaction(struct place *place)
{
    hf_error err = {0};
    hf_field id = {"id", "77", 2};
    hf_job good = job("good");
    hf_job jobs[] = {job("a"), job("b"), job("c")};
    jobs[0].fields = jobs[2].fields = &id;
    jobs[0].n_fields = jobs[2].n_fields = 1;
    struct native native = connect_natively(place);
    run(&native, "BEGIN");
    HF_TEST_OK(enqueue_natively(place, native.handle, &good, 1, NULL, &err), &err);
    HF_TEST_STATUS(enqueue_natively(place, native.handle, jobs, LENGTH(jobs), NULL, &err), HF_DATABASE, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, hf_test_format("table %s: the job", place->name)));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "not added: "));
    if (place->database == HF__POSTGRES && hf__conn_transaction(native.conn) == HF__TX_FAILED) {
        run(&native, "ROLLBACK");
        CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 0);
    } else {
        run(&native, "COMMIT");
        CU_ASSERT_EQUAL_FATAL(rows(place, "1 = 1"), 1);
    }
    disconnect(&native);
}

static void test_callers_failure(void)
{
    on_all(failure_in_the_callers_transaction);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"ids come in the order of the jobs", test_ids},
        {"an empty, a missing and a NULL payload", test_payload_kinds},
        {"5,000 jobs in one call", test_many},
        {"the last ids of 32 bits", test_last_ids},
        {"many jobs are one statement", test_one_statement},
        {"ids of the jobs' own", test_own_ids},
        {"every role", test_roles},
        {"fields for the columns of roles", test_fields_for_roles},
        {"a time is never early", test_due_times},
        {"a delay in a column of whole seconds", test_coarse_delays},
        {"all or nothing", test_all_or_nothing},
        {"what is refused, and how it is said", test_refused},
        {"what contradicts itself", test_contradictions},
        {"older and newer structs", test_sizes},
        {"delays", test_delays},
        {"enqueue wakes a subscription", test_wake},
        {"in the caller's transaction", test_callers_transaction},
        {"a time in a session with a zone of its own", test_callers_zone},
        {"a failure in the caller's transaction", test_callers_failure},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "enqueue", tests);
}
