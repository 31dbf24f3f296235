/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peers_place.h. A rank is several threads (its own, MPI's, the driver's): on one core they take turns, and threads
 * of one core that pretend to be two slow each other down. So each rank gets several cores and one thread of each, near
 * its GPU where the machine tells, and the first core is left to the rest of the machine (the MPS server).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "peers_place.h"

#include "text.h"

#include <glob.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CORES = 1024, MOST_THREADS = 8, CORES_OF_A_RANK = 4, ANYWHERE = -1 };

typedef struct {
    int threads[MOST_THREADS]; /* processors, as the system numbers them */
    int num_threads;
    int node; /* of memory, ANYWHERE if that is not known */
    bool taken;
} core;

/* ---------------------------------------------------------------------------------------------- the machine */

static int read_number(const char *path, int otherwise) {
    int number = otherwise;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return otherwise;
    if (fscanf(file, "%d", &number) != 1)
        number = otherwise;
    fclose(file);
    return number;
}

/* The number behind the last "node" in the name of what the pattern finds. */
static int node_of_cpu(int cpu) {
    char pattern[96];
    glob_t found;
    int node = ANYWHERE;
    text_format(pattern, sizeof pattern, "/sys/devices/system/cpu/cpu%d/node[0-9]*", cpu);
    if (glob(pattern, 0, NULL, &found) == 0) {
        node = atoi(strrchr(found.gl_pathv[0], '/') + strlen("/node"));
        globfree(&found);
    }
    return node;
}

/* The number that a GPU has without CUDA_VISIBLE_DEVICES; -1 if that names it otherwise. */
static int number_of_gpu(int gpu) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; visible != NULL && i < gpu; i++) {
        visible = strchr(visible, ',');
        if (visible == NULL)
            return -1;
        visible++;
    }
    if (visible == NULL)
        return gpu;
    const size_t digits = strspn(visible, "0123456789");
    return digits > 0 && (visible[digits] == ',' || visible[digits] == '\0') ? atoi(visible) : -1;
}

/* The driver's list is in the order of the bus, as the GPUs of one kind are numbered. */
static int node_of_gpu(int gpu) {
    char path[160];
    glob_t found;
    int node = ANYWHERE;
    const int number = number_of_gpu(gpu);
    if (number < 0 || glob("/proc/driver/nvidia/gpus/*", 0, NULL, &found) != 0)
        return ANYWHERE;
    if ((size_t)number < found.gl_pathc) {
        text_format(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", strrchr(found.gl_pathv[number], '/') + 1);
        node = read_number(path, ANYWHERE);
    }
    globfree(&found);
    return node;
}

/* The lowest processor of a core stands for it: that is where the list of its threads begins. */
static int first_thread(int cpu) {
    char path[96];
    text_format(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    return read_number(path, cpu);
}

/* The cores of which this process may use a thread. */
static int find_cores(core *cores) {
    int first[MOST_CORES], count = 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set))
            continue;
        int i = 0;
        const int of = first_thread(cpu);
        while (i < count && first[i] != of)
            i++;
        if (i == MOST_CORES)
            break;
        if (i == count) {
            first[count++] = of;
            cores[i] = (core){.node = node_of_cpu(cpu)};
        }
        if (cores[i].num_threads < MOST_THREADS)
            cores[i].threads[cores[i].num_threads++] = cpu;
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------ the choice */

static int find_free(const core *cores, int first, int count, int node) {
    for (int i = first; i < count; i++)
        if (!cores[i].taken && (node == ANYWHERE || cores[i].node == node))
            return i;
    return -1;
}

static void add_cpu(char *text, size_t size, const char *separator, int cpu) {
    const size_t used = strlen(text);
    text_format(text + used, size - used, "%s%d", separator, cpu);
}

/* A core that is a rank's only one is given whole. */
static void give(const core *c, bool whole, bool begins, bool first_rank, char *text, size_t size) {
    for (int i = 0; i < (whole ? c->num_threads : 1); i++)
        add_cpu(text, size, i > 0 || !begins ? "," : first_rank ? "" : ";", c->threads[i]);
}

void peers_place(options_place how, int ranks, int gpus, char *text, size_t size) {
    static core cores[MOST_CORES];
    const int count = how == PLACE_NONE ? 0 : find_cores(cores);
    const int first = how == PLACE_SPREAD && count > ranks ? 1 : 0; /* left to others */
    int each = how == PLACE_SPREAD ? (count - first) / ranks : count >= ranks;
    each = each > CORES_OF_A_RANK ? CORES_OF_A_RANK : each;
    text[0] = '\0';
    for (int rank = 0; each > 0 && rank < ranks; rank++)
        for (int k = 0; k < each; k++) {
            const int node = how == PLACE_SPREAD ? node_of_gpu(rank % gpus) : ANYWHERE;
            const int near = find_free(cores, first, count, node);
            const int i = near >= 0 ? near : find_free(cores, first, count, ANYWHERE);
            cores[i].taken = true;
            give(&cores[i], each == 1, k == 0, rank == 0, text, size);
        }
}
