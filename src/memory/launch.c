/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loading the kernels, and launching them: how a transfer is cut into blocks. The kernels are one image, embedded in
 * the library (kernels_image.S). All of them are loaded at once and for good: a kernel that is loaded by its first
 * launch waits for kernels that run, and one of these may wait for the launch.
 */
#include "memory/launch.h"

#include "memory/ready.h"

#include <string.h>

extern const char pw_kernels_image[] __attribute__((visibility("hidden")));

/*
 * How work is spread. A lane with LANE_ITEMS items has all of its loads in flight at once, so that more lanes would not
 * be done sooner; hence small transfers use part of the device. Large ones use WAVES times the blocks that fit on it:
 * enough for the blocks' ends to spread, few enough for their beginnings not to count. Measured on an H200: 4, 8 and 16
 * waves do 16 MiB in 6.9, 6.8 and 7.1 us, and 256 MiB in 139, 137 and 134 us. At 8 blocks of 128 lanes with 8
 * loads of 16 bytes each, a multiprocessor has 128 KiB in flight; by Little's law an H200 (4.8 TB/s, 132 of them)
 * needs about 30 KiB at the 0.8 us that a load takes under load.
 */
enum { LANE_ITEMS = 4, WAVES = 8, WAVES_OF_MANY = 16, MANY_ITEMS = 4 << 20, MAX_PER_BLOCK = 1 << 30 };

/* Rows of at most so many cells are moved by cells, longer ones by vectors of 16 bytes: see kernels.h. */
enum { THIN_ROW_CELLS = 32 };

static const char *const kernel_names[PW_NUM_KERNELS] = {
#define KERNEL_NAME(name, function) #function,
    PW_KERNELS(KERNEL_NAME)
#undef KERNEL_NAME
};

/* ---- loading ---- */

/* Without nvcc the image is this text, which a test's driver takes and a real one refuses. */
static int image_is_empty(void) {
    return memcmp(pw_kernels_image, "simcuda", sizeof "simcuda") == 0;
}

static peerwin_status launch(pw_gpu *gpu, peerwin_stream stream, int kernel, unsigned blocks, unsigned lanes,
                             void *args, const pw_site *site) {
    void *params[] = {args};
    CUresult code =
        gpu->driver->cuLaunchKernel(gpu->kernels[kernel], blocks, 1, 1, lanes, 1, 1, 0, (CUstream)stream, params, NULL);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuLaunchKernel");
}

/* A launch with nothing to do: before 12.4 the only way to load a function. It ends before the next one is loaded. */
static peerwin_status launch_nothing(pw_gpu *gpu, int kernel, const pw_site *site) {
    union {
        pw_copy_args copy;
        pw_copy_signal_args copy_signal;
        pw_box_args box;
        pw_word_args word;
        pw_distance_args distance;
        pw_barrier_args barrier;
        pw_reduce_args reduce;
        pw_push_args push;
        pw_await_args await;
    } args;
    memset(&args, 0, sizeof args);
    if (kernel == PW_KERNEL_BOX)
        args.box.per_row = args.box.per_plane = 1;
    const int is_of_one_lane = kernel == PW_KERNEL_WORD || kernel == PW_KERNEL_DISTANCE;
    const unsigned lanes = is_of_one_lane ? 1 : PW_KERNEL_LANES; /* PW_MEETING_LANES are as many */
    peerwin_status status = launch(gpu, gpu->stream, kernel, 1, lanes, &args, site);
    return status == PEERWIN_OK ? pw_gpu_settle(gpu, site) : status;
}

static peerwin_status load_kernel(pw_gpu *gpu, int kernel, const pw_site *site) {
    const pw_driver *driver = gpu->driver;
    CUresult code = driver->cuModuleGetFunction(&gpu->kernels[kernel], gpu->module, kernel_names[kernel]);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuModuleGetFunction");
    if (!driver->cuFuncLoad)
        return launch_nothing(gpu, kernel, site);
    code = driver->cuFuncLoad(gpu->kernels[kernel]);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(driver, site, code, "cuFuncLoad");
}

