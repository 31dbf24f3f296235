/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is measured on both sides of --peers: one list of rows, read by our side and by the NVSHMEM program, so that
 * sizes, blocks, lanes and repetitions cannot differ. Compiles as C11 and as C++17.
 *
 * A side measures each row PLAN_BATCHES times and hands in the median, in microseconds an operation, or MB/s where the
 * row is one of bandwidth; the longest of all ranks counts. Loops inside kernels are timed by the device's own clock,
 * after PLAN_WARM rounds; everything else by events in the stream.
 */
#ifndef PEERWIN_BENCH_PEER_PLAN_H
#define PEERWIN_BENCH_PEER_PLAN_H

#include "halo_shape.h"

enum {
    PLAN_BATCHES = 5,
    PLAN_WARM = 50,
    PLAN_DEVICE_BLOCKS = 128,    /* "the whole device": more than its half has multiprocessors */
    PLAN_LARGEST = 256 << 20,    /* bytes of the window, without the room for shifted transfers */
    PLAN_SHIFTS = 4096,          /* bytes of that room */
    PLAN_WORDS = 32,             /* of fetch-add, used in turn, for a word is near to some multiprocessors only */
    PLAN_WORD_STEP = 4096 + 128, /* bytes from one to the next */
    PLAN_ROOM = PLAN_SHIFTS + PLAN_WORDS * PLAN_WORD_STEP, /* bytes of both */
    PLAN_FIRST_PUT = 1 << 20,                              /* of PLAN_START */
    PLAN_QUICK_LARGEST = 1 << 20,                          /* a quick run leaves larger rows out */
    PLAN_QUICK_ITERATIONS = 4
};

/* What a row does. Between ranks 0 and 1 unless it says "all"; rank 0 is the origin. */
typedef enum {
    PLAN_PUT,           /* in a kernel: each block puts its part, `iterations` times */
    PLAN_GET,           /* the same with get */
    PLAN_PUT_SIGNAL,    /* in a kernel, one block: put with signal there and back; half a round */
    PLAN_MESSAGE,       /* in a kernel, one warp: the fastest way for a few bytes there and back; half a round */
    PLAN_FETCH_ADD,     /* in a kernel, one lane: each adds what depends on the one before */
    PLAN_BARRIER,       /* in a kernel, all, one block each */
    PLAN_REDUCE,        /* in a kernel, all: a sum of doubles */
    PLAN_STREAM_PUT,    /* in a stream, several one after the other */
    PLAN_STREAM_SIGNAL, /* in streams: put with signal, and wait, there and back; half a round */
    PLAN_STREAM_BARRIER,
    PLAN_STREAM_REDUCE,
    PLAN_GRAPH_REDUCE, /* several in a graph */
    PLAN_COPY,         /* the driver's copy into the window: a measure for PLAN_PUT, no row of NVSHMEM's */
    PLAN_PEER_COPY,    /* the driver's copy to the other device by a process that drives both: a measure for puts */
    PLAN_BOTH_PUT,     /* the same from both ranks at a time: in a kernel, */
    PLAN_BOTH_STREAM,  /* in a stream, */
    PLAN_BOTH_COPY,    /* by the driver between two devices */
    PLAN_HALO,         /* in a stream, several one after the other: an exchange of ghosts, from start to finish */
    PLAN_HALO_GRAPH,   /* the same in a graph */
    PLAN_HALO_COPY,    /* one kernel that copies as many bytes, contiguous: a measure for PLAN_HALO */
    PLAN_HALO_ENGINE,  /* pack, the driver's copies, signal, wait, unpack: a way without plans */
    PLAN_HALO_MPI,     /* pack, copy to the host, MPI, copy to the device, unpack: another one */
    PLAN_START,        /* init, the first window, its first put and a barrier; with the CUDA context there already */
    PLAN_FINISH        /* the end of the window and of everything */
} plan_work;

typedef struct {
    const char *name;
    plan_work work;
    int ranks;  /* 0 = any number */
    int blocks; /* 0 = not in a kernel of ours */
    int lanes;
    unsigned long bytes;
    int from_shift, to_shift; /* bytes by which source and target are off the alignment */
    int iterations;           /* in a batch, after the warm-up */
    int bandwidth;            /* 1: MB/s, 0: microseconds */
    int halo;                 /* works of ghosts: the number of their blocks */
} plan_row;

