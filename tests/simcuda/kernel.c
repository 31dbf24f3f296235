/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modules and kernels. Images are told from garbage, no more; a function is found by its name among host-compiled
 * kernels (simkernel.h), in the shared object of SIMCUDA_KERNELS or in the program. A function that is loaded by its
 * first launch while something spins is misuse: that is where lazy loading deadlocks on a device.
 */
#include "sim.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMK_ABI_ONLY
#include "simkernel.h"

struct sim_module {
    struct sim_object object;
    struct sim_function *functions;
};

static int spinning;

void sim_spinning(int change) {
    __atomic_add_fetch(&spinning, change, __ATOMIC_SEQ_CST);
}

/* ---- faults: only where misuse is answered as a driver does ---- */

static _Thread_local sigjmp_buf fault_exit;
static _Thread_local volatile bool fault_armed;
static struct sigaction segv_before, bus_before;

static void on_fault(int signal, siginfo_t *info, void *ucontext) {
    (void)info;
    (void)ucontext;
    if (fault_armed) {
        siglongjmp(fault_exit, signal);
    }
    sigaction(signal, signal == SIGSEGV ? &segv_before : &bus_before, NULL);
}

static void arm_faults(void) {
    static bool installed;
    struct sigaction action;
    pthread_mutex_lock(&sim.lock);
    if (!installed) {
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, &segv_before);
        sigaction(SIGBUS, &action, &bus_before);
        installed = true;
    }
    pthread_mutex_unlock(&sim.lock);
}

static void run_blocks(const struct sim_op *op) {
    const struct simk_kernel *kernel = op->u.kernel.function->kernel;
    const struct simk_dim3 grid = {op->u.kernel.grid[0], op->u.kernel.grid[1], op->u.kernel.grid[2]};
    const struct simk_dim3 block = {op->u.kernel.block[0], op->u.kernel.block[1], op->u.kernel.block[2]};
    struct simk_dim3 index;
    for (index.z = 0; index.z < grid.z; index.z++) {
        for (index.y = 0; index.y < grid.y; index.y++) {
            for (index.x = 0; index.x < grid.x; index.x++) {
                kernel->run_block(op->params, &grid, &block, &index);
            }
        }
    }
}

CUresult sim_kernel_run(const struct sim_op *op) {
    if (sim.strict) {
        sim_spinning(1);
        run_blocks(op);
        sim_spinning(-1);
        return CUDA_SUCCESS;
    }
    arm_faults();
    int fault = sigsetjmp(fault_exit, 1);
    if (fault != 0) {
        fault_armed = false;
        return fault == SIGBUS ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    fault_armed = true;
    run_blocks(op);
    fault_armed = false;
    return CUDA_SUCCESS;
}

/* ---- modules ---- */

/* A fat binary, its wrapper, a cubin or PTX; or the word simcuda, where there is no device compiler. */
static bool is_image(const char *image) {
    static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba}, wrapper[4] = {0xb1, 0x43, 0x62, 0x46};
    while (*image == '/' || *image == '\n' || *image == ' ') { /* a comment line before the first directive */
        image = *image == '/' && strchr(image, '\n') != NULL ? strchr(image, '\n') : image;
        image++;
    }
    return memcmp(image, fatbin, 4) == 0 || memcmp(image, wrapper, 4) == 0 || memcmp(image, "\177ELF", 4) == 0 ||
           strncmp(image, ".version", 8) == 0 || strncmp(image, "simcuda", 7) == 0;
}

static CUresult load(CUmodule *module_out, const void *image) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    if (module_out == NULL || image == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_image(image)) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    struct sim_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        sim_die("out of host memory");
    }
    sim_object_add(&module->object, SIM_MODULE);
    *module_out = (CUmodule)(uintptr_t)module->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuModuleLoadData(CUmodule *module, const void *image) {
    SIM_RUN(cuModuleLoadData, load(module, image));
}

