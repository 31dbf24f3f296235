/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Status text and the thread's last error.
 *
 * The function that decides a failure fills the last error with a whole sentence, through one of the pw_fail
 * functions, and returns its status; callers only pass the status on. An agreed failure replaces the text by that of
 * the rank that failed first (agree.h).
 */
#ifndef PW_BASE_ERROR_H
#define PW_BASE_ERROR_H

#include "peerwin/peerwin.h"

enum { PW_ERROR_TEXT = 1024, PW_NONE = -1 };

/* Where a failure happened. Ranks are PW_NONE where there is none; strings may be NULL. */
typedef struct {
    const char *call;  /* public call, "peerwin_put" */
    const char *stage; /* stage of a window's life, "exchange" */
    int rank;          /* the rank that reports */
    int peer;          /* the rank at the other end */
} pw_site;

#define PW_SITE(call_, stage_, rank_, peer_)                                                                           \
    (&(const pw_site){.call = (call_), .stage = (stage_), .rank = (rank_), .peer = (peer_)})

/* Sets the last error to "call: stage: rank r, peer p: <text>" and returns `status`. */
PEERWIN_MUST_USE peerwin_status pw_fail(peerwin_status status, const pw_site *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: the status follows from `code` (an errno), and the hint with it. */
PEERWIN_MUST_USE peerwin_status pw_fail_errno(const pw_site *site, int code, const char *native_call);

/* The same for a failed MPI call. */
PEERWIN_MUST_USE peerwin_status pw_fail_mpi(const pw_site *site, int code, const char *native_call);

/* Replaces the last error by a text that came from another rank; returns `status`. */
peerwin_status pw_error_adopt(peerwin_status status, const char *text);

/* "PEERWIN_ERR_RANGE" for a status, NULL for a number that is none. */
const char *pw_status_name(int status);

#endif
