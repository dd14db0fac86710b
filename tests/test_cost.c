#include <stdint.h>

#include "strategies/cost.h"
#include "tests/support.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* The figures of the documentation, one row for each way to hold a row on each database. */
static void the_table(void)
{
    static const struct {
        enum hf__strategy_kind kind;
        enum hf__database database;
        size_t held_per_delivery, claim, settle, renew, pool_size_for_10;
    } cases[] = {
        {HF__ROW_LOCK, HF__POSTGRES, 1, 0, 0, 0, 11},   {HF__ROW_LOCK, HF__MYSQL, 1, 0, 0, 0, 11},
        {HF__LEASE, HF__POSTGRES, 0, 1, 1, 1, 4},       {HF__LEASE, HF__MYSQL, 0, 1, 1, 1, 4},
        {HF__LEASE, HF__SQLITE, 0, 1, 1, 1, 4},         {HF__ADVISORY_LOCK, HF__POSTGRES, 1, 0, 0, 0, 11},
        {HF__ADVISORY_LOCK, HF__MYSQL, 1, 0, 0, 0, 11}, {HF__ADVISORY_LOCK, HF__SQLITE, 0, 1, 1, 0, 3},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf__cost_input input = {.kind = cases[i].kind, .database = cases[i].database, .workers = 10};
        struct hf__cost cost = hf__cost_of(&input);
        CU_ASSERT_EQUAL(cost.held_per_delivery, cases[i].held_per_delivery);
        CU_ASSERT_EQUAL(cost.held, cases[i].held_per_delivery * 10);
        CU_ASSERT_EQUAL(cost.claim, cases[i].claim);
        CU_ASSERT_EQUAL(cost.settle, cases[i].settle);
        CU_ASSERT_EQUAL(cost.renew, cases[i].renew);
        CU_ASSERT_EQUAL(cost.reserved, cases[i].renew);
        CU_ASSERT_EQUAL(cost.listen, 0);
        CU_ASSERT_EQUAL(cost.handler, 0);
        CU_ASSERT_EQUAL(cost.spare, 1);
        CU_ASSERT_EQUAL(cost.minimum, 1);
        CU_ASSERT_EQUAL(cost.pool_size, cases[i].pool_size_for_10);
    }
}

/* A transaction of the delivery is the connection that holds the row: never a second one. */
static void transactional(void)
{
    static const struct {
        enum hf__strategy_kind kind;
        enum hf__database database;
        size_t pool_size_for_10, minimum;
    } cases[] = {
        {HF__ROW_LOCK, HF__POSTGRES, 11, 1},    {HF__ADVISORY_LOCK, HF__MYSQL, 11, 1},
        {HF__ROW_LOCK, HF__MYSQL, 11, 1},       {HF__ADVISORY_LOCK, HF__POSTGRES, 11, 1},
        {HF__ADVISORY_LOCK, HF__SQLITE, 13, 1}, {HF__LEASE, HF__POSTGRES, 14, 2}, /* a renewal has to get through beside it */
        {HF__LEASE, HF__MYSQL, 14, 2},          {HF__LEASE, HF__SQLITE, 14, 2},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf__cost_input input = {.kind = cases[i].kind, .database = cases[i].database, .workers = 10, .transactional = true};
        struct hf__cost cost = hf__cost_of(&input);
        CU_ASSERT_EQUAL(cost.held_per_delivery, 1);
        CU_ASSERT_EQUAL(cost.held, 10);
        CU_ASSERT_EQUAL(cost.pool_size, cases[i].pool_size_for_10);
        CU_ASSERT_EQUAL(cost.minimum, cases[i].minimum);
        input.handler_connections = 2;
        cost = hf__cost_of(&input);
        CU_ASSERT_EQUAL(cost.handler, 20);
        CU_ASSERT_EQUAL(cost.pool_size, cases[i].pool_size_for_10 + 20);
        CU_ASSERT_EQUAL(cost.minimum, cases[i].minimum + 2);
    }
}

