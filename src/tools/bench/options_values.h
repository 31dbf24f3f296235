/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Parts of parsing the command line. What takes `opt` returns false after a message; *opt is then what says so.
 */
#ifndef PEERWIN_BENCH_OPTIONS_VALUES_H
#define PEERWIN_BENCH_OPTIONS_VALUES_H

#include "options.h"

/** Says what is wrong with the command line. */
options options_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

options options_done(void);

/** The cases of a space; the rows of --peers. */
options options_list_cases(bool cuda);
options options_list_rows(void);

bool options_parse_cases(const char *text, int ranks, options *opt);
bool options_parse_kinds(const char *text, options *opt);
bool options_parse_space(const char *text, options *opt);

/** DIMS,CELLS[,DEPTH[,FIELDS[,BYTES]]] */
bool options_parse_halo(const char *text, options *opt);

/** A whole number from `least` to `most`, or a message about `option`. */
bool options_parse_number(const char *option, const char *text, long least, long most, long *number_out, options *opt);

/** With --peers, what is selected is what a row does: put-1 brings put-16. */
bool options_parse_works(const char *text, options *opt);

bool options_parse_place(const char *text, options *opt);

/** Numbers of ranks, with commas. */
bool options_parse_ranks(const char *text, options *opt);

#endif
