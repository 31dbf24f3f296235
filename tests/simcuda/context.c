/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts: primary ones, which are counted, and created ones; and each thread's stack of them.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

static _Thread_local struct {
    CUcontext entries[MAX_DEPTH];
    size_t depth;
} stack;

static uint64_t lives;

static struct sim_context *primary[SIM_MAX_DEVICES]; /* by ordinal; kept once made, so that its handle stays */

size_t sim_current_depth(void) {
    return stack.depth;
}

static CUcontext handle_of(const struct sim_context *ctx) {
    return ctx == NULL ? NULL : (CUcontext)(uintptr_t)ctx->object.handle;
}

struct sim_context *sim_context_find(CUcontext ctx, CUresult *rc_out) {
    struct sim_context *found = sim_object_find((uint64_t)(uintptr_t)ctx, SIM_CONTEXT, CUDA_ERROR_INVALID_CONTEXT,
                                                CUDA_ERROR_CONTEXT_IS_DESTROYED, rc_out);
    if (found != NULL && found->destroyed) {
        *rc_out = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return NULL;
    }
    return found;
}

struct sim_context *sim_current_or_null(void) {
    CUresult rc;
    if (stack.depth == 0 || stack.entries[stack.depth - 1] == NULL) {
        return NULL;
    }
    struct sim_context *ctx = sim_object_find((uint64_t)(uintptr_t)stack.entries[stack.depth - 1], SIM_CONTEXT,
                                              CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, &rc);
    return ctx;
}

struct sim_context *sim_current(CUresult *rc_out) {
    struct sim_context *ctx = sim_current_or_null();
    *rc_out = ctx == NULL ? CUDA_ERROR_INVALID_CONTEXT : ctx->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : ctx->lost;
    return *rc_out == CUDA_SUCCESS ? ctx : NULL;
}

static struct sim_context *make(int ordinal, unsigned flags, bool is_primary) {
    struct sim_context *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) {
        sim_die("out of host memory");
    }
    sim_object_add(&ctx->object, SIM_CONTEXT);
    ctx->ordinal = ordinal;
    ctx->device = sim.topology.visible[ordinal];
    ctx->flags = flags;
    ctx->primary = is_primary;
    ctx->id = ++lives;
    return ctx;
}

static CUresult retain(CUcontext *ctx_out, CUdevice dev) {
    if (ctx_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    if (primary[dev] == NULL) {
        primary[dev] = make(dev, 0, true);
    }
    if (primary[dev]->lost != CUDA_SUCCESS) {
        return primary[dev]->lost; /* for the rest of the process */
    }
    if (primary[dev]->destroyed) {
        primary[dev]->destroyed = false;
        primary[dev]->id = ++lives;
    }
    primary[dev]->refs++;
    *ctx_out = handle_of(primary[dev]);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    SIM_RUN(cuDevicePrimaryCtxRetain, retain(pctx, dev));
}

struct leftover {
    struct sim_context *ctx;
    size_t events;
};

static void count_event(struct sim_object *object, void *data) {
    struct leftover *leftover = data;
    leftover->events += ((struct sim_event *)object)->ctx == leftover->ctx;
}

static size_t user_streams(const struct sim_context *ctx) {
    size_t count = 0;
    for (const struct sim_stream *s = ctx->streams; s != NULL; s = s->next) {
        count += !s->destroyed && s != ctx->legacy && s->object.handle != 0;
    }
    return count;
}

static void destroy_event(struct sim_object *object, void *data) {
    struct sim_event *event = (struct sim_event *)object;
    if (event->ctx == data) {
        event->ctx = NULL;
    }
}

/* A context that ends takes its memory and streams with it; whoever is strict has freed them before. */
static void end(struct sim_context *ctx, bool by_force) {
    struct leftover leftover = {ctx, 0};
    size_t ranges = 0;
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        ranges += r->ctx == ctx;
    }
    sim_object_each(SIM_EVENT, count_event, &leftover);
    if (!by_force && (ranges != 0 || leftover.events != 0 || user_streams(ctx) != 0) && ctx->lost == CUDA_SUCCESS) {
        (void)sim_misuse(CUDA_SUCCESS, "context ends with %zu allocations, %zu streams and %zu events in it", ranges,
                         user_streams(ctx), leftover.events);
    }
    sim_context_stop(ctx);
    for (struct sim_range *r = sim_ranges, *next; r != NULL; r = next) {
        next = r->next;
        if (r->ctx == ctx) {
            (void)sim_free_range(r);
        }
    }
    sim_object_each(SIM_EVENT, destroy_event, ctx);
    ctx->destroyed = true;
    memset(ctx->peers, 0, sizeof ctx->peers);
}

