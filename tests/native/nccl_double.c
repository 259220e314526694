// A stand-in for libnccl.so.2 and libcudart.so that needs no GPU: NCCL's C interface and CUDA's events, on host memory.
// Ranks are processes that meet in shared memory. It executes what is queued in a thread, in order, as a stream does, and
// checks what a real NCCL would punish with wrong numbers or a hang: calls out of order, ranks that do different things,
// a stream that does not wait for what computes, buffers that change or go away before they were used.
//
// NCCL_DOUBLE_FAIL=allreduce:3 (the third one reports an error), NCCL_DOUBLE_HANG=allreduce:3 (it never ends), on the rank
// NCCL_DOUBLE_RANK only, if set; NCCL_DOUBLE_DELAY=MS before each; NCCL_DOUBLE_VERSION=21300; NCCL_DOUBLE_FOLDER=/where/to/meet.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { CHUNK = 1 << 20, MOST_RANKS = 8, MOST_OPS = 1024 };
typedef struct { char bytes[128]; } Id;

// ---- shared by the ranks

typedef struct {
  _Atomic int attached, arrived, turn;
  char doing[MOST_RANKS][96];
  char data[MOST_RANKS][CHUNK];
} Shared;

typedef struct Comm {
  Shared *shared;
  int rank, world, closing;
  _Atomic int state, aborted, busy; // busy: 1 from the first collective until its "connection" is there
  _Atomic int callers;
  int counts[5];
} Comm;

static char last_error[512];

static int broken(Comm *c, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  if (c) c->state = code;
  return code;
}

static void nap(double ms) {
  struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000 * (long)(ms / 1000)) * 1e6)};
  nanosleep(&t, NULL);
}

/** 0, or -1 when aborted. */
static int barrier(Comm *c) {
  int turn = c->shared->turn;
  if (atomic_fetch_add(&c->shared->arrived, 1) == c->world - 1) {
    c->shared->arrived = 0;
    c->shared->turn++;
    return 0;
  }
  while (c->shared->turn == turn) {
    if (c->aborted) return -1;
    nap(0.05);
  }
  return 0;
}

/** Whether the memory is there: a pipe refuses to read what is not mapped. */
static int mapped(const void *at, size_t bytes) {
  static int ends[2] = {0, 0};
  char byte;
  if (ends[1] == 0 && pipe(ends) != 0) return 1;
  for (size_t i = 0; i < bytes; i += 4096) {
    if (write(ends[1], (const char *)at + i, 1) != 1 || read(ends[0], &byte, 1) != 1) return 0;
  }
  return 1;
}

// ---- the stream: one for all, because a test has one

enum { MARK, ALLREDUCE, BROADCAST, ALLGATHER, REDUCESCATTER };
static const char *NAMES[] = {"mark", "allreduce", "broadcast", "allgather", "reducescatter"};
typedef struct { _Atomic int done; int timed; double at; } Event;
typedef struct {
  int kind, type, op;
  Comm *comm;
  const char *from;
  char *to;
  size_t count;
  uint64_t sum;
  Event *event;
} Op;

static Op ops[MOST_OPS];
static _Atomic long queued, executed;
static pthread_t worker;
static const uint64_t COMPUTING = 1; // the stream that is computed on: the host itself, so never behind
static int waited_for_ready;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static size_t width(int type) { // ncclDataType_t
  static const size_t WIDTHS[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return WIDTHS[type];
}

static size_t bytes_read(const Op *o) {
  size_t bytes = o->count * width(o->type);
  if (o->kind == REDUCESCATTER) return bytes * o->comm->world;
  return o->kind == BROADCAST && o->comm->rank != o->op ? 0 : bytes;
}

static size_t bytes_written(const Op *o) {
  return o->count * width(o->type) * (o->kind == ALLGATHER ? o->comm->world : 1);
}

static uint64_t checksum(const char *at, size_t bytes) {
  uint64_t sum = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ (unsigned char)at[i]) * 1099511628211u;
  return sum;
}

