/* The pool with real threads, on the fake driver. The faults that users of other pools reported are named at the tests that
 * stand against them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/pool_inner.h"
#include "tests/fake_driver.h"
#include "tests/support.h"

#define LONG_MS INT64_C(20000) /* for what must happen; a failing test takes that long */

static hf_error error;
static struct hf__pool_snapshot snapshot;

static struct hf__pool_options options_of(size_t size)
{
    return (struct hf__pool_options){.driver = &fake_driver, .size = size, .backoff_min_ms = 1, .backoff_max_ms = 4};
}

static struct hf__pool *open_with(const struct hf__pool_options *options)
{
    struct hf__pool *pool = NULL;
    fake_server_reset();
    HF_TEST_OK(hf__pool_open(options, &pool, &error), &error);
    return pool;
}

static struct hf__pool *open_pool(size_t size)
{
    struct hf__pool_options options = options_of(size);
    return open_with(&options);
}

static void close_pool(struct hf__pool *pool)
{
    hf__pool_shut(pool);
    CU_ASSERT_FATAL(hf__pool_drained(pool, hf__after_ms(LONG_MS)));
    hf__pool_close(pool);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.open), 0);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.misuses), 0);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.thread_begins), 1);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.thread_ends), 1);
}

static struct hf__checkout *get(struct hf__pool *pool, enum hf__purpose purpose)
{
    struct hf__checkout *checkout = NULL;
    HF_TEST_OK(hf__pool_acquire(pool, purpose, hf__after_ms(LONG_MS), &checkout, &error), &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(checkout);
    return checkout;
}

static struct hf__checkout *try_get(struct hf__pool *pool, enum hf__purpose purpose)
{
    struct hf__checkout *checkout = NULL;
    HF_TEST_OK(hf__pool_try_acquire(pool, purpose, hf__after_ms(LONG_MS), &checkout, &error), &error);
    return checkout;
}

static void expect_timeout(struct hf__pool *pool, enum hf__purpose purpose, int64_t ms)
{
    struct hf__checkout *checkout = NULL;
    int64_t began = hf_test_now_ms();
    HF_TEST_STATUS(hf__pool_acquire(pool, purpose, hf__after_ms(ms), &checkout, &error), HF_TIMEOUT, &error);
    int64_t took = hf_test_now_ms() - began;
    CU_ASSERT(took >= ms - 1 && took < ms + LONG_MS);
    CU_ASSERT_PTR_NULL(checkout);
}

static const struct hf__pool_snapshot *look(struct hf__pool *pool)
{
    hf__pool_snapshot(pool, &snapshot);
    return &snapshot;
}

/* Waiting for a state that other threads bring about. */
struct expectation {
    struct hf__pool *pool;
    size_t number;
};

static bool has_waiting(void *arg)
{
    const struct expectation *expected = arg;
    return look(expected->pool)->waiting == expected->number;
}

static bool has_open(void *arg)
{
    const struct expectation *expected = arg;
    return look(expected->pool)->open == expected->number;
}

static void wait_for(bool (*check)(void *arg), struct hf__pool *pool, size_t number)
{
    struct expectation expected = {pool, number};
    CU_ASSERT_FATAL(hf_test_wait_until(check, &expected, LONG_MS));
}

static bool gate_holds(void *arg)
{
    return fake_gate_held(*(enum fake_gate *)arg) > 0;
}

static void wait_for_gate(enum fake_gate gate)
{
    CU_ASSERT_FATAL(hf_test_wait_until(gate_holds, &gate, LONG_MS));
}

/* A thread that acquires, notes its place in the order of having, and gives back. */
struct taker {
    struct hf__pool *pool;
    int64_t timeout_ms;
    atomic_int *places;
    pthread_t thread;
    struct hf__checkout *checkout;
    enum hf__purpose purpose;
    int place;
    bool keeps; /* does not give back: the test does */
    hf_status status;
    hf_error error;
};

static void *take(void *arg)
{
    struct taker *taker = arg;
    struct hf__deadline deadline = hf__after_ms(taker->timeout_ms);
    taker->status = hf__pool_acquire(taker->pool, taker->purpose, deadline, &taker->checkout, &taker->error);
    if (taker->places != NULL) {
        taker->place = atomic_fetch_add(taker->places, 1);
    }
    if (taker->checkout != NULL && !taker->keeps) {
        hf__pool_release(taker->checkout);
    }
    return NULL;
}

static void start(struct taker *taker)
{
    taker->timeout_ms = taker->timeout_ms == 0 ? LONG_MS : taker->timeout_ms;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&taker->thread, NULL, take, taker), 0);
}

static void join(struct taker *taker)
{
    CU_ASSERT_EQUAL_FATAL(pthread_join(taker->thread, NULL), 0);
}

/* Using it. */

static void test_reuses_the_last(void)
{
    struct hf__pool *pool = open_pool(3);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.connects), 0);
    struct hf__checkout *a = get(pool, HF__PURPOSE_CLAIM);
    struct hf__checkout *b = get(pool, HF__PURPOSE_SETTLE);
    CU_ASSERT_EQUAL(look(pool)->in_use, 2);
    CU_ASSERT_EQUAL(hf__pool_in_use(pool, HF__PURPOSE_SETTLE), 1);
    struct hf__conn *last = hf__checkout_conn(b);
    hf__pool_release(a);
    hf__pool_release(b);
    a = get(pool, HF__PURPOSE_CLAIM);
    CU_ASSERT_PTR_EQUAL(hf__checkout_conn(a), last);
    hf__pool_release(a);
    CU_ASSERT_EQUAL(look(pool)->idle, 2);
    CU_ASSERT_EQUAL(snapshot.opened, 2);
    CU_ASSERT_EQUAL(snapshot.peak_open, 2);
    CU_ASSERT_EQUAL(snapshot.peak_in_use, 2);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_CLAIM].count, 2);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_CLAIM].peak, 1);
    close_pool(pool);
}

