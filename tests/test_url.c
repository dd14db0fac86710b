/* URLs: what is read from them, what is refused, and that no password gets out of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/url.h"
#include "support.h"

#define SECRET "s3cr3t"

/* A build without the database answers HF_UNSUPPORTED to everything about it. */
static bool built_with(const char *url)
{
    static const struct {
        const char *scheme;
        bool built;
    } databases[] = {{"sqlite", HOLDFAST_SQLITE}, {"postgres", HOLDFAST_POSTGRES}, {"m", HOLDFAST_MYSQL}};
    size_t i = 0;
    while (strncmp(url, databases[i].scheme, strlen(databases[i].scheme)) != 0) {
        i++;
    }
    return databases[i].built;
}

static struct hf__url *parse(const char *text)
{
    struct hf__url *url;
    hf_error err;
    if (!built_with(text)) {
        HF_TEST_STATUS(hf__url_parse(text, &url, &err), HF_UNSUPPORTED, &err);
        return NULL;
    }
    HF_TEST_OK(hf__url_parse(text, &url, &err), &err);
    return url;
}

static void refused(const char *text, const char *word)
{
    struct hf__url *url;
    hf_error err = {.message = ""};
    if (!built_with(text)) {
        return;
    }
    HF_TEST_STATUS(hf__url_parse(text, &url, &err), HF_INVALID, &err);
    CU_ASSERT_PTR_NULL(url);
    if (strstr(err.message, word) == NULL) {
        hf_test_fail("'%s' should mention '%s'", err.message, word);
    }
}

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

struct parts {
    const char *url, *user, *password, *host, *name;
    unsigned port;
};

static void mysql_parts(void)
{
    static const struct parts cases[] = {
        {"mysql://u:p@h:3307/db", "u", "p", "h", "db", 3307},
        {"mariadb://u:p@h:3307/db", "u", "p", "h", "db", 3307},
        {"mysql://", NULL, NULL, NULL, NULL, 0},
        {"mysql:///db", NULL, NULL, NULL, "db", 0},
        {"mysql://h", NULL, NULL, "h", NULL, 0},
        {"mysql://h:/db", NULL, NULL, "h", "db", 0},
        {"mysql://u@/db", "u", NULL, NULL, "db", 0},
        {"mysql://u:@h/", "u", "", "h", NULL, 0},
        {"mysql://:p@h", NULL, "p", "h", NULL, 0},
        {"mysql://@h", NULL, NULL, "h", NULL, 0},
        {"mysql://u:a@b%40c@h/db", "u", "a@b@c", "h", "db", 0},
        {"mysql://u:a:b:c@h/db", "u", "a:b:c", "h", "db", 0},
        {"mysql://u%3Ax:%2F%3f%25@h/d%2Fb", "u:x", "/?%", "h", "d/b", 0},
        {"mysql://u:%C3%A4@h/db", "u", "\xC3\xA4", "h", "db", 0},
        {"mysql://[::1]:3306/db", NULL, NULL, "::1", "db", 3306},
        {"mysql://u:p@[fe80::1%25eth0]/db", "u", "p", "fe80::1%eth0", "db", 0},
        {"mysql://h:65535/db", NULL, NULL, "h", "db", 65535},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf__url *url = parse(cases[i].url);
        bool right = url == NULL || (same(url->user, cases[i].user) && same(url->password, cases[i].password) &&
                                     same(url->host, cases[i].host) && same(url->name, cases[i].name) && url->port == cases[i].port);
        hf__url_free(url);
        if (!right) {
            hf_test_fail("%s was read wrong", cases[i].url);
        }
    }
}

static void mysql_options(void)
{
    struct hf__url *url =
        parse("mysql://u@localhost/db?socket=%2Frun%2Fm%20y.sock&ssl_mode=verify_ca&connect_timeout=7&pooler=transaction");
    if (url == NULL) {
        return;
    }
    CU_ASSERT(same(hf__url_option(url, "socket"), "/run/m y.sock"));
    CU_ASSERT(same(hf__url_option(url, "ssl_mode"), "verify_ca"));
    CU_ASSERT(same(hf__url_option(url, "connect_timeout"), "7"));
    CU_ASSERT_PTR_NULL(hf__url_option(url, "ssl_ca"));
    CU_ASSERT(url->pooler);
    hf__url_free(url);
    url = parse("mysql://h/db?pooler=session");
    CU_ASSERT_FALSE(url->pooler);
    hf__url_free(url);
}

