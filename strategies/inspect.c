/* The start checks: every fault of server, table and indexes, each with a way out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "strategies/inspect_dead_letter.h"
#include "strategies/order_index.h"
#include "strategies/plan.h"

struct inspection {
    struct hf__conn *conn;
    const struct hf_table *table;
    const struct hf__dialect *dialect;
    enum hf__strategy_kind kind;
    struct hf__relation relation;
    struct hf__deadline deadline;
    struct hf__findings *findings;
    hf_error *err;
};

#define FAULT(in, status, ...) hf__find((in)->findings, HF__FINDING_ERROR, (status), __VA_ARGS__)
#define ADVICE(in, ...) hf__find((in)->findings, HF__FINDING_WARNING, HF_OK, __VA_ARGS__)

/* ---- the server ---- */

static hf_status check_floor(struct inspection *in)
{
    const struct hf__server *server = &in->conn->server;
    int floor = server->mariadb ? in->dialect->mariadb_floor[in->kind] : in->dialect->floor[in->kind];
    bool fifo = in->table->fifo && in->dialect->fifo_floor > floor;
    if (fifo)
        floor = in->dialect->fifo_floor;
    if (server->version >= floor)
        return HF_OK;
    return FAULT(in, HF_SERVER_TOO_OLD, "table %s: the server is %s, and %s needs %s %d.%d or newer", in->table->display, server->text,
                 fifo ? "\"fifo\"" : hf__strategy_kind_name(in->kind), server->mariadb ? "MariaDB" : hf__database_name(server->database),
                 floor / 10000, floor / 100 % 100);
}

static hf_status check_pooler(struct inspection *in)
{
    if (in->kind != HF__ADVISORY_LOCK || !in->conn->pooler)
        return HF_OK;
    return FAULT(
        in, HF_UNSUPPORTED,
        "table %s: advisory locks live in the session, and the URL says that a transaction-mode pooler stands between; use a direct"
        " connection, a pooler in session mode, or a lease table",
        in->table->display);
}

/* One row of text cells, or nothing where the server does not know what was asked. */
static bool ask(struct inspection *in, const char *sql, struct hf__rows *rows)
{
    struct hf__statement statement = {.sql = sql, .serial = 0};
    hf_error ignored;
    return hf__conn_run(in->conn, &statement, NULL, 0, rows, in->deadline, &ignored) == HF_OK && rows->count == 1;
}

static bool says(const struct hf__rows *rows, size_t column, const char *text)
{
    const struct hf__value *value = hf__cell(rows, 0, column);
    return hf__value_has_bytes(value) && strcasecmp(value->s.data, text) == 0;
}

/* Every session has that level, and so have all transactions but those of a row lock whose description names another. */
static bool writes_read_committed(const struct inspection *in)
{
    return in->kind != HF__ROW_LOCK || in->table->isolation == HF__ISOLATION_DEFAULT || in->table->isolation == HF__READ_COMMITTED;
}

/* READ COMMITTED cannot be written to a statement-based log: every claim would fail. */
static hf_status check_binlog(struct inspection *in)
{
    struct hf__rows rows;
    int64_t on = 0;
    hf_status status = HF_OK;
    if (in->conn->server.database != HF__MYSQL || !writes_read_committed(in))
        return HF_OK;
    hf__rows_init(&rows);
    if (ask(in, "SELECT @@log_bin, @@binlog_format", &rows) && hf__value_int(hf__cell(&rows, 0, 0), &on) && on &&
        says(&rows, 1, "STATEMENT"))
        status = FAULT(in, HF_UNSUPPORTED,
                       "table %s: the server's binlog_format is STATEMENT, which cannot log changes at READ COMMITTED; set binlog_format "
                       "to ROW or MIXED",
                       in->table->display);
    hf__rows_free(&rows);
    return status;
}

