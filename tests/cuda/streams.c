// Streams and events of the CUDA stand-in: queues that run at once, or late, when somebody waits for them.
// What comes before what is known by vector clocks, whenever the work is run.
#include "runtime.h"
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static Stream defaults[MOST_DEVICES];
static Stream *made[MOST_STREAMS];
static int made_count;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;

int streams_in_all(void) { return made_count + settings.devices; }
Stream *stream_at(int i) { return i < made_count ? made[i] : &defaults[i - made_count]; }

Stream *stream_of(cudaStream_t handle, const char *call) {
  if (handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    Stream *s = &defaults[device_now];
    if (!s->magic) *s = (Stream){.magic = STREAM_MAGIC, .device = device_now};
    return s;
  }
  Stream *s = (Stream *)handle;
  for (int i = 0; i < streams_in_all(); i++) {
    if (stream_at(i) != s) continue;
    if (s->magic == STREAM_MAGIC) return s;
    standin_violation("%s on a destroyed stream", call);
    return NULL;
  }
  standin_violation("%s: %p is no stream", call, (void *)handle);
  return NULL;
}

/** Events are never given back, so that a stale handle is known; a wild one is found out by its page. */
static Event *event_of(cudaEvent_t handle, const char *call) {
  Event *e = (Event *)handle;
  unsigned char there;
  int wild = e == NULL || ((uintptr_t)e & 7) || mincore((void *)((uintptr_t)e & ~4095ul), 1, &there);
  if (!wild && e->magic == EVENT_MAGIC) return e;
  if (!wild && e->magic == DEAD) standin_violation("%s on a destroyed event", call);
  else standin_violation("%s: %p is no event", call, (void *)handle);
  return NULL;
}

// ---- what comes before what: a stream is a lane of the clocks, and the host knows what it has waited for

#define KEPT 4096
static Clock host;
static int lanes = 1; // 0: none yet
static Access kept[KEPT];
/** Theirs, close together: every access is compared with all. */
static struct {
  const char *from, *to;
} spans[KEPT];
static int kept_at, kept_count;

static void join(Clock *to, const Clock *from) {
  for (int i = 0; i < LANES; i++) if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
}
void host_follows(const Clock *clock) { join(&host, clock); }

void tick_clock(Stream *s) {
  if (!s->lane) s->lane = lanes < LANES - 1 ? lanes++ : LANES - 1;
  join(&s->clock, &host);
  s->clock.at[s->lane]++;
}

static void keep_in_graph(Graph *g, const Access *a) {
  Access *own = malloc(sizeof *own);
  *own = *a;
  own->next = g->accesses;
  g->accesses = own;
}

static int unordered(const Stream *s, const Access *a, const Access *now) {
  if (a->lane == now->lane || now->from >= a->to || a->from >= now->to) return 0;
  return (now->write || a->write) && s->clock.at[a->lane] < a->clock;
}
static void told(const Access *now, Access *a) {
  standin_violation("RACE: %s (%s) on stream %d isn't ordered behind %s (%s) on stream %d", now->what,
                    now->write ? "writes" : "reads", now->stream, a->what, a->write ? "writes" : "reads", a->stream);
  a->clock = 0; // told once
}

void access_bytes(Stream *s, const void *at, size_t bytes, int write, const char *what) {
  const char *from = at, *to = from + bytes;
  if (!bytes) return;
  Access now = {.from = from, .to = to, .write = write, .lane = s->lane, .stream = s->id, .clock = s->clock.at[s->lane]};
  snprintf(now.what, sizeof now.what, "%s", what);
  if (s->capturing) {
    for (Access *a = s->capturing->accesses; a; a = a->next) if (unordered(s, a, &now)) told(&now, a);
    return keep_in_graph(s->capturing, &now);
  }
  Access *same = NULL;
  for (int i = 0; i < kept_count; i++) {
    if (from >= spans[i].to || spans[i].from >= to) continue;
    Access *a = &kept[i];
    if (a->lane == s->lane) {
      if (a->from == from && a->to == to && a->write == write) same = a;
      continue;
    }
    if (unordered(s, a, &now)) told(&now, a);
  }
  if (!same) {
    same = &kept[kept_at];
    kept_at = (kept_at + 1) % KEPT;
    if (kept_count < KEPT) kept_count++;
  }
  *same = now;
  spans[same - kept].from = from;
  spans[same - kept].to = to;
}

void forget_accesses(const void *at, size_t bytes) {
  for (int i = 0; i < kept_count; i++) {
    if (spans[i].from < (const char *)at + bytes && (const char *)at < spans[i].to) spans[i].from = spans[i].to = NULL;
  }
}

void standin_access(void *stream, const void *at, size_t bytes, int write, const char *what, int first) {
  LOCK();
  Stream *s = stream_of(stream, what);
  if (s && first) tick_clock(s);
  if (s && at) access_bytes(s, at, bytes, write, what);
  UNLOCK();
}

