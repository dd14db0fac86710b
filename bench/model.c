/* The formulas, each with its source. Nothing here allocates: the law of a number of jobs is walked, not stored, and its weights are
 * logarithms, so that ten thousand workers neither overflow nor vanish. */
#include "bench/model.h"

#include <math.h>

#define LATE_P99 0.01
#define NEARLY (1 - 1e-9) /* a little below what can be done the queue is longer than anyone would call stable */

/* ---- the law of a birth-death process ---- */

/* The numbers 0 to most, with ratio(n) = p(n + 1) / p(n): the rate up from n over the rate down from n + 1. Detailed balance gives the
 * product form (Kleinrock, Queueing Systems, vol. 1, 3.2). */
struct law {
    size_t most;
    double (*ratio)(size_t n, const void *ctx);
    const void *ctx;
    double log_first; /* of p(0) */
};

struct place {
    size_t n;
    double log_p;
};

static struct place first_of(const struct law *law)
{
    return (struct place){0, law->log_first};
}

/* False past the end. */
static bool step(const struct law *law, struct place *at)
{
    if (at->n >= law->most)
        return false;
    at->log_p += log(law->ratio(at->n, law->ctx));
    at->n++;
    return true;
}

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
    double high = fmax(a, b), low = fmin(a, b);
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

static struct law law_of(size_t most, double (*ratio)(size_t n, const void *ctx), const void *ctx)
{
    struct law law = {most, ratio, ctx, 0};
    struct place at = first_of(&law);
    double total = 0;
    while (step(&law, &at))
        total = log_add(total, at.log_p);
    law.log_first = -total;
    return law;
}

/* ---- the speed of the database ---- */

static double between(double low, double high, double share)
{
    return low + share * (high - low);
}

/* Between two measurements on the straight line that joins them, beyond the last as there. */
struct bench_speed bench_speed_at(const struct bench_speed *speed, size_t n_speed, double n)
{
    size_t i = 0;
    while (i < n_speed && speed[i].n < n)
        i++;
    if (i == 0 || i == n_speed)
        return speed[i == 0 ? 0 : i - 1];
    const struct bench_speed *low = &speed[i - 1], *high = &speed[i];
    double share = (n - low->n) / (high->n - low->n);
    return (struct bench_speed){.n = n,
                                .jobs_per_second = between(low->jobs_per_second, high->jobs_per_second, share),
                                .late_ms = between(low->late_ms, high->late_ms, share),
                                .spread = between(low->spread, high->spread, share),
                                .hold_ms = between(low->hold_ms, high->hold_ms, share),
                                .single = between(low->single, high->single, share)};
}

static struct bench_speed measured_at(const struct bench_model_input *input, double n)
{
    return bench_speed_at(input->speed, input->n_speed, n);
}

static double batch_of(const struct bench_model_input *input)
{
    return fmax(input->batch, 1);
}

/* Of the time that a full batch is in the database, what one of `jobs` jobs is: it grows evenly from that of a single one. */
static double share_of_full(const struct bench_model_input *input, double single, double jobs)
{
    double most = batch_of(input);
    return most > 1 && single > 0 ? between(single, 1, (jobs - 1) / (most - 1)) : 1;
}

/* Batches of `jobs` jobs a millisecond with n in the database; below the first measurement, where there is less than one delivery, in
 * proportion. */
static double speed_at(const struct bench_model_input *input, double n, double jobs)
{
    static const double least = 1e-6; /* of what is never 0 */
    struct bench_speed at = measured_at(input, n);
    double full = fmax(at.jobs_per_second, least) / batch_of(input) / 1000;
    return full / share_of_full(input, at.single, jobs) * fmin(n / input->speed[0].n, 1);
}

static double handler_ms_at(const struct bench_model_input *input, double n, double jobs)
{
    return (input->handler_ms + measured_at(input, n).late_ms) * jobs;
}

