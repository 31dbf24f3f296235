/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The way in: initialisation, the table of entry points, and what happens around every call.
 */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_state sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .strict = true};

static _Thread_local int current_call = -1;
static _Thread_local bool entered; /* with the lock: not in a forked child */

/* The symbol of forms that exist and are not simulated. */
static CUresult CUDAAPI stale(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static const struct entry {
    const char *name;
    int version;
    void (*function)(void);
    unsigned flags;
    const char *symbol;
} entries[] = {
#define ENTRY_ROW(name, version, symbol, flags) {name, version, (void (*)(void))symbol, flags, #symbol},
    SIM_CALLS(ENTRY_ROW)
#undef ENTRY_ROW
};

int sim_find_call(const char *symbol) {
    for (int i = 0; i < SIM_NUM_CALLS; i++) {
        if (strcmp(entries[i].symbol, symbol) == 0) {
            return i;
        }
    }
    return -1;
}

const char *sim_call_name(int call) {
    return call >= 0 && call < SIM_NUM_CALLS ? entries[call].name : "?";
}

const char *sim_call_symbol(int call) {
    return entries[call].symbol;
}

unsigned sim_call_flags(int call) {
    return entries[call].flags;
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args) {
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "simcuda[%d]: %s: %s\n", (int)getpid(), current_call >= 0 ? sim_call_name(current_call) : "stream",
            text);
    fflush(stderr);
}

void sim_die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    abort();
}

CUresult sim_misuse(CUresult lenient, const char *format, ...) {
    if (sim.strict) {
        va_list args;
        va_start(args, format);
        say(format, args);
        va_end(args);
        abort();
    }
    return lenient;
}

void sim_crash(const char *format, ...) {
    va_list args;
    if (sim.strict) {
        va_start(args, format);
        say(format, args);
        va_end(args);
        abort();
    }
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    abort();
}

/* Asking for the process's number in each call would cost as much as the rest of it. */
static bool in_child;

static void note_child(void) {
    in_child = true;
}

bool sim_usable(void) {
    return sim.ready && !in_child;
}

/* In a forked child the lock may be held by a thread that is not there. */
static bool forked(void) {
    bool child = sim.ready && in_child;
    if (child && sim.strict) {
        current_call = -1;
        sim_die("called in a forked child");
    }
    return child;
}

CUresult sim_enter(const char *symbol, int *known) {
    int call = __atomic_load_n(known, __ATOMIC_RELAXED) - 1;
    if (call < 0) {
        call = sim_find_call(symbol);
        __atomic_store_n(known, call + 1, __ATOMIC_RELAXED);
    }
    bool child = forked();
    if (sim_on_stream_thread()) {
        sim_die("%s called from a host function", symbol);
    }
    entered = !child;
    if (child) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&sim.lock);
    current_call = call;
    if (!sim.ready && !(entries[call].flags & CALL_EARLY)) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    CUresult rc = sim_inject(call);
    if (entries[call].flags & CALL_RELEASE) {
        sim_settle_lost();
    }
    if (rc == CUDA_SUCCESS && (entries[call].flags & CALL_UNSAFE)) {
        rc = sim_capture_check();
    }
    return rc;
}

CUresult sim_leave(CUresult rc) {
    if (entered) {
        current_call = -1;
        pthread_mutex_unlock(&sim.lock);
        sim_wake_pending();
    }
    return rc;
}

static CUresult initialise(unsigned flags) {
    const char *error = NULL;
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim.ready) {
        return CUDA_SUCCESS;
    }
    sim.strict = sim_env_on("SIMCUDA_STRICT", true);
    sim.one_queue = sim_env_on("SIMCUDA_ONE_QUEUE", false);
    if (!sim_topology_read(&sim.topology, &error)) {
        sim_die("%s", error);
    }
    sim_inject_init();
    if (sim.topology.visible_count == 0 || sim_env_on("SIMCUDA_NO_DEVICE", false)) {
        return CUDA_ERROR_NO_DEVICE;
    }
    sim_protection_init();
    if (pthread_atfork(NULL, NULL, note_child) != 0) {
        sim_die("cannot note forks");
    }
    sim.ready = true;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuInit(unsigned int Flags) {
    SIM_RUN(cuInit, initialise(Flags));
}

