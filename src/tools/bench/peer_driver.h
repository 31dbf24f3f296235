/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of the driver that the library itself does not need, fetched as it does.
 */
#ifndef PEERWIN_BENCH_PEER_DRIVER_H
#define PEERWIN_BENCH_PEER_DRIVER_H

#include "memory/driver.h"

/* X(name, version), as in memory/driver.h. */
#define PEER_DRIVER_CALLS(X)                                                                                           \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuEventSynchronize, 2000)                                                                                        \
    X(cuEventElapsedTime, 2000)                                                                                        \
    X(cuStreamBeginCapture, 10010)                                                                                     \
    X(cuStreamEndCapture, 10000)                                                                                       \
    X(cuGraphInstantiateWithFlags, 11040)                                                                              \
    X(cuGraphLaunch, 10000)                                                                                            \
    X(cuGraphExecDestroy, 10000)                                                                                       \
    X(cuGraphDestroy, 10000)

/* Those that a driver may lack: NULL then. */
#define PEER_DRIVER_OPTIONAL_CALLS(X) X(cuMemcpyPeerAsync, 4000)

typedef struct {
#define PEER_DRIVER_MEMBER(name, version_) PFN_##name##_v##version_ name;
    PEER_DRIVER_CALLS(PEER_DRIVER_MEMBER)
    PEER_DRIVER_OPTIONAL_CALLS(PEER_DRIVER_MEMBER)
#undef PEER_DRIVER_MEMBER
} peer_driver;

/** Ends the job if a call is missing. */
void peer_driver_load(peer_driver *more_out);

#endif
