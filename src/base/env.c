/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The environment; see env.h. One row per variable: name, valid values, help and parser.
 */
#include "base/env.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { PARSED, BAD_VALUE, NOT_YET } parse_result;

typedef struct {
    const char *word;
    int value;
} word_row;

/* Looks `text` up in a list of words ended by NULL. */
static parse_result parse_word(const char *text, const word_row *rows, int *value_out) {
    for (; rows->word; rows++) {
        if (strcmp(text, rows->word) == 0) {
            *value_out = rows->value;
            return PARSED;
        }
    }
    return BAD_VALUE;
}

static parse_result parse_number(const char *text, long low, long high, int *value_out) {
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high)
        return BAD_VALUE;
    *value_out = (int)value;
    return PARSED;
}

static parse_result parse_space(const char *text, pw_env *env) {
    static const word_row words[] = {{"host", PEERWIN_SPACE_HOST}, {"cuda", PEERWIN_SPACE_CUDA}, {NULL, 0}};
    int value = 0;
    parse_result result = parse_word(text, words, &value);
    env->space = (peerwin_space)value;
    return result;
}

/* A list of kinds separated by commas. */
static parse_result parse_handles(const char *text, pw_env *env) {
    static const word_row words[] = {{"fd", PEERWIN_HANDLE_FD},         {"legacy", PEERWIN_HANDLE_LEGACY},
                                     {"fabric", PEERWIN_HANDLE_FABRIC}, {"pool", PEERWIN_HANDLE_POOL},
                                     {"host", PEERWIN_HANDLE_HOST},     {NULL, 0}};
    for (;;) {
        size_t length = strcspn(text, ",");
        char word[16] = "";
        int value = 0;
        if (length >= sizeof word)
            return BAD_VALUE;
        memcpy(word, text, length);
        if (parse_word(word, words, &value) != PARSED)
            return BAD_VALUE;
        env->handles |= (unsigned)value;
        if (text[length] == '\0')
            return PARSED;
        text += length + 1;
    }
}

static parse_result parse_barrier(const char *text, pw_env *env) {
    static const word_row words[] = {{"event", PEERWIN_BARRIER_EVENT},
                                     {"memop", PEERWIN_BARRIER_MEMOP},
                                     {"kernel", PEERWIN_BARRIER_KERNEL},
                                     {NULL, 0}};
    int value = 0;
    parse_result result = parse_word(text, words, &value);
    env->barrier = (peerwin_barrier_kind)value;
    return result;
}

static parse_result parse_device(const char *text, pw_env *env) {
    if (strcmp(text, "spread") == 0) {
        env->device = PEERWIN_DEVICE_SPREAD;
        return PARSED;
    }
    if (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0)
        return NOT_YET;
    int ordinal = 0;
    if (parse_number(text, 0, 1023, &ordinal) != PARSED)
        return BAD_VALUE;
    env->device = PEERWIN_DEVICE(ordinal);
    return PARSED;
}

/* Seconds, fractions allowed; -1 means no deadline. */
static parse_result parse_timeout(const char *text, pw_env *env) {
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || isnan(seconds))
        return BAD_VALUE;
    if (seconds == -1.0) {
        env->timeout_ms = -1;
        return PARSED;
    }
    if (seconds < 0.001 || seconds > 1e6)
        return BAD_VALUE;
    env->timeout_ms = (int)(seconds * 1000.0);
    return PARSED;
}

static parse_result parse_strict(const char *text, pw_env *env) {
    return parse_number(text, 0, 1, &env->strict);
}

static parse_result parse_verify(const char *text, pw_env *env) {
    return parse_number(text, 0, 1, &env->verify);
}

static parse_result parse_log(const char *text, pw_env *env) {
    static const word_row words[] = {
        {"error", PW_LOG_ERROR}, {"warn", PW_LOG_WARN}, {"info", PW_LOG_INFO}, {"debug", PW_LOG_DEBUG}, {NULL, 0}};
    int value = 0;
    parse_result result = parse_word(text, words, &value);
    env->log = (pw_log_level)value;
    return result;
}

static parse_result parse_node_ranks(const char *text, pw_env *env) {
    return parse_number(text, 1, 1000000, &env->node_ranks);
}

static parse_result parse_halo_pack(const char *text, pw_env *env) {
    static const word_row words[] = {
        {"auto", PW_HALO_PACK_AUTO}, {"always", PW_HALO_PACK_ALWAYS}, {"never", PW_HALO_PACK_NEVER}, {NULL, 0}};
    int value = 0;
    parse_result result = parse_word(text, words, &value);
    env->halo_pack = (pw_halo_pack)value;
    return result;
}

static parse_result parse_socket_dir(const char *text, pw_env *env) {
    size_t length = strlen(text);
    if (text[0] != '/' || length >= PW_ENV_PATH - 40)
        return BAD_VALUE;
    memcpy(env->socket_dir, text, length + 1);
    return PARSED;
}

static parse_result parse_cuda_library(const char *text, pw_env *env) {
    size_t length = strlen(text);
    if (text[0] != '/' || length >= PW_ENV_LIBRARY)
        return BAD_VALUE;
    memcpy(env->cuda_library, text, length + 1);
    return PARSED;
}

