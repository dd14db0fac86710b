/* holdfast check: every fault of server, table and pool, the strategy, and what it costs in connections. */
#include <stdio.h>

#include "runtime/command_common.h"

enum { KEY_WORKERS = HF__KEY_OWN, KEY_POOL, KEY_JSON };

struct check {
    struct hf__target target;
    size_t workers, pool;
    bool json;
};

struct checked {
    const hf_table *table;
    size_t workers;
    hf_findings *findings;
    hf_cost cost;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct check *check = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &check->target;
        return 0;
    case KEY_WORKERS:
        check->workers = hf__option_size(state, "--workers", arg, 1, 10000);
        return 0;
    case KEY_POOL:
        check->pool = hf__option_size(state, "--pool", arg, 1, 100000);
        return 0;
    case KEY_JSON:
        check->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_cost_part(const char *name, size_t connections, bool *first)
{
    if (connections > 0) {
        printf("%s%zu %s", *first ? "" : " + ", connections, name);
        *first = false;
    }
}

static void print_cost(const struct checked *checked)
{
    const hf_cost *cost = &checked->cost;
    bool first = true;
    printf("cost: a delivery in work holds %g connection%s; %zu worker%s need %zu (", cost->held_per_delivery,
           cost->held_per_delivery == 1.0 ? "" : "s", checked->workers, checked->workers == 1 ? "" : "s", cost->pool_size);
    print_cost_part("held", cost->held, &first);
    print_cost_part("claim", cost->claim, &first);
    print_cost_part("settle", cost->settle, &first);
    print_cost_part("renew", cost->renew, &first);
    print_cost_part("listen", cost->listen, &first);
    print_cost_part("handler", cost->handler, &first);
    print_cost_part("spare", cost->spare, &first);
    printf("), at least %zu\n", cost->minimum);
}

static void print_text(const struct checked *checked)
{
    for (size_t i = 0; i < hf_findings_count(checked->findings); i++) {
        printf("%s: %s\n", hf__level_name(hf_findings_level(checked->findings, i)), hf_findings_message(checked->findings, i));
    }
    printf("strategy: %s\n", hf_strategy_name(hf_table_strategy(checked->table)));
    print_cost(checked);
}

static json_t *findings_json(const hf_findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < hf_findings_count(findings); i++) {
        json_t *finding =
            json_pack("{s:s, s:s}", "level", hf__level_name(hf_findings_level(findings, i)), "message", hf_findings_message(findings, i));
        if (json_array_append_new(list, finding) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *cost_json(const hf_cost *cost)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "held_per_delivery", cost->held_per_delivery, "held",
                     (json_int_t)cost->held, "claim", (json_int_t)cost->claim, "settle", (json_int_t)cost->settle, "renew",
                     (json_int_t)cost->renew, "listen", (json_int_t)cost->listen, "handler", (json_int_t)cost->handler, "spare",
                     (json_int_t)cost->spare, "minimum", (json_int_t)cost->minimum, "pool_size", (json_int_t)cost->pool_size);
}

static int print_json(const struct checked *checked)
{
    json_t *all =
        json_pack("{s:s, s:s, s:b, s:I, s:o, s:o}", "table", hf_table_name(checked->table), "strategy",
                  hf_strategy_name(hf_table_strategy(checked->table)), "ok", hf_findings_status(checked->findings) == HF_OK, "workers",
                  (json_int_t)checked->workers, "findings", findings_json(checked->findings), "cost", cost_json(&checked->cost));
    return hf__command_print_json(all);
}

static int run(hf_runtime *runtime, const hf_table *table, void *ctx)
{
    const struct check *check = ctx;
    hf_error err = {0};
    struct checked checked = {.table = table, .workers = check->workers, .cost = HF_COST_INIT};
    if (hf_check(runtime, table, check->workers, &checked.findings, &err) != HF_OK ||
        hf_cost_of(runtime, table, check->workers, &checked.cost, &err) != HF_OK) {
        hf_findings_free(checked.findings);
        return hf__command_fail(&err);
    }
    int code = HF__EXIT_DONE;
    if (check->json) {
        code = print_json(&checked);
    } else {
        print_text(&checked);
    }
    if (hf__command_flush() != HF__EXIT_DONE || hf_findings_status(checked.findings) != HF_OK) {
        code = HF__EXIT_FAILED;
    }
    hf_findings_free(checked.findings);
    return code;
}

int hf__command_check(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"workers", KEY_WORKERS, "N", 0, "The cost for N workers (default 4)", 2},
        {"pool", KEY_POOL, "N", 0, "Is a pool of N connections large enough?", 0},
        {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
        {0},
    };
    static const struct argp_child children[] = {{&hf__target_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Looks for every fault of the server, the table and its index, and says what the strategy costs in "
               "connections. Ends with 1 if anything would keep a worker from starting.",
        .children = children};
    struct check check = {.workers = 4};
    hf__command_parse(&argp, "check", argc, argv, &check);
    hf_runtime_options pool = HF_RUNTIME_OPTIONS_INIT;
    pool.pool_size = check.pool;
    return hf__target_run(&check.target, &pool, run, &check);
}
