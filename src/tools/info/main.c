/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin-info: what peerwin finds here. This file is the order of events. Rank 0 prints; what is known without the
 * other ranks comes first, so that it is there even if they cannot make a context.
 * Exit status, the same on every rank: 0, 1 if something is not as it should be, 2 if the command line is wrong.
 */
#include "devices.h"
#include "environment.h"
#include "facts.h"
#include "info.h"
#include "kinds.h"
#include "options.h"
#include "pairs.h"
#include "ranks.h"

#include <stdlib.h>

static void begin_json(json *j) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH);
    json_open(j, NULL, '{');
    json_text(j, "tool", "peerwin-info");
    json_text(j, "version", version);
}

/* --env: rank 0 alone. */
static bool list_environment(bool as_json) {
    const char *problem = environment_problem();
    if (as_json) {
        json j = {.file = stdout};
        begin_json(&j);
        environment_write(&j);
        json_text(&j, "error", problem);
        json_close(&j, '}');
    } else {
        environment_list(problem);
    }
    return problem == NULL;
}

/* What rank 0 can say by itself. */
static void report_here(bool as_json, json *j) {
    const facts build = facts_of_build();
    const facts machine = facts_of_machine();
    if (as_json) {
        begin_json(j);
        facts_write(&build, j);
        facts_write(&machine, j);
        environment_write(j);
        devices_write(j);
    } else {
        printf("peerwin %d.%d.%d\n", PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH);
        facts_print(&build);
        facts_print(&machine);
        environment_print();
        devices_print();
    }
    fflush(stdout);
}

/* What needed the others. `error` is NULL or why there is no context, and then there is no matrix. */
static void report_ranks(bool as_json, json *j, const rank_record *ranks, int n, const pair_matrix *pairs,
                         const kind_record *kinds, const char *error) {
    if (as_json) {
        ranks_write(ranks, n, j);
        json_text(j, "error", error);
        if (pairs != NULL)
            pairs_write(pairs, j);
        kinds_write(kinds, j);
        json_close(j, '}');
        return;
    }
    ranks_print_capabilities(ranks, n);
    ranks_print(ranks, n);
    ranks_print_devices(ranks, n);
    if (error != NULL)
        printf("\npairs\n  not known, because there is no context: %s\n", error);
    if (pairs != NULL)
        pairs_print(pairs, stdout);
    kinds_print(kinds);
    if (n == 1)
        printf("\nStart it by mpirun -n RANKS peerwin-info to see the paths between ranks.\n");
}

/* Failing together, the ranks can go on; after a lost peer only MPI_Abort ends the job. */
static peerwin_ctx *make_context(int rank, char *error, size_t size) {
    peerwin_ctx *ctx = NULL;
    const peerwin_status status = peerwin_init(MPI_COMM_WORLD, NULL, &ctx);
    if (status == PEERWIN_OK)
        return ctx;
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST)
        info_fail("%s: %s", peerwin_strerror(status), peerwin_last_error());
    snprintf(error, size, "%s", peerwin_last_error());
    if (rank == 0)
        fprintf(stderr, "peerwin-info: %s: %s\n", peerwin_strerror(status), error);
    return NULL;
}

/* The whole report; false if there is no context. */
static bool report(bool as_json, int rank) {
    json j = {.file = stdout};
    char error[1200] = "";
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        report_here(as_json, &j);
    peerwin_ctx *ctx = make_context(rank, error, sizeof error);
    rank_record *ranks = ranks_collect(ctx);
    pair_matrix *pairs = ctx != NULL ? pairs_collect(ctx) : NULL;
    kind_record *kinds = kinds_collect(ctx);
    if (rank == 0)
        report_ranks(as_json, &j, ranks, size, pairs, kinds, ctx != NULL ? NULL : error);
    kinds_free(kinds);
    pairs_free(pairs);
    free(ranks);
    if (ctx == NULL)
        return false;
    const peerwin_status status = peerwin_finalize(ctx);
    if (status != PEERWIN_OK)
        info_fail("%s: %s", peerwin_strerror(status), peerwin_last_error());
    return true;
}

/* Everything between MPI_Init and MPI_Finalize. */
static int run(int argc, char **argv) {
    int rank = 0;
    options opt = {.action = OPTIONS_RUN};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        opt = options_parse(argc, argv);
    MPI_Bcast(&opt, sizeof opt, MPI_BYTE, 0, MPI_COMM_WORLD);
    int status = opt.action == OPTIONS_BAD ? 2 : EXIT_SUCCESS;
    if (opt.action == OPTIONS_RUN && opt.env)
        status = rank != 0 || list_environment(opt.json) ? EXIT_SUCCESS : EXIT_FAILURE;
    else if (opt.action == OPTIONS_RUN)
        status = report(opt.json, rank) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (rank == 0 && (fflush(stdout) != 0 || ferror(stdout))) {
        fputs("peerwin-info: the output could not be written\n", stderr);
        status = EXIT_FAILURE;
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int status = run(argc, argv);
    MPI_Finalize();
    return status;
}
