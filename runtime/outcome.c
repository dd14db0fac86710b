/* Outcomes: decided once, sent to the database, counted, answered. */
#include <stdlib.h>

#include "runtime/delivery.h"

/* ---- deciding ---- */

enum hf__action hf__action_of(hf_outcome outcome)
{
    switch (outcome) {
    case HF_ACK:
        return HF__ACK;
    case HF_RETRY:
        return HF__RETRY;
    case HF_REJECT:
        return HF__REJECT;
    case HF_RETRY_AFTER:
    case HF_DEFER:
        break;
    }
    return HF__RETRY_AFTER;
}

/* base * factor^(attempt-1), at most cap, minus up to half at random, so that what failed together does not come back together. */
static int64_t backoff_ms(const struct hf_subscription_options *options, int64_t attempt)
{
    int64_t cap_ms = options->retry_cap_ms < HF__LONGEST_DELAY_MS ? options->retry_cap_ms : HF__LONGEST_DELAY_MS;
    double ms = (double)options->retry_base_ms, cap = (double)cap_ms;
    for (int64_t i = 1; i < attempt && ms < cap; i++) {
        ms *= options->retry_factor;
        if (options->retry_factor <= 1.0)
            break;
    }
    int64_t whole = ms < cap ? (int64_t)ms : cap_ms;
    return whole - (int64_t)hf__random_below((uint64_t)(whole / 2) + 1);
}

static int64_t delay_us(const struct hf_delivery *delivery)
{
    int64_t ms = delivery->delay_ms;
    if (ms < 0)
        ms = backoff_ms(&delivery->subscription->options, delivery->row->attempt);
    return (ms < HF__LONGEST_DELAY_MS ? ms : HF__LONGEST_DELAY_MS) * 1000;
}

void hf__delivery_end_work(struct hf_delivery *delivery)
{
    if (!delivery->work_ended)
        delivery->subscription->in_work_us += (hf__monotonic_ns() - delivery->claimed_ns) / 1000;
    delivery->work_ended = true;
}

void hf__delivery_decide(struct hf_delivery *delivery, enum hf__action action)
{
    delivery->state = HF__DELIVERY_SETTLING;
    delivery->action = action;
    delivery->delay_us = action == HF__RETRY_AFTER ? delay_us(delivery) : 0;
    hf__partition_pass(delivery);
    if (!delivery->subscription->lease)
        return;
    hf__delivery_end_work(delivery);
    if (delivery->in_transaction) {
        delivery->paused = true;
        hf__lease_unwatch(delivery);
    } else {
        hf__lease_settle(delivery);
    }
}

void hf__delivery_turn_back(struct hf_delivery *delivery, int64_t wait_us)
{
    delivery->handling = false;
    delivery->on_cancel = NULL;
    hf__delivery_decide(delivery, HF__UNBEGUN);
    delivery->delay_us = wait_us;
}

struct hf__change hf__delivery_change(struct hf_delivery *delivery)
{
    return (struct hf__change){
        .row = delivery->row,
        .action = delivery->action,
        .delay_us = delivery->delay_us,
        .reason = delivery->reason,
        .reason_len = delivery->reason_len,
        .uncertain = delivery->uncertain,
        .status = HF_UNKNOWN,
    };
}

/* ---- the answer ---- */

static void count(struct hf__counters *count, enum hf__action action, bool dead, hf_status status)
{
    uint64_t *const done[] = {
        [HF__ACK] = &count->acked,       [HF__RETRY] = &count->retried,        [HF__RETRY_AFTER] = &count->retried_later,
        [HF__REJECT] = &count->rejected, [HF__GIVE_BACK] = &count->given_back, [HF__UNBEGUN] = &count->given_back,
    };
    if (status == HF_OK && dead)
        count->dead++;
    if (status == HF_OK && !(dead && action != HF__REJECT)) /* a row that used up its attempts was not put back */
        (*done[action])++;
    else if (status == HF_OK)
        return;
    else if (status == HF_LEASE_LOST)
        count->lease_lost++;
    else if (status == HF_LOST)
        count->lost++;
    else if (status == HF_UNKNOWN)
        count->unknown++;
    else
        count->settle_errors++;
}

static void tell(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    if (!delivery->answer)
        return;
    struct hf__answer *into = delivery->answer;
    delivery->answer = NULL;
    into->status = status;
    if (status != HF_OK && err && err->status != HF_OK)
        into->error = *err;
    else if (status != HF_OK)
        (void)hf__fail(&into->error, status, "row %s of table %s: %s", delivery->row->id_text, delivery->subscription->table->display,
                       hf_status_text(status));
}

void hf__delivery_undone(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    tell(delivery, status, err);
    delivery->delay_ms = -1;
    delivery->action = HF__RETRY_AFTER;
    delivery->delay_us = delay_us(delivery);
}

void hf__delivery_finish(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->state = HF__DELIVERY_DONE;
    count(&subscription->count, delivery->action, delivery->dead, status);
    tell(delivery, status, err);
    hf__gate_wake(&delivery->changed);
    if (status == HF_OK && delivery->action != HF__ACK && delivery->action != HF__REJECT && !delivery->dead)
        hf__claim_due_in(subscription, delivery->delay_us);
    bool waits = delivery->action == HF__UNBEGUN && delivery->delay_us > 0; /* it is the head again, and is not to be claimed yet */
    if (subscription->table->fifo && delivery->row->group.type != HF__NULL && !waits)
        hf__claim_due_in(subscription, 0); /* the next row of its group may be claimed now */
    hf__partition_pass(delivery);
}

