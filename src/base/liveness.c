/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Liveness by pidfd; see liveness.h.
 */
#include "base/liveness.h"

#include "base/fd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

peerwin_status pw_liveness_create(pw_liveness *live, int count, const pw_site *site) {
    live->count = count;
    live->gone = PW_NONE;
    live->polls = calloc((size_t)count, sizeof *live->polls);
    live->pids = calloc((size_t)count, sizeof *live->pids);
    live->goodbyes = calloc((size_t)count, sizeof *live->goodbyes);
    if (!live->polls || !live->pids || !live->goodbyes) {
        pw_liveness_destroy(live);
        return pw_fail_errno(site, ENOMEM, "calloc");
    }
    for (int rank = 0; rank < count; rank++)
        live->polls[rank] = (struct pollfd){.fd = -1, .events = POLLIN};
    return PEERWIN_OK;
}

void pw_liveness_destroy(pw_liveness *live) {
    for (int rank = 0; live->polls && rank < live->count; rank++)
        pw_close(&live->polls[rank].fd);
    free(live->polls);
    free(live->pids);
    free(live->goodbyes);
    *live = (pw_liveness){.gone = PW_NONE};
}

/* Of /proc/<pid>/stat: fields 3, 4 and 22. */
typedef struct {
    char state;
    pid_t parent;
    uint64_t start;
} process_stat;

/* From the state letter on, since the name before it may hold anything. 0 or an errno. */
static int read_stat(pid_t pid, process_stat *out) {
    char path[40];
    char text[1024];
    *out = (process_stat){0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    ssize_t length = read(fd, text, sizeof text - 1);
    pw_close(&fd);
    if (length <= 0)
        return ESRCH; /* it ended between open and read */
    text[length] = '\0';
    const char *field = strrchr(text, ')');
    if (!field || field[1] != ' ')
        return EPROTO;
    field += 2;
    out->state = *field;
    for (int number = 3; number < 22; number++) {
        field = strchr(field, ' ');
        if (!field)
            return EPROTO;
        field++;
        if (number == 3)
            out->parent = (pid_t)strtol(field, NULL, 10);
    }
    out->start = strtoull(field, NULL, 10);
    return 0;
}

pid_t pw_process_parent(pid_t pid) {
    process_stat stat;
    return read_stat(pid, &stat) == 0 ? stat.parent : 0;
}

/* Without /proc nothing is known, and nothing compared. */
peerwin_status pw_process_start(pid_t pid, const pw_site *site, uint64_t *start_out) {
    process_stat stat;
    int code = read_stat(pid, &stat);
    if (code != 0 && code != ENOENT && code != ESRCH)
        return pw_fail_errno(site, code, "open(/proc/<pid>/stat)");
    *start_out = code == 0 ? stat.start : 0;
    return PEERWIN_OK;
}

/* Is the process with this number still the one that announced itself? */
static peerwin_status check_start(pid_t pid, uint64_t announced, const pw_site *site) {
    uint64_t start = 0;
    peerwin_status status = pw_process_start(pid, site, &start);
    if (status != PEERWIN_OK || announced == 0 || start == announced)
        return status;
    return pw_fail(PEERWIN_ERR_PEER_LOST, site, "process %d is gone", (int)pid);
}

/* *fd_out is a pidfd that is known to be of the process that announced itself. */
static peerwin_status open_watched(pid_t pid, uint64_t start, const pw_site *site, int *fd_out) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0u); /* close-on-exec by definition */
    if (fd < 0 && errno == ESRCH)
        return pw_fail(PEERWIN_ERR_PEER_LOST, site, "process %d is gone", (int)pid);
    if (fd < 0)
        return pw_fail_errno(site, errno, "pidfd_open");
    peerwin_status status = check_start(pid, start, site);
    if (status != PEERWIN_OK)
        pw_close(&fd);
    else
        *fd_out = fd;
    return status;
}

peerwin_status pw_liveness_watch(pw_liveness *live, int rank, pid_t pid, uint64_t start, const pw_site *site) {
    int fd = -1;
    peerwin_status status = open_watched(pid, start, site, &fd);
    if (status == PEERWIN_ERR_PEER_LOST && (live->gone == PW_NONE || rank < live->gone))
        live->gone = rank;
    if (status != PEERWIN_OK)
        return status;
    live->polls[rank].fd = fd;
    live->pids[rank] = pid;
    return PEERWIN_OK;
}

int pw_liveness_lost(pw_liveness *live) {
    if (live->polls && live->gone != PW_NONE)
        return live->gone;
    if (!live->polls || poll(live->polls, (nfds_t)live->count, 0) <= 0)
        return PW_NONE;
    for (int rank = 0; rank < live->count; rank++) {
        if (live->polls[rank].fd < 0 || live->polls[rank].revents == 0)
            continue;
        const _Atomic uint32_t *goodbye = live->goodbyes[rank];
        if (!goodbye || atomic_load_explicit(goodbye, memory_order_acquire) == 0)
            return rank;
        pw_close(&live->polls[rank].fd);
        live->pids[rank] = 0; /* may be another process's soon */
    }
    return PW_NONE;
}

void pw_liveness_describe_stopped(const pw_liveness *live, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; live->polls && rank < live->count && used < bytes; rank++) {
        process_stat stat;
        if (live->pids[rank] == 0 || read_stat(live->pids[rank], &stat) != 0 ||
            (stat.state != 'T' && stat.state != 't'))
            continue;
        int n = snprintf(text + used, bytes - used, "; rank %d (pid %d) is stopped", rank, (int)live->pids[rank]);
        used += n > 0 ? (size_t)n : 0;
    }
}
