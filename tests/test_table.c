#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strategies/table.h"
#include "tests/support.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* The two samples of the documentation, as far as this version goes. */
static const char lease_sample[] =
    "{ \"table\": \"report_jobs\", \"schema\": \"app\","
    "  \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"headers\": \"headers\", \"attempt\": \"attempt\", \"last_error\": "
    "\"last_error\","
    "    \"group\": \"queue\", \"priority\": \"urgency\", \"retry_after\": \"retry_after\", \"processed_at\": \"processed_at\","
    "    \"locked_until\": \"locked_until\" },"
    "  \"fifo\": false, \"lease_seconds\": 45, \"clock\": \"host\" }";
static const char advisory_sample[] =
    "{ \"table\": \"payouts\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\" },"
    "  \"advisory_lock\": \"accounts-{account}\" }";

static struct hf_table *parse(const char *json)
{
    struct hf_table *table = NULL;
    hf_error err;
    HF_TEST_OK(hf__table_parse(json, strlen(json), &table, &err), &err);
    return table;
}

static struct hf_table *copy_of(const struct hf_table *table)
{
    struct hf_table *copy = hf__table_copy(table);
    if (copy == NULL) {
        hf_test_fail("no copy");
        abort(); /* never reached, but an analyzer cannot know */
    }
    return copy;
}

static void check_text(const char *found, const char *wanted)
{
    if (found == NULL || strcmp(found, wanted) != 0) {
        hf_test_fail("\"%s\", not \"%s\"", found == NULL ? "(null)" : found, wanted);
    }
}

static void check_lease_sample(const struct hf_table *table)
{
    static const char *const columns[HF__ROLES] = {
        [HF__ROLE_ID] = "id",
        [HF__ROLE_PAYLOAD] = "payload",
        [HF__ROLE_HEADERS] = "headers",
        [HF__ROLE_ATTEMPT] = "attempt",
        [HF__ROLE_LAST_ERROR] = "last_error",
        [HF__ROLE_GROUP] = "queue",
        [HF__ROLE_PRIORITY] = "urgency",
        [HF__ROLE_RETRY_AFTER] = "retry_after",
        [HF__ROLE_PROCESSED_AT] = "processed_at",
        [HF__ROLE_LOCKED_UNTIL] = "locked_until",
    };
    check_text(table->name, "report_jobs");
    check_text(table->schema, "app");
    check_text(table->display, "app.report_jobs");
    for (size_t i = 0; i < HF__ROLES; i++) {
        CU_ASSERT_EQUAL_FATAL(hf__table_has(table, (enum hf__role)i), columns[i] != NULL);
        if (columns[i] != NULL) {
            check_text(table->column[i], columns[i]);
        }
    }
    CU_ASSERT_EQUAL(hf__table_kind(table), HF__LEASE);
    CU_ASSERT_EQUAL(table->lease_us, 45000000);
    CU_ASSERT_EQUAL(table->n_key, 0);
}

static void check_advisory_sample(const struct hf_table *table)
{
    check_text(table->display, "payouts");
    CU_ASSERT_PTR_NULL(table->schema);
    CU_ASSERT_EQUAL(hf__table_kind(table), HF__ADVISORY_LOCK);
    CU_ASSERT_EQUAL_FATAL(table->n_key, 2);
    CU_ASSERT_FALSE(table->key[0].is_column);
    check_text(table->key[0].text, "accounts-");
    CU_ASSERT_TRUE(table->key[1].is_column);
    check_text(table->key[1].text, "account");
}

static void samples(void)
{
    struct hf_table *lease = parse(lease_sample);
    struct hf_table *advisory = parse(advisory_sample);
    check_lease_sample(lease);
    check_advisory_sample(advisory);
    hf__table_free(lease);
    hf__table_free(advisory);
}

static void copies(void)
{
    struct hf_table *lease = parse(lease_sample);
    struct hf_table *advisory = parse(advisory_sample);
    struct hf_table *row_lock =
        parse("{\"table\": \"t\", \"columns\": {\"id\": \"i\"}, \"isolation\": \"serializable\", \"lock\": \"no_key_update\"}");
    struct hf_table *lease_copy = copy_of(lease);
    struct hf_table *advisory_copy = copy_of(advisory);
    struct hf_table *row_lock_copy = copy_of(row_lock);
    CU_ASSERT_TRUE(hf__table_same(lease, lease_copy));
    hf__table_free(lease);
    hf__table_free(advisory);
    hf__table_free(row_lock);
    check_lease_sample(lease_copy);
    check_advisory_sample(advisory_copy);
    CU_ASSERT_EQUAL(row_lock_copy->isolation, HF__SERIALIZABLE);
    CU_ASSERT_EQUAL(row_lock_copy->mode, HF__IMMEDIATE);
    CU_ASSERT_TRUE(row_lock_copy->no_key_update);
    hf__table_free(lease_copy);
    hf__table_free(advisory_copy);
    hf__table_free(row_lock_copy);
    hf__table_free(NULL);
}

