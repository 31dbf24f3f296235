/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers and all-reduces on streams and in graphs, by memory operations and by kernels, between ranks that are made
 * by hand in one process (sides.h). Barriers of kind EVENT need processes: those are in the MPI jobs.
 */
#include "sides.h"

#include "base/clock.h"
#include "peerwin/device/rounds.h"
#include "transfer/combine.h"
#include "transfer/stream_meet.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, VALUES = 64, BUFFERS = 48 };

static side sides[MOST_SIDES];
static CUdeviceptr buffers[RANKS][BUFFERS];

typedef struct {
    const char *name;
    peerwin_barrier_kind kind;
    int kernels_wait;
} way;
static const way ways[] = {
    {"words", PEERWIN_BARRIER_MEMOP, 0},
    {"kernels", PEERWIN_BARRIER_KERNEL, 1},
    {"both", PEERWIN_BARRIER_MEMOP, 1},
};
enum { WAYS = sizeof ways / sizeof *ways };

static unsigned seed = 1;

static unsigned any_number(unsigned below) {
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static void *any(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

static int is_idle(CUstream stream) {
    CUresult code = cu.cuStreamQuery(stream);
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY);
    return code == CUDA_SUCCESS;
}

static void settle(void) {
    usleep(20000);
}

/* ---- begin and end ---- */

static void begin(int count, int mine, const way *w, int watchdog) {
    sides_make(library, sides, count, mine, watchdog);
    for (int rank = 0; rank < mine; rank++) {
        sides[rank].ctx->barrier_kind = w->kind;
        sides[rank].ctx->kernels_wait = w->kernels_wait;
    }
    for (int rank = 0; rank < mine && rank < RANKS; rank++)
        for (int i = 0; i < BUFFERS; i++)
            CU(cu.cuMemAlloc(&buffers[rank][i], VALUES * 8));
}

static void end(int count, int mine) {
    for (int rank = 0; rank < mine && rank < RANKS; rank++)
        for (int i = 0; i < BUFFERS; i++)
            CU(cu.cuMemFree(buffers[rank][i]));
    sides_end(sides, count, mine);
}

static void all_done(void) {
    for (int rank = 0; rank < RANKS; rank++)
        OK(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream));
}

static int64_t number_in(int rank, int buffer) {
    return (int64_t)peek_word(buffers[rank][buffer]);
}

static peerwin_status sum(int rank, int buffer, CUstream stream) {
    return peerwin_allreduce(sides[rank].ctx, any(buffers[rank][buffer]), 1, PEERWIN_INT64, PEERWIN_SUM, stream);
}

/* ---- order ---- */

static void barriers_wait(const way *w) {
    begin(RANKS, RANKS, w, 0);
    for (int round = 0; round < 30; round++) {
        int last = (int)any_number(RANKS);
        for (int rank = 0; rank < RANKS; rank++)
            if (rank != last)
                OK(peerwin_barrier(sides[rank].ctx, sides[rank].stream));
        if (round % 10 == 0)
            settle();
        CHECK(!is_idle(sides[(last + 1) % RANKS].stream) && !is_idle(sides[(last + 2) % RANKS].stream));
        OK(peerwin_barrier(sides[last].ctx, sides[last].stream));
        if (round % 4 == 0)
            all_done();
        for (int rank = 0; rank < RANKS; rank++)
            CU(cu.cuStreamSynchronize(sides[rank].stream));
    }
    end(RANKS, RANKS);
}

static void a_barrier_of_any_way_waits_for_everyone(void) {
    for (int i = 0; i < WAYS; i++)
        barriers_wait(&ways[i]);
}

/* Random values, and what their combination is. */
static void draw(unsigned char values[RANKS][VALUES * 8], unsigned char want[VALUES * 8], int count, peerwin_type type,
                 peerwin_op op) {
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < count; i++) {
            double number = (double)any_number(1000000) / 7 - 50000;
            float small = (float)number;
            int64_t whole = (int64_t)(number * 1e12);
            if (type == PEERWIN_DOUBLE)
                memcpy(values[rank] + 8 * i, &number, 8);
            else if (type == PEERWIN_FLOAT)
                memcpy(values[rank] + 4 * i, &small, 4);
            else
                memcpy(values[rank] + 8 * i, &whole, 8);
        }
        if (rank == 0)
            memcpy(want, values[0], VALUES * 8);
        else
            pw_combine(want, values[rank], count, type, op);
    }
}

