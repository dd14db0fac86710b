/* For end-to-end suites: worker processes (tests/worker.c) on one table, and the ledger that they keep together. */
#ifndef HF_TESTS_FLEET_H
#define HF_TESTS_FLEET_H

#include "tests/jobs.h"
#include "tests/ledger.h"

struct hf_test_fleet {
    struct hf_test_jobs jobs;
    const char *description, *ledger; /* files */
};

void hf_test_fleet_open(struct hf_test_fleet *fleet, struct hf_test_kind kind, int lease_seconds, struct hf_test_shape shape);
void hf_test_fleet_close(struct hf_test_fleet *fleet);
/* n rows, on an empty table; see hf_test_jobs_add. */
void hf_test_fleet_add(struct hf_test_fleet *fleet, size_t n);
/* n rows more, see hf_test_jobs_add_groups. */
void hf_test_fleet_add_groups(struct hf_test_fleet *fleet, size_t n, size_t groups);
/* Runs a test under every strategy of every database. */
void hf_test_on_all(void (*test)(struct hf_test_kind kind));
/* Starts a worker with these options more; NULL ends them. */
struct hf_test_child *hf_test_fleet_start(const struct hf_test_fleet *fleet, ...) __attribute__((sentinel));
/* Waits until it claims. */
void hf_test_fleet_ready(struct hf_test_child *worker);
/* Waits for its end, which must be exit 0 with all connections closed and never more of them than the cost model allows. Frees it. */
void hf_test_fleet_end(struct hf_test_child *worker, int64_t timeout_ms);
/* Waits until so many runs have begun, or ended, in the ledger. */
void hf_test_fleet_wait_begun(const struct hf_test_fleet *fleet, size_t n, int64_t timeout_ms);
void hf_test_fleet_wait_ended(const struct hf_test_fleet *fleet, size_t n, int64_t timeout_ms);

#endif
