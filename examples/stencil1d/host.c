/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The steps for windows in host memory: the same source, compiled as C.
 */
#include "stencil1d.h"

peerwin_status run_rod_on_host(const rod *r) {
    return run_steps(r);
}
