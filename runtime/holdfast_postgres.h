/* holdfast with libpq's own types. */
#ifndef HOLDFAST_POSTGRES_H
#define HOLDFAST_POSTGRES_H

#include <holdfast.h>
#include <libpq-fe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues through the caller's connection, inside the caller's transaction if one is open: jobs and business data commit together.
 * Changes nothing of the session. Not in pipeline mode. After the commit hf_wake tells a runtime of this process.
 * out may be NULL. Errors as hf_enqueue; on an error none of the jobs is in, and a transaction of the caller stays open and usable. */
HF_API HF_CHECKED hf_status hf_enqueue_postgres(PGconn *connection, const hf_table *table, const hf_job *jobs, size_t n, hf_enqueued **out,
                                                hf_error *err);

/* The delivery's own transaction (`transactional` in the subscription): what the handler writes through it is committed together with its
 * HF_ACK, and undone with every other outcome, before that is settled. NULL when the delivery is not transactional or is settled already,
 * or the database is another one. Borrowed, until the settle; one thread at a time; blocks for a ping that is in flight, two seconds at
 * most.
 *
 * The handler must not end the transaction (COMMIT, ROLLBACK), nor touch the savepoint hf_handler, nor change the session's settings;
 * an error inside a savepoint of its own is its own to undo. With "isolation" repeatable_read or serializable on a lease table a renewal of
 * the lease, which comes at half of it, makes the ack fail: give such a table a lease of twice what a handler takes.
 * When the transaction is found ended the delivery is lost (HF_LOST): nothing is settled, and the row runs again. Nothing may be in
 * progress on the handle when the outcome is returned or settled. An ack whose transaction the handler left failed is undone, and the row
 * goes back as by HF_RETRY_AFTER. Until the handler asks for it the connection is kept alive and watched; from then on it is the handler's
 * alone, and what the server does to idle sessions is its business: it is not told of one that is lost before the settle. */
HF_API PGconn *hf_postgres_delivery(hf_delivery *delivery);

/* The handle of a connection of hf_checkout; NULL when the database is another one. Borrowed, until hf_connection_return; one thread at a
 * time. Not in pipeline mode when it is lent. The session is reset when it comes back. */
HF_API PGconn *hf_postgres_connection(hf_connection *connection);

#ifdef __cplusplus
}
#endif
#endif