static struct sim_module *find_module(CUmodule handle, CUresult *rc_out) {
    return sim_object_find((uint64_t)(uintptr_t)handle, SIM_MODULE, CUDA_ERROR_INVALID_HANDLE,
                           CUDA_ERROR_INVALID_HANDLE, rc_out);
}

static CUresult unload(CUmodule handle) {
    CUresult rc;
    struct sim_module *module = find_module(handle, &rc);
    if (module == NULL) {
        return rc;
    }
    struct sim_context *ctx = sim_current(&rc);
    if (ctx != NULL) {
        rc = sim_context_drain(ctx);
    }
    while (module->functions != NULL) {
        struct sim_function *function = module->functions;
        module->functions = function->next;
        sim_object_remove(&function->object);
        free(function);
    }
    sim_object_remove(&module->object);
    free(module);
    return rc;
}

SIM_ENTRY cuModuleUnload(CUmodule hmod) {
    SIM_RUN_RELEASE(cuModuleUnload, unload(hmod));
}

static const struct simk_kernel *find_kernel(const char *name) {
    static void *library;
    char symbol[256];
    const char *path = secure_getenv("SIMCUDA_KERNELS");
    if (library == NULL && path != NULL) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            sim_die("SIMCUDA_KERNELS: %s", dlerror());
        }
    }
    snprintf(symbol, sizeof symbol, "simk_%s", name);
    const struct simk_kernel *kernel = library != NULL ? dlsym(library, symbol) : NULL;
    return kernel != NULL ? kernel : dlsym(RTLD_DEFAULT, symbol);
}