/** What was queued before will write there: what is in it now says nothing. */
static int written_before(const char *at, size_t bytes) {
  for (long i = executed; i < queued; i++) {
    const Op *o = &ops[i % MOST_OPS];
    if (o->kind != MARK && o->to < at + bytes && at < o->to + bytes_written(o)) return 1;
  }
  return 0;
}

#define REDUCE(T)                                                                              \
  for (size_t i = 0; i < n; i++) {                                                             \
    T a = ((T *)c->shared->data[0])[i];                                                        \
    for (int r = 1; r < c->world; r++) {                                                       \
      T b = ((T *)c->shared->data[r])[i];                                                      \
      a = op == 0 ? a + b : op == 2 ? (a > b ? a : b) : (a < b ? a : b);                       \
    }                                                                                          \
    ((T *)to)[i] = a;                                                                          \
  }

static int reduce(Comm *c, char *to, size_t n, int type, int op) {
  switch (type) {
    case 1: REDUCE(uint8_t) return 0;
    case 2: REDUCE(int32_t) return 0;
    case 4: REDUCE(int64_t) return 0;
    case 7: REDUCE(float) return 0;
    case 8: REDUCE(double) return 0;
  }
  return broken(c, INVALID_ARGUMENT, "the double can't reduce type %d", type);
}

/** Ranks that do different things, which a real NCCL answers with a hang or wrong numbers. */
static int agree(Comm *c, const Op *o) {
  snprintf(c->shared->doing[c->rank], 96, "%s of %zu x type %d, %s %d", NAMES[o->kind], o->count, o->type,
           o->kind == BROADCAST ? "from" : "op", o->op);
  if (barrier(c)) return -1;
  int same = 1;
  for (int r = 1; r < c->world; r++) same &= strcmp(c->shared->doing[0], c->shared->doing[r]) == 0;
  if (!same) broken(c, INVALID_USAGE, "rank 0: %s; rank 1: %s", c->shared->doing[0], c->shared->doing[1]);
  return barrier(c) || !same ? -1 : 0;
}

/** One piece from each rank into its place, then what `o` makes of all. */
static int piece(const Op *o, const char *from, char *to, size_t bytes, int mine) {
  Comm *c = o->comm;
  size_t stride = o->count * width(o->type);
  if (from) memcpy(c->shared->data[c->rank], from, bytes);
  if (barrier(c)) return -1;
  int code = 0;
  if (o->kind == BROADCAST) memcpy(to, c->shared->data[o->op], bytes);
  else if (o->kind == ALLGATHER) {
    for (int r = 0; r < c->world; r++) memcpy(to + r * stride, c->shared->data[r], bytes);
  } else if (mine) code = reduce(c, to, bytes / width(o->type), o->type, o->op);
  return barrier(c) || code ? -1 : 0;
}

static int told(const char *variable, const Op *o) {
  const char *want = getenv(variable), *rank = getenv("NCCL_DOUBLE_RANK");
  char mine[64];
  snprintf(mine, sizeof mine, "%s:%d", NAMES[o->kind], o->comm->counts[o->kind]);
  return want && strcmp(want, mine) == 0 && (!rank || atoi(rank) == o->comm->rank);
}

