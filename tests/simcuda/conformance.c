/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks a CUDA driver what it does where documents are vague, and prints one fact a line. The same program runs on a
 * real driver and on the simulated one; a difference in output is an error of the simulator. Each section has a process
 * of its own (two where memory is shared), started by fork and exec before any driver call, and a time limit, so that
 * one section that crashes or hangs costs the others nothing.
 *
 *   conformance [-l library] [section...]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

enum { SECTION_SECONDS = 40 };

struct conformance_driver cu;
static const char *section_name = "";
static const char *library = "libcuda.so.1";
static pid_t peer_pid;

/* ---- printing ---- */

void fact(const char *name, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("%s.%s: %s\n", section_name, name, line);
    fflush(stdout);
}

CUresult result(const char *name, CUresult rc) {
    const char *text = NULL;
    if (cu.GetErrorName(rc, &text) != CUDA_SUCCESS || text == NULL) {
        fact(name, "code %d", (int)rc);
    } else {
        fact(name, "%s", text);
    }
    return rc;
}

/* ---- the other process ---- */

void kill_peer(void) {
    kill(peer_pid, SIGKILL);
    waitpid(peer_pid, NULL, 0);
    peer_pid = 0;
}

/* ---- the driver ---- */

static void load_driver(void) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "conformance: %s\n", dlerror());
        exit(4);
    }
    void *get = dlsym(handle, "cuGetProcAddress_v2");
    if (get == NULL) {
        fprintf(stderr, "conformance: %s has no cuGetProcAddress_v2\n", library);
        exit(4);
    }
    memcpy(&cu.GetProcAddress, &get, sizeof get);
