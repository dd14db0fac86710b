/* Parts of a URL's text, and its percent-escapes. Shared by url.c and url_blank.c. */
#ifndef HF_POOL_URL_SPAN_H
#define HF_POOL_URL_SPAN_H

#include <stdbool.h>
#include <stddef.h>

struct hf__span {
    const char *at;
    const char *end;
};

size_t hf__span_len(struct hf__span span);
/* The first of any of these characters, or span.end. */
const char *hf__span_first(struct hf__span span, const char *any_of);
/* NULL if absent. */
const char *hf__span_last(struct hf__span span, char c);
/* Takes the part before the first `separator` off the front of *rest, and the separator too. */
struct hf__span hf__span_take(struct hf__span *rest, char separator);
/* A '%' without two hexadecimal digits, or %00, which no name here can hold. */
bool hf__span_bad_escape(struct hf__span span);
/* A malloc'd string, decoded; bad escapes stay as they are. NULL when memory is out. */
char *hf__span_decode(struct hf__span span);

#endif
