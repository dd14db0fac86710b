#include "holdfast_sqlite.h"
#include "runtime/enqueue.h"

hf_status hf_enqueue_sqlite(sqlite3 *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out, hf_error *err)
{
    return hf__enqueue_native(HF__SQLITE, connection, table, jobs, n, out, err);
}
