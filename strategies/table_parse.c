/* Reads a table description. Each key is a row of a table: its name, what its presence means for the rules, and the function that
 * reads its value. What does not go together is a table of rules, read after the keys, in order. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strategies/table.h"

#define LEASE_SECONDS 30
#define LEASE_SECONDS_MAX 31536000 /* a year */
#define US_PER_SECOND INT64_C(1000000)
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* What a description has: the roles, then the settings that rules ask about. */
#define HAS_ROLE(role) (1u << HF__ROLE_##role)
#define HAS_SETTING(i) (1u << (HF__ROLES + (i)))
enum {
    HAS_ADVISORY_LOCK = HAS_SETTING(0),
    HAS_LEASE_SECONDS = HAS_SETTING(1),
    HAS_ISOLATION = HAS_SETTING(2),
    HAS_SNAPSHOT = HAS_SETTING(3), /* a level at which all statements of a transaction see the same rows */
    HAS_LOCK = HAS_SETTING(4),
    HAS_DATABASE_CLOCK = HAS_SETTING(5),
    HAS_FIFO = HAS_SETTING(6),
    HAS_MAX_ATTEMPTS = HAS_SETTING(7),
    HAS_DEAD_LETTER = HAS_SETTING(8),
    HAS_DEAD_GROUP = HAS_SETTING(9),
    HAS_DEAD_TABLE = HAS_SETTING(10),
    HAS_DEAD_SCHEMA = HAS_SETTING(11),
    HAS_NO_ROW_LOCK = HAS_SETTING(12) /* another strategy is chosen */
};

struct reader {
    struct hf_table *table;
    const char *inside; /* "columns." while that object is read */
    unsigned has;
    hf_error *err;
};

struct key {
    const char *name;
    unsigned means; /* HAS_... */
    hf_status (*read)(struct reader *r, const struct key *key, json_t *value);
};

/* One object of the description. */
struct section {
    const char *inside;
    const char *what; /* one of its keys, for messages */
    const struct key *keys;
    size_t n;
};

static const struct section settings;
static const struct section columns;

/* ---- values ---- */

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null (leave the key out to have none)";
}

static hf_status wrong_type(struct reader *r, const struct key *key, const char *wanted, const json_t *value)
{
    return hf__fail(r->err, HF_INVALID, "\"%s%s\" must be %s, not %s", r->inside, key->name, wanted, type_name(value));
}

static hf_status check_text(struct reader *r, const struct key *key, const json_t *value)
{
    if (!json_is_string(value)) {
        return wrong_type(r, key, "a string", value);
    }
    if (json_string_length(value) == 0) {
        return hf__fail(r->err, HF_INVALID, "\"%s%s\" is empty: give it a value, or leave the key out", r->inside, key->name);
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return hf__fail(r->err, HF_INVALID, "\"%s%s\" contains a NUL character, which no name may contain: take the \\u0000 out", r->inside,
                        key->name);
    }
    return HF_OK;
}

static hf_status read_text(struct reader *r, const struct key *key, const json_t *value, char **out)
{
    hf_status status = check_text(r, key, value);
    if (status != HF_OK) {
        return status;
    }
    *out = strdup(json_string_value(value));
    return *out == NULL ? hf__fail_memory(r->err) : HF_OK;
}

/* Finds the string among `words`. */
static hf_status read_word(struct reader *r, const struct key *key, const json_t *value, const char *const *words, size_t n, size_t *out)
{
    hf_status status = check_text(r, key, value);
    if (status != HF_OK) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(json_string_value(value), words[i]) == 0) {
            *out = i;
            return HF_OK;
        }
    }
    hf_error told;
    (void)hf__fail(&told, HF_INVALID, "\"%s%s\" cannot be \"%.80s\": it is", r->inside, key->name, json_string_value(value));
    for (size_t i = 0; i < n; i++) {
        (void)hf__fail(&told, HF_INVALID, "%s%s \"%s\"", told.message, i == 0 ? "" : " or", words[i]);
    }
    return hf__fail(r->err, HF_INVALID, "%s", told.message);
}

/* ---- objects ---- */

