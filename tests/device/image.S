/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The image of this test's kernel: the fat binary, or a text in its place for the simulated driver.
 */
        .section .rodata
        .balign 64
        .globl  device_image
        .type   device_image, %object
device_image:
#ifdef DEVICE_FATBIN
        .incbin DEVICE_FATBIN
#else
        .asciz  "simcuda"
#endif
        .size   device_image, . - device_image

        .section .note.GNU-stack, "", %progbits
