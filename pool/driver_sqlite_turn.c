#include "driver_sqlite_turn.h"

#include <stdlib.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

/* After so long without a pause the next turn begins with one, in which another process may find the file free. */
#define BUSY_NS INT64_C(50000000)
#define PAUSE_NS INT64_C(4000000)

struct waiter {
    TAILQ_ENTRY(waiter) link;
    pthread_cond_t called;
    bool has_turn;
};

struct hf__sqlite_turns {
    LIST_ENTRY(hf__sqlite_turns) link; /* guarded, with users, by the registry's mutex */
    size_t users;
    dev_t device;
    ino_t inode;

    pthread_mutex_t mutex; /* guards what follows */
    TAILQ_HEAD(, waiter) waiters;
    bool taken;
    int64_t busy_since_ns; /* turns have followed each other since then */
};

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER; /* nothing is locked under it */
static LIST_HEAD(, hf__sqlite_turns) registry = LIST_HEAD_INITIALIZER(registry);

static struct hf__sqlite_turns *new_turns(const struct stat *file)
{
    struct hf__sqlite_turns *turns = calloc(1, sizeof *turns);
    if (turns == NULL || pthread_mutex_init(&turns->mutex, NULL) != 0) {
        free(turns);
        return NULL;
    }
    TAILQ_INIT(&turns->waiters);
    turns->device = file->st_dev;
    turns->inode = file->st_ino;
    LIST_INSERT_HEAD(&registry, turns, link);
    return turns;
}

struct hf__sqlite_turns *hf__sqlite_turns_at(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        return NULL;
    }
    pthread_mutex_lock(&registry_mutex);
    struct hf__sqlite_turns *turns;
    LIST_FOREACH (turns, &registry, link) {
        if (turns->device == file.st_dev && turns->inode == file.st_ino) {
            break;
        }
    }
    if (turns == NULL) {
        turns = new_turns(&file);
    }
    if (turns != NULL) {
        turns->users++;
    }
    pthread_mutex_unlock(&registry_mutex);
    return turns;
}

void hf__sqlite_turns_leave(struct hf__sqlite_turns *turns)
{
    if (turns == NULL) {
        return;
    }
    pthread_mutex_lock(&registry_mutex);
    bool last = --turns->users == 0;
    if (last) {
        LIST_REMOVE(turns, link);
    }
    pthread_mutex_unlock(&registry_mutex);
    if (last) {
        (void)pthread_mutex_destroy(&turns->mutex);
        free(turns);
    }
}

static void let_others_in(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    (void)nanosleep(&pause, NULL); /* woken early, it ends early */
}

/* With the mutex held. False when the deadline passed first. */
static bool wait_in_line(struct hf__sqlite_turns *turns, struct hf__deadline deadline)
{
    struct waiter me = {.has_turn = false};
    bool in_time = true;
    if (hf__cond_init(&me.called) != 0) {
        return false;
    }
    TAILQ_INSERT_TAIL(&turns->waiters, &me, link);
    while (!me.has_turn && in_time) {
        in_time = hf__cond_wait(&me.called, &turns->mutex, deadline);
    }
    if (!me.has_turn) {
        TAILQ_REMOVE(&turns->waiters, &me, link);
    }
    (void)pthread_cond_destroy(&me.called);
    return me.has_turn;
}

bool hf__sqlite_turn_take(struct hf__sqlite_turns *turns, struct hf__deadline deadline)
{
    bool got = true;
    bool pause = false;
    pthread_mutex_lock(&turns->mutex);
    if (turns->taken) {
        got = wait_in_line(turns, deadline);
    } else {
        turns->taken = true;
        turns->busy_since_ns = hf__monotonic_ns();
    }
    if (got && hf__monotonic_ns() - turns->busy_since_ns > BUSY_NS) {
        pause = true;
        turns->busy_since_ns = hf__monotonic_ns() + PAUSE_NS;
    }
    pthread_mutex_unlock(&turns->mutex);
    if (pause) {
        let_others_in();
    }
    return got;
}

/* The turn is handed to whoever waits longest; `taken` stays set meanwhile, so that no newcomer comes between. */
void hf__sqlite_turn_end(struct hf__sqlite_turns *turns)
{
    pthread_mutex_lock(&turns->mutex);
    struct waiter *next = TAILQ_FIRST(&turns->waiters);
    turns->taken = next != NULL;
    if (next != NULL) {
        TAILQ_REMOVE(&turns->waiters, next, link);
        next->has_turn = true;
        pthread_cond_signal(&next->called);
    }
    pthread_mutex_unlock(&turns->mutex);
}
