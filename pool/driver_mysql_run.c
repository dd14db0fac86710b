/* Prepared statements. */
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>

#include "driver_mysql.h"

/* ---- the statements that a connection keeps prepared ---- */

/* The place of the serial among the plans, or where it belongs. */
static size_t plan_place(const struct hf__my *self, uint64_t serial)
{
    size_t low = 0;
    size_t high = self->n_plans;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->plans[middle].serial < serial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static MYSQL_STMT *find_plan(const struct hf__my *self, uint64_t serial)
{
    size_t place = plan_place(self, serial);
    return place < self->n_plans && self->plans[place].serial == serial ? self->plans[place].stmt : NULL;
}

static bool grow_plans(struct hf__my *self)
{
    if (self->n_plans < self->plans_capacity) {
        return true;
    }
    size_t capacity = self->plans_capacity == 0 ? 16 : self->plans_capacity * 2;
    struct hf__my_plan *plans = reallocarray(self->plans, capacity, sizeof *plans);
    if (plans == NULL) {
        return false;
    }
    self->plans = plans;
    self->plans_capacity = capacity;
    return true;
}

/* There is room: grow_plans was asked before. */
static void keep_plan(struct hf__my *self, uint64_t serial, MYSQL_STMT *stmt)
{
    size_t place = plan_place(self, serial);
    memmove(self->plans + place + 1, self->plans + place, (self->n_plans - place) * sizeof *self->plans);
    self->plans[place] = (struct hf__my_plan){.serial = serial, .stmt = stmt};
    self->n_plans++;
}

static void forget_plan(struct hf__my *self, uint64_t serial)
{
    size_t place = plan_place(self, serial);
    if (place < self->n_plans && self->plans[place].serial == serial) {
        hf__my_close_stmt(self, self->plans[place].stmt);
        self->n_plans--;
        memmove(self->plans + place, self->plans + place + 1, (self->n_plans - place) * sizeof *self->plans);
    }
}

void hf__my_forget_plans(struct hf__my *self)
{
    for (size_t i = 0; i < self->n_plans; i++) {
        hf__my_close_stmt(self, self->plans[i].stmt);
    }
    free(self->plans);
    self->plans = NULL;
    self->n_plans = self->plans_capacity = 0;
}

/* ---- running ---- */

static bool is_kept(const struct hf__my *self, const struct hf__statement *statement)
{
    return statement->serial != 0 && !self->base.pooler && !self->base.borrowed;
}

static hf_status prepare(struct hf__my *self, const char *sql, struct hf__deadline deadline, MYSQL_STMT **out, hf_error *err)
{
    struct hf__my_step step = {.call = &hf__my_call_prepare, .text = sql, .len = strlen(sql)};
    hf_status status = hf__my_check_packet(self, step.len + 1, err);
    if (status != HF_OK) {
        return status;
    }
    step.stmt = mysql_stmt_init(self->mysql);
    if (step.stmt == NULL) {
        return hf__fail_memory(err);
    }
    status = hf__my_step(self, &step, deadline, err);
    if (status != HF_OK) {
        hf__my_close_stmt(self, step.stmt);
        return status;
    }
    *out = step.stmt;
    return HF_OK;
}

static hf_status find_or_prepare(struct hf__my *self, const struct hf__statement *statement, struct hf__deadline deadline, MYSQL_STMT **out,
                                 hf_error *err)
{
    bool kept = is_kept(self, statement);
    *out = kept ? find_plan(self, statement->serial) : NULL;
    if (*out != NULL && (*out)->mysql != NULL) {
        return HF_OK;
    }
    if (*out != NULL) { /* a user of the native handle has reset the session */
        forget_plan(self, statement->serial);
    }
    if (kept && !grow_plans(self)) {
        return hf__fail_memory(err);
    }
    hf_status status = prepare(self, statement->sql, deadline, out, err);
    if (status == HF_OK && kept) {
        keep_plan(self, statement->serial, *out);
    }
    return status;
}

static hf_status bind(struct hf__my *self, MYSQL_STMT *stmt, const struct hf__value *values, size_t n, struct hf__my_parameters *out,
                      hf_error *err)
{
    unsigned long wanted = mysql_stmt_param_count(stmt);
    if (wanted != n) {
        return hf__fail(err, HF_INVALID, "the statement takes %lu values and %zu were given", wanted, n);
    }
    hf_status status = hf__my_bind(values, n, out, err);
    if (status == HF_OK) {
        status = hf__my_check_packet(self, out->bytes, err);
    }
    if (status == HF_OK && n > 0 && mysql_stmt_bind_param(stmt, out->binds) != 0) {
        status = hf__fail(err, HF_DATABASE, "%s", mysql_stmt_error(stmt));
    }
    return status;
}

/* A procedure answers with several results; only the first one counts. */
static hf_status drop_further(struct hf__my *self, MYSQL_STMT *stmt, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    while (status == HF_OK && mysql_stmt_more_results(stmt)) {
        struct hf__my_step next = {.call = &hf__my_call_stmt_next, .stmt = stmt};
        struct hf__my_step store = {.call = &hf__my_call_stmt_store, .stmt = stmt};
        status = hf__my_step(self, &next, deadline, err);
        if (status == HF_OK && mysql_stmt_field_count(stmt) > 0) {
            status = hf__my_step(self, &store, deadline, err);
        }
    }
    return status;
}

/* An error that came instead of a row (NOWAIT, a deadlock) was the end of the answer, which libmariadb does not note: it would wait for
 * the rest when the result is freed or the statement runs again. */
static void end_result(MYSQL_STMT *stmt)
{
    stmt->state = MYSQL_STMT_FETCH_DONE; /* NOLINT(clang-analyzer-core.NullDereference): a prepared one is never NULL */
}

static hf_status read_answer(struct hf__my *self, MYSQL_STMT *stmt, struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    struct hf__my_step store = {.call = &hf__my_call_stmt_store, .stmt = stmt};
    hf_status status = HF_OK;
    hf_status fetched = HF_OK;
    unsigned long long matched = mysql_stmt_affected_rows(stmt);
    if (mysql_stmt_field_count(stmt) > 0) {
        status = hf__my_step(self, &store, deadline, err);
        matched = mysql_stmt_affected_rows(stmt);
        if (status != HF_OK) {
            end_result(stmt);
        }
        if (status == HF_OK && rows != NULL) {
            fetched = hf__my_fetch(stmt, rows, err);
        }
    }
    if (status == HF_OK && rows != NULL) {
        rows->matched = matched == ~0ULL ? 0 : matched;
    }
    if (status == HF_OK) {
        status = drop_further(self, stmt, deadline, fetched == HF_OK ? err : NULL);
    }
    if (mysql_stmt_num_rows(stmt) > 0) {
        mysql_stmt_data_seek(stmt, 0); /* a result that was read to its end would be kept */
    }
    (void)mysql_stmt_free_result(stmt); /* it is in our memory: nothing is sent, nothing can fail */
    return status != HF_OK ? status : fetched;
}

static hf_status execute(struct hf__my *self, MYSQL_STMT *stmt, const struct hf__value *values, size_t n, struct hf__rows *rows,
                         struct hf__deadline deadline, hf_error *err)
{
    struct hf__my_parameters parameters = {.binds = NULL};
    struct hf__my_step step = {.call = &hf__my_call_execute, .stmt = stmt};
    hf_status status = bind(self, stmt, values, n, &parameters, err);
    if (status == HF_OK) {
        status = hf__my_step(self, &step, deadline, err);
    }
    free(parameters.binds);
    return status != HF_OK ? status : read_answer(self, stmt, rows, deadline, err);
}

static hf_status run_once(struct hf__my *self, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                          struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    MYSQL_STMT *stmt;
    hf_status status = find_or_prepare(self, statement, deadline, &stmt, err);
    if (status != HF_OK) {
        return status;
    }
    status = execute(self, stmt, values, n, rows, deadline, err);
    if (!is_kept(self, statement)) {
        hf__my_close_stmt(self, stmt);
    }
    return status;
}

/* Errors of a statement that was prepared too long ago, or not at all: nothing of it has run. */
static bool is_stale(struct hf__my *self, int number)
{
    switch (number) {
    case ER_UNKNOWN_STMT_HANDLER:
    case ER_NEED_REPREPARE:
        return true;
    case ER_MAX_PREPARED_STMT_COUNT_REACHED: /* our own may be what fills the server's limit */
        return self->n_plans > 0;
    default:
        return false;
    }
}

hf_status hf__my_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                     struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    struct hf__my *self = hf__my_of(conn);
    hf_error own = {.status = HF_OK};
    hf_error *what = err != NULL ? err : &own;
    hf_status status = hf__my_check_transaction(self, what);
    if (status != HF_OK) {
        return status;
    }
    status = run_once(self, statement, values, n, rows, deadline, what);
    if (status != HF_OK && what->native_code == CR_NEW_STMT_METADATA) { /* it has run: that is for the caller to repeat */
        forget_plan(self, statement->serial);
    }
    if (status == HF_OK || self->base.lost || !is_stale(self, what->native_code)) {
        return status;
    }
    if (what->native_code == ER_MAX_PREPARED_STMT_COUNT_REACHED) {
        hf__my_forget_plans(self);
    } else {
        forget_plan(self, statement->serial);
    }
    if (rows != NULL) {
        hf__rows_clear(rows);
    }
    return self->base.lost ? status : run_once(self, statement, values, n, rows, deadline, what);
}
