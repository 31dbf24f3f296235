/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who is who; see topology.h.
 *
 * Everything here is computed by every rank from the same gathered records, so all ranks come to the same result
 * without asking each other again.
 */
#include "window/topology.h"

#include "base/fd.h"
#include "base/log.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* ---- who I am */

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The boot id tells machines apart where names do not; all zero if the kernel does not tell. */
static peerwin_status read_boot_id(uint8_t boot[16], const pw_site *site) {
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT && errno != EACCES)
        return pw_fail_errno(site, errno, "open(boot_id)"); /* EMFILE: no reason to take this for another machine */
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    pw_close(&fd);
    int digits = 0;
    for (ssize_t i = 0; i < length && digits < 32; i++) {
        int value = hex_value(text[i]);
        if (value < 0)
            continue;
        boot[digits / 2] = (uint8_t)(boot[digits / 2] << 4 | value);
        digits++;
    }
    return PEERWIN_OK;
}

static uint64_t namespace_of_self(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

static void read_cpus(uint8_t cpus[PW_CPU_BYTES]) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t cpu = 0; cpu < (size_t)PW_CPU_BYTES * 8 && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[cpu / 8] = (uint8_t)(cpus[cpu / 8] | 1u << cpu % 8);
}

peerwin_status pw_topology_describe_self(pw_hello *hello_out, const pw_site *site) {
    pw_hello hello;
    memset(&hello, 0, sizeof hello);
    hello.pid = (int32_t)getpid();
    hello.uid = (uint32_t)geteuid();
    peerwin_status status = pw_process_start(getpid(), site, &hello.start);
    if (status == PEERWIN_OK)
        status = read_boot_id(hello.boot, site);
    if (status != PEERWIN_OK)
        return status;
    hello.pid_ns = namespace_of_self("/proc/self/ns/pid");
    hello.net_ns = namespace_of_self("/proc/self/ns/net");
    read_cpus(hello.cpus);
    if (getrandom(hello.nonce, sizeof hello.nonce, 0) != (ssize_t)sizeof hello.nonce ||
        getrandom(&hello.serial, sizeof hello.serial, 0) != (ssize_t)sizeof hello.serial)
        return pw_fail_errno(site, errno, "getrandom");
    *hello_out = hello;
    return PEERWIN_OK;
}

/* ---- nodes */

/* The lowest rank that MPI says shares memory with me, and the communicator of those. */
static peerwin_status split_shared(peerwin_ctx *ctx, MPI_Comm *shared_out, int *leader_out, const pw_site *site) {
    MPI_Comm shared = MPI_COMM_NULL;
    int code = MPI_Comm_split_type(ctx->agree.comm, MPI_COMM_TYPE_SHARED, ctx->rank, MPI_INFO_NULL, &shared);
    if (code != MPI_SUCCESS)
        return pw_fail_mpi(site, code, "MPI_Comm_split_type");
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group mine = MPI_GROUP_NULL;
    int first = 0;
    MPI_Comm_group(ctx->agree.comm, &all);
    MPI_Comm_group(shared, &mine);
    MPI_Group_translate_ranks(mine, 1, &first, all, leader_out);
    MPI_Group_free(&all);
    MPI_Group_free(&mine);
    *shared_out = shared;
    return PEERWIN_OK;
}

static int same_node(const peerwin_ctx *ctx, const int *leaders, int a, int b) {
    unsigned ranks = ctx->hellos[a].options.node_ranks;
    int pretended = ranks == 0 || (unsigned)a / ranks == (unsigned)b / ranks;
    return leaders[a] == leaders[b] && pretended &&
           memcmp(ctx->hellos[a].boot, ctx->hellos[b].boot, sizeof ctx->hellos[a].boot) == 0;
}

