/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA space in builds without the CUDA headers: there is none, and the options say so.
 */
#include "bench.h"
#include "peers.h"

#include <stdlib.h>

bench_case_list bench_cuda_cases(void) {
    return (bench_case_list){NULL, 0};
}

bool bench_cuda_run(bench *b) {
    (void)b;
    return false;
}

bool bench_peer_run(bench *b) {
    (void)b;
    return false;
}

int peers_main(int argc, char **argv) {
    return options_parse(argc, argv, 0).action == OPTIONS_BAD ? 2 : EXIT_SUCCESS;
}