/* Row lock: one for the whole batch. Lease: none. Advisory lock: one for each row, as far as the pool goes. */
static void batches(void)
{
    static const struct {
        enum hf__strategy_kind kind;
        enum hf__database database;
        size_t held, pool_size, extra, extra_of_less;
    } cases[] = {
        {HF__ROW_LOCK, HF__POSTGRES, 5, 6, 0, 0},
        {HF__LEASE, HF__POSTGRES, 0, 4, 0, 0},
        {HF__ADVISORY_LOCK, HF__MYSQL, 40, 41, 35, 34},
        {HF__ADVISORY_LOCK, HF__SQLITE, 0, 3, 0, 0},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct hf__cost_input input = {.kind = cases[i].kind, .database = cases[i].database, .workers = 5, .batch = 8};
        struct hf__cost cost = hf__cost_of(&input);
        CU_ASSERT_EQUAL(cost.held, cases[i].held);
        CU_ASSERT_EQUAL(cost.pool_size, cases[i].pool_size);
        CU_ASSERT_EQUAL(cost.minimum, 1);
        CU_ASSERT_EQUAL(hf__cost_extra_within(&input, cost.pool_size), cases[i].extra);
        CU_ASSERT_EQUAL(hf__cost_extra_within(&input, cost.pool_size - 1), cases[i].extra_of_less);
        CU_ASSERT_EQUAL(hf__cost_extra_within(&input, 1), 0);
    }
    struct hf__cost_input shrinking = {.kind = HF__ADVISORY_LOCK, .workers = 5, .batch = 8, .handler_connections = 1};
    CU_ASSERT_EQUAL(hf__cost_workers_within(&shrinking, 11), 5); /* 5 rows, 5 of the handlers', 1 spare */
    CU_ASSERT_EQUAL(hf__cost_extra_within(&shrinking, 11), 0);
    CU_ASSERT_EQUAL(hf__cost_extra_within(&shrinking, 12), 1); /* never what the handlers have declared */
}

static void handlers_and_listening(void)
{
    struct hf__cost_input input = {.kind = HF__ROW_LOCK, .database = HF__POSTGRES, .workers = 4, .handler_connections = 2, .listens = true};
    struct hf__cost cost = hf__cost_of(&input);
    CU_ASSERT_EQUAL(cost.handler, 8);
    CU_ASSERT_EQUAL(cost.listen, 1);
    CU_ASSERT_EQUAL(cost.pool_size, 4 + 8 + 1 + 1);
    CU_ASSERT_EQUAL(cost.minimum, 3); /* a delivery that cannot get its second connection never ends */
    input.kind = HF__LEASE;
    cost = hf__cost_of(&input);
    CU_ASSERT_EQUAL(cost.pool_size, 8 + 1 + 1 + 1 + 1 + 1);
    CU_ASSERT_EQUAL(cost.minimum, 3);
}

static void workers_within(void)
{
    static const struct {
        struct hf__cost_input input;
        size_t pool_size, workers;
    } cases[] = {
        {{.kind = HF__ROW_LOCK, .workers = 10}, 0, 0},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 1, 1},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 2, 1},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 3, 2},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 10, 9},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 11, 10},
        {{.kind = HF__ROW_LOCK, .workers = 10}, 1000, 10},
        {{.kind = HF__ROW_LOCK, .workers = 0}, 11, 0},
        {{.kind = HF__ROW_LOCK, .workers = 10, .listens = true}, 11, 9},
        {{.kind = HF__ROW_LOCK, .workers = 10, .handler_connections = 1}, 21, 10},
        {{.kind = HF__ROW_LOCK, .workers = 10, .handler_connections = 1}, 20, 9},
        {{.kind = HF__ROW_LOCK, .workers = 10, .handler_connections = 1}, 2, 1},
        {{.kind = HF__LEASE, .workers = 10}, 1, 10},
        {{.kind = HF__LEASE, .workers = 10}, 4, 10},
        {{.kind = HF__LEASE, .workers = 10, .transactional = true}, 14, 10},
        {{.kind = HF__LEASE, .workers = 10, .transactional = true}, 13, 9},
        {{.kind = HF__LEASE, .workers = 10, .transactional = true}, 2, 1},
        {{.kind = HF__ADVISORY_LOCK, .workers = 10}, 5, 4},
        {{.kind = HF__ADVISORY_LOCK, .database = HF__SQLITE, .workers = 10}, 1, 10},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        size_t workers = hf__cost_workers_within(&cases[i].input, cases[i].pool_size);
        if (workers != cases[i].workers) {
            hf_test_fail("case %zu: %zu workers, not %zu", i, workers, cases[i].workers);
        }
    }
}

