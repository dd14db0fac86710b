/* holdfast stats: how many jobs are due, delayed, in work, processed and dead. */
#include <stdio.h>

#include "runtime/command_common.h"

enum { KEY_JSON = HF__KEY_OWN };

struct stats {
    struct hf__target target;
    bool json;
};

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is argp's */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct stats *stats = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &stats->target;
        return 0;
    case KEY_JSON:
        stats->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_line(const char *name, int64_t count)
{
    if (count < 0) {
        printf("%-12sunknown\n", name);
    } else {
        printf("%-12s%lld\n", name, (long long)count);
    }
}

static void print_text(const hf_counts *counts)
{
    print_line("due", counts->due);
    print_line("delayed", counts->delayed);
    print_line("in work", counts->in_work);
    print_line("processed", counts->processed);
    print_line("dead", counts->dead);
    if (counts->oldest_due_seconds < 0) {
        print_line("oldest due", -1);
    } else {
        printf("%-12s%.3f s\n", "oldest due", counts->oldest_due_seconds);
    }
}

/* What cannot be known from outside is null. */
static json_t *number(int64_t count)
{
    return count < 0 ? json_null() : json_integer((json_int_t)count);
}

static int print_json(const hf_counts *counts)
{
    json_t *oldest = counts->oldest_due_seconds < 0 ? json_null() : json_real(counts->oldest_due_seconds);
    json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "due", number(counts->due), "delayed", number(counts->delayed), "in_work",
                            number(counts->in_work), "processed", number(counts->processed), "dead", number(counts->dead),
                            "oldest_due_seconds", oldest);
    return hf__command_print_json(all);
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct stats *stats = ctx;
    hf_error err = {0};
    hf_counts counts = HF_COUNTS_INIT;
    if (hf_count(runtime, table, &counts, &err) != HF_OK) {
        return hf__command_fail(&err);
    }
    int code = HF__EXIT_DONE;
    if (stats->json) {
        code = print_json(&counts);
    } else {
        print_text(&counts);
    }
    return hf__command_flush() == HF__EXIT_DONE ? code : HF__EXIT_FAILED;
}

int hf__command_stats(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "Print one JSON object; what cannot be known from outside is null", 2},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = options, .parser = parse, .doc = "Counts the jobs of a table.", .children = children};
    struct stats stats = {0};
    hf__command_parse(&argp, "stats", argc, argv, &stats);
    return hf__target_run(&stats.target, NULL, run, &stats);
}
