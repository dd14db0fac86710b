/* main() of a program with subcommands: finds the one that the command line names, and hands over. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command_common.h"

struct choice {
    const struct hf__subcommand *subcommands, *found;
    int index; /* of the name that was found, in argv */
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
        for (const struct hf__subcommand *subcommand = choice->subcommands; subcommand->name; subcommand++) {
            if (strcmp(arg, subcommand->name) == 0) {
                choice->found = subcommand;
                choice->index = state->next - 1;
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
    fprintf(stream, "%s %s\n", hf__program, hf_version());
}

/* A descriptor 0, 1 or 2 that is closed would be given to a database connection, and a message of ours, or of a child, would be written
 * into it. */
static bool standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDWR);
    }
    return fd >= 0 && close(fd) == 0;
}

int hf__command_dispatch(const char *program, const char *doc, const struct hf__subcommand *subcommands, int argc, char **argv)
{
    static const struct argp_option options[] = {{.key = 'h', .flags = OPTION_HIDDEN}, {0}}; /* argp's own is -? */
    const struct argp argp = {.options = options, .parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = doc};
    hf__program = program;
    argp_program_version_hook = print_version;
    argp_err_exit_status = HF__EXIT_USAGE;
    if (!standard_descriptors()) {
        return HF__EXIT_FAILED;
    }
    if (!hf__arguments_hide(argc, argv)) {
        return hf__command_fail_text("out of memory");
    }
    struct choice choice = {.subcommands = subcommands};
    error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (error || !choice.found) {
        return hf__command_fail_text("%s", error ? strerror(error) : "no command was given");
    }
    return choice.found->run(argc - choice.index, argv + choice.index);
}
