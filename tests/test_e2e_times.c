/* ctest: timeout=240 labels=e2e
 * Times: from when a delay counts, how long it is, times that a column cannot hold, times of several shapes in one column. */
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/deadline.h"
#include "tests/fleet.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LIMIT_MS 30000
#define DATABASE_CLOCK ", \"clock\": \"database\""

/* ---- case 16: a delay counts from the settle ---- */

#define WORK_MS 1500
#define DELAY_MS 1200

/* The end is noted before the settle, so it is not later than that. */
static hf_outcome works_then_later(hf_delivery *delivery, void *ctx)
{
    size_t run = hf_test_run_begin(ctx, delivery);
    bool first = hf_delivery_attempt(delivery) == 1;
    hf_test_sleep_ms(first ? WORK_MS : 0);
    hf_delivery_set_delay(delivery, DELAY_MS);
    hf_test_run_end(ctx, run);
    return first ? HF_RETRY_AFTER : HF_ACK;
}

static void delay_on(struct hf_test_kind kind, const char *settings)
{
    struct hf_test_jobs *jobs = malloc(sizeof *jobs);
    CU_ASSERT_PTR_NOT_NULL_FATAL(jobs);
    hf_test_jobs_open_shape(jobs, kind, 30, (struct hf_test_shape){.settings = settings});
    hf_runtime *runtime = hf_test_jobs_start(jobs, 2, works_then_later, jobs);
    hf_test_jobs_add(jobs, runtime, 2);
    hf_test_wait_for_runs(jobs, 4);
    hf_test_jobs_finish(jobs, runtime); /* the runs are sorted by row and time */
    CU_ASSERT_EQUAL_FATAL(jobs->n_runs, 4);
    for (size_t i = 0; i < 4; i += 2) {
        int64_t waited_ms = (jobs->runs[i + 1].begin_us - jobs->runs[i].end_us) / 1000;
        if (waited_ms < DELAY_MS - 5) { /* the clocks of host and database are told apart to a few milliseconds */
            hf_test_fail("%s%s: it ran again %lld ms after its handler had ended", hf_test_jobs_place(jobs), settings,
                         (long long)waited_ms);
        }
    }
    hf_test_jobs_close(jobs);
    free(jobs);
}

static void delay_by_both_clocks(struct hf_test_kind kind)
{
    delay_on(kind, "");
    if (kind.strategy != HF_LEASE) {
        delay_on(kind, DATABASE_CLOCK);
    }
}

static void a_delay_counts_from_the_settle(void)
{
    hf_test_on_all(delay_by_both_clocks);
}

/* ---- case 73: how long the delays are ---- */

enum { BASE_MS = 400000, CAP_MS = 2500000, EACH = 8, MOST_ATTEMPT = 5 };

static hf_outcome later(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_RETRY_AFTER;
}

/* Row 1 to 8 are at attempt 1, the next eight at 2, and so on. */
static void add_at_attempts(struct hf_test_jobs *jobs)
{
    hf_test_jobs_put(jobs, (hf_job)HF_JOB_INIT, EACH * MOST_ATTEMPT);
    for (int attempt = 2; attempt <= MOST_ATTEMPT; attempt++) {
        hf_test_sql(jobs->url, hf_test_format("UPDATE %s SET attempt = %d WHERE id > %d", jobs->name, attempt, EACH * (attempt - 1)));
    }
}

/* How long a row still waits, by the database's clock. */
static int64_t left_ms(const struct hf_test_jobs *jobs, int64_t id)
{
    static const char *const left[] = {
        [HF__POSTGRES] = "(extract(epoch FROM retry_after - clock_timestamp()) * 1000)::bigint",
        [HF__MYSQL] = "timestampdiff(MICROSECOND, utc_timestamp(6), retry_after) DIV 1000",
        [HF__SQLITE] = "CAST((julianday(retry_after) - julianday('now')) * 86400000 AS INTEGER)",
    };
    return hf_test_query_int(jobs->url,
                             hf_test_format("SELECT %s FROM %s WHERE id = %lld", left[jobs->kind.database], jobs->name, (long long)id));
}

