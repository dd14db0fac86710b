#include "strategies/dialect.h"

const struct hf__dialect *hf__dialect_of(enum hf__database database)
{
    static const struct hf__dialect *const dialects[] = {
        [HF__POSTGRES] = &hf__dialect_postgres, [HF__MYSQL] = &hf__dialect_mysql, [HF__SQLITE] = &hf__dialect_sqlite};
    return dialects[database];
}
