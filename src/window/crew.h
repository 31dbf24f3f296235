/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may help a rank with the pages of its memory: threads on processors of its machine that no rank is bound to.
 */
#ifndef PW_WINDOW_CREW_H
#define PW_WINDOW_CREW_H

#include "window/context.h"

/* Finds this rank's crew, once the ranks know each other. `ranks_of_job`: in this context or not. */
void pw_crew_settle(peerwin_ctx *ctx, int ranks_of_job);

/*
 * This rank's part of the processors in both `job` and `near` that are no rank's: those that are near ranks of this
 * machine are shared out among these.
 */
pw_crew pw_crew_share(const peerwin_ctx *ctx, const cpu_set_t *job, const cpu_set_t *near);

#endif
