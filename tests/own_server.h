/* A MariaDB of a suite's own, with options that would disturb the others. */
#ifndef HF_TESTS_OWN_SERVER_H
#define HF_TESTS_OWN_SERVER_H

#include "tests/support.h"

/* Starts it, unless it runs, with these command-line options, and points hf_test_mysql_url and its like at it. */
void hf_test_own_server_start(const char *name, const char *options);
/* The exit status of stopping it; 0 when it does not run. Also after a failed assertion: for the end of main(). */
int hf_test_own_server_stop(const char *name);

#endif
