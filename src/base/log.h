/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The log: one line per event to stderr, by level. Never holds a handle, descriptor number or nonce.
 */
#ifndef PW_BASE_LOG_H
#define PW_BASE_LOG_H

typedef enum { PW_LOG_ERROR = 0, PW_LOG_WARN = 1, PW_LOG_INFO = 2, PW_LOG_DEBUG = 3 } pw_log_level;

/* The level of the process: the last context made sets it. Starts at WARN. */
void pw_log_set_level(pw_log_level level);

/* Writes "peerwin[rank] level: text" as one line if `level` is wanted; rank PW_NONE leaves the bracket out. */
void pw_log(pw_log_level level, int rank, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
