/* One list of options; each names the subcommands that take it, and a subcommand's parser is made of those. */
#include "bench/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/result.h"
#include "runtime/command_common.h"

enum {
    KEY_STRATEGY = HF__KEY_OWN,
    KEY_WORKERS,
    KEY_JOBS,
    KEY_POOL,
    KEY_BATCH,
    KEY_PROCESSES,
    KEY_LEASE_SECONDS,
    KEY_HANDLER_MS,
    KEY_RATE,
    KEY_FAIL,
    KEY_RAW,
    KEY_ROUNDS,
    KEY_JSON,
    KEY_HTML,
    KEY_CLAIM_MS,
    KEY_SETTLE_MS,
    KEY_HANDLER_P99_MS,
    KEY_MAX_CONNECTIONS,
    KEY_RESERVE,
    KEY_OVERLAP,
    KEY_OVER
};

enum {
    PLAN = BENCH_OPTIONS_PLAN,
    RAW = BENCH_OPTIONS_RUN | BENCH_OPTIONS_COMPARE,
    RUNS = RAW | BENCH_OPTIONS_SWEEP | BENCH_OPTIONS_VERIFY,
    ALL = RUNS | PLAN
};

/* Limits that no machine reaches, so that products of them stay small. */
enum { MOST_WORKERS = 100000, MOST_CONNECTIONS = 1000000, MOST_PROCESSES = 10000, MOST_JOBS = 1000000000 };

struct listed {
    int sets;
    struct argp_option option;
};

static const struct listed list[] = {
    {ALL, {"db", HF__KEY_DB, "URL", 0, "The database: postgresql://..., mysql://..., mariadb://... or sqlite:PATH", 1}},
    {ALL,
     {"db-file", HF__KEY_DB_FILE, "FILE", 0,
      "The database's URL is the first line of FILE. Without --db and --db-file it is read from the environment: HOLDFAST_URL", 1}},
    {ALL, {"strategy", KEY_STRATEGY, "STRATEGY", 0, "What holds a row while its handler runs: row_lock, lease or advisory", 2}},
    {ALL, {"workers", KEY_WORKERS, "N", 0, "Handlers that run at once in each process; 4 unless given", 2}},
    {ALL, {"processes", KEY_PROCESSES, "N", 0, "Processes, each with its own workers and pool; 1 unless given", 2}},
    {ALL, {"pool", KEY_POOL, "N", 0, "Connections of each process; what the cost model says unless given", 2}},
    {ALL, {"batch", KEY_BATCH, "N", 0, "Rows that a handler gets at once; 1 unless given", 2}},
    {ALL, {"lease-seconds", KEY_LEASE_SECONDS, "N", 0, "How long a lease holds; 30 unless given", 2}},
    {ALL,
     {"handler-ms", KEY_HANDLER_MS, "TIME", 0,
      "How long a handler takes, in milliseconds: a constant, exp:MEAN, uniform:FROM-TO or file:PATH with one time a line; 0 unless given",
      3}},
    {ALL, {"rate", KEY_RATE, "N", 0, "Jobs arrive at this rate, N a second, at random; a filled table unless given", 3}},
    {RUNS, {"jobs", KEY_JOBS, "N", 0, "Jobs of a run; about ten seconds of work unless given", 3}},
    {RAW, {"fail", KEY_FAIL, "SHARE", 0, "This share of all runs fails and is tried again: 0 to 0.9", 3}},
    {RAW, {"raw", KEY_RAW, NULL, 0, "Also run a hand-written loop over the same statements, in turns with holdfast, and compare", 4}},
    {RAW, {"rounds", KEY_ROUNDS, "N", 0, "Pairs of runs with --raw; 3 unless given", 4}},
    {PLAN, {"handler-p99-ms", KEY_HANDLER_P99_MS, "N", 0, "The 99th percentile of the handler's time, whose mean --handler-ms then is", 5}},
    {PLAN, {"claim-ms", KEY_CLAIM_MS, "N", 0, "How long a claim takes; measured where a database is named, unless given", 5}},
    {PLAN, {"settle-ms", KEY_SETTLE_MS, "N", 0, "How long a settle takes; measured where a database is named, unless given", 5}},
    {PLAN, {"max-connections", KEY_MAX_CONNECTIONS, "N", 0, "What the server allows; asked of --db unless given", 6}},
    {PLAN, {"reserve", KEY_RESERVE, "N", 0, "Connections kept for superusers and other users; 3 unless given", 6}},
    {PLAN,
     {"overlap", KEY_OVERLAP, "N", OPTION_ARG_OPTIONAL,
      "Processes of the old release that still run while the new one starts: N, or as many again as --processes", 6}},
    {BENCH_OPTIONS_SWEEP,
     {"over", KEY_OVER, "WHAT", 0,
      "What is swept: pool (the default; up to --pool, or to what the cost model says) or workers (up to --workers)", 2}},
    {BENCH_OPTIONS_COMPARE, {"html", KEY_HTML, "FILE", 0, "Write one self-contained page with the plots to FILE", 7}},
    {ALL, {"json", KEY_JSON, NULL, 0, "Print JSON", 7}},
};
enum { LISTED = sizeof list / sizeof *list };

