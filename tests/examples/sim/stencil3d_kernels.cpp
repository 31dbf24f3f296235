/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * stencil3d's kernels, and all that launches them, for the processor.
 */
#include "threads.h"

#include "stencil3d/space_cuda.cu"

#include "stencil3d/comm_packed.cu"

extern "C" const sim_entry sim_entries[] = {
    SIM_ENTRY(sweep_region<7>),   SIM_ENTRY(sweep_region<27>), SIM_ENTRY(sweep_shell<7>), SIM_ENTRY(sweep_shell<27>),
    SIM_ENTRY(move_parts<false>), SIM_ENTRY(move_parts<true>), {nullptr, 0, nullptr},
};
