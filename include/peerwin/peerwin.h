/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin: the ranks of an MPI job share memory, and a put is a store.
 *
 * The order of this file is the order of use: status, context, peers, windows, transfers, halo plans.
 *
 * Rules that hold for every call, and are not repeated at each:
 *  - Sizes and offsets are bytes. Outputs come last, end in _out, and are written only on success.
 *  - "Collective" means over the communicator given to peerwin_init: every rank calls, in the same order.
 *    A failure of a collective call is collective too: every rank returns the same status, everything the
 *    call did is undone on every rank, and peerwin_last_error() names the rank that failed first.
 *    Only PEERWIN_ERR_TIMEOUT, PEERWIN_ERR_PEER_LOST and PEERWIN_ERR_ABORTED may differ between ranks in the call
 *    in which they happen (one rank times out, and the others are told that it did); the next call on that object
 *    agrees.
 *  - No call waits for ever: the deadline is peerwin_config.timeout_ms, and a dead peer of the same node and PID
 *    namespace ends the wait at once. The one exception is named at peerwin_init. A wait looks into MPI now and then,
 * so that a long message on which another rank depends moves; not under MPI_THREAD_SERIALIZED, and under
 *    MPI_THREAD_FUNNELED only in the main thread.
 *  - One thread at a time per context; a second one gets PEERWIN_ERR_STATE. Two contexts are independent.
 *    peerwin_check, peerwin_abort, peerwin_strerror, peerwin_last_error and peerwin_version may be called by any
 *    thread at any time.
 *  - A process forked after peerwin_init may not use the context: every call returns PEERWIN_ERR_STATE.
 *  - The library never calls MPI_Init, MPI_Finalize, exit or abort, prints nothing to stdout, and installs no
 *    handlers. Its log goes to stderr (PEERWIN_LOG).
 *  - Environment variables override the config; `peerwin-info --env` and the README list them.
 */
#ifndef PEERWIN_PEERWIN_H
#define PEERWIN_PEERWIN_H

/* The C++ bindings that MPI-2 had are not wanted here: they only bring warnings and one more library to link. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "peerwin/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PEERWIN_API      __attribute__((visibility("default")))
#define PEERWIN_MUST_USE __attribute__((warn_unused_result))
#else
#define PEERWIN_API
#define PEERWIN_MUST_USE
#endif

/* ------------------------------------------------------------------------------------------------ status */

/**
 * Every status, as X(name, number, text), grouped by what is broken and so by what to do next:
 *   1-9    your mistake; nothing changed
 *   10-19  not to be had here; nothing changed
 *   20     nothing changed; repeat the call to go on with the same wait
 *   30-39  the object can only be destroyed
 *   40-49  a native call failed; peerwin_last_error() has its name and code
 */
#define PEERWIN_STATUS_MAP(X)                                                                                          \
    X(OK, 0, "success")                                                                                                \
    X(ERR_ARG, 1, "invalid argument")                                                                                  \
    X(ERR_RANGE, 2, "outside the segment")                                                                             \
    X(ERR_STATE, 3, "not allowed in this state")                                                                       \
    X(ERR_MISMATCH, 4, "the ranks disagree")                                                                           \
    X(ERR_UNSUPPORTED, 10, "not supported here")                                                                       \
    X(ERR_UNREACHABLE, 11, "no path to that rank")                                                                     \
    X(ERR_PERMISSION, 12, "permission denied")                                                                         \
    X(ERR_NO_MEMORY, 13, "out of memory or another resource")                                                          \
    X(ERR_TIMEOUT, 20, "the deadline passed")                                                                          \
    X(ERR_PEER_LOST, 30, "a peer process is gone")                                                                     \
    X(ERR_CONTEXT_LOST, 31, "the CUDA context is lost")                                                                \
    X(ERR_STALE, 32, "the object has been replaced")                                                                   \
    X(ERR_ABORTED, 33, "the context was aborted")                                                                      \
    X(ERR_CUDA, 40, "a CUDA call failed")                                                                              \
    X(ERR_MPI, 41, "an MPI call failed")                                                                               \
    X(ERR_SYSTEM, 42, "a system call failed")                                                                          \
    X(ERR_INTERNAL, 43, "internal error")

