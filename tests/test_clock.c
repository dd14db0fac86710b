#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "strategies/clock.h"
#include "tests/support.h"

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_SECOND INT64_C(1000000000)
#define YEAR_2020_US INT64_C(1577836800000000) /* what the servers of these tests believe, to be told from the host */

static struct hf__clock *new_clock(void)
{
    struct hf__clock *clock = NULL;
    hf_error err;
    HF_TEST_OK(hf__clock_new(&clock, &err), &err);
    return clock;
}

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void pass_time(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS}, NULL);
}

/* A reading, and the moments of CLOCK_MONOTONIC between which it was taken: checks are exact however slow the machine is. */
struct reading {
    int64_t before_ns, after_ns, us;
};

static struct reading read_clock(struct hf__clock *clock)
{
    struct reading reading;
    reading.before_ns = hf__monotonic_ns();
    reading.us = hf__clock_now_us(clock);
    reading.after_ns = hf__monotonic_ns();
    return reading;
}

static void check_between(int64_t value, int64_t low, int64_t high, const char *what)
{
    if (value < low || value > high) {
        hf_test_fail("%s: %lld is not in %lld to %lld", what, (long long)value, (long long)low, (long long)high);
    }
}

/* The clock shows what a server shows that read server_us at at_ns. */
static void check_shows(struct hf__clock *clock, int64_t at_ns, int64_t server_us)
{
    struct reading r = read_clock(clock);
    check_between(r.us, server_us + (r.before_ns - at_ns) / NS_PER_US - 1, server_us + (r.after_ns - at_ns) / NS_PER_US + 1, "now");
}

/* From one reading to the next time passed at 1 / divisor of its speed. */
static void check_speed(const struct reading *a, const struct reading *b, int64_t divisor)
{
    int64_t least_us = (b->before_ns - a->after_ns) / divisor / NS_PER_US;
    int64_t most_us = (b->after_ns - a->before_ns) / divisor / NS_PER_US;
    check_between(b->us - a->us, least_us - 1, most_us + 1, "microseconds that passed");
}

/* A sample of two microseconds, so certain that each one is believed. */
static void sample_at(struct hf__clock *clock, int64_t at_ns, int64_t server_us)
{
    hf__clock_sample(clock, at_ns - NS_PER_US, at_ns + NS_PER_US, server_us);
}

/* ---- samples ---- */

static void wall_clock_at_first(void)
{
    struct hf__clock *clock = new_clock();
    int64_t before_us = wall_us();
    int64_t us = hf__clock_now_us(clock);
    check_between(us, before_us, wall_us(), "now before the first measurement");
    CU_ASSERT_EQUAL(hf__clock_host_offset_us(clock), 0);
    hf__clock_free(clock);
}

static void first_sample_counts_at_once(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    CU_ASSERT_TRUE(hf__clock_now_us(clock) > YEAR_2020_US); /* years ahead of what the server will say */
    sample_at(clock, at_ns, YEAR_2020_US);
    check_shows(clock, at_ns, YEAR_2020_US);
    hf__clock_free(clock);
}

static void server_read_its_clock_halfway(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    hf__clock_sample(clock, at_ns - 3 * NS_PER_SECOND, at_ns - 1 * NS_PER_SECOND, YEAR_2020_US);
    check_shows(clock, at_ns - 2 * NS_PER_SECOND, YEAR_2020_US);
    hf__clock_free(clock);
}

static void steps_forward_at_once(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    check_shows(clock, at_ns, YEAR_2020_US);
    sample_at(clock, at_ns, YEAR_2020_US + 3600000000);
    check_shows(clock, at_ns, YEAR_2020_US + 3600000000);
    hf__clock_free(clock);
}

static void steps_back_by_slewing(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    struct reading before = read_clock(clock);
    sample_at(clock, at_ns, YEAR_2020_US - 3600000000);
    struct reading after = read_clock(clock);
    CU_ASSERT_TRUE(after.us >= before.us);
    for (int i = 0; i < 3; i++) {
        pass_time(10);
        struct reading later = read_clock(clock);
        check_speed(&after, &later, 2);
        after = later;
    }
    check_speed(&before, &after, 2);
    hf__clock_free(clock);
}

static void slewing_ends(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    (void)hf__clock_now_us(clock);
    sample_at(clock, at_ns, YEAR_2020_US - 10000);
    (void)hf__clock_now_us(clock);
    pass_time(30); /* twice the ten milliseconds, and more */
    check_shows(clock, at_ns, YEAR_2020_US - 10000);
    hf__clock_free(clock);
}

