/* For suites of the strategies: a table of the test's own, a plan on it and connections, without a runtime. */
#ifndef HF_TESTS_BED_H
#define HF_TESTS_BED_H

#include "pool/driver.h"
#include "strategies/strategy.h"
#include "tests/session.h"
#include "tests/support.h"

struct hf_test_bed {
    enum hf__database database;
    const char *url, *name; /* of the table; its dead letters' table is name_dead */
    struct hf_table *table;
    struct hf__clock *clock;
    struct hf__plan *plan;
    const struct hf__strategy *strategy;
    struct hf__conn *conn, *other, *side; /* side: for the test's own SQL */
    hf_error err;
};

/* Every database; and whether it offers a strategy. */
extern const enum hf__database hf_bed_databases[];
extern const size_t hf_bed_n_databases;
bool hf_bed_offers(enum hf__database database, enum hf__strategy_kind kind);
struct hf__deadline hf_bed_soon(void);

/* rest: what the description says beside the table's name, from its first comma on; @ in it stands for the table's name.
 * create: by the description's own ddl. */
void hf_bed_describe(struct hf_test_bed *bed, enum hf__database database, const char *rest, bool create);
void hf_bed_plan(struct hf_test_bed *bed, const char *const *groups, size_t n_groups);
void hf_bed_open(struct hf_test_bed *bed, enum hf__database database, const char *rest); /* both, over all groups */
void hf_bed_close(struct hf_test_bed *bed);
/* SQL with @ for the table's name. */
const char *hf_bed_text(const struct hf_test_bed *bed, const char *text);
void hf_bed_sql(const struct hf_test_bed *bed, const char *sql);
int64_t hf_bed_int(const struct hf_test_bed *bed, const char *sql);
const char *hf_bed_query(const struct hf_test_bed *bed, const char *sql); /* the first cell as text */

/* Waits until the rows that are there are due. Such a row is due from the database's own time at its insert, and on a busy machine the
 * measured clock may be some milliseconds behind that. */
void hf_bed_due(const struct hf_test_bed *bed);
size_t hf_bed_claim(struct hf_test_bed *bed, struct hf__conn *conn, size_t limit, struct hf__row **rows); /* what is due */
/* What became of it; frees the row. reason may be NULL. */
hf_status hf_bed_settle(struct hf_test_bed *bed, struct hf__conn *conn, struct hf__row *row, enum hf__action action, const char *reason);

#endif
