/* The cost model: what a subscription needs of a pool, known before it runs. Pure functions. */
#ifndef HF_STRATEGIES_COST_H
#define HF_STRATEGIES_COST_H

#include "strategies/table.h"

struct hf__cost_input {
    enum hf__strategy_kind kind;
    enum hf__database database;
    size_t workers;             /* handlers that run at once */
    size_t batch;               /* rows that each of them gets at most; 0: 1 */
    size_t handler_connections; /* what each handler takes by itself from the pool */
    bool transactional;         /* the handler writes through its delivery's own transaction: 1 held in every strategy */
    bool listens;
};

struct hf__cost {
    size_t held_per_delivery; /* row lock 1 (and 1 for a whole batch), lease 0, advisory 1 (SQLite 0) */
    size_t held;              /* by all workers at once, at most */
    size_t claim;             /* beyond the held ones: a worker that holds one claims and settles on it */
    size_t settle, renew, listen, handler, spare;
    size_t reserved;  /* of the pool, for renewals alone: renew where minimum allows it */
    size_t minimum;   /* the smallest pool that runs at all */
    size_t pool_size; /* the sum: every worker runs and nothing waits for a connection */
};

struct hf__cost hf__cost_of(const struct hf__cost_input *input);
/* The workers that can run at once on a pool of this size: min(workers, size - what the others need), at least 1 for size >= 1. An
 * advisory lock's batch shrinks, to one row, before a worker does without a connection. */
size_t hf__cost_workers_within(const struct hf__cost_input *input, size_t pool_size);
/* The connections of a pool of this size that are left for an advisory lock's batches, beyond one for each worker. */
size_t hf__cost_extra_within(const struct hf__cost_input *input, size_t pool_size);

#endif
