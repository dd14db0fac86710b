/* Enqueue: jobs become rows, all or none. Jobs that fill the same columns one after the other share a statement. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "strategies/plan.h"
#include "strategies/reason.h"

#define ROWS_MAX 1000
#define VALUES_MAX 30000 /* below the parameter limits of all: 65,535, and 32,766 on SQLite */

struct insert {
    struct hf__conn *conn;
    const struct hf_table *table;
    const struct hf__job *jobs;
    size_t n;
    int64_t now_us;      /* what delays count from */
    int64_t due_unit_us; /* the precision of the due time's column, where a job names a time */
    bool explicit_due;   /* a job without a delay is due now by our clock, not by the column's default */
    char **ids;
    struct hf__deadline deadline;
    bool zoned_due;    /* MySQL TIMESTAMP in a session of the caller's: converted to the session's zone */
    bool text_payload; /* SQLite: the payload's column holds text */
    hf_error *err;
};

/* ---- which columns a job fills ---- */

/* A further column that the caller gives under the name of a role's, or NULL. */
static const struct hf__field *field_for(const struct insert *in, const struct hf__job *job, enum hf__role role)
{
    int (*compare)(const char *, const char *) = in->conn->server.database == HF__POSTGRES ? strcmp : strcasecmp;
    const char *column = in->table->column[role];
    for (size_t i = 0; column && i < job->n_fields; i++)
        if (compare(job->fields[i].column, column) == 0)
            return &job->fields[i];
    return NULL;
}

static bool names_time(const struct hf__job *job)
{
    return job->delay_us > 0 || job->due_us != 0;
}

static bool fills_due(const struct insert *in, const struct hf__job *job)
{
    if (!in->table->column[HF__ROLE_RETRY_AFTER])
        return false;
    return names_time(job) || (in->explicit_due && !field_for(in, job, HF__ROLE_RETRY_AFTER));
}

/* Is the job's time counted from the database's own now? */
static bool due_by_database(const struct insert *in, const struct hf__job *job)
{
    return in->table->database_clock && fills_due(in, job) && job->due_us == 0;
}

static const struct hf__value *own_id(const struct insert *in, const struct hf__job *job)
{
    const struct hf__field *field = field_for(in, job, HF__ROLE_ID);
    return field ? &field->value : NULL;
}

static bool same_shape(const struct insert *in, const struct hf__job *a, const struct hf__job *b)
{
    if (!a->payload != !b->payload || !a->group != !b->group || !a->headers != !b->headers || !a->priority != !b->priority)
        return false;
    if (!a->partition_key != !b->partition_key || fills_due(in, a) != fills_due(in, b) || a->n_fields != b->n_fields)
        return false;
    if (due_by_database(in, a) != due_by_database(in, b))
        return false;
    for (size_t i = 0; i < a->n_fields; i++)
        if (strcmp(a->fields[i].column, b->fields[i].column) != 0)
            return false;
    const struct hf__value *left = own_id(in, a), *right = own_id(in, b); /* where it is NULL the database gives the id */
    return !left || (left->type == HF__NULL) == (right->type == HF__NULL);
}

static size_t count_columns(const struct insert *in, const struct hf__job *job)
{
    return (size_t)(job->payload != NULL) + (job->group != NULL) + (job->headers != NULL) + (job->partition_key != NULL) +
           (job->priority != NULL) + fills_due(in, job) + job->n_fields;
}

static void put_name(struct hf__sql *sql, const char *name, bool *any)
{
    hf__sql_put(sql, *any ? ", " : "(");
    *any = true;
    hf__sql_name(sql, name);
}

static void put_names(struct hf__sql *sql, const struct insert *in, const struct hf__job *job)
{
    bool any = false;
    if (job->payload)
        put_name(sql, in->table->column[HF__ROLE_PAYLOAD], &any);
    if (job->group)
        put_name(sql, in->table->column[HF__ROLE_GROUP], &any);
    if (job->headers)
        put_name(sql, in->table->column[HF__ROLE_HEADERS], &any);
    if (job->partition_key)
        put_name(sql, in->table->column[HF__ROLE_PARTITION_KEY], &any);
    if (job->priority)
        put_name(sql, in->table->column[HF__ROLE_PRIORITY], &any);
    if (fills_due(in, job))
        put_name(sql, in->table->column[HF__ROLE_RETRY_AFTER], &any);
    for (size_t i = 0; i < job->n_fields; i++)
        put_name(sql, job->fields[i].column, &any);
    hf__sql_put(sql, ")");
}

