/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The descriptor channel; see channel.h.
 */
#include "window/channel.h"

#include "base/agree.h"
#include "base/fd.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { SLICE_MS = 20, STRANGER_MS = 1000, MAX_STRAY_FDS = 16, MEMORY_TRIES = 20 };

static socklen_t fill_address(const pw_address *address, struct sockaddr_un *name) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, address->bytes, address->length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + address->length);
}

/* A random name in the user's directory, for ranks that do not share a network namespace. */
static peerwin_status choose_path(const char *dir, const pw_site *site, pw_address *address_out) {
    struct stat info;
    if (stat(dir, &info) != 0)
        return pw_fail_errno(site, errno, "stat(PEERWIN_SOCKET_DIR)");
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return pw_fail(PEERWIN_ERR_PERMISSION, site,
                       "PEERWIN_SOCKET_DIR=%s must be a directory of this user that nobody else can write", dir);
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return pw_fail_errno(site, errno, "getrandom");
    pw_address address = {0};
    int length =
        snprintf(address.bytes, sizeof address.bytes, "%s/%016" PRIx64 "%016" PRIx64, dir, random[0], random[1]);
    if (length < 0 || (size_t)length >= sizeof address.bytes)
        return pw_fail(PEERWIN_ERR_ARG, site, "PEERWIN_SOCKET_DIR=%s is too long for a socket name", dir);
    address.length = (uint8_t)length;
    *address_out = address;
    return PEERWIN_OK;
}

/* Binds to `wanted`, or lets the kernel choose a name if that is empty; tells the name that came out. */
static int bind_to(int fd, const pw_address *wanted, pw_address *bound_out) {
    struct sockaddr_un name;
    socklen_t length = fill_address(wanted, &name);
    if (wanted->length == 0)
        length = sizeof(sa_family_t); /* autobind */
    if (bind(fd, (struct sockaddr *)&name, length) != 0)
        return -1;
    *bound_out = *wanted;
    if (wanted->length > 0)
        return 0;
    length = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &length) != 0)
        return -1;
    bound_out->length = (uint8_t)(length - offsetof(struct sockaddr_un, sun_path));
    memcpy(bound_out->bytes, name.sun_path, bound_out->length);
    return 0;
}

peerwin_status pw_channel_listen(const char *dir, int backlog, const pw_site *site, int *listener_out,
                                 pw_address *address_out) {
    pw_address wanted = {0};
    pw_address address = {0};
    peerwin_status status = dir[0] ? choose_path(dir, site, &wanted) : PEERWIN_OK;
    if (status != PEERWIN_OK)
        return status;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return pw_fail_errno(site, errno, "socket");
    if (bind_to(fd, &wanted, &address) != 0) {
        status = pw_fail_errno(site, errno, "bind");
        goto close_socket;
    }
    if (listen(fd, backlog) != 0) {
        status = pw_fail_errno(site, errno, "listen");
        goto unlink_name;
    }
    *listener_out = fd;
    *address_out = address;
    return PEERWIN_OK;

unlink_name:
    pw_channel_unlink(&address);
close_socket:
    pw_close(&fd);
    return status;
}

void pw_channel_unlink(const pw_address *address) {
    char path[PW_ADDRESS_BYTES + 1] = "";
    if (address->length == 0 || address->bytes[0] == '\0')
        return;
    memcpy(path, address->bytes, address->length);
    (void)unlink(path);
}

/* The process at the other end, if it belongs to this user; pid -1 otherwise. */
static pid_t same_user_pid(int fd) {
    struct ucred who;
    socklen_t length = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid())
        return -1;
    return who.pid;
}

/* Is the process at the other end the one that announced itself? Pids are comparable in one PID namespace only. */
static int is_peer(int fd, const pw_hello *mine, const pw_hello *peer) {
    pid_t pid = same_user_pid(fd);
    return pid != -1 && (mine->pid_ns != peer->pid_ns || pid == peer->pid);
}

/* Waits until the socket is ready or the watch ends. Out of memory in the kernel is a reason to try again, in bounds.
 */
static peerwin_status wait_ready(int fd, short events, pw_watch *watch, const pw_site *site) {
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = events};
        int count = poll(&ready, 1, SLICE_MS);
        if (count > 0)
            return PEERWIN_OK;
        if (count < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
            return pw_fail_errno(site, errno, "poll");
        pw_cause cause = pw_watch_look(watch);
        if (cause == 0)
            continue;
        if (poll(&ready, 1, 0) > 0) /* the peer may have answered just before it went */
            return PEERWIN_OK;
        return pw_cause_fail(cause, watch->live, site);
    }
}

/* Kernel memory may be back in a moment; `tries` bounds the patience. */
static int try_again(int code, int *tries) {
    if (code == EINTR)
        return 1;
    if ((code != ENOMEM && code != ENOBUFS) || ++*tries > MEMORY_TRIES)
        return 0;
    (void)poll(NULL, 0, 1);
    return 1;
}

/* The peer hung up: it failed first, or is gone. */
static peerwin_status hung_up(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_PEER_LOST, site, "the peer closed the descriptor channel");
}

