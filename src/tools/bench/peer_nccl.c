/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peer_nccl.h.
 */
#define _GNU_SOURCE
#include "peer_nccl.h"

#include "text.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As in nccl.h: of its ABI. */
enum { NCCL_ID_BYTES = 128, NCCL_SUCCESS = 0, NCCL_BYTES = 1, NCCL_DOUBLES = 8, NCCL_SUM = 0 };
typedef struct {
    char bytes[NCCL_ID_BYTES];
} nccl_id;
typedef struct nccl_comm nccl_comm;

/* X(name, arguments): all return a code. */
#define NCCL_CALLS(X)                                                                                                  \
    X(ncclGetVersion, (int *version))                                                                                  \
    X(ncclGetUniqueId, (nccl_id * id))                                                                                 \
    X(ncclCommInitRank, (nccl_comm * *comm, int size, nccl_id id, int rank))                                           \
    X(ncclCommDestroy, (nccl_comm * comm))                                                                             \
    X(ncclAllReduce, (const void *from, void *to, size_t count, int type, int op, nccl_comm *comm, CUstream stream))   \
    X(ncclSend, (const void *from, size_t count, int type, int rank, nccl_comm *comm, CUstream stream))                \
    X(ncclRecv, (void *to, size_t count, int type, int rank, nccl_comm *comm, CUstream stream))                        \
    X(ncclGroupStart, (void))                                                                                          \
    X(ncclGroupEnd, (void))

struct peer_nccl {
#define NCCL_MEMBER(name, arguments) int(*name) arguments;
    NCCL_CALLS(NCCL_MEMBER)
#undef NCCL_MEMBER
    nccl_comm *comm;
};

static void check(int code, const char *call) {
    if (code != NCCL_SUCCESS)
        bench_fail("%s failed with code %d", call, code);
}

static void load(peer_nccl *nccl, const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *entry;
    if (handle == NULL)
        bench_fail("NCCL cannot be opened: %s", dlerror());
#define NCCL_FETCH(name, arguments)                                                                                    \
    entry = dlsym(handle, #name);                                                                                      \
    if (entry == NULL)                                                                                                 \
        bench_fail("%s has no %s", library, #name);                                                                    \
    memcpy(&nccl->name, &entry, sizeof entry);
    NCCL_CALLS(NCCL_FETCH)
#undef NCCL_FETCH
}

peer_nccl *peer_nccl_open(const bench *b, const char *library, char *version_out, size_t size) {
    nccl_id id;
    int version = 0;
    peer_nccl *nccl = calloc(1, sizeof *nccl);
    if (nccl == NULL)
        bench_fail("out of memory");
    load(nccl, library);
    check(nccl->ncclGetVersion(&version), "ncclGetVersion");
    text_format(version_out, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    memset(&id, 0, sizeof id);
    if (b->rank == 0)
        check(nccl->ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, b->comm);
    check(nccl->ncclCommInitRank(&nccl->comm, b->size, id, b->rank), "ncclCommInitRank");
    return nccl;
}

void peer_nccl_close(peer_nccl *nccl) {
    if (nccl == NULL)
        return;
    check(nccl->ncclCommDestroy(nccl->comm), "ncclCommDestroy");
    free(nccl);
}

peerwin_status peer_nccl_reduce(peer_nccl *nccl, void *values, int count, CUstream stream) {
    const int code = nccl->ncclAllReduce(values, values, (size_t)count, NCCL_DOUBLES, NCCL_SUM, nccl->comm, stream);
    if (code == NCCL_SUCCESS)
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "ncclAllReduce failed with code %d", code);
}

void peer_nccl_send(peer_nccl *nccl, const void *from, size_t bytes, int rank, CUstream stream) {
    check(nccl->ncclSend(from, bytes, NCCL_BYTES, rank, nccl->comm, stream), "ncclSend");
}

void peer_nccl_receive(peer_nccl *nccl, void *to, size_t bytes, int rank, CUstream stream) {
    check(nccl->ncclRecv(to, bytes, NCCL_BYTES, rank, nccl->comm, stream), "ncclRecv");
}

peerwin_status halo_by_nccl(halo_run *run, int times) {
    peer_nccl *nccl = run->nccl;
    for (int i = 0; i < times; i++) {
        halo_run_pack(run);
        check(nccl->ncclGroupStart(), "ncclGroupStart");
        for (int k = 0; k < run->num_out; k++)
            peer_nccl_send(nccl, run->packed + run->out[k].at, run->out[k].bytes, run->out[k].peer, run->stream);
        for (int k = 0; k < run->num_in; k++)
            peer_nccl_receive(nccl, halo_run_half(run, run->b->rank) + run->in[k].at, run->in[k].bytes, run->in[k].peer,
                              run->stream);
        check(nccl->ncclGroupEnd(), "ncclGroupEnd");
        halo_run_unpack(run);
    }
    return PEERWIN_OK;
}