/** PEERWIN_OK = 0, PEERWIN_ERR_ARG = 1, ... as listed in PEERWIN_STATUS_MAP. */
typedef enum {
#define PEERWIN_STATUS_ENTRY(name, number, text) PEERWIN_##name = number,
    PEERWIN_STATUS_MAP(PEERWIN_STATUS_ENTRY)
#undef PEERWIN_STATUS_ENTRY
} peerwin_status;

/** The text of a status, "invalid argument" for example; never NULL, static storage. Any thread, any time. */
PEERWIN_API const char *peerwin_strerror(peerwin_status status);

/**
 * The last failure of a peerwin call in this thread, as a whole sentence: stage, rank, peer, call, native code,
 * and what to do. Never NULL; "" before the first failure. Valid until this thread's next call; look at it only
 * after a failure, since a call that succeeds may have overcome one and left its text here.
 */
PEERWIN_API const char *peerwin_last_error(void);

/** The version of the library, major * 10000 + minor * 100 + patch; PEERWIN_VERSION is that of the headers. */
PEERWIN_API int peerwin_version(void);

/* ----------------------------------------------------------------------------------------------- context */

typedef struct peerwin_ctx peerwin_ctx;
typedef struct peerwin_win peerwin_win;
typedef struct peerwin_halo peerwin_halo;

/**
 * A cudaStream_t or CUstream of the context's device. NULL is the legacy default stream; programs built for
 * per-thread default streams pass cudaStreamPerThread. A stream of another CUDA context is ARG. In host space every
 * stream is the same one, in program order: calls complete before they return, and waits block the caller.
 *
 * While a stream captures a CUDA graph, calls that it is given to become part of the graph, where they do not say
 * otherwise; peerwin_stream_sync is STATE. Calls without a stream are done at once and are no part of it: contexts,
 * windows and plans can be made during a capture of any mode, which stays valid even if that fails. They cannot be
 * ended, since that waits for the device: peerwin_win_free, peerwin_halo_free and peerwin_finalize are then STATE on
 * every rank, and leave alone what they were to end and the capture, if its stream is one that waits for the legacy
 * default stream, or calls of the context are part of it (of up to four captures at a time). Of another capture the
 * driver tells by making it invalid, and no sooner: that is STATE, too.
 */
typedef void *peerwin_stream;

/** Where window memory lives. AUTO: CUDA if every rank has a working device, else HOST on all ranks. */
typedef enum { PEERWIN_SPACE_AUTO = 0, PEERWIN_SPACE_HOST = 1, PEERWIN_SPACE_CUDA = 2 } peerwin_space;

/** Kinds of memory handle, bits of a mask; 0 in a mask means all. */
typedef enum {
    PEERWIN_HANDLE_HOST = 1,   /* shared host memory */
    PEERWIN_HANDLE_LEGACY = 2, /* cudaMalloc memory, CUDA IPC handle */
    PEERWIN_HANDLE_FD = 4,     /* CUDA virtual memory, POSIX file descriptor */
    PEERWIN_HANDLE_FABRIC = 8, /* CUDA virtual memory, fabric handle */
    PEERWIN_HANDLE_POOL = 16   /* CUDA memory pool */
} peerwin_handle;

/**
 * How a barrier on a CUDA stream is done. Host space has one of its own and takes AUTO only. AUTO is a kernel where no
 * two ranks share a device; on shared devices memory operations, or a kernel from three ranks on if MPS runs all ranks
 * of each device side by side (clients of one server, with thread percentages of at most 100 in all).
 */
typedef enum {
    PEERWIN_BARRIER_AUTO = 0,
    PEERWIN_BARRIER_EVENT = 1, /* interprocess events; blocks the host until all have called; one machine only. What a
                                  peer that dies had not got to stays awaited for ever: the library's waits return
                                  PEER_LOST, but the stream is stuck, and so is who waits for it in the driver */
    PEERWIN_BARRIER_MEMOP = 2, /* stream memory operations: takes no processor of the device */
    PEERWIN_BARRIER_KERNEL = 3 /* a small kernel that waits: slow where ranks take turns on a device */
} peerwin_barrier_kind;

/* peerwin_config.device */
#define PEERWIN_DEVICE_CURRENT 0         /* the caller's current CUDA context; SPREAD if there is none */
#define PEERWIN_DEVICE_SPREAD  (-1)      /* node rank modulo visible devices */
#define PEERWIN_DEVICE(n)      ((n) + 1) /* device ordinal n */

