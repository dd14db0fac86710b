#include "bench/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "pool/error.h"

static struct {
    int depth, fd;
    bool came;
    sigset_t before;
} interrupt = {.fd = -1};

hf_status bench_interrupt_begin(hf_error *err)
{
    sigset_t signals;
    if (interrupt.depth++ > 0)
        return HF_OK;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    interrupt.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (interrupt.fd >= 0 && pthread_sigmask(SIG_BLOCK, &signals, &interrupt.before) == 0)
        return HF_OK;
    int error = errno;
    bench_interrupt_end();
    return hf__fail(err, HF_SYSTEM, "cannot wait for signals: %s", strerror(error));
}

bool bench_interrupt_came(void)
{
    struct pollfd fd = {.fd = interrupt.fd, .events = POLLIN};
    if (interrupt.fd >= 0 && poll(&fd, 1, 0) > 0)
        interrupt.came = true;
    return interrupt.came;
}

/* A signal that has come is taken, or it would end the process when the mask is undone. */
void bench_interrupt_end(void)
{
    struct signalfd_siginfo taken;
    if (--interrupt.depth > 0 || interrupt.fd < 0)
        return;
    while (read(interrupt.fd, &taken, sizeof taken) == sizeof taken)
        interrupt.came = true;
    close(interrupt.fd);
    interrupt.fd = -1;
    pthread_sigmask(SIG_SETMASK, &interrupt.before, NULL);
}

int bench_interrupt_fd(void)
{
    return interrupt.fd;
}
