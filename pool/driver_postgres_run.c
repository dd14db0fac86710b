/* Prepared statements. The first run on a connection asks the server for the parameters' types, in one round trip with the
 * preparation; the types decide how values are sent. Owned sessions keep the statement by name. Behind a transaction pooler, and
 * on a handle of the user's, only the types are kept, and every run parses anew: a name would belong to a session that the
 * next run may not meet, or that is not ours. */
#include "driver_postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_MAX 256
#define PARAMETERS_MAX 65535
#define FIRST_USER_OID 16384
#define NAME_TEXT 40 /* "hf_", a serial, "_", a generation, a NUL */

struct request {
    const struct hf__statement *statement;
    const struct hf__value *values;
    size_t n;
    struct hf__rows *rows;
    struct hf__deadline deadline;
};

static void write_name(const struct hf__pg_plan *plan, char name[NAME_TEXT])
{
    if (!plan->named) {
        name[0] = '\0';
    } else if (plan->generation == 0) {
        (void)snprintf(name, NAME_TEXT, "hf_%" PRIu64, plan->serial);
    } else {
        (void)snprintf(name, NAME_TEXT, "hf_%" PRIu64 "_%" PRIu32, plan->serial, plan->generation);
    }
}

/* ---- the plans that this connection knows, in the order of their serials ---- */

/* The place of the serial, or where it belongs. */
static size_t plan_place(const struct hf__pg *self, uint64_t serial)
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

static struct hf__pg_plan *find_plan(const struct hf__pg *self, uint64_t serial)
{
    size_t place = plan_place(self, serial);
    return place < self->n_plans && self->plans[place].serial == serial ? &self->plans[place] : NULL;
}

