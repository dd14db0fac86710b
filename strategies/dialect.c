#include "strategies/dialect.h"

#include <string.h>
#include <strings.h>

bool hf__same_name(const struct hf__dialect *dialect, const char *a, const char *b)
{
    if (!a || !b)
        return false;
    return dialect->any_case ? strcasecmp(a, b) == 0 : strcmp(a, b) == 0;
}

const struct hf__dialect *hf__dialect_of(enum hf__database database)
{
    static const struct hf__dialect *const dialects[] = {
        [HF__POSTGRES] = &hf__dialect_postgres, [HF__MYSQL] = &hf__dialect_mysql, [HF__SQLITE] = &hf__dialect_sqlite};
    return dialects[database];
}
