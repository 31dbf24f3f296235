/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Halo plans on devices: how many launches an exchange takes, plans that fill the device, rows of every thickness,
 * graphs that run again and again with ranks apart in time, several plans and streams, and how waits end there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/calls.h"
#include "support/device.h"
#include "support/memory.h"

enum { FIELDS = 4, MOST_FACES = 64 };

/* ------------------------------------------------------------------------------------------ calls of the driver */

/* Of this thread since the last call; all 0 on a real driver. */
typedef struct {
    unsigned long kernels, graphs, batches, others;
} work;

static work count_work(void) {
    static unsigned long (*calls)(const char *);
    static void (*reset)(void);
    static void (*only)(int);
    work w = {0, 0, 0, 0};
    if (calls == NULL) {
        void *entries[] = {device_simulated("simcuda_calls"), device_simulated("simcuda_reset"),
                           device_simulated("simcuda_only_this_thread")};
        if (entries[0] == NULL) {
            return w;
        }
        memcpy(&calls, &entries[0], sizeof(calls));
        memcpy(&reset, &entries[1], sizeof(reset));
        memcpy(&only, &entries[2], sizeof(only));
    }
    w.kernels = calls("cuLaunchKernel");
    w.graphs = calls("cuGraphLaunch");
    w.batches = calls("cuStreamBatchMemOp");
    w.others = calls("cuStreamWriteValue64") + calls("cuStreamWaitValue64") + calls("cuMemcpyAsync") +
               calls("cuMemcpy3DAsync");
    reset();
    only(1);
    return w;
}

/* ------------------------------------------------------------------------------------------------ all to all */

/* Every rank sends every rank, itself too, a face of each field: thin, of rows, of planes or contiguous. */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win[FIELDS];
    peerwin_halo *halo;
    size_t unit; /* bytes of a window per pair of ranks and direction */
    size_t odd;  /* 1: faces begin and lie at odd places, 2, 4 or 8: at places that words can be taken from */
} mesh;

/* Faces of all shapes have unit / 4 bytes. */
static peerwin_box mesh_box(const mesh *m, int field, int peer, int incoming) {
    static const size_t rows[] = {4, 72, 0, 0};
    static const size_t shifts[] = {1, 0, 0, 5};
    const size_t bytes = m->unit / 4;
    const size_t row = rows[field % 4] != 0 ? rows[field % 4] : bytes;
    peerwin_box box = {.offset = (size_t)(2 * peer + incoming) * m->unit + shifts[field % 4] * m->odd,
                       .count = {row, bytes / row, 1},
                       .stride = {4 * row, 0}};
    if (field % 4 == 1) {
        box.count[1] /= 2;
        box.count[2] = 2;
        box.stride[0] -= 9 * m->odd;
        box.stride[1] = box.count[1] * box.stride[0] + m->odd;
    }
    return box;
}

static mesh make_mesh(size_t unit, size_t odd) {
    mesh m = {.ctx = test_context(MPI_COMM_WORLD, 0), .unit = unit, .odd = odd};
    peerwin_face send[MOST_FACES];
    peerwin_face recv[MOST_FACES];
    int count = 0;
    for (int f = 0; f < FIELDS; f++) {
        m.win[f] = test_window(m.ctx, 2 * (size_t)job.size * unit);
        for (int peer = 0; peer < job.size; peer++, count++) {
            CHECK(count < MOST_FACES);
            send[count] = (peerwin_face){peer, f, m.win[f], mesh_box(&m, f, peer, 0)};
            recv[count] = (peerwin_face){peer, f, m.win[f], mesh_box(&m, f, peer, 1)};
        }
    }
    CHECK_OK(peerwin_halo_create(m.ctx, count, send, count, recv, 0, &m.halo));
    return m;
}

static void free_mesh(mesh *m) {
    CHECK_OK(peerwin_halo_free(m->halo));
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(peerwin_win_free(m->win[f]));
    }
    CHECK_OK(peerwin_finalize(m->ctx));
}

