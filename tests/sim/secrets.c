/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whoever holds a handle can map the memory, so none is shown: what all ranks write at log level debug, and what
 * failing calls say, is searched for the real handles, descriptors and nonces of the run, in every usual way to write
 * them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "script.h"
#include "spy.h"
#include "support/listen.h"
#include "support/memory.h"
#include "support/ranges.h"

/* ------------------------------------------------------------------------------------------------- the secrets */

enum { MOST_NONCES = 256 };

static struct {
    spy_note notes[SPY_MOST];
    int num_notes;
    unsigned char nonces[MOST_NONCES][16];
    size_t nonce_bytes[MOST_NONCES];
    int num_nonces;
    int alloc; /* a window is being made: 8 random bytes are its nonce, and else the number of a context */
} secrets;

ssize_t __real_getrandom(void *buffer, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags);

/* All nonces come from here: the linker lets the library call it. */
ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags) {
    ssize_t got = __real_getrandom(buffer, bytes, flags);
    if (got == (ssize_t)bytes && (bytes == 16 || (bytes == 8 && secrets.alloc)) && secrets.num_nonces < MOST_NONCES) {
        memcpy(secrets.nonces[secrets.num_nonces], buffer, bytes);
        secrets.nonce_bytes[secrets.num_nonces++] = bytes;
    }
    return got;
}

static void take_notes(void) {
    int (*notes)(spy_note * notes_out) = NULL;
    void *entry = device_simulated(SPY_NOTES);
    CHECK(entry != NULL);
    memcpy(&notes, &entry, sizeof(entry));
    secrets.num_notes = notes(secrets.notes);
}

/* -------------------------------------------------------------------------------------------------- the search */

/* As hexadecimal digits, forwards or backwards (as a number of a little-endian machine is written). */
static void write_hex(char *to, const unsigned char *bytes, size_t count, int backwards) {
    for (size_t i = 0; i < count; i++) {
        snprintf(to + 2 * i, 3, "%02x", bytes[backwards ? count - 1 - i : i]);
    }
}

static int is_telling(const unsigned char *bytes, size_t count) {
    int different = 0;
    for (size_t i = 1; i < count; i++) {
        different += bytes[i] != bytes[0] && bytes[i] != 0;
    }
    return different >= 3;
}

/* Any 5 bytes in a row are enough to know that these are they. */
static int shows_bytes(const char *text, const unsigned char *bytes, size_t count) {
    enum { RUN = 5 };
    char hex[2 * RUN + 1];
    for (size_t i = 0; i + RUN <= count; i++) {
        if (!is_telling(bytes + i, RUN)) {
            continue;
        }
        for (int backwards = 0; backwards < 2; backwards++) {
            write_hex(hex, bytes + i, RUN, backwards);
            if (test_text_has(text, hex)) {
                return 1;
            }
        }
    }
    return 0;
}

static int shows_number(const char *text, uint64_t number) {
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    for (const char *at = strstr(text, digits); at != NULL; at = strstr(at + 1, digits)) {
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length])) {
            return 1;
        }
    }
    return 0;
}

static int shows_word(const char *text, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        if (word > 1u << 30 && shows_number(text, word)) {
            return 1;
        }
    }
    return 0;
}

static void check_silent(const char *text, const char *what) {
    for (int i = 0; i < secrets.num_notes; i++) {
        const spy_note *n = &secrets.notes[i];
        if (n->length == 0 ? shows_number(text, (uint64_t)n->fd)
                           : shows_bytes(text, n->bytes, n->length) || shows_word(text, n->bytes, n->length)) {
            test_fail(__FILE__, __LINE__, "%s shows what %s gave: %s", what, n->call, text);
        }
    }
    for (int i = 0; i < secrets.num_nonces; i++) {
        if (shows_bytes(text, secrets.nonces[i], secrets.nonce_bytes[i]) ||
            shows_word(text, secrets.nonces[i], secrets.nonce_bytes[i])) {
            test_fail(__FILE__, __LINE__, "%s shows a nonce: %s", what, text);
        }
    }
}

/* The search itself finds what is there. */
static void check_search(void) {
    unsigned char bytes[16] = {0, 0, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x23, 0x45, 9, 8, 7, 0, 0, 0, 0};
    CHECK(shows_bytes("handle DEADBEEF0123", bytes, sizeof(bytes)));
    CHECK(shows_bytes("0x230301efbeadde and 2301efbead", bytes, sizeof(bytes)));
    CHECK(!shows_bytes("handle deadbeff0123 0000000000", bytes, sizeof(bytes)));
    CHECK(shows_number("fd=7001,", 7001) && !shows_number("17001 70011", 7001));
}

