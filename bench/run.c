/* A run, from the table to the result. What it does in this order: draws the jobs; forks; opens a second runtime, which makes the table,
 * fills it, lets jobs arrive, counts what is left and drops the table, and of which one connection watches the server; drains; counts. */
#include "bench/run.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/arrivals.h"
#include "bench/collect.h"
#include "bench/fleet.h"
#include "bench/interrupt.h"
#include "bench/observer.h"
#include "bench/offered.h"
#include "bench/progress.h"
#include "bench/raw.h"
#include "pool/deadline.h"
#include "pool/error.h"
#include "runtime/command_common.h"

#define MOST_NS 9e18 /* of an int64_t */
enum { FILL = 1000, SIDE_CONNECTIONS = 3, STALL_SECONDS = 60 };

struct run {
    const struct bench_options *options;
    const struct bench_workload *workload;
    struct bench_tally *tally;
    char name[BENCH_TABLE_NAME];
    hf_table *table;
    hf_runtime *side; /* not the one that is measured */
    struct bench_observer *observer;
    struct bench_fleet *fleet; /* NULL: one process, this one */
    struct bench_arrivals *arrivals;
    struct bench_progress progress;
    bool made; /* the table */
    size_t added;
    int64_t begun_ns;
    hf_status status; /* of what went wrong while it ran */
    hf_error err;
};

static void note(struct run *run, hf_status status, const hf_error *err)
{
    if (status == HF_OK || (run->status != HF_OK && run->status != HF_STOPPED))
        return;
    run->status = status;
    run->err = *err;
}

/* ---- while it runs ---- */

static void on_begun(void *ctx)
{
    struct run *run = ctx;
    hf_error err = {.status = HF_OK};
    run->begun_ns = hf__monotonic_ns();
    bench_progress_begin(&run->progress, "draining", run->workload->n);
    if (run->options->rate <= 0)
        return;
    hf_status status = bench_arrivals_begin(run->side, run->table, run->workload, run->tally, &run->arrivals, &err);
    note(run, status, &err);
    if (status != HF_OK)
        bench_tally_stop(run->tally);
}

/* A row whose lease was lost comes back when that is over, and the next arrival may be far. */
static int64_t stall_ns(const struct run *run)
{
    double gap_seconds = run->options->rate > 0 ? 20 / run->options->rate : 0;
    double batch_ns = (double)run->workload->longest_ns * (double)(run->options->batch > 1 ? run->options->batch : 1);
    return (int64_t)fmin(2 * batch_ns + 1e9 * (STALL_SECONDS + gap_seconds + run->options->lease_seconds), MOST_NS);
}

static void on_tick(void *ctx)
{
    struct run *run = ctx;
    hf_error err = {.status = HF_OK};
    bench_progress_at(&run->progress, atomic_load(&run->tally->done));
    int64_t last_ns = atomic_load(&run->tally->last_ns);
    if (last_ns < run->begun_ns)
        last_ns = run->begun_ns;
    if (run->begun_ns == 0 || run->status != HF_OK || hf__monotonic_ns() - last_ns < stall_ns(run))
        return;
    note(run, hf__fail(&err, HF_TIMEOUT, "no job was settled for %.0f seconds: the run was given up", (double)stall_ns(run) / 1e9), &err);
    bench_tally_stop(run->tally);
}

/* Counting and dropping may take long where the server does not answer. */
static void say_ending(const struct run *run)
{
    if (bench_interrupt_came() && isatty(STDERR_FILENO))
        fprintf(stderr, "%s: interrupted, dropping %s; interrupt again to leave it and end at once\n", hf__program, run->name);
}

/* ---- before ---- */

static struct bench_drain drain_of(struct run *run)
{
    return (struct bench_drain){.options = run->options,
                                .table = run->table,
                                .name = run->name,
                                .tally = run->tally,
                                .part = run->tally->parts,
                                .watched_fd = bench_interrupt_fd(),
                                .begun = on_begun,
                                .tick = on_tick,
                                .ctx = run};
}

