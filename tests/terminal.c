#include "tests/terminal.h"

#include <errno.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Until the last one who has the terminal open has closed it, which reads as EIO. */
static char *read_all(int fd)
{
    char *text = NULL;
    size_t len = 0;
    ssize_t got = 0;
    do {
        char *more = realloc(text, len + 4097);
        if (!more) {
            hf_test_fail("out of memory");
            break;
        }
        text = more;
        got = read(fd, text + len, 4096);
        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
    } while (got > 0 || (got < 0 && errno == EINTR));
    return text;
}

static int wait_for(pid_t pid)
{
    int how = 0;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(how) ? HF_TEST_SIGNALLED + WTERMSIG(how) : WEXITSTATUS(how);
}

const char *hf_test_on_terminal(const char *const *argv, int *code)
{
    static const struct winsize size = {.ws_row = 24, .ws_col = 120};
    int fd = -1;
    *code = -1;
    pid_t pid = forkpty(&fd, NULL, NULL, &size);
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid < 0) {
        hf_test_fail("no terminal: %s", strerror(errno));
        return "";
    }
    char *text = read_all(fd);
    *code = wait_for(pid);
    close(fd);
    const char *kept = hf_test_format("%s", text ? text : "");
    free(text);
    return kept;
}
