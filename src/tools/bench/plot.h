/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Charts of the rows, as SVG or PNG, drawn by gnuplot: one for each case that was measured with several sizes, a line
 * for each implementation; and one of bars with the ratios of the others.
 */
#ifndef PEERWIN_BENCH_PLOT_H
#define PEERWIN_BENCH_PLOT_H

#include "measure.h"

typedef struct plot plot;

/** Whether a chart can have that name: it ends in .svg or .png. */
bool plot_name_is_good(const char *file);

/** Begins a picture. NULL, with a message printed, if there is no gnuplot or the file cannot be written. */
plot *plot_open(const char *file);

/** Takes in a row; the strings in it have to last until plot_close. */
void plot_add(plot *p, const measure_result *result, int ranks);

/** Draws, and frees `p`. False, with a message printed, if that failed. */
bool plot_close(plot *p, const char *title);

#endif
