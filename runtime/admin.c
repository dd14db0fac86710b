#include "runtime/admin.h"

#include <string.h>

hf_status hf__with_admin(struct hf_runtime *runtime, const struct hf_table *table, hf__admin_fn *fn, void *ctx, hf_error *err)
{
    hf_status status = hf__runtime_usable(runtime, err);
    if (status != HF_OK) {
        return status;
    }
    if (!table) {
        return hf__fail(err, HF_INVALID, "the table is NULL");
    }
    struct hf__checkout *checkout = NULL;
    status = hf__runtime_acquire(runtime, HF__PURPOSE_ADMIN, &checkout, err);
    if (status == HF_OK) {
        status = fn(runtime, hf__checkout_conn(checkout), table, ctx, err);
        hf__pool_release(checkout);
    }
    return status;
}

struct planned {
    hf__plan_fn *fn;
    void *ctx;
};

static hf_status run_planned(struct hf_runtime *runtime, struct hf__conn *conn, const struct hf_table *table, void *ctx, hf_error *err)
{
    const struct planned *planned = ctx;
    struct hf__plan *plan = NULL;
    struct hf__plan_options options = {.clock = runtime->clock};
    struct hf__deadline deadline = hf__runtime_deadline(runtime);
    hf_status status = hf__clock_due(runtime->clock) ? hf__clock_measure(runtime->clock, conn, deadline, err) : HF_OK;
    if (status == HF_OK) {
        status = hf__plan_open(conn, table, &options, deadline, &plan, err);
    }
    if (status == HF_OK) {
        status = planned->fn(plan, conn, hf__runtime_deadline(runtime), planned->ctx, err);
        hf__plan_close(plan);
    }
    return status;
}

hf_status hf__with_plan(struct hf_runtime *runtime, const struct hf_table *table, hf__plan_fn *fn, void *ctx, hf_error *err)
{
    struct planned planned = {fn, ctx};
    return hf__with_admin(runtime, table, run_planned, &planned, err);
}

hf_status hf__write_out(void *out, const void *from, size_t size, const char *what, hf_error *err)
{
    size_t room = 0;
    memcpy(&room, out, sizeof room);
    if (room < sizeof room) {
        return hf__fail(err, HF_INVALID, "%s: start the struct with its _INIT macro", what);
    }
    memcpy((char *)out + sizeof room, (const char *)from + sizeof room, (room < size ? room : size) - sizeof room);
    return HF_OK;
}
