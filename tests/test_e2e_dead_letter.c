/* ctest: timeout=420 labels=e2e
 * A settle is cut at every position, one after the other: the row is in exactly one place at every moment, its handler runs again only
 * where the settle did not take effect, and in the end it is where its outcome belongs. */
#include <signal.h>
#include <stdatomic.h>

#include "tests/fleet.h"
#include "tests/proxy.h"
#include "tests/session.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define LEASE_SECONDS 2
#define LIMIT_MS 30000
#define MOST_POSITIONS 60 /* a settle and what follows it are a few; the rest is polling */
#define REASON "it failed"

enum where { NOWHERE, TO_TABLE, TO_GROUP };

/* What its handler says of the row, in its first run and in the others, and where the row is in the end. */
struct fate {
    const char *name;
    hf_outcome first, then;
    enum where dead;
    int max_attempts; /* 0: none */
    int cut_run;      /* the run from whose settle on messages are counted, from 0 */
};

static const struct fate fates[] = {
    {"reject to a table", HF_REJECT, HF_REJECT, TO_TABLE, 0, 0},
    {"reject to a group", HF_REJECT, HF_REJECT, TO_GROUP, 0, 0},
    {"used up, to a table", HF_RETRY, HF_RETRY, TO_TABLE, 2, 1},
    {"used up, to a group", HF_RETRY, HF_RETRY, TO_GROUP, 2, 1},
    {"retry", HF_RETRY, HF_ACK, NOWHERE, 0, 0},
    {"retry_after", HF_RETRY_AFTER, HF_ACK, NOWHERE, 0, 0},
};

struct scene {
    struct hf_test_jobs jobs;
    const struct fate *fate;
    struct hf_test_proxy *proxy;
    hf_runtime *runtime;
    struct hf__conn *outside;
    const char *places;
    enum hf_test_cut cut;
    size_t nth;
    atomic_int runs, acked;
};

static const char *position(const struct scene *scene)
{
    return hf_test_format("%s, %s, %s: %s %zu (%s)", hf__database_name(scene->jobs.kind.database),
                          hf_strategy_name(scene->jobs.kind.strategy), scene->fate->name,
                          scene->cut == HF_TEST_CUT_REQUEST ? "message" : "answer", scene->nth, hf_test_proxy_cut_at(scene->proxy));
}

static hf_outcome handle(hf_delivery *delivery, void *ctx)
{
    struct scene *scene = ctx;
    int run = atomic_fetch_add(&scene->runs, 1);
    hf_outcome outcome = run == 0 ? scene->fate->first : scene->fate->then;
    (void)hf_test_run_begin(&scene->jobs, delivery);
    hf_delivery_set_delay(delivery, 30);
    (void)!hf_delivery_set_reason(delivery, REASON, strlen(REASON));
    if (outcome == HF_ACK) {
        atomic_store(&scene->acked, 1);
    }
    if (run == scene->fate->cut_run) {
        hf_test_proxy_arm(scene->proxy, scene->cut, scene->nth);
    }
    return outcome;
}

/* ---- where the row is ---- */

enum { IN_WORK = 10, DEAD = 1 };

/* One statement, so one moment: tens are rows in the table, ones are dead letters. */
static const char *places(const struct scene *scene)
{
    const char *name = scene->jobs.name;
    switch (scene->fate->dead) {
    case TO_TABLE:
        return hf_test_format("SELECT 10 * (SELECT count(*) FROM %s) + (SELECT count(*) FROM %s_dead)", name, name);
    case TO_GROUP:
        return hf_test_format("SELECT 10 * (SELECT count(*) FROM %s WHERE grp IS NULL OR grp <> 'dead') + "
                              "(SELECT count(*) FROM %s WHERE grp = 'dead')",
                              name, name);
    case NOWHERE:
        break;
    }
    return hf_test_format("SELECT 10 * count(*) FROM %s", name);
}

static bool is_over(void *arg)
{
    struct scene *scene = arg;
    int64_t seen = hf_test_session_int(scene->outside, scene->places);
    bool acked = scene->fate->dead == NOWHERE && atomic_load(&scene->acked);
    if (seen != IN_WORK && !(seen == DEAD && scene->fate->dead != NOWHERE) && !(seen == 0 && acked)) {
        hf_test_fail("%s: there are %lld rows in the table and %lld dead letters", position(scene), (long long)seen / 10,
                     (long long)seen % 10);
    }
    return seen != IN_WORK && hf_test_stat(scene->runtime, "subscription.0.in_work") == 0;
}