static void test_refuses_bad_options(void)
{
    struct hf__pool *pool = NULL;
    struct hf__pool_options options = options_of(0);
    HF_TEST_STATUS(hf__pool_open(&options, &pool, &error), HF_INVALID, &error);
    options = options_of(2);
    options.reserved = 2;
    HF_TEST_STATUS(hf__pool_open(&options, &pool, &error), HF_INVALID, &error);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "2"));
    options = options_of(2);
    options.keepalive_ms = -3;
    HF_TEST_STATUS(hf__pool_open(&options, &pool, &error), HF_INVALID, &error);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "keepalive_ms is -3"));
    options = options_of(2);
    options.driver = NULL;
    HF_TEST_STATUS(hf__pool_open(&options, &pool, &error), HF_INVALID, &error);
    CU_ASSERT_PTR_NULL(pool);
    hf__pool_close(NULL);
}

/* The ledger splits the seconds at the moment of the switch. */
static void test_purpose_switch(void)
{
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    expect_timeout(pool, HF__PURPOSE_ADMIN, 60);
    hf__checkout_purpose(checkout, HF__PURPOSE_ROW_LOCK);
    expect_timeout(pool, HF__PURPOSE_ADMIN, 30);
    double claim = look(pool)->ledger.line[HF__PURPOSE_CLAIM].seconds;
    double row_lock = snapshot.ledger.line[HF__PURPOSE_ROW_LOCK].seconds;
    CU_ASSERT(claim >= 0.059);
    CU_ASSERT(row_lock >= 0.029);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_CLAIM].in_use, 0);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_ROW_LOCK].in_use, 1);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_ADMIN].timeouts, 2);
    expect_timeout(pool, HF__PURPOSE_ADMIN, 20);
    CU_ASSERT_EQUAL(look(pool)->ledger.line[HF__PURPOSE_CLAIM].seconds, claim);
    CU_ASSERT(snapshot.ledger.line[HF__PURPOSE_ROW_LOCK].seconds >= row_lock + 0.019);
    hf__pool_release(checkout);
    close_pool(pool);
}

/* Order. */

/* HikariCP#1909, pgagroal#1006: newcomers steal freed connections. */
static void test_first_come_first_served(void)
{
    atomic_int places = 0;
    struct taker takers[5];
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    for (size_t i = 0; i < 5; i++) {
        takers[i] = (struct taker){.pool = pool, .purpose = HF__PURPOSE_CLAIM, .places = &places};
        start(&takers[i]);
        wait_for(has_waiting, pool, i + 1);
    }
    CU_ASSERT_PTR_NULL(try_get(pool, HF__PURPOSE_CLAIM));
    hf__pool_release(checkout);
    for (size_t i = 0; i < 5; i++) {
        join(&takers[i]);
        HF_TEST_OK(takers[i].status, &takers[i].error);
        CU_ASSERT_EQUAL(takers[i].place, (int)i);
    }
    CU_ASSERT_EQUAL(look(pool)->opened, 1);
    close_pool(pool);
}

static void test_renewals_go_first(void)
{
    atomic_int places = 0;
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct taker claim = {.pool = pool, .purpose = HF__PURPOSE_CLAIM, .places = &places};
    struct taker renew = {.pool = pool, .purpose = HF__PURPOSE_RENEW, .places = &places};
    start(&claim);
    wait_for(has_waiting, pool, 1);
    start(&renew);
    wait_for(has_waiting, pool, 2);
    hf__pool_release(checkout);
    join(&renew);
    join(&claim);
    CU_ASSERT_EQUAL(renew.place, 0);
    CU_ASSERT_EQUAL(claim.place, 1);
    close_pool(pool);
}

/* workhorse#121: the heartbeat starves behind busy handlers. */
static void test_reserved_for_renew(void)
{
    struct hf__pool_options options = options_of(3);
    options.reserved = 1;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *a = get(pool, HF__PURPOSE_HANDLER);
    struct hf__checkout *b = get(pool, HF__PURPOSE_ROW_LOCK);
    CU_ASSERT_PTR_NULL(try_get(pool, HF__PURPOSE_HANDLER));
    expect_timeout(pool, HF__PURPOSE_HANDLER, 20);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "reserved for renew"));
    struct hf__checkout *renew = get(pool, HF__PURPOSE_RENEW);
    hf__pool_release(renew);
    CU_ASSERT_PTR_NULL(try_get(pool, HF__PURPOSE_HANDLER)); /* one is idle now, and it is still reserved */
    hf__pool_release(a);
    a = try_get(pool, HF__PURPOSE_HANDLER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    hf__pool_release(a);
    hf__pool_release(b);
    close_pool(pool);
}

/* Time. */

/* HikariCP#442: a second connection for one who holds the only one. It is told after its deadline, with who has what. */
static void test_second_checkout(void)
{
    struct hf__pool *pool = open_pool(4);
    struct hf__checkout *held[4];
    for (size_t i = 0; i < 4; i++) {
        held[i] = get(pool, HF__PURPOSE_ROW_LOCK);
    }
    hf__checkout_purpose(held[0], HF__PURPOSE_CLAIM);
    expect_timeout(pool, HF__PURPOSE_HANDLER, 50);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "the pool's 4 connections are out for row_lock 3, claim 1; raise the pool's size"));
    CU_ASSERT_EQUAL(look(pool)->ledger.line[HF__PURPOSE_HANDLER].timeouts, 1);
    CU_ASSERT_EQUAL(snapshot.waiting, 0);
    for (size_t i = 0; i < 4; i++) {
        hf__pool_release(held[i]);
    }
    close_pool(pool);
}

