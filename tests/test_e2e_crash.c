/* ctest: timeout=240 labels=e2e
 * kill -9 while a handler runs. Under row lock and advisory lock the row runs again at once, under a lease when that is over. The
 * next delivery reads the attempt that the strategy's rule gives it. */
#include <signal.h>

#include "pool/deadline.h"
#include "tests/fleet.h"

#define LEASE_SECONDS 2
#define LIMIT_MS 20000
/* "At once" is milliseconds; on a busy machine it may be more. The server would keep the session of a dead host for longer than this. */
#define AT_ONCE_MS 10000

static struct hf_test_child *start_victim(const struct hf_test_fleet *fleet)
{
    return hf_test_fleet_start(fleet, "--workers", "1", "--handler", "hang", NULL);
}

static struct hf_test_child *start_heir(const struct hf_test_fleet *fleet)
{
    struct hf_test_child *heir = hf_test_fleet_start(fleet, "--workers", "2", "--poll-ms", "50", "--handler", "ms:1", "--until-empty", NULL);
    hf_test_fleet_ready(heir);
    return heir;
}

/* How long the lease of row 1 still lasts, by the database's clock. */
static int64_t lease_left_us(const struct hf_test_fleet *fleet)
{
    const char *sql[] = {
        [HF__POSTGRES] = "SELECT (extract(epoch FROM locked_until - clock_timestamp()) * 1000000)::bigint FROM %s WHERE id = 1",
        [HF__MYSQL] = "SELECT timestampdiff(MICROSECOND, utc_timestamp(6), locked_until) FROM %s WHERE id = 1",
        [HF__SQLITE] = "SELECT CAST((julianday(locked_until) - julianday('now')) * 86400000000 AS INTEGER) FROM %s WHERE id = 1",
    };
    char text[256];
    snprintf(text, sizeof text, "%s", sql[fleet->jobs.kind.database]);
    return hf_test_query_int(fleet->jobs.url, text);
}
