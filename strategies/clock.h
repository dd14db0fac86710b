/* One "now" for every comparison: the database's time, kept on the host.
 *
 * now = CLOCK_MONOTONIC + offset, the offset measured against the server (the sample with the smallest round trip counts), so a
 * step of the host's wall clock changes nothing; it never runs backwards: when a new offset would step back, now advances at half
 * speed until it agrees. On SQLite there is no server: the wall clock is taken as it is, and never steps back either. */
#ifndef HF_STRATEGIES_CLOCK_H
#define HF_STRATEGIES_CLOCK_H

#include "pool/driver.h"

struct hf__clock;
HF_CHECKED hf_status hf__clock_new(struct hf__clock **out, hf_error *err);
void hf__clock_free(struct hf__clock *clock);
/* Measures the offset on a connection (a few round trips) and takes it over if it is due: at first, and every minute. Any thread. */
HF_CHECKED hf_status hf__clock_measure(struct hf__clock *clock, struct hf__conn *conn, struct hf__deadline deadline, hf_error *err);
bool hf__clock_due(struct hf__clock *clock);               /* is it time to measure again? */
int64_t hf__clock_now_us(struct hf__clock *clock);         /* any thread; before the first measurement: the wall clock */
int64_t hf__clock_host_offset_us(struct hf__clock *clock); /* the database's clock minus the host's wall clock, as last measured */
/* For tests and for the model: takes one sample. */
void hf__clock_sample(struct hf__clock *clock, int64_t sent_ns, int64_t received_ns, int64_t server_us);
/* The monotonic deadline at which `now` will have reached us (for waits until a lease ends). */
struct hf__deadline hf__clock_deadline(struct hf__clock *clock, int64_t us);

#endif