/*
 * The blocks of doubles whose ghosts are exchanged, on 2 ranks. In 3D, 2D and 512 (cells each way in all) every side
 * has a neighbour, which mostly is the rank itself. The faces of Z are contiguous but for ghosts at their edges, those
 * of X are single elements at a stride; both have 2 faces, and both go to the other rank.
 */
enum { PLAN_NO_HALO = 0, PLAN_3D, PLAN_Z, PLAN_X, PLAN_2D, PLAN_512, PLAN_HALOS };
static const halo_shape plan_halos[PLAN_HALOS] = {
    {1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, 1, 8},       {3, {2, 1, 1}, {1, 1, 1}, {256, 256, 256}, 1, 4, 8},
    {3, {2, 1, 1}, {1, 0, 0}, {256, 256, 256}, 1, 4, 8}, {3, {1, 1, 2}, {0, 0, 1}, {256, 256, 256}, 1, 4, 8},
    {2, {2, 1, 1}, {1, 1, 0}, {512, 512, 1}, 1, 1, 8},   {3, {2, 1, 1}, {1, 1, 1}, {256, 512, 512}, 1, 1, 8},
};

#define PLAN_KIB(n) ((unsigned long)(n) << 10)
#define PLAN_MIB(n) ((unsigned long)(n) << 20)

