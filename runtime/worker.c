/* The held engine: row lock and advisory lock. Each worker claims, runs and settles one row at a time, on one connection that
 * stays with the row while its handler runs (SQLite advisory: the process holds the key, and no connection is held).
 * A batch of a row lock is claimed at once, held by one connection, and settled at once. A batch of an advisory lock is gathered: each
 * row after the first on a connection of its own, as many as are free.
 *
 * Of the idle workers one, the scout, polls. When its claim finds a row it makes another idle worker the scout, which claims at
 * once, before it runs its handler; and a worker whose turn came in this way calls a second one. So a burst of rows wakes all
 * workers in a few rounds, one row wakes one worker too many, and idle workers cost one query per interval.
 * Invariant: while a worker is on the idle list there is a scout, or that worker is about to become it. */
#include <stdlib.h>

#include "runtime/delivery.h"

#define BUSY_KEY_US INT64_C(50000)                 /* the pause after rows whose partition key is in work after all */
#define KEEP_NS INT64_C(1000000000)                /* how long a worker goes on with one connection */
#define SETTLE_LIMIT_NS (60 * INT64_C(1000000000)) /* how long a connection to settle on is asked for */

struct claim {
    struct hf__checkout *checkout; /* kept from row to row; NULL: none */
    int64_t since_ns;
};

/* ---- whose turn it is ---- */

/* Under the lock: may this idle worker claim now? */
static bool may_go(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    bool due = subscription->scout == worker && (subscription->woken || hf__monotonic_ns() >= subscription->next_poll_ns);
    if (!due && !worker->called)
        return false;
    worker->in_burst = worker->called || subscription->next_poll_ns == 0;
    worker->called = false;
    if (due)
        subscription->woken = false;
    return true;
}

/* Waits until it is this worker's turn to claim. False: the subscription stops. */
static bool wait_for_turn(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    bool go = false;
    pthread_mutex_lock(&subscription->lock);
    TAILQ_INSERT_TAIL(&subscription->idle, worker, idle);
    while (!go && !subscription->stopping) {
        if (!subscription->scout)
            subscription->scout = worker;
        go = may_go(worker);
        if (!go)
            (void)hf__sleep(&worker->sleeper, &subscription->lock,
                            subscription->scout == worker ? hf__at_ns(subscription->next_poll_ns) : hf__never());
    }
    TAILQ_REMOVE(&subscription->idle, worker, idle);
    pthread_mutex_unlock(&subscription->lock);
    return go;
}

static void call_one(struct hf_subscription *subscription)
{
    struct hf__worker *other;
    TAILQ_FOREACH (other, &subscription->idle, idle)
        if (other != subscription->scout && !other->called) {
            other->called = true;
            hf__rouse(&other->sleeper);
            return;
        }
}

/* Under the lock, by a worker that found a row: where one is there may be more, so another claims at once. */
static void pass_scout(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    hf__claim_due_now(subscription);
    if (!subscription->scout || subscription->scout == worker)
        subscription->scout = TAILQ_FIRST(&subscription->idle);
    if (subscription->scout)
        hf__rouse(&subscription->scout->sleeper);
    if (worker->in_burst)
        call_one(subscription);
}

static void found_nothing(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    subscription->count.empty_claims++;
    if (!subscription->scout || subscription->scout == worker)
        hf__claim_came_short(subscription, true);
    if (worker->contended)
        hf__claim_contended(subscription);
    pthread_mutex_unlock(&subscription->lock);
}

/* ---- connections ---- */

static void let_go(struct claim *claim)
{
    if (claim->checkout)
        hf__pool_release(claim->checkout);
    claim->checkout = NULL;
}

/* May the connection be used for the next claim without going through the pool? */
static bool reusable(const struct hf_subscription *subscription, const struct claim *claim)
{
    const struct hf__conn *conn = hf__checkout_conn(claim->checkout);
    return subscription->runtime->pool_ample && !conn->lost && !conn->retire && hf__monotonic_ns() - claim->since_ns < KEEP_NS;
}