/* asyncpg#1052: a timeout races with the hand-off and leaks the connection. */
static void test_timeout_against_hand_off(void)
{
    struct hf__pool *pool = open_pool(1);
    int had = 0;
    for (int round = 0; round < 150; round++) {
        struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
        struct taker taker = {.pool = pool, .purpose = HF__PURPOSE_SETTLE, .timeout_ms = 1 + round % 3};
        start(&taker);
        struct hf__checkout *none = NULL;
        hf_status status = hf__pool_acquire(pool, HF__PURPOSE_ADMIN, hf__after_ms(taker.timeout_ms), &none, NULL);
        CU_ASSERT_EQUAL_FATAL(status, HF_TIMEOUT);
        hf__pool_release(checkout);
        join(&taker);
        had += taker.status == HF_OK ? 1 : 0;
        CU_ASSERT_FATAL(taker.status == HF_OK || taker.status == HF_TIMEOUT);
        CU_ASSERT_EQUAL_FATAL(look(pool)->in_use, 0);
        CU_ASSERT_EQUAL_FATAL(snapshot.idle, 1);
    }
    CU_ASSERT(had < 150);
    close_pool(pool);
}

static void test_connect_timeout(void)
{
    struct hf__pool_options options = options_of(1);
    struct hf__checkout *checkout = NULL;
    options.connect_timeout_ms = 50;
    struct hf__pool *pool = open_with(&options);
    fake_gate_shut(FAKE_CONNECT);
    int64_t began = hf_test_now_ms();
    HF_TEST_STATUS(hf__pool_acquire(pool, HF__PURPOSE_CLAIM, hf__after_ms(LONG_MS), &checkout, &error), HF_TIMEOUT, &error);
    int64_t took = hf_test_now_ms() - began;
    CU_ASSERT(took >= 49 && took < LONG_MS);
    CU_ASSERT_EQUAL(look(pool)->connect_failures, 1);
    expect_timeout(pool, HF__PURPOSE_CLAIM, 20); /* cut by its own deadline: says nothing of the server */
    CU_ASSERT_EQUAL(look(pool)->connect_failures, 1);
    CU_ASSERT_EQUAL(snapshot.ledger.line[HF__PURPOSE_CLAIM].timeouts, 1);
    fake_gate_open(FAKE_CONNECT);
    hf__pool_release(get(pool, HF__PURPOSE_CLAIM));
    close_pool(pool);
}

/* Failing connects. */

/* puddle#7, reactor-pool#82: a connect fails and the next waiter is never woken. */
static void test_failed_connect_wakes_the_next(void)
{
    struct hf__pool *pool = open_pool(1);
    fake_gate_shut(FAKE_CONNECT);
    struct taker first = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    struct taker second = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    start(&first);
    wait_for_gate(FAKE_CONNECT);
    start(&second);
    wait_for(has_waiting, pool, 1);
    atomic_store(&fake_server.refusals_left, 1);
    fake_gate_open(FAKE_CONNECT);
    join(&first);
    join(&second);
    HF_TEST_STATUS(first.status, HF_UNREACHABLE, &first.error);
    HF_TEST_OK(second.status, &second.error);
    CU_ASSERT_EQUAL(look(pool)->connect_failures, 1);
    close_pool(pool);
}

/* With a connection open elsewhere the failed one waits for that, in its old place. */
static void test_failed_connect_waits_on(void)
{
    atomic_int places = 0;
    struct hf__pool_options options = options_of(2);
    options.backoff_min_ms = 60000;
    options.backoff_max_ms = 60000;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct taker first = {.pool = pool, .purpose = HF__PURPOSE_CLAIM, .places = &places};
    struct taker second = {.pool = pool, .purpose = HF__PURPOSE_CLAIM, .places = &places};
    atomic_store(&fake_server.refusal, HF_TRANSIENT);
    fake_gate_shut(FAKE_CONNECT);
    start(&first);
    wait_for_gate(FAKE_CONNECT);
    start(&second);
    wait_for(has_waiting, pool, 1);
    fake_gate_open(FAKE_CONNECT);
    wait_for(has_waiting, pool, 2);
    hf__pool_release(checkout);
    join(&first);
    join(&second);
    HF_TEST_OK(first.status, &first.error);
    HF_TEST_OK(second.status, &second.error);
    CU_ASSERT(first.place < second.place);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.connects), 2);
    close_pool(pool);
}

/* What the connect said is worth more than "timed out". */
static void test_connect_error_at_the_deadline(void)
{
    struct hf__pool_options options = options_of(2);
    options.backoff_min_ms = 60000;
    options.backoff_max_ms = 60000;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct hf__checkout *none = NULL;
    atomic_store(&fake_server.refusal, HF_DENIED);
    HF_TEST_STATUS(hf__pool_acquire(pool, HF__PURPOSE_CLAIM, hf__after_ms(30), &none, &error), HF_DENIED, &error);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "no connection within"));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "the fake server refuses"));
    hf__checkout_conn(checkout)->retire = true;
    hf__pool_release(checkout);
    /* One who did not try itself is told the pool's last failure, when nothing is open. */
    HF_TEST_STATUS(hf__pool_acquire(pool, HF__PURPOSE_CLAIM, hf__after_ms(30), &none, &error), HF_DENIED, &error);
    CU_ASSERT_PTR_NULL(try_get(pool, HF__PURPOSE_CLAIM));
    CU_ASSERT_EQUAL(look(pool)->connect_failures, 1);
    close_pool(pool);
}

static void count_event(void *ctx, const char *message)
{
    atomic_int *counts = ctx;
    atomic_fetch_add(&counts[strstr(message, "can be reached again") != NULL ? 1 : 0], 1);
}

