/* ctest: timeout=300 labels=e2e
 * Roles end to end, under every strategy of every database: attempts and their limit, ids at the limits of their type, groups that are
 * equal but for their case, bytes that are no text, priorities. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/driver.h"
#include "tests/fleet.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LIMIT_MS 30000
#define GROUP ", \"group\": \"grp\""
#define PRIORITY ", \"priority\": \"pri\""

static struct hf_test_jobs *open_jobs(struct hf_test_kind kind, struct hf_test_shape shape)
{
    struct hf_test_jobs *jobs = malloc(sizeof *jobs); /* never freed after a failure: handlers may still run then */
    CU_ASSERT_PTR_NOT_NULL_FATAL(jobs);
    hf_test_jobs_open_shape(jobs, kind, 30, shape);
    return jobs;
}

static void close_jobs(struct hf_test_jobs *jobs)
{
    hf_test_jobs_close(jobs);
    free(jobs);
}

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

/* ---- case 73: max_attempts is the number of runs ---- */

static int64_t count_dead(const struct hf_test_jobs *jobs, const char *where)
{
    return hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s_dead WHERE %s", jobs->name, where));
}

/* Two processes that always fail; one, where a file's keys belong to one. */
static void fail_always(struct hf_test_kind kind, int most)
{
    enum { N = 12 };
    bool alone = kind.database == HF__SQLITE && kind.strategy == HF_ADVISORY_LOCK;
    struct hf_test_fleet fleet;
    struct hf_test_child *workers[2];
    hf_test_fleet_open(&fleet, kind, 30,
                       (struct hf_test_shape){.settings = hf_test_format(", \"max_attempts\": %d", most), .dead_table = true});
    hf_test_fleet_add(&fleet, N);
    for (int i = 0; i < (alone ? 1 : 2); i++) {
        workers[i] = hf_test_fleet_start(&fleet, "--workers", "4", "--poll-ms", "20", "--outcome", "retry", "--until-empty", NULL);
    }
    for (int i = 0; i < (alone ? 1 : 2); i++) {
        hf_test_fleet_end(workers[i], LIMIT_MS);
    }
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet.ledger);
    hf_test_ledger_rows_apart(&ledger);
    hf_test_ledger_all_ran(&ledger, N);
    CU_ASSERT_EQUAL(ledger.n, (size_t)(N * most));
    for (int64_t id = 1; id <= N; id++) {
        for (int run = 0; run < most; run++) {
            const struct hf_test_entry *entry = hf_test_ledger_run_of(&ledger, id, (size_t)run);
            CU_ASSERT_FATAL(entry && entry->attempt == run + 1);
        }
    }
    hf_test_ledger_free(&ledger);
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet.jobs, "1 = 1"), 0);
    CU_ASSERT_EQUAL(count_dead(&fleet.jobs, "attempt = 1 AND last_error IS NULL"), N); /* moved by the last settle, not by a later claim */
    hf_test_fleet_close(&fleet);
}

static void most_attempts_on(struct hf_test_kind kind)
{
    for (int most = 1; most <= 3; most++) {
        fail_always(kind, most);
    }
}

static void most_attempts(void)
{
    static const char *const refused[] = {"0", "-1", "null", "1.5", "\"3\""};
    hf_test_on_all(most_attempts_on);
    for (size_t i = 0; i < LENGTH(refused); i++) {
        const char *json = hf_test_format("{ \"table\": \"t\", \"columns\": { \"id\": \"id\", \"attempt\": \"n\" }, \"max_attempts\": %s, "
                                          "\"dead_letter\": { \"table\": \"d\" } }",
                                          refused[i]);
        hf_error err = {.status = HF_OK};
        hf_table *table = NULL;
        HF_TEST_STATUS(hf_table_parse(json, strlen(json), &table, &err), HF_INVALID, NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "max_attempts"));
    }
}

/* ---- case 74: ids at the limits, through a crash and to the dead letter ---- */

static const char *const ids[] = {"9223372036854775807", "-9223372036854775808", "4294967296", "2147483648",
                                  "2147483647",          "-2147483649",          "-1",         "0"};