static const struct key *find_key(const struct section *section, const char *name)
{
    for (size_t i = 0; i < section->n; i++) {
        if (strcmp(section->keys[i].name, name) == 0) {
            return &section->keys[i];
        }
    }
    return NULL;
}

static char folded(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c == '-' || c == ' ' ? '_' : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The edits (Levenshtein) between a word and the name of a key. */
static size_t edits(const char *word, const char *name)
{
    size_t row[32];
    size_t n = least(strlen(name), LENGTH(row) - 1); /* no key is longer */
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; word[i] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            size_t changed = corner + (folded(word[i]) == name[j - 1] ? 0 : 1);
            row[j] = least(changed, least(above, row[j - 1]) + 1);
            corner = above;
        }
    }
    return row[n];
}

/* The key that a word was most likely meant to be, or NULL. */
static const struct key *nearest_key(const struct section *section, const char *word)
{
    const struct key *nearest = NULL;
    size_t fewest = least(4, (strlen(word) + 1) / 2);
    for (size_t i = 0; i < section->n; i++) {
        size_t distance = edits(word, section->keys[i].name);
        if (distance < fewest) {
            fewest = distance;
            nearest = &section->keys[i];
        }
    }
    return nearest;
}

static hf_status unknown_key(struct reader *r, const struct section *section, const char *name)
{
    hf_error told;
    (void)hf__fail(&told, HF_INVALID, "\"%s%.80s\" is not %s", section->inside, name, section->what);
    const struct key *nearest = nearest_key(section, name);
    if (section == &settings && find_key(&columns, name) != NULL) {
        return hf__fail(r->err, HF_INVALID, "%s: it is a role of a column, write it inside \"columns\"", told.message);
    }
    if (section == &columns && find_key(&settings, name) != NULL) {
        return hf__fail(r->err, HF_INVALID, "%s: write it beside \"columns\", not inside", told.message);
    }
    if (nearest != NULL) {
        return hf__fail(r->err, HF_INVALID, "%s: did you mean \"%s\"?", told.message, nearest->name);
    }
    for (size_t i = 0; i < section->n; i++) {
        (void)hf__fail(&told, HF_INVALID, "%s%s \"%s\"", told.message, i == 0 ? ": take it out; there are" : ",", section->keys[i].name);
    }
    return hf__fail(r->err, HF_INVALID, "%s", told.message);
}

static hf_status refuse_unknown_keys(struct reader *r, json_t *object, const struct section *section)
{
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        if (find_key(section, name) == NULL) {
            return unknown_key(r, section, name);
        }
    }
    return HF_OK;
}

static hf_status read_object(struct reader *r, json_t *object, const struct section *section)
{
    const char *outside = r->inside;
    r->inside = section->inside;
    for (size_t i = 0; i < section->n; i++) {
        const struct key *key = &section->keys[i];
        json_t *value = json_object_get(object, key->name);
        if (value != NULL) {
            hf_status status = key->read(r, key, value);
            if (status != HF_OK) {
                return status;
            }
            r->has |= key->means;
        }
    }
    r->inside = outside;
    return refuse_unknown_keys(r, object, section);
}

/* ---- the advisory_lock template ---- */

static hf_status add_part(struct reader *r, bool is_column, char *text)
{
    if (text == NULL) {
        return hf__fail_memory(r->err);
    }
    struct hf__key_part *part = &r->table->key[r->table->n_key++];
    part->is_column = is_column;
    part->text = text;
    return HF_OK;
}

/* *at is behind the brace that opens. */
static hf_status read_placeholder(struct reader *r, const struct key *key, const char **at)
{
    size_t len = strcspn(*at, "{}");
    if ((*at)[len] != '}') {
        return hf__fail(r->err, HF_INVALID, "\"%s\": a \"{\" has no \"}\": write {column}, or {{ for the brace itself", key->name);
    }
    if (len == 0) {
        return hf__fail(r->err, HF_INVALID, "\"%s\": \"{}\" names no column: write {column}, or {{}} for the braces themselves", key->name);
    }
    const char *name = *at;
    *at += len + 1;
    return add_part(r, true, strndup(name, len));
}

static bool opens_placeholder(const char *at)
{
    return at[0] == '{' && at[1] != '{';
}