peerwin_status pw_channel_send(int socket, const pw_note *note, int fd, pw_watch *watch, const pw_site *site) {
    pw_note counted = *note;
    counted.num_fds = fd >= 0;
    uint8_t bytes[PW_NOTE_BYTES];
    pw_note_encode(&counted, bytes);
    struct iovec part = {bytes, sizeof bytes};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.space;
        message.msg_controllen = CMSG_LEN(sizeof(int));
        control.header =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    int tries = 0;
    for (;;) {
        if (sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof bytes)
            return PEERWIN_OK;
        int code = errno;
        if (code == EPIPE || code == ECONNRESET)
            return hung_up(site);
        if (code != EAGAIN && !try_again(code, &tries))
            return pw_fail_errno(site, code, "sendmsg");
        peerwin_status status = code == EAGAIN ? wait_ready(socket, POLLOUT, watch, site) : PEERWIN_OK;
        if (status != PEERWIN_OK)
            return status;
    }
}

/* Collects every descriptor of a message, so that none is lost whatever the sender did. */
static int collect_fds(struct msghdr *message, int fds[MAX_STRAY_FDS]) {
    int count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here && count < MAX_STRAY_FDS; i++)
            memcpy(&fds[count++], CMSG_DATA(part) + i * sizeof(int), sizeof(int));
    }
    return count;
}

/* Judges a message; what it owns is closed by the caller unless this is OK. */
static peerwin_status judge(const struct msghdr *message, ssize_t length, const uint8_t *bytes, int count,
                            const pw_site *site, pw_note *note_out) {
    if (length == 0)
        return hung_up(site);
    if (length != PW_NOTE_BYTES || (message->msg_flags & MSG_TRUNC) || pw_note_decode(bytes, note_out) != 0)
        return pw_fail(PEERWIN_ERR_INTERNAL, site, "a message of %zd bytes on the descriptor channel is not a note",
                       length);
    if ((message->msg_flags & MSG_CTRUNC) && count < (int)note_out->num_fds)
        return pw_fail_errno(site, EMFILE, "recvmsg(SCM_RIGHTS)");
    if (count != (int)note_out->num_fds || (message->msg_flags & MSG_CTRUNC))
        return pw_fail(PEERWIN_ERR_INTERNAL, site, "a message brought %d descriptors instead of %u", count,
                       note_out->num_fds);
    return PEERWIN_OK;
}

peerwin_status pw_channel_receive(int socket, pw_watch *watch, const pw_site *site, pw_note *note_out, int *fd_out) {
    uint8_t bytes[PW_NOTE_BYTES + 1];
    struct iovec part = {bytes, sizeof bytes};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MAX_STRAY_FDS * sizeof(int))];
    } control;
    int fds[MAX_STRAY_FDS];
    int tries = 0;
    *fd_out = -1;
    *note_out = (pw_note){0};
    for (;;) {
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
        ssize_t length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        int code = length < 0 ? errno : 0;
        if (code == ECONNRESET)
            return hung_up(site);
        if (code != 0 && code != EAGAIN && !try_again(code, &tries))
            return pw_fail_errno(site, code, "recvmsg");
        peerwin_status ready = code == EAGAIN ? wait_ready(socket, POLLIN, watch, site) : PEERWIN_OK;
        if (ready != PEERWIN_OK)
            return ready;
        if (code != 0)
            continue;
        int count = collect_fds(&message, fds);
        peerwin_status status = judge(&message, length, bytes, count, site, note_out);
        if (status == PEERWIN_OK && count == 1)
            *fd_out = fds[0];
        for (int i = 0; status != PEERWIN_OK && i < count; i++)
            pw_close(&fds[i]);
        return status;
    }
}

/* Connects; the listener's queue may be full for a moment. 0 or an errno. */
static int connect_patiently(int fd, const pw_address *address) {
    struct sockaddr_un name;
    socklen_t length = fill_address(address, &name);
    int64_t deadline = pw_deadline(STRANGER_MS);
    while (connect(fd, (struct sockaddr *)&name, length) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || pw_now() >= deadline)
            return errno;
        (void)poll(NULL, 0, 1);
    }
    return 0;
}

/* Nobody of that name here: another network namespace, or a directory that is not shared. */
static int means_out_of_reach(int code) {
    return code == ECONNREFUSED || code == ENOENT || code == EACCES;
}

/*
 * Abstract names belong to a network namespace: the same name in mine is another process, whose answer would never come
 * to the peer. Inode 0 means that the namespace is not known.
 */
static int name_is_elsewhere(const pw_hello *mine, const pw_hello *peer) {
    int abstract = peer->address.length > 0 && peer->address.bytes[0] == '\0';
    return abstract && mine->net_ns != 0 && peer->net_ns != 0 && mine->net_ns != peer->net_ns;
}

