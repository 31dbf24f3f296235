/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Options: the caller's structs and the environment, checked and merged; and compared over the ranks.
 */
#ifndef PW_WINDOW_CONFIG_H
#define PW_WINDOW_CONFIG_H

#include "base/env.h"
#include "window/wire.h"

/* The options of a context, with the environment applied. */
typedef struct {
    pw_options options;
    char socket_dir[PW_ENV_PATH];
    /* Of this rank alone. */
    int device; /* PEERWIN_DEVICE_... */
    const int *devices;
    int num_devices;
    pw_halo_pack halo_pack; /* each rank decides for what comes to it */
    char cuda_library[PW_ENV_LIBRARY];
} pw_settings;

/*
 * Reads config (NULL = defaults) and environment. Always writes usable settings, so that a rank with a bad option can
 * still tell the others; also sets the log level.
 */
PEERWIN_MUST_USE peerwin_status pw_settings_read(const peerwin_config *config, const pw_site *site,
                                                 pw_settings *settings_out);

/* MISMATCH if two ranks differ; the text shows both sides. The same on every rank. */
PEERWIN_MUST_USE peerwin_status pw_options_compare(const pw_hello *hellos, int size, const pw_site *site);

/* Copies a caller's window config (NULL = defaults) of any known size. ARG if it is none. */
PEERWIN_MUST_USE peerwin_status pw_win_config_read(const peerwin_win_config *config, const pw_site *site,
                                                   peerwin_win_config *config_out);

#endif
