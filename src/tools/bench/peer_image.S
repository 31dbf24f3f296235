/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of peerwin's side of --peers: the fat binary, or a text in its place where there was no nvcc.
 */
        .section .rodata
        .balign 64
        .globl  bench_peer_image
        .hidden bench_peer_image
        .type   bench_peer_image, %object
bench_peer_image:
#ifdef BENCH_PEER_FATBIN
        .incbin BENCH_PEER_FATBIN
#else
        .asciz  "simcuda"
#endif
        .size   bench_peer_image, . - bench_peer_image

        .section .note.GNU-stack, "", %progbits
