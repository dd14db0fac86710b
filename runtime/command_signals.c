#include "runtime/command_signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "runtime/command_common.h"

static sigset_t stop_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    return signals;
}

int hf__signals_block(void)
{
    sigset_t signals = stop_signals();
    int error = pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (error || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return hf__command_fail_text("signals cannot be blocked: %s", strerror(error ? error : errno));
    }
    return HF__EXIT_DONE;
}

int hf__signals_open(void)
{
    sigset_t signals = stop_signals();
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool hf__readable(int fd, int timeout_ms)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, timeout_ms) > 0;
}
