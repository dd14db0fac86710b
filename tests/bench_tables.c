#include "tests/bench_tables.h"

#include <string.h>

static const char *query(const char *what, const char *url, pid_t pid)
{
    bool file = strncmp(url, "sqlite:", 7) == 0;
    const char *name = file ? "name" : "table_name", *tables = file ? "sqlite_master" : "information_schema.tables";
    return hf_test_format("SELECT %s(%s) FROM %s WHERE %s LIKE 'holdfast_bench_%ld_%%'", what, name, tables, name, (long)pid);
}

int64_t hf_test_bench_tables(const char *url, pid_t pid)
{
    return hf_test_query_int(url, query("count", url, pid));
}

const char *hf_test_bench_table(const char *url, pid_t pid)
{
    return hf_test_query_text(url, query("min", url, pid));
}
