#include "runtime/subscription.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/delivery.h"

#define MS_NS INT64_C(1000000)
#define LIVELY_NS (50 * MS_NS) /* the poll interval while rows arrive one by one */
#define BACKOFF_FIRST_NS (100 * MS_NS)
#define BACKOFF_PASSING_NS (10 * MS_NS)
#define BACKOFF_MAX_NS (5000 * MS_NS)

/* ---- made and freed ---- */

static void free_groups(struct hf_subscription *subscription)
{
    for (size_t i = 0; subscription->groups && i < subscription->options.n_groups; i++)
        free(subscription->groups[i]);
    free(subscription->groups);
}

static hf_status copy_groups(struct hf_subscription *subscription, const struct hf_subscription_options *from, hf_error *err)
{
    subscription->options.groups = NULL;
    if (from->n_groups == 0)
        return HF_OK;
    subscription->groups = calloc(from->n_groups, sizeof *subscription->groups);
    if (!subscription->groups)
        return hf__fail_memory(err);
    subscription->options.groups = (const char *const *)subscription->groups;
    for (size_t i = 0; i < from->n_groups; i++) {
        subscription->groups[i] = strdup(from->groups[i]);
        if (!subscription->groups[i])
            return hf__fail_memory(err);
    }
    return HF_OK;
}

static hf_status prepare(struct hf_subscription *subscription, const struct hf_table *table, const struct hf_subscription_options *options,
                         hf_error *err)
{
    subscription->table = hf__table_copy(table);
    if (!subscription->table)
        return hf__fail_memory(err);
    subscription->lease = hf__table_kind(table) == HF__LEASE;
    subscription->options = *options;
    return copy_groups(subscription, options, err);
}

static void init_lists(struct hf_subscription *subscription)
{
    TAILQ_INIT(&subscription->idle);
    TAILQ_INIT(&subscription->work);
    TAILQ_INIT(&subscription->ready);
    TAILQ_INIT(&subscription->leases);
    TAILQ_INIT(&subscription->settling);
    TAILQ_INIT(&subscription->again);
    TAILQ_INIT(&subscription->turns);
}

hf_status hf__subscription_new(struct hf_runtime *runtime, const struct hf_table *table, const struct hf_subscription_options *options,
                               hf_handler handler, hf_batch_handler batch_handler, void *ctx, struct hf_subscription **out, hf_error *err)
{
    struct hf_subscription *subscription = calloc(1, sizeof *subscription);
    if (!subscription)
        return hf__fail_memory(err);
    int failed = pthread_mutex_init(&subscription->lock, NULL);
    if (failed) {
        free(subscription);
        return hf__fail(err, HF_SYSTEM, "cannot make a mutex: %s", strerror(failed));
    }
    subscription->runtime = runtime;
    subscription->handler = handler;
    subscription->batch_handler = batch_handler;
    subscription->batch = options->batch;
    subscription->ctx = ctx;
    init_lists(subscription);
    hf_status status = prepare(subscription, table, options, err);
    if (status != HF_OK)
        hf__subscription_free(subscription);
    else
        *out = subscription;
    return status;
}

void hf__subscription_free(struct hf_subscription *subscription)
{
    if (!subscription)
        return;
    hf__subscription_reset(subscription);
    free_groups(subscription);
    hf__table_free(subscription->table);
    pthread_mutex_destroy(&subscription->lock);
    free(subscription);
}

static void free_room(struct hf__worker *worker)
{
    for (size_t i = 0; worker->list && i < worker->subscription->batch; i++)
        hf__delivery_free(worker->list[i]);
    free(worker->list);
    free(worker->begun);
    free(worker->rows);
    free(worker->changes);
    hf__busy_free(&worker->busy);
}

void hf__subscription_reset(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock); /* a wake may come at any time, and touches no thread from now on */
    subscription->go = subscription->stopping = subscription->over = subscription->woken = false;
    subscription->scout = NULL;
    TAILQ_INIT(&subscription->idle);
    pthread_mutex_unlock(&subscription->lock);
    for (size_t i = 0; i < subscription->n_threads; i++) {
        hf__sleeper_destroy(&subscription->workers[i].sleeper);
        free_room(&subscription->workers[i]);
    }
    free(subscription->workers);
    subscription->workers = NULL;
    subscription->n_threads = 0;
    subscription->claimer = subscription->settler = subscription->renewer = subscription->watchdog = NULL;
    hf__partitions_close(subscription);
    hf__plan_close(subscription->plan);
    subscription->plan = NULL;
}

