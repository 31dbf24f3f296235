/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words for paths and links.
 */
#ifndef PEERWIN_INFO_SHOW_H
#define PEERWIN_INFO_SHOW_H

/** "none", "self", "direct", "mpi". */
const char *show_path(int path);

/** "none", "host", "same device", "nvlink", "pcie", "fabric". */
const char *show_link(int link);

#endif
