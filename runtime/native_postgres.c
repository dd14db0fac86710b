#include "holdfast_postgres.h"
#include "runtime/delivery.h"

PGconn *hf_postgres_delivery(hf_delivery *delivery)
{
    return hf__delivery_native(delivery, HF__POSTGRES);
}

PGconn *hf_postgres_connection(hf_connection *connection)
{
    return hf__connection_native(connection, HF__POSTGRES);
}