/* ---- threads ---- */

static bool makes_work(const struct hf__worker *worker)
{
    const struct hf_subscription *subscription = worker->subscription;
    return worker->run == hf__lease_claimer || worker < subscription->workers + subscription->n_workers;
}

static void rouse_all(struct hf_subscription *subscription)
{
    for (size_t i = 0; i < subscription->n_threads; i++)
        hf__rouse(&subscription->workers[i].sleeper);
}

static bool wait_for_go(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    while (!subscription->go && !subscription->stopping)
        (void)hf__sleep(&worker->sleeper, &subscription->lock, hf__never());
    bool go = subscription->go;
    pthread_mutex_unlock(&subscription->lock);
    return go;
}

static void ended(struct hf__worker *worker)
{
    struct hf_subscription *subscription = worker->subscription;
    pthread_mutex_lock(&subscription->lock);
    subscription->live--;
    if (makes_work(worker))
        subscription->live_workers--;
    rouse_all(subscription); /* the helpers end when nobody can make work for them */
    pthread_mutex_unlock(&subscription->lock);
    hf__runtime_changed(subscription->runtime);
}

static void worker_main(void *arg)
{
    struct hf__worker *worker = arg;
    if (wait_for_go(worker))
        worker->run(worker);
    ended(worker);
}

static hf_status add_thread(struct hf_subscription *subscription, void (*run)(struct hf__worker *worker), struct hf__worker **out,
                            hf_error *err)
{
    struct hf__worker *worker = &subscription->workers[subscription->n_threads];
    worker->subscription = subscription;
    worker->run = run;
    hf_status status = hf__sleeper_init(&worker->sleeper, err);
    if (status != HF_OK)
        return status;
    subscription->n_threads++;
    if (out)
        *out = worker;
    return HF_OK;
}

/* A worker, and room for what it runs at once: memory cannot run out between a claim and its settle. */
static hf_status add_worker(struct hf_subscription *subscription, hf_error *err)
{
    struct hf__worker *worker;
    size_t n = subscription->batch;
    hf_status status = add_thread(subscription, subscription->lease ? hf__lease_worker : hf__held_worker, &worker, err);
    if (status != HF_OK)
        return status;
    worker->list = calloc(n, sizeof(struct hf_delivery *));
    worker->begun = calloc(n, sizeof(struct hf_delivery *));
    worker->rows = calloc(n, sizeof(struct hf__row *));
    worker->changes = calloc(n, sizeof(struct hf__change));
    return worker->list && worker->begun && worker->rows && worker->changes ? HF_OK : hf__fail_memory(err);
}

static hf_status plan_threads(struct hf_subscription *subscription, hf_error *err)
{
    enum { HELPERS = 4 };
    subscription->workers = calloc(subscription->n_workers + HELPERS, sizeof *subscription->workers);
    if (!subscription->workers)
        return hf__fail_memory(err);
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < subscription->n_workers; i++)
        status = add_worker(subscription, err);
    if (status == HF_OK && subscription->lease)
        status = add_thread(subscription, hf__lease_claimer, &subscription->claimer, err);
    if (status == HF_OK && subscription->lease)
        status = add_thread(subscription, hf__lease_settler, &subscription->settler, err);
    if (status == HF_OK && subscription->lease)
        status = add_thread(subscription, hf__lease_renewer, &subscription->renewer, err);
    if (status == HF_OK && subscription->options.handler_timeout_ms > 0)
        status = add_thread(subscription, hf__watchdog, &subscription->watchdog, err);
    return status;
}

static hf_status start_threads(struct hf_subscription *subscription, hf_error *err)
{
    for (size_t i = 0; i < subscription->n_threads; i++) {
        struct hf__worker *worker = &subscription->workers[i];
        pthread_mutex_lock(&subscription->lock);
        subscription->live++;
        if (makes_work(worker))
            subscription->live_workers++;
        pthread_mutex_unlock(&subscription->lock);
        hf_status status = hf__thread_start(subscription->runtime, &worker->thread, worker_main, worker, err);
        if (status != HF_OK) {
            ended(worker);
            return status;
        }
        worker->started = true;
    }
    return HF_OK;
}

