/* ctest: timeout=300 labels=server
 * Dead letters: what goes there, how, what a subscription sees of them, and the way back. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "strategies/plan.h"
#include "tests/bed.h"

#define ROLES                                                                                                                \
    "\"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"retry_after\": \"retry_after\", \"last_error\": " \
    "\"last_error\", \"group\": \"grp\""
static const char *const described[] = {
    [HF__ROW_LOCK] = ", \"columns\": { " ROLES " }",
    [HF__LEASE] = ", \"columns\": { " ROLES ", \"locked_until\": \"locked_until\" }",
    [HF__ADVISORY_LOCK] = ", \"columns\": { " ROLES " }, \"advisory_lock\": \"@-{id}\"",
};

enum place { GROUP, TABLE };

struct scene {
    enum hf__database database;
    enum hf__strategy_kind kind;
    enum place place;
};

static const char *rest_of(const struct scene *scene, int max_attempts)
{
    const char *dead = scene->place == GROUP ? "{ \"group\": \"dead\" }" : "{ \"table\": \"@_dead\" }";
    const char *most = max_attempts > 0 ? hf_test_format(", \"max_attempts\": %d", max_attempts) : "";
    return hf_test_format("%s, \"dead_letter\": %s%s", described[scene->kind], dead, most);
}

/* Every strategy on every database that offers it, to a group and to a table. */
static void for_each(void (*check)(const struct scene *scene))
{
    for (size_t d = 0; d < hf_bed_n_databases; d++)
        for (int kind = HF__ROW_LOCK; kind <= HF__ADVISORY_LOCK; kind++)
            for (int place = GROUP; place <= TABLE; place++) {
                struct scene scene = {hf_bed_databases[d], (enum hf__strategy_kind)kind, (enum place)place};
                if (hf_bed_offers(scene.database, scene.kind))
                    check(&scene);
            }
}

static int64_t n_dead(const struct hf_test_bed *bed, const struct scene *scene, const char *where)
{
    const char *from = scene->place == GROUP ? "@ WHERE grp = 'dead' AND" : "@_dead WHERE";
    return hf_bed_int(bed, hf_test_format("SELECT COUNT(*) FROM %s %s", from, where));
}

static int64_t n_alive(const struct hf_test_bed *bed)
{
    return hf_bed_int(bed, "SELECT COUNT(*) FROM @ WHERE grp IS NULL OR grp <> 'dead'");
}

static void add(const struct hf_test_bed *bed, const char *group, const char *payload)
{
    hf_bed_sql(bed, hf_test_format("INSERT INTO @ (grp, payload) VALUES (%s, '%s')", group, payload));
}

/* ---- counting attempts ---- */

/* max_attempts is the number of runs; the first one reads 1. */
static void check_max_attempts(const struct scene *scene)
{
    for (int most = 1; most <= 3; most++) {
        struct hf_test_bed bed;
        struct hf__row *row;
        hf_bed_open(&bed, scene->database, rest_of(scene, most));
        add(&bed, "'g'", "one");
        for (int run = 1; run <= most; run++) {
            CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), 0);
            CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
            CU_ASSERT_EQUAL(row->attempt, run);
            enum hf__action action = run % 2 ? HF__RETRY : HF__RETRY_AFTER;
            CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, action, hf_test_format("failed %d", run)), HF_OK);
        }
        CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, &row), 0);
        CU_ASSERT_EQUAL(n_alive(&bed), 0);
        CU_ASSERT_EQUAL(n_dead(&bed, scene, hf_test_format("attempt = 1 AND last_error = 'failed %d' AND payload = 'one'", most)), 1);
        CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
        CU_ASSERT_FALSE(bed.conn->retire || bed.conn->lost);
        hf_bed_close(&bed);
    }
}

static void test_max_attempts(void)
{
    for_each(check_max_attempts);
}

/* A row that is given back, or whose handler never began, stays, however often it has been tried. */
static void check_given_back(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    hf_bed_open(&bed, scene->database, rest_of(scene, 1));
    add(&bed, "'g'", "one");
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__UNBEGUN, NULL), HF_OK);
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(row->attempt, 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__GIVE_BACK, NULL), HF_OK);
    CU_ASSERT_EQUAL(n_alive(&bed), 1);
    hf_bed_close(&bed);
}

static void test_given_back(void)
{
    for_each(check_given_back);
}

/* ---- reject ---- */

static void check_reject(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    hf_bed_open(&bed, scene->database, rest_of(scene, 0));
    add(&bed, "NULL", "one");
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_FALSE(row->is_dead);
    struct hf__change change = {.row = row, .action = HF__REJECT, .reason = "never", .reason_len = 5};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, hf_bed_soon(), &bed.err), &bed.err);
    CU_ASSERT_EQUAL(change.status, HF_OK);
    CU_ASSERT_TRUE(change.dead);
    hf__row_free(row);
    CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, &row), 0);
    CU_ASSERT_EQUAL(n_alive(&bed), 0);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "attempt = 1 AND last_error = 'never' AND payload = 'one'"), 1);
    hf_bed_close(&bed);
}

static void test_reject(void)
{
    for_each(check_reject);
}

