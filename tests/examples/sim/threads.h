/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA kernels as C++ of the processor: include this first, then the source of the kernels, and name each in RUNTIME's
 * table (cudart.h). So ordinary CUDA code of an example runs on the simulated driver.
 *
 * The threads of a block are coroutines of one thread of the processor, which take turns at every barrier and shuffle,
 * in order of their numbers. When the turn comes back to a thread, all others have come as far: that is the barrier. A
 * block whose threads do not all come to the same ones ends the program. Blocks run one after the other.
 */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "cudart.h"

#undef __shared__
#define __shared__ static thread_local /* of all coroutines of a thread */

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

using std::min;

/* All threads of the block come to the same place. */
extern "C" void sim_threads_meet(void);
extern "C" double *sim_shuffle_place(unsigned thread);

static inline void __syncthreads(void) {
    sim_threads_meet();
}

static inline void __threadfence(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline double __shfl_down_sync(unsigned, double value, int lanes) {
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;

    *sim_shuffle_place(thread) = value;
    sim_threads_meet();
    if (thread % 32 + (unsigned)lanes < 32)
        value = *sim_shuffle_place(thread + (unsigned)lanes);
    sim_threads_meet();
    return value;
}

static inline unsigned atomicAdd(unsigned *address, unsigned value) {
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}

template <typename Type> static inline Type __ldcg(const Type *address) {
    return *address;
}

/* An entry of the table. */
template <auto Kernel, typename Argument> void sim_call(const void *argument) {
    Kernel(*static_cast<const Argument *>(argument));
}

template <auto Kernel, typename Argument> sim_entry sim_entry_of(void (*)(Argument)) {
    return sim_entry{reinterpret_cast<const void *>(Kernel), sizeof(Argument),
                     sim_call<Kernel, std::remove_const_t<Argument>>};
}
#define SIM_ENTRY(kernel) sim_entry_of<kernel>(kernel)

#endif
