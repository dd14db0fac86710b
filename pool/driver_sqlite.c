/* The SQLite driver: sessions, transactions and waiting for locks.
 *
 * A connection is opened without SQLite's own mutexes, since one thread at a time calls it. The database file itself is never
 * opened here: closing any descriptor of it would drop the locks that SQLite holds for the whole process.
 *
 * A borrowed handle keeps its owner's busy and progress handlers, so a deadline does not interrupt it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver_sqlite.h"

extern const struct hf__driver hf__sqlite_driver;

#define PROGRESS_STEPS 1000
#define USER_BUSY_MS 5000 /* how long a statement of a native handle's user waits for a lock */

struct hf__sqlite *hf__sqlite(struct hf__conn *conn)
{
    return (struct hf__sqlite *)conn;
}

void hf__sqlite_enter(struct hf__sqlite *s, struct hf__deadline deadline)
{
    s->in_call = true;
    s->timed_out = false;
    s->deadline = deadline;
}

void hf__sqlite_leave(struct hf__sqlite *s)
{
    s->in_call = false;
    s->timed_out = false;
}

/* ---- waiting ---- */

hf_status hf__sqlite_begin_turn(struct hf__sqlite *s, struct hf__deadline deadline, hf_error *err)
{
    if (s->turns == NULL || s->has_turn || !sqlite3_get_autocommit(s->db)) {
        return HF_OK;
    }
    if (!hf__sqlite_turn_take(s->turns, deadline)) {
        return hf__fail_native(
            err, HF_TRANSIENT, SQLITE_BUSY, NULL,
            "SQLite database %s: other threads of this process were writing for the whole time limit; a transactional handler, "
            "whose own delivery is the one writer, enqueues on that with hf_enqueue_sqlite",
            s->path);
    }
    s->has_turn = true;
    return HF_OK;
}

void hf__sqlite_end_turn(struct hf__sqlite *s)
{
    if (s->has_turn && (s->db == NULL || sqlite3_get_autocommit(s->db))) {
        s->has_turn = false;
        hf__sqlite_turn_end(s->turns);
    }
}

/* SQLite tells nobody when a lock comes free, so waiting for one is looking again: soon at first, then every few milliseconds,
 * at random, so that waiters do not come in step. */
static void sleep_before_try(int tries, struct hf__deadline until)
{
    int64_t longest = INT64_C(250000) << (tries < 5 ? tries : 5);
    int64_t ns = longest / 2 + (int64_t)hf__random_below((uint64_t)longest / 2);
    int64_t left = hf__left_ns(until);
    struct timespec pause = {.tv_nsec = (long)(ns < left ? ns : left)};
    (void)nanosleep(&pause, NULL); /* woken early, it looks early */
}

static int on_busy(void *ctx, int tries)
{
    struct hf__sqlite *s = ctx;
    if (tries == 0) {
        s->busy_until = s->in_call ? s->deadline : hf__after_ms(USER_BUSY_MS);
    }
    if (hf__passed(s->busy_until)) {
        return 0;
    }
    sleep_before_try(tries, s->busy_until);
    return 1;
}

static int on_progress(void *ctx)
{
    struct hf__sqlite *s = ctx;
    s->timed_out = s->in_call && hf__passed(s->deadline);
    return s->timed_out;
}

/* ---- running constant SQL ---- */

static hf_status exec_in_call(struct hf__sqlite *s, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    hf__sqlite_enter(s, deadline);
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    hf_status status = rc == SQLITE_OK ? HF_OK : hf__sqlite_fail(s, rc, err);
    hf__sqlite_leave(s);
    hf__sqlite_end_turn(s);
    return status;
}

static hf_status write_in_call(struct hf__sqlite *s, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = hf__sqlite_begin_turn(s, deadline, err);
    return status == HF_OK ? exec_in_call(s, sql, deadline, err) : status;
}

static enum hf__transaction transaction(struct hf__conn *conn)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    if (!sqlite3_get_autocommit(s->db)) {
        return HF__TX_OPEN;
    }
    return s->begun ? HF__TX_FAILED : HF__TX_NONE;
}

static hf_status fail_rolled_back(const struct hf__sqlite *s, hf_error *err)
{
    return hf__fail(err, HF_DATABASE, "SQLite database %s: the transaction was rolled back by an earlier error; nothing of it is kept",
                    s->path);
}

static hf_status exec(struct hf__conn *conn, const char *sql, struct hf__deadline deadline, hf_error *err)
{
    if (transaction(conn) == HF__TX_FAILED) {
        return fail_rolled_back(hf__sqlite(conn), err);
    }
    return write_in_call(hf__sqlite(conn), sql, deadline, err);
}

/* ---- sessions ---- */

