#include "error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *hf_status_name(hf_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text) \
    case HF_##name:                     \
        return "HF_" #name;
        HF_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "HF_?";
}

const char *hf_status_text(hf_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text) \
    case HF_##name:                     \
        return text;
        HF_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "not a status of holdfast";
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0u) == 0x80u;
}

size_t hf__utf8_cut(const char *text, size_t len, size_t limit)
{
    if (len <= limit) {
        return len;
    }
    size_t end = limit;
    while (end > 0 && limit - end < 3 && is_continuation(text[end])) {
        end--;
    }
    /* More than three continuation bytes in a row are not UTF-8: there is no character to spare. */
    return is_continuation(text[end]) ? limit : end;
}

/* The length of the valid UTF-8 character at text[0..len), or 0. */
static size_t utf8_valid(const unsigned char *text, size_t len)
{
    static const struct {
        unsigned char first, last, second_min, second_max;
        size_t size;
    } forms[] = {
        {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    size_t form = 0;
    while (form < sizeof forms / sizeof forms[0] && text[0] > forms[form].last) {
        form++;
    }
    if (form == sizeof forms / sizeof forms[0] || text[0] < forms[form].first || forms[form].size > len) {
        return 0;
    }
    if (forms[form].size > 1 && (text[1] < forms[form].second_min || text[1] > forms[form].second_max)) {
        return 0;
    }
    for (size_t i = 2; i < forms[form].size; i++) {
        if (!is_continuation((char)text[i])) {
            return 0;
        }
    }
    return forms[form].size;
}

bool hf__utf8_valid(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len) {
        const unsigned char *at = (const unsigned char *)text + i;
        size_t size = *at >= 0x01 && *at <= 0x7F ? 1 : utf8_valid(at, len - i);
        if (size == 0) {
            return false;
        }
        i += size;
    }
    return true;
}

/* Servers may answer in any encoding before the session is set up. */
static void make_utf8(char *text, size_t len)
{
    size_t i = 0;
    while (i < len) {
        size_t size = utf8_valid((const unsigned char *)text + i, len - i);
        if (size == 0) {
            text[i] = '?';
            size = 1;
        }
        i += size;
    }
}

/* Formats aside first: an argument may be err->message itself. */
static void write_message(hf_error *err, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void write_message(hf_error *err, const char *format, va_list args)
{
    char wide[sizeof err->message + 4]; /* a little more than fits, to see whether a character is cut */
    int written = vsnprintf(wide, sizeof wide, format, args);
    if (written < 0) {
        wide[0] = '\0';
    }
    size_t len = hf__utf8_cut(wide, strlen(wide), sizeof err->message - 1);
    make_utf8(wide, len);
    memcpy(err->message, wide, len);
    err->message[len] = '\0';
}

hf_status hf__fail(hf_error *err, hf_status status, const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    va_list args;
    va_start(args, format);
    write_message(err, format, args);
    va_end(args);
    err->status = status;
    err->native_code = 0;
    err->sqlstate[0] = '\0';
    return status;
}

hf_status hf__fail_native(hf_error *err, hf_status status, int native_code, const char *sqlstate, const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    char state[sizeof err->sqlstate] = "";
    if (sqlstate != NULL) {
        memcpy(state, sqlstate, strnlen(sqlstate, sizeof state - 1));
    }
    va_list args;
    va_start(args, format);
    write_message(err, format, args);
    va_end(args);
    err->status = status;
    err->native_code = native_code;
    memcpy(err->sqlstate, state, sizeof state);
    return status;
}

static void put_before(hf_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_before(hf_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message(err, format, args);
    va_end(args);
}

hf_status hf__fail_context(hf_error *err, const char *format, ...)
{
    if (err == NULL) {
        return HF_SYSTEM;
    }
    hf_error context;
    va_list args;
    va_start(args, format);
    write_message(&context, format, args);
    va_end(args);
    put_before(err, "%s: %s", context.message, err->message);
    return err->status;
}

hf_status hf__fail_memory(hf_error *err)
{
    return hf__fail(err, HF_NO_MEMORY, "out of memory");
}
