/* Values, their order, times as text, and the memory of rows. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pool/deadline.h"
#include "pool/value.h"
#include "support.h"

/* Each is smaller than the next. */
static const struct hf__value *in_order(size_t *n)
{
    static struct hf__value values[16];
    const struct hf__value all[] = {
        hf__null(),           hf__int(INT64_MIN),     hf__int(-1),      hf__int(0),         hf__uint(1),  hf__int(INT64_MAX),
        hf__uint(UINT64_MAX), hf__time_us(INT64_MIN), hf__time_us(-1),  hf__time_us(5),     hf__text(""), hf__text_n("a\0a", 3),
        hf__text("aa"),       hf__text("\xC3\xA4"),   hf__bytes("", 0), hf__bytes("\0", 1),
    };
    memcpy(values, all, sizeof all);
    *n = sizeof all / sizeof all[0];
    return values;
}

static void order_is_total(void)
{
    size_t n;
    const struct hf__value *values = in_order(&n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            int order = hf__value_compare(&values[i], &values[j]);
            CU_ASSERT_EQUAL((order > 0) - (order < 0), (i > j) - (i < j));
            CU_ASSERT_EQUAL(hf__value_equal(&values[i], &values[j]), i == j);
        }
    }
}

static void numbers_are_equal_across_signs(void)
{
    struct hf__value a = hf__int(7);
    struct hf__value b = hf__uint(7);
    struct hf__value minus = hf__int(-1);
    struct hf__value huge = hf__uint(UINT64_MAX); /* the same bits */
    CU_ASSERT(hf__value_equal(&a, &b));
    CU_ASSERT_FALSE(hf__value_equal(&minus, &huge));
    struct hf__value none = hf__bytes(NULL, 0);
    struct hf__value empty = hf__bytes("", 0);
    CU_ASSERT(hf__value_equal(&none, &empty));
    CU_ASSERT_EQUAL(hf__text(NULL).type, HF__NULL);
}

static bool reads_as(struct hf__value value, int64_t expected)
{
    int64_t number = 0;
    return hf__value_int(&value, &number) && number == expected;
}

static bool is_no_number(struct hf__value value)
{
    int64_t number;
    return !hf__value_int(&value, &number);
}

static void integers_are_read(void)
{
    CU_ASSERT(reads_as(hf__int(-3), -3));
    CU_ASSERT(reads_as(hf__uint(3), 3));
    CU_ASSERT(reads_as(hf__text("9223372036854775807"), INT64_MAX));
    CU_ASSERT(reads_as(hf__text("-9223372036854775808"), INT64_MIN));
    CU_ASSERT(reads_as(hf__text("007"), 7));
    CU_ASSERT(is_no_number(hf__uint((uint64_t)INT64_MAX + 1)));
    CU_ASSERT(is_no_number(hf__null()));
    CU_ASSERT(is_no_number(hf__time_us(1)));
    CU_ASSERT(is_no_number(hf__bytes("1", 1)));
    static const char *const wrong[] = {"", "-", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809", "1e3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CU_ASSERT(is_no_number(hf__text(wrong[i])));
    }
    CU_ASSERT(is_no_number(hf__text_n("1\0", 2)));
}

