/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may help a rank; see crew.h.
 *
 * A rank that is bound to few processors makes the pages of its memory slowly, while others of the machine may have
 * nothing to do. Threads that live for some milliseconds may use these: processors that the launcher itself may run on,
 * but has bound no rank to, near to this rank; in all never more threads than there are processors. The binding of the
 * rank's own threads is never touched.
 *
 * It is taken for a launcher's binding, which says where ranks compute rather than what they may use, only where it
 * looks like one: a job of several ranks, of which those of a machine are bound apart. All of them must be in the
 * context, since of others it is not known where they are. A process that someone has
 * confined by hand, or a whole job, stays there to the last thread, since its ranks share their processors, or it was
 * the launcher that was confined. The kernel adds what it always says: nothing runs outside its cpuset.
 */
#include "window/crew.h"

#include "base/log.h"
#include "base/processors.h"
#include "memory/pages.h"
#include "window/topology.h"

static void processors_of(const pw_hello *hello, cpu_set_t *out) {
    CPU_ZERO(out);
    for (size_t i = 0; i < PW_CPU_BYTES; i++)
        for (size_t bit = 0; hello->cpus[i] >> bit != 0; bit++)
            if (hello->cpus[i] >> bit & 1)
                CPU_SET(i * 8 + bit, out);
}

/* The `count` of a set that come after the first `before`. */
static void cut(const cpu_set_t *set, int before, int count, cpu_set_t *out) {
    CPU_ZERO(out);
    for (size_t cpu = 0, number = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, set))
            continue;
        if (number >= (size_t)before && number < (size_t)before + (size_t)count)
            CPU_SET(cpu, out);
        number++;
    }
}

/*
 * To each his own processors: a kernel that has to put a thread somewhere else does not look for an idle one, and would
 * put the first threads of all ranks on the same.
 */
pw_crew pw_crew_share(const peerwin_ctx *ctx, const cpu_set_t *job, const cpu_set_t *near) {
    pw_crew crew = {0};
    cpu_set_t spare;
    int sharers = 0;
    int before = 0;
    CPU_AND(&spare, job, near);
    for (int rank = 0; rank < ctx->size; rank++) {
        cpu_set_t theirs;
        cpu_set_t both;
        if (!pw_topology_on_my_machine(ctx, rank))
            continue;
        processors_of(&ctx->hellos[rank], &theirs);
        CPU_AND(&both, &theirs, near);
        sharers += CPU_COUNT(&both) > 0;
        before += CPU_COUNT(&both) > 0 && rank < ctx->rank;
        CPU_AND(&both, &theirs, &spare);
        CPU_XOR(&spare, &spare, &both);
    }
    crew.helpers = sharers > 0 ? CPU_COUNT(&spare) / sharers : 0;
    cut(&spare, before * crew.helpers, crew.helpers, &crew.where);
    return crew;
}

void pw_crew_settle(peerwin_ctx *ctx, int ranks_of_job) {
    cpu_set_t own;
    cpu_set_t job;
    cpu_set_t near;
    ctx->crew = (pw_crew){0};
    processors_of(&ctx->hellos[ctx->rank], &own);
    if (ctx->size == 1 || ctx->size != ranks_of_job || CPU_COUNT(&own) >= PW_PAGES_THREADS ||
        !pw_topology_are_apart(ctx) || !pw_processors_of_launcher(&own, &job))
        return;
    pw_processors_near(PW_NODES, &own, &near);
    ctx->crew = pw_crew_share(ctx, &job, &near);
    pw_log(PW_LOG_DEBUG, ctx->rank, "bound to %d processors; %d threads on others may help with pages", CPU_COUNT(&own),
           ctx->crew.helpers);
}
