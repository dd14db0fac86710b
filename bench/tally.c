#include "bench/tally.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/deadline.h"
#include "pool/error.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static bool open_events(struct bench_tally *tally)
{
    tally->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tally->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool opened = tally->done_fd >= 0 && tally->stop_fd >= 0;
    for (size_t i = 0; i < tally->n_parts; i++) {
        tally->parts[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        opened = opened && tally->parts[i].wake_fd >= 0;
    }
    return opened;
}

hf_status bench_tally_make(size_t n_jobs, size_t n_parts, struct bench_tally **out, hf_error *err)
{
    size_t head = aligned(sizeof(struct bench_tally)), parts = aligned(n_parts * sizeof(struct bench_part));
    size_t bytes = head + parts + n_jobs * sizeof(struct bench_job_tally);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return hf__fail_memory(err);
    struct bench_tally *tally = (void *)memory;
    tally->bytes = bytes;
    tally->n_jobs = n_jobs;
    tally->n_parts = n_parts;
    tally->parts = (void *)(memory + head);
    tally->jobs = (void *)(memory + head + parts);
    if (!open_events(tally)) {
        bench_tally_free(tally);
        return hf__fail(err, HF_SYSTEM, "cannot make an eventfd: raise the limit of open files (ulimit -n)");
    }
    *out = tally;
    return HF_OK;
}

static void close_event(int fd)
{
    if (fd >= 0)
        close(fd);
}

void bench_tally_free(struct bench_tally *tally)
{
    if (!tally)
        return;
    for (size_t i = 0; i < tally->n_parts; i++)
        close_event(tally->parts[i].wake_fd);
    close_event(tally->done_fd);
    close_event(tally->stop_fd);
    munmap(tally, tally->bytes);
}

void bench_event(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t)); /* EAGAIN: it is readable, and full */
    (void)written;
}

unsigned bench_tally_begun(struct bench_tally *tally, size_t seq, int64_t now_ns)
{
    struct bench_job_tally *job = &tally->jobs[seq];
    atomic_store(&job->begun_ns, now_ns);
    return atomic_fetch_add(&job->begun, 1) + 1;
}

static void acked(struct bench_tally *tally, struct bench_job_tally *job)
{
    if (atomic_fetch_add(&job->acked, 1) == 0 && atomic_fetch_add(&tally->done, 1) + 1 == tally->n_jobs)
        bench_event(tally->done_fd);
}

void bench_tally_settled(struct bench_tally *tally, size_t seq, hf_outcome outcome, hf_status status)
{
    struct bench_job_tally *job = &tally->jobs[seq];
    long long now = hf__monotonic_ns(), last = atomic_load(&tally->last_ns);
    while (last < now && !atomic_compare_exchange_weak(&tally->last_ns, &last, now))
        ;
    if (status != HF_OK) {
        atomic_fetch_add(&tally->errors, 1);
        if (status == HF_UNKNOWN)
            atomic_fetch_add(&job->unknown, 1);
    } else if (outcome == HF_ACK) {
        acked(tally, job);
    } else {
        atomic_fetch_add(&job->back, 1);
    }
}

void bench_tally_stop(struct bench_tally *tally)
{
    bench_event(tally->stop_fd);
}

bool bench_tally_complete(const struct bench_tally *tally)
{
    return atomic_load(&tally->done) >= tally->n_jobs;
}

size_t bench_tally_duplicates(const struct bench_tally *tally)
{
    size_t duplicates = 0;
    for (size_t i = 0; i < tally->n_jobs; i++) {
        const struct bench_job_tally *job = &tally->jobs[i];
        unsigned begun = atomic_load(&job->begun), acks = atomic_load(&job->acked), fair = 1 + atomic_load(&job->back);
        unsigned runs_over = begun > fair ? begun - fair : 0, acks_over = acks > 1 ? acks - 1 : 0;
        duplicates += runs_over > acks_over ? runs_over : acks_over;
    }
    return duplicates;
}

size_t bench_tally_unknown(const struct bench_tally *tally)
{
    size_t unknown = 0;
    for (size_t i = 0; i < tally->n_jobs; i++)
        unknown += atomic_load(&tally->jobs[i].acked) == 0 && atomic_load(&tally->jobs[i].unknown) > 0;
    return unknown;
}