static hf_status open_side(struct run *run, hf_error *err)
{
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    options.pool_size = SIDE_CONNECTIONS;
    options.application_name = BENCH_OBSERVER_NAME;
    hf_status status = hf_runtime_open(run->options->url, &options, &run->side, err);
    if (status == HF_OK)
        status = bench_observer_open(run->side, run->name, &run->observer, err);
    return status;
}

static hf_status fill(struct run *run, hf_error *err)
{
    hf_status status = HF_OK;
    size_t total = run->options->rate > 0 ? 0 : run->workload->n;
    bench_progress_begin(&run->progress, "filling", total);
    while (status == HF_OK && run->added < total) {
        size_t n = total - run->added < FILL ? total - run->added : FILL;
        if (bench_interrupt_came())
            status = hf__fail(err, HF_STOPPED, "interrupted while the table was filled");
        else
            status = bench_table_add(run->side, run->table, run->workload, run->added, n, 0, err);
        if (status == HF_OK)
            run->added += n;
        bench_progress_at(&run->progress, run->added);
    }
    bench_progress_end(&run->progress);
    if (status != HF_OK)
        say_ending(run);
    return status;
}

static hf_status make_table(struct run *run, hf_error *err)
{
    hf_status status = bench_table_make(run->side, run->table, err);
    run->made = status == HF_OK;
    return status;
}

/* ---- and after ---- */

static void account(struct run *run, struct bench_result *out, hf_error *err)
{
    bool sampled;
    const struct bench_seen *seen;
    size_t n_seen;
    size_t peak = bench_observer_stop(run->observer, &sampled, &seen, &n_seen);
    note(run, bench_table_left(run->side, run->table, &out->left, err), err);
    bench_collect(run->options, run->tally, run->added, out);
    bench_collect_server(out, run->tally, sampled, peak, seen, n_seen);
}

static hf_status measure(struct run *run, struct bench_result *out, hf_error *err)
{
    struct bench_drain drain = drain_of(run);
    hf_status status = bench_observer_start(run->observer, err);
    if (status != HF_OK)
        return status;
    hf_error drained = {.status = HF_OK};
    if (run->fleet)
        note(run, bench_fleet_run(run->fleet, &drained), &drained);
    else {
        status = bench_drain_run(&drain);
        note(run, status, &drain.part->err);
    }
    note(run, bench_arrivals_end(run->arrivals, &run->added, &drained), &drained);
    run->arrivals = NULL;
    bench_progress_end(&run->progress);
    say_ending(run);
    account(run, out, &drained);
    if (run->status != HF_OK && err)
        *err = run->err;
    return run->status;
}

static hf_status all(struct run *run, struct bench_result *out, hf_error *err)
{
    hf_status status = open_side(run, err);
    if (status != HF_OK)
        return status;
    bench_collect_place(out, bench_observer_database(run->observer), bench_observer_version(run->observer));
    status = make_table(run, err);
    if (status == HF_OK)
        status = fill(run, err);
    if (status == HF_OK)
        status = measure(run, out, err);
    return status;
}

/* The table goes in any case; that it could not is worth saying when nothing worse happened. */
static hf_status drop(struct run *run, hf_status status, hf_error *err)
{
    hf_error its = {.status = HF_OK};
    if (!run->made || bench_table_drop(run->side, run->table, &its) == HF_OK)
        return status;
    if (status == HF_OK || status == HF_STOPPED)
        return hf__fail(err, HF_DATABASE, "the table %s could not be dropped, drop it yourself: %s", run->name, its.message);
    hf__fail_context(err, "the table %s could not be dropped, drop it yourself", run->name);
    return status;
}

static hf_status close_run(struct run *run, hf_status status, hf_error *err)
{
    bench_fleet_free(run->fleet); /* first: no process works on the table when it goes */
    bench_observer_close(run->observer);
    status = drop(run, status, err);
    hf_runtime_close(run->side);
    hf_table_free(run->table);
    bench_tally_free(run->tally);
    return status;
}

