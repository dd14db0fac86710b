#include "holdfast_mysql.h"
#include "runtime/delivery.h"

MYSQL *hf_mysql_delivery(hf_delivery *delivery)
{
    return hf__delivery_native(delivery, HF__MYSQL);
}

MYSQL *hf_mysql_connection(hf_connection *connection)
{
    return hf__connection_native(connection, HF__MYSQL);
}
