/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The small all-reduce on streams. A kernel writes this rank's values into its slot at every rank, in words that carry
 * their epoch, waits for everyone's words in its own arena, and combines them in rank order.
 *
 * Where kernels may not wait, it is two kernels with a barrier by memory operations between them, after which the
 * second finds all words there. Slots are used by turns: who writes a slot again has met the others in the all-reduce
 * between, which they came to when they had combined what was in it.
 */
#include "peerwin/device/rounds.h"
#include "transfer/combine.h"
#include "transfer/stream_meet.h"
#include "window/watchdog.h"

_Static_assert((int)PW_DEV_LINE == (int)PW_LINE && (int)PW_DEV_REDUCE_SLOT == (int)PW_ARENA_REDUCE_SLOT &&
                   (int)PW_DEV_TAG_BITS == (int)PW_REDUCE_TAG_BITS && (int)PW_DEV_FLOAT == PEERWIN_FLOAT &&
                   (int)PW_DEV_MIN == PEERWIN_MIN,
               "kernels know the arena, and count types and operations, as the library does");

typedef struct {
    const peerwin_ctx *ctx;
    int series;
} slots;

static char *slots_at(const peerwin_ctx *ctx, int owner, int series) {
    return ctx->peers[owner].arena + ctx->arena_layout.reduce_slots[series];
}

static char *my_slots_at(const void *of, int owner) {
    const slots *s = of;
    return slots_at(s->ctx, owner, s->series) + 2 * (size_t)s->ctx->rank * PW_ARENA_REDUCE_SLOT;
}

static peerwin_status launch(pw_step *step, const pw_launch_values *values) {
    const peerwin_ctx *ctx = step->ctx;
    const slots mine = {ctx, pw_series_of(step)};
    const pw_launch_places places = {my_slots_at, &mine};
    const pw_launch_meeting meeting = pw_meeting_of(step, pw_my_control(ctx)->reduce_epoch, ctx->sequence.reduces);
    return pw_launch_reduce(ctx->gpu, step->stream, &meeting, values, slots_at(ctx, ctx->rank, mine.series), &places,
                            &step->given, step->site);
}

static peerwin_status reduce_apart(pw_step *step, pw_launch_values *values) {
    values->parts = PW_REDUCE_PUBLISH;
    peerwin_status status = launch(step, values);
    if (status == PEERWIN_OK)
        status = pw_meet_by_words(step);
    values->parts = PW_REDUCE_COMBINE;
    return status == PEERWIN_OK ? launch(step, values) : status;
}

static peerwin_status reduce(pw_step *step, pw_launch_values *values) {
    peerwin_ctx *ctx = step->ctx;
    if (pw_event_barrier_is_open(ctx))
        return pw_fail(PEERWIN_ERR_STATE, step->site, "a barrier that timed out or failed must be repeated first");
    if (ctx->size == 1)
        return PEERWIN_OK;
    peerwin_status status = pw_meet_join(step);
    if (status != PEERWIN_OK)
        return status;
    pw_watchdog_expect_kernels(ctx);
    values->parts = PW_REDUCE_PUBLISH | PW_REDUCE_COMBINE;
    status = ctx->kernels_wait ? launch(step, values) : reduce_apart(step, values);
    if (status != PEERWIN_OK)
        return status;
    if (!step->capture)
        ctx->sequence.reduces++;
    return pw_meet_done(step, PW_LAST_REDUCE);
}

/* Memory is mapped by pages, of which none is smaller. */
static int on_one_page(const char *first, const char *last) {
    return (uintptr_t)first / 4096 == (uintptr_t)last / 4096;
}

/* A kernel that runs off mapped memory would cost the whole CUDA context, so both ends are looked at. */
static peerwin_status check_values(const pw_step *step, const pw_launch_values *values) {
    const pw_gpu *gpu = step->ctx->gpu;
    size_t bytes = pw_type_bytes(values->type);
    const char *first = values->values;
    const char *last = first + (size_t)values->count * bytes - 1;
    if ((uintptr_t)first % bytes != 0)
        return pw_fail(PEERWIN_ERR_ARG, step->site, "values is not aligned to the %zu bytes of a value", bytes);
    if (pw_place_of(gpu, first) == PW_PLACE_MAPPED &&
        (on_one_page(first, last) || pw_place_of(gpu, last) == PW_PLACE_MAPPED))
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_ARG, step->site,
                   "values is not memory that kernels of this device can use: take device memory, or page-locked host "
                   "memory");
}

peerwin_status pw_stream_allreduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op,
                                   peerwin_stream stream, const pw_site *site) {
    pw_step step;
    pw_launch_values all = {.values = values, .count = count, .type = type, .op = op};
    if (!ctx->all_direct)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, site,
                       "an all-reduce on a stream needs a direct path between all ranks: see peerwin_peer_query");
    peerwin_status status = pw_step_in(&step, ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    status = check_values(&step, &all);
    if (status == PEERWIN_OK)
        status = reduce(&step, &all);
    return pw_step_out(&step, status);
}
