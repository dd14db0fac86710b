#include <math.h>
#include <stdlib.h>

#include "bench/model.h"
#include "tests/support.h"

#define NEAR(a, b, share) CU_ASSERT(near_by((a), (b), (share)))

static bool near_by(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

static struct bench_model model_of(const struct bench_model_input *input)
{
    struct bench_model model;
    hf_error err = {.status = HF_OK};
    HF_TEST_OK(bench_model_of(input, &model, &err), &err);
    return model;
}

/* Claims and settles that do not hinder each other: mu(n) = n / S. */
static struct bench_model linear(size_t workers, double handler_ms, double database_ms)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000 / database_ms}, {.n = 1e6, .jobs_per_second = 1e9 / database_ms}};
    struct bench_model_input input = {.workers = workers, .handler_ms = handler_ms, .speed = speed, .n_speed = 2};
    return model_of(&input);
}

static size_t binomial_p99(size_t n, double p)
{
    double sum = 0, log_p = (double)n * log1p(-p);
    for (size_t k = 0;; k++) {
        sum += exp(log_p);
        if (sum >= 0.99 || k == n)
            return k;
        log_p += log((double)(n - k) / (double)(k + 1) * p / (1 - p));
    }
}

static void binomial(void)
{
    static const size_t workers[] = {1, 4, 16, 64, 10000};
    for (size_t i = 0; i < 5; i++) {
        struct bench_model model = linear(workers[i], 5, 2);
        NEAR(model.in_handler_mean, (double)workers[i] * 5 / 7, 1e-6);
        NEAR(model.jobs_per_second, (double)workers[i] * 1000 / 7, 1e-6);
        CU_ASSERT_EQUAL(model.in_handler_p99, binomial_p99(workers[i], 5.0 / 7));
    }
}

/* One database that does one thing at a time: M/M/1//N, whose utilisation is 1 - 1 / sum N! / (N-n)! r^n. N = 3, r = 1/2: 1 - 1 / 4.75. */
static void one_at_a_time(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000}};
    struct bench_model_input input = {.workers = 3, .handler_ms = 2, .speed = speed, .n_speed = 1};
    struct bench_model model = model_of(&input);
    NEAR(model.jobs_per_second, 1000 * (1 - 1 / 4.75), 1e-9);
    NEAR(model.database_utilisation, 1 - 1 / 4.75, 1e-9);
}

/* Who is woken late is in the handler for longer: 3 ms of work and 2 ms too late are 5 ms. The more are in the database, the later. */
static void late(void)
{
    const struct bench_speed same[] = {{.n = 1, .jobs_per_second = 500, .late_ms = 2}, {.n = 1e6, .jobs_per_second = 5e8, .late_ms = 2}},
                             busy[] = {{.n = 1, .jobs_per_second = 500}, {.n = 16, .jobs_per_second = 8000, .late_ms = 30}};
    struct bench_model_input input = {.workers = 16, .handler_ms = 3, .speed = same, .n_speed = 2};
    struct bench_model model = model_of(&input), same_model = linear(16, 5, 2);
    NEAR(model.jobs_per_second, same_model.jobs_per_second, 1e-9);
    NEAR(model.in_handler_mean, same_model.in_handler_mean, 1e-9);
    CU_ASSERT_EQUAL(model.in_handler_p99, same_model.in_handler_p99);
    input.arrivals_per_second = 100;
    NEAR(model_of(&input).in_handler_mean, 0.5, 1e-9);
    input.speed = busy;
    double one = model_of(&input).in_handler_mean;
    NEAR(one, 0.3, 0.1);
    input.arrivals_per_second = 0;
    model = model_of(&input);
    CU_ASSERT(model.in_handler_mean / model.jobs_per_second > 1.5 * one / 100);
}

/* What was measured to spread twice as wide is held twice as far from the mean, and never by more workers than there are. */
static void spread(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 500, .spread = 2}, {.n = 1e6, .jobs_per_second = 5e8, .spread = 2}},
                             narrow[] = {{.n = 1, .jobs_per_second = 500, .spread = 0.5},
                                         {.n = 1e6, .jobs_per_second = 5e8, .spread = 0.5}};
    struct bench_model_input input = {.workers = 64, .handler_ms = 2, .speed = speed, .n_speed = 2};
    CU_ASSERT_EQUAL(model_of(&input).in_handler_p99, 2 * binomial_p99(64, 0.5) - 32);
    input.handler_ms = 50;
    CU_ASSERT_EQUAL(model_of(&input).in_handler_p99, 64);
    input.arrivals_per_second = 100;
    CU_ASSERT(model_of(&input).in_handler_p99 > 13);
    input.speed = narrow;
    CU_ASSERT(model_of(&input).in_handler_p99 < 13);
    input.arrivals_per_second = 0;
    input.handler_ms = 2;
    CU_ASSERT_EQUAL(model_of(&input).in_handler_p99, binomial_p99(64, 0.5));
}

