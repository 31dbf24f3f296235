/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A link between two processes of a test, on descriptor LINK_FD: messages, descriptors, and taking turns. Whoever finds
 * the other side gone ends with status 3.
 */
#ifndef SIMCUDA_LINK_H
#define SIMCUDA_LINK_H

#include <stddef.h>

enum { LINK_FD = 3 };

/* Both sides walk in step: what one tells, the other hears. */
void tell(const void *data, size_t bytes);
void hear(void *data, size_t bytes);
void tell_fd(int fd);
int hear_fd(void);
void hand(void);  /* let the other side go on, without waiting */
void await(void); /* wait for the other side's hand or step */
void step(void);  /* let the other side run until it calls step itself, and wait for that */

#endif
