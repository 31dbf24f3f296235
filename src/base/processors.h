/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processors of this machine, beyond those that this process is bound to. Nothing is changed by asking; what the kernel
 * does not tell is not known, and no failure.
 */
#ifndef PW_BASE_PROCESSORS_H
#define PW_BASE_PROCESSORS_H

#include <sched.h>

/* Where the kernel lists the NUMA nodes. */
#define PW_NODES "/sys/devices/system/node"

/*
 * The processors of the nearest ancestor of this process that may use others than `own`: of whoever bound it to those,
 * whatever wrappers there are in between. Returns 1, or 0 if no such ancestor is known.
 */
int pw_processors_of_launcher(const cpu_set_t *own, cpu_set_t *out);

/* The processors of the NUMA nodes that `own` has a part in; all there can be if no node is known to have. */
void pw_processors_near(const char *nodes, const cpu_set_t *own, cpu_set_t *out);

#endif