static hf_status read_literal(struct reader *r, const struct key *key, const char **at)
{
    char *text = malloc(strlen(*at) + 1);
    size_t len = 0;
    while (text != NULL && **at != '\0' && !opens_placeholder(*at)) {
        if (**at == '{' || **at == '}') {
            if ((*at)[1] != **at) {
                free(text);
                return hf__fail(r->err, HF_INVALID, "\"%s\": a \"}\" has no \"{\": write }} for the brace itself", key->name);
            }
            *at += 1;
        }
        text[len++] = *(*at)++;
    }
    if (text != NULL) {
        text[len] = '\0';
    }
    return add_part(r, false, text);
}

static size_t most_parts(const char *text)
{
    size_t n = 1;
    for (; *text != '\0'; text++) {
        n += *text == '{' ? 2 : 0;
    }
    return n;
}

static hf_status read_advisory_lock(struct reader *r, const struct key *key, json_t *value)
{
    hf_status status = check_text(r, key, value);
    if (status != HF_OK) {
        return status;
    }
    const char *at = json_string_value(value);
    r->table->key = calloc(most_parts(at), sizeof *r->table->key);
    if (r->table->key == NULL) {
        return hf__fail_memory(r->err);
    }
    while (status == HF_OK && *at != '\0') {
        if (opens_placeholder(at)) {
            at++;
            status = read_placeholder(r, key, &at);
        } else {
            status = read_literal(r, key, &at);
        }
    }
    return status;
}

/* ---- the keys ---- */

static hf_status read_name(struct reader *r, const struct key *key, json_t *value)
{
    return read_text(r, key, value, &r->table->name);
}

static hf_status read_schema(struct reader *r, const struct key *key, json_t *value)
{
    return read_text(r, key, value, &r->table->schema);
}

static hf_status read_section(struct reader *r, const struct key *key, json_t *value, const struct section *section)
{
    return json_is_object(value) ? read_object(r, value, section) : wrong_type(r, key, "an object", value);
}

static hf_status read_columns(struct reader *r, const struct key *key, json_t *value)
{
    return read_section(r, key, value, &columns);
}

/* The keys of columns are in the order of the roles. */
static hf_status read_role(struct reader *r, const struct key *key, json_t *value)
{
    char **column = r->table->column;
    size_t role = (size_t)(key - columns.keys);
    hf_status status = read_text(r, key, value, &column[role]);
    for (size_t i = 0; status == HF_OK && i < role; i++) {
        if (column[i] != NULL && strcmp(column[i], column[role]) == 0) {
            status =
                hf__fail(r->err, HF_INVALID, "\"columns.%s\" and \"columns.%s\" both name \"%.80s\": each role needs a column of its own",
                         hf__role_key((enum hf__role)i), key->name, column[role]);
        }
    }
    return status;
}

static hf_status read_lease_seconds(struct reader *r, const struct key *key, json_t *value)
{
    if (!json_is_number(value)) {
        return wrong_type(r, key, "a number", value);
    }
    double seconds = json_number_value(value);
    if (!(seconds > 0 && seconds <= LEASE_SECONDS_MAX)) {
        return hf__fail(r->err, HF_INVALID, "\"%s\" must be more than 0 and at most %d (a year), not %.10g", key->name, LEASE_SECONDS_MAX,
                        seconds);
    }
    int64_t whole = (int64_t)seconds;
    r->table->lease_us = ((double)whole < seconds ? whole + 1 : whole) * US_PER_SECOND;
    return HF_OK;
}

static hf_status read_isolation(struct reader *r, const struct key *key, json_t *value)
{
    static const char *const words[] = {"read_committed", "repeatable_read", "serializable"};
    static const enum hf__isolation levels[] = {HF__READ_COMMITTED, HF__REPEATABLE_READ, HF__SERIALIZABLE};
    size_t i = 0;
    hf_status status = read_word(r, key, value, words, LENGTH(words), &i);
    r->table->isolation = levels[i];
    r->has |= levels[i] == HF__READ_COMMITTED ? 0 : HAS_SNAPSHOT;
    return status;
}

