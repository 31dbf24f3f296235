/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin-bench: peerwin against MPI and plain memory copies, in one run. This file is the order of events: options,
 * files, context, cases, results; or jobs of both sides beside NVSHMEM (peers.h). Exit status: 0, 1 if something
 * failed, 2 if the command line is wrong.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "machine.h"
#include "peer_place.h"
#include "peers.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

static const bench_case host_cases[] = {
    {"window", "make and free a window: peerwin_win_alloc/free, MPI_Win_allocate/free", 1, bench_case_window},
    {"put", "one put and its completion: put + quiet, MPI_Put + flush, memcpy", 1, bench_case_put},
    {"get", "one get and its completion: get + quiet, MPI_Get + flush, memcpy", 1, bench_case_get},
    {"put-bw", "16 puts completed together", 1, bench_case_put_bandwidth},
    {"get-bw", "16 gets completed together", 1, bench_case_get_bandwidth},
    {"pingpong", "a message one way: put_signal + wait, MPI_Send + MPI_Recv", 2, bench_case_pingpong},
    {"barrier", "all ranks: peerwin_barrier, MPI_Barrier", 1, bench_case_barrier},
    {"allreduce", "all ranks, sum of 1 and 8 doubles: peerwin_allreduce, MPI_Allreduce", 1, bench_case_allreduce},
    {"halo", "all ranks, ghosts of a block: halo plan, MPI with derived datatypes", 1, bench_case_halo},
};

bench_case_list bench_cases(bool cuda) {
    return cuda ? bench_cuda_cases() : (bench_case_list){host_cases, sizeof host_cases / sizeof *host_cases};
}

/* Options of rank 0 on every rank; it also opens the files, because a run whose results cannot be kept is vain. */
static void agree_on_options(bench *b, int argc, char **argv) {
    if (b->rank == 0) {
        b->opt = options_parse(argc, argv, b->size);
        fflush(stdout);
        if (b->opt.action == OPTIONS_RUN && b->opt.peer_run == NULL) {
            b->out = report_open(&b->opt, b->size, b->cpus);
            if (b->out == NULL)
                b->opt.action = OPTIONS_BAD;
        }
    }
    MPI_Bcast(&b->opt, sizeof b->opt, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (b->rank != 0) {
        b->opt.csv = NULL;
        b->opt.json = NULL;
        b->opt.plot = NULL;
        b->opt.nccl = NULL;
        b->opt.peer_run = b->opt.peer_run != NULL ? "" : NULL;
    }
}

/* Failing together, all ranks can leave in order; after a lost peer only MPI_Abort ends the job. */
static bool make_context(bench *b) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_HOST;
    const peerwin_status status = peerwin_init(MPI_COMM_WORLD, &config, &b->ctx);
    if (status == PEERWIN_OK)
        return true;
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST)
        bench_fail_call(status, "peerwin_init");
    if (b->rank == 0)
        fprintf(stderr, "peerwin-bench: peerwin_init: %s: %s\n", peerwin_strerror(status), peerwin_last_error());
    return false;
}

static bool run_on_host(bench *b) {
    if (!make_context(b))
        return false;
    for (int i = 0; i < bench_cases(false).count; i++)
        if ((b->opt.cases & 1u << i) != 0)
            host_cases[i].run(b);
    bench_check(peerwin_finalize(b->ctx), "peerwin_finalize");
    return true;
}

/* Everything between MPI_Init and MPI_Finalize; the exit status, the same on every rank. */
static int run(int argc, char **argv) {
    bench b = {.comm = MPI_COMM_NULL, .gate = MPI_COMM_NULL, .kind = "host"};
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.cpus = machine_count_cpus(MPI_COMM_WORLD);
    b.partner = b.size > 1 ? 1 : 0;
    agree_on_options(&b, argc, argv);
    if (b.opt.action != OPTIONS_RUN)
        return b.opt.action == OPTIONS_BAD ? 2 : EXIT_SUCCESS;

    MPI_Comm_dup(MPI_COMM_WORLD, &b.comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &b.gate);
    int good = b.opt.peer_run != NULL ? bench_peer_run(&b) : b.opt.cuda ? bench_cuda_run(&b) : run_on_host(&b);
    MPI_Comm_free(&b.gate);
    MPI_Comm_free(&b.comm);
    if (b.out != NULL && !report_close(b.out))
        good = 0;
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    if (options_ask_for_peers(argc, argv))
        return peers_main(argc, argv);
    place_take(); /* before MPI's threads begin */
    MPI_Init(&argc, &argv);
    const int status = run(argc, argv);
    MPI_Finalize();
    return status;
}
