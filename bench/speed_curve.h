/* The speed of the database as the model reads it: by straight lines between what was measured, by the last beyond. Where processes share
 * it, each has its part of what they have together when each has as many there. */
#ifndef HF_BENCH_SPEED_CURVE_H
#define HF_BENCH_SPEED_CURVE_H

#include "bench/model.h"

double bench_between(double low, double high, double share);
/* Of all processes together, with n in the database (n_speed > 0). */
struct bench_speed bench_speed_at(const struct bench_speed *speed, size_t n_speed, double n);
/* Of one of them, with n of its own there. */
struct bench_speed bench_curve_at(const struct bench_model_input *input, double n);
/* The most jobs of a batch, at least 1. */
double bench_curve_batch(const struct bench_model_input *input);
/* Of the time that a full batch is in the database when n are, what one of `jobs` jobs is. */
double bench_curve_share(const struct bench_model_input *input, double n, double jobs);
/* Batches of `jobs` jobs a millisecond with n in the database; below the first measurement, where there is less than one delivery, in
 * proportion. Never 0. */
double bench_curve_speed(const struct bench_model_input *input, double n, double jobs);
/* The best that so many workers, with what is claimed ahead of them, can have. */
double bench_curve_best(const struct bench_model_input *input, double jobs);
/* That a job is in the handler while n are in the database. */
double bench_curve_handler_ms(const struct bench_model_input *input, double n);
/* From this number on neither the speed falls nor handlers end sooner. */
size_t bench_curve_grows_from(const struct bench_model_input *input);

#endif
