/* Values as the text of a PostgreSQL array: one parameter for many rows. */
#ifndef HF_STRATEGIES_ARRAY_H
#define HF_STRATEGIES_ARRAY_H

#include "pool/value.h"

/* malloc'd text, NULL when memory is out. value_of gives the i-th element. */
char *hf__array_text(size_t n, struct hf__value (*value_of)(const void *ctx, size_t i), const void *ctx);

#endif
