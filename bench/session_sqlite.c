#include <holdfast_sqlite.h>
#include <stdio.h>

#include "bench/session.h"
#include "pool/error.h"

hf_status bench_sqlite_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    sqlite3 *db = hf_sqlite_connection(connection);
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        snprintf(cell, BENCH_CELL, "%s", text ? (const char *)text : "");
    }
    hf_status status = HF_OK;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = hf__fail(err, HF_DATABASE, "%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    return status;
}
