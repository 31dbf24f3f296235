/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Cases in processes of their own; see apart.h.
 */
#include "apart.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASE_SECONDS = 120 };

apart_calls app;
struct apart_simulator sim;
const char *apart_library;
const pw_site apart_site = {.call = "test", .rank = PW_NONE, .peer = PW_NONE};

void apart_fail(const char *file, int line, const char *format, ...) {
    const char *slash = strrchr(file, '/');
    va_list args;
    fprintf(stderr, "%s:%d: ", slash ? slash + 1 : file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " [last error: %s]\n", peerwin_last_error());
    fflush(stderr);
    _exit(1);
}

/* ---- processes ---- */

static void set_environment(const char *pairs) {
    char copy[512];
    char *rest = NULL;
    snprintf(copy, sizeof copy, "%s", pairs ? pairs : "");
    for (char *pair = strtok_r(copy, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        *equals = '\0';
        setenv(pair, equals + 1, 1);
    }
}

static pid_t start(const apart_case *c, const char *role, int link) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    set_environment(c->env);
    if (strcmp(role, "--peer") == 0)
        set_environment(c->peer_env);
    if (link >= 0 && link != LINK_FD)
        dup2(link, LINK_FD);
    execl("/proc/self/exe", "apart", apart_library, role, c->name, (char *)NULL);
    _exit(127);
}

static void find(void *library, const char *name, void *function_out) {
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function_out, &symbol, sizeof symbol);
}

/* The simulator has its script beside the driver. */
static void find_simulator(void) {
    void *library = dlopen(apart_library, RTLD_NOW | RTLD_LOCAL);
    find(library, "simcuda_reset", &sim.reset);
    find(library, "simcuda_fail", &sim.fail);
    find(library, "simcuda_injected", &sim.injected);
    find(library, "simcuda_call_name", &sim.call_name);
    find(library, "simcuda_calls", &sim.calls);
    find(library, "simcuda_live", &sim.live);
    find(library, "simcuda_kind_name", &sim.kind_name);
    find(library, "simcuda_dump", &sim.dump);
    find(library, "simcuda_lose_context", &sim.lose_context);
}

static int run_here(const apart_case *c, int is_peer) {
    int pair[2];
    int status = 0;
    pid_t peer = 0;
    alarm(CASE_SECONDS);
    if (!is_peer && c->peer) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
            return 1;
        peer = start(c, "--peer", pair[1]);
        close(pair[1]);
        if (pair[0] != LINK_FD) {
            dup2(pair[0], LINK_FD);
            close(pair[0]);
        }
    }
    find_simulator();
    (is_peer ? c->peer : c->run)();
    if (peer > 0) {
        close(LINK_FD);
        CHECK(waitpid(peer, &status, 0) == peer && status == 0);
    }
    return 0;
}

static int run_apart(const apart_case *c) {
    int status = 0;
    fflush(stdout);
    pid_t pid = start(c, "--case", -1);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    printf("%s %s\n", status == 0 ? "ok" : "FAILED", c->name);
    return status != 0;
}

/* Named on the command line, or all are. */
static int is_wanted(const char *name, int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc == 2;
}

int apart_main(int argc, char **argv, const apart_case *cases) {
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [CASE...]\n", argv[0]);
        return 2;
    }
    apart_library = argv[1];
    int is_case = argc == 4 && strcmp(argv[2], "--case") == 0;
    int is_peer = argc == 4 && strcmp(argv[2], "--peer") == 0;
    int simulated = strstr(apart_library, "simcuda") != NULL;
    for (const apart_case *c = cases; c->name; c++) {
        if (!is_wanted(c->name, argc, argv))
            continue;
        if (is_case || is_peer)
            return run_here(c, is_peer);
        if (c->needs_simulator && !simulated && argc == 2)
            printf("left out %s\n", c->name);
        else
            failed += run_apart(c);
    }
    return failed != 0;
}

/* ---- the application's driver ---- */

