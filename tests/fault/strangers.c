/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Strangers at the door: while ranks find each other in init, another process, of the same user or of another one,
 * reads the names of their sockets from /proc/net/unix, connects before the ranks do, and says nothing, or the wrong
 * thing, or comes in masses. The ranks find each other all the same, and nothing the stranger sent stays; only a mass
 * of connections may keep them from it, and then they all say so in time, and can try again.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"
#include "support/memory.h"
#include "window/wire.h"

enum { MAX_NAME = 108, MAX_FD = 1024, DELAY_MS = 200, NOBODY = 65534, FLOOD = 500 };

typedef enum { SAYS_NOTHING, WRONG_NONCE, OWN_RANK, NO_NOTE, WITH_DESCRIPTORS, COMES_AND_GOES, MASSES } manner;

/* Between a rank and its stranger. */
static struct {
    atomic_int ready; /* the stranger waits for the name */
    atomic_int named;
    char name[MAX_NAME]; /* as /proc/net/unix shows it, with @ for the leading zero */
    atomic_int connections;
} * shared;

/* ------------------------------------------------------------------------------------------------ the stranger */

/* Can anyone see the name? */
static int is_listed(const char *wanted) {
    char line[512];
    int listed = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char name[MAX_NAME] = "";
        listed |= sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %107s", name) == 1 && strcmp(name, wanted) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return listed;
}

static int visit(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path + 1, name + 1, length - 1);
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != 0) {
        close(fd);
        return -1;
    }
    atomic_fetch_add(&shared->connections, 1);
    return fd;
}

