/* Child processes of a test. */
#include "tests/support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct hf_test_child {
    pid_t pid;
    bool ended;
    int status; /* as waitpid gave it, once ended */
    int out, err;
    char *out_text, *err_text;
};

const char *hf_test_program(const char *name)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len < 0) {
        hf_test_fail("/proc/self/exe: %s", strerror(errno));
        return "";
    }
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    return hf_test_format("%.*s/%s", (int)(slash ? slash - path : 0), path, name);
}

static bool same_name(const char *entry, const char *setting)
{
    size_t len = strcspn(setting, "=");
    return strncmp(entry, setting, len) == 0 && entry[len] == '=';
}

static bool overridden(const char *entry, const char *const *env)
{
    for (size_t i = 0; env && env[i]; i++) {
        if (same_name(entry, env[i])) {
            return true;
        }
    }
    return false;
}

/* Our environment with the settings over it. NULL when out of memory; the strings are borrowed. */
static char **child_environment(const char *const *env)
{
    size_t ours = 0;
    size_t theirs = 0;
    while (environ[ours]) {
        ours++;
    }
    while (env && env[theirs]) {
        theirs++;
    }
    char **all = calloc(ours + theirs + 1, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; all && i < ours; i++) {
        if (!overridden(environ[i], env)) {
            all[n++] = environ[i];
        }
    }
    for (size_t i = 0; all && i < theirs; i++) {
        if (strchr(env[i], '=')) {
            all[n++] = (char *)env[i];
        }
    }
    return all;
}

/* After fork: only calls that are safe in a signal handler. */
static _Noreturn void become(char **argv, char **env, int in, int out, int err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0) {
        execvpe(argv[0], argv, env);
    }
    static const char message[] = "the test cannot start this program\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) {
        _exit(126);
    }
    _exit(127);
}

static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        hf_test_fail("memfd_create: %s", strerror(errno));
    }
    return fd;
}

static int input_file(const void *input, size_t len)
{
    if (!input) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            hf_test_fail("/dev/null: %s", strerror(errno));
        }
        return fd;
    }
    int fd = memory_file("input");
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, (const char *)input + done, len - done);
        if (n < 0) {
            hf_test_fail("the input of a child: %s", strerror(errno));
            break;
        }
        done += (size_t)n;
    }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

struct hf_test_child *hf_test_start_with_input(const char *const *argv, const char *const *env, const void *input, size_t len)
{
    struct hf_test_child *child = calloc(1, sizeof *child);
    char **environment = child_environment(env);
    if (!child || !environment) {
        free(child);
        free(environment);
        hf_test_fail("out of memory");
        return NULL;
    }
    int in = input_file(input, len);
    child->out = memory_file("stdout");
    child->err = memory_file("stderr");
    child->pid = fork();
    if (child->pid == 0) {
        become((char **)argv, environment, in, child->out, child->err);
    }
    close(in);
    free(environment);
    if (child->pid < 0) {
        child->ended = true;
        hf_test_free(child);
        hf_test_fail("fork: %s", strerror(errno));
        return NULL;
    }
    return child;
}

struct hf_test_child *hf_test_start(const char *const *argv, const char *const *env)
{
    return hf_test_start_with_input(argv, env, NULL, 0);
}

pid_t hf_test_pid(const struct hf_test_child *child)
{
    return child->pid;
}

static bool reap(struct hf_test_child *child, int flags)
{
    while (!child->ended) {
        pid_t pid = waitpid(child->pid, &child->status, flags);
        if (pid == 0) {
            return false;
        }
        if (pid < 0 && errno == EINTR) {
            continue;
        }
        child->ended = true;
    }
    return true;
}

static bool has_ended(void *child)
{
    return reap(child, WNOHANG);
}

bool hf_test_running(struct hf_test_child *child)
{
    return !reap(child, WNOHANG);
}

void hf_test_kill(struct hf_test_child *child, int signal_number)
{
    if (hf_test_running(child)) {
        kill(child->pid, signal_number);
    }
}

int hf_test_wait(struct hf_test_child *child, int64_t timeout_ms)
{
    if (!hf_test_wait_until(has_ended, child, timeout_ms)) {
        kill(child->pid, SIGKILL);
        reap(child, 0);
        return HF_TEST_TIMED_OUT;
    }
    return WIFSIGNALED(child->status) ? HF_TEST_SIGNALLED + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

/* Everything that the file holds now, in place of *text. */
static const char *read_all(int fd, char **text)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        hf_test_fail("the output of a child: %s", strerror(errno));
        return "";
    }
    char *grown = realloc(*text, (size_t)info.st_size + 1);
    if (!grown) {
        hf_test_fail("out of memory");
        return "";
    }
    *text = grown;
    ssize_t n = pread(fd, grown, (size_t)info.st_size, 0);
    grown[n > 0 ? n : 0] = '\0';
    return grown;
}

const char *hf_test_stdout(struct hf_test_child *child)
{
    return read_all(child->out, &child->out_text);
}

const char *hf_test_stderr(struct hf_test_child *child)
{
    return read_all(child->err, &child->err_text);
}

struct expected_output {
    struct hf_test_child *child;
    const char *text;
};

static bool output_contains(void *arg)
{
    struct expected_output *expected = arg;
    return strstr(hf_test_stdout(expected->child), expected->text) != NULL;
}

static bool output_or_end(void *arg)
{
    struct expected_output *expected = arg;
    return output_contains(arg) || !hf_test_running(expected->child);
}

bool hf_test_wait_stdout(struct hf_test_child *child, const char *text, int64_t timeout_ms)
{
    struct expected_output expected = {child, text};
    return hf_test_wait_until(output_or_end, &expected, timeout_ms) && output_contains(&expected);
}

void hf_test_free(struct hf_test_child *child)
{
    if (!child) {
        return;
    }
    if (!child->ended) {
        kill(child->pid, SIGKILL);
        reap(child, 0);
    }
    close(child->out);
    close(child->err);
    free(child->out_text);
    free(child->err_text);
    free(child);
}

void hf_test_run(const char *const *argv, const char *const *env, int64_t timeout_ms)
{
    struct hf_test_child *child = hf_test_start(argv, env);
    int code = hf_test_wait(child, timeout_ms);
    const char *output = hf_test_format("%s%s", hf_test_stdout(child), hf_test_stderr(child));
    hf_test_free(child);
    if (code == HF_TEST_TIMED_OUT) {
        hf_test_fail("%s did not end within %lld ms: %s", argv[0], (long long)timeout_ms, output);
    } else if (code != 0) {
        hf_test_fail("%s %s ended with %d: %s", argv[0], argv[1] ? argv[1] : "", code, output);
    }
}
