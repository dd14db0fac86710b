/* The writers of one process take turns at a database file, oldest first. SQLite lets one write at a time and tells nobody when the lock
 * comes free: without turns the threads of a process would look again and again, out of order, and sleep while the file is free.
 * Other processes are still waited for by looking; now and then a writer lets a moment pass for them. */
#ifndef HF_POOL_DRIVER_SQLITE_TURN_H
#define HF_POOL_DRIVER_SQLITE_TURN_H

#include "deadline.h"

struct hf__sqlite_turns;

/* The turns at this file, shared by the whole process, whatever name it is opened by. NULL when memory is out or there is no such file. */
struct hf__sqlite_turns *hf__sqlite_turns_at(const char *path);
void hf__sqlite_turns_leave(struct hf__sqlite_turns *turns); /* NULL is allowed */

/* Waits for this thread's turn. False when the deadline passed first. Not to be called with a lock on the file. */
bool hf__sqlite_turn_take(struct hf__sqlite_turns *turns, struct hf__deadline deadline);
void hf__sqlite_turn_end(struct hf__sqlite_turns *turns);

#endif