/* HikariCP#1819, psycopg#1315: the pool never recovers after a server restart. */
static void test_recovers_from_a_restart(void)
{
    atomic_int events[2] = {0, 0};
    struct hf__pool_options options = options_of(4);
    options.idle_check_ms = 10 * LONG_MS;
    options.event = count_event;
    options.event_ctx = events;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *held[4];
    for (size_t i = 0; i < 4; i++) {
        held[i] = get(pool, HF__PURPOSE_CLAIM);
    }
    for (size_t i = 0; i < 4; i++) {
        hf__pool_release(held[i]);
    }
    fake_server_restart();
    atomic_store(&fake_server.refusal, HF_UNREACHABLE);
    held[0] = get(pool, HF__PURPOSE_CLAIM); /* sat for less than idle_check_ms: handed out unchecked, and found dead in use */
    CU_ASSERT_EQUAL(hf__conn_exec(hf__checkout_conn(held[0]), "SELECT 1", hf__never(), NULL), HF_LOST);
    hf__pool_release(held[0]);
    for (int i = 0; i < 10; i++) {
        struct hf__checkout *none = NULL;
        HF_TEST_STATUS(hf__pool_acquire(pool, HF__PURPOSE_CLAIM, hf__after_ms(LONG_MS), &none, &error), HF_UNREACHABLE, &error);
    }
    CU_ASSERT_EQUAL(look(pool)->open, 0);
    CU_ASSERT_EQUAL(snapshot.broken, 4);
    atomic_store(&fake_server.refusal, HF_OK);
    held[0] = get(pool, HF__PURPOSE_CLAIM);
    CU_ASSERT_EQUAL(hf__conn_exec(hf__checkout_conn(held[0]), "SELECT 1", hf__never(), NULL), HF_OK);
    hf__pool_release(held[0]);
    CU_ASSERT_EQUAL(atomic_load(&events[0]), (int)look(pool)->connect_failures);
    CU_ASSERT_EQUAL(atomic_load(&events[1]), 1);
    close_pool(pool);
}

/* Returning. */

static void *give_back(void *arg)
{
    hf__pool_release(arg);
    return NULL;
}

/* pgx#2425: a connection that is closing on the client still counts on the server. */
static void test_closing_counts(void)
{
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct taker next = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    hf__checkout_conn(checkout)->retire = true;
    fake_gate_shut(FAKE_CLOSE);
    start(&next);
    wait_for(has_waiting, pool, 1);
    pthread_t releaser;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&releaser, NULL, give_back, checkout), 0);
    wait_for_gate(FAKE_CLOSE);
    CU_ASSERT_EQUAL(look(pool)->closing, 1);
    expect_timeout(pool, HF__PURPOSE_CLAIM, 30);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.connects), 1);
    fake_gate_open(FAKE_CLOSE);
    CU_ASSERT_EQUAL_FATAL(pthread_join(releaser, NULL), 0);
    join(&next);
    HF_TEST_OK(next.status, &next.error);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.most_open), 1);
    close_pool(pool);
}

/* Runs one checkout through `spoil`, and returns whether its connection came back to idle. */
static bool comes_back_after(struct hf__pool *pool, void (*spoil)(struct hf__checkout *checkout))
{
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_HANDLER);
    spoil(checkout);
    hf__pool_release(checkout);
    return look(pool)->idle == 1;
}

static void lose(struct hf__checkout *checkout)
{
    hf__checkout_conn(checkout)->lost = true;
}

static void retire(struct hf__checkout *checkout)
{
    hf__checkout_conn(checkout)->retire = true;
}

static void leave_transaction(struct hf__checkout *checkout)
{
    fake_begin(hf__checkout_conn(checkout));
}

static void leave_stuck_transaction(struct hf__checkout *checkout)
{
    fake_begin(hf__checkout_conn(checkout));
    fake_stuck(hf__checkout_conn(checkout));
}

static void leave_dead_transaction(struct hf__checkout *checkout)
{
    fake_begin(hf__checkout_conn(checkout));
    fake_kill(hf__checkout_conn(checkout));
}

static void touch(struct hf__checkout *checkout)
{
    fake_begin(hf__checkout_conn(checkout));
    hf__checkout_touched(checkout);
}

static void touch_stuck(struct hf__checkout *checkout)
{
    touch(checkout);
    fake_stuck(hf__checkout_conn(checkout));
}

static void do_nothing(struct hf__checkout *checkout)
{
    (void)checkout;
}

/* pgbouncer#717 (a timed out statement sets lost), HikariCP#1748 (read-only sets retire), pgdog#1407, and open transactions. */
static void test_what_comes_back(void)
{
    struct hf__pool *pool = open_pool(1);
    CU_ASSERT_FALSE(comes_back_after(pool, lose));
    CU_ASSERT_EQUAL(snapshot.broken, 1);
    CU_ASSERT_FALSE(comes_back_after(pool, retire));
    CU_ASSERT_EQUAL(snapshot.broken, 1);
    CU_ASSERT_FALSE(comes_back_after(pool, leave_stuck_transaction));
    CU_ASSERT_FALSE(comes_back_after(pool, touch_stuck));
    CU_ASSERT_EQUAL(snapshot.broken, 1);
    CU_ASSERT_FALSE(comes_back_after(pool, leave_dead_transaction));
    CU_ASSERT_EQUAL(snapshot.broken, 2);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.rollbacks), 2);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.resets), 1);
    CU_ASSERT(comes_back_after(pool, leave_transaction));
    CU_ASSERT_EQUAL(atomic_load(&fake_server.rollbacks), 3);
    CU_ASSERT(comes_back_after(pool, touch));
    CU_ASSERT_EQUAL(atomic_load(&fake_server.resets), 2);
    CU_ASSERT(comes_back_after(pool, do_nothing)); /* touched is of one checkout */
    CU_ASSERT_EQUAL(atomic_load(&fake_server.rollbacks), 3);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.resets), 2);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    CU_ASSERT_EQUAL(hf__conn_transaction(hf__checkout_conn(checkout)), HF__TX_NONE);
    hf__pool_release(checkout);
    CU_ASSERT_EQUAL(look(pool)->opened, 6);
    close_pool(pool);
}

/* Idle. */

static bool is_older_than_2_ms(void *arg)
{
    return hf_test_now_ms() > *(int64_t *)arg + 2;
}

