/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels through launch.h, on the simulated driver or a real one: every byte that should come comes, and none
 * beside it changes.
 */
#include "kernels_arena.h"

#include <string.h>

/* ---- COPY ---- */

static void copy(size_t to, size_t from, size_t bytes) {
    OK(pw_launch_copy(gpu, NULL, bare_pointer(target + to), bare_pointer(source + from), bytes, &bare_site));
    memcpy(wanted + to, given + from, bytes);
}

/* 32 x 32 offsets of source and target for one length: 1024 transfers, 512 bytes apart. */
static void copy_at_all_offsets(size_t bytes) {
    char what[64];
    begin(1024 * 512);
    for (size_t i = 0; i < 1024; i++)
        copy(512 * i + 64 + i % 32, 512 * (1023 - i) + 96 + i / 32, bytes);
    snprintf(what, sizeof what, "copies of %zu bytes", bytes);
    compare(1024 * 512, 512, what);
}

/*
 * All lengths up to where the last vector's position repeats, then those around multiples of 16 and of a block, since
 * the plan depends on length and offsets modulo 16 only.
 */
static void copies_at_any_offset(void) {
    for (size_t bytes = 0; bytes <= 300; bytes++)
        copy_at_all_offsets(bytes);
}

static void long_copies(void) {
    static const size_t lengths[] = {2047,           2048,   4096,     8191, 16 * 1024,
                                     16 * 1024 + 16, 100000, MIB - 17, MIB,  MIB + 17};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t offset = 0; offset < 32; offset += offset < 4 ? 1 : 7) {
            begin(2 * MIB);
            copy(4096 + offset, 8192, lengths[i]);
            compare(2 * MIB, 2 * MIB, "a long copy to an offset");
            begin(2 * MIB);
            copy(4096 + 5, 8192 + offset, lengths[i]);
            compare(2 * MIB, 2 * MIB, "a long copy from an offset");
        }
}

/* More than the device has blocks for, so that each block goes round several times. */
/* Sources that begin with the first byte of memory, or end with the last. */
static void copies_at_the_ends_of_memory(size_t bytes) {
    begin(256 * 512);
    for (size_t i = 0; i < 256; i++)
        copy(512 * i + 64 + i % 16, i / 16, bytes);
    compare(256 * 512, 512, "copies from the beginning of memory");
    begin(256 * 512);
    for (size_t i = 0; i < 256; i++)
        copy(512 * i + 64 + i % 16, ARENA - i / 16 - bytes, bytes);
    compare(256 * 512, 512, "copies from the end of memory");
}

/* The wide loads of a copy stay within its source, though they could go further without a fault. */
static void copies_read_their_source_only(void) {
    for (size_t bytes = 1; bytes < 100; bytes += 1 + bytes / 40)
        for (size_t i = 0; i < 256; i++) {
            begin(512);
            forbid_sources();
            allow_source(64 + i / 16, bytes);
            copy(64 + i % 16, 64 + i / 16, bytes);
            compare(512, 512, "a copy that reads nothing else");
            allow_sources();
        }
}

/* The same where the source is an allocation of its own, for tools that know how long it is. */
static void copies_from_short_allocations(void) {
    for (size_t bytes = 17; bytes < 350; bytes += 37) {
        CUdeviceptr own = 0;
        CU(bare.cuMemAlloc(&own, bytes));
        CU(bare.cuMemcpyHtoD(own, given, bytes));
        CU(bare.cuCtxSynchronize());
        begin(256 * 512);
        for (size_t i = 0; i < 256; i++) {
            const size_t to = 512 * i + 64 + i % 16, from = i / 16;
            OK(pw_launch_copy(gpu, NULL, bare_pointer(target + to), bare_pointer(own + from), bytes - from,
                              &bare_site));
            memcpy(wanted + to, given + from, bytes - from);
        }
        compare(256 * 512, 512, "copies from a short allocation");
        CU(bare.cuMemFree(own));
    }
}

static void a_copy_larger_than_the_device(void) {
    const int real = gpu->about.multiprocessors;
    gpu->about.multiprocessors = 1;
    begin(ARENA);
    copy(16, 32, ARENA - 64);
    compare(ARENA, ARENA, "an aligned copy by few blocks");
    begin(ARENA);
    copy(19, 33, ARENA - 77);
    compare(ARENA, ARENA, "a shifted copy by few blocks");
    gpu->about.multiprocessors = real;
}

