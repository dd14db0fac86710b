/* Starting a shell command.
 *
 * The payload is handed over as an unlinked memory file: exact bytes, no writer that could block on a command that never reads, no
 * SIGPIPE. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/command_child.h"

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

int hf__child_input(const void *input, size_t len)
{
    int fd = memfd_create("holdfast payload", MFD_CLOEXEC);
    if (fd >= 0 && (!write_all(fd, input, len) || lseek(fd, 0, SEEK_SET) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    error = error ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error ? error : posix_spawnattr_setsigmask(attributes, &none);
    return error ? error : posix_spawnattr_setsigdefault(attributes, &all);
}

static int set_actions(posix_spawn_file_actions_t *actions, int input)
{
    int error = posix_spawn_file_actions_adddup2(actions, input, STDIN_FILENO);
    return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

static int spawn_prepared(const struct hf__child_request *request, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, pid_t *pid)
{
    char *const argv[] = {"sh", "-c", "--", (char *)request->command, NULL};
    return posix_spawn(pid, "/bin/sh", actions, attributes, argv, request->environment);
}

int hf__child_spawn(const struct hf__child_request *request, int input, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_actions(&actions, input);
        error = error ? error : set_attributes(&attributes);
        error = error ? error : spawn_prepared(request, &actions, &attributes, pid);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}