/* ---- one position ---- */

/* Which attempt a run reads: row lock counts at the settle, the others when they take the row; and a take whose answer was lost has
 * counted one that never ran. */
static void check_attempts(struct scene *scene)
{
    size_t most = (size_t)scene->fate->cut_run + 2; /* the cut costs one run at most */
    if (scene->fate->dead == NOWHERE ? scene->jobs.n_runs < 2 || scene->jobs.n_runs > 3 : scene->jobs.n_runs > most) {
        hf_test_fail("%s: %zu runs", position(scene), scene->jobs.n_runs);
    }
    bool row_lock = scene->jobs.kind.strategy == HF_ROW_LOCK;
    int64_t slack = 1; /* one cut */
    for (size_t i = 0; i < scene->jobs.n_runs; i++) {
        int64_t attempt = scene->jobs.runs[i].attempt, before = i == 0 ? 0 : scene->jobs.runs[i - 1].attempt;
        int64_t off = row_lock ? before + 1 - attempt : attempt - before - 1;
        slack -= off;
        if (off < 0 || slack < 0) {
            hf_test_fail("%s: run %zu reads attempt %lld after %lld", position(scene), i + 1, (long long)attempt, (long long)before);
        }
    }
}

/* A row whose last settle was lost, and which a claim then found to be past its attempts, has a reason of the library's. */
static void check_dead(struct scene *scene)
{
    const char *where = scene->fate->dead == TO_TABLE ? "_dead" : "";
    const char *reason = scene->fate->max_attempts && hf_test_proxy_has_cut(scene->proxy) ? "IS NOT NULL" : "= '" REASON "'";
    const char *good = hf_test_format("SELECT count(*) FROM %s%s WHERE attempt = 1 AND last_error %s", scene->jobs.name, where, reason);
    if (scene->fate->dead != NOWHERE && hf_test_session_int(scene->outside, good) != 1) {
        hf_test_fail("%s: the dead letter is not at attempt 1 with its reason", position(scene));
    }
}

/* A row's life with one cut. False when nothing was left to cut. */
static bool live(struct scene *scene)
{
    hf_error err = {.status = HF_OK};
    hf_job job = HF_JOB_INIT;
    scene->jobs.n_runs = 0;
    atomic_store(&scene->runs, 0);
    atomic_store(&scene->acked, 0);
    hf_status status = hf_enqueue(scene->runtime, scene->jobs.table, &job, 1, NULL, &err);
    HF_TEST_OK(status, &err);
    if (!hf_test_wait_until(is_over, scene, LIMIT_MS)) {
        hf_test_fail("%s: the row does not come to its end; log: %s", position(scene), scene->jobs.log ? scene->jobs.log : "");
    }
    hf_test_proxy_disarm(scene->proxy);
    check_attempts(scene);
    check_dead(scene);
    hf_test_session_run(scene->outside, hf_test_format("DELETE FROM %s", scene->jobs.name));
    if (scene->fate->dead == TO_TABLE) {
        hf_test_session_run(scene->outside, hf_test_format("DELETE FROM %s_dead", scene->jobs.name));
    }
    return hf_test_proxy_has_cut(scene->proxy);
}

/* ---- all of them ---- */

static void open_scene(struct scene *scene, struct hf_test_kind kind)
{
    const struct fate *fate = scene->fate;
    const char *attempts = fate->max_attempts ? hf_test_format(", \"max_attempts\": %d", fate->max_attempts) : "";
    const char *group = fate->dead == TO_GROUP ? ", \"dead_letter\": { \"group\": \"dead\" }" : "";
    struct hf_test_shape shape = {.columns = fate->dead == TO_GROUP ? ", \"group\": \"grp\"" : NULL,
                                  .settings = hf_test_format("%s%s", group, attempts),
                                  .dead_table = fate->dead == TO_TABLE};
    hf_test_jobs_open_shape(&scene->jobs, kind, LEASE_SECONDS, shape);
    scene->places = places(scene);
    scene->outside = hf_test_session(scene->jobs.url);
}

