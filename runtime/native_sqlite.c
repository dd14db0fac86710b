#include "holdfast_sqlite.h"
#include "runtime/delivery.h"

sqlite3 *hf_sqlite_delivery(hf_delivery *delivery)
{
    return hf__delivery_native(delivery, HF__SQLITE);
}

sqlite3 *hf_sqlite_connection(hf_connection *connection)
{
    return hf__connection_native(connection, HF__SQLITE);
}
