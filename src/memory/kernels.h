/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host and the kernels (transfer/kernels.cu) have in common: the list of kernels and their arguments, one
 * struct each. Plain C, which is CUDA C++ too.
 */
#ifndef PW_MEMORY_KERNELS_H
#define PW_MEMORY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* X(NAME, function) */
#define PW_KERNELS(X)                                                                                                  \
    X(COPY, pw_kernel_copy)                                                                                            \
    X(BOX, pw_kernel_box)                                                                                              \
    X(WORD, pw_kernel_word)

enum {
#define PW_KERNEL_ENTRY(name, function) PW_KERNEL_##name,
    PW_KERNELS(PW_KERNEL_ENTRY)
#undef PW_KERNEL_ENTRY
        PW_NUM_KERNELS
};

#endif
