/* A small checker of XML. */
#include "tests/markup.h"

#include <ctype.h>
#include <string.h>

#include "tests/support.h"

enum { DEPTH = 64, ATTRIBUTES = 32 };

struct span {
    const char *at;
    size_t len;
};

struct reader {
    const char *at;
    struct span open[DEPTH];
    size_t depth, roots;
    const char *fault;
};

static bool fail(struct reader *reader, const char *what)
{
    if (!reader->fault) {
        reader->fault = hf_test_format("%s at: %.60s", what, reader->at);
    }
    return false;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == ':';
}

static struct span name(struct reader *reader)
{
    struct span span = {.at = reader->at};
    while (is_name(*reader->at)) {
        reader->at++;
    }
    span.len = (size_t)(reader->at - span.at);
    return span;
}

static void blanks(struct reader *reader)
{
    while (isspace((unsigned char)*reader->at)) {
        reader->at++;
    }
}

static bool same(struct span a, struct span b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* Text up to one of the characters in `ends`. */
static bool characters(struct reader *reader, const char *ends)
{
    for (; *reader->at && !strchr(ends, *reader->at); reader->at++) {
        if (*reader->at == '&') {
            size_t len = strspn(reader->at + 1, "#abcdefghijklmnopqrstuvwxyz0123456789");
            if (len == 0 || reader->at[1 + len] != ';') {
                return fail(reader, "a bare &");
            }
        }
        if ((unsigned char)*reader->at < ' ' && *reader->at != '\n' && *reader->at != '\t') {
            return fail(reader, "a control character");
        }
    }
    return true;
}

static bool attributes(struct reader *reader)
{
    struct span seen[ATTRIBUTES];
    size_t n = 0;
    for (blanks(reader); is_name(*reader->at); blanks(reader)) {
        struct span attribute = name(reader);
        for (size_t i = 0; i < n; i++) {
            if (same(seen[i], attribute)) {
                return fail(reader, "an attribute that was there before");
            }
        }
        if (n == ATTRIBUTES || reader->at[0] != '=' || reader->at[1] != '"') {
            return fail(reader, "an attribute without a quoted value");
        }
        seen[n++] = attribute;
        reader->at += 2;
        if (!characters(reader, "\"<") || *reader->at != '"') {
            return fail(reader, "a value without an end");
        }
        reader->at++;
    }
    return true;
}

static bool close_tag(struct reader *reader)
{
    reader->at += 2;
    struct span tag = name(reader);
    if (reader->depth == 0 || !same(reader->open[reader->depth - 1], tag) || *reader->at != '>') {
        return fail(reader, "an end tag that matches none");
    }
    reader->depth--;
    reader->at++;
    return true;
}

static bool open_tag(struct reader *reader)
{
    reader->at++;
    struct span tag = name(reader);
    if (tag.len == 0 || !attributes(reader)) {
        return fail(reader, "no tag");
    }
    reader->roots += reader->depth == 0;
    if (strncmp(reader->at, "/>", 2) == 0) {
        reader->at += 2;
        return true;
    }
    if (*reader->at != '>' || reader->depth == DEPTH) {
        return fail(reader, "a tag without an end");
    }
    reader->open[reader->depth++] = tag;
    reader->at++;
    return true;
}

static bool next(struct reader *reader)
{
    if (!characters(reader, "<")) {
        return false;
    }
    if (!*reader->at) {
        return true;
    }
    return reader->at[1] == '/' ? close_tag(reader) : open_tag(reader);
}

const char *hf_test_markup_fault(const char *text)
{
    static const char doctype[] = "<!DOCTYPE html>";
    struct reader reader = {.at = text};
    if (strncmp(text, doctype, sizeof doctype - 1) == 0) {
        reader.at += sizeof doctype - 1;
    }
    while (*reader.at && next(&reader)) {
    }
    if (!reader.fault && (reader.depth > 0 || reader.roots != 1)) {
        fail(&reader, reader.depth > 0 ? "an element without an end" : "not one root element");
    }
    return reader.fault;
}

size_t hf_test_occurrences(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}
