#include "runtime/command_environment.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t length(char *const *list)
{
    size_t n = 0;
    while (list[n]) {
        n++;
    }
    return n;
}

static bool is_ours_alone(const char *entry)
{
    static const char *const prefixes[] = {"HOLDFAST_", "MYSQL_", "MARIADB_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return entry[0] == 'P' && entry[1] == 'G' && isupper((unsigned char)entry[2]);
}

char **hf__environment_base(char *const *ours)
{
    char **base = calloc(length(ours) + 1, sizeof *base);
    size_t n = 0;
    for (size_t i = 0; base && ours[i]; i++) {
        if (!is_ours_alone(ours[i])) {
            base[n++] = ours[i];
        }
    }
    return base;
}

/* What is absent is left out; false when out of memory. */
static bool add(char **environment, size_t *n, const char *name, const char *value)
{
    if (!value) {
        return true;
    }
    if (asprintf(&environment[*n], "%s=%s", name, value) < 0) {
        environment[*n] = NULL;
        return false;
    }
    ++*n;
    return true;
}

static bool add_delivery(char **environment, size_t n, const hf_delivery *delivery)
{
    char attempt[32];
    snprintf(attempt, sizeof attempt, "%lld", (long long)hf_delivery_attempt(delivery));
    return add(environment, &n, "HOLDFAST_ID", hf_delivery_id(delivery)) && add(environment, &n, "HOLDFAST_ATTEMPT", attempt) &&
           add(environment, &n, "HOLDFAST_GROUP", hf_delivery_group(delivery)) &&
           add(environment, &n, "HOLDFAST_KEY", hf_delivery_key(delivery)) &&
           add(environment, &n, "HOLDFAST_PARTITION_KEY", hf_delivery_partition_key(delivery)) &&
           add(environment, &n, "HOLDFAST_HEADERS", hf_delivery_headers(delivery));
}

char **hf__environment_make(char *const *base, const hf_delivery *delivery)
{
    size_t n = length(base);
    char **environment = calloc(n + 7, sizeof *environment);
    if (!environment) {
        return NULL;
    }
    memcpy(environment, base, n * sizeof *environment);
    if (!add_delivery(environment, n, delivery)) {
        hf__environment_free(base, environment);
        return NULL;
    }
    return environment;
}

void hf__environment_free(char *const *base, char **environment)
{
    if (environment) {
        for (size_t i = length(base); environment[i]; i++) {
            free(environment[i]);
        }
    }
    free(environment);
}
