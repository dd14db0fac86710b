/* Which index reads a table's rows in claim order. */
#ifndef HF_STRATEGIES_ORDER_INDEX_H
#define HF_STRATEGIES_ORDER_INDEX_H

#include "strategies/dialect.h"
#include "strategies/table.h"

/* The columns that such an index must begin with; how many. by_group: the order within one group, else the order of all rows. */
#define HF__ORDER_COLUMNS 5
size_t hf__order_columns(const struct hf_table *table, const struct hf__dialect *dialect, bool by_group,
                         const char *columns[HF__ORDER_COLUMNS]);
/* NULL: there is none. */
const struct hf__index *hf__order_index(const struct hf_table *table, const struct hf__dialect *dialect,
                                        const struct hf__relation *relation, bool by_group);

#endif
