/* What an operator asks of a table: on a connection of the pool, taken for the purpose `admin`, before or after start. */
#ifndef HF_RUNTIME_ADMIN_H
#define HF_RUNTIME_ADMIN_H

#include "runtime/runtime.h"
#include "strategies/strategy.h"

typedef hf_status hf__admin_fn(struct hf_runtime *runtime, struct hf__conn *conn, const struct hf_table *table, void *ctx, hf_error *err);
HF_CHECKED hf_status hf__with_admin(struct hf_runtime *runtime, const struct hf_table *table, hf__admin_fn *fn, void *ctx, hf_error *err);

/* The same with a plan of the table, over all its groups. */
typedef hf_status hf__plan_fn(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, void *ctx, hf_error *err);
HF_CHECKED hf_status hf__with_plan(struct hf_runtime *runtime, const struct hf_table *table, hf__plan_fn *fn, void *ctx, hf_error *err);

/* Writes as much as the caller's struct, from an older header perhaps, has room for. */
HF_CHECKED hf_status hf__write_out(void *out, const void *from, size_t size, const char *what, hf_error *err);

#endif