static void same_tables(void)
{
    static const char *const json[] = {
        "{\"table\": \"t\", \"columns\": {\"id\": \"i\"}}",
        "{\"table\": \"t\", \"columns\": {\"id\": \"other\", \"locked_until\": \"l\"}}",
        "{\"table\": \"T\", \"columns\": {\"id\": \"i\"}}",
        "{\"table\": \"t\", \"schema\": \"s\", \"columns\": {\"id\": \"i\"}}",
    };
    struct hf_table *table[LENGTH(json)];
    for (size_t i = 0; i < LENGTH(json); i++) {
        table[i] = parse(json[i]);
    }
    CU_ASSERT_TRUE(hf__table_same(table[0], table[1]));
    CU_ASSERT_FALSE(hf__table_same(table[0], table[2]));
    CU_ASSERT_FALSE(hf__table_same(table[0], table[3]));
    CU_ASSERT_FALSE(hf__table_same(table[3], table[0]));
    for (size_t i = 0; i < LENGTH(json); i++) {
        hf__table_free(table[i]);
    }
}

static void defaults(void)
{
    struct hf_table *table = parse("{\"table\": \"t\", \"columns\": {\"id\": \"i\"}}");
    CU_ASSERT_EQUAL(hf__table_kind(table), HF__ROW_LOCK);
    CU_ASSERT_EQUAL(table->isolation, HF__ISOLATION_DEFAULT);
    CU_ASSERT_EQUAL(table->mode, HF__IMMEDIATE);
    CU_ASSERT_FALSE(table->mode_named);
    CU_ASSERT_FALSE(table->no_key_update);
    hf__table_free(table);
    table = parse("{\"table\": \"t\", \"columns\": {\"id\": \"i\", \"locked_until\": \"l\"}}");
    CU_ASSERT_EQUAL(table->lease_us, 30000000);
    hf__table_free(table);
}

/* A row-lock description with one more setting. */
static struct hf_table *parse_with(const char *setting)
{
    return parse(hf_test_format("{\"table\": \"t\", \"columns\": {\"id\": \"i\"}, %s}", setting));
}

static void words(void)
{
    static const struct {
        const char *setting;
        enum hf__isolation isolation;
        enum hf__sqlite_mode mode;
        bool mode_named, no_key_update;
    } cases[] = {
        {"\"isolation\": \"read_committed\"", HF__READ_COMMITTED, HF__IMMEDIATE, false, false},
        {"\"isolation\": \"repeatable_read\"", HF__REPEATABLE_READ, HF__IMMEDIATE, false, false},
        {"\"isolation\": \"serializable\"", HF__SERIALIZABLE, HF__IMMEDIATE, false, false},
        {"\"mode\": \"deferred\"", HF__ISOLATION_DEFAULT, HF__DEFERRED, true, false},
        {"\"mode\": \"immediate\"", HF__ISOLATION_DEFAULT, HF__IMMEDIATE, true, false},
        {"\"mode\": \"exclusive\"", HF__ISOLATION_DEFAULT, HF__EXCLUSIVE, true, false},
        {"\"lock\": \"update\"", HF__ISOLATION_DEFAULT, HF__IMMEDIATE, false, false},
        {"\"lock\": \"no_key_update\"", HF__ISOLATION_DEFAULT, HF__IMMEDIATE, false, true},
        {"\"clock\": \"host\"", HF__ISOLATION_DEFAULT, HF__IMMEDIATE, false, false},
        {"\"fifo\": false", HF__ISOLATION_DEFAULT, HF__IMMEDIATE, false, false},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf_table *table = parse_with(cases[i].setting);
        if (table->isolation != cases[i].isolation || table->mode != cases[i].mode || table->mode_named != cases[i].mode_named ||
            table->no_key_update != cases[i].no_key_update) {
            hf_test_fail("read wrongly: %s", cases[i].setting);
        }
        hf__table_free(table);
    }
}

static void lease_lengths(void)
{
    static const struct {
        const char *seconds;
        int64_t us;
    } cases[] = {{"1", 1000000},   {"30", 30000000}, {"0.001", 1000000},   {"1e-300", 1000000},
                 {"1.0", 1000000}, {"1.5", 2000000}, {"59.999", 60000000}, {"31536000", INT64_C(31536000000000)}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf_table *table = parse(hf_test_format(
            "{\"table\": \"t\", \"columns\": {\"id\": \"i\", \"locked_until\": \"l\"}, \"lease_seconds\": %s}", cases[i].seconds));
        if (table->lease_us != cases[i].us) {
            hf_test_fail("%s seconds read as %lld us", cases[i].seconds, (long long)table->lease_us);
        }
        hf__table_free(table);
    }
}

