/* The hand-written loop. Each thread claims a row, runs the handler, settles, and begins again, with the statements that holdfast sends
 * (names unquoted, constants written out) on the client library's own prepared statements and blocking calls.
 *
 *   1. what all databases share: the run, the connections, the three strategies
 *   2. PostgreSQL    3. MySQL and MariaDB    4. SQLite: the statements, and how one is run
 *   5. the threads
 *
 * Of the library only what has nothing to do with its work is used: how a URL is split, error messages, a monotonic clock. */
#include "bench/raw.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "bench/tally.h"
#include "pool/deadline.h"
#include "pool/error.h"
#include "pool/url.h"

#if HOLDFAST_POSTGRES
#include <libpq-fe.h>
#endif
#if HOLDFAST_MYSQL
#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>
#endif
#if HOLDFAST_SQLITE
#include <sqlite3.h>
#endif

/* ==== 1. what all databases share ==== */

enum {
    KEY = 64,       /* "holdfast_bench_", a number, NUL */
    PAGE = 16,      /* candidates for a key in one round: LIMIT 16 */
    ROUNDS = 256,   /* of a search for a key that is free */
    TRIES = 100,    /* of a claim or a settle that fails in passing, in a row */
    IDLE_MS = 100,  /* until a thread that found nothing looks again by itself */
    TICK_MS = 1000, /* between looks at whether anything is settled at all */
    STALL_SECONDS = 60,
    LONG_HANDLER_MS = 100 /* it is worth a way to be interrupted */
};

/* PAGE_WITHOUT + k leaves out 2^k keys that are known to be held. */
enum step { BEGIN, COMMIT, ROLLBACK, CLAIM, CLAIM_FAR, MARK, LOCK, UNLOCK, TAKE, READ, ACK, BACK, PAGE_OF_KEYS, PAGE_WITHOUT };
enum { LISTS = 9, HELD_MAX = 1 << (LISTS - 1), STEPS = PAGE_WITHOUT + LISTS };

/* In a text @ is the table, # the list of held keys. */
struct text {
    const char *sql;
    const char *in;  /* the parameters: a letter each, see struct values; NULL: it is not prepared */
    const char *out; /* the columns: i id, a attempt, p payload, k key, y yes or no, a dot for what is read and not used; NULL: no rows */
};

struct row {
    int64_t id, attempt; /* the attempt as it is stored */
    int64_t expiry_us;
    char payload[BENCH_PAYLOAD], key[KEY];
    bool yes;
    size_t seq; /* of the payload */
    struct bench_job job;
};

struct values {
    int64_t id, attempt;       /* i, a; A: attempt + 1 */
    int64_t now_us, expiry_us; /* n, e */
    const char *key;           /* k */
    char (*held)[KEY];         /* x: all of them */
    size_t n_held;
};

struct raw;

struct conn {
    struct raw *raw;
    struct conn *next; /* free */
#if HOLDFAST_POSTGRES
    PGconn *pg;
#endif
#if HOLDFAST_MYSQL
    MYSQL *mysql;
    struct my_statement *my_statements[STEPS];
#endif
#if HOLDFAST_SQLITE
    sqlite3 *db;
    sqlite3_stmt *sqlite_statements[STEPS];
#endif
};

struct database {
    const struct text *texts[3]; /* by strategy */
    bool numbered;               /* parameters are $1, $2; else ? */
    bool keys_are_ours;          /* there are no advisory locks: the process holds the key, and no connection */
    hf_status (*open)(struct conn *conn, hf_error *err);
    hf_status (*prepare)(struct conn *conn, enum step step, const struct text *text, const char *sql, hf_error *err);
    /* rows: where there are columns, up to capacity; *n: rows that were read, else changed. HF_TRANSIENT: again. */
    hf_status (*run)(struct conn *conn, enum step step, const struct text *text, const struct values *values, struct row *rows,
                     size_t capacity, size_t *n, hf_error *err);
    void (*close)(struct conn *conn);
    int (*begin_thread)(void);
    void (*end_thread)(void);
};

struct worker {
    struct raw *raw;
    pthread_t thread;
    STAILQ_ENTRY(worker) link; /* raw->waiting */
    pthread_cond_t called;
    struct conn *given;
    char key[KEY];     /* that it holds, "": none; guarded by raw->lock */
    char (*held)[KEY]; /* HELD_MAX keys that are not to be listed */
    size_t n_refused;  /* of those: somebody outside holds them */
    hf_error err;
};

struct raw {
    const struct bench_raw_input *input;
    const struct database *database;
    const struct text *texts;
    hf_strategy strategy;
    struct hf__url *url;
    struct bench_tally *tally; /* the same accounting as in a run of ours */
    size_t n_workers, n_conns;
    struct worker *workers;
    struct conn *conns;
    atomic_size_t repeated;
    atomic_bool over;
    bool readers_lock_file;  /* SQLite without a write-ahead log */
    pthread_mutex_t writing; /* SQLite: one at a time */

    pthread_mutex_t lock; /* guards what follows */
    struct conn *free;
    STAILQ_HEAD(, worker) waiting; /* for a connection */
    pthread_cond_t changed;
    unsigned long put_back; /* rows that came back: who found none looks again */
    size_t errors;
    hf_status status; /* the first error's */
    hf_error err;
};

static const struct text *text_of(const struct raw *raw, enum step step)
{
    return &raw->texts[step < PAGE_WITHOUT ? step : PAGE_WITHOUT];
}

static hf_status run(struct conn *conn, enum step step, const struct values *values, struct row *rows, size_t capacity, size_t *n,
                     hf_error *err)
{
    return conn->raw->database->run(conn, step, text_of(conn->raw, step), values, rows, capacity, n, err);
}

/* A statement that is a transaction of its own: what fails in passing is made again. */
static hf_status run_alone(struct conn *conn, enum step step, const struct values *values, struct row *rows, size_t capacity, size_t *n,
                           hf_error *err)
{
    hf_status status = run(conn, step, values, rows, capacity, n, err);
    for (unsigned i = 1; status == HF_TRANSIENT && i < TRIES && !atomic_load(&conn->raw->over); i++) {
        atomic_fetch_add(&conn->raw->repeated, 1);
        status = run(conn, step, values, rows, capacity, n, err);
    }
    return status;
}

static hf_status run_bare(struct conn *conn, enum step step, hf_error *err)
{
    size_t n;
    return run(conn, step, &(struct values){0}, NULL, 0, &n, err);
}

static hf_status no_longer_ours(hf_status status, const struct row *row, hf_error *err)
{
    return hf__fail(err, status, "row %" PRId64 " was no longer ours when its handler had ended", row->id);
}

/* ---- row lock: the transaction stays open ---- */

static hf_status roll_back(struct conn *conn, hf_status status, hf_error *err)
{
    hf_error second;
    hf_status ended = run_bare(conn, ROLLBACK, &second);
    if (ended == HF_OK || (status != HF_OK && status != HF_TRANSIENT))
        return status;
    *err = second;
    return ended;
}

/* The first page, and all where that has nothing free. */
static hf_status find(struct conn *conn, struct row *row, size_t *n, hf_error *err)
{
    struct values values = {.id = 0};
    hf_status status = run(conn, CLAIM, &values, row, 1, n, err);
    if (status == HF_OK && *n == 0 && text_of(conn->raw, CLAIM_FAR)->sql)
        status = run(conn, CLAIM_FAR, &values, row, 1, n, err);
    return status;
}

static hf_status claim_row_lock(struct worker *worker, struct conn *conn, struct row *row, size_t *n, hf_error *err)
{
    (void)worker;
    hf_status status = run_bare(conn, BEGIN, err);
    if (status == HF_OK)
        status = find(conn, row, n, err);
    return status == HF_OK && *n == 1 ? HF_OK : roll_back(conn, status, err);
}

static hf_status settle_row_lock(struct worker *worker, struct conn *conn, struct row *row, hf_outcome outcome, hf_error *err)
{
    size_t n;
    struct values values = {.id = row->id, .attempt = row->attempt};
    (void)worker;
    hf_status status = run(conn, outcome == HF_ACK ? ACK : BACK, &values, NULL, 0, &n, err);
    if (status == HF_OK && n != 1)
        status = no_longer_ours(HF_LOST, row, err);
    return status == HF_OK ? run_bare(conn, COMMIT, err) : roll_back(conn, status, err);
}

