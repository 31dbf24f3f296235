/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange in CUDA space: one launch for start and one for finish. A kernel stores strided rows into a peer's
 * memory as it does into its own; only thin faces from other devices are packed (stage.c), and finish unpacks them.
 *
 * The order is that of exchange.c, in stream order. Where kernels may wait, that of start grants, waits for the grants
 * and tells of the arrivals itself; a plan too large for that awaits the grants before it. Elsewhere the stream waits,
 * by one batch of memory operations, and the kernel only pushes and tells. All grants of a start are given before its
 * waits, so whatever leads to the end of a wait stands before it in every stream.
 *
 * Where kernels may wait, small faces travel as words (memory/kernels.h). They may come before the grant of their
 * exchange, and are taken to the ghosts by a kernel. That of start does so at once, and finish has nothing to do, if
 * start would have to await these ranks anyhow: if all that send here also get faces from here, which without words it
 * could not push before they start, or release. Who releases early wants to go on while the faces travel, and gets two
 * kernels.
 *
 * Exchanges in graphs have words of their own, since nobody knows how often a graph runs. Kernels that wait count them
 * in device memory. Elsewhere the words are flags: 1 and 0, written by the stream, and whoever has awaited a 1 resets
 * it before it does what lets the other side write it again.
 *
 * What fails changes nothing here and may be repeated: the words that it raised are raised to the same once more, what
 * it awaited is awaited again, and the kernel that moves is given last.
 */
#include "halo/halo.h"
#include "transfer/stream_meet.h"
#include "window/watchdog.h"

typedef struct {
    peerwin_halo *halo;
    pw_step step;
    int series;
    int flags;      /* words are flags */
    uint64_t epoch; /* what words are raised to, unless a kernel looks for itself */
} exchange;

/* ---- words ---- */

static uint64_t *word(const exchange *x, pw_halo_word which, int owner, int writer) {
    const peerwin_halo *halo = x->halo;
    return &halo->win->peers[owner].slots[pw_halo_slot(halo, pw_halo_in(which, x->series), writer)];
}

/* Raises my word at all neighbours of that role. */
static peerwin_status raise_all(const exchange *x, pw_batch *batch, pw_halo_word which, unsigned role) {
    const peerwin_halo *halo = x->halo;
    const int me = halo->ctx->rank;
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & role)
            status = pw_batch_write(batch, word(x, which, halo->neighbors[i].rank, me), x->epoch);
    return status;
}

/* What is awaited is noted first: from then on the watchdog can end the wait. */
static void expect(const exchange *x, pw_halo_word which, unsigned role) {
    const peerwin_halo *halo = x->halo;
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].roles & role)
            pw_watchdog_expect_signal(halo->ctx, word(x, which, halo->ctx->rank, halo->neighbors[i].rank), x->epoch);
}

/* Awaits the words of all neighbours of that role, and then resets them if they are flags. */
static peerwin_status await_all(const exchange *x, pw_batch *batch, pw_halo_word which, unsigned role) {
    const peerwin_halo *halo = x->halo;
    const int me = halo->ctx->rank;
    peerwin_status status = PEERWIN_OK;
    expect(x, which, role);
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & role)
            status = pw_batch_wait(batch, word(x, which, me, halo->neighbors[i].rank), x->epoch);
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK && x->flags; i++)
        if (halo->neighbors[i].roles & role)
            status = pw_batch_write(batch, word(x, which, me, halo->neighbors[i].rank), 0);
    return status;
}

/* ---- kernels ---- */

/* Kernels count: nobody else knows which exchange it is. */
static int is_counted(const exchange *x) {
    return x->step.capture != 0 && !x->flags;
}

/* `count` is where kernels look if they count. */
static pw_launch_meeting meeting_of(const exchange *x, uint64_t *count) {
    pw_launch_meeting meeting = pw_meeting_of(&x->step, count, x->epoch - 1);
    meeting.epoch = count;
    meeting.known = !is_counted(x);
    meeting.one_device = x->halo->table.one_device;
    return meeting;
}

static pw_push_args move_args(const exchange *x, const pw_halo_work *work, int waits) {
    return (pw_push_args){.blocks = work->blocks,
                          .parts = work->parts,
                          .moves = work->moves,
                          .tickets = x->halo->table.tickets,
                          .num_blocks = work->num_blocks,
                          .waits = waits != 0,
                          .apart = work->apart != 0};
}

