/* ctest: labels=server
 * Ids of every kind through every statement: claimed, renewed, retried, given back, lost, dead, brought back, done. */
#include <string.h>

#include "tests/bed.h"

#define COLUMNS "\"id\": \"id\", \"attempt\": \"attempt\", \"last_error\": \"last_error\", \"group\": \"grp\""
static const char *const described[] = {
    [HF__ROW_LOCK] = ", \"columns\": { " COLUMNS " }",
    [HF__LEASE] = ", \"columns\": { " COLUMNS ", \"locked_until\": \"locked_until\" }",
    [HF__ADVISORY_LOCK] = ", \"columns\": { " COLUMNS " }, \"advisory_lock\": \"{id}\"",
};
static const char *const dead[] = {", \"dead_letter\": { \"group\": \"dead\" }", ", \"dead_letter\": { \"table\": \"@_dead\" }"};

static const char *time_type(enum hf__database database)
{
    return database == HF__SQLITE ? "TEXT" : database == HF__MYSQL ? "DATETIME(6)" : "timestamptz";
}

static void open_bed(struct hf_test_bed *bed, enum hf__database database, enum hf__strategy_kind kind, size_t place, const char *type)
{
    static const char *const names[] = {"@", "@_dead"};
    hf_bed_describe(bed, database, hf_test_format("%s%s", described[kind], dead[place]), false);
    for (size_t i = 0; i < 2; i++)
        hf_bed_sql(bed, hf_test_format("CREATE TABLE %s (id %s NOT NULL PRIMARY KEY, attempt INTEGER NOT NULL DEFAULT 1, grp VARCHAR(20),"
                                       " locked_until %s NULL, last_error VARCHAR(50))",
                                       names[i], type, time_type(database)));
    hf_bed_plan(bed, NULL, 0);
}

static struct hf__row *claim_it(struct hf_test_bed *bed, const char *id)
{
    struct hf__row *row;
    CU_ASSERT_EQUAL_FATAL(hf_bed_claim(bed, bed->conn, 2, &row), 1);
    CU_ASSERT_STRING_EQUAL(row->id_text, id);
    return row;
}

static void renew(struct hf_test_bed *bed, struct hf__row *row)
{
    hf_status status;
    if (!bed->strategy->renew)
        return;
    HF_TEST_OK(bed->strategy->renew(bed->plan, bed->conn, &row, 1, &status, hf_bed_soon(), &bed->err), &bed->err);
    CU_ASSERT_EQUAL(status, HF_OK);
}

static void lose(struct hf_test_bed *bed, const char *id)
{
    struct hf__row *row = claim_it(bed, id);
    if (bed->strategy->kind == HF__ROW_LOCK) { /* nobody can take it away */
        CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, row, HF__GIVE_BACK, NULL), HF_OK);
        return;
    }
    bool lease = bed->strategy->kind == HF__LEASE;
    hf_bed_sql(bed, hf_test_format("UPDATE @ SET attempt = attempt + 1%s", lease ? ", locked_until = NULL" : ""));
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, row, HF__ACK, NULL), lease ? HF_LEASE_LOST : HF_LOST);
}

/* literal: the id in SQL; id: as people read it. */
static void live(struct hf_test_bed *bed, size_t place, const char *literal, const char *id)
{
    size_t moved;
    hf_bed_sql(bed, hf_test_format("INSERT INTO @ (id) VALUES (%s)", literal));
    struct hf__row *row = claim_it(bed, id);
    renew(bed, row);
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, row, HF__RETRY, "no"), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, claim_it(bed, id), HF__GIVE_BACK, NULL), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, claim_it(bed, id), HF__UNBEGUN, NULL), HF_OK);
    lose(bed, id);
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, claim_it(bed, id), HF__REJECT, "never"), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_int(bed, hf_test_format("SELECT COUNT(*) FROM %s WHERE id = %s AND last_error = 'never' AND attempt = 1",
                                                   place == 0 ? "@" : "@_dead", literal)),
                    1);
    const char *const twice[] = {id, id}; /* goes back once all the same */
    struct hf__requeue what = {.ids = twice, .n_ids = 2, .to_group = "g"};
    HF_TEST_OK(hf__plan_requeue(bed->plan, bed->other, &what, hf_bed_soon(), &moved, &bed->err), &bed->err);
    CU_ASSERT_EQUAL(moved, 1);
    CU_ASSERT_EQUAL(hf_bed_settle(bed, bed->conn, claim_it(bed, id), HF__ACK, NULL), HF_OK);
    CU_ASSERT_EQUAL(hf_bed_int(bed, "SELECT (SELECT COUNT(*) FROM @) + (SELECT COUNT(*) FROM @_dead)"), 0);
}

struct ids {
    enum hf__database database;
    const char *type;
    const char *const *ids;
    const char *quote; /* what stands before an id in SQL, with a quote behind it; NULL: it stands bare */
};

static const char *const integers[] = {"2147483647", "2147483648", "4294967296",           "9223372036854775807",
                                       "0",          "-1",         "-9223372036854775808", NULL};
