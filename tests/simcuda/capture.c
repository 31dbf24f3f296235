/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream capture and graphs, as far as memory operations, copies, kernels and events go. A graph is the captured
 * operations in the order in which they were captured, which respects every dependency; launching it queues them in one
 * stream. What is unsafe during capture ends the capture, as a driver does.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_exec {
    struct sim_object object;
    struct sim_op **ops;
    const void **nodes; /* of the graph, which need not be there any more */
    size_t count;
    struct sim_record *last; /* launch of it: the next one begins after that */
};

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static uint64_t next_capture_id;

struct unsafe {
    bool forbidden;
};

static void judge(struct sim_object *object, void *data) {
    struct sim_graph *graph = (struct sim_graph *)object;
    bool forbids =
        graph->capturing &&
        (graph->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
         (graph->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && pthread_equal(graph->thread, pthread_self())));
    if (forbids && thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        !pthread_equal(graph->thread, pthread_self())) {
        forbids = false;
    }
    if (forbids) {
        graph->invalid = true;
        ((struct unsafe *)data)->forbidden = true;
    }
}

CUresult sim_capture_check(void) {
    struct unsafe unsafe = {false};
    if (thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        sim_object_each(SIM_GRAPH, judge, &unsafe);
    }
    return unsafe.forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static void find_in_context(struct sim_object *object, void *data) {
    struct sim_graph *graph = (struct sim_graph *)object;
    const struct sim_context **ctx = data;
    if (graph->capturing && graph->origin->ctx == *ctx) {
        graph->invalid = true;
        *ctx = NULL;
    }
}

/* In any mode: a wait for everything would be a wait for what only gets recorded. */
CUresult sim_capture_check_context(const struct sim_context *ctx) {
    sim_object_each(SIM_GRAPH, find_in_context, &ctx);
    return ctx == NULL ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void sim_capture_invalidate(struct sim_graph *graph) {
    graph->invalid = true;
}

static void keep_op(struct sim_graph *graph, struct sim_op *op) {
    if (graph->count == graph->room) {
        graph->room = graph->room == 0 ? 16 : 2 * graph->room;
        graph->ops = realloc(graph->ops, graph->room * sizeof *graph->ops);
        if (graph->ops == NULL) {
            sim_die("out of host memory");
        }
    }
    graph->ops[graph->count++] = op;
}

CUresult sim_capture_add(struct sim_stream *stream, struct sim_op *op) {
    struct sim_graph *graph = stream->capture;
    if (graph->invalid) {
        sim_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    keep_op(graph, op);
    stream->capture_last = graph->count;
    stream->capture_others = false;
    return CUDA_SUCCESS;
}

struct conflict {
    const struct sim_context *ctx;
    bool invalidate;
    bool found;
};

static void find_conflict(struct sim_object *object, void *data) {
    struct sim_graph *graph = (struct sim_graph *)object;
    struct conflict *search = data;
    if (graph->capturing && !graph->origin->non_blocking && graph->origin->ctx == search->ctx) {
        search->found = true;
        graph->invalid |= search->invalidate;
    }
}

/* Work in the legacy stream would depend on the capturing stream, which ends its capture; a question does not. */
bool sim_capture_legacy_conflict(const struct sim_context *ctx, bool work) {
    struct conflict search = {ctx, work, false};
    sim_object_each(SIM_GRAPH, find_conflict, &search);
    return search.found;
}

CUresult sim_capture_record(struct sim_event *event, struct sim_stream *stream) {
    if (stream->capture->invalid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    event->capture = stream->capture;
    event->capture_over = false;
    event->capture_stream = stream;
    event->capture_at = stream->capture_last;
    return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool *done_out) {
    *done_out = event->capture != NULL;
    if (event->capture == NULL && stream->capture != NULL) {
        stream->capture->invalid = true;
        *done_out = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->capture == NULL) {
        return CUDA_SUCCESS;
    }
    if (stream->capture != NULL && stream->capture != event->capture) {
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->capture == NULL) {
        stream->capture = event->capture;
        stream->capture_last = 0; /* a fork without work need not be joined */
        stream->capture_joined = 0;
    }
    if (event->capture_stream != stream && event->capture_stream->capture_joined < event->capture_at) {
        event->capture_stream->capture_joined = event->capture_at;
    }
    stream->capture_others |= event->capture_stream != stream;
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (stream == stream->ctx->legacy) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NULL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return stream->capture != NULL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        sim_die("out of host memory");
    }
    sim_object_add(&graph->object, SIM_GRAPH);
    graph->origin = stream;
    graph->mode = mode;
    graph->thread = pthread_self();
    graph->capture_id = ++next_capture_id;
    graph->capturing = true;
    stream->capture = graph;
    stream->capture_last = 0;
    stream->capture_others = false;
    stream->capture_joined = 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    SIM_RUN(cuStreamBeginCapture_v2, begin(hStream, mode));
}

static void free_graph(struct sim_graph *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        sim_op_free(graph->ops[i]);
    }
    sim_object_remove(&graph->object);
    free(graph->ops);
    free(graph);
}

static void forget_event(struct sim_object *object, void *graph) {
    struct sim_event *event = (struct sim_event *)object;
    if (event->capture == graph) {
        event->capture = NULL;
        event->capture_over = true;
    }
}

/* Every stream leaves the capture; false if one was never joined to the origin. */
static bool leave(struct sim_graph *graph) {
    bool joined = true;
    for (struct sim_stream *s = graph->origin->ctx->streams; s != NULL; s = s->next) {
        if (s->capture == graph) {
            joined &= s == graph->origin || s->capture_joined >= s->capture_last;
            s->capture = NULL;
        }
    }
    sim_object_each(SIM_EVENT, forget_event, graph);
    graph->capturing = false;
    return joined;
}

static CUresult end(CUstream handle, CUgraph *graph_out) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (graph_out != NULL) {
        *graph_out = NULL;
    }
    struct sim_graph *graph = stream->capture;
    if (graph == NULL || graph_out == NULL) {
        return graph == NULL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    }
    if (graph->origin != stream) {
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (graph->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(graph->thread, pthread_self())) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    bool joined = leave(graph);
    if (graph->invalid || !joined) {
        rc = graph->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        free_graph(graph);
        return rc;
    }
    *graph_out = (CUgraph)(uintptr_t)graph->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    SIM_RUN_RELEASE(cuStreamEndCapture, end(hStream, phGraph));
}

static CUresult status_of(CUstream handle, CUstreamCaptureStatus *status_out, cuuint64_t *id_out) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL || status_out == NULL) {
        return stream == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    if (stream == stream->ctx->legacy && sim_capture_legacy_conflict(stream->ctx, false)) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    const struct sim_graph *graph = stream->capture;
    *status_out = graph == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
                  : graph->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (graph != NULL && id_out != NULL) {
        *id_out = graph->capture_id;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
    SIM_RUN(cuStreamIsCapturing, status_of(hStream, captureStatus, NULL));
}

SIM_ENTRY cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out) {
    SIM_RUN(cuStreamGetCaptureInfo, status_of(hStream, captureStatus_out, id_out));
}

/* What the next operation of the stream would depend on, where that is the stream's last one alone; else nothing. */
static CUresult dependencies_of(CUstream handle, const CUgraphNode **nodes_out, size_t *count_out) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    const struct sim_graph *graph = stream == NULL ? NULL : stream->capture;
    const bool one = graph != NULL && stream->capture_last > 0 && !stream->capture_others;
    if (one) {
        stream->capture_node = (CUgraphNode)(void *)graph->ops[stream->capture_last - 1];
    }
    if (nodes_out != NULL && one) {
        *nodes_out = &stream->capture_node;
    }
    if (count_out != NULL) {
        *count_out = one ? 1 : 0;
    }
    return rc;
}

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,
                             const CUgraphNode **nodes_out, size_t *count_out) {
    CUresult rc = status_of(handle, status_out, id_out);
    return rc == CUDA_SUCCESS ? dependencies_of(handle, nodes_out, count_out) : rc;
}

