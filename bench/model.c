/* The formulas, each with its source. Nothing here allocates but what is simulated. */
#include "bench/model.h"

#include <math.h>

#include "bench/birth_death.h"
#include "bench/simulation.h"
#include "bench/speed_curve.h"

#define LATE_P99 0.01
#define NEARLY (1 - 1e-9) /* a little below what can be done the queue is longer than anyone would call stable */

static double smaller(size_t a, size_t b)
{
    return (double)(a < b ? a : b);
}

/* ---- a full table: closed queueing network ---- */

/* `customers` deliveries go round between the handlers and the database. The handlers are a delay station of one server for each worker
 * (so the law of a handler's time does not matter but for its mean, as long as nothing is claimed ahead: Baskett, Chandy, Muntz, Palacios,
 * JACM 22, 1975). The database is a flow-equivalent server, whose rate depends on how many are in it: it stands for whatever happens inside
 * (Chandy, Herzog, Woo: Parametric analysis of queueing networks, IBM J. Res. Dev. 19, 1975: Norton's theorem for queueing networks). So
 * the number in the database is a birth-death process: up with min(customers - n, workers) / handler_ms, down with the speed at n. */
struct closed {
    const struct bench_model_input *input;
    size_t customers;
    double jobs; /* of each batch */
    double per_ms, in_database, in_handler;
    size_t in_handler_p99;
};

static double running(const struct closed *closed, size_t in_database)
{
    return smaller(closed->customers - in_database, closed->input->workers);
}

static double into_database(size_t n, const void *ctx)
{
    const struct closed *closed = ctx;
    return running(closed, n) / (bench_curve_handler_ms(closed->input, (double)n) * closed->jobs) /
           bench_curve_speed(closed->input, (double)n + 1, closed->jobs);
}

/* The most that are outside for 99 % of the time, from below: with at most `n` in the database for at most 1 % of it, no more than
 * customers - n - 1 are outside for the rest. */
static size_t outside_p99(const struct bench_law *law, size_t customers)
{
    struct bench_law_place at = bench_law_first(law);
    double below = exp(at.log_p);
    while (below <= LATE_P99 && bench_law_next(law, &at))
        below += exp(at.log_p);
    return customers - at.n;
}

static void solve_law(struct closed *closed)
{
    struct bench_law law = bench_law_of(closed->customers, bench_curve_grows_from(closed->input), into_database, closed);
    struct bench_law_place at = bench_law_first(&law);
    bool more = true;
    for (; more; more = bench_law_next(&law, &at)) {
        double p = exp(at.log_p), in_handler = running(closed, at.n);
        closed->per_ms += p * bench_curve_speed(closed->input, (double)at.n, closed->jobs);
        closed->in_database += p * (double)at.n;
        closed->in_handler += p * in_handler;
    }
    closed->in_handler_p99 = (size_t)smaller(outside_p99(&law, closed->customers), closed->input->workers);
}

/* With handlers that take no time all are in the database, always. */
static struct closed solve_closed(const struct bench_model_input *input, size_t customers, double jobs)
{
    struct closed closed = {.input = input, .customers = customers, .jobs = jobs};
    if (input->handler_ms > 0) {
        solve_law(&closed);
    } else {
        closed.per_ms = bench_curve_speed(input, (double)customers, jobs);
        closed.in_database = (double)customers;
    }
    return closed;
}

/* A p99 by the law, as much farther from the mean as was measured. */
static size_t widened(const struct bench_model_input *input, double in_database, double mean, size_t p99)
{
    double spread = bench_curve_at(input, in_database).spread;
    return spread > 1 ? (size_t)fmin(round(mean + ((double)p99 - mean) * spread), (double)input->workers) : p99;
}

