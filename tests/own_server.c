#include "tests/own_server.h"

#include <stdlib.h>
#include <string.h>

#include "tests/command.h"

/* Under the directory of the servers that all suites share; NULL without that. */
static const char *dir_of(const char *name)
{
    const char *all = getenv("HF_TEST_SERVERS");
    return all && *all ? hf_test_format("%s/%s", all, name) : NULL;
}

static struct hf_test_child *ask(const char *name, const char *action, const char *options)
{
    const char *const argv[] = {"sh", HF_TEST_SOURCE_DIR "/tests/servers.sh", action, dir_of(name), "mariadb", NULL};
    const char *const env[] = {"HF_TEST_FSYNC=off", hf_test_format("HF_TEST_MYSQLD_OPTIONS=%s", options), NULL};
    return hf_test_start(argv, env);
}

/* This URL, at the port of that server. */
static void point_at(const char *variable, const char *url, long port)
{
    const char *colon = strrchr(url, ':'), *name = strrchr(url, '/');
    CU_ASSERT_FATAL(colon && name && name > colon);
    CU_ASSERT_EQUAL_FATAL(setenv(variable, hf_test_format("%.*s:%ld%s", (int)(colon - url), url, port, name), 1), 0);
}

void hf_test_own_server_start(const char *name, const char *options)
{
    if (!dir_of(name)) {
        hf_test_fail("HF_TEST_SERVERS is not set: run this test with `sh tests/run.sh`");
    }
    (void)hf_test_expect(ask(name, "start", options), 0);
    long port = strtol(hf_test_read_file(hf_test_format("%s/maria/port", dir_of(name))), NULL, 10);
    point_at("HF_TEST_MYSQL_URL", hf_test_mysql_url(), port);
    point_at("HF_TEST_MYSQL_ADMIN_URL", hf_test_mysql_admin_url(), port);
}

int hf_test_own_server_stop(const char *name)
{
    struct hf_test_child *child = dir_of(name) ? ask(name, "stop", "") : NULL;
    int code = child ? hf_test_wait(child, 60000) : 0;
    hf_test_free(child);
    return code;
}
