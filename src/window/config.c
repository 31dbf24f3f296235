/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Options; see config.h.
 */
#include "window/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_TIMEOUT_MS = 60000, ALL_HANDLES = 31 };

/*
 * Copies a struct that begins with its size, written by a caller whose header may be older or newer: a smaller one is
 * filled up with zeros (defaults); in a larger one everything we do not know must be zero.
 */
static peerwin_status read_sized(const void *from, size_t version_1, void *to, size_t known, const char *what,
                                 const pw_site *site) {
    size_t size = 0;
    memcpy(&size, from, sizeof size);
    if (size < version_1)
        return pw_fail(PEERWIN_ERR_ARG, site, "%s.size is %zu, below %zu: initialize it with %s_init", what, size,
                       version_1, what);
    const unsigned char *bytes = from;
    if (size > known + 4096)
        return pw_fail(PEERWIN_ERR_ARG, site, "%s.size is %zu, which no version has: initialize it with %s_init", what,
                       size, what);
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return pw_fail(PEERWIN_ERR_ARG, site, "%s has options that this library (%d) does not know", what,
                           PEERWIN_VERSION);
    memcpy(to, from, size < known ? size : known);
    return PEERWIN_OK;
}

static peerwin_status check_config(const peerwin_config *config, const pw_site *site) {
    if ((unsigned)config->space > PEERWIN_SPACE_CUDA)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.space is %d, which is no space", (int)config->space);
    if (config->handles > ALL_HANDLES)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.handles is 0x%x, which has unknown kinds", config->handles);
    if ((unsigned)config->barrier > PEERWIN_BARRIER_KERNEL)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.barrier is %d, which is no kind of barrier",
                       (int)config->barrier);
    if (config->device < PEERWIN_DEVICE_SPREAD)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.device is %d, which is no device", config->device);
    if (config->timeout_ms < -1)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.timeout_ms is %d; 0 is the default, -1 is none",
                       config->timeout_ms);
    if (config->flags > (PEERWIN_STRICT | PEERWIN_NO_VERIFY | PEERWIN_NO_WATCHDOG))
        return pw_fail(PEERWIN_ERR_ARG, site, "config.flags is 0x%x, which has unknown bits", config->flags);
    if (config->num_devices < 0 || (config->num_devices > 0 && !config->devices))
        return pw_fail(PEERWIN_ERR_ARG, site, "config.num_devices is %d and devices is %s", config->num_devices,
                       config->devices ? "set" : "NULL");
    return PEERWIN_OK;
}

static void apply_environment(const pw_env *env, peerwin_config *config) {
    if (env->set & PW_ENV_SPACE)
        config->space = env->space;
    if (env->set & PW_ENV_HANDLES)
        config->handles = env->handles;
    if (env->set & PW_ENV_BARRIER)
        config->barrier = env->barrier;
    if (env->set & PW_ENV_DEVICE)
        config->device = env->device;
    if (env->set & PW_ENV_TIMEOUT)
        config->timeout_ms = env->timeout_ms;
    if (env->set & PW_ENV_STRICT)
        config->flags = env->strict ? config->flags | PEERWIN_STRICT : config->flags & ~PEERWIN_STRICT;
    if (env->set & PW_ENV_VERIFY)
        config->flags = env->verify ? config->flags & ~PEERWIN_NO_VERIFY : config->flags | PEERWIN_NO_VERIFY;
}