static hf_status check_database_named(struct inspection *in)
{
    struct hf__rows rows;
    hf_status status = HF_OK;
    if (in->conn->server.database != HF__MYSQL || in->kind != HF__ADVISORY_LOCK)
        return HF_OK;
    hf__rows_init(&rows);
    if (ask(in, "SELECT DATABASE()", &rows) && hf__cell(&rows, 0, 0)->type == HF__NULL)
        status =
            FAULT(in, HF_INVALID, "table %s: keys belong to a database, and the URL names none; write it as mysql://user@host/DATABASE",
                  in->table->display);
    hf__rows_free(&rows);
    return status;
}

static hf_status check_server(struct inspection *in)
{
    hf_status status = check_floor(in);
    if (status == HF_OK)
        status = check_pooler(in);
    if (status == HF_OK)
        status = check_binlog(in);
    if (status == HF_OK)
        status = check_database_named(in);
    return status;
}

/* ---- the table and its columns ---- */

static hf_status check_relation(struct inspection *in)
{
    const char *engine = in->relation.engine;
    switch (in->relation.kind) {
    case HF__RELATION_NONE:
        return FAULT(
            in, HF_INVALID,
            "table %s: there is no such table in this database; create it (`holdfast ddl` prints how) or mend \"table\" and \"schema\"",
            in->table->display);
    case HF__RELATION_VIEW:
    case HF__RELATION_OTHER:
        return FAULT(in, HF_INVALID,
                     "table %s: it is not a table but a view or the like, whose rows cannot be held; name the table behind it",
                     in->table->display);
    case HF__RELATION_TABLE:
    case HF__RELATION_PARTITIONED:
        break;
    }
    if (engine && strcasecmp(engine, "InnoDB") != 0)
        return FAULT(in, HF_INVALID, "table %s: its engine is %s, which has no row locks or transactions; ALTER TABLE ... ENGINE = InnoDB",
                     in->table->display, engine);
    return HF_OK;
}

#define KIND(k) (1u << HF__COLUMN_##k)
#define TIMES (KIND(TIME) | KIND(TIME_ZONED))
#define TEXTS (KIND(TEXT) | KIND(JSON))

struct role_rule {
    unsigned kinds;
    const char *wanted;
};

static const struct role_rule rules[HF__ROLES] = {
    [HF__ROLE_ID] = {KIND(INTEGER) | KIND(TEXT) | KIND(UUID) | KIND(BYTES), "an integer, text, UUID or binary column"},
    [HF__ROLE_PAYLOAD] = {~0u, "any column"},
    [HF__ROLE_HEADERS] = {TEXTS | KIND(BYTES), "a text or JSON column"},
    [HF__ROLE_ATTEMPT] = {KIND(INTEGER), "an integer column"},
    [HF__ROLE_LAST_ERROR] = {KIND(TEXT), "a text column"},
    [HF__ROLE_GROUP] = {KIND(INTEGER) | KIND(TEXT) | KIND(UUID), "a text, integer or UUID column"},
    [HF__ROLE_PRIORITY] = {KIND(INTEGER), "an integer column"},
    [HF__ROLE_PARTITION_KEY] = {KIND(INTEGER) | KIND(TEXT) | KIND(UUID), "a text, integer or UUID column"},
    [HF__ROLE_RETRY_AFTER] = {TIMES, "a timestamp column"},
    [HF__ROLE_PROCESSED_AT] = {TIMES, "a timestamp column"},
    [HF__ROLE_LOCKED_UNTIL] = {TIMES, "a timestamp column"},
};

static bool fits(const struct inspection *in, const struct hf__column *column, unsigned kinds)
{
    if (kinds & (1u << column->kind))
        return true;
    /* SQLite keeps times as text, and a column without a type holds anything. */
    bool sqlite = in->conn->server.database == HF__SQLITE;
    return sqlite && (kinds & TIMES) && column->kind == HF__COLUMN_TEXT;
}

static const struct hf__column *column_of(const struct inspection *in, enum hf__role role)
{
    const char *name = in->table->column[role];
    return name ? hf__relation_column(&in->relation, name, in->dialect->any_case) : NULL;
}