static void write_mesh(const mesh *m, unsigned step) {
    const size_t bytes = 2 * (size_t)job.size * m->unit;
    unsigned char *all = host_new(bytes);
    for (int f = 0; f < FIELDS; f++) {
        pattern_write(all, job.rank, step + 100 * (unsigned)f, bytes);
        segment_store(m->win[f], 0, all, bytes);
    }
    free(all);
}

/* What was written stays, but for what came. */
static void check_mesh(const mesh *m, unsigned step) {
    const size_t bytes = 2 * (size_t)job.size * m->unit;
    unsigned char *got = host_new(bytes);
    unsigned char *want = host_new(bytes);
    for (int f = 0; f < FIELDS; f++) {
        segment_load(m->win[f], 0, got, bytes);
        pattern_write(want, job.rank, step + 100 * (unsigned)f, bytes);
        for (int peer = 0; peer < job.size; peer++) {
            const peerwin_box from = mesh_box(m, f, job.rank, 0);
            const peerwin_box to = mesh_box(m, f, peer, 1);
            for (size_t row = 0; row < to.count[1] * to.count[2]; row++) {
                const size_t at = row % to.count[1] * to.stride[0] + row / to.count[1] * to.stride[1];
                for (size_t i = 0; i < to.count[0]; i++) {
                    want[to.offset + at + i] = pattern_byte(peer, step + 100 * (unsigned)f, from.offset + at + i);
                }
            }
        }
        check_bytes("a field", got, want, bytes);
    }
    free(got);
    free(want);
}

/* What the environment says of thin faces. */
static int packing_is(const char *value) {
    const char *text = getenv("PEERWIN_HALO_PACK");
    return strcmp(text != NULL && text[0] != '\0' ? text : "auto", value) == 0;
}

static void all_faces_and_fields_are_one_launch(void) {
    mesh m = make_mesh(576, 1);
    const int simulated = device_simulated("simcuda_calls") != NULL;
    for (unsigned step = 1; step <= 3; step++) {
        write_mesh(&m, step);
        (void)count_work();
        CHECK_OK(peerwin_halo_start(m.halo, job.stream));
        const work start = count_work();
        CHECK_OK(peerwin_halo_finish(m.halo, job.stream));
        const work finish = count_work();
        CHECK(start.kernels == (simulated ? 1 : 0) && start.batches <= 1 && start.others == 0);
        CHECK(finish.kernels <= 1 && finish.batches <= 1 && finish.others == 0);
        CHECK(finish.kernels + finish.batches <= 1 || packing_is("always"));
        check_done(m.ctx);
        check_mesh(&m, step);
    }
    free_mesh(&m);
}

/* ------------------------------------------------------------------------------------------------- graphs */

static CUgraphExec end_capture(CUstream stream) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    DEVICE_OK(device.cuStreamEndCapture(stream, &graph));
    DEVICE_OK(device.cuGraphInstantiateWithFlags(&exec, graph, 0));
    DEVICE_OK(device.cuGraphDestroy(graph));
    return exec;
}

