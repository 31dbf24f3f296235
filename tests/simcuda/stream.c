/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams: queues of operations, each worked off by a thread of its own (or one for all streams of a priority). Order
 * within a stream is the queue's; order between the legacy stream and blocking streams is kept by dependencies taken
 * when an operation is queued; events add theirs as operations that wait.
 */
#include "sim.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct sim_queue {
    struct sim_queue *next_spare;
    pthread_cond_t wake;
    struct sim_op *head, *tail;
    bool closing;  /* end when empty */
    bool stopping; /* end now */
    bool running;  /* an operation, without the lock */
    bool exited;
};

static _Thread_local bool on_stream_thread;

bool sim_on_stream_thread(void) {
    return on_stream_thread;
}

uint64_t sim_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_nap(unsigned *turn) {
    unsigned n = (*turn)++;
    if (n < 50) {
        sched_yield();
        return;
    }
    struct timespec nap = {0, n < 100 ? 20000 : n < 1000 ? 200000 : 1000000};
    nanosleep(&nap, NULL);
}

bool sim_stopping(const struct sim_stream *stream) {
    return __atomic_load_n(&stream->queue->stopping, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&stream->ctx->lost, __ATOMIC_ACQUIRE) != CUDA_SUCCESS;
}

void sim_lose(struct sim_context *ctx, CUresult code) {
    if (ctx->lost == CUDA_SUCCESS) {
        __atomic_store_n(&ctx->lost, code, __ATOMIC_RELEASE);
    }
    pthread_cond_broadcast(&sim.done);
}

/*
 * Whoever is woken needs the lock first. So a stream's thread is woken once the caller has given the lock back, or
 * before it waits itself, and a thread that waits for work only when it is done: else each operation costs the switch
 * to a thread that finds the lock taken, or its work not done, and back.
 */
static _Thread_local struct sim_queue *to_wake;

void sim_wake_pending(void) {
    if (to_wake != NULL) {
        pthread_cond_signal(&to_wake->wake);
        to_wake = NULL;
    }
}

void sim_wait_done(void) {
    sim_wake_pending();
    pthread_cond_wait(&sim.done, &sim.lock);
}

/* Until the stream has finished that number, or will not. */
static void await_number(struct sim_stream *stream, uint64_t number) {
    if (stream->awaited == 0 || stream->awaited > number) {
        stream->awaited = number;
    }
    sim_wait_done();
}

static void find_running(struct sim_object *object, void *data) {
    const struct sim_context *ctx = (const struct sim_context *)object;
    for (const struct sim_stream *s = ctx->lost != CUDA_SUCCESS ? ctx->streams : NULL; s != NULL; s = s->next) {
        *(bool *)data |= s->queue->running;
    }
}

void sim_settle_lost(void) {
    for (bool running = true; running;) {
        running = false;
        sim_object_each(SIM_CONTEXT, find_running, &running);
        if (running) {
            sim_wait_done();
        }
    }
}

/* ---- operations ---- */

struct sim_op *sim_op_new(enum sim_op_kind kind, size_t param_bytes) {
    struct sim_op *op = calloc(1, sizeof *op + param_bytes);
    if (op == NULL) {
        sim_die("out of host memory");
    }
    op->kind = kind;
    if (kind == SIM_OP_KERNEL) {
        op->u.kernel.bytes = param_bytes;
    }
    return op;
}

struct sim_op *sim_op_clone(const struct sim_op *op) {
    size_t param_bytes = op->kind == SIM_OP_KERNEL ? op->u.kernel.bytes : 0;
    struct sim_op *copy = sim_op_new(op->kind, param_bytes);
    memcpy(copy, op, sizeof *op);
    memcpy(copy->params, op->params, param_bytes);
    copy->next = NULL;
    copy->deps = NULL;
    copy->num_deps = 0;
    if (op->kind == SIM_OP_RECORD || op->kind == SIM_OP_AWAIT) {
        if (copy->u.event.record != NULL) {
            copy->u.event.record->refs++;
        }
        if (copy->u.event.shared != NULL) {
            sim_phys_ref(copy->u.event.shared);
        }
    }
    return copy;
}

void sim_op_free(struct sim_op *op) {
    if (op->kind == SIM_OP_RECORD || op->kind == SIM_OP_AWAIT) {
        sim_record_unref(op->u.event.record);
        sim_phys_unref(op->u.event.shared);
    }
    free(op->deps);
    free(op);
}

/* ---- the thread ---- */

