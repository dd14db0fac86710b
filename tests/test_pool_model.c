/* ctest: timeout=120 labels=model */
/* The pool's core under random schedules: one thread plays all acquirers, the owners, the keeper and the server, on a virtual clock.
 * After every step the invariants of pool.c are checked against what the test itself knows of its actors. The seed is printed;
 * HF_TEST_SEED repeats a run, HF_TEST_STEPS makes it longer. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool_core.h"
#include "tests/fake_driver.h"
#include "tests/support.h"

#define ACTORS 24
#define MOST_SLOTS 10
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

/* What an acquirer or owner is doing. */
enum doing { NOTHING, ASKING, CLOSING_CHECKED, HOLDING, HOLDING_PINNED, CLOSING_RELEASED };

struct actor {
    struct hf__waiter waiter;
    enum doing doing;
    bool queued;         /* the model's own word for it */
    unsigned long order; /* of asking */
    int64_t deadline_ns;
    struct hf__slot *slot; /* while it holds or closes it */
    int64_t since_ns;      /* of its purpose */
};

static struct {
    struct hf__core core;
    struct hf__slot slots[MOST_SLOTS];
    size_t n_slots;
    struct actor actors[ACTORS];
    struct hf__slot *keeper; /* PINGING or CLOSING, in the keeper's hands */
    bool keeper_pings;
    int64_t now;
    uint64_t random;
    uint64_t seed;
    unsigned long step, asked;
    size_t last_occupied, last_others;
    struct {
        unsigned long known_alive; /* the step that began to open or check it */
        int64_t opened_ns, idle_ns;
    } of_slot[MOST_SLOTS];
    unsigned long last_death; /* the step that last found one dead; what it grants comes after that */
    bool calm;                /* no new faults, and everybody who waits must get something */
    int64_t held_ns[HF__PURPOSES];
    uint64_t served[HF__PURPOSES], began[HF__PURPOSES], gave_up[HF__PURPOSES];
} m;

static uint64_t counts[32];
enum event {
    GRANTED,
    CHECKED,
    CHECK_FAILED,
    OPENED,
    OPEN_FAILED,
    OPEN_ABANDONED,
    TIMED_OUT,
    TICKED,
    TRIED_NONE,
    RELEASED,
    LOST,
    PINNED,
    LOOKED,
    PINGED,
    REAPED,
    RESIZED,
    SHUT,
    STOPPED_OPEN,
    SWITCHED,
    RESTARTED,
    WAITED,
    EVENTS
};
static const char *const event_names[EVENTS] = {
    "granted",  "checked",   "check failed", "opened",    "open failed", "open abandoned", "timed out", "ticked", "tried in vain",
    "released", "lost",      "pinned",       "looked at", "pinged",      "reaped",         "resized",   "shut",   "stopped while opening",
    "switched", "restarted", "waited"};