/* A late settle of a row that somebody else has by now moves nothing. */
static void check_not_ours(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    if (scene->kind == HF__ROW_LOCK)
        return; /* nobody can take it away */
    hf_bed_open(&bed, scene->database, rest_of(scene, 1));
    add(&bed, "'g'", "one");
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    hf_bed_sql(&bed, "UPDATE @ SET attempt = attempt + 1");
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "never"), scene->kind == HF__LEASE ? HF_LEASE_LOST : HF_LOST);
    CU_ASSERT_EQUAL(n_alive(&bed), 1);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), 0);
    hf_bed_close(&bed);
}

static void test_not_ours(void)
{
    for_each(check_not_ours);
}

/* ---- rows whose last run crashed ---- */

/* They go to the dead letter unrun, and the claim goes on to those that can be run. */
static void check_buried(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *rows[4];
    size_t n = 0;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    for (int i = 0; i < 40; i++)
        add(&bed, "'g'", i == 20 ? "live" : "crashed");
    hf_bed_sql(&bed, "UPDATE @ SET attempt = 4 WHERE payload = 'crashed'");
    struct hf__claim ask = {.limit = 4};
    size_t got = 0;
    for (int i = 0; i < 20 && got == 0; i++) {
        HF_TEST_OK(bed.strategy->claim(bed.plan, bed.conn, &ask, hf_bed_soon(), rows, &n, &bed.err), &bed.err);
        got += n;
    }
    CU_ASSERT_EQUAL_FATAL(got, 1);
    CU_ASSERT_EQUAL_FATAL(rows[0]->payload.s.len, 4);
    CU_ASSERT_TRUE(ask.buried >= 20);
    CU_ASSERT_EQUAL((size_t)n_dead(&bed, scene, "1 = 1"), ask.buried);
    CU_ASSERT_EQUAL((size_t)n_dead(&bed, scene, "last_error LIKE '%max_attempts 3 is used up' AND attempt = 1 AND payload = 'crashed'"),
                    ask.buried);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, rows[0], HF__ACK, NULL), HF_OK);
    HF_TEST_OK(bed.strategy->claim(bed.plan, bed.conn, &ask, hf_bed_soon(), rows, &n, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_EQUAL(ask.buried, 39);
    CU_ASSERT_EQUAL(n_alive(&bed), 0);
    hf_bed_close(&bed);
}

static void test_buried(void)
{
    for_each(check_buried);
}

/* One that cannot be moved is not run, does not stand in the way of others, and its error is told. */
static void check_unmovable(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    size_t n;
    if (scene->place == GROUP)
        return;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    add(&bed, "'g'", "crashed");
    hf_bed_sql(&bed, "UPDATE @ SET attempt = 4");
    hf_bed_sql(&bed, "INSERT INTO @_dead SELECT * FROM @"); /* its id is taken there */
    add(&bed, "'g'", "live");
    hf_error refused = {.status = HF_OK};
    struct hf__claim ask = {.limit = 1, .refused = &refused};
    for (int i = 0; i < 3; i++) {
        hf_status status = bed.strategy->claim(bed.plan, bed.conn, &ask, hf_bed_soon(), &row, &n, &bed.err);
        if (status == HF_OK && n == 1)
            break;
    }
    CU_ASSERT_EQUAL(refused.status, HF_DATABASE);
    CU_ASSERT_EQUAL(ask.buried, 0);
    CU_ASSERT_EQUAL_FATAL(n, 1);
    CU_ASSERT_EQUAL(row->payload.s.len, 4);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__ACK, NULL), HF_OK);
    CU_ASSERT_EQUAL(n_alive(&bed), 1);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), 1);
    hf_bed_close(&bed);
}

static void test_unmovable(void)
{
    for_each(check_unmovable);
}

/* ---- refused, in a table without retry_after ---- */

#define PLAIN_ROLES "\"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\", \"group\": \"grp\""
static const char *const plainly_described[] = {
    [HF__ROW_LOCK] = ", \"columns\": { " PLAIN_ROLES " }",
    [HF__LEASE] = ", \"columns\": { " PLAIN_ROLES ", \"locked_until\": \"locked_until\" }",
    [HF__ADVISORY_LOCK] = ", \"columns\": { " PLAIN_ROLES " }, \"advisory_lock\": \"@-{id}\"",
};

static void open_plain(struct hf_test_bed *bed, const struct scene *scene, bool fifo)
{
    hf_bed_open(bed, scene->database,
                hf_test_format("%s, \"max_attempts\": 3, \"dead_letter\": { \"table\": \"@_dead\" }%s", plainly_described[scene->kind],
                               fifo ? ", \"fifo\": true" : ""));
}

/* Past max_attempts, and the ids are taken in the dead letters' table. */
static void add_refused(const struct hf_test_bed *bed, int n)
{
    for (int i = 0; i < n; i++)
        add(bed, hf_test_format("'g%d'", i), "refused");
    hf_bed_sql(bed, "UPDATE @ SET attempt = 4");
    hf_bed_sql(bed, "INSERT INTO @_dead SELECT * FROM @");
}

/* One row a claim, as a single worker claims. Returns how many of so many claims found one. */
static int claim_singly(struct hf_test_bed *bed, int claims, hf_error *refused, size_t *buried)
{
    int found = 0;
    for (int i = 0; i < claims; i++) {
        struct hf__row *row;
        struct hf__claim ask = {.limit = 1, .refused = refused};
        size_t n = 0;
        hf_status status = bed->strategy->claim(bed->plan, bed->conn, &ask, hf_bed_soon(), &row, &n, &bed->err);
        *buried += ask.buried;
        if (status != HF_OK || n == 0)
            continue;
        found++;
        CU_ASSERT_EQUAL(row->payload.s.len, 4);
        CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, row, HF__ACK, NULL), HF_OK);
    }
    return found;
}