/* peerwin_config.flags */
#define PEERWIN_STRICT      1u /* a pair of ranks without a direct path is an error at init */
#define PEERWIN_NO_VERIFY   2u /* skip write-and-verify of fresh mappings */
#define PEERWIN_NO_WATCHDOG 4u /* no watchdog thread (CUDA space has one) */

/** Options of a context. All but device, devices and num_devices must be the same on every rank. */
typedef struct {
    size_t size;                  /* set by peerwin_config_init */
    peerwin_space space;          /* where windows live */
    unsigned handles;             /* mask of peerwin_handle that may be used, 0 = all */
    peerwin_barrier_kind barrier; /* CUDA streams only */
    int device;                   /* PEERWIN_DEVICE_... ; not looked at in host space */
    int timeout_ms;               /* set-up and waits: 0 = 60 s, -1 = only a dead peer ends a wait */
    unsigned flags;               /* PEERWIN_STRICT | ... */
    const int *devices;           /* further device ordinals of this rank that get access to every mapping */
    int num_devices;              /* entries in devices */
} peerwin_config;

/** Sets every option to its default. Inline, so that `size` is that of the caller's header. */
static inline void peerwin_config_init(peerwin_config *config_out) {
    const peerwin_config zero = {
        sizeof(peerwin_config), PEERWIN_SPACE_AUTO, 0u, PEERWIN_BARRIER_AUTO, 0, 0, 0u, NULL, 0};
    *config_out = zero;
}

/**
 * Makes a context over `comm`: finds out who can reach whom, and maps a control pad of every reachable rank.
 *
 * Collective over `comm`, which may be any intracommunicator of any size; peerwin works on a duplicate of its
 * own, so the caller's may be freed at once. `config` may be NULL (all defaults); the environment overrides it.
 * The caller owns the context and ends it with peerwin_finalize before MPI_Finalize.
 *
 * Deadline: MPI has no non-blocking MPI_Comm_split_type, so a rank that never comes to the communicator
 * split inside init (after the ranks have met once) can block the others beyond the deadline. A rank that dies before
 * the ranks have met is not known yet, and shows as TIMEOUT.
 *
 * Statuses, the same on every rank: ARG (comm, config; comm itself is checked locally), STATE (MPI not
 * initialized, or finalized already), MISMATCH (other library version or options on another rank; the text shows
 * both), UNSUPPORTED (an option that this build or machine lacks), UNREACHABLE (strict mode, and a pair has no
 * direct path), PERMISSION (a system call that the machine or container forbids, or PEERWIN_SOCKET_DIR is open to
 * others), NO_MEMORY, MPI, SYSTEM, INTERNAL (a mapping that does not carry what was written); TIMEOUT, PEER_LOST and
 * ABORTED (then no context is made, the communicator's duplicate is given up, and a process that wants to end should
 * call MPI_Abort).
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_init(MPI_Comm comm, const peerwin_config *config,
                                                         peerwin_ctx **ctx_out);

/**
 * Ends a context and frees all that it still holds, windows included (each forgotten one is named once in the
 * log). NULL is fine.
 *
 * Collective. If the context is broken (see peerwin_check) it is local instead, does not wait, and succeeds.
 * After MPI_Finalize it is local too, and succeeds; a note in the log says that it came late.
 *
 * Statuses: STATE (used in a forked child, or by a second thread; or, on every rank, a stream is capturing, see
 * peerwin_stream; nothing was freed), MISMATCH (another rank is in another collective call), TIMEOUT and PEER_LOST (the
 * context is broken: call again to free it).
 */
PEERWIN_API peerwin_status peerwin_finalize(peerwin_ctx *ctx);

/**
 * OK, or why the context is broken: PEER_LOST or ABORTED, with the cause in peerwin_last_error(); STATE after
 * MPI_Finalize or in a forked child. Local, does not wait, any thread. It tells what is known and does not look for
 * dead peers itself: waits and collective calls do. ARG if ctx is NULL.
 */
PEERWIN_API peerwin_status peerwin_check(peerwin_ctx *ctx);

/**
 * Breaks the context on every reachable rank and releases whoever waits in it: their calls return ABORTED.
 * Local, does not wait, any thread (a helper thread may end the wait of the main one). ARG if ctx is NULL,
 * STATE in a forked child.
 */
PEERWIN_API peerwin_status peerwin_abort(peerwin_ctx *ctx);

/** This process's rank in the context, -1 if ctx is NULL. Ranks are those of the communicator given to init. */
PEERWIN_API int peerwin_rank(const peerwin_ctx *ctx);

