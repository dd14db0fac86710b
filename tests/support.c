#include "tests/support.h"

#include <CUnit/Basic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool wanted(const char *name, int argc, char **argv)
{
    if (argc < 2) {
        return true;
    }
    for (int i = 1; i < argc; i++) {
        if (strstr(name, argv[i])) {
            return true;
        }
    }
    return false;
}

static int list(const CU_TestInfo *tests)
{
    for (; tests->pName; tests++) {
        puts(tests->pName);
    }
    return 0;
}

/* Returns the number of tests added, or -1. */
static int add_tests(CU_pSuite suite, const CU_TestInfo *tests, int argc, char **argv)
{
    int added = 0;
    for (; tests->pName; tests++) {
        if (wanted(tests->pName, argc, argv)) {
            if (!CU_add_test(suite, tests->pName, tests->pTestFunc)) {
                return -1;
            }
            added++;
        }
    }
    return added;
}

static int run(const char *name, const CU_TestInfo *tests, int argc, char **argv)
{
    CU_pSuite suite = CU_add_suite(name, NULL, NULL);
    int added = suite ? add_tests(suite, tests, argc, argv) : -1;
    if (added < 0) {
        fprintf(stderr, "%s: CUnit: %s\n", name, CU_get_error_msg());
        return 1;
    }
    if (added == 0) {
        fprintf(stderr, "%s: no test matches; --list prints their names\n", name);
        return 2;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    if (CU_basic_run_tests() != CUE_SUCCESS) {
        fprintf(stderr, "%s: CUnit: %s\n", name, CU_get_error_msg());
        return 1;
    }
    return CU_get_number_of_failures() == 0 ? 0 : 1;
}

int hf_test_main(int argc, char **argv, const char *suite, CU_TestInfo *tests)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list(tests);
    }
    /* Unbuffered: the name of the running test is out before a crash or a time limit ends it. */
    setvbuf(stdout, NULL, _IONBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS) {
        fprintf(stderr, "%s: CUnit: %s\n", suite, CU_get_error_msg());
        return 1;
    }
    int status = run(suite, tests, argc, argv);
    CU_cleanup_registry();
    return status;
}

static void fail_at(unsigned line, const char *file, const char *message)
{
    CU_assertImplementation(CU_FALSE, line, message, file, "", CU_TRUE);
}

void hf_test_fail(const char *format, ...)
{
    char message[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fail_at(0, "", message);
}

void hf_test_status(hf_status status, hf_status expected, const hf_error *err, const char *call, const char *file, int line)
{
    if (status == expected) {
        CU_assertImplementation(CU_TRUE, (unsigned)line, call, file, "", CU_FALSE);
        return;
    }
    char message[2048];
    bool told = err && status != HF_OK;
    snprintf(message, sizeof message, "%s: %s, not %s%s%s", call, hf_status_name(status), hf_status_name(expected), told ? ": " : "",
             told ? err->message : "");
    fail_at((unsigned)line, file, message);
}

void hf_test_ok(hf_status status, const hf_error *err, const char *call, const char *file, int line)
{
    hf_test_status(status, HF_OK, err, call, file, line);
}

int64_t hf_test_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void hf_test_sleep_ms(int64_t ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&span, &span) != 0) {
    }
}

bool hf_test_wait_until(bool (*check)(void *arg), void *arg, int64_t timeout_ms)
{
    int64_t end = hf_test_now_ms() + timeout_ms;
    for (long pause_ms = 1; !check(arg); pause_ms = pause_ms < 20 ? pause_ms * 2 : 20) {
        if (hf_test_now_ms() >= end) {
            return check(arg);
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
    }
    return true;
}

/* Strings that live until the process ends stay reachable from here. */
struct kept {
    struct kept *next;
    char text[];
};
static struct kept *kept_strings;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *keep(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    struct kept *kept = len < 0 ? NULL : malloc(sizeof *kept + (size_t)len + 1);
    if (!kept) {
        fputs("tests: out of memory\n", stderr);
        abort();
    }
    vsnprintf(kept->text, (size_t)len + 1, format, args);
    pthread_mutex_lock(&kept_lock);
    kept->next = kept_strings;
    kept_strings = kept;
    pthread_mutex_unlock(&kept_lock);
    return kept->text;
}

const char *hf_test_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = keep(format, args);
    va_end(args);
    return text;
}

const char *hf_test_scratch(const char *prefix)
{
    static unsigned count;
    return hf_test_format("%s_%ld_%u", prefix, (long)getpid(), __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
}