/* In the order in which they run. A block has 512 lanes; "wide": 1024; "many": more and smaller blocks. */
static const plan_row plan_rows[] = {
    {"start", PLAN_START, 0, 0, 0, PLAN_LARGEST, 0, 0, 1, 0, 0},

    {"copy", PLAN_COPY, 2, 0, 0, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"copy", PLAN_COPY, 2, 0, 0, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"peer-copy", PLAN_PEER_COPY, 2, 0, 0, 8, 0, 0, 100, 0, 0},
    {"peer-copy", PLAN_PEER_COPY, 2, 0, 0, PLAN_KIB(64), 0, 0, 100, 0, 0},
    {"peer-copy", PLAN_PEER_COPY, 2, 0, 0, PLAN_MIB(1), 0, 0, 100, 0, 0},
    {"peer-copy-bw", PLAN_PEER_COPY, 2, 0, 0, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"peer-copy-bw", PLAN_PEER_COPY, 2, 0, 0, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"both-copy", PLAN_BOTH_COPY, 2, 0, 0, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"both-copy", PLAN_BOTH_COPY, 2, 0, 0, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"both-stream", PLAN_BOTH_STREAM, 2, 0, 0, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"both-stream", PLAN_BOTH_STREAM, 2, 0, 0, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"both-put", PLAN_BOTH_PUT, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"both-put", PLAN_BOTH_PUT, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"both-put-many", PLAN_BOTH_PUT, 2, 8 * PLAN_DEVICE_BLOCKS, 256, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"put-1", PLAN_PUT, 2, 1, 512, PLAN_KIB(64), 0, 0, 400, 1, 0},
    {"put-1", PLAN_PUT, 2, 1, 512, PLAN_MIB(1), 0, 0, 40, 1, 0},
    {"put-1", PLAN_PUT, 2, 1, 512, PLAN_MIB(16), 0, 0, 4, 1, 0},
    {"put-16", PLAN_PUT, 2, 16, 512, PLAN_MIB(1), 0, 0, 400, 1, 0},
    {"put-16", PLAN_PUT, 2, 16, 512, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"put-16", PLAN_PUT, 2, 16, 512, PLAN_MIB(256), 0, 0, 4, 1, 0},
    {"put-all", PLAN_PUT, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(16), 0, 0, 100, 1, 0},
    {"put-all", PLAN_PUT, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"put-1-wide", PLAN_PUT, 2, 1, 1024, PLAN_MIB(16), 0, 0, 4, 1, 0},
    {"put-16-wide", PLAN_PUT, 2, 16, 1024, PLAN_MIB(256), 0, 0, 4, 1, 0},
    {"put-all-wide", PLAN_PUT, 2, PLAN_DEVICE_BLOCKS, 1024, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"put-all-many", PLAN_PUT, 2, 8 * PLAN_DEVICE_BLOCKS, 256, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"put-from-odd", PLAN_PUT, 2, 16, 512, PLAN_MIB(16), 1, 0, 4, 1, 0},
    {"put-to-odd", PLAN_PUT, 2, 16, 512, PLAN_MIB(16), 0, 1, 4, 1, 0},
    {"get-1", PLAN_GET, 2, 1, 512, PLAN_KIB(64), 0, 0, 400, 1, 0},
    {"get-1", PLAN_GET, 2, 1, 512, PLAN_MIB(1), 0, 0, 40, 1, 0},
    {"get-1", PLAN_GET, 2, 1, 512, PLAN_MIB(16), 0, 0, 4, 1, 0},
    {"get-16", PLAN_GET, 2, 16, 512, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"get-16", PLAN_GET, 2, 16, 512, PLAN_MIB(256), 0, 0, 4, 1, 0},
    {"get-all", PLAN_GET, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(16), 0, 0, 100, 1, 0},
    {"get-all", PLAN_GET, 2, PLAN_DEVICE_BLOCKS, 512, PLAN_MIB(256), 0, 0, 8, 1, 0},

    {"put-signal", PLAN_PUT_SIGNAL, 2, 1, 256, 8, 0, 0, 1000, 0, 0},
    {"put-signal", PLAN_PUT_SIGNAL, 2, 1, 256, PLAN_KIB(1), 0, 0, 1000, 0, 0},
    {"put-signal", PLAN_PUT_SIGNAL, 2, 1, 256, PLAN_KIB(8), 0, 0, 1000, 0, 0},
    {"put-signal", PLAN_PUT_SIGNAL, 2, 1, 256, PLAN_KIB(64), 0, 0, 500, 0, 0},
    {"message", PLAN_MESSAGE, 2, 1, 32, 8, 0, 0, 2000, 0, 0},
    {"message", PLAN_MESSAGE, 2, 1, 32, 64, 0, 0, 2000, 0, 0},
    {"fetch-add", PLAN_FETCH_ADD, 2, 1, 1, 8, 0, 0, 2000, 0, 0},
    {"barrier", PLAN_BARRIER, 0, 1, 128, 0, 0, 0, 1000, 0, 0},
    {"allreduce", PLAN_REDUCE, 0, 1, 128, 8, 0, 0, 1000, 0, 0},
    {"allreduce", PLAN_REDUCE, 0, 1, 128, 64, 0, 0, 1000, 0, 0},

    {"stream-put", PLAN_STREAM_PUT, 2, 0, 0, 8, 0, 0, 100, 0, 0},
    {"stream-put", PLAN_STREAM_PUT, 2, 0, 0, PLAN_KIB(64), 0, 0, 100, 0, 0},
    {"stream-put", PLAN_STREAM_PUT, 2, 0, 0, PLAN_MIB(1), 0, 0, 100, 0, 0},
    {"stream-put-bw", PLAN_STREAM_PUT, 2, 0, 0, PLAN_MIB(16), 0, 0, 40, 1, 0},
    {"stream-put-bw", PLAN_STREAM_PUT, 2, 0, 0, PLAN_MIB(256), 0, 0, 8, 1, 0},
    {"stream-signal", PLAN_STREAM_SIGNAL, 2, 0, 0, 8, 0, 0, 64, 0, 0},
    {"stream-signal", PLAN_STREAM_SIGNAL, 2, 0, 0, PLAN_MIB(1), 0, 0, 64, 0, 0},
    {"stream-barrier", PLAN_STREAM_BARRIER, 0, 0, 0, 0, 0, 0, 100, 0, 0},
    {"stream-reduce", PLAN_STREAM_REDUCE, 0, 0, 0, 8, 0, 0, 100, 0, 0},
    {"stream-reduce", PLAN_STREAM_REDUCE, 0, 0, 0, 64, 0, 0, 100, 0, 0},
    {"graph-reduce", PLAN_GRAPH_REDUCE, 0, 0, 0, 8, 0, 0, 160, 0, 0},
    {"graph-reduce", PLAN_GRAPH_REDUCE, 0, 0, 0, 64, 0, 0, 160, 0, 0},

    {"halo-3d", PLAN_HALO, 2, 0, 0, PLAN_KIB(12288), 0, 0, 60, 0, PLAN_3D},
    {"halo-3d-graph", PLAN_HALO_GRAPH, 2, 0, 0, PLAN_KIB(12288), 0, 0, 64, 0, PLAN_3D},
    {"halo-3d-copy", PLAN_HALO_COPY, 2, 0, 0, PLAN_KIB(12288), 0, 0, 60, 0, PLAN_3D},
    {"halo-3d-engine", PLAN_HALO_ENGINE, 2, 0, 0, PLAN_KIB(12288), 0, 0, 60, 0, PLAN_3D},
    {"halo-3d-mpi", PLAN_HALO_MPI, 2, 0, 0, PLAN_KIB(12288), 0, 0, 10, 0, PLAN_3D},
    {"halo-z", PLAN_HALO, 2, 0, 0, PLAN_MIB(4), 0, 0, 60, 0, PLAN_Z},
    {"halo-z-copy", PLAN_HALO_COPY, 2, 0, 0, PLAN_MIB(4), 0, 0, 60, 0, PLAN_Z},
    {"halo-x", PLAN_HALO, 2, 0, 0, PLAN_MIB(4), 0, 0, 60, 0, PLAN_X},
    {"halo-2d", PLAN_HALO, 2, 0, 0, PLAN_KIB(16), 0, 0, 100, 0, PLAN_2D},
    {"halo-2d-graph", PLAN_HALO_GRAPH, 2, 0, 0, PLAN_KIB(16), 0, 0, 160, 0, PLAN_2D},
    {"halo-2d-copy", PLAN_HALO_COPY, 2, 0, 0, PLAN_KIB(16), 0, 0, 100, 0, PLAN_2D},
    {"halo-2d-engine", PLAN_HALO_ENGINE, 2, 0, 0, PLAN_KIB(16), 0, 0, 100, 0, PLAN_2D},
    {"halo-2d-mpi", PLAN_HALO_MPI, 2, 0, 0, PLAN_KIB(16), 0, 0, 40, 0, PLAN_2D},
    {"halo-512", PLAN_HALO, 2, 0, 0, PLAN_MIB(8), 0, 0, 60, 0, PLAN_512},
    {"halo-512-graph", PLAN_HALO_GRAPH, 2, 0, 0, PLAN_MIB(8), 0, 0, 64, 0, PLAN_512},
    {"halo-512-engine", PLAN_HALO_ENGINE, 2, 0, 0, PLAN_MIB(8), 0, 0, 60, 0, PLAN_512},
    {"halo-512-mpi", PLAN_HALO_MPI, 2, 0, 0, PLAN_MIB(8), 0, 0, 10, 0, PLAN_512},

    {"finish", PLAN_FINISH, 0, 0, 0, PLAN_LARGEST, 0, 0, 1, 0, 0},
};