/** The number of ranks, 0 if ctx is NULL. */
PEERWIN_API int peerwin_size(const peerwin_ctx *ctx);

/** The space agreed at init: HOST or CUDA; AUTO if ctx is NULL. */
PEERWIN_API peerwin_space peerwin_get_space(const peerwin_ctx *ctx);

/** The ranks of my node, in context order. Borrowed until finalize; MPI_COMM_NULL if ctx is NULL. */
PEERWIN_API MPI_Comm peerwin_node_comm(const peerwin_ctx *ctx);

/** The ranks of my load/store domain (all pairs direct), in context order. Borrowed until finalize. */
PEERWIN_API MPI_Comm peerwin_direct_comm(const peerwin_ctx *ctx);

/* ------------------------------------------------------------------------------------------------- peers */

/** How operations reach a rank. NONE: they do not, and return UNREACHABLE. MPI: by messages. */
typedef enum {
    PEERWIN_PATH_NONE = 0,
    PEERWIN_PATH_SELF = 1,
    PEERWIN_PATH_DIRECT = 2,
    PEERWIN_PATH_MPI = 3
} peerwin_path;

typedef enum {
    PEERWIN_LINK_NONE = 0,
    PEERWIN_LINK_HOST = 1,
    PEERWIN_LINK_SAME_DEVICE = 2,
    PEERWIN_LINK_NVLINK = 3,
    PEERWIN_LINK_PCIE = 4,
    PEERWIN_LINK_FABRIC = 5
} peerwin_link;

/** What is known of a peer. Set `size` to sizeof(peerwin_peer) before the call; the library writes no more. */
typedef struct {
    size_t size;
    peerwin_path path;
    peerwin_link link;
    int node;           /* node number, counted from 0 in order of lowest rank */
    int native_atomics; /* 1 if ADD, fetch_add, cas and swap work on this pair */
    const char *device; /* GPU UUID as text, "" for host memory; borrowed until finalize */
    const char *reason; /* why the path is not direct, "" if it is; borrowed until finalize */
} peerwin_peer;

/** Describes the path from this rank to `rank`. Local. ARG: NULL, size 0, or rank out of range. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_peer_query(const peerwin_ctx *ctx, int rank,
                                                               peerwin_peer *peer_out);

/* ----------------------------------------------------------------------------------------------- windows */

/** Options of a window. All but neighbors and num_neighbors must be the same on every rank. */
typedef struct {
    size_t size;          /* set by peerwin_win_config_init */
    unsigned handles;     /* mask of peerwin_handle for this window, 0 = what the context allows */
    size_t reserve_bytes; /* growth limit, 0 = fixed size */
    int read_only;        /* 1: peers may get but not put (their mapping is read-only); signals still work */
    const int *neighbors; /* ranks that map me and that I map, symmetric; NULL = all ranks */
    int num_neighbors;    /* entries in neighbors */
    unsigned num_signals; /* 64-bit signal slots per rank, 0 = 64, at most 65536 */
    const char *name;     /* for messages and traces, NULL = none; copied, at most 63 characters are kept */
} peerwin_win_config;

/** Sets every option to its default. Inline, so that `size` is that of the caller's header. */
static inline void peerwin_win_config_init(peerwin_win_config *config_out) {
    const peerwin_win_config zero = {sizeof(peerwin_win_config), 0u, 0, 0, NULL, 0, 0u, NULL};
    *config_out = zero;
}

