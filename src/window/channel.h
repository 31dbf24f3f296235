/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The descriptor channel between two ranks of a node: a connected SOCK_SEQPACKET socket.
 *
 * Names are chosen by the kernel, or random in a directory that the user gives; they travel through MPI. Whoever
 * connects must have the uid and pid that the rank announced and show the nonce that the listener announced, and the
 * other way round. A message holds one note and at most one descriptor; anything else is refused and its descriptors
 * closed.
 */
#ifndef PW_WINDOW_CHANNEL_H
#define PW_WINDOW_CHANNEL_H

#include "base/watch.h"
#include "window/wire.h"

/* Why a pair has no channel. Travels between ranks: append only. */
typedef enum {
    PW_CHANNEL_OK = 0,
    PW_CHANNEL_NONE = 1,      /* never tried: other node */
    PW_CHANNEL_NAMESPACE = 2, /* the name cannot be reached from here */
    PW_CHANNEL_UID = 3        /* the peer runs as another user */
} pw_channel_state;

/* Listens at a fresh name, in `dir` if that is not "". The caller closes the descriptor. */
PEERWIN_MUST_USE peerwin_status pw_channel_listen(const char *dir, int backlog, const pw_site *site, int *listener_out,
                                                  pw_address *address_out);

/* Removes the name, if it is a path. */
void pw_channel_unlink(const pw_address *address);

/*
 * Connects to a peer that listens, checks who it is, and shows its nonce. On OK, *state_out tells whether there is a
 * channel; NAMESPACE and UID are answers, not failures.
 */
PEERWIN_MUST_USE peerwin_status pw_channel_connect(int my_rank, const pw_hello *mine, const pw_hello *peer,
                                                   const pw_site *site, int *socket_out, pw_channel_state *state_out);

/* Waits for the answer of the rank connected to, and checks that it shows `mine`'s nonce. */
PEERWIN_MUST_USE peerwin_status pw_channel_finish(int socket, int peer_rank, const pw_hello *mine, pw_watch *watch,
                                                  const pw_site *site);

/*
 * Accepts one connection and finds out which of the `size` ranks in `hellos` it is; strangers are turned away
 * and the wait goes on. Answers it.
 */
PEERWIN_MUST_USE peerwin_status pw_channel_accept(int listener, int my_rank, const pw_hello *hellos, int size,
                                                  pw_watch *watch, const pw_site *site, int *socket_out, int *rank_out);

/* Sends a note with a descriptor, or without if fd is -1. Sets note->num_fds itself. */
PEERWIN_MUST_USE peerwin_status pw_channel_send(int socket, const pw_note *note, int fd, pw_watch *watch,
                                                const pw_site *site);

/*
 * Receives one message: a whole note and exactly note.num_fds descriptors, close-on-exec. *fd_out is -1 or owned by the
 * caller. NO_MEMORY if the descriptor did not fit into this process; then the message is consumed all the same, and
 * note_out written. After any other failure note_out->kind is 0 unless a message was consumed. PEER_LOST if the peer
 * hung up.
 */
PEERWIN_MUST_USE peerwin_status pw_channel_receive(int socket, pw_watch *watch, const pw_site *site, pw_note *note_out,
                                                   int *fd_out);

#endif
