/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Physical memory that processes share: a memfd whose last page is a label. An importer maps the same file. A ticket
 * names the exporter's descriptor; it is redeemed through /proc, so nothing needs to run in the exporter and nothing is
 * left when it dies. Importers are listed in the label, so that an owner who frees too early is caught.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LABEL_MAGIC  0x51c0da1abe1ULL
#define TICKET_MAGIC 0x51c0da71cce7ULL
#define DIRTY_BYTES  ((size_t)64 << 10)
#define DIRTY_PAGES  128

_Static_assert(sizeof(struct sim_label) <= 4096, "a label is one page");

size_t sim_used[SIM_MAX_DEVICES];

static struct {
    int *fds;
    size_t count, room;
} own_fds;

static void remember_fd(int fd) {
    if (own_fds.count == own_fds.room) {
        own_fds.room = own_fds.room == 0 ? 64 : 2 * own_fds.room;
        own_fds.fds = realloc(own_fds.fds, own_fds.room * sizeof *own_fds.fds);
        if (own_fds.fds == NULL) {
            sim_die("out of host memory");
        }
    }
    own_fds.fds[own_fds.count++] = fd;
}

static void forget_fd(int fd) {
    for (size_t i = 0; i < own_fds.count; i++) {
        if (own_fds.fds[i] == fd) {
            own_fds.fds[i] = own_fds.fds[--own_fds.count];
            return;
        }
    }
}

bool sim_is_driver_fd(int fd) {
    for (size_t i = 0; i < own_fds.count; i++) {
        if (own_fds.fds[i] == fd) {
            return true;
        }
    }
    return false;
}

uint64_t sim_pid_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

CUresult sim_charge(int device, size_t bytes) {
    if (bytes > sim.topology.device_bytes - sim_used[device]) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_used[device] += bytes;
    return CUDA_SUCCESS;
}

void sim_phys_dirty(const struct sim_phys *phys, size_t offset, size_t bytes) {
    static unsigned char dirt[64 << 10];
    if (dirt[0] == 0) {
        memset(dirt, 0xcb, sizeof dirt);
    }
    for (size_t at = offset; at < offset + bytes;) {
        size_t left = offset + bytes - at;
        ssize_t done = pwrite(phys->fd, dirt, left < sizeof dirt ? left : sizeof dirt, (off_t)at);
        if (done <= 0) {
            return;
        }
        at += (size_t)done;
    }
}

/* Both ends, and a page now and then between them: all of a large allocation would take its time. */
static void make_dirty(const struct sim_phys *phys) {
    size_t end = phys->bytes < 2 * DIRTY_BYTES ? phys->bytes : DIRTY_BYTES;
    size_t step = DIRTY_BYTES;
    while (phys->bytes / step > DIRTY_PAGES) {
        step *= 2;
    }
    sim_phys_dirty(phys, 0, end);
    for (size_t at = step; end < phys->bytes && at < phys->bytes - end; at += step) {
        sim_phys_dirty(phys, at, SIM_PAGE);
    }
    sim_phys_dirty(phys, phys->bytes - end, end);
}

static void fill_label(struct sim_phys *phys, enum sim_share_kind kind, int device, unsigned handle_types) {
    struct sim_label *label = phys->label;
    label->magic = LABEL_MAGIC;
    label->uid = (uint64_t)(uint32_t)getpid() << 32 | ++sim.next_uid;
    label->kind = kind;
    label->device = (uint32_t)device;
    label->handle_types = handle_types;
    label->node = sim.topology.node;
    label->pid = (int32_t)getpid();
    label->bytes = phys->bytes;
    label->pid_namespace = sim_pid_namespace();
}

static struct sim_label *map_label(int fd, size_t bytes) {
    void *map = mmap(NULL, SIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)bytes);
    return map == MAP_FAILED ? NULL : map;
}

