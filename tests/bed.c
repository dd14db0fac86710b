#include "tests/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum hf__database hf_bed_databases[] = {HF__POSTGRES, HF__MYSQL, HF__SQLITE};
const size_t hf_bed_n_databases = sizeof hf_bed_databases / sizeof hf_bed_databases[0];

bool hf_bed_offers(enum hf__database database, enum hf__strategy_kind kind)
{
    return kind != HF__ROW_LOCK || database != HF__SQLITE;
}

struct hf__deadline hf_bed_soon(void)
{
    return hf__after_ms(30000);
}

const char *hf_bed_text(const struct hf_test_bed *bed, const char *text)
{
    char *out = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&out, &len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    for (; *text; text++)
        if (*text == '@')
            (void)fputs(bed->name, stream);
        else
            (void)fputc(*text, stream);
    CU_ASSERT_EQUAL_FATAL(fclose(stream), 0);
    const char *kept = hf_test_format("%s", out);
    free(out);
    return kept;
}

void hf_bed_sql(const struct hf_test_bed *bed, const char *sql)
{
    hf_test_session_run(bed->side, hf_bed_text(bed, sql));
}

int64_t hf_bed_int(const struct hf_test_bed *bed, const char *sql)
{
    return hf_test_session_int(bed->side, hf_bed_text(bed, sql));
}

const char *hf_bed_query(const struct hf_test_bed *bed, const char *sql)
{
    return hf_test_session_text(bed->side, hf_bed_text(bed, sql));
}

static void create_table(struct hf_test_bed *bed)
{
    char **statements;
    size_t n;
    HF_TEST_OK(hf__ddl(bed->table, bed->database, &statements, &n, &bed->err), &bed->err);
    for (size_t i = 0; i < n; i++) {
        hf_test_session_run(bed->side, statements[i]);
        free(statements[i]);
    }
    free(statements);
}

void hf_bed_describe(struct hf_test_bed *bed, enum hf__database database, const char *rest, bool create)
{
    memset(bed, 0, sizeof *bed);
    bed->database = database;
    bed->url = hf_test_url(database);
    bed->name = hf_test_scratch("bed");
    const char *json = hf_bed_text(bed, hf_test_format("{ \"table\": \"@\"%s }", rest));
    bed->conn = hf_test_session(bed->url);
    bed->other = hf_test_session(bed->url);
    bed->side = hf_test_session(bed->url);
    HF_TEST_OK(hf__table_parse(json, strlen(json), &bed->table, &bed->err), &bed->err);
    if (create)
        create_table(bed);
    HF_TEST_OK(hf__clock_new(&bed->clock, &bed->err), &bed->err);
    HF_TEST_OK(hf__clock_measure(bed->clock, bed->conn, hf_bed_soon(), &bed->err), &bed->err);
}

void hf_bed_plan(struct hf_test_bed *bed, const char *const *groups, size_t n_groups)
{
    struct hf__plan_options options = {.groups = groups, .n_groups = n_groups, .clock = bed->clock};
    hf__plan_close(bed->plan);
    HF_TEST_OK(hf__plan_open(bed->conn, bed->table, &options, hf_bed_soon(), &bed->plan, &bed->err), &bed->err);
    bed->strategy = hf__plan_strategy(bed->plan);
}

void hf_bed_open(struct hf_test_bed *bed, enum hf__database database, const char *rest)
{
    hf_bed_describe(bed, database, rest, true);
    hf_bed_plan(bed, NULL, 0);
}

void hf_bed_close(struct hf_test_bed *bed)
{
    hf__plan_close(bed->plan);
    hf__conn_close(bed->conn);
    hf__conn_close(bed->other);
    hf__clock_free(bed->clock);
    hf__table_free(bed->table);
    hf_bed_sql(bed, "DROP TABLE IF EXISTS @");
    hf_bed_sql(bed, "DROP TABLE IF EXISTS @_dead");
    hf__conn_close(bed->side);
}

struct arrival {
    struct hf__clock *clock;
    int64_t us;
};

static bool has_come(void *ctx)
{
    const struct arrival *arrival = ctx;
    return hf__clock_now_us(arrival->clock) >= arrival->us;
}

void hf_bed_due(const struct hf_test_bed *bed)
{
    if (bed->table->database_clock)
        return;
    static const char *const now[] = {
        [HF__POSTGRES] = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint)",
        [HF__MYSQL] = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
        [HF__SQLITE] = "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000",
    };
    struct arrival arrival = {bed->clock, hf_bed_int(bed, now[bed->database])};
    CU_ASSERT_TRUE(hf_test_wait_until(has_come, &arrival, 10000));
}

size_t hf_bed_claim(struct hf_test_bed *bed, struct hf__conn *conn, size_t limit, struct hf__row **rows)
{
    size_t n = 0;
    struct hf__claim ask = {.limit = limit};
    hf_bed_due(bed);
    HF_TEST_OK(bed->strategy->claim(bed->plan, conn, &ask, hf_bed_soon(), rows, &n, &bed->err), &bed->err);
    return n;
}

hf_status hf_bed_settle(struct hf_test_bed *bed, struct hf__conn *conn, struct hf__row *row, enum hf__action action, const char *reason)
{
    struct hf__change change = {.row = row, .action = action, .reason = reason, .reason_len = reason ? strlen(reason) : 0};
    hf_status status = bed->strategy->settle(bed->plan, conn, &change, 1, hf_bed_soon(), &bed->err);
    hf__row_free(row);
    return status != HF_OK ? status : change.status;
}
