#include "strategies/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void put_quoted(FILE *out, const char *text, size_t len)
{
    fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fputc('\\', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

static void put_bytes(FILE *out, const char *data, size_t len)
{
    fputs("\"\\\\x", out);
    for (size_t i = 0; i < len; i++)
        fprintf(out, "%02x", (unsigned char)data[i]);
    fputc('"', out);
}

static void put_value(FILE *out, const struct hf__value *value)
{
    char time[HF__TIME_TEXT];
    switch (value->type) {
    case HF__NULL:
        fputs("NULL", out);
        break;
    case HF__INT:
        fprintf(out, "%" PRId64, value->i);
        break;
    case HF__UINT:
        fprintf(out, "%" PRIu64, value->u);
        break;
    case HF__TEXT:
        put_quoted(out, value->s.data, value->s.len);
        break;
    case HF__BYTES:
        put_bytes(out, value->s.data, value->s.len);
        break;
    case HF__TIME:
        hf__time_format(value->i, time);
        fprintf(out, "\"%s+00\"", time);
        break;
    }
}

char *hf__array_text(size_t n, struct hf__value (*value_of)(const void *ctx, size_t i), const void *ctx)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return NULL;
    fputc('{', out);
    for (size_t i = 0; i < n; i++) {
        struct hf__value value = value_of(ctx, i);
        if (i)
            fputc(',', out);
        put_value(out, &value);
    }
    fputc('}', out);
    if (ferror(out) | fclose(out)) { /* both must happen */
        free(text);
        return NULL;
    }
    return text;
}