static CUresult get_function(CUfunction *function_out, CUmodule handle, const char *name) {
    CUresult rc;
    struct sim_module *module = find_module(handle, &rc);
    if (module == NULL) {
        return rc;
    }
    if (function_out == NULL || name == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct simk_kernel *kernel = find_kernel(name);
    if (kernel == NULL || kernel->abi != SIMK_ABI) {
        return CUDA_ERROR_NOT_FOUND;
    }
    struct sim_function *function = calloc(1, sizeof *function);
    if (function == NULL) {
        sim_die("out of host memory");
    }
    function->kernel = kernel;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    sim_object_add(&function->object, SIM_FUNCTION);
    *function_out = (CUfunction)(uintptr_t)function->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    SIM_RUN(cuModuleGetFunction, get_function(hfunc, hmod, name));
}

static struct sim_function *find_function(CUfunction handle, CUresult *rc_out) {
    return sim_object_find((uint64_t)(uintptr_t)handle, SIM_FUNCTION, CUDA_ERROR_INVALID_HANDLE,
                           CUDA_ERROR_INVALID_HANDLE, rc_out);
}

static CUresult func_load(CUfunction handle) {
    CUresult rc;
    struct sim_function *function = find_function(handle, &rc);
    if (function != NULL) {
        function->loaded = true;
    }
    return rc;
}

SIM_ENTRY cuFuncLoad(CUfunction function) {
    SIM_RUN(cuFuncLoad, func_load(function));
}

static CUresult func_attribute(int *value_out, CUfunction_attribute which, CUfunction handle) {
    CUresult rc;
    if (find_function(handle, &rc) == NULL) {
        return rc;
    }
    if (value_out == NULL || which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value_out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
    SIM_RUN(cuFuncGetAttribute, func_attribute(pi, attrib, hfunc));
}

static CUresult func_set_attribute(CUfunction handle) {
    CUresult rc;
    (void)find_function(handle, &rc);
    return rc;
}

SIM_ENTRY cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    (void)attrib;
    (void)value;
    SIM_RUN(cuFuncSetAttribute, func_set_attribute(hfunc));
}

static CUresult occupancy(int *blocks_out, CUfunction handle, int block_size) {
    CUresult rc;
    if (find_function(handle, &rc) == NULL) {
        return rc;
    }
    if (blocks_out == NULL || block_size <= 0 || block_size > 1024) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks_out = 2048 / block_size;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                      size_t dynamicSMemSize) {
    (void)dynamicSMemSize;
    SIM_RUN(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy(numBlocks, func, blockSize));
}

/* ---- launches ---- */

static CUresult check_shape(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes) {
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0 || (i > 0 && grid[i] > 65535)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if ((uint64_t)block[0] * block[1] * block[2] > 1024 || block[2] > 64 || shared_bytes > 49152) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                       CUstream stream_handle, void **params, void **extra) {
    CUresult rc;
    struct sim_function *function = find_function(handle, &rc);
    struct sim_stream *stream = function == NULL ? NULL : sim_stream_find(stream_handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (extra != NULL) {
        sim_die("only kernelParams are simulated");
    }
    rc = check_shape(grid, block, shared_bytes);
    if (rc != CUDA_SUCCESS || params == NULL || params[0] == NULL) {
        return rc != CUDA_SUCCESS ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    const struct simk_kernel *kernel = function->kernel;
    if (!function->loaded && __atomic_load_n(&spinning, __ATOMIC_SEQ_CST) > 0) {
        (void)sim_misuse(CUDA_SUCCESS, "%s is loaded by its first launch while something spins", kernel->name);
    }
    function->loaded = true;
    struct sim_op *op = sim_op_new(SIM_OP_KERNEL, kernel->param_bytes);
    op->u.kernel.function = function;
    memcpy(op->u.kernel.grid, grid, sizeof op->u.kernel.grid);
    memcpy(op->u.kernel.block, block, sizeof op->u.kernel.block);
    memcpy(op->params, params[0], kernel->param_bytes);
    return sim_enqueue(stream, op);
}

SIM_ENTRY cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                         unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                         unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) {
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ}, block[3] = {blockDimX, blockDimY, blockDimZ};
    SIM_RUN(cuLaunchKernel, launch(f, grid, block, sharedMemBytes, hStream, kernelParams, extra));
}

CUresult sim_kernel_new(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct sim_op **op_out) {
    CUresult rc;
    struct sim_function *function = find_function(params->func, &rc);
    if (function == NULL) {
        return rc;
    }
    const struct simk_kernel *kernel = function->kernel;
    struct sim_op *op = sim_op_new(SIM_OP_KERNEL, kernel->param_bytes);
    op->u.kernel.function = function;
    rc = sim_kernel_change(op, params);
    if (rc == CUDA_SUCCESS) {
        *op_out = op;
    } else {
        sim_op_free(op);
    }
    return rc;
}

CUresult sim_kernel_change(struct sim_op *op, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    CUresult rc;
    const unsigned grid[3] = {params->gridDimX, params->gridDimY, params->gridDimZ};
    const unsigned block[3] = {params->blockDimX, params->blockDimY, params->blockDimZ};
    const struct sim_function *function = find_function(params->func, &rc);
    if (function == NULL) {
        return rc;
    }
    if (function != op->u.kernel.function || params->extra != NULL) {
        sim_die("a node keeps its kernel here, and has kernelParams");
    }
    rc = check_shape(grid, block, params->sharedMemBytes);
    if (rc != CUDA_SUCCESS || params->kernelParams == NULL || params->kernelParams[0] == NULL) {
        return rc != CUDA_SUCCESS ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(op->u.kernel.grid, grid, sizeof op->u.kernel.grid);
    memcpy(op->u.kernel.block, block, sizeof op->u.kernel.block);
    memcpy(op->params, params->kernelParams[0], op->u.kernel.bytes);
    return CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
    if (config == NULL || (config->numAttrs > 0 && config->attrs == NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN &&
            attribute->value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT &&
            attribute->value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(f, grid, block, config->sharedMemBytes, config->hStream, params, extra);
}

SIM_ENTRY cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    SIM_RUN(cuLaunchKernelEx, launch_ex(config, f, kernelParams, extra));
}
