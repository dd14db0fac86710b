/* Taking the passwords out of a URL's text. It also has to work on URLs that are wrong, so it marks everything that could be
 * a password under any reading, and rather takes out too much. */
#include <stdlib.h>
#include <string.h>

#include "url.h"
#include "url_span.h"

struct blanking {
    const char *url;
    unsigned char *secret; /* one for each byte of url */
};

static void mark(struct blanking *b, struct hf__span span)
{
    memset(b->secret + (span.at - b->url), 1, hf__span_len(span));
}

static bool is_secret_name(struct hf__span name)
{
    static const char *const words[] = {"password", "passwd", "pwd", "secret"};
    char *text = hf__span_decode(name);
    bool secret = text == NULL; /* out of memory: rather one word too few */
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof words[0]; i++) {
        secret = secret || strcasestr(text, words[i]) != NULL;
    }
    free(text);
    return secret;
}

/* A part without '=' may be the tail of a password with an '&' in it. */
static void mark_options(struct blanking *b, struct hf__span rest)
{
    rest.at = hf__span_first(rest, "?");
    while (rest.at < rest.end) {
        rest.at++;
        struct hf__span part = {rest.at, hf__span_first(rest, "&")};
        const char *equals = hf__span_first(part, "=");
        if (equals == part.end) {
            mark(b, part);
        } else if (is_secret_name((struct hf__span){part.at, equals})) {
            mark(b, (struct hf__span){equals + 1, part.end});
        }
        rest.at = part.end;
    }
}

/* What stands between the first ':' and the given '@'. */
static void mark_password(struct blanking *b, struct hf__span authority, const char *at_sign)
{
    const char *colon = hf__span_first((struct hf__span){authority.at, at_sign}, ":");
    if (colon < at_sign) {
        mark(b, (struct hf__span){colon + 1, at_sign});
    }
}

/* A host with a "port" that is no number looks like user:password whose '@' was forgotten. */
static void mark_odd_ports(struct blanking *b, struct hf__span hosts, const char *url_end)
{
    while (hosts.at < hosts.end) {
        struct hf__span host = hf__span_take(&hosts, ',');
        if (host.at < host.end && *host.at == '[') {
            host.at = hf__span_first(host, "]");
        }
        const char *colon = hf__span_first(host, ":");
        const char *port = colon < host.end ? colon + 1 : host.end;
        if (port + strspn(port, "0123456789") < host.end) {
            mark(b, (struct hf__span){port, url_end});
        }
    }
}

/* The proper reading (the password ends at the last '@' before the path), and the one with a '/' or '?' in the password. */
static void mark_authority(struct blanking *b, struct hf__span rest)
{
    struct hf__span authority = {rest.at, hf__span_first(rest, "/?#")};
    const char *at_sign = hf__span_last(authority, '@');
    if (at_sign != NULL) {
        mark_password(b, authority, at_sign);
        authority.at = at_sign + 1;
    }
    mark_odd_ports(b, authority, rest.end);
    mark_options(b, (struct hf__span){authority.end, rest.end});
    const char *last = hf__span_last(rest, '@');
    if (last != NULL && last != at_sign) {
        mark_password(b, rest, last);
        mark_options(b, (struct hf__span){last, rest.end});
    }
}

static char *write_blanked(const struct blanking *b, size_t len)
{
    size_t runs = 0;
    for (size_t i = 0; i < len; i++) {
        runs += b->secret[i] && (i == 0 || !b->secret[i - 1]);
    }
    char *text = malloc(len + 3 * runs + 1);
    if (text == NULL) {
        return NULL;
    }
    char *out = text;
    for (size_t i = 0; i < len; i++) {
        if (!b->secret[i]) {
            *out++ = b->url[i];
        } else if (i == 0 || !b->secret[i - 1]) {
            out = stpcpy(out, "***");
        }
    }
    *out = '\0';
    return text;
}

char *hf__url_blank(const char *url)
{
    size_t len = strlen(url);
    const char *slashes = strstr(url, "://");
    bool is_sqlite = strncmp(url, "sqlite:", 7) == 0;
    if (!is_sqlite && slashes == NULL) {
        return strdup("***"); /* a keyword string, or anything at all */
    }
    struct blanking b = {.url = url, .secret = calloc(len + 1, 1)};
    if (b.secret == NULL) {
        return NULL;
    }
    if (is_sqlite) {
        mark_options(&b, (struct hf__span){url, url + len});
    } else {
        mark_authority(&b, (struct hf__span){slashes + 3, url + len});
    }
    char *text = write_blanked(&b, len);
    free(b.secret);
    return text;
}