/* Rows that cannot be moved stand in front: those behind them are reached all the same, and a row that can be moved is in the end. */
static void check_passed_over(const struct scene *scene)
{
    enum { REFUSED = 5, LIVE = 3 };
    struct hf_test_bed bed;
    hf_error refused = {.status = HF_OK};
    size_t buried = 0;
    if (scene->place == GROUP)
        return;
    open_plain(&bed, scene, false);
    add_refused(&bed, REFUSED);
    for (int i = 0; i < LIVE; i++)
        add(&bed, "'g'", "live");
    add(&bed, "'g'", "crashed");
    hf_bed_sql(&bed, "UPDATE @ SET attempt = 4 WHERE payload = 'crashed'");
    CU_ASSERT_EQUAL(claim_singly(&bed, REFUSED + LIVE, &refused, &buried), LIVE);
    CU_ASSERT_EQUAL(refused.status, HF_DATABASE);
    atomic_store(&bed.plan->sweep_ns, scene->kind == HF__ROW_LOCK ? 1 : 0); /* a minute later */
    CU_ASSERT_EQUAL(claim_singly(&bed, REFUSED, &refused, &buried), 0);
    CU_ASSERT_EQUAL(buried, 1);
    CU_ASSERT_EQUAL(n_alive(&bed), REFUSED);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), REFUSED + 1);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
    CU_ASSERT_FALSE(bed.conn->retire || bed.conn->lost);
    hf_bed_close(&bed);
}

/* Such a row is its group's head: the group waits, and the others go on. */
static void check_passed_group(const struct scene *scene)
{
    struct hf_test_bed bed;
    hf_error refused = {.status = HF_OK};
    size_t buried = 0;
    if (scene->place == GROUP || scene->kind == HF__ADVISORY_LOCK)
        return;
    open_plain(&bed, scene, true);
    add_refused(&bed, 3);
    add(&bed, "'g0'", "behind it");
    add(&bed, "'z'", "live");
    add(&bed, "NULL", "live");
    CU_ASSERT_EQUAL(claim_singly(&bed, 8, &refused, &buried), 2);
    CU_ASSERT_EQUAL(refused.status, HF_DATABASE);
    CU_ASSERT_EQUAL(n_alive(&bed), 4);
    hf_bed_close(&bed);
}

static void test_passed_over(void)
{
    for_each(check_passed_over);
    for_each(check_passed_group);
}

/* ---- an outcome that the database refuses ---- */

/* A retry whose reason a constraint refuses, and a reject whose id is taken where it is to go. */
static void refuse(struct hf_test_bed *bed, enum hf__action action)
{
    hf_bed_sql(bed, "INSERT INTO @_dead SELECT * FROM @ WHERE payload = 'bad'");
    if (action == HF__REJECT)
        return;
    hf_bed_sql(bed, "DELETE FROM @_dead");
    if (bed->database != HF__SQLITE)
        hf_bed_sql(bed, "ALTER TABLE @ ADD CONSTRAINT hf_no CHECK (last_error IS NULL OR last_error <> 'no')");
    else
        hf_bed_sql(bed, "CREATE TRIGGER @_no BEFORE UPDATE ON @ WHEN NEW.last_error = 'no' BEGIN SELECT RAISE(ABORT, 'no'); END");
}

static void settle_refused(const struct scene *scene, enum hf__action action, size_t n)
{
    struct hf_test_bed bed;
    struct hf__row *rows[2];
    struct hf__change changes[2];
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    add(&bed, "'g'", "bad");
    if (n > 1)
        add(&bed, "'g'", "good");
    refuse(&bed, action);
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, n, rows), n);
    for (size_t i = 0; i < n; i++) {
        enum hf__action own = i == 0 ? action : HF__ACK;
        changes[i] = (struct hf__change){.row = rows[i], .action = own, .delay_us = 1000, .reason = "no", .reason_len = 2};
    }
    CU_ASSERT_EQUAL(bed.strategy->settle(bed.plan, bed.conn, changes, n, hf_bed_soon(), &bed.err), HF_DATABASE);
    CU_ASSERT_EQUAL(changes[0].status, HF_DATABASE);
    if (scene->kind == HF__ROW_LOCK && !strstr(bed.err.message, "put off for 60 seconds"))
        hf_test_fail("%d: the message does not say what became of the row: %s", scene->database, bed.err.message);
    for (size_t i = 0; i < n; i++)
        hf__row_free(rows[i]);
    struct timespec moment = {.tv_nsec = 20000000};
    (void)nanosleep(&moment, NULL); /* past the delay that was asked for */
    CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, rows), 0);
    CU_ASSERT_EQUAL(n_alive(&bed), 1);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT attempt FROM @ WHERE payload = 'bad'"), 2);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
    CU_ASSERT_FALSE(bed.conn->retire || bed.conn->lost);
    hf_bed_close(&bed);
}

