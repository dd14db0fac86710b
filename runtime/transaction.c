/* Transactional mode: the handler writes through its delivery's own transaction.
 *
 * Whoever decides the outcome ends the transaction: the worker when the handler has returned, or the caller of hf_delivery_settle. An ack
 * commits the writes and the settle together; any other outcome undoes the writes and is then settled as without the mode.
 *
 * Held engine: the transaction is on the connection that holds the row. Lease engine: on a connection that the worker acquires before the
 * handler begins. While it is being ended nobody renews the lease, as while a settle is being sent; what is left to settle after it
 * goes on to the settler.
 *
 * SQLite has one writer: as long as the transaction is open and writes, a renewal cannot get through, nor can anybody else's claim. So
 * such a lease is not lost when its time is over; the token in the ack decides. */
#include "runtime/delivery.h"

#include <string.h>

#include "runtime/partition.h"

/* ---- opening ---- */

bool hf__transaction_shuts_out(const struct hf_delivery *delivery)
{
    return delivery->in_transaction && delivery->subscription->runtime->url->database == HF__SQLITE;
}

/* The handler could not begin. The row goes back unbegun, and neither it nor another one is claimed for a while. */
static void not_begun(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf__log_noise(subscription, &subscription->claim_noise, HF_LOG_ERROR,
                  "%s: row %s goes back, because a transaction for its handler cannot be opened: %s: %s", subscription->table->display,
                  delivery->row->id_text, hf_status_name(status), err->message);
    pthread_mutex_lock(&subscription->lock);
    int64_t wait_ns = hf__backoff_ns(++subscription->openings_failed, status == HF_TRANSIENT);
    subscription->count.claim_errors++;
    hf__delivery_turn_back(delivery, wait_ns / 1000);
    subscription->next_poll_ns = hf__monotonic_ns() + wait_ns;
    pthread_mutex_unlock(&subscription->lock);
}

/* False: the stop, or the loss of the row, came first. */
static bool opened(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    bool runs = !subscription->over && !delivery->lost;
    subscription->openings_failed = 0;
    delivery->in_transaction = true;
    if (runs)
        hf__delivery_runs(delivery);
    else
        hf__delivery_turn_back(delivery, 0);
    pthread_mutex_unlock(&subscription->lock);
    return runs;
}

bool hf__transaction_begin(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_error err = {.status = HF_OK};
    hf_status status = hf__transaction_open(subscription->plan, hf__checkout_conn(delivery->checkout), delivery->row,
                                            hf__call_deadline(subscription), &err);
    if (status == HF_OK)
        return opened(delivery);
    not_begun(delivery, status, &err);
    return false;
}

/* ---- the end, both engines ---- */

/* The ack did not come about: says so to who waits for it, and lets the row be put back. */
static void put_back(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf__log_noise(subscription, &subscription->handler_noise, HF_LOG_WARNING,
                  "%s: row %s runs again later, because its ack was undone: %s: %s", subscription->table->display, delivery->row->id_text,
                  hf_status_name(status), err->message);
    hf_status noted = hf_delivery_set_reason(delivery, err->message, strlen(err->message));
    (void)noted; /* without memory it goes back with what the handler said of it, if anything */
    pthread_mutex_lock(&subscription->lock);
    hf__delivery_undone(delivery, status, err);
    pthread_mutex_unlock(&subscription->lock);
}

static hf_status ack(struct hf_delivery *delivery, struct hf__change *change, bool *undone, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_status status = hf__transaction_ack(subscription->plan, hf__checkout_conn(delivery->checkout), change, undone,
                                           hf__call_deadline(subscription), err);
    if (status != HF_UNKNOWN)
        return status;
    status = hf__resolve(delivery, change, err);
    if (status != HF_TRANSIENT)
        return status;
    *undone = true;
    return hf__fail(err, HF_LOST, "table %s: the connection was lost before the commit of row %s, and nothing of it is kept",
                    subscription->table->display, delivery->row->id_text);
}

bool hf__transaction_end(struct hf_delivery *delivery, struct hf__change *change, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    bool undone = false;
    if (change->action != HF__ACK) {
        change->status =
            hf__transaction_undo(subscription->plan, hf__checkout_conn(delivery->checkout), hf__call_deadline(subscription), err);
        return change->status != HF_OK;
    }
    hf__checkout_purpose(delivery->checkout, HF__PURPOSE_SETTLE);
    delivery->sent = true;
    change->status = ack(delivery, change, &undone, err);
    if (!undone)
        return true;
    delivery->sent = false;
    put_back(delivery, change->status, err);
    return false;
}

/* ---- lease engine ---- */

static void let_go(struct hf_delivery *delivery, bool fit)
{
    if (!delivery->checkout)
        return;
    hf__checkout_conn(delivery->checkout)->retire |= !fit;
    hf__pool_release(delivery->checkout);
    delivery->checkout = NULL;
}

/* Stops its renewals, and waits for one that is in flight. */
static void pause_renewals(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    delivery->paused = true;
    hf__lease_unwatch(delivery);
    while (delivery->renewing)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
}

/* Under the lock: what the transaction has left to settle goes to the settler, and is renewed until it is there. */
static void pass_on(struct hf_delivery *delivery)
{
    delivery->paused = false;
    if (!delivery->renewing && !delivery->lost && !delivery->abandoned)
        hf__lease_watch(delivery, delivery->renew_ns);
    hf__lease_settle(delivery);
}