CUresult sim_phys_create(enum sim_share_kind kind, int device, size_t bytes, unsigned handle_types, bool dirty,
                         struct sim_phys **phys_out) {
    static const char *const names[] = {"", "simcuda-block", "simcuda-vmm", "simcuda-pool", "simcuda-event"};
    struct sim_phys *phys = calloc(1, sizeof *phys);
    if (phys == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->bytes = bytes;
    phys->refs = 1;
    phys->buffer_id = ++sim.next_buffer_id;
    phys->fd = memfd_create(names[kind], MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (phys->fd < 0 || ftruncate(phys->fd, (off_t)(bytes + SIM_PAGE)) != 0 ||
        (phys->label = map_label(phys->fd, bytes)) == NULL) {
        if (phys->fd >= 0) {
            close(phys->fd);
        }
        free(phys);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    (void)fcntl(phys->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    remember_fd(phys->fd);
    fill_label(phys, kind, device, handle_types);
    if (dirty) {
        make_dirty(phys);
    }
    *phys_out = phys;
    return CUDA_SUCCESS;
}

static bool label_is_good(const struct sim_label *label, enum sim_share_kind kind, size_t bytes) {
    return label->magic == LABEL_MAGIC && label->kind == (uint32_t)kind && label->bytes == bytes &&
           label->device < SIM_MAX_DEVICES;
}

CUresult sim_phys_import(int fd, enum sim_share_kind kind, CUresult invalid, struct sim_phys **phys_out) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)SIM_PAGE) {
        return invalid;
    }
    size_t bytes = (size_t)st.st_size - SIM_PAGE;
    struct sim_label *label = map_label(fd, bytes);
    if (label == NULL || !label_is_good(label, kind, bytes)) {
        if (label != NULL) {
            munmap(label, SIM_PAGE);
        }
        return invalid;
    }
    struct sim_phys *phys = calloc(1, sizeof *phys);
    int copy = phys == NULL ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        free(phys);
        munmap(label, SIM_PAGE);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    remember_fd(copy);
    *phys = (struct sim_phys){
        .fd = copy, .bytes = bytes, .label = label, .refs = 1, .imported = true, .buffer_id = ++sim.next_buffer_id};
    *phys_out = phys;
    return CUDA_SUCCESS;
}

void sim_phys_ref(struct sim_phys *phys) {
    phys->refs++;
}

void sim_phys_unref(struct sim_phys *phys) {
    if (phys == NULL || --phys->refs > 0) {
        return;
    }
    if (phys->charged > 0) {
        sim_used[phys->label->device] -= phys->charged;
    }
    munmap(phys->label, SIM_PAGE);
    forget_fd(phys->fd);
    close(phys->fd);
    free(phys);
}

void sim_phys_opened(struct sim_phys *phys, uint32_t tag, int change) {
    uint64_t self = (uint64_t)tag << 32 | (uint32_t)getpid();
    for (int i = 0; i < SIM_MAX_IMPORTERS; i++) {
        uint64_t expected = change > 0 ? 0 : self;
        uint64_t wanted = change > 0 ? self : 0;
        if (__atomic_compare_exchange_n(&phys->label->importers[i], &expected, wanted, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            return;
        }
    }
}

int sim_phys_importers(const struct sim_phys *phys, uint32_t tag) {
    int count = 0;
    for (int i = 0; i < SIM_MAX_IMPORTERS; i++) {
        uint64_t entry = __atomic_load_n(&phys->label->importers[i], __ATOMIC_SEQ_CST);
        pid_t pid = (pid_t)(uint32_t)entry;
        count += entry != 0 && entry >> 32 == tag && (kill(pid, 0) == 0 || errno == EPERM);
    }
    return count;
}

struct sim_ticket sim_ticket_make(const struct sim_phys *phys, uint64_t offset, uint64_t length) {
    struct sim_ticket ticket;
    memset(&ticket, 0, sizeof ticket);
    ticket.magic = TICKET_MAGIC;
    ticket.uid = phys->label->uid;
    ticket.pid_namespace = sim_pid_namespace();
    ticket.offset = offset;
    ticket.pid = (int32_t)getpid();
    ticket.fd = phys->fd;
    ticket.device = (int32_t)phys->label->device;
    ticket.length = length;
    return ticket;
}

static bool fd_is(int fd, uint64_t uid) {
    struct stat st;
    struct sim_label *label = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)SIM_PAGE) {
        label = map_label(fd, (size_t)st.st_size - SIM_PAGE);
    }
    bool same = label != NULL && label->magic == LABEL_MAGIC && label->uid == uid;
    if (label != NULL) {
        munmap(label, SIM_PAGE);
    }
    return same;
}

int sim_ticket_redeem(const struct sim_ticket *ticket) {
    char path[64];
    int fd = -1;
    if (ticket->magic != TICKET_MAGIC) {
        return -1;
    }
    if (ticket->pid_namespace != sim_pid_namespace()) {
        fd = sim_ticket_fetch(ticket);
    } else {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->pid, (int)ticket->fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (fd >= 0 && !fd_is(fd, ticket->uid)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool sim_ticket_orphan(const struct sim_ticket *ticket) {
    return ticket->magic == TICKET_MAGIC && ticket->pid_namespace == sim_pid_namespace() &&
           kill((pid_t)ticket->pid, 0) != 0 && errno == ESRCH;
}
