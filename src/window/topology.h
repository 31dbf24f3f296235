/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who is who: nodes, descriptor channels, paths and the reasons for them.
 */
#ifndef PW_WINDOW_TOPOLOGY_H
#define PW_WINDOW_TOPOLOGY_H

#include "window/context.h"

/* Fills in what this process says of itself. The address stays empty. */
PEERWIN_MUST_USE peerwin_status pw_topology_describe_self(pw_hello *hello_out, const pw_site *site);

/* Numbers the nodes from the hellos and makes the node communicator. Collective. */
PEERWIN_MUST_USE peerwin_status pw_topology_nodes(peerwin_ctx *ctx, const pw_site *site);

/* Watches the processes of my node. */
PEERWIN_MUST_USE peerwin_status pw_topology_watch(peerwin_ctx *ctx, const pw_site *site);

/* Connects the channels of my node, and settles path and reason of every pair. Collective. */
PEERWIN_MUST_USE peerwin_status pw_topology_connect(peerwin_ctx *ctx, int listener, const pw_site *site);

/* Makes the communicator of the ranks that reach each other directly, from the matrix of pairs. Collective. */
PEERWIN_MUST_USE peerwin_status pw_topology_domain(peerwin_ctx *ctx, const pw_site *site);

/* By boot id, since pretended nodes share the processors too. */
int pw_topology_on_my_machine(const peerwin_ctx *ctx, int rank);

/* Whether a launcher has bound the ranks of this machine to processors that no other of them may use. */
int pw_topology_are_apart(const peerwin_ctx *ctx);

/* Whether all ranks of this machine make far fences before they sleep. */
int pw_topology_fence_far(const peerwin_ctx *ctx);

/* How patient host waits are: the node may have a processor for each of its ranks, or not. */
pw_patience pw_topology_patience(const peerwin_ctx *ctx);

#endif
