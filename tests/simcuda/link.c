/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The link, on SOCK_SEQPACKET.
 */
#define _GNU_SOURCE
#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void lost(const char *what) {
    fprintf(stderr, "link: %s\n", what);
    exit(3);
}

void tell(const void *data, size_t bytes) {
    if (send(LINK_FD, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
        lost("send failed");
    }
}

void hear(void *data, size_t bytes) {
    if (recv(LINK_FD, data, bytes, 0) != (ssize_t)bytes) {
        lost("peer is gone");
    }
}

void tell_fd(int fd) {
    char byte = 'f';
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(LINK_FD, &msg, MSG_NOSIGNAL) != 1) {
        lost("sendmsg failed");
    }
}

int hear_fd(void) {
    char byte;
    int fd = -1;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (recvmsg(LINK_FD, &msg, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&msg) == NULL) {
        lost("no descriptor came");
    }
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
    return fd;
}

void hand(void) {
    tell("g", 1);
}

void await(void) {
    char byte;
    hear(&byte, 1);
}

void step(void) {
    hand();
    await();
}