static void no_handler(void)
{
    const struct bench_speed speed[] = {
        {.n = 1, .jobs_per_second = 1000}, {.n = 2, .jobs_per_second = 1800}, {.n = 4, .jobs_per_second = 2000}};
    struct bench_model_input input = {.workers = 3, .speed = speed, .n_speed = 3};
    struct bench_model model = model_of(&input);
    NEAR(model.jobs_per_second, 1900, 1e-9);
    CU_ASSERT_EQUAL(model.in_handler_p99, 0);
    CU_ASSERT_EQUAL(model.in_handler_mean, 0);
    NEAR(model.in_database_mean, 3, 1e-9);
}

/* What is claimed ahead keeps the workers busy. */
static void ahead(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000}, {.n = 64, .jobs_per_second = 64000}};
    struct bench_model_input input = {.workers = 4, .ahead = 8, .handler_ms = 2, .speed = speed, .n_speed = 2};
    NEAR(model_of(&input).worker_utilisation, 1, 0.01);
    input.ahead = 0;
    NEAR(model_of(&input).worker_utilisation, 2.0 / 3, 1e-9);
}

static struct bench_model arriving(size_t workers, double rate, double handler_ms, double scv)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1e9}, {.n = 1e6, .jobs_per_second = 1e15}};
    struct bench_model_input input = {
        .workers = workers, .handler_ms = handler_ms, .handler_scv = scv, .arrivals_per_second = rate, .speed = speed, .n_speed = 2};
    return model_of(&input);
}

/* M/M/1 with load 0.8 and 10 ms: wait 40 ms, its p99 50 ln 80 ms; M/D/1 waits half as long; M/M/2 with load 1.5: C = 9/14. */
static void waits(void)
{
    struct bench_model model = arriving(1, 80, 10, 1);
    NEAR(model.start_wait_mean_ms, 40, 1e-4);
    NEAR(model.start_wait_p99_ms, 50 * log(80), 1e-4);
    NEAR(arriving(1, 80, 10, 0).start_wait_mean_ms, 20, 1e-4);
    NEAR(arriving(2, 150, 10, 1).start_wait_mean_ms, 9.0 / 14 * 10 / 0.5, 1e-4);
    NEAR(arriving(10, 0.001, 10, 1).in_handler_mean, 1e-5, 1e-4);
    CU_ASSERT_EQUAL(arriving(10, 0.001, 10, 1).start_wait_p99_ms, 0);
}

/* With ample workers the number in handlers is Poisson: of mean 10 its p99 is 18, of mean 1 it is 4. */
static void poisson(void)
{
    CU_ASSERT_EQUAL(arriving(10000, 1000, 10, 1).in_handler_p99, 18);
    CU_ASSERT_EQUAL(arriving(1000, 100, 10, 0).in_handler_p99, 4);
}

static void too_much(void)
{
    struct bench_model model = arriving(4, 401, 10, 1), full = arriving(4, 0, 10, 1);
    CU_ASSERT_FALSE(model.stable);
    NEAR(model.jobs_per_second, full.jobs_per_second, 1e-9);
    CU_ASSERT_TRUE(arriving(4, 399, 10, 1).stable);
}

/* Erlang C by its definition, a sum of powers. */
static double textbook_c(size_t servers, double load)
{
    double sum = 0, term = 1;
    for (size_t k = 0; k < servers; k++) {
        sum += term;
        term *= load / (double)(k + 1);
    }
    double last = term * (double)servers / ((double)servers - load);
    return last / (sum + last);
}

static void enough_workers(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1e9}, {.n = 1e6, .jobs_per_second = 1e15}};
    static const double loads[] = {0.5, 1, 10, 40};
    for (size_t i = 0; i < 4; i++) {
        struct bench_model_input input = {.handler_ms = 10, .arrivals_per_second = loads[i] * 100, .speed = speed, .n_speed = 2};
        for (input.workers = 1; input.workers < 80; input.workers++) {
            bool right = (double)input.workers > loads[i] && textbook_c(input.workers, loads[i]) <= 0.05;
            CU_ASSERT_EQUAL(bench_model_enough(&input, 0.05), right);
            CU_ASSERT_EQUAL(bench_model_enough(&input, 1), (double)input.workers > loads[i]);
        }
    }
    /* Claimed ahead, a job occupies a worker for its handler alone; but so few workers must not be too few to keep the database busy. */
    const struct bench_speed each[] = {{.n = 1, .jobs_per_second = 500}, {.n = 1e6, .jobs_per_second = 5e8}};
    struct bench_model_input input = {.handler_ms = 0.001, .arrivals_per_second = 3500, .speed = each, .n_speed = 2};
    for (input.workers = input.ahead = 1; input.workers < 80; input.ahead = ++input.workers)
        CU_ASSERT_EQUAL(bench_model_enough(&input, 0.05), input.workers >= 4);
}