/* Numbers nodes in order of their lowest rank; returns 1 if they are what MPI calls shared. */
static int number_nodes(peerwin_ctx *ctx, const int *leaders) {
    int count = 0;
    int unrefined = 1;
    for (int rank = 0; rank < ctx->size; rank++) {
        ctx->peers[rank].node = PW_NONE;
        for (int other = 0; other < rank && ctx->peers[rank].node == PW_NONE; other++) {
            if (same_node(ctx, leaders, rank, other))
                ctx->peers[rank].node = ctx->peers[other].node;
            else if (leaders[rank] == leaders[other])
                unrefined = 0;
        }
        if (ctx->peers[rank].node == PW_NONE)
            ctx->peers[rank].node = count++;
    }
    return unrefined;
}

peerwin_status pw_topology_nodes(peerwin_ctx *ctx, const pw_site *site) {
    MPI_Comm shared = MPI_COMM_NULL;
    int leader = 0;
    void *leaders = NULL;
    peerwin_status status = pw_ctx_agree(ctx, split_shared(ctx, &shared, &leader, site), site);
    if (status == PEERWIN_OK)
        status = pw_ctx_gather(ctx, &leader, sizeof leader, &leaders, site);
    if (status != PEERWIN_OK)
        goto free_shared;
    int unrefined = number_nodes(ctx, leaders);
    free(leaders);
    if (unrefined) {
        ctx->node_comm = shared;
        return PEERWIN_OK;
    }
    int code = MPI_Comm_split(ctx->agree.comm, ctx->peers[ctx->rank].node, ctx->rank, &ctx->node_comm);
    status = pw_ctx_agree(ctx, code == MPI_SUCCESS ? PEERWIN_OK : pw_fail_mpi(site, code, "MPI_Comm_split"), site);

free_shared:
    if (shared != MPI_COMM_NULL)
        MPI_Comm_free(&shared);
    return status;
}

static int on_my_node(const peerwin_ctx *ctx, int rank) {
    return ctx->peers[rank].node == ctx->peers[ctx->rank].node;
}

peerwin_status pw_topology_watch(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        const pw_hello *peer = &ctx->hellos[rank];
        if (rank == ctx->rank || !on_my_node(ctx, rank) || peer->pid_ns != ctx->hellos[ctx->rank].pid_ns)
            continue;
        pw_site there = *site;
        there.peer = rank;
        status = pw_liveness_watch(&ctx->live, rank, peer->pid, peer->start, &there);
        if (status == PEERWIN_ERR_UNSUPPORTED || status == PEERWIN_ERR_PERMISSION) {
            /* An old kernel or a strict container: still usable, only slower to notice a death. */
            pw_log(PW_LOG_WARN, ctx->rank, "dead peers will be noticed by the deadline only: %s", peerwin_last_error());
            return PEERWIN_OK;
        }
    }
    return status;
}

int pw_topology_on_my_machine(const peerwin_ctx *ctx, int rank) {
    return memcmp(ctx->hellos[rank].boot, ctx->hellos[ctx->rank].boot, sizeof ctx->hellos[rank].boot) == 0;
}

/* Of a rank that knows no processor of its own (see read_cpus) nothing is known. */
int pw_topology_are_apart(const peerwin_ctx *ctx) {
    uint8_t taken[PW_CPU_BYTES] = {0};
    for (int rank = 0; rank < ctx->size; rank++) {
        int known = !pw_topology_on_my_machine(ctx, rank);
        for (int i = 0; i < PW_CPU_BYTES && pw_topology_on_my_machine(ctx, rank); i++) {
            if (taken[i] & ctx->hellos[rank].cpus[i])
                return 0;
            taken[i] |= ctx->hellos[rank].cpus[i];
            known |= ctx->hellos[rank].cpus[i] != 0;
        }
        if (!known)
            return 0;
    }
    return 1;
}

int pw_topology_fence_far(const peerwin_ctx *ctx) {
    for (int rank = 0; rank < ctx->size; rank++)
        if (pw_topology_on_my_machine(ctx, rank) && !ctx->hellos[rank].fences_far)
            return 0;
    return 1;
}