/* ---- lease: an expiry in the row ---- */

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Where there is no UPDATE that returns what it changed. */
static hf_status claim_in_two(struct conn *conn, struct values *values, struct row *row, size_t *n, hf_error *err)
{
    size_t marked = 1;
    hf_status status = run_bare(conn, BEGIN, err);
    if (status == HF_OK)
        status = run(conn, CLAIM, values, row, 1, n, err);
    if (status != HF_OK || *n == 0)
        return roll_back(conn, status, err);
    values->id = row->id;
    status = run(conn, MARK, values, NULL, 0, &marked, err);
    if (status == HF_OK && marked != 1)
        status = no_longer_ours(HF_LOST, row, err);
    row->attempt++;
    return status == HF_OK ? run_bare(conn, COMMIT, err) : roll_back(conn, status, err);
}

static hf_status claim_lease(struct worker *worker, struct conn *conn, struct row *row, size_t *n, hf_error *err)
{
    unsigned seconds = worker->raw->input->options->lease_seconds;
    struct values values = {.now_us = now_us()};
    values.expiry_us = values.now_us + (seconds > 0 ? seconds : 30) * INT64_C(1000000);
    hf_status status = text_of(conn->raw, MARK)->sql ? claim_in_two(conn, &values, row, n, err) : run(conn, CLAIM, &values, row, 1, n, err);
    row->expiry_us = values.expiry_us;
    return status;
}

static hf_status settle_lease(struct worker *worker, struct conn *conn, struct row *row, hf_outcome outcome, hf_error *err)
{
    size_t n;
    struct values values = {.id = row->id, .attempt = row->attempt, .expiry_us = row->expiry_us};
    (void)worker;
    hf_status status = run_alone(conn, outcome == HF_ACK ? ACK : BACK, &values, NULL, 0, &n, err);
    return status == HF_OK && n != 1 ? no_longer_ours(HF_LEASE_LOST, row, err) : status;
}

/* ---- advisory lock: a key of the session ---- */

/* Session locks are re-entrant: a thread must know the keys of the others. */
static bool take_key(struct worker *worker, const char *key)
{
    struct raw *raw = worker->raw;
    bool ours = true;
    pthread_mutex_lock(&raw->lock);
    for (size_t i = 0; ours && i < raw->n_workers; i++)
        ours = strcmp(raw->workers[i].key, key) != 0;
    if (ours)
        memcpy(worker->key, key, KEY);
    pthread_mutex_unlock(&raw->lock);
    return ours;
}

static void drop_key(struct worker *worker)
{
    pthread_mutex_lock(&worker->raw->lock);
    worker->key[0] = '\0';
    pthread_mutex_unlock(&worker->raw->lock);
}

/* What is known to be held: what this search was refused, and what this process holds. */
static size_t look_at_keys(struct worker *worker)
{
    struct raw *raw = worker->raw;
    size_t n = worker->n_refused;
    pthread_mutex_lock(&raw->lock);
    for (size_t i = 0; i < raw->n_workers && n < HELD_MAX; i++)
        if (raw->workers[i].key[0] != '\0')
            memcpy(worker->held[n++], raw->workers[i].key, KEY);
    pthread_mutex_unlock(&raw->lock);
    return n;
}

static hf_status list(struct worker *worker, struct conn *conn, struct row page[PAGE], size_t *n, hf_error *err)
{
    size_t held = look_at_keys(worker), k = 0;
    struct values values = {.held = worker->held};
    if (held == 0)
        return run_alone(conn, PAGE_OF_KEYS, &values, page, PAGE, n, err);
    while ((size_t)1 << k < held)
        k++;
    values.n_held = (size_t)1 << k;
    for (size_t i = held; i < values.n_held; i++)
        memcpy(worker->held[i], worker->held[0], KEY);
    return run_alone(conn, (enum step)(PAGE_WITHOUT + k), &values, page, PAGE, n, err);
}

static hf_status ask(struct conn *conn, enum step step, const char *key, bool *yes, hf_error *err)
{
    size_t n = 0;
    struct row answer = {.yes = true};
    hf_status status = HF_OK;
    if (text_of(conn->raw, step)->sql)
        status = run_alone(conn, step, &(struct values){.key = key}, &answer, 1, &n, err);
    *yes = status == HF_OK && answer.yes;
    return status;
}

static hf_status unlock(struct worker *worker, struct conn *conn, hf_error *err)
{
    bool yes;
    hf_status status = ask(conn, UNLOCK, worker->key, &yes, err);
    if (status == HF_OK && !yes)
        status = hf__fail(err, HF_DATABASE, "the lock on %s was not ours when it was to be released", worker->key);
    drop_key(worker);
    return status;
}

/* Under the lock: is it still what the candidate showed? Counts the attempt and reads the row. */
static hf_status take(struct conn *conn, const struct row *candidate, struct row *row, size_t *n, hf_error *err)
{
    struct values values = {.id = candidate->id, .attempt = candidate->attempt, .key = candidate->key};
    hf_status status = run_alone(conn, TAKE, &values, row, 1, n, err);
    values.attempt++;
    if (status == HF_OK && *n == 1 && text_of(conn->raw, READ)->sql)
        status = run_alone(conn, READ, &values, row, 1, n, err);
    return status;
}

static hf_status try_candidate(struct worker *worker, struct conn *conn, const struct row *candidate, struct row *row, size_t *n,
                               hf_error *err)
{
    bool yes;
    if (!take_key(worker, candidate->key))
        return HF_OK;
    hf_status status = ask(conn, LOCK, candidate->key, &yes, err);
    if (!yes) {
        drop_key(worker);
        if (worker->n_refused < HELD_MAX)
            memcpy(worker->held[worker->n_refused++], candidate->key, KEY);
        return status;
    }
    status = take(conn, candidate, row, n, err);
    return status == HF_OK && *n == 0 ? unlock(worker, conn, err) : status;
}

/* A page whose keys the others took meanwhile is followed by another. */
static hf_status claim_advisory_lock(struct worker *worker, struct conn *conn, struct row *row, size_t *n, hf_error *err)
{
    struct row page[PAGE];
    size_t listed = PAGE;
    hf_status status = HF_OK;
    *n = worker->n_refused = 0;
    for (unsigned i = 0; i < ROUNDS && listed == PAGE && *n == 0 && status == HF_OK; i++) {
        status = list(worker, conn, page, &listed, err);
        for (size_t r = 0; r < listed && *n == 0 && status == HF_OK; r++)
            status = try_candidate(worker, conn, &page[r], row, n, err);
    }
    return status;
}

static hf_status settle_advisory_lock(struct worker *worker, struct conn *conn, struct row *row, hf_outcome outcome, hf_error *err)
{
    size_t n = 1;
    struct values values = {.id = row->id, .attempt = row->attempt};
    hf_status status = HF_OK;
    if (outcome == HF_ACK) /* the take has counted: a row that goes back is only unlocked */
        status = run_alone(conn, ACK, &values, NULL, 0, &n, err);
    if (status == HF_OK && n != 1)
        status = no_longer_ours(HF_LOST, row, err);
    return status == HF_OK ? unlock(worker, conn, err) : status;
}

static const struct {
    hf_status (*claim)(struct worker *worker, struct conn *conn, struct row *row, size_t *n, hf_error *err);
    hf_status (*settle)(struct worker *worker, struct conn *conn, struct row *row, hf_outcome outcome, hf_error *err);
} strategies[] = {
    [HF_ROW_LOCK] = {claim_row_lock, settle_row_lock},
    [HF_LEASE] = {claim_lease, settle_lease},
    [HF_ADVISORY_LOCK] = {claim_advisory_lock, settle_advisory_lock},
};

/* ---- text for the databases ---- */

static void put_list(FILE *out, bool numbered, size_t n_held)
{
    for (size_t i = 0; i < n_held; i++)
        if (numbered)
            fprintf(out, "%s$%zu", i > 0 ? ", " : "", i + 1);
        else
            fputs(i > 0 ? ", ?" : "?", out);
}