/* Two ask, one connection, equal times: who asks finds it taken with probability 1/2 and waits exponentially: p99 = ln 50 holds. */
static void connections(void)
{
    CU_ASSERT_EQUAL(bench_model_connection_wait_p99_ms(4, 4, 1, 1), 0);
    NEAR(bench_model_connection_wait_p99_ms(2, 1, 3, 3), 3 * log(50), 1e-6);
    NEAR(bench_model_connection_wait_p99_ms(2, 1, 3, 0), 3 * log(100), 1e-6);
    CU_ASSERT_EQUAL(bench_model_connection_wait_p99_ms(2, 1, 1, 1000), 0);
    /* ten ask all the time for one: nine of them are served first, Erlang(9): chi square of 18 degrees at 99 %, 34.805 / 2 */
    NEAR(bench_model_connection_wait_p99_ms(10, 1, 1, 0), 34.8053 / 2, 1e-4);
}

/* ---- against a simulation: N workers, one database that serves one at a time ---- */

static double drawn(unsigned short seed[3], bool constant, double mean)
{
    return constant ? mean : -mean * log1p(-erand48(seed));
}

static size_t first_ready(const double *ready, size_t workers)
{
    size_t first = 0;
    for (size_t i = 1; i < workers; i++)
        first = ready[i] < ready[first] ? i : first;
    return first;
}

static double simulated(size_t workers, double handler, double database, bool constant)
{
    enum { JOBS = 200000, MOST = 16 };
    unsigned short seed[3] = {1, 2, 3};
    double ready[MOST] = {0}, free_at = 0;
    for (size_t job = 0; job < JOBS; job++) {
        size_t first = first_ready(ready, workers);
        free_at = fmax(free_at, ready[first]) + drawn(seed, false, database);
        ready[first] = free_at + drawn(seed, constant, handler);
    }
    return JOBS / free_at * 1000;
}

static void simulation(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000}};
    static const struct {
        size_t workers;
        double handler;
    } cases[] = {{1, 5}, {4, 5}, {8, 5}, {16, 5}, {8, 50}};
    for (size_t i = 0; i < 5; i++) {
        struct bench_model_input input = {.workers = cases[i].workers, .handler_ms = cases[i].handler, .speed = speed, .n_speed = 1};
        double model = model_of(&input).jobs_per_second;
        NEAR(simulated(cases[i].workers, cases[i].handler, 1, false), model, 0.03);
        NEAR(simulated(cases[i].workers, cases[i].handler, 1, true), model, 0.03);
    }
}

/* ---- and another: jobs that arrive, in batches ---- */

struct came {
    double wait_mean_ms, batch_mean, busy_mean, rows_mean;
};

/* Workers take what waits, up to a batch, or else what comes next; the database takes an exponential time for each claim and settle. */
static struct came came(const struct bench_model_input *input, double database, bool constant)
{
    enum { JOBS = 1000000, MOST = 16 };
    unsigned short seed[3] = {4, 5, 6};
    static double due[JOBS + 1];
    double ready[MOST] = {0}, waits = 0, occupied = 0, rows = 0;
    size_t batches = 0;
    for (size_t i = 0; i < JOBS; i++)
        due[i] = (i > 0 ? due[i - 1] : 0) + drawn(seed, false, 1000 / input->arrivals_per_second);
    for (size_t job = 0; job < JOBS; batches++) {
        size_t first = first_ready(ready, input->workers), before = job;
        double start = fmax(ready[first], due[job]), claim = drawn(seed, false, database / 2) + drawn(seed, false, database / 2),
               handlers = 0;
        for (size_t n = 0; n == 0 || (n < (size_t)input->batch && job < JOBS && due[job] <= start); n++) {
            waits += start - due[job++];
            handlers += drawn(seed, constant, input->handler_ms);
        }
        ready[first] = start + claim + handlers;
        occupied += claim + handlers;
        rows += (double)(job - before) * handlers;
    }
    return (struct came){waits / JOBS, JOBS / (double)batches, occupied / due[JOBS - 1], rows / due[JOBS - 1]};
}

