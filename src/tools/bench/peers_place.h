/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which processors the ranks of a job get.
 */
#ifndef PEERWIN_BENCH_PEERS_PLACE_H
#define PEERWIN_BENCH_PEERS_PLACE_H

#include "options.h"

#include <stddef.h>

/**
 * The value of PEER_CPUS (peer_place.h) for so many ranks on so many GPUs: "" if they are to stay where the launcher
 * puts them, or if there are not enough processors for all.
 */
void peers_place(options_place how, int ranks, int gpus, char *text, size_t size);

#endif
