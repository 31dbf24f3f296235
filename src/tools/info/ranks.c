/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of ranks; see ranks.h.
 */
#define _GNU_SOURCE
#include "ranks.h"

#include "info.h"
#include "ranges.h"

#include "base/env.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not a question to the kernel: whether there is a GPU that can be used. */
static const char cuda_name[] = "CUDA";
static const char cuda_use[] = "windows in GPU memory";

/* ---- collecting */

static uint64_t namespace_of_self(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

static int node_of_self(const peerwin_ctx *ctx) {
    peerwin_peer self = {.size = sizeof self};
    if (ctx == NULL || peerwin_peer_query(ctx, peerwin_rank(ctx), &self) != PEERWIN_OK)
        return -1;
    return self.node;
}

/* The device that the context uses, as the driver describes it; or why there is none. */
static void describe_device(const peerwin_ctx *ctx, rank_record *me) {
    const pw_site site = {.call = "peerwin-info", .stage = "devices", .rank = PW_NONE, .peer = PW_NONE};
    peerwin_peer self = {.size = sizeof self, .device = ""};
    pw_driver *driver = NULL;
    pw_device device;
    pw_env env;
    if (pw_env_read(&site, &env) != PEERWIN_OK || pw_driver_open(env.cuda_library, &site, &driver) != PEERWIN_OK) {
        snprintf(me->no_device, sizeof me->no_device, "%s", peerwin_last_error());
        return;
    }
    if (ctx == NULL || peerwin_peer_query(ctx, peerwin_rank(ctx), &self) != PEERWIN_OK || self.device[0] == '\0')
        snprintf(me->no_device, sizeof me->no_device, "there is no context in CUDA space");
    snprintf(me->device, sizeof me->device, "%s", self.device);
    for (int i = 0; i < pw_driver_devices(driver); i++)
        if (pw_device_describe(driver, i, &site, &device) == PEERWIN_OK && strcmp(device.uuid, self.device) == 0) {
            snprintf(me->pci, sizeof me->pci, "%s", device.pci);
            me->mps = device.mps;
        }
    pw_driver_close(driver);
}

static void describe_self(const peerwin_ctx *ctx, rank_record *me) {
    memset(me, 0, sizeof *me);
    me->node = node_of_self(ctx);
    me->pid = (int32_t)getpid();
    me->uid = (uint32_t)geteuid();
    me->pid_ns = namespace_of_self("/proc/self/ns/pid");
    me->net_ns = namespace_of_self("/proc/self/ns/net");
    me->user_ns = namespace_of_self("/proc/self/ns/user");
    if (gethostname(me->host, sizeof me->host - 1) != 0)
        snprintf(me->host, sizeof me->host, "unknown");
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (size_t cpu = 0; cpu < RANKS_CPUS && cpu < CPU_SETSIZE; cpu++)
            me->cpus[cpu] = CPU_ISSET(cpu, &set) != 0;
    for (int i = 0; i < CAPABILITIES; i++)
        me->codes[i] = capabilities[i].probe();
    describe_device(ctx, me);
}

rank_record *ranks_collect(peerwin_ctx *ctx) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_record me;
    describe_self(ctx, &me);
    rank_record *all = rank == 0 ? info_alloc((size_t)size, sizeof *all) : NULL;
    MPI_Gather(&me, (int)sizeof me, MPI_BYTE, all, (int)sizeof me, MPI_BYTE, 0, MPI_COMM_WORLD);
    return all;
}

/* ---- text */

/* What capability `i` is on the ranks that have the same answer as `like`. */
static void print_answer(const rank_record *ranks, int n, int i, int like) {
    unsigned char *same = info_alloc((size_t)n, 1);
    char where[RANGES_BYTES];
    int count = 0;
    for (int rank = 0; rank < n; rank++) {
        same[rank] = ranks[rank].codes[i] == ranks[like].codes[i];
        count += same[rank];
    }
    ranges_format(where, same, n);
    free(same);
    const int code = ranks[like].codes[i];
    printf("  %-24s %s%s", capabilities[i].name,
           code == 0 ? "supported" : "refused: ", code == 0 ? "" : strerror(code));
    if (count < n)
        printf(" on ranks %s", where);
    printf(" (%s)\n", capabilities[i].use);
}

static bool is_mig(const rank_record *r) {
    return strncmp(r->device, "MIG-", 4) == 0;
}

