/* The plan in words: what a person would say who has the numbers before them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/number.h"
#include "bench/offered.h"
#include "bench/plan.h"

#define SHORT_MS 5.0       /* below it the database is most of the work, and grouping claims and settles pays */
#define LONG_MS 30000.0    /* what servers and operators commonly allow to a transaction that stands idle */
#define FEW_CONNECTIONS 25 /* a quarter of what a server allows unless it is set */

static double p99_of(const struct bench_options *options)
{
    return options->handler_p99_ms > 0 ? options->handler_p99_ms : bench_distribution_quantile(&options->handler, 0.99);
}

/* Connections that a strategy which holds one for each delivery would want of the server: a quarter of it is taken as affordable. The
 * advice comes before the speed is measured, so whether the workers that were asked for keep up with a rate, and else how many would, is
 * found with the one that is given or assumed. */
static bool few_are_held(const struct bench_options *options)
{
    double processes = (double)bench_processes(options);
    double most = options->max_connections ? (double)options->max_connections / 4 : FEW_CONNECTIONS;
    if (options->rate / 1000 * bench_distribution_mean(&options->handler) > most) /* so many are in a handler, by Little's law */
        return false;
    struct bench_options these = *options;
    these.strategy = HF_ROW_LOCK;
    struct bench_speed assumed[2];
    bool given = options->claim_ms >= 0;
    bench_speed_given(&these, given ? options->claim_ms : BENCH_ASSUMED_MS, given ? options->settle_ms : BENCH_ASSUMED_MS, assumed);
    if (options->rate > 0 && options->workers > 0 && !bench_plan_keeps_up(&these, options->workers, assumed, 2))
        these.workers = 0;
    size_t workers = bench_plan_workers(&these, assumed, 2);
    return workers > 0 && ((double)workers + 1) * processes <= most;
}

hf_strategy bench_advised(const struct bench_options *options)
{
    bool short_handler = bench_distribution_mean(&options->handler) < SHORT_MS;
    bool row_lock = !bench_is_sqlite_url(options->url) && !short_handler && p99_of(options) < LONG_MS && few_are_held(options);
    return row_lock ? HF_ROW_LOCK : HF_LEASE;
}

/* ---- sentences ---- */

static void number(FILE *out, const char *before, double value, const char *after)
{
    char text[BENCH_NUMBER_TEXT];
    bool whole = value == floor(value);
    fprintf(out, "%s%s%s", before, whole ? bench_number(value, 0, text) : bench_number_short(value, text), after);
}

static void say_which(FILE *out, const struct bench_options *options, hf_strategy advised)
{
    double mean = bench_distribution_mean(&options->handler), p99 = p99_of(options);
    fprintf(out, "%s fits this workload%s: ", hf_strategy_name(advised), advised == options->strategy ? "" : " better");
    if (advised == HF_ROW_LOCK)
        fputs("so few connections are affordable, and a crash then gives the row back at once and uses up no attempt.\n", out);
    else if (bench_is_sqlite_url(options->url))
        fputs("SQLite has no row locks, and a lease takes its one writer only for moments.\n", out);
    else if (p99 >= LONG_MS)
        number(out, "handlers of up to ", p99 / 1000, " s (p99) outlive the limits that servers set on idle transactions.\n");
    else if (mean < SHORT_MS)
        number(out, "with handlers of ", mean, " ms claims and settles are most of the work, and a lease groups them.\n");
    else if (options->max_connections > 0)
        fputs("a connection for each delivery would be more than a quarter of the server's.\n", out);
    else
        fprintf(out, "a connection for each delivery would be more than %d, a quarter of the 100 that servers commonly allow.\n",
                FEW_CONNECTIONS);
    fprintf(out,
            "Where the handler's own writes must commit together with the job, subscribe `transactional`: that holds a connection for "
            "each delivery in every strategy%s.\n",
            bench_is_sqlite_url(options->url) ? ", and SQLite allows one such delivery at a time" : "");
}

static void say_overload(FILE *out, const struct bench_plan *plan)
{
    number(out, "Jobs arrive faster than they can be done: each process does ", plan->model.jobs_per_second, " a second at most. ");
    if (plan->workers_enough > 0)
        fprintf(out, "%zu workers at once would be enough.\n", plan->workers_enough);
    else if (plan->saturated)
        fputs("More workers would not keep up either, because the database sets the pace.\n", out);
    else
        fputs("Whether more workers would is not known: the database still grew faster with the most for which its speed is known.\n", out);
}