/* It is counted and put off, in every strategy, alone and among others: it would run again and again without a pause. */
static void check_refused_outcomes(const struct scene *scene)
{
    static const enum hf__action actions[] = {HF__RETRY, HF__RETRY_AFTER, HF__REJECT};
    if (scene->place == GROUP)
        return;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        settle_refused(scene, actions[i], 1);
        if (scene->kind == HF__ROW_LOCK)
            settle_refused(scene, actions[i], 2);
    }
}

static void test_refused(void)
{
    for_each(check_refused_outcomes);
}

/* A key that renders to nothing is an error of that row. */
static void check_keyless(const struct scene *scene)
{
    struct hf_test_bed bed;
    size_t moved, left;
    char *example;
    if (scene->kind != HF__ADVISORY_LOCK)
        return;
    hf_bed_open(&bed, scene->database,
                hf_test_format(", \"columns\": { " ROLES " }, \"advisory_lock\": \"{grp}\", \"dead_letter\": %s",
                               scene->place == GROUP ? "{ \"group\": \"dead\" }" : "{ \"table\": \"@_dead\" }"));
    add(&bed, "NULL", "a");
    add(&bed, "''", "b");
    add(&bed, "'g'", "c");
    hf_bed_due(&bed);
    HF_TEST_OK(hf__plan_bury_keyless(bed.plan, bed.conn, hf_bed_soon(), &moved, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(moved, 2);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "last_error LIKE '%key%' AND payload IN ('a', 'b')"), 2);
    CU_ASSERT_EQUAL(n_alive(&bed), 1);
    HF_TEST_OK(hf__plan_keyless(bed.plan, bed.conn, hf_bed_soon(), &left, &example, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(left, 0);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed.conn), HF__TX_NONE);
    hf_bed_close(&bed);
}

/* A dead letter that renders no key is not moved to where it stands already, time and again. */
static void check_keyless_dead(const struct scene *scene)
{
    struct hf_test_bed bed;
    const char *const dead[] = {"dead"};
    size_t moved, left;
    char *example;
    if (scene->kind != HF__ADVISORY_LOCK || scene->place != GROUP)
        return;
    hf_bed_open(&bed, scene->database,
                ", \"columns\": { " ROLES " }, \"advisory_lock\": \"{account}\", \"dead_letter\": { \"group\": \"dead\" }");
    hf_bed_sql(&bed, "INSERT INTO @ (grp, payload, account) VALUES ('g', 'a', '')");
    hf_bed_due(&bed);
    HF_TEST_OK(hf__plan_bury_keyless(bed.plan, bed.conn, hf_bed_soon(), &moved, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(moved, 1);
    hf_bed_plan(&bed, dead, 1);
    HF_TEST_OK(hf__plan_bury_keyless(bed.plan, bed.conn, hf_bed_soon(), &moved, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(moved, 0);
    HF_TEST_OK(hf__plan_keyless(bed.plan, bed.conn, hf_bed_soon(), &left, &example, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(left, 1); /* it is said all the same */
    free(example);
    hf_bed_close(&bed);
}

static void test_keyless(void)
{
    for_each(check_keyless);
    for_each(check_keyless_dead);
}

/* ---- what a subscription sees ---- */

/* One that names the group of the dead runs them without a limit, and a reject is an ack there. */
static void check_named(const struct scene *scene)
{
    static const char *const groups[] = {"dead", "g"};
    struct hf_test_bed bed;
    struct hf__row *row;
    if (scene->place == TABLE)
        return;
    hf_bed_open(&bed, scene->database, rest_of(scene, 2));
    hf_bed_plan(&bed, groups, 2);
    add(&bed, "'dead'", "one");
    for (int run = 1; run <= 4; run++) {
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_TRUE(row->is_dead);
        CU_ASSERT_EQUAL(row->attempt, run);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__RETRY, "again"), HF_OK);
    }
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "never"), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @"), 0);
    add(&bed, "'g'", "two"); /* in the same plan a row of another group has its limit */
    for (int run = 1; run <= 2; run++) {
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_FALSE(row->is_dead);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__RETRY, "again"), HF_OK);
    }
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "payload = 'two'"), 1);
    hf_bed_close(&bed);
}

static void test_named(void)
{
    for_each(check_named);
}

/* Over all groups the dead letters are left out, and nothing else is: not the rows without a group. */
static void check_left_out(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *rows[4];
    bool pending;
    if (scene->place == TABLE)
        return;
    hf_bed_open(&bed, scene->database, rest_of(scene, 2));
    add(&bed, "'dead'", "dead");
    HF_TEST_OK(hf__plan_pending(bed.plan, bed.other, hf_bed_soon(), &pending, &bed.err), &bed.err);
    CU_ASSERT_FALSE(pending);
    add(&bed, "NULL", "live");
    add(&bed, "'g'", "live");
    HF_TEST_OK(hf__plan_pending(bed.plan, bed.other, hf_bed_soon(), &pending, &bed.err), &bed.err);
    CU_ASSERT_TRUE(pending);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, rows), 1);
        CU_ASSERT_STRING_EQUAL(rows[0]->payload.s.data, "live");
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, rows[0], HF__ACK, NULL), HF_OK);
    }
    CU_ASSERT_EQUAL(hf_bed_claim(&bed, bed.conn, 1, rows), 0);
    hf_bed_close(&bed);
}

static void test_left_out(void)
{
    for_each(check_left_out);
}

/* ---- several at once ---- */

