/* Another session on the database, kept open over several statements: what an operator or another program does meanwhile. */
#ifndef HF_TESTS_SESSION_H
#define HF_TESTS_SESSION_H

#include "pool/driver.h"
#include "tests/support.h"

/* All fail the test when the database refuses. Close it with hf__conn_close. */
struct hf__conn *hf_test_session(const char *url);
void hf_test_session_run(struct hf__conn *session, const char *sql);
/* The first cell as text that lives until the process ends, NULL for NULL or no row. */
const char *hf_test_session_text(struct hf__conn *session, const char *sql);
int64_t hf_test_session_int(struct hf__conn *session, const char *sql);

#endif