enum { PLAN_ROWS = sizeof plan_rows / sizeof *plan_rows, PLAN_IN_A_GRAPH = 16 };

/* What of a row takes part in a run of that many ranks, and of that kind. */
static inline int plan_applies(const plan_row *row, int ranks, int quick) {
    const int small = row->bytes <= PLAN_QUICK_LARGEST || row->work == PLAN_START || row->work == PLAN_FINISH;
    return (row->ranks == 0 || row->ranks == ranks) && (!quick || small);
}

/* Rows that NCCL can have, where no two ranks share a device. */
static inline int plan_is_nccls(const plan_row *row) {
    return row->work == PLAN_STREAM_SIGNAL || row->work == PLAN_STREAM_REDUCE || row->work == PLAN_GRAPH_REDUCE ||
           row->work == PLAN_HALO;
}

static inline int plan_iterations(const plan_row *row, int quick) {
    return quick && row->iterations > PLAN_QUICK_ITERATIONS ? PLAN_QUICK_ITERATIONS : row->iterations;
}

static inline int plan_warm(int quick) {
    return quick ? 1 : PLAN_WARM;
}

static inline unsigned long plan_largest(int quick) {
    return quick ? PLAN_QUICK_LARGEST : PLAN_LARGEST;
}

/* The part of a transfer that block `block` of `blocks` moves: multiples of 16 bytes but for the last. */
static inline unsigned long plan_slice(unsigned long bytes, int blocks) {
    return (bytes / (unsigned long)blocks + 15) & ~15ul;
}

#endif