static CUgraphExec capture_exchange(const mesh *m, CUstream stream) {
    DEVICE_OK(device.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(peerwin_halo_start(m->halo, stream));
    CHECK_OK(peerwin_halo_finish(m->halo, stream));
    return end_capture(stream);
}

/* More bytes than blocks that wait for grants may have: the stream waits, or a kernel before the one that moves. */
static void plans_that_fill_the_device_are_exact_on_streams_and_in_graphs(void) {
    CUstream stream = device_stream_new();
    mesh m = make_mesh((size_t)1152 << (job.size < 3 ? 9 : 8), 1);
    CUgraphExec exec = capture_exchange(&m, stream);
    for (unsigned step = 1; step <= 2; step++) {
        write_mesh(&m, step);
        (void)count_work();
        CHECK_OK(peerwin_halo_start(m.halo, job.stream));
        const work start = count_work();
        CHECK(start.kernels == start.batches || job.size == 1);
        CHECK_OK(peerwin_halo_finish(m.halo, job.stream));
        check_done(m.ctx);
        check_mesh(&m, step);
        write_mesh(&m, step + 10);
        DEVICE_OK(device.cuGraphLaunch(exec, stream));
        CHECK_OK(peerwin_stream_sync(m.ctx, stream));
        check_mesh(&m, step + 10);
    }
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    free_mesh(&m);
    device_stream_free(stream);
}

/* Where kernels may wait, small faces travel as words that carry the number of the exchange. */
static void small_faces_are_exact_in_graphs(void) {
    CUstream stream = device_stream_new();
    for (size_t odd = 1; odd <= 8; odd *= 2) {
        mesh m = make_mesh(1152, odd);
        (void)count_work();
        CUgraphExec exec = capture_exchange(&m, stream);
        /* Start and finish are one then, or the stream waits, and finish may unpack. */
        CHECK(odd < 2 || job.size > 8 || count_work().kernels <= 1 + (unsigned long)packing_is("always"));
        for (unsigned step = 1; step <= 4; step++) {
            write_mesh(&m, step);
            DEVICE_OK(device.cuGraphLaunch(exec, stream));
            CHECK_OK(peerwin_stream_sync(m.ctx, stream));
            check_mesh(&m, step);
        }
        DEVICE_OK(device.cuGraphExecDestroy(exec));
        free_mesh(&m);
    }
    device_stream_free(stream);
}

/*
 * The same on streams, by turns with a graph of the same plan, by ranks that come when they like and release now and
 * then. The kernel of start takes what comes, if this rank has not released; else finish is a kernel, that start may
 * wait for nobody.
 */
static void small_faces_are_exact_on_streams(void) {
    enum { EXCHANGES = TEST_SANITIZED ? 16 : 60 };
    CUstream stream = device_stream_new();
    mesh m = make_mesh(1152, 4);
    uint64_t state = 7 + 2 * (uint64_t)job.rank;
    (void)count_work();
    CUgraphExec exec = capture_exchange(&m, stream);
    const work captured = count_work();
    const int joins = captured.kernels == 1 && captured.batches == 0;
    for (unsigned step = 1; step <= EXCHANGES; step++) {
        const int releases = test_random_in(&state, 0, 2) == 0;
        test_sleep_ms(test_random_in(&state, 0, 9) == 0 ? 3 : 0);
        write_mesh(&m, step);
        if (step % 3 == 0) {
            DEVICE_OK(device.cuGraphLaunch(exec, stream));
            CHECK_OK(peerwin_stream_sync(m.ctx, stream));
            check_mesh(&m, step);
            continue;
        }
        if (releases) {
            CHECK_OK(peerwin_halo_release(m.halo, job.stream));
        }
        (void)count_work();
        CHECK_OK(peerwin_halo_start(m.halo, job.stream));
        const work start = count_work();
        CHECK_OK(peerwin_halo_finish(m.halo, job.stream));
        const work finish = count_work();
        CHECK(!joins || (start.graphs == 1 && start.kernels + start.batches == 0));
        CHECK(!joins || (finish.kernels == (releases && job.size > 1) && finish.graphs + finish.batches == 0));
        check_done(m.ctx);
        check_mesh(&m, step);
    }
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    free_mesh(&m);
    device_stream_free(stream);
}

/* Words of small faces take room from signals. They may not take it from other plans and windows. */
static void many_small_plans_leave_room_for_signals(void) {
    enum { PLANS = 60, FACE = 16 << 10, SIGNALS = 65536 };
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 2 * (size_t)PLANS * FACE);
    peerwin_win *other = NULL;
    peerwin_halo *halos[PLANS];
    CUstream stream = device_stream_new();
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    unsigned char *sent = host_new(FACE);
    unsigned char *came = host_new(FACE);
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.num_signals = SIGNALS;
    for (size_t i = 0; i < PLANS; i++) {
        const peerwin_face send = {right, 0, win, {2 * i * FACE, {FACE, 1, 1}, {0, 0}}};
        const peerwin_face recv = {left, 0, win, {(2 * i + 1) * FACE, {FACE, 1, 1}, {0, 0}}};
        CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halos[i]));
    }
    CHECK_OK(peerwin_win_alloc(ctx, 64, &config, &other));
    for (size_t i = 0; i < PLANS; i += PLANS - 1) {
        pattern_write(sent, job.rank, (unsigned)i, FACE);
        segment_store(win, 2 * i * FACE, sent, FACE);
        DEVICE_OK(device.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK_OK(peerwin_halo_start(halos[i], stream));
        CHECK_OK(peerwin_halo_finish(halos[i], stream));
        CUgraphExec graph = end_capture(stream);
        DEVICE_OK(device.cuGraphLaunch(graph, stream));
        CHECK_OK(peerwin_stream_sync(ctx, stream));
        DEVICE_OK(device.cuGraphExecDestroy(graph));
        segment_load(win, (2 * i + 1) * FACE, came, FACE);
        pattern_write(sent, left, (unsigned)i, FACE);
        check_bytes("a face", came, sent, FACE);
    }
    for (size_t i = 0; i < PLANS; i++) {
        CHECK_OK(peerwin_halo_free(halos[i]));
    }
    CHECK_OK(peerwin_win_free(other));
    free(sent);
    free(came);
    test_free(ctx, win);
    device_stream_free(stream);
}

