/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The probes; see capability.h.
 */
#define _GNU_SOURCE
#include "capability.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Closes `fd` if it is one; 0 or the errno of the call that gave it. */
static int answer(int fd) {
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int probe_memfd(void) {
    return answer(memfd_create("peerwin-info", MFD_CLOEXEC));
}

static int seal(int seals) {
    const int fd = memfd_create("peerwin-info", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return errno;
    const int code = fcntl(fd, F_ADD_SEALS, seals) == 0 ? 0 : errno;
    close(fd);
    return code;
}

static int probe_size_seals(void) {
    return seal(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

static int probe_write_seal(void) {
    return seal(F_SEAL_FUTURE_WRITE);
}

/* A name chosen by the kernel, not in the file system. */
static int probe_sockets(void) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const struct sockaddr any = {.sa_family = AF_UNIX};
    const int code = bind(fd, &any, sizeof any.sa_family) == 0 && listen(fd, 1) == 0 ? 0 : errno;
    close(fd);
    return code;
}

/* Sends `fd` to `to`, and receives it from `from` as a new descriptor, to be closed by the caller; -1 and errno. */
static int pass(int fd, int to, int from) {
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(to, &message, MSG_NOSIGNAL) != 1 || recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
        return -1;
    head = CMSG_FIRSTHDR(&message);
    if (head == NULL || head->cmsg_type != SCM_RIGHTS) {
        errno = EPERM; /* filtered out on the way */
        return -1;
    }
    int passed = -1;
    memcpy(&passed, CMSG_DATA(head), sizeof passed);
    return passed;
}

static int probe_passing(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    const int code = answer(pass(pair[0], pair[0], pair[1]));
    close(pair[0]);
    close(pair[1]);
    return code;
}

static int probe_pidfd(void) {
    return answer((int)syscall(SYS_pidfd_open, getpid(), 0u));
}

static int probe_peerpidfd(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    int fd = -1;
    socklen_t length = sizeof fd;
    const int code = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0 ? answer(fd) : errno;
    close(pair[0]);
    close(pair[1]);
    return code;
}

static int probe_membarrier(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : errno;
}

static int probe_wipe(void) {
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return errno;
    const int code = madvise(page, bytes, MADV_WIPEONFORK) == 0 ? 0 : errno;
    munmap(page, bytes);
    return code;
}

const capability capabilities[CAPABILITIES] = {
    {"memfd", "memory of windows; needed", probe_memfd},
    {"size seals", "sizes that no rank can change; needed", probe_size_seals},
    {"write seal", "read-only windows; needed for those", probe_write_seal},
    {"local sockets", "meeting the ranks of the node; without, PEERWIN_SOCKET_DIR", probe_sockets},
    {"passing descriptors", "handing memory to other ranks; needed", probe_passing},
    {"pidfd", "noticing dead peers at once; without, by the deadline only", probe_pidfd},
    {"peer pidfd", "a peer's process from its socket; not needed", probe_peerpidfd},
    {"membarrier", "cheap check for a second thread; without, a dearer one", probe_membarrier},
    {"wipe on fork", "cheap check for a forked child; without, a dearer one", probe_wipe},
};
