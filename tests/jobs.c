#include "tests/jobs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/deadline.h"

#define AT_ONCE ((size_t)1000)

const struct hf_test_kind hf_test_kinds[] = {
    {HF__SQLITE, HF_LEASE},           {HF__SQLITE, HF_ADVISORY_LOCK}, {HF__POSTGRES, HF_ROW_LOCK}, {HF__POSTGRES, HF_LEASE},
    {HF__POSTGRES, HF_ADVISORY_LOCK}, {HF__MYSQL, HF_ROW_LOCK},       {HF__MYSQL, HF_LEASE},       {HF__MYSQL, HF_ADVISORY_LOCK},
};
const size_t hf_test_n_kinds = sizeof hf_test_kinds / sizeof hf_test_kinds[0];

#define BARE "\"id\": \"id\""
#define COLUMNS \
    BARE ", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\", \"last_error\": \"last_error\""

static const char *text(const char *text_or_null)
{
    return text_or_null ? text_or_null : "";
}

static const char *description(const struct hf_test_jobs *jobs, int lease_seconds, struct hf_test_shape shape)
{
    const char *lease = "", *key = "", *dead = "";
    if (shape.dead_table) {
        dead = hf_test_format(", \"dead_letter\": { \"table\": \"%s_dead\" }", jobs->name);
    }
    if (jobs->kind.strategy == HF_LEASE) {
        lease = ", \"locked_until\": \"locked_until\"";
        key = hf_test_format(", \"lease_seconds\": %d", lease_seconds);
    } else if (jobs->kind.strategy == HF_ADVISORY_LOCK) {
        key = hf_test_format(", \"advisory_lock\": \"%s-{%s}\"", jobs->name, jobs->n_keys ? "account" : "id");
    }
    return hf_test_format("{ \"table\": \"%s\", \"columns\": { %s%s%s }%s%s%s }", jobs->name, shape.bare ? BARE : COLUMNS, lease,
                          text(shape.columns), key, text(shape.settings), dead);
}

void hf_test_jobs_open(struct hf_test_jobs *jobs, struct hf_test_kind kind, int lease_seconds)
{
    hf_test_jobs_open_shape(jobs, kind, lease_seconds, (struct hf_test_shape){.n_keys = 0});
}

void hf_test_jobs_open_shape(struct hf_test_jobs *jobs, struct hf_test_kind kind, int lease_seconds, struct hf_test_shape shape)
{
    hf_error err = {.status = HF_OK};
    const char *url = hf_test_url(kind.database);
    memset(jobs, 0, sizeof *jobs);
    pthread_mutex_init(&jobs->lock, NULL);
    jobs->kind = kind;
    jobs->dead_table = shape.dead_table;
    jobs->n_keys = kind.strategy == HF_ADVISORY_LOCK ? shape.n_keys : 0;
    /* Tests kill processes, not machines, and what the disk has not got yet survives that. */
    jobs->url = kind.database == HF__SQLITE ? hf_test_format("%s&synchronous=off", url) : url;
    jobs->name = hf_test_scratch("jobs");
    jobs->json = description(jobs, lease_seconds, shape);
    HF_TEST_OK(hf_table_parse(jobs->json, strlen(jobs->json), &jobs->table, &err), &err);
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_table_create(runtime, jobs->table, &err), &err);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

void hf_test_jobs_close(struct hf_test_jobs *jobs)
{
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s", jobs->name));
    if (jobs->dead_table) {
        hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s_dead", jobs->name));
    }
    hf_table_free(jobs->table);
    free(jobs->log);
    free(jobs->runs);
    pthread_mutex_destroy(&jobs->lock);
}

static void keep_log(void *ctx, hf_log_level level, const char *message)
{
    struct hf_test_jobs *jobs = ctx;
    (void)level;
    pthread_mutex_lock(&jobs->lock);
    size_t len = jobs->log ? strlen(jobs->log) : 0, more = strlen(message);
    char *log = realloc(jobs->log, len + more + 2);
    if (log) {
        memcpy(log + len, message, more);
        memcpy(log + len + more, "\n", 2);
        jobs->log = log;
    }
    pthread_mutex_unlock(&jobs->lock);
}

hf_runtime *hf_test_jobs_runtime(struct hf_test_jobs *jobs, const hf_runtime_options *options)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options mine = HF_RUNTIME_OPTIONS_INIT;
    hf_runtime *runtime = NULL;
    if (options)
        mine = *options;
    mine.log = keep_log;
    mine.log_ctx = jobs;
    HF_TEST_OK(hf_runtime_open(jobs->url, &mine, &runtime, &err), &err);
    return runtime;
}