static char *expand(const struct raw *raw, const struct text *text, size_t n_held)
{
    char *sql = NULL;
    size_t len;
    FILE *out = open_memstream(&sql, &len);
    if (!out)
        return NULL;
    for (const char *at = text->sql; *at; at++)
        if (*at == '@')
            fputs(raw->input->table, out);
        else if (*at == '#')
            put_list(out, raw->database->numbered, n_held);
        else
            fputc(*at, out);
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed)
        return sql;
    free(sql);
    return NULL;
}

static hf_status unreadable(const struct conn *conn, hf_error *err)
{
    return hf__fail(err, HF_DATABASE, "table %s has a row that the bench did not make", conn->raw->input->table);
}

#if HOLDFAST_POSTGRES || HOLDFAST_SQLITE

/* False if it does not fit: then it is none of ours. */
static bool copy(char *to, size_t size, const void *from, size_t len)
{
    if (!from || len >= size)
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

/* "2026-12-02 08:27:33.768777": as SQLite's column keeps it; PostgreSQL reads it, too. */
enum { TIME_TEXT = 64 };
static void write_time(int64_t us, const char *zone, char text[TIME_TEXT])
{
    struct tm tm;
    time_t seconds = (time_t)(us / 1000000);
    gmtime_r(&seconds, &tm);
    snprintf(text, TIME_TEXT, "%04d-%02d-%02d %02d:%02d:%02d.%06d%s", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
             tm.tm_sec, (int)(us % 1000000), zone);
}
#endif

static int64_t number_of(const struct values *values, char letter)
{
    return letter == 'i' ? values->id : values->attempt + (letter == 'A');
}

#define ROW(key) "id, " ATTEMPT ", NULL, NULL, NULL, NULL, payload, NULL, " key ", NULL"
#define ROW_OUT "ia....p..."
#define KEYED_OUT "ia....p.k."

/* ==== 2. PostgreSQL ==== */

#if HOLDFAST_POSTGRES

#define ATTEMPT "GREATEST(COALESCE(attempt, 1), 1)"
#define PG_KEY "('holdfast_bench_' || id::text)"
#define PG_LIST "SELECT id, " PG_KEY ", " ATTEMPT " FROM ONLY @ WHERE LENGTH(" PG_KEY ") > 0 "

static const struct text pg_row_lock[PAGE_WITHOUT + 1] = {
    [BEGIN] = {.sql = "BEGIN ISOLATION LEVEL READ COMMITTED"},
    [CLAIM] = {"SELECT " ROW("NULL") ", CASE WHEN TRUE THEN 1 ELSE 0 END"
                                     " FROM (SELECT id AS chosen FROM ONLY @ ORDER BY id LIMIT 128) AS page,"
                                     " LATERAL (SELECT * FROM ONLY @ WHERE id = chosen FOR UPDATE SKIP LOCKED) AS locked LIMIT 1",
               "", ROW_OUT "."},
    [CLAIM_FAR] = {"SELECT " ROW("NULL") " FROM ONLY @ ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "", ROW_OUT},
    [ACK] = {"DELETE FROM ONLY @ WHERE id = $1 AND " ATTEMPT " = $2", "ia", NULL},
    [BACK] = {"UPDATE ONLY @ SET attempt = $1 WHERE id = $2 AND " ATTEMPT " = $3", "Aia", NULL},
    [COMMIT] = {.sql = "COMMIT"},
    [ROLLBACK] = {.sql = "ROLLBACK"},
};

static const struct text pg_lease[PAGE_WITHOUT + 1] = {
    [CLAIM] = {"UPDATE ONLY @ SET locked_until = $1, attempt = LEAST(" ATTEMPT ", 2147483646) + 1"
               " WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY @ WHERE (locked_until IS NULL OR locked_until <= $2)"
               " ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING " ROW("NULL"),
               "en", ROW_OUT},
    [ACK] = {"DELETE FROM ONLY @ WHERE id = $1 AND locked_until = $2 AND " ATTEMPT " = $3", "iea", NULL},
    [BACK] = {"UPDATE ONLY @ SET locked_until = NULL WHERE id = $1 AND locked_until = $2 AND " ATTEMPT " = $3", "iea", NULL},
};

static const struct text pg_advisory_lock[PAGE_WITHOUT + 1] = {
    [PAGE_OF_KEYS] = {PG_LIST "ORDER BY id LIMIT 16", "", "ika"},
    [PAGE_WITHOUT] = {PG_LIST "AND (" PG_KEY " COLLATE \"C\") NOT IN (#) ORDER BY id LIMIT 16", "x", "ika"},
    [LOCK] = {"SELECT pg_try_advisory_lock(hashtextextended($1::text COLLATE \"C\", 0))", "k", "y"},
    [TAKE] = {"UPDATE ONLY @ SET attempt = $1 WHERE LENGTH(" PG_KEY ") > 0 AND id = $2 AND (" PG_KEY " COLLATE \"C\") = $3"
              " AND " ATTEMPT " = $4 RETURNING " ROW(PG_KEY),
              "Aika", KEYED_OUT},
    [ACK] = {"DELETE FROM ONLY @ WHERE id = $1 AND " ATTEMPT " = $2", "ia", NULL},
    [UNLOCK] = {"SELECT pg_advisory_unlock(hashtextextended($1::text COLLATE \"C\", 0))", "k", "y"},
};

#undef ATTEMPT

static hf_status pg_failed(const struct conn *conn, const PGresult *result, hf_error *err)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE), *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    hf_status status = PQstatus(conn->pg) == CONNECTION_BAD ? HF_LOST : HF_DATABASE;
    if (status == HF_DATABASE && code && (strncmp(code, "40", 2) == 0 || strcmp(code, "55P03") == 0))
        status = HF_TRANSIENT;
    return hf__fail_native(err, status, 0, code, "%s", text ? text : PQerrorMessage(conn->pg));
}

static hf_status pg_open(struct conn *conn, hf_error *err)
{
    const struct hf__url *url = conn->raw->url;
    const char *const names[] = {"fallback_application_name", "dbname", "client_encoding", NULL};
    const char *const values[] = {"holdfast-bench raw", url->text, "UTF8", NULL};
    PQconninfoOption *parts = PQconninfoParse(url->text, NULL); /* its message, and that of a connect, may quote the password */
    if (!parts)
        return hf__fail(err, HF_INVALID, "%s is not a URL that libpq accepts", url->safe);
    PQconninfoFree(parts);
    conn->pg = PQconnectdbParams(names, values, 1);
    if (PQstatus(conn->pg) == CONNECTION_OK)
        return HF_OK;
    return hf__fail(err, HF_UNREACHABLE, "%s: %s", url->safe, conn->pg ? PQerrorMessage(conn->pg) : "out of memory");
}

static void pg_close(struct conn *conn)
{
    PQfinish(conn->pg);
}

static hf_status pg_prepare(struct conn *conn, enum step step, const struct text *text, const char *sql, hf_error *err)
{
    char name[16];
    (void)text;
    snprintf(name, sizeof name, "s%d", (int)step);
    PGresult *result = PQprepare(conn->pg, name, sql, 0, NULL);
    hf_status status = PQresultStatus(result) == PGRES_COMMAND_OK ? HF_OK : pg_failed(conn, result, err);
    PQclear(result);
    return status;
}

/* All as text. */
static int pg_bind(const char *in, const struct values *values, char scratch[][TIME_TEXT], const char **with)
{
    int n = 0;
    for (size_t i = 0; in[i]; i++)
        if (in[i] == 'x') {
            for (size_t h = 0; h < values->n_held; h++)
                with[n++] = values->held[h];
        } else if (in[i] == 'k') {
            with[n++] = values->key;
        } else {
            if (in[i] == 'n' || in[i] == 'e')
                write_time(in[i] == 'n' ? values->now_us : values->expiry_us, "+00", scratch[i]);
            else
                snprintf(scratch[i], TIME_TEXT, "%" PRId64, number_of(values, in[i]));
            with[n++] = scratch[i];
        }
    return n;
}

