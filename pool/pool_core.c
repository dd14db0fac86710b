/* The invariants and the state diagram stand at the head of pool.c. */
#include "pool_core.h"

void hf__core_init(struct hf__core *core, const struct hf__core_options *options)
{
    *core = (struct hf__core){.options = *options};
    for (size_t i = 0; i < HF__SLOT_STATES; i++) {
        TAILQ_INIT(&core->slots[i].head);
    }
    TAILQ_INIT(&core->renewals);
    TAILQ_INIT(&core->others);
}

/* Counts: all derived from the lists. */

static size_t count_of(const struct hf__core *core, enum hf__slot_state state)
{
    return core->slots[state].count;
}

size_t hf__core_in_use(const struct hf__core *core)
{
    return count_of(core, HF__SLOT_OUT) + count_of(core, HF__SLOT_PINNED) + count_of(core, HF__SLOT_PINGING);
}

size_t hf__core_open(const struct hf__core *core)
{
    return hf__core_in_use(core) + count_of(core, HF__SLOT_IDLE) + count_of(core, HF__SLOT_CHECKING);
}

size_t hf__core_occupied(const struct hf__core *core)
{
    return hf__core_open(core) + count_of(core, HF__SLOT_OPENING) + count_of(core, HF__SLOT_CLOSING);
}

size_t hf__core_slots(const struct hf__core *core)
{
    return hf__core_occupied(core) + count_of(core, HF__SLOT_EMPTY);
}

static size_t count_if(const struct hf__core *core, bool (*holds)(const struct hf__slot *slot, enum hf__purpose purpose),
                       enum hf__purpose purpose)
{
    size_t n = 0;
    for (size_t i = 0; i < HF__SLOT_STATES; i++) {
        const struct hf__slot *slot;
        TAILQ_FOREACH (slot, &core->slots[i].head, link) {
            n += holds(slot, purpose) ? 1 : 0;
        }
    }
    return n;
}

static bool is_in_use(enum hf__slot_state state)
{
    return state == HF__SLOT_OUT || state == HF__SLOT_PINNED || state == HF__SLOT_PINGING;
}

static bool serves(const struct hf__slot *slot, enum hf__purpose purpose)
{
    return is_in_use(slot->state) && slot->purpose == purpose;
}

static bool held_by_others(const struct hf__slot *slot, enum hf__purpose purpose)
{
    (void)purpose;
    return !slot->renewal && (is_in_use(slot->state) || slot->state == HF__SLOT_CHECKING || slot->state == HF__SLOT_OPENING);
}

size_t hf__core_used_for(const struct hf__core *core, enum hf__purpose purpose)
{
    return count_if(core, serves, purpose);
}

size_t hf__core_waiting(const struct hf__core *core)
{
    size_t n = 0;
    const struct hf__waiter *waiter;
    TAILQ_FOREACH (waiter, &core->renewals, link) {
        n++;
    }
    TAILQ_FOREACH (waiter, &core->others, link) {
        n++;
    }
    return n;
}

/* The one place where a slot changes its list. */
static void move(struct hf__core *core, struct hf__slot *slot, enum hf__slot_state state)
{
    struct hf__slot_list *from = &core->slots[slot->state];
    struct hf__slot_list *to = &core->slots[state];
    TAILQ_REMOVE(&from->head, slot, link);
    from->count--;
    TAILQ_INSERT_HEAD(&to->head, slot, link);
    to->count++;
    slot->state = state;
    size_t open = hf__core_open(core);
    core->peak_open = open > core->peak_open ? open : core->peak_open;
    size_t in_use = hf__core_in_use(core);
    core->peak_in_use = in_use > core->peak_in_use ? in_use : core->peak_in_use;
}

/* A connection was found dead: perhaps all are. */
static void suspect_all(struct hf__core *core)
{
    core->generation++;
}

