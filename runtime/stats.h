/* The numbers as one tree, from which both the JSON text and the flat list of hf_stats are made. */
#ifndef HF_RUNTIME_STATS_H
#define HF_RUNTIME_STATS_H

#include <jansson.h>

#include "runtime/runtime.h"

json_t *hf__stats_tree(struct hf_runtime *runtime); /* owned: json_decref; NULL when memory is out */

/* What a number says, by its name (the last part of its path): description and unit; "" where there is nothing to say. */
struct hf__stat_text {
    const char *name, *unit, *description;
};
const struct hf__stat_text *hf__stat_text(const char *name);

#endif
