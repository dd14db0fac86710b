/* The advisory keys that this process holds or is about to take. Session locks are re-entrant and SQLite has none, so the process must
 * know its own. Where the database keeps the locks a set belongs to one plan; on SQLite it belongs to the database file, by device and
 * inode, is shared by the whole process, and keeps other processes out by a lock on a file beside the database. */
#ifndef HF_STRATEGIES_KEYS_H
#define HF_STRATEGIES_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/error.h"

struct hf__keys;

HF_CHECKED hf_status hf__keys_private(struct hf__keys **out, hf_error *err);
/* HF_BUSY if another process works on this file's keys: the message names the lock file. */
HF_CHECKED hf_status hf__keys_of_file(const char *database_path, struct hf__keys **out, hf_error *err);
void hf__keys_close(struct hf__keys *keys); /* the file's lock goes with the last user of it; NULL is allowed */

/* Takes the key for this process. 1: got it; 0: held already; -1: out of memory. Any thread. */
int hf__keys_take(struct hf__keys *keys, const char *key);
void hf__keys_drop(struct hf__keys *keys, const char *key);
/* Copies of up to max keys that are held now, each malloc'd; returns how many, or -1 when memory is out. */
long hf__keys_list(struct hf__keys *keys, char **out, size_t max);

#endif
