/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A plan in the making: what this rank has said, what the others have, and what follows from both.
 */
#ifndef PW_HALO_DRAFT_H
#define PW_HALO_DRAFT_H

#include "halo/halo.h"

typedef struct {
    peerwin_halo *halo;
    peerwin_face *sent; /* my send faces, without those to nobody; the plan keeps the receive faces */
    int num_sent, num_received;
    pw_face_record *records; /* of both */
    const pw_face_record **targets;
    int *ranks;          /* of the neighbours */
    pw_face_list *lists; /* of all ranks, in `all` */
    void *all;
} pw_draft;

/* INTERNAL if a receiver's face, which came in a message, is none of its segment. The faces have been paired. */
PEERWIN_MUST_USE peerwin_status pw_draft_check_targets(const pw_draft *d, const pw_site *site);

/* Settles which of the faces that come to this rank go through its staging area. They have been described. */
void pw_draft_stage(pw_draft *d);

/* Settles whose faces travel as words: the same answers on all ranks. The lists of all are there. */
void pw_draft_choose_words(pw_draft *d);

/* Writes the moves of the plan down. Its window is there. */
void pw_draft_settle(const pw_draft *d);

#endif
