/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The descriptor channel against everything that can come over a socket: no descriptor, two of them, short, long and
 * foreign messages, strangers, a peer that closed or says nothing, and no room for one more descriptor. After each
 * test as many descriptors are open as before.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/records.h"
#include "unit/unit.h"
#include "window/channel.h"

static const pw_site site = {.call = "peerwin_win_alloc", .stage = "exchange", .rank = 0, .peer = 1};

static int open_before;

static int count_open(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static int remember(void **state) {
    (void)state;
    open_before = count_open();
    return 0;
}

static int compare(void **state) {
    (void)state;
    assert_int_equal(count_open(), open_before);
    return 0;
}

static pw_watch watch_for(int timeout_ms) {
    return (pw_watch){.deadline = pw_deadline(timeout_ms)};
}

static void make_pair(int pair[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void close_pair(int pair[2]) {
    close(pair[0]);
    close(pair[1]);
}

/* Sends any bytes with any descriptors, as a faulty or hostile peer might. */
static void send_raw(int socket, const void *bytes, size_t length, const int *fds, size_t num_fds) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (num_fds > 0) {
        message.msg_control = control.space;
        message.msg_controllen = CMSG_LEN(num_fds * sizeof(int));
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(num_fds * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), fds, num_fds * sizeof(int));
    }
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), (ssize_t)length);
}

static void send_note(int socket, pw_note note, const int *fds, size_t num_fds) {
    uint8_t bytes[PW_NOTE_BYTES];
    pw_note_encode(&note, bytes);
    send_raw(socket, bytes, sizeof(bytes), fds, num_fds);
}

static peerwin_status receive(int socket, int *fd_out) {
    pw_watch watch = watch_for(1000);
    pw_note note;
    return pw_channel_receive(socket, &watch, &site, &note, fd_out);
}

static void check_refused(int socket, peerwin_status status, const char *word) {
    int fd = 99;
    assert_int_equal(receive(socket, &fd), status);
    assert_int_equal(fd, -1);
    assert_error_has(word);
    assert_error_has("peer 1");
}

static ino_t inode_of(int fd) {
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return info.st_ino;
}

static void a_descriptor_arrives_with_its_note_and_close_on_exec(void **state) {
    int pair[2];
    int fd = -1;
    pw_note note;
    pw_watch watch = watch_for(1000);
    int memory = memfd_create("test", MFD_CLOEXEC);
    pw_note sent = record_note(PW_NOTE_HANDLE);
    (void)state;
    make_pair(pair);
    assert_int_equal(pw_channel_send(pair[0], &sent, memory, &watch, &site), PEERWIN_OK);
    assert_int_equal(pw_channel_receive(pair[1], &watch, &site, &note, &fd), PEERWIN_OK);
    assert_memory_equal(&note, &sent, sizeof(note));
    assert_true(fd >= 0 && fd != memory);
    assert_int_equal(inode_of(fd), inode_of(memory));
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    close(memory);
    close_pair(pair);
}

static void a_note_without_a_descriptor_arrives(void **state) {
    int pair[2];
    int fd = 99;
    pw_note note;
    pw_watch watch = watch_for(1000);
    pw_note sent = record_note(PW_NOTE_ACK);
    (void)state;
    make_pair(pair);
    for (int i = 0; i < 100; i++) {
        sent.id = (uint64_t)i;
        assert_int_equal(pw_channel_send(pair[0], &sent, -1, &watch, &site), PEERWIN_OK);
        assert_int_equal(pw_channel_receive(pair[1], &watch, &site, &note, &fd), PEERWIN_OK);
        assert_int_equal(note.id, i);
        assert_int_equal(note.num_fds, 0);
        assert_int_equal(note.status, PEERWIN_ERR_NO_MEMORY);
        assert_int_equal(fd, -1);
    }
    close_pair(pair);
}

