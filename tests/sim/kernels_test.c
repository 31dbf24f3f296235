/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels through launch.h, on the simulated driver or a real one: every byte that should come comes, and none
 * beside it changes. Targets lie in one arena that is read back whole and compared with what plain loops make of the
 * same transfers.
 */
#include "bare.h"
#include "simcuda.h"

#include "memory/launch.h"

#include <inttypes.h>
#include <string.h>

enum { GUARD = 0xa5, MIB = 1 << 20, ARENA = 4 * MIB };

static pw_gpu gpu;
static CUdeviceptr source, target;          /* ARENA bytes each */
static unsigned char *given, *wanted, *got; /* the source, and the target as it should be and is */
static size_t (*live)(enum simcuda_kind);   /* NULL with a real driver */
static void (*fail_call)(const char *, unsigned long, int, int);
static void (*forget_failures)(void);
static int (*injected)(void);

static void fetch_simcuda(const char *name, void *pointer) {
    void *entry = bare_simcuda(name);
    memcpy(pointer, &entry, sizeof entry);
}

/* ---- the arena ---- */

static void arenas_made(void) {
    uint32_t random = 1;
    given = malloc(ARENA);
    wanted = malloc(ARENA);
    got = malloc(ARENA);
    CHECK(given && wanted && got);
    for (size_t i = 0; i < ARENA; i++) {
        random = random * 1664525u + 1013904223u;
        given[i] = (unsigned char)(random >> 24);
    }
    CU(bare.cuMemAlloc(&source, ARENA));
    CU(bare.cuMemAlloc(&target, ARENA));
    CU(bare.cuMemcpyHtoD(source, given, ARENA));
    CU(bare.cuCtxSynchronize());
}

static void arenas_freed(void) {
    CU(bare.cuMemFree(source));
    CU(bare.cuMemFree(target));
    free(given);
    free(wanted);
    free(got);
}

static void begin(size_t bytes) {
    memset(wanted, GUARD, bytes);
    CU(bare.cuMemsetD8(target, GUARD, bytes));
}

/* Tells where the first wrong byte is; `spacing` is between the transfers. */
static void compare(size_t bytes, size_t spacing, const char *what) {
    CU(bare.cuCtxSynchronize());
    CU(bare.cuMemcpyDtoH(got, target, bytes));
    if (memcmp(got, wanted, bytes) == 0)
        return;
    size_t at = 0;
    while (got[at] == wanted[at])
        at++;
    fprintf(stderr, "%s: transfer %zu, byte %zu: %02x instead of %02x\n", what, at / spacing, at % spacing, got[at],
            wanted[at]);
    exit(1);
}

/* ---- COPY ---- */

