#include "driver.h"

#include <stdatomic.h>
#include <unistd.h>

extern const struct hf__driver hf__postgres_driver, hf__mysql_driver, hf__sqlite_driver;

/* One row for each database that this build was made with. */
static const struct hf__driver *const drivers[] = {
#if HOLDFAST_POSTGRES
    &hf__postgres_driver,
#endif
#if HOLDFAST_MYSQL
    &hf__mysql_driver,
#endif
#if HOLDFAST_SQLITE
    &hf__sqlite_driver,
#endif
    NULL,
};

const struct hf__driver *hf__driver_for(enum hf__database database)
{
    for (size_t i = 0; drivers[i] != NULL; i++) {
        if (drivers[i]->database == database) {
            return drivers[i];
        }
    }
    return NULL;
}

const char *hf__database_name(enum hf__database database)
{
    switch (database) {
    case HF__POSTGRES:
        return "PostgreSQL";
    case HF__MYSQL:
        return "MySQL";
    case HF__SQLITE:
        break;
    }
    return "SQLite";
}

uint64_t hf__statement_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static hf_status find_driver(enum hf__database database, const struct hf__driver **out, hf_error *err)
{
    *out = hf__driver_for(database);
    if (*out == NULL) {
        const char *name = hf__database_name(database);
        return hf__fail(err, HF_UNSUPPORTED, "this build of holdfast was made without %s; use one that was built with it", name);
    }
    return HF_OK;
}

/* A forked child has copies of its parent's sockets and locks: one byte sent from it would end the parent's session. */
static bool is_ours(const struct hf__conn *conn)
{
    return conn->owner == getpid();
}

static hf_status check(const struct hf__conn *conn, hf_error *err)
{
    if (!is_ours(conn)) {
        return hf__fail(err, HF_MISUSE,
                        "this %s connection belongs to process %ld, the parent of this one; a child process has to open its own runtime",
                        conn->driver->name, (long)conn->owner);
    }
    if (conn->lost) {
        return hf__fail(err, HF_LOST, "the %s connection is gone", conn->driver->name);
    }
    return HF_OK;
}

static void note_trip(const struct hf__conn *conn)
{
    if (conn->traffic != NULL) {
        atomic_fetch_add(&conn->traffic->round_trips, 1);
    }
}

static void note_commit(const struct hf__conn *conn, hf_status status)
{
    if (conn->traffic != NULL && status == HF_OK) {
        atomic_fetch_add(&conn->traffic->commits, 1);
    }
}

hf_status hf__conn_open(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                        struct hf__conn **out, hf_error *err)
{
    const struct hf__driver *driver;
    hf_status status = find_driver(url->database, &driver, err);
    *out = NULL;
    return status != HF_OK ? status : driver->connect(url, options, deadline, out, err);
}

hf_status hf__conn_borrow(enum hf__database database, void *native, struct hf__conn **out, hf_error *err)
{
    const struct hf__driver *driver;
    hf_status status = find_driver(database, &driver, err);
    *out = NULL;
    return status != HF_OK ? status : driver->borrow(native, out, err);
}

void hf__conn_close(struct hf__conn *conn)
{
    if (conn != NULL) {
        conn->driver->close(conn);
    }
}

hf_status hf__conn_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                       struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    if (rows != NULL) {
        hf__rows_clear(rows); /* whatever happens: the last statement's rows are not this one's */
    }
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    bool alone = conn->traffic != NULL && conn->driver->transaction(conn) == HF__TX_NONE;
    note_trip(conn);
    status = conn->driver->run(conn, statement, values, n, rows, deadline, err);
    if (alone && conn->driver->transaction(conn) == HF__TX_NONE) {
        note_commit(conn, status);
    }
    return status;
}

hf_status hf__conn_exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    return conn->driver->exec(conn, sql, deadline, err);
}

hf_status hf__conn_begin(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode, struct hf__deadline deadline,
                         hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    return conn->driver->begin(conn, isolation, mode, deadline, err);
}

hf_status hf__conn_commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    status = conn->driver->commit(conn, deadline, err);
    note_commit(conn, status);
    return status;
}

hf_status hf__conn_rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    return conn->driver->rollback(conn, deadline, err);
}

enum hf__transaction hf__conn_transaction(struct hf__conn *conn)
{
    return is_ours(conn) && !conn->lost ? conn->driver->transaction(conn) : HF__TX_UNKNOWN;
}

void hf__conn_end(struct hf__conn *conn, struct hf__deadline deadline)
{
    if (conn->lost || hf__conn_transaction(conn) == HF__TX_NONE)
        return;
    if (hf__conn_rollback(conn, deadline, NULL) != HF_OK)
        conn->retire = true;
}

bool hf__conn_alive(struct hf__conn *conn)
{
    return is_ours(conn) && !conn->lost && conn->driver->alive(conn);
}

hf_status hf__conn_ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    return conn->driver->ping(conn, deadline, err);
}

hf_status hf__conn_reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = check(conn, err);
    if (status != HF_OK) {
        return status;
    }
    note_trip(conn);
    return conn->driver->reset(conn, deadline, err);
}

hf_status hf__conn_describe(struct hf__conn *conn, const char *schema, const char *table, struct hf__deadline deadline,
                            struct hf__relation *out, hf_error *err)
{
    *out = (struct hf__relation){.kind = HF__RELATION_NONE};
    hf_status status = check(conn, err);
    if (status == HF_OK) {
        status = conn->driver->describe(conn, schema, table, deadline, out, err);
    }
    if (status != HF_OK) {
        hf__relation_free(out);
    }
    return status;
}

void *hf__conn_native(struct hf__conn *conn)
{
    return is_ours(conn) ? conn->driver->native(conn) : NULL;
}

void hf__driver_thread_begin(enum hf__database database)
{
    const struct hf__driver *driver = hf__driver_for(database);
    if (driver != NULL && driver->thread_begin != NULL) {
        driver->thread_begin();
    }
}

void hf__driver_thread_end(enum hf__database database)
{
    const struct hf__driver *driver = hf__driver_for(database);
    if (driver != NULL && driver->thread_end != NULL) {
        driver->thread_end();
    }
}
