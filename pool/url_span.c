#include "url_span.h"

#include <stdlib.h>
#include <string.h>

size_t hf__span_len(struct hf__span span)
{
    return (size_t)(span.end - span.at);
}

const char *hf__span_first(struct hf__span span, const char *any_of)
{
    while (span.at < span.end && strchr(any_of, *span.at) == NULL) {
        span.at++;
    }
    return span.at;
}

const char *hf__span_last(struct hf__span span, char c)
{
    return memrchr(span.at, c, hf__span_len(span));
}

struct hf__span hf__span_take(struct hf__span *rest, char separator)
{
    const char text[] = {separator, '\0'};
    struct hf__span part = {rest->at, hf__span_first(*rest, text)};
    rest->at = part.end < rest->end ? part.end + 1 : part.end;
    return part;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* -1 if it is no escape that can stand. */
static int escaped_byte(const char *at, const char *end)
{
    if (end - at < 3 || hex_value(at[1]) < 0 || hex_value(at[2]) < 0) {
        return -1;
    }
    int byte = hex_value(at[1]) * 16 + hex_value(at[2]);
    return byte == 0 ? -1 : byte;
}

bool hf__span_bad_escape(struct hf__span span)
{
    for (; span.at < span.end; span.at++) {
        if (*span.at == '%' && escaped_byte(span.at, span.end) < 0) {
            return true;
        }
    }
    return false;
}

char *hf__span_decode(struct hf__span span)
{
    char *text = malloc(hf__span_len(span) + 1);
    if (text == NULL) {
        return NULL;
    }
    char *out = text;
    while (span.at < span.end) {
        int byte = *span.at == '%' ? escaped_byte(span.at, span.end) : -1;
        if (byte < 0) {
            *out++ = *span.at++;
        } else {
            *out++ = (char)byte;
            span.at += 3;
        }
    }
    *out = '\0';
    return text;
}