static void nothing_is_copied_for_length_0(void) {
    peerwin_box none = {.count = {8, 0, 3}, .stride = {8, 8}};
    OK(pw_launch_copy(gpu, NULL, NULL, NULL, 0, &bare_site));
    OK(pw_launch_box(gpu, NULL, NULL, &none, NULL, &none, &bare_site));
}

/* ---- WORD ---- */

static void words_from_two_streams(void) {
    enum { TIMES = 200 };
    CUstream streams[2];
    uint64_t words[3];
    char *first = bare_pointer(target);
    for (int i = 0; i < 2; i++)
        CU(bare.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CU(bare.cuMemsetD8(target, 0, sizeof words));
    CU(bare.cuCtxSynchronize());
    for (uint64_t n = 1; n <= TIMES; n++)
        for (uint64_t i = 0; i < 2; i++) {
            OK(pw_launch_add(gpu, streams[i], first, i ? UINT64_C(1) << 32 : 1, &bare_site));
            OK(pw_launch_store(gpu, streams[i], first + 8 + 8 * i, n << 33 | i, &bare_site));
        }
    for (int i = 0; i < 2; i++) {
        CU(bare.cuStreamSynchronize(streams[i]));
        CU(bare.cuStreamDestroy(streams[i]));
    }
    CU(bare.cuMemcpyDtoH(words, target, sizeof words));
    CHECK(words[0] == ((uint64_t)TIMES << 32 | TIMES));
    CHECK(words[1] == (uint64_t)TIMES << 33);
    CHECK(words[2] == ((uint64_t)TIMES << 33 | 1));
}

/* What was copied before the word on the stream is there for a host that sees the word. */
static void a_word_in_host_memory_releases_the_data(void) {
    enum { BYTES = 100 };
    unsigned char *host = NULL;
    void *memory = NULL;
    CU(bare.cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    host = memory;
    memset(host, 0, 4096);
    uint64_t *word = (uint64_t *)(void *)host;
    OK(pw_launch_copy(gpu, NULL, host + 77, bare_pointer(source + 5), BYTES, &bare_site));
    OK(pw_launch_add(gpu, NULL, word, 41, &bare_site));
    OK(pw_launch_add(gpu, NULL, word, UINT64_MAX, &bare_site));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 40)
        ;
    CHECK(memcmp(host + 77, given + 5, BYTES) == 0 && host[76] == 0 && host[77 + BYTES] == 0);
    CU(bare.cuCtxSynchronize());
    CU(bare.cuMemFreeHost(memory));
}

/* ---- DISTANCE ---- */

/* Every place has a figure, no other does, and the places are as before. */
static void distances_are_measured(void) {
    enum { PLACES = 32, STEP = 4096 + 128, ANSWER = PLACES * STEP };
    pw_launch_distance what = {.first = bare_pointer(target),
                               .out = bare_pointer(target + ANSWER),
                               .step = STEP,
                               .num_lines = 3,
                               .lines = {0, 256, 2048}};
    uint64_t cycles[PLACES];
    begin(ANSWER);
    CU(bare.cuMemsetD8(target, 5, ANSWER));
    memset(wanted, 5, ANSWER);
    for (what.count = PLACES; what.count > 0; what.count /= 2) {
        CU(bare.cuMemsetD8(target + ANSWER, 0xff, sizeof cycles));
        OK(pw_gpu_measure_distance(gpu, &what, &bare_site));
        CU(bare.cuMemcpyDtoH(cycles, target + ANSWER, sizeof cycles));
        for (unsigned place = 0; place < PLACES; place++)
            CHECK((cycles[place] == UINT64_MAX) == (place >= what.count));
    }
    compare(ANSWER, STEP, "places that were looked at");
}

/* ---- all ---- */

static void transfers(void) {
    arenas_made();
    nothing_is_copied_for_length_0();
    copies_at_any_offset();
    for (size_t bytes = 1; bytes < 100; bytes++)
        copies_at_the_ends_of_memory(bytes);
    copies_read_their_source_only();
    copies_from_short_allocations();
    long_copies();
    a_copy_larger_than_the_device();
    boxes_are_right();
    words_from_two_streams();
    a_word_in_host_memory_releases_the_data();
    distances_are_measured();
    arenas_freed();
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DRIVER\n", argv[0]);
        return 2;
    }
    gpu = bare_open(argv[1]);
    const int simulated = bare_simcuda("simcuda_live") != NULL;
    if (simulated)
        loading_is_right();
    transfers();
    printf("kernels are right on %s\n", gpu->about.name);
    bare_close(gpu);
    if (simulated)
        nothing_is_left();
    return 0;
}
