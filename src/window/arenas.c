/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Arenas, and with them the choice of a kind of memory; see space.h.
 *
 * What a driver announces proves nothing, so the arena is the probe: each kind in turn is allocated, handed out, mapped
 * and written to, by the copy engine and by a kernel, in both directions of every pair, and every owner looks at what
 * came. The result is a matrix that all ranks gather, so they choose alike: the first kind that connects all
 * pairs it could connect, or else the one that connects most.
 */
#include "window/space.h"

#include "base/log.h"
#include "window/exchange.h"
#include "window/sharing.h"
#include "window/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 4 };

/* One attempt. */
typedef struct {
    const pw_memory_ops *ops;
    pw_exchange_peer *peers; /* per rank */
    unsigned char *row;      /* per rank: this rank reached it, and it reached this rank */
    uint64_t *words;         /* my own arena's lines as read back */
} trial;

/* ---- which pairs may be tried */

static int same_place(const peerwin_ctx *ctx, int a, int b) {
    return ctx->peers[a].node == ctx->peers[b].node && ctx->hellos[a].pid_ns == ctx->hellos[b].pid_ns;
}

static int spans_places(const peerwin_ctx *ctx) {
    for (int rank = 1; rank < ctx->size; rank++)
        if (!same_place(ctx, 0, rank))
            return 1;
    return 0;
}

/* Only fabric handles go where no descriptor channel goes. Symmetric, and known to all ranks. */
static int may_connect(const peerwin_ctx *ctx, const pw_memory_ops *ops, int a, int b) {
    size_t pair = (size_t)a * (size_t)ctx->size + (size_t)b;
    return a != b && (ops->kind == PEERWIN_HANDLE_FABRIC || ctx->channels[pair]);
}

/* ---- a trial */

/* Importers unmap, everyone meets, owners release. */
static void end_trial(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    if (t->peers)
        (void)pw_exchange_undo(ctx, t->peers);
    pw_ctx_meet(ctx, site);
    if (ctx->arena_segment.ops)
        (void)ctx->arena_segment.ops->release(&ctx->arena_segment);
    free(t->peers);
    free(t->row);
    free(t->words);
    *t = (trial){0};
}

static peerwin_status begin_trial(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    size_t count = (size_t)ctx->size;
    t->peers = calloc(count, sizeof *t->peers);
    t->row = calloc(count, 1);
    t->words = calloc(count, PW_LINE);
    if (!t->peers || !t->row || !t->words)
        return pw_fail_errno(site, ENOMEM, "calloc");
    const pw_order order = {
        .bytes = ctx->arena_layout.bytes + PW_ARENA_ROOM, .name = "peerwin-arena", .crew = &ctx->crew};
    peerwin_status status = t->ops->alloc(ctx->gpu, &order, site, &ctx->arena_segment);
    if (status != PEERWIN_OK) {
        ctx->arena_segment = (pw_segment){.fd = -1};
        return status;
    }
    for (int rank = 0; rank < ctx->size; rank++) {
        t->peers[rank] = (pw_exchange_peer){.wanted = may_connect(ctx, t->ops, ctx->rank, rank),
                                            .ops = t->ops,
                                            .mapped = ctx->arena_segment.mapped,
                                            .num_pieces = 1};
        if (t->peers[rank].wanted)
            ctx->peers[rank].reason[0] = '\0';
    }
    return t->ops->seal(&ctx->arena_segment, 0, site);
}

static peerwin_status exchange(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    pw_exchange x = {.id = (uint64_t)ctx->serial << 32 | t->ops->kind,
                     .generation = 2,
                     .tolerant = 1,
                     .segment = &ctx->arena_segment,
                     .peers = t->peers};
    peerwin_status status = pw_exchange_run(ctx, &x, PEERWIN_OK, site);
    ctx->arena_segment.ops->exported(&ctx->arena_segment);
    return pw_ctx_agree(ctx, status, site);
}

/* What `writer` writes for `owner`; the second word of a line is a kernel's. */
static uint64_t proof(const peerwin_ctx *ctx, int writer, int owner, int second) {
    return (uint64_t)ctx->serial << 32 ^ (uint64_t)(uint32_t)(writer * 65599 + owner * 2 + second + 1);
}

