/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See child.h. A child has a process group of its own, so that a launcher is ended together with what it launched.
 */
#define _GNU_SOURCE
#include "child.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void child_word(child_command *command, const char *format, ...) {
    char *at = command->text + command->used;
    const size_t left = sizeof command->text - command->used;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(at, left, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= left || command->count == CHILD_MAX_ARGS) {
        command->full = true;
        return;
    }
    command->used += (size_t)length + 1;
    command->argv[command->count++] = at;
    command->argv[command->count] = NULL;
}

void child_words(child_command *command, const char *text) {
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (length > 0)
            child_word(command, "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

bool child_find(const char *program, char *path, size_t size) {
    if (strchr(program, '/') != NULL) {
        text_format(path, size, "%s", program);
        return access(path, X_OK) == 0;
    }
    const char *dirs = getenv("PATH");
    while (dirs != NULL && *dirs != '\0') {
        const size_t length = strcspn(dirs, ":");
        const int written = snprintf(path, size, "%.*s/%s", (int)length, dirs, program);
        if (length > 0 && written > 0 && (size_t)written < size && access(path, X_OK) == 0)
            return true;
        dirs += length + (dirs[length] == ':');
    }
    return false;
}

static void say_command(const child_job *job, int log) {
    for (const char *const *pair = job->environment; pair != NULL && pair[0] != NULL; pair += 2)
        dprintf(log, "%s%s%s%s ", pair[1] == NULL ? "-u " : "", pair[0], pair[1] == NULL ? "" : "=",
                pair[1] == NULL ? "" : pair[1]);
    for (int i = 0; i < job->command->count; i++)
        dprintf(log, "%s%s", job->command->argv[i], i + 1 < job->command->count ? " " : "\n");
}

/* Between fork and exec; never returns. */
static _Noreturn void become(const child_job *job, int log, int only, pid_t parent) {
    const int in = job->in >= 0 ? job->in : open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CHILD_NOT_FOUND); /* it ended before it could be told apart */
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(only >= 0 ? only : log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    for (const char *const *pair = job->environment; pair != NULL && pair[0] != NULL; pair += 2) {
        if (pair[1] == NULL)
            unsetenv(pair[0]);
        else
            setenv(pair[0], pair[1], 1);
    }
    execvp(job->command->argv[0], job->command->argv);
    dprintf(STDERR_FILENO, "%s: %s\n", job->command->argv[0], strerror(errno));
    _exit(CHILD_NOT_FOUND);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* True, with the status as waitpid gives it, if the child ends within the time. */
static bool wait_for(pid_t child, double limit, int *status_out) {
    const struct timespec nap = {0, 10000000};
    for (const double begin = seconds(); seconds() - begin < limit; nanosleep(&nap, NULL)) {
        const pid_t ended = waitpid(child, status_out, WNOHANG);
        if (ended == child || (ended < 0 && errno == ECHILD))
            return true;
    }
    return false;
}

/* The launcher gets the time to end what it launched, and is ended itself if that does not help. */
static int end_child(pid_t child, int log) {
    int status = 0;
    dprintf(log, "peerwin-bench: it takes too long and is ended\n");
    kill(-child, SIGTERM);
    const bool ended = wait_for(child, 5.0, &status);
    kill(-child, SIGKILL);
    if (!ended)
        waitpid(child, &status, 0);
    return CHILD_TOO_LONG;
}

static int wait_for_end(const child_job *job, pid_t child, int log) {
    int status = 0;
    if (!wait_for(child, job->limit_s, &status))
        return end_child(child, log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int child_run(const child_job *job) {
    const pid_t parent = getpid();
    int status = CHILD_NOT_FOUND, only = -1;
    const int log = open(job->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0)
        return CHILD_NOT_FOUND;
    if (job->only != NULL && (only = open(job->only, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
        goto close_log;
    say_command(job, log);
    if (job->command->full || job->command->count == 0) {
        dprintf(log, "peerwin-bench: the command is too long\n");
        goto close_only;
    }
    const pid_t child = fork();
    if (child == 0)
        become(job, log, only, parent);
    if (child > 0)
        status = wait_for_end(job, child, log);
    dprintf(log, "peerwin-bench: exit status %d\n", status);

close_only:
    if (only >= 0)
        close(only);
close_log:
    close(log);
    return status;
}
