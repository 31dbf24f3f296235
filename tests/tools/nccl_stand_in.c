/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands in for NCCL's library in tests of peerwin-bench --peers: the few calls that it opens, by MPI on the host, on
 * memory of the simulated driver. What NCCL gives to the stream is done before a call returns here, after all that the
 * stream had to do. It cannot be captured, and says so.
 */
#define _GNU_SOURCE
#define OMPI_SKIP_MPICXX 1
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_USAGE = 5, DOUBLES = 8, MOST_IN_A_GROUP = 64, VERSION = 29999 };

typedef struct {
    char bytes[128];
} unique_id;

typedef struct {
    int receives, rank;
    size_t bytes;
    CUdeviceptr memory;
    char *host;
} operation;

static struct {
    PFN_cuMemcpyDtoH_v3020 down;
    PFN_cuMemcpyHtoD_v3020 up;
    PFN_cuStreamSynchronize_v2000 wait;
    PFN_cuStreamIsCapturing_v10000 is_capturing;
} driver;

static operation group[MOST_IN_A_GROUP];
static int in_group, operations;

int ncclGetVersion(int *version);
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int size, unique_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, CUstream stream);
int ncclSend(const void *from, size_t count, int type, int rank, void *comm, CUstream stream);
int ncclRecv(void *to, size_t count, int type, int rank, void *comm, CUstream stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);

static CUdeviceptr address(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* A copy from pageable memory may be over later than it returns. */
static int put(CUdeviceptr to, const void *from, size_t bytes) {
    return driver.up(to, from, bytes) == CUDA_SUCCESS && driver.wait(NULL) == CUDA_SUCCESS ? SUCCESS : INVALID_USAGE;
}

EXPORT int ncclGetVersion(int *version) {
    *version = VERSION;
    return SUCCESS;
}

EXPORT int ncclGetUniqueId(unique_id *id) {
    memset(id, 7, sizeof *id);
    return SUCCESS;
}

static void *fetch(PFN_cuGetProcAddress_v12000 get, const char *name, int version) {
    void *entry = NULL;
    CUdriverProcAddressQueryResult found;
    return get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == CUDA_SUCCESS ? entry : NULL;
}

/* The id has come to every rank as it was made. */
EXPORT int ncclCommInitRank(void **comm, int size, unique_id id, int rank) {
    void *library = dlopen(getenv("PEERWIN_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    void *entry = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    int mine = -1, all = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (entry == NULL || mine != rank || all != size || id.bytes[0] != 7 || id.bytes[sizeof id - 1] != 7)
        return INVALID_USAGE;
    const PFN_cuGetProcAddress_v12000 get = (PFN_cuGetProcAddress_v12000)(uintptr_t)entry;
    driver.down = (PFN_cuMemcpyDtoH_v3020)(uintptr_t)fetch(get, "cuMemcpyDtoH", 3020);
    driver.up = (PFN_cuMemcpyHtoD_v3020)(uintptr_t)fetch(get, "cuMemcpyHtoD", 3020);
    driver.wait = (PFN_cuStreamSynchronize_v2000)(uintptr_t)fetch(get, "cuStreamSynchronize", 2000);
    driver.is_capturing = (PFN_cuStreamIsCapturing_v10000)(uintptr_t)fetch(get, "cuStreamIsCapturing", 10000);
    *comm = &driver;
    return driver.down != NULL && driver.up != NULL && driver.wait != NULL && driver.is_capturing != NULL
               ? SUCCESS
               : INVALID_USAGE;
}

EXPORT int ncclCommDestroy(void *comm) {
    return comm == &driver ? SUCCESS : INVALID_USAGE;
}

static int settle(CUstream stream) {
    CUstreamCaptureStatus status;
    if (driver.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
        return INVALID_USAGE;
    return driver.wait(stream) == CUDA_SUCCESS ? SUCCESS : INVALID_USAGE;
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, CUstream stream) {
    double values[64];
    if (comm != &driver || type != DOUBLES || op != 0 || count > 64 || settle(stream) != SUCCESS)
        return INVALID_USAGE;
    if (driver.down(values, address(from), count * sizeof *values) != CUDA_SUCCESS)
        return INVALID_USAGE;
    MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return put(address(to), values, count * sizeof *values);
}

EXPORT int ncclGroupStart(void) {
    in_group = 1;
    return SUCCESS;
}

EXPORT int ncclGroupEnd(void) {
    MPI_Request requests[MOST_IN_A_GROUP];
    int code = SUCCESS;
    for (int i = 0; i < operations; i++) {
        const operation *o = &group[i];
        if (o->receives)
            MPI_Irecv(o->host, (int)o->bytes, MPI_BYTE, o->rank, 99, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Isend(o->host, (int)o->bytes, MPI_BYTE, o->rank, 99, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(operations, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < operations; i++) {
        if (group[i].receives && put(group[i].memory, group[i].host, group[i].bytes) != SUCCESS)
            code = INVALID_USAGE;
        free(group[i].host);
    }
    operations = 0;
    in_group = 0;
    return code;
}

static int add(int receives, CUdeviceptr memory, size_t bytes, int rank, CUstream stream) {
    char *host = settle(stream) == SUCCESS && operations < MOST_IN_A_GROUP ? malloc(bytes) : NULL;
    if (host == NULL)
        return INVALID_USAGE;
    group[operations++] = (operation){receives, rank, bytes, memory, host};
    if (!receives && driver.down(host, memory, bytes) != CUDA_SUCCESS)
        return INVALID_USAGE;
    return in_group ? SUCCESS : ncclGroupEnd();
}

EXPORT int ncclSend(const void *from, size_t count, int type, int rank, void *comm, CUstream stream) {
    return type == 1 && comm == &driver ? add(0, address(from), count, rank, stream) : INVALID_USAGE;
}

EXPORT int ncclRecv(void *to, size_t count, int type, int rank, void *comm, CUstream stream) {
    return type == 1 && comm == &driver ? add(1, address(to), count, rank, stream) : INVALID_USAGE;
}
