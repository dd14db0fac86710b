/* The pool's state machine: no thread, no lock, no I/O, no clock of its own. Every function that changes something is one edge of
 * the diagram in pool.c and takes `now`; the pool calls them under its mutex, the model test on a virtual clock. */
#ifndef HF_POOL_CORE_H
#define HF_POOL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "pool.h"

enum hf__slot_state {
    HF__SLOT_EMPTY,    /* no connection: a permission to open one */
    HF__SLOT_IDLE,     /* open, nobody's; last used first */
    HF__SLOT_CHECKING, /* an acquirer finds out whether it still lives */
    HF__SLOT_OPENING,  /* an acquirer connects */
    HF__SLOT_OUT,      /* the owner's */
    HF__SLOT_PINNED,   /* the owner's, who does not touch it */
    HF__SLOT_PINGING,  /* pinned, and the keeper touches it */
    HF__SLOT_CLOSING,  /* somebody closes it */
    HF__SLOT_STATES
};

struct hf__slot {
    TAILQ_ENTRY(hf__slot) link;
    enum hf__slot_state state;
    struct hf__conn *conn; /* the core never looks inside */
    void *user;            /* the pool's */
    enum hf__purpose purpose;
    bool renewal;        /* acquired for renew: outside the limit of the others, whatever it is used for later */
    uint64_t generation; /* the core's when it was last known to live */
    int64_t since_ns;    /* OUT and beyond: the purpose began; IDLE: it came back */
    int64_t expires_ns;
    int64_t look_ns, ping_ns; /* PINNED: when the keeper looks at it and pings it */
};

TAILQ_HEAD(hf__slots, hf__slot);

struct hf__slot_list {
    struct hf__slots head;
    size_t count; /* the list's length */
};

enum hf__waiter_state {
    HF__WAITING, /* in a queue */
    HF__CHECK,   /* has a slot to check */
    HF__OPEN,    /* has a slot to open */
    HF__HAVE,    /* has a connection. This and the following are final */
    HF__NONE,    /* asked not to wait, and there was none */
    HF__GAVE_UP, /* its deadline passed */
    HF__FAILED,  /* its own connect failed, and that is its answer */
    HF__STOPPED  /* the pool is shut; it may have a slot, to be closed */
};

struct hf__waiter {
    TAILQ_ENTRY(hf__waiter) link;
    enum hf__waiter_state state;
    enum hf__purpose purpose;
    bool may_wait;
    bool prefers_open; /* what it got from idle was dead */
    uint64_t ticket;   /* the order of asking */
    int64_t asked_ns;
    int64_t watch_ns; /* while WAITING: it must call hf__core_tick at this time. INT64_MAX: never */
    struct hf__slot *slot;
    void *user;
};

TAILQ_HEAD(hf__waiters, hf__waiter);

struct hf__core_options {
    size_t size, reserved;
    int64_t idle_check_ns, idle_close_ns, max_lifetime_ns, look_ns, keepalive_ns, backoff_min_ns, backoff_max_ns;
    uint64_t (*random_below)(uint64_t bound);
    void (*wake)(struct hf__waiter *waiter); /* its state or watch_ns changed */
};

struct hf__core {
    struct hf__core_options options; /* size and reserved change with resize */
    struct hf__slot_list slots[HF__SLOT_STATES];
    struct hf__waiters renewals, others;
    uint64_t tickets;
    uint64_t generation; /* grows whenever a connection is found dead: idle ones of older generations are suspects */
    unsigned failures;   /* failed connects, one round after another, since the last that succeeded */
    int64_t retry_ns;    /* no connect before this time while failures > 0 */
    bool shut;
    size_t peak_open, peak_in_use;
    uint64_t opened, closed, broken, connect_failures;
    struct hf__ledger ledger;
};

/* How a connection came back. */
enum hf__returned { HF__RETURNED_CLEAN, HF__RETURNED_UNFIT, HF__RETURNED_LOST };

void hf__core_init(struct hf__core *core, const struct hf__core_options *options);
void hf__core_add(struct hf__core *core, struct hf__slot *slot); /* a new EMPTY slot; before hf__core_resize raises the size */
size_t hf__core_slots(const struct hf__core *core);
void hf__core_resize(struct hf__core *core, size_t size, size_t reserved, int64_t now); /* then reap */
void hf__core_shut(struct hf__core *core, int64_t now);                                 /* then reap */

/* Acquiring. Each leaves the waiter in the state that says what its thread does next. */
void hf__core_ask(struct hf__core *core, struct hf__waiter *waiter, int64_t now); /* purpose, may_wait and user are set */
void hf__core_tick(struct hf__core *core, struct hf__waiter *waiter, int64_t now);
void hf__core_give_up(struct hf__core *core, struct hf__waiter *waiter, int64_t now); /* a WAITING one */
void hf__core_checked(struct hf__core *core, struct hf__waiter *waiter, int64_t now);
void hf__core_check_failed(struct hf__core *core, struct hf__waiter *waiter, bool lost, int64_t now); /* then close, then: */
void hf__core_ask_again(struct hf__core *core, struct hf__waiter *waiter, int64_t now);
void hf__core_opened(struct hf__core *core, struct hf__waiter *waiter, int64_t now);
/* True when this failure set the backoff (and not one of the same round before it). */
bool hf__core_open_failed(struct hf__core *core, struct hf__waiter *waiter, int64_t now);
/* The waiter's own deadline cut the attempt short: says nothing about the server. */
void hf__core_open_abandoned(struct hf__core *core, struct hf__waiter *waiter, int64_t now);

/* Held. */
void hf__core_purpose(struct hf__core *core, struct hf__slot *slot, enum hf__purpose purpose, int64_t now);
void hf__core_pin(struct hf__core *core, struct hf__slot *slot, int64_t now);
void hf__core_unpin(struct hf__core *core, struct hf__slot *slot); /* PINNED, not PINGING */

/* Returning. True: the slot is CLOSING and the caller closes the connection and calls hf__core_closed. */
bool hf__core_release(struct hf__core *core, struct hf__slot *slot, enum hf__returned returned, int64_t now);
void hf__core_closed(struct hf__core *core, struct hf__slot *slot, int64_t now);

/* The keeper's. Each takes a slot out of the others' reach, or returns NULL when nothing is due. */
struct hf__slot *hf__core_watch(struct hf__core *core, bool *ping, int64_t now); /* then: */
void hf__core_watched(struct hf__core *core, struct hf__slot *slot, bool alive, bool pinged, int64_t now);
struct hf__slot *hf__core_reap(struct hf__core *core, int64_t now);                  /* CLOSING: as after hf__core_release */
int64_t hf__core_slot_due(const struct hf__core *core, const struct hf__slot *slot); /* when the keeper must look at it */
int64_t hf__core_due(const struct hf__core *core);                                   /* the earliest of all. INT64_MAX: never */

/* Reading. */
size_t hf__core_occupied(const struct hf__core *core); /* what counts against the size */
size_t hf__core_open(const struct hf__core *core);
size_t hf__core_in_use(const struct hf__core *core);
size_t hf__core_used_for(const struct hf__core *core, enum hf__purpose purpose);
size_t hf__core_waiting(const struct hf__core *core);
void hf__core_snapshot(const struct hf__core *core, struct hf__pool_snapshot *out, int64_t now);

#endif
