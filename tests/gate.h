/* A gate at which handlers wait until the test has looked at what it wants to see. */
#ifndef HF_TESTS_GATE_H
#define HF_TESTS_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_test_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    size_t waiting;
};
#define HF_TEST_GATE_INIT                                             \
    {                                                                 \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 \
    }

void hf_test_gate_pass(struct hf_test_gate *gate); /* waits while it is shut; for handlers */
void hf_test_gate_open(struct hf_test_gate *gate);
void hf_test_gate_shut(struct hf_test_gate *gate);
size_t hf_test_gate_waiting(struct hf_test_gate *gate);
/* Main thread: waits until exactly n handlers wait; fails the test when that does not come about. */
void hf_test_gate_await(struct hf_test_gate *gate, size_t n);

#endif
