/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Urgent words in a build without the CUDA headers: there is no device, so none is ever opened.
 */
#include "memory/urgent.h"

peerwin_status pw_urgent_open(pw_gpu *gpu, const pw_site *site, pw_urgent **urgent_out) {
    (void)gpu;
    (void)urgent_out;
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "this build of peerwin has no CUDA");
}

void pw_urgent_close(pw_urgent *urgent) {
    (void)urgent;
}

void pw_urgent_adopt_thread(const pw_urgent *urgent) {
    (void)urgent;
}

int pw_urgent_is_idle(const pw_urgent *urgent) {
    (void)urgent;
    return 1;
}

void pw_urgent_write(const pw_urgent *urgent, const pw_urgent_word *words, size_t count) {
    (void)urgent;
    (void)words;
    (void)count;
}
