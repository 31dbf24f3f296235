/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI's blocking calls as the programs of the tests make them: they test, yield, then nap, where MPI's own poll without
 * an end. Jobs of the tests have more ranks than there are processors, and other jobs beside them, so a rank that polls
 * for one that comes late takes the time that the late one needs. MPI lets a program have its own functions of these
 * names, and keeps its own under others (its profiling interface). The library itself makes none of these calls.
 */
#include <mpi.h>

#include <sched.h>
#include <time.h>

enum { YIELDS = 50, NAP_NS = 20000, LATER_NAP_NS = 200000, LATER = 150 };

static int await(int started, MPI_Request *request, MPI_Status *status) {
    int done = 0;
    if (started != MPI_SUCCESS) {
        return started;
    }
    for (int round = 0;; round += round < LATER) {
        int code = PMPI_Test(request, &done, status);
        if (code != MPI_SUCCESS || done) {
            return code;
        }
        if (round < YIELDS) {
            sched_yield();
        } else {
            nanosleep(&(const struct timespec){.tv_nsec = round < LATER ? NAP_NS : LATER_NAP_NS}, NULL);
        }
    }
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    return await(MPI_SUCCESS, request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    int code = MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
        code = await(code, &requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
    }
    return code;
}

int MPI_Barrier(MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Ibarrier(comm, &request), &request, MPI_STATUS_IGNORE);
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Ibcast(data, count, type, root, comm, &request), &request, MPI_STATUS_IGNORE);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Iallreduce(from, to, count, type, op, comm, &request), &request, MPI_STATUS_IGNORE);
}

int MPI_Allgather(const void *from, int count, MPI_Datatype type, void *to, int to_count, MPI_Datatype to_type,
                  MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Iallgather(from, count, type, to, to_count, to_type, comm, &request), &request,
                 MPI_STATUS_IGNORE);
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Irecv(data, count, type, from, tag, comm, &request), &request, status);
}

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return await(PMPI_Isend(data, count, type, to, tag, comm, &request), &request, MPI_STATUS_IGNORE);
}

int MPI_Sendrecv(const void *data, int count, MPI_Datatype type, int to, int tag, void *in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &request);
    if (code == MPI_SUCCESS) {
        code = PMPI_Isend(data, count, type, to, tag, comm, &sent);
    }
    code = await(code, &request, status);
    return await(code, &sent, MPI_STATUS_IGNORE);
}
