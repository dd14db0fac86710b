/* jansson says whether a line is right and what its strings mean. Every other value goes to the database as it stands in the line, so
 * that a number keeps all its digits: a second look over the text, which is known to be JSON by then, finds where each value stands. */
#include "runtime/command_line_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/error.h"
#include "runtime/command_common.h"

/* ---- where the values stand ---- */

struct span {
    char *at;
    size_t len;
};

static char *skip_blank(char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* From its opening quote to behind its closing one. */
static char *skip_string(char *at)
{
    for (at++; *at != '"'; at++) {
        at += *at == '\\';
    }
    return at + 1;
}

static char *skip_nested(char *at)
{
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    } while (depth > 0);
    return at;
}

static char *skip_value(char *at)
{
    if (*at == '"') {
        return skip_string(at);
    }
    return *at == '{' || *at == '[' ? skip_nested(at) : at + strcspn(at, ",]} \t\r\n");
}

/* The members of an object in the order of the text, which is the order that jansson keeps them in. */
struct members {
    json_t *object;
    void *iterator;
    char *at; /* behind the last one */
    const char *key;
    json_t *value;
    struct span span;
};

static struct members members_of(json_t *object, char *text)
{
    return (struct members){.object = object, .iterator = json_object_iter(object), .at = text + 1};
}

static bool next_member(struct members *members)
{
    if (!members->iterator) {
        return false;
    }
    members->key = json_object_iter_key(members->iterator);
    members->value = json_object_iter_value(members->iterator);
    members->iterator = json_object_iter_next(members->object, members->iterator);
    char *key = members->at + strcspn(members->at, "\"");
    char *value = skip_blank(skip_blank(skip_string(key)) + 1);
    members->at = skip_value(value);
    members->span = (struct span){.at = value, .len = (size_t)(members->at - value)};
    return true;
}

/* ---- the members of a line ---- */

#define ENDS 3 /* of values that must be C strings */

struct making {
    struct hf__line_job *out;
    bool numeric_booleans;
    char *ends[ENDS];
    size_t n_ends;
    hf_error *err;
};

typedef hf_status take_fn(struct making *making, const struct members *member);

static hf_status refuse(const struct making *making, const struct members *member, const char *wanted)
{
    return hf__fail(making->err, HF_INVALID, "\"%s\" takes %s, not %.*s", member->key, wanted,
                    (int)hf__utf8_cut(member->span.at, member->span.len, 60), member->span.at);
}

/* The value as it stands in the line: ended there once all of the line has been looked at. */
static const char *text_of(struct making *making, const struct span *span)
{
    making->ends[making->n_ends++] = span->at + span->len;
    return span->at;
}

static hf_status take_payload(struct making *making, const struct members *member)
{
    hf_job *job = &making->out->job;
    if (json_is_null(member->value)) {
        job->null_payload = true;
        return HF_OK;
    }
    bool is_string = json_is_string(member->value);
    job->payload = is_string ? json_string_value(member->value) : member->span.at;
    job->payload_len = is_string ? json_string_length(member->value) : member->span.len;
    return HF_OK;
}

static hf_status take_name(struct making *making, const struct members *member, const char **into)
{
    if (json_is_string(member->value)) {
        *into = json_string_value(member->value);
    } else if (json_is_number(member->value)) {
        *into = text_of(making, &member->span);
    } else {
        return refuse(making, member, "a string or a number");
    }
    return HF_OK;
}

static hf_status take_group(struct making *making, const struct members *member)
{
    return take_name(making, member, &making->out->job.group);
}

static hf_status take_partition_key(struct making *making, const struct members *member)
{
    return take_name(making, member, &making->out->job.partition_key);
}

static hf_status take_priority(struct making *making, const struct members *member)
{
    char *end = NULL;
    errno = 0;
    long long priority = strtoll(member->span.at, &end, 10);
    if (!json_is_number(member->value) || end != member->span.at + member->span.len || errno != 0) {
        return refuse(making, member, "a whole number of 64 bits");
    }
    making->out->job.priority = priority;
    making->out->job.has_priority = true;
    return HF_OK;
}

static hf_status take_delay(struct making *making, const struct members *member)
{
    if (!json_is_number(member->value) || !hf__seconds_ms(json_number_value(member->value), &making->out->job.delay_ms)) {
        return refuse(making, member, "seconds from 0 to 1000000000");
    }
    return HF_OK;
}

static hf_status take_at(struct making *making, const struct members *member)
{
    const char *text = json_string_value(member->value);
    if (!text || !hf__time_from_text(text, &making->out->job.due_us)) {
        return refuse(making, member, HF__TIME_WANTED);
    }
    return HF_OK;
}