static void test_idle_is_checked(void)
{
    struct hf__pool_options options = options_of(2);
    options.idle_check_ms = 1;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct hf__conn *conn = hf__checkout_conn(checkout);
    hf__pool_release(checkout);
    int64_t released = hf_test_now_ms();
    CU_ASSERT(hf_test_wait_until(is_older_than_2_ms, &released, LONG_MS));
    checkout = get(pool, HF__PURPOSE_CLAIM);
    CU_ASSERT_PTR_EQUAL(hf__checkout_conn(checkout), conn);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.pings), 1);
    hf__pool_release(checkout);
    fake_kill(conn);
    atomic_store(&fake_server.silent, true); /* only the ping tells */
    released = hf_test_now_ms();
    CU_ASSERT(hf_test_wait_until(is_older_than_2_ms, &released, LONG_MS));
    checkout = get(pool, HF__PURPOSE_CLAIM);
    CU_ASSERT_FALSE(fake_is_dead(hf__checkout_conn(checkout)));
    CU_ASSERT_EQUAL(look(pool)->broken, 1);
    CU_ASSERT_EQUAL(snapshot.opened, 2);
    hf__pool_release(checkout);
    close_pool(pool);
}

/* True if a caller whose deadline passes while the ping is under way got the connection all the same. */
static bool hurried_caller_gets_it(struct hf__pool *pool)
{
    struct taker taker = {.pool = pool, .purpose = HF__PURPOSE_CLAIM, .timeout_ms = 1};
    hf__pool_release(get(pool, HF__PURPOSE_CLAIM));
    int64_t now = hf_test_now_ms();
    CU_ASSERT(hf_test_wait_until(is_older_than_2_ms, &now, LONG_MS));
    uint64_t opened = look(pool)->opened;
    fake_gate_shut(FAKE_PING);
    start(&taker);
    wait_for_gate(FAKE_PING);
    now = hf_test_now_ms();
    CU_ASSERT(hf_test_wait_until(is_older_than_2_ms, &now, LONG_MS));
    fake_gate_open(FAKE_PING);
    join(&taker);
    return taker.status == HF_OK && look(pool)->opened == opened;
}

/* A caller in a hurry does not cost a good connection. Its check gets a quarter of a second, which a busy machine may miss. */
static void test_hurried_check(void)
{
    struct hf__pool_options options = options_of(1);
    options.idle_check_ms = 1;
    struct hf__pool *pool = open_with(&options);
    bool got = false;
    for (int round = 0; round < 20 && !got; round++) {
        got = hurried_caller_gets_it(pool);
    }
    CU_ASSERT(got);
    close_pool(pool);
}

static void open_and_release(struct hf__pool *pool, size_t n)
{
    struct hf__checkout *held[8];
    for (size_t i = 0; i < n; i++) {
        held[i] = get(pool, HF__PURPOSE_CLAIM);
    }
    for (size_t i = 0; i < n; i++) {
        hf__pool_release(held[i]);
    }
}

static void test_keeper_closes_idle(void)
{
    struct hf__pool_options options = options_of(8);
    options.idle_close_ms = 30;
    struct hf__pool *pool = open_with(&options);
    open_and_release(pool, 8);
    wait_for(has_open, pool, 0);
    CU_ASSERT_EQUAL(look(pool)->closed, 8);
    CU_ASSERT_EQUAL(snapshot.broken, 0);
    close_pool(pool);
}

/* sqlx#3292: all connections expire together. */
static void test_lifetime_has_jitter(void)
{
    struct hf__pool_options options = options_of(8);
    options.max_lifetime_ms = 1500;
    options.idle_close_ms = -1;
    struct hf__pool *pool = open_with(&options);
    int64_t soonest = INT64_MAX;
    int64_t latest = 0;
    int64_t began = hf__monotonic_ns();
    open_and_release(pool, 8);
    pthread_mutex_lock(&pool->mutex);
    const struct hf__slot *slot;
    TAILQ_FOREACH (slot, &pool->core.slots[HF__SLOT_IDLE].head, link) {
        soonest = slot->expires_ns < soonest ? slot->expires_ns : soonest;
        latest = slot->expires_ns > latest ? slot->expires_ns : latest;
    }
    pthread_mutex_unlock(&pool->mutex);
    CU_ASSERT(latest - soonest > 1000000);
    CU_ASSERT(soonest >= began + 1200000000);
    wait_for(has_open, pool, 0);
    CU_ASSERT(hf__monotonic_ns() >= latest);
    close_pool(pool);
}

static void test_lifetime_at_release(void)
{
    struct hf__pool_options options = options_of(1);
    options.max_lifetime_ms = 20;
    struct hf__pool *pool = open_with(&options);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    expect_timeout(pool, HF__PURPOSE_CLAIM, 25);
    hf__pool_release(checkout);
    CU_ASSERT_EQUAL(look(pool)->open, 0);
    close_pool(pool);
}

/* Pinned. */

struct loss {
    atomic_int calls;
    sigset_t mask;
};

static void note_loss(void *ctx)
{
    struct loss *loss = ctx;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &loss->mask);
    atomic_fetch_add(&loss->calls, 1);
}

static bool was_lost(void *arg)
{
    return atomic_load(&((struct loss *)arg)->calls) > 0;
}

static bool has_pinged(void *arg)
{
    (void)arg;
    return atomic_load(&fake_server.pings) >= 3;
}

static struct hf__pool *open_keeping(size_t size, int64_t keepalive_ms)
{
    struct hf__pool_options options = options_of(size);
    options.keepalive_ms = keepalive_ms;
    return open_with(&options);
}

/* iTop#209: the lock is lost silently. */
static void test_pinned_and_lost(void)
{
    struct loss loss = {.calls = 0};
    struct hf__pool *pool = open_keeping(1, 50);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_ADVISORY_LOCK);
    hf__checkout_pin(checkout, note_loss, &loss);
    CU_ASSERT(hf_test_wait_until(has_pinged, NULL, LONG_MS));
    CU_ASSERT_EQUAL(atomic_load(&loss.calls), 0);
    fake_kill(hf__checkout_conn(checkout));
    CU_ASSERT(hf_test_wait_until(was_lost, &loss, LONG_MS));
    CU_ASSERT_EQUAL(sigismember(&loss.mask, SIGTERM), 1);
    CU_ASSERT_EQUAL(sigismember(&loss.mask, SIGSEGV), 0);
    int looks = atomic_load(&fake_server.looks);
    expect_timeout(pool, HF__PURPOSE_LISTEN, 30);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.looks), looks); /* a lost one is not looked at again */
    CU_ASSERT_EQUAL(atomic_load(&loss.calls), 1);
    CU_ASSERT_FALSE(hf__checkout_unpin(checkout));
    hf__pool_release(checkout);
    CU_ASSERT_EQUAL(look(pool)->broken, 1);
    close_pool(pool);
}