static void a_wrong_number_of_descriptors_is_refused_and_none_is_kept(void **state) {
    int pair[2];
    int fds[64];
    (void)state;
    make_pair(pair);
    for (int i = 0; i < 64; i++) {
        fds[i] = pair[0];
    }
    for (size_t count = 0; count <= 64; count++) {
        pw_note note = record_note(PW_NOTE_HANDLE);
        if (count != 1) {
            send_note(pair[0], note, fds, count); /* says one */
            check_refused(pair[1], PEERWIN_ERR_INTERNAL, "descriptors");
        }
        if (count != 0) {
            note.num_fds = 0;
            send_note(pair[0], note, fds, count);
            check_refused(pair[1], PEERWIN_ERR_INTERNAL, "descriptors");
        }
    }
    close_pair(pair);
}

static void what_is_no_note_is_refused_and_its_descriptor_closed(void **state) {
    uint8_t bytes[4 * PW_NOTE_BYTES];
    pw_note note = record_note(PW_NOTE_HANDLE);
    int pair[2];
    (void)state;
    make_pair(pair);
    memset(bytes, 0, sizeof(bytes));
    pw_note_encode(&note, bytes);
    for (size_t length = 1; length <= sizeof(bytes); length++) {
        if (length != PW_NOTE_BYTES) {
            send_raw(pair[0], bytes, length, pair, 1);
            check_refused(pair[1], PEERWIN_ERR_INTERNAL, "note");
        }
    }
    bytes[0] ^= 1; /* the right length, another magic */
    send_raw(pair[0], bytes, PW_NOTE_BYTES, pair, 1);
    check_refused(pair[1], PEERWIN_ERR_INTERNAL, "note");
    close_pair(pair);
}

/* The next message is still read right after a wrong one. */
static void a_wrong_message_is_consumed(void **state) {
    int pair[2];
    int fd = -1;
    (void)state;
    make_pair(pair);
    send_raw(pair[0], "nonsense", 8, NULL, 0);
    send_note(pair[0], record_note(PW_NOTE_HANDLE), pair, 1);
    check_refused(pair[1], PEERWIN_ERR_INTERNAL, "note");
    assert_int_equal(receive(pair[1], &fd), PEERWIN_OK);
    assert_true(fd >= 0);
    close(fd);
    close_pair(pair);
}

static void a_closed_peer_is_noticed_at_once(void **state) {
    pw_watch watch = watch_for(60000);
    pw_note note = record_note(PW_NOTE_HANDLE);
    int pair[2];
    (void)state;
    make_pair(pair);
    close(pair[0]);
    int64_t start = pw_now();
    check_refused(pair[1], PEERWIN_ERR_PEER_LOST, "closed");
    assert_int_not_equal(pw_channel_send(pair[1], &note, -1, &watch, &site), PEERWIN_OK);
    assert_error_has("closed");
    assert_true(pw_now() - start < 1000 * PW_MS);
    close(pair[1]);
}

static void a_silent_peer_is_a_timeout(void **state) {
    pw_watch watch = watch_for(100);
    pw_note note;
    int pair[2];
    int fd = 99;
    int64_t start = pw_now();
    (void)state;
    make_pair(pair);
    assert_int_equal(pw_channel_receive(pair[1], &watch, &site, &note, &fd), PEERWIN_ERR_TIMEOUT);
    assert_int_equal(fd, -1);
    assert_true(pw_now() - start >= 95 * PW_MS && pw_now() - start < 2000 * PW_MS);
    close_pair(pair);
}

static void a_peer_that_does_not_read_is_a_timeout(void **state) {
    pw_note note = record_note(PW_NOTE_ACK);
    peerwin_status status = PEERWIN_OK;
    int pair[2];
    (void)state;
    make_pair(pair);
    for (int i = 0; i < 100000 && status == PEERWIN_OK; i++) {
        pw_watch watch = watch_for(50);
        status = pw_channel_send(pair[0], &note, -1, &watch, &site);
    }
    assert_int_equal(status, PEERWIN_ERR_TIMEOUT);
    close_pair(pair);
}

