/* How "now" is made.
 *
 * The target is CLOCK_MONOTONIC plus the measured offset; on SQLite, and before the first measurement, it is the wall clock. What
 * is answered is the later of the target and a floor that rises from the last answer at half speed. So an offset that steps back
 * slows the answers down until the target has caught up with them, and an offset that steps forward is taken over at once.
 *
 * Two exceptions. The floor begins anew at the first measurement: what the wall clock said before is no measure for the server's
 * time, and slewing away an hour would take two. And a sample that is less certain than what is known, and that does not contradict
 * it, changes nothing: a busy network must not shake a good offset. */
#include "strategies/clock.h"

#include <stdlib.h>
#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_US INT64_C(1000)
#define DUE_NS (60 * NS_PER_SECOND)
#define DRIFT_DIVISOR 10000 /* two clocks drift apart by no more than 100 millionths */
#define SAMPLES 4           /* in a round; the first one also pays for preparing the statement */

enum source { UNMEASURED, SERVER, WALL };

struct hf__clock {
    pthread_mutex_t mutex; /* guards everything below; nothing else is locked under it */
    enum source source;
    int64_t offset_ns;      /* SERVER: its clock minus CLOCK_MONOTONIC */
    int64_t uncertainty_ns; /* of offset_ns, at known_at_ns */
    int64_t known_at_ns;    /* CLOCK_MONOTONIC, when offset_ns was measured */
    int64_t sampled_at_ns;  /* CLOCK_MONOTONIC, when last it was looked at */
    int64_t host_offset_ns;
    bool answered; /* the last answer, at this moment of CLOCK_MONOTONIC: the foot of the floor */
    int64_t answer_ns, answered_at_ns;
};

struct sample {
    int64_t sent_ns, received_ns, server_us;
};

hf_status hf__clock_new(struct hf__clock **out, hf_error *err)
{
    *out = NULL;
    struct hf__clock *clock = calloc(1, sizeof *clock);
    if (clock == NULL) {
        return hf__fail_memory(err);
    }
    int rc = pthread_mutex_init(&clock->mutex, NULL);
    if (rc != 0) {
        free(clock);
        return hf__fail(err, HF_SYSTEM, "a mutex cannot be made (error %d)", rc);
    }
    *out = clock;
    return HF_OK;
}

void hf__clock_free(struct hf__clock *clock)
{
    if (clock != NULL) {
        (void)pthread_mutex_destroy(&clock->mutex);
        free(clock);
    }
}

static int64_t wall_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock and a valid pointer */
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* The target minus CLOCK_MONOTONIC, which reads mono_ns. */
static int64_t target_offset(const struct hf__clock *clock, int64_t mono_ns)
{
    return clock->source == SERVER ? clock->offset_ns : wall_ns() - mono_ns;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* ---- samples ---- */

static bool worse(const struct hf__clock *clock, int64_t offset_ns, int64_t uncertainty_ns, int64_t at_ns)
{
    int64_t known_ns = clock->uncertainty_ns + distance(at_ns, clock->known_at_ns) / DRIFT_DIVISOR;
    return clock->source == SERVER && uncertainty_ns > known_ns && distance(offset_ns, clock->offset_ns) <= uncertainty_ns;
}

void hf__clock_sample(struct hf__clock *clock, int64_t sent_ns, int64_t received_ns, int64_t server_us)
{
    int64_t server_ns;
    if (received_ns < sent_ns || __builtin_mul_overflow(server_us, NS_PER_US, &server_ns) || server_ns < 0) {
        return;
    }
    int64_t uncertainty_ns = (received_ns - sent_ns) / 2;
    int64_t offset_ns = server_ns - (sent_ns + uncertainty_ns);
    int64_t host_ns = wall_ns() - hf__monotonic_ns();

    pthread_mutex_lock(&clock->mutex);
    if (!worse(clock, offset_ns, uncertainty_ns, received_ns)) {
        clock->offset_ns = offset_ns;
        clock->uncertainty_ns = uncertainty_ns;
        clock->known_at_ns = received_ns;
    }
    clock->host_offset_ns = clock->offset_ns - host_ns;
    clock->answered = clock->answered && clock->source == SERVER;
    clock->source = SERVER;
    clock->sampled_at_ns = received_ns;
    pthread_mutex_unlock(&clock->mutex);
}

bool hf__clock_due(struct hf__clock *clock)
{
    int64_t now_ns = hf__monotonic_ns();
    pthread_mutex_lock(&clock->mutex);
    bool due = clock->source == UNMEASURED || (clock->source == SERVER && now_ns - clock->sampled_at_ns >= DUE_NS);
    pthread_mutex_unlock(&clock->mutex);
    return due;
}

/* ---- measuring ---- */

static struct hf__statement server_time[] = {
    [HF__POSTGRES] = {"SELECT clock_timestamp()", 0},
    [HF__MYSQL] = {"SELECT UTC_TIMESTAMP(6)", 0},
    [HF__SQLITE] = {NULL, 0},
};

static void number_statements(void)
{
    for (size_t i = 0; i < sizeof server_time / sizeof server_time[0]; i++) {
        server_time[i].serial = hf__statement_serial();
    }
}

static const struct hf__statement *statement_for(enum hf__database database)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, number_statements);
    return &server_time[database];
}

