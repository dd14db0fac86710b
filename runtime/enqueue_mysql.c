#include "holdfast_mysql.h"
#include "runtime/enqueue.h"

hf_status hf_enqueue_mysql(MYSQL *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out, hf_error *err)
{
    return hf__enqueue_native(HF__MYSQL, connection, table, jobs, n, out, err);
}