static hf_status read_mode(struct reader *r, const struct key *key, json_t *value)
{
    static const char *const words[] = {"deferred", "immediate", "exclusive"};
    static const enum hf__sqlite_mode modes[] = {HF__DEFERRED, HF__IMMEDIATE, HF__EXCLUSIVE};
    size_t i = 0;
    hf_status status = read_word(r, key, value, words, LENGTH(words), &i);
    r->table->mode = modes[i];
    r->table->mode_named = true;
    return status;
}

static hf_status read_lock(struct reader *r, const struct key *key, json_t *value)
{
    static const char *const words[] = {"update", "no_key_update"};
    size_t i = 0;
    hf_status status = read_word(r, key, value, words, LENGTH(words), &i);
    r->table->no_key_update = i == 1;
    return status;
}

static hf_status read_clock(struct reader *r, const struct key *key, json_t *value)
{
    static const char *const words[] = {"host", "database"};
    size_t i = 0;
    hf_status status = read_word(r, key, value, words, LENGTH(words), &i);
    r->table->database_clock = i == 1;
    r->has |= i == 1 ? HAS_DATABASE_CLOCK : 0;
    return status;
}

static hf_status read_fifo(struct reader *r, const struct key *key, json_t *value)
{
    if (!json_is_boolean(value)) {
        return wrong_type(r, key, "true or false", value);
    }
    r->table->fifo = json_is_true(value);
    r->has |= r->table->fifo ? HAS_FIFO : 0;
    return HF_OK;
}

static hf_status read_max_attempts(struct reader *r, const struct key *key, json_t *value)
{
    if (!json_is_integer(value)) {
        return wrong_type(r, key, "a whole number", value);
    }
    if (json_integer_value(value) < 1) {
        return hf__fail(r->err, HF_INVALID, "\"%s\" must be at least 1, not %" JSON_INTEGER_FORMAT ": leave it out for no limit", key->name,
                        json_integer_value(value));
    }
    r->table->max_attempts = json_integer_value(value);
    return HF_OK;
}

static hf_status read_dead_group(struct reader *r, const struct key *key, json_t *value)
{
    return read_text(r, key, value, &r->table->dead_group);
}

static hf_status read_dead_table(struct reader *r, const struct key *key, json_t *value)
{
    return read_text(r, key, value, &r->table->dead_table);
}

static hf_status read_dead_schema(struct reader *r, const struct key *key, json_t *value)
{
    return read_text(r, key, value, &r->table->dead_schema);
}

static const struct key dead_letter_keys[] = {
    {"group", HAS_DEAD_GROUP, read_dead_group},
    {"table", HAS_DEAD_TABLE, read_dead_table},
    {"schema", HAS_DEAD_SCHEMA, read_dead_schema},
};
static const struct section dead_letter = {"dead_letter.", "a key of \"dead_letter\"", dead_letter_keys, LENGTH(dead_letter_keys)};

static hf_status read_dead_letter(struct reader *r, const struct key *key, json_t *value)
{
    hf_status status = read_section(r, key, value, &dead_letter);
    unsigned places = r->has & (HAS_DEAD_GROUP | HAS_DEAD_TABLE);
    if (status == HF_OK && (places == 0 || places == (HAS_DEAD_GROUP | HAS_DEAD_TABLE))) {
        return hf__fail(r->err, HF_INVALID, "\"%s\" must name either a \"group\" or a \"table\"", key->name);
    }
    if (status == HF_OK && (r->has & HAS_DEAD_SCHEMA) && !(r->has & HAS_DEAD_TABLE)) {
        return hf__fail(r->err, HF_INVALID, "\"%s\": a \"schema\" goes with a \"table\", and there is none: leave it out", key->name);
    }
    return status;
}

static const struct key column_keys[HF__ROLES] = {
#define COLUMN_KEY(name, key) {(key), HAS_ROLE(name) | (HF__ROLE_##name == HF__ROLE_LOCKED_UNTIL ? HAS_NO_ROW_LOCK : 0u), read_role},
    HF__ROLE_MAP(COLUMN_KEY)
#undef COLUMN_KEY
};
static const struct section columns = {"columns.", "a role of a column", column_keys, LENGTH(column_keys)};