static void times_are_written(void)
{
    static const struct {
        int64_t us;
        const char *text;
    } pairs[] = {
        {0, "1970-01-01 00:00:00.000000"},
        {-1, "1969-12-31 23:59:59.999999"},
        {INT64_C(951782400000000), "2000-02-29 00:00:00.000000"},
        {INT64_C(4107542399999999), "2100-02-28 23:59:59.999999"},
        {INT64_C(-62135596800000000), "0001-01-01 00:00:00.000000"},
        {INT64_C(253402300799999999), "9999-12-31 23:59:59.999999"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[HF__TIME_TEXT];
        int64_t us = 1;
        hf__time_format(pairs[i].us, text);
        CU_ASSERT_STRING_EQUAL(text, pairs[i].text);
        CU_ASSERT(hf__time_parse(text, strlen(text), &us) && us == pairs[i].us);
    }
}

static void times_are_clamped(void)
{
    char text[HF__TIME_TEXT];
    hf__time_format(INT64_MIN, text);
    CU_ASSERT_STRING_EQUAL(text, "0001-01-01 00:00:00.000000");
    hf__time_format(INT64_MAX, text);
    CU_ASSERT_STRING_EQUAL(text, "9999-12-31 23:59:59.999999");
}

/* Against the C library, at random moments of the years 1 to 9999. */
static void times_agree_with_gmtime(void)
{
    const int64_t first = INT64_C(-62135596800);
    for (int i = 0; i < 20000; i++) {
        time_t seconds = (time_t)(first + (int64_t)hf__random_below(UINT64_C(315537897600)));
        int64_t fraction = (int64_t)hf__random_below(1000000);
        struct tm tm;
        char expected[80];
        char text[HF__TIME_TEXT];
        int64_t us = 0;
        CU_ASSERT_PTR_NOT_NULL_FATAL(gmtime_r(&seconds, &tm));
        (void)snprintf(expected, sizeof expected, "%04d-%02d-%02d %02d:%02d:%02d.%06d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                       tm.tm_hour, tm.tm_min, tm.tm_sec, (int)fraction);
        hf__time_format((int64_t)seconds * 1000000 + fraction, text);
        CU_ASSERT_STRING_EQUAL_FATAL(text, expected);
        CU_ASSERT_FATAL(hf__time_parse(text, strlen(text), &us) && us == (int64_t)seconds * 1000000 + fraction);
    }
}

static void times_are_read(void)
{
    static const struct {
        const char *text;
        int64_t us;
    } pairs[] = {
        {"1970-01-01 00:00:01", 1000000},           {"1970-01-01 00:00:01.5", 1500000},  {"1970-01-01 00:00:01.000001", 1000001},
        {"1970-01-01 00:00:01.000000+00", 1000000}, {"1970-01-01 00:00:01+00", 1000000},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        int64_t us = 0;
        struct hf__value value = hf__text(pairs[i].text);
        CU_ASSERT(hf__value_time(&value, &us) && us == pairs[i].us);
    }
    int64_t us = 0;
    struct hf__value infinity = hf__time_us(INT64_MAX);
    struct hf__value number = hf__int(5);
    CU_ASSERT(hf__value_time(&infinity, &us) && us == INT64_MAX);
    CU_ASSERT_FALSE(hf__value_time(&number, &us));
}

static void other_shapes_are_refused(void)
{
    static const char *const wrong[] = {
        "",
        "1970-01-01",
        "1970-01-01T00:00:01",
        "1970-01-01 00:00:01Z",
        "1970-01-01 00:00:01.",
        "1970-01-01 00:00:01.0000001",
        "1970-01-01 00:00:01+01",
        "1970-01-01 00:00:01-00",
        "1970-01-01 00:00:01+00:00",
        "1970-02-30 00:00:00",
        "1970-13-01 00:00:00",
        "1970-00-01 00:00:00",
        "1970-01-00 00:00:00",
        "1900-02-29 00:00:00",
        "0000-01-01 00:00:00",
        "1970-01-01 24:00:00",
        "1970-01-01 00:60:00",
        "1970-01-01 00:00:60",
        " 1970-01-01 00:00:00",
        "1970-01-01 00:00:00 ",
        "1970-1-1 00:00:00",
        "0",
        "1752000000",
        "10000-01-01 00:00:00",
        "-001-01-01 00:00:00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t us;
        CU_ASSERT_FALSE(hf__time_parse(wrong[i], strlen(wrong[i]), &us));
    }
    int64_t us;
    CU_ASSERT_FALSE(hf__time_parse("1970-01-01 00:00:01.5", 18, &us)); /* cut inside the seconds */
}

static bool fill(struct hf__rows *rows, size_t count, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        struct hf__value *row = hf__rows_add(rows);
        char *text = hf__rows_alloc(rows, len);
        if (row == NULL || text == NULL) {
            return false;
        }
        memset(text, (int)('a' + i % 26), len);
        row[0] = hf__int((int64_t)i);
        row[1] = hf__text_n(text, len);
    }
    return true;
}

static bool is_filled(const struct hf__rows *rows, size_t count, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        const struct hf__value *text = hf__cell(rows, i, 1);
        char letter = (char)('a' + i % 26);
        bool right = hf__cell(rows, i, 0)->i == (int64_t)i && text->s.len == len && text->s.data[len] == '\0' &&
                     (len == 0 || (text->s.data[0] == letter && text->s.data[len - 1] == letter)) && hf__cell(rows, i, 2)->type == HF__NULL;
        if (!right) {
            return false;
        }
    }
    return rows->count == count;
}

static void rows_own_their_memory(void)
{
    static const struct {
        size_t count, len;
    } sizes[] = {{0, 0}, {1, 0}, {1000, 3}, {3, 300000}, {100, 5000}, {20000, 10}, {2, 8191}, {2, 8192}, {5, 1}};
    struct hf__rows rows;
    hf__rows_init(&rows);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hf__rows_clear(&rows);
        CU_ASSERT_EQUAL(rows.count, 0);
        rows.columns = 3;
        CU_ASSERT_FATAL(fill(&rows, sizes[i].count, sizes[i].len));
        CU_ASSERT(is_filled(&rows, sizes[i].count, sizes[i].len));
    }
    hf__rows_free(&rows);
    CU_ASSERT_PTR_NULL(rows.cells);
    hf__rows_free(&rows);
}

/* Every way in which a string can lie at the end of a block; a byte too far is for AddressSanitizer to see. */
static void strings_fill_their_blocks(void)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    for (int i = 0; i < 200000; i++) {
        size_t len = hf__random_below(9);
        char *text = hf__rows_alloc(&rows, len);
        CU_ASSERT_FATAL(text != NULL && text[len] == '\0');
        memset(text, 'x', len);
    }
    hf__rows_free(&rows);
}

static void rows_at_the_edges(void)
{
    struct hf__rows rows;
    hf__rows_init(&rows);
    CU_ASSERT_PTR_NOT_NULL(hf__rows_add(&rows)); /* no columns */
    CU_ASSERT_EQUAL(rows.count, 1);
    const char *empty = hf__rows_copy(&rows, NULL, 0);
    CU_ASSERT(empty != NULL && *empty == '\0');
    const char *copy = hf__rows_copy(&rows, "a\0b", 3);
    CU_ASSERT(copy != NULL && memcmp(copy, "a\0b", 4) == 0);
    CU_ASSERT_PTR_NULL(hf__rows_alloc(&rows, SIZE_MAX));
    CU_ASSERT_PTR_NULL(hf__rows_alloc(&rows, SIZE_MAX - 1));
    hf__rows_free(&rows);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"order is total", order_is_total},
        {"numbers are equal across signs", numbers_are_equal_across_signs},
        {"integers are read", integers_are_read},
        {"times are written", times_are_written},
        {"times are clamped", times_are_clamped},
        {"times agree with gmtime", times_agree_with_gmtime},
        {"times are read", times_are_read},
        {"other shapes are refused", other_shapes_are_refused},
        {"rows own their memory", rows_own_their_memory},
        {"strings fill their blocks", strings_fill_their_blocks},
        {"rows at the edges", rows_at_the_edges},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "value", tests);
}