static peerwin_status write_proof(peerwin_ctx *ctx, char *arena, int owner, const pw_site *site) {
    uint64_t *line = pw_arena_line(arena, &ctx->arena_layout, ctx->rank);
    uint64_t first = proof(ctx, ctx->rank, owner, 0);
    peerwin_status status = pw_gpu_write(ctx->gpu, line, &first, sizeof first, site);
    return status == PEERWIN_OK ? pw_gpu_store(ctx->gpu, line + 1, proof(ctx, ctx->rank, owner, 1), site) : status;
}

static void fail_pair(peerwin_ctx *ctx, trial *t, int rank, const char *why) {
    if (!t->peers[rank].failed)
        snprintf(ctx->peers[rank].reason, PW_REASON_BYTES, "%s", why);
    t->peers[rank].failed = 1;
}

/* A pair that cannot be written to is a result; a lost context is a failure. */
static peerwin_status write_proofs(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (!t->peers[rank].import)
            continue;
        peerwin_status status = write_proof(ctx, t->peers[rank].import->mapping.base, rank, &there);
        if (status == PEERWIN_ERR_CONTEXT_LOST || status == PEERWIN_ERR_TIMEOUT)
            return status;
        if (status != PEERWIN_OK)
            fail_pair(ctx, t, rank, peerwin_last_error());
    }
    return PEERWIN_OK;
}

static peerwin_status read_proofs(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    size_t bytes = (size_t)ctx->size * PW_LINE;
    char *lines = (char *)ctx->arena_segment.base + ctx->arena_layout.barrier_lines;
    peerwin_status status = pw_gpu_read(ctx->gpu, t->words, lines, bytes, site);
    if (status == PEERWIN_OK)
        status = pw_gpu_zero(ctx->gpu, lines, bytes, site);
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        const uint64_t *line = t->words + (size_t)rank * (PW_LINE / sizeof(uint64_t));
        char text[PW_REASON_BYTES];
        int copied = line[0] == proof(ctx, rank, ctx->rank, 0);
        int stored = line[1] == proof(ctx, rank, ctx->rank, 1);
        if (!t->peers[rank].import || (copied && stored))
            continue;
        snprintf(text, sizeof text, "what rank %d wrote by %s to the memory of rank %d (%s) did not arrive", rank,
                 copied ? "a kernel" : "the copy engine", ctx->rank, t->ops->name);
        fail_pair(ctx, t, rank, text);
    }
    return status;
}

/* The agreement in the middle: all have written before anyone looks. */
static peerwin_status prove(peerwin_ctx *ctx, trial *t, const pw_site *site) {
    if (ctx->flags & PEERWIN_NO_VERIFY)
        return PEERWIN_OK;
    peerwin_status status = pw_ctx_agree(ctx, write_proofs(ctx, t, site), site);
    return status == PEERWIN_OK ? pw_ctx_agree(ctx, read_proofs(ctx, t, site), site) : status;
}

static peerwin_status run_trial(peerwin_ctx *ctx, trial *t, unsigned char **matrix_out, const pw_site *site) {
    void *matrix = NULL;
    peerwin_status status = pw_ctx_agree(ctx, begin_trial(ctx, t, site), site);
    if (status == PEERWIN_OK)
        status = exchange(ctx, t, site);
    if (status == PEERWIN_OK)
        status = prove(ctx, t, site);
    if (status != PEERWIN_OK)
        return status;
    for (int rank = 0; rank < ctx->size; rank++)
        t->row[rank] = rank == ctx->rank || (t->peers[rank].import && !t->peers[rank].failed);
    status = pw_ctx_gather(ctx, t->row, (size_t)ctx->size, &matrix, site);
    *matrix_out = matrix;
    return status;
}

/* ---- the result */

/* Makes the matrix symmetric, a pair being direct if both ways are; the number of direct pairs, and what is possible.
 */
