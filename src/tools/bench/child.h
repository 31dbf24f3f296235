/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Running another program: with its output in a log, a time limit, and no way to outlive this one.
 */
#ifndef PEERWIN_BENCH_CHILD_H
#define PEERWIN_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_TOO_LONG = 124, CHILD_NOT_FOUND = 127, CHILD_MAX_ARGS = 64, CHILD_TEXT = 8192 };

/** A command line, grown word by word; words are copied. */
typedef struct {
    char *argv[CHILD_MAX_ARGS + 1];
    int count;
    char text[CHILD_TEXT];
    size_t used;
    bool full; /* something did not fit: the command cannot be run */
} child_command;

void child_word(child_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The words of `text`, which are separated by blanks. */
void child_words(child_command *command, const char *text);

typedef struct {
    const child_command *command;
    const char *log;                /* stdout and stderr are appended to it, after a line with the command */
    const char *only;               /* if not NULL: a file for stdout alone, made anew */
    int in;                         /* stdin, -1 = nothing */
    int limit_s;                    /* then it is ended */
    const char *const *environment; /* pairs of name and value (NULL = taken out), ended by NULL; may be NULL */
} child_job;

/**
 * Runs it to its end: the exit status, 128 + n after signal n, CHILD_TOO_LONG, CHILD_NOT_FOUND. What it started ends
 * with it, and it ends with this process.
 */
int child_run(const child_job *job);

/** The path of a program that can be run, looked for as a shell does. False if there is none. */
bool child_find(const char *program, char *path, size_t size);

#endif