static void reductions_are_right(const way *w) {
    static unsigned char values[RANKS][VALUES * 8], want[VALUES * 8], got[VALUES * 8];
    begin(RANKS, RANKS, w, 0);
    for (int round = 0; round < 45; round++) {
        peerwin_type type = (peerwin_type)(round % 3);
        peerwin_op op = (peerwin_op)(round / 3 % 3);
        int count = round % 4 == 0 ? VALUES : 1 + (int)any_number(VALUES);
        size_t bytes = (size_t)count * pw_type_bytes(type);
        draw(values, want, count, type, op);
        for (int rank = 0; rank < RANKS; rank++)
            poke(buffers[rank][0], values[rank], bytes);
        for (int rank = RANKS - 1; rank >= 0; rank--)
            OK(peerwin_allreduce(sides[rank].ctx, any(buffers[rank][0]), count, type, op, sides[rank].stream));
        all_done();
        for (int rank = 0; rank < RANKS; rank++) {
            peek(buffers[rank][0], got, bytes);
            CHECK(memcmp(got, want, bytes) == 0);
        }
    }
    end(RANKS, RANKS);
}

static void a_reduction_of_any_way_is_in_rank_order(void) {
    for (int i = 0; i < WAYS; i++)
        reductions_are_right(&ways[i]);
}

/*
 * Each rank gives the same operations to streams of its own choice. If two streams were not ordered, values of
 * different rounds would meet, or a barrier let somebody pass.
 */
static void streams_are_one_sequence(const way *w) {
    enum { STREAMS = 3 };
    CUstream streams[RANKS][STREAMS];
    begin(RANKS, RANKS, w, 0);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < STREAMS; i++)
            CU(cu.cuStreamCreate(&streams[rank][i], CU_STREAM_NON_BLOCKING));
    for (int turn = 0; turn < 4; turn++) {
        unsigned shape = any_number(1u << 20);
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < BUFFERS; i++)
                poke_word(buffers[rank][i], (uint64_t)turn * 1000000 + (uint64_t)i * 1000 + (uint64_t)rank);
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < BUFFERS; i++) {
                CUstream stream = streams[rank][any_number(STREAMS)];
                if (shape >> i % 20 & 1)
                    OK(peerwin_barrier(sides[rank].ctx, stream));
                else
                    OK(sum(rank, i, stream));
            }
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < STREAMS; i++)
                OK(peerwin_stream_sync(sides[rank].ctx, streams[rank][i]));
        for (int rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < BUFFERS; i++)
                CHECK(number_in(rank, i) ==
                      (shape >> i % 20 & 1 ? turn * 1000000 + i * 1000 + rank : 3 * (turn * 1000000 + i * 1000) + 3));
    }
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < STREAMS; i++)
            CU(cu.cuStreamDestroy(streams[rank][i]));
    end(RANKS, RANKS);
}

static void all_streams_of_a_rank_are_one_sequence(void) {
    for (int i = 0; i < WAYS; i++)
        streams_are_one_sequence(&ways[i]);
}

/* What comes after a barrier or all-reduce on another stream tells nobody anything before that one has passed. */
static void a_second_stream_waits_for_the_first(void) {
    for (int i = 0; i < WAYS * 4; i++) {
        const way *w = &ways[i / 4];
        CUstream old = NULL;
        begin(2, 2, w, 0);
        for (int buffer = 0; buffer < 2; buffer++)
            for (int rank = 0; rank < 2; rank++)
                poke_word(buffers[rank][buffer], 1);
        CU(cu.cuStreamCreate(&old, CU_STREAM_NON_BLOCKING));
        OK(peerwin_wait(sides[0].win, 0, 1, old)); /* the first one has not even arrived */
        OK(i & 1 ? sum(0, 0, old) : peerwin_barrier(sides[0].ctx, old));
        CU(cu.cuStreamDestroy(old)); /* its work still runs */
        OK(i & 2 ? sum(0, 1, sides[0].stream) : peerwin_barrier(sides[0].ctx, sides[0].stream));
        OK(i & 1 ? sum(1, 0, sides[1].stream) : peerwin_barrier(sides[1].ctx, sides[1].stream));
        settle();
        CHECK(!is_idle(sides[0].stream) && !is_idle(sides[1].stream));
        poke_word((CUdeviceptr)(uintptr_t)sides[0].win->peers[0].slots, 1);
        OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
        settle();
        CHECK(!is_idle(sides[0].stream));
        OK(i & 2 ? sum(1, 1, sides[1].stream) : peerwin_barrier(sides[1].ctx, sides[1].stream));
        OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
        OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
        for (int rank = 0; rank < 2; rank++)
            CHECK(number_in(rank, 0) == (i & 1 ? 2 : 1) && number_in(rank, 1) == (i & 2 ? 2 : 1));
        end(2, 2);
    }
}