static bool make_room(struct hf__pg_plan **plans, size_t used, size_t *capacity)
{
    if (used < *capacity) {
        return true;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    struct hf__pg_plan *grown = realloc(*plans, wanted * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    *plans = grown;
    *capacity = wanted;
    return true;
}

/* What is prepared from now on is named differently; by chance, because behind a pooler in session mode an earlier client may have
 * left names like ours. */
static void change_names(struct hf__pg *self)
{
    self->generation = (uint32_t)hf__random_below(UINT32_MAX) + 1;
}

/* Takes the plan out. Its name stays taken on the server until the next sweep. */
static void forget_plan(struct hf__pg *self, struct hf__pg_plan *plan)
{
    size_t place = (size_t)(plan - self->plans);
    free(plan->types);
    plan->types = NULL;
    if (plan->named && make_room(&self->discarded, self->n_discarded, &self->discarded_capacity)) {
        self->discarded[self->n_discarded++] = *plan;
    }
    self->n_plans--;
    memmove(plan, plan + 1, (self->n_plans - place) * sizeof *plan);
    change_names(self);
}

void hf__pg_forget_plans(struct hf__pg *self)
{
    for (size_t i = 0; i < self->n_plans; i++) {
        free(self->plans[i].types);
    }
    self->n_plans = 0;
    self->n_discarded = 0;
}

static struct hf__pg_plan *least_used(const struct hf__pg *self)
{
    struct hf__pg_plan *least = &self->plans[0];
    for (size_t i = 1; i < self->n_plans; i++) {
        if (self->plans[i].used < least->used) {
            least = &self->plans[i];
        }
    }
    return least;
}

/* Moves the plan into the list. NULL when memory is out. */
static struct hf__pg_plan *keep_plan(struct hf__pg *self, struct hf__pg_plan *plan)
{
    if (self->n_plans >= PLANS_MAX) {
        forget_plan(self, least_used(self));
    }
    if (!make_room(&self->plans, self->n_plans, &self->plans_capacity)) {
        return NULL;
    }
    size_t place = plan_place(self, plan->serial);
    struct hf__pg_plan *kept = &self->plans[place];
    memmove(kept + 1, kept, (self->n_plans - place) * sizeof *kept);
    self->n_plans++;
    *kept = *plan;
    plan->types = NULL;
    return kept;
}

static hf_status deallocate(struct hf__pg *self, const struct hf__pg_plan *plan, struct hf__deadline deadline, hf_error *err)
{
    char name[NAME_TEXT];
    char sql[NAME_TEXT + sizeof "DEALLOCATE "];
    write_name(plan, name);
    (void)snprintf(sql, sizeof sql, "DEALLOCATE %s", name);
    hf_status status = hf__pg_simple(self, sql, deadline, NULL, err);
    return self->base.lost ? status : HF_OK; /* gone already: just as well */
}

hf_status hf__pg_sweep(struct hf__pg *self, struct hf__deadline deadline, hf_error *err)
{
    hf_status status = HF_OK;
    while (status == HF_OK && self->n_discarded > 0 && PQtransactionStatus(self->pg) == PQTRANS_IDLE) {
        status = deallocate(self, &self->discarded[--self->n_discarded], deadline, err);
    }
    return status;
}

/* ---- preparing ---- */

static hf_status keep_types(const PGresult *description, struct hf__pg_plan *plan, hf_error *err)
{
    size_t n = (size_t)PQnparams(description);
    if (n == 0) {
        return HF_OK; /* also the answer to the preparation itself */
    }
    free(plan->types);
    plan->types = malloc(2 * n * sizeof *plan->types);
    if (plan->types == NULL) {
        return hf__fail_memory(err);
    }
    for (size_t i = 0; i < n; i++) {
        plan->types[i] = plan->types[n + i] = PQparamtype(description, (int)i);
    }
    plan->n_types = n;
    return HF_OK;
}

/* What the types are made of; the server's own types are made of nothing else. */
static Oid *base_types(const struct hf__pg_plan *plan)
{
    return plan->types == NULL ? NULL : plan->types + plan->n_types;
}

/* Reads up to the synchronisation point; the first thing that went wrong counts. */
static hf_status read_description(struct hf__pg *self, struct hf__deadline deadline, struct hf__pg_plan *plan, hf_error *err)
{
    hf_status status = HF_OK;
    ExecStatusType last = PGRES_COMMAND_OK;
    for (int ends = 0; last != PGRES_PIPELINE_SYNC;) {
        PGresult *result;
        hf_status read = hf__pg_next(self, deadline, &result, err);
        ends = result == NULL ? ends + 1 : 0;
        if (read != HF_OK || ends == 2) {
            PQclear(result);
            return read != HF_OK ? read : hf__pg_unsent(self, err);
        }
        last = result == NULL ? last : PQresultStatus(result);
        if (status == HF_OK && result != NULL && hf__pg_is_error(result)) {
            status = hf__pg_result_error(self, result, err);
        } else if (status == HF_OK && result != NULL) {
            status = keep_types(result, plan, err);
        }
        PQclear(result);
    }
    return status;
}

static hf_status describe_statement(struct hf__pg *self, const struct request *request, struct hf__pg_plan *plan, hf_error *err)
{
    char name[NAME_TEXT];
    write_name(plan, name);
    hf_status status = HF_OK;
    if (PQenterPipelineMode(self->pg) == 0 || PQsendPrepare(self->pg, name, request->statement->sql, 0, NULL) == 0 ||
        PQsendDescribePrepared(self->pg, name) == 0 || PQpipelineSync(self->pg) == 0) {
        status = hf__pg_unsent(self, err);
    } else {
        status = read_description(self, request->deadline, plan, err);
    }
    if (PQpipelineStatus(self->pg) != PQ_PIPELINE_OFF && PQexitPipelineMode(self->pg) == 0) {
        self->base.lost = true;
    }
    return status;
}

static hf_status run_fresh(struct hf__pg *self, const struct request *request, hf_error *err);

/* A domain over bytea takes bytes as bytea does, and so on. */
static hf_status find_base_type(struct hf__pg *self, Oid *type, struct hf__deadline deadline, hf_error *err)
{
    static const struct hf__statement statement = {
        .sql = "WITH RECURSIVE chain AS (SELECT oid, typtype, typbasetype FROM pg_catalog.pg_type WHERE oid = $1::bigint::oid UNION ALL"
               " SELECT t.oid, t.typtype, t.typbasetype FROM chain c JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype"
               " WHERE c.typtype = 'd') SELECT oid FROM chain WHERE typtype <> 'd'",
    };
    struct hf__rows rows;
    hf__rows_init(&rows);
    const struct hf__value key = hf__int(*type);
    const struct request request = {.statement = &statement, .values = &key, .n = 1, .rows = &rows, .deadline = deadline};
    hf_status status = run_fresh(self, &request, err);
    if (status == HF_OK && rows.count == 1) {
        *type = (Oid)hf__cell(&rows, 0, 0)->i;
    }
    hf__rows_free(&rows);
    return status;
}

static hf_status find_base_types(struct hf__pg *self, struct hf__pg_plan *plan, struct hf__deadline deadline, hf_error *err)
{
    Oid *bases = base_types(plan);
    hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < plan->n_types; i++) {
        if (bases[i] >= FIRST_USER_OID) {
            status = find_base_type(self, &bases[i], deadline, err);
        }
    }
    return status;
}

static hf_status prepare(struct hf__pg *self, const struct request *request, struct hf__pg_plan *plan, hf_error *err)
{
    plan->serial = request->statement->serial;
    plan->generation = self->generation;
    plan->named = plan->serial != 0 && !self->base.pooler && !self->base.borrowed;
    if (!plan->named && request->n == 0) {
        return HF_OK; /* nothing to learn */
    }
    hf_status status = describe_statement(self, request, plan, err);
    return status != HF_OK ? status : find_base_types(self, plan, request->deadline, err);
}

/* ---- running ---- */

static int send_plan(struct hf__pg *self, const struct request *request, const struct hf__pg_plan *plan,
                     const struct hf__pg_parameters *with)
{
    if (!plan->named) {
        return PQsendQueryParams(self->pg, request->statement->sql, with->n, plan->types, with->values, with->lengths, with->formats, 0);
    }
    char name[NAME_TEXT];
    write_name(plan, name);
    return PQsendQueryPrepared(self->pg, name, with->n, with->values, with->lengths, with->formats, 0);
}

static hf_status execute(struct hf__pg *self, const struct request *request, const struct hf__pg_plan *plan, hf_error *err)
{
    if (request->n != plan->n_types) {
        return hf__fail(err, HF_INVALID, "the statement has %zu parameters, and %zu values were given", plan->n_types, request->n);
    }
    struct hf__pg_parameters parameters;
    hf_status status = hf__pg_bind(request->values, request->n, base_types(plan), &parameters, err);
    if (status != HF_OK) {
        return status;
    }
    PGresult *result = NULL;
    if (send_plan(self, request, plan, &parameters) == 0) {
        status = hf__pg_unsent(self, err);
    } else {
        status = hf__pg_finish(self, request->deadline, &result, err);
    }
    hf__pg_unbind(&parameters);
    if (status == HF_OK && request->rows != NULL) {
        status = hf__pg_decode(self, result, request->rows, err);
    }
    PQclear(result);
    return status;
}

static hf_status run_fresh(struct hf__pg *self, const struct request *request, hf_error *err)
{
    struct hf__pg_plan fresh = {0};
    struct hf__pg_plan *plan = &fresh;
    hf_status status = prepare(self, request, &fresh, err);
    if (status == HF_OK && fresh.serial != 0) {
        plan = keep_plan(self, &fresh);
        if (plan == NULL) {
            self->base.retire = true;
            status = hf__fail_memory(err);
        }
    }
    if (status == HF_OK) {
        plan->used = ++self->runs;
        status = execute(self, request, plan, err);
    }
    free(fresh.types);
    return status;
}

static bool starts_with(const char *sqlstate, const char *beginning)
{
    return strncmp(sqlstate, beginning, strlen(beginning)) == 0;
}

/* The plan itself is what the server refuses: "cached plan must not change result type", no such name, name taken. */
static bool refuses_plan(const char *sqlstate)
{
    return starts_with(sqlstate, "0A000") || starts_with(sqlstate, "26000") || starts_with(sqlstate, "42P05");
}

/* A plan from before a change of the schema may fail with an error that a new one does not have: a name that has come back, a
 * parameter that was an int4 and is an int8 now. */
static bool may_be_stale(const char *sqlstate)
{
    return refuses_plan(sqlstate) || starts_with(sqlstate, "42") || starts_with(sqlstate, "22");
}

static hf_status run_kept(struct hf__pg *self, const struct request *request, struct hf__pg_plan *plan, bool *stale, hf_error *err)
{
    plan->used = ++self->runs;
    hf_status status = execute(self, request, plan, err);
    *stale = status == HF_DATABASE && may_be_stale(err->sqlstate);
    if (*stale && starts_with(err->sqlstate, "26000")) {
        hf__pg_forget_plans(self); /* a DISCARD ALL took all of them */
        change_names(self);
    } else if (*stale) {
        forget_plan(self, plan);
    }
    return status;
}

static hf_status run_request(struct hf__pg *self, const struct request *request, hf_error *err)
{
    struct hf__pg_plan *plan = request->statement->serial != 0 ? find_plan(self, request->statement->serial) : NULL;
    bool stale = false;
    hf_status status;
    if (plan != NULL) {
        status = run_kept(self, request, plan, &stale, err);
    } else {
        status = run_fresh(self, request, err);
        stale = status == HF_DATABASE && starts_with(err->sqlstate, "42P05");
        if (stale) {
            change_names(self);
        }
    }
    if (!stale) {
        return status;
    }
    if (PQtransactionStatus(self->pg) == PQTRANS_IDLE) {
        return run_fresh(self, request, err);
    }
    if (refuses_plan(err->sqlstate)) {
        err->status = HF_TRANSIENT; /* the transaction is spoilt, the next one prepares anew */
    }
    return err->status;
}

hf_status hf__pg_run(struct hf__conn *conn, const struct hf__statement *statement, const struct hf__value *values, size_t n,
                     struct hf__rows *rows, struct hf__deadline deadline, hf_error *err)
{
    struct hf__pg *self = hf__pg_of(conn);
    hf_error own = {.status = HF_OK};
    err = err != NULL ? err : &own; /* the SQLSTATE is needed here in any case */
    if (n > PARAMETERS_MAX) {
        return hf__fail(err, HF_INVALID, "%zu parameters were given; PostgreSQL takes at most %d in a statement", n, PARAMETERS_MAX);
    }
    hf_status status = hf__pg_enter(self, deadline, err);
    if (status != HF_OK) {
        return status;
    }
    struct request request = {.statement = statement, .values = values, .n = n, .rows = rows, .deadline = deadline};
    status = hf__pg_sweep(self, deadline, err);
    if (status == HF_OK) {
        status = run_request(self, &request, err);
    }
    hf__pg_leave(self);
    return status;
}
