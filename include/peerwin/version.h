/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The version of these headers. The build reads it from here, so there is one place to change.
 * Versions with the same major number (from 1 on) are ABI stable.
 */
#ifndef PEERWIN_VERSION_H
#define PEERWIN_VERSION_H

#define PEERWIN_VERSION_MAJOR 0
#define PEERWIN_VERSION_MINOR 1
#define PEERWIN_VERSION_PATCH 0

/** The version as one number, major * 10000 + minor * 100 + patch; compare with peerwin_version(). */
#define PEERWIN_VERSION (PEERWIN_VERSION_MAJOR * 10000 + PEERWIN_VERSION_MINOR * 100 + PEERWIN_VERSION_PATCH)

#endif