/* Rows of one claim settled together: each goes its own way, and one that is refused takes no neighbour along. */
static void check_together(const struct scene *scene)
{
    enum { N = 6 };
    struct hf_test_bed bed;
    struct hf__row *rows[N];
    struct hf__change changes[N] = {0};
    if (scene->kind == HF__ADVISORY_LOCK)
        return; /* a claim is one row */
    hf_bed_open(&bed, scene->database, rest_of(scene, 1));
    for (int i = 0; i < N; i++)
        add(&bed, "'g'", hf_test_format("%d", i));
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, N, rows), N);
    bool refuses = scene->place == TABLE;
    if (refuses) /* the id of row 2 is taken there */
        hf_bed_sql(&bed, "INSERT INTO @_dead (id, attempt, payload) VALUES (3, 7, 'stone')");
    static const enum hf__action actions[N] = {HF__ACK, HF__REJECT, HF__RETRY, HF__RETRY_AFTER, HF__UNBEGUN, HF__ACK};
    for (size_t i = 0; i < N; i++)
        changes[i] = (struct hf__change){.row = rows[i], .action = actions[i], .reason = "no", .reason_len = 2};
    hf_status status = bed.strategy->settle(bed.plan, bed.conn, changes, N, hf_bed_soon(), &bed.err);
    CU_ASSERT_EQUAL(status, refuses ? HF_DATABASE : HF_OK);
    for (size_t i = 0; i < N; i++)
        CU_ASSERT_EQUAL(changes[i].status, refuses && i == 2 ? HF_DATABASE : HF_OK);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "last_error = 'no' AND payload IN ('1', '2', '3')"), refuses ? 2 : 3);
    CU_ASSERT_EQUAL(n_alive(&bed), refuses ? 2 : 1);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE payload IN ('0', '5')"), 0);
    for (size_t i = 0; i < N; i++)
        hf__row_free(rows[i]);
    hf_bed_close(&bed);
}

static void test_together(void)
{
    for_each(check_together);
}

/* ---- counts ---- */

static void check_counts(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    struct hf__counts counts;
    struct hf__group_counts *groups;
    size_t n;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    const char *ahead = scene->database == HF__SQLITE ? "'2100-01-01 00:00:00'" : "TIMESTAMP '2100-01-01 00:00:00'";
    add(&bed, "NULL", "a");
    add(&bed, "'g'", "b");
    add(&bed, "'g'", "c");
    add(&bed, "'h'", "d");
    hf_bed_sql(&bed, hf_test_format("UPDATE @ SET retry_after = %s WHERE payload = 'c'", ahead));
    hf_bed_sql(&bed, "UPDATE @ SET retry_after = '2020-01-01 00:00:00' WHERE payload = 'd'");
    add(&bed, "'d'", "e");
    hf_bed_sql(&bed, "UPDATE @ SET retry_after = '2019-01-01 00:00:00' WHERE payload = 'e'"); /* it is claimed first */
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "no"), HF_OK);
    HF_TEST_OK(hf__plan_count(bed.plan, bed.other, hf_bed_soon(), &counts, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(counts.due, 3);
    CU_ASSERT_EQUAL(counts.delayed, 1);
    CU_ASSERT_EQUAL(counts.dead, 1);
    CU_ASSERT_TRUE(counts.oldest_due_seconds > 365 * 86400.0 && counts.oldest_due_seconds < 100 * 365 * 86400.0);
    HF_TEST_OK(hf__plan_count_groups(bed.plan, bed.other, hf_bed_soon(), &groups, &n, &bed.err), &bed.err);
    CU_ASSERT_EQUAL_FATAL(n, 4);
    const char *dead = scene->place == GROUP ? "dead" : "d";
    CU_ASSERT_PTR_NULL(groups[0].group);
    CU_ASSERT_STRING_EQUAL(groups[1].group, dead);
    CU_ASSERT_STRING_EQUAL(groups[2].group, "g");
    CU_ASSERT_STRING_EQUAL(groups[3].group, "h");
    CU_ASSERT_EQUAL(groups[0].counts.due, 1);
    CU_ASSERT_EQUAL(groups[1].counts.dead, 1);
    CU_ASSERT_EQUAL(groups[1].counts.due, 0);
    CU_ASSERT_EQUAL(groups[2].counts.due, 1);
    CU_ASSERT_EQUAL(groups[2].counts.delayed, 1);
    CU_ASSERT_EQUAL(groups[2].counts.in_work, scene->kind == HF__LEASE ? 0 : -1);
    CU_ASSERT_DOUBLE_EQUAL(groups[3].counts.oldest_due_seconds, counts.oldest_due_seconds, 60.0);
    hf__group_counts_free(groups, n);
    hf_bed_close(&bed);
}

static void test_counts(void)
{
    for_each(check_counts);
}

/* ---- the way back ---- */

static size_t requeue(struct hf_test_bed *bed, const struct hf__requeue *what, hf_status expected)
{
    size_t moved;
    HF_TEST_STATUS(hf__plan_requeue(bed->plan, bed->other, what, hf_bed_soon(), &moved, &bed->err), expected, &bed->err);
    CU_ASSERT_EQUAL(hf__conn_transaction(bed->other), HF__TX_NONE);
    return moved;
}

static void die(const struct scene *scene, const struct hf_test_bed *bed, int n)
{
    for (int i = 0; i < n; i++)
        if (scene->place == GROUP)
            hf_bed_sql(bed, hf_test_format("INSERT INTO @ (grp, payload, attempt) VALUES ('dead', 'p%d', 2)", i));
        else
            hf_bed_sql(bed, hf_test_format("INSERT INTO @_dead (id, grp, payload, attempt) VALUES (%d, 'g%d', 'p%d', 2)", i + 1, i % 2, i));
}

/* All, a group, some ids: each comes back due, at its first attempt, and is gone from the dead. */
static void check_requeue(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    bool group = scene->place == GROUP;
    const char *to = group ? "g0" : NULL;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    die(scene, &bed, 6);
    const char *ids[] = {hf_bed_query(&bed, group ? "SELECT id FROM @ WHERE payload = 'p5'" : "SELECT 6"), "4"};
    CU_ASSERT_EQUAL(requeue(&bed, &(struct hf__requeue){.ids = ids, .n_ids = 2, .to_group = to}, HF_OK), 2);
    CU_ASSERT_EQUAL(n_alive(&bed), 2);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE attempt = 1 AND payload IN ('p3', 'p5')"), 2);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "payload IN ('p3', 'p5')"), 0);
    if (!group)
        CU_ASSERT_EQUAL(requeue(&bed, &(struct hf__requeue){.group = "g1", .to_group = "elsewhere"}, HF_OK), 1);
    CU_ASSERT_EQUAL(requeue(&bed, &(struct hf__requeue){.to_group = to}, HF_OK), group ? 4 : 3);
    CU_ASSERT_EQUAL(n_alive(&bed), 6);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), 0);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE grp = 'g0'"), group ? 6 : 3);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE grp = 'elsewhere'"), group ? 0 : 1);
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_EQUAL(row->attempt, 1);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__ACK, NULL), HF_OK);
    }
    hf_bed_close(&bed);
}