/* Bytes that are text go as text where the database would refuse, or keep apart, bytes in a text column. */
static struct hf__value payload_of(const struct insert *in, const struct hf__value *payload)
{
    struct hf__value value = *payload;
    if (value.type != HF__BYTES)
        return value;
    bool as_text = in->conn->server.database == HF__MYSQL || (in->conn->server.database == HF__SQLITE && in->text_payload);
    if (as_text && hf__is_text(value.s.data, value.s.len))
        value.type = HF__TEXT;
    return value;
}

/* A time that was asked for is never early; a job for now is due at once, also where the column cannot tell fractions of a second. */
static int64_t due_of(const struct insert *in, const struct hf__job *job)
{
    if (names_time(job))
        return hf__round_up(job->due_us ? job->due_us : in->now_us + job->delay_us, in->due_unit_us);
    return in->now_us - in->now_us % in->due_unit_us;
}

static struct hf__value due_value(const struct insert *in, const struct hf__job *job)
{
    const struct hf__server *server = &in->conn->server;
    if (!due_by_database(in, job))
        return hf__time_us(due_of(in, job));
    if (job->delay_us > 0)
        return hf__int(hf__database_delay_us(server, job->delay_us, in->due_unit_us));
    return hf__int(server->mariadb ? 0 : -in->due_unit_us / 2); /* rounded down again: due at once */
}

static size_t put_values(const struct insert *in, const struct hf__job *job, struct hf__value *out)
{
    size_t n = 0;
    if (job->payload)
        out[n++] = payload_of(in, job->payload);
    if (job->group)
        out[n++] = hf__text(job->group);
    if (job->headers)
        out[n++] = hf__text(job->headers);
    if (job->partition_key)
        out[n++] = hf__text(job->partition_key);
    if (job->priority)
        out[n++] = hf__int(*job->priority);
    if (fills_due(in, job))
        out[n++] = due_value(in, job);
    for (size_t i = 0; i < job->n_fields; i++)
        out[n++] = job->fields[i].value;
    return n;
}

static bool returns_ids(const struct insert *in)
{
    return in->ids && (in->conn->server.database != HF__MYSQL || in->conn->server.mariadb);
}

/* The place of the due time among a row's values, or SIZE_MAX. */
static size_t due_place(const struct insert *in, const struct hf__job *job)
{
    return fills_due(in, job) ? count_columns(in, job) - job->n_fields - 1 : SIZE_MAX;
}

static void put_due(struct hf__sql *sql, const struct insert *in, const struct hf__job *job, unsigned place)
{
    const struct hf__dialect *dialect = hf__dialect_of(in->conn->server.database);
    bool later = due_by_database(in, job);
    hf__sql_put(sql, in->zoned_due ? "CONVERT_TZ(" : "");
    hf__sql_put(sql, later ? dialect->later_open : "");
    hf__sql_bind_nth(sql, HF__P_FIELD, place);
    hf__sql_put(sql, later ? dialect->later_close : "");
    hf__sql_put(sql, in->zoned_due ? ", '+00:00', @@session.time_zone)" : "");
}

static void put_row(struct hf__sql *sql, const struct insert *in, const struct hf__job *job, size_t row, size_t columns)
{
    size_t due = due_place(in, job);
    for (size_t c = 0; c < columns; c++) {
        unsigned place = (unsigned)(row * columns + c);
        hf__sql_put(sql, c ? ", " : "(");
        if (c == due)
            put_due(sql, in, job, place);
        else
            hf__sql_bind_nth(sql, HF__P_FIELD, place);
    }
    hf__sql_put(sql, ")");
}

static hf_status render(const struct insert *in, const struct hf__job *job, size_t rows, struct hf__rendered *out)
{
    struct hf__sql sql;
    size_t columns = count_columns(in, job);
    hf__sql_begin(&sql, in->conn->server.database);
    hf__sql_put(&sql, "INSERT INTO ");
    hf__sql_table(&sql, in->table);
    hf__sql_put(&sql, " ");
    if (columns == 0) {
        hf__sql_put(&sql, in->conn->server.database == HF__MYSQL ? "() VALUES ()" : "DEFAULT VALUES");
    } else {
        put_names(&sql, in, job);
        hf__sql_put(&sql, " VALUES ");
    }
    for (size_t r = 0; r < rows && columns > 0; r++) {
        if (r)
            hf__sql_put(&sql, ", ");
        put_row(&sql, in, job, r, columns);
    }
    if (returns_ids(in)) {
        hf__sql_put(&sql, " RETURNING ");
        hf__sql_name(&sql, in->table->column[HF__ROLE_ID]);
    }
    return hf__sql_finish(&sql, false, out, in->err);
}