/* A server that goes silent is found by the ping. */
static void test_pinned_and_silent(void)
{
    struct loss loss = {.calls = 0};
    struct hf__pool *pool = open_keeping(1, 20);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_ADVISORY_LOCK);
    atomic_store(&fake_server.silent, true);
    fake_kill(hf__checkout_conn(checkout));
    hf__checkout_pin(checkout, note_loss, &loss);
    CU_ASSERT(hf_test_wait_until(was_lost, &loss, LONG_MS));
    CU_ASSERT_FALSE(hf__checkout_unpin(checkout));
    hf__checkout_pin(checkout, NULL, NULL); /* of a lost one: nobody to tell, nothing to do */
    hf__pool_release(checkout);             /* which unpins */
    close_pool(pool);
}

static bool is_done(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

struct unpinner {
    struct hf__checkout *checkout;
    atomic_bool done;
    bool alive;
};

static void *unpin(void *arg)
{
    struct unpinner *unpinner = arg;
    unpinner->alive = hf__checkout_unpin(unpinner->checkout);
    atomic_store(&unpinner->done, true);
    return NULL;
}

/* True if unpin came back only after the ping, which had its answer within its two seconds. */
static bool unpin_waits(struct hf__pool *pool)
{
    struct unpinner unpinner = {.checkout = get(pool, HF__PURPOSE_ROW_LOCK)};
    pthread_t thread;
    fake_gate_shut(FAKE_PING);
    hf__checkout_pin(unpinner.checkout, NULL, NULL);
    wait_for_gate(FAKE_PING);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, unpin, &unpinner), 0);
    bool early = hf_test_wait_until(is_done, &unpinner.done, 30);
    fake_gate_open(FAKE_PING);
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, NULL), 0);
    hf__pool_release(unpinner.checkout);
    return !early && unpinner.alive;
}

static void test_unpin_waits_for_the_ping(void)
{
    struct hf__pool *pool = open_keeping(1, 20);
    bool waits = false;
    for (int round = 0; round < 5 && !waits; round++) {
        waits = unpin_waits(pool);
    }
    CU_ASSERT(waits);
    close_pool(pool);
}

/* Pinning and unpinning while the keeper looks: never two threads in one connection, which close_pool checks. */
static void test_pinning_all_the_time(void)
{
    struct hf__pool *pool = open_keeping(1, 1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_ROW_LOCK);
    struct loss loss = {.calls = 0};
    for (int i = 0; i < 20000 || atomic_load(&fake_server.looks) < 20; i++) {
        hf__checkout_pin(checkout, note_loss, &loss);
        CU_ASSERT_FATAL(hf__checkout_unpin(checkout));
        CU_ASSERT_EQUAL_FATAL(hf__conn_exec(hf__checkout_conn(checkout), "", hf__never(), NULL), HF_OK);
    }
    CU_ASSERT_EQUAL(atomic_load(&loss.calls), 0);
    hf__pool_release(checkout);
    close_pool(pool);
}

static bool has_looked(void *arg)
{
    (void)arg;
    return atomic_load(&fake_server.looks) >= 4 * 5;
}

static bool keeper_sleeps(void *arg)
{
    struct hf__pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    bool sleeps = pool->keeper_wakes_ns == INT64_MAX;
    pthread_mutex_unlock(&pool->mutex);
    return sleeps;
}

/* Nothing to do: the keeper sleeps for ever. Something: it wakes ten times in a keepalive, however many are pinned. */
static void test_keeper_sleeps(void)
{
    struct hf__pool *pool = open_keeping(4, 500);
    CU_ASSERT(hf_test_wait_until(keeper_sleeps, pool, LONG_MS));
    struct hf__checkout *held[4];
    for (size_t i = 0; i < 4; i++) {
        held[i] = get(pool, HF__PURPOSE_ROW_LOCK);
        hf__checkout_pin(held[i], NULL, NULL);
    }
    CU_ASSERT_FALSE(keeper_sleeps(pool));
    int64_t began = hf_test_now_ms();
    CU_ASSERT(hf_test_wait_until(has_looked, NULL, LONG_MS));
    int looks = atomic_load(&fake_server.looks);
    int64_t intervals = (hf_test_now_ms() - began) / 50 + 2;
    CU_ASSERT(looks <= (int)(4 * intervals));
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT(hf__checkout_unpin(held[i]));
        retire(held[i]);
        hf__pool_release(held[i]);
    }
    CU_ASSERT(hf_test_wait_until(keeper_sleeps, pool, LONG_MS));
    close_pool(pool);
}

/* Size and end. */

static void test_resize(void)
{
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *held[4] = {get(pool, HF__PURPOSE_CLAIM)};
    struct taker taker = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    start(&taker);
    wait_for(has_waiting, pool, 1);
    hf__pool_resize(pool, 4, 0);
    join(&taker);
    HF_TEST_OK(taker.status, &taker.error);
    for (size_t i = 1; i < 4; i++) {
        held[i] = get(pool, HF__PURPOSE_CLAIM);
    }
    hf__pool_release(held[3]);
    CU_ASSERT_EQUAL(look(pool)->open, 4);
    hf__pool_resize(pool, 2, 1);
    CU_ASSERT_EQUAL(look(pool)->open, 3); /* the idle one at once */
    hf__pool_release(held[2]);
    CU_ASSERT_EQUAL(look(pool)->open, 2);
    CU_ASSERT_PTR_NULL(try_get(pool, HF__PURPOSE_CLAIM));
    hf__pool_release(held[1]);
    CU_ASSERT_EQUAL(look(pool)->idle, 1);
    hf__pool_release(held[0]);
    CU_ASSERT_EQUAL(look(pool)->idle, 2);
    hf__pool_resize(pool, 0, 7); /* never below one, and one for the others */
    CU_ASSERT_EQUAL(look(pool)->size, 1);
    CU_ASSERT_EQUAL(snapshot.reserved, 0);
    CU_ASSERT_EQUAL(snapshot.open, 1);
    close_pool(pool);
}