/* The name comes first, so that every later message has it. */
static const struct key setting_keys[] = {
    {"table", 0, read_name},
    {"schema", 0, read_schema},
    {"columns", 0, read_columns},
    {"advisory_lock", HAS_ADVISORY_LOCK | HAS_NO_ROW_LOCK, read_advisory_lock},
    {"lease_seconds", HAS_LEASE_SECONDS, read_lease_seconds},
    {"fifo", 0, read_fifo},
    {"max_attempts", HAS_MAX_ATTEMPTS, read_max_attempts},
    {"dead_letter", HAS_DEAD_LETTER, read_dead_letter},
    {"clock", 0, read_clock},
    {"isolation", HAS_ISOLATION, read_isolation},
    {"mode", 0, read_mode},
    {"lock", HAS_LOCK, read_lock},
};
static const struct section settings = {"", "a key of a table description", setting_keys, LENGTH(setting_keys)};

/* ---- what goes together ---- */

struct rule {
    unsigned with, without; /* broken by a description that has all of the first and none of the second */
    const char *message;
};

static const struct rule rules[] = {
    {HAS_ROLE(LOCKED_UNTIL) | HAS_ADVISORY_LOCK, 0,
     "\"columns.locked_until\" (a lease) and \"advisory_lock\" are two ways to hold a row, and a table has one: leave one of them out"},
    {HAS_ROLE(LOCKED_UNTIL) | HAS_DATABASE_CLOCK, 0,
     "\"clock\": \"database\" does not go with \"columns.locked_until\": a lease's expiry is computed on the host, since every settle "
     "compares it: leave \"clock\" out, or \"columns.locked_until\""},
    {HAS_FIFO | HAS_ADVISORY_LOCK, 0,
     "\"fifo\" does not go with \"advisory_lock\", since keys give no order: use a lease (\"columns.locked_until\") or row lock with "
     "\"fifo\", or, if only exclusion is needed, put the group's column into the key and leave \"fifo\" out"},
    {HAS_FIFO, HAS_ROLE(GROUP),
     "\"fifo\" needs \"columns.group\", since the order is kept within a group: describe the group's column, or leave \"fifo\" out"},
    {HAS_FIFO | HAS_SNAPSHOT, 0,
     "\"fifo\" does not go with \"isolation\": \"repeatable_read\" or \"serializable\": who is in work must be read after the group is "
     "guarded, and there the snapshot is older: leave \"isolation\" out, or \"fifo\""},
    {HAS_MAX_ATTEMPTS, HAS_DEAD_LETTER,
     "\"max_attempts\" needs \"dead_letter\", the place for rows that have used them up: add \"dead_letter\": {\"group\": ...} or "
     "{\"table\": ...}, or leave \"max_attempts\" out"},
    {HAS_MAX_ATTEMPTS, HAS_ROLE(ATTEMPT),
     "\"max_attempts\" needs \"columns.attempt\", where attempts are counted: describe that column, or leave \"max_attempts\" out"},
    {HAS_DEAD_GROUP, HAS_ROLE(GROUP),
     "\"dead_letter\" names a group, and the table has none: describe \"columns.group\", or name a \"table\" instead"},
    {HAS_LEASE_SECONDS, HAS_ROLE(LOCKED_UNTIL),
     "\"lease_seconds\" needs \"columns.locked_until\", where a lease is written: describe that column, or leave \"lease_seconds\" out"},
    {HAS_LOCK | HAS_NO_ROW_LOCK, 0,
     "\"lock\" is how row lock locks a row; with \"columns.locked_until\" or \"advisory_lock\" no row stays locked: leave \"lock\" out"},
};

static hf_status check_rules(struct reader *r)
{
    for (size_t i = 0; i < LENGTH(rules); i++) {
        if ((r->has & rules[i].with) == rules[i].with && (r->has & rules[i].without) == 0) {
            return hf__fail(r->err, HF_INVALID, "%s", rules[i].message);
        }
    }
    return HF_OK;
}

static hf_status check_required(struct reader *r)
{
    if (r->table->name == NULL) {
        return hf__fail(r->err, HF_INVALID, "\"table\" is missing: name the table, as in \"table\": \"jobs\"");
    }
    if (!hf__table_has(r->table, HF__ROLE_ID)) {
        return hf__fail(r->err, HF_INVALID, "\"columns.id\" is missing: name the key column, as in \"columns\": {\"id\": \"id\"}");
    }
    return HF_OK;
}