static void begin_purpose(struct hf__core *core, struct hf__slot *slot, enum hf__purpose purpose, int64_t now)
{
    slot->purpose = purpose;
    slot->since_ns = now;
    hf__ledger_began(&core->ledger, purpose, hf__core_used_for(core, purpose));
}

static void end_purpose(struct hf__core *core, const struct hf__slot *slot, int64_t now)
{
    hf__ledger_ended(&core->ledger, slot->purpose, now - slot->since_ns);
}

/* Granting. */

static void hand_over(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    move(core, waiter->slot, HF__SLOT_OUT);
    begin_purpose(core, waiter->slot, waiter->purpose, now);
    hf__ledger_waited(&core->ledger, waiter->purpose, now - waiter->asked_ns);
    waiter->state = HF__HAVE;
}

static struct hf__waiters *queue_of(struct hf__core *core, const struct hf__waiter *waiter)
{
    return waiter->purpose == HF__PURPOSE_RENEW ? &core->renewals : &core->others;
}

/* Whoever asked first stands first, also one that comes back after a failure. */
static void enqueue(struct hf__core *core, struct hf__waiter *waiter)
{
    struct hf__waiters *queue = queue_of(core, waiter);
    struct hf__waiter *before = TAILQ_LAST(queue, hf__waiters);
    while (before != NULL && before->ticket > waiter->ticket) {
        before = TAILQ_PREV(before, hf__waiters, link);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(queue, waiter, link);
    } else {
        TAILQ_INSERT_AFTER(queue, before, waiter, link);
    }
    waiter->state = HF__WAITING;
    waiter->watch_ns = INT64_MAX;
    waiter->slot = NULL;
}

static void leave_queue(struct hf__core *core, struct hf__waiter *waiter, enum hf__waiter_state state)
{
    TAILQ_REMOVE(queue_of(core, waiter), waiter, link);
    waiter->state = state;
}

static struct hf__waiter *first_waiter(const struct hf__core *core)
{
    return TAILQ_EMPTY(&core->renewals) ? TAILQ_FIRST(&core->others) : TAILQ_FIRST(&core->renewals);
}

static bool may_hold(const struct hf__core *core, const struct hf__waiter *waiter)
{
    size_t limit = core->options.size - core->options.reserved;
    size_t held = hf__core_in_use(core) + count_of(core, HF__SLOT_CHECKING) + count_of(core, HF__SLOT_OPENING);
    return waiter->purpose == HF__PURPOSE_RENEW || held < limit || count_if(core, held_by_others, waiter->purpose) < limit;
}

static bool backing_off(const struct hf__core *core, int64_t now)
{
    return core->failures > 0 && now < core->retry_ns;
}

/* After a failure one connect at a time tries the server; its success lets the others go. */
static bool may_open(const struct hf__core *core, int64_t now)
{
    bool room = hf__core_occupied(core) < core->options.size && count_of(core, HF__SLOT_EMPTY) > 0;
    bool calm = core->failures == 0 || (!backing_off(core, now) && count_of(core, HF__SLOT_OPENING) == 0);
    return room && calm;
}

static bool needs_check(const struct hf__core *core, const struct hf__slot *slot, int64_t now)
{
    return slot->generation != core->generation || now - slot->since_ns > core->options.idle_check_ns;
}

static void grant_idle(struct hf__core *core, struct hf__waiter *waiter, struct hf__slot *slot, int64_t now)
{
    waiter->slot = slot;
    slot->renewal = waiter->purpose == HF__PURPOSE_RENEW;
    if (needs_check(core, slot, now)) {
        slot->generation = core->generation;
        move(core, slot, HF__SLOT_CHECKING);
        waiter->state = HF__CHECK;
    } else {
        hand_over(core, waiter, now);
    }
}

static void grant_open(struct hf__core *core, struct hf__waiter *waiter)
{
    struct hf__slot *slot = TAILQ_FIRST(&core->slots[HF__SLOT_EMPTY].head);
    waiter->slot = slot;
    slot->renewal = waiter->purpose == HF__PURPOSE_RENEW;
    slot->generation = core->generation;
    move(core, slot, HF__SLOT_OPENING);
    waiter->state = HF__OPEN;
}

