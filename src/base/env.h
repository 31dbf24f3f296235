/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The environment, read here and nowhere else. Values are range-checked; an unknown value is an error that lists the
 * valid ones. What is set overrides the config of the program.
 */
#ifndef PW_BASE_ENV_H
#define PW_BASE_ENV_H

#include "base/error.h"
#include "base/log.h"

enum { PW_ENV_PATH = 96, PW_ENV_LIBRARY = 512 };

/* Which thin faces of halo plans are packed in CUDA space. */
typedef enum { PW_HALO_PACK_AUTO = 0, PW_HALO_PACK_ALWAYS, PW_HALO_PACK_NEVER } pw_halo_pack;

/* What the environment asks for; `set` has a bit for every variable that was there. */
typedef struct {
    unsigned set;
    peerwin_space space;
    unsigned handles;
    peerwin_barrier_kind barrier;
    int device; /* PEERWIN_DEVICE_... */
    int timeout_ms;
    int strict;
    int verify;
    pw_log_level log;
    int node_ranks;
    pw_halo_pack halo_pack;
    char socket_dir[PW_ENV_PATH];
    char cuda_library[PW_ENV_LIBRARY];
} pw_env;

enum {
    PW_ENV_SPACE = 1 << 0,
    PW_ENV_HANDLES = 1 << 1,
    PW_ENV_BARRIER = 1 << 2,
    PW_ENV_DEVICE = 1 << 3,
    PW_ENV_TIMEOUT = 1 << 4,
    PW_ENV_STRICT = 1 << 5,
    PW_ENV_VERIFY = 1 << 6,
    PW_ENV_LOG = 1 << 7,
    PW_ENV_NODE_RANKS = 1 << 8,
    PW_ENV_SOCKET_DIR = 1 << 9,
    PW_ENV_TRACE = 1 << 10,
    PW_ENV_STATS = 1 << 11,
    PW_ENV_CUDA_LIBRARY = 1 << 12,
    PW_ENV_HALO_PACK = 1 << 13
};

/* Reads every variable. ARG or UNSUPPORTED with a sentence that names variable, value and the valid values. */
PEERWIN_MUST_USE peerwin_status pw_env_read(const pw_site *site, pw_env *env_out);

/* What the environment says of MPS, which is not peerwin's; for processes that are clients of it. */
typedef struct {
    const char *directory; /* where the server is found */
    unsigned share;        /* of the device's threads that this process may use, in thousandths of a percent */
} pw_env_mps;

enum { PW_ENV_MPS_ALL = 100000 };

pw_env_mps pw_env_read_mps(void);

/* One row of the list of variables, for help texts. */
typedef struct {
    const char *name;
    const char *values;
    const char *help;
} pw_env_help;

/* The rows in order, NULL past the last. */
const pw_env_help *pw_env_row(int index);

#endif
