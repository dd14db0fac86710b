/* Enqueue: checks the jobs against the description, and hands them to the strategies' insert in their terms. */
#include "runtime/enqueue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/runtime.h"
#include "strategies/strategy.h"

/* ---- the list of ids ---- */

struct hf_enqueued {
    size_t n;
    char *ids[];
};

static struct hf_enqueued *new_list(size_t n)
{
    if (n > (SIZE_MAX - sizeof(struct hf_enqueued)) / sizeof(char *)) {
        return NULL;
    }
    struct hf_enqueued *list = calloc(1, sizeof *list + n * sizeof(char *));
    if (list) {
        list->n = n;
    }
    return list;
}

size_t hf_enqueued_count(const hf_enqueued *enqueued)
{
    return enqueued ? enqueued->n : 0;
}

const char *hf_enqueued_id(const hf_enqueued *enqueued, size_t i)
{
    return i < hf_enqueued_count(enqueued) ? enqueued->ids[i] : NULL;
}

void hf_enqueued_free(hf_enqueued *enqueued)
{
    for (size_t i = 0; i < hf_enqueued_count(enqueued); i++) {
        free(enqueued->ids[i]);
    }
    free(enqueued);
}

/* ---- the jobs in the strategies' terms ---- */

#define LATEST_DUE_US INT64_C(253402300799000000) /* 9999-12-31 23:59:59 */

/* What a translated job points into. */
struct translated {
    hf_job job; /* as the caller gave it, in today's size */
    struct hf__value payload;
};

struct batch {
    struct hf__job *jobs;
    struct translated *parts;
    struct hf__field *fields; /* of all jobs, one after the other */
    size_t n;
};

static void free_batch(struct batch *batch)
{
    free(batch->jobs);
    free(batch->parts);
    free(batch->fields);
}

/* The caller's structs may be smaller than ours (compiled with an older header) or larger. */
static hf_status copy_jobs(const hf_job *jobs, struct batch *batch, hf_error *err)
{
    size_t stride = jobs->size;
    if (stride < offsetof(hf_job, delay_ms) || stride % _Alignof(hf_job) != 0) {
        return hf__fail(err, HF_INVALID, "the first hf_job says that it has %zu bytes: start it with HF_JOB_INIT", stride);
    }
    for (size_t i = 0; i < batch->n; i++) {
        memcpy(&batch->parts[i].job, (const char *)jobs + i * stride, stride < sizeof(hf_job) ? stride : sizeof(hf_job));
    }
    return HF_OK;
}

static hf_status count_fields(const struct batch *batch, size_t *count, hf_error *err)
{
    *count = 0;
    for (size_t i = 0; i < batch->n; i++) {
        const hf_job *job = &batch->parts[i].job;
        if (job->n_fields > 0 && !job->fields) {
            return hf__fail(err, HF_INVALID, "job %zu: fields is NULL, n_fields is %zu", i, job->n_fields);
        }
        if (job->n_fields > SIZE_MAX / sizeof(struct hf__field) - *count) {
            return hf__fail_memory(err);
        }
        *count += job->n_fields;
    }
    return HF_OK;
}

/* Which job of which table is looked at. */
struct look {
    const struct hf_table *table;
    enum hf__database database;
    const hf_job *job;
    size_t i, n;
    hf_error *err;
};

__attribute__((format(printf, 2, 3))) static hf_status refuse(const struct look *look, const char *format, ...)
{
    char what[sizeof look->err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (look->n == 1) { /* then its number would say nothing */
        return hf__fail(look->err, HF_INVALID, "table %s: the job %s", look->table->display, what);
    }
    return hf__fail(look->err, HF_INVALID, "table %s: job %zu %s", look->table->display, look->i, what);
}

/* Column names are case-insensitive everywhere but on PostgreSQL. */
static bool same_column(const struct look *look, const char *a, const char *b)
{
    return look->database == HF__POSTGRES ? strcmp(a, b) == 0 : strcasecmp(a, b) == 0;
}

static hf_status check_role(const struct look *look, enum hf__role role, const char *member)
{
    const char *column = look->table->column[role];
    const char *key = hf__role_key(role);
    if (!column) {
        return refuse(look, "sets %s, but the description has no column for it: name one as \"%s\" in \"columns\", or leave %s out", member,
                      key, member);
    }
    for (size_t i = 0; i < look->job->n_fields; i++) {
        if (same_column(look, look->job->fields[i].column, column)) {
            return refuse(look, "sets %s, and a field for its column \"%s\" as well: leave one of them out", member, column);
        }
    }
    return HF_OK;
}

static hf_status check_roles(const struct look *look)
{
    const hf_job *job = look->job;
    const struct {
        bool used;
        enum hf__role role;
        const char *member;
    } uses[] = {
        {job->payload || job->null_payload, HF__ROLE_PAYLOAD, "a payload"},
        {job->delay_ms != 0, HF__ROLE_RETRY_AFTER, "a delay"},
        {job->due_us != 0, HF__ROLE_RETRY_AFTER, "a time"},
        {job->group != NULL, HF__ROLE_GROUP, "a group"},
        {job->headers != NULL, HF__ROLE_HEADERS, "headers"},
        {job->partition_key != NULL, HF__ROLE_PARTITION_KEY, "a partition key"},
        {job->has_priority, HF__ROLE_PRIORITY, "a priority"},
    };
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < sizeof uses / sizeof *uses; i++) {
        status = uses[i].used ? check_role(look, uses[i].role, uses[i].member) : HF_OK;
    }
    return status;
}

