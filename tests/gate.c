#include "tests/gate.h"

#include "tests/support.h"

#define LIMIT_MS 60000

void hf_test_gate_pass(struct hf_test_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->waiting++;
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    gate->waiting--;
    pthread_mutex_unlock(&gate->lock);
}

static void set(struct hf_test_gate *gate, bool open)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = open;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void hf_test_gate_open(struct hf_test_gate *gate)
{
    set(gate, true);
}

void hf_test_gate_shut(struct hf_test_gate *gate)
{
    set(gate, false);
}

size_t hf_test_gate_waiting(struct hf_test_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    size_t waiting = gate->waiting;
    pthread_mutex_unlock(&gate->lock);
    return waiting;
}

struct crowd {
    struct hf_test_gate *gate;
    size_t n;
};

static bool are_there(void *arg)
{
    const struct crowd *crowd = arg;
    return hf_test_gate_waiting(crowd->gate) == crowd->n;
}

void hf_test_gate_await(struct hf_test_gate *gate, size_t n)
{
    struct crowd crowd = {gate, n};
    if (!hf_test_wait_until(are_there, &crowd, LIMIT_MS)) {
        size_t there = hf_test_gate_waiting(gate);
        hf_test_gate_open(gate); /* so that the handlers end before the record that they write to */
        hf_test_fail("%zu handlers wait, not %zu", there, n);
    }
}