static hf_status check_role(struct inspection *in, enum hf__role role)
{
    const char *name = in->table->column[role];
    if (!name)
        return HF_OK;
    const struct hf__column *column = column_of(in, role);
    if (!column)
        return FAULT(in, HF_INVALID,
                     "table %s: it has no column \"%s\", which the description gives as \"%s\"; add the column or take the role out",
                     in->table->display, name, hf__role_key(role));
    if (!fits(in, column, rules[role].kinds))
        return FAULT(in, HF_INVALID, "table %s: column \"%s\" is %s, and \"%s\" needs %s", in->table->display, name, column->type,
                     hf__role_key(role), rules[role].wanted);
    bool cleared = role == HF__ROLE_LOCKED_UNTIL || role == HF__ROLE_PROCESSED_AT || role == HF__ROLE_LAST_ERROR;
    if (cleared && !column->nullable)
        return FAULT(in, HF_INVALID,
                     "table %s: column \"%s\" (\"%s\") is NOT NULL, and no value but NULL can say that there is none; drop the constraint",
                     in->table->display, name, hf__role_key(role));
    return HF_OK;
}

/* Times are UTC: a column without a zone that fills itself with the session's local time is hours off where that is another. */
static hf_status check_local_default(struct inspection *in)
{
    static const char *const utc[] = {[HF__POSTGRES] = "now() AT TIME ZONE 'UTC'", [HF__MYSQL] = "(UTC_TIMESTAMP(6))", [HF__SQLITE] = ""};
    const struct hf__column *due = column_of(in, HF__ROLE_RETRY_AFTER);
    if (!due || due->kind != HF__COLUMN_TIME || !due->local_default)
        return HF_OK;
    return ADVICE(in,
                  "table %s: column \"%s\" (\"retry_after\") keeps no time zone and is read as UTC, but its default is the session's local "
                  "time; make the default %s%s",
                  in->table->display, due->name, utc[in->conn->server.database],
                  in->conn->server.database == HF__POSTGRES ? ", or the column timestamptz" : "");
}

/* SQLite: a row whose column is like that, if there is one: the column's value is in rows, which the caller frees. */
static hf_status find_row(struct inspection *in, const char *column, const char *like_that, struct hf__rows *rows)
{
    struct hf__sql sql;
    struct hf__rendered rendered;
    struct hf__args args = {0};
    hf__rows_init(rows);
    hf__sql_begin(&sql, HF__SQLITE);
    hf__sql_put(&sql, "SELECT ");
    hf__sql_name(&sql, column);
    hf__sql_put(&sql, " FROM ");
    hf__sql_table(&sql, in->table);
    hf__sql_put(&sql, " WHERE ");
    hf__sql_name(&sql, column);
    hf__sql_put(&sql, like_that);
    hf__sql_put(&sql, " LIMIT 1");
    hf_status status = hf__sql_finish(&sql, false, &rendered, in->err);
    if (status != HF_OK)
        return status;
    status = hf__sql_run(in->conn, &rendered, &args, rows, in->deadline, in->err);
    hf__rendered_free(&rendered);
    return status;
}

/* A row without an id is nobody's: a settle could not name it. */
static hf_status check_id(struct inspection *in)
{
    const struct hf__column *id = column_of(in, HF__ROLE_ID);
    struct hf__rows rows;
    if (!id || !id->nullable)
        return HF_OK;
    if (in->conn->server.database != HF__SQLITE)
        return FAULT(in, HF_INVALID,
                     "table %s: column \"%s\" (\"id\") allows NULL, and a row without an id cannot be settled; make it NOT NULL",
                     in->table->display, id->name);
    /* SQLite allows NULL in every primary key but that of whole numbers. */
    hf_status status = find_row(in, in->table->column[HF__ROLE_ID], " IS NULL", &rows);
    if (status == HF_OK && rows.count > 0)
        status =
            FAULT(in, HF_INVALID,
                  "table %s: a row has no id: its \"%s\" is NULL, and it could never be claimed; give it one, and make the column NOT NULL",
                  in->table->display, id->name);
    hf__rows_free(&rows);
    return status;
}