static PGresult *pg_send(struct conn *conn, enum step step, const struct text *text, const struct values *values)
{
    char name[16], scratch[8][TIME_TEXT];
    const char *with[HELD_MAX + 8];
    if (!text->in)
        return PQexec(conn->pg, text->sql);
    snprintf(name, sizeof name, "s%d", (int)step);
    int n = pg_bind(text->in, values, scratch, with);
    return PQexecPrepared(conn->pg, name, n, with, NULL, NULL, 0);
}

static bool pg_read_payload(const char *cell, struct row *row)
{
    size_t len;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)cell, &len);
    bool fits = copy(row->payload, sizeof row->payload, bytes, len);
    PQfreemem(bytes);
    return fits;
}

static bool pg_read(const PGresult *result, int r, const char *out, struct row *row)
{
    bool good = true;
    for (int c = 0; good && out[c]; c++) {
        const char *cell = PQgetvalue(result, r, c);
        if (out[c] == 'i')
            row->id = strtoll(cell, NULL, 10);
        else if (out[c] == 'a')
            row->attempt = strtoll(cell, NULL, 10);
        else if (out[c] == 'y')
            row->yes = cell[0] == 't';
        else if (out[c] == 'k')
            good = copy(row->key, sizeof row->key, cell, strlen(cell));
        else if (out[c] == 'p')
            good = pg_read_payload(cell, row);
    }
    return good;
}

static hf_status pg_run(struct conn *conn, enum step step, const struct text *text, const struct values *values, struct row *rows,
                        size_t capacity, size_t *n, hf_error *err)
{
    PGresult *result = pg_send(conn, step, text, values);
    hf_status status = HF_OK;
    if (PQresultStatus(result) != (text->out ? PGRES_TUPLES_OK : PGRES_COMMAND_OK))
        status = pg_failed(conn, result, err);
    else if (step == COMMIT && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        status = hf__fail(err, HF_DATABASE, "a COMMIT was answered with %s", PQcmdStatus(result));
    *n = status != HF_OK ? 0 : text->out ? (size_t)PQntuples(result) : (size_t)strtoull(PQcmdTuples(result), NULL, 10);
    for (size_t r = 0; text->out && status == HF_OK && r < *n && r < capacity; r++)
        if (!pg_read(result, (int)r, text->out, &rows[r]))
            status = unreadable(conn, err);
    PQclear(result);
    return status;
}

static const struct database postgres = {.texts = {pg_row_lock, pg_lease, pg_advisory_lock},
                                         .numbered = true,
                                         .open = pg_open,
                                         .prepare = pg_prepare,
                                         .run = pg_run,
                                         .close = pg_close};
#endif

/* ==== 3. MySQL and MariaDB ==== */

#if HOLDFAST_MYSQL

#define ATTEMPT "GREATEST(COALESCE(attempt, 1), 1)"
#define MY_KEY "CONCAT(CAST('holdfast_bench_' AS CHAR CHARACTER SET utf8mb4), CAST(id AS CHAR CHARACTER SET utf8mb4))"
#define MY_LIST "SELECT id, " MY_KEY ", " ATTEMPT " FROM @ WHERE LENGTH(" MY_KEY ") > 0 "
#define MY_NAME                                                                                                                    \
    "CASE WHEN CHAR_LENGTH(k.n) <= 64 AND CAST(CONVERT(CONVERT(k.n USING utf8mb3) USING utf8mb4) AS BINARY) = CAST(k.n AS BINARY)" \
    " THEN k.n ELSE SHA2(k.n, 256) END"
#define MY_NAMED " FROM (SELECT CONCAT(LOWER(DATABASE()), '.', CAST(? AS CHAR CHARACTER SET utf8mb4)) AS n) AS k"

static const struct text my_row_lock[PAGE_WITHOUT + 1] = {
    [BEGIN] = {.sql = "START TRANSACTION"},
    [CLAIM] = {"SELECT " ROW("NULL") " FROM @ FORCE INDEX (PRIMARY) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "", ROW_OUT},
    [ACK] = {"DELETE FROM @ WHERE id = ? AND " ATTEMPT " = ?", "ia", NULL},
    [BACK] = {"UPDATE @ SET attempt = ? WHERE id = ? AND " ATTEMPT " = ?", "Aia", NULL},
    [COMMIT] = {.sql = "COMMIT"},
    [ROLLBACK] = {.sql = "ROLLBACK"},
};

static const struct text my_lease[PAGE_WITHOUT + 1] = {
    [BEGIN] = {.sql = "START TRANSACTION"},
    [CLAIM] = {"SELECT " ROW("NULL") " FROM @ FORCE INDEX (PRIMARY) WHERE (locked_until IS NULL OR locked_until <= ?)"
                                     " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
               "n", ROW_OUT},
    [MARK] = {"UPDATE @ FORCE INDEX (PRIMARY) SET locked_until = ?, attempt = LEAST(" ATTEMPT ", 2147483646) + 1 WHERE id IN (?)", "ei",
              NULL},
    [COMMIT] = {.sql = "COMMIT"},
    [ROLLBACK] = {.sql = "ROLLBACK"},
    [ACK] = {"DELETE FROM @ WHERE id = ? AND locked_until = ? AND " ATTEMPT " = ?", "iea", NULL},
    [BACK] = {"UPDATE @ SET locked_until = NULL WHERE id = ? AND locked_until = ? AND " ATTEMPT " = ?", "iea", NULL},
};

static const struct text my_advisory_lock[PAGE_WITHOUT + 1] = {
    [PAGE_OF_KEYS] = {MY_LIST "ORDER BY id LIMIT 16", "", "ika"},
    [PAGE_WITHOUT] = {MY_LIST "AND CAST(" MY_KEY " AS BINARY) NOT IN (#) ORDER BY id LIMIT 16", "x", "ika"},
    [LOCK] = {"SELECT GET_LOCK(" MY_NAME ", 0)" MY_NAMED, "k", "y"},
    [TAKE] = {"UPDATE @ SET attempt = ? WHERE LENGTH(" MY_KEY ") > 0 AND id = ? AND CAST(" MY_KEY " AS BINARY) = ? AND " ATTEMPT " = ?",
              "Aika", NULL},
    [READ] = {"SELECT " ROW(MY_KEY) " FROM @ WHERE id = ? AND " ATTEMPT " = ?", "ia", KEYED_OUT},
    [ACK] = {"DELETE FROM @ WHERE id = ? AND " ATTEMPT " = ?", "ia", NULL},
    [UNLOCK] = {"SELECT RELEASE_LOCK(" MY_NAME ")" MY_NAMED, "k", "y"},
};

#undef ATTEMPT

struct my_parameter {
    long long number;
    MYSQL_TIME time;
};

enum { COLUMNS = 11 };

struct my_statement {
    MYSQL_STMT *stmt;
    MYSQL_BIND *in;
    struct my_parameter *parameters;
    MYSQL_BIND out[COLUMNS]; /* into what follows */
    unsigned long len[COLUMNS];
    my_bool is_null[COLUMNS];
    char unused[8];
    long long yes;
    struct row row;
};

static hf_status my_failed(unsigned number, const char *sqlstate, const char *message, hf_error *err)
{
    static const unsigned passing[] = {ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_CHECKREAD};
    hf_status status = number >= CR_MIN_ERROR && number <= CR_MAX_ERROR ? HF_LOST : HF_DATABASE;
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (number == passing[i])
            status = HF_TRANSIENT;
    return hf__fail_native(err, status, (int)number, sqlstate, "%s", message);
}

static hf_status my_statement_failed(const struct my_statement *statement, hf_error *err)
{
    MYSQL_STMT *stmt = statement->stmt;
    return my_failed(mysql_stmt_errno(stmt), mysql_stmt_sqlstate(stmt), mysql_stmt_error(stmt), err);
}

static hf_status my_query(struct conn *conn, const char *sql, hf_error *err)
{
    if (mysql_query(conn->mysql, sql) == 0)
        return HF_OK;
    return my_failed(mysql_errno(conn->mysql), mysql_sqlstate(conn->mysql), mysql_error(conn->mysql), err);
}

static bool my_set(MYSQL *mysql, enum mysql_option option, const char *value)
{
    return !value || mysql_options(mysql, option, value) == 0;
}

/* The same encryption as holdfast's, or the comparison would be about that. */
static bool my_wants_tls(const struct hf__url *url)
{
    const char *mode = hf__url_option(url, "ssl_mode");
    return mode ? strcmp(mode, "disabled") != 0 : hf__url_option(url, "ssl_ca") || hf__url_option(url, "ssl_cert");
}

static bool my_set_tls(MYSQL *mysql, const struct hf__url *url)
{
    const char *mode = hf__url_option(url, "ssl_mode");
    my_bool on = 1, verify = mode && strcmp(mode, "verify_identity") == 0;
    bool checks = !mode || strncmp(mode, "verify", 6) == 0;
    if (!my_wants_tls(url))
        return true;
    return mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on) == 0 && mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify) == 0 &&
           (!checks || my_set(mysql, MYSQL_OPT_SSL_CA, hf__url_option(url, "ssl_ca"))) &&
           my_set(mysql, MYSQL_OPT_SSL_CERT, hf__url_option(url, "ssl_cert")) &&
           my_set(mysql, MYSQL_OPT_SSL_KEY, hf__url_option(url, "ssl_key"));
}

