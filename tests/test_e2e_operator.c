/* ctest: timeout=120 labels=e2e
 * Case 64: an operator touches rows while their handlers run. The settle takes effect, or says that the row is not ours any more; a row
 * lock keeps the operator waiting. Nothing that either side did is lost in silence. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/fleet.h"
#include "tests/gate.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LIMIT_MS 30000
#define LONG_AFTER "retry_after = '2098-01-01 00:00:00'"

struct touch {
    const char *verb, *change; /* of row id; NULL: deleted, and another comes with its id */
    bool lost;                 /* what the handler had is not there any more */
    int64_t left;              /* rows that stay, if it is lost */
};

static const struct touch touches[] = {
    {"DELETE FROM", "", true, 0},
    {"UPDATE", "SET " LONG_AFTER, false, 1},
    {"UPDATE", "SET pri = 99, grp = 'elsewhere', payload = 'other'", false, 1},
    {NULL, NULL, true, 1},
    {"UPDATE", "SET locked_until = NULL, " LONG_AFTER, true, 1}, /* leases have that column */
};
enum { TOUCHES = LENGTH(touches), ROWS = 2 * TOUCHES }; /* of two rows one acks, one retries later */

struct scene {
    struct hf_test_jobs jobs;
    struct hf_test_gate gate;
    atomic_int statuses[ROWS];
};

static hf_outcome outcome_of(size_t row)
{
    return row % 2 ? HF_RETRY_AFTER : HF_ACK;
}

static hf_outcome settles_at_the_gate(hf_delivery *delivery, void *ctx)
{
    struct scene *scene = ctx;
    int64_t id = 1;
    (void)hf_delivery_id_int(delivery, &id);
    size_t run = hf_test_run_begin(&scene->jobs, delivery);
    hf_test_gate_pass(&scene->gate);
    hf_delivery_set_delay(delivery, 3600000);
    atomic_store(&scene->statuses[id - 1], (int)hf_delivery_settle(delivery, outcome_of((size_t)id - 1), NULL));
    hf_test_run_end(&scene->jobs, run);
    return HF_ACK; /* ignored */
}

/* ---- the operator ---- */

/* As an operator's statement: it gives up soon when the row is locked. */
static hf_status touch_row(const struct scene *scene, const struct touch *touch, size_t id)
{
    static const char *const impatient[] = {
        [HF__POSTGRES] = "SET lock_timeout = '100ms'", [HF__MYSQL] = "SET innodb_lock_wait_timeout = 1", [HF__SQLITE] = "SELECT 1"};
    const char *name = scene->jobs.name;
    struct hf__conn *outside = hf_test_session(scene->jobs.url);
    hf_test_session_run(outside, impatient[scene->jobs.kind.database]);
    const char *sql = touch->verb ? hf_test_format("%s %s %s WHERE id = %zu", touch->verb, name, touch->change, id)
                                  : hf_test_format("DELETE FROM %s WHERE id = %zu", name, id);
    hf_status status = hf__conn_exec(outside, sql, hf__after_ms(LIMIT_MS), NULL);
    if (status == HF_OK && !touch->verb) {
        hf_test_session_run(outside, hf_test_format("INSERT INTO %s (id, grp, pri, attempt, retry_after) VALUES (%zu, 'g%zu', 0, 1, "
                                                    "'2098-01-01 00:00:00')",
                                                    name, id, id));
    }
    hf__conn_close(outside);
    return status;
}

/* The last touch is for leases alone. */
static size_t rows_of(const struct scene *scene)
{
    return scene->jobs.kind.strategy == HF_LEASE ? ROWS : ROWS - 2;
}

static void touch_all(struct scene *scene)
{
    for (size_t row = 0; row < rows_of(scene); row++) {
        hf_status status = touch_row(scene, &touches[row / 2], row + 1);
        if ((status == HF_OK) == (scene->jobs.kind.strategy == HF_ROW_LOCK)) {
            hf_test_gate_open(&scene->gate);
            hf_test_fail("%s: touch %zu: %s", hf_test_jobs_place(&scene->jobs), row / 2, hf_status_name(status));
        }
    }
}

/* ---- what came of it ---- */

static void check_row(struct scene *scene, size_t row)
{
    const struct touch *touch = &touches[row / 2];
    bool acks = outcome_of(row) == HF_ACK, lost = touch->lost && scene->jobs.kind.strategy != HF_ROW_LOCK;
    hf_status gone = scene->jobs.kind.strategy == HF_LEASE ? HF_LEASE_LOST : HF_LOST;
    hf_status status = (hf_status)atomic_load(&scene->statuses[row]);
    const char *ours = hf_test_format("id = %zu AND attempt = 2 AND retry_after < '2097-01-01 00:00:00'", row + 1);
    int64_t put_off = hf_test_jobs_count(&scene->jobs, ours);
    int64_t left = hf_test_jobs_count(&scene->jobs, hf_test_format("id = %zu", row + 1));
    if (status != (lost ? gone : HF_OK) || left != (lost ? touch->left : !acks) || put_off != (!lost && !acks)) {
        hf_test_fail("%s: touch %zu, row %zu: the settle says %s, and %lld rows are left, %lld of them put off",
                     hf_test_jobs_place(&scene->jobs), row / 2, row + 1, hf_status_name(status), (long long)left, (long long)put_off);
    }
}

static void touched_on(struct hf_test_kind kind)
{
    struct scene *scene = malloc(sizeof *scene); /* never freed after a failure: handlers may still run then */
    CU_ASSERT_PTR_NOT_NULL_FATAL(scene);
    *scene = (struct scene){.gate = HF_TEST_GATE_INIT};
    struct hf_test_shape shape = {.columns = ", \"group\": \"grp\", \"priority\": \"pri\"",
                                  .settings = kind.strategy == HF_ADVISORY_LOCK ? "" : ", \"fifo\": true"};
    hf_test_jobs_open_shape(&scene->jobs, kind, 30, shape);
    hf_runtime *runtime = hf_test_jobs_start(&scene->jobs, ROWS, settles_at_the_gate, scene);
    hf_test_jobs_add_groups(&scene->jobs, runtime, rows_of(scene), ROWS); /* each the head of its group */
    hf_test_gate_await(&scene->gate, rows_of(scene));
    touch_all(scene);
    hf_test_gate_open(&scene->gate);
    hf_test_jobs_stop(&scene->jobs, runtime);
    for (size_t row = 0; row < rows_of(scene); row++) {
        check_row(scene, row);
    }
    CU_ASSERT_EQUAL(scene->jobs.n_runs, rows_of(scene));
    hf_test_jobs_close(&scene->jobs);
    free(scene);
}

static void touched_while_in_work(void)
{
    hf_test_on_all(touched_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"touched while in work", touched_while_in_work},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_operator", tests);
}
