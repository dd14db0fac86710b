/* holdfast with libpq's own types. */
#ifndef HOLDFAST_POSTGRES_H
#define HOLDFAST_POSTGRES_H

#include <holdfast.h>
#include <libpq-fe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues through the caller's connection, inside the caller's transaction if one is open: jobs and business data commit together.
 * Changes nothing of the session. Not in pipeline mode. After the commit hf_wake tells a runtime of this process.
 * out may be NULL. Errors as hf_enqueue; on an error none of the jobs is in, and a transaction of the caller stays open and usable. */
HF_API HF_CHECKED hf_status hf_enqueue_postgres(PGconn *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                                                hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