static void unload(pw_gpu *gpu, peerwin_status first) {
    pw_ready_close(gpu);
    if (gpu->module)
        (void)pw_gpu_released(gpu, gpu->driver->cuModuleUnload(gpu->module), "cuModuleUnload", first);
    gpu->module = NULL;
    memset(gpu->kernels, 0, sizeof gpu->kernels);
}

peerwin_status pw_kernels_load(pw_gpu *gpu, const pw_site *site) {
    CUresult code = gpu->driver->cuModuleLoadData(&gpu->module, pw_kernels_image);
    if (code != CUDA_SUCCESS) {
        gpu->module = NULL;
        if (image_is_empty())
            return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                           "the library was built without nvcc, so it has no kernels for a device");
        return pw_fail_cuda(gpu->driver, site, code, "cuModuleLoadData");
    }
    for (int kernel = 0; kernel < PW_NUM_KERNELS; kernel++) {
        peerwin_status status = load_kernel(gpu, kernel, site);
        if (status != PEERWIN_OK) {
            unload(gpu, status);
            return status;
        }
    }
    peerwin_status status = pw_ready_open(gpu, site);
    if (status != PEERWIN_OK)
        unload(gpu, status);
    return status;
}

void pw_kernels_unload(pw_gpu *gpu) {
    unload(gpu, PEERWIN_OK);
}

/* ---- how many blocks ---- */

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* Deals `items` > 0 out evenly, in multiples of a block's lanes. */
static void deal(const pw_gpu *gpu, uint64_t items, uint32_t *per_block_out, uint32_t *blocks_out) {
    const uint64_t waves = items >= MANY_ITEMS ? WAVES_OF_MANY : WAVES;
    const uint64_t most = (uint64_t)gpu->about.multiprocessors * PW_KERNEL_RESIDENT * waves;
    uint64_t blocks = divide_up(items, (uint64_t)LANE_ITEMS * PW_KERNEL_LANES);
    if (blocks > most)
        blocks = most;
    uint64_t per_block = divide_up(divide_up(items, blocks), PW_KERNEL_LANES) * PW_KERNEL_LANES;
    if (per_block > MAX_PER_BLOCK)
        per_block = MAX_PER_BLOCK;
    *per_block_out = (uint32_t)per_block;
    *blocks_out = (uint32_t)divide_up(items, per_block);
}

/* ---- COPY ---- */

/* The middle begins where the target is aligned, and where the vector that the source lies in is within the source. */
static void find_middle(pw_copy_args *args) {
    uint64_t head = -(uint64_t)(uintptr_t)args->to & 15;
    const uint64_t shift = ((uint64_t)(uintptr_t)args->from + head) & 15;
    if (head < shift)
        head += 16;
    args->head = args->bytes;
    args->vectors = 0;
    if (args->bytes <= head)
        return;
    uint64_t rest = args->bytes - head;
    if (shift != 0) /* the last vector's upper half ends 16 - shift bytes after it */
        rest = rest + shift < 16 ? 0 : rest + shift - 16;
    if (rest < 16)
        return;
    args->head = head;
    args->vectors = rest / 16;
}

/* Fills `args` from what is to be copied, at least a byte; how many blocks there are. */
static unsigned plan_copy(const pw_gpu *gpu, pw_copy_args *args) {
    find_middle(args);
    if (args->vectors > 0)
        deal(gpu, args->vectors, &args->per_block, &args->blocks);
    return args->blocks + (args->bytes > 16 * args->vectors);
}

peerwin_status pw_launch_copy(pw_gpu *gpu, peerwin_stream stream, void *to, const void *from, size_t bytes,
                              const pw_site *site) {
    pw_copy_args args = {.to = to, .from = from, .bytes = bytes};
    if (bytes == 0)
        return PEERWIN_OK;
    const unsigned blocks = plan_copy(gpu, &args);
    return launch(gpu, stream, PW_KERNEL_COPY, blocks, PW_KERNEL_LANES, &args, site);
}

