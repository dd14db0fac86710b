/* What every suite shares: one main, waiting with a deadline, the servers' URLs, SQL on the side, child processes.
 * Everything that can fail a test does so through CUnit's fatal assertions: call it on the main thread only. */
#ifndef HF_TESTS_SUPPORT_H
#define HF_TESTS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <CUnit/CUnit.h>

#include "pool/error.h"
#include "pool/url.h"

/* Runs one suite, with `tests` ended by CU_TEST_INFO_NULL, and returns main's exit status: 0 passed, 1 failed, 2 wrong usage.
 * `test_x NAME...` runs only the tests whose names contain one of NAME; `test_x --list` prints them. */
int hf_test_main(int argc, char **argv, const char *suite, CU_TestInfo *tests);

/* Fails the running test fatally with a formatted sentence. */
void hf_test_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For a status of the library: fails with what err says unless it is HF_OK. err may be NULL. */
#define HF_TEST_OK(call, err) hf_test_ok((call), (err), #call, __FILE__, __LINE__)
void hf_test_ok(hf_status status, const hf_error *err, const char *call, const char *file, int line);
/* Fails unless the status is the expected one. */
#define HF_TEST_STATUS(call, expected, err) hf_test_status((call), (expected), (err), #call, __FILE__, __LINE__)
void hf_test_status(hf_status status, hf_status expected, const hf_error *err, const char *call, const char *file, int line);

int64_t hf_test_now_ms(void); /* CLOCK_MONOTONIC */
void hf_test_sleep_ms(int64_t ms);
/* Asks again and again, a few milliseconds apart, until check(arg) is true or the time is over; returns its last answer. */
bool hf_test_wait_until(bool (*check)(void *arg), void *arg, int64_t timeout_ms);

struct hf_test_child;

/* The servers that tests/servers.sh started. Each fails the test, saying what to do, when its variable is not set. */
const char *hf_test_postgres_url(void);       /* an ordinary role with a password, owner of its database */
const char *hf_test_postgres_admin_url(void); /* the superuser */
const char *hf_test_mysql_url(void);          /* MariaDB, or MySQL; an ordinary user with a password */
const char *hf_test_mysql_admin_url(void);    /* root */
bool hf_test_is_mariadb(void);                /* which of the two */
const char *hf_test_sqlite_url(void);         /* a new database file for each call */
const char *hf_test_url(enum hf__database database);
bool hf_test_has_keys(enum hf__database database); /* PostgreSQL: version 11 or newer */
bool hf_test_built_with(enum hf__database database);
/* tests/servers.sh ACTION on "postgres" or "mariadb". Actions: "start", "stop", "kill", "restart". */
void hf_test_server(const char *action, const char *server);

/* PREFIX_PID_N: a name that no other test uses. The string lives until the process ends. */
const char *hf_test_scratch(const char *prefix);
/* A formatted string that lives until the process ends. */
const char *hf_test_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* SQL on a connection of its own, opened and closed for each call. */
void hf_test_sql(const char *url, const char *sql); /* one or several statements */
hf_status hf_test_try_sql(const char *url, const char *sql, hf_error *err);
int64_t hf_test_query_int(const char *url, const char *sql); /* the first cell; fails when there is none or it is NULL */
const char *hf_test_query_text(const char *url,
                               const char *sql); /* the first cell as text, NULL for NULL or no row; lives until the process ends */

/* A program started by the test. Its output goes to memory of the kernel, so it never waits for us to read. It is killed when
 * the thread that started it ends. */
#define HF_TEST_TIMED_OUT (-1)
#define HF_TEST_SIGNALLED 256 /* plus the signal's number */

const char *hf_test_program(const char *name); /* path of a program of this build: "holdfast", "test_worker" */
/* argv[0] is the program (searched in PATH if it has no slash). env: NULL, or "NAME=VALUE" strings ended by NULL, set over ours; "NAME"
 * alone unsets. */
struct hf_test_child *hf_test_start(const char *const *argv, const char *const *env);
/* As hf_test_start, with these bytes on its standard input; otherwise that is /dev/null. */
struct hf_test_child *hf_test_start_with_input(const char *const *argv, const char *const *env, const void *input, size_t len);
pid_t hf_test_pid(const struct hf_test_child *child);
bool hf_test_running(struct hf_test_child *child);
void hf_test_kill(struct hf_test_child *child, int signal_number); /* nothing if it has ended */
/* Waits for its end: 0 to 255 as it exited, HF_TEST_SIGNALLED + signal; or kills it at the limit and returns HF_TEST_TIMED_OUT. */
int hf_test_wait(struct hf_test_child *child, int64_t timeout_ms);
const char *hf_test_stdout(struct hf_test_child *child); /* so far; valid until the next call */
const char *hf_test_stderr(struct hf_test_child *child);
bool hf_test_wait_stdout(struct hf_test_child *child, const char *text, int64_t timeout_ms); /* until its output contains text */
void hf_test_free(struct hf_test_child *child); /* kills it if it still runs; NULL is allowed */
/* Start, wait, and fail with its output unless it exits with 0 in time. */
void hf_test_run(const char *const *argv, const char *const *env, int64_t timeout_ms);

#endif
