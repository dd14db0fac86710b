#include "strategies/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

struct held_key {
    LIST_ENTRY(held_key) link;
    char text[];
};

#define BUCKETS 256

struct hf__keys {
    pthread_mutex_t mutex; /* guards held */
    LIST_HEAD(, held_key) held[BUCKETS];
    /* of a database file; guarded by the registry's mutex */
    LIST_ENTRY(hf__keys) link;
    size_t users;
    int lock_fd; /* -1: a private set */
    dev_t device;
    ino_t inode;
};

/* The sets of this process's database files. Lock order: registry, then nothing. */
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, hf__keys) registry = LIST_HEAD_INITIALIZER(registry);

static struct hf__keys *new_keys(void)
{
    struct hf__keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return NULL;
    if (pthread_mutex_init(&keys->mutex, NULL) != 0) {
        free(keys);
        return NULL;
    }
    keys->users = 1;
    keys->lock_fd = -1;
    return keys;
}

static void free_keys(struct hf__keys *keys)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct held_key *key;
        while ((key = LIST_FIRST(&keys->held[i])) != NULL) {
            LIST_REMOVE(key, link);
            free(key);
        }
    }
    pthread_mutex_destroy(&keys->mutex);
    free(keys);
}

hf_status hf__keys_private(struct hf__keys **out, hf_error *err)
{
    *out = new_keys();
    return *out ? HF_OK : hf__fail_memory(err);
}

static hf_status open_lock_file(const char *database_path, int *fd, hf_error *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s-holdfast-keys", database_path) < 0)
        return hf__fail_memory(err);
    hf_status status = HF_OK;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) {
        status =
            hf__fail(err, HF_SYSTEM, "cannot open %s, which keeps a second process off the database's keys: %s", path, strerror(errno));
    } else if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        status =
            errno == EWOULDBLOCK
                ? hf__fail(err, HF_BUSY,
                           "another process works under advisory locks on %s (it holds %s): on SQLite the keys are kept in the process, so"
                           " one process serves a database file; stop the other, give this one more workers, or use a lease table",
                           database_path, path)
                : hf__fail(err, HF_SYSTEM, "cannot lock %s: %s", path, strerror(errno));
        close(*fd);
    }
    free(path);
    return status;
}

static hf_status new_file_keys(const char *database_path, const struct stat *file, struct hf__keys **out, hf_error *err)
{
    struct hf__keys *keys = new_keys();
    if (!keys)
        return hf__fail_memory(err);
    hf_status status = open_lock_file(database_path, &keys->lock_fd, err);
    if (status != HF_OK) {
        free_keys(keys);
        return status;
    }
    keys->device = file->st_dev;
    keys->inode = file->st_ino;
    LIST_INSERT_HEAD(&registry, keys, link);
    *out = keys;
    return HF_OK;
}

hf_status hf__keys_of_file(const char *database_path, struct hf__keys **out, hf_error *err)
{
    struct stat file;
    *out = NULL;
    if (stat(database_path, &file) != 0)
        return hf__fail(err, HF_SYSTEM, "cannot look at %s: %s", database_path, strerror(errno));
    hf_status status = HF_OK;
    pthread_mutex_lock(&registry_mutex);
    struct hf__keys *keys;
    LIST_FOREACH (keys, &registry, link)
        if (keys->device == file.st_dev && keys->inode == file.st_ino)
            break;
    if (keys) {
        keys->users++;
        *out = keys;
    } else {
        status = new_file_keys(database_path, &file, out, err);
    }
    pthread_mutex_unlock(&registry_mutex);
    return status;
}

void hf__keys_close(struct hf__keys *keys)
{
    if (!keys)
        return;
    pthread_mutex_lock(&registry_mutex);
    bool last = --keys->users == 0;
    if (last && keys->lock_fd >= 0) {
        LIST_REMOVE(keys, link);
        close(keys->lock_fd);
    }
    pthread_mutex_unlock(&registry_mutex);
    if (last)
        free_keys(keys);
}

/* FNV-1a: spreads keys over the buckets, nothing more. */
static size_t bucket_of(const char *key)
{
    uint32_t hash = 2166136261u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash % BUCKETS;
}

static struct held_key *find_key(struct hf__keys *keys, const char *key)
{
    struct held_key *held;
    LIST_FOREACH (held, &keys->held[bucket_of(key)], link)
        if (strcmp(held->text, key) == 0)
            return held;
    return NULL;
}

int hf__keys_take(struct hf__keys *keys, const char *key)
{
    size_t len = strlen(key) + 1;
    struct held_key *mine = malloc(sizeof *mine + len);
    if (!mine)
        return -1;
    memcpy(mine->text, key, len);
    pthread_mutex_lock(&keys->mutex);
    bool taken = find_key(keys, key) != NULL;
    if (!taken)
        LIST_INSERT_HEAD(&keys->held[bucket_of(key)], mine, link);
    pthread_mutex_unlock(&keys->mutex);
    if (taken)
        free(mine);
    return taken ? 0 : 1;
}

void hf__keys_drop(struct hf__keys *keys, const char *key)
{
    pthread_mutex_lock(&keys->mutex);
    struct held_key *held = find_key(keys, key);
    if (held)
        LIST_REMOVE(held, link);
    pthread_mutex_unlock(&keys->mutex);
    free(held);
}

long hf__keys_list(struct hf__keys *keys, char **out, size_t max)
{
    size_t n = 0;
    bool failed = false;
    pthread_mutex_lock(&keys->mutex);
    for (size_t i = 0; i < BUCKETS && !failed; i++) {
        struct held_key *held;
        LIST_FOREACH (held, &keys->held[i], link) {
            if (n == max || failed)
                break;
            out[n] = strdup(held->text);
            failed = out[n] == NULL;
            if (!failed)
                n++;
        }
    }
    pthread_mutex_unlock(&keys->mutex);
    if (!failed)
        return (long)n;
    while (n > 0)
        free(out[--n]);
    return -1;
}
