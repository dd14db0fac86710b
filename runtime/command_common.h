/* What the subcommands of holdfast and holdfast-bench share. A parser that meets wrong usage ends the process with HF__EXIT_USAGE (argp
 * does); everything else returns its exit status. */
#ifndef HF_RUNTIME_COMMAND_COMMON_H
#define HF_RUNTIME_COMMAND_COMMON_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast.h"

extern const char *hf__program; /* "holdfast", or what hf__command_dispatch was given */

enum { HF__EXIT_DONE = 0, HF__EXIT_FAILED = 1, HF__EXIT_USAGE = 2 };

/* Keys of options without a short form; each parser's own begin at HF__KEY_OWN. */
enum { HF__KEY_DB = 0x100, HF__KEY_DB_FILE, HF__KEY_TABLE, HF__KEY_OWN = 0x200 };

/* --db, --db-file and --table: which table of which database. The options of every subcommand's child parser. */
struct hf__target {
    const char *url;      /* --db */
    const char *url_file; /* --db-file */
    const char *table;    /* --table */
};
extern const struct argp hf__target_argp;

/* The message on stderr. Returns HF__EXIT_FAILED. */
int hf__command_fail(const hf_error *err);
int hf__command_fail_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What could still be buffered for stdout is written; HF__EXIT_FAILED, with a message, if that does not work. */
int hf__command_flush(void);
/* A log line on stderr: time, level, message. */
void hf__command_log(void *ctx, hf_log_level level, const char *message);
void hf__command_logf(hf_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *hf__level_name(hf_log_level level);

/* Reads the description, opens a runtime, calls run and closes both. options may be NULL. Returns what run returned, or
 * HF__EXIT_FAILED with the message written. */
int hf__target_run(const struct hf__target *target, const hf_runtime_options *options,
                   int (*run)(hf_runtime *runtime, const hf_table *table, void *ctx), void *ctx);
/* The first line of the file of --db-file, without its end; owned. NULL, with a message, if there is none. */
char *hf__first_line(const char *path);
/* The object on stdout, a line for each member; takes it, NULL is out of memory. Returns the exit status. */
int hf__command_print_json(json_t *object);

/* Parses the options of `PROGRAM NAME`; argv[0] is replaced by those two words in every message. */
void hf__command_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input);
/* The number behind an option; wrong usage if it is none, or not within the limits. */
size_t hf__option_size(const struct argp_state *state, const char *option, const char *arg, size_t min, size_t max);
int64_t hf__option_int(const struct argp_state *state, const char *option, const char *arg);
/* Seconds with a fraction, as milliseconds, rounded up. */
int64_t hf__option_seconds_ms(const struct argp_state *state, const char *option, const char *arg, bool zero_allowed);

/* Seconds with a fraction as milliseconds, rounded up. False unless they lie between 0 and 1e9. */
bool hf__seconds_ms(double seconds, int64_t *ms);
/* ISO 8601, with a time of day; without a zone it is UTC. Microseconds since 1970, rounded up. False: it is none, or not after 1970. */
bool hf__time_from_text(const char *text, int64_t *us);
#define HF__TIME_WANTED "a time after 1970, such as 2031-12-31T23:59:59Z"
/* "1,234,567". Returns out. */
#define HF__NUMBER_TEXT 28
char *hf__number_text(uint64_t number, char out[HF__NUMBER_TEXT]);

/* Blanks the passwords of URLs out of the argument list, where `ps` shows them, and remembers what stood there. */
bool hf__arguments_hide(int argc, char **argv);
/* What an argument, or the end of one, read before it was blanked. */
const char *hf__argument(const char *shown);

struct hf__subcommand {
    const char *name;                  /* NULL in the last of a list */
    int (*run)(int argc, char **argv); /* argv[0] is its name; returns the exit status */
};
/* All of the main() of a program of that name: runs the subcommand that the command line names. doc is the text of --help. */
int hf__command_dispatch(const char *program, const char *doc, const struct hf__subcommand *subcommands, int argc, char **argv);

int hf__command_ddl(int argc, char **argv);
int hf__command_check(int argc, char **argv);
int hf__command_enqueue(int argc, char **argv);
int hf__command_work(int argc, char **argv);
int hf__command_stats(int argc, char **argv);
int hf__command_requeue(int argc, char **argv);

#endif
