/* The public face of table descriptions. */
#include "strategies/table.h"

#include "holdfast.h"

hf_status hf_table_parse(const char *json, size_t len, hf_table **out, hf_error *err)
{
    return hf__table_parse(json, len, out, err);
}

hf_status hf_table_load(const char *path, hf_table **out, hf_error *err)
{
    return hf__table_load(path, out, err);
}

void hf_table_free(hf_table *table)
{
    hf__table_free(table);
}

hf_strategy hf_table_strategy(const hf_table *table)
{
    switch (hf__table_kind(table)) {
    case HF__ROW_LOCK:
        return HF_ROW_LOCK;
    case HF__LEASE:
        return HF_LEASE;
    case HF__ADVISORY_LOCK:
        return HF_ADVISORY_LOCK;
    }
    return HF_ROW_LOCK;
}

const char *hf_table_name(const hf_table *table)
{
    return table->name;
}

const char *hf_strategy_name(hf_strategy strategy)
{
    switch (strategy) {
    case HF_ROW_LOCK:
        return hf__strategy_kind_name(HF__ROW_LOCK);
    case HF_LEASE:
        return hf__strategy_kind_name(HF__LEASE);
    case HF_ADVISORY_LOCK:
        return hf__strategy_kind_name(HF__ADVISORY_LOCK);
    }
    return "?";
}
