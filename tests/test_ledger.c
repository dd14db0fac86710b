#include <string.h>

#include "pool/ledger.h"
#include "tests/support.h"

static struct hf__ledger ledger;

static void test_names(void)
{
    CU_ASSERT_STRING_EQUAL(hf__purpose_name(HF__PURPOSE_CLAIM), "claim");
    CU_ASSERT_STRING_EQUAL(hf__purpose_name(HF__PURPOSE_ROW_LOCK), "row_lock");
    CU_ASSERT_STRING_EQUAL(hf__purpose_name(HF__PURPOSE_ADMIN), "admin");
    CU_ASSERT_STRING_EQUAL(hf__purpose_name(HF__PURPOSES), "unknown");
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        CU_ASSERT_STRING_NOT_EQUAL(hf__purpose_name((enum hf__purpose)i), "unknown");
    }
}

static void test_lines_are_separate(void)
{
    memset(&ledger, 0, sizeof ledger);
    hf__ledger_began(&ledger, HF__PURPOSE_CLAIM, 3);
    hf__ledger_began(&ledger, HF__PURPOSE_CLAIM, 2);
    hf__ledger_ended(&ledger, HF__PURPOSE_CLAIM, 1500000000);
    hf__ledger_ended(&ledger, HF__PURPOSE_CLAIM, -5);
    hf__ledger_waited(&ledger, HF__PURPOSE_CLAIM, 7000);
    hf__ledger_gave_up(&ledger, HF__PURPOSE_SETTLE);
    const struct hf__ledger_line *claim = &ledger.line[HF__PURPOSE_CLAIM];
    const struct hf__ledger_line *settle = &ledger.line[HF__PURPOSE_SETTLE];
    CU_ASSERT_EQUAL(claim->count, 2);
    CU_ASSERT_EQUAL(claim->peak, 3);
    CU_ASSERT_DOUBLE_EQUAL(claim->seconds, 1.5, 1e-9);
    CU_ASSERT_EQUAL(claim->wait.count, 1);
    CU_ASSERT_EQUAL(claim->wait.max_us, 7);
    CU_ASSERT_EQUAL(claim->timeouts, 0);
    CU_ASSERT_EQUAL(settle->timeouts, 1);
    CU_ASSERT_EQUAL(settle->count, 0);
}

static void test_describe(void)
{
    char text[256];
    size_t in_use[HF__PURPOSES] = {0};
    hf__ledger_describe(in_use, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "nothing");
    in_use[HF__PURPOSE_CLAIM] = 1;
    in_use[HF__PURPOSE_ROW_LOCK] = 3;
    in_use[HF__PURPOSE_ADMIN] = 1;
    hf__ledger_describe(in_use, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "row_lock 3, claim 1, admin 1");
    hf__ledger_describe(in_use, text, 15);
    CU_ASSERT_STRING_EQUAL(text, "row_lock 3, cl");
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        in_use[i] = SIZE_MAX;
    }
    hf__ledger_describe(in_use, text, sizeof text);
    CU_ASSERT_EQUAL(strlen(text), sizeof text - 1); /* the longest there can be is cut, not overrun */
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"names", test_names}, {"lines are separate", test_lines_are_separate}, {"describe", test_describe}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "ledger", tests);
}
