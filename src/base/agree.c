/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Agreed collectives; see agree.h.
 *
 * A status is agreed by one all-reduce of four numbers. The largest "key" tells which rank's failure counts (a cause
 * before its after-effects, then the lowest rank) and its status; the largest and smallest tag tell whether all ranks
 * are in the same call; the last tells whether any rank has lost step with its peers outside MPI. Only a failure costs
 * a second step, the broadcast of the text.
 */
#include "base/agree.h"

#include "base/log.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_GRACE_MS = 20, MOST_GRACE_MS = 200 };

const char *pw_call_name(pw_call call) {
    switch (call) {
    case PW_CALL_INIT:
        return "peerwin_init";
    case PW_CALL_FINALIZE:
        return "peerwin_finalize";
    case PW_CALL_ALLOC:
        return "peerwin_win_alloc";
    case PW_CALL_ATTACH:
        return "peerwin_win_attach";
    case PW_CALL_FREE:
        return "peerwin_win_free";
    case PW_CALL_HALO_CREATE:
        return "peerwin_halo_create";
    case PW_CALL_HALO_FREE:
        return "peerwin_halo_free";
    default:
        return "another call";
    }
}

/* The status a caller sees: a broken context is ABORTED when another rank's time-out broke it. */
peerwin_status pw_cause_fail(pw_cause cause, const pw_liveness *live, const pw_site *site) {
    char stopped[200] = "";
    int rank = pw_cause_rank(cause);
    pw_site with_peer = *site;
    with_peer.peer = rank;
    switch (pw_cause_status(cause)) {
    case PEERWIN_ERR_PEER_LOST:
        return pw_fail(PEERWIN_ERR_PEER_LOST, &with_peer,
                       "the peer's process ended without finalizing; the context can only be finalized now");
    case PEERWIN_ERR_ABORTED:
        return pw_fail(PEERWIN_ERR_ABORTED, &with_peer,
                       "that rank called peerwin_abort; the context can only be finalized now");
    case PEERWIN_ERR_CONTEXT_LOST:
        return pw_fail(PEERWIN_ERR_CONTEXT_LOST, &with_peer,
                       "the CUDA context of that rank is lost; the context can only be finalized now");
    case PEERWIN_ERR_MISMATCH:
        return pw_fail(PEERWIN_ERR_MISMATCH, &with_peer,
                       "that rank met ranks that gave an all-reduce on a stream another count, type or operation than "
                       "it; the context can only be finalized now");
    case PEERWIN_ERR_STATE:
        return pw_fail(PEERWIN_ERR_STATE, site, "MPI is finalized; only peerwin_finalize is allowed now");
    case PEERWIN_ERR_TIMEOUT:
        if (rank != PW_NONE)
            return pw_fail(PEERWIN_ERR_ABORTED, &with_peer,
                           "a collective call timed out on that rank; the context can only be finalized now");
        if (live)
            pw_liveness_describe_stopped(live, stopped, sizeof stopped);
        return pw_fail(PEERWIN_ERR_TIMEOUT, site, "not all ranks came before the deadline%s", stopped);
    default:
        return pw_fail(PEERWIN_ERR_ABORTED, &with_peer,
                       "a collective call failed half-way on that rank; the context can only be finalized now");
    }
}

/* Test a while, then yield, then sleep: ranks may outnumber processors. */
static void pause_between_tests(int round) {
    if (round < 50)
        return;
    if (round < 250) {
        sched_yield();
        return;
    }
    nanosleep(&(const struct timespec){.tv_nsec = 100000}, NULL);
}

