#include "runtime/command_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE ((size_t)64 * 1024)

/* ---- what is there ---- */

static void give_out(struct hf__lines *lines, size_t end, char **text, size_t *len)
{
    static const char mark[] = "\xEF\xBB\xBF";
    *text = lines->buffer + lines->start;
    *len = end - lines->start;
    lines->number++;
    if (*len > 0 && (*text)[*len - 1] == '\r') {
        --*len;
    }
    if (lines->number == 1 && *len >= sizeof mark - 1 && memcmp(*text, mark, sizeof mark - 1) == 0) {
        *text += sizeof mark - 1;
        *len -= sizeof mark - 1;
    }
}

/* A line that is whole, or what stands behind the last line end once the input is over. */
static bool take(struct hf__lines *lines, char **text, size_t *len)
{
    char *end = lines->seen < lines->end ? memchr(lines->buffer + lines->seen, '\n', lines->end - lines->seen) : NULL;
    if (!end) {
        lines->seen = lines->end;
        if (!lines->over || lines->start == lines->end) {
            return false;
        }
        give_out(lines, lines->end, text, len);
        lines->start = lines->end;
        return true;
    }
    size_t at = (size_t)(end - lines->buffer);
    give_out(lines, at, text, len);
    lines->start = lines->seen = at + 1;
    return true;
}

/* ---- more of it ---- */

static bool make_room(struct hf__lines *lines)
{
    if (lines->start > 0) {
        memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
        lines->end -= lines->start;
        lines->seen -= lines->start;
        lines->start = 0;
    }
    if (lines->capacity - lines->end >= READ_SIZE) {
        return true;
    }
    size_t capacity = lines->capacity < READ_SIZE ? 2 * READ_SIZE : 2 * lines->capacity;
    char *grown = realloc(lines->buffer, capacity);
    if (grown) {
        lines->buffer = grown;
        lines->capacity = capacity;
    }
    return grown != NULL;
}

static enum hf__line fail(struct hf__lines *lines, int error)
{
    lines->error = error;
    return HF__LINE_ERROR;
}

/* HF__LINE: something was read, or the input is over. */
static enum hf__line read_more(struct hf__lines *lines)
{
    if (!make_room(lines)) {
        return fail(lines, ENOMEM);
    }
    ssize_t n = read(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        return fail(lines, errno);
    }
    lines->over = n == 0;
    lines->end += n > 0 ? (size_t)n : 0;
    return HF__LINE;
}

static enum hf__line look_for_more(struct hf__lines *lines, bool wait)
{
    struct pollfd fds[] = {{.fd = lines->signal_fd, .events = POLLIN}, {.fd = lines->fd, .events = POLLIN}};
    int ready = poll(fds, sizeof fds / sizeof *fds, wait ? -1 : 0);
    if (ready < 0 && errno != EINTR) {
        return fail(lines, errno);
    }
    if (ready > 0 && fds[0].revents) {
        return HF__LINE_SIGNAL;
    }
    if (ready > 0 && fds[1].revents) {
        return read_more(lines);
    }
    return wait ? HF__LINE : HF__LINE_PAUSE;
}

enum hf__line hf__lines_next(struct hf__lines *lines, bool wait, char **text, size_t *len)
{
    while (!take(lines, text, len)) {
        if (lines->over) {
            return HF__LINE_END;
        }
        enum hf__line more = look_for_more(lines, wait);
        if (more != HF__LINE) {
            return more;
        }
    }
    return HF__LINE;
}

void hf__lines_free(struct hf__lines *lines)
{
    free(lines->buffer);
    lines->buffer = NULL;
}