static void start(struct scene *scene)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *direct = scene->jobs.url;
    options.workers = 1;
    options.poll_ms = 50;
    scene->jobs.url = hf_test_proxy_url(scene->proxy);
    scene->runtime = hf_test_jobs_runtime(&scene->jobs, NULL);
    scene->jobs.url = direct;
    HF_TEST_OK(hf_subscribe(scene->runtime, scene->jobs.table, &options, handle, scene, NULL, &err), &err);
    HF_TEST_OK(hf_runtime_start(scene->runtime, &err), &err);
}

static void stop(struct scene *scene)
{
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(hf_runtime_stop(scene->runtime, LIMIT_MS, NULL, &err), &err);
    CU_ASSERT_EQUAL(hf_test_stat(scene->runtime, "pool.open"), 0);
    CU_ASSERT_EQUAL(hf_test_stat(scene->runtime, "model_exceeded"), 0);
    HF_TEST_OK(hf_runtime_close(scene->runtime), NULL);
    hf__conn_close(scene->outside);
}

static void cut_everywhere(struct hf_test_kind kind, const struct fate *fate, struct hf_test_proxy *proxy)
{
    static struct scene scene; /* outlives a failed test, whose handlers still run */
    scene = (struct scene){.fate = fate, .proxy = proxy};
    open_scene(&scene, kind);
    start(&scene);
    for (int cut = HF_TEST_CUT_REQUEST; cut <= HF_TEST_CUT_ANSWER; cut++) {
        scene.cut = (enum hf_test_cut)cut;
        for (scene.nth = 1; live(&scene); scene.nth++) {
            if (scene.nth == MOST_POSITIONS) {
                hf_test_fail("%s: and still something is left to cut", position(&scene));
            }
        }
        CU_ASSERT(scene.nth > 1);
    }
    stop(&scene);
    hf_test_jobs_close(&scene.jobs);
}

static void cut_on(enum hf__database database, hf_strategy strategy)
{
    struct hf_test_proxy *proxy = hf_test_proxy_open(database);
    for (size_t i = 0; i < LENGTH(fates); i++) {
        cut_everywhere((struct hf_test_kind){database, strategy}, &fates[i], proxy);
    }
    hf_test_proxy_close(proxy);
}

static void row_lock_on_postgres(void)
{
    cut_on(HF__POSTGRES, HF_ROW_LOCK);
}

static void lease_on_postgres(void)
{
    cut_on(HF__POSTGRES, HF_LEASE);
}

static void advisory_lock_on_postgres(void)
{
    cut_on(HF__POSTGRES, HF_ADVISORY_LOCK);
}

static void row_lock_on_mariadb(void)
{
    cut_on(HF__MYSQL, HF_ROW_LOCK);
}

static void lease_on_mariadb(void)
{
    cut_on(HF__MYSQL, HF_LEASE);
}

static void advisory_lock_on_mariadb(void)
{
    cut_on(HF__MYSQL, HF_ADVISORY_LOCK);
}

/* ---- SQLite: nothing to cut, so the writer is killed ---- */

#define ROWS 120
#define ROUNDS 6

/* Each move takes some milliseconds to write, so that a kill falls into one more often than not. A retry is a move in place. */
static void slow_down(const struct hf_test_fleet *fleet, const struct fate *fate)
{
    const char *name = fleet->jobs.name;
    const char *of = fate->dead == TO_TABLE ? hf_test_format("INSERT ON %s_dead", name)
                                            : hf_test_format("UPDATE OF %s ON %s", fate->dead == TO_GROUP ? "grp" : "last_error", name);
    hf_test_sql(fleet->jobs.url,
                hf_test_format("CREATE TRIGGER %s_slow AFTER %s BEGIN SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 "
                               "UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i FROM n); END",
                               name, of));
}

/* Fails unless each row is in exactly one place. How many are dead letters. */
static int64_t check_places(const struct hf_test_fleet *fleet, const struct fate *fate)
{
    const char *name = fleet->jobs.name;
    struct hf__conn *outside = hf_test_session(fleet->jobs.url);
    const char *both = fate->dead == TO_TABLE ? hf_test_format("(SELECT id FROM %s UNION ALL SELECT id FROM %s_dead)", name, name) : name;
    int64_t rows = hf_test_session_int(outside, hf_test_format("SELECT count(*) FROM %s", both));
    int64_t ids = hf_test_session_int(outside, hf_test_format("SELECT count(DISTINCT id) FROM %s", both));
    const char *dead_in =
        fate->dead == TO_TABLE ? hf_test_format("%s_dead WHERE", name) : hf_test_format("%s WHERE grp = 'dead' AND", name);
    int64_t dead = hf_test_session_int(outside, hf_test_format("SELECT count(*) FROM %s attempt = 1", dead_in));
    hf__conn_close(outside);
    if (rows != ROWS || ids != ROWS) {
        hf_test_fail("%s: of %d rows there are %lld, and %lld different ones", fate->name, ROWS, (long long)rows, (long long)ids);
    }
    return dead;
}

