/* The words of an error: whole characters, the right numbers, no trouble without a place to write to. */
#include <string.h>

#include "pool/error.h"
#include "support.h"

static void names_and_texts(void)
{
    CU_ASSERT_STRING_EQUAL(hf_status_name(HF_OK), "HF_OK");
    CU_ASSERT_STRING_EQUAL(hf_status_name(HF_LEASE_LOST), "HF_LEASE_LOST");
    CU_ASSERT_STRING_EQUAL(hf_status_text(HF_NO_MEMORY), "out of memory");
    CU_ASSERT_PTR_NOT_NULL(hf_status_name((hf_status)99));
    CU_ASSERT_PTR_NOT_NULL(hf_status_text((hf_status)-1));
}

static void fail_writes_everything(void)
{
    hf_error err;
    memset(&err, 'x', sizeof err);
    CU_ASSERT_EQUAL(hf__fail_native(&err, HF_DATABASE, 1062, "23000", "table %s", "jobs"), HF_DATABASE);
    CU_ASSERT_EQUAL(err.status, HF_DATABASE);
    CU_ASSERT_EQUAL(err.native_code, 1062);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "23000");
    CU_ASSERT_STRING_EQUAL(err.message, "table jobs");
    CU_ASSERT_EQUAL(hf__fail(&err, HF_INVALID, "%d", 7), HF_INVALID);
    CU_ASSERT_EQUAL(err.native_code, 0);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "");
    CU_ASSERT_STRING_EQUAL(err.message, "7");
    CU_ASSERT_EQUAL(hf__fail_native(&err, HF_LOST, 1, NULL, "-"), HF_LOST);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "");
}

static void nowhere_to_write(void)
{
    CU_ASSERT_EQUAL(hf__fail(NULL, HF_LOST, "%s", "x"), HF_LOST);
    CU_ASSERT_EQUAL(hf__fail_native(NULL, HF_TRANSIENT, 1, "40001", "x"), HF_TRANSIENT);
    CU_ASSERT_EQUAL(hf__fail_memory(NULL), HF_NO_MEMORY);
    CU_ASSERT_NOT_EQUAL(hf__fail_context(NULL, "x"), HF_OK);
}

static void context_keeps_the_rest(void)
{
    hf_error err;
    (void)hf__fail_native(&err, HF_TRANSIENT, 5, "40001", "deadlock");
    CU_ASSERT_EQUAL(hf__fail_context(&err, "claiming from %s", "jobs"), HF_TRANSIENT);
    CU_ASSERT_STRING_EQUAL(err.message, "claiming from jobs: deadlock");
    CU_ASSERT_EQUAL(err.native_code, 5);
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "40001");
}

static void an_argument_may_be_the_old_message(void)
{
    hf_error err;
    (void)hf__fail_native(&err, HF_LOST, 1, "08006", "inner");
    (void)hf__fail_native(&err, HF_LOST, 2, err.sqlstate, "outer (%s)", err.message);
    CU_ASSERT_STRING_EQUAL(err.message, "outer (inner)");
    CU_ASSERT_STRING_EQUAL(err.sqlstate, "08006");
}

static void long_messages_end_at_a_character(void)
{
    char text[4000];
    hf_error err;
    for (size_t shift = 0; shift < 4; shift++) { /* each way in which a four-byte character can lie across the end */
        memset(text, 'a', shift);
        size_t at = shift;
        while (at + 4 < sizeof text) {
            at += (size_t)(stpcpy(text + at, "\xF0\x9F\x90\x98") - (text + at));
        }
        (void)hf__fail(&err, HF_DATABASE, "%s", text);
        size_t len = strlen(err.message);
        CU_ASSERT_EQUAL(len, shift + (sizeof err.message - 1 - shift) / 4 * 4);
        CU_ASSERT(memcmp(err.message, text, len) == 0);
    }
}

static void utf8_is_told_from_other_bytes(void)
{
    CU_ASSERT_TRUE(hf__utf8_valid("", 0));
    CU_ASSERT_TRUE(hf__utf8_valid("plain", 5));
    CU_ASSERT_TRUE(hf__utf8_valid("na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x90\x98", 15));
    CU_ASSERT_FALSE(hf__utf8_valid("a\0b", 3));
    CU_ASSERT_FALSE(hf__utf8_valid("na\xEFve", 5));
    CU_ASSERT_FALSE(hf__utf8_valid("\xE2\x82", 2));
    CU_ASSERT_FALSE(hf__utf8_valid("\xED\xA0\x80", 3));
    CU_ASSERT_FALSE(hf__utf8_valid("a\xFF", 2));
}

static void cut(void)
{
    CU_ASSERT_EQUAL(hf__utf8_cut("abc", 3, 3), 3);
    CU_ASSERT_EQUAL(hf__utf8_cut("abc", 3, 2), 2);
    CU_ASSERT_EQUAL(hf__utf8_cut("abc", 3, 0), 0);
    CU_ASSERT_EQUAL(hf__utf8_cut("", 0, 5), 0);
    CU_ASSERT_EQUAL(hf__utf8_cut("a\xC3\xA4", 3, 2), 1);
    CU_ASSERT_EQUAL(hf__utf8_cut("a\xC3\xA4"
                                 "b",
                                 4, 3),
                    3);
    CU_ASSERT_EQUAL(hf__utf8_cut("\xE2\x82\xAC"
                                 "b",
                                 4, 2),
                    0);
    CU_ASSERT_EQUAL(hf__utf8_cut("\xF0\x9F\x90\x98"
                                 "b",
                                 5, 3),
                    0);
    CU_ASSERT_EQUAL(hf__utf8_cut("\x80\x80\x80\x80\x80\x80\x80", 7, 5), 5); /* not UTF-8: nothing to spare */
}

static void other_encodings_become_question_marks(void)
{
    hf_error err;
    (void)hf__fail(&err, HF_DENIED, "%s", "R\xF4le \xC3\xA9\xC0\x80 \xED\xA0\x80 \xE2\x82");
    CU_ASSERT_STRING_EQUAL(err.message, "R?le \xC3\xA9?? ??? ??");
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"names and texts", names_and_texts},
        {"fail writes everything", fail_writes_everything},
        {"nowhere to write", nowhere_to_write},
        {"context keeps the rest", context_keeps_the_rest},
        {"an argument may be the old message", an_argument_may_be_the_old_message},
        {"long messages end at a character", long_messages_end_at_a_character},
        {"cut", cut},
        {"utf-8 is told from other bytes", utf8_is_told_from_other_bytes},
        {"other encodings become question marks", other_encodings_become_question_marks},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "error", tests);
}
