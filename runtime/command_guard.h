/* A small process beside `holdfast work` that outlives its sudden death, for as long as it takes to kill the commands that still run:
 * their rows are free by then, or will be, and someone else runs them. */
#ifndef HF_RUNTIME_COMMAND_GUARD_H
#define HF_RUNTIME_COMMAND_GUARD_H

#include <sys/types.h>

int hf__guard_start(void); /* once, before any thread; 0 or an errno value */
/* From now on, or no longer, the process group is killed when this process dies. One thread at a time. */
void hf__guard_add(pid_t group);
void hf__guard_remove(pid_t group);

#endif
