/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Beside NVSHMEM. The two cannot share a process, and must not hold the GPU at the same time: peerwin-bench --peers is
 * no job of MPI itself, but starts one after the other, a job of each in turn, round by round, and puts side by side
 * what they have measured.
 */
#ifndef PEERWIN_BENCH_PEERS_H
#define PEERWIN_BENCH_PEERS_H

#include "bench.h"

/** Starts the jobs and reports; the exit status of the program. */
int peers_main(int argc, char **argv);

/** peerwin's side, once, as a job of MPI: the rows of peer_plan.h to the file opt.peer_run. False if it failed. */
bool bench_peer_run(bench *b);

/** The NVSHMEM program: found, built or named by the user. Texts for people in `note`. False if there is none. */
bool peers_find_program(const options *opt, char *program, size_t size, char *library_dir, char *note,
                        size_t note_size);

/** NCCL's library, named by the user (a name that is none: leave it out) or found. False, and "", if there is none. */
bool peers_find_nccl(const options *opt, const char *nvshmem_dir, char *library, size_t size);

#endif
