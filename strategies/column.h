/* Values that people write, and the columns that are to hold them. */
#ifndef HF_STRATEGIES_COLUMN_H
#define HF_STRATEGIES_COLUMN_H

#include "pool/catalogue.h"
#include "pool/value.h"

/* Can the column hold what this text says: an integer of its width, a UUID, so many characters? */
bool hf__column_holds(const struct hf__column *column, const char *text);
/* The text as an integer that the column can hold. */
bool hf__column_integer(const struct hf__column *column, const char *text, struct hf__value *out);

#endif