static hf_status check_token(struct inspection *in)
{
    const struct hf__column *column = column_of(in, HF__ROLE_LOCKED_UNTIL);
    if (!column || column->kind == HF__COLUMN_TEXT || column->precision >= 3 || hf__table_has(in->table, HF__ROLE_ATTEMPT))
        return HF_OK;
    return FAULT(in, HF_INVALID,
                 "table %s: \"locked_until\" column \"%s\" keeps %u digits of a second and the table has no \"attempt\", so two claims of "
                 "a row could not be"
                 " told apart; give it three digits or more, or add an attempt column",
                 in->table->display, column->name, column->precision);
}

static hf_status check_key_columns(struct inspection *in)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < in->table->n_key && status == HF_OK; i++) {
        const struct hf__key_part *part = &in->table->key[i];
        if (!part->is_column)
            continue;
        const struct hf__column *column = hf__relation_column(&in->relation, part->text, in->dialect->any_case);
        if (!column)
            status =
                FAULT(in, HF_INVALID, "table %s: it has no column \"%s\", which \"advisory_lock\" names", in->table->display, part->text);
        else if (!fits(in, column, KIND(INTEGER) | KIND(TEXT) | KIND(UUID)))
            status = FAULT(in, HF_INVALID,
                           "table %s: column \"%s\" in \"advisory_lock\" is %s; a key is rendered from integer, text or UUID columns",
                           in->table->display, part->text, column->type);
    }
    return status;
}

/* What of the group's column makes texts that differ equal, or nothing. */
#define GROUP_COLLATION                                                                                                       \
    "SELECT 'the nondeterministic collation ' || quote_ident(c.collname) FROM pg_attribute AS a JOIN pg_collation AS c"       \
    " ON c.oid = a.attcollation WHERE a.attrelid = $1::text::regclass AND a.attname = $2::text AND NOT c.collisdeterministic" \
    " UNION ALL "
#define GROUP_TYPE                                                                                                           \
    "SELECT * FROM (WITH RECURSIVE b(id) AS (SELECT atttypid FROM pg_attribute WHERE attrelid = $1::text::regclass"          \
    " AND attname = $2::text UNION ALL SELECT t.typbasetype FROM b JOIN pg_type AS t ON t.oid = b.id WHERE t.typtype = 'd')" \
    " SELECT 'the type ' || quote_ident(t.typname) FROM b JOIN pg_type AS t ON t.oid = b.id WHERE t.typtype <> 'd'"          \
    " AND t.typnamespace <> 'pg_catalog'::regnamespace) AS own"

static hf_status ask_equality(struct inspection *in, const char *group, struct hf__rows *rows)
{
    enum { COLLATIONS_SINCE = 120000 };
    struct hf__statement statement = {.sql = in->conn->server.version < COLLATIONS_SINCE ? GROUP_TYPE : GROUP_COLLATION GROUP_TYPE};
    struct hf__sql sql;
    struct hf__rendered name;
    hf__sql_begin(&sql, HF__POSTGRES);
    hf__sql_table(&sql, in->table);
    hf_status status = hf__sql_finish(&sql, false, &name, in->err);
    if (status != HF_OK)
        return status;
    struct hf__value values[2] = {hf__text(name.text), hf__text(group)};
    status = hf__conn_run(in->conn, &statement, values, 2, rows, in->deadline, in->err);
    hf__rendered_free(&name);
    return status;
}

