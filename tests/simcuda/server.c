/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tickets across PID namespaces, where /proc does not reach: a thread of the exporter hands out copies of its
 * descriptors on an abstract socket whose name lies in the ticket. It starts with the first fabric handle and exists so
 * that fabric handles work between containers that share a network namespace, as they do on real systems.
 */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener = -1;

/* The PID of another namespace says nothing here; the two together are unique enough on one machine. */
static socklen_t server_address(struct sockaddr_un *address, uint64_t pid_namespace, int32_t pid) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "simcuda-%llx-%d",
                          (unsigned long long)pid_namespace, (int)pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void send_fd(int to, int fd) {
    char byte = 'f';
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    (void)sendmsg(to, &msg, MSG_NOSIGNAL);
}

static void serve_one(int client) {
    struct sim_ticket ticket;
    if (recv(client, &ticket, sizeof ticket, MSG_WAITALL) == (ssize_t)sizeof ticket) {
        pthread_mutex_lock(&sim.lock);
        bool ours = sim_is_driver_fd(ticket.fd);
        int copy = ours ? dup(ticket.fd) : -1;
        pthread_mutex_unlock(&sim.lock);
        if (copy >= 0) {
            send_fd(client, copy);
            close(copy);
        }
    }
    close(client);
}

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0) {
            serve_one(client);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return NULL;
        }
    }
}

void sim_ticket_serve(void) {
    struct sockaddr_un address;
    pthread_t thread;
    sigset_t all, before;
    if (listener >= 0) {
        return;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = server_address(&address, sim_pid_namespace(), (int32_t)getpid());
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 64) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    listener = fd;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, serve, NULL) == 0) {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int sim_ticket_fetch(const struct sim_ticket *ticket) {
    struct sockaddr_un address;
    char byte;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int received = -1, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = server_address(&address, ticket->pid_namespace, ticket->pid);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&address, length) == 0 &&
        send(fd, ticket, sizeof *ticket, MSG_NOSIGNAL) == (ssize_t)sizeof *ticket &&
        recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg) != NULL) {
        memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof received);
    }
    close(fd);
    return received;
}
