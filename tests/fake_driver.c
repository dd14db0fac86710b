#include "tests/fake_driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct fake_conn {
    struct hf__conn base;
    atomic_bool busy;
    atomic_bool dead;
    atomic_bool stuck;
    int epoch;
    enum hf__transaction transaction;
};

struct fake_server fake_server;
static atomic_int epoch;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed;
static struct {
    bool shut;
    int held;
} gates[FAKE_GATES];

static void init_gates(void)
{
    if (hf__cond_init(&gate_changed) != 0) {
        abort();
    }
}

/* False when the deadline passed before the gate. */
static bool pass(enum fake_gate gate, struct hf__deadline deadline)
{
    bool in_time = true;
    pthread_mutex_lock(&gate_lock);
    gates[gate].held++;
    while (gates[gate].shut && in_time) {
        in_time = hf__cond_wait(&gate_changed, &gate_lock, deadline);
    }
    gates[gate].held--;
    pthread_mutex_unlock(&gate_lock);
    return in_time;
}

static void set_gate(enum fake_gate gate, bool shut)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_gates);
    pthread_mutex_lock(&gate_lock);
    gates[gate].shut = shut;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

void fake_gate_shut(enum fake_gate gate)
{
    set_gate(gate, true);
}

void fake_gate_open(enum fake_gate gate)
{
    set_gate(gate, false);
}

int fake_gate_held(enum fake_gate gate)
{
    pthread_mutex_lock(&gate_lock);
    int held = gates[gate].held;
    pthread_mutex_unlock(&gate_lock);
    return held;
}

void fake_server_reset(void)
{
    for (int i = 0; i < FAKE_GATES; i++) {
        set_gate((enum fake_gate)i, false);
    }
    atomic_int *const counters[] = {
        &fake_server.refusal,   &fake_server.refusals_left, &fake_server.failing_percent, &fake_server.open,       &fake_server.most_open,
        &fake_server.connects,  &fake_server.closed,        &fake_server.looks,           &fake_server.pings,      &fake_server.resets,
        &fake_server.rollbacks, &fake_server.misuses,       &fake_server.thread_begins,   &fake_server.thread_ends};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        atomic_store(counters[i], 0);
    }
    atomic_store(&fake_server.silent, false);
}

void fake_server_restart(void)
{
    atomic_fetch_add(&epoch, 1);
}

static struct fake_conn *of(struct hf__conn *conn)
{
    return (struct fake_conn *)(void *)conn;
}

void fake_kill(struct hf__conn *conn)
{
    atomic_store(&of(conn)->dead, true);
}

void fake_begin(struct hf__conn *conn)
{
    of(conn)->transaction = HF__TX_OPEN;
}

void fake_stuck(struct hf__conn *conn)
{
    atomic_store(&of(conn)->stuck, true);
}

bool fake_is_dead(struct hf__conn *conn)
{
    return atomic_load(&of(conn)->dead) || of(conn)->epoch != atomic_load(&epoch);
}

static void enter(struct hf__conn *conn)
{
    if (atomic_exchange(&of(conn)->busy, true)) {
        atomic_fetch_add(&fake_server.misuses, 1);
    }
}

static void leave(struct hf__conn *conn)
{
    atomic_store(&of(conn)->busy, false);
}

static void count_open(void)
{
    int open = atomic_fetch_add(&fake_server.open, 1) + 1;
    int most = atomic_load(&fake_server.most_open);
    while (open > most && !atomic_compare_exchange_weak(&fake_server.most_open, &most, open)) {
    }
}

static bool take_refusal(void)
{
    int left = atomic_load(&fake_server.refusals_left);
    while (left > 0 && !atomic_compare_exchange_weak(&fake_server.refusals_left, &left, left - 1)) {
    }
    return left > 0;
}

static hf_status refusal(void)
{
    if (take_refusal() || hf__random_below(100) < (uint64_t)atomic_load(&fake_server.failing_percent)) {
        return HF_UNREACHABLE;
    }
    return (hf_status)atomic_load(&fake_server.refusal);
}

