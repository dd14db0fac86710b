/* Where each figure comes from: spec.md, the table of strategies, and design.md, "The ledger". In words:
 *
 * - Row lock: the transaction that holds the row stays open for the whole handler, so each delivery in work holds one connection;
 *   a batch is one transaction, and holds one.
 * - Lease: the row holds itself, so a delivery holds none. Claims, settles and renewals each take one for a moment.
 * - Advisory lock: the key lives in the session, so each delivery in work holds one, in a batch as well. On SQLite the process holds
 *   the key: none.
 * - A worker that holds a connection claims and settles on that one; only where nothing is held are claims and settles paid for.
 * - A handler that writes through its delivery's own transaction holds that one connection in every strategy. It is the same
 *   connection that holds the row or the key, so it is the greater of the two, not their sum.
 * - One spare: an enqueue or a look at the table never waits for a handler to end. */
#include "strategies/cost.h"

static size_t add(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static size_t times(size_t a, size_t b)
{
    return b != 0 && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

static size_t held_by_strategy(const struct hf__cost_input *input)
{
    switch (input->kind) {
    case HF__ROW_LOCK:
        return 1;
    case HF__LEASE:
        return 0;
    case HF__ADVISORY_LOCK:
        return input->database == HF__SQLITE ? 0 : 1;
    }
    return 1;
}

/* By a worker whose batch is full. */
static size_t held_per_worker(const struct hf__cost_input *input, const struct hf__cost *cost)
{
    bool each = input->kind == HF__ADVISORY_LOCK && input->batch > 1;
    return each ? times(cost->held_per_delivery, input->batch) : cost->held_per_delivery;
}

/* What is needed beside the deliveries, however many they are. */
static size_t others(const struct hf__cost *cost)
{
    return cost->claim + cost->settle + cost->renew + cost->listen + cost->spare;
}

struct hf__cost hf__cost_of(const struct hf__cost_input *input)
{
    size_t by_strategy = held_by_strategy(input);
    size_t apart = by_strategy == 0 ? 1 : 0; /* for the claims, and again for the settles */
    size_t renew = input->kind == HF__LEASE ? 1 : 0;
    struct hf__cost cost = {
        .held_per_delivery = input->transactional ? 1 : by_strategy,
        .claim = apart,
        .settle = apart,
        .renew = renew,
        .listen = input->listens ? 1 : 0,
        .handler = times(input->handler_connections, input->workers),
        .spare = 1,
        .reserved = renew,
    };
    cost.held = times(held_per_worker(input, &cost), input->workers);
    /* One delivery at a time, and its renewals beside it if it keeps a connection of its own meanwhile. With nothing kept, all take
     * turns on one connection, renewals first. */
    size_t kept = add(cost.held_per_delivery, input->handler_connections);
    cost.minimum = kept == 0 ? 1 : add(kept, renew);
    cost.pool_size = add(add(cost.held, cost.handler), others(&cost));
    return cost;
}

size_t hf__cost_workers_within(const struct hf__cost_input *input, size_t pool_size)
{
    struct hf__cost cost = hf__cost_of(input);
    size_t kept = add(cost.held_per_delivery, input->handler_connections);
    if (pool_size == 0 || input->workers == 0) {
        return 0;
    }
    if (kept == 0) {
        return input->workers;
    }
    size_t left = pool_size > others(&cost) ? pool_size - others(&cost) : 0;
    size_t fit = left / kept > 0 ? left / kept : 1;
    return fit < input->workers ? fit : input->workers;
}

size_t hf__cost_extra_within(const struct hf__cost_input *input, size_t pool_size)
{
    struct hf__cost_input single = *input;
    single.batch = 1;
    struct hf__cost full = hf__cost_of(input), least = hf__cost_of(&single);
    size_t left = pool_size > least.pool_size ? pool_size - least.pool_size : 0, most = full.held - least.held;
    return left < most ? left : most;
}
