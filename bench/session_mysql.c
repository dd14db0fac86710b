#include <holdfast_mysql.h>
#include <stdio.h>

#include "bench/session.h"
#include "pool/error.h"

bool bench_is_mysql(hf_connection *connection)
{
    return hf_mysql_connection(connection) != NULL;
}

bool bench_is_mariadb(hf_connection *connection)
{
    return mariadb_connection(hf_mysql_connection(connection)) != 0;
}

hf_status bench_mysql_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    MYSQL *mysql = hf_mysql_connection(connection);
    if (mysql_query(mysql, sql) != 0)
        return hf__fail(err, HF_DATABASE, "%s: %s", sql, mysql_error(mysql));
    MYSQL_RES *result = mysql_store_result(mysql);
    if (!result && mysql_errno(mysql) != 0)
        return hf__fail(err, HF_DATABASE, "%s: %s", sql, mysql_error(mysql));
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        snprintf(cell, BENCH_CELL, "%s", row[0]);
    mysql_free_result(result);
    return HF_OK;
}