/*
 * A look that comes before the peer's store takes the line away from it, and delays that store; one that comes late is
 * late. Lines take 50 to 150 ns from one processor to another, a pause 13 ns on some and 50 on others.
 */
static int pauses_before_first_look(void) {
    enum { TRIES = 5, PAUSES = 64, LEAST_NS = 25, MOST_PAUSES = 16 };
    int64_t shortest = INT64_MAX;
    for (int try = 0; try < TRIES; try++) {
        int64_t begin = pw_now();
        for (int i = 0; i < PAUSES; i++)
            pw_relax();
        int64_t took = pw_now() - begin;
        shortest = took < shortest ? took : shortest;
    }
    int pauses = 1;
    while (pauses < MOST_PAUSES && pauses * shortest < (int64_t)LEAST_NS * PAUSES)
        pauses++;
    return pauses;
}

pw_patience pw_topology_patience(const peerwin_ctx *ctx) {
    /*
     * A rank that has a processor for itself gains nothing by sleeping soon: the wake-up costs tens of microseconds,
     * and a scheduler tends to put the woken rank beside the one that woke it, where both then share one processor.
     * Ranks that keep yielding stay runnable and are spread.
     *
     * Nor does a rank that is bound to its processor give that away. Where another program wants it, too, that one
     * would run for a whole time slice, several milliseconds, of a wait that is over in microseconds, and get more than
     * its fair share. It keeps on for some 20 ms, longer than a peer is away that has to share its own processor.
     */
    const int pauses = pauses_before_first_look();
    const pw_patience bound = {.pauses = pauses, .polls = 2000, .rounds = 6000, .polls_of_round = 64};
    const pw_patience with_processor = {.pauses = pauses, .polls = 2000, .rounds = 5000, .polls_of_round = 0};
    const pw_patience without = {.pauses = 1, .polls = 5, .rounds = 200, .polls_of_round = 0};
    uint8_t cpus[PW_CPU_BYTES] = {0};
    int ranks = 0;
    int available = 0;
    if (pw_topology_are_apart(ctx))
        return bound;
    for (int rank = 0; rank < ctx->size; rank++) {
        if (!pw_topology_on_my_machine(ctx, rank))
            continue;
        ranks++;
        for (int i = 0; i < PW_CPU_BYTES; i++)
            cpus[i] |= ctx->hellos[rank].cpus[i];
    }
    for (int i = 0; i < PW_CPU_BYTES; i++)
        available += __builtin_popcount(cpus[i]);
    return ranks <= available ? with_processor : without;
}

/* ---- channels */

/* Connects to the lower ranks of my node; the higher ones connect to me. */
static peerwin_status connect_lower(peerwin_ctx *ctx, unsigned char *states, const pw_site *site) {
    const pw_hello *mine = &ctx->hellos[ctx->rank];
    for (int rank = 0; rank < ctx->rank; rank++) {
        pw_channel_state state = PW_CHANNEL_NONE;
        pw_site there = *site;
        there.peer = rank;
        states[rank] = PW_CHANNEL_NONE;
        if (!on_my_node(ctx, rank))
            continue;
        peerwin_status status =
            pw_channel_connect(ctx->rank, mine, &ctx->hellos[rank], &there, &ctx->peers[rank].socket, &state);
        if (status != PEERWIN_OK)
            return status;
        states[rank] = (unsigned char)state;
    }
    return PEERWIN_OK;
}

/* What became of the pair, from the matrix of all ranks: the higher rank of a pair connected. */
static pw_channel_state pair_state(const peerwin_ctx *ctx, const unsigned char *states, int a, int b) {
    int high = a > b ? a : b;
    int low = a > b ? b : a;
    return (pw_channel_state)states[(size_t)high * (size_t)ctx->size + (size_t)low];
}