/* ---- epochs ---- */

/* Puts words of an older epoch into all slots of a rank, as there are in a context of that age. */
static void age_slots(int rank, const pw_arena_layout *layout, uint64_t epoch) {
    static uint64_t words[2 * RANKS * PW_ARENA_REDUCE_SLOT / 8];
    for (size_t i = 0; i < sizeof words / 8; i++)
        words[i] = epoch << (32 + PW_REDUCE_TAG_BITS);
    for (int series = 0; series < PW_NUM_SERIES; series++)
        poke(sides[rank].arena + layout->reduce_slots[series], words, sizeof words);
}

static void start_at(uint64_t epoch) {
    const pw_arena_layout layout = pw_arena_layout_of(RANKS);
    pw_arena_control control = {.broken = 0};
    for (int series = 0; series < PW_NUM_SERIES; series++)
        control.barrier_epoch[series] = control.reduce_epoch[series] = epoch;
    for (int rank = 0; rank < RANKS; rank++) {
        pw_sequence *sequence = &sides[rank].ctx->sequence;
        sequence->lines = sequence->barriers = sequence->reduces = epoch;
        poke(sides[rank].arena + layout.control, &control, sizeof control);
        age_slots(rank, &layout, epoch - 100);
        for (size_t writer = 0; writer < RANKS; writer++) {
            poke_word(sides[rank].arena + layout.barrier_lines + writer * PW_LINE, epoch);
            for (int series = 0; series < PW_NUM_SERIES; series++)
                poke_word(sides[rank].arena + layout.kernel_lines[series] + writer * PW_LINE, epoch);
        }
    }
}

