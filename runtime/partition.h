/* Rows of one partition key, in order on one worker at a time. "Locked": the caller holds the subscription's lock. */
#ifndef HF_RUNTIME_PARTITION_H
#define HF_RUNTIME_PARTITION_H

#include "runtime/runtime.h"

struct hf__worker;

/* What an open subscription on a table with the role needs. */
HF_CHECKED hf_status hf__partitions_open(struct hf_subscription *subscription, hf_error *err);
void hf__partitions_close(struct hf_subscription *subscription);

/* All locked; nothing for a row without a key. */

/* A row was claimed: it stands behind all of its key that were claimed before. */
void hf__partition_join(struct hf_delivery *delivery);
/* May it begin on this worker (NULL: on any)? Not before the rows of its key that came before have ended, or were begun by this worker. */
bool hf__partition_free(const struct hf_delivery *delivery, const struct hf__worker *worker);
/* Its outcome is decided, or its handler has returned, or it is settled: lets the next of its key begin, or be claimed, if that is so. */
void hf__partition_pass(struct hf_delivery *delivery);

/* Locked: are more keys in work than a claim can leave out? Then it is not sent; who settles one of them claims next. */
bool hf__partitions_full(const struct hf_subscription *subscription);

/* Copies of the keys in work, for a claim. Zeroed before its first use. */
struct hf__busy {
    struct hf__value *values;
    size_t n;
    char *memory;
    size_t size;
};
/* Locked: all of them but those in work on the worker `but` (may be NULL). */
HF_CHECKED hf_status hf__busy_list(struct hf_subscription *subscription, const struct hf__worker *but, struct hf__busy *busy,
                                   hf_error *err);
void hf__busy_free(struct hf__busy *busy);

#endif
