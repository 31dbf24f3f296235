/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Litmus tests between kernels of different ranks: message passing (who sees the flag sees the payload) and store
 * buffering (of two ranks that store and then load, one sees the other's store), by the tests' own stores and fences
 * and by peerwin's calls.
 *
 * A test that never fails shows nothing: without_fences_... leaves out what makes it right, and says where that was
 * seen. Which fences a machine needs is the machine's; a flag before its payload must be caught wherever kernels of
 * different ranks run at once.
 */
#include "litmus.h"

enum { BY_CALLS = 1 << 16 }; /* peerwin's, not the tests' own stores and fences */
static const uint64_t LIMIT_NS = 20000000000u;

static unsigned blocks_of(void) {
    unsigned blocks = rig.blocks != 0 ? rig.blocks : rig.simulated ? 2 : 16;
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

static void launch_pass(const litmus_place *p, uint64_t first, uint64_t rounds, uint32_t without, rig_report *reports) {
    rig_pass_args a = {
        .to = litmus_payload(p, p->right),
        .own = litmus_payload(p, job.rank),
        .flag_out = litmus_lines(p, p->right, FLAG),
        .ack_out = litmus_lines(p, p->left, ACK),
        .flag_in = litmus_lines(p, job.rank, FLAG),
        .ack_in = litmus_lines(p, job.rank, ACK),
        .words = p->bytes / 8,
        .stride = p->stride / 8,
        .first = first,
        .rounds = rounds,
        .limit_ns = LIMIT_NS,
        .without = without,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_pass, p->blocks, &a, job.stream);
}

/* Only ranks with a partner. */
static void launch_cross(const litmus_place *p, uint64_t first, uint64_t rounds, uint32_t without,
                         rig_report *reports) {
    if (p->partner == MPI_PROC_NULL) {
        return;
    }
    rig_cross_args a = {
        .view = p->view,
        .partner = without & BY_CALLS ? p->partner : MPI_PROC_NULL,
        .offset = (size_t)STORE * MOST_BLOCKS * LINE,
        .store_out = litmus_lines(p, p->partner, STORE),
        .seen_out = litmus_lines(p, p->partner, SEEN),
        .store_in = litmus_lines(p, job.rank, STORE),
        .seen_in = litmus_lines(p, job.rank, SEEN),
        .first = first,
        .rounds = rounds,
        .seed = (uint64_t)job.rank,
        .limit_ns = LIMIT_NS,
        .without = without,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_cross, p->blocks, &a, job.stream);
}

static void launch_call(const litmus_place *p, uint64_t first, uint64_t rounds, uint32_t scope, rig_report *reports) {
    /* Each scope goes on with numbers of its own. */
    rig_call_args a = {
        .view = p->view,
        .source = p->source,
        .offset = litmus_payload_offset(),
        .words = p->bytes / 8,
        .stride = p->stride,
        .first = ((uint64_t)scope << 40) + first,
        .rounds = rounds,
        .right = p->right,
        .left = p->left,
        .parts = RIG_SENDS | RIG_RECEIVES | RIG_AWAITS_ACK,
        .scope = scope,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_call, p->blocks, &a, job.stream);
}

static void launch_mail(const litmus_place *p, uint64_t first, uint64_t rounds, uint32_t how, rig_report *reports) {
    rig_mail_args a = {p->view, first, rounds, p->right, p->left, reports};
    (void)how;
    rig_launch(RIG_KERNEL_mail, 1, &a, job.stream);
}

typedef void launcher(const litmus_place *p, uint64_t first, uint64_t rounds, uint32_t without, rig_report *reports);

/* Launches of growing length, until all blocks together have had their rounds or the time is over. */
static rig_report measure(const litmus_place *p, launcher *launch, uint64_t rounds, uint32_t without, double seconds,
                          double *seconds_out) {
    rig_report *reports = rig_reports_new((int)p->blocks);
    uint64_t each = (rounds + p->blocks - 1) / p->blocks;
    uint64_t given = 0;
    uint64_t step = each < 16 ? each : 16;
    double start = test_seconds();
    while (!rig_is_over(start, given, each, seconds)) {
        step = step < each - given ? step : each - given;
        double before = test_seconds();
        launch(p, given, step, without, reports);
        check_done(p->ctx);
        given += step;
        int grow = test_seconds() - before < seconds / 8;
        MPI_Allreduce(MPI_IN_PLACE, &grow, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        step *= grow ? 4 : 1;
    }
    *seconds_out = test_seconds() - start;
    return rig_reports_end(reports, (int)p->blocks);
}

static void check_measured(const char *what, const litmus_place *p, launcher *launch, uint64_t rounds, uint32_t how) {
    double took = 0;
    rig_report sum = measure(p, launch, rounds, how, litmus_seconds(), &took);
    litmus_tell(what, p->bytes, &sum, took);
    CHECK(sum.rounds > 0);
    CHECK_EQUAL(sum.late, 0);
    CHECK_EQUAL(sum.wrong, 0);
}

static void pass_by_kernels(size_t bytes, uint64_t rounds) {
    litmus_place p = litmus_begin(bytes, blocks_of());
    check_measured("message passing, kernel to kernel", &p, launch_pass, rounds, 0);
    litmus_end(&p);
}

static void message_passing_from_kernel_to_kernel(void) {
    litmus_sizes(pass_by_kernels);
}

static void pass_by_calls(size_t bytes, uint64_t rounds) {
    litmus_place p = litmus_begin(bytes, blocks_of());
    check_measured("message passing, calls of a block", &p, launch_call, rounds, RIG_BLOCK);
    if (bytes <= 1024) {
        check_measured("message passing, calls of a warp", &p, launch_call, rounds / 10, RIG_WARP);
        check_measured("message passing, calls of a thread", &p, launch_call, rounds / 10, RIG_THREAD);
    }
    litmus_end(&p);
}

static void message_passing_by_calls_in_kernels(void) {
    litmus_sizes(pass_by_calls);
}

static void store_buffering_between_kernels(void) {
    litmus_place p = litmus_begin(8, blocks_of());
    int adds = test_has_adds(p.ctx);
    check_measured("store buffering, kernels", &p, launch_cross, rig_amount(rig.rounds, 10000000, 1000), 0);
    MPI_Allreduce(MPI_IN_PLACE, &adds, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    litmus_end(&p);
    if (adds) { /* for the swap */
        p = litmus_begin(8, blocks_of());
        check_measured("store buffering, calls", &p, launch_cross, rig_amount(rig.rounds, 10000000, 1000), BY_CALLS);
        litmus_end(&p);
    }
}

static void messages_arrive_whole_and_in_order(void) {
    litmus_place p = litmus_begin(8, 1);
    check_measured("messages of 8 to 64 bytes", &p, launch_mail, rig_amount(rig.rounds / 10, 1000000, 300), 0);
    litmus_end(&p);
}

/* ----------------------------------------------------------------------------------------------- without fences */

static rig_report try_without(const char *what, launcher *launch, uint32_t without, size_t bytes) {
    litmus_place p = litmus_begin(bytes, blocks_of());
    double took = 0;
    rig_report sum = measure(&p, launch, rig_amount(rig.rounds, 1000000, 400), without, litmus_seconds() / 4, &took);
    CHECK_EQUAL(sum.late, 0);
    rig_say("litmus without %s, %zu B, %d ranks: %s (%llu wrong in %llu rounds, %.2f s; %llu rounds crossed)", what,
            bytes, job.size, sum.wrong > 0 ? "seen to fail" : "not seen to fail", (unsigned long long)sum.wrong,
            (unsigned long long)sum.rounds, took, (unsigned long long)sum.crossed);
    litmus_end(&p);
    return sum;
}

static uint64_t wrong_without(const char *what, uint32_t without, size_t bytes) {
    return try_without(what, launch_pass, without, bytes).wrong;
}

static void without_fences_the_tests_fail(void) {
    uint64_t wrong = wrong_without("the writer's fence", RIG_NO_WRITER_FENCE, 1024);
    wrong += wrong_without("the writer's fence", RIG_NO_WRITER_FENCE, 65536);
    wrong += wrong_without("the reader's fence", RIG_NO_READER_FENCE, 1024);
    wrong += wrong_without("both fences", RIG_NO_WRITER_FENCE | RIG_NO_READER_FENCE, 1024);
    rig_report cross = try_without("the fence between store and load", launch_cross, RIG_NO_ORDER_FENCE, 8);
    wrong += cross.wrong;
    rig_say("litmus without fences: %s on this machine", wrong > 0 ? "seen to fail" : "NOT seen to fail");
    wrong = wrong_without("the flag's place after the payload", RIG_EARLY_FLAG, 1024);
    if (cross.crossed == cross.rounds && !rig.simulated) {
        /* In every round one side was through before the other began: a time slice ends where a kernel waits. */
        rig_say("litmus: the ranks take turns on the device, so a flag that is early can hardly be caught");
        return;
    }
    CHECK(wrong > 0);
}

static const test_case cases[] = {
    TEST_CASE(message_passing_from_kernel_to_kernel, 1, 0), TEST_CASE(message_passing_by_calls_in_kernels, 1, 0),
    TEST_CASE(messages_arrive_whole_and_in_order, 1, 0),    TEST_CASE(store_buffering_between_kernels, 2, 0),
    TEST_CASE(without_fences_the_tests_fail, 1, 0),
};

RIG_MAIN(cases)
