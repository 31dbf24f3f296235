/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Imports; see imports.h.
 */
#include "window/imports.h"

#include <errno.h>
#include <stdlib.h>

peerwin_status pw_import_create(pw_import **list, int rank, uint64_t memory_id, const pw_mapping *mapping,
                                const pw_site *site, pw_import **import_out) {
    pw_import *import = malloc(sizeof *import);
    if (!import)
        return pw_fail_errno(site, ENOMEM, "malloc");
    *import = (pw_import){.mapping = *mapping, .rank = rank, .memory_id = memory_id, .count = 1, .next = *list};
    *list = import;
    *import_out = import;
    return PEERWIN_OK;
}

pw_import *pw_import_share(pw_import *list, int rank, uint64_t memory_id, const pw_mapping *wanted) {
    if (memory_id == 0)
        return NULL;
    for (pw_import *import = list; import; import = import->next) {
        const pw_mapping *mapping = &import->mapping;
        if (import->rank != rank || import->memory_id != memory_id || mapping->ops != wanted->ops ||
            mapping->flags != wanted->flags || mapping->mapped != wanted->mapped)
            continue;
        import->count++;
        return import;
    }
    return NULL;
}

peerwin_status pw_import_release(pw_import **list, pw_import *import) {
    if (!import || --import->count > 0)
        return PEERWIN_OK;
    pw_import **link = list;
    while (*link != import)
        link = &(*link)->next;
    *link = import->next;
    peerwin_status status = import->mapping.base ? import->mapping.ops->unmap(&import->mapping) : PEERWIN_OK;
    free(import);
    return status;
}