static parse_result parse_not_yet(const char *text, pw_env *env) {
    (void)text;
    (void)env;
    return NOT_YET;
}

typedef struct {
    pw_env_help help;
    unsigned bit;
    parse_result (*parse)(const char *text, pw_env *env);
} env_row;

static const env_row rows[] = {
    {{"PEERWIN_SPACE", "host, cuda", "where windows live"}, PW_ENV_SPACE, parse_space},
    {{"PEERWIN_HANDLES", "a list of fd, legacy, fabric, pool, host", "kinds of memory handle that may be used"},
     PW_ENV_HANDLES,
     parse_handles},
    {{"PEERWIN_BARRIER", "event, memop, kernel", "how a barrier on a CUDA stream is done"},
     PW_ENV_BARRIER,
     parse_barrier},
    {{"PEERWIN_DEVICE", "an ordinal, a UUID, spread", "the device of this rank"}, PW_ENV_DEVICE, parse_device},
    {{"PEERWIN_TIMEOUT", "seconds from 0.001 to 1000000, -1 for none", "deadline of set-up and waits"},
     PW_ENV_TIMEOUT,
     parse_timeout},
    {{"PEERWIN_STRICT", "0, 1", "1: a pair of ranks without a direct path is an error"}, PW_ENV_STRICT, parse_strict},
    {{"PEERWIN_VERIFY", "0, 1", "0: do not write and verify fresh mappings"}, PW_ENV_VERIFY, parse_verify},
    {{"PEERWIN_LOG", "error, warn, info, debug", "what is logged to stderr; warn if not set"}, PW_ENV_LOG, parse_log},
    {{"PEERWIN_TRACE", "a file", "trace of every stage"}, PW_ENV_TRACE, parse_not_yet},
    {{"PEERWIN_STATS", "a file", "counters as JSON"}, PW_ENV_STATS, parse_not_yet},
    {{"PEERWIN_NODE_RANKS", "1 to 1000000", "every so many consecutive ranks pretend to be one node, for tests"},
     PW_ENV_NODE_RANKS,
     parse_node_ranks},
    {{"PEERWIN_HALO_PACK", "auto, always, never",
      "thin faces of halo plans on devices: packed where they come over a link and are large, wherever they come from "
      "another rank, or nowhere"},
     PW_ENV_HALO_PACK,
     parse_halo_pack},
    {{"PEERWIN_SOCKET_DIR", "an absolute path of at most 55 characters",
      "directory, writable by this user only, for sockets between ranks in different network namespaces"},
     PW_ENV_SOCKET_DIR,
     parse_socket_dir},
    {{"PEERWIN_CUDA_LIBRARY", "an absolute path", "the CUDA driver to load; libcuda.so.1 if not set"},
     PW_ENV_CUDA_LIBRARY,
     parse_cuda_library},
};

enum { ROWS = sizeof rows / sizeof *rows };

const pw_env_help *pw_env_row(int index) {
    return index >= 0 && index < ROWS ? &rows[index].help : NULL;
}

static peerwin_status read_row(const pw_site *site, const env_row *row, pw_env *env) {
    const char *text = secure_getenv(row->help.name);
    if (!text || text[0] == '\0')
        return PEERWIN_OK;
    switch (row->parse(text, env)) {
    case PARSED:
        env->set |= row->bit;
        return PEERWIN_OK;
    case NOT_YET:
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "the environment has %s=%.64s, which this version does not support; unset it", row->help.name,
                       text);
    default:
        return pw_fail(PEERWIN_ERR_ARG, site, "the environment has %s=%.64s; valid: %s", row->help.name, text,
                       row->help.values);
    }
}

/* A misspelt variable would be ignored silently: say so. */
static void warn_unknown(void) {
    for (char **entry = environ; entry && *entry; entry++) {
        if (strncmp(*entry, "PEERWIN_", 8) != 0)
            continue;
        size_t length = strcspn(*entry, "=");
        int known = 0;
        for (int i = 0; i < ROWS && !known; i++)
            known = strlen(rows[i].help.name) == length && strncmp(rows[i].help.name, *entry, length) == 0;
        if (!known)
            pw_log(PW_LOG_WARN, PW_NONE, "the environment has %.*s, which is no variable of peerwin", (int)length,
                   *entry);
    }
}

/* A value that MPS would not take either counts as all. */
pw_env_mps pw_env_read_mps(void) {
    const char *directory = secure_getenv("CUDA_MPS_PIPE_DIRECTORY");
    const char *percentage = secure_getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    pw_env_mps mps = {.directory = directory && *directory ? directory : "/tmp/nvidia-mps", .share = PW_ENV_MPS_ALL};
    double percent = percentage ? strtod(percentage, NULL) : 100;
    if (percent > 0 && percent < 100)
        mps.share = (unsigned)(percent * PW_ENV_MPS_ALL / 100);
    return mps;
}

peerwin_status pw_env_read(const pw_site *site, pw_env *env_out) {
    pw_env env = {.log = PW_LOG_WARN, .verify = 1};
    for (int i = 0; i < ROWS; i++) {
        peerwin_status status = read_row(site, &rows[i], &env);
        if (status != PEERWIN_OK)
            return status;
    }
    if (site->rank == 0)
        warn_unknown();
    *env_out = env;
    return PEERWIN_OK;
}
