/* holdfast-bench: finds the subcommand and hands over. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/run.h"
#include "runtime/command_common.h"

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is its name */
} subcommands[] = {
    {"run", bench_command_run},   {"compare", bench_command_compare}, {"sweep", bench_command_sweep},
    {"plan", bench_command_plan}, {"verify", bench_command_verify},
};

static const char usage_doc[] = "Measures what each strategy of holdfast costs in database connections, and plans it."
                                "\vCommands:\n"
                                "  run      one strategy: throughput, latency, connections\n"
                                "  compare  every strategy that the database offers, side by side\n"
                                "  sweep    pools of several sizes: the smallest that is fast enough\n"
                                "  plan     connections and throughput, before anything runs\n"
                                "  verify   plan, then run, and the one beside the other\n"
                                "\n"
                                "holdfast-bench COMMAND --help tells a command's options; holdfast-bench(1) tells the rest.";

static const struct subcommand *find(const char *name)
{
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(name, subcommands[i].name) == 0)
            return &subcommands[i];
    return NULL;
}

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
        if (strcmp(arg, "help") == 0)
            argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        *choice = (struct choice){find(arg), state->next - 1};
        if (!choice->subcommand)
            argp_error(state, "there is no command \"%s\"", arg);
        state->next = state->argc; /* the rest is the subcommand's */
        return 0;
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
    fprintf(stream, "holdfast-bench %s\n", hf_version());
}

/* A descriptor 0, 1 or 2 that is closed would be given to a database connection, and a message would be written into it. */
static bool standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    return fd >= 0 && close(fd) == 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {{.key = 'h', .flags = OPTION_HIDDEN}, {0}}; /* argp's own is -? */
    static const struct argp argp = {.options = options, .parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = usage_doc};
    struct choice choice = {0};
    argp_program_version_hook = print_version;
    argp_err_exit_status = HF__EXIT_USAGE;
    if (!standard_descriptors())
        return HF__EXIT_FAILED;
    if (!hf__arguments_hide(argc, argv))
        return hf__command_fail_text("out of memory");
    error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (error || !choice.subcommand)
        return hf__command_fail_text("%s", error ? strerror(error) : "no command was given");
    return choice.subcommand->run(argc - choice.index, argv + choice.index);
}