peerwin_status pw_channel_connect(int my_rank, const pw_hello *mine, const pw_hello *peer, const pw_site *site,
                                  int *socket_out, pw_channel_state *state_out) {
    if (peer->uid != geteuid() || name_is_elsewhere(mine, peer)) {
        *state_out = peer->uid != geteuid() ? PW_CHANNEL_UID : PW_CHANNEL_NAMESPACE;
        return PEERWIN_OK;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return pw_fail_errno(site, errno, "socket");
    peerwin_status status = PEERWIN_OK;
    pw_watch patience = {.deadline = pw_deadline(STRANGER_MS)};
    int code = connect_patiently(fd, &peer->address);
    if (code != 0) {
        if (means_out_of_reach(code))
            *state_out = PW_CHANNEL_NAMESPACE;
        else
            status = pw_fail_errno(site, code, "connect");
        goto close_socket;
    }
    if (!is_peer(fd, mine, peer)) {
        *state_out = same_user_pid(fd) == -1 ? PW_CHANNEL_UID : PW_CHANNEL_NAMESPACE;
        goto close_socket;
    }
    pw_note note = {.kind = PW_NOTE_CONNECT, .rank = (uint32_t)my_rank};
    memcpy(note.nonce, peer->nonce, sizeof note.nonce);
    status = pw_channel_send(fd, &note, -1, &patience, site);
    if (status != PEERWIN_OK)
        goto close_socket;
    *socket_out = fd;
    *state_out = PW_CHANNEL_OK;
    return PEERWIN_OK;

close_socket:
    pw_close(&fd);
    return status;
}

peerwin_status pw_channel_finish(int socket, int peer_rank, const pw_hello *mine, pw_watch *watch,
                                 const pw_site *site) {
    pw_note note = {0};
    int fd = -1;
    peerwin_status status = pw_channel_receive(socket, watch, site, &note, &fd);
    if (status != PEERWIN_OK)
        return status;
    pw_close(&fd);
    if (note.kind != PW_NOTE_ACCEPT || (int)note.rank != peer_rank ||
        memcmp(note.nonce, mine->nonce, sizeof note.nonce) != 0)
        return pw_fail(PEERWIN_ERR_PERMISSION, site,
                       "the process that answered on the descriptor channel is not the peer");
    return PEERWIN_OK;
}

/*
 * Reads the first message of whoever connected and tells which rank it is, PW_NONE if it is none. A failure of this
 * process is a failure, and not a reason to turn a peer away.
 */
static peerwin_status identify(int fd, int my_rank, const pw_hello *hellos, int size, const pw_site *site,
                               int *rank_out) {
    pw_watch patience = {.deadline = pw_deadline(STRANGER_MS)};
    pw_note note = {0};
    int stray = -1;
    *rank_out = PW_NONE;
    if (same_user_pid(fd) == -1)
        return PEERWIN_OK;
    peerwin_status status = pw_channel_receive(fd, &patience, site, &note, &stray);
    pw_close(&stray);
    if (status == PEERWIN_ERR_SYSTEM || (status == PEERWIN_ERR_NO_MEMORY && note.kind == 0))
        return status;
    int known = status == PEERWIN_OK && note.kind == PW_NOTE_CONNECT && (int)note.rank < size &&
                (int)note.rank != my_rank && memcmp(note.nonce, hellos[my_rank].nonce, sizeof note.nonce) == 0 &&
                is_peer(fd, &hellos[my_rank], &hellos[note.rank]);
    if (known)
        *rank_out = (int)note.rank;
    return PEERWIN_OK;
}

static peerwin_status answer(int fd, int my_rank, const pw_hello *peer, pw_watch *watch, const pw_site *site) {
    pw_note note = {.kind = PW_NOTE_ACCEPT, .rank = (uint32_t)my_rank};
    memcpy(note.nonce, peer->nonce, sizeof note.nonce);
    return pw_channel_send(fd, &note, -1, watch, site);
}

peerwin_status pw_channel_accept(int listener, int my_rank, const pw_hello *hellos, int size, pw_watch *watch,
                                 const pw_site *site, int *socket_out, int *rank_out) {
    int tries = 0;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int code = fd < 0 ? errno : 0;
        if (code == ECONNABORTED || (code != EAGAIN && code != 0 && try_again(code, &tries)))
            continue;
        if (code != 0 && code != EAGAIN)
            return pw_fail_errno(site, code, "accept4");
        if (fd < 0) {
            peerwin_status status = wait_ready(listener, POLLIN, watch, site);
            if (status != PEERWIN_OK)
                return status;
            continue;
        }
        int rank = PW_NONE;
        peerwin_status status = identify(fd, my_rank, hellos, size, site, &rank);
        if (status == PEERWIN_OK && rank == PW_NONE) {
            pw_close(&fd);
            pw_cause cause = pw_watch_look(watch); /* a queue of strangers must not outlast the deadline */
            if (cause != 0)
                return pw_cause_fail(cause, watch->live, site);
            continue;
        }
        if (status == PEERWIN_OK)
            status = answer(fd, my_rank, &hellos[rank], watch, site);
        if (status != PEERWIN_OK) {
            pw_close(&fd);
            return status;
        }
        *socket_out = fd;
        *rank_out = rank;
        return PEERWIN_OK;
    }
}
