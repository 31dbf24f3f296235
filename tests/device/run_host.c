/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Running bodies in a build without the CUDA headers; see run.h.
 */
#include "run.h"

void run_begin(void) {
}

void run_end(void) {
}

void run_start(const body_args *args, unsigned lanes, peerwin_stream stream) {
    (void)lanes;
    (void)stream;
    body_run(args);
}
