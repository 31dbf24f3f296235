/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What tests script: failing, slow and fatal calls, spoiled writes, counters, and the count of what is still alive.
 */
#include "sim.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Who waits asks many thousand times, and tests want to know what came before. */
enum { MAX_RULES = 16, HISTORY = 1 << 17 };

enum action { ACTION_FAIL, ACTION_DELAY, ACTION_SIGNAL };

struct rule {
    char name[64]; /* empty: any */
    unsigned long n, seen;
    enum action action;
    int argument;
    bool sticky;
};

static struct {
    struct rule rules[MAX_RULES];
    size_t num_rules;
    bool one_thread;
    pthread_t thread;
    unsigned long total, counts[SIM_NUM_CALLS];
    int injected;
    enum simcuda_writes writes;
} script;
static unsigned short history[HISTORY];

static void nap(unsigned milliseconds) {
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Locked; sleeps unlocked. */
static CUresult apply(struct rule *rule, int call) {
    if (rule->name[0] != 0 && strcmp(rule->name, sim_call_name(call)) != 0) {
        return CUDA_SUCCESS;
    }
    rule->seen++;
    bool hit = rule->n == 0 || rule->seen == rule->n || (rule->sticky && rule->seen > rule->n);
    if (!hit) {
        return CUDA_SUCCESS;
    }
    script.injected++;
    if (rule->action == ACTION_FAIL) {
        return (CUresult)rule->argument;
    }
    if (rule->action == ACTION_SIGNAL) {
        raise(rule->argument);
        return CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim.lock);
    nap((unsigned)rule->argument);
    pthread_mutex_lock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult sim_inject(int call) {
    CUresult rc = CUDA_SUCCESS;
    if (script.one_thread && !pthread_equal(script.thread, pthread_self())) {
        return rc;
    }
    history[script.total % HISTORY] = (unsigned short)call;
    script.total++;
    script.counts[call]++;
    for (size_t i = 0; i < script.num_rules; i++) {
        CUresult told = apply(&script.rules[i], call);
        rc = rc == CUDA_SUCCESS ? told : rc;
    }
    return rc;
}

enum simcuda_writes sim_write_mode(void) {
    return __atomic_load_n(&script.writes, __ATOMIC_RELAXED);
}

static void add_rule(const char *name, unsigned long n, enum action action, int argument, bool sticky) {
    pthread_mutex_lock(&sim.lock);
    if (script.num_rules == MAX_RULES) {
        sim_die("more than %d injections", MAX_RULES);
    }
    struct rule *rule = &script.rules[script.num_rules++];
    memset(rule, 0, sizeof *rule);
    if (name != NULL) {
        snprintf(rule->name, sizeof rule->name, "%s", name);
    }
    rule->n = n;
    rule->action = action;
    rule->argument = argument;
    rule->sticky = sticky;
    script.injected = 0;
    script.thread = pthread_self();
    pthread_mutex_unlock(&sim.lock);
}

SIM_EXPORT void simcuda_reset(void) {
    pthread_mutex_lock(&sim.lock);
    memset(&script, 0, sizeof script);
    pthread_mutex_unlock(&sim.lock);
}

SIM_EXPORT void simcuda_fail(const char *name, unsigned long n, int code, int sticky) {
    add_rule(name, n, ACTION_FAIL, code, sticky != 0);
}

SIM_EXPORT void simcuda_delay(const char *name, unsigned long n, unsigned milliseconds) {
    add_rule(name, n, ACTION_DELAY, (int)milliseconds, false);
}

SIM_EXPORT void simcuda_signal(const char *name, unsigned long n, int signal) {
    add_rule(name, n, ACTION_SIGNAL, signal, false);
}

SIM_EXPORT int simcuda_injected(void) {
    pthread_mutex_lock(&sim.lock);
    int injected = script.injected;
    pthread_mutex_unlock(&sim.lock);
    return injected;
}

SIM_EXPORT void simcuda_only_this_thread(int on) {
    pthread_mutex_lock(&sim.lock);
    script.one_thread = on != 0;
    script.thread = pthread_self();
    pthread_mutex_unlock(&sim.lock);
}

SIM_EXPORT void simcuda_peer_writes(enum simcuda_writes mode) {
    __atomic_store_n(&script.writes, mode, __ATOMIC_RELAXED);
}

SIM_EXPORT int simcuda_lose_context(int code) {
    pthread_mutex_lock(&sim.lock);
    struct sim_context *ctx = sim_current_or_null();
    if (ctx != NULL) {
        sim_lose(ctx, (CUresult)code);
    }
    pthread_mutex_unlock(&sim.lock);
    return ctx != NULL ? 0 : -1;
}

SIM_EXPORT unsigned long simcuda_calls(const char *name) {
    unsigned long count = 0;
    pthread_mutex_lock(&sim.lock);
    for (int i = 0; i < SIM_NUM_CALLS; i++) {
        count += name == NULL || strcmp(name, sim_call_name(i)) == 0 ? script.counts[i] : 0;
    }
    pthread_mutex_unlock(&sim.lock);
    return count;
}

SIM_EXPORT const char *simcuda_call_name(unsigned long n) {
    const char *name = NULL;
    pthread_mutex_lock(&sim.lock);
    if (n >= 1 && n <= script.total && script.total - n < HISTORY) {
        name = sim_call_name(history[(n - 1) % HISTORY]);
    }
    pthread_mutex_unlock(&sim.lock);
    return name;
}

/* "rank:n:code[:sticky]" for programs that cannot script. */
void sim_inject_init(void) {
    const char *text = secure_getenv("SIMCUDA_FAIL"), *rank = secure_getenv("OMPI_COMM_WORLD_RANK");
    int wanted = 0, code = 0;
    unsigned long n = 0;
    if (text == NULL || sscanf(text, "%d:%lu:%d", &wanted, &n, &code) != 3 ||
        wanted != (rank != NULL ? atoi(rank) : 0) || script.num_rules == MAX_RULES) {
        return;
    }
    struct rule *rule = &script.rules[script.num_rules++];
    memset(rule, 0, sizeof *rule);
    rule->n = n;
    rule->action = ACTION_FAIL;
    rule->argument = code;
    rule->sticky = strstr(text, ":sticky") != NULL;
}

/* ---- what is alive ---- */

static size_t open_fds(void) {
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[64], target[64] = "";
        struct stat st;
        int fd = atoi(entry->d_name);
        if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0) {
            continue; /* no memfd, which has no name in any folder */
        }
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (entry->d_name[0] != '.' && readlink(path, target, sizeof target - 1) > 0) {
            count += strncmp(target, "/memfd:simcuda-", 15) == 0 && !sim_is_driver_fd(fd);
        }
    }
    closedir(dir);
    return count;
}