/*
 * Work on another stream that begins between start and finish: finish is then a launch of its own. Graphs in which it
 * is and such in which it is not are run by turns: they count the same exchanges.
 */
static void what_is_forked_between_start_and_finish_does_not_wait_for_finish(void) {
    CUstream stream = device_stream_new();
    CUstream side = device_stream_new();
    CUevent fork = NULL;
    CUevent join = NULL;
    mesh m = make_mesh(576, 4);
    peerwin_win *other = test_window(m.ctx, 64);
    DEVICE_OK(device.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    DEVICE_OK(device.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    DEVICE_OK(device.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(peerwin_halo_start(m.halo, stream));
    DEVICE_OK(device.cuEventRecord(fork, stream));
    DEVICE_OK(device.cuStreamWaitEvent(side, fork, 0));
    CHECK_OK(peerwin_put(other, job.rank, 0, (char *)peerwin_win_ptr(other, job.rank) + 32, 32, side));
    (void)count_work();
    CHECK_OK(peerwin_halo_finish(m.halo, stream));
    const work finish = count_work();
    CHECK(finish.kernels + finish.batches == 1 || (finish.kernels == 1 && packing_is("always")) || device_is_real() ||
          job.size == 1);
    DEVICE_OK(device.cuEventRecord(join, side));
    DEVICE_OK(device.cuStreamWaitEvent(stream, join, 0));
    CUgraphExec exec = end_capture(stream);
    CUgraphExec plain = capture_exchange(&m, stream);
    for (unsigned step = 1; step <= 8; step++) {
        write_mesh(&m, step);
        DEVICE_OK(device.cuGraphLaunch(step % 4 < 2 ? exec : plain, stream));
        CHECK_OK(peerwin_stream_sync(m.ctx, stream));
        check_mesh(&m, step);
    }
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    DEVICE_OK(device.cuGraphExecDestroy(plain));
    DEVICE_OK(device.cuEventDestroy(fork));
    DEVICE_OK(device.cuEventDestroy(join));
    CHECK_OK(peerwin_win_free(other));
    free_mesh(&m);
    device_stream_free(stream);
    device_stream_free(side);
}

/* A value that goes around a ring: what came is sent next, and every step is noted. */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo[2]; /* one round to the right, one to the left */
} ring;

enum { SLOT = 0, GHOST = 16, NOTES = 64, STEPS = 6, RUNS = TEST_SANITIZED ? 4 : 12 };

static ring make_ring(void) {
    ring r = {.ctx = test_context(MPI_COMM_WORLD, 0)};
    const uint64_t values[2] = {1000 + (uint64_t)job.rank, 2000 + (uint64_t)job.rank};
    r.win = test_window(r.ctx, NOTES + 2 * STEPS * sizeof(uint64_t));
    segment_store(r.win, SLOT, values, sizeof(values));
    for (size_t way = 0; way < 2; way++) {
        const int to = (job.rank + (way == 0 ? 1 : job.size - 1)) % job.size;
        const int from = (job.rank + (way == 0 ? job.size - 1 : 1)) % job.size;
        const peerwin_face send = {to, 1, r.win, {.offset = SLOT + 8 * way, .count = {8, 1, 1}}};
        const peerwin_face recv = {from, 1, r.win, {.offset = GHOST + 8 * way, .count = {8, 1, 1}}};
        CHECK_OK(peerwin_halo_create(r.ctx, 1, &send, 1, &recv, 0, &r.halo[way]));
    }
    return r;
}

static void free_ring(ring *r) {
    CHECK_OK(peerwin_halo_free(r->halo[0]));
    CHECK_OK(peerwin_halo_free(r->halo[1]));
    test_free(r->ctx, r->win);
}

/* After the finish of a plan's step: notes the ghost, and sends it on with the next. */
static void note(const ring *r, size_t way, size_t step, CUstream stream) {
    char *base = peerwin_win_ptr(r->win, job.rank);
    const char *ghost = base + GHOST + 8 * way;
    CHECK_OK(peerwin_put(r->win, job.rank, NOTES + 8 * (way * STEPS + step), ghost, 8, stream));
    CHECK_OK(peerwin_put(r->win, job.rank, SLOT + 8 * way, ghost, 8, stream));
}

static void check_notes(const ring *r, size_t way, size_t done) {
    uint64_t got[STEPS];
    const size_t size = (size_t)job.size;
    segment_load(r->win, NOTES + 8 * way * STEPS, got, sizeof(got));
    for (size_t step = 0; step < STEPS; step++) {
        const size_t hops = (done + step + 1) % size;
        const size_t from = ((size_t)job.rank + (way == 0 ? size - hops : hops)) % size;
        CHECK_EQUAL(got[step], 1000 * (way + 1) + from);
    }
}

/* Both plans in one graph on one stream; ranks launch it when they like. */
static void graphs_run_again_and_again_with_ranks_apart(void) {
    ring r = make_ring();
    CUstream stream = device_stream_new();
    uint64_t state = 5 + 2 * (uint64_t)job.rank;
    DEVICE_OK(device.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (size_t step = 0; step < STEPS; step++) {
        CHECK_OK(peerwin_halo_start(r.halo[0], stream));
        CHECK_OK(peerwin_halo_start(r.halo[1], stream));
        CHECK_OK(peerwin_halo_finish(r.halo[0], stream));
        note(&r, 0, step, stream);
        CHECK_OK(peerwin_halo_finish(r.halo[1], stream));
        note(&r, 1, step, stream);
    }
    CUgraphExec exec = end_capture(stream);
    for (size_t run = 0; run < RUNS; run++) {
        if (run % 4 == (size_t)job.rank % 4) {
            test_sleep_ms((int)test_random_in(&state, 0, 12));
        }
        DEVICE_OK(device.cuGraphLaunch(exec, stream));
        if (run % 3 == 2) { /* else several are under way */
            CHECK_OK(peerwin_stream_sync(r.ctx, stream));
            check_notes(&r, 0, run * STEPS);
            check_notes(&r, 1, run * STEPS);
        }
    }
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    free_ring(&r);
    device_stream_free(stream);
}

/* Ranks that only send get as far ahead as the grants let them, and no further. */
static void a_sender_in_graphs_does_not_get_too_far_ahead(void) {
    enum { VALUES = 64, SEEN = VALUES + 8 * STEPS };
    const int to = job.rank + 1 < job.size ? job.rank + 1 : MPI_PROC_NULL;
    const int from = job.rank > 0 ? job.rank - 1 : MPI_PROC_NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, SEEN + 8 * STEPS);
    const peerwin_face send = {to, 1, win, {.offset = SLOT, .count = {8, 1, 1}}};
    const peerwin_face recv = {from, 1, win, {.offset = GHOST, .count = {8, 1, 1}}};
    char *base = peerwin_win_ptr(win, job.rank);
    CUstream stream = device_stream_new();
    peerwin_halo *halo = NULL;
    uint64_t values[STEPS];
    uint64_t seen[STEPS];
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    DEVICE_OK(device.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (size_t step = 0; step < STEPS; step++) {
        values[step] = 100 * (uint64_t)job.rank + step;
        CHECK_OK(peerwin_put(win, job.rank, SLOT, base + VALUES + 8 * step, 8, stream));
        CHECK_OK(peerwin_halo_start(halo, stream));
        CHECK_OK(peerwin_halo_finish(halo, stream));
        CHECK_OK(peerwin_put(win, job.rank, SEEN + 8 * step, base + GHOST, 8, stream));
    }
    CUgraphExec exec = end_capture(stream);
    segment_store(win, VALUES, values, sizeof(values));
    for (int run = 0; run < RUNS; run++) {
        DEVICE_OK(device.cuGraphLaunch(exec, stream));
        if (from != MPI_PROC_NULL) {
            CHECK_OK(peerwin_stream_sync(ctx, stream));
            segment_load(win, SEEN, seen, sizeof(seen));
            for (size_t step = 0; step < STEPS; step++) {
                CHECK_EQUAL(seen[step], 100 * (job.rank - 1) + (int)step);
            }
            test_sleep_ms(run % 4 == 0 ? 8 : 0);
        }
    }
    CHECK_OK(peerwin_stream_sync(ctx, stream));
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
    device_stream_free(stream);
}

/* Each plan on a stream of its own, and neither waits for the other; then a step of each plan in the other's stream. */
static void plans_on_two_streams_run_beside_each_other(void) {
    ring r = make_ring();
    CUstream stream[2] = {device_stream_new(), device_stream_new()};
    uint64_t state = 9 + 2 * (uint64_t)job.rank;
    for (size_t run = 0; run < 4; run++) {
        for (size_t step = 0; step < STEPS; step++) {
            for (size_t way = 0; way < 2; way++) {
                CHECK_OK(peerwin_halo_start(r.halo[way], stream[(way + run) % 2]));
                CHECK_OK(peerwin_halo_finish(r.halo[way], stream[(way + run) % 2]));
                note(&r, way, step, stream[(way + run) % 2]);
            }
            test_sleep_ms((int)test_random_in(&state, 0, 2));
        }
        for (size_t way = 0; way < 2; way++) {
            CHECK_OK(peerwin_stream_sync(r.ctx, stream[way]));
        }
        check_notes(&r, 0, run * STEPS);
        check_notes(&r, 1, run * STEPS);
    }
    free_ring(&r);
    device_stream_free(stream[0]);
    device_stream_free(stream[1]);
}

/* -------------------------------------------------------------------------------------------------- thin rows */

/* On the stream, or by a graph. */
static void exchange_once(peerwin_ctx *ctx, peerwin_halo *halo, CUstream graphs) {
    if (graphs == NULL) {
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        return;
    }
    const mesh m = {.halo = halo};
    CUgraphExec exec = capture_exchange(&m, graphs);
    DEVICE_OK(device.cuGraphLaunch(exec, graphs));
    CHECK_OK(peerwin_stream_sync(ctx, graphs));
    DEVICE_OK(device.cuGraphExecDestroy(exec));
}

/*
 * Cells of `elem` bytes in a plane of cells, from `at` on: columns of the left neighbour become the first ones, `shift`
 * bytes further on.
 */
static void exchange_column(peerwin_ctx *ctx, peerwin_win *win, size_t elem, size_t at, size_t shift, size_t depth,
                            CUstream graphs) {
    enum { ROWS = 37, COLUMNS = 11 };
    const int to = (job.rank + 1) % job.size;
    const int from = (job.rank + job.size - 1) % job.size;
    const peerwin_box column = {.count = {depth * elem, ROWS, 1}, .stride = {COLUMNS * elem, 0}};
    peerwin_face send = {to, 3, win, column};
    peerwin_face recv = {from, 3, win, column};
    const size_t bytes = at + shift + ROWS * COLUMNS * elem;
    unsigned char *want = host_new(bytes);
    unsigned char *got = host_new(bytes);
    peerwin_halo *halo = NULL;
    send.box.offset = at + (COLUMNS - 2 * depth) * elem;
    recv.box.offset = at + shift;
    pattern_write(want, job.rank, (unsigned)elem, bytes);
    segment_store(win, 0, want, bytes);
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    exchange_once(ctx, halo, graphs);
    segment_load(win, 0, got, bytes);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t i = 0; i < depth * elem; i++) {
            const size_t place = row * COLUMNS * elem + i;
            want[recv.box.offset + place] = pattern_byte(from, (unsigned)elem, send.box.offset + place);
        }
    }
    check_bytes("a plane", got, want, bytes);
    CHECK_OK(peerwin_halo_free(halo));
    free(want);
    free(got);
}

static void exchange_columns(CUstream graphs) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 24 + 37 * 11 * 16);
    for (size_t elem = 1; elem <= 16; elem++) {
        exchange_column(ctx, win, elem, elem % 4 == 0 ? elem : 3, 0, 1, graphs);
        exchange_column(ctx, win, elem, elem % 2, 0, 3, graphs);
        if (elem % 2 == 0) { /* by 2 bytes at most, at either end or at one, or, out of step, by 1 */
            exchange_column(ctx, win, elem, 2, 0, 1, graphs);
            exchange_column(ctx, win, elem, elem, 2, 1, graphs);
            exchange_column(ctx, win, elem, 2, 1, 1, graphs);
        }
    }
    test_free(ctx, win);
}

