/* Lines of any length from a descriptor, without waiting for more than there is. */
#ifndef HF_RUNTIME_COMMAND_LINES_H
#define HF_RUNTIME_COMMAND_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct hf__lines {
    int fd, signal_fd; /* signal_fd: readable when the reading should end */
    size_t number;     /* of the line read last; the first is 1 */
    int error;         /* errno, after HF__LINE_ERROR */
    char *buffer;      /* what was read and not given out: from start to end, free of line ends up to seen */
    size_t capacity, start, seen, end;
    bool over; /* the input has ended */
};

enum hf__line { HF__LINE, HF__LINE_PAUSE, HF__LINE_END, HF__LINE_SIGNAL, HF__LINE_ERROR };

/* The next line, without its end (LF or CRLF), nor a byte order mark; valid until the next call. Where no whole line is there: waits for
 * one (or a signal), or answers HF__LINE_PAUSE with wait false. */
enum hf__line hf__lines_next(struct hf__lines *lines, bool wait, char **text, size_t *len);
void hf__lines_free(struct hf__lines *lines);

#endif
