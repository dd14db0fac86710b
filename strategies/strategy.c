#include "strategies/strategy.h"

extern const struct hf__strategy hf__row_lock, hf__lease, hf__advisory_lock;

const struct hf__strategy *hf__strategy_of(enum hf__strategy_kind kind)
{
    static const struct hf__strategy *const strategies[] = {
        [HF__ROW_LOCK] = &hf__row_lock, [HF__LEASE] = &hf__lease, [HF__ADVISORY_LOCK] = &hf__advisory_lock};
    return strategies[kind];
}