static void capture_one_of_each(int rank, CUgraphExec *exec_out) {
    CUgraph graph = NULL;
    CUstream stream = sides[rank].stream;
    CU(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(sum(rank, 1, stream));
    OK(peerwin_barrier(sides[rank].ctx, stream));
    CU(cu.cuStreamEndCapture(stream, &graph));
    CU(cu.cuGraphInstantiateWithFlags(exec_out, graph, 0));
    CU(cu.cuGraphDestroy(graph));
}

static void epochs_wrap(const way *w, uint64_t first) {
    CUgraphExec execs[RANKS];
    begin(RANKS, RANKS, w, 0);
    start_at(first);
    for (int rank = 0; rank < RANKS; rank++) {
        capture_one_of_each(rank, &execs[rank]);
        for (size_t i = 0; i < VALUES; i++)
            poke_word(buffers[rank][0] + 8 * i, 1);
        poke_word(buffers[rank][1], 1);
    }
    int64_t want = 1;
    for (int round = 0; round < 8; round++) {
        for (int rank = 0; rank < RANKS; rank++) {
            OK(peerwin_barrier(sides[rank].ctx, sides[rank].stream));
            /* More and more words, so that some are new at every epoch. */
            OK(peerwin_allreduce(sides[rank].ctx, any(buffers[rank][0]), 1 + 9 * round, PEERWIN_INT64, PEERWIN_SUM,
                                 sides[rank].stream));
            CU(cu.cuGraphLaunch(execs[rank], sides[rank].stream));
            CHECK(rank == RANKS - 1 || !is_idle(sides[rank].stream));
        }
        all_done();
        want *= RANKS;
        for (int rank = 0; rank < RANKS; rank++)
            CHECK(number_in(rank, 0) == want && number_in(rank, 1) == want &&
                  peek_word(buffers[rank][0] + 72 * (size_t)round) == RANKS);
    }
    for (int rank = 0; rank < RANKS; rank++)
        CU(cu.cuGraphExecDestroy(execs[rank]));
    end(RANKS, RANKS);
}

static void epochs_may_start_anywhere_and_wrap(void) {
    for (int i = 0; i < WAYS; i++) {
        epochs_wrap(&ways[i], UINT64_MAX - 4);
        epochs_wrap(&ways[i], UINT32_MAX - UINT64_C(4));
        epochs_wrap(&ways[i], INT64_MAX - UINT64_C(4));
    }
}

/* So that no word is ever as old as the epochs' lower half is long. */
static void now_and_then_all_words_are_written(void) {
    const pw_arena_layout layout = pw_arena_layout_of(RANKS);
    static uint64_t words[2 * RANKS * PW_ARENA_REDUCE_SLOT / 8];
    const uint64_t first = UINT64_C(7) << 20;
    for (int i = 0; i < 2; i++) {
        begin(RANKS, RANKS, &ways[i], 0);
        start_at(first - 1);
        for (int round = 0; round < 2; round++)
            for (int rank = 0; rank < RANKS; rank++)
                OK(sum(rank, 0, sides[rank].stream));
        all_done();
        peek(sides[1].arena + layout.reduce_slots[PW_SERIES_EAGER], words, sizeof words);
        for (size_t k = 0; k < sizeof words / 8; k++)
            CHECK((words[k] >> (32 + PW_REDUCE_TAG_BITS)) - first % (1 << 22) < 2);
        end(RANKS, RANKS);
    }
}

/* ---- graphs ---- */

/* On two streams, which the program joins at the end only: the library orders what ranks meet in. */
static void capture_two_streams(int rank, CUstream other, CUgraphExec *exec_out) {
    CUgraph graph = NULL;
    CUevent fork = NULL;
    CUevent join = NULL;
    CUstream stream = sides[rank].stream;
    CU(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CU(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CU(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cu.cuEventRecord(fork, stream));
    CU(cu.cuStreamWaitEvent(other, fork, 0));
    sim_reset();
    OK(sum(rank, 0, rank % 2 ? stream : other));
    OK(peerwin_barrier(sides[rank].ctx, rank % 2 ? other : stream));
    OK(sum(rank, 1, other));
    OK(peerwin_barrier(sides[rank].ctx, other));
    OK(sum(rank, 2, stream));
    /* So often the stream changed; and the capture has a witness. */
    CHECK(sim_counted("cuStreamWaitEvent", 2 + (rank % 2 ? 2 : 3)));
    CU(cu.cuEventRecord(join, other));
    CU(cu.cuStreamWaitEvent(stream, join, 0));
    CU(cu.cuStreamEndCapture(stream, &graph));
    CU(cu.cuGraphInstantiateWithFlags(exec_out, graph, 0));
    CU(cu.cuGraphDestroy(graph));
    CU(cu.cuEventDestroy(fork));
    CU(cu.cuEventDestroy(join));
}

static void graphs_run_again(const way *w) {
    CUgraphExec execs[RANKS];
    CUstream others[RANKS];
    int64_t want = 1;
    begin(RANKS, RANKS, w, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        CU(cu.cuStreamCreate(&others[rank], CU_STREAM_NON_BLOCKING));
        capture_two_streams(rank, others[rank], &execs[rank]);
        for (int i = 0; i < 4; i++)
            poke_word(buffers[rank][i], 1);
    }
    for (int round = 0; round < 12; round++) {
        int first = (int)any_number(RANKS);
        for (int i = 0; i < RANKS; i++) {
            int rank = (first + i) % RANKS;
            if (any_number(4) == 0)
                usleep(any_number(3000));
            CU(cu.cuGraphLaunch(execs[rank], sides[rank].stream));
            OK(sum(rank, 3, others[rank])); /* eager ones are another series */
        }
        want *= RANKS;
        for (int rank = 0; rank < RANKS; rank++) {
            OK(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream));
            OK(peerwin_stream_sync(sides[rank].ctx, others[rank]));
            for (int i = 0; i < 4; i++)
                CHECK(number_in(rank, i) == want);
        }
    }
    for (int rank = 0; rank < RANKS; rank++) {
        CU(cu.cuGraphExecDestroy(execs[rank]));
        CU(cu.cuStreamDestroy(others[rank]));
    }
    end(RANKS, RANKS);
}

static void graphs_hold_meetings_and_run_again(void) {
    for (int i = 0; i < WAYS; i++)
        graphs_run_again(&ways[i]);
}

static void what_is_refused_leaves_the_capture_alone(void) {
    static int64_t pageable = 1;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUstream stream;
    begin(2, 2, &ways[0], 0);
    stream = sides[0].stream;
    sides[0].ctx->barrier_kind = PEERWIN_BARRIER_EVENT;
    CU(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAYS(peerwin_barrier(sides[0].ctx, stream), PEERWIN_ERR_STATE, "EVENT");
    SAYS(peerwin_stream_sync(sides[0].ctx, stream), PEERWIN_ERR_STATE, "capturing");
    SAYS(peerwin_allreduce(sides[0].ctx, &pageable, 1, PEERWIN_INT64, PEERWIN_SUM, stream), PEERWIN_ERR_ARG, "memory");
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_ADD, 1, stream));
    OK(sum(0, 0, stream));
    CU(cu.cuStreamEndCapture(stream, &graph));
    CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cu.cuGraphDestroy(graph));
    CU(cu.cuGraphExecDestroy(exec));
    end(2, 2);
}