/* ---- the whole ---- */

static hf_status make_name(struct reader *r, const char *schema, const char *name, char **out)
{
    if (asprintf(out, "%s%s%s", schema == NULL ? "" : schema, schema == NULL ? "" : ".", name) < 0) {
        *out = NULL; /* undefined after a failure */
        return hf__fail_memory(r->err);
    }
    return HF_OK;
}

/* The dead letters' table is in the table's own schema unless it names one. */
static hf_status make_dead_display(struct reader *r)
{
    struct hf_table *table = r->table;
    if (table->dead_table == NULL) {
        return HF_OK;
    }
    if (table->dead_schema == NULL && table->schema != NULL) {
        table->dead_schema = strdup(table->schema);
        if (table->dead_schema == NULL) {
            return hf__fail_memory(r->err);
        }
    }
    return make_name(r, table->dead_schema, table->dead_table, &table->dead_display);
}

static hf_status make_display(struct reader *r)
{
    hf_status status = make_name(r, r->table->schema, r->table->name, &r->table->display);
    return status == HF_OK ? make_dead_display(r) : status;
}

static hf_status read_all(struct reader *r, json_t *root)
{
    hf_status status = read_object(r, root, &settings);
    status = status == HF_OK ? check_required(r) : status;
    status = status == HF_OK ? check_rules(r) : status;
    return status == HF_OK ? make_display(r) : status;
}

static void name_the_table(const struct hf_table *table, hf_error *err)
{
    if (table->name == NULL) {
        (void)hf__fail_context(err, "the table description");
    } else if (table->schema == NULL) {
        (void)hf__fail_context(err, "table %.200s", table->name);
    } else {
        (void)hf__fail_context(err, "table %.200s.%.200s", table->schema, table->name);
    }
}

static hf_status read_root(json_t *root, struct hf_table **out, hf_error *err)
{
    if (!json_is_object(root)) {
        return hf__fail(err, HF_INVALID, "the table description must be a JSON object, not %s", type_name(root));
    }
    struct hf_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        return hf__fail_memory(err);
    }
    table->lease_us = LEASE_SECONDS * US_PER_SECOND;
    table->mode = HF__IMMEDIATE;
    struct reader r = {.table = table, .inside = "", .err = err};
    hf_status status = read_all(&r, root);
    if (status != HF_OK) {
        name_the_table(table, err);
        hf__table_free(table);
        return status;
    }
    *out = table;
    return HF_OK;
}

/* What jansson says; it says nothing when some of its allocations fail. */
static hf_status not_json(const json_error_t *error, hf_error *err)
{
    if (error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory) {
        return hf__fail_memory(err);
    }
    return hf__fail(err, HF_INVALID, "the table description is not JSON: line %d, column %d: %s", error->line, error->column, error->text);
}

#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

hf_status hf__table_parse(const char *json, size_t len, struct hf_table **out, hf_error *err)
{
    *out = NULL;
    json_error_t error = {.line = 0};
    json_t *root = json_loadb(json, len, JSON_FLAGS, &error);
    if (root == NULL) {
        return not_json(&error, err);
    }
    hf_status status = read_root(root, out, err);
    json_decref(root);
    return status;
}

static hf_status read_file(FILE *file, struct hf_table **out, hf_error *err)
{
    json_error_t error = {.line = 0};
    errno = 0;
    json_t *root = json_loadf(file, JSON_FLAGS, &error);
    if (ferror(file)) {
        int reason = errno;
        json_decref(root);
        return hf__fail(err, HF_SYSTEM, "cannot be read: %s", strerror(reason));
    }
    hf_status status = root == NULL ? not_json(&error, err) : read_root(root, out, err);
    json_decref(root);
    return status;
}

hf_status hf__table_load(const char *path, struct hf_table **out, hf_error *err)
{
    *out = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return hf__fail(err, HF_SYSTEM, "%s: cannot be opened: %s", path, strerror(errno));
    }
    hf_status status = read_file(file, out, err);
    if (status != HF_OK) {
        (void)hf__fail_context(err, "%s", path);
    }
    (void)fclose(file); /* only read from */
    return status;
}
