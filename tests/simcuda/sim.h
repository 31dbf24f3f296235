/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Inside of the simulated driver. One process-wide state under one lock: every entry point takes it in sim_enter and
 * gives it back in sim_leave; stream threads take it only between operations, so work runs unlocked. Handles are ids
 * (never pointers), so that a handle kept too long is recognised. Memory is memfd and mmap: what one process exports
 * another maps, for real.
 */
#ifndef SIMCUDA_SIM_H
#define SIMCUDA_SIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define __CUDA_API_VERSION_INTERNAL /* plain names of superseded forms stay usable */
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "calls.h"
#include "simcuda.h"
#include "topology.h"

#define SIM_EXPORT  __attribute__((visibility("default")))
#define SIM_ENTRY   SIM_EXPORT CUresult CUDAAPI
#define SIM_GRANULE ((size_t)2 << 20)
#define SIM_PAGE    ((size_t)4096)

/* ---- entry points ---- */

#define SIM_CALL_ONE(name, version, symbol, flags) +1
enum { SIM_NUM_CALLS = SIM_CALLS(SIM_CALL_ONE) };

/* Takes the lock; an error is what the call must return (injected, not initialised, forbidden in capture). */
CUresult sim_enter(const char *symbol, int *known); /* known: the call's number + 1, once it was looked up */
CUresult sim_leave(CUresult rc);
bool sim_usable(void); /* after sim_enter: initialised and in the process that did it */
int sim_find_call(const char *symbol);
const char *sim_call_name(int call);
const char *sim_call_symbol(int call);
unsigned sim_call_flags(int call);