static void thin_faces_of_cells_of_every_size_are_exact(void) {
    exchange_columns(NULL);
}

static void thin_faces_of_cells_of_every_size_are_exact_in_graphs(void) {
    CUstream stream = device_stream_new();
    exchange_columns(stream);
    device_stream_free(stream);
}

enum { ROW = 16 * sizeof(double) };

/* A column of doubles to one rank and back: 1 if finish was a launch, which it is if it unpacks. */
static int exchange_rows(peerwin_ctx *ctx, peerwin_win *win, int peer, size_t rows) {
    const peerwin_box column = {.offset = 0, .count = {sizeof(double), rows, 1}, .stride = {ROW, 0}};
    const peerwin_face send = {peer, 4, win, column};
    peerwin_face recv = send;
    unsigned char *want = host_new(rows * ROW);
    unsigned char *got = host_new(rows * ROW);
    peerwin_halo *halo = NULL;
    recv.box.offset = sizeof(double);
    pattern_write(want, job.rank, (unsigned)rows, rows * ROW);
    segment_store(win, 0, want, rows * ROW);
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    (void)count_work();
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    const int launched = count_work().kernels == 1;
    segment_load(win, 0, got, rows * ROW);
    for (size_t i = 0; i < rows * sizeof(double); i++) {
        const size_t place = i / sizeof(double) * ROW + i % sizeof(double);
        want[sizeof(double) + place] = pattern_byte(peer, (unsigned)rows, place);
    }
    check_bytes("rows", got, want, rows * ROW);
    CHECK_OK(peerwin_halo_free(halo));
    free(want);
    free(got);
    return launched;
}

