/* One line of `holdfast enqueue --stdin`: a JSON object that describes a job. */
#ifndef HF_RUNTIME_COMMAND_LINE_JOB_H
#define HF_RUNTIME_COMMAND_LINE_JOB_H

#include <jansson.h>

#include "holdfast.h"

struct hf__line_job {
    hf_job job; /* points into what follows */
    char *text; /* the line */
    json_t *json;
    hf_field *fields;
};

/* numeric_booleans: a boolean of "set" is 1 or 0 (MySQL and SQLite), else true or false. HF_INVALID: what is wrong with the line. To be
 * freed in any case. */
HF_CHECKED hf_status hf__line_job_make(struct hf__line_job *out, const char *text, size_t len, bool numeric_booleans, hf_error *err);
void hf__line_job_free(struct hf__line_job *job);

#endif