static hf_status check_fields(const struct look *look)
{
    const hf_field *fields = look->job->fields;
    for (size_t k = 0; k < look->job->n_fields; k++) {
        if (!fields[k].column || !*fields[k].column) {
            return refuse(look, "has a field, number %zu, that names no column", k);
        }
        for (size_t other = 0; other < k; other++) {
            if (same_column(look, fields[k].column, fields[other].column)) {
                return refuse(look, "has two fields for the column \"%s\": leave one of them out", fields[k].column);
            }
        }
    }
    return HF_OK;
}

static hf_status check_times(const struct look *look)
{
    const hf_job *job = look->job;
    if (job->delay_ms < 0 || job->delay_ms > HF__LONGEST_DELAY_MS) {
        return refuse(look, "has a delay of %lld ms; it must lie between 0 and a thousand years", (long long)job->delay_ms);
    }
    if (job->due_us < 0 || job->due_us > LATEST_DUE_US) {
        return refuse(look, "is due at %lld us; a time counts from 1970 and ends with the year 9999", (long long)job->due_us);
    }
    if (job->delay_ms != 0 && job->due_us != 0) {
        return refuse(look, "has a delay and a time (delay_ms and due_us): leave one of them out");
    }
    return HF_OK;
}

static hf_status check_job(const struct look *look)
{
    if (look->job->payload && look->job->null_payload) {
        return refuse(look, "has a payload, and null_payload says that it has none");
    }
    hf_status status = check_fields(look);
    if (status == HF_OK) {
        status = check_times(look);
    }
    return status == HF_OK ? check_roles(look) : status;
}

static void translate_fields(const hf_job *job, struct hf__field *into)
{
    for (size_t i = 0; i < job->n_fields; i++) {
        const hf_field *field = &job->fields[i];
        into[i] = (struct hf__field){.column = field->column, .value = field->value ? hf__text_n(field->value, field->len) : hf__null()};
    }
}

static void translate(struct translated *part, struct hf__field *fields, struct hf__job *into)
{
    const hf_job *job = &part->job;
    bool has_payload = job->payload || job->null_payload;
    part->payload = job->payload ? hf__bytes(job->payload, job->payload_len) : hf__null();
    translate_fields(job, fields);
    *into = (struct hf__job){
        .payload = has_payload ? &part->payload : NULL,
        .delay_us = job->delay_ms * 1000,
        .due_us = job->due_us,
        .group = job->group,
        .headers = job->headers,
        .partition_key = job->partition_key,
        .priority = job->has_priority ? &job->priority : NULL,
        .fields = job->n_fields > 0 ? fields : NULL,
        .n_fields = job->n_fields,
    };
}

static hf_status translate_all(const struct hf_table *table, enum hf__database database, struct batch *batch, hf_error *err)
{
    size_t n_fields = 0;
    hf_status status = count_fields(batch, &n_fields, err);
    if (status != HF_OK) {
        return status;
    }
    batch->fields = calloc(n_fields + 1, sizeof *batch->fields);
    if (!batch->fields) {
        return hf__fail_memory(err);
    }
    struct hf__field *fields = batch->fields;
    for (size_t i = 0; status == HF_OK && i < batch->n; i++) {
        struct look look = {.table = table, .database = database, .job = &batch->parts[i].job, .i = i, .n = batch->n, .err = err};
        status = check_job(&look);
        if (status == HF_OK) {
            translate(&batch->parts[i], fields, &batch->jobs[i]);
            fields += batch->parts[i].job.n_fields;
        }
    }
    return status;
}

