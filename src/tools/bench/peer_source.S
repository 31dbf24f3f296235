/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The source of the NVSHMEM program within peerwin-bench, which builds it where it is to run. Files are found by -I.
 */
        .section .rodata

        .macro  text name, file
        .globl  \name
        .hidden \name
        .type   \name, %object
\name:
        .incbin "\file"
        .byte   0
        .size   \name, . - \name
        .endm

        text    bench_peer_program, peer_nvshmem.cu
        text    bench_peer_rows, peer_nvshmem_rows.cuh
        text    bench_peer_kernels, peer_nvshmem_kernels.cuh
        text    bench_peer_halo, peer_nvshmem_halo.cuh
        text    bench_peer_plan, peer_plan.h
        text    bench_peer_place, peer_place.h
        text    bench_halo_shape, halo_shape.h
        text    bench_halo_kernels_h, halo_kernels.h
        text    bench_halo_kernels, halo_kernels.cuh

        .section .note.GNU-stack, "", %progbits
