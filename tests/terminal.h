/* Programs on a terminal of their own. */
#ifndef HF_TESTS_TERMINAL_H
#define HF_TESTS_TERMINAL_H

#include "tests/support.h"

/* Runs it with standard input, output and error on a new terminal until it ends, and returns all that it wrote there (until the process
 * ends). *code: its exit status, or HF_TEST_SIGNALLED plus the signal. */
const char *hf_test_on_terminal(const char *const *argv, int *code);

#endif