static void test_requeue(void)
{
    for_each(check_requeue);
}

/* Several pieces; and a row that the database refuses does not keep the others. */
static void check_requeue_many(const struct scene *scene)
{
    enum { N = 600 };
    struct hf_test_bed bed;
    bool group = scene->place == GROUP, refuses = !group;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    static struct hf__job jobs[N];
    for (size_t i = 0; i < N; i++)
        jobs[i] = (struct hf__job){.group = "dead"};
    HF_TEST_OK(hf__insert_jobs(bed.other, bed.table, jobs, N, hf__clock_now_us(bed.clock), NULL, hf_bed_soon(), &bed.err), &bed.err);
    if (!group) {
        hf_bed_sql(&bed, "INSERT INTO @_dead SELECT * FROM @");
        hf_bed_sql(&bed, "DELETE FROM @ WHERE id <> 300");
    }
    size_t moved = requeue(&bed, &(struct hf__requeue){.to_group = "g"}, refuses ? HF_DATABASE : HF_OK);
    CU_ASSERT_EQUAL(moved, refuses ? N - 1 : N);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE grp = 'g'"), refuses ? N - 1 : N);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), refuses ? 1 : 0);
    hf_bed_close(&bed);
}

static void test_requeue_many(void)
{
    for_each(check_requeue_many);
}

static void check_requeue_refused(const struct scene *scene)
{
    static const char *const unknown[] = {"1", "77"}, *const no_id[] = {"x1"};
    struct hf_test_bed bed;
    bool group = scene->place == GROUP;
    const char *to = group ? "g" : NULL;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    die(scene, &bed, 1);
    (void)requeue(&bed, &(struct hf__requeue){.ids = unknown, .n_ids = 2, .to_group = to}, HF_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "77"));
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "1 = 1"), 1);
    (void)requeue(&bed, &(struct hf__requeue){.ids = no_id, .n_ids = 1, .to_group = to}, HF_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "x1"));
    if (group) {
        (void)requeue(&bed, &(struct hf__requeue){.n_ids = 0}, HF_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "to_group"));
        (void)requeue(&bed, &(struct hf__requeue){.to_group = "dead"}, HF_INVALID);
        (void)requeue(&bed, &(struct hf__requeue){.to_group = "g", .group = "h"}, HF_INVALID);
    }
    /* one that somebody works on stays, and is named when it is asked for */
    if (scene->kind == HF__LEASE) {
        const char *from = group ? "@" : "@_dead";
        hf_bed_sql(&bed, hf_test_format("UPDATE %s SET locked_until = '2100-01-01 00:00:00'", from));
        CU_ASSERT_EQUAL(requeue(&bed, &(struct hf__requeue){.to_group = to}, HF_OK), 0);
        (void)requeue(&bed, &(struct hf__requeue){.ids = unknown, .n_ids = 1, .to_group = to}, HF_INVALID);
    }
    hf_bed_close(&bed);
    hf_bed_open(&bed, scene->database, described[scene->kind]);
    (void)requeue(&bed, &(struct hf__requeue){.n_ids = 0}, HF_INVALID);
    hf_bed_close(&bed);
}

static void test_requeue_refused(void)
{
    for_each(check_requeue_refused);
}

