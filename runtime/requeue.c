/* Dead letters go back to be run again. */
#include "runtime/admin.h"

struct request {
    struct hf__requeue what;
    size_t moved;
};

static hf_status requeue(struct hf__plan *plan, struct hf__conn *conn, struct hf__deadline deadline, void *ctx, hf_error *err)
{
    struct request *request = ctx;
    return hf__plan_requeue(plan, conn, &request->what, deadline, &request->moved, err);
}

static hf_status check_ids(const hf_requeue_options *options, hf_error *err)
{
    if (options->n_ids > 0 && !options->ids) {
        return hf__fail(err, HF_INVALID, "hf_requeue: ids is NULL, n_ids is %zu", options->n_ids);
    }
    for (size_t i = 0; i < options->n_ids; i++) {
        if (!options->ids[i]) {
            return hf__fail(err, HF_INVALID, "hf_requeue: id %zu is NULL", i);
        }
    }
    return HF_OK;
}

hf_status hf_requeue(hf_runtime *runtime, const hf_table *table, const hf_requeue_options *options, size_t *moved, hf_error *err)
{
    hf_requeue_options filled = HF_REQUEUE_OPTIONS_INIT;
    hf_status status = options ? hf__copy_options(&filled, sizeof filled, options, "hf_requeue_options", err) : HF_OK;
    if (moved) {
        *moved = 0;
    }
    if (status == HF_OK) {
        status = check_ids(&filled, err);
    }
    if (status != HF_OK) {
        return status;
    }
    struct request request = {.what = {.ids = filled.ids, .n_ids = filled.n_ids, .group = filled.group, .to_group = filled.to_group}};
    status = hf__with_plan(runtime, table, requeue, &request, err);
    if (moved) {
        *moved = request.moved;
    }
    if (request.moved > 0) {
        hf_wake(runtime, table);
    }
    return status;
}