/* ---- many ranks, and one ---- */

/* The others are played by the test. */
static void many_ranks_take_several_launches(void) {
    const pw_arena_layout layout = pw_arena_layout_of(MOST_SIDES);
    const uint64_t flag = pw_dev_reduce_flag(1, 1, PEERWIN_FLOAT, PEERWIN_SUM);
    float one = 1;
    begin(MOST_SIDES, 1, &ways[1], 0);
    poke(buffers[0][0], &one, sizeof one);
    sim_reset();
    OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
    CHECK(sim_counted("cuGraphLaunch", 3));
    sim_reset();
    OK(peerwin_allreduce(sides[0].ctx, any(buffers[0][0]), 1, PEERWIN_FLOAT, PEERWIN_SUM, sides[0].stream));
    CHECK(sim_counted("cuGraphLaunch", 3));
    for (size_t rank = 1; rank < MOST_SIDES; rank++) {
        CUdeviceptr slot = sides[0].arena + layout.reduce_slots[PW_SERIES_EAGER];
        uint32_t bits = 0;
        memcpy(&bits, &one, sizeof bits);
        CHECK(!is_idle(sides[0].stream));
        poke_word(slot + (2 * rank + 1) * PW_ARENA_REDUCE_SLOT, flag << 32 | bits);
        poke_word(sides[0].arena + layout.kernel_lines[PW_SERIES_EAGER] + rank * PW_LINE, 1);
    }
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    peek(buffers[0][0], &one, sizeof one);
    CHECK(one == MOST_SIDES);
    for (size_t rank = 0; rank < MOST_SIDES; rank++)
        CHECK(peek_word(sides[rank].arena + layout.kernel_lines[PW_SERIES_EAGER]) == 1);
    end(MOST_SIDES, 1);
}

static void a_rank_alone_waits_for_nobody(void) {
    for (int i = 0; i < WAYS; i++) {
        begin(1, 1, &ways[i], 0);
        poke_word(buffers[0][0], 5);
        sim_reset();
        OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
        OK(sum(0, 0, sides[0].stream));
        CHECK(sim_counted("cuLaunchKernel", 0) && sim_counted("cuStreamBatchMemOp", 0));
        CHECK(number_in(0, 0) == 5);
        end(1, 1);
    }
}

/* ---- waits that end otherwise ---- */

enum { BARRIER, SUM, GRAPH, DEEDS };

/* One of each on the rank's stream; the graph is launched. */
static void do_deed(int deed, int rank, CUgraphExec exec) {
    if (deed == BARRIER)
        OK(peerwin_barrier(sides[rank].ctx, sides[rank].stream));
    else if (deed == SUM)
        OK(sum(rank, 0, sides[rank].stream));
    else
        CU(cu.cuGraphLaunch(exec, sides[rank].stream));
}

