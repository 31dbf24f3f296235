/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The image of these tests' kernels: the fat binary, or a text in its place for the simulated driver.
 */
        .section .rodata
        .balign 64
        .globl  rig_image
        .type   rig_image, %object
rig_image:
#ifdef RIG_FATBIN
        .incbin RIG_FATBIN
#else
        .asciz  "simcuda"
#endif
        .size   rig_image, . - rig_image

        .section .note.GNU-stack, "", %progbits