static hf_status run_ours(const struct bench_options *options, const struct bench_workload *workload, struct bench_result *out,
                          hf_error *err)
{
    struct run run = {.options = options, .workload = workload};
    size_t processes = bench_processes(options);
    bench_table_name(run.name);
    hf_status status = bench_tally_make(workload->n, processes, &run.tally, err);
    if (status == HF_OK)
        status = bench_table_describe(options, run.name, &run.table, err);
    if (status == HF_OK && processes > 1) {
        struct bench_drain drain = drain_of(&run);
        status = bench_fleet_fork(&drain, &run.fleet, err);
    }
    if (status == HF_OK)
        status = all(&run, out, err);
    return close_run(&run, status, err);
}

/* ---- the hand-written loop ---- */

static hf_status run_theirs(const struct bench_options *options, const struct bench_workload *workload, size_t connections,
                            double *jobs_per_second, hf_error *err)
{
    struct run run = {.options = options, .workload = workload};
    bench_table_name(run.name);
    hf_status status = bench_table_describe(options, run.name, &run.table, err);
    if (status == HF_OK)
        status = open_side(&run, err);
    if (status == HF_OK)
        status = make_table(&run, err);
    if (status == HF_OK)
        status = fill(&run, err);
    struct bench_raw_input input = {options, run.name, workload, connections, bench_interrupt_fd()};
    struct bench_raw_output output = {.lost = workload->n};
    size_t left = 0;
    if (status == HF_OK)
        status = bench_raw_run(&input, &output, err);
    *jobs_per_second = output.jobs_per_second;
    if (status == HF_OK)
        status = bench_table_left(run.side, run.table, &left, err);
    if (status == HF_OK && (output.lost > 0 || output.duplicates > 0 || left > 0))
        status = hf__fail(err, HF_DATABASE, "the hand-written loop lost %zu jobs, ran %zu twice and left %zu rows", output.lost,
                          output.duplicates, left);
    return close_run(&run, status, err);
}

/* ---- both ---- */

/* A B A B: what the machine does meanwhile meets both. The result of the last round of ours stays. */
static hf_status rounds(const struct bench_options *options, const struct bench_workload *workload, struct bench_result *out, hf_error *err)
{
    struct bench_raw raw = {.measured = true};
    size_t wanted = options->raw ? (options->rounds > 0 ? options->rounds : 3) : 1;
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < wanted; i++) {
        bench_result_free(out);
        status = run_ours(options, workload, out, err);
        if (status != HF_OK || !options->raw)
            break;
        raw.ours[i] = out->jobs_per_second;
        status = run_theirs(options, workload, out->pool_size, &raw.theirs[i], err);
        raw.rounds = i + (status == HF_OK);
    }
    if (raw.rounds > 0) {
        bench_collect_raw(&raw);
        out->raw = raw;
    }
    return status;
}

static hf_status rounds_or_interrupt(const struct bench_options *options, const struct bench_workload *workload, struct bench_result *out,
                                     hf_error *err)
{
    hf_status status = bench_interrupt_begin(err);
    if (status != HF_OK)
        return status;
    status = rounds(options, workload, out, err);
    size_t jobs = out->jobs > 0 ? out->jobs : workload->n; /* those that had come */
    if (status == HF_STOPPED && bench_interrupt_came())
        hf__fail(err, HF_STOPPED,
                 out->done < workload->n ? "interrupted when %zu of %zu jobs were done"
                                         : "interrupted in the hand-written loop, with %zu of %zu of ours done",
                 out->done, jobs);
    bench_interrupt_end();
    return status;
}

hf_status bench_run(const struct bench_options *options, struct bench_result *out, hf_error *err)
{
    struct bench_workload workload = {.n = 0};
    struct bench_options all_options = *options;
    all_options.workers = options->workers > 0 ? options->workers : 4;
    *out = (struct bench_result){.n_purposes = 0};
    hf_status status = bench_offered(&all_options, err);
    if (status == HF_OK)
        status = bench_workload_make(&all_options, &workload, err);
    if (status != HF_OK)
        return status;
    status = rounds_or_interrupt(&all_options, &workload, out, err);
    bench_workload_free(&workload);
    return status;
}