static hf_status fail_open(struct hf__sqlite *s, int rc, hf_error *err)
{
    if (s->db == NULL) {
        return hf__fail_memory(err);
    }
    if ((rc & 0xFF) != SQLITE_CANTOPEN) {
        return hf__sqlite_fail(s, rc, err);
    }
    int os = sqlite3_system_errno(s->db);
    int code = sqlite3_extended_errcode(s->db);
    if (os == ENOENT && !s->create) {
        return hf__fail_native(err, HF_UNREACHABLE, code, NULL,
                               "SQLite database %s does not exist; correct the path, or add ?create=1 to the URL to make it", s->path);
    }
    return hf__fail_native(err, HF_UNREACHABLE, code, NULL, "SQLite database %s cannot be opened: %s", s->path,
                           os != 0 ? strerror(os) : sqlite3_errmsg(s->db));
}

static hf_status set_up(struct hf__sqlite *s, struct hf__deadline deadline, hf_error *err)
{
    int rc = sqlite3_extended_result_codes(s->db, 1);
    if (rc == SQLITE_OK) {
        rc = sqlite3_busy_handler(s->db, on_busy, s);
    }
    if (rc != SQLITE_OK) {
        return hf__sqlite_fail(s, rc, err);
    }
    sqlite3_progress_handler(s->db, PROGRESS_STEPS, on_progress, s);
    if (sqlite3_db_readonly(s->db, "main") == 1) {
        return hf__fail(err, HF_DENIED, "SQLite database %s can only be read by this user; jobs cannot be claimed or settled in it",
                        s->path);
    }
    char *pragma = sqlite3_mprintf("PRAGMA synchronous = %s", s->synchronous);
    if (pragma == NULL) {
        return hf__fail_memory(err);
    }
    hf_status status = exec_in_call(s, pragma, deadline, err);
    sqlite3_free(pragma);
    return status;
}

/* Should a user of the native handle have left statements, SQLite keeps the handle until they are finalized, and with it the
 * transaction and its locks: so they are ended first. */
static void close_handle(struct hf__sqlite *s)
{
    hf__sqlite_forget_prepared(s);
    for (sqlite3_stmt *left = sqlite3_next_stmt(s->db, NULL); left != NULL; left = sqlite3_next_stmt(s->db, left)) {
        (void)sqlite3_reset(left); /* repeats the error of its last run */
    }
    if (!sqlite3_get_autocommit(s->db)) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* should it fail, closing does it */
    }
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    (void)sqlite3_busy_handler(s->db, NULL, NULL); /* always SQLITE_OK */
    (void)sqlite3_close_v2(s->db);                 /* always SQLITE_OK */
    s->db = NULL;
    s->begun = false;
    hf__sqlite_end_turn(s);
    hf__sqlite_turns_leave(s->turns);
    s->turns = NULL;
}

static hf_status open_handle(struct hf__sqlite *s, struct hf__deadline deadline, hf_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | (s->create ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(s->path, &s->db, flags, NULL);
    hf_status status = rc == SQLITE_OK ? set_up(s, deadline, err) : fail_open(s, rc, err);
    if (status == HF_OK) {
        s->turns = hf__sqlite_turns_at(s->path);
        status = s->turns != NULL ? HF_OK : hf__fail_memory(err);
    }
    if (status != HF_OK && s->db != NULL) {
        close_handle(s);
    }
    return status;
}

static void free_own(struct hf__sqlite *s)
{
    free(s->prepared);
    free(s->synchronous);
    free(s->path);
    free(s);
}

static struct hf__sqlite *new_conn(void)
{
    struct hf__sqlite *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->base.driver = &hf__sqlite_driver;
    s->base.owner = getpid();
    s->base.server.database = HF__SQLITE;
    s->base.server.version = sqlite3_libversion_number() / 1000000 * 10000 + sqlite3_libversion_number() / 1000 % 1000 * 100 +
                             sqlite3_libversion_number() % 1000;
    (void)sqlite3_snprintf((int)sizeof s->base.server.text, s->base.server.text, "SQLite %s", sqlite3_libversion());
    return s;
}

static struct hf__sqlite *new_conn_for(const struct hf__url *url)
{
    struct hf__sqlite *s = new_conn();
    if (s == NULL) {
        return NULL;
    }
    const char *synchronous = hf__url_option(url, "synchronous");
    const char *create = hf__url_option(url, "create");
    s->path = strdup(url->path);
    s->synchronous = strdup(synchronous != NULL ? synchronous : "full");
    s->create = create != NULL && strcmp(create, "1") == 0;
    if (s->path == NULL || s->synchronous == NULL) {
        free_own(s);
        return NULL;
    }
    return s;
}

static hf_status connect(const struct hf__url *url, const struct hf__session_options *options, struct hf__deadline deadline,
                         struct hf__conn **out, hf_error *err)
{
    *out = NULL;
    if (!sqlite3_threadsafe()) {
        return hf__fail(err, HF_UNSUPPORTED, "this SQLite library was built without thread support (SQLITE_THREADSAFE=0)");
    }
    struct hf__sqlite *s = new_conn_for(url);
    if (s == NULL) {
        return hf__fail_memory(err);
    }
    if (options != NULL && options->connect_timeout_ms > 0) {
        deadline = hf__sooner(deadline, hf__after_ms(options->connect_timeout_ms));
    }
    hf_status status = open_handle(s, deadline, err);
    if (status != HF_OK) {
        free_own(s);
        return status;
    }
    *out = &s->base;
    return HF_OK;
}

static hf_status borrow(void *native, struct hf__conn **out, hf_error *err)
{
    struct hf__sqlite *s = new_conn();
    *out = NULL;
    if (s == NULL) {
        return hf__fail_memory(err);
    }
    const char *file = sqlite3_db_filename(native, "main");
    s->path = strdup(file != NULL && *file != '\0' ? file : "(in memory)");
    if (s->path == NULL) {
        free_own(s);
        return hf__fail_memory(err);
    }
    s->db = native;
    s->base.borrowed = true;
    *out = &s->base;
    return HF_OK;
}

/* In a forked child SQLite must not be called at all: closing its files there would drop the parent's locks. */
static void close_conn(struct hf__conn *conn)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    if (conn->owner == getpid() && s->db != NULL) {
        if (conn->borrowed) {
            hf__sqlite_forget_prepared(s);
        } else {
            close_handle(s);
        }
    }
    free_own(s);
}