/* `broken` is the context's cause word, or NULL for a step that must end even in a context that just broke. */
static peerwin_status wait_for(pw_agree *agree, MPI_Request *request, const _Atomic uint64_t *broken, const char *what,
                               const pw_site *site) {
    pw_watch watch = {
        .live = agree->live, .broken = broken, .deadline = agree->deadline, .next_poll = pw_now() + PW_MS};
    pw_cause over = 0;
    for (int round = 0;; round += round < 1000) {
        int done = 0;
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            agree->lost = 1;
            agree->unfinished = 1;
            return pw_fail_mpi(site, code, what);
        }
        if (done)
            return PEERWIN_OK;
        if (over != 0)
            break;
        if (round >= 50)
            over = pw_watch_look(&watch);
        pause_between_tests(round);
    }
    agree->lost = 1;
    agree->unfinished = 1;
    agree->ended_by = over;
    return pw_cause_fail(over, agree->live, site);
}

peerwin_status pw_agree_wait(pw_agree *agree, MPI_Request *request, const char *what, const pw_site *site) {
    return wait_for(agree, request, agree->broken, what, site);
}

peerwin_status pw_agree_create(pw_agree *agree, MPI_Comm comm, int timeout_ms, const pw_site *site) {
    *agree = (pw_agree){.comm = MPI_COMM_NULL, .timeout_ms = timeout_ms, .deadline = pw_deadline(timeout_ms)};
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Comm_idup(comm, &agree->comm, &request);
    if (code != MPI_SUCCESS)
        return pw_fail_mpi(site, code, "MPI_Comm_idup");
    peerwin_status status = pw_agree_wait(agree, &request, "MPI_Comm_idup", site);
    if (status != PEERWIN_OK)
        return status;
    MPI_Comm_set_errhandler(agree->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(agree->comm, &agree->rank);
    MPI_Comm_size(agree->comm, &agree->size);
    return PEERWIN_OK;
}

void pw_agree_destroy(pw_agree *agree) {
    if (agree->lost)
        pw_log(PW_LOG_DEBUG, agree->rank, "the communicator of a broken context is given up");
    else if (agree->comm != MPI_COMM_NULL)
        MPI_Comm_free(&agree->comm);
}

/* Refuses to start a step on a communicator that was given up. */
static peerwin_status usable(const pw_agree *agree, const pw_site *site) {
    if (!agree->lost)
        return PEERWIN_OK;
    if (agree->ended_by != 0)
        return pw_cause_fail(agree->ended_by, agree->live, site);
    return pw_fail(PEERWIN_ERR_ABORTED, site, "the context is broken by an earlier MPI failure");
}

/* A collective did not start here, so this rank has lost step with the others: the context breaks. */
static peerwin_status not_started(pw_agree *agree, int code, const char *what, const pw_site *site) {
    agree->lost = 1;
    return pw_fail_mpi(site, code, what);
}

/*
 * The text of the rank whose failure counts becomes everyone's. All ranks know of the failure now, so all come here,
 * even those whose context another rank breaks meanwhile.
 */
static peerwin_status spread_text(pw_agree *agree, int root, peerwin_status failed, const pw_site *site) {
    MPI_Request request = MPI_REQUEST_NULL;
    char *text = agree->text;
    if (root == agree->rank) {
        memset(text, 0, PW_ERROR_TEXT);
        strncpy(text, peerwin_last_error(), PW_ERROR_TEXT - 1);
    }
    int code = MPI_Ibcast(text, PW_ERROR_TEXT, MPI_CHAR, root, agree->comm, &request);
    if (code != MPI_SUCCESS)
        return not_started(agree, code, "MPI_Ibcast", site);
    peerwin_status status = wait_for(agree, &request, NULL, "MPI_Ibcast", site);
    return status == PEERWIN_OK ? pw_error_adopt(failed, text) : status;
}

static peerwin_status mismatch(int64_t high, int64_t low, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_MISMATCH, site,
                   "the ranks are in different collective calls: some in %s (object %u), some in %s (object %u); every "
                   "rank must make the same calls in the same order",
                   pw_call_name((pw_call)(high >> 32)), (unsigned)(uint32_t)high, pw_call_name((pw_call)(low >> 32)),
                   (unsigned)(uint32_t)low);
}