static void say(int fd, const void *bytes, size_t length, int num_fds) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control;
    int fds[8] = {fd, fd, fd, fd, fd, fd, fd, fd};
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (num_fds > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE((size_t)num_fds * sizeof(int));
        control.header.cmsg_len = CMSG_LEN((size_t)num_fds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.header), fds, (size_t)num_fds * sizeof(int));
    }
    (void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void say_note(int fd, unsigned rank, int num_fds) {
    uint8_t bytes[PW_NOTE_BYTES];
    pw_note note = {.kind = PW_NOTE_CONNECT, .rank = rank, .num_fds = (uint32_t)(num_fds > 0)};
    memset(note.nonce, 0x5a, sizeof(note.nonce));
    pw_note_encode(&note, bytes);
    say(fd, bytes, sizeof(bytes), num_fds);
}

static void behave(const char *name, manner how) {
    static const char garbage[100000];
    int fd = visit(name);
    if (fd < 0) {
        return;
    }
    switch (how) {
    case WRONG_NONCE:
        say_note(fd, 1, 0);
        break;
    case OWN_RANK:
        say_note(fd, 0, 0);
        break;
    case NO_NOTE:
        say(fd, garbage, sizeof(garbage), 0);
        break;
    case WITH_DESCRIPTORS:
        say_note(fd, 1, 8);
        break;
    case COMES_AND_GOES:
        close(fd);
        break;
    default:
        break; /* and keeps the connection */
    }
}

static _Noreturn void be_stranger(manner how, int as_nobody) {
    int times = how == MASSES ? FLOOD : how == COMES_AND_GOES ? 5 : 1;
    if (as_nobody && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        _exit(1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    atomic_store(&shared->ready, 1);
    while (!atomic_load(&shared->named)) {
        usleep(1000);
    }
    if (!is_listed(shared->name)) {
        _exit(2);
    }
    for (int k = 0; k < times; k++) {
        behave(shared->name, how);
    }
    for (;;) {
        pause(); /* connections stay open */
    }
}

static pid_t send_stranger(manner how, int as_nobody) {
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        be_stranger(how, as_nobody);
    }
    double end = test_seconds() + 20;
    while (!atomic_load(&shared->ready)) {
        CHECK(test_seconds() < end);
        test_sleep_ms(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return pid;
}

static void call_back(pid_t pid) {
    int status = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        test_fail(__FILE__, __LINE__, "the stranger ended with status 0x%x", (unsigned)status);
    }
    CHECK(atomic_load(&shared->connections) > 0);
}

/* --------------------------------------------------------------------------------------------------- the ranks */

/* Is this descriptor the socket at which this rank awaits the others? */
static int awaits_others(int fd) {
    int type = 0;
    int listens = 0;
    socklen_t length = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
        return 0;
    }
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens;
}

/* In init, when the names are known to all and nobody has connected. */
static void let_the_stranger_come_first(void) {
    struct sockaddr_un address;
    for (int fd = 0; fd < MAX_FD; fd++) {
        socklen_t length = sizeof(address);
        if (awaits_others(fd) && getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
            size_t bytes = length - offsetof(struct sockaddr_un, sun_path);
            memcpy(shared->name, address.sun_path, bytes < MAX_NAME ? bytes : MAX_NAME - 1);
            shared->name[0] = '@';
        }
    }
    CHECK(shared->name[0] == '@');
    atomic_store(&shared->named, 1);
    test_sleep_ms(DELAY_MS);
}

static peerwin_status slow_init(int timeout_ms, peerwin_ctx **ctx_out) {
    inject_plan slow = {.calls = INJECT_BIT(INJECT_PIDFD_OPEN),
                        .nth = 1,
                        .action = INJECT_CALLBACK,
                        .callback = let_the_stranger_come_first};
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = timeout_ms;
    inject_arm(&slow);
    peerwin_status status = peerwin_init(MPI_COMM_WORLD, &config, ctx_out);
    CHECK(inject_disarm());
    return status;
}

static void use_and_end(peerwin_ctx *ctx) {
    int right = (job.rank + 1) % job.size;
    double value = job.rank;
    peerwin_win *win = test_window(ctx, 64);
    CHECK_EQUAL(peerwin_win_path(win, right), PEERWIN_PATH_DIRECT);
    CHECK_OK(peerwin_put_signal(win, right, 0, &value, sizeof(value), 0, PEERWIN_SIGNAL_SET, 1, NULL));
    CHECK_OK(peerwin_wait(win, 0, 1, NULL));
    segment_load(win, 0, &value, sizeof(value));
    CHECK(value == (job.rank + job.size - 1) % job.size);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    test_free(ctx, win);
}

static void share(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
}

static void meet_in_spite_of(manner how, int as_nobody) {
    peerwin_ctx *ctx = NULL;
    pid_t stranger = send_stranger(how, as_nobody);
    CHECK_OK(slow_init(20000, &ctx));
    call_back(stranger);
    use_and_end(ctx);
}

static void strangers_are_turned_away(void) {
    static const manner manners[] = {SAYS_NOTHING, WRONG_NONCE, OWN_RANK, NO_NOTE, WITH_DESCRIPTORS, COMES_AND_GOES};
    share();
    for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
        meet_in_spite_of(manners[i], 0);
    }
    munmap(shared, 4096);
}

/* A child tries: not every root may. */
static int cannot_be_another_user(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(setgid(NOBODY) != 0 || setuid(NOBODY) != 0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0 || geteuid() == NOBODY;
}

static void another_user_is_turned_away(void) {
    if (test_agree_skip(cannot_be_another_user(), "only root can make a process of another user")) {
        return;
    }
    share();
    meet_in_spite_of(SAYS_NOTHING, 1);
    meet_in_spite_of(WRONG_NONCE, 1);
    meet_in_spite_of(COMES_AND_GOES, 1);
    munmap(shared, 4096);
}

/* Each of this user's is listened to for a while, so there are too many: a status in time, and a retry works. */
static void masses_of_connections_end_in_one_status_and_a_retry_works(void) {
    enum { TIMEOUT_MS = 1500 };
    share();
    peerwin_ctx *ctx = NULL;
    pid_t stranger = send_stranger(MASSES, 0);
    double start = test_seconds();
    peerwin_status status = slow_init(TIMEOUT_MS, &ctx);
    double seconds = test_seconds() - start;
    call_back(stranger);
    CHECK(status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_ABORTED);
    CHECK(ctx == NULL);
    CHECK(seconds < 1e-3 * TIMEOUT_MS + 2);
    if (job.rank == 0) {
        printf("   %d connections: %s after %.1f s\n", atomic_load(&shared->connections), peerwin_strerror(status),
               seconds);
    }
    munmap(shared, 4096);
    use_and_end(test_context(MPI_COMM_WORLD, 20000));
}

/* The queue of a listening socket may be shorter here than what the library asks for. */
static int longest_queue(void) {
    int length = 0;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    if (file != NULL) {
        CHECK_EQUAL(fscanf(file, "%d", &length), 1);
        fclose(file);
    }
    return length;
}

static void masses_of_another_user_are_turned_away(void) {
    if (test_agree_skip(cannot_be_another_user() || longest_queue() < 2 * FLOOD,
                        "needs root, and a long queue of connections (net.core.somaxconn)")) {
        return;
    }
    share();
    meet_in_spite_of(MASSES, 1);
    munmap(shared, 4096);
}

static const test_case cases[] = {
    TEST_CASE(strangers_are_turned_away, 2, 0),
    TEST_CASE(another_user_is_turned_away, 2, 0),
    TEST_CASE(masses_of_another_user_are_turned_away, 2, 0),
    TEST_CASE(masses_of_connections_end_in_one_status_and_a_retry_works, 2, 0),
};
TEST_MAIN(cases)
