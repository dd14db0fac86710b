/* Looking before anything runs: check, the cost, the table's own statements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/admin.h"
#include "runtime/subscription.h"
#include "strategies/findings.h"
#include "strategies/strategy.h"

#define DEFAULT_WORKERS 4

/* ---- check ---- */

struct hf_findings {
    struct hf__findings found;
};

/* A subscription that is all defaults, but for its workers. */
static hf_subscription_options options_of(size_t workers)
{
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.workers = workers;
    return options;
}

static struct hf__cost_input cost_input(const struct hf_runtime *runtime, const struct hf_table *table, hf_subscription_options options)
{
    if (options.workers == 0)
        options.workers = options.transactional && runtime->url->database == HF__SQLITE ? 1 : DEFAULT_WORKERS;
    return hf__cost_input_for(runtime, table, &options);
}

static hf_status check_pool(const struct hf_runtime *runtime, const struct hf__cost_input *input, struct hf__findings *findings)
{
    size_t pool = runtime->options.pool_size;
    struct hf__cost cost = hf__cost_of(input);
    const char *strategy = hf__strategy_kind_name(input->kind);
    if (pool == 0 || pool >= cost.pool_size) {
        return HF_OK;
    }
    if (pool < cost.minimum) {
        return hf__find(
            findings, HF__FINDING_ERROR, HF_INVALID,
            "the pool of %zu is too small: %s needs %zu at least, and %zu for %zu workers: set the pool's size to that, or to 0", pool,
            strategy, cost.minimum, cost.pool_size, input->workers);
    }
    return hf__find(findings, HF__FINDING_WARNING, HF_OK,
                    "the pool of %zu is small: %s needs %zu for %zu workers; %zu of them can have a delivery in work at once", pool,
                    strategy, cost.pool_size, input->workers, hf__cost_workers_within(input, pool));
}

struct check {
    size_t workers;
    struct hf__findings *findings;
};

static hf_status check(struct hf_runtime *runtime, struct hf__conn *conn, const struct hf_table *table, void *ctx, hf_error *err)
{
    const struct check *check = ctx;
    struct hf__cost_input input = cost_input(runtime, table, options_of(check->workers));
    hf_status status = hf__inspect(conn, table, hf__runtime_deadline(runtime), check->findings, err);
    if (status == HF_OK && check_pool(runtime, &input, check->findings) != HF_OK) {
        status = hf__fail_memory(err);
    }
    return status;
}

hf_status hf_check(hf_runtime *runtime, const hf_table *table, size_t workers, hf_findings **out, hf_error *err)
{
    struct hf_findings *findings = calloc(1, sizeof *findings);
    if (!findings) {
        return hf__fail_memory(err);
    }
    struct check ctx = {workers, &findings->found};
    hf_status status = hf__with_admin(runtime, table, check, &ctx, err);
    if (status == HF_OK) {
        *out = findings;
    } else {
        hf_findings_free(findings);
    }
    return status;
}

size_t hf_findings_count(const hf_findings *findings)
{
    return findings ? findings->found.n : 0;
}

hf_log_level hf_findings_level(const hf_findings *findings, size_t i)
{
    enum hf__finding_level level = i < hf_findings_count(findings) ? findings->found.list[i].level : HF__FINDING_INFO;
    switch (level) {
    case HF__FINDING_ERROR:
        return HF_LOG_ERROR;
    case HF__FINDING_WARNING:
        return HF_LOG_WARNING;
    case HF__FINDING_INFO:
        return HF_LOG_INFO;
    }
    return HF_LOG_INFO;
}

const char *hf_findings_message(const hf_findings *findings, size_t i)
{
    return i < hf_findings_count(findings) ? findings->found.list[i].message : NULL;
}

hf_status hf_findings_status(const hf_findings *findings)
{
    return findings ? hf__findings_first_error(&findings->found, NULL) : HF_OK;
}

void hf_findings_free(hf_findings *findings)
{
    if (findings) {
        hf__findings_free(&findings->found);
    }
    free(findings);
}

