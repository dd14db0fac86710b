/* Shell commands as children: one thread reaps them all, and each worker waits for its own, or for the word to stop it.
 *
 * The process is the subreaper of its commands, so that what they leave behind comes to it as well: nothing stays a zombie, also
 * where the process is number 1 of a container, and a stopped group is known to be gone. A child is reaped under the lock, so while
 * it has not `ended` its number, which is its group's too, is its own and may be signalled. */
#include "runtime/command_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/deadline.h"
#include "runtime/command_guard.h"

#define KILL_WAIT_MS 1000 /* for the rest of a killed group, once its leader is reaped */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows and all members of every child */
static LIST_HEAD(, hf__child) running = LIST_HEAD_INITIALIZER(running);
static uint64_t n_spawned;
static pthread_cond_t spawned = PTHREAD_COND_INITIALIZER; /* for the reaper, which waits without a deadline */

/* ---- reaping ---- */

/* Whoever waits for the rest of a group has to look again after every death. */
static void tell(pid_t pid, int status)
{
    struct hf__child *child;
    LIST_FOREACH (child, &running, link) {
        if (child->pid == pid && !child->ended) {
            child->ended = true;
            child->status = status;
        }
        if (child->ended) {
            pthread_cond_signal(&child->changed);
        }
    }
}

static void reap(pid_t pid)
{
    int status = 0;
    pthread_mutex_lock(&lock);
    if (waitpid(pid, &status, WNOHANG) == pid) {
        tell(pid, status);
    }
    pthread_mutex_unlock(&lock);
}

/* Without a child there is no orphan to come either: the next one is spawned. */
static void wait_for_spawn(uint64_t seen)
{
    pthread_mutex_lock(&lock);
    while (n_spawned == seen) {
        pthread_cond_wait(&spawned, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t spawned_so_far(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = n_spawned;
    pthread_mutex_unlock(&lock);
    return n;
}

static void *reap_all(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t seen = spawned_so_far();
        siginfo_t ended = {0};
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0) {
            reap(ended.si_pid);
        } else if (errno == ECHILD) {
            wait_for_spawn(seen);
        }
    }
    return NULL;
}

int hf__child_reaper_start(void)
{
    /* An ignored SIGCHLD, inherited from whoever started us, would let the statuses vanish. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        return errno;
    }
    pthread_t thread;
    int error = pthread_create(&thread, NULL, reap_all, NULL);
    return error ? error : pthread_detach(thread);
}

/* ---- one command: all under the lock ---- */

static bool wait_until_ended(struct hf__child *child, struct hf__deadline deadline)
{
    while (!child->ended && hf__cond_wait(&child->changed, &lock, deadline)) {
    }
    return child->ended;
}

/* The rest of the group, whose leader is reaped. As long as a process of the group lives, its number is given to no other. */
static void wait_for_group(struct hf__child *child, struct hf__deadline deadline)
{
    while (kill(-child->pid, 0) == 0 && hf__cond_wait(&child->changed, &lock, deadline)) {
    }
}

/* The last wait is bounded: what a stranger has adopted is not ours to reap, and would count as one of the group for ever. */
static void stop(struct hf__child *child, int64_t grace_ms)
{
    struct hf__deadline kill_at = hf__after_ms(grace_ms);
    child->stopped = true;
    kill(-child->pid, SIGTERM);
    if (!wait_until_ended(child, kill_at)) {
        kill(-child->pid, SIGKILL);
        wait_until_ended(child, hf__never());
    }
    wait_for_group(child, kill_at);
    if (kill(-child->pid, SIGKILL) == 0) {
        wait_for_group(child, hf__after_ms(KILL_WAIT_MS));
    }
}

static void wait_for(struct hf__child *child, const struct hf__child_request *request)
{
    struct hf__deadline limit = request->limit_ms > 0 ? hf__after_ms(request->limit_ms) : hf__never();
    while (!child->ended && !child->stop && hf__cond_wait(&child->changed, &lock, limit)) {
    }
    if (!child->ended) {
        child->timed_out = !child->stop;
        stop(child, request->grace_ms);
    }
}

/* The lock is held over the spawn, so that the reaper knows every child that it reaps. */
static int run(struct hf__child *child, const struct hf__child_request *request, int input)
{
    if (child->stop) {
        child->stopped = true;
        return 0;
    }
    int error = hf__child_spawn(request, input, &child->pid);
    if (error) {
        return error;
    }
    hf__guard_add(child->pid);
    LIST_INSERT_HEAD(&running, child, link);
    n_spawned++;
    pthread_cond_signal(&spawned);
    wait_for(child, request);
    LIST_REMOVE(child, link);
    hf__guard_remove(child->pid);
    return 0;
}

int hf__child_run(struct hf__child *child, const struct hf__child_request *request)
{
    int input = hf__child_input(request->input, request->input_len);
    if (input < 0) {
        return errno;
    }
    pthread_mutex_lock(&lock);
    int error = run(child, request, input);
    pthread_mutex_unlock(&lock);
    close(input);
    return error;
}

void hf__child_stop(struct hf__child *child)
{
    pthread_mutex_lock(&lock);
    child->stop = true;
    pthread_cond_signal(&child->changed);
    pthread_mutex_unlock(&lock);
}

int hf__child_init(struct hf__child *child)
{
    *child = (struct hf__child){0};
    return hf__cond_init(&child->changed);
}

void hf__child_destroy(struct hf__child *child)
{
    pthread_cond_destroy(&child->changed);
}

void hf__child_status_text(int status, char out[HF__CHILD_TEXT])
{
    if (WIFSIGNALED(status)) {
        const char *name = sigdescr_np(WTERMSIG(status));
        snprintf(out, HF__CHILD_TEXT, "killed by signal %d (%s)", WTERMSIG(status), name ? name : "unknown");
    } else {
        snprintf(out, HF__CHILD_TEXT, "exit status %d", WEXITSTATUS(status));
    }
}