static hf_status my_log_in(struct conn *conn, hf_error *err)
{
    const struct hf__url *url = conn->raw->url;
    const char *socket = hf__url_option(url, "socket"), *mode = hf__url_option(url, "ssl_mode");
    bool local = socket || (!url->host && url->port == 0), refuses = my_wants_tls(url) && !(mode && strcmp(mode, "preferred") == 0);
    unsigned protocol = local ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const char *host = local ? NULL : url->host ? url->host : "localhost", *password = url->password ? url->password : "";
    if (mysql_options(conn->mysql, MYSQL_OPT_PROTOCOL, &protocol) != 0 || !my_set(conn->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") ||
        !my_set_tls(conn->mysql, url) ||
        !mysql_real_connect(conn->mysql, host, url->user, password, url->name, url->port, socket, CLIENT_FOUND_ROWS))
        return hf__fail(err, HF_UNREACHABLE, "%s: %s", url->safe, mysql_error(conn->mysql));
    if (refuses && !mysql_get_ssl_cipher(conn->mysql))
        return hf__fail(err, HF_UNREACHABLE, "%s: the server offers no TLS, and the URL asks for it", url->safe);
    return HF_OK;
}

static hf_status my_open(struct conn *conn, hf_error *err)
{
    if (mysql_library_init(0, NULL, NULL) != 0 || !(conn->mysql = mysql_init(NULL)))
        return hf__fail(err, HF_SYSTEM, "the MariaDB client library could not be set up");
    hf_status status = my_log_in(conn, err);
    if (status == HF_OK)
        status = my_query(conn, "SET time_zone = '+00:00', autocommit = 1", err);
    if (status == HF_OK)
        status = my_query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", err);
    return status;
}

static void my_close(struct conn *conn)
{
    for (size_t i = 0; i < STEPS; i++) {
        struct my_statement *statement = conn->my_statements[i];
        if (!statement)
            continue;
        if (statement->stmt)
            (void)mysql_stmt_close(statement->stmt); /* the connection goes with it */
        free(statement->parameters);
        free(statement->in);
        free(statement);
    }
    if (conn->mysql)
        mysql_close(conn->mysql);
}

static size_t n_parameters(const struct text *text, size_t n_held)
{
    size_t n = 0;
    for (const char *in = text->in; in && *in; in++)
        n += *in == 'x' ? n_held : 1;
    return n;
}

static void my_bind_column(struct my_statement *statement, size_t c, char letter)
{
    MYSQL_BIND *out = &statement->out[c];
    struct row *row = &statement->row;
    bool number = letter == 'i' || letter == 'a' || letter == 'y', payload = letter == 'p', key = letter == 'k';
    out->buffer_type = number ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING;
    out->buffer = letter == 'i'   ? (void *)&row->id
                  : letter == 'a' ? (void *)&row->attempt
                  : letter == 'y' ? (void *)&statement->yes
                  : payload       ? (void *)row->payload
                  : key           ? (void *)row->key
                                  : (void *)statement->unused;
    out->buffer_length = payload ? sizeof row->payload : key ? sizeof row->key : sizeof statement->unused;
    out->length = &statement->len[c];
    out->is_null = &statement->is_null[c];
}

static hf_status my_prepare(struct conn *conn, enum step step, const struct text *text, const char *sql, hf_error *err)
{
    struct my_statement *statement = conn->my_statements[step] = calloc(1, sizeof *statement);
    size_t n = n_parameters(text, step >= PAGE_WITHOUT ? (size_t)1 << (step - PAGE_WITHOUT) : 0);
    if (!statement)
        return hf__fail_memory(err);
    statement->in = calloc(n + 1, sizeof *statement->in);
    statement->parameters = calloc(n + 1, sizeof *statement->parameters);
    statement->stmt = mysql_stmt_init(conn->mysql);
    if (!statement->in || !statement->parameters || !statement->stmt)
        return hf__fail_memory(err);
    for (size_t c = 0; text->out && text->out[c]; c++)
        my_bind_column(statement, c, text->out[c]);
    return mysql_stmt_prepare(statement->stmt, sql, strlen(sql)) == 0 ? HF_OK : my_statement_failed(statement, err);
}

static void my_bind_text(MYSQL_BIND *in, const char *text)
{
    *in = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING, .buffer = (char *)(uintptr_t)text, .buffer_length = strlen(text)};
}

static void my_bind_time(MYSQL_BIND *in, MYSQL_TIME *time, int64_t us)
{
    struct tm tm;
    time_t seconds = (time_t)(us / 1000000);
    gmtime_r(&seconds, &tm);
    *time = (MYSQL_TIME){.year = (unsigned)tm.tm_year + 1900,
                         .month = (unsigned)tm.tm_mon + 1,
                         .day = (unsigned)tm.tm_mday,
                         .hour = (unsigned)tm.tm_hour,
                         .minute = (unsigned)tm.tm_min,
                         .second = (unsigned)tm.tm_sec,
                         .second_part = (unsigned long)(us % 1000000),
                         .time_type = MYSQL_TIMESTAMP_DATETIME};
    *in = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_DATETIME, .buffer = time};
}

static void my_bind(struct my_statement *statement, const char *letters, const struct values *values)
{
    MYSQL_BIND *in = statement->in;
    struct my_parameter *parameter = statement->parameters;
    for (; *letters; letters++, parameter++)
        if (*letters == 'x') {
            for (size_t h = 0; h < values->n_held; h++)
                my_bind_text(in++, values->held[h]);
        } else if (*letters == 'k') {
            my_bind_text(in++, values->key);
        } else if (*letters == 'n' || *letters == 'e') {
            my_bind_time(in++, &parameter->time, *letters == 'n' ? values->now_us : values->expiry_us);
        } else {
            parameter->number = number_of(values, *letters);
            *in++ = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &parameter->number};
        }
}

static bool my_read(struct my_statement *statement, const char *out, struct row *row)
{
    bool good = true;
    for (size_t c = 0; good && out[c]; c++) {
        char *text = out[c] == 'p' ? statement->row.payload : out[c] == 'k' ? statement->row.key : NULL;
        if (text)
            good = !statement->is_null[c] && statement->len[c] < statement->out[c].buffer_length;
        if (text && good)
            text[statement->len[c]] = '\0';
        if (out[c] == 'y')
            statement->row.yes = !statement->is_null[c] && statement->yes == 1;
    }
    *row = statement->row;
    return good;
}

static hf_status my_fetch(const struct conn *conn, struct my_statement *statement, const char *out, struct row *rows, size_t capacity,
                          size_t *n, hf_error *err)
{
    int answer = mysql_stmt_fetch(statement->stmt);
    for (; answer == 0 || answer == MYSQL_DATA_TRUNCATED; answer = mysql_stmt_fetch(statement->stmt), ++*n)
        if (answer != 0 || (*n < capacity && !my_read(statement, out, &rows[*n])))
            return unreadable(conn, err);
    return answer == MYSQL_NO_DATA ? HF_OK : my_statement_failed(statement, err);
}

