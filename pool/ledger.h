/* The ledger: why each connection of a pool is out, now and since it opened.
 * It has no lock of its own: the pool's lock guards it, and the pool alone writes it. */
#ifndef HF_POOL_LEDGER_H
#define HF_POOL_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

#define HF__PURPOSE_MAP(X)                                             \
    X(CLAIM, "claim")                                                  \
    X(ROW_LOCK, "row_lock")           /* pinned: holds a row's lock */ \
    X(ADVISORY_LOCK, "advisory_lock") /* pinned: holds a key */        \
    X(SETTLE, "settle")                                                \
    X(RENEW, "renew")                                                  \
    X(LISTEN, "listen")                                                \
    X(HANDLER, "handler")                                              \
    X(ENQUEUE, "enqueue")                                              \
    X(ADMIN, "admin")

enum hf__purpose {
#define HF__PURPOSE_ENUM(name, text) HF__PURPOSE_##name,
    HF__PURPOSE_MAP(HF__PURPOSE_ENUM)
#undef HF__PURPOSE_ENUM
        HF__PURPOSES
};

const char *hf__purpose_name(enum hf__purpose purpose);

struct hf__ledger_line {
    size_t in_use;             /* derived from the checkouts when a snapshot is taken */
    size_t peak;               /* the most at one moment */
    uint64_t count;            /* how often a connection began to serve this purpose */
    double seconds;            /* in total, running checkouts included when a snapshot is taken */
    uint64_t timeouts;         /* acquisitions given up */
    struct hf__histogram wait; /* from asking to having, for acquisitions of this purpose */
};

struct hf__ledger {
    struct hf__ledger_line line[HF__PURPOSES];
};

/* What the pool writes. Durations are in nanoseconds; a negative one counts as none. */
void hf__ledger_began(struct hf__ledger *ledger, enum hf__purpose purpose, size_t in_use); /* in_use: with the one that began */
void hf__ledger_ended(struct hf__ledger *ledger, enum hf__purpose purpose, int64_t held_ns);
void hf__ledger_waited(struct hf__ledger *ledger, enum hf__purpose purpose, int64_t waited_ns);
void hf__ledger_gave_up(struct hf__ledger *ledger, enum hf__purpose purpose);

/* Writes what is in use as "row_lock 3, claim 1", most first, or "nothing"; cut to fit. */
void hf__ledger_describe(const size_t in_use[HF__PURPOSES], char *out, size_t size);

#endif