/* A row that is locked, in work under a row lock, is passed over at once. */
static void check_requeue_locked(const struct scene *scene)
{
    struct hf_test_bed bed;
    if (scene->database == HF__SQLITE)
        return;
    hf_bed_open(&bed, scene->database, rest_of(scene, 3));
    die(scene, &bed, 3);
    struct hf__conn *worker = hf_test_session(bed.url);
    hf_test_session_run(worker, "BEGIN");
    CU_ASSERT_EQUAL(hf_test_session_int(worker, hf_bed_text(&bed, scene->place == GROUP ? "SELECT 1 FROM @ WHERE id = 2 FOR UPDATE"
                                                                                        : "SELECT 1 FROM @_dead WHERE id = 2 FOR UPDATE")),
                    1);
    CU_ASSERT_EQUAL(requeue(&bed, &(struct hf__requeue){.to_group = "g"}, HF_OK), 2);
    hf__conn_close(worker);
    hf_bed_close(&bed);
}

static void test_requeue_locked(void)
{
    for_each(check_requeue_locked);
}

/* ---- the start check ---- */

static void open_dead(struct hf_test_bed *bed, enum hf__database database, const char *columns)
{
    const struct scene scene = {database, HF__LEASE, TABLE};
    hf_bed_describe(bed, database, rest_of(&scene, 3), true);
    hf_bed_sql(bed, "DROP TABLE @_dead");
    if (columns)
        hf_bed_sql(bed, hf_test_format("CREATE TABLE @_dead (%s)", columns));
}

static void check_refused(enum hf__database database, const char *columns, const char *says)
{
    struct hf_test_bed bed;
    struct hf__plan_options options = {0};
    open_dead(&bed, database, columns);
    options.clock = bed.clock;
    HF_TEST_STATUS(hf__plan_open(bed.conn, bed.table, &options, hf_bed_soon(), &bed.plan, &bed.err), says ? HF_INVALID : HF_OK, &bed.err);
    if (says && !strstr(bed.err.message, hf_bed_text(&bed, says)))
        hf_test_fail("it says: %s", bed.err.message);
    hf_bed_close(&bed);
}

#define DEAD_BUT(id, payload, locked)                                                                                     \
    "id " id ", grp text, payload " payload ", attempt integer, retry_after timestamptz, locked_until timestamptz" locked \
    ", last_error text"

static void test_start_check(void)
{
    static const struct {
        const char *columns, *says;
    } cases[] = {
        {NULL, "there is no table @_dead"},
        {DEAD_BUT("bigint PRIMARY KEY", "bytea", ""), NULL},
        {DEAD_BUT("bigint PRIMARY KEY", "bytea", "") ", died_at timestamptz NOT NULL DEFAULT now(), note text", NULL},
        {DEAD_BUT("bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytea", ""), NULL},
        {DEAD_BUT("bigint PRIMARY KEY", "bytea", "") ", note text NOT NULL", "\"note\""},
        {DEAD_BUT("integer PRIMARY KEY", "bytea", ""), "\"id\" is bigint, and integer"},
        {DEAD_BUT("bigint PRIMARY KEY", "text", ""), "\"payload\""},
        {DEAD_BUT("bigint PRIMARY KEY", "bytea NOT NULL", ""), "\"payload\""},
        {DEAD_BUT("bigint PRIMARY KEY", "bytea", " NOT NULL"), "\"locked_until\""},
        {"id bigint PRIMARY KEY, grp text, attempt integer, retry_after timestamptz, locked_until timestamptz, last_error text",
         "no column \"payload\", so what stands there would be lost"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(HF__POSTGRES, cases[i].columns, cases[i].says);
    for (size_t d = 0; d < hf_bed_n_databases; d++)
        check_refused(hf_bed_databases[d], NULL, "there is no table @_dead");
}

static void check_not_itself(enum hf__database database)
{
    static const char *const own[] = {[HF__POSTGRES] = "public", [HF__MYSQL] = "holdfast", [HF__SQLITE] = "main"};
    for (size_t i = 0; i < 2; i++) {
        struct hf_test_bed bed;
        struct hf__plan_options options = {0};
        const char *schema = i ? hf_test_format(", \"schema\": \"%s\"", own[database]) : "";
        hf_bed_describe(&bed, database, described[HF__LEASE], true);
        hf__table_free(bed.table);
        const char *json = hf_bed_text(
            &bed, hf_test_format("{ \"table\": \"@\"%s, \"dead_letter\": { \"table\": \"@\"%s } }", described[HF__LEASE], schema));
        HF_TEST_OK(hf__table_parse(json, strlen(json), &bed.table, &bed.err), &bed.err);
        options.clock = bed.clock;
        HF_TEST_STATUS(hf__plan_open(bed.conn, bed.table, &options, hf_bed_soon(), &bed.plan, &bed.err), HF_INVALID, &bed.err);
        CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "itself"));
        hf_bed_close(&bed);
    }
}

static void test_not_itself(void)
{
    for (size_t d = 0; d < hf_bed_n_databases; d++)
        check_not_itself(hf_bed_databases[d]);
}

/* Columns that the description does not name are kept, a computed one is computed anew, and an identity keeps the row's id. */
static void test_further_columns(void)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    open_dead(&bed, HF__POSTGRES, DEAD_BUT("bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytea", "") ", note varchar(9), n integer");
    hf_bed_sql(&bed, "ALTER TABLE @ ADD COLUMN note varchar(9), ADD COLUMN twice integer GENERATED ALWAYS AS (attempt * 2) STORED");
    hf_bed_plan(&bed, NULL, 0);
    hf_bed_sql(&bed, "INSERT INTO @ (id, note) VALUES (77, 'kept')");
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "no"), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @_dead WHERE id = 77 AND note = 'kept' AND n IS NULL"), 1);
    size_t moved;
    HF_TEST_OK(hf__plan_requeue(bed.plan, bed.other, &(struct hf__requeue){.n_ids = 0}, hf_bed_soon(), &moved, &bed.err), &bed.err);
    CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT twice FROM @ WHERE id = 77 AND note = 'kept'"), 2);
    hf_bed_close(&bed);
}