static bool grant(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    struct hf__slot *idle = TAILQ_FIRST(&core->slots[HF__SLOT_IDLE].head);
    bool open = may_open(core, now) && (idle == NULL || (waiter->prefers_open && needs_check(core, idle, now)));
    if ((idle == NULL && !open) || !may_hold(core, waiter)) {
        return false;
    }
    TAILQ_REMOVE(queue_of(core, waiter), waiter, link);
    if (open) {
        grant_open(core, waiter);
    } else {
        grant_idle(core, waiter, idle, now);
    }
    core->options.wake(waiter);
    return true;
}

/* Runs at the end of every edge: whatever came free goes to whoever waits longest. A renewal that cannot be served
 * leaves nothing that another could be served with. Then the first waiter gets to watch the clock, if the clock is what it waits for. */
static void dispatch(struct hf__core *core, int64_t now)
{
    struct hf__waiter *first = first_waiter(core);
    while (first != NULL && grant(core, first, now)) {
        first = first_waiter(core);
    }
    if (first != NULL && backing_off(core, now) && core->retry_ns < first->watch_ns) {
        first->watch_ns = core->retry_ns;
        core->options.wake(first);
    }
}

/* Queues, or answers at once a waiter that is not to wait. */
static void queue_up(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    enqueue(core, waiter);
    if (core->shut) {
        leave_queue(core, waiter, HF__STOPPED);
    }
    dispatch(core, now);
    if (waiter->state == HF__WAITING && !waiter->may_wait) {
        leave_queue(core, waiter, HF__NONE);
        dispatch(core, now);
    }
}

void hf__core_ask(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    waiter->ticket = core->tickets++;
    waiter->asked_ns = now;
    waiter->prefers_open = false;
    queue_up(core, waiter, now);
}

void hf__core_tick(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    if (now >= waiter->watch_ns) {
        waiter->watch_ns = INT64_MAX;
    }
    dispatch(core, now);
}

void hf__core_give_up(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    leave_queue(core, waiter, HF__GAVE_UP);
    hf__ledger_gave_up(&core->ledger, waiter->purpose);
    dispatch(core, now);
}

/* A pool that was shut meanwhile takes back what the waiter was about to have. */
static void have(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    if (core->shut) {
        move(core, waiter->slot, HF__SLOT_CLOSING);
        waiter->state = HF__STOPPED;
    } else {
        hand_over(core, waiter, now);
    }
    dispatch(core, now);
}

void hf__core_checked(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    have(core, waiter, now);
}

void hf__core_check_failed(struct hf__core *core, struct hf__waiter *waiter, bool lost, int64_t now)
{
    if (lost) {
        suspect_all(core);
        core->broken++;
    }
    waiter->prefers_open = true;
    move(core, waiter->slot, HF__SLOT_CLOSING);
    dispatch(core, now);
}

void hf__core_ask_again(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    core->closed++;
    move(core, waiter->slot, HF__SLOT_EMPTY);
    queue_up(core, waiter, now);
}

void hf__core_opened(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    struct hf__slot *slot = waiter->slot;
    int64_t lifetime = core->options.max_lifetime_ns;
    int64_t cut = (int64_t)core->options.random_below((uint64_t)(lifetime / 5) + 1);
    slot->expires_ns = now + lifetime - cut;
    core->opened++;
    core->failures = 0;
    have(core, waiter, now);
}

/* Connects that began before the last failure was known belong to its round and do not double the wait again. */
static bool back_off(struct hf__core *core, int64_t now)
{
    if (backing_off(core, now)) {
        return false;
    }
    unsigned doublings = core->failures < 30 ? core->failures : 30;
    int64_t most = core->options.backoff_max_ns;
    int64_t wait = core->options.backoff_min_ns;
    wait = wait > (most >> doublings) ? most : wait << doublings;
    core->failures++;
    core->retry_ns = now + wait - (int64_t)core->options.random_below((uint64_t)(wait / 2) + 1);
    return true;
}

