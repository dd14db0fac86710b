/* holdfast ddl: the statements that make the table; --apply runs them. */
#include <stdio.h>

#include "runtime/command_common.h"

enum { KEY_APPLY = HF__KEY_OWN };

struct ddl {
    struct hf__target target;
    bool apply;
};

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is argp's */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct ddl *ddl = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &ddl->target;
        return 0;
    case KEY_APPLY:
        ddl->apply = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print(hf_runtime *runtime, const hf_table *table)
{
    hf_error err = {0};
    char *sql = NULL;
    if (hf_table_ddl(runtime, table, &sql, &err) != HF_OK) {
        return hf__command_fail(&err);
    }
    fputs(sql, stdout);
    hf_free(sql);
    return hf__command_flush();
}

static int apply(hf_runtime *runtime, const hf_table *table)
{
    hf_error err = {0};
    if (hf_table_create(runtime, table, &err) != HF_OK) {
        return hf__command_fail(&err);
    }
    printf("made table %s\n", hf_table_name(table));
    return hf__command_flush();
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct ddl *ddl = ctx;
    return ddl->apply ? apply(runtime, table) : print(runtime, table);
}

int hf__command_ddl(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"apply", KEY_APPLY, NULL, 0, "Run the statements instead of printing them", 2},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = options,
                                     .parser = parse,
                                     .doc = "Prints the statements that make a table which is right for the description and its database, "
                                            "with the index that claims need.",
                                     .children = children};
    struct ddl ddl = {0};
    hf__command_parse(&argp, "ddl", argc, argv, &ddl);
    return hf__target_run(&ddl.target, NULL, run, &ddl);
}
