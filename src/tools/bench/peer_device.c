/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers: rows in kernels.
 */
#define _GNU_SOURCE
#include "peer_side.h"

peerwin_status peer_device_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    (void)s;
    (void)iterations;
    *us_out = 0.0;
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "this build has no kernels for %s", row->name);
}
