/* The holdfast command: finds the subcommand and hands over. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command_common.h"

const char hf__program[] = "holdfast";

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is its name */
} subcommands[] = {
    {"ddl", hf__command_ddl},   {"check", hf__command_check}, {"enqueue", hf__command_enqueue},
    {"work", hf__command_work}, {"stats", hf__command_stats}, {"requeue", hf__command_requeue},
};

static const char usage_doc[] = "Runs jobs that are kept in a table of your own PostgreSQL, MySQL, MariaDB or SQLite database."
                                "\vCommands:\n"
                                "  ddl      print, or make, the table for a description\n"
                                "  check    find every fault of server, table and pool; tell the cost\n"
                                "  enqueue  add jobs\n"
                                "  work     run a shell command for each job\n"
                                "  stats    count the jobs\n"
                                "  requeue  move dead letters back to be run again\n"
                                "\n"
                                "holdfast COMMAND --help tells a command's options; holdfast(1) tells the rest, holdfast(7) the rules.";

struct choice {
    const struct subcommand *subcommand;
    int index; /* of its name in argv */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct choice *choice = state->input;
    switch (key) {
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        if (strcmp(arg, "help") == 0) {
            argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        }
        for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++) {
            if (strcmp(arg, subcommands[i].name) == 0) {
                *choice = (struct choice){&subcommands[i], state->next - 1};
                state->next = state->argc; /* the rest is the subcommand's */
                return 0;
            }
        }
        argp_error(state, "there is no command \"%s\"", arg);
        return EINVAL;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "holdfast %s\n", hf_version());
}

/* A descriptor 0, 1 or 2 that is closed would be given to a database connection, and a child would write into it. */
static bool standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDWR);
    }
    return fd >= 0 && close(fd) == 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {{.key = 'h', .flags = OPTION_HIDDEN}, {0}}; /* argp's own is -? */
    static const struct argp argp = {.options = options, .parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = usage_doc};
    argp_program_version_hook = print_version;
    argp_err_exit_status = HF__EXIT_USAGE;
    if (!standard_descriptors()) {
        return HF__EXIT_FAILED;
    }
    if (!hf__arguments_hide(argc, argv)) {
        return hf__command_fail_text("out of memory");
    }
    struct choice choice = {0};
    error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (error || !choice.subcommand) {
        return hf__command_fail_text("%s", error ? strerror(error) : "no command was given");
    }
    return choice.subcommand->run(argc - choice.index, argv + choice.index);
}
