/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks with different versions of the library: refused on every rank, and the text shows both. This program is built
 * twice, with the library as it is and with one that says it is a later version. It does without the harness, whose
 * own warm-up makes a context.
 */
#include <stdio.h>
#include <string.h>

#include "peerwin/peerwin.h"

static int check(peerwin_status status, const int versions[2]) {
    char text[48];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "%d.%d.%d", versions[i] / 10000, versions[i] / 100 % 100, versions[i] % 100);
        if (status != PEERWIN_ERR_MISMATCH || strstr(peerwin_last_error(), text) == NULL) {
            fprintf(stderr, "FAILED: got %d (%s), want a mismatch that shows %s; last error: \"%s\"\n", (int)status,
                    peerwin_strerror(status), text, peerwin_last_error());
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    int rank = 0;
    int failed = 0;
    peerwin_ctx *ctx = NULL;
    int mine = peerwin_version();
    int versions[2]; /* the smallest and the largest */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&mine, &versions[0], 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &versions[1], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (versions[0] == versions[1]) {
        fprintf(stderr, "FAILED: both programs have version %d\n", mine);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    failed = check(peerwin_init(MPI_COMM_WORLD, NULL, &ctx), versions) || ctx != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !failed) {
        printf("ok different_versions_are_a_mismatch_that_shows_both (%s)\n", peerwin_last_error());
    }
    MPI_Finalize();
    return failed;
}
