#include "strategies/findings.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(struct hf__findings *findings)
{
    if (findings->n < findings->capacity) {
        return true;
    }
    size_t capacity = findings->capacity == 0 ? 8 : findings->capacity * 2;
    struct hf__finding *list = reallocarray(findings->list, capacity, sizeof *list);
    if (list == NULL) {
        return false;
    }
    findings->list = list;
    findings->capacity = capacity;
    return true;
}

hf_status hf__find(struct hf__findings *findings, enum hf__finding_level level, hf_status status, const char *format, ...)
{
    if (!make_room(findings)) {
        return HF_NO_MEMORY;
    }
    char *message = NULL;
    va_list args;
    va_start(args, format);
    int written = vasprintf(&message, format, args);
    va_end(args);
    if (written < 0) {
        return HF_NO_MEMORY;
    }
    findings->list[findings->n++] = (struct hf__finding){.level = level, .status = status, .message = message};
    return HF_OK;
}

void hf__findings_free(struct hf__findings *findings)
{
    for (size_t i = 0; i < findings->n; i++) {
        free(findings->list[i].message);
    }
    free(findings->list);
    *findings = (struct hf__findings){0};
}

hf_status hf__findings_first_error(const struct hf__findings *findings, hf_error *err)
{
    for (size_t i = 0; i < findings->n; i++) {
        const struct hf__finding *finding = &findings->list[i];
        if (finding->level == HF__FINDING_ERROR) {
            return hf__fail(err, finding->status, "%s", finding->message);
        }
    }
    return HF_OK;
}
