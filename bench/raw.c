#include "bench/raw.h"

#include "pool/error.h"

hf_status bench_raw_run(const struct bench_raw_input *input, double *jobs_per_second, hf_error *err)
{
    (void)input;
    *jobs_per_second = 0;
    return hf__fail(err, HF_UNSUPPORTED, "this build has no hand-written loop: run without --raw");
}
