/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The source of the NVSHMEM program within peerwin-bench, which builds it where it is to run.
 */
        .section .rodata

        .globl  bench_peer_program
        .hidden bench_peer_program
        .type   bench_peer_program, %object
bench_peer_program:
        .incbin BENCH_PEER_PROGRAM
        .byte   0
        .size   bench_peer_program, . - bench_peer_program

        .globl  bench_peer_plan
        .hidden bench_peer_plan
        .type   bench_peer_plan, %object
bench_peer_plan:
        .incbin BENCH_PEER_PLAN
        .byte   0
        .size   bench_peer_plan, . - bench_peer_plan

        .section .note.GNU-stack, "", %progbits
