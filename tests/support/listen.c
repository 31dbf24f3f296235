/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors 1 and 2 are exchanged for a file in memory and back.
 */
#include "listen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

listener listen_begin(void) {
    listener l;
    fflush(NULL);
    l.file = memfd_create("heard", MFD_CLOEXEC);
    l.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    l.err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    CHECK(l.file >= 0 && l.out >= 0 && l.err >= 0);
    CHECK(dup2(l.file, STDOUT_FILENO) >= 0 && dup2(l.file, STDERR_FILENO) >= 0);
    return l;
}

char *listen_end(listener *l) {
    struct stat about;
    fflush(NULL);
    dup2(l->out, STDOUT_FILENO);
    dup2(l->err, STDERR_FILENO);
    close(l->out);
    close(l->err);
    CHECK(fstat(l->file, &about) == 0);
    char *text = calloc((size_t)about.st_size + 1, 1);
    CHECK(text != NULL);
    CHECK_EQUAL(pread(l->file, text, (size_t)about.st_size, 0), about.st_size);
    close(l->file);
    return text;
}

int listen_count(const char *text, const char *word) {
    int count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

char *listen_all(const char *text) {
    int *counts = calloc((size_t)job.size * 2, sizeof(*counts));
    CHECK(counts != NULL);
    int *starts = counts + job.size;
    int mine = (int)strlen(text);
    int total = 0;
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < job.size; rank++) {
        starts[rank] = total;
        total += counts[rank];
    }
    char *all = calloc((size_t)total + 1, 1);
    CHECK(all != NULL);
    MPI_Allgatherv(text, mine, MPI_CHAR, all, counts, starts, MPI_CHAR, MPI_COMM_WORLD);
    free(counts);
    return all;
}