// ---- running what is queued

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void perform(Op *op) {
  guard(op->target, -1, 0);
  if (op->target) mprotect(op->target->at, op->target->size, PROT_READ | PROT_WRITE);
  switch (op->kind) {
    case COPY: memmove(standin_bytes(op->to), op->staged ? op->staged : standin_bytes(op->from), op->bytes); break;
    case COPY_ROWS:
      for (size_t i = 0; i < op->rows; i++) {
        memmove((char *)standin_bytes(op->to) + i * op->to_pitch, (char *)standin_bytes(op->from) + i * op->from_pitch, op->bytes);
      }
      break;
    case SET: memset(standin_bytes(op->to), op->value, op->bytes); break;
    case KERNEL: break;
    case HOST:
      UNLOCK();
      op->run(op->data);
      pthread_mutex_lock(&standin_lock);
      break;
    case RECORD:
      if (op->ticket <= op->event->done) break;
      op->event->done = op->ticket;
      op->event->at = now_ms();
      break;
    case WAIT:
      if (op->event->done < op->ticket && op->event->stream) run_stream(op->event->stream, op->event, op->ticket);
      break;
  }
  guard(op->target, 0, 0);
  guard(op->source, 0, -1);
}

void run_stream(Stream *s, Event *until, uint64_t ticket) {
  while (s->running && !pthread_equal(s->runner, pthread_self())) { // that thread may stop before
    pthread_cond_wait(&progress, &standin_lock);
    if (until && until->done >= ticket) return;
  }
  if (s->running) return; // a host function that calls back
  s->running = 1;
  s->runner = pthread_self();
  while (s->first && !(until && until->done >= ticket)) {
    Op *op = s->first;
    s->first = op->next;
    if (!s->first) s->last = NULL;
    perform(op);
    free(op->staged);
    free(op);
    pthread_cond_broadcast(&progress);
  }
  s->running = 0;
  pthread_cond_broadcast(&progress);
}

void run_device(int device) {
  for (int i = 0; i < streams_in_all(); i++) {
    Stream *s = stream_at(i);
    if (s->magic == STREAM_MAGIC && s->device == device) run_stream(s, NULL, 0);
  }
}

/** A device goes on by itself: other processes wait for its work. */
void *ticking(void *none) {
  for (;;) {
    usleep(1000 * (settings.tick_ms > 0 ? settings.tick_ms : 100));
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; settings.late && settings.tick_ms > 0 && i < streams_in_all(); i++) {
      Stream *s = stream_at(i);
      if (s->magic == STREAM_MAGIC && s->first && !s->running) run_stream(s, NULL, 0);
    }
    UNLOCK();
  }
  return none;
}

void queue(Stream *s, Op op) {
  if (op.kind == RECORD) {
    tick_clock(s);
    op.event->clock = s->clock;
  } else if (op.kind == WAIT) {
    tick_clock(s);
    join(&s->clock, &op.event->clock);
  }
  Op *own = malloc(sizeof *own);
  *own = op;
  own->next = NULL;
  Op **first = &s->first, **last = &s->last;
  if (s->capturing) {
    first = &s->capturing->first;
    last = &s->capturing->last;
    s->capturing->count++;
  }
  if (*last) (*last)->next = own;
  else *first = own;
  *last = own;
  if (!s->capturing && !settings.late) run_stream(s, NULL, 0);
}

void standin_host_work(const char *name, void *stream, void (*run)(void *), void *data) {
  LOCK();
  Stream *s = stream_of(stream, name);
  if (s) queue(s, (Op){.kind = HOST, .name = name, .run = run, .data = data});
  UNLOCK();
}