/* The parts of a key as text: literals in quotes, columns in angle brackets. */
static const char *shown_key(const struct hf_table *table)
{
    const char *shown = "";
    for (size_t i = 0; i < table->n_key; i++) {
        shown = hf_test_format(table->key[i].is_column ? "%s<%s>" : "%s'%s'", shown, table->key[i].text);
    }
    return shown;
}

static void templates(void)
{
    static const struct {
        const char *template, *parts;
    } cases[] = {
        {"{a}", "<a>"},
        {"constant", "'constant'"},
        {"{a}{b}", "<a><b>"},
        {"x-{a}-{b}-y", "'x-'<a>'-'<b>'-y'"},
        {"{{{a}}}", "'{'<a>'}'"},
        {"{{}}", "'{}'"},
        {"{{{{", "'{{'"},
        {"a}}b{{c", "'a}b{c'"},
        {"{Mixed Case 'q' \xC3\xA9}", "<Mixed Case 'q' \xC3\xA9>"},
        {"{a}}}{b}", "<a>'}'<b>"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf_table *table = parse_with(hf_test_format("\"advisory_lock\": \"%s\"", cases[i].template));
        check_text(shown_key(table), cases[i].parts);
        CU_ASSERT_EQUAL(hf__table_kind(table), HF__ADVISORY_LOCK);
        hf__table_free(table);
    }
}

static void names_are_free(void)
{
    struct hf_table *table =
        parse("{\"table\": \"select \\\"x\\\" '`;--\", \"schema\": \"S p\", \"columns\": {\"id\": \"Order\", \"payload\": \"order\"}}");
    check_text(table->name, "select \"x\" '`;--");
    check_text(table->display, "S p.select \"x\" '`;--");
    check_text(table->column[HF__ROLE_ID], "Order");
    hf__table_free(table);
}

/* ---- refusals ---- */

struct refusal {
    const char *json;
    hf_status status;
    const char *says[4]; /* all of these stand in the message */
};

static void check_refusal(const struct refusal *refusal, size_t len)
{
    struct hf_table *table = NULL;
    hf_error err = {.message = ""};
    hf_status status = hf__table_parse(refusal->json, len, &table, &err);
    if (status != refusal->status || err.status != status || table != NULL) {
        hf__table_free(table);
        hf_test_fail("%s, not %s: %s: \"%s\"", hf_status_name(status), hf_status_name(refusal->status), refusal->json, err.message);
    }
    for (size_t i = 0; i < LENGTH(refusal->says) && refusal->says[i] != NULL; i++) {
        if (strstr(err.message, refusal->says[i]) == NULL) {
            hf_test_fail("\"%s\" is not in \"%s\", for %s", refusal->says[i], err.message, refusal->json);
        }
    }
    CU_ASSERT_EQUAL(hf__table_parse(refusal->json, len, &table, NULL), refusal->status);
}

static void check_refusals(const struct refusal *refusals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check_refusal(&refusals[i], strlen(refusals[i].json));
    }
}

#define JOBS "{\"schema\": \"app\", \"table\": \"jobs\", \"columns\": {\"id\": \"id\""
#define NAMED "table app.jobs: "

