/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Facts: short lists of name and value, for the build and for the machine of the calling rank. What cannot be found
 * out is "unknown".
 */
#ifndef PEERWIN_INFO_FACTS_H
#define PEERWIN_INFO_FACTS_H

#include "json.h"

typedef struct {
    const char *name; /* in JSON as it is, in text with spaces for the underscores */
    char value[256];
    bool number;
} fact;

typedef struct {
    const char *name;
    fact list[24];
    int count;
} facts;

facts facts_of_build(void);
facts facts_of_machine(void);

void facts_print(const facts *f);
void facts_write(const facts *f, json *j);

#endif