/* Only where they come from another device, and only many of them, unless the environment says otherwise. */
static void thin_faces_are_packed_where_they_come_over_a_link(void) {
    enum { MANY = 49152, FEW = 4096 }; /* more than come as words */
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, (size_t)MANY * ROW);
    const char *topology = getenv("SIMCUDA_TOPOLOGY");
    int links = 0;
    for (int apart = 1; apart < job.size; apart *= 2) {
        const int other = (job.rank ^ apart) < job.size ? job.rank ^ apart : job.rank; /* or myself */
        const int always = packing_is("always") && other != job.rank;
        peerwin_peer peer = {.size = sizeof(peer)};
        CHECK_OK(peerwin_peer_query(ctx, other, &peer));
        const int is_link = peer.link != PEERWIN_LINK_SAME_DEVICE;
        const int few = exchange_rows(ctx, win, other, FEW);
        const int many = exchange_rows(ctx, win, other, MANY);
        CHECK(few == always || device_is_real());
        CHECK(many == (always || (packing_is("auto") && is_link)) || device_is_real());
        links += is_link;
    }
    if (topology != NULL && strcmp(topology, "nvswitch:2") == 0) {
        CHECK(job.size < 4 || links == 1); /* the other is on my device */
    }
    test_free(ctx, win);
}

