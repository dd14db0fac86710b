#include "runtime/delivery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The moving mean of handler times weighs the newest with this share. */
#define MEAN_SHARE 16.0

struct hf_delivery *hf__delivery_new(struct hf_subscription *subscription)
{
    struct hf_delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery)
        return NULL;
    delivery->subscription = subscription;
    delivery->delay_ms = -1;
    atomic_init(&delivery->outcome, -1);
    hf__gate_init(&delivery->changed);
    return delivery;
}

void hf__delivery_free(struct hf_delivery *delivery)
{
    if (!delivery)
        return;
    hf__row_free(delivery->row);
    free(delivery->reason);
    free(delivery);
}

static void write_number(const struct hf__value *value, char *out, size_t size)
{
    if (value->type == HF__INT)
        snprintf(out, size, "%" PRId64, value->i);
    else if (value->type == HF__UINT)
        snprintf(out, size, "%" PRIu64, value->u);
}

void hf__delivery_fill(struct hf_delivery *delivery, struct hf__row *row)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->row = row;
    delivery->refs = 1;
    delivery->claimed_ns = hf__monotonic_ns();
    atomic_store(&delivery->lease_until_us, row->token_us);
    write_number(&row->group, delivery->group_text, sizeof delivery->group_text);
    write_number(&row->partition, delivery->partition_text, sizeof delivery->partition_text);
    hf__partition_join(delivery);
    TAILQ_INSERT_TAIL(&subscription->work, delivery, work);
    subscription->count.claimed++;
    if (++subscription->n_work > subscription->peak_work)
        subscription->peak_work = subscription->n_work;
}

void hf__delivery_begin(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->state = HF__DELIVERY_RUNNING;
    delivery->leads = true;
    delivery->refs++;
    delivery->begun_ns = hf__monotonic_ns();
    if (!subscription->options.transactional)
        hf__delivery_runs(delivery);
}

void hf__delivery_runs(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    delivery->handling = true;
    delivery->begun_ns = hf__monotonic_ns();
    if (subscription->watchdog_idle)
        hf__rouse(&subscription->watchdog->sleeper);
}

struct hf_delivery *hf__delivery_unref(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (--delivery->refs > 0)
        return NULL;
    TAILQ_REMOVE(&subscription->work, delivery, work);
    if (--subscription->n_work == 0 && subscription->stopping) {
        if (subscription->settler)
            hf__rouse(&subscription->settler->sleeper);
        if (subscription->renewer)
            hf__rouse(&subscription->renewer->sleeper);
        if (subscription->watchdog)
            hf__rouse(&subscription->watchdog->sleeper);
    }
    return delivery;
}

/* ---- running the handler ---- */

void hf__note_handler(struct hf_subscription *subscription, int64_t ns, size_t rows)
{
    double us = (double)ns / 1000.0 / (double)rows;
    hf__histogram_record(&subscription->handler_time, ns / 1000);
    if (subscription->mean_handler_us > 0)
        subscription->mean_handler_us += (us - subscription->mean_handler_us) / MEAN_SHARE;
    else
        subscription->mean_handler_us = us > 1 ? us : 1;
}

static hf_outcome call_handler(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    const struct hf_subscription *before = hf__mark_handler(subscription);
    hf_outcome outcome;
    if (subscription->handler) {
        outcome = subscription->handler(delivery, subscription->ctx);
    } else {
        subscription->batch_handler(&delivery, 1, subscription->ctx);
        outcome = hf__batch_outcome(delivery);
    }
    (void)hf__mark_handler(before);
    if (outcome <= HF_DEFER)
        return outcome;
    hf__log(subscription->runtime, HF_LOG_ERROR, "%s: the handler of row %s returned %d, which is no hf_outcome; taken as HF_RETRY_AFTER",
            subscription->table->display, delivery->row->id_text, (int)outcome);
    return HF_RETRY_AFTER;
}

bool hf__delivery_goes_back(const struct hf_delivery *delivery)
{
    return delivery->drained && atomic_load(&delivery->outcome) < 0;
}

bool hf__delivery_run(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    hf_outcome outcome = call_handler(delivery);
    pthread_mutex_lock(&subscription->lock);
    if (outcome == HF_DEFER && delivery->state == HF__DELIVERY_RUNNING)
        delivery->state = HF__DELIVERY_DEFERRED;
    while (delivery->state == HF__DELIVERY_DEFERRED)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    hf__note_handler(subscription, hf__monotonic_ns() - delivery->begun_ns, 1);
    delivery->handling = false;
    delivery->on_cancel = NULL;
    bool ours = delivery->state == HF__DELIVERY_RUNNING;
    if (ours)
        hf__delivery_decide(delivery, hf__delivery_goes_back(delivery) ? HF__GIVE_BACK : hf__action_of(outcome));
    else
        hf__partition_pass(delivery);
    while (delivery->calling)
        (void)hf__gate_wait(&delivery->changed, &subscription->lock, hf__never());
    pthread_mutex_unlock(&subscription->lock);
    return ours;
}

/* ---- what a handler may ask ---- */

const char *hf_delivery_id(const hf_delivery *d)
{
    return d->row->id_text;
}

bool hf_delivery_id_int(const hf_delivery *d, int64_t *out)
{
    const struct hf__value *id = &d->row->id;
    return (id->type == HF__INT || id->type == HF__UINT) && hf__value_int(id, out);
}

int64_t hf_delivery_attempt(const hf_delivery *d)
{
    return d->row->attempt;
}

const void *hf_delivery_payload(const hf_delivery *d, size_t *len)
{
    const struct hf__value *payload = &d->row->payload;
    bool any = hf__value_has_bytes(payload);
    if (len)
        *len = any ? payload->s.len : 0;
    return any ? payload->s.data : NULL;
}

const char *hf_delivery_headers(const hf_delivery *d)
{
    return hf__value_has_bytes(&d->row->headers) ? d->row->headers.s.data : NULL;
}

const char *hf_delivery_group(const hf_delivery *d)
{
    if (hf__value_has_bytes(&d->row->group))
        return d->row->group.s.data;
    return d->group_text[0] ? d->group_text : NULL;
}

const char *hf_delivery_partition_key(const hf_delivery *d)
{
    if (hf__value_has_bytes(&d->row->partition))
        return d->row->partition.s.data;
    return d->partition_text[0] ? d->partition_text : NULL;
}

const char *hf_delivery_key(const hf_delivery *d)
{
    return d->row->key;
}

int64_t hf_delivery_lease_until_us(const hf_delivery *d)
{
    return d->subscription->lease ? atomic_load(&d->lease_until_us) : 0;
}

hf_subscription *hf_delivery_subscription(const hf_delivery *d)
{
    return d->subscription;
}

void hf_delivery_set_delay(hf_delivery *d, int64_t delay_ms)
{
    d->delay_ms = delay_ms < 0 ? 0 : delay_ms;
}

hf_status hf_delivery_set_reason(hf_delivery *d, const char *reason, size_t len)
{
    char *copy = NULL;
    if (reason) {
        copy = malloc(len + 1);
        if (!copy)
            return HF_NO_MEMORY;
        memcpy(copy, reason, len);
        copy[len] = '\0';
    }
    free(d->reason);
    d->reason = copy;
    d->reason_len = copy ? len : 0;
    return HF_OK;
}