/**
 * Makes a window: each rank contributes a zeroed segment of `bytes` bytes (sizes may differ, 0 is fine), and
 * maps the segments of its neighbours. The pointer of the own segment is peerwin_win_ptr(win, own rank), aligned to
 * a page; in CUDA space it is device memory of the kind that the context has chosen.
 *
 * Collective over the context. `config` may be NULL. The caller owns the window; end it with peerwin_win_free.
 * When it returns OK every mapping of every rank is in place and was verified, and all signals are 0.
 *
 * Statuses, the same on every rank: ARG, MISMATCH (options differ, a one-sided neighbour entry, or another rank is
 * in another collective call), UNSUPPORTED, PERMISSION, NO_MEMORY (also: descriptor limit; the text says which), STATE,
 * SYSTEM, MPI, INTERNAL; TIMEOUT and PEER_LOST break the context, ABORTED says that it is broken.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_win_alloc(peerwin_ctx *ctx, size_t bytes,
                                                              const peerwin_win_config *config, peerwin_win **win_out);

/**
 * Makes a window over device memory that the caller already has, [base, base + bytes): anywhere inside cudaMalloc
 * memory, a range of virtual memory (cuMemCreate with a shareable handle type; made of one or many allocations), or an
 * allocation of a memory pool created with a shareable handle type. The memory stays the caller's, must outlive the
 * window, and is not written by the library. Its first and last bytes are compared over the ranks to verify the
 * mappings: until the call returns nothing may be writing them.
 *
 * The CUDA driver shares whole allocations: a peer could reach what lies around [base, base + bytes) in them.
 *
 * Collective over the context; every rank attaches, 0 bytes is fine. Statuses as for peerwin_win_alloc, and, on every
 * rank: UNSUPPORTED (managed memory, cudaMallocAsync memory of a pool that is not shareable, virtual memory without a
 * shareable handle type, host memory: the text names it and what to use instead), ARG (memory of a device that this
 * rank did not declare), RANGE (the range leaves its allocation). In host space it is UNSUPPORTED on every rank:
 * private host memory cannot be mapped by another process; allocate with peerwin_win_alloc instead.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_win_attach(peerwin_ctx *ctx, void *base, size_t bytes,
                                                               const peerwin_win_config *config, peerwin_win **win_out);

/**
 * Ends a window: waits for all ranks, unmaps, waits again, and releases the memory. NULL is fine (and local).
 *
 * In CUDA space it first waits for the work given to the device so far, on all streams: nobody may have a stream wait
 * that needs a later call of a peer. STATE while a stream is capturing, on any rank (see peerwin_stream). A native
 * failure on the way (CUDA, CONTEXT_LOST) is returned on every rank; the window is gone all the same.
 *
 * Collective over the context; windows may be freed in any order that is the same on all ranks. In a broken
 * context it is local, does not wait, and succeeds.
 *
 * Statuses: STATE (MPI finalized, forked child, second thread; or, on every rank, a halo plan has faces in it, or a
 * stream is capturing), MISMATCH (another rank frees another window or is in another call), TIMEOUT and PEER_LOST (the
 * context is broken: call again to free locally). After these the window still exists.
 */
PEERWIN_API peerwin_status peerwin_win_free(peerwin_win *win);

/**
 * The load/store address of `rank`'s segment in this process; NULL if its size is 0, it is not mapped here (not a
 * neighbour, no direct path), or an argument is out of range. In CUDA space it is for kernels and CUDA calls. Plain
 * stores to it need a signal, barrier or quiet to be ordered for others.
 */
PEERWIN_API void *peerwin_win_ptr(const peerwin_win *win, int rank);

/** The size of `rank`'s segment, 0 if an argument is out of range. */
PEERWIN_API size_t peerwin_win_bytes(const peerwin_win *win, int rank);

/** The kind of `rank`'s segment; PEERWIN_HANDLE_HOST in host space. */
PEERWIN_API peerwin_handle peerwin_win_handle(const peerwin_win *win, int rank);

/** How operations on this window reach `rank`; NONE if it is not a neighbour. */
PEERWIN_API peerwin_path peerwin_win_path(const peerwin_win *win, int rank);

/** A number that no other window of this job's context has or had, the same on every rank; 0 if win is NULL. */
PEERWIN_API uint64_t peerwin_win_id(const peerwin_win *win);

/** 1 for a new window; counts up with every change of its memory. The same on every rank; 0 if win is NULL. */
PEERWIN_API uint64_t peerwin_win_generation(const peerwin_win *win);

/* --------------------------------------------------------------------------------------------- transfers */

/*
 * One-sided and local: only the calling rank takes part. In stream order. `rank` may be MPI_PROC_NULL: then the
 * call checks nothing but win and succeeds without effect. Source and destination belong to the library until the
 * stream has passed (in host space: until the call returns), and must not overlap the target.
 *
 * Ordering: puts, signals and waits of one stream happen in stream order. A signal is a release of all that this
 * rank's stream did before it; a wait that returns OK is an acquire. Without signal, barrier or quiet nothing is
 * promised about when or in which order others see a put.
 *
 * Statuses common to all: ARG (NULL, rank out of range), RANGE (text: offset, bytes, size of the segment; nothing
 * was transferred), UNREACHABLE (no path, or not a neighbour), PERMISSION (put to a read-only window), STATE, and
 * the cause if the context is broken.
 */