static pw_push_args push_args(const exchange *x, int grants, int waits) {
    const pw_halo_table *table = &x->halo->table;
    pw_push_args args = move_args(x, &table->push[x->series], waits);
    args.grants = table->grants[x->series];
    args.num_grants = grants ? table->num_sources : 0;
    args.over = is_counted(x) ? table->finishes : NULL;
    args.num_over = 1;
    args.behind = 1;
    return args;
}

/* The kernel of start is that of finish as well. */
static void take_too(const exchange *x, pw_push_args *args) {
    const pw_halo_work *take = &x->halo->table.take[x->series];
    args->num_takes = take->num_blocks;
    args->take_apart = take->apart != 0;
    args->take_parts = take->parts;
    args->take_moves = take->moves;
}

/*
 * Moves everything; grants and waits if the plan's blocks do that themselves. Whoever comes late has not granted: these
 * are the words to look at, even if it is faces that are awaited.
 */
static peerwin_status push(exchange *x, int grants, int waits, int joined) {
    const pw_halo_table *table = &x->halo->table;
    pw_gpu *gpu = x->halo->ctx->gpu;
    const pw_launch_meeting meeting = meeting_of(x, table->starts);
    pw_push_args args = push_args(x, grants, waits);
    if (args.num_blocks == 0)
        return PEERWIN_OK;
    if (joined)
        take_too(x, &args);
    if (waits && !is_counted(x))
        expect(x, PW_HALO_GRANT, PW_HALO_GETS_FROM_ME);
    if (waits)
        pw_watchdog_expect_kernels(x->halo->ctx);
    if (table->ready && x->step.capture == 0)
        return pw_launch_ready_push(gpu, table->ready, x->step.stream, &meeting, &args, x->step.site);
    return pw_launch_push(gpu, x->step.stream, &meeting, &args, x->step.site);
}

/*
 * Moves what came packed to the ghosts; waits for it if the plan's blocks do that themselves. The staging area needs no
 * other half: its next faces come when this rank has granted them, so after this kernel, which reads it. Grants are
 * releases by what follows on the stream, a kernel that publishes or a memory operation, and the sender acquires its
 * grant before it stores. Faces are there by the same arrivals as those that came straight to the ghosts.
 */
static peerwin_status unpack(exchange *x, int waits) {
    const pw_halo_table *table = &x->halo->table;
    const pw_launch_meeting meeting = meeting_of(x, table->finishes);
    pw_push_args args = move_args(x, &table->unpack[x->series], waits);
    args.over = is_counted(x) ? table->starts : NULL;
    args.num_over = table->num_starts;
    if (waits && !is_counted(x))
        expect(x, PW_HALO_ARRIVAL, PW_HALO_SENDS_TO_ME);
    if (waits)
        pw_watchdog_expect_kernels(x->halo->ctx);
    return pw_launch_push(x->halo->ctx->gpu, x->step.stream, &meeting, &args, x->step.site);
}

static peerwin_status await_by_kernel(exchange *x, uint64_t *count, const pw_await_args *args) {
    const pw_launch_meeting meeting = meeting_of(x, count);
    pw_watchdog_expect_kernels(x->halo->ctx);
    return pw_launch_await(x->halo->ctx->gpu, x->step.stream, &meeting, args, x->step.site);
}

/* ---- start ---- */

static peerwin_status grant_and_await(exchange *x, int grants) {
    pw_batch batch;
    pw_batch_begin(&batch, &x->step);
    peerwin_status status = grants ? raise_all(x, &batch, PW_HALO_GRANT, PW_HALO_SENDS_TO_ME) : PEERWIN_OK;
    if (status == PEERWIN_OK)
        status = await_all(x, &batch, PW_HALO_GRANT, PW_HALO_GETS_FROM_ME);
    if (status == PEERWIN_OK)
        status = pw_batch_give(&batch);
    if (status == PEERWIN_OK && x->halo->table.num_targets > 0)
        status = pw_stream_acquire(x->halo->ctx, x->step.stream, x->step.site);
    return status;
}

/* Counted words of graphs are for kernels alone: the stream knows no numbers. If none follows, this one counts. */
static peerwin_status grant_and_await_by_kernel(exchange *x) {
    const pw_halo_table *table = &x->halo->table;
    const pw_await_args args = {.stores = table->grants[x->series],
                                .num_stores = table->num_sources,
                                .waits = table->permits[x->series],
                                .num_waits = table->num_targets,
                                .over = table->push[x->series].num_blocks == 0 ? table->finishes : NULL,
                                .num_over = 1,
                                .behind = 1};
    return x->halo->num_neighbors > 0 ? await_by_kernel(x, table->starts, &args) : PEERWIN_OK;
}