static void refuses_what_is_not_json(void)
{
    static const struct refusal refusals[] = {
        {"", HF_INVALID, {"not JSON", "line 1"}},
        {"   ", HF_INVALID, {"not JSON"}},
        {"42", HF_INVALID, {"not JSON"}},
        {"null", HF_INVALID, {"not JSON"}},
        {"[]", HF_INVALID, {"must be a JSON object, not an array"}},
        {"{\"table\": \"jobs\",\n  \"columns\": }", HF_INVALID, {"not JSON", "line 2", "column 14"}},
        {JOBS "}", HF_INVALID, {"not JSON", "line 1"}},
        {JOBS "}} x", HF_INVALID, {"not JSON", "end of file expected"}},
        {JOBS "}}{}", HF_INVALID, {"not JSON", "end of file expected"}},
        {JOBS "},}", HF_INVALID, {"not JSON"}},
        {"{'table': 'jobs'}", HF_INVALID, {"not JSON"}},
        {JOBS "}, \"table\": \"other\"}", HF_INVALID, {"duplicate", "table"}},
        {JOBS ", \"id\": \"id2\"}}", HF_INVALID, {"duplicate", "id"}},
        {"{\"table\": \"j\xFFs\"}", HF_INVALID, {"not JSON", "0xff"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": 99999999999999999999}", HF_INVALID, {"not JSON"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": 1e999}", HF_INVALID, {"not JSON"}},
        {JOBS "}, \"a\\u0000b\": 1}", HF_INVALID, {"not JSON"}},
    };
    check_refusals(refusals, LENGTH(refusals));
    struct refusal nul_behind = {JOBS "}}\0", HF_INVALID, {"not JSON"}};
    check_refusal(&nul_behind, strlen(nul_behind.json) + 1);
}

static void refuses_missing_keys(void)
{
    static const struct refusal refusals[] = {
        {"{}", HF_INVALID, {"the table description: ", "\"table\" is missing", "\"table\": \"jobs\""}},
        {"{\"columns\": {\"id\": \"id\"}}", HF_INVALID, {"\"table\" is missing"}},
        {"{\"table\": \"jobs\"}", HF_INVALID, {"table jobs: ", "\"columns.id\" is missing"}},
        {"{\"table\": \"jobs\", \"schema\": \"app\", \"columns\": {}}", HF_INVALID, {NAMED, "\"columns.id\" is missing"}},
        {"{\"table\": \"jobs\", \"schema\": \"app\", \"columns\": {\"payload\": \"p\"}}", HF_INVALID, {NAMED, "\"columns.id\" is missing"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static void refuses_wrong_types(void)
{
    static const struct refusal refusals[] = {
        {"{\"table\": 3}", HF_INVALID, {"the table description: ", "\"table\" must be a string, not a number"}},
        {"{\"table\": null}", HF_INVALID, {"\"table\" must be a string, not null"}},
        {"{\"table\": \"jobs\", \"schema\": null}",
         HF_INVALID,
         {"table jobs: ", "\"schema\" must be a string, not null", "leave the key out"}},
        {"{\"table\": \"jobs\", \"schema\": []}", HF_INVALID, {"table jobs: ", "\"schema\" must be a string, not an array"}},
        {"{\"table\": \"jobs\", \"columns\": \"id\"}", HF_INVALID, {"table jobs: ", "\"columns\" must be an object, not a string"}},
        {JOBS ", \"payload\": true}}", HF_INVALID, {NAMED, "\"columns.payload\" must be a string, not a boolean"}},
        {JOBS ", \"group\": {}}}", HF_INVALID, {NAMED, "\"columns.group\" must be a string, not an object"}},
        {JOBS "}, \"advisory_lock\": 1.5}", HF_INVALID, {NAMED, "\"advisory_lock\" must be a string, not a number"}},
        {JOBS "}, \"lease_seconds\": \"30\"}", HF_INVALID, {NAMED, "\"lease_seconds\" must be a number, not a string"}},
        {JOBS "}, \"fifo\": 1}", HF_INVALID, {NAMED, "\"fifo\" must be true or false, not a number"}},
        {JOBS "}, \"fifo\": \"true\"}", HF_INVALID, {NAMED, "\"fifo\" must be true or false, not a string"}},
        {JOBS "}, \"max_attempts\": 2.5}", HF_INVALID, {NAMED, "\"max_attempts\" must be a whole number"}},
        {JOBS "}, \"max_attempts\": \"5\"}", HF_INVALID, {NAMED, "\"max_attempts\" must be a whole number, not a string"}},
        {JOBS "}, \"dead_letter\": \"dead\"}", HF_INVALID, {NAMED, "\"dead_letter\" must be an object, not a string"}},
        {JOBS "}, \"dead_letter\": {\"group\": 1}}", HF_INVALID, {NAMED, "\"dead_letter.group\" must be a string, not a number"}},
        {JOBS "}, \"clock\": true}", HF_INVALID, {NAMED, "\"clock\" must be a string, not a boolean"}},
        {JOBS "}, \"isolation\": 2}", HF_INVALID, {NAMED, "\"isolation\" must be a string, not a number"}},
        {JOBS "}, \"mode\": []}", HF_INVALID, {NAMED, "\"mode\" must be a string, not an array"}},
        {JOBS "}, \"lock\": false}", HF_INVALID, {NAMED, "\"lock\" must be a string, not a boolean"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static void refuses_wrong_values(void)
{
    static const struct refusal refusals[] = {
        {"{\"table\": \"\"}", HF_INVALID, {"the table description: ", "\"table\" is empty"}},
        {"{\"table\": \"jobs\", \"schema\": \"\"}", HF_INVALID, {"table jobs: ", "\"schema\" is empty"}},
        {JOBS ", \"payload\": \"\"}}", HF_INVALID, {NAMED, "\"columns.payload\" is empty"}},
        {JOBS "}, \"advisory_lock\": \"\"}", HF_INVALID, {NAMED, "\"advisory_lock\" is empty"}},
        {JOBS "}, \"clock\": \"\"}", HF_INVALID, {NAMED, "\"clock\" is empty"}},
        {"{\"table\": \"j\\u0000s\"}", HF_INVALID, {"\"table\" contains a NUL"}},
        {JOBS ", \"payload\": \"p\\u0000\"}}", HF_INVALID, {NAMED, "\"columns.payload\" contains a NUL"}},
        {JOBS "}, \"advisory_lock\": \"\\u0000{a}\"}", HF_INVALID, {NAMED, "\"advisory_lock\" contains a NUL"}},
        {JOBS ", \"payload\": \"id\"}}", HF_INVALID, {NAMED, "\"columns.id\" and \"columns.payload\" both name \"id\""}},
        {JOBS ", \"retry_after\": \"t\", \"locked_until\": \"t\"}}",
         HF_INVALID,
         {NAMED, "\"columns.retry_after\" and \"columns.locked_until\" both name \"t\"", "column of its own"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": 0}", HF_INVALID, {NAMED, "\"lease_seconds\" must be more than 0", "not 0"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": -1.5}",
         HF_INVALID,
         {NAMED, "\"lease_seconds\" must be more than 0", "not -1.5"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": 31536001}", HF_INVALID, {NAMED, "at most 31536000 (a year)", "not 31536001"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lease_seconds\": 1e300}", HF_INVALID, {NAMED, "\"lease_seconds\" must be"}},
        {JOBS "}, \"max_attempts\": 0}", HF_INVALID, {NAMED, "\"max_attempts\" must be at least 1, not 0"}},
        {JOBS "}, \"clock\": \"server\"}", HF_INVALID, {NAMED, "\"clock\" cannot be \"server\"", "\"host\" or \"database\""}},
        {JOBS "}, \"isolation\": \"snapshot\"}",
         HF_INVALID,
         {NAMED, "\"isolation\" cannot be \"snapshot\"", "\"read_committed\" or \"repeatable_read\" or \"serializable\""}},
        {JOBS "}, \"isolation\": \"SERIALIZABLE\"}", HF_INVALID, {NAMED, "\"isolation\" cannot be \"SERIALIZABLE\""}},
        {JOBS "}, \"mode\": \"fast\"}",
         HF_INVALID,
         {NAMED, "\"mode\" cannot be \"fast\"", "\"deferred\" or \"immediate\" or \"exclusive\""}},
        {JOBS "}, \"lock\": \"share\"}", HF_INVALID, {NAMED, "\"lock\" cannot be \"share\"", "\"update\" or \"no_key_update\""}},
        {JOBS "}, \"dead_letter\": {}}", HF_INVALID, {NAMED, "\"dead_letter\" must name either a \"group\" or a \"table\""}},
        {JOBS "}, \"dead_letter\": {\"group\": \"g\", \"table\": \"t\"}}", HF_INVALID, {NAMED, "\"dead_letter\" must name either"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static void refuses_templates(void)
{
    static const struct refusal refusals[] = {
        {JOBS "}, \"advisory_lock\": \"a{\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"{\" has no \"}\"", "{{"}},
        {JOBS "}, \"advisory_lock\": \"a{b\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"{\" has no \"}\""}},
        {JOBS "}, \"advisory_lock\": \"{a{b}\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"{\" has no \"}\""}},
        {JOBS "}, \"advisory_lock\": \"{{{\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"{\" has no \"}\""}},
        {JOBS "}, \"advisory_lock\": \"{a}{b\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"{\" has no \"}\""}},
        {JOBS "}, \"advisory_lock\": \"a}\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"}\" has no \"{\"", "}}"}},
        {JOBS "}, \"advisory_lock\": \"{a}}\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"}\" has no \"{\""}},
        {JOBS "}, \"advisory_lock\": \"{{a}\"}", HF_INVALID, {NAMED, "\"advisory_lock\": a \"}\" has no \"{\""}},
        {JOBS "}, \"advisory_lock\": \"a-{}\"}", HF_INVALID, {NAMED, "\"advisory_lock\": \"{}\" names no column"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static void refuses_unknown_keys(void)
{
    static const struct refusal refusals[] = {
        {"{\"tabel\": \"jobs\"}", HF_INVALID, {"the table description: ", "\"tabel\" is not a key", "did you mean \"table\"?"}},
        {JOBS "}, \"lease_second\": 3}", HF_INVALID, {NAMED, "\"lease_second\" is not a key", "did you mean \"lease_seconds\"?"}},
        {JOBS "}, \"Fifo\": true}", HF_INVALID, {NAMED, "\"Fifo\"", "did you mean \"fifo\"?"}},
        {JOBS "}, \"LEASE SECONDS\": 3}", HF_INVALID, {NAMED, "\"LEASE SECONDS\"", "did you mean \"lease_seconds\"?"}},
        {JOBS "}, \"max-attempts\": 5}", HF_INVALID, {NAMED, "\"max-attempts\"", "did you mean \"max_attempts\"?"}},
        {JOBS ", \"lockedUntil\": \"l\"}}", HF_INVALID, {NAMED, "\"columns.lockedUntil\" is not a role", "did you mean \"locked_until\"?"}},
        {JOBS ", \"colour\": \"c\"}}", HF_INVALID, {NAMED, "\"columns.colour\" is not a role", "\"partition_key\", \"retry_after\""}},
        {JOBS "}, \"comment\": \"mine\"}", HF_INVALID, {NAMED, "\"comment\" is not a key", "there are \"table\", \"schema\"", "\"lock\""}},
        {JOBS "}, \"\": 1}", HF_INVALID, {NAMED, "\"\" is not a key", "there are"}},
        {JOBS "}, \"locked_until\": \"l\"}", HF_INVALID, {NAMED, "\"locked_until\"", "write it inside \"columns\""}},
        {JOBS ", \"advisory_lock\": \"{a}\"}}", HF_INVALID, {NAMED, "\"columns.advisory_lock\"", "write it beside \"columns\""}},
        {JOBS "}, \"dead_letter\": {\"queue\": \"d\"}}", HF_INVALID, {NAMED, "\"dead_letter.queue\"", "there are \"group\", \"table\""}},
        {JOBS "}, \"dead_letter\": {\"groups\": \"d\"}}", HF_INVALID, {NAMED, "\"dead_letter.groups\"", "did you mean \"group\"?"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static void refuses_contradictions(void)
{
    static const struct refusal refusals[] = {
        {JOBS ", \"locked_until\": \"l\"}, \"advisory_lock\": \"{a}\"}",
         HF_INVALID,
         {NAMED, "\"columns.locked_until\" (a lease) and \"advisory_lock\"", "leave one of them out"}},
        {JOBS ", \"locked_until\": \"l\"}, \"clock\": \"database\"}",
         HF_INVALID,
         {NAMED, "\"clock\": \"database\" does not go with \"columns.locked_until\"", "computed on the host"}},
        {JOBS "}, \"fifo\": true}", HF_INVALID, {NAMED, "\"fifo\" needs \"columns.group\""}},
        {JOBS ", \"group\": \"g\"}, \"fifo\": true, \"advisory_lock\": \"{a}\"}",
         HF_INVALID,
         {NAMED, "\"fifo\" does not go with \"advisory_lock\"", "keys give no order", "group's column into the key"}},
        {JOBS ", \"group\": \"g\"}, \"fifo\": true, \"isolation\": \"repeatable_read\"}",
         HF_INVALID,
         {NAMED, "\"fifo\" does not go with \"isolation\""}},
        {JOBS ", \"group\": \"g\"}, \"fifo\": true, \"isolation\": \"serializable\"}",
         HF_INVALID,
         {NAMED, "\"fifo\" does not go with \"isolation\""}},
        {JOBS ", \"attempt\": \"a\"}, \"max_attempts\": 5}", HF_INVALID, {NAMED, "\"max_attempts\" needs \"dead_letter\""}},
        {JOBS "}, \"max_attempts\": 5, \"dead_letter\": {\"table\": \"dead\"}}",
         HF_INVALID,
         {NAMED, "\"max_attempts\" needs \"columns.attempt\""}},
        {JOBS "}, \"dead_letter\": {\"group\": \"dead\"}}", HF_INVALID, {NAMED, "\"dead_letter\" names a group", "\"columns.group\""}},
        {JOBS "}, \"lease_seconds\": 30}", HF_INVALID, {NAMED, "\"lease_seconds\" needs \"columns.locked_until\""}},
        {JOBS "}, \"lease_seconds\": 30, \"advisory_lock\": \"{a}\"}", HF_INVALID, {NAMED, "\"lease_seconds\" needs"}},
        {JOBS ", \"locked_until\": \"l\"}, \"lock\": \"update\"}", HF_INVALID, {NAMED, "\"lock\" is how", "leave \"lock\" out"}},
        {JOBS "}, \"advisory_lock\": \"{a}\", \"lock\": \"no_key_update\"}", HF_INVALID, {NAMED, "\"lock\" is how"}},
    };
    check_refusals(refusals, LENGTH(refusals));
}

static struct hf_table *parse_whole(const char *json)
{
    struct hf_table *parsed = parse(json), *copy = copy_of(parsed);
    hf__table_free(parsed);
    return copy;
}

/* The two samples of the documentation as they stand there. */
static void whole_samples(void)
{
    struct hf_table *jobs = parse_whole(
        "{ \"table\": \"report_jobs\", \"schema\": \"app\","
        "  \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"headers\": \"headers\", \"attempt\": \"attempt\", \"last_error\": "
        "\"last_error\","
        "               \"group\": \"queue\", \"priority\": \"urgency\", \"partition_key\": \"customer\", \"retry_after\": "
        "\"retry_after\","
        "               \"processed_at\": \"processed_at\", \"locked_until\": \"locked_until\" },"
        "  \"fifo\": false, \"lease_seconds\": 30, \"max_attempts\": 5, \"dead_letter\": { \"group\": \"escalated\" } }");
    check_text(jobs->column[HF__ROLE_PARTITION_KEY], "customer");
    CU_ASSERT_EQUAL(jobs->max_attempts, 5);
    check_text(jobs->dead_group, "escalated");
    CU_ASSERT_PTR_NULL(jobs->dead_table);
    CU_ASSERT_TRUE(hf__table_has_dead_letter(jobs));
    hf__table_free(jobs);
    struct hf_table *payouts =
        parse_whole("{ \"table\": \"payouts\", \"columns\": { \"id\": \"id\", \"payload\": \"payload\", \"attempt\": \"attempt\" },"
                    "  \"advisory_lock\": \"accounts-{account}\", \"clock\": \"database\" }");
    CU_ASSERT_TRUE(payouts->database_clock);
    CU_ASSERT_FALSE(hf__table_has_dead_letter(payouts));
    hf__table_free(payouts);
}

/* The dead letters' table is in the table's own schema unless it names one. */
static void dead_letters(void)
{
    static const struct {
        const char *json, *schema, *table, *display;
    } cases[] = {
        {"{\"table\": \"jobs\", \"columns\": {\"id\": \"id\"}, \"dead_letter\": {\"table\": \"dead\"}}", NULL, "dead", "dead"},
        {JOBS "}, \"dead_letter\": {\"table\": \"dead\"}}", "app", "dead", "app.dead"},
        {JOBS "}, \"dead_letter\": {\"schema\": \"morgue\", \"table\": \"dead\"}}", "morgue", "dead", "morgue.dead"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf_table *table = parse_whole(cases[i].json);
        CU_ASSERT_PTR_NULL(table->dead_group);
        CU_ASSERT_EQUAL(table->dead_schema == NULL, cases[i].schema == NULL);
        if (cases[i].schema != NULL) {
            check_text(table->dead_schema, cases[i].schema);
        }
        check_text(table->dead_table, cases[i].table);
        check_text(table->dead_display, cases[i].display);
        CU_ASSERT_EQUAL(table->max_attempts, 0);
        hf__table_free(table);
    }
}

/* Transactional mode opens a transaction at the description's level under every strategy. */
static void levels_with_every_strategy(void)
{
    struct hf_table *lease = parse_whole(JOBS ", \"locked_until\": \"l\"}, \"isolation\": \"read_committed\"}");
    struct hf_table *advisory = parse_whole(JOBS "}, \"advisory_lock\": \"{a}\", \"isolation\": \"serializable\"}");
    struct hf_table *fifo = parse_whole(JOBS ", \"group\": \"g\"}, \"fifo\": true, \"isolation\": \"read_committed\"}");
    CU_ASSERT_EQUAL(lease->isolation, HF__READ_COMMITTED);
    CU_ASSERT_EQUAL(advisory->isolation, HF__SERIALIZABLE);
    CU_ASSERT_TRUE(fifo->fifo);
    hf__table_free(lease);
    hf__table_free(advisory);
    hf__table_free(fifo);
}

/* However long what the user wrote is, the message still names the key and what is wrong with it. */
static void long_names(void)
{
    char name[3001];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct refusal refusals[] = {
        {hf_test_format("{\"table\": \"%s\", \"schema\": \"%s\", \"columns\": {\"id\": 1}}", name, name),
         HF_INVALID,
         {"\"columns.id\" must be"}},
        {hf_test_format(JOBS "}, \"%s\": 1}", name), HF_INVALID, {NAMED, "is not a key"}},
        {hf_test_format(JOBS "}, \"clock\": \"%s\"}", name), HF_INVALID, {NAMED, "\"clock\" cannot be", "\"host\" or \"database\""}},
        {hf_test_format("{\"table\": \"t\", \"columns\": {\"id\": \"%s\", \"payload\": \"%s\"}}", name, name),
         HF_INVALID,
         {"a column of its own"}},
    };
    check_refusals(refusals, LENGTH(refusals));
    struct hf_table *table = parse(hf_test_format("{\"table\": \"%s\", \"columns\": {\"id\": \"i\"}}", name));
    check_text(table->name, name);
    hf__table_free(table);
}

/* ---- files ---- */

static const char *write_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/holdfast-table-XXXXXX");
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        hf_test_fail("%s: %s", path, strerror(errno));
    }
    return path;
}

static void check_file(const char *text, hf_status wanted, const char *says)
{
    const char *path = write_file(text);
    struct hf_table *table = NULL;
    hf_error err = {.message = ""};
    hf_status status = hf__table_load(path, &table, &err);
    unlink(path);
    hf__table_free(table);
    HF_TEST_STATUS(status, wanted, &err);
    if (says != NULL && (strncmp(err.message, path, strlen(path)) != 0 || strstr(err.message, says) == NULL)) {
        hf_test_fail("the message names neither file nor fault: %s", err.message);
    }
}

static void check_unreadable(const char *path)
{
    struct hf_table *table = NULL;
    hf_error err = {.message = ""};
    HF_TEST_STATUS(hf__table_load(path, &table, &err), HF_SYSTEM, &err);
    CU_ASSERT_PTR_NULL(table);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, path));
    CU_ASSERT_EQUAL(hf__table_load(path, &table, NULL), HF_SYSTEM);
}

static void files(void)
{
    check_file(lease_sample, HF_OK, NULL);
    check_file(hf_test_format("%20000s%s%20000s", " ", advisory_sample, "\n"), HF_OK, NULL);
    check_file("{\"table\": \"jobs\",\n\n oops}", HF_INVALID, "line 3");
    check_file("", HF_INVALID, "not JSON");
    check_file(JOBS "}, \"fifo\": 1}", HF_INVALID, NAMED);
    check_file(JOBS "}, \"clock\": \"database\"}", HF_OK, NULL);
    check_unreadable("/nonexistent/jobs.json");
    check_unreadable("/tmp");
}

/* ---- memory ---- */

static size_t allocations_left;

static void *scarce_malloc(size_t size)
{
    if (allocations_left == 0) {
        return NULL;
    }
    allocations_left--;
    return malloc(size);
}

/* Some of jansson's failures look like a fault of the text: but none of them may pass for a description, crash or leak. */
static void out_of_memory(void)
{
    json_malloc_t usual_malloc;
    json_free_t usual_free;
    json_get_alloc_funcs(&usual_malloc, &usual_free);
    json_set_alloc_funcs(scarce_malloc, free);
    bool right = true;
    size_t refused = 0, no_memory = 0;
    struct hf_table *table = NULL;
    for (size_t n = 0; table == NULL && n < 1000; n++) {
        hf_error err;
        allocations_left = n;
        hf_status status = hf__table_parse(lease_sample, strlen(lease_sample), &table, &err);
        right = right && (status == HF_OK) == (table != NULL) && (status == HF_OK || status == HF_INVALID || status == HF_NO_MEMORY);
        refused += status != HF_OK;
        no_memory += status == HF_NO_MEMORY;
    }
    json_set_alloc_funcs(usual_malloc, usual_free);
    CU_ASSERT_TRUE_FATAL(right);
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    CU_ASSERT_TRUE(refused > 20);
    CU_ASSERT_TRUE(no_memory > 0);
    check_lease_sample(table);
    hf__table_free(table);
}

static void names(void)
{
    check_text(hf__role_key(HF__ROLE_ID), "id");
    check_text(hf__role_key(HF__ROLE_LOCKED_UNTIL), "locked_until");
    check_text(hf__strategy_kind_name(HF__ROW_LOCK), "row_lock");
    check_text(hf__strategy_kind_name(HF__LEASE), "lease");
    check_text(hf__strategy_kind_name(HF__ADVISORY_LOCK), "advisory");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"samples", samples},
        {"copies", copies},
        {"same_tables", same_tables},
        {"defaults", defaults},
        {"words", words},
        {"lease_lengths", lease_lengths},
        {"templates", templates},
        {"names_are_free", names_are_free},
        {"refuses_what_is_not_json", refuses_what_is_not_json},
        {"refuses_missing_keys", refuses_missing_keys},
        {"refuses_wrong_types", refuses_wrong_types},
        {"refuses_wrong_values", refuses_wrong_values},
        {"refuses_templates", refuses_templates},
        {"refuses_unknown_keys", refuses_unknown_keys},
        {"refuses_contradictions", refuses_contradictions},
        {"whole_samples", whole_samples},
        {"dead_letters", dead_letters},
        {"levels_with_every_strategy", levels_with_every_strategy},
        {"long_names", long_names},
        {"files", files},
        {"out_of_memory", out_of_memory},
        {"names", names},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "table", tests);
}
