/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the management library (NVML) knows and the driver does not: devices that CUDA_VISIBLE_DEVICES hides from this
 * process, which are peers all the same, and the state of the fabric. Opened at run time, only when it is asked, and
 * optional: where it is missing, or knows a device as little, the answer is "not known".
 */
#ifndef PW_MEMORY_NVML_H
#define PW_MEMORY_NVML_H

#include <stddef.h>

/* The table of NVML's calls, or NULL without any. */
typedef struct pw_nvml pw_nvml;

/* `library` as for the driver: "" for this machine's; otherwise that library must be NVML too. NULL if there is none.
 */
pw_nvml *pw_nvml_open(const char *library);
void pw_nvml_close(pw_nvml *nvml); /* NULL is fine */

/* How two devices, named by UUID, are linked. 0 if it is not known. */
typedef struct {
    int nvlink;  /* by NVLink, directly or through switches */
    int atomics; /* and each has atomics on the other's memory */
} pw_nvml_pair;
int pw_nvml_pair_of(const pw_nvml *nvml, const char *uuid, const char *other, pw_nvml_pair *pair_out);

/* The state of a device's fabric in words: "completed, clique 3", or why there is none. */
void pw_nvml_fabric(const pw_nvml *nvml, const char *uuid, char *text, size_t bytes);

#endif
