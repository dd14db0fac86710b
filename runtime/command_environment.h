/* The environment of a command that runs a delivery. */
#ifndef HF_RUNTIME_COMMAND_ENVIRONMENT_H
#define HF_RUNTIME_COMMAND_ENVIRONMENT_H

#include "holdfast.h"

/* Ours without anything that says how to reach or log in to a database (HOLDFAST_*, libpq's PG*, MYSQL_*, MARIADB_*): a list
 * that borrows its strings; free() it. NULL when out of memory. Call it before any thread runs. */
char **hf__environment_base(char *const *ours);
/* The base, and what the delivery has of HOLDFAST_ID, _ATTEMPT, _GROUP, _KEY and _HEADERS. NULL when out of memory. */
char **hf__environment_make(char *const *base, const hf_delivery *delivery);
void hf__environment_free(char *const *base, char **environment);

#endif