/* ---- ids ---- */

static hf_status keep_id(struct insert *in, size_t job, const struct hf__value *id)
{
    in->ids[job] = hf__id_text(id);
    return in->ids[job] ? HF_OK : hf__fail_memory(in->err);
}

/* MySQL gives the rows of one INSERT consecutive numbers and tells the first. */
static hf_status count_ids(struct insert *in, size_t first, size_t n)
{
    static const struct hf__statement asked = {.sql = "SELECT LAST_INSERT_ID(), @@auto_increment_increment", .serial = 0};
    struct hf__rows rows;
    int64_t id = 0, step = 0;
    hf__rows_init(&rows);
    hf_status status = hf__conn_run(in->conn, &asked, NULL, 0, &rows, in->deadline, in->err);
    bool told =
        status == HF_OK && rows.count == 1 && hf__value_int(hf__cell(&rows, 0, 0), &id) && hf__value_int(hf__cell(&rows, 0, 1), &step);
    hf__rows_free(&rows);
    if (status == HF_OK && (!told || id == 0))
        return hf__fail(
            in->err, HF_UNSUPPORTED,
            "table %s: MySQL tells ids of an AUTO_INCREMENT column only; give the id as a field of the job, or do not ask for ids",
            in->table->display);
    for (size_t i = 0; i < n && status == HF_OK; i++) {
        struct hf__value number = hf__int(id + (int64_t)i * step);
        status = keep_id(in, first + i, &number);
    }
    return status;
}

static hf_status keep_ids(struct insert *in, size_t first, size_t n, const struct hf__rows *rows)
{
    hf_status status = HF_OK;
    if (!in->ids)
        return HF_OK;
    if (!returns_ids(in)) {
        const struct hf__value *id = own_id(in, &in->jobs[first]);
        if (!id || id->type == HF__NULL)
            return count_ids(in, first, n);
        for (size_t i = 0; i < n && status == HF_OK; i++)
            status = keep_id(in, first + i, own_id(in, &in->jobs[first + i]));
        return status;
    }
    if (rows->count != n)
        return hf__fail(in->err, HF_DATABASE, "table %s: %zu rows went in and %zu ids came back", in->table->display, n, rows->count);
    for (size_t i = 0; i < n && status == HF_OK; i++)
        status = keep_id(in, first + i, hf__cell(rows, i, 0));
    return status;
}

/* ---- the statements ---- */

static hf_status insert_run(struct insert *in, size_t first, size_t n)
{
    const struct hf__job *shape = &in->jobs[first];
    size_t columns = count_columns(in, shape);
    struct hf__value *values = calloc(columns * n + 1, sizeof *values);
    if (!values)
        return hf__fail_memory(in->err);
    struct hf__rendered rendered;
    struct hf__rows rows;
    struct hf__args args = {0};
    hf__rows_init(&rows);
    for (size_t i = 0; i < n; i++)
        put_values(in, &in->jobs[first + i], values + i * columns);
    args.many[HF__P_FIELD] = values;
    args.n_many[HF__P_FIELD] = columns * n;
    hf_status status = render(in, shape, n, &rendered);
    if (status == HF_OK) {
        status = hf__sql_run(in->conn, &rendered, &args, &rows, in->deadline, in->err);
        hf__rendered_free(&rendered);
        if (status != HF_OK)
            (void)hf__fail_context(in->err, "table %s: the %s not added", in->table->display, n == 1 ? "job was" : "jobs were");
    }
    if (status == HF_OK)
        status = keep_ids(in, first, n, &rows);
    hf__rows_free(&rows);
    free(values);
    return status;
}

/* How many jobs from here on go into one statement. SQLite returns the ids of several rows in no promised order. */
static size_t run_length(const struct insert *in, size_t first)
{
    size_t columns = count_columns(in, &in->jobs[first]), most = columns > 0 ? VALUES_MAX / columns : 1, n = 1;
    if (most > ROWS_MAX)
        most = ROWS_MAX;
    if (in->ids && in->conn->server.database == HF__SQLITE)
        most = 1;
    while (first + n < in->n && n < most && same_shape(in, &in->jobs[first], &in->jobs[first + n]))
        n++;
    return n;
}

