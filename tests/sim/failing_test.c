/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every call of the driver fails in turn, in everything that one side does with its memory: an error comes back, with
 * a text; nothing is left; and the same thing works afterwards. A sweep ends by itself, with the first run in which the
 * call that was to fail was not reached.
 */
#include "apart.h"

#include "base/fd.h"
#include "memory/gpu_cuda.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { NUM_CODES = 2 };
static const int codes[NUM_CODES] = {CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE};

/* Calls made until a device was open; what fails later fails in its end, which reports nothing. */
static unsigned long opened;

#define COUNT_CALL(name, version, type) +1
enum { NUM_OPTIONAL = 0 PW_DRIVER_OPTIONAL_CALLS(COUNT_CALL) };

/* Failures that passed. */
static int lookups, attributes;

/* Where the n-th call of a name was among all calls of the run. */
static unsigned long position(const char *name, unsigned long n) {
    for (unsigned long at = 1;; at++) {
        const char *call = sim.call_name(at);
        CHECK(call != NULL);
        if (strcmp(call, name) == 0 && --n == 0)
            return at;
    }
}

/* Calls whose failure harms nothing that was asked for. */
static int may_pass(const char *call, unsigned long at, int code) {
    const char *next = sim.call_name(at + 1);
    if (opened > 0 && at > opened)
        return 1;
    if (strcmp(call, "cuGetProcAddress") == 0)
        return ++lookups <= NUM_OPTIONAL; /* of calls that drivers may lack */
    if (strcmp(call, "cuDeviceGetAttribute") == 0)
        return ++attributes == 1; /* whether there is MPS, which they may not tell */
    if (strcmp(call, "cuMemPoolDestroy") == 0)
        return code == CUDA_ERROR_INVALID_VALUE; /* it says that others use the pool */
    if (strcmp(call, "cuStreamQuery") == 0)
        return next && strcmp(next, "cuStreamQuery") == 0; /* repeated at once before memory goes */
    return strcmp(call, "cuCtxPopCurrent") == 0 || strcmp(call, "cuThreadExchangeStreamCaptureMode") == 0 ||
           strcmp(call, "cuMemGetAllocationGranularity") == 0;
}

/* The text names the call, or what its failure means: the look-up of a call, or an address of another kind. */
static int tells(const char *call) {
    const char *text = peerwin_last_error();
    return strstr(text, call) || strstr(text, "the CUDA driver has no cu") || strstr(text, "leave the caller's") ||
           strstr(text, "another process");
}

/* Runs `act` with the n-th call of that name failing; 0 if there was none. */
static int fail_once(const char *what, peerwin_status (*act)(void *), void *data, const char *name, unsigned long n,
                     int code) {
    apart_snapshot before = snapshot();
    opened = 0;
    sim.reset();
    sim.fail(name, n, code, 0);
    peerwin_status status = act(data);
    if (sim.injected() == 0) {
        CHECK_STATUS(status, PEERWIN_OK);
        return 0;
    }
    if (status == PEERWIN_OK && !may_pass(name, position(name, n), code))
        apart_fail(__FILE__, __LINE__, "%s: nobody noticed that %s failed", what, name);
    if (status != PEERWIN_OK && !tells(name))
        apart_fail(__FILE__, __LINE__, "%s: %s failed, and the text is about another matter", what, name);
    check_snapshot(&before, name);
    sim.reset();
    OK(act(data)); /* without a failure it works */
    check_snapshot(&before, what);
    return 1;
}

enum { MOST_NAMES = 100, MOST_LOOKS = 4 };

/* The names of the calls that `act` makes. */
static int names_of(peerwin_status (*act)(void *), void *data, const char *names[MOST_NAMES]) {
    int count = 0;
    sim.reset();
    OK(act(data));
    for (unsigned long at = 1; sim.call_name(at); at++) {
        int known = 0;
        for (int i = 0; i < count; i++)
            known |= strcmp(names[i], sim.call_name(at)) == 0;
        CHECK(count < MOST_NAMES);
        if (!known)
            names[count++] = sim.call_name(at);
    }
    return count;
}

/*
 * Runs `act` with each of its calls failing in turn, with the first of the codes. It gives everything back itself,
 * whatever it returns. How often the stream is looked at is a matter of time: a few looks are enough.
 */