bool hf__core_open_failed(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    core->connect_failures++;
    bool new_round = back_off(core, now);
    waiter->prefers_open = false;
    move(core, waiter->slot, HF__SLOT_EMPTY);
    if (core->shut || hf__core_open(core) + count_of(core, HF__SLOT_OPENING) > 0) {
        queue_up(core, waiter, now);
    } else {
        waiter->slot = NULL;
        waiter->state = HF__FAILED;
        dispatch(core, now);
    }
    return new_round;
}

void hf__core_open_abandoned(struct hf__core *core, struct hf__waiter *waiter, int64_t now)
{
    move(core, waiter->slot, HF__SLOT_EMPTY);
    waiter->slot = NULL;
    waiter->state = HF__GAVE_UP;
    hf__ledger_gave_up(&core->ledger, waiter->purpose);
    dispatch(core, now);
}

/* Held. */

void hf__core_purpose(struct hf__core *core, struct hf__slot *slot, enum hf__purpose purpose, int64_t now)
{
    end_purpose(core, slot, now);
    begin_purpose(core, slot, purpose, now);
}

/* On a grid that all slots share, so that the keeper wakes once for all of them. */
static int64_t next_look(const struct hf__core *core, int64_t now)
{
    int64_t interval = core->options.look_ns;
    return (now / interval + 1) * interval;
}

void hf__core_pin(struct hf__core *core, struct hf__slot *slot, int64_t now)
{
    slot->look_ns = next_look(core, now);
    slot->ping_ns = now + core->options.keepalive_ns;
    move(core, slot, HF__SLOT_PINNED);
}

void hf__core_unpin(struct hf__core *core, struct hf__slot *slot)
{
    move(core, slot, HF__SLOT_OUT);
}

/* Returning. */

/* More than the size, not counting what is being closed already. */
static bool is_over_size(const struct hf__core *core)
{
    return hf__core_occupied(core) - count_of(core, HF__SLOT_CLOSING) > core->options.size;
}

bool hf__core_release(struct hf__core *core, struct hf__slot *slot, enum hf__returned returned, int64_t now)
{
    end_purpose(core, slot, now);
    if (returned == HF__RETURNED_LOST) {
        suspect_all(core);
        core->broken++;
    }
    bool keep = returned == HF__RETURNED_CLEAN && !core->shut && now < slot->expires_ns && !is_over_size(core);
    slot->since_ns = now;
    move(core, slot, keep ? HF__SLOT_IDLE : HF__SLOT_CLOSING);
    dispatch(core, now);
    return !keep;
}

void hf__core_closed(struct hf__core *core, struct hf__slot *slot, int64_t now)
{
    core->closed++;
    move(core, slot, HF__SLOT_EMPTY);
    dispatch(core, now);
}

void hf__core_add(struct hf__core *core, struct hf__slot *slot)
{
    slot->state = HF__SLOT_EMPTY;
    TAILQ_INSERT_HEAD(&core->slots[HF__SLOT_EMPTY].head, slot, link);
    core->slots[HF__SLOT_EMPTY].count++;
}

void hf__core_resize(struct hf__core *core, size_t size, size_t reserved, int64_t now)
{
    core->options.size = size;
    core->options.reserved = reserved;
    dispatch(core, now);
}

void hf__core_shut(struct hf__core *core, int64_t now)
{
    core->shut = true;
    for (struct hf__waiter *first = first_waiter(core); first != NULL; first = first_waiter(core)) {
        leave_queue(core, first, HF__STOPPED);
        core->options.wake(first);
    }
    dispatch(core, now);
}

/* The keeper's. */

