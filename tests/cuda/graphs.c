// Capture and replay: what is queued goes into a graph's list, which a launch queues again.
#include "runtime.h"

static __thread enum cudaStreamCaptureMode mode_now;
static int captures, global_captures;
static unsigned long long capture_ids;

cudaError_t forbidden(const char *call) {
  if (captures == 0 || global_captures == 0 || mode_now == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (int i = 0; i < streams_in_all(); i++) {
    if (stream_at(i)->capturing) stream_at(i)->capturing->valid = 0;
  }
  return wrong(cudaErrorStreamCaptureUnsupported, "%s while a stream is capturing", call);
}

void standin_captured(void *handle, int *graphs) {
  LOCK();
  Graph *g = ((Stream *)handle)->capturing;
  int known = 0;
  for (int i = 0; g && i < g->user_count; i++) known |= g->users[i] == graphs;
  if (g && !known) {
    if (g->user_count == MOST_USERS) abort();
    g->users[g->user_count++] = graphs;
    ++*graphs;
  }
  UNLOCK();
}

/** One handle fewer: the last one takes the graph with it. */
static void let_go(Graph *g) {
  LOCK();
  if (--g->handles <= 0) {
    for (int i = 0; i < g->user_count; i++) --*g->users[i];
    g->user_count = 0;
  }
  UNLOCK();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
  CALL(cudaStreamBeginCapture);
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamBeginCapture");
  cudaError_t code = s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
  if (s && handle == NULL) code = wrong(cudaErrorStreamCaptureUnsupported, "capture of the default stream");
  else if (s) {
    Graph *g = calloc(1, sizeof *g);
    g->valid = 1;
    s->capturing = g;
    s->capture_id = ++capture_ids;
    captures++;
    if (mode == cudaStreamCaptureModeGlobal) global_captures++;
  }
  UNLOCK();
  return code;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out) {
  cudaError_t code = (cudaError_t)standin_call("cudaStreamEndCapture"); // which fails, and ends the capture all the same
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamEndCapture");
  Graph *ended = NULL;
  *out = NULL;
  if (!s || !s->capturing) code = wrong(cudaErrorIllegalState, "cudaStreamEndCapture without a capture");
  else {
    Graph *g = s->capturing;
    if (!g->valid) code = failed(cudaErrorStreamCaptureInvalidated);
    else if (!code) *out = (cudaGraph_t)g;
    g->handles = 1;
    for (int i = 0; i < streams_in_all(); i++) if (stream_at(i)->capturing == g) stream_at(i)->capturing = NULL;
    captures--;
    if (global_captures) global_captures--;
    standin_count("graph", "captured", g->count);
    ended = *out ? NULL : g;
  }
  UNLOCK();
  if (ended) let_go(ended);
  return code;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
  const Stream *s = (const Stream *)handle;
  *status = s && s->magic == STREAM_MAGIC && s->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo // CUDA 12's headers give this name to the call without edges
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#endif
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **before, const cudaGraphEdgeData **edges,
                                     size_t *count) {
  cudaStreamIsCapturing(handle, status);
  const Stream *s = *status == cudaStreamCaptureStatusActive ? (const Stream *)handle : NULL;
  if (id) *id = s ? s->capture_id : 0;
  if (graph) *graph = s ? (cudaGraph_t)s->capturing : NULL;
  if (before) *before = NULL;
  if (edges) *edges = NULL;
  if (count) *count = 0;
  return cudaSuccess;
}

#if CUDART_VERSION < 13000
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **before, size_t *count) {
  return cudaStreamGetCaptureInfo_v3(handle, status, id, graph, before, NULL, count);
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  enum cudaStreamCaptureMode before = mode_now;
  mode_now = *mode;
  *mode = before;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
  (void)flags;
  CALL(cudaGraphInstantiate);
  LOCK();
  ((Graph *)graph)->handles++;
  UNLOCK();
  *out = (cudaGraphExec_t)graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}

/** The host may not touch page-locked memory that a replay will read or write. */
static void guard_copy(Op *op) {
  if (op->kind != COPY && op->kind != COPY_ROWS) return;
  Block *to = block_of(op->to), *from = block_of(op->from);
  if (to && to->live && to->sort != DEVICE) guard(op->target = to, 1, 0);
  if (from && from->live && from->sort != DEVICE) guard(op->source = from, 0, 1);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  CALL(cudaGraphLaunch);
  LOCK();
  Stream *s = stream_of(stream, "cudaGraphLaunch");
  Graph *g = (Graph *)handle;
  if (s) {
    standin_count("graph", "launched", g->count);
    tick_clock(s);
    for (Access *a = g->accesses; a; a = a->next) access_bytes(s, a->from, a->to - a->from, a->write, a->what);
    for (Op *op = g->first; op; op = op->next) {
      Op again = *op;
      if (op->staged) memcpy(again.staged = malloc(op->bytes), op->staged, op->bytes);
      if (settings.late) guard_copy(&again);
      queue(s, again);
    }
  }
  UNLOCK();
  return s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count) {
  Graph *g = (Graph *)handle;
  size_t i = 0;
  for (Op *op = g->first; nodes && op && i < *count; op = op->next) nodes[i++] = (cudaGraphNode_t)op;
  *count = g->count;
  return cudaSuccess;
}

// A captured operator's own memory is kept for the process: a test captures few.
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  CALL(cudaGraphDestroy);
  let_go((Graph *)graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  CALL(cudaGraphExecDestroy);
  let_go((Graph *)graph);
  return cudaSuccess;
}