/** Copies `bytes` bytes from `src` to `rank`'s segment at `offset`. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_put(peerwin_win *win, int rank, size_t offset, const void *src,
                                                        size_t bytes, peerwin_stream stream);

/** Copies `bytes` bytes from `rank`'s segment at `offset` to `dst`. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_get(peerwin_win *win, int rank, size_t offset, void *dst,
                                                        size_t bytes, peerwin_stream stream);

/**
 * A strided box of bytes: count[0] contiguous bytes, count[1] rows stride[0] apart, count[2] planes stride[1] apart,
 * beginning at `offset`. Counts of 1 make it flat (the stride is then not looked at); any count of 0 makes it empty.
 */
typedef struct {
    size_t offset;
    size_t count[3];
    size_t stride[2];
} peerwin_box;

/**
 * Copies the box `from` of the memory at `src` to the box `to` of `rank`'s segment. Both must have equal counts (ARG);
 * the rows of `to` must not overlap each other (ARG); those of `from` may.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_put_box(peerwin_win *win, int rank, const peerwin_box *to,
                                                            const void *src, const peerwin_box *from,
                                                            peerwin_stream stream);

/** Copies the box `from` of `rank`'s segment to the box `to` of the memory at `dst`; rules as for peerwin_put_box. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_get_box(peerwin_win *win, int rank, const peerwin_box *from,
                                                            void *dst, const peerwin_box *to, peerwin_stream stream);

/** What a signal does to its slot. A slot takes SET from one rank, or ADD from any; not both from different ranks. */
typedef enum { PEERWIN_SIGNAL_SET = 0, PEERWIN_SIGNAL_ADD = 1 } peerwin_signal_op;

/** peerwin_put, then peerwin_signal: whoever sees the signal sees the data. `bytes` may be 0. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_put_signal(peerwin_win *win, int rank, size_t offset,
                                                               const void *src, size_t bytes, unsigned slot,
                                                               peerwin_signal_op op, uint64_t value,
                                                               peerwin_stream stream);

/**
 * Sets `rank`'s signal `slot` of this window to `value`, or adds `value` to it. A release: whoever waits for it sees
 * all that this rank's stream did before. ARG: slot not below num_signals, unknown op. In CUDA space ADD is UNSUPPORTED
 * where the pair has no native atomics (see peerwin_peer) or the context's memory is of kind HOST.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_signal(peerwin_win *win, int rank, unsigned slot,
                                                           peerwin_signal_op op, uint64_t value, peerwin_stream stream);

/**
 * Waits until my own signal `slot` is at least `value`, compared cyclically ((int64_t)(slot - value) >= 0), so that
 * counters may wrap. An acquire. Local; blocks in host space.
 *
 * TIMEOUT: nothing changed, the text names ranks that are stopped, if any; call again to go on waiting.
 * PEER_LOST: a rank of this node is gone and the signal has not come.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_wait(peerwin_win *win, unsigned slot, uint64_t value,
                                                         peerwin_stream stream);

/** Waits until my own signal `slot` is at least `count`, then subtracts `count`. For use with ADD. Else as
 * peerwin_wait. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_consume(peerwin_win *win, unsigned slot, uint64_t count,
                                                            peerwin_stream stream);

/** Reads my own signal `slot`, on the host, at once. An acquire. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_signal_read(peerwin_win *win, unsigned slot, uint64_t *value_out);

/**
 * Returns (in stream order) when this stream's earlier puts have arrived at their targets: a later message by any
 * other means, an MPI send for example, may tell the target to read them. Local.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_quiet(peerwin_ctx *ctx, peerwin_stream stream);

/**
 * Everyone's earlier work and puts before anyone's later work. Collective; blocks in host space.
 *
 * TIMEOUT: the text names the ranks that have not arrived; nothing changed, and the call may be repeated (by this
 * rank alone) to go on with the same barrier. STATE: an all-reduce that timed out must be repeated first. A rank in
 * another collective call meanwhile shows as TIMEOUT.
 *
 * In CUDA space the stream waits and the host does not: what is said of TIMEOUT here is then peerwin_stream_sync's,
 * except for barriers of kind EVENT. UNREACHABLE if some pair has no direct path.
 *
 * Barriers and all-reduces of a context are one sequence, whatever streams they are on: the library makes a stream wait
 * for the last one on another. A barrier may be captured (STATE for kind EVENT) and the graph launched any number of
 * times. What is captured is a sequence of its own: a barrier captured on one rank is captured on all, and graphs that
 * hold barriers or all-reduces are launched in the same order on all ranks, one at a time on each.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_barrier(peerwin_ctx *ctx, peerwin_stream stream);

typedef enum { PEERWIN_DOUBLE = 0, PEERWIN_FLOAT = 1, PEERWIN_INT64 = 2 } peerwin_type;
typedef enum { PEERWIN_SUM = 0, PEERWIN_MIN = 1, PEERWIN_MAX = 2 } peerwin_op;

/**
 * Combines `count` (1..64) values of every rank, element by element, in place. In rank order, so the result has
 * the same bits on every rank and in every run. MIN and MAX return a NaN if any value is one; INT64 sums wrap.
 *
 * Collective: type, op and count must be the same on every rank (MISMATCH on every rank otherwise; ARG on every rank if
 * one rank's are invalid). Orders like a barrier. TIMEOUT: as for peerwin_barrier; a repeated call goes on with the
 * values given first. STATE: it was repeated with other arguments, or a barrier that timed out must be repeated first.
 *
 * In CUDA space `values` is memory that kernels of the device can use (device memory, or page-locked host memory; ARG
 * otherwise), aligned to a value, and belongs to the stream until it has passed. A rank whose own arguments are invalid
 * hears of that alone, and has not come. Ranks whose arguments differ find out on their streams: that breaks the
 * context, and peerwin_stream_sync, peerwin_check and all later calls return MISMATCH on every rank. It may be
 * captured, as a barrier may. UNREACHABLE if some pair has no direct path.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_allreduce(peerwin_ctx *ctx, void *values, int count,
                                                              peerwin_type type, peerwin_op op, peerwin_stream stream);

/**
 * Waits on the host until all work given to `stream` is done, with deadline and dead-peer check. Results of stream
 * work count only after this (or peerwin_check) returned OK. In host space it only checks the context.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_stream_sync(peerwin_ctx *ctx, peerwin_stream stream);

/* ------------------------------------------------------------------------------------------- halo plans */