static int execute(Op *o) {
  Comm *c = o->comm;
  if (c->aborted) return -1;
  if (getenv("NCCL_DOUBLE_DELAY")) nap(atof(getenv("NCCL_DOUBLE_DELAY")));
  o->comm->counts[o->kind]++;
  if (told("NCCL_DOUBLE_FAIL", o)) {
    broken(c, REMOTE_ERROR, "the double was told to fail in %s", getenv("NCCL_DOUBLE_FAIL"));
    return -1;
  }
  if (told("NCCL_DOUBLE_HANG", o)) return -1;
  if (!mapped(o->from, bytes_read(o)) || !mapped(o->to, bytes_written(o))) {
    broken(c, INVALID_ARGUMENT, "a buffer of %s was freed before it was used", NAMES[o->kind]);
    return -1;
  }
  if (o->sum && checksum(o->from, bytes_read(o)) != o->sum) {
    broken(c, INVALID_USAGE, "a buffer of %s was changed between its call and its use", NAMES[o->kind]);
    return -1;
  }
  if (agree(c, o)) return -1;
  size_t bytes = o->count * width(o->type);
  for (int part = 0; part < (o->kind == REDUCESCATTER ? c->world : 1); part++) {
    for (size_t done = 0; done < bytes; done += CHUNK) {
      size_t size = bytes - done < CHUNK ? bytes - done : CHUNK;
      const char *from = bytes_read(o) ? o->from + part * bytes + done : NULL;
      if (piece(o, from, o->to + done, size, o->kind != REDUCESCATTER || part == c->rank)) return -1;
    }
  }
  return 0;
}

/** After a failure nothing ends any more until it is aborted: what a stream does behind a kernel that spins. */
static void *work(void *unused) {
  for (;; executed++) {
    while (executed == queued) nap(0.05);
    Op *o = &ops[executed % MOST_OPS];
    if (o->kind == MARK) {
      o->event->at = now();
      o->event->done = 1;
    } else if (execute(o)) {
      while (!o->comm->aborted) nap(1);
    }
  }
  return unused;
}

static void put(Op op) {
  if (!worker) pthread_create(&worker, NULL, work, NULL);
  while (queued - executed >= MOST_OPS - 1) nap(0.1);
  ops[queued % MOST_OPS] = op;
  queued++;
}

// ---- NCCL's interface

int ncclGetVersion(int *version) {
  const char *other = getenv("NCCL_DOUBLE_VERSION");
  *version = other ? atoi(other) : 23007;
  return OK;
}

int ncclGetUniqueId(Id *id) {
  const char *folder = getenv("NCCL_DOUBLE_FOLDER");
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "%s/meeting-%d", folder ? folder : ".", getpid());
  return OK;
}

const char *ncclGetErrorString(int code) {
  static const char *TEXTS[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                "invalid argument", "invalid usage", "remote process exited or there was a network error",
                                "NCCL operation in progress"};
  return TEXTS[code];
}

const char *ncclGetLastError(Comm *c) { return (void)c, last_error; }

typedef struct { uint64_t size; uint32_t magic, version; int32_t blocking, cga; } Config;

int ncclCommInitRankConfig(Comm **comm, int world, Id id, int rank, Config *config) {
  *comm = NULL;
  if (config->magic != 0xcafebeef || config->size < 20 || config->blocking != 0) {
    return broken(NULL, INVALID_ARGUMENT, "the settings were not initialised");
  }
  if (rank < 0 || rank >= world || world > MOST_RANKS) return broken(NULL, INVALID_ARGUMENT, "rank %d of %d", rank, world);
  int file = open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return broken(NULL, INVALID_ARGUMENT, "no id: %.100s", id.bytes);
  Comm *c = calloc(1, sizeof *c);
  c->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  c->rank = rank;
  c->world = world;
  c->state = IN_PROGRESS;
  if (atomic_fetch_add(&c->shared->attached, 1) == world - 1) unlink(id.bytes);
  *comm = c;
  return IN_PROGRESS;
}

/** Whoever asks ends the job of the last call: a real NCCL reads freed memory where two do so at once. */
int ncclCommGetAsyncError(Comm *c, int *code) {
  if (atomic_fetch_add(&c->callers, 1)) return broken(c, INVALID_USAGE, "two threads call NCCL at once");
  if (c->busy == 1) nap(1);
  atomic_fetch_sub(&c->callers, 1);
  if (c->state == IN_PROGRESS && c->shared->attached == c->world) c->state = OK;
  *code = c->state == OK && c->busy == 1 ? IN_PROGRESS : c->state;
  return OK;
}

static void *connect_ranks(void *comm) {
  nap(20);
  ((Comm *)comm)->busy = 2;
  return NULL;
}

