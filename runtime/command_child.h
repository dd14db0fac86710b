/* Running a shell command as a child process, and stopping it with everything that it started. */
#ifndef HF_RUNTIME_COMMAND_CHILD_H
#define HF_RUNTIME_COMMAND_CHILD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* A command. All members belong to command_child.c and its lock, but for what hf__child_run leaves behind. */
struct hf__child {
    LIST_ENTRY(hf__child) link;
    pthread_cond_t changed; /* ended, or stop was asked for, or another process of the group has ended */
    pid_t pid;              /* and its process group's number; 0: not running */
    bool ended;             /* and reaped */
    bool stop;
    int status;     /* after the run: as waitpid gives it */
    bool stopped;   /* after the run: it was told to stop before it had ended, or was not even started for that */
    bool timed_out; /* and that for its time limit */
};

struct hf__child_request {
    const char *command; /* for sh -c */
    char *const *environment;
    const void *input; /* what it reads from standard input, exact */
    size_t input_len;
    int64_t grace_ms; /* between SIGTERM and SIGKILL when it is stopped */
    int64_t limit_ms; /* it is stopped when it runs longer; 0: no limit */
};

/* Once, before the first command and in a process whose only children are these: from now on every child, and every orphan that a
 * command leaves behind, is reaped here. Returns 0 or an errno value. */
int hf__child_reaper_start(void);

int hf__child_init(struct hf__child *child); /* 0 or an errno value */
void hf__child_destroy(struct hf__child *child);

/* Runs the command in a process group of its own, with our standard output and error, no other descriptor of ours, default
 * signal dispositions and an empty signal mask, and waits until it has ended and is reaped; when it was told to stop, until its
 * whole group has ended. Once for each child. Returns 0, or an errno value: it could not be started. */
int hf__child_run(struct hf__child *child, const struct hf__child_request *request);
/* SIGTERM for its process group, and SIGKILL after the grace. Any thread, between init and destroy; does not wait. */
void hf__child_stop(struct hf__child *child);

/* "exit status 3", "killed by signal 9 (Killed)" */
#define HF__CHILD_TEXT 96
void hf__child_status_text(int status, char out[HF__CHILD_TEXT]);

/* In command_spawn.c. A file that holds the bytes and is read from its start: -1 with errno set, or the caller closes it. */
int hf__child_input(const void *input, size_t len);
/* Starts the command in its own process group, with that file as standard input. Returns 0 or an errno value. */
int hf__child_spawn(const struct hf__child_request *request, int input, pid_t *pid);

#endif
