#include "tests/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static struct hf_test_entry *append(struct hf_test_ledger *ledger)
{
    if ((ledger->n & (ledger->n - 1)) == 0) { /* full at every power of two */
        size_t room = ledger->n ? 2 * ledger->n : 1;
        struct hf_test_entry *runs = realloc(ledger->runs, room * sizeof *runs);
        if (!runs) {
            abort();
        }
        ledger->runs = runs;
    }
    return &ledger->runs[ledger->n++];
}

/* The run that this end belongs to: the latest of its process, row and attempt that is still open. */
static struct hf_test_entry *find_open(const struct hf_test_ledger *ledger, const struct hf_test_entry *end)
{
    for (size_t i = ledger->n; i-- > 0;) {
        struct hf_test_entry *run = &ledger->runs[i];
        if (run->end_ns == INT64_MAX && run->pid == end->pid && run->attempt == end->attempt && strcmp(run->id, end->id) == 0) {
            return run;
        }
    }
    return NULL;
}

static void free_entry(struct hf_test_entry *entry)
{
    free(entry->id);
    free(entry->key);
}

/* Splits the line into its words; false if it has not six of them. */
static bool parse(char *line, char *event, struct hf_test_entry *entry)
{
    char *word[6];
    char *rest = line;
    for (size_t i = 0; i < 6; i++) {
        word[i] = strtok_r(rest, " \n", &rest);
        if (!word[i]) {
            return false;
        }
    }
    *event = *word[0];
    *entry = (struct hf_test_entry){.id = strdup(word[1]),
                                    .key = strdup(word[4]),
                                    .attempt = strtoll(word[2], NULL, 10),
                                    .begin_ns = strtoll(word[5], NULL, 10),
                                    .end_ns = INT64_MAX,
                                    .pid = (pid_t)strtol(word[3], NULL, 10)};
    if (!entry->id || !entry->key) {
        abort();
    }
    return true;
}

static void add_line(struct hf_test_ledger *ledger, const char *path, char *line)
{
    char event;
    struct hf_test_entry entry;
    if (!parse(line, &event, &entry)) {
        hf_test_fail("%s: a line of it is too short: %s", path, line);
        return;
    }
    if (event == 'B') {
        *append(ledger) = entry;
        return;
    }
    struct hf_test_entry *run = find_open(ledger, &entry);
    if (!run) {
        hf_test_fail("%s: row %s ends and never began", path, entry.id);
    } else {
        run->end_ns = entry.begin_ns;
    }
    free_entry(&entry);
}

static int by_begin(const void *left, const void *right)
{
    const struct hf_test_entry *a = left;
    const struct hf_test_entry *b = right;
    return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

struct hf_test_ledger hf_test_ledger_read(const char *path)
{
    struct hf_test_ledger ledger = {NULL, 0};
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file && errno != ENOENT) {
        hf_test_fail("%s: %s", path, strerror(errno));
    }
    /* The last line may still be on its way: a write across two pages is not seen all at once. */
    while (file && getline(&line, &size, file) > 0 && strchr(line, '\n')) {
        add_line(&ledger, path, line);
    }
    free(line);
    if (file) {
        fclose(file);
    }
    if (ledger.n > 0) {
        qsort(ledger.runs, ledger.n, sizeof *ledger.runs, by_begin);
    }
    return ledger;
}

void hf_test_ledger_free(struct hf_test_ledger *ledger)
{
    for (size_t i = 0; i < ledger->n; i++) {
        free_entry(&ledger->runs[i]);
    }
    free(ledger->runs);
    *ledger = (struct hf_test_ledger){NULL, 0};
}

/* ---- looking ---- */

void hf_test_ledger_died(struct hf_test_ledger *ledger, pid_t pid, int64_t ns)
{
    for (size_t i = 0; i < ledger->n; i++) {
        if (ledger->runs[i].pid == pid && ledger->runs[i].end_ns == INT64_MAX) {
            ledger->runs[i].end_ns = ns;
        }
    }
}

void hf_test_ledger_cut(struct hf_test_ledger *ledger, int64_t from_ns, int64_t to_ns)
{
    for (size_t i = 0; i < ledger->n; i++) {
        struct hf_test_entry *run = &ledger->runs[i];
        int64_t free_ns = run->begin_ns > from_ns ? run->begin_ns : from_ns;
        if (run->begin_ns < to_ns && run->end_ns > free_ns) {
            run->end_ns = free_ns;
        }
    }
}

size_t hf_test_ledger_ended(const struct hf_test_ledger *ledger)
{
    size_t n = 0;
    for (size_t i = 0; i < ledger->n; i++) {
        n += ledger->runs[i].end_ns != INT64_MAX;
    }
    return n;
}

static int64_t id_of(const struct hf_test_entry *run)
{
    return strtoll(run->id, NULL, 10);
}

const struct hf_test_entry *hf_test_ledger_run_of(const struct hf_test_ledger *ledger, int64_t id, size_t i)
{
    for (size_t k = 0; k < ledger->n; k++) {
        if (id_of(&ledger->runs[k]) == id && i-- == 0) {
            return &ledger->runs[k];
        }
    }
    return NULL;
}

