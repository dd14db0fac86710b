/* Each process has one end of a socket pair. "g" down it lets the process begin, its end of file means that the watching process is
 * gone; "r" up it says that the process claims, its end of file that it has ended. */
#include "bench/fleet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/error.h"

enum { TICK_MS = 100 };

struct process {
    pid_t pid; /* 0: none */
    int fd;    /* -1: ended */
    bool ready;
};

struct bench_fleet {
    struct bench_drain drain;
    bool begun;
    struct process *list;
};

/* ---- in a child ---- */

static void say_ready(void *ctx)
{
    ssize_t sent = send(*(const int *)ctx, "r", 1, MSG_NOSIGNAL); /* the parent's end shows as a stop */
    (void)sent;
}

static void be_child(struct bench_drain drain, struct bench_part *part, int fd)
{
    char go;
    ssize_t got;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* who ends the bench at once ends this, too, though a server may not answer */
    do
        got = read(fd, &go, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1) {
        drain.part = part;
        drain.watched_fd = fd;
        drain.begun = say_ready;
        drain.tick = NULL;
        drain.ctx = &fd;
        bench_drain_run(&drain);
    }
    _exit(0);
}

/* ---- in the parent ---- */

static hf_status fork_one(struct bench_fleet *fleet, size_t i, hf_error *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return hf__fail(err, HF_SYSTEM, "cannot make a socket pair: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t j = 0; j < i; j++)
            close(fleet->list[j].fd);
        close(fds[0]);
        be_child(fleet->drain, &fleet->drain.tally->parts[i], fds[1]);
    }
    int error = errno;
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return hf__fail(err, HF_SYSTEM, "cannot start process %zu of %zu: %s", i + 1, fleet->drain.tally->n_parts, strerror(error));
    }
    fleet->list[i] = (struct process){.pid = pid, .fd = fds[0]};
    return HF_OK;
}

hf_status bench_fleet_fork(const struct bench_drain *drain, struct bench_fleet **out, hf_error *err)
{
    struct bench_fleet *fleet = calloc(1, sizeof *fleet);
    struct process *list = calloc(drain->tally->n_parts, sizeof *list);
    if (!fleet || !list) {
        free(fleet);
        free(list);
        return hf__fail_memory(err);
    }
    fleet->drain = *drain;
    fleet->list = list;
    for (size_t i = 0; i < drain->tally->n_parts; i++)
        list[i].fd = -1;
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < drain->tally->n_parts; i++)
        status = fork_one(fleet, i, err);
    if (status == HF_OK)
        *out = fleet;
    else
        bench_fleet_free(fleet);
    return status;
}

static int reap(struct process *process)
{
    int how = 0;
    if (process->fd >= 0)
        close(process->fd);
    process->fd = -1;
    while (process->pid > 0 && waitpid(process->pid, &how, 0) < 0 && errno == EINTR)
        ;
    process->pid = 0;
    return how;
}

static hf_status ended(struct bench_fleet *fleet, size_t i, hf_error *err)
{
    struct bench_part *part = &fleet->drain.tally->parts[i];
    pid_t pid = fleet->list[i].pid;
    int how = reap(&fleet->list[i]);
    if (WIFSIGNALED(how))
        part->status = hf__fail(&part->err, HF_SYSTEM, "process %ld of the run was killed by signal %d (%s)", (long)pid, WTERMSIG(how),
                                strsignal(WTERMSIG(how)));
    else if (WEXITSTATUS(how) != 0)
        part->status = hf__fail(&part->err, HF_SYSTEM, "process %ld of the run ended with exit status %d", (long)pid, WEXITSTATUS(how));
    if (part->status != HF_OK) {
        bench_tally_stop(fleet->drain.tally);
        *err = part->err;
    }
    return part->status;
}

static void note_ready(struct bench_fleet *fleet)
{
    size_t ready = 0;
    for (size_t i = 0; i < fleet->drain.tally->n_parts; i++)
        ready += fleet->list[i].ready;
    if (fleet->begun || ready < fleet->drain.tally->n_parts)
        return;
    fleet->begun = true;
    if (fleet->drain.begun)
        fleet->drain.begun(fleet->drain.ctx);
}

/* Something came from this process, or it has ended. */
static hf_status listen_to(struct bench_fleet *fleet, size_t i, hf_error *err)
{
    char said;
    ssize_t got = read(fleet->list[i].fd, &said, 1);
    if (got < 0 && errno == EINTR)
        return HF_OK;
    if (got != 1)
        return ended(fleet, i, err);
    fleet->list[i].ready = true;
    note_ready(fleet);
    return HF_OK;
}

static size_t polled(const struct bench_fleet *fleet, struct pollfd *fds)
{
    size_t n = fleet->drain.tally->n_parts, running = 0;
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = fleet->list[i].fd, .events = POLLIN};
        running += fleet->list[i].fd >= 0;
    }
    return running;
}

/* The gravest of two: an error counts more than that something was stopped. */
static void add_status(hf_status *status, hf_status more, hf_error *err, const hf_error *its)
{
    if (more == HF_OK || (*status != HF_OK && (*status != HF_STOPPED || more == HF_STOPPED)))
        return;
    *status = more;
    *err = *its;
}

static hf_status watch(struct bench_fleet *fleet, struct pollfd *fds, hf_error *err)
{
    size_t n = fleet->drain.tally->n_parts;
    hf_status status = HF_OK;
    hf_error its = {.status = HF_OK};
    fds[n] = (struct pollfd){.fd = fleet->drain.watched_fd, .events = POLLIN};
    while (polled(fleet, fds) > 0) {
        if (poll(fds, n + 1, TICK_MS) < 0 && errno != EINTR)
            return hf__fail(err, HF_SYSTEM, "cannot watch the processes of the run: %s", strerror(errno));
        for (size_t i = 0; i < n; i++)
            if (fds[i].fd >= 0 && fds[i].revents)
                add_status(&status, listen_to(fleet, i, &its), err, &its);
        if (fds[n].revents) {
            bench_tally_stop(fleet->drain.tally);
            fds[n].fd = -1;
        }
        if (fleet->drain.tick)
            fleet->drain.tick(fleet->drain.ctx);
    }
    return status;
}

hf_status bench_fleet_run(struct bench_fleet *fleet, hf_error *err)
{
    size_t n = fleet->drain.tally->n_parts;
    struct pollfd *fds = calloc(n + 1, sizeof *fds);
    if (!fds)
        return hf__fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        ssize_t sent = send(fleet->list[i].fd, "g", 1, MSG_NOSIGNAL); /* one that is dead shows when it is watched */
        (void)sent;
    }
    hf_error its = {.status = HF_OK};
    hf_status status = watch(fleet, fds, &its);
    if (status != HF_OK && err)
        *err = its;
    free(fds);
    return status;
}

void bench_fleet_free(struct bench_fleet *fleet)
{
    if (!fleet)
        return;
    for (size_t i = 0; i < fleet->drain.tally->n_parts; i++)
        reap(&fleet->list[i]);
    free(fleet->list);
    free(fleet);
}