/* Staging areas of every size, and none, with the plans that have them. What is left at the end would be noticed. */
static void plans_of_thin_faces_come_and_go(void) {
    enum { MOST = 600 };
    const int rounds = device_is_real() ? 300 : 12;
    const int other = (job.rank ^ 1) < job.size ? job.rank ^ 1 : job.rank;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, (size_t)MOST * ROW);
    uint64_t state = 3;
    for (int i = 0; i < rounds; i++) {
        const size_t rows = test_random_in(&state, 0, 3) * test_random_in(&state, 1, MOST / 3);
        (void)exchange_rows(ctx, win, other, rows);
    }
    test_free(ctx, win);
}

/* Who receives decides, and whoever sends follows. */
static void ranks_may_differ_in_what_they_pack(void) {
    const char *before = getenv("PEERWIN_HALO_PACK");
    char kept[16] = "";
    (void)snprintf(kept, sizeof(kept), "%s", before != NULL ? before : "");
    CHECK(setenv("PEERWIN_HALO_PACK", job.rank % 2 == 0 ? "always" : "never", 1) == 0);
    mesh m = make_mesh(1152, 1);
    CHECK(setenv("PEERWIN_HALO_PACK", kept, 1) == 0);
    for (unsigned step = 1; step <= 3; step++) {
        write_mesh(&m, step);
        CHECK_OK(peerwin_halo_start(m.halo, job.stream));
        CHECK_OK(peerwin_halo_finish(m.halo, job.stream));
        check_done(m.ctx);
        check_mesh(&m, step);
    }
    free_mesh(&m);
}

