#include "bench/observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/deadline.h"
#include "pool/error.h"

enum { LEAST_REST_MS = 25, MOST_REST_MS = 100, REST_SHARE = 30, CHECKOUT_MS = 10000, MOST_SEEN = 4096 };

struct bench_observer {
    hf_connection *connection;
    enum bench_database database;
    char version[BENCH_CELL];
    char *sql;     /* counts the sessions; NULL: there is no server */
    unsigned base; /* that are not the run's */
    pthread_t thread;
    bool started;
    struct bench_seen seen[MOST_SEEN]; /* the thread's, until it has ended */
    size_t n_seen, peak;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop; /* under lock */
};

/* ---- which sessions are the run's ---- */

static hf_status ask(struct bench_observer *observer, const char *sql, char cell[BENCH_CELL], hf_error *err)
{
    return bench_session_query(observer->connection, sql, cell, err);
}

/* By name, unless the URL gives all our sessions one of its own, or a pooler makes them its own. */
static char *postgres_sql(struct bench_observer *observer, const char *run_name)
{
    char cell[BENCH_CELL], *sql = NULL;
    bool named = ask(observer, "SHOW application_name", cell, NULL) == HF_OK && strcmp(cell, BENCH_OBSERVER_NAME) == 0;
    int len = named ? asprintf(&sql, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'", run_name)
                    : asprintf(&sql, "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid() "
                                     "AND datname = current_database() AND backend_type = 'client backend'");
    return len < 0 ? NULL : sql;
}

/* By name where the server keeps the names that clients give. Elsewhere every later session of the same user is taken for ours. */
static char *mysql_sql(struct bench_observer *observer, const char *run_name)
{
    char cell[BENCH_CELL], *sql = NULL;
    if (ask(observer,
            "SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs WHERE attr_name = 'program_name' "
            "AND processlist_id = CONNECTION_ID()",
            cell, NULL) == HF_OK &&
        strcmp(cell, "1") == 0)
        return asprintf(&sql,
                        "SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs WHERE attr_name = 'program_name' "
                        "AND attr_value = '%s'",
                        run_name) < 0
                   ? NULL
                   : sql;
    return strdup("SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1) "
                  "AND id > CONNECTION_ID()");
}

static hf_status prepare(struct bench_observer *observer, const char *run_name, hf_error *err)
{
    static const char *const version[] = {"SHOW server_version", "SELECT VERSION()", "SELECT VERSION()", "SELECT sqlite_version()"};
    observer->database = bench_session_database(observer->connection);
    hf_status status = ask(observer, version[observer->database], observer->version, err);
    if (status != HF_OK || observer->database == BENCH_SQLITE)
        return status;
    observer->sql = observer->database == BENCH_POSTGRES ? postgres_sql(observer, run_name) : mysql_sql(observer, run_name);
    return observer->sql ? HF_OK : hf__fail_memory(err);
}

hf_status bench_observer_open(hf_runtime *runtime, const char *run_name, struct bench_observer **out, hf_error *err)
{
    struct bench_observer *observer = calloc(1, sizeof *observer);
    if (!observer)
        return hf__fail_memory(err);
    pthread_mutex_init(&observer->lock, NULL);
    hf__cond_init(&observer->changed);
    hf_status status = hf_checkout(runtime, CHECKOUT_MS, &observer->connection, err);
    if (status == HF_OK)
        status = prepare(observer, run_name, err);
    if (status == HF_OK)
        *out = observer;
    else
        bench_observer_close(observer);
    return status;
}

enum bench_database bench_observer_database(const struct bench_observer *observer)
{
    return observer->database;
}

const char *bench_observer_version(const struct bench_observer *observer)
{
    return observer->version;
}

/* ---- looking ---- */

static void record(struct bench_observer *observer, unsigned sessions)
{
    if (observer->n_seen == MOST_SEEN) {
        for (size_t i = 0; i < MOST_SEEN / 2; i++)
            observer->seen[i] = observer->seen[2 * i];
        observer->n_seen = MOST_SEEN / 2;
    }
    unsigned ours = sessions > observer->base ? sessions - observer->base : 0;
    observer->seen[observer->n_seen++] = (struct bench_seen){hf__monotonic_ns(), ours};
    if (ours > observer->peak)
        observer->peak = ours;
}

static bool look(struct bench_observer *observer, unsigned *sessions, hf_error *err)
{
    char cell[BENCH_CELL];
    if (ask(observer, observer->sql, cell, err) != HF_OK)
        return false;
    *sessions = (unsigned)strtoul(cell, NULL, 10);
    return true;
}

static bool wait_for_next(struct bench_observer *observer, struct hf__deadline next)
{
    pthread_mutex_lock(&observer->lock);
    while (!observer->stop && hf__cond_wait(&observer->changed, &observer->lock, next))
        ;
    bool stop = observer->stop;
    pthread_mutex_unlock(&observer->lock);
    return !stop;
}

/* A look costs the server something that the run then lacks: about a thirtieth of the time goes into it. */
static struct hf__deadline next_look(int64_t begin_ns)
{
    int64_t rest_ms = (hf__monotonic_ns() - begin_ns) * REST_SHARE / 1000000;
    rest_ms = rest_ms < MOST_REST_MS ? rest_ms : MOST_REST_MS;
    return hf__after_ms(rest_ms > LEAST_REST_MS ? rest_ms : LEAST_REST_MS);
}

static void *watch(void *arg)
{
    struct bench_observer *observer = arg;
    unsigned sessions = 0;
    int64_t begin_ns;
    do {
        begin_ns = hf__monotonic_ns();
        if (!look(observer, &sessions, NULL))
            break; /* the server is gone: what was seen so far stands */
        record(observer, sessions);
    } while (wait_for_next(observer, next_look(begin_ns)));
    return NULL;
}

hf_status bench_observer_start(struct bench_observer *observer, hf_error *err)
{
    if (!observer->sql)
        return HF_OK;
    if (!look(observer, &observer->base, err))
        return HF_DATABASE;
    int failed = pthread_create(&observer->thread, NULL, watch, observer);
    if (failed)
        return hf__fail(err, HF_SYSTEM, "cannot start a thread: %s", strerror(failed));
    observer->started = true;
    return HF_OK;
}

static void end_thread(struct bench_observer *observer)
{
    if (!observer->started)
        return;
    pthread_mutex_lock(&observer->lock);
    observer->stop = true;
    pthread_cond_signal(&observer->changed);
    pthread_mutex_unlock(&observer->lock);
    pthread_join(observer->thread, NULL);
    observer->started = false;
}

size_t bench_observer_stop(struct bench_observer *observer, bool *sampled, const struct bench_seen **seen, size_t *n)
{
    end_thread(observer);
    *sampled = observer->n_seen > 0;
    *seen = observer->seen;
    *n = observer->n_seen;
    return observer->peak;
}

void bench_observer_close(struct bench_observer *observer)
{
    if (!observer)
        return;
    end_thread(observer);
    hf_connection_return(observer->connection);
    pthread_cond_destroy(&observer->changed);
    pthread_mutex_destroy(&observer->lock);
    free(observer->sql);
    free(observer);
}
