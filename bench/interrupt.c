#include "bench/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/error.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof *signals };

static struct {
    int depth, fd;
    bool came;
    struct sigaction before[SIGNALS];
} interrupt = {.fd = -1};

static void on_signal(int number)
{
    int error = errno;
    ssize_t written = write(interrupt.fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written;
    (void)number;
    errno = error;
}

/* The first of each kind asks for an end in order. After it the kind has its old meaning again: who asks twice does not want to wait for a
 * server that does not answer. */
hf_status bench_interrupt_begin(hf_error *err)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    if (interrupt.depth++ > 0)
        return HF_OK;
    interrupt.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (interrupt.fd < 0) {
        interrupt.depth--;
        return hf__fail(err, HF_SYSTEM, "cannot make an eventfd for signals: %s", strerror(errno));
    }
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++) { /* sigaction fails for no signal that there is */
        sigaction(signals[i], NULL, &interrupt.before[i]);
        bool detached = signals[i] == SIGHUP && interrupt.before[i].sa_handler == SIG_IGN; /* nohup */
        if (!detached)
            sigaction(signals[i], &action, NULL);
    }
    return HF_OK;
}

bool bench_interrupt_came(void)
{
    struct pollfd fd = {.fd = interrupt.fd, .events = POLLIN};
    if (interrupt.fd >= 0 && poll(&fd, 1, 0) > 0)
        interrupt.came = true;
    return interrupt.came;
}

void bench_interrupt_end(void)
{
    if (--interrupt.depth > 0)
        return;
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &interrupt.before[i], NULL);
    (void)bench_interrupt_came();
    close(interrupt.fd);
    interrupt.fd = -1;
}

int bench_interrupt_fd(void)
{
    return interrupt.fd;
}
