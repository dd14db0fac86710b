/* Numbers as text, without printf's %f, which follows the locale. */
#include "bench/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BENCH_NUMBER_LIMIT 1e12

static const long long powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

/* The digits of the whole part, with a comma at each third place where that is wanted. */
static char *whole(long long value, int grouped, char out[BENCH_NUMBER_TEXT])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", value);
    char *end = out;
    for (int i = 0; i < n; i++) {
        if (grouped && i > 0 && (n - i) % 3 == 0) {
            *end++ = ',';
        }
        *end++ = digits[i];
    }
    *end = '\0';
    return end;
}

static char *number(double value, int decimals, int grouped, char out[BENCH_NUMBER_TEXT])
{
    decimals = decimals < 0 ? 0 : decimals > 6 ? 6 : decimals;
    long long power = powers[decimals];
    long long scaled = llround(fabs(value) * (double)power);
    char *at = out;
    if (value < 0 && scaled != 0) {
        *at++ = '-';
    }
    char text[BENCH_NUMBER_TEXT];
    whole(scaled / power, grouped, text);
    size_t room = BENCH_NUMBER_TEXT - (size_t)(at - out);
    if (decimals == 0) {
        snprintf(at, room, "%.30s", text);
    } else {
        snprintf(at, room, "%.26s.%0*d", text, decimals, (int)(scaled % power));
    }
    return out;
}

char *bench_number(double value, int decimals, char out[BENCH_NUMBER_TEXT])
{
    if (!isfinite(value) || fabs(value) >= BENCH_NUMBER_LIMIT) {
        memcpy(out, "\xe2\x80\x93", sizeof "\xe2\x80\x93");
        return out;
    }
    return number(value, decimals, 1, out);
}

char *bench_number_plain(double value, int decimals, char out[BENCH_NUMBER_TEXT])
{
    return number(isfinite(value) && fabs(value) < BENCH_NUMBER_LIMIT ? value : 0, decimals, 0, out);
}

char *bench_number_short(double value, char out[BENCH_NUMBER_TEXT])
{
    double size = fabs(value);
    int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
    return bench_number(value, decimals, out);
}
