/* holdfast requeue: dead letters go back to be run again; prints how many. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/command_common.h"

enum { KEY_ALL = HF__KEY_OWN, KEY_ID, KEY_GROUP, KEY_TO_GROUP, KEY_JSON };

struct requeue {
    struct hf__target target;
    bool all, json;
    const char **ids;
    size_t n_ids;
    const char *group, *to_group;
};

static void add_id(struct requeue *requeue, const char *id, struct argp_state *state)
{
    const char **grown = realloc(requeue->ids, (requeue->n_ids + 1) * sizeof *grown);
    if (!grown) {
        argp_failure(state, HF__EXIT_FAILED, ENOMEM, "--id %s", id);
        return;
    }
    requeue->ids = grown;
    requeue->ids[requeue->n_ids++] = id;
}

static void check(const struct requeue *requeue, const struct argp_state *state)
{
    int ways = requeue->all + (requeue->n_ids > 0) + (requeue->group != NULL);
    if (ways == 0) {
        argp_error(state, "which dead letters? Give --all, or --id ID (may be repeated), or --group GROUP");
    }
    if (ways > 1) {
        argp_error(state, "--all, --id and --group exclude each other");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct requeue *requeue = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &requeue->target;
        return 0;
    case KEY_ALL:
        requeue->all = true;
        return 0;
    case KEY_ID:
        add_id(requeue, hf__argument(arg), state);
        return 0;
    case KEY_GROUP:
        requeue->group = hf__argument(arg);
        return 0;
    case KEY_TO_GROUP:
        requeue->to_group = hf__argument(arg);
        return 0;
    case KEY_JSON:
        requeue->json = true;
        return 0;
    case ARGP_KEY_END:
        check(requeue, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print(const struct requeue *requeue, size_t moved)
{
    if (requeue->json) {
        return hf__command_print_json(json_pack("{s:I}", "moved", (json_int_t)moved));
    }
    printf("%zu\n", moved);
    return HF__EXIT_DONE;
}

/* After a failure the number stands for what was moved before it. */
static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct requeue *requeue = ctx;
    hf_error err = {0};
    size_t moved = 0;
    hf_requeue_options options = HF_REQUEUE_OPTIONS_INIT;
    options.ids = requeue->ids;
    options.n_ids = requeue->n_ids;
    options.group = requeue->group;
    options.to_group = requeue->to_group;
    hf_status status = hf_requeue(runtime, table, &options, &moved, &err);
    int code = status == HF_OK || moved > 0 ? print(requeue, moved) : HF__EXIT_FAILED;
    if (hf__command_flush() != HF__EXIT_DONE) {
        code = HF__EXIT_FAILED;
    }
    return status == HF_OK ? code : hf__command_fail(&err);
}

int hf__command_requeue(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"all", KEY_ALL, NULL, 0, "All dead letters", 2},
        {"id", KEY_ID, "ID", 0, "The dead letter with this id; may be repeated", 0},
        {"group", KEY_GROUP, "GROUP", 0, "Those of this group (where a dead-letter table keeps them)", 0},
        {"to-group", KEY_TO_GROUP, "GROUP", 0,
         "The group that they go back to. Needed where dead letters are a group of the table itself: it does not keep where they came from",
         3},
        {"json", KEY_JSON, NULL, 0, "Print one JSON object: moved", 4},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = options,
                                     .parser = parse,
                                     .doc = "Moves dead letters back to be run again, their attempts counted from 1, and prints how many.",
                                     .children = children};
    struct requeue requeue = {0};
    hf__command_parse(&argp, "requeue", argc, argv, &requeue);
    int code = hf__target_run(&requeue.target, NULL, run, &requeue);
    free(requeue.ids);
    return code;
}