static peerwin_status start(exchange *x, int grants, int joined) {
    const pw_halo_work *work = &x->halo->table.push[x->series];
    if (work->waits && work->num_blocks > 0 && !x->flags)
        return push(x, grants, 1, joined);
    peerwin_status status = is_counted(x) ? grant_and_await_by_kernel(x) : grant_and_await(x, grants);
    return status == PEERWIN_OK ? push(x, 0, 0, 0) : status;
}

/* ---- finish ---- */

/*
 * A finish that follows its start at once in a graph joins it: one kernel then pushes and takes, and a launch less is
 * in the graph, unless other streams have begun from between them. The node of the start is changed, which is all that
 * a capture allows to be done to it.
 */
static void *last_node(const exchange *x) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t number = 0;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    CUresult code = x->halo->ctx->gpu->driver->cuStreamGetCaptureInfo(pw_cu_stream(x->step.stream), &state, &number,
                                                                      NULL, &nodes, &count);
    return code == CUDA_SUCCESS && nodes && count == 1 ? (void *)nodes[0] : NULL;
}

/* What is captured on another stream after the start must not wait for the finish. */
static int is_forked(const exchange *x, void *node) {
    size_t count = 0;
    CUresult code = x->halo->ctx->gpu->driver->cuGraphNodeGetDependentNodes(node, NULL, &count);
    return code != CUDA_SUCCESS || count > 0;
}

static void note_start(exchange *x) {
    x->halo->start_node = is_counted(x) && x->halo->table.joins[x->series] ? last_node(x) : NULL;
    x->halo->start_capture = x->step.capture;
}

static int join_start(exchange *x) {
    peerwin_halo *halo = x->halo;
    const pw_halo_table *table = &halo->table;
    void *node = halo->start_node;
    halo->start_node = NULL;
    if (!node || halo->start_capture != x->step.capture || last_node(x) != node || is_forked(x, node))
        return 0;
    const pw_launch_meeting meeting = meeting_of(x, table->starts);
    pw_push_args args = push_args(x, 1, 1);
    take_too(x, &args);
    args.over = NULL;
    args.apiece = 1;
    return pw_launch_push_instead(halo->ctx->gpu, node, &meeting, &args);
}

static peerwin_status await_arrivals(exchange *x) {
    pw_batch batch;
    pw_batch_begin(&batch, &x->step);
    peerwin_status status = await_all(x, &batch, PW_HALO_ARRIVAL, PW_HALO_SENDS_TO_ME);
    if (status == PEERWIN_OK)
        status = pw_batch_give(&batch);
    return status == PEERWIN_OK ? pw_stream_acquire(x->halo->ctx, x->step.stream, x->step.site) : status;
}

/*
 * Faces that travel as words bring no arrival; those who send them are known to be late by their grants, as in push. In
 * graphs this kernel counts, or, if one follows that unpacks, that one.
 */
static peerwin_status await_or_take(exchange *x) {
    const peerwin_halo *halo = x->halo;
    const pw_halo_table *table = &halo->table;
    const pw_halo_work *take = &table->take[x->series];
    const pw_await_args args = {.waits = table->arrivals[x->series],
                                .num_waits = halo->takes_words ? 0 : table->num_sources,
                                .parts = take->parts,
                                .moves = take->moves,
                                .num_blocks = take->num_blocks,
                                .over =
                                    !is_counted(x) || table->unpack[x->series].num_blocks > 0 ? NULL : table->starts,
                                .num_over = table->num_starts,
                                .apart = take->apart != 0};
    if (!is_counted(x))
        expect(x, PW_HALO_GRANT, PW_HALO_GETS_FROM_ME);
    return halo->num_neighbors > 0 ? await_by_kernel(x, table->finishes, &args) : PEERWIN_OK;
}

static peerwin_status await_faces(exchange *x) {
    const peerwin_halo *halo = x->halo;
    const pw_halo_table *table = &halo->table;
    const pw_await_args args = {.waits = table->arrivals[x->series], .num_waits = table->num_sources};
    if (is_counted(x) || (halo->takes_words && table->num_sources > 0))
        return await_or_take(x);
    if (table->num_sources == 0)
        return PEERWIN_OK;
    if (!halo->ctx->kernels_wait || table->num_sources <= PW_HALO_FEW_WORDS)
        return await_arrivals(x);
    expect(x, PW_HALO_ARRIVAL, PW_HALO_SENDS_TO_ME);
    return await_by_kernel(x, table->finishes, &args);
}