static void sweep(const char *what, size_t num_codes, peerwin_status (*act)(void *), void *data) {
    const char *names[MOST_NAMES];
    int runs = 0;
    int count = names_of(act, data, names);
    lookups = attributes = 0;
    for (size_t c = 0; c < num_codes; c++)
        for (int i = 0; i < count; i++)
            for (unsigned long n = 1; strcmp(names[i], "cuStreamQuery") != 0 || n <= MOST_LOOKS; n++) {
                if (!fail_once(what, act, data, names[i], n, codes[c]))
                    break;
                runs++;
            }
    CHECK(runs > 0);
    printf("   %s: %d calls, %d runs with a failure\n", what, count, runs);
    fflush(stdout);
}

static peerwin_status worse(peerwin_status first, peerwin_status second) {
    return first != PEERWIN_OK ? first : second;
}

/* ---- the device ---- */

static peerwin_status open_and_close(void *data) {
    pw_gpu *gpu = NULL;
    peerwin_status status = pw_gpu_open(data, SITE, &gpu);
    CHECK((status == PEERWIN_OK) == (gpu != NULL));
    if (status != PEERWIN_OK)
        return status;
    opened = sim.calls(NULL);
    pw_gpu_close(gpu);
    return PEERWIN_OK;
}

static void opening_a_device(void) {
    static const int devices[] = {1};
    CUcontext mine = NULL;
    pw_gpu_request request = {.library = apart_library,
                              .choice = PEERWIN_DEVICE_SPREAD,
                              .node_rank = 1,
                              .devices = devices,
                              .num_devices = 1,
                              .timeout_ms = 10000};
    app_start();
    sweep("open, primary context", 1, open_and_close, &request);
    CU(app.cuCtxCreate(&mine, 0, 0));
    request.choice = PEERWIN_DEVICE_CURRENT;
    sweep("open, the caller's context", 1, open_and_close, &request);
    CU(app.cuCtxDestroy(mine));
}

/* What closing cannot report it logs; that nothing is left is all there is to see. */
static void closing_a_device(void) {
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE(0), .timeout_ms = 10000};
    int injected = 1;
    app_start();
    apart_snapshot before = snapshot();
    for (unsigned long n = 1; injected; n++) {
        pw_gpu *gpu = NULL;
        OK(pw_gpu_open(&request, SITE, &gpu));
        sim.reset();
        sim.fail(NULL, n, CUDA_ERROR_UNKNOWN, 0);
        pw_gpu_close(gpu);
        injected = sim.injected();
        const char *call = sim.call_name(n);
        sim.reset();
        check_snapshot(&before, call ? call : "closed");
        CHECK(injected || n > 5);
    }
}

/* ---- the owner ---- */

typedef struct {
    pw_gpu *gpu;
    const pw_memory_ops *ops;
    void *base;
    size_t bytes;
    pw_handle handles[3];
    int count;
    size_t mapped;
} scene;

/* Exports every piece twice, as for two importers. */
static peerwin_status export_all(pw_segment *segment) {
    peerwin_status status = segment->ops->seal(segment, 0, SITE);
    for (int i = 0; i < 2 * segment->num_pieces && status == PEERWIN_OK; i++) {
        pw_handle handle = {.fd = -1};
        status = segment->ops->export_handle(segment, i / 2, &handle, SITE);
    }
    return status;
}

static peerwin_status alloc_and_export(void *data) {
    const scene *s = data;
    pw_segment segment;
    peerwin_status status = s->ops->alloc(s->gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segment);
    if (status != PEERWIN_OK)
        return status;
    status = export_all(&segment);
    s->ops->exported(&segment);
    return worse(status, s->ops->release(&segment));
}

static void owning(peerwin_handle kind) {
    scene s = {.gpu = gpu_start(PEERWIN_DEVICE_SPREAD), .ops = pw_memory_on_gpu(kind)};
    sweep(s.ops->name, NUM_CODES, alloc_and_export, &s);
    gpu_stop(s.gpu);
}

static void owning_legacy(void) {
    owning(PEERWIN_HANDLE_LEGACY);
}

static void owning_fd(void) {
    owning(PEERWIN_HANDLE_FD);
}

static void owning_fabric(void) {
    owning(PEERWIN_HANDLE_FABRIC);
}

static void owning_host(void) {
    owning(PEERWIN_HANDLE_HOST);
}

/* ---- the importer ---- */

