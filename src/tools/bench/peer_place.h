/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The processors of a rank, the same on both sides of --peers: PEER_CPUS has a list for each rank of the machine
 * ("1,2,3;5,6,7"), and every rank takes its own before MPI begins, so that all its threads are there. Compiles as C11
 * and as C++17; needs _GNU_SOURCE.
 */
#ifndef PEERWIN_BENCH_PEER_PLACE_H
#define PEERWIN_BENCH_PEER_PLACE_H

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_TEXT = 240, PLACE_OF_A_RANK = 48 };

/* Launchers tell a rank its number on the machine; -1 if this one does not. */
static inline int place_number(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i]));
    return -1;
}

/* Before MPI_Init. Where nothing is said, or the list is too short, a rank stays where it is. */
static inline void place_take(void) {
    const char *lists = getenv("PEER_CPUS");
    cpu_set_t set;
    int number = place_number();
    CPU_ZERO(&set);
    for (; lists != NULL && number > 0; number--) {
        lists = strchr(lists, ';');
        lists = lists != NULL ? lists + 1 : NULL;
    }
    if (lists == NULL || number < 0)
        return;
    while (*lists >= '0' && *lists <= '9') {
        char *end = NULL;
        const long cpu = strtol(lists, &end, 10);
        if (cpu < CPU_SETSIZE)
            CPU_SET((size_t)cpu, &set);
        lists = *end == ',' ? end + 1 : end;
    }
    if (CPU_COUNT(&set) > 0)
        sched_setaffinity(0, sizeof set, &set);
}

/* "0-3,8": what this process may run on. */
static inline void place_of_rank(char *text, size_t size) {
    size_t used = 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    text[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t first = 0; first < CPU_SETSIZE && used < size; first++) {
        size_t last = first;
        if (!CPU_ISSET(first, &set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        const int written = last > first
                                ? snprintf(text + used, size - used, "%s%zu-%zu", used > 0 ? "," : "", first, last)
                                : snprintf(text + used, size - used, "%s%zu", used > 0 ? "," : "", first);
        used += written > 0 ? (size_t)written : size;
        first = last;
    }
}

/* "0-3; 4-7" for all ranks, on rank 0. Collective. */
static inline void place_of_all(int rank, int size, char text[PLACE_TEXT]) {
    char mine[PLACE_OF_A_RANK] = "";
    char *all = rank == 0 ? (char *)calloc((size_t)size, sizeof mine) : NULL;
    size_t used = 0;
    place_of_rank(mine, sizeof mine);
    MPI_Gather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, 0, MPI_COMM_WORLD);
    text[0] = '\0';
    for (int i = 0; all != NULL && i < size && used < PLACE_TEXT; i++) {
        const int written =
            snprintf(text + used, PLACE_TEXT - used, "%s%s", i > 0 ? "; " : "", all + (size_t)i * sizeof mine);
        used += written > 0 ? (size_t)written : PLACE_TEXT;
    }
    free(all);
}

#endif