static void a_broken_context_ends_the_wait(void **state) {
    _Atomic uint64_t broken = pw_cause_make(PEERWIN_ERR_ABORTED, 5);
    pw_watch watch = {.deadline = pw_deadline(60000), .broken = &broken};
    pw_note note;
    int pair[2];
    int fd = 99;
    (void)state;
    make_pair(pair);
    assert_int_equal(pw_channel_receive(pair[1], &watch, &site, &note, &fd), PEERWIN_ERR_ABORTED);
    close_pair(pair);
}

static void no_room_for_the_descriptor_is_called_so_and_the_note_is_read(void **state) {
    struct rlimit normal;
    struct rlimit tight;
    pw_watch watch = watch_for(1000);
    pw_note note = {0};
    int pair[2];
    int fd = 99;
    (void)state;
    make_pair(pair);
    send_note(pair[0], record_note(PW_NOTE_HANDLE), pair, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
    tight = normal;
    tight.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    peerwin_status status = pw_channel_receive(pair[1], &watch, &site, &note, &fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal), 0);
    assert_int_equal(status, PEERWIN_ERR_NO_MEMORY);
    assert_int_equal(fd, -1);
    assert_int_equal(note.kind, PW_NOTE_HANDLE);
    assert_error_has("descriptor");
    close_pair(pair);
}

/* ------------------------------------------------------------------------------------------------ connections */

typedef struct {
    int listener;
    pw_hello hellos[2]; /* both are this process: rank 0 listens, rank 1 connects */
} meeting;

static meeting make_meeting(const char *dir) {
    meeting m;
    pw_hello hello = record_hello();
    hello.pid = getpid();
    hello.uid = geteuid();
    m.hellos[0] = hello;
    m.hellos[1] = hello;
    memset(m.hellos[0].nonce, 0x10, sizeof(hello.nonce));
    memset(m.hellos[1].nonce, 0x11, sizeof(hello.nonce));
    assert_int_equal(pw_channel_listen(dir, 8, &site, &m.listener, &m.hellos[0].address), PEERWIN_OK);
    return m;
}

static peerwin_status connect_as(const meeting *m, int rank, const pw_hello *listening, int *socket_out,
                                 pw_channel_state *state_out) {
    return pw_channel_connect(rank, &m->hellos[1], listening, &site, socket_out, state_out);
}

static peerwin_status accept_one(const meeting *m, int timeout_ms, int *socket_out, int *rank_out) {
    pw_watch watch = watch_for(timeout_ms);
    return pw_channel_accept(m->listener, 0, m->hellos, 2, &watch, &site, socket_out, rank_out);
}

