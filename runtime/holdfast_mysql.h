/* holdfast with libmariadb's own types. */
#ifndef HOLDFAST_MYSQL_H
#define HOLDFAST_MYSQL_H

#include <holdfast.h>
#include <mysql.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues through the caller's connection, inside the caller's transaction if one is open: jobs and business data commit together.
 * Changes nothing of the session. After the commit hf_wake tells a runtime of this process.
 * The connection's character set must be utf8mb4 (or utf8): HF_INVALID otherwise, because text would be stored as something else.
 * out may be NULL. Errors as hf_enqueue; on an error none of the jobs is in, and a transaction of the caller stays open and usable. */
HF_API HF_CHECKED hf_status hf_enqueue_mysql(MYSQL *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                                             hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
