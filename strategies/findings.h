/* A list of what a check found: all faults, not the first. Not thread-safe. */
#ifndef HF_STRATEGIES_FINDINGS_H
#define HF_STRATEGIES_FINDINGS_H

#include <stddef.h>

#include "pool/error.h"

enum hf__finding_level { HF__FINDING_ERROR, HF__FINDING_WARNING, HF__FINDING_INFO };

struct hf__finding {
    enum hf__finding_level level;
    hf_status status; /* of an error: what start fails with */
    char *message;
};

struct hf__findings {
    struct hf__finding *list;
    size_t n, capacity;
};

/* HF_OK, or HF_NO_MEMORY. */
HF_CHECKED hf_status hf__find(struct hf__findings *findings, enum hf__finding_level level, hf_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hf__findings_free(struct hf__findings *findings);
/* The first error among them, written to err; HF_OK if there is none. */
hf_status hf__findings_first_error(const struct hf__findings *findings, hf_error *err);

#endif
