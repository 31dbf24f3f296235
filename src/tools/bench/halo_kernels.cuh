/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See halo_kernels.h; a part of peer_kernels.cu, in its words. An element is moved by one lane at a time, neighbours by
 * neighbouring lanes.
 */
#ifndef PEERWIN_BENCH_HALO_KERNELS_CUH
#define PEERWIN_BENCH_HALO_KERNELS_CUH

#include "halo_kernels.h"

#ifdef __CUDACC__
#define SIMK_GRID_STRIDE(i, n)                                                                                         \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (size_t)gridDim.x * blockDim.x)
#endif

/* Where cell i of a face lies, from the face's first cell on. */
static __device__ __forceinline__ uint64_t halo_place(const halo_args *a, const halo_face *f, uint32_t i) {
    const uint32_t x = i % f->count[0], rows = i / f->count[0];
    return (uint64_t)x * a->elem + rows % f->count[1] * a->row + rows / f->count[1] * a->plane;
}

static __device__ __forceinline__ void halo_element(char *to, const char *from, uint32_t elem) {
    if (elem == 8) {
        *(uint64_t *)to = *(const uint64_t *)from;
    } else if (elem == 4) {
        *(uint32_t *)to = *(const uint32_t *)from;
    } else {
        for (uint32_t i = 0; i < elem; i++)
            to[i] = from[i];
    }
}

PW_KERNEL void __launch_bounds__(HALO_LANES) halo_pack(PEER_CONSTANT halo_args a) {
    if (a.faces > 0) {
        const unsigned face = blockIdx.y / (unsigned)a.fields, field = blockIdx.y % (unsigned)a.fields;
        const halo_face *f = &a.face[face];
        const char *from = a.array + field * a.field + f->send;
        char *to = a.packed[face] + (uint64_t)field * f->cells * a.elem;
        SIMK_GRID_STRIDE(i, f->cells) {
            halo_element(to + i * a.elem, from + halo_place(&a, f, (uint32_t)i), a.elem);
        }
    }
}
SIMK_KERNEL(halo_pack, halo_args);

PW_KERNEL void __launch_bounds__(HALO_LANES) halo_unpack(PEER_CONSTANT halo_args a) {
    if (a.faces > 0) {
        const unsigned face = blockIdx.y / (unsigned)a.fields, field = blockIdx.y % (unsigned)a.fields;
        const halo_face *f = &a.face[face];
        const char *from = a.packed[face] + (uint64_t)field * f->cells * a.elem;
        char *to = a.array + field * a.field + f->recv;
        SIMK_GRID_STRIDE(i, f->cells) {
            halo_element(to + halo_place(&a, f, (uint32_t)i), from + i * a.elem, a.elem);
        }
    }
}
SIMK_KERNEL(halo_unpack, halo_args);

PW_KERNEL void __launch_bounds__(HALO_LANES) halo_fill(PEER_CONSTANT halo_args a) {
    SIMK_GRID_STRIDE(i, a.bytes) {
        a.array[i] = (char)halo_pattern(a.rank, i);
    }
}
SIMK_KERNEL(halo_fill, halo_args);

PW_KERNEL void __launch_bounds__(HALO_LANES) halo_check(PEER_CONSTANT halo_args a) {
    if (a.faces > 0) {
        const halo_face *f = &a.face[blockIdx.y / (unsigned)a.fields];
        const uint64_t field = (uint64_t)(blockIdx.y % (unsigned)a.fields) * a.field;
        SIMK_GRID_STRIDE(i, f->cells) {
            const uint64_t place = field + halo_place(&a, f, (uint32_t)i);
            unsigned wrong = 0;
            for (uint32_t k = 0; k < a.elem; k++)
                wrong += (uint8_t)a.array[place + f->recv + k] != halo_pattern(f->peer, place + f->theirs + k);
            if (wrong > 0)
                atomicAdd((unsigned long long *)a.wrong, (unsigned long long)wrong);
        }
    }
}
SIMK_KERNEL(halo_check, halo_args);

#endif
