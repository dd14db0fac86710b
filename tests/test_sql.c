/* The statement builder, reasons cut to a column, arrays, and the keys of the process: no server needed. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "strategies/array.h"
#include "strategies/keys.h"
#include "strategies/plan.h"
#include "strategies/reason.h"
#include "tests/support.h"

static const char *const names[] = {"order", "a b", "\"q\"\"t\"", "`b`t`", "na\xc3\xafve", "x.y", ""};

/* A quoted name reads back as itself, whatever it holds. */
static void check_quoting(enum hf__database database, char quote)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct hf__sql sql;
        struct hf__rendered rendered;
        hf__sql_begin(&sql, database);
        hf__sql_name(&sql, names[i]);
        HF_TEST_OK(hf__sql_finish(&sql, false, &rendered, NULL), NULL);
        const char *in = rendered.text;
        CU_ASSERT_EQUAL_FATAL(*in++, quote);
        for (const char *at = names[i]; *at; at++) {
            CU_ASSERT_EQUAL_FATAL(*in++, *at);
            if (*at == quote)
                CU_ASSERT_EQUAL_FATAL(*in++, quote);
        }
        CU_ASSERT_EQUAL(*in++, quote);
        CU_ASSERT_EQUAL(*in, '\0');
        hf__rendered_free(&rendered);
    }
}

static void test_quoting(void)
{
    check_quoting(HF__POSTGRES, '"');
    check_quoting(HF__SQLITE, '"');
    check_quoting(HF__MYSQL, '`');
}

/* PostgreSQL names a value once and uses it again; elsewhere each place is bound for itself. */
static void check_binding(enum hf__database database, const char *text, size_t n)
{
    struct hf__sql sql;
    struct hf__rendered rendered;
    hf__sql_begin(&sql, database);
    hf__sql_bind(&sql, HF__P_NOW);
    hf__sql_put(&sql, " < ");
    hf__sql_bind(&sql, HF__P_EXPIRY);
    hf__sql_put(&sql, " < ");
    hf__sql_bind(&sql, HF__P_NOW);
    hf__sql_put(&sql, " IN ");
    hf__sql_list(&sql, HF__P_ID, 2);
    HF_TEST_OK(hf__sql_finish(&sql, true, &rendered, NULL), NULL);
    CU_ASSERT_STRING_EQUAL(rendered.text, text);
    CU_ASSERT_EQUAL(rendered.n_bound, n);
    CU_ASSERT_NOT_EQUAL(rendered.statement.serial, 0);
    hf__rendered_free(&rendered);
}

static void test_binding(void)
{
    check_binding(HF__POSTGRES, "$1 < $2 < $1 IN ($3, $4)", 4);
    check_binding(HF__MYSQL, "? < ? < ? IN (?, ?)", 5);
    check_binding(HF__SQLITE, "? < ? < ? IN (?, ?)", 5);
}

static void test_lists(void)
{
    static const size_t want[][2] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {255, 8}, {256, 8}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        CU_ASSERT_EQUAL(hf__list_for(want[i][0]), want[i][1]);
    CU_ASSERT_EQUAL(HF__LIST_MAX, 256);
}

static void test_rounding(void)
{
    CU_ASSERT_EQUAL(hf__round_up(1, 1000), 1000);
    CU_ASSERT_EQUAL(hf__round_up(1000, 1000), 1000);
    CU_ASSERT_EQUAL(hf__round_up(1001, 1000), 2000);
    CU_ASSERT_EQUAL(hf__round_up(-1, 1000), 0);
    CU_ASSERT_EQUAL(hf__round_up(7, 1), 7);
}

/* ---- reasons ---- */

static void check_reason(struct hf__column column, const char *in, size_t len, const char *want)
{
    char *out;
    HF_TEST_OK(hf__reason_for(&column, in, len, &out, NULL), NULL);
    CU_ASSERT_STRING_EQUAL(out, want);
    free(out);
}

