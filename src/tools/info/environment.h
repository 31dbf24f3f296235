/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The environment variables, from the library's own list.
 */
#ifndef PEERWIN_INFO_ENVIRONMENT_H
#define PEERWIN_INFO_ENVIRONMENT_H

#include "json.h"

/** The sentence with which peerwin_init would refuse the environment; NULL if it is fine. Warns of unknown names. */
const char *environment_problem(void);

/** All variables with valid values, meaning and current value; then the problem, if it is not NULL. */
void environment_list(const char *problem);

/** Those that are set; for the report. */
void environment_print(void);

/** All variables, as the list `environment`. */
void environment_write(json *j);

#endif
