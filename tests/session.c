#include "tests/session.h"

#include <stdlib.h>

#define LIMIT_MS 30000

struct hf__conn *hf_test_session(const char *url)
{
    hf_error err = {.status = HF_OK};
    struct hf__url *parsed = NULL;
    struct hf__conn *session = NULL;
    struct hf__session_options options = {.connect_timeout_ms = LIMIT_MS, .idle_limit_ms = 600000, .application_name = "holdfast outside"};
    HF_TEST_OK(hf__url_parse(url, &parsed, &err), &err);
    hf_status status = hf__conn_open(parsed, &options, hf__after_ms(LIMIT_MS), &session, &err);
    hf__url_free(parsed);
    HF_TEST_OK(status, &err);
    return session;
}

void hf_test_session_run(struct hf__conn *session, const char *sql)
{
    hf_error err = {.status = HF_OK};
    if (hf__conn_exec(session, sql, hf__after_ms(LIMIT_MS), &err) != HF_OK) {
        hf_test_fail("%s: %s", sql, err.message);
    }
}

static const char *text_of(const struct hf__value *cell)
{
    char time[HF__TIME_TEXT];
    switch (cell->type) {
    case HF__NULL:
        return NULL;
    case HF__INT:
        return hf_test_format("%lld", (long long)cell->i);
    case HF__UINT:
        return hf_test_format("%llu", (unsigned long long)cell->u);
    case HF__TIME:
        hf__time_format(cell->i, time);
        return hf_test_format("%s", time);
    case HF__TEXT:
    case HF__BYTES:
        return hf_test_format("%.*s", (int)cell->s.len, cell->s.data);
    }
    return NULL;
}

const char *hf_test_session_text(struct hf__conn *session, const char *sql)
{
    hf_error err = {.status = HF_OK};
    struct hf__statement statement = {.sql = sql, .serial = 0};
    struct hf__rows rows;
    hf__rows_init(&rows);
    hf_status status = hf__conn_run(session, &statement, NULL, 0, &rows, hf__after_ms(LIMIT_MS), &err);
    const char *text = status == HF_OK && rows.count > 0 && rows.columns > 0 ? text_of(hf__cell(&rows, 0, 0)) : NULL;
    hf__rows_free(&rows);
    if (status != HF_OK) {
        hf_test_fail("%s: %s", sql, err.message);
    }
    return text;
}

int64_t hf_test_session_int(struct hf__conn *session, const char *sql)
{
    const char *text = hf_test_session_text(session, sql);
    char *end = NULL;
    long long number = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text) {
        hf_test_fail("%s: the answer is %s, not a number", sql, text ? text : "empty");
    }
    return number;
}
