/* A result for people. */
#include <stdio.h>

#include "bench/number.h"
#include "bench/result.h"

static void line(const char *name, const char *text)
{
    printf("  %-26s %s\n", name, text);
}

static void number(const char *name, double value, const char *unit)
{
    char text[BENCH_NUMBER_TEXT];
    printf("  %-26s %s%s%s\n", name, bench_number_short(value, text), *unit ? " " : "", unit);
}

static void count(const char *name, size_t value, const char *note)
{
    char text[BENCH_NUMBER_TEXT];
    printf("  %-26s %s%s%s\n", name, bench_number((double)value, 0, text), *note ? " " : "", note);
}

void bench_result_print_shape(FILE *out, const struct bench_result *result)
{
    if (result->processes > 1)
        fprintf(out, " in each of %zu processes", result->processes);
    if (result->batch > 1)
        fprintf(out, ", batches of up to %zu", result->batch);
}

static void print_jobs(const struct bench_result *result)
{
    char done[BENCH_NUMBER_TEXT], jobs[BENCH_NUMBER_TEXT], seconds[BENCH_NUMBER_TEXT], rate[BENCH_NUMBER_TEXT];
    printf("%s %s, %s: %zu worker%s", result->database, result->server_version, hf_strategy_name(result->strategy), result->workers,
           result->workers == 1 ? "" : "s");
    bench_result_print_shape(stdout, result);
    printf(", handler %s ms\n", result->handler ? result->handler : "");
    printf("%s of %s jobs in %s s: %s jobs/s\n", bench_number((double)result->done, 0, done), bench_number((double)result->jobs, 0, jobs),
           bench_number(result->seconds, 2, seconds), bench_number_short(result->jobs_per_second, rate));
}

static void print_times(const char *name, const struct hf__histogram *times)
{
    static const double shares[] = {0.50, 0.95, 0.99};
    char text[4][BENCH_NUMBER_TEXT];
    for (size_t i = 0; i < 3; i++)
        bench_number_short((double)hf__histogram_quantile(times, shares[i]) / 1000, text[i]);
    bench_number_short((double)times->max_us / 1000, text[3]);
    printf("  %-26s p50 %s   p95 %s   p99 %s   max %s\n", name, text[0], text[1], text[2], text[3]);
}

static void print_purposes(const struct bench_result *result)
{
    char seconds[BENCH_NUMBER_TEXT], per_job[BENCH_NUMBER_TEXT];
    double jobs = result->done > 0 ? (double)result->done : 1;
    for (size_t i = 0; i < result->n_purposes; i++) {
        const struct bench_purpose *purpose = &result->purposes[i];
        if (purpose->count > 0 || purpose->seconds > 0)
            printf("    %-24s peak %zu, %s s in total, %s ms a job\n", purpose->name, purpose->peak,
                   bench_number_short(purpose->seconds, seconds), bench_number_short(1000 * purpose->seconds / jobs, per_job));
    }
}

static void print_connections(const struct bench_result *result)
{
    puts(result->processes > 1 ? "Connections: sizes and peaks of one process, times of all" : "Connections");
    count("pool", result->pool_size, "");
    count("most open", result->peak_open, "");
    count("most in use", result->peak_in_use, "");
    if (result->server_sampled)
        count("most seen by the server", result->server_peak, result->processes > 1 ? "from all processes" : "");
    number("held by a delivery", result->held_per_delivery, "on average");
    number("held by all deliveries", result->held_mean, result->processes > 1 ? "on average, in one process" : "on average");
    number("wait for one, p99", result->connection_wait_p99_ms, "ms");
    number("connection out, a job", 1000 * result->seconds_per_job, "ms");
    print_purposes(result);
    number("round trips a job", result->round_trips_per_job, "");
    number("commits a job", result->commits_per_job, "");
}

static void print_model(const struct bench_result *result)
{
    puts("The cost model");
    count("pool", result->model_pool_size, "");
    count("most in use", result->model_peak_in_use, "");
    number("held by a delivery", result->model_held_per_delivery, result->batch > 1 ? "or a batch" : "");
    line("agrees", result->model_holds ? "yes" : "NO");
}

static void print_raw(const struct bench_raw *raw)
{
    char rate[BENCH_NUMBER_TEXT], ratio[BENCH_NUMBER_TEXT], spread[BENCH_NUMBER_TEXT];
    if (!raw->measured)
        return;
    printf("Beside the hand-written loop, medians of %zu rounds\n", raw->rounds);
    printf("  %-26s %s jobs/s\n", "holdfast", bench_number_short(raw->ours_per_second, rate));
    printf("  %-26s %s jobs/s\n", "the loop", bench_number_short(raw->jobs_per_second, rate));
    printf("  %-26s %s +- %s%s\n", "holdfast over the loop", bench_number(raw->ratio, 3, ratio), bench_number(raw->spread, 3, spread),
           raw->indistinguishable ? ": indistinguishable" : "");
}

static void print_counts(const struct bench_result *result)
{
    if (result->failed > 0)
        count("runs that failed", result->failed, "");
    if (result->left > 0)
        count("rows left", result->left, "");
    if (result->errors > 0)
        count("SETTLES THAT FAILED", result->errors, "");
    if (result->lost > 0)
        count("LOST", result->lost, "");
    if (result->duplicates > 0)
        count("RUN TWICE", result->duplicates, "");
    if (bench_result_right(result))
        line("lost, run twice", "none");
}

void bench_result_print(const struct bench_result *result)
{
    print_jobs(result);
    print_counts(result);
    puts("Times in ms");
    print_times("due to begun", &result->start);
    print_times("due to settled", &result->latency);
    print_times("begun to settled", &result->delivery);
    print_connections(result);
    print_model(result);
    print_raw(&result->raw);
}