/* ------------------------------------------------------------------------------------------- how waits may end */

/* In a finish of as many words as there are other ranks, and in the graph's. */
static void an_abort_ends_finish_on_streams_and_in_graphs(void) {
    for (int captured = 0; captured < 2; captured++) {
        CUstream stream = device_stream_new();
        mesh m = make_mesh(576, 1);
        CUgraphExec exec = captured ? capture_exchange(&m, stream) : NULL;
        MPI_Barrier(MPI_COMM_WORLD);
        if (job.rank == job.size - 1) {
            test_sleep_ms(30);
            CHECK_OK(peerwin_abort(m.ctx));
        } else if (captured) {
            DEVICE_OK(device.cuGraphLaunch(exec, stream));
            CHECK_STATUS(peerwin_stream_sync(m.ctx, stream), PEERWIN_ERR_ABORTED, "rank");
        } else {
            CHECK_OK(peerwin_halo_start(m.halo, stream));
            CHECK_OK(peerwin_halo_finish(m.halo, stream));
            CHECK_STATUS(peerwin_stream_sync(m.ctx, stream), PEERWIN_ERR_ABORTED, "rank");
        }
        device_stream_sync(stream);
        if (captured) {
            DEVICE_OK(device.cuGraphExecDestroy(exec));
        }
        free_mesh(&m);
        device_stream_free(stream);
    }
}

static const test_case cases[] = {
    TEST_CASE(all_faces_and_fields_are_one_launch, 1, 16),
    TEST_CASE(plans_that_fill_the_device_are_exact_on_streams_and_in_graphs, 1, 4),
    TEST_CASE(small_faces_are_exact_in_graphs, 1, 16),
    TEST_CASE(small_faces_are_exact_on_streams, 1, 16),
    TEST_CASE(many_small_plans_leave_room_for_signals, 2, 3),
    TEST_CASE(what_is_forked_between_start_and_finish_does_not_wait_for_finish, 1, 16),
    TEST_CASE(graphs_run_again_and_again_with_ranks_apart, 1, 0),
    TEST_CASE(a_sender_in_graphs_does_not_get_too_far_ahead, 1, 0),
    TEST_CASE(plans_on_two_streams_run_beside_each_other, 1, 0),
    TEST_CASE(thin_faces_of_cells_of_every_size_are_exact, 1, 0),
    TEST_CASE(thin_faces_of_cells_of_every_size_are_exact_in_graphs, 1, 0),
    TEST_CASE(thin_faces_are_packed_where_they_come_over_a_link, 2, 4),
    TEST_CASE(plans_of_thin_faces_come_and_go, 2, 4),
    TEST_CASE(ranks_may_differ_in_what_they_pack, 2, 16),
    TEST_CASE(an_abort_ends_finish_on_streams_and_in_graphs, 2, 16),
};
TEST_MAIN(cases)
