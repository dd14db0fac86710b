#include <holdfast_postgres.h>
#include <stdio.h>

#include "bench/session.h"
#include "pool/error.h"

bool bench_is_postgres(hf_connection *connection)
{
    return hf_postgres_connection(connection) != NULL;
}

hf_status bench_postgres_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    PGconn *pg = hf_postgres_connection(connection);
    PGresult *result = PQexec(pg, sql);
    ExecStatusType answer = PQresultStatus(result);
    hf_status status = HF_OK;
    if (answer == PGRES_TUPLES_OK && PQntuples(result) > 0)
        snprintf(cell, BENCH_CELL, "%s", PQgetvalue(result, 0, 0));
    else if (answer != PGRES_COMMAND_OK && answer != PGRES_TUPLES_OK)
        status = hf__fail(err, HF_DATABASE, "%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
    return status;
}
