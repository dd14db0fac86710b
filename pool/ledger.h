/* The ledger: why each connection of a pool is out, now and since it opened.
 * It has no lock of its own: the pool's lock guards it, and the pool alone writes it. */
#ifndef HF_POOL_LEDGER_H
#define HF_POOL_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

#define HF__PURPOSE_MAP(X)                                                     \
    X(CLAIM, "claim")                                                          \
    X(ROW_LOCK, "row_lock")           /* pinned: holds a row's lock */         \
    X(ADVISORY_LOCK, "advisory_lock") /* pinned: holds a key */                \
    X(SETTLE, "settle")                                                        \
    X(RENEW, "renew")                                                          \
    X(LISTEN, "listen")                                                        \
    X(HANDLER, "handler")                                                      \
    X(ENQUEUE, "enqueue")                                                      \
    X(ADMIN, "admin")

enum hf__purpose {
#define HF__PURPOSE_ENUM(name, text) HF__PURPOSE_##name,
    HF__PURPOSE_MAP(HF__PURPOSE_ENUM)
#undef HF__PURPOSE_ENUM
    HF__PURPOSES
};

const char *hf__purpose_name(enum hf__purpose purpose);

struct hf__ledger_line {
    size_t in_use;          /* derived from the checkouts when a snapshot is taken */
    size_t peak;            /* the most at one moment */
    uint64_t count;         /* how often a connection began to serve this purpose */
    double seconds;         /* in total, running checkouts included when a snapshot is taken */
    uint64_t timeouts;      /* acquisitions given up */
    struct hf__histogram wait; /* from asking to having, for acquisitions of this purpose */
};

struct hf__ledger {
    struct hf__ledger_line line[HF__PURPOSES];
};

#endif
