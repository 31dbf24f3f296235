/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The watchdog; see watchdog.h.
 *
 * What streams await is kept per slot: the value that was awaited last. It is released by that value + 2^62, which
 * satisfies every wait for a value within 2^62 of it, so earlier waits and later ones, too; streams compare cyclically.
 * A peer's stream may still store an old value after that, so the words are written again and again.
 *
 * The table has one writer, the thread inside the context: a slot enters the list of those in use after its value is
 * there (release), the watchdog reads the list's length first (acquire). It calls no MPI, and all driver calls of its
 * thread come after the context broke.
 */
#include "window/watchdog.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "memory/urgent.h"
#include "window/window.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* A broken context is noticed within PERIOD_MS; a peer's death wakes at once. */
enum { PERIOD_MS = 100, RELEASE_MS = 1000, SETTLE_MS = 20 };
enum { HASTY_NS = 100000, ROUND_NS = 1000000, LEISURE_NS = 10000000 };

enum { SLOTS = PW_ARENA_SIGNALS_BYTES / 8, WORDS = 128, DESCRIBED = 3 };

typedef struct {
    _Atomic uint64_t value;
    uint64_t turn; /* when it was awaited last, 0 = never; of the thread inside the context alone */
} expected;

struct pw_watchdog {
    peerwin_ctx *ctx;
    pw_urgent *urgent;
    char *signals;           /* of my arena */
    expected *slots;         /* what is awaited, by slot of the arena; few pages of it are ever touched */
    uint32_t *list;          /* the slots that were ever awaited */
    _Atomic uint32_t listed; /* how many */
    uint64_t turns;          /* so many signals were awaited */
    _Atomic int lines;       /* barriers by memory operations have been given to streams, ... */
    _Atomic uint64_t epoch;  /* ... up to this one */
    _Atomic int phases;      /* captured ones have */
    _Atomic int kernels;     /* barriers or all-reduces by kernels have */
    pthread_t thread;        /* if `running` */
    int running;
    _Atomic int stopping;
    _Atomic int mpi_ended;
    struct pollfd *polls; /* what wakes the thread to stop it, then per rank a pidfd of its own, or -1 */
};

/* ---- what is awaited */

void pw_watchdog_expect_signal(peerwin_ctx *ctx, const uint64_t *slot, uint64_t value) {
    pw_watchdog *dog = ctx->watchdog;
    if (!dog)
        return;
    size_t index = (size_t)((const char *)slot - dog->signals) / sizeof *slot;
    if (index >= SLOTS)
        return;
    atomic_store_explicit(&dog->slots[index].value, value, memory_order_relaxed);
    int known = dog->slots[index].turn != 0;
    dog->slots[index].turn = ++dog->turns;
    if (known)
        return;
    uint32_t listed = atomic_load_explicit(&dog->listed, memory_order_relaxed);
    dog->list[listed] = (uint32_t)index;
    atomic_store_explicit(&dog->listed, listed + 1, memory_order_release);
}

void pw_watchdog_expect_barrier(peerwin_ctx *ctx, uint64_t epoch) {
    if (!ctx->watchdog)
        return;
    atomic_store_explicit(&ctx->watchdog->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&ctx->watchdog->lines, 1, memory_order_release);
}

void pw_watchdog_expect_phases(peerwin_ctx *ctx) {
    if (ctx->watchdog)
        atomic_store_explicit(&ctx->watchdog->phases, 1, memory_order_relaxed);
}

void pw_watchdog_expect_kernels(peerwin_ctx *ctx) {
    if (ctx->watchdog)
        atomic_store_explicit(&ctx->watchdog->kernels, 1, memory_order_relaxed);
}

static uint64_t releasing(uint64_t awaited) {
    return awaited + ((uint64_t)1 << 62);
}

static char *my_arena(const pw_watchdog *dog) {
    return dog->ctx->peers[dog->ctx->rank].arena;
}

/* From then on no kernel waits any more, be it the library's or the program's. */
static void stop_kernels(const pw_watchdog *dog) {
    const pw_urgent_word word = {&pw_arena_control_of(my_arena(dog), &dog->ctx->arena_layout)->broken,
                                 pw_ctx_broken(dog->ctx)};
    pw_urgent_write(dog->urgent, &word, 1);
}