static hf_status take_sample(struct hf__conn *conn, struct hf__rows *rows, struct hf__deadline deadline, struct sample *out, hf_error *err)
{
    const struct hf__statement *statement = statement_for(conn->server.database);
    out->sent_ns = hf__monotonic_ns();
    hf_status status = hf__conn_run(conn, statement, NULL, 0, rows, deadline, err);
    out->received_ns = hf__monotonic_ns();
    if (status != HF_OK) {
        return status;
    }
    if (rows->count != 1 || rows->columns != 1 || !hf__value_time(hf__cell(rows, 0, 0), &out->server_us)) {
        return hf__fail(err, HF_DATABASE, "%s did not answer \"%s\" with a time", conn->server.text, statement->sql);
    }
    return HF_OK;
}

static hf_status best_sample(struct hf__conn *conn, struct hf__deadline deadline, struct sample *best, hf_error *err)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = HF_OK;
    for (int i = 0; status == HF_OK && i < SAMPLES; i++) {
        struct sample next = {0, 0, 0};
        status = take_sample(conn, &rows, deadline, &next, err);
        if (i == 0 || next.received_ns - next.sent_ns < best->received_ns - best->sent_ns) {
            *best = next;
        }
    }
    hf__rows_free(&rows);
    return status;
}

static void use_wall_clock(struct hf__clock *clock)
{
    pthread_mutex_lock(&clock->mutex);
    clock->source = WALL;
    pthread_mutex_unlock(&clock->mutex);
}

hf_status hf__clock_measure(struct hf__clock *clock, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    if (!hf__clock_due(clock)) {
        return HF_OK;
    }
    if (conn->server.database == HF__SQLITE) {
        use_wall_clock(clock);
        return HF_OK;
    }
    struct sample best = {0, 0, 0};
    hf_status status = best_sample(conn, deadline, &best, err);
    if (status == HF_OK) {
        hf__clock_sample(clock, best.sent_ns, best.received_ns, best.server_us);
    }
    return status;
}

/* ---- reading ---- */

/* The caller holds the mutex. */
static int64_t answer(struct hf__clock *clock)
{
    int64_t mono_ns = hf__monotonic_ns();
    int64_t now_ns = mono_ns + target_offset(clock, mono_ns);
    if (clock->answered) {
        int64_t floor_ns = clock->answer_ns + (mono_ns - clock->answered_at_ns) / 2;
        now_ns = now_ns > floor_ns ? now_ns : floor_ns;
    }
    clock->answered = true;
    clock->answer_ns = now_ns;
    clock->answered_at_ns = mono_ns;
    return now_ns;
}

int64_t hf__clock_now_us(struct hf__clock *clock)
{
    pthread_mutex_lock(&clock->mutex);
    int64_t now_ns = answer(clock);
    pthread_mutex_unlock(&clock->mutex);
    return now_ns / NS_PER_US;
}

int64_t hf__clock_host_offset_us(struct hf__clock *clock)
{
    pthread_mutex_lock(&clock->mutex);
    int64_t offset_ns = clock->host_offset_ns;
    pthread_mutex_unlock(&clock->mutex);
    return offset_ns / NS_PER_US;
}

struct hf__deadline hf__clock_deadline(struct hf__clock *clock, int64_t us)
{
    int64_t until_ns = 0;
    if (us > 0 && __builtin_mul_overflow(us, NS_PER_US, &until_ns)) {
        return hf__never();
    }

    pthread_mutex_lock(&clock->mutex);
    int64_t now_ns = answer(clock);
    int64_t mono_ns = clock->answered_at_ns;
    int64_t offset_ns = target_offset(clock, mono_ns);
    pthread_mutex_unlock(&clock->mutex);

    if (until_ns <= now_ns) {
        return hf__at_ns(mono_ns);
    }
    /* The target gets there in `by_target`, the floor in twice the way that is left: the first of them is the answer. */
    int64_t by_target = until_ns - (mono_ns + offset_ns);
    int64_t left_ns = until_ns - now_ns;
    int64_t wait_ns = by_target - left_ns > left_ns ? left_ns * 2 : by_target;
    return wait_ns > INT64_MAX - mono_ns ? hf__never() : hf__at_ns(mono_ns + wait_ns);
}
