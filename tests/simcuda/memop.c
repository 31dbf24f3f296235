/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream memory operations, in their second form: 32- and 64-bit writes and waits, alone or in batches. A wait blocks
 * its stream and nothing else. A write orders everything the stream did before it; a satisfied wait acquires.
 */
#include "sim.h"

#include <string.h>

enum { MAX_BATCH = 255 };

CUresult sim_execute_write(const struct sim_op_word *word) {
    enum simcuda_writes mode = word->to_peer ? sim_write_mode() : SIMCUDA_WRITES_ARRIVE;
    uint64_t value = mode == SIMCUDA_WRITES_CORRUPT ? word->value ^ 0x10 : word->value;
    if (mode == SIMCUDA_WRITES_DROP || mode == SIMCUDA_WRITES_DROP_COPIES) {
        return CUDA_SUCCESS;
    }
    if (word->denied) {
        return CUDA_ERROR_LAUNCH_FAILED;
    }
    if (word->wide) {
        __atomic_store_n((uint64_t *)word->address, value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((uint32_t *)word->address, (uint32_t)value, __ATOMIC_SEQ_CST);
    }
    return CUDA_SUCCESS;
}

static bool satisfied(const struct sim_op_word *word) {
    uint64_t now = word->wide ? __atomic_load_n((const uint64_t *)word->address, __ATOMIC_SEQ_CST)
                              : __atomic_load_n((const uint32_t *)word->address, __ATOMIC_SEQ_CST);
    uint64_t mask = word->wide ? UINT64_MAX : UINT32_MAX;
    switch (word->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return word->wide ? (int64_t)(now - word->value) >= 0 : (int32_t)((uint32_t)now - (uint32_t)word->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (word->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & word->value & mask) != 0;
    default:
        return (~(now | word->value) & mask) != 0;
    }
}

CUresult sim_execute_wait(const struct sim_stream *stream, const struct sim_op_word *word) {
    unsigned turn = 0;
    sim_spinning(1);
    while (!satisfied(word) && !sim_stopping(stream)) {
        sim_nap(&turn);
    }
    sim_spinning(-1);
    return CUDA_SUCCESS;
}

static CUresult check(const struct sim_stream *stream, struct sim_op_word *word, bool write) {
    size_t bytes = word->wide ? 8 : 4;
    const struct sim_range *range = sim_range_at(word->address);
    if (!sim.topology.memops && word->wide) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (word->address % bytes != 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not aligned to %zu bytes",
                          (unsigned long long)word->address, bytes);
    }
    if (word->address == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (range == NULL || range->freeing || range->kind == SIM_RANGE_MANAGED || range->kind == SIM_RANGE_POOL ||
        range->kind == SIM_RANGE_POOL_IN) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no memory for stream operations",
                          (unsigned long long)word->address);
    }
    if (!sim_accessible(stream->ctx->device, word->address, bytes, false)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "no access to 0x%llx", (unsigned long long)word->address);
    }
    if (write && !sim_accessible(stream->ctx->device, word->address, bytes, true)) { /* found by the device only */
        word->denied = true;
        return sim_misuse(CUDA_SUCCESS, "no write access to 0x%llx", (unsigned long long)word->address);
    }
    return CUDA_SUCCESS;
}

/* The second form of writes does without a memory barrier for nobody. */
static bool flags_known(bool write, unsigned flags) {
    return (flags & ~(write ? 0 : 3u | (unsigned)CU_STREAM_WAIT_VALUE_FLUSH)) == 0;
}

static CUresult checked_op(struct sim_stream *stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wide,
                           bool write, struct sim_op **op_out) {
    struct sim_op_word word = {address, value, flags, wide, false, false};
    if (!flags_known(write, flags)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!write && (flags & CU_STREAM_WAIT_VALUE_FLUSH) && !sim.topology.flush) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUresult rc = check(stream, &word, write);
    if (rc == CUDA_SUCCESS) {
        word.to_peer = sim_range_imported(sim_range_at(address));
        *op_out = sim_op_new(write ? SIM_OP_WRITE : SIM_OP_WAIT, 0);
        (*op_out)->u.word = word;
    }
    return rc;
}

static CUresult single(CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags, bool wide, bool write) {
    CUresult rc;
    struct sim_op *op = NULL;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    rc = checked_op(stream, address, value, flags, wide, write, &op);
    return rc == CUDA_SUCCESS ? sim_enqueue(stream, op) : rc;
}

SIM_ENTRY cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    SIM_RUN(cuStreamWriteValue32_v2, single(stream, addr, value, flags, false, true));
}

SIM_ENTRY cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    SIM_RUN(cuStreamWriteValue64_v2, single(stream, addr, value, flags, true, true));
}

SIM_ENTRY cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    SIM_RUN(cuStreamWaitValue32_v2, single(stream, addr, value, flags, false, false));
}

SIM_ENTRY cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    SIM_RUN(cuStreamWaitValue64_v2, single(stream, addr, value, flags, true, false));
}

/* One entry of a batch; barriers and flushes need no work here, since every write orders what was before it. */
static CUresult from_batch(struct sim_stream *stream, const CUstreamBatchMemOpParams *p, struct sim_op **op_out) {
    *op_out = NULL;
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return checked_op(stream, p->writeValue.address, p->writeValue.value, p->writeValue.flags, false, true, op_out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return checked_op(stream, p->writeValue.address, p->writeValue.value64, p->writeValue.flags, true, true,
                          op_out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return checked_op(stream, p->waitValue.address, p->waitValue.value, p->waitValue.flags, false, false, op_out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return checked_op(stream, p->waitValue.address, p->waitValue.value64, p->waitValue.flags, true, false, op_out);
    case CU_STREAM_MEM_OP_BARRIER:
        return p->memoryBarrier.flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return sim.topology.flush ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags) {
    CUresult rc;
    struct sim_op *ops[MAX_BATCH];
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (count > 0 && params == NULL) {
        sim_crash("a batch without operations");
    }
    if (flags != 0 || count > MAX_BATCH) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    unsigned made = 0;
    for (; made < count && rc == CUDA_SUCCESS; made++) {
        rc = from_batch(stream, &params[made], &ops[made]);
    }
    for (unsigned i = 0; i < made; i++) {
        if (ops[i] == NULL) {
            continue;
        }
        if (rc != CUDA_SUCCESS) {
            sim_op_free(ops[i]);
        } else {
            rc = sim_enqueue(stream, ops[i]);
        }
    }
    return rc;
}

SIM_ENTRY cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                unsigned int flags) {
    SIM_RUN(cuStreamBatchMemOp_v2, batch(stream, count, paramArray, flags));
}