static CUresult release(CUdevice dev) {
    CUresult rc = sim_device_check(dev);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    if (primary[dev] == NULL || primary[dev]->refs == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--primary[dev]->refs == 0 && !primary[dev]->destroyed) {
        end(primary[dev], false);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    SIM_RUN_RELEASE(cuDevicePrimaryCtxRelease_v2, release(dev));
}

/* Ends it for everybody, whoever has it retained; they all still release. */
static CUresult reset(CUdevice dev) {
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS && primary[dev] != NULL && !primary[dev]->destroyed) {
        end(primary[dev], true);
    }
    return rc;
}

SIM_ENTRY cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    SIM_RUN_RELEASE(cuDevicePrimaryCtxReset_v2, reset(dev));
}

static CUresult get_state(CUdevice dev, unsigned *flags_out, int *active_out) {
    if (flags_out == NULL || active_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        *flags_out = 0;
        *active_out = primary[dev] != NULL && primary[dev]->refs > 0 && !primary[dev]->destroyed;
    }
    return rc;
}

SIM_ENTRY cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
    SIM_RUN(cuDevicePrimaryCtxGetState, get_state(dev, flags, active));
}

static void push(CUcontext ctx) {
    if (stack.depth == MAX_DEPTH) {
        sim_die("%d contexts on the stack: pushes without pops", MAX_DEPTH);
    }
    stack.entries[stack.depth++] = ctx;
}

static CUresult create(CUcontext *ctx_out, unsigned flags, CUdevice dev) {
    if (ctx_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        struct sim_context *ctx = make(dev, flags, false);
        ctx->refs = 1;
        push(handle_of(ctx));
        *ctx_out = handle_of(ctx);
    }
    return rc;
}

SIM_ENTRY cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
    SIM_RUN(cuCtxCreate_v2, create(pctx, flags, dev));
}