/* Rounding must not make a clock stand still that is read all the time. */
static void slews_under_constant_reading(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    (void)hf__clock_now_us(clock);
    sample_at(clock, at_ns, YEAR_2020_US - 3600000000);
    struct reading first = read_clock(clock);
    struct reading last = first;
    int64_t reads = 0;
    for (; last.after_ns - first.before_ns < 20 * NS_PER_MS; reads++) {
        last = read_clock(clock);
    }
    int64_t least_us = (last.before_ns - first.after_ns) / NS_PER_US / 2;
    int64_t most_us = (last.after_ns - first.before_ns) / NS_PER_US / 2;
    check_between(last.us - first.us, least_us - reads / 1000 - 2, most_us + reads + 2, "half of what passed");
    hf__clock_free(clock);
}

static void uncertain_samples(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    /* Within its own uncertainty of two seconds it does not contradict. */
    hf__clock_sample(clock, at_ns - 2 * NS_PER_SECOND, at_ns + 2 * NS_PER_SECOND, YEAR_2020_US + 1500000);
    check_shows(clock, at_ns, YEAR_2020_US);
    /* Beyond, it does: the server's clock was set. */
    hf__clock_sample(clock, at_ns - 2 * NS_PER_SECOND, at_ns + 2 * NS_PER_SECOND, YEAR_2020_US + 2500000);
    check_shows(clock, at_ns, YEAR_2020_US + 2500000);
    /* And a more certain one always counts. */
    hf__clock_sample(clock, at_ns - NS_PER_SECOND, at_ns + NS_PER_SECOND, YEAR_2020_US + 2600000);
    check_shows(clock, at_ns, YEAR_2020_US + 2600000);
    hf__clock_free(clock);
}

/* An old measurement has drifted, so a new one that is only a little worse replaces it. */
static void certainty_wears_off(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    int64_t hour_ago_ns = at_ns - 3600 * NS_PER_SECOND;
    sample_at(clock, hour_ago_ns, YEAR_2020_US - INT64_C(3600000000));
    hf__clock_sample(clock, at_ns - 100 * NS_PER_MS, at_ns + 100 * NS_PER_MS, YEAR_2020_US + 50000);
    check_shows(clock, at_ns, YEAR_2020_US + 50000);
    hf__clock_free(clock);
}

static void impossible_samples(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    hf__clock_sample(clock, at_ns, at_ns - 1, YEAR_2020_US);
    hf__clock_sample(clock, at_ns, at_ns, -1);
    hf__clock_sample(clock, at_ns, at_ns, INT64_MIN);
    hf__clock_sample(clock, at_ns, at_ns, INT64_MAX);
    CU_ASSERT_TRUE(hf__clock_due(clock));
    sample_at(clock, at_ns, YEAR_2020_US);
    hf__clock_sample(clock, at_ns, at_ns, INT64_MAX);
    check_shows(clock, at_ns, YEAR_2020_US);
    hf__clock_free(clock);
}

static void due_every_minute(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    CU_ASSERT_TRUE(hf__clock_due(clock));
    sample_at(clock, at_ns, YEAR_2020_US);
    CU_ASSERT_FALSE(hf__clock_due(clock));
    sample_at(clock, at_ns - 61 * NS_PER_SECOND, YEAR_2020_US);
    CU_ASSERT_TRUE(hf__clock_due(clock));
    /* A sample that changes nothing is a look at the clock all the same. */
    hf__clock_sample(clock, at_ns - 10 * NS_PER_SECOND, at_ns, YEAR_2020_US);
    CU_ASSERT_FALSE(hf__clock_due(clock));
    hf__clock_free(clock);
}

/* A server's clock is so far ahead of the host's. What passes between the readings of both is no more than this took. */
static void check_host_offset(struct hf__clock *clock, int64_t ahead_us)
{
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, wall_us() + ahead_us);
    int64_t offset_us = hf__clock_host_offset_us(clock);
    int64_t slack_us = (hf__monotonic_ns() - at_ns) / NS_PER_US + 1000000;
    check_between(offset_us, ahead_us - slack_us, ahead_us + slack_us, "the server's clock minus the host's");
}

static void host_offset(void)
{
    struct hf__clock *clock = new_clock();
    check_host_offset(clock, 3600000000);
    check_host_offset(clock, -3600000000);
    hf__clock_free(clock);
}

/* ---- deadlines ---- */