static void on_lost(void *ctx)
{
    struct hf_delivery *delivery = ctx;
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    hf__delivery_cancel(delivery, HF_CANCEL_LOST);
    pthread_mutex_unlock(&subscription->lock);
}

static bool is_dropped(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    bool dropped = subscription->over || delivery->lost;
    if (dropped)
        hf__delivery_turn_back(delivery, 0);
    pthread_mutex_unlock(&subscription->lock);
    return dropped;
}

bool hf__lease_begin(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_error err = {.status = HF_OK};
    if (is_dropped(delivery))
        return false;
    hf_status status =
        hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_HANDLER, hf__call_deadline(subscription), &delivery->checkout, &err);
    if (status != HF_OK) {
        not_begun(delivery, status, &err);
        return false;
    }
    hf__check_model(subscription);
    if (hf__transaction_locks_row(subscription->plan))
        pause_renewals(delivery);
    if (!hf__transaction_begin(delivery))
        return false;
    hf__checkout_pin(delivery->checkout, on_lost, delivery);
    return true;
}

/* The transaction was not the one that we began, so nothing is settled. The row is dropped, and need not wait for its lease to run out. */
static void free_row(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    struct hf__conn *conn = hf__checkout_conn(delivery->checkout);
    pause_renewals(delivery);
    hf_status status = hf__transaction_free(subscription->plan, conn, delivery->row, hf__call_deadline(subscription));
    if (status != HF_OK)
        hf__log_noise(subscription, &subscription->handler_noise, HF_LOG_WARNING, "%s: row %s is free when its lease has run out: %s",
                      subscription->table->display, delivery->row->id_text, hf_status_name(status));
}

/* True: the settle has its final answer. A lease is held without this connection: if that is lost, so are the writes, and the settler
 * goes on. */
static bool end_lease(struct hf_delivery *delivery, struct hf__change *change, hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (change->action == HF__UNBEGUN) { /* perhaps there is no transaction; and nobody has written in it */
        hf__conn_end(hf__checkout_conn(delivery->checkout), hf__call_deadline(subscription));
        return false;
    }
    if (change->action == HF__ACK)
        pause_renewals(delivery);
    pthread_mutex_lock(&subscription->lock);
    bool lost = delivery->lost, settled;
    pthread_mutex_unlock(&subscription->lock);
    if (change->action == HF__ACK && !lost) {
        settled = hf__transaction_end(delivery, change, err); /* which may have changed the connection, or have left none */
    } else {
        struct hf__conn *conn = hf__checkout_conn(delivery->checkout);
        change->status = hf__transaction_undo(subscription->plan, conn, hf__call_deadline(subscription), err);
        conn->retire = conn->retire || change->status != HF_OK;
        settled = change->status != HF_OK && !conn->lost && !lost;
    }
    if (settled && change->status == HF_LOST && delivery->checkout && !hf__checkout_conn(delivery->checkout)->lost)
        free_row(delivery);
    return settled;
}

static void finish(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf__delivery_report(delivery, status, err);
    pthread_mutex_lock(&subscription->lock);
    delivery->in_transaction = false;
    hf__delivery_finish(delivery, status, err);
    struct hf_delivery *last = hf__delivery_unref(delivery); /* the row's; the caller has one of its own */
    hf__lease_made_room(subscription);
    pthread_mutex_unlock(&subscription->lock);
    hf__delivery_free(last);
}

void hf__lease_end(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_error err = {.status = HF_OK};
    struct hf__change change = hf__delivery_change(delivery);
    bool settled = false;
    if (delivery->checkout) {
        (void)hf__checkout_unpin(delivery->checkout); /* a lost connection says so in what is run on it next */
        settled = end_lease(delivery, &change, &err);
    }
    let_go(delivery, !settled || change.status == HF_OK);
    if (settled) {
        finish(delivery, change.status, &err);
        return;
    }
    pthread_mutex_lock(&subscription->lock);
    delivery->in_transaction = false;
    hf__gate_wake(&delivery->changed);
    hf__partition_pass(delivery);
    pass_on(delivery);
    pthread_mutex_unlock(&subscription->lock);
}

void hf__lease_await_end(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (delivery->in_transaction)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
}

/* ---- the native handle ---- */

/* Under the lock: may the handler have it? *first: it is shown for the first time. */
static bool may_show(struct hf_delivery *delivery, bool *first)
{
    bool runs = delivery->state == HF__DELIVERY_RUNNING || delivery->state == HF__DELIVERY_DEFERRED;
    bool may = runs && delivery->in_transaction && delivery->checkout;
    *first = may && !delivery->exposed;
    delivery->exposed = delivery->exposed || may;
    return may;
}

void *hf__delivery_native(struct hf_delivery *delivery, enum hf__database database)
{
    struct hf_subscription *subscription = delivery->subscription;
    bool first;
    if (!subscription->options.transactional || subscription->runtime->url->database != database ||
        hf__runtime_usable(subscription->runtime, NULL) != HF_OK)
        return NULL;
    pthread_mutex_lock(&subscription->lock);
    bool may = may_show(delivery, &first);
    struct hf__checkout *checkout = delivery->checkout;
    pthread_mutex_unlock(&subscription->lock);
    if (!may)
        return NULL;
    if (first) {
        (void)hf__checkout_unpin(checkout); /* from now on it is the handler's, which sees for itself what it can do */
        hf__checkout_touched(checkout);
    }
    return hf__conn_native(hf__checkout_conn(checkout));
}
