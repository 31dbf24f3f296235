/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels that use peerwin's own calls for device code; included by kernels.cu.
 */

/* A status that is not OK ends a kernel; it is the same on all lanes. */
static __device__ __forceinline__ int rig_failed(rig_report *report, peerwin_status status) {
    if (status != PEERWIN_OK && threadIdx.x == 0) {
        report->late++;
        report->value = (uint64_t)(uint32_t)status;
    }
    return status != PEERWIN_OK;
}

/* ---- message passing ---- */

static __device__ __forceinline__ void rig_put_signal(const rig_call_args *a, uint64_t offset, const uint64_t *source,
                                                      uint32_t slot, uint64_t round) {
    const size_t bytes = a->words * 8;
    if (a->scope == RIG_BLOCK) {
        peerwin_dev_put_signal_block(&a->view, a->right, offset, source, bytes, slot, PEERWIN_SIGNAL_SET, round);
        return;
    }
    __syncthreads();
    if (a->scope == RIG_WARP && threadIdx.x < 32)
        peerwin_dev_put_signal_warp(&a->view, a->right, offset, source, bytes, slot, PEERWIN_SIGNAL_SET, round);
    if (a->scope == RIG_THREAD && threadIdx.x == 0)
        peerwin_dev_put_signal_thread(&a->view, a->right, offset, source, bytes, slot, PEERWIN_SIGNAL_SET, round);
    __syncthreads();
}

/* Block b takes slots 2 b, for the flag, and 2 b + 1, for the acknowledgement. */
PW_KERNEL void rig_call(rig_call_args a) {
    const uint32_t slot = 2 * (uint32_t)blockIdx.x;
    const uint64_t offset = a.offset + blockIdx.x * a.stride;
    const uint64_t *own = (const uint64_t *)peerwin_dev_ptr(&a.view, a.view.rank, offset);
    uint64_t *source = (uint64_t *)((char *)a.source + blockIdx.x * a.stride);
    rig_report *report = a.report + blockIdx.x;
    for (uint64_t i = 1; i <= a.rounds; i++) {
        const uint64_t round = a.first + i;
        if (a.parts & RIG_SENDS) {
            rig_write(source, round, 0, a.words);
            rig_put_signal(&a, offset, source, slot, round);
        }
        if (a.parts & RIG_RECEIVES) {
            rig_peek(own, a.words);
            if (rig_failed(report, peerwin_dev_wait_block(&a.view, slot, round)))
                break;
            rig_compare(own, round, a.words, report);
            __syncthreads();
            if (threadIdx.x == 0) {
                peerwin_dev_signal(&a.view, a.left, slot + 1, PEERWIN_SIGNAL_SET, round);
                report->rounds++;
            }
        }
        if ((a.parts & RIG_AWAITS_ACK) && rig_failed(report, peerwin_dev_wait_block(&a.view, slot + 1, round)))
            break;
    }
}
SIMK_KERNEL(rig_call, rig_call_args);

/* ---- rounds of all ranks ---- */

PW_KERNEL void rig_meet(rig_meet_args a) {
    const uint32_t size = (uint32_t)a.view.size;
    for (uint64_t i = 1; i <= a.rounds; i++) {
        const uint64_t round = a.first + i;
        if (threadIdx.x == 0 && rig_mix(round, (uint64_t)(uint32_t)a.view.rank) % 16 == 0)
            rig_spin(rig_mix(round, (uint64_t)(uint32_t)a.view.rank) / 16 % (a.most_ns + 1));
        SIMK_BLOCK_STRIDE(k, (size_t)size * a.words) {
            const size_t offset = ((size_t)(uint32_t)a.view.rank * a.words + k % a.words) * 8;
            *(uint64_t *)peerwin_dev_ptr(&a.view, (int)(k / a.words), offset) = round;
        }
        if (rig_failed(a.report, peerwin_dev_barrier_block(&a.view)))
            break;
        const uint64_t *own = (const uint64_t *)peerwin_dev_ptr(&a.view, a.view.rank, 0);
        SIMK_BLOCK_STRIDE(k, (size_t)size * a.words) {
            const uint64_t value = own[k];
            if (value < round || value - round > 1)
                rig_wrong(a.report, round, k, value);
        }
        if (threadIdx.x == 0)
            a.report->rounds++;
    }
}
SIMK_KERNEL(rig_meet, rig_meet_args);

PW_KERNEL void rig_reduce(rig_reduce_args a) {
    for (uint64_t i = 0; i < a.count; i++) {
        char *values = (char *)a.values + i * a.stride;
        if (rig_failed(a.report, peerwin_dev_allreduce_block(&a.view, values, (int)a.each, (peerwin_type)a.type,
                                                             (peerwin_op)a.op)))
            break;
        if (threadIdx.x == 0)
            a.report->rounds++;
    }
}
SIMK_KERNEL(rig_reduce, rig_reduce_args);

/* ---- small messages ---- */

/* To the right and from the left: up to `depth` messages, at most as many as there are slots, before they are taken. */
PW_KERNEL void rig_mail(rig_mail_args a) {
    if (threadIdx.x == 0) {
        peerwin_status status = PEERWIN_OK;
        for (uint64_t i = 1; i <= a.rounds && status == PEERWIN_OK; i++) {
            const uint64_t round = a.first + i;
            const uint64_t depth = 1 + rig_mix(round, 1) % PEERWIN_MESSAGE_SLOTS;
            for (uint64_t k = 0; k < depth && status == PEERWIN_OK; k++) {
                uint64_t message[8];
                for (uint64_t word = 0; word < 8; word++)
                    message[word] = rig_mix(round, 8 * k + word);
                status = peerwin_dev_send(&a.view, a.right, message, 8 + rig_mix(round, k) % 8 * 8);
            }
            for (uint64_t k = 0; k < depth && status == PEERWIN_OK; k++) {
                uint64_t message[8];
                const uint64_t words = 1 + rig_mix(round, k) % 8;
                status = peerwin_dev_recv(&a.view, a.left, message, words * 8);
                for (uint64_t word = 0; word < words && status == PEERWIN_OK; word++) {
                    if (message[word] != rig_mix(round, 8 * k + word))
                        rig_wrong(a.report, round, 8 * k + word, message[word]);
                }
            }
            a.report->rounds += status == PEERWIN_OK;
        }
        (void)rig_failed(a.report, status);
    }
}
SIMK_KERNEL(rig_mail, rig_mail_args);

/* ---- waits that nobody ends ---- */

PW_KERNEL void rig_hold(rig_hold_args a) {
    if (a.status) {
        const peerwin_status status =
            a.barrier ? peerwin_dev_barrier_block(&a.view) : peerwin_dev_wait_block(&a.view, a.slot, a.value);
        if (threadIdx.x == 0)
            *a.status = (uint64_t)(uint32_t)status;
    }
}
SIMK_KERNEL(rig_hold, rig_hold_args);
