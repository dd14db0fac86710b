#include "strategies/reason.h"

#include <stdlib.h>
#include <string.h>

/* The length of the UTF-8 character at text, 0 if the bytes there are none. */
static size_t character(const unsigned char *text, size_t left)
{
    if (text[0] == 0)
        return 0;
    if (text[0] < 0x80)
        return 1;
    size_t len = text[0] >= 0xf0 && text[0] < 0xf5 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc2 ? 2 : 0;
    if (text[0] >= 0xf5 || len == 0 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if (text[0] == 0xe0 && text[1] < 0xa0)
        return 0; /* overlong */
    if (text[0] == 0xed && text[1] > 0x9f)
        return 0; /* surrogates */
    if (text[0] == 0xf0 && text[1] < 0x90)
        return 0; /* overlong */
    if (text[0] == 0xf4 && text[1] > 0x8f)
        return 0; /* past U+10FFFF */
    return len;
}

bool hf__is_text(const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t width = character((const unsigned char *)data + i, len - i);
        if (width == 0)
            return false;
        i += width;
    }
    return true;
}

static size_t limit_of(const struct hf__column *column)
{
    size_t limit = HF__REASON_MAX;
    if (column->max_bytes > 0 && column->max_bytes < limit)
        limit = (size_t)column->max_bytes;
    if (column->max_chars > 0 && column->max_chars < limit)
        limit = (size_t)column->max_chars;
    return limit;
}

hf_status hf__reason_for(const struct hf__column *column, const char *reason, size_t len, char **out, hf_error *err)
{
    *out = NULL;
    if (!column || !reason)
        return HF_OK;
    size_t limit = limit_of(column), n = 0;
    char *text = malloc((len < limit ? len : limit) + 1);
    if (!text)
        return hf__fail_memory(err);
    for (size_t i = 0; i < len;) {
        size_t width = character((const unsigned char *)reason + i, len - i);
        size_t take = width > 0 ? width : 1;
        if (n + take > limit)
            break;
        if (width > 0)
            memcpy(text + n, reason + i, width);
        else
            text[n] = '?';
        n += take;
        i += take;
    }
    text[n] = '\0';
    *out = text;
    return HF_OK;
}