static void test_shut(void)
{
    struct hf__pool *pool = open_pool(3);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    hf__pool_release(get(pool, HF__PURPOSE_CLAIM));
    struct hf__checkout *other = get(pool, HF__PURPOSE_CLAIM);
    fake_gate_shut(FAKE_CONNECT);
    struct taker opener = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    struct taker waiter = {.pool = pool, .purpose = HF__PURPOSE_CLAIM};
    start(&opener);
    wait_for_gate(FAKE_CONNECT);
    start(&waiter);
    wait_for(has_waiting, pool, 1);
    hf__pool_release(other); /* to the waiter, who gives it back */
    join(&waiter);
    HF_TEST_OK(waiter.status, &waiter.error);
    hf__pool_shut(pool);
    CU_ASSERT_EQUAL(look(pool)->idle, 0);
    fake_gate_open(FAKE_CONNECT);
    join(&opener);
    HF_TEST_STATUS(opener.status, HF_STOPPED, &opener.error);
    struct hf__checkout *none = NULL;
    HF_TEST_STATUS(hf__pool_acquire(pool, HF__PURPOSE_RENEW, hf__never(), &none, &error), HF_STOPPED, &error);
    HF_TEST_STATUS(hf__pool_try_acquire(pool, HF__PURPOSE_RENEW, hf__never(), &none, &error), HF_STOPPED, &error);
    CU_ASSERT_FALSE(hf__pool_drained(pool, hf__after_ms(10)));
    hf__pool_release(checkout);
    CU_ASSERT(hf__pool_drained(pool, hf__after_ms(0)));
    close_pool(pool);
}

static void test_shut_wakes_waiters(void)
{
    struct hf__pool *pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    struct taker takers[3];
    for (size_t i = 0; i < 3; i++) {
        takers[i] = (struct taker){.pool = pool, .purpose = i == 0 ? HF__PURPOSE_RENEW : HF__PURPOSE_CLAIM};
        start(&takers[i]);
    }
    wait_for(has_waiting, pool, 3);
    hf__pool_shut(pool);
    for (size_t i = 0; i < 3; i++) {
        join(&takers[i]);
        HF_TEST_STATUS(takers[i].status, HF_STOPPED, &takers[i].error);
    }
    hf__pool_release(checkout);
    close_pool(pool);
}

static void *release_late(void *arg)
{
    atomic_bool never = false;
    (void)hf_test_wait_until(is_done, &never, 30);
    hf__pool_release(arg);
    return NULL;
}

static void test_drained_is_told(void)
{
    pthread_t thread;
    struct hf__pool *pool = open_pool(1);
    int64_t began = hf_test_now_ms();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, release_late, get(pool, HF__PURPOSE_CLAIM)), 0);
    CU_ASSERT(hf__pool_drained(pool, hf__after_ms(3 * LONG_MS)));
    CU_ASSERT(hf_test_now_ms() - began < 2 * LONG_MS);
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, NULL), 0);
    close_pool(pool);
}

/* A pool is not freed under a checkout; what comes back late finds it, and its connection is closed. */
static void test_close_too_early(void)
{
    static struct hf__pool *pool; /* never freed, and still reachable at the end */
    pool = open_pool(1);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_HANDLER);
    hf__pool_close(pool);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.thread_ends), 1);
    CU_ASSERT_EQUAL(hf__conn_exec(hf__checkout_conn(checkout), "", hf__never(), NULL), HF_OK);
    hf__pool_release(checkout);
    CU_ASSERT_EQUAL(atomic_load(&fake_server.open), 0);
}

/* In a forked child the parent's pool answers, and touches nothing of the parent's. */
static void test_fork(void)
{
    struct hf__pool *pool = open_pool(2);
    struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
    pid_t child = fork();
    if (child == 0) {
        struct hf__checkout *none = NULL;
        hf_status status = hf__pool_acquire(pool, HF__PURPOSE_CLAIM, hf__never(), &none, NULL);
        hf__pool_release(checkout);
        hf__pool_close(pool);
        _exit(status == HF_MISUSE ? 0 : 1);
    }
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hf__pool_release(checkout);
    CU_ASSERT_EQUAL(look(pool)->idle, 1);
    close_pool(pool);
}

/* Everything at once: sixteen threads on four connections, with a server that fails in every way. */
#define STORM_THREADS 16
#define STORM_ROUNDS 1500

struct stormer {
    struct hf__pool *pool;
    pthread_t thread;
    int had, timeouts, refused, nothing, strange, lost_calls, pinned_lost;
    atomic_int losses;
};

static void count_loss(void *ctx)
{
    atomic_fetch_add(&((struct stormer *)ctx)->losses, 1);
}

static void use(struct stormer *stormer, struct hf__checkout *checkout)
{
    struct hf__conn *conn = hf__checkout_conn(checkout);
    uint64_t dice = hf__random_below(100);
    stormer->had++;
    if (hf__conn_exec(conn, "", hf__never(), NULL) == HF_OK && dice < 40) {
        int before = atomic_load(&stormer->losses);
        hf__checkout_purpose(checkout, HF__PURPOSE_ROW_LOCK);
        hf__checkout_pin(checkout, count_loss, stormer);
        if (dice < 3) {
            fake_kill(conn);
        }
        if (dice < 20) {
            (void)hf__pool_in_use(stormer->pool, HF__PURPOSE_ROW_LOCK);
            (void)sched_yield();
        }
        if (dice < 30 && !hf__checkout_unpin(checkout)) {
            stormer->pinned_lost++;
            stormer->strange += atomic_load(&stormer->losses) == before + 1 ? 0 : 1;
        }
    } else if (dice < 45) {
        fake_begin(conn);
    } else if (dice < 50) {
        hf__checkout_touched(checkout);
    } else if (dice < 52) {
        conn->retire = true;
    } else if (dice < 53) {
        fake_server_restart();
    }
    hf__pool_release(checkout);
}