static int64_t key_of(const pw_agree *agree, peerwin_status local) {
    int64_t counts = agree->aftermath ? 0 : (int64_t)1 << 40;
    return local == PEERWIN_OK ? 0 : counts | (int64_t)(agree->size - agree->rank) << 8 | (int64_t)local;
}

/*
 * A rank that just gave up at the deadline still gets the others' view, if they come soon: then all agree on the
 * time-out.
 */
static void extend_deadline(pw_agree *agree) {
    int milliseconds = agree->timeout_ms / 10;
    if (milliseconds < LEAST_GRACE_MS)
        milliseconds = LEAST_GRACE_MS;
    if (milliseconds > MOST_GRACE_MS)
        milliseconds = MOST_GRACE_MS;
    int64_t grace = pw_deadline(milliseconds);
    if (agree->deadline < grace)
        agree->deadline = grace;
}

/* One status for all; tag 0 compares no calls. */
static peerwin_status agree_on(pw_agree *agree, int64_t tag, peerwin_status local, const pw_site *site) {
    peerwin_status status = usable(agree, site);
    if (status != PEERWIN_OK)
        return status;
    extend_deadline(agree);
    agree->in[0] = key_of(agree, local);
    agree->in[1] = tag;
    agree->in[2] = -tag;
    agree->in[3] = agree->out_of_step;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallreduce(agree->in, agree->out, 4, MPI_INT64_T, MPI_MAX, agree->comm, &request);
    if (code != MPI_SUCCESS)
        return not_started(agree, code, "MPI_Iallreduce", site);
    status = pw_agree_wait(agree, &request, "MPI_Iallreduce", site);
    if (status != PEERWIN_OK)
        return status;
    const int64_t *out = agree->out;
    if (out[1] != -out[2])
        return mismatch(out[1], -out[2], site);
    if (out[0] == 0)
        return PEERWIN_OK;
    int root = agree->size - (int)(out[0] >> 8 & 0xffffffff);
    int out_of_step = out[3] != 0;
    status = spread_text(agree, root, (peerwin_status)(out[0] & 0xff), site);
    if (out_of_step && !agree->lost) {
        agree->lost = 1;
        agree->lost_together = 1;
        agree->ended_by = pw_cause_make(PEERWIN_ERR_SYSTEM, root);
    }
    return status;
}

peerwin_status pw_agree_enter(pw_agree *agree, pw_call call, uint32_t object, peerwin_status local,
                              const pw_site *site) {
    agree->deadline = pw_deadline(agree->timeout_ms);
    return agree_on(agree, (int64_t)call << 32 | object, local, site);
}

peerwin_status pw_agree_status(pw_agree *agree, peerwin_status local, const pw_site *site) {
    return agree_on(agree, 0, local, site);
}

peerwin_status pw_agree_gather(pw_agree *agree, const void *mine, size_t bytes, void **all_out, const pw_site *site) {
    peerwin_status status = usable(agree, site);
    if (status != PEERWIN_OK)
        return status;
    /* A rank that is out of memory cannot stay away from the collective: agree first. */
    char *all = malloc(bytes * (size_t)agree->size + bytes);
    if (!all)
        status = pw_fail_errno(site, ENOMEM, "malloc");
    status = pw_agree_status(agree, status, site);
    if (status != PEERWIN_OK) {
        free(all);
        return status;
    }
    char *copy = all + bytes * (size_t)agree->size;
    memcpy(copy, mine, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgather(copy, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, agree->comm, &request);
    if (code != MPI_SUCCESS) {
        free(all);
        return not_started(agree, code, "MPI_Iallgather", site);
    }
    status = pw_agree_wait(agree, &request, "MPI_Iallgather", site);
    if (status != PEERWIN_OK)
        return status; /* MPI still owns the block */
    *all_out = all;
    return PEERWIN_OK;
}