static void add_ids(struct hf_test_fleet *fleet)
{
    hf_error err = {.status = HF_OK};
    hf_job list[LENGTH(ids)];
    hf_field fields[LENGTH(ids)];
    hf_runtime *runtime = hf_test_jobs_runtime(&fleet->jobs, NULL);
    if (fleet->jobs.kind.database == HF__MYSQL) { /* where an id that counts by itself takes 0 for "the next" */
        hf_test_sql(fleet->jobs.url, hf_test_format("ALTER TABLE %s MODIFY id BIGINT NOT NULL", fleet->jobs.name));
    }
    for (size_t i = 0; i < LENGTH(ids); i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        fields[i] = (hf_field){"id", ids[i], strlen(ids[i])};
        list[i].fields = &fields[i];
        list[i].n_fields = 1;
    }
    HF_TEST_OK(hf_enqueue(runtime, fleet->jobs.table, list, LENGTH(ids), NULL, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

static size_t runs_of(const struct hf_test_ledger *ledger, const char *id)
{
    size_t n = 0;
    for (size_t i = 0; i < ledger->n; i++) {
        n += strcmp(ledger->runs[i].id, id) == 0;
    }
    return n;
}

static void check_ids(const struct hf_test_fleet *fleet)
{
    struct hf_test_ledger ledger = hf_test_ledger_read(fleet->ledger);
    for (size_t i = 0; i < LENGTH(ids); i++) {
        const char *literal = i == 1 ? "(-9223372036854775807 - 1)" : ids[i];
        CU_ASSERT_EQUAL(runs_of(&ledger, ids[i]), 2);
        CU_ASSERT_EQUAL(count_dead(&fleet->jobs, hf_test_format("id = %s", literal)), 1);
    }
    CU_ASSERT_EQUAL(ledger.n, 2 * LENGTH(ids));
    CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet->jobs, "1 = 1"), 0);
    hf_test_ledger_free(&ledger);
}

/* All of them are in work when their process is killed; another one runs them again, and rejects them. */
static void ids_on(struct hf_test_kind kind)
{
    struct hf_test_fleet fleet;
    hf_test_fleet_open(&fleet, kind, 2, (struct hf_test_shape){.dead_table = true});
    add_ids(&fleet);
    struct hf_test_child *victim = hf_test_fleet_start(&fleet, "--workers", "8", "--poll-ms", "20", "--handler", "hang", NULL);
    hf_test_fleet_wait_begun(&fleet, LENGTH(ids), LIMIT_MS);
    hf_test_kill(victim, SIGKILL);
    CU_ASSERT_EQUAL(hf_test_wait(victim, LIMIT_MS), HF_TEST_SIGNALLED + SIGKILL);
    hf_test_free(victim);
    hf_test_fleet_end(
        hf_test_fleet_start(&fleet, "--workers", "4", "--poll-ms", "20", "--handler", "ms:1", "--outcome", "reject", "--until-empty", NULL),
        LIMIT_MS);
    check_ids(&fleet);
    hf_test_fleet_close(&fleet);
}

static void ids_at_the_limits(void)
{
    hf_test_on_all(ids_on);
}

/* ---- case 78: groups that are one to the database ---- */

enum { ALIKE = 6 };
static const char *const alike[ALIKE] = {"A", "a", "\xc3\xa1", "\xc3\x9f", "ss", "SS"};

/* What the database takes for one group runs one at a time and in order; what it takes for two does not wait for the other. */
static void check_classes(const struct hf_test_jobs *jobs, const int64_t *class_of)
{
    for (size_t i = 0; i < jobs->n_runs; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct hf_test_run *early = &jobs->runs[k], *late = &jobs->runs[i];
            if (class_of[early->id] != class_of[late->id]) {
                continue;
            }
            if (early->end_us > late->begin_us || early->id > late->id) {
                hf_test_fail("%s: rows %lld and %lld are of one group", hf_test_jobs_place(jobs), (long long)early->id,
                             (long long)late->id);
            }
        }
    }
}

static hf_outcome a_moment(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    hf_test_sleep_ms(3);
    hf_test_run_end(ctx, run);
    return HF_ACK;
}

