/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans on streams in a build without the CUDA headers: no context is in CUDA space, so nobody comes here.
 */
#include "halo/halo.h"

peerwin_status pw_halo_on_stream(peerwin_halo *halo, pw_halo_call call, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)call;
    (void)stream;
    return pw_fail(PEERWIN_ERR_INTERNAL, site, "this build of peerwin has no CUDA, and no streams");
}
