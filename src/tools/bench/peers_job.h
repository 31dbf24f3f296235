/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs of --peers: one run of one side on some ranks.
 */
#ifndef PEERWIN_BENCH_PEERS_JOB_H
#define PEERWIN_BENCH_PEERS_JOB_H

#include "peer_plan.h"
#include "peer_rows.h"

enum { PEERS_PATH = 4096, PEERS_MAX_JOBS = 3 * OPTIONS_MAX_RANKS + 2 };

typedef struct {
    int ranks;
    int side;
    bool sliced; /* without MPS, and the stream barrier only */
    int good;    /* runs that came to their end */
    int failures;
    unsigned skipped; /* works in which runs ended, as options.works */
} peer_job;

typedef struct {
    options opt;
    char self[PEERS_PATH];        /* this program */
    char program[PEERS_PATH];     /* NVSHMEM's side, "" = none */
    char library_dir[PEERS_PATH]; /* of NVSHMEM, "" = the loader's own way */
    char nccl[PEERS_PATH];        /* NCCL's library, "" = none */
    bool unique_id;               /* NVSHMEM does not start by the communicator here */
    int gpus;
    peer_job jobs[PEERS_MAX_JOBS];
    int num_jobs;
    peer_table table;
    report *out;
    double began;
} peers;

/** "peerwin", "nvshmem" or "nccl". */
const char *peers_name(int side);

/** GPUs that ranks are spread over: their thread shares have to add up to a whole on each. */
int peers_count_gpus(void);

/**
 * Starts a job, waits for its end, and takes in its rows. What fails is said, with the end of its log; rows in which it
 * ended are left out the next time.
 */
void peers_run_job(peers *p, peer_job *job, int round);

#endif
