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

enum { MAX_NAMES = 256, MAX_NAME = 108, DELAY_MS = 200, NOBODY = 65534, FLOOD = 400 };

typedef enum { SAYS_NOTHING, WRONG_NONCE, OWN_RANK, NO_NOTE, WITH_DESCRIPTORS, COMES_AND_GOES, MASSES } manner;

/* Connections made so far, and names known; shared with the stranger. */
static struct {
    atomic_int connections;
    atomic_int ready;
} * shared;

/* ------------------------------------------------------------------------------------------------ the stranger */

typedef struct {
    char text[MAX_NAMES][MAX_NAME];
    int count;
} name_list;

static name_list known; /* sockets that are none of ours, or that were visited */

static int is_known(const char *name) {
    for (int i = 0; i < known.count; i++) {
        if (strcmp(known.text[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Abstract names of listening SOCK_SEQPACKET sockets that are not known yet. */
static void look_for_names(name_list *found) {
    char line[512];
    FILE *file = fopen("/proc/net/unix", "re");
    found->count = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned flags = 0;
        unsigned type = 0;
        char name[MAX_NAME] = "";
        if (sscanf(line, "%*s %*s %*s %x %x %*s %*s %107s", &flags, &type, name) == 3 && flags == 0x10000 &&
            type == 5 && name[0] == '@' && !is_known(name) && found->count < MAX_NAMES) {
            memcpy(found->text[found->count++], name, MAX_NAME);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void remember(const char *name) {
    if (known.count < MAX_NAMES) {
        snprintf(known.text[known.count++], MAX_NAME, "%s", name);
    }
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
    static name_list found;
    if (as_nobody && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        _exit(1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    look_for_names(&found);
    for (int i = 0; i < found.count; i++) {
        remember(found.text[i]);
    }
    atomic_store(&shared->ready, 1);
    for (;;) {
        look_for_names(&found);
        for (int i = 0; i < found.count; i++) {
            int times = how == MASSES ? FLOOD : how == COMES_AND_GOES ? 5 : 1;
            for (int k = 0; k < times; k++) {
                behave(found.text[i], how);
            }
            if (how != MASSES) {
                remember(found.text[i]);
            }
        }
        usleep(1000);
    }
}

/* Rank 0 sends it out, and waits until it knows which sockets it is not after. */
static pid_t send_stranger(manner how, int as_nobody) {
    pid_t pid = -1;
    if (job.rank == 0) {
        atomic_store(&shared->connections, 0);
        atomic_store(&shared->ready, 0);
        fflush(NULL);
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            be_stranger(how, as_nobody);
        }
        double end = test_seconds() + 10;
        while (!atomic_load(&shared->ready)) {
            CHECK(test_seconds() < end);
            test_sleep_ms(1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return pid;
}

static void call_back(pid_t pid) {
    int status = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (pid > 0) {
        CHECK(kill(pid, SIGKILL) == 0);
        CHECK_EQUAL(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(atomic_load(&shared->connections) > 0);
    }
}

/* --------------------------------------------------------------------------------------------------- the ranks */

static peerwin_status slow_init(int timeout_ms, peerwin_ctx **ctx_out) {
    inject_plan slow = {.calls = INJECT_BIT(INJECT_PIDFD_OPEN), .nth = 1, .action = INJECT_DELAY, .value = DELAY_MS};
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = timeout_ms;
    inject_arm(&slow); /* the names are there, and nobody has connected */
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

static void another_user_is_turned_away(void) {
    if (test_agree_skip(geteuid() != 0, "only root can make a process of another user")) {
        return;
    }
    share();
    meet_in_spite_of(SAYS_NOTHING, 1);
    meet_in_spite_of(WRONG_NONCE, 1);
    meet_in_spite_of(COMES_AND_GOES, 1);
    munmap(shared, 4096);
}

static void masses_end_in_one_status(int as_nobody) {
    enum { TIMEOUT_MS = 3000 };
    peerwin_ctx *ctx = NULL;
    pid_t stranger = send_stranger(MASSES, as_nobody);
    double start = test_seconds();
    peerwin_status status = slow_init(TIMEOUT_MS, &ctx);
    double seconds = test_seconds() - start;
    call_back(stranger);
    if (status != PEERWIN_ERR_TIMEOUT && status != PEERWIN_ERR_ABORTED) {
        test_check_same(__FILE__, __LINE__, "peerwin_init", status);
    }
    if (status == PEERWIN_ERR_SYSTEM) {
        CHECK(test_text_has(peerwin_last_error(), "connect"));
    }
    CHECK(status == PEERWIN_OK || status == PEERWIN_ERR_SYSTEM || status == PEERWIN_ERR_TIMEOUT ||
          status == PEERWIN_ERR_ABORTED);
    CHECK(seconds < 1e-3 * TIMEOUT_MS + 2);
    if (job.rank == 0) {
        printf("   %d connections: %s after %.1f s\n", atomic_load(&shared->connections), peerwin_strerror(status),
               seconds);
    }
    int made = ctx != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (made) {
        use_and_end(ctx);
    } else {
        CHECK(ctx == NULL);
    }
    ctx = test_context(MPI_COMM_WORLD, 20000);
    use_and_end(ctx);
}

static void masses_of_connections_end_in_one_status_and_a_retry_works(void) {
    share();
    masses_end_in_one_status(0);
    if (geteuid() == 0) {
        masses_end_in_one_status(1);
    }
    munmap(shared, 4096);
}

static const test_case cases[] = {
    TEST_CASE(strangers_are_turned_away, 2, 0),
    TEST_CASE(another_user_is_turned_away, 2, 0),
    TEST_CASE(masses_of_connections_end_in_one_status_and_a_retry_works, 2, 0),
};
TEST_MAIN(cases)
