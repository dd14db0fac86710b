/* Partition keys: rows of one key run in claim order on one worker at a time, while other workers go on with other keys.
 *
 * A key is in work as long as a row of it is: claimed, and not settled. Claims leave such keys out, so the rows of a key are claimed when
 * none of it is in work, and begin in the order in which they were claimed:
 *  - held engine: claims of one subscription take turns, so that two cannot take rows of one key; a row that was claimed begins at once
 *  - lease engine: there is one claimer; of several rows of a key that are ready the first begins, and the others are `blocked` until
 *    those before them have ended
 *
 * Keys are the same when their bytes are, whatever the column's collation says; the claims' clause compares them likewise (busy.c).
 *
 * A row that goes back unbegun is to be the first of its key again: those behind it go back with it, and none begins before it is answered.
 * A claim leaves out all keys in work, and is not sent while they are too many to name.
 *
 * Each row in work that has a key stands in one bucket of its subscription, in claim order. */
#include "runtime/partition.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/delivery.h"

#define BUCKETS 256

hf_status hf__partitions_open(struct hf_subscription *subscription, hf_error *err)
{
    if (!hf__table_has(subscription->table, HF__ROLE_PARTITION_KEY))
        return HF_OK;
    subscription->keys = calloc(BUCKETS, sizeof *subscription->keys);
    if (!subscription->keys)
        return hf__fail_memory(err);
    for (size_t i = 0; i < BUCKETS; i++)
        TAILQ_INIT(&subscription->keys[i]);
    return HF_OK;
}

void hf__partitions_close(struct hf_subscription *subscription)
{
    free(subscription->keys);
    subscription->keys = NULL;
}

/* ---- the rows of a key ---- */