static int count_pairs(const peerwin_ctx *ctx, const pw_memory_ops *ops, unsigned char *matrix, int *possible_out) {
    size_t n = (size_t)ctx->size;
    int direct = 0;
    *possible_out = 0;
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < a; b++) {
            unsigned char both = (unsigned char)(matrix[a * n + b] && matrix[b * n + a]);
            matrix[a * n + b] = matrix[b * n + a] = both;
            direct += both;
            *possible_out += may_connect(ctx, ops, (int)a, (int)b);
        }
    }
    return direct;
}

static void settle_link(const peerwin_ctx *ctx, pw_peer *peer) {
    peer->native_atomics = 1;
    if (ctx->memory_of_arenas->kind == PEERWIN_HANDLE_HOST) {
        peer->link = PEERWIN_LINK_HOST;
        peer->native_atomics = 0;
    } else if (peer->node != ctx->peers[ctx->rank].node) {
        peer->link = PEERWIN_LINK_FABRIC;
    } else {
        peer->link = pw_gpu_link(ctx->gpu, peer->device, &peer->native_atomics);
    }
}

/* What the driver says of instances is about devices that do not exist. */
static void explain_instances(const peerwin_ctx *ctx, pw_peer *peer) {
    char said[PW_REASON_BYTES];
    if (strncmp(peer->device, "MIG-", 4) != 0 && strncmp(ctx->peers[ctx->rank].device, "MIG-", 4) != 0)
        return;
    memcpy(said, peer->reason, sizeof said);
    snprintf(peer->reason, PW_REASON_BYTES, "instances of a device (MIG) reach no other's memory: %.130s", said);
}

static void settle_peer(peerwin_ctx *ctx, trial *t, int rank, int direct) {
    pw_peer *peer = &ctx->peers[rank];
    if (rank == ctx->rank) {
        peer->arena = ctx->arena_segment.base;
        settle_link(ctx, peer);
        return;
    }
    peer->path = direct ? PEERWIN_PATH_DIRECT : PEERWIN_PATH_NONE;
    peer->link = PEERWIN_LINK_NONE;
    peer->native_atomics = 0;
    if (!direct) {
        (void)pw_import_release(&ctx->imports, t->peers[rank].import);
        if (!peer->reason[0])
            snprintf(peer->reason, PW_REASON_BYTES, "rank %d cannot use the memory of rank %d (%s)", rank, ctx->rank,
                     t->ops->name);
        explain_instances(ctx, peer);
    } else {
        peer->arena_import = t->peers[rank].import;
        peer->arena = peer->arena_import->mapping.base;
        peer->reason[0] = '\0';
        settle_link(ctx, peer);
    }
    t->peers[rank].import = NULL;
}

/* Takes the arenas of a trial over. */
static void adopt(peerwin_ctx *ctx, trial *t, unsigned char *matrix) {
    size_t n = (size_t)ctx->size;
    ctx->memory_of_arenas = t->ops;
    ctx->all_direct = 1;
    for (size_t pair = 0; pair < n * n; pair++)
        ctx->all_direct &= matrix[pair] != 0;
    for (int rank = 0; rank < ctx->size; rank++)
        settle_peer(ctx, t, rank, matrix[(size_t)ctx->rank * n + (size_t)rank]);
    free(ctx->direct);
    ctx->direct = matrix;
    free(t->peers);
    free(t->row);
    free(t->words);
}

/* ---- the choice */

static unsigned announced_by_all(const peerwin_ctx *ctx) {
    unsigned handles = ~0u;
    for (int rank = 0; rank < ctx->size; rank++)
        handles &= ctx->cards[rank].handles;
    return handles;
}

/*
 * The kinds to try, best first. Fabric handles are for what spans machines, or if they are asked for by name; host
 * memory only if it is. A context for pool memory alone still needs arenas, which nobody sees.
 */