static void copy(size_t to, size_t from, size_t bytes) {
    OK(pw_launch_copy(&gpu, NULL, bare_pointer(target + to), bare_pointer(source + from), bytes, &bare_site));
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
static void a_copy_larger_than_the_device(void) {
    const int real = gpu.about.multiprocessors;
    gpu.about.multiprocessors = 1;
    begin(ARENA);
    copy(16, 32, ARENA - 64);
    compare(ARENA, ARENA, "an aligned copy by few blocks");
    begin(ARENA);
    copy(19, 33, ARENA - 77);
    compare(ARENA, ARENA, "a shifted copy by few blocks");
    gpu.about.multiprocessors = real;
}

static void nothing_is_copied_for_length_0(void) {
    peerwin_box none = {.count = {8, 0, 3}, .stride = {8, 8}};
    OK(pw_launch_copy(&gpu, NULL, NULL, NULL, 0, &bare_site));
    OK(pw_launch_box(&gpu, NULL, NULL, &none, NULL, &none, &bare_site));
}

/* ---- BOX ---- */

static uint32_t random_state = 12345;

static size_t below(size_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

/* Bytes that a box spans from its first on. */
static size_t span(const peerwin_box *box) {
    return box->count[0] + (box->count[1] - 1) * box->stride[0] + (box->count[2] - 1) * box->stride[1];
}

static void box_as_a_loop(const peerwin_box *to, const peerwin_box *from) {
    for (size_t plane = 0; plane < to->count[2]; plane++)
        for (size_t row = 0; row < to->count[1]; row++)
            memcpy(wanted + to->offset + row * to->stride[0] + plane * to->stride[1],
                   given + from->offset + row * from->stride[0] + plane * from->stride[1], to->count[0]);
}

static void box(const peerwin_box *to, const peerwin_box *from, const char *what) {
    const size_t end = to->offset + span(to) + 512;
    CHECK(end <= ARENA && from->offset + span(from) <= ARENA);
    begin(end);
    box_as_a_loop(to, from);
    OK(pw_launch_box(&gpu, NULL, bare_pointer(target), to, bare_pointer(source), from, &bare_site));
    compare(end, end, what);
}

/* Pitches of `unit` bytes that leave rows apart, or with luck without a gap. */
static void give_pitches(peerwin_box *b, size_t unit) {
    b->stride[0] = b->count[0] + unit * below(below(2) ? 1 : 20);
    b->stride[1] = b->stride[0] * b->count[1] + unit * below(below(2) ? 1 : 50);
    b->offset = 256 + unit * below(64);
}

static void random_boxes(int times) {
    static const size_t units[] = {1, 2, 4, 8, 16};
    for (int i = 0; i < times; i++) {
        const size_t unit = units[below(5)];
        const size_t cells = 1 + below(i % 4 == 0 ? 3 : i % 4 == 1 ? 20 : 200);
        peerwin_box to = {.count = {unit * cells, 1 + below(30), 1 + below(12)}};
        peerwin_box from = to;
        give_pitches(&to, unit);
        give_pitches(&from, unit);
        if (i % 5 == 0)
            from.stride[0] = unit * below(8); /* rows of the source may overlap, or be the same */
        char what[160];
        snprintf(what, sizeof what, "box %d: %zu x %zu x %zu bytes, to %zu:%zu:%zu from %zu:%zu:%zu", i, to.count[0],
                 to.count[1], to.count[2], to.offset, to.stride[0], to.stride[1], from.offset, from.stride[0],
                 from.stride[1]);
        box(&to, &from, what);
    }
}

/* The faces of a field of 40 x 44 x 48 doubles with ghosts one element wide. */
static void faces_of_a_field(void) {
    static const struct {
        const char *name;
        size_t count[3], to, from;
    } faces[] = {{"x-face", {8, 42, 38}, 0, 46},
                 {"y-face", {8 * 46, 1, 38}, 1, 42 * 48 + 1},
                 {"z-face", {8 * 46, 42, 1}, 1, 49}};
    const size_t row = 48 * 8, plane = 44 * row;
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++) {
        peerwin_box to = {.offset = plane + row + 8 * faces[i].to, .stride = {row, plane}};
        peerwin_box from = {.offset = plane + row + 8 * faces[i].from, .stride = {row, plane}};
        memcpy(to.count, faces[i].count, sizeof to.count);
        memcpy(from.count, faces[i].count, sizeof from.count);
        box(&to, &from, faces[i].name);
        from.offset += 3; /* as if the field began anywhere */
        box(&to, &from, faces[i].name);
    }
}

static void boxes_by_few_blocks(void) {
    const int real = gpu.about.multiprocessors;
    gpu.about.multiprocessors = 1;
    peerwin_box thin = {.offset = 8, .count = {8, 300, 200}, .stride = {32, 9728}};
    peerwin_box from_thin = {.offset = 24, .count = {8, 300, 200}, .stride = {16, 4832}};
    box(&thin, &from_thin, "a thin box by few blocks");
    peerwin_box wide = {.offset = 9, .count = {3000, 20, 30}, .stride = {3333, 66667}};
    peerwin_box from_wide = {.offset = 21, .count = {3000, 20, 30}, .stride = {3021, 60543}};
    box(&wide, &from_wide, "a wide box by few blocks");
    gpu.about.multiprocessors = real;
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
            OK(pw_launch_add(&gpu, streams[i], first, i ? UINT64_C(1) << 32 : 1, &bare_site));
            OK(pw_launch_store(&gpu, streams[i], first + 8 + 8 * i, n << 33 | i, &bare_site));
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
    OK(pw_launch_copy(&gpu, NULL, host + 77, bare_pointer(source + 5), BYTES, &bare_site));
    OK(pw_launch_add(&gpu, NULL, word, 41, &bare_site));
    OK(pw_launch_add(&gpu, NULL, word, UINT64_MAX, &bare_site));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 40)
        ;
    CHECK(memcmp(host + 77, given + 5, BYTES) == 0 && host[76] == 0 && host[77 + BYTES] == 0);
    CU(bare.cuCtxSynchronize());
    CU(bare.cuMemFreeHost(memory));
}

