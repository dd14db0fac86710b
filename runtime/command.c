/* The holdfast command. */
#include "runtime/command_common.h"

static const char doc[] = "Runs jobs that are kept in a table of your own PostgreSQL, MySQL, MariaDB or SQLite database."
                          "\vCommands:\n"
                          "  ddl      print, or make, the table for a description\n"
                          "  check    find every fault of server, table and pool; tell the cost\n"
                          "  enqueue  add jobs\n"
                          "  work     run a shell command for each job\n"
                          "  stats    count the jobs\n"
                          "  requeue  move dead letters back to be run again\n"
                          "\n"
                          "holdfast COMMAND --help tells a command's options; holdfast(1) tells the rest, holdfast(7) the rules.";

int main(int argc, char **argv)
{
    static const struct hf__subcommand subcommands[] = {
        {"ddl", hf__command_ddl},
        {"check", hf__command_check},
        {"enqueue", hf__command_enqueue},
        {"work", hf__command_work},
        {"stats", hf__command_stats},
        {"requeue", hf__command_requeue},
        {0},
    };
    return hf__command_dispatch("holdfast", doc, subcommands, argc, argv);
}