hf_status hf__subscription_spawn(struct hf_subscription *subscription, hf_error *err)
{
    hf_status status = hf__partitions_open(subscription, err);
    if (status == HF_OK)
        status = plan_threads(subscription, err);
    if (status == HF_OK)
        status = start_threads(subscription, err);
    if (status == HF_OK)
        return HF_OK;
    hf__subscription_stop(subscription);
    hf__subscription_join(subscription);
    return status;
}

void hf__subscription_go(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    subscription->go = true;
    rouse_all(subscription);
    pthread_mutex_unlock(&subscription->lock);
}

void hf__subscription_join(struct hf_subscription *subscription)
{
    for (size_t i = 0; i < subscription->n_threads; i++)
        if (subscription->workers[i].started) {
            pthread_join(subscription->workers[i].thread, NULL);
            subscription->workers[i].started = false;
        }
}

/* ---- stopping ---- */

void hf__subscription_stop(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    if (!subscription->stopping)
        subscription->at_stop = subscription->count;
    subscription->stopping = true;
    rouse_all(subscription);
    pthread_mutex_unlock(&subscription->lock);
}

static struct hf_delivery *next_to_flag(struct hf_subscription *subscription)
{
    struct hf_delivery *delivery;
    TAILQ_FOREACH (delivery, &subscription->work, work)
        if (delivery->handling && !delivery->drained)
            break;
    return delivery;
}

void hf__subscription_give_up(struct hf_subscription *subscription)
{
    struct hf_delivery *delivery;
    pthread_mutex_lock(&subscription->lock);
    subscription->over = true;
    while ((delivery = TAILQ_FIRST(&subscription->ready))) {
        hf__lease_unready(delivery);
        hf__delivery_decide(delivery, HF__UNBEGUN);
    }
    while ((delivery = next_to_flag(subscription))) {
        delivery->drained = true;
        hf__delivery_cancel(delivery, HF_CANCEL_DRAIN);
    }
    rouse_all(subscription);
    TAILQ_FOREACH (delivery, &subscription->work, work)
        hf__gate_wake(&delivery->changed);
    pthread_mutex_unlock(&subscription->lock);
}

bool hf__subscription_ended(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    bool all = subscription->live == 0;
    pthread_mutex_unlock(&subscription->lock);
    return all;
}

size_t hf__subscription_running(struct hf_subscription *subscription)
{
    size_t running = 0;
    const struct hf_delivery *delivery;
    pthread_mutex_lock(&subscription->lock);
    TAILQ_FOREACH (delivery, &subscription->work, work)
        running += delivery->handling && delivery->leads;
    pthread_mutex_unlock(&subscription->lock);
    return running;
}

bool hf__nothing_more(const struct hf_subscription *subscription)
{
    return subscription->stopping && subscription->live_workers == 0 && TAILQ_EMPTY(&subscription->work);
}

/* ---- when to claim ---- */

int64_t hf__jittered(int64_t span)
{
    return span < 4 ? span : span - span / 4 + (int64_t)hf__random_below((uint64_t)(span / 2) + 1);
}

int64_t hf__backoff_ns(unsigned failures, bool passing)
{
    int64_t ns = passing ? BACKOFF_PASSING_NS : BACKOFF_FIRST_NS;
    for (unsigned i = 1; i < failures && ns < BACKOFF_MAX_NS; i++)
        ns *= 2;
    ns = hf__jittered(ns);
    return ns < BACKOFF_MAX_NS ? ns : BACKOFF_MAX_NS;
}

/* Whoever sleeps until the next claim. */
static void rouse_poller(struct hf_subscription *subscription)
{
    struct hf__worker *poller = subscription->lease ? subscription->claimer : subscription->scout;
    if (poller)
        hf__rouse(&poller->sleeper);
}

void hf__claim_due_now(struct hf_subscription *subscription)
{
    subscription->failures = 0;
    subscription->contended = 0;
    subscription->next_poll_ns = 0;
}