static const char *doc_of(enum bench_option_set set)
{
    switch (set) {
    case BENCH_OPTIONS_RUN:
        return "Fills a table of its own, drains it through the library, and prints what that cost in connections.";
    case BENCH_OPTIONS_COMPARE:
        return "Runs every strategy that the database offers and prints them side by side.";
    case BENCH_OPTIONS_SWEEP:
        return "Runs with pools of several sizes and finds the smallest that does 95 % of the best throughput.";
    case BENCH_OPTIONS_PLAN:
        return "Says how many connections a subscription will hold, what pool it wants and what it will do, before it runs.";
    case BENCH_OPTIONS_VERIFY:
        return "Plans, runs, and prints the prediction beside what was measured. Exit status 1 if it was off by more than 10 % (25 % "
               "where the handler does nothing).";
    }
    return "";
}

/* ---- values ---- */

static double real_of(const struct argp_state *state, const char *option, const char *arg, double most)
{
    char *end = NULL;
    double value = strtod(arg, &end);
    bool plain = (*arg >= '0' && *arg <= '9') || *arg == '.';
    if (!plain || end == arg || *end || !isfinite(value) || value > most)
        argp_error(state, "%s takes a number from 0 to %g, not \"%s\"", option, most, arg);
    return value;
}

static hf_strategy strategy_of(const struct argp_state *state, const char *arg)
{
    static const hf_strategy strategies[] = {HF_ROW_LOCK, HF_LEASE, HF_ADVISORY_LOCK};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        if (strcmp(arg, hf_strategy_name(strategies[i])) == 0)
            return strategies[i];
    argp_error(state, "--strategy takes row_lock, lease or advisory, not \"%s\"", arg);
    return HF_LEASE;
}

static void take_handler(const struct argp_state *state, struct bench_options *options, const char *arg)
{
    char *why = NULL;
    bench_distribution_free(&options->handler);
    if (!bench_distribution_parse(arg, &options->handler, &why))
        argp_error(state, "--handler-ms: %s", why ? why : "out of memory");
    free(why);
}

static void take_file(struct bench_options *options, const char *arg)
{
    free(options->url_owned);
    options->url_owned = hf__first_line(hf__argument(arg));
    if (!options->url_owned)
        exit(HF__EXIT_FAILED); /* which has been said */
}

/* ---- contradictions ---- */

static void check_url(const struct argp_state *state, enum bench_option_set set, struct bench_options *options)
{
    const char *url = getenv("HOLDFAST_URL");
    if (options->url && options->url_owned)
        argp_error(state, "--db and --db-file both name the database: give one of them");
    if (options->url_owned)
        options->url = options->url_owned;
    if (!options->url && url && *url)
        options->url = url;
    if (!options->url && set != BENCH_OPTIONS_PLAN)
        argp_error(state, "which database? Give --db URL or --db-file FILE, or set HOLDFAST_URL");
}

