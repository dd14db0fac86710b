/* Passwords in the argument list. `ps` shows every argument to every user of the machine, and getopt quotes an argument that it does
 * not know: so the arguments that hold a URL are blanked in place before anything is parsed, and what they were is kept here. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "pool/url.h"
#include "runtime/command_common.h"

struct hidden {
    const char *shown; /* the blanked argument, in place */
    size_t len;        /* of the whole argument, as it was */
    char *real;
};

/* Written once, before any thread; lives as long as the process. */
static struct hidden *hidden_list;
static size_t n_hidden;

/* Where the URL in an argument begins ("--db=postgresql://..."), or NULL. */
static char *url_in(char *argument)
{
    char *scheme_end = strstr(argument, "://");
    char *start = scheme_end;
    while (start && start > argument && (isalnum((unsigned char)start[-1]) || strchr("+.-", start[-1]))) {
        start--;
    }
    return start == scheme_end ? NULL : start;
}

/* Puts the blanked URL in place of the real one. The rest is filled with NUL, so that not even the password's length shows. */
static void overwrite(char *url, const char *blanked)
{
    size_t room = strlen(url);
    size_t len = strlen(blanked);
    memset(url, 0, room);
    memcpy(url, blanked, len < room ? len : room);
}

/* What to blank in an argument, or NULL: the value of --db, whatever it is (a connection string in keywords is refused later, but it is
 * visible now), and any URL. */
static char *find_secret(char *argument, const char *before)
{
    static const char option[] = "--db=";
    if (strcmp(before, "--db") == 0) {
        return argument;
    }
    return strncmp(argument, option, sizeof option - 1) == 0 ? argument + sizeof option - 1 : url_in(argument);
}

static bool hide(char *argument, const char *before)
{
    char *url = find_secret(argument, before);
    if (!url || !*url) {
        return true;
    }
    char *blanked = hf__url_blank(url);
    char *real = strdup(argument);
    struct hidden *grown = realloc(hidden_list, (n_hidden + 1) * sizeof *grown);
    if (grown) {
        hidden_list = grown;
    }
    if (!blanked || !real || !grown) {
        free(blanked);
        free(real);
        return false;
    }
    hidden_list[n_hidden++] = (struct hidden){.shown = argument, .len = strlen(argument), .real = real};
    overwrite(url, blanked);
    free(blanked);
    return true;
}

bool hf__arguments_hide(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!hide(argv[i], argv[i - 1])) {
            return false;
        }
    }
    return true;
}

const char *hf__argument(const char *shown)
{
    for (size_t i = 0; i < n_hidden; i++) {
        const struct hidden *hidden = &hidden_list[i];
        if (shown >= hidden->shown && shown <= hidden->shown + hidden->len) {
            return hidden->real + (shown - hidden->shown);
        }
    }
    return shown;
}
