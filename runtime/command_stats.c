/* holdfast stats: how many jobs are due, delayed, in work, processed and dead, in all and in each group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- for people ---- */

static void print_line(const char *name, int64_t count)
{
    if (count < 0) {
        printf("%-12sunknown\n", name);
    } else {
        printf("%-12s%lld\n", name, (long long)count);
    }
}

static void print_total(const hf_counts *counts)
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

static void print_cell(int64_t count)
{
    if (count < 0) {
        printf(" %10s", "unknown");
    } else {
        printf(" %10lld", (long long)count);
    }
}

static void print_row(const char *group, const hf_counts *counts)
{
    print_cell(counts->due);
    print_cell(counts->delayed);
    print_cell(counts->in_work);
    print_cell(counts->processed);
    print_cell(counts->dead);
    if (counts->oldest_due_seconds < 0) {
        printf(" %12s", "unknown");
    } else {
        printf(" %10.3f s", counts->oldest_due_seconds);
    }
    printf("  %s\n", group ? group : "(no group)");
}

/* The groups last, because a name may be of any length. */
static void print_groups(const hf_group_counts *groups)
{
    printf("\n %10s %10s %10s %10s %10s %12s  group\n", "due", "delayed", "in work", "processed", "dead", "oldest due");
    for (size_t i = 0; i < hf_group_counts_count(groups); i++) {
        const char *group = NULL;
        hf_counts counts = HF_COUNTS_INIT;
        if (hf_group_counts_at(groups, i, &group, &counts)) {
            print_row(group, &counts);
        }
    }
}

/* Without the group role there is one entry, which repeats the total. */
static bool has_groups(const hf_group_counts *groups)
{
    const char *group = NULL;
    hf_counts counts = HF_COUNTS_INIT;
    return hf_group_counts_count(groups) > 1 || (hf_group_counts_at(groups, 0, &group, &counts) && group);
}

/* ---- for programs ---- */

/* What cannot be known from outside is null. */
static json_t *number(int64_t count)
{
    return count < 0 ? json_null() : json_integer((json_int_t)count);
}

static json_t *counts_json(const hf_counts *counts)
{
    json_t *oldest = counts->oldest_due_seconds < 0 ? json_null() : json_real(counts->oldest_due_seconds);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "due", number(counts->due), "delayed", number(counts->delayed), "in_work",
                     number(counts->in_work), "processed", number(counts->processed), "dead", number(counts->dead), "oldest_due", oldest);
}

/* What is no UTF-8 cannot stand in JSON: such a name is shown with question marks. */
static json_t *name_json(const char *group)
{
    json_t *name = group ? json_string(group) : json_null();
    if (name || !group) {
        return name;
    }
    char *shown = strdup(group);
    for (char *at = shown; at && *at; at++) {
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    }
    name = shown ? json_string(shown) : NULL;
    free(shown);
    return name;
}

static json_t *groups_json(const hf_group_counts *groups)
{
    json_t *list = json_array();
    for (size_t i = 0; i < hf_group_counts_count(groups); i++) {
        const char *group = NULL;
        hf_counts counts = HF_COUNTS_INIT;
        if (!hf_group_counts_at(groups, i, &group, &counts)) {
            break;
        }
        json_t *entry = counts_json(&counts);
        if (json_object_set_new(entry, "group", name_json(group)) != 0 || json_array_append_new(list, entry) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int print_json(const hf_counts *counts, const hf_group_counts *groups)
{
    json_t *all = counts_json(counts);
    if (json_object_set_new(all, "groups", groups_json(groups)) != 0) {
        json_decref(all);
        all = NULL;
    }
    return hf__command_print_json(all);
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct stats *stats = ctx;
    hf_error err = {0};
    hf_counts counts = HF_COUNTS_INIT;
    hf_group_counts *groups = NULL;
    if (hf_count(runtime, table, &counts, &err) != HF_OK || hf_count_groups(runtime, table, &groups, &err) != HF_OK) {
        return hf__command_fail(&err);
    }
    int code = HF__EXIT_DONE;
    if (stats->json) {
        code = print_json(&counts, groups);
    } else {
        print_total(&counts);
        if (has_groups(groups)) {
            print_groups(groups);
        }
    }
    hf_group_counts_free(groups);
    return hf__command_flush() == HF__EXIT_DONE ? code : HF__EXIT_FAILED;
}

int hf__command_stats(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "Print one JSON object; what cannot be known from outside is null", 2},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = options,
                                     .parser = parse,
                                     .doc =
                                         "Counts the jobs of a table, in all and in each group, and tells the age of the oldest due one.",
                                     .children = children};
    struct stats stats = {0};
    hf__command_parse(&argp, "stats", argc, argv, &stats);
    return hf__target_run(&stats.target, NULL, run, &stats);
}
