/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs in which ranks end before the others; see team.h.
 */
#include "team.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inject.h"

MPI_Comm team_comm;
int team_size;
static _Atomic int64_t *stamp;

/*
 * MPI's own waits yield all the time. On few processors that keeps them from the dying: Linux 6.18 lets a task that
 * yielded much before it got a lock wait for seconds, and those who need the lock to end with it.
 */
static void wait_quietly(MPI_Request *request) {
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        test_sleep_ms(2);
    }
}

void team_meet(MPI_Comm comm) {
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    wait_quietly(&request);
}

double team_max(double value) {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, team_comm, &request);
    wait_quietly(&request);
    return value;
}

/* A page that all ranks map, so that those who go can leave the time. */
static void share_stamp(void) {
    char path[64] = "";
    int fd = -1;
    if (job.rank == 0) {
        snprintf(path, sizeof(path), "/tmp/peerwin-fault-XXXXXX");
        fd = mkstemp(path);
        CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    }
    MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
    FILE *file = job.rank == 0 ? fdopen(fd, "r+") : fopen(path, "r+");
    CHECK(file != NULL);
    stamp = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(stamp != MAP_FAILED);
    fclose(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        unlink(path);
    }
    inject_stamp_to(stamp);
}

void team_begin(int count) {
    team_size = count;
    share_stamp();
    MPI_Comm_split(MPI_COMM_WORLD, job.rank < count, job.rank, &team_comm);
}

double team_seconds_since_death(void) {
    return test_seconds() - 1e-9 * (double)atomic_load(stamp);
}

_Noreturn void team_end(const char *verdict) {
    if (job.rank == 0) {
        FILE *file = fopen(verdict, "w");
        CHECK(file != NULL);
        CHECK(fprintf(file, "PASSED\n") > 0);
        CHECK(fclose(file) == 0);
    }
    fflush(NULL);
    _exit(0);
}