/* False when the file was removed or replaced since it was opened: what is written to it now, no one else will see. */
static bool alive(struct hf__conn *conn)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    int moved = 0;
    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0) {
        conn->lost = true;
    }
    return !conn->lost;
}

static hf_status ping(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    (void)deadline; /* looking at a local file does not wait */
    if (!alive(conn)) {
        return hf__fail(err, HF_LOST, "SQLite database %s was removed or replaced by another file", hf__sqlite(conn)->path);
    }
    return HF_OK;
}

/* Opening again costs less than a millisecond and undoes everything: hooks, attached databases, temporary tables, pragmas. */
static hf_status reset(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    if (conn->borrowed) {
        return hf__fail(err, HF_MISUSE, "a connection that its owner lent is not ours to reset");
    }
    close_handle(s);
    hf_status status = open_handle(s, deadline, err);
    conn->lost = status != HF_OK;
    return status;
}

static void *native(struct hf__conn *conn)
{
    return hf__sqlite(conn)->db;
}

/* ---- transactions ---- */

static hf_status begin(struct hf__conn *conn, enum hf__isolation isolation, enum hf__sqlite_mode mode, struct hf__deadline deadline,
                       hf_error *err)
{
    static const char *const statements[] = {
        [HF__DEFERRED] = "BEGIN DEFERRED", [HF__IMMEDIATE] = "BEGIN IMMEDIATE", [HF__EXCLUSIVE] = "BEGIN EXCLUSIVE"};
    struct hf__sqlite *s = hf__sqlite(conn);
    if (isolation != HF__ISOLATION_DEFAULT && isolation != HF__SERIALIZABLE) {
        return hf__fail(err, HF_UNSUPPORTED, "SQLite transactions are always serializable; leave isolation out");
    }
    if (transaction(conn) != HF__TX_NONE) {
        return hf__fail(err, HF_MISUSE, "a transaction is already open on this connection");
    }
    hf_status status =
        mode == HF__DEFERRED ? exec_in_call(s, statements[mode], deadline, err) : write_in_call(s, statements[mode], deadline, err);
    s->begun = status == HF_OK;
    return status;
}

/* When the lock is not free in time the transaction stays open, and the caller may commit again or roll back. */
static hf_status commit(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    struct hf__sqlite *s = hf__sqlite(conn);
    enum hf__transaction state = transaction(conn);
    if (state != HF__TX_OPEN) {
        s->begun = false;
        return state == HF__TX_FAILED ? fail_rolled_back(s, err) : hf__fail(err, HF_MISUSE, "no transaction is open on this connection");
    }
    hf_status status = exec_in_call(s, "COMMIT", deadline, err);
    s->begun = s->begun && !sqlite3_get_autocommit(s->db);
    return status;
}

/* Needs no lock, so it does not wait, and its time limit must not stop it half-way. */
static hf_status rollback(struct hf__conn *conn, struct hf__deadline deadline, hf_error *err)
{
    (void)deadline;
    struct hf__sqlite *s = hf__sqlite(conn);
    hf_status status = sqlite3_get_autocommit(s->db) ? HF_OK : exec_in_call(s, "ROLLBACK", hf__never(), err);
    s->begun = false;
    if (status != HF_OK) {
        conn->lost = true;
        return HF_LOST;
    }
    return HF_OK;
}

const struct hf__driver hf__sqlite_driver = {
    .size = sizeof(struct hf__driver),
    .database = HF__SQLITE,
    .name = "SQLite",
    .capabilities = HF__DRIVER_NOTICES_CLOSE,
    .connect = connect,
    .borrow = borrow,
    .close = close_conn,
    .run = hf__sqlite_run,
    .exec = exec,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .transaction = transaction,
    .alive = alive,
    .ping = ping,
    .reset = reset,
    .describe = hf__sqlite_describe,
    .native = native,
};
