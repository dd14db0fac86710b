#include "holdfast_postgres.h"
#include "runtime/enqueue.h"

hf_status hf_enqueue_postgres(PGconn *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out, hf_error *err)
{
    return hf__enqueue_native(HF__POSTGRES, connection, table, jobs, n, out, err);
}