static int collective(int kind, const void *from, void *to, size_t count, int type, int op, Comm *c) {
  if (!c || c->closing || c->aborted) return broken(c, INVALID_USAGE, "%s after the end", NAMES[kind]);
  int state;
  ncclCommGetAsyncError(c, &state);
  if (state == IN_PROGRESS) return broken(c, INVALID_USAGE, "%s before the call before has returned", NAMES[kind]);
  if (state != OK) return state;
  Op o = {kind, type, op, c, from, to, count, 0, NULL};
  if (!waited_for_ready) return broken(c, INVALID_USAGE, "%s does not wait for what computes", NAMES[kind]);
  waited_for_ready = 0;
  if (!mapped(from, bytes_read(&o)) || !mapped(to, bytes_written(&o))) {
    return broken(c, INVALID_ARGUMENT, "%s of memory that is not there", NAMES[kind]);
  }
  if (!written_before(from, bytes_read(&o))) o.sum = checksum(from, bytes_read(&o));
  put(o);
  if (c->busy) return OK;
  c->busy = 1;
  pthread_t thread;
  pthread_create(&thread, NULL, connect_ranks, c);
  pthread_detach(thread);
  return IN_PROGRESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Comm *c, uint64_t stream) {
  return (void)stream, collective(ALLREDUCE, from, to, count, type, op, c);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Comm *c, uint64_t stream) {
  return (void)stream, collective(BROADCAST, from, to, count, type, root, c);
}
int ncclAllGather(const void *from, void *to, size_t count, int type, Comm *c, uint64_t stream) {
  return (void)stream, collective(ALLGATHER, from, to, count, type, 0, c);
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, Comm *c, uint64_t stream) {
  return (void)stream, collective(REDUCESCATTER, from, to, count, type, op, c);
}

static int grouped;
int ncclGroupStart(void) { return grouped++, OK; }
int ncclGroupEnd(void) { return --grouped < 0 ? broken(NULL, INVALID_USAGE, "the end of no group") : OK; }

int ncclCommFinalize(Comm *c) {
  if (executed < queued) return broken(c, INVALID_USAGE, "the end before all was done");
  c->closing = 1;
  return barrier(c) ? INVALID_USAGE : OK;
}

int ncclCommDestroy(Comm *c) {
  if (!c->closing) return broken(c, INVALID_USAGE, "destroyed before it was finalised");
  return OK; // the memory stays: a test that uses it afterwards shall be told so
}

int ncclCommAbort(Comm *c) {
  c->aborted = 1;
  return OK;
}

// ---- CUDA's events

int cudaSetDevice(int device) { return device == 0 ? 0 : 101; }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return *mode == 2 ? 0 : 1; }
const char *cudaGetErrorString(int code) { return code == 101 ? "invalid device ordinal" : "invalid argument"; }

int cudaEventCreateWithFlags(Event **event, unsigned flags) {
  *event = calloc(1, sizeof **event);
  (*event)->timed = !(flags & 2);
  return 0;
}

int cudaEventRecord(Event *event, uint64_t stream) {
  event->done = 0;
  if (stream != COMPUTING) return put((Op){.kind = MARK, .event = event}), 0;
  event->at = now();
  event->done = 1;
  return 0;
}

int cudaEventQuery(Event *event) { return event->done ? 0 : 600; }

int cudaEventSynchronize(Event *event) {
  while (!event->done) nap(0.05);
  return 0;
}

/** What is computed runs on the host: that it waits for an event is that the host does. */
int cudaStreamWaitEvent(uint64_t stream, Event *event, unsigned flags) {
  (void)flags;
  if (stream == COMPUTING) return cudaEventSynchronize(event);
  waited_for_ready = 1;
  return 0;
}

int cudaEventElapsedTime(float *ms, Event *from, Event *to) {
  if (!from->timed || !to->timed || !from->done || !to->done) return 1;
  *ms = (float)(to->at - from->at);
  return 0;
}