SIM_ENTRY cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                    CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                    size_t *numDependencies_out) {
    if (graph_out != NULL) {
        sim_die("the graph of a capture under way is not simulated");
    }
    SIM_RUN(cuStreamGetCaptureInfo_v2,
            capture_info(hStream, captureStatus_out, id_out, dependencies_out, numDependencies_out));
}

struct node_search {
    const void *node;
    struct sim_op *found;
    size_t later; /* operations captured since */
};

static void find_node(struct sim_object *object, void *data) {
    const struct sim_graph *graph = (const struct sim_graph *)object;
    struct node_search *search = data;
    for (size_t i = 0; i < graph->count; i++) {
        if (graph->ops[i] == search->node) {
            search->found = graph->ops[i];
            search->later = graph->count - 1 - i;
        }
    }
}

/* Also while the graph is being captured. */
static CUresult set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    struct node_search search = {node, NULL, 0};
    sim_object_each(SIM_GRAPH, find_node, &search);
    if (search.found == NULL || search.found->kind != SIM_OP_KERNEL || params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_kernel_change(search.found, params);
}

SIM_ENTRY cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams) {
    SIM_RUN(cuGraphKernelNodeSetParams_v2, set_params(hNode, nodeParams));
}

/* All that was captured later counts, on whatever stream. */
static CUresult dependents_of(CUgraphNode node, const CUgraphNode *nodes_out, size_t *count_out) {
    struct node_search search = {node, NULL, 0};
    sim_object_each(SIM_GRAPH, find_node, &search);
    if (search.found == NULL || count_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (nodes_out != NULL) {
        sim_die("only the number of a node's dependents is simulated");
    }
    *count_out = search.later;
    return CUDA_SUCCESS;
}

/* cuGraphNodeGetDependentNodes, whose name headers give to a later version. */
SIM_ENTRY sim_graph_dependents(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) {
    SIM_RUN(sim_graph_dependents, dependents_of(hNode, dependentNodes, numDependentNodes));
}

static CUresult exchange(CUstreamCaptureMode *mode) {
    if (mode == NULL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    SIM_RUN_RELEASE(cuThreadExchangeStreamCaptureMode, exchange(mode));
}

static struct sim_graph *find_graph(CUgraph handle, CUresult *rc_out) {
    return sim_object_find((uint64_t)(uintptr_t)handle, SIM_GRAPH, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE,
                           rc_out);
}

static CUresult graph_create(CUgraph *graph_out, unsigned flags) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    if (graph_out == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        sim_die("out of host memory");
    }
    sim_object_add(&graph->object, SIM_GRAPH);
    *graph_out = (CUgraph)(uintptr_t)graph->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
    SIM_RUN(cuGraphCreate, graph_create(phGraph, flags));
}

static CUresult add_kernel_node(CUgraphNode *node_out, CUgraph handle, size_t dependencies,
                                const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    CUresult rc;
    struct sim_op *op = NULL;
    struct sim_graph *graph = find_graph(handle, &rc);
    if (graph == NULL || node_out == NULL || params == NULL) {
        return graph == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    if (dependencies > 0 || graph->count > 0) {
        sim_die("only graphs of one node are built by hand here");
    }
    rc = sim_kernel_new(params, &op);
    if (rc == CUDA_SUCCESS) {
        keep_op(graph, op);
        *node_out = (CUgraphNode)(void *)op;
    }
    return rc;
}

SIM_ENTRY cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams) {
    (void)dependencies;
    SIM_RUN(cuGraphAddKernelNode_v2, add_kernel_node(phGraphNode, hGraph, numDependencies, nodeParams));
}

static CUresult instantiate(CUgraphExec *exec_out, CUgraph handle) {
    CUresult rc;
    const struct sim_graph *graph = find_graph(handle, &rc);
    if (graph == NULL || exec_out == NULL) {
        return graph == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    rc = sim_capture_check(); /* of other streams: it takes memory */
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    struct sim_exec *exec = calloc(1, sizeof *exec);
    struct sim_op **ops = calloc(graph->count + 1, sizeof *ops);
    const void **nodes = calloc(graph->count + 1, sizeof *nodes);
    if (exec == NULL || ops == NULL || nodes == NULL) {
        sim_die("out of host memory");
    }
    for (size_t i = 0; i < graph->count; i++) {
        ops[i] = sim_op_clone(graph->ops[i]);
        nodes[i] = graph->ops[i];
    }
    exec->ops = ops;
    exec->nodes = nodes;
    exec->count = graph->count;
    sim_object_add(&exec->object, SIM_EXEC);
    *exec_out = (CUgraphExec)(uintptr_t)exec->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) {
    (void)flags;
    SIM_RUN(cuGraphInstantiateWithFlags, instantiate(phGraphExec, hGraph));
}

static struct sim_exec *find_exec(CUgraphExec handle, CUresult *rc_out) {
    return sim_object_find((uint64_t)(uintptr_t)handle, SIM_EXEC, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE,
                           rc_out);
}

static CUresult exec_set_params(CUgraphExec handle, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    CUresult rc;
    struct sim_exec *exec = find_exec(handle, &rc);
    for (size_t i = 0; exec != NULL && i < exec->count; i++) {
        if (exec->nodes[i] == (const void *)node) {
            return exec->ops[i]->kind == SIM_OP_KERNEL && params != NULL ? sim_kernel_change(exec->ops[i], params)
                                                                         : CUDA_ERROR_INVALID_VALUE;
        }
    }
    return exec == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams) {
    SIM_RUN(cuGraphExecKernelNodeSetParams_v2, exec_set_params(hGraphExec, hNode, nodeParams));
}

static CUresult enqueue_record(struct sim_stream *stream, enum sim_op_kind kind, struct sim_record *record) {
    struct sim_op *op = sim_op_new(kind, 0);
    op->u.event.record = record;
    record->refs++;
    return sim_enqueue(stream, op);
}

/* Launches of one graph run one after the other, whatever streams they are on. A launch that is captured does not. */
static CUresult follow_last(const struct sim_exec *exec, struct sim_stream *stream) {
    return exec->last == NULL || stream->capture != NULL ? CUDA_SUCCESS
                                                         : enqueue_record(stream, SIM_OP_AWAIT, exec->last);
}

static CUresult become_last(struct sim_exec *exec, struct sim_stream *stream) {
    if (stream->capture != NULL) {
        return CUDA_SUCCESS;
    }
    sim_record_unref(exec->last);
    exec->last = calloc(1, sizeof *exec->last);
    if (exec->last == NULL) {
        sim_die("out of host memory");
    }
    exec->last->refs = 1;
    return enqueue_record(stream, SIM_OP_RECORD, exec->last);
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle) {
    CUresult rc;
    struct sim_exec *exec = find_exec(handle, &rc);
    struct sim_stream *stream = exec == NULL ? NULL : sim_stream_find(stream_handle, &rc);
    if (stream != NULL) {
        rc = follow_last(exec, stream);
    }
    for (size_t i = 0; stream != NULL && i < exec->count && rc == CUDA_SUCCESS; i++) {
        struct sim_op *op = sim_op_clone(exec->ops[i]);
        rc = op->kind == SIM_OP_RECORD || op->kind == SIM_OP_AWAIT ? sim_event_bind(op) : CUDA_SUCCESS;
        if (rc == CUDA_SUCCESS) {
            rc = sim_enqueue(stream, op);
        } else {
            sim_op_free(op);
        }
    }
    return stream != NULL && rc == CUDA_SUCCESS ? become_last(exec, stream) : rc;
}

SIM_ENTRY cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    SIM_RUN(cuGraphLaunch, launch(hGraphExec, hStream));
}

static CUresult exec_destroy(CUgraphExec handle) {
    CUresult rc;
    struct sim_exec *exec = find_exec(handle, &rc);
    if (exec != NULL) {
        for (size_t i = 0; i < exec->count; i++) {
            sim_op_free(exec->ops[i]);
        }
        sim_object_remove(&exec->object);
        sim_record_unref(exec->last);
        free(exec->nodes);
        free(exec->ops);
        free(exec);
    }
    return rc;
}

SIM_ENTRY cuGraphExecDestroy(CUgraphExec hGraphExec) {
    SIM_RUN_RELEASE(cuGraphExecDestroy, exec_destroy(hGraphExec));
}

static CUresult graph_destroy(CUgraph handle) {
    CUresult rc;
    struct sim_graph *graph = find_graph(handle, &rc);
    if (graph != NULL) {
        free_graph(graph);
    }
    return rc;
}

SIM_ENTRY cuGraphDestroy(CUgraph hGraph) {
    SIM_RUN_RELEASE(cuGraphDestroy, graph_destroy(hGraph));
}