void hf_test_jobs_add(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t n)
{
    hf_error err = {.status = HF_OK};
    hf_job *list = calloc(n, sizeof *list);
    hf_field *account = calloc(n, sizeof *account);
    CU_ASSERT_FATAL(list && account);
    for (size_t i = 0; i < n; i++) {
        const char *payload = hf_test_format("job %zu", i + 1);
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].payload = payload;
        list[i].payload_len = strlen(payload);
        if (jobs->n_keys == 0)
            continue;
        const char *key = hf_test_format("%zu", i % jobs->n_keys);
        account[i] = (hf_field){"account", key, strlen(key)};
        list[i].fields = &account[i];
        list[i].n_fields = 1;
    }
    HF_TEST_OK(hf_enqueue(runtime, jobs->table, list, n, NULL, &err), &err);
    free(account);
    free(list);
}

void hf_test_jobs_add_groups(struct hf_test_jobs *jobs, hf_runtime *runtime, size_t n, size_t groups)
{
    hf_error err = {.status = HF_OK};
    hf_job *list = calloc(n, sizeof *list);
    CU_ASSERT_FATAL(list != NULL);
    for (size_t i = 0; i < n; i++) {
        list[i] = (hf_job)HF_JOB_INIT;
        list[i].group = hf_test_format("g%zu", i % groups + 1);
    }
    for (size_t i = 0; i < n; i += AT_ONCE) { /* workers may wait for what it locks */
        HF_TEST_OK(hf_enqueue(runtime, jobs->table, list + i, n - i < AT_ONCE ? n - i : AT_ONCE, NULL, &err), &err);
    }
    free(list);
}

int64_t hf_test_jobs_count(const struct hf_test_jobs *jobs, const char *where)
{
    return hf_test_query_int(jobs->url, hf_test_format("SELECT count(*) FROM %s WHERE %s", jobs->name, where));
}

size_t hf_test_run_begin(struct hf_test_jobs *jobs, const hf_delivery *delivery)
{
    int64_t id = 0;
    (void)hf_delivery_id_int(delivery, &id);
    pthread_mutex_lock(&jobs->lock);
    size_t run = jobs->n_runs++;
    struct hf_test_run *runs = realloc(jobs->runs, jobs->n_runs * sizeof *runs);
    if (!runs)
        abort();
    runs[run] = (struct hf_test_run){id, hf_delivery_attempt(delivery), hf__monotonic_ns() / 1000, 0, run};
    jobs->runs = runs;
    pthread_mutex_unlock(&jobs->lock);
    return run;
}

void hf_test_run_end(struct hf_test_jobs *jobs, size_t run)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->runs[run].end_us = hf__monotonic_ns() / 1000;
    pthread_mutex_unlock(&jobs->lock);
}

static int by_row_and_time(const void *left, const void *right)
{
    const struct hf_test_run *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->begin_us < b->begin_us ? -1 : a->begin_us > b->begin_us;
}

void hf_test_no_overlap(struct hf_test_jobs *jobs)
{
    if (jobs->n_runs == 0)
        return;
    qsort(jobs->runs, jobs->n_runs, sizeof *jobs->runs, by_row_and_time);
    for (size_t i = 1; i < jobs->n_runs; i++) {
        const struct hf_test_run *before = &jobs->runs[i - 1], *run = &jobs->runs[i];
        if (before->id == run->id && (before->end_us == 0 || before->end_us > run->begin_us))
            hf_test_fail("row %lld ran twice at the same time", (long long)run->id);
    }
}

size_t hf_test_runs_of(struct hf_test_jobs *jobs, int64_t id)
{
    size_t n = 0;
    pthread_mutex_lock(&jobs->lock);
    for (size_t i = 0; i < jobs->n_runs; i++)
        n += jobs->runs[i].id == id;
    pthread_mutex_unlock(&jobs->lock);
    return n;
}

size_t hf_test_n_runs(struct hf_test_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    size_t n = jobs->n_runs;
    pthread_mutex_unlock(&jobs->lock);
    return n;
}

double hf_test_stat(hf_runtime *runtime, const char *name)
{
    hf_error err = {.status = HF_OK};
    hf_stats *stats = NULL;
    double value = 0;
    HF_TEST_OK(hf_stats_snapshot(runtime, &stats, &err), &err);
    bool found = hf_stats_find(stats, name, &value);
    hf_stats_free(stats);
    if (!found)
        hf_test_fail("there is no number called %s", name);
    return value;
}

bool hf_test_logged(struct hf_test_jobs *jobs, const char *text)
{
    pthread_mutex_lock(&jobs->lock);
    bool found = jobs->log && strstr(jobs->log, text);
    pthread_mutex_unlock(&jobs->lock);
    return found;
}

struct enough {
    struct hf_test_jobs *jobs;
    size_t n;
};

static bool enough_runs(void *arg)
{
    const struct enough *enough = arg;
    return hf_test_n_runs(enough->jobs) >= enough->n;
}

void hf_test_wait_for_runs(struct hf_test_jobs *jobs, size_t n)
{
    struct enough enough = {jobs, n};
    if (!hf_test_wait_until(enough_runs, &enough, 60000)) {
        hf_test_fail("%s: %zu runs, not %zu; log: %s", hf_test_jobs_place(jobs), hf_test_n_runs(jobs), n, jobs->log ? jobs->log : "");
    }
}