// ---- the interface of streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  CALL(cudaStreamCreateWithPriority);
  LOCK();
  Stream *s = calloc(1, sizeof *s);
  *s = (Stream){.magic = STREAM_MAGIC, .id = made_count + 1, .device = device_now, .priority = priority, .flags = flags};
  if (made_count == MOST_STREAMS) abort();
  made[made_count++] = s;
  gauge("streams", 1);
  *out = (cudaStream_t)s;
  UNLOCK();
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithPriority(out, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  CALL(cudaStreamDestroy);
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamDestroy");
  if (s) {
    run_stream(s, NULL, 0);
    s->magic = DEAD;
    gauge("streams", -1);
  }
  UNLOCK();
  return s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
  *priority = handle ? ((Stream *)handle)->priority : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CALL(cudaStreamSynchronize);
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamSynchronize");
  cudaError_t code = s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
  if (s && s->capturing) {
    s->capturing->valid = 0;
    code = wrong(cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize of a capturing stream");
  } else if (s) {
    standin_count("wait", "stream", 0);
    run_stream(s, NULL, 0);
    host_follows(&s->clock);
  }
  UNLOCK();
  return code;
}

/** Whoever asks again and again is told yes in the end. */
static int patience(void) {
  static int asked;
  return ++asked % 3 == 0;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CALL(cudaStreamQuery);
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamQuery");
  cudaError_t code = !s ? failed(cudaErrorInvalidResourceHandle) : s->first ? cudaErrorNotReady : cudaSuccess;
  if (s && s->first && patience()) run_stream(s, NULL, 0);
  if (s && !code) host_follows(&s->clock);
  UNLOCK();
  return code;
}

cudaError_t cudaDeviceSynchronize(void) {
  CALL(cudaDeviceSynchronize);
  LOCK();
  cudaError_t code = forbidden("cudaDeviceSynchronize");
  if (!code) {
    standin_count("wait", "device", 0);
    run_device(device_now);
    for (int i = 0; i < streams_in_all(); i++) {
      if (stream_at(i)->device == device_now) host_follows(&stream_at(i)->clock);
    }
  }
  UNLOCK();
  return code;
}

/** Within a capture. */
static void order_behind(Stream *s, const Event *e) {
  tick_clock(s);
  join(&s->clock, &e->clock);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  (void)flags;
  CALL(cudaStreamWaitEvent);
  LOCK();
  Stream *s = stream_of(handle, "cudaStreamWaitEvent");
  Event *e = event_of(event, "cudaStreamWaitEvent");
  if (s && e) {
    if (e->captured && !s->capturing) s->capturing = e->captured; // it joins the capture
    if (e->captured) order_behind(s, e);
    if (!s->capturing) standin_count("order", "a stream waits for an event", 0);
    if (e->queued && !s->capturing) queue(s, (Op){.kind = WAIT, .event = e, .ticket = e->queued});
  }
  UNLOCK();
  return s && e ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

// ---- the interface of events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  CALL(cudaEventCreateWithFlags);
  LOCK();
  Event *e = calloc(1, sizeof *e);
  *e = (Event){.magic = EVENT_MAGIC, .flags = flags, .device = device_now};
  gauge("events", 1);
  *out = (cudaEvent_t)e;
  UNLOCK();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  CALL(cudaEventDestroy);
  LOCK();
  Event *e = event_of(handle, "cudaEventDestroy");
  if (e) {
    e->magic = DEAD; // what is queued still knows it
    gauge("events", -1);
  }
  UNLOCK();
  return e ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned flags) {
  CALL(cudaEventRecord);
  LOCK();
  Stream *s = stream_of(stream, "cudaEventRecord");
  Event *e = event_of(handle, "cudaEventRecord");
  cudaError_t code = s && e ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
  if (code) ;
  else if (s->device != e->device) code = wrong(cudaErrorInvalidResourceHandle, "an event of device %d recorded on a stream of device %d", e->device, s->device);
  else if (s->capturing && !flags) {
    e->captured = s->capturing;
    tick_clock(s);
    e->clock = s->clock;
  }
  else {
    if (e->done < e->queued && e->stream && e->stream != s) run_stream(e->stream, e, e->queued); // as if it had been quick
    if (!s->capturing) standin_count("order", "an event is recorded", 0);
    e->captured = NULL;
    e->stream = s;
    e->queued++;
    queue(s, (Op){.kind = RECORD, .event = e, .ticket = e->queued});
  }
  UNLOCK();
  return code;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) { return cudaEventRecordWithFlags(event, s, 0); }

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CALL(cudaEventQuery);
  LOCK();
  Event *e = event_of(handle, "cudaEventQuery");
  cudaError_t code = e ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
  if (e && e->captured) code = wrong(cudaErrorCapturedEvent, "cudaEventQuery of a captured event");
  else if (e && e->done < e->queued) {
    if (patience()) run_stream(e->stream, e, e->queued);
    code = e->done < e->queued ? cudaErrorNotReady : cudaSuccess;
  }
  if (e && !code) host_follows(&e->clock);
  UNLOCK();
  return code;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CALL(cudaEventSynchronize);
  LOCK();
  Event *e = event_of(handle, "cudaEventSynchronize");
  if (e) {
    standin_count("wait", "event", 0);
    if (e->done < e->queued) run_stream(e->stream, e, e->queued);
    host_follows(&e->clock);
  }
  UNLOCK();
  return e ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  CALL(cudaEventElapsedTime);
  LOCK();
  Event *a = event_of(from, "cudaEventElapsedTime"), *b = event_of(to, "cudaEventElapsedTime");
  cudaError_t code = cudaSuccess;
  if (!a || !b) code = failed(cudaErrorInvalidResourceHandle);
  else if ((a->flags | b->flags) & cudaEventDisableTiming) code = wrong(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime of an event without timing");
  else if (!a->queued || !b->queued) code = wrong(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime of an event that was never recorded");
  else if (a->done < a->queued || b->done < b->queued) code = cudaErrorNotReady;
  else if (ms) *ms = (float)(b->at - a->at);
  UNLOCK();
  return code;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t run, void *data) {
  CALL(cudaLaunchHostFunc);
  LOCK();
  Stream *s = stream_of(stream, "cudaLaunchHostFunc");
  if (s) queue(s, (Op){.kind = HOST, .run = run, .data = data});
  UNLOCK();
  return s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}