/* Looking costs no round trip, so every look that is due comes before any ping; a ping is due if it could not wait for the next look. */
struct hf__slot *hf__core_watch(struct hf__core *core, bool *ping, int64_t now)
{
    struct hf__slot *slot;
    struct hf__slot *oldest = NULL;
    TAILQ_FOREACH (slot, &core->slots[HF__SLOT_PINNED].head, link) {
        if (slot->look_ns <= now) {
            break;
        }
        if (slot->ping_ns < now + core->options.look_ns && (oldest == NULL || slot->ping_ns < oldest->ping_ns)) {
            oldest = slot;
        }
    }
    *ping = slot == NULL;
    slot = slot == NULL ? oldest : slot;
    if (slot != NULL) {
        move(core, slot, HF__SLOT_PINGING);
    }
    return slot;
}

void hf__core_watched(struct hf__core *core, struct hf__slot *slot, bool alive, bool pinged, int64_t now)
{
    if (!alive) {
        suspect_all(core);
        slot->look_ns = INT64_MAX;
        slot->ping_ns = INT64_MAX;
    } else {
        slot->look_ns = next_look(core, now);
        slot->ping_ns = pinged ? now + core->options.keepalive_ns : slot->ping_ns;
    }
    move(core, slot, HF__SLOT_PINNED);
}

int64_t hf__core_slot_due(const struct hf__core *core, const struct hf__slot *slot)
{
    if (slot->state == HF__SLOT_PINNED) {
        return slot->look_ns;
    }
    if (slot->state != HF__SLOT_IDLE) {
        return INT64_MAX;
    }
    int64_t limit = core->options.idle_close_ns;
    int64_t idle_until = limit > INT64_MAX - slot->since_ns ? INT64_MAX : slot->since_ns + limit;
    return idle_until < slot->expires_ns ? idle_until : slot->expires_ns;
}

struct hf__slot *hf__core_reap(struct hf__core *core, int64_t now)
{
    struct hf__slot *slot;
    TAILQ_FOREACH_REVERSE (slot, &core->slots[HF__SLOT_IDLE].head, hf__slots, link) {
        if (core->shut || is_over_size(core) || now >= hf__core_slot_due(core, slot)) {
            move(core, slot, HF__SLOT_CLOSING);
            return slot;
        }
    }
    return NULL;
}

int64_t hf__core_due(const struct hf__core *core)
{
    int64_t due = INT64_MAX;
    const struct hf__slot *slot;
    TAILQ_FOREACH (slot, &core->slots[HF__SLOT_PINNED].head, link) {
        due = hf__core_slot_due(core, slot) < due ? hf__core_slot_due(core, slot) : due;
    }
    TAILQ_FOREACH (slot, &core->slots[HF__SLOT_IDLE].head, link) {
        due = hf__core_slot_due(core, slot) < due ? hf__core_slot_due(core, slot) : due;
    }
    return due;
}

/* Reading. */

static void add_running(struct hf__pool_snapshot *out, const struct hf__slot *slot, int64_t now)
{
    if (is_in_use(slot->state)) {
        out->ledger.line[slot->purpose].in_use++;
        hf__ledger_ended(&out->ledger, slot->purpose, now - slot->since_ns);
    }
}

void hf__core_snapshot(const struct hf__core *core, struct hf__pool_snapshot *out, int64_t now)
{
    out->size = core->options.size;
    out->reserved = core->options.reserved;
    out->open = hf__core_open(core);
    out->idle = count_of(core, HF__SLOT_IDLE);
    out->in_use = hf__core_in_use(core);
    out->opening = count_of(core, HF__SLOT_OPENING);
    out->closing = count_of(core, HF__SLOT_CLOSING);
    out->waiting = hf__core_waiting(core);
    out->peak_open = core->peak_open;
    out->peak_in_use = core->peak_in_use;
    out->opened = core->opened;
    out->closed = core->closed;
    out->broken = core->broken;
    out->connect_failures = core->connect_failures;
    out->ledger = core->ledger;
    for (size_t i = 0; i < HF__SLOT_STATES; i++) {
        const struct hf__slot *slot;
        TAILQ_FOREACH (slot, &core->slots[i].head, link) {
            add_running(out, slot, now);
        }
    }
}
