/* The cost model: what a subscription needs of a pool, known before it runs. Pure functions. */
#ifndef HF_STRATEGIES_COST_H
#define HF_STRATEGIES_COST_H

#include "strategies/table.h"

struct hf__cost_input {
    enum hf__strategy_kind kind;
    enum hf__database database;
    size_t workers;             /* deliveries in work at once */
    size_t handler_connections; /* what each handler takes by itself from the pool */
    bool transactional;         /* the handler writes through its delivery's own transaction: 1 held in every strategy */
    bool listens;
};

struct hf__cost {
    size_t held_per_delivery; /* row lock 1, lease 0, advisory 1 (SQLite 0) */
    size_t held;              /* by all workers at once, at most: held_per_delivery * workers */
    size_t claim;             /* beyond the held ones: a worker that holds one claims and settles on it */
    size_t settle, renew, listen, handler, spare;
    size_t reserved;  /* of the pool, for renewals alone: renew where minimum allows it */
    size_t minimum;   /* the smallest pool that runs at all */
    size_t pool_size; /* the sum: every worker runs and nothing waits for a connection */
};

struct hf__cost hf__cost_of(const struct hf__cost_input *input);
/* The deliveries that can be in work at once on a pool of this size: min(workers, size - what the others need), at least 1 for size >= 1.
 */
size_t hf__cost_workers_within(const struct hf__cost_input *input, size_t pool_size);

#endif
