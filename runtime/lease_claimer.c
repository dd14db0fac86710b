/* The claimer: one statement fetches as many rows as there are free workers, and some ahead. */
#include <stdlib.h>

#include "runtime/delivery.h"

#define CLAIM_MOST 1000

/* Blank deliveries and room for rows, made before a claim so that memory cannot run out after it. */
struct batch {
    struct hf_delivery *blank[CLAIM_MOST]; /* the first n are there */
    size_t n;
    struct hf__row *rows[CLAIM_MOST];
    uint64_t keys_freed; /* the subscription's, when the claim began */
};

static size_t provide(struct batch *batch, struct hf_subscription *subscription, size_t want)
{
    while (batch->n < want && (batch->blank[batch->n] = hf__delivery_new(subscription)))
        batch->n++;
    return want < batch->n ? want : batch->n;
}

/* Waits until there is room and the next claim is due. 0: the subscription stops. */
static size_t wait_for_room(struct hf__worker *claimer)
{
    struct hf_subscription *subscription = claimer->subscription;
    size_t room = 0;
    pthread_mutex_lock(&subscription->lock);
    while (!subscription->stopping) {
        room = hf__lease_room(subscription);
        bool due = subscription->woken || hf__monotonic_ns() >= subscription->next_poll_ns;
        if (room > 0 && due)
            break;
        subscription->wants_room = room == 0;
        (void)hf__sleep(&claimer->sleeper, &subscription->lock, room > 0 ? hf__at_ns(subscription->next_poll_ns) : hf__never());
    }
    subscription->woken = subscription->wants_room = false;
    bool stopping = subscription->stopping;
    pthread_mutex_unlock(&subscription->lock);
    if (stopping)
        return 0;
    return room < CLAIM_MOST ? room : CLAIM_MOST;
}

/* The last moment before a claim. False: there is none, because of the stop, or of *status. */
static bool begin_claim(struct hf__worker *claimer, struct batch *batch, hf_status *status, hf_error *err)
{
    struct hf_subscription *subscription = claimer->subscription;
    pthread_mutex_lock(&subscription->lock);
    *status = hf__busy_list(subscription, NULL, &claimer->busy, err);
    bool go = *status == HF_OK && !subscription->stopping;
    subscription->count.claims += go;
    batch->keys_freed = subscription->keys_freed;
    pthread_mutex_unlock(&subscription->lock);
    return go;
}

static hf_status claim_rows(struct hf__worker *claimer, struct batch *batch, size_t want, size_t *n, int64_t *sent_ns, hf_error *err)
{
    struct hf_subscription *subscription = claimer->subscription;
    struct hf__checkout *checkout;
    hf_error refused = {.status = HF_OK};
    struct hf__claim ask = {.limit = want, .refused = &refused, .contended = &claimer->contended};
    claimer->contended = false;
    hf_status status = hf__pool_acquire(subscription->runtime->pool, HF__PURPOSE_CLAIM, hf__call_deadline(subscription), &checkout, err);
    if (status != HF_OK)
        return status;
    struct hf__conn *conn = hf__checkout_conn(checkout);
    status = hf__claim_clock(subscription, conn, err);
    *sent_ns = hf__monotonic_ns();
    if (status == HF_OK && begin_claim(claimer, batch, &status, err)) {
        ask.busy = claimer->busy.values;
        ask.n_busy = claimer->busy.n;
        status = subscription->strategy->claim(subscription->plan, conn, &ask, hf__call_deadline(subscription), batch->rows, n, err);
    }
    hf__pool_release(checkout);
    hf__claim_buried(subscription, ask.buried, &refused);
    if (status != HF_OK)
        *n = 0;
    return status;
}

/* A row is ready to run; when the stop came first it goes back unrun. */
static void receive(struct hf_subscription *subscription, struct hf_delivery *delivery, struct hf__row *row, int64_t sent_ns)
{
    hf__delivery_fill(delivery, row);
    delivery->held_ns = sent_ns;
    hf__lease_watch(delivery, sent_ns + subscription->lease_ns / 2);
    if (subscription->stopping) {
        hf__delivery_decide(delivery, HF__UNBEGUN);
        return;
    }
    TAILQ_INSERT_TAIL(&subscription->ready, delivery, queue);
    subscription->n_ready++;
    delivery->blocked = !hf__partition_free(delivery, NULL);
    subscription->n_blocked += delivery->blocked;
}

/* Under the lock: where a claim came short, and left keys out, there may be rows as soon as one of them is free. */
static void note_left_out(struct hf__worker *claimer, const struct batch *batch, bool came_short)
{
    struct hf_subscription *subscription = claimer->subscription;
    subscription->left_out = came_short && claimer->busy.n > 0;
    if (subscription->left_out && subscription->keys_freed != batch->keys_freed)
        subscription->woken = true;
}

static void receive_all(struct hf__worker *claimer, struct batch *batch, size_t want, size_t n, int64_t sent_ns)
{
    struct hf_subscription *subscription = claimer->subscription;
    pthread_mutex_lock(&subscription->lock);
    subscription->count.empty_claims += n == 0;
    if (n < want)
        hf__claim_came_short(subscription, n == 0);
    else
        hf__claim_due_now(subscription);
    if (n == 0 && claimer->contended)
        hf__claim_contended(subscription);
    note_left_out(claimer, batch, n < want);
    for (size_t i = 0; i < n; i++)
        receive(subscription, batch->blank[--batch->n], batch->rows[i], sent_ns);
    for (size_t i = 0; i < n; i += subscription->batch)
        hf__lease_offer(subscription);
    pthread_mutex_unlock(&subscription->lock);
}

static void claim(struct hf__worker *claimer, struct batch *batch, size_t want)
{
    hf_error err = {.status = HF_OK};
    size_t n = 0;
    int64_t sent_ns = 0;
    want = provide(batch, claimer->subscription, want);
    hf_status status = want > 0 ? claim_rows(claimer, batch, want, &n, &sent_ns, &err) : hf__fail_memory(&err);
    if (status != HF_OK)
        hf__claim_failed(claimer->subscription, status, &err);
    else
        receive_all(claimer, batch, want, n, sent_ns);
}

static struct batch *wait_for_batch(struct hf__worker *claimer)
{
    struct batch *batch;
    while (!(batch = calloc(1, sizeof *batch))) {
        hf_error err;
        (void)hf__fail_memory(&err);
        hf__claim_failed(claimer->subscription, HF_NO_MEMORY, &err);
        if (wait_for_room(claimer) == 0)
            return NULL;
    }
    return batch;
}

void hf__lease_claimer(struct hf__worker *claimer)
{
    struct batch *batch = wait_for_batch(claimer);
    size_t want;
    if (!batch)
        return;
    while ((want = wait_for_room(claimer)) > 0)
        claim(claimer, batch, want);
    while (batch->n > 0)
        hf__delivery_free(batch->blank[--batch->n]);
    free(batch);
}
