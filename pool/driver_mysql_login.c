/* Connecting: the options that a URL sets, the login, and what its errors mean. */
#include <errmsg.h>
#include <fcntl.h>
#include <limits.h>
#include <mysqld_error.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "driver_mysql.h"

#define STACK_BYTES ((size_t)256 * 1024) /* of a suspended call: resolvers and TLS libraries run on it */
#define MYSQL_INSECURE_TRANSPORT 3159    /* MySQL's number, MariaDB does not define it */

/* ---- the library ---- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static bool library_ready;

/* libmariadb sets SIGPIPE to be ignored: that is the program's to decide. */
static void start_library(void)
{
    struct sigaction before;
    bool known = sigaction(SIGPIPE, NULL, &before) == 0;
    library_ready = mysql_server_init(0, NULL, NULL) == 0;
    if (known) {
        (void)sigaction(SIGPIPE, &before, NULL);
    }
}

/* ---- options ---- */

enum tls_mode { TLS_OFF, TLS_PREFERRED, TLS_REQUIRED, TLS_VERIFY_CA, TLS_VERIFY_IDENTITY };

/* Without ssl_mode, as the client library does: no TLS unless the URL names a file for it. */
static enum tls_mode tls_mode_of(const struct hf__url *url)
{
    static const char *const names[] = {"disabled", "preferred", "required", "verify_ca", "verify_identity"};
    const char *mode = hf__url_option(url, "ssl_mode");
    for (size_t i = 0; mode != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(mode, names[i]) == 0) {
            return (enum tls_mode)i;
        }
    }
    if (hf__url_option(url, "ssl_ca") != NULL) {
        return TLS_VERIFY_CA;
    }
    return hf__url_option(url, "ssl_cert") != NULL ? TLS_REQUIRED : TLS_OFF;
}

static bool set_text(MYSQL *mysql, enum mysql_option option, const char *value)
{
    return value == NULL || mysql_options(mysql, option, value) == 0;
}

static bool set_tls(MYSQL *mysql, const struct hf__url *url)
{
    enum tls_mode mode = tls_mode_of(url);
    if (mode == TLS_OFF) {
        return true;
    }
    my_bool on = 1;
    my_bool verify = mode == TLS_VERIFY_IDENTITY;
    return mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on) == 0 && mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify) == 0 &&
           (mode < TLS_VERIFY_CA || set_text(mysql, MYSQL_OPT_SSL_CA, hf__url_option(url, "ssl_ca"))) &&
           set_text(mysql, MYSQL_OPT_SSL_CERT, hf__url_option(url, "ssl_cert")) &&
           set_text(mysql, MYSQL_OPT_SSL_KEY, hf__url_option(url, "ssl_key"));
}

static bool uses_socket(const struct hf__url *url)
{
    return hf__url_option(url, "socket") != NULL || (url->host == NULL && url->port == 0);
}

/* The limit for what blocks inside the library during the login, in its unit. */
static unsigned whole_seconds(struct hf__deadline deadline)
{
    int ms = hf__left_poll_ms(deadline);
    return ms < 0 ? 0 : (unsigned)ms / 1000 + 1;
}

static bool set_options(MYSQL *mysql, const struct hf__url *url, const char *program, struct hf__deadline deadline)
{
    const size_t stack = STACK_BYTES;
    const my_bool off = 0;
    const unsigned no = 0;
    const unsigned limit = whole_seconds(deadline);
    const unsigned protocol = uses_socket(url) ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    return mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack) == 0 && mysql_options(mysql, MYSQL_OPT_RECONNECT, &off) == 0 &&
           mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no) == 0 && mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol) == 0 &&
           mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &limit) == 0 && mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") == 0 &&
           (program == NULL || *program == '\0' || mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", program) == 0) &&
           set_tls(mysql, url);
}

static hf_status check_url(const struct hf__url *url, hf_error *err)
{
    if (tls_mode_of(url) == TLS_VERIFY_CA && hf__url_option(url, "ssl_ca") == NULL) {
        return hf__fail(err, HF_INVALID, "ssl_mode=verify_ca needs ssl_ca, the file with the authority's certificate");
    }
    if ((hf__url_option(url, "ssl_cert") == NULL) != (hf__url_option(url, "ssl_key") == NULL)) {
        return hf__fail(err, HF_INVALID, "ssl_cert and ssl_key need each other");
    }
    return HF_OK;
}

/* ---- the login ---- */

/* The library opens its socket without O_CLOEXEC: the descriptor is marked as soon as it can be seen. */
static int marked(struct hf__my_step *step, int wanted)
{
    if (wanted != 0) {
        (void)fcntl(mysql_get_socket(step->mysql), F_SETFD, FD_CLOEXEC); /* there may be no descriptor yet */
    }
    return wanted;
}