/* base * factor^(attempt - 1), at most the cap, minus up to half at random. */
static void check_delays(const struct hf_test_jobs *jobs, int64_t begun_ms)
{
    static const int64_t documented_ms[MOST_ATTEMPT] = {400000, 800000, 1600000, 2500000, 2500000};
    for (int attempt = 0; attempt < MOST_ATTEMPT; attempt++) {
        int64_t least = INT64_MAX, most = 0;
        for (int i = 1; i <= EACH; i++) {
            int64_t ms = left_ms(jobs, EACH * attempt + i);
            least = ms < least ? ms : least;
            most = ms > most ? ms : most;
        }
        int64_t passed_ms = hf_test_now_ms() - begun_ms;
        if (least < documented_ms[attempt] / 2 - passed_ms - 1000 || most > documented_ms[attempt] + 1000 || most - least < 1000) {
            hf_test_fail("%s: after attempt %d rows wait between %lld and %lld ms", hf_test_jobs_place(jobs), attempt + 1, (long long)least,
                         (long long)most);
        }
    }
}

static void delays_on(struct hf_test_kind kind)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    struct hf_test_jobs *jobs = malloc(sizeof *jobs);
    CU_ASSERT_PTR_NOT_NULL_FATAL(jobs);
    hf_test_jobs_open(jobs, kind, 30);
    add_at_attempts(jobs);
    options.retry_base_ms = BASE_MS;
    options.retry_factor = 2.0;
    options.retry_cap_ms = CAP_MS;
    int64_t begun_ms = hf_test_now_ms();
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, &options, later, jobs, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
    hf_test_wait_for_runs(jobs, EACH * MOST_ATTEMPT);
    hf_test_jobs_stop(jobs, runtime);
    check_delays(jobs, begun_ms);
    CU_ASSERT_EQUAL(jobs->n_runs, EACH * MOST_ATTEMPT);
    hf_test_jobs_close(jobs);
    free(jobs);
}

static void delays_as_documented(void)
{
    hf_test_on_all(delays_on);
}

/* ---- case 14: a time that the column cannot hold ---- */

#define TWENTY_YEARS_MS (INT64_C(20) * 365 * 86400000)

struct far {
    struct hf_test_jobs jobs;
    atomic_int runs, answered;
    hf_status status;
    hf_error err;
};

static hf_outcome in_twenty_years(hf_delivery *delivery, void *ctx)
{
    struct far *far = ctx;
    size_t run = hf_test_run_begin(&far->jobs, delivery);
    if (atomic_fetch_add(&far->runs, 1) == 0) {
        hf_delivery_set_delay(delivery, TWENTY_YEARS_MS);
        far->status = hf_delivery_settle(delivery, HF_RETRY_AFTER, &far->err);
        atomic_store(&far->answered, 1);
    }
    hf_test_run_end(&far->jobs, run);
    return HF_ACK;
}

static bool is_answered(void *arg)
{
    return atomic_load(&((struct far *)arg)->answered);
}

/* The attempt counts, and the row is put off for a while or kept until its lease ends; it may run again. */
static void far_on(struct hf_test_kind kind)
{
    struct far *far = calloc(1, sizeof *far);
    CU_ASSERT_PTR_NOT_NULL_FATAL(far);
    hf_test_jobs_open(&far->jobs, kind, 5);
    hf_test_sql(far->jobs.url,
                hf_test_format("ALTER TABLE %s MODIFY retry_after TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", far->jobs.name));
    hf_runtime *runtime = hf_test_jobs_start(&far->jobs, 1, in_twenty_years, far);
    hf_test_jobs_add(&far->jobs, runtime, 1);
    CU_ASSERT_FATAL(hf_test_wait_until(is_answered, far, LIMIT_MS));
    if (far->status != HF_DATABASE || !strstr(far->err.message, "retry_after")) {
        hf_test_fail("%s: the settle says %s: %s", hf_test_jobs_place(&far->jobs), hf_status_name(far->status), far->err.message);
    }
    hf_test_sql(far->jobs.url, hf_test_format("UPDATE %s SET retry_after = '2020-01-01 00:00:00'", far->jobs.name));
    hf_test_wait_for_runs(&far->jobs, 2);
    hf_test_jobs_finish(&far->jobs, runtime);
    CU_ASSERT_EQUAL_FATAL(far->jobs.n_runs, 2);
    CU_ASSERT_EQUAL(far->jobs.runs[0].attempt, 1);
    CU_ASSERT_EQUAL(far->jobs.runs[1].attempt, 2);
    hf_test_jobs_close(&far->jobs);
    free(far);
}

