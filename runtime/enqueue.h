/* Enqueue, for the public calls: through the runtime's pool, or through a handle of the caller's. */
#ifndef HF_RUNTIME_ENQUEUE_H
#define HF_RUNTIME_ENQUEUE_H

#include "holdfast.h"
#include "pool/driver.h"

/* What hf_enqueue_postgres and its kind do: native is a PGconn *, MYSQL * or sqlite3 *. */
HF_CHECKED hf_status hf__enqueue_native(enum hf__database database, void *native, const struct hf_table *table, const hf_job *jobs,
                                        size_t n, hf_enqueued **out, hf_error *err);

#endif