/* PostgreSQL guards a group by its text, so groups that are equal must have equal texts. */
static hf_status check_group_equality(struct inspection *in)
{
    struct hf__rows rows;
    const struct hf__column *group = column_of(in, HF__ROLE_GROUP);
    if (!in->table->fifo || in->conn->server.database != HF__POSTGRES || !group)
        return HF_OK;
    hf__rows_init(&rows);
    hf_status status = ask_equality(in, group->name, &rows);
    if (status == HF_OK && rows.count > 0)
        status = FAULT(in, HF_UNSUPPORTED,
                       "table %s: column \"%s\" (\"group\") has %s, by which texts that differ may be one group, but \"fifo\" guards a "
                       "group by its text: give the column type text, or a deterministic collation",
                       in->table->display, group->name, hf__cell(&rows, 0, 0)->s.data);
    hf__rows_free(&rows);
    return status;
}

static hf_status check_columns(struct inspection *in)
{
    hf_status status = HF_OK;
    for (int role = 0; role < HF__ROLES && status == HF_OK; role++)
        status = check_role(in, (enum hf__role)role);
    if (status == HF_OK)
        status = check_token(in);
    if (status == HF_OK)
        status = check_key_columns(in);
    if (status == HF_OK)
        status = check_group_equality(in);
    return status;
}

/* ---- indexes ---- */

static hf_status check_unique_id(struct inspection *in)
{
    const char *id = in->table->column[HF__ROLE_ID];
    for (size_t i = 0; i < in->relation.n_indexes; i++) {
        const struct hf__index *index = &in->relation.indexes[i];
        if (index->unique && !index->partial && index->n_columns == 1 && hf__same_name(in->dialect, index->columns[0], id))
            return HF_OK;
    }
    if (in->relation.kind == HF__RELATION_PARTITIONED)
        return ADVICE(
            in, "table %s: no unique index of a partitioned table holds \"%s\" alone; ids must be unique over all partitions all the same",
            in->table->display, id);
    return FAULT(in, HF_INVALID,
                 "table %s: column \"%s\" (\"id\") has no primary key or unique index of its own, so one id could name several rows",
                 in->table->display, id);
}

static const char *why_order(const struct inspection *in)
{
    bool locks = in->conn->server.database == HF__MYSQL && in->kind != HF__ADVISORY_LOCK;
    if (in->table->fifo)
        return locks ? "without one a claim locks rows of other groups, which are then not claimed, and reads all rows for each group"
                     : "without one a claim reads all rows for each group";
    return locks ? "without one a claim locks every row that it sorts, and a second worker gets nothing while the first holds a row"
                 : "without one every claim reads and sorts all rows that are due";
}

static hf_status report_missing_index(struct inspection *in, const char *const *wanted, size_t n)
{
    char list[HF__ORDER_COLUMNS * 300] = "";
    size_t len = 0;
    for (size_t i = 0; i < n && len < sizeof list; i++) {
        int more = snprintf(list + len, sizeof list - len, "%s%.256s", i ? ", " : "", wanted[i]);
        if (more > 0)
            len += (size_t)more;
    }
    bool finished = in->dialect->partial_index && hf__table_has(in->table, HF__ROLE_PROCESSED_AT);
    return ADVICE(in, "table %s: no index matches the claim order; create one on (%s)%s%s%s: %s", in->table->display, list,
                  finished ? " WHERE " : "", finished ? in->table->column[HF__ROLE_PROCESSED_AT] : "", finished ? " IS NULL" : "",
                  why_order(in));
}

static hf_status check_claim_order(struct inspection *in)
{
    bool fifo = in->table->fifo; /* heads are read group by group */
    const char *wanted[HF__ORDER_COLUMNS];
    size_t n = hf__order_columns(in->table, in->dialect, fifo, wanted);
    for (size_t i = 0; i < n; i++)
        if (!hf__relation_column(&in->relation, wanted[i], in->dialect->any_case))
            return HF_OK; /* reported already */
    if (hf__order_index(in->table, in->dialect, &in->relation, true) ||
        (!fifo && hf__order_index(in->table, in->dialect, &in->relation, false)))
        return HF_OK;
    return report_missing_index(in, wanted, n);
}

