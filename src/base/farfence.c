/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Far fences; see farfence.h. GLOBAL_EXPEDITED is since Linux 4.16; it interrupts the processors that run a registered
 * process, and no others.
 */
#include "base/farfence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static int membarrier(int command) {
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

int pw_far_fence_register(void) {
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 && pw_far_fence();
}

int pw_far_fence(void) {
    return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}