void ranks_print_capabilities(const rank_record *ranks, int n) {
    printf("\nkernel\n");
    for (int i = 0; i < CAPABILITIES; i++) {
        for (int like = 0; like < n; like++) {
            int first = 0;
            while (ranks[first].codes[i] != ranks[like].codes[i])
                first++;
            if (first == like)
                print_answer(ranks, n, i, like);
        }
    }
    if (ranks[0].no_device[0] == '\0')
        printf("  %-24s supported (%s)\n", cuda_name, cuda_use);
    else
        printf("  %-24s refused: %s (%s)\n", cuda_name, ranks[0].no_device, cuda_use);
}

void ranks_print(const rank_record *ranks, int n) {
    printf("\nranks\n  %4s %4s  %-16s %8s %6s  %-11s %-11s %-11s %s\n", "rank", "node", "host", "pid", "user", "pid ns",
           "net ns", "user ns", "cpus");
    for (int rank = 0; rank < n; rank++) {
        const rank_record *r = &ranks[rank];
        char cpus[RANGES_BYTES];
        char node[16] = "?";
        ranges_format(cpus, r->cpus, RANKS_CPUS);
        if (r->node >= 0)
            snprintf(node, sizeof node, "%d", r->node);
        printf("  %4d %4s  %-16s %8d %6u  %-11llu %-11llu %-11llu %s\n", rank, node, r->host, r->pid, r->uid,
               (unsigned long long)r->pid_ns, (unsigned long long)r->net_ns, (unsigned long long)r->user_ns, cpus);
    }
}

void ranks_print_devices(const rank_record *ranks, int n) {
    int devices = 0;
    for (int rank = 0; rank < n; rank++)
        devices += ranks[rank].device[0] != '\0';
    if (devices == 0)
        return;
    printf("\ndevices of ranks\n  %4s %-44s %-16s %-4s %s\n", "rank", "device", "pci", "mps", "mig");
    for (int rank = 0; rank < n; rank++) {
        const rank_record *r = &ranks[rank];
        printf("  %4d %-44s %-16s %-4s %s\n", rank, r->device[0] != '\0' ? r->device : "-",
               r->pci[0] != '\0' ? r->pci : "-", r->mps ? "yes" : "no", is_mig(r) ? "yes" : "no");
    }
}

/* ---- JSON */

/* `reason` is NULL for what is supported. */
static void write_answer(json *j, const char *name, const char *reason, const char *use) {
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "state", reason == NULL ? "supported" : "refused");
    json_text(j, "reason", reason);
    json_text(j, "use", use);
    json_close(j, '}');
}

static void write_capability(const rank_record *r, int i, json *j) {
    write_answer(j, capabilities[i].name, r->codes[i] == 0 ? NULL : strerror(r->codes[i]), capabilities[i].use);
}

static void write_rank(const rank_record *ranks, int rank, json *j) {
    const rank_record *r = &ranks[rank];
    char cpus[RANGES_BYTES];
    ranges_format(cpus, r->cpus, RANKS_CPUS);
    json_open(j, NULL, '{');
    json_number(j, "rank", rank);
    if (r->node >= 0)
        json_number(j, "node", r->node);
    else
        json_text(j, "node", NULL);
    json_text(j, "host", r->host);
    json_number(j, "pid", r->pid);
    json_number(j, "user", r->uid);
    json_number(j, "pid_namespace", (long long)r->pid_ns);
    json_number(j, "net_namespace", (long long)r->net_ns);
    json_number(j, "user_namespace", (long long)r->user_ns);
    json_text(j, "cpus", cpus);
    json_text(j, "device", r->device[0] != '\0' ? r->device : NULL);
    json_text(j, "pci", r->pci[0] != '\0' ? r->pci : NULL);
    json_bool(j, "mps", r->mps != 0);
    json_bool(j, "mig", is_mig(r));
    json_text(j, "no_device", r->no_device[0] != '\0' ? r->no_device : NULL);
    json_open(j, "capabilities_unlike_rank_0", '[');
    for (int i = 0; i < CAPABILITIES; i++)
        if (r->codes[i] != ranks[0].codes[i])
            write_capability(r, i, j);
    json_close(j, ']');
    json_close(j, '}');
}

void ranks_write(const rank_record *ranks, int n, json *j) {
    json_open(j, "capabilities", '[');
    for (int i = 0; i < CAPABILITIES; i++)
        write_capability(&ranks[0], i, j);
    write_answer(j, cuda_name, ranks[0].no_device[0] != '\0' ? ranks[0].no_device : NULL, cuda_use);
    json_close(j, ']');
    json_open(j, "ranks", '[');
    for (int rank = 0; rank < n; rank++)
        write_rank(ranks, rank, j);
    json_close(j, ']');
}