static void mysql_refusals(void)
{
    refused("mysql://h:0/db", "port");
    refused("mysql://h:65536/db", "port");
    refused("mysql://h:99999999999999999999/db", "port");
    refused("mysql://h:3306x/db", "port");
    refused("mysql://h:-1/db", "port");
    refused("mysql://::1/db", "port");
    refused("mysql://[::1/db", "brackets");
    refused("mysql://[]/db", "brackets");
    refused("mysql://[::1]x/db", "brackets");
    refused("mysql://a,b/db", "one host");
    refused("mysql://h/a/b", "%2F");
    refused("mysql://u:p/w@h/db", "%2F");
    refused("mysql://u:1/w@h", "%2F");
    refused("mysql://u:1?w=x@h/db", "%3F");
    refused("mysql://h/db?nonsense=1", "nonsense");
    refused("mysql://h/db?ssl_mode=maybe", "verify_identity");
    refused("mysql://h/db?ssl_mode", "=");
    refused("mysql://h/db?&", "=");
    refused("mysql://h/db?ssl_ca=", "empty");
    refused("mysql://h/db?ssl_ca=a&ssl_ca=b", "twice");
    refused("mysql://h/db?connect_timeout=soon", "seconds");
    refused("mysql://h/db?connect_timeout=0", "seconds");
    refused("mysql://other/db?socket=/s", "socket");
    refused("mysql://u:%zz@h/db", "%25");
    refused("mysql://u:p%@h/db", "%25");
    refused("mysql://u:p@h/db%4", "%25");
    refused("mysql://u:a%00b@h/db", "%00");
    refused("mysql://h/db?synchronous=full", "synchronous");
}

static void libpq_text(const char *given, const char *expected, bool pooler)
{
    struct hf__url *url = parse(given);
    if (url == NULL) {
        return;
    }
    bool right = same(url->text, expected) && url->pooler == pooler;
    const char *shown = hf_test_format("%s became %s", given, url->text);
    hf__url_free(url);
    if (!right) {
        hf_test_fail("%s", shown);
    }
}

static void postgres_passes_through(void)
{
    static const char *const untouched[] = {
        "postgresql://",
        "postgres://u:p%40@h:5432/db",
        "postgresql://h1:5432,h2:5433/db?target_session_attrs=read-write",
        "postgresql:///db?host=/run/postgresql&user=x",
        "postgresql://[::1]:5432/db?sslmode=require&application_name=a%26b",
        "postgresql://%2Frun%2Fpostgresql/db",
        "postgresql://h/db?options=-c%20geqo%3Doff",
    };
    for (size_t i = 0; i < sizeof untouched / sizeof untouched[0]; i++) {
        libpq_text(untouched[i], untouched[i], false);
    }
    libpq_text("postgresql://h/db?pooler=transaction", "postgresql://h/db", true);
    libpq_text("postgresql://h/db?pooler=transaction&sslmode=require", "postgresql://h/db?sslmode=require", true);
    libpq_text("postgresql://h/db?sslmode=require&pooler=transaction", "postgresql://h/db?sslmode=require", true);
    libpq_text("postgresql://h/db?a=1&pooler=session&b=2", "postgresql://h/db?a=1&b=2", false);
    libpq_text("postgresql://h/db?po%6Fler=transaction", "postgresql://h/db", true);
}

static void postgres_refusals(void)
{
    refused("postgresql://h/db?pooler=statement", "pooler");
    refused("postgresql://h/db?pooler=transaction&pooler=session", "twice");
    refused("postgresql://h/db?sslmode", "=");
    refused("postgresql://h/db?password=a=b", "=");
    refused("postgresql://h/db?x=%q1", "%25");
}

static void sqlite_paths(void)
{
    struct hf__url *url = parse("sqlite:/tmp/a%20b.db?synchronous=normal&create=1");
    if (url == NULL) {
        return;
    }
    CU_ASSERT_STRING_EQUAL(url->path, "/tmp/a b.db");
    CU_ASSERT(same(hf__url_option(url, "synchronous"), "normal"));
    CU_ASSERT(same(hf__url_option(url, "create"), "1"));
    hf__url_free(url);
    url = parse("sqlite:///tmp/x.db");
    CU_ASSERT(same(strstr(url->path, "/tmp/x.db"), "/tmp/x.db"));
    hf__url_free(url);
    url = parse("sqlite:x.db");
    char *here = getcwd(NULL, 0);
    CU_ASSERT(same(url->path, hf_test_format("%s/x.db", here)));
    free(here);
    hf__url_free(url);
}

static void sqlite_refusals(void)
{
    refused("sqlite:", "file");
    refused("sqlite:?create=1", "file");
    refused("sqlite::memory:", "in-memory");
    refused("sqlite:file:x.db", "file:");
    refused("sqlite://x.db", "host");
    refused("sqlite:x.db?pooler=transaction", "pooler");
    refused("sqlite:x.db?mode=rwc", "mode");
    refused("sqlite:x.db?synchronous=FULL", "full");
    refused("sqlite:x.db?create=yes", "0, 1");
    refused("sqlite:50%off.db", "%25");
}