static void time_out(const way *w, int deed) {
    CUgraphExec execs[2];
    begin(2, 2, w, 1);
    for (int rank = 0; rank < 2; rank++)
        capture_one_of_each(rank, &execs[rank]);
    sides[1].ctx->timeout_ms = 60;
    for (int round = 0; round < 2; round++) {
        do_deed(deed, 1, execs[1]);
        SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_TIMEOUT, "call again");
        /* Nobody can tell what the constants of two phases are for. */
        CHECK((deed == GRAPH && !w->kernels_wait) || (deed == SUM && round > 0) ||
              strstr(peerwin_last_error(), "not arrived: rank 0"));
        CHECK(peerwin_stream_sync(sides[1].ctx, sides[1].stream) == PEERWIN_ERR_TIMEOUT);
        OK(peerwin_check(sides[1].ctx));
        do_deed(deed, 0, execs[0]);
        sides[1].ctx->timeout_ms = 10000;
        OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
        sides[1].ctx->timeout_ms = 60;
    }
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    for (int rank = 0; rank < 2; rank++)
        CU(cu.cuGraphExecDestroy(execs[rank]));
    end(2, 2);
}

static void a_timeout_names_who_is_missing_and_changes_nothing(void) {
    for (int i = 0; i < WAYS * DEEDS; i++)
        time_out(&ways[i / DEEDS], i % DEEDS);
}

static void be_freed(const way *w, int deed, int watchdog) {
    CUgraphExec execs[2];
    begin(2, 2, w, watchdog);
    for (int rank = 0; rank < 2; rank++)
        capture_one_of_each(rank, &execs[rank]);
    do_deed(deed, 1, execs[1]);
    do_deed(deed, 1, execs[1]);
    settle();
    CHECK(!is_idle(sides[1].stream));
    int64_t since = pw_now();
    OK(peerwin_abort(sides[0].ctx));
    if (watchdog) /* a program inside the driver */
        CU(cu.cuStreamSynchronize(sides[1].stream));
    else
        pw_watchdog_settle(sides[1].ctx); /* as at the end of the context */
    CHECK(is_idle(sides[1].stream));
    CHECK(pw_now() - since < 1000 * PW_MS);
    CHECK(peerwin_check(sides[1].ctx) == PEERWIN_ERR_ABORTED);
    for (int rank = 0; rank < 2; rank++)
        CU(cu.cuGraphExecDestroy(execs[rank]));
    end(2, 2);
}

static void an_abort_frees_whoever_waits_in_a_meeting(void) {
    for (int i = 0; i < WAYS * DEEDS; i++)
        be_freed(&ways[i / DEEDS], i % DEEDS, i % 4 != 0);
}

/* Of a kernel whose host sits in the driver and has no watchdog. */
static void a_kernel_gives_up_in_the_end_and_all_hear_of_it(void) {
    const pw_site site = {.call = "test", .rank = 1, .peer = PW_NONE};
    for (int watchdog = 0; watchdog < 2; watchdog++) {
        pw_step step;
        begin(2, 2, &ways[1], watchdog);
        OK(pw_step_in(&step, sides[1].ctx, sides[1].stream, &site));
        pw_launch_meeting meeting = pw_meeting_of(&step, pw_my_control(sides[1].ctx)->reduce_epoch, 0);
        const pw_launch_values values = {any(buffers[1][0]), 1, PEERWIN_INT64, PEERWIN_SUM, PW_REDUCE_COMBINE};
        const pw_launch_places nowhere = {NULL, NULL};
        char *slots = sides[1].ctx->peers[1].arena + sides[1].ctx->arena_layout.reduce_slots[PW_SERIES_EAGER];
        meeting.patience = 1000000;
        poke_word(buffers[1][0], 5);
        OK(pw_launch_reduce(sides[1].ctx->gpu, sides[1].stream, &meeting, &values, slots, &nowhere, &step.given,
                            &site));
        OK(pw_step_out(&step, PEERWIN_OK));
        CU(cu.cuStreamSynchronize(sides[1].stream));
        CHECK(number_in(1, 0) == 5);
        if (watchdog)
            usleep(300000);
        else
            SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_ABORTED, "timed out");
        SAYS(peerwin_check(sides[1].ctx), PEERWIN_ERR_ABORTED, "timed out on that rank");
        SAYS(peerwin_check(sides[0].ctx), PEERWIN_ERR_ABORTED, "peer 1");
        end(2, 2);
    }
}