static const char *const unsigneds[] = {"0", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615", NULL};
static const char *const integers32[] = {"2147483647", "1", "0", "-1", "-2147483648", NULL};
static const char *const unsigneds32[] = {"0", "2147483647", "2147483648", "4294967295", NULL};
static const char *const small[] = {"32767", "0", "-32768", NULL};
static const char *const uuids[] = {"00000000-0000-0000-0000-000000000000", "0f9a7f4e-5c1b-4a93-9d3e-8b6f2f0a1c2d",
                                    "ffffffff-ffff-ffff-ffff-ffffffffffff", NULL};
static const char *const texts[] = {"a", "Order 7", "9223372036854775808", "na\xc3\xafve", "0", NULL};

static const char *const bytes[] = {"27255c00414243000000000000000020", "00", "ff", "61", NULL};

static const struct ids kinds[] = {
    {HF__POSTGRES, "bigint", integers, NULL},
    {HF__POSTGRES, "integer", integers32, NULL},
    {HF__POSTGRES, "smallint", small, NULL},
    {HF__POSTGRES, "uuid", uuids, "'"},
    {HF__POSTGRES, "text", texts, "'"},
    {HF__POSTGRES, "bytea", bytes, "'\\x"},
    {HF__MYSQL, "VARBINARY(20)", bytes, "x'"},
    {HF__SQLITE, "BLOB", bytes, "x'"},
    {HF__MYSQL, "BIGINT", integers, NULL},
    {HF__MYSQL, "BIGINT AUTO_INCREMENT", integers, NULL},
    {HF__MYSQL, "BIGINT UNSIGNED", unsigneds, NULL},
    {HF__MYSQL, "INT", integers32, NULL},
    {HF__MYSQL, "INT AUTO_INCREMENT", integers32, NULL},
    {HF__MYSQL, "INT UNSIGNED", unsigneds32, NULL},
    {HF__MYSQL, "VARCHAR(50) CHARACTER SET utf8mb4", texts, "'"},
    {HF__MYSQL, "CHAR(36)", uuids, "'"},
    {HF__SQLITE, "INTEGER", integers, NULL},
    {HF__SQLITE, "BIGINT", integers, NULL},
    {HF__SQLITE, "INT", integers32, NULL},
    {HF__SQLITE, "TEXT", texts, "'"},
};

static const char *literal(const struct ids *ids, const char *id)
{
    return ids->quote ? hf_test_format("%s%s'", ids->quote, id) : id;
}

static void check(const struct ids *ids)
{
    for (int kind = HF__ROW_LOCK; kind <= HF__ADVISORY_LOCK; kind++)
        for (size_t place = 0; place < 2; place++) {
            struct hf_test_bed bed;
            bool has_key = kind != HF__ADVISORY_LOCK || ids->ids != bytes; /* a key is rendered from what is text */
            if (!has_key || !hf_bed_offers(ids->database, (enum hf__strategy_kind)kind))
                continue;
            open_bed(&bed, ids->database, (enum hf__strategy_kind)kind, place, ids->type);
            for (size_t i = 0; ids->ids[i]; i++)
                live(&bed, place, literal(ids, ids->ids[i]), ids->ids[i]);
            hf_bed_close(&bed);
        }
}

static void test_integers(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!kinds[i].quote)
            check(&kinds[i]);
}

static void test_others(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].quote)
            check(&kinds[i]);
}

/* ---- ids that are equal but for case and accents (case 78) ---- */

static const char *const alike[] = {"A", "a", "\xc3\xa1", "\xc3\x9f", "ss"};
enum { ALIKE = sizeof alike / sizeof alike[0] };

static int64_t count_in(struct hf_test_bed *bed, const char *table, const char *id)
{
    return hf_bed_int(bed, hf_test_format("SELECT COUNT(*) FROM %s WHERE id = '%s'", table, id));
}

/* Each is claimed and settled for itself: the others stay. */
static void check_alike(enum hf__database database, enum hf__strategy_kind kind, const char *type)
{
    struct hf_test_bed bed;
    struct hf__row *row;
    if (!hf_bed_offers(database, kind))
        return;
    open_bed(&bed, database, kind, 1, type);
    for (size_t i = 0; i < ALIKE; i++)
        hf_bed_sql(&bed, hf_test_format("INSERT INTO @ (id) VALUES ('%s')", alike[i]));
    for (int left = ALIKE - 1; left >= 0; left--) {
        CU_ASSERT_EQUAL_FATAL(hf_bed_claim(&bed, bed.conn, 1, &row), 1);
        const char *id = hf_test_format("%s", row->id_text);
        renew(&bed, row);
        CU_ASSERT_EQUAL(hf_bed_settle(&bed, bed.conn, row, left % 2 ? HF__REJECT : HF__ACK, "never"), HF_OK);
        CU_ASSERT_EQUAL(count_in(&bed, "@", id), 0);
        CU_ASSERT_EQUAL(count_in(&bed, "@_dead", id), left % 2);
        CU_ASSERT_EQUAL(hf_bed_int(&bed, "SELECT COUNT(*) FROM @"), left);
    }
    hf_bed_close(&bed);
}

static void test_alike(void)
{
    for (int kind = HF__ROW_LOCK; kind <= HF__ADVISORY_LOCK; kind++) {
        check_alike(HF__POSTGRES, (enum hf__strategy_kind)kind, "text");
        check_alike(HF__MYSQL, (enum hf__strategy_kind)kind, "VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin");
        check_alike(HF__SQLITE, (enum hf__strategy_kind)kind, "TEXT");
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"integers", test_integers}, {"texts and UUIDs", test_others}, {"ids that differ in case", test_alike}, CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "ids", tests);
}
