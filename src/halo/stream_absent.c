/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans on streams in a build without the CUDA headers: no context is in CUDA space, so nobody comes here.
 */
#include "halo/halo.h"

static peerwin_status absent(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_INTERNAL, site, "this build of peerwin has no CUDA, and no streams");
}

peerwin_status pw_halo_stream_check(const peerwin_halo *halo, peerwin_stream stream, const pw_site *site,
                                    int *capturing_out) {
    (void)halo;
    (void)stream;
    (void)capturing_out;
    return absent(site);
}

peerwin_status pw_halo_stream_release(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)stream;
    return absent(site);
}

peerwin_status pw_halo_stream_start(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)stream;
    return absent(site);
}

peerwin_status pw_halo_stream_finish(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)stream;
    return absent(site);
}

peerwin_status pw_halo_capture_start(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)stream;
    return absent(site);
}

peerwin_status pw_halo_capture_finish(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    (void)halo;
    (void)stream;
    return absent(site);
}