#define CONFORMANCE_LOAD(name, version)                                                                                \
    {                                                                                                                  \
        void *entry = NULL;                                                                                            \
        CUresult rc = cu.GetProcAddress("cu" #name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL);         \
        if (rc != CUDA_SUCCESS || entry == NULL) {                                                                     \
            fprintf(stderr, "conformance: no cu" #name " (%d)\n", (int)rc);                                            \
        }                                                                                                              \
        memcpy(&cu.name, &entry, sizeof entry);                                                                        \
    }
    CONFORMANCE_CALLS(CONFORMANCE_LOAD)
#undef CONFORMANCE_LOAD
}

CUcontext start_device(void) {
    CUcontext ctx = NULL;
    CUresult rc = cu.Init(0);
    if (rc == CUDA_SUCCESS) {
        rc = cu.DevicePrimaryCtxRetain(&ctx, 0);
    }
    if (rc == CUDA_SUCCESS) {
        rc = cu.CtxSetCurrent(ctx);
    }
    if (rc != CUDA_SUCCESS) {
        result("start", rc);
        exit(5);
    }
    return ctx;
}

/* ---- shared helpers ---- */

static long long attribute(CUpointer_attribute which, CUdeviceptr ptr, CUresult *rc_out) {
    unsigned long long value = 0; /* wide enough for every attribute asked for here */
    *rc_out = cu.PointerGetAttribute(&value, which, ptr);
    return (long long)value;
}

void pointer_facts(const char *name, CUdeviceptr ptr, CUcontext ctx) {
    static const struct {
        const char *name;
        CUpointer_attribute which;
        enum { VALUE, SAME_CONTEXT, NON_ZERO, RELATIVE } form;
    } asked[] = {{"ctx", CU_POINTER_ATTRIBUTE_CONTEXT, SAME_CONTEXT},
                 {"type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, VALUE},
                 {"device_ptr", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, RELATIVE},
                 {"host_ptr", CU_POINTER_ATTRIBUTE_HOST_POINTER, RELATIVE},
                 {"id", CU_POINTER_ATTRIBUTE_BUFFER_ID, NON_ZERO},
                 {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, VALUE},
                 {"device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, VALUE},
                 {"legacy", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, VALUE},
                 {"start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, RELATIVE},
                 {"size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, VALUE},
                 {"mapped", CU_POINTER_ATTRIBUTE_MAPPED, VALUE},
                 {"handles", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, VALUE},
                 {"pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, NON_ZERO},
                 {"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, VALUE}};
    char line[900] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        CUresult rc;
        long long value = attribute(asked[i].which, ptr, &rc);
        if (asked[i].form == SAME_CONTEXT) {
            value = (uintptr_t)value == (uintptr_t)ctx;
        } else if (asked[i].form == NON_ZERO) {
            value = value != 0;
        } else if (asked[i].form == RELATIVE && value != 0) {
            value -= (long long)ptr;
        }
        int n = rc != CUDA_SUCCESS ? snprintf(line + used, sizeof line - used, " %s=error%d", asked[i].name, (int)rc)
                                   : snprintf(line + used, sizeof line - used, " %s=%lld", asked[i].name, value);
        used += (size_t)n;
    }
    fact(name, "%s", line + 1);
}

void range_fact(const char *name, CUdeviceptr ptr) {
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult rc = cu.MemGetAddressRange(&base, &size, ptr);
    fact(name, "rc %d offset %lld size %zu", (int)rc, rc == CUDA_SUCCESS ? (long long)(ptr - base) : -1LL,
         rc == CUDA_SUCCESS ? size : 0);
}

CUmemAllocationProp vmm_prop(unsigned handle_types) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
    return prop;
}

CUresult vmm_map(struct vmm *vmm, CUmemAccess_flags flags) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = flags;
    CUresult rc = cu.MemAddressReserve(&vmm->ptr, vmm->bytes, 0, 0, 0);
    if (rc == CUDA_SUCCESS) {
        rc = cu.MemMap(vmm->ptr, vmm->bytes, 0, vmm->handle, 0);
    }
    if (rc == CUDA_SUCCESS && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        rc = cu.MemSetAccess(vmm->ptr, vmm->bytes, &access, 1);
    }
    return rc;
}

struct vmm vmm_make(size_t bytes, unsigned handle_types) {
    struct vmm vmm = {0, 0, bytes};
    CUmemAllocationProp prop = vmm_prop(handle_types);
    CUresult rc = cu.MemCreate(&vmm.handle, bytes, &prop, 0);
    if (rc == CUDA_SUCCESS) {
        rc = vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    if (rc != CUDA_SUCCESS) {
        result("vmm_make", rc);
        exit(6);
    }
    return vmm;
}

void vmm_drop(struct vmm *vmm) {
    CUresult rc = cu.MemUnmap(vmm->ptr, vmm->bytes);
    if (rc == CUDA_SUCCESS) {
        rc = cu.MemAddressFree(vmm->ptr, vmm->bytes);
    }
    if (rc == CUDA_SUCCESS && vmm->handle != 0) {
        rc = cu.MemRelease(vmm->handle);
    }
    result("drop", rc);
}

uint32_t peek(CUdeviceptr ptr) {
    uint32_t value = 0xbad0bad0;
    CUresult rc = cu.MemcpyDtoH(&value, ptr, sizeof value);
    return rc == CUDA_SUCCESS ? value : (uint32_t)rc;
}

CUresult poke(CUdeviceptr ptr, uint32_t value) {
    CUresult rc = cu.MemcpyHtoD(ptr, &value, sizeof value);
    /* The copy of pageable memory returns when the driver has it, not when the device has it. */
    return rc == CUDA_SUCCESS ? cu.StreamSynchronize(CU_STREAM_LEGACY) : rc;
}

/* ---- running sections ---- */

static const struct section *const all_sections[] = {device_sections, memory_sections, vmm_sections,
                                                     ipc_sections,    stream_sections, capture_sections,
                                                     fault_sections,  mode_sections,   making_sections};

static const struct section *find_section(const char *name) {
    for (size_t i = 0; i < sizeof all_sections / sizeof all_sections[0]; i++) {
        for (const struct section *s = all_sections[i]; s->name != NULL; s++) {
            if (strcmp(s->name, name) == 0) {
                return s;
            }
        }
    }
    return NULL;
}

/* Starts this program again for one role of a section; LINK_FD there is `link`. */
static pid_t start_role(const char *name, int role, int link) {
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    if (link >= 0 && link != LINK_FD) {
        dup2(link, LINK_FD);
    }
    char role_text[2] = {(char)('0' + role), 0};
    execl("/proc/self/exe", "conformance", "-l", library, "--role", role_text, name, (char *)NULL);
    _exit(127);
}

/* Role 0 starts role 1 itself, before its first driver call, so that it may kill it. */
static int run_role(const struct section *section, int role) {
    section_name = section->name;
    alarm(SECTION_SECONDS);
    if (section->processes == 2 && role == 0) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
            return 1;
        }
        peer_pid = start_role(section->name, 1, pair[1]);
        close(pair[1]);
        if (pair[0] != LINK_FD) {
            dup2(pair[0], LINK_FD);
            close(pair[0]);
        }
    }
    load_driver();
    section->run(role);
    if (peer_pid != 0) {
        waitpid(peer_pid, NULL, 0);
    }
    return 0;
}

static int run_section(const struct section *section) {
    fflush(stdout);
    int status = 0;
    pid_t pid = start_role(section->name, 0, -1);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        printf("%s.end: not started\n", section->name);
    } else if (WIFSIGNALED(status)) {
        printf("%s.end: signal %d\n", section->name, WTERMSIG(status));
    } else {
        printf("%s.end: exit %d\n", section->name, WEXITSTATUS(status));
    }
    return status != 0;
}

int main(int argc, char **argv) {
    int role = -1, failed = 0, first = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (first + 1 < argc && argv[first][0] == '-') {
        if (strcmp(argv[first], "-l") == 0) {
            library = argv[first + 1];
        } else {
            role = atoi(argv[first + 1]);
        }
        first += 2;
    }
    if (role >= 0) {
        const struct section *section = first < argc ? find_section(argv[first]) : NULL;
        return section != NULL ? run_role(section, role) : 2;
    }
    for (size_t i = 0; i < sizeof all_sections / sizeof all_sections[0]; i++) {
        for (const struct section *s = all_sections[i]; s->name != NULL; s++) {
            int wanted = first == argc;
            for (int a = first; a < argc; a++) {
                wanted |= strcmp(argv[a], s->name) == 0;
            }
            failed |= wanted && run_section(s);
        }
    }
    return failed;
}
