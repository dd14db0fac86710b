/* ctest: timeout=240 labels=e2e
 * The level of the transaction that a handler runs under, as the server sees it: under a row lock and in transactional mode it is the one
 * that the description names, or READ COMMITTED; where there is no transaction, or no such level, it is refused. */
#include <stdatomic.h>
#include <string.h>

#include "tests/gate.h"
#include "tests/jobs.h"
#include "tests/native.h"

static const struct level {
    const char *name, *server; /* in the description (NULL: not named), and as the server says it */
} levels[] = {{NULL, "READ COMMITTED"},
              {"read_committed", "READ COMMITTED"},
              {"repeatable_read", "REPEATABLE READ"},
              {"serializable", "SERIALIZABLE"}};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static struct hf_test_jobs jobs;
static struct hf_test_gate gate = HF_TEST_GATE_INIT;
static atomic_int failed_reads;
static const char *application;

/* In transactional mode it is the handler's first statement that gives the transaction its snapshot. */
static hf_outcome reads_and_waits(hf_delivery *delivery, void *ctx)
{
    const bool *transactional = ctx;
    size_t run = hf_test_run_begin(&jobs, delivery);
    const char *read = hf_test_format("SELECT count(*) FROM %s", jobs.name);
    void *native = *transactional ? hf_test_delivery_native(delivery, jobs.kind.database) : NULL;
    if (*transactional && (!native || hf_test_native_int(jobs.kind.database, native, read) != 1))
        atomic_fetch_add(&failed_reads, 1);
    hf_test_gate_pass(&gate);
    hf_test_run_end(&jobs, run);
    return HF_ACK;
}

static void wrong_level(const char *is, struct level level, bool transactional)
{
    hf_test_fail("%s%s: the level is %s, not %s", hf_test_jobs_place(&jobs), transactional ? ", transactional" : "",
                 is ? is : "not to be seen", level.server);
}

/* PostgreSQL tells it from within alone: a trigger of the ack's statement writes it down. */
static void set_trigger(void)
{
    if (jobs.kind.database == HF__POSTGRES)
        hf_test_sql(jobs.url,
                    hf_test_format("CREATE TABLE %s_level (name text); CREATE FUNCTION %s_note() RETURNS trigger LANGUAGE plpgsql AS "
                                   "$$ BEGIN INSERT INTO %s_level VALUES (upper(current_setting('transaction_isolation'))); "
                                   "RETURN NULL; END $$; CREATE TRIGGER note AFTER DELETE ON %s FOR EACH ROW EXECUTE PROCEDURE "
                                   "%s_note()",
                                   jobs.name, jobs.name, jobs.name, jobs.name, jobs.name));
}

static void check_trigger(struct level level, bool transactional)
{
    if (jobs.kind.database != HF__POSTGRES)
        return;
    const char *is = hf_test_query_text(jobs.url, hf_test_format("SELECT string_agg(name, ', ') FROM %s_level", jobs.name));
    if (!is || strcmp(is, level.server) != 0)
        wrong_level(is, level, transactional);
    hf_test_sql(jobs.url,
                hf_test_format("DROP TRIGGER note ON %s; DROP FUNCTION %s_note(); DROP TABLE %s_level", jobs.name, jobs.name, jobs.name));
}

static const char *seen;

/* MySQL and MariaDB tell it from outside: InnoDB looks anew only when nobody has asked for a tenth of a second. */
static bool has_level(void *arg)
{
    const struct level *level = arg;
    hf_test_sleep_ms(150);
    seen = hf_test_query_text(jobs.url, hf_test_format("SELECT max(trx_isolation_level) FROM information_schema.innodb_trx WHERE "
                                                       "trx_mysql_thread_id IN (SELECT processlist_id FROM "
                                                       "performance_schema.session_connect_attrs WHERE attr_name = 'program_name' AND "
                                                       "attr_value = '%s')",
                                                       application));
    return seen && strcmp(seen, level->server) == 0;
}

static void look(struct level level, bool transactional)
{
    if (jobs.kind.database == HF__MYSQL && !hf_test_wait_until(has_level, &level, 30000))
        wrong_level(seen, level, transactional);
}

/* What the message of a refusal says, or NULL where there is such a transaction. */
static const char *refusal(struct level level, bool transactional)
{
    if (!level.name)
        return NULL;
    if (!transactional && jobs.kind.strategy != HF_ROW_LOCK)
        return "set transactional";
    return jobs.kind.database == HF__SQLITE && strcmp(level.name, "serializable") != 0 ? "always serializable" : NULL;
}

static void subscribe(hf_runtime *runtime, struct level level, bool *transactional)
{
    hf_error err = {.status = HF_OK};
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    const char *says = refusal(level, *transactional);
    options.workers = 1;
    options.poll_ms = 600000;
    options.transactional = *transactional;
    hf_status status = hf_subscribe(runtime, jobs.table, &options, reads_and_waits, transactional, NULL, &err);
    if (status != (says ? HF_INVALID : HF_OK) || (says && !(strstr(err.message, says) && strstr(err.message, jobs.name))))
        hf_test_fail("%s%s, %s: %s", hf_test_jobs_place(&jobs), *transactional ? ", transactional" : "", level.name ? level.name : "-",
                     err.message);
}

static void check(struct hf_test_kind kind, struct level level, bool transactional)
{
    hf_error err = {.status = HF_OK};
    hf_runtime_options options = HF_RUNTIME_OPTIONS_INIT;
    const char *settings = level.name ? hf_test_format(", \"isolation\": \"%s\"", level.name) : NULL;
    hf_test_jobs_open_shape(&jobs, kind, 30, (struct hf_test_shape){.settings = settings});
    options.application_name = application = hf_test_scratch("level");
    hf_runtime *runtime = hf_test_jobs_runtime(&jobs, &options);
    subscribe(runtime, level, &transactional);
    if (!refusal(level, transactional)) {
        atomic_store(&failed_reads, 0);
        hf_test_gate_shut(&gate);
        set_trigger();
        hf_test_jobs_add(&jobs, runtime, 1);
        HF_TEST_OK(hf_runtime_start(runtime, &err), &err);
        hf_test_gate_await(&gate, 1);
        look(level, transactional);
        hf_test_gate_open(&gate);
        hf_test_jobs_finish(&jobs, runtime);
        check_trigger(level, transactional);
        CU_ASSERT_EQUAL(atomic_load(&failed_reads), 0);
    } else {
        HF_TEST_OK(hf_runtime_close(runtime), NULL);
    }
    hf_test_jobs_close(&jobs);
}

static void test_transactional(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        for (size_t l = 0; l < LEVELS; l++)
            check(hf_test_kinds[i], levels[l], true);
}

/* Without it only a row lock has a transaction. */
static void test_others(void)
{
    for (size_t i = 0; i < hf_test_n_kinds; i++)
        for (size_t l = hf_test_kinds[i].strategy == HF_ROW_LOCK ? 0 : 1; l < LEVELS; l++)
            check(hf_test_kinds[i], levels[l], false);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"transactional", test_transactional}, {"not transactional", test_others}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "isolation", tests);
}
