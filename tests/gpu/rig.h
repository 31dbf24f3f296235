/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the programs in this folder share: their options, the kernels, and the way they count and report. They belong on
 * a GPU, where they run long; on the simulated driver the same programs run shortly.
 *
 * A case runs between two looks at what is alive in a simulated driver. Its figures go to stdout, a line each.
 */
#ifndef PEERWIN_TESTS_GPU_RIG_H
#define PEERWIN_TESTS_GPU_RIG_H

#include "gpu/kernels.h"
#include "support/calls.h"

/** Options: --rounds, --seconds, --bytes, --blocks; 0 where the program shall choose. */
typedef struct {
    uint64_t rounds; /* of each measurement */
    double seconds;  /* after which a measurement ends, whatever it has reached */
    size_t bytes;
    unsigned blocks;
    int simulated; /* the driver is */
} rig_options;
extern rig_options rig;

/** Starts everything, runs the cases that are named, or all, and ends everything. Returns the exit status. */
int rig_main(int argc, char **argv, const test_case *cases, int count);
#define RIG_MAIN(cases)                                                                                                \
    int main(int argc, char **argv) {                                                                                  \
        return rig_main(argc, argv, cases, (int)(sizeof(cases) / sizeof((cases)[0])));                                 \
    }

/** For programs that do not begin by rig_main: loads the kernels, after test_begin. They go with the process. */
void rig_begin(void);

/** A context over all ranks; one that is almost worn out in programs that have rig_age (age.c). */
peerwin_ctx *rig_context(void);
void rig_age(peerwin_ctx *ctx) __attribute__((weak));

/** How much of something by default: on a GPU, or simulated. */
uint64_t rig_amount(uint64_t asked, uint64_t real, uint64_t simulated);

enum {
#define RIG_INDEX(name) RIG_KERNEL_##name,
    RIG_KERNELS(RIG_INDEX)
#undef RIG_INDEX
        RIG_NUM_KERNELS
};
/** Launches RIG_KERNEL_name with `blocks` blocks of RIG_LANES lanes; `args` is its struct. */
void rig_launch(int kernel, unsigned blocks, const void *args, peerwin_stream stream);

/** Reports in device memory, all zero. */
rig_report *rig_reports_new(int count);
/** What they say, added up over blocks and ranks (`late` and `wrong` of any rank), and frees them. On every rank. */
rig_report rig_reports_end(rig_report *reports, int count);

/** Since the clock began on this rank; an end that all ranks agree on. */
int rig_is_over(double begin, uint64_t done, uint64_t rounds, double seconds);

/** Rank 0 prints a line. */
void rig_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** What a stream did since rig_capture. The stream's graph, launched as often as one likes. */
typedef struct {
    CUgraph graph;
    CUgraphExec exec;
} rig_graph;
void rig_capture(peerwin_stream stream);
rig_graph rig_capture_end(peerwin_stream stream);
void rig_replay(const rig_graph *graph, peerwin_stream stream);
void rig_graph_free(rig_graph *graph);

#endif
