/* Which status an SQLite result code is. */
#include <errno.h>
#include <string.h>

#include "driver_sqlite.h"

static hf_status class_of_cantopen(sqlite3 *db)
{
    int os = sqlite3_system_errno(db);
    return os == EACCES || os == EPERM || os == EROFS ? HF_DENIED : HF_TRANSIENT; /* else: too many open files and the like */
}

/* After an I/O error nobody knows what reached the disk: the connection is given up, and a commit's outcome is read from the row. */
static hf_status class_of(sqlite3 *db, int rc)
{
    switch (rc) {
    case SQLITE_IOERR_NOMEM:
        return HF_NO_MEMORY;
    case SQLITE_READONLY_DBMOVED:
        return HF_LOST;
    default:
        break;
    }
    switch (rc & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_SCHEMA:
    case SQLITE_FULL:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
        return HF_TRANSIENT;
    case SQLITE_NOMEM:
        return HF_NO_MEMORY;
    case SQLITE_IOERR:
        return HF_LOST;
    case SQLITE_CANTOPEN:
        return class_of_cantopen(db);
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return HF_DENIED;
    case SQLITE_MISUSE:
        return HF_MISUSE;
    default:
        return HF_DATABASE;
    }
}

/* SQLite's own words for a lock tell nobody what to look for. */
static const char *hint_for(int rc)
{
    switch (rc & 0xFF) {
    case SQLITE_BUSY:
        return " (another connection held its lock until the time limit, or had written since this transaction began to read)";
    case SQLITE_NOTADB:
        return " (is the path right, and is the file not encrypted?)";
    default:
        return "";
    }
}

/* A statement that ran out of time by itself is undone and the connection stays good; inside a transaction SQLite may have
 * rolled all of it back, and the caller could not tell: there the connection is given up, which rolls back for certain. */
static hf_status fail_timeout(struct hf__sqlite *s, int code, hf_error *err)
{
    s->base.lost = s->begun || !sqlite3_get_autocommit(s->db);
    return hf__fail_native(err, HF_TIMEOUT, code, NULL, "SQLite database %s: the statement was stopped at its time limit", s->path);
}

hf_status hf__sqlite_fail(struct hf__sqlite *s, int rc, hf_error *err)
{
    if ((rc & 0xFF) == SQLITE_INTERRUPT && s->timed_out) {
        return fail_timeout(s, rc, err);
    }
    hf_status status = class_of(s->db, rc);
    s->base.lost = s->base.lost || status == HF_LOST;
    s->base.retire = s->base.retire || (rc & 0xFF) == SQLITE_CORRUPT || (rc & 0xFF) == SQLITE_NOTADB;
    return hf__fail_native(err, status, rc, NULL, "SQLite database %s: %s%s", s->path, sqlite3_errmsg(s->db), hint_for(rc));
}