static hf_status connect_claim(struct hf_subscription *subscription, struct claim *claim, hf_error *err)
{
    if (claim->checkout && reusable(subscription, claim)) {
        hf__checkout_purpose(claim->checkout, HF__PURPOSE_CLAIM);
        return HF_OK;
    }
    let_go(claim);
    claim->since_ns = hf__monotonic_ns();
    return hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_CLAIM, hf__call_deadline(subscription), &claim->checkout, err);
}

/* ---- the settle ---- */

/* Sleeps before the next try; false when there should be none. */
static bool try_again(struct hf_delivery *delivery, int64_t since_ns)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    delivery->tries++;
    struct hf__deadline deadline = hf__at_ns(hf__monotonic_ns() + hf__backoff_ns(delivery->tries, true));
    bool again = !subscription->over && hf__monotonic_ns() - since_ns < SETTLE_LIMIT_NS;
    while (again && !subscription->over && !hf__passed(deadline))
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, deadline);
    subscription->count.settle_retries += again;
    pthread_mutex_unlock(&subscription->lock);
    return again;
}

/* A connection to settle on. The one that holds the row; without one (SQLite advisory, resolving) any, tried for a while. */
static hf_status settle_connection(struct hf_delivery *delivery, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    int64_t since = hf__monotonic_ns();
    hf_status status;
    do
        status =
            hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_SETTLE, hf__call_deadline(subscription), &delivery->checkout, err);
    while (status != HF_OK && status != HF_STOPPED && try_again(delivery, since));
    return status;
}

static void drop_connection(struct hf_delivery *delivery)
{
    if (delivery->checkout)
        hf__pool_release(delivery->checkout);
    delivery->checkout = NULL;
}

/* The settle was sent and not answered: reads the row again on another connection. */
hf_status hf__resolve(struct hf_delivery *delivery, struct hf__change *change, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    bool acked_in_transaction = delivery->in_transaction && change->action == HF__ACK;
    int64_t since = hf__monotonic_ns();
    hf_status status;
    do {
        drop_connection(delivery);
        status = settle_connection(delivery, err);
        if (status != HF_OK)
            break;
        struct hf__conn *conn = hf__checkout_conn(delivery->checkout);
        status = acked_in_transaction
                     ? hf__transaction_resolve(subscription->plan, conn, change, hf__call_deadline(subscription), err)
                     : subscription->strategy->resolve(subscription->plan, conn, change, hf__call_deadline(subscription), err);
    } while (status != HF_OK && try_again(delivery, since));
    return status == HF_OK ? change->status : HF_UNKNOWN;
}

/* Sends the settle. The strategy tries passing failures again by itself; after it has answered the rows, or the key, are let go in any
 * case. */
static void send(struct hf_delivery *delivery, struct hf__change *changes, size_t n, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->sent = true;
    hf__checkout_purpose(delivery->checkout, HF__PURPOSE_SETTLE);
    (void)subscription->strategy->settle(subscription->plan, hf__checkout_conn(delivery->checkout), changes, n,
                                         hf__call_deadline(subscription), err);
}

/* Of the delivery and its mates, whose settle comes now. True: the connection that held them was lost before. */
static bool end_work(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    bool lost = delivery->lost;
    for (; delivery; delivery = delivery->mate)
        hf__delivery_end_work(delivery);
    pthread_mutex_unlock(&subscription->lock);
    return lost;
}

/* HF_OK: there is a connection to settle on, and it still holds the row. */
static hf_status ready_to_settle(struct hf_delivery *delivery, hf_error *err)
{
    bool lost = end_work(delivery);
    if (!delivery->checkout)
        return settle_connection(delivery, err);
    if (!delivery->subscription->holds)
        return HF_OK;
    bool held = hf__checkout_unpin(delivery->checkout);
    if (held && !lost)
        return HF_OK;
    return hf__fail(err, HF_LOST,
                    "the connection that held row %s of table %s was lost while its handler ran; the database gave the row back",
                    delivery->row->id_text, delivery->subscription->table->display);
}

/* Fills the changes of the delivery and its mates. Returns how many they are. */
static size_t list_changes(struct hf_delivery *delivery, struct hf__change *changes)
{
    size_t n = 0;
    for (; delivery; delivery = delivery->mate)
        changes[n++] = hf__delivery_change(delivery);
    return n;
}