static void violated(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void violated(const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    hf_test_fail("%s (HF_TEST_SEED=%llu, step %lu)", what, (unsigned long long)m.seed, m.step);
    abort(); /* not reached: the failure is fatal */
}

#define IDLE_CHECK (50 * MS)
#define IDLE_CLOSE (2 * SECOND)
#define LIFETIME (30 * SECOND)
#define BACKOFF_MIN (10 * MS)
#define BACKOFF_MAX SECOND

#define REQUIRE(condition, ...) ((condition) ? (void)0 : violated(__VA_ARGS__))

static uint64_t random_below(uint64_t bound)
{
    uint64_t z = (m.random += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % bound;
}

static bool chance(unsigned percent)
{
    return random_below(100) < percent;
}

/* The model's own view. */

static bool is_renewal(const struct actor *actor)
{
    return actor->waiter.purpose == HF__PURPOSE_RENEW;
}

static bool ahead(const struct actor *a, const struct actor *b)
{
    return is_renewal(a) != is_renewal(b) ? is_renewal(a) : a->order < b->order;
}

static bool somebody_ahead(const struct actor *actor)
{
    for (size_t i = 0; i < ACTORS; i++) {
        if (m.actors[i].queued && &m.actors[i] != actor && ahead(&m.actors[i], actor)) {
            return true;
        }
    }
    return false;
}

static bool holds(const struct actor *actor)
{
    return actor->doing == HOLDING || actor->doing == HOLDING_PINNED;
}

static bool takes_a_slot(const struct actor *actor)
{
    bool granted = actor->doing == ASKING && !actor->queued && actor->waiter.slot != NULL;
    return granted || (actor->doing != NOTHING && actor->doing != ASKING);
}

static bool counts_as_other(const struct actor *actor)
{
    return takes_a_slot(actor) && !is_renewal(actor) && actor->doing != CLOSING_CHECKED && actor->doing != CLOSING_RELEASED;
}

static size_t count_actors(bool (*is)(const struct actor *actor))
{
    size_t n = 0;
    for (size_t i = 0; i < ACTORS; i++) {
        n += is(&m.actors[i]) ? 1 : 0;
    }
    return n;
}

static size_t idle(void)
{
    size_t n = 0;
    const struct hf__slot *slot;
    TAILQ_FOREACH (slot, &m.core.slots[HF__SLOT_IDLE].head, link) {
        n++;
    }
    return n;
}

static size_t occupied(void)
{
    size_t by_keeper = m.keeper != NULL && m.keeper->state == HF__SLOT_CLOSING ? 1 : 0;
    return count_actors(takes_a_slot) + idle() + by_keeper;
}

static bool may_connect_now(void)
{
    return m.core.failures == 0 || (m.now >= m.core.retry_ns && m.core.slots[HF__SLOT_OPENING].count == 0);
}

static bool could_be_served(const struct actor *actor)
{
    bool allowed = is_renewal(actor) || count_actors(counts_as_other) < m.core.options.size - m.core.options.reserved;
    return allowed && (idle() > 0 || (occupied() < m.core.options.size && may_connect_now()));
}

static const struct actor *first_in_queue(void)
{
    const struct actor *first = NULL;
    for (size_t i = 0; i < ACTORS; i++) {
        if (m.actors[i].queued && (first == NULL || ahead(&m.actors[i], first))) {
            first = &m.actors[i];
        }
    }
    return first;
}

static size_t number_of(const struct hf__slot *slot)
{
    return (size_t)(slot - m.slots);
}

static void check_grant(const struct hf__waiter *waiter)
{
    size_t n = number_of(waiter->slot);
    if (waiter->state == HF__OPEN) {
        bool single = m.core.slots[HF__SLOT_OPENING].count == 1;
        REQUIRE(m.core.failures == 0 || (m.now >= m.core.retry_ns && single), "8: a connect within the backoff, or a second one after it");
    }
    if (waiter->state == HF__HAVE) {
        REQUIRE(m.of_slot[n].known_alive >= m.last_death, "11: a suspect was handed over without a check");
        REQUIRE(m.now - m.of_slot[n].idle_ns <= IDLE_CHECK, "11: one that was idle for long was handed over without a check");
    } else {
        m.of_slot[n].known_alive = m.step;
    }
}

/* What the core calls: where invariant 6 is checked, at the moment of the grant. */
static void woken(struct hf__waiter *waiter)
{
    struct actor *actor = waiter->user;
    if (waiter->state == HF__WAITING) {
        return; /* its watch changed */
    }
    REQUIRE(actor->queued, "somebody was woken who did not wait");
    if (waiter->state == HF__STOPPED) {
        REQUIRE(m.core.shut, "somebody was stopped in an open pool");
    } else {
        REQUIRE(!somebody_ahead(actor), "6: a grant passed somebody who asked before");
        REQUIRE(!m.core.shut, "10: a grant after shut");
        REQUIRE(waiter->slot != NULL, "a grant of nothing");
    }
    if (waiter->state != HF__STOPPED) {
        check_grant(waiter);
    }
    actor->queued = false;
    counts[GRANTED]++;
}

/* Checks. */

static void check_lists(void)
{
    size_t total = 0;
    size_t open = 0;
    for (size_t state = 0; state < HF__SLOT_STATES; state++) {
        size_t n = 0;
        const struct hf__slot *slot;
        TAILQ_FOREACH (slot, &m.core.slots[state].head, link) {
            n++;
            REQUIRE(slot->state == (enum hf__slot_state)state, "1: a slot in state %d is in list %zu", (int)slot->state, state);
            bool has = slot->conn != NULL;
            bool must = state != HF__SLOT_EMPTY && state != HF__SLOT_OPENING;
            REQUIRE(has == must, "7: a slot in state %zu has %s connection", state, has ? "a" : "no");
            open += has ? 1 : 0;
        }
        REQUIRE(n == m.core.slots[state].count, "1: list %zu counts %zu and has %zu", state, m.core.slots[state].count, n);
        total += n;
    }
    REQUIRE(total == m.n_slots, "1: %zu slots in lists of %zu", total, m.n_slots);
    REQUIRE(m.core.opened - m.core.closed == open, "9: %llu opened, %llu closed, %zu open", (unsigned long long)m.core.opened,
            (unsigned long long)m.core.closed, open);
    REQUIRE((size_t)atomic_load(&fake_server.open) == open, "9: the server has %d sessions, the pool %zu", atomic_load(&fake_server.open),
            open);
}

static void check_bounds(void)
{
    size_t now_occupied = hf__core_occupied(&m.core);
    size_t others = count_actors(counts_as_other);
    size_t limit = m.core.options.size - m.core.options.reserved;
    REQUIRE(now_occupied == occupied(), "1: the pool counts %zu slots taken, the actors %zu", now_occupied, occupied());
    REQUIRE(now_occupied <= m.core.options.size || now_occupied <= m.last_occupied, "2: %zu taken of %zu, before %zu", now_occupied,
            m.core.options.size, m.last_occupied);
    REQUIRE(others <= limit || others <= m.last_others, "3: %zu out for others than renew, %zu allowed, before %zu", others, limit,
            m.last_others);
    m.last_occupied = now_occupied;
    m.last_others = others;
    REQUIRE(hf__core_in_use(&m.core) == count_actors(holds), "1: %zu in use, held by %zu", hf__core_in_use(&m.core), count_actors(holds));
    REQUIRE(m.core.peak_in_use >= count_actors(holds) && m.core.peak_open >= hf__core_open(&m.core), "a peak below the present");
}

static size_t check_queue(const struct hf__waiters *queue, bool renewals)
{
    size_t n = 0;
    const struct hf__waiter *waiter;
    unsigned long last = 0;
    TAILQ_FOREACH (waiter, queue, link) {
        const struct actor *actor = waiter->user;
        REQUIRE(waiter->state == HF__WAITING && actor->queued, "4: somebody is in a queue who does not wait");
        REQUIRE(is_renewal(actor) == renewals, "4: in the wrong queue");
        REQUIRE(n == 0 || actor->order > last, "4: a queue out of order");
        last = actor->order;
        n++;
    }
    return n;
}

static bool is_queued(const struct actor *actor)
{
    return actor->queued;
}

static void check_waiters(void)
{
    size_t n = check_queue(&m.core.renewals, true) + check_queue(&m.core.others, false);
    REQUIRE(n == count_actors(is_queued), "4: %zu in the queues, %zu wait", n, count_actors(is_queued));
    REQUIRE(!m.core.shut || n == 0, "10: somebody waits after shut");
    const struct actor *first = first_in_queue();
    if (first != NULL) {
        bool will_tick = first->waiter.watch_ns <= m.now;
        REQUIRE(will_tick || !could_be_served(first), "5: a lost wake-up: the first waiter could be served and sleeps");
        bool backs_off = m.core.failures > 0 && m.now < m.core.retry_ns;
        REQUIRE(!backs_off || first->waiter.watch_ns <= m.core.retry_ns, "5: nobody watches for the end of the backoff");
    }
}

static void check_all(void)
{
    check_lists();
    check_bounds();
    check_waiters();
    REQUIRE(atomic_load(&fake_server.misuses) == 0, "a connection was in two hands");
}

static void check_ledger(void)
{
    static struct hf__pool_snapshot snapshot;
    size_t used[HF__PURPOSES] = {0};
    int64_t running_ns[HF__PURPOSES] = {0};
    hf__core_snapshot(&m.core, &snapshot, m.now);
    for (size_t i = 0; i < ACTORS; i++) {
        if (holds(&m.actors[i])) {
            used[m.actors[i].slot->purpose]++;
            running_ns[m.actors[i].slot->purpose] += m.now - m.actors[i].since_ns;
        }
    }
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        const struct hf__ledger_line *line = &snapshot.ledger.line[i];
        const char *name = hf__purpose_name((enum hf__purpose)i);
        double seconds = (double)(m.held_ns[i] + running_ns[i]) / 1e9;
        REQUIRE(line->in_use == used[i], "the ledger has %zu for %s, the actors %zu", line->in_use, name, used[i]);
        REQUIRE(line->peak >= used[i], "the peak of %s is below the present", name);
        REQUIRE(line->count == m.began[i], "the ledger counted %llu for %s, the actors %llu", (unsigned long long)line->count, name,
                (unsigned long long)m.began[i]);
        REQUIRE(line->wait.count == m.served[i], "the waits of %s are %llu, not %llu", name, (unsigned long long)line->wait.count,
                (unsigned long long)m.served[i]);
        REQUIRE(line->timeouts == m.gave_up[i], "the timeouts of %s", name);
        REQUIRE(line->seconds > seconds - 1e-3 && line->seconds < seconds + 1e-3, "%s: %f seconds in the ledger, %f held", name,
                line->seconds, seconds);
    }
    REQUIRE(snapshot.open == hf__core_open(&m.core) && snapshot.idle == idle() && snapshot.in_use == count_actors(holds) &&
                snapshot.waiting == count_actors(is_queued),
            "the snapshot differs from the lists");
}

/* Steps. Each plays what one thread does between taking the mutex and dropping it. */

static struct actor *pick(bool (*is)(const struct actor *actor))
{
    size_t at = random_below(ACTORS);
    for (size_t i = 0; i < ACTORS; i++) {
        struct actor *actor = &m.actors[(at + i) % ACTORS];
        if (is(actor)) {
            return actor;
        }
    }
    return NULL;
}

/* A waiter has moved: what its thread does with the state it finds. */
static void settle(struct actor *actor)
{
    struct hf__waiter *waiter = &actor->waiter;
    switch (waiter->state) {
    case HF__HAVE:
        REQUIRE(!m.core.shut, "10: a connection after shut");
        actor->doing = HOLDING;
        actor->slot = waiter->slot;
        actor->since_ns = actor->slot->since_ns;
        REQUIRE(actor->slot->purpose == waiter->purpose, "a connection for another purpose");
        m.served[waiter->purpose]++;
        m.began[waiter->purpose]++;
        break;
    case HF__STOPPED:
        actor->queued = false;
        actor->doing = waiter->slot != NULL ? CLOSING_RELEASED : NOTHING;
        actor->slot = waiter->slot;
        counts[STOPPED_OPEN] += waiter->slot != NULL ? 1 : 0;
        break;
    case HF__NONE:
        actor->queued = false;
        actor->doing = NOTHING;
        REQUIRE(somebody_ahead(actor) || !could_be_served(actor), "nothing was found without waiting where there was something");
        counts[TRIED_NONE]++;
        break;
    case HF__GAVE_UP:
        m.gave_up[waiter->purpose]++;
        actor->queued = false;
        actor->doing = NOTHING;
        break;
    case HF__FAILED:
        actor->doing = NOTHING;
        break;
    default:
        break;
    }
}

/* Everybody whom this step granted something; real threads would wake one by one, in any order. */
static void settle_all(void)
{
    for (size_t i = 0; i < ACTORS; i++) {
        if (m.actors[i].doing == ASKING && !m.actors[i].queued) {
            settle(&m.actors[i]);
        }
    }
}

static bool does_nothing(const struct actor *actor)
{
    return actor->doing == NOTHING;
}

static void ask(void)
{
    struct actor *actor = pick(does_nothing);
    if (actor == NULL) {
        return;
    }
    enum hf__purpose purpose = chance(15) ? HF__PURPOSE_RENEW : (enum hf__purpose)random_below(HF__PURPOSES);
    *actor = (struct actor){.waiter = {.purpose = purpose, .may_wait = chance(85), .user = actor}, .doing = ASKING, .queued = true};
    actor->order = ++m.asked;
    actor->deadline_ns = chance(10) ? m.now : m.now + (int64_t)random_below(200) * MS;
    hf__core_ask(&m.core, &actor->waiter, m.now);
    actor->queued = actor->waiter.state == HF__WAITING;
    counts[WAITED] += actor->queued ? 1 : 0;
}

static bool checks(const struct actor *actor)
{
    return actor->doing == ASKING && actor->waiter.state == HF__CHECK;
}

static void end_check(void)
{
    struct actor *actor = pick(checks);
    if (actor == NULL) {
        return;
    }
    struct hf__slot *slot = actor->waiter.slot;
    if (hf__conn_alive(slot->conn) && hf__conn_ping(slot->conn, hf__never(), NULL) == HF_OK) {
        hf__core_checked(&m.core, &actor->waiter, m.now);
        counts[CHECKED]++;
    } else {
        m.last_death = m.step;
        hf__core_check_failed(&m.core, &actor->waiter, true, m.now);
        actor->doing = CLOSING_CHECKED;
        counts[CHECK_FAILED]++;
    }
}

static void close_conn(struct hf__slot *slot)
{
    hf__conn_close(slot->conn);
    slot->conn = NULL;
}

static bool closes_checked(const struct actor *actor)
{
    return actor->doing == CLOSING_CHECKED;
}

static void end_close_checked(void)
{
    struct actor *actor = pick(closes_checked);
    if (actor != NULL) {
        close_conn(actor->waiter.slot);
        actor->doing = ASKING;
        actor->queued = true;
        hf__core_ask_again(&m.core, &actor->waiter, m.now);
        actor->queued = actor->waiter.state == HF__WAITING;
    }
}

static bool opens(const struct actor *actor)
{
    return actor->doing == ASKING && actor->waiter.state == HF__OPEN;
}

/* Doubled with each round, up to the cap, and up to half of it taken off at random. */
static void check_backoff(unsigned failures_before)
{
    int64_t wait = m.core.retry_ns - m.now;
    int64_t most = BACKOFF_MIN;
    for (unsigned i = 0; i < failures_before && most < BACKOFF_MAX; i++) {
        most = most * 2 < BACKOFF_MAX ? most * 2 : BACKOFF_MAX;
    }
    REQUIRE(m.core.failures == failures_before + 1, "a failed connect was not counted");
    REQUIRE(wait <= most && wait >= most / 2, "8: a backoff of %lld ns after %u failures", (long long)wait, failures_before);
}

static void fail_open(struct actor *actor)
{
    unsigned failures = m.core.failures;
    size_t others_open = hf__core_open(&m.core) + m.core.slots[HF__SLOT_OPENING].count - 1;
    actor->queued = true;
    if (hf__core_open_failed(&m.core, &actor->waiter, m.now)) {
        check_backoff(failures);
    } else {
        REQUIRE(m.core.failures == failures, "one round of failures counted twice");
    }
    actor->queued = actor->waiter.state == HF__WAITING;
    REQUIRE(m.core.shut || (actor->waiter.state == HF__FAILED) == (others_open == 0), "a failed connect was %s while %zu others were open",
            actor->waiter.state == HF__FAILED ? "the answer" : "not the answer", others_open);
    counts[OPEN_FAILED]++;
}

static void end_open(void)
{
    struct actor *actor = pick(opens);
    if (actor == NULL) {
        return;
    }
    struct hf__conn *conn = NULL;
    if (m.now >= actor->deadline_ns && !m.calm && chance(50)) {
        hf__core_open_abandoned(&m.core, &actor->waiter, m.now);
        counts[OPEN_ABANDONED]++;
    } else if (fake_driver.connect(NULL, NULL, hf__never(), &conn, NULL) == HF_OK) {
        actor->waiter.slot->conn = conn;
        m.of_slot[number_of(actor->waiter.slot)].opened_ns = m.now;
        hf__core_opened(&m.core, &actor->waiter, m.now);
        REQUIRE(m.core.failures == 0, "a connect succeeded and the pool still backs off");
        counts[OPENED]++;
    } else {
        fail_open(actor);
    }
}

static bool is_holding(const struct actor *actor)
{
    return actor->doing == HOLDING;
}

static void count_held(const struct actor *actor)
{
    m.held_ns[actor->slot->purpose] += m.now - actor->since_ns;
}

static void check_return(const struct hf__slot *slot, bool closes, enum hf__returned how, bool over_size)
{
    int64_t age = m.now - m.of_slot[number_of(slot)].opened_ns;
    bool must = how != HF__RETURNED_CLEAN || age >= LIFETIME || over_size || m.core.shut;
    bool may = must || age >= LIFETIME / 5 * 4;
    REQUIRE(closes || !must, "a connection became idle that is not fit, too old or too many");
    REQUIRE(!closes || may, "a connection was closed for no reason");
}

static void release(void)
{
    struct actor *actor = pick(is_holding);
    if (actor == NULL) {
        return;
    }
    enum hf__returned how = fake_is_dead(actor->slot->conn) && chance(70) ? HF__RETURNED_LOST
                            : chance(3)                                   ? HF__RETURNED_UNFIT
                                                                          : HF__RETURNED_CLEAN;
    count_held(actor);
    m.of_slot[number_of(actor->slot)].idle_ns = m.now;
    m.last_death = how == HF__RETURNED_LOST ? m.step : m.last_death;
    bool over_size = hf__core_occupied(&m.core) - m.core.slots[HF__SLOT_CLOSING].count > m.core.options.size;
    bool closes = hf__core_release(&m.core, actor->slot, how, m.now);
    check_return(actor->slot, closes, how, over_size);
    actor->doing = closes ? CLOSING_RELEASED : NOTHING;
    counts[RELEASED]++;
    counts[LOST] += how == HF__RETURNED_LOST ? 1 : 0;
}

static bool closes_released(const struct actor *actor)
{
    return actor->doing == CLOSING_RELEASED;
}

static void end_close(void)
{
    struct actor *actor = pick(closes_released);
    if (actor != NULL) {
        close_conn(actor->slot);
        actor->doing = NOTHING;
        hf__core_closed(&m.core, actor->slot, m.now);
    }
}

static void switch_purpose(void)
{
    struct actor *actor = pick(holds);
    if (actor != NULL) {
        enum hf__purpose purpose = (enum hf__purpose)random_below(HF__PURPOSES);
        count_held(actor);
        hf__core_purpose(&m.core, actor->slot, purpose, m.now);
        actor->since_ns = m.now;
        m.began[purpose]++;
        counts[SWITCHED]++;
    }
}

static bool is_pinned(const struct actor *actor)
{
    return actor->doing == HOLDING_PINNED && actor->slot->state == HF__SLOT_PINNED;
}

static void pin_or_unpin(void)
{
    struct actor *actor = pick(chance(50) ? is_holding : is_pinned);
    if (actor == NULL) {
        return;
    }
    if (actor->doing == HOLDING) {
        hf__core_pin(&m.core, actor->slot, m.now);
        actor->doing = HOLDING_PINNED;
        counts[PINNED]++;
    } else {
        hf__core_unpin(&m.core, actor->slot);
        actor->doing = HOLDING;
    }
}

static void keeper_ends(void)
{
    struct hf__slot *slot = m.keeper;
    m.keeper = NULL;
    if (slot->state == HF__SLOT_CLOSING) {
        close_conn(slot);
        hf__core_closed(&m.core, slot, m.now);
        return;
    }
    bool alive = hf__conn_alive(slot->conn);
    m.last_death = alive ? m.last_death : m.step;
    hf__core_watched(&m.core, slot, alive, m.keeper_pings, m.now);
    REQUIRE(hf__core_slot_due(&m.core, slot) > m.now, "the keeper is due at once: it would spin");
}

static bool somebody_too_old(void)
{
    bool found = false;
    const struct hf__slot *slot;
    TAILQ_FOREACH (slot, &m.core.slots[HF__SLOT_IDLE].head, link) {
        size_t n = number_of(slot);
        bool idle_too_long = m.core.options.idle_close_ns == IDLE_CLOSE && m.now - m.of_slot[n].idle_ns >= IDLE_CLOSE;
        found = found || idle_too_long || m.now - m.of_slot[n].opened_ns >= LIFETIME;
    }
    return found;
}

static void keep(void)
{
    if (m.keeper != NULL) {
        keeper_ends();
        return;
    }
    bool was_due = hf__core_due(&m.core) <= m.now;
    bool too_old = somebody_too_old();
    m.keeper = hf__core_watch(&m.core, &m.keeper_pings, m.now);
    if (m.keeper != NULL) {
        counts[m.keeper_pings ? PINGED : LOOKED]++;
        return;
    }
    m.keeper = hf__core_reap(&m.core, m.now);
    counts[REAPED] += m.keeper != NULL ? 1 : 0;
    REQUIRE(!was_due || m.keeper != NULL, "the keeper is due and finds nothing: it would spin");
    REQUIRE(m.keeper != NULL || !too_old, "the keeper leaves a connection that is idle or alive for too long");
    REQUIRE(!too_old || was_due, "the keeper would sleep past a connection that is too old");
}

static void resize(void)
{
    size_t size = 1 + random_below(MOST_SLOTS);
    while (m.n_slots < size) {
        hf__core_add(&m.core, &m.slots[m.n_slots++]);
    }
    hf__core_resize(&m.core, size, random_below(size), m.now);
    counts[RESIZED]++;
}

static void let_time_pass(void)
{
    static const int64_t spans[] = {MS / 10, MS, 10 * MS, 200 * MS, 3 * SECOND, 60 * SECOND};
    size_t limit = chance(90) ? 3 : sizeof spans / sizeof spans[0];
    m.now += (int64_t)random_below((uint64_t)spans[random_below(limit)]);
}

static bool is_due(const struct actor *actor)
{
    return actor->queued && (m.now >= actor->deadline_ns || m.now >= actor->waiter.watch_ns);
}

/* A thread wakes because of the time, now or rather late. */
static void fire_timer(void)
{
    struct actor *actor = pick(is_due);
    if (actor == NULL) {
        return;
    }
    if (m.now >= actor->deadline_ns) {
        actor->queued = false;
        hf__core_give_up(&m.core, &actor->waiter, m.now);
        counts[TIMED_OUT]++;
    } else {
        hf__core_tick(&m.core, &actor->waiter, m.now);
        REQUIRE(!actor->queued || actor->waiter.watch_ns > m.now, "a waiter would spin");
        counts[TICKED]++;
    }
}

static void harm(void)
{
    struct hf__slot *slot = &m.slots[random_below(m.n_slots)];
    unsigned what = (unsigned)random_below(100);
    if (what < 60 && slot->conn != NULL) {
        fake_kill(slot->conn);
    } else if (what < 70) {
        fake_server_restart();
        counts[RESTARTED]++;
    } else if (what < 90) {
        atomic_store(&fake_server.failing_percent, chance(50) ? 0 : chance(50) ? 100 : 30);
    } else {
        resize();
    }
}

static const struct {
    void (*play)(void);
    unsigned weight;
} plays[] = {{ask, 24},     {end_check, 10},    {end_close_checked, 8}, {end_open, 10},
             {release, 14}, {end_close, 8},     {switch_purpose, 2},    {pin_or_unpin, 6},
             {keep, 6},     {let_time_pass, 6}, {fire_timer, 10},       {harm, 1}};

static void step(void)
{
    unsigned total = 0;
    for (size_t i = 0; i < sizeof plays / sizeof plays[0]; i++) {
        total += plays[i].weight;
    }
    unsigned at = (unsigned)random_below(total);
    size_t i = 0;
    while (at >= plays[i].weight) {
        at -= plays[i++].weight;
    }
    if (!(m.calm && (plays[i].play == ask || plays[i].play == harm))) {
        plays[i].play();
    }
    settle_all();
    check_all();
    if (++m.step % 64 == 0) {
        check_ledger();
    }
}

/* Episodes. */

static void begin_episode(void)
{
    struct hf__core_options options = {.size = 1 + random_below(MOST_SLOTS),
                                       .idle_check_ns = IDLE_CHECK,
                                       .idle_close_ns = chance(20) ? INT64_MAX : IDLE_CLOSE,
                                       .max_lifetime_ns = LIFETIME,
                                       .look_ns = 20 * MS,
                                       .keepalive_ns = 200 * MS,
                                       .backoff_min_ns = BACKOFF_MIN,
                                       .backoff_max_ns = BACKOFF_MAX,
                                       .random_below = random_below,
                                       .wake = woken};
    options.reserved = random_below(options.size);
    hf__core_init(&m.core, &options);
    memset(m.slots, 0, sizeof m.slots);
    memset(m.of_slot, 0, sizeof m.of_slot);
    memset(m.actors, 0, sizeof m.actors);
    memset(m.held_ns, 0, sizeof m.held_ns);
    memset(m.served, 0, sizeof m.served);
    memset(m.began, 0, sizeof m.began);
    memset(m.gave_up, 0, sizeof m.gave_up);
    fake_server_reset();
    m.keeper = NULL;
    m.calm = false;
    m.last_death = 0;
    m.step++; /* so that nothing happens in step 0 */
    m.last_occupied = 0;
    m.last_others = 0;
    for (m.n_slots = 0; m.n_slots < options.size; m.n_slots++) {
        hf__core_add(&m.core, &m.slots[m.n_slots]);
    }
}

static bool is_busy(const struct actor *actor)
{
    return actor->doing != NOTHING;
}

/* Nobody asks any more and nothing breaks: whoever waits, with all the time there is, must be served, and everything must come back. */
static void calm_down(void)
{
    m.calm = true;
    atomic_store(&fake_server.failing_percent, 0);
    for (size_t i = 0; i < ACTORS; i++) {
        m.actors[i].deadline_ns = INT64_MAX;
    }
    unsigned long limit = m.step + 20000;
    while ((count_actors(is_busy) > 0 || m.keeper != NULL) && m.step < limit) {
        step();
    }
    REQUIRE(count_actors(is_busy) == 0 && m.keeper == NULL, "%zu actors hang, %zu of them in the queue", count_actors(is_busy),
            count_actors(is_queued));
}

static void shut(void)
{
    hf__core_shut(&m.core, m.now);
    settle_all();
    check_all();
    counts[SHUT]++;
    calm_down();
    for (struct hf__slot *slot = hf__core_reap(&m.core, m.now); slot != NULL; slot = hf__core_reap(&m.core, m.now)) {
        close_conn(slot);
        hf__core_closed(&m.core, slot, m.now);
    }
    REQUIRE(hf__core_occupied(&m.core) == 0 && atomic_load(&fake_server.open) == 0, "%d sessions are left after shut",
            atomic_load(&fake_server.open));
    check_ledger();
}

static void episode(unsigned long steps)
{
    begin_episode();
    unsigned long end = m.step + steps;
    while (m.step < end) {
        step();
    }
    if (chance(50)) {
        calm_down();
    }
    shut();
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void test_random_schedules(void)
{
    uint64_t steps = from_environment("HF_TEST_STEPS", 3000000);
    m.seed = from_environment("HF_TEST_SEED", 20240607);
    m.random = m.seed;
    (void)printf("HF_TEST_SEED=%llu ", (unsigned long long)m.seed);
    while (m.step < steps) {
        episode(200 + random_below(3000));
    }
    for (size_t i = 0; i < EVENTS; i++) {
        (void)printf("%s%s %llu", i > 0 ? ", " : "", event_names[i], (unsigned long long)counts[i]);
        REQUIRE(counts[i] > 100, "the schedule hardly ever had: %s", event_names[i]);
    }
    (void)printf(" ");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"random schedules", test_random_schedules}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "pool_model", tests);
}