static hf_status my_answer(const struct conn *conn, struct my_statement *statement, const char *out, struct row *rows, size_t capacity,
                           size_t *n, hf_error *err)
{
    MYSQL_STMT *stmt = statement->stmt;
    if (mysql_stmt_bind_result(stmt, statement->out) != 0)
        return my_statement_failed(statement, err);
    if (mysql_stmt_store_result(stmt) != 0) {
        hf_status status = my_statement_failed(statement, err);
        stmt->state = MYSQL_STMT_FETCH_DONE; /* an error in the place of a row ended the answer: libmariadb would wait for the rest */
        return status;
    }
    hf_status status = my_fetch(conn, statement, out, rows, capacity, n, err);
    if (mysql_stmt_free_result(stmt) != 0 && status == HF_OK)
        status = my_statement_failed(statement, err);
    return status;
}

static hf_status my_run(struct conn *conn, enum step step, const struct text *text, const struct values *values, struct row *rows,
                        size_t capacity, size_t *n, hf_error *err)
{
    struct my_statement *statement = conn->my_statements[step];
    *n = 0;
    if (!text->in)
        return my_query(conn, text->sql, err);
    my_bind(statement, text->in, values);
    if (mysql_stmt_bind_param(statement->stmt, statement->in) != 0 || mysql_stmt_execute(statement->stmt) != 0)
        return my_statement_failed(statement, err);
    if (text->out)
        return my_answer(conn, statement, text->out, rows, capacity, n, err);
    *n = (size_t)mysql_stmt_affected_rows(statement->stmt);
    return HF_OK;
}

static int my_begin_thread(void)
{
    return mysql_thread_init();
}

static void my_end_thread(void)
{
    mysql_thread_end();
}

static const struct database mysql = {.texts = {my_row_lock, my_lease, my_advisory_lock},
                                      .open = my_open,
                                      .prepare = my_prepare,
                                      .run = my_run,
                                      .close = my_close,
                                      .begin_thread = my_begin_thread,
                                      .end_thread = my_end_thread};
#endif

/* ==== 4. SQLite ==== */

#if HOLDFAST_SQLITE

#define ATTEMPT "MAX(COALESCE(attempt, 1), 1)"
#define SQLITE_KEY "('holdfast_bench_' || CAST(id AS TEXT))"
#define SQLITE_LIST "SELECT id, " SQLITE_KEY ", " ATTEMPT " FROM @ WHERE LENGTH(" SQLITE_KEY ") > 0 "

static const struct text sqlite_lease[PAGE_WITHOUT + 1] = {
    [CLAIM] = {"UPDATE @ SET locked_until = ?, attempt = MIN(" ATTEMPT ", 9223372036854775806) + 1"
               " WHERE id IN (SELECT id FROM @ WHERE (locked_until IS NULL OR locked_until <= ?) ORDER BY id LIMIT 1)"
               " RETURNING " ROW("NULL"),
               "en", ROW_OUT},
    [ACK] = {"DELETE FROM @ WHERE id = ? AND locked_until = ? AND " ATTEMPT " = ?", "iea", NULL},
    [BACK] = {"UPDATE @ SET locked_until = NULL WHERE id = ? AND locked_until = ? AND " ATTEMPT " = ?", "iea", NULL},
};

static const struct text sqlite_advisory_lock[PAGE_WITHOUT + 1] = {
    [PAGE_OF_KEYS] = {SQLITE_LIST "ORDER BY id LIMIT 16", "", "ika"},
    [PAGE_WITHOUT] = {SQLITE_LIST "AND (" SQLITE_KEY " COLLATE BINARY) NOT IN (#) ORDER BY id LIMIT 16", "x", "ika"},
    [TAKE] = {"UPDATE @ SET attempt = ? WHERE LENGTH(" SQLITE_KEY ") > 0 AND id = ? AND (" SQLITE_KEY " COLLATE BINARY) = ?"
              " AND " ATTEMPT " = ? RETURNING " ROW(SQLITE_KEY),
              "Aika", KEYED_OUT},
    [ACK] = {"DELETE FROM @ WHERE id = ? AND " ATTEMPT " = ?", "ia", NULL},
};

#undef ATTEMPT

enum { BUSY_MS = 10000 }; /* for other processes: the threads of this one take turns */

static hf_status sqlite_failed(const struct conn *conn, int rc, hf_error *err)
{
    hf_status status = (rc & 0xFF) == SQLITE_BUSY || (rc & 0xFF) == SQLITE_LOCKED ? HF_TRANSIENT : HF_DATABASE;
    return hf__fail_native(err, status, rc, NULL, "SQLite database %s: %s", conn->raw->url->path,
                           conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc));
}

static hf_status sqlite_set_up(struct conn *conn, hf_error *err)
{
    const char *synchronous = hf__url_option(conn->raw->url, "synchronous");
    char *pragma = sqlite3_mprintf("PRAGMA synchronous = %s", synchronous ? synchronous : "full");
    sqlite3_stmt *mode = NULL;
    int rc = pragma ? sqlite3_busy_timeout(conn->db, BUSY_MS) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(conn->db, pragma, NULL, NULL, NULL);
    sqlite3_free(pragma);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(conn->db, "PRAGMA journal_mode", -1, &mode, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(mode);
    if (rc == SQLITE_ROW)
        conn->raw->readers_lock_file = strcmp((const char *)sqlite3_column_text(mode, 0), "wal") != 0;
    (void)sqlite3_finalize(mode); /* repeats rc */
    return rc == SQLITE_ROW ? HF_OK : sqlite_failed(conn, rc, err);
}

static hf_status sqlite_open(struct conn *conn, hf_error *err)
{
    int rc = sqlite3_open_v2(conn->raw->url->path, &conn->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? sqlite_set_up(conn, err) : sqlite_failed(conn, rc, err);
}

static void sqlite_close(struct conn *conn)
{
    for (size_t i = 0; i < STEPS; i++)
        (void)sqlite3_finalize(conn->sqlite_statements[i]); /* repeats the error of its last run */
    (void)sqlite3_close_v2(conn->db);                       /* always SQLITE_OK */
}

static hf_status sqlite_prepare(struct conn *conn, enum step step, const struct text *text, const char *sql, hf_error *err)
{
    (void)text;
    int rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &conn->sqlite_statements[step], NULL);
    return rc == SQLITE_OK ? HF_OK : sqlite_failed(conn, rc, err);
}

static int sqlite_bind_one(sqlite3_stmt *stmt, int at, char letter, const struct values *values)
{
    char text[TIME_TEXT];
    if (letter == 'k')
        return sqlite3_bind_text(stmt, at, values->key, -1, SQLITE_STATIC);
    if (letter != 'n' && letter != 'e')
        return sqlite3_bind_int64(stmt, at, number_of(values, letter));
    write_time(letter == 'n' ? values->now_us : values->expiry_us, "", text);
    return sqlite3_bind_text(stmt, at, text, -1, SQLITE_TRANSIENT);
}

static int sqlite_bind(sqlite3_stmt *stmt, const char *in, const struct values *values)
{
    int rc = SQLITE_OK, at = 1;
    for (; *in && rc == SQLITE_OK; in++) {
        for (size_t h = 0; *in == 'x' && h < values->n_held && rc == SQLITE_OK; h++)
            rc = sqlite3_bind_text(stmt, at++, values->held[h], -1, SQLITE_STATIC);
        if (*in != 'x')
            rc = sqlite_bind_one(stmt, at++, *in, values);
    }
    return rc;
}

static bool sqlite_read(sqlite3_stmt *stmt, const char *out, struct row *row)
{
    bool good = true;
    for (int c = 0; good && out[c]; c++) {
        const void *bytes = out[c] == 'p' || out[c] == 'k' ? sqlite3_column_blob(stmt, c) : NULL;
        size_t len = (size_t)sqlite3_column_bytes(stmt, c);
        if (out[c] == 'i')
            row->id = sqlite3_column_int64(stmt, c);
        else if (out[c] == 'a')
            row->attempt = sqlite3_column_int64(stmt, c);
        else if (out[c] == 'p')
            good = copy(row->payload, sizeof row->payload, bytes, len);
        else if (out[c] == 'k')
            good = copy(row->key, sizeof row->key, bytes, len);
    }
    return good;
}

static hf_status sqlite_step(const struct conn *conn, sqlite3_stmt *stmt, const struct text *text, struct row *rows, size_t capacity,
                             size_t *n, hf_error *err)
{
    int rc = sqlite3_step(stmt);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt), ++*n)
        if (*n < capacity && !sqlite_read(stmt, text->out, &rows[*n]))
            return unreadable(conn, err);
    if (!text->out)
        *n = (size_t)sqlite3_changes(conn->db);
    return rc == SQLITE_DONE ? HF_OK : sqlite_failed(conn, rc, err);
}