peerwin_status pw_launch_copy_signal(pw_gpu *gpu, peerwin_stream stream, void *to, const void *from, size_t bytes,
                                     const pw_launch_signal *signal, const pw_site *site) {
    pw_copy_signal_args args = {.copy = {.to = to, .from = from, .bytes = bytes},
                                .word = signal->word,
                                .value = signal->value,
                                .ticket = signal->ticket,
                                .op = signal->add ? PW_WORD_ADD : PW_WORD_STORE,
                                .one_device = signal->one_device != 0};
    const unsigned blocks = plan_copy(gpu, &args.copy);
    return launch(gpu, stream, PW_KERNEL_COPY_SIGNAL, blocks, PW_KERNEL_LANES, &args, site);
}

/* ---- BOX ---- */

/* Both boxes: counts of bytes, rows and planes; pitches of rows and planes. */
typedef struct {
    uint64_t count[3];
    uint64_t to[2], from[2];
} box_shape;

/* Rows that follow each other without a gap on both sides are one; so are planes' rows at one pitch throughout. */
static void merge(box_shape *shape) {
    for (int i = 0; i < 2; i++)
        if (shape->count[1] == 1 || (shape->to[0] == shape->count[0] && shape->from[0] == shape->count[0])) {
            shape->count[0] *= shape->count[1];
            shape->count[1] = shape->count[2];
            shape->count[2] = 1;
            shape->to[0] = shape->to[1];
            shape->from[0] = shape->from[1];
        }
    if (shape->to[1] == shape->count[1] * shape->to[0] && shape->from[1] == shape->count[1] * shape->from[0]) {
        shape->count[1] *= shape->count[2];
        shape->count[2] = 1;
    }
    if (shape->count[2] == 1)
        shape->to[1] = shape->from[1] = 0;
}

/* The largest cell that every row of both boxes is made of. */
static uint32_t cell_of(const pw_box_args *args) {
    const uint64_t bits = (uint64_t)(uintptr_t)args->to | (uint64_t)(uintptr_t)args->from | args->row_bytes |
                          args->to_row | args->from_row | args->to_plane | args->from_plane;
    return pw_cell_of(bits);
}

/* How many aligned vectors of the target a row touches at most. */
static uint64_t slots_of(const pw_box_args *args) {
    uint64_t before = 16 - args->cell; /* of the first vector */
    if ((args->to_row | args->to_plane) % 16 == 0)
        before = (uint64_t)(uintptr_t)args->to & 15;
    return divide_up(before + args->row_bytes, 16);
}

/* How far addresses move in a step, at the end of a row and at that of a plane, with these pitches. */
static void plan_moves(const pw_box_args *args, uint64_t row, uint64_t plane, int64_t *step_out, int64_t *row_end_out,
                       int64_t *plane_end_out) {
    const uint64_t width = args->slots ? 0 : args->cell; /* how far an address moves with an item */
    const uint64_t planes = PW_KERNEL_LANES / args->per_row / args->per_plane;
    *step_out = (int64_t)(width * args->step_item + row * args->step_row + plane * planes);
    *row_end_out = (int64_t)(row - width * args->per_row);
    *plane_end_out = (int64_t)(plane - row * args->per_plane);
}

static pw_box_args plan_box(const pw_gpu *gpu, char *to, const char *from, const box_shape *shape,
                            uint32_t *blocks_out) {
    pw_box_args args = {.to = to, .from = from, .row_bytes = shape->count[0], .per_plane = shape->count[1]};
    args.to_row = shape->to[0];
    args.to_plane = shape->to[1];
    args.from_row = shape->from[0];
    args.from_plane = shape->from[1];
    args.cell = cell_of(&args);
    args.slots = args.cell < 16 && args.row_bytes > (uint64_t)THIN_ROW_CELLS * args.cell;
    args.per_row = args.slots ? slots_of(&args) : args.row_bytes / args.cell;
    args.items = args.per_row * shape->count[1] * shape->count[2];
    args.step_item = PW_KERNEL_LANES % args.per_row;
    args.step_row = PW_KERNEL_LANES / args.per_row % args.per_plane;
    plan_moves(&args, args.to_row, args.to_plane, &args.step_to, &args.row_end_to, &args.plane_end_to);
    plan_moves(&args, args.from_row, args.from_plane, &args.step_from, &args.row_end_from, &args.plane_end_from);
    deal(gpu, args.items, &args.per_block, blocks_out);
    return args;
}

