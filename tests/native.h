/* SQL through a native handle, as a handler of the user's runs it. */
#ifndef HF_TESTS_NATIVE_H
#define HF_TESTS_NATIVE_H

#include "holdfast.h"
#include "pool/url.h"

void *hf_test_delivery_native(hf_delivery *delivery, enum hf__database database);
void *hf_test_connection_native(hf_connection *connection, enum hf__database database);
/* Runs one statement and reads its answer. 0, or the database's error: a number that is not 0. Any thread. */
int hf_test_native_run(enum hf__database database, void *native, const char *sql);
/* The first cell as a number; -1 when there is none. */
long hf_test_native_int(enum hf__database database, void *native, const char *sql);

#endif