static peerwin_status finish(exchange *x) {
    const pw_halo_work *work = &x->halo->table.unpack[x->series];
    if (work->num_blocks == 0)
        return await_faces(x);
    if (work->waits && !x->flags)
        return unpack(x, 1);
    peerwin_status status = await_faces(x);
    return status == PEERWIN_OK ? unpack(x, 0) : status;
}

/* ---- the sequence ---- */

static int is_released(const peerwin_halo *halo) {
    return halo->granted != halo->epoch;
}

static peerwin_status start_now(exchange *x) {
    peerwin_halo *halo = x->halo;
    if (halo->state != PW_HALO_IDLE)
        return pw_halo_refuse(halo, "start", x->step.site);
    x->epoch = halo->epoch + 1;
    const int grants = !is_released(halo);
    const int joined = grants && halo->table.joins[x->series];
    peerwin_status status = start(x, grants, joined);
    if (status != PEERWIN_OK)
        return status;
    halo->joined = joined;
    halo->epoch = halo->granted = x->epoch;
    halo->state = PW_HALO_STARTED;
    return PEERWIN_OK;
}

static peerwin_status finish_now(exchange *x) {
    peerwin_halo *halo = x->halo;
    if (halo->state != PW_HALO_STARTED)
        return pw_halo_refuse(halo, "finish", x->step.site);
    x->epoch = halo->epoch;
    peerwin_status status = halo->joined ? PEERWIN_OK : finish(x);
    if (status == PEERWIN_OK)
        halo->state = PW_HALO_IDLE;
    return status;
}

static peerwin_status release_now(exchange *x) {
    peerwin_halo *halo = x->halo;
    pw_batch batch;
    if (halo->state != PW_HALO_IDLE)
        return pw_halo_refuse(halo, "release", x->step.site);
    if (is_released(halo))
        return PEERWIN_OK;
    x->epoch = halo->epoch + 1;
    pw_batch_begin(&batch, &x->step);
    peerwin_status status = raise_all(x, &batch, PW_HALO_GRANT, PW_HALO_SENDS_TO_ME);
    if (status == PEERWIN_OK)
        status = pw_batch_give(&batch);
    if (status == PEERWIN_OK)
        halo->granted = x->epoch;
    return status;
}

/* While the stream captures, start and finish belong to the graph. */
static peerwin_status start_in_graph(exchange *x) {
    peerwin_halo *halo = x->halo;
    if (halo->state != PW_HALO_IDLE)
        return pw_halo_refuse(halo, "start", x->step.site);
    if (is_released(halo))
        return pw_fail(PEERWIN_ERR_STATE, x->step.site,
                       "the ghosts of halo plan %u were released already, which only a start outside of graphs can use",
                       halo->plan.ordinal);
    peerwin_status status = start(x, 1, 0);
    if (status != PEERWIN_OK)
        return status;
    halo->state = PW_HALO_CAPTURED;
    note_start(x);
    return PEERWIN_OK;
}

static peerwin_status finish_in_graph(exchange *x) {
    if (x->halo->state != PW_HALO_CAPTURED)
        return pw_halo_refuse(x->halo, "finish", x->step.site);
    x->halo->state = PW_HALO_IDLE;
    return join_start(x) ? PEERWIN_OK : finish(x);
}

static peerwin_status run(exchange *x, pw_halo_call call) {
    switch (call) {
    case PW_HALO_CALL_START:
        return x->step.capture ? start_in_graph(x) : start_now(x);
    case PW_HALO_CALL_FINISH:
        return x->step.capture ? finish_in_graph(x) : finish_now(x);
    default:
        return x->step.capture
                   ? pw_fail(PEERWIN_ERR_UNSUPPORTED, x->step.site,
                             "the stream is capturing, and in graphs the next start releases the ghosts: leave this "
                             "call out")
                   : release_now(x);
    }
}

peerwin_status pw_halo_on_stream(peerwin_halo *halo, pw_halo_call call, peerwin_stream stream, const pw_site *site) {
    exchange x = {.halo = halo};
    peerwin_status status = pw_step_in(&x.step, halo->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    x.series = pw_series_of(&x.step);
    x.flags = x.step.capture != 0 && !halo->ctx->kernels_wait;
    x.epoch = 1; /* of flags */
    if (x.flags)
        pw_watchdog_expect_phases(halo->ctx);
    status = run(&x, call);
    x.step.given = 0;
    return pw_step_out(&x.step, status);
}