peerwin_status pw_settings_read(const peerwin_config *config, const pw_site *site, pw_settings *settings_out) {
    peerwin_config merged;
    pw_env env = {0};
    peerwin_config_init(&merged);
    peerwin_status status =
        config ? read_sized(config, sizeof(peerwin_config), &merged, sizeof merged, "peerwin_config", site)
               : PEERWIN_OK;
    if (status == PEERWIN_OK)
        status = check_config(&merged, site);
    if (status == PEERWIN_OK)
        status = pw_env_read(site, &env);
    if (status == PEERWIN_OK) {
        pw_log_set_level(env.log);
        apply_environment(&env, &merged);
    }
    if (status != PEERWIN_OK)
        peerwin_config_init(&merged);
    *settings_out = (pw_settings){
        .options = {.version = PEERWIN_VERSION,
                    .space = (uint32_t)merged.space,
                    .handles = merged.handles,
                    .barrier = (uint32_t)merged.barrier,
                    .timeout_ms = merged.timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : merged.timeout_ms,
                    .flags = merged.flags,
                    .node_ranks = (uint32_t)env.node_ranks},
        .device = merged.device,
        .devices = merged.devices,
        .num_devices = merged.num_devices,
        .halo_pack = env.halo_pack,
    };
    memcpy(settings_out->cuda_library, env.cuda_library, sizeof env.cuda_library);
    memcpy(settings_out->socket_dir, env.socket_dir, sizeof env.socket_dir);
    return status;
}

/* ---- comparison */

static void print_version(uint32_t version, char *text, size_t bytes) {
    snprintf(text, bytes, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
}

static peerwin_status differs(const char *what, int rank, const char *zeros, const char *theirs, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_MISMATCH, site, "%s differs: %s on rank 0, %s on rank %d", what, zeros, theirs, rank);
}

static peerwin_status compare_number(const char *what, int64_t zeros, int64_t theirs, int rank, const pw_site *site) {
    char a[24];
    char b[24];
    if (zeros == theirs)
        return PEERWIN_OK;
    snprintf(a, sizeof a, "%" PRId64, zeros);
    snprintf(b, sizeof b, "%" PRId64, theirs);
    return differs(what, rank, a, b, site);
}

static peerwin_status compare_one(const pw_options *zero, const pw_options *other, int rank, const pw_site *site) {
    if (zero->version != other->version) {
        char a[24];
        char b[24];
        print_version(zero->version, a, sizeof a);
        print_version(other->version, b, sizeof b);
        return differs("the version of the library", rank, a, b, site);
    }
    const struct {
        const char *what;
        int64_t zeros, theirs;
    } rows[] = {
        {"config.space (0 auto, 1 host, 2 CUDA)", zero->space, other->space},
        {"config.handles", zero->handles, other->handles},
        {"config.barrier", zero->barrier, other->barrier},
        {"config.timeout_ms", zero->timeout_ms, other->timeout_ms},
        {"config.flags", zero->flags, other->flags},
        {"PEERWIN_NODE_RANKS", zero->node_ranks, other->node_ranks},
    };
    peerwin_status status = PEERWIN_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == PEERWIN_OK; i++)
        status = compare_number(rows[i].what, rows[i].zeros, rows[i].theirs, rank, site);
    return status;
}

peerwin_status pw_options_compare(const pw_hello *hellos, int size, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int rank = 1; rank < size && status == PEERWIN_OK; rank++)
        status = compare_one(&hellos[0].options, &hellos[rank].options, rank, site);
    return status;
}

/* ---- windows */

peerwin_status pw_win_config_read(const peerwin_win_config *config, const pw_site *site,
                                  peerwin_win_config *config_out) {
    peerwin_win_config read;
    peerwin_win_config_init(&read);
    if (config) {
        peerwin_status status =
            read_sized(config, sizeof(peerwin_win_config), &read, sizeof read, "peerwin_win_config", site);
        if (status != PEERWIN_OK)
            return status;
    }
    if (read.handles > ALL_HANDLES)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.handles is 0x%x, which has unknown kinds", read.handles);
    if (read.read_only != 0 && read.read_only != 1)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.read_only is %d, not 0 or 1", read.read_only);
    if (read.num_signals > PW_MAX_SIGNALS)
        return pw_fail(PEERWIN_ERR_ARG, site, "config.num_signals is %u, above %d", read.num_signals, PW_MAX_SIGNALS);
    if (read.num_neighbors < 0 || (read.num_neighbors > 0 && !read.neighbors))
        return pw_fail(PEERWIN_ERR_ARG, site, "config.num_neighbors is %d and neighbors is %s", read.num_neighbors,
                       read.neighbors ? "set" : "NULL");
    if (read.num_signals == 0)
        read.num_signals = 64;
    *config_out = read;
    return PEERWIN_OK;
}
