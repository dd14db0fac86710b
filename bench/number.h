/* Numbers as text, the same in every locale. */
#ifndef HF_BENCH_NUMBER_H
#define HF_BENCH_NUMBER_H

enum { BENCH_NUMBER_TEXT = 48 };

/* "1,234.50" with 2 decimals (0 to 6). What is not finite, or at least 1e12, is a dash. Returns out. */
char *bench_number(double value, int decimals, char out[BENCH_NUMBER_TEXT]);
/* "1234.50": for a program that reads it. What is not finite, or at least 1e12, is 0. Returns out. */
char *bench_number_plain(double value, int decimals, char out[BENCH_NUMBER_TEXT]);
/* With three digits that mean something, at most 3 decimals: 1,234 - 56.7 - 0.891 - 0. */
char *bench_number_short(double value, char out[BENCH_NUMBER_TEXT]);

#endif
