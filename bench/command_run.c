/* holdfast-bench run */
#include "bench/run.h"
#include "runtime/command_common.h"

static int print(const struct bench_options *options, const struct bench_result *result)
{
    if (options->json)
        return hf__command_print_json(bench_result_json(result));
    bench_result_print(result);
    return hf__command_flush();
}

int bench_command_run(int argc, char **argv)
{
    struct bench_options options = {.url = NULL};
    struct bench_result result;
    hf_error err = {.status = HF_OK};
    bench_options_parse(BENCH_OPTIONS_RUN, "run", argc, argv, &options);
    hf_status status = bench_run(&options, &result, &err);
    int code = HF__EXIT_DONE;
    if (status == HF_OK || result.done > 0) /* what there is, also of a run that was broken off */
        code = print(&options, &result);
    if (status != HF_OK)
        code = hf__command_fail(&err);
    else if (!bench_result_right(&result))
        code = hf__command_fail_text("the run was not right: %zu jobs lost, %zu run twice, %zu settles failed", result.lost,
                                     result.duplicates, result.errors);
    bench_result_free(&result);
    bench_options_free(&options);
    return code;
}
