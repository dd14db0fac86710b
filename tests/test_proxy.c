/* ctest: timeout=60
 * The proxy of the tests loses exactly the message that it is told to lose. */
#include "tests/proxy.h"
#include "tests/session.h"

#define LIMIT_MS 10000

struct scene {
    struct hf_test_proxy *proxy;
    enum hf__database database;
    const char *table;
};

static void on_both(void (*test)(struct scene *scene))
{
    static const enum hf__database databases[] = {HF__POSTGRES, HF__MYSQL};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene = {hf_test_proxy_open(databases[i]), databases[i], hf_test_scratch("proxied")};
        hf_test_sql(hf_test_url(scene.database), hf_test_format("CREATE TABLE %s (n int)", scene.table));
        test(&scene);
        hf_test_sql(hf_test_url(scene.database), hf_test_format("DROP TABLE %s", scene.table));
        hf_test_proxy_close(scene.proxy);
    }
}

static struct hf__conn *session(const struct scene *scene)
{
    return hf_test_session(hf_test_proxy_url(scene->proxy));
}

static hf_status insert(const struct scene *scene, struct hf__conn *conn, int n)
{
    return hf__conn_exec(conn, hf_test_format("INSERT INTO %s VALUES (%d)", scene->table, n), hf__after_ms(LIMIT_MS), NULL);
}

static int64_t rows(const struct scene *scene)
{
    return hf_test_query_int(hf_test_url(scene->database), hf_test_format("SELECT count(*) FROM %s", scene->table));
}

/* With the second insert cut so, the rows that are there afterwards. */
static void cut_second(struct scene *scene, enum hf_test_cut cut, int64_t expected)
{
    struct hf__conn *conn = session(scene);
    hf_test_sql(hf_test_url(scene->database), hf_test_format("DELETE FROM %s", scene->table));
    hf_test_proxy_arm(scene->proxy, cut, 2);
    CU_ASSERT_EQUAL(insert(scene, conn, 1), HF_OK);
    CU_ASSERT_FALSE(hf_test_proxy_has_cut(scene->proxy));
    CU_ASSERT_EQUAL(insert(scene, conn, 2), HF_LOST);
    CU_ASSERT_TRUE(hf_test_proxy_has_cut(scene->proxy));
    CU_ASSERT_PTR_NOT_NULL(strstr(hf_test_proxy_cut_at(scene->proxy), "VALUES (2)"));
    CU_ASSERT_EQUAL(hf_test_proxy_messages(scene->proxy), 2);
    CU_ASSERT_EQUAL(rows(scene), expected);
    hf__conn_close(conn);
}

static void loses_a_request_on(struct scene *scene)
{
    cut_second(scene, HF_TEST_CUT_REQUEST, 1);
}

static void loses_a_request(void)
{
    on_both(loses_a_request_on);
}

static void loses_an_answer_on(struct scene *scene)
{
    cut_second(scene, HF_TEST_CUT_ANSWER, 2);
}

static void loses_an_answer(void)
{
    on_both(loses_an_answer_on);
}

/* Parameters, and an answer of many packets: more than a socket takes at once. */
static void passes_on_all_else_on(struct scene *scene)
{
    static const size_t size = 3000000;
    struct hf__conn *conn = session(scene);
    CU_ASSERT_EQUAL(hf_test_session_int(conn, hf_test_format("SELECT length(repeat('x', %zu))", size)), size);
    CU_ASSERT_EQUAL(strlen(hf_test_session_text(conn, hf_test_format("SELECT repeat('x', %zu)", size))), size);
    struct hf__conn *other = session(scene);
    CU_ASSERT_EQUAL(insert(scene, other, 1), HF_OK);
    CU_ASSERT_EQUAL(insert(scene, conn, 2), HF_OK);
    hf__conn_close(other);
    hf__conn_close(conn);
    CU_ASSERT_EQUAL(rows(scene), 2);
    CU_ASSERT_EQUAL(hf_test_proxy_accepted(scene->proxy), 2);
}

static void passes_on_all_else(void)
{
    on_both(passes_on_all_else_on);
}

static void holds_on(struct scene *scene)
{
    struct hf__conn *conn = session(scene);
    hf_test_proxy_hold(scene->proxy, true);
    CU_ASSERT_EQUAL(hf__conn_exec(conn, "SELECT 1", hf__after_ms(300), NULL), HF_TIMEOUT);
    hf__conn_close(conn);
    hf_test_proxy_hold(scene->proxy, false);
    conn = session(scene);
    CU_ASSERT_EQUAL(insert(scene, conn, 1), HF_OK);
    hf__conn_close(conn);
}

static void holds(void)
{
    on_both(holds_on);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"loses a request", loses_a_request},
        {"loses an answer", loses_an_answer},
        {"passes on all else", passes_on_all_else},
        {"holds", holds},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "proxy", tests);
}
