/* Times and spans as people write them. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "pool/value.h"
#include "runtime/command_common.h"

#define US_PER_MINUTE INT64_C(60000000)

bool hf__seconds_ms(double seconds, int64_t *ms)
{
    static const double limit = 1e9;
    if (!isfinite(seconds) || seconds < 0 || seconds > limit) {
        return false;
    }
    double exact = seconds * 1000;
    *ms = (int64_t)exact;
    *ms += (double)*ms < exact;
    return true;
}

static bool digits(const char **at, size_t n, int64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < n; i++, ++*at) {
        if (!isdigit((unsigned char)**at)) {
            return false;
        }
        *number = *number * 10 + (**at - '0');
    }
    return true;
}

/* "2031-12-31T23:59" with or without ":59". */
static bool read_date(const char **at, int64_t *us)
{
    static const char shape[] = "YYYY-MM-DD HH:MM:SS";
    const size_t short_len = sizeof shape - 1 - 3;
    char text[sizeof shape] = "";
    bool has_seconds = strlen(*at) > short_len && (*at)[short_len] == ':';
    size_t len = has_seconds ? sizeof shape - 1 : short_len;
    if (strlen(*at) < len || !strchr("Tt ", (*at)[10])) {
        return false;
    }
    memcpy(text, *at, len);
    text[10] = ' ';
    if (!has_seconds) {
        memcpy(text + len, ":00", 3);
    }
    *at += len;
    return hf__time_parse(text, sizeof shape - 1, us);
}

/* Never down: what a seventh digit says is one microsecond more. */
static bool read_fraction(const char **at, int64_t *us)
{
    if (**at != '.' && **at != ',') {
        return true;
    }
    bool more = false;
    int64_t unit = 1000000;
    const char *first = ++*at;
    for (; isdigit((unsigned char)**at); ++*at) {
        unit /= 10;
        *us += (**at - '0') * unit;
        more = more || (unit == 0 && **at != '0');
    }
    *us += more;
    return *at > first;
}

/* "Z", "+02:00", "+0200", "+02"; nothing is UTC. */
static bool read_zone(const char **at, int64_t *us)
{
    int64_t hours = 0;
    int64_t minutes = 0;
    char sign = **at;
    if (sign == '\0') {
        return true;
    }
    ++*at;
    if (sign == 'Z' || sign == 'z') {
        return true;
    }
    if ((sign != '+' && sign != '-') || !digits(at, 2, &hours)) {
        return false;
    }
    *at += **at == ':';
    if (**at != '\0' && !digits(at, 2, &minutes)) {
        return false;
    }
    int64_t offset = (hours * 60 + minutes) * US_PER_MINUTE;
    *us -= sign == '+' ? offset : -offset;
    return hours < 24 && minutes < 60;
}

bool hf__time_from_text(const char *text, int64_t *us)
{
    return read_date(&text, us) && read_fraction(&text, us) && read_zone(&text, us) && *text == '\0' && *us > 0;
}