/* ---- the cost ---- */

hf_status hf_cost_of(hf_runtime *runtime, const hf_table *table, size_t workers, hf_cost *out, hf_error *err)
{
    hf_subscription_options options = options_of(workers);
    return hf_cost_for(runtime, table, &options, out, err);
}

hf_status hf_cost_for(hf_runtime *runtime, const hf_table *table, const hf_subscription_options *options, hf_cost *out, hf_error *err)
{
    hf_subscription_options filled = HF_SUBSCRIPTION_OPTIONS_INIT;
    hf_status status = hf__runtime_usable(runtime, err);
    if (status == HF_OK && options)
        status = hf__copy_options(&filled, sizeof filled, options, "hf_subscription_options", err);
    if (status != HF_OK) {
        return status;
    }
    if (!table) {
        return hf__fail(err, HF_INVALID, "the table is NULL");
    }
    struct hf__cost_input input = cost_input(runtime, table, filled);
    struct hf__cost cost = hf__cost_of(&input);
    hf_cost answer = {
        .held_per_delivery = (double)cost.held_per_delivery,
        .held = cost.held,
        .claim = cost.claim,
        .settle = cost.settle,
        .renew = cost.renew,
        .listen = cost.listen,
        .handler = cost.handler,
        .spare = cost.spare,
        .minimum = cost.minimum,
        .pool_size = cost.pool_size,
        .workers = hf__cost_workers_within(&input, runtime->options.pool_size ? runtime->options.pool_size : cost.pool_size),
    };
    return hf__write_out(out, &answer, sizeof answer, "hf_cost", err);
}

/* ---- the table's own statements ---- */

static void free_statements(char **statements, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(statements[i]);
    }
    free(statements);
}

static char *join(char *const *statements, size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    if (!stream) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        fprintf(stream, "%s;\n", statements[i]);
    }
    bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

hf_status hf_table_ddl(hf_runtime *runtime, const hf_table *table, char **out, hf_error *err)
{
    char **statements = NULL;
    size_t n = 0;
    hf_status status = hf__runtime_usable(runtime, err);
    if (status == HF_OK) {
        status = hf__ddl(table, runtime->url->database, &statements, &n, err);
    }
    if (status != HF_OK) {
        return status;
    }
    *out = join(statements, n);
    free_statements(statements, n);
    return *out ? HF_OK : hf__fail_memory(err);
}

static hf_status run_each(struct hf__conn *conn, char *const *statements, size_t n, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < n; i++) {
        status = hf__conn_exec(conn, statements[i], deadline, err);
    }
    return status;
}

/* In one transaction, so that no half of a table is left behind; on MySQL each such statement commits by itself. */
static hf_status run_statements(struct hf__conn *conn, char *const *statements, size_t n, struct hf__deadline deadline, hf_error *err)
{
    if (conn->server.database == HF__MYSQL) {
        return run_each(conn, statements, n, deadline, err);
    }
    hf_status status = hf__conn_begin(conn, HF__ISOLATION_DEFAULT, HF__IMMEDIATE, deadline, err);
    if (status == HF_OK) {
        status = run_each(conn, statements, n, deadline, err);
    }
    return status == HF_OK ? hf__conn_commit(conn, deadline, err) : status; /* the pool rolls back what is left open */
}

static hf_status create(struct hf_runtime *runtime, struct hf__conn *conn, const struct hf_table *table, void *ctx, hf_error *err)
{
    (void)ctx;
    char **statements = NULL;
    size_t n = 0;
    hf_status status = hf__ddl(table, runtime->url->database, &statements, &n, err);
    if (status == HF_OK) {
        status = run_statements(conn, statements, n, hf__runtime_deadline(runtime), err);
        free_statements(statements, n);
    }
    return status;
}

hf_status hf_table_create(hf_runtime *runtime, const hf_table *table, hf_error *err)
{
    return hf__with_admin(runtime, table, create, NULL, err);
}
