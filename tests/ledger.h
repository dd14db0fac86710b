/* The ledger of tests/worker.c: what ran when, as the handlers themselves wrote it down, and what must be true of it. The checks
 * fail the test and name the row; call them on the main thread. */
#ifndef HF_TESTS_LEDGER_H
#define HF_TESTS_LEDGER_H

#include "tests/support.h"

struct hf_test_entry {                 /* one run of a handler */
    char *id, *key;                    /* key "-": none; a row without a key has its group there */
    int64_t attempt, begin_ns, end_ns; /* CLOCK_MONOTONIC; end_ns INT64_MAX: it has not ended */
    pid_t pid;
};

struct hf_test_ledger {
    struct hf_test_entry *runs; /* in the order in which they began */
    size_t n;
};

/* Reads what is in the file so far; a file that is not there yet is an empty ledger. */
struct hf_test_ledger hf_test_ledger_read(const char *path);
void hf_test_ledger_free(struct hf_test_ledger *ledger);

/* A process was dead at this time: what it ran has ended by then. */
void hf_test_ledger_died(struct hf_test_ledger *ledger, pid_t pid, int64_t ns);
/* The sessions were cut one by one in this span of time: a row that was held by one of them is free as soon as its session is gone, while
 * its handler goes on and other sessions may still claim. */
void hf_test_ledger_cut(struct hf_test_ledger *ledger, int64_t from_ns, int64_t to_ns);
size_t hf_test_ledger_ended(const struct hf_test_ledger *ledger); /* runs that have ended */
/* The i-th run of a row in the order of their beginnings, from 0; NULL if there are fewer. */
const struct hf_test_entry *hf_test_ledger_run_of(const struct hf_test_ledger *ledger, int64_t id, size_t i);

/* No two runs of one row overlap. */
void hf_test_ledger_rows_apart(const struct hf_test_ledger *ledger);
/* No two runs of one key, or group, overlap. */
void hf_test_ledger_keys_apart(const struct hf_test_ledger *ledger);
/* In each key, or group, runs begin in the order of the ids; a row may run several times in its turn. */
void hf_test_ledger_in_order(const struct hf_test_ledger *ledger);
/* The rows 1 to n, and no others, ran; each at least once, and its last run ended. */
void hf_test_ledger_all_ran(const struct hf_test_ledger *ledger, size_t n);
/* The same, each once, and as its first attempt. */
void hf_test_ledger_all_ran_once(const struct hf_test_ledger *ledger, size_t n);

#endif
