/* The start check of where dead letters go. */
#ifndef HF_STRATEGIES_INSPECT_DEAD_LETTER_H
#define HF_STRATEGIES_INSPECT_DEAD_LETTER_H

#include "strategies/findings.h"
#include "strategies/table.h"

/* relation: of the table whose rows go there. HF_OK, or why the check could not be made. */
HF_CHECKED hf_status hf__inspect_dead_letter(struct hf__conn *conn, const struct hf_table *table, const struct hf__relation *relation,
                                             struct hf__deadline deadline, struct hf__findings *findings, hf_error *err);

#endif