/* For every combination: the recommended pool lets all workers run and one less does not (where any are held), the number of
 * deliveries never falls as the pool grows, and what they hold together with what the others need fits. */
static void check_combination(const struct hf__cost_input *input)
{
    struct hf__cost cost = hf__cost_of(input);
    size_t others = cost.claim + cost.settle + cost.renew + cost.listen + cost.spare;
    size_t kept = cost.held_per_delivery + input->handler_connections;
    CU_ASSERT_EQUAL(cost.pool_size, cost.held + cost.handler + others);
    CU_ASSERT_TRUE(cost.minimum >= 1 && cost.minimum <= cost.pool_size);
    CU_ASSERT_EQUAL(hf__cost_workers_within(input, cost.pool_size), input->workers);
    size_t extra = hf__cost_extra_within(input, cost.pool_size);
    CU_ASSERT_EQUAL(cost.held, cost.held_per_delivery * input->workers + extra);
    if (kept > 0 && input->workers > 1) {
        CU_ASSERT_EQUAL(hf__cost_workers_within(input, cost.pool_size - 1 - extra), input->workers - 1);
    }
    size_t before = 1;
    for (size_t size = 1; size <= cost.pool_size + 2; size++) {
        size_t workers = hf__cost_workers_within(input, size);
        CU_ASSERT_TRUE(workers >= before && workers <= input->workers);
        CU_ASSERT_TRUE(workers == 1 || workers * kept + others <= size || kept == 0);
        before = workers;
    }
}

/* Takes the last digit off a number. */
static unsigned digit(unsigned *rest, unsigned base)
{
    unsigned last = *rest % base;
    *rest /= base;
    return last;
}

static void combinations(void)
{
    for (unsigned i = 0; i < 3 * 3 * 4 * 3 * 2 * 2 * 3; i++) {
        unsigned rest = i;
        struct hf__cost_input input = {0};
        input.kind = (enum hf__strategy_kind)digit(&rest, 3);
        input.database = (enum hf__database)digit(&rest, 3);
        input.workers = digit(&rest, 4) + 1;
        input.handler_connections = digit(&rest, 3);
        input.transactional = digit(&rest, 2) == 1;
        input.listens = digit(&rest, 2) == 1;
        input.batch = digit(&rest, 3);
        check_combination(&input);
    }
}

static void never_wraps(void)
{
    struct hf__cost_input input = {.kind = HF__ROW_LOCK, .workers = SIZE_MAX, .handler_connections = 2};
    struct hf__cost cost = hf__cost_of(&input);
    CU_ASSERT_EQUAL(cost.pool_size, SIZE_MAX);
    CU_ASSERT_EQUAL(cost.handler, SIZE_MAX);
    struct hf__cost_input many = {.kind = HF__ADVISORY_LOCK, .workers = 2, .batch = SIZE_MAX};
    CU_ASSERT_EQUAL(hf__cost_of(&many).pool_size, SIZE_MAX);
    CU_ASSERT_EQUAL(hf__cost_workers_within(&input, 4), 1);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"the_table", the_table},
        {"transactional", transactional},
        {"batches", batches},
        {"handlers_and_listening", handlers_and_listening},
        {"workers_within", workers_within},
        {"combinations", combinations},
        {"never_wraps", never_wraps},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "cost", tests);
}