/* ------------------------------------------------------------------------------------------------------ the runs */

/* Everything that gives something away, and says something. */
static void live(unsigned handles, void *memory, size_t bytes) {
    peerwin_config config;
    peerwin_win_config options;
    peerwin_ctx *ctx = NULL;
    peerwin_win *win = NULL;
    peerwin_win *attached = NULL;
    peerwin_config_init(&config);
    peerwin_win_config_init(&options);
    config.space = PEERWIN_SPACE_CUDA;
    config.handles = handles;
    if (peerwin_init(MPI_COMM_WORLD, &config, &ctx) != PEERWIN_OK) {
        fprintf(stderr, "init: %s\n", peerwin_last_error());
        return;
    }
    secrets.alloc = 1;
    if (peerwin_win_alloc(ctx, 100000, &options, &win) != PEERWIN_OK ||
        (memory != NULL && peerwin_win_attach(ctx, memory, bytes, NULL, &attached) != PEERWIN_OK)) {
        fprintf(stderr, "window: %s\n", peerwin_last_error());
    }
    secrets.alloc = 0;
    if (peerwin_win_free(attached) != PEERWIN_OK || peerwin_win_free(win) != PEERWIN_OK ||
        peerwin_finalize(ctx) != PEERWIN_OK) {
        fprintf(stderr, "end: %s\n", peerwin_last_error());
    }
}

/* `call` fails on the last rank, if it is not NULL. `gives` is what must have given something away meanwhile. */
static void check_run(unsigned handles, void *memory, size_t bytes, const char *call, const char *gives) {
    int given = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    listener l = listen_begin();
    if (call != NULL && job.rank == job.size - 1) {
        script_fail(call, 2, CUDA_ERROR_UNKNOWN);
    }
    live(handles, memory, bytes);
    if (call != NULL && job.rank == job.size - 1) {
        script_end();
    }
    char *mine = listen_end(&l);
    char *all = listen_all(mine);
    take_notes();
    for (int i = 0; i < secrets.num_notes; i++) {
        given += strcmp(secrets.notes[i].call, gives) == 0;
    }
    CHECK(given > 0 && secrets.num_nonces > 0);
    CHECK(strlen(mine) > 50);
    check_silent(all, "the log");
    free(mine);
    free(all);
}

static void no_handle_descriptor_or_nonce_is_ever_shown(void) {
    struct rlimit limit;
    check_search();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (test_agree_skip(limit.rlim_max < SPY_FIRST_FD + 1000, "there are too few descriptors to tell them apart")) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    test_env("PEERWIN_LOG", "debug");
    void *plain = device_new(1 << 20);
    range r = range_new(2, range_granularity(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemoryPool pool = pool_new();
    void *pooled = pool_take(pool, 1 << 20);
    check_run(PEERWIN_HANDLE_LEGACY, plain, 1 << 20, NULL, "cuIpcGetMemHandle");
    check_run(PEERWIN_HANDLE_FD, r.base, r.bytes, NULL, "cuMemExportToShareableHandle");
    check_run(PEERWIN_HANDLE_FABRIC, NULL, 0, NULL, "cuMemExportToShareableHandle");
    check_run(0, pooled, 1 << 20, NULL, "cuMemPoolExportPointer");
    check_run(PEERWIN_HANDLE_LEGACY, plain, 1 << 20, "cuIpcOpenMemHandle", "cuIpcGetMemHandle");
    check_run(PEERWIN_HANDLE_FD, r.base, r.bytes, "cuMemImportFromShareableHandle", "cuMemExportToShareableHandle");
    check_run(PEERWIN_HANDLE_FABRIC, NULL, 0, "cuMemImportFromShareableHandle", "cuMemExportToShareableHandle");
    check_run(0, pooled, 1 << 20, "cuMemPoolImportPointer", "cuMemPoolExportPointer");
    test_env("PEERWIN_LOG", NULL);
    ordered_free(pooled);
    pool_free(pool);
    range_free(&r);
    device_free(plain);
}

static const test_case cases[] = {
    TEST_CASE(no_handle_descriptor_or_nonce_is_ever_shown, 2, 0),
};

int main(int argc, char **argv) {
    test_begin(argc, argv);
    live(PEERWIN_HANDLE_FABRIC, NULL, 0); /* the simulated driver has a thread for fabric handles from their first on */
    test_run(cases[0].name, cases[0].run);
    return test_end();
}