/* SQLite lets one write at a time and tells nobody when it is over: waiting for a mutex is better than looking again and again. */
static hf_status sqlite_run(struct conn *conn, enum step step, const struct text *text, const struct values *values, struct row *rows,
                            size_t capacity, size_t *n, hf_error *err)
{
    struct raw *raw = conn->raw;
    sqlite3_stmt *stmt = conn->sqlite_statements[step];
    bool in_turn = raw->readers_lock_file || !sqlite3_stmt_readonly(stmt);
    int rc = sqlite_bind(stmt, text->in, values);
    *n = 0;
    if (rc != SQLITE_OK)
        return sqlite_failed(conn, rc, err);
    if (in_turn)
        pthread_mutex_lock(&raw->writing);
    hf_status status = sqlite_step(conn, stmt, text, rows, capacity, n, err);
    (void)sqlite3_reset(stmt); /* repeats the error of the run */
    if (in_turn)
        pthread_mutex_unlock(&raw->writing);
    return status;
}

static const struct database sqlite = {.texts = {NULL, sqlite_lease, sqlite_advisory_lock},
                                       .keys_are_ours = true,
                                       .open = sqlite_open,
                                       .prepare = sqlite_prepare,
                                       .run = sqlite_run,
                                       .close = sqlite_close};
#endif

/* ==== 5. the threads ==== */

static void end_run(struct raw *raw)
{
    pthread_mutex_lock(&raw->lock);
    atomic_store(&raw->over, true);
    pthread_cond_broadcast(&raw->changed);
    pthread_mutex_unlock(&raw->lock);
    bench_tally_stop(raw->tally);
}

static void fail_run(struct raw *raw, hf_status status, const hf_error *err)
{
    pthread_mutex_lock(&raw->lock);
    raw->errors += status != HF_STOPPED;
    if (raw->status == HF_OK) {
        raw->status = status;
        raw->err = *err;
    }
    pthread_mutex_unlock(&raw->lock);
    end_run(raw);
}

/* Whoever waits longest gets the next one. */
static struct conn *borrow(struct worker *worker)
{
    struct raw *raw = worker->raw;
    pthread_mutex_lock(&raw->lock);
    struct conn *conn = raw->free;
    if (conn) {
        raw->free = conn->next;
    } else {
        worker->given = NULL;
        STAILQ_INSERT_TAIL(&raw->waiting, worker, link);
        while (!worker->given)
            pthread_cond_wait(&worker->called, &raw->lock);
        conn = worker->given;
    }
    pthread_mutex_unlock(&raw->lock);
    return conn;
}

static void give_back(struct raw *raw, struct conn *conn)
{
    pthread_mutex_lock(&raw->lock);
    struct worker *next = STAILQ_FIRST(&raw->waiting);
    if (next) {
        STAILQ_REMOVE_HEAD(&raw->waiting, link);
        next->given = conn;
        pthread_cond_signal(&next->called);
    } else {
        conn->next = raw->free;
        raw->free = conn;
    }
    pthread_mutex_unlock(&raw->lock);
}

static unsigned long count_put_back(struct raw *raw, unsigned more)
{
    pthread_mutex_lock(&raw->lock);
    raw->put_back += more;
    unsigned long count = raw->put_back;
    if (more > 0)
        pthread_cond_broadcast(&raw->changed);
    pthread_mutex_unlock(&raw->lock);
    return count;
}

/* The rows that are left are in work elsewhere. */
static void wait_for_rows(struct raw *raw, unsigned long seen)
{
    struct hf__deadline until = hf__after_ms(IDLE_MS);
    pthread_mutex_lock(&raw->lock);
    while (raw->put_back == seen && !atomic_load(&raw->over) && hf__cond_wait(&raw->changed, &raw->lock, until))
        ;
    pthread_mutex_unlock(&raw->lock);
}

