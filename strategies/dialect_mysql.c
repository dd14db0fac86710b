#include "strategies/plan.h"

static void key_column(struct hf__sql *sql, const char *column)
{
    hf__sql_put(sql, "CAST(");
    hf__sql_name(sql, column);
    hf__sql_put(sql, " AS CHAR CHARACTER SET utf8mb4)");
}

static void key_literal(struct hf__sql *sql, unsigned index)
{
    hf__sql_put(sql, "CAST(");
    hf__sql_bind_nth(sql, HF__P_LITERAL, index);
    hf__sql_put(sql, " AS CHAR CHARACTER SET utf8mb4)");
}

static void column_type(struct hf__sql *sql, enum hf__role role)
{
    static const char *const types[HF__ROLES] = {
        [HF__ROLE_ID] = "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        [HF__ROLE_PAYLOAD] = "LONGBLOB",
        [HF__ROLE_HEADERS] = "JSON",
        [HF__ROLE_ATTEMPT] = "INT NOT NULL DEFAULT 1",
        [HF__ROLE_LAST_ERROR] = "TEXT",
        [HF__ROLE_GROUP] = "VARCHAR(255)",
        [HF__ROLE_PRIORITY] = "INT NOT NULL DEFAULT 0",
        [HF__ROLE_PARTITION_KEY] = "VARCHAR(255)",
        /* UTC whatever the session's zone is, and past 2038: neither is true of a TIMESTAMP or of CURRENT_TIMESTAMP. */
        [HF__ROLE_RETRY_AFTER] = "DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))",
        [HF__ROLE_PROCESSED_AT] = "DATETIME(6) NULL",
        [HF__ROLE_LOCKED_UNTIL] = "DATETIME(6) NULL",
    };
    hf__sql_put(sql, types[role]);
}

static const char *table_options(const struct hf_table *table)
{
    (void)table;
    return " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
}

/* A lock's name is database, dot, key; its SHA-256 where that is longer than a name may be, or holds a character that a name
 * (utf8mb3) cannot. It is computed in a table of one row, so that the lock function stands outside and runs once. */
#define LOCK_NAME                                                                                             \
    "(CASE WHEN CHAR_LENGTH(k.n) <= 64 AND CAST(CONVERT(CONVERT(k.n USING utf8mb3) USING utf8mb4) AS BINARY)" \
    " = CAST(k.n AS BINARY) THEN k.n ELSE SHA2(k.n, 256) END"
#define LOCK_FROM ") FROM (SELECT CONCAT(LOWER(DATABASE()), '.', CAST(? AS CHAR CHARACTER SET utf8mb4)) AS n) AS k"

const struct hf__dialect hf__dialect_mysql = {
    .size = sizeof(struct hf__dialect),
    .database = HF__MYSQL,
    .floor = {[HF__ROW_LOCK] = 80001, [HF__LEASE] = 80001, [HF__ADVISORY_LOCK] = 80001},
    .mariadb_floor = {[HF__ROW_LOCK] = 100600, [HF__LEASE] = 100600, [HF__ADVISORY_LOCK] = 100600},
    .greatest = "GREATEST",
    .least = "LEAST",
    .any_case = true,
    .key_column = key_column,
    .key_literal = key_literal,
    .key_open = "CONCAT(",
    .key_comma = ", ",
    .key_close = ")",
    .bytes_open = "CAST(",
    .bytes_close = " AS BINARY)",
    .key_is_bytes = true,
    .try_lock = "SELECT GET_LOCK" LOCK_NAME ", 0" LOCK_FROM,
    .unlock = "SELECT RELEASE_LOCK" LOCK_NAME LOCK_FROM,
    .locking_read = true,
    .column_type = column_type,
    .key_column_type = "VARCHAR(255) NOT NULL",
    .table_options = table_options,
};