static void check_run(const struct argp_state *state, enum bench_option_set set, const struct bench_options *options)
{
    bool one = set == BENCH_OPTIONS_RUN || set == BENCH_OPTIONS_VERIFY;
    if (one && !options->has_strategy)
        argp_error(state, "which strategy? Give --strategy row_lock, lease or advisory (\"compare\" runs them all)");
    if (options->raw && options->processes > 1)
        argp_error(state, "--raw compares within one process: leave --processes out");
    if (options->raw && (options->rate > 0 || options->fail > 0 || options->batch > 1))
        argp_error(state, "--raw drains a filled table of single rows that do not fail: leave --rate, --fail and --batch out");
    if (options->rounds && !options->raw)
        argp_error(state, "--rounds are those of --raw: give both or neither");
}

static void check_plan(const struct argp_state *state, const struct bench_options *options)
{
    double mean = bench_distribution_mean(&options->handler);
    if (options->workers == 0 && options->rate <= 0)
        argp_error(state, "a plan begins with --workers N or with --rate JOBS_PER_SECOND");
    if ((options->claim_ms < 0) != (options->settle_ms < 0))
        argp_error(state, "--claim-ms and --settle-ms belong together: give both, or neither and have them measured on a database");
    if (options->handler_p99_ms >= 0 && options->handler.law != BENCH_CONSTANT)
        argp_error(state, "--handler-ms %s has a 99th percentile already: --handler-p99-ms goes with a plain mean", options->handler.text);
    if (options->handler_p99_ms >= 0 && options->handler_p99_ms < mean)
        argp_error(state, "--handler-p99-ms %g is less than the mean, %g", options->handler_p99_ms, mean);
    if (options->handler_p99_ms > 0 && mean <= 0)
        argp_error(state, "--handler-p99-ms needs the mean: give it with --handler-ms");
}

static void check_rate(const struct argp_state *state, const struct bench_options *options)
{
    static const double least = 1e-6;
    if (options->rate > 0 && options->rate < least)
        argp_error(state, "--rate takes 0 or a number from %g on: fewer jobs a second are none in days", least);
}

static void finish(const struct argp_state *state, enum bench_option_set set, struct bench_options *options)
{
    if (!options->handler.text)
        take_handler(state, options, "0");
    check_url(state, set, options);
    check_rate(state, options);
    if (set == BENCH_OPTIONS_PLAN)
        check_plan(state, options);
    else
        check_run(state, set, options);
    options->rounds = options->rounds ? options->rounds : 3;
}

/* ---- the parser ---- */

struct parsing {
    enum bench_option_set set;
    struct bench_options *options;
};

static bool take_number(int key, const char *arg, const struct argp_state *state, struct bench_options *options)
{
    const struct {
        int key;
        const char *name;
        size_t *into, least, most;
    } sizes[] = {
        {KEY_WORKERS, "--workers", &options->workers, 1, MOST_WORKERS},
        {KEY_JOBS, "--jobs", &options->jobs, 1, MOST_JOBS},
        {KEY_POOL, "--pool", &options->pool, 1, MOST_CONNECTIONS},
        {KEY_BATCH, "--batch", &options->batch, 1, MOST_WORKERS},
        {KEY_PROCESSES, "--processes", &options->processes, 1, MOST_PROCESSES},
        {KEY_ROUNDS, "--rounds", &options->rounds, 1, BENCH_RAW_ROUNDS},
        {KEY_MAX_CONNECTIONS, "--max-connections", &options->max_connections, 1, MOST_CONNECTIONS},
        {KEY_RESERVE, "--reserve", &options->reserve, 0, MOST_CONNECTIONS},
    };
    const struct {
        int key;
        const char *name;
        double *into, most;
    } reals[] = {
        {KEY_RATE, "--rate", &options->rate, 1e9},
        {KEY_FAIL, "--fail", &options->fail, 0.9},
        {KEY_CLAIM_MS, "--claim-ms", &options->claim_ms, 1e9},
        {KEY_SETTLE_MS, "--settle-ms", &options->settle_ms, 1e9},
        {KEY_HANDLER_P99_MS, "--handler-p99-ms", &options->handler_p99_ms, 1e12},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].key == key) {
            *sizes[i].into = hf__option_size(state, sizes[i].name, arg, sizes[i].least, sizes[i].most);
            return true;
        }
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (reals[i].key == key) {
            *reals[i].into = real_of(state, reals[i].name, arg, reals[i].most);
            return true;
        }
    return false;
}