static void settle(struct hf_delivery *delivery, struct hf__change *changes, size_t n, hf_error *err)
{
    hf_status status = ready_to_settle(delivery, err);
    if (status == HF_OK && delivery->in_transaction) {
        if (hf__transaction_end(delivery, changes, err))
            return;
        changes[0] = hf__delivery_change(delivery);
    }
    if (status == HF_OK)
        send(delivery, changes, n, err);
    for (size_t i = 0; i < n && status != HF_OK; i++)
        changes[i].status = status;
}

static void finish_all(struct hf_delivery *delivery, const struct hf__change *changes, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    struct hf_delivery *each = delivery;
    for (size_t i = 0; each; each = each->mate, i++) {
        each->dead = changes[i].dead;
        hf__delivery_report(each, changes[i].status, err);
    }
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; delivery; delivery = delivery->mate)
        hf__delivery_finish(delivery, changes[i++].status, err);
    pthread_mutex_unlock(&subscription->lock);
}

/* How many of the changes read so. */
static size_t count_status(const struct hf__change *changes, size_t n, hf_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += changes[i].status == status;
    return count;
}

static void resolve_all(struct hf_delivery *delivery, struct hf__change *changes, size_t n, hf_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (changes[i].status == HF_UNKNOWN)
            changes[i].status = hf__resolve(delivery, &changes[i], err);
}

/* All is answered: the connection is kept only if it is fit for another use. */
static void end_settle(struct hf_delivery *delivery, const struct hf__change *changes, size_t n, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (count_status(changes, n, HF_OK) < n) {
        /* What still stands on this connection, a lock or a transaction, must not reach its next user. */
        if (delivery->checkout)
            hf__checkout_conn(delivery->checkout)->retire = true;
        drop_connection(delivery);
        if (subscription->strategy->forget && !delivery->sent)
            subscription->strategy->forget(subscription->plan, delivery->row);
    } else if (delivery->exposed) {
        drop_connection(delivery); /* its session is reset before anybody's next use */
    }
    finish_all(delivery, changes, err);
}

void hf__held_settle(struct hf_delivery *delivery)
{
    struct hf__change *changes = delivery->holder->changes;
    hf_error err = {.status = HF_OK};
    size_t n = list_changes(delivery, changes);
    settle(delivery, changes, n, &err);
    if (!delivery->in_transaction)
        resolve_all(delivery, changes, n, &err);
    end_settle(delivery, changes, n, &err);
}

/* ---- the settle of a batch ---- */

/* Settles the i-th of the batch and its mates. Its connection then goes to the next one that has none, or back. False: what became of it
 * must be looked at on another connection, and it has let go of its own. */
static bool settle_nth(struct hf__worker *worker, size_t i, struct hf__checkout **at_hand)
{
    struct hf_delivery *delivery = worker->list[i];
    struct hf__change *changes = worker->changes + i;
    hf_error err = {.status = HF_OK};
    if (!delivery->checkout) {
        delivery->checkout = *at_hand;
        *at_hand = NULL;
    }
    size_t n = list_changes(delivery, changes);
    settle(delivery, changes, n, &err);
    if (count_status(changes, n, HF_UNKNOWN) > 0) {
        drop_connection(delivery);
        return false;
    }
    end_settle(delivery, changes, n, &err);
    if (*at_hand) {
        drop_connection(delivery);
        return true;
    }
    *at_hand = delivery->checkout;
    delivery->checkout = NULL;
    return true;
}

static void resolve_nth(struct hf__worker *worker, size_t i)
{
    struct hf_delivery *delivery = worker->list[i];
    hf_error err = {.status = HF_OK};
    size_t n = 1;
    for (struct hf_delivery *mate = delivery->mate; mate; mate = mate->mate)
        n++;
    resolve_all(delivery, worker->changes + i, n, &err);
    end_settle(delivery, worker->changes + i, n, &err);
    drop_connection(delivery);
}