/* An empty password is passed as one: NULL would take it from the environment. */
static int connect_start(struct hf__my_step *step)
{
    const struct hf__url *url = step->url;
    const char *host = uses_socket(url) ? NULL : url->host != NULL ? url->host : "localhost";
    return marked(step, mysql_real_connect_start(&step->session, step->mysql, host, url->user, url->password != NULL ? url->password : "",
                                                 url->name, url->port, hf__url_option(url, "socket"), CLIENT_FOUND_ROWS));
}

static int connect_cont(struct hf__my_step *step, int ready)
{
    return marked(step, mysql_real_connect_cont(&step->session, step->mysql, ready));
}

static bool connect_failed(const struct hf__my_step *step)
{
    return step->session == NULL;
}

static const struct hf__my_call call_connect = {.start = connect_start, .cont = connect_cont, .failed = connect_failed};

static hf_status login_class(unsigned number, bool mariadb)
{
    hf_status status = hf__my_class(number, mariadb).status;
    switch (number) {
    case ER_ACCESS_DENIED_NO_PASSWORD_ERROR:
    case ER_HOST_NOT_PRIVILEGED:
    case ER_HOST_IS_BLOCKED:
    case ER_MUST_CHANGE_PASSWORD_LOGIN:
    case ER_NOT_SUPPORTED_AUTH_MODE:
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
    case CR_AUTH_PLUGIN_ERR:
    case MYSQL_INSECURE_TRANSPORT:
        return HF_DENIED;
    default:
        return status == HF_LOST ? HF_UNREACHABLE : status;
    }
}

static hf_status login_failed(const struct hf__my *self, hf_error *err)
{
    unsigned number = mysql_errno(self->mysql);
    const char *version = mysql_get_server_info(self->mysql);
    hf_status status = login_class(number, version != NULL && strstr(version, "MariaDB") != NULL);
    return hf__fail_native(err, status, (int)number, mysql_sqlstate(self->mysql), "%s (error %u)%s", mysql_error(self->mysql), number,
                           number == MYSQL_INSECURE_TRANSPORT ? "; add ssl_mode=required to the URL" : "");
}

/* A server may refuse TLS and the library goes on without it. */
static hf_status check_tls(struct hf__my *self, hf_error *err)
{
    self->tls = mysql_get_ssl_cipher(self->mysql) != NULL;
    if (!self->tls && tls_mode_of(self->url) >= TLS_REQUIRED) {
        return hf__fail(err, HF_UNREACHABLE, "the server offers no TLS, and the URL asks for it; set up TLS there, or take ssl_mode out");
    }
    return HF_OK;
}

void hf__my_read_server(struct hf__my *self)
{
    struct hf__server *server = &self->base.server;
    unsigned long version = mysql_get_server_version(self->mysql);
    server->database = HF__MYSQL;
    server->mariadb = mariadb_connection(self->mysql) != 0;
    server->version = version <= INT_MAX ? (int)version : INT_MAX;
    (void)snprintf(server->text, sizeof server->text, "%s %lu.%lu.%lu", server->mariadb ? "MariaDB" : "MySQL", version / 10000,
                   version / 100 % 100, version % 100);
}

hf_status hf__my_login(struct hf__my *self, const char *program, struct hf__deadline deadline, hf_error *err)
{
    if (pthread_once(&library_once, start_library) != 0 || !library_ready) {
        return hf__fail(err, HF_SYSTEM, "the MariaDB client library could not be set up");
    }
    hf_status status = check_url(self->url, err);
    if (status != HF_OK) {
        return status;
    }
    self->mysql = mysql_init(NULL);
    if (self->mysql == NULL) {
        return hf__fail_memory(err);
    }
    if (!set_options(self->mysql, self->url, program, deadline)) {
        return hf__fail(err, HF_SYSTEM, "the MariaDB client library refused an option: %s", mysql_error(self->mysql));
    }
    self->tls = tls_mode_of(self->url) != TLS_OFF;
    struct hf__my_step step = {.call = &call_connect, .url = self->url};
    if (!hf__my_drive(self, &step, deadline)) {
        return hf__fail(err, HF_TIMEOUT, "the server did not answer within the time limit");
    }
    if (connect_failed(&step)) {
        return login_failed(self, err);
    }
    (void)fcntl(mysql_get_socket(self->mysql), F_SETFD, FD_CLOEXEC); /* a valid descriptor takes it */
    self->id = mysql_thread_id(self->mysql);
    hf__my_read_server(self);
    return check_tls(self, err);
}