static void further_than_the_column(void)
{
    far_on((struct hf_test_kind){HF__MYSQL, HF_ROW_LOCK});
    far_on((struct hf_test_kind){HF__MYSQL, HF_LEASE});
    far_on((struct hf_test_kind){HF__MYSQL, HF_ADVISORY_LOCK});
}

/* ---- case 17: text times of several shapes ---- */

struct shape {
    const char *time;
    bool is_time, waits; /* waits: what it says lies ahead */
};

static const struct shape due[] = {
    {"CURRENT_TIMESTAMP", true, false},
    {"strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour')", true, false},
    {"NULL", true, false},
    {"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 minute')", false, false},
    {"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')", false, true},
    {"CAST(strftime('%s', 'now', '-1 hour') AS INTEGER)", false, false},
    {"CAST(strftime('%s', 'now', '+1 hour') AS INTEGER)", false, true},
    {"1000 * CAST(strftime('%s', 'now', '+1 hour') AS INTEGER)", false, true},
    {"julianday('now', '+1 hour')", false, true},
    {"''", false, false},
};

/* Of leases that somebody else writes: one that lies ahead keeps its row, whatever it looks like. */
static const struct shape leases[] = {
    {"NULL", true, false},
    {"CURRENT_TIMESTAMP", true, false},
    {"strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour')", true, false},
    {"strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 hour')", true, true},
    {"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')", false, true},
    {"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-2 days')", false, false},
    {"CAST(strftime('%s', 'now', '+1 hour') AS INTEGER)", false, true},
    {"1000 * CAST(strftime('%s', 'now', '+1 hour') AS INTEGER)", false, true},
    {"julianday('now', '+1 hour')", false, true},
    {"''", false, false},
};

/* A role's column, of a type, with these in it. */
struct shapes {
    const char *column;
    const struct shape *each;
    size_t n;
    hf_strategy strategy;
    bool fifo;
};

static void add_shape(const struct hf_test_jobs *jobs, const struct shapes *shapes, size_t i)
{
    hf_test_sql(jobs->url, hf_test_format("INSERT INTO %s (id, grp, %s) VALUES (%zu, 'g%zu', %s)", jobs->name, shapes->column, i + 1, i,
                                          shapes->each[i].time));
}

static hf_outcome ack(hf_delivery *delivery, void *ctx)
{
    hf_test_run_end(ctx, hf_test_run_begin(ctx, delivery));
    return HF_ACK;
}

/* A column as a producer of somebody else's may have made it: rows without a time are allowed, and numbers stay numbers or become text. */
static struct hf_test_jobs *open_shapes(const struct shapes *shapes, const char *type)
{
    struct hf_test_jobs *jobs = malloc(sizeof *jobs);
    CU_ASSERT_PTR_NOT_NULL_FATAL(jobs);
    struct hf_test_shape shape = {.columns = ", \"group\": \"grp\"", .settings = shapes->fifo ? ", \"fifo\": true" : NULL};
    hf_test_jobs_open_shape(jobs, (struct hf_test_kind){HF__SQLITE, shapes->strategy}, 30, shape);
    hf_test_sql(jobs->url, hf_test_format("DROP TABLE %s", jobs->name));
    hf_test_sql(jobs->url, hf_test_format("CREATE TABLE %s (id INTEGER PRIMARY KEY, payload BLOB, attempt INTEGER NOT NULL DEFAULT 1, "
                                          "grp TEXT, retry_after %s, last_error TEXT, locked_until %s)",
                                          jobs->name, type, type));
    return jobs;
}