static CUresult destroy(CUcontext handle) {
    CUresult rc;
    struct sim_context *ctx = sim_context_find(handle, &rc);
    if (ctx == NULL) {
        return rc;
    }
    if (ctx->primary) {
        return sim_misuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is destroyed");
    }
    end(ctx, false);
    ctx->refs = 0;
    if (stack.depth > 0 && stack.entries[stack.depth - 1] == handle) {
        stack.depth--;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxDestroy_v2(CUcontext ctx) {
    SIM_RUN_RELEASE(cuCtxDestroy_v2, destroy(ctx));
}

static CUresult get_current(CUcontext *ctx_out) {
    if (ctx_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ctx_out = stack.depth == 0 ? NULL : stack.entries[stack.depth - 1];
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxGetCurrent(CUcontext *pctx) {
    SIM_RUN(cuCtxGetCurrent, get_current(pctx));
}

static CUresult set_current(CUcontext ctx) {
    CUresult rc = CUDA_SUCCESS;
    struct sim_context *found = ctx == NULL ? NULL : sim_context_find(ctx, &rc);
    if (ctx != NULL && found == NULL && rc != CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        return rc; /* a context that has ended can be made current; nothing works in it */
    }
    if (ctx == NULL) {
        stack.depth -= stack.depth > 0;
    } else if (stack.depth > 0) {
        stack.entries[stack.depth - 1] = ctx;
    } else {
        push(ctx);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxSetCurrent(CUcontext ctx) {
    SIM_RUN_RELEASE(cuCtxSetCurrent, set_current(ctx));
}

static CUresult push_current(CUcontext ctx) {
    CUresult rc;
    if (ctx == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_context_find(ctx, &rc) == NULL) {
        const struct sim_context *dead =
            sim_object_find((uint64_t)(uintptr_t)ctx, SIM_CONTEXT, rc, CUDA_ERROR_CONTEXT_IS_DESTROYED, &rc);
        if (dead == NULL) {
            return rc;
        }
        if (!dead->primary) {
            return sim_misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "a destroyed context is pushed: it damages the driver");
        }
    }
    push(ctx);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxPushCurrent_v2(CUcontext ctx) {
    SIM_RUN(cuCtxPushCurrent_v2, push_current(ctx));
}

static CUresult pop_current(CUcontext *ctx_out) {
    if (stack.depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    CUcontext top = stack.entries[--stack.depth];
    if (ctx_out != NULL) {
        *ctx_out = top;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxPopCurrent_v2(CUcontext *pctx) {
    SIM_RUN_RELEASE(cuCtxPopCurrent_v2, pop_current(pctx));
}

static CUresult get_device(CUdevice *device_out) {
    struct sim_context *ctx = sim_current_or_null();
    if (ctx == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (device_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device_out = ctx->ordinal;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxGetDevice(CUdevice *device) {
    SIM_RUN(cuCtxGetDevice, get_device(device));
}

static CUresult get_id(CUcontext handle, unsigned long long *id_out) {
    CUresult rc = CUDA_ERROR_INVALID_CONTEXT;
    const struct sim_context *ctx = handle == NULL ? sim_current_or_null() : sim_context_find(handle, &rc);
    if (ctx == NULL) {
        return rc;
    }
    if (id_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *id_out = ctx->id;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    SIM_RUN(cuCtxGetId, get_id(ctx, ctxId));
}

static CUresult get_flags(unsigned *flags_out) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx != NULL) {
        *flags_out = ctx->flags;
    }
    return rc;
}

SIM_ENTRY cuCtxGetFlags(unsigned int *flags) {
    SIM_RUN(cuCtxGetFlags, get_flags(flags));
}

static CUresult synchronize(void) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx != NULL) {
        rc = sim_capture_check_context(ctx);
    }
    return rc == CUDA_SUCCESS ? sim_context_drain(ctx) : rc;
}

SIM_ENTRY cuCtxSynchronize(void) {
    SIM_RUN(cuCtxSynchronize, synchronize());
}

static CUresult peer_access(CUcontext handle, unsigned flags, bool enable) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    struct sim_context *peer = sim_context_find(handle, &rc);
    if (peer == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_topology_peers(&sim.topology, ctx->device, peer->device)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (ctx->peers[peer->device] == enable) {
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    ctx->peers[peer->device] = enable;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    SIM_RUN(cuCtxEnablePeerAccess, peer_access(peerContext, Flags, true));
}

SIM_ENTRY cuCtxDisablePeerAccess(CUcontext peerContext) {
    SIM_RUN_RELEASE(cuCtxDisablePeerAccess, peer_access(peerContext, 0, false));
}

static CUresult priorities(int *least, int *greatest) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    if (least != NULL) {
        *least = 0;
    }
    if (greatest != NULL) {
        *greatest = -5;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    SIM_RUN(cuCtxGetStreamPriorityRange, priorities(leastPriority, greatestPriority));
}

static void count_context(struct sim_object *object, void *data) {
    *(size_t *)data += (size_t)((struct sim_context *)object)->refs;
}

size_t sim_context_refs(void) {
    size_t count = 0;
    sim_object_each(SIM_CONTEXT, count_context, &count);
    return count;
}