/* wait_ns is right for a clock that was changed at changed_ns and read at once: it may be wrong by the time that has passed since. */
static void check_deadline(struct hf__clock *clock, int64_t changed_ns, int64_t from_now_us, int64_t wait_ns)
{
    struct reading r = read_clock(clock);
    struct hf__deadline deadline = hf__clock_deadline(clock, r.us + from_now_us);
    int64_t slack_ns = hf__monotonic_ns() - changed_ns + 2 * NS_PER_US;
    check_between(deadline.at_ns, r.before_ns + wait_ns - slack_ns, r.after_ns + wait_ns + slack_ns, "deadline");
}

static void deadlines(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    check_deadline(clock, at_ns, 3600000000, 3600 * NS_PER_SECOND);
    sample_at(clock, at_ns, YEAR_2020_US);
    check_deadline(clock, at_ns, 3600000000, 3600 * NS_PER_SECOND);
    CU_ASSERT_TRUE(hf__passed(hf__clock_deadline(clock, YEAR_2020_US)));
    CU_ASSERT_TRUE(hf__passed(hf__clock_deadline(clock, 0)));
    CU_ASSERT_TRUE(hf__passed(hf__clock_deadline(clock, INT64_MIN)));
    CU_ASSERT_EQUAL(hf__clock_deadline(clock, INT64_MAX).at_ns, INT64_MAX);
    CU_ASSERT_EQUAL(hf__clock_deadline(clock, INT64_MAX / 1000 + 1).at_ns, INT64_MAX);
    CU_ASSERT_FALSE(hf__passed(hf__clock_deadline(clock, INT64_MAX / 1000)));
    hf__clock_free(clock);
}

static void deadlines_while_slewing(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    (void)hf__clock_now_us(clock);
    sample_at(clock, at_ns, YEAR_2020_US - 3600000000);
    check_deadline(clock, at_ns, 60000000, 120 * NS_PER_SECOND);      /* still at half speed then */
    check_deadline(clock, at_ns, 36000000000, 39600 * NS_PER_SECOND); /* an hour behind the target, after it has caught up */
    hf__clock_free(clock);
}

static void now_has_come_at_its_deadline(void)
{
    struct hf__clock *clock = new_clock();
    int64_t at_ns = hf__monotonic_ns();
    sample_at(clock, at_ns, YEAR_2020_US);
    int64_t us = hf__clock_now_us(clock) + 10000;
    sample_at(clock, at_ns, YEAR_2020_US - 3600000000);
    struct hf__deadline deadline = hf__clock_deadline(clock, us);
    CU_ASSERT_TRUE(hf__clock_now_us(clock) < us || hf__passed(deadline));
    while (!hf__passed(deadline)) {
        pass_time(1);
    }
    CU_ASSERT_TRUE(hf__clock_now_us(clock) >= us);
    hf__clock_free(clock);
}

/* ---- threads ---- */

enum { READERS = 4, READS = 20000 };

struct readers {
    struct hf__clock *clock;
    _Atomic int64_t latest; /* the latest time that any thread has seen */
    atomic_uint went_back, running;
};

/* What is read after another thread has seen a time must not be before it. */
static void *read_on(void *arg)
{
    struct readers *readers = arg;
    for (int i = 0; i < READS; i++) {
        int64_t seen = atomic_load(&readers->latest);
        int64_t now = hf__clock_now_us(readers->clock);
        if (now < seen) {
            atomic_fetch_add(&readers->went_back, 1);
        }
        while (seen < now && !atomic_compare_exchange_weak(&readers->latest, &seen, now)) {
        }
    }
    atomic_fetch_sub(&readers->running, 1);
    return NULL;
}

