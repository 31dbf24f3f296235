/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One thread at a time; see gate.h.
 */
#include "base/gate.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static int membarrier(int command) {
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

void pw_gate_init(pw_gate *gate, int biased) {
    int able = biased && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    atomic_init(&gate->owner, able ? pw_this_thread() : 0);
    atomic_init(&gate->inside, 0);
    atomic_init(&gate->busy, 0);
    atomic_init(&gate->unbiased, !able);
    gate->by_owner = 0;
}

int pw_gate_try_shared(pw_gate *gate) {
    uint32_t idle = 0;
    if (atomic_load_explicit(&gate->unbiased, memory_order_acquire) == 0) {
        atomic_store(&gate->owner, 0);
        /* Two threads may both come here; each runs its own. Without it (no memory) nothing is known: stay out. */
        if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
            return 0;
        atomic_store_explicit(&gate->unbiased, 1, memory_order_release);
    }
    if (!atomic_compare_exchange_strong_explicit(&gate->busy, &idle, 1, memory_order_acquire, memory_order_relaxed))
        return 0;
    if (atomic_load_explicit(&gate->inside, memory_order_acquire) != 0) {
        atomic_store_explicit(&gate->busy, 0, memory_order_relaxed);
        return 0;
    }
    gate->by_owner = 0;
    return 1;
}