void hf__claim_came_short(struct hf_subscription *subscription, bool empty)
{
    int64_t poll_ns = subscription->options.poll_ms * MS_NS;
    subscription->failures = 0;
    if (!empty && poll_ns > LIVELY_NS)
        poll_ns = LIVELY_NS;
    int64_t now_ns = hf__monotonic_ns(), next_ns = now_ns + hf__jittered(poll_ns), back_ns = subscription->put_back_ns;
    subscription->next_poll_ns = back_ns > now_ns && back_ns < next_ns ? back_ns : next_ns;
}

void hf__claim_contended(struct hf_subscription *subscription)
{
    int64_t wait_ns = hf__backoff_ns(++subscription->contended, true), due_ns = hf__monotonic_ns() + wait_ns;
    if (wait_ns >= subscription->options.poll_ms * MS_NS || due_ns >= subscription->next_poll_ns)
        return;
    subscription->next_poll_ns = due_ns;
    rouse_poller(subscription);
}

void hf__claim_due_in(struct hf_subscription *subscription, int64_t delay_us)
{
    if (delay_us <= 0) {
        subscription->woken = true;
        subscription->contended = 0;
        rouse_poller(subscription);
        return;
    }
    if (delay_us >= subscription->options.poll_ms * 1000)
        return;
    int64_t now_ns = hf__monotonic_ns(), due_ns = now_ns + delay_us * 1000;
    if (due_ns < subscription->put_back_ns || subscription->put_back_ns <= now_ns)
        subscription->put_back_ns = due_ns;
    if (due_ns >= subscription->next_poll_ns)
        return;
    subscription->next_poll_ns = due_ns;
    rouse_poller(subscription);
}

void hf__subscription_wake(struct hf_subscription *subscription)
{
    pthread_mutex_lock(&subscription->lock);
    subscription->woken = true;
    if (subscription->go) /* before, start writes the threads without the lock, and they claim first thing in any case */
        rouse_poller(subscription);
    pthread_mutex_unlock(&subscription->lock);
}

void hf__claim_failed(struct hf_subscription *subscription, hf_status status, const hf_error *err)
{
    bool passing = status == HF_TRANSIENT;
    pthread_mutex_lock(&subscription->lock);
    bool stopping = subscription->stopping;
    subscription->failures++;
    subscription->next_poll_ns = hf__monotonic_ns() + hf__backoff_ns(subscription->failures, passing);
    rouse_poller(subscription); /* who may sleep until a later time, when it was not its own claim */
    if (passing)
        subscription->count.claim_retries++;
    else
        subscription->count.claim_errors++;
    /* A deadlock now and then is the database's way of working; only a row of them is news. */
    bool news = !stopping && (!passing || subscription->failures > 5);
    pthread_mutex_unlock(&subscription->lock);
    if (news)
        hf__log_noise(subscription, &subscription->claim_noise, passing ? HF_LOG_WARNING : HF_LOG_ERROR,
                      "%s: a claim failed and is tried again: %s", subscription->table->display, err->message);
}

void hf__claim_buried(struct hf_subscription *subscription, size_t buried, const hf_error *refused)
{
    const char *table = subscription->table->display;
    if (buried > 0) {
        pthread_mutex_lock(&subscription->lock);
        subscription->count.dead += buried;
        pthread_mutex_unlock(&subscription->lock);
        hf__log_noise(subscription, &subscription->dead_noise, HF_LOG_WARNING,
                      "%s: %zu rows went to the dead letter unrun: their last run ended without an outcome, and max_attempts is used up",
                      table, buried);
    }
    if (refused->status == HF_OK)
        return;
    pthread_mutex_lock(&subscription->lock);
    subscription->count.dead_refused++;
    pthread_mutex_unlock(&subscription->lock);
    hf__log_noise(subscription, &subscription->settle_noise, HF_LOG_ERROR,
                  "%s: a row that has used up max_attempts cannot go to the dead letter, and is tried again later: %s", table,
                  refused->message);
}

hf_status hf__claim_clock(struct hf_subscription *subscription, struct hf__conn *conn, hf_error *err)
{
    struct hf__clock *clock = subscription->runtime->clock;
    return hf__clock_due(clock) ? hf__clock_measure(clock, conn, hf__call_deadline(subscription), err) : HF_OK;
}

struct hf__deadline hf__call_deadline(const struct hf_subscription *subscription)
{
    return hf__runtime_deadline(subscription->runtime);
}
