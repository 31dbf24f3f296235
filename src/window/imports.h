/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Imports: the peers' memory that is mapped in this process. Windows that attach parts of one allocation of a peer
 * share its mapping: an import is counted, and known by peer, kind, access and the owner's name for the memory, never
 * by address, which a later allocation may get again.
 */
#ifndef PW_WINDOW_IMPORTS_H
#define PW_WINDOW_IMPORTS_H

#include "memory/memory.h"

typedef struct pw_import pw_import;

struct pw_import {
    pw_mapping mapping;
    int rank;           /* of the owner */
    uint64_t memory_id; /* the owner's name for it, 0 = it has none and is not shared */
    int count;
    pw_import *next;
};

/* Makes an import with a count of 1, to be mapped by the caller. */
PEERWIN_MUST_USE peerwin_status pw_import_create(pw_import **list, int rank, uint64_t memory_id,
                                                 const pw_mapping *mapping, const pw_site *site,
                                                 pw_import **import_out);

/* Takes another share of an import that is there already, or returns NULL. */
pw_import *pw_import_share(pw_import *list, int rank, uint64_t memory_id, const pw_mapping *wanted);

/* Gives a share back; the last one unmaps. The first failure; the import is gone in any case. NULL is fine. */
peerwin_status pw_import_release(pw_import **list, pw_import *import);

#endif