/*
 * A plan is an exchange of ghosts, settled once: which boxes of my segments go to which ranks, and which boxes of my
 * segments theirs come into. Each step is start, finish, and, when the ghosts have been read, release or the next
 * start:
 *
 *     peerwin_halo_start(halo, stream);     my faces go out, to each neighbour that has read what I sent it last
 *     ... work on the inside ...
 *     peerwin_halo_finish(halo, stream);    my ghosts are here
 *     ... work that reads ghosts ...
 *     peerwin_halo_release(halo, stream);   optional: my neighbours need not wait for my next start
 *
 * Between my start or release and the return of my finish (in stream order) ghosts may change at any time; outside
 * they stay as they are. Faces are read by start, and may be changed once it has returned (in stream order). No ghost
 * is overwritten before the rank's first start or release.
 *
 * Plans of a context are started in the same order on all ranks, in CUDA space those of a stream, unless their ghosts
 * were released before; then they never wait for each other.
 */

#define PEERWIN_HALO_CORNERS       1u /* peerwin_halo_create_cart: edges and corners too */
#define PEERWIN_HALO_FASTEST_FIRST 2u /* the same: dimension 0 varies fastest, as in Fortran */
#define PEERWIN_HALO_SHARED        4u /* overlaps another plan; the caller separates them by barriers */

/** One face of an exchange: a box in my own segment of `win` that goes to, or comes from, `peer`. */
typedef struct {
    int peer;         /* rank in the context; my own is fine; MPI_PROC_NULL: this face is not there */
    int tag;          /* pairs it with the face of `peer` that has the same tag */
    peerwin_win *win; /* any window of the context */
    peerwin_box box;
} peerwin_face;