static int64_t n_groups(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_group_counts *counts = NULL;
    HF_TEST_OK(hf_count_groups(runtime, jobs->table, &counts, &err), &err);
    size_t n = hf_group_counts_count(counts);
    hf_group_counts_free(counts);
    return (int64_t)n;
}

static void alike_on(struct hf_test_kind kind, const char *collation)
{
    enum { N = 5 * ALIKE };
    int64_t class_of[N + 1];
    struct hf_test_jobs *jobs = open_jobs(kind, (struct hf_test_shape){.columns = GROUP, .settings = ", \"fifo\": true"});
    if (collation) {
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s MODIFY grp VARCHAR(100) COLLATE %s", jobs->name, collation));
    }
    for (size_t i = 0; i < N; i++) {
        hf_job job = HF_JOB_INIT;
        job.group = alike[i % ALIKE];
        hf_test_jobs_put(jobs, job, 1);
    }
    for (int64_t id = 1; id <= N; id++) {
        class_of[id] =
            hf_test_query_int(jobs->url, hf_test_format("SELECT min(a.id) FROM %s a JOIN %s b ON a.grp = b.grp WHERE b.id = %lld",
                                                        jobs->name, jobs->name, (long long)id));
    }
    int64_t groups = hf_test_query_int(jobs->url, hf_test_format("SELECT count(DISTINCT grp) FROM %s", jobs->name));
    CU_ASSERT(collation ? groups < ALIKE : groups == ALIKE);
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    CU_ASSERT_EQUAL(n_groups(jobs, runtime), groups);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_finish(jobs, hf_test_jobs_start(jobs, 4, a_moment, jobs));
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    hf_test_sort_runs(jobs);
    check_classes(jobs, class_of);
    close_jobs(jobs);
}

/* Without order: a subscription to one of them reads what the database takes for it, and no other group starves. */
static void alike_unordered_on(struct hf_test_kind kind, const char *collation)
{
    enum { N = 3 * ALIKE };
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *const named[] = {"a"};
    struct hf_test_jobs *jobs = open_jobs(kind, (struct hf_test_shape){.columns = GROUP});
    if (collation) {
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s MODIFY grp VARCHAR(100) COLLATE %s", jobs->name, collation));
    }
    for (size_t i = 0; i < N; i++) {
        hf_job job = HF_JOB_INIT;
        job.group = alike[i % ALIKE];
        hf_test_jobs_put(jobs, job, 1);
    }
    int64_t of_a = hf_test_jobs_count(jobs, "grp = 'a'");
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    CU_ASSERT_EQUAL(n_groups(jobs, runtime),
                    hf_test_query_int(jobs->url, hf_test_format("SELECT count(DISTINCT grp) FROM %s", jobs->name)));
    options.groups = named;
    options.n_groups = 1;
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, a_moment, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    HF_TEST_OK(hf_runtime_wait_empty(runtime, LIMIT_MS, &err), &err);
    hf_test_jobs_stop(jobs, runtime);
    CU_ASSERT_EQUAL((int64_t)jobs->n_runs, of_a);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "grp = 'a'"), 0);
    CU_ASSERT_EQUAL(hf_test_jobs_count(jobs, "1 = 1"), N - of_a);
    hf_test_jobs_finish(jobs, hf_test_jobs_start(jobs, 4, a_moment, jobs));
    CU_ASSERT_EQUAL(jobs->n_runs, N);
    close_jobs(jobs);
}

static void unordered_groups_of_other_case(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        alike_unordered_on(hf_test_kinds[i], NULL);
        if (hf_test_kinds[i].database == HF__MYSQL) {
            alike_unordered_on(hf_test_kinds[i], "utf8mb4_general_ci");
            alike_unordered_on(hf_test_kinds[i], "utf8mb4_unicode_ci");
        }
    }
}

static void groups_of_other_case(void)
{
    static const hf_strategy strategies[] = {HF_ROW_LOCK, HF_LEASE};
    for (size_t i = 0; i < LENGTH(strategies); i++) {
        alike_on((struct hf_test_kind){HF__POSTGRES, strategies[i]}, NULL);
        alike_on((struct hf_test_kind){HF__MYSQL, strategies[i]}, NULL);
        alike_on((struct hf_test_kind){HF__MYSQL, strategies[i]}, "utf8mb4_general_ci");
        alike_on((struct hf_test_kind){HF__MYSQL, strategies[i]}, "utf8mb4_unicode_ci");
    }
    alike_on((struct hf_test_kind){HF__SQLITE, HF_LEASE}, NULL);
}

