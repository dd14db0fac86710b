#include "tests/proxy_frames.h"

#include <stdint.h>
#include <string.h>

static size_t big_endian(const unsigned char *bytes)
{
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

/* The length of a message with a type in front; 0 if it is not all there. */
static size_t typed(const unsigned char *bytes, size_t len)
{
    size_t whole = len < 5 ? 0 : 1 + big_endian(bytes + 1);
    return whole <= len ? whole : 0;
}

/* The very first message has no type: a start, or a request to cancel, which nobody answers. */
static struct hf_test_frame postgres_start(const unsigned char *bytes, size_t len)
{
    static const size_t cancel_code = 80877102;
    size_t whole = len < 8 ? 0 : big_endian(bytes);
    if (whole == 0 || whole > len) {
        return (struct hf_test_frame){0, false, true};
    }
    return (struct hf_test_frame){whole, big_endian(bytes + 4) != cancel_code, true};
}

/* Parse, Bind, Describe, Execute and Close are held until what sends them off, or a server would begin with half a message. */
static struct hf_test_frame postgres_up(const unsigned char *bytes, size_t len)
{
    size_t whole = 0;
    size_t part = 0;
    do {
        whole += part;
        part = typed(bytes + whole, len - whole);
    } while (part > 0 && strchr("PBDEC", bytes[whole]));
    if (part == 0) {
        return (struct hf_test_frame){0, false, false};
    }
    return (struct hf_test_frame){whole + part, bytes[whole] == 'Q' || bytes[whole] == 'S', false};
}

static struct hf_test_frame postgres_down(const unsigned char *bytes, size_t len)
{
    return (struct hf_test_frame){typed(bytes, len), len > 0 && bytes[0] == 'Z', false};
}

/* A command is a packet with the number 0; a few of them get no answer. */
static struct hf_test_frame mysql_up(const unsigned char *bytes, size_t len)
{
    enum { QUIT = 0x01, SEND_LONG_DATA = 0x18, STATEMENT_CLOSE = 0x19 };
    size_t whole = len < 4 ? 0 : 4 + ((size_t)bytes[2] << 16 | (size_t)bytes[1] << 8 | bytes[0]);
    if (whole == 0 || whole > len) {
        return (struct hf_test_frame){0, false, false};
    }
    bool command = bytes[3] == 0 && whole > 4;
    return (struct hf_test_frame){whole, command && bytes[4] != QUIT && bytes[4] != SEND_LONG_DATA && bytes[4] != STATEMENT_CLOSE,
                                  !command};
}

struct hf_test_frame hf_test_frame_up(enum hf__database database, bool started, const unsigned char *bytes, size_t len)
{
    if (database == HF__MYSQL) {
        return mysql_up(bytes, len);
    }
    return started ? postgres_up(bytes, len) : postgres_start(bytes, len);
}

struct hf_test_frame hf_test_frame_down(enum hf__database database, const unsigned char *bytes, size_t len)
{
    return database == HF__MYSQL ? (struct hf_test_frame){len, len > 0, false} : postgres_down(bytes, len);
}