static peerwin_status accept_higher(peerwin_ctx *ctx, int listener, const unsigned char *states, const pw_site *site) {
    pw_watch watch = pw_ctx_watch_call(ctx);
    int expected = 0;
    for (int rank = ctx->rank + 1; rank < ctx->size; rank++)
        expected += pair_state(ctx, states, ctx->rank, rank) == PW_CHANNEL_OK;
    while (expected > 0) {
        int socket = -1;
        int rank = PW_NONE;
        peerwin_status status =
            pw_channel_accept(listener, ctx->rank, ctx->hellos, ctx->size, &watch, site, &socket, &rank);
        if (status != PEERWIN_OK)
            return status;
        if (ctx->peers[rank].socket >= 0) { /* the real peer connects once */
            pw_close(&socket);
            continue;
        }
        ctx->peers[rank].socket = socket;
        expected--;
    }
    return PEERWIN_OK;
}

static peerwin_status finish_lower(peerwin_ctx *ctx, const unsigned char *states, const pw_site *site) {
    pw_watch watch = pw_ctx_watch_call(ctx);
    for (int rank = 0; rank < ctx->rank; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (pair_state(ctx, states, ctx->rank, rank) != PW_CHANNEL_OK)
            continue;
        peerwin_status status =
            pw_channel_finish(ctx->peers[rank].socket, rank, &ctx->hellos[ctx->rank], &watch, &there);
        if (status != PEERWIN_OK)
            return status;
    }
    return PEERWIN_OK;
}

/* ---- paths */

static void explain(const peerwin_ctx *ctx, int rank, pw_channel_state state, char reason[PW_REASON_BYTES]) {
    const pw_hello *mine = &ctx->hellos[ctx->rank];
    const pw_hello *peer = &ctx->hellos[rank];
    if (state == PW_CHANNEL_UID)
        snprintf(reason, PW_REASON_BYTES,
                 "rank %d runs as user %u, rank %d as user %u: memory is shared with the same user only", rank,
                 peer->uid, ctx->rank, mine->uid);
    else if (state == PW_CHANNEL_NAMESPACE && mine->net_ns != peer->net_ns)
        snprintf(
            reason, PW_REASON_BYTES,
            "rank %d is in another network namespace (another container); a directory that both can write, named by "
            "PEERWIN_SOCKET_DIR, opens a direct path",
            rank);
    else if (state == PW_CHANNEL_NAMESPACE)
        snprintf(reason, PW_REASON_BYTES, "rank %d cannot be reached over a local socket; see PEERWIN_SOCKET_DIR",
                 rank);
    else if (mine->options.node_ranks != 0)
        snprintf(reason, PW_REASON_BYTES, "rank %d is on another pretended node (PEERWIN_NODE_RANKS=%u)", rank,
                 mine->options.node_ranks);
    else
        snprintf(reason, PW_REASON_BYTES, "rank %d is on another node", rank);
}

/* The matrices of pairs; what has a channel is direct until something is found against it. */
static peerwin_status make_matrices(peerwin_ctx *ctx, const pw_site *site) {
    size_t pairs = (size_t)ctx->size * (size_t)ctx->size;
    ctx->channels = calloc(pairs, 1);
    ctx->direct = calloc(pairs, 1);
    return ctx->channels && ctx->direct ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc");
}

static void fill_matrices(peerwin_ctx *ctx, const unsigned char *states) {
    size_t n = (size_t)ctx->size;
    ctx->all_direct = 1;
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            int same = a == b;
            unsigned char channel = !same && pair_state(ctx, states, (int)a, (int)b) == PW_CHANNEL_OK;
            ctx->channels[a * n + b] = channel;
            ctx->direct[a * n + b] = same || channel;
            ctx->all_direct &= same || channel;
        }
    }
}