/* Writes `value` into `lines` lines of my arena, from `first` on. */
static void release_lines(const pw_watchdog *dog, size_t first, int lines, uint64_t value) {
    pw_urgent_word words[WORDS];
    size_t count = 0;
    for (int line = 0; line < lines; line++) {
        words[count++] = (pw_urgent_word){my_arena(dog) + first + (size_t)line * PW_LINE, value};
        if (count == WORDS || line == lines - 1) {
            pw_urgent_write(dog->urgent, words, count);
            count = 0;
        }
    }
}

static void release_barriers(const pw_watchdog *dog) {
    const pw_arena_layout *layout = &dog->ctx->arena_layout;
    if (atomic_load_explicit(&dog->lines, memory_order_acquire))
        release_lines(dog, layout->barrier_lines, dog->ctx->size,
                      releasing(atomic_load_explicit(&dog->epoch, memory_order_relaxed)));
    if (atomic_load_explicit(&dog->phases, memory_order_relaxed))
        release_lines(dog, layout->phase_flags, 2 * dog->ctx->size, releasing(1));
}

static void release_slots(const pw_watchdog *dog) {
    pw_urgent_word words[WORDS];
    size_t count = 0;
    uint32_t listed = atomic_load_explicit(&dog->listed, memory_order_acquire);
    for (uint32_t i = 0; i < listed; i++) {
        uint32_t index = dog->list[i];
        uint64_t value = atomic_load_explicit(&dog->slots[index].value, memory_order_relaxed);
        words[count++] = (pw_urgent_word){dog->signals + (size_t)index * sizeof value, releasing(value)};
        if (count == WORDS || i == listed - 1) {
            pw_urgent_write(dog->urgent, words, count);
            count = 0;
        }
    }
}

void pw_watchdog_release(const peerwin_ctx *ctx) {
    const pw_watchdog *dog = ctx->watchdog;
    if (!dog || !pw_urgent_is_idle(dog->urgent))
        return;
    stop_kernels(dog);
    release_barriers(dog);
    release_slots(dog);
}

/*
 * How long until the next round. The first second is for what streams wait for now. It goes on after that, at leisure:
 * a peer that lives may still send an old signal, a call that found the context whole may still be on its way to a
 * stream. Graphs that wait in phases reset the flags themselves, so that each replay takes a round of its own.
 */
static long pause_ns(const pw_watchdog *dog, int64_t until) {
    int phases = atomic_load(&dog->phases);
    if (pw_now() < until)
        return phases ? HASTY_NS : ROUND_NS;
    return phases ? ROUND_NS : LEISURE_NS;
}

/*
 * As long as the context is there: when the last stream has drained, only the driver knows. In a program that forgot
 * the context, and is about to end, the driver is left alone.
 */
static void release_to_the_end(const pw_watchdog *dog) {
    int64_t until = pw_now() + RELEASE_MS * PW_MS;
    while (!atomic_load(&dog->stopping) && (pw_now() < until || !atomic_load(&dog->mpi_ended))) {
        pw_watchdog_release(dog->ctx);
        (void)nanosleep(&(const struct timespec){.tv_nsec = pause_ns(dog, until)}, NULL);
    }
}

/* That MPI ended breaks the context for calls, and streams may still get what they wait for. */
static int is_broken(const peerwin_ctx *ctx) {
    pw_cause cause = pw_ctx_broken(ctx);
    return cause != 0 && pw_cause_status(cause) != PEERWIN_ERR_STATE;
}

void pw_watchdog_look(peerwin_ctx *ctx) {
    const peerwin_status why = pw_gpu_gave_up(ctx->gpu);
    if (why != PEERWIN_OK && pw_ctx_broken(ctx) == 0)
        pw_ctx_break(ctx, pw_cause_make(why, ctx->rank));
}

void pw_watchdog_settle(peerwin_ctx *ctx) {
    const pw_site *site = PW_SITE("peerwin_finalize", "release", ctx->rank, PW_NONE);
    int64_t until = pw_now() + RELEASE_MS * PW_MS;
    peerwin_status status = PEERWIN_ERR_TIMEOUT;
    while (status == PEERWIN_ERR_TIMEOUT && pw_now() < until) {
        if (is_broken(ctx))
            pw_watchdog_release(ctx);
        status = pw_gpu_quiesce_within(ctx->gpu, SETTLE_MS, site);
    }
    if (status != PEERWIN_OK)
        pw_log(PW_LOG_WARN, ctx->rank, "memory is given up while the device may use it: %s", peerwin_last_error());
}

