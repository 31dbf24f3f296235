/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The doorbell of a pad: a 32-bit futex; see pad.h.
 *
 * Order: the waiter counts itself as a sleeper, then a full fence, then looks at its condition again; the signaller
 * stores the condition, then a full fence, then looks for sleepers. One of the two sees the other, so no wake-up is
 * lost; the sleep is short all the same, to look at deadline and peers. Where all ranks of the machine fence far, the
 * waiter's fence is a far one and stands for the signaller's, too: see base/farfence.h.
 */
#include "window/pad.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, (uint32_t *)(void *)word, operation, value, timeout, NULL, 0);
}

void pw_pad_wake_always(char *pad) {
    pw_control *control = pw_pad_control(pad);
    atomic_fetch_add_explicit(&control->doorbell, 1, memory_order_seq_cst);
    (void)futex(&control->doorbell, FUTEX_WAKE, INT_MAX, NULL);
}

void pw_pad_wake_sleeper(char *pad) {
    if (atomic_load_explicit(&pw_pad_control(pad)->sleepers, memory_order_relaxed) != 0)
        pw_pad_wake_always(pad);
}

void pw_pad_sleep(char *pad, uint32_t seen, int milliseconds) {
    struct timespec timeout = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    (void)futex(&pw_pad_control(pad)->doorbell, FUTEX_WAIT, seen, &timeout);
}
