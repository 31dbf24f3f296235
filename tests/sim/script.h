/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated driver's script (simcuda.h), found in the library that the test has open: failures of the calls that
 * this thread makes.
 */
#ifndef PEERWIN_TESTS_SCRIPT_H
#define PEERWIN_TESTS_SCRIPT_H

/** The nth driver call from here on of this thread, of that name or of any if it is NULL, returns `code`. */
void script_fail(const char *name, int nth, int code);
/** Counts calls and does nothing to them. */
void script_listen(void);
/** Nothing fails any more; returns how often something did since script_fail. */
int script_end(void);
/** How many calls there were, and the name of the nth, "" if there were fewer; from script_listen to script_end. */
int script_calls(void);
const char *script_name(int nth);

#endif