static void check_meeting(const char *dir) {
    meeting m = make_meeting(dir);
    pw_watch watch = watch_for(1000);
    pw_channel_state how = PW_CHANNEL_NONE;
    int caller = -1;
    int called = -1;
    int rank = -1;
    assert_int_equal(connect_as(&m, 1, &m.hellos[0], &caller, &how), PEERWIN_OK);
    assert_int_equal(how, PW_CHANNEL_OK);
    assert_int_equal(accept_one(&m, 1000, &called, &rank), PEERWIN_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(pw_channel_finish(caller, 0, &m.hellos[1], &watch, &site), PEERWIN_OK);
    assert_true(fcntl(caller, F_GETFD) & fcntl(called, F_GETFD) & fcntl(m.listener, F_GETFD) & FD_CLOEXEC);
    send_note(caller, record_note(PW_NOTE_HANDLE), &caller, 1);
    int fd = -1;
    assert_int_equal(receive(called, &fd), PEERWIN_OK);
    close(fd);
    close(caller);
    close(called);
    close(m.listener);
    pw_channel_unlink(&m.hellos[0].address);
}

static void two_ranks_meet_at_a_name_that_the_kernel_chose(void **state) {
    meeting m = make_meeting("");
    (void)state;
    assert_int_equal(m.hellos[0].address.bytes[0], '\0');
    assert_true(m.hellos[0].address.length > 1);
    close(m.listener);
    check_meeting("");
}

static void two_ranks_meet_in_a_directory_and_leave_nothing_in_it(void **state) {
    char dir[] = "/tmp/peerwin-test-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    check_meeting(dir);
    assert_int_equal(rmdir(dir), 0);
}

static void a_directory_that_others_can_write_is_refused(void **state) {
    char dir[] = "/tmp/peerwin-test-XXXXXX";
    int listener = 99;
    pw_address address;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(pw_channel_listen(dir, 8, &site, &listener, &address), PEERWIN_ERR_PERMISSION);
    assert_error_has("PEERWIN_SOCKET_DIR");
    assert_int_equal(rmdir(dir), 0);
    assert_int_not_equal(pw_channel_listen(dir, 8, &site, &listener, &address), PEERWIN_OK);
    assert_error_has("PEERWIN_SOCKET_DIR");
    assert_int_equal(listener, 99);
}

static void a_name_that_is_not_there_is_another_namespace_not_a_failure(void **state) {
    meeting m = make_meeting("");
    pw_channel_state how = PW_CHANNEL_OK;
    int socket = 99;
    (void)state;
    close(m.listener);
    assert_int_equal(connect_as(&m, 1, &m.hellos[0], &socket, &how), PEERWIN_OK);
    assert_int_equal(how, PW_CHANNEL_NAMESPACE);
    assert_int_equal(socket, 99);
}

static void a_peer_of_another_user_or_another_process_is_not_connected_to(void **state) {
    meeting m = make_meeting("");
    pw_hello other = m.hellos[0];
    pw_channel_state how = PW_CHANNEL_OK;
    int socket = 99;
    (void)state;
    other.uid++;
    assert_int_equal(connect_as(&m, 1, &other, &socket, &how), PEERWIN_OK);
    assert_int_equal(how, PW_CHANNEL_UID);
    other = m.hellos[0];
    other.pid++; /* somebody else sits at that name */
    assert_int_equal(connect_as(&m, 1, &other, &socket, &how), PEERWIN_OK);
    assert_int_equal(how, PW_CHANNEL_NAMESPACE);
    other = m.hellos[0];
    other.net_ns++; /* the same name in another network namespace would be another process */
    how = PW_CHANNEL_OK;
    assert_int_equal(connect_as(&m, 1, &other, &socket, &how), PEERWIN_OK);
    assert_int_equal(how, PW_CHANNEL_NAMESPACE);
    assert_int_equal(socket, 99);
    close(m.listener);
}

/* A stranger, then the right one: the stranger is turned away and the wait goes on. */
static void check_turned_away(const meeting *m, int stranger) {
    pw_channel_state how = PW_CHANNEL_NONE;
    int caller = -1;
    int called = -1;
    int rank = -1;
    assert_int_equal(connect_as(m, 1, &m->hellos[0], &caller, &how), PEERWIN_OK);
    assert_int_equal(accept_one(m, 3000, &called, &rank), PEERWIN_OK);
    assert_int_equal(rank, 1);
    char byte;
    assert_int_equal(recv(stranger, &byte, 1, MSG_DONTWAIT), 0); /* closed at the other end */
    close(stranger);
    close(caller);
    close(called);
}

static int stranger_at(const meeting *m) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const pw_address *address = &m->hellos[0].address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(name.sun_path, address->bytes, address->length);
    assert_int_equal(
        connect(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + address->length)),
        0);
    return fd;
}

static pw_note connect_note(const meeting *m) {
    pw_note note = record_note(PW_NOTE_CONNECT);
    note.rank = 1;
    memcpy(note.nonce, m->hellos[0].nonce, sizeof(note.nonce));
    return note;
}