static peerwin_status map_all(void *data) {
    const scene *s = data;
    size_t offset = 0;
    peerwin_status status = PEERWIN_OK;
    pw_mapping mapping = {.ops = s->ops, .gpu = s->gpu, .mapped = s->mapped};
    for (int i = 0; i < s->count && status == PEERWIN_OK; i++) {
        status = s->ops->map(&mapping, &s->handles[i], offset, SITE);
        offset += s->handles[i].bytes;
    }
    if (status != PEERWIN_OK) {
        CHECK(mapping.base == NULL);
        return status;
    }
    return s->ops->unmap(&mapping);
}

/* The owner of the segment waits until the sweep is over. */
static void lend(pw_segment *segment) {
    size_t mapped = segment->mapped;
    tell(&mapped, sizeof mapped);
    tell(&segment->num_pieces, sizeof segment->num_pieces);
    for (int i = 0; i < segment->num_pieces; i++) {
        pw_handle handle;
        OK(segment->ops->export_handle(segment, i, &handle, SITE));
        tell(&handle, sizeof handle);
        if (handle.fd >= 0)
            tell_fd(handle.fd);
    }
    await();
}

static void lend_own(peerwin_handle kind) {
    pw_segment segment;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    const pw_memory_ops *ops = pw_memory_on_gpu(kind);
    OK(ops->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segment));
    OK(ops->seal(&segment, 0, SITE));
    lend(&segment);
    OK(ops->release(&segment));
    gpu_stop(gpu);
}

static void map_in_turn(void) {
    scene s = {.gpu = gpu_start(PEERWIN_DEVICE_SPREAD)};
    hear(&s.mapped, sizeof s.mapped);
    hear(&s.count, sizeof s.count);
    CHECK(s.count >= 1 && s.count <= 3);
    for (int i = 0; i < s.count; i++) {
        hear(&s.handles[i], sizeof s.handles[i]);
        s.handles[i].fd = s.handles[i].fd >= 0 ? hear_fd() : -1;
    }
    s.ops = pw_memory_on_gpu(s.handles[0].kind);
    sweep(s.ops->name, NUM_CODES, map_all, &s);
    for (int i = 0; i < s.count; i++)
        pw_handle_close(&s.handles[i]);
    gpu_stop(s.gpu);
    hand();
}

static void lend_legacy(void) {
    lend_own(PEERWIN_HANDLE_LEGACY);
}

static void lend_fd(void) {
    lend_own(PEERWIN_HANDLE_FD);
}

static void lend_fabric(void) {
    lend_own(PEERWIN_HANDLE_FABRIC);
}

static void lend_host(void) {
    lend_own(PEERWIN_HANDLE_HOST);
}

/* ---- memory that is there already ---- */

static peerwin_status attach_and_export(void *data) {
    const scene *s = data;
    pw_segment segment;
    size_t place = 0;
    peerwin_status status = pw_gpu_attach(s->gpu, s->base, s->bytes, SITE, &segment, &place);
    if (status != PEERWIN_OK)
        return status;
    status = export_all(&segment);
    segment.ops->exported(&segment);
    return worse(status, segment.ops->release(&segment));
}

/* Attaches in turn, or lends it to a peer that maps in turn. */
static void attach_in_turn(CUdeviceptr base, size_t bytes, const char *what, int to_peer) {
    scene s = {.gpu = gpu_start(PEERWIN_DEVICE_CURRENT), .base = pw_device_pointer(base), .bytes = bytes};
    if (to_peer) {
        pw_segment segment;
        size_t place = 0;
        OK(pw_gpu_attach(s.gpu, s.base, bytes, SITE, &segment, &place));
        lend(&segment);
        OK(segment.ops->release(&segment));
    } else {
        sweep(what, NUM_CODES, attach_and_export, &s);
    }
    gpu_stop(s.gpu);
}

static CUcontext application(void) {
    CUcontext context = NULL;
    app_start();
    CU(app.cuCtxCreate(&context, 0, 0));
    return context;
}

static void attaching_plain_memory(void) {
    CUdeviceptr base = 0;
    CUcontext context = application();
    CU(app.cuMemAlloc(&base, 4096));
    attach_in_turn(base + 100, 1000, "attach legacy", 0);
    CU(app.cuMemFree(base));
    CU(app.cuCtxDestroy(context));
}

static void pool_memory(int to_peer) {
    CUdeviceptr base = 0;
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    CUcontext context = application();
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CU(app.cuMemPoolCreate(&pool, &props));
    CU(app.cuMemAllocFromPoolAsync(&base, 4096, pool, NULL));
    CU(app.cuCtxSynchronize());
    attach_in_turn(base + 8, 1000, "attach pool", to_peer);
    CU(app.cuMemFree(base));
    CU(app.cuMemPoolDestroy(pool));
    CU(app.cuCtxDestroy(context));
}