static hf_status take_headers(struct making *making, const struct members *member)
{
    if (!json_is_object(member->value)) {
        return refuse(making, member, "an object");
    }
    making->out->job.headers = text_of(making, &member->span);
    return HF_OK;
}

static hf_field field_of(const struct making *making, const struct members *member)
{
    hf_field field = {.column = member->key, .value = member->span.at, .len = member->span.len};
    if (json_is_string(member->value)) {
        field.value = json_string_value(member->value);
        field.len = json_string_length(member->value);
    } else if (json_is_boolean(member->value) && making->numeric_booleans) {
        field.value = json_is_true(member->value) ? "1" : "0";
        field.len = 1;
    } else if (json_is_null(member->value)) {
        field.value = NULL;
    }
    return field;
}

static hf_status take_set(struct making *making, const struct members *member)
{
    struct hf__line_job *out = making->out;
    if (!json_is_object(member->value)) {
        return refuse(making, member, "an object: {\"COLUMN\": VALUE, ...}");
    }
    out->fields = calloc(json_object_size(member->value) + 1, sizeof *out->fields);
    if (!out->fields) {
        return hf__fail_memory(making->err);
    }
    struct members columns = members_of(member->value, member->span.at);
    while (next_member(&columns)) {
        out->fields[out->job.n_fields++] = field_of(making, &columns);
    }
    out->job.fields = out->fields;
    return HF_OK;
}

static hf_status take_member(struct making *making, const struct members *member)
{
    static const struct {
        const char *key;
        take_fn *take;
    } takers[] = {{"payload", take_payload},
                  {"group", take_group},
                  {"partition_key", take_partition_key},
                  {"priority", take_priority},
                  {"delay_seconds", take_delay},
                  {"at", take_at},
                  {"headers", take_headers},
                  {"set", take_set}};
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++) {
        if (strcmp(member->key, takers[i].key) == 0) {
            bool absent = json_is_null(member->value) && takers[i].take != take_payload;
            return absent ? HF_OK : takers[i].take(making, member);
        }
    }
    return hf__fail(making->err, HF_INVALID,
                    "there is no \"%s\"; a job takes payload, group, priority, partition_key, delay_seconds, at, headers, and set for "
                    "further columns",
                    member->key);
}

/* ---- the line ---- */

static hf_status parse(struct hf__line_job *out, size_t len, hf_error *err)
{
    json_error_t error;
    if (memchr(out->text, '\0', len)) {
        return hf__fail(err, HF_INVALID, "it holds a NUL byte");
    }
    if (!hf__utf8_valid(out->text, len)) {
        return hf__fail(err, HF_INVALID, "it is not UTF-8");
    }
    out->json = json_loadb(out->text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (!out->json) {
        enum json_error_code code = json_error_code(&error);
        bool null = code == json_error_null_character || code == json_error_null_byte_in_key;
        return hf__fail(err, HF_INVALID, "%s", null ? "it holds a NUL character (\\u0000)" : error.text);
    }
    return json_is_object(out->json) ? HF_OK : hf__fail(err, HF_INVALID, "it is not a JSON object");
}

static hf_status take_all(struct making *making)
{
    struct hf__line_job *out = making->out;
    struct members members = members_of(out->json, skip_blank(out->text));
    hf_status status = HF_OK;
    while (status == HF_OK && next_member(&members)) {
        status = take_member(making, &members);
    }
    for (size_t i = 0; i < making->n_ends; i++) {
        *making->ends[i] = '\0';
    }
    if (status == HF_OK && out->job.delay_ms != 0 && out->job.due_us != 0) {
        return hf__fail(making->err, HF_INVALID, "\"delay_seconds\" and \"at\" exclude each other");
    }
    return status;
}

hf_status hf__line_job_make(struct hf__line_job *out, const char *text, size_t len, bool numeric_booleans, hf_error *err)
{
    struct making making = {.out = out, .numeric_booleans = numeric_booleans, .err = err};
    *out = (struct hf__line_job){.job = HF_JOB_INIT, .text = malloc(len + 1)};
    if (!out->text) {
        return hf__fail_memory(err);
    }
    memcpy(out->text, text, len);
    out->text[len] = '\0';
    hf_status status = parse(out, len, err);
    return status == HF_OK ? take_all(&making) : status;
}

void hf__line_job_free(struct hf__line_job *job)
{
    free(job->fields);
    json_decref(job->json);
    free(job->text);
    *job = (struct hf__line_job){0};
}