static struct hf_test_child *undertaker(const struct hf_test_fleet *fleet, const char *outcome)
{
    return hf_test_fleet_start(fleet, "--workers", "4", "--poll-ms", "20", "--handler", "ms:0", "--outcome", outcome, "--until-empty",
                               NULL);
}

/* One process, killed in its work. */
static void kill_once(const struct hf_test_fleet *fleet, const char *outcome, int64_t after_ms)
{
    struct hf_test_child *victim = undertaker(fleet, outcome);
    hf_test_fleet_ready(victim);
    hf_test_sleep_ms(after_ms);
    hf_test_kill(victim, SIGKILL);
    (void)hf_test_wait(victim, LIMIT_MS); /* it may have come to its end just before */
    hf_test_free(victim);
    bool lease = fleet->jobs.kind.strategy == HF_LEASE; /* the next one need not wait */
    hf_test_sql(fleet->jobs.url, hf_test_format("UPDATE %s SET retry_after = '2000-01-01 00:00:00.000000'%s", fleet->jobs.name,
                                                lease ? ", locked_until = NULL" : ""));
}

static struct hf_test_shape shape_of(const struct fate *fate)
{
    const char *most = fate->max_attempts ? hf_test_format(", \"max_attempts\": %d", fate->max_attempts) : "";
    const char *group = fate->dead == TO_GROUP ? ", \"dead_letter\": { \"group\": \"dead\" }" : "";
    return (struct hf_test_shape){
        .columns = ", \"group\": \"grp\"", .settings = hf_test_format("%s%s", most, group), .dead_table = fate->dead == TO_TABLE};
}

/* Retries go on until the last process acks all: those that a kill met are there, too, and ran again. */
static void kill_on(struct hf_test_kind kind, const struct fate *fate)
{
    struct hf_test_fleet fleet;
    int64_t dead = 0;
    size_t broken = 0; /* rounds that ended within the work */
    const char *outcome = fate->first == HF_REJECT ? "reject" : fate->first == HF_RETRY ? "retry" : "retry_after";
    hf_test_fleet_open(&fleet, kind, 30, shape_of(fate));
    slow_down(&fleet, fate);
    hf_test_fleet_add(&fleet, ROWS);
    for (int round = 1; round <= ROUNDS && dead < ROWS; round++) {
        kill_once(&fleet, outcome, 20 * round);
        dead = check_places(&fleet, fate);
        broken += dead < ROWS;
    }
    CU_ASSERT(broken > 0);
    hf_test_fleet_end(undertaker(&fleet, fate->dead == NOWHERE ? "ack" : outcome), LIMIT_MS);
    if (fate->dead == NOWHERE) {
        CU_ASSERT_EQUAL(hf_test_jobs_count(&fleet.jobs, "1 = 1"), 0);
    } else {
        CU_ASSERT_EQUAL(check_places(&fleet, fate), ROWS);
    }
    hf_test_fleet_close(&fleet);
}

static void killed_on_sqlite(void)
{
    for (size_t i = 0; i < LENGTH(fates); i++) {
        kill_on((struct hf_test_kind){HF__SQLITE, HF_LEASE}, &fates[i]);
        kill_on((struct hf_test_kind){HF__SQLITE, HF_ADVISORY_LOCK}, &fates[i]);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        /* cases 71, 104 */
        {"row lock on PostgreSQL", row_lock_on_postgres},
        {"lease on PostgreSQL", lease_on_postgres},
        {"advisory lock on PostgreSQL", advisory_lock_on_postgres},
        {"row lock on MariaDB", row_lock_on_mariadb},
        {"lease on MariaDB", lease_on_mariadb},
        {"advisory lock on MariaDB", advisory_lock_on_mariadb},
        {"killed on SQLite", killed_on_sqlite},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "e2e_dead_letter", tests);
}
