/* holdfast with SQLite's own types. */
#ifndef HOLDFAST_SQLITE_H
#define HOLDFAST_SQLITE_H

#include <holdfast.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues through the caller's connection, inside the caller's transaction if one is open: jobs and business data commit together.
 * Changes nothing of the session. After the commit hf_wake tells a runtime of this process.
 * out may be NULL. Errors as hf_enqueue; on an error none of the jobs is in, and a transaction of the caller stays open and usable. */
HF_API HF_CHECKED hf_status hf_enqueue_sqlite(sqlite3 *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                                              hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