static void holds(const struct bench_model_input *input, double database, bool constant)
{
    struct bench_model model = model_of(input);
    struct came seen = came(input, database, constant);
    CU_ASSERT_TRUE(model.stable);
    NEAR(model.batch_mean, seen.batch_mean, 0.03);
    NEAR(model.in_handler_mean + model.in_database_mean, seen.busy_mean, 0.02);
    NEAR(model.rows_in_handler_mean, seen.rows_mean, 0.04);
    NEAR(model.start_wait_mean_ms, seen.wait_mean_ms, 0.1);
}

/* Also where batches form, and the workers are hardly ever idle. */
static void arriving_batches(void)
{
    static const struct {
        size_t workers;
        double batch, rate, database, handler;
    } cases[] = {{1, 10, 900, 1, 0}, {4, 3, 8000, 1, 0},  {4, 16, 600, 5, 5},   {1, 8, 150, 5, 5},  {16, 10, 2000, 5, 5},
                 {4, 4, 360, 2, 10}, {4, 10, 240, 2, 10}, {2, 100, 800, 20, 2}, {4, 10, 370, 2, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double each = 1000 * cases[i].batch / cases[i].database;
        const struct bench_speed alone[] = {{.n = 1, .jobs_per_second = each}, {.n = 1e6, .jobs_per_second = 1e6 * each}};
        struct bench_model_input input = {.workers = cases[i].workers,
                                          .batch = cases[i].batch,
                                          .handler_ms = cases[i].handler,
                                          .arrivals_per_second = cases[i].rate,
                                          .speed = alone,
                                          .n_speed = 2};
        holds(&input, cases[i].database, true);
        input.handler_scv = 1;
        holds(&input, cases[i].database, false);
    }
}

/* Full batches keep up with more than single jobs do, although the handlers of a batch run one after the other. */
static void most_in_batches(void)
{
    const struct bench_speed alone[] = {{.n = 1, .jobs_per_second = 2000}, {.n = 1e6, .jobs_per_second = 2e9}};
    struct bench_model_input input = {
        .workers = 4, .batch = 10, .handler_ms = 1, .arrivals_per_second = 2600, .speed = alone, .n_speed = 2};
    CU_ASSERT_TRUE(model_of(&input).stable); /* 4 x 10 in 5 + 10 ms are 2,667 a second; one by one they are 667 */
    input.arrivals_per_second = 2700;
    CU_ASSERT_FALSE(model_of(&input).stable);
    input.arrivals_per_second = 660;
    input.batch = 1;
    const struct bench_speed each[] = {{.n = 1, .jobs_per_second = 200}, {.n = 1e6, .jobs_per_second = 2e8}};
    input.speed = each;
    CU_ASSERT_TRUE(model_of(&input).stable);
    input.arrivals_per_second = 670;
    CU_ASSERT_FALSE(model_of(&input).stable);
}

/* A full batch of ten is in the database for 10 ms; a single job for a fifth of that, and it grows evenly between. */
static void small_batches(void)
{
    const struct bench_speed speed[] = {{.n = 1, .jobs_per_second = 1000, .single = 0.2},
                                        {.n = 1e6, .jobs_per_second = 1e9, .single = 0.2}};
    struct bench_model_input input = {
        .workers = 100, .batch = 10, .handler_ms = 1, .arrivals_per_second = 10, .speed = speed, .n_speed = 2};
    struct bench_model rare = model_of(&input);
    CU_ASSERT_EQUAL(rare.batch_mean, 1);
    NEAR(rare.in_database_mean, 10 * 0.002, 0.01);
    input.workers = 2;
    input.arrivals_per_second = 800;
    struct bench_model often = model_of(&input);
    double share = 0.2 + 0.8 * (often.batch_mean - 1) / 9;
    CU_ASSERT(often.batch_mean > 1.5 && often.batch_mean < 9);
    NEAR(often.in_database_mean, 0.8 / often.batch_mean * 10 * share, 0.01);
    input.arrivals_per_second = 0;
    NEAR(model_of(&input).jobs_per_second, 2 * 10 / (10 + 10 * 1.0) * 1000, 1e-6);
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {{"binomial", binomial},
                           {"one at a time", one_at_a_time},
                           {"late handlers", late},
                           {"spread", spread},
                           {"no handler", no_handler},
                           {"ahead", ahead},
                           {"waits", waits},
                           {"poisson", poisson},
                           {"too much", too_much},
                           {"enough workers", enough_workers},
                           {"connections", connections},
                           {"simulation", simulation},
                           {"batches that arrive", arriving_batches},
                           {"the most in batches", most_in_batches},
                           {"small batches", small_batches},
                           CU_TEST_INFO_NULL};
    return hf_test_main(argc, argv, "bench_model", tests);
}
