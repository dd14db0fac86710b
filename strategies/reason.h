/* The reason that goes to last_error. */
#ifndef HF_STRATEGIES_REASON_H
#define HF_STRATEGIES_REASON_H

#include "pool/driver.h"

/* No reason is longer than this many bytes, whatever the column holds: a failure must always be stored. */
#define HF__REASON_MAX ((size_t)65535)

/* The reason as the column can hold it: bytes that are no UTF-8, and NUL, become '?'; cut by bytes at a character boundary.
 * column NULL or reason NULL: *out is NULL. The caller frees *out. */
HF_CHECKED hf_status hf__reason_for(const struct hf__column *column, const char *reason, size_t len, char **out, hf_error *err);

/* Is it UTF-8 without a NUL, as every database takes it for text? */
bool hf__is_text(const char *data, size_t len);

#endif
