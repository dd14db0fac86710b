/* A driver without a database, for the tests of the pool: the test decides what fails and when, and reads what was asked of it.
 * It counts as misuse what no real client library survives: two threads in one connection, a second close. */
#ifndef HF_TESTS_FAKE_DRIVER_H
#define HF_TESTS_FAKE_DRIVER_H

#include <stdatomic.h>

#include "pool/driver.h"

struct fake_server {
    /* What the test sets. */
    atomic_int refusal;         /* the status of every connect; HF_OK: they succeed */
    atomic_int refusals_left;   /* so many connects fail with HF_UNREACHABLE first */
    atomic_int failing_percent; /* of connects, at random */
    atomic_bool silent;         /* a dead session is noticed by ping only, after its whole deadline */
    /* What it counts. */
    atomic_int open, most_open, connects, closed, looks, pings, resets, rollbacks, misuses, thread_begins, thread_ends;
};

extern struct fake_server fake_server;
extern const struct hf__driver fake_driver;

void fake_server_reset(void);
void fake_server_restart(void); /* every session so far is dead */
void fake_kill(struct hf__conn *conn);
void fake_begin(struct hf__conn *conn); /* opens a transaction */
void fake_stuck(struct hf__conn *conn); /* its next rollback or reset fails; the connection itself lives */
bool fake_is_dead(struct hf__conn *conn);

/* A gate holds whoever comes to it, until it is opened or the caller's deadline passes. */
enum fake_gate { FAKE_CONNECT, FAKE_PING, FAKE_CLOSE, FAKE_GATES };
void fake_gate_shut(enum fake_gate gate);
void fake_gate_open(enum fake_gate gate);
int fake_gate_held(enum fake_gate gate); /* how many stand before it */

#endif