/* Of the strategy that was asked for, be it the one that fits or not; so are the crash and the fleet below. */
static void say_cost(FILE *out, const struct bench_options *options, hf_strategy advised, const struct bench_plan *plan)
{
    if (advised == options->strategy)
        fputs("It", out);
    else
        fprintf(out, "As asked, %s: it", hf_strategy_name(options->strategy));
    fprintf(out, " wants a pool of %zu connections (at least %zu) for %zu workers; ", plan->sizes.pool_recommended,
            plan->sizes.pool_minimum, plan->workers);
    number(out, "deliveries hold ", plan->held_mean, " of them on average");
    fprintf(out, ", %zu for 99 %% of the time.\n", plan->held_p99);
    if (plan->sizes.workers_at_once < plan->workers)
        fprintf(out, "On a pool of %zu only %zu of the %zu workers run at once.\n", plan->pool, plan->sizes.workers_at_once, plan->workers);
    if (!plan->model.stable)
        say_overload(out, plan);
}

static void say_crash(FILE *out, const struct bench_options *options)
{
    switch (options->strategy) {
    case HF_ROW_LOCK:
        fputs("Under row_lock a crash gives the rows back at once, and uses up no attempt.\n", out);
        return;
    case HF_ADVISORY_LOCK:
        fputs("Under advisory a crash gives the rows back at once, and uses up an attempt.\n", out);
        return;
    case HF_LEASE:
        fprintf(out, "Under lease a crash gives the rows back when their leases run out, up to %u s later, and uses up an attempt.\n",
                options->lease_seconds ? options->lease_seconds : 30);
        return;
    }
}

/* How many processes of this pool the server has room for. */
static void say_room(FILE *out, size_t fit, size_t overlap)
{
    size_t beside = overlap == SIZE_MAX ? fit / 2 : overlap < fit ? fit - overlap : 0;
    if (beside == 0)
        fputs("No process of this pool fits", out);
    else if (beside == 1)
        fputs("One process of this pool fits", out);
    else
        fprintf(out, "Up to %zu processes of this pool fit", beside);
    if (overlap == 0)
        fputs(", with no room kept for those of an old release during a deploy (--overlap).\n", out);
    else if (overlap == SIZE_MAX)
        fputs(" beside as many of the old release during a deploy.\n", out);
    else
        fprintf(out, " beside %zu of the old release during a deploy.\n", overlap);
}

/* What the server has for the fleet, in processes of this pool. */
static void say_fleet(FILE *out, const struct bench_options *options, const struct bench_plan *plan)
{
    fprintf(out, "The fleet wants %zu connections", plan->fleet_connections);
    if (plan->max_connections == 0) {
        fputs(bench_is_sqlite_url(options->url) ? ": each opens the file, and SQLite sets no limit.\n"
                                                : "; whether the server has them is not known (--max-connections, or name a database).\n",
              out);
        return;
    }
    size_t room = plan->max_connections > plan->reserve ? plan->max_connections - plan->reserve : 0, fit = room / plan->pool;
    fprintf(out, " of the %zu that the server has beside its reserve of %zu: it %s. ", room, plan->reserve,
            plan->fits ? "fits" : "does not fit");
    say_room(out, fit, options->overlap);
    if (!plan->fits && plan->held_per_delivery > 0)
        fputs("A lease holds no connection while a handler runs: the same workers then want a pool of 4.\n", out);
}

static void say_change(FILE *out, const struct bench_options *options, hf_strategy advised, const struct bench_plan *plan)
{
    if (advised == HF_ROW_LOCK) {
        size_t affordable = options->max_connections ? options->max_connections / 4 : FEW_CONNECTIONS;
        fprintf(out, "The answer changes to lease with more than %zu connections in all processes, ", affordable);
        number(out, "handlers beyond ", LONG_MS / 1000, " s, ");
        number(out, "or handlers below ", SHORT_MS, " ms.\n");
    } else if (bench_is_sqlite_url(options->url)) {
        fputs("On SQLite the answer does not change; where its one writer is too slow, or several machines are to share the table, take a "
              "database with a server.\n",
              out);
    } else {
        number(out, "The answer changes to row_lock with handlers between ", SHORT_MS, " ms ");
        number(out, "and ", LONG_MS / 1000, " s and few enough workers: up to a quarter of the server's connections.\n");
    }
    if (plan->saturated && plan->model.database_utilisation > 0.8 && plan->model.worker_utilisation < 0.8)
        fputs("The database sets the pace: more workers would do no more.\n", out);
}

char *bench_advice(const struct bench_options *options, const struct bench_plan *plan)
{
    hf_strategy advised = bench_advised(options);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return NULL;
    say_which(out, options, advised);
    say_cost(out, options, advised, plan);
    say_crash(out, options);
    say_fleet(out, options, plan);
    say_change(out, options, advised, plan);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