static void test_reasons(void)
{
    struct hf__column any = {0}, ten = {.max_chars = 10}, four = {.max_bytes = 4, .max_chars = 4};
    check_reason(any, "plain", 5, "plain");
    check_reason(any, "", 0, "");
    check_reason(any, "a\0b\xff\xc3\xa9\xc3", 7, "a?b?\xc3\xa9?");
    check_reason(ten, "12345678901", 11, "1234567890");
    check_reason(four, "ab\xc3\xa9z", 5, "ab\xc3\xa9");
    check_reason(four, "abc\xc3\xa9", 5, "abc");                               /* never half a character */
    check_reason(any, "\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80", 9, "?????????"); /* surrogate, overlong, past the end */
    check_reason(any, "\xf0\x9f\x90\x98", 4, "\xf0\x9f\x90\x98");
    char *out = (char *)&any;
    HF_TEST_OK(hf__reason_for(NULL, "x", 1, &out, NULL), NULL);
    CU_ASSERT_PTR_NULL(out);
    HF_TEST_OK(hf__reason_for(&any, NULL, 0, &out, NULL), NULL);
    CU_ASSERT_PTR_NULL(out);
    CU_ASSERT_TRUE(hf__is_text("na\xc3\xafve", 6));
    CU_ASSERT_FALSE(hf__is_text("a\0b", 3));
    CU_ASSERT_FALSE(hf__is_text("\xff", 1));
}

/* ---- arrays ---- */

static struct hf__value nth(const void *ctx, size_t i)
{
    return ((const struct hf__value *)ctx)[i];
}

static void test_arrays(void)
{
    struct hf__value values[] = {hf__int(-5), hf__uint(UINT64_MAX), hf__text("O'B \"x\" \\ {,}"), hf__bytes("\x00\xff", 2),
                                 hf__null(),  hf__time_us(0)};
    char *text = hf__array_text(sizeof values / sizeof values[0], nth, values);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_STRING_EQUAL(text,
                           "{-5,18446744073709551615,\"O'B \\\"x\\\" \\\\ {,}\",\"\\\\x00ff\",NULL,\"1970-01-01 00:00:00.000000+00\"}");
    free(text);
    text = hf__array_text(0, nth, NULL);
    CU_ASSERT_STRING_EQUAL(text, "{}");
    free(text);
}

/* ---- keys ---- */

static void test_private_keys(void)
{
    struct hf__keys *keys;
    char *list[4];
    HF_TEST_OK(hf__keys_private(&keys, NULL), NULL);
    CU_ASSERT_EQUAL(hf__keys_take(keys, "a"), 1);
    CU_ASSERT_EQUAL(hf__keys_take(keys, "a"), 0);
    CU_ASSERT_EQUAL(hf__keys_take(keys, "b"), 1);
    CU_ASSERT_EQUAL(hf__keys_list(keys, list, 4), 2);
    free(list[0]);
    free(list[1]);
    CU_ASSERT_EQUAL(hf__keys_list(keys, list, 1), 1);
    free(list[0]);
    hf__keys_drop(keys, "a");
    hf__keys_drop(keys, "never taken");
    CU_ASSERT_EQUAL(hf__keys_take(keys, "a"), 1);
    hf__keys_close(keys);
}

static const char *new_file(void)
{
    const char *path = hf_test_format("/tmp/%s.db", hf_test_scratch("keys"));
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    close(fd);
    return path;
}

/* The status that another process gets for this file's keys. */
static int status_elsewhere(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) { /* exec forgets what fork inherits; a fork alone would share the lock's description */
        struct hf__keys *keys;
        _exit((int)hf__keys_of_file(path, &keys, NULL));
    }
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void test_file_keys(void)
{
    const char *path = new_file(), *link = hf_test_format("%s-link", path);
    struct hf__keys *one, *two;
    hf_error err;
    CU_ASSERT_EQUAL_FATAL(symlink(path, link), 0);
    CU_ASSERT_EQUAL(status_elsewhere(path), HF_OK);
    HF_TEST_OK(hf__keys_of_file(path, &one, &err), &err);
    HF_TEST_OK(hf__keys_of_file(link, &two, &err), &err); /* the same file, whatever its name */
    CU_ASSERT_PTR_EQUAL(one, two);
    CU_ASSERT_EQUAL(hf__keys_take(one, "k"), 1);
    CU_ASSERT_EQUAL(hf__keys_take(two, "k"), 0);
    hf__keys_close(one);
    CU_ASSERT_EQUAL(hf__keys_take(two, "k"), 0);
    hf__keys_close(two);
    CU_ASSERT_EQUAL(status_elsewhere(path), HF_OK);
    HF_TEST_STATUS(hf__keys_of_file("/nowhere/x.db", &one, &err), HF_SYSTEM, &err);
    unlink(link);
    unlink(path);
    unlink(hf_test_format("%s-holdfast-keys", path));
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"quoting", test_quoting}, {"binding", test_binding}, {"lists", test_lists},       {"rounding", test_rounding},
        {"reasons", test_reasons}, {"arrays", test_arrays},   {"keys", test_private_keys}, {"keys of a database file", test_file_keys},
        CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "sql", tests);
}
