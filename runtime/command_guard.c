/* The guard reads a pipe whose other end only `holdfast work` holds. A number on it is a process group to be killed, its negative is
 * one that has ended; the end of the pipe is the death of the process, whatever its cause. */
#include "runtime/command_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static int to_guard = -1;

/* ---- in the guard ---- */

struct groups {
    pid_t *list;
    size_t n, capacity;
};

static bool add(struct groups *groups, pid_t group)
{
    if (groups->n == groups->capacity) {
        size_t capacity = groups->capacity ? groups->capacity * 2 : 64;
        pid_t *grown = reallocarray(groups->list, capacity, sizeof *grown);
        if (!grown) {
            return false;
        }
        groups->list = grown;
        groups->capacity = capacity;
    }
    groups->list[groups->n++] = group;
    return true;
}

static void take_out(struct groups *groups, pid_t group)
{
    for (size_t i = 0; i < groups->n; i++) {
        if (groups->list[i] == group) {
            groups->list[i] = groups->list[--groups->n];
            return;
        }
    }
}

static bool read_message(int fd, pid_t *message)
{
    ssize_t n;
    do {
        n = read(fd, message, sizeof *message);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *message; /* written at once, so read at once */
}

static _Noreturn void guard(int fd)
{
    struct groups groups = {0};
    pid_t message;
    while (read_message(fd, &message)) {
        if (message < 0) {
            take_out(&groups, -message);
        } else if (!add(&groups, message)) {
            _exit(1);
        }
    }
    for (size_t i = 0; i < groups.n; i++) {
        kill(-groups.list[i], SIGKILL);
    }
    _exit(0);
}

/* Out of reach of the signals that are meant for the command, and holding nothing of its but the pipe. */
static _Noreturn void become_guard(int fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_NAME, "holdfast-guard");
    if (setsid() < 0 || dup2(fd, STDIN_FILENO) < 0 || close_range(STDIN_FILENO + 1, ~0U, 0) != 0) {
        _exit(1);
    }
    guard(STDIN_FILENO);
}

/* ---- in the command ---- */

int hf__guard_start(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        become_guard(ends[0]);
    }
    int error = pid < 0 ? errno : 0;
    close(ends[0]);
    if (error) {
        close(ends[1]);
        return error;
    }
    to_guard = ends[1];
    return 0;
}

/* Without its guard, should somebody kill that, the command goes on: it is only less well prepared for its own death. */
static void tell(pid_t message)
{
    while (to_guard >= 0 && write(to_guard, &message, sizeof message) < 0 && errno == EINTR) {
    }
}

void hf__guard_add(pid_t group)
{
    tell(group);
}

void hf__guard_remove(pid_t group)
{
    tell(-group);
}