static void wait_for_deps(const struct sim_op *op) { /* locked */
    for (size_t i = 0; i < op->num_deps; i++) {
        while (op->deps[i].stream->finished < op->deps[i].number && !sim_stopping(op->stream)) {
            await_number(op->deps[i].stream, op->deps[i].number);
        }
    }
}

static CUresult execute(struct sim_op *op) { /* unlocked */
    switch (op->kind) {
    case SIM_OP_COPY:
        return sim_execute_copy(&op->u.copy);
    case SIM_OP_FILL:
        return sim_execute_fill(&op->u.fill);
    case SIM_OP_WRITE:
        return sim_execute_write(&op->u.word);
    case SIM_OP_WAIT:
        return sim_execute_wait(op->stream, &op->u.word);
    case SIM_OP_RECORD:
        sim_execute_record(op->stream, &op->u.event);
        return CUDA_SUCCESS;
    case SIM_OP_AWAIT:
        sim_execute_await(op->stream, &op->u.event);
        return CUDA_SUCCESS;
    case SIM_OP_HOST:
        op->u.host.fn(op->u.host.data);
        return CUDA_SUCCESS;
    case SIM_OP_KERNEL:
        return sim_kernel_run(op);
    case SIM_OP_FREE:
        pthread_mutex_lock(&sim.lock);
        (void)sim_free_range(op->u.range);
        pthread_mutex_unlock(&sim.lock);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_UNKNOWN;
}

/* Locked before and after. True if somebody waits for what this was the end of. */
static bool run_one(struct sim_op *op) {
    struct sim_stream *stream = op->stream;
    wait_for_deps(op);
    if (!sim_stopping(stream) || op->kind == SIM_OP_FREE) {
        stream->queue->running = true;
        pthread_mutex_unlock(&sim.lock);
        CUresult rc = execute(op);
        pthread_mutex_lock(&sim.lock);
        stream->queue->running = false;
        if (rc != CUDA_SUCCESS) {
            sim_lose(stream->ctx, rc);
        }
    }
    stream->finished = op->number;
    sim_op_free(op);
    bool awaited = stream->awaited != 0 && stream->awaited <= stream->finished;
    if (awaited) {
        stream->awaited = 0; /* those who wait for more say so again */
    }
    return awaited || stream->ctx->lost != CUDA_SUCCESS;
}

static void *work(void *data) {
    struct sim_queue *queue = data;
    on_stream_thread = true;
    if (sim_protection_key() >= 0) {
        pkey_set(sim_protection_key(), 0);
    }
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        struct sim_op *op = queue->head;
        if (op != NULL) {
            queue->head = op->next;
            queue->tail = queue->head == NULL ? NULL : queue->tail;
            if (run_one(op)) {
                pthread_mutex_unlock(&sim.lock);
                pthread_cond_broadcast(&sim.done);
                pthread_mutex_lock(&sim.lock);
            }
        } else if (queue->closing || queue->stopping) {
            break;
        } else {
            pthread_cond_wait(&queue->wake, &sim.lock);
        }
    }
    queue->exited = true;
    pthread_cond_broadcast(&sim.done);
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

/* Queues are kept for the next stream: a thread may still be about to wake one whose stream has just ended. */
static struct sim_queue *spare_queues;

static struct sim_queue *take_queue(void) {
    struct sim_queue *queue = spare_queues;
    if (queue != NULL) {
        spare_queues = queue->next_spare;
        queue->next_spare = NULL;
        queue->closing = queue->stopping = queue->exited = false;
        return queue;
    }
    queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        sim_die("out of host memory");
    }
    pthread_cond_init(&queue->wake, NULL);
    return queue;
}

static struct sim_queue *make_queue(void) {
    struct sim_queue *queue = take_queue();
    pthread_t thread;
    sigset_t blocked, before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (pthread_create(&thread, NULL, work, queue) != 0) {
        sim_die("cannot start a thread");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_detach(thread);
    return queue;
}

static struct sim_queue *queue_for(struct sim_context *ctx, int priority) {
    if (!sim.one_queue) {
        return make_queue();
    }
    struct sim_queue **shared = &ctx->shared[-priority];
    if (*shared == NULL) {
        *shared = make_queue();
    }
    return *shared;
}

struct sim_stream *sim_stream_make(struct sim_context *ctx, unsigned flags, int priority) {
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        sim_die("out of host memory");
    }
    stream->ctx = ctx;
    stream->flags = flags;
    stream->non_blocking = (flags & CU_STREAM_NON_BLOCKING) != 0;
    stream->priority = priority;
    stream->queue = queue_for(ctx, priority);
    stream->next = ctx->streams;
    ctx->streams = stream;
    return stream;
}

