/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the litmus tests share; see litmus.h.
 */
#include "litmus.h"

litmus_place litmus_begin(size_t bytes, unsigned blocks) {
    litmus_place p = {.bytes = bytes, .blocks = blocks, .stride = (bytes + LINE - 1) / LINE * LINE};
    p.right = (job.rank + 1) % job.size;
    p.left = (job.rank + job.size - 1) % job.size;
    p.partner = (job.rank ^ 1) < job.size ? job.rank ^ 1 : MPI_PROC_NULL;
    p.ctx = rig_context();
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.num_signals = 2 * MOST_BLOCKS;
    CHECK_OK(peerwin_win_alloc(p.ctx, (size_t)AREAS * MOST_BLOCKS * LINE + p.stride * blocks, &config, &p.win));
    CHECK_OK(peerwin_win_view(p.win, &p.view));
    p.source = device_new(p.stride * blocks);
    return p;
}

void litmus_end(litmus_place *p) {
    device_free(p->source);
    test_free(p->ctx, p->win);
}

uint64_t *litmus_lines(const litmus_place *p, int rank, int area) {
    char *base = peerwin_win_ptr(p->win, rank);
    CHECK(base != NULL);
    return (uint64_t *)(void *)(base + (size_t)area * MOST_BLOCKS * LINE);
}

size_t litmus_payload_offset(void) {
    return (size_t)AREAS * MOST_BLOCKS * LINE;
}

uint64_t *litmus_payload(const litmus_place *p, int rank) {
    return litmus_lines(p, rank, AREAS);
}

double litmus_seconds(void) {
    return rig.seconds > 0 ? rig.seconds : rig.simulated ? 2.0 : 20.0;
}

void litmus_tell(const char *what, size_t bytes, const rig_report *sum, double seconds) {
    /* Every rank has counted the rounds. */
    rig_say("litmus %s, %zu B, %d ranks: %llu rounds in %.2f s (%.3f us each), %llu wrong", what, bytes, job.size,
            (unsigned long long)sum->rounds, seconds, 1e6 * seconds * job.size / (double)(sum->rounds + !sum->rounds),
            (unsigned long long)sum->wrong);
}

void litmus_sizes(void (*test)(size_t bytes, uint64_t rounds)) {
    static const size_t sizes[] = {8, 64, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (rig.bytes == 0 ? !rig.simulated || i % 2 == 1 : rig.bytes == sizes[i]) {
            test(sizes[i],
                 sizes[i] > 1024 ? rig_amount(rig.rounds / 100, 100000, 4) : rig_amount(rig.rounds, 10000000, 500));
        }
    }
}
