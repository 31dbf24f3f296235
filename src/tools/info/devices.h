/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The GPUs that the CUDA driver shows to the calling rank, with what it announces of them; or why there are none.
 */
#ifndef PEERWIN_INFO_DEVICES_H
#define PEERWIN_INFO_DEVICES_H

#include "json.h"

void devices_print(void);

/** The object `devices`: driver_version, reason (null if there is a driver), list. */
void devices_write(json *j);

#endif
