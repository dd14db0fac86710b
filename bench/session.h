/* SQL of the bench's own, on a connection that the library lends. */
#ifndef HF_BENCH_SESSION_H
#define HF_BENCH_SESSION_H

#include <holdfast.h>

enum bench_database { BENCH_POSTGRES, BENCH_MYSQL, BENCH_MARIADB, BENCH_SQLITE };
const char *bench_database_name(enum bench_database database);

enum { BENCH_CELL = 128 };

enum bench_database bench_session_database(hf_connection *connection);
/* Runs one statement. cell, which may be NULL, gets the start of the first row's first column, "" if there is none. */
hf_status bench_session_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err);
/* The same on a connection that is lent for this one statement. */
hf_status bench_query(hf_runtime *runtime, const char *sql, char cell[BENCH_CELL], hf_error *err);

/* Of each client library. */
hf_status bench_postgres_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err);
hf_status bench_mysql_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err);
hf_status bench_sqlite_query(hf_connection *connection, const char *sql, char cell[BENCH_CELL], hf_error *err);
bool bench_is_postgres(hf_connection *connection);
bool bench_is_mysql(hf_connection *connection);
bool bench_is_mariadb(hf_connection *connection);

#endif
