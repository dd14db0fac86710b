#include "bench/session.h"

enum { CHECKOUT_MS = 10000 };

const char *bench_database_name(enum bench_database database)
{
    static const char *const names[] = {"PostgreSQL", "MySQL", "MariaDB", "SQLite"};
    return names[database];
}

enum bench_database bench_session_database(hf_connection *connection)
{
#if HOLDFAST_POSTGRES
    if (bench_is_postgres(connection))
        return BENCH_POSTGRES;
#endif
#if HOLDFAST_MYSQL
    if (bench_is_mysql(connection))
        return bench_is_mariadb(connection) ? BENCH_MARIADB : BENCH_MYSQL;
#endif
    (void)connection;
    return BENCH_SQLITE;
}

hf_status bench_session_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    char ignored[BENCH_CELL];
    char *into = cell ? cell : ignored;
    into[0] = '\0';
#if HOLDFAST_POSTGRES
    if (bench_is_postgres(connection))
        return bench_postgres_query(connection, sql, into, err);
#endif
#if HOLDFAST_MYSQL
    if (bench_is_mysql(connection))
        return bench_mysql_query(connection, sql, into, err);
#endif
#if HOLDFAST_SQLITE
    return bench_sqlite_query(connection, sql, into, err);
#else
    (void)err;
    return HF_UNSUPPORTED;
#endif
}

hf_status bench_query(hf_runtime *runtime, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    hf_connection *connection = NULL;
    hf_status status = hf_checkout(runtime, CHECKOUT_MS, &connection, err);
    if (status == HF_OK)
        status = bench_session_query(connection, sql, cell, err);
    hf_connection_return(connection);
    return status;
}