/* ---- loading ---- */

static void snapshot(size_t counts[SIMCUDA_KINDS]) {
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++)
        counts[kind] = live((enum simcuda_kind)kind);
}

/* Each call of the driver fails in turn, until a run has none left to fail. */
static void loading_fails_without_a_trace(void) {
    size_t before[SIMCUDA_KINDS], after[SIMCUDA_KINDS];
    unsigned long runs = 0;
    snapshot(before);
    for (unsigned long n = 1;; n++) {
        fail_call(NULL, n, CUDA_ERROR_OUT_OF_MEMORY, 0);
        peerwin_status status = pw_kernels_load(&gpu, &bare_site);
        const int failed = injected();
        forget_failures();
        if (!failed) {
            OK(status);
            pw_kernels_unload(&gpu);
            break;
        }
        runs++;
        CHECK(status == PEERWIN_ERR_NO_MEMORY || status == PEERWIN_ERR_UNSUPPORTED);
        CHECK(strstr(peerwin_last_error(), "cu") || strstr(peerwin_last_error(), "without nvcc"));
        CHECK(!gpu.module && !gpu.kernels[0]);
        snapshot(after);
        CHECK(memcmp(before, after, sizeof before) == 0);
    }
    CHECK(runs >= 1 + 2 * PW_NUM_KERNELS);
    printf("%lu failures of loading\n", runs);
}

static void a_failed_launch_says_so(void) {
    fail_call("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, 0);
    CHECK(pw_launch_add(&gpu, NULL, bare_pointer(target), 1, &bare_site) == PEERWIN_ERR_CONTEXT_LOST);
    CHECK(strstr(peerwin_last_error(), "cuLaunchKernel failed with CUDA_ERROR_LAUNCH_FAILED"));
    forget_failures();
}

/* The text in place of an image is what a real driver refuses, and the library must say why. */
static void an_image_for_no_driver_says_so(void) {
    fail_call("cuModuleLoadData", 1, CUDA_ERROR_INVALID_IMAGE, 0);
    peerwin_status status = pw_kernels_load(&gpu, &bare_site);
    forget_failures();
#ifdef TEST_WITH_NVCC
    CHECK(status == PEERWIN_ERR_CUDA);
    CHECK(strstr(peerwin_last_error(), "cuModuleLoadData failed with CUDA_ERROR_INVALID_IMAGE"));
#else
    CHECK(status == PEERWIN_ERR_UNSUPPORTED);
    CHECK(strstr(peerwin_last_error(), "built without nvcc"));
#endif
}

/* ---- all ---- */

static void transfers(void) {
    OK(pw_kernels_load(&gpu, &bare_site));
    arenas_made();
    nothing_is_copied_for_length_0();
    copies_at_any_offset();
    long_copies();
    a_copy_larger_than_the_device();
    faces_of_a_field();
    random_boxes(600);
    boxes_by_few_blocks();
    words_from_two_streams();
    a_word_in_host_memory_releases_the_data();
    if (live)
        a_failed_launch_says_so();
    arenas_freed();
    pw_kernels_unload(&gpu);
}

int main(int argc, char **argv) {
    size_t before[SIMCUDA_KINDS], after[SIMCUDA_KINDS];
    if (argc != 2) {
        fprintf(stderr, "usage: %s DRIVER\n", argv[0]);
        return 2;
    }
    bare_open(argv[1], &gpu);
    fetch_simcuda("simcuda_live", &live);
    fetch_simcuda("simcuda_fail", &fail_call);
    fetch_simcuda("simcuda_reset", &forget_failures);
    fetch_simcuda("simcuda_injected", &injected);
    if (live) {
        snapshot(before);
        loading_fails_without_a_trace();
        an_image_for_no_driver_says_so();
    }
    transfers();
    if (live) {
        snapshot(after);
        CHECK(memcmp(before, after, sizeof before) == 0);
    }
    bare_close(&gpu);
    printf("kernels are right on %s\n", gpu.about.name);
    return 0;
}