/* A trigger that keeps rows out of the dead letters' table without an error does not lose them. */
static void test_swallowed(void)
{
    for (int kind = HF__ROW_LOCK; kind <= HF__ADVISORY_LOCK; kind++) {
        const struct scene scene = {HF__POSTGRES, (enum hf__strategy_kind)kind, TABLE};
        struct hf_test_bed bed;
        struct hf__row *row;
        hf_bed_describe(&bed, scene.database, rest_of(&scene, 3), true);
        hf_bed_sql(&bed, "CREATE FUNCTION @_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
        hf_bed_sql(&bed, "CREATE TRIGGER t BEFORE INSERT ON @_dead FOR EACH ROW EXECUTE PROCEDURE @_f()");
        hf_bed_plan(&bed, NULL, 0);
        add(&bed, "'g'", "one");
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "no"), HF_DATABASE);
        CU_ASSERT_EQUAL(n_alive(&bed), 1);
        hf_bed_close(&bed);
    }
}

/* ---- what a handler hands back ---- */

/* A reason with NUL and bytes that are no text is cleaned and cut to the column where the dead letter keeps it. */
static void check_reason(const struct scene *scene)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    hf_bed_open(&bed, scene->database, rest_of(scene, 1));
    add(&bed, "'g'", "one");
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
    struct hf__change change = {.row = row, .action = HF__RETRY, .reason = "a\0b\xff", .reason_len = 4};
    HF_TEST_OK(bed.strategy->settle(bed.plan, bed.conn, &change, 1, hf_bed_soon(), &bed.err), &bed.err);
    hf__row_free(row);
    CU_ASSERT_EQUAL(n_dead(&bed, scene, "last_error = 'a?b?'"), 1);
    if (scene->place == TABLE && scene->database != HF__SQLITE) {
        hf_bed_sql(&bed, "DELETE FROM @_dead");
        hf_bed_sql(&bed, scene->database == HF__MYSQL ? "ALTER TABLE @_dead MODIFY last_error VARCHAR(5)"
                                                      : "ALTER TABLE @_dead ALTER last_error TYPE varchar(5)");
        hf_bed_plan(&bed, NULL, 0);
        add(&bed, "'g'", "two");
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__REJECT, "much too long"), HF_OK);
        CU_ASSERT_EQUAL(n_dead(&bed, scene, "last_error = 'much '"), 1);
    }
    hf_bed_close(&bed);
}

static void test_reason(void)
{
    for_each(check_reason);
}

/* A delay past what a TIMESTAMP holds is a clear error; the row comes again, and its attempt is not lost. */
static void test_far_future(void)
{
    for (int kind = HF__ROW_LOCK; kind <= HF__LEASE; kind++) {
        struct hf_test_bed bed;
        struct hf__row *row;
        hf_bed_describe(&bed, HF__MYSQL, described[kind], true);
        hf_bed_sql(&bed, "ALTER TABLE @ MODIFY retry_after TIMESTAMP NULL");
        hf_bed_plan(&bed, NULL, 0);
        add(&bed, "'g'", "one");
        add(&bed, "'g'", "two");
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        struct hf__change change = {.row = row, .action = HF__RETRY_AFTER, .delay_us = 20 * INT64_C(31557600000000)};
        CU_ASSERT_EQUAL(bed.strategy->settle(bed.plan, bed.conn, &change, 1, hf_bed_soon(), &bed.err), HF_DATABASE);
        CU_ASSERT_EQUAL(change.status, HF_DATABASE);
        CU_ASSERT_PTR_NOT_NULL(strstr(bed.err.message, "retry_after"));
        hf__row_free(row);
        CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @ WHERE attempt = 2"), 1);
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1); /* the next row goes on */
        CU_ASSERT_EQUAL(row->attempt, 1);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, HF__ACK, NULL), HF_OK);
        hf_bed_close(&bed);
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"max_attempts 1, 2, 3", test_max_attempts},
        {"rows given back", test_given_back},
        {"reject", test_reject},
        {"a row that is not ours", test_not_ours},
        {"rows whose last run crashed", test_buried},
        {"rows that cannot be moved", test_unmovable},
        {"rows that are passed over", test_passed_over},
        {"outcomes that are refused", test_refused},
        {"rows without a key", test_keyless},
        {"a subscription that names the dead", test_named},
        {"a subscription over all groups", test_left_out},
        {"many at once", test_together},
        {"counts", test_counts},
        {"requeue", test_requeue},
        {"requeue of many", test_requeue_many},
        {"requeue refused", test_requeue_refused},
        {"requeue of locked rows", test_requeue_locked},
        {"the start check", test_start_check},
        {"not the table itself", test_not_itself},
        {"further columns", test_further_columns},
        {"a swallowed dead letter", test_swallowed},
        {"reasons", test_reason},
        {"a delay that does not fit", test_far_future},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "dead_letter", tests);
}
