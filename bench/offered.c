#include "bench/offered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/session.h"
#include "pool/error.h"
#include "runtime/command_common.h"

enum { CHECKOUT_MS = 10000 };

bool bench_is_sqlite_url(const char *url)
{
    return url && strncmp(url, "sqlite:", 7) == 0;
}

size_t bench_strategies(const char *url, hf_strategy out[3])
{
    size_t n = 0;
    if (!bench_is_sqlite_url(url))
        out[n++] = HF_ROW_LOCK;
    out[n++] = HF_LEASE;
    out[n++] = HF_ADVISORY_LOCK;
    return n;
}

hf_status bench_offered(const struct bench_options *options, hf_error *err)
{
    if (!bench_is_sqlite_url(options->url))
        return HF_OK;
    if (options->strategy == HF_ROW_LOCK)
        return hf__fail(err, HF_UNSUPPORTED,
                        "SQLite has no row locks: a transaction that held a row would hold the whole database. Give --strategy lease or "
                        "advisory");
    if (options->strategy == HF_ADVISORY_LOCK && options->processes > 1)
        return hf__fail(err, HF_UNSUPPORTED,
                        "on SQLite the advisory locks of a file are held by one process: leave --processes %zu out, or give --strategy "
                        "lease",
                        options->processes);
    return HF_OK;
}

bool bench_left_out(const struct bench_options *options, const char *name, hf_status status, const hf_error *err)
{
    if (status != HF_UNSUPPORTED || options->has_strategy)
        return false;
    fprintf(stderr, "%s: %s is left out: %s\n", hf__program, name, err->message);
    return true;
}

/* ---- what the server allows ---- */

static hf_status ask(hf_runtime *runtime, size_t *out, hf_error *err)
{
    char cell[BENCH_CELL] = "";
    hf_connection *connection = NULL;
    hf_status status = hf_checkout(runtime, CHECKOUT_MS, &connection, err);
    if (status == HF_OK) {
        bool postgres = bench_session_database(connection) == BENCH_POSTGRES;
        status = bench_session_query(connection, postgres ? "SHOW max_connections" : "SELECT @@max_connections", cell, err);
    }
    hf_connection_return(connection);
    *out = (size_t)strtoul(cell, NULL, 10);
    return status;
}

hf_status bench_ask_limit(struct bench_options *options, hf_error *err)
{
    hf_runtime *runtime = NULL;
    if (options->max_connections > 0 || !options->url || bench_is_sqlite_url(options->url))
        return HF_OK;
    hf_status status = hf_runtime_open(options->url, NULL, &runtime, err);
    if (status == HF_OK)
        status = ask(runtime, &options->max_connections, err);
    hf_runtime_close(runtime);
    return status;
}
