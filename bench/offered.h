/* What the database offers, and what its server allows. */
#ifndef HF_BENCH_OFFERED_H
#define HF_BENCH_OFFERED_H

#include "bench/options.h"

/* The strategies that this database offers, in the order row_lock, lease, advisory (SQLite has no row lock). Returns how many. */
size_t bench_strategies(const char *url, hf_strategy out[3]);

/* HF_UNSUPPORTED, with the way out, for a strategy that this database does not offer to so many processes. Asks no server; without a URL
 * everything is offered. */
hf_status bench_offered(const struct bench_options *options, hf_error *err);

/* One of several strategies that were not asked for by name, and cannot be had: says on stderr that the others go on without `name`. False
 * where that is not how it ended. An older server may lack what a strategy needs, too. */
bool bench_left_out(const struct bench_options *options, const char *name, hf_status status, const hf_error *err);

/* False without a URL. */
bool bench_is_sqlite_url(const char *url);

/* Sets options->max_connections to what the server allows, where that is not given and a database is named that has a server. Connects. */
hf_status bench_ask_limit(struct bench_options *options, hf_error *err);

#endif