void app_start(void) {
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *library = dlopen(apart_library, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    find(library, "cuGetProcAddress_v2", &get);
    CHECK(get != NULL);
#define FETCH(name, version)                                                                                           \
    {                                                                                                                  \
        void *entry = NULL;                                                                                            \
        CU(get(#name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));                                      \
        CHECK(entry != NULL);                                                                                          \
        memcpy(&app.name, &entry, sizeof entry);                                                                       \
    }
    APART_CALLS(FETCH)
#undef FETCH
    CU(app.cuInit(0));
}

pw_gpu *gpu_start(int choice) {
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = choice, .timeout_ms = 20000};
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    return gpu;
}

void gpu_stop(pw_gpu *gpu) {
    pw_gpu_leave(gpu);
    pw_gpu_close(gpu);
}

apart_snapshot snapshot(void) {
    apart_snapshot now = {{0}};
    for (int kind = 0; sim.live && kind < APART_KINDS; kind++)
        now.live[kind] = sim.live(kind);
    return now;
}

void check_snapshot(const apart_snapshot *before, const char *when) {
    apart_snapshot now = snapshot();
    for (int kind = 0; kind < APART_KINDS; kind++)
        if (now.live[kind] != before->live[kind]) {
            sim.dump();
            apart_fail(__FILE__, __LINE__, "%s: %zu %s, and there were %zu", when, now.live[kind], sim.kind_name(kind),
                       before->live[kind]);
        }
}

/* ---- contents ---- */

unsigned char pattern(size_t i, unsigned seed) {
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xbf58476d1ce4e5b9);
    return (unsigned char)(x >> 56 ^ x >> 24);
}

static unsigned char *room(size_t bytes) {
    unsigned char *memory = malloc(bytes ? bytes : 1);
    CHECK(memory != NULL);
    return memory;
}

void fill(pw_gpu *gpu, void *at, size_t bytes, unsigned seed) {
    unsigned char *host = room(bytes);
    for (size_t i = 0; i < bytes; i++)
        host[i] = pattern(i, seed);
    OK(pw_gpu_write(gpu, at, host, bytes, SITE));
    free(host);
}

void check_fill(pw_gpu *gpu, const void *at, size_t bytes, unsigned seed) {
    unsigned char *host = room(bytes);
    OK(pw_gpu_read(gpu, host, at, bytes, SITE));
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != pattern(i, seed))
            apart_fail(__FILE__, __LINE__, "byte %zu of %zu, seed %u, is %02x", i, bytes, seed, host[i]);
    free(host);
}

void check_byte(pw_gpu *gpu, const void *at, size_t bytes, int value) {
    unsigned char *host = room(bytes);
    OK(pw_gpu_read(gpu, host, at, bytes, SITE));
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != value)
            apart_fail(__FILE__, __LINE__, "byte %zu of %zu is %02x, not %02x", i, bytes, host[i], value);
    free(host);
}

/* ---- handles over the link ---- */

typedef struct {
    peerwin_handle kind;
    size_t mapped;
    int num_pieces;
} parcel;

void send_segment(pw_segment *segment) {
    parcel p = {segment->ops->kind, segment->mapped, segment->num_pieces};
    tell(&p, sizeof p);
    for (int piece = 0; piece < segment->num_pieces; piece++) {
        pw_handle handle;
        OK(segment->ops->export_handle(segment, piece, &handle, SITE));
        CHECK(handle.kind == segment->ops->kind);
        CHECK(segment->mapped == 0 || (handle.fd >= 0) == segment->ops->needs_fd);
        tell(&handle, sizeof handle);
        if (handle.fd >= 0)
            tell_fd(handle.fd);
    }
}

pw_mapping receive_mapping(pw_gpu *gpu, unsigned flags) {
    parcel p;
    size_t offset = 0;
    hear(&p, sizeof p);
    pw_mapping mapping = {.ops = pw_memory_on_gpu(p.kind), .gpu = gpu, .mapped = p.mapped, .flags = flags};
    CHECK(mapping.ops != NULL);
    for (int piece = 0; piece < p.num_pieces; piece++) {
        pw_handle handle;
        hear(&handle, sizeof handle);
        handle.fd = handle.fd >= 0 ? hear_fd() : -1;
        OK(mapping.ops->map(&mapping, &handle, offset, SITE));
        offset += handle.bytes;
        pw_handle_close(&handle);
        CHECK(handle.fd == -1);
    }
    CHECK(offset == p.mapped);
    CHECK(p.mapped == 0 || mapping.base != NULL);
    return mapping;
}