static void *storm(void *arg)
{
    struct stormer *stormer = arg;
    for (int i = 0; i < STORM_ROUNDS; i++) {
        struct hf__checkout *checkout = NULL;
        enum hf__purpose purpose = hf__random_below(8) == 0 ? HF__PURPOSE_RENEW : HF__PURPOSE_CLAIM;
        struct hf__deadline deadline = hf__after_ms((int64_t)hf__random_below(20));
        bool tries = hf__random_below(5) == 0;
        hf_status status = tries ? hf__pool_try_acquire(stormer->pool, purpose, deadline, &checkout, NULL)
                                 : hf__pool_acquire(stormer->pool, purpose, deadline, &checkout, NULL);
        if (checkout != NULL) {
            stormer->strange += status == HF_OK ? 0 : 1;
            use(stormer, checkout);
        } else if (status == HF_OK) {
            stormer->nothing++;
            stormer->strange += tries ? 0 : 1;
        } else if (status == HF_TIMEOUT || status == HF_UNREACHABLE) {
            stormer->timeouts += status == HF_TIMEOUT ? 1 : 0;
            stormer->refused += status == HF_UNREACHABLE ? 1 : 0;
        } else {
            stormer->strange++;
        }
    }
    return NULL;
}

static void test_storm(void)
{
    static struct stormer stormers[STORM_THREADS];
    struct hf__pool_options options = options_of(4);
    options.reserved = 1;
    options.keepalive_ms = 10;
    options.idle_check_ms = 1;
    options.idle_close_ms = 3;
    options.max_lifetime_ms = 50;
    struct hf__pool *pool = open_with(&options);
    atomic_store(&fake_server.failing_percent, 10);
    memset(stormers, 0, sizeof stormers);
    for (size_t i = 0; i < STORM_THREADS; i++) {
        stormers[i].pool = pool;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&stormers[i].thread, NULL, storm, &stormers[i]), 0);
    }
    struct stormer sum = {.had = 0};
    for (size_t i = 0; i < STORM_THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_join(stormers[i].thread, NULL), 0);
        sum.had += stormers[i].had;
        sum.strange += stormers[i].strange;
        sum.timeouts += stormers[i].timeouts;
        sum.refused += stormers[i].refused;
        sum.pinned_lost += stormers[i].pinned_lost;
    }
    (void)printf("had %d, timeouts %d, refused %d, lost while pinned %d ", sum.had, sum.timeouts, sum.refused, sum.pinned_lost);
    CU_ASSERT_EQUAL(sum.strange, 0);
    CU_ASSERT(sum.had > STORM_THREADS * STORM_ROUNDS / 10);
    CU_ASSERT(atomic_load(&fake_server.most_open) <= 4);
    look(pool);
    CU_ASSERT_EQUAL(snapshot.in_use, 0);
    CU_ASSERT_EQUAL(snapshot.waiting, 0);
    CU_ASSERT(snapshot.peak_open <= 4 && snapshot.peak_in_use <= 4);
    uint64_t began = 0;
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        began += snapshot.ledger.line[i].wait.count;
        CU_ASSERT_EQUAL(snapshot.ledger.line[i].in_use, 0);
    }
    CU_ASSERT_EQUAL(began, (uint64_t)sum.had);
    CU_ASSERT(snapshot.ledger.line[HF__PURPOSE_CLAIM].peak <= 3);
    close_pool(pool);
}

/* Opening and closing pools with waiters on their way out: nothing is freed under a thread that is still inside. */
static void test_close_under_waiters(void)
{
    for (int round = 0; round < 50; round++) {
        struct hf__pool *pool = open_pool(1);
        struct hf__checkout *checkout = get(pool, HF__PURPOSE_CLAIM);
        struct taker takers[3];
        for (size_t i = 0; i < 3; i++) {
            takers[i] = (struct taker){.pool = pool, .purpose = HF__PURPOSE_CLAIM};
            start(&takers[i]);
        }
        wait_for(has_waiting, pool, 3);
        hf__pool_release(checkout);
        close_pool(pool);
        for (size_t i = 0; i < 3; i++) {
            join(&takers[i]);
        }
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"reuses the last", test_reuses_the_last},
                           {"refuses bad options", test_refuses_bad_options},
                           {"purpose switch", test_purpose_switch},
                           {"first come, first served", test_first_come_first_served},
                           {"renewals go first", test_renewals_go_first},
                           {"reserved for renew", test_reserved_for_renew},
                           {"second checkout", test_second_checkout},
                           {"timeout against hand-off", test_timeout_against_hand_off},
                           {"connect timeout", test_connect_timeout},
                           {"failed connect wakes the next", test_failed_connect_wakes_the_next},
                           {"failed connect waits on", test_failed_connect_waits_on},
                           {"connect error at the deadline", test_connect_error_at_the_deadline},
                           {"recovers from a restart", test_recovers_from_a_restart},
                           {"closing counts", test_closing_counts},
                           {"what comes back", test_what_comes_back},
                           {"idle is checked", test_idle_is_checked},
                           {"hurried check", test_hurried_check},
                           {"keeper closes idle", test_keeper_closes_idle},
                           {"lifetime has jitter", test_lifetime_has_jitter},
                           {"lifetime at release", test_lifetime_at_release},
                           {"pinned and lost", test_pinned_and_lost},
                           {"pinned and silent", test_pinned_and_silent},
                           {"unpin waits for the ping", test_unpin_waits_for_the_ping},
                           {"pinning all the time", test_pinning_all_the_time},
                           {"keeper sleeps", test_keeper_sleeps},
                           {"resize", test_resize},
                           {"shut", test_shut},
                           {"shut wakes waiters", test_shut_wakes_waiters},
                           {"drained is told", test_drained_is_told},
                           {"close too early", test_close_too_early},
                           {"fork", test_fork},
                           {"storm", test_storm},
                           {"close under waiters", test_close_under_waiters},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "pool", tests);
}
