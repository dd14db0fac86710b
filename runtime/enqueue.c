/* Enqueue: checks the jobs against the description, and hands them to the strategies' insert in their terms. */
#include "runtime/enqueue.h"

#include <stdlib.h>
#include <string.h>

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

static hf_status check_role(const struct hf_table *table, bool used, enum hf__role role, const char *member, hf_error *err)
{
    if (!used || hf__table_has(table, role)) {
        return HF_OK;
    }
    return hf__fail(err, HF_INVALID,
                    "table %s: a job sets %s, but the description has no column for it: name one as \"%s\" in \"columns\", or leave %s out",
                    table->display, member, hf__role_key(role), member);
}

static hf_status check_roles(const struct hf_table *table, const hf_job *job, hf_error *err)
{
    const struct {
        bool used;
        enum hf__role role;
        const char *member;
    } uses[] = {
        {job->payload || job->null_payload, HF__ROLE_PAYLOAD, "a payload"},
        {job->delay_ms != 0, HF__ROLE_RETRY_AFTER, "a delay"},
        {job->group != NULL, HF__ROLE_GROUP, "a group"},
        {job->headers != NULL, HF__ROLE_HEADERS, "headers"},
        {job->has_priority, HF__ROLE_PRIORITY, "a priority"},
    };
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < sizeof uses / sizeof *uses; i++) {
        status = check_role(table, uses[i].used, uses[i].role, uses[i].member, err);
    }
    return status;
}

static hf_status check_job(const struct hf_table *table, const hf_job *job, size_t i, hf_error *err)
{
    if (job->delay_ms < 0 || job->delay_ms > HF__LONGEST_DELAY_MS) {
        return hf__fail(err, HF_INVALID, "table %s, job %zu: the delay is %lld ms; it must lie between 0 and a thousand years",
                        table->display, i, (long long)job->delay_ms);
    }
    if (job->payload && job->null_payload) {
        return hf__fail(err, HF_INVALID, "table %s, job %zu: it has a payload, and null_payload says that it has none", table->display, i);
    }
    for (size_t k = 0; k < job->n_fields; k++) {
        if (!job->fields[k].column || !*job->fields[k].column) {
            return hf__fail(err, HF_INVALID, "table %s, job %zu: field %zu names no column", table->display, i, k);
        }
    }
    return check_roles(table, job, err);
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
        .group = job->group,
        .headers = job->headers,
        .priority = job->has_priority ? &job->priority : NULL,
        .fields = job->n_fields > 0 ? fields : NULL,
        .n_fields = job->n_fields,
    };
}

static hf_status translate_all(const struct hf_table *table, struct batch *batch, hf_error *err)
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
        status = check_job(table, &batch->parts[i].job, i, err);
        if (status == HF_OK) {
            translate(&batch->parts[i], fields, &batch->jobs[i]);
            fields += batch->parts[i].job.n_fields;
        }
    }
    return status;
}

/* Checks the jobs and fills the batch, which is freed in any case. */
static hf_status make_batch(const struct hf_table *table, const hf_job *jobs, size_t n, struct batch *batch, hf_error *err)
{
    *batch = (struct batch){.n = n, .jobs = calloc(n, sizeof *batch->jobs), .parts = calloc(n, sizeof *batch->parts)};
    if (!batch->jobs || !batch->parts) {
        return hf__fail_memory(err);
    }
    hf_status status = copy_jobs(jobs, batch, err);
    return status == HF_OK ? translate_all(table, batch, err) : status;
}

/* ---- enqueueing ---- */

/* What is the same whatever the connection: checks, translates, calls insert, hands out the ids. */
typedef hf_status insert_fn(void *ctx, const struct hf_table *table, const struct batch *batch, char **ids, hf_error *err);

static hf_status enqueue(const struct hf_table *table, const hf_job *jobs, size_t n, insert_fn *insert, void *ctx, hf_enqueued **out,
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
    struct batch batch = {0};
    hf_status status = HF_OK;
    if (n > 0) {
        status = make_batch(table, jobs, n, &batch, err);
        if (status == HF_OK) {
            status = insert(ctx, table, &batch, ids ? ids->ids : NULL, err);
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
        status = enqueue(table, jobs, n, insert_pooled, runtime, out, err);
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
        status = enqueue(table, jobs, n, insert_borrowed, conn, out, err);
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