/* Of batches of so many jobs. */
static struct bench_model full_table(const struct bench_model_input *input, double jobs)
{
    struct closed closed = solve_closed(input, input->workers + input->ahead, jobs);
    size_t p99 = widened(input, closed.in_database, closed.in_handler, closed.in_handler_p99);
    return (struct bench_model){
        .stable = true,
        .jobs_per_second = closed.per_ms * 1000 * jobs,
        .batch_mean = jobs,
        .in_handler_mean = closed.in_handler,
        .in_handler_p99 = p99,
        .rows_in_handler_mean = jobs * closed.in_handler,
        .rows_in_handler_p99 = (size_t)ceil(jobs * (double)p99),
        .in_database_mean = closed.in_database,
        .worker_utilisation = closed.in_handler / (double)input->workers,
        .database_utilisation = fmin(1, closed.per_ms / bench_curve_best(input, jobs)),
        .hold_ms = bench_curve_at(input, closed.in_database).hold_ms,
    };
}

struct bench_model bench_model_full_table(const struct bench_model_input *input)
{
    return full_table(input, bench_curve_batch(input));
}

static bool too_much(const struct bench_model_input *input, const struct bench_model *full)
{
    return input->arrivals_per_second >= full->jobs_per_second * NEARLY;
}

/* What is between 0 and `most` and up to which `is_below` holds, by halves. */
static double boundary(double most, bool (*is_below)(double x, void *ctx), void *ctx)
{
    enum { HALVINGS = 50 };
    double low = 0, high = most;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        *(is_below(middle, ctx) ? &low : &high) = middle;
    }
    return high;
}

/* ---- jobs that arrive, one by one: M/G/N ---- */

struct open {
    const struct bench_model_input *input;
    double per_ms;      /* arrivals */
    double database_ms; /* that a job is between claim and settle, outside the handler */
    double handler_ms;
    double service_ms; /* that a worker is occupied with it */
    double busy;       /* workers, on average: what is offered */
};

/* The times in the database and in the handler when n workers go round (Little's law over the closed network); for a number between two
 * whole ones on the line that joins them. What is claimed ahead occupies no worker in the database. */
static void put_times(struct open *open, double n)
{
    double whole = floor(n), share = n - whole;
    struct closed low = solve_closed(open->input, (size_t)whole, 1);
    struct closed high = share > 0 ? solve_closed(open->input, (size_t)whole + 1, 1) : low;
    open->database_ms = bench_between(low.in_database / low.per_ms, high.in_database / high.per_ms, share);
    open->handler_ms = bench_between(low.in_handler / low.per_ms, high.in_handler / high.per_ms, share);
    open->service_ms = open->handler_ms + (open->input->ahead > 0 ? 0 : open->database_ms);
}

/* How long the database takes depends on how many are at work, and that on how long it takes. A job that arrives finds `busy` others, and
 * with itself that is the population of the closed network whose time it sees (arrival theorem: Reiser, Lavenberg, JACM 27, 1980). */
static bool is_more_offered(double busy, void *ctx)
{
    struct open *open = ctx;
    put_times(open, fmin((double)open->input->workers, busy + 1));
    return open->per_ms * open->service_ms > busy;
}

/* Of a rate that a full table's workers would keep up with: there is one number of busy workers that fits then. */
static struct open open_of(const struct bench_model_input *input)
{
    struct open open = {.input = input, .per_ms = input->arrivals_per_second / 1000};
    double workers = (double)input->workers;
    put_times(&open, fmin(workers, boundary(workers, is_more_offered, &open) + 1));
    open.busy = fmin(open.per_ms * open.service_ms, workers * NEARLY);
    return open;
}

/* The share of the jobs that find all workers busy when they arrive at random: Erlang C. Through Erlang's loss formula, whose recursion
 * B(n) = a B(n-1) / (n + a B(n-1)) is stable for every size (Cooper, Introduction to Queueing Theory, 3.4 and 3.5). */
static double late_share(const struct open *open)
{
    double loss = 1, workers = (double)open->input->workers;
    for (size_t n = 1; n <= open->input->workers; n++)
        loss = open->busy * loss / ((double)n + open->busy * loss);
    return loss / (1 - open->busy / workers * (1 - loss));
}

/* The mean wait of M/M/N, for service times of any law by Lee and Longton's factor (1 + scv) / 2 (Queueing processes associated with
 * airline passenger check-in, Oper. Res. Quart. 10, 1959; exact for one worker: Pollaczek and Khinchine). The time in the database counts
 * as that of two exponential stages, a claim and a settle. The wait of those who wait has an exponential tail, as in M/M/N. */