/* ---- what is still missing */

/* The slot that was awaited last before `turn`. */
static const expected *latest_before(const pw_watchdog *dog, uint64_t turn) {
    const expected *latest = NULL;
    uint32_t listed = atomic_load_explicit(&dog->listed, memory_order_relaxed);
    for (uint32_t i = 0; i < listed; i++) {
        const expected *slot = &dog->slots[dog->list[i]];
        if (slot->turn < turn && (!latest || slot->turn > latest->turn))
            latest = slot;
    }
    return latest;
}

static const peerwin_win *window_at(const peerwin_ctx *ctx, size_t offset) {
    const peerwin_win *win = ctx->windows;
    while (win && (offset < win->pad_offset || offset - win->pad_offset >= win->num_signals * sizeof(uint64_t)))
        win = win->next;
    return win;
}

static int is_missing(uint64_t value, uint64_t awaited) {
    return (int64_t)(value - awaited) < 0;
}

static int describe_slot(const pw_watchdog *dog, const expected *slot, char *text, size_t bytes, const pw_site *site) {
    peerwin_ctx *ctx = dog->ctx;
    uint64_t value = 0;
    uint64_t awaited = atomic_load_explicit(&slot->value, memory_order_relaxed);
    size_t place = (size_t)(slot - dog->slots) * sizeof value;
    const peerwin_win *win = window_at(ctx, ctx->arena_layout.signals + place);
    if (!win || pw_gpu_read(ctx->gpu, &value, dog->signals + place, sizeof value, site) != PEERWIN_OK ||
        !is_missing(value, awaited))
        return 0;
    return snprintf(text, bytes, "; signal slot %zu of window %u is %" PRIu64 ", awaited is %" PRIu64,
                    (ctx->arena_layout.signals + place - win->pad_offset) / sizeof value, pw_win_ordinal(win), value,
                    awaited);
}

/* Adds a rank to a list of those that are missing, which begins anew at *used == 0. */
static void add_missing(char *text, size_t bytes, size_t *used, size_t rank) {
    if (*used < bytes)
        *used += (size_t)snprintf(text + *used, bytes - *used, *used == 0 ? "; not arrived: rank %zu" : " %zu", rank);
}

