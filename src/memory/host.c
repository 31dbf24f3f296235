/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared host memory: an anonymous memory file per segment, passed by descriptor.
 *
 * The size is sealed before the descriptor leaves the process and checked by the importer, so nobody can shrink
 * the file and make others fault. Pages are allocated here and now (pages.h): running out of memory is a status, not a
 * SIGBUS at the first store, and first touch is the owner's. The file has no name in any file system; it is gone with
 * its last mapping.
 */
#include "memory/memory.h"

#include "base/fd.h"
#include "base/log.h"
#include "memory/available.h"
#include "memory/pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* MFD_NOEXEC_SEAL, which older headers lack. */
#define NOEXEC_SEAL 8u

static size_t granularity(const pw_gpu *gpu) {
    (void)gpu;
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Refuses sizes whose attempt would end in SIGXFSZ or in the out-of-memory killer. */
static peerwin_status check_size(size_t bytes, unsigned flags, const pw_site *site) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site,
                       "%zu bytes exceed the file size limit (ulimit -f), which counts for shared memory", bytes);
    size_t available = flags & PW_SPARSE ? SIZE_MAX : pw_memory_available("", bytes);
    if (bytes > available)
        return pw_fail(
            PEERWIN_ERR_NO_MEMORY, site,
            "%zu bytes were asked for and %zu are available, of the machine or of the process's control group", bytes,
            available);
    return PEERWIN_OK;
}

/* Kernels since 6.3 may insist that it is marked as not executable; older ones do not know the mark. */
static int create_file(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

static peerwin_status fill_file(const pw_segment *segment, const pw_crew *crew, const pw_site *site) {
    pw_pages made;
    int code = pw_pages_fill(segment->fd, segment->base, segment->mapped, crew, &made);
    if (code != 0)
        return pw_fail_errno(site, code, "fallocate");
    if (segment->mapped >= PW_HUGE_PAGE)
        pw_log(PW_LOG_DEBUG, site->rank, "%zu of %zu bytes of host memory are in huge pages; threads: %d", made.huge,
               segment->mapped, made.threads);
    return PEERWIN_OK;
}

/* What is sparse will not have huge pages. */
static void *map_shared(int fd, size_t bytes, int access, unsigned flags) {
    return flags & PW_SPARSE ? mmap(NULL, bytes, access, MAP_SHARED, fd, 0) : pw_pages_map(fd, bytes, access);
}

static peerwin_status map_file(pw_segment *segment, const pw_order *order, const pw_site *site) {
    if (ftruncate(segment->fd, (off_t)segment->mapped) != 0)
        return pw_fail_errno(site, errno, "ftruncate");
    segment->base = map_shared(segment->fd, segment->mapped, PROT_READ | PROT_WRITE, order->flags);
    if (segment->base == MAP_FAILED)
        return pw_fail_errno(site, errno, "mmap");
    peerwin_status status = order->flags & PW_SPARSE ? PEERWIN_OK : fill_file(segment, order->crew, site);
    if (status != PEERWIN_OK)
        (void)munmap(segment->base, segment->mapped);
    return status;
}

static peerwin_status host_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    pw_segment segment = {.ops = &pw_memory_host, .fd = -1, .num_pieces = 1};
    size_t page = granularity(gpu);
    if (order->bytes > (size_t)PTRDIFF_MAX - page)
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site, "%zu bytes are more than an address space has", order->bytes);
    segment.mapped = (order->bytes + page - 1) / page * page;
    if (segment.mapped == 0) {
        *segment_out = segment;
        return PEERWIN_OK;
    }
    peerwin_status status = check_size(segment.mapped, order->flags, site);
    if (status != PEERWIN_OK)
        return status;
    segment.fd = create_file(order->name);
    if (segment.fd < 0)
        return pw_fail_errno(site, errno, "memfd_create");
    status = map_file(&segment, order, site);
    if (status == PEERWIN_OK)
        *segment_out = segment;
    else
        pw_close(&segment.fd);
    return status;
}

static int wanted_seals(unsigned flags) {
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    return flags & PW_READ_ONLY ? seals | F_SEAL_FUTURE_WRITE : seals;
}

static peerwin_status host_seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    if (segment->mapped == 0)
        return PEERWIN_OK;
    if (fcntl(segment->fd, F_ADD_SEALS, wanted_seals(flags)) != 0)
        return pw_fail_errno(site, errno, "fcntl(F_ADD_SEALS)");
    return PEERWIN_OK;
}

static peerwin_status host_export(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site) {
    (void)piece;
    if (segment->mapped != 0 && segment->fd < 0)
        return pw_fail(PEERWIN_ERR_INTERNAL, site, "the segment was exported to everyone already");
    *handle_out = (pw_handle){.kind = PEERWIN_HANDLE_HOST, .fd = segment->fd, .bytes = segment->mapped};
    return PEERWIN_OK;
}

static void host_exported(pw_segment *segment) {
    pw_close(&segment->fd);
}

/* The descriptor came from another process: trust nothing about it. */
static peerwin_status check_file(int fd, size_t mapped, unsigned flags, const pw_site *site) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return pw_fail_errno(site, errno, "fstat");
    if (!S_ISREG(info.st_mode) || info.st_size < 0 || (size_t)info.st_size != mapped)
        return pw_fail(PEERWIN_ERR_INTERNAL, site,
                       "the descriptor received is not a memory file of the %zu bytes announced", mapped);
    int seals = fcntl(fd, F_GET_SEALS);
    int wanted = wanted_seals(flags);
    if (seals < 0 || (seals & wanted) != wanted)
        return pw_fail(PEERWIN_ERR_INTERNAL, site, "the memory file received is not sealed");
    return PEERWIN_OK;
}

static peerwin_status host_map(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    (void)offset; /* there is one piece */
    if (mapping->mapped == 0)
        return PEERWIN_OK;
    peerwin_status status = check_file(handle->fd, mapping->mapped, mapping->flags, site);
    if (status != PEERWIN_OK)
        return status;
    int access = mapping->flags & PW_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    void *base = map_shared(handle->fd, mapping->mapped, access, mapping->flags);
    if (base == MAP_FAILED)
        return pw_fail_errno(site, errno, "mmap");
    /* A forked child has no business in a peer's memory, and a core file need not hold it. Advice: failure is fine. */
    (void)madvise(base, mapping->mapped, MADV_DONTFORK);
    (void)madvise(base, mapping->mapped, MADV_DONTDUMP);
    mapping->base = base;
    return PEERWIN_OK;
}

static peerwin_status host_unmap(pw_mapping *mapping) {
    if (mapping->base)
        (void)munmap(mapping->base, mapping->mapped);
    *mapping = (pw_mapping){0};
    return PEERWIN_OK;
}

static peerwin_status host_release(pw_segment *segment) {
    pw_close(&segment->fd);
    if (segment->base)
        (void)munmap(segment->base, segment->mapped);
    *segment = (pw_segment){.fd = -1};
    return PEERWIN_OK;
}

void pw_handle_close(pw_handle *handle) {
    pw_close(&handle->fd);
    explicit_bzero(handle->token, sizeof handle->token);
}

const pw_memory_ops pw_memory_host = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_HOST,
    .name = "host",
    .needs_fd = 1,
    .granularity = granularity,
    .alloc = host_alloc,
    .seal = host_seal,
    .export_handle = host_export,
    .exported = host_exported,
    .map = host_map,
    .unmap = host_unmap,
    .release = host_release,
};