/* At the start each of them is refused, with the column and the shape that is wanted. */
static void shape_at_the_start(const struct shapes *shapes, size_t i)
{
    hf_error err = {.status = HF_OK};
    struct hf_test_jobs *jobs = open_shapes(shapes, "TEXT");
    hf_runtime *runtime = hf_test_jobs_runtime(jobs, NULL);
    bool is_time = shapes->each[i].is_time;
    add_shape(jobs, shapes, i);
    HF_TEST_OK(hf_subscribe(runtime, jobs->table, NULL, ack, jobs, NULL, &err), &err);
    hf_status status = hf_runtime_start(runtime, &err);
    if (status != (is_time ? HF_OK : HF_INVALID) ||
        (!is_time && (!strstr(err.message, "YYYY-MM-DD HH:MM:SS") || !strstr(err.message, shapes->column)))) {
        hf_test_fail("%s, %s: %s: %s", hf_test_jobs_place(jobs), shapes->each[i].time, hf_status_name(status), err.message);
    }
    HF_TEST_OK(hf_runtime_close(runtime), NULL);
    hf_test_jobs_close(jobs);
    free(jobs);
}

static void must_be_found(struct hf_test_jobs *jobs, hf_runtime *runtime)
{
    hf_error err = {.status = HF_OK};
    hf_findings *findings = NULL;
    bool found = false;
    HF_TEST_OK(hf_check(runtime, jobs->table, 2, &findings, &err), &err);
    for (size_t i = 0; i < hf_findings_count(findings); i++) {
        found = found || strstr(hf_findings_message(findings, i), "YYYY-MM-DD HH:MM:SS");
    }
    hf_findings_free(findings);
    CU_ASSERT(found);
}

static bool should_run(const struct shape *shape)
{
    return shape->is_time && !shape->waits;
}

/* Those that come later do not run either, early or late; a check finds them. */
static void shapes_later(const struct shapes *shapes, const char *type)
{
    struct hf_test_jobs *jobs = open_shapes(shapes, type);
    hf_runtime *runtime = hf_test_jobs_start(jobs, 2, ack, jobs);
    size_t expected = 0;
    for (size_t i = 0; i < shapes->n; i++) {
        add_shape(jobs, shapes, i);
        expected += should_run(&shapes->each[i]);
    }
    hf_test_wait_for_runs(jobs, expected);
    hf_test_sleep_ms(300); /* time to do wrong */
    must_be_found(jobs, runtime);
    hf_test_jobs_stop(jobs, runtime);
    for (size_t i = 0; i < shapes->n; i++) {
        if (hf_test_runs_of(jobs, (int64_t)i + 1) != should_run(&shapes->each[i])) {
            hf_test_fail("%s, %s %s: %s ran %zu times", hf_test_jobs_place(jobs), shapes->column, type, shapes->each[i].time,
                         hf_test_runs_of(jobs, (int64_t)i + 1));
        }
    }
    hf_test_jobs_close(jobs);
    free(jobs);
}

static void check_shapes(struct shapes shapes)
{
    for (size_t i = 0; i < shapes.n; i++) {
        shape_at_the_start(&shapes, i);
    }
    shapes_later(&shapes, "TEXT");
    shapes_later(&shapes, "DATETIME");
}

static void times_of_other_shapes(void)
{
    check_shapes((struct shapes){"retry_after", due, LENGTH(due), HF_LEASE, false});
    check_shapes((struct shapes){"retry_after", due, LENGTH(due), HF_ADVISORY_LOCK, false});
    check_shapes((struct shapes){"retry_after", due, LENGTH(due), HF_LEASE, true});
}

static void leases_of_other_shapes(void)
{
    check_shapes((struct shapes){"locked_until", leases, LENGTH(leases), HF_LEASE, false});
    check_shapes((struct shapes){"locked_until", leases, LENGTH(leases), HF_LEASE, true});
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"a delay counts from the settle", a_delay_counts_from_the_settle},
        {"delays as documented", delays_as_documented},
        {"further than the column", further_than_the_column},
        {"times of other shapes", times_of_other_shapes},
        {"leases of other shapes", leases_of_other_shapes},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_times", tests);
}
