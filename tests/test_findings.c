#include <string.h>

#include "strategies/findings.h"
#include "tests/support.h"

static void starts_empty(void)
{
    struct hf__findings findings = {0};
    hf_error err = {.message = "untouched"};
    CU_ASSERT_EQUAL(hf__findings_first_error(&findings, &err), HF_OK);
    CU_ASSERT_STRING_EQUAL(err.message, "untouched");
    hf__findings_free(&findings);
}

static void keeps_all_in_order(void)
{
    enum { N = 100 };
    struct hf__findings findings = {0};
    for (int i = 0; i < N; i++) {
        HF_TEST_OK(hf__find(&findings, HF__FINDING_WARNING, HF_OK, "finding %d of %s", i, "many"), NULL);
    }
    CU_ASSERT_EQUAL_FATAL(findings.n, N);
    for (int i = 0; i < N; i++) {
        CU_ASSERT_STRING_EQUAL(findings.list[i].message, hf_test_format("finding %d of many", i));
        CU_ASSERT_EQUAL(findings.list[i].level, HF__FINDING_WARNING);
    }
    hf__findings_free(&findings);
    CU_ASSERT_EQUAL(findings.n, 0);
    HF_TEST_OK(hf__find(&findings, HF__FINDING_INFO, HF_OK, "used again"), NULL);
    CU_ASSERT_EQUAL(findings.n, 1);
    hf__findings_free(&findings);
}

static void first_error(void)
{
    struct hf__findings findings = {0};
    hf_error err = {.message = ""};
    HF_TEST_OK(hf__find(&findings, HF__FINDING_INFO, HF_OK, "info"), NULL);
    HF_TEST_OK(hf__find(&findings, HF__FINDING_WARNING, HF_OK, "warning"), NULL);
    CU_ASSERT_EQUAL(hf__findings_first_error(&findings, &err), HF_OK);
    HF_TEST_OK(hf__find(&findings, HF__FINDING_ERROR, HF_SERVER_TOO_OLD, "too old: 100%% of it"), NULL);
    HF_TEST_OK(hf__find(&findings, HF__FINDING_ERROR, HF_INVALID, "invalid"), NULL);
    CU_ASSERT_EQUAL(hf__findings_first_error(&findings, &err), HF_SERVER_TOO_OLD);
    CU_ASSERT_EQUAL(err.status, HF_SERVER_TOO_OLD);
    CU_ASSERT_STRING_EQUAL(err.message, "too old: 100% of it");
    CU_ASSERT_EQUAL(hf__findings_first_error(&findings, NULL), HF_SERVER_TOO_OLD);
    hf__findings_free(&findings);
}

/* A message may be longer than an error has room for: the finding keeps all of it. */
static void long_messages(void)
{
    char text[5001];
    memset(text, '%', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct hf__findings findings = {0};
    hf_error err = {.message = ""};
    HF_TEST_OK(hf__find(&findings, HF__FINDING_ERROR, HF_INVALID, "%s", text), NULL);
    CU_ASSERT_EQUAL(strlen(findings.list[0].message), sizeof text - 1);
    CU_ASSERT_EQUAL(hf__findings_first_error(&findings, &err), HF_INVALID);
    CU_ASSERT_EQUAL(strlen(err.message), sizeof err.message - 1);
    hf__findings_free(&findings);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"starts_empty", starts_empty},
        {"keeps_all_in_order", keeps_all_in_order},
        {"first_error", first_error},
        {"long_messages", long_messages},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "findings", tests);
}