/* Each on the connection that holds it. One whose answer never came is looked at when no connection is held any more, so that nobody waits
 * for one while he holds another. Returns a connection that is fit for the next claim, or NULL. */
static struct hf__checkout *settle_batch(struct hf__worker *worker)
{
    struct hf__checkout *at_hand = NULL;
    size_t unanswered = 0;
    for (size_t i = 0; i < worker->n; i++) {
        bool mate = i > 0 && worker->list[i - 1]->mate == worker->list[i];
        if (!mate && !settle_nth(worker, i, &at_hand))
            worker->begun[unanswered++] = worker->list[i];
    }
    if (unanswered == 0)
        return at_hand;
    if (at_hand)
        hf__pool_release(at_hand);
    for (size_t i = 0, u = 0; i < worker->n && u < unanswered; i++)
        if (worker->list[i] == worker->begun[u]) {
            resolve_nth(worker, i);
            u++;
        }
    return NULL;
}

/* ---- deliveries ---- */

static void on_lost(void *ctx)
{
    struct hf_delivery *delivery = ctx;
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    for (; delivery; delivery = delivery->mate) {
        delivery->lost = true;
        hf__delivery_cancel(delivery, HF_CANCEL_LOST);
    }
    pthread_mutex_unlock(&subscription->lock);
}

/* The ledger does not tell a transaction of a lease from what hf_checkout lends, which has a bound of its own. */
void hf__check_model(struct hf_subscription *subscription)
{
    struct hf_runtime *runtime = subscription->runtime;
    size_t rows = hf__pool_in_use(runtime->pool, HF__PURPOSE_ROW_LOCK), keys = hf__pool_in_use(runtime->pool, HF__PURPOSE_ADVISORY_LOCK),
           handlers = hf__pool_in_use(runtime->pool, HF__PURPOSE_HANDLER);
    if (rows + keys + handlers <= runtime->held_allowed + runtime->lending_allowed)
        return;
    atomic_fetch_add(&runtime->model_exceeded, 1);
    hf__log_noise(subscription, &subscription->claim_noise, HF_LOG_ERROR,
                  "the cost model allows %zu connections to hold rows and %zu to be lent to handlers, but the ledger shows row_lock %zu, "
                  "advisory_lock "
                  "%zu and handler %zu: please report this",
                  runtime->held_allowed, runtime->lending_allowed, rows, keys, handlers);
}

/* The connection stays with the row, and its mates, or goes back at once where the process holds it. */
static void hold(struct hf_delivery *delivery, struct claim *claim)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (!subscription->holds) {
        let_go(claim);
        return;
    }
    hf__checkout_purpose(claim->checkout, subscription->held_as);
    delivery->checkout = claim->checkout;
    claim->checkout = NULL;
    hf__checkout_pin(delivery->checkout, on_lost, delivery);
    hf__check_model(subscription);
}

/* Begins what was claimed. When the stop came first it goes back unrun, and so does a row whose partition key is in work after all (it
 * was given another key in that moment). Returns how many have begun. */
static size_t begin(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    size_t begun = 0;
    pthread_mutex_lock(&subscription->lock);
    for (size_t i = 0; i < worker->n; i++) {
        struct hf_delivery *delivery = worker->list[i];
        if (subscription->stopping || !hf__partition_free(delivery, worker)) {
            hf__delivery_turn_back(delivery, BUSY_KEY_US);
            continue;
        }
        hf__delivery_begin(delivery);
        delivery->leads = begun == 0;
        worker->begun[begun++] = delivery;
    }
    pthread_mutex_unlock(&subscription->lock);
    return begun;
}

/* And until who settled it has let go of it: once its worker has ended nothing keeps the subscription for that thread. */
static void wait_until_settled(struct hf_delivery *delivery)
{
    enum { ROW_AND_WORKER = 2 };
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (delivery->state != HF__DELIVERY_DONE || delivery->refs > ROW_AND_WORKER)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
}

/* Under the lock: drops the row's reference, and the worker's. Returns the delivery when it is to be freed. */
static struct hf_delivery *leave(struct hf_delivery *delivery)
{
    bool begun = delivery->begun_ns != 0;
    struct hf_delivery *last = hf__delivery_unref(delivery);
    return begun && !last ? hf__delivery_unref(delivery) : last;
}