/* Group, locked_until: who of a group is in work. It costs a FIFO table its HOT updates, but a group gives one row at a time, and without
 * it every claim reads all rows of the groups that it looks at. */
static bool is_lease_index(const struct inspection *in, const struct hf__index *index)
{
    return in->table->fifo && index->n_columns >= 2 && hf__same_name(in->dialect, index->columns[0], in->table->column[HF__ROLE_GROUP]) &&
           hf__same_name(in->dialect, index->columns[1], in->table->column[HF__ROLE_LOCKED_UNTIL]);
}

static hf_status check_lease_index(struct inspection *in)
{
    if (!in->table->fifo || in->kind != HF__LEASE)
        return HF_OK;
    for (size_t i = 0; i < in->relation.n_indexes; i++)
        if (is_lease_index(in, &in->relation.indexes[i]))
            return HF_OK;
    const char *group = in->table->column[HF__ROLE_GROUP], *lease = in->table->column[HF__ROLE_LOCKED_UNTIL];
    bool partial = in->dialect->partial_index;
    return ADVICE(in,
                  "table %s: no index tells which rows of a group are in work; create one on (%s, %s)%s%s%s: without one every claim "
                  "reads all rows of the groups that it looks at",
                  in->table->display, group, lease, partial ? " WHERE " : "", partial ? lease : "", partial ? " IS NOT NULL" : "");
}

/* An index on a column that every claim and renewal changes makes each of them write all indexes (PostgreSQL: no HOT update). */
static hf_status check_lease_columns_indexed(struct inspection *in)
{
    if (in->conn->server.database != HF__POSTGRES || in->kind == HF__ROW_LOCK)
        return HF_OK;
    for (size_t i = 0; i < in->relation.n_indexes; i++)
        for (size_t c = 0; !is_lease_index(in, &in->relation.indexes[i]) && c < in->relation.indexes[i].n_columns; c++) {
            const char *column = in->relation.indexes[i].columns[c];
            if (!hf__same_name(in->dialect, column, in->table->column[HF__ROLE_LOCKED_UNTIL]) &&
                !hf__same_name(in->dialect, column, in->table->column[HF__ROLE_ATTEMPT]))
                continue;
            return ADVICE(in,
                          "table %s: index \"%s\" names \"%s\", which every claim changes; no update can be HOT while it exists: drop it",
                          in->table->display, in->relation.indexes[i].name, column);
        }
    return HF_OK;
}

static hf_status check_nullable_order(struct inspection *in)
{
    const struct hf__column *due = column_of(in, HF__ROLE_RETRY_AFTER);
    if (!due || !due->nullable)
        return HF_OK;
    return ADVICE(in,
                  "table %s: column \"%s\" (\"retry_after\") allows NULL, which keeps claims from using an index range; make it NOT NULL "
                  "with a default",
                  in->table->display, due->name);
}

/* ---- SQLite: the shape of times, the journal ---- */

static hf_status check_time_shape(struct inspection *in, enum hf__role role)
{
    const char *name = in->table->column[role];
    if (!name || !column_of(in, role))
        return HF_OK;
    struct hf__rows rows;
    hf_status status =
        find_row(in, name, " NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*'", &rows);
    if (status == HF_OK && rows.count > 0) {
        char *found = hf__id_text(hf__cell(&rows, 0, 0));
        status = FAULT(in, HF_INVALID,
                       "table %s: column \"%s\" (\"%s\") holds \"%s\"; times are text YYYY-MM-DD HH:MM:SS[.ffffff] in UTC, and any other "
                       "shape would be"
                       " compared wrongly: convert those rows",
                       in->table->display, name, hf__role_key(role), found ? found : "");
        free(found);
    }
    hf__rows_free(&rows);
    return status;
}