/* Checks the jobs and fills the batch, which is freed in any case. */
static hf_status make_batch(const struct hf_table *table, enum hf__database database, const hf_job *jobs, struct batch *batch,
                            hf_error *err)
{
    batch->jobs = calloc(batch->n, sizeof *batch->jobs);
    batch->parts = calloc(batch->n, sizeof *batch->parts);
    if (!batch->jobs || !batch->parts) {
        return hf__fail_memory(err);
    }
    hf_status status = copy_jobs(jobs, batch, err);
    return status == HF_OK ? translate_all(table, database, batch, err) : status;
}

/* ---- enqueueing ---- */

/* What is the same whatever the connection: checks, translates, calls insert, hands out the ids. */
typedef hf_status insert_fn(void *ctx, const struct hf_table *table, const struct batch *batch, char **ids, hf_error *err);

struct way {
    enum hf__database database;
    insert_fn *insert;
    void *ctx;
};

static hf_status enqueue(const struct way *way, const struct hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                         hf_error *err)
{
    if (out) {
        *out = NULL;
    }
    if (!table || (n > 0 && !jobs)) {
        return hf__fail(err, HF_INVALID, "enqueue: %s is NULL", table ? "jobs" : "the table");
    }
    struct hf_enqueued *ids = out ? new_list(n) : NULL;
    if (out && !ids) {
        return hf__fail_memory(err);
    }
    struct batch batch = {.n = n};
    hf_status status = HF_OK;
    if (n > 0) {
        status = make_batch(table, way->database, jobs, &batch, err);
        if (status == HF_OK) {
            status = way->insert(way->ctx, table, &batch, ids ? ids->ids : NULL, err);
        }
        free_batch(&batch);
    }
    if (status != HF_OK) {
        hf_enqueued_free(ids);
    } else if (out) {
        *out = ids;
    }
    return status;
}

static hf_status insert_pooled(void *ctx, const struct hf_table *table, const struct batch *batch, char **ids, hf_error *err)
{
    struct hf_runtime *runtime = ctx;
    struct hf__checkout *checkout = NULL;
    hf_status status = hf__runtime_acquire(runtime, HF__PURPOSE_ENQUEUE, &checkout, err);
    if (status != HF_OK) {
        return status;
    }
    struct hf__conn *conn = hf__checkout_conn(checkout);
    struct hf__deadline deadline = hf__runtime_deadline(runtime);
    if (hf__table_has(table, HF__ROLE_RETRY_AFTER) && hf__clock_due(runtime->clock)) { /* rows are due by the database's clock */
        status = hf__clock_measure(runtime->clock, conn, deadline, err);
    }
    if (status == HF_OK) {
        status = hf__insert_jobs(conn, table, batch->jobs, batch->n, hf__clock_now_us(runtime->clock), ids, deadline, err);
    }
    hf__pool_release(checkout);
    return status;
}

hf_status hf_enqueue(hf_runtime *runtime, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status == HF_OK) {
        struct way way = {.database = runtime->url->database, .insert = insert_pooled, .ctx = runtime};
        status = enqueue(&way, table, jobs, n, out, err);
    }
    if (status == HF_OK) {
        hf__runtime_wake(runtime, table);
    }
    return status;
}

static hf_status insert_borrowed(void *ctx, const struct hf_table *table, const struct batch *batch, char **ids, hf_error *err)
{
    return hf__insert_jobs(ctx, table, batch->jobs, batch->n, 0, ids, hf__never(), err);
}

hf_status hf__enqueue_native(enum hf__database database, void *native, const struct hf_table *table, const hf_job *jobs, size_t n,
                             hf_enqueued **out, hf_error *err)
{
    if (out) {
        *out = NULL;
    }
    if (!native) {
        return hf__fail(err, HF_INVALID, "enqueue: the %s connection is NULL", hf__database_name(database));
    }
    struct hf__conn *conn = NULL;
    hf_status status = hf__conn_borrow(database, native, &conn, err);
    if (status == HF_OK) {
        struct way way = {.database = database, .insert = insert_borrowed, .ctx = conn};
        status = enqueue(&way, table, jobs, n, out, err);
    }
    hf__conn_close(conn);
    return status;
}

void hf_wake(hf_runtime *runtime, const hf_table *table)
{
    if (table && hf__runtime_usable(runtime, NULL) == HF_OK) {
        hf__runtime_wake(runtime, table);
    }
}