/* ---- case 80: bytes that are no text, there and back ---- */

static char every[256];
static char endless[100000]; /* characters of two bytes */

struct bytes {
    struct hf_test_jobs *jobs;
    atomic_int exact;
    bool rejects;
};

/* Rows 1, 2, 3: all bytes, none, NULL. */
static hf_outcome compares(hf_delivery *delivery, void *ctx)
{
    struct bytes *bytes = ctx;
    size_t len = 7;
    int64_t id = 0;
    const char *payload = hf_delivery_payload(delivery, &len);
    (void)hf_delivery_id_int(delivery, &id);
    hf_test_run_end(bytes->jobs, hf_test_run_begin(bytes->jobs, delivery));
    bool all = payload && len == sizeof every && memcmp(payload, every, len) == 0, none = payload && len == 0;
    atomic_fetch_add(&bytes->exact, id == 1 ? all : id == 2 ? none : !payload && len == 0);
    if (id == 3) {
        (void)!hf_delivery_set_reason(delivery, endless, sizeof endless);
    } else {
        (void)!hf_delivery_set_reason(delivery, "before\0behind\xff", 14);
    }
    return bytes->rejects ? HF_REJECT : HF_ACK;
}

static void bytes_on(struct hf_test_kind kind)
{
    hf_error err = {.status = HF_OK};
    size_t moved = 0;
    struct hf_test_jobs *jobs = open_jobs(kind, (struct hf_test_shape){.dead_table = true});
    struct bytes bytes = {.jobs = jobs, .rejects = true};
    const char *n_bytes = kind.database == HF__SQLITE ? "length(CAST(last_error AS BLOB))" : "octet_length(last_error)";
    hf_job list[3] = {HF_JOB_INIT, HF_JOB_INIT, HF_JOB_INIT};
    for (size_t i = 0; i < sizeof every; i++) {
        every[i] = (char)i;
    }
    for (size_t i = 0; i < sizeof endless; i++) {
        endless[i] = i % 2 ? '\xa9' : '\xc3';
    }
    list[0].payload = every;
    list[0].payload_len = sizeof every;
    list[1].payload = "";
    list[2].null_payload = true;
    hf_runtime *runtime = hf_test_jobs_start(jobs, 2, compares, &bytes);
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, 3, NULL, &err), &err);
    hf_test_jobs_finish(jobs, runtime);
    CU_ASSERT_EQUAL(atomic_load(&bytes.exact), 3);
    CU_ASSERT_EQUAL(count_dead(jobs, "last_error = 'before?behind?'"), 2); /* as holdfast(7) says */
    CU_ASSERT_EQUAL(count_dead(jobs, hf_test_format("%s = 65534", n_bytes)), 1);
    bytes.rejects = false;
    runtime = hf_test_jobs_start(jobs, 2, compares, &bytes);
    HF_TEST_OK(hf_requeue(runtime, jobs->table, NULL, &moved, &err), &err);
    CU_ASSERT_EQUAL(moved, 3);
    hf_test_jobs_finish(jobs, runtime);
    CU_ASSERT_EQUAL(atomic_load(&bytes.exact), 6);
    CU_ASSERT_EQUAL(count_dead(jobs, "1 = 1"), 0);
    close_jobs(jobs);
}

static void bytes_that_are_no_text(void)
{
    hf_test_on_all(bytes_on);
}

/* ---- case 117: the smaller number first, the same everywhere; none comes last ---- */