/* The worker is done with what it claimed. */
static void finish(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    subscription->extra -= subscription->strategy->kind == HF__ADVISORY_LOCK ? worker->n - 1 : 0;
    for (size_t i = 0; i < worker->n; i++)
        worker->list[i] = leave(worker->list[i]);
    pthread_mutex_unlock(&subscription->lock);
    for (; worker->n > 0; worker->n--) {
        hf__delivery_free(worker->list[worker->n - 1]);
        worker->list[worker->n - 1] = NULL;
    }
}

/* Transactional: opens what the handler writes through. False: the row goes back unbegun. */
static bool open_transaction(struct hf_delivery *delivery)
{
    if (!delivery->subscription->options.transactional)
        return true;
    (void)hf__checkout_unpin(delivery->checkout); /* whether it is lost shows next */
    if (!hf__transaction_begin(delivery))
        return false;
    hf__checkout_pin(delivery->checkout, on_lost, delivery);
    return true;
}

/* Runs and settles a single row. False: it could not begin. */
static bool run_one(struct hf_delivery *delivery, struct claim *claim, bool begun)
{
    begun = begun && open_transaction(delivery);
    if (!begun || hf__delivery_run(delivery))
        hf__held_settle(delivery);
    else
        wait_until_settled(delivery);
    claim->checkout = delivery->checkout; /* NULL unless it is fit for the next claim */
    return begun;
}

static void run_batch(struct hf__worker *worker, struct claim *claim, size_t begun)
{
    if (begun > 0)
        hf__batch_run(worker->begun, begun);
    claim->checkout = settle_batch(worker);
}

/* False: nothing has begun. */
static bool deliver(struct hf__worker *worker, struct claim *claim)
{
    size_t begun = begin(worker);
    bool any = begun > 0;
    if (worker->subscription->batch > 1)
        run_batch(worker, claim, begun);
    else
        any = run_one(worker->list[0], claim, any);
    finish(worker);
    return any;
}

/* ---- claiming ---- */

static bool goes_on(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    bool stopping = subscription->stopping;
    pthread_mutex_unlock(&subscription->lock);
    return !stopping;
}

/* Blank deliveries, so that memory cannot run out after a claim. Returns how many there are. */
static size_t provide(struct hf__worker *worker)
{
    size_t n = 0;
    for (; n < worker->subscription->batch; n++)
        if (!worker->list[n] && !(worker->list[n] = hf__delivery_new(worker->subscription)))
            break;
    return n;
}

/* Under the lock: where rows have partition keys a claim and the note of the keys that it took are one step, so claims take turns. */
static void await_claim(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    if (!subscription->keys)
        return;
    TAILQ_INSERT_TAIL(&subscription->turns, worker, turn);
    while (TAILQ_FIRST(&subscription->turns) != worker && !subscription->stopping)
        (void)hf__sleep(&worker->sleeper, &subscription->lock, hf__never());
}

static void end_claim(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    if (!subscription->keys)
        return;
    TAILQ_REMOVE(&subscription->turns, worker, turn);
    if (!TAILQ_EMPTY(&subscription->turns))
        hf__rouse(&TAILQ_FIRST(&subscription->turns)->sleeper);
}

/* The last moment before a claim. False: there is none, because of the stop, or of the keys in work, or of *status. */
static bool begin_claim(struct hf__worker *worker, struct hf__claim *ask, hf_status *status, hf_error *err)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    await_claim(worker);
    *status = hf__busy_list(subscription, worker, &worker->busy, err);
    ask->busy = worker->busy.values;
    ask->n_busy = worker->busy.n;
    bool go = *status == HF_OK && !subscription->stopping && !hf__partitions_full(subscription);
    subscription->count.claims += go;
    if (!go)
        end_claim(worker);
    pthread_mutex_unlock(&subscription->lock);
    return go;
}