/**
 * Makes a plan of `num_send` faces to send and `num_recv` faces to receive (0 and NULL are fine).
 *
 * A face that rank a sends to rank b with tag t pairs with the one that b receives from a with tag t; a tag stands
 * once for each peer and direction. Both have the same number of bytes, 0 is fine; these are taken in lexicographic
 * order of each box, which may differ in shape and lie in different windows. Receive boxes must not overlap one
 * another, nor send boxes of the same plan. `flags` is 0 or PEERWIN_HALO_SHARED.
 *
 * Collective over the context. The arrays may be freed afterwards. The windows cannot be freed before the plan. The
 * caller owns the plan; end it with peerwin_halo_free.
 *
 * Statuses, the same on every rank: ARG (NULL, a peer out of range, a window of another context, rows of a receive box
 * that overlap, a send box that overlaps a receive box, unknown flags), RANGE (a box leaves its segment, or has more
 * bytes than can be addressed), MISMATCH (no partner, sizes differ, a tag stands twice, receive boxes overlap: the text
 * has both ranks, the tag and the sizes; or another rank is in another collective call), STATE (a receive box overlaps
 * one of a plan that is alive, without PEERWIN_HALO_SHARED for the new one), UNREACHABLE (no direct path, or not a
 * neighbour of the receiver's window), PERMISSION (the receiver's window is read-only), NO_MEMORY, SYSTEM, MPI, CUDA,
 * INTERNAL; TIMEOUT and PEER_LOST break the context, ABORTED says that it is broken.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_halo_create(peerwin_ctx *ctx, int num_send,
                                                                const peerwin_face *send, int num_recv,
                                                                const peerwin_face *recv, unsigned flags,
                                                                peerwin_halo **halo_out);

/**
 * Makes the plan of a block of a Cartesian grid of 1, 2 or 3 dimensions, whose array begins at the first byte of my
 * segment of `win`.
 *
 * `cart` is a communicator of MPI_Cart_create whose ranks are all in the context; a rank that is not in it passes
 * MPI_COMM_NULL (and has no faces). For each of its dimensions `extent` is the array's extent in elements of
 * `elem_bytes` bytes, ghosts at both ends included, and `depth` the width of the ghosts. The last dimension varies
 * fastest, with PEERWIN_HALO_FASTEST_FIRST the first one. Ghosts at walls are left alone; periodic dimensions of one
 * or two blocks are fine. Ghosts at edges and corners are left alone too, unless PEERWIN_HALO_CORNERS asks for them.
 *
 * Collective over the context. Rules and statuses as for peerwin_halo_create, and ARG: `cart` is not Cartesian, has
 * another number of dimensions, or a rank outside the context; elem_bytes is 0; the inside is smaller than the ghosts.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_halo_create_cart(peerwin_win *win, MPI_Comm cart, size_t elem_bytes,
                                                                     const size_t extent[], const size_t depth[],
                                                                     unsigned flags, peerwin_halo **halo_out);

/**
 * Begins an exchange: lets my neighbours overwrite my ghosts, unless peerwin_halo_release did, and pushes each of my
 * faces as soon as its receiver allows it. Not collective: it waits for no rank but those that get faces from me. In
 * host space it blocks until they are pushed; in CUDA space the stream does, and, unless I released my ghosts before,
 * it may wait for my neighbours' starts too, so that small faces need no step of their own in finish.
 *
 * While the stream captures, start and finish become part of the graph, on all ranks alike; a graph holds whole
 * exchanges, may run again and again, and must not be launched between a release and the next start outside of it.
 * UNSUPPORTED then: release. A finish that follows its start at once may become one operation with it: what an event
 * that was recorded between both lets begin, captured after the finish, then begins after both.
 *
 * TIMEOUT: the text names the ranks that have not released their ghosts; call again to go on, and nothing else on this
 * plan before. PEER_LOST, ABORTED: the context is broken. STATE: the exchange before is not finished. ARG: halo is
 * NULL, or the stream is none of the context's.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_halo_start(peerwin_halo *halo, peerwin_stream stream);

/**
 * Ends an exchange: waits for all faces that I receive. An acquire: my ghosts are those of my neighbours' start.
 *
 * TIMEOUT: the text names the ranks whose faces have not come; call again to go on. STATE: no exchange was started.
 * Else as peerwin_halo_start.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_halo_finish(peerwin_halo *halo, peerwin_stream stream);

/**
 * Tells my neighbours that I have read my ghosts: they may push the faces of the next exchange before I start it. A
 * second call before the next start does nothing. Local, does not wait. Also before the first start. STATE: between
 * start and finish. Else as peerwin_halo_start.
 */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_halo_release(peerwin_halo *halo, peerwin_stream stream);

/**
 * Ends a plan, also one that was started and not finished. NULL is fine (and local).
 *
 * Collective over the context. In a broken context it is local, does not wait, and succeeds. Statuses as for
 * peerwin_win_free.
 */
PEERWIN_API peerwin_status peerwin_halo_free(peerwin_halo *halo);

#ifdef __cplusplus
}
#endif

#endif
