/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * JSON, written as it comes: no document is kept. The writer knows where commas go; the caller closes what it opens.
 * A NULL name is for the members of a list. Bytes that are not UTF-8 are written as the code points U+0080 to U+00FF.
 */
#ifndef PEERWIN_INFO_JSON_H
#define PEERWIN_INFO_JSON_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    FILE *file;
    int depth;
    bool filled; /* something was written since the last bracket was opened */
} json;

void json_open(json *j, const char *name, char bracket);
void json_close(json *j, char bracket);

/** A text, or null if it is NULL. */
void json_text(json *j, const char *name, const char *text);
void json_number(json *j, const char *name, long long number);
void json_bool(json *j, const char *name, bool value);

#endif