/* Under the lock: takes n rows over, as mates. Only rows that can begin call others: where all go back there is nothing for them. */
static void receive(struct hf__worker *worker, size_t n)
{
    struct hf_delivery **list = worker->list + worker->n;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        list[i]->holder = worker;
        list[i]->mate = i + 1 < n ? list[i + 1] : NULL;
        hf__delivery_fill(list[i], worker->rows[i]);
        any = any || hf__partition_free(list[i], worker);
    }
    if (any && worker->n == 0)
        pass_scout(worker);
    worker->n += n;
}

/* Claims up to so many rows on this connection, which then holds them; *n is how many they are. */
static hf_status claim_rows(struct hf__worker *worker, struct claim *claim, size_t most, size_t *n, hf_error *err)
{
    struct hf_subscription *subscription = worker->subscription;
    struct hf__conn *conn = hf__checkout_conn(claim->checkout);
    hf_error refused = {.status = HF_OK};
    struct hf__claim ask = {.limit = most, .refused = &refused, .contended = &worker->contended};
    size_t before = worker->n;
    *n = 0;
    worker->contended = false;
    hf_status status = hf__claim_clock(subscription, conn, err);
    if (status != HF_OK || !begin_claim(worker, &ask, &status, err))
        return status;
    status = subscription->strategy->claim(subscription->plan, conn, &ask, hf__call_deadline(subscription), worker->rows, n, err);
    if (status != HF_OK)
        *n = 0;
    pthread_mutex_lock(&subscription->lock);
    receive(worker, *n);
    end_claim(worker);
    pthread_mutex_unlock(&subscription->lock);
    hf__claim_buried(subscription, ask.buried, &refused);
    if (*n > 0)
        hold(worker->list[before], claim);
    else if (status == HF_OK && before == 0)
        status = hf__look_for_keyless(subscription, conn, err);
    return status;
}

/* Under the lock: another connection for a batch, of those that are not kept for others. */
static bool may_gather(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    bool may = !subscription->stopping && subscription->extra < subscription->extra_most;
    subscription->extra += may;
    pthread_mutex_unlock(&subscription->lock);
    return may;
}

static void gathered_none(struct hf_subscription *subscription, bool empty)
{
    pthread_mutex_lock(&subscription->lock);
    subscription->extra--;
    subscription->count.empty_claims += empty;
    pthread_mutex_unlock(&subscription->lock);
}

/* Another row of a batch, on a connection that is free now. */
static bool gather_one(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    struct claim claim = {NULL, 0};
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    if (!may_gather(subscription))
        return false;
    hf_status status =
        hf__pool_try_acquire(subscription->runtime->pool, HF__PURPOSE_CLAIM, hf__call_deadline(subscription), &claim.checkout, &err);
    bool asked = status == HF_OK && claim.checkout; /* a connection that cannot be had is none that is free */
    if (asked)
        status = claim_rows(worker, &claim, 1, &n, &err);
    let_go(&claim);
    if (n == 0)
        gathered_none(subscription, asked && status == HF_OK);
    if (asked && status != HF_OK)
        hf__claim_failed(subscription, status, &err);
    return n > 0;
}

/* Claims, and runs what it finds. False: there is nothing, or it failed. */
static bool claim_and_run(struct hf__worker *worker, struct claim *claim)
{
    struct hf_subscription *subscription = worker->subscription;
    bool gathers = subscription->strategy->kind == HF__ADVISORY_LOCK;
    hf_error err = {.status = HF_OK};
    size_t n = 0, most = provide(worker);
    hf_status status = most > 0 ? connect_claim(subscription, claim, &err) : hf__fail_memory(&err);
    if (status == HF_OK)
        status = claim_rows(worker, claim, gathers ? 1 : most, &n, &err);
    if (n > 0) {
        while (gathers && worker->n < most && gather_one(worker))
            continue;
        if (deliver(worker, claim))
            return true;
    }
    if (status == HF_OK)
        found_nothing(worker);
    else
        hf__claim_failed(subscription, status, &err);
    return false;
}

void hf__held_worker(struct hf__worker *worker)
{
    struct claim claim = {NULL, 0};
    while (wait_for_turn(worker)) {
        while (claim_and_run(worker, &claim) && goes_on(worker->subscription))
            continue;
        let_go(&claim);
    }
}
