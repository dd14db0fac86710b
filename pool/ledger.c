#include "ledger.h"

#include <stdbool.h>
#include <stdio.h>

const char *hf__purpose_name(enum hf__purpose purpose)
{
    static const char *const names[HF__PURPOSES] = {
#define NAME(name, text) [HF__PURPOSE_##name] = (text),
        HF__PURPOSE_MAP(NAME)
#undef NAME
    };
    return (unsigned)purpose < HF__PURPOSES ? names[purpose] : "unknown";
}

void hf__ledger_began(struct hf__ledger *ledger, enum hf__purpose purpose, size_t in_use)
{
    struct hf__ledger_line *line = &ledger->line[purpose];
    line->count++;
    if (in_use > line->peak) {
        line->peak = in_use;
    }
}

void hf__ledger_ended(struct hf__ledger *ledger, enum hf__purpose purpose, int64_t held_ns)
{
    if (held_ns > 0) {
        ledger->line[purpose].seconds += (double)held_ns / 1e9;
    }
}

void hf__ledger_waited(struct hf__ledger *ledger, enum hf__purpose purpose, int64_t waited_ns)
{
    hf__histogram_record(&ledger->line[purpose].wait, waited_ns / 1000);
}

void hf__ledger_gave_up(struct hf__ledger *ledger, enum hf__purpose purpose)
{
    ledger->line[purpose].timeouts++;
}

static size_t largest(const size_t in_use[HF__PURPOSES], const bool said[HF__PURPOSES])
{
    size_t best = HF__PURPOSES;
    for (size_t i = 0; i < HF__PURPOSES; i++) {
        if (!said[i] && in_use[i] > 0 && (best == HF__PURPOSES || in_use[i] > in_use[best])) {
            best = i;
        }
    }
    return best;
}

void hf__ledger_describe(const size_t in_use[HF__PURPOSES], char *out, size_t size)
{
    bool said[HF__PURPOSES] = {false};
    size_t used = 0;
    size_t next = largest(in_use, said);
    (void)snprintf(out, size, "%s", next == HF__PURPOSES ? "nothing" : "");
    for (; next < HF__PURPOSES && used < size; next = largest(in_use, said)) {
        int n = snprintf(out + used, size - used, "%s%s %zu", used ? ", " : "", hf__purpose_name((enum hf__purpose)next), in_use[next]);
        used += n > 0 ? (size_t)n : 0;
        said[next] = true;
    }
}
