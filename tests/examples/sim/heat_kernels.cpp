/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * heat's kernels, and all that launches them, for the processor.
 */
#include "threads.h"

#include "heat/space_cuda.cu"

extern "C" const sim_entry sim_entries[] = {
    SIM_ENTRY(set_u_kernel),    SIM_ENTRY(set_energy_kernel), SIM_ENTRY(residual_kernel), SIM_ENTRY(total_kernel),
    SIM_ENTRY(multiply_kernel), SIM_ENTRY(iterate_kernel),    {nullptr, 0, nullptr},
};