/* ---- the log ---- */

static void report_success(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    const struct hf_table *table = subscription->table;
    if (delivery->action == HF__RETRY_AFTER && delivery->delay_us > 0 && !delivery->dead && !hf__table_has(table, HF__ROLE_RETRY_AFTER))
        hf__log_noise(subscription, &subscription->handler_noise, HF_LOG_WARNING,
                      "%s: row %s asked for a delay, but the table has no retry_after column: it is due again at once", table->display,
                      delivery->row->id_text);
    bool stays = delivery->dead || delivery->action != HF__REJECT || hf__table_has(table, HF__ROLE_PROCESSED_AT);
    bool kept = hf__table_has(table, HF__ROLE_LAST_ERROR) && stays;
    if (delivery->reason && delivery->action != HF__ACK && !kept)
        hf__log_noise(subscription, &subscription->handler_noise, HF_LOG_WARNING, "%s: row %s failed: %s", table->display,
                      delivery->row->id_text, delivery->reason);
}

static hf_outcome outcome_of(enum hf__action action)
{
    switch (action) {
    case HF__ACK:
        return HF_ACK;
    case HF__REJECT:
        return HF_REJECT;
    case HF__RETRY_AFTER:
        return HF_RETRY_AFTER;
    case HF__RETRY:
    case HF__GIVE_BACK:
    case HF__UNBEGUN:
        break;
    }
    return HF_RETRY;
}

void hf__delivery_report(struct hf_delivery *delivery, hf_status status, const hf_error *err)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (subscription->options.on_settled)
        subscription->options.on_settled(delivery, outcome_of(delivery->action), status, subscription->ctx);
    if (status == HF_OK)
        report_success(delivery);
    else
        hf__log_noise(subscription, &subscription->settle_noise,
                      status == HF_LEASE_LOST || status == HF_LOST ? HF_LOG_WARNING : HF_LOG_ERROR,
                      "%s: row %s was not settled and may run again: %s: %s", subscription->table->display, delivery->row->id_text,
                      hf_status_name(status), err && err->status != HF_OK ? err->message : hf_status_text(status));
}

/* ---- settling by call ---- */

static hf_status refuse(const struct hf_delivery *delivery, hf_outcome outcome, hf_error *err)
{
    if (outcome == HF_DEFER)
        return hf__fail(err, HF_MISUSE, "HF_DEFER cannot be settled: it says that hf_delivery_settle is called later");
    if (outcome > HF_DEFER)
        return hf__fail(err, HF_INVALID, "%d is no hf_outcome", (int)outcome);
    if (delivery->subscription->batch_handler)
        return hf__fail(err, HF_MISUSE,
                        "the delivery is one of a batch, which is settled together: set its outcome with "
                        "hf_delivery_set_outcome");
    return hf__runtime_usable(delivery->subscription->runtime, err);
}

/* Under the lock: decides, or says that it is too late. */
static hf_status take(struct hf_delivery *delivery, hf_outcome outcome, struct hf__answer *into, hf_error *err)
{
    if (delivery->calling && pthread_equal(delivery->caller, pthread_self()))
        return hf__fail(err, HF_MISUSE,
                        "hf_delivery_settle cannot be called from the on_cancel callback: it would wait for the thread that it stops; "
                        "wake the handler, and settle there");
    if (delivery->state != HF__DELIVERY_RUNNING && delivery->state != HF__DELIVERY_DEFERRED)
        return hf__fail(err, HF_MISUSE, "the delivery has been settled already");
    delivery->answer = into;
    delivery->refs++;
    hf__delivery_decide(delivery, hf__action_of(outcome));
    return HF_OK;
}

hf_status hf_delivery_settle(hf_delivery *d, hf_outcome outcome, hf_error *err)
{
    struct hf__answer answer = {.status = HF_OK};
    struct hf_subscription *subscription = d->subscription;
    hf_status status = refuse(d, outcome, err);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&subscription->lock);
    status = take(d, outcome, &answer, err);
    if (status != HF_OK) {
        pthread_mutex_unlock(&subscription->lock);
        return status;
    }
    if (!subscription->lease) {
        pthread_mutex_unlock(&subscription->lock);
        hf__held_settle(d);
        pthread_mutex_lock(&subscription->lock);
    } else if (d->in_transaction) {
        pthread_mutex_unlock(&subscription->lock);
        hf__lease_end(d);
        pthread_mutex_lock(&subscription->lock);
    }
    while (d->state != HF__DELIVERY_DONE)
        (void)hf__gate_wait(&d->changed, &subscription->lock, hf__never());
    struct hf_delivery *last = hf__delivery_unref(d);
    if (!last)
        hf__gate_wake(&d->changed); /* its worker waits for this */
    pthread_mutex_unlock(&subscription->lock);
    hf__delivery_free(last);
    if (answer.status != HF_OK && err)
        *err = answer.error;
    return answer.status;
}
