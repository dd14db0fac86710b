/* The holdfast command, run by tests: a table on a database, and calls of the command that are pointed at it. */
#ifndef HF_TESTS_COMMAND_H
#define HF_TESTS_COMMAND_H

#include "tests/support.h"

/* A table of its own. All strings live until the process ends. */
struct hf_test_place {
    enum hf__database database;
    const char *url;
    const char *table;       /* its name */
    const char *description; /* path of its JSON */
    const char *strategy;    /* "row_lock", "lease", "advisory" */
    const char *dir;         /* an empty directory for what handlers write */
};

/* Makes the table with `holdfast ddl --apply`. Columns: id, payload, attempt, retry_after, last_error, and what the strategy needs. */
struct hf_test_place hf_test_place(enum hf__database database, const char *strategy);

/* The same with further columns (", \"group\": \"queue\"") and settings (", \"fifo\": true") in the description. */
struct hf_test_place hf_test_place_with(enum hf__database database, const char *strategy, const char *columns, const char *settings);
#define HF_TEST_EVERY_COLUMN ", \"headers\": \"headers\", \"group\": \"queue\", \"priority\": \"urgency\", \"partition_key\": \"customer\""

/* A file in the place's directory, written with these bytes; its path. */
const char *hf_test_write_file(const char *dir, const char *name, const void *bytes, size_t len);
/* The file's content as a string; "" if there is none. */
const char *hf_test_read_file(const char *path);

/* Starts `holdfast NAME --db URL --table DESCRIPTION ARGUMENT...`; the arguments end with NULL. */
#define hf_test_command(place, name, ...) hf_test_command_list(place, name, NULL, (const char *const[]){__VA_ARGS__})
/* The same with settings of the environment. */
struct hf_test_child *hf_test_command_list(const struct hf_test_place *place, const char *name, const char *const *env,
                                           const char *const *arguments);
/* The same with bytes on its standard input. */
#define hf_test_command_input(place, name, input, len, ...) \
    hf_test_command_input_list(place, name, input, len, (const char *const[]){__VA_ARGS__})
struct hf_test_child *hf_test_command_input_list(const struct hf_test_place *place, const char *name, const void *input, size_t len,
                                                 const char *const *arguments);
/* Waits for its end, which must be this exit status, and returns what it wrote: until the process ends. Frees it. */
const char *hf_test_expect(struct hf_test_child *child, int code);       /* standard output */
const char *hf_test_expect_error(struct hf_test_child *child, int code); /* standard error */

/* Fail the test with both texts. */
void hf_test_must_contain(const char *text, const char *part);
void hf_test_must_not_contain(const char *text, const char *part);
void hf_test_must_be(const char *text, const char *wanted);

#endif
