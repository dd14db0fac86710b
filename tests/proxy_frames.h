/* Where messages begin and end, for the proxy. */
#ifndef HF_TESTS_PROXY_FRAMES_H
#define HF_TESTS_PROXY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/url.h"

struct hf_test_frame {
    size_t len; /* 0: it is not complete yet */
    bool waits; /* the client waits for an answer to it */
    bool login; /* and it is part of the login */
};

/* The first message of what a client sends. started: its login has begun. */
struct hf_test_frame hf_test_frame_up(enum hf__database database, bool started, const unsigned char *bytes, size_t len);
/* The first message of what a server sends; `waits`: with it an answer is complete. MySQL: whatever is there, which is where an answer
 * begins, and a server begins one when it is done. */
struct hf_test_frame hf_test_frame_down(enum hf__database database, const unsigned char *bytes, size_t len);

#endif
