/* The holdfast-bench command. */
#include "bench/run.h"
#include "runtime/command_common.h"

static const char doc[] = "Measures what each strategy of holdfast costs in database connections, and plans it."
                          "\vCommands:\n"
                          "  run      one strategy: throughput, latency, connections\n"
                          "  compare  every strategy that the database offers, side by side\n"
                          "  sweep    pools of several sizes: the smallest that is fast enough\n"
                          "  plan     connections and throughput, before anything runs\n"
                          "  verify   plan, then run, and the one beside the other\n"
                          "\n"
                          "holdfast-bench COMMAND --help tells a command's options; holdfast-bench(1) tells the rest.";

int main(int argc, char **argv)
{
    static const struct hf__subcommand subcommands[] = {
        {"run", bench_command_run},   {"compare", bench_command_compare}, {"sweep", bench_command_sweep},
        {"plan", bench_command_plan}, {"verify", bench_command_verify},   {0},
    };
    return hf__command_dispatch("holdfast-bench", doc, subcommands, argc, argv);
}
