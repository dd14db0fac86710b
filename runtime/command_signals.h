/* The signals that end a command: blocked in every thread, and read from a descriptor by the one that can act on them. */
#ifndef HF_RUNTIME_COMMAND_SIGNALS_H
#define HF_RUNTIME_COMMAND_SIGNALS_H

#include <stdbool.h>

/* Blocks SIGTERM, SIGINT and SIGHUP, before any thread runs: every thread inherits the mask. A pipe that nobody reads is an error of the
 * write, not the end of the process. Returns the exit status. */
int hf__signals_block(void);
/* A descriptor that is readable once one of them has come, and does not block; -1 with errno set. */
int hf__signals_open(void);
/* Waits up to timeout_ms (0: does not wait; negative: as long as it takes) for a descriptor to be readable. */
bool hf__readable(int fd, int timeout_ms);

#endif