static CUresult version(int *version_out) {
    if (version_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version_out = (int)sim_env_long("SIMCUDA_DRIVER_VERSION", 13000);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDriverGetVersion(int *driverVersion) {
    SIM_RUN(cuDriverGetVersion, version(driverVersion));
}

#define NAME(name)                                                                                                     \
    { CUDA_##name, "CUDA_" #name }

static const struct {
    CUresult code;
    const char *name;
} error_names[] = {NAME(SUCCESS),
                   NAME(ERROR_INVALID_VALUE),
                   NAME(ERROR_OUT_OF_MEMORY),
                   NAME(ERROR_NOT_INITIALIZED),
                   NAME(ERROR_DEINITIALIZED),
                   NAME(ERROR_NO_DEVICE),
                   NAME(ERROR_INVALID_DEVICE),
                   NAME(ERROR_DEVICE_UNAVAILABLE),
                   NAME(ERROR_INVALID_IMAGE),
                   NAME(ERROR_INVALID_CONTEXT),
                   NAME(ERROR_MAP_FAILED),
                   NAME(ERROR_UNMAP_FAILED),
                   NAME(ERROR_ALREADY_MAPPED),
                   NAME(ERROR_NO_BINARY_FOR_GPU),
                   NAME(ERROR_PEER_ACCESS_UNSUPPORTED),
                   NAME(ERROR_INVALID_PTX),
                   NAME(ERROR_INVALID_SOURCE),
                   NAME(ERROR_SHARED_OBJECT_INIT_FAILED),
                   NAME(ERROR_OPERATING_SYSTEM),
                   NAME(ERROR_INVALID_HANDLE),
                   NAME(ERROR_ILLEGAL_STATE),
                   NAME(ERROR_NOT_FOUND),
                   NAME(ERROR_NOT_READY),
                   NAME(ERROR_ILLEGAL_ADDRESS),
                   NAME(ERROR_LAUNCH_OUT_OF_RESOURCES),
                   NAME(ERROR_LAUNCH_TIMEOUT),
                   NAME(ERROR_PEER_ACCESS_ALREADY_ENABLED),
                   NAME(ERROR_PEER_ACCESS_NOT_ENABLED),
                   NAME(ERROR_PRIMARY_CONTEXT_ACTIVE),
                   NAME(ERROR_CONTEXT_IS_DESTROYED),
                   NAME(ERROR_TOO_MANY_PEERS),
                   NAME(ERROR_HOST_MEMORY_ALREADY_REGISTERED),
                   NAME(ERROR_HOST_MEMORY_NOT_REGISTERED),
                   NAME(ERROR_HARDWARE_STACK_ERROR),
                   NAME(ERROR_ILLEGAL_INSTRUCTION),
                   NAME(ERROR_MISALIGNED_ADDRESS),
                   NAME(ERROR_INVALID_ADDRESS_SPACE),
                   NAME(ERROR_INVALID_PC),
                   NAME(ERROR_LAUNCH_FAILED),
                   NAME(ERROR_NOT_PERMITTED),
                   NAME(ERROR_NOT_SUPPORTED),
                   NAME(ERROR_SYSTEM_NOT_READY),
                   NAME(ERROR_SYSTEM_DRIVER_MISMATCH),
                   NAME(ERROR_MPS_CONNECTION_FAILED),
                   NAME(ERROR_STREAM_CAPTURE_UNSUPPORTED),
                   NAME(ERROR_STREAM_CAPTURE_INVALIDATED),
                   NAME(ERROR_STREAM_CAPTURE_MERGE),
                   NAME(ERROR_STREAM_CAPTURE_UNMATCHED),
                   NAME(ERROR_STREAM_CAPTURE_UNJOINED),
                   NAME(ERROR_STREAM_CAPTURE_ISOLATION),
                   NAME(ERROR_STREAM_CAPTURE_IMPLICIT),
                   NAME(ERROR_CAPTURED_EVENT),
                   NAME(ERROR_STREAM_CAPTURE_WRONG_THREAD),
                   NAME(ERROR_TIMEOUT),
                   NAME(ERROR_EXTERNAL_DEVICE),
                   NAME(ERROR_UNKNOWN)};

static const char *error_name(CUresult error) {
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++) {
        if (error_names[i].code == error) {
            return error_names[i].name;
        }
    }
    return NULL;
}

SIM_ENTRY cuGetErrorName(CUresult error, const char **pStr) {
    if (pStr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pStr = error_name(error);
    return *pStr != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY cuGetErrorString(CUresult error, const char **pStr) {
    static const char *const texts[] = {"no error", "simulated driver error"};
    if (pStr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pStr = error_name(error) == NULL ? NULL : texts[error != CUDA_SUCCESS];
    return *pStr != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The newest form not above `version`; known_out says that the name exists in some form. */
static const struct entry *best_entry(const char *name, int version, bool *known_out) {
    const struct entry *best = NULL;
    int driver = (int)sim_env_long("SIMCUDA_DRIVER_VERSION", 13000);
    *known_out = false;
    for (int i = 0; i < SIM_NUM_CALLS; i++) {
        if (strcmp(entries[i].name, name) != 0 || entries[i].version > driver) {
            continue;
        }
        *known_out = true;
        if (entries[i].version <= version && (best == NULL || entries[i].version > best->version)) {
            best = &entries[i];
        }
    }
    return best;
}

static void answer(void **pfn, const struct entry *found, CUdriverProcAddressQueryResult *status,
                   CUdriverProcAddressQueryResult value) {
    *pfn = NULL;
    if (found != NULL) {
        memcpy(pfn, &found->function, sizeof *pfn);
    }
    if (status != NULL) {
        *status = value;
    }
}

static CUresult look_up(const char *symbol, void **pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    bool known;
    if (symbol == NULL || pfn == NULL || (flags & ~(cuuint64_t)3) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (version > (int)sim_env_long("SIMCUDA_DRIVER_VERSION", 13000)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool strict = sim_env_on("SIMCUDA_STRICT", true); /* asked before cuInit, too */
    if (flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM && strict) {
        sim_die("%s asked for without the legacy-stream flag", symbol);
    }
    const struct entry *found = best_entry(symbol, version, &known);
    if (found == NULL) {
        answer(pfn, NULL, status,
               known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        return CUDA_SUCCESS;
    }
    if (found->function == (void (*)(void))stale && strict) {
        sim_die("%s asked for with version %d: that form is not simulated", symbol, version);
    }
    answer(pfn, found, status, CU_GET_PROC_ADDRESS_SUCCESS);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *symbolStatus) {
    SIM_RUN(cuGetProcAddress_v2, look_up(symbol, pfn, cudaVersion, flags, symbolStatus));
}
