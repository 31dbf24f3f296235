/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process writes to stdout and stderr while a test looks: for promises about the log.
 */
#ifndef PEERWIN_TESTS_LISTEN_H
#define PEERWIN_TESTS_LISTEN_H

#include <stddef.h>

typedef struct {
    int file, out, err;
} listener;

/** From here on both go to a file, what a failing CHECK prints too: so none stands between begin and end. */
listener listen_begin(void);
/** Back to where they went; the text, for the caller to free. */
char *listen_end(listener *l);

/** How often `word` occurs in text. */
int listen_count(const char *text, const char *word);
/** The texts of all ranks, one after the other, on every rank; for the caller to free. */
char *listen_all(const char *text);

#endif