static void order_on(struct hf_test_kind kind)
{
    static const char *const priorities[] = {"2147483647", "0", "NULL", "-5", "-2147483648", "5"};
    static const int64_t expected[] = {5, 4, 2, 6, 1, 3};
    struct hf_test_jobs *jobs = open_jobs(kind, (struct hf_test_shape){.columns = PRIORITY});
    const char *name = jobs->name;
    if (kind.database == HF__POSTGRES) {
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s ALTER COLUMN pri DROP NOT NULL", name));
    } else if (kind.database == HF__MYSQL) {
        hf_test_sql(jobs->url, hf_test_format("ALTER TABLE %s MODIFY pri INT NULL", name));
    }
    for (size_t i = 0; i < LENGTH(priorities); i++) {
        if (kind.database == HF__SQLITE && strcmp(priorities[i], "NULL") == 0) {
            hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s (id, pri) VALUES (3, 2147483648)", name)); /* it is NOT NULL there */
        } else {
            hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s (id, pri) VALUES (%zu, %s)", name, i + 1, priorities[i]));
        }
    }
    hf_test_jobs_finish(jobs, hf_test_jobs_start(jobs, 1, ack, jobs));
    hf_test_sort_runs(jobs);
    CU_ASSERT_EQUAL_FATAL(jobs->n_runs, LENGTH(expected));
    for (size_t i = 0; i < LENGTH(expected); i++) {
        if (jobs->runs[i].id != expected[i]) {
            hf_test_fail("%s: run %zu is of row %lld, not %lld", hf_test_jobs_place(jobs), i + 1, (long long)jobs->runs[i].id,
                         (long long)expected[i]);
        }
    }
    close_jobs(jobs);
}

static void order_of_priorities(void)
{
    hf_test_on_all(order_on);
}

/* ---- case 113: priority is strict, and what waits behind is seen to ---- */

#define URGENT 400
#define PATIENT 10

struct flow {
    struct hf_test_jobs *jobs;
    atomic_int patient;
};

static hf_outcome takes_its_time(hf_delivery *delivery, void *ctx)
{
    struct flow *flow = ctx;
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(flow->jobs, delivery);
    hf_test_sleep_ms(4);
    hf_test_run_end(flow->jobs, run);
    atomic_fetch_add(&flow->patient, id <= PATIENT);
    return HF_ACK;
}

static void put(struct hf_test_jobs *jobs, size_t n, int64_t priority)
{
    hf_job job = HF_JOB_INIT;
    job.priority = priority;
    job.has_priority = true;
    hf_test_jobs_put(jobs, job, n);
}

static double oldest(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_counts counts = HF_COUNTS_INIT;
    HF_TEST_OK(hf_count(runtime, jobs->table, &counts, &err), &err);
    return counts.oldest_due_seconds;
}

/* Urgent rows come faster than two workers get through them. */
static void flow_on(struct hf_test_kind kind)
{
    struct hf_test_jobs *jobs = open_jobs(kind, (struct hf_test_shape){.columns = PRIORITY});
    struct flow *flow = calloc(1, sizeof *flow);
    CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
    flow->jobs = jobs;
    put(jobs, PATIENT, 1);
    put(jobs, URGENT, 0);
    hf_runtime *runtime = hf_test_jobs_start(jobs, 2, takes_its_time, flow);
    double before = oldest(jobs, runtime);
    int64_t until_ms = hf_test_now_ms() + 2000;
    while (hf_test_now_ms() < until_ms) {
        hf_test_sleep_ms(20);
        if (hf_test_jobs_count(jobs, "pri = 0") < URGENT) {
            put(jobs, URGENT, 0);
        }
    }
    double after = oldest(jobs, runtime);
    CU_ASSERT_EQUAL(atomic_load(&flow->patient), 0);
    CU_ASSERT(hf_test_jobs_count(jobs, "pri = 0") > 0); /* or it shows nothing */
    if (after < before + 1.5) {
        hf_test_fail("%s: the oldest row was %.3f seconds old, and after two seconds %.3f", hf_test_jobs_place(jobs), before, after);
    }
    hf_test_jobs_finish(jobs, runtime);
    CU_ASSERT_EQUAL(atomic_load(&flow->patient), PATIENT);
    close_jobs(jobs);
    free(flow);
}

static void priority_is_strict(void)
{
    hf_test_on_all(flow_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"max_attempts", most_attempts},
        {"ids at the limits", ids_at_the_limits},
        {"groups of other case", groups_of_other_case},
        {"groups of other case, without order", unordered_groups_of_other_case},
        {"bytes that are no text", bytes_that_are_no_text},
        {"order of priorities", order_of_priorities},
        {"priority is strict", priority_is_strict},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_roles", tests);
}