static void never_back_for_any_thread(void)
{
    struct readers readers = {.clock = new_clock()};
    pthread_t threads[READERS];
    sample_at(readers.clock, hf__monotonic_ns(), YEAR_2020_US);
    atomic_store(&readers.running, READERS);
    int started = 0;
    for (; started < READERS && pthread_create(&threads[started], NULL, read_on, &readers) == 0; started++) {
    }
    int64_t at_ns = hf__monotonic_ns();
    for (int i = 0; started == READERS && atomic_load(&readers.running) > 0; i++) {
        sample_at(readers.clock, at_ns, YEAR_2020_US + (i % 2 == 0 ? 5000 : -5000) + i % 7);
        (void)hf__clock_due(readers.clock);
        (void)hf__clock_host_offset_us(readers.clock);
        (void)hf__clock_deadline(readers.clock, YEAR_2020_US);
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    hf__clock_free(readers.clock);
    CU_ASSERT_EQUAL(started, READERS);
    CU_ASSERT_EQUAL(atomic_load(&readers.went_back), 0);
}

/* ---- measuring ---- */

/* A server of ours: its clock reads `base_us` at `base_ns`; every answer but the quick one comes late and is an hour off. */
struct fake {
    struct hf__conn conn;
    int64_t base_ns, base_us;
    int calls, quick_call, failing_call;
    struct hf__value answer; /* what it says instead of a time, unless NULL */
    const char *sql;
    uint64_t serial;
};

static hf_status fake_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                          struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    struct fake *fake = (struct fake *)conn;
    (void)values;
    (void)deadline;
    int call = fake->calls++;
    fake->sql = statement->sql;
    fake->serial = statement->serial;
    if (call == fake->failing_call || n != 0) {
        return hf__fail(err, HF_LOST, "the fake connection is gone");
    }
    int64_t us = fake->base_us + (hf__monotonic_ns() - fake->base_ns) / NS_PER_US;
    if (call != fake->quick_call) {
        pass_time(50);
    }
    rows->columns = 1;
    struct hf__value *cells = hf__rows_add(rows);
    if (cells == NULL) {
        return hf__fail_memory(err);
    }
    *cells = fake->answer.type != HF__NULL ? fake->answer : hf__time_us(call == fake->quick_call ? us : us + 3600000000);
    return HF_OK;
}

static const struct hf__driver fake_driver = {.size = sizeof fake_driver, .name = "fake", .run = fake_run};

/* Calls count from 0; NO_CALL: none of them. */
enum { NO_CALL = -1 };

static struct fake new_fake(enum hf__database database, int quick_call, int failing_call, struct hf__value answer)
{
    struct fake fake = {
        .conn = {.driver = &fake_driver, .server = {.database = database, .text = "Fake 1.0"}, .owner = getpid()},
        .base_ns = hf__monotonic_ns(),
        .base_us = YEAR_2020_US,
        .quick_call = quick_call,
        .failing_call = failing_call,
        .answer = answer,
    };
    return fake;
}

/* Whether the quick answer counted. On a busy machine it may take longer than the others, and then one of those counts. */
static bool quickest_counts(enum hf__database database, const char *sql, int quick_call)
{
    struct hf__clock *clock = new_clock();
    struct fake fake = new_fake(database, quick_call, NO_CALL, hf__null());
    hf_error err;
    HF_TEST_OK(hf__clock_measure(clock, &fake.conn, hf__after_ms(10000), &err), &err);
    check_between(fake.calls, 3, 5, "round trips");
    CU_ASSERT_STRING_EQUAL(fake.sql, sql);
    CU_ASSERT_TRUE(fake.serial != 0);
    struct reading shown = read_clock(clock);
    int64_t ahead_us = shown.us - YEAR_2020_US - (shown.before_ns - fake.base_ns) / NS_PER_US;
    CU_ASSERT_TRUE(hf__clock_host_offset_us(clock) < 0);

    int calls = fake.calls;
    HF_TEST_OK(hf__clock_measure(clock, &fake.conn, hf__after_ms(10000), &err), &err);
    CU_ASSERT_EQUAL(fake.calls, calls); /* not due */
    hf__clock_free(clock);
    return ahead_us > -1000000 && ahead_us < 1000000;
}

static void check_measures(enum hf__database database, const char *sql, int quick_call)
{
    bool counts = false;
    for (int i = 0; i < 20 && !counts; i++) {
        counts = quickest_counts(database, sql, quick_call);
    }
    CU_ASSERT_TRUE(counts);
}

static void measures(void)
{
    check_measures(HF__POSTGRES, "SELECT clock_timestamp()", 0);
    check_measures(HF__POSTGRES, "SELECT clock_timestamp()", 2);
    check_measures(HF__MYSQL, "SELECT UTC_TIMESTAMP(6)", 1);
}

static void sqlite_takes_the_wall_clock(void)
{
    struct hf__clock *clock = new_clock();
    struct fake fake = new_fake(HF__SQLITE, 0, NO_CALL, hf__null());
    hf_error err;
    HF_TEST_OK(hf__clock_measure(clock, &fake.conn, hf__never(), &err), &err);
    CU_ASSERT_EQUAL(fake.calls, 0);
    CU_ASSERT_FALSE(hf__clock_due(clock));
    CU_ASSERT_EQUAL(hf__clock_host_offset_us(clock), 0);
    int64_t before_us = wall_us();
    int64_t us = hf__clock_now_us(clock);
    check_between(us, before_us, wall_us(), "now");
    check_deadline(clock, hf__monotonic_ns(), 60000000, 60 * NS_PER_SECOND);
    hf__clock_free(clock);
}