/* FNV-1a. INT and UINT that are equal have the same bits. */
static uint64_t hash_of(const struct hf__value *key)
{
    const unsigned char *bytes = hf__value_has_bytes(key) ? (const unsigned char *)key->s.data : (const unsigned char *)&key->u;
    size_t len = hf__value_has_bytes(key) ? key->s.len : sizeof key->u;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

static struct hf__deliveries *bucket_of(const struct hf_delivery *delivery)
{
    return &delivery->subscription->keys[hash_of(&delivery->row->partition) % BUCKETS];
}

/* The first row in work of its key, from `from` on; NULL: none. */
static struct hf_delivery *same_key(const struct hf_delivery *delivery, struct hf_delivery *from)
{
    while (from && !hf__value_equal(&from->row->partition, &delivery->row->partition))
        from = TAILQ_NEXT(from, key);
    return from;
}

static struct hf_delivery *first_of_key(const struct hf_delivery *delivery)
{
    return same_key(delivery, TAILQ_FIRST(bucket_of(delivery)));
}

/* Is its outcome decided, its handler not running (it may settle its delivery and run on), and what it wrote in its transaction there for
 * the next of its key to read? */
static bool has_ended(const struct hf_delivery *delivery)
{
    bool ends_transaction = delivery->in_transaction && delivery->state != HF__DELIVERY_DONE;
    return delivery->state >= HF__DELIVERY_SETTLING && !delivery->handling && !ends_transaction;
}

/* It will run again, before all of its key that were claimed after it. */
static bool comes_again(const struct hf_delivery *delivery)
{
    return delivery->state >= HF__DELIVERY_SETTLING && delivery->action == HF__UNBEGUN;
}

/* May the next of its key begin, as far as this one goes? */
static bool is_past(const struct hf_delivery *delivery)
{
    return has_ended(delivery) && !comes_again(delivery);
}

void hf__partition_join(struct hf_delivery *delivery)
{
    if (!delivery->subscription->keys || delivery->row->partition.type == HF__NULL)
        return;
    delivery->subscription->n_keys += !first_of_key(delivery);
    TAILQ_INSERT_TAIL(bucket_of(delivery), delivery, key);
    delivery->keyed = true;
}

bool hf__partition_free(const struct hf_delivery *delivery, const struct hf__worker *worker)
{
    struct hf_delivery *before = delivery->keyed ? first_of_key(delivery) : NULL;
    for (; before && before != delivery; before = same_key(delivery, TAILQ_NEXT(before, key)))
        if (comes_again(before) || (!has_ended(before) && (!worker || before->holder != worker)))
            return false;
    return true;
}

bool hf__partitions_full(const struct hf_subscription *subscription)
{
    return subscription->n_keys > HF__BUSY_MOST;
}

/* The first of this key that is not past may begin. */
static void unblock(struct hf_subscription *subscription, struct hf_delivery *next)
{
    while (next && is_past(next))
        next = same_key(next, TAILQ_NEXT(next, key));
    if (!next || !next->blocked)
        return;
    next->blocked = false;
    subscription->n_blocked--;
    hf__lease_offer(subscription);
}

/* Those of its key that wait behind it, from the last: so none of them finds another to take along. (Held engine: none waits.) */
static void turn_back_behind(struct hf_delivery *delivery)
{
    struct hf_delivery *behind = TAILQ_LAST(bucket_of(delivery), hf__deliveries), *before;
    for (; behind && behind != delivery; behind = before) {
        before = TAILQ_PREV(behind, hf__deliveries, key);
        if (behind->state != HF__DELIVERY_READY || !hf__value_equal(&behind->row->partition, &delivery->row->partition))
            continue;
        hf__lease_unready(behind);
        hf__delivery_decide(behind, HF__UNBEGUN);
    }
}

static void free_key(struct hf_subscription *subscription)
{
    subscription->n_keys--;
    subscription->keys_freed++;
    if (subscription->left_out)
        hf__claim_due_in(subscription, 0);
}

void hf__partition_pass(struct hf_delivery *delivery)
{
    struct hf_subscription *subscription = delivery->subscription;
    if (!delivery->keyed || !has_ended(delivery))
        return;
    if (delivery->state == HF__DELIVERY_DONE) {
        TAILQ_REMOVE(bucket_of(delivery), delivery, key);
        delivery->keyed = false;
    } else if (comes_again(delivery) && subscription->lease) {
        turn_back_behind(delivery);
    }
    struct hf_delivery *first = first_of_key(delivery);
    if (first)
        unblock(subscription, first);
    else
        free_key(subscription);
}

/* ---- the keys in work, for a claim ---- */

static bool names_its_key(const struct hf_delivery *delivery, const struct hf__worker *but)
{
    return delivery->keyed && (!but || delivery->holder != but) && first_of_key(delivery) == delivery;
}

static size_t bytes_of(const struct hf_subscription *subscription, const struct hf__worker *but)
{
    const struct hf_delivery *delivery;
    size_t size = 0;
    TAILQ_FOREACH (delivery, &subscription->work, work)
        if (names_its_key(delivery, but) && hf__value_has_bytes(&delivery->row->partition))
            size += delivery->row->partition.s.len + 1;
    return size;
}

static bool make_room(struct hf__busy *busy, size_t size)
{
    if (!busy->values)
        busy->values = calloc(HF__BUSY_MOST, sizeof *busy->values);
    if (size > busy->size) {
        char *memory = realloc(busy->memory, 2 * size);
        if (!memory)
            return false;
        busy->memory = memory;
        busy->size = 2 * size;
    }
    return busy->values != NULL;
}

static struct hf__value copy_of(const struct hf__value *key, char **at)
{
    struct hf__value copy = *key;
    if (!hf__value_has_bytes(key))
        return copy;
    memcpy(*at, key->s.data, key->s.len + 1);
    copy.s.data = *at;
    *at += key->s.len + 1;
    return copy;
}

hf_status hf__busy_list(struct hf_subscription *subscription, const struct hf__worker *but, struct hf__busy *busy, hf_error *err)
{
    const struct hf_delivery *delivery;
    busy->n = 0;
    if (!subscription->keys)
        return HF_OK;
    if (!make_room(busy, bytes_of(subscription, but)))
        return hf__fail_memory(err);
    char *at = busy->memory;
    TAILQ_FOREACH (delivery, &subscription->work, work)
        if (busy->n < HF__BUSY_MOST && names_its_key(delivery, but)) /* there are no more, or no claim is sent */
            busy->values[busy->n++] = copy_of(&delivery->row->partition, &at);
    return HF_OK;
}

void hf__busy_free(struct hf__busy *busy)
{
    free(busy->values);
    free(busy->memory);
}