static void put_wait(const struct open *open, struct bench_model *model)
{
    double apart = open->service_ms - open->handler_ms, handler = open->handler_ms, late = late_share(open);
    double square = open->service_ms * open->service_ms;
    double scv = square > 0 ? (handler * handler * open->input->handler_scv + apart * apart / 2) / square : 0;
    double waited = open->service_ms / ((double)open->input->workers - open->busy) * (1 + scv) / 2;
    model->start_wait_mean_ms = late * waited;
    model->start_wait_p99_ms = late > LATE_P99 ? waited * log(late / LATE_P99) : 0;
}

/* Workers that are busy; the state "all are" stands for every length of the queue. */
static double into_work(size_t n, const void *ctx)
{
    const struct open *open = ctx;
    double ratio = open->busy / ((double)n + 1), workers = (double)open->input->workers;
    return n + 1 == open->input->workers ? ratio / (1 - open->busy / workers) : ratio;
}

/* The share of the time in which at most m of the busy workers are in a handler: each is with the probability q, apart from the others, so
 * the number is binomial in the busy ones. Of up to m busy ones all may be; from b to b + 1, P(X <= m) falls by q P(X = m). */
static double share_within(const struct bench_law *busy, double q, size_t m)
{
    struct bench_law_place at = bench_law_first(busy);
    double total = 0, within = 1, log_exactly = m == 0 ? 0 : (double)m * log(q);
    size_t of = m; /* busy workers, that `within` and `log_exactly` are of */
    bool more = true;
    for (; more; more = bench_law_next(busy, &at)) {
        while (of < at.n) {
            within -= q * exp(log_exactly);
            of++;
            log_exactly += log((double)of / (double)(of - m)) + log1p(-q);
        }
        total += exp(at.log_p) * fmax(within, 0);
    }
    return total;
}