static void failed_measurements(void)
{
    for (int call = 0; call < 3; call++) {
        struct hf__clock *clock = new_clock();
        struct fake fake = new_fake(HF__POSTGRES, 0, call, hf__null());
        hf_error err;
        HF_TEST_STATUS(hf__clock_measure(clock, &fake.conn, hf__never(), &err), HF_LOST, &err);
        CU_ASSERT_TRUE(hf__clock_due(clock));
        CU_ASSERT_TRUE(hf__clock_now_us(clock) > YEAR_2020_US + INT64_C(86400000000)); /* the wall clock still */
        hf__clock_free(clock);
    }
}

static void check_no_time(struct hf__value answer)
{
    struct hf__clock *clock = new_clock();
    struct fake fake = new_fake(HF__MYSQL, 0, NO_CALL, answer);
    hf_error err = {.message = ""};
    HF_TEST_STATUS(hf__clock_measure(clock, &fake.conn, hf__never(), &err), HF_DATABASE, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "Fake 1.0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "UTC_TIMESTAMP(6)"));
    CU_ASSERT_EQUAL(hf__clock_measure(clock, &fake.conn, hf__never(), NULL), HF_DATABASE);
    CU_ASSERT_TRUE(hf__clock_due(clock));
    hf__clock_free(clock);
}

static void answers_that_are_no_time(void)
{
    check_no_time(hf__text("noon"));
    check_no_time(hf__int(3));
}

static void time_as_text(void)
{
    struct hf__clock *clock = new_clock();
    struct fake fake = new_fake(HF__MYSQL, 0, NO_CALL, hf__text("2020-01-01 00:00:00.000000"));
    hf_error err;
    HF_TEST_OK(hf__clock_measure(clock, &fake.conn, hf__never(), &err), &err);
    check_between(hf__clock_now_us(clock), YEAR_2020_US, YEAR_2020_US + 60000000, "now");
    hf__clock_free(clock);
}

/* The servers of the tests run on this host, so their clocks are this host's. */
static void check_server(enum hf__database database)
{
    struct hf__url *url = NULL;
    struct hf__conn *conn = NULL;
    hf_error err;
    const struct hf__session_options options = {.connect_timeout_ms = 30000, .idle_limit_ms = 60000};
    HF_TEST_OK(hf__url_parse(hf_test_url(database), &url, &err), &err);
    HF_TEST_OK(hf__conn_open(url, &options, hf__after_ms(30000), &conn, &err), &err);
    struct hf__clock *clock = new_clock();
    int64_t begun_us = wall_us();
    HF_TEST_OK(hf__clock_measure(clock, conn, hf__after_ms(30000), &err), &err);
    CU_ASSERT_FALSE(hf__clock_due(clock));
    int64_t now_us = hf__clock_now_us(clock);
    int64_t slack_us = wall_us() - begun_us + 1000000; /* no measurement is worse than what it took */
    check_between(hf__clock_host_offset_us(clock), -slack_us, slack_us, "the server's clock minus the host's");
    check_between(now_us - wall_us(), -slack_us, slack_us, "now minus the host's clock");
    hf__clock_free(clock);
    hf__conn_close(conn);
    hf__url_free(url);
}

static void real_servers(void)
{
    for (int database = HF__POSTGRES; database <= HF__SQLITE; database++) {
        if (hf_test_built_with((enum hf__database)database)) {
            check_server((enum hf__database)database);
        }
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"wall_clock_at_first", wall_clock_at_first},
        {"first_sample_counts_at_once", first_sample_counts_at_once},
        {"server_read_its_clock_halfway", server_read_its_clock_halfway},
        {"steps_forward_at_once", steps_forward_at_once},
        {"steps_back_by_slewing", steps_back_by_slewing},
        {"slewing_ends", slewing_ends},
        {"slews_under_constant_reading", slews_under_constant_reading},
        {"uncertain_samples", uncertain_samples},
        {"certainty_wears_off", certainty_wears_off},
        {"impossible_samples", impossible_samples},
        {"due_every_minute", due_every_minute},
        {"host_offset", host_offset},
        {"deadlines", deadlines},
        {"deadlines_while_slewing", deadlines_while_slewing},
        {"now_has_come_at_its_deadline", now_has_come_at_its_deadline},
        {"never_back_for_any_thread", never_back_for_any_thread},
        {"measures", measures},
        {"sqlite_takes_the_wall_clock", sqlite_takes_the_wall_clock},
        {"failed_measurements", failed_measurements},
        {"answers_that_are_no_time", answers_that_are_no_time},
        {"time_as_text", time_as_text},
        {"real_servers", real_servers},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "clock", tests);
}
