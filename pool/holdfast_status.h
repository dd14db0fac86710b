/* Statuses and errors of holdfast. Included by holdfast.h; usable from C++. */
#ifndef HOLDFAST_STATUS_H
#define HOLDFAST_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "holdfast needs POSIX threads"
#endif

#define HF_API __attribute__((visibility("default")))
#define HF_CHECKED __attribute__((warn_unused_result))

/* Every status once: name, number, text. The numbers never change. */
#define HF_STATUS_MAP(X)                                                          \
    X(OK, 0, "ok")                                                                \
    X(INVALID, 1, "an argument, a setting or a table description is not valid")   \
    X(MISUSE, 2, "called in a state or from a thread that does not allow it")     \
    X(NO_MEMORY, 3, "out of memory")                                              \
    X(SYSTEM, 4, "the operating system refused")                                  \
    X(UNREACHABLE, 5, "the database cannot be reached")                           \
    X(DENIED, 6, "the database refused the login or a right")                     \
    X(SERVER_TOO_OLD, 7, "the server is older than the strategy needs")           \
    X(UNSUPPORTED, 8, "this database or this build does not offer it")            \
    X(DATABASE, 9, "the database refused the statement")                          \
    X(TRANSIENT, 10, "the database asks to try again")                            \
    X(TIMEOUT, 11, "the time limit passed")                                       \
    X(LOST, 12, "the connection is gone, and with it the row that it held")       \
    X(LEASE_LOST, 13, "the lease is no longer ours; nothing was changed")         \
    X(UNKNOWN, 14, "the answer never came and the row cannot tell what happened") \
    X(BUSY, 15, "still in use")                                                   \
    X(STOPPED, 16, "the runtime is stopping")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, number, text) HF_##name = number,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/* What went wrong, in words. The caller owns it; it never grows, so no size is needed; every call that takes one
 * accepts NULL, and writes it only when it returns something other than HF_OK. A password never stands in it. */
typedef struct hf_error {
    hf_status status;
    int native_code;    /* the server's or SQLite's number, 0 if none */
    char sqlstate[6];   /* five characters, or "" */
    char message[1024]; /* UTF-8, NUL-terminated, cut at a character boundary */
} hf_error;

/* The status's name ("HF_LEASE_LOST") and its text. Static strings, never NULL; any thread; never block. */
HF_API const char *hf_status_name(hf_status status);
HF_API const char *hf_status_text(hf_status status);

#ifdef __cplusplus
}
#endif
#endif
