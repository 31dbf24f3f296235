/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels' image within the library: the fat binary, or a text in its place where there was no nvcc.
 */
        .section .rodata
        .balign 64
        .globl  pw_kernels_image
        .hidden pw_kernels_image
        .type   pw_kernels_image, %object
pw_kernels_image:
#ifdef PW_KERNELS_FATBIN
        .incbin PW_KERNELS_FATBIN
#else
        .asciz  "simcuda"
#endif
        .size   pw_kernels_image, . - pw_kernels_image

        .section .note.GNU-stack, "", %progbits