static void settle_paths(peerwin_ctx *ctx, const unsigned char *states) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_peer *peer = &ctx->peers[rank];
        peer->path = PEERWIN_PATH_NONE;
        peer->link = PEERWIN_LINK_NONE;
        if (rank == ctx->rank) {
            peer->path = PEERWIN_PATH_SELF;
            peer->link = PEERWIN_LINK_HOST;
        } else if (pair_state(ctx, states, ctx->rank, rank) == PW_CHANNEL_OK) {
            peer->path = PEERWIN_PATH_DIRECT;
            peer->link = PEERWIN_LINK_HOST;
        } else {
            explain(ctx, rank, pair_state(ctx, states, ctx->rank, rank), peer->reason);
        }
        peer->native_atomics = peer->path != PEERWIN_PATH_NONE;
    }
}

/* A rank joins the first domain all of whose ranks it reaches. */
static int number_domains(const peerwin_ctx *ctx, int *domains) {
    int same_as_nodes = 1;
    int count = 0;
    for (int rank = 0; rank < ctx->size; rank++) {
        domains[rank] = PW_NONE;
        for (int domain = 0; domain < count && domains[rank] == PW_NONE; domain++) {
            int fits = 1;
            for (int other = 0; other < rank && fits; other++)
                fits = domains[other] != domain || ctx->direct[(size_t)rank * (size_t)ctx->size + (size_t)other];
            if (fits)
                domains[rank] = domain;
        }
        if (domains[rank] == PW_NONE)
            domains[rank] = count++;
        for (int other = 0; other < rank; other++)
            same_as_nodes &= (domains[rank] == domains[other]) == (ctx->peers[rank].node == ctx->peers[other].node);
    }
    return same_as_nodes;
}

peerwin_status pw_topology_domain(peerwin_ctx *ctx, const pw_site *site) {
    int *domains = malloc((size_t)ctx->size * sizeof *domains);
    peerwin_status status = pw_ctx_agree(ctx, domains ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "malloc"), site);
    if (status != PEERWIN_OK) {
        free(domains);
        return status;
    }
    int same_as_nodes = number_domains(ctx, domains);
    int mine = domains[ctx->rank];
    free(domains);
    if (same_as_nodes) {
        ctx->direct_comm = ctx->node_comm;
        return PEERWIN_OK;
    }
    int code = MPI_Comm_split(ctx->agree.comm, mine, ctx->rank, &ctx->direct_comm);
    return pw_ctx_agree(ctx, code == MPI_SUCCESS ? PEERWIN_OK : pw_fail_mpi(site, code, "MPI_Comm_split"), site);
}

/* They have opened what they were for. */
static void forget_nonces(peerwin_ctx *ctx) {
    for (int rank = 0; rank < ctx->size; rank++)
        explicit_bzero(ctx->hellos[rank].nonce, sizeof ctx->hellos[rank].nonce);
}

peerwin_status pw_topology_connect(peerwin_ctx *ctx, int listener, const pw_site *site) {
    unsigned char *row = calloc((size_t)ctx->size, 1);
    void *states = NULL;
    peerwin_status status = row ? make_matrices(ctx, site) : pw_fail_errno(site, ENOMEM, "calloc");
    if (status == PEERWIN_OK)
        status = connect_lower(ctx, row, site);
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK)
        status = pw_ctx_gather(ctx, row, (size_t)ctx->size, &states, site);
    free(row);
    if (status != PEERWIN_OK)
        return status;
    /* Agreed in between: nobody may wait for the answer of a rank that could not accept. */
    status = pw_ctx_agree(ctx, accept_higher(ctx, listener, states, site), site);
    if (status == PEERWIN_OK)
        status = pw_ctx_agree(ctx, finish_lower(ctx, states, site), site);
    forget_nonces(ctx);
    if (status == PEERWIN_OK) {
        fill_matrices(ctx, states);
        settle_paths(ctx, states);
    }
    free(states);
    return status;
}