/* ---- checks ---- */

static const char *row_of(const struct hf_test_entry *run)
{
    return run->id;
}

static const char *key_of(const struct hf_test_entry *run)
{
    return run->key;
}

/* The runs come in the order of their beginnings, so each is held against those that have not ended: no more than there are workers. */
static void apart(const struct hf_test_ledger *ledger, const char *(*what)(const struct hf_test_entry *run), const char *word)
{
    size_t n = 0;
    const struct hf_test_entry *clash = NULL;
    const struct hf_test_entry **open = calloc(ledger->n + 1, sizeof *open);
    if (!open) {
        abort();
    }
    for (size_t i = 0; i < ledger->n && !clash; i++) {
        const struct hf_test_entry *run = &ledger->runs[i];
        size_t still = 0;
        for (size_t k = 0; k < n; k++) {
            if (open[k]->end_ns > run->begin_ns) {
                open[still++] = open[k];
                clash = strcmp(what(open[k]), what(run)) == 0 ? run : clash;
            }
        }
        n = still;
        open[n++] = run;
    }
    free(open);
    if (clash) {
        hf_test_fail("%s %s ran twice at the same time: row %s, attempt %lld, process %d began before the other run had ended", word,
                     what(clash), clash->id, (long long)clash->attempt, clash->pid);
    }
}

void hf_test_ledger_rows_apart(const struct hf_test_ledger *ledger)
{
    apart(ledger, row_of, "row");
}

void hf_test_ledger_keys_apart(const struct hf_test_ledger *ledger)
{
    for (size_t i = 0; i < ledger->n; i++) {
        if (strcmp(ledger->runs[i].key, "-") == 0) {
            hf_test_fail("row %s ran without a key", ledger->runs[i].id);
        }
    }
    apart(ledger, key_of, "key");
}

static int by_key_and_begin(const void *left, const void *right)
{
    const struct hf_test_entry *a = left;
    const struct hf_test_entry *b = right;
    int order = strcmp(a->key, b->key);
    return order != 0 ? order : by_begin(a, b);
}

void hf_test_ledger_in_order(const struct hf_test_ledger *ledger)
{
    size_t wrong = 0;
    struct hf_test_entry *runs = calloc(ledger->n + 1, sizeof *runs);
    if (!runs) {
        abort();
    }
    if (ledger->n > 0) {
        memcpy(runs, ledger->runs, ledger->n * sizeof *runs);
        qsort(runs, ledger->n, sizeof *runs, by_key_and_begin);
    }
    for (size_t i = 1; i < ledger->n && wrong == 0; i++) {
        wrong = strcmp(runs[i - 1].key, runs[i].key) == 0 && id_of(&runs[i - 1]) > id_of(&runs[i]) ? i : 0;
    }
    struct hf_test_entry before = wrong ? runs[wrong - 1] : (struct hf_test_entry){0}, after = runs[wrong];
    free(runs);
    if (wrong) {
        hf_test_fail("%s: row %s began after row %s (processes %d and %d)", after.key, after.id, before.id, after.pid, before.pid);
    }
}

/* How often each of the rows 1 to n ran, at [id]. The caller's. */
static size_t *count_runs(const struct hf_test_ledger *ledger, size_t n)
{
    size_t *runs = calloc(n + 1, sizeof *runs);
    if (!runs) {
        abort();
    }
    for (size_t i = 0; i < ledger->n; i++) {
        int64_t id = id_of(&ledger->runs[i]);
        runs[id > 0 && (size_t)id <= n ? (size_t)id : 0]++;
    }
    return runs;
}

void hf_test_ledger_all_ran(const struct hf_test_ledger *ledger, size_t n)
{
    size_t *runs = count_runs(ledger, n);
    size_t strangers = runs[0];
    size_t missing = 0;
    for (size_t id = n; id > 0; id--) {
        missing = runs[id] == 0 ? id : missing;
    }
    free(runs);
    if (strangers > 0) {
        hf_test_fail("%zu runs were of rows that are none of 1 to %zu", strangers, n);
    } else if (missing > 0) {
        hf_test_fail("row %zu never ran", missing);
    } else if (hf_test_ledger_ended(ledger) != ledger->n) {
        hf_test_fail("%zu runs have not ended", ledger->n - hf_test_ledger_ended(ledger));
    }
}

void hf_test_ledger_all_ran_once(const struct hf_test_ledger *ledger, size_t n)
{
    hf_test_ledger_all_ran(ledger, n);
    size_t *runs = count_runs(ledger, n);
    size_t again = 0;
    for (size_t id = n; id > 0; id--) {
        again = runs[id] > 1 ? id : again;
    }
    free(runs);
    if (again > 0) {
        hf_test_fail("row %zu ran more than once", again);
    }
    for (size_t i = 0; i < ledger->n; i++) {
        if (ledger->runs[i].attempt != 1) {
            hf_test_fail("row %s read attempt %lld, not 1", ledger->runs[i].id, (long long)ledger->runs[i].attempt);
        }
    }
}
