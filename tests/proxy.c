#include "tests/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/proxy_frames.h"

#define READ_AT_ONCE 65536
#define CUT_TEXT ((size_t)300)

/* One direction: read from one end, the first `ready` bytes to be written to the other. */
struct stream {
    unsigned char *bytes;
    size_t len, ready, capacity;
};

struct link {
    int client, server;
    struct stream up, down;
    size_t asked, answered; /* messages that wait for an answer, and answers */
    bool started;
    bool doomed; /* its last message's answer is the one to lose */
    bool over;
    struct link *next;
};

struct hf_test_proxy {
    enum hf__database database;
    const char *url;
    struct sockaddr_in target;
    int listener, wake;
    pthread_t thread;
    struct link *links; /* the thread's own */

    pthread_mutex_t lock; /* guards all below */
    bool stopping, held, has_cut;
    enum hf_test_cut cut;
    size_t nth, messages, accepted;
    const char *cut_at;
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
        abort();
    }
}

/* ---- streams ---- */

/* False at the end of the stream, or on an error of it. */
static bool fill(struct stream *stream, int fd)
{
    if (stream->capacity - stream->len < READ_AT_ONCE) {
        stream->capacity = stream->len + 2 * READ_AT_ONCE;
        stream->bytes = realloc(stream->bytes, stream->capacity);
        must(stream->bytes != NULL, "memory");
    }
    ssize_t n = recv(fd, stream->bytes + stream->len, READ_AT_ONCE, MSG_DONTWAIT);
    stream->len += n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool drain(struct stream *stream, int fd)
{
    if (stream->ready == 0) {
        return true;
    }
    ssize_t n = send(fd, stream->bytes, stream->ready, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
        stream->ready -= (size_t)n;
        stream->len -= (size_t)n;
        memmove(stream->bytes, stream->bytes + n, stream->len);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- links ---- */

static void accept_link(struct hf_test_proxy *proxy)
{
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    int client = accept4(proxy->listener, (struct sockaddr *)&from, &from_len, SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    must(server >= 0, "socket");
    struct link *link = calloc(1, sizeof *link);
    must(link != NULL, "memory");
    *link = (struct link){.client = client, .server = server, .next = proxy->links};
    link->over = connect(server, (const struct sockaddr *)&proxy->target, sizeof proxy->target) != 0 ||
                 setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
                 setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0;
    proxy->links = link;
    pthread_mutex_lock(&proxy->lock);
    proxy->accepted++;
    pthread_mutex_unlock(&proxy->lock);
}

static void free_link(struct link *link)
{
    close(link->client);
    close(link->server);
    free(link->up.bytes);
    free(link->down.bytes);
    free(link);
}

static void forget_ended(struct hf_test_proxy *proxy)
{
    for (struct link **at = &proxy->links; *at;) {
        struct link *link = *at;
        if (link->over) {
            *at = link->next;
            free_link(link);
        } else {
            at = &link->next;
        }
    }
}

/* ---- messages ---- */

static const char *printable(const unsigned char *bytes, size_t len)
{
    char text[CUT_TEXT + 1];
    size_t n = 0;
    for (size_t i = 0; i < len && n < CUT_TEXT; i++) {
        if (bytes[i] >= ' ' && bytes[i] <= '~') {
            text[n++] = (char)bytes[i];
        }
    }
    return hf_test_format("%.*s", (int)n, text);
}

/* Counts a message, and tells what is to be done with it. */
static enum hf_test_cut count(struct hf_test_proxy *proxy, const unsigned char *bytes, size_t len)
{
    pthread_mutex_lock(&proxy->lock);
    enum hf_test_cut cut = ++proxy->messages == proxy->nth ? proxy->cut : HF_TEST_CUT_NOTHING;
    if (cut != HF_TEST_CUT_NOTHING) {
        proxy->cut = HF_TEST_CUT_NOTHING;
        proxy->cut_at = printable(bytes, len);
        proxy->has_cut = cut == HF_TEST_CUT_REQUEST;
    }
    pthread_mutex_unlock(&proxy->lock);
    return cut;
}

static void judge_up(struct hf_test_proxy *proxy, struct link *link)
{
    while (!link->doomed && !link->over) {
        const unsigned char *at = link->up.bytes + link->up.ready;
        struct hf_test_frame frame = hf_test_frame_up(proxy->database, link->started, at, link->up.len - link->up.ready);
        if (frame.len == 0) {
            return;
        }
        enum hf_test_cut cut = frame.waits && !frame.login ? count(proxy, at, frame.len) : HF_TEST_CUT_NOTHING;
        link->over = cut == HF_TEST_CUT_REQUEST;
        link->doomed = cut == HF_TEST_CUT_ANSWER;
        link->started = true;
        link->asked += frame.waits;
        link->up.ready += link->over ? 0 : frame.len;
    }
}

/* The lost answer is complete: the server has done it. */
static void cut_answer(struct hf_test_proxy *proxy, struct link *link)
{
    link->over = true;
    pthread_mutex_lock(&proxy->lock);
    proxy->has_cut = true;
    pthread_mutex_unlock(&proxy->lock);
}

static void judge_down(struct hf_test_proxy *proxy, struct link *link)
{
    size_t kept = 0; /* of an answer that is lost, from here on */
    while (!link->over) {
        size_t from = link->down.ready + kept;
        struct hf_test_frame frame = hf_test_frame_down(proxy->database, link->down.bytes + from, link->down.len - from);
        bool lose = link->doomed && (proxy->database == HF__MYSQL || link->answered + 1 == link->asked);
        if (frame.len == 0) {
            return;
        }
        link->answered += frame.waits;
        if (lose && frame.waits) {
            cut_answer(proxy, link);
        } else if (lose) {
            kept += frame.len;
        } else {
            link->down.ready += frame.len;
        }
    }
}

static void pump(struct hf_test_proxy *proxy, struct link *link, short client, short server)
{
    if (client & (POLLIN | POLLHUP | POLLERR)) {
        link->over = !fill(&link->up, link->client);
        judge_up(proxy, link);
    }
    if (!link->over && (server & (POLLIN | POLLHUP | POLLERR))) {
        link->over = !fill(&link->down, link->server);
        judge_down(proxy, link);
    }
    bool sent = drain(&link->up, link->server);
    sent &= drain(&link->down, link->client);
    link->over |= !sent;
}

/* ---- the thread ---- */

static size_t n_links(const struct hf_test_proxy *proxy)
{
    size_t n = 0;
    for (const struct link *link = proxy->links; link; link = link->next) {
        n++;
    }
    return n;
}

static struct pollfd wanted(int fd, bool held, bool write)
{
    return (struct pollfd){held ? -1 : fd, (short)(write ? POLLIN | POLLOUT : POLLIN), 0};
}

static void look(struct hf_test_proxy *proxy, bool held)
{
    size_t n = 2 + 2 * n_links(proxy), i = 2;
    struct pollfd *fds = calloc(n, sizeof *fds);
    must(fds != NULL, "memory");
    fds[0] = wanted(proxy->wake, false, false);
    fds[1] = wanted(proxy->listener, held, false);
    for (const struct link *link = proxy->links; link; link = link->next, i += 2) {
        fds[i] = wanted(link->client, held, link->down.ready > 0);
        fds[i + 1] = wanted(link->server, held, link->up.ready > 0);
    }
    must(poll(fds, n, -1) >= 0 || errno == EINTR, "poll");
    i = 2;
    for (struct link *link = proxy->links; link; link = link->next, i += 2) {
        if (!held) {
            pump(proxy, link, fds[i].revents, fds[i + 1].revents);
        }
    }
    if (fds[0].revents) {
        eventfd_t times;
        must(eventfd_read(proxy->wake, &times) == 0, "eventfd");
    }
    if (fds[1].revents) {
        accept_link(proxy);
    }
    free(fds);
    forget_ended(proxy);
}

static void *serve(void *arg)
{
    struct hf_test_proxy *proxy = arg;
    for (;;) {
        pthread_mutex_lock(&proxy->lock);
        bool stopping = proxy->stopping, held = proxy->held;
        pthread_mutex_unlock(&proxy->lock);
        if (stopping) {
            break;
        }
        look(proxy, held);
    }
    for (struct link *link = proxy->links; link; link = link->next) {
        link->over = true;
    }
    forget_ended(proxy);
    return NULL;
}

/* ---- what tests call ---- */

/* The URL with its host and port replaced, and *port set to what it was. */
static const char *redirect(const char *url, enum hf__database database, unsigned mine, unsigned *port)
{
    const char *at = strrchr(url, '@'), *colon = at ? strchr(at, ':') : NULL;
    char *rest = NULL;
    unsigned long number = colon ? strtoul(colon + 1, &rest, 10) : 0;
    if (!rest || *rest != '/' || number > 65535) {
        hf_test_fail("the proxy does not understand the URL of the test server");
        return "";
    }
    *port = (unsigned)number;
    return hf_test_format("%.*s127.0.0.1:%u%s%s", (int)(at + 1 - url), url, mine, rest,
                          database == HF__MYSQL ? "?ssl_mode=disabled" : "?sslmode=disable&gssencmode=disable");
}

struct hf_test_proxy *hf_test_proxy_open(enum hf__database database)
{
    struct sockaddr_in mine = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof mine;
    unsigned port = 0;
    struct hf_test_proxy *proxy = calloc(1, sizeof *proxy);
    must(proxy != NULL, "memory");
    proxy->database = database;
    proxy->cut_at = "";
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(proxy->wake >= 0 && proxy->listener >= 0, "socket");
    must(bind(proxy->listener, (const struct sockaddr *)&mine, sizeof mine) == 0 && listen(proxy->listener, 128) == 0 &&
             getsockname(proxy->listener, (struct sockaddr *)&mine, &len) == 0,
         "listen");
    proxy->url = redirect(hf_test_url(database), database, ntohs(mine.sin_port), &port);
    proxy->target = (struct sockaddr_in){AF_INET, htons((uint16_t)port), {htonl(INADDR_LOOPBACK)}, {0}};
    must(pthread_mutex_init(&proxy->lock, NULL) == 0 && pthread_create(&proxy->thread, NULL, serve, proxy) == 0, "thread");
    return proxy;
}

static void wake(struct hf_test_proxy *proxy)
{
    must(eventfd_write(proxy->wake, 1) == 0, "eventfd");
}

void hf_test_proxy_close(struct hf_test_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->stopping = true;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
    must(pthread_join(proxy->thread, NULL) == 0, "thread");
    close(proxy->listener);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

const char *hf_test_proxy_url(const struct hf_test_proxy *proxy)
{
    return proxy->url;
}

void hf_test_proxy_arm(struct hf_test_proxy *proxy, enum hf_test_cut cut, size_t nth)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->cut = cut;
    proxy->nth = nth;
    proxy->messages = 0;
    proxy->has_cut = false;
    proxy->cut_at = "";
    pthread_mutex_unlock(&proxy->lock);
}

void hf_test_proxy_disarm(struct hf_test_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->cut = HF_TEST_CUT_NOTHING;
    pthread_mutex_unlock(&proxy->lock);
}

bool hf_test_proxy_has_cut(struct hf_test_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    bool has_cut = proxy->has_cut;
    pthread_mutex_unlock(&proxy->lock);
    return has_cut;
}

const char *hf_test_proxy_cut_at(struct hf_test_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    const char *text = proxy->cut_at;
    pthread_mutex_unlock(&proxy->lock);
    return text;
}

static size_t read_count(struct hf_test_proxy *proxy, const size_t *number)
{
    pthread_mutex_lock(&proxy->lock);
    size_t n = *number;
    pthread_mutex_unlock(&proxy->lock);
    return n;
}

size_t hf_test_proxy_messages(struct hf_test_proxy *proxy)
{
    return read_count(proxy, &proxy->messages);
}

size_t hf_test_proxy_accepted(struct hf_test_proxy *proxy)
{
    return read_count(proxy, &proxy->accepted);
}

void hf_test_proxy_hold(struct hf_test_proxy *proxy, bool hold)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->held = hold;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
}
