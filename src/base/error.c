/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Status text and the thread's last error; see error.h.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[PW_ERROR_TEXT];

const char *peerwin_strerror(peerwin_status status) {
    switch ((int)status) {
#define TEXT(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return text;
        PEERWIN_STATUS_MAP(TEXT)
#undef TEXT
    default:
        return "unknown status";
    }
}

const char *pw_status_name(int status) {
    switch (status) {
#define NAME(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return "PEERWIN_" #name;
        PEERWIN_STATUS_MAP(NAME)
#undef NAME
    default:
        return NULL;
    }
}

const char *peerwin_last_error(void) {
    return last_error;
}

int peerwin_version(void) {
    return PEERWIN_VERSION;
}

/* Appends to a text under construction; what does not fit is cut. */
static void append(char *text, size_t *used, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append_list(char *text, size_t *used, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void append_list(char *text, size_t *used, const char *format, va_list args) {
    if (*used >= PW_ERROR_TEXT - 1)
        return;
    int n = vsnprintf(text + *used, PW_ERROR_TEXT - *used, format, args);
    if (n > 0)
        *used += (size_t)n;
    if (*used > PW_ERROR_TEXT - 1)
        *used = PW_ERROR_TEXT - 1;
}

static void append(char *text, size_t *used, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append_list(text, used, format, args);
    va_end(args);
}

static void append_site(char *text, size_t *used, const pw_site *site) {
    if (site->call)
        append(text, used, "%s: ", site->call);
    if (site->stage)
        append(text, used, "%s: ", site->stage);
    if (site->rank != PW_NONE && site->peer != PW_NONE)
        append(text, used, "rank %d, peer %d: ", site->rank, site->peer);
    else if (site->rank != PW_NONE)
        append(text, used, "rank %d: ", site->rank);
}

peerwin_status pw_fail(peerwin_status status, const pw_site *site, const char *format, ...) {
    /* Built aside: an argument may be the last error itself. */
    char text[PW_ERROR_TEXT];
    size_t used = 0;
    text[0] = '\0';
    append_site(text, &used, site);
    va_list args;
    va_start(args, format);
    append_list(text, &used, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof text);
    return status;
}

/* What an errno means for the caller. */
typedef struct {
    int code;
    peerwin_status status;
    const char *name;
    const char *hint;
} errno_row;

static const errno_row errno_rows[] = {
    {EMFILE, PEERWIN_ERR_NO_MEMORY, "EMFILE",
     "this process is out of file descriptors: raise the limit (ulimit -n) or use fewer ranks per node"},
    {ENFILE, PEERWIN_ERR_NO_MEMORY, "ENFILE", "the system is out of file descriptors (fs.file-max)"},
    {ETOOMANYREFS, PEERWIN_ERR_NO_MEMORY, "ETOOMANYREFS",
     "too many file descriptors of this user are in flight: raise the descriptor limit (ulimit -n)"},
    {ENOMEM, PEERWIN_ERR_NO_MEMORY, "ENOMEM", "out of memory, or of mappings (vm.max_map_count)"},
    {ENOSPC, PEERWIN_ERR_NO_MEMORY, "ENOSPC", "no shared memory left"},
    {ENOBUFS, PEERWIN_ERR_NO_MEMORY, "ENOBUFS", "out of socket buffers"},
    {EPERM, PEERWIN_ERR_PERMISSION, "EPERM", "a security policy of the system or container refuses it"},
    {EACCES, PEERWIN_ERR_PERMISSION, "EACCES", "a security policy of the system or container refuses it"},
    {ECONNRESET, PEERWIN_ERR_SYSTEM, "ECONNRESET", "the peer closed the connection"},
    {EPIPE, PEERWIN_ERR_SYSTEM, "EPIPE", "the peer closed the connection"},
    {ENOSYS, PEERWIN_ERR_UNSUPPORTED, "ENOSYS", "this kernel is too old or forbids the call (Linux 5.3 or later)"},
};

peerwin_status pw_fail_errno(const pw_site *site, int code, const char *native_call) {
    for (size_t i = 0; i < sizeof errno_rows / sizeof *errno_rows; i++) {
        const errno_row *row = &errno_rows[i];
        if (row->code == code)
            return pw_fail(row->status, site, "%s failed with %s (%d): %s", native_call, row->name, code, row->hint);
    }
    return pw_fail(PEERWIN_ERR_SYSTEM, site, "%s failed with errno %d: %s", native_call, code, strerror(code));
}

peerwin_status pw_fail_mpi(const pw_site *site, int code, const char *native_call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        text[0] = '\0';
    return pw_fail(PEERWIN_ERR_MPI, site, "%s failed with code %d: %s", native_call, code, text);
}

peerwin_status pw_error_adopt(peerwin_status status, const char *text) {
    size_t length = strnlen(text, PW_ERROR_TEXT - 1);
    memmove(last_error, text, length);
    last_error[length] = '\0';
    return status;
}