static double best_speed(const struct bench_model_input *input, double jobs)
{
    double best = 0;
    for (size_t n = 1; n <= input->workers; n++)
        best = fmax(best, speed_at(input, (double)n, jobs));
    return best;
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

static double smaller(size_t a, size_t b)
{
    return (double)(a < b ? a : b);
}

static double running(const struct closed *closed, size_t in_database)
{
    return smaller(closed->customers - in_database, closed->input->workers);
}

static double into_database(size_t n, const void *ctx)
{
    const struct closed *closed = ctx;
    return running(closed, n) / handler_ms_at(closed->input, (double)n, closed->jobs) /
           speed_at(closed->input, (double)n + 1, closed->jobs);
}

/* The most that run for 99 % of the time, from below: with at most `n` in the database for at most 1 % of it, no more than
 * customers - n - 1 are outside for the rest. */
static size_t outside_p99(const struct law *law)
{
    struct place at = first_of(law);
    double below = exp(at.log_p);
    while (below <= LATE_P99 && step(law, &at))
        below += exp(at.log_p);
    return law->most - at.n;
}

static void solve_law(struct closed *closed)
{
    struct law law = law_of(closed->customers, into_database, closed);
    struct place at = first_of(&law);
    bool more = true;
    for (; more; more = step(&law, &at)) {
        double p = exp(at.log_p), in_handler = running(closed, at.n);
        closed->per_ms += p * speed_at(closed->input, (double)at.n, closed->jobs);
        closed->in_database += p * (double)at.n;
        closed->in_handler += p * in_handler;
    }
    closed->in_handler_p99 = (size_t)smaller(outside_p99(&law), closed->input->workers);
}

/* With handlers that take no time all are in the database, always. */
static struct closed solve_closed(const struct bench_model_input *input, size_t customers, double jobs)
{
    struct closed closed = {.input = input, .customers = customers, .jobs = jobs};
    if (input->handler_ms > 0) {
        solve_law(&closed);
    } else {
        closed.per_ms = speed_at(input, (double)customers, jobs);
        closed.in_database = (double)customers;
    }
    return closed;
}

/* A p99 by the law, as much farther from the mean as was measured. */
static size_t widened(const struct bench_model_input *input, double in_database, double mean, size_t p99)
{
    double spread = measured_at(input, in_database).spread;
    return spread > 1 ? (size_t)fmin(round(mean + ((double)p99 - mean) * spread), (double)input->workers) : p99;
}

static struct bench_model full_table(const struct bench_model_input *input)
{
    double jobs = batch_of(input);
    struct closed closed = solve_closed(input, input->workers * (1 + input->ahead), jobs);
    return (struct bench_model){
        .stable = true,
        .jobs_per_second = closed.per_ms * 1000 * jobs,
        .batch_mean = jobs,
        .in_handler_mean = closed.in_handler,
        .in_handler_p99 = widened(input, closed.in_database, closed.in_handler, closed.in_handler_p99),
        .in_database_mean = closed.in_database,
        .worker_utilisation = closed.in_handler / (double)input->workers,
        .database_utilisation = fmin(1, closed.per_ms / best_speed(input, jobs)),
        .hold_ms = measured_at(input, closed.in_database).hold_ms,
    };
}

/* ---- jobs that arrive: M/G/N, and in batches ---- */

struct open {
    const struct bench_model_input *input;
    double per_ms;      /* arrivals of jobs */
    double jobs;        /* in a batch, on average */
    double database_ms; /* that a batch is between claim and settle, outside the handler */
    double handler_ms;
    double service_ms; /* that a worker is occupied with one batch */
    double offered;    /* workers that would be busy if each job came by itself and took as long as a batch does */
    double busy;       /* workers that are */
    double growth;     /* p(n + 1) / p(n) of the number of jobs that wait */
    double late;       /* share of the jobs that wait for a worker */
};

/* A worker that has done takes what waits, up to `batch`; one that has nothing to do takes the job that comes, alone. While all workers are
 * busy, the number that wait is geometric: its growth r is the root below 1 of N r^(b+1) - (a + N) r + a = 0, a being what is offered
 * (M/M(1,b)/N: Neuts, A general class of bulk queues with Poisson input, Ann. Math. Stat. 38, 1967; Chaudhry, Templeton,
 * A First Course in Bulk Queues, 1983). A batch of one makes that a / N. The left side less its root at 1 is a - N (r + r^2 + ... + r^b),
 * which falls. */
static double growth_of(double servers, double offered, double batch)
{
    enum { HALVINGS = 60 };
    double low = 0, high = 1;
    if (batch <= 1 || offered >= servers * batch)
        return fmin(offered / (servers * batch), 1);
    for (int i = 0; i < HALVINGS; i++) {
        double r = (low + high) / 2;
        *(offered * (1 - r) > servers * r * (1 - pow(r, batch)) ? &low : &high) = r;
    }
    return high;
}

/* The share of the jobs that find all servers busy when they arrive at random: Erlang C, which has a / N for the growth. Through Erlang's
 * loss formula, whose recursion B(n) = a B(n-1) / (n + a B(n-1)) is stable for every size (Cooper, Introduction to Queueing Theory, 3.4 and
 * 3.5). 1 where what is offered is too much. */
static double late_share(size_t servers, double offered, double growth)
{
    double loss = 1;
    for (size_t n = 1; n <= servers; n++)
        loss = offered * loss / ((double)n + offered * loss);
    return growth >= 1 ? 1 : loss / (1 - growth * (1 - loss));
}

/* The times in the database and in the handler when n workers go round (Little's law over the closed network); for a number between two
 * whole ones on the line that joins them. */
static void put_times(struct open *open, double n)
{
    double whole = floor(n), share = n - whole;
    struct closed low = solve_closed(open->input, (size_t)whole, open->jobs);
    struct closed high = share > 0 ? solve_closed(open->input, (size_t)whole + 1, open->jobs) : low;
    open->database_ms = between(low.in_database / low.per_ms, high.in_database / high.per_ms, share);
    open->handler_ms = between(low.in_handler / low.per_ms, high.in_handler / high.per_ms, share);
}

/* From the cut between n and n + 1 busy workers: below all of them the law is Poisson's, in whose place the batches are one job each. */
static void put_busy(struct open *open)
{
    double workers = (double)open->input->workers;
    open->growth = growth_of(workers, open->offered, batch_of(open->input));
    open->late = late_share(open->input->workers, open->offered, open->growth);
    open->busy = open->offered * (1 - open->late) + workers * open->growth * open->late;
    open->jobs = open->busy > 0 ? fmin(open->offered / open->busy, batch_of(open->input)) : 1;
}

/* What all workers together have no time for, in the largest batches. */
static bool is_too_much(const struct open *open)
{
    return open->offered >= (double)open->input->workers * batch_of(open->input) * NEARLY;
}

/* How long the database takes depends on how many are at work and how large the batches are, and both on how long it takes. A job that
 * arrives finds `busy` others, and with itself that is the population of the closed network whose time it sees (arrival theorem: Reiser,
 * Lavenberg, JACM 27, 1980). The fixed point is approached from below, so it is the least one; each step is bounded by the number of
 * workers and the batch. */
static void settle_load(struct open *open)
{
    enum { MOST_STEPS = 200 };
    double workers = (double)open->input->workers, before = -1;
    double apart = open->input->ahead > 0 ? 0 : 1; /* what is claimed ahead occupies no worker in the database */
    for (int i = 0; i < MOST_STEPS && fabs(open->offered - before) > 1e-9 * workers; i++) {
        before = open->offered;
        put_times(open, fmin(workers, open->busy + 1));
        open->service_ms = open->handler_ms + apart * open->database_ms;
        open->offered = open->per_ms * open->service_ms;
        put_busy(open);
        if (is_too_much(open))
            break;
    }
}

static struct open open_of(const struct bench_model_input *input)
{
    struct open open = {.input = input, .per_ms = input->arrivals_per_second / 1000, .jobs = 1};
    settle_load(&open);
    return open;
}

static bool overloaded(const struct open *open, const struct bench_model *full)
{
    return is_too_much(open) || open->per_ms * 1000 >= full->jobs_per_second * NEARLY;
}

/* The mean wait of M/M(1,b)/N, for service times of any law by Lee and Longton's factor (1 + scv) / 2 (Queueing processes associated with
 * airline passenger check-in, Oper. Res. Quart. 10, 1959; exact for one worker and no batches: Pollaczek and Khinchine). The time in the
 * database counts as exponential, the size of a batch as geometric. The wait of those who wait has an exponential tail, as in M/M/N. */
static void put_wait(const struct open *open, struct bench_model *model)
{
    double apart = open->service_ms - open->handler_ms, handler = open->handler_ms;
    double square = open->service_ms * open->service_ms, handler_scv = (open->input->handler_scv + open->jobs - 1) / open->jobs;
    double scv = square > 0 ? (handler * handler * handler_scv + apart * apart) / square : 0;
    double waited = open->growth / (1 - open->growth) / open->per_ms * (1 + scv) / 2;
    model->start_wait_mean_ms = open->late * waited;
    model->start_wait_p99_ms = open->late > LATE_P99 ? waited * log(open->late / LATE_P99) : 0;
}

/* Workers that are busy; the state "all are" stands for every length of the queue. */
static double into_work(size_t n, const void *ctx)
{
    const struct open *open = ctx;
    double ratio = open->offered / ((double)n + 1);
    return n + 1 == open->input->workers ? ratio / (1 - open->growth) : ratio;
}

/* The share of the time in which at most m of the busy workers are in a handler: each is with the probability q, apart from the others, so
 * the number is binomial in the busy ones. From b busy to b + 1: P(X <= m) falls by q P(X = m). */
static double share_within(const struct law *busy, double q, size_t m)
{
    struct place at = first_of(busy);
    double within = 1, total = exp(at.log_p), log_exactly = m == 0 ? 0 : -INFINITY;
    while (step(busy, &at)) {
        within -= q * exp(log_exactly);
        if (at.n == m)
            log_exactly = (double)m * log(q);
        else if (at.n > m)
            log_exactly += log((double)at.n / (double)(at.n - m)) + log1p(-q);
        total += exp(at.log_p) * fmax(within, 0);
    }
    return total;
}

static size_t in_handler_p99(const struct open *open)
{
    struct law busy = law_of(open->input->workers, into_work, open);
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

static struct bench_model arriving(const struct bench_model_input *input)
{
    struct bench_model full = full_table(input);
    struct open open = open_of(input);
    if (overloaded(&open, &full)) {
        full.stable = false;
        return full;
    }
    double batches_per_ms = open.per_ms / open.jobs, in_handler = batches_per_ms * open.handler_ms;
    double in_database = batches_per_ms * open.database_ms;
    struct bench_model model = {
        .stable = true,
        .jobs_per_second = input->arrivals_per_second,
        .batch_mean = open.jobs,
        .in_handler_mean = in_handler,
        .in_handler_p99 = widened(input, in_database, in_handler, in_handler_p99(&open)),
        .in_database_mean = in_database,
        .worker_utilisation = in_handler / (double)input->workers,
        .database_utilisation = fmin(1, batches_per_ms / best_speed(input, open.jobs)),
        .hold_ms = measured_at(input, in_database).hold_ms,
    };
    put_wait(&open, &model);
    return model;
}

/* ---- what is asked ---- */

struct bench_model bench_model_of(const struct bench_model_input *input)
{
    return input->arrivals_per_second > 0 ? arriving(input) : full_table(input);
}

static bool enough(const struct bench_model_input *input, size_t workers, double late)
{
    struct bench_model_input with = *input;
    with.workers = workers;
    struct open open = open_of(&with);
    if (open.late > late)
        return false;
    struct bench_model full = full_table(&with);
    return !overloaded(&open, &full);
}

/* More workers never make it worse, so the least is found by halves, after doubling up to one that is enough. */
size_t bench_model_workers_for(const struct bench_model_input *input, double late, size_t most)
{
    size_t low = 1, high = 1;
    while (high < most && !enough(input, high, late)) {
        low = high + 1;
        high = high > most / 2 ? most : high * 2;
    }
    if (most == 0 || !enough(input, high, late))
        return 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (enough(input, middle, late))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
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
static double share_waiting(const struct law *law, size_t connections, double x)
{
    struct place at = first_of(law);
    double sum = 0, within = exp(-x), log_term = -x;
    bool more = true;
    for (; more; more = step(law, &at)) {
        if (at.n < connections)
            continue;
        size_t before = at.n - connections;
        if (before > 0 && x > 0) {
            log_term += log(x / (double)before);
            within += exp(log_term);
        }
        sum += exp(at.log_p) * fmin(within, 1);
    }
    return sum;
}

/* The x at which a falling share comes down to 1 %. */
static double fall_to_p99(double (*share)(double x, const void *ctx), const void *ctx)
{
    enum { HALVINGS = 60 };
    double low = 0, high = 1;
    if (share(0, ctx) <= LATE_P99)
        return 0;
    while (share(high, ctx) > LATE_P99)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        *(share(middle, ctx) > LATE_P99 ? &low : &high) = middle;
    }
    return high;
}

struct found {
    struct law law;
    size_t connections;
    size_t always; /* apart_ms 0: found there at every time */
    bool is_always;
};

static double share_of_found(double x, const void *ctx)
{
    const struct found *found = ctx;
    if (found->is_always)
        return x > 0 ? poisson_within(found->always - found->connections, x) : 1;
    return share_waiting(&found->law, found->connections, x);
}

/* An asker finds the others as if it were none of them: the law for one less (arrival theorem: Sevcik, Mitrani, JACM 28, 1981). */
double bench_model_connection_wait_p99_ms(size_t askers, size_t connections, double hold_ms, double apart_ms)
{
    if (connections >= askers || connections == 0 || hold_ms <= 0)
        return 0;
    struct askers others = {askers - 1, connections, hold_ms, apart_ms};
    struct found found = {.connections = connections, .always = askers - 1, .is_always = apart_ms <= 0};
    if (!found.is_always)
        found.law = law_of(askers - 1, into_pool, &others);
    return fall_to_p99(share_of_found, &found) * hold_ms / (double)connections;
}
