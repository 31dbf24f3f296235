/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rig; see rig.h.
 */
#include "rig.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

rig_options rig;

extern const char rig_image[];
static CUmodule module;
static CUfunction functions[RIG_NUM_KERNELS];

/* ---------------------------------------------------------------------------------------------------- kernels */

void rig_launch(int kernel, unsigned blocks, const void *args, peerwin_stream stream) {
    void *parameters[] = {(void *)(uintptr_t)args};
    DEVICE_OK(
        device.cuLaunchKernel(functions[kernel], blocks, 1, 1, RIG_LANES, 1, 1, 0, (CUstream)stream, parameters, NULL));
}

/* A kernel that is loaded by its first launch while something spins may wait for ever: launch each with nothing to do.
 */
void rig_begin(void) {
    static const char *const names[] = {
#define RIG_NAME(name) "rig_" #name,
        RIG_KERNELS(RIG_NAME)
#undef RIG_NAME
    };
    static const uint64_t nothing[512];
    rig.simulated = device_simulated("simcuda_live") != NULL;
    DEVICE_OK(device.cuModuleLoadData(&module, rig_image));
    for (int i = 0; i < RIG_NUM_KERNELS; i++) {
        DEVICE_OK(device.cuModuleGetFunction(&functions[i], module, names[i]));
        rig_launch(i, 1, nothing, job.stream);
        device_stream_sync(job.stream);
    }
}

static void unload(void) {
    device_stream_sync(job.stream);
    DEVICE_OK(device.cuModuleUnload(module));
}

peerwin_ctx *rig_context(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    if (rig_age != NULL) {
        rig_age(ctx);
    }
    return ctx;
}

/* ---------------------------------------------------------------------------------------------------- figures */

uint64_t rig_amount(uint64_t asked, uint64_t real, uint64_t simulated) {
    uint64_t least = simulated < 100 ? simulated : TEST_SANITIZED ? simulated / 4 : simulated;
    return asked != 0 ? asked : rig.simulated ? least : real;
}

rig_report *rig_reports_new(int count) {
    rig_report *reports = device_new(sizeof(rig_report) * (size_t)count);
    device_set(reports, 0, sizeof(rig_report) * (size_t)count);
    return reports;
}

rig_report rig_reports_end(rig_report *reports, int count) {
    rig_report *seen = calloc((size_t)count, sizeof(*seen));
    rig_report sum = {0};
    CHECK(seen != NULL);
    device_copy(seen, reports, sizeof(*seen) * (size_t)count);
    for (int i = 0; i < count; i++) {
        sum.rounds += seen[i].rounds;
        sum.wrong += seen[i].wrong;
        sum.late += seen[i].late;
        sum.crossed += seen[i].crossed;
        if (seen[i].wrong > 0) {
            sum.at_round = seen[i].at_round;
            sum.at_index = seen[i].at_index;
            sum.value = seen[i].value;
        }
    }
    if (sum.wrong > 0) {
        printf("rank %d: %llu wrong, the last in round %llu, place %llu: %llu\n", job.rank,
               (unsigned long long)sum.wrong, (unsigned long long)sum.at_round, (unsigned long long)sum.at_index,
               (unsigned long long)sum.value);
    }
    free(seen);
    device_free(reports);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int rig_is_over(double begin, uint64_t done_rounds, uint64_t rounds, double seconds) {
    int over = done_rounds >= rounds || test_seconds() - begin > seconds;
    MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return over;
}

void rig_say(const char *format, ...) {
    va_list args;
    if (job.rank != 0) {
        return;
    }
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    puts(rig_age != NULL ? ", with epochs about to wrap" : "");
}

/* ----------------------------------------------------------------------------------------------------- graphs */

void rig_capture(peerwin_stream stream) {
    DEVICE_OK(device.cuStreamBeginCapture((CUstream)stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

rig_graph rig_capture_end(peerwin_stream stream) {
    rig_graph graph = {NULL, NULL};
    DEVICE_OK(device.cuStreamEndCapture((CUstream)stream, &graph.graph));
    DEVICE_OK(device.cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0));
    return graph;
}

void rig_replay(const rig_graph *graph, peerwin_stream stream) {
    DEVICE_OK(device.cuGraphLaunch(graph->exec, (CUstream)stream));
}

void rig_graph_free(rig_graph *graph) {
    DEVICE_OK(device.cuGraphExecDestroy(graph->exec));
    DEVICE_OK(device.cuGraphDestroy(graph->graph));
}

/* ------------------------------------------------------------------------------------------------------ course */

static int take_option(const char *name, const char *value) {
    if (strcmp(name, "--rounds") == 0) {
        rig.rounds = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--seconds") == 0) {
        rig.seconds = strtod(value, NULL);
    } else if (strcmp(name, "--bytes") == 0) {
        rig.bytes = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--blocks") == 0) {
        rig.blocks = (unsigned)strtoul(value, NULL, 10);
    } else if (strcmp(name, "--space") != 0) {
        test_fail(__FILE__, __LINE__, "there is no option %s", name);
    }
    return 2;
}

/* Leaves the names of cases from argv[1] on, and returns how many. */
static int take_options(int argc, char **argv) {
    int names = 0;
    for (int i = 1; i < argc;) {
        if (strncmp(argv[i], "--", 2) == 0 && i + 1 < argc) {
            i += take_option(argv[i], argv[i + 1]);
        } else {
            argv[++names] = argv[i++];
        }
    }
    return names;
}

static const test_case *find(const char *name, const test_case *cases, int count) {
    for (int k = 0; k < count; k++) {
        if (strcmp(cases[k].name, name) == 0) {
            return &cases[k];
        }
    }
    test_fail(__FILE__, __LINE__, "no case is called \"%s\"", name);
}

/* Whoever has little time asks for less. */
static void take_environment(void) {
    const char *text = getenv("PWTEST_SECONDS");
    double seconds = text != NULL ? strtod(text, NULL) : 0;
    if (seconds > 0 && rig.seconds > seconds) {
        rig.seconds = seconds;
    }
}

/* Descriptors and mappings are not counted: a real driver makes them when it likes, and these tests are not about them.
 */
static void run(const test_case *entry) {
    if (job.size < entry->min_ranks || (entry->max_ranks != 0 && job.size > entry->max_ranks)) {
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = test_seconds();
    device_snapshot before = device_take();
    entry->run();
    device_stream_sync(job.stream);
    MPI_Barrier(MPI_COMM_WORLD);
    device_check(&before);
    rig_say("ok %s (%d ranks, %.2f s)", entry->name, job.size, test_seconds() - begin);
}

int rig_main(int argc, char **argv, const test_case *cases, int count) {
    test_begin(argc, argv);
    CHECK_EQUAL(job.space, PEERWIN_SPACE_CUDA);
    int names = take_options(argc, argv);
    take_environment();
    rig_begin();
    for (int i = 0; i < (names > 0 ? names : count); i++) {
        run(names > 0 ? find(argv[i + 1], cases, count) : &cases[i]);
    }
    unload();
    if (job.rank == 0) {
        puts("all passed");
    }
    device_end();
    MPI_Finalize();
    return 0;
}