static void attaching_pool_memory(void) {
    pool_memory(0);
}

static void lend_pool(void) {
    pool_memory(1);
}

enum { PARTS = 3 };

static void stretched_memory(int to_peer) {
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handles[PARTS];
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUcontext context = application();
    memset(&prop, 0, sizeof prop);
    memset(&access, 0, sizeof access);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(app.cuMemAddressReserve(&base, PARTS * 2 * MIB, 0, 0, 0));
    for (size_t i = 0; i < PARTS; i++) {
        CU(app.cuMemCreate(&handles[i], 2 * MIB, &prop, 0));
        CU(app.cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, handles[i], 0));
    }
    CU(app.cuMemSetAccess(base, PARTS * 2 * MIB, &access, 1));
    attach_in_turn(base, PARTS * 2 * MIB, "attach virtual memory", to_peer);
    for (size_t i = 0; i < PARTS; i++) {
        CU(app.cuMemUnmap(base + i * 2 * MIB, 2 * MIB));
        CU(app.cuMemRelease(handles[i]));
    }
    CU(app.cuMemAddressFree(base, PARTS * 2 * MIB));
    CU(app.cuCtxDestroy(context));
}

static void attaching_virtual_memory(void) {
    stretched_memory(0);
}

static void lend_virtual_memory(void) {
    stretched_memory(1);
}

/* ---- C23: descriptors run out ---- */

enum { FEW = 200 };

static int use_up_descriptors(int held[FEW]) {
    int count = 0;
    while (count < FEW && (held[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    CHECK(count < FEW);
    return count;
}

static void descriptors_run_out(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_FD, PEERWIN_HANDLE_HOST};
    int held[FEW];
    const struct rlimit limit = {FEW / 2, FEW / 2};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pw_segment segment;
        pw_handle handle;
        const pw_memory_ops *ops = pw_memory_on_gpu(kinds[i]);
        apart_snapshot before = snapshot();
        OK(ops->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segment));
        OK(ops->seal(&segment, 0, SITE));
        int count = use_up_descriptors(held);
        if (kinds[i] == PEERWIN_HANDLE_FD)
            REFUSED(ops->export_handle(&segment, 0, &handle, SITE), PEERWIN_ERR_NO_MEMORY, "descriptors");
        while (count > 0)
            pw_close(&held[--count]);
        OK(ops->export_handle(&segment, 0, &handle, SITE));
        ops->exported(&segment);
        OK(ops->release(&segment));
        check_snapshot(&before, "out of descriptors");
    }
    gpu_stop(gpu);
}

int main(int argc, char **argv) {
    static const apart_case cases[] = {
        {"opening_a_device", opening_a_device, NULL, "SIMCUDA_TOPOLOGY=nvswitch:2", NULL, 1},
        {"closing_a_device", closing_a_device, NULL, NULL, NULL, 1},
        {"owning_legacy", owning_legacy, NULL, NULL, NULL, 1},
        {"owning_fd", owning_fd, NULL, NULL, NULL, 1},
        {"owning_fabric", owning_fabric, NULL, "SIMCUDA_IMEX=1", NULL, 1},
        {"owning_host", owning_host, NULL, NULL, NULL, 1},
        {"mapping_legacy", lend_legacy, map_in_turn, NULL, NULL, 1},
        {"mapping_fd", lend_fd, map_in_turn, NULL, NULL, 1},
        {"mapping_fabric", lend_fabric, map_in_turn, "SIMCUDA_IMEX=1", NULL, 1},
        {"mapping_host", lend_host, map_in_turn, NULL, NULL, 1},
        {"mapping_pool", lend_pool, map_in_turn, NULL, NULL, 1},
        {"mapping_virtual_memory", lend_virtual_memory, map_in_turn, NULL, NULL, 1},
        {"attaching_plain_memory", attaching_plain_memory, NULL, NULL, NULL, 1},
        {"attaching_pool_memory", attaching_pool_memory, NULL, NULL, NULL, 1},
        {"attaching_virtual_memory", attaching_virtual_memory, NULL, NULL, NULL, 1},
        {"c23_descriptors_run_out", descriptors_run_out, NULL, NULL, NULL, 1},
        {NULL, NULL, NULL, NULL, NULL, 0},
    };
    return apart_main(argc, argv, cases);
}
