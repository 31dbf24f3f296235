/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See kinds.h. Memory pools are missing: only the program's own are ever shared, by peerwin_win_attach.
 */
#define _GNU_SOURCE
#include "kinds.h"

#include "info.h"
#include "show.h"

#include "base/env.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    peerwin_handle bit;
    const char *name;
} kinds[KINDS] = {
    {PEERWIN_HANDLE_LEGACY, "legacy"},
    {PEERWIN_HANDLE_FD, "fd"},
    {PEERWIN_HANDLE_FABRIC, "fabric"},
    {PEERWIN_HANDLE_HOST, "host"},
};

/* The kinds that the user allows. What restricts contexts to them would stand in the way from here on. */
static unsigned allowed_kinds(void) {
    const pw_site site = {.call = "peerwin-info", .stage = "kinds", .rank = PW_NONE, .peer = PW_NONE};
    pw_env env;
    unsigned allowed = ~0u;
    if (pw_env_read(&site, &env) == PEERWIN_OK && (env.set & PW_ENV_HANDLES) != 0)
        allowed = env.handles;
    unsetenv("PEERWIN_HANDLES");
    unsetenv("PEERWIN_STRICT");
    setenv("PEERWIN_LOG", "error", 0); /* the reasons are in the report */
    return allowed;
}

/* Collective. A context that is refused is no failure of the tool; one that cannot be ended is. */
static void try_kind(peerwin_handle bit, kind_record *record) {
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.handles = bit;
    peerwin_status status = peerwin_init(MPI_COMM_WORLD, &config, &ctx);
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST)
        info_fail("%s: %s", peerwin_strerror(status), peerwin_last_error());
    if (status != PEERWIN_OK) {
        snprintf(record->reason, sizeof record->reason, "%s", peerwin_last_error());
        return;
    }
    record->pairs = pairs_collect(ctx);
    status = peerwin_finalize(ctx);
    if (status != PEERWIN_OK)
        info_fail("%s: %s", peerwin_strerror(status), peerwin_last_error());
}

kind_record *kinds_collect(const peerwin_ctx *ctx) {
    if (ctx == NULL || peerwin_get_space(ctx) != PEERWIN_SPACE_CUDA)
        return NULL;
    const bool keeps = peerwin_rank(ctx) == 0;
    unsigned allowed = allowed_kinds();
    MPI_Bcast(&allowed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    kind_record *records = info_alloc(KINDS, sizeof *records);
    for (int i = 0; i < KINDS; i++) {
        records[i].name = kinds[i].name;
        records[i].tried = (allowed & kinds[i].bit) != 0;
        if (records[i].tried)
            try_kind(kinds[i].bit, &records[i]);
        else
            snprintf(records[i].reason, sizeof records[i].reason, "PEERWIN_HANDLES leaves it out");
    }
    if (keeps)
        return records;
    kinds_free(records);
    return NULL;
}

void kinds_free(kind_record *records) {
    for (int i = 0; records != NULL && i < KINDS; i++)
        pairs_free(records[i].pairs);
    free(records);
}

/* Pairs of different ranks, and those that share memory of this kind. */
static int count_pairs(const pair_matrix *m) {
    return m->n * (m->n - 1);
}

static int count_direct(const pair_matrix *m) {
    int count = 0;
    for (int i = 0; i < m->n * m->n; i++)
        count += m->kinds[i].path == PEERWIN_PATH_DIRECT;
    return count;
}

static const char *state_of(const kind_record *record) {
    if (!record->tried)
        return "not tried";
    if (record->pairs == NULL || (count_pairs(record->pairs) > 0 && count_direct(record->pairs) == 0))
        return "refused";
    return count_direct(record->pairs) == count_pairs(record->pairs) ? "proved" : "partly proved";
}

void kinds_print(const kind_record *records) {
    if (records == NULL)
        return;
    printf("\nkinds of memory handle (each created, exported, imported, written and verified for every pair)\n");
    for (int i = 0; i < KINDS; i++) {
        const kind_record *r = &records[i];
        printf("  %-7s %s", r->name, state_of(r));
        if (r->pairs == NULL) {
            printf(": %s\n", r->reason);
            continue;
        }
        printf(": %d of %d pairs\n", count_direct(r->pairs), count_pairs(r->pairs));
        pairs_print_reasons(r->pairs, stdout);
    }
}

static void write_refused(const pair_matrix *m, json *j) {
    for (int from = 0; from < m->n; from++)
        for (int to = 0; to < m->n; to++)
            if (m->reasons[from * m->n + to] >= 0)
                pairs_write_one(m, from, to, j);
}

void kinds_write(const kind_record *records, json *j) {
    json_open(j, "kinds", '[');
    for (int i = 0; records != NULL && i < KINDS; i++) {
        const kind_record *r = &records[i];
        json_open(j, NULL, '{');
        json_text(j, "name", r->name);
        json_text(j, "state", state_of(r));
        json_text(j, "reason", r->pairs == NULL ? r->reason : NULL);
        if (r->pairs != NULL) {
            json_number(j, "pairs", count_pairs(r->pairs));
            json_number(j, "direct", count_direct(r->pairs));
        }
        json_open(j, "not_direct", '[');
        if (r->pairs != NULL)
            write_refused(r->pairs, j);
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}
