#include "tests/fleet.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/command.h"

#define MAX_ARGUMENTS 32
#define READY_MS 60000

void hf_test_fleet_open(struct hf_test_fleet *fleet, struct hf_test_kind kind, int lease_seconds, struct hf_test_shape shape)
{
    hf_test_jobs_open_shape(&fleet->jobs, kind, lease_seconds, shape);
    const char *dir = getenv("HF_TEST_SQLITE_DIR");
    if (!dir) {
        hf_test_fail("HF_TEST_SQLITE_DIR is not set: run this test with `sh tests/run.sh`");
        return;
    }
    const char *name = fleet->jobs.name;
    fleet->description = hf_test_write_file(dir, hf_test_format("%s.json", name), fleet->jobs.json, strlen(fleet->jobs.json));
    fleet->ledger = hf_test_write_file(dir, hf_test_format("%s.ledger", name), "", 0);
}

void hf_test_fleet_close(struct hf_test_fleet *fleet)
{
    CU_ASSERT_EQUAL(unlink(fleet->description), 0);
    CU_ASSERT_EQUAL(unlink(fleet->ledger), 0);
    hf_test_jobs_close(&fleet->jobs);
}

void hf_test_fleet_add(struct hf_test_fleet *fleet, size_t n)
{
    hf_runtime *runtime = hf_test_jobs_runtime(&fleet->jobs, NULL);
    hf_test_jobs_add(&fleet->jobs, runtime, n);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

void hf_test_fleet_add_groups(struct hf_test_fleet *fleet, size_t n, size_t groups)
{
    hf_runtime *runtime = hf_test_jobs_runtime(&fleet->jobs, NULL);
    hf_test_jobs_add_groups(&fleet->jobs, runtime, n, groups);
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
}

void hf_test_on_all(void (*test)(struct hf_test_kind kind))
{
    for (size_t i = 0; i < hf_test_n_kinds; i++) {
        test(hf_test_kinds[i]);
    }
}

/* ---- workers ---- */

struct hf_test_child *hf_test_fleet_start(const struct hf_test_fleet *fleet, ...)
{
    const char *argv[MAX_ARGUMENTS + 1] = {
        hf_test_program("test_worker"), "--db", fleet->jobs.url, "--table", fleet->description, "--ledger", fleet->ledger};
    va_list args;
    va_start(args, fleet);
    for (size_t n = 7; n < MAX_ARGUMENTS && (n == 7 || argv[n - 1]); n++) {
        argv[n] = va_arg(args, const char *);
    }
    va_end(args);
    CU_ASSERT_PTR_NULL_FATAL(argv[MAX_ARGUMENTS - 1]);
    return hf_test_start(argv, NULL);
}

void hf_test_fleet_ready(struct hf_test_child *worker)
{
    if (!hf_test_wait_stdout(worker, "ready\n", READY_MS)) {
        hf_test_fail("a worker does not get ready: %s", hf_test_stderr(worker));
    }
}

/* Its last line of output, which is the runtime's numbers. */
static void check_numbers(const char *output)
{
    const char *json = strchr(output, '{');
    json_error_t error;
    json_t *numbers = json ? json_loads(json, 0, &error) : NULL;
    if (!numbers) {
        hf_test_fail("a worker prints no numbers but: %s", output);
        return;
    }
    json_int_t exceeded = json_integer_value(json_object_get(numbers, "model_exceeded"));
    json_int_t open = json_integer_value(json_object_get(json_object_get(numbers, "pool"), "open"));
    bool known = json_object_get(numbers, "model_exceeded") && json_object_get(json_object_get(numbers, "pool"), "open");
    json_decref(numbers);
    CU_ASSERT(known);
    CU_ASSERT_EQUAL(exceeded, 0);
    CU_ASSERT_EQUAL(open, 0);
}

void hf_test_fleet_end(struct hf_test_child *worker, int64_t timeout_ms)
{
    int code = hf_test_wait(worker, timeout_ms);
    const char *output = hf_test_format("%s", hf_test_stdout(worker));
    const char *complaints = hf_test_format("%s", hf_test_stderr(worker));
    hf_test_free(worker);
    if (code != 0) {
        hf_test_fail("a worker ended with %d, not 0: %s", code, complaints);
        return;
    }
    check_numbers(output);
}

/* ---- waiting ---- */

struct expected_runs {
    const char *path;
    size_t n;
    bool ended;
};

static bool enough(void *arg)
{
    const struct expected_runs *expected = arg;
    struct hf_test_ledger ledger = hf_test_ledger_read(expected->path);
    bool there = (expected->ended ? hf_test_ledger_ended(&ledger) : ledger.n) >= expected->n;
    hf_test_ledger_free(&ledger);
    return there;
}

static void wait_runs(struct expected_runs expected, int64_t timeout_ms)
{
    if (!hf_test_wait_until(enough, &expected, timeout_ms)) {
        hf_test_fail("%s: %zu runs did not %s within %lld ms", expected.path, expected.n, expected.ended ? "end" : "begin",
                     (long long)timeout_ms);
    }
}

void hf_test_fleet_wait_begun(const struct hf_test_fleet *fleet, size_t n, int64_t timeout_ms)
{
    wait_runs((struct expected_runs){fleet->ledger, n, false}, timeout_ms);
}

void hf_test_fleet_wait_ended(const struct hf_test_fleet *fleet, size_t n, int64_t timeout_ms)
{
    wait_runs((struct expected_runs){fleet->ledger, n, true}, timeout_ms);
}