/* One rank's arguments are others than the rest's: wrong results count nowhere. */
static void differ(const way *w, int which, int watchdog) {
    begin(RANKS, RANKS, w, watchdog);
    for (int rank = 0; rank < RANKS; rank++)
        OK(sum(rank, 0, sides[rank].stream));
    all_done();
    for (int rank = 0; rank < RANKS; rank++) {
        const int odd = rank == which % RANKS;
        OK(peerwin_allreduce(sides[rank].ctx, any(buffers[rank][1]), odd && which % 3 == 0 ? 2 : 3,
                             odd && which % 3 == 1 ? PEERWIN_FLOAT : PEERWIN_DOUBLE,
                             odd && which % 3 == 2 ? PEERWIN_MIN : PEERWIN_SUM, sides[rank].stream));
    }
    for (int rank = 0; rank < RANKS; rank++)
        SAYS(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream), PEERWIN_ERR_MISMATCH,
             "count, type or operation");
    for (int rank = 0; rank < RANKS; rank++) {
        SAYS(peerwin_check(sides[rank].ctx), PEERWIN_ERR_MISMATCH, "count, type or operation");
        CHECK(sum(rank, 0, sides[rank].stream) == PEERWIN_ERR_MISMATCH);
    }
    end(RANKS, RANKS);
}

static void ranks_that_combine_different_things_find_out(void) {
    for (int i = 0; i < WAYS; i++)
        for (int which = 0; which < 4; which++)
            differ(&ways[i], which, which & 1);
}

/* ---- calls that fail ---- */

/* Lets the n-th driver call fail; 0 if there are not so many. A meeting that began half breaks the context. */
static int injected(const way *w, int deed, int captured, unsigned long n) {
    CUgraph graph = NULL;
    begin(2, 2, w, 0);
    if (captured)
        CU(cu.cuStreamBeginCapture(sides[0].stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    sim.simcuda_only_this_thread(1);
    sim.simcuda_reset();
    sim.simcuda_fail(NULL, n, CUDA_ERROR_UNKNOWN, 0);
    peerwin_status status = deed == SUM ? sum(0, 0, sides[0].stream) : peerwin_barrier(sides[0].ctx, sides[0].stream);
    int happened = sim.simcuda_injected();
    sim.simcuda_reset();
    CHECK(happened || status == PEERWIN_OK);
    if (status != PEERWIN_OK && peerwin_check(sides[0].ctx) == PEERWIN_OK)
        OK(deed == SUM ? sum(0, 0, sides[0].stream) : peerwin_barrier(sides[0].ctx, sides[0].stream));
    if (captured) {
        CU(cu.cuStreamEndCapture(sides[0].stream, &graph));
        CU(cu.cuGraphDestroy(graph));
        OK(peerwin_check(sides[0].ctx));
    } else if (peerwin_check(sides[0].ctx) == PEERWIN_OK) {
        OK(deed == SUM ? sum(1, 0, sides[1].stream) : peerwin_barrier(sides[1].ctx, sides[1].stream));
        for (int rank = 0; rank < 2; rank++)
            OK(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream));
    } else {
        pw_watchdog_settle(sides[0].ctx);
    }
    end(2, 2);
    return happened;
}

static void every_driver_call_may_fail(void) {
    int count = 0;
    for (int i = 0; i < WAYS * 4; i++)
        for (unsigned long n = 1; injected(&ways[i / 4], i & 1 ? SUM : BARRIER, i & 2, n); n++)
            count++;
    printf("%d calls failed\n", count);
    CHECK(count > 60);
}

static const sides_case cases[] = {
#define CASE(name)                                                                                                     \
    { #name, name, 0 }
#define SIMULATED(name)                                                                                                \
    { #name, name, 1 }
    CASE(a_barrier_of_any_way_waits_for_everyone),
    CASE(a_reduction_of_any_way_is_in_rank_order),
    CASE(all_streams_of_a_rank_are_one_sequence),
    CASE(a_second_stream_waits_for_the_first),
    CASE(epochs_may_start_anywhere_and_wrap),
    CASE(now_and_then_all_words_are_written),
    CASE(graphs_hold_meetings_and_run_again),
    CASE(what_is_refused_leaves_the_capture_alone),
    CASE(many_ranks_take_several_launches),
    CASE(a_rank_alone_waits_for_nobody),
    CASE(a_timeout_names_who_is_missing_and_changes_nothing),
    CASE(an_abort_frees_whoever_waits_in_a_meeting),
    CASE(a_kernel_gives_up_in_the_end_and_all_hear_of_it),
    CASE(ranks_that_combine_different_things_find_out),
    SIMULATED(every_driver_call_may_fail),
};

int main(int argc, char **argv) {
    return sides_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