static size_t live(enum simcuda_kind kind) {
    switch (kind) {
    case SIMCUDA_ALLOCATIONS:
        return sim_range_count(SIM_RANGE_DEVICE) + sim_range_count(SIM_RANGE_POOL) + sim_range_count(SIM_RANGE_MANAGED);
    case SIMCUDA_MAPPINGS:
        return sim_range_count(SIM_RANGE_VMM);
    case SIMCUDA_RESERVATIONS:
        return sim_vmm_reservations();
    case SIMCUDA_HANDLES:
        return sim_vmm_refs(false);
    case SIMCUDA_IMPORTED:
        return sim_vmm_refs(true) + sim_legacy_refs() + sim_range_count(SIM_RANGE_POOL_IN);
    case SIMCUDA_FDS:
        return open_fds();
    case SIMCUDA_STREAMS:
        return sim_object_count(SIM_STREAM);
    case SIMCUDA_EVENTS:
        return sim_object_count(SIM_EVENT);
    case SIMCUDA_MODULES:
        return sim_object_count(SIM_MODULE);
    case SIMCUDA_POOLS:
        return sim_pool_count();
    case SIMCUDA_HOST_RANGES:
        return sim_range_count(SIM_RANGE_HOST) + sim_range_count(SIM_RANGE_HOST_OWN);
    case SIMCUDA_CONTEXTS:
        return sim_context_refs();
    case SIMCUDA_GRAPHS:
        return sim_object_count(SIM_GRAPH) + sim_object_count(SIM_EXEC);
    case SIMCUDA_CURRENT:
        return sim_current_depth();
    default:
        return 0;
    }
}

SIM_EXPORT size_t simcuda_live(enum simcuda_kind kind) {
    pthread_mutex_lock(&sim.lock);
    size_t count = live(kind);
    pthread_mutex_unlock(&sim.lock);
    return count;
}

SIM_EXPORT const char *simcuda_kind_name(enum simcuda_kind kind) {
    static const char *const names[SIMCUDA_KINDS] = {
        "allocations", "mappings",          "reservations", "handles",         "imported handles",
        "descriptors", "streams",           "events",       "modules",         "pools",
        "host ranges", "retained contexts", "graphs",       "current contexts"};
    return (unsigned)kind < SIMCUDA_KINDS ? names[kind] : "?";
}

SIM_EXPORT void simcuda_dump(void) {
    static const char *const kinds[] = {"device",      "vmm",     "legacy import", "pool",
                                        "pool import", "managed", "host",          "host allocation"};
    pthread_mutex_lock(&sim.lock);
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++) {
        if (live((enum simcuda_kind)kind) > 0) {
            fprintf(stderr, "simcuda[%d]: %zu %s\n", (int)getpid(), live((enum simcuda_kind)kind),
                    simcuda_kind_name((enum simcuda_kind)kind));
        }
    }
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        fprintf(stderr, "simcuda[%d]: range %s, %zu bytes, device %d, id %llu\n", (int)getpid(), kinds[r->kind],
                r->size, r->device, (unsigned long long)r->buffer_id);
    }
    pthread_mutex_unlock(&sim.lock);
}

SIM_EXPORT int simcuda_protects(void) {
    pthread_mutex_lock(&sim.lock);
    int protects = sim_protection_key() >= 0;
    pthread_mutex_unlock(&sim.lock);
    return protects;
}