static int list_kinds(const peerwin_ctx *ctx, const pw_memory_ops *list[MAX_KINDS]) {
    unsigned mask = ctx->hellos[0].options.handles;
    unsigned wanted = mask & ~(unsigned)PEERWIN_HANDLE_POOL;
    int count = 0;
    if (mask == 0 || wanted == 0)
        wanted = PEERWIN_HANDLE_FD | PEERWIN_HANDLE_LEGACY | (spans_places(ctx) ? PEERWIN_HANDLE_FABRIC : 0u);
    const peerwin_handle order[MAX_KINDS] = {PEERWIN_HANDLE_FABRIC, PEERWIN_HANDLE_FD, PEERWIN_HANDLE_LEGACY,
                                             PEERWIN_HANDLE_HOST};
    unsigned announced = announced_by_all(ctx);
    for (int i = 0; i < MAX_KINDS; i++) {
        const pw_memory_ops *ops = pw_memory_on_gpu(order[i]);
        if (!(wanted & order[i]))
            continue;
        if (announced & order[i])
            list[count++] = ops;
        else if (ctx->rank == 0)
            pw_log(PW_LOG_INFO, ctx->rank, "%s memory: not announced by the device of every rank", ops->name);
    }
    return count;
}

static void say_denied(const peerwin_ctx *ctx, const pw_memory_ops *ops, peerwin_status status, int direct,
                       int possible) {
    if (ctx->rank != 0)
        return;
    if (status != PEERWIN_OK)
        pw_log(PW_LOG_INFO, ctx->rank, "%s memory is not to be had: %s", ops->name, peerwin_last_error());
    else
        pw_log(PW_LOG_INFO, ctx->rank, "%s memory connects %d of %d pairs", ops->name, direct, possible);
}

/* One kind. *direct_out is -1 if it is not to be had. Adopted if it connects enough. */
static peerwin_status try_kind(peerwin_ctx *ctx, const pw_memory_ops *ops, int enough, int *direct_out,
                               const pw_site *site) {
    trial t = {.ops = ops};
    unsigned char *matrix = NULL;
    int possible = 0;
    *direct_out = -1;
    peerwin_status status = run_trial(ctx, &t, &matrix, site);
    if (status == PEERWIN_OK)
        *direct_out = count_pairs(ctx, ops, matrix, &possible);
    if (status == PEERWIN_OK && (*direct_out == possible || *direct_out >= enough)) {
        adopt(ctx, &t, matrix);
        return PEERWIN_OK;
    }
    say_denied(ctx, ops, status, *direct_out, possible);
    free(matrix);
    peerwin_status first = status;
    char text[PW_ERROR_TEXT];
    snprintf(text, sizeof text, "%s", peerwin_last_error());
    end_trial(ctx, &t, site);
    return first == PEERWIN_OK ? PEERWIN_OK : pw_error_adopt(first, text);
}

static int fatal(const peerwin_ctx *ctx, peerwin_status status) {
    return ctx->agree.lost || status == PEERWIN_ERR_CONTEXT_LOST || status == PEERWIN_ERR_TIMEOUT;
}

static peerwin_status choose_kind(peerwin_ctx *ctx, const pw_site *site) {
    const pw_memory_ops *list[MAX_KINDS];
    const pw_memory_ops *best = NULL;
    int count = list_kinds(ctx, list);
    int most = -1;
    peerwin_status status = PEERWIN_OK;
    if (count == 0)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "the devices have none of the kinds of memory that handles (0x%x) allows",
                       ctx->hellos[0].options.handles);
    for (int i = 0; i < count && !ctx->memory_of_arenas; i++) {
        int direct = -1;
        status = try_kind(ctx, list[i], INT32_MAX, &direct, site);
        if (status != PEERWIN_OK && fatal(ctx, status))
            return status;
        if (direct > most) {
            most = direct;
            best = list[i];
        }
    }
    if (!ctx->memory_of_arenas && best)
        status = try_kind(ctx, best, 0, &most, site);
    return ctx->memory_of_arenas ? PEERWIN_OK : status;
}

peerwin_status pw_arenas_map(peerwin_ctx *ctx, const pw_site *site) {
    unsigned mask = ctx->hellos[0].options.handles;
    peerwin_status status = choose_kind(ctx, site);
    if (status != PEERWIN_OK)
        return status;
    if (mask == 0 || (mask & (unsigned)ctx->memory_of_arenas->kind))
        ctx->memory = ctx->memory_of_arenas;
    pw_sharing_say(ctx);
    return pw_arenas_place(ctx, site);
}
