#include "bench/result.h"

#include <math.h>
#include <stdlib.h>

void bench_result_free(struct bench_result *result)
{
    free(result->handler);
    bench_series_free(&result->series);
    *result = (struct bench_result){.n_purposes = 0};
}

bool bench_result_right(const struct bench_result *result)
{
    return result->lost == 0 && result->duplicates == 0 && result->errors == 0;
}

static json_t *times_json(const struct hf__histogram *times)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", (double)hf__histogram_quantile(times, 0.50) / 1000, "p95",
                     (double)hf__histogram_quantile(times, 0.95) / 1000, "p99", (double)hf__histogram_quantile(times, 0.99) / 1000, "max",
                     (double)times->max_us / 1000);
}

static json_t *purposes_json(const struct bench_result *result)
{
    json_t *object = json_object();
    for (size_t i = 0; i < result->n_purposes; i++) {
        const struct bench_purpose *purpose = &result->purposes[i];
        json_t *its = json_pack("{s:I, s:I, s:f}", "peak", (json_int_t)purpose->peak, "count", (json_int_t)purpose->count, "seconds",
                                purpose->seconds);
        if (json_object_set_new(object, purpose->name, its) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Throughput for each connection that is held; where none is, for each that is in use on average. */
static double per_connection(const struct bench_result *result)
{
    double in_use = result->seconds_per_job * result->jobs_per_second;
    return in_use > 0 ? result->jobs_per_second / in_use : 0;
}

static json_t *connections_json(const struct bench_result *result)
{
    json_t *server_peak = result->server_sampled ? json_integer((json_int_t)result->server_peak) : json_null();
    return json_pack("{s:I, s:I, s:I, s:o, s:f, s:f, s:f, s:f, s:I, s:f, s:o}", "pool_size", (json_int_t)result->pool_size, "peak_open",
                     (json_int_t)result->peak_open, "peak_in_use", (json_int_t)result->peak_in_use, "server_peak", server_peak,
                     "held_per_delivery", result->held_per_delivery, "seconds_per_job", result->seconds_per_job,
                     "jobs_per_second_per_connection", per_connection(result), "held_mean", result->held_mean, "held_p99",
                     (json_int_t)result->held_p99, "wait_p99_ms", result->connection_wait_p99_ms, "by_purpose", purposes_json(result));
}

static json_t *model_json(const struct bench_result *result)
{
    return json_pack("{s:I, s:I, s:f, s:b}", "pool_size", (json_int_t)result->model_pool_size, "peak_in_use",
                     (json_int_t)result->model_peak_in_use, "held_per_delivery", result->model_held_per_delivery, "holds",
                     result->model_holds);
}

static json_t *rounds_json(const double *rates, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_real(rates[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *raw_json(const struct bench_raw *raw)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:b, s:o, s:o}", "jobs_per_second", raw->jobs_per_second, "ours_per_second",
                     raw->ours_per_second, "ratio", raw->ratio, "spread", raw->spread, "indistinguishable", raw->indistinguishable,
                     "rounds_ours", rounds_json(raw->ours, raw->rounds), "rounds_raw", rounds_json(raw->theirs, raw->rounds));
}

static json_t *jobs_json(const struct bench_result *result)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:s, s:f, s:f}", "database", result->database, "server_version",
                     result->server_version, "strategy", hf_strategy_name(result->strategy), "workers", (json_int_t)result->workers,
                     "processes", (json_int_t)result->processes, "batch", (json_int_t)result->batch, "jobs", (json_int_t)result->jobs,
                     "handler_ms", result->handler_ms, "handler", result->handler ? result->handler : "", "seconds", result->seconds,
                     "jobs_per_second", result->jobs_per_second);
}

static json_t *counts_json(const struct bench_result *result)
{
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "start_ms", times_json(&result->start), "latency_ms",
                     times_json(&result->latency), "delivery_ms", times_json(&result->delivery), "worker_utilisation",
                     result->worker_utilisation, "round_trips_per_job", result->round_trips_per_job, "commits_per_job",
                     result->commits_per_job, "done", (json_int_t)result->done, "failed", (json_int_t)result->failed, "left",
                     (json_int_t)result->left, "lost", (json_int_t)result->lost, "duplicates", (json_int_t)result->duplicates, "errors",
                     (json_int_t)result->errors);
}

json_t *bench_result_json(const struct bench_result *result)
{
    json_t *object = jobs_json(result), *counts = counts_json(result);
    int failed = !object || !counts || json_object_set_new(object, "connections", connections_json(result)) != 0 ||
                 json_object_set_new(object, "model", model_json(result)) != 0 || json_object_update(object, counts) != 0 ||
                 (result->raw.measured && json_object_set_new(object, "raw", raw_json(&result->raw)) != 0);
    json_decref(counts);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}