#define SIM_RUN(symbol, expression)                                                                                    \
    do {                                                                                                               \
        static int sim_call_;                                                                                          \
        CUresult sim_rc_ = sim_enter(#symbol, &sim_call_);                                                             \
        if (sim_rc_ == CUDA_SUCCESS) {                                                                                 \
            sim_rc_ = (expression);                                                                                    \
        }                                                                                                              \
        return sim_leave(sim_rc_);                                                                                     \
    } while (0)

/* Told to fail, it releases all the same. */
#define SIM_RUN_RELEASE(symbol, expression)                                                                            \
    do {                                                                                                               \
        static int sim_call_;                                                                                          \
        CUresult sim_told_ = sim_enter(#symbol, &sim_call_);                                                           \
        CUresult sim_rc_ =                                                                                             \
            sim_usable() && sim_told_ != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? (expression) : sim_told_;             \
        return sim_leave(sim_told_ != CUDA_SUCCESS ? sim_told_ : sim_rc_);                                             \
    } while (0)

/* Misuse: ends the process and names the call, or, when not strict, returns what a driver returns. */
CUresult sim_misuse(CUresult lenient, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Misuse that a driver does not survive: the process ends in either case. */
void sim_crash(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- objects ---- */

enum sim_kind {
    SIM_CONTEXT = 1,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_POOL,
    SIM_ALLOC,
    SIM_GRAPH,
    SIM_EXEC
};

struct sim_object {
    enum sim_kind kind;
    uint64_t handle;
};
/* As `dead` of sim_object_find: a driver crashes here. */
#define SIM_DEADLY ((CUresult)-1)
/* Registers an object; its handle never comes again. */
void sim_object_add(struct sim_object *object, enum sim_kind kind);
void sim_object_remove(struct sim_object *object);
/* The live object, or NULL with the error: `missing` for a null or foreign handle, misuse for a dead one. */
void *sim_object_find(uint64_t handle, enum sim_kind kind, CUresult missing, CUresult dead, CUresult *rc_out);
size_t sim_object_count(enum sim_kind kind);
void sim_object_each(enum sim_kind kind, void (*visit)(struct sim_object *, void *), void *data);
const char *sim_kind_text(enum sim_kind kind);

/* ---- contexts ---- */

struct sim_stream;
struct sim_context {
    struct sim_object object;
    int ordinal, device; /* CUDA ordinal and physical device */
    bool primary, destroyed;
    int refs;
    uint64_t id; /* of this life of it */
    unsigned flags;
    CUresult lost;
    bool peers[SIM_MAX_DEVICES]; /* by physical device: access enabled */
    struct sim_stream *streams, *legacy;
    struct sim_queue *shared[8]; /* one queue for all streams of a priority */
};
struct sim_context *sim_current(CUresult *rc_out); /* NULL: error */
struct sim_context *sim_current_or_null(void);
struct sim_context *sim_context_find(CUcontext ctx, CUresult *rc_out);
size_t sim_current_depth(void);
size_t sim_context_refs(void);
CUresult sim_device_check(CUdevice dev);
/* Ordinal of a physical device in this process, or -1 when it is hidden. */
int sim_ordinal(int device);
bool sim_can_access(int device, int memory_device);

/* ---- shared physical memory (share.c) ---- */

enum sim_share_kind { SIM_SHARE_BLOCK = 1, SIM_SHARE_VMM, SIM_SHARE_POOL, SIM_SHARE_EVENT };
enum { SIM_MAX_IMPORTERS = 256 };

/* The last page of every memfd: what an importer needs to know, and who has it open. */
struct sim_label {
    uint64_t magic, uid;
    uint32_t kind, device, handle_types;
    int32_t node, pid;
    uint64_t bytes, pid_namespace;
    uint64_t recorded, completed;          /* events */
    uint64_t importers[SIM_MAX_IMPORTERS]; /* tag << 32 | pid; the tag tells the allocations of a pool apart */
};

struct sim_phys {
    int fd;
    size_t bytes;
    struct sim_label *label;
    int refs;
    bool imported;
    uint64_t buffer_id;
    size_t charged; /* counted as used memory of its device */
};

/* Enough to find an exporter's memory from another process; fills the opaque handles. */
struct sim_ticket {
    uint64_t magic, uid, pid_namespace, offset, length;
    int32_t pid, fd, device;
    uint32_t salt;
};
CUresult sim_phys_create(enum sim_share_kind kind, int device, size_t bytes, unsigned handle_types, bool dirty,
                         struct sim_phys **phys_out);
/* Fresh device memory holds what was there before: nothing may rely on zeros. Written by the file, without faults. */
void sim_phys_dirty(const struct sim_phys *phys, size_t offset, size_t bytes);
/* Takes its own copy of the descriptor. */
CUresult sim_phys_import(int fd, enum sim_share_kind kind, CUresult invalid, struct sim_phys **phys_out);
void sim_phys_ref(struct sim_phys *phys);
void sim_phys_unref(struct sim_phys *phys);
void sim_phys_opened(struct sim_phys *phys, uint32_t tag, int change); /* this process as importer */
int sim_phys_importers(const struct sim_phys *phys, uint32_t tag);     /* live ones */
struct sim_ticket sim_ticket_make(const struct sim_phys *phys, uint64_t offset, uint64_t length);
/* A descriptor of the exporter's memory, or -1 if it is gone or cannot be reached from here. */
int sim_ticket_redeem(const struct sim_ticket *ticket);
bool sim_ticket_orphan(const struct sim_ticket *ticket); /* the exporter has died */
/* The same across PID namespaces, through a socket of the exporter (server.c). */
void sim_ticket_serve(void);
int sim_ticket_fetch(const struct sim_ticket *ticket);
uint64_t sim_pid_namespace(void);
bool sim_is_driver_fd(int fd);

/* ---- address space (range.c) ---- */

enum sim_range_kind {
    SIM_RANGE_DEVICE,  /* cuMemAlloc */
    SIM_RANGE_VMM,     /* cuMemMap */
    SIM_RANGE_LEGACY,  /* allocation behind an opened legacy handle */
    SIM_RANGE_POOL,    /* stream-ordered */
    SIM_RANGE_POOL_IN, /* imported pool pointer */
    SIM_RANGE_MANAGED,
    SIM_RANGE_HOST,     /* registered */
    SIM_RANGE_HOST_OWN, /* allocated by cuMemAllocHost */
};

struct sim_pool { /* stream-ordered memory: pool.c, and between processes pool_share.c */
    struct sim_object object;
    struct sim_phys *phys;
    uintptr_t start;
    int device;
    size_t live;
    bool destroyed, is_default, exported, imported;
    bool unexportable; /* there was no descriptor once */
    unsigned char access[SIM_MAX_DEVICES];
};

struct sim_alloc { /* what a VMM handle names: vmm.c, and its mappings in vmm_map.c */
    struct sim_object object;
    struct sim_phys *phys;
    int refs; /* handles held by the caller */
    int maps;
    bool host; /* in host memory */
};

struct sim_range {
    struct sim_range *next;
    uintptr_t start;
    size_t size; /* as the user sees it */
    enum sim_range_kind kind;
    struct sim_phys *phys;
    size_t offset; /* of start in phys */
    struct sim_context *ctx;
    int device; /* physical */
    uint64_t buffer_id;
    int refs;
    bool writable_host, freeing;
    unsigned char access[SIM_MAX_DEVICES]; /* by physical device */
    struct sim_alloc *alloc;
    struct sim_pool *pool;
};
extern struct sim_range *sim_ranges;
struct sim_range *sim_range_at(uintptr_t address);    /* containing it */
struct sim_range *sim_range_exact(uintptr_t address); /* starting there */
struct sim_range *sim_range_add(enum sim_range_kind kind, uintptr_t start, size_t size);
void sim_range_remove(struct sim_range *range);
size_t sim_range_count(enum sim_range_kind kind);
/* Can the current context's device, or the memory's own without one, touch it? */
bool sim_range_reachable(const struct sim_range *range);
bool sim_range_imported(const struct sim_range *range);
uintptr_t sim_va_take(size_t size, size_t alignment); /* 0: none left */
void sim_va_give(uintptr_t start, size_t size);
bool sim_va_owns(uintptr_t address); /* inside the simulated device address space */
/* Maps physical memory at an address taken before, for stream threads. */
bool sim_va_map(uintptr_t start, size_t size, const struct sim_phys *phys, size_t offset, int protection);
void sim_va_protect(uintptr_t start, size_t size, int protection);
void sim_va_unmap(uintptr_t start, size_t size);
void sim_protection_init(void);
int sim_protection_key(void); /* -1: none */
/* Can `device` read (write) all of this? Host memory counts if it is registered. */
bool sim_accessible(int device, uintptr_t start, size_t size, bool write);
CUresult sim_free_range(struct sim_range *range);

/* A released handle stays good while its memory is mapped; strict callers do not rely on it. */
struct sim_alloc *sim_alloc_find(CUmemGenericAllocationHandle handle, CUresult *rc_out);
void sim_alloc_drop_if_unused(struct sim_alloc *alloc);
size_t sim_vmm_refs(bool imported);                                                  /* handles held by the caller */
bool sim_vmm_reservation(uintptr_t address, uintptr_t *start_out, size_t *size_out); /* the one around it */
size_t sim_vmm_reservations(void);
size_t sim_legacy_refs(void);
void sim_legacy_drop(struct sim_range *range);
uint32_t sim_legacy_tag(const struct sim_range *range); /* of an allocation, among its block's importers */
size_t sim_pool_count(void);
void sim_pool_free_range(struct sim_range *range);
struct sim_pool *sim_pool_find(CUmemoryPool handle, CUresult *rc_out);
CUresult sim_pool_make(struct sim_phys *phys, struct sim_pool **pool_out); /* takes the memory; on failure drops it */
struct sim_range *sim_pool_add_range(struct sim_pool *pool, struct sim_context *ctx, uintptr_t start, size_t bytes,
                                     enum sim_range_kind kind);

void sim_apply_access(struct sim_range *range, size_t bytes); /* the widest right of any device, for stream threads */

extern size_t sim_used[SIM_MAX_DEVICES];
CUresult sim_charge(int device, size_t bytes);

/* ---- streams (stream.c) ---- */

struct sim_record { /* one recording of an event */
    int refs;
    int streams; /* that have yet to get there, if it was made behind those of a whole context */
    bool done, awaited;
    uint64_t ns;
};

struct sim_queue;
struct sim_graph;
struct sim_stream {
    struct sim_object object;
    struct sim_stream *next;
    struct sim_context *ctx;
    struct sim_queue *queue;
    bool non_blocking, own_queue, destroyed;
    int priority;
    unsigned flags;
    uint64_t issued, finished;
    uint64_t awaited; /* the lowest number that a thread waits for, or 0 */
    struct sim_graph *capture;
    size_t capture_last, capture_joined;
    bool capture_others; /* the next operation depends on other streams' too */
    CUgraphNode capture_node;
};

struct sim_event {
    struct sim_object object;
    struct sim_context *ctx;
    unsigned flags;
    bool imported;
    struct sim_record *record;
    struct sim_phys *shared;
    struct sim_graph *capture; /* recorded in this capture, and not since */
    bool capture_over;         /* recorded in a capture that has ended, and not since */
    struct sim_stream *capture_stream;
    size_t capture_at;
};

enum sim_op_kind {
    SIM_OP_COPY,
    SIM_OP_FILL,
    SIM_OP_WRITE,
    SIM_OP_WAIT,
    SIM_OP_RECORD,
    SIM_OP_AWAIT,
    SIM_OP_HOST,
    SIM_OP_KERNEL,
    SIM_OP_FREE
};

struct sim_op_copy {
    uintptr_t dst, src;
    size_t width, height, depth;
    size_t dst_pitch, dst_slice, src_pitch, src_slice;
    bool to_peer, staged;
};
struct sim_op_fill {
    uintptr_t dst;
    size_t count;
    unsigned value;
    bool words, to_peer;
};
struct sim_op_word {
    uintptr_t address;
    uint64_t value;
    unsigned flags;
    bool wide, to_peer, denied;
};
struct sim_op_event {
    struct sim_record *record;
    struct sim_phys *shared;
    uint64_t target;
    uint64_t handle; /* in a graph: the event, looked up at each launch */
};
struct sim_op_host {
    CUhostFn fn;
    void *data;
};
struct sim_function;
struct sim_op_kernel {
    struct sim_function *function;
    unsigned grid[3], block[3];
    size_t bytes;
};
struct sim_dep {
    struct sim_stream *stream;
    uint64_t number;
};

struct sim_op {
    struct sim_op *next;
    struct sim_stream *stream;
    uint64_t number;
    enum sim_op_kind kind;
    union {
        struct sim_op_copy copy;
        struct sim_op_fill fill;
        struct sim_op_word word;
        struct sim_op_event event;
        struct sim_op_host host;
        struct sim_op_kernel kernel;
        struct sim_range *range;
    } u;
    struct sim_dep *deps;
    size_t num_deps;
    _Alignas(16) unsigned char params[]; /* of a kernel */
};

/* The stream behind a handle, the current context's legacy stream for 0 and 1; also checks that the context lives. */
struct sim_stream *sim_stream_find(CUstream stream, CUresult *rc_out);
struct sim_op *sim_op_new(enum sim_op_kind kind, size_t param_bytes);
struct sim_op *sim_op_clone(const struct sim_op *op);
void sim_op_free(struct sim_op *op);
CUresult sim_enqueue(struct sim_stream *stream, struct sim_op *op); /* takes the op */
CUresult sim_stream_drain(struct sim_stream *stream);
CUresult sim_context_drain(struct sim_context *ctx);
void sim_context_stop(struct sim_context *ctx); /* ends its threads and frees its streams */
bool sim_stream_idle(const struct sim_stream *stream);
bool sim_on_stream_thread(void);
void sim_lose(struct sim_context *ctx, CUresult code);
/* A lost context starts nothing more; waits until it has also left what it was doing, so that memory can go. */
void sim_settle_lost(void);
void sim_wake_pending(void); /* the stream that this thread gave work, which sim_leave does */
void sim_wait_done(void);    /* locked: until another thread has done something that was awaited */
void sim_record_unref(struct sim_record *record);
void sim_nap(unsigned *turn); /* between two looks at something another thread or process changes */
bool sim_stopping(const struct sim_stream *stream); /* its context ends or is lost: waits give up */
CUresult sim_execute_copy(const struct sim_op_copy *copy);
CUresult sim_execute_fill(const struct sim_op_fill *fill);
CUresult sim_execute_write(const struct sim_op_word *word);
CUresult sim_execute_wait(const struct sim_stream *stream, const struct sim_op_word *word);
void sim_execute_record(const struct sim_stream *stream, const struct sim_op_event *event);
void sim_execute_await(const struct sim_stream *stream, const struct sim_op_event *event);
uint64_t sim_now_ns(void);
struct sim_stream *sim_blocking_stream(struct sim_context *ctx);
struct sim_stream *sim_stream_make(struct sim_context *ctx, unsigned flags, int priority);
void sim_stream_close(struct sim_stream *stream); /* ends when its work is done */
/* A new recording of an event, which no stream has completed. */
struct sim_event *sim_event_find(CUevent handle, CUresult *rc_out);
struct sim_record *sim_event_record_anew(struct sim_event *event);
/* Gives an external record or wait of a graph the event's state at this launch. */
CUresult sim_event_bind(struct sim_op *op);

/* ---- the rest ---- */

struct sim_graph {
    struct sim_object object;
    struct sim_op **ops;
    size_t count, room;
    struct sim_stream *origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    uint64_t capture_id;
    bool invalid, capturing;
};
CUresult sim_capture_check(void);                                  /* may an unsafe call be made by this thread now? */
CUresult sim_capture_check_context(const struct sim_context *ctx); /* may it be waited for as a whole? */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_op *op);
/* cuCtxRecordEvent, which headers before 12.5 lack: context_record.c. */
SIM_ENTRY sim_context_record(CUcontext hCtx, CUevent hEvent);
SIM_ENTRY sim_graph_dependents(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes);
CUresult sim_kernel_new(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct sim_op **op_out); /* kernel.c */
CUresult sim_kernel_change(struct sim_op *op, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
void sim_capture_invalidate(struct sim_graph *graph);
bool sim_capture_legacy_conflict(const struct sim_context *ctx, bool work);
CUresult sim_capture_record(struct sim_event *event, struct sim_stream *stream);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool *done_out);

struct sim_function {
    struct sim_object object;
    struct sim_function *next;
    const void *kernel; /* struct simk_kernel */
    struct sim_module *module;
    bool loaded;
};
CUresult sim_kernel_run(const struct sim_op *op);
void sim_spinning(int change); /* kernels and waits that run now */

CUresult sim_inject(int call);
enum simcuda_writes sim_write_mode(void);
void sim_inject_init(void);

struct sim_state {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool ready, strict, one_queue;
    struct sim_topology topology;
    uint64_t next_uid, next_buffer_id;
};
extern struct sim_state sim;

#endif