static error_t take_other(int key, char *arg, const struct argp_state *state, struct bench_options *options)
{
    switch (key) {
    case HF__KEY_DB:
        options->url = hf__argument(arg);
        return 0;
    case HF__KEY_DB_FILE:
        take_file(options, arg);
        return 0;
    case KEY_STRATEGY:
        options->strategy = strategy_of(state, arg);
        options->has_strategy = true;
        return 0;
    case KEY_LEASE_SECONDS:
        options->lease_seconds = (unsigned)hf__option_size(state, "--lease-seconds", arg, 1, 86400);
        return 0;
    case KEY_HANDLER_MS:
        take_handler(state, options, arg);
        return 0;
    case KEY_OVERLAP:
        options->overlap = arg ? hf__option_size(state, "--overlap", arg, 0, MOST_PROCESSES) : SIZE_MAX;
        return 0;
    case KEY_OVER:
        if (strcmp(arg, "pool") != 0 && strcmp(arg, "workers") != 0)
            argp_error(state, "--over takes pool or workers, not \"%s\"", arg);
        options->over_workers = strcmp(arg, "workers") == 0;
        return 0;
    case KEY_RAW:
        options->raw = true;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_HTML:
        options->html = hf__argument(arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct parsing *parsing = state->input;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" belongs to no option", arg);
    if (key == ARGP_KEY_END)
        finish(state, parsing->set, parsing->options);
    return take_number(key, arg, state, parsing->options) ? 0 : take_other(key, arg, state, parsing->options);
}

void bench_options_parse(enum bench_option_set set, const char *name, int argc, char **argv, struct bench_options *out)
{
    struct argp_option options[LISTED + 1] = {{0}};
    size_t n = 0;
    for (size_t i = 0; i < LISTED; i++)
        if (list[i].sets & (int)set)
            options[n++] = list[i].option;
    struct argp argp = {.options = options, .parser = parse, .doc = doc_of(set)};
    struct parsing parsing = {set, out};
    *out = (struct bench_options){
        .batch = 1,
        .processes = 1,
        .lease_seconds = 30,
        .claim_ms = -1,
        .settle_ms = -1,
        .handler_p99_ms = -1,
        .reserve = 3, /* PostgreSQL's superuser_reserved_connections */
    };
    hf__command_parse(&argp, name, argc, argv, &parsing);
}

void bench_options_free(struct bench_options *options)
{
    bench_distribution_free(&options->handler);
    if (options->url_owned)
        explicit_bzero(options->url_owned, strlen(options->url_owned));
    free(options->url_owned);
    options->url_owned = NULL;
    options->url = NULL;
}

size_t bench_processes(const struct bench_options *options)
{
    return options->processes ? options->processes : 1;
}

static size_t workers_of(const struct bench_options *options)
{
    return (options->workers ? options->workers : 4) * bench_processes(options);
}

size_t bench_rows_at_once(const struct bench_options *options)
{
    return workers_of(options) * (options->batch > 1 ? options->batch : 1);
}

size_t bench_jobs_at(double jobs_per_second)
{
    static const double run_seconds = 10;
    static const size_t least = 100, most = 100000;
    double jobs = jobs_per_second * run_seconds;
    return jobs < (double)least ? least : jobs > (double)most ? most : (size_t)jobs;
}

size_t bench_jobs(const struct bench_options *options)
{
    static const double database_ms = 0.1;
    if (options->jobs > 0)
        return options->jobs;
    if (options->rate > 0)
        return bench_jobs_at(options->rate);
    double ms = bench_distribution_mean(&options->handler) + database_ms;
    return bench_jobs_at((double)workers_of(options) * 1000 / ms);
}
