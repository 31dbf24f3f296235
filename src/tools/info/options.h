/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line. Rank 0 parses it and broadcasts the result, so that every rank acts on the same decision.
 */
#ifndef PEERWIN_INFO_OPTIONS_H
#define PEERWIN_INFO_OPTIONS_H

#include <stdbool.h>

/** What to do after parsing. */
typedef enum { OPTIONS_RUN = 0, OPTIONS_DONE = 1, OPTIONS_BAD = 2 } options_action;

typedef struct {
    options_action action;
    bool env;  /* the list of variables instead of the report */
    bool json; /* JSON instead of text */
} options;

/** Parses the command line; prints the help, or one message about what is wrong. */
options options_parse(int argc, char **argv);

#endif
