#include "strategies/column.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static bool in_range(const struct hf__column *column, const struct hf__value *value)
{
    unsigned bits = column->bits > 0 && column->bits < 64 ? column->bits : 64;
    if (value->type == HF__UINT)
        return column->is_unsigned && bits == 64;
    if (column->is_unsigned)
        return value->i >= 0 && (bits == 64 || value->i < (int64_t)1 << bits);
    int64_t most = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return value->i <= most && value->i >= -most - 1;
}

bool hf__column_integer(const struct hf__column *column, const char *text, struct hf__value *out)
{
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    char *end;
    if (!isdigit((unsigned char)*digits))
        return false;
    errno = 0;
    *out = hf__int(strtoll(text, &end, 10));
    if (errno == ERANGE && *text != '-') { /* past 63 bits */
        errno = 0;
        *out = hf__uint(strtoull(text, &end, 10));
    }
    return errno == 0 && *end == '\0' && in_range(column, out);
}

static bool is_uuid(const char *text)
{
    size_t digits = 0;
    for (; *text; text++) {
        if (*text != '-' && !isxdigit((unsigned char)*text))
            return false;
        digits += *text != '-';
    }
    return digits == 32;
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

bool hf__column_holds(const struct hf__column *column, const char *text)
{
    struct hf__value number;
    if (column->kind == HF__COLUMN_INTEGER)
        return hf__column_integer(column, text, &number);
    if (column->kind == HF__COLUMN_UUID)
        return is_uuid(text);
    return column->max_chars == 0 || characters(text) <= column->max_chars;
}