/* The words at the beginning of lines in my arena, `bytes` apart, NULL on failure: each read waits for the device. */
static uint64_t *read_words(const pw_watchdog *dog, size_t first, size_t count, size_t apart, const pw_site *site) {
    size_t words = apart / sizeof(uint64_t);
    uint64_t *all = malloc(count * apart);
    if (!all || pw_gpu_read(dog->ctx->gpu, all, my_arena(dog) + first, count * apart, site) != PEERWIN_OK) {
        free(all);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        all[i] = all[i * words];
    return all;
}

static void describe_lines(const pw_watchdog *dog, char *text, size_t bytes, const pw_site *site) {
    peerwin_ctx *ctx = dog->ctx;
    size_t size = (size_t)ctx->size;
    size_t used = 0;
    uint64_t epoch = atomic_load_explicit(&dog->epoch, memory_order_relaxed);
    uint64_t *lines = atomic_load_explicit(&dog->lines, memory_order_acquire)
                          ? read_words(dog, ctx->arena_layout.barrier_lines, size, PW_LINE, site)
                          : NULL;
    for (size_t rank = 0; lines && rank < size; rank++)
        if ((int)rank != ctx->rank && is_missing(lines[rank], epoch))
            add_missing(text, bytes, &used, rank);
    free(lines);
}

/* Kernels write to their own rank, too: one is waiting if its own word is there and the epoch has not ended. */
static void describe_meeting(const pw_watchdog *dog, size_t first, size_t apart, uint64_t over, int is_reduce,
                             char *text, size_t bytes, const pw_site *site) {
    const peerwin_ctx *ctx = dog->ctx;
    size_t used = 0;
    uint64_t wanted = is_reduce ? (over + 1) << (32 + PW_REDUCE_TAG_BITS) >> (32 + PW_REDUCE_TAG_BITS) : over + 1;
    uint64_t *words = read_words(dog, first, (size_t)ctx->size, apart, site);
    for (int rank = 0; words && is_reduce && rank < ctx->size; rank++)
        words[rank] >>= 32 + PW_REDUCE_TAG_BITS;
    for (int rank = 0; words && words[ctx->rank] == wanted && rank < ctx->size; rank++)
        if (is_reduce ? words[rank] != wanted : is_missing(words[rank], wanted))
            add_missing(text, bytes, &used, (size_t)rank);
    free(words);
}

static void describe_kernels(const pw_watchdog *dog, char *text, size_t bytes, const pw_site *site) {
    const pw_arena_layout *layout = &dog->ctx->arena_layout;
    pw_arena_control control;
    if (!atomic_load_explicit(&dog->kernels, memory_order_relaxed) ||
        pw_gpu_read(dog->ctx->gpu, &control, my_arena(dog) + layout->control, sizeof control, site) != PEERWIN_OK)
        return;
    for (int series = PW_SERIES_EAGER; series <= PW_SERIES_CAPTURED; series++) {
        uint64_t over = control.reduce_epoch[series];
        size_t slot = ((over + 1) & 1) * PW_ARENA_REDUCE_SLOT;
        if (text[0] == '\0')
            describe_meeting(dog, layout->kernel_lines[series], PW_LINE, control.barrier_epoch[series], 0, text, bytes,
                             site);
        if (text[0] == '\0')
            describe_meeting(dog, layout->reduce_slots[series] + slot, 2 * (size_t)PW_ARENA_REDUCE_SLOT, over, 1, text,
                             bytes, site);
    }
}

/* Of slots only those awaited last are looked at: earlier ones have mostly been reached, and consumed since. */
void pw_watchdog_describe(peerwin_ctx *ctx, char *text, size_t bytes, const pw_site *site) {
    const pw_watchdog *dog = ctx->watchdog;
    size_t used = 0;
    text[0] = '\0';
    if (!dog)
        return;
    const expected *slot = latest_before(dog, UINT64_MAX);
    for (int i = 0; slot && i < DESCRIBED && used < bytes; i++, slot = latest_before(dog, slot->turn))
        used += (size_t)describe_slot(dog, slot, text + used, bytes - used, site);
    if (used >= bytes)
        return;
    describe_lines(dog, text + used, bytes - used, site);
    if (text[used] == '\0')
        describe_kernels(dog, text + used, bytes - used, site);
}

/* ---- the thread */

/* A rank whose process has ended without a goodbye, or PW_NONE. */
static int lost_peer(pw_watchdog *dog) {
    for (int rank = 0; rank < dog->ctx->size; rank++) {
        struct pollfd *watched = &dog->polls[1 + rank];
        if (watched->fd < 0 || watched->revents == 0)
            continue;
        const _Atomic uint32_t *goodbye = dog->ctx->live.goodbyes[rank];
        if (!goodbye || atomic_load_explicit(goodbye, memory_order_acquire) == 0)
            return rank;
        pw_close(&watched->fd);
    }
    return PW_NONE;
}

/* Sleeps until streams must be released (1), or the context ends (0). */
static int watch(pw_watchdog *dog) {
    while (!atomic_load(&dog->stopping)) {
        pw_watchdog_look(dog->ctx);
        if (is_broken(dog->ctx))
            return 1;
        if (poll(dog->polls, 1 + (nfds_t)dog->ctx->size, PERIOD_MS) <= 0)
            continue;
        int lost = lost_peer(dog);
        if (lost == PW_NONE)
            continue;
        pw_ctx_break(dog->ctx, pw_cause_make(PEERWIN_ERR_PEER_LOST, lost));
        return 1;
    }
    return is_broken(dog->ctx);
}

static void *run(void *argument) {
    pw_watchdog *dog = argument;
    pw_thread_name("peerwin-watch");
    if (watch(dog)) {
        pw_urgent_adopt_thread(dog->urgent);
        release_to_the_end(dog);
    }
    return NULL;
}

/* ---- start and stop */

static peerwin_status dup_polls(pw_watchdog *dog, const pw_site *site) {
    const peerwin_ctx *ctx = dog->ctx;
    dog->polls = malloc((1 + (size_t)ctx->size) * sizeof *dog->polls);
    if (!dog->polls)
        return pw_fail_errno(site, ENOMEM, "malloc");
    for (int i = 0; i <= ctx->size; i++)
        dog->polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    dog->polls[0].fd = eventfd(0, EFD_CLOEXEC);
    if (dog->polls[0].fd < 0)
        return pw_fail_errno(site, errno, "eventfd");
    for (int rank = 0; rank < ctx->size; rank++) {
        int pidfd = ctx->live.polls ? ctx->live.polls[rank].fd : -1;
        if (pidfd < 0)
            continue;
        dog->polls[1 + rank].fd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
        if (dog->polls[1 + rank].fd < 0)
            return pw_fail_errno(site, errno, "fcntl(F_DUPFD_CLOEXEC)");
    }
    return PEERWIN_OK;
}

static peerwin_status start_thread(pw_watchdog *dog, const pw_site *site) {
    int code = pw_thread_start(&dog->thread, 0, NULL, run, dog);
    if (code != 0)
        return pw_fail_errno(site, code, "pthread_create");
    dog->running = 1;
    return PEERWIN_OK;
}

static void free_watchdog(pw_watchdog *dog) {
    for (int i = 0; dog->polls && i <= dog->ctx->size; i++)
        pw_close(&dog->polls[i].fd);
    pw_urgent_close(dog->urgent);
    free(dog->polls);
    free(dog->list);
    free(dog->slots);
    free(dog);
}

static peerwin_status fill(pw_watchdog *dog, const pw_site *site) {
    peerwin_ctx *ctx = dog->ctx;
    dog->signals = ctx->peers[ctx->rank].arena + ctx->arena_layout.signals;
    dog->slots = calloc(SLOTS, sizeof *dog->slots);
    dog->list = calloc(SLOTS, sizeof *dog->list);
    if (!dog->slots || !dog->list)
        return pw_fail_errno(site, ENOMEM, "calloc");
    peerwin_status status = pw_urgent_open(ctx->gpu, site, &dog->urgent);
    if (status != PEERWIN_OK || (ctx->flags & PEERWIN_NO_WATCHDOG))
        return status;
    status = dup_polls(dog, site);
    return status == PEERWIN_OK ? start_thread(dog, site) : status;
}

peerwin_status pw_watchdog_start(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = pw_gpu_enter(ctx->gpu, site);
    if (status != PEERWIN_OK)
        return status;
    pw_watchdog *dog = calloc(1, sizeof *dog);
    if (!dog) {
        status = pw_fail_errno(site, ENOMEM, "calloc");
        goto leave;
    }
    dog->ctx = ctx;
    status = fill(dog, site);
    if (status == PEERWIN_OK)
        ctx->watchdog = dog;
    else
        free_watchdog(dog);
leave:
    pw_gpu_leave(ctx->gpu);
    return status;
}

void pw_watchdog_mpi_ends(const peerwin_ctx *ctx) {
    if (ctx->watchdog)
        atomic_store(&ctx->watchdog->mpi_ended, 1);
}

static void end_thread(pw_watchdog *dog) {
    const uint64_t one = 1;
    atomic_store(&dog->stopping, 1);
    if (write(dog->polls[0].fd, &one, sizeof one) < 0)
        pw_log(PW_LOG_DEBUG, dog->ctx->rank, "the watchdog wakes by time"); /* within PERIOD_MS */
    (void)pthread_join(dog->thread, NULL);
}

/* A device that cannot be entered any more has no streams that wait. */
void pw_watchdog_stop(peerwin_ctx *ctx) {
    const pw_site *site = PW_SITE("peerwin_finalize", NULL, ctx->rank, PW_NONE);
    pw_watchdog *dog = ctx->watchdog;
    if (!dog)
        return;
    int entered = pw_gpu_enter(ctx->gpu, site) == PEERWIN_OK;
    if (entered && pw_ctx_broken(ctx) != 0)
        pw_watchdog_settle(ctx);
    if (dog->running)
        end_thread(dog);
    free_watchdog(dog);
    if (entered)
        pw_gpu_leave(ctx->gpu);
    ctx->watchdog = NULL;
}
