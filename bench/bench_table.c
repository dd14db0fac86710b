#include "bench/bench_table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/session.h"
#include "pool/deadline.h"
#include "pool/error.h"

void bench_table_name(char out[BENCH_TABLE_NAME])
{
    snprintf(out, BENCH_TABLE_NAME, "holdfast_bench_%ld_%08llx", (long)getpid(), (unsigned long long)hf__random_below(UINT64_C(1) << 32));
}

static int put(json_t *columns, const char *column)
{
    return json_object_set_new(columns, column, json_string(column));
}

/* An order by time is there where jobs arrive, or fail and come back. */
static json_t *description(const struct bench_options *options, const char *name)
{
    json_t *columns = json_object(), *table = json_object();
    int failed = put(columns, "id") | put(columns, "payload") | put(columns, "attempt");
    if (options->rate > 0 || options->fail > 0)
        failed |= put(columns, "retry_after");
    if (options->strategy == HF_LEASE)
        failed |= put(columns, "locked_until");
    failed |= json_object_set_new(table, "table", json_string(name));
    failed |= json_object_set_new(table, "columns", columns);
    if (options->strategy == HF_LEASE && options->lease_seconds > 0)
        failed |= json_object_set_new(table, "lease_seconds", json_integer((json_int_t)options->lease_seconds));
    if (options->strategy == HF_ADVISORY_LOCK)
        failed |= json_object_set_new(table, "advisory_lock", json_string("holdfast_bench_{id}"));
    if (!failed)
        return table;
    json_decref(table);
    return NULL;
}

hf_status bench_table_describe(const struct bench_options *options, const char *name, hf_table **out, hf_error *err)
{
    json_t *object = description(options, name);
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    hf_status status = text ? hf_table_parse(text, strlen(text), out, err) : hf__fail_memory(err);
    free(text);
    return status;
}

/* A name of ours needs no quotes. */
static hf_status query_about(hf_runtime *runtime, const char *verb, const hf_table *table, hf_error *err)
{
    char *sql = NULL;
    if (asprintf(&sql, "%s %s", verb, hf_table_name(table)) < 0)
        return hf__fail_memory(err);
    hf_status status = bench_query(runtime, sql, NULL, err);
    free(sql);
    return status;
}

hf_status bench_table_make(hf_runtime *runtime, const hf_table *table, hf_error *err)
{
    if (query_about(runtime, "SELECT count(*) FROM", table, NULL) == HF_OK)
        return hf__fail(err, HF_INVALID,
                        "table %s is there already, and the bench touches no table that it did not make: drop it if it is "
                        "left over from a bench that was killed",
                        hf_table_name(table));
    return hf_table_create(runtime, table, err);
}

hf_status bench_table_drop(hf_runtime *runtime, const hf_table *table, hf_error *err)
{
    return query_about(runtime, "DROP TABLE", table, err);
}

hf_status bench_table_add(hf_runtime *runtime, const hf_table *table, const struct bench_workload *workload, size_t from, size_t n,
                          int64_t origin_ns, hf_error *err)
{
    struct hf_job *jobs = calloc(n + 1, sizeof *jobs);
    char(*payloads)[BENCH_PAYLOAD] = calloc(n + 1, sizeof *payloads);
    for (size_t i = 0; jobs && payloads && i < n; i++) {
        jobs[i] = (hf_job)HF_JOB_INIT;
        jobs[i].payload_len = bench_payload_write(workload, from + i, origin_ns, payloads[i]);
        jobs[i].payload = payloads[i];
    }
    hf_status status = jobs && payloads ? hf_enqueue(runtime, table, jobs, n, NULL, err) : hf__fail_memory(err);
    free(payloads);
    free(jobs);
    return status;
}

hf_status bench_table_left(hf_runtime *runtime, const hf_table *table, size_t *out, hf_error *err)
{
    hf_counts counts = HF_COUNTS_INIT;
    hf_status status = hf_count(runtime, table, &counts, err);
    if (status == HF_OK)
        *out = (size_t)(counts.due + counts.delayed + (counts.in_work > 0 ? counts.in_work : 0));
    return status;
}
