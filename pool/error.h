/* Filling an hf_error. All functions accept err == NULL and return the status they were given, so that
 * `return hf__fail(err, HF_INVALID, "...")` is one statement. */
#ifndef HF_POOL_ERROR_H
#define HF_POOL_ERROR_H

#include <stdbool.h>

#include "holdfast_status.h"

/* Writes the status and the formatted message; clears the native code and the SQLSTATE. */
hf_status hf__fail(hf_error *err, hf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* As hf__fail, with what the database said of itself. sqlstate may be NULL. */
hf_status hf__fail_native(hf_error *err, hf_status status, int native_code, const char *sqlstate, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts the formatted text and ": " before the message that err already has, and keeps the rest. Returns err's status; with err NULL there
 * is none to return, so return the status you have, not this function's. */
hf_status hf__fail_context(hf_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

hf_status hf__fail_memory(hf_error *err);

/* The number of bytes of text[0..len) that fit in limit without cutting a UTF-8 character in two. */
#include <stddef.h>
size_t hf__utf8_cut(const char *text, size_t len, size_t limit);
/* All of it is UTF-8 without a NUL. */
bool hf__utf8_valid(const char *text, size_t len);

#endif