peerwin_status pw_launch_box(pw_gpu *gpu, peerwin_stream stream, void *to_base, const peerwin_box *to,
                             const void *from_base, const peerwin_box *from, const pw_site *site) {
    box_shape shape = {.count = {to->count[0], to->count[1], to->count[2]},
                       .to = {to->stride[0], to->stride[1]},
                       .from = {from->stride[0], from->stride[1]}};
    char *target = (char *)to_base + to->offset;
    const char *source = (const char *)from_base + from->offset;
    uint32_t blocks = 0;
    if (shape.count[0] == 0 || shape.count[1] == 0 || shape.count[2] == 0)
        return PEERWIN_OK;
    merge(&shape);
    if (shape.count[1] == 1)
        return pw_launch_copy(gpu, stream, target, source, shape.count[0], site);
    pw_box_args args = plan_box(gpu, target, source, &shape, &blocks);
    return launch(gpu, stream, PW_KERNEL_BOX, blocks, PW_KERNEL_LANES, &args, site);
}

/* ---- WORD ---- */

static peerwin_status launch_word(pw_gpu *gpu, peerwin_stream stream, void *word, uint64_t value, uint32_t op,
                                  const pw_site *site) {
    pw_word_args args = {.word = word, .value = value, .op = op};
    return launch(gpu, stream, PW_KERNEL_WORD, 1, 1, &args, site);
}

peerwin_status pw_launch_add(pw_gpu *gpu, peerwin_stream stream, void *word, uint64_t value, const pw_site *site) {
    return launch_word(gpu, stream, word, value, PW_WORD_ADD, site);
}

peerwin_status pw_launch_store(pw_gpu *gpu, peerwin_stream stream, void *word, uint64_t value, const pw_site *site) {
    return launch_word(gpu, stream, word, value, PW_WORD_STORE, site);
}

/* ---- DISTANCE ---- */

peerwin_status pw_gpu_measure_distance(pw_gpu *gpu, const pw_launch_distance *what, const pw_site *site) {
    pw_distance_args args = {.first = what->first,
                             .out = what->out,
                             .step = what->step,
                             .count = what->count,
                             .num_lines = (uint32_t)what->num_lines};
    memcpy(args.lines, what->lines, sizeof args.lines);
    peerwin_status status = launch(gpu, gpu->stream, PW_KERNEL_DISTANCE, 1, 1, &args, site);
    return status == PEERWIN_OK ? pw_gpu_settle(gpu, site) : status;
}

/* ---- meetings ---- */

_Static_assert((int)PW_MEETING_LANES == (int)PW_KERNEL_LANES, "a launch of nothing has the lanes of every kernel");

static pw_meeting meeting_of(const pw_gpu *gpu, const pw_launch_meeting *m) {
    return (pw_meeting){.epoch = m->epoch,
                        .next = m->next,
                        .known = m->known != 0,
                        .broken = m->broken,
                        .report = gpu->report,
                        .patience = m->patience,
                        .one_device = m->one_device != 0};
}

/* The next peers from *done on, those to the right of this rank first; how many they are. */
static uint32_t next_peers(const pw_launch_meeting *m, const pw_launch_places *mine, int *done,
                           char *peers[PW_MEETING_PEERS]) {
    uint32_t count = 0;
    for (; *done < m->size && count < PW_MEETING_PEERS; (*done)++)
        peers[count++] = mine->at(mine->of, (m->rank + 1 + *done) % m->size);
    return count;
}

/* Who knows its epoch is in no graph of a program's. */
static peerwin_status launch_meeting(pw_gpu *gpu, peerwin_stream stream, const pw_ready *ready, unsigned lanes,
                                     int known, void *args, const pw_site *site) {
    return known ? pw_ready_launch(gpu, ready, stream, 1, lanes, args, site)
                 : launch(gpu, stream, ready->kernel, 1, lanes, args, site);
}

static unsigned lanes_for(size_t work) {
    return work >= PW_MEETING_LANES ? PW_MEETING_LANES : (unsigned)(work + 31) / 32 * 32;
}