/* As our handlers do. */
static void spend(const struct raw *raw, int64_t until_ns)
{
    int64_t left_ns = until_ns - hf__monotonic_ns();
    struct pollfd stop = {.fd = raw->tally->stop_fd, .events = POLLIN};
    if (left_ns > LONG_HANDLER_MS * INT64_C(1000000) && poll(&stop, 1, (int)(left_ns / 1000000)) > 0)
        return;
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static hf_outcome handle(struct raw *raw, const struct row *row)
{
    int64_t begin_ns = hf__monotonic_ns();
    unsigned begun = bench_tally_begun(raw->tally, row->seq, begin_ns);
    if (row->job.handler_ns > 0)
        spend(raw, begin_ns + row->job.handler_ns);
    if (atomic_load(&raw->over))
        return HF_RETRY;
    if (begun > row->job.fail)
        return HF_ACK;
    atomic_fetch_add(&raw->tally->failed, 1);
    return HF_RETRY;
}

/* A settle that failed in passing has undone its transaction: the row is free again. */
static void account(struct raw *raw, const struct row *row, hf_outcome outcome, hf_status status)
{
    bool back = status == HF_TRANSIENT || outcome != HF_ACK;
    if (status != HF_OK && status != HF_TRANSIENT)
        return;
    bench_tally_settled(raw->tally, row->seq, back ? HF_RETRY : HF_ACK, HF_OK);
    if (back)
        (void)count_put_back(raw, 1);
    else if (bench_tally_complete(raw->tally))
        end_run(raw);
}

static bool keeps_connection(const struct raw *raw)
{
    return raw->strategy != HF_LEASE && !(raw->strategy == HF_ADVISORY_LOCK && raw->database->keys_are_ours);
}

static hf_status one_job(struct worker *worker, size_t *n, hf_error *err)
{
    struct raw *raw = worker->raw;
    struct row row = {.id = 0};
    struct conn *conn = borrow(worker);
    hf_status status = strategies[raw->strategy].claim(worker, conn, &row, n, err);
    if (status == HF_OK && *n == 1 && (!bench_payload_read(row.payload, &row.seq, &row.job) || row.seq >= raw->tally->n_jobs))
        status = unreadable(conn, err);
    bool keeps = status == HF_OK && *n == 1 && keeps_connection(raw);
    if (!keeps)
        give_back(raw, conn);
    if (status != HF_OK || *n == 0)
        return status;
    hf_outcome outcome = handle(raw, &row);
    if (!keeps)
        conn = borrow(worker);
    status = strategies[raw->strategy].settle(worker, conn, &row, outcome, err);
    give_back(raw, conn);
    account(raw, &row, outcome, status);
    return status;
}

static void work_until_over(struct worker *worker)
{
    struct raw *raw = worker->raw;
    unsigned in_a_row = 0;
    hf_status status = HF_OK;
    while (status == HF_OK && !atomic_load(&raw->over)) {
        unsigned long seen = count_put_back(raw, 0);
        size_t n = 0;
        status = one_job(worker, &n, &worker->err);
        in_a_row = status == HF_TRANSIENT ? in_a_row + 1 : 0;
        if (in_a_row > 0 && in_a_row < TRIES) {
            atomic_fetch_add(&raw->repeated, 1);
            status = HF_OK;
        } else if (status == HF_OK && n == 0) {
            wait_for_rows(raw, seen);
        }
    }
    if (status != HF_OK)
        fail_run(raw, status, &worker->err);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    const struct database *database = worker->raw->database;
    if (database->begin_thread && database->begin_thread() != 0) {
        fail_run(worker->raw, hf__fail_memory(&worker->err), &worker->err);
        return NULL;
    }
    work_until_over(worker);
    if (database->end_thread)
        database->end_thread();
    return NULL;
}

static bool is_stalled(const struct raw *raw, int64_t begin_ns)
{
    int64_t last_ns = atomic_load(&raw->tally->last_ns), now_ns = hf__monotonic_ns();
    int64_t lease_ns = raw->input->options->lease_seconds * INT64_C(1000000000);
    int64_t patience_ns = STALL_SECONDS * INT64_C(1000000000) + raw->input->workload->longest_ns + lease_ns;
    return now_ns - (last_ns > begin_ns ? last_ns : begin_ns) > patience_ns;
}

static void wait_for_end(struct raw *raw, int64_t begin_ns)
{
    struct pollfd fds[] = {{.fd = raw->tally->stop_fd, .events = POLLIN}, {.fd = raw->input->stop_fd, .events = POLLIN}};
    hf_error err;
    while (!atomic_load(&raw->over)) {
        int ready = poll(fds, 2, TICK_MS);
        if (ready < 0 && errno != EINTR)
            fail_run(raw, hf__fail(&err, HF_SYSTEM, "cannot wait for the threads: %s", strerror(errno)), &err);
        else if (ready > 0 && fds[1].revents)
            fail_run(raw, hf__fail(&err, HF_STOPPED, "the run was broken off"), &err);
        else if (is_stalled(raw, begin_ns))
            fail_run(raw, hf__fail(&err, HF_TIMEOUT, "the hand-written loop settled no job for a minute: it was given up"), &err);
    }
}

static void drain(struct raw *raw, struct bench_raw_output *out)
{
    int64_t begin_ns = hf__monotonic_ns();
    size_t started = 0;
    hf_error err;
    while (started < raw->n_workers && pthread_create(&raw->workers[started].thread, NULL, work, &raw->workers[started]) == 0)
        started++;
    if (started < raw->n_workers)
        fail_run(raw, hf__fail(&err, HF_SYSTEM, "only %zu of %zu threads could be started", started, raw->n_workers), &err);
    wait_for_end(raw, begin_ns);
    for (size_t i = 0; i < started; i++)
        pthread_join(raw->workers[i].thread, NULL);
    int64_t last_ns = atomic_load(&raw->tally->last_ns);
    out->seconds = last_ns > begin_ns ? (double)(last_ns - begin_ns) / 1e9 : 0;
}

static hf_status prepare(struct raw *raw, struct conn *conn, enum step step, size_t n_held, hf_error *err)
{
    const struct text *text = text_of(raw, step);
    if (!text->sql || !text->in)
        return HF_OK;
    char *sql = expand(raw, text, n_held);
    hf_status status = sql ? raw->database->prepare(conn, step, text, sql, err) : hf__fail_memory(err);
    free(sql);
    return status;
}

/* All that a run may need, so that none of it is prepared while the time is taken. */
static hf_status open_connection(struct raw *raw, struct conn *conn, hf_error *err)
{
    conn->raw = raw;
    hf_status status = raw->database->open(conn, err);
    for (size_t step = 0; status == HF_OK && step < PAGE_WITHOUT; step++)
        status = prepare(raw, conn, (enum step)step, 0, err);
    for (size_t k = 0; status == HF_OK && k < LISTS && raw->texts[PAGE_WITHOUT].sql; k++)
        status = prepare(raw, conn, (enum step)(PAGE_WITHOUT + k), (size_t)1 << k, err);
    return status;
}

static hf_status make_workers(struct raw *raw, hf_error *err)
{
    raw->workers = calloc(raw->n_workers, sizeof *raw->workers);
    if (!raw->workers)
        return hf__fail_memory(err);
    for (size_t i = 0; i < raw->n_workers; i++) {
        struct worker *worker = &raw->workers[i];
        worker->raw = raw;
        pthread_cond_init(&worker->called, NULL);
        if (raw->strategy == HF_ADVISORY_LOCK && !(worker->held = calloc(HELD_MAX, sizeof *worker->held)))
            return hf__fail_memory(err);
    }
    return HF_OK;
}

static hf_status open_connections(struct raw *raw, hf_error *err)
{
    size_t wanted = raw->input->connections < raw->n_workers ? raw->input->connections : raw->n_workers;
    hf_status status = HF_OK;
    wanted = wanted > 0 ? wanted : 1;
    raw->conns = calloc(wanted, sizeof *raw->conns);
    if (!raw->conns)
        return hf__fail_memory(err);
    while (status == HF_OK && raw->n_conns < wanted) {
        struct conn *conn = &raw->conns[raw->n_conns++];
        status = open_connection(raw, conn, err);
        conn->next = raw->free;
        raw->free = conn;
    }
    return status;
}

static const struct database *database_of(const struct hf__url *url)
{
    switch (url->database) {
    case HF__POSTGRES:
#if HOLDFAST_POSTGRES
        return &postgres;
#else
        break;
#endif
    case HF__MYSQL:
#if HOLDFAST_MYSQL
        return &mysql;
#else
        break;
#endif
    case HF__SQLITE:
#if HOLDFAST_SQLITE
        return &sqlite;
#else
        break;
#endif
    }
    return NULL;
}

static hf_status check(const struct raw *raw, hf_error *err)
{
    const struct bench_options *options = raw->input->options;
    unsigned seconds = options->lease_seconds > 0 ? options->lease_seconds : 30;
    if (!raw->database || !raw->texts)
        return hf__fail(err, HF_UNSUPPORTED, "%s: there is no %s on this database", raw->url->safe, hf_strategy_name(raw->strategy));
    if (raw->url->pooler)
        return hf__fail(err, HF_UNSUPPORTED,
                        "%s: the hand-written loop keeps prepared statements, which a transaction pooler does not: name the server itself",
                        raw->url->safe);
    if (raw->strategy == HF_LEASE && raw->input->workload->longest_ns >= seconds * INT64_C(1000000000))
        return hf__fail(err, HF_INVALID, "the hand-written loop renews no lease: give --lease-seconds more than the longest handler takes");
    return HF_OK;
}

static hf_status set_up(struct raw *raw, hf_error *err)
{
    hf_status status = hf__url_parse(raw->input->options->url, &raw->url, err);
    if (status != HF_OK)
        return status;
    raw->database = database_of(raw->url);
    raw->texts = raw->database ? raw->database->texts[raw->strategy] : NULL;
    status = check(raw, err);
    if (status == HF_OK)
        status = bench_tally_make(raw->input->workload->n, 1, &raw->tally, err);
    if (status == HF_OK)
        status = make_workers(raw, err);
    if (status == HF_OK)
        status = open_connections(raw, err);
    return status;
}

static void clean_up(struct raw *raw)
{
    for (size_t i = 0; i < raw->n_conns; i++)
        raw->database->close(&raw->conns[i]);
    for (size_t i = 0; raw->workers && i < raw->n_workers; i++) {
        free(raw->workers[i].held);
        if (raw->workers[i].raw)
            pthread_cond_destroy(&raw->workers[i].called);
    }
    free(raw->conns);
    free(raw->workers);
    bench_tally_free(raw->tally);
    hf__url_free(raw->url);
    pthread_cond_destroy(&raw->changed);
    pthread_mutex_destroy(&raw->lock);
    pthread_mutex_destroy(&raw->writing);
}

static void count(const struct raw *raw, struct bench_raw_output *out)
{
    out->done = atomic_load(&raw->tally->done);
    out->failed = atomic_load(&raw->tally->failed);
    out->lost = raw->tally->n_jobs - out->done;
    out->duplicates = bench_tally_duplicates(raw->tally);
    out->repeated = atomic_load(&raw->repeated);
    out->errors = raw->errors;
    out->jobs_per_second = out->seconds > 0 ? (double)out->done / out->seconds : 0;
}

hf_status bench_raw_run(const struct bench_raw_input *input, struct bench_raw_output *out, hf_error *err)
{
    struct raw raw = {.input = input, .strategy = input->options->strategy, .n_workers = input->options->workers};
    *out = (struct bench_raw_output){.lost = input->workload->n};
    if (hf__cond_init(&raw.changed) != 0 || pthread_mutex_init(&raw.lock, NULL) != 0 || pthread_mutex_init(&raw.writing, NULL) != 0)
        return hf__fail(err, HF_SYSTEM, "cannot make a mutex");
    STAILQ_INIT(&raw.waiting);
    hf_status status = set_up(&raw, err);
    if (status == HF_OK && input->workload->n > 0) {
        drain(&raw, out);
        count(&raw, out);
        status = raw.status;
        if (status != HF_OK && err)
            *err = raw.err;
    }
    clean_up(&raw);
    return status;
}
