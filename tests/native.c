#include "tests/native.h"

#include <stdlib.h>

#if HOLDFAST_POSTGRES
#include "holdfast_postgres.h"

static int run_postgres(PGconn *native, const char *sql, long *cell)
{
    PGresult *result = PQexec(native, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
        *cell = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : 1;
}
#endif

#if HOLDFAST_MYSQL
#include "holdfast_mysql.h"

static int run_mysql(MYSQL *native, const char *sql, long *cell)
{
    if (mysql_query(native, sql) != 0)
        return (int)mysql_errno(native);
    MYSQL_RES *result = mysql_store_result(native);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        *cell = strtol(row[0], NULL, 10);
    mysql_free_result(result);
    return 0;
}
#endif

#if HOLDFAST_SQLITE
#include "holdfast_sqlite.h"

static int read_cell(void *cell, int n, char **values, char **names)
{
    (void)names;
    if (n > 0 && values[0])
        *(long *)cell = strtol(values[0], NULL, 10);
    return 0;
}
#endif

static int run(enum hf__database database, void *native, const char *sql, long *cell)
{
    switch (database) {
    case HF__POSTGRES:
#if HOLDFAST_POSTGRES
        return run_postgres(native, sql, cell);
#endif
        break;
    case HF__MYSQL:
#if HOLDFAST_MYSQL
        return run_mysql(native, sql, cell);
#endif
        break;
    case HF__SQLITE:
#if HOLDFAST_SQLITE
        return sqlite3_exec(native, sql, read_cell, cell, NULL);
#endif
        break;
    }
    return -1;
}

int hf_test_native_run(enum hf__database database, void *native, const char *sql)
{
    long cell = -1;
    return run(database, native, sql, &cell);
}

long hf_test_native_int(enum hf__database database, void *native, const char *sql)
{
    long cell = -1;
    return run(database, native, sql, &cell) == 0 ? cell : -1;
}

void *hf_test_delivery_native(hf_delivery *delivery, enum hf__database database)
{
    switch (database) {
    case HF__POSTGRES:
#if HOLDFAST_POSTGRES
        return hf_postgres_delivery(delivery);
#endif
        break;
    case HF__MYSQL:
#if HOLDFAST_MYSQL
        return hf_mysql_delivery(delivery);
#endif
        break;
    case HF__SQLITE:
#if HOLDFAST_SQLITE
        return hf_sqlite_delivery(delivery);
#endif
        break;
    }
    return NULL;
}

void *hf_test_connection_native(hf_connection *connection, enum hf__database database)
{
    switch (database) {
    case HF__POSTGRES:
#if HOLDFAST_POSTGRES
        return hf_postgres_connection(connection);
#endif
        break;
    case HF__MYSQL:
#if HOLDFAST_MYSQL
        return hf_mysql_connection(connection);
#endif
        break;
    case HF__SQLITE:
#if HOLDFAST_SQLITE
        return hf_sqlite_connection(connection);
#endif
        break;
    }
    return NULL;
}