struct sim_stream *sim_blocking_stream(struct sim_context *ctx) {
    if (ctx->legacy == NULL) {
        ctx->legacy = sim_stream_make(ctx, 0, 0);
    }
    return ctx->legacy;
}

struct sim_stream *sim_stream_find(CUstream handle, CUresult *rc_out) {
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        struct sim_context *ctx = sim_current(rc_out);
        return ctx == NULL ? NULL : sim_blocking_stream(ctx);
    }
    struct sim_stream *stream =
        sim_object_find((uint64_t)(uintptr_t)handle, SIM_STREAM, CUDA_ERROR_INVALID_HANDLE, SIM_DEADLY, rc_out);
    if (stream != NULL && stream->ctx->lost != CUDA_SUCCESS) {
        *rc_out = stream->ctx->lost;
        return NULL;
    }
    return stream;
}

static void add_dep(struct sim_op *op, struct sim_stream *stream) {
    if (stream == NULL || stream == op->stream || stream->finished == stream->issued) {
        return;
    }
    struct sim_dep *deps = realloc(op->deps, (op->num_deps + 1) * sizeof *deps);
    if (deps == NULL) {
        sim_die("out of host memory");
    }
    op->deps = deps;
    op->deps[op->num_deps++] = (struct sim_dep){stream, stream->issued};
}

static void add_implicit_deps(struct sim_op *op) {
    struct sim_context *ctx = op->stream->ctx;
    if (op->stream == ctx->legacy) {
        for (struct sim_stream *s = ctx->streams; s != NULL; s = s->next) {
            if (!s->non_blocking) {
                add_dep(op, s);
            }
        }
    } else if (!op->stream->non_blocking) {
        add_dep(op, ctx->legacy);
    }
}

CUresult sim_enqueue(struct sim_stream *stream, struct sim_op *op) {
    if (stream->capture != NULL) {
        return sim_capture_add(stream, op);
    }
    if (stream == stream->ctx->legacy && sim_capture_legacy_conflict(stream->ctx, true)) {
        sim_op_free(op);
        return sim_misuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream is used while a stream captures");
    }
    struct sim_queue *queue = stream->queue;
    op->stream = stream;
    add_implicit_deps(op);
    op->number = ++stream->issued;
    if (queue->tail != NULL) {
        queue->tail->next = op;
    } else {
        queue->head = op;
    }
    queue->tail = op;
    if (to_wake != queue) {
        sim_wake_pending();
        to_wake = queue;
    }
    return CUDA_SUCCESS;
}

bool sim_stream_idle(const struct sim_stream *stream) {
    return stream->finished == stream->issued;
}

CUresult sim_stream_drain(struct sim_stream *stream) {
    uint64_t until = stream->issued;
    while (stream->finished < until && stream->ctx->lost == CUDA_SUCCESS) {
        await_number(stream, until);
    }
    return stream->ctx->lost;
}

CUresult sim_context_drain(struct sim_context *ctx) {
    for (struct sim_stream *s = ctx->streams; s != NULL; s = s->next) {
        (void)sim_stream_drain(s);
    }
    return ctx->lost;
}

static void stop_queue(struct sim_queue *queue) {
    __atomic_store_n(&queue->stopping, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&queue->wake);
    pthread_cond_broadcast(&sim.done);
    while (!queue->exited) {
        sim_wait_done();
    }
}

static void free_queue(struct sim_queue *queue) {
    queue->next_spare = spare_queues;
    spare_queues = queue;
}

void sim_context_stop(struct sim_context *ctx) {
    for (struct sim_stream *s = ctx->streams; s != NULL; s = s->next) {
        stop_queue(s->queue);
    }
    while (ctx->streams != NULL) {
        struct sim_stream *stream = ctx->streams;
        ctx->streams = stream->next;
        if (!sim.one_queue) {
            free_queue(stream->queue);
        }
        if (stream->object.handle != 0 && !stream->destroyed) {
            sim_object_remove(&stream->object);
        }
        free(stream);
    }
    for (size_t i = 0; i < sizeof ctx->shared / sizeof ctx->shared[0]; i++) {
        if (ctx->shared[i] != NULL) {
            free_queue(ctx->shared[i]);
            ctx->shared[i] = NULL;
        }
    }
    ctx->legacy = NULL;
}

/* Work that is queued still runs. */
void sim_stream_close(struct sim_stream *stream) {
    sim_object_remove(&stream->object);
    stream->destroyed = true;
    if (!sim.one_queue) {
        stream->queue->closing = true;
        pthread_cond_signal(&stream->queue->wake);
    }
}