static hf_status fake_connect(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                              struct hf__conn **out, hf_error *err)
{
    (void)url;
    (void)options;
    atomic_fetch_add(&fake_server.connects, 1);
    if (!pass(FAKE_CONNECT, deadline)) {
        return hf__fail(err, HF_TIMEOUT, "the fake server did not answer in time");
    }
    hf_status status = refusal();
    struct fake_conn *conn = status == HF_OK ? calloc(1, sizeof *conn) : NULL;
    if (status != HF_OK) {
        return hf__fail(err, status, "the fake server refuses");
    }
    if (conn == NULL) {
        return hf__fail_memory(err);
    }
    conn->base.driver = &fake_driver;
    conn->base.owner = getpid();
    conn->epoch = atomic_load(&epoch);
    count_open();
    *out = &conn->base;
    return HF_OK;
}

static void fake_close(struct hf__conn *conn)
{
    enter(conn);
    (void)pass(FAKE_CLOSE, hf__never());
    atomic_fetch_sub(&fake_server.open, 1);
    atomic_fetch_add(&fake_server.closed, 1);
    free(of(conn));
}

static hf_status lost(struct hf__conn *conn, hf_error *err)
{
    conn->lost = true;
    return hf__fail(err, HF_LOST, "the fake session is gone");
}

/* One round trip; the transaction is `after` it. */
static hf_status talk(struct hf__conn *conn, enum hf__transaction after, bool can_stick, hf_error *err)
{
    hf_status status = HF_OK;
    enter(conn);
    if (fake_is_dead(conn)) {
        status = lost(conn, err);
    } else if (can_stick && atomic_load(&of(conn)->stuck)) {
        status = hf__fail(err, HF_DATABASE, "the fake session is stuck");
    } else {
        of(conn)->transaction = after;
    }
    leave(conn);
    return status;
}

static hf_status fake_exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    (void)sql;
    (void)deadline;
    return talk(conn, of(conn)->transaction, false, err);
}

static hf_status fake_begin_method(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode,
                                   struct hf__deadline deadline, hf_error *err)
{
    (void)isolation;
    (void)mode;
    (void)deadline;
    return talk(conn, HF__TX_OPEN, false, err);
}

static hf_status fake_commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    (void)deadline;
    return talk(conn, HF__TX_NONE, false, err);
}

static hf_status fake_rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    (void)deadline;
    atomic_fetch_add(&fake_server.rollbacks, 1);
    return talk(conn, HF__TX_NONE, true, err);
}

static hf_status fake_reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    (void)deadline;
    atomic_fetch_add(&fake_server.resets, 1);
    return talk(conn, HF__TX_NONE, true, err);
}

static enum hf__transaction fake_transaction(struct hf__conn *conn)
{
    return of(conn)->transaction;
}

static bool fake_alive(struct hf__conn *conn)
{
    enter(conn);
    atomic_fetch_add(&fake_server.looks, 1);
    if (!atomic_load(&fake_server.silent) && fake_is_dead(conn)) {
        conn->lost = true;
    }
    leave(conn);
    return !conn->lost;
}

static hf_status fake_ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    enter(conn);
    atomic_fetch_add(&fake_server.pings, 1);
    bool answered = pass(FAKE_PING, deadline);
    hf_status status = HF_OK;
    if (!answered) {
        conn->lost = true;
        status = hf__fail(err, HF_TIMEOUT, "the fake server did not answer a ping in time");
    } else if (fake_is_dead(conn)) {
        status = lost(conn, err);
    }
    leave(conn);
    return status;
}

static void *fake_native(struct hf__conn *conn)
{
    return conn;
}

static void fake_thread_begin(void)
{
    atomic_fetch_add(&fake_server.thread_begins, 1);
}

static void fake_thread_end(void)
{
    atomic_fetch_add(&fake_server.thread_ends, 1);
}

const struct hf__driver fake_driver = {
    .size = sizeof(struct hf__driver),
    .database = HF__POSTGRES,
    .name = "fake",
    .capabilities = HF__DRIVER_NOTICES_CLOSE,
    .connect = fake_connect,
    .close = fake_close,
    .exec = fake_exec,
    .begin = fake_begin_method,
    .commit = fake_commit,
    .rollback = fake_rollback,
    .transaction = fake_transaction,
    .alive = fake_alive,
    .ping = fake_ping,
    .reset = fake_reset,
    .native = fake_native,
    .thread_begin = fake_thread_begin,
    .thread_end = fake_thread_end,
};