static hf_status insert_all(struct insert *in)
{
    hf_status status = HF_OK;
    for (size_t done = 0; done < in->n && status == HF_OK;) {
        size_t n = run_length(in, done);
        status = insert_run(in, done, n);
        done += n;
    }
    return status;
}

/* Inside a transaction of the caller's a savepoint makes it all or none, and the caller's to commit. */
static hf_status insert_within(struct insert *in)
{
    hf_status status = hf__conn_exec(in->conn, "SAVEPOINT hf_enqueue", in->deadline, in->err);
    if (status != HF_OK)
        return status;
    status = insert_all(in);
    if (status == HF_OK)
        return hf__conn_exec(in->conn, "RELEASE SAVEPOINT hf_enqueue", in->deadline, in->err);
    if (!in->conn->lost && hf__conn_exec(in->conn, "ROLLBACK TO SAVEPOINT hf_enqueue", in->deadline, NULL) == HF_OK)
        (void)!hf__conn_exec(in->conn, "RELEASE SAVEPOINT hf_enqueue", in->deadline, NULL);
    return status;
}

static hf_status insert_alone(struct insert *in)
{
    enum hf__isolation level = in->conn->server.database == HF__SQLITE ? HF__ISOLATION_DEFAULT : HF__READ_COMMITTED;
    hf_status status = hf__conn_begin(in->conn, level, HF__IMMEDIATE, in->deadline, in->err);
    if (status == HF_OK)
        status = insert_all(in);
    if (status == HF_OK)
        status = hf__conn_commit(in->conn, in->deadline, in->err);
    if (status != HF_OK)
        hf__conn_end(in->conn, in->deadline);
    return status;
}

static bool any_names_time(const struct insert *in)
{
    for (size_t i = 0; i < in->n; i++)
        if (names_time(&in->jobs[i]))
            return true;
    return false;
}

/* What the catalogue must say first: only where the database would otherwise store something else than was meant. */
static hf_status look_at_columns(struct insert *in)
{
    enum hf__database database = in->conn->server.database;
    bool zone_matters = database == HF__MYSQL && in->conn->borrowed;
    if (database != HF__SQLITE && !zone_matters && !in->table->database_clock && !any_names_time(in))
        return HF_OK;
    struct hf__relation relation = {0};
    hf_status status = hf__conn_describe(in->conn, in->table->schema, in->table->name, in->deadline, &relation, in->err);
    if (status != HF_OK)
        return status;
    const char *payload = in->table->column[HF__ROLE_PAYLOAD], *due = in->table->column[HF__ROLE_RETRY_AFTER];
    const struct hf__column *payload_column = payload ? hf__relation_column(&relation, payload, true) : NULL;
    const struct hf__column *due_column = due ? hf__relation_column(&relation, due, true) : NULL;
    in->text_payload = payload_column && payload_column->kind != HF__COLUMN_BYTES;
    in->due_unit_us = hf__time_unit_us(due_column);
    in->zoned_due = zone_matters && due_column && due_column->kind == HF__COLUMN_TIME_ZONED;
    hf__relation_free(&relation);
    return HF_OK;
}

static int64_t host_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

hf_status hf__insert_jobs(struct hf__conn *conn, const struct hf_table *table, const struct hf__job *jobs, size_t n, int64_t now_us,
                          char **ids, struct hf__deadline deadline, hf_error *err)
{
    struct insert in = {.conn = conn,
                        .table = table,
                        .jobs = jobs,
                        .n = n,
                        .now_us = now_us ? now_us : host_now_us(),
                        .due_unit_us = 1,
                        .explicit_due = now_us != 0,
                        .ids = ids,
                        .deadline = deadline,
                        .err = err};
    if (n == 0)
        return HF_OK;
    if (ids)
        memset(ids, 0, n * sizeof *ids);
    hf_status status = look_at_columns(&in);
    if (status != HF_OK)
        return status;
    if (hf__conn_transaction(conn) != HF__TX_NONE)
        status = insert_within(&in);
    else if (run_length(&in, 0) == n && (!ids || returns_ids(&in)))
        status = insert_all(&in);
    else
        status = insert_alone(&in);
    for (size_t i = 0; status != HF_OK && ids && i < n; i++) {
        free(ids[i]);
        ids[i] = NULL;
    }
    return status;
}