static size_t in_handler_p99(const struct open *open)
{
    struct bench_law busy = bench_law_of(open->input->workers, 0, into_work, open);
    double q = open->service_ms > 0 ? open->handler_ms / open->service_ms : 0;
    size_t low = 0, high = open->input->workers;
    while (low < high && q > 0) {
        size_t middle = low + (high - low) / 2;
        if (share_within(&busy, q, middle) >= 1 - LATE_P99)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct bench_model one_by_one(const struct bench_model_input *input)
{
    struct open open = open_of(input);
    double in_handler = open.per_ms * open.handler_ms, in_database = open.per_ms * open.database_ms;
    size_t p99 = widened(input, in_database, in_handler, in_handler_p99(&open));
    struct bench_model model = {
        .stable = true,
        .jobs_per_second = input->arrivals_per_second,
        .batch_mean = 1,
        .in_handler_mean = in_handler,
        .in_handler_p99 = p99,
        .rows_in_handler_mean = in_handler,
        .rows_in_handler_p99 = p99,
        .in_database_mean = in_database,
        .worker_utilisation = in_handler / (double)input->workers,
        .database_utilisation = fmin(1, open.per_ms / bench_curve_best(input, 1)),
        .hold_ms = bench_curve_at(input, in_database).hold_ms,
    };
    put_wait(&open, &model);
    return model;
}

/* ---- jobs that arrive, in batches ---- */

static bool is_too_slow(double jobs, void *ctx)
{
    const struct bench_model_input *input = ctx;
    return full_table(input, jobs).jobs_per_second < input->arrivals_per_second;
}

/* A batch's time depends on its size, and no closed form is known for that: they are simulated. */
static hf_status in_batches(const struct bench_model_input *input, struct bench_model *out, hf_error *err)
{
    double steady = boundary(bench_curve_batch(input), is_too_slow, (void *)input);
    hf_status status = bench_simulate_batches(input, steady, out, err);
    if (status != HF_OK)
        return status;
    double batches_per_ms = input->arrivals_per_second / out->batch_mean / 1000;
    size_t p99 = widened(input, out->in_database_mean, out->in_handler_mean, out->in_handler_p99);
    if (p99 > out->in_handler_p99) /* the rows as much as their batches */
        out->rows_in_handler_p99 = (size_t)ceil((double)out->rows_in_handler_p99 * (double)p99 / (double)out->in_handler_p99);
    out->in_handler_p99 = p99;
    out->database_utilisation = fmin(1, batches_per_ms / bench_curve_best(input, out->batch_mean));
    return HF_OK;
}

/* ---- what is asked ---- */

hf_status bench_model_of(const struct bench_model_input *input, struct bench_model *out, hf_error *err)
{
    *out = bench_model_full_table(input);
    if (input->arrivals_per_second <= 0)
        return HF_OK;
    if (too_much(input, out)) {
        out->stable = false;
        return HF_OK;
    }
    if (bench_curve_batch(input) > 1)
        return in_batches(input, out, err);
    *out = one_by_one(input);
    return HF_OK;
}

static bool keeps_up(const struct bench_model_input *input, double jobs)
{
    struct bench_model full = full_table(input, jobs);
    return !too_much(input, &full);
}

/* Where hardly a job waits, hardly two of them come in one batch. */
bool bench_model_enough(const struct bench_model_input *input, double late)
{
    if (late >= 1)
        return keeps_up(input, bench_curve_batch(input));
    if (!keeps_up(input, 1))
        return false;
    struct open open = open_of(input);
    return late_share(&open) <= late;
}

/* ---- the wait for a connection ---- */

/* The machine-repair model M/M/c//K (Kleinrock, vol. 1, 3.8): the askers are the machines, the connections those who repair them. */
struct askers {
    size_t askers, connections;
    double hold_ms, apart_ms;
};

static double into_pool(size_t n, const void *ctx)
{
    const struct askers *a = ctx;
    return (double)(a->askers - n) / a->apart_ms * a->hold_ms / smaller(n + 1, a->connections);
}

/* The share of the time in which j events or fewer come, x being expected: a tail of Erlang's law. */
static double poisson_within(size_t j, double x)
{
    double log_term = -x, sum = exp(log_term);
    for (size_t i = 1; i <= j; i++) {
        log_term += log(x / (double)i);
        sum += exp(log_term);
    }
    return fmin(sum, 1);
}

/* Who asks and finds n there waits for n - connections + 1 of them to end. x: the ends that are expected in the wait in question. The
 * sum over n of p(n) times the tail, with the tail grown from term to term. */
static double share_waiting(const struct bench_law *law, size_t connections, double x)
{
    struct bench_law_place at = bench_law_first(law);
    double sum = 0, within = exp(-x), log_term = -x;
    size_t before = 0; /* that `within` is of */
    bool more = true;
    for (; more; more = bench_law_next(law, &at)) {
        if (at.n < connections)
            continue;
        while (before < at.n - connections) {
            log_term += log(x / (double)++before);
            within += exp(log_term);
        }
        sum += exp(at.log_p) * fmin(within, 1);
    }
    return sum;
}

struct found {
    struct bench_law law;
    size_t connections;
    size_t always; /* apart_ms 0: found there at every time */
    bool is_always;
};

static bool waits_longer(double x, void *ctx)
{
    const struct found *found = ctx;
    double share = !found->is_always ? share_waiting(&found->law, found->connections, x)
                   : x > 0           ? poisson_within(found->always - found->connections, x)
                                     : 1;
    return share > LATE_P99;
}

/* The x that 1 % wait longer than. */
static double waited_p99(struct found *found)
{
    double most = 1;
    if (!waits_longer(0, found))
        return 0;
    while (waits_longer(most, found))
        most *= 2;
    return boundary(most, waits_longer, found);
}

/* An asker finds the others as if it were none of them: the law for one less (arrival theorem: Sevcik, Mitrani, JACM 28, 1981). */
double bench_model_connection_wait_p99_ms(size_t askers, size_t connections, double hold_ms, double apart_ms)
{
    if (connections >= askers || connections == 0 || hold_ms <= 0)
        return 0;
    struct askers others = {askers - 1, connections, hold_ms, apart_ms};
    struct found found = {.connections = connections, .always = askers - 1, .is_always = apart_ms <= 0};
    if (!found.is_always)
        found.law = bench_law_of(askers - 1, 0, into_pool, &others);
    return waited_p99(&found) * hold_ms / (double)connections;
}
