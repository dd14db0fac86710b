/* A TCP proxy between a test's connections and a server, which can lose one message on its way, or the server's answer to it, and the
 * connection with it. It knows as much of the protocols as counting messages takes: what a client sends until it waits for an answer is
 * one (PostgreSQL: up to a Query or a Sync; MySQL and MariaDB: a command). The login does not count. Any thread may call it while it
 * is open. */
#ifndef HF_TESTS_PROXY_H
#define HF_TESTS_PROXY_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support.h"

struct hf_test_proxy;

enum hf_test_cut {
    HF_TEST_CUT_NOTHING,
    HF_TEST_CUT_REQUEST, /* the server never gets the message */
    HF_TEST_CUT_ANSWER   /* the server has done what it says, and the answer is lost */
};

/* In front of the server of hf_test_url. Close it after everything that speaks through it. */
struct hf_test_proxy *hf_test_proxy_open(enum hf__database database);
void hf_test_proxy_close(struct hf_test_proxy *proxy);
const char *hf_test_proxy_url(const struct hf_test_proxy *proxy); /* until the process ends */

/* The nth message (from 1) that any client sends from now on is lost, or its answer, and its connection is cut; once. */
void hf_test_proxy_arm(struct hf_test_proxy *proxy, enum hf_test_cut cut, size_t nth);
void hf_test_proxy_disarm(struct hf_test_proxy *proxy);
bool hf_test_proxy_has_cut(struct hf_test_proxy *proxy); /* since it was armed */
/* The message at which it cut, with everything but printable ASCII left out; lives until the process ends. "" if it has not cut. */
const char *hf_test_proxy_cut_at(struct hf_test_proxy *proxy);

size_t hf_test_proxy_messages(struct hf_test_proxy *proxy); /* since it was armed, or opened */
size_t hf_test_proxy_accepted(struct hf_test_proxy *proxy); /* connections, since it was opened */

/* Passes nothing on, in either direction, and takes no connection, until it is let go. */
void hf_test_proxy_hold(struct hf_test_proxy *proxy, bool hold);

#endif