peerwin_status pw_launch_barrier(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting, char *lines,
                                 const pw_launch_places *mine, int *given, const pw_site *site) {
    pw_barrier_args args = {.meeting = meeting_of(gpu, meeting), .lines = lines, .size = (uint32_t)meeting->size};
    peerwin_status status = PEERWIN_OK;
    for (int done = 0; done < meeting->size && status == PEERWIN_OK;) {
        args.num_peers = next_peers(meeting, mine, &done, args.peers);
        args.waits = done == meeting->size;
        status = launch_meeting(gpu, stream, &gpu->ready_barrier, lanes_for((size_t)meeting->size), meeting->known,
                                &args, site);
        *given |= status == PEERWIN_OK;
    }
    return status;
}

/* One launch, if all peers fit into it and nothing stands between publishing and combining. */
peerwin_status pw_launch_reduce(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                                const pw_launch_values *values, char *slots, const pw_launch_places *mine, int *given,
                                const pw_site *site) {
    pw_reduce_args args = {.meeting = meeting_of(gpu, meeting),
                           .values = values->values,
                           .slots = slots,
                           .size = (uint32_t)meeting->size,
                           .count = (uint32_t)values->count,
                           .type = (uint32_t)values->type,
                           .op = (uint32_t)values->op};
    const size_t words = (size_t)values->count * (values->type == PEERWIN_FLOAT ? 1 : 2);
    args.per_word = (uint32_t)(((UINT64_C(1) << 32) + words - 1) / words);
    const unsigned lanes = lanes_for(32 + words * (size_t)meeting->size); /* the first warp is for the fence */
    peerwin_status status = PEERWIN_OK;
    int done = values->parts & PW_REDUCE_PUBLISH ? 0 : meeting->size;
    do {
        args.num_peers = next_peers(meeting, mine, &done, args.peers);
        args.parts = (args.num_peers > 0 ? PW_REDUCE_PUBLISH : 0u) |
                     (done == meeting->size ? values->parts & PW_REDUCE_COMBINE : 0u);
        status = launch_meeting(gpu, stream, &gpu->ready_reduce, lanes, meeting->known, &args, site);
        *given |= status == PEERWIN_OK;
    } while (done < meeting->size && status == PEERWIN_OK);
    return status;
}

/* ---- halo plans ---- */

static unsigned push_blocks(const pw_push_args *push) {
    return push->num_blocks + push->num_takes + (push->num_grants > 0);
}

peerwin_status pw_launch_push(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                              const pw_push_args *push, const pw_site *site) {
    pw_push_args args = *push;
    args.meeting = meeting_of(gpu, meeting);
    return launch(gpu, stream, PW_KERNEL_PUSH, push_blocks(&args), PW_PUSH_LANES, &args, site);
}

peerwin_status pw_launch_ready_push(pw_gpu *gpu, const pw_ready *ready, peerwin_stream stream,
                                    const pw_launch_meeting *meeting, const pw_push_args *push, const pw_site *site) {
    pw_push_args args = *push;
    args.meeting = meeting_of(gpu, meeting);
    return pw_ready_launch(gpu, ready, stream, push_blocks(&args), PW_PUSH_LANES, &args, site);
}

int pw_launch_push_instead(pw_gpu *gpu, void *node, const pw_launch_meeting *meeting, const pw_push_args *push) {
    pw_push_args args = *push;
    void *params[] = {&args};
    args.meeting = meeting_of(gpu, meeting);
    const CUDA_KERNEL_NODE_PARAMS_v2 instead =
        pw_node_params(gpu, PW_KERNEL_PUSH, push_blocks(&args), PW_PUSH_LANES, params);
    return gpu->driver->cuGraphKernelNodeSetParams(node, &instead) == CUDA_SUCCESS;
}

peerwin_status pw_launch_await(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                               const pw_await_args *await, const pw_site *site) {
    pw_await_args args = *await;
    args.meeting = meeting_of(gpu, meeting);
    const size_t words = args.num_stores > args.num_waits ? args.num_stores : args.num_waits;
    const unsigned lanes = args.num_blocks > 0 ? PW_PUSH_LANES : lanes_for(words > 0 ? words : 1);
    return launch(gpu, stream, PW_KERNEL_AWAIT, 1 + args.num_blocks, lanes, &args, site);
}
