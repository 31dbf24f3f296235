/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where results go: a table on stdout as they come, CSV and JSON files, and progress on stderr. Rank 0 only.
 */
#ifndef PEERWIN_BENCH_REPORT_H
#define PEERWIN_BENCH_REPORT_H

#include "bench.h"
#include "measure.h"

/** Opens the files and prints the head of the table. NULL, with a message printed, if a file cannot be opened. */
report *report_open(const options *opt, int ranks, int cpus);

/** Says what is measured now: rewritten in place on a terminal, else a line every few seconds. */
void report_progress(report *r, const char *name, size_t bytes);

/** Takes in a finished row. */
void report_add(report *r, const measure_result *result);

/** Names the device on which what follows is measured. */
void report_device(report *r, const char *device);

/** Says why a kind of memory has no rows. */
void report_missing(report *r, const char *kind, const char *reason);

/** One promise held against what was measured: `outcome` is "kept", "BROKEN" or "no figure" (then `measured` is NaN).
 */
void report_limit(report *r, const char *what, const char *limit, double measured, const char *outcome);

/** A line of text in the table, or on stderr where there is none. */
void report_note(report *r, const char *name, const char *text);

/** Finishes and closes everything, and frees `r`. False, with a message printed, if something was not written. */
bool report_close(report *r);

#endif