static void other_schemes_are_refused(void)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "http://h/",
                                        "postgresql:",
                                        "POSTGRESQL://h",
                                        "mysql:h",
                                        " mysql://h",
                                        "/tmp/x.db",
                                        "host=h password=" SECRET,
                                        "u:" SECRET "@h/db"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct hf__url *url;
        hf_error err;
        HF_TEST_STATUS(hf__url_parse(wrong[i], &url, &err), HF_INVALID, &err);
        CU_ASSERT_PTR_NULL(url);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "postgresql://"));
        CU_ASSERT_PTR_NULL(strstr(err.message, SECRET));
    }
}

static void blanked(const char *given, const char *expected)
{
    char *text = hf__url_blank(given);
    bool right = same(text, expected);
    const char *shown = hf_test_format("%s became %s", given, text != NULL ? text : "nothing");
    free(text);
    if (!right) {
        hf_test_fail("%s", shown);
    }
}

static void good_urls_keep_their_rest(void)
{
    blanked("mysql://u:p@h:3306/db?ssl_mode=required", "mysql://u:***@h:3306/db?ssl_mode=required");
    blanked("mysql://u@h:3306/db", "mysql://u@h:3306/db");
    blanked("mysql://u:@h/db", "mysql://u:@h/db");
    blanked("postgresql://u:a@b@h1:1,[::1]:2/db", "postgresql://u:***@h1:1,[::1]:2/db");
    blanked("postgresql://h/db?user=x&password=p&sslmode=require", "postgresql://h/db?user=x&password=***&sslmode=require");
    blanked("postgresql://h/db?sslpassword=p", "postgresql://h/db?sslpassword=***");
    blanked("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db");
    blanked("sqlite:/tmp/a@b:c.db?create=1", "sqlite:/tmp/a@b:c.db?create=1");
    blanked("http://u:p@h/", "http://u:***@h/");
    blanked("host=h password=p", "***");
    blanked("", "***");
}

/* Right or wrong, read or refused: the secret is in no message and in no safe text. */
static void no_secret_gets_out(void)
{
    static const char *const urls[] = {
        "mysql://u:" SECRET "@h/db",
        "mysql://u:%zz" SECRET "@h/db",
        "mysql://u:" SECRET "@h:port/db",
        "mysql://u:" SECRET "@h/db?nonsense=1",
        "mysql://u:a/" SECRET "@h/db",
        "mysql://u:1/" SECRET "@h",
        "mysql://u:1?x=" SECRET "@h/db",
        "mysql://u:1?" SECRET "=x@h/db",
        "mysql://u:" SECRET "/x@h/db",
        "mysql://u:1#" SECRET "@h/db",
        "mysql://u:a@" SECRET "/b@h/db",
        "mysql://u:" SECRET,
        "mysql://u:" SECRET "/db",
        "mysql://u:1" SECRET "/db",
        "mysql://u:p@h/db?password=" SECRET,
        "mysql://u:p@h/db?pa%73sword=" SECRET "&x=1",
        "mysql://h/db?PassWord=" SECRET,
        "mysql://h/db?password=a&" SECRET,
        "postgresql://u:" SECRET "@h/db",
        "postgresql://h:5432/db?password=x@" SECRET,
        "postgresql://h:5432/db?password=" SECRET "@y",
        "postgresql://u:p@h/db?password=" SECRET "=",
        "postgresql://u:p@h/db?oauth_client_secret=" SECRET "&sslmode",
        "postgresql://u:a?b/" SECRET "@h/db?pooler=x",
        "postgresql://u:" SECRET "%@h/db",
        "sqlite:/x.db?password=" SECRET,
        "sqlite:/x.db?create=1&password=" SECRET,
        "ftp://u:" SECRET "@h/",
        "user=u password='" SECRET "' host=h",
        "password=" SECRET,
        SECRET,
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct hf__url *url;
        hf_error err = {.message = ""};
        hf_status status = hf__url_parse(urls[i], &url, &err);
        char *blank = hf__url_blank(urls[i]);
        bool leaks = blank == NULL || strstr(blank, SECRET) != NULL || strstr(err.message, SECRET) != NULL ||
                     (status == HF_OK && strstr(url->safe, SECRET) != NULL);
        hf__url_free(url);
        free(blank);
        if (leaks) {
            hf_test_fail("%s: the secret gets out: %s", urls[i], err.message);
        }
    }
}

int main(int argc, char **argv)
{
    CU_TestInfo tests[] = {
        {"MySQL parts", mysql_parts},
        {"MySQL options", mysql_options},
        {"MySQL refusals", mysql_refusals},
        {"PostgreSQL passes through", postgres_passes_through},
        {"PostgreSQL refusals", postgres_refusals},
        {"SQLite paths", sqlite_paths},
        {"SQLite refusals", sqlite_refusals},
        {"other schemes are refused", other_schemes_are_refused},
        {"good URLs keep their rest", good_urls_keep_their_rest},
        {"no secret gets out", no_secret_gets_out},
        CU_TEST_INFO_NULL,
    };
    return hf_test_main(argc, argv, "url", tests);
}