static void strangers_are_turned_away_and_the_wait_goes_on(void **state) {
    meeting m = make_meeting("");
    pw_note note = connect_note(&m);
    int stranger = stranger_at(&m);
    (void)state;
    note.nonce[15] ^= 1; /* a wrong nonce */
    send_note(stranger, note, NULL, 0);
    check_turned_away(&m, stranger);
    note = connect_note(&m);
    note.rank = 2; /* a rank that is not there */
    stranger = stranger_at(&m);
    send_note(stranger, note, NULL, 0);
    check_turned_away(&m, stranger);
    note.rank = 0; /* my own rank */
    stranger = stranger_at(&m);
    send_note(stranger, note, NULL, 0);
    check_turned_away(&m, stranger);
    note = connect_note(&m);
    note.kind = PW_NOTE_HANDLE; /* a descriptor before any greeting */
    note.num_fds = 1;
    stranger = stranger_at(&m);
    send_note(stranger, note, &stranger, 1);
    check_turned_away(&m, stranger);
    stranger = stranger_at(&m);
    send_raw(stranger, "hello", 5, NULL, 0);
    check_turned_away(&m, stranger);
    close(m.listener);
}

static void a_stranger_that_says_nothing_holds_nobody_up_for_long(void **state) {
    meeting m = make_meeting("");
    int64_t start = pw_now();
    (void)state;
    check_turned_away(&m, stranger_at(&m));
    assert_true(pw_now() - start < 2500 * PW_MS);
    close(m.listener);
}

static void nobody_comes_is_a_timeout(void **state) {
    meeting m = make_meeting("");
    int socket = 99;
    int rank = 99;
    (void)state;
    assert_int_equal(accept_one(&m, 100, &socket, &rank), PEERWIN_ERR_TIMEOUT);
    assert_int_equal(socket, 99);
    assert_int_equal(rank, 99);
    close(m.listener);
}

static void an_answer_with_another_nonce_or_rank_is_refused(void **state) {
    meeting m = make_meeting("");
    pw_note answer = record_note(PW_NOTE_ACCEPT);
    (void)state;
    for (int what = 0; what < 3; what++) {
        pw_watch watch = watch_for(1000);
        int pair[2];
        make_pair(pair);
        answer.rank = what == 0 ? 7 : 0;
        answer.kind = what == 1 ? PW_NOTE_CONNECT : PW_NOTE_ACCEPT;
        memcpy(answer.nonce, m.hellos[1].nonce, sizeof(answer.nonce));
        answer.nonce[0] ^= (uint8_t)(what == 2);
        send_note(pair[0], answer, NULL, 0);
        assert_int_equal(pw_channel_finish(pair[1], 0, &m.hellos[1], &watch, &site), PEERWIN_ERR_PERMISSION);
        close_pair(pair);
    }
    close(m.listener);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, remember, compare)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_descriptor_arrives_with_its_note_and_close_on_exec),
        TEST(a_note_without_a_descriptor_arrives),
        TEST(a_wrong_number_of_descriptors_is_refused_and_none_is_kept),
        TEST(what_is_no_note_is_refused_and_its_descriptor_closed),
        TEST(a_wrong_message_is_consumed),
        TEST(a_closed_peer_is_noticed_at_once),
        TEST(a_silent_peer_is_a_timeout),
        TEST(a_peer_that_does_not_read_is_a_timeout),
        TEST(a_broken_context_ends_the_wait),
        TEST(no_room_for_the_descriptor_is_called_so_and_the_note_is_read),
        TEST(two_ranks_meet_at_a_name_that_the_kernel_chose),
        TEST(two_ranks_meet_in_a_directory_and_leave_nothing_in_it),
        TEST(a_directory_that_others_can_write_is_refused),
        TEST(a_name_that_is_not_there_is_another_namespace_not_a_failure),
        TEST(a_peer_of_another_user_or_another_process_is_not_connected_to),
        TEST(strangers_are_turned_away_and_the_wait_goes_on),
        TEST(a_stranger_that_says_nothing_holds_nobody_up_for_long),
        TEST(nobody_comes_is_a_timeout),
        TEST(an_answer_with_another_nonce_or_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