/* Not a fault, and not ours to change: the mode is kept in the file. */
static hf_status check_journal(struct inspection *in)
{
    struct hf__rows rows;
    hf_status status = HF_OK;
    hf__rows_init(&rows);
    if (ask(in, "SELECT journal_mode FROM pragma_journal_mode", &rows) && !says(&rows, 0, "wal"))
        status =
            hf__find(in->findings, HF__FINDING_INFO, HF_OK,
                     "table %s: the database's journal mode is %s; with PRAGMA journal_mode = WAL, which the file keeps, a commit waits for"
                     " the disk about a quarter as long and readers do not hold up writers",
                     in->table->display, hf__cell(&rows, 0, 0)->s.data);
    hf__rows_free(&rows);
    return status;
}

static hf_status check_sqlite(struct inspection *in)
{
    if (in->conn->server.database != HF__SQLITE)
        return HF_OK;
    hf_status status = check_time_shape(in, HF__ROLE_RETRY_AFTER);
    if (status == HF_OK)
        status = check_time_shape(in, HF__ROLE_LOCKED_UNTIL);
    if (status == HF_OK)
        status = check_journal(in);
    return status;
}

/* ---- all of it ---- */

static hf_status check_table(struct inspection *in)
{
    hf_status status = check_relation(in);
    if (status != HF_OK || in->relation.kind == HF__RELATION_NONE || in->relation.kind == HF__RELATION_VIEW ||
        in->relation.kind == HF__RELATION_OTHER)
        return status;
    status = check_columns(in);
    if (status == HF_OK)
        status = check_unique_id(in);
    if (status == HF_OK)
        status = check_id(in);
    if (status == HF_OK)
        status = check_claim_order(in);
    if (status == HF_OK)
        status = check_lease_index(in);
    if (status == HF_OK)
        status = check_lease_columns_indexed(in);
    if (status == HF_OK)
        status = check_nullable_order(in);
    if (status == HF_OK)
        status = check_local_default(in);
    if (status == HF_OK)
        status = check_sqlite(in);
    if (status == HF_OK)
        status = hf__inspect_dead_letter(in->conn, in->table, &in->relation, in->deadline, in->findings, in->err);
    return status;
}

hf_status hf__inspect(struct hf__conn *conn, const struct hf_table *table, struct hf__deadline deadline, struct hf__findings *findings,
                      hf_error *err)
{
    struct inspection in = {.conn = conn,
                            .table = table,
                            .dialect = hf__dialect_of(conn->server.database),
                            .kind = hf__table_kind(table),
                            .deadline = deadline,
                            .findings = findings,
                            .err = err};
    hf_error unfit;
    hf_status status = hf__table_fits(table, conn->server.database, &unfit);
    if (status != HF_OK)
        return FAULT(&in, status, "%s", unfit.message);
    status = hf__conn_describe(conn, table->schema, table->name, deadline, &in.relation, err);
    if (status == HF_OK)
        status = check_server(&in);
    if (status == HF_OK)
        status = check_table(&in);
    hf__relation_free(&in.relation);
    return status == HF_NO_MEMORY ? hf__fail_memory(err) : status;
}

hf_status hf__table_fits(const struct hf_table *table, enum hf__database database, hf_error *err)
{
    const char *name = hf__database_name(database);
    if (hf__table_kind(table) == HF__ROW_LOCK && database == HF__SQLITE)
        return hf__fail(err, HF_UNSUPPORTED,
                        "table %s: SQLite has no row locks, so a transaction that held this row would hold the whole database; describe a"
                        " \"locked_until\" column (lease), or set \"advisory_lock\" (the process holds a key)",
                        table->display);
    if (table->mode_named && database != HF__SQLITE)
        return hf__fail(err, HF_INVALID, "table %s: \"mode\" is how SQLite begins a transaction, and this is %s; take it out",
                        table->display, name);
    if (table->no_key_update && database != HF__POSTGRES)
        return hf__fail(err, HF_INVALID, "table %s: \"lock\": \"no_key_update\" is PostgreSQL's, and this is %s; take it out",
                        table->display, name);
    return HF_OK;
}
